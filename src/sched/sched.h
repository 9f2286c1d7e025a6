#pragma once

#include "base/str.h"
#include "sched/spec.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arena;
struct err;
struct json;
struct object;
struct sched_pod_ref;

/* sched: the gang scheduler as a state machine. Events in, a plan out.
 *
 * The shell feeds it what it observes, either as API objects (sched_observe) or as specs
 * (sched_put_*, sched_drop_*), in any order: a pod may arrive before its group, a queue before its
 * parent. When sched_needs_cycle() says that something changed, or at next_wake_ms, the shell calls
 * sched_cycle() and carries out the plan: binds, then evictions, then reports.
 *
 * What the plan decided counts at once: a pod that was bound holds its node's room from then on,
 * and a pod that was evicted is on its way out. The shell confirms by feeding the objects as they
 * change; where a write fails it calls sched_bind_failed() or sched_evict_failed() and the decision
 * is taken back. Watch events that are older than the decision do not undo it.
 *
 * Pure: no I/O, no clock (now_ms is handed in), no randomness. The same calls in the same order
 * give the same plan, byte for byte. One thread. Nothing here fails: what cannot be used (a pod
 * whose queue does not exist, a cycle of queues) becomes the reason why something waits. */
struct sched;

/* Deliberate differences from KAI Scheduler, one bit each. A set bit means "do it KAI's way". The
 * table is the source of docs/differences.md.
 * X(NAME, word for options and documents, what KAI does, what Muster does instead) */
#define SCHED_QUIRKS(X)                                                                            \
    X(GPU_MEMORY_100, "gpu-memory-100",                                                            \
      "up to 0.16 a waiting gpu-memory request is charged as if every GPU had 100 MiB, so 2000 "   \
      "MiB count as 20 GPUs against limits and quotas",                                            \
      "it is charged by the smallest GPU of the pool; limits and quotas ask, before it is "        \
      "placed, for what it costs on the largest")                                                  \
    X(GPU_MEMORY_ROUND, "gpu-memory-round",                                                        \
      "a device's memory is rounded down to a multiple of 100 MiB and, where it is not known, "    \
      "taken to be 100 MiB",                                                                       \
      "the true size is used")                                                                     \
    X(TWO_POD_SLOTS, "two-pod-slots",                                                              \
      "a pod that opens a shared GPU needs two free pod slots, one for the reservation pod",       \
      "it needs one where there is no reservation pod: embedded")                                  \
    X(SIDECARS, "sidecars",                                                                        \
      "up to 0.14 native sidecars are counted like ordinary init containers",                      \
      "they are added to the containers, as Kubernetes counts them")                               \
    X(NO_SPREAD, "no-topology-spread", "topologySpreadConstraints are ignored",                    \
      "they are filters (DoNotSchedule) and scores (ScheduleAnyway)")                              \
    X(NO_PREFERENCES, "no-node-preferences",                                                       \
      "preferred node affinity and PreferNoSchedule taints are ignored",                           \
      "they break ties between nodes before bin-packing does")                                     \
    X(GROUP_BY_NAME, "group-by-name",                                                              \
      "a pod joins the pod group of that name in whatever namespace", "only in its own namespace") \
    X(CONSOLIDATE_MIN_RUNTIME, "consolidate-min-runtime",                                          \
      "consolidation moves groups that the minimum run time protects", "it leaves them alone")     \
    X(UNSET_LIMIT_ZERO, "unset-limit-zero",                                                        \
      "a resource that a queue does not mention has the limit 0: nothing that asks for it runs",   \
      "it is not limited and has weight 1; CPUs and memory without a quota go along with GPUs "    \
      "that are within theirs, and bound nothing that is not preemptible")                         \
    X(MIG_PACKING, "mig-packing", "bin-packing does not look at MIG instances",                    \
      "pods that ask for MIG instances go to the node with the fewest free ones")                  \
    X(CLAIM_PER_POD, "claim-per-pod",                                                              \
      "a resource claim that several pods share is charged to each of them",                       \
      "it is charged, and takes its devices, once")                                                \
    X(NO_RESERVATION, "no-reservation",                                                            \
      "room that was freed for a gang is free to all: the next cycle decides anew",                \
      "it stays with the gang it was freed for until that starts or is cancelled, and a gang "     \
      "that restarts finds its room held")                                                         \
    X(NO_AGEING, "no-ageing",                                                                      \
      "small work that fits goes ahead of a large gang, however long that has waited",             \
      "a gang that has waited long enough at the head of its queue has room kept for it; others "  \
      "use that room only if they end in time or can be evicted")                                  \
    X(OLD_GROUPS, "old-groups",                                                                    \
      "up to 0.14 every pod of a Job is a group of its own, and a JobSet is one group without "    \
      "subgroups, or one a replicatedJob where they start in order",                               \
      "as 0.17: a Job is one group that starts with batch-min-member pods, a JobSet one group "    \
      "with a subgroup a replicatedJob and one below it a Job; groups that are there stay")        \
    X(DEFAULT_QUOTA, "default-quota",                                                              \
      "the default queues have quota 0, so a Deployment or other work that is not preemptible "    \
      "never runs there",                                                                          \
      "embedded, it runs there where there is room, and evicts nobody for it")                     \
    X(EVERY_SEARCH, "every-search",                                                                \
      "every waiting group is searched victims for in every cycle, however many wait in vain",     \
      "of a queue's groups that are searched victims for in vain, 256 are in a cycle: the first "  \
      "128 in line always, the others in turn")                                                    \
    X(GREEDY_GANG, "greedy-gang",                                                                  \
      "the pods of a gang are placed one after the other, by name; where one finds no room, the "  \
      "gang waits, even if other places for the first ones would leave it some",                   \
      "it is tried again, what asks for most first, with other places and topology domains for "   \
      "each, until all have been tried or a bound is reached")                                     \
    X(JOINED_DOMAINS, "joined-domains",                                                            \
      "a topology domain is known by its labels joined by dots, so rack b.c of zone a and rack c " \
      "of zone a.b are one",                                                                       \
      "they are two")                                                                              \
    X(LARGEST_POD, "largest-pod",                                                                  \
      "a topology domain has room for a gang if it has it for as many pods that each ask for the " \
      "most that any of them does, and for a GPU for every pod that shares one",                   \
      "it is tried where there is enough in sum, or, of pods that are all alike, enough places")   \
    X(ALL_DEMAND, "all-demand",                                                                    \
      "fair shares are divided by all that waits, also where it is held, incomplete or larger "    \
      "than what there is or than a limit below allows, so that others have less",                 \
      "they are divided by what could start")                                                      \
    X(NODE_VICTIMS, "node-victims",                                                                \
      "victims are tried together only where their groups share a node, also where a limit of a "  \
      "queue, or an affinity, needs others to go as well",                                         \
      "then all that were proposed are tried together; of few, each alone and any two, too")       \
    X(NEVER_CORDONED, "never-cordoned",                                                            \
      "a cordoned node takes no pod, whatever that tolerates; newer versions do as Muster",        \
      "it takes those that tolerate node.kubernetes.io/unschedulable, as kube-scheduler has it")

