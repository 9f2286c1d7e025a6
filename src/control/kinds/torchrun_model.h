#pragma once

#include "api/array.h"
#include "base/str.h"
#include "control/job/job.h"
#include "control/kinds/torchrun_spec.h"

#include <stdbool.h>
#include <stdint.h>

struct actions;
struct arena;
struct cache;
struct control_input;
struct control_keys;
struct json;
struct object;

/* torchrun_model: what the files that translate a TorchrunJob share. */

/* How a job of spec.after stands. */
struct torchrun_waiting {
    const struct torchrun_after *after;
    struct str uid; /* of the one that is meant; empty: it has not been seen */
    enum {
        TORCHRUN_AFTER_WAITS,
        TORCHRUN_AFTER_MET,
        TORCHRUN_AFTER_NEVER,
    } state;
    struct str words; /* unless it is met */
};

struct torchrun {
    const struct control_input *input;
    struct arena *arena;
    const struct object *job;
    const struct object *queue;
    struct job_role *worker;   /* the only role */
    int64_t gpus_total;        /* of all workers */
    struct torchrun_spec spec; /* what the queue says, and the job over it */
    struct str queue_name;
    struct str kai_queue;
    struct str job_id;
    struct str mount_path;    /* of the workspace: /app */
    struct str rdzv_backend;  /* standalone, c10d, static, etcd-v2 */
    struct str rdzv_endpoint; /* given by the user; empty: the job's own */
    bool elastic;
    bool meets_in_sync;               /* by c10d, where its etcd would be */
    bool hosted;                      /* the sync pod has the store of the c10d rendezvous */
    bool host_workspace;              /* the sync pod serves a workspace */
    int64_t gpus_per_node;            /* 0: a queue without GPUs */
    bool shape_from_template;         /* the trainer's own resources say what a pod gets */
    struct torchrun_waiting *waiting; /* for each of spec.after; NULL: none */
    bool is_array;
    struct array_indexes array;
    struct json *array_status;        /* as it is to be written; NULL: as it is */
    const struct object *array_above; /* the array that this is a job of; NULL: none */
};

/* The container that runs the command: the first, see torchrun_template_problem(). */
struct json *torchrun_trainer(const struct json *pod_spec);
/* Fill model->pod_spec, sync_spec and claims. */
void torchrun_make_pods(struct torchrun *t, struct job_model *model);
void torchrun_make_storage(struct torchrun *t, struct job_model *model);

/* spec.array: what it says; what it does instead of making pods (job_model.parts). */
void torchrun_read_array(struct torchrun *t, struct job_model *model);
void torchrun_array_step(const struct job_model *model,
                         const struct control_input *input,
                         struct job_state *state,
                         struct actions *actions);
/* The array that a job is one of; NULL: none. */
const struct object *torchrun_array_of(const struct cache *cache, const struct object *job);

/* spec.after: model->hold and model->never; what is remembered of it; whom a change concerns. */
void torchrun_read_after(struct torchrun *t, struct job_model *model);
void torchrun_write_after(const struct torchrun *t, struct json *status, struct arena *arena);
void torchrun_after_keys(const struct cache *cache,
                         const struct object *object,
                         struct control_keys *ret);
