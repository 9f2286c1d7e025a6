#pragma once

#include <stdbool.h>

struct group;
struct pod_vec;
struct sched;

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
 *    policy.reserve_after_ms gets a keep: nodes chosen by a trial so that as little as possible is
 *    in the way there (spot.h). No new work goes there, so the wait is bounded by what runs there already. Keeps
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

/* Promises of the last cycle that were not reservations end. */
void promises_forgotten(struct sched *sched);
/* Starts what can be started of both kinds and keeps room for the rest. */
void action_reserve(struct sched *sched);
/* The group did not fit: there is a cycle when it has waited long enough. */
void keep_wake(struct sched *sched, const struct group *group);
