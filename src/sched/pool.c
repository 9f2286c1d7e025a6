#include "sched/pool.h"

#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/vec.h"
#include "sched/names.h"
#include "sched/node.h"
#include "sched/pod.h"
#include "sched/resource.h"
#include "sched/spec.h"
#include "sched/state.h"

#include <stddef.h>
#include <stdint.h>

struct pool *pool_get(struct sched *sched, struct str name)
{
    struct pool *pool = map_get(&sched->pools_by_name, name);

    if (pool)
        return pool;
    pool = MEM_NEW(struct pool);
    pool->name = heap_str(name);
    pool->policy = sched->config.policy;
    map_set(&sched->pools_by_name, pool->name, pool);
    VEC_PUSH(NULL, &sched->pools, pool);
    return pool;
}

void pool_totals(const struct sched *sched, struct pool *pool)
{
    int64_t least = 0;
    int64_t most = 0;
    int64_t gpus = 0;

    for (int r = 0; r < SCHED_RESOURCES; r++)
        pool->total[r] = 0;
    for (size_t i = 0; i < pool->nodes.count; i++) {
        const struct node *node = pool->nodes.items[i];

        if (!node->schedulable)
            continue;
        gpus = i64_max(gpus, node->total[RES_GPU]);
        pool->total[SCHED_CPU] += node->total[RES_CPU];
        pool->total[SCHED_MEMORY] += node->total[RES_MEMORY];
        if (!pool->policy.restrict_nodes || node->spec.gpu_worker)
            pool->total[SCHED_GPU] += node->total[RES_GPU] * GPU_MILLI;
        if (node->total[RES_GPU] && node->spec.gpu_memory_mib > 0) {
            least = least && least < node->gpu_memory ? least : node->gpu_memory;
            most = i64_max(most, node->gpu_memory);
        }
        for (size_t m = 0; m < node->spec.amount_count; m++)
            pool->total[SCHED_GPU] += shape_mig_slices(node->spec.amounts[m].name) *
                                      node->spec.amounts[m].amount * GPU_MILLI;
        /* Pods of other schedulers: what they hold is not ours to share. */
        for (size_t p = 0; sched->config.scheduler_name.len && p < node->pods.count; p++) {
            const struct pod *pod = node->pods.items[p];
            for (int r = 0; !pod->ours && r < SCHED_RESOURCES; r++)
                pool->total[r] -= pod->charge[r];
        }
    }
    pool->min_gpu_memory = least ? least : 100;
    pool->max_gpu_memory = most ? most : 100;
    pool->most_gpus = gpus;
}
