#pragma once

#include "sched/sched.h"

#include <stdbool.h>
#include <stdint.h>

struct arena;
struct json;

/* shard: a SchedulingShard as the policy of a node pool. Pure.
 *
 * There is one scheduler for all node pools: nodes, queues and groups find each other by the label
 * of their pool, and each pool is run by the policy of its shard. */
struct shard_usage {
    bool on;               /* the shard has a usageDBConfig */
    struct str prometheus; /* connection string; empty: our own books */
    bool wants_prometheus; /* its clientType says so, with or without a connection string */
    int64_t half_life_ms;  /* 0: what is within the window counts alike */
    int64_t window_ms;     /* 168h */
    int64_t every_ms;      /* fetchInterval, 1m */
};

#define SHARD_USAGE_WINDOW_MS ((int64_t)168 * 3600 * 1000)
#define SHARD_USAGE_EVERY_MS  60000
#define SHARD_USAGE_EVERY_MIN 100

struct shard {
    struct str pool; /* partitionLabelValue */
    struct sched_policy policy;
    struct shard_usage usage;
    struct str ignored; /* what has no effect here and why, one sentence each; empty: nothing */
};

/* `base` is what holds where the shard says nothing. Strings live in the arena or in `tree`. */
void shard_read(const struct json *tree,
                const struct sched_policy *base,
                struct arena *arena,
                struct shard *ret);
