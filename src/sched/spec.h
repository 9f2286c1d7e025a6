#pragma once

#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct json;

/* spec: what the scheduler needs to know about each object, as plain values.
 *
 * A spec is an event's contents: everything in it is borrowed for the length of the call and copied
 * by the core. The zero value of a field is its default unless a comment says otherwise. Amounts
 * are whole numbers: CPU in millicores, memory in bytes, GPUs in thousandths of a device. Quotas,
 * limits and weights of queues are doubles because their fields in the API are. */

/* ---- selecting by labels ---- */
struct sched_label {
    struct str key;
    struct str value;
};

enum sched_operator {
    SCHED_IN,
    SCHED_NOT_IN,
    SCHED_EXISTS,
    SCHED_NOT_EXISTS,
    SCHED_GT, /* node affinity only: the label is a whole number greater than the value */
    SCHED_LT,
};

struct sched_expression {
    struct str key;
    enum sched_operator op;
    const struct str *values;
    size_t value_count;
};

/* All expressions must hold. An empty selector matches everything where `set`, else nothing. */
struct sched_selector {
    const struct sched_expression *expressions;
    size_t expression_count;
    bool set;
};

/* One nodeSelectorTerm; `fields` are matchFields on metadata.name. A term with neither matches no
 * node, as in Kubernetes. */
struct sched_node_term {
    const struct sched_expression *labels;
    size_t label_count;
    const struct sched_expression *fields;
    size_t field_count;
    int64_t weight; /* preferred terms */
};

struct sched_pod_term {
    struct sched_selector selector;
    struct str topology_key;
    const struct str *namespaces; /* none and no selector: the pod's own */
    size_t namespace_count;
    struct sched_selector namespace_selector; /* an empty one: all */
    int64_t weight;                           /* preferred terms */
};

struct sched_spread {
    struct sched_selector selector;
    struct str topology_key;
    int64_t max_skew;
    int64_t min_domains; /* 0: unset */
    bool required;       /* DoNotSchedule */
    /* Nodes that the pod may not go to count all the same: those that it does not select, those with
     * taints that it does not tolerate. */
    bool any_selected;
    bool any_taints;
};

struct sched_namespace {
    struct str name;
    const struct sched_label *labels;
    size_t label_count;
};

/* ---- node ---- */
enum sched_effect {
    SCHED_NO_SCHEDULE,
    SCHED_NO_EXECUTE,
    SCHED_PREFER_NO_SCHEDULE,
};

struct sched_taint {
    struct str key;
    struct str value;
    enum sched_effect effect;
};

struct sched_amount {
    struct str name; /* "nvidia.com/mig-1g.5gb", "ephemeral-storage", ... */
    int64_t amount;
};

enum sched_mig {
    SCHED_MIG_NONE,
    SCHED_MIG_SINGLE,
    SCHED_MIG_MIXED,
};

struct sched_node {
    struct str name;
    struct str pool; /* node-pool label; empty: the default pool */
    const struct sched_label *labels;
    size_t label_count;
    const struct sched_taint *taints;
    size_t taint_count;
    bool unschedulable;
    bool not_ready; /* Ready is not True, or memory, disk, PID or network pressure */
    /* allocatable */
    int64_t cpu_milli;
    int64_t memory_bytes;
    int64_t gpus; /* whole devices, time slices counted as devices */
    int64_t pods;
    const struct sched_amount *amounts; /* everything else, MIG profiles included */
    size_t amount_count;
    int64_t gpu_memory_mib; /* of one device; 0: unknown, gpu-memory requests are refused */
    int64_t gpu_count;      /* physical devices where a label says so; 0: as many as `gpus` */
    enum sched_mig mig;
    /* A label says whether its GPUs are cut into MIG instances; where none does, they are if it has
     * such instances. The strategy alone says nothing: it is set for a cluster, whatever GPUs a node
     * has. */
    bool mig_enabled;
    bool mig_disabled;
    bool gpu_worker; /* role labels, for policy.restrict_nodes */
    bool cpu_worker;
};

/* ---- pod ---- */
enum sched_phase {
    SCHED_PENDING, /* no node yet */
    SCHED_GATED,   /* has scheduling gates */
    SCHED_BOUND,   /* has a node, does not run yet */
    SCHED_RUNNING,
    SCHED_RELEASING, /* being deleted or suspended, still holding its node's resources */
    SCHED_SUCCEEDED,
    SCHED_FAILED,
};

struct sched_toleration {
    struct str key; /* empty with `exists`: every taint */
    struct str value;
    bool exists;
    bool any_effect;
    enum sched_effect effect;
};

struct sched_port {
    struct str address; /* empty or 0.0.0.0: all */
    struct str protocol;
    int32_t port;
};

