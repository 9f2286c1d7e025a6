#include "store/delete.h"

#include "api/admit.h"
#include "api/api.h"
#include "api/condition.h"
#include "api/convert.h"
#include "api/kind.h"
#include "api/object.h"
#include "api/pod.h"
#include "api/schema.h"
#include "api/types.h"
#include "base/err.h"
#include "base/json.h"
#include "base/json_items.h"
#include "base/str.h"
#include "base/time.h"
#include "store/host.h"
#include "store/read.h"
#include "store/reply.h"
#include "store/shelf.h"
#include "store/state.h"
#include "store/write.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Deletion: at once, after a grace period (pods, whose node agent says when they have stopped), or
 * when the last finalizer is gone. */

#define FINALIZER_FOREGROUND "foregroundDeletion"
#define FINALIZER_ORPHAN     "orphan"
#define CHILDREN_NAMED       5 /* queues below one that is to be deleted */

static const struct kind kind_options = {.group = "meta.k8s.io",
                                         .version = "v1",
                                         .name = "DeleteOptions",
                                         .plural = "deleteoptions"};

static void check_options(struct admit *admit, const struct json *root)
{
    const struct json *policy = json_get(root, "propagationPolicy");
    struct str word = json_str(policy);

    if (policy && json_get(root, "orphanDependents"))
        admit_invalid(admit, STR("propagationPolicy"), policy,
                      "orphanDependents and propagationPolicy cannot be both set");
    if (policy && !str_is(word, "Background") && !str_is(word, "Foreground") &&
        !str_is(word, "Orphan"))
        admit_unsupported(admit, STR("propagationPolicy"), policy,
                          "\"Background\", \"Foreground\", \"Orphan\"");
    JSON_FOREACH(json_get(root, "dryRun"), each)
        if (!str_is(json_str(each), "All")) {
            admit_unsupported(admit, STR("dryRun"), json_get(root, "dryRun"), "\"All\"");
            break;
        }
}

/* It fits into what it is, and says what there is. */
static int options_read(struct reply *reply, struct str body, struct json **ret)
{
    struct admit admit = {.arena = &reply->arena, .kind = &kind_options};
    const struct schema *shape =
        type_schema(&reply->arena, type_named(STR("meta.k8s.io/v1"), str_from(kind_options.name)));
    struct err err = {0};

    if (json_parse(&reply->arena, body, ret, &err) < 0)
        return reply_fail(reply, 400, "BadRequest", "DeleteOptions: %s", err.text);
    if (json_is_null(*ret))
        return 0;
    struct str kind = json_str(json_get(*ret, "kind"));
    if (!json_is_null(json_get(*ret, "kind")) && !json_is(json_get(*ret, "kind"), JSON_STRING))
        return reply_fail(reply, 400, "BadRequest", "DeleteOptions: kind: must be a string");
    if (kind.len && !str_is(kind, kind_options.name))
        return reply_fail(reply, 400, "BadRequest",
                          "the body of a delete is DeleteOptions, not a " STR_FMT,
                          STR_ARG(str_sub(kind, 0, 64)));
    if (json_is(*ret, JSON_OBJECT))
        (void)schema_default(&reply->arena, shape, *ret, NULL);
    schema_validate(&admit, shape, *ret);
    if (admit.causes.count)
        return reply_misfit(reply, &kind_options, "", &admit);
    check_options(&admit, *ret);
    return admit.causes.count ? reply_invalid(reply, &kind_options, STR(""), &admit) : 0;
}

int delete_parse(struct reply *reply, const struct api_request *request, struct delete_options *ret)
{
    struct json *root = NULL;

    *ret = (struct delete_options){
        .grace_seconds = DELETE_GRACE_OWN, .uid = request->uid, .dry_run = request->dry_run};
    if (!request->body.len)
        return 0;
    int r = options_read(reply, request->body, &root);
    if (r < 0)
        return r;
    const struct json *orphan = json_get(root, "orphanDependents");
    const struct json *grace = json_get(root, "gracePeriodSeconds");
    if (grace)
        (void)json_i64(grace, &ret->grace_seconds);
    if (!ret->uid.len)
        ret->uid = json_str_at(root, "preconditions.uid");
    ret->resource_version = json_str_at(root, "preconditions.resourceVersion");
    ret->propagation = json_str(json_get(root, "propagationPolicy"));
    if (orphan)
        ret->propagation = json_bool_or(orphan, false) ? STR("Orphan") : STR("Background");
    if (request->kind == &kind_event || request->kind == &kind_event_k8s)
        ret->propagation = STR(""); /* nothing is an event's: it goes at once */
    ret->dry_run |= json_count(json_get(root, "dryRun")) > 0;
    return 0;
}

