#include "store/scale.h"

#include "api/api.h"
#include "api/kind.h"
#include "api/object.h"
#include "api/patch.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "store/apply.h"
#include "store/reply.h"
#include "store/shelf.h"
#include "store/state.h"
#include "store/write.h"

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The scale subresource of kinds that have one: a small object of its own, computed from the
 * paths the CRD names (built-in kinds have fixed ones), and written back to them. */

static const struct kind kind_scale = {.group = "autoscaling",
                                       .version = "v1",
                                       .name = "Scale",
                                       .plural = "scales",
                                       .singular = "scale",
                                       .short_names = "",
                                       .categories = "",
                                       .namespaced = true};

/* ".spec.replicas" without the dot that JSON paths begin with. */
static const char *path_plain(const char *path)
{
    return path[0] == '.' ? path + 1 : path;
}

/* A LabelSelector, or the plain map of a ReplicationController, as a client would write it. */
static struct str selector_text(struct arena *arena, const struct json *selector)
{
    const struct json *labels = json_get(selector, "matchLabels");
    const struct json *terms = json_get(selector, "matchExpressions");
    _cleanup_(buf_done) struct buf text = {0};

    JSON_FOREACH(labels || terms ? labels : selector, label)
        buf_addf(&text, "%s" STR_FMT "=" STR_FMT, text.len ? "," : "", STR_ARG(json_key(label)),
                 STR_ARG(json_str(label)));
    JSON_FOREACH(terms, term) {
        struct str op = json_str(json_get(term, "operator"));
        struct str key = json_str(json_get(term, "key"));
        const char *separator = "";

        buf_addf(&text, "%s%s" STR_FMT, text.len ? "," : "", str_is(op, "DoesNotExist") ? "!" : "",
                 STR_ARG(key));
        if (!str_is(op, "In") && !str_is(op, "NotIn"))
            continue;
        buf_addf(&text, " %s (", str_is(op, "In") ? "in" : "notin");
        JSON_FOREACH(json_get(term, "values"), value) {
            buf_addf(&text, "%s" STR_FMT, separator, STR_ARG(json_str(value)));
            separator = ",";
        }
        buf_addc(&text, ')');
    }
    return str_dup(arena, buf_str(&text));
}

static struct json *scale_tree(struct arena *arena,
                               const struct object *object,
                               const struct kind_crd *crd)
{
    const struct json *root = object_json(object, arena);
    struct json *scale = json_new_object(arena);
    struct json *meta = NULL;
    static const char *const kept[] = {"name", "namespace", "uid", "resourceVersion",
                                       "creationTimestamp"};

    json_add_c(arena, scale, "kind", "Scale");
    json_add_c(arena, scale, "apiVersion", "autoscaling/v1");
    meta = json_add_object(arena, scale, "metadata");
    for (size_t i = 0; i < COUNT_OF(kept); i++) {
        const struct json *value = json_get(json_get(root, "metadata"), kept[i]);

        if (value)
            json_set(meta, str_from(kept[i]), json_clone(arena, value));
    }
    json_add_i64(arena, json_add_object(arena, scale, "spec"), "replicas",
                 json_i64_or(json_at(root, path_plain(crd->scale_spec)), 0));
    struct json *status = json_add_object(arena, scale, "status");
    json_add_i64(arena, status, "replicas",
                 json_i64_or(json_at(root, path_plain(crd->scale_status)), 0));
    if (!object->kind->custom)
        json_add_str(arena, status, "selector",
                     selector_text(arena, json_at(root, "spec.selector")));
    else if (crd->scale_selector)
        json_add_str(arena, status, "selector",
                     str_dup(arena, json_str_at(root, path_plain(crd->scale_selector))));
    return scale;
}

static void reply_scale(struct reply *reply,
                        const struct object *object,
                        const struct kind_crd *crd)
{
    struct object *scale = NULL;
    struct str text = json_text(&reply->arena, scale_tree(&reply->arena, object, crd));
    int r = object_new(&kind_scale, text, &scale, NULL);

    assert(r == 0);
    (void)r;
    reply_object(reply, scale);
    object_unref(scale);
}

