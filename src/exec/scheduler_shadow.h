#pragma once

#include "api/api.h"
#include "sched/sched.h"

#include <stdbool.h>
#include <stdint.h>

struct buf;
struct cache;
struct log;
struct object;
struct shadow;

/* scheduler_shadow: the scheduler beside another one: it decides, and nothing of it is written.
 *
 * Every plan goes to the comparison (sched/shadow.h) and is then taken back, so that the core's next
 * decision is about the cluster as the other scheduler has made it. */
struct shadower;

struct shadower_options {
    struct sched *core;
    const struct cache *cache;
    const struct log *log;
    /* Queues that are taken to be there, without quota or limit, where the cluster has none of that
     * name: `muster operator` would make them. */
    struct str default_queue;
    struct str default_parent;
    uint64_t seed;
};

struct shadower *shadower_new(const struct shadower_options *options);
/* NULL is fine. */
void shadower_free(struct shadower *shadower);

/* Whether the object is the bind of a pod whose gang the core has said nothing about yet: run a
 * cycle before the core sees it. */
bool shadower_is_early(struct shadower *shadower, const struct object *object);
/* Feeds the core and the comparison. A pod without a pod group is a group of its own. */
int shadower_observe(struct shadower *shadower,
                     enum sched_change what,
                     const struct object *object,
                     int64_t now_ms,
                     struct err *err);
/* Before a cycle: what the cluster lacks. */
void shadower_open(struct shadower *shadower);
void shadower_plan(struct shadower *shadower, const struct sched_plan *plan, int64_t now_ms);
void shadower_metrics(const struct shadower *shadower, struct buf *buf);
const struct shadow *shadower_shadow(const struct shadower *shadower);

/* An API that reads and watches what is below, and answers writes at once, without sending them. */
struct mute_api {
    struct api api;
    struct api *below;
};
struct api *mute_api_init(struct mute_api *mute, struct api *below);
