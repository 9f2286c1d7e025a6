#pragma once

#include "sched/group.h"
#include "sched/sched.h"

#include <stdbool.h>
#include <stdint.h>

/* runtime: how long a group may run before it can be evicted. */

/* How long the group's own queue, or one above it, lets it run before it can be evicted. */
int64_t runtime_of(const struct group *group, enum sched_action action);
/* While protected, a group keeps its minimum. */
bool runtime_protects(const struct sched *sched,
                      const struct group *victim,
                      const struct group *by,
                      enum sched_action action);
