#include "base/str.h"
#include "sched/sched.h"
#include "sched/spec.h"
#include "sched/world_test.h"
#include "test.h"

#include <stdint.h>

/* Rules about room that is kept for gangs which have waited long, each for itself. Two nodes of
 * four GPUs, of which one is in use without end, and a third on which no pod of a gang fits. */
static void keep_cluster(struct cluster *cluster)
{
    struct sched_config config;

    sched_config_default(&config);
    config.policy.reserve_after_ms = 60000;
    cluster_open_as(cluster, &config);
    cluster_queue(cluster, "q", SCHED_UNLIMITED, SCHED_UNLIMITED);
    cluster_queue(cluster, "r", SCHED_UNLIMITED, SCHED_UNLIMITED);
    cluster_node(cluster, "a", 4);
    cluster_node(cluster, "b", 4);
    cluster_node(cluster, "small", 2);
    cluster_put(
        cluster,
        &(struct job){
            .name = "old", .queue = "r", .gpus = 4, .kind = SCHED_NON_PREEMPTIBLE, .node = "b"});
}

/* Whether a small job of the queue is bound beside a gang of eight GPUs for which room is kept. */
static bool passes_kept(double quota, double limit, enum sched_preemptibility kind)
{
    struct cluster c;

    keep_cluster(&c);
    cluster_queue(&c, "q", quota, limit);
    cluster_put(&c, &(struct job){.name = "big", .pods = 2, .gpus = 4, .kind = kind});
    cluster_decide(&c, 1000);
    cluster_decide(&c, 60000);
    cluster_put(&c, &(struct job){.name = "late", .gpus = 1, .kind = SCHED_NON_PREEMPTIBLE});
    cluster_decide(&c, 1000);
    bool bound = cluster_bound(&c, "late-0");
    cluster_close(&c);
    return bound;
}

TEST(kept_room_counts_against_the_limit_of_its_queue)
{
    EXPECT(passes_kept(SCHED_UNLIMITED, SCHED_UNLIMITED, SCHED_PREEMPTIBLE));
    EXPECT(passes_kept(SCHED_UNLIMITED, 9, SCHED_PREEMPTIBLE));
    EXPECT(!passes_kept(SCHED_UNLIMITED, 8, SCHED_PREEMPTIBLE));
}

/* The quota holds what cannot be evicted: only such a gang takes of it. */
TEST(kept_room_of_a_fixed_gang_counts_against_the_quota_of_its_queue)
{
    EXPECT(passes_kept(9, SCHED_UNLIMITED, SCHED_NON_PREEMPTIBLE));
    EXPECT(!passes_kept(8, SCHED_UNLIMITED, SCHED_NON_PREEMPTIBLE));
    EXPECT(passes_kept(8, SCHED_UNLIMITED, SCHED_PREEMPTIBLE));
}

/* Both have waited long enough at the same moment, and there is room for one of them. The younger
 * would be first by its name and by its queue, which uses less. */
TEST(room_is_kept_for_the_gang_that_has_waited_longest)
{
    struct cluster c;

    keep_cluster(&c);
    cluster_put(&c, &(struct job){
                        .name = "in-q", .gpus = 1, .kind = SCHED_NON_PREEMPTIBLE, .node = "small"});
    cluster_put(&c, &(struct job){.name = "z-first", .pods = 2, .gpus = 4, .priority = 50});
    cluster_decide(&c, 1000);
    cluster_queue(&c, "s", SCHED_UNLIMITED, SCHED_UNLIMITED);
    cluster_put(
        &c, &(struct job){.name = "a-second", .queue = "s", .pods = 2, .gpus = 4, .priority = 50});
    cluster_decide(&c, 1000);
    cluster_decide(&c, 120000);
    EXPECT(c.plan.bind_count == 0);
    cluster_drop(&c, "old-0");
    cluster_decide(&c, 1000);
    EXPECT(cluster_bound(&c, "z-first-0") && cluster_bound(&c, "z-first-1"));
    EXPECT(!cluster_bound(&c, "a-second-0"));
    cluster_close(&c);
}
