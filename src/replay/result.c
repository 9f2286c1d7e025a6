#include "replay/result.h"

#include "base/arena.h"
#include "estimate/runtimes.h"
#include "replay/trace.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define HOUR_MS    3600000.0
#define LARGE_GPUS 8 /* from here on a job is a gang that needs a whole node or more */

static int by_value(const void *a, const void *b)
{
    const double *l = a;
    const double *r = b;

    return *l < *r ? -1 : *l > *r;
}

static double percentile(const double *sorted, size_t count, unsigned percent)
{
    return count ? sorted[percentile_at(count, percent)] : 0;
}

static double mean_of(const double *values, size_t count)
{
    double sum = 0;

    for (size_t i = 0; i < count; i++)
        sum += values[i];
    return count ? sum / (double)count : 0;
}

bool replay_pick_large(const struct trace *trace, size_t job, const void *user)
{
    (void)user;
    return trace->jobs.items[job].gpus >= LARGE_GPUS;
}

void replay_waits(const struct replay_report *report,
                  const struct replay_result *result,
                  replay_pick *picks,
                  const void *user,
                  struct replay_waits *ret)
{
    const struct trace_jobs *jobs = &report->trace->jobs;
    double *waits = ARENA_ARRAY(report->arena, double, jobs->count);
    double *ends = ARENA_ARRAY(report->arena, double, jobs->count);
    size_t count = 0;
    size_t ended = 0;

    *ret = (struct replay_waits){0};
    for (size_t i = 0; i < jobs->count; i++) {
        const struct replay_outcome *job = &result->jobs[i];

        if (job->start_ms < 0 || (picks && !picks(report->trace, i, user)))
            continue;
        waits[count++] = (double)(job->start_ms - jobs->items[i].submit_ms) / HOUR_MS;
        if (job->end_ms >= 0)
            ends[ended++] = (double)(job->end_ms - jobs->items[i].submit_ms) / HOUR_MS;
    }
    qsort(waits, count, sizeof(*waits), by_value);
    qsort(ends, ended, sizeof(*ends), by_value);
    *ret = (struct replay_waits){.count = count,
                                 .mean = mean_of(waits, count),
                                 .median = percentile(waits, count, 50),
                                 .p99 = percentile(waits, count, 99),
                                 .longest = percentile(waits, count, 100),
                                 .completion_mean = mean_of(ends, ended),
                                 .completion_median = percentile(ends, ended, 50),
                                 .completion_p99 = percentile(ends, ended, 99)};
}
