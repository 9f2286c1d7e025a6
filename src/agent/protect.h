#pragma once

#include <stdbool.h>

struct agent;
struct pod;

/* protect: the machine before its pods: looks at it (agent/pressure.h), keeps pods from starting
 * while it is short of something, tells the nodes, and evicts. */

/* From the heartbeat. */
void protect_look(struct agent *agent);
/* May a pod start now? Otherwise what the machine is short of. NULL: it may. */
const char *protect_wait(struct agent *agent);
/* End the pod, with the reason Evicted. */
void protect_evict(struct pod *pod, const char *why);
