#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/json.h"
#include "base/json_make.h"
#include "base/str.h"
#include "base/time.h"
#include "base/vec.h"
#include "cache/cache.h"
#include "control/core/control.h"
#include "control/core/status.h"
#include "control/job/job.h"
#include "control/kinds/tensorstack_job.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The status of a PyTorchTrainingJob: every replica and its containers, the sums, conditions that
 * are always all there, and the phase in this kind's words. What the engine remembers is in
 * status.engine. */

struct run {
    const struct tensorstack *t;
    const struct job_model *model;
    const struct job_state *state;
    struct json *status;
    struct job_members members;
    int64_t now_ms;
    struct arena *arena;
};

void tensorstack_read(const struct json *status, struct job_state *ret)
{
    job_state_read(json_get(status, "engine"), ret);
}

/* ---- replicas ---- */

enum count {
    CREATING,
    PENDING,
    RUNNING,
    SUCCEEDED,
    FAILED,
    UNKNOWN,
    DELETED,
    COUNTS,
};
static const char *const count_names[] = {"creating", "pending", "running", "succeeded",
                                          "failed",   "unknown", "deleted"};
/* Of a replica: in tasks[].replicas, and in the older tasks[].replicaStatus, which has the phases
 * of a pod only. */
static const char *const phase_names[] = {"Creating", "Pending", "Running", "Succeeded",
                                          "Failed",   "Unknown", "Deleted"};
static const char *const pod_phase_names[] = {"Pending", "Pending", "Running", "Succeeded",
                                              "Failed",  "Unknown", "Unknown"};

static const struct job_member *member_of(const struct run *run,
                                          const struct job_role *role,
                                          size_t index)
{
    for (size_t i = 0; i < run->members.count; i++) {
        const struct job_member *member = &run->members.items[i];

        if (member->role == role && member->index == index)
            return member;
    }
    return NULL;
}

static enum count count_of(const struct run *run, const struct job_member *member)
{
    if (!member)
        return job_phase_is_final(run->state->phase) || run->t->spec.pause ? DELETED : CREATING;
    if (member->lost)
        return UNKNOWN;
    switch (member->phase) {
    case JOB_POD_PENDING: return PENDING;
    case JOB_POD_RUNNING: return RUNNING;
    case JOB_POD_SUCCEEDED: return SUCCEEDED;
    case JOB_POD_FAILED: break;
    }
    return FAILED;
}

static void write_containers(const struct run *run,
                             const struct job_member *member,
                             struct json *replica)
{
    struct json *list = json_add_array(run->arena, replica, "containers");

    JSON_FOREACH(json_at(object_json(member->object, run->arena), "status.containerStatuses"),
                 each) {
        struct json *entry = json_push(list, json_new_object(run->arena));
        const struct json *state = json_get(each, "state");
        const struct json *ended = json_get(state, "terminated");

        json_add_str(run->arena, entry, "name",
                     str_dup(run->arena, json_str(json_get(each, "name"))));
        json_add_c(run->arena, entry, "state",
                   ended                        ? "terminated"
                   : json_get(state, "running") ? "running"
                                                : "waiting");
        if (ended)
            json_add_i64(run->arena, entry, "exitCode",
                         json_i64_or(json_get(ended, "exitCode"), 0));
    }
}

