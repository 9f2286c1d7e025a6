#include "api/launch.h"
#include "api/object.h"
#include "base/json_make.h"
#include "base/str.h"
#include "base/vec.h"
#include "control/core/action.h"
#include "control/core/control.h"
#include "control/job/job.h"
#include "control/job/job_engine.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The pods of a job: made together, restarted together, or (JOB_SCOPE_POD, job_each.c) each alone.
 *
 * Invariant: pods of two generations never exist side by side but while the older ones end. */

/* When a rank fails its peers lose their connections and fail too, and their pods may be heard of
 * first: the others have this long to report before one of them is named. */
#define FIRST_FAILURE_MS 1500
/* The same while all that ended were told to, or only speak of a peer that they lost: the one they
 * lost is still to be heard of. torchrun gives the ranks beside a failed one 30 s to end, and a node
 * that is silent counts as lost after 20 s, which is no failure of anybody. */
#define CULPRIT_MS     35000
#define LATER_GANG_MAX ((int64_t)1 << 32) /* a restart a second for a century */

/* Pods that ended hold nothing: until their successors are due they stay, and with them their logs.
 * One that its node keeps, to restart in place, has its GPUs. */
static bool is_kept(const struct job_run *run, const struct job_member *member)
{
    return member->phase >= JOB_POD_SUCCEEDED && !member->held && !member->taken &&
           !member->leaving && job_backoff_until(run) > run->input->now_ms;
}

static void remove_old(struct job_run *run)
{
    for (size_t i = 0; i < run->members.count; i++) {
        const struct job_member *member = &run->members.items[i];

        if (member->generation != run->state.generation && !is_kept(run, member))
            job_remove(run, member);
    }
}

/* What a pod lacks to meet the others by, they all do without from now on. That is no failure. */
static bool meets_otherwise(struct job_run *run, const struct job_member *failed)
{
    if (!run->model.may_meet_otherwise ||
        !str_contains(failed->failure.message, STR(LAUNCH_NO_ETCD)))
        return false;
    action_patch(
        &run->actions, run->model.object,
        json_make(run->arena, "{metadata: {annotations: {" JOB_ANNOTATION_MEETS ": 'c10d'}}}"));
    job_restart_held(run,
                     str_printf(run->arena,
                                "pod " STR_FMT " has no Python package python-etcd: the ranks meet "
                                "by c10d instead, in the same place; put it into the image, or say "
                                "rdzvBackend c10d",
                                STR_ARG(failed->object->name)));
    return true;
}

static void on_failure(struct job_run *run, const struct job_look *gang)
{
    if (meets_otherwise(run, gang->failed)) {
        remove_old(run);
        return;
    }
    if (!job_may_restart(run, gang->failed))
        return;
    if (job_can_stay(run, gang)) {
        job_stay(run);
        return;
    }
    job_restart_held(run, STR_NONE);
    remove_old(run);
}

/* The generation of the gang that has left its mark on the checkpoint volume; 0: nothing is said of one. Of what a pod says no
 * job's count of gangs comes near its end. */
static int64_t later_gang(const struct job_failure *failure)
{
    struct str rest = failure->message;
    struct str number;
    int64_t generation = 0;

    if (!str_starts(rest, STR(LAUNCH_FENCED)))
        return 0;
    rest = str_sub(rest, sizeof(LAUNCH_FENCED) - 1, rest.len);
    return str_cut(&rest, ';', &number) && str_to_i64(number, &generation) &&
                   generation < LATER_GANG_MAX
               ? generation
               : 0;
}

/* The whole gang was refused by its volume, because the job is that of an older store: it goes on behind
 * the gangs that this store has not heard of, at once and not one restart each. */
static bool on_later_gang(struct job_run *run, const struct job_look *gang)
{
    int64_t generation = gang->failed ? later_gang(&gang->failed->failure) : 0;

    if (generation <= run->state.generation)
        return false;
    if (!job_may_restart(run, gang->failed))
        return true;
    run->state.generation = generation;
    job_restart_held(run, STR_NONE);
    remove_old(run);
    return true;
}

static void on_disruption(struct job_run *run, const struct job_member *member)
{
    struct str words;

    if (!member)
        words = STR("a pod of the job was removed");
    else if (member->lost)
        words = str_printf(run->arena, "the node of pod " STR_FMT " is lost",
                           STR_ARG(member->object->name));
    else if (member->sick.len && !member->leaving && !member->taken)
        words = str_printf(run->arena, "pod " STR_FMT " leaves: " STR_FMT,
                           STR_ARG(member->object->name), STR_ARG(member->sick));
    else if (member->taken_for.len)
        words = str_printf(run->arena, "pod " STR_FMT " was evicted: " STR_FMT,
                           STR_ARG(member->object->name), STR_ARG(member->taken_for));
    else
        words = str_printf(run->arena, "pod " STR_FMT " was evicted or deleted",
                           STR_ARG(member->object->name));
    run->state.disruptions++;
    job_hold_end(run);
    job_next_generation(run);
    remove_old(run);
    job_say(
        run, member && (member->lost || member->sick.len) ? JOB_RESTARTING : JOB_PREEMPTED,
        str_printf(run->arena, STR_FMT "; the whole job starts again when it can", STR_ARG(words)));
}

/* A fixed gang knows its size from the start: with another one it starts anew. */
static void on_resize(struct job_run *run, const struct job_look *look)
{
    size_t from = look->size ? look->size : look->present;

    job_hold_end(run);
    job_next_generation(run);
    remove_old(run);
    job_say(run, JOB_RESTARTING,
            str_printf(run->arena,
                       "the job was scaled from %zu to %zu pods; the whole job starts again", from,
                       job_size(&run->model)));
}

