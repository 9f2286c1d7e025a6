#include "agent/checkpoint.h"

#include "agent/gpu.h"
#include "api/gpu_page.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "mover/driver.h"
#include "mover/gpu_copy.h"

#include <assert.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#define CUDA_PROCESSES_MAX 64                          /* of one pod: one a GPU is usual */
#define HOST_SPARE_MIB     (512 + GPU_PAGE_PINNED_MIB) /* that a machine keeps, and a copy needs */
#define IPC_DRIVER         610 /* the first that can checkpoint memory that processes share */

/* ---- the driver, as far as it is needed; its ABI is stable ---- */

enum cuda_state {
    CUDA_RUNNING,
    CUDA_LOCKED,
    CUDA_CHECKPOINTED,
    CUDA_FAILED,
};
#define CUDA_NOT_READY 600

struct cuda_lock {
    unsigned timeout_ms;
    unsigned reserved;
    uint64_t more[7];
};

struct cuda_plain {
    uint64_t reserved[16];
};

struct cuda {
    void *library;
    int (*init)(unsigned);
    int (*state)(int, int *);
    int (*lock)(int, struct cuda_lock *);
    int (*checkpoint)(int, struct cuda_plain *);
    int (*restore)(int, struct cuda_plain *);
    int (*unlock)(int, struct cuda_plain *);
};

static bool cuda_load(const struct cuda *cuda, const char *symbol, void *ret)
{
    void *address = dlsym(cuda->library, symbol);
    memcpy(ret, &address, sizeof(address));
    return address != NULL;
}

static int cuda_open(struct cuda *cuda, struct err *err)
{
    const char *path = getenv(CHECKPOINT_LIBRARY);
    *cuda = (struct cuda){.library = dlopen(path ? path : "libcuda.so.1", RTLD_NOW | RTLD_LOCAL)};
    if (!cuda->library)
        return err_set(err, -ENOENT, "libcuda.so.1 cannot be loaded: install NVIDIA's driver");
    if (!cuda_load(cuda, "cuInit", &cuda->init) ||
        !cuda_load(cuda, "cuCheckpointProcessGetState", &cuda->state) ||
        !cuda_load(cuda, "cuCheckpointProcessLock", &cuda->lock) ||
        !cuda_load(cuda, "cuCheckpointProcessCheckpoint", &cuda->checkpoint) ||
        !cuda_load(cuda, "cuCheckpointProcessRestore", &cuda->restore) ||
        !cuda_load(cuda, "cuCheckpointProcessUnlock", &cuda->unlock))
        return err_set(err, -ENOTSUP,
                       "NVIDIA's driver cannot move processes off GPUs; 570 or newer can");
    int code = cuda->init(0);
    return code ? err_set(err, -EIO, "CUDA does not start (error %d): see nvidia-smi", code) : 0;
}

/* ---- which processes use GPUs ---- */

/* A process forked off one that uses the GPU has its library mapped too, and never answers. Where
 * threads tell them apart those without are left alone. */
static size_t cuda_processes(const struct checkpoint_order *order, pid_t *ret)
{
    size_t count = 0, sure = 0;
    for (size_t i = 0; i < order->pid_count; i++)
        if (driver_mapped(order->pids[i]) > 0)
            ret[count++] = order->pids[i];
    for (size_t i = 0; i < count; i++)
        if (driver_has_thread(ret[i]))
            ret[sure++] = ret[i];
    return sure ? sure : count;
}

/* ---- what can be seen beforehand ---- */

static int64_t cards_used(const struct checkpoint_order *order)
{
    int64_t sum = 0;
    for (size_t i = 0; i < order->card_count; i++) {
        int64_t mib = gpu_used_mib(order->cards[i]);
        sum += mib > 0 ? mib : 0;
    }
    return sum;
}

static int64_t host_free_mib(void)
{
    char line[256];
    long long kib = -1;
    FILE *file = fopen("/proc/meminfo", "re");
    while (file && kib < 0 && fgets(line, sizeof(line), file))
        if (sscanf(line, "MemAvailable: %lld", &kib) != 1)
            kib = -1;
    if (file)
        (void)fclose(file);
    return kib < 0 ? INT64_MAX : kib / 1024;
}

static int64_t driver_major(void)
{
    struct gpus gpus;
    gpu_look(&gpus);
    return gpu_driver(&gpus);
}

static int out_refuse(size_t processes, int64_t used_mib, struct err *err)
{
    if (processes > CUDA_PROCESSES_MAX) /* on the way back all are looked at, however many */
        return err_set(err, -E2BIG, "%zu processes use GPUs, and at most %d can be moved",
                       processes, CUDA_PROCESSES_MAX);
    int64_t free_mib = host_free_mib();
    int64_t driver = processes > 1 ? driver_major() : 0;
    if (driver && driver < IPC_DRIVER)
        return err_set(err, -ENOTSUP,
                       "%zu processes use GPUs together: driver %lld cannot move them, %d and "
                       "newer can",
                       processes, (long long)driver, IPC_DRIVER);
    if (processes && used_mib + HOST_SPARE_MIB > free_mib)
        return err_set(err, -ENOMEM,
                       "%lld MiB on GPUs do not fit into host memory, of which %lld MiB are free",
                       (long long)used_mib, (long long)free_mib);
    return 0;
}

/* ---- out and in ---- */

static int cuda_fail(struct err *err, pid_t pid, const char *what, int code)
{
    if (code == CUDA_NOT_READY)
        return err_set(err, -ETIME,
                       "process %d did not finish its work on the GPU within %d s: it may wait "
                       "for another one",
                       pid, CHECKPOINT_LOCK_MS / 1000);
    return err_set(err, -EIO, "process %d cannot be %s: CUDA error %d", pid, what, code);
}

