#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/count.h"
#include "base/err.h"
#include "base/str.h"
#include "sched/decode_test.h"
#include "sched/resource.h"
#include "sched/sched.h"
#include "sched/spec.h"
#include "sched/state.h"
#include "sched/world_test.h"
#include "test.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Whoever may create pods writes what they like: the core goes on for everybody else. */

static void limits_open(struct cluster *c)
{
    cluster_open(c, SCHED_QUIRKS_NONE);
    cluster_queue(c, "q", SCHED_UNLIMITED, SCHED_UNLIMITED);
    cluster_node(c, "a", 8);
}

static void others_go_on(struct cluster *c)
{
    cluster_put(c, &(struct job){.name = "next", .gpus = 1});
    cluster_decide(c, 1000);
    EXPECT(cluster_bound(c, "next-0"));
}

TEST(a_pod_that_names_a_group_or_a_claim_that_cannot_exist_is_said_to)
{
    static const struct {
        const char *metadata;
        const char *spec;
        const char *words;
    } rows[] = {
        {"'annotations':{'pod-group-name':'%s'}", "",
         "annotation pod-group-name: no pod group has a name of 2000 bytes"},
        {"'annotations':{'pod-group-name':'g'}",
         "'resourceClaims':[{'name':'c','resourceClaimName':"
         "'%s'}]",
         "spec.resourceClaims: no claim has a name of 2000 bytes"},
        {"'annotations':{'pod-group-name':'g'}", "'resourceClaims':[{'name':'%s'}]",
         "spec.resourceClaims: no claim has a name of 2002 bytes"},
    };
    char name[2001];

    memset(name, 'n', sizeof(name) - 1);
    name[2000] = 0;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct err err = {0};
        struct cluster c;

        test_case(rows[i].words);
        limits_open(&c);
        struct str form = str_printf(&c.arena,
                                     "{'metadata':{'namespace':'ns','name':'p',%s},"
                                     "'spec':{%s}}",
                                     rows[i].metadata, rows[i].spec);
        size_t at = 0;
        while (at < form.len && form.p[at] != '%')
            at++;
        struct str text = str_printf(&c.arena, STR_FMT "%s" STR_FMT, STR_ARG(str_sub(form, 0, at)),
                                     name, STR_ARG(str_sub(form, at + 2, form.len)));
        struct object *object = object_quoted(&c.arena, &kind_pod, str_c(&c.arena, text));
        EXPECT(sched_observe(c.sched, SCHED_PUT, object, &err) == -EINVAL);
        EXPECT(str_contains(str_from(err.text), str_from(rows[i].words)));
        others_go_on(&c);
        EXPECT(!cluster_bound(&c, "p"));
        object_unref(object);
        cluster_close(&c);
    }
}

static void ask(struct cluster *c, const char *pod, const char *resource)
{
    const struct sched_amount amount = {str_from(resource), 1};

    cluster_put(c, &(struct job){.name = pod});
    cluster_drop(c, str_c(&c->arena, str_printf(&c->arena, "%s-0", pod)));
    sched_put_pod(c->sched, &(struct sched_pod){.ns = STR("ns"),
                                                .name = str_from(pod),
                                                .group = str_from(pod),
                                                .amounts = &amount,
                                                .amount_count = 1});
}

static void offer(struct cluster *c, const char *node, const char *resource)
{
    const struct sched_amount amount = {str_from(resource), 4};

    sched_put_node(c->sched, &(struct sched_node){.name = str_from(node),
                                                  .cpu_milli = 1000,
                                                  .pods = 110,
                                                  .amounts = &amount,
                                                  .amount_count = 1});
}

TEST(pods_that_ask_for_ever_new_resources_wait_and_leave_room_for_those_that_nodes_have)
{
    struct cluster c;

    limits_open(&c);
    for (int i = 0; i < 2 * RES_MAX; i++) {
        const char *name = str_c(&c.arena, str_printf(&c.arena, "r%d", i));

        ask(&c, name, name);
    }
    others_go_on(&c);
    EXPECT(cluster_waiting(&c, "r0") && cluster_waiting(&c, "r500"));
    EXPECT(cluster_waiting(&c, "r500")->reason == SCHED_REASON_TOO_BIG);
    offer(&c, "b", "example.com/new");
    ask(&c, "late", "example.com/new");
    cluster_decide(&c, 1000);
    EXPECT(cluster_bound(&c, "late"));
    /* Nodes cannot name more than there are numbers for either. */
    for (int i = 0; i < 2 * RES_MAX; i++)
        offer(&c, "b", str_c(&c.arena, str_printf(&c.arena, "example.com/n%d", i)));
    EXPECT(c.sched->resources.count <= RES_MAX);
    cluster_put(&c, &(struct job){.name = "last", .gpus = 1});
    cluster_decide(&c, 1000);
    EXPECT(cluster_bound(&c, "last-0"));
    cluster_close(&c);
}

