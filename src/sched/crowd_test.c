#include "base/count.h"
#include "sched/action.h"
#include "sched/search.h"
#include "sched/state.h"
#include "sched/world_test.h"
#include "test.h"

#include <stdint.h>
#include <stdio.h>

/* A job of thousands of pods, of which some run, beside small jobs that its going would not help. */
#define NODES 6
#define MANY  4096
#define SMALL 40

/* What one cycle may look at: the searches that it has time for, and the last one, which may be long. */
#define STEPS_MAX (UINT64_C(1) * ACTION_VAIN_MAX * ACTION_VAIN_STEPS + 2 * SEARCH_STEPS_MAX)

TEST(a_job_of_thousands_of_pods_beside_small_ones_holds_nobody)
{
    struct cluster cluster;
    char name[32];
    uint64_t last = 0;

    cluster_open(&cluster, SCHED_QUIRKS_NONE);
    cluster_queue(&cluster, "q", SCHED_UNLIMITED, SCHED_UNLIMITED);
    for (int i = 0; i < NODES; i++) {
        (void)snprintf(name, sizeof(name), "n%d", i);
        cluster_node(&cluster, name, 100); /* 33 pods and a GPU that is of no use to them */
    }
    cluster_put(&cluster, &(struct job){.name = "many",
                                        .pods = MANY,
                                        .min = 1,
                                        .gpus = 3,
                                        .priority = 50,
                                        .kind = SCHED_PREEMPTIBLE});
    cluster_decide(&cluster, 1000);
    EXPECT(cluster.plan.bind_count == NODES * 33);
    for (int i = 0; i < SMALL; i++) {
        (void)snprintf(name, sizeof(name), "small%d", i);
        cluster_put(&cluster, &(struct job){.name = name,
                                            .pods = 1 + i % 2,
                                            .gpus = 2 + i % 2,
                                            .priority = 50,
                                            .kind = SCHED_PREEMPTIBLE});
    }
    for (int i = 0; i < 8; i++) {
        last = cluster.sched->steps;
        cluster_decide(&cluster, ACTION_TURN_MS);
        uint64_t steps = cluster.sched->steps - last;
        if (steps > STEPS_MAX)
            (void)fprintf(stderr, "%llu steps in one cycle, at most %llu\n",
                          (unsigned long long)steps, (unsigned long long)STEPS_MAX);
        EXPECT(steps <= STEPS_MAX);
    }
    cluster_close(&cluster);
}

/* Pods that keep each other away, on two nodes. */
#define APART_RUN 200
#define STEPS_APART \
    (UINT64_C(64) * APART_RUN * APART_RUN) /* each of them is tried, and each try counts all */

static void put_apart(struct cluster *cluster, const char *name, const char *node)
{
    static const struct sched_label label = {STR("app"), STR("x")};
    static const struct sched_expression any = {.key = STR("app"), .op = SCHED_EXISTS};
    static const struct sched_pod_term apart = {.selector = {&any, 1, true},
                                                .topology_key = STR("host")};
    bool runs = *node;

    sched_put_group(cluster->sched, &(struct sched_group){.ns = STR("ns"),
                                                          .name = str_from(name),
                                                          .queue = STR("q"),
                                                          .min_member = 1,
                                                          .has_priority = true,
                                                          .priority = 50});
    sched_put_pod(cluster->sched, &(struct sched_pod){.ns = STR("ns"),
                                                      .name = str_from(name),
                                                      .uid = str_from(name),
                                                      .group = str_from(name),
                                                      .cpu_milli = 1,
                                                      .phase = runs ? SCHED_RUNNING : SCHED_PENDING,
                                                      .node = str_from(node),
                                                      .labels = &label,
                                                      .label_count = 1,
                                                      .anti_affinity = &apart,
                                                      .anti_affinity_count = 1});
}

/* Else a cycle would have time for as many searches as if nobody kept others away, and takes seconds. */
TEST(what_is_looked_at_to_keep_pods_apart_counts_as_steps)
{
    static const char *const nodes[] = {"a", "b"};
    struct cluster cluster;
    char name[32];

    cluster_open(&cluster, SCHED_QUIRKS_NONE);
    cluster_queue(&cluster, "q", SCHED_UNLIMITED, SCHED_UNLIMITED);
    for (size_t i = 0; i < COUNT_OF(nodes); i++) {
        struct sched_label host = {STR("host"), str_from(nodes[i])};

        sched_put_node(cluster.sched, &(struct sched_node){.name = str_from(nodes[i]),
                                                           .cpu_milli = 64000,
                                                           .pods = 2 * APART_RUN,
                                                           .labels = &host,
                                                           .label_count = 1});
    }
    for (int i = 0; i <= APART_RUN; i++) {
        (void)snprintf(name, sizeof(name), "p%d", i);
        put_apart(&cluster, name, i < APART_RUN ? nodes[i % 2] : "");
    }
    cluster_decide(&cluster, 1000);
    EXPECT(!cluster_bound(&cluster, name) && cluster.sched->steps > STEPS_APART);
    cluster_close(&cluster);
}
