#include "base/str.h"
#include "fuzz/fuzz.h"
#include "shim/netlink.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Answers of a kernel: datagrams, each behind its length in two bytes, the low one first. The
 * question that they belong to has the number 1. Whatever they are, the call ends, and says an
 * errno or what it was asked for. */

static struct str next_datagram(struct str *input)
{
    size_t len = (unsigned char)input->p[0] | (size_t)(unsigned char)input->p[1] << 8;
    struct str datagram = str_sub(*input, 2, len);

    *input = str_sub(*input, 2 + datagram.len, input->len);
    return datagram;
}

/* A kernel that has said all of it, and says nothing more. */
static void answers_open(struct str input, struct netlink *netlink, int *ret_kernel)
{
    int ends[2] = {-1, -1};

    FUZZ_HOLDS(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
    while (input.len >= 2) {
        struct str datagram = next_datagram(&input);

        if (send(ends[1], datagram.p, datagram.len, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
            break;
    }
    FUZZ_HOLDS(shutdown(ends[1], SHUT_WR) == 0);
    *netlink = (struct netlink){.fd = ends[0]};
    *ret_kernel = ends[1];
}

static bool is_errno(int r)
{
    return r < 0 && r >= -4095;
}

FUZZ(netlink)
{
    struct netlink netlink;
    char alias[8];
    int kernel = -1;

    memset(alias, 'x', sizeof(alias));
    answers_open(input, &netlink, &kernel);
    int r = netlink_find(&netlink, "br0", alias, sizeof(alias));
    FUZZ_HOLDS(r > 0 || is_errno(r));
    FUZZ_HOLDS(r < 0 || memchr(alias, '\0', sizeof(alias)));
    netlink_close(&netlink);
    (void)close(kernel);

    answers_open(input, &netlink, &kernel);
    r = netlink_remove(&netlink, "br0");
    FUZZ_HOLDS(r == 0 || is_errno(r));
    netlink_close(&netlink);
    (void)close(kernel);
}
