#include "base/arena.h"
#include "base/count.h"
#include "base/rng.h"
#include "base/str.h"
#include "sched/fragment.h"
#include "sched/sched.h"
#include "sched/spec.h"
#include "sched/world_test.h"
#include "test.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static void open_fragmentation(struct cluster *cluster, bool plain)
{
    struct sched_config config;

    sched_config_default(&config);
    config.policy.gpu_strategy = config.policy.cpu_strategy = SCHED_FRAGMENTATION;
    config.plain = plain;
    cluster_open_as(cluster, &config);
    cluster_queue(cluster, "q", SCHED_UNLIMITED, SCHED_UNLIMITED);
}

struct ask {
    int64_t gpus;
    int64_t share_micro;
    int64_t cpu_milli;
    const char *model;
};

static void put_node(struct cluster *cluster, const char *name, int64_t gpus, const char *model)
{
    struct sched_label label = {STR("model"), str_from(model)};

    sched_put_node(cluster->sched, &(struct sched_node){.name = str_from(name),
                                                        .labels = &label,
                                                        .label_count = 1,
                                                        .cpu_milli = 64000,
                                                        .memory_bytes = INT64_C(256) << 30,
                                                        .gpus = gpus,
                                                        .pods = 110,
                                                        .gpu_memory_mib = 1000});
}

static void put_pod(struct cluster *cluster, const char *name, const struct ask *ask)
{
    struct sched_label model = {STR("model"), str_from(ask->model)};

    sched_put_group(cluster->sched, &(struct sched_group){.ns = STR("default"),
                                                          .name = str_from(name),
                                                          .queue = STR("q"),
                                                          .created_ms = cluster->now,
                                                          .min_member = 1});
    sched_put_pod(cluster->sched, &(struct sched_pod){.ns = STR("default"),
                                                      .name = str_from(name),
                                                      .uid = str_from(name),
                                                      .group = str_from(name),
                                                      .created_ms = cluster->now,
                                                      .cpu_milli = ask->cpu_milli,
                                                      .gpus = ask->gpus,
                                                      .gpu_fraction_micro = ask->share_micro,
                                                      .node_selector = &model,
                                                      .node_selector_count = ask->model ? 1 : 0});
}

/* Teaches the core what is usually asked for, with pods that come and go. */
static void teach(struct cluster *cluster, const struct ask *ask, int times)
{
    for (int i = 0; i < times; i++) {
        put_pod(cluster, "usual", ask);
        sched_drop_pod(cluster->sched, STR("default"), STR("usual"));
        sched_drop_group(cluster->sched, STR("default"), STR("usual"));
    }
}

static bool is_at(const struct cluster *cluster, const char *pod, const char *node)
{
    const struct sched_bind *bind = cluster_bind(cluster, pod);

    return bind && str_is(bind->node, node);
}

TEST(fragmentation_keeps_a_model_for_those_who_ask_for_it)
{
    struct cluster cluster;

    open_fragmentation(&cluster, false);
    put_node(&cluster, "a-wanted", 8, "wanted");
    put_node(&cluster, "b-other", 8, "other");
    teach(&cluster, &(struct ask){.gpus = 1, .cpu_milli = 1000, .model = "wanted"}, 40);
    teach(&cluster, &(struct ask){.gpus = 1, .cpu_milli = 1000}, 40);
    put_pod(&cluster, "any", &(struct ask){.gpus = 1, .cpu_milli = 1000});
    cluster_decide(&cluster, 1000);
    EXPECT(is_at(&cluster, "any", "b-other"));
    cluster_close(&cluster);
}

TEST(fragmentation_keeps_the_model_that_is_scarcer_for_as_many_who_ask_for_it)
{
    struct cluster cluster;

    open_fragmentation(&cluster, false);
    put_node(&cluster, "a-scarce", 8, "scarce");
    put_node(&cluster, "b-plenty", 8, "plenty");
    put_node(&cluster, "c-plenty", 8, "plenty");
    for (int i = 0; i < 40; i++) {
        teach(&cluster, &(struct ask){.gpus = 1, .cpu_milli = 1000, .model = "scarce"}, 1);
        teach(&cluster, &(struct ask){.gpus = 1, .cpu_milli = 1000, .model = "plenty"}, 1);
    }
    put_pod(&cluster, "any", &(struct ask){.gpus = 1, .cpu_milli = 1000});
    cluster_decide(&cluster, 1000);
    const struct sched_bind *bind = cluster_bind(&cluster, "any");
    EXPECT(bind && str_ends(bind->node, STR("-plenty")));
    cluster_close(&cluster);
}

TEST(fragmentation_keeps_whole_nodes_for_large_pods_and_fills_shared_gpus)
{
    struct cluster cluster;

    open_fragmentation(&cluster, false);
    put_node(&cluster, "a", 8, "m");
    put_node(&cluster, "b", 8, "m");
    teach(&cluster, &(struct ask){.gpus = 8, .cpu_milli = 8000}, 30);
    teach(&cluster, &(struct ask){.share_micro = 500000, .cpu_milli = 1000}, 30);
    put_pod(&cluster, "first", &(struct ask){.share_micro = 500000, .cpu_milli = 1000});
    cluster_decide(&cluster, 1000);
    const struct sched_bind *first = cluster_bind(&cluster, "first");
    EXPECT(first && first->device_count == 1);
    struct str node = first ? str_dup(&cluster.arena, first->node) : STR_NONE;
    uint32_t device = first ? first->devices[0] : 0;
    put_pod(&cluster, "second", &(struct ask){.share_micro = 500000, .cpu_milli = 1000});
    cluster_decide(&cluster, 1000);
    const struct sched_bind *second = cluster_bind(&cluster, "second");
    EXPECT(second && str_eq(second->node, node) && second->devices[0] == device);
    put_pod(&cluster, "large", &(struct ask){.gpus = 8, .cpu_milli = 8000});
    cluster_decide(&cluster, 1000);
    EXPECT(cluster_bound(&cluster, "large"));
    cluster_close(&cluster);
}

