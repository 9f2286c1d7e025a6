#include "agent/device.h"

#include "agent/agent.h"
#include "agent/core.h"
#include "agent/env.h"
#include "agent/gpu.h"
#include "agent/lifecycle.h"
#include "agent/machine.h"
#include "agent/node.h"
#include "agent/pod.h"
#include "api/gpu.h"
#include "api/object.h"
#include "api/quantity.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/json.h"
#include "base/str.h"
#include "shim/record.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

/* GPUs of a pod: the ones the scheduler named (api/gpu.h), or, for pods that somebody bound by
 * hand, the least used ones of the node. Which container sees which: whole GPUs go to the
 * containers that ask for them, in order; a share goes to the container the pod names, or the
 * first. A container has the device files of its own GPUs only, so CUDA numbers them from 0;
 * pretend GPUs have no files and keep their numbers. */

static int64_t container_wants(const struct pod *pod, size_t index)
{
    int64_t count = 0;

    (void)quantity_whole_json(
        json_get(json_at(pod_container_spec(pod, index), "resources.limits"), GPU_RESOURCE), &count,
        NULL);
    return count;
}

static bool pod_is_shared(const struct pod *pod)
{
    return object_annotation(pod->object, GPU_ANNOTATION_FRACTION).len ||
           object_annotation(pod->object, GPU_ANNOTATION_FRACTION_MEMORY).len;
}

static int64_t pod_wants(const struct pod *pod)
{
    int64_t most = 0;
    int64_t sum = 0;

    for (size_t i = 0; i < pod->run.count; i++) {
        int64_t count = container_wants(pod, i);

        if (pod->run.containers[i].init)
            most = count > most ? count : most;
        else
            sum += count;
    }
    return sum > most ? sum : most;
}

static void pod_take_device(struct pod *pod, uint32_t device)
{
    pod->agent->nodes[pod->node].gpu_users[device]++;
    pod->gpus[pod->gpu_count++] = device;
}

void device_take(struct pod *pod)
{
    const struct node *node = &pod->agent->nodes[pod->node];
    struct str rest = object_annotation(pod->object, GPU_ANNOTATION_DEVICES);
    uint32_t count = pod->agent->gpus_per_node;
    struct str part;

    while (str_cut(&rest, ',', &part) && pod->gpu_count < AGENT_GPUS_MAX) {
        uint64_t device = 0;

        if (str_to_u64(part, &device) && count)
            pod_take_device(pod, (uint32_t)(device % count)); /* time slices come round again */
    }
    if (pod->gpu_count)
        return;
    for (int64_t wanted = pod_wants(pod); wanted > 0 && count; wanted--) {
        uint32_t best = 0;

        if (pod->gpu_count == AGENT_GPUS_MAX)
            break;
        for (uint32_t i = 1; i < count; i++)
            if (node->gpu_users[i] < node->gpu_users[best])
                best = i;
        pod_take_device(pod, best);
    }
}

void device_give(struct pod *pod)
{
    struct node *node = &pod->agent->nodes[pod->node];

    for (size_t i = 0; i < pod->gpu_count; i++)
        if (node->gpu_users[pod->gpus[i]])
            node->gpu_users[pod->gpus[i]]--;
    pod->gpu_count = 0;
}

/* The container a share is for. */
static size_t shared_container(const struct pod *pod)
{
    struct str name = object_annotation(pod->object, GPU_ANNOTATION_FRACTION_CONTAINER);
    size_t index = name.len ? pod_container_index(pod, name) : SIZE_MAX;

    return index < pod->run.count ? index : pod_choose_container(pod, STR(""));
}

bool device_has_share(const struct pod *pod, size_t index)
{
    return pod_is_shared(pod) && pod->gpu_count && index == shared_container(pod);
}

/* First device and number of devices of a container. */
static void slice_of(const struct pod *pod, size_t index, size_t *ret_first, size_t *ret_count)
{
    size_t first = 0;
    size_t count = (size_t)container_wants(pod, index);

    if (pod_is_shared(pod)) {
        *ret_first = 0;
        *ret_count = index == shared_container(pod) ? pod->gpu_count : 0;
        return;
    }
    for (size_t i = 0; i < index && !pod->run.containers[index].init; i++)
        if (!pod->run.containers[i].init)
            first += (size_t)container_wants(pod, i);
    *ret_first = first < pod->gpu_count ? first : pod->gpu_count;
    *ret_count = count < pod->gpu_count - *ret_first ? count : pod->gpu_count - *ret_first;
}