/* A container's own requests; in the order of the manifest, init containers first. */
enum sched_container_role {
    SCHED_CONTAINER_MAIN,
    SCHED_CONTAINER_INIT,
    SCHED_CONTAINER_SIDECAR, /* an init container that stays */
};
struct sched_container {
    enum sched_container_role role;
    const struct sched_amount *amounts; /* names of the API; CPUs in thousandths */
    size_t amount_count;
};

/* So much of a resource is from that NUMA zone. */
struct sched_zone_part {
    struct str zone;
    struct str name;
    int64_t amount;
};

struct sched_claim_use {
    struct str name;    /* the ResourceClaim's name */
    bool from_template; /* made for this pod alone */
};

struct sched_pod {
    struct str ns;
    struct str name;
    struct str uid;
    struct str group; /* pod group in the same namespace; empty: none, never scheduled */
    struct str subgroup;
    struct str scheduler; /* spec.schedulerName */
    int64_t created_ms;
    enum sched_phase phase;
    struct str node; /* spec.nodeName */
    struct str nominated_node;
    const struct sched_label *labels;
    size_t label_count;

    /* what it asks for */
    int64_t cpu_milli;
    int64_t memory_bytes;
    int64_t gpus;               /* whole devices */
    int64_t gpu_fraction_micro; /* 0 < x < 1,000,000 of each of gpu_devices devices */
    int64_t gpu_memory_mib;     /* of each of gpu_devices devices */
    int64_t gpu_devices;        /* with a fraction or memory; 0 means 1 */
    const struct sched_amount *amounts;
    size_t amount_count;
    bool guaranteed; /* its QoS class */
    /* Each container's own requests, where there is more than one; NULL: all of it is one's. */
    const struct sched_container *containers;
    size_t container_count;
    const struct sched_claim_use *claims;
    size_t claim_count;
    /* Names of the PersistentVolumeClaims that it mounts; the first `own_volumes` are made for it. */
    const struct str *volumes;
    size_t volume_count;
    size_t own_volumes;
    bool legacy_mig; /* an annotation names a MIG profile: never scheduled */
    /* the shared devices it sits on (bound pods), one name each; unknown: its own device */
    const struct str *gpu_groups;
    size_t gpu_group_count;
    /* the whole devices it was given, where known */
    const uint32_t *devices;
    size_t device_count;

    /* the NUMA zones of its node that it has parts of, where known */
    const struct sched_zone_part *zone_parts;
    size_t zone_part_count;

    /* where it may go */
    const struct sched_label *node_selector;
    size_t node_selector_count;
    const struct sched_node_term *node_terms; /* required; any of them */
    size_t node_term_count;
    bool node_affinity; /* required node affinity is present (with no terms: no node) */
    const struct sched_node_term *node_preferences;
    size_t node_preference_count;
    const struct sched_toleration *tolerations;
    size_t toleration_count;
    const struct sched_port *ports;
    size_t port_count;
    const struct sched_pod_term *affinity;
    size_t affinity_count;
    const struct sched_pod_term *anti_affinity;
    size_t anti_affinity_count;
    const struct sched_pod_term *affinity_preferences;
    size_t affinity_preference_count;
    const struct sched_pod_term *anti_affinity_preferences;
    size_t anti_affinity_preference_count;
    const struct sched_spread *spreads;
    size_t spread_count;

    int32_t role_rank; /* lower first: 0 master or launcher, 1 Ray head, 2 the rest */
    bool has_task_priority;
    int64_t task_priority; /* higher first; pods that have one before pods that have none */
    int64_t deadline_ms;   /* activeDeadlineSeconds: how long it may run, 0: not known */
    int64_t started_ms;    /* status.startTime, from which the deadline counts; 0: not started */
    int64_t deleted_ms;    /* metadata.deletionTimestamp of a pod that runs; 0: none */
    int64_t hold_ms;       /* annotation: its room is held so long when it fails; see hold.h */
    int64_t ended_ms;      /* FAILED: when the last of its containers ended; 0: not known */
    /* It holds its CPUs and memory on `node` and no GPU (api/suspend.h). PENDING: it goes on when it
     * has its GPUs there again; GATED: not yet. `devices` are the ones it had. */
    bool suspended;
    /* It has its GPUs again, and its node has not said yet that it goes on. Until then it is left
     * alone: asked to suspend anew, it would look like one that holds no GPU. */
    bool resuming;
    /* RELEASING, to be suspended as somebody wishes: it runs on if that fails, so its queue is charged
     * until it has happened. */
    bool may_stay;
    int64_t moved_bytes; /* of its GPU memory, to the node's memory, with `suspended` */
    /* Where reservation pods hold devices (SCHED_DEVICES_RESERVED): our library in it can give up its
     * share. */
    bool movable;
    /* Holds the devices of its groups open for sharing and takes nothing of them: what stays of a
     * suspended pod where reservation pods hold devices. */
    bool keeps_shares;
    /* The specification cannot be read: the pod is never placed, and this sentence is why. */
    struct str invalid;
};

