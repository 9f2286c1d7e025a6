#include "api/kind.h"
#include "api/object.h"
#include "api/place.h"
#include "api/ranks.h"
#include "base/json.h"
#include "base/str.h"
#include "base/time.h"
#include "base/vec.h"
#include "cache/cache.h"
#include "control/core/action.h"
#include "control/core/control.h"
#include "control/core/status.h"
#include "control/job/job.h"
#include "control/job/job_engine.h"
#include "control/kinds/jobset.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A JobSet that restarts in the pods that it has, as a gang of the job engine does (job/job_place.c).
 * A pod that its node keeps has not failed, so its Job goes on; it is the set that hears of it, lets
 * its failurePolicy judge as if the Job had failed, and has all pods stop and then go.
 *
 * The round is in the status under the names that JobSet has for it: "previous" is the last attempt that
 * must end, "current" the one that may run. A pod is told of a round after the status has it. */

/* A round that takes longer is none: the Jobs are made again. */
#define ROUND_LIMIT_MS 60000
/* Nodes keep a pod for two minutes: of an older end not enough would be left for a round. */
#define KEPT_FRESH_MS 50000

#define REASON_IN_PLACE "RestartingInPlace"

static int64_t round_done(const struct jobset *set)
{
    return json_i64_or(json_get(set->status, JOBSET_ROUND_DONE), 0);
}

/* The one that is on, or the last one. */
static int64_t round_now(const struct jobset *set)
{
    int64_t next = json_i64_or(json_get(set->status, JOBSET_ROUND_PAST), -1) + 1;

    return next > round_done(set) ? next : round_done(set);
}

bool jobset_is_moving(const struct jobset *set)
{
    return !set->agents && round_now(set) > round_done(set);
}

static void end_round(struct jobset *set)
{
    json_add_i64(set->arena, set->status, JOBSET_ROUND_DONE, round_now(set));
}

/* ---- which sets ---- */

/* Its pods bring JobSet's own agent along, or are restarted by whatever rule. */
static bool has_rules(const struct jobset_part_spec *part)
{
    static const char *const lists[] = {"spec.template.spec.initContainers",
                                        "spec.template.spec.containers"};

    for (size_t i = 0; i < 2; i++)
        JSON_FOREACH(json_at(part->template, lists[i]), container)
            if (json_count(json_get(container, "restartPolicyRules")))
                return true;
    return false;
}

static const char *part_obstacle(const struct jobset_part_spec *part)
{
    const struct json *job = json_get(part->template, "spec");
    int64_t parallelism = json_i64_or(json_get(job, "parallelism"), 1);

    if (json_i64_or(json_get(job, "completions"), parallelism) != parallelism)
        return "has completions that differ from its parallelism";
    if (!json_is_null(json_get(job, "podFailurePolicy")))
        return "has a podFailurePolicy";
    if (!json_is_null(json_get(job, "backoffLimitPerIndex")))
        return "has a backoffLimitPerIndex";
    if (has_rules(part))
        return "has a container with restartPolicyRules";
    return NULL;
}

/* Why it cannot be done; empty: it can. */
static struct str obstacle(const struct jobset *set)
{
    bool free = false;

    for (size_t i = 0; i < set->spec.rule_count; i++)
        free = free || set->spec.rules[i].action == JOBSET_RESTART_JOB_SET_AND_IGNORE_MAX_RESTARTS;
    if (!set->spec.may_fail || (!free && set->spec.max_restarts <= 0))
        return STR("it has no failurePolicy with maxRestarts");
    for (size_t i = 0; i < set->spec.part_count; i++) {
        const char *why = part_obstacle(&set->spec.parts[i]);

        if (why)
            return str_printf(set->arena, "replicatedJob " STR_FMT " %s",
                              STR_ARG(set->spec.parts[i].name), why);
    }
    return STR_NONE;
}

void jobset_place_read(struct jobset *set)
{
    struct str word = object_annotation(set->object, JOB_ANNOTATION_RESTART_MODE);
    bool asked = word.len ? str_is(word, "InPlace") : set->spec.strategy == JOBSET_IN_PLACE_RESTART;
    bool meant =
        !word.len && !asked && /* by who may not know this set */
        str_is(job_queue_says(set->input, set->object, "restartMode", set->arena), "InPlace");

    if (word.len && !asked && !str_is(word, "Pods"))
        set->unstayed = str_printf(set->arena,
                                   "annotation " JOB_ANNOTATION_RESTART_MODE " is \"" STR_FMT
                                   "\": it must be InPlace or Pods; Jobs are made again",
                                   STR_ARG(word));
    for (size_t i = 0; i < set->spec.part_count && asked && !word.len; i++)
        set->agents = set->agents || has_rules(&set->spec.parts[i]);
    if ((!asked && !meant) || set->agents)
        return;
    struct str why = obstacle(set);
    set->stays = !why.len;
    if (why.len && asked)
        set->unstayed = str_printf(set->arena,
                                   "the set cannot restart in place, because " STR_FMT
                                   "; its Jobs are made again",
                                   STR_ARG(why));
}

