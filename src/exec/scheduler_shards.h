#pragma once

#include "sched/sched.h"

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

struct api;
struct cache;
struct log;
struct scheduler_stats;

/* scheduler_shards: SchedulingShards take effect, each on the node pool of its partitionLabelValue.
 *
 * Watches SchedulingShards where the API has them. The shard without a partitionLabelValue is for
 * what is in no pool, and its policy also runs the pools that no shard names; without it, what the
 * program was started with holds. The status of every shard says what took effect and what did not.
 * With a usageDBConfig the core learns what the pool's queues have used; see ledger.h. */
struct shards;

struct shards_options {
    uv_loop_t *loop; /* NULL: nothing is asked of Prometheus */
    struct api *api;
    struct queue_writer *writer; /* outlives the shards */
    const struct cache *cache;   /* queues and nodes */
    struct sched *core;
    const struct sched_config *base; /* what holds where no shard says otherwise; copied */
    const struct log *log;
    struct scheduler_stats *stats; /* of questions to Prometheus; outlives the shards */
    int64_t (*now)(void *user);
    void (*changed)(void *user); /* look at shards_turn() and sched_needs_cycle() */
    void *user;
};

struct shards *shards_new(const struct shards_options *options);
/* NULL is fine. */
void shards_free(struct shards *shards);
/* Of shards that ask for Prometheus and name none; empty: such keep our own books. */
void shards_set_prometheus(struct shards *shards, struct str url);
/* What is due: returns when next, INT64_MAX for never. */
int64_t shards_turn(struct shards *shards, int64_t now_ms);
