#include "sched/sched.h"

#include "base/arena.h"
#include "base/count.h"
#include "base/str.h"
#include "bench.h"
#include "sched/spec.h"
#include "sched_cases.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

/* bench-sched [NAME [SIZE...]]: the decision core alone. Each line: case, size, best time of a
 * few runs and its budget, what was decided, what KAI took on a 2-core machine, how the time grew
 * since the smallest size, and what the same takes in mimic mode. "MISSED" is what to look for; the
 * last line counts. Times are of the processor: deciding is one thread that waits for nothing, and
 * the machine may be busy with other things. With sizes, up to four of any number, the same is
 * printed for those, without budgets. "NAME once SIZE" runs once and prints only what was decided,
 * for counting instructions, and the memory: the heap once the plan is gone, and the most that was
 * resident while there was one. */

#define RUNS      5
#define SIZES_MAX 4

struct size {
    int64_t n;
    double budget_ms; /* 0: none */
    double kai_s;     /* what KAI took; 0: not known */
};

struct series {
    const char *name;
    struct outcome (*run)(int64_t n, bool mimic);
    struct size sizes[SIZES_MAX];
    double growth;  /* the budget of the exponent; 0: none */
    int64_t evicts; /* that must be, for two nodes; -1: any number */
};

/* Budgets of reclaim-large, many-single and unschedulable are a hundredth of what KAI took. */
static const struct series all[] = {
    {"reclaim-large",
     reclaim_large,
     {{100, 8, 0.80}, {500, 111, 11.1}, {1000, 449, 44.9}, {5000, 0, 0}},
     1.3,
     8},
    {"many-single",
     many_single,
     {{100, 46, 4.6}, {200, 194, 19.4}, {500, 0, 0}, {2000, 0, 0}},
     1.3,
     16},
    {"unschedulable-quota", unschedulable_quota, {{100, 177, 17.7}, {1000, 0, 0}}, 1.3, 0},
    {"unschedulable-apart", unschedulable_apart, {{100, 177, 0}, {1000, 0, 0}}, 1.3, 0},
    {"unschedulable-rack", unschedulable_rack, {{100, 177, 0}, {1000, 0, 0}}, 1.3, 0},
    {"cpu-jobs", cpu_jobs, {{100, 0, 0}, {1000, 300, 0}}, 0, 0},
    {"fill-gangs", fill_gangs, {{1000, 80, 0}, {10000, 800, 0}}, 0, 0},
    {"one-gang", one_gang, {{1000, 1, 0}, {10000, 1, 0}}, 0.3, 0},
    {"one-more", one_more, {{1000, 1, 0}, {10000, 1, 0}}, 0, 0},
    {"reclaim-64", reclaim_64, {{1000, 20, 0}, {10000, 200, 0}}, 0.5, -1},
    {"preempt-64", preempt_64, {{1000, 0, 0}, {10000, 0, 0}}, 0, -1},
    {"consolidate", consolidate, {{100, 0, 0}, {1000, 0, 0}}, 0, -1},
    {"topology-gang", topology_gang, {{1000, 0, 0}, {10000, 0, 0}}, 0, 0},
    {"many-queues", many_queues, {{100, 0, 0}, {1000, 0, 0}}, 0, 0},
    {"explain", explain, {{1000, 1, 0}, {10000, 1, 0}}, 0, -1},
    {"idle", idle, {{1000, 0, 0}, {10000, 0, 0}}, 0, 0},
};

static int met;
static int missed;
static double all_s;
static double all_mimic_s;

static const char *verdict(bool holds)
{
    *(holds ? &met : &missed) += 1;
    return holds ? "met" : "MISSED";
}

static struct outcome best_of(const struct series *series, int64_t n, bool mimic)
{
    struct outcome best = {0};

    for (int run = 0; run < RUNS; run++) {
        struct outcome outcome = series->run(n, mimic);
        double kept = best.seconds;

        best = outcome;
        bench_best(&kept, outcome.seconds);
        best.seconds = kept;
        if (outcome.seconds > 2)
            break;
    }
    return best;
}

