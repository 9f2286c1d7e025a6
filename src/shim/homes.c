#include "shim/openin.h"
#include "shim/parts.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* shim_homes: of folders in which everybody has one, a pod sees its own user's. */
#define KEEPS_MAX 16

/* The folder `path` inside the root, made with its parents where missing; a descriptor. */
int folder_make_in(int root_fd, const char *path)
{
    int fd = open_in(root_fd, path, O_PATH | O_DIRECTORY, 0644);
    if (fd >= 0 || fd == -ENOTDIR)
        return fd;
    char piece[PATH_MAX];
    size_t len = strlen(path);
    if (len >= sizeof(piece))
        return -ENAMETOOLONG;
    int at = open_in(root_fd, "/", O_PATH | O_DIRECTORY, 0644);
    for (size_t i = 0; i <= len && at >= 0; i++) {
        if (i < len && path[i] != '/')
            continue;
        memcpy(piece, path, i);
        piece[i] = '\0';
        const char *name = strrchr(piece, '/');
        name = name ? name + 1 : piece;
        if (!*name)
            continue;
        if (mkdirat(at, name, 0755) < 0 && errno != EEXIST) {
            int r = -errno;
            close(at);
            return r;
        }
        close(at);
        at = open_in(root_fd, piece, O_PATH | O_DIRECTORY, 0644);
    }
    return at;
}

static int shut_one(int root_fd, const char *path, char words[static 256])
{
    char to[32];
    int fd = open_in(root_fd, path, O_PATH | O_DIRECTORY, 0);
    if (fd < 0)
        return 0; /* nothing to shut */
    (void)snprintf(to, sizeof(to), "/proc/self/fd/%d", fd);
    int r = mount("tmpfs", to, "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755,size=64k");
    close(fd);
    return r < 0 ? shim_fail(words, "shut", path) : 0;
}

static int keep_one(int root_fd, const char *path, int tree, char words[static 256])
{
    int fd = folder_make_in(root_fd, path);
    if (fd < 0) {
        errno = -fd;
        return shim_fail(words, "make mount point", path);
    }
    long r = syscall(SYS_move_mount, tree, "", fd, "",
                     MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH);
    close(fd);
    return r < 0 ? shim_fail(words, "keep", path) : 0;
}

/* What is kept is taken out first, with the layer it is written to, and put back when the folders
 * around it are empty. */
int homes_shut(int root_fd, const struct records *spec, char words[static 256])
{
    int trees[KEEPS_MAX], r = 0;
    size_t count = 0, at = 0;
    struct record record;
    for (size_t next = 0; count < KEEPS_MAX && records_next(spec, &next, &record);) {
        if (!record_is(&record, "keep"))
            continue;
        int fd = open_trusted(root_fd, record.value, O_PATH | O_DIRECTORY);
        unsigned flags = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH | AT_RECURSIVE;
        trees[count++] = fd < 0 ? -1 : (int)syscall(SYS_open_tree, fd, "", flags);
        if (fd >= 0)
            close(fd);
    }
    for (size_t next = 0; r == 0 && records_next(spec, &next, &record);)
        if (record_is(&record, "shut"))
            r = shut_one(root_fd, record.value, words);
    for (size_t next = 0; at < count && records_next(spec, &next, &record);) {
        if (!record_is(&record, "keep"))
            continue;
        int tree = trees[at++];
        if (r == 0 && tree >= 0)
            r = keep_one(root_fd, record.value, tree, words);
        if (tree >= 0)
            close(tree);
    }
    return r;
}
