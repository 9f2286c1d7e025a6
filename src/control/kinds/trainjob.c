#include "control/kinds/trainjob.h"

#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/err.h"
#include "base/json.h"
#include "base/json_items.h"
#include "base/json_make.h"
#include "base/str.h"
#include "base/time.h"
#include "base/yaml.h"
#include "cache/cache.h"
#include "control/core/action.h"
#include "control/core/control.h"
#include "control/core/controllers.h"
#include "control/core/memory.h"
#include "control/core/owner.h"
#include "control/core/status.h"
#include "control/job/job.h"
#include "control/job/job_engine.h"
#include "control/kinds/jobset.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Flow: a copy of the runtime, the JobSet, then the JobSet's state as the job's own.
 *
 * Conditions are Kubeflow Trainer's and no others: Suspended, Complete and Failed. Its clients take
 * a job that has a condition for one that is not running. What the job is now, from Pending to
 * Failed, stands in phase, reason and message of the status, which are ours, and each change is an
 * event. */

struct train {
    const struct control_input *input;
    struct arena *arena;
    struct actions *actions; /* to follow the status */
    const struct object *object;
    const struct json *tree;
    struct trainjob_spec spec;
    const struct json *before; /* status as it is */
    struct json *status;       /* as it should be */
    const struct object *set;  /* the JobSet; NULL: none yet */
    const struct json *set_tree;
    bool taken; /* its name: there is a JobSet of somebody else */
    bool suspended;
};

/* ---- conditions ---- */

/* Whether a state of the job is a condition too. */
static bool is_condition(struct str word)
{
    return str_is(word, "Suspended") || str_is(word, "Complete") || str_is(word, "Failed");
}

/* What the job is now. Of its conditions the one that holds is the last, as the original's column
 * State expects: a new one goes to the end, and after Complete and Failed comes no other. */
static void become(struct train *t, const char *type, const char *reason, struct str message)
{
    json_fill(t->arena, t->status, "{phase: $, reason: $, message: $}", type, reason, message);
    if (!is_condition(str_from(type)))
        return;
    condition_set(t->arena, t->status, &(struct condition){type, "True", reason, message},
                  t->input->now_ms);
}

/* Others are those that earlier versions wrote. */
static bool is_ours(const struct json *condition, const void *user)
{
    (void)user;
    return is_condition(json_str(json_get(condition, "type")));
}

/* Words about pods that wait change with every pod that comes and goes: they are told once. */
static bool is_told(const struct train *t, const struct json *told)
{
    struct str reason = json_str(json_get(t->status, "reason"));
    bool waits = str_is(reason, "Unschedulable") || str_is(reason, "PodsNotReady");

    return json_equal(json_get(told, "phase"), json_get(t->status, "phase")) &&
           json_equal(json_get(told, "reason"), json_get(t->status, "reason")) &&
           (waits || json_equal(json_get(told, "message"), json_get(t->status, "message")));
}

/* An event for each change of what the job is or waits for. Where the CRD is somebody else's, the
 * status forgets what was told, and an annotation remembers it (control/core/memory.h). */
static void tell(struct train *t)
{
    static const char *const members[] = {"phase", "reason", "message", NULL};
    const struct json *memory = memory_read(t->object, t->arena);
    bool lost = memory_lacks(t->before, members);
    struct str phase = json_str(json_get(t->status, "phase"));
    struct str reason = json_str(json_get(t->status, "reason"));
    struct str message = json_str(json_get(t->status, "message"));

    assert(phase.len > 0); /* everything that leads here says what the job is */
    bool told = is_told(t, lost ? memory : t->before);
    if (!told) {
        bool bad = str_is(phase, "Failed") || str_is(reason, "Unschedulable") ||
                   str_is(reason, "RuntimeNotFound") || str_is(reason, "Restarting") ||
                   str_is(reason, "TrainJobResourcesCreationFailed");

        (bad ? action_warn : action_event)(t->actions, t->object, str_c(t->arena, reason), message);
    }
    /* The first status of a job comes before its JobSet. */
    if (!lost || (!json_count(t->before) && !t->set))
        return;
    struct json *now = json_new_object(t->arena);
    for (size_t i = 0; members[i]; i++)
        json_set(now, str_from(members[i]), json_clone(t->arena, json_get(t->status, members[i])));
    if (!told || !memory)
        (void)memory_write(t->actions, t->object, memory, now);
    for (size_t i = 0; memory && members[i]; i++) /* they were written once, and are not there */
        json_remove(t->status, str_from(members[i]));
}