/* One entry a replica, whether its pod exists or not. */
static void write_task(const struct run *run, const struct job_role *role, int64_t counts[COUNTS])
{
    struct json *tasks = json_get(run->status, "tasks");
    struct json *task = json_push(tasks, json_new_object(run->arena));
    struct json *list = json_new_array(run->arena);
    struct json *older = json_new_array(run->arena);
    const struct json *before = NULL;

    json_add_c(run->arena, task, "type", role->type);
    JSON_FOREACH(json_get(run->t->status, "tasks"), old)
        if (str_is(json_str(json_get(old, "type")), role->type))
            before = old;
    int64_t restarts = json_i64_or(json_get(before, "restartCount"), 0);
    /* The replica that failed is the one that is charged. */
    struct str prefix = job_pod_name(run->model, role, 0, run->arena);
    prefix.len -= prefix.len ? 1 : 0;
    if (run->state->restarts > json_i64_or(json_get(run->t->status, "backoffCount"), 0) &&
        str_starts(run->state->failure.pod, prefix))
        restarts++;
    json_add_i64(run->arena, task, "restartCount", restarts);
    for (size_t i = 0; i < role->count; i++) {
        const struct job_member *member = member_of(run, role, i);
        struct json *replica = json_push(list, json_new_object(run->arena));
        enum count count = count_of(run, member);

        counts[count]++;
        json_add_str(run->arena, replica, "name", job_pod_name(run->model, role, i, run->arena));
        if (member)
            json_add_str(run->arena, replica, "uid", str_dup(run->arena, member->object->uid));
        json_add_c(run->arena, replica, "phase", phase_names[count]);
        if (member)
            write_containers(run, member, replica);
        replica = json_push(older, json_clone(run->arena, replica));
        json_add_c(run->arena, replica, "phase", pod_phase_names[count]);
    }
    json_set(task, STR("replicaStatus"), older);
    json_set(task, STR("replicas"), list);
}

static void write_tasks(const struct run *run, int64_t counts[COUNTS])
{
    struct json *sums = NULL;

    json_set(run->status, STR("tasks"), json_new_array(run->arena));
    for (size_t i = 0; i < run->model->roles.count; i++)
        write_task(run, &run->model->roles.items[i], counts);
    sums = json_add_object(run->arena, run->status, "aggregate");
    for (size_t i = 0; i < COUNTS; i++)
        json_add_i64(run->arena, sums, count_names[i], counts[i]);
    json_add_i64(run->arena, run->status, "backoffCount", run->state->restarts);
}

/* ---- phase ---- */

static const char *phase_of(const struct run *run)
{
    bool resuming = run->t->resumed && !run->t->spec.debug;

    switch (run->state->phase) {
    case JOB_SUCCEEDED: return "Succeeded";
    case JOB_FAILED:
    case JOB_TIMED_OUT: return "Failed";
    case JOB_SUSPENDED: return run->t->spec.pause ? "Paused" : "Pending";
    case JOB_RUNNING: return "Running";
    case JOB_PENDING:
    case JOB_PROVISIONING:
    case JOB_SYNCING:
    case JOB_QUEUED:
    case JOB_RESTARTING:
    case JOB_PREEMPTED: break;
    }
    return resuming ? "Resuming" : "Pending";
}

/* ---- conditions ---- */

static void put(const struct run *run,
                const char *type,
                bool truth,
                const char *reason,
                struct str message)
{
    condition_set(run->arena, run->status,
                  &(struct condition){type, truth ? "True" : "False", reason, message},
                  run->now_ms);
}

static void write_conditions(const struct run *run, const char *phase, const int64_t *counts)
{
    const struct job_state *state = run->state;
    bool well = state->phase == JOB_SUCCEEDED;
    bool badly = state->phase == JOB_FAILED || state->phase == JOB_TIMED_OUT;
    bool failing = counts[FAILED] > 0 || (badly && state->failure.time_ms);
    bool running = state->phase == JOB_RUNNING;
    bool paused = run->t->spec.pause && state->phase == JOB_SUSPENDED;
    bool wrong = run->model->problem.condition != NULL;
    const char *end = well ? "Succeeded" : state->phase == JOB_TIMED_OUT ? "DeadlineExceeded" : "-";

    put(run, "Initialized", !wrong, wrong ? run->model->problem.reason : "-",
        wrong ? run->model->problem.message : STR("the job is accepted"));
    put(run, "Running", running,
        running         ? "-"
        : well || badly ? phase
        : paused        ? "Paused"
                        : job_phase_word(state->phase),
        state->message);
    put(run, "ReplicaFailure", failing, failing ? "ReplicaFailed" : "-",
        failing ? str_printf(run->arena, "replica " STR_FMT " ended with exit code %lld",
                             STR_ARG(state->failure.pod), (long long)state->failure.exit_code)
                : STR("no replica has failed"));
    put(run, "Completed", well, well ? "Succeeded" : "-",
        well ? STR("the master is done") : STR("the job is not done"));
    put(run, "Failed", badly, badly && state->phase != JOB_TIMED_OUT ? "Failed" : end,
        badly ? state->message : STR("the job has not failed"));
    put(run, "Paused", paused,
        paused            ? "PauseEnabled"
        : run->t->resumed ? "Resumed"
                          : "-",
        paused ? STR("all replicas are stopped until runMode.pause is switched off")
               : STR("the job is not paused"));
}

