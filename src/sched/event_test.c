#include "api/kind.h"
#include "api/object.h"
#include "base/count.h"
#include "base/str.h"
#include "sched/decode_test.h"
#include "sched/sched.h"
#include "sched/spec.h"
#include "sched/world_test.h"
#include "test.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What events change, and what they do not. */

/* ---- groups and queues that are written again ---- */
#define GROUP(name, change)                         \
    static void group_##name(struct sched_group *g) \
    {                                               \
        change;                                     \
    }
GROUP(queue, g->queue = STR("r"))
GROUP(pool, g->pool = STR("blue"))
GROUP(class, g->priority_class = STR("high"))
GROUP(user, g->user = STR("ada"))
GROUP(refusal, g->refusal = STR("no"))
GROUP(created, g->created_ms = 5)
GROUP(expected, g->expected_ms = 5)
GROUP(priority, g->priority = 60)
GROUP(has_priority, g->has_priority = false)
GROUP(grace, g->stale_grace_ms = 5)
GROUP(has_grace, g->has_stale_grace = true)
GROUP(held, g->held = true)
GROUP(delay, g->preempt_delay_ms = 5)
GROUP(run, g->max_run_ms = 5)
GROUP(requeue, g->requeue = true)
GROUP(over, g->over_ms = 5)
GROUP(eviction, g->last_eviction_ms = 5)
GROUP(kind, g->preemptibility = SCHED_NON_PREEMPTIBLE)
GROUP(whole, g->whole = true)
GROUP(single, g->single = true)
GROUP(until, g->hold_until_ms = 5)
GROUP(loss, g->loss = SCHED_LOSS_SUSPEND)
GROUP(start, g->last_start_ms = 5)
GROUP(stale, g->stale_since_ms = 5)
GROUP(min, g->min_member = 2)
GROUP(topology, g->topology.topology = STR("t"))

TEST(a_group_that_is_written_again_counts_where_any_field_of_it_is_another)
{
    static void (*const changes[])(struct sched_group *) = {
        group_queue,   group_pool,  group_class,     group_user,  group_refusal,
        group_created, group_grace, group_expected,  group_held,  group_priority,
        group_delay,   group_run,   group_has_grace, group_over,  group_has_priority,
        group_kind,    group_whole, group_requeue,   group_until, group_eviction,
        group_loss,    group_start, group_single,    group_min,   group_stale,
        group_topology};

    for (size_t i = 0; i < COUNT_OF(changes); i++) {
        struct sched_group group = {.ns = STR("ns"),
                                    .name = STR("g"),
                                    .queue = STR("q"),
                                    .has_priority = true,
                                    .priority = 50,
                                    .min_member = 1};
        struct cluster c;

        cluster_open(&c, SCHED_QUIRKS_NONE);
        cluster_queue(&c, "q", 1, 1);
        cluster_queue(&c, "r", 1, 1);
        sched_put_group(c.sched, &group);
        cluster_decide(&c, 1000);
        sched_put_group(c.sched, &group);
        EXPECT(!sched_needs_cycle(c.sched));
        changes[i](&group);
        sched_put_group(c.sched, &group);
        EXPECT(sched_needs_cycle(c.sched));
        cluster_decide(&c, 1000);
        cluster_close(&c);
    }
}

#define QUEUE(name, change)                         \
    static void queue_##name(struct sched_queue *q) \
    {                                               \
        change;                                     \
    }
static const struct sched_model_limit a100 = {STR("a100"), 4};
static const struct sched_model_limit a100_more = {STR("a100"), 8};
static const struct sched_model_limit h100 = {STR("h100"), 4};
static const struct str space = STR("ns");
static const struct sched_tenants ours = {.names = &space, .name_count = 1};
QUEUE(quota, q->quota[SCHED_GPU].quota = 9)
QUEUE(limit, q->quota[SCHED_CPU].limit = 9)
QUEUE(unset, q->unset[SCHED_CPU] = true)
QUEUE(weight, q->quota[SCHED_MEMORY].weight = 9)
QUEUE(usage, q->usage[SCHED_GPU] = 0.5)
QUEUE(parent, q->parent = STR("p"))
QUEUE(pool, q->pool = STR("blue"))
QUEUE(created, q->created_ms = 5)
QUEUE(priority, q->priority = 5)
QUEUE(order, q->order = SCHED_ORDER_USERS)
QUEUE(lends, q->lends = true)
QUEUE(loss, q->loss = SCHED_LOSS_EVICT)
QUEUE(preempt, q->preempt_min_runtime_ms = 5)
QUEUE(reclaim, q->reclaim_min_runtime_ms = 5)
QUEUE(closed, q->tenants.closed = true)
QUEUE(tenants, q->tenants = ours)
QUEUE(no_models, q->model_count = 0)
QUEUE(model, q->models = &h100)
QUEUE(model_limit, q->models = &a100_more)

