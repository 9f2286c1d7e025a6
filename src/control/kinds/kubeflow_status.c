#include "api/kind.h"
#include "api/object.h"
#include "base/json.h"
#include "base/json_make.h"
#include "base/str.h"
#include "base/time.h"
#include "control/core/status.h"
#include "control/job/job.h"
#include "control/kinds/kubeflow.h"
#include "control/kinds/list.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The status of Kubeflow's kinds: conditions, counters of each replica type, times; and beside them
 * what the engine remembers (job_state_write).
 *
 * Conditions are a list in the order of change, the newest last, because the State column shows the
 * type of the last one. One that becomes False goes to the front, so that the column never shows
 * what is no longer so. Running and Restarting take each other's place; after the end nothing
 * changes any more. */

struct run {
    struct arena *arena;
    struct json *status;
    const struct job_model *model;
    int64_t now_ms;
};

static struct str kind_word(const struct run *run, const char *word)
{
    return str_printf(run->arena, "%s%s", run->model->object->kind->name, word);
}

static void drop(const struct run *run, const char *type)
{
    struct json *list = json_get(run->status, "conditions");
    size_t index = 0;

    JSON_FOREACH(list, each) {
        if (str_is(json_str(json_get(each, "type")), type)) {
            json_remove_index(list, index);
            return;
        }
        index++;
    }
}

static struct json *take(const struct run *run, const char *type)
{
    struct json *old = NULL;
    struct json *list = json_get(run->status, "conditions");

    JSON_FOREACH(list, each)
        if (str_is(json_str(json_get(each, "type")), type))
            old = json_clone(run->arena, each);
    drop(run, type);
    return old ? old : json_new_object(run->arena);
}

static void set(const struct run *run,
                const char *type,
                bool truth,
                const char *why,
                struct str message)
{
    struct str reason = kind_word(run, why);
    const struct json *is = condition_find(run->status, type);
    const char *word = truth ? "True" : "False";
    struct str now = time_text(run->arena, run->now_ms);
    bool same = str_is(json_str(json_get(is, "status")), word);

    if (same && str_eq(json_str(json_get(is, "reason")), reason))
        return;
    struct json *entry = take(run, type);
    json_fill(run->arena, entry, "{type: $, status: $, reason: $, message: $, lastUpdateTime: $}",
              type, word, reason, message, now);
    if (!same)
        json_add_str(run->arena, entry, "lastTransitionTime", now);
    struct json *list = list_at(run->arena, run->status, "conditions");
    json_insert(list, truth ? json_count(list) : 0, entry);
}

static void stop_running(const struct run *run, const char *why, struct str message)
{
    if (condition_is_true(run->status, "Running"))
        set(run, "Running", false, why, message);
    drop(run, "Restarting");
}

static void write_conditions(const struct run *run, const struct job_state *state)
{
    struct str who = str_printf(run->arena, "%s " STR_FMT, run->model->object->kind->name,
                                STR_ARG(run->model->object->name));

    set(run, "Created", true, "Created",
        str_printf(run->arena, STR_FMT " is created", STR_ARG(who)));
    if (state->phase == JOB_SUSPENDED) {
        stop_running(run, "Suspended", state->message);
        set(run, "Suspended", true, "Suspended",
            str_printf(run->arena, STR_FMT " is suspended", STR_ARG(who)));
        return;
    }
    if (condition_is_true(run->status, "Suspended"))
        set(run, "Suspended", false, "Resumed",
            str_printf(run->arena, STR_FMT " is resumed", STR_ARG(who)));
    switch (state->phase) {
    case JOB_RUNNING:
        drop(run, "Restarting");
        set(run, "Running", true, "Running",
            str_printf(run->arena, STR_FMT " is running", STR_ARG(who)));
        break;
    case JOB_RESTARTING:
    case JOB_PREEMPTED:
        drop(run, "Running");
        set(run, "Restarting", true, "Restarting", state->message);
        break;
    case JOB_SUCCEEDED:
        stop_running(run, "Succeeded", state->message);
        set(run, "Succeeded", true, "Succeeded",
            str_printf(run->arena, STR_FMT " successfully completed", STR_ARG(who)));
        break;
    case JOB_FAILED:
    case JOB_TIMED_OUT:
        stop_running(run, "Failed", state->message);
        set(run, "Failed", true, "Failed", state->message);
        break;
    case JOB_PENDING:
    case JOB_PROVISIONING:
    case JOB_SYNCING:
    case JOB_QUEUED:
    case JOB_SUSPENDED: break;
    }
}

