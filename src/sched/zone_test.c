#include "base/count.h"
#include "base/str.h"
#include "sched/node.h"
#include "sched/numa.h"
#include "sched/sched.h"
#include "sched/spec.h"
#include "sched/state.h"
#include "sched/world_test.h"
#include "test.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* What a kubelet gives of NUMA zones, by its policy. */

#define GPU        "nvidia.com/gpu"
#define NIC        "example.com/nic"
#define HUGE_PAGES "hugepages-2Mi"

/* Three zones of 8 CPUs, 100 bytes of memory, 2 GPUs, 10 huge pages and a NIC each; of the last zone
 * GPUs alone, and as many as `third` says. */
static const struct numa *zones_of(struct cluster *c,
                                   enum sched_numa_policy policy,
                                   bool by_container,
                                   int64_t third)
{
    const struct sched_amount amounts[] = {
        {STR("cpu"), 8000},    {STR("memory"), 100}, {STR(GPU), 2},
        {STR(HUGE_PAGES), 10}, {STR(NIC), 1},
    };
    const struct sched_amount last[] = {{STR(GPU), third}};
    const struct sched_zone zones[] = {
        {STR("node-0"), amounts, COUNT_OF(amounts), amounts, COUNT_OF(amounts)},
        {STR("node-1"), amounts, COUNT_OF(amounts), amounts, COUNT_OF(amounts)},
        {STR("node-2"), last, 1, last, 1},
    };

    cluster_node(c, "a", 8);
    sched_put_numa(c->sched, &(struct sched_numa){.node = STR("a"),
                                                  .policy = policy,
                                                  .by_container = by_container,
                                                  .zones = zones,
                                                  .zone_count = COUNT_OF(zones)});
    return node_get(c->sched, STR("a"), false)->numa;
}

TEST(zones_hold_a_pod_as_the_policy_of_their_kubelet_wants)
{
    static const struct sched_amount nic = {STR(NIC), 1};
    static const struct sched_amount nics = {STR(NIC), 2};
    static const struct sched_amount pages = {STR(HUGE_PAGES), 11};
    static const struct {
        const char *why;
        enum sched_numa_policy policy;
        struct sched_pod pod;
        const char *ignore;
        int64_t third;
        bool fits;
        uint32_t span;
    } rows[] = {
        {"CPUs of a pod that is not guaranteed",
         SCHED_NUMA_SINGLE,
         {.cpu_milli = 16000},
         "",
         0,
         true,
         0},
        {"CPUs of one zone",
         SCHED_NUMA_SINGLE,
         {.guaranteed = true, .cpu_milli = 8000},
         "",
         0,
         true,
         1},
        {"CPUs of two",
         SCHED_NUMA_SINGLE,
         {.guaranteed = true, .cpu_milli = 9000},
         "",
         0,
         false,
         0},
        {"parts of CPUs",
         SCHED_NUMA_SINGLE,
         {.guaranteed = true, .cpu_milli = 9500},
         "",
         0,
         true,
         0},
        {"memory of two",
         SCHED_NUMA_SINGLE,
         {.guaranteed = true, .memory_bytes = 101},
         "",
         0,
         false,
         0},
        {"GPUs of one", SCHED_NUMA_SINGLE, {.gpus = 2}, "", 0, true, 1},
        {"GPUs of two", SCHED_NUMA_SINGLE, {.gpus = 3}, "", 0, false, 0},
        {"GPUs that do not matter", SCHED_NUMA_SINGLE, {.gpus = 3}, "cpu, " GPU, 0, true, 0},
        {"a NIC", SCHED_NUMA_SINGLE, {.amounts = &nic, .amount_count = 1}, "", 0, true, 1},
        {"two NICs", SCHED_NUMA_SINGLE, {.amounts = &nics, .amount_count = 1}, "", 0, false, 0},
        {"huge pages", SCHED_NUMA_SINGLE, {.amounts = &pages, .amount_count = 1}, "", 0, true, 0},
        {"huge pages of a guaranteed pod",
         SCHED_NUMA_SINGLE,
         {.guaranteed = true, .amounts = &pages, .amount_count = 1},
         "",
         0,
         false,
         0},
        {"restricted: two zones that have to be",
         SCHED_NUMA_RESTRICTED,
         {.gpus = 3},
         "",
         0,
         true,
         2},
        {"restricted: all of them", SCHED_NUMA_RESTRICTED, {.gpus = 6}, "", 2, true, 3},
        {"restricted: more than there are", SCHED_NUMA_RESTRICTED, {.gpus = 7}, "", 2, false, 0},
        {"restricted: one kind of two zones, one of one",
         SCHED_NUMA_RESTRICTED,
         {.guaranteed = true, .cpu_milli = 8000, .gpus = 3},
         "",
         0,
         false,
         0},
        {"restricted: both of one",
         SCHED_NUMA_RESTRICTED,
         {.guaranteed = true, .cpu_milli = 8000, .gpus = 2},
         "",
         0,
         true,
         1},
        {"best effort: more than there are", SCHED_NUMA_BEST_EFFORT, {.gpus = 9}, "", 1, true, 3},
        {"best effort: where most of it is", SCHED_NUMA_BEST_EFFORT, {.gpus = 3}, "", 4, true, 1},
        {"no policy", SCHED_NUMA_NONE, {.gpus = 9}, "", 0, true, 0},
        {"nothing is wanted", SCHED_NUMA_SINGLE, {.memory_bytes = 900}, "", 0, true, 0},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct numa_taken taken;
        struct cluster c;

        test_case(rows[i].why);
        cluster_open(&c, SCHED_QUIRKS_NONE);
        const struct numa *numa = zones_of(&c, rows[i].policy, false, rows[i].third);
        EXPECT(numa_evaluate(numa, numa->free, &rows[i].pod, str_from(rows[i].ignore), &taken) ==
               rows[i].fits);
        EXPECT(taken.span == rows[i].span);
        cluster_close(&c);
    }
}

