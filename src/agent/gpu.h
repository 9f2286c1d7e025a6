#pragma once

#include <stdbool.h>
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
struct nvml_sample {
    unsigned long long at_us;
    union {
        unsigned percent;
        unsigned long long whole;
    } value;
};
struct nvml_rates {
    unsigned gpu, memory; /* percent of the last moment in which it was busy */
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
    int (*rates)(nvml_device, struct nvml_rates *);
    /* How busy it was in the last seconds, several times a second; NULL: an old driver. */
    int (*samples)(nvml_device, int, unsigned long long, int *, unsigned *, struct nvml_sample *);
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

/* What was measured of a card. */
struct gpu_use {
    int percent; /* of the time it was busy; -1: not known, as of a card that is split */
    int64_t mib; /* of its memory that is in use */
    int peak;    /* percent, the most of the last seconds */
};

/* Of every card of `gpus` at its place. Waits for the driver: for a worker thread. False: the driver
 * does not answer. */
bool gpu_measure(const struct gpus *gpus, struct gpu_use ret[static GPU_MAX]);
/* Its part behind the opening, for the tests. */
void gpu_read_use(const struct nvml *nvml,
                  const struct gpus *gpus,
                  struct gpu_use ret[static GPU_MAX]);
/* "85/40960,0/0" of `count` cards, as api/gpu.h has it: rounded, so that a card that does nothing says
 * nothing new. Empty where the use of one is not known. */
#define GPU_USE_TEXT    1024
#define GPU_UNUSED_TEXT (GPU_MAX * 24)
void gpu_use_text(const struct gpu_use *uses, size_t count, char out[static GPU_USE_TEXT]);
