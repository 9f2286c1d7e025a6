#include "api/condition.h"
#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/json.h"
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

/* Status of PodGroups of scheduling.k8s.io: what Kubernetes' own scheduler writes there. It follows
 * from the group of ours that stands for one (grouping_workload.c) and from its pods. One that none
 * of our pods is in has no such group, and is not touched: it is another scheduler's.
 *
 * A key is such a PodGroup. */

#define DISRUPTED "DisruptionTarget"
#define SETTLE_MS 100 /* the pods of a gang are bound in one write and seen one by one */

struct gang {
    int64_t bound;       /* pods that have, or had, a node */
    struct str stopping; /* words about one that is being stopped for others; empty: none is */
};

/* Ours, whichever words the eviction has left in the one that Kubernetes knows. */
static bool is_stopping(const struct json *condition)
{
    struct str type = json_str(json_get(condition, "type"));

    return (str_is(type, DISRUPTED) || str_is(type, CONDITION_EVICTED)) &&
           str_is(json_str(json_get(condition, "status")), "True") &&
           str_is(json_str(json_get(condition, "reason")), "PreemptionByScheduler");
}

static struct gang gang_of(const struct control_input *input,
                           const struct object *group,
                           struct arena *arena)
{
    struct gang gang = {0};
    const struct object *pod;
    size_t cursor = 0;

    while ((pod = cache_next_grouped(input->cache, &kind_pod, group->name, &cursor))) {
        const struct json *root = object_json(pod, arena);

        if (!str_eq(pod->ns, group->ns))
            continue;
        gang.bound += json_str_at(root, "spec.nodeName").len > 0;
        JSON_FOREACH(json_at(root, "status.conditions"), condition)
            if (is_stopping(condition))
                gang.stopping = str_dup(arena, json_str(json_get(condition, "message")));
    }
    return gang;
}

/* Why the scheduler does not start it; empty: it has not said. While pods are missing it has not
 * tried. */
static struct str waits_for(const struct json *group)
{
    const struct json *condition = json_at(group, "status.schedulingConditions.0");

    if (str_is(json_str_at(condition, "reasons.0.reason"), "NotReady"))
        return STR_NONE;
    return json_str(json_get(condition, "message"));
}

static void tell(struct arena *arena,
                 struct json *status,
                 const struct object *object,
                 const struct condition *condition,
                 int64_t now_ms)
{
    condition_set(arena, status, condition, now_ms);
    JSON_FOREACH(json_get(status, "conditions"), each)
        if (str_is(json_str(json_get(each, "type")), condition->type))
            json_add_i64(arena, each, "observedGeneration", object->generation);
}

static void reconcile(const struct control_input *input,
                      const struct control_key *key,
                      struct actions *actions)
{
    struct arena *arena = actions->arena;

    if (input->is_watched && !input->is_watched(input->user, &kind_podgroup_k8s)) {
        action_watch(actions, &kind_podgroup_k8s);
        return;
    }
    const struct object *object = cache_get(input->cache, &kind_podgroup_k8s, key->ns, key->name);
    if (!object)
        return;
    char name[GROUP_NAME_BYTES];
    const struct object *group =
        cache_get(input->cache, &kind_podgroup, key->ns, group_for_named(object->name, name));
    struct str refused = group ? object_annotation(group, GROUP_REFUSED) : STR_NONE;
    if (!group || group_is_mixed(refused))
        return; /* with pods of another scheduler in it, it may be that one's to write */
    const struct json *root = object_json(object, arena);
    const struct json *before = json_get(root, "status");
    struct json *after = before ? json_clone(arena, before) : json_new_object(arena);
    struct gang gang = gang_of(input, group, arena);
    struct str waits = waits_for(object_json(group, arena));
    int64_t least = json_i64_or(json_at(root, "spec.schedulingPolicy.gang.minCount"), 1);

    if (condition_is_true(before, GROUP_SCHEDULED)) {
        /* Once it is true it stays so. */
    } else if (gang.bound >= least) {
        tell(arena, after, object,
             &(struct condition){GROUP_SCHEDULED, "True", "Scheduled",
                                 STR("As many pods as it needs have a node")},
             input->now_ms);
    } else if (refused.len) {
        tell(arena, after, object,
             &(struct condition){GROUP_SCHEDULED, "False", "SchedulerError", refused},
             input->now_ms);
    } else if (waits.len) {
        tell(arena, after, object,
             &(struct condition){GROUP_SCHEDULED, "False", "Unschedulable", waits}, input->now_ms);
    }
    if (gang.stopping.len && !json_is_null(json_at(root, "spec.disruptionMode.all")))
        tell(arena, after, object,
             &(struct condition){DISRUPTED, "True", "PreemptionByScheduler", gang.stopping},
             input->now_ms);
    struct json *patch = merge_diff(arena, before, after);
    if (!patch)
        return;
    struct json *body = json_new_object(arena);
    json_set(body, STR("status"), patch);
    arena_defer(arena, object_release, object_ref(object));
    action_patch_status(actions, object, body);
}

static void key_of(const struct object *group, struct control_keys *ret)
{
    char version[KIND_API_VERSION_BYTES];

    if (group && group->owner_count && str_is(group->owners[0].kind, kind_podgroup_k8s.name) &&
        str_eq(group->owners[0].api_version, kind_api_version(&kind_podgroup_k8s, version)))
        control_keys_add(ret, group->ns, group->owners[0].name);
}

static void keys(const struct cache *cache, const struct object *object, struct control_keys *ret)
{
    if (object->kind == &kind_podgroup_k8s) {
        control_keys_add(ret, object->ns, object->name);
        return;
    }
    if (object->kind == &kind_podgroup) {
        key_of(object, ret);
        return;
    }
    if (object->group.len)
        key_of(cache_get(cache, &kind_podgroup, object->ns, object->group), ret);
}

static int64_t settle(const struct cache *cache, const struct control_key *key)
{
    (void)cache;
    (void)key;
    return SETTLE_MS;
}

static const struct kind *const watches[] = {&kind_podgroup, &kind_pod, NULL};

const struct controller gang_status_controller = {.name = "gangstatus",
                                                  .settle = settle,
                                                  .watches = watches,
                                                  .keys = keys,
                                                  .reconcile = reconcile};
