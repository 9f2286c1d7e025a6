#include "agent/lifecycle.h"

#include <assert.h>
#include <signal.h>

static void plan_order(struct run_plan *plan, enum run_verb verb, size_t container, int sig)
{
    assert(plan->count < RUN_ACTIONS_MAX);
    plan->actions[plan->count++] = (struct run_action){verb, container, sig};
}

static void plan_wake_at(struct run_plan *plan, int64_t when_ms)
{
    if (when_ms < plan->wake_ms)
        plan->wake_ms = when_ms;
}

static bool container_is_live(const struct run_container *c)
{
    return c->state == RUN_STARTING || c->state == RUN_RUNNING;
}

static bool container_is_main(const struct run_container *c)
{
    return !c->init && !c->ephemeral;
}

static bool container_restarts(const struct run *run, const struct run_container *c)
{
    if (c->ephemeral)
        return false;
    if (c->sidecar)
        return true;
    /* In place it is started again with its gang, not alone. */
    if (run->stays && !run->let_go && container_is_main(c))
        return false;
    /* An init container that has succeeded has done its work, whatever the policy. */
    if (c->end.code == 0 && c->init)
        return false;
    switch (run->policy) {
    case RUN_ALWAYS: return true;
    case RUN_ON_FAILURE: return c->end.code != 0;
    case RUN_NEVER: return false;
    }
    return false;
}

/* What began and ended so is begun again then. */
static int64_t backoff_next(int64_t *backoff_ms, int64_t started_ms, int64_t ended_ms)
{
    if (ended_ms - started_ms >= RUN_BACKOFF_RESET_MS)
        *backoff_ms = 0;
    int64_t after_ms = ended_ms + *backoff_ms;
    *backoff_ms = *backoff_ms ? *backoff_ms * 2 : RUN_BACKOFF_MIN_MS;
    if (*backoff_ms > RUN_BACKOFF_MAX_MS)
        *backoff_ms = RUN_BACKOFF_MAX_MS;
    return after_ms;
}

void lifecycle_shim_started(struct run_shim *shim, int64_t now_ms)
{
    shim->started_ms = now_ms;
    shim->after_ms = 0;
}

int64_t lifecycle_shim_gone(struct run_shim *shim, int64_t now_ms)
{
    if (!shim->after_ms)
        shim->after_ms = backoff_next(&shim->backoff_ms, shim->started_ms, now_ms);
    return shim->after_ms;
}

/* The next instance, after the back-off: the first restart is free. */
static void container_schedule_restart(struct run_container *c)
{
    c->start_after_ms = backoff_next(&c->backoff_ms, c->end.started_ms, c->end.ended_ms);
    c->previous = c->end;
    c->end = (struct run_end){0};
    c->state = RUN_WAITING;
    c->instance++;
    c->startup_passed = !c->has_startup_probe;
    c->probed_ready = false;
    c->post_start = c->pre_stop = HOOK_NONE;
    c->stop_ms = 0;
    c->term_sent = c->kill_sent = false;
}

/* ---- in place ---- */

/* It is of a round that is over. */
static bool container_is_late(const struct run *run, const struct run_container *c)
{
    return run->stays && container_is_main(c) && c->instance < run->round;
}

/* Until when a pod whose program has failed, or was stopped for the next round, is kept; 0: it is
 * not, or something of it runs. */
static int64_t run_held_until(const struct run *run)
{
    int64_t last_ms = 0;
    bool kept = false;

    if (!run->stays || run->stop_ms || run->let_go)
        return 0;
    for (size_t i = 0; i < run->count; i++) {
        const struct run_container *c = &run->containers[i];
        if (!container_is_main(c))
            continue;
        if (c->state != RUN_ENDED)
            return 0;
        kept = kept || c->end.code != 0 || container_is_late(run, c);
        if (c->end.ended_ms > last_ms)
            last_ms = c->end.ended_ms;
    }
    return kept ? last_ms + RUN_HOLD_MS : 0;
}

static void container_next_round(struct run *run, struct run_container *c, int64_t now_ms)
{
    if (container_is_live(c) && !c->stop_ms) {
        c->stop_ms = now_ms;
        c->stop_grace_ms = run->grace_ms < RUN_ROUND_GRACE_MS ? run->grace_ms : RUN_ROUND_GRACE_MS;
    } else if (c->state == RUN_ENDED && run->go) {
        c->backoff_ms = 0;
        container_schedule_restart(c);
        c->backoff_ms = 0;
        c->instance = run->round;
    }
}

