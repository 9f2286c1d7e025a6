#include "base/arena.h"
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

/* Claims of devices that drivers publish. */

static struct json *parse(struct cluster *c, const char *text)
{
    struct json *tree = NULL;

    EXPECT(json_parse(&c->arena, str_from(text), &tree, NULL) == 0);
    return tree;
}

static void put_class(struct cluster *c, const char *name, const char *spec)
{
    sched_put_device_class(
        c->sched, &(struct sched_device_class){.name = str_from(name), .spec = parse(c, spec)});
}

/* A node without a device plugin, with that many GPUs; every two of them share a root. */
static void put_gpus(struct cluster *c, const char *node, int count)
{
    struct str devices = STR("");

    cluster_node(c, node, 0);
    for (int i = 0; i < count; i++)
        devices = str_printf(&c->arena,
                             STR_FMT "%s{\"name\":\"gpu-%d\",\"attributes\":{\"type\":{\"string\":"
                                     "\"gpu\"},\"index\":{\"int\":%d},\"r.io/root\":{\"int\":%d}}}",
                             STR_ARG(devices), i ? "," : "", i, i, i / 2);
    struct str spec = str_printf(&c->arena,
                                 "{\"driver\":\"gpu.nvidia.com\",\"nodeName\":\"%s\",\"pool\":{"
                                 "\"name\":\"%s\",\"generation\":1,\"resourceSliceCount\":1},"
                                 "\"devices\":[" STR_FMT "]}",
                                 node, node, STR_ARG(devices));
    sched_put_slice(c->sched, &(struct sched_slice){.name = str_from(node),
                                                    .spec = parse(c, str_c(&c->arena, spec))});
}

static void put_claim_of(struct cluster *c,
                         const char *name,
                         const char *devices,
                         const char *allocation)
{
    sched_put_claim(c->sched,
                    &(struct sched_claim){.ns = STR("ns"),
                                          .name = str_from(name),
                                          .queue = STR("q"),
                                          .devices = parse(c, devices),
                                          .allocation = allocation ? parse(c, allocation) : NULL});
}

#define ONE(more)                                                                                  \
    "{\"requests\":[{\"name\":\"r\",\"exactly\":{\"deviceClassName\":\"gpu.nvidia.com\"" more "}}" \
    "]}"
#define CEL(text) ",\"selectors\":[{\"cel\":{\"expression\":\"" text "\"}}]"
#define GPU_CLASS                                                                      \
    "{\"selectors\":[{\"cel\":{\"expression\":\"device.driver == 'gpu.nvidia.com' && " \
    "device.attributes['gpu.nvidia.com'].type == 'gpu'\"}}]}"

static void open_gpus(struct cluster *c)
{
    cluster_open(c, SCHED_QUIRKS_NONE);
    cluster_queue(c, "q", SCHED_UNLIMITED, 8);
    put_class(c, "gpu.nvidia.com", GPU_CLASS);
}

/* The devices of the claim in the bind of the pod, "r=gpu-0 r=gpu-1@node"; "": it is not bound. */
static struct str bound_devices(struct cluster *c, const char *pod)
{
    struct str text = STR("");

    for (size_t i = 0; i < c->plan.bind_count; i++) {
        const struct sched_bind *bind = &c->plan.binds[i];

        if (!str_is(bind->pod.name, pod))
            continue;
        for (size_t k = 0; bind->more && k < bind->more->claim_count; k++)
            for (size_t d = 0; d < bind->more->claims[k].device_count; d++)
                text = str_printf(&c->arena, STR_FMT STR_FMT "=" STR_FMT " ", STR_ARG(text),
                                  STR_ARG(bind->more->claims[k].devices[d].request),
                                  STR_ARG(bind->more->claims[k].devices[d].device));
        return str_printf(&c->arena, STR_FMT "@" STR_FMT, STR_ARG(text), STR_ARG(bind->node));
    }
    return text;
}

