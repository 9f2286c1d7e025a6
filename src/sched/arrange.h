#pragma once

#include "sched/group.h"
#include "sched/place.h"
#include "sched/pod.h"
#include "sched/tasks.h"

#include <stdbool.h>

struct failure;
struct sched;

/* arrange: a place for every pod of a gang, where taking the best node for one pod after the other
 * found none.
 *
 * Every way is tried, depth first: for each set of subgroups each of its topology's domains, for each
 * pod each node, best first, what asks for most before what asks for less. Left out is only what
 * cannot help: what pods still ask for is more than what is left in sum, another node just like one
 * that did not help, and a node that did not help a pod just like this one. Where it matters who is
 * placed first, as with affinity and topology spread, pods are taken in every order, and nowhere that
 * led to the same pods in the same places before. So the answer is certain for gangs of
 * ARRANGE_CERTAIN pods on as many nodes, and nearly always far above; where it is not, failure->cut
 * says so. */
#define ARRANGE_CERTAIN 8
#define ARRANGE_CHOICES 64 /* nodes of a pod that differ */
/* Nodes looked at for one gang: the pods of a small one on every node it could go to, thousands of
 * times; at 100 ns each that is 10 ms. A larger gang may look at every node twice for each pod, up to
 * ARRANGE_LARGE; all gangs of a cycle together at ARRANGE_CYCLE, a tenth of a second. */
#define ARRANGE_LOOKS 100000
#define ARRANGE_LARGE 400000
#define ARRANGE_CYCLE 1000000
/* States remembered by a gang whose order matters: the last ones, 32 KB. */
#define ARRANGE_SEEN 4096
/* Of those that move others, so many in a cycle are placed in every way beside them. */
#define ARRANGE_BESIDE 128

/* The pods of one group are being placed. */
struct attempt {
    struct sched *sched;
    struct group *group;
    bool later;
    bool unbounded; /* its queues are not asked */
    struct failure *failure;
    /* Asked once all of them have a place, and may place others beside them; false: they are to be
     * elsewhere. It looks at `cost` nodes. NULL: any way will do. */
    bool (*accept)(void *user);
    void *user;
    int64_t cost;
};

/* Puts the pod there, in the journal. */
void attempt_put(struct attempt *attempt, struct pod *pod, struct placement *placement);
/* False leaves everything as it was. */
bool arrange(struct attempt *attempt, const struct pod_vec *tasks, const struct node_set *within);
