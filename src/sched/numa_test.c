#include "api/kind.h"
#include "api/object.h"
#include "base/count.h"
#include "base/str.h"
#include "sched/node.h"
#include "sched/numa.h"
#include "sched/pod.h"
#include "sched/sched.h"
#include "sched/spec.h"
#include "sched/state.h"
#include "sched/world_test.h"
#include "test.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Nodes of eight GPUs in two zones, whose kubelets give out what comes from one zone alone. */
static void zones_put(struct cluster *c, const char *name, enum sched_numa_policy policy)
{
    const struct sched_amount four = {STR("nvidia.com/gpu"), 4};
    const struct sched_zone zones[] = {
        {STR("node-0"), &four, 1, &four, 1},
        {STR("node-1"), &four, 1, &four, 1},
    };

    sched_put_numa(c->sched, &(struct sched_numa){.node = str_from(name),
                                                  .policy = policy,
                                                  .zones = zones,
                                                  .zone_count = COUNT_OF(zones)});
}

static void zones_open(struct cluster *c, bool on)
{
    struct sched_config config;

    sched_config_default(&config);
    config.policy.numa = on;
    cluster_open_as(c, &config);
    cluster_queue(c, "q", SCHED_UNLIMITED, SCHED_UNLIMITED);
    cluster_node(c, "a", 8);
    zones_put(c, "a", SCHED_NUMA_SINGLE);
}

static const struct numa *zones_of(const struct cluster *c, const char *node)
{
    return node_get(c->sched, str_from(node), false)->numa;
}

/* What is counted as free in each zone is what the pods there leave. */
static void zones_checked(const struct cluster *c, const char *name)
{
    const struct node *node = node_get(c->sched, str_from(name), false);
    const struct numa *numa = node->numa;

    for (uint32_t z = 0; z < numa->zone_count; z++) {
        int64_t free = numa->allocatable[z][0];
        int64_t soon = free;

        for (size_t i = 0; i < node->pods.count; i++) {
            size_t count = 0;
            const struct sched_zone_part *parts = numa_parts(node->pods.items[i], &count);
            enum status status = node->pods.items[i]->status;

            for (size_t p = 0; p < count; p++) {
                if (!str_eq(parts[p].zone, numa->zones[z]))
                    continue;
                free -= status == ST_PIPELINED ? 0 : parts[p].amount;
                soon -= status == ST_RELEASING ? 0 : parts[p].amount;
            }
        }
        EXPECT(numa->free[z][0] == free && numa->soon[z][0] == soon);
        EXPECT(free >= 0);
    }
}

TEST(numa_pods_go_where_one_zone_holds_them)
{
    for (int on = 0; on < 2; on++) {
        struct cluster c;

        zones_open(&c, on);
        cluster_put(&c, &(struct job){.name = "three", .pods = 2, .gpus = 3});
        cluster_decide(&c, 1000);
        EXPECT(cluster_bound(&c, "three-0") && cluster_bound(&c, "three-1"));
        cluster_put(&c, &(struct job){.name = "two", .gpus = 2});
        cluster_decide(&c, 1000);
        EXPECT(cluster_bound(&c, "two-0") == !on);
        if (on) {
            EXPECT(cluster_waiting(&c, "two")->why.nodes[SCHED_FILTER_NUMA] == 1);
            zones_put(&c, "a", SCHED_NUMA_BEST_EFFORT);
            cluster_decide(&c, 1000);
            EXPECT(cluster_bound(&c, "two-0"));
            EXPECT(cluster_bind(&c, "two-0")->more->zone_part_count == 2);
            zones_checked(&c, "a");
        }
        cluster_close(&c);
    }
}