static double run_size(const struct series *series, int i, double first_s)
{
    const struct size *size = &series->sizes[i];
    bool last = i + 1 == SIZES_MAX || !series->sizes[i + 1].n;
    struct outcome best = best_of(series, size->n, false);
    struct outcome mimic = best_of(series, size->n, true);
    double ms = best.seconds * 1000;

    all_s += best.seconds;
    all_mimic_s += mimic.seconds;
    printf("%-20s %6lld nodes %9.3f ms", series->name, (long long)size->n, ms);
    if (size->budget_ms > 0)
        printf(" (budget %g ms: %s)", size->budget_ms, verdict(ms <= size->budget_ms));
    printf("  %zu bound, %zu evicted, %zu promised", best.binds, best.evicts, best.nominates);
    if (best.binds >= 1000)
        printf(", %.0f pods/s", (double)best.binds / best.seconds);
    if (series->evicts >= 0 && (int64_t)best.evicts != series->evicts * size->n / 2)
        printf(" (must be %lld evicted: %s)", (long long)(series->evicts * size->n / 2),
               verdict(false));
    if (best.record_bytes)
        printf(", %zu bytes kept of each group that waits", best.record_bytes);
    if (series->run == idle)
        printf("  cycles due when nothing changed: %d (budget 0: %s)", best.failed,
               verdict(!best.failed));
    if (size->kai_s > 0)
        printf("  KAI %.1f s: %.0f times", size->kai_s, size->kai_s / best.seconds);
    if (i) {
        double exponent =
            log(best.seconds / first_s) / log((double)size->n / (double)series->sizes[0].n);
        printf("  exponent %.2f", exponent);
        if (last && series->growth > 0)
            printf(" (budget %.1f: %s)", series->growth, verdict(exponent <= series->growth));
    }
    printf("  mimic %.3f ms\n", mimic.seconds * 1000);
    (void)fflush(stdout);
    return best.seconds;
}

static void run_series(const struct series *series)
{
    double first_s = 0;

    for (int i = 0; i < SIZES_MAX && series->sizes[i].n; i++) {
        double took_s = run_size(series, i, first_s);

        if (!i)
            first_s = took_s;
        if (took_s > 20)
            break;
    }
}

/* ---- memory ---- */
#define NODES     10000
#define PODS      100000
#define BUDGET_MB 150.0

static size_t rss_bytes(void)
{
    struct rusage usage = {0};

    (void)getrusage(RUSAGE_SELF, &usage);
    return (size_t)usage.ru_maxrss * 1024;
}

static struct str job_name(struct bench *bench, int64_t i)
{
    if (i % 1000 == 0)
        arena_reset(&bench->names);
    return str_printf(&bench->names, "training-%07lld", (long long)i);
}

static void put_group(struct bench *bench, int64_t i)
{
    sched_put_group(bench->sched, &(struct sched_group){.ns = STR("research"),
                                                        .name = job_name(bench, i),
                                                        .queue = STR("queue-0"),
                                                        .created_ms = 1000 + i,
                                                        .min_member = 1,
                                                        .priority_class = STR("train")});
}

/* As pods of a job are: a uid, and labels of which all but one are the job's. */
static void put_pod(struct bench *bench, int64_t i)
{
    struct arena *arena = &bench->names;
    struct str job = job_name(bench, i);
    struct sched_label labels[] = {{STR("app.kubernetes.io/managed-by"), STR("muster")},
                                   {STR("kai.scheduler/queue"), STR("queue-0")},
                                   {STR("torchrun-job-name"), job},
                                   {STR("torchrun-job-index"), STR("0")}};

    sched_put_pod(bench->sched,
                  &(struct sched_pod){
                      .ns = STR("research"),
                      .name = str_printf(arena, STR_FMT "-worker-0", STR_ARG(job)),
                      .uid = str_printf(arena, "8d0c6a4e-54b1-4c36-9a0f-%012lld", (long long)i),
                      .group = job,
                      .created_ms = 1000 + i,
                      .cpu_milli = 1000,
                      .memory_bytes = 1 << 30,
                      .gpus = 1,
                      .labels = labels,
                      .label_count = COUNT_OF(labels),
                      .node = str_printf(arena, "node-%05lld", (long long)(i % NODES)),
                      .phase = SCHED_RUNNING});
}

