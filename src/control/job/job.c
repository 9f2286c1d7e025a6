#include "control/job/job.h"

#include "api/kind.h"
#include "api/object.h"
#include "api/place.h"
#include "base/arena.h"
#include "base/json.h"
#include "base/json_make.h"
#include "base/str.h"
#include "base/time.h"
#include "base/vec.h"
#include "cache/cache.h"
#include "control/core/action.h"
#include "control/core/control.h"
#include "control/core/group_name.h"
#include "control/core/memory.h"
#include "control/core/status.h"
#include "control/job/job_engine.h"

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Flow of a reconcile: translate the object, read the state it remembers, look at its pods, take
 * the one step that is due (finished, suspended, held up, provisioning, syncing, gang), write the
 * state if it changed. The status is written first and the rest of the actions follow, see job.h.
 */

static void remove_sync_pod(struct job_run *run)
{
    const struct object *pod = job_sync_pod(run);

    if (pod && !pod->deleted_ms)
        action_delete(&run->actions, pod);
}

/* It needs no processes any more; what it has said stays to be read, as with the other pods. */
static void end_sync_pod(struct job_run *run)
{
    const struct object *pod = job_sync_pod(run);

    if (run->input->config->kubelets || run->model.clean == JOB_CLEAN_ALL)
        remove_sync_pod(run);
    else if (pod && !pod->deleted_ms && !object_annotation(pod, END_ANNOTATION).len)
        action_patch(
            &run->actions, pod,
            json_make(run->arena, "{metadata: {annotations: {" END_ANNOTATION ": 'true'}}}"));
}

/* Services of single pods: those of pods that go, or all of them. */
static void remove_services(struct job_run *run, bool all)
{
    const struct object *service;
    size_t cursor = 0;

    while ((service = cache_next_owned(run->input->cache, &kind_service, run->model.object->uid,
                                       &cursor))) {
        const struct object *pod =
            cache_get(run->input->cache, &kind_pod, service->ns, service->name);

        if (!object_label(service, JOB_LABEL_INDEX).len || service->deleted_ms || (!all && pod))
            continue;
        action_delete(&run->actions, service);
        job_tell_deleted(run, service);
    }
}

static void remove_extras(struct job_run *run)
{
    for (size_t i = 0; i < run->model.extras.count; i++) {
        const struct job_extra *extra = &run->model.extras.items[i];
        const struct object *object =
            cache_get(run->input->cache, extra->kind, run->model.object->ns, extra->name);

        if (!extra->while_active)
            continue;
        if (object && !object->deleted_ms && object_owned_by(object, run->model.object->uid))
            action_delete(&run->actions, object);
        else if (run->input->is_watched && !run->input->is_watched(run->input->user, extra->kind))
            action_watch(&run->actions, extra->kind);
    }
}

/* ---- steps that end the work ---- */

/* Whether a pod of a job that is over has to go. */
static bool is_cleaned(const struct job_run *run, const struct job_member *member)
{
    bool ended = member->phase >= JOB_POD_SUCCEEDED && !member->beside;

    if (run->state.phase == JOB_TIMED_OUT && !ended)
        return true; /* what it was limited to is over, whoever wants to look at pods */
    switch (run->model.clean) {
    case JOB_CLEAN_ALL: return true;
    case JOB_CLEAN_RUNNING: return !ended;
    case JOB_CLEAN_FAILED: return !ended && (member->beside || run->state.phase != JOB_SUCCEEDED);
    case JOB_CLEAN_NONE: break;
    }
    return false;
}

/* Ranks that lost a peer end, too: those that do so by themselves keep their pods and logs. */
#define LAST_WORDS_MS 5000

static bool is_ending(const struct job_run *run, const struct job_member *member)
{
    return run->model.peers_end && run->model.clean == JOB_CLEAN_RUNNING &&
           run->state.phase == JOB_FAILED && member->phase == JOB_POD_RUNNING && !member->lost &&
           !member->leaving && run->input->now_ms < run->state.completion_ms + LAST_WORDS_MS;
}

/* On a cluster it keeps what the first pod wrote, and the logs of the generations before the last, for a while. The nodes
 * of `muster up` keep both themselves. */
static bool is_sync_kept(struct job_run *run)
{
    int64_t until_ms = run->state.completion_ms + run->input->config->results_ms;

    if (!run->model.keeps_results || run->input->now_ms >= until_ms)
        return false;
    action_look_again(&run->actions, until_ms);
    return true;
}