static bool is_over(const struct json *status)
{
    return condition_is_true(status, "Complete") || condition_is_true(status, "Failed");
}

/* ---- the runtime ---- */

static struct str snapshot_name(const struct train *t)
{
    return str_printf(t->arena, STR_FMT "-runtime-snapshot", STR_ARG(t->object->name));
}

static const struct json *read_snapshot(const struct train *t)
{
    const struct object *map =
        cache_get(t->input->cache, &kind_configmap, t->object->ns, snapshot_name(t));
    struct json *runtime = NULL;

    if (!map || !object_controller(map) || !str_eq(object_controller(map)->uid, t->object->uid))
        return NULL;
    struct str text = json_str_at(object_json(map, t->arena), "data.runtime");
    return text.len && yaml_parse(t->arena, text, &runtime, NULL) == 0 ? runtime : NULL;
}

static const struct json *live_runtime(const struct train *t)
{
    struct str name = t->spec.runtime;
    bool own = str_is(t->spec.runtime_kind, "TrainingRuntime");
    const struct object *runtime =
        cache_get(t->input->cache, own ? &kind_trainingruntime : &kind_clustertrainingruntime,
                  own ? t->object->ns : STR(""), name);

    return runtime ? object_json(runtime, t->arena) : NULL;
}

static void keep_snapshot(struct train *t, const struct json *runtime)
{
    static const char *const noise[] = {"managedFields", "resourceVersion", "uid",
                                        "creationTimestamp", "generation"};
    struct json *copy = json_clone(t->arena, runtime);
    struct json *body = owner_make(t->arena, t->object, &kind_configmap, snapshot_name(t));
    _cleanup_(buf_done) struct buf text = {0};

    for (size_t i = 0; i < COUNT_OF(noise); i++)
        json_remove(json_get(copy, "metadata"), str_from(noise[i]));
    yaml_write(&text, copy);
    json_add_str(t->arena, json_add_object(t->arena, body, "data"), "runtime",
                 str_dup(t->arena, buf_str(&text)));
    action_create(t->actions, &kind_configmap, body);
}

/* ---- the JobSet ---- */

/* While suspended the pods may be changed: what can be, is. */
static void refresh_set(struct train *t, const struct trainjob_build *build)
{
    static const char *const fields[] = {"nodeSelector", "tolerations", "schedulingGates"};
    const struct json *there = json_at(t->set_tree, "spec.replicatedJobs");
    struct json *wanted = json_clone(t->arena, there);

    JSON_FOREACH(wanted, part) {
        const struct json *pod = json_at(trainjob_part(build, json_str(json_get(part, "name"))),
                                         "template.spec.template");
        struct json *to = json_at(part, "template.spec.template");

        if (!pod || !to)
            continue;
        json_set(to, STR("metadata"), json_clone(t->arena, json_get(pod, "metadata")));
        for (size_t i = 0; i < COUNT_OF(fields); i++) {
            const struct json *value = json_get(json_get(pod, "spec"), fields[i]);

            json_remove(json_get(to, "spec"), str_from(fields[i]));
            if (value)
                json_set(json_get(to, "spec"), str_from(fields[i]), json_clone(t->arena, value));
        }
    }
    bool stopped = json_bool_or(json_at(t->set_tree, "spec.suspend"), false);
    if (stopped == t->suspended && (json_equal(wanted, there) || !stopped))
        return;
    struct json *patch = json_new_object(t->arena);
    struct json *spec = json_add_object(t->arena, patch, "spec");
    json_add_bool(t->arena, spec, "suspend", t->suspended);
    if (!json_equal(wanted, there))
        json_set(spec, STR("replicatedJobs"), wanted);
    action_patch(t->actions, t->set, patch);
}

