#pragma once

#include "api/object.h"
#include "base/str.h"
#include "control/job/job.h"
#include "control/torchrun_fields.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arena;
struct decode_kind;
struct err;
struct json;

/* torchrun_spec: everything a TorchrunQueue and a TorchrunJob say, decoded. The members come from
 * deploy/kinds/torchrun.txt, each with its field. Where nothing is said they are 0 or NULL;
 * node_gpus, num_gpus and ttl_s are -1.
 *
 * One struct holds both: the queue is read first, the job over it, so that what a job says wins.
 * What adds up instead of replacing (environment, node selector, tolerations) is kept apart. */
struct torchrun_volume {
    TORCHRUN_VOLUME_MEMBERS
};

/* An object of spec.resources. */
enum {
    TORCHRUN_NAME_EXACT,
    TORCHRUN_NAME_PREFIX,
};
struct torchrun_resource {
    TORCHRUN_RESOURCE_MEMBERS
};

/* A job that must have ended before this one starts. */
enum {
    TORCHRUN_AFTER_SUCCEEDED,
    TORCHRUN_AFTER_ENDED,
};
struct torchrun_after {
    TORCHRUN_AFTER_MEMBERS
};
#define TORCHRUN_AFTER_MAX  64
#define TORCHRUN_SPARES_MAX 64 /* a job that loses more nodes than that at once has other worries */

enum {
    TORCHRUN_RESTART_ON_FAILURE,
    TORCHRUN_RESTART_NEVER,
};
struct torchrun_spec {
    TORCHRUN_SETTINGS_MEMBERS
    TORCHRUN_QUEUE_MEMBERS
    TORCHRUN_JOB_MEMBERS
    bool restarts_named; /* max_restarts, by the job itself */
    const struct json *queue_node_selector;
    const struct json *queue_tolerations;
    const struct json *job_node_selector;
    const struct json *job_tolerations;
};

/* Either object may be NULL. Returns the first field that makes no sense; all others are read. */
int torchrun_spec_read(struct arena *arena,
                       const struct json *queue,
                       const struct json *job,
                       struct torchrun_spec *ret,
                       struct err *err);

extern const struct decode_kind torchrunjob_decode_kind;
extern const struct decode_kind torchrunqueue_decode_kind;
