#include "base/count.h"
#include "base/str.h"
#include "sched/action.h"
#include "sched/sched.h"
#include "sched/spec.h"
#include "sched/world_test.h"
#include "test.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One queue with a GPU limit, and a claim of two GPUs that pods can share. */
static void open_cluster(struct cluster *cluster, double gpu_limit, int64_t stale_grace_ms)
{
    struct sched_config config;

    sched_config_default(&config);
    config.policy.stale_grace_ms = stale_grace_ms;
    cluster_open_as(cluster, &config);
    cluster_queue(cluster, "q", SCHED_UNLIMITED, gpu_limit);
    cluster_claim(cluster, "two", 2);
}

TEST(a_pod_that_is_moved_and_then_stale_is_evicted_from_where_it_runs)
{
    struct cluster cluster;
    struct sched_node_view node;

    open_cluster(&cluster, SCHED_UNLIMITED, 0);
    cluster_node(&cluster, "a", 4);
    cluster_node(&cluster, "b", 4);
    cluster_put(&cluster, &(struct job){.name = "torn",
                                        .min = 2,
                                        .gpus = 1,
                                        .priority = 50,
                                        .kind = SCHED_PREEMPTIBLE,
                                        .node = "a"});
    cluster_put(&cluster, &(struct job){.name = "stays",
                                        .gpus = 3,
                                        .priority = 100,
                                        .kind = SCHED_NON_PREEMPTIBLE,
                                        .node = "b"});
    cluster_put(
        &cluster,
        &(struct job){.name = "whole", .gpus = 4, .priority = 50, .kind = SCHED_PREEMPTIBLE});
    cluster_decide(&cluster, 1000);
    EXPECT(
        cluster_promised(&cluster, "whole-0")); /* consolidation moved the torn gang to b for it */
    EXPECT(cluster_evicted(&cluster, "torn-0"));
    EXPECT(sched_node_view(cluster.sched, STR("a"), &node));
    EXPECT(node.idle_gpus == 3); /* it holds its GPU until it has ended */
    cluster_close(&cluster);
}

/* Two pods on node a share a claim of two GPUs; an urgent pod of so many GPUs takes both's place.
 */
static void claim_holders_go_for(struct cluster *cluster, int64_t gpus)
{
    static const char *const holders[] = {"one", "other"};

    for (size_t i = 0; i < 2; i++)
        cluster_put(cluster, &(struct job){.name = holders[i],
                                           .claim = "two",
                                           .priority = 50,
                                           .kind = SCHED_PREEMPTIBLE,
                                           .node = "a"});
    cluster_put(
        cluster,
        &(struct job){.name = "urgent", .gpus = gpus, .priority = 75, .kind = SCHED_PREEMPTIBLE});
    cluster_decide(cluster, 1000);
    EXPECT(cluster_promised(cluster, "urgent-0"));
    EXPECT(cluster_evicted(cluster, "one-0"));
    EXPECT(cluster_evicted(cluster, "other-0"));
}

TEST(evicted_pods_come_back_only_where_the_queue_can_pay_for_the_claim_they_share)
{
    struct cluster cluster;
    struct sched_queue_view queue;

    open_cluster(&cluster, 4, -1);
    cluster_node(&cluster, "a", 8);
    claim_holders_go_for(&cluster, 3);
    EXPECT(sched_queue_view(cluster.sched, STR("q"), &queue));
    EXPECT(queue.allocated[SCHED_GPU] <= 4);
    cluster_close(&cluster);
}

TEST(evicted_pods_come_back_only_where_the_node_still_has_the_devices_of_their_claim)
{
    struct cluster cluster;

    open_cluster(&cluster, SCHED_UNLIMITED, -1);
    cluster_node(&cluster, "a", 2);
    claim_holders_go_for(&cluster, 2);
    cluster_close(&cluster);
}

