#include "api/kind.h"
#include "api/object.h"
#include "base/count.h"
#include "base/map.h"
#include "base/str.h"
#include "sched/names.h"
#include "sched/sched.h"
#include "sched/state.h"
#include "sched/world_test.h"
#include "test.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Shared devices as bound pods name them, where reservation pods hold them. */

static void open_reserved(struct cluster *cluster)
{
    struct sched_config config;

    sched_config_default(&config);
    config.devices = SCHED_DEVICES_RESERVED;
    cluster_open_as(cluster, &config);
    cluster_queue(cluster, "q", SCHED_UNLIMITED, SCHED_UNLIMITED);
}

static int observe(struct cluster *cluster,
                   const char *name,
                   const char *notes,
                   const char *labels,
                   const char *node)
{
    struct object *object = NULL;
    struct str text =
        str_printf(&cluster->arena,
                   "{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"namespace\":"
                   "\"ns\",\"name\":\"%s\",\"uid\":\"%s\",\"labels\":{%s},\"annotations\":{"
                   "\"pod-group-name\":\"g\",\"runai/shared-gpu-configmap\":\"c\",%s}},"
                   "\"spec\":{\"nodeName\":\"%s\",\"containers\":[{\"name\":\"c\"}]}}",
                   name, name, labels, notes, node);

    EXPECT(object_new(&kind_pod, text, &object, NULL) == 0);
    int r = sched_observe(cluster->sched, SCHED_PUT, object, NULL);
    object_unref(object);
    return r;
}

static void observe_share(struct cluster *cluster,
                          const char *name,
                          const char *notes,
                          const char *labels,
                          const char *node)
{
    EXPECT(observe(cluster, name, notes, labels, node) == 0);
}

TEST(every_group_of_a_pod_with_shares_of_several_devices_is_known_again)
{
    struct cluster c;

    open_reserved(&c);
    cluster_node(&c, "a", 2);
    cluster_put(&c, &(struct job){.name = "g", .pods = 1, .priority = 50});
    observe_share(&c, "both", "\"gpu-fraction\":\"0.3\",\"gpu-fraction-num-devices\":\"2\"",
                  "\"runai-gpu-group/one\":\"one\",\"runai-gpu-group/two\":\"two\"", "a");
    observe_share(&c, "first", "\"gpu-fraction\":\"0.6\"", "", "");
    observe_share(&c, "second", "\"gpu-fraction\":\"0.6\"", "", "");
    cluster_decide(&c, 1000);
    for (size_t i = 0; i < c.plan.bind_count; i++) {
        const struct sched_bind *bind = &c.plan.binds[i];

        if (bind->gpu_group_count)
            EXPECT(str_is(bind->gpu_groups[0], "one") || str_is(bind->gpu_groups[0], "two"));
    }
    EXPECT(cluster_bound(&c, "first") && cluster_bound(&c, "second"));
    cluster_close(&c);
}

static bool bound_to(const struct cluster *cluster, const char *pod, const char *node)
{
    const struct sched_bind *bind = cluster_bind(cluster, pod);

    return bind && str_is(bind->node, node);
}

static void put_half(struct cluster *cluster, const char *name)
{
    observe_share(cluster, name, "\"gpu-fraction\":\"0.5\"", "", "");
}

/* The reservation pod of a shared device failed on the node. */
static void fail_on(struct cluster *cluster, const char *pod, const char *node)
{
    sched_share_opened(cluster->sched, str_from(node), true, cluster->now);
    sched_bind_failed(cluster->sched, &(struct sched_pod_ref){STR("ns"), str_from(pod), STR("")});
    sched_written(cluster->sched, STR("ns"), STR("g"), true, cluster->now);
}

static struct str advice(struct cluster *cluster)
{
    struct sched_explanation why = {0};

    (void)sched_explain(cluster->sched, STR("ns"), STR("g"), &cluster->arena, &why);
    return why.change;
}

