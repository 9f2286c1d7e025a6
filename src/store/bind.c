#include "store/bind.h"

#include "api/api.h"
#include "api/condition.h"
#include "api/kind.h"
#include "api/object.h"
#include "api/patch.h"
#include "base/arena.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "store/host.h"
#include "store/reply.h"
#include "store/state.h"
#include "store/write.h"

#include <stddef.h>

/* Binding pods to nodes, one or a whole gang. */

static void set_scheduled(struct write *write, struct json *root)
{
    static const struct condition scheduled = {.type = "PodScheduled", .status = "True"};
    struct json *status = json_make_path(write->arena, root, "status");

    condition_set(write->arena, status, &scheduled, store_now(write->store));
    JSON_FOREACH(json_get(status, "conditions"), condition)
        if (str_is(json_str(json_get(condition, "type")), scheduled.type))
            json_set(condition, STR("lastProbeTime"), json_new_null(write->arena));
}

/* `ret`: the pod as it is, for binding_stage(). */
static int binding_check(struct write *write, const struct api_binding *binding, struct json **ret)
{
    const struct object *pod = write->old;

    if (!pod)
        return reply_not_found(write->reply, &kind_pod, binding->pod);
    if (binding->uid.len && !str_eq(binding->uid, pod->uid))
        return reply_fail(write->reply, 409, "Conflict",
                          "Operation cannot be fulfilled on pods/binding \"" STR_FMT
                          "\": it is another pod of that name now",
                          STR_ARG(binding->pod));
    if (pod->deleted_ms)
        return reply_fail(write->reply, 409, "Conflict",
                          "pod " STR_FMT " is being deleted, cannot be assigned to a host",
                          STR_ARG(binding->pod));
    *ret = object_json(pod, write->arena);
    if (json_count(json_at(*ret, "spec.schedulingGates")))
        return reply_fail(write->reply, 409, "Conflict",
                          "pod " STR_FMT " has non-empty .spec.schedulingGates",
                          STR_ARG(binding->pod));
    struct str bound = json_str_at(*ret, "spec.nodeName");
    if (bound.len)
        return reply_fail(write->reply, 409, "Conflict",
                          "pod " STR_FMT " is already assigned to node \"" STR_FMT "\"",
                          STR_ARG(binding->pod), STR_ARG(bound));
    return 0;
}

static int binding_stage(struct write *write, const struct api_binding *binding, struct json *root)
{
    struct json *annotations = NULL;

    if (binding->annotations.len &&
        json_parse(write->arena, binding->annotations, &annotations, NULL) < 0)
        return reply_fail(write->reply, 400, "BadRequest", "binding: annotations are not JSON");
    json_add_str(write->arena, json_make_path(write->arena, root, "spec"), "nodeName",
                 binding->node);
    if (json_is(annotations, JSON_OBJECT))
        (void)patch_merge(write->arena, json_make_path(write->arena, root, "metadata.annotations"),
                          annotations);
    set_scheduled(write, root);
    return write_stage(write, API_MODIFIED, root);
}

static struct api_request pod_request(const struct api_binding *binding)
{
    return (struct api_request){
        .verb = API_PATCH, .kind = &kind_pod, .ns = binding->ns, .name = binding->pod};
}

/* All are checked before the first is staged; staging cannot fail then but for absurd sizes, which
 * the check of the annotations' bytes in write_stage() would meet for the first pod already. */
static int bind_all(struct store *store,
                    struct reply *reply,
                    const struct api_binding *bindings,
                    size_t count)
{
    struct write *writes = ARENA_ARRAY(&reply->arena, struct write, count);
    struct json **roots = ARENA_ARRAY(&reply->arena, struct json *, count);

    for (size_t i = 0; i < count; i++) {
        struct api_request request = pod_request(&bindings[i]);
        int r = write_open(&writes[i], store, reply, &request);

        if (r == 0)
            r = binding_check(&writes[i], &bindings[i], &roots[i]);
        if (r < 0)
            return r;
    }
    for (size_t i = 0; i < count; i++) {
        int r = binding_stage(&writes[i], &bindings[i], roots[i]);

        if (r < 0)
            return r;
    }
    return 0;
}

void store_bind(struct api *api,
                const struct api_binding *bindings,
                size_t count,
                api_done_fn *done,
                void *user)
{
    struct store *store = (struct store *)api;
    struct reply *reply = reply_new(store, done, user);

    (void)bind_all(store, reply, bindings, count);
    reply_settle(store, reply);
}

static int binding_read(struct write *write, const struct json *root)
{
    struct str kind = json_str_at(root, "target.kind");
    int r = write_check_post(write, root, "Binding", "v1");

    if (r < 0)
        return r;
    const struct json *name = json_at(root, "target.name");

    if (!json_is_null(name) && !json_is(name, JSON_STRING))
        return reply_fail(write->reply, 400, "BadRequest",
                          "Binding in version \"v1\" cannot be handled as a Binding: target.name: "
                          "must be a string");
    if (kind.len && !str_is(kind, "Node"))
        return reply_wrong(write->reply, "target.kind", "must be Node, or empty");
    return json_str_at(root, "target.name").len ? 0
                                                : reply_missing(write->reply, "target.name", "");
}

int bind_pod(struct write *write, const struct api_request *request)
{
    struct json *root = NULL;
    struct json *pod = NULL;
    struct err err = {0};

    if (json_parse(write->arena, request->body, &root, &err) < 0)
        return reply_fail(write->reply, 400, "BadRequest", "Binding: %s", err.text);
    struct api_binding binding = {.ns = write->ns,
                                  .pod = write->name,
                                  .uid = json_str_at(root, "metadata.uid"),
                                  .node = json_str_at(root, "target.name")};
    const struct json *annotations = json_at(root, "metadata.annotations");
    if (annotations)
        binding.annotations = json_text(write->arena, annotations);
    int r = binding_read(write, root);
    if (r == 0)
        r = binding_check(write, &binding, &pod);
    return r < 0 ? r : binding_stage(write, &binding, pod);
}
