#include "sched/pending.h"

#include "base/str.h"
#include "sched/group.h"
#include "sched/journal.h"
#include "sched/names.h"
#include "sched/order.h"
#include "sched/pod.h"
#include "sched/pool.h"
#include "sched/queue.h"
#include "sched/sched.h"
#include "sched/state.h"
#include "sched/tenant.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

bool group_allowed(const struct sched *sched, const struct group *group)
{
    const struct queue *queue = group->queue;

    return group->known && sched->now_ms >= group->retry_ms && queue && !queue->broken &&
           !queue->children.count && !group->held && !group->over_ms && !group->refusal &&
           !tenant_refused(sched, group) && str_eq(name_text(group->pool_name), queue->spec.pool) &&
           group_ready(group);
}

bool group_eligible(const struct sched *sched, const struct group *group)
{
    return !group->stand_ins && group_allowed(sched, group);
}

bool group_rests(struct sched *sched, const struct group *group)
{
    if (sched->now_ms >= group->retry_ms)
        return false;
    sched_wake(sched, group->retry_ms);
    return true;
}

void pending_order(struct sched *sched, enum sched_action action, struct order *order)
{
    order_init(order, sched, ORDER_PENDING);
    for (size_t q = 0; q < sched->queues.count; q++) {
        struct queue *queue = sched->queues.items[q];

        if (!queue_runs(queue, action))
            continue;
        for (size_t i = 0; i < queue->pending.count; i++)
            if (queue->pending.items[i]->count[ST_PENDING] &&
                !group_rests(sched, queue->pending.items[i]) &&
                group_eligible(sched, queue->pending.items[i]))
                order_push(order, queue->pending.items[i]);
        uint32_t depth = queue->pool->policy.depth[action];
        if (depth && order_cut(order, queue, depth))
            sched->cut = true;
    }
}

bool pending_comes(const struct sched *sched, const struct pod *pod)
{
    return pod->status == ST_BINDING && !pod->observed_node && pod->placed_in == sched->cycle;
}

void group_hold_back(struct sched *sched, const struct group *group)
{
    for (size_t i = 0; i < group->pods.count; i++) {
        struct pod *pod = group->pods.items[i];

        if (pending_comes(sched, pod))
            pod_set(sched, pod, ST_PIPELINED, pod->node, pod_shares(pod), pod->share_count);
    }
}
