#pragma once

#include <stddef.h>
#include <stdint.h>

/* count: how many basic blocks the libraries have executed, exact and the same in every run. */
struct count {
    uint64_t blocks;
    uint64_t most;      /* above which something is done at each: count_until() keeps it */
    uint64_t enough_at; /* above which `enough` is called, from wherever that is */
    void (*enough)(void);
    uint32_t *places; /* NULL, or how often each place in the program was passed */
};

#define COUNT_PLACES ((size_t)32 << 20) /* bytes of a program */

extern struct count count;

void count_until(uint64_t blocks);
