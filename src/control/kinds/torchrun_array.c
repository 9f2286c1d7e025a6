#include "api/array.h"
#include "api/hold.h"
#include "api/kind.h"
#include "api/object.h"
#include "api/ranks.h"
#include "api/suspend.h"
#include "base/arena.h"
#include "base/count.h"
#include "base/err.h"
#include "base/json.h"
#include "base/json_make.h"
#include "base/str.h"
#include "cache/cache.h"
#include "control/core/action.h"
#include "control/core/control.h"
#include "control/core/owner.h"
#include "control/job/job.h"
#include "control/kinds/list.h"
#include "control/kinds/torchrun.h"
#include "control/kinds/torchrun_model.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* spec.array: a job that consists of jobs, NAME-INDEX, each with its index in its environment.
 *
 * The array keeps the workspace, for all of them, and has no pods. Its jobs are made in the order of
 * their indexes, at most `limit` that have not ended at a time; what they come to is remembered in
 * status.array, so that one that ended may go, and one that somebody deleted is not made again.
 * `made` counts the ones that were seen: a crash between writing and making repeats the making. */
#define ARRAY_MAKE_MAX 50 /* jobs made in one look: the next one follows when they are seen */

enum array_state {
    ARRAY_NONE,
    ARRAY_ACTIVE,
    ARRAY_SUCCEEDED,
    ARRAY_FAILED,
};

struct array_run {
    const struct torchrun *t;
    const struct control_input *input;
    struct arena *arena;
    struct actions *actions;
    struct array_indexes indexes;
    enum array_state *states; /* [indexes.count] */
    size_t made;
    size_t active;
    size_t running;
    int64_t start_ms;  /* of the first that ran; 0: none has */
    int64_t exit_code; /* of the first that failed; 0: none has */
};

void torchrun_read_array(struct torchrun *t, struct job_model *model)
{
    struct err err = {0};

    t->is_array = !json_is_null(t->spec.array);
    if (t->is_array && array_parse(t->arena, t->spec.array_indexes, &t->array, &err) < 0 &&
        !model->problem.condition)
        model->problem =
            (struct job_problem){"InvalidSpec", "InvalidArray",
                                 str_printf(t->arena, "spec.array.indexes: %s", err.text)};
}

const struct object *torchrun_array_of(const struct cache *cache, const struct object *job)
{
    const struct object_owner *owner = object_controller(job);

    if (!owner || !str_is(owner->kind, kind_torchrunjob.name) ||
        !object_label(job, ARRAY_LABEL_INDEX).len)
        return NULL;
    const struct object *array = cache_get(cache, &kind_torchrunjob, job->ns, owner->name);
    return array && str_eq(array->uid, owner->uid) ? array : NULL;
}

static struct str array_child_name(const struct array_run *run, size_t position)
{
    return str_printf(run->arena, STR_FMT "-%lld", STR_ARG(run->t->job->name),
                      (long long)run->indexes.items[position]);
}

/* ---- looking ---- */

static void array_recall(struct array_run *run, const char *key, enum array_state state)
{
    const struct json *known = json_at(object_json(run->t->job, run->arena), "status.array");
    struct array_indexes done = {0};

    if (array_parse(run->arena, json_str(json_get(known, key)), &done, NULL) < 0)
        return;
    for (size_t i = 0, j = 0; i < run->indexes.count && j < done.count;) {
        if (run->indexes.items[i] == done.items[j])
            run->states[i] = state;
        if (run->indexes.items[i] <= done.items[j])
            i++;
        else
            j++;
    }
}

static void array_look(struct array_run *run, size_t position)
{
    enum array_state *state = &run->states[position];
    const struct object *child = cache_get(run->input->cache, &kind_torchrunjob, run->t->job->ns,
                                           array_child_name(run, position));
    const struct object_owner *owner = child ? object_controller(child) : NULL;
    bool ours = owner && str_eq(owner->uid, run->t->job->uid);

    if (child && ours && position >= run->made)
        run->made = position + 1;
    if (!child || !ours) {
        /* It was there, or its name is somebody else's: there will be no such job. */
        if (*state == ARRAY_NONE && (child || position < run->made))
            *state = ARRAY_FAILED;
        return;
    }
    arena_defer(run->arena, object_release, object_ref(child));
    const struct json *tree = object_json(child, run->arena);
    struct job_state now = {0};
    job_state_read(json_get(tree, "status"), &now);
    if (now.start_ms && (!run->start_ms || now.start_ms < run->start_ms))
        run->start_ms = now.start_ms;
    if (*state == ARRAY_NONE)
        *state = !job_phase_is_final(now.phase) ? ARRAY_ACTIVE
                 : now.phase == JOB_SUCCEEDED   ? ARRAY_SUCCEEDED
                                                : ARRAY_FAILED;
    run->active += *state == ARRAY_ACTIVE;
    run->running += *state == ARRAY_ACTIVE && now.phase == JOB_RUNNING;
    if (*state == ARRAY_FAILED && now.exit_code > 0) /* they are looked at from the last on */
        run->exit_code = now.exit_code;
}

