#pragma once

#include <stdint.h>

/* count: how many basic blocks the libraries have executed, exact and the same in every run. */
#define COUNTERS 16 /* trace.h adds to one after another */

extern uint64_t count_blocks[COUNTERS];

uint64_t count_now(void);
