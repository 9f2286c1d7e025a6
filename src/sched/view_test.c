#include "base/count.h"
#include "base/json.h"
#include "base/str.h"
#include "sched/sched.h"
#include "sched/spec.h"
#include "sched/world_test.h"
#include "test.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* What whoever asks is told: why a group waits, what would help, and what there is. */

/* A pod of the group j that the rows say more about. */
static void put_pod(struct cluster *c, const struct sched_pod *like)
{
    struct sched_pod pod = *like;

    cluster_put(c, &(struct job){.name = "j"});
    cluster_drop(c, "j-0");
    pod.ns = STR("ns");
    pod.name = pod.uid = STR("p");
    pod.group = STR("j");
    sched_put_pod(c->sched, &pod);
}

static void put_group(struct cluster *c, const struct sched_group *like, int pods)
{
    struct sched_group group = *like;
    static const char *const names[] = {"p0", "p1"};

    group.ns = STR("ns");
    group.name = STR("j");
    group.queue = STR("q");
    sched_put_group(c->sched, &group);
    for (int i = 0; i < pods; i++)
        sched_put_pod(c->sched, &(struct sched_pod){.ns = STR("ns"),
                                                    .name = str_from(names[i]),
                                                    .group = STR("j"),
                                                    .gpus = 1,
                                                    .cpu_milli = 1000});
}