TEST(a_pod_whose_claim_finds_no_room_says_nothing_of_pods_without_the_claim)
{
    struct cluster cluster;

    open_cluster(&cluster, SCHED_UNLIMITED, -1);
    cluster_node(&cluster, "a", 2);
    cluster_put(&cluster, &(struct job){.name = "claims",
                                        .claim = "two",
                                        .priority = 50,
                                        .kind = SCHED_PREEMPTIBLE,
                                        .node = "a"});
    cluster_put(
        &cluster,
        &(struct job){.name = "plain", .priority = 50, .kind = SCHED_PREEMPTIBLE, .node = "a"});
    cluster_put(
        &cluster,
        &(struct job){.name = "urgent", .gpus = 2, .priority = 75, .kind = SCHED_PREEMPTIBLE});
    cluster_decide(&cluster, 1000);
    EXPECT(cluster_promised(&cluster, "urgent-0"));
    EXPECT(cluster_evicted(&cluster, "claims-0"));
    EXPECT(!cluster_evicted(&cluster, "plain-0"));
    cluster_close(&cluster);
}

TEST(a_claim_that_work_which_is_not_preemptible_uses_counts_as_such_whoever_pays)
{
    struct cluster cluster;
    struct sched_queue_view queue;

    open_cluster(&cluster, SCHED_UNLIMITED, -1);
    cluster_node(&cluster, "a", 2);
    cluster_put(&cluster, &(struct job){.name = "first",
                                        .claim = "two",
                                        .priority = 50,
                                        .kind = SCHED_PREEMPTIBLE,
                                        .node = "a"});
    cluster_put(&cluster, &(struct job){.name = "second",
                                        .claim = "two",
                                        .priority = 50,
                                        .kind = SCHED_SEMI_PREEMPTIBLE,
                                        .node = "a"});
    cluster_decide(&cluster, 1000);
    EXPECT(sched_queue_view(cluster.sched, STR("q"), &queue));
    EXPECT((int64_t)queue.allocated_non_preemptible[SCHED_GPU] == 2);
    sched_drop_pod(cluster.sched, STR("ns"), STR("first-0"));
    EXPECT(sched_queue_view(cluster.sched, STR("q"), &queue));
    EXPECT((int64_t)queue.allocated_non_preemptible[SCHED_GPU] == 2);
    cluster_close(&cluster);
}

TEST(a_gang_asks_once_for_the_claim_its_pods_share)
{
    struct cluster cluster;

    open_cluster(&cluster, 2, -1);
    cluster_node(&cluster, "a", 2);
    cluster_put(&cluster, &(struct job){.name = "gang", .pods = 3, .claim = "two"});
    cluster_decide(&cluster, 1000);
    EXPECT(cluster_bound(&cluster, "gang-0") && cluster_bound(&cluster, "gang-2"));
    EXPECT(cluster_used(&cluster, "q") <= 2);
    cluster_close(&cluster);
}

TEST(of_pods_promised_the_claim_of_one_that_ends_the_first_pays)
{
    struct cluster cluster;

    open_cluster(&cluster, 4, -1);
    cluster_node(&cluster, "a", 4);
    cluster_put(&cluster, &(struct job){.name = "runs", .claim = "two", .node = "a"});
    cluster_put(&cluster,
                &(struct job){.name = "ends", .pods = 2, .gpus = 1, .node = "a", .ending = true});
    cluster_put(&cluster, &(struct job){.name = "next", .pods = 2, .gpus = 1, .claim = "two"});
    cluster_decide(&cluster, 1000);
    EXPECT(cluster_promised(&cluster, "next-0") && cluster_promised(&cluster, "next-1"));
    EXPECT(cluster_used(&cluster, "q") <= 4);
    cluster_put(&cluster,
                &(struct job){.name = "runs", .claim = "two", .node = "a", .ending = true});
    EXPECT(cluster_used(&cluster, "q") <= 4);
    cluster_close(&cluster);
}

