#pragma once

#include "sched/group.h"
#include "sched/node.h"
#include "sched/place.h"
#include "sched/pod.h"
#include "sched/resource.h"
#include "sched/spec.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sched;

/* keep: room that is kept for a group which has waited long; see reserve.h. */
#define START_SLACK_MS 30000 /* from a bind to the moment from which a deadline counts */

struct keep_slot {
    struct node *node;
    const struct pod *pod;    /* of the group: what is kept is what it asks for */
    const struct want *wants; /* that much; a claim it shares is kept with one of the slots */
};

struct keep {
    struct group *group;
    struct keep_slot *slots;
    size_t count;
    int64_t request[SCHED_RESOURCES]; /* kept in its queues, where a limit may be in the way */
    bool fixed;                       /* and of their quotas */
    bool applied;
    int64_t starts_ms; /* by when everybody in the way has ended; 0: not known */
};

/* In force, or not: as amounts taken from `releasing` of its nodes, and from limits of its queues.
 */
void keep_apply(struct sched *sched, struct keep *keep, bool on);
/* While a group tries something, neither its own keep stands in its way, nor one for work of another
 * queue that goes beyond its share, where the group's stays within its own. */
void keep_lift(struct sched *sched, const struct group *group);
void keep_restore(struct sched *sched);
/* No keep is in force any more. */
void keeps_close(struct sched *sched);
/* Room for the pod among what is kept for others, if it may be lent to it. */
bool keep_lend(struct sched *sched, struct pod *pod, struct placement *ret);
/* Groups that can be told to go at any moment. */
bool group_evictable(const struct group *group);
