#pragma once

#include "base/str.h"
#include "base/vec.h"
#include "sched/allocate.h"
#include "sched/group.h"
#include "sched/place.h"
#include "sched/spec.h"
#include "sched/tasks.h"

#include <stdbool.h>
#include <stdint.h>

struct sched;
struct topology_cache;

/* topology: which parts of the cluster a group of pods may be kept together in. */
struct topology {
    struct str name;
    void *block;
    struct sched_topology spec;
};

/* The node sets to try for a set of subgroups, best first. Returns false with failure->text when
 * the constraint cannot be understood. */
struct node_sets VEC_FIELDS(struct node_set);
bool topology_subsets(struct sched *sched,
                      struct group *group,
                      uint32_t set,
                      const struct pod_vec *tasks,
                      const struct node_set *within,
                      struct node_sets *ret,
                      struct failure *failure);
/* The node label of the level that must be kept to, where an alias names it. */
struct str topology_label(const struct sched *sched, const struct sched_topology_want *want);
void topology_cache_free(struct topology_cache *cache);
