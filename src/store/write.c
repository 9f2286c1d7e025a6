#include "store/write.h"

#include "api/admit.h"
#include "api/api.h"
#include "api/convert.h"
#include "api/crd.h"
#include "api/kind.h"
#include "api/object.h"
#include "api/schema.h"
#include "base/arena.h"
#include "base/count.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "base/time.h"
#include "base/vec.h"
#include "cel/policy.h"
#include "cel/rules.h"
#include "store/admission.h"
#include "store/apply.h"
#include "store/batch.h"
#include "store/host.h"
#include "store/identity.h"
#include "store/idle.h"
#include "store/keep.h"
#include "store/managed.h"
#include "store/policy.h"
#include "store/quota.h"
#include "store/reply.h"
#include "store/selectors.h"
#include "store/shelf.h"
#include "store/space.h"
#include "store/state.h"
#include "store/sums.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Creates, updates and patches: from a body to a staged object. */

bool delete_is_due(const struct json *root)
{
    const struct json *meta = json_get(root, "metadata");

    return !json_is_null(json_get(meta, "deletionTimestamp")) &&
           !json_count(json_get(meta, "finalizers")) &&
           !json_i64_or(json_get(meta, "deletionGracePeriodSeconds"), 0) &&
           !(str_is(json_str(json_get(root, "kind")), "Namespace") &&
             json_count(json_at(root, "spec.finalizers")));
}

/* Writes that may wait for the disk at a time; more are told to come back. */
#define BATCH_CHANGES_MAX 50000
#define BATCH_BYTES_MAX   ((size_t)256 << 20)
#define WARNINGS_MAX      20

/* A full disk: what makes room or cannot be told again later is written to the reserve; anything
 * else when there is room again. */
static bool is_written_anyway(const struct write *write, const struct api_request *request)
{
    const struct store *store = write->store;

    return store->full && (request->verb == API_DELETE || (write->old && write->old->deleted_ms) ||
                           (write->kind == &kind_pod && str_is(request->subresource, "status")) ||
                           reserve_has_room(&store->reserve));
}

/* The object that is there, in the version of the request. A delete needs no version, so that what
 * no webhook converts any more can go. */
static int open_version(struct write *write, const struct api_request *request)
{
    struct api_conversion *conversion = request->conversion;

    if (!write->shelf->webhook || !write->old || write->old->kind == write->kind)
        return 0;
    if (request->verb == API_DELETE) {
        write->kind = write->old->kind;
        return 0;
    }
    if (conversion && conversion->old && conversion->revision == write->old->revision)
        return 0;
    if (conversion)
        conversion->moved = true;
    return reply_fail(write->reply, 409, "Conflict",
                      "Operation cannot be fulfilled on %s \"" STR_FMT
                      "\": it is stored as %s and has to be converted first; please try again",
                      write->kind->plural, STR_ARG(write->name), write->old->kind->version);
}

int write_open(struct write *write,
               struct store *store,
               struct reply *reply,
               const struct api_request *request)
{
    const struct kind *kind = request->kind;

    *write = (struct write){.store = store,
                            .reply = reply,
                            .arena = &reply->arena,
                            .kind = kind,
                            .shelf = shelf_of(store, kind),
                            .ns = kind->namespaced ? request->ns : STR(""),
                            .name = request->name,
                            .subresource = request->subresource,
                            .owned_part = request->subresource,
                            .dry_run = request->dry_run,
                            .strict_fields = request->strict_fields,
                            .field_manager = request->field_manager,
                            .guard = request->guard,
                            .user = request->user,
                            .review = request->review,
                            .conversion = request->conversion};
    if (!write->shelf)
        return reply_fail(reply, 404, "NotFound",
                          "the server could not find the requested resource (%s)", kind->plural);
    if (write->name.len) {
        write->entry = shelf_find(write->shelf, write->ns, write->name);
        write->old = entry_latest(write->entry);
    }
    if (store->read_only[0] && !is_written_anyway(write, request))
        return reply_fail(reply, 503, "ServiceUnavailable", "%s", store->read_only);
    if (store->open &&
        (store->open->changes.count >= BATCH_CHANGES_MAX || store->open->bytes >= BATCH_BYTES_MAX))
        return reply_fail(reply, 429, "TooManyRequests",
                          "too many writes are waiting for the disk; try again in a moment");
    if (kind->namespaced && !write->ns.len)
        return reply_fail(reply, 400, "BadRequest",
                          "an empty namespace may not be set during creation");
    if (write->old)
        arena_defer(write->arena, object_release, object_ref(write->old));
    return open_version(write, request);
}

