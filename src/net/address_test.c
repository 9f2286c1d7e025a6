#include "base/count.h"
#include "net/address.h"
#include "test.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

TEST(pods_get_addresses_in_turn_and_begin_again_at_the_end)
{
    static const struct {
        uint32_t first, next;
        const char *want;
        const char *then;
        const char *why;
    } rows[] = {
        {0, 0, "127.64.0.1", "127.64.0.2", "without a bridge: a loopback network"},
        {0, 0x003ffffc, "127.127.255.253", "127.64.0.1", "its last one, and the first again"},
        {0x0ac80002, 0, "10.200.0.2", "10.200.0.3", "the pod network, behind the node"},
        {0x0ac80002, 0x7ffc, "10.200.127.254", "10.200.0.2", "pods have its lower half"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct address_pool pool = {.first = rows[i].first, .next = rows[i].next};
        char ip[ADDRESS_BYTES];
        test_case(rows[i].why);
        address_pool_next(&pool, ip);
        EXPECT(strcmp(ip, rows[i].want) == 0);
        address_pool_next(&pool, ip);
        EXPECT(strcmp(ip, rows[i].then) == 0);
    }
}

TEST(addresses_of_pods_of_before_are_passed)
{
    static const struct {
        uint32_t first;
        const char *kept;
        const char *want;
        const char *why;
    } rows[] = {
        {0, "127.64.0.9", "127.64.0.10", "of the loopback network"},
        {0, "127.64.0.1", "127.64.0.4", "one that lies behind us"},
        {0, "10.200.0.9", "127.64.0.4", "of a bridge that is gone"},
        {0, "", "127.64.0.4", "none"},
        {0x0ac80002, "10.200.0.9", "10.200.0.10", "of the pod network"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct address_pool pool = {.first = rows[i].first, .next = 3};
        char ip[ADDRESS_BYTES];
        test_case(rows[i].why);
        address_pool_pass(&pool, rows[i].kept);
        address_pool_next(&pool, ip);
        EXPECT(strcmp(ip, rows[i].want) == 0);
    }
}
