#pragma once

#include "sched/group.h"
#include "sched/order.h"
#include "sched/pod.h"
#include "sched/sched.h"

#include <stdbool.h>

/* pending: which waiting groups an action looks at. */
/* The same but for room that is held for it: with that it waits for its pods, and stands in no line
 * (hold.h). */
bool group_allowed(const struct sched *sched, const struct group *group);
bool group_eligible(const struct sched *sched, const struct group *group);
/* A write for it failed a moment ago: it is left alone, and a cycle asked for when that is over. */
bool group_rests(struct sched *sched, const struct group *group);
/* The eligible groups with waiting pods that the action looks at, in an order to pop from. */
void pending_order(struct sched *sched, enum sched_action action, struct order *order);
/* It is to be bound by this cycle. */
bool pending_comes(const struct sched *sched, const struct pod *pod);
/* What this cycle would have bound of it is promised instead. */
void group_hold_back(struct sched *sched, const struct group *group);
