#include "api/condition.h"
#include "api/kind.h"
#include "api/object.h"
#include "api/pod.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/json.h"
#include "base/json_make.h"
#include "base/str.h"
#include "base/time.h"
#include "cache/cache.h"
#include "control/core/action.h"
#include "control/core/control.h"
#include "control/core/controllers.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The life of nodes, as kube-controller-manager sees it. A node whose Lease is not renewed is not
 * ready; one that is not ready has taints, by which its pods leave (builtin/taints.c); the pods of a
 * node that does not exist are collected. A node without a Lease is left as it is: somebody made it
 * by hand, and nobody speaks for it.
 *
 * A key is a node, or a pod; only pods have a namespace. Since when a pod's node does not exist is
 * written on the pod, in the condition DisruptionTarget: a restart does not begin anew. */

#define LEASES        "kube-node-lease"
#define LEASE_S       40    /* where the Lease does not say for how long it is good */
#define ABSENT_MS     40000 /* as long as Kubernetes lets a node be away that was deleted */
#define ABSENT_REASON "DeletionByPodGC"

static const struct {
    const char *key;
    const char *status; /* of Ready */
} lost_taints[] = {
    {"node.kubernetes.io/not-ready", "False"},
    {"node.kubernetes.io/unreachable", "Unknown"},
};
static const char *const lost_effects[] = {"NoSchedule", "NoExecute"};

/* ---- nodes ---- */

/* Until when the node's word is good; 0: nobody gives it. */
static int64_t lease_end_ms(const struct cache *cache, struct str name, struct arena *arena)
{
    const struct object *lease = cache_get(cache, &kind_lease, STR(LEASES), name);
    const struct json *spec = lease ? json_get(object_json(lease, arena), "spec") : NULL;
    int64_t renewed_ms = 0;

    if (!time_parse(json_str(json_get(spec, "renewTime")), &renewed_ms))
        return 0;
    return renewed_ms + 1000 * json_i64_or(json_get(spec, "leaseDurationSeconds"), LEASE_S);
}

static bool is_lost_taint(const struct json *taint, struct str status)
{
    for (size_t i = 0; i < COUNT_OF(lost_taints); i++)
        if (str_is(json_str(json_get(taint, "key")), lost_taints[i].key))
            return !status.len || str_is(status, lost_taints[i].status);
    return false;
}

/* Both effects of the one that it should have, and none of the other. */
static void write_taints(struct actions *actions, const struct object *node, struct str status)
{
    struct arena *arena = actions->arena;
    const struct json *there = json_at(object_json(node, arena), "spec.taints");
    bool lost = !str_is(status, "True");
    struct json *patch = json_make(arena, "{spec: {taints: []}}");
    struct json *taints = json_get(json_get(patch, "spec"), "taints");
    size_t right = 0;
    size_t wrong = 0;

    JSON_FOREACH(there, taint) {
        bool ours = is_lost_taint(taint, STR(""));
        bool stays = !ours || (lost && is_lost_taint(taint, status));

        right += ours && stays;
        wrong += !stays;
        if (stays)
            (void)json_push(taints, json_clone(arena, taint));
    }
    if (!wrong && right == (lost ? COUNT_OF(lost_effects) : 0))
        return;
    for (size_t i = 0; lost && !right && i < COUNT_OF(lost_taints); i++)
        for (size_t e = 0; str_is(status, lost_taints[i].status) && e < COUNT_OF(lost_effects); e++)
            (void)json_push(taints, json_make(arena, "{key: $, effect: $}", lost_taints[i].key,
                                              lost_effects[e]));
    action_patch(actions, node, patch);
    actions->list.items[actions->list.count - 1].revision = node->revision;
}

static void look_at_node(const struct control_input *input,
                         const struct object *node,
                         struct actions *actions)
{
    struct arena *arena = actions->arena;
    const struct json *status = json_get(object_json(node, arena), "status");
    struct str ready = json_str(json_get(condition_find(status, "Ready"), "status"));
    int64_t end_ms = lease_end_ms(input->cache, node->name, arena);

    if (end_ms && end_ms > input->now_ms && !str_is(ready, "Unknown"))
        action_look_again(actions, end_ms);
    if (end_ms && end_ms <= input->now_ms && str_is(ready, "True")) {
        struct json *list = json_make(arena, "{status: {conditions: []}}");
        struct json *told = json_get(list, "status");

        (void)json_set(told, STR("conditions"), json_clone(arena, json_get(status, "conditions")));
        ready = STR("Unknown");
        condition_set(arena, told,
                      &(struct condition){"Ready", "Unknown", "NodeStatusUnknown",
                                          STR("the node does not renew its Lease any more")},
                      input->now_ms);
        action_patch_status(actions, node, list);
        action_warn(actions, node, "NodeNotReady",
                    str_printf(arena, "Node " STR_FMT " does not renew its Lease any more",
                               STR_ARG(node->name)));
    }
    if (ready.len)
        write_taints(actions, node, ready);
}