enum sched_quirk {
#define SCHED_QUIRK_INDEX(name, ...) SCHED_QUIRK_INDEX_##name,
    SCHED_QUIRKS(SCHED_QUIRK_INDEX)
#undef SCHED_QUIRK_INDEX
    SCHED_QUIRK_COUNT,
};
#define SCHED_QUIRK(name) (UINT64_C(1) << SCHED_QUIRK_INDEX_##name)
#define SCHED_QUIRKS_NONE UINT64_C(0)
/* Mimic mode: decide as KAI would. */
#define SCHED_QUIRKS_ALL ((UINT64_C(1) << SCHED_QUIRK_COUNT) - 1)

/* Those that KAI has given up since: 0.17 is mimicked without them. */
#define SCHED_QUIRKS_PAST \
    (SCHED_QUIRK(GPU_MEMORY_100) | SCHED_QUIRK(SIDECARS) | SCHED_QUIRK(OLD_GROUPS))

struct sched_quirk_text {
    const char *word;
    const char *theirs;
    const char *ours;
};
extern const struct sched_quirk_text sched_quirk_texts[SCHED_QUIRK_COUNT];

/* The actions of a cycle. They run in this order, with the last one, which looks after what earlier
 * cycles promised, before the others. */
#define SCHED_ACTIONS(X)            \
    X(ALLOCATE, "allocate")         \
    X(CONSOLIDATE, "consolidation") \
    X(RECLAIM, "reclaim")           \
    X(PREEMPT, "preempt")           \
    X(STALE, "stalegangeviction")   \
    X(RESERVE, "reservation")

enum sched_action {
#define SCHED_ACTION_ENUM(name, word) SCHED_ACTION_##name,
    SCHED_ACTIONS(SCHED_ACTION_ENUM)
#undef SCHED_ACTION_ENUM
    SCHED_ACTION_COUNT,
};
#define SCHED_ACTIONS_ALL ((1U << SCHED_ACTION_COUNT) - 1)
const char *sched_action_word(enum sched_action action);

/* How nodes that have room are told apart: X(NAME, word for options and documents). */
#define SCHED_STRATEGIES(X)                                                                 \
    X(BINPACK, "binpack")             /* fill nodes up */                                   \
    X(SPREAD, "spread")               /* use all of them */                                 \
    X(FRAGMENTATION, "fragmentation") /* leave GPUs usable for what is usually asked for */ \
    X(FGD, "fgd")                     /* the same by a published rule, to compare with */   \
    X(SCORED, "scored")               /* config.score says */

