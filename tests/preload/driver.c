#include "driver.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define ALLOCATIONS_MAX  65536
#define POINTER_FIRST    UINT64_C(0x7f0000000000)
#define POINTER_STEP     UINT64_C(0x1000000)
#define RESERVATIONS_MAX 256

/* Declared for the compiler's sake; the library knows them by name. */
#define FUNCTIONS(X)                                                         \
    X(cuCtxGetDevice, (int *))                                               \
    X(cuCtxGetCurrent, (void **))                                            \
    X(cuDeviceGetUuid_v2, (unsigned char *, int))                            \
    X(cuDevicePrimaryCtxRetain, (void **, int))                              \
    X(cuDevicePrimaryCtxGetState, (int, unsigned *, int *))                  \
    X(cuDevicePrimaryCtxRelease_v2, (int))                                   \
    X(cuDevicePrimaryCtxReset_v2, (int))                                     \
    X(cuCtxDestroy_v2, (void *))                                             \
    X(cuMemAlloc_v2, (uint64_t *, size_t))                                   \
    X(cuMemAllocPitch_v2, (uint64_t *, size_t *, size_t, size_t, unsigned))  \
    X(cuMemAllocManaged, (uint64_t *, size_t, unsigned))                     \
    X(cuMemFree_v2, (uint64_t))                                              \
    X(cuMemAllocAsync, (uint64_t *, size_t, void *))                         \
    X(cuMemAllocAsync_ptsz, (uint64_t *, size_t, void *))                    \
    X(cuMemAllocFromPoolAsync, (uint64_t *, size_t, void *, void *))         \
    X(cuMemFreeAsync, (uint64_t, void *))                                    \
    X(cuMemFreeAsync_ptsz, (uint64_t, void *))                               \
    X(cuMemCreate, (uint64_t *, size_t, const int *, uint64_t))              \
    X(cuMemRelease, (uint64_t))                                              \
    X(cuMemRetainAllocationHandle, (uint64_t *, void *))                     \
    X(cuMemMap, (uint64_t, size_t, size_t, uint64_t, uint64_t))              \
    X(cuMemUnmap, (uint64_t, size_t))                                        \
    X(cuArrayCreate_v2, (void **, const size_t *))                           \
    X(cuArrayDestroy, (void *))                                              \
    X(cuMemGetInfo_v2, (size_t *, size_t *))                                 \
    X(cuDeviceTotalMem_v2, (size_t *, int))                                  \
    X(cuGetProcAddress, (const char *, void **, int, uint64_t))              \
    X(cuGetProcAddress_v2, (const char *, void **, int, uint64_t, int *))    \
    X(cuInit, (unsigned))                                                    \
    X(cuDeviceGetCount, (int *))                                             \
    X(cuDeviceGetAttribute, (int *, int, int))                               \
    X(cuCtxSetCurrent, (void *))                                             \
    X(cuCtxSynchronize, (void))                                              \
    X(cuThreadExchangeStreamCaptureMode, (int *))                            \
    X(cuStreamCreate, (void **, unsigned))                                   \
    X(cuStreamDestroy_v2, (void *))                                          \
    X(cuStreamSynchronize, (void *))                                         \
    X(cuMemAddressReserve, (uint64_t *, size_t, size_t, uint64_t, uint64_t)) \
    X(cuMemAddressFree, (uint64_t, size_t))                                  \
    X(cuMemSetAccess, (uint64_t, size_t, const void *, size_t))              \
    X(cuMemGetAllocationGranularity, (size_t *, const void *, int))          \
    X(cuMemcpyDtoHAsync_v2, (void *, uint64_t, size_t, void *))              \
    X(cuMemcpyHtoDAsync_v2, (uint64_t, const void *, size_t, void *))        \
    X(cuMemcpyDtoH_v2, (void *, uint64_t, size_t))                           \
    X(cuMemsetD32_v2, (uint64_t, unsigned, size_t))                          \
    X(cuMemHostAlloc, (void **, size_t, unsigned))                           \
    X(cuMemFreeHost, (void *))                                               \
    X(cuIpcGetMemHandle, (void *, uint64_t))                                 \
    X(cuLaunchKernel, (void *, ...))                                         \
    X(nvmlDeviceGetUUID, (void *, char *, unsigned))                         \
    X(nvmlDeviceGetMemoryInfo, (void *, uint64_t *))                         \
    X(nvmlDeviceGetMemoryInfo_v2, (void *, uint64_t *))