TEST(a_queue_that_is_written_again_counts_where_any_field_of_it_is_another)
{
    static void (*const changes[])(struct sched_queue *) = {
        queue_quota,     queue_limit,       queue_weight,  queue_usage,   queue_parent,
        queue_pool,      queue_unset,       queue_created, queue_order,   queue_priority,
        queue_lends,     queue_loss,        queue_preempt, queue_reclaim, queue_model,
        queue_no_models, queue_model_limit, queue_closed,  queue_tenants};

    for (size_t i = 0; i < COUNT_OF(changes); i++) {
        struct sched_queue queue = {.name = STR("q"), .models = &a100, .model_count = 1};
        struct cluster c;

        cluster_open(&c, SCHED_QUIRKS_NONE);
        cluster_queue(&c, "p", 1, 1);
        sched_put_queue(c.sched, &queue);
        cluster_decide(&c, 1000);
        sched_put_queue(c.sched, &queue);
        EXPECT(!sched_needs_cycle(c.sched));
        changes[i](&queue);
        sched_put_queue(c.sched, &queue);
        EXPECT(sched_needs_cycle(c.sched));
        cluster_decide(&c, 1000);
        cluster_close(&c);
    }
}

TEST(a_pod_that_is_written_again_counts_where_a_label_of_it_is_another)
{
    static const struct {
        const char *key;
        const char *value;
        bool counts;
    } rows[] = {{"a", "b", false}, {"a", "c", true}, {"b", "c", true}};
    struct cluster c;

    cluster_open(&c, SCHED_QUIRKS_NONE);
    for (size_t i = 0; i < COUNT_OF(rows) + 1; i++) {
        size_t row = i ? i - 1 : 0;
        const struct sched_label label = {str_from(rows[row].key), str_from(rows[row].value)};

        sched_put_pod(c.sched,
                      &(struct sched_pod){
                          .ns = STR("ns"), .name = STR("p"), .labels = &label, .label_count = 1});
        EXPECT(sched_needs_cycle(c.sched) == (!i || rows[row].counts));
        cluster_decide(&c, 1000);
    }
    cluster_close(&c);
}

/* ---- objects that go ---- */
TEST(what_nobody_knew_of_is_no_news_when_it_goes)
{
    static const struct kind *const kinds[] = {&kind_node,          &kind_pod,
                                               &kind_podgroup,      &kind_queue,
                                               &kind_priorityclass, &kind_topology,
                                               &kind_resourceclaim, &kind_resourceslice,
                                               &kind_deviceclass,   &kind_noderesourcetopology,
                                               &kind_configmap};
    struct cluster c;

    cluster_open(&c, SCHED_QUIRKS_NONE);
    cluster_decide(&c, 1000);
    for (size_t i = 0; i < COUNT_OF(kinds); i++) {
        struct object *object =
            object_quoted(&c.arena, kinds[i], "{'metadata':{'namespace':'ns','name':'never'}}");

        test_case(kinds[i]->name);
        EXPECT(sched_observe(c.sched, SCHED_DROP, object, NULL) == 0);
        EXPECT(!sched_needs_cycle(c.sched));
        object_unref(object);
    }
    cluster_close(&c);
}

static void tell(struct cluster *c,
                 enum sched_change change,
                 const struct kind *kind,
                 const char *text)
{
    struct object *object = object_quoted(&c->arena, kind, text);

    EXPECT(sched_observe(c->sched, change, object, NULL) == 0);
    object_unref(object);
}