int write_parse(struct write *write, struct str body, bool whole, struct json **ret)
{
    struct err err = {0};

    if (json_parse_telling(write->arena, body, &write->doubles, ret, &err) < 0)
        return reply_fail(write->reply, 400, "BadRequest", "%s%s%sthe body is not JSON: %s",
                          whole ? "the object provided is unrecognized (must be of type " : "",
                          whole ? write->kind->name : "", whole ? "): " : "", err.text);
    return space_check_values(write, *ret);
}

int write_check_type(struct write *write, struct json *root)
{
    char text[KIND_API_VERSION_BYTES];
    struct str api_version = kind_api_version(write->kind, text);
    struct str given_version = json_str(json_get(root, "apiVersion"));
    struct str given_kind = json_str(json_get(root, "kind"));
    static const struct {
        const char *name;
        enum json_type type;
        const char *words;
    } always[] = {{"apiVersion", JSON_STRING, "a string"},
                  {"kind", JSON_STRING, "a string"},
                  {"metadata", JSON_OBJECT, "an object"}};

    if (!json_is(root, JSON_OBJECT))
        return reply_fail(write->reply, 400, "BadRequest", "the body must be a JSON object");
    for (size_t i = 0; i < COUNT_OF(always); i++) {
        const struct json *value = json_get(root, always[i].name);

        if (!json_is_null(value) && !json_is(value, always[i].type))
            return reply_fail(write->reply, 400, "BadRequest", "%s: must be %s", always[i].name,
                              always[i].words);
    }
    if ((given_kind.len && !str_is(given_kind, write->kind->name)) ||
        (given_version.len && !str_eq(given_version, api_version)))
        return reply_fail(write->reply, 400, "BadRequest",
                          STR_FMT " in version \"" STR_FMT
                                  "\" cannot be handled as a %s: the address is of %s " STR_FMT,
                          STR_ARG(given_kind), STR_ARG(given_version), write->kind->name,
                          write->kind->name, STR_ARG(api_version));
    if (!given_version.len)
        json_set(root, STR("apiVersion"),
                 json_new_str(write->arena, str_dup(write->arena, api_version)));
    if (!given_kind.len)
        json_add_c(write->arena, root, "kind", write->kind->name);
    if (!json_is(json_get(root, "metadata"), JSON_OBJECT))
        json_add_object(write->arena, root, "metadata");
    return 0;
}

int write_check_post(struct write *write,
                     const struct json *root,
                     const char *kind,
                     const char *version)
{
    struct str given = json_str(json_get(root, "kind"));
    struct str given_version = json_str(json_get(root, "apiVersion"));
    struct str ns = json_str_at(root, "metadata.namespace");
    struct str name = json_str_at(root, "metadata.name");

    if (!json_is(root, JSON_OBJECT) || (given.len && !str_is(given, kind)) ||
        (given_version.len && !str_starts(given_version, str_from(version))) ||
        (json_get(root, "metadata") && !json_is(json_get(root, "metadata"), JSON_OBJECT)))
        return reply_fail(write->reply, 400, "BadRequest",
                          "the object provided is unrecognized (must be of type %s, of %s)", kind,
                          version);
    if (ns.len && !str_eq(ns, write->ns))
        return reply_fail(write->reply, 400, "BadRequest",
                          "the namespace of the provided object does not match the namespace sent "
                          "on the request");
    if (!str_eq(name, write->name) && (name.len || write->user))
        return reply_fail(write->reply, 400, "BadRequest",
                          "name in URL does not match name in %s object", kind);
    return 0;
}

