#include "base/err.h"
#include "base/str.h"
#include "system/errors.h"
#include "system/files.h"
#include "workspace/disk.h"
#include "workspace/frame.h"
#include "workspace/manifest.h"
#include "workspace/results.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The pid keeps two at work in one folder apart. */
#define BESIDE_NAME ".muster-pull-%d"

int results_sink_open(struct results_sink *sink, const char *folder, bool force, struct err *err)
{
    int r = disk_make_folders(folder);

    *sink = (struct results_sink){
        .root_fd = -1, .force = force, .fd = -1, .parent_fd = -1, .walk = DISK_WALK_NONE};
    if (r == 0) {
        sink->root_fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        r = sink->root_fd < 0 ? -errno : 0;
    }
    return r < 0 ? err_set(err, r, "%s: %s", folder, errno_words(-r)) : 0;
}

/* What has been written of the file goes. */
static void drop(struct results_sink *sink)
{
    if (sink->fd < 0)
        return;
    close(sink->fd);
    (void)unlinkat(sink->parent_fd, sink->beside, 0);
    sink->fd = sink->parent_fd = -1;
    sink->cut_count++;
}

void results_sink_done(struct results_sink *sink)
{
    drop(sink);
    disk_walk_done(&sink->walk);
    disk_closep(&sink->root_fd);
    sink->root_fd = -1;
}

static const char *last_part(const struct results_sink *sink)
{
    const char *slash = strrchr(sink->path, '/');

    return slash ? slash + 1 : sink->path;
}

bool results_exists(int root_fd, struct str path)
{
    struct stat st;
    struct str folder = manifest_parent(path);
    char name[WS_NAME_MAX + 1];
    struct str last = str_sub(path, folder.len ? folder.len + 1 : 0, path.len);
    int fd = results_folder(root_fd, folder);
    bool there;

    if (fd < 0)
        return fd != -ENOENT;
    if (last.len >= sizeof(name)) {
        close(fd);
        return false;
    }
    memcpy(name, last.p, last.len);
    name[last.len] = '\0';
    there = fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
    close(fd);
    return there;
}

static int begin(struct results_sink *sink, const struct frame_blob *blob, struct err *err)
{
    int r = manifest_check_path(blob->path, err);
    const char *name;
    struct stat st;

    if (r < 0)
        return r;
    if (blob->offset || blob->size > WS_BYTES_MAX || sink->file_count >= RESULTS_FILES_MAX)
        return err_set(err, -EPROTO,
                       "'" STR_FMT "' does not start at offset 0, or is longer than announced",
                       STR_ARG(blob->path));
    memcpy(sink->path, blob->path.p, blob->path.len);
    sink->path[blob->path.len] = '\0';
    sink->size = blob->size;
    sink->have = 0;
    sink->mode = blob->mode;
    sink->parent_fd =
        disk_parent(&sink->walk, sink->root_fd, str_from(sink->path), 0777, &name, NULL);
    if (sink->parent_fd < 0)
        return err_set(err, sink->parent_fd, "'%s': its folder is a link or not a folder (%s)",
                       sink->path, errno_words(-sink->parent_fd));
    if (!sink->force && fstatat(sink->parent_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0)
        r = err_set(err, -EEXIST, "'%s' is there already; --force replaces it", sink->path);
    (void)snprintf(sink->beside, sizeof(sink->beside), BESIDE_NAME, (int)getpid());
    if (r == 0) {
        (void)unlinkat(sink->parent_fd, sink->beside, 0);
        sink->fd = openat(sink->parent_fd, sink->beside,
                          O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (sink->fd < 0)
            r = err_set(err, -errno, "'%s': %s", sink->path, errno_words(errno));
    }
    if (r < 0)
        sink->parent_fd = -1;
    return r;
}

/* Into its place; what came to be there meanwhile stays. */
static int place(struct results_sink *sink)
{
    const char *name = last_part(sink);
    struct stat st;

    if (!sink->force) {
        if (file_rename_new(sink->parent_fd, sink->beside, name) == 0)
            return 0;
        if (errno != EINVAL)
            return -errno;
        if (fstatat(sink->parent_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0)
            return -EEXIST;
    }
    return renameat(sink->parent_fd, sink->beside, sink->parent_fd, name) < 0 ? -errno : 0;
}

static int finish(struct results_sink *sink, struct err *err)
{
    mode_t mask = umask(0);
    int r;

    (void)umask(mask);
    r = fchmod(sink->fd, ((sink->mode & 0777) & ~mask) | 0600) < 0 ? -errno : place(sink);
    if (r < 0) {
        drop(sink);
        return err_set(err, r, "'%s': %s", sink->path, errno_words(-r));
    }
    close(sink->fd);
    sink->fd = sink->parent_fd = -1;
    sink->file_count++;
    return 0;
}

int results_put(struct results_sink *sink, const struct frame_blob *blob, struct err *err)
{
    int r = 0;

    if (sink->fd >= 0 && !str_is(blob->path, sink->path))
        drop(sink); /* its end did not come */
    if (sink->fd < 0)
        r = begin(sink, blob, err);
    if (r < 0)
        return r;
    if (blob->offset != sink->have || blob->size != sink->size ||
        blob->bytes.len > sink->size - sink->have) {
        drop(sink);
        return err_set(err, -EPROTO, "'%s': a piece that is not the next one", sink->path);
    }
    sink->bytes += blob->bytes.len;
    if (sink->bytes_max && sink->bytes > sink->bytes_max) {
        drop(sink);
        return err_set(err, -EFBIG, "'%s': more content arrives than was announced", sink->path);
    }
    r = disk_write(sink->fd, blob->bytes);
    if (r < 0) {
        drop(sink);
        return err_set(err, r, "'%s': %s", sink->path, errno_words(-r));
    }
    sink->have += blob->bytes.len;
    return sink->have == sink->size ? finish(sink, err) : 0;
}