/* ---- making ---- */

static void array_add_env(const struct array_run *run, struct json *spec, int64_t index)
{
    const struct array_indexes *all = &run->indexes;
    struct str job = run->t->job->name;
    const struct {
        const char *name;
        struct str value;
    } rows[] = {
        {"MUSTER_ARRAY_INDEX", str_printf(run->arena, "%lld", (long long)index)},
        {"MUSTER_ARRAY_COUNT", str_printf(run->arena, "%zu", all->count)},
        {"MUSTER_ARRAY_JOB", job},
        {"SLURM_ARRAY_TASK_ID", str_printf(run->arena, "%lld", (long long)index)},
        {"SLURM_ARRAY_TASK_COUNT", str_printf(run->arena, "%zu", all->count)},
        {"SLURM_ARRAY_TASK_MIN", str_printf(run->arena, "%lld", (long long)all->items[0])},
        {"SLURM_ARRAY_TASK_MAX",
         str_printf(run->arena, "%lld", (long long)all->items[all->count - 1])},
        {"SLURM_ARRAY_JOB_ID", job},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++)
        json_push(list_at(run->arena, spec, "env"),
                  json_make(run->arena, "{name: $, value: $}", rows[i].name, rows[i].value));
}

/* What people say of a job beside its spec. Others are the array's own, as its workspace's. */
static void array_add_annotations(const struct array_run *run, struct json *body)
{
    static const char *const keys[] = {JOB_ANNOTATION_HANG,
                                       JOB_ANNOTATION_SUSPICION,
                                       SUSPEND_POLICY,
                                       SUSPEND_COPY,
                                       OBSERVE_ANNOTATION,
                                       HOLD_ANNOTATION,
                                       JOB_ANNOTATION_RESTART_MODE,
                                       JOB_ANNOTATION_NODE_LOST};

    for (size_t i = 0; i < COUNT_OF(keys); i++) {
        struct str value = object_annotation(run->t->job, keys[i]);

        if (value.len)
            json_add_str(run->arena, json_make_path(run->arena, body, "metadata.annotations"),
                         keys[i], value);
    }
}

static void array_make(struct array_run *run, size_t position)
{
    const struct object *array = run->t->job;
    int64_t index = run->indexes.items[position];
    const struct json *tree = object_json(array, run->arena);
    struct json *body =
        owner_make(run->arena, array, &kind_torchrunjob, array_child_name(run, position));
    struct json *labels = json_make_path(run->arena, body, "metadata.labels");
    struct json *spec = json_clone(run->arena, json_get(tree, "spec"));

    owner_merge_map(run->arena, labels, json_at(tree, "metadata.labels"));
    json_add_str(run->arena, labels, ARRAY_LABEL, array->name);
    json_add_str(run->arena, labels, ARRAY_LABEL_INDEX,
                 str_printf(run->arena, "%lld", (long long)index));
    array_add_annotations(run, body);
    /* What is the array's own. It goes with all of them, so none has a time to live. */
    json_remove(spec, STR("array"));
    json_remove(spec, STR("after"));
    json_remove(spec, STR("notify"));
    json_remove(json_get(spec, "reliability"), STR("ttlSecondsAfterFinished"));
    array_add_env(run, spec, index);
    json_set(body, STR("spec"), spec);
    action_create(run->actions, &kind_torchrunjob, body);
}

/* Those that have not ended are suspended, and go on, with the array; but not those that somebody
 * suspended alone. */
