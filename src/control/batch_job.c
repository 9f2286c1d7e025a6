#include "control/batch_job.h"

#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/json.h"
#include "base/str.h"
#include "base/time.h"
#include "cache/cache.h"
#include "control/action.h"
#include "control/control.h"
#include "control/controllers.h"
#include "control/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* batch/v1 Job: count what ended, decide whether the job is over, else keep `parallelism` pods. The
 * status is written before pods are made or removed. */

#define BACKOFF_FIRST_MS 10000 /* after a failure; doubles with each, as Kubernetes does */
#define BACKOFF_LAST_MS  360000
#define BACKOFF_DEFAULT  6

struct batch {
    const struct control_input *input;
    struct arena *arena;
    struct actions *actions; /* to follow the status */
    const struct object *job;
    const struct json *spec;
    const struct json *before; /* status as it is */
    struct json *status;       /* as it should be */
    struct batch_pods pods;
    bool indexed;
    bool suspended;
    int64_t parallelism;
    int64_t completions; /* -1: not said: one success and no pod left is the end */
    int64_t succeeded;
    int64_t failed;
    int64_t active;
    int64_t last_failure_ms;
    bool *completed; /* of each index */
};

/* ---- looking ---- */

static bool has_finalizer(const struct json *tree)
{
    JSON_FOREACH(json_at(tree, "metadata.finalizers"), item)
        if (str_is(json_str(item), BATCH_FINALIZER))
            return true;
    return false;
}

static bool is_listed(const struct json *status, struct str uid)
{
    static const char *const lists[] = {"uncountedTerminatedPods.succeeded",
                                        "uncountedTerminatedPods.failed"};

    for (size_t i = 0; i < 2; i++)
        JSON_FOREACH(json_at(status, lists[i]), item)
            if (str_eq(json_str(item), uid))
                return true;
    return false;
}

/* When the last container ended. */
static int64_t end_of(const struct json *tree)
{
    int64_t last = 0;

    JSON_FOREACH(json_at(tree, "status.containerStatuses"), container) {
        int64_t ms = 0;

        if (time_parse(json_str_at(container, "state.terminated.finishedAt"), &ms) && ms > last)
            last = ms;
    }
    return last;
}

static void observe(struct batch *b)
{
    const struct object *object = NULL;
    size_t cursor = 0;

    while ((object = cache_next_owned(b->input->cache, &kind_pod, b->job->uid, &cursor))) {
        struct json *tree = object_json(object, b->arena);
        struct str phase = json_str_at(tree, "status.phase");
        struct batch_pod pod = {.object = object,
                                .tree = tree,
                                .index = -1,
                                .tracked = has_finalizer(tree),
                                .listed = is_listed(b->before, object->uid),
                                .ready = condition_is_true(json_get(tree, "status"), "Ready")};

        (void)str_to_i64(object_annotation(object, BATCH_INDEX), &pod.index);
        pod.state = str_is(phase, "Succeeded")                      ? BATCH_SUCCEEDED
                    : str_is(phase, "Failed") || object->deleted_ms ? BATCH_FAILED
                                                                    : BATCH_ACTIVE;
        pod.ended_ms = pod.state == BATCH_ACTIVE ? 0 : end_of(tree);
        if (pod.state == BATCH_FAILED && pod.ended_ms > b->last_failure_ms)
            b->last_failure_ms = pod.ended_ms;
        b->active += pod.state == BATCH_ACTIVE;
        VEC_PUSH(b->arena, &b->pods, pod);
    }
}

static void read_job(struct batch *b)
{
    const struct json *tree = object_json(b->job, b->arena);
    const struct json *completions = NULL;

    b->spec = json_get(tree, "spec");
    b->before = json_get(tree, "status");
    b->status = b->before ? json_clone(b->arena, b->before) : json_new_object(b->arena);
    b->indexed = str_is(json_str(json_get(b->spec, "completionMode")), "Indexed");
    b->suspended = json_bool_or(json_get(b->spec, "suspend"), false);
    b->parallelism = json_i64_or(json_get(b->spec, "parallelism"), 1);
    completions = json_get(b->spec, "completions");
    b->completions = json_i64_or(completions, json_get(b->spec, "parallelism") ? -1 : 1);
    if (b->completions > BATCH_INDEXES_MAX)
        b->completions = BATCH_INDEXES_MAX;
    b->succeeded = json_i64_or(json_get(b->status, "succeeded"), 0);
    b->failed = json_i64_or(json_get(b->status, "failed"), 0);
    if (b->indexed) {
        size_t count = b->completions > 0 ? (size_t)b->completions : 0;

        b->completed = ARENA_ARRAY(b->arena, bool, count + 1);
        batch_indexes_read(json_str(json_get(b->status, "completedIndexes")), b->completed, count);
    }
}

