#pragma once

#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

struct group;
struct sched;

/* hold: a gang that restarts keeps its room.
 *
 * A pod that leaves its room while its job restarts (api/hold.h says when that is so) leaves a
 * stand-in there: the same pod under a name that none of the API can have. To everybody else a
 * stand-in is a pod that runs: its node has no room for others, its queue pays for it, its gang
 * is not below its minimum, and whoever may evict the gang may evict it. So fairness needs no rule
 * of its own. When the gang's new pods are there they take the places of the stand-ins, before
 * anybody else is looked at. Until then the gang stands in no line: what arrives of it first must
 * not start alone.
 *
 * A stand-in goes when its place is taken, when it is evicted, when its time is over or taken
 * back, when its node cannot be used, and with its group. A pod that is being deleted while its
 * job restarts counts as running until it is gone (pod->staying), so that nobody is promised its
 * room.
 *
 * A core that was started anew sees pods that had failed before: their room is held again, as long
 * as it would have been. Of pods that are gone nothing is known.
 *
 * Not held: room that was lent (keep.h), devices of claims, which end with their pod, and shares
 * of a device that a reservation pod holds. KAI has nothing of the kind: NO_RESERVATION. */

/* Those whose time is over go. First thing in a cycle. */
void holds_judge(struct sched *sched);
/* Gangs whose new pods are there take their places. */
void holds_resume(struct sched *sched);
/* " 2 GPUs are held for ..." : what of the pool's GPUs, else CPUs, stand-ins hold; empty: nothing. */
struct str holds_text(const struct sched *sched, const struct group *group, bool gpus);
/* A number that changes with it. */
uint64_t holds_digest(const struct sched *sched);
