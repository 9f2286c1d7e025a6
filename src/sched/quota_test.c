#include "base/str.h"
#include "sched/sched.h"
#include "sched/spec.h"
#include "sched/world_test.h"
#include "test.h"

/* Queue q below queue top; one gang holds two GPUs. */
static void put_queue(struct cluster *c, const char *name, const char *parent, double gpu_limit)
{
    struct sched_queue queue = {.name = str_from(name),
                                .parent = str_from(parent),
                                .priority = 100,
                                .preempt_min_runtime_ms = -1,
                                .reclaim_min_runtime_ms = -1};

    for (int r = 0; r < SCHED_RESOURCES; r++)
        queue.quota[r] = (struct sched_quota){SCHED_UNLIMITED, SCHED_UNLIMITED, 1};
    queue.quota[SCHED_GPU].limit = gpu_limit;
    sched_put_queue(c->sched, &queue);
}

static bool may_bind_after(struct cluster *c, double top_limit, double own_limit)
{
    put_queue(c, "top", "", top_limit);
    put_queue(c, "q", "top", own_limit);
    cluster_decide(c, 1000);
    return sched_may_bind(c->sched, STR("ns"), STR("g"));
}

TEST(a_gang_may_be_bound_unless_its_queue_or_one_above_is_beyond_its_limit)
{
    struct cluster c;

    cluster_open(&c, 0);
    cluster_node(&c, "a", 4);
    cluster_put(&c, &(struct job){.name = "g", .pods = 1, .gpus = 2, .node = "a"});
    EXPECT(may_bind_after(&c, SCHED_UNLIMITED, SCHED_UNLIMITED));
    EXPECT(may_bind_after(&c, 2, 2));
    EXPECT(!may_bind_after(&c, 2, 1));
    EXPECT(!may_bind_after(&c, 1, 2));
    EXPECT(sched_may_bind(c.sched, STR("ns"), STR("nobody")));
    cluster_close(&c);
}
