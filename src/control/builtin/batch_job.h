#pragma once

#include "base/str.h"
#include "base/vec.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct actions;
struct arena;
struct cache;
struct control_input;
struct json;
struct object;

/* batch_job: batch/v1 Job where no controller-manager runs it. What the files of the controller
 * share.
 *
 * Pods carry a finalizer until they are counted, as in Kubernetes: a finished pod is first entered
 * in the counters and in status.uncountedTerminatedPods (one write), then its finalizer goes, then
 * its uid leaves the list. So a pod is counted once, whoever deletes it and whenever we die. */
#define BATCH_FINALIZER   "batch.kubernetes.io/job-tracking"
#define BATCH_LABEL_UID   "batch.kubernetes.io/controller-uid"
#define BATCH_LABEL_NAME  "batch.kubernetes.io/job-name"
#define BATCH_INDEX       "batch.kubernetes.io/job-completion-index"
#define BATCH_FAILURES    "batch.kubernetes.io/job-index-failure-count" /* of the index so far */
#define BATCH_PODS_MAX    10000                                         /* of one job, at a time */
#define BATCH_INDEXES_MAX 100000

struct batch_pod {
    const struct object *object;
    const struct json *tree;
    int64_t index;    /* -1: not indexed */
    int64_t failures; /* of its index before it */
    bool tracked;     /* has the finalizer: not counted yet */
    bool listed;      /* is in uncountedTerminatedPods */
    bool ready;
    enum {
        BATCH_ACTIVE,
        BATCH_SUCCEEDED,
        BATCH_FAILED,
    } state;
    int64_t ended_ms;
};
struct batch_pods VEC_FIELDS(struct batch_pod);

/* What podFailurePolicy says about a failed pod. */
enum batch_verdict {
    BATCH_COUNT,
    BATCH_IGNORE,
    BATCH_FAIL_INDEX,
    BATCH_FAIL_JOB,
};
/* *ret_words: why, for BATCH_FAIL_JOB. */
enum batch_verdict batch_failure_verdict(const struct json *policy,
                                         const struct batch_pod *pod,
                                         struct arena *arena,
                                         struct str *ret_words);
/* Whether a rule of successPolicy is met by the completed indexes. */
bool batch_success(const struct json *policy, const bool *completed, size_t count);

/* "0,2-4": completedIndexes, to and from flags. */
struct str batch_indexes_text(struct arena *arena, const bool *done, size_t count);
void batch_indexes_read(struct str text, bool *done, size_t count);

/* What tells one pod of a job from the next. */
struct batch_slot {
    struct str name;
    int64_t index;    /* -1: not indexed */
    int64_t failures; /* of the index so far; -1: they are not counted one by one */
};
struct json *batch_make_pod(struct arena *arena,
                            const struct object *job,
                            const struct json *spec,
                            const struct batch_slot *slot);

/* Whose a pod is: whether the selector of its Job no longer chooses it, and the patch that then lets
 * it go; the Job that would take over a pod nobody controls (NULL: none), and the patch that does. */
bool batch_lost(const struct object *job, const struct object *pod);
void batch_release(const struct object *job, const struct object *pod, struct actions *actions);
const struct object *batch_adopter(const struct cache *cache,
                                   const struct object *pod,
                                   struct arena *arena);
void batch_adopt(const struct cache *cache, const struct object *pod, struct actions *actions);

/* spec.scheduling: the PodGroup that the pods of the job name, empty: none; and that group and its
 * Workload made, or its minimum brought up to date. */
struct str batch_gang_name(struct arena *arena, const struct object *job, const struct json *spec);
void batch_gang_keep(const struct control_input *input,
                     const struct object *job,
                     const struct json *spec,
                     struct actions *actions);