/* Pods can be made with their node, and each with a device of its own. */
TEST(more_shared_devices_than_a_node_can_have_are_not_counted)
{
    struct sched_node_view view;
    struct cluster c;

    limits_open(&c);
    for (int i = 0; i < 20; i++)
        sched_put_pod(c.sched, &(struct sched_pod){.ns = STR("ns"),
                                                   .name = str_printf(&c.arena, "p%d", i),
                                                   .gpu_fraction_micro = 100000,
                                                   .gpu_devices = 16,
                                                   .phase = SCHED_BOUND,
                                                   .node = STR("a")});
    EXPECT(sched_node_view(c.sched, STR("a"), &view) && view.shared_gpus == 255);
    cluster_node(&c, "b", 1);
    cluster_put(&c, &(struct job){.name = "next", .gpus = 1});
    cluster_decide(&c, 1000);
    EXPECT(cluster_bound(&c, "next-0"));
    for (int i = 0; i < 20; i++)
        cluster_drop(&c, str_c(&c.arena, str_printf(&c.arena, "p%d", i)));
    cluster_decide(&c, 1000);
    EXPECT(sched_node_view(c.sched, STR("a"), &view) && view.idle_gpus == 8);
    cluster_close(&c);
}

/* Time slices are counted as devices: a node may have more of them than can be shared at once. */
TEST(no_more_devices_are_opened_for_sharing_than_can_be_told_apart)
{
    struct cluster c;

    cluster_open(&c, SCHED_QUIRKS_NONE);
    cluster_queue(&c, "q", SCHED_UNLIMITED, SCHED_UNLIMITED);
    sched_put_node(c.sched, &(struct sched_node){.name = STR("a"),
                                                 .cpu_milli = 64000,
                                                 .gpus = 400,
                                                 .gpu_memory_mib = 1000,
                                                 .pods = 1000});
    cluster_put(&c, &(struct job){.name = "g", .min = 1});
    cluster_drop(&c, "g-0");
    for (int i = 0; i < 300; i++)
        sched_put_pod(c.sched, &(struct sched_pod){.ns = STR("ns"),
                                                   .name = str_printf(&c.arena, "p%03d", i),
                                                   .group = STR("g"),
                                                   .gpu_fraction_micro = 900000,
                                                   .gpu_devices = 1});
    cluster_decide(&c, 1000);
    EXPECT(c.plan.bind_count == 255 && cluster_waiting(&c, "g"));
    cluster_close(&c);
}

/* In sums of what pods ask for, and of what queues hold, nothing may overflow. */
TEST(a_pod_that_asks_for_more_than_can_be_is_larger_than_any_node)
{
    static const char *const containers[] = {
        "{'resources':{'requests':{'memory':'5Ei'}}},{'resources':{'requests':{'memory':'5Ei'}}}",
        "{'resources':{'limits':{'nvidia.com/gpu':'9223372036854775807'}}}",
        "{'resources':{'limits':{'nvidia.com/gpu':'18446744073709552'}}}",
        "{'resources':{'requests':{'cpu':'9000000000000000'}}},{'resources':{'requests':{'cpu':"
        "'9000000000000000'}}}",
        "{'resources':{'requests':{'nvidia.com/mig-1g.5gb':'9223372036854775807'}}}",
        "{'resources':{'requests':{'example.com/x':'9223372036854775807'}}},{'resources':{"
        "'requests':{'example.com/x':'9223372036854775807'}}}",
        "{}],'overhead':{'memory':'7Ei','cpu':'9000000000000000'},'unused':[", /* of the spec */
        "{}]},'status':{'a':[", /* with annotations of its own, see below */
    };

    for (size_t i = 0; i < COUNT_OF(containers); i++) {
        struct sched_queue_view view;
        struct cluster c;

        test_case(containers[i]);
        limits_open(&c);
        offer(&c, "b", "example.com/x");
        sched_put_node(c.sched, &(struct sched_node){.name = STR("a"),
                                                     .cpu_milli = 64000,
                                                     .memory_bytes = INT64_C(1) << 38,
                                                     .gpus = 8,
                                                     .gpu_memory_mib = 1000,
                                                     .pods = 110});
        cluster_put(&c, &(struct job){.name = "g", .min = 1});
        cluster_drop(&c, "g-0");
        for (int k = 0; k < 3; k++) {
            struct str text = str_printf(
                &c.arena,
                "{'metadata':{'namespace':'ns','name':'p%d','annotations':{%s'pod-group-"
                "name':'g'}},'spec':{'containers':[%s]}}",
                k, i + 1 == COUNT_OF(containers) ? "'gpu-memory':'9223372036854775807'," : "",
                containers[i]);
            struct object *object = object_quoted(&c.arena, &kind_pod, str_c(&c.arena, text));

            (void)sched_observe(c.sched, SCHED_PUT, object, NULL);
            object_unref(object);
        }
        cluster_decide(&c, 1000);
        EXPECT(!c.plan.bind_count && cluster_waiting(&c, "g"));
        EXPECT(sched_queue_view(c.sched, STR("q"), &view));
        for (int r = 0; r < SCHED_RESOURCES; r++)
            EXPECT(view.requested[r] >= 0);
        others_go_on(&c);
        cluster_close(&c);
    }
}