TEST(a_claim_is_given_the_devices_that_it_means)
{
    static const struct {
        const char *why;
        const char *devices;
        const char *given; /* "": the pod waits */
    } rows[] = {
        {"one", ONE(""), "r=gpu-0 @a"},
        {"three", ONE(",\"count\":3"), "r=gpu-0 r=gpu-1 r=gpu-2 @a"},
        {"more than there are", ONE(",\"count\":5"), ""},
        {"all", ONE(",\"allocationMode\":\"All\""), "r=gpu-0 r=gpu-1 r=gpu-2 r=gpu-3 @a"},
        {"a certain one", ONE(CEL("device.attributes['gpu.nvidia.com'].index == 2")), "r=gpu-2 @a"},
        {"none such", ONE(CEL("device.attributes['gpu.nvidia.com'].index == 9")), ""},
        {"an attribute that none has", ONE(CEL("device.attributes['gpu.nvidia.com'].mood == 1")),
         ""},
        {"two requests",
         "{\"requests\":[{\"name\":\"x\",\"exactly\":{\"deviceClassName\":\"gpu.nvidia.com\"}},"
         "{\"name\":\"y\",\"exactly\":{\"deviceClassName\":\"gpu.nvidia.com\",\"count\":2}}]}",
         "x=gpu-0 y=gpu-1 y=gpu-2 @a"},
        {"two of one root, behind one of it",
         "{\"requests\":[{\"name\":\"x\",\"exactly\":{\"deviceClassName\":\"gpu.nvidia.com\"}},"
         "{\"name\":\"y\",\"exactly\":{\"deviceClassName\":\"gpu.nvidia.com\",\"count\":2}}],"
         "\"constraints\":[{\"requests\":[\"y\"],\"matchAttribute\":\"r.io/root\"}]}",
         "x=gpu-0 y=gpu-2 y=gpu-3 @a"},
        {"two of two roots",
         "{\"requests\":[{\"name\":\"x\",\"exactly\":{\"deviceClassName\":\"gpu.nvidia.com\","
         "\"count\":2}}],\"constraints\":[{\"distinctAttribute\":\"r.io/root\"}]}",
         "x=gpu-0 x=gpu-2 @a"},
        {"the second choice",
         "{\"requests\":[{\"name\":\"x\",\"firstAvailable\":[{\"name\":\"many\","
         "\"deviceClassName\":\"gpu.nvidia.com\",\"count\":9},{\"name\":\"few\","
         "\"deviceClassName\":"
         "\"gpu.nvidia.com\",\"count\":1}]}]}",
         "x/few=gpu-0 @a"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct cluster c;

        test_case(rows[i].why);
        open_gpus(&c);
        put_gpus(&c, "a", 4);
        put_claim_of(&c, "c", rows[i].devices, NULL);
        cluster_put(&c, &(struct job){.name = "j", .claim = "c"});
        cluster_decide(&c, 1000);
        EXPECT(str_is(bound_devices(&c, "j-0"), rows[i].given));
        cluster_close(&c);
    }
}

TEST(devices_are_given_once_and_the_second_claim_waits)
{
    struct cluster c;

    open_gpus(&c);
    put_gpus(&c, "a", 3);
    put_claim_of(&c, "c1", ONE(",\"count\":2"), NULL);
    put_claim_of(&c, "c2", ONE(",\"count\":2"), NULL);
    cluster_put(&c, &(struct job){.name = "one", .claim = "c1"});
    cluster_put(&c, &(struct job){.name = "two", .claim = "c2"});
    cluster_decide(&c, 1000);
    EXPECT(str_is(bound_devices(&c, "one-0"), "r=gpu-0 r=gpu-1 @a"));
    EXPECT(!cluster_bound(&c, "two-0"));
    EXPECT(cluster_used(&c, "q") > 1.9 && cluster_used(&c, "q") < 2.1);
    /* The written allocation comes back, and the pod ends. */
    put_claim_of(
        &c, "c1", ONE(",\"count\":2"),
        "{\"devices\":{\"results\":[{\"request\":\"r\",\"driver\":\"gpu.nvidia.com\",\"pool\":"
        "\"a\",\"device\":\"gpu-0\"},{\"request\":\"r\",\"driver\":\"gpu.nvidia.com\","
        "\"pool\":\"a\",\"device\":\"gpu-1\"}]}}");
    cluster_decide(&c, 1000);
    EXPECT(!cluster_bound(&c, "two-0"));
    cluster_drop(&c, "one-0");
    cluster_decide(&c, 1000);
    EXPECT(!cluster_bound(&c, "two-0")); /* nobody uses them, and nobody took them back yet */
    put_claim_of(&c, "c1", ONE(",\"count\":2"), NULL);
    cluster_decide(&c, 1000);
    EXPECT(str_is(bound_devices(&c, "two-0"), "r=gpu-0 r=gpu-1 @a"));
    cluster_close(&c);
}

TEST(a_gang_that_shares_a_claim_goes_where_its_devices_are)
{
    struct cluster c;

    open_gpus(&c);
    put_gpus(&c, "a", 1);
    put_gpus(&c, "b", 2);
    put_claim_of(&c, "c", ONE(",\"count\":2"), NULL);
    cluster_put(&c, &(struct job){.name = "j", .pods = 3, .claim = "c"});
    cluster_decide(&c, 1000);
    for (int i = 0; i < 3; i++) {
        const char *const pods[] = {"j-0", "j-1", "j-2"};

        EXPECT(str_is(bound_devices(&c, pods[i]), "r=gpu-0 r=gpu-1 @b"));
    }
    EXPECT(cluster_used(&c, "q") > 1.9 && cluster_used(&c, "q") < 2.1); /* once, not three times */
    cluster_close(&c);
}

TEST(an_allocated_claim_keeps_its_pod_on_the_nodes_that_it_names)
{
    struct cluster c;

    open_gpus(&c);
    put_gpus(&c, "a", 2);
    put_gpus(&c, "b", 2);
    put_claim_of(
        &c, "c", ONE(""),
        "{\"devices\":{\"results\":[{\"request\":\"r\",\"driver\":\"gpu.nvidia.com\",\"pool\":"
        "\"b\",\"device\":\"gpu-1\"}]},\"nodeSelector\":{\"nodeSelectorTerms\":[{"
        "\"matchFields\":[{\"key\":\"metadata.name\",\"operator\":\"In\",\"values\":[\"b\"]}]}"
        "]}}");
    put_claim_of(&c, "d", ONE(",\"count\":2"), NULL);
    cluster_put(&c, &(struct job){.name = "j", .claim = "c"});
    cluster_put(&c, &(struct job){.name = "k", .claim = "d"});
    cluster_decide(&c, 1000);
    EXPECT(str_is(bound_devices(&c, "j-0"), "@b")); /* reserved, not allocated again */
    EXPECT(str_is(bound_devices(&c, "k-0"), "r=gpu-0 r=gpu-1 @a"));
    cluster_close(&c);
}

TEST(a_gang_of_claims_is_placed_whole_or_waits)
{
    struct cluster c;

    open_gpus(&c);
    put_gpus(&c, "a", 2);
    put_claim_of(&c, "c1", ONE(",\"count\":1"), NULL);
    put_claim_of(&c, "c2", ONE(",\"count\":2"), NULL);
    sched_put_group(c.sched, &(struct sched_group){.ns = STR("ns"),
                                                   .name = STR("g"),
                                                   .queue = STR("q"),
                                                   .min_member = 2,
                                                   .has_priority = true,
                                                   .priority = 50});
    for (int i = 0; i < 2; i++)
        sched_put_pod(c.sched,
                      &(struct sched_pod){
                          .ns = STR("ns"),
                          .name = i ? STR("g-1") : STR("g-0"),
                          .group = STR("g"),
                          .claims = &(struct sched_claim_use){.name = i ? STR("c2") : STR("c1")},
                          .claim_count = 1});
    cluster_decide(&c, 1000);
    EXPECT(!c.plan.bind_count);
    put_gpus(&c, "a", 3);
    cluster_decide(&c, 1000);
    EXPECT(str_is(bound_devices(&c, "g-0"), "r=gpu-0 @a"));
    EXPECT(str_is(bound_devices(&c, "g-1"), "r=gpu-1 r=gpu-2 @a"));
    cluster_close(&c);
}

TEST(who_waits_for_a_device_is_told_what_stands_in_the_way)
{
    static const struct {
        const char *devices;
        const char *says;
    } rows[] = {
        {"{\"requests\":[{\"name\":\"r\",\"exactly\":{\"deviceClassName\":\"gpu.other.com\"}}]}",
         "claim c: DeviceClass gpu.other.com does not exist"},
        {ONE(CEL("device.attributes['gpu.nvidia.com'].mood == 1")),
         "claim c: selector #0 on device gpu.nvidia.com/a/gpu-0: CEL runtime error: no such key: "
         "mood"},
        {ONE(",\"adminAccess\":true"),
         "claim c: request r has adminAccess, which this scheduler does not give"},
        {ONE(CEL("device.driver ==")), "claim c: selector #0 on device gpu.nvidia.com/a/gpu-0: "},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct cluster c;

        test_case(rows[i].says);
        open_gpus(&c);
        put_gpus(&c, "a", 1);
        put_claim_of(&c, "c", rows[i].devices, NULL);
        cluster_put(&c, &(struct job){.name = "j", .claim = "c"});
        cluster_decide(&c, 1000);
        EXPECT(!cluster_bound(&c, "j-0"));
        EXPECT(str_contains(cluster_waiting(&c, "j")->message, str_from(rows[i].says)));
        cluster_close(&c);
    }
}

TEST(an_urgent_claim_takes_devices_from_work_below_it)
{
    struct cluster c;

    open_gpus(&c);
    put_gpus(&c, "a", 2);
    put_claim_of(
        &c, "low", ONE(",\"count\":2"),
        "{\"devices\":{\"results\":[{\"request\":\"r\",\"driver\":\"gpu.nvidia.com\",\"pool\":"
        "\"a\",\"device\":\"gpu-0\"},{\"request\":\"r\",\"driver\":\"gpu.nvidia.com\","
        "\"pool\":\"a\",\"device\":\"gpu-1\"}]}}");
    put_claim_of(&c, "high", ONE(""), NULL);
    cluster_put(
        &c, &(struct job){.name = "low", .claim = "low", .node = "a", .kind = SCHED_PREEMPTIBLE});
    cluster_put(&c, &(struct job){.name = "high", .claim = "high", .priority = 75});
    cluster_decide(&c, 1000);
    EXPECT(cluster_evicted(&c, "low-0"));
    EXPECT(cluster_promised(&c, "high-0"));
    cluster_drop(&c, "low-0");
    sched_drop_claim(c.sched, STR("ns"), STR("low"));
    cluster_decide(&c, 1000);
    EXPECT(str_is(bound_devices(&c, "high-0"), "r=gpu-0 @a"));
    cluster_close(&c);
}

TEST(only_whole_pools_of_the_latest_generation_have_devices)
{
    static const struct {
        const char *why;
        const char *slices[2];
        const char *given;
    } rows[] = {
#define POOL(generation, count, device)                                           \
    "{\"driver\":\"gpu.nvidia.com\",\"nodeName\":\"a\",\"pool\":{\"name\":\"a\"," \
    "\"generation\":" #generation ",\"resourceSliceCount\":" #count               \
    "},\"devices\":[{\"name\":\"" device "\",\"attributes\":{\"type\":{\"string\":\"gpu\"}}}]}"
        {"both of one generation", {POOL(1, 2, "x"), POOL(1, 2, "y")}, "r=x @a"},
        {"one is missing", {POOL(1, 2, "x"), NULL}, ""},
        {"the later one counts", {POOL(1, 1, "x"), POOL(2, 1, "y")}, "r=y @a"},
        {"a device twice", {POOL(1, 2, "x"), POOL(1, 2, "x")}, ""},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct cluster c;

        test_case(rows[i].why);
        open_gpus(&c);
        cluster_node(&c, "a", 0);
        for (size_t k = 0; k < 2 && rows[i].slices[k]; k++)
            sched_put_slice(c.sched, &(struct sched_slice){.name = k ? STR("s1") : STR("s0"),
                                                           .spec = parse(&c, rows[i].slices[k])});
        put_claim_of(&c, "c", ONE(""), NULL);
        cluster_put(&c, &(struct job){.name = "j", .claim = "c"});
        cluster_decide(&c, 1000);
        EXPECT(str_is(bound_devices(&c, "j-0"), rows[i].given));
        cluster_close(&c);
    }
}

/* The devices behind the GPUs of a pod that claims none, "gpu-0 gpu-1 @node"; "": it is not bound. */
static struct str bound_whole(struct cluster *c, const char *pod)
{
    const struct sched_bind *bind = cluster_bind(c, pod);
    struct str text = STR("");

    for (size_t i = 0; bind && bind->more && i < bind->more->whole_count; i++)
        text = str_printf(&c->arena, STR_FMT STR_FMT " ", STR_ARG(text),
                          STR_ARG(bind->more->whole[i].device));
    return bind ? str_printf(&c->arena, STR_FMT "@" STR_FMT, STR_ARG(text), STR_ARG(bind->node))
                : text;
}

#define OLD_NAME_CLASS                                                                      \
    "{\"extendedResourceName\":\"nvidia.com/gpu\",\"selectors\":[{\"cel\":{\"expression\":" \
    "\"device.driver == 'gpu.nvidia.com'\"}}]}"

TEST(gpus_of_a_node_without_a_device_plugin_are_had_by_their_old_name)
{
    struct cluster c;

    open_gpus(&c);
    put_gpus(&c, "a", 4);
    put_claim_of(&c, "c", ONE(",\"count\":1"), NULL);
    cluster_put(&c, &(struct job){.name = "k", .claim = "c"});
    cluster_put(&c, &(struct job){.name = "j", .gpus = 2});
    cluster_decide(&c, 1000);
    EXPECT(cluster_bound(&c, "k-0"));
    EXPECT(!cluster_bound(&c, "j-0")); /* no class says so */
    put_class(&c, "gpu.nvidia.com", OLD_NAME_CLASS);
    cluster_decide(&c, 1000);
    EXPECT(str_is(bound_whole(&c, "j-0"), "gpu-1 gpu-2 @a"));
    cluster_put(&c, &(struct job){.name = "l", .gpus = 2});
    cluster_decide(&c, 1000);
    EXPECT(!cluster_bound(&c, "l-0")); /* one is left */
    cluster_drop(&c, "j-0");
    cluster_decide(&c, 1000);
    EXPECT(str_is(bound_whole(&c, "l-0"), "gpu-1 gpu-2 @a"));
    EXPECT(cluster_used(&c, "q") > 2.9 && cluster_used(&c, "q") < 3.1);
    cluster_close(&c);
}

TEST(a_pod_that_is_written_while_it_is_bound_keeps_its_devices)
{
    struct cluster c;

    open_gpus(&c);
    put_class(&c, "gpu.nvidia.com", OLD_NAME_CLASS);
    put_gpus(&c, "a", 2);
    cluster_put(&c, &(struct job){.name = "j", .gpus = 1});
    cluster_decide(&c, 1000);
    EXPECT(str_is(bound_whole(&c, "j-0"), "gpu-0 @a"));
    sched_put_pod(c.sched, &(struct sched_pod){.ns = STR("ns"),
                                               .name = STR("j-0"),
                                               .uid = STR("j-0"),
                                               .group = STR("j"),
                                               .created_ms = c.now,
                                               .cpu_milli = 2000,
                                               .memory_bytes = INT64_C(1) << 30,
                                               .gpus = 1,
                                               .role_rank = 2});
    cluster_put(&c, &(struct job){.name = "l", .gpus = 1});
    cluster_decide(&c, 1000);
    EXPECT(str_is(bound_whole(&c, "l-0"), "gpu-1 @a"));
    cluster_drop(&c, "j-0");
    cluster_put(&c, &(struct job){.name = "m", .gpus = 1});
    cluster_decide(&c, 1000);
    EXPECT(str_is(bound_whole(&c, "m-0"), "gpu-0 @a"));
    cluster_close(&c);
}

TEST(devices_that_a_pod_has_by_their_old_name_are_not_about_to_be_free)
{
    struct cluster c;

    open_gpus(&c);
    put_class(&c, "gpu.nvidia.com", OLD_NAME_CLASS);
    put_gpus(&c, "a", 2);
    sched_put_claim(
        c.sched,
        &(struct sched_claim){
            .ns = STR("ns"),
            .name = STR("e"),
            .devices = parse(&c, ONE("")),
            .allocation = parse(&c, "{\"devices\":{\"results\":[{\"request\":\"r\",\"driver\":"
                                    "\"gpu.nvidia.com\",\"pool\":\"a\",\"device\":\"gpu-0\"}]}}"),
            .consumers = 1});
    cluster_put(&c, &(struct job){.name = "j", .gpus = 1, .node = "a"});
    put_claim_of(&c, "c", ONE(CEL("device.attributes['gpu.nvidia.com'].index == 0")), NULL);
    cluster_put(&c, &(struct job){.name = "k", .claim = "c"});
    cluster_decide(&c, 1000);
    EXPECT(!cluster_bound(&c, "k-0"));
    EXPECT(!cluster_promised(&c, "k-0"));
    cluster_drop(&c, "j-0");
    sched_drop_claim(c.sched, STR("ns"), STR("e"));
    cluster_decide(&c, 1000);
    EXPECT(str_is(bound_devices(&c, "k-0"), "r=gpu-0 @a"));
    cluster_close(&c);
}

TEST(devices_of_a_claim_that_is_gone_stay_those_of_the_pod_that_runs)
{
    struct cluster c;

    open_gpus(&c);
    put_gpus(&c, "a", 2);
    put_claim_of(&c, "c", ONE(""),
                 "{\"devices\":{\"results\":[{\"request\":\"r\",\"driver\":\"gpu.nvidia.com\","
                 "\"pool\":\"a\",\"device\":\"gpu-0\"}]}}");
    cluster_put(&c, &(struct job){.name = "j", .claim = "c", .node = "a"});
    cluster_decide(&c, 1000);
    sched_drop_claim(c.sched, STR("ns"), STR("c"));
    put_claim_of(&c, "d", ONE(CEL("device.attributes['gpu.nvidia.com'].index == 0")), NULL);
    cluster_put(&c, &(struct job){.name = "k", .claim = "d"});
    cluster_decide(&c, 1000);
    EXPECT(!cluster_bound(&c, "k-0"));
    cluster_drop(&c, "j-0");
    cluster_decide(&c, 1000);
    EXPECT(str_is(bound_devices(&c, "k-0"), "r=gpu-0 @a"));
    cluster_close(&c);
}

TEST(a_pod_whose_claim_is_written_while_it_is_bound_keeps_its_other_devices)
{
    struct cluster c;

    open_gpus(&c);
    put_class(&c, "gpu.nvidia.com", OLD_NAME_CLASS);
    put_gpus(&c, "a", 3);
    put_claim_of(&c, "c", ONE(CEL("device.attributes['gpu.nvidia.com'].index == 2")), NULL);
    cluster_put(&c, &(struct job){.name = "j", .gpus = 1, .claim = "c"});
    cluster_decide(&c, 1000);
    EXPECT(str_is(bound_whole(&c, "j-0"), "gpu-0 @a"));
    put_claim_of(&c, "c", ONE(CEL("device.attributes['gpu.nvidia.com'].index == 2")), NULL);
    cluster_put(&c, &(struct job){.name = "l", .gpus = 1});
    cluster_decide(&c, 1000);
    EXPECT(str_is(bound_whole(&c, "l-0"), "gpu-1 @a"));
    cluster_close(&c);
}

TEST(a_claim_is_said_to_be_everywhere_only_if_all_its_devices_are)
{
    static const struct {
        const char *why;
        const char *place;
        bool everywhere;
    } rows[] = {{"of one node", "\"nodeName\":\"a\"", false},
                {"of all nodes", "\"allNodes\":true", true}};

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct cluster c;

        test_case(rows[i].why);
        open_gpus(&c);
        put_class(&c, "link", "{\"selectors\":[{\"cel\":{\"expression\":\"true\"}}]}");
        cluster_node(&c, "a", 0);
        struct str spec = str_printf(&c.arena,
                                     "{\"driver\":\"link.io\",%s,\"pool\":{\"name\":\"p\","
                                     "\"generation\":1,\"resourceSliceCount\":1},\"devices\":[{"
                                     "\"name\":\"l\"}]}",
                                     rows[i].place);
        sched_put_slice(c.sched, &(struct sched_slice){.name = STR("s"),
                                                       .spec = parse(&c, str_c(&c.arena, spec))});
        put_claim_of(&c, "c",
                     "{\"requests\":[{\"name\":\"r\",\"exactly\":{\"deviceClassName\":\"link\"}}]}",
                     NULL);
        cluster_put(&c, &(struct job){.name = "j", .claim = "c"});
        cluster_decide(&c, 1000);
        const struct sched_bind *bind = cluster_bind(&c, "j-0");
        EXPECT(bind && bind->more && bind->more->claim_count == 1 &&
               bind->more->claims[0].everywhere == rows[i].everywhere);
        cluster_close(&c);
    }
}