/* Authorities are replaced: pods that run are to know the next one before it signs anything. */
static void refresh_certificate(struct train *t, const struct trainjob_build *build)
{
    struct str name = json_str_at(build->certificate, "metadata.name");
    const struct object *map =
        build->certificate ? cache_get(t->input->cache, &kind_configmap, t->object->ns, name)
                           : NULL;

    if (!map || !object_controller(map) || !str_eq(object_controller(map)->uid, t->object->uid))
        return;
    const struct json *wanted = json_get(build->certificate, "data");
    if (json_equal(json_get(object_json(map, t->arena), "data"), wanted))
        return;
    struct json *patch = json_new_object(t->arena);
    json_set(patch, STR("data"), json_clone(t->arena, wanted));
    action_patch(t->actions, map, patch);
}

/* What the job and its runtime ask for cannot be made. */
static void say_refused(struct train *t, struct str words)
{
    if (words.len)
        become(t, "Pending", "TrainJobResourcesCreationFailed", words);
}

static void keep_set(struct train *t, const struct json *runtime)
{
    struct trainjob_build build = {.arena = t->arena,
                                   .config = t->input->config,
                                   .object = t->object,
                                   .tree = t->tree,
                                   .spec = &t->spec};
    struct err err = {0};

    if (trainjob_build(&build, runtime, &err) < 0) {
        say_refused(t, str_dup(t->arena, str_from(err.text)));
        return;
    }
    if (t->set) {
        refresh_certificate(t, &build);
        refresh_set(t, &build);
        return;
    }
    if (build.hostfile)
        action_create(t->actions, &kind_configmap, build.hostfile);
    if (build.certificate)
        action_create(t->actions, &kind_configmap, build.certificate);
    if (build.keys)
        action_create_ssh_keys(t->actions, build.keys);
    action_create(t->actions, &kind_jobset, build.body);
}

/* ---- what it waits for ---- */

/* Why a pod does not run: the scheduler's words, or a container's. */
static struct str pod_words(const struct json *pod)
{
    const struct json *scheduled = condition_find(json_get(pod, "status"), "PodScheduled");
    static const char *const lists[] = {"status.initContainerStatuses", "status.containerStatuses"};

    if (str_is(json_str(json_get(scheduled, "status")), "False"))
        return json_str(json_get(scheduled, "message"));
    for (size_t i = 0; i < 2; i++)
        JSON_FOREACH(json_at(pod, lists[i]), container) {
            struct str words = json_str_at(container, "state.waiting.message");

            if (words.len)
                return words;
        }
    return STR_NONE;
}

static struct str waiting_words(const struct train *t, bool *ret_unschedulable)
{
    const struct object *job = NULL;
    size_t cursor = 0;

    while ((job = cache_next_owned(t->input->cache, &kind_job, t->set->uid, &cursor))) {
        const struct object *pod = NULL;
        size_t inner = 0;

        while ((pod = cache_next_owned(t->input->cache, &kind_pod, job->uid, &inner))) {
            const struct json *tree = object_json(pod, t->arena);
            struct str words = pod_words(tree);

            if (!words.len || !str_is(json_str_at(tree, "status.phase"), "Pending"))
                continue;
            *ret_unschedulable = !json_str_at(tree, "spec.nodeName").len;
            return str_printf(t->arena, "pod " STR_FMT ": " STR_FMT, STR_ARG(pod->name),
                              STR_ARG(words));
        }
    }
    return STR_NONE;
}

static const struct json *part_status(const struct train *t, struct str name)
{
    JSON_FOREACH(json_at(t->set_tree, "status.replicatedJobsStatus"), entry)
        if (str_eq(json_str(json_get(entry, "name")), name))
            return entry;
    return NULL;
}

