#include "sched_cases.h"

#include "base/arena.h"
#include "base/str.h"
#include "sched/sched.h"
#include "sched/spec.h"

#include <malloc.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

/* The clusters, built as KAI's own benchmarks build them. Building one is not measured, deciding
 * is. */

/* Time on the processor: deciding is one thread that waits for nothing, and the machine may be busy
 * with other things. */
double cpu_now_s(void)
{
    struct timespec now = {0};

    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

void open_cluster(struct bench *bench, uint32_t actions)
{
    struct sched_config config;

    sched_config_default(&config);
    config.quirks = bench->mimic ? SCHED_QUIRKS_ALL : SCHED_QUIRKS_NONE;
    config.policy.actions = actions;
    config.policy.consolidate_max = -1;
    bench->sched = sched_new(&config);
}

void close_cluster(struct bench *bench)
{
    sched_free(bench->sched);
    arena_done(&bench->names);
}

void add_queue(struct bench *bench, const char *name, const char *parent, double gpus)
{
    struct sched_queue queue = {.name = str_from(name),
                                .parent = str_from(parent),
                                .priority = 100,
                                .preempt_min_runtime_ms = -1,
                                .reclaim_min_runtime_ms = -1};

    for (int r = 0; r < SCHED_RESOURCES; r++)
        queue.quota[r] = (struct sched_quota){SCHED_UNLIMITED, SCHED_UNLIMITED, 1};
    queue.quota[SCHED_GPU] = (struct sched_quota){gpus, SCHED_UNLIMITED, 0};
    sched_put_queue(bench->sched, &queue);
}

static struct str node_name(struct bench *bench, int64_t i)
{
    return str_printf(&bench->names, "node-%05lld", (long long)i);
}

/* Racks of `rack` nodes; 0: no rack label. */
void add_nodes(struct bench *bench, int64_t count, int64_t gpus, int64_t cpu, int64_t rack)
{
    bench->nodes = count;
    for (int64_t i = 0; i < count; i++) {
        struct sched_label label = {
            STR("rack"), str_printf(&bench->names, "r%05lld", (long long)(rack ? i / rack : 0))};
        sched_put_node(bench->sched, &(struct sched_node){.name = node_name(bench, i),
                                                          .cpu_milli = cpu,
                                                          .memory_bytes = INT64_C(1) << 40,
                                                          .gpus = gpus,
                                                          .pods = 250,
                                                          .gpu_memory_mib = 81559,
                                                          .labels = &label,
                                                          .label_count = rack ? 1 : 0});
    }
}

struct gang {
    const char *name;
    int64_t number;
    const char *queue;
    int64_t pods;
    int64_t gpus;
    int64_t cpu_milli;
    int64_t node; /* -1: waiting */
    int64_t priority;
    const char *rack; /* required topology level, or NULL */
    bool apart;       /* anti-affinity by rack */
};

static void add_gang(struct bench *bench, const struct gang *gang)
{
    struct arena *arena = &bench->names;
    struct str name = str_printf(arena, "%s-%07lld", gang->name, (long long)gang->number);
    struct sched_label label = {STR("gang"), name};
    struct sched_expression same = {
        .key = STR("gang"), .op = SCHED_IN, .values = &name, .value_count = 1};
    struct sched_pod_term apart = {
        .selector = {.expressions = &same, .expression_count = 1, .set = true},
        .topology_key = STR("rack")};
    struct sched_group group = {.ns = STR("ns"),
                                .name = name,
                                .queue = str_from(gang->queue),
                                .created_ms = 1000 + gang->number,
                                .min_member = gang->pods,
                                .has_priority = true,
                                .priority = gang->priority ? gang->priority : 50};

    if (gang->rack)
        group.topology =
            (struct sched_topology_want){.topology = STR("t"), .required = str_from(gang->rack)};
    sched_put_group(bench->sched, &group);
    for (int64_t i = 0; i < gang->pods; i++) {
        struct sched_pod pod = {.ns = STR("ns"),
                                .name =
                                    str_printf(arena, STR_FMT "-%lld", STR_ARG(name), (long long)i),
                                .group = name,
                                .created_ms = 1000 + gang->number,
                                .cpu_milli = gang->cpu_milli ? gang->cpu_milli : 1000,
                                .memory_bytes = 1 << 30,
                                .gpus = gang->gpus,
                                .role_rank = 2,
                                .labels = gang->apart ? &label : NULL,
                                .label_count = gang->apart ? 1 : 0,
                                .anti_affinity = &apart,
                                .anti_affinity_count = gang->apart ? 1 : 0};
        pod.uid = pod.name;
        if (gang->node >= 0) {
            pod.node = node_name(bench, gang->node);
            pod.phase = SCHED_RUNNING;
        }
        sched_put_pod(bench->sched, &pod);
    }
}

size_t heap_bytes(void)
{
    struct mallinfo2 info = mallinfo2();

    return info.uordblks + info.hblkhd;
}

struct outcome decide(struct bench *bench, int64_t now_ms)
{
    struct arena arena = {0};
    struct sched_plan plan;
    double start = cpu_now_s();

    sched_cycle(bench->sched, now_ms, &arena, &plan);
    struct outcome outcome = {.seconds = cpu_now_s() - start,
                              .binds = plan.bind_count,
                              .evicts = plan.evict_count,
                              .nominates = plan.nominate_count};
    arena_done(&arena);
    outcome.heap_bytes = heap_bytes();
    return outcome;
}

/* ---- the cases ---- */
static void fill_running(struct bench *bench, const char *queue)
{
    for (int64_t i = 0; i < 8 * bench->nodes; i++)
        add_gang(bench, &(struct gang){.name = "run",
                                       .number = i,
                                       .queue = queue,
                                       .pods = 1,
                                       .gpus = 1,
                                       .node = i % bench->nodes});
}

struct outcome reclaim_large(int64_t n, bool mimic)
{
    struct bench bench = {.mimic = mimic};

    open_cluster(&bench, 1U << SCHED_ACTION_RECLAIM);
    add_queue(&bench, "top", "", SCHED_UNLIMITED);
    add_queue(&bench, "queue-0", "top", 0);
    add_queue(&bench, "queue-1", "top", (double)(8 * n));
    add_nodes(&bench, n, 8, 1000000, 0);
    fill_running(&bench, "queue-0");
    add_gang(&bench, &(struct gang){.name = "big",
                                    .queue = "queue-1",
                                    .pods = n / 2,
                                    .gpus = 8,
                                    .number = 9000000,
                                    .node = -1});
    struct outcome outcome = decide(&bench, 100000);
    close_cluster(&bench);
    return outcome;
}

struct outcome many_single(int64_t n, bool mimic)
{
    struct bench bench = {.mimic = mimic};

    open_cluster(&bench, SCHED_ACTIONS_ALL);
    add_queue(&bench, "top", "", SCHED_UNLIMITED);
    add_queue(&bench, "queue-0", "top", 0);
    add_queue(&bench, "queue-1", "top", (double)(8 * n));
    add_nodes(&bench, n, 8, 1000000, 0);
    fill_running(&bench, "queue-0");
    for (int64_t i = 0; i < 8 * n; i++)
        add_gang(&bench, &(struct gang){.name = "wait",
                                        .number = i + 1000000,
                                        .queue = "queue-1",
                                        .pods = 1,
                                        .gpus = 1,
                                        .node = -1});
    struct outcome outcome = decide(&bench, 100000);
    close_cluster(&bench);
    return outcome;
}

/* variant 0: quota; 1: anti-affinity over 9 racks; 2: a required rack of too few nodes */
static struct outcome unschedulable(int64_t n, int variant, bool mimic)
{
    struct bench bench = {.mimic = mimic};
    struct str level = STR("rack");

    open_cluster(&bench, 1U << SCHED_ACTION_RECLAIM);
    add_queue(&bench, "top", "", SCHED_UNLIMITED);
    add_queue(&bench, "queue-0", "top", variant ? 0 : (double)(8 * n - 79));
    add_queue(&bench, "queue-1", "top", 80);
    add_nodes(&bench, n, 8, 1000000, variant == 1 ? (n + 8) / 9 : variant == 2 ? 9 : 0);
    if (variant == 2)
        sched_put_topology(bench.sched, &(struct sched_topology){
                                            .name = STR("t"), .levels = &level, .level_count = 1});
    fill_running(&bench, "queue-0");
    add_gang(&bench, &(struct gang){.name = "big",
                                    .queue = "queue-1",
                                    .pods = 10,
                                    .gpus = 8,
                                    .number = 9000000,
                                    .node = -1,
                                    .rack = variant == 2 ? "rack" : NULL,
                                    .apart = variant == 1});
    struct outcome outcome = decide(&bench, 100000);
    close_cluster(&bench);
    return outcome;
}
struct outcome unschedulable_quota(int64_t n, bool mimic)
{
    return unschedulable(n, 0, mimic);
}
struct outcome unschedulable_apart(int64_t n, bool mimic)
{
    return unschedulable(n, 1, mimic);
}
struct outcome unschedulable_rack(int64_t n, bool mimic)
{
    return unschedulable(n, 2, mimic);
}

/* 32 one-CPU jobs a node. */
struct outcome cpu_jobs(int64_t n, bool mimic)
{
    struct bench bench = {.mimic = mimic};

    open_cluster(&bench, SCHED_ACTIONS_ALL);
    add_queue(&bench, "queue-0", "", SCHED_UNLIMITED);
    add_nodes(&bench, n, 0, 32000, 0);
    for (int64_t i = 0; i < 32 * n; i++)
        add_gang(
            &bench,
            &(struct gang){.name = "cpu", .number = i, .queue = "queue-0", .pods = 1, .node = -1});
    struct outcome outcome = decide(&bench, 100000);
    close_cluster(&bench);
    return outcome;
}

struct outcome fill_gangs(int64_t n, bool mimic)
{
    struct bench bench = {.mimic = mimic};

    open_cluster(&bench, SCHED_ACTIONS_ALL);
    add_queue(&bench, "queue-0", "", SCHED_UNLIMITED);
    add_nodes(&bench, n, 8, 64000, 0);
    for (int64_t i = 0; i < n; i++)
        add_gang(
            &bench,
            &(struct gang){
                .name = "gang", .number = i, .queue = "queue-0", .pods = 8, .gpus = 1, .node = -1});
    struct outcome outcome = decide(&bench, 100000);
    close_cluster(&bench);
    return outcome;
}

/* One new gang of 8 on a cluster that is 95 % full. */
struct outcome one_gang(int64_t n, bool mimic)
{
    struct bench bench = {.mimic = mimic};

    open_cluster(&bench, SCHED_ACTIONS_ALL);
    add_queue(&bench, "queue-0", "", SCHED_UNLIMITED);
    add_nodes(&bench, n, 8, 64000, 0);
    for (int64_t i = 0; i < 8 * n * 95 / 100; i++)
        add_gang(&bench, &(struct gang){.name = "run",
                                        .number = i,
                                        .queue = "queue-0",
                                        .pods = 1,
                                        .gpus = 1,
                                        .node = i % n});
    (void)decide(&bench, 90000);
    add_gang(&bench, &(struct gang){.name = "new",
                                    .number = 9000000,
                                    .queue = "queue-0",
                                    .pods = 8,
                                    .gpus = 1,
                                    .node = -1});
    struct outcome outcome = decide(&bench, 100000);
    close_cluster(&bench);
    return outcome;
}

/* One more job that does not fit anywhere. */
struct outcome one_more(int64_t n, bool mimic)
{
    struct bench bench = {.mimic = mimic};

    open_cluster(&bench, SCHED_ACTIONS_ALL);
    add_queue(&bench, "queue-0", "", SCHED_UNLIMITED);
    add_nodes(&bench, n, 8, 64000, 0);
    fill_running(&bench, "queue-0");
    (void)decide(&bench, 90000);
    add_gang(&bench, &(struct gang){.name = "new",
                                    .number = 9000000,
                                    .queue = "queue-0",
                                    .pods = 1,
                                    .gpus = 1,
                                    .node = -1});
    struct outcome outcome = decide(&bench, 100000);
    close_cluster(&bench);
    return outcome;
}

struct outcome reclaim_64(int64_t n, bool mimic)
{
    struct bench bench = {.mimic = mimic};

    open_cluster(&bench, SCHED_ACTIONS_ALL);
    add_queue(&bench, "top", "", SCHED_UNLIMITED);
    add_queue(&bench, "queue-0", "top", 0);
    add_queue(&bench, "queue-1", "top", (double)(8 * n));
    add_nodes(&bench, n, 8, 1000000, 0);
    fill_running(&bench, "queue-0");
    (void)decide(&bench, 90000);
    add_gang(&bench, &(struct gang){.name = "big",
                                    .queue = "queue-1",
                                    .pods = 8,
                                    .gpus = 8,
                                    .number = 9000000,
                                    .node = -1});
    struct outcome outcome = decide(&bench, 100000);
    close_cluster(&bench);
    return outcome;
}

struct outcome preempt_64(int64_t n, bool mimic)
{
    struct bench bench = {.mimic = mimic};

    open_cluster(&bench, SCHED_ACTIONS_ALL);
    add_queue(&bench, "queue-0", "", (double)(8 * n));
    add_nodes(&bench, n, 8, 1000000, 0);
    fill_running(&bench, "queue-0");
    (void)decide(&bench, 90000);
    add_gang(&bench, &(struct gang){.name = "big",
                                    .queue = "queue-0",
                                    .pods = 8,
                                    .gpus = 8,
                                    .number = 9000000,
                                    .priority = 100,
                                    .node = -1});
    struct outcome outcome = decide(&bench, 100000);
    close_cluster(&bench);
    return outcome;
}

/* Every node has one GPU free; one pod wants two. */
struct outcome consolidate(int64_t n, bool mimic)
{
    struct bench bench = {.mimic = mimic};

    open_cluster(&bench, SCHED_ACTIONS_ALL);
    add_queue(&bench, "queue-0", "", SCHED_UNLIMITED);
    add_nodes(&bench, n, 8, 1000000, 0);
    for (int64_t i = 0; i < 7 * n; i++)
        add_gang(&bench, &(struct gang){.name = "run",
                                        .number = i,
                                        .queue = "queue-0",
                                        .pods = 1,
                                        .gpus = 1,
                                        .node = i % n});
    (void)decide(&bench, 90000);
    add_gang(&bench, &(struct gang){.name = "two",
                                    .number = 9000000,
                                    .queue = "queue-0",
                                    .pods = 1,
                                    .gpus = 2,
                                    .node = -1});
    struct outcome outcome = decide(&bench, 100000);
    close_cluster(&bench);
    return outcome;
}

struct outcome topology_gang(int64_t n, bool mimic)
{
    struct bench bench = {.mimic = mimic};
    struct str level = STR("rack");

    open_cluster(&bench, SCHED_ACTIONS_ALL);
    add_queue(&bench, "queue-0", "", SCHED_UNLIMITED);
    add_nodes(&bench, n, 8, 1000000, 16);
    sched_put_topology(bench.sched, &(struct sched_topology){
                                        .name = STR("t"), .levels = &level, .level_count = 1});
    (void)decide(&bench, 90000);
    add_gang(&bench, &(struct gang){.name = "near",
                                    .number = 9000000,
                                    .queue = "queue-0",
                                    .pods = 16,
                                    .gpus = 8,
                                    .node = -1,
                                    .rack = "rack"});
    struct outcome outcome = decide(&bench, 100000);
    close_cluster(&bench);
    return outcome;
}

/* n queues in three levels, ten waiting jobs in each leaf, room for a third of them. */
struct outcome many_queues(int64_t n, bool mimic)
{
    struct bench bench = {.mimic = mimic};
    char name[32];
    char parent[32];

    open_cluster(&bench, SCHED_ACTIONS_ALL);
    for (int64_t i = 0; i < 10; i++) {
        (void)snprintf(name, sizeof(name), "top-%lld", (long long)i);
        add_queue(&bench, name, "", SCHED_UNLIMITED);
    }
    for (int64_t i = 0; i < n / 10; i++) {
        (void)snprintf(name, sizeof(name), "mid-%lld", (long long)i);
        (void)snprintf(parent, sizeof(parent), "top-%lld", (long long)(i % 10));
        add_queue(&bench, name, parent, SCHED_UNLIMITED);
    }
    add_nodes(&bench, n * 10 / 3 / 8 + 1, 8, 1000000, 0);
    for (int64_t i = 0; i < n; i++) {
        (void)snprintf(name, sizeof(name), "leaf-%lld", (long long)i);
        (void)snprintf(parent, sizeof(parent), "mid-%lld", (long long)(i % (n / 10)));
        add_queue(&bench, name, parent, SCHED_UNLIMITED);
        for (int64_t j = 0; j < 10; j++)
            add_gang(&bench, &(struct gang){.name = "job",
                                            .number = i * 10 + j,
                                            .queue = name,
                                            .pods = 1,
                                            .gpus = 1,
                                            .node = -1});
    }
    struct outcome outcome = decide(&bench, 100000);
    close_cluster(&bench);
    return outcome;
}

/* What it costs to ask why a gang waits, behind a hundred others, on a cluster that is full. */
struct outcome explain(int64_t n, bool mimic)
{
    struct bench bench = {.mimic = mimic};
    struct arena arena = {0};
    struct sched_explanation why;

    open_cluster(&bench, SCHED_ACTIONS_ALL);
    add_queue(&bench, "queue-0", "", SCHED_UNLIMITED);
    add_nodes(&bench, n, 8, 64000, 0);
    fill_running(&bench, "queue-0");
    for (int64_t i = 0; i < 100; i++) {
        add_gang(&bench, &(struct gang){.name = "wait",
                                        .number = 9000000 + i,
                                        .queue = "queue-0",
                                        .pods = 8,
                                        .gpus = 8,
                                        .node = -1});
        if (!i) /* what a first search builds is not the record */
            (void)decide(&bench, 80000);
    }
    size_t heap = heap_bytes();
    (void)decide(&bench, 90000);
    struct outcome outcome = {.record_bytes = (heap_bytes() - heap) / 99};
    double start = cpu_now_s();
    outcome.failed = !sched_explain(bench.sched, STR("ns"), STR("wait-9000099"), &arena, &why) ||
                     why.place != 100;
    outcome.seconds = cpu_now_s() - start;
    arena_done(&arena);
    close_cluster(&bench);
    return outcome;
}

/* Nothing happened: no cycle is due. The time is what one would take all the same. */
struct outcome idle(int64_t n, bool mimic)
{
    struct bench bench = {.mimic = mimic};

    open_cluster(&bench, SCHED_ACTIONS_ALL);
    add_queue(&bench, "queue-0", "", SCHED_UNLIMITED);
    add_nodes(&bench, n, 16, 64000, 0);
    for (int64_t i = 0; i < 10 * n; i++)
        add_gang(&bench, &(struct gang){.name = "run",
                                        .number = i,
                                        .queue = "queue-0",
                                        .pods = 1,
                                        .gpus = 1,
                                        .node = i % n});
    (void)decide(&bench, 90000);
    bool due = sched_needs_cycle(bench.sched);
    struct outcome outcome = decide(&bench, 100000);
    outcome.failed = due;
    close_cluster(&bench);
    return outcome;
}