static const struct kind_crd *kind_scaled(const struct store *store, const struct kind *kind)
{
    return kinds_scale(store->api.kinds, kind);
}

static int no_scale(struct reply *reply, const struct kind *kind)
{
    return reply_fail(reply, 404, "NotFound",
                      "the server could not find the requested resource: %s have no scale",
                      kind->plural);
}

int scale_get(struct store *store, struct reply *reply, const struct api_request *request)
{
    const struct kind_crd *crd = kind_scaled(store, request->kind);
    const struct shelf *shelf = shelf_of(store, request->kind);

    if (!crd || !shelf)
        return no_scale(reply, request->kind);
    const struct entry *entry =
        shelf_find(shelf, request->kind->namespaced ? request->ns : STR(""), request->name);
    if (!entry || !entry->committed)
        return reply_not_found(reply, request->kind, request->name);
    reply_scale(reply, entry->committed, crd);
    return 0;
}

/* The Scale that the client wants. */
static int scale_wanted(struct write *write,
                        const struct api_request *request,
                        const struct kind_crd *crd,
                        struct json **ret)
{
    struct json *body = NULL;
    struct err err = {0};

    if (json_parse(write->arena, request->body, &body, &err) < 0)
        return reply_fail(write->reply, 400, "BadRequest", "the body is not JSON: %s", err.text);
    *ret = body;
    if (request->verb == API_UPDATE || request->patch == API_PATCH_APPLY)
        return 0;
    struct json *now = scale_tree(write->arena, write->old, crd);
    if (request->patch == API_PATCH_JSON) {
        int r = patch_json(write->arena, now, body, ret, &err);

        if (r == -E2BIG)
            return reply_fail(write->reply, 413, "RequestEntityTooLarge", "%s", err.text);
        return r < 0 ? reply_fail(write->reply, 422, "Invalid", "%s", err.text) : 0;
    }
    *ret = patch_merge(write->arena, now, body);
    return 0;
}

/* "spec.replicas" set in the object, whatever the path is. */
static void set_replicas(struct arena *arena, struct json *root, const char *path, int64_t replicas)
{
    struct str all = str_from(path_plain(path));
    size_t dot = all.len;

    while (dot > 0 && all.p[dot - 1] != '.')
        dot--;
    struct str last = str_sub(all, dot, all.len);
    struct json *parent =
        dot ? json_make_path(arena, root, str_c(arena, str_sub(all, 0, dot - 1))) : root;
    json_set(parent, str_dup(arena, last), json_new_i64(arena, replicas));
}

/* The Scale is of the object of the address. */
static int check_scale(struct write *write, const struct api_request *request, struct json *scale)
{
    struct str name = json_str_at(scale, "metadata.name");
    struct str ns = json_str_at(scale, "metadata.namespace");
    struct str kind = json_str(json_get(scale, "kind"));
    struct str version = json_str(json_get(scale, "apiVersion"));
    bool applied = request->verb == API_PATCH && request->patch == API_PATCH_APPLY;

    if (!json_is(scale, JSON_OBJECT))
        return reply_fail(write->reply, 400, "BadRequest", "the body is no Scale");
    if ((applied || kind.len || version.len) &&
        (!str_is(kind, "Scale") || !str_is(version, "autoscaling/v1")))
        return reply_fail(write->reply, 400, "BadRequest",
                          STR_FMT " in version \"" STR_FMT
                                  "\" cannot be handled as a Scale: use autoscaling/v1",
                          STR_ARG(kind), STR_ARG(version));
    if (ns.len && !str_eq(ns, write->ns))
        return reply_fail(write->reply, 400, "BadRequest",
                          "the namespace of the provided object does not match the namespace sent "
                          "on the request");
    if (!name.len && request->verb == API_UPDATE)
        return write_nameless(write);
    if (name.len && !str_eq(name, write->name))
        return reply_fail(write->reply, 400, "BadRequest",
                          "the name of the object (" STR_FMT
                          ") does not match the name on the URL (" STR_FMT ")",
                          STR_ARG(str_sub(name, 0, 64)), STR_ARG(write->name));
    return 0;
}

