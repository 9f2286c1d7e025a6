#pragma once

#include "sched/allocate.h"
#include "sched/order.h"
#include "sched/sched.h"
#include "sched/state.h"

#include <stdbool.h>
#include <stdint.h>

/* cycle: the parts of sched_cycle(). */
bool group_eligible(const struct sched *sched, const struct group *group);
/* A write for it failed a moment ago: it is left alone, and a cycle asked for when that is over. */
bool group_rests(struct sched *sched, const struct group *group);
/* Whether the queue's pool runs the action. */
static inline bool queue_runs(const struct queue *queue, enum sched_action action)
{
    return (queue->pool->policy.actions & 1U << action) != 0;
}
/* The eligible groups with waiting pods that the action looks at, in an order to pop from. */
void pending_order(struct sched *sched, enum sched_action action, struct order *order);

/* A leaf whose minimum counts on room that is still in use: nothing of the group may start yet. */
bool group_must_wait(const struct group *group);
/* What this cycle would have bound of it is promised instead. */
void group_hold_back(struct sched *sched, const struct group *group);
/* The shell is asked for a cycle at that time, even if nothing happens. */
void sched_wake(struct sched *sched, int64_t at_ms);

/* plan.c */
void plan_emit(struct sched *sched, struct sched_plan *ret);

/* explain.c */
void explain_failure(struct sched *sched, struct group *group, const struct failure *failure);
