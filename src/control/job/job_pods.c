#include "api/kind.h"
#include "api/object.h"
#include "api/suspend.h"
#include "base/json.h"
#include "base/str.h"
#include "base/vec.h"
#include "cache/cache.h"
#include "control/core/action.h"
#include "control/core/control.h"
#include "control/core/group_name.h"
#include "control/job/job.h"
#include "control/job/job_engine.h"
#include "control/job/launcher.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The pods of a job, whether they live together (job_gang.c) or each alone (job_each.c): how they
 * are, what a failure of one means, making and removing them. */

/* What muster-launch says when torchrun cannot be started now; the next try may go better. */
#define EXIT_FOR_NOW 75
/* The command could not be started: trying again cannot help. */
#define EXIT_NOT_EXECUTABLE 126
#define EXIT_NOT_FOUND      127
/* ---- looking ---- */

static int64_t failed_at(const struct job_member *member)
{
    return member->failure.first_ms ? member->failure.first_ms : member->failure.time_ms;
}

bool job_is_worse(const struct job_member *a, const struct job_member *b)
{
    if (!b || a->failure.evidence != b->failure.evidence)
        return !b || a->failure.evidence < b->failure.evidence;
    if (failed_at(a) != failed_at(b))
        return failed_at(a) < failed_at(b);
    return a->index < b->index;
}

static void look_at(struct job_look *look, const struct job_member *member)
{
    const struct job_role *role = member->role;
    bool started = member->phase != JOB_POD_PENDING;

    if (member->size && !member->leaving)
        look->size = member->size;
    if (!role || member->index >= role->count) {
        look->surplus++;
        return;
    }
    look->present++;
    look->started += started;
    look->running += member->phase == JOB_POD_RUNNING;
    look->succeeded += member->phase == JOB_POD_SUCCEEDED;
    look->leading += started && role->leads;
    look->in_place += member->in_place;
    if (member->phase == JOB_POD_SUCCEEDED)
        return;
    if (member->leaving || member->lost || member->taken ||
        (member->sick.len && member->phase <= JOB_POD_RUNNING))
        look->disrupted = member;
    else if (member->phase == JOB_POD_FAILED && job_is_worse(member, look->failed))
        look->failed = member;
    else if (member->phase == JOB_POD_RUNNING)
        look->staying++;
    else if (member->phase == JOB_POD_PENDING && (!look->waiting || !look->waiting->waiting.len))
        look->waiting = member;
}

/* Whether the pods of a role should be there: those of roles that come later wait for the rest. */
static bool is_due(const struct job_run *run, const struct job_role *role)
{
    size_t ready = 0;
    size_t others = 0;

    if (!role->later || run->state.run_start_ms)
        return true;
    for (size_t i = 0; i < run->members.count; i++) {
        const struct job_member *member = &run->members.items[i];

        if (member->role == role)
            return true;
        ready += member->ready && member->role && member->generation == run->state.generation;
    }
    for (size_t i = 0; i < run->model.roles.count; i++)
        others += &run->model.roles.items[i] == role ? 0 : run->model.roles.items[i].count;
    return ready >= others;
}

struct job_look job_look(const struct job_run *run)
{
    const struct job_model *model = &run->model;
    struct job_look look = {0};

    for (size_t i = 0; i < run->members.count; i++) {
        if (run->members.items[i].generation == run->state.generation)
            look_at(&look, &run->members.items[i]);
        else
            look.old++;
    }
    for (size_t i = 0; i < model->roles.count; i++) {
        const struct job_role *role = &model->roles.items[i];

        look.leaders = look.leaders || role->leads;
        look.elastic = look.elastic || role->min != role->max;
        look.wanted += is_due(run, role) ? role->count : 0;
        look.min += is_due(run, role) ? role->min : 0;
    }
    return look;
}

/* ---- failures ---- */

struct str job_exit_words(const struct job_failure *failure, struct arena *arena)
{
    bool plain = !failure->reason.len || str_is(failure->reason, "Error");
    struct str broken = job_broken_program(failure);

    if (str_is(failure->reason, JOB_REASON_HUNG) || str_is(failure->reason, JOB_REASON_SUSPECTED))
        return failure->message;
    if (broken.len)
        return str_printf(arena,
                          "pod " STR_FMT " ended with exit status %lld: " STR_FMT
                          "; it is not restarted, because it would fail in the same way",
                          STR_ARG(failure->pod), (long long)failure->exit_code, STR_ARG(broken));

