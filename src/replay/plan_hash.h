#pragma once

#include <stdint.h>

struct sched_plan;

/* Of everything in a plan but its words. */
uint64_t plan_hash(const struct sched_plan *plan);
