#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"
#include "sched/sched.h"
#include "sched/spec.h"
#include "sched/verify.h"
#include "test.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One queue with a GPU limit, and a claim of two GPUs that pods can share. */
struct cluster {
    struct sched *sched;
    struct arena arena;
    struct sched_plan plan;
    int64_t now;
};

static void open_cluster(struct cluster *cluster, double gpu_limit, int64_t stale_grace_ms)
{
    struct sched_config config;
    struct sched_queue queue = {.name = STR("q"),
                                .priority = 100,
                                .preempt_min_runtime_ms = -1,
                                .reclaim_min_runtime_ms = -1};

    *cluster = (struct cluster){.now = INT64_C(1800000000000)};
    sched_config_default(&config);
    config.policy.stale_grace_ms = stale_grace_ms;
    cluster->sched = sched_new(&config);
    for (int r = 0; r < SCHED_RESOURCES; r++)
        queue.quota[r] = (struct sched_quota){SCHED_UNLIMITED, SCHED_UNLIMITED, 1};
    queue.quota[SCHED_GPU].limit = gpu_limit;
    sched_put_queue(cluster->sched, &queue);
    sched_put_claim(cluster->sched, &(struct sched_claim){.ns = STR("ns"),
                                                          .name = STR("two"),
                                                          .queue = STR("q"),
                                                          .device_class = STR("gpu.example.com"),
                                                          .device_count = 2});
}

static void close_cluster(struct cluster *cluster)
{
    sched_free(cluster->sched);
    arena_done(&cluster->arena);
}

static void put_node(struct cluster *cluster, const char *name, int64_t gpus)
{
    sched_put_node(cluster->sched, &(struct sched_node){.name = str_from(name),
                                                        .cpu_milli = 8000,
                                                        .memory_bytes = INT64_C(1) << 38,
                                                        .gpus = gpus,
                                                        .pods = 110});
}

/* A group of one pod, both of this name. */
struct job {
    const char *name;
    int64_t min; /* 0: 1 */
    int64_t gpus;
    bool claims;
    int64_t priority;
    enum sched_preemptibility kind;
    const char *node; /* where it runs; NULL: it waits */
};

static void put(struct cluster *cluster, const struct job *job)
{
    struct str name = str_from(job->name);
    struct sched_claim_use claim = {.name = STR("two")};

    cluster->now += 1000;
    sched_put_group(cluster->sched, &(struct sched_group){.ns = STR("ns"),
                                                          .name = name,
                                                          .queue = STR("q"),
                                                          .min_member = job->min ? job->min : 1,
                                                          .created_ms = cluster->now,
                                                          .has_priority = true,
                                                          .priority = job->priority,
                                                          .preemptibility = job->kind});
    sched_put_pod(cluster->sched,
                  &(struct sched_pod){.ns = STR("ns"),
                                      .name = name,
                                      .uid = name,
                                      .group = name,
                                      .created_ms = cluster->now,
                                      .phase = job->node ? SCHED_RUNNING : SCHED_PENDING,
                                      .node = job->node ? str_from(job->node) : STR_NONE,
                                      .cpu_milli = 1000,
                                      .memory_bytes = INT64_C(1) << 30,
                                      .gpus = job->gpus,
                                      .claims = &claim,
                                      .claim_count = job->claims,
                                      .role_rank = 2});
}

static void decide(struct cluster *cluster)
{
    struct err err = {0};

    cluster->now += 1000;
    sched_cycle(cluster->sched, cluster->now, &cluster->arena, &cluster->plan);
    EXPECT(sched_verify(cluster->sched, &err) == 0);
}

static bool evicted(const struct cluster *cluster, const char *pod)
{
    for (size_t i = 0; i < cluster->plan.evict_count; i++)
        if (str_is(cluster->plan.evicts[i].pod.name, pod))
            return true;
    return false;
}

static bool promised(const struct cluster *cluster, const char *pod)
{
    for (size_t i = 0; i < cluster->plan.nominate_count; i++)
        if (str_is(cluster->plan.nominates[i].pod.name, pod))
            return true;
    return false;
}

TEST(a_pod_that_is_moved_and_then_stale_is_evicted_from_where_it_runs)
{
    struct cluster cluster;
    struct sched_node_view node;

    open_cluster(&cluster, SCHED_UNLIMITED, 0);
    put_node(&cluster, "a", 4);
    put_node(&cluster, "b", 4);
    put(&cluster, &(struct job){.name = "torn",
                                .min = 2,
                                .gpus = 1,
                                .priority = 50,
                                .kind = SCHED_PREEMPTIBLE,
                                .node = "a"});
    put(&cluster, &(struct job){.name = "stays",
                                .gpus = 3,
                                .priority = 100,
                                .kind = SCHED_NON_PREEMPTIBLE,
                                .node = "b"});
    put(&cluster,
        &(struct job){.name = "whole", .gpus = 4, .priority = 50, .kind = SCHED_PREEMPTIBLE});
    decide(&cluster);
    EXPECT(promised(&cluster, "whole")); /* consolidation moved the torn gang to b for it */
    EXPECT(evicted(&cluster, "torn"));
    EXPECT(sched_node_view(cluster.sched, STR("a"), &node));
    EXPECT(node.idle_gpus == 3); /* it holds its GPU until it has ended */
    close_cluster(&cluster);
}

