#include "api/kind.h"
#include "api/object.h"
#include "base/json.h"
#include "base/str.h"
#include "base/vec.h"
#include "cache/cache.h"
#include "control/action.h"
#include "control/control.h"
#include "control/group.h"
#include "control/job.h"
#include "control/job_engine.h"
#include "control/launcher.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The pods of a job: made together, restarted together.
 *
 * Invariant: pods of two generations never exist side by side but while the older ones end. */

/* The command could not be started: trying again cannot help. */
#define EXIT_NOT_EXECUTABLE 126
#define EXIT_NOT_FOUND      127

/* One look at the current generation. */
struct gang {
    size_t old;     /* pods of earlier generations, still there */
    size_t present; /* pods of this generation */
    size_t started; /* running or ended */
    size_t running;
    size_t succeeded;
    size_t staying;                     /* running and not going away */
    const struct job_member *failed;    /* the first to fail by itself */
    const struct job_member *disrupted; /* one that was taken from us */
    const struct job_member *waiting;   /* one that does not run, with words if any has */
};

static bool earlier(const struct job_member *a, const struct job_member *b)
{
    if (!b || a->failure.time_ms != b->failure.time_ms)
        return !b || a->failure.time_ms < b->failure.time_ms;
    return a->index < b->index;
}

static struct gang look(const struct job_run *run)
{
    struct gang gang = {0};

    for (size_t i = 0; i < run->members.count; i++) {
        const struct job_member *member = &run->members.items[i];

        if (member->generation != run->state.generation) {
            gang.old++;
            continue;
        }
        gang.present++;
        gang.started += member->phase != JOB_POD_PENDING;
        gang.running += member->phase == JOB_POD_RUNNING;
        gang.succeeded += member->phase == JOB_POD_SUCCEEDED;
        if (member->phase == JOB_POD_SUCCEEDED)
            continue;
        if (member->leaving || member->lost || member->taken)
            gang.disrupted = member;
        else if (member->phase == JOB_POD_FAILED && earlier(member, gang.failed))
            gang.failed = member;
        else if (member->phase == JOB_POD_RUNNING)
            gang.staying++;
        else if (member->phase == JOB_POD_PENDING && (!gang.waiting || !gang.waiting->waiting.len))
            gang.waiting = member;
    }
    return gang;
}

static void remove_old(struct job_run *run)
{
    for (size_t i = 0; i < run->members.count; i++)
        if (run->members.items[i].generation != run->state.generation)
            job_remove(run, &run->members.items[i]);
}

static struct str exit_words(const struct job_failure *failure, struct arena *arena)
{
    bool plain = !failure->reason.len || str_is(failure->reason, "Error");

    if (failure->exit_code == EXIT_NOT_FOUND)
        return str_printf(arena, "pod " STR_FMT ": command not found (exit status 127)",
                          STR_ARG(failure->pod));
    if (failure->exit_code > 128 && failure->exit_code < 160)
        return str_printf(arena, "pod " STR_FMT " was ended by signal %lld%s" STR_FMT,
                          STR_ARG(failure->pod), (long long)failure->exit_code - 128,
                          plain ? "" : ", ", STR_ARG(plain ? STR("") : failure->reason));
    return str_printf(arena, "pod " STR_FMT " ended with exit status %lld%s" STR_FMT,
                      STR_ARG(failure->pod), (long long)failure->exit_code, plain ? "" : ", ",
                      STR_ARG(plain ? STR("") : failure->reason));
}

static void on_failure(struct job_run *run, const struct job_member *member)
{
    const struct job_model *model = &run->model;
    struct job_state *state = &run->state;
    struct str words = exit_words(&member->failure, run->arena);
    int64_t code = member->failure.exit_code;

    state->failure = member->failure;
    state->exit_code = code;
    if (code == EXIT_NOT_FOUND || code == EXIT_NOT_EXECUTABLE || !model->restart) {
        job_finish(run, JOB_FAILED, words);
    } else if (state->restarts >= model->max_restarts) {
        job_finish(run, JOB_FAILED,
                   model->max_restarts
                       ? str_printf(run->arena, STR_FMT "; all %lld restarts are used up",
                                    STR_ARG(words), (long long)model->max_restarts)
                       : words);
    } else {
        state->restarts++;
        job_next_generation(run);
        remove_old(run);
        job_say(run, JOB_RESTARTING,
                str_printf(run->arena, STR_FMT "; restart %lld of %lld", STR_ARG(words),
                           (long long)state->restarts, (long long)model->max_restarts));
    }
}

static void on_disruption(struct job_run *run, const struct job_member *member)
{
    struct str words;

    if (!member)
        words = STR("a pod of the job is gone");
    else if (member->lost)
        words = str_printf(run->arena, "the node of pod " STR_FMT " is lost",
                           STR_ARG(member->object->name));
    else
        words = str_printf(run->arena, "pod " STR_FMT " was evicted or deleted",
                           STR_ARG(member->object->name));
    run->state.disruptions++;
    job_next_generation(run);
    remove_old(run);
    job_say(run, member && member->lost ? JOB_RESTARTING : JOB_PREEMPTED,
            str_printf(run->arena, STR_FMT "; the job continues as a whole when it can",
                       STR_ARG(words)));
}