#define SETUP(name) static void setup_##name(struct cluster *c)
SETUP(not_ready)
{
    put_group(c, &(struct sched_group){.min_member = 4}, 2);
}
SETUP(nearly_ready)
{
    put_group(c, &(struct sched_group){.min_member = 3}, 2);
}
SETUP(no_group)
{
    sched_put_pod(c->sched, &(struct sched_pod){
                                .ns = STR("ns"), .name = STR("p"), .group = STR("j"), .gpus = 1});
}
SETUP(elsewhere)
{
    const struct sched_config *config = sched_config(c->sched);

    sched_set_names(c->sched, STR("mine"), config->queue_label, config->pool_label);
    sched_put_pod(c->sched, &(struct sched_pod){.ns = STR("ns"),
                                                .name = STR("p"),
                                                .group = STR("j"),
                                                .scheduler = STR("another"),
                                                .gpus = 1});
}
SETUP(no_queue)
{
    cluster_put(c, &(struct job){.name = "j", .queue = "gone"});
}
SETUP(orphan)
{
    sched_put_queue(c->sched, &(struct sched_queue){.name = STR("sub"), .parent = STR("gone")});
    cluster_put(c, &(struct job){.name = "j", .queue = "sub"});
}
SETUP(foreign)
{
    static const struct str other = STR("other");

    sched_put_queue(c->sched, &(struct sched_queue){
                                  .name = STR("q"),
                                  .tenants = {.closed = true, .names = &other, .name_count = 1}});
    put_pod(c, &(struct sched_pod){.cpu_milli = 1});
}
SETUP(over_limit)
{
    cluster_queue(c, "small", 1, 1);
    cluster_put(c, &(struct job){.name = "j", .queue = "small", .gpus = 2});
}
SETUP(over_quota)
{
    cluster_queue(c, "small", 1, 9);
    cluster_put(
        c, &(struct job){.name = "j", .queue = "small", .gpus = 2, .kind = SCHED_NON_PREEMPTIBLE});
}
SETUP(taint)
{
    static const struct sched_taint taint = {STR("k"), STR("v"), SCHED_NO_SCHEDULE};

    for (int i = 0; i < 2; i++)
        sched_put_node(c->sched, &(struct sched_node){.name = i ? STR("b") : STR("a"),
                                                      .cpu_milli = 64000,
                                                      .gpus = 4,
                                                      .pods = 9,
                                                      .taints = &taint,
                                                      .taint_count = 1});
    put_pod(c, &(struct sched_pod){.cpu_milli = 1});
}
SETUP(unready)
{
    for (int i = 0; i < 2; i++)
        sched_put_node(c->sched, &(struct sched_node){.name = i ? STR("b") : STR("a"),
                                                      .cpu_milli = 64000,
                                                      .gpus = 4,
                                                      .pods = 9,
                                                      .not_ready = true});
    put_pod(c, &(struct sched_pod){.cpu_milli = 1});
}
SETUP(selector)
{
    static const struct sched_label label = {STR("disk"), STR("ssd")};
    static const struct sched_taint taint = {STR("k"), STR("v"), SCHED_NO_SCHEDULE};

    sched_put_node(c->sched, &(struct sched_node){.name = STR("c"),
                                                  .labels = &label,
                                                  .label_count = 1,
                                                  .taints = &taint,
                                                  .taint_count = 1});
    put_pod(c, &(struct sched_pod){.node_selector = &label, .node_selector_count = 1});
}
SETUP(gpu_type)
{
    put_pod(c, &(struct sched_pod){.gpu_memory_mib = 100, .gpu_devices = 1});
}
SETUP(too_big)
{
    cluster_put(c, &(struct job){.name = "j", .gpus = 6});
}
SETUP(other_too_big)
{
    static const struct sched_amount nics = {STR("example.com/nic"), 3};

    put_pod(c, &(struct sched_pod){.amounts = &nics, .amount_count = 1});
}
SETUP(other_short)
{
    static const struct sched_amount nics = {STR("example.com/nic"), 2};

    sched_put_node(
        c->sched,
        &(struct sched_node){
            .name = STR("a"), .cpu_milli = 64000, .pods = 9, .amounts = &nics, .amount_count = 1});
    sched_put_pod(c->sched, &(struct sched_pod){.ns = STR("ns"),
                                                .name = STR("other"),
                                                .phase = SCHED_RUNNING,
                                                .node = STR("a"),
                                                .amounts = &nics,
                                                .amount_count = 1});
    put_pod(c, &(struct sched_pod){.amounts = &nics, .amount_count = 1});
}
SETUP(too_large)
{
    cluster_put(c, &(struct job){.name = "j", .pods = 3, .gpus = 4});
}
SETUP(no_room)
{
    cluster_put(c, &(struct job){.name = "x", .gpus = 4, .node = "a", .priority = 100});
    cluster_put(c, &(struct job){.name = "y", .gpus = 4, .node = "b", .priority = 100});
    cluster_put(c, &(struct job){.name = "j", .gpus = 2});
}
SETUP(fragmented)
{
    cluster_put(c, &(struct job){.name = "x", .gpus = 3, .node = "a", .priority = 100});
    cluster_put(c, &(struct job){.name = "y", .gpus = 3, .node = "b", .priority = 100});
    cluster_put(c, &(struct job){.name = "j", .gpus = 2});
}
SETUP(no_topology)
{
    put_group(c,
              &(struct sched_group){.min_member = 1,
                                    .topology = {.topology = STR("t"), .required = STR("rack")}},
              1);
}
SETUP(no_domain)
{
    static const struct str level = STR("host");

    sched_put_topology(
        c->sched, &(struct sched_topology){.name = STR("t"), .levels = &level, .level_count = 1});
    for (int i = 0; i < 2; i++) {
        const struct sched_label label = {STR("host"), i ? STR("b") : STR("a")};

        sched_put_node(c->sched, &(struct sched_node){.name = i ? STR("b") : STR("a"),
                                                      .labels = &label,
                                                      .label_count = 1,
                                                      .cpu_milli = 64000,
                                                      .gpus = 1,
                                                      .pods = 9});
    }
    put_group(c,
              &(struct sched_group){.min_member = 2,
                                    .topology = {.topology = STR("t"), .required = STR("host")}},
              2);
}
SETUP(affinity)
{
    static const struct sched_port port = {STR(""), STR("TCP"), 80};

    for (int i = 0; i < 2; i++)
        sched_put_pod(c->sched, &(struct sched_pod){.ns = STR("ns"),
                                                    .name = i ? STR("o1") : STR("o0"),
                                                    .phase = SCHED_RUNNING,
                                                    .node = i ? STR("b") : STR("a"),
                                                    .ports = &port,
                                                    .port_count = 1});
    put_pod(c, &(struct sched_pod){.ports = &port, .port_count = 1});
}
SETUP(terminating)
{
    cluster_put(c, &(struct job){.name = "x", .gpus = 4, .node = "a", .ending = true});
    cluster_put(c, &(struct job){.name = "y", .gpus = 4, .node = "b", .priority = 100});
    cluster_put(c, &(struct job){.name = "j", .gpus = 2});
}
SETUP(invalid)
{
    put_pod(c, &(struct sched_pod){.invalid = STR("it asks for a part of nothing")});
}
SETUP(no_claim)
{
    cluster_put(c, &(struct job){.name = "j", .claim = "gone"});
}
SETUP(held)
{
    put_group(c, &(struct sched_group){.min_member = 1, .held = true}, 1);
}
SETUP(over)
{
    put_group(c, &(struct sched_group){.min_member = 1, .max_run_ms = 60000, .over_ms = 1}, 1);
}
SETUP(retried)
{
    put_group(c, &(struct sched_group){.min_member = 1}, 1);
    sched_written(c->sched, STR("ns"), STR("j"), true, c->now);
}
SETUP(gated)
{
    put_pod(c, &(struct sched_pod){.phase = SCHED_GATED});
}
SETUP(both_gated)
{
    put_group(c, &(struct sched_group){.min_member = 2}, 0);
    for (int i = 0; i < 2; i++)
        sched_put_pod(c->sched, &(struct sched_pod){.ns = STR("ns"),
                                                    .name = i ? STR("g1") : STR("g0"),
                                                    .group = STR("j"),
                                                    .phase = SCHED_GATED});
}