TEST(gangs_that_fell_apart_go_in_the_order_of_their_names)
{
    static const char *const orders[][2] = {{"a", "b"}, {"b", "a"}};

    for (size_t i = 0; i < 2; i++) {
        struct cluster cluster;

        open_cluster(&cluster, SCHED_UNLIMITED, 0);
        cluster_node(&cluster, "n", 4);
        for (size_t j = 0; j < 2; j++)
            cluster_put(&cluster,
                        &(struct job){.name = orders[i][j], .min = 2, .gpus = 1, .node = "n"});
        cluster_decide(&cluster, 1000);
        EXPECT(cluster.plan.evict_count == 2);
        EXPECT(str_is(cluster.plan.evicts[0].pod.name, "a-0"));
        EXPECT(str_is(cluster.plan.evicts[1].pod.name, "b-0"));
        cluster_close(&cluster);
    }
}

TEST(work_that_is_not_preemptible_joins_a_claim_only_within_quota)
{
    struct cluster cluster;
    const struct sched_waiting *waiting = NULL;

    cluster_open(&cluster, SCHED_QUIRKS_NONE);
    cluster_queue(&cluster, "q", 1, SCHED_UNLIMITED);
    cluster_claim(&cluster, "two", 2);
    cluster_node(&cluster, "a", 2);
    cluster_put(
        &cluster,
        &(struct job){.name = "pays", .claim = "two", .kind = SCHED_PREEMPTIBLE, .node = "a"});
    cluster_put(&cluster,
                &(struct job){.name = "joins", .claim = "two", .kind = SCHED_NON_PREEMPTIBLE});
    cluster_decide(&cluster, 1000);
    EXPECT(!cluster_bound(&cluster, "joins-0")); /* nobody could have the two devices back */
    waiting = cluster_waiting(&cluster, "joins");
    EXPECT(waiting && waiting->reason == SCHED_REASON_OVER_QUOTA);
    cluster_queue(&cluster, "q", 2, SCHED_UNLIMITED);
    cluster_decide(&cluster, 1000);
    EXPECT(cluster_bound(&cluster, "joins-0"));
    cluster_close(&cluster);
}

TEST(who_was_promised_room_moves_for_a_gang_whichever_way_its_victims_are_found)
{
    for (int plain = 0; plain < 2; plain++) {
        struct cluster cluster;
        struct sched_config config;

        sched_config_default(&config);
        config.plain = plain;
        cluster_open_as(&cluster, &config);
        cluster_queue(&cluster, "q", SCHED_UNLIMITED, SCHED_UNLIMITED);
        cluster_node(&cluster, "a", 3);
        cluster_node(&cluster, "b", 5);
        cluster_node(&cluster, "c", 4);
        cluster_put(&cluster,
                    &(struct job){.name = "ends", .gpus = 2, .node = "a", .ending = true});
        cluster_put(&cluster, &(struct job){.name = "last", .gpus = 4, .node = "c"});
        cluster_put(&cluster, &(struct job){.name = "more", .gpus = 4, .node = "b"});
        cluster_put(&cluster, &(struct job){.name = "next", .gpus = 2});
        cluster_put(&cluster, &(struct job){.name = "gang", .pods = 3, .gpus = 3, .priority = 75});
        cluster_decide(&cluster, 1000);
        EXPECT(cluster_promised(&cluster, "gang-0") && cluster_promised(&cluster, "gang-2"));
        EXPECT(cluster_promised(&cluster, "next-0")); /* beside the gang, on b */
        EXPECT(cluster.plan.evict_count == 2);
        cluster_close(&cluster);
    }
}

/* Three GPUs, of which the queues were given four: q may have all of them, r one for sure. */
static void open_contended(struct cluster *cluster)
{
    static const struct {
        const char *name;
        const char *parent;
        double quota;
    } queues[] = {{"top", "", 4}, {"q", "top", 2}, {"r", "top", 1}};

    cluster_open(cluster, SCHED_QUIRKS_NONE);
    for (size_t i = 0; i < COUNT_OF(queues); i++) {
        struct sched_queue queue = {.name = str_from(queues[i].name),
                                    .parent = str_from(queues[i].parent),
                                    .priority = 100,
                                    .preempt_min_runtime_ms = -1,
                                    .reclaim_min_runtime_ms = -1};

        for (int r = 0; r < SCHED_RESOURCES; r++)
            queue.quota[r] = (struct sched_quota){SCHED_UNLIMITED, SCHED_UNLIMITED, 1};
        queue.quota[SCHED_GPU].quota = queues[i].quota;
        sched_put_queue(cluster->sched, &queue);
    }
    cluster_node(cluster, "a", 3);
}