static bool has_index(const struct job_run *run, size_t index)
{
    for (size_t i = 0; i < run->members.count; i++)
        if (run->members.items[i].index == index)
            return true;
    return false;
}

static void create_missing(struct job_run *run)
{
    const struct job_model *model = &run->model;

    for (size_t i = 0; i < model->count; i++) {
        if (has_index(run, i))
            continue;
        struct job_pod pod = {.name = job_pod_name(model, i, run->arena),
                              .index = i,
                              .gpus = model->gpus[i],
                              .generation = run->state.generation,
                              .pods = model->count};
        struct json *body = job_make_pod(model, &pod, run->arena);
        launcher_add(body, run->input->config->launcher_image, run->arena);
        action_create(&run->actions, &kind_pod, body);
    }
    run->state.created = true;
}

static struct str group_words(const struct job_run *run)
{
    const struct object *group = cache_get(run->input->cache, &kind_podgroup, run->model.object->ns,
                                           group_name(run->model.object, run->arena));

    return group ? json_str_at(object_json(group, run->arena), "status.message") : STR_NONE;
}

static void say_waiting(struct job_run *run, const struct gang *gang)
{
    struct str words = STR_NONE;

    if (gang->waiting && !gang->waiting->scheduled)
        words = group_words(run);
    if (!words.len && gang->waiting)
        words = gang->waiting->waiting;
    if (!words.len && gang->started)
        words =
            str_printf(run->arena, "%zu of %zu pods have started", gang->started, run->model.count);
    if (!words.len)
        words = gang->waiting && gang->waiting->scheduled ? STR("starting the pods")
                                                          : STR("waiting to be scheduled");
    job_say(run, JOB_QUEUED, words);
}

static void say_running(struct job_run *run, const struct gang *gang)
{
    struct job_state *state = &run->state;

    if (!state->run_start_ms)
        state->run_start_ms = run->input->now_ms;
    if (!state->start_ms)
        state->start_ms = run->input->now_ms;
    job_say(run, JOB_RUNNING,
            gang->succeeded
                ? str_printf(run->arena, "%zu of %zu pods run, %zu are done", gang->running,
                             run->model.count, gang->succeeded)
                : str_printf(run->arena, "%zu of %zu pods run", gang->running, run->model.count));
}

static void look_again_for_nodes(struct job_run *run)
{
    for (size_t i = 0; i < run->members.count; i++)
        if (run->members.items[i].lost_at_ms > run->input->now_ms)
            action_look_again(&run->actions, run->members.items[i].lost_at_ms);
}

/* Elastic: a pod that failed or was taken is replaced alone while enough others go on. */
static bool replace_alone(struct job_run *run, const struct gang *gang)
{
    const struct job_model *model = &run->model;
    struct job_state *state = &run->state;

    if (model->min == model->max || gang->staying < model->min)
        return false;
    if (gang->failed) {
        if (!model->restart || state->restarts >= model->max_restarts)
            return false;
        state->failure = gang->failed->failure;
        state->restarts++;
        job_remove(run, gang->failed);
    }
    if (gang->disrupted && gang->disrupted->lost)
        job_remove(run, gang->disrupted);
    create_missing(run);
    return true;
}

static bool succeeded(const struct job_model *model, const struct gang *gang)
{
    if (model->min != model->max) /* one torchrun that is done means that all are */
        return gang->succeeded > 0 && !gang->failed;
    return gang->succeeded == model->count;
}

void job_gang(struct job_run *run)
{
    const struct job_model *model = &run->model;
    struct gang gang = look(run);
    bool missing = gang.present < model->count && run->state.run_start_ms;

    remove_old(run);
    look_again_for_nodes(run);
    if (succeeded(model, &gang)) {
        run->state.exit_code = 0;
        job_finish(run, JOB_SUCCEEDED, STR("all ranks are done"));
        return;
    }
    if ((gang.failed || gang.disrupted || missing) && replace_alone(run, &gang)) {
        say_running(run, &gang);
        return;
    }
    /* What was evicted takes its peers down with it: that is no failure of theirs. */
    if (gang.disrupted && gang.started) {
        on_disruption(run, gang.disrupted);
        return;
    }
    if (gang.failed) {
        on_failure(run, gang.failed);
        return;
    }
    if (missing) {
        on_disruption(run, NULL);
        return;
    }
    if (gang.old) {
        if (run->state.phase != JOB_PREEMPTED && run->state.phase != JOB_RESTARTING)
            job_say(
                run, JOB_RESTARTING,
                str_printf(run->arena, "waiting for %zu pods of the last run to end", gang.old));
        return;
    }
    create_missing(run);
    if (gang.started >= model->min && gang.present >= model->min)
        say_running(run, &gang);
    else
        say_waiting(run, &gang);
}
