#include "workspace/disk.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "system/errors.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define COPY_BYTES 65536

void disk_closep(int *fd)
{
    if (*fd >= 0)
        close(*fd);
}

int disk_write(int fd, struct str bytes)
{
    while (bytes.len) {
        ssize_t done = write(fd, bytes.p, bytes.len);

        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return -errno;
        bytes = str_sub(bytes, (size_t)done, bytes.len);
    }
    return 0;
}

bool disk_is_hole(struct str bytes)
{
    return bytes.len && bytes.p[0] == '\0' && memcmp(bytes.p, bytes.p + 1, bytes.len - 1) == 0;
}

int disk_write_sparse(int fd, struct str bytes)
{
    bool hole = false;

    while (bytes.len) {
        struct str block = str_sub(bytes, 0, COPY_BYTES);
        int r = 0;

        bytes = str_sub(bytes, block.len, bytes.len);
        hole = disk_is_hole(block) && lseek(fd, (off_t)block.len, SEEK_CUR) >= 0;
        if (!hole)
            r = disk_write(fd, block);
        if (r < 0)
            return r;
    }
    /* A hole at the end is part of the file only if its size says so. */
    return hole && ftruncate(fd, lseek(fd, 0, SEEK_CUR)) < 0 ? -errno : 0;
}

int disk_copy(int from, int to)
{
    char block[COPY_BYTES];

    for (;;) {
        ssize_t got = read(from, block, sizeof(block));
        int r;

        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return got < 0 ? -errno : 0;
        r = disk_write_sparse(to, (struct str){block, (size_t)got});
        if (r < 0)
            return r;
    }
}

int disk_remove(int parent, const char *name)
{
    struct dirent *item;
    DIR *dir;
    int fd;

    if (unlinkat(parent, name, 0) == 0 || errno == ENOENT)
        return 0;
    if (errno != EISDIR && errno != EPERM)
        return -errno;
    fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir) {
        disk_closep(&fd);
        return -errno;
    }
    while ((item = readdir(dir)) != NULL)
        if (strcmp(item->d_name, ".") != 0 && strcmp(item->d_name, "..") != 0)
            (void)disk_remove(fd, item->d_name);
    closedir(dir);
    return unlinkat(parent, name, AT_REMOVEDIR) < 0 ? -errno : 0;
}

int disk_remove_path(const char *path)
{
    return disk_remove(AT_FDCWD, path);
}

int disk_make_folders(const char *folder)
{
    char path[PATH_MAX];
    size_t len = strlen(folder);

    if (len >= sizeof(path))
        return -ENAMETOOLONG;
    for (size_t i = 1; i <= len; i++) {
        if (i < len && folder[i] != '/')
            continue;
        memcpy(path, folder, i);
        path[i] = '\0';
        if (mkdir(path, 0777) < 0 && errno != EEXIST)
            return -errno;
    }
    return 0;
}

static int open_folder(int parent, const char *name, mode_t make)
{
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (fd < 0 && errno == ENOENT && make && (mkdirat(parent, name, make) == 0 || errno == EEXIST))
        fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd;
}

int disk_parent(struct disk_walk *walk,
                int root,
                struct str path,
                mode_t make,
                const char **ret_name,
                struct err *err)
{
    struct str folder = manifest_parent(path);
    struct str part;
    int fd;

    *ret_name = path.p + folder.len + (folder.len ? 1 : 0);
    if (folder.len == 0)
        return root;
    if (walk->fd >= 0 && str_is(folder, walk->path))
        return walk->fd;
    fd = fcntl(root, F_DUPFD_CLOEXEC, 3);
    for (struct str rest = folder; fd >= 0 && str_cut(&rest, '/', &part);) {
        char name[WS_NAME_MAX + 1];
        int next;

        memcpy(name, part.p, part.len);
        name[part.len] = '\0';
        next = open_folder(fd, name, make);
        int why = errno;
        close(fd);
        errno = why;
        fd = next;
    }
    if (fd < 0)
        return err_set(err, -errno, "'" STR_FMT "': %s", STR_ARG(folder), errno_words(errno));
    disk_walk_done(walk);
    walk->fd = fd;
    memcpy(walk->path, folder.p, folder.len);
    walk->path[folder.len] = '\0';
    return fd;
}

void disk_walk_done(struct disk_walk *walk)
{
    if (walk->fd >= 0)
        close(walk->fd);
    walk->fd = -1;
    walk->path[0] = '\0';
}
