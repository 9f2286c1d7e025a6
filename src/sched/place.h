#pragma once

#include "sched/node.h"
#include "sched/pod.h"
#include "sched/sched.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* place: the best node for one pod.
 *
 * Filters (which nodes may take it), fit (whether there is room, now or when terminating pods have
 * ended), score (which is best). Greedy: the best node that fits; ties go to the first name. */

enum fit {
    FIT_NO,
    FIT_RELEASING, /* once what is terminating has gone */
    FIT_IDLE,
};

/* Where to look. `bonus` adds to the score of each node (topology preference). */
struct node_set {
    struct node **nodes; /* by rank; NULL: every node of the pool */
    size_t count;
    const double *bonus; /* parallel to nodes, or NULL */
};

struct placement {
    struct node *node; /* NULL: none */
    enum fit fit;
    uint8_t shares[SHARE_DEVICES_MAX];
    uint8_t share_count;
    uint8_t way;       /* which of the sets of shared devices it could have there; the best is 0 */
    uint32_t span;     /* NUMA zones it would be spread over; 0: zones do not matter to it */
    uint32_t lent_for; /* id of the group whose kept room this is, to be given back; 0: nobody's */
};

/* SCHED_FILTERS under short names. */
enum place_filter {
#define PLACE_FILTER_ENUM(name, ...) PLACE_##name = SCHED_FILTER_##name,
    SCHED_FILTERS(PLACE_FILTER_ENUM)
#undef PLACE_FILTER_ENUM
    PLACE_OK = SCHED_FILTER_COUNT,
};
bool place_find(struct sched *sched,
                struct pod *pod,
                const struct node_set *set,
                struct placement *ret);

/* All nodes that fit, best first; of those that are `alike` only the first, and `most` at most. */
struct place_score { /* parts in the order of their weight: none outweighs one before it */
    double coarse;   /* nomination, pod affinity, topology, sharing, availability */
    double wish;     /* node preferences, which KAI does not have */
    double zones;    /* few NUMA zones rather than many */
    bool type;       /* a CPU pod on a CPU node */
    double fine;     /* packing or spreading */
};
struct place_choice {
    struct placement placement;
    struct place_score score;
};
struct place_choices {
    struct place_choice *items;
    size_t most;
    bool (*alike)(const void *user, const struct node *a, const struct node *b);
    const void *user;
    size_t count;
    bool more; /* than `most` */
};
void place_choose(struct sched *sched,
                  struct pod *pod,
                  const struct node_set *set,
                  struct place_choices *choices);

/* Whether the nodes of a pool turn the pod away exactly as any other of its shape: it looks at
 * nothing but them, and neither its labels, its claims nor its queue matter. */
bool place_alike(const struct sched *sched, const struct pod *pod);

/* Counts the nodes of the pool by what turns the pod away at the moment; PLACE_OK: nothing does. */
void place_count(struct sched *sched, struct pod *pod, uint32_t ret[static SCHED_FILTER_COUNT + 1]);
