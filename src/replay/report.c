#include "base/arena.h"
#include "base/buf.h"
#include "base/count.h"
#include "base/json.h"
#include "base/json_make.h"
#include "base/map.h"
#include "base/str.h"
#include "base/vec.h"
#include "estimate/band.h"
#include "replay/policy.h"
#include "replay/result.h"
#include "replay/trace.h"
#include "tool/term.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Tables for people, JSON and CSV for programs. */

static struct str number(struct arena *arena, double value, int digits)
{
    return str_printf(arena, "%.*f", digits, value);
}

static double allocated_mean(const struct replay_result *result)
{
    double sum = 0;

    for (size_t i = 0; i < result->samples.count; i++)
        sum += result->samples.items[i].allocated;
    return result->samples.count ? sum / (double)result->samples.count : 0;
}

/* ---- filled up: all seeds of a policy together ---- */
struct spread {
    double mean;
    double deviation;
};

struct filled {
    size_t seeds;
    struct spread at_100;
    struct spread at_130;
    double fragmented; /* at 100 % */
    double per_second;
};

static struct spread spread_of(const struct replay_results *results,
                               const struct replay_policy *policy,
                               bool at_130)
{
    double sum = 0;
    double squares = 0;
    size_t count = 0;

    for (size_t i = 0; i < results->count; i++) {
        double value = at_130 ? results->items[i].at_130 : results->items[i].at_100;

        if (results->items[i].policy != policy)
            continue;
        sum += 100 * value;
        squares += 100 * value * 100 * value;
        count++;
    }
    double mean = count ? sum / (double)count : 0;
    double variance = count > 1 ? (squares - mean * sum) / (double)(count - 1) : 0;
    return (struct spread){mean, variance > 0 ? sqrt(variance) : 0};
}

static struct filled filled_of(const struct replay_results *results,
                               const struct replay_policy *policy)
{
    struct filled filled = {.at_100 = spread_of(results, policy, false),
                            .at_130 = spread_of(results, policy, true)};
    double seconds = 0;
    uint64_t placed = 0;

    for (size_t i = 0; i < results->count; i++) {
        const struct replay_result *result = &results->items[i];
        const struct replay_sample *at = NULL;

        if (result->policy != policy)
            continue;
        for (size_t s = 0; s < result->samples.count && !at; s++)
            if (result->samples.items[s].at >= 1)
                at = &result->samples.items[s];
        filled.seeds++;
        filled.fragmented += at ? 100 * at->fragmented : 0;
        seconds += result->cpu_s;
        placed += result->decisions;
    }
    filled.fragmented /= filled.seeds ? (double)filled.seeds : 1;
    filled.per_second = seconds > 0 ? (double)placed / seconds : 0;
    return filled;
}

static bool first_of_policy(const struct replay_results *results, size_t index)
{
    for (size_t i = 0; i < index; i++)
        if (results->items[i].policy == results->items[index].policy)
            return false;
    return true;
}

static void filled_table(struct buf *out, const struct replay_report *report)
{
    static const char *const headers[] = {"POLICY",  "SEEDS",      "AT 100%",      "SD",
                                          "AT 130%", "FRAGMENTED", "PLACEMENTS/S", NULL};
    struct table table;

    table_init(&table, report->arena, headers);
    for (size_t i = 0; i < report->results->count; i++) {
        const struct replay_policy *policy = report->results->items[i].policy;

        if (!first_of_policy(report->results, i))
            continue;
        struct filled filled = filled_of(report->results, policy);
        table_add(&table, str_from(policy->name));
        table_add(&table, str_printf(report->arena, "%zu", filled.seeds));
        table_add(&table, number(report->arena, filled.at_100.mean, 2));
        table_add(&table, number(report->arena, filled.at_100.deviation, 2));
        table_add(&table, number(report->arena, filled.at_130.mean, 2));
        table_add(&table, number(report->arena, filled.fragmented, 2));
        table_add(&table, number(report->arena, filled.per_second, 0));
    }
    table_write(out, &table, true);
    buf_addf(out, "\nGPUs in use, in %%, when jobs asking for 100 %% and 130 %% of them had come; "
                  "FRAGMENTED: free and of no use to the jobs, at 100 %%.\n");
}