static void run_memory(void)
{
    struct bench bench = {0};
    size_t before = rss_bytes();
    size_t heap[4];

    open_cluster(&bench, SCHED_ACTIONS_ALL);
    add_queue(&bench, "queue-0", "", SCHED_UNLIMITED);
    heap[0] = heap_bytes();
    add_nodes(&bench, NODES, 16, 1000000, 0);
    arena_reset(&bench.names);
    heap[1] = heap_bytes();
    for (int64_t i = 0; i < PODS; i++)
        put_group(&bench, i);
    heap[2] = heap_bytes();
    for (int64_t i = 0; i < PODS; i++)
        put_pod(&bench, i);
    heap[3] = heap_bytes();
    (void)decide(&bench, 90000);
    double mb = (double)(rss_bytes() - before) / 1e6;
    printf("%-20s %d nodes, %d pods in as many groups: %.1f MB (budget %g MB: %s)  %zu bytes a "
           "node, %zu a pod, %zu a group\n",
           "memory", NODES, PODS, mb, BUDGET_MB, verdict(mb <= BUDGET_MB),
           (heap[1] - heap[0]) / NODES, (heap[3] - heap[2]) / PODS, (heap[2] - heap[1]) / PODS);
    close_cluster(&bench);
}

static const struct series *series_named(const char *name)
{
    for (size_t i = 0; i < COUNT_OF(all); i++)
        if (strcmp(name, all[i].name) == 0)
            return &all[i];
    return NULL;
}

static int usage(void)
{
    (void)fprintf(stderr, "usage: bench-sched [NAME [SIZE...]] | NAME once SIZE; NAME is memory");
    for (size_t i = 0; i < COUNT_OF(all); i++)
        (void)fprintf(stderr, ", %s", all[i].name);
    (void)fprintf(stderr, "; at most %d sizes, each above 0\n", SIZES_MAX);
    return 2;
}

/* One case of one size, once, for counting instructions. */
static int run_once(const struct series *series, const char *size)
{
    int64_t n = 0;

    if (!series || !str_to_i64(str_from(size), &n) || n <= 0)
        return usage();
    struct outcome outcome = series->run(n, false);
    size_t peak = rss_bytes();

    printf("%s %lld: %zu bound, %zu evicted, %zu promised; %.1f MB when it was decided, %.1f MB at "
           "most\n",
           series->name, (long long)n, outcome.binds, outcome.evicts, outcome.nominates,
           (double)outcome.heap_bytes / 1e6, (double)peak / 1e6);
    return 0;
}

/* Sizes of the caller's own. */
static int run_sizes(const struct series *series, int count, char *sizes[])
{
    if (!series || count > SIZES_MAX)
        return usage();
    struct series own = {.name = series->name, .run = series->run, .evicts = series->evicts};
    for (int i = 0; i < count; i++)
        if (!str_to_i64(str_from(sizes[i]), &own.sizes[i].n) || own.sizes[i].n <= 0)
            return usage();
    run_series(&own);
    return 0;
}

int main(int argc, char *argv[])
{
    const struct series *one = argc > 1 ? series_named(argv[1]) : NULL;

    if (argc == 4 && strcmp(argv[2], "once") == 0)
        return run_once(one, argv[3]);
    if (argc > 2)
        return run_sizes(one, argc - 2, argv + 2);
    if (argc == 2 && !one && strcmp(argv[1], "memory") != 0)
        return usage();
    if (argc < 2 || strcmp(argv[1], "memory") == 0)
        run_memory();
    for (size_t i = 0; i < COUNT_OF(all); i++)
        if (argc < 2 || strcmp(argv[1], all[i].name) == 0)
            run_series(&all[i]);
    printf("scheduler: %d budgets met, %d missed", met, missed);
    if (all_s > 0)
        printf("; mimic mode takes %.2f times as long", all_mimic_s / all_s);
    (void)putchar('\n');
    return 0;
}
