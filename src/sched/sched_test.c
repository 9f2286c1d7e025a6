#include "base/arena.h"
#include "base/count.h"
#include "base/json.h"
#include "base/str.h"
#include "sched/policy.h"
#include "sched/sched.h"
#include "test.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define PLANNED    200
#define BIND_BYTES 340 /* its struct, its texts, and what it took to decide it */

/* A cluster of one queue, made by hand. */
static struct sched *cluster(int64_t nodes, int64_t gpus)
{
    static const char *const names[] = {"node-a", "node-b", "node-c", "node-d"};
    struct sched_config config;
    struct sched_queue queue = {.name = STR("q"),
                                .priority = 100,
                                .preempt_min_runtime_ms = -1,
                                .reclaim_min_runtime_ms = -1};

    sched_config_default(&config);
    struct sched *sched = sched_new(&config);
    for (int r = 0; r < SCHED_RESOURCES; r++)
        queue.quota[r] = (struct sched_quota){SCHED_UNLIMITED, SCHED_UNLIMITED, 1};
    sched_put_queue(sched, &queue);
    for (int64_t i = 0; i < nodes; i++)
        sched_put_node(sched, &(struct sched_node){.name = str_from(names[i]),
                                                   .cpu_milli = 64000,
                                                   .memory_bytes = INT64_C(1) << 38,
                                                   .gpus = gpus,
                                                   .pods = 110});
    return sched;
}

static void gang(struct sched *sched, const char *name, int64_t pods, int64_t gpus)
{
    static const char *const numbers[] = {"0", "1", "2", "3"};
    struct arena arena = {0};

    sched_put_group(
        sched, &(struct sched_group){
                   .ns = STR("ns"), .name = str_from(name), .queue = STR("q"), .min_member = pods});
    for (int64_t i = 0; i < pods; i++)
        sched_put_pod(sched,
                      &(struct sched_pod){.ns = STR("ns"),
                                          .name = str_printf(&arena, "%s-%s", name, numbers[i]),
                                          .uid = str_printf(&arena, "%s-%s", name, numbers[i]),
                                          .group = str_from(name),
                                          .cpu_milli = 1000,
                                          .memory_bytes = 1 << 30,
                                          .gpus = gpus});
    arena_done(&arena);
}

/* A plan of 800,000 binds is the largest thing that the core ever makes, see docs/internals/budget.md. */
TEST(a_bind_costs_the_plan_no_more_than_its_budget)
{
    struct arena arena = {0};
    struct sched *sched = cluster(4, 50);
    struct sched_plan plan;

    for (int i = 0; i < PLANNED / 2; i++) {
        char name[16];

        (void)snprintf(name, sizeof(name), "training-%03d", i);
        gang(sched, name, 2, 1);
    }
    sched_cycle(sched, 1000, &arena, &plan);
    EXPECT(plan.bind_count == PLANNED);
    if (arena.bytes_used / PLANNED > BIND_BYTES)
        printf("%zu bytes a bind\n", arena.bytes_used / PLANNED);
    EXPECT(arena.bytes_used / PLANNED <= BIND_BYTES);
    for (size_t i = 0; i < plan.bind_count; i++) {
        const struct sched_bind *bind = &plan.binds[i];

        EXPECT(str_is(bind->pod.ns, "ns") && str_starts(bind->pod.name, bind->group) &&
               str_eq(bind->pod.uid, bind->pod.name) && str_starts(bind->node, STR("node-")) &&
               bind->device_count == 1);
    }
    sched_free(sched);
    arena_done(&arena);
}

TEST(a_gang_is_bound_whole_or_not_at_all)
{
    struct arena arena = {0};
    struct sched *sched = cluster(2, 4);
    struct sched_plan plan;

    gang(sched, "fits", 2, 4);
    sched_cycle(sched, 1000, &arena, &plan);
    EXPECT(plan.bind_count == 2);
    EXPECT(plan.binds[0].batch == plan.binds[1].batch);
    EXPECT(!str_eq(plan.binds[0].node, plan.binds[1].node));
    EXPECT(plan.binds[0].device_count == 4);
    EXPECT(plan.waiting_count == 0);

    gang(sched, "waits", 2, 4);
    sched_cycle(sched, 2000, &arena, &plan);
    EXPECT(plan.bind_count == 0);
    EXPECT(plan.waiting_count == 1);
    EXPECT(str_starts(plan.waiting[0].message,
                      STR("needs 8 GPUs in a gang of 2 pods; 0 of 8 GPUs are free")));
    sched_free(sched);
    arena_done(&arena);
}

