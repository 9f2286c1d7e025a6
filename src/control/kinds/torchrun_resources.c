#include "api/kind.h"
#include "api/object.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "base/json_make.h"
#include "base/json_names.h"
#include "base/str.h"
#include "cache/cache.h"
#include "control/core/action.h"
#include "control/core/control.h"
#include "control/kinds/torchrun.h"
#include "control/kinds/torchrun_spec.h"

#include <stdbool.h>
#include <stddef.h>

/* The further objects of a TorchrunQueue (spec.resources): made with it, owned by it, kept as the
 * template says unless immutable. Of two queues that name the same object the first has it. */

#define LABEL_QUEUE       "torchrun.ai/queue"
#define LABEL_QUEUE_SPACE "torchrun.ai/queue-namespace" /* of what has no namespace */
#define TAKEN_LOOK_MS     10000                         /* whether it is still taken */

struct run {
    const struct control_input *input;
    struct arena *arena;
    struct actions *actions;
    const struct object *queue;
};

struct str torchrun_resource_name(const struct object *queue,
                                  const struct torchrun_resource *resource,
                                  struct arena *arena)
{
    if (resource->name_mode == TORCHRUN_NAME_EXACT)
        return resource->name;
    return str_printf(arena, STR_FMT "-" STR_FMT, STR_ARG(queue->name), STR_ARG(resource->name));
}

static struct json *make(struct run *run,
                         const struct json *template,
                         const struct kind *kind,
                         struct str name)
{
    struct json *body = json_clone(run->arena, template);
    struct json *meta = json_make_path(run->arena, body, "metadata");
    char version[KIND_API_VERSION_BYTES];

    json_add_str(run->arena, meta, "name", name);
    if (kind->namespaced)
        json_add_str(run->arena, meta, "namespace", run->queue->ns);
    struct json *labels = json_make_path(run->arena, meta, "labels");
    json_add_c(run->arena, labels, "torchrun.ai/managed-by", "torchrunqueue-controller");
    json_add_str(run->arena, labels, LABEL_QUEUE, run->queue->name);
    if (!kind->namespaced) { /* a namespaced owner cannot own it */
        json_add_str(run->arena, labels, LABEL_QUEUE_SPACE, run->queue->ns);
        return body;
    }
    json_fill(run->arena, meta,
              "{ownerReferences: [{apiVersion: $, kind: $, name: $, uid: $, "
              "controller: true, blockOwnerDeletion: true}]}",
              str_dup(run->arena, kind_api_version(run->queue->kind, version)),
              run->queue->kind->name, run->queue->name, run->queue->uid);
    return body;
}

/* What the template says and the object does not; what the server or others added stays. */
static struct json *missing(struct arena *arena, const struct json *has, const struct json *wanted)
{
    _cleanup_(json_names_done) struct json_names names = {.object = has};
    struct json *patch = NULL;

    JSON_FOREACH(wanted, member) {
        const struct json *now = json_names_get(&names, json_key(member));
        struct json *change;

        if (json_equal(now, member))
            continue;
        change = json_is(now, JSON_OBJECT) && json_is(member, JSON_OBJECT)
                     ? missing(arena, now, member)
                     : json_clone(arena, member);
        if (!change)
            continue;
        patch = patch ? patch : json_new_object(arena);
        json_append(patch, json_key(member), change);
    }
    return patch;
}

/* What is wrong with an object of that name; nothing where it is this queue's. */
static struct str taken(const struct run *run, const struct object *object)
{
    const struct object_owner *owner = object_controller(object);
    struct str queue = object_label(object, LABEL_QUEUE);
    struct str space = object_label(object, LABEL_QUEUE_SPACE);
    const char *other = "spec.resources can have another name for it, or nameMode prefix";

