#pragma once

#include "sched/sched.h"

#include <stdint.h>

struct buf;
struct cache;

/* scheduler_metrics: what the scheduler tells Prometheus. KAI's names where KAI has one for it;
 * docs/operations.md lists them. */

/* Upper ends of the histogram's buckets are 5, 10, 20, ... ms; one more for what is longer. */
#define SCHEDULER_BUCKETS 10

struct scheduler_stats {
    uint64_t cycles;
    int64_t cycle_ms; /* the last one took */
    uint64_t bound;   /* pods */
    uint64_t bind_failures;
    uint64_t evicted[SCHED_ACTION_COUNT]; /* pods */
    uint64_t helped;                      /* groups that others were evicted for */
    uint64_t bind_ms[SCHEDULER_BUCKETS + 1];
    uint64_t bind_ms_sum;
};

/* A gang of `pods` pods was bound so long after it was decided. */
void scheduler_stats_bound(struct scheduler_stats *stats, size_t pods, int64_t took_ms);
void scheduler_stats_plan(struct scheduler_stats *stats,
                          const struct sched_plan *plan,
                          int64_t took_ms);

void scheduler_metrics_write(struct buf *buf,
                             const struct sched *core,
                             const struct cache *cache,
                             const struct scheduler_stats *stats);
