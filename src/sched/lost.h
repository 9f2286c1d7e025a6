#pragma once

#include "sched/spec.h"

#include <stdbool.h>
#include <stdint.h>

struct group;
struct pod_vec;
struct sched;
struct search;

/* lost: what a reclaim costs other queues. */

/* Whether the queues may lose what is really lost of these pods, as units: of every leaf the pods
 * above its minimum one by one, and the rest of the group in one piece. */
bool reclaim_allowed(struct search *search, const struct pod_vec *evicted);

/* The group had been promised the room that the search found. */
void promise_lost(const struct search *search, struct group *group);
/* Takes back what the group was promised in this cycle. */
void promise_undone(struct sched *sched, struct group *group);
/* Whether the group would keep what it reclaims. The room that it was promised last was reclaimed by
 * another one: while that waits it would be so again, unless the room is guaranteed. Else three that
 * each have a better right than the next, by share, by quota and by priority, take turns for ever. */
bool reclaim_lasts(const struct sched *sched,
                   const struct group *group,
                   const int64_t request[static SCHED_RESOURCES]);
