#pragma once

#include "base/map.h"
#include "base/str.h"

#include <stddef.h>
#include <stdint.h>

/* runtimes: how long jobs like this one ran, of those that have ended.
 *
 * Jobs are alike when they have the same name but for a number behind it, and the same size (GPUs,
 * to the next power of two); else when they are of one user, queue and size; of one queue and size;
 * of one queue; and else all are. The first of these of which RUNTIMES_LEAST runs are known counts.
 * Of each kind the last RUNTIMES_RUNS run times are kept; where there are too many kinds, the one
 * that was added to longest ago is forgotten. */
#define RUNTIMES_RUNS  64
#define RUNTIMES_LEAST 5
#define RUNTIMES_KINDS 4096 /* a KiB each */

struct runtimes_kind;
struct runtimes {
    struct map kinds; /* struct runtimes_kind by key */
    struct runtimes_kind *newest, *oldest;
};

/* Of so many values in order, the one that `percent` of them do not exceed: the smallest such rank,
 * so that of a few values the 99th percentile is the largest. 0 where there are none. */
static inline size_t percentile_at(size_t count, unsigned percent)
{
    size_t rank = (count * percent + 99) / 100;

    return rank ? rank - 1 : 0;
}

/* What of a job counts; an empty field is not looked at. */
struct runtimes_like {
    struct str name; /* namespace/name */
    struct str user;
    struct str queue;
    int64_t gpus;
};

/* Run times of one kind, shortest first; good until the next runtimes_add(). */
struct runtimes_known {
    const int64_t *sorted_ms;
    size_t count;
};

void runtimes_done(struct runtimes *runtimes);
void runtimes_add(struct runtimes *runtimes, const struct runtimes_like *like, int64_t run_ms);
/* None: nothing is known. */
struct runtimes_known runtimes_of(const struct runtimes *runtimes,
                                  const struct runtimes_like *like);
/* The run time that so many percent of those jobs stayed below; 0: nothing is known. */
int64_t runtimes_percentile(const struct runtimes *runtimes,
                            const struct runtimes_like *like,
                            unsigned percent);
/* A run time that a job has which ran for age_ms and did not end: one of those that are known and
 * longer, each as likely, or, as likely as one of them, up to three times the longest. `drawn` is
 * a share of 2^32. 0: nothing is known. */
int64_t runtimes_draw(struct runtimes_known known, int64_t age_ms, uint32_t drawn);
