#pragma once

/* gpu: how scheduler, admission and node speak of devices: annotations and labels of pods.
 *
 * Embedded, the scheduler numbers the devices itself: it writes the numbers together with the
 * binding, the agent hands out what they say, and both read them back after a restart, so a device
 * is never given twice. On a cluster a device plugin hands out devices; a shared one is held by a
 * reservation pod, and everything about it is named by its group (control/cluster/sharing.h).
 * Requests are in KAI Scheduler's words. */
#define GPU_RESOURCE "nvidia.com/gpu"

/* Written with the binding. */
#define GPU_ANNOTATION_DEVICES "torchrun.ai/gpu-devices"      /* "0,3": numbers on the node */
#define GPU_ANNOTATION_PORTION "torchrun.ai/gpu-portion"      /* "0.500000" of each device */
#define GPU_ANNOTATION_MEMORY  "torchrun.ai/gpu-memory-limit" /* MiB of each device */
#define GPU_ANNOTATION_TYPE    "received-resource-type"       /* Regular, Fraction */

/* Of a node, written by its agent: what was measured of each device, "87/40960,0/0": percent of the
 * time it was busy, and MiB of its memory in use. */
#define GPU_ANNOTATION_USE "muster.dev/gpu-use"
/* And since when nobody has used it: "-,2026-11-17T03:00:00Z"; "-": it is in use. */
#define GPU_ANNOTATION_UNUSED "muster.dev/gpu-unused-since"

/* Written by the user: a share of a device, on how many devices, and the container that gets it
 * (default: the first). */
#define GPU_ANNOTATION_FRACTION           "gpu-fraction"
#define GPU_ANNOTATION_FRACTION_MEMORY    "gpu-memory"
#define GPU_ANNOTATION_FRACTION_DEVICES   "gpu-fraction-num-devices"
#define GPU_ANNOTATION_FRACTION_CONTAINER "gpu-fraction-container-name"
#define GPU_ANNOTATION_MPS                "mps" /* "true": through NVIDIA's MPS daemon */

#define GPU_SHARE_DEVICES_MAX 16 /* shares of one pod */

/* On a cluster. Written at admission: what the names of the pod's ConfigMaps begin with. */
#define GPU_ANNOTATION_CONFIG "runai/shared-gpu-configmap"
/* Written before the binding: the group of the shared device; with several of them a label each,
 * "runai-gpu-group/<group>". Reservation pods carry it too. */
#define GPU_LABEL_GROUP        "runai-gpu-group"
#define GPU_LABEL_GROUP_PREFIX "runai-gpu-group/"
/* Written by a reservation pod about itself: the UUID of its device. */
#define GPU_ANNOTATION_RESERVED "run.ai/reserve_for_gpu_index"