void jobset_place_mark(const struct jobset *set, struct json *template)
{
    struct json *notes = json_make_path(set->arena, template, "metadata.annotations");

    json_remove(notes, STR(PLACE_ANNOTATION)); /* ours to say */
    if (set->stays)
        json_add_str(set->arena, notes, PLACE_ANNOTATION, place_text(set->arena, 0, true));
}

/* ---- looking ---- */

static void observe_job(struct jobset *set, struct jobset_job *job)
{
    static const struct job_model nobody;
    const struct json *notes = json_at(job->tree, "spec.template.metadata.annotations");
    const struct object *pod = NULL;
    size_t cursor = 0;

    if (!json_get(notes, PLACE_ANNOTATION) || job->complete || job->failed)
        return;
    while ((pod = cache_next_owned(set->input->cache, &kind_pod, job->object->uid, &cursor))) {
        struct job_member member = job_observe_pod(set->input, &nobody, pod, set->arena);

        /* A kubelet restarts or ends what ended there, and keeps nothing. */
        if (member.held && !job_is_our_node(set->input, member.node, set->arena)) {
            member.held = false;
            member.phase = JOB_POD_RUNNING;
        }
        VEC_PUSH(set->arena, &set->pods, ((struct jobset_pod){member, job}));
    }
}

void jobset_place_observe(struct jobset *set)
{
    set->pods.count = 0;
    for (size_t i = 0; i < set->parts.count; i++)
        for (size_t j = 0; j < set->parts.items[i].jobs.count; j++)
            observe_job(set, &set->parts.items[i].jobs.items[j]);
}

void jobset_place_blame(struct jobset *set)
{
    const struct jobset_pod *worst = NULL;
    size_t running = 0;

    if (set->suspended || jobset_is_moving(set))
        return;
    for (size_t i = 0; i < set->pods.count; i++) {
        const struct jobset_pod *pod = &set->pods.items[i];

        running += pod->member.phase == JOB_POD_RUNNING && !pod->member.leaving;
        if (pod->member.held && !pod->member.leaving &&
            job_is_worse(&pod->member, worst ? &worst->member : NULL))
            worst = pod;
    }
    if (!worst)
        return;
    int64_t until_ms = job_peers_until(&worst->member.failure);
    if (running && set->input->now_ms < until_ms) {
        action_look_again(set->actions, until_ms);
        return;
    }
    worst->job->failed = worst->job->kept = true;
    worst->job->failed_ms = worst->member.failure.time_ms;
    worst->job->reason = STR("BackoffLimitExceeded"); /* it is the end of a Job that allows none */
    worst->job->message = job_exit_words(&worst->member.failure, set->arena);
}

static bool may_stay(const struct jobset *set, const struct job_member *member)
{
    bool fresh = !member->held || set->input->now_ms < member->failure.time_ms + KEPT_FRESH_MS;

    return member->place.set && !member->leaving && !member->taken && !member->lost_at_ms &&
           !member->away && !member->suspend.len && fresh &&
           (member->phase == JOB_POD_RUNNING || member->held) &&
           job_is_our_node(set->input, member->node, set->arena);
}

/* A Job that is complete has nothing to restart. */
static bool job_may_stay(const struct jobset *set, const struct jobset_job *job)
{
    int64_t there = 0;

    if (job->complete)
        return true;
    if (job->suspended || (job->failed && !job->kept))
        return false;
    for (size_t i = 0; i < set->pods.count; i++) {
        if (set->pods.items[i].job != job)
            continue;
        if (!may_stay(set, &set->pods.items[i].member))
            return false;
        there++;
    }
    return there == json_i64_or(json_at(job->tree, "spec.parallelism"), 1);
}

bool jobset_can_stay(const struct jobset *set)
{
    if (!set->stays || set->suspended || set->stale.count || jobset_is_moving(set))
        return false;
    for (size_t i = 0; i < set->parts.count; i++) {
        const struct jobset_part *part = &set->parts.items[i];

        if ((int64_t)part->jobs.count < part->replicas)
            return false;
        for (size_t j = 0; j < part->jobs.count; j++)
            if (!job_may_stay(set, &part->jobs.items[j]))
                return false;
    }
    return true;
}

