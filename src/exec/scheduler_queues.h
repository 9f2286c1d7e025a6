#pragma once

#include <stddef.h>
#include <stdint.h>

struct api;
struct cache;
struct sched;
struct sched_plan;

/* scheduler_queues: what the scheduler knows about each queue, written to the queue's status: what
 * it holds, asks for and is entitled to, its children and how many of its groups wait. Only what
 * has changed is written. */
#define SCHEDULER_QUEUES_MS 250 /* at most this often */

void scheduler_queues_report(struct api *api,
                             const struct cache *cache,
                             const struct sched *core,
                             const struct sched_plan *plan);
