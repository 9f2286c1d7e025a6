#pragma once

#include <stdint.h>

struct err;
struct node;
struct sched;

/* closers: of each node, the group that is the last of its GPU pods to be proposed as a victim.
 *
 * A pod that takes all GPUs of a node can start there once that group is gone, and not before. So
 * whoever searches victims for such pods goes from closer to closer in the order of victims, and
 * passes by all others: see victims_closing() in victims.h. A node has a closer only if all that
 * hold GPUs there are of one queue, and if it is alone in its group.
 *
 * A node whose pods change, or change places in the order of victims, is noted, and finds its closer
 * when somebody asks or the cycle ends: a cycle pays for the nodes that it changed. */
void closers_note(struct sched *sched, struct node *node);
/* Every node has its closer now, and queue->sorted of every queue is as it should be. */
void closers_settle(struct sched *sched);
/* GPUs of the kind that closers count, of the node with most of them. */
int64_t closers_most(const struct sched *sched);
/* Whether all of it is as it should be. */
int closers_verify(const struct sched *sched, const struct node *node, struct err *err);
