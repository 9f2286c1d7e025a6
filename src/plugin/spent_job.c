#include "api/account.h"
#include "api/condition.h"
#include "api/gpus.h"
#include "api/kind.h"
#include "api/object.h"
#include "api/people.h"
#include "api/ranks.h"
#include "api/training.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/json.h"
#include "base/str.h"
#include "base/time.h"
#include "plugin/job.h"
#include "plugin/spent.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* What an object says of the job that it is.
 *
 * The kinds of the job engine have a phase. TrainJobs, JobSets and batch Jobs have none that tells enough:
 * their pods do, and whoever watches those adds it (cmd/accounts.c). */
#define QUEUE_LABEL   "kai.scheduler/queue"
#define QUEUE_DEFAULT "default-queue"

static const struct kind *const other_kinds[] = {&kind_pytorchtrainingjob, &kind_trainjob,
                                                 &kind_jobset, &kind_job};

const struct kind *spent_kind(size_t index)
{
    if (index == 0)
        return &kind_torchrunjob;
    if (index <= TRAININGS)
        return training_kinds[index - 1].kind;
    return index - 1 - TRAININGS < COUNT_OF(other_kinds) ? other_kinds[index - 1 - TRAININGS]
                                                         : NULL;
}

bool spent_is_by_pods(const struct kind *kind)
{
    return kind == &kind_trainjob || kind == &kind_jobset || kind == &kind_job;
}

const struct kind *spent_kind_of(struct str api_version, struct str name)
{
    const struct kind *kind;

    for (size_t i = 0; (kind = spent_kind(i)); i++) {
        char bytes[KIND_API_VERSION_BYTES];
        struct str group = kind_api_version(kind, bytes);

        /* Of any version: batch/v1, but not batch.volcano.sh/v1. */
        group = str_sub(group, 0, str_find(group, '/') + 1);
        if (str_is(name, kind->name) && str_starts(api_version, group))
            return kind;
    }
    return NULL;
}

/* ---- who it is ---- */

static struct str label(const struct json *labels, const char *key)
{
    return json_str(json_get(labels, key));
}

/* Labels of its pods count as its own, as they do for the scheduler. */
static struct str queue_of(const struct json *job)
{
    const struct json *spec = json_get(job, "spec");
    const struct json *part = json_index(json_get(spec, "replicatedJobs"), 0);
    const struct json *const labels[] = {
        json_at(job, "metadata.labels"),
        json_at(spec, "template.metadata.labels"),
        json_at(part, "template.spec.template.metadata.labels"),
        json_at(part, "template.metadata.labels"),
        json_get(spec, "labels"), /* of a TrainJob, for what is made of it */
    };
    struct str queue = job_queue(job);

    for (size_t i = 0; i < COUNT_OF(labels) && !queue.len; i++)
        queue = label(labels[i], QUEUE_LABEL);
    if (!queue.len)
        queue = json_str_at(spec, "runPolicy.schedulingPolicy.queue");
    if (!queue.len)
        queue = json_str_at(spec, "scheduler.t9kScheduler.queue");
    return queue.len ? queue : STR(QUEUE_DEFAULT);
}

void spent_describe(struct spent *spent, const struct kind *kind, const struct json *job)
{
    spent->uid = json_str_at(job, "metadata.uid");
    spent->kind = str_from(kind->name);
    spent->ns = json_str_at(job, "metadata.namespace");
    spent->name = json_str_at(job, "metadata.name");
    spent->queue = queue_of(job);
    spent->labels = json_at(job, "metadata.labels");
    spent->user = label(json_at(job, "metadata.annotations"), PERSON_SUBMITTED);
    if (!spent->user.len)
        spent->user = spent->ns;
}

/* ---- its GPUs ---- */

/* Of the pods that it has at the same time. */
static int64_t batch_gpus(const struct json *spec)
{
    int64_t parallel = json_i64_or(json_get(spec, "parallelism"), 1);
    int64_t wanted = json_i64_or(json_get(spec, "completions"), parallel);

    return gpus_times(gpus_of_pod(json_get(spec, "template")),
                      wanted < parallel ? wanted : parallel);
}

static int64_t set_gpus(const struct json *parts)
{
    int64_t gpus = 0;

    JSON_FOREACH(parts, part)
        gpus = account_gpus(gpus + gpus_times(batch_gpus(json_at(part, "template.spec")),
                                              json_i64_or(json_get(part, "replicas"), 1)));
    return gpus;
}

int64_t spent_gpus(const struct json *job)
{
    const struct json *spec = json_get(job, "spec");
    const struct json *trainer = json_get(spec, "trainer");
    int64_t gpus = json_i64_or(json_at(job, "status.numGPUs"), -1);

    if (gpus < 0)
        gpus = json_i64_or(json_get(spec, "numGPUs"), 0);
    for (size_t i = 0; i < TRAININGS && gpus == 0; i++)
        gpus = gpus_of_roles(json_get(spec, training_kinds[i].specs));
    if (gpus == 0)
        gpus = gpus_of_roles(json_get(spec, "replicaSpecs"));
    if (gpus == 0)
        gpus = set_gpus(json_get(spec, "replicatedJobs"));
    if (gpus == 0)
        gpus = gpus_times(gpus_asked(json_get(trainer, "resourcesPerNode")),
                          json_i64_or(json_get(trainer, "numNodes"), 1));
    return account_gpus(gpus ? gpus : batch_gpus(spec));
}

