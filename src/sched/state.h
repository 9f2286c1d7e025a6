#pragma once

#include "base/arena.h"
#include "base/map.h"
#include "base/vec.h"
#include "sched/sched.h"

/* state: the cluster as the core sees it, kept up to date by events in constant time each.
 *
 * Everything that is derived from where pods are (free room of nodes, what queues use, how far a
 * group is from its minimum, the indexes) changes in one place only: pod_set() in journal.c. Code
 * that tries something sets a mark, calls pod_set() and rolls back; nothing is ever copied.
 *
 * Amounts of a node are dense arrays indexed by resource number (res_id()). */

enum status {
    ST_PENDING,
    ST_GATED,
    ST_PIPELINED, /* promised room that others still hold */
    ST_BINDING,   /* the plan bound it; not confirmed yet */
    ST_BOUND,
    ST_RUNNING,
    ST_RELEASING,
    ST_SUCCEEDED,
    ST_FAILED,
    ST_COUNT,
};
#define ST_BIT(status)     (1U << (status))
#define ST_ALLOCATED       (ST_BIT(ST_BINDING) | ST_BIT(ST_BOUND) | ST_BIT(ST_RUNNING))
#define ST_ACTIVE          (ST_ALLOCATED | ST_BIT(ST_PIPELINED)) /* KAI: activeAllocated */
#define ST_USED            (ST_ACTIVE | ST_BIT(ST_RELEASING))    /* KAI: activeUsed */
#define ST_ALIVE           (ST_ACTIVE | ST_BIT(ST_PENDING) | ST_BIT(ST_GATED))
#define ST_IN(status, set) ((ST_BIT(status) & (set)) != 0)

/* Resource numbers every node has. Others follow as they are first named. */
enum {
    RES_CPU,
    RES_MEMORY,
    RES_GPU, /* whole devices */
    RES_PODS,
    RES_FIRST_OTHER,
};
#define RES_MAX             256  /* distinct resource names in a cluster */
#define SHARES_MAX          255  /* shared devices of a node */
#define SHARE_DEVICES_MAX   16   /* shared devices of one pod */
#define DEVICES_MAX         256  /* numbered whole devices of a node */
#define CLAIM_CONSUMERS_MAX 256  /* pods that may use one resource claim */
#define QUEUE_DEPTH_MAX     64   /* levels of queues */
#define KEY_BYTES           1024 /* namespace 63, name 253; longer ones cannot exist */
#define GPU_MILLI           1000
#define GPU_FRACTION        1000000
#define PRIORITY_DEFAULT    50
#define PRIORITY_FIXED      100 /* from here on groups are not preemptible unless they say so */

struct want {
    uint32_t res;
    int64_t amount;
};

/* fragment.c: what a shape would do to each node, by slot, as of that place in the log. */
struct shape_scores {
    int64_t *items;
    size_t count;
    const struct pool *pool;
    uint64_t nodes_version;
    uint32_t epoch;
    uint32_t log_epoch;
    size_t log_at;
};

/* What pods of one template have in common; pods with equal contents share one. */
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
    bool shared;      /* fraction or gpu-memory */
    int64_t devices;  /* shared devices it needs */
    bool best_effort; /* asks for nothing */
    bool open;        /* no selector and no affinity: any untainted node will do */
    bool local;       /* where it fits depends on the node alone, not on other pods */
    bool scored;      /* preferences order the nodes, not only how full they are */
    uint64_t *known;  /* by node slot: static filters were evaluated */
    uint64_t *allowed;
    size_t word_count;
    uint32_t failed_in; /* order in which a pod of this shape found no room */
    uint32_t *counts;   /* heap: place_count()'s result for counted_pool in cycle counted_in */
    uint32_t counted_in;
    const struct pool *counted_pool;
    struct shape_scores *scores; /* heap; NULL: never asked for */
    uint32_t counted_at;         /* among the kinds that fragment.c counts */
};

/* A text that many objects name: queues, labels, shared devices. Kept once, with references. A
 * share that ends may leave a name with none behind; names_swept() frees it. */
struct name {
    struct str text;
    uint32_t refs;
};

/* One shared device of a node. Memory in MiB. */
struct share {
    bool live;
    struct name *name; /* NULL: opened by the plan under way, not named yet */
    int64_t allocated;
    int64_t releasing;
    int64_t pipelined;
    uint32_t pod_count;
};

