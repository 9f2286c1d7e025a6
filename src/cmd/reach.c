#include "cmd/reach.h"

#include <arpa/inet.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define DISCARD_PORT 9 /* nothing is sent: connecting a datagram socket only picks the way */

static bool reach_own(int family, char out[static INET6_ADDRSTRLEN])
{
    struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = htons(DISCARD_PORT)};
    struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = htons(DISCARD_PORT)};
    const struct sockaddr *to = family == AF_INET ? (void *)&four : (void *)&six;
    socklen_t len = family == AF_INET ? sizeof(four) : sizeof(six);
    int fd = socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool found;

    /* Addresses kept for documentation: everybody's way outside leads there. */
    (void)inet_pton(AF_INET, "192.0.2.1", &four.sin_addr);
    (void)inet_pton(AF_INET6, "2001:db8::1", &six.sin6_addr);
    found = fd >= 0 && connect(fd, to, len) == 0 &&
            getsockname(fd, family == AF_INET ? (void *)&four : (void *)&six, &len) == 0;
    if (fd >= 0)
        (void)close(fd);
    return found && inet_ntop(family,
                              family == AF_INET ? (const void *)&four.sin_addr
                                                : (const void *)&six.sin6_addr,
                              out, INET6_ADDRSTRLEN);
}

void reach_address(const char *listen, char out[static INET6_ADDRSTRLEN])
{
    bool any4 = strcmp(listen, "0.0.0.0") == 0;
    bool any6 = strcmp(listen, "::") == 0;

    if (any4 && reach_own(AF_INET, out))
        return;
    if (any6 && reach_own(AF_INET6, out))
        return;
    (void)snprintf(out, INET6_ADDRSTRLEN, "%s", any4 ? "127.0.0.1" : any6 ? "::1" : listen);
}
