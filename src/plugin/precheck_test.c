#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/err.h"
#include "base/json.h"
#include "plugin/precheck.h"
#include "test.h"

#include <errno.h>
#include <stddef.h>

static struct json *parse(struct arena *arena, const char *text)
{
    struct json *json = NULL;

    EXPECT(json_parse(arena, str_from(text), &json, NULL) == 0);
    return json;
}

TEST(what_a_job_asks_for_is_told_by_its_spec_and_its_queue)
{
    static const struct {
        const char *why;
        const char *spec;
        const char *queue;
        int64_t gpus;
        int64_t in_pod;
        const char *kai;
    } rows[] = {
        {"GPUs on nodes of four", "{\"numGPUs\":8}",
         "{\"metadata\":{\"name\":\"q\"},\"spec\":{\"nodeResources\":{\"gpus\":4}}}", 8, 4, "q"},
        {"fewer than a node has", "{\"numGPUs\":3}",
         "{\"spec\":{\"kaiQueue\":\"team\",\"nodeResources\":{\"gpus\":4}}}", 3, 3, "team"},
        {"not a multiple: spread evenly", "{\"numGPUs\":9}",
         "{\"spec\":{\"queue\":{\"name\":\"deep\"},\"nodeResources\":{\"gpus\":4}}}", 9, 3, "deep"},
        {"whole nodes", "{\"numNodes\":2}",
         "{\"metadata\":{\"name\":\"q\"},\"spec\":{\"nodeResources\":{\"gpus\":8}}}", 16, 8, "q"},
        {"a queue without GPUs", "{\"numNodes\":2}", "{\"metadata\":{\"name\":\"q\"}}", 0, 0, "q"},
        {"nothing said about nodes", "{\"numGPUs\":6}", "{\"metadata\":{\"name\":\"q\"}}", 6, 6,
         "q"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct precheck_wanted wanted =
            precheck_wanted(parse(&arena, rows[i].spec), parse(&arena, rows[i].queue));

        test_case(rows[i].why);
        EXPECT(wanted.gpus == rows[i].gpus);
        EXPECT(wanted.in_pod == rows[i].in_pod);
        EXPECT(str_is(wanted.kai, rows[i].kai));
    }
}

TEST(a_job_that_can_never_run_is_refused_before_it_is_sent)
{
    static const struct {
        const char *why;
        struct precheck_wanted wanted;
        struct precheck_cluster cluster;
        int code;
        const char *words;
    } rows[] = {
        {"it fits", {8, 4, {NULL, 0}, 0}, {true, 8, {NULL, 0}, 4, 8}, 0, ""},
        {"over the queue's limit",
         {9, 3, {NULL, 0}, 0},
         {true, 8, {"team", 4}, 4, 100},
         -EDQUOT,
         "9 GPUs are over the limit of queue team; at most 8 can run there"},
        {"a limit of none is a limit",
         {1, 1, {NULL, 0}, 0},
         {true, 0, {"team", 4}, 4, 100},
         -EDQUOT,
         "1 GPUs are over the limit of queue team; at most 0 can run there"},
        {"more than the cluster has",
         {16, 4, {NULL, 0}, 0},
         {false, -1, {NULL, 0}, 4, 8},
         -ENOSPC,
         "16 GPUs are more than the cluster has; it has 8 in all"},
        {"more in a pod than a node has",
         {8, 8, {NULL, 0}, 0},
         {false, -1, {NULL, 0}, 4, 8},
         -ENOSPC,
         "no node has 8 GPUs, as each pod would get; the largest has 4"},
        {"nodes that cannot be seen", {800, 8, {NULL, 0}, 0}, {false, -1, {NULL, 0}, 0, 0}, 0, ""},
        {"no GPUs asked for", {0, 0, {NULL, 0}, 0}, {true, 0, {NULL, 0}, 4, 8}, 0, ""},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct err err = {0};

        test_case(rows[i].why);
        EXPECT(precheck_fits(&rows[i].wanted, &rows[i].cluster, &err) == rows[i].code);
        EXPECT(str_is(str_from(err.text), rows[i].words));
    }
}

#define NODE(labels, has) \
    "{\"metadata\":{\"labels\":{" labels "}},\"status\":{\"allocatable\":{" has "}}}"

TEST(what_no_node_ever_has_is_refused_before_it_is_sent)
{
    static const char *const nodes[] = {NODE("\"nvidia.com/gpu.product\":\"NVIDIA-H100-80GB-HBM3\"",
                                             "\"cpu\":\"8\",\"memory\":\"64Gi\""),
                                        NODE("", "\"cpu\":\"16\",\"memory\":\"32Gi\"")};
    static const struct {
        const char *why;
        const char *spec;
        size_t nodes;
        const char *words;
    } rows[] = {
        {"it fits", "{\"numGPUs\":2,\"nodeResources\":{\"memory\":\"64Gi\",\"cpus\":\"16\"}}", 2,
         ""},
        {"memory", "{\"numGPUs\":8,\"nodeResources\":{\"memory\":\"640Gi\"}}", 2,
         "no node has 655360 MiB of memory, as each pod would get; the largest has 65536 MiB"},
        {"a part of it", "{\"numGPUs\":1,\"nodeResources\":{\"memory\":\"500Gi\"}}", 2, ""},
        {"CPUs", "{\"numGPUs\":8,\"nodeResources\":{\"cpus\":\"17500m\"}}", 2,
         "no node has 17.5 CPUs, as each pod would get; the largest has 16.0"},
        {"a type that there is", "{\"numGPUs\":8,\"nodeResources\":{\"gpuType\":\"h100\"}}", 2, ""},
        {"a type of no node", "{\"numGPUs\":8,\"nodeResources\":{\"gpuType\":\"B200\"}}", 2,
         "no node has GPUs of type B200; there are NVIDIA-H100-80GB-HBM3"},
        {"every node whole, and none left for the sync pod",
         "{\"numGPUs\":16,\"nodeResources\":{\"memory\":\"64Gi\",\"cpus\":\"16\"}}", 2,
         "the pods would take every node whole, and the sync pod needs 10m of CPU and 64Mi of "
         "memory "
         "on one of them: ask for that much less"},
        {"nearly", "{\"numGPUs\":16,\"nodeResources\":{\"memory\":\"63Gi\",\"cpus\":\"15990m\"}}",
         2, ""},
        {"nodes cannot be seen", "{\"numGPUs\":8,\"nodeResources\":{\"memory\":\"640Gi\"}}", 0, ""},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        const struct json *trees[] = {parse(&arena, nodes[0]), parse(&arena, nodes[1])};
        struct precheck_needs needs =
            precheck_needs(parse(&arena, rows[i].spec),
                           parse(&arena, "{\"spec\":{\"nodeResources\":{\"gpus\":8}}}"));
        struct err err = {0};

        test_case(rows[i].why);
        EXPECT(precheck_nodes_fit(&needs, trees, rows[i].nodes, &err) ==
               (*rows[i].words ? -ENOSPC : 0));
        EXPECT(str_is(str_from(err.text), rows[i].words));
    }
}

TEST(a_node_gives_what_it_does_not_say_that_it_cannot)
{
    static const struct {
        const char *node;
        bool isolates;
        bool limits;
    } rows[] = {
        {"{}", true, true},
        {"{\"status\":{\"conditions\":[{\"type\":\"PodsIsolated\",\"status\":\"True\"}]}}", true,
         true},
        {"{\"status\":{\"conditions\":[{\"type\":\"Ready\",\"status\":\"False\"}]}}", true, true},
        {"{\"status\":{\"conditions\":[{\"type\":\"Ready\",\"status\":\"True\"},"
         "{\"type\":\"PodsIsolated\",\"status\":\"False\",\"message\":\"why\"}]}}",
         false, true},
        {"{\"status\":{\"conditions\":[{\"type\":\"PodsIsolated\",\"status\":\"True\"},"
         "{\"type\":\"LimitsEnforced\",\"status\":\"False\",\"message\":\"why\"}]}}",
         true, false},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct json *node = parse(&arena, rows[i].node);
        struct str words = STR("");

        test_case(rows[i].node);
        EXPECT(precheck_node_lacks(node, "PodsIsolated", &words) == !rows[i].isolates);
        EXPECT(precheck_node_lacks(node, "LimitsEnforced", &words) == !rows[i].limits);
        EXPECT(str_is(words, rows[i].isolates && rows[i].limits ? "" : "why"));
    }
}