static int check_preconditions(struct write *write, const struct delete_options *options)
{
    uint64_t revision = 0;

    if (options->uid.len && !str_eq(options->uid, write->old->uid))
        return reply_fail(write->reply, 409, "Conflict",
                          "Operation cannot be fulfilled on %s \"" STR_FMT
                          "\": Precondition failed: UID in precondition: " STR_FMT
                          ", UID in object meta: " STR_FMT,
                          write->kind->plural, STR_ARG(write->name), STR_ARG(options->uid),
                          STR_ARG(write->old->uid));
    if (options->resource_version.len &&
        (!str_to_u64(options->resource_version, &revision) || revision != write->old->revision))
        return reply_fail(write->reply, 409, "Conflict",
                          "Operation cannot be fulfilled on %s \"" STR_FMT
                          "\": Precondition failed: the object has another resourceVersion",
                          write->kind->plural, STR_ARG(write->name));
    if (write->kind == &kind_namespace &&
        (str_is(write->name, "default") || str_is(write->name, "kube-system") ||
         str_is(write->name, "kube-public")))
        return reply_fail(write->reply, 403, "Forbidden",
                          "namespaces \"" STR_FMT
                          "\" is forbidden: this namespace may not be deleted",
                          STR_ARG(write->name));
    return 0;
}

/* How long the object may take to go. Only pods have time, and only those that run somewhere. */
static int64_t grace_of(const struct write *write,
                        const struct json *root,
                        const struct delete_options *options)
{
    if (write->kind != &kind_pod || !json_str_at(root, "spec.nodeName").len || pod_is_over(root))
        return 0;
    int64_t grace = options->grace_seconds;
    if (grace == DELETE_GRACE_OWN)
        grace = json_i64_or(json_at(root, "spec.terminationGracePeriodSeconds"), 30);
    return grace < 0 ? 1 : grace;
}

/* The finalizers that make dependents wait or go first. */
static void set_propagation(struct write *write, struct json *meta, struct str policy)
{
    struct json *list = json_get(meta, "finalizers");
    const char *wanted = str_is(policy, "Foreground") ? FINALIZER_FOREGROUND
                         : str_is(policy, "Orphan")   ? FINALIZER_ORPHAN
                                                      : NULL;

    if (!policy.len)
        return;
    json_drop_items(list, NULL, STR(FINALIZER_FOREGROUND));
    json_drop_items(list, NULL, STR(FINALIZER_ORPHAN));
    if (!wanted)
        return;
    if (!json_is(list, JSON_ARRAY))
        list = json_add_array(write->arena, meta, "finalizers");
    json_push(list, json_new_str(write->arena, str_from(wanted)));
}

static bool job_uses(struct write *write, const struct object *job)
{
    const struct json *root = object_json(job, write->arena);
    struct str queue = json_str_at(root, "spec.jobQueue");
    struct str phase = json_str_at(root, "status.phase");

    if (!queue.len)
        queue = json_str_at(root, "spec.queue");
    return str_eq(job->ns, write->ns) && str_eq(queue, write->name) &&
           !str_is(phase, "Succeeded") && !str_is(phase, "Failed") && !str_is(phase, "TimedOut");
}

/* A queue goes at once; whoever deletes it hears of the jobs that are left without one. */
static void warn_of_jobs(struct write *write)
{
    const struct shelf *shelf = shelf_of(write->store, &kind_torchrunjob);
    size_t count = 0;

    if (write->kind != &kind_torchrunqueue || !shelf)
        return;
    for (size_t i = 0; i < shelf->entries.count; i++) {
        const struct object *job = entry_latest(shelf->entries.items[i]);

        count += job && job_uses(write, job);
    }
    if (count)
        write->reply->result.warnings = str_printf(
            write->arena,
            "%zu TorchrunJobs that have not ended use this queue: what runs goes on, and "
            "nothing is started or restarted until there is a TorchrunQueue " STR_FMT " again",
            count, STR_ARG(write->name));
}

