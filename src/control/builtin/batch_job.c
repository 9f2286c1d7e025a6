#include "control/builtin/batch_job.h"

#include "api/kind.h"
#include "api/object.h"
#include "api/place.h"
#include "api/pod.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "base/json_make.h"
#include "base/str.h"
#include "base/time.h"
#include "cache/cache.h"
#include "control/builtin/workload.h"
#include "control/core/action.h"
#include "control/core/control.h"
#include "control/core/controllers.h"
#include "control/core/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* batch/v1 Job: count what ended, decide whether the job is over, else keep `parallelism` pods. The
 * status is written before pods are made or removed. A key is a job, or a pod whose job is gone and
 * that has only to lose its finalizer, or a pod without a job that one would take over. */

#define BACKOFF_FIRST_MS 10000 /* after a failure; doubles with each, as Kubernetes does */
#define BACKOFF_LAST_MS  360000
#define BACKOFF_DEFAULT  6
#define BURST_MAX        500    /* pods made at a time, as Kubernetes has it */
#define ORPHAN           "pod/" /* starts the key of a pod whose job is gone */
#define FOUND            "own/" /* starts the key of a pod that nobody controls */

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
    int64_t waiting; /* of them: without a node */
    int64_t terminating;
    bool lacks; /* pods, which are made */
    int64_t last_failure_ms;
    int64_t index_limit;  /* backoffLimitPerIndex; -1: failures count for the job */
    bool *completed;      /* of each index */
    bool *given_up;       /* of each index: failed for good */
    int64_t *index_fails; /* of each index */
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

/* Deleted, but its node has not said yet how it ended. */
static bool still_ending(const struct batch_pod *pod)
{
    return pod->object->deleted_ms && !pod_is_over(pod->tree) &&
           json_str_at(pod->tree, "spec.nodeName").len &&
           json_i64_or(json_at(pod->tree, "metadata.deletionGracePeriodSeconds"), 1) != 0;
}