bool spent_is_counted(const struct kind *kind, const struct json *job)
{
    if (kind == &kind_torchrunjob && !json_is_null(json_at(job, "spec.array")))
        return false;
    return kind != &kind_job || spent_gpus(job) > 0;
}

/* ---- how it is ---- */

static int64_t moment(const struct json *from, const char *path)
{
    int64_t ms = 0;

    (void)time_parse(json_str_at(from, path), &ms);
    return ms;
}

/* Its conditions say that it is over, and nothing else that its pods would not say better. */
static void state_by_pods(const struct json *job, struct spent_state *ret)
{
    static const char *const ends[] = {"Complete", "Completed", "Failed"};
    const struct json *status = json_get(job, "status");
    const struct json *hung = condition_find(status, "Hung");

    ret->start_ms = moment(status, "startTime");
    if (ret->hung && str_is(json_str(json_get(hung, "reason")), "Hung"))
        ret->failed_hung_ms = moment(hung, "lastTransitionTime");
    if (json_bool_or(json_at(job, "spec.suspend"), false))
        ret->phase = STR("Suspended");
    else if (condition_is_true(status, "RestartingJobSet") ||
             (json_i64_or(json_get(status, "failed"), 0) > 0 &&
              json_i64_or(json_get(status, "active"), 0) == 0))
        ret->phase = STR("Restarting");
    for (size_t i = 0; i < COUNT_OF(ends); i++) {
        if (!condition_is_true(status, ends[i]))
            continue;
        ret->phase = str_is(str_from(ends[i]), "Failed") ? STR("Failed") : STR("Succeeded");
        ret->end_ms = moment(condition_find(status, ends[i]), "lastTransitionTime");
    }
}

void spent_state_read(const struct kind *kind, const struct json *job, struct spent_state *ret)
{
    const struct json *status = json_get(job, "status");

    *ret = (struct spent_state){
        .hung = condition_is_true(status, "Hung"), .run_ms = -1, .gpus = spent_gpus(job)};
    if (spent_is_by_pods(kind)) {
        state_by_pods(job, ret);
        return;
    }
    if (kind == &kind_pytorchtrainingjob)
        status = json_get(status, "engine");
    ret->phase = json_str(json_get(status, "phase"));
    ret->start_ms = moment(status, "startTime");
    ret->end_ms = moment(status, "completionTime");
    ret->run_start_ms = moment(status, "runStartTime");
    if (json_i64(json_get(status, "runSeconds"), &ret->run_ms))
        ret->run_ms *= 1000;
    if (str_is(json_str_at(status, "failure.reason"), "Hung"))
        ret->failed_hung_ms = moment(status, "failure.time");
}

void spent_from_status(struct spent *spent,
                       const struct json *job,
                       const struct spent_state *state,
                       int64_t now_ms)
{
    /* Since when it hangs is in its status too, but not what it did before. */
    struct account_seen seen = {.phase = state->phase, .bound = state->run_start_ms != 0};
    bool over = job_is_over(state->phase);

    if (state->run_ms < 0) /* nobody says more than that it began */
        seen.bound = true;
    (void)account_from(
        &(struct account_told){.created_ms = moment(job, "metadata.creationTimestamp"),
                               .start_ms = state->start_ms,
                               .run_ms = state->run_ms,
                               .run_start_ms = state->run_start_ms,
                               .end_ms = !over           ? 0
                                         : state->end_ms ? state->end_ms
                                                         : now_ms,
                               .gpus = state->gpus,
                               .state = account_state_of(&seen)},
        &spent->account);
}

/* ---- whether it is observed ---- */

bool spent_hear(struct spent *spent, const struct object *pod)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct rank_report *reports = ARENA_ARRAY(&arena, struct rank_report, RANKS_MAX);
    size_t count = ranks_parse(&arena, object_annotation(pod, RANKS_ANNOTATION), reports);
    struct str why = count ? STR_NONE : ranks_why(&arena, pod);
    bool cleared = count && spent->why[0] && str_is(pod->uid, spent->why_pod);
    bool changed = cleared || (count && !spent->observed);

    spent->observed = spent->observed || count;
    if (cleared)
        spent->why[0] = '\0';
    if (!why.len)
        return changed;
    why = str_sub(why, 0, SPENT_WHY_BYTES - 1);
    changed = !str_is(why, spent->why);
    (void)snprintf(spent->why, sizeof(spent->why), STR_FMT, STR_ARG(why));
    (void)snprintf(spent->why_pod, sizeof(spent->why_pod), STR_FMT, STR_ARG(pod->uid));
    return changed;
}

struct str spent_observed(struct arena *arena, const struct spent *spent)
{
    if (!spent->why[0])
        return spent->observed ? STR("yes") : STR_NONE;
    return str_printf(arena, "%s: %s", spent->observed ? "in part" : "no", spent->why);
}
