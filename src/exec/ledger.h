#pragma once

#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

struct cache;
struct log;
struct object;
struct queue_writer;
struct sched;
struct scheduler_stats;
struct shard_usage;

/* ledger: reports to the core what the queues of one node pool have used over time.
 *
 * From the scheduler's own records, which the status of each queue keeps, or, where a connection
 * string names one, from Prometheus. */
struct ledger;

struct ledger_options {
    uv_loop_t *loop;             /* NULL: nothing is asked of Prometheus */
    struct queue_writer *writer; /* outlives the ledger */
    const struct cache *cache;   /* queues and nodes */
    struct sched *core;
    struct str pool; /* outlives the ledger */
    const struct log *log;
    struct scheduler_stats *stats; /* of questions to Prometheus; outlives the ledger */
};

/* The node pool of a queue or node; empty: none. */
struct str ledger_pool_of(const struct sched *core, const struct object *object);

struct ledger *ledger_new(const struct ledger_options *options);
/* NULL is fine. */
void ledger_free(struct ledger *ledger);
/* From now on like this. Books of the same window go on. */
void ledger_use(struct ledger *ledger, const struct shard_usage *usage, int64_t now_ms);
bool ledger_is_kept(const struct ledger *ledger);
/* What is due; returns when next, INT64_MAX for never. */
int64_t ledger_turn(struct ledger *ledger, int64_t now_ms);
