#include "api/kind.h"
#include "api/object.h"
#include "api/ranks.h"
#include "base/str.h"
#include "base/vec.h"
#include "cache/cache.h"
#include "control/core/action.h"
#include "control/core/control.h"
#include "control/job/job.h"
#include "control/job/job_engine.h"
#include "control/job/learned.h"
#include "control/job/watch.h"
#include "control/kinds/jobset.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Ranks that hang in a JobSet, and so in a TrainJob: all pods of all of its Jobs are one gang. The verdict
 * is that of every kind (job/watch.h); what it leads to is what a failed Job would, without the set's
 * rules: they are about reasons that Jobs have. */

struct look {
    struct watch_ranks ranks;
    bool complete; /* every pod that runs tells of its ranks */
};

static void look_at(struct jobset *set, const struct jobset_job *job, struct look *look)
{
    static const struct job_model nobody;
    const struct object *pod = NULL;
    size_t cursor = 0;

    while ((pod = cache_next_owned(set->input->cache, &kind_pod, job->object->uid, &cursor))) {
        struct job_member member = job_observe_pod(set->input, &nobody, pod, set->arena);

        if (member.phase != JOB_POD_RUNNING || member.leaving)
            continue;
        look->complete = watch_gather(&look->ranks, pod, member.node, set->arena) && look->complete;
        VEC_PUSH(set->arena, &set->hung, pod);
    }
}

/* Most sets have nobody who tells of ranks: these are not read pod by pod. */
static bool tells_of_ranks(const struct jobset *set, const struct jobset_job *job)
{
    const struct object *pod = NULL;
    size_t cursor = 0;

    while ((pod = cache_next_owned(set->input->cache, &kind_pod, job->object->uid, &cursor)))
        if (object_annotation(pod, RANKS_ANNOTATION).len)
            return true;
    return false;
}

static struct look look_at_all(struct jobset *set)
{
    struct look look = {.complete = true};
    bool told = false;

    for (size_t i = 0; i < set->parts.count; i++)
        for (size_t j = 0; j < set->parts.items[i].jobs.count; j++)
            told = told || tells_of_ranks(set, &set->parts.items[i].jobs.items[j]);
    for (size_t i = 0; told && i < set->parts.count; i++)
        for (size_t j = 0; j < set->parts.items[i].jobs.count; j++)
            look_at(set, &set->parts.items[i].jobs.items[j], &look);
    return look;
}

static struct jobset_job *job_of(struct jobset *set, struct str pod)
{
    const struct object *object = cache_get(set->input->cache, &kind_pod, set->object->ns, pod);
    const struct object_owner *owner = object ? object_controller(object) : NULL;

    for (size_t i = 0; owner && i < set->parts.count; i++)
        for (size_t j = 0; j < set->parts.items[i].jobs.count; j++)
            if (str_eq(set->parts.items[i].jobs.items[j].object->uid, owner->uid))
                return &set->parts.items[i].jobs.items[j];
    return NULL;
}

const struct object *jobset_above(const struct cache *cache, const struct object *set)
{
    const struct object_owner *owner = object_controller(set);
    const struct object *above = owner && str_is(owner->kind, kind_trainjob.name)
                                     ? cache_get(cache, &kind_trainjob, set->ns, owner->name)
                                     : NULL;

    return above && str_eq(above->uid, owner->uid) ? above : NULL;
}

/* People look at the TrainJob, where there is one. */
static void warn(struct jobset *set, const char *reason, struct str message)
{
    const struct object *above = jobset_above(set->input->cache, set->object);

    action_warn(set->actions, set->object, reason, message);
    if (above)
        action_warn(set->actions, above, reason, message);
}

/* A hang is no end of a pod, which blame.c looks for. */
static void blame(struct jobset *set, const struct watch_verdict *verdict)
{
    const struct object *above = jobset_above(set->input->cache, set->object);
    const struct object *job = above ? above : set->object;
    struct job_failure failure = {.pod = verdict->culprit->pod,
                                  .node = verdict->culprit->node,
                                  .reason = STR(JOB_REASON_HUNG),
                                  .message = verdict->message};

    job_blame_node(set->input,
                   &(struct job_blamer){.ns = job->ns, .name = job->name, .uid = job->uid},
                   &failure, set->input->now_ms, set->arena, set->actions);
}

static void write_hung(struct jobset *set, const char *alarm, struct str message)
{
    watch_write(set->arena, set->status, alarm, message, set->input->now_ms);
}

/* Whom a hang is counted against: the Job of the rank that is named, else any that has pods. */
static struct jobset_job *job_held(struct jobset *set,
                                   const struct watch_verdict *verdict,
                                   const struct watch_ranks *ranks)
{
    return job_of(set, verdict->culprit ? verdict->culprit->pod : ranks->items[0].pod);
}

bool jobset_watch(struct jobset *set)
{
    struct job_on_hang on_hang = {.proven = JOB_HANG_RESTART, .suspected = JOB_HANG_REPORT};

    job_read_on_hang(set->input, set->object, set->arena, &on_hang);
    if (set->suspended || set->stale.count || jobset_is_moving(set) ||
        (on_hang.proven == JOB_HANG_IGNORE && on_hang.suspected == JOB_HANG_IGNORE)) {
        write_hung(set, NULL, STR_NONE);
        return false;
    }
    struct look look = look_at_all(set);
    struct learned learned = learned_read(set->object, set->arena);

    learned_pauses(&learned, &look.ranks);
    struct watch_verdict verdict = watch_judge(look.ranks.items, look.ranks.count, look.complete,
                                               set->input->now_ms, set->arena);
    bool ignored =
        (verdict.word == WATCH_SUSPECTED ? on_hang.suspected : on_hang.proven) == JOB_HANG_IGNORE;
    bool alarm = verdict.word >= WATCH_SUSPECTED && verdict.message.len && !ignored;
    int64_t firm_ms;
    bool restart = job_hang_restarts(&on_hang, &verdict, set->input->now_ms, &firm_ms);
    bool again = alarm && restart && learned_again(&learned, &verdict, &look.ranks);
    struct str message =
        alarm ? str_printf(set->arena, STR_FMT "%s" STR_FMT, STR_ARG(verdict.message),
                           again ? JOB_HANG_AGAIN : "", STR_ARG(on_hang.note))
              : STR_NONE;

    if (verdict.again_ms > set->input->now_ms)
        action_look_again(set->actions, verdict.again_ms);
    if (alarm && firm_ms)
        action_look_again(set->actions, firm_ms);
    write_hung(set, alarm ? watch_word(verdict.word) : NULL, message);
    if (alarm && learned_tell(&learned, &verdict, again, set->input->now_ms))
        warn(set, watch_word(verdict.word), message);
    learned_write(&learned, set->object, set->actions);
    struct jobset_job *job =
        alarm && restart && !again ? job_held(set, &verdict, &look.ranks) : NULL;
    bool goes = job && jobset_restart_hung(set, job, verdict.message);
    if (goes && verdict.word == WATCH_HUNG)
        blame(set, &verdict);
    if (!goes || jobset_is_moving(set))
        set->hung.count = 0;
    return goes;
}

void jobset_end_hung(struct jobset *set)
{
    for (size_t i = 0; i < set->hung.count; i++)
        action_delete_soon(set->actions, set->hung.items[i]);
}