/* The initializer that is not done yet; empty: none. */
static struct str initializing(const struct train *t)
{
    JSON_FOREACH(json_at(t->set_tree, "spec.replicatedJobs"), part) {
        struct str step =
            json_str(json_get(json_at(part, "template.metadata.labels"), TRAINJOB_STEP));
        struct str name = json_str(json_get(part, "name"));

        if (str_ends(step, STR("-initializer")) &&
            json_i64_or(json_get(part_status(t, name), "succeeded"), 0) <
                json_i64_or(json_get(part, "replicas"), 1))
            return name;
    }
    return STR_NONE;
}

/* Whether the trainer's pods are all there. */
static bool is_training(const struct train *t)
{
    JSON_FOREACH(json_at(t->set_tree, "spec.replicatedJobs"), part) {
        struct str step =
            json_str(json_get(json_at(part, "template.metadata.labels"), TRAINJOB_STEP));
        const struct json *status = part_status(t, json_str(json_get(part, "name")));

        if (str_ends(step, STR("-initializer")))
            continue;
        if (json_i64_or(json_get(status, "ready"), 0) +
                json_i64_or(json_get(status, "succeeded"), 0) <
            json_i64_or(json_get(part, "replicas"), 1))
            return false;
    }
    return true;
}

static void say_progress(struct train *t)
{
    bool unschedulable = false;
    struct str words = waiting_words(t, &unschedulable);
    struct str first = initializing(t);
    const struct json *status = json_get(t->set_tree, "status");
    int64_t rounds = json_i64_or(json_get(status, JOBSET_ROUND_PAST), -1) + 1; /* in place */
    int64_t restarts = json_i64_or(json_get(status, "restarts"), 0) + rounds;
    const struct json *refusal = condition_find(status, "ReplicaFailure");

    if (refusal && !words.len) {
        say_refused(t, json_str(json_get(refusal, "message")));
        return;
    }
    if (first.len && !words.len)
        become(t, "Pending", "Initializing",
               str_printf(t->arena, STR_FMT " is not done yet", STR_ARG(first)));
    else if (!first.len && is_training(t))
        become(t, "Running", "PodsReady",
               restarts ? str_printf(t->arena, "all pods run; restarts so far: %lld",
                                     (long long)restarts)
                        : STR("all pods run"));
    else if (words.len)
        become(t, "Pending", unschedulable ? "Unschedulable" : "PodsNotReady", words);
    else
        become(t, "Pending", restarts ? "Restarting" : "PodsNotReady",
               !restarts ? STR("pods are being created")
                         : str_printf(t->arena, "restart %lld: %s", (long long)restarts,
                                      rounds && condition_is_true(status, "RestartingJobSet")
                                          ? "all ranks start again, in place"
                                          : "pods are being created again"));
}

/* ---- the end ---- */

/* How a pod failed; false: it has not. */
static bool pod_failure(const struct object *pod, struct arena *arena, struct job_failure *ret)
{
    const struct json *tree = object_json(pod, arena);

    if (!str_is(json_str_at(tree, "status.phase"), "Failed"))
        return false;
    JSON_FOREACH(json_at(tree, "status.containerStatuses"), container) {
        const struct json *ended = json_at(container, "state.terminated");

        if (json_i64_or(json_get(ended, "exitCode"), 0) == 0)
            continue;
        *ret = (struct job_failure){.pod = pod->name,
                                    .exit_code = json_i64_or(json_get(ended, "exitCode"), 0),
                                    .reason = json_str(json_get(ended, "reason")),
                                    .message = json_str(json_get(ended, "message"))};
        (void)time_parse(json_str(json_get(ended, "finishedAt")), &ret->time_ms);
        ret->evidence = job_evidence(ret);
        return true;
    }
    return false;
}

/* Which of the pods that are left is to blame, in words; empty: none is known. */
static struct str failure_words(const struct train *t)
{
    struct job_failure worst = {0};
    const struct object *job = NULL;
    size_t cursor = 0;