enum sched_strategy {
#define SCHED_STRATEGY_ENUM(name, word) SCHED_##name,
    SCHED_STRATEGIES(SCHED_STRATEGY_ENUM)
#undef SCHED_STRATEGY_ENUM
    SCHED_STRATEGY_COUNT,
};
const char *sched_strategy_word(enum sched_strategy strategy);
/* SCHED_STRATEGY_COUNT: there is none of that name. */
enum sched_strategy sched_strategy_named(struct str word);

/* A node that has room for a pod, as SCHED_SCORED is told of it. */
struct sched_candidate {
    struct str node;
    struct str pod;
    int64_t idle_cpu_milli;
    int64_t cpu_milli; /* in all */
    int64_t idle_memory_bytes;
    int64_t memory_bytes;
    int64_t idle_gpu_milli;
    int64_t gpu_milli;
};

/* Who hands out devices, and so what a share of one is. */
enum sched_devices {
    /* The plan numbers them, whole ones and shared ones alike; bound pods name the numbers. */
    SCHED_DEVICES_NUMBERED,
    /* A device plugin: the plan names only shared ones, by a group that is new with the first share
     * of a device, and something on the node holds the device for the group (a reservation pod). A
     * pod that wants a share must have been prepared for it at admission. */
    SCHED_DEVICES_RESERVED,
    /* A device plugin, and no shares: a pod that wants one waits with that reason. */
    SCHED_DEVICES_WHOLE,
};

/* How one node pool is run. */
struct sched_policy {
    uint32_t actions;                   /* bits 1 << enum sched_action */
    uint32_t depth[SCHED_ACTION_COUNT]; /* the first so many groups of each queue; 0: all */
    enum sched_strategy gpu_strategy;
    enum sched_strategy cpu_strategy;
    int64_t stale_grace_ms;         /* below 0: never */
    int64_t stuck_after_ms;         /* being deleted; nobody counts on such a pod's room then */
    int64_t consolidate_max;        /* groups moved for one group; -1: no maximum, 0: off */
    bool consolidating_reclaim;     /* victims that find another place are moved, not lost */
    bool restrict_nodes;            /* GPU pods only on gpu-worker nodes, CPU pods on cpu-worker */
    double k_value;                 /* how much past usage counts */
    double saturation;              /* multiplier of reclaim's last rule, at least 1 */
    int64_t preempt_min_runtime_ms; /* where no queue says */
    int64_t reclaim_min_runtime_ms;
    bool
        reclaim_runtime_by_queue; /* resolve from the victim's leaf, not from the common ancestor */
    /* How long a gang waits at the head of its queue before room is kept for it; below 0: for ever.
     */
    int64_t reserve_after_ms;
    /* Of that room, what groups are expected to be done with in time is lent to them, too: by what
     * they say they run (sched_group.expected_ms), and as long again as they ran once that is over.
     * The gang may start later for it. */
    bool lend_expected;
    /* Pods go only where the NUMA zones of a node hold them, and best where few zones do. */
    bool numa;
    bool numa_reported;    /* what zones have free is as nodes report it, not as pods add up */
    char numa_ignore[128]; /* resources that zones do not matter for, with commas between */
    /* A pod whose eviction a PodDisruptionBudget forbids is deleted where nobody else can go. */
    bool delete_refused;
    /* Leave out the rules of a KAI plugin. */
    bool without_proportion;
    bool without_filters;
    bool without_placement;
};

struct sched_config {
    uint64_t quirks;
    enum sched_devices devices;
    struct sched_policy policy; /* see sched_set_policy() */
    /* Pods of other schedulers hold room but are not placed. A list, see api/scheduler_name.h;
     * empty: every pod is ours. */
    struct str scheduler_name;
    /* Claims of volumes are observed, too: pods go where theirs can be used. Else they are ignored. */
    bool volumes;
    struct str queue_label; /* kai.scheduler/queue */
    struct str pool_label;  /* kai.scheduler/node-pool */
    uint64_t seed;          /* of hash tables; changes nothing that can be observed */
    /* SCHED_SCORED: the node with the highest score is taken. A function of these values alone. */
    double (*score)(const struct sched_candidate *candidate);
    bool silent; /* plans do not say who waits and why */
    /* Use plain scans instead of the indexes; the plan must be the same. */
    bool plain;
};

/* Quirks off, devices numbered, every action, bin-packing, 60 s grace, 16 moved groups, k 1,
 * saturation 1, room kept after 5 minutes. */
void sched_config_default(struct sched_config *config);

/* The strings of the config are copied. */
struct sched *sched_new(const struct sched_config *config);
void sched_free(struct sched *sched);
const struct sched_config *sched_config(const struct sched *sched);
/* The group of a pod with that spec: what it is told, or, of a pod of ours, what stands for the
 * PodGroup of scheduling.k8s.io that it names. */
