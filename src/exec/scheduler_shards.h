#pragma once

#include "sched/sched.h"

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

struct api;
struct cache;
struct log;

/* scheduler_shards: SchedulingShards take effect, and queues' use over time is kept.
 *
 * Watches SchedulingShards where the API has them. The one without a partitionLabelValue gives the
 * settings (the one named "default" where there are several); without any, what the program was
 * started with holds. The status of every shard says what took effect and what did not.
 *
 * With a usageDBConfig the core learns what every queue has used: from the scheduler's own books,
 * which the status of the queue keeps, or, where a connection string names one, from Prometheus. */
struct shards;

struct shards_options {
    uv_loop_t *loop; /* NULL: nothing is asked of Prometheus */
    struct api *api;
    const struct cache *cache; /* queues and nodes */
    struct sched *core;
    const struct sched_config *base; /* copied; its strings must outlive it */
    const struct log *log;
    int64_t (*now)(void *user);
    void (*changed)(void *user); /* look at shards_turn() and sched_needs_cycle() */
    void *user;
};

struct shards *shards_new(const struct shards_options *options);
/* NULL is fine. */
void shards_free(struct shards *shards);
/* What is due: returns when next, INT64_MAX for never. */
int64_t shards_turn(struct shards *shards, int64_t now_ms);
