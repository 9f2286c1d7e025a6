#include "agent/gpu.h"

#include "base/count.h"
#include "base/str.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* ---- NVML, as far as it is needed; its ABI is stable ---- */

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

/* A function of the library, in a shape C can assign. */
#define LOAD(nvml, member, symbol)                            \
    do {                                                      \
        void *address_ = dlsym((nvml)->library, symbol);      \
        memcpy(&(nvml)->member, &address_, sizeof(address_)); \
        complete = complete && address_;                      \
    } while (0)

static bool nvml_open(struct nvml *nvml, struct gpus *gpus)
{
    static const char *const names[] = {"libnvidia-ml.so.1",
                                        "/usr/local/nvidia/lib64/libnvidia-ml.so.1",
                                        "/usr/lib/wsl/lib/libnvidia-ml.so.1"};
    *nvml = (struct nvml){0};
    for (size_t i = 0; i < COUNT_OF(names) && !nvml->library; i++)
        nvml->library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (!nvml->library) {
        (void)snprintf(gpus->why, sizeof(gpus->why),
                       "libnvidia-ml.so.1 not found: install NVIDIA's driver, or simulate GPUs "
                       "with --gpus-per-node");
        return false;
    }
    bool complete = true;
    LOAD(nvml, init, "nvmlInit_v2");
    LOAD(nvml, shutdown, "nvmlShutdown");
    LOAD(nvml, count, "nvmlDeviceGetCount_v2");
    LOAD(nvml, handle, "nvmlDeviceGetHandleByIndex_v2");
    LOAD(nvml, by_uuid, "nvmlDeviceGetHandleByUUID");
    LOAD(nvml, name, "nvmlDeviceGetName");
    LOAD(nvml, uuid, "nvmlDeviceGetUUID");
    LOAD(nvml, memory, "nvmlDeviceGetMemoryInfo");
    LOAD(nvml, minor, "nvmlDeviceGetMinorNumber");
    LOAD(nvml, driver, "nvmlSystemGetDriverVersion");
    int r = complete ? nvml->init() : -1;
    if (r == 0)
        return true;
    (void)snprintf(gpus->why, sizeof(gpus->why), "NVML does not start (error %d): see nvidia-smi",
                   r);
    (void)dlclose(nvml->library);
    return false;
}

void gpu_look(struct gpus *gpus)
{
    struct nvml nvml;
    unsigned count = 0;
    *gpus = (struct gpus){0};
    if (!nvml_open(&nvml, gpus))
        return;
    (void)nvml.driver(gpus->driver, sizeof(gpus->driver));
    if (nvml.count(&count) != 0)
        count = 0;
    for (unsigned i = 0; i < count && gpus->count < GPU_MAX; i++) {
        struct gpu *gpu = &gpus->items[gpus->count];
        struct nvml_memory memory = {0};
        nvml_device device;
        if (nvml.handle(i, &device) != 0 || nvml.uuid(device, gpu->uuid, sizeof(gpu->uuid)) != 0 ||
            nvml.name(device, gpu->product, sizeof(gpu->product)) != 0 ||
            nvml.memory(device, &memory) != 0)
            continue;
        if (nvml.minor(device, &gpu->minor) != 0)
            gpu->minor = i;
        for (char *p = gpu->product; *p; p++)
            *p = *p == ' ' ? '-' : *p;
        gpu->memory_mib = (int64_t)(memory.total >> 20);
        gpus->count++;
    }
    if (!gpus->count)
        (void)snprintf(gpus->why, sizeof(gpus->why), "the driver shows no GPU");
    (void)nvml.shutdown();
    (void)dlclose(nvml.library);
}

int64_t gpu_driver(const struct gpus *gpus)
{
    struct str version = str_from(gpus->driver);
    int64_t major = 0;
    (void)str_to_i64(str_sub(version, 0, str_find(version, '.')), &major);
    return major;
}

int64_t gpu_used_mib(const char *uuid)
{
    struct nvml nvml;
    struct gpus unused;
    struct nvml_memory memory = {0};
    nvml_device device;
    int64_t mib = -1;
    unused.why[0] = '\0';
    if (!nvml_open(&nvml, &unused))
        return -1;
    if (nvml.by_uuid(uuid, &device) == 0 && nvml.memory(device, &memory) == 0)
        mib = (int64_t)(memory.used >> 20);
    (void)nvml.shutdown();
    (void)dlclose(nvml.library);
    return mib;
}