/* Pods that still run when the job is over have done their part, or will be stopped. */
static void write_counters(const struct run *run, const struct job_state *state)
{
    const struct kubeflow *k = run->model->front;
    struct json *all = json_add_object(run->arena, run->status, "replicaStatuses");
    struct str operator_name = kubeflow_operator(k, run->arena);
    bool over = job_phase_is_final(state->phase);

    for (size_t i = 0; i < run->model->roles.count; i++) {
        const struct job_role *role = &run->model->roles.items[i];
        const struct job_workers *count = &state->roles[i];
        struct json *entry = json_new_object(run->arena);

        json_set(all, str_from(role->type), entry);
        json_fill(run->arena, entry, "{active: $, succeeded: $, failed: $, selector: $}",
                  over ? 0 : count->running,
                  count->succeeded + (state->phase == JOB_SUCCEEDED ? count->running : 0),
                  count->failed,
                  str_printf(run->arena,
                             KUBEFLOW_LABEL_JOB "=" STR_FMT "," KUBEFLOW_LABEL_OPERATOR "=" STR_FMT
                                                "," KUBEFLOW_LABEL_TYPE "=" STR_FMT,
                             STR_ARG(k->job->name), STR_ARG(operator_name), STR_ARG(role->name)));
    }
}

void kubeflow_write(const struct job_model *model,
                    const struct job_state *state,
                    struct json *status,
                    int64_t now_ms,
                    struct arena *arena)
{
    struct run run = {.arena = arena, .status = status, .model = model, .now_ms = now_ms};
    const struct json *before = json_clone(arena, status);
    /* In words that everybody reads, too: the phase may come from the memory. */
    bool was_over = job_phase_is_final(job_phase_parse(json_str(json_get(status, "phase")))) &&
                    (condition_is_true(status, "Succeeded") || condition_is_true(status, "Failed"));

    if (was_over)
        return;
    job_state_write(state, status, arena);
    json_add_i64(arena, status, "containerRestarts", state->in_place);
    json_add_i64(arena, status, "observedGeneration", model->object->generation);
    write_counters(&run, state);
    write_conditions(&run, state);
    if (!json_equal(before, status))
        json_add_str(arena, status, "lastReconcileTime", time_text(arena, now_ms));
}

struct str kubeflow_reason(const struct job_model *model,
                           const struct job_state *before,
                           const struct job_state *state,
                           struct arena *arena)
{
    const char *word = "";

    switch (state->phase) {
    case JOB_QUEUED: word = before->phase == JOB_PENDING ? "Created" : ""; break;
    case JOB_RUNNING: word = "Running"; break;
    case JOB_RESTARTING:
    case JOB_PREEMPTED: word = "Restarting"; break;
    case JOB_SUSPENDED: word = "Suspended"; break;
    case JOB_SUCCEEDED: word = "Succeeded"; break;
    case JOB_FAILED:
    case JOB_TIMED_OUT: word = "Failed"; break;
    case JOB_PENDING:
    case JOB_PROVISIONING:
    case JOB_SYNCING: break;
    }
    if (before->phase == JOB_SUSPENDED && state->phase != JOB_SUSPENDED)
        word = "Resumed";
    return word[0] ? str_printf(arena, "%s%s", model->object->kind->name, word) : STR("");
}