/* ---- the end ---- */

static bool is_over(const struct json *status)
{
    return condition_is_true(status, "Complete") || condition_is_true(status, "Failed");
}

static void finish(struct batch *b, bool well, const char *reason, struct str message)
{
    condition_set(
        b->arena, b->status,
        &(struct condition){well ? "SuccessCriteriaMet" : "FailureTarget", "True", reason, message},
        b->input->now_ms);
    condition_set(b->arena, b->status,
                  &(struct condition){well ? "Complete" : "Failed", "True", reason, message},
                  b->input->now_ms);
    if (well)
        json_add_str(b->arena, b->status, "completionTime", time_text(b->arena, b->input->now_ms));
    if (well)
        action_event(b->actions, b->job, "Completed", STR("Job completed"));
    else
        action_warn(b->actions, b->job, reason, message);
}

/* ---- counting ---- */

static void list_uid(struct batch *b, const char *list, struct str uid)
{
    struct json *uncounted = json_get(b->status, "uncountedTerminatedPods");
    struct json *array = NULL;

    if (!uncounted)
        uncounted = json_add_object(b->arena, b->status, "uncountedTerminatedPods");
    array = json_get(uncounted, list);
    if (!array)
        array = json_add_array(b->arena, uncounted, list);
    json_push(array, json_new_str(b->arena, uid));
}

/* Pods whose uid is listed are counted: their finalizer can go, and when it is gone, the uid. */
static void settle(struct batch *b)
{
    json_remove(b->status, STR("uncountedTerminatedPods"));
    for (size_t i = 0; i < b->pods.count; i++) {
        struct batch_pod *pod = &b->pods.items[i];

        if (!pod->tracked || !pod->listed)
            continue;
        list_uid(b, pod->state == BATCH_SUCCEEDED ? "succeeded" : "failed", pod->object->uid);
    }
}

static void drop_finalizer(struct batch *b, const struct batch_pod *pod)
{
    struct json *patch = json_new_object(b->arena);
    struct json *list =
        json_add_array(b->arena, json_add_object(b->arena, patch, "metadata"), "finalizers");

    JSON_FOREACH(json_at(pod->tree, "metadata.finalizers"), item)
        if (!str_is(json_str(item), BATCH_FINALIZER))
            json_push(list, json_new_str(b->arena, str_dup(b->arena, json_str(item))));
    action_patch(b->actions, pod->object, patch);
}

static void count_success(struct batch *b, const struct batch_pod *pod)
{
    if (!b->indexed) {
        b->succeeded++;
        return;
    }
    if (pod->index >= 0 && pod->index < b->completions && !b->completed[pod->index]) {
        b->completed[pod->index] = true;
        b->succeeded++;
    }
}

/* Deleted, but its node has not said yet how it ended. */
static bool still_ending(const struct batch_pod *pod)
{
    struct str phase = json_str_at(pod->tree, "status.phase");

    return pod->object->deleted_ms && !str_is(phase, "Succeeded") && !str_is(phase, "Failed") &&
           json_str_at(pod->tree, "spec.nodeName").len &&
           json_i64_or(json_at(pod->tree, "metadata.deletionGracePeriodSeconds"), 1) != 0;
}

/* Enter what ended since the last time. Returns words when a pod's end is the job's end. */
static struct str count(struct batch *b)
{
    const struct json *policy = json_get(b->spec, "podFailurePolicy");
    struct str final = STR_NONE;

