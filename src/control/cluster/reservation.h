#pragma once

#include "base/arena.h"
#include "base/str.h"
#include "base/vec.h"
#include "sched/sched.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct sharing_settings;

/* reservation: how a shared GPU is held on a cluster, as a state machine. sharing.h says what a
 * reservation is and makes its objects; exec/reservations.c sends the requests.
 *
 * One reservation is one group on one node. Events tell what was seen and answered, actions say
 * what to do; there is no I/O and no clock here. The states of a reservation:
 *
 *              CREATE          seen              told
 *       NONE ----------> ASKED -----> STARTING --------> HOLDING
 *                        |   ^           |                  |
 *              no answer v   | again     | time is up       | ended
 *                      DOUBTFUL          v                  v
 *                                      LATE               OVER
 *
 *       STARTING, LATE, HOLDING, OVER -- RELEASE --> RELEASING -- gone --> NONE
 *       whatever is there -- somebody deletes it --> ENDING ----- gone --> NONE
 *
 * A pod that is seen ends ASKED and DOUBTFUL; a deletion that failed leads from RELEASING back to
 * what the pod shows. reservation_after() is the whole table.
 *
 * What is done in a state depends on two numbers besides: users (bound pods of the group) and
 * claims (pods of the group that are about to be bound). reservation_todo() is that table.
 *
 * Pods that are to be bound come as a gang (RESERVATION_WANTED). They claim their reservations at
 * once; each is written (RESERVATION_WRITE) when all its devices are known; the gang is answered
 * once, with RESERVATION_PREPARED. What the scheduler counts it is told at once; everything else
 * happens in turns (RESERVATION_TURN), which look at what changed since the last one. */

/* ---- one reservation ---- */

enum reservation_state {
    RESERVATION_NONE,      /* there is no reservation pod, and none was asked for */
    RESERVATION_ASKED,     /* its creation was asked for */
    RESERVATION_DOUBTFUL,  /* whether its creation worked is not known: it is asked for again */
    RESERVATION_STARTING,  /* it is there and has not told its device */
    RESERVATION_LATE,      /* it is there and has not told its device in time */
    RESERVATION_HOLDING,   /* it is there and has told its device */
    RESERVATION_OVER,      /* it has ended or failed */
    RESERVATION_RELEASING, /* its deletion was asked for */
    RESERVATION_ENDING,    /* it is being deleted */
};

/* What befalls a reservation. */
enum reservation_input {
    RESERVATION_IN_SEEN,     /* its pod, as it is now */
    RESERVATION_IN_REPLACED, /* the same, and it is not the pod that was there before */
    RESERVATION_IN_GONE,
    RESERVATION_IN_ASK,        /* its creation is asked for */
    RESERVATION_IN_REFUSED,    /* the API server did not create it */
    RESERVATION_IN_UNANSWERED, /* nobody knows whether it did */
    RESERVATION_IN_RELEASE,    /* its deletion is asked for */
    RESERVATION_IN_KEPT,       /* and failed */
    RESERVATION_IN_TIME_IS_UP, /* to tell its device */
};

/* What a reservation pod shows of itself. */
struct reservation_shown {
    bool ending;       /* it is being deleted */
    bool over;         /* it has ended or failed */
    struct str device; /* the UUID of the device it got; empty: not told yet */
};

/* The state after `input`; `shown` is what the pod shows, zeroes when there is none. */
enum reservation_state reservation_after(enum reservation_state state,
                                         enum reservation_input input,
                                         const struct reservation_shown *shown);

enum reservation_todo {
    RESERVATION_DO_NOTHING,
    RESERVATION_DO_CREATE,  /* the reservation pod */
    RESERVATION_DO_RELEASE, /* delete the reservation pod */
    RESERVATION_DO_EVICT,   /* its users: nobody holds their device any more */
    RESERVATION_DO_FAIL,    /* its claims: the device cannot be had */
    RESERVATION_DO_GO_ON,   /* its claims can be written */
};
enum reservation_todo reservation_todo(enum reservation_state state, size_t users, size_t claims);

/* ---- events ---- */