TEST(evicted_pods_come_back_only_where_the_queue_can_pay_for_the_claim_they_share)
{
    struct cluster cluster;
    struct sched_queue_view queue;

    open_cluster(&cluster, 4, -1);
    put_node(&cluster, "a", 8);
    put(&cluster,
        &(struct job){
            .name = "one", .claims = true, .priority = 50, .kind = SCHED_PREEMPTIBLE, .node = "a"});
    put(&cluster, &(struct job){.name = "other",
                                .claims = true,
                                .priority = 50,
                                .kind = SCHED_PREEMPTIBLE,
                                .node = "a"});
    put(&cluster,
        &(struct job){.name = "urgent", .gpus = 3, .priority = 75, .kind = SCHED_PREEMPTIBLE});
    decide(&cluster);
    EXPECT(promised(&cluster, "urgent"));
    EXPECT(evicted(&cluster, "one"));
    EXPECT(evicted(&cluster, "other"));
    EXPECT(sched_queue_view(cluster.sched, STR("q"), &queue));
    EXPECT(queue.allocated[SCHED_GPU] <= 4);
    close_cluster(&cluster);
}

TEST(evicted_pods_come_back_only_where_the_node_still_has_the_devices_of_their_claim)
{
    struct cluster cluster;

    open_cluster(&cluster, SCHED_UNLIMITED, -1);
    put_node(&cluster, "a", 2);
    put(&cluster,
        &(struct job){
            .name = "one", .claims = true, .priority = 50, .kind = SCHED_PREEMPTIBLE, .node = "a"});
    put(&cluster, &(struct job){.name = "other",
                                .claims = true,
                                .priority = 50,
                                .kind = SCHED_PREEMPTIBLE,
                                .node = "a"});
    put(&cluster,
        &(struct job){.name = "urgent", .gpus = 2, .priority = 75, .kind = SCHED_PREEMPTIBLE});
    decide(&cluster);
    EXPECT(promised(&cluster, "urgent"));
    EXPECT(evicted(&cluster, "one"));
    EXPECT(evicted(&cluster, "other"));
    close_cluster(&cluster);
}

TEST(a_pod_whose_claim_finds_no_room_says_nothing_of_pods_without_the_claim)
{
    struct cluster cluster;

    open_cluster(&cluster, SCHED_UNLIMITED, -1);
    put_node(&cluster, "a", 2);
    put(&cluster, &(struct job){.name = "claims",
                                .claims = true,
                                .priority = 50,
                                .kind = SCHED_PREEMPTIBLE,
                                .node = "a"});
    put(&cluster,
        &(struct job){.name = "plain", .priority = 50, .kind = SCHED_PREEMPTIBLE, .node = "a"});
    put(&cluster,
        &(struct job){.name = "urgent", .gpus = 2, .priority = 75, .kind = SCHED_PREEMPTIBLE});
    decide(&cluster);
    EXPECT(promised(&cluster, "urgent"));
    EXPECT(evicted(&cluster, "claims"));
    EXPECT(!evicted(&cluster, "plain"));
    close_cluster(&cluster);
}

TEST(the_minimum_of_a_semi_preemptible_group_pays_for_a_claim_it_takes_over)
{
    struct cluster cluster;
    struct sched_queue_view queue;

    open_cluster(&cluster, SCHED_UNLIMITED, -1);
    put_node(&cluster, "a", 2);
    put(&cluster, &(struct job){.name = "first",
                                .claims = true,
                                .priority = 50,
                                .kind = SCHED_PREEMPTIBLE,
                                .node = "a"});
    put(&cluster, &(struct job){.name = "second",
                                .claims = true,
                                .priority = 50,
                                .kind = SCHED_SEMI_PREEMPTIBLE,
                                .node = "a"});
    decide(&cluster);
    EXPECT(sched_queue_view(cluster.sched, STR("q"), &queue));
    EXPECT((int64_t)queue.allocated_non_preemptible[SCHED_GPU] == 0);
    sched_drop_pod(cluster.sched, STR("ns"), STR("first"));
    EXPECT(sched_queue_view(cluster.sched, STR("q"), &queue));
    EXPECT((int64_t)queue.allocated_non_preemptible[SCHED_GPU] == 2);
    close_cluster(&cluster);
}
