#pragma once

#include "base/str.h"
#include "sched/state.h"

#include <stdbool.h>
#include <stdint.h>

struct arena;

/* explain: the record of why a group waits (group->why, group->message), kept up to date. True: the
 * sentence is not what it was. */
bool explain_group(struct sched *sched, struct group *group);
/* "8 GPUs", "500m CPU", "16 GiB of memory" */
struct str explain_amount(struct arena *arena, int resource, int64_t amount);
