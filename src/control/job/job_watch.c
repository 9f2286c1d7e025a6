#include "api/object.h"
#include "base/arena.h"
#include "base/count.h"
#include "base/str.h"
#include "control/core/action.h"
#include "control/core/control.h"
#include "control/job/job.h"
#include "control/job/job_engine.h"
#include "control/job/watch.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What the engine does about a verdict on a job's ranks (control/job/watch.h). */

#define EXIT_HUNG 137 /* as if it had been killed, which comes next */

static const char *const hang_words[] =
    {[JOB_HANG_RESTART] = "Restart", [JOB_HANG_REPORT] = "Report", [JOB_HANG_IGNORE] = "Ignore"};

/* The ranks of this generation. False: a pod that runs tells of none. */
static bool gather(const struct job_run *run, struct watch_ranks *ret)
{
    bool complete = true;

    for (size_t i = 0; i < run->members.count; i++) {
        const struct job_member *member = &run->members.items[i];

        if (member->generation == run->state.generation && member->phase == JOB_POD_RUNNING)
            complete = watch_gather(ret, member->object, member->node, run->arena) && complete;
    }
    return complete;
}

enum job_hang job_on_hang(const struct control_input *input,
                          const struct object *job,
                          enum job_hang otherwise,
                          struct arena *arena,
                          struct str *ret_note)
{
    struct str word = object_annotation(job, JOB_ANNOTATION_HANG);

    if (!word.len)
        word = job_queue_says(input, job, "onHang", arena);
    for (size_t i = 0; i < COUNT_OF(hang_words); i++)
        if (str_is(word, hang_words[i]))
            return (enum job_hang)i;
    if (!word.len)
        return otherwise;
    *ret_note = str_printf(arena,
                           " (annotation " JOB_ANNOTATION_HANG " is \"" STR_FMT
                           "\": it must be Restart, Report or Ignore)",
                           STR_ARG(word));
    return JOB_HANG_REPORT;
}

/* Restarts are meant to be made at all; whether one is left is another question. */
static bool restarts(const struct job_run *run, const struct job_member *member)
{
    return run->model.scope == JOB_SCOPE_GANG && run->model.max_restarts != 0 && member->role &&
           member->role->restart != JOB_RESTART_NEVER;
}

static const struct job_member *member_named(const struct job_run *run, struct str name)
{
    for (size_t i = 0; i < run->members.count; i++)
        if (str_eq(run->members.items[i].object->name, name))
            return &run->members.items[i];
    return NULL;
}

/* A failure of the culprit's pod, as far as counting goes. */
static void restart_hung(struct job_run *run,
                         const struct job_member *member,
                         const struct watch_verdict *verdict)
{
    struct job_member failed = *member;

    failed.failure = (struct job_failure){.pod = member->object->name,
                                          .node = member->node,
                                          .has_rank = true,
                                          .rank = verdict->culprit->report.rank,
                                          .exit_code = EXIT_HUNG,
                                          .reason = STR(JOB_REASON_HUNG),
                                          .message = verdict->message,
                                          .time_ms = run->input->now_ms,
                                          .evidence = JOB_EVIDENCE_CERTAIN};
    if (!job_may_restart(run, &failed))
        return;
    struct job_look look = job_look(run);
    if (job_can_stay(run, &look)) {
        job_stay(run);
        return;
    }
    job_restart_held(run, STR_NONE);
    job_delete_all(run);
}

void job_watch(struct job_run *run)
{
    struct watch_ranks ranks = {0};
    bool complete = gather(run, &ranks);
    struct str note = STR_NONE;
    enum job_hang on_hang =
        job_on_hang(run->input, run->model.object, run->model.on_hang, run->arena, &note);
    struct watch_verdict verdict =
        watch_judge(ranks.items, ranks.count, complete, run->input->now_ms, run->arena);
    const struct job_member *member =
        verdict.culprit ? member_named(run, verdict.culprit->pod) : NULL;

    if (on_hang == JOB_HANG_IGNORE)
        return;
    if (verdict.again_ms > run->input->now_ms)
        action_look_again(&run->actions, verdict.again_ms);
    run->state.watch = watch_word(verdict.word);
    run->state.watch_message = verdict.message;
    run->state.watch_alarm = verdict.word >= WATCH_SUSPECTED;
    if (!verdict.message.len)
        return;
    if (verdict.word == WATCH_HUNG && on_hang == JOB_HANG_RESTART && member &&
        restarts(run, member)) {
        restart_hung(run, member, &verdict);
        return;
    }
    run->state.message =
        str_printf(run->arena, "%s: " STR_FMT STR_FMT "; " STR_FMT, watch_word(verdict.word),
                   STR_ARG(verdict.message), STR_ARG(note), STR_ARG(run->state.message));
}