/* ---- pods of nodes that do not exist ---- */

static void mark_pod(struct actions *actions,
                     const struct object *pod,
                     const struct condition *condition,
                     int64_t now_ms)
{
    struct arena *arena = actions->arena;
    struct json *patch = json_make(arena, "{status: {conditions: []}}");
    const struct json *there = json_at(object_json(pod, arena), "status.conditions");

    if (there)
        (void)json_set(json_get(patch, "status"), STR("conditions"), json_clone(arena, there));
    condition_set(arena, json_get(patch, "status"), condition, now_ms);
    action_patch_status(actions, pod, patch);
    actions->list.items[actions->list.count - 1].revision = pod->revision;
}

static void collect(struct actions *actions, const struct object *pod, struct str why)
{
    struct arena *arena = actions->arena;

    action_patch_status(
        actions, pod,
        json_make(arena, "{status: {phase: 'Failed', reason: $, message: $}}", ABSENT_REASON, why));
    action_warn(actions, pod, ABSENT_REASON, why);
    action_delete_now(actions, pod);
}

static void look_at_pod(const struct control_input *input,
                        const struct object *pod,
                        struct actions *actions)
{
    struct arena *arena = actions->arena;
    const struct json *tree = object_json(pod, arena);
    struct str name = json_str_at(tree, "spec.nodeName");
    const struct json *mark = condition_find(json_get(tree, "status"), "DisruptionTarget");
    bool marked = str_is(json_str(json_get(mark, "reason")), ABSENT_REASON) &&
                  str_is(json_str(json_get(mark, "status")), "True");
    int64_t since_ms = 0;

    if (!name.len || (pod_is_over(tree) && !pod->deleted_ms))
        return;
    if (cache_get(input->cache, &kind_node, STR(""), name)) {
        if (marked)
            mark_pod(actions, pod,
                     &(struct condition){"DisruptionTarget", "False", ABSENT_REASON,
                                         STR("its node is back")},
                     input->now_ms);
        return;
    }
    struct str why = str_printf(arena, "Node " STR_FMT " does not exist", STR_ARG(name));
    if (!marked || !time_parse(json_str(json_get(mark, "lastTransitionTime")), &since_ms)) {
        mark_pod(actions, pod, &(struct condition){"DisruptionTarget", "True", ABSENT_REASON, why},
                 input->now_ms);
        action_look_again(actions, input->now_ms + ABSENT_MS);
    } else if (input->now_ms < since_ms + ABSENT_MS) {
        action_look_again(actions, since_ms + ABSENT_MS);
    } else {
        collect(actions, pod, why);
    }
}

/* ---- the controller ---- */

static void reconcile(const struct control_input *input,
                      const struct control_key *key,
                      struct actions *actions)
{
    const struct object *object = key->ns.len
                                      ? cache_get(input->cache, &kind_pod, key->ns, key->name)
                                      : cache_get(input->cache, &kind_node, STR(""), key->name);

    if (!object)
        return;
    if (key->ns.len)
        look_at_pod(input, object, actions);
    else
        look_at_node(input, object, actions);
}

static void keys_of_pods(const struct cache *cache, struct str node, struct control_keys *ret)
{
    const struct object *pod = NULL;
    size_t cursor = 0;

    while ((pod = cache_next(cache, &kind_pod, STR(""), &cursor))) {
        _cleanup_(arena_done) struct arena arena = {0};

        if (str_eq(json_str_at(object_json(pod, &arena), "spec.nodeName"), node))
            control_keys_add(ret, pod->ns, pod->name);
    }
}

static void keys(const struct cache *cache, const struct object *object, struct control_keys *ret)
{
    if (object->kind == &kind_pod) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct str name = json_str_at(object_tree(object, &arena), "spec.nodeName");

        if (name.len && !cache_get(cache, &kind_node, STR(""), name))
            control_keys_add(ret, object->ns, object->name);
        return;
    }
    if (object->kind == &kind_lease && !str_is(object->ns, LEASES))
        return;
    /* Pods that were marked while it was away are looked at when that time is over. */
    if (cache_get(cache, &kind_node, STR(""), object->name))
        control_keys_add(ret, STR(""), object->name);
    else if (object->kind == &kind_node)
        keys_of_pods(cache, object->name, ret);
}

static const struct kind *const watches[] = {&kind_pod, &kind_node, &kind_lease, NULL};

const struct controller nodes_controller = {.name = "nodes",
                                            .embedded = true,
                                            .watches = watches,
                                            .keys = keys,
                                            .reconcile = reconcile};
