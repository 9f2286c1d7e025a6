#pragma once

#include "base/vec.h"
#include "sched/place.h"
#include "sched/state.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* allocate: place the pods of one group, all or nothing, inside the undo journal. */

struct pod_vec VEC_FIELDS(struct pod *);

/* The pods that have to be placed next, in order: what the subgroups lack to their minimum, or,
 * when they have it, one pod more. `search`: pods evicted by the search under way count as waiting.
 */
void group_tasks(struct sched *sched, const struct group *group, bool search, struct pod_vec *ret);
/* The same pods without those of a search, in whatever order. */
void group_tasks_unordered(struct sched *sched, const struct group *group, struct pod_vec *ret);
/* Every leaf that must start has enough pods, waiting ones included. */
bool group_ready(const struct group *group);
/* Whether every leaf has its minimum of pods that hold or are promised room. */
bool group_satisfied(const struct group *group);
/* -1 below its minimum, 0 exactly at it, 1 above. */
int group_elastic(const struct group *group);
/* The same without the pods that the search under way has proposed as victims. */
int group_elastic_left(const struct group *group);
bool set_required(const struct group *group, uint32_t set);
int64_t set_active(const struct set *set);
/* Leaves in the order pods are added; evictions go backwards. */
int set_order(const struct group *group, uint32_t a, uint32_t b);
int pod_order(const struct pod *a, const struct pod *b);
/* What task `index` has to find of one of its wants, once the tasks before it are placed: a claim
 * that they share is found once. */
int64_t task_need(const struct sched *sched,
                  const struct pod_vec *tasks,
                  size_t index,
                  size_t want);
/* What the queues are charged when all of them are placed. */
void tasks_request(const struct sched *sched,
                   const struct pod_vec *tasks,
                   int64_t ret[static SCHED_RESOURCES]);

/* Why the last attempt failed. */
struct failure {
    enum sched_reason reason;
    uint32_t cycle;  /* in which it was recorded; pod and queue are good in that cycle only */
    struct pod *pod; /* that found no node */
    size_t placed;   /* pods of the group that did before it */
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

/* The same with a node given for each; pods that fit now are bound, the others promised room. */
bool allocate_at(struct sched *sched,
                 struct group *group,
                 const struct pod_vec *tasks,
                 struct node **nodes,
                 struct failure *ret);

/* topology.c: the node sets to try for a set of subgroups, best first. Returns false with
 * ret->text when the constraint cannot be understood. */
struct node_sets VEC_FIELDS(struct node_set);
bool topology_subsets(struct sched *sched,
                      struct group *group,
                      uint32_t set,
                      const struct pod_vec *tasks,
                      const struct node_set *within,
                      struct node_sets *ret,
                      struct failure *failure);