struct str sched_pod_group(const struct sched_config *config,
                           const struct object *object,
                           const struct json *spec);
/* From the next cycle on the pool is run like this. The pool "" is that of nodes and queues without
 * the label; pools that have no policy of their own are run like it, and NULL, which is for them
 * alone, takes theirs away. */
void sched_set_policy(struct sched *sched, struct str pool, const struct sched_policy *policy);
/* Walk the pools that have a policy of their own; start with *cursor = 0, false ends. The name is
 * good until the next change. */
bool sched_next_policy(const struct sched *sched,
                       size_t *cursor,
                       struct str *ret_pool,
                       struct sched_policy *ret);
/* Other names of the scheduler and of labels; the strings are copied. What was put before keeps
 * what it was read as: drop everything first, and put it again. */
void sched_set_names(struct sched *sched,
                     struct str scheduler_name,
                     struct str queue_label,
                     struct str pool_label);
/* Whether any pool or queue has a minimum run time, or a group a maximum, so that sched_bind.first_start matters. */
bool sched_counts_starts(const struct sched *sched);
/* What a queue has used over time, as shares of its pool, 0 to 1; counts until the next call or
 * sched_forget_usage() of that pool. Unknown queues are ignored. */
void sched_set_usage(struct sched *sched,
                     struct str queue,
                     const double usage[static SCHED_RESOURCES]);
void sched_forget_usage(struct sched *sched, struct str pool);
/* Walk the queues of which that was said, the same way. */
bool sched_next_usage(const struct sched *sched,
                      size_t *cursor,
                      struct str *ret_queue,
                      double ret[static SCHED_RESOURCES]);

/* ---- events ---- */
enum sched_change {
    SCHED_PUT, /* the object appeared or changed */
    SCHED_DROP,
};
/* Translate an API object and take it over. Kinds that do not matter to scheduling are ignored.
 * 0, or -EINVAL with words when a field makes no sense; the object is then taken as far as it can
 * be (a pod with an impossible request waits with that reason), so the caller only needs to log. */
int sched_observe(struct sched *sched,
                  enum sched_change change,
                  const struct object *object,
                  struct err *err);

void sched_put_node(struct sched *sched, const struct sched_node *node);
void sched_drop_node(struct sched *sched, struct str name);
void sched_put_pod(struct sched *sched, const struct sched_pod *pod);
void sched_drop_pod(struct sched *sched, struct str ns, struct str name);
void sched_put_group(struct sched *sched, const struct sched_group *group);
void sched_drop_group(struct sched *sched, struct str ns, struct str name);
void sched_put_queue(struct sched *sched, const struct sched_queue *queue);
void sched_drop_queue(struct sched *sched, struct str name);
void sched_put_priority_class(struct sched *sched, const struct sched_priority_class *class);
void sched_drop_priority_class(struct sched *sched, struct str name);
void sched_put_topology(struct sched *sched, const struct sched_topology *topology);
void sched_drop_topology(struct sched *sched, struct str name);
/* Namespaces, whose labels the affinity of pods may ask for. */
void sched_put_namespace(struct sched *sched, const struct sched_namespace *space);
void sched_drop_namespace(struct sched *sched, struct str name);
void sched_put_claim(struct sched *sched, const struct sched_claim *claim);
void sched_drop_claim(struct sched *sched, struct str ns, struct str name);
void sched_put_slice(struct sched *sched, const struct sched_slice *slice);
void sched_drop_slice(struct sched *sched, struct str name);
void sched_put_device_class(struct sched *sched, const struct sched_device_class *spec);
void sched_drop_device_class(struct sched *sched, struct str name);
void sched_put_volume_claim(struct sched *sched, const struct sched_volume_claim *claim);
void sched_drop_volume_claim(struct sched *sched, struct str ns, struct str name);
void sched_put_volume(struct sched *sched, const struct sched_volume *volume);
void sched_drop_volume(struct sched *sched, struct str name);
void sched_put_storage_class(struct sched *sched, const struct sched_storage_class *spec);
void sched_drop_storage_class(struct sched *sched, struct str name);
/* Whether the driver says how much room it has where. */
void sched_put_storage_driver(struct sched *sched, struct str name, bool says_room);
void sched_put_volume_limits(struct sched *sched, const struct sched_volume_limits *limits);
void sched_drop_volume_limits(struct sched *sched, struct str node);
void sched_put_storage_room(struct sched *sched, const struct sched_storage_room *room);
void sched_drop_storage_room(struct sched *sched, struct str ns, struct str name);
/* The NUMA zones of a node. */
void sched_put_numa(struct sched *sched, const struct sched_numa *numa);
void sched_drop_numa(struct sched *sched, struct str node);

/* A write of the plan did not happen: take the decision back. Unknown pods are ignored, and so is
 * one of that name with another uid, about which the write was not; no uid: any. */