TEST(a_queue_a_class_and_a_topology_count_from_when_they_come_to_when_they_go)
{
    static const char queue[] = "{'metadata':{'name':'q'},'spec':{}}";
    static const char class[] = "{'metadata':{'name':'urgent'},'value':80}";
    static const char topology[] =
        "{'metadata':{'name':'t'},'spec':{'levels':[{'nodeLabel':'rack','alias':'row'}]}}";
    static const char group[] =
        "{'metadata':{'namespace':'ns','name':'g'},'spec':{'queue':'q','minMember':1,"
        "'priorityClassName':'urgent','topologyConstraint':{'topology':'t',"
        "'requiredTopologyLevel':'row'}}}";
    static const char pod[] = "{'metadata':{'namespace':'ns','name':'p','annotations':{"
                              "'pod-group-name':'g'}},'spec':{'containers':[{}]}}";
    struct cluster c;

    cluster_open(&c, SCHED_QUIRKS_NONE);
    tell(&c, SCHED_PUT, &kind_node,
         "{'metadata':{'name':'a','labels':{'rack':'1'}},'status':{'allocatable':{'cpu':'1',"
         "'pods':'9'}}}");
    tell(&c, SCHED_PUT, &kind_podgroup, group);
    tell(&c, SCHED_PUT, &kind_pod, pod);
    cluster_decide(&c, 1000);
    EXPECT(cluster_waiting(&c, "g")->reason == SCHED_REASON_NO_QUEUE);
    tell(&c, SCHED_PUT, &kind_queue, queue);
    cluster_decide(&c, 1000);
    EXPECT(cluster_waiting(&c, "g")->reason == SCHED_REASON_TOPOLOGY);
    tell(&c, SCHED_PUT, &kind_topology, topology);
    tell(&c, SCHED_PUT, &kind_topology, topology); /* once more is no harm */
    tell(&c, SCHED_PUT, &kind_priorityclass, class);
    tell(&c, SCHED_PUT, &kind_priorityclass, class);
    cluster_decide(&c, 1000);
    EXPECT(cluster_bound(&c, "p"));
    sched_bind_failed(c.sched, &(struct sched_pod_ref){STR("ns"), STR("p"), STR("")});
    tell(&c, SCHED_DROP, &kind_topology, topology);
    cluster_decide(&c, 1000);
    EXPECT(cluster_waiting(&c, "g")->reason == SCHED_REASON_TOPOLOGY);
    tell(&c, SCHED_DROP, &kind_priorityclass, class);
    tell(&c, SCHED_DROP, &kind_queue, queue);
    cluster_decide(&c, 1000);
    EXPECT(cluster_waiting(&c, "g")->reason == SCHED_REASON_NO_QUEUE);
    tell(&c, SCHED_DROP, &kind_podgroup, group);
    cluster_decide(&c, 1000);
    EXPECT(cluster_waiting(&c, "g")->reason == SCHED_REASON_NO_GROUP);
    cluster_close(&c);
}

TEST(zones_and_claims_go_as_they_came)
{
    struct sched_node_view view;
    struct cluster c;

    cluster_open(&c, SCHED_QUIRKS_NONE);
    cluster_queue(&c, "q", SCHED_UNLIMITED, SCHED_UNLIMITED);
    cluster_node(&c, "a", 1);
    tell(&c, SCHED_PUT, &kind_noderesourcetopology,
         "{'metadata':{'name':'b'},'zones':[{'name':'node-0','type':'Node'}]}");
    EXPECT(sched_node_view(c.sched, STR("b"), &view)); /* named before it comes */
    tell(&c, SCHED_DROP, &kind_noderesourcetopology, "{'metadata':{'name':'b'}}");
    EXPECT(!sched_node_view(c.sched, STR("b"), &view));
    cluster_claim(&c, "c", 1);
    cluster_put(&c, &(struct job){.name = "j", .claim = "c"});
    tell(&c, SCHED_DROP, &kind_resourceclaim, "{'metadata':{'namespace':'ns','name':'c'}}");
    cluster_decide(&c, 1000);
    EXPECT(cluster_waiting(&c, "j")->reason == SCHED_REASON_NO_CLAIM);
    cluster_close(&c);
}

