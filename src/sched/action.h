#pragma once

#include <stdbool.h>

struct group;
struct sched;

/* action: the actions that evict. */
void action_consolidate(struct sched *sched);
void action_reclaim(struct sched *sched);
void action_preempt(struct sched *sched);
void action_stale(struct sched *sched);

/* A gang that fell apart, or is whole again: the plan says so. */
struct stale_note {
    struct group *group;
    bool stale;
    bool over; /* its time to run is */
};
