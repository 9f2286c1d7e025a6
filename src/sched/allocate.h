#pragma once

#include "base/str.h"
#include "sched/group.h"
#include "sched/node.h"
#include "sched/place.h"
#include "sched/pod.h"
#include "sched/queue.h"
#include "sched/sched.h"
#include "sched/spec.h"
#include "sched/tasks.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* allocate: place the pods of one group, all or nothing, inside the undo journal. */

/* Why the last attempt failed. */
struct failure {
    enum sched_reason reason;
    uint32_t cycle;  /* in which it was recorded; pod and queue are good in that cycle only */
    struct pod *pod; /* that found no node */
    size_t placed;   /* pods of the group that did before it */
    bool cut;        /* not every way to place them was tried; see arrange.h */
    const struct queue *queue;
    enum sched_resource resource;
    struct str text; /* topology: in the cycle's arena, or in `words` where it is kept */
    char words[160];
};

/* Places `tasks`. later: only promise room (search); else pods that fit now are bound. False leaves
 * everything as it was. */
bool allocate_tasks(struct sched *sched,
                    struct group *group,
                    const struct pod_vec *tasks,
                    bool later,
                    struct failure *ret);

/* The same, room only promised, on these nodes alone. unbounded: whatever its queues still let in. */
bool allocate_within(struct sched *sched,
                     struct group *group,
                     const struct pod_vec *tasks,
                     const struct node_set *within,
                     bool unbounded,
                     struct failure *ret);

/* The same, every way in turn until others have accepted one; see arrange.h. */
struct attempt;
bool allocate_beside(struct attempt *attempt, const struct pod_vec *tasks);

/* The same with a node given for each; pods that fit now are bound, the others promised room. */
bool allocate_at(struct sched *sched,
                 struct group *group,
                 const struct pod_vec *tasks,
                 struct node **nodes,
                 struct failure *ret);

/* Whether these pods of a group, which were told to go in this cycle, can all stay where they are.
 * They are placed as anybody is, so that their queue has to have room for them too. */
bool pods_stay(struct sched *sched, struct group *group, const struct pod_vec *pods);

/* Whether one of its shape, and so it, found no room in this round: in whatever order such groups
 * are tried, each fails, by its queue or for want of room. */
bool allocate_in_vain(const struct sched *sched, const struct group *group);
/* Remembers why the last attempt failed. */
void explain_failure(struct sched *sched, struct group *group, const struct failure *failure);