/* Who applies a Scale owns the object's replicas, through its scale. */
static int scale_apply(struct write *write,
                       const struct api_request *request,
                       const struct json *scale,
                       const struct kind_crd *crd)
{
    char version[KIND_API_VERSION_BYTES];
    struct json *config = json_new_object(write->arena);
    const struct json *wanted = json_at(scale, "spec.replicas");
    int64_t replicas = 0;

    JSON_FOREACH(json_get(scale, "spec"), member)
        if (!str_is(json_key(member), "replicas"))
            return reply_fail(write->reply, 400, "BadRequest",
                              "failed to create typed patch object (" STR_FMT "/" STR_FMT
                              "; Scale): .spec." STR_FMT ": field not declared in schema",
                              STR_ARG(write->ns), STR_ARG(write->name),
                              STR_ARG(str_sub(json_key(member), 0, 64)));
    json_add_str(write->arena, config, "apiVersion",
                 str_dup(write->arena, kind_api_version(write->kind, version)));
    json_add_c(write->arena, config, "kind", write->kind->name);
    struct json *meta = json_add_object(write->arena, config, "metadata");
    static const char *const given[] = {"name", "resourceVersion", "uid", "managedFields"};
    for (size_t i = 0; i < COUNT_OF(given); i++) {
        const struct json *value = json_get(json_get(scale, "metadata"), given[i]);

        if (value)
            json_set(meta, str_from(given[i]), json_clone(write->arena, value));
    }
    if (json_i64(wanted, &replicas))
        set_replicas(write->arena, config, crd->scale_spec, replicas);
    return apply_write(write, request, config);
}

static int wrong_replicas(struct write *write, const struct api_request *request)
{
    int r = reply_fail(write->reply, 400, "BadRequest",
                       "Scale in version \"v1\" cannot be handled as a Scale: spec.replicas: must "
                       "be a whole number");

    return request->verb == API_PATCH ? reply_patch(write->reply) : r;
}

int scale_write(struct write *write, const struct api_request *request)
{
    const struct kind_crd *crd = kind_scaled(write->store, write->kind);
    bool applied = request->verb == API_PATCH && request->patch == API_PATCH_APPLY;
    struct json *scale = NULL;
    int64_t replicas = 0;

    if (!crd)
        return no_scale(write->reply, write->kind);
    if (!write->old)
        return reply_not_found(write->reply, write->kind, write->name);
    int r = scale_wanted(write, request, crd, &scale);
    if (r == 0)
        r = check_scale(write, request, scale);
    if (r < 0)
        return r;
    /* Clients in Go leave a zero away. */
    const struct json *wanted = json_at(scale, "spec.replicas");
    if (!json_is_null(wanted) && !json_i64(wanted, &replicas))
        return wrong_replicas(write, request);
    if (replicas < 0)
        return reply_wrong(write->reply, "spec.replicas", "must be greater than or equal to 0");
    write->subresource = STR("");
    if (applied) {
        r = scale_apply(write, request, scale, crd);
    } else {
        struct json *root = write_tree(write);
        struct str version = json_str_at(scale, "metadata.resourceVersion");

        set_replicas(write->arena, root, crd->scale_spec, replicas);
        /* A resourceVersion in the Scale is a precondition on the object, as is a uid. */
        if (request->verb == API_UPDATE && version.len)
            json_add_str(write->arena, json_get(root, "metadata"), "resourceVersion", version);
        struct str uid = json_str_at(scale, "metadata.uid");
        if (uid.len)
            json_add_str(write->arena, json_get(root, "metadata"), "uid", uid);
        r = write_replace(write, root);
    }
    if (r == 0)
        reply_scale(write->reply, write->reply->result.object, crd);
    return r;
}
