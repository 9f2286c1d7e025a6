#pragma once

#include "base/str.h"
#include "control/job/job.h"
#include "control/kubeflow_fields.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arena;
struct control_input;
struct json;
struct kind;
struct object;
struct training_kind;

/* kubeflow: what the training kinds of kubeflow.org have in common.
 *
 * They all are a map of replica types (Master, Worker, ...) with pod templates, and one runPolicy.
 * The row of a kind (api/training.h) says what its map is called, which container is the training
 * and on what port it listens, whose end is the job's end; its struct kubeflow_kind, which
 * environment a pod gets; everything else is here: labels, services, restart policies, clean-up, conditions, counters.
 *
 * Restarts. Where ranks find each other through a fixed address (static rendezvous), a rank that
 * comes back alone cannot join its peers: all are restarted together, and one failure is one
 * restart of runPolicy.backoffLimit. Annotation KUBEFLOW_SCOPE says otherwise for one job. */
#define KUBEFLOW_SCOPE "torchrun.ai/restart-scope" /* "pod" or "gang" */

#define KUBEFLOW_LABEL_OPERATOR "training.kubeflow.org/operator-name"
#define KUBEFLOW_LABEL_JOB      "training.kubeflow.org/job-name"
#define KUBEFLOW_LABEL_TYPE     "training.kubeflow.org/replica-type"
#define KUBEFLOW_LABEL_INDEX    "training.kubeflow.org/replica-index"
#define KUBEFLOW_LABEL_ROLE     "training.kubeflow.org/job-role"

/* Members here and in the files of the kinds come from deploy/kinds/kubeflow.txt, each with its
 * field. spec.runPolicy; ttl_seconds and backoff are -1 when not said. */
struct kubeflow_policy {
    KUBEFLOW_POLICY_MEMBERS
};

/* One entry of the map. replicas is -1 when not said. */
struct kubeflow_replicas {
    KUBEFLOW_REPLICAS_MEMBERS
};

/* A job being translated. */
struct kubeflow {
    const struct kubeflow_kind *kind;
    const struct control_input *input;
    struct arena *arena;
    const struct object *job;
    const struct json *spec;
    struct kubeflow_policy policy;
    const void *extra; /* of the kind: what adjust() read */
};

struct kubeflow_kind {
    const struct training_kind *training; /* its row */
    bool each_alone;            /* pods restart alone unless the annotation says otherwise */
    bool env_for_training_only; /* not for the other containers of a pod */
    /* What is particular about a job of this kind; may be NULL. */
    void (*adjust)(struct kubeflow *k, struct job_model *model);
    /* The environment of a pod, behind the user's own. */
    void (*env)(const struct kubeflow *k,
                const struct job_model *model,
                const struct job_pod *pod,
                struct json *env,
                struct arena *arena);
    /* Further changes to a pod; may be NULL. */
    void (*fill)(const struct kubeflow *k,
                 const struct job_pod *pod,
                 struct json *body,
                 struct arena *arena);
};

void kubeflow_translate(const struct kubeflow_kind *kind,
                        const struct control_input *input,
                        const struct object *object,
                        struct arena *arena,
                        struct job_model *ret);

/* struct job_kind's functions. */
void kubeflow_write(const struct job_model *model,
                    const struct job_state *state,
                    struct json *status,
                    int64_t now_ms,
                    struct arena *arena);
struct str kubeflow_reason(const struct job_model *model,
                           const struct job_state *before,
                           const struct job_state *state,
                           struct arena *arena);

/* ---- for the kinds ---- */

/* The role of a replica type, or NULL. */
struct job_role *kubeflow_role(const struct job_model *model, const char *type);
/* Pods before this one, in the order of types: its rank. */
size_t kubeflow_rank(const struct job_model *model, const struct job_pod *pod);
/* The port that the training of a role listens on. */
int64_t kubeflow_port(const struct kubeflow *k, const struct job_role *role);
/* The name that Kubeflow's own controller of the kind has. */
struct str kubeflow_operator(const struct kubeflow *k, struct arena *arena);
struct json *kubeflow_container(const struct kubeflow *k, const struct json *pod_spec);
void kubeflow_env(struct arena *arena, struct json *env, const char *name, struct str value);
/* For torchrun agents that come and go, unless `env` says otherwise: those that share one store
 * among rounds tell its address in the first round only, and whoever joins a later one waits in
 * vain. */
#define KUBEFLOW_ENV_OWN_STORE "TORCH_DISABLE_SHARE_RDZV_TCP_STORE"
void kubeflow_env_elastic(struct arena *arena, struct json *env);
void kubeflow_env_i64(struct arena *arena, struct json *env, const char *name, int64_t value);
void kubeflow_problem(struct job_model *model, const char *reason, struct str message);
/* An autoscaler for the job, between the sizes of `role`, where metrics are given. */
void kubeflow_autoscale(struct kubeflow *k,
                        struct job_model *model,
                        const struct job_role *role,
                        const struct json *metrics);

/* One file a kind: translate() and the rest of a struct job_kind around a struct kubeflow_kind. */
#define KUBEFLOW_JOB_KIND(symbol, description)                                                     \
    static void symbol##_translate(const struct control_input *input, const struct object *object, \
                                   struct arena *arena, struct job_model *ret)                     \
    {                                                                                              \
        kubeflow_translate(&(description), input, object, arena, ret);                             \
    }                                                                                              \
    static const struct job_kind symbol = {.kind = &kind_##symbol,                                 \
                                           .translate = symbol##_translate,                        \
                                           .read = job_state_read,                                 \
                                           .write = kubeflow_write,                                \
                                           .reason = kubeflow_reason}

/* Tables of what is read, for the check against the schemas. */
extern const struct decode_table kubeflow_policy_table;
extern const struct decode_table kubeflow_replicas_table;
extern const struct decode_table tf_spec_table;
extern const struct decode_table mpi_spec_table;
extern const struct decode_table paddle_spec_table;
