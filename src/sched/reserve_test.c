#include "base/str.h"
#include "sched/sched.h"
#include "sched/spec.h"
#include "sched/world_test.h"
#include "test.h"

#include <stdint.h>

/* Two nodes of four GPUs. Queue r uses nothing yet, so it comes before queue q. */
static void open_cluster(struct cluster *cluster, uint64_t quirks)
{
    struct sched_config config;

    sched_config_default(&config);
    config.quirks = quirks;
    config.policy.reserve_after_ms = 60000;
    cluster_open_as(cluster, &config);
    cluster_queue(cluster, "q", SCHED_UNLIMITED, SCHED_UNLIMITED);
    cluster_queue(cluster, "r", SCHED_UNLIMITED, SCHED_UNLIMITED);
    cluster_node(cluster, "a", 4);
    cluster_node(cluster, "b", 4);
}

/* A gang over both nodes evicts what runs there; the first node is empty, the second not yet. */
static void half_freed(struct cluster *cluster, uint64_t quirks)
{
    open_cluster(cluster, quirks);
    cluster_put(cluster,
                &(struct job){.name = "one", .pods = 1, .gpus = 4, .priority = 50, .node = "a"});
    cluster_put(cluster,
                &(struct job){.name = "two", .pods = 1, .gpus = 4, .priority = 50, .node = "b"});
    cluster_put(cluster, &(struct job){.name = "big", .pods = 2, .gpus = 4, .priority = 75});
    cluster_decide(cluster, 1000);
    EXPECT(cluster_evicted(cluster, "one-0") && cluster_evicted(cluster, "two-0"));
    cluster_drop(cluster, "one-0");
}

TEST(room_freed_by_eviction_stays_with_the_gang_it_was_freed_for)
{
    struct cluster c;

    half_freed(&c, SCHED_QUIRKS_NONE);
    cluster_put(&c,
                &(struct job){.name = "hasty", .queue = "r", .pods = 1, .gpus = 4, .priority = 50});
    cluster_decide(&c, 1000);
    EXPECT(c.plan.bind_count == 0);
    EXPECT(c.plan.evict_count == 0);
    cluster_drop(&c, "two-0");
    cluster_decide(&c, 1000);
    EXPECT(cluster_bound(&c, "big-0") && cluster_bound(&c, "big-1"));
    EXPECT(!cluster_bound(&c, "hasty-0"));
    cluster_close(&c);
}

TEST(kai_gives_freed_room_to_whoever_comes_first)
{
    struct cluster c;

    half_freed(&c, SCHED_QUIRK(NO_RESERVATION));
    cluster_put(&c,
                &(struct job){.name = "hasty", .queue = "r", .pods = 1, .gpus = 4, .priority = 50});
    cluster_decide(&c, 1000);
    EXPECT(cluster_bound(&c, "hasty-0"));
    cluster_close(&c);
}

TEST(a_reservation_ends_when_the_gang_is_cancelled)
{
    struct cluster c;

    half_freed(&c, SCHED_QUIRKS_NONE);
    cluster_drop(&c, "big-0");
    cluster_drop(&c, "big-1");
    sched_drop_group(c.sched, STR("ns"), STR("big"));
    cluster_put(&c, &(struct job){.name = "hasty", .pods = 1, .gpus = 4, .priority = 50});
    cluster_decide(&c, 1000);
    EXPECT(cluster_bound(&c, "hasty-0"));
    cluster_close(&c);
}

TEST(a_reservation_ends_when_a_victim_stays)
{
    struct cluster c;

    half_freed(&c, SCHED_QUIRKS_NONE);
    sched_evict_failed(c.sched, &(struct sched_pod_ref){STR("ns"), STR("two-0"), STR("")});
    cluster_put(
        &c, &(struct job){
                .name = "two", .pods = 1, .gpus = 4, .kind = SCHED_NON_PREEMPTIBLE, .node = "b"});
    cluster_put(&c, &(struct job){.name = "hasty", .pods = 1, .gpus = 4, .priority = 50});
    cluster_decide(&c, 1000);
    EXPECT(cluster_bound(&c, "hasty-0"));
    cluster_close(&c);
}

TEST(a_reserved_gang_starts_elsewhere_when_that_is_sooner)
{
    struct cluster c;

    half_freed(&c, SCHED_QUIRKS_NONE);
    cluster_decide(&c, 1000);
    EXPECT(c.plan.bind_count == 0);
    sched_put_node(c.sched, &(struct sched_node){.name = STR("c"),
                                                 .cpu_milli = 64000,
                                                 .memory_bytes = INT64_C(1) << 38,
                                                 .gpus = 4,
                                                 .pods = 110});
    cluster_decide(&c, 1000);
    EXPECT(cluster_bound(&c, "big-0") && cluster_bound(&c, "big-1"));
    cluster_close(&c);
}

