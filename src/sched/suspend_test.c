#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/count.h"
#include "base/err.h"
#include "base/str.h"
#include "sched/sched.h"
#include "sched/spec.h"
#include "sched/verify.h"
#include "test.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Pods that give up their GPUs and stay where they are. */

static void put_queue(struct sched *sched, enum sched_loss loss)
{
    struct sched_queue queue = {.name = STR("q"),
                                .priority = 100,
                                .preempt_min_runtime_ms = -1,
                                .reclaim_min_runtime_ms = -1,
                                .loss = loss};

    for (int r = 0; r < SCHED_RESOURCES; r++)
        queue.quota[r] = (struct sched_quota){SCHED_UNLIMITED, SCHED_UNLIMITED, 1};
    sched_put_queue(sched, &queue);
}

static struct sched *cluster(int64_t gpus)
{
    struct sched_config config;

    sched_config_default(&config);
    struct sched *sched = sched_new(&config);
    put_queue(sched, SCHED_LOSS_UNSET);
    for (int i = 0; i < 2; i++)
        sched_put_node(sched, &(struct sched_node){.name = i ? STR("b") : STR("a"),
                                                   .cpu_milli = 64000,
                                                   .memory_bytes = INT64_C(64) << 30,
                                                   .gpus = gpus,
                                                   .pods = 110});
    return sched;
}

/* A gang of one pod of the same name. */
static struct sched_pod pod_of(const char *name, int64_t gpus)
{
    return (struct sched_pod){.ns = STR("ns"),
                              .name = str_from(name),
                              .uid = str_from(name),
                              .group = str_from(name),
                              .cpu_milli = 1000,
                              .memory_bytes = INT64_C(8) << 30,
                              .gpus = gpus};
}

static void put(struct sched *sched, const struct sched_pod *pod)
{
    sched_put_group(sched,
                    &(struct sched_group){
                        .ns = STR("ns"), .name = pod->group, .queue = STR("q"), .min_member = 1});
    sched_put_pod(sched, pod);
}

static const uint32_t numbers[] = {0, 1, 2, 3};

static struct sched_pod running(const char *name, const char *node, uint32_t device)
{
    struct sched_pod pod = pod_of(name, 1);

    pod.phase = SCHED_RUNNING;
    pod.node = str_from(node);
    pod.devices = &numbers[device];
    pod.device_count = 1;
    return pod;
}

static void suspend(struct sched *sched, struct sched_pod pod, bool held)
{
    pod.suspended = true;
    pod.phase = held ? SCHED_GATED : SCHED_PENDING;
    put(sched, &pod);
}

static struct sched_plan cycle(struct sched *sched, struct arena *arena)
{
    static int64_t now_ms = 1000;
    struct sched_plan plan;
    struct err err = {0};

    sched_cycle(sched, now_ms += 1000, arena, &plan);
    EXPECT(sched_verify(sched, &err) == 0);
    return plan;
}

static struct sched_node_view view_of(const struct sched *sched, const char *node)
{
    struct sched_node_view view = {0};

    EXPECT(sched_node_view(sched, str_from(node), &view));
    return view;
}

TEST(a_suspended_pod_holds_no_gpu_but_its_cpus_and_memory)
{
    struct arena arena = {0};
    struct sched *sched = cluster(1);
    struct sched_pod a = running("a", "a", 0);

    put(sched, &a);
    EXPECT(view_of(sched, "a").idle_gpus == 0);
    suspend(sched, a, true);
    EXPECT(view_of(sched, "a").idle_gpus == 1);
    EXPECT(view_of(sched, "a").idle_memory_bytes == INT64_C(56) << 30);
    EXPECT(view_of(sched, "a").idle_cpu_milli == 63000);
    EXPECT(cycle(sched, &arena).bind_count == 0); /* held: nobody asks for it */
    put(sched, &a);
    EXPECT(view_of(sched, "a").idle_gpus == 0);
    EXPECT(view_of(sched, "a").idle_memory_bytes == INT64_C(56) << 30);
    suspend(sched, a, false);
    sched_drop_pod(sched, STR("ns"), STR("a"));
    EXPECT(view_of(sched, "a").idle_gpus == 1);
    EXPECT(view_of(sched, "a").idle_memory_bytes == INT64_C(64) << 30);
    sched_free(sched);
    arena_done(&arena);
}

