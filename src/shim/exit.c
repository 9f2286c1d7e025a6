#include "shim/parts.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* shim_exit: what is known of a container when the shim, muster or the machine is gone: two files,
 * on the disk before anything is built on them. */

/* The name of a file is safe when its folder is. */
static int sync_folder(const char *path)
{
    char folder[SHIM_PATH_BYTES];
    const char *slash = strrchr(path, '/');
    (void)snprintf(folder, sizeof(folder), "%.*s", slash ? (int)(slash - path) : 1,
                   slash ? path : ".");
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int r = fd < 0 || fsync(fd) < 0 ? -errno : 0;
    if (fd >= 0)
        close(fd);
    return r;
}

static int write_synced(const char *path, const char *text)
{
    size_t len = strlen(text), done = 0;
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    int r = fd < 0 ? -errno : 0;
    while (r == 0 && done < len) {
        ssize_t n = write(fd, text + done, len - done);
        if (n > 0)
            done += (size_t)n;
        else if (n == 0 || errno != EINTR)
            r = n == 0 ? -ENOSPC : -errno;
    }
    if (r == 0 && fsync(fd) < 0)
        r = -errno;
    if (fd >= 0)
        close(fd);
    return r;
}

int exit_begin(const char *path)
{
    if (access(path, F_OK) == 0)
        return -EEXIST;
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return -errno;
    close(fd);
    return 0;
}

/* There is nothing in it: its name is all that has to last. */
int exit_begun(const char *path)
{
    int r = sync_folder(path);
    if (r) {
        int gone = unlink(path);
        (void)gone; /* where it stays, the instance ends without having been started */
    }
    return r;
}

int exit_write(const char *path, const char *text)
{
    char next[SHIM_PATH_BYTES];
    int n = snprintf(next, sizeof(next), "%s.new", path);
    if (n < 0 || (size_t)n >= sizeof(next))
        return -ENAMETOOLONG;
    int r = write_synced(next, text);
    if (r == 0 && rename(next, path) < 0)
        r = -errno;
    return r ? r : sync_folder(path);
}
