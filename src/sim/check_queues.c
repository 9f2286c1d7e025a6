#include "sim/check_queues.h"

#include "api/kind.h"
#include "api/object.h"
#include "api/quantity.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "base/map.h"
#include "base/str.h"
#include "base/vec.h"
#include "cache/cache.h"
#include "sim/check_fact.h"
#include "sim/check_report.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PREEMPTIBLE   100 /* priorities from here on are not preemptible */
#define QUEUE_DEFAULT "default-queue"

const char *const resource_words[RESOURCES] = {"CPU", "memory", "GPUs", "pods"};

bool queue_work_is_fixed(const struct cache *cache, const struct json *group, struct arena *arena)
{
    struct str says = json_str_at(group, "spec.preemptibility");
    const struct object *class = cache_get(cache, &kind_priorityclass, STR(""),
                                           json_str_at(group, "spec.priorityClassName"));

    if (says.len)
        return str_is(says, "non-preemptible");
    return class && json_i64_or(json_get(object_json(class, arena), "value"), 0) >= PREEMPTIBLE;
}

int64_t queue_bound(const struct json *queue, enum resource resource, const char *what)
{
    static const char *const names[] = {"cpu", "memory", "gpu"};
    static const int64_t units[] = {1, 1000000, MICRO};
    const struct json *block = json_get(json_at(queue, "spec.resources"), names[resource]);
    struct quantity value = {0};

    if (!json_get(block, what) || quantity_parse_json(json_get(block, what), &value, NULL) < 0 ||
        value.nano < 0)
        return -1;
    return (int64_t)(value.nano * units[resource] / 1000000000);
}

struct holder *holder_find(struct holders *holders, struct str queue)
{
    for (size_t i = 0; i < holders->count; i++)
        if (str_eq(holders->items[i].object->name, queue))
            return &holders->items[i];
    return NULL;
}

/* What a pod wants, to its queue and every queue above it. */
static void holders_add(struct holders *holders,
                        struct str queue,
                        const struct fact *fact,
                        bool fixed)
{
    struct holder *holder = holder_find(holders, queue);

    for (size_t i = 0; holder && i < HOLDERS_DEPTH_MAX; i++) {
        for (size_t r = 0; r <= GPU; r++) {
            holder->all[r] += fact->wants[r];
            holder->fixed[r] += fixed ? fact->wants[r] : 0;
        }
        holder = holder_find(holders, holder->parent);
    }
}

static void check_holder(const struct holder *holder, struct check_report *report)
{
    struct str name = holder->object->name;

    for (size_t r = 0; r <= GPU; r++) {
        int64_t limit = queue_bound(holder->json, (enum resource)r, "limit");
        int64_t quota = queue_bound(holder->json, (enum resource)r, "quota");

        if (limit >= 0 && holder->all[r] > limit)
            check_fail(report, "queue " STR_FMT " is limited to %lld %s and has %lld",
                       STR_ARG(name), (long long)limit, resource_words[r],
                       (long long)holder->all[r]);
        if (quota >= 0 && holder->fixed[r] > quota)
            check_fail(report,
                       "queue " STR_FMT " has a quota of %lld %s and %lld that cannot be preempted",
                       STR_ARG(name), (long long)quota, resource_words[r],
                       (long long)holder->fixed[r]);
    }
}

struct str queue_of(const struct json *group)
{
    struct str name = json_str_at(group, "spec.queue");

    return name.len ? name : STR(QUEUE_DEFAULT);
}

/* Every queue and every pod's group is parsed once: pods times queues was a third of a run's time. */
void holders_make(const struct map *facts,
                  const struct cache *cache,
                  struct arena *arena,
                  struct holders *ret)
{
    const struct object *object;
    size_t cursor = 0;

    while ((object = cache_next(cache, &kind_queue, STR(""), &cursor))) {
        const struct json *json = object_json(object, arena);

        VEC_PUSH(arena, ret,
                 ((struct holder){.object = object,
                                  .json = json,
                                  .parent = json_str_at(json, "spec.parentQueue")}));
    }
    MAP_FOREACH(facts, entry) {
        const struct fact *fact = entry->value;

        if (fact->ended || fact->yields || !fact->node.len || fact->object->deleted_ms)
            continue;
        object = cache_get(cache, &kind_podgroup, fact->object->ns, fact->group);
        if (!object)
            continue;
        const struct json *group = object_json(object, arena);
        holders_add(ret, queue_of(group), fact, queue_work_is_fixed(cache, group, arena));
    }
}

void check_queues(const struct map *facts, const struct cache *cache, struct check_report *report)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct holders holders = {0};

    holders_make(facts, cache, &arena, &holders);
    for (size_t i = 0; i < holders.count; i++)
        check_holder(&holders.items[i], report);
}