static struct sched_queue_view queue_of(const struct sched *sched)
{
    struct sched_queue_view view = {0};

    EXPECT(sched_queue_view(sched, STR("q"), &view));
    return view;
}

/* Or a queue would have as much more as it suspends. */
TEST(a_suspended_pod_is_charged_for_the_cpus_and_memory_that_it_keeps)
{
    struct arena arena = {0};
    struct sched *sched = cluster(1);
    struct sched_pod a = running("a", "a", 0);
    struct err err = {0};

    put(sched, &a);
    EXPECT(queue_of(sched).allocated[SCHED_CPU] > 999 && queue_of(sched).allocated[SCHED_GPU] > 0);
    for (int held = 1; held >= 0; held--) {
        suspend(sched, a, held);
        EXPECT(queue_of(sched).allocated[SCHED_GPU] < 0.001);
        EXPECT(queue_of(sched).allocated[SCHED_CPU] > 999);
        EXPECT(queue_of(sched).allocated[SCHED_CPU] < 1001);
        EXPECT(queue_of(sched).allocated[SCHED_MEMORY] > 0);
        EXPECT(sched_verify(sched, &err) == 0);
    }
    EXPECT(cycle(sched, &arena).bind_count == 1); /* it goes on, and is charged once */
    EXPECT(queue_of(sched).allocated[SCHED_CPU] < 1001 && queue_of(sched).allocated[SCHED_GPU] > 0);
    put(sched, &a);
    EXPECT(queue_of(sched).allocated[SCHED_CPU] > 999 &&
           queue_of(sched).allocated[SCHED_CPU] < 1001);
    suspend(sched, a, true);
    sched_drop_pod(sched, STR("ns"), STR("a"));
    EXPECT(queue_of(sched).allocated[SCHED_CPU] < 1 && queue_of(sched).allocated[SCHED_MEMORY] < 1);
    EXPECT(sched_verify(sched, &err) == 0);
    sched_free(sched);
    arena_done(&arena);
}

/* Or its queue would have more than its quota when it fails to, and runs on. */
TEST(a_pod_that_somebody_suspends_is_charged_until_it_has_left_its_gpu)
{
    struct arena arena = {0};
    struct sched *sched = cluster(1);
    struct sched_pod a = running("a", "a", 0), leaves = a;
    struct err err = {0};

    leaves.phase = SCHED_RELEASING;
    for (int wished = 0; wished <= 1; wished++) {
        put(sched, &a);
        leaves.may_stay = wished;
        put(sched, &leaves);
        EXPECT((queue_of(sched).allocated[SCHED_GPU] > 0) == wished);
        EXPECT((queue_of(sched).allocated[SCHED_CPU] > 999) == wished);
        EXPECT(sched_verify(sched, &err) == 0);
        put(sched, &a); /* it could not */
        EXPECT(queue_of(sched).allocated[SCHED_GPU] > 0 &&
               queue_of(sched).allocated[SCHED_CPU] < 1001);
        EXPECT(sched_verify(sched, &err) == 0);
    }
    put(sched, &leaves);
    suspend(sched, a, true);
    EXPECT(queue_of(sched).allocated[SCHED_GPU] < 0.001);
    EXPECT(queue_of(sched).allocated[SCHED_CPU] < 1001);
    put(sched, &leaves); /* anew, and then it is deleted */
    leaves.may_stay = false;
    put(sched, &leaves);
    EXPECT(queue_of(sched).allocated[SCHED_GPU] < 0.001);
    EXPECT(cycle(sched, &arena).bind_count == 0);
    sched_free(sched);
    arena_done(&arena);
}

