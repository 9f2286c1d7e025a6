#include "agent/dial.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdbool.h>
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

static int dial_address(const char *ip, uint16_t port)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port)};
    if (inet_pton(AF_INET, ip, &to.sin_addr) != 1)
        return -EINVAL;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -errno;
    int r = connect(fd, (const struct sockaddr *)&to, sizeof(to)) == 0 ? 0 : -errno;
    if (r == -EINPROGRESS)
        r = connection_state(fd);
    if (r == 0)
        return fd;
    close(fd);
    return r;
}

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