static int check_place(struct write *write, struct json *meta)
{
    struct str ns = json_str(json_get(meta, "namespace"));
    struct str name = json_str(json_get(meta, "name"));

    if (write->kind->namespaced && ns.len && !str_eq(ns, write->ns))
        return reply_fail(write->reply, 400, "BadRequest",
                          "the namespace of the provided object does not match the namespace sent "
                          "on the request");
    if (write->name.len && name.len && !str_eq(name, write->name))
        return reply_fail(write->reply, 400, "BadRequest",
                          "the name of the object (" STR_FMT
                          ") does not match the name on the URL (" STR_FMT ")",
                          STR_ARG(name), STR_ARG(write->name));
    if (write->kind->namespaced)
        json_add_str(write->arena, meta, "namespace", write->ns);
    else
        json_remove(meta, STR("namespace"));
    return 0;
}

static int check_namespace(struct write *write)
{
    if (!write->kind->namespaced)
        return 0;
    const struct object *ns =
        entry_latest(shelf_find(shelf_of(write->store, &kind_namespace), STR(""), write->ns));
    if (!ns)
        return reply_not_found(write->reply, &kind_namespace, write->ns);
    if (ns->deleted_ms)
        return reply_fail(write->reply, 403, "Forbidden",
                          STR_FMT
                          " \"" STR_FMT
                          "\" is forbidden: unable to create new content in namespace " STR_FMT
                          " because it is being terminated",
                          STR_ARG(kind_resource(write->arena, write->kind)), STR_ARG(write->name),
                          STR_ARG(write->ns));
    return 0;
}

/* ---- admission ---- */
static void complaint_add(struct write *write, struct str *text, const char *what, struct str path)
{
    const char *between = !text->len ? "" : write->strict_fields ? ", " : "\n";

    *text = str_printf(write->arena, STR_FMT "%s%s \"" STR_FMT "\"", STR_ARG(*text), between, what,
                       STR_ARG(path));
}

/* What is wrong with the fields of the body: a warning a line, or one text for a refusal. Kubernetes
 * reads custom resources first, which shows doubles, and prunes them then; kinds of its own it reads
 * into structs, in one go. */
static struct str field_complaints(struct write *write, const struct schema_unknown *unknown)
{
    struct str text = STR("");

    for (size_t i = 0; write->kind->custom && i < write->doubles.count; i++)
        complaint_add(write, &text, "duplicate field", write->doubles.paths[i]);
    for (size_t i = 0; i < unknown->count && i < WARNINGS_MAX; i++)
        complaint_add(write, &text, "unknown field", unknown->items[i]);
    for (size_t i = 0; !write->kind->custom && i < write->doubles.count; i++)
        complaint_add(write, &text, "duplicate field", write->doubles.paths[i]);
    return text;
}

/* What the schema does not know is dropped with a word about it, or refused. */
static int fields_prune(struct write *write, struct json *root, const struct schema *schema)
{
    struct schema_unknown unknown = {0};
    struct reply *reply = write->reply;

    if (schema)
        schema_prune(write->arena, schema, root, &unknown);
    size_t in_spec = unknown.count;
    schema_prune(write->arena, write->store->meta_shape, json_get(root, "metadata"), &unknown);
    for (size_t i = 0; i < write->unknown.count; i++)
        VEC_PUSH(write->arena, &unknown, write->unknown.items[i]);
    for (size_t i = 0; i < unknown.count; i++)
        if (i >= in_spec)
            unknown.items[i] =
                str_printf(write->arena, "metadata." STR_FMT, STR_ARG(unknown.items[i]));
    if (unknown.count && write->managed && write->strict_fields)
        return apply_refuse(write, &unknown);
    struct str text = field_complaints(write, &unknown);
    if (text.len && write->strict_fields) {
        (void)reply_fail_whole(
            reply, 400, "BadRequest",
            str_printf(write->arena,
                       "%s in version \"%s\" cannot be handled as a %s: strict decoding "
                       "error: " STR_FMT,
                       write->kind->name, write->kind->version, write->kind->name, STR_ARG(text)));
        return write->patched && !write->merged ? reply_patch(reply) : -EINVAL;
    }
    reply->result.warnings = text;
    return 0;
}

int write_too_large(struct write *write, const struct err *err)
{
    return reply_fail(write->reply, 413, "RequestEntityTooLarge", "%s \"" STR_FMT "\": %s",
                      write->kind->name, STR_ARG(write->name), err->text);
}

