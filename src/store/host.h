#pragma once

#include <stdint.h>

struct store;

/* host: the clock, chance, and the loop. */
int64_t store_now(const struct store *store);
uint64_t store_random(struct store *store);
/* Something is due: run a turn before sleeping. */
void store_wake(struct store *store);
