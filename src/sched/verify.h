#pragma once

#include <stdbool.h>

struct err;
struct sched;

/* Whether assertions walk whole structures: after every cycle, and as searches end. Set by the
 * build where it is for finding mistakes: with a sanitizer, or without optimization. */
#ifndef SCHED_WALK
#    define SCHED_WALK 0
#endif

/* verify: works out everything derived again from scratch and compares. Linear in the size of the
 * cluster. 0, or -EINVAL with the first thing that is wrong. */
int sched_verify(const struct sched *sched, struct err *err);
/* verify_structures.c, its second part: capacity indexes, sums of pools, lists and victim orders of
 * queues, remembered filter results, held room. Between cycles only. */
int verify_structures(const struct sched *sched, struct err *err);
