#pragma once

#include "base/str.h"
#include "base/vec.h"
#include "sched/pod.h"
#include "sched/queue.h"
#include "sched/sched.h"
#include "sched/spec.h"

#include <stdbool.h>
#include <stdint.h>

struct failure;
struct line;
struct payer;
struct keep;
struct name;
struct told;

/* group: a gang, the tree of its subgroups, and where it stands to its minimum. */
#define PRIORITY_DEFAULT 50
#define PRIORITY_FIXED   100 /* from here on groups are not preemptible unless they say so */

/* A subgroup: an inner one has children, a leaf has pods. Set 0 is the root. A group without
 * subgroups has the root and one leaf. */
struct set {
    struct str name;                            /* in the group's spec */
    const struct sched_topology_want *topology; /* the same; never NULL */
    int64_t min; /* leaf: pods; inner: members that must be satisfied */
    uint32_t parent;
    uint32_t first_child, next; /* 0: none */
    int32_t count[ST_COUNT];    /* leaf: pods by status */
    int32_t taken;              /* pods that the search under way has proposed as victims */
    bool leaf;
};

/* Consolidation, reclaim and preemption search for victims. */
#define GROUP_SEARCHES       3
#define GROUP_SEARCH(action) ((action)-SCHED_ACTION_CONSOLIDATE)

struct group {
    /* What searches look at comes first, in as few cache lines as it takes. */
    struct queue *queue; /* NULL: does not exist */
    struct set *sets;
    VEC(struct pod *) pods;
    struct line *line; /* heap; NULL: it never had two pods */
    int64_t priority;
    int64_t created_ms;
    int64_t due_ms; /* by which groups of one priority stand in line */
    int64_t last_start_ms;
    uint32_t set_count;
    uint32_t in_active;
    uint32_t sorted_at;    /* index in queue->sorted */
    uint32_t unsorted_at;  /* index in queue->unsorted */
    int8_t sorted_elastic; /* under which it is there */
    bool in_sorted;
    bool in_unsorted;
    bool closes; /* it is the closer of a node, or was; see closers.h */
    bool odd;    /* counted in queue->odd */
    bool preemptible;
    bool semi;
    bool whole;     /* gives up all of its pods or none */
    bool single;    /* gives up any pod alone */
    bool known;     /* false: only named by pods so far */
    uint32_t id;    /* its own for as long as the core lives */
    struct str key; /* ns/name */
    struct str ns;  /* heap; name and key lie behind it */
    struct str name;
    /* What it asks for. NULL names are empty ones. */
    struct name *queue_name;
    struct name *pool_name;
    struct name *class_name;
    struct name *user_name;
    struct name *refusal; /* words; NULL: none */
    struct payer *payer;  /* its user, where the queue counts users; NULL: it does not */
    int64_t own_priority; /* instead of the class's, with has_priority */
    int64_t stale_grace_ms;
    int64_t preempt_delay_ms;
    int64_t last_eviction_ms;
    int64_t expected_ms; /* to run; 0: it does not say */
    int64_t deadline_ms; /* the longest of its pods; 0: none has one */
    int64_t max_run_ms;
    int64_t
        over_ms; /* since when its time to run is over, and it is not to start again; 0: not so */
    bool requeue;
    bool in_limited; /* in sched->limited */
    bool has_priority;
    bool has_stale_grace;
    bool held;
    bool in_stale;
    bool reserved; /* its pipelined pods keep their room across cycles; see reserve.h */
    bool first_start;
    uint32_t stand_ins;    /* see hold.h */
    uint32_t held_in;      /* cycle that looked whether its pods can take their places */
    int64_t hold_until_ms; /* room of pods made before is held until then; 0: it does not say */
    uint8_t failures;      /* of writes for it, in a row */
    enum sched_preemptibility preemptibility : 8;
    enum sched_loss loss : 8;
    uint32_t suspended_in; /* cycle that suspends it instead of evicting it */
    struct sched_group
        *detail;              /* heap, as pack_group() makes it; NULL: no subgroups, no topology */
    int64_t retry_ms;         /* left alone until then: a write for it failed; 0: it is not */
    int64_t counted_priority; /* under which queue->priorities counts it */
    int64_t core[SCHED_RESOURCES]; /* semi: what its minimum is charged as not preemptible */
    int32_t count[ST_COUNT];       /* pods in some set, by status */
    uint32_t in_queue;             /* index in queue->groups */
    uint32_t in_pending;           /* index in queue->pending, or LIST_NONE */
    uint32_t in_frail;
    uint32_t in_strays; /* index in sched->strays while it has no queue */
    int64_t stale_since_ms;
    struct told *told;     /* NULL: it never waited */
    uint32_t resumed_in;   /* when its reservation was last looked at */
    uint32_t robbed_in;    /* cycle in which it last lost room that it was promised; 0: in none */
    uint32_t robbed_by;    /* id of the group that last reclaimed such room; 0: none did */
    uint32_t kept_in;      /* last cycle in which room was kept for it */
    int64_t kept_since_ms; /* since when */
    struct node **kept_at; /* the nodes of its tasks then; only to compare with */
    size_t kept_count;
    int64_t kept_start_ms;             /* by when it starts at the latest; 0: not known */
    int64_t kept_blocked;              /* what others still hold of that room */
    enum sched_resource kept_resource; /* of which */
    struct keep *keep;                 /* during a cycle */
    struct failure *failure;           /* of the last attempt, heap; NULL: none yet */
    struct {
        uint64_t digest; /* of what it depends on */
        int64_t at_ms;
        bool in_vain;
    } trial;                           /* on empty nodes, see demand.c */
    uint32_t searched[GROUP_SEARCHES]; /* cycle in which victims were last searched for in vain */
    uint32_t mark;                     /* scratch: equals sched->mark_now when marked */
    uint32_t batch;                    /* of its binds in cycle batch_cycle */
    uint32_t batch_cycle;
    uint32_t told_in; /* cycle in which the plan says why it waits */
};
#define LIST_NONE UINT32_MAX

