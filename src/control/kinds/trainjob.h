#pragma once

#include "base/str.h"
#include "control/trainer_fields.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arena;
struct control_config;
struct decode_table;
struct err;
struct json;
struct object;

/* trainjob: TrainJob, TrainingRuntime and ClusterTrainingRuntime (trainer.kubeflow.org/v1alpha1).
 *
 * A TrainJob and the runtime it names make one JobSet of the same name. The runtime is copied into
 * a ConfigMap when the job is first seen, so that changing or deleting it later disturbs nobody.
 * The files: trainjob.c the controller and the status, trainjob_build.c the JobSet, trainjob_ml.c
 * what each framework needs,
 * trainjob_tune.c the command of torchtune, trainjob_progress.c how a training reports progress.
 */
#define TRAINJOB_STEP     "trainer.kubeflow.org/trainjob-ancestor-step" /* label of Job templates */
#define TRAINJOB_MANAGER  "trainer.kubeflow.org/trainjob-controller"
#define TRAINJOB_PORT     29500
#define TRAINJOB_KAI      "kai.scheduler/" /* labels and annotations that reach the pods */
#define TRAINJOB_PODS_MAX 10000
/* The volume of initializers and trainer, mounted at /workspace; made where the runtime has none.
 */
#define TRAINJOB_SHARED      "initializer"
#define TRAINJOB_SHARED_SIZE "20Gi"

/* Members come from deploy/kinds/trainer.txt, each with its field. */
struct trainjob_initializer {
    TRAINJOB_INITIALIZER_MEMBERS
};

/* The spec of a TrainJob; what is taken over as it is, is kept as it is. nodes is -1 when not said. */
struct trainjob_spec {
    TRAINJOB_SPEC_MEMBERS
    bool has_dataset;
    bool has_model;
};
extern const struct decode_table trainjob_spec_table;
/* What is wrong leaves its field alone: admission has refused it before. */
void trainjob_spec_read(const struct json *spec, struct arena *arena, struct trainjob_spec *ret);

/* Containers of a part that get the environment of torch too. */
struct trainjob_target {
    TRAINJOB_TARGET_MEMBERS
};

/* mlPolicy of a runtime. nodes and torch_nodes, which is of the shorthand, are -1 when not said. */
enum {
    TRAINJOB_OPEN_MPI,
    TRAINJOB_INTEL,
    TRAINJOB_MPICH
};
struct trainjob_policy {
    TRAINJOB_POLICY_MEMBERS
    bool has_torch;
    bool is_elastic;
    bool has_mpi;
};
extern const struct decode_table trainjob_policy_table;

/* The spec of a runtime. */
struct trainjob_runtime {
    struct trainjob_policy policy;
    TRAINJOB_RUNTIME_MEMBERS /* spec: of the JobSet, or of a pod as a shorthand */
};
extern const struct decode_table trainjob_runtime_table;
void trainjob_runtime_read(const struct json *spec,
                           struct arena *arena,
                           struct trainjob_runtime *ret);

/* A JobSet in the making. */
struct trainjob_build {
    struct arena *arena;
    const struct control_config *config;
    const struct object *object;
    const struct json *tree; /* of the TrainJob */
    const struct trainjob_spec *spec;
    struct trainjob_policy policy; /* of the runtime */
    struct json *body;             /* the JobSet */
    struct json *parts;            /* its spec.replicatedJobs */
    int64_t nodes;                 /* pods of the trainer */
    struct json *hostfile;         /* MPI: a ConfigMap to make before the JobSet; or NULL */
    struct json *certificate;      /* a ConfigMap to make before the JobSet; or NULL */
    struct json *keys;             /* MPI: a Secret whose contents are to be generated; or NULL */
    const struct json *runtime_command; /* of the trainer, where the job has one of its own */
};

/* Where the ranks of a pod meet, and how many they are ("2", "auto"). */
struct trainjob_place {
    struct str master;
    struct str processes;
};

/* The JobSet that a TrainJob and a runtime (an object with spec) ask for. -EINVAL with words that
 * name the field when they do not fit together. */
int trainjob_build(struct trainjob_build *build, const struct json *runtime, struct err *err);

/* Parts of it, in the order in which they are applied. */
struct json *trainjob_part(const struct trainjob_build *build, struct str name);
/* The part whose Job template carries that step; for "trainer" also one without, when it is named
 * node or the only one. */
struct json *trainjob_step(const struct trainjob_build *build, const char *step);
struct json *trainjob_container(const struct json *part, struct str name);
/* What a node of the trainer asks for, key by key over what the container asks for. */
void trainjob_resources(struct arena *arena, struct json *container, const struct json *wanted);
int64_t trainjob_count(const struct json *part); /* pods of one Job */
int trainjob_apply_policy(struct trainjob_build *build, struct err *err);
/* Set a variable, replacing one of that name. */
void trainjob_env(struct arena *arena, struct json *container, const char *name, struct str value);
/* Lets the trainer tell its progress, where there is a server for that. */
void trainjob_progress(struct trainjob_build *build, struct json *part);
/* Whether a trainer's command is `tune run`, and that command completed. -EINVAL when the runtime's
 * name does not say what to train. */
bool trainjob_is_tune(const struct json *command);
int trainjob_tune(struct trainjob_build *build,
                  struct json *node,
                  const struct trainjob_place *place,
                  struct err *err);
