#pragma once

#include "sched/allocate.h"
#include "sched/order.h"
#include "sched/state.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct search;

/* propose: victims one unit after the other, in the order of the rules, and what their going would
 * free.
 *
 * A unit is one pod above a gang's minimum, or all that is left of the gang. With a `task` the room
 * that everything proposed would free is added up per node as it is proposed, so that a proposal
 * that cannot make room for a pod like it costs a comparison. Invariant, checked by
 * proposals_right(): freed[] of a node is what its pods that are proposed or recorded hold of the
 * task's resources. */
struct proposals {
    struct search *search;
    struct order order;
    struct pod_vec pods;    /* the newest unit */
    struct pod_vec taken;   /* everything proposed */
    const struct pod *task; /* NULL: nothing is added up */
    int64_t *freed;         /* by node slot and want of the task */
    size_t tried;           /* length of the journal when it was opened */
    bool scattered;         /* some proposed group has more than one pod */
};

void proposals_open(struct proposals *proposals, struct search *search, const struct pod *task);
/* Adds the next unit. False: there are no more. */
bool propose(struct proposals *proposals);
void proposals_close(struct proposals *proposals);
/* With a task. An upper bound: with everything proposed or recorded gone from the node, would the
 * task fit there? */
bool proposals_could_hold(const struct proposals *proposals, const struct node *node);
