#include "base/arena.h"
#include "base/str.h"
#include "sched/reserve.h"
#include "sched/sched.h"
#include "sched/spec.h"
#include "test.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Two nodes of four GPUs. Queue r uses nothing yet, so it comes before queue q. */
struct cluster {
    struct sched *sched;
    struct arena arena;
    struct sched_plan plan;
    int64_t now;
};

static void open_cluster(struct cluster *cluster, uint64_t quirks)
{
    struct sched_config config;
    struct sched_queue queue = {.name = STR("q"),
                                .priority = 100,
                                .preempt_min_runtime_ms = -1,
                                .reclaim_min_runtime_ms = -1};

    *cluster = (struct cluster){.now = INT64_C(1800000000000)};
    sched_config_default(&config);
    config.quirks = quirks;
    config.policy.reserve_after_ms = 60000;
    cluster->sched = sched_new(&config);
    for (int r = 0; r < SCHED_RESOURCES; r++)
        queue.quota[r] = (struct sched_quota){SCHED_UNLIMITED, SCHED_UNLIMITED, 1};
    sched_put_queue(cluster->sched, &queue);
    queue.name = STR("r");
    sched_put_queue(cluster->sched, &queue);
    for (int n = 0; n < 2; n++)
        sched_put_node(cluster->sched, &(struct sched_node){.name = n ? STR("b") : STR("a"),
                                                            .cpu_milli = 64000,
                                                            .memory_bytes = INT64_C(1) << 38,
                                                            .gpus = 4,
                                                            .pods = 110});
}

static void close_cluster(struct cluster *cluster)
{
    sched_free(cluster->sched);
    arena_done(&cluster->arena);
}

struct gang {
    const char *name;
    const char *queue; /* NULL: q */
    int64_t pods;
    int64_t gpus;
    int64_t priority;
    bool fixed;
    const char *node; /* where it runs; NULL: it waits */
    bool ending;
    int64_t deadline_ms;
};

static void put(struct cluster *cluster, const struct gang *gang)
{
    sched_put_group(cluster->sched,
                    &(struct sched_group){.ns = STR("ns"),
                                          .name = str_from(gang->name),
                                          .queue = gang->queue ? str_from(gang->queue) : STR("q"),
                                          .min_member = gang->pods,
                                          .created_ms = cluster->now,
                                          .has_priority = true,
                                          .priority = gang->priority,
                                          .preemptibility = gang->fixed ? SCHED_NON_PREEMPTIBLE
                                                                        : SCHED_PREEMPTIBLE});
    for (int64_t i = 0; i < gang->pods; i++) {
        struct sched_pod pod = {
            .ns = STR("ns"),
            .name = str_printf(&cluster->arena, "%s-%lld", gang->name, (long long)i),
            .group = str_from(gang->name),
            .created_ms = cluster->now,
            .cpu_milli = 1000,
            .memory_bytes = 1 << 30,
            .gpus = gang->gpus,
            .deadline_ms = gang->deadline_ms,
            .role_rank = 2};
        pod.uid = pod.name;
        if (gang->node) {
            pod.node = str_from(gang->node);
            pod.phase = gang->ending ? SCHED_RELEASING : SCHED_RUNNING;
            pod.started_ms = cluster->now;
        }
        sched_put_pod(cluster->sched, &pod);
    }
}

static void drop(struct cluster *cluster, const char *pod)
{
    sched_drop_pod(cluster->sched, STR("ns"), str_from(pod));
}

static void decide(struct cluster *cluster, int64_t later_ms)
{
    cluster->now += later_ms;
    sched_cycle(cluster->sched, cluster->now, &cluster->arena, &cluster->plan);
}

static bool bound(const struct cluster *cluster, const char *pod)
{
    for (size_t i = 0; i < cluster->plan.bind_count; i++)
        if (str_is(cluster->plan.binds[i].pod.name, pod))
            return true;
    return false;
}

static bool evicted(const struct cluster *cluster, const char *pod)
{
    for (size_t i = 0; i < cluster->plan.evict_count; i++)
        if (str_is(cluster->plan.evicts[i].pod.name, pod))
            return true;
    return false;
}

/* A gang over both nodes evicts what runs there; the first node is empty, the second not yet. */
static void half_freed(struct cluster *cluster, uint64_t quirks)
{
    open_cluster(cluster, quirks);
    put(cluster, &(struct gang){.name = "one", .pods = 1, .gpus = 4, .priority = 50, .node = "a"});
    put(cluster, &(struct gang){.name = "two", .pods = 1, .gpus = 4, .priority = 50, .node = "b"});
    put(cluster, &(struct gang){.name = "big", .pods = 2, .gpus = 4, .priority = 75});
    decide(cluster, 1000);
    EXPECT(evicted(cluster, "one-0") && evicted(cluster, "two-0"));
    drop(cluster, "one-0");
}

TEST(room_freed_by_eviction_stays_with_the_gang_it_was_freed_for)
{
    struct cluster c;

    half_freed(&c, SCHED_QUIRKS_NONE);
    put(&c, &(struct gang){.name = "hasty", .queue = "r", .pods = 1, .gpus = 4, .priority = 50});
    decide(&c, 1000);
    EXPECT(c.plan.bind_count == 0);
    EXPECT(c.plan.evict_count == 0);
    drop(&c, "two-0");
    decide(&c, 1000);
    EXPECT(bound(&c, "big-0") && bound(&c, "big-1"));
    EXPECT(!bound(&c, "hasty-0"));
    close_cluster(&c);
}