    for (size_t i = 0; i < b->pods.count; i++) {
        struct batch_pod *pod = &b->pods.items[i];
        if (!pod->tracked || pod->listed || pod->state == BATCH_ACTIVE || still_ending(pod))
            continue;
        if (pod->state == BATCH_SUCCEEDED) {
            count_success(b, pod);
        } else {
            enum batch_verdict verdict = batch_failure_verdict(policy, pod, b->arena, &final);

            /* A pod that somebody deleted, a suspension included, is no failure of the job. */
            if (verdict != BATCH_IGNORE && !pod->object->deleted_ms)
                b->failed++;
        }
        list_uid(b, pod->state == BATCH_SUCCEEDED ? "succeeded" : "failed", pod->object->uid);
    }
    return final;
}

/* restartPolicy OnFailure: restarts in place count as well. */
static int64_t restarts(const struct batch *b)
{
    int64_t sum = 0;

    if (!str_is(json_str_at(b->spec, "template.spec.restartPolicy"), "OnFailure"))
        return 0;
    for (size_t i = 0; i < b->pods.count; i++)
        JSON_FOREACH(json_at(b->pods.items[i].tree, "status.containerStatuses"), container)
            sum += json_i64_or(json_get(container, "restartCount"), 0);
    return sum;
}

static void judge(struct batch *b, struct str final)
{
    int64_t limit = json_i64_or(json_get(b->spec, "backoffLimit"), BACKOFF_DEFAULT);
    int64_t seconds = json_i64_or(json_get(b->spec, "activeDeadlineSeconds"), 0);
    int64_t start_ms = 0;
    size_t indexes = b->indexed && b->completions > 0 ? (size_t)b->completions : 0;
    bool started = time_parse(json_str(json_get(b->status, "startTime")), &start_ms);

    if (final.len) {
        finish(b, false, "PodFailurePolicy", final);
    } else if (b->failed > limit || restarts(b) > limit) {
        finish(b, false, "BackoffLimitExceeded",
               str_printf(b->arena, "%lld pods failed, more than backoffLimit (%lld) allows",
                          (long long)b->failed, (long long)limit));
    } else if (seconds > 0 && started && b->input->now_ms >= start_ms + seconds * 1000) {
        finish(b, false, "DeadlineExceeded",
               str_printf(b->arena, "it ran longer than activeDeadlineSeconds (%lld)",
                          (long long)seconds));
    } else if (indexes && json_get(b->spec, "successPolicy") &&
               batch_success(json_get(b->spec, "successPolicy"), b->completed, indexes)) {
        finish(b, true, "SuccessPolicy", STR("a rule of successPolicy is met"));
    } else if (b->completions >= 0 ? b->succeeded >= b->completions
                                   : b->succeeded > 0 && !b->active) {
        finish(b, true, "CompletionsReached", STR("every completion was reached"));
    } else if (seconds > 0 && started && !b->suspended) {
        action_look_again(b->actions, start_ms + seconds * 1000);
    }
}

/* ---- pods ---- */

static void remove_active(struct batch *b, int64_t keep)
{
    for (size_t i = b->pods.count; i > 0; i--) {
        const struct batch_pod *pod = &b->pods.items[i - 1];

        if (pod->state != BATCH_ACTIVE)
            continue;
        if (keep > 0)
            keep--;
        else
            action_delete(b->actions, pod->object);
    }
}

static bool name_taken(const struct batch *b, struct str name)
{
    return cache_get(b->input->cache, &kind_pod, b->job->ns, name) != NULL;
}

/* The first free name of the row <job>-<5 letters>; the row depends on the job's uid and the index
 * only, so that doing it again after a crash gives the same names. */
static struct str free_name(const struct batch *b, int64_t index, int64_t *serial)
{
    static const char letters[] = "bcdfghjklmnpqrstvwxz2456789";

    for (;; (*serial)++) {
        struct str seed =
            str_printf(b->arena, STR_FMT "/%lld", STR_ARG(b->job->uid), (long long)*serial);
        uint64_t hash = str_hash(seed, 0);
        char tail[6] = {0};

        for (size_t i = 0; i < 5; i++, hash /= sizeof(letters) - 1)
            tail[i] = letters[hash % (sizeof(letters) - 1)];
        struct str name = index < 0
                              ? str_printf(b->arena, STR_FMT "-%s", STR_ARG(b->job->name), tail)
                              : str_printf(b->arena, STR_FMT "-%lld-%s", STR_ARG(b->job->name),
                                           (long long)index, tail);
        if (!name_taken(b, name)) {
            (*serial)++;
            return name;
        }
    }
}

