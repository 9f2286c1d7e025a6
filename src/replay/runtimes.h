#pragma once

#include "base/map.h"
#include "base/str.h"

#include <stddef.h>
#include <stdint.h>

/* runtimes: how long jobs like this one ran, of those that have ended.
 *
 * Jobs are alike when they are of one queue and of one size (GPUs, to the next power of two). Of
 * each kind the last RUNTIMES_RUNS run times are kept. Where there are fewer than RUNTIMES_LEAST of
 * a kind, all of the queue count, and then all. */
#define RUNTIMES_RUNS  64
#define RUNTIMES_LEAST 5
#define RUNTIMES_KINDS 4096 /* more are not told apart from their queue */

struct runtimes_kind;
struct runtimes {
    struct map kinds; /* struct runtimes_kind by key */
};

void runtimes_done(struct runtimes *runtimes);
void runtimes_add(struct runtimes *runtimes, struct str queue, int64_t gpus, int64_t run_ms);
/* The run time that so many percent of those jobs stayed below; 0: nothing is known. */
int64_t runtimes_percentile(const struct runtimes *runtimes,
                            struct str queue,
                            int64_t gpus,
                            int percent);
