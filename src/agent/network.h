#pragma once

#include "base/str.h"

#include <stdbool.h>

struct agent;
struct err;
struct pod;

/* network: a pod's address and the names it can use.
 *
 * Every pod has an address of its own, so that programs which listen on "their" address and port do
 * not meet: on the pod network where there is one (agent/bridge.h), else, in the host's network,
 * one of 127.64.0.0/10, which needs no privilege. Names are lines of the pod's own /etc/hosts,
 * rewritten when pods or services come and go. */
void network_take_address(struct pod *pod);
void network_keep_address(struct pod *pod, struct str address);
void network_give_address(struct pod *pod);
/* Names have changed: everybody's hosts file is looked at in the next turn. */
void network_changed(struct agent *agent);
int network_write_hosts(struct pod *pod, struct err *err);
/* Of all pods that run, where they have changed. */
void network_write_all_hosts(struct agent *agent);
/* Do other pods have names for this one? */
bool network_matters(const struct pod *pod);
