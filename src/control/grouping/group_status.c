#include "api/group.h"
#include "api/kind.h"
#include "api/object.h"
#include "api/quantity.h"
#include "base/arena.h"
#include "base/json.h"
#include "base/json_make.h"
#include "base/str.h"
#include "cache/cache.h"
#include "control/core/action.h"
#include "control/core/control.h"
#include "control/core/controllers.h"
#include "control/core/group_name.h"
#include "control/core/status.h"
#include "control/grouping/group.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/* Status of pod groups: how many of its pods wait, run and have ended, and what they hold. Why a
 * group waits is the scheduler's to say (status.message, status.schedulingConditions). */

#define RESOURCES_MAX 16

/* A pod that is created, bound and started changes its group three times within a few milliseconds,
 * a burst within a few hundred: that is one write. Every look counts all pods, so the larger the
 * group the fewer looks: one in a second or so at ten thousand. */
#define OUTSIDE_CONDITION        "PodsOutsideSubGroups"
#define PRIORITY_NON_PREEMPTIBLE 100 /* from here on, where the group does not say */
#define NANO                     1000000000
#define SETTLE_MS                200
#define SETTLE_PODS_PER_MS       10

struct amount {
    struct str name;
    __int128 nano;
};

struct amounts {
    struct amount list[RESOURCES_MAX];
    size_t count;
};

#define TOLD_MAX 64 /* pods of one group that are told that they are in no subgroup */

struct tally {
    int64_t pending;
    int64_t scheduled; /* of those pending: have a node */
    int64_t running;
    int64_t succeeded;
    int64_t failed;
    struct amounts requested;
    struct amounts allocated;
    struct str outside; /* the first pod that is in none of the group's subgroups */
    int64_t outside_count;
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
    int64_t devices = 1;
    int64_t mib = 0;

    JSON_FOREACH(json_at(root, "spec.containers"), container)
        JSON_FOREACH(json_at(container, "resources.requests"), request) {
            struct quantity quantity;

            if (quantity_parse_json(request, &quantity, NULL) == 0)
                amount_add(amounts, json_key(request), quantity.nano);
        }
    (void)str_to_i64(object_annotation(pod, "gpu-fraction-num-devices"), &devices);
    if (quantity_parse(object_annotation(pod, "gpu-fraction"), &fraction, NULL) == 0)
        amount_add(amounts, STR("nvidia.com/gpu"), fraction.nano * devices);
    if (str_to_i64(object_annotation(pod, "gpu-memory"), &mib))
        amount_add(amounts, STR("run.ai/gpu.memory"), (__int128)mib * devices * NANO);
}

/* ---- subgroups ---- */

/* A pod that names no leaf of the group's tree; the scheduler does not know where to count it. */
static bool is_outside(const struct json *subgroups, const struct object *pod)
{
    struct str name = object_label(pod, GROUP_SUBGROUP_LABEL);

    JSON_FOREACH(subgroups, each)
        if (str_eq(json_str(json_get(each, "name")), name.len ? name : STR("default")) &&
            !group_is_parent(subgroups, json_str(json_get(each, "name"))))
            return false;
    return json_count(subgroups) > 0;
}

/* ---- counting ---- */

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

/* Another word than for pods that more nodes would help: see api/autoscale.h. */
#define NOT_GROUPED "NoPodGroup"

void group_tell_pod(struct actions *actions,
                    const struct object *pod,
                    struct str message,
                    int64_t now_ms)
{
    struct arena *arena = actions->arena;
    const struct json *root = object_json(pod, arena);
    const struct json *before = json_get(root, "status");

    if (pod->deleted_ms || json_str_at(root, "spec.nodeName").len ||
        json_count(json_at(root, "spec.schedulingGates")))
        return;
    JSON_FOREACH(json_get(before, "conditions"), condition)
        if (str_is(json_str(json_get(condition, "type")), "PodScheduled") &&
            str_eq(json_str(json_get(condition, "message")), message))
            return;
    struct json *after = before ? json_clone(arena, before) : json_new_object(arena);
    condition_set(arena, after, &(struct condition){"PodScheduled", "False", NOT_GROUPED, message},
                  now_ms);
    struct json *body = json_new_object(arena);
    json_set(json_add_object(arena, body, "status"), STR("conditions"),
             json_clone(arena, json_get(after, "conditions")));
    arena_defer(arena, object_release, object_ref(pod));
    action_patch_status(actions, pod, body);
    action_warn(actions, pod, "Unschedulable", message);
}

