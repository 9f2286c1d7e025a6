#pragma once

struct sched;
struct sched_plan;

/* plan: from what the cycle did to the list of what has to be done. */
void plan_emit(struct sched *sched, struct sched_plan *ret);
