#pragma once

#include <stdbool.h>

struct err;
struct sched;

/* verify: works out everything derived again from scratch and compares. For tests; linear in the
 * size of the cluster. 0, or -EINVAL with the first thing that is wrong. */
int sched_verify(const struct sched *sched, struct err *err);
