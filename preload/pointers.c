#include "blocks.h"
#include "device.h"
#include "hooks.h"
#include "region.h"
#include "settings.h"
#include "table.h"

#include <limits.h>
#include <stdint.h>
#include <stdio.h>

/* pointers: memory that has an address, and arrays. Reserve, allocate, and give back where that
 * failed. What is freed leaves the table first and the count last: its address may be handed out
 * again at once, its bytes may not. */

#define PITCH 512 /* rows begin at multiples of it, on every device so far */

static int64_t clamp(size_t bytes)
{
    return bytes < INT64_MAX ? (int64_t)bytes : INT64_MAX;
}

static bool reserve(int64_t bytes, struct record *ret)
{
    struct place place = settings_active() ? device_current() : (struct place){.device = -1};

    *ret = (struct record){.bytes = bytes, .owner = place.context, .device = place.device};
    return device_reserve(place.device, bytes);
}

static int keep(int r, enum table table, uint64_t key, const struct record *record)
{
    if (r != CUDA_SUCCESS)
        device_give_back(record->device, record->bytes);
    else if (record->device >= 0)
        table_put(table, key, *record);
    return r;
}

static int let_go(int r, uint64_t key, const struct record *record)
{
    if (r == CUDA_SUCCESS)
        device_give_back(record->device, record->bytes);
    else
        table_put(TABLE_POINTERS, key, *record);
    return r;
}

#define ALLOCATE(name, bytes, ...)       \
    struct record record;                \
    name##_fn *real = REAL(name);        \
    if (!real)                           \
        return CUDA_NOT_INITIALIZED;     \
    if (!reserve(clamp(bytes), &record)) \
        return CUDA_OUT_OF_MEMORY;       \
    int r = real(__VA_ARGS__);           \
    return keep(r, TABLE_POINTERS, r == CUDA_SUCCESS ? *pointer : 0, &record)

#define FREE(name, ...)                                          \
    struct record record;                                        \
    name##_fn *real = REAL(name);                                \
    if (!real)                                                   \
        return CUDA_NOT_INITIALIZED;                             \
    bool counted = table_take(TABLE_POINTERS, pointer, &record); \
    int r;                                                       \
    if (!blocks_free(pointer, &r))                               \
        r = real(__VA_ARGS__);                                   \
    return counted ? let_go(r, pointer, &record) : r

/* Memory that is to be moved is ours, the rest the driver's own. */
static int alloc_any(cuMemAlloc_v2_fn *real, uint64_t *pointer, size_t bytes)
{
    return blocks_alloc(pointer, bytes) ? CUDA_SUCCESS : real(pointer, bytes);
}

int cuMemAlloc_v2(uint64_t *pointer, size_t bytes)
{
    struct record record;
    cuMemAlloc_v2_fn *real = REAL(cuMemAlloc_v2);

    if (!real)
        return CUDA_NOT_INITIALIZED;
    if (!reserve(clamp(bytes), &record))
        return CUDA_OUT_OF_MEMORY;
    int r = alloc_any(real, pointer, bytes);
    return keep(r, TABLE_POINTERS, r == CUDA_SUCCESS ? *pointer : 0, &record);
}

int cuMemAllocManaged(uint64_t *pointer, size_t bytes, unsigned flags)
{
    ALLOCATE(cuMemAllocManaged, bytes, pointer, bytes, flags);
}

int cuMemAllocAsync(uint64_t *pointer, size_t bytes, void *stream)
{
    ALLOCATE(cuMemAllocAsync, bytes, pointer, bytes, stream);
}

int cuMemAllocAsync_ptsz(uint64_t *pointer, size_t bytes, void *stream)
{
    ALLOCATE(cuMemAllocAsync_ptsz, bytes, pointer, bytes, stream);
}

int cuMemAllocFromPoolAsync(uint64_t *pointer, size_t bytes, void *pool, void *stream)
{
    ALLOCATE(cuMemAllocFromPoolAsync, bytes, pointer, bytes, pool, stream);
}

int cuMemAllocFromPoolAsync_ptsz(uint64_t *pointer, size_t bytes, void *pool, void *stream)
{
    ALLOCATE(cuMemAllocFromPoolAsync_ptsz, bytes, pointer, bytes, pool, stream);
}

int cuMemFree_v2(uint64_t pointer)
{
    FREE(cuMemFree_v2, pointer);
}

