#include "agent/lifecycle.h"
#include "base/count.h"
#include "test.h"

#include <signal.h>
#include <string.h>

/* A pod of up to four containers and a hand that plays the shim. */
struct play {
    struct run run;
    struct run_container containers[4];
    struct run_plan plan;
};

static void setup(struct play *play, enum run_policy policy, const char *shape)
{
    *play = (struct play){.run = {.policy = policy, .grace_ms = 30000}};
    play->run.containers = play->containers;
    /* i: init container, s: sidecar, m: main, e: ephemeral */
    for (; shape[play->run.count]; play->run.count++) {
        struct run_container *c = &play->containers[play->run.count];
        c->ephemeral = shape[play->run.count] == 'e';
        c->init = shape[play->run.count] != 'm' && !c->ephemeral;
        c->sidecar = shape[play->run.count] == 's';
        c->startup_passed = true;
    }
}

static void started(struct play *play, size_t index, int64_t now_ms)
{
    play->containers[index].state = RUN_RUNNING;
    play->containers[index].started_ms = now_ms;
}

static void ended(struct play *play, size_t index, int code, int64_t now_ms)
{
    struct run_container *c = &play->containers[index];
    c->state = RUN_ENDED;
    c->end = (struct run_end){
        .set = true, .code = code, .started_ms = c->started_ms, .ended_ms = now_ms};
}

/* "S0 T1 K2 P3": what the step ordered. */
static const char *step(struct play *play, int64_t now_ms)
{
    static char text[256];
    char *at = text;
    lifecycle_step(&play->run, now_ms, &play->plan);
    for (size_t i = 0; i < play->plan.count; i++) {
        const struct run_action *action = &play->plan.actions[i];
        char verb = action->verb == RUN_START        ? 'S'
                    : action->verb == RUN_POST_START ? 'H'
                    : action->verb == RUN_PRE_STOP   ? 'P'
                    : action->signal == SIGKILL      ? 'K'
                                                     : 'T';
        if (i)
            *at++ = ' ';
        *at++ = verb;
        *at++ = (char)('0' + action->container);
    }
    *at = '\0';
    return text;
}

TEST(an_ephemeral_container_starts_once_and_decides_nothing)
{
    struct play play;
    setup(&play, RUN_ALWAYS, "ime");
    EXPECT(strcmp(step(&play, 0), "S2 S0") == 0);
    started(&play, 2, 0);
    EXPECT(strcmp(lifecycle_phase(&play.run), "Pending") == 0);
    ended(&play, 2, 3, 1);
    started(&play, 0, 1);
    ended(&play, 0, 0, 2);
    EXPECT(strcmp(step(&play, 2), "S1") == 0);
    started(&play, 1, 2);
    EXPECT(strcmp(step(&play, 3), "") == 0);
    EXPECT(strcmp(lifecycle_phase(&play.run), "Running") == 0);
    play.run.policy = RUN_NEVER;
    ended(&play, 1, 0, 4);
    EXPECT(lifecycle_is_over(&play.run));
    EXPECT(strcmp(lifecycle_phase(&play.run), "Succeeded") == 0);
    /* One that runs is stopped with the pod that has done its work. */
    setup(&play, RUN_NEVER, "me");
    (void)step(&play, 0);
    started(&play, 0, 0);
    started(&play, 1, 0);
    ended(&play, 0, 0, 1);
    EXPECT(!lifecycle_is_over(&play.run));
    EXPECT(strcmp(step(&play, 2), "T1") == 0);
}

TEST(init_containers_start_in_turn)
{
    struct play play;
    setup(&play, RUN_NEVER, "iimm");
    EXPECT(strcmp(step(&play, 0), "S0") == 0);
    started(&play, 0, 0);
    EXPECT(strcmp(step(&play, 1), "") == 0);
    ended(&play, 0, 0, 2);
    EXPECT(strcmp(step(&play, 2), "S1") == 0);
    ended(&play, 1, 0, 3);
    EXPECT(strcmp(lifecycle_phase(&play.run), "Pending") == 0);
    EXPECT(strcmp(step(&play, 3), "S2 S3") == 0);
    started(&play, 2, 3);
    started(&play, 3, 3);
    EXPECT(strcmp(lifecycle_phase(&play.run), "Running") == 0);
    ended(&play, 2, 0, 4);
    ended(&play, 3, 0, 4);
    EXPECT(strcmp(step(&play, 4), "") == 0);
    EXPECT(lifecycle_is_over(&play.run));
    EXPECT(strcmp(lifecycle_phase(&play.run), "Succeeded") == 0);
}

