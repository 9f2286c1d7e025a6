#pragma once

#include "base/vec.h"
#include "sched/allocate.h"
#include "sched/order.h"
#include "sched/reclaim.h"
#include "sched/sched.h"
#include "sched/state.h"

#include <stdbool.h>
#include <stddef.h>

/* search: whom to evict so that a group can start.
 *
 * The group's pods are added one at a time. For each, victims are proposed unit by unit in the
 * order of the rules; what could help is evicted in the journal and everybody concerned is placed
 * again in fair order. The first set of victims that lets the pods in and that the action finds
 * valid is kept, and the next pod builds on it. */
struct search {
    struct sched *sched;
    struct group *group;
    enum sched_action action;
    struct pod_vec tasks;
    /* Whether a group may lose pods to this one. */
    bool (*may_lose)(const struct search *search, const struct group *victim);
    struct reclaim reclaim;   /* SCHED_ACTION_RECLAIM */
    enum sched_reason reason; /* why the last attempt failed; NONE: its result was not allowed */
    bool crowded;             /* in the last attempt a victim found its room before the group did */
    struct pod_vec recorded;  /* victims kept from the pods before */
};

/* True: the journal holds the whole solution. False: everything is as it was. */
bool search_run(struct search *search);
/* Takes a pod's room from it, in the journal. One that this cycle placed, or that was only promised
 * room, simply waits again; one that this cycle moved goes on ending where it was. */
void pod_send_away(struct sched *sched, struct pod *pod);
/* hopeless.c: whether no victims at all could make the group fit: it asks for more than the empty
 * cluster, or than any domain of a required topology, or for more domains than there are. */
bool search_hopeless(struct search *search);
/* How many of the tasks the nodes of the pool would hold with nothing else on them; all of them
 * where that takes more than counting. */
int64_t tasks_held_empty(const struct sched *sched,
                         const struct pool *pool,
                         const struct pod_vec *tasks);

/* How long the group's own queue, or one above it, lets it run before it can be evicted. */
int64_t runtime_of(const struct group *group, enum sched_action action);
/* While protected, a group keeps its minimum. */
bool runtime_protects(const struct sched *sched,
                      const struct group *victim,
                      const struct group *by,
                      enum sched_action action);

/* action.c */
void action_consolidate(struct sched *sched);
void action_reclaim(struct sched *sched);
void action_preempt(struct sched *sched);
void action_stale(struct sched *sched);
