#pragma once

#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct admit;
struct arena;
struct json;

/* share: a pod's wish for a part of a GPU, and what admission makes of it.
 *
 * A pod cannot be changed once it is there, but which device it shares is known only when it is
 * bound. So on a cluster admission lets one container read what it needs from two ConfigMaps that
 * do not exist yet, and that the scheduler writes before the binding:
 *
 *     <prefix>-<n>       NVIDIA_VISIBLE_DEVICES, GPU_PORTION, RUNAI_NUM_OF_GPUS, one variable each
 *     <prefix>-<n>-evar  further variables, taken whole (envFrom)
 *
 * where n is the container's index, "i" in front of it for an init container, and the prefix stands
 * in the annotation runai/shared-gpu-configmap. Names and keys are KAI Scheduler's. */
#define SHARE_VISIBLE "NVIDIA_VISIBLE_DEVICES"
#define SHARE_PORTION "GPU_PORTION"
#define SHARE_GPUS    "RUNAI_NUM_OF_GPUS"     /* the portion again, under an older name */
#define SHARE_MEMORY  "MUSTER_GPU_MEMORY_MIB" /* of each device */

/* Asks for a share of a device, well or badly. */
bool share_wanted(const struct json *pod);
/* The rules of such a wish; nothing for other pods. What a pod wished for cannot change any more
 * once it is on a node. A field is an annotation: metadata.annotations[gpu-fraction]. */
void share_check(struct admit *admit);
/* "0.25" in millionths; -1 when it is no number of that kind. */
int64_t share_micro(struct str text);

/* The container that gets the share. */
struct share_target {
    bool init;
    size_t index;
};
/* False: the annotation names a container that is not there, or there is none at all. */
bool share_find_target(const struct json *pod, struct share_target *ret);
/* "<prefix>-0", "<prefix>-i0" */
struct str share_config_name(struct arena *arena, struct str prefix, struct share_target target);
struct str share_evar_name(struct arena *arena, struct str prefix, struct share_target target);

/* Lets the container read its ConfigMaps. `salt` tells pods of one owner apart; a pod that has its
 * prefix already keeps it. The pod must have passed share_check(). Doing it twice changes nothing.
 */
void share_mutate(struct arena *arena, struct json *pod, uint64_t salt);
