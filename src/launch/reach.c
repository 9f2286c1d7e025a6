#include "launch/reach.h"

#include "base/err.h"
#include "base/str.h"
#include "workspace/address.h"
#include "workspace/resolve.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define CONNECT_LIMIT_MS 1000
#define CONNECT_TRIES    3
#define PAUSE_NS         200000000

/* "host:port"; without a port there is nothing to try. */
static bool endpoint_split(const char *endpoint, struct str *ret_host, uint16_t *ret_port)
{
    struct str text = str_from(endpoint);
    uint64_t port;
    size_t colon = text.len;

    while (colon > 0 && text.p[colon - 1] != ':')
        colon--;
    if (colon < 2 || !str_to_u64(str_sub(text, colon, text.len), &port) || port == 0 ||
        port > UINT16_MAX)
        return false;
    *ret_host = str_sub(text, 0, colon - 1); /* an IPv6 address in brackets, as in a URL */
    *ret_port = (uint16_t)port;
    return true;
}

int reach_listen(const char *endpoint, struct err *err)
{
    struct str host;
    uint16_t port;
    int fd;

    if (!endpoint_split(endpoint, &host, &port))
        return 0;
    fd = address_listen(NULL, port, 1, NULL);
    if (fd < 0)
        return err_set(err, fd,
                       "cannot listen on the rendezvous port %u (%s): another process in this "
                       "pod's network uses it; set another distributed.port, or remove it",
                       port, strerrordesc_np(-fd));
    close(fd);
    return 0;
}

static int try_connect(struct address address, uint16_t port)
{
    struct sockaddr_storage to;
    socklen_t to_size = address_to(address, port, &to);
    int fd = socket(to.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct pollfd poll_one = {.fd = fd, .events = POLLOUT};
    socklen_t size = sizeof(int);
    int error = 0;

    if (connect(fd, (struct sockaddr *)&to, to_size) < 0 && errno != EINPROGRESS)
        error = errno;
    else if (poll(&poll_one, 1, CONNECT_LIMIT_MS) <= 0)
        error = ETIMEDOUT;
    else
        (void)getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
    close(fd);
    return -error;
}

int reach_connect(const char *endpoint, struct err *err)
{
    const struct timespec pause = {.tv_nsec = PAUSE_NS};
    struct address address;
    struct str host;
    uint16_t port;
    int r = 0;

    if (!endpoint_split(endpoint, &host, &port))
        return 0;
    for (int i = 0; i < CONNECT_TRIES; i++) {
        r = resolve_host(host, &address, NULL);
        if (r == 0)
            r = try_connect(address, port);
        if (r == 0)
            return 0;
        (void)nanosleep(&pause, NULL);
    }
    return err_set(err, r,
                   "the rendezvous endpoint %s cannot be reached (%s): check "
                   "distributed.rdzvEndpoint, and that the network lets the pods through",
                   endpoint, strerrordesc_np(-r));
}