TEST(kai_gives_freed_room_to_whoever_comes_first)
{
    struct cluster c;

    half_freed(&c, SCHED_QUIRK(NO_RESERVATION));
    put(&c, &(struct gang){.name = "hasty", .queue = "r", .pods = 1, .gpus = 4, .priority = 50});
    decide(&c, 1000);
    EXPECT(bound(&c, "hasty-0"));
    close_cluster(&c);
}

TEST(a_reservation_ends_when_the_gang_is_cancelled)
{
    struct cluster c;

    half_freed(&c, SCHED_QUIRKS_NONE);
    drop(&c, "big-0");
    drop(&c, "big-1");
    sched_drop_group(c.sched, STR("ns"), STR("big"));
    put(&c, &(struct gang){.name = "hasty", .pods = 1, .gpus = 4, .priority = 50});
    decide(&c, 1000);
    EXPECT(bound(&c, "hasty-0"));
    close_cluster(&c);
}

TEST(a_reservation_ends_when_a_victim_stays)
{
    struct cluster c;

    half_freed(&c, SCHED_QUIRKS_NONE);
    sched_evict_failed(c.sched, STR("ns"), STR("two-0"));
    put(&c, &(struct gang){.name = "two", .pods = 1, .gpus = 4, .fixed = true, .node = "b"});
    put(&c, &(struct gang){.name = "hasty", .pods = 1, .gpus = 4, .priority = 50});
    decide(&c, 1000);
    EXPECT(bound(&c, "hasty-0"));
    close_cluster(&c);
}

TEST(a_reserved_gang_starts_elsewhere_when_that_is_sooner)
{
    struct cluster c;

    half_freed(&c, SCHED_QUIRKS_NONE);
    decide(&c, 1000);
    EXPECT(c.plan.bind_count == 0);
    sched_put_node(c.sched, &(struct sched_node){.name = STR("c"),
                                                 .cpu_milli = 64000,
                                                 .memory_bytes = INT64_C(1) << 38,
                                                 .gpus = 4,
                                                 .pods = 110});
    decide(&c, 1000);
    EXPECT(bound(&c, "big-0") && bound(&c, "big-1"));
    close_cluster(&c);
}

/* A gang over both nodes has waited for long; one node is empty, on the other something runs. */
static void aged(struct cluster *cluster, uint64_t quirks, int64_t deadline_ms)
{
    open_cluster(cluster, quirks);
    put(cluster, &(struct gang){.name = "old",
                                .pods = 1,
                                .gpus = 4,
                                .fixed = true,
                                .node = "b",
                                .deadline_ms = deadline_ms});
    put(cluster, &(struct gang){.name = "big", .pods = 2, .gpus = 4, .priority = 50});
    decide(cluster, 1000);
    EXPECT(cluster->plan.next_wake_ms == cluster->now - 1000 + 60000);
    decide(cluster, 60000);
}

TEST(room_is_kept_for_a_gang_that_has_waited_long)
{
    struct cluster c;

    aged(&c, SCHED_QUIRKS_NONE, 0);
    put(&c, &(struct gang){.name = "small", .pods = 1, .gpus = 1, .fixed = true});
    decide(&c, 1000);
    EXPECT(!bound(&c, "small-0"));
    drop(&c, "old-0");
    decide(&c, 1000);
    EXPECT(bound(&c, "big-0") && bound(&c, "big-1"));
    close_cluster(&c);
}

TEST(kai_lets_small_work_pass_a_gang_for_ever)
{
    struct cluster c;

    open_cluster(&c, SCHED_QUIRK(NO_AGEING));
    put(&c, &(struct gang){.name = "old", .pods = 1, .gpus = 4, .fixed = true, .node = "b"});
    put(&c, &(struct gang){.name = "big", .pods = 2, .gpus = 4, .priority = 50});
    decide(&c, 1000);
    put(&c, &(struct gang){.name = "small", .pods = 1, .gpus = 1, .fixed = true});
    decide(&c, 3600000);
    EXPECT(bound(&c, "small-0"));
    close_cluster(&c);
}

TEST(kept_room_is_lent_to_what_can_be_evicted_and_called_back)
{
    struct cluster c;

    aged(&c, SCHED_QUIRKS_NONE, 0);
    put(&c, &(struct gang){.name = "small", .pods = 1, .gpus = 1, .priority = 50});
    decide(&c, 1000);
    EXPECT(bound(&c, "small-0"));
    drop(&c, "old-0");
    decide(&c, 1000);
    EXPECT(evicted(&c, "small-0"));
    EXPECT(c.plan.evict_count == 1 && c.plan.evicts[0].action == SCHED_ACTION_RESERVE);
    drop(&c, "small-0");
    decide(&c, 1000);
    EXPECT(bound(&c, "big-0") && bound(&c, "big-1"));
    close_cluster(&c);
}

TEST(kept_room_is_lent_to_what_ends_in_time)
{
    struct cluster c;

    aged(&c, SCHED_QUIRKS_NONE, 1000000);
    put(&c, &(struct gang){
                .name = "short", .pods = 1, .gpus = 1, .fixed = true, .deadline_ms = 600000});
    put(&c, &(struct gang){
                .name = "long", .pods = 1, .gpus = 1, .fixed = true, .deadline_ms = 2000000});
    decide(&c, 1000);
    EXPECT(bound(&c, "short-0"));
    EXPECT(!bound(&c, "long-0"));
    close_cluster(&c);
}