TEST(numa_a_bind_says_the_zone_and_an_annotation_says_better)
{
    struct cluster c;
    struct sched_zone_part seen = {STR("node-1"), STR("nvidia.com/gpu"), 3};

    zones_open(&c, true);
    cluster_put(&c, &(struct job){.name = "j", .gpus = 3});
    cluster_decide(&c, 1000);
    const struct sched_bind *bind = cluster_bind(&c, "j-0");
    EXPECT(bind && bind->more && bind->more->zone_part_count == 1 &&
           bind->more->zone_parts[0].amount == 3 &&
           str_is(bind->more->zone_parts[0].zone, "node-0"));
    EXPECT(zones_of(&c, "a")->free[0][0] == 1 && zones_of(&c, "a")->free[1][0] == 4);
    /* It is seen to run, and nobody says where: what was planned holds. */
    cluster_put(&c, &(struct job){.name = "j", .gpus = 3, .node = "a"});
    EXPECT(zones_of(&c, "a")->free[0][0] == 1 && zones_of(&c, "a")->free[1][0] == 4);
    sched_put_pod(c.sched, &(struct sched_pod){.ns = STR("ns"),
                                               .name = STR("other"),
                                               .uid = STR("u"),
                                               .phase = SCHED_RUNNING,
                                               .node = STR("a"),
                                               .gpus = 3,
                                               .zone_parts = &seen,
                                               .zone_part_count = 1});
    EXPECT(zones_of(&c, "a")->free[0][0] == 1 && zones_of(&c, "a")->free[1][0] == 1);
    sched_drop_pod(c.sched, STR("ns"), STR("other"));
    EXPECT(zones_of(&c, "a")->free[1][0] == 4);
    /* Zones that come anew count what is there; when they go, so does the rule. */
    zones_put(&c, "a", SCHED_NUMA_SINGLE);
    EXPECT(zones_of(&c, "a")->free[0][0] == 1);
    sched_drop_numa(c.sched, STR("a"));
    EXPECT(!zones_of(&c, "a"));
    cluster_close(&c);
}

/* Whoever may edit it can write the annotation. */
TEST(numa_a_pod_has_no_more_of_zones_than_it_asks_for)
{
    static const char pod[] =
        "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"p\",\"uid\":\"u\",\"annotations\":{"
        "\"kai.scheduler/numa-placement-observed\":\"[{\\\"zone\\\":\\\"node-0\\\","
        "\\\"amount\\\":{\\\"nvidia.com/gpu\\\":\\\"3\\\",\\\"cpu\\\":\\\"9\\\"}}]\"}},"
        "\"spec\":{\"nodeName\":\"a\",\"containers\":[{\"name\":\"c\",\"resources\":{\"limits\":{"
        "\"nvidia.com/gpu\":\"1\"}}}]},\"status\":{\"phase\":\"Running\"}}";
    struct object *object = NULL;
    struct cluster c;

    zones_open(&c, true);
    EXPECT(object_new(&kind_pod, str_from(pod), &object, NULL) == 0);
    EXPECT(sched_observe(c.sched, SCHED_PUT, object, NULL) == 0);
    object_unref(object);
    EXPECT(zones_of(&c, "a")->free[0][0] == 3 && zones_of(&c, "a")->free[1][0] == 4);
    cluster_close(&c);
}

TEST(numa_what_nodes_report_counts_as_soon_as_a_policy_says_so)
{
    const struct sched_amount four = {STR("nvidia.com/gpu"), 4};
    const struct sched_amount one = {STR("nvidia.com/gpu"), 1};
    const struct sched_zone zone = {STR("node-0"), &four, 1, &one, 1};
    struct sched_policy policy;
    struct cluster c;

    zones_open(&c, true);
    sched_put_numa(c.sched, &(struct sched_numa){.node = STR("a"),
                                                 .policy = SCHED_NUMA_SINGLE,
                                                 .zones = &zone,
                                                 .zone_count = 1});
    EXPECT(zones_of(&c, "a")->free[0][0] == 4);
    policy = c.sched->config.policy;
    policy.numa_reported = true;
    sched_set_policy(c.sched, STR(""), &policy);
    EXPECT(zones_of(&c, "a")->free[0][0] == 1 && zones_of(&c, "a")->soon[0][0] == 1);
    policy.numa_reported = false;
    sched_set_policy(c.sched, STR(""), &policy);
    EXPECT(zones_of(&c, "a")->free[0][0] == 4);
    cluster_close(&c);
}