/* ---- TensorBoard ---- */

static struct str board_name(const struct job_model *model, struct arena *arena)
{
    return str_printf(arena, STR_FMT "-tensorboard", STR_ARG(model->object->name));
}

void tensorstack_tensorboard(const struct tensorstack *t, struct job_model *model)
{
    const struct json *spec = t->spec.tensorboard;
    struct json *body = json_new_object(t->arena);

    if (!json_is(spec, JSON_OBJECT))
        return;
    json_set(body, STR("spec"), json_clone(t->arena, spec));
    VEC_PUSH(t->arena, &model->extras,
             (struct job_extra){
                 .kind = &kind_tensorboard, .name = board_name(model, t->arena), .body = body});
}

static void write_tensorboard(const struct run *run)
{
    struct arena *arena = run->arena;
    struct str name = board_name(run->model, arena);
    const struct object *board =
        cache_get(run->t->input->cache, &kind_tensorboard, run->model->object->ns, name);

    json_remove(run->status, STR("tensorboard"));
    if (!json_is(run->t->spec.tensorboard, JSON_OBJECT))
        return;
    const struct json *state = board ? json_get(object_json(board, arena), "status") : NULL;
    bool ready = json_bool_or(json_get(state, "ready"), false);
    struct str reason = json_str(json_get(state, "reason"));
    struct json *entry = json_add_object(arena, run->status, "tensorboard");
    json_fill(
        arena, entry, "{name: $, ready: $, reason: $, action: $, note: $, type: $}", name, ready,
        ready        ? STR("DependentReady")
        : reason.len ? str_dup(arena, reason)
                     : STR("DependentNotReady"),
        board ? "NOP" : "CreateDependent", str_dup(arena, json_str(json_get(state, "note"))),
        json_str(json_get(state, "type")).len ? str_dup(arena, json_str(json_get(state, "type")))
                                              : STR("Normal"));
    if (!board)
        return;
    json_fill(arena, entry,
              "{dependent: {apiVersion: 'tensorstack.dev/v1beta1', kind: $, name: $, "
              "namespace: $, uid: $}}",
              kind_tensorboard.name, name, run->model->object->ns, str_dup(arena, board->uid));
}

/* ---- together ---- */

void tensorstack_write(const struct job_model *model,
                       const struct job_state *state,
                       struct json *status,
                       int64_t now_ms,
                       struct arena *arena)
{
    struct run run = {.t = model->front,
                      .model = model,
                      .state = state,
                      .status = status,
                      .now_ms = now_ms,
                      .arena = arena};
    int64_t counts[COUNTS] = {0};

    job_observe(run.t->input, model, arena, &run.members, NULL);
    const char *phase = phase_of(&run);
    job_state_write(state, json_make_path(arena, status, "engine"), arena);
    write_tasks(&run, counts);
    write_conditions(&run, phase, counts);
    write_tensorboard(&run);
    json_add_c(arena, status, "phase", phase);
    json_add_str(arena, status, "message", state->message);
    if (run.t->resumed)
        json_add_bool(arena, status, "resumed", true);
    if (!run.t->switching)
        json_add_c(arena, status, "mode", run.t->spec.debug ? "debug" : "immediate");
    if (state->start_ms)
        json_add_str(arena, status, "startTime", time_text(arena, state->start_ms));
    if (state->completion_ms)
        json_add_str(arena, status, "completionTime", time_text(arena, state->completion_ms));
}