TEST(a_bind_that_failed_is_decided_again)
{
    struct arena arena = {0};
    struct sched *sched = cluster(1, 4);
    struct sched_plan plan;

    gang(sched, "g", 1, 4);
    sched_cycle(sched, 1000, &arena, &plan);
    EXPECT(plan.bind_count == 1);
    EXPECT(!sched_needs_cycle(sched));
    sched_bind_failed(sched, &(struct sched_pod_ref){STR("ns"), STR("g-0"), STR("")});
    EXPECT(sched_needs_cycle(sched));
    sched_cycle(sched, 2000, &arena, &plan);
    EXPECT(plan.bind_count == 1);
    sched_free(sched);
    arena_done(&arena);
}

/* A pod is deleted and made again under its name before the answer about the first one comes. */
TEST(a_bind_that_failed_is_of_the_pod_with_its_uid)
{
    struct arena arena = {0};
    struct sched *sched = cluster(1, 4);
    struct sched_plan plan;

    gang(sched, "g", 1, 4);
    sched_cycle(sched, 1000, &arena, &plan);
    EXPECT(plan.bind_count == 1);
    sched_bind_failed(sched, &(struct sched_pod_ref){STR("ns"), STR("g-0"), STR("older")});
    sched_evict_failed(sched, &(struct sched_pod_ref){STR("ns"), STR("g-0"), STR("older")});
    EXPECT(!sched_needs_cycle(sched));
    gang(sched, "other", 1, 4);
    sched_cycle(sched, 2000, &arena, &plan);
    EXPECT(plan.bind_count == 0); /* its GPUs are not free */
    sched_bind_failed(sched, &(struct sched_pod_ref){STR("ns"), STR("g-0"), STR("g-0")});
    sched_cycle(sched, 3000, &arena, &plan);
    EXPECT(plan.bind_count == 1);
    sched_free(sched);
    arena_done(&arena);
}

/* The status of groups and queues is ours: writing it must not make us look again. */
TEST(an_event_that_says_nothing_new_needs_no_cycle)
{
    struct arena arena = {0};
    struct sched *sched = cluster(1, 4);
    struct sched_queue queue = {.name = STR("q"),
                                .priority = 100,
                                .preempt_min_runtime_ms = -1,
                                .reclaim_min_runtime_ms = -1};
    struct sched_group group = {
        .ns = STR("ns"), .name = STR("g"), .queue = STR("q"), .min_member = 2};
    struct sched_plan plan;

    for (int r = 0; r < SCHED_RESOURCES; r++)
        queue.quota[r] = (struct sched_quota){SCHED_UNLIMITED, SCHED_UNLIMITED, 1};
    gang(sched, "g", 2, 4);
    sched_cycle(sched, 1000, &arena, &plan);
    EXPECT(!sched_needs_cycle(sched));
    sched_put_group(sched, &group);
    sched_put_queue(sched, &queue);
    EXPECT(!sched_needs_cycle(sched));
    group.min_member = 1;
    sched_put_group(sched, &group);
    EXPECT(sched_needs_cycle(sched));
    sched_cycle(sched, 2000, &arena, &plan);
    EXPECT(plan.bind_count == 1);
    queue.quota[SCHED_GPU].limit = 2;
    sched_put_queue(sched, &queue);
    EXPECT(sched_needs_cycle(sched));
    sched_free(sched);
    arena_done(&arena);
}

