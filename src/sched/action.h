#pragma once

#include <stdbool.h>

struct group;
struct sched;

/* action: the actions that evict.
 *
 * Somebody may have thousands of groups in a queue that no victims help, no two of them alike, and a
 * search for each would take seconds in every cycle, for everybody. So an action searches for at
 * most ACTION_VAIN_MAX of a queue in vain in one cycle: for the first ACTION_VAIN_HEAD in line in
 * each, so that they lose nothing, and for the others in turn, with cycles ACTION_TURN_MS apart
 * until all had theirs. A search takes up to 0.1 ms for a hundred victims: 25 ms an action. One that takes more steps counts as several: beside a gang of thousands, none of whose
 * pods helps, one search may be all that a cycle has time for. */
#define ACTION_VAIN_MAX   256
#define ACTION_VAIN_HEAD  128
#define ACTION_TURN_MS    1000
#define ACTION_VAIN_STEPS 16384 /* pods that are looked at in 0.1 ms; see SEARCH_STEPS_EVICT */

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
