#include "control/kinds/torchrun_spec.h"

#include "api/array.h"
#include "api/decode.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "control/job/job.h"
#include "control/kinds/torchrun.h"

#include <stddef.h>
#include <stdint.h>

#define RESTARTS_DEFAULT 3

#define FIELD(member, name) DECODE_FIELD(struct torchrun_spec, member, name, JSON)

static const struct decode_field volume_fields[] = {TORCHRUN_VOLUME_FIELDS(struct torchrun_volume)};
static const struct decode_table torchrun_volume_table =
    DECODE_TABLE(struct torchrun_volume, NULL, volume_fields);
static const struct decode_field resource_fields[] = {
    TORCHRUN_RESOURCE_FIELDS(struct torchrun_resource)};
static const struct decode_table torchrun_resource_table =
    DECODE_TABLE(struct torchrun_resource, NULL, resource_fields);
static const struct decode_field after_fields[] = {TORCHRUN_AFTER_FIELDS(struct torchrun_after)};
static const struct decode_table torchrun_after_table =
    DECODE_TABLE(struct torchrun_after, NULL, after_fields);

static const struct decode_field queue_fields[] = {
    TORCHRUN_SETTINGS_FIELDS(struct torchrun_spec) TORCHRUN_QUEUE_FIELDS(struct torchrun_spec)
        FIELD(queue_node_selector, "scheduling.nodeSelector"),
    FIELD(queue_tolerations, "scheduling.tolerations"),
};
static const struct decode_table queue_table =
    DECODE_TABLE(struct torchrun_spec, "spec", queue_fields);

static const struct decode_field job_fields[] = {
    TORCHRUN_SETTINGS_FIELDS(struct torchrun_spec) TORCHRUN_JOB_FIELDS(struct torchrun_spec)
        FIELD(job_node_selector, "scheduling.nodeSelector"),
    FIELD(job_tolerations, "scheduling.tolerations"),
};
static const struct decode_table job_table = DECODE_TABLE(struct torchrun_spec, "spec", job_fields);

int torchrun_spec_read(struct arena *arena,
                       const struct json *queue,
                       const struct json *job,
                       struct torchrun_spec *ret,
                       struct err *err)
{
    struct torchrun_spec spec = {
        .node_gpus = -1,
        .num_gpus = -1,
        .ttl_s = -1,
        .max_restarts = RESTARTS_DEFAULT,
        .clean = JOB_CLEAN_RUNNING,
        .on_suspicion = JOB_HANG_REPORT,
    };
    int of_queue = decode_over(&queue_table, arena, queue, &spec, err);
    int64_t queue_restarts = spec.max_restarts;
    spec.max_restarts = -1;
    int of_job = decode_over(&job_table, arena, job, &spec, of_queue ? NULL : err);
    spec.restarts_named = spec.max_restarts >= 0;
    if (!spec.restarts_named)
        spec.max_restarts = queue_restarts;

    *ret = spec;
    if (!of_queue)
        return of_job;
    if (err) {
        struct err inner = *err;

        return err_set(err, of_queue, "the queue's %s", inner.text);
    }
    return of_queue;
}

static const struct decode_note by_hand[] = {
    {"spec.maxRunTime",
     "torchrun_queue.c hands it on, and api/queue_rules.h has pod groups keep it"},
    {"spec.namespaces", "torchrun_queue.c hands it on to the scheduling queue"},
    {"spec.namespaceSelector", "the same"},
    {"status", "job_status.c and torchrun_queue.c: what they wrote themselves"},
    {NULL, NULL},
};
static const struct decode_note job_by_hand[] = {
    {"status", "job_status.c: what it wrote itself"},
    {NULL, NULL},
};
const struct decode_kind torchrunjob_decode_kind = {
    .crd = "torchrunjobs.torchrun.ai",
    .uses = {{&torchrun_job_names, NULL}, {&job_table, NULL}},
    .by_hand = job_by_hand};
const struct decode_kind torchrunqueue_decode_kind = {
    .crd = "torchrunqueues.torchrun.ai",
    .uses = {{&torchrun_queue_names, NULL}, {&queue_table, NULL}},
    .by_hand = by_hand};