/* The small one may take its GPU from big, which is above its quota; big may not take it back. */
TEST(groups_do_not_break_each_others_promises_for_ever)
{
    static const char *const names[][2] = {{"little", "little-0"}, {"small", "small-0"}};

    for (size_t i = 0; i < COUNT_OF(names); i++) { /* before pair in the alphabet, and behind it */
        struct cluster cluster;
        bool started = false;

        open_contended(&cluster);
        cluster_put(&cluster, &(struct job){.name = "big", .pods = 3, .gpus = 1, .priority = 50});
        cluster_put(
            &cluster,
            &(struct job){.name = "pair", .queue = "r", .pods = 2, .gpus = 1, .priority = 75});
        cluster_put(&cluster,
                    &(struct job){.name = names[i][0], .queue = "r", .gpus = 1, .priority = 50});
        for (int cycle = 0; cycle < 6 && !started; cycle++) {
            cluster_decide(&cluster, 1000);
            EXPECT(cluster.plan.evict_count == 0); /* nothing runs yet */
            started = cluster.plan.bind_count > 0;
        }
        EXPECT(cluster_bound(&cluster, names[i][1]));
        EXPECT(cluster_bound(&cluster, "pair-0") && cluster_bound(&cluster, "pair-1"));
        cluster_close(&cluster);
    }
}

TEST(a_group_that_is_gone_guards_no_claim_while_its_pods_still_run)
{
    struct cluster cluster;
    struct sched_queue_view queue;

    open_cluster(&cluster, SCHED_UNLIMITED, -1);
    cluster_node(&cluster, "a", 2);
    cluster_put(&cluster,
                &(struct job){
                    .name = "first", .claim = "two", .kind = SCHED_SEMI_PREEMPTIBLE, .node = "a"});
    cluster_put(&cluster,
                &(struct job){
                    .name = "second", .claim = "two", .kind = SCHED_NON_PREEMPTIBLE, .node = "a"});
    cluster_decide(&cluster, 1000);
    sched_drop_group(cluster.sched, STR("ns"), STR("first"));
    cluster_decide(&cluster, 1000);
    EXPECT(sched_queue_view(cluster.sched, STR("q"), &queue));
    EXPECT((int64_t)queue.allocated_non_preemptible[SCHED_GPU] == 2);
    cluster_close(&cluster);
}

/* A job that the plan bound to node a and, before any event showed that, evicted for another. */
static void bind_and_evict(struct cluster *cluster, const struct job *job)
{
    open_cluster(cluster, SCHED_UNLIMITED, -1);
    cluster_node(cluster, "a", 1);
    cluster_put(cluster, job);
    cluster_decide(cluster, 1000);
    EXPECT(cluster_bound(cluster, "first-0"));
    cluster_put(
        cluster,
        &(struct job){.name = "urgent", .gpus = 1, .priority = 75, .kind = SCHED_PREEMPTIBLE});
    cluster_decide(cluster, 1000);
    EXPECT(cluster_evicted(cluster, "first-0"));
    EXPECT(cluster_promised(cluster, "urgent-0"));
}

TEST(news_from_before_a_bind_do_not_free_the_room_of_a_pod_that_was_evicted_since)
{
    static const struct job first = {
        .name = "first", .gpus = 1, .priority = 50, .kind = SCHED_PREEMPTIBLE};
    struct cluster cluster;
    struct sched_node_view node;

    bind_and_evict(&cluster, &first);
    cluster_put(&cluster, &first); /* it waits, says the late event */
    cluster_decide(&cluster, 1000);
    EXPECT(!cluster_bound(&cluster, "urgent-0"));
    EXPECT(sched_node_view(cluster.sched, STR("a"), &node));
    EXPECT(node.idle_gpus == 0);

    /* Nor when its eviction is refused: it is where it was bound. */
    sched_evict_failed(cluster.sched, &(struct sched_pod_ref){STR("ns"), STR("first-0"), STR("")});
    cluster_put(&cluster, &first);
    cluster_decide(&cluster, 1000);
    EXPECT(!cluster_bound(&cluster, "urgent-0") && !cluster_bound(&cluster, "first-0"));
    EXPECT(sched_node_view(cluster.sched, STR("a"), &node));
    EXPECT(node.idle_gpus == 0);
    cluster_close(&cluster);
}

