#include "sched/decode_test.h"

#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/count.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "sched/decode.h"
#include "sched/sched.h"
#include "sched/spec.h"
#include "test.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What is read of nodes, pod groups, queues, topologies, zones and claims. */

void reading_open(struct reading *reading, const struct kind *kind, const char *text)
{
    *reading = (struct reading){0};
    sched_config_default(&reading->config);
    reading->object = object_quoted(&reading->arena, kind, text);
    reading->decode = (struct decode){.config = &reading->config,
                                      .arena = &reading->arena,
                                      .object = reading->object,
                                      .tree = object_tree(reading->object, &reading->arena),
                                      .err = &reading->err};
}

void reading_close(struct reading *reading)
{
    object_unref(reading->object);
    arena_done(&reading->arena);
}

struct object *object_quoted(struct arena *arena, const struct kind *kind, const char *text)
{
    char *copy = str_c(arena, str_from(text));
    struct object *object = NULL;

    for (char *p = copy; *p; p++)
        *p = *p == '\'' ? '"' : *p;
    EXPECT(object_new(kind, str_from(copy), &object, NULL) == 0);
    return object;
}

bool reading_says(const struct reading *reading, const char *words)
{
    return words ? str_contains(str_from(reading->err.text), str_from(words))
                 : !reading->decode.code;
}

#define NAMED(rest) "{'metadata':{'name':'n'}" rest "}"

TEST(a_node_is_ready_where_it_says_so_and_is_under_no_pressure)
{
    static const struct {
        const char *conditions;
        bool not_ready;
    } rows[] = {
        {"", false},
        {"{'type':'Ready','status':'True'}", false},
        {"{'type':'Ready','status':'False'}", true},
        {"{'type':'Ready','status':'Unknown'}", true},
        {"{'type':'Ready','status':'True'},{'type':'MemoryPressure','status':'False'}", false},
        {"{'type':'Ready','status':'True'},{'type':'KernelDeadlock','status':'True'}", false},
        {"{'type':'MemoryPressure','status':'True'},{'type':'Ready','status':'True'}", true},
        {"{'type':'Ready','status':'True'},{'type':'DiskPressure','status':'True'}", true},
        {"{'type':'Ready','status':'True'},{'type':'PIDPressure','status':'True'}", true},
        {"{'type':'Ready','status':'True'},{'type':'NetworkUnavailable','status':'True'}", true},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct arena arena = {0};
        struct str text = str_printf(
            &arena, "{'metadata':{'name':'n'},'status':{'conditions':[%s]}}", rows[i].conditions);
        struct reading r;
        struct sched_node node;

        test_case(rows[i].conditions);
        reading_open(&r, &kind_node, str_c(&arena, text));
        decode_node(&r.decode, &node);
        EXPECT(node.not_ready == rows[i].not_ready);
        reading_close(&r);
        arena_done(&arena);
    }
}

