#include "blocks.h"

#include "hooks.h"
#include "mover.h"
#include "settings.h"
#include "table.h"

#include <dirent.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define DEVICE_HAS_VIRTUAL 102 /* CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED */
#define CAPTURE_FIRST      900 /* errors of calls that a capture does not allow */
#define CAPTURE_LAST       909

/* CUmemAllocationProp and CUmemAccessDesc: their layout is the driver's ABI. */
struct prop {
    int type;
    int handle_types;
    int location_type;
    int location;
    void *security;
    unsigned char flags[8];
};

struct access {
    int location_type;
    int location;
    int flags;
};

pthread_mutex_t blocks_mutex = PTHREAD_MUTEX_INITIALIZER;
struct block *blocks_first;

enum ability {
    ABILITY_UNKNOWN,
    ABILITY_NONE,
    ABILITY_FULL,
};

static struct blocks_driver calls;
static _Atomic int calls_state, ability;
static pthread_mutex_t calls_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct block *blocks_late; /* freed while a graph was captured */

/* ---- the driver ---- */

static const struct {
    const char *name;
    size_t at;
} wanted[] = {
    {"cuMemAddressReserve", offsetof(struct blocks_driver, reserve)},
    {"cuMemAddressFree", offsetof(struct blocks_driver, free_address)},
    {"cuMemCreate", offsetof(struct blocks_driver, create)},
    {"cuMemRelease", offsetof(struct blocks_driver, release)},
    {"cuMemMap", offsetof(struct blocks_driver, map)},
    {"cuMemUnmap", offsetof(struct blocks_driver, unmap)},
    {"cuMemSetAccess", offsetof(struct blocks_driver, set_access)},
    {"cuMemGetAllocationGranularity", offsetof(struct blocks_driver, granularity)},
    {"cuCtxGetDevice", offsetof(struct blocks_driver, ctx_get_device)},
    {"cuCtxGetCurrent", offsetof(struct blocks_driver, ctx_get_current)},
    {"cuCtxSetCurrent", offsetof(struct blocks_driver, ctx_set_current)},
    {"cuCtxSynchronize", offsetof(struct blocks_driver, ctx_synchronize)},
    {"cuDeviceGetCount", offsetof(struct blocks_driver, device_count)},
    {"cuDeviceGetAttribute", offsetof(struct blocks_driver, device_attribute)},
    {"cuStreamCreate", offsetof(struct blocks_driver, stream_create)},
    {"cuStreamDestroy_v2", offsetof(struct blocks_driver, stream_destroy)},
    {"cuStreamSynchronize", offsetof(struct blocks_driver, stream_synchronize)},
    {"cuMemcpyDtoHAsync_v2", offsetof(struct blocks_driver, to_host)},
    {"cuMemcpyHtoDAsync_v2", offsetof(struct blocks_driver, to_card)},
    {"cuMemHostAlloc", offsetof(struct blocks_driver, host_alloc)},
    {"cuMemFreeHost", offsetof(struct blocks_driver, host_free)},
    {"cuThreadExchangeStreamCaptureMode", offsetof(struct blocks_driver, capture_mode)},
};

const struct blocks_driver *blocks_driver(void)
{
    int state = atomic_load_explicit(&calls_state, memory_order_acquire);

    if (state == ABILITY_UNKNOWN) {
        pthread_mutex_lock(&calls_mutex);
        state = ABILITY_FULL;
        for (size_t i = 0; i < sizeof(wanted) / sizeof(*wanted); i++) {
            void *found = hook_driver(wanted[i].name);

            memcpy((char *)&calls + wanted[i].at, &found, sizeof(found));
            state = found ? state : ABILITY_NONE;
        }
        atomic_store_explicit(&calls_state, state, memory_order_release);
        pthread_mutex_unlock(&calls_mutex);
    }
    return state == ABILITY_FULL ? &calls : NULL;
}