void sched_bind_failed(struct sched *sched, const struct sched_pod_ref *pod);
void sched_evict_failed(struct sched *sched, const struct sched_pod_ref *pod);
/* A PodDisruptionBudget forbade it. The pod is left alone from SCHED_SPARE_MIN_MS on, twice as long
 * each time, and others are searched for in its place; where there are none, sched_policy says
 * whether it is deleted. */
#define SCHED_SPARE_MIN_MS 30000
#define SCHED_SPARE_MAX_MS 480000
void sched_evict_refused(struct sched *sched, const struct sched_pod_ref *pod, int64_t now_ms);
/* It did happen, but the rest of its gang could not be bound, so that the pod is being deleted: it
 * holds its room until it is gone. */
void sched_bind_undone(struct sched *sched, const struct sched_pod_ref *pod);

/* The writes of the plan for a group came back: its binds, or the evictions made for it. One that
 * failed is left alone from SCHED_RETRY_MIN_MS on, twice as long each time, while everybody else is
 * scheduled as ever. */
#define SCHED_RETRY_MIN_MS 100
#define SCHED_RETRY_MAX_MS 10000
void sched_written(struct sched *sched,
                   struct str ns,
                   struct str group,
                   bool failed,
                   int64_t now_ms);
/* A node gave a device that is to be shared, or failed to. Where it failed no other one is opened
 * from SCHED_SHUT_MIN_MS on, twice as long each time; devices that are shared there already are
 * used as ever. */
#define SCHED_SHUT_MIN_MS 5000
#define SCHED_SHUT_MAX_MS 320000
void sched_share_opened(struct sched *sched, struct str node, bool failed, int64_t now_ms);

/* ---- the cycle ---- */
struct sched_pod_ref {
    struct str ns;
    struct str name;
    struct str uid;
};

/* A claim that the pod uses: it is reserved for the pod before the bind. `devices`: what it is given,
 * where it has nothing yet. */
struct sched_bind_device {
    struct str request; /* "request", or "request/choice" */
    struct str class;
    struct str driver;
    struct str pool;
    struct str device;
};
struct sched_bind_claim {
    struct str name;
    const struct sched_bind_device *devices;
    size_t device_count;
    bool everywhere; /* they can be used from every node, else from this one */
};

/* A PersistentVolumeClaim that has to be bound before the pod is. */
struct sched_bind_volume {
    struct str claim;
    struct str volume; /* the PersistentVolume that it is given; empty: its provisioner makes one */
    struct str node;   /* for this node, which may be that of another pod of the gang */
};

/* What few binds have. */
struct sched_bind_more {
    const struct sched_bind_volume *volumes;
    size_t volume_count;
    const struct sched_bind_claim *claims;
    size_t claim_count;
    /* It asked for GPUs as nvidia.com/gpu, so many, on a node where drivers publish them: a claim is
     * made for it, which is given these. Their requests are not named. */
    const struct sched_bind_device *whole;
    size_t whole_count;
    int64_t whole_gpus;
    /* The NUMA zones that the node's kubelet is expected to give it. */
    const struct sched_zone_part *zone_parts;
    size_t zone_part_count;
};

/* Bind a pod to a node. Binds of one `batch` belong together (one gang): all of them or none. A plan
 * may have one for every pod of a cluster. */
struct sched_bind {
    struct sched_pod_ref pod;
    struct str group; /* pod group, in the pod's namespace */
    struct str node;
    /* Whole devices or shared ones, by number on the node; none for pods without GPUs and on nodes
     * whose devices are numbered by somebody else. */
    const uint32_t *devices;
    uint32_t device_count;
    uint32_t batch;
    int64_t gpu_fraction_micro;         /* of each device; 0: whole devices */
    int64_t gpu_memory_mib;             /* of each shared device */
    const struct str *gpu_groups;       /* names of the shared devices, as bound pods name them */
    const struct sched_bind_more *more; /* NULL: nothing of it */
    uint32_t gpu_group_count;
    /* The pod is suspended on that node: it has its GPUs there again, and goes on. */
    bool resume;
    bool may_suspend;   /* work that gives way keeps its pods: its node prepares for that */
    bool first_start;   /* first pods of this group: record last-start-timestamp = now */
    int64_t created_ms; /* the pod was; in whole seconds, as the API has it */
};

struct sched_evict {
    struct sched_pod_ref pod;
    struct str group;
    enum sched_action action; /* by which rule */
    struct str for_ns;        /* the group it makes room for; empty for stale gangs */
    struct str for_group;
    bool moved;         /* room elsewhere is set aside for its successor */
    bool suspend;       /* it gives up its GPUs and stays, see api/suspend.h */
    bool delete;        /* whatever budgets say, see sched_policy.delete_refused */
    struct str message; /* why, as a sentence */
};