int cuMemFreeAsync(uint64_t pointer, void *stream)
{
    FREE(cuMemFreeAsync, pointer, stream);
}

int cuMemFreeAsync_ptsz(uint64_t pointer, void *stream)
{
    FREE(cuMemFreeAsync_ptsz, pointer, stream);
}

static int64_t times(int64_t a, uint64_t b)
{
    int64_t product;

    return __builtin_mul_overflow(a, b, &product) ? INT64_MAX : product;
}

int cuMemAllocPitch_v2(uint64_t *pointer,
                       size_t *pitch,
                       size_t width,
                       size_t height,
                       unsigned element_bytes)
{
    cuMemAllocPitch_v2_fn *real = REAL(cuMemAllocPitch_v2);
    size_t row = width < SIZE_MAX - PITCH ? (width + PITCH - 1) / PITCH * PITCH : width;
    struct record record;

    if (!real)
        return CUDA_NOT_INITIALIZED;
    if (!reserve(times(clamp(row), height), &record))
        return CUDA_OUT_OF_MEMORY;
    int r = real(pointer, pitch, width, height, element_bytes);
    if (r == CUDA_SUCCESS && record.device >= 0) {
        int64_t true_bytes = times(clamp(*pitch), height);

        region_add(record.device, true_bytes - record.bytes);
        record.bytes = true_bytes;
    }
    return keep(r, TABLE_POINTERS, r == CUDA_SUCCESS ? *pointer : 0, &record);
}

/* ---- arrays ---- */

struct array_2d {
    size_t width;
    size_t height;
    int format;
    unsigned channels;
};

struct array_3d {
    size_t width;
    size_t height;
    size_t depth;
    int format;
    unsigned channels;
    unsigned flags;
};

/* Of one channel; formats that are compressed or planar count as the most that they can be. */
static unsigned format_bytes(int format)
{
    switch (format) {
    case 0x01: /* unsigned and signed, 8 bits */
    case 0x08: return 1;
    case 0x02: /* 16 bits, and half floats */
    case 0x09:
    case 0x10: return 2;
    default: return 4;
    }
}

static int64_t array_bytes(const struct array_3d *array)
{
    int64_t bytes = times(format_bytes(array->format), array->channels);

    bytes = times(bytes, array->width);
    bytes = times(bytes, array->height ? array->height : 1);
    return times(bytes, array->depth ? array->depth : 1);
}

static uint64_t array_key(void *const *array)
{
    return (uint64_t)(uintptr_t)*array;
}

int cuArrayCreate_v2(void **array, const struct array_2d *shape)
{
    cuArrayCreate_v2_fn *real = REAL(cuArrayCreate_v2);
    struct array_3d whole = {0};
    struct record record;

    if (!real)
        return CUDA_NOT_INITIALIZED;
    if (!shape)
        return real(array, shape);
    whole = (struct array_3d){.width = shape->width,
                              .height = shape->height,
                              .format = shape->format,
                              .channels = shape->channels};
    if (!reserve(array_bytes(&whole), &record))
        return CUDA_OUT_OF_MEMORY;
    int r = real(array, shape);
    return keep(r, TABLE_ARRAYS, r == CUDA_SUCCESS ? array_key(array) : 0, &record);
}

int cuArray3DCreate_v2(void **array, const struct array_3d *shape)
{
    cuArray3DCreate_v2_fn *real = REAL(cuArray3DCreate_v2);
    struct record record;

    if (!real)
        return CUDA_NOT_INITIALIZED;
    if (!shape)
        return real(array, shape);
    if (!reserve(array_bytes(shape), &record))
        return CUDA_OUT_OF_MEMORY;
    int r = real(array, shape);
    return keep(r, TABLE_ARRAYS, r == CUDA_SUCCESS ? array_key(array) : 0, &record);
}

int cuMipmappedArrayCreate(void **array, const struct array_3d *shape, unsigned levels)
{
    cuMipmappedArrayCreate_fn *real = REAL(cuMipmappedArrayCreate);
    struct record record;

    if (!real)
        return CUDA_NOT_INITIALIZED;
    if (!shape)
        return real(array, shape, levels);
    /* Each level has at most half the bytes of the one before. */
    int64_t bytes = array_bytes(shape);
    if (!reserve(levels > 1 ? times(bytes, 2) : bytes, &record))
        return CUDA_OUT_OF_MEMORY;
    int r = real(array, shape, levels);
    return keep(r, TABLE_ARRAYS, r == CUDA_SUCCESS ? array_key(array) : 0, &record);
}