static int fill_in(struct write *write,
                   const struct schema *schema,
                   struct json *value,
                   const struct json *old)
{
    struct err err = {0};

    return schema_settle(write->arena, schema, value, old, &err) < 0 ? write_too_large(write, &err)
                                                                     : 0;
}

static int misfit(struct write *write, const char *prefix, const struct admit *admit)
{
    int r = reply_misfit(write->reply, write->kind, prefix, admit);

    return write->patched ? reply_patch(write->reply) : r;
}

/* Metadata of all kinds, and all of the built-in ones, are read into structs in Kubernetes: what
 * does not fit there is no bad value but a bad request. */
static int check_shape(struct write *write,
                       struct json *root,
                       const struct json *old,
                       const struct schema *schema)
{
    struct admit admit = {.arena = write->arena, .kind = write->kind, .object = root};
    struct json *meta = json_get(root, "metadata");
    bool custom = write->kind->custom;
    int r = fields_prune(write, root, schema);

    /* Before anything is made of it: what is filled in only adds to it. */
    if (r == 0)
        r = space_check_size(write, space_least(root));
    if (r == 0)
        r = space_check_values(write, root);
    if (r == 0)
        r = fill_in(write, write->store->meta_shape, meta, json_get(old, "metadata"));
    if (r < 0)
        return r;
    schema_validate(&admit, write->store->meta_shape, meta);
    if (admit.causes.count)
        return misfit(write, "metadata.", &admit);
    if (!schema || custom)
        return 0;
    r = fill_in(write, schema, root, old);
    if (r < 0)
        return r;
    schema_validate(&admit, schema, root);
    return admit.causes.count ? misfit(write, "", &admit) : 0;
}

static int ask_guard(struct write *write, const struct json *old, const struct json *root)
{
    struct str message = STR("");
    struct err err = {0};

    if (!write->guard || write->guard->ask(write->guard->user, old, root, &message, &err) >= 0)
        return 0;
    write->reply->result.message = message;
    return err.http_status == 404 ? reply_fail(write->reply, 404, "NotFound", "%s", err.text)
                                  : reply_fail(write->reply, 403, "Forbidden", "%s", err.text);
}

/* Rules in CEL: of a CRD or a policy that is written, and of the CRD that an object is of. They see
 * objects that are otherwise right. */
static void check_rules(struct write *write, struct admit *admit, const struct kind_crd *crd)
{
    struct str *warnings = &write->reply->result.warnings;

    if (admit->causes.count || write->store->compiled_in)
        return;
    if (write->kind == &kind_crd)
        rules_check_crd(admit);
    else if (write->kind == &kind_admissionpolicy)
        policy_check(admit, warnings);
    else if (write->kind == &kind_admissionbinding)
        policy_check_binding(admit, warnings);
    else if (write->kind == &kind_mutatingwebhooks || write->kind == &kind_validatingwebhooks)
        policy_check_webhooks(admit, warnings);
    else if (crd)
        rules_validate(admit, crd->rules, crd->schema, warnings);
}

int write_policies(struct write *write,
                   const char *operation,
                   const struct json *object,
                   const struct json *old)
{
    struct policy_refusal refusal = {0};

    if (policy_run(write, operation, object, old, &refusal))
        return 0;
    return reply_fail(write->reply, refusal.status, refusal.reason,
                      STR_FMT " \"" STR_FMT "\" is forbidden: " STR_FMT,
                      STR_ARG(kind_resource(write->arena, write->kind)), STR_ARG(write->name),
                      STR_ARG(refusal.words));
}

static int review_stop(struct write *write, const struct err *err)
{
    return reply_fail(write->reply, err->http_status ? err->http_status : 500, "InternalError",
                      "%s", err->text);
}

int write_review(struct write *write, const struct json *old, const struct json *object)
{
    struct err err = {0};

    if (!write->review || write->review->look(write->review->user, old, object, &err) >= 0)
        return 0;
    return review_stop(write, &err);
}

