#include "system/files.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#ifdef __linux__

struct timespec file_modified(const struct stat *st)
{
    return st->st_mtim;
}

struct timespec file_changed(const struct stat *st)
{
    return st->st_ctim;
}

struct timespec file_clock(void)
{
    struct timespec now = {0};

    (void)clock_gettime(CLOCK_REALTIME_COARSE, &now);
    return now;
}

int file_open_unnamed(const char *folder)
{
    return open(folder, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
}

int file_open_nameless(int folder_fd)
{
    return openat(folder_fd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
}

int file_give_name(int fd, int folder_fd, const char *name)
{
    char path[32];

    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    return linkat(AT_FDCWD, path, folder_fd, name, AT_SYMLINK_FOLLOW);
}

int file_open_regular(int parent_fd, const char *name, dev_t device, struct stat *ret)
{
    char again[32];
    int r;
    int fd = -1;
    int found = openat(parent_fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);

    if (found < 0)
        return -errno;
    if (fstat(found, ret) < 0)
        r = -errno;
    else if (!S_ISREG(ret->st_mode) || ret->st_dev != device)
        r = -FILE_OTHER_KIND;
    else {
        (void)snprintf(again, sizeof(again), "/proc/self/fd/%d", found);
        fd = open(again, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
        r = -errno;
    }
    close(found);
    return fd >= 0 ? fd : r;
}

int file_rename_new(struct file_name from, struct file_name to)
{
    return renameat2(from.folder_fd, from.name, to.folder_fd, to.name, RENAME_NOREPLACE);
}

int file_exchange(struct file_name a, struct file_name b)
{
    return renameat2(a.folder_fd, a.name, b.folder_fd, b.name, RENAME_EXCHANGE);
}

int private_file_open(struct private_file *file, const char *name)
{
    file->fd = memfd_create(name, MFD_CLOEXEC);
    if (file->fd < 0)
        return -1;
    (void)snprintf(file->path, sizeof(file->path), "/proc/self/fd/%d", file->fd);
    return 0;
}

void private_file_close(struct private_file *file)
{
    if (file->fd >= 0)
        (void)close(file->fd);
    file->fd = -1;
}

#else /* macOS: compiled by tests/portable.py, and so far run by nobody */

struct timespec file_modified(const struct stat *st)
{
    return st->st_mtimespec;
}

struct timespec file_changed(const struct stat *st)
{
    return st->st_ctimespec;
}

struct timespec file_clock(void)
{
    struct timespec now = {0};

    (void)clock_gettime(CLOCK_REALTIME, &now);
    return now;
}

int file_open_unnamed(const char *folder)
{
    char path[PATH_MAX];
    int n = snprintf(path, sizeof(path), "%s/.muster-XXXXXX", folder);

    if (n < 0 || n >= (int)sizeof(path)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    int fd = mkostemp(path, O_CLOEXEC);
    if (fd >= 0)
        (void)unlink(path);
    return fd;
}

/* Without O_PATH it is looked at first, and once more when it is open: what was put there between is closed again. */
int file_open_regular(int parent_fd, const char *name, dev_t device, struct stat *ret)
{
    struct stat opened;

    if (fstatat(parent_fd, name, ret, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    if (!S_ISREG(ret->st_mode) || ret->st_dev != device)
        return -FILE_OTHER_KIND;
    int fd = openat(parent_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    if (fstat(fd, &opened) == 0 && S_ISREG(opened.st_mode) && opened.st_dev == device) {
        *ret = opened;
        return fd;
    }
    (void)close(fd);
    return -ENOENT; /* gone meanwhile */
}

int file_open_nameless(int folder_fd)
{
    (void)folder_fd;
    errno = ENOTSUP;
    return -1;
}

int file_give_name(int fd, int folder_fd, const char *name)
{
    (void)fd;
    (void)folder_fd;
    (void)name;
    errno = ENOTSUP;
    return -1;
}

int file_rename_new(struct file_name from, struct file_name to)
{
    int r = renameatx_np(from.folder_fd, from.name, to.folder_fd, to.name, RENAME_EXCL);

    if (r < 0 && errno == ENOTSUP)
        errno = EINVAL;
    return r;
}

int file_exchange(struct file_name a, struct file_name b)
{
    int r = renameatx_np(a.folder_fd, a.name, b.folder_fd, b.name, RENAME_SWAP);

    if (r < 0 && errno == ENOTSUP)
        errno = EINVAL;
    return r;
}

/* Not /dev/fd/N: what opens that shares the place in the file, and the second reader would find its end. */
int private_file_open(struct private_file *file, const char *name)
{
    (void)snprintf(file->path, sizeof(file->path), "/tmp/%.32s-XXXXXX", name);
    file->fd = mkostemp(file->path, O_CLOEXEC);
    return file->fd < 0 ? -1 : 0;
}

void private_file_close(struct private_file *file)
{
    if (file->fd < 0)
        return;
    (void)unlink(file->path);
    (void)close(file->fd);
    file->fd = -1;
}

#endif