/* Who waits for a node should know what ends that. */
static void say_lost(struct job_run *run)
{
    const struct job_member *lost = job_lost_awaited(run);

    if (lost)
        job_say(run, JOB_RESTARTING,
                str_printf(run->arena,
                           "the node of pod " STR_FMT " (" STR_FMT
                           ") is lost, and the pod may still train: the job starts again when the "
                           "node is back, or is deleted (onNodeLost: Wait)",
                           STR_ARG(lost->object->name), STR_ARG(lost->node)));
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

bool job_is_done(const struct job_run *run)
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

/* When the last of its pods ended; 0: that of one is not known. */
static int64_t last_end(const struct job_run *run)
{
    int64_t last_ms = 0;

    for (size_t i = 0; i < run->members.count; i++) {
        const struct job_member *member = &run->members.items[i];

        if (member->generation != run->state.generation || member->phase != JOB_POD_SUCCEEDED)
            continue;
        if (!member->ended_ms)
            return 0;
        last_ms = member->ended_ms > last_ms ? member->ended_ms : last_ms;
    }
    return last_ms;
}

/* ---- a gang ---- */

/* Elastic: a pod that failed or was taken is replaced alone while enough others go on. One that failed
 * while all are there restarts in place, with the others. */
static bool replace_alone(struct job_run *run, const struct job_look *gang)
{
    if (!gang->elastic || gang->staying < gang->min || job_lost_awaited(run))
        return false;
    if (gang->failed) {
        /* Out of restarts the job is over, and the caller says so. */
        if (run->model.max_restarts >= 0 && run->state.restarts >= run->model.max_restarts)
            return false;
        if (job_failure_is_final(&run->model, gang->failed) || !job_may_restart(run, gang->failed))
            return false;
        if (job_can_stay(run, gang)) {
            job_stay(run);
            return true;
        }
        job_remove(run, gang->failed);
    }
    if (gang->disrupted && (gang->disrupted->lost || gang->disrupted->sick.len))
        job_remove(run, gang->disrupted);
    job_create_missing(run, STR_NONE);
    job_say_started(run, gang);
    return true;
}

int64_t job_peers_until(const struct job_failure *failure)
{
    bool lost_peer = failure->evidence == JOB_EVIDENCE_PEER;
    bool victim = lost_peer || failure->evidence == JOB_EVIDENCE_TOLD;
    int64_t from_ms = failure->first_ms ? failure->first_ms : lost_peer ? failure->time_ms : 0;

    return from_ms ? from_ms + (victim ? CULPRIT_MS : FIRST_FAILURE_MS) : 0;
}

static bool awaits_peers(struct job_run *run, const struct job_look *gang)
{
    int64_t until_ms = job_peers_until(&gang->failed->failure);

    if (!gang->running || run->input->now_ms >= until_ms)
        return false;
    action_look_again(&run->actions, until_ms);
    return true;
}

static void say_awaits(struct job_run *run, const struct job_look *gang)
{
    job_say_started(run, gang);
    if (gang->failed->failure.evidence == JOB_EVIDENCE_PEER)
        job_say(run, JOB_RUNNING,
                str_printf(run->arena,
                           "pod " STR_FMT " ended because it lost a peer; waiting to hear from the "
                           "%zu pods that have not ended",
                           STR_ARG(gang->failed->object->name), gang->running));
}

/* What is due before pods are made: true when it was something. */
static bool repair(struct job_run *run, const struct job_look *gang)
{
    bool missing = gang->present < gang->wanted && (run->state.run_start_ms || job_is_kept(run));
    bool resized = gang->surplus || (gang->size && gang->size != job_size(&run->model));

    if (gang->elastic && gang->surplus)
        job_remove_surplus(run);
    if (on_later_gang(run, gang))
        return true;
    if ((gang->failed || gang->disrupted || missing) && replace_alone(run, gang))
        return true;
    if (!gang->elastic && resized) {
        on_resize(run, gang);
        return true;
    }
    if (((gang->disrupted && gang->started) || missing) && job_spare_take(run))
        return true;
    /* What was evicted takes its peers down with it: that is no failure of theirs. */
    if (gang->disrupted && gang->started)
        on_disruption(run, gang->disrupted);
    else if (gang->failed && awaits_peers(run, gang))
        say_awaits(run, gang);
    else if (gang->failed)
        on_failure(run, gang);
    else if (missing)
        on_disruption(run, NULL);
    else
        return false;
    return true;
}

static void keep_gang(struct job_run *run, const struct job_look *gang)
{
    int64_t until_ms = job_backoff_until(run);

    if (repair(run, gang) || job_awaits_gpus(run) || job_place_step(run))
        return;
    if (run->state.phase == JOB_RESTARTING && (gang->old || gang->present < gang->wanted))
        job_hold_again(run);
    if (gang->old) {
        say_lost(run);
        if (until_ms > run->input->now_ms)
            action_look_again(&run->actions, until_ms);
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
    if (run->state.phase == JOB_RUNNING && gang->started >= gang->wanted)
        job_hold_done(run);
    if (run->state.phase == JOB_RUNNING)
        job_watch(run);
}

void job_gang(struct job_run *run)
{
    struct job_look look = job_look(run);

    run->state.in_place = look.in_place;
    remove_old(run);
    look_again_for_nodes(run);
    if (job_is_done(run)) {
        run->state.exit_code = 0;
        job_finish_at(run, JOB_SUCCEEDED, STR("all ranks are done"), last_end(run));
    } else if (run->model.scope == JOB_SCOPE_POD) {
        job_each(run, &look);
    } else {
        keep_gang(run, &look);
    }
}
