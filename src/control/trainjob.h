#pragma once

#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arena;
struct err;
struct json;
struct object;

/* trainjob: TrainJob, TrainingRuntime and ClusterTrainingRuntime (trainer.kubeflow.org/v1alpha1).
 *
 * A TrainJob and the runtime it names make one JobSet of the same name. The runtime is copied into
 * a ConfigMap when the job is first seen, so that changing or deleting it later disturbs nobody.
 * The files: trainjob.c the controller and the status, trainjob_build.c the JobSet, trainjob_ml.c
 * what each framework needs,
 * trainjob_tune.c the command of torchtune. */
#define TRAINJOB_STEP     "trainer.kubeflow.org/trainjob-ancestor-step" /* label of Job templates */
#define TRAINJOB_MANAGER  "trainer.kubeflow.org/trainjob-controller"
#define TRAINJOB_PORT     29500
#define TRAINJOB_KAI      "kai.scheduler/" /* labels and annotations that reach the pods */
#define TRAINJOB_PODS_MAX 10000
/* The volume of initializers and trainer, mounted at /workspace; made where the runtime has none.
 */
#define TRAINJOB_SHARED      "initializer"
#define TRAINJOB_SHARED_SIZE "20Gi"

/* A JobSet in the making. */
struct trainjob_build {
    struct arena *arena;
    const struct object *object;
    const struct json *tree; /* of the TrainJob */
    const struct json *spec; /* of the TrainJob */
    struct json *policy;     /* mlPolicy of the runtime */
    struct json *body;       /* the JobSet */
    struct json *parts;      /* its spec.replicatedJobs */
    int64_t nodes;           /* pods of the trainer */
    struct json *hostfile;   /* MPI: a ConfigMap to make before the JobSet; or NULL */
    struct json *keys;       /* MPI: a Secret whose contents are to be generated; or NULL */
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
int64_t trainjob_count(const struct json *part); /* pods of one Job */
int trainjob_apply_policy(struct trainjob_build *build, struct err *err);
/* Set a variable, replacing one of that name. */
void trainjob_env(struct arena *arena, struct json *container, const char *name, struct str value);
/* Whether a trainer's command is `tune run`, and that command completed. -EINVAL when the runtime's
 * name does not say what to train. */
bool trainjob_is_tune(const struct json *trainer);
int trainjob_tune(struct trainjob_build *build,
                  struct json *node,
                  const struct trainjob_place *place,
                  struct err *err);