/* ---- nodes ---- */
TEST(who_was_bound_or_promised_to_a_node_that_goes_is_placed_anew)
{
    struct cluster c;

    cluster_open(&c, SCHED_QUIRKS_NONE);
    cluster_queue(&c, "q", SCHED_UNLIMITED, SCHED_UNLIMITED);
    cluster_node(&c, "a", 2);
    cluster_put(&c, &(struct job){.name = "ends", .gpus = 1, .node = "a", .ending = true});
    cluster_put(&c, &(struct job){.name = "first", .gpus = 1, .priority = 20});
    cluster_put(&c, &(struct job){.name = "second", .gpus = 1, .priority = 10});
    cluster_put(&c, &(struct job){.name = "runs", .node = "a"});
    cluster_decide(&c, 1000);
    EXPECT(cluster_bound(&c, "first-0") && cluster_promised(&c, "second-0"));
    sched_drop_node(c.sched, STR("a"));
    sched_drop_node(c.sched, STR("a")); /* it is only named by pods now */
    cluster_node(&c, "b", 2);
    cluster_decide(&c, 1000);
    EXPECT(str_is(cluster_bind(&c, "first-0")->node, "b"));
    EXPECT(str_is(cluster_bind(&c, "second-0")->node, "b"));
    EXPECT(cluster_bind(&c, "first-0")->devices[0] + cluster_bind(&c, "second-0")->devices[0] == 1);
    EXPECT(!cluster_bound(&c, "runs-0")); /* it is said to run there, and may */
    cluster_close(&c);
}

TEST(a_node_that_changes_its_pool_leaves_the_pods_of_the_old_one)
{
    struct sched_node node = {.name = STR("a"), .cpu_milli = 64000, .gpus = 1, .pods = 9};
    struct cluster c;

    cluster_open(&c, SCHED_QUIRKS_NONE);
    cluster_queue(&c, "q", SCHED_UNLIMITED, SCHED_UNLIMITED);
    node.memory_bytes = INT64_C(1) << 38;
    node.pool = STR("blue");
    sched_put_node(c.sched, &node);
    cluster_put(&c, &(struct job){.name = "j", .gpus = 1});
    cluster_decide(&c, 1000);
    EXPECT(!cluster_bound(&c, "j-0"));
    node.pool = STR("");
    sched_put_node(c.sched, &node);
    cluster_decide(&c, 1000);
    EXPECT(cluster_bound(&c, "j-0"));
    cluster_close(&c);
}

/* ---- pods ---- */
TEST(a_pod_that_is_said_to_run_nowhere_waits_and_one_that_is_deleted_there_is_gone)
{
    static const struct {
        enum sched_phase phase;
        bool placed;
    } rows[] = {
        {SCHED_PENDING, true}, {SCHED_BOUND, true},      {SCHED_RUNNING, true},
        {SCHED_GATED, false},  {SCHED_RELEASING, false}, {SCHED_SUCCEEDED, false},
        {SCHED_FAILED, false},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct cluster c;

        cluster_open(&c, SCHED_QUIRKS_NONE);
        cluster_queue(&c, "q", SCHED_UNLIMITED, SCHED_UNLIMITED);
        cluster_node(&c, "a", 1);
        cluster_put(&c, &(struct job){.name = "g"});
        cluster_drop(&c, "g-0");
        sched_put_pod(c.sched, &(struct sched_pod){.ns = STR("ns"),
                                                   .name = STR("p"),
                                                   .group = STR("g"),
                                                   .phase = rows[i].phase});
        cluster_decide(&c, 1000);
        EXPECT(cluster_bound(&c, "p") == rows[i].placed);
        cluster_close(&c);
    }
}

/* Whoever makes a pod can write the annotation: it says nothing of one that is nowhere yet. */
TEST(a_pod_that_waits_has_no_devices_whatever_it_says)
{
    static const uint32_t numbers[] = {0, 1};
    struct cluster c;

    cluster_open(&c, SCHED_QUIRKS_NONE);
    cluster_queue(&c, "q", SCHED_UNLIMITED, SCHED_UNLIMITED);
    cluster_node(&c, "a", 4);
    cluster_put(&c, &(struct job){.name = "g", .gpus = 1});
    cluster_drop(&c, "g-0");
    sched_put_pod(c.sched, &(struct sched_pod){.ns = STR("ns"),
                                               .name = STR("p"),
                                               .group = STR("g"),
                                               .gpus = 1,
                                               .devices = numbers,
                                               .device_count = COUNT_OF(numbers)});
    cluster_decide(&c, 1000);
    EXPECT(cluster_bind(&c, "p")->device_count == 1 && cluster_bind(&c, "p")->devices[0] == 0);
    cluster_put(&c, &(struct job){.name = "next", .gpus = 3});
    cluster_decide(&c, 1000);
    const struct sched_bind *bind = cluster_bind(&c, "next-0");
    EXPECT(bind && bind->devices[0] == 1 && bind->devices[1] == 2 && bind->devices[2] == 3);
    cluster_close(&c);
}