struct node {
    uint32_t slot;    /* index in sched->nodes */
    uint32_t rank;    /* place in name order; see nodes_ranked() */
    bool known;       /* false: only named by pods so far */
    bool schedulable; /* known, ready, not cordoned */
    bool untainted;
    bool mig;
    struct pool *pool;
    int64_t *total;         /* allocatable, by resource */
    int64_t *idle;          /* total less what pods hold, terminating ones included */
    int64_t *releasing;     /* held by terminating pods, less what is promised to pipelined ones */
    VEC(struct pod *) pods; /* holding or promised room here */
    uint32_t mark;          /* scratch of searches: equals sched->mark_now when marked */
    struct str name;
    void *block; /* the memory behind the spec */
    struct sched_node spec;
    struct share *shares;
    uint32_t share_count; /* slots, live or not */
    uint8_t shut_count;   /* times in a row that it failed to give a device for sharing */
    int64_t shut_ms;      /* no device is opened for sharing until then; 0: it may be */
    int64_t gpu_memory;   /* MiB of one device as the rules count it */
    uint64_t devices_used[DEVICES_MAX / 64];
    uint32_t legacy_mig; /* pods here that use legacy MIG */
    struct node_link {
        struct node *left, *right;
        int64_t key;
        uint32_t priority;
        bool in;
    } links[3];                    /* in the capacity indexes: by GPUs, by CPU */
    int64_t counted[RES_PODS + 1]; /* what it adds to pool->room and pool->parts */
    int64_t counted_idle[RES_PODS];
    int64_t counted_total[RES_PODS];
    uint32_t kept_for; /* id of the group room was last kept for here; see reserve.h */
    struct keep *keep; /* during a cycle: the reservation that counts on this node */
};

enum {
    INDEX_GPU,
    INDEX_CPU,
    INDEX_IDLE, /* GPUs that are free now */
    INDEX_COUNT,
};

