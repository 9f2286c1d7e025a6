#include "system/sockets.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stddef.h>
#include <sys/socket.h>

#ifdef __linux__

int socket_open(int family, int type, int protocol)
{
    return socket(family, type | SOCK_CLOEXEC, protocol);
}

int socket_accept(int fd)
{
    return accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
}

static void socket_set_idle(int fd, const struct socket_patience *patience)
{
    (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &patience->unanswered_ms,
                     sizeof(patience->unanswered_ms));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &patience->idle_s, sizeof(patience->idle_s));
}

#else

int socket_open(int family, int type, int protocol)
{
    int fd = socket(family, type, protocol);

    if (fd >= 0)
        (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
    return fd;
}

int socket_accept(int fd)
{
    int accepted = (accept)(fd, NULL, NULL); /* there is no accept4() */

    if (accepted >= 0) {
        (void)fcntl(accepted, F_SETFD, FD_CLOEXEC);
        (void)fcntl(accepted, F_SETFL, O_NONBLOCK);
    }
    return accepted;
}

static void socket_set_idle(int fd, const struct socket_patience *patience)
{
    int unanswered_s = (int)((patience->unanswered_ms + 999) / 1000);

    (void)setsockopt(fd, IPPROTO_TCP, TCP_RXT_CONNDROPTIME, &unanswered_s, sizeof(unanswered_s));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPALIVE, &patience->idle_s, sizeof(patience->idle_s));
}

#endif

void socket_be_patient(int fd, const struct socket_patience *patience)
{
    int on = 1;

    socket_set_idle(fd, patience);
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &patience->idle_s, sizeof(patience->idle_s));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &patience->probes, sizeof(patience->probes));
}
