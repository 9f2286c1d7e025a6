#include "shim/netlink.h"
#include "shim/parts.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <sys/types.h>
#include <unistd.h>

/* shim_net: a pod's network namespace and its way onto the bridge. The pair of interfaces is made
 * from outside, by a socket that was opened there, and is configured from inside; it goes with the
 * namespace, so nobody has to clean up behind a shim that was killed. */

static int address_of(const struct records *pod, const char *name, uint32_t *ret)
{
    struct in_addr address;
    const char *text = records_get(pod, name);
    if (!text || inet_pton(AF_INET, text, &address) != 1)
        return -EINVAL;
    *ret = ntohl(address.s_addr);
    return 0;
}

static int connect_pod(const struct records *pod, struct netlink *outside, struct netlink *inside)
{
    uint32_t address = 0, gateway = 0;
    int r = address_of(pod, "net.address", &address);
    if (r == 0)
        r = address_of(pod, "net.gateway", &gateway);
    if (r)
        return r;
    struct netlink_pair pair = {.name = records_get(pod, "net.name"),
                                .master = (uint32_t)records_number(pod, "net.bridge", 0),
                                .netns_fd = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC)};
    if (pair.netns_fd < 0 || !pair.name)
        return -EINVAL;
    r = netlink_add_pair(outside, &pair);
    if (r == -EEXIST) { /* of a shim that was killed a moment ago */
        (void)netlink_remove(outside, pair.name);
        r = netlink_add_pair(outside, &pair);
    }
    close(pair.netns_fd);
    uint32_t index = r == 0 ? if_nametoindex("eth0") : 0;
    if (r == 0 && !index)
        r = -ENODEV;
    if (r == 0)
        r = netlink_add_address(inside, index, address,
                                (unsigned)records_number(pod, "net.prefix", 16));
    if (r == 0)
        r = netlink_set_up(inside, index);
    return r ? r : netlink_add_default_route(inside, gateway);
}

/* Everybody in the pod may ping, as with other runtimes: echo requests by a socket that can send
 * nothing else need no capability. Where the kernel does not let us say so, ping needs NET_RAW. */
static void allow_ping(void)
{
    static const char groups[] = "0 2147483647";
    int fd = open("/proc/sys/net/ipv4/ping_group_range", O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    ssize_t n = write(fd, groups, sizeof(groups) - 1);
    (void)n;
    close(fd);
}

int network_make(const struct records *pod)
{
    struct netlink outside, inside = {.fd = -1};
    int r = netlink_open(&outside);
    if (r)
        return r;
    if (unshare(CLONE_NEWNET) < 0)
        r = -errno;
    if (r == 0)
        allow_ping();
    if (r == 0)
        r = netlink_open(&inside);
    if (r == 0)
        r = netlink_set_up(&inside, 1); /* lo is the first one in every namespace */
    if (r == 0 && records_get(pod, "net.bridge"))
        r = connect_pod(pod, &outside, &inside);
    netlink_close(&outside);
    netlink_close(&inside);
    return r;
}