/* A queue with queues below it stays: they would be left without one. The first few are named. */
static int keep_parent(struct write *write)
{
    const struct shelf *shelf = shelf_of(write->store, &kind_queue);
    struct str names = STR_NONE;
    size_t count = 0;

    if (write->kind != &kind_queue || !shelf)
        return 0;
    for (size_t i = 0; i < shelf->entries.count; i++) {
        const struct object *queue = entry_latest(shelf->entries.items[i]);

        if (!queue || queue->deleted_ms ||
            !str_eq(json_str_at(object_json(queue, write->arena), "spec.parentQueue"), write->name))
            continue;
        if (count++ < CHILDREN_NAMED)
            names = str_printf(write->arena, STR_FMT "%s" STR_FMT, STR_ARG(names),
                               names.len ? ", " : "", STR_ARG(queue->name));
    }
    if (!count)
        return 0;
    return reply_fail(write->reply, 403, "Forbidden",
                      "queues.scheduling.run.ai \"" STR_FMT
                      "\" is forbidden: %zu queue%s below it (" STR_FMT
                      "%s): delete them, or give them another parentQueue, first",
                      STR_ARG(write->name), count, count == 1 ? " is" : "s are", STR_ARG(names),
                      count > CHILDREN_NAMED ? ", ..." : "");
}

/* A Job's podFailurePolicy asks for it. Who said before why the pod goes, as the scheduler does,
 * knows better. */
static void tell_eviction(struct write *write, struct json *root)
{
    struct json *status = json_make_path(write->arena, root, "status");

    if (!condition_is_true(status, "DisruptionTarget"))
        condition_set(write->arena, status,
                      &(struct condition){"DisruptionTarget", "True", "EvictionByEvictionAPI",
                                          STR("its eviction was asked for, as kubectl drain does")},
                      store_now(write->store));
}

int delete_object(struct write *write, const struct delete_options *options)
{
    if (!write->old)
        return reply_not_found(write->reply, write->kind, write->name);
    int r = check_preconditions(write, options);
    if (r < 0)
        return r;

    struct json *root = object_json(write->old, write->arena);
    convert(write->arena, root, write->old->kind, write->kind);
    r = write_policies(write, "DELETE", NULL, root);
    if (r == 0)
        r = keep_parent(write);
    if (r == 0)
        r = write_review(write, root, NULL);
    if (r < 0)
        return r;
    struct json *meta = json_get(root, "metadata");
    int64_t grace = grace_of(write, root, options);
    int64_t before = json_i64_or(json_get(meta, "deletionGracePeriodSeconds"), 0);
    bool again = write->old->deleted_ms != 0;

    write->dry_run |= options->dry_run;
    warn_of_jobs(write);
    if (!again)
        set_propagation(write, meta, options->propagation);
    /* A second delete can only hurry the first one. */
    if (again && grace >= before) {
        reply_object_as(write->reply, write->shelf, write->old, write->kind);
        return 0;
    }
    json_add_str(write->arena, meta, "deletionTimestamp",
                 time_text(write->arena, store_now(write->store) + grace * 1000));
    json_add_i64(write->arena, meta, "deletionGracePeriodSeconds", grace);
    if (!again && write->old->generation)
        json_add_i64(write->arena, meta, "generation", write->old->generation + 1);
    if (write->kind == &kind_namespace)
        json_add_c(write->arena, json_make_path(write->arena, root, "status"), "phase",
                   "Terminating");
    if (options->evicted)
        tell_eviction(write, root);
    write->reply->result.gone = delete_is_due(root);
    return write_stage(write, write->reply->result.gone ? API_DELETED : API_MODIFIED, root);
}

/* Deletes what the list of the same request would give, each by its own rules, in one batch. */
void delete_collection(struct store *store, struct reply *reply, const struct api_request *request)
{
    struct delete_options options;
    struct err refusal = {0};
    struct str reason = STR("");
    int r = delete_parse(reply, request, &options);

    if (r == 0)
        r = read_items(store, reply, request);
    for (size_t i = 0; r == 0 && i < reply->result.item_count; i++) {
        const struct object *object = reply->result.items[i];
        struct reply *one = reply_new(store, NULL, NULL);
        struct write write;

        int gone = write_open(&write, store, one,
                              &(struct api_request){.verb = API_DELETE,
                                                    .kind = request->kind,
                                                    .ns = object->ns,
                                                    .name = object->name,
                                                    .dry_run = request->dry_run});

        if (gone == 0)
            gone = delete_object(&write, &options);
        if (gone < 0 && !refusal.code) {
            refusal = one->err;
            reason = one->result.reason;
        }
        reply->staged |= one->staged;
        reply_queue(store, one);
    }
    /* The others go; who asked hears that not all do. */
    if (refusal.code)
        (void)reply_fail(reply, refusal.http_status, str_c(&reply->arena, reason), "%s",
                         refusal.text);
    reply_settle(store, reply);
}