static void step_finished(struct job_run *run)
{
    const struct job_model *model = &run->model;
    const struct job_state *state = &run->state;

    for (size_t i = 0; i < run->members.count; i++) {
        const struct job_member *member = &run->members.items[i];

        if (is_ending(run, member))
            action_look_again(&run->actions, state->completion_ms + LAST_WORDS_MS);
        else if (is_cleaned(run, member) || member->lost)
            job_remove(run, member);
        else if (member->held)
            job_let_go(run, member);
    }
    job_hold_end(run);
    remove_services(run, false);
    remove_extras(run);
    if (!is_sync_kept(run))
        end_sync_pod(run);
    else
        job_sync_again(run);
    if (model->ttl_ms < 0 || !state->completion_ms)
        return;
    if (run->input->now_ms >= state->completion_ms + model->ttl_ms)
        action_delete(&run->actions, model->object);
    else
        action_look_again(&run->actions, state->completion_ms + model->ttl_ms);
}

static void step_suspended(struct job_run *run)
{
    if (run->state.run_start_ms || job_is_kept(run) ||
        (run->state.phase != JOB_SUSPENDED && run->state.created))
        job_next_generation(run);
    job_hold_end(run);
    for (size_t i = 0; i < run->members.count; i++)
        job_remove(run, &run->members.items[i]);
    remove_services(run, true);
    remove_extras(run);
    remove_sync_pod(run);
    if (run->model.waiting_counts)
        run->state.start_ms = 0;
    job_say(run, JOB_SUSPENDED,
            run->members.count
                ? str_printf(run->arena, "suspended; %zu pods are ending", run->members.count)
                : str_printf(run->arena, "suspended; set %s to false to continue",
                             run->model.suspend_field ? run->model.suspend_field : "spec.suspend"));
}

static bool step_deadline(struct job_run *run)
{
    const struct job_model *model = &run->model;
    const struct job_state *state = &run->state;
    int64_t from_ms = model->waiting_counts ? state->start_ms : state->run_start_ms;

    if (!model->deadline_ms || !from_ms)
        return false;
    int64_t at_ms = from_ms + model->deadline_ms - (model->waiting_counts ? 0 : state->run_ms);
    if (run->input->now_ms < at_ms) {
        action_look_again(&run->actions, at_ms);
        return false;
    }
    job_finish(run, JOB_TIMED_OUT,
               str_printf(run->arena, "ran longer than activeDeadlineSeconds (%lld)",
                          (long long)(model->deadline_ms / 1000)));
    step_finished(run);
    return true;
}

/* The scheduler stops pods that have run for as long as they may, and starts them never again: there is nothing to
 * wait for. It knows the last start alone; that the runs before it count too, only the job knows. */
static bool step_max_run(struct job_run *run)
{
    const struct object *group = cache_get(run->input->cache, &kind_podgroup, run->model.object->ns,
                                           group_name(run->model.object, run->arena));
    const struct job_state *state = &run->state;
    int64_t most_ms = 0;

    if (!group || !state->start_ms)
        return false;
    const struct json *spec = json_get(object_json(group, run->arena), "spec");
    struct str limit = json_str(json_get(spec, "maxRunTime"));
    bool over = object_annotation(group, GROUP_OVER_ANNOTATION).len > 0;
    if (!over && state->run_start_ms && time_parse_duration(limit, &most_ms) && most_ms > 0 &&
        !json_bool_or(json_get(spec, "requeueAfterMaxRunTime"), false)) {
        int64_t at_ms = state->run_start_ms + most_ms - state->run_ms;

        over = run->input->now_ms >= at_ms;
        if (!over)
            action_look_again(&run->actions, at_ms);
    }
    if (!over)
        return false;
    job_finish(run, JOB_TIMED_OUT,
               str_printf(run->arena, "ran for its maxRunTime (" STR_FMT ")", STR_ARG(limit)));
    step_finished(run);
    return true;
}

/* Something is wrong with the input. Pods that run already are left to their end, but nothing new
 * is started: a failure is final. */
static void step_held_up(struct job_run *run)
{
    const struct job_member *failed = NULL;
    size_t ended = 0;

    run->state.problem = run->model.problem;
    run->state.message = run->model.problem.message;
    if (!run->members.count) {
        run->state.phase = JOB_PENDING;
        return;
    }
    for (size_t i = 0; i < run->members.count; i++) {
        const struct job_member *member = &run->members.items[i];

        ended += member->phase == JOB_POD_SUCCEEDED;
        if (member->phase == JOB_POD_FAILED && !failed)
            failed = member;
    }
    if (failed) {
        run->state.failure = failed->failure;
        run->state.exit_code = failed->failure.exit_code;
        job_finish(run, JOB_FAILED,
                   str_printf(run->arena,
                              "pod " STR_FMT " failed, and the job cannot be restarted: " STR_FMT,
                              STR_ARG(failed->object->name), STR_ARG(run->model.problem.message)));
    } else if (ended == run->members.count) {
        run->state.exit_code = 0;
        job_finish(run, JOB_SUCCEEDED, STR("all ranks are done"));
    }
    if (!job_phase_is_final(run->state.phase))
        return;
    run->state.problem = (struct job_problem){0};
    step_finished(run);
}

