#pragma once

#include "base/str.h"
#include "base/vec.h"
#include "sim/check_fact.h"

#include <stdbool.h>
#include <stdint.h>

struct arena;
struct cache;
struct check_report;
struct json;
struct map;
struct object;

/* check_queues: no queue passes its limit, and what cannot be preempted stays within quotas. */
void check_queues(const struct map *facts, const struct cache *cache, struct check_report *report);

/* A queue as it is now, and what the pods of it and of the queues below it hold. */
struct holder {
    const struct object *object;
    const struct json *json;
    struct str parent;
    int64_t all[GPU + 1];
    int64_t fixed[GPU + 1];
};
struct holders VEC_FIELDS(struct holder);
#define HOLDERS_DEPTH_MAX 16 /* levels of queues */

/* Of every queue, in the arena. */
void holders_make(const struct map *facts,
                  const struct cache *cache,
                  struct arena *arena,
                  struct holders *ret);
/* NULL: there is no such queue. */
struct holder *holder_find(struct holders *holders, struct str queue);
/* Of a pod group. */
struct str queue_of(const struct json *group);
bool queue_work_is_fixed(const struct cache *cache, const struct json *group, struct arena *arena);
/* A number of a queue in the unit of `resource`; -1 for none. */
int64_t queue_bound(const struct json *queue, enum resource resource, const char *what);
