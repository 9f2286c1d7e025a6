#pragma once

#include "sched/group.h"
#include "sched/pod.h"
#include "sched/pool.h"
#include "sched/tasks.h"

#include <stdbool.h>
#include <stdint.h>

struct sched;

/* hopeless: bounds that need no simulation. */

/* Whether the tasks of the group could not even start if nothing else ran: one of them fits on no
 * empty node, or all ask for more than the empty cluster has, or than any domain of a required
 * topology, or for more domains than there are. */
bool tasks_hopeless(struct sched *sched, const struct group *group, const struct pod_vec *tasks);
/* Whether no node of the pool would hold the pod if it were empty. Somebody may have thousands of
 * such pods, so it is remembered by shape until a node changes. */
bool pod_fits_nowhere(const struct sched *sched, const struct pool *pool, const struct pod *pod);
/* How many of the tasks the nodes of the pool would hold with nothing else on them; all of them
 * where that takes more than counting. */
int64_t tasks_held_empty(const struct sched *sched,
                         const struct pool *pool,
                         const struct pod_vec *tasks);
