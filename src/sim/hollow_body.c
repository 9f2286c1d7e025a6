#include "sim/hollow_body.h"

#include "api/gpu.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/json.h"
#include "base/json_make.h"
#include "base/time.h"
#include "sim/hollow.h"

#include <stdbool.h>
#include <stdint.h>

#define KUBELET_VERSION "v1.33.0-hollow"

static void add_condition(struct arena *arena,
                          struct json *conditions,
                          const char *type,
                          const char *status,
                          int64_t now_ms)
{
    json_push(conditions, json_make(arena, "{type: $, status: $, lastTransitionTime: $}", type,
                                    status, time_text(arena, now_ms)));
}

static void add_resources(struct arena *arena,
                          struct json *status,
                          const char *key,
                          const struct hollow_options *options)
{
    struct json *list = json_add_object(arena, status, key);

    json_fill(arena, list, "{cpu: $, memory: $, pods: $, ephemeral-storage: '1Ti'}",
              str_printf(arena, "%lld", (long long)options->cpus),
              str_printf(arena, "%lldGi", (long long)options->memory_gib),
              str_printf(arena, "%lld", (long long)options->pods));
    if (options->gpus > 0)
        json_add_str(arena, list, "nvidia.com/gpu",
                     str_printf(arena, "%lld", (long long)options->gpus));
}

/* An address for every node and pod out of 10/8, by number. */
static struct str pod_address(struct arena *arena, uint64_t number)
{
    return str_printf(arena, "10.%u.%u.%u", (unsigned int)(64 + number / 62500 % 128),
                      (unsigned int)(number / 250 % 250), (unsigned int)(number % 250 + 2));
}

struct json *hollow_node_status(struct arena *arena,
                                const struct hollow_options *options,
                                size_t index,
                                int64_t now_ms)
{
    static const char *const fine[] = {"MemoryPressure", "DiskPressure", "PIDPressure"};
    struct json *status = json_new_object(arena);
    struct json *conditions;

    add_resources(arena, status, "capacity", options);
    add_resources(arena, status, "allocatable", options);
    conditions = json_add_array(arena, status, "conditions");
    for (size_t i = 0; i < COUNT_OF(fine); i++)
        add_condition(arena, conditions, fine[i], "False", now_ms);
    add_condition(arena, conditions, "Ready", "True", now_ms);
    for (struct json *at = json_first(conditions); at; at = json_next(at))
        json_add_str(arena, at, "lastHeartbeatTime", time_text(arena, now_ms));
    json_fill(arena, status,
              "{addresses: [{type: 'InternalIP', address: $}], "
              "nodeInfo: {kubeletVersion: $, operatingSystem: 'linux', "
              "architecture: 'amd64', osImage: 'hollow', kernelVersion: 'hollow', "
              "containerRuntimeVersion: 'hollow://1', machineID: '', systemUUID: '', "
              "bootID: '', kubeProxyVersion: ''}}",
              pod_address(arena, index), KUBELET_VERSION);
    return status;
}

static void add_labels(struct arena *arena,
                       struct json *labels,
                       const struct hollow_options *options,
                       struct str name,
                       size_t index)
{
    json_fill(arena, labels,
              "{kubernetes.io/hostname: $, kubernetes.io/os: 'linux', "
              "kubernetes.io/arch: 'amd64', muster.dev/hollow: 'true'}",
              name);
    if (options->gpus > 0) {
        json_add_str(arena, labels, "nvidia.com/gpu.count",
                     str_printf(arena, "%lld", (long long)options->gpus));
        json_add_c(arena, labels, "nvidia.com/gpu.present", "true");
    }
    if (options->gpu_memory_mib > 0)
        json_add_str(arena, labels, "nvidia.com/gpu.memory",
                     str_printf(arena, "%lld", (long long)options->gpu_memory_mib));
    if (options->racks > 0)
        json_add_str(arena, labels, "muster.dev/rack",
                     str_printf(arena, "r%lld", (long long)index % (long long)options->racks));
    for (size_t i = 0; options->labels && options->labels[i]; i++) {
        struct str text = str_from(options->labels[i]);
        size_t equals = str_find(text, '=');

        json_set(labels, str_sub(text, 0, equals),
                 json_new_str(arena, str_sub(text, equals + 1, text.len)));
    }
}

struct json *hollow_node(struct arena *arena,
                         const struct hollow_options *options,
                         struct str name,
                         size_t index,
                         int64_t now_ms)
{
    struct json *meta;
    struct json *node = json_make(arena, "{apiVersion: 'v1', kind: 'Node'}");

    meta = json_add_object(arena, node, "metadata");
    json_add_str(arena, meta, "name", name);
    add_labels(arena, json_add_object(arena, meta, "labels"), options, name, index);
    if (options->taint)
        (void)json_set(node, STR("spec"),
                       json_make(arena, "{taints: [{key: '" HOLLOW_TAINT
                                        "', value: 'true', effect: 'NoSchedule'}]}"));
    json_set(node, STR("status"), hollow_node_status(arena, options, index, now_ms));
    return node;
}

