#pragma once

#include "base/str.h"
#include "control/job/job.h"
#include "control/tensorstack_fields.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arena;
struct control_input;
struct decode_table;
struct json;

/* tensorstack_job: PyTorchTrainingJob (batch.tensorstack.dev/v1beta1), in the spelling of its first
 * documentation (enable, Queue, replicaStatus) and in that of the later one (enabled, queue,
 * replicas). What is written is written in both.
 *
 * Its gang restarts together (annotation torchrun.ai/restart-scope: pod says otherwise), the first
 * replica of the first type is the master: its end is the job's. The files: tensorstack_job.c from
 * the object to the engine's model, tensorstack_status.c back, tensorboard.c the kind TensorBoard.
 */
#define TENSORSTACK_OWNER        "tensorstack.dev/owner-name"
#define TENSORSTACK_ROLE         "scheduler.tensorstack.dev/role"
#define TENSORSTACK_PORT         29500
#define TENSORSTACK_CLASS_PREFIX "tensorstack-" /* PriorityClass tensorstack-<priority> */

/* Members come from deploy/kinds/tensorstack.txt, each with its field. How the pods of a type are
 * started in debug mode, or after a pause. */
struct tensorstack_start {
    TENSORSTACK_START_MEMBERS
};

enum {
    TENSORSTACK_ALWAYS,
    TENSORSTACK_ON_FAILURE,
    TENSORSTACK_NEVER,
    TENSORSTACK_EXIT_CODE
};
struct tensorstack_replica {
    TENSORSTACK_REPLICA_MEMBERS
};

/* The spec, in either spelling. min, max and min_nodes are 0, and expected is -1, when not said. */
enum {
    TENSORSTACK_CLEAN_ALL,
    TENSORSTACK_CLEAN_UNFINISHED,
    TENSORSTACK_CLEAN_NONE
};
struct tensorstack_spec {
    TENSORSTACK_SPEC_MEMBERS
};
extern const struct decode_table tensorstack_spec_table;
/* What is wrong leaves its field alone: admission has refused it before. */
void tensorstack_spec_read(const struct json *spec,
                           struct arena *arena,
                           struct tensorstack_spec *ret);

/* The object being translated. */
struct tensorstack {
    const struct control_input *input;
    struct arena *arena;
    const struct json *tree;
    struct tensorstack_spec spec;
    const struct json *status;
    bool resumed;   /* was paused before */
    bool switching; /* debug was switched on or off: the pods of the other mode have to go first */
    bool elastic;
    int64_t min; /* elastic, all types together */
    int64_t max;
};

/* How `total` pods are shared among `count` types by weight: largest remainders, the first type
 * gets at least one. */
void tensorstack_share(const int64_t *weights, size_t count, int64_t total, int64_t *ret);

void tensorstack_write(const struct job_model *model,
                       const struct job_state *state,
                       struct json *status,
                       int64_t now_ms,
                       struct arena *arena);
void tensorstack_read(const struct json *status, struct job_state *ret);
/* status.tensorboard, and the TensorBoard object in model->extras. */
void tensorstack_tensorboard(const struct tensorstack *t, struct job_model *model);