/* ---- what is common to all steps ---- */

static void count_member(const struct job_member *member, struct job_workers *workers)
{
    workers->pending += member->phase == JOB_POD_PENDING;
    workers->running += member->phase == JOB_POD_RUNNING;
    workers->ready += member->ready;
    workers->succeeded += member->phase == JOB_POD_SUCCEEDED;
    workers->failed += member->phase == JOB_POD_FAILED;
}

static void count_workers(struct job_run *run)
{
    struct job_state *state = &run->state;

    state->workers = (struct job_workers){0};
    for (size_t i = 0; i < JOB_ROLES_MAX; i++)
        state->roles[i] = (struct job_workers){0};
    for (size_t i = 0; i < run->members.count; i++) {
        const struct job_member *member = &run->members.items[i];

        if (member->generation != state->generation)
            continue;
        count_member(member, &state->workers);
        if (member->role)
            count_member(member, &state->roles[member->role - run->model.roles.items]);
    }
}

/* Of what was asked for since, nothing is made: its job turned out to be over. */
static void make_nothing(struct actions *actions, size_t first, size_t end)
{
    size_t kept = first;

    for (size_t i = first; i < actions->list.count; i++)
        if (i >= end || actions->list.items[i].type != ACTION_CREATE)
            actions->list.items[kept++] = actions->list.items[i];
    actions->list.count = kept;
}

static void step(struct job_run *run)
{
    struct job_state *state = &run->state;
    size_t first = run->actions.list.count;

    if (job_phase_is_final(state->phase)) {
        step_finished(run);
        return;
    }
    state->problem = (struct job_problem){0};
    if (run->model.problem.condition) {
        step_held_up(run);
        return;
    }
    if (run->model.suspend && !(run->model.keep && job_ends_well(run))) {
        if (!run->model.keep || !job_keep(run))
            step_suspended(run);
        if (run->model.parts)
            run->model.parts(&run->model, run->input, state, &run->actions);
        return;
    }
    bool fresh = !state->start_ms && !run->members.count;
    if (run->model.never.len && fresh) {
        job_finish(run, JOB_FAILED, run->model.never);
        step_finished(run);
        return;
    }
    if (run->model.waiting_counts && !state->start_ms)
        state->start_ms = run->input->now_ms;
    /* What has ended well is not limited any more, whenever that is heard of. */
    if (run->model.parts || !job_is_done(run))
        if (step_deadline(run) || step_max_run(run))
            return;
    if (!job_provision(run))
        return;
    if (run->model.hold.len && fresh) {
        job_say(run, JOB_QUEUED, run->model.hold);
        return;
    }
    size_t end = run->actions.list.count;
    if (run->model.parts)
        run->model.parts(&run->model, run->input, state, &run->actions);
    else
        job_gang(run);
    if (job_phase_is_final(state->phase)) {
        make_nothing(&run->actions, first, end);
        state->problem = (struct job_problem){0};
        step_finished(run);
    } else if (state->problem.condition && state->phase <= JOB_RUNNING) {
        state->message = state->problem.message;
    }
}

/* An event for each pod that is not as it should be, once for each thing that is wrong with it. */
static void tell_abnormal(struct job_run *run, const struct job_state *before)
{
    struct job_state *state = &run->state;

    state->abnormal_count = 0;
    if (!run->model.tell_objects || job_phase_is_final(state->phase))
        return;
    for (size_t i = 0; i < run->members.count && state->abnormal_count < JOB_ABNORMAL_MAX; i++) {
        const struct job_member *member = &run->members.items[i];
        bool told = false;

        if (!member->abnormal.len)
            continue;
        for (size_t j = 0; j < before->abnormal_count; j++)
            told |= str_eq(before->abnormal[j].pod, member->object->name) &&
                    str_eq(before->abnormal[j].reason, member->abnormal);
        if (!told)
            action_warn(&run->actions, run->model.object, str_c(run->arena, member->abnormal),
                        str_printf(run->arena, "pod " STR_FMT ": " STR_FMT,
                                   STR_ARG(member->object->name), STR_ARG(member->abnormal_words)));
        state->abnormal[state->abnormal_count++] =
            (struct job_abnormal){member->object->name, member->abnormal};
    }
}

