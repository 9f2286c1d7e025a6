#include "sim/check_rest.h"

#include "api/gpu.h"
#include "api/kind.h"
#include "api/object.h"
#include "api/quantity.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "base/map.h"
#include "base/str.h"
#include "cache/cache.h"
#include "control/core/group_name.h"
#include "sim/check_fact.h"
#include "sim/check_queues.h"
#include "sim/check_report.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* What a group still wants: so many pods at once, each of them this much. */
struct wish {
    int64_t pods;
    int64_t each[RESOURCES];
};

static bool is_ready(const struct json *node)
{
    JSON_FOREACH(json_at(node, "status.conditions"), condition)
        if (str_is(json_str_at(condition, "type"), "Ready"))
            return str_is(json_str_at(condition, "status"), "True") &&
                   json_is_null(json_at(node, "spec.unschedulable")) &&
                   !json_at(node, "spec.taints.0");
    return false;
}

static int64_t bits_of(uint64_t devices)
{
    return (int64_t)__builtin_popcountll(devices) * MICRO;
}

/* How many pods of the wish fit on the node beside what is there. */
static int64_t node_slots(const struct map *facts,
                          const struct object *node,
                          bool reserved,
                          const struct wish *wish)
{
    _cleanup_(arena_done) struct arena arena = {0};
    const struct json *root = object_json(node, &arena);
    const struct json *has = json_at(root, "status.allocatable");
    int64_t room[RESOURCES] = {0};
    uint64_t devices = 0;
    int64_t slots = INT64_MAX;

    if (!is_ready(root))
        return 0;
    (void)quantity_milli_json(json_get(has, "cpu"), &room[CPU], NULL);
    (void)quantity_whole_json(json_get(has, "memory"), &room[MEMORY], NULL);
    (void)quantity_whole_json(json_get(has, GPU_RESOURCE), &room[GPU], NULL);
    (void)quantity_whole_json(json_get(has, "pods"), &room[PODS], NULL);
    room[GPU] *= MICRO;
    MAP_FOREACH(facts, entry) {
        const struct fact *fact = entry->value;

        if (fact->ended || !str_eq(fact->node, node->name))
            continue;
        for (size_t r = 0; r < RESOURCES; r++)
            if (r != GPU)
                room[r] -= fact->wants[r];
        if (!reserved && fact->devices)
            devices |= fact->devices;
        else if (!fact->shares)
            room[GPU] -= fact->wants[GPU];
    }
    room[GPU] -= bits_of(devices);
    for (size_t r = 0; r < RESOURCES; r++)
        if (wish->each[r] > 0 && room[r] / wish->each[r] < slots)
            slots = room[r] < 0 ? 0 : room[r] / wish->each[r];
    return slots;
}

static bool queues_have_room(const struct map *facts,
                             const struct cache *cache,
                             const struct json *group,
                             const struct wish *wish)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct holders holders = {0};
    bool fixed = queue_work_is_fixed(cache, group, &arena);

    holders_make(facts, cache, &arena, &holders);
    const struct holder *holder = holder_find(&holders, queue_of(group));
    if (!holder)
        return false;
    for (size_t i = 0; holder && i < HOLDERS_DEPTH_MAX; i++) {
        for (size_t r = 0; r <= GPU; r++) {
            int64_t limit = queue_bound(holder->json, (enum resource)r, "limit");
            int64_t quota = queue_bound(holder->json, (enum resource)r, "quota");
            int64_t more = wish->pods * wish->each[r];

            if (more && ((limit >= 0 && holder->all[r] + more > limit) ||
                         (fixed && quota >= 0 && holder->fixed[r] + more > quota)))
                return false;
        }
        holder = holder_find(&holders, holder->parent);
    }
    return true;
}

/* False: it waits for something else than room, or what it needs is more than counting. */
static bool wish_of(const struct map *facts,
                    const struct object *group,
                    const struct json *spec,
                    struct wish *ret)
{
    int64_t active = 0;
    int64_t waiting = 0;

    *ret = (struct wish){0};
    MAP_FOREACH(facts, entry) {
        _cleanup_(arena_done) struct arena arena = {0};
        const struct fact *fact = entry->value;

        if (!str_eq(fact->group, group->name) || !str_eq(fact->object->ns, group->ns))
            continue;
        if (fact->object->deleted_ms || fact->yields || fact->shares || fact->ended)
            return false;
        active += fact->node.len > 0;
        if (fact->node.len)
            continue;
        const struct json *pod = json_get(object_json(fact->object, &arena), "spec");
        if (object_label(fact->object, GROUP_STAND_IN).len || json_at(pod, "schedulingGates.0") ||
            json_get(pod, "nodeSelector") || json_get(pod, "affinity") ||
            json_get(pod, "topologySpreadConstraints") || json_get(pod, "resourceClaims") ||
            (waiting && memcmp(ret->each, fact->wants, sizeof(ret->each)) != 0))
            return false;
        memcpy(ret->each, fact->wants, sizeof(ret->each));
        waiting++;
    }
    int64_t min = json_i64_or(json_get(spec, "minMember"), 1);
    ret->pods = min > active ? min - active : 1;
    return waiting >= ret->pods;
}

static bool somebody_is_kept_room(const struct cache *cache)
{
    const struct object *group;
    size_t cursor = 0;

    while ((group = cache_next(cache, &kind_podgroup, STR(""), &cursor))) {
        _cleanup_(arena_done) struct arena arena = {0};

        if (str_contains(json_str_at(object_json(group, &arena), "status.message"),
                         STR("room is reserved for it")))
            return true;
    }
    return false;
}

void check_rest(const struct map *facts,
                const struct cache *cache,
                bool reserved,
                struct check_report *report)
{
    const struct object *group;
    size_t cursor = 0;

    /* Who stands still has its place in line, and the GPUs it had are spoken for. */
    MAP_FOREACH(facts, entry) {
        const struct fact *fact = entry->value;

        if (fact->suspended)
            return;
    }
    while ((group = cache_next(cache, &kind_podgroup, STR(""), &cursor))) {
        _cleanup_(arena_done) struct arena arena = {0};
        const struct json *root = object_json(group, &arena);
        const struct json *spec = json_get(root, "spec");
        const struct object *node;
        size_t at = 0;
        struct wish wish;
        int64_t slots = 0;

        if (json_at(spec, "subGroups.0") || json_get(spec, "topologyConstraint") ||
            !wish_of(facts, group, spec, &wish) || !queues_have_room(facts, cache, root, &wish))
            continue;
        while ((node = cache_next(cache, &kind_node, STR(""), &at)) && slots < wish.pods)
            slots += node_slots(facts, node, reserved, &wish);
        if (slots >= wish.pods && !somebody_is_kept_room(cache))
            check_fail(report,
                       "PodGroup " STR_FMT " waits, and %lld pods of it would fit: " STR_FMT,
                       STR_ARG(group->name), (long long)wish.pods,
                       STR_ARG(json_str_at(root, "status.message")));
    }
}