TEST(a_bind_that_failed_frees_the_room_of_a_pod_that_was_evicted_since)
{
    static const struct job first = {
        .name = "first", .gpus = 1, .priority = 50, .kind = SCHED_PREEMPTIBLE};
    struct cluster cluster;

    bind_and_evict(&cluster, &first);
    sched_bind_failed(cluster.sched, &(struct sched_pod_ref){STR("ns"), STR("first-0"), STR("")});
    sched_evict_failed(cluster.sched, &(struct sched_pod_ref){STR("ns"), STR("first-0"), STR("")});
    cluster_decide(&cluster, 1000);
    EXPECT(cluster_bound(&cluster, "urgent-0"));
    cluster_close(&cluster);
}

/* On a cluster a gang is bound pod by pod, and what was bound is deleted when one cannot be: that
 * takes its time, and the answer may come before any event. */
TEST(a_pod_whose_bind_was_undone_holds_its_room_until_it_is_gone)
{
    static const struct job first = {
        .name = "first", .gpus = 1, .priority = 50, .kind = SCHED_PREEMPTIBLE};
    static const struct {
        const char *why;
        const char *uid;
        bool evicted;
    } rows[] = {
        {"it was bound, and is being deleted", "first-0", false},
        {"it was evicted as well", "first-0", true},
        {"a pod of that name that is gone since was", "another", false},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct cluster cluster;
        struct sched_pod_ref undone = {STR("ns"), STR("first-0"), str_from(rows[i].uid)};

        test_case(rows[i].why);
        if (rows[i].evicted) {
            bind_and_evict(&cluster, &first);
        } else {
            open_cluster(&cluster, SCHED_UNLIMITED, -1);
            cluster_node(&cluster, "a", 1);
            cluster_put(&cluster, &first);
            cluster_decide(&cluster, 1000);
            EXPECT(cluster_bound(&cluster, "first-0"));
        }
        sched_bind_undone(cluster.sched, &undone);
        cluster_put(&cluster, &first); /* it waits, says an event from before */
        cluster_put(&cluster, &(struct job){.name = "next", .gpus = 1, .priority = 50});
        cluster_decide(&cluster, 1000);
        EXPECT(!cluster_bound(&cluster, "next-0") && !cluster_bound(&cluster, "first-0"));
        cluster_drop(&cluster, "first-0");
        cluster_decide(&cluster, 1000);
        EXPECT(cluster_bound(&cluster, rows[i].evicted ? "urgent-0" : "next-0"));
        cluster_close(&cluster);
    }
}

/* ---- many that fit nowhere ---- */

#define CROWD 2000

static uint64_t work_done(const struct cluster *c)
{
    uint64_t sum = 0;

    for (int action = 0; action < SCHED_ACTION_COUNT; action++) {
        struct sched_tally tally;

        sched_tally(c->sched, (enum sched_action)action, &tally);
        sum += tally.simulated + tally.filtered;
    }
    return sum;
}

static void crowd_pod(struct cluster *c, const char *name, int64_t cpu_milli, const char *node)
{
    sched_put_group(c->sched, &(struct sched_group){.ns = STR("ns"),
                                                    .name = str_from(name),
                                                    .queue = node ? STR("q") : STR("crowd"),
                                                    .min_member = 1,
                                                    .created_ms = c->now,
                                                    .has_priority = true,
                                                    .priority = 50});
    sched_put_pod(c->sched, &(struct sched_pod){.ns = STR("ns"),
                                                .name = str_from(name),
                                                .uid = str_from(name),
                                                .group = str_from(name),
                                                .created_ms = c->now,
                                                .cpu_milli = cpu_milli,
                                                .memory_bytes = 1 << 20,
                                                .role_rank = 2,
                                                .phase = node ? SCHED_RUNNING : SCHED_PENDING,
                                                .node = str_from(node ? node : "")});
}