/* Its kubelet takes the first zones that are free, in their order. */
TEST(zones_that_are_used_are_passed_over_in_their_order)
{
    const struct sched_pod four = {.gpus = 4};
    const struct sched_pod two = {.gpus = 2};
    struct numa_taken taken;
    numa_row left[NUMA_ZONES_MAX];
    struct cluster c;

    cluster_open(&c, SCHED_QUIRKS_NONE);
    const struct numa *numa = zones_of(&c, SCHED_NUMA_RESTRICTED, false, 2);
    for (uint32_t z = 0; z < 3; z++)
        for (uint32_t k = 0; k < numa->kind_count; k++)
            left[z][k] = numa->free[z][k];
    left[0][2] = 0; /* GPUs */
    EXPECT(numa_evaluate(numa, left, &four, STR(""), &taken));
    EXPECT(taken.amounts[0][2] == 0 && taken.amounts[1][2] == 2 && taken.amounts[2][2] == 2);
    left[1][2] = 1;
    EXPECT(!numa_evaluate(numa, left, &four, STR(""), &taken));
    left[2][2] = 1; /* two would have to come from one zone */
    EXPECT(!numa_evaluate(numa, left, &two, STR(""), &taken));
    cluster_close(&c);
}

TEST(containers_have_zones_of_their_own_where_their_kubelet_goes_by_them)
{
    static const struct sched_amount one = {STR(GPU), 1};
    static const struct sched_amount two = {STR(GPU), 2};
    static const struct sched_amount three = {STR(GPU), 3};
#define MAIN(amount)                       \
    {                                      \
        SCHED_CONTAINER_MAIN, &(amount), 1 \
    }
#define INIT(amount)                       \
    {                                      \
        SCHED_CONTAINER_INIT, &(amount), 1 \
    }
#define SIDECAR(amount)                       \
    {                                         \
        SCHED_CONTAINER_SIDECAR, &(amount), 1 \
    }
    static const struct {
        const char *why;
        struct sched_container containers[3];
        bool by_container;
        bool fits;
        uint32_t span;
    } rows[] = {
        {"each of its own zone", {MAIN(two), MAIN(two)}, true, true, 2},
        {"all of one zone", {MAIN(two), MAIN(two)}, false, false, 0},
        {"the third finds none", {MAIN(two), MAIN(two), MAIN(one)}, true, false, 2},
        {"an init container is gone by then", {INIT(two), MAIN(two), MAIN(two)}, true, true, 2},
        {"an init container that no zone holds", {INIT(three), MAIN(one)}, true, false, 0},
        {"the greater of both", {INIT(two), MAIN(one)}, false, true, 1},
        {"a sidecar is there with the init container", {SIDECAR(one), INIT(two)}, false, false, 0},
        {"a sidecar is there with the others", {SIDECAR(two), MAIN(one)}, true, true, 2},
        {"one that asks for nothing", {{SCHED_CONTAINER_MAIN, NULL, 0}, MAIN(two)}, true, true, 1},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct sched_pod pod = {.containers = rows[i].containers, .container_count = 3};
        struct numa_taken taken;
        struct cluster c;

        test_case(rows[i].why);
        while (pod.container_count && !pod.containers[pod.container_count - 1].amount_count)
            pod.container_count--;
        cluster_open(&c, SCHED_QUIRKS_NONE);
        const struct numa *numa = zones_of(&c, SCHED_NUMA_SINGLE, rows[i].by_container, 0);
        EXPECT(numa_evaluate(numa, numa->free, &pod, STR(""), &taken) == rows[i].fits);
        EXPECT(taken.span == rows[i].span);
        cluster_close(&c);
    }
}

