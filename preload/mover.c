#include "mover.h"

#include "api/gpu_page.h"
#include "blocks.h"
#include "gate.h"
#include "hooks.h"
#include "region.h"
#include "settings.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define WORKERS 8
#define PIECE                              \
    (((size_t)GPU_PAGE_PINNED_MIB << 20) / \
     WORKERS) /* pinned, of each worker; pinning is slow, so it is small */
#define CONTEXTS   16
#define ROOM_MS    20000 /* for whoever leaves the card to be gone */
#define ROOM_STEP  50
#define RELAXED    2 /* CU_STREAM_CAPTURE_MODE_RELAXED: our calls disturb nobody's capture */
#define OUR_THREAD "muster-gpu"

#ifndef MFD_CLOEXEC
#    define MFD_CLOEXEC 1U
#endif
#ifndef MADV_DONTFORK
#    define MADV_DONTFORK 10
#endif
#ifndef MADV_HUGEPAGE
#    define MADV_HUGEPAGE 14
#endif

/* They are in libc or in a library of their own, by glibc's age. */
typedef int thread_create_fn(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
typedef int thread_join_fn(pthread_t, void **);

struct chunk {
    uint64_t at;
    char *host;
    size_t bytes;
};

struct copy {
    void *context;
    bool out;
    struct chunk *chunks;
    size_t count;
    _Atomic size_t next;
    _Atomic int failed; /* CUDA's error; -1: no thread could be had */
};

struct wait {
    void *contexts[CONTEXTS];
    size_t count;
    _Atomic int result;
    _Atomic bool over;
};

enum start {
    START_NONE,
    START_DONE,
    START_FAILED,
};

static struct gpu_page *page;
static _Atomic int started;
static pthread_mutex_t start_mutex = PTHREAD_MUTEX_INITIALIZER;
static char *host_copy;
static size_t host_bytes;
static struct wait card_wait; /* one that never ended is still waited for */
static bool card_waiting;

/* ---- threads ---- */

/* None of the program's signals is handled by one of ours. */
static bool thread_start(pthread_t *ret, void *(*run)(void *), void *user)
{
    thread_create_fn *create = (thread_create_fn *)hook_libc("pthread_create");
    sigset_t all, before;

    if (!create)
        return false;
    (void)sigfillset(&all);
    (void)sigprocmask(SIG_BLOCK, &all, &before);
    int r = create(ret, NULL, run, user);
    (void)sigprocmask(SIG_SETMASK, &before, NULL);
    return r == 0;
}

static void thread_wait(pthread_t thread)
{
    thread_join_fn *join = (thread_join_fn *)hook_libc("pthread_join");

    if (join)
        (void)join(thread, NULL);
}

/* ---- copying ---- */

static int copy_chunk(const struct copy *copy, const struct chunk *chunk, char *piece, void *stream)
{
    const struct blocks_driver *driver = blocks_driver();

    if (!copy->out)
        memcpy(piece, chunk->host, chunk->bytes);
    int r = copy->out ? driver->to_host(piece, chunk->at, chunk->bytes, stream)
                      : driver->to_card(chunk->at, piece, chunk->bytes, stream);
    r = r ? r : driver->stream_synchronize(stream);
    if (r == CUDA_SUCCESS && copy->out)
        memcpy(chunk->host, piece, chunk->bytes);
    return r;
}

static void *copy_work(void *user)
{
    const struct blocks_driver *driver = blocks_driver();
    struct copy *copy = user;
    void *stream = NULL, *piece = NULL;
    int mode = RELAXED;
    size_t at;

    (void)prctl(PR_SET_NAME, OUR_THREAD, 0, 0, 0);
    (void)driver->capture_mode(&mode);
    int r = driver->ctx_set_current(copy->context);
    r = r ? r : driver->stream_create(&stream, 1 /* waits for no other stream */);
    r = r ? r : driver->host_alloc(&piece, PIECE, 1 /* of all contexts */);
    while (r == CUDA_SUCCESS && !atomic_load(&copy->failed) &&
           (at = atomic_fetch_add(&copy->next, 1)) < copy->count) {
        r = copy_chunk(copy, &copy->chunks[at], piece, stream);
        (void)atomic_fetch_add(&page->copied, (int64_t)copy->chunks[at].bytes);
    }
    if (r != CUDA_SUCCESS)
        atomic_store(&copy->failed, r);
    if (piece)
        (void)driver->host_free(piece);
    if (stream)
        (void)driver->stream_destroy(stream);
    return NULL;
}

static int copy_all(struct copy *copy)
{
    pthread_t workers[WORKERS];
    size_t count = 0;

    while (count < WORKERS && thread_start(&workers[count], copy_work, copy))
        count++;
    for (size_t i = 0; i < count; i++)
        thread_wait(workers[i]);
    return count ? atomic_load(&copy->failed) : -1;
}

/* The chunks of all blocks that have a place in host memory. */
static bool copy_plan(struct copy *copy)
{
    size_t count = 0;

    for (const struct block *block = blocks_first; block; block = block->next)
        count += block->host ? (block->bytes + PIECE - 1) / PIECE : 0;
    copy->chunks = calloc(count + 1, sizeof(*copy->chunks));
    if (!copy->chunks)
        return false;
    for (const struct block *block = blocks_first; block; block = block->next)
        for (size_t at = 0; block->host && at < block->bytes; at += PIECE)
            copy->chunks[copy->count++] =
                (struct chunk){.at = block->at + at,
                               .host = block->host + at,
                               .bytes = block->bytes - at < PIECE ? block->bytes - at : PIECE};
    return true;
}

/* With the mutex of the blocks. */
static bool copy_run(bool out, char *why, size_t why_bytes)
{
    struct copy copy = {.out = out};

    for (const struct block *block = blocks_first; block && !copy.context; block = block->next)
        copy.context = block->host ? block->context : NULL;
    if (!copy_plan(&copy)) {
        (void)snprintf(why, why_bytes, "no memory for the list of what is to be copied");
        return false;
    }
    int r = copy_all(&copy);
    free(copy.chunks);
    if (r)
        (void)snprintf(why, why_bytes, "the copy %s failed: CUDA error %d",
                       out ? "to host memory" : "back to the card", r);
    return r == 0;
}

/* ---- waiting for the card ---- */

static void *wait_work(void *user)
{
    const struct blocks_driver *driver = blocks_driver();
    struct wait *wait = user;
    int r = CUDA_SUCCESS, mode = RELAXED;

    (void)prctl(PR_SET_NAME, OUR_THREAD, 0, 0, 0);
    (void)driver->capture_mode(&mode);
    for (size_t i = 0; r == CUDA_SUCCESS && i < wait->count; i++) {
        r = driver->ctx_set_current(wait->contexts[i]);
        r = r ? r : driver->ctx_synchronize();
    }
    atomic_store(&wait->result, r);
    atomic_store(&wait->over, true);
    return NULL;
}

static bool wait_add(struct wait *wait, void *context)
{
    for (size_t i = 0; i < wait->count; i++)
        if (wait->contexts[i] == context)
            return true;
    if (wait->count == CONTEXTS)
        return false;
    wait->contexts[wait->count++] = context;
    return true;
}

/* The driver waits without a limit, so that another thread does it: work that waits for a call that
 * is held here never ends. */
static bool wait_card(int64_t until_ms, char *why, size_t why_bytes)
{
    static pthread_t thread;

    if (card_waiting && !atomic_load(&card_wait.over)) {
        (void)snprintf(why, why_bytes, "work on the GPU has not ended since it was last tried");
        return false;
    }
    if (card_waiting)
        thread_wait(thread);
    card_waiting = false;
    card_wait = (struct wait){0};
    for (const struct block *block = blocks_first; block; block = block->next)
        if (!wait_add(&card_wait, block->context)) {
            (void)snprintf(why, why_bytes, "there are more than %d contexts", CONTEXTS);
            return false;
        }
    if (!thread_start(&thread, wait_work, &card_wait)) {
        (void)snprintf(why, why_bytes, "no thread could be started");
        return false;
    }
    card_waiting = true;
    while (!atomic_load(&card_wait.over) && gate_now_ms() < until_ms)
        gate_pause_ms(1);
    if (!atomic_load(&card_wait.over)) {
        (void)snprintf(why, why_bytes, "work on the GPU did not end within %d s",
                       GPU_PAGE_QUIET_MS / 1000);
        return false;
    }
    int r = atomic_load(&card_wait.result);
    if (r)
        (void)snprintf(why, why_bytes, "work on the GPU failed: CUDA error %d", r);
    return r == 0;
}

/* ---- out ---- */

static void host_forget(void)
{
    for (struct block *block = blocks_first; block; block = block->next)
        block->host = NULL;
}

static void host_give_back(void)
{
    if (host_copy)
        (void)munmap(host_copy, host_bytes);
    host_copy = NULL;
    host_bytes = 0;
}

/* One range for all, which nobody has touched: the workers' pages come in as they write. */
static bool host_take(char *why, size_t why_bytes)
{
    size_t sum = 0, at = 0;

    for (const struct block *block = blocks_first; block; block = block->next)
        sum += block->lent ? 0 : block->bytes;
    if (!sum)
        return true;
    void *memory = mmap(NULL, sum + BLOCK_MIN, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
        (void)snprintf(why, why_bytes, "host memory for %zu MiB cannot be had: errno %d", sum >> 20,
                       errno);
        return false;
    }
    host_copy = memory;
    host_bytes = sum + BLOCK_MIN;
    (void)madvise(memory, host_bytes, MADV_HUGEPAGE);
    (void)madvise(memory, host_bytes, MADV_DONTFORK); /* a child has no use for it */
    char *first = host_copy + (BLOCK_MIN - (uintptr_t)host_copy % BLOCK_MIN) % BLOCK_MIN;
    for (struct block *block = blocks_first; block; block = block->next)
        if (!block->lent) {
            block->host = first + at;
            at += block->bytes;
        }
    return true;
}

/* What cannot be given up stays where it is, and is the driver's to move. */
static int64_t give_up(void)
{
    int64_t moved = 0;

    for (struct block *block = blocks_first; block; block = block->next) {
        if (!block->host)
            continue;
        if (blocks_unmap(block) == CUDA_SUCCESS)
            moved += (int64_t)block->bytes;
        else
            block->host = NULL;
    }
    return moved;
}

static bool move_out(char *why, size_t why_bytes)
{
    int64_t until_ms = gate_now_ms() + GPU_PAGE_QUIET_MS;

    if (atomic_load(&page->state) == GPU_STATE_AWAY)
        return true;
    if (!gate_is_tight()) {
        (void)snprintf(why, why_bytes, "it uses more functions of the driver than can be held");
        return false;
    }
    if (!gate_close(until_ms, why, (unsigned)why_bytes))
        return false;
    pthread_mutex_lock(&blocks_mutex);
    bool good = wait_card(until_ms, why, why_bytes) && host_take(why, why_bytes) &&
                (!host_copy || copy_run(true, why, why_bytes));
    int64_t moved = good ? give_up() : 0;
    if (!moved) { /* nothing is ours, or it is as it was */
        host_forget();
        pthread_mutex_unlock(&blocks_mutex);
        gate_open();
        host_give_back();
        return good;
    }
    int64_t held = region_own();
    atomic_store(&page->left, held < 0 ? 0 : 1 + (held > moved ? held - moved : 0));
    atomic_store(&page->moved, moved);
    atomic_store(&page->state, GPU_STATE_AWAY);
    return true;
}

/* ---- in ---- */

static bool put_back(char *why, size_t why_bytes)
{
    int64_t until_ms = gate_now_ms() + ROOM_MS;
    int r = CUDA_SUCCESS;

    for (struct block *block = blocks_first; block; block = block->next) {
        if (!block->host || !block->gone)
            continue;
        while ((r = blocks_map(block)) == CUDA_OUT_OF_MEMORY && gate_now_ms() < until_ms)
            gate_pause_ms(ROOM_STEP);
        if (r != CUDA_SUCCESS) {
            (void)snprintf(why, why_bytes,
                           "memory of the GPU cannot be had back, %zu MiB of it: CUDA error %d",
                           block->bytes >> 20, r);
            return false;
        }
    }
    return true;
}

static bool move_in(char *why, size_t why_bytes)
{
    const struct blocks_driver *driver = blocks_driver();

    if (atomic_load(&page->state) == GPU_STATE_HERE)
        return true;
    /* Any context that is there will do for the calls of this thread. */
    if (blocks_first && driver)
        (void)driver->ctx_set_current(blocks_first->context);
    if (!put_back(why, why_bytes) || !copy_run(false, why, why_bytes))
        return false;
    host_forget();
    atomic_store(&page->moved, 0);
    atomic_store(&page->state, GPU_STATE_HERE);
    pthread_mutex_unlock(&blocks_mutex);
    gate_open();
    host_give_back(); /* takes a while, and the agent lowers the memory limit after the answer */
    return true;
}

/* ---- the thread ---- */

static void futex_wait(_Atomic uint32_t *word, uint32_t seen)
{
    (void)syscall(SYS_futex, word, FUTEX_WAIT, seen, NULL, NULL, 0);
}

static void answer(uint32_t turn)
{
    char why[GPU_PAGE_WORDS_MAX] = "";
    uint32_t order = atomic_load(&page->order);

    atomic_store(&page->copied, 0);
    bool good = order == GPU_ORDER_OUT ? move_out(why, sizeof(why)) : move_in(why, sizeof(why));
    memcpy(page->words, why, sizeof(why));
    atomic_store(&page->failed, !good);
    atomic_store(&page->answered, turn);
    (void)syscall(SYS_futex, &page->answered, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static void *mover_work(void *user)
{
    const struct blocks_driver *driver = blocks_driver();
    int mode = RELAXED;
    uint32_t done = 0;

    (void)user;
    (void)prctl(PR_SET_NAME, OUR_THREAD, 0, 0, 0);
    if (driver)
        (void)driver->capture_mode(&mode);
    for (;;) {
        uint32_t turn = atomic_load(&page->turn);

        if (turn == done) {
            futex_wait(&page->turn, turn);
            continue;
        }
        answer(turn);
        done = turn;
    }
    return NULL;
}

static struct gpu_page *page_make(void)
{
    int fd = (int)syscall(SYS_memfd_create, GPU_PAGE_NAME, MFD_CLOEXEC);
    void *memory = MAP_FAILED;

    /* The descriptor stays open: the agent finds the page by it. */
    if (fd >= 0 && ftruncate(fd, GPU_PAGE_BYTES) == 0)
        memory = mmap(NULL, GPU_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED) {
        if (fd >= 0)
            close(fd);
        return NULL;
    }
    ((struct gpu_page *)memory)->pid = getpid();
    return memory;
}

/* A child has no thread of ours, and its page would be its parent's. */
static void forget(void)
{
    static const pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;

    start_mutex = fresh;
    page = NULL;
    if (atomic_load(&started) == START_DONE)
        atomic_store(&started, START_FAILED);
    gate_forget();
    blocks_forget();
}

void mover_count(int64_t bytes)
{
    if (page)
        (void)atomic_fetch_add(&page->held, bytes);
}

bool mover_start(void)
{
    int state = atomic_load_explicit(&started, memory_order_acquire);
    pthread_t thread;

    if (state == START_NONE) {
        pthread_mutex_lock(&start_mutex);
        state = atomic_load(&started);
        if (state == START_NONE) {
            page = page_make();
            state = page && thread_start(&thread, mover_work, NULL) ? START_DONE : START_FAILED;
            if (state == START_DONE) {
                (void)pthread_atfork(NULL, NULL, forget);
                atomic_store(&page->magic, GPU_PAGE_MAGIC);
            }
            atomic_store_explicit(&started, state, memory_order_release);
        }
        pthread_mutex_unlock(&start_mutex);
    }
    return state == START_DONE;
}