TEST(required_node_affinity_holds_for_every_operator)
{
    static const struct str one[] = {{"6", 1}};
    static const struct str same[] = {{"7", 1}};
    static const struct {
        const char *why;
        enum sched_operator op;
        const struct str *values;
        size_t value_count;
        size_t with;    /* binds to a node with gen=7 */
        size_t without; /* and to one without the label */
    } rows[] = {
        {"In", SCHED_IN, same, 1, 1, 0},         {"In another", SCHED_IN, one, 1, 0, 0},
        {"NotIn", SCHED_NOT_IN, same, 1, 0, 1},  {"NotIn another", SCHED_NOT_IN, one, 1, 1, 1},
        {"Exists", SCHED_EXISTS, NULL, 0, 1, 0}, {"DoesNotExist", SCHED_NOT_EXISTS, NULL, 0, 0, 1},
        {"Gt", SCHED_GT, one, 1, 1, 0},          {"Gt the same", SCHED_GT, same, 1, 0, 0},
        {"Lt", SCHED_LT, one, 1, 0, 0},          {"Lt the same", SCHED_LT, same, 1, 0, 0},
    };

    for (size_t i = 0; i < COUNT_OF(rows) * 2; i++) {
        size_t row = i / 2;
        bool labelled = i % 2;
        struct arena arena = {0};
        struct sched *sched = cluster(0, 0);
        struct sched_label label = {STR("gen"), STR("7")};
        struct sched_expression expression = {STR("gen"), rows[row].op, rows[row].values,
                                              rows[row].value_count};
        struct sched_node_term term = {.labels = &expression, .label_count = 1};
        struct sched_plan plan;

        test_case(rows[row].why);
        sched_put_node(sched, &(struct sched_node){.name = STR("node-a"),
                                                   .labels = &label,
                                                   .label_count = labelled,
                                                   .cpu_milli = 64000,
                                                   .memory_bytes = INT64_C(1) << 38,
                                                   .pods = 110});
        sched_put_group(sched,
                        &(struct sched_group){
                            .ns = STR("ns"), .name = STR("g"), .queue = STR("q"), .min_member = 1});
        sched_put_pod(sched, &(struct sched_pod){.ns = STR("ns"),
                                                 .name = STR("g-0"),
                                                 .uid = STR("g-0"),
                                                 .group = STR("g"),
                                                 .cpu_milli = 1000,
                                                 .node_terms = &term,
                                                 .node_term_count = 1,
                                                 .node_affinity = true});
        sched_cycle(sched, 1000, &arena, &plan);
        EXPECT(plan.bind_count == (labelled ? rows[row].with : rows[row].without));
        sched_free(sched);
        arena_done(&arena);
    }
}

/* A pod was deleted and made again while its bind was under way: the new one is not bound yet. */
TEST(a_pod_of_the_same_name_is_another_pod)
{
    struct arena arena = {0};
    struct sched *sched = cluster(1, 4);
    struct sched_pod pod = {.ns = STR("ns"),
                            .name = STR("g-0"),
                            .uid = STR("g-0"),
                            .group = STR("g"),
                            .cpu_milli = 1000,
                            .memory_bytes = 1 << 30,
                            .gpus = 4};
    struct sched_plan plan;

    gang(sched, "g", 1, 4);
    sched_cycle(sched, 1000, &arena, &plan);
    EXPECT(plan.bind_count == 1);
    sched_put_pod(sched, &pod);
    sched_cycle(sched, 2000, &arena, &plan);
    EXPECT(plan.bind_count == 0);
    pod.uid = STR("another");
    sched_put_pod(sched, &pod);
    sched_cycle(sched, 3000, &arena, &plan);
    EXPECT(plan.bind_count == 1);
    sched_free(sched);
    arena_done(&arena);
}

TEST(a_depth_lets_in_the_first_of_a_queue_and_then_the_next)
{
    static const char *const names[] = {"a", "b", "c"};
    struct arena arena = {0};
    struct sched *sched = cluster(1, 4);
    struct sched_policy policy = sched_config(sched)->policy;
    struct sched_plan plan;

    policy.actions = 1U << SCHED_ACTION_ALLOCATE;
    policy.depth[SCHED_ACTION_ALLOCATE] = 1;
    sched_set_policy(sched, STR(""), &policy);
    for (size_t i = 0; i < 3; i++)
        gang(sched, names[i], 1, 1);
    for (size_t i = 0; i < 3; i++) {
        EXPECT(sched_needs_cycle(sched));
        sched_cycle(sched, 1000, &arena, &plan);
        EXPECT(plan.bind_count == 1);
        EXPECT(str_is(plan.binds[0].group, names[i]));
        EXPECT(plan.waiting_count == 2 - i);
        if (plan.waiting_count)
            EXPECT(plan.waiting[0].reason == SCHED_REASON_IN_LINE);
    }
    EXPECT(!sched_needs_cycle(sched));
    sched_free(sched);
    arena_done(&arena);
}