/* The slots of a pod on shared devices of its node. */
struct sharing {
    uint8_t shares[SHARE_DEVICES_MAX];
    uint8_t left_shares[SHARE_DEVICES_MAX]; /* on pod->left */
    uint8_t named_shares[SHARE_DEVICES_MAX];
    struct node *named_node; /* names name the slots named_shares there */
    struct name **names;     /* one per device, NULL entries: not named yet; NULL: none is */
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
    uint32_t node_index;
    enum status status : 8;
    enum status observed : 8;     /* what the last event said */
    enum status was : 8;          /* before the search under way evicted it */
    enum sched_action action : 8; /* that evicted it in this cycle */
    uint8_t share_count;
    bool evicting;                   /* we decided to evict it; not confirmed yet */
    bool ours;                       /* this scheduler places it */
    bool victim;                     /* evicted by the search under way */
    bool taken;                      /* proposed by it */
    bool recorded;                   /* kept by it as a victim */
    bool logged;                     /* in the cycle's list of touched pods */
    bool promised;                   /* in sched->promised */
    bool devices_planned;            /* numbers given by a plan that is not confirmed yet */
    int64_t charge[SCHED_RESOURCES]; /* what its queue is charged while it holds room */
    char *text;                      /* heap: ns/name, which is its key, and behind it the uid */
    uint32_t ns_len;
    uint32_t name_len;
    uint32_t uid_len;
    uint32_t label_count;
    struct pod_label *labels; /* heap */
    struct name *subgroup;
    struct name *nominated;     /* node */
    uint32_t lent_for;          /* id of the group whose kept room it was lent; 0: none */
    struct node *observed_node; /* where the last event said it is */
    uint32_t placed_in;         /* cycle that placed it */
    int64_t created_ms;
    int64_t deadline_ms;          /* how long it may run; 0: not known */
    int64_t started_ms;           /* when it started to; 0: not yet, or not known */
    int64_t ask[SCHED_RESOURCES]; /* what it asks while it waits */
    int64_t gpus;                 /* whole devices, claims included */
    struct claim **claims;        /* heap */
    uint32_t claim_count;
    struct sharing *sharing; /* heap; NULL: its shape shares no devices */
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

/* A subgroup: an inner one has children, a leaf has pods. Set 0 is the root. A group without
 * subgroups has the root and one leaf. */
struct set {
    struct str name;                            /* in the group's spec */
    const struct sched_topology_want *topology; /* the same; never NULL */
    int64_t min; /* leaf: pods; inner: children that must start, 0 all */
    uint32_t parent;
    uint32_t first_child, next; /* 0: none */
    int32_t count[ST_COUNT];    /* leaf: pods by status */
    int32_t taken;              /* pods that the search under way has proposed as victims */
    bool leaf;
};

/* What was last said of a group that waited, heap. */
struct told {
    struct sched_why why;
    struct str message; /* heap */
    struct str queue;   /* heap: that stands in the way; empty: its own */
    uint64_t digest;    /* of what the record was worked out from */
};

struct group {
    /* What searches look at comes first, in as few cache lines as it takes. */
    struct queue *queue; /* NULL: does not exist */
    struct set *sets;
    VEC(struct pod *) pods;
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
    bool preemptible;
    bool semi;
    bool known;     /* false: only named by pods so far */
    uint32_t id;    /* its own for as long as the core lives */
    struct str key; /* ns/name */
    struct str ns;  /* heap; name and key lie behind it */
    struct str name;
    /* What it asks for. NULL names are empty ones. */
    struct name *queue_name;
    struct name *pool_name;
    struct name *class_name;
    int64_t own_priority; /* instead of the class's, with has_priority */
    int64_t stale_grace_ms;
    int64_t expected_ms; /* to run; 0: it does not say */
    int64_t deadline_ms; /* the longest of its pods; 0: none has one */
    bool has_priority;
    bool has_stale_grace;
    bool held;
    uint8_t failures; /* of writes for it, in a row */
    enum sched_preemptibility preemptibility : 8;
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
    bool in_stale;
    int64_t stale_since_ms;
    struct told *told;       /* NULL: it never waited */
    bool reserved;           /* its pipelined pods keep their room across cycles; see reserve.h */
    uint32_t resumed_in;     /* when its reservation was last looked at */
    uint32_t kept_in;        /* last cycle in which room was kept for it */
    int64_t kept_since_ms;   /* since when */
    int64_t kept_start_ms;   /* by when it starts at the latest; 0: not known */
    int64_t kept_blocked;    /* of its main resource, what others still hold of that room */
    struct keep *keep;       /* during a cycle */
    struct failure *failure; /* of the last attempt, heap; NULL: none yet */
    uint32_t mark;           /* scratch: equals sched->mark_now when marked */
    uint32_t batch;          /* of its binds in cycle batch_cycle */
    uint32_t batch_cycle;
    bool first_start;
    uint32_t told_in; /* cycle in which the plan says why it waits */
};
#define LIST_NONE UINT32_MAX
/* An order of waiting groups, of victims, and of everybody in a search may be open at once. */
#define ORDER_KINDS 3

struct priority_count {
    int64_t priority;
    int64_t count;
};

struct queue {
    struct str name;
    bool known;
    void *block;
    struct sched_queue spec;
    struct pool *pool;
    struct queue *parent;
    VEC(struct queue *) children;
    uint32_t level;
    uint32_t index; /* in sched->queues, creation then name order */
    bool broken;    /* orphan or part of a cycle, or below one */
    VEC(struct group *) groups;
    VEC(struct group *) pending;  /* with pods that wait, gated ones too */
    VEC(struct group *) active;   /* with pods that hold or are promised room */
    VEC(struct group *) frail;    /* active, but some leaf is below its minimum */
    VEC(struct group *) sorted;   /* victims.c: the active groups, the first victim last */
    VEC(struct group *) unsorted; /* not there yet, or perhaps in the wrong place */
    struct order_node *order_nodes[ORDER_KINDS]; /* scratch of the orders under way */
    uint32_t order_ids[ORDER_KINDS];
    /* Active groups by priority, so that asking for lower ones is cheap. */
    VEC(struct priority_count) priorities;
    int64_t allocated[SCHED_RESOURCES];
    int64_t fixed[SCHED_RESOURCES]; /* of it, not preemptible */
    int64_t asked[SCHED_RESOURCES]; /* waiting pods */
    int64_t kept[SCHED_RESOURCES];  /* during a cycle: of its limit, for groups that have aged */
    int64_t kept_fixed[SCHED_RESOURCES];
    double fair[SCHED_RESOURCES];
    double usage[SCHED_RESOURCES]; /* as told; counts instead of the spec's */
    bool has_usage;
};

struct pool {
    struct str name;
    struct sched_policy policy;
    bool own_policy;          /* not that of the pool without a name */
    VEC(struct node *) nodes; /* by rank, when sched->ranks_valid */
    VEC(struct queue *) tops;
    struct node *index[4]; /* roots: GPUs; CPU on CPU-only nodes; CPU on GPU nodes; idle GPUs */
    int64_t total[SCHED_RESOURCES];
    int64_t room[RES_PODS];  /* CPU, memory, GPUs idle or releasing on nodes that can be used */
    int64_t idle[RES_PODS];  /* of that, what is free now */
    int64_t whole[RES_PODS]; /* what such nodes have in all */
    int64_t parts;           /* thousandths of GPUs free on shared devices and as MIG instances */
    int64_t min_gpu_memory;
};

struct claim {
    struct str ns;
    struct str name;
    struct str key;
    void *block;
    struct sched_claim spec;
    struct node *node; /* where allocated, or being allocated by the plan */
    uint32_t holders;  /* pods that hold room with it */
    bool known;
    bool promised;           /* nobody holds its devices yet, they are only promised */
    const struct pod *asker; /* of the pods that wait, the one that asks for them */
    const struct pod *guard; /* through whom they count as not preemptible; NULL: they do not */
    bool gpu;
    bool from_template;
    VEC(struct pod *) users;
};

struct topology {
    struct str name;
    void *block;
    struct sched_topology spec;
};

struct undo {
    struct pod *pod;
    struct node *node;
    enum status status;
    uint8_t shares[SHARE_DEVICES_MAX];
    uint8_t share_count;
    struct node *left;
    uint8_t left_shares[SHARE_DEVICES_MAX];
    uint32_t placed_in;
    uint32_t lent_for;
};

/* What a node would have of each want of a task; see propose.h. */
#define ROOM_WANTS 7
struct room {
    int64_t left[ROOM_WANTS];
    uint32_t stamp; /* id of the order it was worked out for */
};

struct stale_note {
    struct group *group;
    bool stale;
};

struct sched {
    struct sched_config config;
    struct arena config_arena;
    struct map nodes_by_name, pods_by_key, groups_by_key, queues_by_name, classes, topologies,
        claims, shapes, pools_by_name, names;
    VEC(struct node *) nodes; /* by slot; NULL holes */
    VEC(struct queue *) queues;
    VEC(struct pool *) pools;
    VEC(struct group *) strays; /* groups without a queue, or only named by pods */
    VEC(struct str) resources;  /* names by number */
    struct map resource_ids;
    size_t resource_capacity;
    uint32_t shape_next_id;
    uint32_t group_next_id;

