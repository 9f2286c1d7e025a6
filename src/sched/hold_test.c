#include "base/str.h"
#include "sched/sched.h"
#include "sched/spec.h"
#include "sched/world_test.h"
#include "test.h"

#include <stdbool.h>
#include <stdint.h>

#define HOLD_MS 60000
#define HOUR_MS INT64_C(3600000)

/* Two nodes of four GPUs, one for each pod of the gang "a"; "rival" waits for one of them. */
struct hold_case {
    struct cluster c;
    int64_t made; /* when the pods of the gang were */
    int64_t hold_ms;
    int64_t ended; /* when those that failed did; 0: nobody says */
};

static void gang_group(struct hold_case *t, int64_t until_ms, int64_t min)
{
    sched_put_group(t->c.sched, &(struct sched_group){.ns = STR("ns"),
                                                      .name = STR("a"),
                                                      .queue = STR("q"),
                                                      .min_member = min,
                                                      .created_ms = t->made,
                                                      .has_priority = true,
                                                      .priority = 50,
                                                      .hold_until_ms = until_ms});
}

static void gang_pod(struct hold_case *t,
                     int64_t index,
                     const char *uid,
                     enum sched_phase phase,
                     const char *node)
{
    sched_put_pod(t->c.sched, &(struct sched_pod){
                                  .ns = STR("ns"),
                                  .name = str_printf(&t->c.arena, "a-%lld", (long long)index),
                                  .uid = str_printf(&t->c.arena, "%s%lld", uid, (long long)index),
                                  .group = STR("a"),
                                  .created_ms = t->made,
                                  .cpu_milli = 1000,
                                  .memory_bytes = INT64_C(1) << 30,
                                  .gpus = 4,
                                  .role_rank = 2,
                                  .hold_ms = t->hold_ms,
                                  .ended_ms = phase == SCHED_FAILED ? t->ended : 0,
                                  .phase = phase,
                                  .node = str_from(node)});
}

static void gang_opens(struct hold_case *t, uint64_t quirks)
{
    cluster_open(&t->c, quirks);
    t->made = t->c.now;
    t->hold_ms = HOLD_MS;
    t->ended = 0;
    cluster_queue(&t->c, "q", SCHED_UNLIMITED, SCHED_UNLIMITED);
    cluster_queue(&t->c, "r", SCHED_UNLIMITED, SCHED_UNLIMITED);
    cluster_node(&t->c, "n0", 4);
    cluster_node(&t->c, "n1", 4);
    gang_group(t, 0, 2);
}

static void gang_runs(struct hold_case *t, uint64_t quirks)
{
    gang_opens(t, quirks);
    gang_pod(t, 0, "u", SCHED_RUNNING, "n0");
    gang_pod(t, 1, "u", SCHED_RUNNING, "n1");
    cluster_decide(&t->c, 1000);
}

static void rival_waits(struct hold_case *t, int64_t priority)
{
    cluster_put(&t->c, &(struct job){.name = "rival", .gpus = 4, .priority = priority});
}

/* A rank fails, the controller decides, the other pod is deleted, both are gone. */
static void gang_ends(struct hold_case *t)
{
    gang_pod(t, 1, "u", SCHED_FAILED, "n1");
    cluster_decide(&t->c, 100);
    EXPECT(!cluster_bound(&t->c, "rival-0"));
    gang_group(t, t->c.now + HOLD_MS, 2);
    gang_pod(t, 0, "u", SCHED_RELEASING, "n0");
    cluster_decide(&t->c, 100);
    EXPECT(!cluster_bound(&t->c, "rival-0") && !cluster_promised(&t->c, "rival-0"));
    cluster_drop(&t->c, "a-0");
    cluster_drop(&t->c, "a-1");
    cluster_decide(&t->c, 100);
    EXPECT(!cluster_bound(&t->c, "rival-0") && t->c.plan.evict_count == 0);
}