TEST(a_device_that_a_node_fails_to_give_for_sharing_is_sought_elsewhere)
{
    struct cluster c;

    open_reserved(&c);
    cluster_node(&c, "a", 1); /* the smaller one is filled first */
    cluster_node(&c, "b", 2);
    cluster_put(&c, &(struct job){.name = "g", .pods = 1, .priority = 50});
    cluster_put(&c, &(struct job){.name = "whole", .pods = 1, .gpus = 1, .priority = 50});
    cluster_drop(&c, "whole-0");
    put_half(&c, "first");
    cluster_decide(&c, 1000);
    EXPECT(bound_to(&c, "first", "a"));
    fail_on(&c, "first", "a");
    cluster_decide(&c, SCHED_RETRY_MIN_MS - 1);
    EXPECT(str_is(advice(&c), "nothing: it is tried again in a moment"));
    cluster_decide(&c, 1);
    EXPECT(bound_to(&c, "first", "b"));
    fail_on(&c, "first", "b");
    cluster_decide(&c, 2 * SCHED_RETRY_MIN_MS);
    EXPECT(!c.plan.bind_count);
    EXPECT(cluster_waiting(&c, "g") && cluster_waiting(&c, "g")->reason == SCHED_REASON_NO_NODE);
    EXPECT(str_starts(advice(&c), STR("check why reservation pods fail on that node")));
    EXPECT(c.plan.next_wake_ms && c.plan.next_wake_ms < c.now + SCHED_SHUT_MIN_MS);
    int64_t open_ms = c.plan.next_wake_ms;
    cluster_put(&c, &(struct job){.name = "whole", .pods = 1, .gpus = 1, .priority = 50});
    cluster_decide(&c, open_ms - 1 - c.now);
    EXPECT(c.plan.bind_count == 1 && bound_to(&c, "whole-0", "a")); /* other work goes there */
    cluster_decide(&c, SCHED_SHUT_MIN_MS);
    EXPECT(bound_to(&c, "first", "b"));
    /* The second time it is shut for longer; what is shared there already is used. */
    sched_share_opened(c.sched, STR("b"), true, c.now);
    put_half(&c, "second");
    put_half(&c, "third");
    cluster_decide(&c, 2 * SCHED_SHUT_MIN_MS - 1);
    EXPECT(bound_to(&c, "second", "b") && !cluster_bound(&c, "third"));
    cluster_decide(&c, 2);
    EXPECT(bound_to(&c, "third", "b"));
    cluster_close(&c);
}

/* The name of the device that the plan gives a pod. */
static struct str group_of(const struct cluster *cluster, const char *pod)
{
    const struct sched_bind *bind = cluster_bind(cluster, pod);

    return bind ? bind->gpu_groups[0] : STR_NONE;
}

TEST(a_device_that_a_pod_was_to_have_keeps_its_name_for_those_who_got_it)
{
    static const char *const pods[] = {"p", "q", "r"};
    struct cluster c;

    open_reserved(&c);
    cluster_node(&c, "a", 2);
    cluster_put(&c, &(struct job){.name = "g", .pods = 3, .priority = 50});
    for (size_t i = 0; i < 3; i++)
        put_half(&c, pods[i]);
    cluster_decide(&c, 1000);
    EXPECT(c.plan.bind_count >= 3);
    struct str second = str_eq(group_of(&c, "p"), group_of(&c, "q"))   ? group_of(&c, "r")
                        : str_eq(group_of(&c, "p"), group_of(&c, "r")) ? group_of(&c, "q")
                                                                       : group_of(&c, "p");
    const char *label = str_c(
        &c.arena, str_printf(&c.arena, "\"runai-gpu-group\":\"" STR_FMT "\"", STR_ARG(second)));
    /* Another pod is on the second device; the gang could not be bound. */
    observe_share(&c, "joined", "\"gpu-fraction\":\"0.49\"", label, "a");
    for (size_t i = 0; i < 3; i++)
        sched_bind_failed(c.sched, &(struct sched_pod_ref){STR("ns"), str_from(pods[i]), STR("")});
    observe_share(&c, "joined", "\"gpu-fraction\":\"0.49\"", label, "a");
    cluster_decide(&c, 1000);
    size_t beside = 0;
    for (size_t i = 0; i < 3; i++)
        beside += str_eq(group_of(&c, pods[i]), second);
    EXPECT(beside == 1);
    cluster_close(&c);
}

