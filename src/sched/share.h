#pragma once

#include "base/str.h"
#include "sched/spec.h"

#include <stddef.h>
#include <stdint.h>

/* share: how the queues of one parent divide what the parent has.
 *
 * Pure arithmetic on doubles, because KAI's is; every other module compares its results only. Each
 * resource is divided on its own: first everybody's quota as far as it is asked for, then what is
 * left by priority and weight, whole units first and then single units by largest remainder. */
struct share_queue {
    struct str name;
    int64_t created_ms;
    int64_t priority;
    double quota; /* SCHED_UNLIMITED: all of it */
    double limit; /* SCHED_UNLIMITED: none */
    double weight;
    double asked;     /* allocated plus waiting */
    double usage;     /* past use as a share of the capacity */
    double fair;      /* out; over-quota division adds to what is there */
    double remainder; /* of the last round it took part in; -1: none */
};

/* Sets `fair` of each queue and returns what nobody may have. */
double share_divide(struct share_queue *queues, size_t count, double total, double k_value);
/* The second half alone: divide `remaining` on top of `fair`. */
double share_over_quota(struct share_queue *queues, size_t count, double remaining, double k_value);