static void gang_returns(struct hold_case *t)
{
    t->made = t->c.now;
    gang_pod(t, 0, "v", SCHED_PENDING, "");
    gang_pod(t, 1, "v", SCHED_PENDING, "");
}

TEST(a_gang_that_restarts_finds_its_room_held)
{
    struct hold_case t;

    gang_runs(&t, SCHED_QUIRKS_NONE);
    rival_waits(&t, 50);
    gang_ends(&t);
    EXPECT(cluster_used(&t.c, "q") > 7.5);
    const struct sched_waiting *waiting = cluster_waiting(&t.c, "rival");
    EXPECT(waiting && str_contains(waiting->message, STR("8 GPUs are held for the restart of ns/a "
                                                         "until ")));
    gang_returns(&t);
    cluster_decide(&t.c, 100);
    EXPECT(cluster_bound(&t.c, "a-0") && cluster_bound(&t.c, "a-1"));
    EXPECT(str_is(cluster_bind(&t.c, "a-0")->node, "n0"));
    EXPECT(str_is(cluster_bind(&t.c, "a-1")->node, "n1"));
    EXPECT(!cluster_bound(&t.c, "rival-0"));
    cluster_decide(&t.c, 2 * HOLD_MS);
    EXPECT(!cluster_bound(&t.c, "rival-0") && cluster_used(&t.c, "q") < 8.5);
    cluster_close(&t.c);
}

TEST(kai_holds_nothing_for_a_restart)
{
    struct hold_case t;

    gang_runs(&t, SCHED_QUIRKS_ALL & ~SCHED_QUIRK(GROUP_BY_NAME));
    rival_waits(&t, 50);
    gang_pod(&t, 1, "u", SCHED_FAILED, "n1");
    cluster_decide(&t.c, 100);
    EXPECT(cluster_bound(&t.c, "rival-0"));
    cluster_close(&t.c);
}

TEST(what_arrives_first_of_a_gang_does_not_start_alone)
{
    struct hold_case t;

    gang_runs(&t, SCHED_QUIRKS_NONE);
    cluster_node(&t.c, "n2", 4);
    gang_ends(&t);
    t.made = t.c.now;
    gang_pod(&t, 0, "v", SCHED_PENDING, "");
    cluster_decide(&t.c, 100);
    EXPECT(t.c.plan.bind_count == 0);
    gang_pod(&t, 1, "v", SCHED_PENDING, "");
    cluster_decide(&t.c, 100);
    EXPECT(t.c.plan.bind_count == 2);
    cluster_close(&t.c);
}

TEST(a_hold_ends_with_its_time)
{
    struct hold_case t;

    gang_runs(&t, SCHED_QUIRKS_NONE);
    rival_waits(&t, 50);
    gang_ends(&t);
    EXPECT(t.c.plan.next_wake_ms > t.c.now && t.c.plan.next_wake_ms <= t.c.now + HOLD_MS);
    cluster_decide(&t.c, HOLD_MS);
    EXPECT(cluster_bound(&t.c, "rival-0"));
    gang_returns(&t);
    cluster_decide(&t.c, 100);
    EXPECT(t.c.plan.bind_count == 0);
    cluster_close(&t.c);
}

TEST(a_failure_that_nobody_decides_on_is_held_for_the_time_its_pod_says)
{
    struct hold_case t;

    gang_runs(&t, SCHED_QUIRKS_NONE);
    rival_waits(&t, 50);
    gang_pod(&t, 1, "u", SCHED_FAILED, "n1");
    cluster_decide(&t.c, 100);
    cluster_decide(&t.c, HOLD_MS - 1000);
    EXPECT(!cluster_bound(&t.c, "rival-0"));
    cluster_decide(&t.c, 1000);
    EXPECT(cluster_bound(&t.c, "rival-0"));
    cluster_close(&t.c);
}