/* The server does not take what the job needs: the job waits, and says for what. */
static void hear_refusal(struct job_run *run)
{
    struct str words = run->input->refusal;

    if (!words.len || run->state.phase > JOB_RUNNING || run->state.problem.condition)
        return;
    bool runs = run->state.phase == JOB_RUNNING;
    run->state.message =
        str_printf(run->arena, STR_FMT "%snot accepted: " STR_FMT,
                   STR_ARG(runs ? run->state.message : STR_NONE), runs ? "; " : "", STR_ARG(words));
}

/* Says what is wrong, and not what became of its pods. */
static bool is_held_up(const struct job_state *state)
{
    return state->problem.condition && str_eq(state->message, state->problem.message);
}

static const char *event_reason(const struct job_run *run,
                                const struct job_kind *kind,
                                const struct job_state *before)
{
    if (is_held_up(&run->state))
        return run->state.problem.reason;
    if (kind->reason)
        return str_c(run->arena, kind->reason(&run->model, before, &run->state, run->arena));
    return job_phase_word(run->state.phase);
}

/* One event a change of phase, or of what is wrong. */
static void tell(struct job_run *run,
                 const struct job_kind *kind,
                 const struct job_state *before,
                 struct actions *actions)
{
    const struct job_state *now = &run->state;
    const char *reason = event_reason(run, kind, before);
    bool moved = before->phase != now->phase || before->generation != now->generation;
    bool wrong = is_held_up(now) && !str_eq(before->message, now->message);

    if (run->model.warning.len && !before->start_ms && moved && now->phase == JOB_QUEUED)
        action_warn(actions, run->model.object, "Ignored", run->model.warning);
    if (now->watch_alarm && now->watch_news && !moved)
        action_warn(actions, run->model.object, now->watch, now->watch_message);
    if ((!moved && !wrong) || !reason[0])
        return;
    if (is_held_up(now) || now->phase == JOB_FAILED || now->phase == JOB_TIMED_OUT ||
        now->phase == JOB_RESTARTING)
        action_warn(actions, run->model.object, reason, now->message);
    else
        action_event(actions, run->model.object, reason, now->message);
}

/* Memory and status, beside each other: whoever crashes between them finds the one of the two that
 * is further along. */
static void write_state(struct job_run *run,
                        const struct job_kind *kind,
                        const struct job_memory *memory,
                        const struct job_state *before,
                        struct actions *actions)
{
    const struct object *object = run->model.object;
    struct json *after =
        memory->known ? json_clone(run->arena, memory->known) : json_new_object(run->arena);
    struct job_state told = run->state;

    if (memory->foreign)
        told.message = memory_note(run->arena, object, told.message);
    kind->write(&run->model, &told, after, run->input->now_ms, run->arena);
    bool moved = job_remember(kind, memory, &run->state, after, object, actions);
    struct json *patch = memory_diff(run->arena, memory->status, after, memory->foreign && !moved);
    if (patch) {
        struct json *body = json_new_object(run->arena);

        json_set(body, STR("status"), patch);
        action_patch_status(actions, object, body);
        actions->list.items[actions->list.count - 1].beside = moved;
    }
    if (memory->foreign && !json_get(memory->before, MEMORY_FOREIGN))
        memory_tell(actions, object);
    if (patch || moved)
        tell(run, kind, before, actions);
}

void job_reconcile(const struct control_input *input,
                   const struct job_kind *kind,
                   const struct control_key *key,
                   struct actions *actions)
{
    const struct object *object = cache_get(input->cache, kind->kind, key->ns, key->name);

    /* What a deleted job owned goes by its owner references. */
    if (!object || object->deleted_ms)
        return;
    arena_defer(actions->arena, object_release, object_ref(object));
    struct job_run run = {
        .input = input,
        .arena = actions->arena,
        .actions = {.arena = actions->arena},
        .model = {.object = object, .ttl_ms = -1, .on_suspicion = JOB_HANG_REPORT}};
    const struct job_memory memory = job_recall(kind, object, run.arena);

    kind->translate(input, object, run.arena, &run.model);
    if (run.model.ignore)
        return;
    assert(run.model.roles.count <= JOB_ROLES_MAX);
    job_lost_read(&run);
    job_place_read(&run);
    job_spare_read(&run);
    kind->read(memory.known, &run.state);
    struct job_state before = run.state;
    job_observe(input, &run.model, run.arena, &run.members, &run.spares);
    job_place_observe(&run);
    job_suspect_observe(&run);
    run.state.created = run.state.created || run.members.count;
    step(&run);
    job_spares(&run);
    count_workers(&run);
    hear_refusal(&run);
    tell_abnormal(&run, &before);

    write_state(&run, kind, &memory, &before, actions);
    for (size_t i = 0; i < run.actions.list.count; i++)
        VEC_PUSH(actions->arena, &actions->list, run.actions.list.items[i]);
}