static void open_numbered(struct cluster *cluster)
{
    struct sched_config config;

    sched_config_default(&config);
    config.devices = SCHED_DEVICES_NUMBERED;
    cluster_open_as(cluster, &config);
    cluster_queue(cluster, "q", SCHED_UNLIMITED, SCHED_UNLIMITED);
}

/* The number of the one device that the plan gives a pod; -1: it gives it none, or several. */
static int64_t device_of(const struct cluster *cluster, const char *pod)
{
    const struct sched_bind *bind = cluster_bind(cluster, pod);

    return bind && bind->device_count == 1 ? (int64_t)bind->devices[0] : -1;
}

TEST(a_device_that_a_pod_was_to_share_may_be_a_whole_ones_by_the_next_time)
{
    struct cluster c;

    open_numbered(&c);
    cluster_node(&c, "a", 2);
    cluster_put(&c, &(struct job){.name = "g", .pods = 1, .priority = 50});
    put_half(&c, "first");
    cluster_decide(&c, 1000);
    EXPECT(device_of(&c, "first") == 0);
    /* The bind was refused, and is tried again later. Other work takes the device. */
    sched_bind_failed(c.sched, &(struct sched_pod_ref){STR("ns"), STR("first"), STR("")});
    sched_written(c.sched, STR("ns"), STR("g"), true, c.now);
    cluster_put(&c, &(struct job){.name = "whole", .pods = 1, .gpus = 1, .priority = 50});
    cluster_decide(&c, 1);
    EXPECT(device_of(&c, "whole-0") == 0 && !cluster_bound(&c, "first"));
    cluster_decide(&c, SCHED_RETRY_MIN_MS);
    EXPECT(device_of(&c, "first") == 1);
    cluster_close(&c);
}

/* Shares of two devices: of those that are used already, or of any. */
static void put_pair(struct cluster *cluster, const char *name, int64_t micro, bool runs)
{
    static const struct str devices[] = {STR("d"), STR("e")};

    cluster_put(cluster, &(struct job){.name = name, .pods = 1, .priority = runs ? 50 : 75});
    cluster_drop(cluster, str_c(&cluster->arena, str_printf(&cluster->arena, "%s-0", name)));
    sched_put_pod(cluster->sched, &(struct sched_pod){.ns = STR("ns"),
                                                      .name = str_from(name),
                                                      .uid = str_from(name),
                                                      .group = str_from(name),
                                                      .phase = runs ? SCHED_RUNNING : SCHED_PENDING,
                                                      .node = runs ? STR("a") : STR_NONE,
                                                      .gpu_fraction_micro = micro,
                                                      .gpu_devices = 2,
                                                      .gpu_groups = runs ? devices : NULL,
                                                      .gpu_group_count = runs ? 2 : 0});
}

/* Each of them found the other's promise where it was to go, and took that for somebody who is still
 * there. */
TEST(two_who_were_promised_shares_of_the_same_devices_do_not_wait_for_each_other)
{
    struct cluster c;

    open_reserved(&c);
    cluster_node(&c, "a", 2);
    put_pair(&c, "low", 500000, true);
    put_pair(&c, "lower", 450000, true);
    put_pair(&c, "one", 160000, false);
    cluster_decide(&c, 1000);
    EXPECT(c.plan.evict_count == 1 && cluster_promised(&c, "one"));
    put_pair(&c, "other", 550000, false);
    cluster_decide(&c, 1000);
    EXPECT(c.plan.evict_count == 1 && cluster_promised(&c, "other"));
    cluster_drop(&c, "low");
    cluster_drop(&c, "lower");
    cluster_decide(&c, 1000);
    EXPECT(bound_to(&c, "one", "a") && bound_to(&c, "other", "a"));
    EXPECT(str_eq(group_of(&c, "one"), group_of(&c, "other")));
    cluster_close(&c);
}