TEST(pods_that_fit_nowhere_cost_a_cycle_no_search_each)
{
    static const struct {
        const char *why;
        int64_t cpu_milli;
        int64_t step; /* of one to the next: other shapes */
    } rows[] = {
        {"more than any node has, all alike", 65000, 0},
        {"more than any node has, all different", 65000, 1},
        {"room on an empty node, all alike", 40000, 0},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct cluster c;

        test_case(rows[i].why);
        cluster_open(&c, 0);
        cluster_queue(&c, "q", SCHED_UNLIMITED, SCHED_UNLIMITED);
        cluster_queue(&c, "crowd", SCHED_UNLIMITED, SCHED_UNLIMITED);
        for (int n = 0; n < 8; n++) {
            const char *node = str_c(&c.arena, str_printf(&c.arena, "n%d", n));

            cluster_node(&c, node, 0);
            for (int k = 0; k < 8; k++)
                crowd_pod(&c, str_c(&c.arena, str_printf(&c.arena, "r%d-%d", n, k)), 8000, node);
        }
        c.now += 1000;
        for (int k = 0; k < CROWD; k++)
            crowd_pod(&c, str_c(&c.arena, str_printf(&c.arena, "w%d", k)),
                      rows[i].cpu_milli + k * rows[i].step, NULL);
        cluster_decide(&c, 1000);
        EXPECT(work_done(&c) < 3 * CROWD); /* a look each, in each action that may evict */
        cluster_close(&c);
    }
}

/* ---- many that no victims help ---- */

/* Eight nodes with 24 free CPUs and 8 more that can be had; CROWD pods that want more than that, no
 * two alike; and one behind them, in line, that would be helped. */
static void crowd_in_vain(struct cluster *c, uint64_t quirks)
{
    cluster_open(c, quirks);
    cluster_queue(c, "q", SCHED_UNLIMITED, SCHED_UNLIMITED);
    cluster_queue(c, "crowd", SCHED_UNLIMITED, SCHED_UNLIMITED);
    for (int n = 0; n < 8; n++) {
        const char *node = str_c(&c->arena, str_printf(&c->arena, "n%d", n));

        cluster_node(c, node, 0);
        crowd_pod(c, str_c(&c->arena, str_printf(&c->arena, "r%d", n)), 32000, node);
        crowd_pod(c, str_c(&c->arena, str_printf(&c->arena, "s%d", n)), 8000, node);
    }
    for (int k = 0; k <= CROWD; k++) {
        c->now += k == 0 || k == CROWD ? 1000 : 0;
        crowd_pod(c, str_c(&c->arena, str_printf(&c->arena, "w%d", k)),
                  k == CROWD ? 30000 : 40000 + k, NULL);
    }
}

TEST(where_too_many_are_searched_for_in_vain_a_cycle_searches_for_some_and_all_have_their_turn)
{
    const uint64_t looks_max = UINT64_C(2) * ACTION_VAIN_MAX * 20;
    const int round = CROWD / (ACTION_VAIN_MAX - ACTION_VAIN_HEAD) + 1;
    struct cluster c;
    uint64_t looks = 0;
    int cycles = 0;

    test_case("without a bound there are as many looks as pods, in each action that evicts");
    crowd_in_vain(&c, SCHED_QUIRK(EVERY_SEARCH));
    cluster_decide(&c, 1000);
    EXPECT(work_done(&c) > looks_max && c.plan.evict_count > 0);
    cluster_close(&c);

    test_case("the last one has its turn, although nothing happens");
    crowd_in_vain(&c, 0);
    do {
        cluster_decide(&c, ACTION_TURN_MS);
        EXPECT(work_done(&c) - looks < looks_max);
        looks = work_done(&c);
    } while (!c.plan.evict_count && c.plan.next_wake_ms == c.now + ACTION_TURN_MS &&
             ++cycles < round);
    EXPECT(cycles > 1 && c.plan.evict_count == 1);
    cluster_close(&c);

    test_case("when all had theirs nobody is woken for it");
    crowd_in_vain(&c, 0);
    sched_drop_pod(c.sched, STR("ns"), str_printf(&c.arena, "w%d", CROWD));
    cycles = 0;
    do {
        cluster_decide(&c, ACTION_TURN_MS);
        EXPECT(!c.plan.evict_count);
    } while (c.plan.next_wake_ms == c.now + ACTION_TURN_MS && ++cycles <= round);
    EXPECT(cycles > 1 && cycles <= round);
    cluster_close(&c);
}

