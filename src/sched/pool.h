#pragma once

#include "base/map.h"
#include "base/str.h"
#include "base/vec.h"
#include "sched/resource.h"
#include "sched/sched.h"

#include <stdbool.h>
#include <stdint.h>

struct node;
struct queue;

/* pool: nodes and queues that belong together. The pool without a name is always there. */
struct pool {
    struct str name;
    struct sched_policy policy;
    bool own_policy;          /* not that of the pool without a name */
    VEC(struct node *) nodes; /* by rank, when sched->ranks_valid */
    VEC(struct queue *) tops;
    struct node *index[4]; /* roots: GPUs; CPU on CPU-only nodes; CPU on GPU nodes; idle GPUs */
    int64_t total[SCHED_RESOURCES];
    int64_t room[RES_PODS];  /* CPU, memory, GPUs idle or releasing on nodes that can be used */
    int64_t idle[RES_PODS];  /* of that, what is free now */
    int64_t whole[RES_PODS]; /* what such nodes have in all */
    int64_t parts;           /* thousandths of GPUs free on shared devices and as MIG instances */
    int64_t min_gpu_memory;  /* of a device, of the nodes that say it; 100: none does */
    int64_t max_gpu_memory;
    int64_t most_gpus; /* of a node that can be used */
    struct map alike;  /* nodes in classes; see alike.h */
};

/* Makes it when there is none of that name. */
struct pool *pool_get(struct sched *sched, struct str name);
/* Sums up what its nodes have for our queues. */
void pool_totals(const struct sched *sched, struct pool *pool);
