#include "api/object.h"
#include "api/place.h"
#include "api/ranks.h"
#include "base/json.h"
#include "base/str.h"
#include "base/vec.h"
#include "control/core/action.h"
#include "control/core/control.h"
#include "control/job/job.h"
#include "control/job/job_engine.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A gang that restarts in the pods that it has (api/place.h): they keep their GPUs, nodes, addresses
 * and volumes, and nothing waits for the scheduler. A round has two steps: all are told to stop; when
 * all have, all are told to go. The round is in the state before a pod is told of it. */

/* A round that takes longer is none: the pods are made again. */
#define ROUND_LIMIT_MS 60000
/* It counts from the failure, so one that is older than this leaves no time for a round. A decision
 * takes 35 s at most, while a culprit is waited for. */
#define FAILURE_FRESH_MS 40000
/* A node keeps a pod that stopped for two minutes. What waits for longer than this before it may go
 * would fail a second time there. */
#define BACKOFF_LIMIT_MS 60000

static bool is_elastic(const struct job_model *model)
{
    for (size_t i = 0; i < model->roles.count; i++)
        if (model->roles.items[i].min != model->roles.items[i].max)
            return true;
    return false;
}

static bool pod_may_stay(const struct job_role *role)
{
    return (!role->later || role->last) &&
           str_is(json_str(json_get(role->pod_spec, "restartPolicy")), "Never");
}

/* A role whose own failure is final restarts with the others. */
static bool roles_may_stay(const struct job_model *model)
{
    bool restarts = false;

    if (is_elastic(model) && !model->meets_by_round)
        return false;
    for (size_t i = 0; i < model->roles.count; i++) {
        if (!pod_may_stay(&model->roles.items[i]))
            return false;
        restarts = restarts || model->roles.items[i].restart != JOB_RESTART_NEVER;
    }
    return restarts;
}

/* Whether the next container is kept warm; what cannot be done is said. */
static void warm_read(struct job_run *run)
{
    struct job_model *model = &run->model;
    struct str word = object_annotation(model->object, WARM_ANNOTATION);

    if (word.len)
        model->warm = str_is(word, "true");
    if (word.len && !model->warm && !str_is(word, "false") && !model->warning.len)
        model->warning = str_printf(run->arena,
                                    "annotation " WARM_ANNOTATION " is \"" STR_FMT
                                    "\": it must be true or false; nothing is kept warm",
                                    STR_ARG(word));
    if (model->warm && !(model->in_place && model->warmable && !is_elastic(model))) {
        model->warm = false;
        if (!model->warning.len)
            model->warning = STR("warm processes need a TorchrunJob with restartMode InPlace, of a "
                                 "fixed size and without setupCommand; nothing is kept warm");
    }
}

void job_place_read(struct job_run *run)
{
    struct job_model *model = &run->model;
    struct str word = object_annotation(model->object, JOB_ANNOTATION_RESTART_MODE);

    if (!word.len)
        word = job_queue_says(run->input, model->object, "restartMode", run->arena);
    if (str_is(word, "InPlace")) {
        model->restart_mode = JOB_MODE_IN_PLACE;
    } else if (word.len) {
        model->restart_mode = JOB_MODE_PODS;
        if (!str_is(word, "Pods") && !model->warning.len)
            model->warning = str_printf(run->arena,
                                        "annotation " JOB_ANNOTATION_RESTART_MODE " is \"" STR_FMT
                                        "\": it must be InPlace or Pods; pods are made again",
                                        STR_ARG(word));
    }
    model->in_place = model->restart_mode == JOB_MODE_IN_PLACE && model->scope == JOB_SCOPE_GANG &&
                      model->max_restarts != 0 && !model->parts && roles_may_stay(model);
    if (model->restart_mode == JOB_MODE_IN_PLACE && is_elastic(model) && !model->meets_by_round &&
        !model->warning.len)
        model->warning = STR("restartMode InPlace needs a job of a fixed size, or an elastic "
                             "TorchrunJob; pods are made again");
    warm_read(run);
}

