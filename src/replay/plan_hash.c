#include "replay/plan_hash.h"

#include "base/str.h"
#include "sched/sched.h"

#include <stddef.h>
#include <stdint.h>

static uint64_t add_str(uint64_t hash, struct str text)
{
    return str_hash(text, hash + 1);
}

static uint64_t add_i64(uint64_t hash, int64_t number)
{
    return str_hash((struct str){(const char *)&number, sizeof(number)}, hash + 1);
}

static uint64_t add_pod(uint64_t hash, const struct sched_pod_ref *pod, struct str group)
{
    return add_str(add_str(add_str(add_str(hash, pod->ns), pod->name), pod->uid), group);
}

static uint64_t add_bind(uint64_t hash, const struct sched_bind *bind)
{
    hash = add_str(add_pod(hash, &bind->pod, bind->group), bind->node);
    hash = add_i64(add_i64(hash, bind->batch), bind->first_start);
    hash = add_i64(add_i64(hash, bind->gpu_fraction_micro), bind->gpu_memory_mib);
    for (size_t i = 0; i < bind->device_count; i++)
        hash = add_i64(hash, bind->devices[i]);
    for (size_t i = 0; i < bind->gpu_group_count; i++)
        hash = add_str(hash, bind->gpu_groups[i]);
    return hash;
}

uint64_t plan_hash(const struct sched_plan *plan)
{
    uint64_t hash = 1;

    for (size_t i = 0; i < plan->bind_count; i++)
        hash = add_bind(hash, &plan->binds[i]);
    for (size_t i = 0; i < plan->evict_count; i++) {
        const struct sched_evict *evict = &plan->evicts[i];

        hash = add_i64(add_pod(hash, &evict->pod, evict->group), evict->action);
        hash = add_i64(add_str(add_str(hash, evict->for_ns), evict->for_group), evict->moved);
    }
    for (size_t i = 0; i < plan->nominate_count; i++)
        hash = add_str(add_pod(hash, &plan->nominates[i].pod, plan->nominates[i].group),
                       plan->nominates[i].node);
    for (size_t i = 0; i < plan->waiting_count; i++) {
        const struct sched_waiting *waiting = &plan->waiting[i];

        hash = add_i64(add_str(add_str(hash, waiting->ns), waiting->group), waiting->reason);
        hash = add_i64(hash, waiting->pending_pods);
    }
    for (size_t i = 0; i < plan->note_count; i++)
        hash = add_i64(add_str(add_str(hash, plan->notes[i].ns), plan->notes[i].group),
                       plan->notes[i].note);
    return add_i64(hash, plan->next_wake_ms);
}