    if (owner ? str_eq(owner->uid, run->queue->uid)
              : str_eq(queue, run->queue->name) && (!space.len || str_eq(space, run->queue->ns)))
        return STR_NONE;
    action_look_again(run->actions, run->input->now_ms + TAKEN_LOOK_MS);
    if (owner)
        return str_printf(run->arena, "it belongs to " STR_FMT " " STR_FMT "; %s",
                          STR_ARG(owner->kind), STR_ARG(owner->name), other);
    if (queue.len)
        return str_printf(run->arena, "it belongs to TorchrunQueue " STR_FMT "%s" STR_FMT "; %s",
                          STR_ARG(queue), space.len ? " of namespace " : "", STR_ARG(space), other);
    return str_printf(run->arena, "somebody else made it; %s", other);
}

/* Empty: the object is there. */
static struct str ensure(struct run *run, const struct torchrun_resource *resource)
{
    const struct json *template = resource->template;
    struct str version = json_str(json_get(template, "apiVersion"));
    struct str kind_name = json_str(json_get(template, "kind"));
    const struct kind *kind =
        run->input->kinds ? kinds_by_name(run->input->kinds, version, kind_name) : NULL;
    struct str name = torchrun_resource_name(run->queue, resource, run->arena);

    if (!kind)
        return str_printf(run->arena,
                          "the server knows no kind " STR_FMT " in apiVersion \"" STR_FMT "\"",
                          STR_ARG(kind_name), STR_ARG(version));
    if (run->input->is_watched && !run->input->is_watched(run->input->user, kind)) {
        action_watch(run->actions, kind);
        return STR("not read yet");
    }
    const struct object *object =
        cache_get(run->input->cache, kind, kind->namespaced ? run->queue->ns : STR(""), name);
    if (!object) {
        action_create(run->actions, kind, make(run, template, kind, name));
        return run->input->refusal.len ? run->input->refusal : STR("being created");
    }
    struct str problem = taken(run, object);
    if (problem.len || resource->immutable || object->deleted_ms)
        return problem;
    struct json *wanted = json_clone(run->arena, template);
    json_remove(wanted, STR("metadata"));
    json_remove(wanted, STR("status"));
    struct json *patch = missing(run->arena, object_json(object, run->arena), wanted);
    if (patch)
        action_patch(run->actions, object, patch);
    return STR_NONE;
}

/* Whether one before it is the same object: it has what that one says. */
static bool is_twice(const struct run *run, const struct torchrun_spec *spec, size_t index)
{
    const struct torchrun_resource *it = &spec->resources[index];

    for (size_t i = 0; i < index; i++) {
        const struct torchrun_resource *other = &spec->resources[i];

        if (str_eq(torchrun_resource_name(run->queue, it, run->arena),
                   torchrun_resource_name(run->queue, other, run->arena)) &&
            json_equal(json_get(it->template, "kind"), json_get(other->template, "kind")) &&
            json_equal(json_get(it->template, "apiVersion"),
                       json_get(other->template, "apiVersion")))
            return true;
    }
    return false;
}

bool torchrun_resources(const struct control_input *input,
                        const struct object *queue,
                        const struct torchrun_spec *spec,
                        struct actions *actions,
                        struct json *status)
{
    struct run run = {.input = input, .arena = actions->arena, .actions = actions, .queue = queue};
    struct json *list = json_new_array(run.arena);
    bool ready = true;

    for (size_t i = 0; i < spec->resource_count; i++) {
        const struct torchrun_resource *resource = &spec->resources[i];
        struct str problem = is_twice(&run, spec, i)
                                 ? STR("spec.resources has the same object above")
                                 : ensure(&run, resource);
        struct json *entry = json_push(
            list, json_make(run.arena, "{name: $, kind: $, ready: $}",
                            torchrun_resource_name(queue, resource, run.arena),
                            json_str(json_get(resource->template, "kind")), (bool)(!problem.len)));

        if (problem.len)
            json_add_str(run.arena, entry, "message", problem);
        ready = ready && !problem.len;
    }
    if (!json_count(list))
        return true;
    json_set(status, STR("resourceStatuses"), list);
    json_add_bool(run.arena, status, "resourcesReady", ready);
    return ready;
}