/* One device is free, and a share of it and another device are asked for. */
TEST(a_promised_device_that_becomes_free_is_counted_once)
{
    struct cluster c;

    open_reserved(&c);
    cluster_node(&c, "a", 2);
    cluster_put(&c, &(struct job){.name = "low", .gpus = 1, .priority = 50, .node = "a"});
    cluster_put(&c, &(struct job){.name = "lower", .gpus = 1, .priority = 50, .node = "a"});
    put_pair(&c, "one", 160000, false);
    cluster_decide(&c, 1000);
    EXPECT(cluster_promised(&c, "one"));
    put_pair(&c, "other", 550000, false);
    cluster_decide(&c, 1000);
    cluster_drop(&c, "low-0");
    cluster_decide(&c, 1000);
    EXPECT(!cluster_bound(&c, "one") && !cluster_bound(&c, "other"));
    cluster_drop(&c, "lower-0");
    cluster_decide(&c, 1000);
    EXPECT(bound_to(&c, "one", "a") && bound_to(&c, "other", "a"));
    cluster_close(&c);
}

TEST(a_share_that_cannot_be_given_says_what_stands_in_the_way)
{
    static const struct {
        const char *why;
        const char *notes;
        const char *said;
        enum sched_devices devices;
    } rows[] = {
        {"no shares here", "\"gpu-fraction\":\"0.5\"", "GPU sharing is off on this cluster",
         SCHED_DEVICES_WHOLE},
        {"of memory neither", "\"gpu-memory\":\"100\"", "GPU sharing is off on this cluster",
         SCHED_DEVICES_WHOLE},
        {"what is wrong anywhere", "\"gpu-fraction\":\"0.5\",\"gpu-memory\":\"100\"",
         "gpu-fraction, gpu-memory and whole GPUs exclude each other", SCHED_DEVICES_NUMBERED},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct sched_config config;
        struct cluster c;

        test_case(rows[i].why);
        sched_config_default(&config);
        config.devices = rows[i].devices;
        cluster_open_as(&c, &config);
        cluster_queue(&c, "q", SCHED_UNLIMITED, SCHED_UNLIMITED);
        cluster_node(&c, "a", 2);
        cluster_put(&c, &(struct job){.name = "g", .pods = 1, .priority = 50});
        cluster_drop(&c, "g-0");
        EXPECT(observe(&c, "p", rows[i].notes, "", "") == -EINVAL);
        cluster_decide(&c, 1000);
        const struct sched_waiting *waiting = cluster_waiting(&c, "g");
        EXPECT(!cluster_bound(&c, "p"));
        EXPECT(waiting && strstr(str_c(&c.arena, waiting->message), rows[i].said));
        cluster_close(&c);
    }
}

TEST(the_name_of_a_shared_device_is_forgotten_with_the_last_who_shared_it)
{
    struct cluster c;

    open_reserved(&c);
    cluster_node(&c, "a", 1);
    cluster_put(&c, &(struct job){.name = "g", .pods = 1, .priority = 50});
    observe_share(&c, "one", "\"gpu-fraction\":\"0.5\"", "\"runai-gpu-group\":\"device\"", "a");
    observe_share(&c, "two", "\"gpu-fraction\":\"0.5\"", "\"runai-gpu-group\":\"device\"", "a");
    cluster_drop(&c, "one");
    cluster_decide(&c, 1000);
    EXPECT(map_get(&c.sched->names, STR("device")));
    cluster_drop(&c, "two");
    names_swept(c.sched);
    EXPECT(!map_get(&c.sched->names, STR("device")));
    cluster_close(&c);
}
