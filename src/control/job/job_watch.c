#include "api/object.h"
#include "api/ranks.h"
#include "base/arena.h"
#include "base/count.h"
#include "base/str.h"
#include "control/core/action.h"
#include "control/core/control.h"
#include "control/job/job.h"
#include "control/job/job_engine.h"
#include "control/job/learned.h"
#include "control/job/watch.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What the engine does about a verdict on a job's ranks (control/job/watch.h). */

#define EXIT_HUNG 137 /* as if it had been killed, which comes next */

static const char *const hang_words[] =
    {[JOB_HANG_RESTART] = "Restart", [JOB_HANG_REPORT] = "Report", [JOB_HANG_IGNORE] = "Ignore"};

/* The ranks of this generation. False: a pod that runs tells of none, *ret_why in words. */
static bool gather(const struct job_run *run, struct watch_ranks *ret, struct str *ret_why)
{
    bool complete = true;

    for (size_t i = 0; i < run->members.count; i++) {
        const struct job_member *member = &run->members.items[i];

        if (member->generation != run->state.generation || member->phase != JOB_POD_RUNNING ||
            watch_gather(ret, member->object, member->node, run->arena))
            continue;
        complete = false;
        if (!ret_why->len)
            *ret_why = ranks_why(run->arena, member->object);
    }
    return complete;
}

static const struct saying {
    const char *annotation;
    const char *field;
} of_proof = {JOB_ANNOTATION_HANG, "onHang"},
  of_suspicion = {JOB_ANNOTATION_SUSPICION, "onSuspicion"};

static void read_word(const struct control_input *input,
                      const struct object *job,
                      const struct saying *saying,
                      struct arena *arena,
                      enum job_hang *means,
                      struct str *note)
{
    struct str word = object_annotation(job, saying->annotation);

    if (!word.len)
        word = job_queue_says(input, job, saying->field, arena);
    if (!word.len)
        return;
    for (size_t i = 0; i < COUNT_OF(hang_words); i++) {
        if (str_is(word, hang_words[i])) {
            *means = (enum job_hang)i;
            return;
        }
    }
    *means = JOB_HANG_REPORT;
    *note = str_printf(
        arena, STR_FMT " (annotation %s is \"" STR_FMT "\": it must be Restart, Report or Ignore)",
        STR_ARG(*note), saying->annotation, STR_ARG(word));
}

void job_read_on_hang(const struct control_input *input,
                      const struct object *job,
                      struct arena *arena,
                      struct job_on_hang *on_hang)
{
    read_word(input, job, &of_proof, arena, &on_hang->proven, &on_hang->note);
    if (on_hang->proven == JOB_HANG_IGNORE && on_hang->suspected == JOB_HANG_REPORT)
        on_hang->suspected = JOB_HANG_IGNORE;
    read_word(input, job, &of_suspicion, arena, &on_hang->suspected, &on_hang->note);
}

bool job_hang_restarts(const struct job_on_hang *on_hang,
                       const struct watch_verdict *verdict,
                       int64_t now_ms,
                       int64_t *ret_again_ms)
{
    *ret_again_ms = 0;
    if (verdict->word == WATCH_HUNG)
        return on_hang->proven == JOB_HANG_RESTART;
    if (verdict->word != WATCH_SUSPECTED || on_hang->suspected != JOB_HANG_RESTART)
        return false;
    if (now_ms < verdict->firm_ms)
        *ret_again_ms = verdict->firm_ms;
    return now_ms >= verdict->firm_ms;
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

/* Whom a hang is counted against: the pod of the rank that is named, else any that runs. */
static const struct job_member *member_held(const struct job_run *run,
                                            const struct watch_verdict *verdict)
{
    if (verdict->culprit)
        return member_named(run, verdict->culprit->pod);
    for (size_t i = 0; i < run->members.count; i++)
        if (run->members.items[i].generation == run->state.generation &&
            run->members.items[i].phase == JOB_POD_RUNNING)
            return &run->members.items[i];
    return NULL;
}

/* A failure of that pod, as far as counting goes. */
static void restart_hung(struct job_run *run,
                         const struct job_member *member,
                         const struct watch_verdict *verdict)
{
    struct job_member failed = *member;

    failed.failure = (struct job_failure){
        .pod = member->object->name,
        .node = member->node,
        .has_rank = verdict->culprit != NULL,
        .rank = verdict->culprit ? verdict->culprit->report.rank : 0,
        .exit_code = EXIT_HUNG,
        .reason = verdict->word == WATCH_HUNG ? STR(JOB_REASON_HUNG) : STR(JOB_REASON_SUSPECTED),
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
    struct learned learned = learned_read(run->model.object, run->arena);
    struct str why = STR_NONE;
    bool complete = gather(run, &ranks, &why);
    struct job_on_hang on_hang = {.proven = run->model.on_hang,
                                  .suspected = run->model.on_suspicion};

    learned_pauses(&learned, &ranks);
    struct watch_verdict verdict =
        watch_judge(ranks.items, ranks.count, complete, run->input->now_ms, run->arena);
    const struct job_member *member = member_held(run, &verdict);
    int64_t firm_ms = 0;

    if (why.len)
        run->state.message = str_printf(
            run->arena, STR_FMT "; hangs are not noticed, as its ranks are not observed: " STR_FMT,
            STR_ARG(run->state.message), STR_ARG(why));
    job_read_on_hang(run->input, run->model.object, run->arena, &on_hang);
    if ((verdict.word == WATCH_SUSPECTED ? on_hang.suspected : on_hang.proven) == JOB_HANG_IGNORE)
        return;
    if (verdict.again_ms > run->input->now_ms)
        action_look_again(&run->actions, verdict.again_ms);
    run->state.watch = watch_word(verdict.word);
    run->state.watch_message = verdict.message;
    run->state.watch_alarm = verdict.word >= WATCH_SUSPECTED;
    bool restart = verdict.message.len &&
                   job_hang_restarts(&on_hang, &verdict, run->input->now_ms, &firm_ms) && member &&
                   restarts(run, member);
    bool again = restart && learned_again(&learned, &verdict, &ranks);
    run->state.watch_news =
        run->state.watch_alarm && learned_tell(&learned, &verdict, again, run->input->now_ms);
    learned_write(&learned, run->model.object, &run->actions);
    if (!verdict.message.len)
        return;
    if (restart && !again) {
        restart_hung(run, member, &verdict);
        return;
    }
    if (again) {
        on_hang.note = str_printf(run->arena, STR_FMT JOB_HANG_AGAIN, STR_ARG(on_hang.note));
        run->state.watch_message =
            str_printf(run->arena, STR_FMT JOB_HANG_AGAIN, STR_ARG(verdict.message));
    }
    if (firm_ms)
        action_look_again(&run->actions, firm_ms);
    run->state.message =
        str_printf(run->arena, "%s: " STR_FMT STR_FMT "; " STR_FMT, watch_word(verdict.word),
                   STR_ARG(verdict.message), STR_ARG(on_hang.note), STR_ARG(run->state.message));
}
