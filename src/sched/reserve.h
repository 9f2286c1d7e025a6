#pragma once

#include "sched/allocate.h"
#include "sched/place.h"
#include "sched/state.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* reserve: large gangs do not starve.
 *
 * Two kinds of reservation:
 *
 * 1. What eviction freed. A group that a search made room for (group->reserved) keeps its promises
 *    from cycle to cycle: its pods stay pipelined where they are, and what is promised is nobody
 *    else's. Each cycle looks whether the room is idle by now, there or elsewhere, and binds. The
 *    reservation ends when the group starts, when its pods go, or when the room does (a victim that
 *    could not be evicted, a node that left).
 *
 * 2. What ageing keeps. The first group of a queue that lacks only what others hold (room, or what
 *    is left of a limit), that is within its queue's fair share, and that has waited for
 *    policy.reserve_after_ms gets a keep: nodes chosen so that as little as possible is still in
 *    use there. No new work goes there, so the wait is bounded by what runs there already. Keeps
 *    are chosen anew in each cycle, and never for worse: what others hold of a keep only shrinks,
 *    because nothing new goes there and nodes are only exchanged for nodes with less in use.
 *
 * Room that is kept is lent to work that provably does not delay the gang: to pods whose deadline
 * ends them before the gang can be sure of its room, and to groups that can be evicted at once
 * (preemptible, no minimum run time). Those are called back when nothing else is in the way.
 *
 * Keeps exist during a cycle only: as amounts taken from `releasing` of their nodes, put there by
 * action_reserve() and taken away by keeps_close(). Between cycles only the choice is remembered
 * (node->kept_for), so that no event has to look after them. */

#define KEEPS_MAX      4     /* groups of a pool for which room is kept at the same time */
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

/* Promises of the last cycle that were not reservations end. */
void promises_forgotten(struct sched *sched);
/* Starts what can be started of both kinds and keeps room for the rest. */
void action_reserve(struct sched *sched);
/* The group did not fit: there is a cycle when it has waited long enough. */
void keep_wake(struct sched *sched, const struct group *group);
/* No keep is in force any more. */
void keeps_close(struct sched *sched);
/* The group's own keep does not stand in its way while it tries something. */
void keep_lift(struct sched *sched, const struct group *group);
void keep_restore(struct sched *sched, const struct group *group);
/* Room for the pod among what is kept for others, if it may be lent to it. */
bool keep_lend(struct sched *sched, struct pod *pod, struct placement *ret);
/* Since when the group waits for its minimum. */
int64_t group_waits_since(const struct group *group);
/* Whether room is kept for the group. */
bool group_kept(const struct sched *sched, const struct group *group);