    while ((job = cache_next_owned(t->input->cache, &kind_job, t->set->uid, &cursor))) {
        const struct object *pod = NULL;
        size_t inner = 0;

        while ((pod = cache_next_owned(t->input->cache, &kind_pod, job->uid, &inner))) {
            struct job_failure failure;

            arena_defer(t->arena, object_release, object_ref(pod));
            if (!pod_failure(pod, t->arena, &failure))
                continue;
            bool worse = !worst.pod.len || failure.evidence < worst.evidence ||
                         (failure.evidence == worst.evidence && failure.time_ms < worst.time_ms);
            worst = worse ? failure : worst;
        }
    }
    if (!worst.pod.len)
        return STR_NONE;
    bool plain = !worst.reason.len || str_is(worst.reason, "Error");
    return str_printf(t->arena, "pod " STR_FMT " ended with exit status %lld%s" STR_FMT,
                      STR_ARG(worst.pod), (long long)worst.exit_code, plain ? "" : ", ",
                      STR_ARG(plain ? STR("") : worst.reason));
}

/* The condition has the JobSet's words, as the original; ours say which pod it was. */
static void say_failure(struct train *t)
{
    struct str words = condition_is_true(t->status, "Failed") ? failure_words(t) : STR_NONE;

    if (words.len)
        json_add_str(t->arena, t->status, "message",
                     str_printf(t->arena, STR_FMT ": " STR_FMT,
                                STR_ARG(json_str(json_get(t->status, "message"))), STR_ARG(words)));
}

static void copy_end(struct train *t)
{
    static const struct {
        const char *theirs;
        const char *ours;
    } rows[] = {{"Completed", "Complete"}, {"Failed", "Failed"}};

    for (size_t i = 0; i < 2; i++) {
        const struct json *end = condition_find(json_get(t->set_tree, "status"), rows[i].theirs);

        if (str_is(json_str(json_get(end, "status")), "True"))
            become(t, rows[i].ours, str_c(t->arena, json_str(json_get(end, "reason"))),
                   json_str(json_get(end, "message")));
    }
    if (t->set)
        say_failure(t);
}

/* The moment from which the deadline counts. */
static int64_t start_ms(const struct train *t)
{
    const struct json *suspended = condition_find(t->status, "Suspended");
    int64_t resumed = 0;

    if (str_is(json_str(json_get(suspended, "status")), "False") &&
        time_parse(json_str(json_get(suspended, "lastTransitionTime")), &resumed))
        return resumed;
    return t->object->created_ms;
}

/* As many pods have succeeded as the job needs, or it says so itself. */
static bool part_is_done(const struct train *t, const struct object *job)
{
    const struct json *tree = object_json(job, t->arena);
    int64_t left = json_i64_or(json_at(tree, "spec.completions"), 1);
    const struct object *pod = NULL;
    size_t cursor = 0;

    if (condition_is_true(json_get(tree, "status"), "Complete"))
        return true;
    while ((pod = cache_next_owned(t->input->cache, &kind_pod, job->uid, &cursor)))
        left -=
            str_is(json_str_at(object_json(pod, t->arena), "status.phase"), "Succeeded") ? 1 : 0;
    return left <= 0;
}

/* All that it was to do has ended well, and its JobSet has yet to hear of that: after a restart of muster, its end is
 * known from the pods first. */
static bool work_is_done(const struct train *t)
{
    const struct object *job = NULL;
    size_t cursor = 0;
    int64_t left = 0;

    JSON_FOREACH(json_at(t->set_tree, "spec.replicatedJobs"), part)
        left += json_i64_or(json_get(part, "replicas"), 1);
    if (left <= 0)
        return false;
    while ((job = cache_next_owned(t->input->cache, &kind_job, t->set->uid, &cursor)))
        left -= part_is_done(t, job) ? 1 : 0;
    return left <= 0;
}

