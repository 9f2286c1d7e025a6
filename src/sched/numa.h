#pragma once

#include "base/str.h"
#include "sched/spec.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct node;
struct pod;
struct sched;

/* numa: what is free in the NUMA zones of a node, and which zones a pod gets of them.
 *
 * A kubelet with a topology manager refuses a pod whose CPUs, memory and devices do not come from
 * the zones its policy wants, after the pod was bound. So where a node says what its zones have (a
 * NodeResourceTopology) the same rule is applied before. What bound pods have of the zones is what
 * their annotations say, or what the plan chose; of pods that say nothing, nothing is known. */
#define NUMA_ZONES_MAX 64 /* zones of a node */
#define NUMA_KINDS_MAX 16 /* resources that its zones have */

/* Amounts of one zone, by kind. */
typedef int64_t numa_row[NUMA_KINDS_MAX];

struct numa {
    enum sched_numa_policy policy;
    bool by_container;
    bool as_reported; /* what is free began with `reported` */
    uint32_t zone_count;
    uint32_t kind_count;
    struct str *zones;                /* heap, and each of them */
    struct str kinds[NUMA_KINDS_MAX]; /* heap: names of resources */
    /* Amounts by zone, then by kind; one block on the heap. */
    numa_row *allocatable;
    numa_row *reported; /* free, as the node says */
    numa_row *free;     /* less what pods hold, terminating ones too */
    numa_row *soon;     /* less what pods have once those are gone */
};

/* What a pod gets: a row of amounts by kind for each zone. */
struct numa_taken {
    uint32_t span;                    /* zones it is spread over; 0: zones do not matter to it */
    numa_row amounts[NUMA_ZONES_MAX]; /* of the zones that the node has */
};

/* A pod's part of zones, by name: the node's description may come and go. */
struct zone_list;
struct pod_zones {
    struct zone_list
        *seen;             /* what its annotation, or the plan that bound it, says; NULL: nothing */
    struct zone_list *now; /* what is counted on its node: `seen`, or a list of its own */
};

/* NULL: the zones are forgotten. */
void numa_describe(struct sched *sched, struct node *node, const struct sched_numa *spec);
/* The node's pool, or its policy, is another: what is free is counted as that wants it. */
void numa_policy_changed(struct sched *sched, struct node *node);
void numa_free(struct numa *numa); /* NULL is allowed */
/* Whether a pod that asks for this gets zones of what is available in each, and which. `ignore` is a
 * comma-separated list of resources that do not matter. Best effort gives what it finds. */
bool numa_evaluate(const struct numa *numa,
                   const numa_row *available,
                   const struct sched_pod *pod,
                   struct str ignore,
                   struct numa_taken *ret);
/* What is free in each zone now, and not promised to somebody who waits for it. */
void numa_idle(const struct numa *numa, numa_row *ret);
/* Whether zones matter in the node's pool at all. */
bool numa_counts(const struct sched *sched, const struct node *node);

/* Whether a victim that stayed where it is would still find its own zones there. */
bool numa_stays(const struct pod *pod, const struct node *node);

/* What a pod has of its node's zones is counted, or no more; its status is the present one. */
void numa_attach(struct sched *sched, struct pod *pod, struct node *node);
void numa_detach(struct pod *pod, struct node *node);
/* The same for the node a moved pod still holds room on. */
void numa_weigh_left(struct pod *pod, struct node *node, int64_t sign);

/* What an event says. `stays`: where it says nothing, what the plan chose still holds. */
void numa_seen(struct pod *pod, const struct sched_pod *spec, bool stays);
bool numa_says(const struct pod *pod, const struct sched_pod *spec); /* nothing new */
/* The plan binds the pod: its zones are fixed. Good until the next change. */
const struct sched_zone_part *numa_bound(struct pod *pod, size_t *ret_count);
void numa_forget(struct pod *pod);
/* What is counted for the pod now; NULL and 0: nothing. */
const struct sched_zone_part *numa_parts(const struct pod *pod, size_t *ret_count);