TEST(a_failed_init_container_fails_a_pod_that_never_restarts)
{
    struct play play;
    setup(&play, RUN_NEVER, "im");
    (void)step(&play, 0);
    started(&play, 0, 0);
    ended(&play, 0, 3, 1);
    EXPECT(strcmp(step(&play, 1), "") == 0);
    EXPECT(lifecycle_is_over(&play.run));
    EXPECT(strcmp(lifecycle_phase(&play.run), "Failed") == 0);
}

TEST(restarts_follow_the_policy)
{
    static const struct {
        enum run_policy policy;
        int code;
        const char *next;
        const char *phase;
        const char *why;
    } rows[] = {
        {RUN_ALWAYS, 0, "S0", "Running", "Always restarts a success"},
        {RUN_ALWAYS, 1, "S0", "Running", "Always restarts a failure"},
        {RUN_ON_FAILURE, 0, "", "Succeeded", "OnFailure leaves a success"},
        {RUN_ON_FAILURE, 1, "S0", "Running", "OnFailure restarts a failure"},
        {RUN_NEVER, 0, "", "Succeeded", "Never leaves a success"},
        {RUN_NEVER, 1, "", "Failed", "Never leaves a failure"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct play play;
        test_case(rows[i].why);
        setup(&play, rows[i].policy, "m");
        (void)step(&play, 0);
        started(&play, 0, 0);
        ended(&play, 0, rows[i].code, 1);
        EXPECT(strcmp(lifecycle_phase(&play.run), rows[i].phase) == 0);
        EXPECT(strcmp(step(&play, 1), rows[i].next) == 0);
    }
}

TEST(a_restart_counts_when_the_container_runs_again)
{
    struct play play;

    setup(&play, RUN_ALWAYS, "m");
    (void)step(&play, 0);
    started(&play, 0, 0);
    EXPECT(lifecycle_restarts(&play.run, &play.containers[0]) == 0);
    ended(&play, 0, 1, 1);
    (void)step(&play, 1); /* the first is free: it is being started */
    EXPECT(play.containers[0].state == RUN_STARTING && play.containers[0].instance == 1);
    EXPECT(lifecycle_restarts(&play.run, &play.containers[0]) == 0);
    started(&play, 0, 2);
    EXPECT(lifecycle_restarts(&play.run, &play.containers[0]) == 1);
    ended(&play, 0, 1, 3);
    EXPECT(lifecycle_restarts(&play.run, &play.containers[0]) == 1);
    (void)step(&play, 3);
    EXPECT(play.containers[0].state == RUN_WAITING);
    EXPECT(lifecycle_restarts(&play.run, &play.containers[0]) == 1);
}

TEST(the_back_off_doubles_from_the_second_restart_and_is_forgiven)
{
    struct play play;
    int64_t now = 0;
    static const int64_t waits[] = {0, 10000, 20000, 40000, 80000, 160000, 300000, 300000};
    setup(&play, RUN_ALWAYS, "m");
    EXPECT(strcmp(step(&play, now), "S0") == 0);
    for (size_t i = 0; i < COUNT_OF(waits); i++) {
        started(&play, 0, now);
        ended(&play, 0, 1, ++now);
        const char *orders = step(&play, now);
        if (waits[i]) {
            EXPECT(strcmp(orders, "") == 0);
            EXPECT(play.plan.wake_ms == now + waits[i]);
            now += waits[i];
            orders = step(&play, now);
        }
        EXPECT(strcmp(orders, "S0") == 0);
    }
    started(&play, 0, now);
    ended(&play, 0, 1, now += RUN_BACKOFF_RESET_MS);
    EXPECT(strcmp(step(&play, now), "S0") == 0);
    EXPECT(play.containers[0].instance == 9);
}

TEST(stopping_asks_then_waits_then_kills)
{
    struct play play;
    setup(&play, RUN_ALWAYS, "mm");
    play.containers[1].has_pre_stop = true;
    (void)step(&play, 0);
    started(&play, 0, 0);
    started(&play, 1, 0);
    play.run.stop_ms = 100;
    EXPECT(strcmp(step(&play, 100), "T0 P1") == 0);
    EXPECT(play.plan.wake_ms == 30100);
    play.containers[1].pre_stop = HOOK_DONE;
    EXPECT(strcmp(step(&play, 200), "T1") == 0);
    ended(&play, 0, 0, 300);
    EXPECT(strcmp(step(&play, 300), "") == 0);
    EXPECT(strcmp(step(&play, 30100), "K1") == 0);
    EXPECT(!lifecycle_is_over(&play.run));
    ended(&play, 1, 137, 30101);
    EXPECT(strcmp(step(&play, 30101), "") == 0);
    EXPECT(lifecycle_is_over(&play.run));
}

/* kubectl delete, and then kubectl delete --grace-period=2 or --now. */
TEST(a_second_stop_with_a_shorter_grace_hurries)
{
    struct play play;
    setup(&play, RUN_ALWAYS, "m");
    (void)step(&play, 0);
    started(&play, 0, 0);
    play.run.stop_ms = 100;
    EXPECT(strcmp(step(&play, 100), "T0") == 0);
    EXPECT(play.plan.wake_ms == 30100);
    play.run.grace_ms = 2000;
    EXPECT(strcmp(step(&play, 1000), "") == 0);
    EXPECT(play.plan.wake_ms == 2100);
    EXPECT(strcmp(step(&play, 2100), "K0") == 0);
}

TEST(sidecars_start_first_restart_always_and_end_last)
{
    struct play play;
    setup(&play, RUN_NEVER, "sm");
    play.containers[0].has_startup_probe = true;
    EXPECT(strcmp(step(&play, 0), "S0") == 0);
    started(&play, 0, 0);
    EXPECT(strcmp(step(&play, 1), "") == 0);
    play.containers[0].startup_passed = true;
    EXPECT(strcmp(step(&play, 2), "S1") == 0);
    started(&play, 1, 2);
    ended(&play, 0, 1, 3);
    EXPECT(strcmp(step(&play, 3), "S0") == 0);
    started(&play, 0, 3);
    ended(&play, 1, 0, 4);
    EXPECT(strcmp(step(&play, 4), "T0") == 0);
    EXPECT(!lifecycle_is_over(&play.run));
    ended(&play, 0, 143, 5);
    EXPECT(strcmp(step(&play, 5), "") == 0);
    EXPECT(lifecycle_is_over(&play.run));
    EXPECT(strcmp(lifecycle_phase(&play.run), "Succeeded") == 0);
}

TEST(a_pod_stopped_for_its_own_fault_fails)
{
    struct play play;
    setup(&play, RUN_ALWAYS, "m");
    (void)step(&play, 0);
    started(&play, 0, 0);
    play.run.stop_ms = 1;
    play.run.failed = true;
    (void)step(&play, 1);
    ended(&play, 0, 0, 2);
    EXPECT(strcmp(lifecycle_phase(&play.run), "Failed") == 0);
}

TEST(a_pod_that_restarts_in_place_stays_when_its_program_fails)
{
    struct play play;

    setup(&play, RUN_NEVER, "sm");
    play.run.stays = play.run.go = true;
    EXPECT(strcmp(step(&play, 0), "S0") == 0);
    started(&play, 0, 0);
    EXPECT(strcmp(step(&play, 0), "S1") == 0);
    started(&play, 1, 0);
    ended(&play, 1, 1, 5000);
    EXPECT(strcmp(step(&play, 5000), "") == 0); /* its sidecar runs on */
    EXPECT(!lifecycle_is_over(&play.run));
    EXPECT(strcmp(lifecycle_phase(&play.run), "Running") == 0);
    play.run.round = 1;
    play.run.go = false;
    EXPECT(strcmp(step(&play, 6000), "") == 0);
    play.run.go = true;
    EXPECT(strcmp(step(&play, 7000), "S1") == 0);
    EXPECT(play.containers[1].instance == 1);
    EXPECT(strcmp(lifecycle_phase(&play.run), "Running") == 0);
    started(&play, 1, 7000);
    EXPECT(strcmp(step(&play, 7000), "") == 0);
}

TEST(a_container_of_an_earlier_round_is_given_one_second_to_end)
{
    struct play play;

    setup(&play, RUN_NEVER, "m");
    play.run.stays = play.run.go = true;
    EXPECT(strcmp(step(&play, 0), "S0") == 0);
    started(&play, 0, 0);
    play.run.round = 1;
    play.run.go = false;
    EXPECT(strcmp(step(&play, 1000), "T0") == 0);
    EXPECT(strcmp(step(&play, 2000), "K0") == 0);
    ended(&play, 0, 0, 2000); /* whatever its status: it was told to */
    EXPECT(strcmp(step(&play, 2000), "") == 0);
    EXPECT(!lifecycle_is_over(&play.run));
    play.run.go = true;
    EXPECT(strcmp(step(&play, 2000), "S0") == 0);
}

TEST(a_pod_that_nobody_asks_for_again_has_failed)
{
    struct play play;

    setup(&play, RUN_NEVER, "m");
    play.run.stays = play.run.go = true;
    (void)step(&play, 0);
    started(&play, 0, 0);
    ended(&play, 0, 3, 1000);
    (void)step(&play, 1000);
    EXPECT(play.plan.wake_ms == 1000 + RUN_HOLD_MS);
    EXPECT(!lifecycle_is_over(&play.run));
    (void)step(&play, 1000 + RUN_HOLD_MS);
    EXPECT(lifecycle_is_over(&play.run));
    EXPECT(strcmp(lifecycle_phase(&play.run), "Failed") == 0);
}

TEST(a_program_that_would_be_restarted_alone_waits_for_its_gang)
{
    struct play play;

    setup(&play, RUN_ON_FAILURE, "m");
    play.run.stays = play.run.go = true;
    (void)step(&play, 0);
    started(&play, 0, 0);
    ended(&play, 0, 3, 1000);
    EXPECT(strcmp(step(&play, 1000), "") == 0);
    EXPECT(!lifecycle_is_over(&play.run));
    EXPECT(strcmp(lifecycle_phase(&play.run), "Running") == 0);
    play.run.round = 1;
    EXPECT(strcmp(step(&play, 2000), "S0") == 0);
    started(&play, 0, 2000);
    /* Nobody asks for it any more: it is restarted as its pod says. */
    ended(&play, 0, 3, 3000);
    EXPECT(strcmp(step(&play, 3000), "") == 0);
    EXPECT(play.plan.wake_ms == 3000 + RUN_HOLD_MS);
    (void)step(&play, 3000 + RUN_HOLD_MS);
    EXPECT(!lifecycle_is_over(&play.run));
    EXPECT(play.plan.wake_ms == 3001 + RUN_HOLD_MS);
    EXPECT(strcmp(step(&play, 3001 + RUN_HOLD_MS), "S0") == 0);
    EXPECT(play.containers[0].instance == 2);
}

TEST(a_shim_that_does_not_stay_is_started_less_and_less_often)
{
    struct run_shim shim = {0};
    int64_t now_ms = 1000000000;

    EXPECT(lifecycle_shim_gone(&shim, now_ms) == now_ms); /* of an earlier muster */
    lifecycle_shim_started(&shim, now_ms);
    EXPECT(lifecycle_shim_gone(&shim, now_ms + 5) == now_ms + 5 + RUN_BACKOFF_MIN_MS);
    EXPECT(lifecycle_shim_gone(&shim, now_ms + 9) == now_ms + 5 + RUN_BACKOFF_MIN_MS);
    for (int i = 0; i < 10; i++) {
        lifecycle_shim_started(&shim, now_ms);
        EXPECT(lifecycle_shim_gone(&shim, now_ms) <= now_ms + RUN_BACKOFF_MAX_MS);
    }
    EXPECT(lifecycle_shim_gone(&shim, now_ms) == now_ms + RUN_BACKOFF_MAX_MS);
    lifecycle_shim_started(&shim, now_ms);
    now_ms += RUN_BACKOFF_RESET_MS; /* it stayed: all is forgiven */
    EXPECT(lifecycle_shim_gone(&shim, now_ms) == now_ms);
}