    if (str_is(failure->reason, JOB_REASON_REFUSED))
        return str_printf(arena, "pod " STR_FMT " was refused by its node: " STR_FMT,
                          STR_ARG(failure->pod), STR_ARG(failure->message));
    if ((failure->exit_code == EXIT_NOT_EXECUTABLE || failure->exit_code == EXIT_FOR_NOW) &&
        failure->message.len && !str_starts(failure->message, STR("rank ")))
        return str_printf(arena, "pod " STR_FMT " could not start: " STR_FMT, STR_ARG(failure->pod),
                          STR_ARG(str_sub(failure->message, 0, str_find(failure->message, '\n'))));
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

bool job_failure_is_final(const struct job_model *model, const struct job_member *member)
{
    int64_t code = member->failure.exit_code;

    if (code == EXIT_NOT_FOUND || code == EXIT_NOT_EXECUTABLE || !member->role ||
        str_is(member->failure.reason, JOB_REASON_REFUSED) ||
        job_broken_program(&member->failure).len)
        return true;
    switch (member->role->restart) {
    case JOB_RESTART_NEVER: return true;
    case JOB_RESTART_BY_EXIT: return !model->is_retryable || !model->is_retryable(code);
    case JOB_RESTART_ALWAYS: break;
    }
    return false;
}

bool job_may_restart(struct job_run *run, const struct job_member *member)
{
    const struct job_model *model = &run->model;
    struct job_state *state = &run->state;
    struct str words = job_exit_words(&member->failure, run->arena);

    bool again = model->tries_again_once && job_ends_alike(&state->failure, &member->failure);

    /* Counted already, but the pod is still there: the delete did not get through, or its node kept
     * it for a round that never came. One made since then is another pod of that name, and one that
     * its node keeps has failed in this round. A status has whole seconds. */
    if (!member->held && str_eq(state->failure.pod, member->failure.pod) &&
        state->failure.time_ms / 1000 == member->failure.time_ms / 1000 &&
        member->object->created_ms < state->failure.time_ms)
        return true;
    state->failure = member->failure;
    state->exit_code = member->failure.exit_code;
    job_blame(run, &member->failure);
    if (job_failure_is_final(model, member)) {
        job_finish(run, JOB_FAILED, words);
    } else if (again) {
        job_finish(run, JOB_FAILED,
                   str_printf(run->arena,
                              STR_FMT
                              "; it ended twice in the same way before its first step, and is not "
                              "tried again (maxRestarts of the job says how often)",
                              STR_ARG(words)));
    } else if (model->max_restarts >= 0 &&
               state->restarts + state->in_place >= model->max_restarts) {
        job_finish(run, JOB_FAILED,
                   model->max_restarts
                       ? str_printf(run->arena, STR_FMT "; all %lld restarts are used up",
                                    STR_ARG(words), (long long)model->max_restarts)
                       : words);
    } else {
        state->restarts++;
        return true;
    }
    return false;
}

struct str job_restart_words(const struct job_run *run)
{
    struct str words = job_exit_words(&run->state.failure, run->arena);
    int64_t done = run->state.restarts + run->state.in_place;

