#include "api/kind.h"
#include "api/object.h"
#include "base/count.h"
#include "base/str.h"
#include "cache/cache.h"
#include "control/core/action.h"
#include "control/core/control.h"
#include "control/job/job.h"
#include "control/job/job_engine.h"

#include <stdbool.h>
#include <stddef.h>

/* What every step of the engine needs: words for phases, and the smallest changes to a job. */

/* An end that is younger is heard of as it happens: moments of pods are whole seconds. */
#define HEARD_MS 5000

static const char *const phase_words[] = {
#define JOB_PHASE_WORD(name, word) [JOB_##name] = (word),
    JOB_PHASES(JOB_PHASE_WORD)
#undef JOB_PHASE_WORD
};

const char *job_phase_word(enum job_phase phase)
{
    return phase_words[phase];
}

enum job_phase job_phase_parse(struct str word)
{
    for (size_t i = 0; i < COUNT_OF(phase_words); i++)
        if (str_is(word, phase_words[i]))
            return (enum job_phase)i;
    return JOB_PENDING;
}

void job_say(struct job_run *run, enum job_phase phase, struct str message)
{
    run->state.phase = phase;
    run->state.message = message;
}

/* Its time is kept, for the deadline. A calendar that was set back meanwhile takes none off. */
void job_stop_clock(struct job_run *run)
{
    if (run->state.run_start_ms && run->input->now_ms > run->state.run_start_ms)
        run->state.run_ms += run->input->now_ms - run->state.run_start_ms;
    run->state.run_start_ms = 0;
}

void job_next_generation(struct job_run *run)
{
    job_stop_clock(run);
    run->state.generation++;
    run->state.round = 0;
    run->state.created = false;
}

void job_tell_deleted(struct job_run *run, const struct object *object)
{
    if (run->model.tell_objects)
        action_event(&run->actions, run->model.object,
                     object->kind == &kind_pod ? "SuccessfulDeletePod" : "SuccessfulDeleteService",
                     str_printf(run->arena, "Deleted %s: " STR_FMT,
                                object->kind == &kind_pod ? "pod" : "service",
                                STR_ARG(object->name)));
}

void job_finish(struct job_run *run, enum job_phase phase, struct str message)
{
    job_stop_clock(run);
    job_say(run, phase, message);
    run->state.completion_ms = run->input->now_ms;
}

void job_finish_at(struct job_run *run, enum job_phase phase, struct str message, int64_t at_ms)
{
    int64_t began_ms = run->state.run_start_ms;
    int64_t before_ms = run->state.run_ms;

    job_finish(run, phase, message);
    if (!at_ms || at_ms < began_ms || run->input->now_ms - at_ms < HEARD_MS)
        return;
    run->state.completion_ms = at_ms;
    run->state.run_ms = before_ms + (began_ms ? at_ms - began_ms : 0);
}

void job_lost_read(struct job_run *run)
{
    struct job_model *model = &run->model;
    struct str word = object_annotation(model->object, JOB_ANNOTATION_NODE_LOST);

    if (!word.len)
        word = job_queue_says(run->input, model->object, "onNodeLost", run->arena);
    if (!word.len)
        return;
    /* Whoever misspells it meant to be careful. */
    model->on_node_lost = str_is(word, "Replace") ? JOB_LOST_REPLACE : JOB_LOST_WAIT;
    if (!str_is(word, "Replace") && !str_is(word, "Wait") && !model->warning.len)
        model->warning = str_printf(run->arena,
                                    "annotation " JOB_ANNOTATION_NODE_LOST " is \"" STR_FMT
                                    "\": it must be Replace or Wait; it is taken as Wait",
                                    STR_ARG(word));
}

const struct job_member *job_lost_awaited(const struct job_run *run)
{
    for (size_t i = 0; run->model.on_node_lost == JOB_LOST_WAIT && i < run->members.count; i++)
        if (run->members.items[i].lost)
            return &run->members.items[i];
    return NULL;
}

void job_remove(struct job_run *run, const struct job_member *member)
{
    if (member->lost && run->model.on_node_lost == JOB_LOST_REPLACE)
        action_delete_now(&run->actions, member->object);
    else if (!member->leaving)
        action_delete(&run->actions, member->object);
    if (!member->leaving)
        job_tell_deleted(run, member->object);
}

const struct object *job_sync_pod(const struct job_run *run)
{
    const struct object *pod = cache_get(run->input->cache, &kind_pod, run->model.object->ns,
                                         job_sync_name(&run->model, run->arena));

    return pod && object_owned_by(pod, run->model.object->uid) ? pod : NULL;
}

bool object_owned_by(const struct object *object, struct str uid)
{
    for (size_t i = 0; i < object->owner_count; i++)
        if (str_eq(object->owners[i].uid, uid))
            return true;
    return false;
}
