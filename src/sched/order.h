#pragma once

#include "base/vec.h"
#include "sched/group.h"
#include "sched/queue.h"
#include "sched/spec.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* order: which group is next.
 *
 * A tree of heaps that mirrors the queues: at each level the best queue, judged by its best group,
 * down to a leaf and its best group. Shares change as groups are placed, so after each pop the way
 * down is ranked again; queues that were not touched keep their place. Victim orders run backwards,
 * with what was popped taken off its queue's share. */
struct order_entry {
    struct group *group;
    int elastic;
    bool known; /* request is filled in */
    int64_t request[SCHED_RESOURCES];
};

struct order_node {
    struct queue *queue; /* NULL: the root */
    struct order_node *parent;
    VEC(struct order_node *) children; /* heap */
    VEC(struct order_entry) groups;    /* heap */
    size_t cursor;                     /* victims: what is before it in queue->sorted */
    struct order_entry head;           /* victims: the entry under the cursor; group NULL: none */
    bool fresh;                        /* in order->fresh */
    bool queued;                       /* in its parent's heap */
    bool moved;                        /* its first child has to be ranked again */
    int64_t popped[SCHED_RESOURCES];
    /* The queue's rank, and what it was made from: it is compared far more often than that changes. */
    bool ranked;
    int64_t ranked_allocated[SCHED_RESOURCES];
    int64_t ranked_request[SCHED_RESOURCES];
    int64_t ranked_popped[SCHED_RESOURCES];
    struct queue_rank rank;
};

enum order_kind {
    ORDER_PENDING,
    ORDER_VICTIMS, /* backwards */
    ORDER_SEARCH,  /* evicted pods count as waiting */
};

struct group_vec VEC_FIELDS(struct group *);

struct order {
    struct sched *sched;
    enum order_kind kind;
    uint32_t id;
    struct order_node root;
    /* Queues are ranked when the first group is asked for: only then is each one's best known. */
    bool started;
    VEC(struct order_node *) fresh;
    /* Victims: whether a group may be proposed. */
    bool (*admit)(const void *user, const struct group *group);
    const void *user;
};

/* Only one order of each kind may be in use at a time. */
void order_init(struct order *order, struct sched *sched, enum order_kind kind);
/* Victims: every admitted active group below the queue, without touching them yet. */
void order_add_active(struct order *order, struct queue *queue);
void order_push(struct order *order, struct group *group);
/* With the pods it will ask for, where that is not what group_tasks() says. */
struct pod_vec;
void order_push_tasks(struct order *order, struct group *group, const struct pod_vec *tasks);
/* Of what was pushed for the queue only its first `count` groups stay. Whether any went. */
bool order_cut(struct order *order, const struct queue *queue, size_t count);
/* NULL when empty. */
struct group *order_pop(struct order *order);
/* Those that wait and were not popped, in no order; they stay. */
void order_rest(const struct order *order, struct group_vec *ret);