void job_place_observe(struct job_run *run)
{
    for (size_t i = 0; i < run->members.count; i++) {
        struct job_member *member = &run->members.items[i];

        if (!member->place.set || member->generation != run->state.generation ||
            member->instance >= run->state.round)
            continue;
        member->moving = member->phase == JOB_POD_RUNNING || member->held;
        if (member->held)
            member->phase = JOB_POD_RUNNING;
        member->held = false;
    }
}

bool job_can_stay(const struct job_run *run, const struct job_look *look)
{
    int64_t now_ms = run->input->now_ms;

    if (!run->model.in_place || job_is_preflight(&run->state.failure) || look->old ||
        look->surplus || look->present < look->wanted ||
        now_ms >= run->state.failure.time_ms + FAILURE_FRESH_MS ||
        job_backoff_until(run) > now_ms + BACKOFF_LIMIT_MS)
        return false;
    for (size_t i = 0; i < run->members.count; i++) {
        const struct job_member *member = &run->members.items[i];

        if (!member->place.set || member->leaving || member->taken || member->lost_at_ms ||
            member->away || member->suspend.len || member->suspected ||
            (member->phase != JOB_POD_RUNNING && !member->held))
            return false;
    }
    return true;
}

/* What reaches into the other pods goes when these run. */
static bool may_go(const struct job_run *run, const struct job_member *member)
{
    if (!member->role || !member->role->last)
        return true;
    for (size_t i = 0; i < run->members.count; i++) {
        const struct job_member *other = &run->members.items[i];

        if (other->role && !other->role->last && (!other->ready || other->moving))
            return false;
    }
    return true;
}

static void order(struct job_run *run, bool all_go)
{
    for (size_t i = 0; i < run->members.count; i++) {
        const struct job_member *member = &run->members.items[i];
        struct json *patch = json_new_object(run->arena);
        struct json *annotations = json_make_path(run->arena, patch, "metadata.annotations");
        bool go = all_go && may_go(run, member);

        if (member->leaving || member->lost ||
            (member->place.round == run->state.round && member->place.go == go))
            continue;
        if (member->place.round == run->state.round && member->place.go)
            continue; /* it goes already */
        json_add_str(run->arena, annotations, PLACE_ANNOTATION,
                     place_text(run->arena, run->state.round, go));
        if (go) /* nothing of the ranks that were there is said of those to come */
            json_set(annotations, STR(RANKS_ANNOTATION), json_new_null(run->arena));
        action_patch(&run->actions, member->object, patch);
    }
}

void job_stay(struct job_run *run)
{
    run->state.round++;
    run->state.stayed++;
    job_say(run, JOB_RESTARTING,
            str_printf(run->arena, STR_FMT ", in place", STR_ARG(job_restart_words(run))));
    order(run, false);
}

void job_place_stop(struct job_run *run)
{
    order(run, false);
}

static void give_up(struct job_run *run)
{
    job_restart_held(run,
                     STR("the pods did not restart in place within a minute; they are made again"));
    job_delete_all(run);
}

bool job_place_step(struct job_run *run)
{
    int64_t back_ms = job_backoff_until(run);
    int64_t from_ms = back_ms > run->state.failure.time_ms ? back_ms : run->state.failure.time_ms;
    bool stopped = true;
    bool moving = false;

    for (size_t i = 0; i < run->members.count; i++) {
        const struct job_member *member = &run->members.items[i];

        moving = moving || member->moving;
        /* One whose place a spare has taken may still run: no rank of the new round meets it. */
        stopped = stopped && !member->leaving && !member->lost;
        stopped = stopped &&
                  (!member->moving || (member->stopped && member->place.round == run->state.round));
    }
    if (!moving)
        return false;
    if (run->input->now_ms >= from_ms + ROUND_LIMIT_MS) {
        give_up(run);
        return true;
    }
    order(run, stopped && run->input->now_ms >= back_ms);
    action_look_again(&run->actions,
                      run->input->now_ms < back_ms ? back_ms : from_ms + ROUND_LIMIT_MS);
    return true;
}

void job_let_go(struct job_run *run, const struct job_member *member)
{
    struct json *patch = json_new_object(run->arena);

    json_add_c(run->arena, json_make_path(run->arena, patch, "metadata.annotations"),
               PLACE_ANNOTATION, PLACE_OVER);
    action_patch(&run->actions, member->object, patch);
}