/* Memory that a network card writes to must not move: where programs can reach one it stays the
 * driver's, which refuses it. */
static bool has_remote_access(void)
{
    DIR *folder = opendir("/dev/infiniband");
    bool found = false;

    for (struct dirent *entry; folder && !found && (entry = readdir(folder));)
        found = strncmp(entry->d_name, "uverbs", 6) == 0;
    if (folder)
        (void)closedir(folder);
    return found;
}

static bool is_able(const struct blocks_driver *driver, int device)
{
    int known = atomic_load_explicit(&ability, memory_order_relaxed);
    int count = 0, has_virtual = 0;

    if (known == ABILITY_UNKNOWN) {
        known = driver->device_count(&count) == CUDA_SUCCESS && count == 1 &&
                        driver->device_attribute(&has_virtual, DEVICE_HAS_VIRTUAL, device) ==
                            CUDA_SUCCESS &&
                        has_virtual && !has_remote_access()
                    ? ABILITY_FULL
                    : ABILITY_NONE;
        atomic_store(&ability, known);
    }
    return known == ABILITY_FULL;
}

/* ---- one of them ---- */

static struct prop prop_of(int device)
{
    return (struct prop){
        .type = 1 /* pinned */, .location_type = 1 /* a device */, .location = device};
}

int blocks_map(struct block *block)
{
    const struct blocks_driver *driver = blocks_driver();
    struct prop prop = prop_of(block->device);
    struct access access = {.location_type = 1, .location = block->device, .flags = 3 /* both */};
    uint64_t handle = 0;

    if (!driver)
        return CUDA_NOT_INITIALIZED;
    int r = driver->create(&handle, block->bytes, &prop, 0);
    if (r != CUDA_SUCCESS)
        return r;
    r = driver->map(block->at, block->bytes, 0, handle, 0);
    if (r == CUDA_SUCCESS) {
        r = driver->set_access(block->at, block->bytes, &access, 1);
        if (r != CUDA_SUCCESS)
            (void)driver->unmap(block->at, block->bytes);
    }
    (void)driver->release(handle); /* the mapping keeps it */
    block->gone = r != CUDA_SUCCESS;
    return r;
}

int blocks_unmap(struct block *block)
{
    const struct blocks_driver *driver = blocks_driver();
    int r = driver ? driver->unmap(block->at, block->bytes) : CUDA_NOT_INITIALIZED;

    block->gone = r == CUDA_SUCCESS;
    return r;
}

static int block_end(struct block *block)
{
    const struct blocks_driver *driver = blocks_driver();
    int r = block->gone ? CUDA_SUCCESS : blocks_unmap(block);

    if (r == CUDA_SUCCESS)
        (void)driver->free_address(block->at, block->bytes);
    free(block);
    return r;
}

static void block_add(struct block *block)
{
    pthread_mutex_lock(&blocks_mutex);
    block->next = blocks_first;
    blocks_first = block;
    table_put(TABLE_BLOCKS, block->at, (struct record){.owner = block});
    mover_count((int64_t)block->bytes);
    pthread_mutex_unlock(&blocks_mutex);
}

static void block_unlink(struct block **list, const struct block *block)
{
    while (*list && *list != block)
        list = &(*list)->next;
    if (*list)
        *list = block->next;
}

/* ---- what programs ask for ---- */

/* Those that could not be waited for when they were freed. */
static void free_late(void)
{
    struct block *late = NULL;

    if (!blocks_late)
        return;
    pthread_mutex_lock(&blocks_mutex);
    if (blocks_driver()->ctx_synchronize() == CUDA_SUCCESS) {
        late = blocks_late;
        blocks_late = NULL;
    }
    pthread_mutex_unlock(&blocks_mutex);
    while (late) {
        struct block *next = late->next;

        (void)block_end(late);
        late = next;
    }
}

