#include "control/group.h"

#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/json.h"
#include "base/str.h"
#include "cache/cache.h"
#include "control/action.h"
#include "control/control.h"
#include "control/controllers.h"
#include "control/job.h"
#include "control/status.h"
#include "control/torchrun.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The pod grouper: every pod belongs to one PodGroup, made here. */

struct str group_name(const struct object *owner, struct arena *arena)
{
    return str_printf(arena, "pg-" STR_FMT "-" STR_FMT, STR_ARG(owner->name), STR_ARG(owner->uid));
}

/* What the group of a pod should be. */
struct wish {
    const struct object *owner; /* the object that the group is named after and owned by */
    int64_t min_member;
    struct str queue;
    struct str priority;
};

static struct str queue_of(const struct control_input *input,
                           const struct object *owner,
                           const struct object *pod,
                           struct arena *arena)
{
    const char *key = str_c(arena, input->config->queue_label_key);
    const char *const keys[] = {key, "runai/queue"};

    for (size_t i = 0; i < 2; i++) {
        struct str queue = object_label(owner, keys[i]);

        if (!queue.len)
            queue = object_label(pod, keys[i]);
        if (queue.len)
            return queue;
    }
    return input->config->default_queue;
}

static struct wish wish_for(const struct control_input *input,
                            const struct object *pod,
                            struct arena *arena)
{
    const struct object_owner *controller = object_controller(pod);
    struct wish wish = {.owner = pod, .min_member = 1};

    if (controller && str_is(controller->kind, kind_torchrunjob.name) &&
        !str_is(object_label(pod, JOB_LABEL_ROLE), JOB_ROLE_SYNC)) {
        const struct object *job =
            cache_get(input->cache, &kind_torchrunjob, pod->ns, controller->name);

        if (job) {
            struct job_model model = {.object = job};

            torchrun_job_kind.translate(input, job, arena, &model);
            wish.owner = job;
            wish.min_member = model.min ? (int64_t)model.min : 1;
        }
    }
    wish.queue = queue_of(input, wish.owner, pod, arena);
    wish.priority = json_str_at(object_json(pod, arena), "spec.priorityClassName");
    if (!wish.priority.len)
        wish.priority = STR("train");
    return wish;
}

static struct json *group_spec(const struct wish *wish, struct arena *arena)
{
    struct json *spec = json_new_object(arena);

    json_add_i64(arena, spec, "minMember", wish->min_member);
    json_add_str(arena, spec, "queue", wish->queue);
    json_add_str(arena, spec, "priorityClassName", wish->priority);
    return spec;
}

static struct json *make_group(const struct wish *wish, struct str name, struct arena *arena)
{
    struct json *body = json_new_object(arena);
    char version[KIND_API_VERSION_BYTES];

    json_add_str(arena, body, "apiVersion",
                 str_dup(arena, kind_api_version(&kind_podgroup, version)));
    json_add_c(arena, body, "kind", kind_podgroup.name);
    struct json *meta = json_add_object(arena, body, "metadata");
    json_add_str(arena, meta, "namespace", wish->owner->ns);
    json_add_str(arena, meta, "name", name);
    struct json *owner =
        json_push(json_add_array(arena, meta, "ownerReferences"), json_new_object(arena));
    json_add_str(arena, owner, "apiVersion",
                 str_dup(arena, kind_api_version(wish->owner->kind, version)));
    json_add_c(arena, owner, "kind", wish->owner->kind->name);
    json_add_str(arena, owner, "name", wish->owner->name);
    json_add_str(arena, owner, "uid", wish->owner->uid);
    json_add_bool(arena, owner, "controller", true);
    json_set(body, STR("spec"), group_spec(wish, arena));
    return body;
}

static void reconcile(const struct control_input *input,
                      const struct control_key *key,
                      struct actions *actions)
{
    const struct object *pod = cache_get(input->cache, &kind_pod, key->ns, key->name);
    struct arena *arena = actions->arena;

    if (!pod || pod->deleted_ms)
        return;
    arena_defer(arena, object_release, object_ref(pod));
    struct str has = object_annotation(pod, GROUP_ANNOTATION);
    if (has.len && !pod->owner_count) /* somebody grouped it by hand */
        return;
    struct wish wish = wish_for(input, pod, arena);
    struct str name = group_name(wish.owner, arena);
    const struct object *group = cache_get(input->cache, &kind_podgroup, pod->ns, name);
    if (!group) {
        action_create(actions, &kind_podgroup, make_group(&wish, name, arena));
    } else {
        struct json *spec = json_new_object(arena);
        int64_t min = json_i64_or(json_at(object_json(group, arena), "spec.minMember"), 1);

        if (min != wish.min_member) {
            json_add_i64(arena, json_add_object(arena, spec, "spec"), "minMember", wish.min_member);
            action_patch(actions, group, spec);
        }
    }
    if (!str_eq(has, name)) {
        struct json *patch = json_new_object(arena);

        json_add_str(arena, json_make_path(arena, patch, "metadata.annotations"), GROUP_ANNOTATION,
                     name);
        action_patch(actions, pod, patch);
    }
}

static void keys(const struct cache *cache, const struct object *object, struct control_keys *ret)
{
    (void)cache;
    if (object->kind == &kind_pod)
        control_keys_add(ret, object->ns, object->name);
}

static const struct kind *const watches[] = {&kind_pod,           &kind_podgroup, &kind_torchrunjob,
                                             &kind_torchrunqueue, &kind_node,     NULL};

const struct controller group_controller = {.name = "podgrouper",
                                            .watches = watches,
                                            .keys = keys,
                                            .reconcile = reconcile};