#define DECLARE(name, parameters) EXPORT int name parameters;
FUNCTIONS(DECLARE)
#undef DECLARE

struct allocation {
    int64_t bytes; /* 0: free */
    int device;
    uint64_t next_free;
};

static _Atomic int fail_next;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct allocation allocations[ALLOCATIONS_MAX];
static uint64_t free_first, ever_used;
static _Atomic int current_device;
static int primary_users[FAKE_DEVICES];

struct fake_shared *fake_shared(void)
{
    static struct fake_shared own, *found;
    const char *path = getenv("FAKE_DRIVER");

    if (found)
        return found;
    int fd = path ? open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666) : -1;
    void *memory = MAP_FAILED;
    if (fd >= 0 && ftruncate(fd, sizeof(own)) == 0)
        memory = mmap(NULL, sizeof(own), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd >= 0)
        close(fd);
    found = memory == MAP_FAILED ? &own : memory;
    return found;
}

void fake_fail(int result)
{
    atomic_store(&fail_next, result);
}

void fake_set_device(int device)
{
    atomic_store(&current_device, device);
}

/* ---- allocations ---- */

static int take(uint64_t *ret, size_t bytes, int device)
{
    struct fake_shared *shared = fake_shared();
    int failure = atomic_exchange(&fail_next, 0);

    if (failure)
        return failure;
    int64_t used = atomic_fetch_add(&shared->used[device], (int64_t)bytes) + (int64_t)bytes;
    int64_t peak = atomic_load(&shared->peak[device]);
    while (used > peak && !atomic_compare_exchange_weak(&shared->peak[device], &peak, used))
        ;
    pthread_mutex_lock(&mutex);
    uint64_t index = free_first ? free_first - 1 : ever_used++;
    if (free_first)
        free_first = allocations[index].next_free;
    allocations[index] = (struct allocation){.bytes = (int64_t)bytes, .device = device};
    pthread_mutex_unlock(&mutex);
    *ret = POINTER_FIRST + index * POINTER_STEP;
    return 0;
}

static int give(uint64_t pointer)
{
    uint64_t index = (pointer - POINTER_FIRST) / POINTER_STEP;

    if (pointer < POINTER_FIRST || index >= ever_used || !allocations[index].bytes)
        return 1;
    atomic_fetch_sub(&fake_shared()->used[allocations[index].device], allocations[index].bytes);
    pthread_mutex_lock(&mutex);
    allocations[index].bytes = 0;
    allocations[index].next_free = free_first;
    free_first = index + 1;
    pthread_mutex_unlock(&mutex);
    return 0;
}

int cuMemAlloc_v2(uint64_t *pointer, size_t bytes)
{
    return take(pointer, bytes, current_device);
}

int cuMemAllocPitch_v2(uint64_t *pointer,
                       size_t *pitch,
                       size_t width,
                       size_t height,
                       unsigned element)
{
    (void)element;
    *pitch = (width + FAKE_PITCH - 1) / FAKE_PITCH * FAKE_PITCH;
    return take(pointer, *pitch * height, current_device);
}

int cuMemAllocManaged(uint64_t *pointer, size_t bytes, unsigned flags)
{
    (void)flags;
    return take(pointer, bytes, current_device);
}

int cuMemAllocAsync(uint64_t *pointer, size_t bytes, void *stream)
{
    (void)stream;
    return take(pointer, bytes, current_device);
}

int cuMemAllocAsync_ptsz(uint64_t *pointer, size_t bytes, void *stream)
{
    return cuMemAllocAsync(pointer, bytes, stream);
}

int cuMemAllocFromPoolAsync(uint64_t *pointer, size_t bytes, void *pool, void *stream)
{
    (void)pool;
    return cuMemAllocAsync(pointer, bytes, stream);
}

