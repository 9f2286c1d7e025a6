#include "net/address.h"

#include <stdio.h>

#define NETWORK_COUNT  0x7ffdu     /* pods of the pod network (net/bridge.h) */
#define LOOPBACK_FIRST 0x7f400001u /* 127.64.0.1 */
#define LOOPBACK_COUNT 0x003ffffdu

void address_v4_text(uint32_t address, char out[static ADDRESS_BYTES])
{
    (void)snprintf(out, ADDRESS_BYTES, "%u.%u.%u.%u", address >> 24, address >> 16 & 255,
                   address >> 8 & 255, address & 255);
}

void address_pool_next(struct address_pool *pool, char out[static ADDRESS_BYTES])
{
    uint32_t number = pool->next++;
    address_v4_text(pool->first ? pool->first + number % NETWORK_COUNT
                                : LOOPBACK_FIRST + number % LOOPBACK_COUNT,
                    out);
}

void address_pool_pass(struct address_pool *pool, const char *address)
{
    unsigned a, b, c, d;
    if (sscanf(address, "%u.%u.%u.%u", &a, &b, &c, &d) != 4)
        return;
    uint32_t next = (a << 24 | b << 16 | c << 8 | d) + 1;
    next -= a == 10 ? pool->first : LOOPBACK_FIRST;
    if (next > pool->next && next < LOOPBACK_COUNT)
        pool->next = next;
}