bool blocks_alloc(uint64_t *pointer, size_t bytes)
{
    const struct blocks_driver *driver =
        settings.move && bytes >= BLOCK_MIN && pointer ? blocks_driver() : NULL;
    struct prop prop;
    size_t unit = 0;
    int device = -1;
    void *context = NULL;

    if (!driver || driver->ctx_get_device(&device) != CUDA_SUCCESS ||
        driver->ctx_get_current(&context) != CUDA_SUCCESS || !is_able(driver, device) ||
        !mover_start())
        return false;
    free_late();
    prop = prop_of(device);
    if (driver->granularity(&unit, &prop, 0) != CUDA_SUCCESS || !unit || bytes > SIZE_MAX - unit)
        return false;
    struct block *block = calloc(1, sizeof(*block));
    if (!block)
        return false;
    *block = (struct block){.bytes = (bytes + unit - 1) / unit * unit,
                            .context = context,
                            .device = device,
                            .gone = true};
    if (driver->reserve(&block->at, block->bytes, 0, 0, 0) != CUDA_SUCCESS) {
        free(block);
        return false;
    }
    if (blocks_map(block) != CUDA_SUCCESS) {
        (void)driver->free_address(block->at, block->bytes);
        free(block);
        return false;
    }
    *pointer = block->at;
    block_add(block);
    return true;
}

/* As cuMemFree() does, work under way is waited for: the calls below do not. */
bool blocks_free(uint64_t pointer, int *result)
{
    struct record record;

    if (!settings.move || !pointer)
        return false;
    pthread_mutex_lock(&blocks_mutex);
    bool ours = table_take(TABLE_BLOCKS, pointer, &record);
    struct block *block = ours ? record.owner : NULL;
    if (ours) {
        block_unlink(&blocks_first, block);
        mover_count(-(int64_t)block->bytes);
    }
    pthread_mutex_unlock(&blocks_mutex);
    if (!ours)
        return false;
    *result = blocks_driver()->ctx_synchronize();
    if (*result >= CAPTURE_FIRST && *result <= CAPTURE_LAST) {
        pthread_mutex_lock(&blocks_mutex);
        block->next = blocks_late;
        blocks_late = block;
        pthread_mutex_unlock(&blocks_mutex);
        *result = CUDA_SUCCESS;
        return true;
    }
    int r = block_end(block); /* also where the context is lost: then it says so */
    *result = *result == CUDA_SUCCESS ? r : *result;
    return true;
}

void blocks_drop(const void *context)
{
    struct block *dropped = NULL;
    struct record record;

    if (!settings.move)
        return;
    pthread_mutex_lock(&blocks_mutex);
    for (struct block **at = &blocks_first; *at;) {
        struct block *block = *at;

        if (block->context != context) {
            at = &block->next;
            continue;
        }
        *at = block->next;
        (void)table_take(TABLE_BLOCKS, block->at, &record);
        mover_count(-(int64_t)block->bytes);
        block->next = dropped;
        dropped = block;
    }
    pthread_mutex_unlock(&blocks_mutex);
    while (dropped) {
        struct block *next = dropped->next;

        (void)block_end(dropped);
        dropped = next;
    }
}

static struct block *block_around(uint64_t pointer)
{
    struct block *block = blocks_first;

    while (block && (pointer < block->at || pointer - block->at >= block->bytes))
        block = block->next;
    return block;
}

void blocks_lend(uint64_t pointer)
{
    if (!settings.move)
        return;
    pthread_mutex_lock(&blocks_mutex);
    struct block *block = block_around(pointer);
    if (block)
        block->lent = true;
    pthread_mutex_unlock(&blocks_mutex);
}

bool blocks_has(uint64_t pointer)
{
    pthread_mutex_lock(&blocks_mutex);
    bool found = block_around(pointer) != NULL;
    pthread_mutex_unlock(&blocks_mutex);
    return found;
}

void blocks_forget(void)
{
    static const pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;

    blocks_mutex = fresh;
    calls_mutex = fresh;
    blocks_first = blocks_late = NULL;
}
