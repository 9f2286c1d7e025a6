#pragma once

#include "sched/node.h"

#include <stdint.h>

struct sched;

/* nodeindex: the nodes of a pool by what is free there. */
enum {
    INDEX_GPU,
    INDEX_CPU,
    INDEX_IDLE, /* GPUs that are free now */
    INDEX_COUNT,
};

/* The room of the node changed: its place in the indexes, and what it adds to its pool. */
void index_update(struct sched *sched, struct node *node);
void index_remove(struct node *node);
/* The first node with at least that key; NULL: none. */
struct node *index_from(struct node *root, int which, int64_t key);
int64_t index_largest(struct node *root, int which); /* key; INT64_MIN: empty */
struct node *index_next(struct node *root, int which, const struct node *node);