    bool queues_dirty;
    bool classes_dirty;
    bool ranks_valid;
    bool totals_dirty;
    bool changed; /* since the last cycle */
    bool cut;     /* this cycle left groups out for their place in line */
    uint64_t nodes_version;

    VEC(struct undo) journal;
    VEC(struct group *) stale; /* groups known to be stale */
    VEC(struct stale_note) notes;
    VEC(struct room) rooms;     /* by node slot */
    VEC(struct pod *) promised; /* pods that were promised room by the last plan */
    VEC(struct keep *) keeps;   /* during a cycle: reservations by age, in its arena */
    VEC(struct undo) touched;   /* where pods that this cycle touched were at its start */
    bool trying;                /* changes are recorded */
    size_t anti_pods;           /* pods that hold room and keep others away */
    size_t soft_taints;         /* nodes with PreferNoSchedule taints */
    uint32_t order_id;
    uint32_t mark_now;
    uint32_t cycle;
    int64_t now_ms;
    int64_t wake_ms;
    struct arena *arena; /* of the cycle under way */
    struct topology_cache *topology_cache;
    struct fragment *fragment; /* NULL: no pool has a strategy that counts the workload */
    struct sched_tally tally[SCHED_ACTION_COUNT];
    void (*measure)(void *user, enum sched_step step); /* NULL: nobody does */
    void *measure_user;
};

static inline bool quirk(const struct sched *sched, enum sched_quirk index)
{
    return (sched->config.quirks >> index & 1) != 0;
}
#define QUIRK(sched, name) quirk(sched, SCHED_QUIRK_INDEX_##name)

/* Of a group that has a queue. */
static inline const struct sched_policy *group_policy(const struct group *group)
{
    return &group->queue->pool->policy;
}

static inline int64_t i64_min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}
static inline int64_t i64_max(int64_t a, int64_t b)
{
    return a > b ? a : b;
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

/* state.c */
uint32_t res_id(struct sched *sched, struct str name);
struct node *node_get(struct sched *sched, struct str name, bool make);
struct pool *pool_get(struct sched *sched, struct str name);
struct queue *queue_get(struct sched *sched, struct str name, bool make);
struct group *group_get(struct sched *sched, struct str ns, struct str name, bool make);
/* Names it; the memory is the group's. */
void group_call(struct sched *sched, struct group *group, struct str ns, struct str name);
struct str sched_key(char *out, size_t size, struct str ns, struct str name);
struct pod *pod_get(struct sched *sched, struct str ns, struct str name);
struct claim *claim_get(struct sched *sched, struct str ns, struct str name, bool make);
struct str heap_str(struct str s); /* an owned copy; free .p with mem_free() */
void nodes_ranked(struct sched *sched);
/* Links queues to parents and groups to queues again, and sums up what they use. */
void queues_linked(struct sched *sched);
void group_resolve(struct sched *sched, struct group *group);
void group_lists(struct group *group);
void group_unlink(struct group *group);
void group_stray(struct sched *sched, struct group *group);
void group_unstray(struct sched *sched, struct group *group);
void group_weigh(struct group *group, int64_t sign);
/* Semi-preemptible groups: what the pods of its minimum are charged, of each leaf the first pods in
 * order, and the claims that any of its pods guards. */
void group_core(const struct group *group, int64_t ret[static SCHED_RESOURCES]);
/* The same worked out again and put on its queues. */
void group_charge_core(struct group *group);
void queue_free(struct queue *queue);
void heap_str_free(struct str s);

/* Numbers of whole devices it has, copied. */
void pod_number(struct pod *pod, const uint32_t *numbers, size_t count);
/* What the pod asks of its queue while it waits, and of that for one of its claims. */
void pod_ask(const struct sched *sched, struct pod *pod);
int64_t claim_ask(const struct sched *sched, const struct pod *pod, size_t index);
void pod_reclaimed(struct sched *sched, struct pod *pod);
void topology_cache_free(struct topology_cache *cache);

/* names.c */
struct name *name_get(struct sched *sched, struct str text); /* with a reference; NULL for "" */
void name_unref(struct sched *sched, struct name *name);     /* NULL is allowed */
struct str name_text(const struct name *name);
/* Frees what nobody refers to. */
void names_swept(struct sched *sched);
/* The name of a shared device, NULL: none. */
void share_name(struct share *share, struct name *name);

/* shape.c */
struct shape *shape_get(struct sched *sched, const struct sched_pod *pod);
void shape_unref(struct sched *sched, struct shape *shape);
int64_t shape_mig_slices(struct str name);
void shape_node_changed(struct sched *sched, uint32_t slot);

/* journal.c */
/* Moves a pod to a status and node; `shares` are the slots of its shared devices there, taken from
 * pod_slots() or an earlier state. The one place where derived state changes. */
void pod_set(struct sched *sched,
             struct pod *pod,
             enum status status,
             struct node *node,
             const uint8_t *shares,
             uint8_t share_count);
struct mark {
    size_t count;
};
struct mark journal_mark(const struct sched *sched);
void journal_rollback(struct sched *sched, struct mark mark);
/* What was tried becomes fact; no rollback past this point. */
void journal_commit(struct sched *sched);
/* Who pays for the claims of this pod, who asks for them, and how much: worked out again. */
void claims_settled(struct sched *sched, const struct pod *pod);
/* Devices of its claim that a pod which waits, or was evicted by the search under way, has to find
 * to be placed: none while somebody else pays for them. */
int64_t claim_need(const struct sched *sched, const struct pod *pod, size_t index);
/* What follows from them for the pod itself. */
void pod_claims_counted(const struct sched *sched, struct pod *pod);
/* Adds or takes off what the pod counts for in its group's queue and above. */
void pod_weigh(const struct pod *pod, int64_t sign);
void pod_charge(const struct sched *sched,
                const struct pod *pod,
                const struct node *node,
                int64_t ret[static SCHED_RESOURCES]);
int64_t share_memory(const struct pod *pod, const struct node *node);
uint8_t share_open(struct node *node, struct name *name);

/* victims.c */
/* An active group of a queue, and where it stands to its minimum now. */
void victims_note(struct group *group, int elastic);
void victims_forget(struct group *group);
/* All of them: they will be noted again, in their order. */
void victims_clear(struct queue *queue);
/* queue->sorted as it should be: last to start, first to go, from its end. `afresh`: without using
 * what is there, as a twin does. */
void victims_sorted(struct queue *queue, bool afresh);

/* nodeindex.c */
void index_update(struct sched *sched, struct node *node);
void index_remove(struct node *node);
struct node *index_from(struct node *root, int which, int64_t key);
int64_t index_largest(struct node *root, int which); /* key; INT64_MIN: empty */
struct node *index_next(struct node *root, int which, const struct node *node);
