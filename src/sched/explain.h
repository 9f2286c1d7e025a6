#pragma once

#include "base/str.h"
#include "sched/sched.h"

#include <stdbool.h>
#include <stdint.h>

struct arena;
struct group;

/* explain: the record of why a group waits (group->told), kept up to date. */
/* What was last said of a group that waited, heap. */
struct told {
    struct sched_why why;
    struct str message; /* heap */
    struct str queue;   /* heap: that stands in the way; empty: its own */
    uint64_t digest;    /* of what the record was worked out from */
};

/* Brings the record up to date. True: the sentence is not what it was. */
bool explain_group(struct sched *sched, struct group *group);
/* "8 GPUs", "500m CPU", "16 GiB of memory" */
struct str explain_amount(struct arena *arena, int resource, int64_t amount);