/* ---- evictions that budgets forbid ---- */

static void refuse(struct cluster *cluster, const char *pod)
{
    sched_evict_refused(cluster->sched, &(struct sched_pod_ref){STR("ns"), str_from(pod), STR("")},
                        cluster->now);
}

/* Two that could go, on a node each, and one that may send them away. */
static void open_victims(struct cluster *cluster, bool delete_refused)
{
    struct sched_config config;

    sched_config_default(&config);
    config.policy.delete_refused = delete_refused;
    cluster_open_as(cluster, &config);
    cluster_queue(cluster, "q", 2, 2);
    cluster_node(cluster, "a", 1);
    cluster_node(cluster, "b", 1);
    cluster_put(cluster, &(struct job){.name = "old", .gpus = 1, .priority = 50, .node = "a"});
    cluster_put(cluster, &(struct job){.name = "older", .gpus = 1, .priority = 50, .node = "b"});
    cluster_put(cluster, &(struct job){.name = "urgent", .gpus = 1, .priority = 75});
}

static const struct sched_evict *evict_of(const struct cluster *cluster, const char *pod)
{
    for (size_t i = 0; i < cluster->plan.evict_count; i++)
        if (str_is(cluster->plan.evicts[i].pod.name, pod))
            return &cluster->plan.evicts[i];
    return NULL;
}

TEST(a_victim_whose_eviction_was_refused_is_left_alone_and_another_one_goes)
{
    struct cluster cluster;

    open_victims(&cluster, false);
    cluster_decide(&cluster, 1000);
    const char *first = cluster_evicted(&cluster, "old-0") ? "old-0" : "older-0";
    const char *second = cluster_evicted(&cluster, "old-0") ? "older-0" : "old-0";
    EXPECT(cluster.plan.evict_count == 1 && cluster_evicted(&cluster, first));
    refuse(&cluster, first);
    cluster_decide(&cluster, 1000);
    EXPECT(cluster.plan.evict_count == 1 && cluster_evicted(&cluster, second));
    cluster_close(&cluster);
}

TEST(where_only_victims_are_left_whose_eviction_was_refused_the_pool_says_what_happens)
{
    static const struct {
        const char *why;
        bool delete;
    } rows[] = {
        {"nobody goes until they have been left alone for long enough", false},
        {"one of them is deleted", true},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct cluster cluster;

        test_case(rows[i].why);
        open_victims(&cluster, rows[i].delete);
        for (int n = 0; n < 2; n++) {
            cluster_decide(&cluster, 1000);
            EXPECT(cluster.plan.evict_count == 1 && !cluster.plan.evicts[0].delete);
            refuse(&cluster, cluster_evicted(&cluster, "old-0") ? "old-0" : "older-0");
        }
        cluster_decide(&cluster, 1000);
        EXPECT(cluster.plan.evict_count == (rows[i].delete ? 1 : 0));
        if (rows[i].delete)
            EXPECT(cluster.plan.evicts[0].delete);
        else
            EXPECT(cluster.plan.next_wake_ms > cluster.now &&
                   cluster.plan.next_wake_ms <= cluster.now + SCHED_SPARE_MIN_MS);
        cluster_decide(&cluster, 2 * (int64_t)SCHED_SPARE_MIN_MS);
        EXPECT(rows[i].delete || cluster.plan.evict_count == 1);
        cluster_close(&cluster);
    }
}

