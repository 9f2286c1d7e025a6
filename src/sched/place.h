#pragma once

#include "sched/state.h"

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

/* Whether the pod uses GPUs in any way: whole, shared, as MIG instances or through a claim. */
bool place_needs_gpu(const struct pod *pod);

/* Whether the nodes of a pool turn the pod away exactly as any other of its shape: it looks at
 * nothing but them, and neither its labels, its claims nor its queue matter. */
bool place_alike(const struct sched *sched, const struct pod *pod);

/* Counts the nodes of the pool by what turns the pod away at the moment; PLACE_OK: nothing does. */
void place_count(struct sched *sched, struct pod *pod, uint32_t ret[static SCHED_FILTER_COUNT + 1]);

/* filter.c */
enum place_filter filter_static(const struct shape *shape, const struct node *node);
bool filter_allowed(const struct sched *sched, struct shape *shape, const struct node *node);
bool filter_tolerates(const struct sched_pod *spec, const struct node *node, bool prefer);
struct str node_label(const struct node *node, struct str key);
bool node_term_matches(const struct node *node, const struct sched_node_term *term);

/* fit.c */
enum fit fit_resources(const struct sched *sched,
                       const struct pod *pod,
                       struct node *node,
                       enum place_filter *ret_short);
bool fit_shares(struct sched *sched,
                const struct pod *pod,
                struct node *node,
                struct placement *ret);
bool fit_share_open(const struct pod *pod, const struct node *node);

/* affinity.c */
struct affinity;
/* Whether a term of a pod in namespace own_ns selects `pod`. */
bool affinity_term_means(const struct sched_pod_term *term,
                         struct str own_ns,
                         const struct pod *pod);
/* Looks once at every pod the constraints could mean; NULL when there are none. */
struct affinity *affinity_prepare(struct sched *sched, struct pod *pod);
enum fit affinity_fit(const struct affinity *affinity,
                      const struct node *node,
                      enum place_filter *ret_why);
double affinity_score(const struct affinity *affinity, const struct node *node);
void affinity_scale(struct affinity *affinity, const struct node_set *set);