static void array_suspend(struct array_run *run, bool suspend)
{
    for (size_t i = 0; i < run->indexes.count; i++) {
        const struct object *child = run->states[i] == ARRAY_ACTIVE
                                         ? cache_get(run->input->cache, &kind_torchrunjob,
                                                     run->t->job->ns, array_child_name(run, i))
                                         : NULL;
        bool is = json_bool_or(
            json_at(child ? object_json(child, run->arena) : NULL, "spec.suspend"), false);
        bool ours = child && object_annotation(child, ARRAY_SUSPENDED).len;

        if (!child || (suspend ? is : !ours))
            continue;
        struct json *patch =
            json_make(run->arena, "{spec: {suspend: $}}", json_new_bool(run->arena, suspend));
        json_set(json_make_path(run->arena, patch, "metadata.annotations"), STR(ARRAY_SUSPENDED),
                 suspend ? json_new_str(run->arena, STR("true")) : json_new_null(run->arena));
        action_patch(run->actions, child, patch);
    }
}

/* ---- saying ---- */

static size_t array_count(const struct array_run *run, enum array_state state)
{
    size_t count = 0;

    for (size_t i = 0; i < run->indexes.count; i++)
        count += run->states[i] == state;
    return count;
}

static struct str array_list(const struct array_run *run, enum array_state state)
{
    int64_t *items = ARENA_ARRAY(run->arena, int64_t, run->indexes.count);
    struct array_indexes some = {items, 0};

    for (size_t i = 0; i < run->indexes.count; i++)
        if (run->states[i] == state)
            items[some.count++] = run->indexes.items[i];
    return array_text(run->arena, &some);
}

static void array_say(const struct array_run *run, struct job_state *state)
{
    size_t all = run->indexes.count;
    size_t good = array_count(run, ARRAY_SUCCEEDED);
    size_t bad = array_count(run, ARRAY_FAILED);

    if (!state->start_ms)
        state->start_ms = run->start_ms;
    if (good + bad < all) {
        state->phase = run->running ? JOB_RUNNING : JOB_QUEUED;
        state->message =
            str_printf(run->arena, "%zu of %zu jobs of the array run, %zu wait, %zu have ended%s",
                       run->running, all, all - good - bad - run->running, good + bad,
                       bad ? str_printf(run->arena, " (%zu failed)", bad).p : "");
        return;
    }
    state->completion_ms = run->input->now_ms;
    state->phase = bad ? JOB_FAILED : JOB_SUCCEEDED;
    state->exit_code = bad ? (run->exit_code ? run->exit_code : 1) : 0;
    state->message =
        bad ? str_printf(run->arena,
                         "%zu of %zu jobs of the array failed or were deleted: " STR_FMT, bad, all,
                         STR_ARG(array_list(run, ARRAY_FAILED)))
            : str_printf(run->arena, "all %zu jobs of the array have succeeded", all);
}

static struct json *array_status(const struct array_run *run)
{
    struct json *status = json_new_object(run->arena);

    json_fill(run->arena, status, "{total: $, made: $, running: $}", (int64_t)run->indexes.count,
              (int64_t)run->made, (int64_t)run->running);
    json_add_str(run->arena, status, "succeeded", array_list(run, ARRAY_SUCCEEDED));
    json_add_str(run->arena, status, "failed", array_list(run, ARRAY_FAILED));
    return status;
}

void torchrun_array_step(const struct job_model *model,
                         const struct control_input *input,
                         struct job_state *state,
                         struct actions *actions)
{
    struct torchrun *t = model->own;
    const struct json *known = json_at(object_json(t->job, actions->arena), "status.array");
    struct array_run run = {.t = t,
                            .input = input,
                            .arena = actions->arena,
                            .actions = actions,
                            .indexes = t->array,
                            .made = (size_t)json_i64_or(json_get(known, "made"), 0)};
    size_t limit = t->spec.array_limit ? (size_t)t->spec.array_limit : run.indexes.count;
    size_t making = 0;

    run.states = ARENA_ARRAY(run.arena, enum array_state, run.indexes.count);
    array_recall(&run, "succeeded", ARRAY_SUCCEEDED);
    array_recall(&run, "failed", ARRAY_FAILED);
    for (size_t i = run.indexes.count; i-- > 0;) /* the last that was made tells of those before */
        array_look(&run, i);
    if (!model->suspend)
        for (size_t i = 0; i < run.indexes.count && run.active + making < limit; i++)
            if (run.states[i] == ARRAY_NONE && making < ARRAY_MAKE_MAX) {
                array_make(&run, i);
                making++;
            }
    array_suspend(&run, model->suspend);
    t->array_status = array_status(&run);
    if (!model->suspend)
        array_say(&run, state);
}
