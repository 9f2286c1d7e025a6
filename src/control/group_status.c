#include "api/kind.h"
#include "api/object.h"
#include "api/quantity.h"
#include "base/arena.h"
#include "base/json.h"
#include "base/str.h"
#include "cache/cache.h"
#include "control/action.h"
#include "control/control.h"
#include "control/controllers.h"
#include "control/group.h"
#include "control/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Status of pod groups: how many of its pods wait, run and have ended, and what they hold. Why a
 * group waits is the scheduler's to say (status.message, status.schedulingConditions). */

#define RESOURCES_MAX 16

/* A pod that is created, bound and started changes its group three times within a few milliseconds,
 * a burst within a few hundred: that is one write. Every look counts all pods, so the larger the
 * group the fewer looks: one in a second or so at ten thousand. */
#define SETTLE_MS          200
#define SETTLE_PODS_PER_MS 10

struct amount {
    struct str name;
    __int128 nano;
};

struct amounts {
    struct amount list[RESOURCES_MAX];
    size_t count;
};

struct tally {
    int64_t pending;
    int64_t scheduled; /* of those pending: have a node */
    int64_t running;
    int64_t succeeded;
    int64_t failed;
    struct amounts requested;
    struct amounts allocated;
};

static void amount_add(struct amounts *amounts, struct str name, __int128 nano)
{
    for (size_t i = 0; i < amounts->count; i++)
        if (str_eq(amounts->list[i].name, name)) {
            amounts->list[i].nano += nano;
            return;
        }
    if (amounts->count < RESOURCES_MAX)
        amounts->list[amounts->count++] = (struct amount){name, nano};
}

static void add_requests(struct amounts *amounts, const struct object *pod, const struct json *root)
{
    struct quantity fraction = {0};

    JSON_FOREACH(json_at(root, "spec.containers"), container)
        JSON_FOREACH(json_at(container, "resources.requests"), request) {
            struct quantity quantity;

            if (quantity_parse_json(request, &quantity, NULL) == 0)
                amount_add(amounts, json_key(request), quantity.nano);
        }
    if (quantity_parse(object_annotation(pod, "gpu-fraction"), &fraction, NULL) == 0) {
        int64_t devices = 1;

        (void)str_to_i64(object_annotation(pod, "gpu-fraction-num-devices"), &devices);
        amount_add(amounts, STR("nvidia.com/gpu"), fraction.nano * devices);
    }
}

static void tally_pod(struct tally *tally, const struct object *pod, struct arena *arena)
{
    const struct json *root = object_json(pod, arena);
    struct str phase = json_str_at(root, "status.phase");
    bool bound = json_str_at(root, "spec.nodeName").len > 0;

    if (str_is(phase, "Succeeded")) {
        tally->succeeded++;
        return;
    }
    if (str_is(phase, "Failed")) {
        tally->failed++;
        return;
    }
    if (str_is(phase, "Running"))
        tally->running++;
    else
        tally->pending++;
    tally->scheduled += bound && !str_is(phase, "Running");
    add_requests(&tally->requested, pod, root);
    if (bound)
        add_requests(&tally->allocated, pod, root);
}

static void tally_group(const struct control_input *input,
                        const struct object *group,
                        struct tally *tally,
                        struct arena *arena)
{
    const struct object *pod;
    size_t cursor = 0;

    while ((pod = cache_next_grouped(input->cache, &kind_pod, group->name, &cursor)))
        if (str_eq(pod->ns, group->ns))
            tally_pod(tally, pod, arena);
}

static const char *phase_of(const struct tally *tally, int64_t min)
{
    if (tally->running >= min)
        return "Running";
    if (tally->running + tally->scheduled >= min)
        return "Scheduled";
    if (!tally->running && !tally->pending && tally->failed)
        return "Failed";
    if (!tally->running && !tally->pending && tally->succeeded)
        return "Succeeded";
    return "Pending";
}

static void write_amounts(struct arena *arena,
                          struct json *to,
                          const char *key,
                          const struct amounts *amounts)
{
    struct json *list = json_add_object(arena, to, key);

    for (size_t i = 0; i < amounts->count; i++)
        json_set(list, str_dup(arena, amounts->list[i].name),
                 json_new_str(arena, quantity_text(arena, (struct quantity){amounts->list[i].nano,
                                                                            QUANTITY_DECIMAL})));
}

static void reconcile(const struct control_input *input,
                      const struct control_key *key,
                      struct actions *actions)
{
    const struct object *group = cache_get(input->cache, &kind_podgroup, key->ns, key->name);
    struct arena *arena = actions->arena;
    struct tally tally = {0};

    if (!group || group->deleted_ms)
        return;
    const struct json *root = object_json(group, arena);
    const struct json *before = json_get(root, "status");
    tally_group(input, group, &tally, arena);
    struct json *after = before ? json_clone(arena, before) : json_new_object(arena);
    json_add_c(arena, after, "phase",
               phase_of(&tally, json_i64_or(json_at(root, "spec.minMember"), 1)));
    json_add_i64(arena, after, "pending", tally.pending);
    json_add_i64(arena, after, "running", tally.running);
    json_add_i64(arena, after, "succeeded", tally.succeeded);
    json_add_i64(arena, after, "failed", tally.failed);
    struct json *resources = json_add_object(arena, after, "resourcesStatus");
    write_amounts(arena, resources, "requested", &tally.requested);
    write_amounts(arena, resources, "allocated", &tally.allocated);
    struct json *patch = merge_diff(arena, before, after);
    if (!patch)
        return;
    struct json *body = json_new_object(arena);
    json_set(body, STR("status"), patch);
    arena_defer(arena, object_release, object_ref(group));
    action_patch_status(actions, group, body);
}

static void keys(const struct cache *cache, const struct object *object, struct control_keys *ret)
{
    (void)cache;
    if (object->kind == &kind_podgroup) {
        control_keys_add(ret, object->ns, object->name);
        return;
    }
    struct str group = object_annotation(object, GROUP_ANNOTATION);
    if (group.len)
        control_keys_add(ret, object->ns, group);
}

static int64_t settle(const struct cache *cache, const struct control_key *key)
{
    size_t pods = cache_count_grouped(cache, &kind_pod, key->name);

    return SETTLE_MS + (int64_t)(pods / SETTLE_PODS_PER_MS);
}

static const struct kind *const watches[] = {&kind_podgroup, &kind_pod, NULL};

const struct controller group_status_controller = {.name = "podgroupstatus",
                                                   .settle = settle,
                                                   .watches = watches,
                                                   .keys = keys,
                                                   .reconcile = reconcile};