/* A pod that will get this room as soon as the pods in it have ended. */
struct sched_nominate {
    struct sched_pod_ref pod;
    struct str group;
    struct str node;
};

/* What stands in the way of a waiting group. */
#define SCHED_REASONS(X)                                                           \
    X(NONE, "Scheduled")                                                           \
    X(NOT_READY, "NotReady") /* fewer pods than the minimum */                     \
    X(NO_GROUP, "NoPodGroup")                                                      \
    X(NO_QUEUE, "QueueDoesNotExist")                                               \
    X(NAMESPACE, "NamespaceNotAllowed") /* its queue takes others' work */         \
    X(QUEUE_BROKEN, "QueueBroken")      /* orphan, cycle, not a leaf */            \
    X(OVER_LIMIT, "OverLimit")                                                     \
    X(OVER_QUOTA, "NonPreemptibleOverQuota")                                       \
    X(NO_NODE, "NoMatchingNode") /* filters leave no node */                       \
    X(TOO_BIG, "LargerThanAnyNode")                                                \
    X(TOO_LARGE, "LargerThanCluster") /* even with every node empty */             \
    X(NO_ROOM, "NotEnoughResources")                                               \
    X(FRAGMENTED, "Fragmented") /* enough in sum, not together */                  \
    X(TOPOLOGY, "TopologyNotSatisfied")                                            \
    X(AFFINITY, "AffinityNotSatisfied")     /* room only where pods keep it out */ \
    X(TERMINATING, "WaitingForTermination") /* placed on room still in use */      \
    X(RESERVED, "BehindReservation")                                               \
    X(INVALID, "InvalidPod")                                                       \
    X(NO_CLAIM, "ResourceClaimMissing")                                            \
    X(VOLUME, "VolumeNotReady") /* a claim is not there, or not bound */           \
    X(HELD, "HeldBack")                                                            \
    X(GATED, "SchedulingGated")                                                    \
    X(IN_LINE, "InLine") /* others come first this cycle */

enum sched_reason {
#define SCHED_REASON_ENUM(name, word) SCHED_REASON_##name,
    SCHED_REASONS(SCHED_REASON_ENUM)
#undef SCHED_REASON_ENUM
    SCHED_REASON_COUNT,
};
const char *sched_reason_word(enum sched_reason reason);
/* Whether more nodes, of whatever kind, could be what it waits for. */
bool sched_reason_wants_nodes(enum sched_reason reason);

/* What turns a pod away from a node: X(NAME, word for programs, words for people). */
#define SCHED_FILTERS(X)                                                            \
    X(UNREADY, "unready", "not ready or cordoned")                                  \
    X(SELECTOR, "selector", "not matching node selector or affinity")               \
    X(TAINT, "taint", "with a taint the pod does not tolerate")                     \
    X(GPU_TYPE, "gpuType", "without that kind of GPU")                              \
    X(TOO_SMALL, "tooSmall", "too small even when empty")                           \
    X(CPU, "cpu", "short of CPU")                                                   \
    X(MEMORY, "memory", "short of memory")                                          \
    X(GPU, "gpu", "short of GPUs")                                                  \
    X(OTHER, "other", "short of another resource")                                  \
    X(SLOTS, "podSlots", "with no pod slot left")                                   \
    X(PORT, "hostPort", "with the host port taken")                                 \
    X(AFFINITY, "podAffinity", "ruled out by pod affinity or anti-affinity")        \
    X(SPREAD, "topologySpread", "ruled out by a topology spread constraint")        \
    X(CLAIM, "resourceClaim", "not able to serve its resource claim")               \
    X(QUEUE, "queueLimit", "where its queue would pass a limit")                    \
    X(RESERVED, "reserved", "with room that is reserved")                           \
    X(SHUT, "shutForSharing", "that failed to give a GPU for sharing lately")       \
    X(DEVICE, "device", "with another GPU free than the one it was suspended from") \
    X(NUMA, "numa", "whose NUMA zones cannot hold it as their kubelet wants")       \
    X(VOLUME, "volume", "from which its volumes cannot be used")

enum sched_filter {
#define SCHED_FILTER_ENUM(name, ...) SCHED_FILTER_##name,
    SCHED_FILTERS(SCHED_FILTER_ENUM)
#undef SCHED_FILTER_ENUM
    SCHED_FILTER_COUNT,
};
const char *sched_filter_word(enum sched_filter filter);

/* Why a group waits, for programs: the bounded record that is kept of every waiting group. It is
 * worked out when what stands in the way changes, and every SCHED_WHY_MS while that stays. Amounts
 * are millicores, bytes and thousandths of GPUs. */