TEST(a_time_that_is_over_takes_the_hold_back)
{
    struct hold_case t;

    gang_runs(&t, SCHED_QUIRKS_NONE);
    rival_waits(&t, 50);
    gang_ends(&t);
    gang_group(&t, t.c.now, 2); /* suspended, or failed for good */
    cluster_decide(&t.c, 100);
    EXPECT(cluster_bound(&t.c, "rival-0"));
    cluster_close(&t.c);
}

TEST(a_hold_ends_with_its_group)
{
    struct hold_case t;

    gang_runs(&t, SCHED_QUIRKS_NONE);
    rival_waits(&t, 50);
    gang_ends(&t);
    sched_drop_group(t.c.sched, STR("ns"), STR("a"));
    cluster_decide(&t.c, 100);
    EXPECT(cluster_bound(&t.c, "rival-0"));
    cluster_close(&t.c);
}

TEST(a_hold_does_not_pass_to_another_group_of_the_same_name)
{
    struct hold_case t;

    gang_runs(&t, SCHED_QUIRKS_NONE);
    rival_waits(&t, 50);
    gang_ends(&t);
    sched_drop_group(t.c.sched, STR("ns"), STR("a"));
    gang_group(&t, 0, 2);
    cluster_decide(&t.c, 100);
    EXPECT(cluster_bound(&t.c, "rival-0"));
    cluster_close(&t.c);
}

TEST(room_on_a_node_that_is_cordoned_is_not_held)
{
    struct hold_case t;

    gang_runs(&t, SCHED_QUIRKS_NONE);
    gang_ends(&t);
    cluster_node(&t.c, "n2", 4);
    sched_put_node(t.c.sched, &(struct sched_node){.name = STR("n0"),
                                                   .cpu_milli = 64000,
                                                   .memory_bytes = INT64_C(1) << 38,
                                                   .gpus = 4,
                                                   .pods = 110,
                                                   .unschedulable = true});
    gang_returns(&t);
    cluster_decide(&t.c, 100);
    EXPECT(cluster_bound(&t.c, "a-0") && cluster_bound(&t.c, "a-1"));
    EXPECT(!str_is(cluster_bind(&t.c, "a-0")->node, "n0"));
    EXPECT(!str_is(cluster_bind(&t.c, "a-1")->node, "n0"));
    cluster_close(&t.c);
}

TEST(held_room_is_taken_by_whoever_may_evict_the_gang)
{
    struct hold_case t;

    gang_runs(&t, SCHED_QUIRKS_NONE);
    gang_ends(&t);
    rival_waits(&t, 75);
    cluster_decide(&t.c, 100);
    EXPECT(t.c.plan.evict_count == 0); /* there is nobody to be told */
    cluster_decide(&t.c, 100);
    EXPECT(cluster_bound(&t.c, "rival-0"));
    cluster_close(&t.c);
}

TEST(an_evicted_gang_holds_nothing)
{
    struct hold_case t;

    gang_runs(&t, SCHED_QUIRKS_NONE);
    rival_waits(&t, 75);
    cluster_decide(&t.c, 100);
    EXPECT(cluster_evicted(&t.c, "a-0") && cluster_evicted(&t.c, "a-1"));
    gang_pod(&t, 0, "u", SCHED_FAILED, "n0");
    gang_pod(&t, 1, "u", SCHED_FAILED, "n1");
    cluster_decide(&t.c, 100);
    EXPECT(cluster_bound(&t.c, "rival-0"));
    cluster_close(&t.c);
}

TEST(of_an_elastic_gang_the_place_of_one_pod_is_held)
{
    struct hold_case t;

    gang_runs(&t, SCHED_QUIRKS_NONE);
    gang_group(&t, 0, 1);
    rival_waits(&t, 50);
    gang_pod(&t, 1, "u", SCHED_FAILED, "n1");
    cluster_decide(&t.c, 100);
    cluster_drop(&t.c, "a-1");
    cluster_decide(&t.c, 100);
    EXPECT(!cluster_bound(&t.c, "rival-0"));
    t.made = t.c.now;
    gang_pod(&t, 1, "v", SCHED_PENDING, "");
    cluster_decide(&t.c, 100);
    EXPECT(cluster_bound(&t.c, "a-1") && !cluster_bound(&t.c, "rival-0"));
    cluster_close(&t.c);
}