TEST(what_a_node_has_is_read_of_allocatable_and_of_labels)
{
    static const struct {
        const char *text;
        int64_t gpus;
        int64_t others; /* kinds of other resources */
        int64_t gpu_mib;
        enum sched_mig mig;
        const char *wrong;
    } rows[] = {
        {NAMED(",'status':{'allocatable':{'nvidia.com/gpu':'8','pods':'110'}}"), 8, 0, 0,
         SCHED_MIG_NONE, NULL},
        {NAMED(",'status':{'capacity':{'amd.com/gpu':4,'cpu':'2'}}"), 4, 0, 0, SCHED_MIG_NONE,
         NULL},
        {NAMED(",'status':{'allocatable':{'ephemeral-storage':'1Gi','hugepages-2Mi':'0'}}"), 0, 1,
         0, SCHED_MIG_NONE, NULL},
        {NAMED(",'status':{'allocatable':{'cpu':'many','memory':'much'}}"), 0, 0, 0, SCHED_MIG_NONE,
         "status.allocatable.cpu"},
        {"{'metadata':{'name':'n','labels':{'nvidia.com/gpu.memory':'81920'}}}", 0, 0, 81920,
         SCHED_MIG_NONE, NULL},
        {"{'metadata':{'name':'n','labels':{'nvidia.com/gpu.memory':'85899345920'}}}", 0, 0, 81920,
         SCHED_MIG_NONE, NULL},
        {"{'metadata':{'name':'n','labels':{'nvidia.com/gpu.memory':'80G'}}}", 0, 0, 0,
         SCHED_MIG_NONE, "\"80G\" is not a number"},
        {"{'metadata':{'name':'n','labels':{'nvidia.com/mig.strategy':'single'}}}", 0, 0, 0,
         SCHED_MIG_SINGLE, NULL},
        {"{'metadata':{'name':'n','labels':{'nvidia.com/mig.strategy':'mixed'}}}", 0, 0, 0,
         SCHED_MIG_MIXED, NULL},
        {"{'metadata':{'name':'n','labels':{'nvidia.com/mig.strategy':'none'}}}", 0, 0, 0,
         SCHED_MIG_NONE, NULL},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct reading r;
        struct sched_node node;

        test_case(rows[i].text);
        reading_open(&r, &kind_node, rows[i].text);
        decode_node(&r.decode, &node);
        EXPECT(node.gpus == rows[i].gpus);
        EXPECT((int64_t)node.amount_count == rows[i].others);
        EXPECT(node.gpu_memory_mib == rows[i].gpu_mib);
        EXPECT(node.mig == rows[i].mig);
        EXPECT(reading_says(&r, rows[i].wrong));
        reading_close(&r);
    }
}

TEST(a_node_is_in_the_pool_of_its_label_and_has_the_taints_that_keep_pods_away)
{
    struct reading r;
    struct sched_node node;

    reading_open(&r, &kind_node,
                 "{'metadata':{'name':'n','labels':{'a':'b','kai.scheduler/node-pool':'blue'}},"
                 "'spec':{'taints':[{'key':'x','effect':'Whatever'},"
                 "{'key':'a','value':'1','effect':'NoSchedule'},{'key':'b','effect':'NoExecute'},"
                 "{'key':'c','effect':'PreferNoSchedule'}]}}");
    decode_node(&r.decode, &node);
    EXPECT(str_is(node.pool, "blue"));
    EXPECT(node.taint_count == 3);
    EXPECT(str_is(node.taints[0].value, "1") && node.taints[0].effect == SCHED_NO_SCHEDULE);
    EXPECT(node.taints[1].effect == SCHED_NO_EXECUTE);
    EXPECT(node.taints[2].effect == SCHED_PREFER_NO_SCHEDULE);
    reading_close(&r);
}

