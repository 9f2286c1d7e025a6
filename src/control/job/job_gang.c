#include "api/kind.h"
#include "api/object.h"
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

/* The pods of a job: made together, restarted together, or (JOB_SCOPE_POD, job_each.c) each alone.
 *
 * Invariant: pods of two generations never exist side by side but while the older ones end. */

/* What muster-launch says when torchrun cannot be started now; the next try may go better. */
#define EXIT_FOR_NOW 75
/* The command could not be started: trying again cannot help. */
#define EXIT_NOT_EXECUTABLE 126
#define EXIT_NOT_FOUND      127
/* When a rank fails its peers lose their connections and fail too, and their pods may be heard of
 * first: the others have this long to report before one of them is named. */
#define FIRST_FAILURE_MS 1500

static int64_t failed_at(const struct job_member *member)
{
    return member->failure.first_ms ? member->failure.first_ms : member->failure.time_ms;
}

static bool earlier(const struct job_member *a, const struct job_member *b)
{
    if (!b || failed_at(a) != failed_at(b))
        return !b || failed_at(a) < failed_at(b);
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
    if (member->leaving || member->lost || member->taken)
        look->disrupted = member;
    else if (member->phase == JOB_POD_FAILED && earlier(member, look->failed))
        look->failed = member;
    else if (member->phase == JOB_POD_RUNNING)
        look->staying++;
    else if (member->phase == JOB_POD_PENDING && (!look->waiting || !look->waiting->waiting.len))
        look->waiting = member;
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
        look.wanted += job_is_due(run, role) ? role->count : 0;
        look.min += job_is_due(run, role) ? role->min : 0;
    }
    return look;
}

bool job_is_due(const struct job_run *run, const struct job_role *role)
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

static void remove_old(struct job_run *run)
{
    for (size_t i = 0; i < run->members.count; i++)
        if (run->members.items[i].generation != run->state.generation)
            job_remove(run, &run->members.items[i]);
}