TEST(numa_victims_leave_a_zone_to_who_is_promised_it)
{
    struct cluster c;

    zones_open(&c, true);
    cluster_put(&c, &(struct job){.name = "low", .pods = 2, .min = 1, .gpus = 3, .priority = 10});
    cluster_decide(&c, 1000);
    cluster_put(
        &c,
        &(struct job){.name = "low", .pods = 2, .min = 1, .gpus = 3, .priority = 10, .node = "a"});
    cluster_put(&c, &(struct job){.name = "high", .gpus = 2, .priority = 90});
    cluster_decide(&c, 1000);
    EXPECT(cluster_promised(&c, "high-0"));
    EXPECT(cluster_evicted(&c, "low-0") + cluster_evicted(&c, "low-1") == 1);
    zones_checked(&c, "a");
    cluster_close(&c);
}

/* Whatever comes and goes, the sums stay what the pods say. */
TEST(numa_sums_hold_through_a_random_walk)
{
    uint64_t seed = 20261117;
    struct cluster c;

    zones_open(&c, true);
    cluster_node(&c, "b", 8);
    zones_put(&c, "b", SCHED_NUMA_RESTRICTED);
    for (int step = 0; step < 300; step++) {
        char name[16];
        char pod[24];

        seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
        uint64_t dice = seed >> 33;
        (void)snprintf(name, sizeof(name), "j%llu", (unsigned long long)(dice % 12));
        (void)snprintf(pod, sizeof(pod), "%s-0", name);
        if (dice / 12 % 3 == 0)
            cluster_drop(&c, pod);
        else
            cluster_put(&c, &(struct job){.name = name,
                                          .gpus = 1 + (int64_t)(dice / 36 % 4),
                                          .priority = 10 * (int64_t)(dice / 144 % 9)});
        if (dice / 1296 % 16 == 0)
            zones_put(&c, "a", SCHED_NUMA_SINGLE);
        cluster_decide(&c, 1000);
        zones_checked(&c, "a");
        zones_checked(&c, "b");
    }
    cluster_close(&c);
}

/* One that runs there and says its zone. */
static void zones_run(struct cluster *c,
                      const char *name,
                      const char *zone,
                      int64_t gpus,
                      bool rests)
{
    const struct sched_zone_part part = {str_from(zone), STR("nvidia.com/gpu"), gpus};
    static const uint32_t numbers[] = {0, 1, 2, 3};

    sched_put_pod(c->sched, &(struct sched_pod){.ns = STR("ns"),
                                                .name = str_from(name),
                                                .uid = str_from(name),
                                                .phase = rests ? SCHED_GATED : SCHED_RUNNING,
                                                .node = STR("a"),
                                                .suspended = rests,
                                                .gpus = gpus,
                                                .devices = numbers,
                                                .device_count = (size_t)gpus,
                                                .zone_parts = &part,
                                                .zone_part_count = 1});
}

TEST(numa_a_suspended_pod_leaves_the_gpus_of_its_zone)
{
    struct cluster c;

    zones_open(&c, true);
    zones_run(&c, "rests", "node-0", 3, false);
    EXPECT(zones_of(&c, "a")->free[0][0] == 1);
    zones_run(&c, "rests", "node-0", 3, true);
    EXPECT(zones_of(&c, "a")->free[0][0] == 4);
    zones_run(&c, "rests", "node-0", 3, false);
    EXPECT(zones_of(&c, "a")->free[0][0] == 1);
    cluster_close(&c);
}

TEST(numa_the_words_change_when_the_gpus_are_enough_and_in_the_wrong_zones)
{
    struct cluster c;

    zones_open(&c, true);
    zones_run(&c, "x", "node-0", 4, false);
    zones_run(&c, "y", "node-1", 3, false);
    cluster_put(&c, &(struct job){.name = "two", .gpus = 2});
    cluster_decide(&c, 1000);
    EXPECT(cluster_waiting(&c, "two") && !cluster_waiting(&c, "two")->why.nodes[SCHED_FILTER_NUMA]);
    sched_drop_pod(c.sched, STR("ns"), STR("x"));
    zones_run(&c, "z", "node-0", 3, false);
    cluster_decide(&c, 1);
    EXPECT(cluster_waiting(&c, "two") &&
           cluster_waiting(&c, "two")->why.nodes[SCHED_FILTER_NUMA] == 1);
    cluster_close(&c);
}