static void judge_deadline(struct train *t)
{
    int64_t seconds = t->spec.deadline_s;

    if (seconds <= 0 || t->suspended || (t->set && work_is_done(t)))
        return;
    int64_t end = start_ms(t) + seconds * 1000;
    if (t->input->now_ms < end) {
        action_look_again(t->actions, end);
        return;
    }
    become(t, "Failed", "DeadlineExceeded",
           str_printf(t->arena, "it took longer than activeDeadlineSeconds (%lld)",
                      (long long)seconds));
    if (t->set && !t->set->deleted_ms)
        action_delete_foreground(t->actions, t->set);
}

static void write_suspension(struct train *t)
{
    bool was = condition_is_true(t->before, "Suspended");

    if (!t->suspended && was)
        condition_set(
            t->arena, t->status,
            &(struct condition){"Suspended", "False", "Resumed", STR("the TrainJob is resumed")},
            t->input->now_ms);
    if (t->suspended)
        become(t, "Suspended", "Suspended", STR("the TrainJob is suspended"));
    else if (was)
        action_event(t->actions, t->object, "Resumed", STR("the TrainJob is resumed"));
}

static void write_jobs(struct train *t)
{
    const struct json *parts = json_at(t->set_tree, "status.replicatedJobsStatus");

    if (parts)
        json_set(t->status, STR("jobsStatus"), json_clone(t->arena, parts));
}

/* When each patch was made, where nobody said so: on a cluster, where no webhook of ours changes
 * TrainJobs (api/admit_trainer.c does so elsewhere). */
static void date_patches(struct train *t)
{
    const struct json *there = json_at(t->tree, "spec.runtimePatches");
    struct json *body = json_new_object(t->arena);

    if (!json_count(there))
        return;
    struct json *patches = json_clone(t->arena, there);
    JSON_FOREACH(patches, patch)
        if (json_is_null(json_get(patch, "time")))
            json_add_str(t->arena, patch, "time", time_text(t->arena, t->input->now_ms));
    if (json_equal(patches, there))
        return;
    json_set(json_add_object(t->arena, body, "spec"), STR("runtimePatches"), patches);
    action_patch(t->actions, t->object, body);
}

/* Trainer's own CRD, where it is in the place of ours, drops what it does not know (phase, reason,
 * message) and refuses a status of which nothing is left. An empty list says the same, and stays. */
static void keep_conditions(struct train *t)
{
    if (json_count(t->status) && !json_get(t->status, "conditions"))
        (void)json_add_array(t->arena, t->status, "conditions");
}

/* ---- together ---- */

static void find_set(struct train *t)
{
    const struct object *set =
        cache_get(t->input->cache, &kind_jobset, t->object->ns, t->object->name);

    if (!set)
        return;
    t->taken = !object_controller(set) || !str_eq(object_controller(set)->uid, t->object->uid);
    if (t->taken)
        return;
    t->set = set;
    t->set_tree = object_json(set, t->arena);
}

static void go_on(struct train *t)
{
    const struct json *runtime = read_snapshot(t);

    write_suspension(t);
    judge_deadline(t);
    if (is_over(t->status))
        return;
    if (t->taken) {
        say_refused(t, str_printf(t->arena,
                                  "a JobSet " STR_FMT " already exists and does not belong to this "
                                  "TrainJob; delete or rename one of them",
                                  STR_ARG(t->object->name)));
        return;
    }
    if (!runtime) {
        runtime = live_runtime(t);
        if (runtime)
            keep_snapshot(t, runtime);
    }
    if (!runtime) {
        become(t, "Pending", "RuntimeNotFound",
               str_printf(t->arena, "spec.runtimeRef: there is no " STR_FMT " " STR_FMT,
                          STR_ARG(t->spec.runtime_kind), STR_ARG(t->spec.runtime)));
        return;
    }
    if (t->set && !t->suspended)
        say_progress(t);
    else if (!t->set && !t->suspended && !t->input->refusal.len)
        become(t, "Pending", "JobSetNotCreated", STR("the JobSet is being created"));
    else if (!t->set)
        say_refused(t, t->input->refusal);
    keep_set(t, runtime);
}

