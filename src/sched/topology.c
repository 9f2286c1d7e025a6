#include "sched/allocate.h"
#include "sched/state.h"

bool topology_subsets(struct sched *sched,
                      struct group *group,
                      uint32_t set,
                      const struct pod_vec *tasks,
                      const struct node_set *within,
                      struct node_sets *ret,
                      struct failure *failure)
{
    (void)group;
    (void)set;
    (void)tasks;
    (void)failure;
    VEC_PUSH(sched->arena, ret, *within);
    return true;
}

void topology_cache_free(struct topology_cache *cache)
{
    (void)cache;
}