/* Two nodes, one of them with a pod; and one more pod for the pool. */
static struct str where_the_second_goes(struct sched *sched, struct str pool, struct arena *arena)
{
    struct sched_queue queue = {.name = str_printf(arena, "q-" STR_FMT, STR_ARG(pool)),
                                .pool = pool,
                                .priority = 100,
                                .preempt_min_runtime_ms = -1,
                                .reclaim_min_runtime_ms = -1};
    struct sched_plan plan = {0};
    struct str first = STR_NONE;

    for (int r = 0; r < SCHED_RESOURCES; r++)
        queue.quota[r] = (struct sched_quota){SCHED_UNLIMITED, SCHED_UNLIMITED, 1};
    sched_put_queue(sched, &queue);
    for (int64_t i = 0; i < 2; i++) {
        struct str name = str_printf(arena, STR_FMT "-%d", STR_ARG(pool), (int)i);

        sched_put_node(sched, &(struct sched_node){.name = name,
                                                   .pool = pool,
                                                   .cpu_milli = 64000,
                                                   .memory_bytes = INT64_C(1) << 38,
                                                   .gpus = 4,
                                                   .pods = 110});
        sched_put_group(sched, &(struct sched_group){.ns = STR("ns"),
                                                     .name = name,
                                                     .pool = pool,
                                                     .queue = queue.name,
                                                     .created_ms = i,
                                                     .min_member = 1});
        sched_put_pod(sched,
                      &(struct sched_pod){
                          .ns = STR("ns"), .name = name, .uid = name, .group = name, .gpus = 1});
    }
    sched_cycle(sched, 1000, arena, &plan);
    EXPECT(plan.bind_count == 2);
    for (size_t i = 0; i < plan.bind_count; i++) {
        if (i && !str_eq(plan.binds[i].node, first))
            return STR("elsewhere");
        first = plan.binds[i].node;
    }
    return STR("the same node");
}

TEST(every_pool_is_run_by_its_own_policy)
{
    struct arena arena = {0};
    struct sched *sched = cluster(0, 0);
    struct sched_policy policy = sched_config(sched)->policy;

    policy.gpu_strategy = SCHED_SPREAD;
    sched_set_policy(sched, STR("wide"), &policy);
    EXPECT(str_is(where_the_second_goes(sched, STR("wide"), &arena), "elsewhere"));
    EXPECT(str_is(where_the_second_goes(sched, STR("tight"), &arena), "the same node"));
    sched_set_policy(sched, STR(""), &policy); /* those without their own follow */
    EXPECT(str_is(where_the_second_goes(sched, STR("other"), &arena), "elsewhere"));
    sched_set_policy(sched, STR("late"), &(struct sched_policy){0}); /* runs nothing */
    sched_set_policy(sched, STR("late"), NULL);
    EXPECT(str_is(where_the_second_goes(sched, STR("late"), &arena), "elsewhere"));
    sched_free(sched);
    arena_done(&arena);
}

struct steps {
    enum sched_step order[SCHED_STEP_COUNT * 2];
    size_t count;
};

static void on_step(void *user, enum sched_step step)
{
    struct steps *steps = user;

    steps->order[steps->count++] = step;
}

