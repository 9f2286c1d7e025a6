#pragma once

#include "base/str.h"
#include "control/job.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arena;
struct control_input;
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
#define TENSORSTACK_RESTARTS     3              /* backoffLimit that is not said */
#define TENSORSTACK_PRIORITY     10             /* of a gang that names none, from 0 to 100 */
#define TENSORSTACK_CLASS_PREFIX "tensorstack-" /* PriorityClass tensorstack-<priority> */

/* The object being translated. */
struct tensorstack {
    const struct control_input *input;
    struct arena *arena;
    const struct json *tree;
    const struct json *spec;
    const struct json *status;
    bool debug;
    bool paused;
    bool resumed;   /* was paused before */
    bool switching; /* debug was switched on or off: the pods of the other mode have to go first */
    bool torchrun;
    bool elastic;
    int64_t min; /* elastic, all types together */
    int64_t max;
};

/* true when the switch of an object is on, in either spelling. */
bool tensorstack_is_on(const struct json *object);
/* Queue of the gang; empty: none is named. */
struct str tensorstack_queue(const struct json *spec);
int64_t tensorstack_priority(const struct json *spec);
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

extern const struct job_kind pytorchtrainingjob;