/* ---- pod group ---- */
struct sched_topology_want {
    struct str topology; /* empty: no constraint */
    struct str required; /* node label of the level, or empty */
    struct str preferred;
};

struct sched_subgroup {
    struct str name;
    struct str parent; /* empty: directly below the group */
    int64_t min_member;
    int64_t min_subgroup; /* inner groups: how many children must start; 0: all, -1: none */
    struct sched_topology_want topology;
};

enum sched_preemptibility {
    SCHED_BY_PRIORITY, /* preemptible below priority 100 */
    SCHED_PREEMPTIBLE,
    SCHED_NON_PREEMPTIBLE,
    SCHED_SEMI_PREEMPTIBLE, /* the minimum is not, pods above it are */
};

/* What becomes of work that gives way to other work. */
enum sched_loss {
    SCHED_LOSS_UNSET, /* as its queue says, or the one above it; nobody says: it is evicted */
    SCHED_LOSS_SUSPEND,
    SCHED_LOSS_EVICT,
};

struct sched_group {
    struct str ns;
    struct str name;
    struct str uid;
    struct str pool;
    struct str queue;
    struct str user; /* label; empty: nobody's, which counts as one */
    int64_t created_ms;
    int64_t min_member;        /* below 1 counts as 1; unused with subgroups */
    struct str priority_class; /* looked up; unknown: the default class, else 50 */
    bool has_priority;         /* `priority` instead of the class */
    int64_t priority;
    enum sched_preemptibility preemptibility;
    struct sched_topology_want topology;
    const struct sched_subgroup *subgroups;
    size_t subgroup_count;
    int64_t min_subgroup;   /* of those below no other; 0: all */
    int64_t stale_since_ms; /* annotation; 0: not stale */
    int64_t last_start_ms;  /* annotation; 0: never started */
    int64_t stale_grace_ms; /* this group's own grace period; used with has_stale_grace */
    bool has_stale_grace;
    /* So long after it was made, or lost pods to others, it takes nothing from them; 0: it may. */
    int64_t preempt_delay_ms;
    int64_t last_eviction_ms; /* annotation; 0: never */
    /* How long it may run from its start on, 0: for ever; then it goes, and back into the line with
     * `requeue`. */
    int64_t max_run_ms;
    bool requeue;
    int64_t over_ms; /* annotation: when that time was over, without `requeue`; 0: it is not */
    enum sched_loss loss;
    /* Annotation: its pods are stopped together, also those above its minimum; or one by one, also
     * those within it, which counts only when it starts. Neither: above it one by one. */
    bool whole;
    bool single;
    int64_t hold_until_ms; /* annotation; 0: none; see hold.h */
    bool held;             /* schedulingBackoff says to leave it out for now */
    struct str refusal;    /* annotation: why none of its pods is started; empty: they may be */
    int64_t expected_ms;   /* how long it is expected to run; 0: not known */
};

/* ---- queue ---- */
enum sched_resource {
    SCHED_CPU,
    SCHED_MEMORY,
    SCHED_GPU,
};
#define SCHED_RESOURCES 3

#define SCHED_UNLIMITED (-1.0)

/* In units of the API: millicores, bytes, devices. SCHED_UNLIMITED in quota and limit. */
struct sched_quota {
    double quota;
    double limit;
    double weight;
};

/* Who of a queue is next, among those of one priority. */
enum sched_order {
    SCHED_ORDER_CREATED, /* who waits longest */
    /* Who would be done first: what a group is expected to run counts SCHED_EXPECTED_TIMES against
     * the moment it was created. So short work goes first, and whoever waits is overtaken only by
     * what is created within that time. Expected is what the group says, else the longest deadline
     * of its pods, else SCHED_EXPECTED_MS. */
    SCHED_ORDER_EXPECTED,
    /* Whose user holds least of the queue: GPUs, then CPUs. So its users share it evenly, whoever
     * asks for more. */
    SCHED_ORDER_USERS,
};
#define SCHED_EXPECTED_TIMES 4
#define SCHED_EXPECTED_MS    3600000

/* At most so many GPUs of one model. */
struct sched_model_limit {
    struct str model; /* value of the node label SCHED_MODEL_LABEL */
    double limit;     /* devices */
};
#define SCHED_MODEL_LABEL "nvidia.com/gpu.product"
#define SCHED_MODELS_MAX  32 /* limits of one queue */

/* Whose work a queue takes. */
struct sched_tenants {
    bool closed; /* to all but these; else to nobody */
    const struct str *names;
    size_t name_count;
    struct sched_selector selector;
};

