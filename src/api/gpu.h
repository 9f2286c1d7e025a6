#pragma once

/* gpu: how scheduler and node agent speak of devices: annotations of the bound pod.
 *
 * The scheduler writes them together with the binding, the agent hands out what they say, and both
 * read them back after a restart, so a device is never given twice. Requests are in KAI Scheduler's
 * words. */
#define GPU_RESOURCE "nvidia.com/gpu"

/* Written with the binding. */
#define GPU_ANNOTATION_DEVICES "torchrun.ai/gpu-devices"      /* "0,3": numbers on the node */
#define GPU_ANNOTATION_PORTION "torchrun.ai/gpu-portion"      /* "0.500000" of each device */
#define GPU_ANNOTATION_MEMORY  "torchrun.ai/gpu-memory-limit" /* MiB of each device */
#define GPU_ANNOTATION_TYPE    "received-resource-type"       /* Regular, Fraction */

/* Written by the user: a share of a device, and the container that gets it (default: the first). */
#define GPU_ANNOTATION_FRACTION           "gpu-fraction"
#define GPU_ANNOTATION_FRACTION_MEMORY    "gpu-memory"
#define GPU_ANNOTATION_FRACTION_CONTAINER "gpu-fraction-container-name"
