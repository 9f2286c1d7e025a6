#pragma once

#include "base/str.h"
#include "sched/spec.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arena;
struct json;

/* usage: what each queue has used over time, as a share of what there was. Pure.
 *
 * The window is cut into USAGE_BUCKETS pieces; each keeps what was held and what there was, times
 * seconds. The share of a queue is the weighted sum of the first by that of the second, weights
 * halving with every half-life of age (all 1 without one). The record of a queue is a line of text
 * that its status keeps, so they outlive a restart; what happened meanwhile counts as nothing. */
#define USAGE_BUCKETS 48

struct usage_params {
    int64_t half_life_ms;
    int64_t window_ms;
};

struct usage_bucket {
    int64_t number; /* moment / length of a bucket */
    double held[SCHED_RESOURCES];
    double there[SCHED_RESOURCES];
};

struct usage {
    struct usage_bucket buckets[USAGE_BUCKETS]; /* by number modulo USAGE_BUCKETS */
};

/* `seconds` passed up to now, in which the queue held `held` of `there`. */
void usage_add(struct usage *usage,
               const struct usage_params *params,
               int64_t now_ms,
               double seconds,
               const double held[static SCHED_RESOURCES],
               const double there[static SCHED_RESOURCES]);
/* 0 to 1 for each resource. */
void usage_shares(const struct usage *usage,
                  const struct usage_params *params,
                  int64_t now_ms,
                  double ret[static SCHED_RESOURCES]);

struct str usage_write(const struct usage *usage,
                       const struct usage_params *params,
                       struct arena *arena);
/* Text of another window length, or that is not ours, is an empty book. */
void usage_read(struct str text, const struct usage_params *params, struct usage *ret);
