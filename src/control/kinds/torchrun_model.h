#pragma once

#include "base/str.h"
#include "control/job/job.h"
#include "control/kinds/torchrun_spec.h"

#include <stdbool.h>
#include <stdint.h>

struct arena;
struct control_input;
struct json;
struct object;

/* torchrun_model: what the files that translate a TorchrunJob share. */
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
    bool hosted;              /* the sync pod has the store of the c10d rendezvous */
    bool host_workspace;      /* the sync pod serves a workspace */
    int64_t gpus_per_node;    /* 0: a queue without GPUs */
    bool shape_from_template; /* the trainer's own resources say what a pod gets */
};

/* Fill model->pod_spec, sync_spec and claims. */
void torchrun_make_pods(struct torchrun *t, struct job_model *model);
void torchrun_make_storage(struct torchrun *t, struct job_model *model);
