#include "base/str.h"
#include "sched/sched.h"
#include "sched/spec.h"
#include "sched/world_test.h"
#include "test.h"

#include <stddef.h>
#include <stdint.h>

#define MINUTE 60000

/* One node of two GPUs, in use by a preemptible pod, and a more urgent one that keeps off others
 * for five minutes. */
static void urgent_waits(struct cluster *c)
{
    cluster_open(c, SCHED_QUIRKS_NONE);
    cluster_queue(c, "q", SCHED_UNLIMITED, SCHED_UNLIMITED);
    cluster_node(c, "a", 2);
    cluster_put(
        c, &(struct job){
               .name = "low", .gpus = 2, .priority = 50, .kind = SCHED_PREEMPTIBLE, .node = "a"});
    cluster_put(c, &(struct job){.name = "high",
                                 .gpus = 2,
                                 .priority = 75,
                                 .kind = SCHED_PREEMPTIBLE,
                                 .preempt_delay_ms = 5 * MINUTE});
}

TEST(a_group_with_a_preemption_delay_evicts_nobody_until_it_has_waited)
{
    struct cluster c;

    urgent_waits(&c);
    cluster_decide(&c, MINUTE);
    EXPECT(!c.plan.evict_count);
    EXPECT(c.plan.next_wake_ms && c.plan.next_wake_ms <= c.now + 4 * MINUTE);
    EXPECT(str_contains(cluster_waiting(&c, "high")->message, STR("preemptionDelay")));
    cluster_decide(&c, 4 * MINUTE);
    EXPECT(cluster_evicted(&c, "low-0"));
    EXPECT(cluster_promised(&c, "high-0"));
    cluster_close(&c);
}

TEST(a_group_with_a_preemption_delay_starts_in_free_room_at_once)
{
    struct cluster c;

    urgent_waits(&c);
    cluster_node(&c, "b", 2);
    cluster_decide(&c, 1000);
    EXPECT(cluster_bound(&c, "high-0"));
    cluster_close(&c);
}

TEST(losing_pods_begins_the_delay_anew)
{
    struct cluster c;

    urgent_waits(&c);
    cluster_put(&c, &(struct job){.name = "low",
                                  .gpus = 2,
                                  .priority = 50,
                                  .kind = SCHED_PREEMPTIBLE,
                                  .node = "a",
                                  .preempt_delay_ms = 10 * MINUTE});
    cluster_decide(&c, 6 * MINUTE);
    EXPECT(cluster_evicted(&c, "low-0"));
    EXPECT(c.plan.note_count == 1 && c.plan.notes[0].note == SCHED_NOTE_EVICTED);
    EXPECT(str_is(c.plan.notes[0].group, "low"));
    cluster_close(&c);
}

TEST(nobody_counts_on_the_room_of_a_pod_that_does_not_end)
{
    struct cluster c;

    cluster_open(&c, SCHED_QUIRKS_NONE);
    cluster_queue(&c, "q", SCHED_UNLIMITED, SCHED_UNLIMITED);
    cluster_node(&c, "a", 2);
    cluster_put(&c, &(struct job){.name = "old",
                                  .gpus = 2,
                                  .priority = 50,
                                  .kind = SCHED_PREEMPTIBLE,
                                  .node = "a",
                                  .ending = true});
    cluster_put(&c, &(struct job){.name = "new", .gpus = 2, .priority = 75});
    cluster_decide(&c, 1000);
    EXPECT(cluster_promised(&c, "new-0")); /* it will end soon */
    EXPECT(c.plan.next_wake_ms && c.plan.next_wake_ms <= c.now + 2 * MINUTE);
    cluster_decide(&c, 3 * MINUTE);
    EXPECT(!cluster_promised(&c, "new-0")); /* it does not */
    EXPECT(!cluster_evicted(&c, "old-0"));
    EXPECT(cluster_waiting(&c, "new")->reason != SCHED_REASON_TERMINATING);
    cluster_drop(&c, "old-0");
    cluster_decide(&c, 1000);
    EXPECT(cluster_bound(&c, "new-0"));
    cluster_close(&c);
}

/* A group of two subgroups with a minimum of one pod each, of which one has to start. */
static void put_tree(struct cluster *c, int64_t pods, const char *node)
{
    static const struct sched_subgroup sets[] = {{.name = STR("one"), .min_member = 1},
                                                 {.name = STR("two"), .min_member = 1}};

    sched_put_group(c->sched, &(struct sched_group){.ns = STR("ns"),
                                                    .name = STR("tree"),
                                                    .queue = STR("q"),
                                                    .created_ms = c->now,
                                                    .has_priority = true,
                                                    .priority = 50,
                                                    .preemptibility = SCHED_PREEMPTIBLE,
                                                    .subgroups = sets,
                                                    .subgroup_count = 2,
                                                    .min_subgroup = 1});
    for (int64_t i = 0; i < pods; i++) {
        struct str name = str_printf(&c->arena, "tree-%lld", (long long)i);

        sched_put_pod(c->sched, &(struct sched_pod){.ns = STR("ns"),
                                                    .name = name,
                                                    .uid = name,
                                                    .group = STR("tree"),
                                                    .subgroup = sets[i % 2].name,
                                                    .created_ms = c->now,
                                                    .gpus = 1,
                                                    .phase = node ? SCHED_RUNNING : SCHED_PENDING,
                                                    .node = node ? str_from(node) : STR_NONE});
    }
}

TEST(a_group_gives_pods_then_a_subgroup_it_does_not_need_then_the_rest)
{
    static const struct {
        int64_t asked;
        size_t evicted;
        const char *why;
    } rows[] = {{1, 1, "a pod above a minimum"},
                {2, 2, "one of each subgroup"},
                {3, 3, "a whole subgroup"},
                {4, 4, "what is left breaks"}};

    for (size_t i = 0; i < 4; i++) {
        struct cluster c;

        test_case(rows[i].why);
        cluster_open(&c, SCHED_QUIRKS_NONE);
        cluster_queue(&c, "q", SCHED_UNLIMITED, SCHED_UNLIMITED);
        cluster_node(&c, "a", 4);
        put_tree(&c, 4, "a");
        cluster_put(&c, &(struct job){.name = "high", .gpus = rows[i].asked, .priority = 100});
        cluster_decide(&c, 1000);
        EXPECT(c.plan.evict_count == rows[i].evicted);
        cluster_close(&c);
    }
}

TEST(a_group_starts_with_as_many_subgroups_as_it_needs)
{
    struct cluster c;

    cluster_open(&c, SCHED_QUIRKS_NONE);
    cluster_queue(&c, "q", SCHED_UNLIMITED, SCHED_UNLIMITED);
    cluster_node(&c, "a", 1);
    put_tree(&c, 2, NULL);
    cluster_decide(&c, 1000);
    EXPECT(c.plan.bind_count == 1);
    cluster_close(&c);
}