struct sched_queue {
    struct str name;
    struct str parent; /* empty: top level */
    struct str pool;
    int64_t created_ms;
    int64_t priority; /* the API's default is 100; the decoder fills it in */
    struct sched_quota quota[SCHED_RESOURCES];
    /* CPUs and memory that it has no quota of because it says nothing of one: they go along with what
     * it does name, within quota, and bound nothing that is not preemptible. */
    bool unset[SCHED_RESOURCES];
    double usage[SCHED_RESOURCES];  /* share of the cluster used over the window, 0..1 */
    int64_t preempt_min_runtime_ms; /* -1: inherited */
    int64_t reclaim_min_runtime_ms;
    enum sched_order order;
    enum sched_loss loss;
    bool lends; /* where its quota is 0: to work that is not preemptible; see api/beyond.h */
    const struct sched_model_limit *models;
    size_t model_count; /* at most SCHED_MODELS_MAX */
    struct sched_tenants tenants;
};

struct sched_priority_class {
    struct str name;
    int64_t value;
    bool global_default;
};

struct sched_topology {
    struct str name;
    const struct str *levels; /* node label keys, widest first */
    size_t level_count;
    const struct str *aliases; /* as many: other names of the levels, or empty; NULL: none */
};

/* The NUMA zones of a node, and how its kubelet gives them out. */
enum sched_numa_policy {
    SCHED_NUMA_NONE,
    SCHED_NUMA_BEST_EFFORT,
    SCHED_NUMA_RESTRICTED,
    SCHED_NUMA_SINGLE,
};

struct sched_zone {
    struct str name;
    const struct sched_amount *allocatable;
    size_t allocatable_count;
    const struct sched_amount *available; /* as the node reports it */
    size_t available_count;
};

struct sched_numa {
    struct str node;
    enum sched_numa_policy policy;
    bool by_container; /* each container on its own, not the pod as a whole */
    const struct sched_zone *zones;
    size_t zone_count;
};

/* A claim either asks for devices that drivers publish, as the API says it, or for so many of a
 * class, which a node has by number. */
struct sched_claim {
    struct str ns;
    struct str name;
    struct str queue;              /* label kai.scheduler/queue */
    const struct json *devices;    /* spec.devices; NULL: by number */
    const struct json *allocation; /* status.allocation; NULL: not allocated */
    struct str device_class;       /* by number */
    int64_t device_count;
    struct str node;   /* by number: allocated on this node; empty: not allocated */
    int64_t consumers; /* status.reservedFor */
};

/* spec of a ResourceSlice and of a DeviceClass, as the API has them. */
struct sched_slice {
    struct str name;
    const struct json *spec;
};

struct sched_device_class {
    struct str name;
    int64_t created_ms;
    const struct json *spec;
};

/* ---- volumes ---- */
enum sched_access { /* bits */
    SCHED_ONE_NODE = 1,
    SCHED_READ_MANY = 2,
    SCHED_WRITE_MANY = 4,
    SCHED_ONE_POD = 8,
};

/* A PersistentVolumeClaim. */
struct sched_volume_claim {
    struct str ns;
    struct str name;
    struct str uid;
    struct str class;         /* empty: none */
    struct str volume;        /* spec.volumeName */
    struct str selected_node; /* for which its provisioner was told to make it */
    struct str pod_uid;       /* of the pod for which it was made; empty: for none */
    bool bound;
    bool deleted; /* it is being deleted */
    unsigned access;
    bool block;                     /* volumeMode */
    int64_t bytes;                  /* that it asks for */
    struct sched_selector selector; /* of volumes; not set: any */
};

/* A PersistentVolume. */
struct sched_volume {
    struct str name;
    struct str class;
    struct str driver; /* of CSI; empty: another kind */
    struct str claim_ns;
    struct str claim_name; /* empty: nobody's */
    struct str claim_uid;  /* empty: of any claim of that name */
    bool available;        /* its phase says so */
    bool deleted;          /* it is being deleted */
    unsigned access;
    bool block;
    int64_t bytes;
    const struct sched_label *labels;
    size_t label_count;
    bool affine; /* it is used from nodes that one of the terms means */
    const struct sched_node_term *terms;
    size_t term_count;
};

struct sched_storage_class {
    struct str name;
    struct str provisioner;
    bool waits;                          /* WaitForFirstConsumer */
    const struct sched_node_term *terms; /* allowedTopologies */
    size_t term_count;
};

/* A CSINode: how many volumes of a driver it can have; a driver without a limit is not there. */
struct sched_volume_limits {
    struct str node;
    const struct sched_amount *drivers;
    size_t driver_count;
};

/* A CSIStorageCapacity. */
struct sched_storage_room {
    struct str ns;
    struct str name;
    struct str class;
    int64_t bytes; /* of the largest volume that can be made */
    int64_t total; /* of all that can be made, where that is said; else 0 */
    struct sched_selector nodes;
};