/* Of a group that has a queue. */
static inline const struct sched_policy *group_policy(const struct group *group)
{
    return &group->queue->pool->policy;
}

/* How long a pod that starts now holds its room, where that counts: its deadline, or what its group
 * is expected to run; 0: not known. */
static inline int64_t pod_run_ms(const struct pod *pod)
{
    const struct group *group = pod->group;

    if (pod->deadline_ms || !group || !group->queue || !group_policy(group)->lend_expected)
        return pod->deadline_ms;
    return group->expected_ms;
}

/* NULL: there is none, and none is made. */
struct group *group_get(struct sched *sched, struct str ns, struct str name, bool make);
/* Calls the group ns/name. Its key leaves the namespace out where that does not count. */
void group_call(struct sched *sched, struct group *group, struct str ns, struct str name);
/* The leaf that pods with this subgroup label belong to, or SET_NONE. */
uint32_t pod_find_set(const struct group *group, struct str subgroup);

/* The pods of a group in the order in which they are placed, put in order where it is asked for. No pod before
 * `first` waits, or will where its eviction is tried: so the next one of thousands costs no look at the others. */
struct line {
    struct pod **pods;
    size_t first;
    bool valid;
};
/* All of them; `first` has moved on as far as it can. */
struct pod *const *group_pods_in_line(const struct group *group);
/* Pods of it came, went or are called something else. */
void group_line_forget(const struct group *group);
/* The pod, whose status is another one, may be the first that waits. */
void group_line_note(const struct pod *pod);

/* Pods that hold or are promised room. */
int64_t set_active(const struct set *set);
/* Whether it is among those that have to start with the group. */
bool set_required(const struct group *group, uint32_t set);
/* A leaf with its minimum of pods that hold or are promised room; an inner set with enough such
 * members. */
bool set_satisfied(const struct group *group, uint32_t set);
/* Whether pods of it can go and leave it satisfied, proposed victims left out: a pod above the
 * minimum of a leaf, or a whole member more than have to be there. */
bool set_surplus(const struct group *group, uint32_t set);
/* Satisfied without the proposed victims, and by some pods. */
bool set_left(const struct group *group, uint32_t set);
/* Whether the set is `ancestor`, or a part of it. */
bool set_below(const struct group *group, uint32_t set, uint32_t ancestor);
/* What must start has enough pods, waiting ones included. */
bool group_ready(const struct group *group);
/* The root is satisfied. */
bool group_satisfied(const struct group *group);
/* The same with pods that are on their way out: it did not fall apart. */
bool group_whole(const struct group *group);
/* -1 below its minimum, 0 exactly at it, 1 above. */
int group_elastic(const struct group *group);
/* The same without the pods that the search under way has proposed as victims. */
int group_elastic_left(const struct group *group);
/* A leaf whose minimum counts on room that is still in use: nothing of the group may start yet. */
bool group_must_wait(const struct group *group);
/* Until when it may not take anything from others: its own preemptionDelay; 0: it may. */
int64_t group_delayed_until(const struct sched *sched, const struct group *group);
/* It has run for as long as it may. */
bool group_timed_out(const struct sched *sched, const struct group *group);
/* Since when the group waits for its minimum. */
int64_t group_waits_since(const struct group *group);
/* Whether a pod of it was suspended and is about to go on: it is left alone meanwhile. */
bool group_resuming(const struct sched *sched, const struct group *group);
/* A pod of it that is suspended; NULL: none is. */
const struct pod *group_suspended(const struct sched *sched, const struct group *group);
/* Whether room is kept for the group. */
bool group_kept(const struct sched *sched, const struct group *group);

/* Members of a set in the order pods are added; evictions go backwards. */
int set_order(const struct group *group, uint32_t a, uint32_t b);
/* The same, and what cannot start for want of pods after what can. */
int set_start_order(const struct group *group, uint32_t a, uint32_t b);
/* Which of two groups of one queue is next as things are: group_order(), unless the queue goes by
 * its users. */
int group_line(const struct group *a, int a_elastic, const struct group *b, int b_elastic);
/* The order of two groups of one queue: -1, 0, 1. */
int group_order(const struct group *a, int a_elastic, const struct group *b, int b_elastic);