struct json *hollow_lease(struct arena *arena, struct str node, int64_t now_ms)
{
    struct json *lease = json_new_object(arena);
    char now[TIME_TEXT_BYTES];

    json_fill(arena, lease,
              "{apiVersion: 'coordination.k8s.io/v1', kind: 'Lease', "
              "metadata: {name: $, namespace: 'kube-node-lease'}, "
              "spec: {holderIdentity: $, leaseDurationSeconds: 40, renewTime: $}}",
              node, node, str_dup(arena, time_format_micro(now_ms, now)));
    return lease;
}

static void add_container(struct arena *arena,
                          struct json *list,
                          const struct json *container,
                          const struct hollow_moment *moment,
                          int64_t started_ms)
{
    struct json *status = json_push(list, json_new_object(arena));
    struct json *state;
    struct json *inner;
    bool running = moment->code < 0;

    json_fill(arena, status,
              "{name: $, image: $, imageID: '', ready: $, started: $, restartCount: 0}",
              json_str(json_get(container, "name")), json_str(json_get(container, "image")),
              running, running);
    state = json_add_object(arena, status, "state");
    inner = json_add_object(arena, state, running ? "running" : "terminated");
    json_add_str(arena, inner, "startedAt", time_text(arena, started_ms));
    if (running)
        return;
    json_fill(arena, inner, "{exitCode: $, reason: $, finishedAt: $}", moment->code,
              moment->code == 0 ? "Completed" : "Error", time_text(arena, moment->now_ms));
}

static void add_containers(struct arena *arena,
                           struct json *status,
                           const struct json *spec,
                           const struct hollow_moment *moment,
                           int64_t started_ms)
{
    struct hollow_moment over = {.now_ms = moment->now_ms, .code = 0};
    struct json *list = json_add_array(arena, status, "containerStatuses");

    JSON_FOREACH(json_get(spec, "containers"), container)
        add_container(arena, list, container, moment, started_ms);
    if (json_count(json_get(spec, "initContainers")) == 0)
        return;
    list = json_add_array(arena, status, "initContainerStatuses");
    JSON_FOREACH(json_get(spec, "initContainers"), container) {
        bool sidecar = str_is(json_str(json_get(container, "restartPolicy")), "Always");

        add_container(arena, list, container, sidecar ? moment : &over, started_ms);
    }
}

int64_t hollow_gpus(const struct object *pod)
{
    _cleanup_(arena_done) struct arena arena = {0};
    int64_t wanted = 0;

    JSON_FOREACH(json_at(object_json(pod, &arena), "spec.containers"), container) {
        int64_t count = 0;
        const struct json *amount = json_get(json_at(container, "resources.limits"), GPU_RESOURCE);

        if (str_to_i64(json_str(amount), &count) || json_i64(amount, &count))
            wanted += count;
    }
    return wanted;
}

uint64_t hollow_devices(const struct object *pod)
{
    struct str text = object_annotation(pod, GPU_ANNOTATION_DEVICES);
    struct str part;
    uint64_t bits = 0;
    uint64_t number;

    while (text.len && str_cut(&text, ',', &part))
        if (str_to_u64(part, &number) && number < 64)
            bits |= UINT64_C(1) << number;
    return bits;
}

bool hollow_take_gpus(uint64_t *used, int64_t gpus, int64_t wanted, uint64_t *ret)
{
    uint64_t taken = 0;

    for (int64_t i = 0; wanted > 0 && i < gpus && i < 64; i++)
        if (!(*used >> i & 1)) {
            taken |= UINT64_C(1) << i;
            wanted--;
        }
    if (wanted > 0)
        return false;
    *used |= taken;
    *ret = taken;
    return true;
}

struct json *hollow_pod_status(struct arena *arena,
                               const struct object *pod,
                               const struct hollow_moment *moment)
{
    struct json *root = object_json(pod, arena);
    struct json *status = json_new_object(arena);
    struct json *conditions;
    struct str started = json_str_at(root, "status.startTime");
    int64_t started_ms = moment->now_ms;
    bool running = moment->code < 0;
    const char *ready = running ? "True" : "False";
    struct str ip = pod_address(arena, str_hash(pod->uid, 1) % 8000000);

    (void)time_parse(started, &started_ms);
    json_add_c(arena, status, "phase", running ? "Running" : moment->code ? "Failed" : "Succeeded");
    conditions = json_add_array(arena, status, "conditions");
    add_condition(arena, conditions, "PodScheduled", "True", started_ms);
    add_condition(arena, conditions, "PodReadyToStartContainers", ready, started_ms);
    add_condition(arena, conditions, "Initialized", "True", started_ms);
    add_condition(arena, conditions, "ContainersReady", ready, moment->now_ms);
    add_condition(arena, conditions, "Ready", ready, moment->now_ms);
    json_fill(arena, status, "{startTime: $, hostIP: '10.0.0.1', podIP: $, podIPs: [{ip: $}]}",
              time_text(arena, started_ms), ip, ip);
    add_containers(arena, status, json_get(root, "spec"), moment, started_ms);
    return status;
}