/* One that was checkpointed is restored, one that is locked unlocked; one that does not know of
 * CUDA has nothing to be given back. */
static int process_unlock(const struct cuda *cuda, pid_t pid, struct err *err)
{
    struct cuda_plain none = {0};
    int state = CUDA_RUNNING;
    int code = cuda->state(pid, &state);
    if (code)
        return 0;
    if (state == CUDA_CHECKPOINTED) {
        code = cuda->restore(pid, &none);
        if (code)
            return cuda_fail(err, pid, "restored", code);
        state = CUDA_LOCKED;
    }
    if (state == CUDA_LOCKED) {
        code = cuda->unlock(pid, &none);
        if (code)
            return cuda_fail(err, pid, "unlocked", code);
        state = CUDA_RUNNING;
    }
    return state == CUDA_RUNNING ? 0 : cuda_fail(err, pid, "restored", state);
}

/* What our library moved can be put back only when the process may call the driver again. */
static int process_in(const struct cuda *cuda, pid_t pid, struct gpu_page *page, struct err *err)
{
    int r = process_unlock(cuda, pid, err);

    return r == 0 && page ? gpu_copy_in(page, pid, err) : r;
}

/* One that the driver has already has nothing left for our library. What it cannot move the driver
 * does, so that is no failure. */
static void process_copy(const struct cuda *cuda,
                         pid_t pid,
                         struct gpu_page *page,
                         struct checkpoint_report *ret)
{
    struct err err = {0};
    int state = CUDA_RUNNING;
    int64_t mib = 0;
    int code = cuda->state(pid, &state);

    if (!page || code || (state != CUDA_RUNNING && !gpu_copy_is_away(page)))
        return;
    if (gpu_copy_out(page, pid, &mib, &err) < 0)
        (void)snprintf(ret->note, sizeof(ret->note), "%.*s", CHECKPOINT_NOTE_MAX - 1, err.text);
    ret->copied_mib += mib;
}

static int process_lock(const struct cuda *cuda, pid_t pid, struct err *err)
{
    struct cuda_lock lock = {.timeout_ms = CHECKPOINT_LOCK_MS};
    int state = CUDA_RUNNING;
    int code = cuda->state(pid, &state);
    if (code)
        return cuda_fail(err, pid, "asked for its state", code);
    code = state == CUDA_RUNNING ? cuda->lock(pid, &lock) : 0;
    return code ? cuda_fail(err, pid, "locked", code) : 0;
}

static int process_out(const struct cuda *cuda, pid_t pid, struct err *err)
{
    struct cuda_plain none = {0};
    int state = CUDA_RUNNING;
    int code = cuda->state(pid, &state);
    code = code || state == CUDA_CHECKPOINTED ? code : cuda->checkpoint(pid, &none);
    return code ? cuda_fail(err, pid, "moved to host memory", code) : 0;
}

/* All or none. */
static int all_out(const struct cuda *cuda,
                   const pid_t *pids,
                   struct gpu_page **pages,
                   size_t count,
                   struct checkpoint_report *ret,
                   struct err *err)
{
    int r = 0;

    for (size_t i = 0; i < count; i++)
        process_copy(cuda, pids[i], pages[i], ret);
    for (size_t i = 0; r == 0 && i < count; i++)
        r = process_lock(cuda, pids[i], err);
    for (size_t i = 0; r == 0 && i < count; i++)
        r = process_out(cuda, pids[i], err);
    for (size_t i = 0; r && i < count; i++)
        (void)process_in(cuda, pids[i], pages[i], NULL);
    return r;
}

int checkpoint_do(const struct checkpoint_order *order,
                  struct checkpoint_report *ret,
                  struct err *err)
{
    _cleanup_(arena_done) struct arena arena = {0};
    pid_t *pids = ARENA_ARRAY(&arena, pid_t, order->pid_count + 1);
    struct gpu_page **pages = ARENA_ARRAY(&arena, struct gpu_page *, order->pid_count + 1);
    struct cuda cuda = {0};
    size_t count = cuda_processes(order, pids);
    int64_t used_mib = order->out ? cards_used(order) : 0;
    int64_t held_mib = 0, away_mib = 0; /* away: an earlier helper saw to it */
    *ret = (struct checkpoint_report){.processes = (int64_t)count};
    if (!count)
        return 0;
    for (size_t i = 0; i < count; i++) {
        pages[i] = gpu_copy_find(pids[i]);
        held_mib += gpu_copy_held_mib(pages[i]);
        away_mib += gpu_copy_away_mib(pages[i]);
    }
    /* Of a card that is shared only what our library owns is known to be the pod's. */
    int64_t need_mib = used_mib > held_mib ? used_mib : held_mib;
    int r = order->out ? out_refuse(count, need_mib, err) : 0;
    r = r ? r : cuda_open(&cuda, err);
    assert(r || cuda.unlock); /* the last that is looked for */
    if (r == 0 && order->out)
        r = all_out(&cuda, pids, pages, count, ret, err);
    for (size_t i = 0; r == 0 && !order->out && i < count; i++)
        r = process_in(&cuda, pids[i], pages[i], err);
    for (size_t i = 0; i < count; i++)
        gpu_copy_done(pages[i]);
    if (r == 0 && order->out) /* of a card that is shared only our own part is known */
        ret->moved_mib =
            order->card_count ? away_mib + used_mib - cards_used(order) : ret->copied_mib;
    return r;
}
