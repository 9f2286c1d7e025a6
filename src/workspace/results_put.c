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

#define NS_PER_SECOND 1000000000LL
#define ASIDE_MAX     9 /* files beside one that may not be replaced: NAME.JOB, NAME.JOB.2, ... */
/* The pid keeps two at work in one folder apart. */
#define BESIDE_NAME ".muster-pull-%d"

int64_t results_ns(struct timespec time)
{
    return (int64_t)time.tv_sec * NS_PER_SECOND + time.tv_nsec;
}

struct results_id results_id(const struct stat *st)
{
    return (struct results_id){.inode = (uint64_t)st->st_ino,
                               .size = (uint64_t)st->st_size,
                               .modified_ns = results_ns(file_modified(st)),
                               .changed_ns = results_ns(file_changed(st))};
}

bool results_id_eq(const struct results_id *a, const struct results_id *b)
{
    return a->inode && a->inode == b->inode && a->size == b->size &&
           a->modified_ns == b->modified_ns && a->changed_ns == b->changed_ns;
}

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

/* Opens the folder of a path that was checked, for a file beside its place. */
static int begin_at(struct results_sink *sink, struct str path, struct err *err)
{
    const char *name;
    struct stat st;
    int r = 0;

    memcpy(sink->path, path.p, path.len);
    sink->path[path.len] = '\0';
    sink->old = sink->expect ? *sink->expect : (struct results_id){0};
    sink->parent_fd =
        disk_parent(&sink->walk, sink->root_fd, str_from(sink->path), 0777, &name, NULL);
    if (sink->parent_fd < 0)
        return err_set(err, sink->parent_fd, "'%s': its folder is a link or not a folder (%s)",
                       sink->path, errno_words(-sink->parent_fd));
    if (!sink->force && !sink->expect && !sink->aside &&
        fstatat(sink->parent_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0)
        r = err_set(err, -EEXIST, "'%s' is there already; --force replaces it", sink->path);
    (void)snprintf(sink->beside, sizeof(sink->beside), BESIDE_NAME, (int)getpid());
    if (r == 0)
        (void)unlinkat(sink->parent_fd, sink->beside, 0);
    else
        sink->parent_fd = -1;
    return r;
}

static int begin(struct results_sink *sink, const struct frame_blob *blob, struct err *err)
{
    int r = manifest_check_path(blob->path, err);

    if (r < 0)
        return r;
    if (blob->offset || blob->size > WS_BYTES_MAX || sink->file_count >= RESULTS_FILES_MAX)
        return err_set(err, -EPROTO,
                       "'" STR_FMT "' does not start at offset 0, or is longer than announced",
                       STR_ARG(blob->path));
    sink->size = blob->size;
    sink->have = 0;
    sink->mode = blob->mode;
    r = begin_at(sink, blob->path, err);
    if (r == 0) {
        sink->fd = openat(sink->parent_fd, sink->beside,
                          O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (sink->fd < 0)
            r = err_set(err, -errno, "'%s': %s", sink->path, errno_words(errno));
    }
    if (r < 0)
        sink->parent_fd = -1;
    return r;
}

static int place_new(struct results_sink *sink, const char *name)
{
    struct stat st;

    if (file_rename_new(sink->parent_fd, sink->beside, name) == 0)
        return 0;
    if (errno != EINVAL)
        return -errno;
    if (fstatat(sink->parent_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0)
        return -EEXIST;
    return renameat(sink->parent_fd, sink->beside, sink->parent_fd, name) < 0 ? -errno : 0;
}

/* What is replaced is kept as it is, unless it came from the same job. */
static int keep_replaced(struct results_sink *sink, const char *from)
{
    static const char ignore[] = WS_PRIVATE_DIR "/.gitignore";
    struct disk_walk walk = DISK_WALK_NONE;
    char path[sizeof(RESULTS_REPLACED) + sizeof(sink->path) + WS_NAME_MAX];
    const char *name;

    if (sink->drop)
        return unlinkat(sink->parent_fd, from, 0) < 0 ? -errno : 0;
    int n = snprintf(path, sizeof(path), RESULTS_REPLACED "/%s/%s",
                     sink->aside ? sink->aside + 1 : "any", sink->path);
    int parent = n < 0 || n > WS_PATH_MAX
                     ? -ENAMETOOLONG
                     : disk_parent(&walk, sink->root_fd, str_from(path), 0777, &name, NULL);
    int r = parent < 0 ? parent : 0;

    if (r == 0 && renameat(sink->parent_fd, from, parent, name) < 0)
        r = -errno;
    int fd = openat(sink->root_fd, ignore, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd >= 0) {
        (void)disk_write(fd, STR("*\n"));
        close(fd);
    }
    disk_walk_done(&walk);
    return r;
}

/* The new file and the old one change places: so whatever is there at that moment is in our hands. If it is not
 * what was looked at, or cannot be kept, it goes back. -ESTALE: it did. */
static int place_over(struct results_sink *sink, const char *name)
{
    struct stat st;
    struct results_id out;

    if (file_exchange(sink->parent_fd, sink->beside, name) < 0) {
        int why = -errno;

        if (why == -EINVAL) /* a volume that cannot: one after the other */
            why = keep_replaced(sink, name);
        return why == 0 || why == -ENOENT ? place_new(sink, name) : why;
    }
    int r = fstatat(sink->parent_fd, sink->beside, &st, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
    out = r == 0 ? results_id(&st) : (struct results_id){0};
    out.changed_ns = sink->old.changed_ns; /* the exchange itself has changed it */
    if (r == 0 && !results_id_eq(&out, &sink->old))
        r = -ESTALE;
    if (r == 0)
        r = keep_replaced(sink, sink->beside);
    if (r < 0)
        (void)file_exchange(sink->parent_fd, sink->beside, name);
    return r;
}

/* Looked at once more just before: what was written to the file since then shows in its size or times. */
static bool is_as_expected(const struct results_sink *sink, const char *name)
{
    struct stat st;
    struct results_id now;

    if (fstatat(sink->parent_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return false;
    now = results_id(&st);
    return results_id_eq(&now, &sink->old);
}

static int place_aside(struct results_sink *sink, const char *name)
{
    size_t len = strlen(sink->path);
    int r = -EEXIST;

    for (int i = 1; r == -EEXIST && i <= ASIDE_MAX; i++) {
        char end[WS_NAME_MAX + 1];
        char other[2 * WS_NAME_MAX + 1];

        (void)snprintf(end, sizeof(end), i > 1 ? "%s.%d" : "%s", sink->aside, i);
        if (strlen(name) + strlen(end) >= sizeof(other) || len + strlen(end) >= sizeof(sink->path))
            return -ENAMETOOLONG;
        (void)snprintf(other, sizeof(other), "%.*s%s", WS_NAME_MAX, name, end);
        r = place_new(sink, other);
        if (r == 0)
            (void)snprintf(sink->path + len, sizeof(sink->path) - len, "%s", end);
    }
    return r;
}

/* Into its place; what came to be there meanwhile stays. */
static int place(struct results_sink *sink)
{
    const char *name = last_part(sink);
    int r;

    if (sink->force)
        return renameat(sink->parent_fd, sink->beside, sink->parent_fd, name) < 0 ? -errno : 0;
    if (!sink->old.inode)
        r = place_new(sink, name);
    else
        r = is_as_expected(sink, name) ? place_over(sink, name) : -ESTALE;
    return (r == -EEXIST || r == -ESTALE) && sink->aside ? place_aside(sink, name) : r;
}

/* `fd` -1: of a link, whose name says what it is. */
static void tell_placed(struct results_sink *sink, int fd)
{
    struct stat st;
    int r = fd >= 0 ? fstat(fd, &st)
                    : fstatat(sink->parent_fd, last_part(sink), &st, AT_SYMLINK_NOFOLLOW);
    struct results_id id = r == 0 ? results_id(&st) : (struct results_id){0};

    sink->file_count++;
    if (sink->placed)
        sink->placed(sink->placed_user, sink->path, &id);
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
    tell_placed(sink, sink->fd);
    close(sink->fd);
    sink->fd = sink->parent_fd = -1;
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

int results_put_link(struct results_sink *sink, const struct ws_entry *entry, struct err *err)
{
    char target[WS_PATH_MAX + 1];
    int r = manifest_check_entry(entry, err);

    drop(sink); /* the end of the file before it did not come */
    if (r == 0 && (entry->type != WS_LINK || sink->file_count >= RESULTS_FILES_MAX))
        r = err_set(err, -EPROTO, "'" STR_FMT "' is no link, or one too many",
                    STR_ARG(entry->path));
    if (r == 0)
        r = begin_at(sink, entry->path, err);
    if (r < 0)
        return r;
    (void)snprintf(target, sizeof(target), STR_FMT, STR_ARG(entry->target));
    r = symlinkat(target, sink->parent_fd, sink->beside) < 0 ? -errno : place(sink);
    if (r == 0)
        tell_placed(sink, -1);
    else
        (void)unlinkat(sink->parent_fd, sink->beside, 0);
    sink->parent_fd = -1;
    return r < 0 ? err_set(err, r, "'%s': %s", sink->path, errno_words(-r)) : 0;
}