/* What others make of it has to fit as what its writer sent had to. */
static int review_change(struct write *write, struct admit *admit, const struct schema *schema)
{
    struct str warnings = write->reply->result.warnings;
    struct err err = {0};

    if (!write->review)
        return 0;
    int r =
        write->review->change(write->review->user, write->arena, admit->old, admit->object, &err);
    if (r < 0)
        return review_stop(write, &err);
    if (r == 0)
        return 0;
    keep_reviewed(write, admit->object, admit->old);
    write->doubles = (struct json_doubles){0};
    r = check_shape(write, admit->object, admit->old, schema);
    write->reply->result.warnings = warnings;
    if (r < 0)
        return r;
    return admit_default(admit, &err) < 0 ? write_too_large(write, &err) : 0;
}

static int admit_object(struct write *write, struct json *root, const struct json *old)
{
    const struct kind_crd *crd = kinds_crd(write->store->api.kinds, write->kind);
    const struct schema *shape = store_shape(write->store, write->kind);
    struct admit admit = {.arena = write->arena,
                          .kind = write->kind,
                          .object = root,
                          .old = old,
                          .subresource = write->subresource,
                          .schema = crd ? crd->schema : NULL,
                          .shape = shape,
                          .now_ms = store_now(write->store)};
    struct err err = {0};
    int r = check_shape(write, root, old, crd ? crd->schema : shape);

    if (r == 0 && write->unversioned)
        r = reply_wrong(write->reply, "metadata.resourceVersion",
                        "must be specified for an update");
    if (r < 0)
        return r;
    if (admit_default(&admit, &err) < 0)
        return write_too_large(write, &err);
    r = review_change(write, &admit, crd ? crd->schema : shape);
    if (r == 0 && !old)
        r = apply_create(write, root);
    if (r < 0)
        return r;
    admit_add(&admit);
    r = admission_run(write, &admit);
    if (r < 0)
        return r;
    if (!write->store->compiled_in)
        admit_validate(&admit);
    if (admit.warnings.len)
        write->reply->result.warnings =
            str_printf(write->arena, STR_FMT "%s" STR_FMT, STR_ARG(write->reply->result.warnings),
                       write->reply->result.warnings.len ? "\n" : "", STR_ARG(admit.warnings));
    check_rules(write, &admit, crd);
    selectors_check(&admit);
    if (admit.causes.count)
        return reply_invalid(write->reply, write->kind, write->name, &admit);
    struct str words = quota_refusal(write, &admit);
    if (words.len)
        return reply_fail(write->reply, 403, "Forbidden",
                          STR_FMT " \"" STR_FMT "\" is forbidden: " STR_FMT,
                          STR_ARG(kind_resource(write->arena, write->kind)), STR_ARG(write->name),
                          STR_ARG(words));
    r = write_policies(write, old ? "UPDATE" : "CREATE", root, old);
    if (r < 0)
        return r;
    idle_warn(write);
    if (write->kind == &kind_crd)
        crd_set_status(write->arena, root, store_now(write->store));
    r = ask_guard(write, old, root);
    return r < 0 ? r : write_review(write, old, root);
}

/* ---- staging ---- */
int write_stage(struct write *write, enum api_event event, struct json *root)
{
    struct store *store = write->store;
    struct json *meta = NULL;
    struct object *object = NULL;
    struct err err = {0};
    const struct kind *stored = write->shelf->kind;
    uint64_t revision = store->staged_revision + 1;

    if (!write->shelf->webhook)
        convert(write->arena, root, write->kind, stored);
    else if (!write->conversion)
        stored = write->kind; /* a delete, or an edit of the store's own */
    else if (write->kind != stored &&
             write->conversion->convert(write->conversion->user, write->arena, root, &err) < 0)
        return review_stop(write, &err);
    meta = json_get(root, "metadata");
    /* A dry run shows what would be, at the revision it has now. */
    if (!write->dry_run)
        json_add_str(write->arena, meta, "resourceVersion",
                     str_printf(write->arena, "%" PRIu64, revision));
    struct str text = json_text(write->arena, root);
    int r = event == API_DELETED ? 0 : space_check_size(write, text.len);
    if (r == 0 && event != API_DELETED)
        r = space_check(write, text.len);
    if (r < 0)
        return r;
    if (object_written(stored, text, &object, &err) < 0)
        return reply_fail(write->reply, 400, "BadRequest", "%s", err.text);
    reply_object_as(write->reply, write->shelf, object, write->kind);
    if (write->dry_run) {
        object_unref(object);
        return 0;
    }
    struct entry *entry = shelf_make(write->shelf, object->ns, object->name);
    const struct object *previous = object_ref(entry_latest(entry));
    object_unref(entry->staged);
    entry->staged = event == API_DELETED ? NULL : object_ref(object);
    entry->staged_revision = store->staged_revision = revision;
    sums_follow(store, write->shelf, previous, entry->staged);
    space_follow(store, previous, entry->staged);
    struct batch *batch = batch_open(store);
    batch->bytes += text.len;
    VEC_PUSH(NULL, &batch->changes,
             (struct change){.event = event,
                             .entry = entry,
                             .object = object,
                             .previous = previous,
                             .revision = revision});
    write->entry = entry;
    write->old = object;
    write->reply->staged = true;
    store_wake(store);
    return 0;
}

