#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* hooks: the functions of the driver (libcuda.so.1) and of NVML that this library stands in for.
 *
 * Programs come to them in three ways, and all three lead here: linked to the driver, they find
 * the names below, which this library exports in front of it; by dlsym(), which it exports too; by
 * cuGetProcAddress(), as the CUDA runtime does. Each function calls the real one, which is whatever
 * the program's own search found, else what the driver itself has.
 *
 * X(exported name, name for cuGetProcAddress, since which version of CUDA that name means this
 * function, for streams of each thread, parameters) */
struct allocation_prop;
struct array_2d;
struct array_3d;
struct nvml_memory;
struct nvml_memory_v2;

/* clang-format off: a table */
#define HOOKS(X)                                                                                  \
    X(cuGetProcAddress, "cuGetProcAddress", 11030, false, (const char *, void **, int, uint64_t)) \
    X(cuGetProcAddress_v2, "cuGetProcAddress", 12000, false,                                      \
      (const char *, void **, int, uint64_t, int *))                                              \
    X(cuMemAlloc_v2, "cuMemAlloc", 3020, false, (uint64_t *, size_t))                             \
    X(cuMemAllocPitch_v2, "cuMemAllocPitch", 3020, false,                                         \
      (uint64_t *, size_t *, size_t, size_t, unsigned))                                           \
    X(cuMemAllocManaged, "cuMemAllocManaged", 6000, false, (uint64_t *, size_t, unsigned))        \
    X(cuMemFree_v2, "cuMemFree", 3020, false, (uint64_t))                                         \
    X(cuMemAllocAsync, "cuMemAllocAsync", 11020, false, (uint64_t *, size_t, void *))             \
    X(cuMemAllocAsync_ptsz, "cuMemAllocAsync", 11020, true, (uint64_t *, size_t, void *))         \
    X(cuMemAllocFromPoolAsync, "cuMemAllocFromPoolAsync", 11020, false,                           \
      (uint64_t *, size_t, void *, void *))                                                       \
    X(cuMemAllocFromPoolAsync_ptsz, "cuMemAllocFromPoolAsync", 11020, true,                       \
      (uint64_t *, size_t, void *, void *))                                                       \
    X(cuMemFreeAsync, "cuMemFreeAsync", 11020, false, (uint64_t, void *))                         \
    X(cuMemFreeAsync_ptsz, "cuMemFreeAsync", 11020, true, (uint64_t, void *))                     \
    X(cuMemCreate, "cuMemCreate", 10020, false,                                                   \
      (uint64_t *, size_t, const struct allocation_prop *, uint64_t))                             \
    X(cuMemRelease, "cuMemRelease", 10020, false, (uint64_t))                                     \
    X(cuMemRetainAllocationHandle, "cuMemRetainAllocationHandle", 11000, false,                   \
      (uint64_t *, void *))                                                                       \
    X(cuMemGetHandleForAddressRange, "cuMemGetHandleForAddressRange", 11070, false,               \
      (void *, uint64_t, size_t, int, uint64_t))                                                  \
    X(cuIpcGetMemHandle, "cuIpcGetMemHandle", 4010, false, (void *, uint64_t))                    \
    X(cuMemMap, "cuMemMap", 10020, false, (uint64_t, size_t, size_t, uint64_t, uint64_t))         \
    X(cuMemUnmap, "cuMemUnmap", 10020, false, (uint64_t, size_t))                                 \
    X(cuArrayCreate_v2, "cuArrayCreate", 3020, false, (void **, const struct array_2d *))         \
    X(cuArray3DCreate_v2, "cuArray3DCreate", 3020, false, (void **, const struct array_3d *))     \
    X(cuArrayDestroy, "cuArrayDestroy", 2000, false, (void *))                                    \
    X(cuMipmappedArrayCreate, "cuMipmappedArrayCreate", 5000, false,                              \
      (void **, const struct array_3d *, unsigned))                                               \
    X(cuMipmappedArrayDestroy, "cuMipmappedArrayDestroy", 5000, false, (void *))                  \
    X(cuCtxDestroy_v2, "cuCtxDestroy", 4000, false, (void *))                                     \
    X(cuDevicePrimaryCtxRelease_v2, "cuDevicePrimaryCtxRelease", 11000, false, (int))             \
    X(cuDevicePrimaryCtxReset_v2, "cuDevicePrimaryCtxReset", 11000, false, (int))                 \
    X(cuMemGetInfo_v2, "cuMemGetInfo", 3020, false, (size_t *, size_t *))                         \
    X(cuDeviceTotalMem_v2, "cuDeviceTotalMem", 3020, false, (size_t *, int))                      \
    X(nvmlDeviceGetMemoryInfo, NULL, 0, false, (void *, struct nvml_memory *))                    \
    X(nvmlDeviceGetMemoryInfo_v2, NULL, 0, false, (void *, struct nvml_memory_v2 *))
/* clang-format on */

#define EXPORT __attribute__((visibility("default")))

#define HOOK_DECLARE(name, base, since, per_thread, parameters) \
    EXPORT int name parameters;                                 \
    typedef int name##_fn parameters;
HOOKS(HOOK_DECLARE)
#undef HOOK_DECLARE

enum hook {
#define HOOK_NUMBER(name, base, since, per_thread, parameters) HOOK_##name,
    HOOKS(HOOK_NUMBER)
#undef HOOK_NUMBER
    HOOK_COUNT,
};

/* What the driver answers. */
#define CUDA_SUCCESS         0
#define CUDA_OUT_OF_MEMORY   2
#define CUDA_NOT_INITIALIZED 3
#define CUDA_NOT_SUPPORTED   801
#define NVML_NOT_FOUND       13 /* NVML_ERROR_FUNCTION_NOT_FOUND */

/* The function itself; NULL: this driver has none. */
void *hook_real(enum hook hook);
#define REAL(name) ((name##_fn *)hook_real(HOOK_##name))

/* Any other function of the driver or of NVML; NULL: there is none. */
void *hook_driver(const char *name);
void *hook_nvml(const char *name);
/* Of whatever the program has loaded. */
void *hook_libc(const char *name);