TEST(a_pod_that_succeeded_holds_nothing)
{
    struct hold_case t;

    gang_runs(&t, SCHED_QUIRKS_NONE);
    rival_waits(&t, 50);
    gang_pod(&t, 1, "u", SCHED_SUCCEEDED, "n1");
    cluster_decide(&t.c, 100);
    EXPECT(cluster_bound(&t.c, "rival-0"));
    cluster_close(&t.c);
}

TEST(nobody_holds_room_for_longer_than_an_hour_whatever_a_pod_says)
{
    struct hold_case t;

    gang_runs(&t, SCHED_QUIRKS_NONE);
    t.hold_ms = INT64_MAX;
    gang_pod(&t, 1, "u", SCHED_RUNNING, "n1");
    rival_waits(&t, 50);
    gang_pod(&t, 1, "u", SCHED_FAILED, "n1");
    cluster_decide(&t.c, 100);
    cluster_decide(&t.c, HOUR_MS - 1000);
    EXPECT(!cluster_bound(&t.c, "rival-0"));
    cluster_decide(&t.c, 1000);
    EXPECT(cluster_bound(&t.c, "rival-0"));
    cluster_close(&t.c);
}

TEST(nobody_holds_room_for_longer_than_an_hour_whatever_a_group_says)
{
    struct hold_case t;

    gang_runs(&t, SCHED_QUIRKS_NONE);
    rival_waits(&t, 50);
    gang_ends(&t);
    gang_group(&t, t.c.now + 1000 * HOUR_MS, 2);
    cluster_decide(&t.c, HOUR_MS - 1000);
    EXPECT(!cluster_bound(&t.c, "rival-0"));
    cluster_decide(&t.c, 1000);
    EXPECT(cluster_bound(&t.c, "rival-0"));
    cluster_close(&t.c);
}

/* A core that was started anew: the pods had failed before it saw them. */
static void gang_failed_before(struct hold_case *t, int64_t ago_ms)
{
    gang_opens(t, SCHED_QUIRKS_NONE);
    t->made = t->c.now - 2 * HOUR_MS;
    t->ended = t->c.now - ago_ms;
    gang_group(t, 0, 2);
    gang_pod(t, 0, "u", SCHED_FAILED, "n0");
    gang_pod(t, 1, "u", SCHED_FAILED, "n1");
}

TEST(room_that_was_held_before_a_restart_of_the_scheduler_is_held_again)
{
    struct hold_case t;

    gang_failed_before(&t, 10000);
    rival_waits(&t, 50);
    cluster_decide(&t.c, 100);
    EXPECT(!cluster_bound(&t.c, "rival-0"));
    cluster_drop(&t.c, "a-0");
    cluster_drop(&t.c, "a-1");
    gang_returns(&t);
    cluster_decide(&t.c, 100);
    EXPECT(cluster_bound(&t.c, "a-0") && str_is(cluster_bind(&t.c, "a-0")->node, "n0"));
    EXPECT(cluster_bound(&t.c, "a-1") && str_is(cluster_bind(&t.c, "a-1")->node, "n1"));
    EXPECT(!cluster_bound(&t.c, "rival-0"));
    cluster_close(&t.c);
}

