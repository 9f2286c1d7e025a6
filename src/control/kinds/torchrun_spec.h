#pragma once

#include "api/object.h"
#include "base/str.h"
#include "control/job/job.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arena;
struct decode_kind;
struct err;
struct json;

/* torchrun_spec: everything a TorchrunQueue and a TorchrunJob say, decoded.
 *
 * One struct holds both: the queue is read first, the job over it, so that what a job says wins.
 * What adds up instead of replacing (environment, node selector, tolerations) is kept apart. */
struct torchrun_volume {
    const struct json *enabled; /* NULL: nothing said */
    int64_t bytes;              /* 0: nothing said */
    int64_t bytes_per_gpu;
    struct str storage_class;
    const struct json *access_modes;
    struct str mount_path;
    struct str existing_claim;
    const struct json *persist; /* NULL: nothing said */
};

/* An object of spec.resources. */
struct torchrun_resource {
    struct str name;
    enum {
        TORCHRUN_NAME_EXACT,
        TORCHRUN_NAME_PREFIX,
    } name_mode;
    bool immutable;
    const struct json *template;
};

/* A job that must have ended before this one starts. */
struct torchrun_after {
    struct str job;
    enum {
        TORCHRUN_AFTER_SUCCEEDED,
        TORCHRUN_AFTER_ENDED,
    } when;
};
#define TORCHRUN_AFTER_MAX  64
#define TORCHRUN_SPARES_MAX 64 /* a job that loses more nodes than that at once has other worries */

struct torchrun_spec {
    /* ---- of the queue, or of the job over it ---- */
    const struct json *node_resources; /* NULL: nothing said */
    int64_t node_gpus;                 /* -1: nothing said */
    int64_t node_cpu_milli;
    int64_t node_memory_bytes;
    struct str gpu_type;
    struct str image;
    struct str image_pull_policy;
    struct str working_dir;
    struct str service_account;
    struct str backend;
    struct str rdzv_backend;
    struct str rdzv_endpoint;
    int64_t rdzv_port;
    int64_t max_restarts;
    bool restarts_named; /* by the job itself */
    int64_t ttl_s;       /* -1: never */
    int64_t deadline_s;
    enum {
        TORCHRUN_RESTART_ON_FAILURE,
        TORCHRUN_RESTART_NEVER,
    } restart;
    int on_hang;            /* enum job_hang */
    int on_suspicion;       /* the same */
    int restart_mode;       /* enum job_mode */
    int64_t spares;         /* pods that wait for a place */
    int64_t preflight_from; /* gangs of so many pods are tested before they start; 0: none */
    bool warm;              /* processes with torch imported wait for the next restart */
    int clean;              /* JOB_CLEAN_... of struct job_model */
    struct str scheduler;
    struct str priority_class;
    const struct json *affinity;
    struct str topology;
    struct str topology_required;
    struct str topology_preferred;
    const struct json *host_network;
    struct str interface;
    struct str nccl_interface;
    struct str gloo_interface;
    int64_t shm_bytes_per_gpu;
    struct torchrun_volume workspace;
    struct torchrun_volume datasets;
    struct torchrun_volume checkpoints;
    const struct json *workspace_storage; /* the other spelling; NULL: not used */
    int64_t workspace_bytes;
    struct str workspace_class;
    struct str sync_image;
    struct str sync_pull_policy;
    struct str source;
    struct str source_url;

    /* ---- of the queue ---- */
    int64_t unused_ms; /* GPUs may be unused for so long while others wait; 0: for ever */
    const struct json *queue_env;
    const struct json *queue_node_selector;
    const struct json *queue_tolerations;
    const struct json *image_pull_secrets;
    const struct json *security_context;
    const struct json *pod_security_context;
    const struct json *pod_template;
    const struct torchrun_resource *resources;
    size_t resource_count;

    /* ---- of the job ---- */
    struct str job_name;
    struct str job_id;
    int64_t num_gpus; /* -1: nothing said */
    int64_t num_nodes;
    int64_t min_nodes; /* 0: nothing said */
    int64_t max_nodes;
    int64_t nproc;
    struct str command;
    struct str setup_command;
    bool suspend;
    int64_t max_run_ms; /* 0: nothing said; the pod group has it, and the scheduler keeps to it */
    bool requeue;       /* after max_run_ms */
    const struct torchrun_after *after;
    size_t after_count;
    struct str notify_url;
    const struct str *notify_events; /* none: all */
    size_t notify_event_count;
    const struct json *array; /* NULL: it is none */
    struct str array_indexes;
    int64_t array_limit; /* of its jobs that have not ended; 0: none */
    bool keep;
    const struct json *job_env;
    const struct json *job_node_selector;
    const struct json *job_tolerations;
    const struct json *labels;
    const struct json *annotations;
    const struct json *volumes;
    const struct json *mounts;
};

/* Either object may be NULL. Returns the first field that makes no sense; all others are read. */
int torchrun_spec_read(struct arena *arena,
                       const struct json *queue,
                       const struct json *job,
                       struct torchrun_spec *ret,
                       struct err *err);

extern const struct decode_kind torchrunjob_decode_kind;
extern const struct decode_kind torchrunqueue_decode_kind;