bool device_has_one(const struct pod *pod, size_t index)
{
    size_t first = 0, count = 0;

    slice_of(pod, index, &first, &count);
    return count == 1;
}

/* The card behind a device number of the pod's node; NULL for pretend ones. */
static const struct gpu *card_of(const struct pod *pod, uint32_t device)
{
    const struct agent *agent = pod->agent;
    size_t at = (size_t)pod->node * agent->gpus_per_node + device;

    return agent->gpus_real && at < agent->machine.gpus.count ? &agent->machine.gpus.items[at]
                                                              : NULL;
}

size_t device_cards(const struct pod *pod, const char **ret, size_t max)
{
    size_t count = 0;

    for (size_t i = 0; i < pod->gpu_count && count < max && !pod_is_shared(pod); i++) {
        const struct gpu *card = card_of(pod, pod->gpus[i]);

        if (card)
            ret[count++] = card->uuid;
    }
    return count;
}

static void add_file(struct buf *records, const char *path)
{
    if (access(path, F_OK) == 0)
        record_mount(records, &(struct record_mount){.type = "bind",
                                                     .source = str_from(path),
                                                     .target = str_from(path)});
}

void device_files(const struct pod *pod, size_t index, struct buf *records)
{
    static const char *const common[] = {"/dev/nvidiactl",        "/dev/nvidia-uvm",
                                         "/dev/nvidia-uvm-tools", "/dev/nvidia-modeset",
                                         "/dev/nvidia-caps",      "/dev/nvidia-caps-imex-channels"};
    size_t first = 0;
    size_t count = 0;

    slice_of(pod, index, &first, &count);
    if (!count || !pod->agent->gpus_real)
        return;
    for (size_t i = 0; i < COUNT_OF(common); i++)
        add_file(records, common[i]);
    for (size_t i = 0; i < count; i++) {
        const struct gpu *card = card_of(pod, pod->gpus[first + i]);
        char path[32];

        if (!card)
            continue;
        (void)snprintf(path, sizeof(path), "/dev/nvidia%u", card->minor);
        add_file(records, path);
    }
}

void device_env(const struct pod *pod, size_t index, struct arena *arena, struct env *env)
{
    _cleanup_(buf_done) struct buf list = {0}, names = {0};
    struct str portion = object_annotation(pod->object, GPU_ANNOTATION_PORTION);
    struct str memory = object_annotation(pod->object, GPU_ANNOTATION_MEMORY);
    size_t first = 0;
    size_t count = 0;

    slice_of(pod, index, &first, &count);
    if (!count) {
        env_set(arena, env, STR("NVIDIA_VISIBLE_DEVICES"), STR("void"));
        if (pod->agent->gpus_real)
            env_set(arena, env, STR("CUDA_VISIBLE_DEVICES"), STR(""));
        return;
    }
    for (size_t i = 0; i < count; i++) {
        uint32_t device = pod->gpus[first + i];
        const struct gpu *card = card_of(pod, device);

        buf_addf(&list, "%s%zu", i ? "," : "", card ? i : (size_t)device);
        if (card)
            buf_addf(&names, "%s%s", i ? "," : "", card->uuid);
        else if (pod->agent->options.gpu_uuids)
            buf_addf(&names, "%sGPU-%s-%u", i ? "," : "", pod->agent->nodes[pod->node].name,
                     device);
    }
    struct str devices = str_dup(arena, buf_str(&list));
    env_set(arena, env, STR("CUDA_VISIBLE_DEVICES"), devices);
    env_set(arena, env, STR("NVIDIA_VISIBLE_DEVICES"),
            names.len ? str_dup(arena, buf_str(&names)) : devices);
    if (portion.len)
        env_set(arena, env, STR("GPU_PORTION"), str_dup(arena, portion));
    if (memory.len)
        env_set(arena, env, STR("MUSTER_GPU_MEMORY_MIB"), str_dup(arena, memory));
}