int cuMemFree_v2(uint64_t pointer)
{
    return give(pointer);
}

int cuMemFreeAsync(uint64_t pointer, void *stream)
{
    (void)stream;
    return give(pointer);
}

int cuMemFreeAsync_ptsz(uint64_t pointer, void *stream)
{
    return cuMemFreeAsync(pointer, stream);
}

/* prop: type, handle types, location type, location id */
static int ordered(const char *name);

int cuMemCreate(uint64_t *handle, size_t bytes, const int *prop, uint64_t flags)
{
    (void)flags;
    if (ordered("no-room"))
        return 999;
    return take(handle, bytes, prop[2] == 1 ? prop[3] : 0);
}

int cuMemRelease(uint64_t handle)
{
    return handle < POINTER_FIRST;
}

int cuMemRetainAllocationHandle(uint64_t *handle, void *address)
{
    *handle = (uint64_t)(uintptr_t)address;
    return 0;
}

/* ---- addresses: those that were reserved have memory behind them while they are mapped ---- */

static struct reservation {
    uint64_t at;
    size_t bytes;
    uint64_t handle; /* 0: nothing is behind it */
} reservations[RESERVATIONS_MAX];

static struct reservation *reservation_of(uint64_t at)
{
    for (size_t i = 0; at && i < RESERVATIONS_MAX; i++)
        if (reservations[i].at == at)
            return &reservations[i];
    return NULL;
}

int cuMemAddressReserve(uint64_t *at, size_t bytes, size_t align, uint64_t fixed, uint64_t flags)
{
    void *memory = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    (void)align;
    (void)fixed;
    (void)flags;
    if (memory == MAP_FAILED)
        return 2;
    pthread_mutex_lock(&mutex);
    struct reservation *free_one = reservations;
    while (free_one->at)
        free_one++;
    *free_one = (struct reservation){.at = (uint64_t)(uintptr_t)memory, .bytes = bytes};
    pthread_mutex_unlock(&mutex);
    *at = (uint64_t)(uintptr_t)memory;
    return 0;
}

int cuMemAddressFree(uint64_t at, size_t bytes)
{
    struct reservation *reservation = reservation_of(at);

    if (!reservation || reservation->handle || reservation->bytes != bytes)
        return 1;
    *reservation = (struct reservation){0};
    return munmap((void *)(uintptr_t)at, bytes) ? 1 : 0;
}

static int reservation_change(struct reservation *reservation, uint64_t handle)
{
    void *memory = mmap((void *)(uintptr_t)reservation->at, reservation->bytes,
                        handle ? PROT_READ | PROT_WRITE : PROT_NONE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);

    reservation->handle = handle;
    return memory == MAP_FAILED;
}

int cuMemMap(uint64_t pointer, size_t bytes, size_t offset, uint64_t handle, uint64_t flags)
{
    struct reservation *reservation = reservation_of(pointer);

    (void)offset;
    (void)flags;
    if (reservation && (reservation->handle || reservation->bytes != bytes))
        return 1;
    if (reservation)
        return reservation_change(reservation, handle);
    return handle < POINTER_FIRST;
}

int cuMemUnmap(uint64_t pointer, size_t bytes)
{
    struct reservation *reservation = reservation_of(pointer);

    if (!reservation)
        return 0;
    if (!reservation->handle || reservation->bytes != bytes)
        return 1;
    (void)give(reservation->handle);
    return reservation_change(reservation, 0);
}

int cuMemSetAccess(uint64_t pointer, size_t bytes, const void *access, size_t count)
{
    (void)bytes;
    (void)access;
    return count != 1 || !reservation_of(pointer);
}

int cuMemGetAllocationGranularity(size_t *ret, const void *prop, int option)
{
    (void)prop;
    (void)option;
    *ret = 2 << 20;
    return 0;
}

/* ---- work ---- */

/* A file in the folder FAKE_ORDERS says how things go: `busy`, `no-copy`, `no-room`, `slow`. */
static int ordered(const char *name)
{
    const char *folder = getenv("FAKE_ORDERS");
    char path[4096];

    if (!folder)
        return 0;
    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    return access(path, F_OK) == 0;
}

