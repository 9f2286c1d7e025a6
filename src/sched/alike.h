#pragma once

#include "base/str.h"
#include "base/vec.h"

#include <stddef.h>

struct err;
struct node;
struct pool;
struct sched;

/* alike: the nodes of a pool in classes that have the same of everything, and the same free of it.
 *
 * Who asks how many nodes turn a pod away, and why, asks one node of each class. A node whose room
 * changes is noted (alike_note), and finds its class when somebody asks or the cycle ends, so a
 * cycle pays for the nodes that it changed. */
struct alike {
    struct str key; /* in `bytes`; empty: nodes that are like no other, asked one by one */
    VEC(struct node *) nodes; /* never empty in pool->alike */
    char bytes[];
};

/* The room of the node, or its description, is not what it was. */
void alike_note(struct sched *sched, struct node *node);
/* Nodes came or went: everything is sorted anew. */
void alike_forget(struct sched *sched);
/* Every node of every pool->nodes is in its class now. */
void alike_settle(struct sched *sched);
void alike_free(struct pool *pool);
/* Whether all of it is as it should be. */
int alike_verify(const struct sched *sched, const struct pool *pool, struct err *err);
