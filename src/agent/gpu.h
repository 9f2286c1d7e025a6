#pragma once

#include <stddef.h>
#include <stdint.h>

/* gpu: the machine's GPUs, found with NVML (loaded at run time: nothing of NVIDIA's is needed to
 * build or run). */
#define GPU_MAX 64
/* Characters of a product's name: as a label's value, also with "-SHARED" behind it. */
#define GPU_PRODUCT_MAX 56

struct gpu {
    char uuid[96];    /* letters, digits and '-': lists of them have commas between */
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

/* NVML, as far as it is needed; its ABI is stable. Each call returns 0 when it has an answer. */
typedef void *nvml_device;
struct nvml_memory {
    unsigned long long total, free, used;
};
struct nvml {
    void *library;
    int (*init)(void);
    int (*shutdown)(void);
    int (*count)(unsigned *);
    int (*handle)(unsigned, nvml_device *);
    int (*by_uuid)(const char *, nvml_device *);
    int (*name)(nvml_device, char *, unsigned);
    int (*uuid)(nvml_device, char *, unsigned);
    int (*memory)(nvml_device, struct nvml_memory *);
    int (*minor)(nvml_device, unsigned *);
    int (*driver)(char *, unsigned);
};

void gpu_look(struct gpus *gpus);
/* Its part behind the opening, for the tests. */
void gpu_read(const struct nvml *nvml, struct gpus *gpus);
/* 580 of "580.159.04"; 0: there is no driver. */
int64_t gpu_driver(const struct gpus *gpus);
/* MiB that are in use on the card of that UUID now; -1: not known. */
int64_t gpu_used_mib(const char *uuid);
