#include "tool/file.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/str.h"
#include "system/errors.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#define PIECE_BYTES ((size_t)64 << 10)

static void close_fd(const int *fd)
{
    if (*fd > STDERR_FILENO)
        (void)close(*fd);
}

static int file_fail(struct err *err, int code, const char *path)
{
    return err_set(err, -code, "%s: %s", path, errno_words(code));
}

static int read_all(int fd, struct buf *buf)
{
    for (;;) {
        char *room = buf_room(buf, PIECE_BYTES);
        ssize_t got;

        if (!room)
            return -EFBIG;
        got = read(fd, room, PIECE_BYTES);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return got < 0 ? -errno : 0;
        buf->len += (size_t)got;
    }
}

int file_read(struct arena *arena, const char *path, struct str *ret, struct err *err)
{
    _cleanup_(buf_done) struct buf buf = {.bytes_max = FILE_BYTES_MAX};
    _cleanup_(close_fd) int fd =
        strcmp(path, "-") == 0 ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);

    if (fd < 0)
        return file_fail(err, errno, path);
    int r = read_all(fd, &buf);
    if (r < 0)
        return file_fail(err, -r, path);
    *ret = str_dup(arena, buf_str(&buf));
    return 0;
}

static int write_all(int fd, struct str content)
{
    while (content.len) {
        ssize_t put = write(fd, content.p, content.len);

        if (put < 0 && errno != EINTR)
            return -1;
        if (put > 0)
            content = str_sub(content, (size_t)put, content.len);
    }
    return 0;
}

/* A name is on the disk when its folder is. One that cannot be synced keeps names anyhow, or no
 * file at all. */
static int folder_sync(const char *path)
{
    char folder[PATH_MAX];
    const char *slash = strrchr(path, '/');
    int len = slash == path ? 1 : slash ? (int)(slash - path) : 1;

    (void)snprintf(folder, sizeof(folder), "%.*s", len, slash ? path : ".");
    _cleanup_(close_fd) int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd >= 0 && fsync(fd) < 0 && errno == EIO ? -EIO : 0;
}

int file_replace(const char *path, struct str content, mode_t mode, struct err *err)
{
    char beside[PATH_MAX];
    int len = snprintf(beside, sizeof(beside), "%s.XXXXXX", path);

    if (len < 0 || (size_t)len >= sizeof(beside))
        return err_set(err, -ENAMETOOLONG, "%.80s...: the name is too long", path);
    _cleanup_(close_fd) int fd = mkostemp(beside, O_CLOEXEC);
    if (fd < 0)
        return file_fail(err, errno, path);
    if (write_all(fd, content) < 0 || fchmod(fd, mode) < 0 || fsync(fd) < 0 ||
        rename(beside, path) < 0) {
        int code = errno;

        (void)unlink(beside);
        return file_fail(err, code, path);
    }
    int r = folder_sync(path);
    return r < 0 ? file_fail(err, -r, path) : 0;
}
