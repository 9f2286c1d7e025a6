#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

/* failing: preloaded into a program, makes its Nth call fail.
 *
 * TORTURE_KIND=files counts calls on regular files and folders (open, read, write, fsync, rename,
 * ...), TORTURE_KIND=sockets those on sockets. TORTURE_AT=N: which one fails, 0 none;
 * TORTURE_STAY=1: and all behind it, as with a broken disk. TORTURE_ERRNO: with what. TORTURE_COUNT
 * names a file that gets the number of calls when the program ends. TORTURE_KILL=1: the program
 * dies there instead, as of kill -9. TORTURE_WHEN names a file: only from when it exists on are
 * calls counted, and programs that this one starts are left alone. The program's own pipes and
 * events are left alone: no machine fails there, and libuv aborts by design. */
#define EXPORT __attribute__((visibility("default")))

static atomic_long calls;
static bool sockets;
static bool stay;
static long fail_at;
static int fail_errno = EIO;
static bool kills;
static const char *when;
static atomic_bool begun;

static long number(const char *name)
{
    const char *text = getenv(name);
    long value = 0;

    for (; text && *text >= '0' && *text <= '9'; text++)
        value = value * 10 + (*text - '0');
    return value;
}

__attribute__((constructor)) static void start(void)
{
    const char *kind = getenv("TORTURE_KIND");

    sockets = kind && strcmp(kind, "sockets") == 0;
    stay = number("TORTURE_STAY") != 0;
    fail_at = number("TORTURE_AT");
    kills = number("TORTURE_KILL") != 0;
    when = getenv("TORTURE_WHEN");
    if (when)
        (void)unsetenv("LD_PRELOAD");
    if (number("TORTURE_ERRNO"))
        fail_errno = (int)number("TORTURE_ERRNO");
}

__attribute__((destructor)) static void finish(void)
{
    const char *path = getenv("TORTURE_COUNT");
    FILE *file = path ? fopen(path, "we") : NULL;

    if (file) {
        fail_at = 0;
        (void)fprintf(file, "%ld\n", atomic_load(&calls));
        (void)fclose(file);
    }
}

static bool has_begun(void)
{
    int saved = errno;

    if (when && !atomic_load(&begun) && access(when, F_OK) == 0)
        atomic_store(&begun, true);
    errno = saved;
    return !when || atomic_load(&begun);
}

/* Count one call; true when it is to fail. */
static bool fails(void)
{
    if (!has_begun())
        return false;
    long n = atomic_fetch_add(&calls, 1) + 1;

    if (!fail_at || n < fail_at || (n > fail_at && !stay))
        return false;
    if (kills)
        (void)kill(getpid(), SIGKILL);
    errno = fail_errno;
    return true;
}

static bool counted_fd(int fd)
{
    struct stat status;
    int saved = errno;
    bool counted =
        fd > STDERR_FILENO && fstat(fd, &status) == 0 &&
        (sockets ? S_ISSOCK(status.st_mode) : S_ISREG(status.st_mode) || S_ISDIR(status.st_mode));

    errno = saved;
    return counted;
}

/* The function of that name behind us in the search order, put where `real` is. */
static void find_real(void *real, const char *name)
{
    void *found = dlsym(RTLD_NEXT, name);

    if (!found)
        abort();
    memcpy(real, &found, sizeof(found));
}

#define BY_FD(result, name, parameters, arguments)              \
    EXPORT result name parameters                               \
    {                                                           \
        static result(*real) parameters;                        \
        if (!real)                                              \
            find_real(&real, #name);                            \
        return counted_fd(fd) && fails() ? -1 : real arguments; \
    }
#define BY_NAME(result, name, parameters, arguments)      \
    EXPORT result name parameters                         \
    {                                                     \
        static result(*real) parameters;                  \
        if (!real)                                        \
            find_real(&real, #name);                      \
        return !sockets && fails() ? -1 : real arguments; \
    }

BY_FD(ssize_t, read, (int fd, void *p, size_t n), (fd, p, n))
BY_FD(ssize_t, write, (int fd, const void *p, size_t n), (fd, p, n))
BY_FD(ssize_t, pread64, (int fd, void *p, size_t n, off64_t at), (fd, p, n, at))
BY_FD(ssize_t, pwrite64, (int fd, const void *p, size_t n, off64_t at), (fd, p, n, at))
BY_FD(int, fsync, (int fd), (fd))
BY_FD(int, fdatasync, (int fd), (fd))
BY_FD(int, ftruncate64, (int fd, off64_t bytes), (fd, bytes))
BY_FD(int, fchmod, (int fd, mode_t mode), (fd, mode))
BY_FD(ssize_t, send, (int fd, const void *p, size_t n, int flags), (fd, p, n, flags))
BY_FD(ssize_t, recv, (int fd, void *p, size_t n, int flags), (fd, p, n, flags))
BY_FD(ssize_t, sendmsg, (int fd, const struct msghdr *m, int flags), (fd, m, flags))
BY_FD(ssize_t, recvmsg, (int fd, struct msghdr *m, int flags), (fd, m, flags))
BY_FD(int, accept4, (int fd, struct sockaddr *a, socklen_t *n, int flags), (fd, a, n, flags))
BY_FD(int, connect, (int fd, const struct sockaddr *a, socklen_t n), (fd, a, n))
BY_NAME(int, mkdir, (const char *path, mode_t mode), (path, mode))
BY_NAME(int, rename, (const char *from, const char *to), (from, to))
BY_NAME(int, unlink, (const char *path), (path))

static int open_common(const char *name, const char *path, int flags, mode_t mode)
{
    static int (*real)(const char *, int, ...);

    if (!real)
        find_real(&real, name);
    /* What the system's own libraries read at their start is no part of it. */
    bool ours = strncmp(path, "/proc", 5) != 0 && strncmp(path, "/sys", 4) != 0 &&
                strncmp(path, "/etc", 4) != 0 && strncmp(path, "/usr", 4) != 0 &&
                strncmp(path, "/dev", 4) != 0;
    if (!sockets && ours && fails())
        return -1;
    return real(path, flags, mode);
}

static mode_t mode_of(int flags, va_list args)
{
    return flags & (O_CREAT | O_TMPFILE) ? va_arg(args, mode_t) : 0;
}

EXPORT int open(const char *path, int flags, ...)
{
    va_list args;

    va_start(args, flags);
    mode_t mode = mode_of(flags, args);
    va_end(args);
    return open_common("open", path, flags, mode);
}

EXPORT int open64(const char *path, int flags, ...)
{
    va_list args;

    va_start(args, flags);
    mode_t mode = mode_of(flags, args);
    va_end(args);
    return open_common("open64", path, flags, mode);
}