/* A gang over both nodes has waited for long; one node is empty, on the other something runs. */
static void aged(struct cluster *cluster, uint64_t quirks, int64_t deadline_ms)
{
    open_cluster(cluster, quirks);
    cluster_put(cluster, &(struct job){.name = "old",
                                       .pods = 1,
                                       .gpus = 4,
                                       .kind = SCHED_NON_PREEMPTIBLE,
                                       .node = "b",
                                       .deadline_ms = deadline_ms});
    cluster_put(cluster, &(struct job){.name = "big", .pods = 2, .gpus = 4, .priority = 50});
    cluster_decide(cluster, 1000);
    EXPECT(cluster->plan.next_wake_ms == cluster->now - 1000 + 60000);
    cluster_decide(cluster, 60000);
}

TEST(room_is_kept_for_a_gang_that_has_waited_long)
{
    struct cluster c;

    aged(&c, SCHED_QUIRKS_NONE, 0);
    cluster_put(
        &c, &(struct job){.name = "small", .pods = 1, .gpus = 1, .kind = SCHED_NON_PREEMPTIBLE});
    cluster_decide(&c, 1000);
    EXPECT(!cluster_bound(&c, "small-0"));
    cluster_drop(&c, "old-0");
    cluster_decide(&c, 1000);
    EXPECT(cluster_bound(&c, "big-0") && cluster_bound(&c, "big-1"));
    cluster_close(&c);
}

TEST(kai_lets_small_work_pass_a_gang_for_ever)
{
    struct cluster c;

    open_cluster(&c, SCHED_QUIRK(NO_AGEING));
    cluster_put(
        &c, &(struct job){
                .name = "old", .pods = 1, .gpus = 4, .kind = SCHED_NON_PREEMPTIBLE, .node = "b"});
    cluster_put(&c, &(struct job){.name = "big", .pods = 2, .gpus = 4, .priority = 50});
    cluster_decide(&c, 1000);
    cluster_put(
        &c, &(struct job){.name = "small", .pods = 1, .gpus = 1, .kind = SCHED_NON_PREEMPTIBLE});
    cluster_decide(&c, 3600000);
    EXPECT(cluster_bound(&c, "small-0"));
    cluster_close(&c);
}

TEST(kept_room_is_lent_to_what_can_be_evicted_and_called_back)
{
    struct cluster c;

    aged(&c, SCHED_QUIRKS_NONE, 0);
    cluster_put(&c, &(struct job){.name = "small", .pods = 1, .gpus = 1, .priority = 50});
    cluster_decide(&c, 1000);
    EXPECT(cluster_bound(&c, "small-0"));
    cluster_drop(&c, "old-0");
    cluster_decide(&c, 1000);
    EXPECT(cluster_evicted(&c, "small-0"));
    EXPECT(c.plan.evict_count == 1 && c.plan.evicts[0].action == SCHED_ACTION_RESERVE);
    cluster_drop(&c, "small-0");
    cluster_decide(&c, 1000);
    EXPECT(cluster_bound(&c, "big-0") && cluster_bound(&c, "big-1"));
    cluster_close(&c);
}

TEST(kept_room_is_lent_to_what_ends_in_time)
{
    struct cluster c;

    aged(&c, SCHED_QUIRKS_NONE, 1000000);
    cluster_put(&c, &(struct job){.name = "short",
                                  .pods = 1,
                                  .gpus = 1,
                                  .kind = SCHED_NON_PREEMPTIBLE,
                                  .deadline_ms = 600000});
    cluster_put(&c, &(struct job){.name = "long",
                                  .pods = 1,
                                  .gpus = 1,
                                  .kind = SCHED_NON_PREEMPTIBLE,
                                  .deadline_ms = 2000000});
    cluster_decide(&c, 1000);
    EXPECT(cluster_bound(&c, "short-0"));
    EXPECT(!cluster_bound(&c, "long-0"));
    cluster_close(&c);
}

/* A job says, or says anew, how long it will run. */
static void expected(struct cluster *cluster, const char *name, int64_t ms)
{
    sched_put_group(cluster->sched, &(struct sched_group){.ns = STR("ns"),
                                                          .name = str_from(name),
                                                          .queue = STR("q"),
                                                          .min_member = 1,
                                                          .created_ms = cluster->now,
                                                          .has_priority = true,
                                                          .preemptibility = SCHED_NON_PREEMPTIBLE,
                                                          .expected_ms = ms});
}

