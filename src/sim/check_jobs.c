#include "sim/check_jobs.h"

#include "api/api.h"
#include "api/kind.h"
#include "api/object.h"
#include "api/training.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/json.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "cache/cache.h"
#include "sim/check_report.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define MAP_SEED 17

/* Jobs, to which the training kinds come, and what controllers make for them besides pods. */
static const struct kind *const other_jobs[] = {
    &kind_job, &kind_torchrunjob, &kind_jobset, &kind_trainjob, &kind_pytorchtrainingjob,
};
static const struct kind *const things[] = {
    &kind_service,
    &kind_configmap,
    &kind_secret,
    &kind_pvc,
};
#define JOBS    (TRAININGS + COUNT_OF(other_jobs))
#define WATCHED (JOBS + COUNT_OF(things))

/* Jobs first. */
static const struct kind *watched(size_t index)
{
    if (index < COUNT_OF(other_jobs))
        return other_jobs[index];
    index -= COUNT_OF(other_jobs);
    return index < TRAININGS ? training_kinds[index].kind : things[index - TRAININGS];
}

/* A job that has been seen. */
struct story {
    uint64_t finished; /* the revision that said so; 0: none did */
    bool lives;        /* at rest: it has something that goes on */
    size_t len;
    char uid[];
};

struct check_jobs {
    struct api *api;
    struct check_report *report;
    struct api_watch *watches[WATCHED];
    struct cache *cache;
    struct map stories; /* by uid */
};

static bool is_job(const struct kind *kind)
{
    for (size_t i = 0; i < JOBS; i++)
        if (watched(i) == kind)
            return true;
    return false;
}

static bool is_finished(const struct object *job)
{
    static const char *const words[] = {"Succeeded", "Failed", "Complete", "Completed"};
    _cleanup_(arena_done) struct arena arena = {0};
    const struct json *status = json_get(object_json(job, &arena), "status");
    struct str phase = json_str_at(status, "phase");

    if (job->kind == &kind_torchrunjob || job->kind == &kind_pytorchtrainingjob)
        return str_is(phase, "Succeeded") || str_is(phase, "Failed");
    JSON_FOREACH(json_get(status, "conditions"), condition)
        for (size_t i = 0; i < COUNT_OF(words); i++)
            if (str_is(json_str_at(condition, "type"), words[i]) &&
                str_is(json_str_at(condition, "status"), "True"))
                return true;
    return false;
}

static struct story *story_of(struct check_jobs *jobs, struct str uid)
{
    struct story *story = map_get(&jobs->stories, uid);

    if (story)
        return story;
    story = mem_alloc(sizeof(*story) + uid.len);
    story->len = uid.len;
    memcpy(story->uid, uid.p, uid.len);
    map_set(&jobs->stories, (struct str){story->uid, story->len}, story);
    return story;
}

static void put_job(struct check_jobs *jobs, const struct object *job)
{
    struct story *story = story_of(jobs, job->uid);
    bool finished = is_finished(job);

    if (story->finished && !finished)
        check_fail(jobs->report, "%s " STR_FMT " had finished and goes on", job->kind->name,
                   STR_ARG(job->name));
    if (finished && !story->finished)
        story->finished = job->revision;
}

/* The watches of pods and jobs do not agree on what came first; revisions do. */
static void was_made(struct check_jobs *jobs, const struct object *object)
{
    const struct object_owner *owner = object_controller(object);
    const struct story *story = owner ? map_get(&jobs->stories, owner->uid) : NULL;

    if (story && story->finished && story->finished < object->revision)
        check_fail(jobs->report,
                   "%s " STR_FMT " was made although its " STR_FMT " " STR_FMT " has finished",
                   object->kind->name, STR_ARG(object->name), STR_ARG(owner->kind),
                   STR_ARG(owner->name));
}

static void on_change(void *user, const struct api_change *change)
{
    struct check_jobs *jobs = user;
    const struct object *object = change->object;

    if (!object)
        return;
    if (change->event == API_DELETED) {
        cache_drop(jobs->cache, object);
        return;
    }
    if (is_job(object->kind)) {
        const struct object *before =
            cache_get(jobs->cache, object->kind, object->ns, object->name);

        if (!before || !str_eq(before->uid, object->uid))
            was_made(jobs, object);
        put_job(jobs, object);
    }
    cache_put(jobs->cache, object);
}

void check_jobs_pod_made(struct check_jobs *jobs, const struct object *pod)
{
    was_made(jobs, pod);
}

/* ---- at rest ---- */

static void owner_lives(struct check_jobs *jobs, const struct object *object)
{
    const struct object_owner *owner = object_controller(object);
    struct story *story = owner ? map_get(&jobs->stories, owner->uid) : NULL;

    if (story)
        story->lives = true;
}

void check_jobs_pod_lives(struct check_jobs *jobs, const struct object *pod)
{
    owner_lives(jobs, pod);
}

void check_jobs_at_rest(struct check_jobs *jobs)
{
    const struct object *job;
    size_t cursor;

    for (size_t i = 0; i < JOBS; i++)
        for (cursor = 0; (job = cache_next(jobs->cache, watched(i), STR(""), &cursor));)
            if (!story_of(jobs, job->uid)->finished)
                owner_lives(jobs, job);
    for (size_t i = 0; i < JOBS; i++)
        for (cursor = 0; (job = cache_next(jobs->cache, watched(i), STR(""), &cursor));) {
            const struct story *story = story_of(jobs, job->uid);

            if (!story->finished && !story->lives)
                check_fail(jobs->report,
                           "%s " STR_FMT " has not finished and nothing of it goes on",
                           job->kind->name, STR_ARG(job->name));
        }
}

void check_jobs_clean(struct check_jobs *jobs, struct str ns)
{
    const struct object *object;

    for (size_t i = 0; i < WATCHED; i++) {
        size_t cursor = 0;

        while ((object = cache_next(jobs->cache, watched(i), ns, &cursor)))
            check_fail(jobs->report, "%s " STR_FMT " is still there", watched(i)->name,
                       STR_ARG(object->name));
    }
}

struct check_jobs *check_jobs_new(struct api *api, struct check_report *report)
{
    struct check_jobs *jobs = MEM_NEW(struct check_jobs);

    jobs->api = api;
    jobs->report = report;
    jobs->cache = cache_new(MAP_SEED);
    jobs->stories.seed = MAP_SEED;
    for (size_t i = 0; i < WATCHED; i++)
        jobs->watches[i] =
            api_watch(api, &(struct api_watch_request){.kind = watched(i)}, on_change, jobs);
    return jobs;
}

void check_jobs_free(struct check_jobs *jobs)
{
    if (!jobs)
        return;
    for (size_t i = 0; i < WATCHED; i++)
        api_watch_stop(jobs->api, jobs->watches[i]);
    MAP_FOREACH(&jobs->stories, entry)
        mem_free(entry->value);
    map_done(&jobs->stories);
    cache_free(jobs->cache);
    mem_free(jobs);
}
