#pragma once

#include "sched/group.h"
#include "sched/keep.h"
#include "sched/spec.h"
#include "sched/tasks.h"

#include <stdbool.h>
#include <stdint.h>

struct sched;

/* spot: which nodes to keep for a gang that has waited long.
 *
 * Nodes are put in order by what is in the gang's way there. Of the first of them as few as will do
 * are emptied in the journal, and the gang is placed there as it will be one day, with all its
 * constraints: where its pods then are is what is kept. */
struct spot_choice {
    struct keep_slot *slots;          /* one a task, by node */
    int64_t blocked[SCHED_RESOURCES]; /* what others still hold of them */
    uint32_t in_use;                  /* nodes of which they do */
    bool fresh;      /* some began since room was kept, and nobody knows their end */
    int64_t ends_ms; /* by when they have ended; INT64_MAX: not known */
};

/* Whether the gang would fit if all that we placed were gone, whatever its queues still let in. */
bool spots_exist(struct sched *sched, struct group *group, const struct pod_vec *tasks);
/* Whether it surely would not, by a trial in between, of which nothing is left. */
bool spots_lack(struct sched *sched, struct group *group, const struct pod_vec *tasks);
/* False: the gang would not fit if all that we placed were gone. */
bool spots_choose(struct sched *sched,
                  struct group *group,
                  const struct pod_vec *tasks,
                  struct spot_choice *ret);
