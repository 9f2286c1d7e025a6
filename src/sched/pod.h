#pragma once

#include "base/str.h"
#include "sched/resource.h"
#include "sched/sched.h"
#include "sched/shape.h"
#include "sched/spec.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct claim;
struct device;
struct group;
struct name;
struct node;
struct pod_volumes;
struct pod_zones;
struct sched;

/* pod: where it is, what it takes, and what is known of it. What is derived from where it is
 * changes through pod_set() alone; see journal.h. */
#define SHARE_DEVICES_MAX 16 /* shared devices of one pod */

enum status {
    ST_PENDING,
    ST_GATED,
    ST_PIPELINED, /* promised room that others still hold */
    ST_BINDING,   /* the plan bound it; not confirmed yet */
    ST_BOUND,
    ST_RUNNING,
    ST_RELEASING,
    ST_STUCK, /* the same for too long: see leaving.h */
    ST_SUCCEEDED,
    ST_FAILED,
    ST_COUNT,
};
#define ST_BIT(status)     (1U << (status))
#define ST_ALLOCATED       (ST_BIT(ST_BINDING) | ST_BIT(ST_BOUND) | ST_BIT(ST_RUNNING))
#define ST_ACTIVE          (ST_ALLOCATED | ST_BIT(ST_PIPELINED)) /* KAI: activeAllocated */
#define ST_USED            (ST_ACTIVE | ST_BIT(ST_RELEASING) | ST_BIT(ST_STUCK)) /* KAI: activeUsed */
#define ST_ALIVE           (ST_ACTIVE | ST_BIT(ST_PENDING) | ST_BIT(ST_GATED))
#define ST_IN(status, set) ((ST_BIT(status) & (set)) != 0)

/* The slots of a pod on shared devices of its node. */
struct sharing {
    uint8_t shares[SHARE_DEVICES_MAX];
    uint8_t left_shares[SHARE_DEVICES_MAX]; /* on pod->left */
    uint8_t named_shares[SHARE_DEVICES_MAX];
    struct node *named_node; /* names name the slots named_shares there */
    struct name **names;     /* one per device, NULL entries: not named yet; NULL: none is */
};

/* What is known of the few pods that are suspended, whose room is held when they fail, that have
 * volumes, or that keep others away. */
struct pod_rare {
    int64_t kept[SCHED_RESOURCES]; /* suspended: what it holds there meanwhile, and is charged */
    int64_t hold_ms;               /* how long its room is held when it fails; 0: it is not */
    int64_t held_since_ms;         /* a stand-in: since the first cycle that saw it */
    struct name *ended_on;         /* first seen when it had failed, on that node; hold.h */
    int64_t ended_ms;              /* and when that was */
    int64_t spared_ms;             /* its eviction was refused: nobody asks for it before then */
    uint8_t refusals;              /* of its eviction, in a row */
    uint32_t anti_index;           /* in sched->anti_pods, while it holds room */
    struct pod_volumes *volumes;   /* heap: claims of volumes that it mounts; NULL: none */
};

struct pod_label {
    struct name *key;
    struct name *value;
};