TEST(every_step_of_a_cycle_is_told_once_and_actions_count_what_they_did)
{
    struct arena arena = {0};
    struct sched *sched = cluster(1, 4);
    struct steps steps = {0};
    struct sched_plan plan;
    struct sched_tally tally;

    sched_measure(sched, on_step, &steps);
    gang(sched, "fits", 2, 2);
    gang(sched, "waits", 1, 2);
    sched_cycle(sched, 1000, &arena, &plan);
    EXPECT(steps.count == SCHED_STEP_COUNT);
    EXPECT(steps.order[0] == SCHED_STEP_OPEN);
    EXPECT(steps.order[1] == SCHED_STEP_SHARES);
    EXPECT(steps.order[2] == SCHED_STEP_ACTION + SCHED_ACTION_RESERVE);
    EXPECT(steps.order[3] == SCHED_STEP_ACTION + SCHED_ACTION_ALLOCATE);
    EXPECT(steps.order[SCHED_STEP_COUNT - 1] == SCHED_STEP_PLAN);
    sched_tally(sched, SCHED_ACTION_ALLOCATE, &tally);
    EXPECT(tally.tried == 2);
    EXPECT(tally.placed == 1);
    EXPECT(tally.simulated == 0);
    sched_tally(sched, SCHED_ACTION_PREEMPT, &tally);
    EXPECT(tally.tried == 1);
    EXPECT(tally.placed == 0);
    sched_free(sched);
    arena_done(&arena);
}

TEST(a_memory_request_that_comes_before_its_group_is_charged_by_the_true_size)
{
    struct arena arena = {0};
    struct sched *sched = cluster(1, 0);
    struct sched_queue_view view;
    struct sched_plan plan;

    sched_put_node(sched, &(struct sched_node){.name = STR("gpus"),
                                               .cpu_milli = 64000,
                                               .memory_bytes = INT64_C(1) << 38,
                                               .gpus = 4,
                                               .gpu_memory_mib = 80000,
                                               .pods = 110});
    sched_cycle(sched, 1000, &arena, &plan);
    sched_put_pod(sched, &(struct sched_pod){.ns = STR("ns"),
                                             .name = STR("part"),
                                             .uid = STR("part"),
                                             .group = STR("part"),
                                             .phase = SCHED_GATED,
                                             .gpu_memory_mib = 40000});
    sched_put_group(sched,
                    &(struct sched_group){
                        .ns = STR("ns"), .name = STR("part"), .queue = STR("q"), .min_member = 1});
    sched_put_pod(sched, &(struct sched_pod){.ns = STR("ns"),
                                             .name = STR("large"),
                                             .uid = STR("large"),
                                             .group = STR("large"),
                                             .gpu_memory_mib = 160000});
    sched_put_group(sched,
                    &(struct sched_group){
                        .ns = STR("ns"), .name = STR("large"), .queue = STR("q"), .min_member = 1});
    sched_cycle(sched, 2000, &arena, &plan);
    EXPECT(sched_queue_view(sched, STR("q"), &view));
    EXPECT(view.requested[SCHED_GPU] < 3); /* 2, or 2.5 with the gated one; not 1600 */
    sched_free(sched);
    arena_done(&arena);
}

TEST(nodes_with_room_for_a_part_of_a_gang_are_counted_in_words)
{
    static const struct {
        int64_t pods;
        const char *said;
    } rows[] = {{2, ", 1 node with room for one pod"}, {3, ", 2 nodes with room for one pod"}};

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct arena arena = {0};
        struct sched *sched = cluster(rows[i].pods, 4);
        struct sched_plan plan;

        gang(sched, "first", 1, 1);
        sched_cycle(sched, 1000, &arena, &plan);
        EXPECT(plan.bind_count == 1);
        gang(sched, "waits", rows[i].pods, 4);
        sched_cycle(sched, 2000, &arena, &plan);
        EXPECT(plan.waiting_count == 1);
        EXPECT(strstr(str_c(&arena, plan.waiting[0].message), rows[i].said));
        sched_free(sched);
        arena_done(&arena);
    }
}

TEST(a_policy_tells_numbers_with_a_sign_only_below_zero)
{
    static const struct {
        double value;
        const char *said;
    } rows[] = {{0, "0.000000000"}, {-1.5, "-1.500000000"}, {0.25, "0.250000000"}};

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct arena arena = {0};
        struct json *told = json_new_object(&arena);
        struct sched_config config;

        sched_config_default(&config);
        config.policy.k_value = rows[i].value;
        policy_tell_one(&arena, &config.policy, told);
        EXPECT(str_is(json_number_text(json_get(told, "kValue")), rows[i].said));
        arena_done(&arena);
    }
}
