#include "tool/files.h"

#include "base/buf.h"
#include "base/err.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define REMOVE_FDS 32 /* folders nftw() keeps open */

int files_make_folder(const char *path, mode_t mode, struct err *err)
{
    char parent[PATH_MAX];
    size_t len = strlen(path);
    if (len >= sizeof(parent))
        return err_set(err, -ENAMETOOLONG, "%.80s...: path too long", path);
    if (mkdir(path, mode) == 0 || errno == EEXIST)
        return 0;
    int r = -errno;
    const char *slash = strrchr(path, '/');
    if (r == -ENOENT && slash && slash != path) {
        memcpy(parent, path, len + 1);
        parent[slash - path] = '\0';
        r = files_make_folder(parent, 0755, err);
        if (r)
            return r;
        r = mkdir(path, mode) == 0 || errno == EEXIST ? 0 : -errno;
    }
    return r ? err_set(err, r, "cannot create folder %s: %s", path, strerrordesc_np(-r)) : 0;
}

static int write_all(int fd, struct str content)
{
    while (content.len) {
        ssize_t n = write(fd, content.p, content.len);
        if (n < 0 && errno != EINTR)
            return -errno;
        if (n > 0)
            content = str_sub(content, (size_t)n, content.len);
    }
    return 0;
}

int files_write(const char *path, struct str content, mode_t mode, struct err *err)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, mode);
    int r = fd < 0 ? -errno : write_all(fd, content);
    if (fd >= 0) {
        (void)fchmod(fd, mode);
        close(fd);
    }
    return r ? err_set(err, r, "cannot write %s: %s", path, strerrordesc_np(-r)) : 0;
}

int files_rewrite(const char *path, struct str content, struct err *err)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
    int r = fd < 0 ? -errno : write_all(fd, content);
    if (r == 0 && ftruncate(fd, (off_t)content.len) < 0)
        r = -errno;
    if (fd >= 0)
        close(fd);
    return r ? err_set(err, r, "cannot write %s: %s", path, strerrordesc_np(-r)) : 0;
}

bool files_read(const char *path, size_t bytes_max, struct buf *ret)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return false;
    buf_clear(ret);
    while (ret->len < bytes_max) {
        size_t want = bytes_max - ret->len < 65536 ? bytes_max - ret->len : 65536;
        char *room = buf_room(ret, want);
        ssize_t n = room ? read(fd, room, want) : 0;
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        ret->len += (size_t)n;
    }
    close(fd);
    return true;
}

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *walk)
{
    (void)st;
    (void)walk;
    int r = flag == FTW_DP || flag == FTW_D || flag == FTW_DNR ? rmdir(path) : unlink(path);
    (void)r; /* what cannot go now stays for the next clean-up */
    return 0;
}

void files_remove(const char *path)
{
    (void)nftw(path, remove_one, REMOVE_FDS, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}
