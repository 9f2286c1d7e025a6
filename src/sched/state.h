#pragma once

#include "base/arena.h"
#include "base/buf.h"
#include "base/map.h"
#include "base/str.h"
#include "base/vec.h"
#include "sched/resource.h"
#include "sched/sched.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct devices;
struct fragment;
struct group;
struct keep;
struct node;
struct pod;
struct pool;
struct queue;
struct room;
struct stale_note;
struct stem;
struct storage;
struct topology_cache;
struct undo;
struct undo_slots;

/* state: the cluster as the core sees it, kept up to date by events in constant time each: here is
 * how its objects are found. Each has a header of its own (node.h, pod.h, group.h, queue.h,
 * claim.h, shape.h, pool.h). An object that is only named, as a pod's group before the group itself
 * arrives, exists with known == false and is completed by its event.
 *
 * The files of the core, from below; no line uses one further down:
 *
 *   objects    names pack resource shape pool nodeindex node pod group
 *   charged    charge share queue runtime quota device claim pick numa volume
 *   derived    victims closers lists journal link leaving
 *   one pod    filter affinity fit fragment fragment_best place
 *   one gang   tasks topology keep arrange allocate
 *   evictions  order pending propose hopeless demand reclaim lost search action
 *   way in     decode decode_numa decode_pod decode_volume event event_device event_volume event_pod
 *              event_group event_hold observe
 *   cycle      spot reserve explain hold plan verify verify_structures cycle
 *   way out    view explain_view policy */
struct sched {
    struct sched_config config;
    struct arena config_arena;
    struct map nodes_by_name, pods_by_key, groups_by_key, queues_by_name, classes, topologies,
        namespaces, claims, shapes, pools_by_name, names;
    VEC(struct node *) nodes; /* by slot; NULL holes */
    VEC(struct queue *) queues;
    size_t nodes_full;         /* slots of nodes below this are taken */
    VEC(uint32_t) alike_due;   /* slots of nodes whose class may be another one; see alike.h */
    bool alike_valid;          /* the others are in theirs */
    VEC(uint32_t) closers_due; /* slots of nodes that may have another closer; see closers.h */
    VEC(struct pool *) pools;
    VEC(struct group *) strays; /* groups without a queue, or only named by pods */
    VEC(struct str) resources;  /* names by number */
    struct map resource_ids;
    size_t resource_capacity;
    uint32_t shape_next_id;
    struct buf shape_key; /* of the last pod: its room is used again */
    uint32_t group_next_id;

    bool queues_dirty;
    bool classes_dirty;
    bool ranks_valid;
    bool totals_dirty;
    bool changed;      /* since the last cycle */
    bool cut;          /* this cycle left groups out for their place in line */
    bool news;         /* something had changed when this cycle began */
    uint64_t searches; /* for victims, so far */
    uint64_t steps;    /* of that: pods looked at or evicted */
    uint64_t nodes_version;
    uint64_t descriptions;      /* of nodes, so far */
    VEC(uint32_t) room_changes; /* slots of nodes whose room changed, while `fragment` is there */
    uint32_t room_epoch;        /* room_changes was emptied so often */

    VEC(struct undo) journal;
    VEC(struct group *) stale;   /* groups known to be stale */
    VEC(struct group *) limited; /* groups with a time to run */
    VEC(struct stale_note) notes;
    VEC(struct room) rooms;       /* by node slot */
    VEC(struct pod *) promised;   /* pods that were promised room by the last plan */
    VEC(struct pod *) leaving;    /* pods that ran and are being deleted */
    VEC(struct pod *) homed;      /* pods that are suspended */
    VEC(struct pod *) given_up;   /* suspended, of gangs that can never go on; in this cycle */
    size_t resuming;              /* pods that go on in a moment */
    VEC(struct pod *) holds;      /* stand-ins, and pods that stay until they are gone; hold.h */
    bool revive;                  /* some pod has ended_on */
    VEC(struct keep *) keeps;     /* during a cycle: reservations by age, in its arena */
    VEC(struct undo) touched;     /* where pods that this cycle touched were at its start */
    VEC(struct undo_slots) slots; /* of the journal and of `touched` */
    bool trying;                  /* changes are recorded */
    uint32_t trials_left;         /* of gangs on empty nodes, in this cycle; see demand.c */
    int64_t trial_looks_left;     /* and nodes that they may look at */
    const struct group *stays;    /* nobody's victim for now; see first_in_line() */
    bool undone;                  /* another cycle helps: it gave room back, or a trial is due */
    int64_t arrange_left;         /* nodes that this cycle may look at yet; see arrange.h */
    int64_t beside_left;          /* and groups that it may place in every way beside others */
    bool models;                  /* some queue limits GPUs by their model, or did */
    bool tenants;                 /* some queue does not take everybody's work, or did not */
    VEC(struct pod *) anti_pods;  /* pods that hold room and keep others away */
    uint32_t near_in;   /* last cycle in which a pod was placed that must be near others */
    size_t soft_taints; /* nodes with PreferNoSchedule taints */
    size_t numa_nodes;  /* nodes with NUMA zones, and the most zones of one */
    uint32_t numa_zones;
    uint32_t order_id;
    /* While groups that wait are tried one after the other: in a round room only ever gets less, or
     * where victims are looked for stays as it is, so that who is alike fails alike; 0: no round. */
    uint32_t round;
    uint32_t mark_now;
    uint32_t cycle;
    int64_t now_ms;
    int64_t wake_ms;
    struct arena *arena; /* of the cycle under way */
    struct topology_cache *topology_cache;
    struct stem *stem;         /* the last sentence why a group waits, heap; see explain.c */
    struct devices *devices;   /* that claims ask for */
    struct storage *storage;   /* volumes, and claims of them */
    struct fragment *fragment; /* NULL: no pool has a strategy that counts the workload */
    struct sched_tally tally[SCHED_ACTION_COUNT];
    void (*measure)(void *user, enum sched_step step); /* NULL: nobody does */
    void *measure_user;
    void (*tap)(void *user, const struct sched_input *input); /* NULL: nobody listens */
    void *tap_user;
    bool observing; /* what an object becomes is no input of its own */
};

static inline bool quirk(const struct sched *sched, enum sched_quirk index)
{
    return (sched->config.quirks >> index & 1) != 0;
}
#define QUIRK(sched, name) quirk(sched, SCHED_QUIRK_INDEX_##name)

static inline void tapped(const struct sched *sched, const struct sched_input *input)
{
    if (sched->tap && !sched->observing)
        sched->tap(sched->tap_user, input);
}

/* The shell is asked for a cycle at that time, even if nothing happens. */
static inline void sched_wake(struct sched *sched, int64_t at_ms)
{
    if (!sched->wake_ms || at_ms < sched->wake_ms)
        sched->wake_ms = at_ms;
}

/* How long to leave alone what failed once more: twice as long each time in a row. */
static inline int64_t rest_ms(uint8_t *failures, int64_t least_ms, int64_t most_ms)
{
    int64_t delay_ms = least_ms;

    for (uint8_t i = 0; i < *failures && delay_ms < most_ms; i++)
        delay_ms *= 2;
    if (*failures < UINT8_MAX)
        (*failures)++;
    return i64_min(delay_ms, most_ms);
}