enum reservation_event_kind {
    RESERVATION_SEEN,       /* a reservation pod: node, group, pod, shown */
    RESERVATION_GONE,       /* it is deleted: node, group, pod */
    RESERVATION_MADE,       /* its creation was accepted, or it was there: node, group */
    RESERVATION_REFUSED,    /* its creation failed: node, group, err */
    RESERVATION_UNANSWERED, /* its creation may have worked: node, group, err */
    RESERVATION_RELEASED,   /* its deletion was accepted: node, group */
    RESERVATION_KEPT,       /* its deletion failed: node, group */
    RESERVATION_USER_KEPT,  /* the deletion of a user failed: node, group */
    RESERVATION_USER_SEEN,  /* a pod with shares: member, shown (without device) */
    RESERVATION_USER_GONE,  /* it is deleted: member.pod */
    RESERVATION_WANTED,     /* pods that are to be bound: gang, members, member_count */
    RESERVATION_WRITTEN,    /* what RESERVATION_WRITE asked for: gang, index; err: it failed */
    RESERVATION_NOT_BOUND,  /* a pod of a prepared gang: member.pod */
    RESERVATION_STOP,       /* every gang that waits fails with -ECANCELED */
    RESERVATION_TURN,       /* acts on what happened since the last one */
};

/* A pod with shares, and where. */
struct reservation_member {
    struct sched_pod_ref pod;
    struct str node;          /* empty: not bound */
    const struct str *groups; /* one a device */
    size_t group_count;       /* 0: it needs none */
};

struct reservation_event {
    enum reservation_event_kind kind;
    struct str node;
    struct str group;
    struct sched_pod_ref pod;
    struct reservation_shown shown;
    struct reservation_member member;
    uint64_t gang; /* the caller's number for it, never used twice */
    /* Of a gang that is wanted: borrowed until its RESERVATION_PREPARED. */
    const struct reservation_member *members;
    size_t member_count;
    size_t index;          /* of a member in its gang */
    const struct err *err; /* NULL: it worked */
};

/* ---- actions ---- */

enum reservation_action_kind {
    RESERVATION_CREATE,      /* the reservation pod of node and group */
    RESERVATION_RELEASE,     /* delete the reservation pod: node, group, pod */
    RESERVATION_EVICT,       /* delete a user that nobody holds a device for: node, group, pod */
    RESERVATION_COUNT,       /* the scheduler counts the reservation pod with `gpus` devices: pod */
    RESERVATION_COUNT_AHEAD, /* one device, for a pod that may come and was not seen: node, pod */
    RESERVATION_FORGET,      /* the scheduler forgets the pod: pod */
    RESERVATION_OPENED,      /* the node gave a device to share: node */
    RESERVATION_SHUT,        /* the node failed to: node */
    RESERVATION_WRITE,       /* a member's ConfigMaps and labels, or go on with it: gang, index;
                              * devices when it begins */
    RESERVATION_PREPARED,    /* the gang can be bound, or err says why not: gang */
};

struct reservation_action {
    enum reservation_action_kind kind;
    struct str node;
    struct str group;
    struct sched_pod_ref pod;
    int gpus;
    uint64_t gang;
    size_t index;
    struct str devices; /* UUIDs with commas between */
    const struct err *err;
};

/* In order. The text is the arena's: what comes of an action may be told while others are still to
 * be carried out. Zeroes to begin with; reservation_actions_done() when carried out. */
struct reservation_actions {
    struct arena arena;
    VEC(struct reservation_action) list;
    int64_t
        next_ms; /* when the next RESERVATION_TURN is wanted; INT64_MAX: when something happens */
};
void reservation_actions_done(struct reservation_actions *actions);

/* ---- all of them ---- */

struct reservation_set;

/* `settings` must outlive it. timeout_ms: for a reservation pod to tell its device, and for a gang
 * to be prepared. */
struct reservation_set *reservation_set_new(const struct sharing_settings *settings,
                                            int64_t timeout_ms,
                                            uint64_t seed);
/* NULL is fine. */
void reservation_set_free(struct reservation_set *set);

/* Appends to `actions`. An event about a reservation or a gang that is not known is ignored. */
void reservation_event(struct reservation_set *set,
                       const struct reservation_event *event,
                       int64_t now_ms,
                       struct reservation_actions *actions);

/* What is known of one; zeroes where it is not. */
struct reservation_view {
    enum reservation_state state;
    size_t users;
    size_t claims;
    struct reservation_shown shown; /* valid until the next event */
};
struct reservation_view reservation_look(const struct reservation_set *set,
                                         struct str node,
                                         struct str group);
/* How many there are. */
size_t reservation_count(const struct reservation_set *set);
