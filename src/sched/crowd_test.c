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
