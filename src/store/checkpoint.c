#include "store/checkpoint.h"

#include "base/err.h"
#include "base/mem.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

/* 4 MB of log start a copy. The log stays about twice as long: SQLite writes over it from the start
 * once all of it is copied, which costs no new blocks and so a cheaper fsync. */
#define PAGES_PER_CHECKPOINT 1000

struct checkpoint {
    sqlite3 *writer;
    sqlite3 *handle; /* the thread's */
    uv_thread_t thread;
    bool running;
    uv_mutex_t mutex;
    uv_cond_t cond;
    /* Guarded by the mutex: */
    bool due;  /* the thread shall copy, or is doing it */
    bool rest; /* the thread has copied; the writer's turn */
    bool quit;
};

static void log_copy(sqlite3 *handle)
{
    (void)sqlite3_wal_checkpoint_v2(handle, NULL, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
}

static void thread_main(void *user)
{
    struct checkpoint *checkpoint = user;

    uv_mutex_lock(&checkpoint->mutex);
    for (;;) {
        while (!checkpoint->due && !checkpoint->quit)
            uv_cond_wait(&checkpoint->cond, &checkpoint->mutex);
        if (checkpoint->quit)
            break;
        uv_mutex_unlock(&checkpoint->mutex);
        log_copy(checkpoint->handle);
        uv_mutex_lock(&checkpoint->mutex);
        checkpoint->due = false;
        checkpoint->rest = true;
    }
    uv_mutex_unlock(&checkpoint->mutex);
}

/* In the writer, behind each of its commits. */
static int on_commit(void *user, sqlite3 *writer, const char *name, int pages)
{
    struct checkpoint *checkpoint = user;

    (void)writer;
    (void)name;
    if (pages < PAGES_PER_CHECKPOINT)
        return SQLITE_OK;
    uv_mutex_lock(&checkpoint->mutex);
    if (!checkpoint->due && !checkpoint->rest) {
        checkpoint->due = true;
        uv_cond_signal(&checkpoint->cond);
    }
    uv_mutex_unlock(&checkpoint->mutex);
    return SQLITE_OK;
}

void checkpoint_finish(struct checkpoint *checkpoint)
{
    uv_mutex_lock(&checkpoint->mutex);
    bool rest = checkpoint->rest;
    checkpoint->rest = false;
    uv_mutex_unlock(&checkpoint->mutex);
    if (rest)
        log_copy(checkpoint->writer);
}

int checkpoint_start(sqlite3 *writer, const char *path, struct checkpoint **ret, struct err *err)
{
    struct checkpoint *checkpoint = MEM_NEW(struct checkpoint);

    checkpoint->writer = writer;
    (void)uv_mutex_init(&checkpoint->mutex);
    (void)uv_cond_init(&checkpoint->cond);
    int r = sqlite3_open_v2(path, &checkpoint->handle, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX,
                            NULL);
    if (r != SQLITE_OK) {
        r = err_set(err, -EIO, "%s: %s", path, sqlite3_errstr(r));
        checkpoint_stop(checkpoint);
        return r;
    }
    r = uv_thread_create(&checkpoint->thread, thread_main, checkpoint);
    if (r < 0) {
        r = err_set(err, r, "cannot start the store's second thread: %s", uv_strerror(r));
        checkpoint_stop(checkpoint);
        return r;
    }
    checkpoint->running = true;
    (void)sqlite3_wal_hook(writer, on_commit, checkpoint);
    *ret = checkpoint;
    return 0;
}

void checkpoint_stop(struct checkpoint *checkpoint)
{
    if (!checkpoint)
        return;
    if (checkpoint->running) {
        (void)sqlite3_wal_hook(checkpoint->writer, NULL, NULL);
        uv_mutex_lock(&checkpoint->mutex);
        checkpoint->quit = true;
        uv_cond_signal(&checkpoint->cond);
        uv_mutex_unlock(&checkpoint->mutex);
        (void)uv_thread_join(&checkpoint->thread);
    }
    (void)sqlite3_close(checkpoint->handle);
    uv_mutex_destroy(&checkpoint->mutex);
    uv_cond_destroy(&checkpoint->cond);
    mem_free(checkpoint);
}
