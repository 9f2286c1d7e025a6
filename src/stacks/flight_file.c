#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "stacks/flight.h"
#include "stacks/pickle.h"
#include "stacks/proc.h"
#include "stacks/process.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Where PyTorch's flight recorder writes, and how it is asked to. The paths are those of a process in a
 * container: they are opened below the root of that process, through no link, and only if they are that
 * user's own, so that they lead nowhere else. */

#define LOOK_MS 50 /* between two looks at a file that is to come */

static int64_t clock_ms(clockid_t which)
{
    struct timespec now;

    (void)clock_gettime(which, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static int open_inside(int64_t pid, struct str path, uint64_t flags)
{
    char root[64];
    char name[PATH_MAX];
    struct open_how how = {.flags = flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY,
                           .resolve =
                               RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS};
    struct stat file;
    struct stat owner;

    if (!path.len || path.len >= sizeof(name) || path.p[0] != '/')
        return -1;
    (void)snprintf(root, sizeof(root), "/proc/%lld/root", (long long)pid);
    (void)snprintf(name, sizeof(name), STR_FMT, STR_ARG(path));
    int top = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (top < 0)
        return -1;
    int fd = (int)syscall(SYS_openat2, top, name, &how, sizeof(how));
    close(top);
    (void)snprintf(root, sizeof(root), "/proc/%lld", (long long)pid);
    if (fd >= 0 &&
        (fstat(fd, &file) < 0 || stat(root, &owner) < 0 || file.st_uid != owner.st_uid)) {
        close(fd);
        return -1;
    }
    return fd;
}

bool flight_ask(int64_t pid, struct str rank)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct str prefix =
        environ_get(process_environ(&arena, pid), "TORCH_NCCL_DEBUG_INFO_PIPE_FILE");
    struct stat about;
    bool told = false;

    if (!prefix.len || !rank.len)
        return false;
    int fd = open_inside(
        pid, str_printf(&arena, STR_FMT STR_FMT ".pipe", STR_ARG(prefix), STR_ARG(rank)), O_WRONLY);
    if (fd < 0)
        return false;
    if (fstat(fd, &about) == 0 && S_ISFIFO(about.st_mode))
        told = write(fd, "1\n", 2) == 2;
    close(fd);
    return told;
}

/* When the process was started, by the calendar; what was written before that is another's. */
static int64_t began_ms(int64_t pid)
{
    char path[64];
    char text[1024];
    unsigned long long ticks = 0;

    (void)snprintf(path, sizeof(path), "/proc/%lld/stat", (long long)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
    if (fd >= 0)
        close(fd);
    if (got <= 0)
        return INT64_MAX;
    text[got] = '\0';
    /* Behind the name, which may be anything: the 20th field is the start, in ticks since the boot. */
    const char *rest = strrchr(text, ')');
    for (int i = 0; rest && i < 20; i++) {
        rest = strchr(rest + 1, ' ');
    }
    if (!rest || sscanf(rest, "%llu", &ticks) != 1)
        return INT64_MAX;
    return clock_ms(CLOCK_REALTIME) - clock_ms(CLOCK_BOOTTIME) +
           (int64_t)(ticks * 1000 / (unsigned long long)sysconf(_SC_CLK_TCK));
}

struct dump {
    int fd; /* -1: none */
    int64_t written_ms;
};

static void consider(int64_t pid, struct str prefix, struct str rank, struct dump *best)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct stat about;

    if (!prefix.len)
        return;
    int fd = open_inside(pid, str_printf(&arena, STR_FMT STR_FMT, STR_ARG(prefix), STR_ARG(rank)),
                         O_RDONLY);
    if (fd < 0)
        return;
    int64_t ms = 0;
    if (fstat(fd, &about) == 0 && S_ISREG(about.st_mode))
        ms = (int64_t)about.st_mtim.tv_sec * 1000 + about.st_mtim.tv_nsec / 1000000;
    if (ms <= best->written_ms) {
        close(fd);
        return;
    }
    if (best->fd >= 0)
        close(best->fd);
    *best = (struct dump){.fd = fd, .written_ms = ms};
}

/* Of all places that PyTorch has had for it, the youngest file. */
static struct dump find(int64_t pid, struct str env, struct str rank, int64_t since_ms)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct dump best = {.fd = -1, .written_ms = since_ms};
    struct str cache = environ_get(env, "XDG_CACHE_HOME");
    struct str home = environ_get(env, "HOME");

    if (!cache.len && home.len)
        cache = str_printf(&arena, STR_FMT "/.cache", STR_ARG(home));
    consider(pid, environ_get(env, "TORCH_FR_DUMP_TEMP_FILE"), rank, &best);
    consider(pid, environ_get(env, "TORCH_NCCL_DEBUG_INFO_TEMP_FILE"), rank, &best);
    consider(pid, STR("/tmp/nccl_trace_rank_"), rank, &best);
    if (cache.len)
        consider(pid, str_printf(&arena, STR_FMT "/torch/comm_lib_trace_rank_", STR_ARG(cache)),
                 rank, &best);
    return best;
}

static struct json *read_dump(struct arena *arena, int fd, struct err *err)
{
    _cleanup_(buf_done) struct buf bytes = {.bytes_max = PICKLE_BYTES_MAX + 1};
    char piece[65536];
    ssize_t got;

    while ((got = read(fd, piece, sizeof(piece))) > 0 && !bytes.overflow)
        buf_add(&bytes, (struct str){piece, (size_t)got});
    if (bytes.overflow || bytes.len > PICKLE_BYTES_MAX) {
        (void)err_set(err, -EFBIG, "it is too large");
        return NULL;
    }
    return flight_decode(arena, buf_str(&bytes), err);
}

struct json *flight_of(struct arena *arena,
                       int64_t pid,
                       struct str rank,
                       int64_t asked_ms,
                       const struct patience *patience)
{
    _cleanup_(arena_done) struct arena scratch = {0};
    struct str env = process_environ(&scratch, pid);
    int64_t since_ms = began_ms(pid);
    struct json *out = NULL;
    struct err err = {0};

    for (bool again = rank.len > 0; again;) {
        struct dump dump = find(pid, env, rank, since_ms);
        const struct timespec pause = {.tv_nsec = LOOK_MS * 1000000L};
        /* Files have the time of the kernel's last tick. */
        bool fresh = !asked_ms || dump.written_ms + 10 >= asked_ms;

        err = (struct err){0};
        out = dump.fd < 0 ? NULL : read_dump(arena, dump.fd, &err);
        if (dump.fd >= 0)
            close(dump.fd);
        again = asked_ms && (!fresh || !out) && !patience_over(patience);
        if (out)
            json_add_i64(arena, out, "time", dump.written_ms);
        if (again)
            (void)nanosleep(&pause, NULL);
    }
    if (out || !err.code)
        return out;
    out = json_new_object(arena);
    json_add_str(arena, out, "why",
                 str_printf(arena, "what its flight recorder wrote cannot be read: %s", err.text));
    return out;
}