/* A pod that waits in no subgroup learns why, as the scheduler never looks at it. */
static void tell_pod(struct actions *actions,
                     const struct object *group,
                     const struct object *pod,
                     int64_t now_ms)
{
    group_tell_pod(actions, pod,
                   str_printf(actions->arena,
                              "Pod references subgroup \"" STR_FMT
                              "\", which does not exist in PodGroup " STR_FMT "/" STR_FMT,
                              STR_ARG(object_label(pod, GROUP_SUBGROUP_LABEL)), STR_ARG(group->ns),
                              STR_ARG(group->name)),
                   now_ms);
}

static void tally_group(const struct control_input *input,
                        const struct object *group,
                        const struct json *subgroups,
                        struct tally *tally,
                        struct actions *actions)
{
    struct arena *arena = actions->arena;
    const struct object *pod;
    size_t cursor = 0;

    while ((pod = cache_next_grouped(input->cache, &kind_pod, group->name, &cursor)))
        if (str_eq(pod->ns, group->ns)) {
            tally_pod(tally, pod, arena);
            if (!is_outside(subgroups, pod))
                continue;
            tally->outside = tally->outside_count++ ? tally->outside : pod->name;
            if (tally->outside_count <= TOLD_MAX && group_is_ours(input, object_json(pod, arena)))
                tell_pod(actions, group, pod, input->now_ms);
        }
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

/* By the word of its spec, else by its priority. */
static bool is_preemptible(const struct control_input *input,
                           const struct json *spec,
                           struct arena *arena)
{
    struct str word = json_str(json_get(spec, "preemptibility"));
    const struct object *priority = cache_get(input->cache, &kind_priorityclass, STR(""),
                                              json_str(json_get(spec, "priorityClassName")));

    if (word.len)
        return !str_is(word, "non-preemptible");
    return !priority || json_i64_or(json_get(object_json(priority, arena), "value"), 0) <
                            PRIORITY_NON_PREEMPTIBLE;
}

static void tell_outside(struct arena *arena,
                         struct json *status,
                         const struct tally *tally,
                         int64_t now_ms)
{
    struct json *conditions = json_get(status, "conditions");
    size_t index = 0;

    if (tally->outside_count) {
        struct str message =
            str_printf(arena,
                       "%lld pod%s not scheduled (" STR_FMT "%s): the label " GROUP_SUBGROUP_LABEL
                       " must name one of the group's subGroups that has no child",
                       (long long)tally->outside_count, tally->outside_count == 1 ? " is" : "s are",
                       STR_ARG(tally->outside), tally->outside_count == 1 ? "" : ", ...");

        condition_set(arena, status,
                      &(struct condition){OUTSIDE_CONDITION, "True", "UnknownSubGroup", message},
                      now_ms);
        return;
    }
    JSON_FOREACH(conditions, condition) {
        if (str_is(json_str(json_get(condition, "type")), OUTSIDE_CONDITION)) {
            json_remove_index(conditions, index);
            return;
        }
        index++;
    }
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
    tally_group(input, group, json_at(root, "spec.subGroups"), &tally, actions);
    struct json *after = before ? json_clone(arena, before) : json_new_object(arena);
    int64_t min = group_minimum(json_get(root, "spec"));
    json_fill(
        arena, after, "{phase: $, minMember: $, pending: $, running: $, succeeded: $, failed: $}",
        phase_of(&tally, min), min, tally.pending, tally.running, tally.succeeded, tally.failed);
    struct json *resources = json_add_object(arena, after, "resourcesStatus");
    write_amounts(arena, resources, "requested", &tally.requested);
    write_amounts(arena, resources, "allocated", &tally.allocated);
    if (is_preemptible(input, json_get(root, "spec"), arena))
        tally.allocated.count = 0;
    write_amounts(arena, resources, "allocatedNonPreemptible", &tally.allocated);
    tell_outside(arena, after, &tally, input->now_ms);
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
    if (object->kind == &kind_priorityclass)
        return; /* its value never changes */
    if (object->kind == &kind_podgroup) {
        control_keys_add(ret, object->ns, object->name);
        return;
    }
    if (object->group.len)
        control_keys_add(ret, object->ns, object->group);
}

static int64_t settle(const struct cache *cache, const struct control_key *key)
{
    size_t pods = cache_count_grouped(cache, &kind_pod, key->name);

    return SETTLE_MS + (int64_t)(pods / SETTLE_PODS_PER_MS);
}

static const struct kind *const watches[] = {&kind_podgroup, &kind_pod, &kind_priorityclass, NULL};

const struct controller group_status_controller = {.name = "podgroupstatus",
                                                   .ignores_own = true,
                                                   .settle = settle,
                                                   .watches = watches,
                                                   .keys = keys,
                                                   .reconcile = reconcile};
