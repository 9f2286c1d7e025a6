#pragma once

#include "sched/sched.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct api;
struct cache;
struct reservations;

/* scheduler_apply: carries a plan of the scheduler out through struct api: binds, evictions,
 * nominations and what pod groups remember. */
struct applier;

#define APPLIER_COMPONENT "muster-scheduler" /* source of events */

/* A bind (of a whole gang) or an eviction came back. */
struct applier_outcome {
    int code; /* 0, or negative: take the decision back */
    bool evict;
    bool refused; /* an eviction, by a PodDisruptionBudget */
    const struct sched_pod_ref *pods;
    size_t pod_count;
    struct str ns; /* of the group that it was for */
    struct str group;
    int64_t planned_ms; /* when it was decided */
    /* Of each pod of a bind that failed, whether it was bound and is being deleted again; NULL:
     * none was. */
    const bool *undone;
};

struct applier_options {
    struct api *api;
    const struct cache *cache;         /* pods and pod groups */
    struct reservations *reservations; /* of shared devices on a cluster; NULL: none are needed */
    bool autoscalers; /* pods of gangs and jobs are told to stay where they are (api/autoscale.h) */
    bool suspends;    /* with them: pods that share devices may be suspended (exec/suspender.h) */
    void (*done)(void *user, const struct applier_outcome *outcome);
    /* Asked about a gang whose binds waited for evictions: does it still fit into its queue? */
    bool (*may_bind)(void *user, struct str ns, struct str group);
    /* Whether a pod is promised room on a node, and which. */
    bool (*is_promised)(void *user, struct str ns, struct str pod, struct str *ret_node);
    /* Nothing waits any more: applier_is_waiting() has become false. */
    void (*ready)(void *user);
    void (*again)(void *user); /* wants a turn soon */
    /* Whether the volumes of a pod that is to be bound can be used; see sched_volumes(). */
    enum sched_volumes (*volumes)(void *user,
                                  const struct sched_pod_ref *pod,
                                  struct str node,
                                  struct str *ret_claim);
    /* Whether a minimum run time is set anywhere: then the moment a gang starts is written down. */
    bool (*keeps_starts)(void *user);
    void *user;
};

struct applier *applier_new(const struct applier_options *options);
/* No outcome is told after this. NULL is fine. */
void applier_free(struct applier *applier);

/* The binds of a plan that evicts wait until its evictions have been answered: they may count on
 * what the evicted pods gave up in their queue, and an eviction can be refused. No other plan must
 * be made meanwhile. */
bool applier_is_waiting(const struct applier *applier);
void applier_apply(struct applier *applier, const struct sched_plan *plan, int64_t now_ms);
/* Whether binds wait for volumes: every change of claims, volumes and pods wants a turn then. */
bool applier_awaits_volumes(const struct applier *applier);
/* Sends again what has to be. When to come back; INT64_MAX: need not be. */
int64_t applier_turn(struct applier *applier, int64_t now_ms);