static void container_start(struct run *run, size_t index, int64_t now_ms, struct run_plan *plan)
{
    struct run_container *c = &run->containers[index];
    if (now_ms < c->start_after_ms) {
        plan_wake_at(plan, c->start_after_ms);
        return;
    }
    c->startup_passed = !c->has_startup_probe;
    c->state = RUN_STARTING;
    plan_order(plan, RUN_START, index, 0);
}

/* One that never ran is of the round that is on. */
static void container_begin(struct run *run, size_t index, int64_t now_ms, struct run_plan *plan)
{
    struct run_container *c = &run->containers[index];
    if (container_is_late(run, c) && !run->go)
        return;
    if (container_is_late(run, c))
        c->instance = run->round;
    container_start(run, index, now_ms, plan);
}

/* preStop, then SIGTERM, then, when the time is over, SIGKILL. */
static void container_stop(struct run *run, size_t index, int64_t now_ms, struct run_plan *plan)
{
    struct run_container *c = &run->containers[index];
    if (!container_is_live(c))
        return;
    if (!c->stop_ms) {
        c->stop_ms = now_ms;
        c->stop_grace_ms = run->grace_ms;
        if (run->stop_ms) { /* the pod's grace counts from the pod's stop, also for sidecars */
            int64_t left = run->stop_ms + run->grace_ms - now_ms;
            c->stop_grace_ms = left > 0 ? left : 0;
        }
    }
    int64_t end_ms = c->stop_ms + c->stop_grace_ms;
    if (run->stop_ms && run->stop_ms + run->grace_ms < end_ms)
        end_ms = run->stop_ms + run->grace_ms; /* a later, shorter grace counts */
    if (c->has_pre_stop && c->pre_stop == HOOK_NONE && c->state == RUN_RUNNING && now_ms < end_ms) {
        c->pre_stop = HOOK_UNDER_WAY;
        plan_order(plan, RUN_PRE_STOP, index, 0);
    }
    bool hook_done = !c->has_pre_stop || c->pre_stop == HOOK_DONE || c->state == RUN_STARTING;
    if (!c->term_sent && hook_done) {
        c->term_sent = true;
        plan_order(plan, RUN_SIGNAL, index, SIGTERM);
    }
    if (now_ms >= end_ms && !c->kill_sent) {
        c->kill_sent = true;
        plan_order(plan, RUN_SIGNAL, index, SIGKILL);
    }
    if (!c->kill_sent)
        plan_wake_at(plan, end_ms);
}

static bool run_any_live(const struct run *run, bool sidecars)
{
    for (size_t i = 0; i < run->count; i++)
        if (run->containers[i].sidecar == sidecars && container_is_live(&run->containers[i]))
            return true;
    return false;
}

/* Everything but sidecars at once, then the sidecars, the last one first. */
static void run_stop_all(struct run *run, int64_t now_ms, struct run_plan *plan)
{
    for (size_t i = 0; i < run->count; i++)
        if (!run->containers[i].sidecar)
            container_stop(run, i, now_ms, plan);
    if (run_any_live(run, false)) {
        /* When the pod's time is over nobody waits for anybody. */
        if (run->stop_ms && now_ms >= run->stop_ms + run->grace_ms)
            for (size_t i = 0; i < run->count; i++)
                container_stop(run, i, now_ms, plan);
        return;
    }
    for (size_t i = run->count; i-- > 0;)
        if (container_is_live(&run->containers[i])) {
            container_stop(run, i, now_ms, plan);
            if (!run->stop_ms || now_ms < run->stop_ms + run->grace_ms)
                return;
        }
}

static bool container_init_failed(const struct run *run)
{
    for (size_t i = 0; i < run->count; i++) {
        const struct run_container *c = &run->containers[i];
        if (c->init && !c->sidecar && c->state == RUN_ENDED && c->end.code != 0)
            return true;
    }
    return false;
}

/* Starts what comes next of the init containers; true when the main ones may run. */
static bool run_step_init(struct run *run, int64_t now_ms, struct run_plan *plan)
{
    for (size_t i = 0; i < run->count && run->containers[i].init; i++) {
        struct run_container *c = &run->containers[i];
        if (c->state == RUN_WAITING)
            container_start(run, i, now_ms, plan);
        if (c->sidecar ? c->state != RUN_RUNNING || !c->startup_passed
                       : c->state != RUN_ENDED || c->end.code != 0) {
            /* A sidecar that has already let others start holds up nobody when it restarts. */
            if (c->sidecar && c->instance > 0 && lifecycle_is_initialized(run))
                continue;
            return false;
        }
    }
    return true;
}

static bool run_mains_over(const struct run *run)
{
    for (size_t i = 0; i < run->count; i++)
        if (container_is_main(&run->containers[i]) && run->containers[i].state != RUN_ENDED)
            return false;
    return true;
}