struct json *write_tree(struct write *write)
{
    if (write->shelf->webhook && write->old->kind != write->kind)
        return json_clone(write->arena, write->conversion->old);
    struct json *root = object_json(write->old, write->arena);
    convert(write->arena, root, write->old->kind, write->kind);
    return root;
}

/* ---- verbs ---- */
int write_new(struct write *write, struct json *root)
{
    struct json *meta = json_get(root, "metadata");
    int r = identity_check(write, meta, NULL);

    if (r == 0)
        r = check_place(write, meta);

    if (r == 0)
        r = identity_give(write, meta);
    keep_no_status(write, root);
    if (r == 0)
        r = check_namespace(write);
    if (r == 0)
        r = admit_object(write, root, NULL);
    if (r < 0)
        return r;
    if (entry_latest(shelf_find(write->shelf, write->ns, write->name)))
        return reply_fail(write->reply, 409, "AlreadyExists",
                          STR_FMT " \"" STR_FMT "\" already exists",
                          STR_ARG(kind_resource(write->arena, write->kind)), STR_ARG(write->name));
    meta = json_get(root, "metadata"); /* webhooks may have brought another */
    if (json_count(write->managed))
        json_set(meta, STR("managedFields"), write->managed);
    else
        json_remove(meta, STR("managedFields"));
    write->reply->result.created = true;
    return write_stage(write, API_ADDED, root);
}

int write_create(struct write *write, const struct api_request *request)
{
    struct json *root = NULL;
    int r = write_parse(write, request->body, true, &root);

    if (r == 0)
        r = write_check_type(write, root);
    return r < 0 ? r : write_new(write, root);
}

int write_nameless(struct write *write)
{
    return reply_fail(write->reply, 400, "BadRequest",
                      "the name of the object (" STR_FMT
                      " based on URL) was undeterminable: name must be provided",
                      STR_ARG(write->name));
}

static int check_preconditions(struct write *write, const struct json *meta)
{
    struct str uid = json_str(json_get(meta, "uid"));
    struct str version = json_str(json_get(meta, "resourceVersion"));
    uint64_t revision = 0;
    struct str resource = kind_resource(write->arena, write->kind);

    if ((write->patched || write->managed) && uid.len && !str_eq(uid, write->old->uid))
        return reply_wrong(write->reply, "metadata.uid", "field is immutable");
    if (uid.len && !str_eq(uid, write->old->uid))
        return reply_fail(write->reply, 409, "Conflict",
                          "Operation cannot be fulfilled on " STR_FMT " \"" STR_FMT
                          "\": Precondition failed: UID in precondition: " STR_FMT
                          ", UID in object meta: " STR_FMT,
                          STR_ARG(resource), STR_ARG(write->name), STR_ARG(uid),
                          STR_ARG(write->old->uid));
    if (version.len && !str_to_u64(version, &revision))
        return reply_fail(write->reply, 400, "BadRequest",
                          "metadata.resourceVersion: \"" STR_FMT
                          "\" is not a version that this server gave out",
                          STR_ARG(version));
    if (revision && revision != write->old->revision)
        return reply_fail(write->reply, 409, "Conflict",
                          "Operation cannot be fulfilled on " STR_FMT " \"" STR_FMT
                          "\": the object has been modified; please apply your changes to the "
                          "latest version and try again",
                          STR_ARG(resource), STR_ARG(write->name));
    return 0;
}