static bool index_is_active(const struct batch *b, int64_t index)
{
    for (size_t i = 0; i < b->pods.count; i++)
        if (b->pods.items[i].index == index && b->pods.items[i].state == BATCH_ACTIVE)
            return true;
    return false;
}

static void make_pods(struct batch *b, int64_t missing)
{
    int64_t serial = b->succeeded + b->failed;
    int64_t index = 0;

    for (; missing > 0; missing--) {
        int64_t chosen = -1;

        if (b->indexed) {
            while (index < b->completions && (b->completed[index] || index_is_active(b, index)))
                index++;
            if (index >= b->completions)
                return;
            chosen = index++;
        }
        struct str name = free_name(b, chosen, &serial);
        action_create(b->actions, &kind_pod,
                      batch_make_pod(b->arena, b->job, b->spec, chosen, name));
        action_event(b->actions, b->job, "SuccessfulCreate",
                     str_printf(b->arena, "Created pod: " STR_FMT, STR_ARG(name)));
    }
}

static int64_t backoff_ms(int64_t failures)
{
    int64_t wait = BACKOFF_FIRST_MS;

    for (; failures > 1 && wait < BACKOFF_LAST_MS; failures--)
        wait *= 2;
    return wait < BACKOFF_LAST_MS ? wait : BACKOFF_LAST_MS;
}

static void keep_pods(struct batch *b)
{
    int64_t wanted = b->parallelism < BATCH_PODS_MAX ? b->parallelism : BATCH_PODS_MAX;
    int64_t again_ms = b->failed ? b->last_failure_ms + backoff_ms(b->failed) : 0;

    if (b->completions >= 0 && wanted > b->completions - b->succeeded)
        wanted = b->completions - b->succeeded;
    else if (b->completions < 0 && b->succeeded)
        wanted = b->active; /* a success: what runs may end, nothing new starts */
    if (b->active > wanted)
        remove_active(b, wanted);
    if (b->active >= wanted)
        return;
    if (b->last_failure_ms && again_ms > b->input->now_ms) {
        action_look_again(b->actions, again_ms);
        return;
    }
    make_pods(b, wanted - b->active);
}

/* ---- status ---- */

static void write_counts(struct batch *b)
{
    int64_t ready = 0;

    for (size_t i = 0; i < b->pods.count; i++)
        ready += b->pods.items[i].state == BATCH_ACTIVE && b->pods.items[i].ready;
    json_add_i64(b->arena, b->status, "active", b->active);
    json_add_i64(b->arena, b->status, "ready", ready);
    json_add_i64(b->arena, b->status, "succeeded", b->succeeded);
    json_add_i64(b->arena, b->status, "failed", b->failed);
    if (b->indexed)
        json_add_str(b->arena, b->status, "completedIndexes",
                     batch_indexes_text(b->arena, b->completed, (size_t)b->completions));
}

static void write_suspension(struct batch *b)
{
    bool was = condition_is_true(b->before, "Suspended");

    if (b->suspended && !was) {
        condition_set(
            b->arena, b->status,
            &(struct condition){"Suspended", "True", "JobSuspended", STR("Job suspended")},
            b->input->now_ms);
        json_remove(b->status, STR("startTime"));
        action_event(b->actions, b->job, "Suspended", STR("Job suspended"));
    } else if (!b->suspended && was) {
        condition_set(b->arena, b->status,
                      &(struct condition){"Suspended", "False", "JobResumed", STR("Job resumed")},
                      b->input->now_ms);
        action_event(b->actions, b->job, "Resumed", STR("Job resumed"));
    }
    if (!b->suspended && !json_get(b->status, "startTime"))
        json_add_str(b->arena, b->status, "startTime", time_text(b->arena, b->input->now_ms));
}

/* What Kubernetes' API fills in: the selector and labels by which `kubectl logs job/x` finds the
 * pods. Returns whether something was missing. */
