#pragma once

#include "sched/group.h"
#include "sched/pod.h"
#include "sched/search.h"
#include "sched/tasks.h"

#include <stdbool.h>

/* search_try: does the group fit once these victims are gone, and what becomes of them? */

/* Evicts what was recorded and `more`, and sees whether the tasks fit. On success the journal keeps
 * it and `ret` is everybody evicted. Where all are only moved it does not matter who is placed first:
 * those that are to move may have taken the very room they should leave. */
bool search_attempt(struct search *search,
                    const struct pod_vec *tasks,
                    const struct pod_vec *more,
                    struct pod_vec *ret);

/* Where the victims were to be moved for another group in this cycle, and now are lost: that is undone, and
 * all who can go back where they were. Nobody is moved, and then lost for a third one. */
void search_undo_moves(struct search *search);

/* Whether a victim is where it was before the search. One that had only been promised room may have
 * been promised other room: the others can start only if it moves. */
bool search_in_place(const struct sched *sched, const struct pod *pod);

/* Of one set of pods, in no domain. */
static inline bool search_simple(const struct group *group)
{
    return group->set_count == 2 && !group->sets[0].topology->topology.len &&
           !group->sets[1].topology->topology.len;
}
