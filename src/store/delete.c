#include "store/delete.h"

#include "api/api.h"
#include "api/condition.h"
#include "api/convert.h"
#include "api/kind.h"
#include "api/object.h"
#include "api/pod.h"
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

int delete_parse(struct reply *reply, const struct api_request *request, struct delete_options *ret)
{
    struct json *root = NULL;
    struct err err = {0};

    *ret = (struct delete_options){
        .grace_seconds = -1, .uid = request->uid, .dry_run = request->dry_run};
    if (!request->body.len)
        return 0;
    if (json_parse(&reply->arena, request->body, &root, &err) < 0)
        return reply_fail(reply, 400, "BadRequest", "DeleteOptions: %s", err.text);
    ret->grace_seconds = json_i64_or(json_get(root, "gracePeriodSeconds"), -1);
    if (!ret->uid.len)
        ret->uid = json_str_at(root, "preconditions.uid");
    ret->resource_version = json_str_at(root, "preconditions.resourceVersion");
    ret->propagation = json_str(json_get(root, "propagationPolicy"));
    if (json_bool_or(json_get(root, "orphanDependents"), false))
        ret->propagation = STR("Orphan");
    if (json_count(json_get(root, "dryRun")))
        ret->dry_run = true;
    if (ret->propagation.len && !str_is(ret->propagation, "Background") &&
        !str_is(ret->propagation, "Foreground") && !str_is(ret->propagation, "Orphan"))
        return reply_fail(reply, 422, "Invalid",
                          "propagationPolicy must be Background, Foreground or Orphan");
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
    if (options->grace_seconds >= 0)
        return options->grace_seconds;
    return json_i64_or(json_at(root, "spec.terminationGracePeriodSeconds"), 30);
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
