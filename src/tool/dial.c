#include "tool/dial.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <unistd.h>

/* What became of a connection that was begun: most are made, or refused, at once. */
static int connection_state(int fd)
{
    struct pollfd asked = {.fd = fd, .events = POLLOUT};
    int code = 0;
    socklen_t size = sizeof(code);
    if (poll(&asked, 1, 0) > 0 && getsockopt(fd, SOL_SOCKET, SO_ERROR, &code, &size) == 0)
        return -code;
    return 0;
}

int dial_address(const char *ip, uint16_t port)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(port)};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
    const struct sockaddr *to = (const struct sockaddr *)&v4;
    socklen_t size = sizeof(v4);

    if (inet_pton(AF_INET, ip, &v4.sin_addr) != 1) {
        to = (const struct sockaddr *)&v6;
        size = sizeof(v6);
        if (inet_pton(AF_INET6, ip, &v6.sin6_addr) != 1)
            return -EINVAL;
    }
    int fd = socket(to->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -errno;
    int r = connect(fd, to, size) == 0 ? 0 : -errno;
    if (r == -EINPROGRESS)
        r = connection_state(fd);
    if (r == 0)
        return fd;
    close(fd);
    return r;
}
