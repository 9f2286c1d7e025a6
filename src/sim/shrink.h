#pragma once

#include "sim/sim.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arena;

/* shrink: the least of what came from outside that still makes a run fail.
 *
 * Runs the failing run again with fewer steps and without some of its events, halves first and
 * single ones last, and keeps what fails in the same way: with the same sentence, names and numbers
 * aside. Without an event everything after it may come in another order, so each attempt is tried
 * in SHRINK_ORDERS of them. It ends after SHRINK_RUNS runs or SHRINK_STEPS steps of them together,
 * a minute or two. The result is small, not the smallest. */
#define SHRINK_ORDERS 4
#define SHRINK_RUNS   600
/* A usual run takes 5,000 and 0.1 s; one that never comes to rest takes SIM_STEPS_MAX. */
#define SHRINK_STEPS 5000000

struct shrunk {
    /* What fails: options->only, only_count, order and steps; in the arena. */
    struct sim_options options;
    size_t before; /* events from outside in the run as it was */
    size_t runs;   /* that were tried */
    struct sim_result result;
};

/* False: the run does not fail. */
bool sim_shrink(const struct sim_options *failing, struct arena *arena, struct shrunk *ret);
