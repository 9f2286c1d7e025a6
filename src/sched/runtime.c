#include "sched/runtime.h"

#include "sched/group.h"
#include "sched/queue.h"
#include "sched/sched.h"
#include "sched/state.h"

#include <stdbool.h>
#include <stdint.h>

static int64_t runtime_upwards(const struct queue *queue, enum sched_action action)
{
    for (; queue; queue = queue->parent) {
        int64_t ms = action == SCHED_ACTION_PREEMPT ? queue->spec.preempt_min_runtime_ms
                                                    : queue->spec.reclaim_min_runtime_ms;
        if (ms >= 0)
            return ms;
    }
    return -1;
}

/* For reclaim: the victim's side of the lowest common ancestor, and upwards from there. */
static const struct queue *victim_side(const struct queue *victim, const struct queue *by)
{
    while (victim->level > by->level)
        victim = victim->parent;
    while (by->level > victim->level)
        by = by->parent;
    while (victim->parent != by->parent) {
        victim = victim->parent;
        by = by->parent;
    }
    return victim;
}

int64_t runtime_of(const struct group *group, enum sched_action action)
{
    int64_t ms = runtime_upwards(group->queue, action);

    if (ms >= 0)
        return ms;
    return action == SCHED_ACTION_PREEMPT ? group_policy(group)->preempt_min_runtime_ms
                                          : group_policy(group)->reclaim_min_runtime_ms;
}

bool runtime_protects(const struct sched *sched,
                      const struct group *victim,
                      const struct group *by,
                      enum sched_action action)
{
    const struct sched_policy *policy = group_policy(victim);
    const struct queue *from = victim->queue;
    int64_t ms = 0;

    if (!victim->last_start_ms ||
        (action == SCHED_ACTION_CONSOLIDATE && QUIRK(sched, CONSOLIDATE_MIN_RUNTIME)))
        return false;
    if (action != SCHED_ACTION_PREEMPT && !policy->reclaim_runtime_by_queue && from != by->queue)
        from = victim_side(from, by->queue);
    ms = runtime_upwards(from, action);
    if (ms < 0)
        ms = action == SCHED_ACTION_PREEMPT ? policy->preempt_min_runtime_ms
                                            : policy->reclaim_min_runtime_ms;
    return sched->now_ms < victim->last_start_ms + ms;
}