static struct sched_pod_ref ref(const char *name)
{
    return (struct sched_pod_ref){STR("ns"), str_from(name), STR("")};
}

/* Answers come late: by then the pod may be elsewhere, or gone, or never have been bound. */
TEST(an_answer_about_a_pod_that_is_past_it_changes_nothing)
{
    static const char *const names[] = {"runs-0", "waits-0", "promised-0", "nobody"};
    struct cluster c;

    cluster_open(&c, SCHED_QUIRKS_NONE);
    cluster_queue(&c, "q", SCHED_UNLIMITED, SCHED_UNLIMITED);
    cluster_node(&c, "a", 2);
    cluster_put(&c, &(struct job){.name = "runs", .gpus = 1, .node = "a", .priority = 100});
    cluster_put(&c, &(struct job){.name = "ends", .gpus = 1, .node = "a", .ending = true});
    cluster_put(&c, &(struct job){.name = "promised", .gpus = 1, .priority = 40});
    cluster_put(&c, &(struct job){.name = "waits", .gpus = 1, .priority = 10});
    cluster_decide(&c, 1000);
    EXPECT(cluster_promised(&c, "promised-0") && cluster_waiting(&c, "waits"));
    EXPECT(!sched_needs_cycle(c.sched));
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        struct sched_pod_ref pod = ref(names[i]);

        test_case(names[i]);
        sched_bind_failed(c.sched, &pod);
        sched_bind_undone(c.sched, &pod);
        sched_evict_failed(c.sched, &pod);
        EXPECT(!sched_needs_cycle(c.sched));
    }
    sched_written(c.sched, STR("ns"), STR("nobody"), true, c.now);
    sched_share_opened(c.sched, STR("nowhere"), true, c.now);
    EXPECT(!sched_needs_cycle(c.sched));
    cluster_close(&c);
}

TEST(an_eviction_that_failed_after_its_pod_ended_is_over)
{
    struct sched_pod_ref pod = ref("low-0");
    struct cluster c;

    cluster_open(&c, SCHED_QUIRKS_NONE);
    cluster_queue(&c, "q", SCHED_UNLIMITED, SCHED_UNLIMITED);
    cluster_node(&c, "a", 1);
    cluster_put(&c, &(struct job){.name = "low", .gpus = 1, .priority = 10, .node = "a"});
    cluster_put(&c, &(struct job){.name = "high", .gpus = 1, .priority = 50});
    cluster_decide(&c, 1000);
    EXPECT(cluster_evicted(&c, "low-0"));
    /* It is seen to end, and then the answer comes. */
    cluster_put(
        &c, &(struct job){.name = "low", .gpus = 1, .priority = 10, .node = "a", .ending = true});
    sched_evict_failed(c.sched, &pod);
    cluster_decide(&c, 1000);
    EXPECT(!cluster_evicted(&c, "low-0"));
    struct str node = STR_NONE;
    EXPECT(sched_promised(c.sched, STR("ns"), STR("high-0"), &node) && str_is(node, "a"));
    cluster_close(&c);
}

/* ---- what the core says of itself ---- */
TEST(starts_are_written_where_a_run_time_counts)
{
    static const struct {
        const char *why;
        int64_t pool_preempt, pool_reclaim, queue_preempt, queue_reclaim, group_run;
        bool counts;
    } rows[] = {
        {"nobody says", 0, 0, -1, -1, 0, false},
        {"preemption in a pool", 5, 0, -1, -1, 0, true},
        {"reclaim in a pool", 0, 5, -1, -1, 0, true},
        {"preemption in a queue", 0, 0, 5, -1, 0, true},
        {"reclaim in a queue", 0, 0, -1, 5, 0, true},
        {"a group's maximum", 0, 0, -1, -1, 5, true},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct sched_config config;
        struct cluster c;

        test_case(rows[i].why);
        sched_config_default(&config);
        config.policy.preempt_min_runtime_ms = rows[i].pool_preempt;
        config.policy.reclaim_min_runtime_ms = rows[i].pool_reclaim;
        cluster_open_as(&c, &config);
        sched_put_queue(c.sched,
                        &(struct sched_queue){.name = STR("q"),
                                              .preempt_min_runtime_ms = rows[i].queue_preempt,
                                              .reclaim_min_runtime_ms = rows[i].queue_reclaim});
        sched_put_group(c.sched, &(struct sched_group){.ns = STR("ns"),
                                                       .name = STR("g"),
                                                       .max_run_ms = rows[i].group_run});
        EXPECT(sched_counts_starts(c.sched) == rows[i].counts);
        cluster_close(&c);
    }
}

