#pragma once

#include "sched/pool.h"
#include "sched/search.h"
#include "sched/tasks.h"

#include <stdbool.h>
#include <stdint.h>

struct sched;

/* hopeless: bounds that need no simulation. */

/* Whether no victims at all could make the group fit: it asks for more than the empty cluster, or
 * than any domain of a required topology, or for more domains than there are. */
bool search_hopeless(struct search *search);
/* How many of the tasks the nodes of the pool would hold with nothing else on them; all of them
 * where that takes more than counting. */
int64_t tasks_held_empty(const struct sched *sched,
                         const struct pool *pool,
                         const struct pod_vec *tasks);