TEST(a_hold_is_not_longer_for_a_restart_of_the_scheduler)
{
    struct hold_case t;

    gang_failed_before(&t, 10000);
    rival_waits(&t, 50);
    cluster_decide(&t.c, 100);
    EXPECT(t.c.plan.next_wake_ms <= t.ended + HOLD_MS);
    cluster_decide(&t.c, HOLD_MS - 10000);
    EXPECT(cluster_bound(&t.c, "rival-0"));
    cluster_close(&t.c);
    /* Told by its group, which says more. */
    gang_failed_before(&t, 2 * HOLD_MS);
    gang_group(&t, t.c.now + HOLD_MS, 2);
    rival_waits(&t, 50);
    cluster_decide(&t.c, 100);
    EXPECT(!cluster_bound(&t.c, "rival-0"));
    cluster_close(&t.c);
    gang_failed_before(&t, 2 * HOLD_MS);
    rival_waits(&t, 50);
    cluster_decide(&t.c, 100);
    EXPECT(cluster_bound(&t.c, "rival-0"));
    cluster_close(&t.c);
}

TEST(room_is_not_held_again_where_others_are_or_the_gang_runs)
{
    struct hold_case t;

    /* The next generation runs, on one of the nodes. */
    gang_failed_before(&t, 10000);
    t.made = t.c.now - 5000;
    gang_pod(&t, 0, "v", SCHED_RUNNING, "n0");
    rival_waits(&t, 50);
    cluster_decide(&t.c, 100);
    EXPECT(cluster_bound(&t.c, "rival-0"));
    cluster_close(&t.c);
    /* Somebody else got one of them. */
    gang_failed_before(&t, 10000);
    sched_put_pod(t.c.sched, &(struct sched_pod){.ns = STR("ns"),
                                                 .name = STR("other"),
                                                 .uid = STR("o"),
                                                 .scheduler = STR("another"),
                                                 .created_ms = t.c.now - 5000,
                                                 .gpus = 4,
                                                 .phase = SCHED_RUNNING,
                                                 .node = STR("n0")});
    rival_waits(&t, 50);
    cluster_decide(&t.c, 100);
    EXPECT(!cluster_bound(&t.c, "rival-0"));
    cluster_decide(&t.c, HOLD_MS);
    EXPECT(cluster_bound(&t.c, "rival-0"));
    EXPECT(str_is(cluster_bind(&t.c, "rival-0")->node, "n1"));
    cluster_close(&t.c);
}

/* A pod that stood still when it failed says the number of a GPU that others had by then. */
TEST(a_device_that_others_share_is_not_held_again)
{
    static const uint32_t zero = 0;
    const struct str number = STR("0");
    struct hold_case t;

    for (int shared = 0; shared <= 1; shared++) {
        struct sched_node_view view = {0};

        gang_opens(&t, SCHED_QUIRKS_NONE);
        gang_group(&t, 0, 1);
        if (shared)
            sched_put_pod(t.c.sched, &(struct sched_pod){.ns = STR("ns"),
                                                         .name = STR("other"),
                                                         .uid = STR("o"),
                                                         .scheduler = STR("another"),
                                                         .gpu_fraction_micro = 500000,
                                                         .gpu_groups = &number,
                                                         .gpu_group_count = 1,
                                                         .phase = SCHED_RUNNING,
                                                         .node = STR("n0")});
        sched_put_pod(t.c.sched, &(struct sched_pod){.ns = STR("ns"),
                                                     .name = STR("a-0"),
                                                     .uid = STR("u0"),
                                                     .group = STR("a"),
                                                     .created_ms = t.c.now - 2 * HOUR_MS,
                                                     .gpus = 1,
                                                     .hold_ms = HOLD_MS,
                                                     .ended_ms = t.c.now - 10000,
                                                     .phase = SCHED_FAILED,
                                                     .node = STR("n0"),
                                                     .devices = &zero,
                                                     .device_count = 1});
        cluster_decide(&t.c, 100);
        EXPECT(sched_node_view(t.c.sched, STR("n0"), &view));
        EXPECT(view.idle_gpus == 3); /* one is held, or shared, and not two */
        cluster_close(&t.c);
    }
}
