#include "api/gpu.h"
#include "api/kind.h"
#include "api/object.h"
#include "api/suspend.h"
#include "base/json.h"
#include "base/str.h"
#include "base/time.h"
#include "base/vec.h"
#include "cache/cache.h"
#include "control/core/action.h"
#include "control/core/control.h"
#include "control/job/job.h"
#include "control/job/job_engine.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Pods that stay while they have no GPUs (api/suspend.h): of a job that is suspended so, and of one
 * that gives way to others. They are the same generation when they go on. */

static bool is_current(const struct job_run *run, const struct job_member *member)
{
    return member->generation == run->state.generation && member->phase <= JOB_POD_RUNNING &&
           !member->leaving;
}

static bool is_kept(const struct job_member *member)
{
    return member->away || (member->suspend.len && !member->unsuspended.len);
}

bool job_is_kept(const struct job_run *run)
{
    for (size_t i = 0; i < run->members.count; i++)
        if (is_current(run, &run->members.items[i]) && is_kept(&run->members.items[i]))
            return true;
    return false;
}

/* NULL: it is to run. */
static void ask(struct job_run *run, const struct job_member *member, const char *wish)
{
    struct json *patch = json_new_object(run->arena);
    struct json *annotations = json_make_path(run->arena, patch, "metadata.annotations");

    if (wish ? str_is(member->suspend, wish) : !member->suspend.len)
        return;
    json_set(annotations, STR(SUSPEND_ANNOTATION),
             wish ? json_new_str(run->arena, str_from(wish)) : json_new_null(run->arena));
    action_patch(&run->actions, member->object, patch);
}

/* Why the pod cannot be suspended; empty: it can, as far as can be seen from here. */
static struct str obstacle(const struct job_run *run, const struct job_member *member)
{
    struct str node = json_str_at(object_json(member->object, run->arena), "spec.nodeName");
    const struct object *object = cache_get(run->input->cache, &kind_node, STR(""), node);
    /* On a cluster the pod's own library does it, where it was prepared with the bind. */
    bool movable = object_label(member->object, GPU_LABEL_GROUP).len &&
                   str_is(object_annotation(member->object, SUSPEND_MAY), "true");

    if (!object || (!object_label(object, SUSPEND_LABEL).len && !movable))
        return str_printf(run->arena, "node " STR_FMT " cannot suspend pods", STR_ARG(node));
    return member->unsuspended;
}

/* A gang stands still together or not at all: what stands already goes on. */
static void run_on(struct job_run *run, const struct job_member *member, struct str why)
{
    for (size_t i = 0; i < run->members.count; i++) {
        const struct job_member *other = &run->members.items[i];

        if (is_current(run, other) && other->suspend.len && !other->unsuspended.len)
            ask(run, other, SUSPEND_YIELD);
    }
    run->state.phase = JOB_RUNNING;
    run->state.message =
        str_printf(run->arena,
                   "runs on: pod " STR_FMT " cannot be suspended with its memory: " STR_FMT
                   "; without spec.keepWhileSuspended the job is stopped",
                   STR_ARG(member->object->name), STR_ARG(why));
}

bool job_keep(struct job_run *run)
{
    struct job_look look = job_look(run);
    size_t away = 0;

    if (look.old || look.failed || look.disrupted || look.surplus || look.succeeded ||
        !look.running || look.running != look.present || look.present < look.min)
        return false;
    for (size_t i = 0; i < run->members.count; i++) {
        struct str why = obstacle(run, &run->members.items[i]);

        if (!why.len)
            continue;
        run_on(run, &run->members.items[i], why);
        return true;
    }
    for (size_t i = 0; i < run->members.count; i++) {
        const struct job_member *member = &run->members.items[i];
        bool resuming = member->away && !member->suspend.len; /* not before it goes on */

        if (!resuming)
            ask(run, member, SUSPEND_HOLD);
        away += member->away && !resuming;
    }
    job_stop_clock(run);
    job_say(run, JOB_SUSPENDED,
            away < look.present
                ? str_printf(run->arena, "suspending: %zu of %zu pods have given up their GPUs",
                             away, look.present)
                : str_printf(run->arena,
                             "suspended; %zu pods keep their memory and hold no GPU; set "
                             "spec.suspend to false to continue",
                             away));
    return true;
}

bool job_ends_well(const struct job_run *run)
{
    struct job_look look = job_look(run);

    return look.succeeded && look.present >= look.min && !look.old && !look.failed &&
           !look.disrupted && !look.surplus;
}

/* Of one whose GPUs were unused: somebody has asked for the job since it gave way. */
static bool is_wanted(const struct job_run *run, const struct job_member *member)
{
    struct str text = object_annotation(run->model.object, SUSPEND_RESUMED_AT);
    int64_t at_ms = 0;

    return member->away && text.len && time_parse(text, &at_ms) && at_ms >= member->away_ms;
}

bool job_awaits_gpus(struct job_run *run)
{
    struct str words = job_group_words(run);
    bool waiting = false;
    bool unused = false;

    for (size_t i = 0; i < run->members.count; i++) {
        const struct job_member *member = &run->members.items[i];

        if (!is_current(run, member))
            continue;
        bool given = str_is(member->suspend, SUSPEND_UNUSED);
        if (member->unsuspended.len && !given) /* else control/grouping/unused.c does */
            ask(run, member, NULL);
        else if (str_is(member->suspend, SUSPEND_HOLD) || (given && is_wanted(run, member)))
            ask(run, member, SUSPEND_YIELD);
        unused = unused || given;
        waiting = waiting || member->suspend.len;
    }
    if (!job_is_kept(run))
        return false;
    job_stop_clock(run);
    job_say(run, JOB_SUSPENDED,
            unused      ? STR("suspended: its GPUs were unused while others waited for GPUs; its "
                                   "pods keep their memory; resume the job to have it back in line")
            : !waiting  ? STR("goes on: its pods get their GPUs back")
            : words.len ? words
                        : STR("suspended; its pods keep their memory and go on when they have "
                              "their GPUs again"));
    return true;
}
