#include "base/map.h"
#include "base/str.h"
#include "base/vec.h"
#include "sched/names.h"
#include "sched/node.h"
#include "sched/pod.h"
#include "sched/queue.h"
#include "sched/resource.h"
#include "sched/sched.h"
#include "sched/spec.h"
#include "sched/state.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

bool sched_node_view(const struct sched *sched, struct str name, struct sched_node_view *ret)
{
    const struct node *node = map_get(&sched->nodes_by_name, name);

    if (!node)
        return false;
    *ret = (struct sched_node_view){
        .name = node->name,
        .idle_cpu_milli = node->idle[RES_CPU],
        .idle_memory_bytes = node->idle[RES_MEMORY],
        .idle_gpus = node->idle[RES_GPU],
        .releasing_gpus = node->releasing[RES_GPU],
        .gpus = node->total[RES_GPU],
        .pod_count = node->pods.count,
    };
    for (uint32_t i = 0; i < node->share_count; i++) {
        const struct share *share = &node->shares[i];

        if (!share->live || node->gpu_memory <= 0)
            continue;
        ret->shared_gpus++;
        ret->free_shares_milli +=
            (node->gpu_memory - share->allocated - share->releasing) * GPU_MILLI / node->gpu_memory;
    }
    return true;
}

bool sched_promised(const struct sched *sched, struct str ns, struct str name, struct str *ret_node)
{
    char text[KEY_BYTES];
    const struct pod *pod =
        ns.len + name.len + 2 < sizeof(text)
            ? map_get(&sched->pods_by_key, sched_key(text, sizeof(text), ns, name))
            : NULL;

    if (!pod || pod->status != ST_PIPELINED)
        return false;
    *ret_node = pod->node->name;
    return true;
}

bool sched_queue_view(const struct sched *sched, struct str name, struct sched_queue_view *ret)
{
    const struct queue *queue = map_get(&sched->queues_by_name, name);

    if (!queue || !queue->known)
        return false;
    *ret = (struct sched_queue_view){.name = queue->name, .orphan = queue->broken};
    for (int r = 0; r < SCHED_RESOURCES; r++) {
        ret->quota[r] = queue->spec.quota[r].quota;
        ret->limit[r] = queue->spec.quota[r].limit;
        ret->fair_share[r] = queue->fair[r];
        ret->allocated[r] = queue_units(r, queue->allocated[r]);
        ret->allocated_non_preemptible[r] = queue_units(r, queue->fixed[r]);
        ret->requested[r] = queue_units(r, queue->allocated[r] + queue->asked[r]);
        ret->usage[r] = queue->has_usage ? queue->usage[r] : queue->spec.usage[r];
    }
    return true;
}

void sched_count(const struct sched *sched, struct sched_counts *ret)
{
    *ret = (struct sched_counts){
        .nodes = sched->nodes_by_name.count,
        .pods = sched->pods_by_key.count,
        .groups = sched->groups_by_key.count,
        .queues = sched->queues.count,
    };
}

void sched_tally(const struct sched *sched, enum sched_action action, struct sched_tally *ret)
{
    *ret = sched->tally[action];
}

void sched_measure(struct sched *sched, void (*done)(void *user, enum sched_step step), void *user)
{
    sched->measure = done;
    sched->measure_user = user;
}

void sched_tap(struct sched *sched,
               void (*saw)(void *user, const struct sched_input *input),
               void *user)
{
    sched->tap = saw;
    sched->tap_user = user;
}

bool sched_next_user(const struct sched *sched,
                     struct str queue,
                     size_t *cursor,
                     struct str *ret_user,
                     int64_t ret_held[static SCHED_RESOURCES])
{
    const struct queue *found = map_get(&sched->queues_by_name, queue);

    if (!found || found->spec.order != SCHED_ORDER_USERS || *cursor >= found->payers.count)
        return false;
    const struct payer *payer = found->payers.items[(*cursor)++];
    *ret_user = payer->user;
    memcpy(ret_held, payer->held, sizeof(payer->held));
    return true;
}