TEST(past_use_is_told_of_known_queues_until_it_is_forgotten_for_their_pool)
{
    const double used[SCHED_RESOURCES] = {0.1, 0.2, 0.3};
    double told[SCHED_RESOURCES] = {0};
    struct str name = STR_NONE;
    size_t cursor = 0;
    struct cluster c;

    cluster_open(&c, SCHED_QUIRKS_NONE);
    cluster_queue(&c, "other", 1, 1);
    cluster_queue(&c, "q", 1, 1);
    sched_set_usage(c.sched, STR("nobody"), used);
    sched_set_usage(c.sched, STR("q"), used);
    EXPECT(sched_next_usage(c.sched, &cursor, &name, told) && str_is(name, "q"));
    EXPECT(told[SCHED_GPU] > 0.29 && told[SCHED_GPU] < 0.31);
    EXPECT(!sched_next_usage(c.sched, &cursor, &name, told));
    sched_forget_usage(c.sched, STR("blue"));
    cursor = 0;
    EXPECT(sched_next_usage(c.sched, &cursor, &name, told));
    sched_forget_usage(c.sched, STR(""));
    cursor = 0;
    EXPECT(!sched_next_usage(c.sched, &cursor, &name, told));
    cluster_close(&c);
}

TEST(a_core_is_settled_when_nothing_that_it_decided_is_under_way)
{
    struct cluster c;

    cluster_open(&c, SCHED_QUIRKS_NONE);
    cluster_queue(&c, "q", SCHED_UNLIMITED, SCHED_UNLIMITED);
    cluster_node(&c, "a", 1);
    cluster_put(&c, &(struct job){.name = "low", .gpus = 1, .priority = 10});
    EXPECT(sched_is_settled(c.sched, 1) && !sched_is_settled(c.sched, 2));
    cluster_decide(&c, 1000);
    EXPECT(!sched_is_settled(c.sched, 1)); /* a bind is */
    cluster_put(&c, &(struct job){.name = "low", .gpus = 1, .priority = 10, .node = "a"});
    EXPECT(sched_is_settled(c.sched, 1));
    cluster_put(&c, &(struct job){.name = "high", .gpus = 1, .priority = 50});
    cluster_decide(&c, 1000);
    EXPECT(!sched_is_settled(c.sched, 2)); /* an eviction is */
    cluster_put(
        &c, &(struct job){.name = "low", .gpus = 1, .priority = 10, .node = "a", .ending = true});
    EXPECT(sched_is_settled(c.sched, 2)); /* it was seen, and a promise is made again */
    sched_put_pod(c.sched, &(struct sched_pod){.ns = STR("ns"),
                                               .name = STR("moves"),
                                               .phase = SCHED_RUNNING,
                                               .node = STR("a"),
                                               .resuming = true});
    EXPECT(!sched_is_settled(c.sched, 3)); /* one is about to go on */
    cluster_close(&c);
}

TEST(a_core_that_is_begun_anew_keeps_its_policies_and_forgets_all_else)
{
    struct sched_policy policy;
    struct sched_counts counts;
    struct str name = STR_NONE;
    size_t cursor = 0;
    struct cluster c;

    cluster_open(&c, SCHED_QUIRKS_NONE);
    cluster_queue(&c, "q", 1, 1);
    cluster_node(&c, "a", 1);
    policy = sched_config(c.sched)->policy;
    policy.consolidate_max = 3;
    sched_set_policy(c.sched, STR("blue"), &policy);
    cluster_put(&c, &(struct job){.name = "j", .gpus = 1});
    cluster_decide(&c, 1000);
    sched_restart(c.sched);
    sched_count(c.sched, &counts);
    EXPECT(!counts.nodes && !counts.pods && !counts.groups && !counts.queues);
    EXPECT(sched_next_policy(c.sched, &cursor, &name, &policy) && str_is(name, "blue"));
    EXPECT(policy.consolidate_max == 3);
    cluster_close(&c);
}