/* ---- a round ---- */

static void say_moving(struct jobset *set, const char *truth)
{
    condition_set(set->arena, set->status,
                  &(struct condition){"RestartingJobSet", truth, REASON_IN_PLACE,
                                      STR("the pods stay, and all of their containers are started "
                                          "again together")},
                  set->input->now_ms);
}

void jobset_stay(struct jobset *set)
{
    json_add_i64(set->arena, set->status, JOBSET_ROUND_PAST, round_now(set));
    say_moving(set, "False"); /* so that its time is that of this round */
    say_moving(set, "True");
}

static int64_t limit_ms(const struct jobset *set)
{
    const struct json *moving = condition_find(set->status, "RestartingJobSet");
    int64_t since_ms = 0;

    (void)time_parse(json_str(json_get(moving, "lastTransitionTime")), &since_ms);
    return since_ms + ROUND_LIMIT_MS;
}

bool jobset_is_stuck(const struct jobset *set)
{
    return jobset_is_moving(set) && !set->suspended && set->input->now_ms >= limit_ms(set);
}

void jobset_give_up(struct jobset *set)
{
    end_round(set);
    say_moving(set, "False"); /* what comes next has a time of its own */
}

static void order(struct jobset *set, const struct job_member *member, bool go)
{
    struct json *patch = json_new_object(set->arena);
    struct json *notes = json_make_path(set->arena, patch, "metadata.annotations");

    json_add_str(set->arena, notes, PLACE_ANNOTATION, place_text(set->arena, round_now(set), go));
    if (go) /* nothing of the ranks that were there is said of those to come */
        json_set(notes, STR(RANKS_ANNOTATION), json_new_null(set->arena));
    action_patch(set->actions, member->object, patch);
}

/* Whether its containers are of a round before the one that is on. */
static bool is_late(const struct jobset *set, const struct job_member *member)
{
    return member->place.set && !member->leaving && !member->lost &&
           (member->phase == JOB_POD_RUNNING || member->held) && member->instance < round_now(set);
}

static bool is_told(const struct jobset *set, const struct job_member *member)
{
    return member->place.round == round_now(set);
}

/* All that ran has ended: no rank of the new round meets one of the old. */
static bool all_stopped(const struct jobset *set)
{
    for (size_t i = 0; i < set->pods.count; i++) {
        const struct job_member *member = &set->pods.items[i].member;

        if (is_late(set, member) && !(member->stopped && is_told(set, member)))
            return false;
    }
    return true;
}

void jobset_place_step(struct jobset *set)
{
    if (jobset_is_moving(set) && (set->suspended || set->stale.count || all_stopped(set)))
        end_round(set);
    bool moving = jobset_is_moving(set);
    for (size_t i = 0; i < set->pods.count && !set->suspended; i++) {
        const struct job_member *member = &set->pods.items[i].member;

        if (moving && is_late(set, member) && !is_told(set, member))
            order(set, member, false);
        else if (!moving && is_told(set, member) && !member->place.go && !member->leaving)
            order(set, member, true);
    }
    if (moving)
        action_look_again(set->actions, limit_ms(set));
}

/* ---- the end ---- */

/* A pod that failed is the end of such a Job. */
static bool allows_none(const struct jobset_job *job)
{
    return json_i64_or(json_at(job->tree, "spec.backoffLimit"), -1) == 0 &&
           str_is(json_str_at(job->tree, "spec.template.spec.restartPolicy"), "Never");
}

bool jobset_let_go(struct jobset *set, const struct jobset_job *job)
{
    bool failing = false;

    for (size_t i = 0; i < set->pods.count && allows_none(job); i++) {
        const struct job_member *member = &set->pods.items[i].member;
        struct str word = object_annotation(member->object, PLACE_ANNOTATION);

        if (set->pods.items[i].job != job || member->leaving)
            continue;
        failing =
            failing || member->held || str_is(word, PLACE_OVER) || member->phase == JOB_POD_FAILED;
        if (!member->held)
            continue;
        struct json *patch = json_new_object(set->arena);
        json_add_c(set->arena, json_make_path(set->arena, patch, "metadata.annotations"),
                   PLACE_ANNOTATION, PLACE_OVER);
        action_patch(set->actions, member->object, patch);
    }
    return failing;
}
