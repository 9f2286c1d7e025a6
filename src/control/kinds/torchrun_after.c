#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "base/json_make.h"
#include "base/str.h"
#include "base/vec.h"
#include "cache/cache.h"
#include "control/core/control.h"
#include "control/job/job.h"
#include "control/kinds/torchrun.h"
#include "control/kinds/torchrun_model.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* spec.after: jobs of the same namespace that must have ended before this one starts.
 *
 * status.after remembers of each which object it was (uid) and whether it is done with. So a job
 * that has succeeded may go, by its time to live or by hand; one that was there and is gone before
 * it ended can be told from one that has yet to be made; and another of the same name is another. A
 * job that may still come is waited for: manifests may be applied in any order. */
#define AFTER_WALK_MAX 1000 /* jobs looked at for a ring: more stand in no line by hand */

static const struct json *after_known(const struct json *status, struct str job)
{
    JSON_FOREACH(json_get(status, "after"), entry)
        if (str_eq(json_str(json_get(entry, "job")), job))
            return entry;
    return NULL;
}

/* ---- rings ---- */

struct after_walk {
    const struct torchrun *t;
    VEC(struct str) seen;
};

static void after_push(struct after_walk *walk, struct str name)
{
    for (size_t i = 0; i < walk->seen.count; i++)
        if (str_eq(walk->seen.items[i], name))
            return;
    if (walk->seen.count < AFTER_WALK_MAX)
        VEC_PUSH(walk->t->arena, &walk->seen, name);
}

/* Whether this job stands, over others, behind itself: none of them would ever start. */
static bool after_is_ring(const struct torchrun *t)
{
    struct after_walk walk = {.t = t};

    for (size_t i = 0; i < t->spec.after_count; i++)
        after_push(&walk, t->spec.after[i].job);
    for (size_t i = 0; i < walk.seen.count; i++) {
        const struct object *job =
            cache_get(t->input->cache, &kind_torchrunjob, t->job->ns, walk.seen.items[i]);

        if (str_eq(walk.seen.items[i], t->job->name))
            return true;
        if (!job)
            continue;
        arena_defer(t->arena, object_release, object_ref(job));
        JSON_FOREACH(json_at(object_json(job, t->arena), "spec.after"), entry)
            after_push(&walk, json_str(json_get(entry, "job")));
    }
    return false;
}

/* ---- one of them ---- */

/* It was there and is not: for one that had to succeed that is as if it had failed. */
static void after_gone(struct torchrun_waiting *one, struct torchrun *t)
{
    if (one->after->when == TORCHRUN_AFTER_ENDED)
        one->state = TORCHRUN_AFTER_MET;
    else
        one->state = TORCHRUN_AFTER_NEVER;
    one->words = str_printf(t->arena, "job " STR_FMT " was deleted before it succeeded",
                            STR_ARG(one->after->job));
}

static void after_there(struct torchrun_waiting *one, struct torchrun *t, const struct object *job)
{
    struct str word = json_str_at(object_json(job, t->arena), "status.phase");
    enum job_phase phase = job_phase_parse(word);
    bool any = one->after->when == TORCHRUN_AFTER_ENDED;

    one->uid = str_dup(t->arena, job->uid);
    if (phase == JOB_SUCCEEDED || (any && job_phase_is_final(phase))) {
        one->state = TORCHRUN_AFTER_MET;
        return;
    }
    if (job_phase_is_final(phase)) {
        one->state = TORCHRUN_AFTER_NEVER;
        one->words = str_printf(t->arena, "job " STR_FMT " is %s", STR_ARG(one->after->job),
                                job_phase_word(phase));
        return;
    }
    one->words = str_printf(t->arena, "waits for job " STR_FMT " to %s", STR_ARG(one->after->job),
                            any ? "end" : "succeed");
}

static struct torchrun_waiting after_look(struct torchrun *t, const struct torchrun_after *after)
{
    const struct json *status = json_get(object_json(t->job, t->arena), "status");
    const struct json *known = after_known(status, after->job);
    const struct object *job =
        cache_get(t->input->cache, &kind_torchrunjob, t->job->ns, after->job);
    struct torchrun_waiting one = {.after = after, .uid = json_str(json_get(known, "uid"))};

    if (str_is(json_str(json_get(known, "state")), "Met"))
        one.state = TORCHRUN_AFTER_MET;
    else if (one.uid.len && (!job || !str_eq(job->uid, one.uid)))
        after_gone(&one, t);
    else if (job) {
        arena_defer(t->arena, object_release, object_ref(job));
        after_there(&one, t, job);
    } else {
        one.words = str_printf(
            t->arena, "waits for job " STR_FMT ", which does not exist in namespace " STR_FMT,
            STR_ARG(after->job), STR_ARG(t->job->ns));
    }
    return one;
}

void torchrun_read_after(struct torchrun *t, struct job_model *model)
{
    if (!t->spec.after_count)
        return;
    t->waiting = ARENA_ARRAY(t->arena, struct torchrun_waiting, t->spec.after_count);
    for (size_t i = 0; i < t->spec.after_count; i++) {
        struct torchrun_waiting *one = &t->waiting[i];

        *one = after_look(t, &t->spec.after[i]);
        if (one->state == TORCHRUN_AFTER_NEVER && !model->never.len)
            model->never = str_printf(t->arena,
                                      "never starts (DependencyNeverSatisfied): spec.after asks "
                                      "for the success of job " STR_FMT ", and " STR_FMT,
                                      STR_ARG(one->after->job), STR_ARG(one->words));
        else if (one->state == TORCHRUN_AFTER_WAITS && !model->hold.len)
            model->hold = one->words;
    }
    if (model->hold.len && after_is_ring(t) && !model->problem.condition)
        model->problem = (struct job_problem){
            "InvalidSpec", "DependencyCycle",
            STR("spec.after: the job waits, perhaps over other jobs, for itself")};
}

void torchrun_write_after(const struct torchrun *t, struct json *status, struct arena *arena)
{
    static const char *const words[] = {[TORCHRUN_AFTER_WAITS] = "Waits",
                                        [TORCHRUN_AFTER_MET] = "Met",
                                        [TORCHRUN_AFTER_NEVER] = "Never"};

    if (!t->waiting)
        return;
    struct json *list = json_add_array(arena, status, "after");
    for (size_t i = 0; i < t->spec.after_count; i++) {
        struct json *entry =
            json_push(list, json_make(arena, "{job: $, state: $}", t->waiting[i].after->job,
                                      words[t->waiting[i].state]));

        if (t->waiting[i].uid.len)
            json_add_str(arena, entry, "uid", t->waiting[i].uid);
    }
}

/* Who waits for a job that has ended or is gone. */
void torchrun_after_keys(const struct cache *cache,
                         const struct object *object,
                         struct control_keys *ret)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct str phase = json_str_at(object_json(object, &arena), "status.phase");
    const struct object *job;
    size_t cursor = 0;

    /* What happens before its end is no news to them, and there may be thousands. A job that has
     * just been made has no phase yet: from now on it is known which one they wait for. */
    if (phase.len && !job_phase_is_final(job_phase_parse(phase)) &&
        cache_get(cache, &kind_torchrunjob, object->ns, object->name))
        return;
    while ((job = cache_next(cache, &kind_torchrunjob, object->ns, &cursor))) {
        _cleanup_(arena_done) struct arena each = {0};

        JSON_FOREACH(json_at(object_json(job, &each), "spec.after"), entry)
            if (str_eq(json_str(json_get(entry, "job")), object->name)) {
                control_keys_add(ret, job->ns, job->name);
                break;
            }
    }
}
