#pragma once

#include "base/str.h"
#include "sched/spec.h"

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

struct log;
struct scheduler_stats;

/* usage_prometheus: queues' use over time from a Prometheus server, with KAI's metric names.
 *
 * One query a resource: the sum over the window of what each queue held by the sum of what the
 * cluster had, older samples weighing less where there is a half-life. Answers arrive on the loop;
 * the latest ones are kept. A server that does not answer changes nothing; it is logged. */
#define PROMETHEUS_TIMEOUT_MS 10000
#define PROMETHEUS_BYTES_MAX  ((size_t)4 << 20)

struct prometheus;

struct prometheus_options {
    uv_loop_t *loop;
    struct str url;        /* copied */
    const struct log *log; /* may be NULL */
    struct scheduler_stats *stats;
};

struct prometheus *prometheus_new(const struct prometheus_options *options);
/* NULL is fine. A question under way is given up. */
void prometheus_free(struct prometheus *prometheus);
/* Asks, unless a question is under way. */
void prometheus_ask(struct prometheus *prometheus,
                    int64_t half_life_ms,
                    int64_t window_ms,
                    int64_t now_ms);
/* What is known of a queue; false: nothing yet. */
bool prometheus_usage(const struct prometheus *prometheus,
                      struct str queue,
                      double ret[static SCHED_RESOURCES]);
