#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

/* recorder: preloaded into a program, writes down what it does to the files below a folder.
 *
 * CUTS_UNDER is the folder, CUTS_LOG the file that the records are appended to, each a line and
 * then as many bytes as its last number says:
 *   create INODE LENGTH       a new file of that name
 *   folder INODE LENGTH       a new folder
 *   write INODE OFFSET LENGTH
 *   truncate INODE SIZE 0
 *   sync INODE 0              of a file or a folder
 *   rename LENGTH, LENGTH     both names, a newline between
 *   remove LENGTH
 *   say LENGTH                what went to standard output or a socket: others know it now
 * A record is written before the call returns, and one call at a time, so that the order of the
 * file is the order of what happened. Children are left alone. tests/powercuts/run.py reads it and
 * holds what it makes of all records against the folder: what is missing here is found out. */
#define EXPORT __attribute__((visibility("default")))

static char under[PATH_MAX];
static size_t under_len;
static int log_fd = -1;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

/* The function of that name behind us in the search order, put where `real` is. */
static void find_real(void *real, const char *name)
{
    void *found = dlsym(RTLD_NEXT, name);

    if (!found)
        abort();
    memcpy(real, &found, sizeof(found));
}

#define REAL(result, name, ...)         \
    static result (*real)(__VA_ARGS__); \
    if (!real)                          \
        find_real((void *)&real, #name);

__attribute__((constructor)) static void start(void)
{
    const char *folder = getenv("CUTS_UNDER");
    const char *path = getenv("CUTS_LOG");

    if (!folder || !path || !realpath(folder, under))
        return;
    under_len = strlen(under);
    REAL(int, open64, const char *, int, ...)
    int fd = real(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    log_fd = fcntl(fd, F_DUPFD_CLOEXEC, 900); /* out of the program's way */
    (void)close(fd);
    (void)unsetenv("LD_PRELOAD");
}

static void record(const char *head, const void *first, size_t len)
{
    REAL(ssize_t, writev, int, const struct iovec *, int)
    struct iovec parts[2] = {{(void *)(uintptr_t)head, strlen(head)},
                             {(void *)(uintptr_t)first, len}};

    if (real(log_fd, parts, 2) != (ssize_t)(parts[0].iov_len + len))
        abort();
}

/* The name below the folder, without it; NULL: none of ours. Parts that are no links. */
static const char *name_in(int dirfd, const char *path, char out[static PATH_MAX])
{
    char base[PATH_MAX] = "";

    if (log_fd < 0)
        return NULL;
    if (path[0] != '/') {
        char link[64];

        (void)snprintf(link, sizeof(link),
                       dirfd == AT_FDCWD ? "/proc/self/cwd" : "/proc/self/fd/%d", dirfd);
        ssize_t n = readlink(link, base, sizeof(base) - 1);
        if (n < 0)
            return NULL;
        base[n] = '\0';
    }
    while (path[0] == '.' && path[1] == '/')
        path += 2;
    (void)snprintf(out, PATH_MAX, "%s%s%s", base, base[0] ? "/" : "", path);
    return strncmp(out, under, under_len) == 0 && out[under_len] == '/' ? out + under_len + 1
                                                                        : NULL;
}

static bool inode_of(int fd, struct stat *ret)
{
    char link[64];
    char path[PATH_MAX];

    if (log_fd < 0 || fd == log_fd || fstat(fd, ret) < 0 ||
        (!S_ISREG(ret->st_mode) && !S_ISDIR(ret->st_mode)))
        return false;
    (void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof(path) - 1);
    if (n < 0)
        return false;
    path[n] = '\0';
    return strncmp(path, under, under_len) == 0 && (path[under_len] == '/' || !path[under_len]);
}

static void note_create(const char *what, const char *name, ino_t inode)
{
    char head[64];

    (void)snprintf(head, sizeof(head), "%s %llu %zu\n", what, (unsigned long long)inode,
                   strlen(name));
    record(head, name, strlen(name));
}

static void note_write(int fd, const void *p, ssize_t n, off_t at)
{
    struct stat st;
    char head[96];
    int saved = errno;

    if (n > 0 && fd == STDOUT_FILENO) {
        (void)snprintf(head, sizeof(head), "say %zd\n", n);
        record(head, p, (size_t)n);
    } else if (n > 0 && inode_of(fd, &st)) {
        (void)snprintf(head, sizeof(head), "write %llu %lld %zd\n", (unsigned long long)st.st_ino,
                       (long long)at, n);
        record(head, p, (size_t)n);
    }
    errno = saved;
}

static void note_number(const char *what, int fd, long long number)
{
    struct stat st;
    char head[96];
    int saved = errno;

    if (inode_of(fd, &st)) {
        if (number >= 0)
            (void)snprintf(head, sizeof(head), "%s %llu %lld 0\n", what,
                           (unsigned long long)st.st_ino, number);
        else
            (void)snprintf(head, sizeof(head), "%s %llu 0\n", what, (unsigned long long)st.st_ino);
        record(head, "", 0);
    }
    errno = saved;
}

#define LOCKED(type, call)                \
    ({                                    \
        (void)pthread_mutex_lock(&mutex); \
        type r_ = (call);                 \
        r_;                               \
    })
#define UNLOCK() (void)pthread_mutex_unlock(&mutex)

/* ---- contents ---- */

EXPORT ssize_t write(int fd, const void *p, size_t n)
{
    REAL(ssize_t, write, int, const void *, size_t)
    struct stat st = {0};
    int flags = log_fd < 0 ? 0 : fcntl(fd, F_GETFL);
    (void)pthread_mutex_lock(&mutex);
    off_t at = log_fd < 0 || fd == STDOUT_FILENO ? 0
               : flags & O_APPEND                ? (fstat(fd, &st), st.st_size)
                                                 : lseek(fd, 0, SEEK_CUR);
    ssize_t r = real(fd, p, n);
    note_write(fd, p, r, at);
    UNLOCK();
    return r;
}

#define PWRITE(name, offset)                                        \
    EXPORT ssize_t name(int fd, const void *p, size_t n, offset at) \
    {                                                               \
        REAL(ssize_t, name, int, const void *, size_t, offset)      \
        ssize_t r = LOCKED(ssize_t, real(fd, p, n, at));            \
        note_write(fd, p, r, at);                                   \
        UNLOCK();                                                   \
        return r;                                                   \
    }
PWRITE(pwrite, off_t)
PWRITE(pwrite64, off64_t)

#define TRUNCATE(name, offset)                 \
    EXPORT int name(int fd, offset size)       \
    {                                          \
        REAL(int, name, int, offset)           \
        int r = LOCKED(int, real(fd, size));   \
        if (r == 0)                            \
            note_number("truncate", fd, size); \
        UNLOCK();                              \
        return r;                              \
    }
TRUNCATE(ftruncate, off_t)
TRUNCATE(ftruncate64, off64_t)

#define SYNC(name)                       \
    EXPORT int name(int fd)              \
    {                                    \
        REAL(int, name, int)             \
        int r = LOCKED(int, real(fd));   \
        if (r == 0)                      \
            note_number("sync", fd, -1); \
        UNLOCK();                        \
        return r;                        \
    }
SYNC(fsync)
SYNC(fdatasync)

/* What is sent to another process cannot be taken back. */
EXPORT ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
    REAL(ssize_t, sendmsg, int, const struct msghdr *, int)
    char head[64];
    ssize_t r = LOCKED(ssize_t, real(fd, message, flags));

    if (r > 0 && log_fd >= 0 && message->msg_iovlen == 1) {
        (void)snprintf(head, sizeof(head), "say %zd\n", r);
        record(head, message->msg_iov[0].iov_base, (size_t)r);
    }
    UNLOCK();
    return r;
}

/* ---- names ---- */

static int open_noted(int (*real)(int, const char *, int, ...),
                      int dirfd,
                      const char *path,
                      int flags,
                      mode_t mode)
{
    char full[PATH_MAX];
    struct stat st;
    const char *name = flags & (O_CREAT | O_TRUNC) ? name_in(dirfd, path, full) : NULL;

    (void)pthread_mutex_lock(&mutex);
    bool was = name && fstatat(dirfd, path, &st, AT_SYMLINK_NOFOLLOW) == 0;
    int fd = real(dirfd, path, flags, mode);
    if (fd >= 0 && name && fstat(fd, &st) == 0) {
        if (!was)
            note_create("create", name, st.st_ino);
        else if (flags & O_TRUNC)
            note_number("truncate", fd, 0);
    }
    UNLOCK();
    return fd;
}

static mode_t mode_of(int flags, va_list args)
{
    return flags & (O_CREAT | O_TMPFILE) ? va_arg(args, mode_t) : 0;
}

#define OPEN(name, parameters, dirfd, path)                \
    EXPORT int name parameters                             \
    {                                                      \
        static int (*real)(int, const char *, int, ...);   \
        va_list args;                                      \
        if (!real)                                         \
            find_real((void *)&real, "openat64");          \
        va_start(args, flags);                             \
        mode_t mode = mode_of(flags, args);                \
        va_end(args);                                      \
        return open_noted(real, dirfd, path, flags, mode); \
    }
OPEN(open, (const char *path, int flags, ...), AT_FDCWD, path)
OPEN(open64, (const char *path, int flags, ...), AT_FDCWD, path)
OPEN(openat, (int dirfd, const char *path, int flags, ...), dirfd, path)
OPEN(openat64, (int dirfd, const char *path, int flags, ...), dirfd, path)

#define MKOSTEMP(function)                                                    \
    EXPORT int function(char *template, int flags)                            \
    {                                                                         \
        REAL(int, function, char *, int)                                      \
        char full[PATH_MAX];                                                  \
        struct stat st;                                                       \
        int fd = LOCKED(int, real(template, flags));                          \
        const char *name = fd < 0 ? NULL : name_in(AT_FDCWD, template, full); \
        if (name && fstat(fd, &st) == 0)                                      \
            note_create("create", name, st.st_ino);                           \
        UNLOCK();                                                             \
        return fd;                                                            \
    }
MKOSTEMP(mkostemp)
MKOSTEMP(mkostemp64)

static void note_made(int r, int dirfd, const char *path)
{
    char full[PATH_MAX];
    struct stat st;
    const char *name = r < 0 ? NULL : name_in(dirfd, path, full);

    if (name && fstatat(dirfd, path, &st, AT_SYMLINK_NOFOLLOW) == 0)
        note_create("folder", name, st.st_ino);
}

EXPORT int mkdir(const char *path, mode_t mode)
{
    REAL(int, mkdir, const char *, mode_t)
    int r = LOCKED(int, real(path, mode));

    note_made(r, AT_FDCWD, path);
    UNLOCK();
    return r;
}

EXPORT int mkdirat(int dirfd, const char *path, mode_t mode)
{
    REAL(int, mkdirat, int, const char *, mode_t)
    int r = LOCKED(int, real(dirfd, path, mode));

    note_made(r, dirfd, path);
    UNLOCK();
    return r;
}

static void note_rename(int r, const char *from, const char *to)
{
    char head[64];
    char both[2 * PATH_MAX];

    if (r < 0 || !from || !to)
        return;
    int n = snprintf(both, sizeof(both), "%s\n%s", from, to);
    (void)snprintf(head, sizeof(head), "rename %d\n", n);
    record(head, both, (size_t)n);
}

EXPORT int rename(const char *from, const char *to)
{
    REAL(int, rename, const char *, const char *)
    char a[PATH_MAX];
    char b[PATH_MAX];
    int r = LOCKED(int, real(from, to));

    note_rename(r, name_in(AT_FDCWD, from, a), name_in(AT_FDCWD, to, b));
    UNLOCK();
    return r;
}

EXPORT int renameat(int from_fd, const char *from, int to_fd, const char *to)
{
    REAL(int, renameat, int, const char *, int, const char *)
    char a[PATH_MAX];
    char b[PATH_MAX];
    int r = LOCKED(int, real(from_fd, from, to_fd, to));

    note_rename(r, name_in(from_fd, from, a), name_in(to_fd, to, b));
    UNLOCK();
    return r;
}

static void note_remove(int r, int dirfd, const char *path)
{
    char full[PATH_MAX];
    char head[64];
    const char *name = r < 0 ? NULL : name_in(dirfd, path, full);

    if (!name)
        return;
    (void)snprintf(head, sizeof(head), "remove %zu\n", strlen(name));
    record(head, name, strlen(name));
}

EXPORT int unlink(const char *path)
{
    REAL(int, unlink, const char *)
    int r = LOCKED(int, real(path));

    note_remove(r, AT_FDCWD, path);
    UNLOCK();
    return r;
}

EXPORT int unlinkat(int dirfd, const char *path, int flags)
{
    REAL(int, unlinkat, int, const char *, int)
    int r = LOCKED(int, real(dirfd, path, flags));

    note_remove(r, dirfd, path);
    UNLOCK();
    return r;
}
