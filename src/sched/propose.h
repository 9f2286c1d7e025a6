#pragma once

#include "sched/node.h"
#include "sched/order.h"
#include "sched/pod.h"
#include "sched/tasks.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct queue;
struct search;

/* propose: victims one unit after the other, in the order of the rules, and what their going would
 * free.
 *
 * A unit is one pod above a gang's minimum, or all that is left of the gang. With a `task` the room
 * that each node would have is added up as its pods are proposed (sched->rooms), so that a proposal
 * that cannot make room for a pod like it costs a comparison. Invariant, checked by
 * proposals_right(): the room of a node is what is idle and releasing there, and what its pods that
 * are proposed or recorded hold. */
struct proposals {
    struct search *search;
    struct order order;
    struct pod_vec pods;    /* the newest unit */
    struct pod_vec taken;   /* everything proposed */
    const struct pod *task; /* NULL: nothing is added up */
    size_t tried;           /* length of the journal when it was opened */
    bool last;              /* nothing is left of the group of the newest unit */
    bool scattered;         /* some proposed group has more than one pod */
};

void proposals_open(struct proposals *proposals, struct search *search, const struct pod *task);
/* Whether the search leaves the pod alone, because its eviction was refused lately. */
bool propose_spares(struct search *search, const struct pod *pod);
/* Adds the next unit. False: there are no more. */
bool propose(struct proposals *proposals);
void proposals_close(struct proposals *proposals);
/* The queue that all proposals would come from; NULL: none, or several. */
const struct queue *proposals_queue(const struct search *search);
/* An upper bound: with everything proposed or recorded gone from the node, could the task fit
 * there? Without a task, yes. */
bool proposals_could_hold(const struct proposals *proposals, const struct node *node);
