#pragma once

#include "sched/sched.h"

#include <stdint.h>

struct buf;
struct cache;

/* scheduler_metrics: what the scheduler gives to Prometheus. KAI's names where KAI has one for it;
 * docs/operations.md lists them. */

/* Upper ends of a histogram's buckets are 5, 10, 20, ... ms; one more for what is longer. */
#define SCHEDULER_BUCKETS 10

struct latency {
    uint64_t counts[SCHEDULER_BUCKETS + 1];
    uint64_t sum_ms;
};
void latency_add(struct latency *latency, size_t times, int64_t took_ms);

struct scheduler_stats {
    uint64_t cycles;
    int64_t at_us;                        /* the last step of the cycle ended */
    int64_t last_us[SCHED_STEP_COUNT];    /* the steps of the last cycle took */
    uint64_t all_us[SCHED_STEP_COUNT];    /* the steps of all cycles took */
    uint64_t waiting[SCHED_REASON_COUNT]; /* groups, by why */
    uint64_t bound;                       /* pods */
    uint64_t bind_failures;
    uint64_t evicted[SCHED_ACTION_COUNT]; /* pods */
    uint64_t helped;                      /* groups that others were evicted for */
    struct latency wait;                  /* of pods, until they were decided on */
    struct latency bind;                  /* of pods, from then on */
    struct latency usage;                 /* of questions to Prometheus */
    uint64_t usage_failures;
};

/* A cycle begins; its steps come as sched_measure() tells them, `stats` being the user. */
void scheduler_stats_begin(struct scheduler_stats *stats);
void scheduler_stats_step(void *stats, enum sched_step step);
/* A gang of `pods` pods was bound so long after it was decided. */
void scheduler_stats_bound(struct scheduler_stats *stats, size_t pods, int64_t took_ms);
void scheduler_stats_plan(struct scheduler_stats *stats,
                          const struct sched_plan *plan,
                          int64_t now_ms);

void scheduler_metrics_write(struct buf *buf,
                             const struct sched *core,
                             const struct cache *cache,
                             const struct scheduler_stats *stats);