struct str job_exit_words(const struct job_failure *failure, struct arena *arena)
{
    bool plain = !failure->reason.len || str_is(failure->reason, "Error");

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

/* ---- failures ---- */

static bool is_final(const struct job_model *model, const struct job_member *member)
{
    int64_t code = member->failure.exit_code;

    if (code == EXIT_NOT_FOUND || code == EXIT_NOT_EXECUTABLE || !member->role)
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

    /* Counted already, but the pod is still there: the delete did not get through. One made since
     * then is another pod of that name. */
    if (str_eq(state->failure.pod, member->failure.pod) &&
        state->failure.time_ms == member->failure.time_ms &&
        member->object->created_ms < state->failure.time_ms)
        return true;
    state->failure = member->failure;
    state->exit_code = member->failure.exit_code;
    if (is_final(model, member)) {
        job_finish(run, JOB_FAILED, words);
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

    if (!wait || run->state.restarts < 2)
        return 0;
    for (int64_t i = 2; i < run->state.restarts && wait < JOB_BACKOFF_LAST_MS; i++)
        wait *= 2;
    return run->state.failure.time_ms + (wait < JOB_BACKOFF_LAST_MS ? wait : JOB_BACKOFF_LAST_MS);
}

static void on_failure(struct job_run *run, const struct job_member *member)
{
    if (!job_may_restart(run, member))
        return;
    job_next_generation(run);
    remove_old(run);
    job_say(run, JOB_RESTARTING, job_restart_words(run));
}

static void on_disruption(struct job_run *run, const struct job_member *member)
{
    struct str words;

    if (!member)
        words = STR("a pod of the job is gone");
    else if (member->lost)
        words = str_printf(run->arena, "the node of pod " STR_FMT " is lost",
                           STR_ARG(member->object->name));
    else if (member->taken_for.len)
        words = str_printf(run->arena, "pod " STR_FMT " was evicted: " STR_FMT,
                           STR_ARG(member->object->name), STR_ARG(member->taken_for));
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

/* A fixed gang knows its size from the start: with another one it starts anew. */
static void on_resize(struct job_run *run, const struct job_look *look)
{
    size_t from = look->size ? look->size : look->present;

    job_next_generation(run);
    remove_old(run);
    job_say(run, JOB_RESTARTING,
            str_printf(run->arena,
                       "the job was scaled from %zu to %zu pods; it continues as a whole", from,
                       job_size(&run->model)));
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
                          .pods = job_size(&run->model)};

    struct json *body = job_make_pod(&run->model, &pod, run->arena);
    launcher_add(body, run->input->config->launcher_image, run->arena);
    action_create(&run->actions, &kind_pod, body);
    tell_made(run, &kind_pod, pod.name);
}

void job_create_missing(struct job_run *run, struct str except)
{
    for (size_t r = 0; r < run->model.roles.count; r++) {
        const struct job_role *role = &run->model.roles.items[r];

        for (size_t i = 0; i < role->count && job_is_due(run, role); i++) {
            create_service(run, role, i);
            if (!has_pod(run, role, i) &&
                (!except.len || !str_eq(except, job_pod_name(&run->model, role, i, run->arena))))
                create_pod(run, role, i);
        }
    }
    run->state.created = true;
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

static struct str group_words(const struct job_run *run)
{
    const struct object *group = cache_get(run->input->cache, &kind_podgroup, run->model.object->ns,
                                           group_name(run->model.object, run->arena));

    return group ? json_str_at(object_json(group, run->arena), "status.message") : STR_NONE;
}

static void say_waiting(struct job_run *run, const struct job_look *gang)
{
    struct str words = STR_NONE;

    if (gang->waiting && !gang->waiting->scheduled)
        words = group_words(run);
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

static void say_running(struct job_run *run, const struct job_look *gang)
{
    struct job_state *state = &run->state;

    if (!state->run_start_ms)
        state->run_start_ms = run->input->now_ms;
    if (!state->start_ms)
        state->start_ms = run->input->now_ms;
    job_say(run, JOB_RUNNING,
            gang->succeeded ? str_printf(run->arena, "%zu of %zu pods run, %zu are done",
                                         gang->running, job_size(&run->model), gang->succeeded)
                            : str_printf(run->arena, "%zu of %zu pods run", gang->running,
                                         job_size(&run->model)));
}

void job_say_running(struct job_run *run, const struct job_look *look)
{
    if (look->leaders ? look->leading > 0
                      : look->started >= look->min && look->present >= look->min)
        say_running(run, look);
    else
        say_waiting(run, look);
}

static void look_again_for_nodes(struct job_run *run)
{
    for (size_t i = 0; i < run->members.count; i++)
        if (run->members.items[i].lost_at_ms > run->input->now_ms)
            action_look_again(&run->actions, run->members.items[i].lost_at_ms);
}

/* ---- the end ---- */

static bool role_is_done(const struct job_run *run, const struct job_role *role)
{
    size_t done = 0;
    bool first = false;
    bool failed = false;

    for (size_t i = 0; i < run->members.count; i++) {
        const struct job_member *member = &run->members.items[i];

        if (member->role != role || member->generation != run->state.generation ||
            member->index >= role->count)
            continue;
        done += member->phase == JOB_POD_SUCCEEDED;
        first = first || (member->phase == JOB_POD_SUCCEEDED && member->index == 0);
        failed = failed || (member->phase == JOB_POD_FAILED && !member->taken && !member->leaving);
    }
    switch (role->done) {
    case JOB_DONE_ALL: return done >= role->count;
    case JOB_DONE_ANY: return done > 0 && !failed;
    case JOB_DONE_FIRST: return first;
    case JOB_DONE_NONE: break;
    }
    return true;
}

static bool is_done(const struct job_run *run)
{
    bool asked = false;

    for (size_t i = 0; i < run->model.roles.count; i++) {
        const struct job_role *role = &run->model.roles.items[i];

        if (!role_is_done(run, role))
            return false;
        asked = asked || role->done != JOB_DONE_NONE;
    }
    return asked;
}

/* ---- a gang ---- */

/* Elastic: a pod that failed or was taken is replaced alone while enough others go on. */
static bool replace_alone(struct job_run *run, const struct job_look *gang)
{
    if (!gang->elastic || gang->staying < gang->min)
        return false;
    if (gang->failed) {
        /* Out of restarts the job is over, and the caller says so. */
        if (run->model.max_restarts >= 0 && run->state.restarts >= run->model.max_restarts)
            return false;
        if (is_final(&run->model, gang->failed) || !job_may_restart(run, gang->failed))
            return false;
        job_remove(run, gang->failed);
    }
    if (gang->disrupted && gang->disrupted->lost)
        job_remove(run, gang->disrupted);
    job_create_missing(run, STR_NONE);
    return true;
}

static bool awaits_peers(struct job_run *run, const struct job_look *gang)
{
    int64_t until_ms = gang->failed->failure.first_ms + FIRST_FAILURE_MS;

    if (!gang->failed->failure.first_ms || !gang->running || run->input->now_ms >= until_ms)
        return false;
    action_look_again(&run->actions, until_ms);
    return true;
}

/* What is due before pods are made: true when it was something. */
static bool repair(struct job_run *run, const struct job_look *gang)
{
    bool missing = gang->present < gang->wanted && run->state.run_start_ms;
    bool resized = gang->surplus || (gang->size && gang->size != job_size(&run->model));

    if (gang->elastic && gang->surplus)
        job_remove_surplus(run);
    if ((gang->failed || gang->disrupted || missing) && replace_alone(run, gang)) {
        say_running(run, gang);
        return true;
    }
    if (!gang->elastic && resized) {
        on_resize(run, gang);
        return true;
    }
    /* What was evicted takes its peers down with it: that is no failure of theirs. */
    if (gang->disrupted && gang->started)
        on_disruption(run, gang->disrupted);
    else if (gang->failed && awaits_peers(run, gang))
        say_running(run, gang);
    else if (gang->failed)
        on_failure(run, gang->failed);
    else if (missing)
        on_disruption(run, NULL);
    else
        return false;
    return true;
}

static void keep_gang(struct job_run *run, const struct job_look *gang)
{
    int64_t until_ms = job_backoff_until(run);

    if (repair(run, gang))
        return;
    if (gang->old) {
        if (run->state.phase != JOB_PREEMPTED && run->state.phase != JOB_RESTARTING)
            job_say(
                run, JOB_RESTARTING,
                str_printf(run->arena, "waiting for %zu pods of the last run to end", gang->old));
        return;
    }
    if (run->state.phase == JOB_RESTARTING && !gang->present && until_ms > run->input->now_ms) {
        action_look_again(&run->actions, until_ms);
        return;
    }
    job_create_missing(run, STR_NONE);
    job_say_running(run, gang);
}

void job_gang(struct job_run *run)
{
    struct job_look look = job_look(run);

    run->state.in_place = look.in_place;
    remove_old(run);
    look_again_for_nodes(run);
    if (is_done(run)) {
        run->state.exit_code = 0;
        job_finish(run, JOB_SUCCEEDED, STR("all ranks are done"));
    } else if (run->model.scope == JOB_SCOPE_POD) {
        job_each(run, &look);
    } else {
        keep_gang(run, &look);
    }
}
