#pragma once

#include "sched/spec.h"

#include <stdbool.h>
#include <stddef.h>

/* reclaim: when one queue may take from others.
 *
 * Pure arithmetic on the queues as they were before anything was tried. All amounts are in the
 * units of the API; SCHED_UNLIMITED in quota and limit. */
struct reclaim_queue {
    int parent; /* index, -1 at the top */
    double quota[SCHED_RESOURCES];
    bool unset[SCHED_RESOURCES]; /* it goes along with the others; see sched_queue */
    double limit[SCHED_RESOURCES];
    double fair[SCHED_RESOURCES];
    double allocated[SCHED_RESOURCES];
    double fixed[SCHED_RESOURCES];     /* of it, not preemptible */
    double remaining[SCHED_RESOURCES]; /* scratch: what victims leave */
    bool lost;                         /* scratch: remaining is filled in */
};

/* What goes at once: one pod above a gang's minimum, or the gang's core. */
struct reclaim_unit {
    int queue;
    double amount[SCHED_RESOURCES];
};

struct reclaim {
    struct reclaim_queue *queues;
    size_t queue_count;
    int queue;  /* of the group that takes */
    bool unset; /* some queue does not name all resources */
    bool preemptible;
    double request[SCHED_RESOURCES];
    double saturation;
};

/* Whether the queue stays within its fair share with the request. What it does not name goes along
 * with what it names, if that is within quota. */
bool reclaim_within_share(const struct reclaim_queue *queue, const double *request);
/* Whether a group may take anything at all: its queue stays within its fair share. */
bool reclaim_may_start(const struct reclaim *reclaim);
/* Whether it may take these units, in this order within each queue. */
bool reclaim_valid(const struct reclaim *reclaim,
                   const struct reclaim_unit *units,
                   size_t unit_count);

/* Whether any rule could ever let it take from that queue, whatever goes: if not, its groups need
 * not be proposed, and stand in nobody's way. */
bool reclaim_could_take(const struct reclaim *reclaim, int from);
/* Whether no rule ever lets it take the unit: what its queue names of it is within quota, and goes
 * for nothing that the queue does not name. */
bool reclaim_spares(const struct reclaim *reclaim, int from, const double *unit);
/* Of the resources that are asked for: whether the queue has more than its quota of one, or not
 * less of any. */
bool reclaim_above_quota(const double *request, const struct reclaim_queue *from);

/* The two rules by which a unit may go; `remaining` is what its queue has before, `unit` what goes
 * (NULL: whatever may). A unit with something that its queue names, and has within quota, does not
 * go for what the queue does not name. */
bool reclaim_keeps_fair_share(const struct reclaim_queue *from,
                              const double *remaining,
                              const double *unit);
bool reclaim_guarantees_quota(const struct reclaim_queue *to,
                              const double *request,
                              const struct reclaim_queue *from,
                              const double *remaining,
                              const double *unit);