TEST(a_pod_group_says_which_of_its_notes_is_not_understood)
{
    static const struct {
        const char *note;
        const char *value;
        const char *wrong; /* NULL: it is understood */
    } rows[] = {
        {"kai.scheduler/stale-podgroup-timestamp", "2026-01-02T03:04:05Z", NULL},
        {"kai.scheduler/stale-podgroup-timestamp", "yesterday",
         "annotation kai.scheduler/stale-podgroup-timestamp: \"yesterday\" is not a time"},
        {"muster.dev/expected-run-time", "90m", NULL},
        {"muster.dev/expected-run-time", "-90m", "\"-90m\" is not a duration"},
        {"muster.dev/expected-run-time", "long", "\"long\" is not a duration"},
        {"muster.dev/on-preemption", "suspend", NULL},
        {"muster.dev/on-preemption", "evict", NULL},
        {"muster.dev/on-preemption", "ask", "\"ask\" is neither suspend nor evict"},
        {"muster.dev/suspend-unused-after", "never", NULL},
        {"muster.dev/suspend-unused-after", "30m", NULL},
        {"muster.dev/suspend-unused-after", "0s", "\"0s\" is neither a duration"},
        {"muster.dev/suspend-unused-after", "soon", "\"soon\" is neither a duration"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct arena arena = {0};
        struct str text =
            str_printf(&arena,
                       "{'metadata':{'namespace':'ns','name':'n','annotations':{'%s':'%s'}},"
                       "'spec':{'queue':'q'}}",
                       rows[i].note, rows[i].value);
        struct reading r;
        struct sched_group group;

        test_case(rows[i].value);
        reading_open(&r, &kind_podgroup, str_c(&arena, text));
        decode_group(&r.decode, &group);
        EXPECT(reading_says(&r, rows[i].wrong));
        EXPECT(str_is(group.queue, "q")); /* the rest of it is taken */
        EXPECT(group.expected_ms == (str_is(str_from(rows[i].value), "90m") ? 5400000 : 0));
        EXPECT((group.loss == SCHED_LOSS_SUSPEND) == str_is(str_from(rows[i].value), "suspend"));
        reading_close(&r);
        arena_done(&arena);
    }
}

/* KAI: without minSubGroup all children must start, with 0 none has to. */
TEST(a_subgroup_that_asks_for_none_of_its_children_is_not_one_that_asks_for_all)
{
    struct reading r;
    struct sched_group group;

    reading_open(
        &r, &kind_podgroup,
        "{'metadata':{'namespace':'ns','name':'n'},'spec':{'minMember':3,'subGroups':["
        "{'name':'all'},{'name':'none','minSubGroup':0},{'name':'two','minSubGroup':2}]}}");
    decode_group(&r.decode, &group);
    EXPECT(group.subgroup_count == 3 && group.subgroups[0].min_member == 1);
    EXPECT(group.subgroups[0].min_subgroup == 0);
    EXPECT(group.subgroups[1].min_subgroup == -1);
    EXPECT(group.subgroups[2].min_subgroup == 2);
    reading_close(&r);
    reading_open(&r, &kind_podgroup,
                 "{'metadata':{'namespace':'ns','name':'n'},'spec':{'minMember':'some'}}");
    decode_group(&r.decode, &group);
    EXPECT(reading_says(&r, "PodGroup ns/n: ") && reading_says(&r, "minMember"));
    reading_close(&r);
}

TEST(a_queue_limits_no_more_models_than_the_core_counts)
{
    struct arena arena = {0};
    struct str text = STR("");
    struct reading r;
    struct sched_queue queue;

    for (int i = 0; i < SCHED_MODELS_MAX + 1; i++)
        text = str_printf(&arena, STR_FMT "%s{'product':'m%d','limit':%d}", STR_ARG(text),
                          i ? "," : "", i, i);
    text = str_printf(
        &arena, "{'metadata':{'name':'q'},'spec':{'resources':{'gpu':{'models':[" STR_FMT "]}}}}",
        STR_ARG(text));
    reading_open(&r, &kind_queue, str_c(&arena, text));
    decode_queue(&r.decode, &queue);
    EXPECT(queue.model_count == SCHED_MODELS_MAX && str_is(queue.models[31].model, "m31"));
    reading_close(&r);
    arena_done(&arena);
}

TEST(the_levels_of_a_topology_are_read_with_their_other_names)
{
    struct reading r;
    struct sched_topology topology;

    reading_open(&r, &kind_topology,
                 "{'metadata':{'name':'t'},'spec':{'levels':[{'nodeLabel':'zone','alias':'hall'},"
                 "{'nodeLabel':'rack'}]}}");
    decode_topology(&r.decode, &topology);
    EXPECT(topology.level_count == 2 && str_is(topology.levels[0], "zone"));
    EXPECT(str_is(topology.aliases[0], "hall") && !topology.aliases[1].len);
    reading_close(&r);
}

TEST(a_claim_is_allocated_where_its_status_says_so)
{
    static const struct {
        const char *rest;
        bool allocated;
        int64_t consumers;
    } rows[] = {
        {"", false, 0},
        {",'spec':{'devices':{'requests':[]}},'status':{'allocation':null}", false, 0},
        {",'spec':{'devices':{}},'status':{'allocation':{'devices':{}},'reservedFor':[{},{}]}",
         true, 2},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct arena arena = {0};
        struct str text =
            str_printf(&arena,
                       "{'metadata':{'namespace':'ns','name':'c','labels':{'kai.scheduler/"
                       "queue':'q'}}%s}",
                       rows[i].rest);
        struct reading r;
        struct sched_claim claim;

        test_case(rows[i].rest);
        reading_open(&r, &kind_resourceclaim, str_c(&arena, text));
        decode_claim(&r.decode, &claim);
        EXPECT(str_is(claim.queue, "q") && claim.devices);
        EXPECT((claim.allocation != NULL) == rows[i].allocated);
        EXPECT(claim.consumers == rows[i].consumers);
        reading_close(&r);
        arena_done(&arena);
    }
}

/* As NodeResourceTopology says it: attributes, or the one word of topologyPolicies before them. */
TEST(how_a_kubelet_gives_out_zones_is_read_of_the_newer_and_of_the_older_words)
{
    static const struct {
        const char *rules;
        enum sched_numa_policy policy;
        bool by_container;
    } rows[] = {
        {"", SCHED_NUMA_NONE, true},
        {"'topologyPolicies':['None']", SCHED_NUMA_NONE, true},
        {"'topologyPolicies':['SingleNUMANodePodLevel']", SCHED_NUMA_SINGLE, false},
        {"'topologyPolicies':['SingleNUMANodeContainerLevel']", SCHED_NUMA_SINGLE, true},
        {"'topologyPolicies':['Restricted']", SCHED_NUMA_RESTRICTED, true},
        {"'topologyPolicies':['BestEffortPodLevel']", SCHED_NUMA_BEST_EFFORT, false},
        {"'attributes':[{'name':'topologyManagerPolicy','value':'restricted'}]",
         SCHED_NUMA_RESTRICTED, true},
        {"'attributes':[{'name':'topologyManagerPolicy','value':'best-effort'},"
         "{'name':'topologyManagerScope','value':'pod'}]",
         SCHED_NUMA_BEST_EFFORT, false},
        {"'attributes':[{'name':'topologyManagerScope','value':'container'},{'name':'other',"
         "'value':'x'},{'name':'topologyManagerPolicy','value':'single-numa-node'}],"
         "'topologyPolicies':['BestEffortPodLevel']",
         SCHED_NUMA_SINGLE, true},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct arena arena = {0};
        struct str text = str_printf(&arena, "{'metadata':{'name':'n'}%s%s}",
                                     *rows[i].rules ? "," : "", rows[i].rules);
        struct reading r;
        struct sched_numa numa;

        test_case(rows[i].rules);
        reading_open(&r, &kind_noderesourcetopology, str_c(&arena, text));
        decode_numa(&r.decode, &numa);
        EXPECT(str_is(numa.node, "n") && !numa.zone_count && reading_says(&r, NULL));
        EXPECT(numa.policy == rows[i].policy);
        EXPECT(numa.by_container == rows[i].by_container);
        reading_close(&r);
        arena_done(&arena);
    }
}

TEST(the_zones_of_a_node_have_what_its_numa_nodes_have)
{
    struct reading r;
    struct sched_numa numa;

    reading_open(&r, &kind_noderesourcetopology,
                 "{'metadata':{'name':'n'},'zones':[{'name':'socket','type':'Socket'},"
                 "{'name':'node-0','type':'Node','resources':[{'name':'cpu','capacity':'32',"
                 "'allocatable':'31500m','available':'30'},{'name':'nvidia.com/gpu',"
                 "'capacity':'4','allocatable':'4','available':'3'}]}]}");
    decode_numa(&r.decode, &numa);
    EXPECT(numa.zone_count == 1 && str_is(numa.zones[0].name, "node-0"));
    EXPECT(numa.zones[0].allocatable_count == 2 && numa.zones[0].available_count == 2);
    EXPECT(numa.zones[0].allocatable[0].amount == 31500);
    EXPECT(numa.zones[0].available[0].amount == 30000);
    EXPECT(numa.zones[0].available[1].amount == 3);
    reading_close(&r);
    reading_open(&r, &kind_noderesourcetopology,
                 "{'metadata':{'name':'n'},'zones':[{'name':'node-0'}]}");
    decode_numa(&r.decode, &numa);
    EXPECT(reading_says(&r, "NodeResourceTopology n: ") && reading_says(&r, "type"));
    reading_close(&r);
}
