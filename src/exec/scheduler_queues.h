#pragma once

#include "base/str.h"
#include "sched/spec.h"

#include <stddef.h>
#include <stdint.h>

struct arena;
struct cache;
struct json;
struct queue_writer;
struct sched;
struct sched_plan;

/* scheduler_queues: what the scheduler knows about each queue, written to the queue's status: what
 * it holds, asks for and is entitled to, its children and how many of its groups wait. Only what
 * has changed is written. */
#define SCHEDULER_QUEUES_MS 250 /* at most this often */

void scheduler_queues_report(struct queue_writer *writer,
                             const struct cache *cache,
                             const struct sched *core,
                             const struct sched_plan *plan);

/* A resource list of amounts in the units of sched_queue_view; what is not limited is "-1". */
void scheduler_amounts(struct arena *arena,
                       struct json *to,
                       const char *key,
                       const double values[static SCHED_RESOURCES]);
