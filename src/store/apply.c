#include "store/apply.h"

#include "api/api.h"
#include "api/apply.h"
#include "api/kind.h"
#include "api/schema.h"
#include "base/arena.h"
#include "base/count.h"
#include "base/json.h"
#include "base/str.h"
#include "base/vec.h"
#include "store/managed.h"
#include "store/reply.h"
#include "store/shelf.h"
#include "store/state.h"
#include "store/write.h"

#include <stddef.h>

#define WARNINGS_MAX 20

/* Server-side apply on the staged state: api/apply.h decides, here its outcome becomes a write or
 * an answer. */

static int apply_conflict(struct write *write, const struct apply *apply)
{
    struct reply *reply = write->reply;
    struct api_cause *causes = ARENA_ARRAY(write->arena, struct api_cause, apply->conflicts.count);

    for (size_t i = 0; i < apply->conflicts.count; i++)
        causes[i] =
            (struct api_cause){.field = apply->conflicts.items[i].field,
                               .reason = STR("FieldManagerConflict"),
                               .message = str_printf(write->arena, "conflict with \"" STR_FMT "\"",
                                                     STR_ARG(apply->conflicts.items[i].manager))};
    reply->result.causes = causes;
    reply->result.cause_count = apply->conflicts.count;
    return reply_fail(
        reply, 409, "Conflict",
        "Apply failed with %zu conflict%s: conflict with \"" STR_FMT "\": " STR_FMT "%s",
        apply->conflicts.count, apply->conflicts.count > 1 ? "s" : "",
        STR_ARG(apply->conflicts.items[0].manager), STR_ARG(apply->conflicts.items[0].field),
        apply->conflicts.count > 1 ? " (and more)" : "");
}

#define LAST_APPLIED "kubectl.kubernetes.io/last-applied-configuration"

/* kubectl without --server-side compares with this annotation. Where there is one, kubectl's own
 * server-side applies keep it true, so that people may go back and forth. */
static void keep_last_applied(struct write *write, struct json *merged, const struct json *config)
{
    struct json *annotations = json_at(merged, "metadata.annotations");

    if (!str_is(write->field_manager, "kubectl") || !json_get(annotations, LAST_APPLIED))
        return;
    struct json *said = json_clone(write->arena, config);
    json_remove(json_at(said, "metadata.annotations"), STR(LAST_APPLIED));
    json_add_str(write->arena, annotations, LAST_APPLIED,
                 str_printf(write->arena, STR_FMT "\n", STR_ARG(json_text(write->arena, said))));
}

/* In the words of server-side apply, which clients look for. */
int apply_refuse(struct write *write, const struct schema_unknown *unknown)
{
    struct str text = STR("");

    for (size_t i = 0; i < unknown->count && i < WARNINGS_MAX; i++)
        text = str_printf(write->arena, STR_FMT "%s." STR_FMT ": field not declared in schema",
                          STR_ARG(text), i ? ", " : "", STR_ARG(unknown->items[i]));
    return reply_fail_whole(
        write->reply, 400, "BadRequest",
        str_printf(write->arena,
                   "failed to create typed patch object (" STR_FMT "/" STR_FMT "; %s): " STR_FMT,
                   STR_ARG(write->ns), STR_ARG(write->name), write->kind->name, STR_ARG(text)));
}

/* What an apply says, its manager owns: nobody can own what is not there. */
static int check_known(struct write *write, const struct json *config)
{
    const struct kind_crd *crd = kinds_crd(write->store->api.kinds, write->kind);
    const struct schema *schema = crd ? crd->schema : store_shape(write->store, write->kind);
    struct json *copy = json_clone(write->arena, config);
    struct schema_unknown unknown = {0};

    if (schema)
        schema_prune(write->arena, schema, copy, &unknown);
    size_t in_spec = unknown.count;
    schema_prune(write->arena, write->store->meta_shape, json_get(copy, "metadata"), &unknown);
    for (size_t i = in_spec; i < unknown.count; i++)
        unknown.items[i] = str_printf(write->arena, "metadata." STR_FMT, STR_ARG(unknown.items[i]));
    return unknown.count ? apply_refuse(write, &unknown) : 0;
}

/* Who applies says who he is, and which object he means: the one of the address. */
static int apply_check(struct write *write,
                       const struct api_request *request,
                       const struct json *config)
{
    struct str name = json_str_at(config, "metadata.name");

    if (!request->field_manager.len)
        return reply_missing(write->reply, "fieldManager", "is required for apply patch");
    if (!json_is_null(json_at(config, "metadata.managedFields")))
        return reply_fail(write->reply, 400, "BadRequest",
                          "metadata.managedFields must be nil in an apply patch");
    if (name.len && !str_eq(name, write->name))
        return reply_fail(write->reply, 400, "BadRequest",
                          "the name of the object (" STR_FMT
                          ") does not match the name on the URL (" STR_FMT ")",
                          STR_ARG(str_sub(name, 0, 64)), STR_ARG(write->name));
    struct str ns = json_str_at(config, "metadata.namespace");
    if (ns.len && write->kind->namespaced && !str_eq(ns, write->ns))
        return reply_fail(write->reply, 400, "BadRequest",
                          "the namespace of the provided object does not match the namespace sent "
                          "on the request");
    return check_known(write, config);
}

int apply_write(struct write *write, const struct api_request *request, struct json *config)
{
    struct apply apply = apply_for(write, request->force);
    const struct schema *shape = store_shape(write->store, write->kind);

    int r = apply_check(write, request, config);

    if (r < 0)
        return r;
    if (!write->old) {
        write->managed = apply_first(&apply, config);
        if (apply.too_large)
            return apply_too_large(write);
        return write_new(write, config);
    }
    if (!write->kind->namespaced)
        json_remove(json_get(config, "metadata"), STR("namespace"));
    if (write->kind == &kind_csr) /* what is asked for stays as it was made */
        json_remove(config, STR("spec"));
    struct json *live = write_tree(write);
    if (shape)
        schema_amounts(write->arena, shape, config, live);
    struct json *merged = apply_merge(&apply, live, config);
    if (apply.too_large)
        return apply_too_large(write);
    if (!merged)
        return apply_conflict(write, &apply);
    keep_last_applied(write, merged, config);
    write->managed = json_clone(write->arena, json_at(merged, "metadata.managedFields"));
    /* Preconditions come from the client's text, not from the object it was merged with. */
    static const char *const given[] = {"resourceVersion", "uid"};
    for (size_t i = 0; i < COUNT_OF(given); i++) {
        struct json *meta = json_get(merged, "metadata");
        const struct json *value = json_get(json_get(config, "metadata"), given[i]);

        if (value)
            json_set(meta, str_from(given[i]), json_clone(write->arena, value));
        else
            json_remove(meta, str_from(given[i]));
    }
    return write_replace(write, merged);
}