static void observe(struct batch *b)
{
    const struct object *object = NULL;
    size_t cursor = 0;

    while ((object = cache_next_owned(b->input->cache, &kind_pod, b->job->uid, &cursor))) {
        if (!object->deleted_ms && batch_lost(b->job, object)) {
            batch_release(b->job, object, b->actions);
            continue;
        }
        struct json *tree = object_json(object, b->arena);
        struct str phase = json_str_at(tree, "status.phase");
        struct batch_pod pod = {.object = object,
                                .tree = tree,
                                .index = -1,
                                .tracked = has_finalizer(tree),
                                .listed = is_listed(b->before, object->uid),
                                .ready = condition_is_true(json_get(tree, "status"), "Ready")};

        (void)str_to_i64(object_annotation(object, BATCH_INDEX), &pod.index);
        (void)str_to_i64(object_annotation(object, BATCH_FAILURES), &pod.failures);
        pod.state = str_is(phase, "Succeeded")                      ? BATCH_SUCCEEDED
                    : str_is(phase, "Failed") || object->deleted_ms ? BATCH_FAILED
                                                                    : BATCH_ACTIVE;
        pod.ended_ms = pod.state == BATCH_ACTIVE ? 0 : end_of(tree);
        if (pod.state == BATCH_FAILED && pod.ended_ms > b->last_failure_ms)
            b->last_failure_ms = pod.ended_ms;
        b->active += pod.state == BATCH_ACTIVE;
        b->waiting += pod.state == BATCH_ACTIVE && !json_str_at(tree, "spec.nodeName").len;
        b->terminating += pod.state == BATCH_FAILED && still_ending(&pod);
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
    b->index_limit = b->indexed ? json_i64_or(json_get(b->spec, "backoffLimitPerIndex"), -1) : -1;
    if (b->indexed) {
        size_t count = b->completions > 0 ? (size_t)b->completions : 0;

        b->completed = ARENA_ARRAY(b->arena, bool, count + 1);
        b->given_up = ARENA_ARRAY(b->arena, bool, count + 1);
        b->index_fails = ARENA_ARRAY(b->arena, int64_t, count + 1);
        batch_indexes_read(json_str(json_get(b->status, "completedIndexes")), b->completed, count);
        batch_indexes_read(json_str(json_get(b->status, "failedIndexes")), b->given_up, count);
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

/* With a limit for each index, a failure is its index's. */
static void count_index(struct batch *b, const struct batch_pod *pod, enum batch_verdict verdict)
{
    if (b->index_limit < 0 || pod->index < 0 || pod->index >= b->completions)
        return;
    if (verdict == BATCH_FAIL_INDEX || pod->failures + 1 > b->index_limit)
        b->given_up[pod->index] = true;
}

/* How often each index failed: what its pods remember, the newest of them most. */
static void count_index_failures(struct batch *b)
{
    const struct json *policy = json_get(b->spec, "podFailurePolicy");

    for (size_t i = 0; b->index_limit >= 0 && i < b->pods.count; i++) {
        const struct batch_pod *pod = &b->pods.items[i];
        struct str words = STR_NONE;
        int64_t sum = pod->failures;

        if (pod->index < 0 || pod->index >= b->completions)
            continue;
        if (pod->state == BATCH_FAILED && !pod->object->deleted_ms &&
            batch_failure_verdict(policy, pod, b->arena, &words) != BATCH_IGNORE)
            sum++;
        if (sum > b->index_fails[pod->index])
            b->index_fails[pod->index] = sum;
    }
}

/* Enter what ended since the last time. Returns words when a pod's end is the job's end. */
static struct str count(struct batch *b)
{
    const struct json *policy = json_get(b->spec, "podFailurePolicy");
    bool has_failed = condition_is_true(b->before, "Failed");
    struct str final = STR_NONE;

    for (size_t i = 0; i < b->pods.count; i++) {
        struct batch_pod *pod = &b->pods.items[i];
        if (!pod->tracked || pod->listed || pod->state == BATCH_ACTIVE || still_ending(pod))
            continue;
        if (pod->state == BATCH_SUCCEEDED) {
            count_success(b, pod);
        } else {
            enum batch_verdict verdict = batch_failure_verdict(policy, pod, b->arena, &final);

            /* A pod that somebody deleted, a suspension included, is no failure of the job, but
             * what ran when the job failed is. */
            if (verdict != BATCH_IGNORE && (!pod->object->deleted_ms || has_failed)) {
                b->failed++;
                count_index(b, pod, verdict);
            }
        }
        list_uid(b, pod->state == BATCH_SUCCEEDED ? "succeeded" : "failed", pod->object->uid);
    }
    return final;
}

static int64_t restarts_of(const struct batch_pod *pod)
{
    static const char *const lists[] = {"status.containerStatuses", "status.initContainerStatuses"};
    int64_t told = place_parse(object_annotation(pod->object, PLACE_ANNOTATION)).round;
    int64_t sum = 0;

    for (size_t i = 0; i < 2; i++)
        JSON_FOREACH(json_at(pod->tree, lists[i]), container) {
            int64_t count = json_i64_or(json_get(container, "restartCount"), 0);

            /* Those that its JobSet told it to are counted there (api/place.h). */
            sum += i == 0 && told ? (count > told ? count - told : 0) : count;
        }
    return sum;
}

/* restartPolicy OnFailure: restarts in place count as well, of the pods that are still there. */
static bool restarted_too_often(const struct batch *b, int64_t limit)
{
    int64_t sum = 0;

    if (!str_is(json_str_at(b->spec, "template.spec.restartPolicy"), "OnFailure"))
        return false;
    for (size_t i = 0; i < b->pods.count; i++)
        if (b->pods.items[i].state == BATCH_ACTIVE)
            sum += restarts_of(&b->pods.items[i]);
    return limit == 0 ? sum > 0 : sum >= limit;
}

static int64_t indexes_given_up(const struct batch *b)
{
    int64_t sum = 0;

    for (int64_t i = 0; b->given_up && i < b->completions; i++)
        sum += b->given_up[i] && !b->completed[i];
    return sum;
}

/* Whether indexes that are given up are the job's end. */
static bool judge_indexes(struct batch *b)
{
    const struct json *most = json_get(b->spec, "maxFailedIndexes");
    int64_t lost = indexes_given_up(b);

    if (!lost)
        return false;
    if (lost > json_i64_or(most, INT64_MAX)) {
        finish(b, false, "MaxFailedIndexesExceeded",
               str_printf(b->arena, "%lld indexes failed, more than maxFailedIndexes (%lld) allows",
                          (long long)lost, (long long)json_i64_or(most, 0)));
        return true;
    }
    if (b->succeeded + lost < b->completions || b->active)
        return false;
    finish(b, false, "FailedIndexes",
           str_printf(b->arena, "every index has ended, %lld of them failed", (long long)lost));
    return true;
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
    } else if (b->failed > limit || restarted_too_often(b, limit)) {
        finish(b, false, "BackoffLimitExceeded",
               b->failed > limit
                   ? str_printf(b->arena, "%lld pods failed, more than backoffLimit (%lld) allows",
                                (long long)b->failed, (long long)limit)
                   : str_printf(b->arena,
                                "containers were restarted as often as backoffLimit (%lld) allows",
                                (long long)limit));
    } else if (indexes && json_get(b->spec, "successPolicy") &&
               batch_success(json_get(b->spec, "successPolicy"), b->completed, indexes)) {
        finish(b, true, "SuccessPolicy", STR("a rule of successPolicy is met"));
    } else if (b->completions >= 0 ? b->succeeded >= b->completions
                                   : b->succeeded > 0 && !b->active) {
        finish(b, true, "CompletionsReached", STR("every completion was reached"));
    } else if (seconds > 0 && started && b->input->now_ms >= start_ms + seconds * 1000) {
        finish(b, false, "DeadlineExceeded",
               str_printf(b->arena, "it ran longer than activeDeadlineSeconds (%lld)",
                          (long long)seconds));
    } else if (judge_indexes(b)) {
        return;
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

/* podReplacementPolicy Failed: a pod that is on its way out still holds its place. */
static bool waits_for_ending(const struct batch *b)
{
    return str_is(json_str(json_get(b->spec, "podReplacementPolicy")), "Failed");
}

/* Which indexes need no pod: they are done, given up, or have one. */
static bool *indexes_taken(const struct batch *b)
{
    bool *taken = ARENA_ARRAY(b->arena, bool, (size_t)b->completions + 1);

    for (int64_t i = 0; i < b->completions; i++)
        taken[i] = b->completed[i] || b->given_up[i];
    for (size_t i = 0; i < b->pods.count; i++) {
        const struct batch_pod *pod = &b->pods.items[i];

        if (pod->index >= 0 && pod->index < b->completions &&
            (pod->state == BATCH_ACTIVE || (waits_for_ending(b) && still_ending(pod))))
            taken[pod->index] = true;
    }
    return taken;
}

static void make_pods(struct batch *b, int64_t missing)
{
    int64_t serial = b->succeeded + b->failed;
    int64_t index = 0;
    const bool *taken = b->indexed ? indexes_taken(b) : NULL;

    b->lacks = true;
    for (; missing > 0; missing--) {
        int64_t chosen = -1;

        if (b->indexed) {
            while (index < b->completions && taken[index])
                index++;
            if (index >= b->completions)
                return;
            chosen = index++;
        }
        struct batch_slot slot = {.name = free_name(b, chosen, &serial),
                                  .index = chosen,
                                  .failures = b->index_limit >= 0 ? b->index_fails[chosen] : -1};
        action_create(b->actions, &kind_pod, batch_make_pod(b->arena, b->job, b->spec, &slot));
        action_event(b->actions, b->job, "SuccessfulCreate",
                     str_printf(b->arena, "Created pod: " STR_FMT, STR_ARG(slot.name)));
    }
}

static int64_t backoff_ms(int64_t failures)
{
    int64_t wait = BACKOFF_FIRST_MS;

    for (; failures > 1 && wait < BACKOFF_LAST_MS; failures--)
        wait *= 2;
    return wait < BACKOFF_LAST_MS ? wait : BACKOFF_LAST_MS;
}

/* Its pods have their nodes all at once, or none. */
static bool is_large_gang(const struct batch *b)
{
    int64_t least = 0;

    (void)str_to_i64(object_annotation(b->job, "kai.scheduler/batch-min-member"), &least);
    return least > WORKLOAD_WAITING_MAX || batch_gang_name(b->arena, b->job, b->spec).len > 0;
}

static void keep_pods(struct batch *b)
{
    int64_t wanted = b->parallelism < BATCH_PODS_MAX ? b->parallelism : BATCH_PODS_MAX;
    int64_t again_ms = b->failed ? b->last_failure_ms + backoff_ms(b->failed) : 0;

    batch_gang_keep(b->input, b->job, b->spec, b->actions);
    if (b->completions >= 0 && wanted > b->completions - b->succeeded - indexes_given_up(b))
        wanted = b->completions - b->succeeded - indexes_given_up(b);
    else if (b->completions < 0 && b->succeeded)
        wanted = b->active; /* a success: what runs may end, nothing new starts */
    if (b->active > wanted)
        remove_active(b, wanted);
    if (waits_for_ending(b))
        wanted -= b->terminating;
    if (b->active >= wanted)
        return;
    if (b->last_failure_ms && again_ms > b->input->now_ms) {
        action_look_again(b->actions, again_ms);
        return;
    }
    int64_t room = is_large_gang(b) ? BURST_MAX : WORKLOAD_WAITING_MAX - b->waiting;
    if (room > wanted - b->active)
        room = wanted - b->active;
    if (room > 0)
        make_pods(b, room < BURST_MAX ? room : BURST_MAX);
}

/* ---- status ---- */

static void write_counts(struct batch *b)
{
    int64_t ready = 0;

    for (size_t i = 0; i < b->pods.count; i++)
        ready += b->pods.items[i].state == BATCH_ACTIVE && b->pods.items[i].ready;
    json_fill(b->arena, b->status, "{active: $, ready: $, succeeded: $, failed: $, terminating: $}",
              b->active, ready, b->succeeded, b->failed, b->terminating);
    if (!b->indexed)
        return;
    json_add_str(b->arena, b->status, "completedIndexes",
                 batch_indexes_text(b->arena, b->completed, (size_t)b->completions));
    if (b->index_limit >= 0)
        json_add_str(b->arena, b->status, "failedIndexes",
                     batch_indexes_text(b->arena, b->given_up, (size_t)b->completions));
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

/* A job that goes counts no more: its pods wait for nothing of ours. */
static void let_go(const struct object *pod, struct actions *actions)
{
    struct batch b = {.arena = actions->arena, .actions = actions};
    struct batch_pod each = {.object = pod};

    if (!pod)
        return;
    each.tree = object_json(pod, b.arena);
    if (has_finalizer(each.tree))
        drop_finalizer(&b, &each);
}

static void let_all_go(const struct cache *cache, const struct object *job, struct actions *actions)
{
    const struct object *pod = NULL;
    size_t cursor = 0;

    while ((pod = cache_next_owned(cache, &kind_pod, job->uid, &cursor)))
        let_go(pod, actions);
}

/* The controlling Job of a pod, when there still is one. */
static const struct object *job_of(const struct cache *cache, const struct object *pod)
{
    const struct object_owner *owner = object_controller(pod);
    const struct object *job = owner ? cache_get(cache, &kind_job, pod->ns, owner->name) : NULL;

    return job && str_eq(job->uid, owner->uid) ? job : NULL;
}

static bool is_of_a_job(const struct object *pod)
{
    const struct object_owner *owner = object_controller(pod);

    return owner && str_is(owner->kind, "Job") && str_is(owner->api_version, "batch/v1");
}

static void reconcile(const struct control_input *input,
                      const struct control_key *key,
                      struct actions *actions)
{
    const struct object *job = cache_get(input->cache, &kind_job, key->ns, key->name);
    struct actions later = {.arena = actions->arena};
    struct batch b = {.input = input, .arena = actions->arena, .actions = &later, .job = job};

    if (str_starts(key->name, STR(ORPHAN)) || str_starts(key->name, STR(FOUND))) {
        const struct object *pod = cache_get(input->cache, &kind_pod, key->ns,
                                             str_sub(key->name, sizeof(ORPHAN) - 1, SIZE_MAX));

        if (str_starts(key->name, STR(FOUND)))
            batch_adopt(input->cache, pod, actions);
        else if (pod && is_of_a_job(pod) && !job_of(input->cache, pod))
            let_go(pod, actions);
        return;
    }
    if (!job)
        return;
    if (job->deleted_ms) {
        let_all_go(input->cache, job, actions);
        return;
    }
    read_job(&b);
    struct str manager = json_str(json_get(b.spec, "managedBy"));
    if (manager.len && !str_is(manager, "kubernetes.io/job-controller"))
        return;
    observe(&b);
    count_index_failures(&b);
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
    refusal_write(b.arena, b.status, b.lacks ? input->refusal : STR_NONE, input->now_ms);
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

/* A pod that no job controls: the one that would take it over, by its own key, for the look at a
 * job goes over what it has and not over all pods. */
static void add_found(const struct cache *cache,
                      struct control_keys *keys,
                      const struct object *pod)
{
    _cleanup_(arena_done) struct arena arena = {0};

    if (batch_adopter(cache, pod, &arena))
        control_keys_add(keys, pod->ns, str_printf(keys->arena, FOUND STR_FMT, STR_ARG(pod->name)));
}

static void add_orphan(struct control_keys *keys, const struct object *pod)
{
    control_keys_add(keys, pod->ns, str_printf(keys->arena, ORPHAN STR_FMT, STR_ARG(pod->name)));
}

static void keys(const struct cache *cache, const struct object *object, struct control_keys *ret)
{
    const struct object *pod = NULL;
    size_t cursor = 0;

    if (object->kind == &kind_pod) {
        if (!is_of_a_job(object)) {
            add_found(cache, ret, object);
            return;
        }
        control_keys_add(ret, object->ns, object_controller(object)->name);
        if (!job_of(cache, object))
            add_orphan(ret, object);
        return;
    }
    if (object->kind != &kind_job) {
        const struct object_owner *owner = object_controller(object);

        if (owner && str_is(owner->kind, kind_job.name))
            control_keys_add(ret, object->ns, owner->name);
        return;
    }
    control_keys_add(ret, object->ns, object->name);
    if (cache_get(cache, &kind_job, object->ns, object->name))
        return;
    while ((pod = cache_next_owned(cache, &kind_pod, object->uid, &cursor)))
        add_orphan(ret, pod);
}

static const struct kind *const watches[] = {&kind_job, &kind_pod, &kind_podgroup_k8s,
                                             &kind_workload, NULL};

const struct controller batch_job_controller = {.name = "job",
                                                .kind = &kind_job,
                                                .embedded = true,
                                                .watches = watches,
                                                .keys = keys,
                                                .reconcile = reconcile};