TEST(who_waits_is_told_the_smallest_change_that_would_let_it_in)
{
    static const struct {
        void (*setup)(struct cluster *c);
        enum sched_reason reason;
        const char *change;
    } rows[] = {
        {setup_not_ready, SCHED_REASON_NOT_READY, "2 more pods"},
        {setup_nearly_ready, SCHED_REASON_NOT_READY, "1 more pod"},
        {setup_no_group, SCHED_REASON_NO_GROUP, "create the pod group"},
        {setup_elsewhere, SCHED_REASON_NO_GROUP,
         "run the scheduler that its pods name, or let them name none"},
        {setup_no_queue, SCHED_REASON_NO_QUEUE, "create queue gone, or name one that exists"},
        {setup_orphan, SCHED_REASON_QUEUE_BROKEN,
         "name a queue that has no child queues and whose parents exist"},
        {setup_foreign, SCHED_REASON_NAMESPACE,
         "name a queue that takes work of its namespace, or add it to the queue's"},
        {setup_over_limit, SCHED_REASON_OVER_LIMIT,
         "raise the limit of queue small by 1 GPU, or let as much of its work end"},
        {setup_over_quota, SCHED_REASON_OVER_QUOTA,
         "raise the quota of queue small by 1 GPU, or make the group preemptible"},
        {setup_taint, SCHED_REASON_NO_NODE, "tolerate the taint, or add a node without it"},
        {setup_unready, SCHED_REASON_NO_NODE, "bring a node back: none is ready and uncordoned"},
        {setup_selector, SCHED_REASON_NO_NODE,
         "label a node as its selector asks, or change the selector"},
        {setup_gpu_type, SCHED_REASON_NO_NODE, "add a node with that kind of GPU"},
        {setup_too_big, SCHED_REASON_TOO_BIG,
         "add a node with 2 GPUs more than the largest there is, or ask for less in each pod"},
        {setup_other_too_big, SCHED_REASON_TOO_BIG,
         "add a node with 3 of example.com/nic, or ask for less in each pod"},
        {setup_other_short, SCHED_REASON_NO_ROOM, "2 of example.com/nic free on one node"},
        {setup_too_large, SCHED_REASON_TOO_LARGE,
         "add nodes with 4 GPUs more, or ask for fewer pods"},
        {setup_no_room, SCHED_REASON_NO_ROOM, "2 GPUs more free"},
        {setup_fragmented, SCHED_REASON_FRAGMENTED, "1 GPU more free on one node"},
        {setup_no_topology, SCHED_REASON_TOPOLOGY,
         "create the Topology with that level, or name one that exists"},
        {setup_no_domain, SCHED_REASON_TOPOLOGY,
         "room for all of its pods in one domain of that level"},
        {setup_affinity, SCHED_REASON_AFFINITY,
         "loosen its pod affinity, spread or host ports, or add a domain"},
        {setup_terminating, SCHED_REASON_TERMINATING,
         "nothing: it starts when the pods that use its room have ended"},
        {setup_invalid, SCHED_REASON_INVALID, "correct the pod"},
        {setup_no_claim, SCHED_REASON_NO_CLAIM,
         "create the ResourceClaim, or name one that exists"},
        {setup_held, SCHED_REASON_HELD, "move the group to another node pool"},
        {setup_over, SCHED_REASON_HELD, "delete its job, or give it a longer maxRunTime"},
        {setup_retried, SCHED_REASON_HELD, "nothing: it is tried again in a moment"},
        {setup_gated, SCHED_REASON_GATED, "remove the scheduling gates of 1 pod"},
        {setup_both_gated, SCHED_REASON_GATED, "remove the scheduling gates of 2 pods"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct sched_explanation why = {0};
        struct cluster c;

        test_case(rows[i].change);
        cluster_open(&c, SCHED_QUIRKS_NONE);
        cluster_queue(&c, "q", SCHED_UNLIMITED, SCHED_UNLIMITED);
        cluster_node(&c, "a", 4);
        cluster_node(&c, "b", 4);
        rows[i].setup(&c);
        cluster_decide(&c, 1);
        EXPECT(sched_explain(c.sched, STR("ns"), STR("j"), &c.arena, &why));
        EXPECT(why.why.reason == rows[i].reason);
        EXPECT(str_is(why.change, rows[i].change));
        struct json *json = sched_explanation_json(&c.arena, &why);
        EXPECT(str_is(json_str_at(json, "change"), rows[i].change));
        EXPECT(str_is(json_str_at(json, "reason"), sched_reason_word(rows[i].reason)));
        EXPECT(!why.why.other.len == !json_at(json, "other.name"));
        /* A queue that is not there has a name and no numbers. */
        EXPECT(!json_at(json, "queue.quota") == !why.numbers.name.len);
        cluster_close(&c);
    }
}

/* The queue q has a place for one. */
TEST(a_gang_for_which_room_is_kept_is_told_since_when)
{
    struct sched_explanation why = {0};
    struct cluster c;

    cluster_open(&c, SCHED_QUIRKS_NONE);
    cluster_queue(&c, "q", SCHED_UNLIMITED, SCHED_UNLIMITED);
    cluster_node(&c, "a", 4);
    cluster_put(&c,
                &(struct job){
                    .name = "x", .gpus = 4, .node = "a", .priority = 100, .deadline_ms = 3600000});
    cluster_put(&c, &(struct job){.name = "j", .gpus = 4});
    cluster_decide(&c, 1000);
    EXPECT(sched_explain(c.sched, STR("ns"), STR("j"), &c.arena, &why) && !why.kept_since_ms);
    EXPECT(!json_at(sched_explanation_json(&c.arena, &why), "roomKeptSince"));
    cluster_decide(&c, 600000);
    EXPECT(sched_explain(c.sched, STR("ns"), STR("j"), &c.arena, &why) && why.kept_since_ms);
    struct json *json = sched_explanation_json(&c.arena, &why);
    EXPECT(json_at(json, "roomKeptSince") && json_at(json, "startsBy"));
    why.kept_start_ms = 0; /* nobody knows when */
    json = sched_explanation_json(&c.arena, &why);
    EXPECT(json_at(json, "roomKeptSince") && !json_at(json, "startsBy"));
    cluster_close(&c);
}

TEST(nothing_is_told_of_what_is_not_there_or_does_not_wait)
{
    char name[400];
    struct sched_explanation why;
    struct sched_queue_view queue;
    struct sched_node_view node;
    int64_t held[SCHED_RESOURCES];
    struct str user = STR_NONE;
    struct str where = STR_NONE;
    size_t cursor = 0;
    struct cluster c;

    memset(name, 'n', sizeof(name));
    struct str longer = {name, sizeof(name)};
    cluster_open(&c, SCHED_QUIRKS_NONE);
    cluster_queue(&c, "q", SCHED_UNLIMITED, SCHED_UNLIMITED);
    cluster_node(&c, "a", 4);
    cluster_put(&c, &(struct job){.name = "j", .queue = "named"});
    cluster_put(&c, &(struct job){.name = "runs"});
    EXPECT(!sched_explain(c.sched, STR("ns"), STR("j"), &c.arena, &why)); /* no cycle has run */
    cluster_decide(&c, 1000);
    EXPECT(sched_explain(c.sched, STR("ns"), STR("j"), &c.arena, &why));
    EXPECT(!sched_explain(c.sched, STR("ns"), STR("runs"), &c.arena, &why));
    EXPECT(!sched_explain(c.sched, STR("ns"), STR("gone"), &c.arena, &why));
    EXPECT(!sched_explain(c.sched, STR("ns"), longer, &c.arena, &why));
    EXPECT(!sched_promised(c.sched, STR("ns"), STR("gone"), &where));
    EXPECT(!sched_promised(c.sched, STR("ns"), STR("j-0"), &where));
    EXPECT(!sched_promised(c.sched, STR("ns"), longer, &where));
    EXPECT(!sched_node_view(c.sched, STR("gone"), &node));
    EXPECT(!sched_queue_view(c.sched, STR("gone"), &queue));
    EXPECT(!sched_next_user(c.sched, STR("gone"), &cursor, &user, held));
    EXPECT(!sched_next_user(c.sched, STR("q"), &cursor, &user, held)); /* it goes by no users */
    sched_drop_queue(c.sched, STR("q"));
    EXPECT(!sched_queue_view(c.sched, STR("q"), &queue));
    cluster_close(&c);
}

/* The queue has all it may have, and loses it for somebody in front after the last one was tried. */
TEST(nobody_is_told_to_raise_a_limit_that_is_no_longer_in_the_way)
{
    struct cluster c;
    struct sched_explanation why;

    cluster_open(&c, SCHED_QUIRKS_NONE);
    cluster_queue(&c, "q", 4, 4);
    cluster_node(&c, "a", 8);
    cluster_put(&c, &(struct job){.name = "old", .gpus = 4, .priority = 50, .node = "a"});
    cluster_put(&c, &(struct job){.name = "high", .gpus = 2, .priority = 75});
    cluster_put(&c, &(struct job){.name = "j", .gpus = 1, .priority = 50});
    cluster_decide(&c, 1000);
    EXPECT(cluster_evicted(&c, "old-0"));
    EXPECT(sched_explain(c.sched, STR("ns"), STR("j"), &c.arena, &why));
    EXPECT(why.why.reason == SCHED_REASON_IN_LINE);
    EXPECT(!str_contains(why.change, STR("-")) && sched_needs_cycle(c.sched));
    cluster_close(&c);
}

/* Room that one cycle gives and takes again is left idle by nobody. */
TEST(another_cycle_is_asked_for_where_room_was_given_and_promised_to_another)
{
    struct cluster c;

    cluster_open(&c, SCHED_QUIRKS_NONE);
    cluster_queue(&c, "q", 2, SCHED_UNLIMITED);
    cluster_queue(&c, "r", 4, SCHED_UNLIMITED);
    cluster_node(&c, "a", 6);
    cluster_put(&c, &(struct job){.name = "large", .queue = "r", .gpus = 20, .priority = 75});
    cluster_put(&c, &(struct job){.name = "all", .gpus = 6, .priority = 75});
    cluster_put(&c, &(struct job){.name = "small", .queue = "r", .gpus = 2, .priority = 50});
    cluster_decide(&c, 1000);
    EXPECT(c.plan.bind_count || sched_needs_cycle(c.sched));
    cluster_decide(&c, 1000);
    EXPECT(cluster_bound(&c, "small-0"));
    cluster_close(&c);
}
