#include "api/beyond.h"
#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/json.h"
#include "base/json_make.h"
#include "base/str.h"
#include "cache/cache.h"
#include "control/core/action.h"
#include "control/core/control.h"
#include "control/core/controllers.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What every cluster has: two queues and six priority classes, two of which Kubernetes makes itself
 * (pods outside kube-system may not name these: store/admission.c). One that was deleted comes back;
 * one that was changed is left as it is. A third queue is made when another names it as its parent:
 * manifests of KAI Scheduler bring one of that name, and `create` would find it taken. */
#define PARENT "default" /* of TorchrunQueues that name none, too */

static const struct {
    const char *name;
    int64_t value;
    const char *description;
} classes[] = {
    {"train", 50, "Training; may be preempted"},
    {"build-preemptible", 75, "Interactive work; may be preempted"},
    {"build", 100, "Interactive work; is not preempted and runs within the quota of its queue"},
    {"inference", 125, "Serving; is not preempted and runs within the quota of its queue"},
    {"system-cluster-critical", 2000000000,
     "Used for system critical pods that must run in the cluster, but can be moved to another node "
     "if necessary."},
    {"system-node-critical", 2000001000,
     "Used for system critical pods that must not be moved from their current node."},
};

static struct json *without_limit(struct arena *arena, int64_t quota)
{
    struct json *resources = json_new_object(arena);
    const char *const names[] = {"gpu", "cpu", "memory"};

    for (size_t i = 0; i < 3; i++) {
        struct json *share = json_add_object(arena, resources, names[i]);

        json_fill(arena, share, "{quota: $, limit: -1, overQuotaWeight: 1}", quota);
    }
    return resources;
}

static struct json *lending(struct arena *arena)
{
    struct json *annotations = json_new_object(arena);

    json_add_c(arena, annotations, BEYOND_ANNOTATION, BEYOND_NON_PREEMPTIBLE);
    return annotations;
}

static struct json *head(struct arena *arena, const struct kind *kind, struct str name)
{
    struct json *body = json_new_object(arena);
    char version[KIND_API_VERSION_BYTES];

    json_fill(arena, body, "{apiVersion: $, kind: $, metadata: {name: $}}",
              str_dup(arena, kind_api_version(kind, version)), kind->name, name);
    return body;
}

/* quota -1: all there is. 0: nothing is guaranteed; may be lent. */
static void make_queue(const struct control_input *input,
                       struct actions *actions,
                       struct str name,
                       struct str parent,
                       int64_t quota)
{
    struct arena *arena = actions->arena;

    if (cache_get(input->cache, &kind_queue, STR(""), name))
        return;
    struct json *body = head(arena, &kind_queue, name);
    if (quota == 0 && input->config->default_lends)
        json_fill(arena, body, "{metadata: {name: $, annotations: $}}", name, lending(arena));
    struct json *spec = json_add_object(arena, body, "spec");
    if (parent.len)
        json_add_str(arena, spec, "parentQueue", parent);
    json_set(spec, STR("resources"), without_limit(arena, quota));
    action_create(actions, &kind_queue, body);
}

static bool has_parent(const struct object *queue)
{
    _cleanup_(arena_done) struct arena arena = {0};

    return str_is(json_str_at(object_json(queue, &arena), "spec.parentQueue"), PARENT);
}

static bool is_parent(const struct cache *cache)
{
    const struct object *queue;
    size_t cursor = 0;

    while ((queue = cache_next(cache, &kind_queue, STR(""), &cursor)))
        if (has_parent(queue))
            return true;
    return false;
}

static void reconcile(const struct control_input *input,
                      const struct control_key *key,
                      struct actions *actions)
{
    struct arena *arena = actions->arena;

    (void)key;
    if (is_parent(input->cache))
        make_queue(input, actions, STR(PARENT), STR_NONE, -1);
    /* As KAI Scheduler installs them, so that applying its manifest changes nothing: no guarantee,
     * no limit. */
    make_queue(input, actions, input->config->default_parent, STR_NONE, 0);
    make_queue(input, actions, input->config->default_queue, input->config->default_parent, 0);
    for (size_t i = 0; i < COUNT_OF(classes); i++) {
        if (cache_get(input->cache, &kind_priorityclass, STR(""), str_from(classes[i].name)))
            continue;
        struct json *body = head(arena, &kind_priorityclass, str_from(classes[i].name));
        json_add_i64(arena, body, "value", classes[i].value);
        json_add_c(arena, body, "description", classes[i].description);
        action_create(actions, &kind_priorityclass, body);
    }
}

static void keys(const struct cache *cache, const struct object *object, struct control_keys *ret)
{
    if (!cache_get(cache, object->kind, object->ns, object->name) ||
        (object->kind == &kind_queue && has_parent(object)))
        control_keys_add(ret, STR(""), STR(""));
}

static const struct kind *const watches[] = {&kind_queue, &kind_priorityclass, NULL};

const struct controller defaults_controller = {.name = "defaults",
                                               .at_start = true,
                                               .watches = watches,
                                               .keys = keys,
                                               .reconcile = reconcile};
