#pragma once

#include "base/str.h"

#include <stdbool.h>

struct agent;
struct err;
struct net_pods;
struct object;
struct pod;

/* network: what of src/net concerns one pod of the agent.
 *
 * Every pod has an address of its own, so that programs which listen on "their" address and port do
 * not meet: on the pod network where there is one (net/bridge.h), else, in the host's network, one
 * of the loopback network (net/address.h). Its names are in net/hosts.h. */
void network_take_address(struct pod *pod);
void network_keep_address(struct pod *pod, struct str address);
/* Whether the pod is on the pod network. */
bool network_has_bridge(const struct pod *pod);
/* The pod came or went: if others have names for it, everybody's hosts file is looked at in the
 * next turn. */
void network_pod_changed(const struct pod *pod);
/* It runs, or does not any more: its hostPorts are passed on meanwhile (net/service.h). */
void network_ports_changed(const struct pod *pod);
/* It is ready, or is not any more: Services lead to it meanwhile. */
void network_ready_changed(const struct pod *pod);
/* `before`: what it was. Other labels are other Services. */
void network_pod_updated(const struct pod *pod, const struct object *before);
int network_write_hosts(struct pod *pod, struct err *err);
/* Of all pods that run, where names have changed. */
void network_write_changed(struct agent *agent);
/* The pods of the agent, for src/net. */
struct net_pods network_pods(struct agent *agent);
