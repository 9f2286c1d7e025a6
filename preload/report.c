#include "device.h"
#include "hooks.h"
#include "region.h"
#include "settings.h"

#include <stddef.h>
#include <stdint.h>

/* report: how large the device is, and what is free of it: the share is all there is. */

struct nvml_memory {
    uint64_t total;
    uint64_t free;
    uint64_t used;
};

struct nvml_memory_v2 {
    unsigned version;
    uint64_t total;
    uint64_t reserved;
    uint64_t free;
    uint64_t used;
};

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t used_of(int device, uint64_t total)
{
    return least((uint64_t)region_used(device), total);
}

/* Free is also what the card itself has left. */
static uint64_t free_of(int device, uint64_t total, uint64_t really_free)
{
    return least(really_free, total - used_of(device, total));
}

int cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes)
{
    cuMemGetInfo_v2_fn *real = REAL(cuMemGetInfo_v2);
    int r = real ? real(free_bytes, total_bytes) : CUDA_NOT_INITIALIZED;
    int device = r == CUDA_SUCCESS && settings_active() ? device_current().device : -1;

    if (device < 0)
        return r;
    *total_bytes = least(*total_bytes, (uint64_t)settings.limit_bytes);
    *free_bytes = free_of(device, *total_bytes, *free_bytes);
    return r;
}

int cuDeviceTotalMem_v2(size_t *bytes, int number)
{
    cuDeviceTotalMem_v2_fn *real = REAL(cuDeviceTotalMem_v2);
    int r = real ? real(bytes, number) : CUDA_NOT_INITIALIZED;

    if (r == CUDA_SUCCESS && settings_active())
        *bytes = least(*bytes, (uint64_t)settings.limit_bytes);
    return r;
}

int nvmlDeviceGetMemoryInfo(void *handle, struct nvml_memory *memory)
{
    nvmlDeviceGetMemoryInfo_fn *real = REAL(nvmlDeviceGetMemoryInfo);
    int r = real ? real(handle, memory) : NVML_NOT_FOUND;
    int device = r == 0 && settings_active() ? device_by_nvml(handle) : -1;

    if (device < 0)
        return r;
    memory->total = least(memory->total, (uint64_t)settings.limit_bytes);
    memory->free = free_of(device, memory->total, memory->free);
    memory->used = used_of(device, memory->total);
    return r;
}

/* What the driver keeps for itself is not the share's. */
int nvmlDeviceGetMemoryInfo_v2(void *handle, struct nvml_memory_v2 *memory)
{
    nvmlDeviceGetMemoryInfo_v2_fn *real = REAL(nvmlDeviceGetMemoryInfo_v2);
    int r = real ? real(handle, memory) : NVML_NOT_FOUND;
    int device = r == 0 && settings_active() ? device_by_nvml(handle) : -1;

    if (device < 0)
        return r;
    memory->total = least(memory->total, (uint64_t)settings.limit_bytes);
    memory->reserved = 0;
    memory->free = free_of(device, memory->total, memory->free);
    memory->used = used_of(device, memory->total);
    return r;
}