/* Everything but metadata and status is what generations count. */
static bool spec_changed(const struct json *root, const struct json *old)
{
    JSON_FOREACH(root, member) {
        struct str key = json_key(member);

        if (!str_is(key, "metadata") && !str_is(key, "status") &&
            !json_equal(member, json_get_str(old, key)))
            return true;
    }
    JSON_FOREACH(old, member)
        if (!str_is(json_key(member), "status") && !json_get_str(root, json_key(member)))
            return true;
    return false;
}

static void drop_times(struct json *root)
{
    JSON_FOREACH(json_at(root, "metadata.managedFields"), entry)
        json_remove(entry, STR("time"));
}

/* Applying the same again moves nothing but the time of the apply, which is no change. */
static bool same_but_times(struct arena *arena, const struct json *a, const struct json *b)
{
    if (!json_count(json_at(a, "metadata.managedFields")))
        return json_equal(a, b);
    struct json *x = json_clone(arena, a);
    struct json *y = json_clone(arena, b);
    drop_times(x);
    drop_times(y);
    return json_equal(x, y);
}

int write_replace(struct write *write, struct json *root)
{
    const struct json *old = write_tree(write);
    struct json *meta = json_get(root, "metadata");
    int r = check_place(write, meta);

    if (r == 0)
        r = identity_check(write, meta, json_get(old, "metadata"));
    if (r == 0)
        r = check_preconditions(write, meta);
    if (r < 0)
        return r;
    if (write->kind == &kind_csr) /* what is asked for stays, and is read all the same */
        r = check_shape(write, json_clone(write->arena, root), old,
                        store_shape(write->store, write->kind));
    if (r < 0)
        return r;
    root = keep_old(write, root, old);
    meta = json_get(root, "metadata");
    json_add_str(write->arena, meta, "resourceVersion",
                 json_str_at(old, "metadata.resourceVersion"));
    r = admit_object(write, root, old);
    if (r < 0)
        return r;
    r = apply_update(write, old, root);
    if (r < 0)
        return r;
    /* What is stored in an older version is brought to the one of today. */
    if (write->old->kind == write->shelf->kind && same_but_times(write->arena, root, old)) {
        reply_object_as(write->reply, write->shelf, write->old, write->kind);
        return 0;
    }
    if (write->old->generation && spec_changed(root, old))
        json_add_i64(write->arena, json_get(root, "metadata"), "generation",
                     write->old->generation + 1);
    return write_stage(write, delete_is_due(root) ? API_DELETED : API_MODIFIED, root);
}

/* Kubernetes has an update of these say which state it has seen. */
static bool needs_version(const struct kind *kind)
{
    static const char *const groups[] = {"admissionregistration.k8s.io", "apiextensions.k8s.io",
                                         "apiregistration.k8s.io"};

    for (size_t i = 0; i < COUNT_OF(groups); i++)
        if (strcmp(kind->group, groups[i]) == 0)
            return true;
    return kind == &kind_lease || kind == &kind_pdb || kind == &kind_runtimeclass ||
           kind == &kind_csidriver || kind == &kind_csinode || kind == &kind_volumeattachment ||
           kind == &kind_csistoragecapacity;
}

bool write_is_unversioned(const struct write *write, const struct json *root)
{
    struct str version = json_str_at(root, "metadata.resourceVersion");

    return needs_version(write->kind) && (!version.len || str_is(version, "0"));
}

int write_update(struct write *write, const struct api_request *request)
{
    struct json *root = NULL;
    int r = write_parse(write, request->body, true, &root);

    if (r == 0)
        r = write_check_type(write, root);
    if (r < 0)
        return r;
    if (!write->name.len)
        return reply_fail(write->reply, 405, "MethodNotAllowed", "an update needs a name");
    if (!write->old)
        return reply_not_found(write->reply, write->kind, write->name);
    if (!json_str_at(root, "metadata.name").len)
        return write_nameless(write);
    write->unversioned = write_is_unversioned(write, root);
    return write_replace(write, root);
}
