#include "exec/scheduler_queues.h"

#include "api/kind.h"
#include "api/object.h"
#include "api/quantity.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "base/map.h"
#include "base/str.h"
#include "cache/cache.h"
#include "control/core/status.h"
#include "exec/queue_writer.h"
#include "sched/sched.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DEPTH_MAX 64 /* levels of queues that a waiting group is counted on */

/* An amount in the unit of the API's field: devices, cores, bytes. */
static struct str amount(struct arena *arena, enum sched_resource resource, double value)
{
    static const double to_nano[SCHED_RESOURCES] = {
        [SCHED_CPU] = 1e6, [SCHED_MEMORY] = 1e9, [SCHED_GPU] = 1e9};
    static const double most = 9e18; /* what a quantity can hold, in whole units */

    if (value < 0)
        return STR("-1");
    double nano = value * to_nano[resource];
    if (nano / 1e9 >= most)
        return STR("-1");
    /* Shares of a thousandth of a device are noise. */
    __int128 exact = (__int128)(nano / 1e6 + 0.5) * 1000000;
    return quantity_text(arena, (struct quantity){exact, QUANTITY_DECIMAL});
}

void scheduler_amounts(struct arena *arena,
                       struct json *to,
                       const char *key,
                       const double values[static SCHED_RESOURCES])
{
    static const char *const names[SCHED_RESOURCES] = {
        [SCHED_CPU] = "cpu", [SCHED_MEMORY] = "memory", [SCHED_GPU] = "nvidia.com/gpu"};
    struct json *list = json_add_object(arena, to, key);

    for (size_t i = 0; i < SCHED_RESOURCES; i++)
        json_add_str(arena, list, names[i], amount(arena, (enum sched_resource)i, values[i]));
}

/* A queue while it is reported. */
struct entry {
    const struct object *queue;
    struct str parent;
    int64_t pending; /* groups below it that wait */
    struct json *children;
};

static void report(struct queue_writer *writer, const struct sched *core, const struct entry *entry)
{
    _cleanup_(arena_done) struct arena arena = {0};
    const struct object *queue = entry->queue;
    const struct json *before = json_get(object_json(queue, &arena), "status");
    struct json *after = before ? json_clone(&arena, before) : json_new_object(&arena);
    struct sched_queue_view view;

    if (!sched_queue_view(core, queue->name, &view))
        return;
    scheduler_amounts(&arena, after, "allocated", view.allocated);
    scheduler_amounts(&arena, after, "allocatedNonPreemptible", view.allocated_non_preemptible);
    scheduler_amounts(&arena, after, "requested", view.requested);
    scheduler_amounts(&arena, after, "fairShare", view.fair_share);
    json_set(after, STR("childQueues"), json_clone(&arena, entry->children));
    json_add_i64(&arena, after, "pendingGroups", entry->pending);
    struct json *patch = merge_diff(&arena, before, after);
    if (!patch)
        return;
    struct json *body = json_new_object(&arena);
    json_set(body, STR("status"), patch);
    queue_writer_patch(writer, queue, json_text(&arena, body));
}

/* The queue that a group waits in, and what is above it. */
static void count_waiting(const struct map *entries, struct str queue)
{
    for (size_t i = 0; queue.len && i < DEPTH_MAX; i++) {
        struct entry *entry = map_get(entries, queue);

        if (!entry)
            return;
        entry->pending++;
        queue = entry->parent;
    }
}

void scheduler_queues_report(struct queue_writer *writer,
                             const struct cache *cache,
                             const struct sched *core,
                             const struct sched_plan *plan)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct map entries = {.seed = sched_config(core)->seed};
    const struct object *queue;
    size_t cursor = 0;

    while ((queue = cache_next(cache, &kind_queue, STR(""), &cursor))) {
        struct entry *entry = ARENA_NEW(&arena, struct entry);

        *entry =
            (struct entry){.queue = queue,
                           .parent = json_str_at(object_json(queue, &arena), "spec.parentQueue"),
                           .children = json_new_array(&arena)};
        map_set(&entries, queue->name, entry);
    }
    MAP_FOREACH(&entries, each) {
        const struct entry *entry = each->value;
        struct entry *parent = entry->parent.len ? map_get(&entries, entry->parent) : NULL;

        if (parent)
            json_push(parent->children, json_new_str(&arena, entry->queue->name));
    }
    for (size_t i = 0; i < plan->waiting_count; i++)
        count_waiting(&entries, plan->waiting[i].queue);
    MAP_FOREACH(&entries, each)
        report(writer, core, each->value);
    map_done(&entries);
}