TEST(a_gang_of_which_a_budget_keeps_one_pod_stays_whole)
{
    struct cluster cluster;

    cluster_open(&cluster, SCHED_QUIRKS_NONE);
    cluster_queue(&cluster, "q", 4, 4);
    cluster_node(&cluster, "a", 2);
    cluster_node(&cluster, "b", 1);
    cluster_put(&cluster,
                &(struct job){.name = "gang", .pods = 2, .gpus = 1, .priority = 50, .node = "a"});
    cluster_put(&cluster, &(struct job){.name = "one", .gpus = 1, .priority = 60, .node = "b"});
    cluster_put(&cluster, &(struct job){.name = "urgent", .gpus = 1, .priority = 75});
    cluster_decide(&cluster, 1000);
    EXPECT(cluster_evicted(&cluster, "gang-0") && cluster_evicted(&cluster, "gang-1"));
    refuse(&cluster, "gang-1");
    sched_evict_failed(cluster.sched, &(struct sched_pod_ref){STR("ns"), STR("gang-0"), STR("")});
    cluster_decide(&cluster, 1000);
    EXPECT(!evict_of(&cluster, "gang-0") && !evict_of(&cluster, "gang-1"));
    EXPECT(evict_of(&cluster, "one-0"));
    cluster_close(&cluster);
}

/* A pod with or without the label app=y, and with or without the need to be beside one that has it. */
static void put_labelled(struct cluster *cluster,
                         const char *group,
                         const struct job *job,
                         bool label,
                         bool near)
{
    static const struct str value = STR("y");
    static const struct sched_label label_y = {STR("app"), STR("y")};
    static const struct sched_expression is_y = {STR("app"), SCHED_IN, &value, 1};
    static const struct sched_pod_term beside = {.selector = {&is_y, 1, true},
                                                 .topology_key = STR("host")};
    struct sched_pod pod = {.ns = STR("ns"),
                            .name = str_from(job->name),
                            .uid = str_from(job->name),
                            .group = str_from(group),
                            .cpu_milli = 1000,
                            .gpus = job->gpus,
                            .labels = &label_y,
                            .label_count = label,
                            .affinity = &beside,
                            .affinity_count = near,
                            .node = str_from(job->node ? job->node : ""),
                            .phase = job->node ? SCHED_RUNNING : SCHED_PENDING,
                            .role_rank = 2};

    sched_put_pod(cluster->sched, &pod);
}

TEST(nobody_goes_whom_a_pod_of_the_same_group_is_near_that_starts_now)
{
    for (int label = 0; label < 2; label++) { /* who comes could be near it instead, later */
        struct sched_label host = {STR("host"), STR("a")};
        struct cluster cluster;

        cluster_open(&cluster, SCHED_QUIRKS_NONE);
        cluster_queue(&cluster, "q", SCHED_UNLIMITED, SCHED_UNLIMITED);
        sched_put_node(cluster.sched, &(struct sched_node){.name = STR("a"),
                                                           .cpu_milli = 64000,
                                                           .memory_bytes = INT64_C(1) << 38,
                                                           .gpus = 4,
                                                           .pods = 110,
                                                           .labels = &host,
                                                           .label_count = 1});
        for (int64_t priority = 40; priority <= 50; priority += 10)
            sched_put_group(cluster.sched,
                            &(struct sched_group){.ns = STR("ns"),
                                                  .name = priority == 40 ? STR("low") : STR("g"),
                                                  .queue = STR("q"),
                                                  .min_member = 1,
                                                  .has_priority = true,
                                                  .priority = priority});
        put_labelled(&cluster, "low", &(struct job){.name = "low-0", .gpus = 3, .node = "a"}, true,
                     false);
        put_labelled(&cluster, "g", &(struct job){.name = "g-0"}, false, true);
        put_labelled(&cluster, "g", &(struct job){.name = "g-1", .gpus = 4}, label, false);
        cluster_decide(&cluster, 1000);
        EXPECT(cluster_bound(&cluster, "g-0"));
        EXPECT(!cluster_evicted(&cluster, "low-0"));
        cluster_close(&cluster);
    }
}