/* ---- over time ---- */
static void time_table(struct buf *out, const struct replay_report *report)
{
    static const char *const headers[] = {
        "POLICY",   "STARTED",     "MEAN WAIT", "MEDIAN",     "P99",  "P99 >=8 GPUS", "LONGEST",
        "MAKESPAN", "GPUS IN USE", "PREEMPTED", "GPU-H LOST", "JAIN", "CPU S",        NULL};
    struct arena *arena = report->arena;
    struct table table;

    table_init(&table, arena, headers);
    for (size_t i = 0; i < report->results->count; i++) {
        const struct replay_result *result = &report->results->items[i];
        struct replay_waits all;
        struct replay_waits large;

        replay_waits(report, result, NULL, NULL, &all);
        replay_waits(report, result, replay_pick_large, NULL, &large);
        table_add(&table, str_printf(arena, "%s%s", result->policy->name, result->cut ? "*" : ""));
        table_add(&table, str_printf(arena, "%zu/%zu", all.count, report->trace->jobs.count));
        table_add(&table, number(arena, all.mean, 2));
        table_add(&table, number(arena, all.median, 2));
        table_add(&table, number(arena, all.p99, 1));
        table_add(&table, number(arena, large.p99, 1));
        table_add(&table, number(arena, all.longest, 1));
        table_add(&table, number(arena, (double)result->makespan_ms / 3600000.0, 0));
        table_add(&table, number(arena, 100 * allocated_mean(result), 1));
        table_add(&table, str_printf(arena, "%lld", (long long)result->preemptions));
        table_add(&table, number(arena, result->lost_gpu_hours, 0));
        table_add(&table, number(arena, result->jain, 3));
        table_add(&table, number(arena, result->cpu_s, 1));
    }
    table_write(out, &table, true);
    buf_addf(out, "\nWaits and makespan in hours, GPUS IN USE in %%.%s\n",
             report->results->count && report->results->items[report->results->count - 1].cut
                 ? " *: stopped before the end."
                 : "");
}

static double percent_of(size_t part, size_t whole)
{
    return whole ? 100.0 * (double)part / (double)whole : 0;
}

static void estimates_table(struct buf *out, const struct replay_report *report)
{
    static const char *const headers[] = {"POLICY", "ASKED", "NO BAND", "INSIDE", "EARLY",
                                          "LATE",   "RAW",   "WIDTH",   "MS",     NULL};
    struct arena *arena = report->arena;
    struct table table;
    size_t asked = 0;

    table_init(&table, arena, headers);
    for (size_t i = 0; i < report->results->count; i++) {
        const struct replay_estimates *of = &report->results->items[i].estimates;
        size_t judged = of->asked - of->none;

        asked += of->asked;
        table_add(&table, str_from(report->results->items[i].policy->name));
        table_add(&table, str_printf(arena, "%zu", of->asked));
        table_add(&table, str_printf(arena, "%zu", of->none));
        table_add(&table, number(arena, percent_of(of->inside, judged), 1));
        table_add(&table, number(arena, percent_of(of->early, judged), 1));
        table_add(&table, number(arena, percent_of(of->late, judged), 1));
        table_add(&table, number(arena, percent_of(of->raw_inside, judged), 1));
        table_add(&table, number(arena, of->width_hours, 2));
        table_add(&table, number(arena, of->asked ? 1000 * of->cpu_s / (double)of->asked : 0, 0));
    }
    if (!asked)
        return;
    buf_addc(out, '\n');
    table_write(out, &table, true);
    buf_addf(out,
             "\nOf jobs that waited more than a minute and were told then when they start: "
             "starts inside the %d %% band, in %%; RAW: inside had nothing been learned; "
             "WIDTH: of the bands in hours, median; MS: of CPU for each.\n",
             BAND_PERCENT);
}

void report_table(struct buf *out, const struct replay_report *report)
{
    buf_addf(out, "%s: %zu jobs on %lld GPUs of %zu nodes\n\n", report->trace_name,
             report->trace->jobs.count, (long long)report->gpus, report->node_count);
    if (!report->trace->ends) {
        filled_table(out, report);
        return;
    }
    time_table(out, report);
    estimates_table(out, report);
}

/* ---- JSON ---- */
static void add_number(struct arena *arena, struct json *to, const char *key, double value)
{
    json_set(to, str_from(key), json_new_number(arena, number(arena, value, 4)));
}

static void add_waits(struct arena *arena, struct json *to, const struct replay_waits *waits)
{
    json_add_i64(arena, to, "jobs", (int64_t)waits->count);
    add_number(arena, to, "meanWaitHours", waits->mean);
    add_number(arena, to, "medianWaitHours", waits->median);
    add_number(arena, to, "p99WaitHours", waits->p99);
    add_number(arena, to, "longestWaitHours", waits->longest);
    add_number(arena, to, "meanCompletionHours", waits->completion_mean);
    add_number(arena, to, "medianCompletionHours", waits->completion_median);
    add_number(arena, to, "p99CompletionHours", waits->completion_p99);
}

struct sizes {
    int64_t least;
    int64_t most;
};

static bool of_size(const struct trace *trace, size_t job, const void *user)
{
    const struct sizes *sizes = user;
    int64_t gpus = trace->jobs.items[job].gpus;

    return gpus >= sizes->least && gpus <= sizes->most;
}

static bool of_queue(const struct trace *trace, size_t job, const void *user)
{
    return str_eq(trace->jobs.items[job].queue, *(const struct str *)user);
}