/* PodGroups can be written by whoever may: what makes no sense starts as little as it can. */
TEST(subgroups_that_make_no_sense_hang_below_their_group)
{
    static const struct {
        const char *why;
        struct sched_subgroup subgroups[3];
        int64_t min_subgroup;
        bool starts; /* with one pod in each of the three */
    } rows[] = {
        {"in a circle",
         {{.name = STR("a"), .parent = STR("b"), .min_member = 1},
          {.name = STR("b"), .parent = STR("c"), .min_member = 1},
          {.name = STR("c"), .parent = STR("a"), .min_member = 1}},
         0,
         false},
        {"below itself, and below nobody",
         {{.name = STR("a"), .parent = STR("a"), .min_member = 1},
          {.name = STR("b"), .parent = STR("x"), .min_member = 1},
          {.name = STR("c"), .min_member = 1}},
         0,
         true},
        {"more than there are",
         {{.name = STR("a"), .min_member = 1},
          {.name = STR("b"), .min_member = 1},
          {.name = STR("c"), .min_member = 1}},
         INT64_MAX,
         true},
        {"fewer than none",
         {{.name = STR("a"), .min_member = INT64_MIN},
          {.name = STR("b"), .min_member = -1},
          {.name = STR("c"), .min_member = 0}},
         0,
         true},
        {"all that there are",
         {{.name = STR("a"), .min_member = INT64_MAX},
          {.name = STR("b"), .min_member = 1},
          {.name = STR("c"), .min_member = 1}},
         0,
         false},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        static const struct str names[] = {{"a", 1}, {"b", 1}, {"c", 1}};
        struct cluster c;

        test_case(rows[i].why);
        limits_open(&c);
        sched_put_group(c.sched, &(struct sched_group){.ns = STR("ns"),
                                                       .name = STR("g"),
                                                       .queue = STR("q"),
                                                       .subgroups = rows[i].subgroups,
                                                       .subgroup_count = 3,
                                                       .min_subgroup = rows[i].min_subgroup});
        for (size_t k = 0; k < COUNT_OF(names); k++)
            sched_put_pod(c.sched, &(struct sched_pod){.ns = STR("ns"),
                                                       .name = names[k],
                                                       .group = STR("g"),
                                                       .subgroup = names[k],
                                                       .gpus = 1});
        cluster_decide(&c, 1000);
        EXPECT((c.plan.bind_count == 3) == rows[i].starts);
        others_go_on(&c);
        cluster_close(&c);
    }
}

/* Or the time that a group is expected to run, taken four times, would be before all others. */
TEST(nobody_is_first_in_line_by_a_time_without_end)
{
    static const char *const times[] = {"2305843009213693952ms", "2562047788015h"};

    for (size_t i = 0; i < COUNT_OF(times); i++) {
        struct sched_queue queue = {.name = STR("line"), .order = SCHED_ORDER_EXPECTED};
        struct cluster c;

        test_case(times[i]);
        limits_open(&c);
        for (int r = 0; r < SCHED_RESOURCES; r++)
            queue.quota[r] = (struct sched_quota){SCHED_UNLIMITED, SCHED_UNLIMITED, 1};
        sched_put_queue(c.sched, &queue);
        struct str text =
            str_printf(&c.arena,
                       "{'metadata':{'namespace':'ns','name':'late','creationTimestamp':'2027-01-"
                       "15T08:00:00Z','annotations':{'muster.dev/expected-run-time':'%s'}},"
                       "'spec':{'queue':'line','minMember':1,'preemptionDelay':'%s',"
                       "'maxRunTime':'%s','stalenessGracePeriod':'%s'}}",
                       times[i], times[i], times[i], times[i]);
        struct object *object = object_quoted(&c.arena, &kind_podgroup, str_c(&c.arena, text));
        (void)sched_observe(c.sched, SCHED_PUT, object, NULL);
        object_unref(object);
        sched_put_pod(c.sched,
                      &(struct sched_pod){
                          .ns = STR("ns"), .name = STR("late-0"), .group = STR("late"), .gpus = 8});
        cluster_put(&c, &(struct job){.name = "first", .queue = "line", .gpus = 8, .priority = 50});
        cluster_decide(&c, 1000);
        EXPECT(cluster_bound(&c, "first-0") && !cluster_bound(&c, "late-0"));
        cluster_close(&c);
    }
}