static bool complete_spec(struct batch *b, struct actions *actions)
{
    struct json *patch = NULL;
    struct json *labels = NULL;

    if (json_get(b->spec, "selector"))
        return false;
    patch = json_new_object(b->arena);
    labels = json_make_path(b->arena, patch, "spec.selector.matchLabels");
    json_add_str(b->arena, labels, BATCH_LABEL_UID, str_dup(b->arena, b->job->uid));
    labels = json_make_path(b->arena, patch, "spec.template.metadata.labels");
    json_add_str(b->arena, labels, BATCH_LABEL_UID, str_dup(b->arena, b->job->uid));
    json_add_str(b->arena, labels, BATCH_LABEL_NAME, str_dup(b->arena, b->job->name));
    json_add_str(b->arena, labels, "controller-uid", str_dup(b->arena, b->job->uid));
    json_add_str(b->arena, labels, "job-name", str_dup(b->arena, b->job->name));
    action_patch(actions, b->job, patch);
    return true;
}

static void clean_up(struct batch *b)
{
    const struct json *ttl = json_get(b->spec, "ttlSecondsAfterFinished");
    int64_t seconds = 0;
    int64_t ended_ms = 0;

    remove_active(b, 0);
    if (!json_i64(ttl, &seconds))
        return;
    const struct json *end = condition_find(b->status, "Complete");
    if (!condition_is_true(b->status, "Complete"))
        end = condition_find(b->status, "Failed");
    if (!time_parse(json_str(json_get(end, "lastTransitionTime")), &ended_ms))
        return;
    if (b->input->now_ms >= ended_ms + seconds * 1000)
        action_delete(b->actions, b->job);
    else
        action_look_again(b->actions, ended_ms + seconds * 1000);
}

static void reconcile(const struct control_input *input,
                      const struct control_key *key,
                      struct actions *actions)
{
    const struct object *job = cache_get(input->cache, &kind_job, key->ns, key->name);
    struct actions later = {.arena = actions->arena};
    struct batch b = {.input = input, .arena = actions->arena, .actions = &later, .job = job};

    if (!job || job->deleted_ms)
        return;
    read_job(&b);
    struct str manager = json_str(json_get(b.spec, "managedBy"));
    if (manager.len && !str_is(manager, "kubernetes.io/job-controller"))
        return;
    if (complete_spec(&b, actions))
        return;
    observe(&b);
    settle(&b);
    struct str final = count(&b);
    if (!is_over(b.status)) {
        write_suspension(&b);
        judge(&b, final);
    }
    if (is_over(b.status))
        clean_up(&b);
    else if (b.suspended)
        remove_active(&b, 0);
    else
        keep_pods(&b);
    write_counts(&b);
    for (size_t i = 0; i < b.pods.count; i++) {
        const struct batch_pod *pod = &b.pods.items[i];

        /* Only what the status already counts, so that a crash in between loses nothing. */
        if (pod->tracked && is_listed(b.status, pod->object->uid))
            drop_finalizer(&b, pod);
    }

    struct json *patch = merge_diff(b.arena, b.before, b.status);
    if (patch) {
        struct json *body = json_new_object(b.arena);

        json_set(body, STR("status"), patch);
        action_patch_status(actions, job, body);
    }
    for (size_t i = 0; i < later.list.count; i++)
        VEC_PUSH(actions->arena, &actions->list, later.list.items[i]);
}

static void keys(const struct cache *cache, const struct object *object, struct control_keys *ret)
{
    const struct object_owner *owner = NULL;

    (void)cache;
    if (object->kind == &kind_job) {
        control_keys_add(ret, object->ns, object->name);
        return;
    }
    owner = object_controller(object);
    if (owner && str_is(owner->kind, "Job") && str_is(owner->api_version, "batch/v1"))
        control_keys_add(ret, object->ns, owner->name);
}

static const struct kind *const watches[] = {&kind_job, &kind_pod, NULL};

const struct controller batch_job_controller = {.name = "job",
                                                .embedded = true,
                                                .watches = watches,
                                                .keys = keys,
                                                .reconcile = reconcile};
