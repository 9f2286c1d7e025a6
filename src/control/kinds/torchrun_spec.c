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

#define RESTARTS_DEFAULT  3
#define BYTES_PER_GPU_MAX ((int64_t)1 << 42) /* 4 TiB; times a million GPUs it still fits */
#define SECONDS_MAX       1000000000         /* some thirty years */

#define FIELD(member, name, ...)  DECODE_FIELD(struct torchrun_spec, member, name, __VA_ARGS__)
#define VOLUME(member, name, ...) DECODE_FIELD(struct torchrun_volume, member, name, __VA_ARGS__)

static const char *const clean_words[] =
    {[JOB_CLEAN_RUNNING] = "Running", [JOB_CLEAN_NONE] = "None", [JOB_CLEAN_ALL] = "All", NULL};
static const char *const hang_words[] = {[JOB_HANG_RESTART] = "Restart",
                                         [JOB_HANG_REPORT] = "Report",
                                         [JOB_HANG_IGNORE] = "Ignore",
                                         NULL};
static const char *const mode_words[] =
    {[JOB_MODE_PODS] = "Pods", [JOB_MODE_IN_PLACE] = "InPlace", NULL};
static const char *const restart_words[] =
    {[TORCHRUN_RESTART_ON_FAILURE] = "OnFailure", [TORCHRUN_RESTART_NEVER] = "Never", NULL};
static const char *const name_mode_words[] =
    {[TORCHRUN_NAME_EXACT] = "exact", [TORCHRUN_NAME_PREFIX] = "prefix", NULL};

static const struct decode_field volume_fields[] = {
    VOLUME(enabled, "enabled", JSON),
    VOLUME(bytes, "size", WHOLE),
    VOLUME(bytes_per_gpu, "sizePerGPU", WHOLE, .max = BYTES_PER_GPU_MAX),
    VOLUME(storage_class, "storageClass", STR, .alias = "storageClassName"),
    VOLUME(access_modes, "accessModes", JSON),
    VOLUME(mount_path, "mountPath", STR),
    VOLUME(existing_claim, "existingClaim", STR),
    VOLUME(persist, "persist", JSON),
};
static const struct decode_table volume_table =
    DECODE_TABLE(struct torchrun_volume, NULL, volume_fields);

static const struct decode_field resource_fields[] = {
    DECODE_FIELD(struct torchrun_resource, name, "name", STR, .required = true),
    DECODE_FIELD(struct torchrun_resource,
                 name_mode,
                 "nameMode",
                 ENUM,
                 .words = name_mode_words,
                 .absent = "exact"),
    DECODE_FIELD(struct torchrun_resource, immutable, "immutable", BOOL, .absent = "false"),
    DECODE_FIELD(struct torchrun_resource, template, "template", JSON, .required = true),
};
static const struct decode_table resource_table =
    DECODE_TABLE(struct torchrun_resource, NULL, resource_fields);

static const char *const after_words[] =
    {[TORCHRUN_AFTER_SUCCEEDED] = "Succeeded", [TORCHRUN_AFTER_ENDED] = "Ended", NULL};
static const struct decode_field after_fields[] = {
    DECODE_FIELD(struct torchrun_after, job, "job", STR, .required = true),
    DECODE_FIELD(struct torchrun_after,
                 when,
                 "when",
                 ENUM,
                 .words = after_words,
                 .absent = "Succeeded"),
};
static const struct decode_table after_table =
    DECODE_TABLE(struct torchrun_after, NULL, after_fields);

/* What both kinds have. */
#define SHARED_FIELDS                                                                              \
    FIELD(node_resources, "nodeResources", JSON),                                                  \
        FIELD(node_gpus, "nodeResources.gpus", I64, .max = 1024),                                  \
        FIELD(node_cpu_milli, "nodeResources.cpus", MILLI),                                        \
        FIELD(node_memory_bytes, "nodeResources.memory", WHOLE),                                   \
        FIELD(gpu_type, "nodeResources.gpuType", STR), FIELD(image, "image", STR),                 \
        FIELD(image_pull_policy, "imagePullPolicy", STR), FIELD(working_dir, "workingDir", STR),   \
        FIELD(service_account, "serviceAccountName", STR),                                         \
        FIELD(backend, "distributed.backend", STR),                                                \
        FIELD(rdzv_backend, "distributed.rdzvBackend", STR),                                       \
        FIELD(rdzv_endpoint, "distributed.rdzvEndpoint", STR),                                     \
        FIELD(rdzv_port, "distributed.port", I64, .min = 1024, .max = 65535),                      \
        FIELD(max_restarts, "reliability.maxRestarts", I64, .max = 1000000),                       \
        FIELD(restart, "reliability.restartPolicy", ENUM, .words = restart_words),                 \
        FIELD(on_hang, "reliability.onHang", ENUM, .words = hang_words),                           \
        FIELD(on_suspicion, "reliability.onSuspicion", ENUM, .words = hang_words),                 \
        FIELD(restart_mode, "reliability.restartMode", ENUM, .words = mode_words),                 \
        FIELD(warm, "reliability.warmProcesses", BOOL),                                            \
        FIELD(spares, "reliability.spares", I64, .max = TORCHRUN_SPARES_MAX),                      \
        FIELD(preflight_from, "reliability.preflightFrom", I64, .max = 100000),                    \
        FIELD(ttl_s, "reliability.ttlSecondsAfterFinished", I64, .max = SECONDS_MAX),              \
        FIELD(deadline_s, "reliability.activeDeadlineSeconds", I64, .min = 1, .max = SECONDS_MAX), \
        FIELD(clean, "reliability.cleanPodPolicy", ENUM, .words = clean_words),                    \
        FIELD(scheduler, "scheduling.scheduler", STR),                                             \
        FIELD(priority_class, "scheduling.priorityClassName", STR),                                \
        FIELD(affinity, "scheduling.affinity", JSON), FIELD(topology, "scheduling.topology", STR), \
        FIELD(topology_required, "scheduling.requiredTopologyLevel", STR),                         \
        FIELD(topology_preferred, "scheduling.preferredTopologyLevel", STR),                       \
        FIELD(host_network, "networking.hostNetwork", JSON),                                       \
        FIELD(interface, "networking.interface", STR),                                             \
        FIELD(nccl_interface, "networking.ncclInterface", STR),                                    \
        FIELD(gloo_interface, "networking.glooInterface", STR),                                    \
        FIELD(shm_bytes_per_gpu, "storage.shmSizePerGPU", WHOLE, .max = BYTES_PER_GPU_MAX),        \
        FIELD(workspace, "storage.workspace", OBJECT, .table = &volume_table),                     \
        FIELD(datasets, "storage.datasets", OBJECT, .table = &volume_table),                       \
        FIELD(checkpoints, "storage.checkpoints", OBJECT, .table = &volume_table),                 \
        FIELD(workspace_storage, "workspaceStorage", JSON),                                        \
        FIELD(workspace_bytes, "workspaceStorage.size", WHOLE),                                    \
        FIELD(workspace_class, "workspaceStorage.storageClass", STR),                              \
        FIELD(workspace.mount_path, "storage.workspace.mountPath", STR,                            \
              .alias = "workspaceStorage.mountPath"),                                              \
        FIELD(sync_image, "workspaceStorage.image", STR),                                          \
        FIELD(sync_pull_policy, "workspaceStorage.imagePullPolicy", STR),                          \
        FIELD(source, "workspaceStorage.source", STR),                                             \
        FIELD(source_url, "workspaceStorage.url", STR)

