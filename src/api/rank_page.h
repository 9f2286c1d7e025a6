#pragma once

#include <stdint.h>

/* rank_page: what a training process tells of itself, without a socket or a thread: one file of one
 * page a process in the folder that RANK_PAGE_ENV names, mapped by the process and read from
 * outside. Its name is "RANK-PID"; src/observe/hook.py writes it, src/observe/ranks.c reads it.
 *
 * All members are of eight bytes, in the machine's byte order, and written one at a time: each is
 * whole, but two that belong together may be a step apart. Moments are of CLOCK_MONOTONIC, which is
 * one clock for all containers of a machine. Nothing in it is trusted: whoever trains writes it. */
#define RANK_PAGE_ENV   "MUSTER_RANKS_DIR"
#define RANK_PAGE_MAGIC UINT64_C(0x3130454741504d52) /* "RMPAGE01" where the low byte is first */
#define RANK_PAGE_BYTES 4096

/* Where the process is. X(NAME, word for people) */
#define RANK_PHASES(X)               \
    X(CODE, "its own code")          \
    X(BACKWARD, "the backward pass") \
    X(LOADER, "the data loader")     \
    X(SAVE, "torch.save")            \
    X(MEET, "a collective in its own code") /* seen from outside; no page says so */

enum rank_phase {
#define RANK_PHASE_ENUM(name, word) RANK_PHASE_##name,
    RANK_PHASES(RANK_PHASE_ENUM)
#undef RANK_PHASE_ENUM
    RANK_PHASE_COUNT
};

struct rank_page {
    uint64_t magic; /* written last, when all the rest is there */
    uint64_t pid;   /* as the process itself sees it */
    uint64_t rank;
    uint64_t local_rank;
    uint64_t started_ns;
    uint64_t steps;    /* of optimizers, all together */
    uint64_t step_ns;  /* end of the last one; 0: none yet */
    uint64_t phase;    /* enum rank_phase */
    uint64_t phase_ns; /* since when */
    /* Of a hook that is older these are 0: */
    uint64_t first_ns; /* end of the first step; 0: none yet */
    uint64_t save_ns;  /* all time spent in saving so far */
    uint64_t mark; /* steps before the last checkpoint that was written whole, and one; 0: none */
    uint64_t resumed; /* steps that loaded optimizers say they had made, and one; 0: they do not */
    uint64_t
        loaded_ms; /* before training it loaded a file of this age, by the wall clock; 0: none */
    /* What it takes of a step outside of the backward pass, in which ranks of DDP wait for each other:
     * the median of the last 20 steps, by the card's clock where it trains on one. Steps of all ranks
     * are equally long; who takes most for itself holds up the others. 0: not known, or no DDP. */
    uint64_t own_ns;
    uint64_t late_ns; /* end of the last step that took two seconds or more; 0: none */
    /* In millionths, of the same steps: which part of a step that is (the median of the parts, which
     * does not change when steps become longer for all), and how far one of two steps is from the
     * median at least, by the time or by the part, whichever is less. */
    uint64_t own_part;
    uint64_t own_spread;
    uint64_t
        world; /* ranks that DDP averages gradients over, if these are all of them; 0: others */
    uint64_t passes; /* through the backward pass that have begun */
};
_Static_assert(sizeof(struct rank_page) <= RANK_PAGE_BYTES, "the page holds it");
