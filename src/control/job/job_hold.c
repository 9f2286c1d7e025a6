#include "api/hold.h"
#include "api/kind.h"
#include "api/object.h"
#include "base/str.h"
#include "cache/cache.h"
#include "control/core/action.h"
#include "control/core/control.h"
#include "control/core/group_name.h"
#include "control/core/hold.h"
#include "control/job/job.h"
#include "control/job/job_engine.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A gang that restarts keeps its room (api/hold.h): what the engine tells the scheduler of it. The
 * pods say it of themselves, so that no moment is lost between a failure and what is decided about
 * it; the pod group has the decision. */

void job_hold_mark(const struct job_run *run, const struct job_role *role, struct json *pod)
{
    const struct job_model *model = &run->model;
    int64_t ms = hold_ms(model->object, run->arena, NULL);

    if (!ms || role->restart == JOB_RESTART_NEVER ||
        (model->max_restarts >= 0 &&
         run->state.restarts + run->state.in_place >= model->max_restarts))
        return;
    hold_mark(run->arena, pod, ms);
}

static const struct object *hold_group(const struct job_run *run)
{
    return cache_get(run->input->cache, &kind_podgroup, run->model.object->ns,
                     group_name(run->model.object, run->arena));
}

/* Returns what is to be said of the annotation, behind other words. */
static struct str job_hold(struct job_run *run)
{
    const struct object *group = hold_group(run);
    int64_t from_ms = job_backoff_until(run);
    struct str note = STR_NONE;
    int64_t ms = hold_ms(run->model.object, run->arena, &note);

    if (group && ms)
        hold_write(&run->actions, group,
                   (from_ms > run->input->now_ms ? from_ms : run->input->now_ms) + ms);
    return note;
}

void job_hold_again(struct job_run *run)
{
    const struct object *group = hold_group(run);
    int64_t failed_ms = run->state.failure.time_ms / 1000 * 1000;
    int64_t from_ms = job_backoff_until(run);
    int64_t ms = hold_ms(run->model.object, run->arena, NULL);
    int64_t until_ms = (from_ms > failed_ms ? from_ms : failed_ms) + ms;

    if (group && ms && failed_ms && hold_told_ms(group) < failed_ms &&
        until_ms > run->input->now_ms && failed_ms <= run->input->now_ms)
        hold_write(&run->actions, group, until_ms);
}

void job_restart_held(struct job_run *run, struct str words)
{
    struct str note = job_hold(run);

    job_next_generation(run);
    if (!words.len)
        words = job_restart_words(run);
    job_say(run, JOB_RESTARTING,
            str_printf(run->arena, STR_FMT STR_FMT, STR_ARG(words), STR_ARG(note)));
}

/* When the last pod failed whose room may be held because it said so; 0: none did. It may be gone. A
 * node whose clock is far ahead is not asked. */
static int64_t hold_failed_ms(const struct job_run *run)
{
    int64_t last_ms = run->model.max_restarts ? run->state.failure.time_ms : 0;

    for (size_t i = 0; i < run->members.count; i++) {
        const struct job_member *member = &run->members.items[i];

        if (member->phase == JOB_POD_FAILED && member->failure.time_ms > last_ms &&
            object_annotation(member->object, HOLD_ANNOTATION).len)
            last_ms = member->failure.time_ms;
    }
    return last_ms <= run->input->now_ms + HOLD_DEFAULT_MS ? last_ms : 0;
}

void job_hold_end(struct job_run *run)
{
    const struct object *group = hold_group(run);
    int64_t now_ms = run->input->now_ms;
    int64_t told_ms = group ? hold_told_ms(group) : 0;
    int64_t failed_ms = hold_failed_ms(run) / 1000 * 1000; /* annotations have whole seconds */
    int64_t end_ms = failed_ms > now_ms ? failed_ms : now_ms;

    /* What failed long ago is held no more, whoever says so. */
    if (group && (told_ms > end_ms || (told_ms < failed_ms && now_ms < failed_ms + HOLD_MAX_MS)))
        hold_write(&run->actions, group, end_ms);
}

void job_hold_done(struct job_run *run)
{
    const struct object *group = hold_group(run);

    if (group && object_annotation(group, HOLD_UNTIL_ANNOTATION).len)
        hold_write(&run->actions, group, 0);
}