static const struct decode_field queue_fields[] = {
    SHARED_FIELDS,
    FIELD(queue_env, "env", JSON),
    FIELD(unused_ms, "suspendUnusedAfter", DURATION, .min = 1, .max = SECONDS_MAX * (int64_t)1000),
    FIELD(queue_node_selector, "scheduling.nodeSelector", JSON),
    FIELD(queue_tolerations, "scheduling.tolerations", JSON),
    FIELD(image_pull_secrets, "imagePullSecrets", JSON),
    FIELD(security_context, "securityContext", JSON),
    FIELD(pod_security_context, "podSecurityContext", JSON),
    FIELD(pod_template, "podTemplate", JSON),
    DECODE_ITEMS(struct torchrun_spec,
                 resources,
                 resource_count,
                 "resources",
                 LIST,
                 .table = &resource_table,
                 .max = 64),
};
static const struct decode_table queue_table =
    DECODE_TABLE(struct torchrun_spec, "spec", queue_fields);

static const struct decode_field job_fields[] = {
    SHARED_FIELDS,
    FIELD(job_name, "jobName", STR),
    FIELD(job_id, "jobID", STR),
    FIELD(num_gpus, "numGPUs", I64, .max = 1000000),
    FIELD(num_nodes, "numNodes", I64, .min = 1, .max = 100000),
    FIELD(min_nodes, "elastic.minNodes", I64, .min = 1, .max = INT64_MAX, .alias = "minNodes"),
    FIELD(max_nodes, "elastic.maxNodes", I64, .min = 1, .max = INT64_MAX, .alias = "maxNodes"),
    FIELD(nproc, "nprocPerNode", I64, .min = 1, .max = 1024),
    FIELD(command, "command", STR),
    FIELD(setup_command, "setupCommand", STR),
    FIELD(suspend, "suspend", BOOL),
    FIELD(max_run_ms, "maxRunTime", DURATION, .min = 1, .max = SECONDS_MAX * (int64_t)1000),
    FIELD(requeue, "requeueAfterMaxRunTime", BOOL),
    DECODE_ITEMS(struct torchrun_spec,
                 after,
                 after_count,
                 "after",
                 LIST,
                 .table = &after_table,
                 .max = TORCHRUN_AFTER_MAX),
    FIELD(notify_url, "notify.url", STR),
    DECODE_ITEMS(struct torchrun_spec,
                 notify_events,
                 notify_event_count,
                 "notify.events",
                 STRS,
                 .max = 8),
    FIELD(array, "array", JSON),
    FIELD(array_indexes, "array.indexes", STR),
    FIELD(array_limit, "array.limit", I64, .min = 1, .max = ARRAY_COUNT_MAX),
    FIELD(keep, "keepWhileSuspended", BOOL),
    FIELD(job_env, "env", JSON),
    FIELD(job_node_selector, "scheduling.nodeSelector", JSON),
    FIELD(job_tolerations, "scheduling.tolerations", JSON),
    FIELD(labels, "labels", JSON),
    FIELD(annotations, "annotations", JSON),
    FIELD(volumes, "volumes.additionalVolumes", JSON),
    FIELD(mounts, "volumes.additionalMounts", JSON),
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
    {"status", "job_status.c and torchrun_queue.c: what they wrote themselves"},
    {NULL, NULL},
};
const struct decode_kind torchrunjob_decode_kind = {
    .crd = "torchrunjobs.torchrun.ai",
    .uses = {{&torchrun_job_names, NULL}, {&job_table, NULL}},
    .by_hand = by_hand};
const struct decode_kind torchrunqueue_decode_kind = {
    .crd = "torchrunqueues.torchrun.ai",
    .uses = {{&torchrun_queue_names, NULL}, {&queue_table, NULL}},
    .by_hand = by_hand};
