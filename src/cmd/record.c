#include "cmd/record.h"

#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/time.h"
#include "base/vec.h"
#include "exec/scheduler.h"
#include "replay/recording.h"
#include "sched/sched.h"
#include "tool/clock.h"
#include "tool/log.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SUFFIX ".recording"

struct recorder {
    struct scheduler_recorder calls;
    const struct log *log;
    struct arena arena; /* of one line */
    struct buf piece;
    size_t written;
    size_t bytes;   /* that make it full, beyond what it begins with */
    size_t full_at; /* written so far; 0: what it begins with is not all there yet */
    int64_t flushed_ms;
    int folder;
    int file; /* -1: none, or it has ended */
    unsigned begun;
};

/* ---- old ones ---- */
static int by_name(const void *a, const void *b)
{
    const char *const *l = a;
    const char *const *r = b;

    return strcmp(*l, *r);
}

/* Names begin with the time, so the oldest come first. */
static void recordings_trim(const struct recorder *recorder)
{
    _cleanup_(arena_done) struct arena arena = {0};
    VEC(const char *) names = {0};
    int fd = openat(recorder->folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *folder = fd < 0 ? NULL : fdopendir(fd);

    if (!folder)
        return;
    for (struct dirent *entry; (entry = readdir(folder));)
        if (str_ends(str_from(entry->d_name), STR(SUFFIX)))
            VEC_PUSH(&arena, &names, str_c(&arena, str_from(entry->d_name)));
    (void)closedir(folder);
    if (names.count)
        qsort(names.items, names.count, sizeof(*names.items), by_name);
    for (size_t i = 0; i + RECORD_KEPT <= names.count; i++)
        (void)unlinkat(recorder->folder, names.items[i], 0);
}

/* ---- one ---- */
static void recording_end(struct recorder *recorder, const char *why)
{
    if (recorder->file < 0)
        return;
    (void)close(recorder->file);
    recorder->file = -1;
    log_info(recorder->log, "recording.ended", LOG_C("why", why),
             LOG_I64("bytes", (int64_t)recorder->written));
}

static void recording_flush(struct recorder *recorder, int64_t now_ms)
{
    struct str rest = buf_str(&recorder->piece);

    recorder->flushed_ms = now_ms;
    while (recorder->file >= 0 && rest.len) {
        ssize_t n = write(recorder->file, rest.p, rest.len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            recording_end(recorder, n < 0 ? strerrordesc_np(errno) : "nothing was written");
            break;
        }
        rest = str_sub(rest, (size_t)n, rest.len);
        recorder->written += (size_t)n;
    }
    buf_clear(&recorder->piece);
}

static bool on_is_full(void *user)
{
    const struct recorder *recorder = user;

    return recorder->full_at && recorder->written >= recorder->full_at;
}

static void on_begin(void *user, const struct sched *core)
{
    struct recorder *recorder = user;
    char name[TIME_TEXT_BYTES + 32];
    char stamp[TIME_TEXT_BYTES];
    int64_t now_ms = clock_now_ms();

    recording_flush(recorder, clock_monotonic_ms());
    recording_end(recorder, on_is_full(recorder) ? "it is full" : "the scheduler starts anew");
    recordings_trim(recorder);
    (void)snprintf(name, sizeof(name), STR_FMT "-%03u" SUFFIX, STR_ARG(time_format(now_ms, stamp)),
                   ++recorder->begun);
    recorder->written = recorder->full_at = 0;
    recorder->file = openat(recorder->folder, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (recorder->file < 0) {
        log_warn(recorder->log, "recording.failed", LOG_C("file", name),
                 LOG_C("error", strerrordesc_np(errno)));
        return;
    }
    log_info(recorder->log, "recording.began", LOG_C("file", name));
    arena_reset(&recorder->arena);
    recording_begin(&recorder->piece, &recorder->arena, core);
}

static void on_saw(void *user, const struct sched_input *input)
{
    struct recorder *recorder = user;

    if (recorder->file < 0)
        return;
    arena_reset(&recorder->arena);
    recording_add(&recorder->piece, &recorder->arena, input);
    int64_t now_ms = clock_monotonic_ms();
    bool decided = input->plan && (input->plan->bind_count || input->plan->evict_count);
    if (decided || recorder->piece.len >= RECORD_PIECE_BYTES ||
        now_ms - recorder->flushed_ms > RECORD_LATE_MS)
        recording_flush(recorder, now_ms);
    if (!recorder->full_at && input->plan)
        recorder->full_at = recorder->written + recorder->piece.len + recorder->bytes;
    if (!recorder->full_at && recorder->written >= RECORD_BEGIN_MAX)
        recording_end(recorder, "it is full; the next begins when muster is started again");
    else if (recorder->full_at &&
             recorder->written >= recorder->full_at + (RECORD_BYTES_TIMES - 1) * recorder->bytes)
        recording_end(recorder, "it is full; the next begins when no decision is under way");
}

int recorder_open(const char *folder,
                  int64_t bytes,
                  const struct log *log,
                  struct recorder **ret,
                  struct err *err)
{
    struct recorder *recorder = NULL;
    int fd = -1;

    if (mkdir(folder, 0700) < 0 && errno != EEXIST)
        return err_set(err, -errno, "--record: %s: %s", folder, strerrordesc_np(errno));
    fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return err_set(err, -errno, "--record: %s: %s", folder, strerrordesc_np(errno));
    recorder = MEM_NEW(struct recorder);
    recorder->calls = (struct scheduler_recorder){
        .begin = on_begin, .saw = on_saw, .is_full = on_is_full, .user = recorder};
    recorder->bytes = (size_t)bytes;
    recorder->log = log;
    recorder->folder = fd;
    recorder->file = -1;
    *ret = recorder;
    return 0;
}

const struct scheduler_recorder *recorder_calls(const struct recorder *recorder)
{
    return recorder ? &recorder->calls : NULL;
}

void recorder_close(struct recorder *recorder)
{
    if (!recorder)
        return;
    recording_flush(recorder, 0);
    recording_end(recorder, "muster ends");
    (void)close(recorder->folder);
    buf_done(&recorder->piece);
    arena_done(&recorder->arena);
    mem_free(recorder);
}