static void reconcile(const struct control_input *input,
                      const struct control_key *key,
                      struct actions *actions)
{
    struct actions later = {.arena = actions->arena};
    struct train t = {.input = input,
                      .arena = actions->arena,
                      .actions = &later,
                      .object = cache_get(input->cache, &kind_trainjob, key->ns, key->name)};

    if (!t.object || t.object->deleted_ms)
        return;
    /* Strings of the object go into what is written later, when the cache may have a newer one. */
    arena_defer(t.arena, object_release, object_ref(t.object));
    t.tree = object_json(t.object, t.arena);
    trainjob_spec_read(json_get(t.tree, "spec"), t.arena, &t.spec);
    t.before = json_get(t.tree, "status");
    t.status = t.before ? json_clone(t.arena, t.before) : json_new_object(t.arena);
    t.suspended = t.spec.suspend;
    if (!str_is(t.spec.manager, TRAINJOB_MANAGER))
        return;
    find_set(&t);
    json_filter(json_get(t.status, "conditions"), is_ours, NULL);
    write_jobs(&t);
    if (!is_over(t.status))
        copy_end(&t);
    if (!is_over(t.status))
        go_on(&t);
    if (!is_over(t.before)) {
        date_patches(&t);
        tell(&t);
        keep_conditions(&t);
    }

    struct json *patch = merge_diff(t.arena, t.before, t.status);
    if (patch) {
        struct json *body = json_new_object(t.arena);

        json_set(body, STR("status"), patch);
        action_patch_status(actions, t.object, body);
    }
    for (size_t i = 0; i < later.list.count; i++)
        VEC_PUSH(actions->arena, &actions->list, later.list.items[i]);
}

/* ---- who is touched ---- */

static void keys_of_runtime(const struct cache *cache,
                            const struct object *runtime,
                            struct control_keys *ret)
{
    const struct object *job = NULL;
    size_t cursor = 0;

    while ((job = cache_next(cache, &kind_trainjob, runtime->ns, &cursor)))
        if (str_contains(job->raw, runtime->name))
            control_keys_add(ret, job->ns, job->name);
}

/* The TrainJob above a pod: Job, JobSet and TrainJob are named alike from the left. */
static const struct object *set_of_pod(const struct cache *cache, const struct object *pod)
{
    struct str name = object_label(pod, "jobset.sigs.k8s.io/jobset-name");

    return name.len ? cache_get(cache, &kind_jobset, pod->ns, name) : NULL;
}

static void keys(const struct cache *cache, const struct object *object, struct control_keys *ret)
{
    const struct object *at = object->kind == &kind_pod ? set_of_pod(cache, object) : object;
    const struct object_owner *owner = at ? object_controller(at) : NULL;

    if (object->kind == &kind_trainjob)
        control_keys_add(ret, object->ns, object->name);
    else if (object->kind == &kind_trainingruntime || object->kind == &kind_clustertrainingruntime)
        keys_of_runtime(cache, object, ret);
    else if (object->kind == &kind_jobset && /* also one that is in its way */
             cache_get(cache, &kind_trainjob, object->ns, object->name))
        control_keys_add(ret, object->ns, object->name);
    else if (owner && str_is(owner->kind, kind_trainjob.name) &&
             str_is(owner->api_version, "trainer.kubeflow.org/v1alpha1"))
        control_keys_add(ret, object->ns, owner->name);
}

static const struct kind *const watches[] = {&kind_trainjob,
                                             &kind_jobset,
                                             &kind_configmap,
                                             &kind_pod,
                                             &kind_job,
                                             &kind_trainingruntime,
                                             &kind_clustertrainingruntime,
                                             NULL};

const struct controller trainjob_controller = {.name = "trainjob",
                                               .watches = watches,
                                               .keys = keys,
                                               .reconcile = reconcile};
