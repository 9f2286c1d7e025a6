#pragma once

#include <stddef.h>
#include <stdint.h>

/* netlink: the few things the pod network asks of the kernel: interfaces, addresses, routes. Libc
 * only, because the shim uses it too. A socket works in the network namespace it was opened in,
 * wherever its process has gone since. Every call waits for the kernel's answer and returns 0 or
 * -errno. Addresses are in the host's byte order. */
struct netlink {
    int fd;
    uint32_t sequence;
};

int netlink_open(struct netlink *netlink);
void netlink_close(struct netlink *netlink);

/* A bridge that is up; `alias` says whose it is. -EEXIST when there is one of that name. */
int netlink_add_bridge(struct netlink *netlink, const char *name, const char *alias);
/* Gone already is fine. */
int netlink_remove(struct netlink *netlink, const char *name);
/* Index of an interface, above 0, and its alias ("" without one); -ENODEV. */
int netlink_find(struct netlink *netlink, const char *name, char *alias, size_t alias_size);
/* A pair: `name` here, a port of the interface `master` and up, and "eth0" in the namespace that
 * netns_fd stands for. */
struct netlink_pair {
    const char *name;
    uint32_t master;
    int netns_fd;
};
int netlink_add_pair(struct netlink *netlink, const struct netlink_pair *pair);
int netlink_set_up(struct netlink *netlink, uint32_t index);
int netlink_add_address(struct netlink *netlink, uint32_t index, uint32_t address, unsigned prefix);
int netlink_add_default_route(struct netlink *netlink, uint32_t gateway);
/* Packets to the whole of address/prefix that arrive are ours: programs may listen there. */
int netlink_add_local_route(struct netlink *netlink,
                            uint32_t index,
                            uint32_t address,
                            unsigned prefix);