#define SCHED_WHY_MS 10000
struct sched_why {
    enum sched_reason reason;
    int64_t at_ms; /* when it was worked out */
    uint32_t pods; /* that have to be placed together next */
    int64_t request[SCHED_RESOURCES];
    int64_t free[SCHED_RESOURCES]; /* in its node pool */
    int64_t total[SCHED_RESOURCES];
    enum sched_resource resource; /* that is short, where one is */
    int64_t missing;              /* of it: the smallest amount that would change the matter */
    bool elsewhere;               /* its pods are another scheduler's */
    struct str other;             /* another resource that is short, where one is; the sched's */
    int64_t other_asked;          /* of it by one pod */
    int64_t other_most; /* of it on the node that has most of it, or has most of it free */
    uint32_t nodes[SCHED_FILTER_COUNT + 1]; /* by what turns the pod away; the last one: nothing */
};

/* One waiting group. The strings live in the cycle's arena. */
struct sched_waiting {
    struct str ns;
    struct str group;
    struct str queue;
    enum sched_reason reason;
    struct str message; /* a sentence: "needs 8 GPUs in a gang of 2 pods; 3 of 8 GPUs are free" */
    struct sched_why why;
    uint32_t pending_pods;
    int64_t since_ms;
    bool changed; /* not what the last plan said */
};

/* Something about an object that the shell should record. */
struct sched_note {
    struct str ns;
    struct str group;
    enum {
        SCHED_NOTE_STALE,     /* stale since now: write the annotation */
        SCHED_NOTE_NOT_STALE, /* recovered: remove it */
        SCHED_NOTE_EVICTED,   /* lost pods to others, and its preemptionDelay begins again */
        SCHED_NOTE_OVER,      /* ran for its maxRunTime, and is not queued again */
    } note;
};

struct sched_plan {
    const struct sched_bind *binds;
    size_t bind_count;
    const struct sched_evict *evicts;
    size_t evict_count;
    const struct sched_nominate *nominates;
    size_t nominate_count;
    const struct sched_waiting *waiting;
    size_t waiting_count;
    const struct sched_note *notes;
    size_t note_count;
    int64_t next_wake_ms; /* run a cycle then even if nothing changes; 0: no need */
};

/* Whether anything happened since the last cycle that could change a decision. */
bool sched_needs_cycle(const struct sched *sched);

/* Decide. Everything the plan points to lives in `arena`. */
void sched_cycle(struct sched *sched, int64_t now_ms, struct arena *arena, struct sched_plan *ret);

/* ---- looking in ---- */
struct sched_node_view {
    struct str name;
    int64_t idle_cpu_milli;
    int64_t idle_memory_bytes;
    int64_t idle_gpus;      /* whole devices nobody uses */
    int64_t releasing_gpus; /* held by terminating pods and promised to nobody */
    int64_t gpus;
    int64_t shared_gpus;       /* devices that pods have fractions of */
    int64_t free_shares_milli; /* thousandths of GPUs that are free on those */
    size_t pod_count;
};
bool sched_node_view(const struct sched *sched, struct str name, struct sched_node_view *ret);

struct sched_queue_view {
    struct str name;
    double quota[SCHED_RESOURCES];
    double limit[SCHED_RESOURCES];
    double fair_share[SCHED_RESOURCES]; /* of the last cycle */
    double allocated[SCHED_RESOURCES];  /* in the units of the API: devices, millicores, bytes */
    double allocated_non_preemptible[SCHED_RESOURCES];
    double requested[SCHED_RESOURCES];
    double usage[SCHED_RESOURCES]; /* over time, 0 to 1, where it is known */
    bool orphan;                   /* its parent does not exist, or it is part of a cycle */
};
bool sched_queue_view(const struct sched *sched, struct str name, struct sched_queue_view *ret);

/* Walk the users of a queue that goes by them; start with *cursor = 0, false ends. Amounts are
 * millicores, bytes and thousandths of GPUs. The name is good until the next change. */
bool sched_next_user(const struct sched *sched,
                     struct str queue,
                     size_t *cursor,
                     struct str *ret_user,
                     int64_t ret_held[static SCHED_RESOURCES]);

/* Whether a pod waits for room on a node that others are about to leave; *ret_node is which. */
bool sched_promised(const struct sched *sched,
                    struct str ns,
                    struct str name,
                    struct str *ret_node);

/* Whether binds of the group may still be written: neither its queue nor one above it is beyond a
 * limit. True for what is not known. */
bool sched_may_bind(const struct sched *sched, struct str ns, struct str group);

/* Whether the volumes of a pod that is to be bound are what its plan counted on. */
enum sched_volumes {
    SCHED_VOLUMES_READY,
    SCHED_VOLUMES_WAIT, /* *ret_claim is not bound yet; the provisioner has been told the node */
    SCHED_VOLUMES_TOLD_NOT, /* the same, and it has not, or does not want to for this node */
    SCHED_VOLUMES_LOST,     /* *ret_claim cannot be used from that node, or is gone */
};
enum sched_volumes sched_volumes(const struct sched *sched,
                                 const struct sched_pod_ref *pod,
                                 struct str node,
                                 struct str *ret_claim);