static void wait_while(const char *name)
{
    char path[4096];

    if (!ordered(name))
        return;
    (void)snprintf(path, sizeof(path), "%s/at-%s", getenv("FAKE_ORDERS"), name);
    int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0666);
    if (fd >= 0)
        close(fd);
    while (ordered(name))
        (void)poll(NULL, 0, 2);
}

int cuInit(unsigned flags)
{
    return (int)flags;
}

int cuDeviceGetCount(int *ret)
{
    const char *seen = getenv("FAKE_DEVICES_SEEN");

    *ret = seen ? seen[0] - '0' : FAKE_DEVICES;
    return 0;
}

int cuDeviceGetAttribute(int *ret, int attribute, int device)
{
    (void)attribute;
    *ret = 1;
    return device >= FAKE_DEVICES;
}

int cuCtxSetCurrent(void *context)
{
    (void)context;
    return 0;
}

int cuCtxSynchronize(void)
{
    wait_while("busy");
    return 0;
}

int cuThreadExchangeStreamCaptureMode(int *mode)
{
    *mode = 0;
    return 0;
}

int cuStreamCreate(void **ret, unsigned flags)
{
    (void)flags;
    *ret = (void *)1;
    return 0;
}

int cuStreamDestroy_v2(void *stream)
{
    return stream != (void *)1;
}

int cuStreamSynchronize(void *stream)
{
    (void)stream;
    return 0;
}

int cuMemcpyDtoHAsync_v2(void *host, uint64_t at, size_t bytes, void *stream)
{
    (void)stream;
    wait_while("slow");
    if (ordered("no-copy"))
        return 719;
    memcpy(host, (const void *)(uintptr_t)at, bytes);
    return 0;
}

int cuMemcpyHtoDAsync_v2(uint64_t at, const void *host, size_t bytes, void *stream)
{
    (void)stream;
    if (ordered("no-copy"))
        return 719;
    memcpy((void *)(uintptr_t)at, host, bytes);
    return 0;
}

int cuMemcpyDtoH_v2(void *host, uint64_t at, size_t bytes)
{
    memcpy(host, (const void *)(uintptr_t)at, bytes);
    return 0;
}

int cuMemsetD32_v2(uint64_t at, unsigned value, size_t count)
{
    for (size_t i = 0; i < count; i++)
        ((unsigned *)(uintptr_t)at)[i] = value;
    return 0;
}

int cuMemHostAlloc(void **ret, size_t bytes, unsigned flags)
{
    (void)flags;
    *ret = malloc(bytes);
    return *ret ? 0 : 2;
}

int cuMemFreeHost(void *host)
{
    free(host);
    return 0;
}

int cuIpcGetMemHandle(void *handle, uint64_t pointer)
{
    (void)handle;
    return pointer < POINTER_FIRST;
}

/* All it was called with, ten digits of it, so that a test can see that all of it arrives. */
int cuLaunchKernel(void *function, ...)
{
    uint64_t *ret = (uint64_t *)function, digit = 1;
    va_list list;

    *ret = 0;
    va_start(list, function);
    for (int i = 0; i < 10; i++, digit *= 10)
        *ret +=
            digit * (i < 7 ? va_arg(list, unsigned) : (uint64_t)(uintptr_t)va_arg(list, void *));
    va_end(list);
    return 77;
}

/* width, height */
int cuArrayCreate_v2(void **array, const size_t *shape)
{
    uint64_t pointer = 0;
    int r = take(&pointer, shape[0] * shape[1], current_device);

    *array = (void *)(uintptr_t)pointer;
    return r;
}

int cuArrayDestroy(void *array)
{
    return give((uint64_t)(uintptr_t)array);
}

/* ---- devices and contexts ---- */

int cuCtxGetDevice(int *device)
{
    *device = current_device;
    return 0;
}

int cuCtxGetCurrent(void **context)
{
    *context = &primary_users[current_device];
    return 0;
}

