#pragma once

#include <stdbool.h>
#include <stdint.h>

struct agent;
struct buf;
struct err;
struct machine;
struct pod;

/* bridge: the pod network of this node, where the machine permits one.
 *
 * A bridge of ours (name: BRIDGE_PREFIX and a hash of the data folder; its alias is the folder),
 * and for every pod a pair of interfaces: eth0 in the pod's network namespace and a port of the
 * bridge. The shim makes the pair together with the namespace, so it goes when the pod does. The
 * node has a /16 of 10.0.0.0/8 that nobody on the machine uses:
 *
 *     10.X.0.1        the node; gateway of the pods
 *     10.X.0.2 ...    pods, up to 10.X.127.254
 *     10.X.128.1      the API server, port 443, passed on (agent/service.h)
 *     10.X.128.2 ...  ClusterIP services, passed on
 *
 * Pods reach what is outside through a masquerade of nftables, in a table of our own, where the
 * machine forwards packets already (net.ipv4.ip_forward): Muster changes no setting of the machine.
 * Bridge and table go when muster ends and no pod is left; until then they stay for the pods, and
 * the next muster finds them. */
#define BRIDGE_PREFIX "mus"

struct bridge {
    bool on;
    char name[16];
    uint32_t index;
    uint32_t base; /* 10.X.0.0 */
    bool outside;  /* pods are masqueraded */
};

/* Fails only where a bridge must be. */
int bridge_start(struct agent *agent, struct err *err);
void bridge_stop(struct agent *agent);
/* What keeps pods of this machine from having one by themselves; NULL: nothing. */
const char *bridge_missing(const struct machine *machine);
/* What the shim needs to know to connect the pod. */
void bridge_add(const struct pod *pod, struct buf *records);
/* "10.X.0.1", or "127.0.0.1" without a bridge: where pods find this node. */
void bridge_node_address(const struct agent *agent, char out[static 16]);
/* Whether the pod is on it. */
bool bridge_has(const struct pod *pod);
/* resolv.conf for pods: the host's name servers that can be reached from another namespace. */
void bridge_resolv_conf(struct buf *out);

#define BRIDGE_POD_FIRST     0x0002u
#define BRIDGE_POD_COUNT     0x7ffdu
#define BRIDGE_API           0x8001u
#define BRIDGE_SERVICE_FIRST 0x8002u
#define BRIDGE_SERVICE_COUNT 0x7ff0u
