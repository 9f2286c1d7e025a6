#pragma once

#include <stdint.h>

/* rng: numbers that look random and repeat from their seed: for simulations, jitter and tests. Not
 * for secrets. Any seed will do, 0 too. */
struct rng {
    uint64_t state;
};

/* All 64 bits. */
uint64_t rng_next(struct rng *rng);
/* 0 up to but not including `limit`, each equally likely; 0 for a limit of 0. */
uint64_t rng_below(struct rng *rng, uint64_t limit);
/* `low` up to and including `high`. */
int64_t rng_between(struct rng *rng, int64_t low, int64_t high);
