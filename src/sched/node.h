#pragma once

#include "base/str.h"
#include "base/vec.h"
#include "sched/pod.h"
#include "sched/resource.h"
#include "sched/spec.h"

#include <stdbool.h>
#include <stdint.h>

struct alike;
struct device;
struct group;
struct keep;
struct name;
struct numa;
struct pool;
struct sched;

/* node: what is free on a machine, and what pods take of it. */
#define SHARES_MAX  255 /* shared devices of a node */
#define DEVICES_MAX 256 /* numbered whole devices of a node */

/* One shared device of a node. Memory in MiB. */
struct share {
    bool live;
    struct name *name; /* NULL: opened by the plan under way, not named yet */
    int64_t allocated;
    int64_t releasing;
    int64_t pipelined;
    uint32_t pod_count;
    uint32_t
        kept; /* of them, those that take nothing and hold it open; see sched_pod.keeps_shares */
};

struct node {
    uint32_t slot;    /* index in sched->nodes */
    uint32_t rank;    /* place in name order; see nodes_ranked() */
    bool known;       /* false: only named by pods so far */
    bool ready;       /* known, ready; who tolerates a cordon goes there */
    bool schedulable; /* and not cordoned */
    bool untainted;
    bool mig;
    struct pool *pool;
    uint64_t
        described;  /* sched->descriptions when it was last described; see shape_node_changed() */
    int64_t *total; /* allocatable, by resource */
    int64_t *idle;  /* total less what pods hold, terminating ones included */
    int64_t *releasing;     /* held by terminating pods, less what is promised to pipelined ones */
    VEC(struct pod *) pods; /* holding or promised room here */
    uint32_t mark;          /* scratch of searches: equals sched->mark_now when marked */
    struct str name;
    void *block; /* the memory behind the spec */
    struct sched_node spec;
    struct str model; /* of its GPUs, heap; empty: not known */
    struct share *shares;
    uint32_t share_count; /* slots, live or not */
    uint8_t shut_count;   /* times in a row that it failed to give a device for sharing */
    int64_t shut_ms;      /* no device is opened for sharing until then; 0: it may be */
    int64_t gpu_memory;   /* MiB of one device as the rules count it */
    uint64_t devices_used[DEVICES_MAX / 64];
    VEC(struct device *) devices; /* that drivers publish for this node; see device.h */
    int64_t device_gpus;          /* of them */
    bool device_served;           /* they are had as nvidia.com/gpu, too */
    struct numa *numa;            /* its zones, heap; NULL: not known; see numa.h */
    uint32_t legacy_mig;          /* pods here that use legacy MIG */
    struct node_link {
        struct node *left, *right;
        int64_t key;
        uint32_t priority;
        bool in;
    } links[3];                    /* in the capacity indexes: by GPUs, by CPU */
    int64_t counted[RES_PODS + 1]; /* what it adds to pool->room and pool->parts */
    int64_t counted_idle[RES_PODS];
    int64_t counted_total[RES_PODS];
    struct alike *alike; /* its class; see alike.h */
    uint32_t alike_at;   /* in it */
    bool alike_due;      /* it may be another one */
    bool closer_due;     /* it may have another closer */
    /* NULL: none is known; see closers.h. It may have gone: only its address counts. */
    const struct group *closer;
    uint32_t kept_for; /* id of the group room was last kept for here; see reserve.h */
    struct keep *keep; /* during a cycle: the reservation that counts on this node */
};

/* NULL: there is none, and none is made. */
struct node *node_get(struct sched *sched, struct str name, bool make);
void node_free(struct node *node);
/* Gone for good once nothing names it; pods that are still said to be there keep it. */
void node_release(struct sched *sched, struct node *node); /* NULL is allowed */
/* Ranks nodes by name, where one came or went. */
void nodes_ranked(struct sched *sched);

/* Whether the device of that number is known to be somebody's, as a whole or shared. */
bool device_is_used(const struct node *node, int64_t number);
/* The name of a shared device, NULL: none. */
void share_name(struct share *share, struct name *name);
/* MiB that the pod takes of each shared device. */
int64_t share_memory(const struct pod *pod, const struct node *node);
/* The slot of the shared device of that name, a new one when there is none. NULL: a new one. */
uint8_t share_open(struct node *node, struct name *name);
/* Whether there is one, or room for another: SHARES_MAX are all that can be told apart. */
bool share_can_open(const struct node *node, const struct name *name);
/* How many more there is room for. */
int64_t shares_left(const struct node *node);

/* Adds (1) or takes off (-1) what a pod in that status holds, or is promised, on the node; `slots`
 * are those of its shared devices there. */
void node_weigh(struct pod *pod,
                struct node *node,
                enum status status,
                const uint8_t *slots,
                int64_t sign);