/* There are many: what few pods have is behind a pointer. */
struct pod {
    /* What searches look at comes first. */
    struct group *group; /* NULL: none named */
    struct node *node;
    struct shape *shape;
    struct want *wants; /* the shape's, or its own with claims */
    uint32_t want_count;
    uint32_t set; /* index in group->sets, SET_NONE: no such subgroup */
    uint32_t group_index;
    uint32_t line_index; /* in group->line, while that is valid */
    uint32_t node_index;
    enum status status : 8;
    enum status observed : 8;     /* what the last event said */
    enum status was : 8;          /* before the search under way evicted it */
    enum sched_action action : 8; /* that evicted it in this cycle */
    uint8_t share_count;
    bool evicting;        /* we decided to evict it; not confirmed yet */
    bool ours;            /* this scheduler places it */
    bool victim;          /* evicted by the search under way */
    bool taken;           /* proposed by it */
    bool recorded;        /* kept by it as a victim */
    bool logged;          /* in the cycle's list of touched pods */
    bool promised;        /* in sched->promised */
    bool leaving;         /* in sched->leaving */
    bool stand_in;        /* holds the room of a pod that is no more; see hold.h */
    bool staying;         /* being deleted, and counts as running; the same */
    bool resuming;        /* it was suspended; its node has not said yet that it goes on */
    bool may_stay;        /* releasing, to be suspended: it is charged until it is */
    bool movable;         /* where reservation pods hold devices: it can give up its share */
    bool devices_planned; /* numbers given by a plan that is not confirmed yet */
    int64_t charge[SCHED_RESOURCES]; /* what its queue is charged while it holds room */
    char *text;                      /* heap: ns/name, which is its key, and behind it the uid */
    uint32_t ns_len;
    uint32_t name_len;
    uint32_t uid_len;
    uint32_t label_count;
    struct pod_label *labels; /* heap */
    struct name *subgroup;
    struct name *nominated;     /* node */
    struct name *home;          /* suspended: the node it has to go on on; NULL: it is not */
    struct pod_rare *rare;      /* heap; NULL: all of it is 0. See pod_rare() */
    uint32_t lent_for;          /* id of the group whose kept room it was lent; 0: none */
    uint32_t placed_in;         /* cycle that placed it */
    struct node *observed_node; /* where the last event said it is */
    int64_t created_ms;
    int64_t deadline_ms;          /* how long it may run; 0: not known */
    int64_t started_ms;           /* when it started to; 0: not yet, or not known */
    int64_t deleted_ms;           /* it ran, and should be gone since then; 0: not so */
    int64_t ask[SCHED_RESOURCES]; /* what it asks while it waits */
    int64_t gpus;                 /* whole devices, claims included */
    struct claim **claims;        /* heap */
    struct device **whole; /* heap: devices behind its GPUs, where drivers publish them; pick.h */
    uint32_t whole_count;
    uint32_t claim_count;
    struct sharing *sharing; /* heap; NULL: its shape shares no devices */
    struct pod_zones *zones; /* heap; NULL: none is known; see numa.h */
    /* A pod that is moved is promised room on `node` while it still holds its old room: */
    struct node *left;
    struct group *evicted_for;
    uint32_t *devices; /* heap: numbers of its whole devices, where known */
    uint32_t device_count;
    /* Devices of claims that pods share: of what it is charged, and not preemptible through it. */
    uint16_t claims_paid;
    uint16_t claims_fixed;
};

static inline struct str pod_key(const struct pod *pod)
{
    return (struct str){pod->text, pod->ns_len + 1 + pod->name_len};
}
static inline struct str pod_ns(const struct pod *pod)
{
    return (struct str){pod->text, pod->ns_len};
}
static inline struct str pod_name(const struct pod *pod)
{
    return (struct str){pod->text + pod->ns_len + 1, pod->name_len};
}
static inline struct str pod_uid(const struct pod *pod)
{
    return (struct str){pod->text + pod->ns_len + 1 + pod->name_len, pod->uid_len};
}
/* share_count slots; NULL where there can be none. */
static inline const uint8_t *pod_shares(const struct pod *pod)
{
    return pod->sharing ? pod->sharing->shares : NULL;
}
static inline const uint8_t *pod_left_shares(const struct pod *pod)
{
    return pod->sharing ? pod->sharing->left_shares : NULL;
}
#define SET_NONE UINT32_MAX

/* To read it; never NULL. */
const struct pod_rare *pod_rare(const struct pod *pod);
/* To change it. */
struct pod_rare *pod_rare_make(struct pod *pod);
/* Whether its eviction was refused lately. */
bool pod_is_spared(const struct sched *sched, const struct pod *pod);
void pod_hold(struct pod *pod, int64_t hold_ms);
struct pod *pod_get(struct sched *sched, struct str ns, struct str name);
/* Numbers of whole devices it has, copied. */
void pod_number(struct pod *pod, const uint32_t *numbers, size_t count);
/* Which of two pods of a group is placed first: -1, 0, 1. */
int pod_order(const struct pod *a, const struct pod *b);
int pod_order_qsort(const void *a, const void *b); /* of a list of pointers */
/* What it holds of a resource, as its node counts it. */
int64_t pod_holds(const struct pod *pod, uint32_t res);
/* Whether it uses GPUs in any way: whole, shared, as MIG instances or through a claim. */
bool pod_needs_gpu(const struct pod *pod);