#define DESTROY(name)                                  \
    struct record record;                              \
    name##_fn *real = REAL(name);                      \
    uint64_t key = (uint64_t)(uintptr_t)array;         \
    if (!real)                                         \
        return CUDA_NOT_INITIALIZED;                   \
    if (!table_take(TABLE_ARRAYS, key, &record))       \
        return real(array);                            \
    int r = real(array);                               \
    if (r == CUDA_SUCCESS)                             \
        device_give_back(record.device, record.bytes); \
    else                                               \
        table_put(TABLE_ARRAYS, key, record);          \
    return r

int cuArrayDestroy(void *array)
{
    DESTROY(cuArrayDestroy);
}

int cuMipmappedArrayDestroy(void *array)
{
    DESTROY(cuMipmappedArrayDestroy);
}

/* ---- contexts: what was allocated in one goes with it ---- */

typedef int primary_retain_fn(void **context, int device);
typedef int primary_state_fn(int device, unsigned *flags, int *active);

static void gone(const struct record *record)
{
    device_give_back(record->device, record->bytes);
}

static void drop(const void *context)
{
    table_drop(TABLE_POINTERS, context, gone);
    table_drop(TABLE_ARRAYS, context, gone);
    blocks_drop(context);
}

int cuCtxDestroy_v2(void *context)
{
    cuCtxDestroy_v2_fn *real = REAL(cuCtxDestroy_v2);
    int r = real ? real(context) : CUDA_NOT_INITIALIZED;

    if (r == CUDA_SUCCESS)
        drop(context);
    return r;
}

/* The device's primary context, NULL where it has none now. */
static void *primary(int device)
{
    primary_retain_fn *retain = (primary_retain_fn *)hook_driver("cuDevicePrimaryCtxRetain");
    primary_state_fn *state = (primary_state_fn *)hook_driver("cuDevicePrimaryCtxGetState");
    cuDevicePrimaryCtxRelease_v2_fn *release = REAL(cuDevicePrimaryCtxRelease_v2);
    void *context = NULL;
    unsigned flags;
    int active = 0;

    if (!retain || !state || !release || state(device, &flags, &active) != CUDA_SUCCESS ||
        !active || retain(&context, device) != CUDA_SUCCESS)
        return NULL;
    (void)release(device);
    return context;
}

int cuDevicePrimaryCtxReset_v2(int device)
{
    cuDevicePrimaryCtxReset_v2_fn *real = REAL(cuDevicePrimaryCtxReset_v2);
    const void *context = settings_replace() ? primary(device) : NULL;
    int r = real ? real(device) : CUDA_NOT_INITIALIZED;

    if (r == CUDA_SUCCESS && context)
        drop(context);
    return r;
}

/* The last one that lets go of it ends it. */
int cuDevicePrimaryCtxRelease_v2(int device)
{
    cuDevicePrimaryCtxRelease_v2_fn *real = REAL(cuDevicePrimaryCtxRelease_v2);
    const void *context = settings_replace() ? primary(device) : NULL;
    int r = real ? real(device) : CUDA_NOT_INITIALIZED;

    if (r == CUDA_SUCCESS && context && !primary(device))
        drop(context);
    return r;
}

/* ---- memory that others get hold of ---- */

/* What moves cannot be opened by another process: its address stays, what is behind it does not. */
int cuIpcGetMemHandle(void *handle, uint64_t pointer)
{
    cuIpcGetMemHandle_fn *real = REAL(cuIpcGetMemHandle);

    if (!real)
        return CUDA_NOT_INITIALIZED;
    if (!settings.move || !blocks_has(pointer))
        return real(handle, pointer);
    (void)dprintf(2,
                  "libmuster-gpu: memory of a pod that is suspended with Muster's copy cannot be "
                  "shared with other processes (cuIpcGetMemHandle); annotate the pod with "
                  "muster.dev/gpu-copy: driver\n");
    return CUDA_NOT_SUPPORTED;
}

int cuMemGetHandleForAddressRange(void *handle,
                                  uint64_t pointer,
                                  size_t bytes,
                                  int type,
                                  uint64_t flags)
{
    cuMemGetHandleForAddressRange_fn *real = REAL(cuMemGetHandleForAddressRange);

    if (!real)
        return CUDA_NOT_INITIALIZED;
    blocks_lend(pointer);
    return real(handle, pointer, bytes, type, flags);
}
