#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kind;

/* training: the training kinds of kubeflow.org, a row each.
 *
 * They are a map of replica specs by role. What admission checks, what the controllers, the pod
 * grouper, the metrics and the simulator know of a kind stands in its row; deploy/webhooks.yaml,
 * deploy/rbac/role.yaml and the operators that muster makes room for are held against the rows by
 * tests. A new kind is a row, a CRD in deploy/crds and a file in control/kinds. */
enum training {
    TRAINING_PYTORCH,
    TRAINING_TENSORFLOW,
    TRAINING_XGBOOST,
    TRAINING_JAX,
    TRAINING_PADDLE,
    TRAINING_MPI,
    TRAININGS,
};

struct training_kind {
    const struct kind *kind;
    const char *framework;   /* in metrics: "pytorch" */
    const char *specs;       /* member of spec that has the roles: "pytorchReplicaSpecs" */
    const char *roles[6];    /* in the order of ranks; NULL-terminated, as the next three */
    const char *chiefs[3];   /* the first of these that is there decides how the job ends */
    const char *single[3];   /* of these there is at most one pod */
    const char *required[3]; /* roles that must be there */
    const char *container;   /* that is the training, one in each pod; NULL: the first one */
    const char *port_name;   /* declared where a template does not; NULL: no services */
    const char *restart;     /* restartPolicy that is not said */
    const char *clean; /* cleanPodPolicy that is not said; "": what runs goes if the job failed */
    int64_t port;
    bool counted; /* the single one's replicas must be said */
};

extern const struct training_kind training_kinds[TRAININGS];

/* NULL: none of them. */
const struct training_kind *training_of(const struct kind *kind);