TEST(kept_room_is_lent_by_expectation_where_the_policy_says_so)
{
    struct cluster c;

    aged(&c, SCHED_QUIRKS_NONE, 0);
    cluster_put(&c, &(struct job){.name = "short", .gpus = 1, .kind = SCHED_NON_PREEMPTIBLE});
    cluster_put(&c, &(struct job){.name = "long", .gpus = 1, .kind = SCHED_NON_PREEMPTIBLE});
    expected(&c, "old", 1000000);
    expected(&c, "short", 600000);
    expected(&c, "long", 2000000);
    cluster_decide(&c, 1000);
    EXPECT(c.plan.bind_count == 0);
    struct sched_policy policy = sched_config(c.sched)->policy;
    policy.lend_expected = true;
    sched_set_policy(c.sched, STR(""), &policy);
    cluster_decide(&c, 1000);
    EXPECT(cluster_bound(&c, "short-0"));
    EXPECT(!cluster_bound(&c, "long-0"));
    cluster_close(&c);
}

TEST(what_was_lent_stays_only_where_its_queue_still_has_room_for_it)
{
    struct cluster c;

    aged(&c, SCHED_QUIRKS_NONE, 0);
    cluster_put(&c, &(struct job){.name = "small", .gpus = 1, .priority = 50});
    cluster_decide(&c, 1000);
    EXPECT(cluster_bound(&c, "small-0"));
    cluster_queue(&c, "q", SCHED_UNLIMITED, 8);
    cluster_drop(&c, "old-0");
    cluster_node(&c, "c", 4);
    cluster_decide(&c, 1000);
    EXPECT(cluster_promised(&c, "big-0") && cluster_promised(&c, "big-1"));
    EXPECT(cluster_evicted(&c, "small-0")); /* its node has room for it, its queue has not */
    EXPECT(cluster_used(&c, "q") <= 8);
    cluster_close(&c);
}

/* A pod of the gang that shares a device of node c. */
static void put_share(struct cluster *cluster, const char *group, const char *device, int64_t micro)
{
    struct str name = str_printf(&cluster->arena, "%s-share", group);
    struct str device_name = str_from(device);

    sched_put_pod(cluster->sched, &(struct sched_pod){.ns = STR("ns"),
                                                      .name = name,
                                                      .uid = name,
                                                      .group = str_from(group),
                                                      .created_ms = cluster->now,
                                                      .cpu_milli = 1000,
                                                      .memory_bytes = INT64_C(1) << 30,
                                                      .gpu_fraction_micro = micro,
                                                      .gpu_groups = &device_name,
                                                      .gpu_group_count = 1,
                                                      .node = STR("c"),
                                                      .phase = SCHED_RUNNING,
                                                      .started_ms = cluster->now,
                                                      .role_rank = 1});
}

TEST(a_gang_whose_room_is_not_needed_stays_only_if_every_pod_keeps_its_device)
{
    struct cluster c;

    aged(&c, SCHED_QUIRKS_NONE, 0);
    cluster_node(&c, "c", 2);
    cluster_put(&c, &(struct job){.name = "other", .queue = "r", .pods = 1, .priority = 50});
    cluster_drop(&c, "other-0");
    put_share(&c, "other", "0", 600000);
    cluster_put(&c, &(struct job){.name = "gang", .min = 2, .gpus = 1, .priority = 50});
    put_share(&c, "gang", "1", 300000);
    cluster_put(&c, &(struct job){.name = "small", .gpus = 1, .priority = 50});
    cluster_decide(&c, 1000);
    EXPECT(cluster_bound(&c, "gang-0") && cluster_bound(&c, "small-0"));
    cluster_queue(&c, "q", SCHED_UNLIMITED, 9.5);
    cluster_drop(&c, "old-0");
    cluster_node(&c, "d", 4);
    cluster_decide(&c, 1000);
    EXPECT(cluster_promised(&c, "big-0") && cluster_promised(&c, "big-1"));
    /* Its share would be on the fuller device, where it does not run: it goes, with its gang. */
    EXPECT(cluster_evicted(&c, "gang-0") && cluster_evicted(&c, "gang-share"));
    EXPECT(!cluster_bound(&c, "gang-share") && !cluster_evicted(&c, "small-0"));
    cluster_close(&c);
}