    if (run->model.max_restarts < 0)
        return str_printf(run->arena, STR_FMT "; restart %lld", STR_ARG(words), (long long)done);
    return str_printf(run->arena, STR_FMT "; restart %lld of %lld", STR_ARG(words), (long long)done,
                      (long long)run->model.max_restarts);
}

int64_t job_backoff_until(const struct job_run *run)
{
    int64_t wait = run->model.backoff_first_ms;

    if (!wait || run->state.restarts < 2 || str_is(run->state.failure.reason, JOB_REASON_GONE))
        return 0;
    for (int64_t i = 2; i < run->state.restarts && wait < JOB_BACKOFF_LAST_MS; i++)
        wait *= 2;
    return run->state.failure.time_ms + (wait < JOB_BACKOFF_LAST_MS ? wait : JOB_BACKOFF_LAST_MS);
}

/* ---- making pods ---- */

static bool has_pod(const struct job_run *run, const struct job_role *role, size_t index)
{
    for (size_t i = 0; i < run->members.count; i++)
        if (run->members.items[i].role == role && run->members.items[i].index == index)
            return true;
    return false;
}

static void tell_made(struct job_run *run, const struct kind *kind, struct str name)
{
    if (run->model.tell_objects)
        action_event(&run->actions, run->model.object,
                     kind == &kind_pod ? "SuccessfulCreatePod" : "SuccessfulCreateService",
                     str_printf(run->arena, "Created %s: " STR_FMT,
                                kind == &kind_pod ? "pod" : "service", STR_ARG(name)));
}

static void create_service(struct job_run *run, const struct job_role *role, size_t index)
{
    struct str name = job_pod_name(&run->model, role, index, run->arena);

    if (!role->ports || cache_get(run->input->cache, &kind_service, run->model.object->ns, name))
        return;
    action_create(&run->actions, &kind_service,
                  job_make_pod_service(&run->model, role, index, run->arena));
    tell_made(run, &kind_service, name);
}

static void create_pod(struct job_run *run, const struct job_role *role, size_t index)
{
    struct job_pod pod = {.role = role,
                          .name = job_pod_name(&run->model, role, index, run->arena),
                          .index = index,
                          .gpus = role->gpus ? role->gpus[index] : 0,
                          .generation = run->state.generation,
                          .round = run->state.round,
                          .pods = job_size(&run->model)};

    struct json *body = job_make_pod(&run->model, &pod, run->arena);
    launcher_add(body, run->input->config->launcher_image, run->arena);
    job_hold_mark(run, role, body);
    action_create(&run->actions, &kind_pod, body);
    tell_made(run, &kind_pod, pod.name);
}

void job_create_missing(struct job_run *run, struct str except)
{
    for (size_t r = 0; r < run->model.roles.count; r++) {
        const struct job_role *role = &run->model.roles.items[r];

        for (size_t i = 0; i < role->count && is_due(run, role); i++) {
            create_service(run, role, i);
            if (!has_pod(run, role, i) &&
                (!except.len || !str_eq(except, job_pod_name(&run->model, role, i, run->arena))))
                create_pod(run, role, i);
        }
    }
    run->state.created = true;
}

void job_delete_all(struct job_run *run)
{
    for (size_t i = 0; i < run->members.count; i++)
        if (!run->members.items[i].leaving)
            action_delete_soon(&run->actions, run->members.items[i].object);
}

void job_remove_surplus(struct job_run *run)
{
    for (size_t i = 0; i < run->members.count; i++) {
        const struct job_member *member = &run->members.items[i];

        if (!member->role || member->index >= member->role->count)
            job_remove(run, member);
    }
}

/* ---- words ---- */

struct str job_group_words(const struct job_run *run)
{
    const struct object *group = cache_get(run->input->cache, &kind_podgroup, run->model.object->ns,
                                           group_name(run->model.object, run->arena));

    return group ? json_str_at(object_json(group, run->arena), "status.message") : STR_NONE;
}

static void say_waiting(struct job_run *run, const struct job_look *gang)
{
    struct str words = STR_NONE;

    if (gang->waiting && !gang->waiting->scheduled)
        words = job_group_words(run);
    if (!words.len && gang->waiting)
        words = gang->waiting->waiting;
    if (!words.len && gang->started)
        words = str_printf(run->arena, "%zu of %zu pods have started", gang->started,
                           job_size(&run->model));
    if (!words.len)
        words = gang->waiting && gang->waiting->scheduled ? STR("starting the pods")
                                                          : STR("waiting to be scheduled");
    job_say(run, JOB_QUEUED, words);
}

/* What is said of one whose GPUs nobody uses (api/suspend.h); empty: nothing. */
static struct str unused_words(const struct job_run *run)
{
    const struct object *group = cache_get(run->input->cache, &kind_podgroup, run->model.object->ns,
                                           group_name(run->model.object, run->arena));
    struct str at = group ? object_annotation(group, SUSPEND_UNUSED_AT) : STR_NONE;

    return at.len ? str_printf(run->arena,
                               "; nobody uses its GPUs: at " STR_FMT
                               " it is suspended with its memory, if others wait",
                               STR_ARG(at))
                  : STR_NONE;
}

void job_say_started(struct job_run *run, const struct job_look *gang)
{
    struct job_state *state = &run->state;
    struct str unused = unused_words(run);

    if (!state->run_start_ms)
        state->run_start_ms = run->input->now_ms;
    if (!state->start_ms)
        state->start_ms = run->input->now_ms;
    job_say(run, JOB_RUNNING,
            gang->succeeded
                ? str_printf(run->arena, "%zu of %zu pods run, %zu are done", gang->running,
                             job_size(&run->model), gang->succeeded)
                : str_printf(run->arena, "%zu of %zu pods run" STR_FMT STR_FMT STR_FMT,
                             gang->running, job_size(&run->model), STR_ARG(job_spare_words(run)),
                             STR_ARG(unused), STR_ARG(run->model.meets)));
}

void job_say_running(struct job_run *run, const struct job_look *look)
{
    if (look->leaders ? look->leading > 0
                      : look->started >= look->min && look->present >= look->min)
        job_say_started(run, look);
    else
        say_waiting(run, look);
}
