#pragma once

#include "base/str.h"
#include "base/vec.h"
#include "control/builtin/workload.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* deployment: what the files of the Deployment controller share.
 *
 * A Deployment has one ReplicaSet a template it ever had, the newest of them grows, the others
 * shrink. What may be done at a time follows from what the ReplicaSets say is available; the
 * numbers of this look are kept here, so that one look does not spend the same room twice. */
struct deployment_set {
    const struct object *object;
    const struct json *tree;
    int64_t replicas;  /* wanted; changed as it is scaled */
    int64_t available; /* as its status says */
    int64_t revision;
};
struct deployment_sets VEC_FIELDS(struct deployment_set);

struct deployment {
    struct workload w;
    struct deployment_sets sets;   /* all, oldest first */
    struct deployment_set *newest; /* of the present template; NULL: not made yet */
    int64_t replicas;
    int64_t surge; /* pods more than wanted there may be */
    int64_t gone;  /* pods fewer than wanted there may be */
    bool recreate;
    bool paused;
    struct str hash;      /* of the present template */
    const char *progress; /* reason of the Progressing condition that this look leads to; or NULL */
    struct str progress_message;
};

/* deployment.c */
#define DEPLOYMENT_REVISION "deployment.kubernetes.io/revision"
#define DEPLOYMENT_DESIRED  "deployment.kubernetes.io/desired-replicas"
#define DEPLOYMENT_MAX      "deployment.kubernetes.io/max-replicas"
#define DEPLOYMENT_HISTORY  "deployment.kubernetes.io/revision-history"
#define DEPLOYMENT_HASH     "pod-template-hash"
void deployment_scale(struct deployment *d, struct deployment_set *set, int64_t replicas);
/* deployment_roll.c: scale the ReplicaSets as far as it may be done now. */
void deployment_roll(struct deployment *d);
/* After a change of spec.replicas: spread it over the ReplicaSets that have pods. True: it did. */
bool deployment_spread(struct deployment *d);
/* deployment_status.c */
void deployment_status(struct deployment *d);