int cuDeviceGetUuid_v2(unsigned char *uuid, int device)
{
    memset(uuid, 0x10 + device, 16);
    return device < FAKE_DEVICES ? 0 : 101;
}

int cuDevicePrimaryCtxRetain(void **context, int device)
{
    primary_users[device]++;
    *context = &primary_users[device];
    return 0;
}

int cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active)
{
    *flags = 0;
    *active = primary_users[device] > 0;
    return 0;
}

static void drop_all(int device)
{
    for (uint64_t i = 0; i < ever_used; i++)
        if (allocations[i].bytes && allocations[i].device == device)
            (void)give(POINTER_FIRST + i * POINTER_STEP);
}

int cuDevicePrimaryCtxRelease_v2(int device)
{
    if (--primary_users[device] == 0)
        drop_all(device);
    return 0;
}

int cuDevicePrimaryCtxReset_v2(int device)
{
    primary_users[device] = 0;
    drop_all(device);
    return 0;
}

int cuCtxDestroy_v2(void *context)
{
    drop_all((int)((int *)context - primary_users));
    return 0;
}

int cuMemGetInfo_v2(size_t *free_bytes, size_t *total)
{
    *total = FAKE_TOTAL_BYTES;
    *free_bytes = (size_t)(FAKE_TOTAL_BYTES - fake_shared()->used[current_device]);
    return 0;
}

int cuDeviceTotalMem_v2(size_t *bytes, int device)
{
    (void)device;
    *bytes = FAKE_TOTAL_BYTES;
    return 0;
}

/* ---- ways to them ---- */

static void *by_name(const char *name)
{
    static const struct {
        const char *name;
        void *address;
    } all[] = {
#define ROW(function, parameters) {#function, (void *)function},
        FUNCTIONS(ROW)
#undef ROW
    };

    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
        if (strcmp(all[i].name, name) == 0)
            return all[i].address;
    return NULL;
}

static int address_of(const char *symbol, void **address, int version, uint64_t flags)
{
    static const char *const endings[] = {"_ptsz", "_v2", ""};
    char name[64];

    *address = NULL;
    for (size_t i = flags & 2 ? 0 : 1; !*address && i < 3; i++) {
        (void)snprintf(name, sizeof(name), "%s%s", symbol, endings[i]);
        if (version >= 12000 || strcmp(name, "cuGetProcAddress_v2") != 0)
            *address = by_name(name);
    }
    return *address ? 0 : 500;
}

int cuGetProcAddress(const char *symbol, void **address, int version, uint64_t flags)
{
    return address_of(symbol, address, version, flags);
}

int cuGetProcAddress_v2(const char *symbol,
                        void **address,
                        int version,
                        uint64_t flags,
                        int *status)
{
    int r = address_of(symbol, address, version, flags);

    if (status)
        *status = r ? 1 : 0;
    return r;
}

/* ---- NVML: a handle is the number of the device plus one ---- */

static int number_of(void *handle)
{
    return (int)(uintptr_t)handle - 1;
}

int nvmlDeviceGetUUID(void *handle, char *uuid, unsigned length)
{
    unsigned d = 0x10 + (unsigned)number_of(handle);

    (void)snprintf(uuid, length,
                   "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", d, d,
                   d, d, d, d, d, d, d, d, d, d, d, d, d, d);
    return 0;
}

/* total, free, used */
int nvmlDeviceGetMemoryInfo(void *handle, uint64_t *memory)
{
    uint64_t used = (uint64_t)fake_shared()->used[number_of(handle)];

    memory[0] = FAKE_TOTAL_BYTES;
    memory[1] = FAKE_TOTAL_BYTES - used;
    memory[2] = used;
    return 0;
}

/* version, total, reserved, free, used */
int nvmlDeviceGetMemoryInfo_v2(void *handle, uint64_t *memory)
{
    uint64_t used = (uint64_t)fake_shared()->used[number_of(handle)];

    memory[1] = FAKE_TOTAL_BYTES;
    memory[2] = 1 << 20;
    memory[3] = FAKE_TOTAL_BYTES - used - (1 << 20);
    memory[4] = used;
    return 0;
}
