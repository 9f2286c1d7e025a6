#pragma once

#include "sched/sched.h"

#include <stdbool.h>
#include <stdint.h>

struct node;
struct pod;
struct shape;

/* fragment: the strategy that leaves free GPUs usable.
 *
 * What pods usually ask for is counted as they arrive: the workload seen. The fragments of a node
 * are what that workload could not use of its free GPUs, on average: all of it where a pod may not
 * go there or finds too little CPU or GPUs; the parts of shared GPUs that are too small for
 * it; and what would be left if the node were filled up with pods like it. A pod goes where it
 * makes the fragments grow least, with a price on GPUs that more is asked of than of others: those
 * of a model that many pods name are kept for them. CPU and memory that stay free break ties.
 *
 * SCHED_FGD is the same with the first two of these alone, as in the paper "Beware of
 * Fragmentation" (USENIX ATC 2023).
 *
 * Numbers are whole, so the same calls give the same choice on every machine. What is worked out is
 * kept for each shape and node until the node changes; nodes that are alike are worked out once.
 * The workload counts as it was when it had last grown by a half. */
#define FRAGMENT_COUNTED_MAX 1024 /* kinds of pods that are counted; the rarest makes room */
#define FRAGMENT_DEMANDS_MAX 256  /* of these, the most frequent ones that count */
#define FRAGMENT_NO_ROOM     INT64_MAX

struct fragment;

static inline bool fragment_strategy(enum sched_strategy strategy)
{
    return strategy == SCHED_FRAGMENTATION || strategy == SCHED_FGD;
}

/* Called when the policy of a pool changed: counts from now on if any pool wants it. */
void fragment_policy(struct sched *sched);
void fragment_free(struct sched *sched);
/* A pod of this shape arrived. */
void fragment_seen(struct sched *sched, struct shape *shape);

/* By how much the fragments of the node grow with the pod on it: smaller is better.
 * FRAGMENT_NO_ROOM: no shared device has enough left for it. */
int64_t fragment_growth(struct sched *sched, const struct pod *pod, const struct node *node);
/* The same for a share of one device that has so many thousandths free. */
int64_t fragment_share_growth(struct sched *sched,
                              const struct pod *pod,
                              const struct node *node,
                              int64_t left_milli);
/* A number that changes with the workload that counts. */
uint32_t fragment_epoch(const struct sched *sched);
