#pragma once

#include <stdbool.h>

struct node;
struct pod;
struct sched;

/* fragment_best: the node that fragment.h would choose, without a look at all of them. What each is
 * to a shape is kept, and worked out again where its room has changed. */

/* Whether fragment_best() can answer for the pod. */
bool fragment_indexed(const struct sched *sched, const struct pod *pod);
/* The node to try first; NULL: none has room. */
struct node *fragment_best(struct sched *sched, struct pod *pod);