static void run_there(struct cluster *c, const char *zone, const char *kind, int64_t amount)
{
    const struct sched_zone_part part = {str_from(zone), str_from(kind), amount};

    sched_put_pod(c->sched, &(struct sched_pod){.ns = STR("ns"),
                                                .name = STR("p"),
                                                .uid = STR("p"),
                                                .phase = SCHED_RUNNING,
                                                .node = STR("a"),
                                                .gpus = 2,
                                                .zone_parts = &part,
                                                .zone_part_count = 1});
}

TEST(what_a_pod_is_said_to_have_of_zones_counts_as_it_was_said_last)
{
    static const struct {
        const char *zone;
        const char *kind;
        int64_t amount;
        int64_t free[2];
    } rows[] = {
        {"node-0", GPU, 2, {0, 2}}, {"node-0", GPU, 2, {0, 2}}, {"node-1", GPU, 2, {2, 0}},
        {"node-1", GPU, 1, {2, 1}}, {"node-9", GPU, 1, {2, 2}}, {"node-1", "tpu", 1, {2, 2}},
    };
    struct cluster c;

    cluster_open(&c, SCHED_QUIRKS_NONE);
    const struct numa *numa = zones_of(&c, SCHED_NUMA_SINGLE, false, 0);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        test_case(rows[i].zone);
        cluster_decide(&c, 1000);
        run_there(&c, rows[i].zone, rows[i].kind, rows[i].amount);
        EXPECT(sched_needs_cycle(c.sched) == (i != 1)); /* the same said twice is no news */
        EXPECT(numa->free[0][2] == rows[i].free[0] && numa->free[1][2] == rows[i].free[1]);
    }
    cluster_close(&c);
}

/* What it reports is without the pods that run there; they are not taken off twice. */
TEST(what_a_node_reports_as_free_is_free_while_its_pods_run)
{
    const struct sched_amount four = {STR(GPU), 4};
    const struct sched_amount two = {STR(GPU), 2};
    const struct sched_zone zone = {STR("node-0"), &four, 1, &two, 1};
    const struct sched_numa spec = {
        .node = STR("a"), .policy = SCHED_NUMA_SINGLE, .zones = &zone, .zone_count = 1};
    struct sched_config config;
    struct cluster c;

    sched_config_default(&config);
    config.policy.numa = config.policy.numa_reported = true;
    cluster_open_as(&c, &config);
    cluster_node(&c, "a", 4);
    run_there(&c, "node-0", GPU, 2);
    sched_put_pod(c.sched, &(struct sched_pod){.ns = STR("ns"),
                                               .name = STR("other"),
                                               .uid = STR("other"),
                                               .phase = SCHED_RUNNING,
                                               .node = STR("a")});
    sched_put_numa(c.sched, &spec);
    const struct numa *numa = node_get(c.sched, STR("a"), false)->numa;
    EXPECT(numa->free[0][0] == 2);
    sched_drop_pod(c.sched, STR("ns"), STR("p"));
    EXPECT(numa->free[0][0] == 4);
    cluster_close(&c);
}

TEST(a_zone_has_no_more_kinds_of_resources_than_are_counted)
{
    struct sched_amount amounts[NUMA_KINDS_MAX + 1];
    char names[NUMA_KINDS_MAX + 1][8];
    struct cluster c;

    for (size_t i = 0; i < COUNT_OF(amounts); i++) {
        (void)snprintf(names[i], sizeof(names[i]), "r%zu", i);
        amounts[i] = (struct sched_amount){str_from(names[i]), 1};
    }
    const struct sched_zone zone = {STR("node-0"), amounts, COUNT_OF(amounts), NULL, 0};
    cluster_open(&c, SCHED_QUIRKS_NONE);
    cluster_node(&c, "a", 4);
    sched_put_numa(c.sched, &(struct sched_numa){.node = STR("a"),
                                                 .policy = SCHED_NUMA_SINGLE,
                                                 .zones = &zone,
                                                 .zone_count = 1});
    EXPECT(node_get(c.sched, STR("a"), false)->numa->kind_count == NUMA_KINDS_MAX);
    sched_put_numa(c.sched, &(struct sched_numa){.node = STR("a")}); /* it has none any more */
    EXPECT(!node_get(c.sched, STR("a"), false)->numa);
    cluster_close(&c);
}