TEST(fragmentation_does_not_strand_gpus_by_taking_their_cpu)
{
    struct cluster cluster;

    open_fragmentation(&cluster, false);
    put_node(&cluster, "a-many", 8, "m");
    put_node(&cluster, "b-few", 1, "m");
    teach(&cluster, &(struct ask){.gpus = 1, .cpu_milli = 8000}, 60);
    put_pod(&cluster, "cpu", &(struct ask){.cpu_milli = 32000});
    cluster_decide(&cluster, 1000);
    EXPECT(is_at(&cluster, "cpu", "b-few"));
    cluster_close(&cluster);
}

TEST(fragmentation_counts_a_bounded_number_of_kinds)
{
    struct cluster cluster;

    open_fragmentation(&cluster, false);
    put_node(&cluster, "a-wanted", 8, "wanted");
    put_node(&cluster, "b-other", 8, "other");
    teach(&cluster, &(struct ask){.gpus = 1, .cpu_milli = 1000, .model = "wanted"}, 2000);
    for (int64_t i = 0; i < FRAGMENT_COUNTED_MAX + 100; i++)
        teach(&cluster, &(struct ask){.gpus = 1, .cpu_milli = 2000 + i}, 1);
    put_pod(&cluster, "any", &(struct ask){.gpus = 1, .cpu_milli = 1000});
    cluster_decide(&cluster, 1000);
    EXPECT(is_at(&cluster, "any", "b-other"));
    cluster_close(&cluster);
}

/* What is kept between decisions changes none of them. */
TEST(fragmentation_decides_the_same_with_and_without_what_it_keeps)
{
    struct cluster both[2];
    struct rng rng = {.state = 7};
    static const struct ask asks[] = {{.gpus = 1, .cpu_milli = 4000},
                                      {.gpus = 2, .cpu_milli = 6000},
                                      {.gpus = 8, .cpu_milli = 30000},
                                      {.share_micro = 300000, .cpu_milli = 2000},
                                      {.share_micro = 810000, .cpu_milli = 3000},
                                      {.cpu_milli = 9000},
                                      {.gpus = 1, .cpu_milli = 1000, .model = "m1"}};

    for (int i = 0; i < 2; i++) {
        open_fragmentation(&both[i], i == 1);
        for (int n = 0; n < 12; n++) {
            char name[16] = {'n', (char)('a' + n)};
            put_node(&both[i], name, n % 3 ? 8 : 2, n % 2 ? "m1" : "m2");
        }
    }
    for (int step = 0; step < 150; step++) {
        char name[16] = {'p', (char)('a' + step / 26), (char)('a' + step % 26)};
        const struct ask *ask = &asks[rng_below(&rng, COUNT_OF(asks))];
        char gone[16] = {'p', (char)('a' + (int)rng_below(&rng, 6)), (char)('a' + step % 26)};
        const struct sched_bind *binds[2];

        for (int i = 0; i < 2; i++) {
            put_pod(&both[i], name, ask);
            if (step % 3 == 0)
                sched_drop_pod(both[i].sched, STR("default"), str_from(gone));
            cluster_decide(&both[i], 1000);
            binds[i] = cluster_bind(&both[i], name);
        }
        EXPECT(!binds[0] == !binds[1]);
        EXPECT(!binds[0] || !binds[1] || str_eq(binds[0]->node, binds[1]->node));
    }
    cluster_close(&both[0]);
    cluster_close(&both[1]);
}

TEST(a_queue_by_expected_completion_starts_short_work_first_and_never_for_ever)
{
    struct cluster cluster;
    struct sched_queue queue = {.name = STR("q"),
                                .created_ms = 1,
                                .priority = 100,
                                .order = SCHED_ORDER_EXPECTED,
                                .preempt_min_runtime_ms = -1,
                                .reclaim_min_runtime_ms = -1};
    static const struct {
        const char *name;
        int64_t created_s;
        int64_t expected_s;
    } jobs[] = {{"long", 0, 1000}, {"short", 100, 10}, {"late", 5000, 10}};

    cluster_open(&cluster, SCHED_QUIRKS_NONE);
    for (int r = 0; r < SCHED_RESOURCES; r++)
        queue.quota[r] = (struct sched_quota){SCHED_UNLIMITED, SCHED_UNLIMITED, 1};
    sched_put_queue(cluster.sched, &queue);
    cluster_node(&cluster, "a", 1);
    for (size_t i = 0; i < 3; i++) {
        struct str name = str_from(jobs[i].name);

        sched_put_group(cluster.sched,
                        &(struct sched_group){.ns = STR("default"),
                                              .name = name,
                                              .queue = STR("q"),
                                              .created_ms = 1 + jobs[i].created_s * 1000,
                                              .expected_ms = jobs[i].expected_s * 1000,
                                              .min_member = 1});
        sched_put_pod(
            cluster.sched,
            &(struct sched_pod){
                .ns = STR("default"), .name = name, .uid = name, .group = name, .gpus = 1});
    }
    static const char *const order[] = {"short", "long", "late"};
    for (size_t i = 0; i < 3; i++) {
        cluster_decide(&cluster, 1000);
        EXPECT(cluster_bound(&cluster, order[i]));
        sched_drop_pod(cluster.sched, STR("default"), str_from(order[i]));
    }
    cluster_close(&cluster);
}