/* Everything about one waiting group, for whoever asks. */
struct sched_explanation {
    struct str ns;
    struct str group;
    struct str queue;
    struct str message;
    struct str change; /* the smallest change that would let it in, as a sentence */
    struct sched_why why;
    bool preemptible;                /* what it lacks may use more than quota */
    struct sched_queue_view numbers; /* of the queue that stands in the way, else of its own */
    uint32_t place;                  /* in the line of its queue: 1 is next */
    uint32_t line;                   /* groups of the queue that wait */
    int64_t since_ms;
    int64_t kept_since_ms; /* room is kept for it since then; 0: not */
    int64_t kept_start_ms; /* and it starts by then at the latest; 0: not known */
};
/* False: there is no such group, or it does not wait. Strings live in `arena`. */
bool sched_explain(const struct sched *sched,
                   struct str ns,
                   struct str group,
                   struct arena *arena,
                   struct sched_explanation *ret);
/* The same as JSON: reason, message, change, request, free, nodes by filter, queue, place. */
struct json *sched_explanation_json(struct arena *arena, const struct sched_explanation *from);

/* What an action did since the core was made. */
struct sched_tally {
    uint64_t tried;     /* groups it looked at, once for every cycle in which it did */
    uint64_t placed;    /* times that it found room for one */
    uint64_t simulated; /* sets of victims it played through */
    uint64_t filtered;  /* sets that were seen to be of no help without that */
};
void sched_tally(const struct sched *sched, enum sched_action action, struct sched_tally *ret);

/* The steps of a cycle in the order in which they end; the actions begin with the last one, see
 * SCHED_ACTIONS. */
enum sched_step {
    SCHED_STEP_OPEN,   /* queues linked, nodes ranked, old promises dropped */
    SCHED_STEP_SHARES, /* fair shares divided */
    SCHED_STEP_ACTION, /* one for each enum sched_action, added to this */
    SCHED_STEP_PLAN = SCHED_STEP_ACTION + SCHED_ACTION_COUNT, /* reasons found, plan written */
    SCHED_STEP_COUNT,
};
/* From now on `done` hears of the end of every step, so that a shell can take the time; it must
 * not call the core. */
void sched_measure(struct sched *sched, void (*done)(void *user, enum sched_step step), void *user);

/* Everything that goes into the core, and what comes out: enough to repeat it (replay/recording.h).
 * What is not said of a kind is empty. */
enum sched_input_kind {
    SCHED_INPUT_OBJECT,        /* change, object: sched_observe() */
    SCHED_INPUT_POD,           /* pod: sched_put_pod() */
    SCHED_INPUT_POD_GONE,      /* ns, name */
    SCHED_INPUT_BIND_FAILED,   /* ns, name, uid */
    SCHED_INPUT_EVICT_FAILED,  /* ns, name, uid */
    SCHED_INPUT_EVICT_REFUSED, /* ns, name, uid, now_ms */
    SCHED_INPUT_BIND_UNDONE,   /* ns, name, uid */
    SCHED_INPUT_WRITTEN,       /* ns, name of the group, failed, now_ms */
    SCHED_INPUT_SHARE,         /* name of the node, failed, now_ms */
    SCHED_INPUT_POLICY,        /* name of the pool, policy */
    SCHED_INPUT_NAMES,         /* ns, name, pool: scheduler, queue label, pool label */
    SCHED_INPUT_USAGE,         /* name of the queue, usage */
    SCHED_INPUT_FORGET,        /* name of the pool */
    SCHED_INPUT_CYCLE,         /* now_ms, plan: after it */
};
struct sched_input {
    enum sched_input_kind kind;
    enum sched_change change;
    const struct object *object;
    const struct sched_pod *pod;
    struct str ns;
    struct str name;
    struct str uid;
    struct str pool;
    bool failed;
    int64_t now_ms;
    const struct sched_policy *policy;
    const double *usage;
    const struct sched_plan *plan;
};
/* From now on `saw` hears of all of it; it must not change the core. NULL: nobody does. */
void sched_tap(struct sched *sched,
               void (*saw)(void *user, const struct sched_input *input),
               void *user);

/* Whether all that counts of what the core knows is in the objects it saw, `pods` of which are
 * pods: none of its binds and evictions is under way, and no room is held for pods that are gone.
 * Promises of room that others still leave are made again by whoever starts with these objects. */
bool sched_is_settled(const struct sched *sched, size_t pods);
/* Forgets everything but its settings, who listens and what it counted, as if it was made anew. */
void sched_restart(struct sched *sched);

struct sched_counts {
    size_t nodes;
    size_t pods;
    size_t groups;
    size_t queues;
};
void sched_count(const struct sched *sched, struct sched_counts *ret);
