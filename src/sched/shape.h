#pragma once

#include "base/str.h"
#include "sched/resource.h"
#include "sched/spec.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pool;
struct queue;
struct sched;
struct shape_scores;
struct volume;

/* shape: what pods of one template have in common; pods with equal contents share one. */
struct shape {
    struct str key; /* canonical bytes, the identity */
    uint32_t refs;
    uint32_t id;
    void *block;
    struct sched_pod spec; /* in the block; only the fields of a shape */
    struct want *wants;    /* whole resources; neither the pod slot nor shared GPU memory */
    size_t want_count;
    int64_t mig_slices; /* "Ng" of its MIG instances */
    bool wants_mig;
    bool shared;             /* fraction or gpu-memory */
    int64_t devices;         /* shared devices it needs */
    bool best_effort;        /* asks for nothing */
    bool open;               /* no selector and no affinity: any untainted node will do */
    bool local;              /* where it fits depends on the node alone, not on other pods */
    bool scored;             /* preferences order the nodes, not only how full they are */
    bool mounts;             /* claims of volumes that depend on other pods, too */
    bool barred;             /* a claim that should be its own is not */
    struct volume **volumes; /* heap: claims that are not free, see volume.h */
    size_t volume_count;
    uint64_t *known; /* by node slot: static filters were evaluated */
    uint64_t *allowed;
    size_t word_count;
    uint32_t failed_in; /* order in which a pod of this shape found no room */
    struct {
        uint32_t in; /* round in which one alone found none */
        const struct pool *pool;
    } full;
    struct {
        uint32_t in; /* round in which no victims could make room for one alone */
        const struct queue *queue;
        int64_t priority;
        int64_t due_ms; /* its place in line */
        bool preemptible;
        bool contested; /* victims were found, and were not allowed */
    } vain;
    struct {
        uint64_t at; /* version of the nodes; 0: not looked at */
        const struct pool *pool;
        bool none; /* no node of the pool would hold one if it were empty */
    } empty;
    uint32_t *counts; /* heap: place_count()'s result for counted_pool in cycle counted_in */
    uint32_t counted_in;
    const struct pool *counted_pool;
    struct shape_scores *scores; /* heap; NULL: never asked for; see fragment_best.c */
    uint32_t counted_at;         /* among the kinds that fragment.c counts */
};

/* The shape of the pod, with a reference. */
struct shape *shape_get(struct sched *sched, const struct sched_pod *pod);
void shape_unref(struct sched *sched, struct shape *shape); /* NULL is allowed */
/* The node in this slot is described anew: what is remembered of it no longer holds. */
void shape_node_changed(struct sched *sched, uint32_t slot);
