#pragma once

#include "base/str.h"
#include "base/vec.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arena;
struct buf;
struct replay_policy;
struct trace;

/* result: what one policy made of a trace, and how it is told. */
struct replay_sample {
    double at; /* hours since the first job, or thousandths of the GPUs that were asked for */
    double allocated; /* share of the GPUs */
    double
        fragmented; /* share of the GPUs that is free and that the jobs could not use on average */
    double fair;    /* Jain's index of what queues have against what they are entitled to */
    double least;   /* the share of its entitlement that the worst served queue has, up to 1 */
    int64_t waiting;
};

/* One job, in the order of the trace. */
struct replay_outcome {
    int64_t start_ms; /* last start; below 0: it never started */
    int64_t end_ms;
    uint32_t preempted;
};

/* How often jobs started when it was said that they would; estimates.h. */
struct replay_estimates {
    size_t asked; /* jobs that waited more than a minute, of those chosen, and started */
    size_t none;  /* had no estimate with both ends */
    size_t inside;
    size_t early;
    size_t late;
    size_t raw_inside;  /* would have been, had nothing been learned */
    double width_hours; /* of the bands; median */
    double cpu_s;       /* to make them, in all */
};

struct replay_result {
    const struct replay_policy *policy;
    uint64_t seed;
    VEC(struct replay_sample) samples;
    struct replay_outcome *jobs; /* run over time */
    double at_100; /* filled up: share of the GPUs in use when as much was asked for */
    double at_130;
    int64_t makespan_ms;
    int64_t preemptions;
    double lost_gpu_hours;
    double jain;  /* mean over time */
    double least; /* the same */
    uint64_t decisions;
    double cpu_s;
    struct replay_estimates estimates;
    bool cut; /* stopped before the end */
};
struct replay_results VEC_FIELDS(struct replay_result);

struct replay_report {
    struct arena *arena;
    const struct trace *trace;
    const char *trace_name;
    int64_t gpus;
    size_t node_count;
    const struct replay_results *results;
};

/* Waiting times in hours of the jobs that `picks`, NULL: all. */
struct replay_waits {
    size_t count;
    double mean;
    double median;
    double p99;
    double longest;
    double completion_mean;
    double completion_median;
    double completion_p99;
};
typedef bool replay_pick(const struct trace *trace, size_t job, const void *user);
void replay_waits(const struct replay_report *report,
                  const struct replay_result *result,
                  replay_pick *picks,
                  const void *user,
                  struct replay_waits *ret);
bool replay_pick_large(const struct trace *trace, size_t job, const void *user);

void report_table(struct buf *out, const struct replay_report *report);
void report_json(struct buf *out, const struct replay_report *report);
void report_csv(struct buf *out, const struct replay_report *report);
/* A page with curves, complete in itself. */
void report_page(struct buf *out, const struct replay_report *report);
