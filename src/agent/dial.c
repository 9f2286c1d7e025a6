#include "agent/dial.h"

#include "tool/dial.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

int dial_pod(const char *ip, bool own_network, uint16_t port)
{
    int fd = dial_address(ip, port);
    return fd >= 0 || own_network ? fd : dial_address("127.0.0.1", port);
}

bool dial_is_loopback(const struct sockaddr_in *address)
{
    uint32_t first = ntohl(address->sin_addr.s_addr) >> 24;
    return first == IN_LOOPBACKNET || first == 0;
}
