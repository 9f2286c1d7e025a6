#include "blocks.h"
#include "device.h"
#include "hooks.h"
#include "settings.h"
#include "table.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

/* virtual: physical memory with handles, and its mappings, as PyTorch's expandable segments and
 * NCCL use them. Memory is there as long as a handle or a mapping of it is, so both are counted. A
 * handle that was released may be mapped still, while its number is another memory's already: the
 * tables lead to one struct for each memory. */

#define LOCATION_DEVICE 1 /* CU_MEM_LOCATION_TYPE_DEVICE */

struct allocation_prop {
    int type;
    int handle_types;
    struct {
        int type;
        int id;
    } location;
    /* More follows, none of which is read here. */
};

struct memory {
    int64_t bytes;
    int device;
    unsigned handles;
    unsigned mappings;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* these calls take microseconds */

static void release_unused(struct memory *memory)
{
    if (memory->handles || memory->mappings)
        return;
    device_give_back(memory->device, memory->bytes);
    free(memory);
}

static void add_handle(uint64_t handle, struct memory *memory)
{
    memory->handles++;
    table_put(TABLE_HANDLES, handle, (struct record){.owner = memory});
}

int cuMemCreate(uint64_t *handle, size_t bytes, const struct allocation_prop *prop, uint64_t flags)
{
    cuMemCreate_fn *real = REAL(cuMemCreate);
    bool counted = settings_active() && prop && prop->location.type == LOCATION_DEVICE;
    int device = counted ? device_by_number(prop->location.id) : -1;
    struct memory *memory = device >= 0 ? malloc(sizeof(*memory)) : NULL;

    if (!real || (device >= 0 && !memory)) {
        free(memory);
        return real ? CUDA_OUT_OF_MEMORY : CUDA_NOT_INITIALIZED;
    }
    if (!memory)
        return real(handle, bytes, prop, flags);
    *memory =
        (struct memory){.bytes = bytes < INT64_MAX ? (int64_t)bytes : INT64_MAX, .device = device};
    if (!device_reserve(device, memory->bytes)) {
        free(memory);
        return CUDA_OUT_OF_MEMORY;
    }
    pthread_mutex_lock(&mutex);
    int r = real(handle, bytes, prop, flags);
    if (r == CUDA_SUCCESS)
        add_handle(*handle, memory);
    else
        release_unused(memory);
    pthread_mutex_unlock(&mutex);
    return r;
}

int cuMemRelease(uint64_t handle)
{
    cuMemRelease_fn *real = REAL(cuMemRelease);
    struct record record;

    if (!real)
        return CUDA_NOT_INITIALIZED;
    pthread_mutex_lock(&mutex);
    int r = real(handle);
    if (r == CUDA_SUCCESS && table_get(TABLE_HANDLES, handle, &record)) {
        struct memory *memory = record.owner;

        if (--memory->handles == 0)
            (void)table_take(TABLE_HANDLES, handle, &record);
        release_unused(memory);
    }
    pthread_mutex_unlock(&mutex);
    return r;
}

int cuMemRetainAllocationHandle(uint64_t *handle, void *address)
{
    cuMemRetainAllocationHandle_fn *real = REAL(cuMemRetainAllocationHandle);
    struct record record;

    if (!real)
        return CUDA_NOT_INITIALIZED;
    blocks_lend((uint64_t)(uintptr_t)address);
    pthread_mutex_lock(&mutex);
    int r = real(handle, address);
    if (r == CUDA_SUCCESS && (table_get(TABLE_HANDLES, *handle, &record) ||
                              table_get(TABLE_MAPPINGS, (uint64_t)(uintptr_t)address, &record)))
        add_handle(*handle, record.owner);
    pthread_mutex_unlock(&mutex);
    return r;
}

int cuMemMap(uint64_t pointer, size_t bytes, size_t offset, uint64_t handle, uint64_t flags)
{
    cuMemMap_fn *real = REAL(cuMemMap);
    struct record record;

    if (!real)
        return CUDA_NOT_INITIALIZED;
    pthread_mutex_lock(&mutex);
    int r = real(pointer, bytes, offset, handle, flags);
    if (r == CUDA_SUCCESS && table_get(TABLE_HANDLES, handle, &record)) {
        struct memory *memory = record.owner;

        memory->mappings++;
        table_put(TABLE_MAPPINGS, pointer,
                  (struct record){.bytes = (int64_t)bytes, .owner = memory});
    }
    pthread_mutex_unlock(&mutex);
    return r;
}

/* The range may be several mappings, one behind the other. */
int cuMemUnmap(uint64_t pointer, size_t bytes)
{
    cuMemUnmap_fn *real = REAL(cuMemUnmap);
    uint64_t end = pointer + bytes;
    struct record record;

    if (!real)
        return CUDA_NOT_INITIALIZED;
    pthread_mutex_lock(&mutex);
    int r = real(pointer, bytes);
    while (r == CUDA_SUCCESS && pointer < end && table_take(TABLE_MAPPINGS, pointer, &record) &&
           record.bytes > 0) {
        struct memory *memory = record.owner;

        memory->mappings--;
        release_unused(memory);
        pointer += (uint64_t)record.bytes;
    }
    pthread_mutex_unlock(&mutex);
    return r;
}
