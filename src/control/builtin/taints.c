#include "api/kind.h"
#include "api/object.h"
#include "api/pod.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "base/str.h"
#include "base/time.h"
#include "cache/cache.h"
#include "control/core/action.h"
#include "control/core/control.h"
#include "control/core/controllers.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Taints with the effect NoExecute: pods that do not tolerate one leave its node, and those that
 * tolerate it for some seconds when these have passed since the taint was added (timeAdded, which
 * admission fills in). A key is a pod. */

#define FOREVER INT64_MAX

/* Most nodes have none, and a node tells of itself often. */
static bool drives_away(const struct object *node)
{
    return node && str_contains(node->raw, STR("NoExecute"));
}

static bool tolerates(const struct json *toleration, const struct json *taint)
{
    struct str effect = json_str(json_get(toleration, "effect"));
    struct str key = json_str(json_get(toleration, "key"));

    if (effect.len && !str_is(effect, "NoExecute"))
        return false;
    if (key.len && !str_eq(key, json_str(json_get(taint, "key"))))
        return false;
    if (str_is(json_str(json_get(toleration, "operator")), "Exists"))
        return true;
    return key.len &&
           str_eq(json_str(json_get(toleration, "value")), json_str(json_get(taint, "value")));
}

/* When the pod has to leave because of this taint: the shortest of what it says of it. */
static int64_t leave_ms(const struct json *spec, const struct json *taint, int64_t now_ms)
{
    int64_t since_ms = now_ms;
    int64_t least_s = FOREVER;
    bool tolerated = false;

    if (time_parse(json_str(json_get(taint, "timeAdded")), &since_ms) && since_ms < 0)
        since_ms = 0; /* somebody wrote the year 1, as Go does for "never" */
    JSON_FOREACH(json_get(spec, "tolerations"), toleration) {
        int64_t seconds = FOREVER;

        if (!tolerates(toleration, taint))
            continue;
        tolerated = true;
        if (json_i64(json_get(toleration, "tolerationSeconds"), &seconds) && seconds < least_s)
            least_s = seconds > 0 ? seconds : 0;
    }
    if (!tolerated)
        return now_ms;
    return least_s > (FOREVER - since_ms) / 1000 ? FOREVER : since_ms + least_s * 1000;
}

static void reconcile(const struct control_input *input,
                      const struct control_key *key,
                      struct actions *actions)
{
    struct arena *arena = actions->arena;
    const struct object *pod = cache_get(input->cache, &kind_pod, key->ns, key->name);
    int64_t leave = FOREVER;
    struct str why = STR_NONE;

    if (!pod || pod->deleted_ms)
        return;
    const struct json *tree = object_json(pod, arena);
    const struct object *node =
        cache_get(input->cache, &kind_node, STR(""), json_str_at(tree, "spec.nodeName"));
    if (!drives_away(node) || pod_is_over(tree))
        return;
    JSON_FOREACH(json_at(object_json(node, arena), "spec.taints"), taint) {
        if (!str_is(json_str(json_get(taint, "effect")), "NoExecute"))
            continue;
        int64_t ms = leave_ms(json_get(tree, "spec"), taint, input->now_ms);
        if (ms < leave) {
            leave = ms;
            why = json_str(json_get(taint, "key"));
        }
    }
    if (leave == FOREVER)
        return;
    if (leave > input->now_ms) {
        action_look_again(actions, leave);
        return;
    }
    action_event(actions, pod, "TaintManagerEviction",
                 str_printf(arena,
                            "Deleted: it does not tolerate the taint " STR_FMT " of node " STR_FMT
                            " (any longer)",
                            STR_ARG(why), STR_ARG(node->name)));
    action_delete(actions, pod);
}

static void keys(const struct cache *cache, const struct object *object, struct control_keys *ret)
{
    const struct object *pod = NULL;
    size_t cursor = 0;

    if (object->kind == &kind_pod) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct str name = json_str_at(object_tree(object, &arena), "spec.nodeName");

        if (name.len && drives_away(cache_get(cache, &kind_node, STR(""), name)))
            control_keys_add(ret, object->ns, object->name);
        return;
    }
    while (drives_away(object) && (pod = cache_next(cache, &kind_pod, STR(""), &cursor))) {
        _cleanup_(arena_done) struct arena arena = {0};

        if (str_eq(json_str_at(object_json(pod, &arena), "spec.nodeName"), object->name))
            control_keys_add(ret, pod->ns, pod->name);
    }
}

static const struct kind *const watches[] = {&kind_pod, &kind_node, NULL};

const struct controller taints_controller = {.name = "taints",
                                             .embedded = true,
                                             .watches = watches,
                                             .keys = keys,
                                             .reconcile = reconcile};