TEST(a_suspended_pod_goes_on_on_its_own_node_and_gpu_once_they_are_free)
{
    struct arena arena = {0};
    struct sched *sched = cluster(1);
    struct sched_pod a = running("a", "a", 0), other = running("other", "a", 0);

    put(sched, &a);
    suspend(sched, a, true);
    put(sched, &other);
    suspend(sched, a, false);
    struct sched_plan plan = cycle(sched, &arena);
    EXPECT(plan.bind_count == 0); /* although node b has a GPU free */
    EXPECT(plan.waiting_count == 1);
    EXPECT(str_starts(plan.waiting[0].message, STR("suspended on node a, where it goes on")));
    sched_drop_pod(sched, STR("ns"), STR("other"));
    plan = cycle(sched, &arena);
    EXPECT(plan.bind_count == 1 && plan.binds[0].resume);
    EXPECT(str_is(plan.binds[0].node, "a") && plan.binds[0].device_count == 1 &&
           plan.binds[0].devices[0] == 0);
    EXPECT(view_of(sched, "a").idle_gpus == 0);
    suspend(sched, a, false); /* an event from before the decision */
    EXPECT(cycle(sched, &arena).bind_count == 0);
    EXPECT(view_of(sched, "a").idle_gpus == 0);
    put(sched, &a);
    EXPECT(view_of(sched, "a").idle_gpus == 0);
    EXPECT(view_of(sched, "a").idle_memory_bytes == INT64_C(56) << 30);
    sched_free(sched);
    arena_done(&arena);
}

TEST(a_suspended_pod_waits_for_the_very_gpu_it_had)
{
    struct arena arena = {0};
    struct sched *sched = cluster(2);
    struct sched_pod a = running("a", "a", 1), other = running("other", "a", 1);

    put(sched, &a);
    suspend(sched, a, false);
    put(sched, &other); /* on the same GPU, by hand; number 0 is free */
    struct sched_plan plan = cycle(sched, &arena);
    EXPECT(plan.bind_count == 0);
    EXPECT(plan.waiting_count == 1 && plan.waiting[0].why.nodes[SCHED_FILTER_DEVICE] == 1);
    sched_drop_pod(sched, STR("ns"), STR("other"));
    plan = cycle(sched, &arena);
    EXPECT(plan.bind_count == 1 && plan.binds[0].devices[0] == 1);
    sched_bind_failed(sched, &(struct sched_pod_ref){STR("ns"), STR("a"), STR("")});
    plan = cycle(sched, &arena);
    EXPECT(plan.bind_count == 1 && plan.binds[0].resume && plan.binds[0].devices[0] == 1);
    sched_free(sched);
    arena_done(&arena);
}

TEST(new_pods_take_gpus_that_nobody_waits_for_first)
{
    struct arena arena = {0};
    struct sched *sched = cluster(2);
    struct sched_pod a = running("a", "a", 0), both = pod_of("both", 2), one = pod_of("one", 1);

    put(sched, &a);
    suspend(sched, a, true);
    one.node_selector = NULL;
    put(sched, &one);
    struct sched_plan plan = cycle(sched, &arena);
    EXPECT(plan.bind_count == 1);
    if (str_is(plan.binds[0].node, "a"))
        EXPECT(plan.binds[0].devices[0] == 1);
    put(sched, &both);
    plan = cycle(sched, &arena);
    EXPECT(plan.bind_count == 1 && plan.binds[0].device_count == 2);
    EXPECT(plan.binds[0].devices[0] != plan.binds[0].devices[1]);
    sched_free(sched);
    arena_done(&arena);
}

TEST(a_pod_on_its_way_out_of_its_gpu_holds_it_until_it_is_out)
{
    struct arena arena = {0};
    struct sched *sched = cluster(1);
    struct sched_pod a = running("a", "a", 0), b = running("b", "b", 0), next = pod_of("next", 1);

    put(sched, &a);
    put(sched, &b);
    put(sched, &next);
    a.phase = SCHED_RELEASING;
    put(sched, &a);
    struct sched_plan plan = cycle(sched, &arena);
    EXPECT(plan.bind_count == 0 && plan.nominate_count == 1);
    suspend(sched, a, true);
    plan = cycle(sched, &arena);
    EXPECT(plan.bind_count == 1 && str_is(plan.binds[0].node, "a") && !plan.binds[0].resume);
    sched_free(sched);
    arena_done(&arena);
}

