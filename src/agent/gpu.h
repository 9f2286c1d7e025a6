#pragma once

#include <stddef.h>
#include <stdint.h>

/* gpu: the machine's GPUs, found with NVML (loaded at run time: nothing of NVIDIA's is needed to
 * build or run). */
#define GPU_MAX 64

struct gpu {
    char uuid[96];
    char product[96]; /* as the label says it: NVIDIA-H200 */
    int64_t memory_mib;
    unsigned minor; /* /dev/nvidia<minor> */
};

struct gpus {
    struct gpu items[GPU_MAX];
    size_t count;
    char driver[96];
    char why[240]; /* count 0: what was missing */
};

void gpu_look(struct gpus *gpus);
/* 580 of "580.159.04"; 0: there is no driver. */
int64_t gpu_driver(const struct gpus *gpus);
/* MiB that are in use on the card of that UUID now; -1: not known. */
int64_t gpu_used_mib(const char *uuid);