void lifecycle_step(struct run *run, int64_t now_ms, struct run_plan *plan)
{
    *plan = (struct run_plan){.wake_ms = INT64_MAX};
    if (run->stop_ms) {
        run_stop_all(run, now_ms, plan);
        return;
    }
    for (size_t i = 0; i < run->count; i++) {
        struct run_container *c = &run->containers[i];
        if (container_is_late(run, c))
            container_next_round(run, c, now_ms);
        else if (c->state == RUN_ENDED && container_restarts(run, c) &&
                 !(c->sidecar && run_mains_over(run)))
            container_schedule_restart(c);
        if (c->state == RUN_RUNNING && c->has_post_start && c->post_start == HOOK_NONE) {
            c->post_start = HOOK_UNDER_WAY;
            plan_order(plan, RUN_POST_START, i, 0);
        }
        if (c->stop_ms)
            container_stop(run, i, now_ms, plan);
    }
    /* Somebody may want to see why an init container does not end. */
    for (size_t i = 0; i < run->count && !run_mains_over(run); i++)
        if (run->containers[i].ephemeral && run->containers[i].state == RUN_WAITING)
            container_start(run, i, now_ms, plan);
    int64_t held_ms = run_held_until(run);
    if (held_ms > now_ms) {
        plan_wake_at(plan, held_ms);
        return;
    }
    if (held_ms > 0) {
        run->let_go = true;
        plan_wake_at(plan, now_ms + 1); /* what its own policy restarts alone, from now on */
    }
    if (run_mains_over(run) || container_init_failed(run)) {
        run_stop_all(run, now_ms, plan);
        return;
    }
    if (!run_step_init(run, now_ms, plan))
        return;
    for (size_t i = 0; i < run->count; i++)
        if (container_is_main(&run->containers[i]) && run->containers[i].state == RUN_WAITING)
            container_begin(run, i, now_ms, plan);
}

bool lifecycle_is_quiet(const struct run *run)
{
    return !run_any_live(run, false) && !run_any_live(run, true);
}

bool lifecycle_is_over(const struct run *run)
{
    if (!lifecycle_is_quiet(run))
        return false;
    if (run->stop_ms)
        return true;
    if (run_held_until(run))
        return false;
    for (size_t i = 0; i < run->count; i++) {
        const struct run_container *c = &run->containers[i];
        if (container_is_main(c) && (c->state != RUN_ENDED || container_restarts(run, c)))
            return container_init_failed(run) && run->policy == RUN_NEVER;
    }
    return true;
}

bool lifecycle_is_initialized(const struct run *run)
{
    for (size_t i = 0; i < run->count && run->containers[i].init; i++) {
        const struct run_container *c = &run->containers[i];
        bool up = c->state == RUN_RUNNING && c->startup_passed;
        if (c->sidecar ? !up && c->instance == 0 && c->state != RUN_ENDED
                       : c->state != RUN_ENDED || c->end.code != 0)
            return false;
    }
    return true;
}

bool lifecycle_is_ready(const struct run_container *c)
{
    return c->state == RUN_RUNNING && c->startup_passed &&
           (c->probed_ready || !c->has_readiness_probe);
}

unsigned lifecycle_restarts(const struct run *run, const struct run_container *c)
{
    bool due = c->state == RUN_WAITING || c->state == RUN_STARTING;

    return due && c->previous.set && c->instance && !run->stays ? c->instance - 1 : c->instance;
}

const char *lifecycle_phase(const struct run *run)
{
    size_t waiting = 0, live = 0, failed = 0, mains = 0;
    for (size_t i = 0; i < run->count; i++) {
        const struct run_container *c = &run->containers[i];
        if (!container_is_main(c))
            continue;
        mains++;
        live += c->state == RUN_RUNNING;
        bool again = c->state == RUN_STARTING && run->stays && c->previous.set;
        waiting +=
            (c->state == RUN_STARTING && !again) || (c->state == RUN_WAITING && !c->previous.set);
        live += again;
        /* Between two instances a pod that restarts counts as running. */
        live += c->state == RUN_WAITING && c->previous.set;
        failed += c->state == RUN_ENDED && c->end.code != 0;
        if (c->state == RUN_ENDED && !run->stop_ms && container_restarts(run, c))
            live++;
    }
    if (lifecycle_is_over(run)) {
        if (run->failed || container_init_failed(run) || failed)
            return "Failed";
        /* Stopped before it could begin: it has not succeeded. */
        return waiting || live ? "Failed" : "Succeeded";
    }
    if (waiting && !live)
        return "Pending";
    return waiting == mains ? "Pending" : "Running";
}