static void add_groups(const struct replay_report *report,
                       const struct replay_result *result,
                       struct json *to)
{
    static const struct sizes sizes[] = {{0, 1}, {2, 4}, {5, 8}, {9, 16}, {17, INT64_MAX}};
    static const char *const names[] = {"1", "2-4", "5-8", "9-16", "17-"};
    struct arena *arena = report->arena;
    struct json *by_size = json_add_object(arena, to, "bySize");
    struct json *by_queue = json_add_object(arena, to, "byQueue");
    struct map seen = {.seed = 1};
    struct replay_waits waits;

    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        replay_waits(report, result, of_size, &sizes[i], &waits);
        add_waits(arena, json_add_object(arena, by_size, names[i]), &waits);
    }
    for (size_t i = 0; i < report->trace->jobs.count; i++) {
        const struct str *queue = &report->trace->jobs.items[i].queue;

        if (!queue->len || map_get(&seen, *queue))
            continue;
        map_set(&seen, *queue, to);
        replay_waits(report, result, of_queue, queue, &waits);
        add_waits(arena, json_add_object(arena, by_queue, str_c(arena, *queue)), &waits);
    }
    map_done(&seen);
}

static void add_result(const struct replay_report *report,
                       const struct replay_result *result,
                       struct json *to)
{
    struct arena *arena = report->arena;
    struct replay_waits waits;

    json_fill(arena, to, "{policy: $, seed: $, cut: $, decisions: $}", result->policy->name,
              (int64_t)result->seed, result->cut, (int64_t)result->decisions);
    add_number(arena, to, "cpuSeconds", result->cpu_s);
    add_number(arena, to, "decisionsPerSecond",
               result->cpu_s > 0 ? (double)result->decisions / result->cpu_s : 0);
    if (!report->trace->ends) {
        add_number(arena, to, "allocatedAt100", result->at_100);
        add_number(arena, to, "allocatedAt130", result->at_130);
    } else {
        replay_waits(report, result, NULL, NULL, &waits);
        add_waits(arena, to, &waits);
        replay_waits(report, result, replay_pick_large, NULL, &waits);
        add_waits(arena, json_add_object(arena, to, "largeGangs"), &waits);
        add_number(arena, to, "makespanHours", (double)result->makespan_ms / 3600000.0);
        json_add_i64(arena, to, "preemptions", result->preemptions);
        json_fill(arena, to,
                  "{estimates: {asked: $, withoutBand: $, inside: $, early: $, late: $}}",
                  (int64_t)result->estimates.asked, (int64_t)result->estimates.none,
                  (int64_t)result->estimates.inside, (int64_t)result->estimates.early,
                  (int64_t)result->estimates.late);
        add_number(arena, to, "gpuHoursLost", result->lost_gpu_hours);
        add_number(arena, to, "jain", result->jain);
        add_number(arena, to, "leastShare", result->least);
        add_groups(report, result, to);
    }
    struct json *samples = json_add_array(arena, to, "samples");
    for (size_t i = 0; i < result->samples.count; i++) {
        const struct replay_sample *sample = &result->samples.items[i];
        struct json *item = json_push(samples, json_new_object(arena));

        add_number(arena, item, report->trace->ends ? "hours" : "asked", sample->at);
        add_number(arena, item, "allocated", sample->allocated);
        add_number(arena, item, "fragmented", sample->fragmented);
        json_add_i64(arena, item, report->trace->ends ? "waiting" : "dropped", sample->waiting);
        if (report->trace->ends) {
            add_number(arena, item, "jain", sample->fair);
            add_number(arena, item, "leastShare", sample->least);
        }
    }
}

void report_json(struct buf *out, const struct replay_report *report)
{
    struct json *top =
        json_make(report->arena, "{trace: $, jobs: $, gpus: $, nodes: $}", report->trace_name,
                  (int64_t)report->trace->jobs.count, report->gpus, (int64_t)report->node_count);
    struct json *results = json_add_array(report->arena, top, "results");
    for (size_t i = 0; i < report->results->count; i++)
        add_result(report, &report->results->items[i],
                   json_push(results, json_new_object(report->arena)));
    json_write_pretty(out, top);
    buf_addc(out, '\n');
}

/* ---- CSV: one line a sample ---- */
void report_csv(struct buf *out, const struct replay_report *report)
{
    bool ends = report->trace->ends;

    buf_addf(out, "policy,seed,%s,allocated,fragmented,%s,jain,least_share\n",
             ends ? "hours" : "asked", ends ? "waiting" : "dropped");
    for (size_t i = 0; i < report->results->count; i++) {
        const struct replay_result *result = &report->results->items[i];

        for (size_t s = 0; s < result->samples.count; s++) {
            const struct replay_sample *sample = &result->samples.items[s];
            buf_addf(out, "%s,%llu,%.4f,%.5f,%.5f,%lld,%.4f,%.4f\n", result->policy->name,
                     (unsigned long long)result->seed, sample->at, sample->allocated,
                     sample->fragmented, (long long)sample->waiting, ends ? sample->fair : 1.0,
                     ends ? sample->least : 1.0);
        }
    }
}