TEST(a_queue_may_change_its_mind_about_who_gives_way)
{
    struct arena arena = {0};
    struct sched *sched = cluster(1);

    (void)cycle(sched, &arena);
    put_queue(sched, SCHED_LOSS_UNSET);
    EXPECT(!sched_needs_cycle(sched));
    put_queue(sched, SCHED_LOSS_SUSPEND);
    EXPECT(sched_needs_cycle(sched));
    sched_free(sched);
    arena_done(&arena);
}

TEST(a_pod_is_bound_with_the_word_that_it_may_be_suspended)
{
    static const struct {
        enum sched_loss queue, own;
        bool may;
        const char *why;
    } rows[] = {
        {SCHED_LOSS_UNSET, SCHED_LOSS_UNSET, false, "nobody says so"},
        {SCHED_LOSS_SUSPEND, SCHED_LOSS_UNSET, true, "its queue does"},
        {SCHED_LOSS_UNSET, SCHED_LOSS_SUSPEND, true, "it says so itself"},
        {SCHED_LOSS_SUSPEND, SCHED_LOSS_EVICT, false, "it does not want to"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct arena arena = {0};
        struct sched *sched = cluster(1);
        struct sched_pod a = pod_of("a", 1);

        put_queue(sched, rows[i].queue);
        put(sched, &a);
        sched_put_group(sched, &(struct sched_group){.ns = STR("ns"),
                                                     .name = a.group,
                                                     .queue = STR("q"),
                                                     .min_member = 1,
                                                     .loss = rows[i].own});
        struct sched_plan plan = cycle(sched, &arena);
        EXPECT(plan.bind_count == 1 && plan.binds[0].may_suspend == rows[i].may);
        sched_free(sched);
        arena_done(&arena);
    }
}

TEST(a_suspended_pod_that_is_deleted_has_no_gpu_to_give_back)
{
    static const char pod[] =
        "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"a\",\"uid\":\"a\",%s\"annotations\":{"
        "\"pod-group-name\":\"a\",\"muster.dev/suspend\":\"yield\",\"torchrun.ai/"
        "gpu-devices\":\"0\"}},"
        "\"spec\":{\"nodeName\":\"a\",\"containers\":[{\"name\":\"c\",\"resources\":{\"limits\":{"
        "\"nvidia.com/gpu\":\"1\"},\"requests\":{\"nvidia.com/gpu\":\"1\",\"memory\":\"8Gi\"}}}]},"
        "\"status\":{\"phase\":\"Running\",\"conditions\":[{\"type\":\"Suspended\",\"status\":"
        "\"True\","
        "\"reason\":\"Frozen\"}]}}";
    static const char *const deleted[] = {"", "\"deletionTimestamp\":\"2026-01-01T00:00:00Z\","};
    struct arena arena = {0};
    struct sched *sched = cluster(1);
    struct sched_pod other = running("other", "a", 0), b = running("b", "b", 0);
    struct sched_pod next = pod_of("next", 1);

    put(sched, &b);
    for (size_t i = 0; i < 2; i++) {
        struct object *object = NULL;

        EXPECT(object_new(&kind_pod, str_printf(&arena, pod, deleted[i]), &object, NULL) == 0);
        EXPECT(sched_observe(sched, SCHED_PUT, object, NULL) == 0);
        object_unref(object);
        if (i == 0)
            put(sched, &other); /* it has its GPU by now */
        EXPECT(view_of(sched, "a").idle_gpus == 0);
        EXPECT(view_of(sched, "a").idle_memory_bytes == INT64_C(48) << 30);
    }
    sched_drop_pod(sched, STR("ns"), STR("a"));
    EXPECT(view_of(sched, "a").idle_gpus == 0);
    put(sched, &next);
    EXPECT(cycle(sched, &arena).bind_count == 0);
    sched_drop_pod(sched, STR("ns"), STR("other"));
    EXPECT(cycle(sched, &arena).bind_count == 1);
    sched_free(sched);
    arena_done(&arena);
}

TEST(a_pod_that_is_about_to_go_on_is_left_alone)
{
    struct arena arena = {0};
    struct sched *sched = cluster(1);
    struct sched_pod a = running("a", "a", 0), next = pod_of("next", 1);

    sched_drop_node(sched, STR("b"));
    a.resuming = true;
    put(sched, &a);
    sched_put_group(sched, &(struct sched_group){.ns = STR("ns"),
                                                 .name = STR("next"),
                                                 .queue = STR("q"),
                                                 .min_member = 1,
                                                 .has_priority = true,
                                                 .priority = 90});
    sched_put_pod(sched, &next);
    EXPECT(cycle(sched, &arena).evict_count == 0);
    a.resuming = false;
    put(sched, &a);
    EXPECT(sched_needs_cycle(sched));
    EXPECT(cycle(sched, &arena).evict_count == 1);
    sched_free(sched);
    arena_done(&arena);
}

TEST(what_is_left_of_a_suspended_gang_that_lost_a_pod_is_given_up)
{
    struct arena arena = {0};
    struct sched *sched = cluster(1);
    struct sched_pod a = running("a", "a", 0), b = running("b", "b", 0);

    sched_put_group(sched,
                    &(struct sched_group){
                        .ns = STR("ns"), .name = STR("g"), .queue = STR("q"), .min_member = 2});
    a.group = b.group = STR("g");
    a.suspended = b.suspended = true;
    a.phase = b.phase = SCHED_GATED;
    sched_put_pod(sched, &a);
    sched_put_pod(sched, &b);
    (void)cycle(sched, &arena);
    sched_drop_pod(sched, STR("ns"), STR("b"));
    EXPECT(cycle(sched, &arena).evict_count == 0);
    struct sched_plan plan;
    sched_cycle(sched, 600000, &arena, &plan);
    EXPECT(plan.evict_count == 0); /* somebody holds it */
    a.phase = SCHED_PENDING;
    sched_put_pod(sched, &a);
    sched_cycle(sched, 601000, &arena, &plan);
    EXPECT(plan.evict_count == 0 && plan.bind_count == 0);
    sched_cycle(sched, 662000, &arena, &plan);
    EXPECT(plan.evict_count == 1 && str_is(plan.evicts[0].pod.name, "a"));
    EXPECT(str_contains(plan.evicts[0].message, STR("fewer pods than its minimum")));
    sched_cycle(sched, 663000, &arena, &plan);
    EXPECT(plan.evict_count == 0); /* once */
    sched_free(sched);
    arena_done(&arena);
}

TEST(a_gang_whose_pods_give_up_their_gpus_one_after_the_other_has_lost_none)
{
    struct arena arena = {0};
    struct sched *sched = cluster(1);
    struct sched_pod a = running("a", "a", 0), b = running("b", "b", 0);
    struct sched_plan plan;

    sched_put_group(sched,
                    &(struct sched_group){
                        .ns = STR("ns"), .name = STR("g"), .queue = STR("q"), .min_member = 2});
    a.group = b.group = STR("g");
    a.suspended = true;
    a.phase = SCHED_PENDING;
    b.phase = SCHED_RELEASING;
    sched_put_pod(sched, &a);
    sched_put_pod(sched, &b);
    for (int64_t now_ms = 600000; now_ms <= 800000; now_ms += 100000) {
        sched_cycle(sched, now_ms, &arena, &plan);
        EXPECT(plan.evict_count == 0 && plan.note_count == 0);
    }
    b.deleted_ms = 800000; /* it could not: the other waits in vain */
    sched_put_pod(sched, &b);
    sched_cycle(sched, 801000, &arena, &plan);
    EXPECT(plan.evict_count == 0 && plan.note_count == 1 && plan.notes[0].note == SCHED_NOTE_STALE);
    sched_cycle(sched, 862000, &arena, &plan);
    EXPECT(plan.evict_count == 1 && str_is(plan.evicts[0].pod.name, "a"));
    sched_cycle(sched, 863000, &arena, &plan);
    EXPECT(plan.evict_count == 0 && plan.note_count == 0);
    sched_free(sched);
    arena_done(&arena);
}

/* ---- shares ---- */

static struct sched *sharing_cluster(void)
{
    struct sched *sched = cluster(2);

    sched_drop_node(sched, STR("b"));
    sched_put_node(sched, &(struct sched_node){.name = STR("a"),
                                               .cpu_milli = 64000,
                                               .memory_bytes = INT64_C(64) << 30,
                                               .gpus = 2,
                                               .gpu_memory_mib = 80000,
                                               .pods = 110});
    return sched;
}

static struct sched_pod half_of(const char *name, const struct str *device)
{
    struct sched_pod pod = pod_of(name, 0);

    pod.gpu_fraction_micro = 500000;
    if (device) {
        pod.phase = SCHED_RUNNING;
        pod.node = STR("a");
        pod.gpu_groups = device;
        pod.gpu_group_count = 1;
    }
    return pod;
}

TEST(a_suspended_share_is_freed_beside_those_of_others_and_had_back_on_the_same_device)
{
    const struct str zero = STR("0"), one = STR("1");
    struct arena arena = {0};
    struct sched *sched = sharing_cluster();
    struct sched_pod a = half_of("a", &zero), b = half_of("b", &zero), c = half_of("c", &one);
    struct sched_pod d = half_of("d", &one), next = half_of("next", NULL);

    put(sched, &a);
    put(sched, &b);
    put(sched, &c);
    put(sched, &d);
    put(sched, &next);
    EXPECT(cycle(sched, &arena).bind_count == 0);
    suspend(sched, a, true); /* b stays where it is, and the other half is anybody's */
    struct sched_plan plan = cycle(sched, &arena);
    EXPECT(plan.bind_count == 1 && !plan.binds[0].resume && plan.binds[0].devices[0] == 0);
    suspend(sched, a, false);
    next = half_of("next", &zero);
    put(sched, &next);
    sched_drop_pod(sched, STR("ns"), STR("c")); /* half of the other device is no use to it */
    plan = cycle(sched, &arena);
    EXPECT(plan.bind_count == 0 && plan.waiting_count == 1);
    EXPECT(str_starts(plan.waiting[0].message, STR("suspended on node a, where it goes on")));
    sched_drop_pod(sched, STR("ns"), STR("b"));
    plan = cycle(sched, &arena);
    EXPECT(plan.bind_count == 1 && plan.binds[0].resume && plan.binds[0].devices[0] == 0);
    suspend(sched, a, false); /* an event from before the decision */
    EXPECT(cycle(sched, &arena).bind_count == 0);
    put(sched, &a);
    EXPECT(view_of(sched, "a").idle_gpus == 0);
    sched_free(sched);
    arena_done(&arena);
}

TEST(a_suspended_share_opens_its_device_anew_where_nobody_has_it)
{
    const struct str one = STR("1");
    struct arena arena = {0};
    struct sched *sched = sharing_cluster();
    struct sched_pod a = half_of("a", &one), whole = running("whole", "a", 1);

    put(sched, &a);
    suspend(sched, a, true);
    EXPECT(view_of(sched, "a").idle_gpus == 2);
    put(sched, &whole); /* it has the device as a whole by now */
    suspend(sched, a, false);
    EXPECT(cycle(sched, &arena).bind_count == 0); /* although number 0 is free */
    sched_drop_pod(sched, STR("ns"), STR("whole"));
    struct sched_pod other = pod_of("other", 1);
    put(sched, &other);
    struct sched_plan plan = cycle(sched, &arena);
    EXPECT(plan.bind_count == 2);
    for (size_t i = 0; i < plan.bind_count; i++)
        EXPECT(plan.binds[i].devices[0] == (plan.binds[i].resume ? 1 : 0));
    sched_bind_failed(sched, &(struct sched_pod_ref){STR("ns"), STR("a"), STR("")});
    plan = cycle(sched, &arena);
    EXPECT(plan.bind_count == 1 && plan.binds[0].resume && plan.binds[0].devices[0] == 1);
    sched_free(sched);
    arena_done(&arena);
}

TEST(a_suspended_pod_is_charged_to_its_user_where_a_queue_goes_by_them)
{
    struct sched *sched = cluster(1);
    struct sched_pod a = running("a", "a", 0);
    struct sched_queue queue = {.name = STR("q"),
                                .priority = 100,
                                .preempt_min_runtime_ms = -1,
                                .reclaim_min_runtime_ms = -1,
                                .order = SCHED_ORDER_USERS};
    int64_t held[SCHED_RESOURCES];
    struct str user;

    for (int r = 0; r < SCHED_RESOURCES; r++)
        queue.quota[r] = (struct sched_quota){SCHED_UNLIMITED, SCHED_UNLIMITED, 1};
    sched_put_queue(sched, &queue);
    for (int suspended = 0; suspended < 2; suspended++) {
        size_t cursor = 0;

        if (suspended)
            suspend(sched, a, true);
        else
            put(sched, &a);
        struct err err = {0};
        EXPECT(sched_verify(sched, &err) == 0);
        EXPECT(sched_next_user(sched, STR("q"), &cursor, &user, held));
        EXPECT(held[SCHED_CPU] == 1000 && held[SCHED_MEMORY] == INT64_C(8) << 30);
        EXPECT(held[SCHED_GPU] == (suspended ? 0 : 1000));
        EXPECT(!sched_next_user(sched, STR("q"), &cursor, &user, held));
    }
    sched_free(sched);
}

/* ---- shares of devices that reservation pods hold ---- */

static struct sched *reserved_cluster(int64_t gpus)
{
    struct sched_config config;

    sched_config_default(&config);
    config.devices = SCHED_DEVICES_RESERVED;
    config.quirks = SCHED_QUIRK(TWO_POD_SLOTS); /* as the operator has it, and no mimicry */
    struct sched *sched = sched_new(&config);
    put_queue(sched, SCHED_LOSS_SUSPEND);
    sched_put_node(sched, &(struct sched_node){.name = STR("a"),
                                               .cpu_milli = 64000,
                                               .memory_bytes = INT64_C(64) << 30,
                                               .gpus = gpus,
                                               .gpu_memory_mib = 80000,
                                               .pods = 110});
    return sched;
}

static struct sched_pod movable_half(const char *name, const struct str *group)
{
    struct sched_pod pod = half_of(name, group);

    pod.movable = true;
    return pod;
}

TEST(a_device_that_a_reservation_pod_holds_stays_shared_while_a_suspended_pod_is_there)
{
    const struct str group = STR("g1");
    struct arena arena = {0};
    struct sched *sched = reserved_cluster(1);
    struct sched_pod a = movable_half("a", &group), whole = pod_of("whole", 1);
    struct sched_pod next = half_of("next", NULL), last = half_of("last", NULL);

    put(sched, &a);
    suspend(sched, a, true);
    EXPECT(view_of(sched, "a").idle_gpus == 0 && view_of(sched, "a").free_shares_milli == 1000);
    put(sched, &whole);
    EXPECT(cycle(sched, &arena).bind_count == 0); /* the device plugin would refuse it */
    sched_drop_pod(sched, STR("ns"), STR("whole"));
    put(sched, &next);
    put(sched, &last); /* to the last MiB */
    struct sched_plan plan = cycle(sched, &arena);
    EXPECT(plan.bind_count == 2);
    for (size_t i = 0; i < plan.bind_count; i++)
        EXPECT(plan.binds[i].gpu_group_count == 1 && str_is(plan.binds[i].gpu_groups[0], "g1"));
    next = half_of("next", &group);
    last = half_of("last", &group);
    put(sched, &next);
    put(sched, &last);
    suspend(sched, a, false);
    plan = cycle(sched, &arena);
    EXPECT(plan.bind_count == 0 && plan.waiting_count == 1);
    sched_drop_pod(sched, STR("ns"), STR("next"));
    plan = cycle(sched, &arena);
    EXPECT(plan.bind_count == 1 && plan.binds[0].resume);
    EXPECT(str_is(plan.binds[0].gpu_groups[0], "g1"));
    put(sched, &a);
    sched_drop_pod(sched, STR("ns"), STR("last"));
    EXPECT(view_of(sched, "a").idle_gpus == 0 && view_of(sched, "a").free_shares_milli == 500);
    suspend(sched, a, true);
    sched_drop_pod(sched, STR("ns"), STR("a"));
    EXPECT(view_of(sched, "a").idle_gpus == 1);
    sched_free(sched);
    arena_done(&arena);
}

TEST(a_share_gives_way_to_shares_by_suspension_and_to_whole_gpus_by_eviction)
{
    static const struct {
        const char *why;
        bool movable;
        bool whole;   /* who comes wants a whole GPU */
        bool suspend; /* instead of eviction */
    } rows[] = {
        {"it was prepared", true, false, true},
        {"it was not", false, false, false},
        {"its reservation pod would keep the device", true, true, false},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const struct str group = STR("g1");
        struct arena arena = {0};
        struct sched *sched = reserved_cluster(1);
        struct sched_pod a = movable_half("a", &group);
        struct sched_pod next = rows[i].whole ? pod_of("next", 1) : half_of("next", NULL);

        a.gpu_fraction_micro = 900000;
        a.movable = rows[i].movable;
        put(sched, &a);
        sched_put_group(sched, &(struct sched_group){.ns = STR("ns"),
                                                     .name = STR("next"),
                                                     .queue = STR("q"),
                                                     .min_member = 1,
                                                     .has_priority = true,
                                                     .priority = 90});
        sched_put_pod(sched, &next);
        struct sched_plan plan = cycle(sched, &arena);
        if (plan.evict_count != 1 || plan.evicts[0].suspend != rows[i].suspend)
            test_fail(__FILE__, __LINE__, rows[i].why);
        if (rows[i].suspend) { /* and then it has the room */
            suspend(sched, a, false);
            plan = cycle(sched, &arena);
            EXPECT(plan.bind_count == 1 && str_is(plan.binds[0].gpu_groups[0], "g1"));
        }
        sched_free(sched);
        arena_done(&arena);
    }
}

/* As the operator writes it on pods; a container with a limit has what it moved within that. */
TEST(a_suspended_pod_of_a_cluster_is_read_from_its_annotations_label_and_condition)
{
    static const char pod[] =
        "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"a\",\"uid\":\"a\",%s\"labels\":{"
        "\"runai-gpu-group\":\"g1\"},\"annotations\":{\"pod-group-name\":\"a\","
        "\"gpu-fraction\":\"0.5\",%s\"muster.dev/suspend\":\"hold\"}},\"spec\":{\"nodeName\":"
        "\"a\",\"containers\":[{\"name\":\"c\",\"resources\":{%s\"requests\":{\"memory\":"
        "\"8Gi\"}}}]},\"status\":{\"phase\":\"Running\",\"conditions\":[{\"type\":"
        "\"Suspended\",\"status\":\"True\",\"reason\":\"Checkpointed\",\"message\":"
        "\"1024 MiB of GPU memory are in host memory\"}]}}";
    static const char deleted[] = "\"deletionTimestamp\":\"2026-01-01T00:00:00Z\",";
    static const char may[] = "\"muster.dev/may-be-suspended\":\"true\",";
    static const char limit[] = "\"limits\":{\"memory\":\"8Gi\"},";
    static const struct {
        const char *why;
        const char *deleted;
        const char *may;
        const char *limit;
        int64_t free_milli; /* of the device, which is never free as a whole */
        int64_t idle_gib;
    } rows[] = {
        {"within its limit", "", may, limit, 1000, 56},
        {"beyond its request", "", may, "", 1000, 55},
        {"not prepared: the condition is somebody else's", "", "", limit, 500, 56},
        {"deleted: its reservation pod is still there", deleted, may, limit, 1000, 56},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct arena arena = {0};
        struct sched *sched = reserved_cluster(1);
        struct object *object = NULL;

        EXPECT(object_new(&kind_pod,
                          str_printf(&arena, pod, rows[i].deleted, rows[i].may, rows[i].limit),
                          &object, NULL) == 0);
        EXPECT(sched_observe(sched, SCHED_PUT, object, NULL) == 0);
        object_unref(object);
        struct sched_node_view view = view_of(sched, "a");
        if (view.idle_gpus != 0 || view.free_shares_milli != rows[i].free_milli ||
            view.idle_memory_bytes != rows[i].idle_gib << 30)
            test_fail(__FILE__, __LINE__, rows[i].why);
        (void)cycle(sched, &arena);
        sched_drop_pod(sched, STR("ns"), STR("a"));
        EXPECT(view_of(sched, "a").idle_gpus == 1);
        sched_free(sched);
        arena_done(&arena);
    }
}
