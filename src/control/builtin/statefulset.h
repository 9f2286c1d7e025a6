#pragma once

#include "base/str.h"
#include "base/vec.h"
#include "control/builtin/revision.h"
#include "control/builtin/workload.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct json;

/* statefulset: what the files of the StatefulSet controller share. */
struct stateful {
    struct workload w;
    struct revisions revisions;
    int64_t start; /* number of the first pod */
    int64_t replicas;
    int64_t partition; /* pods below it stay as they are */
    bool ordered;
    bool on_delete;
    struct str current; /* names of revisions */
    struct str update;
    struct workload_pods pods;
    const struct workload_pod **slots; /* by number, from `start` on; NULL: not there */
    size_t slot_count;
    VEC(const struct workload_pod *) extra; /* too many, highest number first */
};

/* statefulset_pod.c */
struct json *stateful_pod(struct stateful *s, int64_t ordinal, struct str revision);
/* The claims of a pod that are not there yet. */
void stateful_claims(struct stateful *s, int64_t ordinal);
/* persistentVolumeClaimRetentionPolicy: the claims of a pod go with the set, or stay. */
void stateful_keep_claims(struct stateful *s, int64_t ordinal);
/* The same when a pod is one too many: its claims go with it, or stay. */
void stateful_give_claims(struct stateful *s, const struct workload_pod *pod, int64_t ordinal);
