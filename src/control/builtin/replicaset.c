#include "api/kind.h"
#include "api/object.h"
#include "api/pod.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "base/map.h"
#include "base/str.h"
#include "cache/cache.h"
#include "control/builtin/workload.h"
#include "control/core/action.h"
#include "control/core/control.h"
#include "control/core/controllers.h"
#include "control/core/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ReplicaSet, and the older ReplicationController: keep `replicas` pods. Pods that have ended do not
 * count; they stay until somebody deletes them, as in Kubernetes. */

#define BURST_MAX 500 /* pods made or deleted at a time, as Kubernetes has it */

static void make_pods(struct workload *w, int64_t count)
{
    int64_t serial = 0;

    for (int64_t i = 0; i < count && i < BURST_MAX; i++) {
        struct json *pod = workload_pod(w, json_get(w->spec, "template"));
        struct str name = workload_name(w, &kind_pod, w->owner->name, &serial);

        json_add_str(w->arena, json_get(pod, "metadata"), "name", name);
        action_create(w->actions, &kind_pod, pod);
        action_event(w->actions, w->owner, "SuccessfulCreate",
                     str_printf(w->arena, "Created pod: " STR_FMT, STR_ARG(name)));
    }
}

/* The pods of a ReplicaSet that run or will, by node. */
static void count_nodes(struct workload *w, const struct object *set, struct map *ret)
{
    const struct object *pod = NULL;
    size_t cursor = 0;

    while ((pod = cache_next_owned(w->input->cache, &kind_pod, set->uid, &cursor))) {
        const struct json *tree = object_json(pod, w->arena);
        struct str node = json_str_at(tree, "spec.nodeName");
        int64_t *count = map_get(ret, node);

        if (pod->deleted_ms || pod_is_over(tree))
            continue;
        if (!count) {
            count = ARENA_ARRAY(w->arena, int64_t, 1);
            (void)map_set(ret, node, count);
        }
        ++*count;
    }
}

/* How many there are on the node of each pod, those of all ReplicaSets of its Deployment together:
 * the old and the new ones stay spread. */
static void count_crowds(struct workload *w, struct workload_pods *pods)
{
    const struct object_owner *above = object_controller(w->owner);
    const struct object *set = NULL;
    _cleanup_(map_done) struct map nodes = {0};
    size_t cursor = 0;

    if (!above)
        count_nodes(w, w->owner, &nodes);
    while (above && (set = cache_next_owned(w->input->cache, w->owner->kind, above->uid, &cursor)))
        count_nodes(w, set, &nodes);
    for (size_t i = 0; i < pods->count; i++) {
        const int64_t *count = map_get(&nodes, json_str_at(pods->items[i].tree, "spec.nodeName"));

        pods->items[i].crowd = count ? *count : 0; /* one that is just adopted is not owned yet */
    }
}

static void remove_pods(struct workload *w, struct workload_pods *pods, int64_t count)
{
    struct workload_pods active = {0};

    for (size_t i = 0; i < pods->count; i++)
        if (pods->items[i].active)
            VEC_PUSH(w->arena, &active, pods->items[i]);
    count_crowds(w, &active);
    workload_order(&active);
    for (int64_t i = 0; i < count && i < BURST_MAX && (size_t)i < active.count; i++) {
        const struct object *pod = active.items[i].object;

        action_delete(w->actions, pod);
        action_event(w->actions, w->owner, "SuccessfulDelete",
                     str_printf(w->arena, "Deleted pod: " STR_FMT, STR_ARG(pod->name)));
    }
}

/* Pods that carry all labels of the template: more than the selector may ask for. */
static bool is_fully_labeled(const struct workload *w, const struct object *pod)
{
    JSON_FOREACH(json_at(w->spec, "template.metadata.labels"), label)
        if (!str_eq(object_label(pod, str_c(w->arena, json_key(label))), json_str(label)))
            return false;
    return true;
}

static void reconcile_set(const struct control_input *input,
                          const struct object *owner,
                          struct actions *actions)
{
    struct actions later = {.arena = actions->arena};
    struct workload w;
    int64_t active = 0;
    int64_t ready = 0;
    int64_t available = 0;
    int64_t labeled = 0;

    if (!workload_open(&w, input, owner, &later))
        return;
    struct workload_pods pods = workload_pods(&w);
    for (size_t i = 0; i < pods.count; i++) {
        active += pods.items[i].active;
        ready += pods.items[i].ready;
        available += pods.items[i].available;
        labeled += pods.items[i].active && is_fully_labeled(&w, pods.items[i].object);
    }
    int64_t wanted = json_i64_or(json_get(w.spec, "replicas"), 1);
    workload_status(&w, NULL);
    workload_count(&w, "replicas", active, true);
    workload_count(&w, "fullyLabeledReplicas", labeled, false);
    workload_count(&w, "readyReplicas", ready, false);
    workload_count(&w, "availableReplicas", available, false);
    refusal_write(w.arena, w.status, active < wanted ? input->refusal : STR_NONE, input->now_ms);
    w.actions = actions;
    workload_write(&w);
    w.actions = &later;
    int64_t room = workload_room(&pods);
    if (active < wanted)
        make_pods(&w, wanted - active < room ? wanted - active : room);
    else if (active > wanted)
        remove_pods(&w, &pods, active - wanted);
    for (size_t i = 0; i < later.list.count; i++)
        VEC_PUSH(actions->arena, &actions->list, later.list.items[i]);
}

static void reconcile(const struct control_input *input,
                      const struct control_key *key,
                      struct actions *actions)
{
    reconcile_set(input, cache_get(input->cache, &kind_replicaset, key->ns, key->name), actions);
}

static void keys(const struct cache *cache, const struct object *object, struct control_keys *ret)
{
    if (object->kind == &kind_replicaset)
        control_keys_add(ret, object->ns, object->name);
    else
        workload_keys(cache, &kind_replicaset, object, ret);
}

static const struct kind *const watches[] = {&kind_replicaset, &kind_pod, NULL};

const struct controller replicaset_controller = {.name = "replicaset",
                                                 .kind = &kind_replicaset,
                                                 .embedded = true,
                                                 .watches = watches,
                                                 .keys = keys,
                                                 .reconcile = reconcile};

static void reconcile_older(const struct control_input *input,
                            const struct control_key *key,
                            struct actions *actions)
{
    reconcile_set(input, cache_get(input->cache, &kind_replicationcontroller, key->ns, key->name),
                  actions);
}

static void keys_older(const struct cache *cache,
                       const struct object *object,
                       struct control_keys *ret)
{
    if (object->kind == &kind_replicationcontroller)
        control_keys_add(ret, object->ns, object->name);
    else
        workload_keys(cache, &kind_replicationcontroller, object, ret);
}

static const struct kind *const watches_older[] = {&kind_replicationcontroller, &kind_pod, NULL};

const struct controller replicationcontroller_controller = {.name = "replicationcontroller",
                                                            .kind = &kind_replicationcontroller,
                                                            .embedded = true,
                                                            .watches = watches_older,
                                                            .keys = keys_older,
                                                            .reconcile = reconcile_older};
