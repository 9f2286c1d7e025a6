#pragma once

#include "api/service.h"
#include "net/address.h"

#include <stdbool.h>
#include <stdint.h>

struct bridge;
struct buf;
struct err;
struct log;

/* bridge: the pod network of this node, where the machine permits one.
 *
 * A bridge of ours (name: BRIDGE_PREFIX and a hash of the data folder; its alias is the folder),
 * and for every pod a pair of interfaces: eth0 in the pod's network namespace and a port of the
 * bridge. The shim makes the pair together with the namespace, so it goes when the pod does. The
 * node has a /16 of 10.0.0.0/8 that nobody on the machine uses:
 *
 *     10.X.0.1        the node; gateway of the pods
 *     10.X.0.2 ...    pods, up to 10.X.127.254
 *     10.X.128.1      the API server, port 443, passed on (net/service.h); names, port 53 (net/dns.h)
 *     10.X.128.2 ...  ClusterIP services, passed on
 *
 * What is outside is reached as net/outside.h says. Bridge and table go when muster ends and no pod
 * is left; until then they stay for the pods, and the next muster finds them.
 *
 * A NULL bridge is none: pods are in the host's network, on loopback addresses. */
#define BRIDGE_PREFIX "mus"

enum bridge_wish {
    BRIDGE_AUTO, /* where pods could reach the outside through it */
    BRIDGE_NEVER,
    BRIDGE_ALWAYS, /* or fail to start */
};

struct bridge_options {
    enum bridge_wish wish;
    const char *data_dir; /* names it, and keeps which range it has; must outlive it */
    bool permitted;       /* we are root and can make namespaces */
    const struct log *log;
};

/* Fails only where a bridge must be. *ret is NULL where there is none. */
int bridge_start(const struct bridge_options *options, struct bridge **ret, struct err *err);
/* in_use: pods go on and need it, so it stays on the machine. Frees it; NULL is fine. */
void bridge_stop(struct bridge *bridge, bool in_use);
/* What keeps pods of this machine from having one by themselves; NULL: nothing. */
const char *bridge_missing(bool permitted);

/* What the shim needs to know to connect a pod, by its uid and its address. */
void bridge_add(const struct bridge *bridge, struct str uid, const char *ip, struct buf *records);
/* "10.X.0.1", or "127.0.0.1" without a bridge: where pods find this node. */
void bridge_node_address(const struct bridge *bridge, char out[static ADDRESS_BYTES]);
/* Where pods reach the API server. */
void bridge_api_address(const struct bridge *bridge, char out[static ADDRESS_BYTES]);
/* Its network, 10.X.0.0; 0 without a bridge. */
#define BRIDGE_MASK 0xffff0000u
uint32_t bridge_base(const struct bridge *bridge);
/* The first address of pods, for struct address_pool; 0 without a bridge. */
uint32_t bridge_pod_first(const struct bridge *bridge);
/* What services get their addresses of. */
struct service_network bridge_services(const struct bridge *bridge);
