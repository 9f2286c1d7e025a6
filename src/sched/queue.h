#pragma once

#include "base/str.h"
#include "base/vec.h"
#include "sched/pool.h"
#include "sched/resource.h"
#include "sched/sched.h"
#include "sched/spec.h"

#include <stdbool.h>
#include <stdint.h>

struct group;
struct order_node;

/* queue: what a queue holds, fair shares, and the order of queues. */
#define QUEUE_DEPTH_MAX 64 /* levels of queues */
/* An order of waiting groups, of victims, and of everybody in a search may be open at once. */
#define ORDER_KINDS 3

struct priority_count {
    int64_t priority;
    int64_t count;
};

/* A user of a queue that goes by its users. */
struct payer {
    struct str user; /* heap */
    int64_t held[SCHED_RESOURCES];
};

/* Whose turn it is to be searched victims for, where too many are in vain; see action.c. */
struct queue_turns {
    uint32_t cycle; /* that looked last */
    uint32_t since; /* cycle in which the round began: whoever was searched for since then waits */
    uint32_t vain;  /* searches in that cycle */
    bool goes_on;   /* the round is older than the cycle */
    bool left_out;  /* some have not had their turn */
    bool news;      /* since the round began */
};

struct queue {
    struct str name;
    bool known;
    void *block;
    struct sched_queue spec;
    struct pool *pool;
    struct queue *parent;
    VEC(struct queue *) children;
    uint32_t level;
    uint32_t index; /* in sched->queues, creation then name order */
    bool broken;    /* orphan or part of a cycle, or below one */
    VEC(struct group *) groups;
    VEC(struct group *) pending;  /* with pods that wait, gated ones too */
    VEC(struct group *) active;   /* with pods that hold or are promised room */
    VEC(struct group *) frail;    /* active, but some leaf is below its minimum */
    VEC(struct group *) sorted;   /* victims.c: the active groups, the first victim last */
    VEC(struct group *) unsorted; /* not there yet, or perhaps in the wrong place */
    VEC(uint64_t) closing;        /* a bit for each of `sorted`: it is a closer; see closers.h */
    size_t odd; /* active groups that are not one pod that leaves its node and nothing else */
    struct order_node *order_nodes[ORDER_KINDS]; /* scratch of the orders under way */
    uint32_t order_ids[ORDER_KINDS];
    struct queue_turns turns[3]; /* of consolidation, reclaim, preemption */
    int64_t newest_ms;           /* the last in line of those that run, in round newest_in */
    uint32_t newest_in;
    uint32_t lost_in; /* cycle in which it last lost something to another queue */
    /* Active groups by priority, so that asking for lower ones is cheap. */
    VEC(struct priority_count) priorities;
    VEC(struct payer *) payers;
    int64_t models[SCHED_MODELS_MAX]; /* by spec.models: thousandths of GPUs held of each */
    int64_t allocated[SCHED_RESOURCES];
    int64_t fixed[SCHED_RESOURCES]; /* of it, not preemptible */
    int64_t asked[SCHED_RESOURCES]; /* waiting pods */
    int64_t kept[SCHED_RESOURCES];  /* during a cycle: of its limit, for groups that have aged */
    int64_t kept_fixed[SCHED_RESOURCES];
    int64_t
        demand[SCHED_RESOURCES]; /* what it holds, and what it could use beside that; demand.h */
    double fair[SCHED_RESOURCES];
    double usage[SCHED_RESOURCES]; /* as told; counts instead of the spec's */
    bool has_usage;
};

/* Whether its pool runs the action. */
static inline bool queue_runs(const struct queue *queue, enum sched_action action)
{
    return (queue->pool->policy.actions & 1U << action) != 0;
}

/* NULL: there is none, and none is made. */
struct queue *queue_get(struct sched *sched, struct str name, bool make);
void queue_free(struct queue *queue);
/* Whether it, or a queue above it, limits GPUs by their model. */
bool queue_has_models(const struct queue *queue);
/* The user's account there; made where there is none. */
struct payer *queue_payer(struct queue *queue, struct str user);

/* Totals of the pools, and then, once queue->demand is there, the fair share of every queue, top
 * down. Once a cycle. */
void pools_counted(struct sched *sched);
void queues_shared(struct sched *sched);

/* Of a quota or a limit. */
static inline bool unlimited(double value)
{
    return value < 0;
}
/* Amounts in the units of the API: devices, millicores, bytes. */
static inline double queue_units(int r, int64_t amount)
{
    return r == SCHED_GPU ? (double)amount / GPU_MILLI : (double)amount;
}

/* Whether all that the queue names is within quota with `request` beside `held`, and some of the
 * request is named: then what it does not name goes along. */
bool queue_covers(const struct queue *queue,
                  const int64_t held[static SCHED_RESOURCES],
                  const int64_t request[static SCHED_RESOURCES]);

/* Where a queue stands among those with the same parent, with what its best group asks for and what
 * was taken from it as victims (NULL: nothing). During a cycle nothing else counts, so that it holds
 * for as long as these and what the queue was allocated stay as they are. */
struct queue_side {
    const struct queue *queue;
    const int64_t *request;
    const int64_t *popped;
};
struct queue_rank {
    bool over_fair;
    bool within_quota;
    bool no_share; /* it uses what it has no share of */
    double dominant_with;
    double dominant_without;
    double allocatable[SCHED_RESOURCES];
};
struct queue_rank queue_rank(struct queue_side side);
/* Negative: a first. */
int queue_order(const struct queue *a,
                const struct queue_rank *rank_a,
                const struct queue *b,
                const struct queue_rank *rank_b);
