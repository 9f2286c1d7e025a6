#include "base/str.h"
#include "sched/sched.h"
#include "sched/spec.h"
#include "sched/world_test.h"
#include "test.h"

#include <stdbool.h>
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

/* A group that may run for an hour, on one node of two GPUs. */
static void runs_an_hour(struct cluster *c, bool requeue)
{
    struct sched_group group = {.ns = STR("ns"),
                                .name = STR("job"),
                                .queue = STR("q"),
                                .created_ms = 1,
                                .min_member = 1,
                                .max_run_ms = 60 * MINUTE,
                                .requeue = requeue};

    cluster_open(c, SCHED_QUIRKS_NONE);
    cluster_queue(c, "q", SCHED_UNLIMITED, SCHED_UNLIMITED);
    cluster_node(c, "a", 2);
    cluster_put(c, &(struct job){.name = "job", .gpus = 2, .kind = SCHED_NON_PREEMPTIBLE});
    group.preemptibility = SCHED_NON_PREEMPTIBLE;
    group.created_ms = c->now;
    sched_put_group(c->sched, &group);
    cluster_decide(c, 1000);
    EXPECT(cluster_bound(c, "job-0"));
    EXPECT(sched_counts_starts(c->sched));
    cluster_decide(c, 59 * MINUTE);
    EXPECT(!c->plan.evict_count && c->plan.next_wake_ms);
    cluster_decide(c, MINUTE);
    EXPECT(cluster_evicted(c, "job-0"));
    EXPECT(str_contains(c->plan.evicts[0].message, STR("maxRunTime of 60m")));
    cluster_drop(c, "job-0");
    sched_put_pod(c->sched, &(struct sched_pod){.ns = STR("ns"),
                                                .name = STR("job-1"),
                                                .uid = STR("job-1"),
                                                .group = STR("job"),
                                                .created_ms = c->now,
                                                .gpus = 2});
}

TEST(a_group_is_stopped_after_its_maximum_run_time_and_not_started_again)
{
    struct cluster c;

    runs_an_hour(&c, false);
    EXPECT(c.plan.note_count == 1 && c.plan.notes[0].note == SCHED_NOTE_OVER);
    cluster_decide(&c, 1000);
    EXPECT(!c.plan.bind_count);
    EXPECT(str_contains(cluster_waiting(&c, "job")->message, STR("maxRunTime")));
    cluster_close(&c);
}

TEST(a_group_that_is_requeued_after_its_maximum_run_time_runs_for_it_again)
{
    struct cluster c;

    runs_an_hour(&c, true);
    EXPECT(!c.plan.note_count);
    cluster_decide(&c, 1000);
    EXPECT(cluster_bound(&c, "job-1"));
    cluster_decide(&c, 30 * MINUTE);
    EXPECT(!c.plan.evict_count);
    cluster_decide(&c, 31 * MINUTE);
    EXPECT(cluster_evicted(&c, "job-1"));
    cluster_close(&c);
}

TEST(a_pod_whose_claim_does_not_exist_waits_and_no_room_is_made_for_it)
{
    struct cluster c;

    cluster_open(&c, SCHED_QUIRKS_NONE);
    cluster_queue(&c, "q", SCHED_UNLIMITED, SCHED_UNLIMITED);
    cluster_node(&c, "a", 2);
    cluster_put(
        &c, &(struct job){
                .name = "low", .gpus = 2, .priority = 50, .kind = SCHED_PREEMPTIBLE, .node = "a"});
    cluster_put(&c, &(struct job){.name = "lost", .claim = "none", .gpus = 1, .priority = 100});
    cluster_decide(&c, 10 * MINUTE);
    EXPECT(!c.plan.evict_count && !c.plan.bind_count);
    EXPECT(cluster_waiting(&c, "lost")->reason == SCHED_REASON_NO_CLAIM);
    EXPECT(str_contains(cluster_waiting(&c, "lost")->message, STR("ns/none")));
    cluster_claim(&c, "none", 1);
    cluster_decide(&c, 1000);
    EXPECT(cluster_evicted(&c, "low-0"));
    cluster_close(&c);
}

TEST(gpus_of_a_model_are_limited_in_a_queue_and_those_below_it)
{
    static const struct sched_model_limit h100 = {STR("H100"), 2};
    static const struct sched_label label = {STR(SCHED_MODEL_LABEL), STR("H100")};
    struct cluster c;

    cluster_open(&c, SCHED_QUIRKS_NONE);
    struct sched_queue top = {
        .name = STR("top"), .priority = 100, .models = &h100, .model_count = 1};
    struct sched_queue leaf = {.name = STR("q"), .parent = STR("top"), .priority = 100};
    for (int r = 0; r < SCHED_RESOURCES; r++)
        top.quota[r] = leaf.quota[r] = (struct sched_quota){SCHED_UNLIMITED, SCHED_UNLIMITED, 1};
    sched_put_queue(c.sched, &top);
    sched_put_queue(c.sched, &leaf);
    sched_put_node(c.sched, &(struct sched_node){.name = STR("a"),
                                                 .labels = &label,
                                                 .label_count = 1,
                                                 .cpu_milli = 64000,
                                                 .memory_bytes = INT64_C(1) << 38,
                                                 .gpus = 8,
                                                 .pods = 110});
    for (int i = 0; i < 3; i++)
        cluster_put(&c, &(struct job){.name = str_printf(&c.arena, "j%d", i).p, .gpus = 1});
    cluster_decide(&c, 1000);
    EXPECT(c.plan.bind_count == 2);
    cluster_node(&c, "b", 1); /* of another model */
    cluster_decide(&c, 1000);
    EXPECT(c.plan.bind_count == 1);
    cluster_close(&c);
}
