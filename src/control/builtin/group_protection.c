#include "api/kind.h"
#include "api/object.h"
#include "api/pod.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "base/str.h"
#include "cache/cache.h"
#include "control/core/action.h"
#include "control/core/control.h"
#include "control/core/controllers.h"
#include "control/core/group_name.h"

#include <stdbool.h>
#include <stddef.h>

/* A PodGroup of scheduling.k8s.io that is deleted stays until no pod that names it is left to run:
 * admission gives each a finalizer, which is taken off here. */

#define PROTECTION "scheduling.k8s.io/podgroup-protection"

static bool names_group(const struct object *pod, struct str group)
{
    _cleanup_(arena_done) struct arena arena = {0};

    return str_eq(group_named(pod, &arena), group) && !pod_is_over(object_json(pod, &arena));
}

static void reconcile(const struct control_input *input,
                      const struct control_key *key,
                      struct actions *actions)
{
    const struct object *group = cache_get(input->cache, &kind_podgroup_k8s, key->ns, key->name);
    struct json *patch = json_new_object(actions->arena);
    struct json *left = json_new_array(actions->arena);
    const struct object *pod;
    size_t cursor = 0;

    if (!group || !group->deleted_ms)
        return;
    const struct json *finalizers =
        json_at(object_json(group, actions->arena), "metadata.finalizers");
    while ((pod = cache_next(input->cache, &kind_pod, key->ns, &cursor)))
        if (names_group(pod, key->name))
            return;
    JSON_FOREACH(finalizers, item)
        if (!str_is(json_str(item), PROTECTION))
            json_push(left, json_clone(actions->arena, item));
    json_set(json_add_object(actions->arena, patch, "metadata"), STR("finalizers"), left);
    if (json_count(left) < json_count(finalizers))
        action_patch(actions, group, patch);
}

static void keys(const struct cache *cache, const struct object *object, struct control_keys *ret)
{
    _cleanup_(arena_done) struct arena arena = {0};

    (void)cache;
    if (object->kind == &kind_podgroup_k8s) {
        control_keys_add(ret, object->ns, object->name);
        return;
    }
    struct str group = group_named(object, &arena);
    if (group.len)
        control_keys_add(ret, object->ns, group);
}

static const struct kind *const watches[] = {&kind_podgroup_k8s, &kind_pod, NULL};

const struct controller group_protection_controller = {.name = "podgroupprotection",
                                                       .embedded = true,
                                                       .watches = watches,
                                                       .keys = keys,
                                                       .reconcile = reconcile};
