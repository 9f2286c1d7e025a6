#include "base/err.h"
#include "base/str.h"
#include "system/errors.h"
#include "system/files.h"
#include "workspace/disk.h"
#include "workspace/frame.h"
#include "workspace/manifest.h"
#include "workspace/results.h"
#include "workspace/rules.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_SECOND 1000000000LL
#define SAME_BYTES    32768
#define KEPT_PATH     (sizeof(RESULTS_REPLACED) + WS_PATH_MAX + WS_NAME_MAX + 16)
#define ASIDE_MAX     9 /* files beside one that may not be replaced: NAME.JOB, NAME.JOB.2, ... */
/* Where a volume has no files without a name. The pid keeps two at work in one folder apart. */
#define BESIDE_NAME  RULES_CUT_NAME "%d"
#define BESIDE_BYTES (sizeof(RULES_CUT_NAME) + 11)
#define LEFT_S       600 /* of another machine, whose processes we do not know, it may be at work */

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

    *sink = (struct results_sink){.root_fd = -1,
                                  .force = force,
                                  .fd = -1,
                                  .parent_fd = -1,
                                  .at_fd = -1,
                                  .walk = DISK_WALK_NONE,
                                  .kept_walk = DISK_WALK_NONE};
    if (r == 0) {
        sink->root_fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        r = sink->root_fd < 0 ? -errno : 0;
    }
    return r < 0 ? err_set(err, r, "%s: %s", folder, errno_words(-r)) : 0;
}

/* Where the file that is being written stands for now; no name: it has none. */
static void forget_name(struct results_sink *sink)
{
    sink->at_fd = -1;
    sink->at_name[0] = '\0';
}

/* What has been written of the file goes. */
static void drop(struct results_sink *sink)
{
    if (sink->fd >= 0)
        sink->cut_count++;
    if (sink->at_name[0])
        (void)unlinkat(sink->at_fd, sink->at_name, 0);
    forget_name(sink);
    disk_closep(&sink->fd);
    sink->fd = sink->parent_fd = -1;
}

void results_sink_done(struct results_sink *sink)
{
    drop(sink);
    disk_walk_done(&sink->walk);
    disk_walk_done(&sink->kept_walk);
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

/* What a copy left that was killed: nobody writes to it any more. Once a folder. */
static void clear_left(struct results_sink *sink)
{
    struct stat st;
    DIR *dir = NULL;
    uint64_t pid;

    if (fstat(sink->parent_fd, &st) < 0 || st.st_ino == sink->cleared)
        return;
    sink->cleared = st.st_ino;
    int fd = openat(sink->parent_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0 && !(dir = fdopendir(fd)))
        close(fd);
    for (struct dirent *e; dir && (e = readdir(dir));) {
        struct str name = str_from(e->d_name);

        if (str_starts(name, STR(RULES_CUT_NAME)) &&
            str_to_u64(str_sub(name, strlen(RULES_CUT_NAME), name.len), &pid) && pid <= INT_MAX &&
            kill((pid_t)pid, 0) < 0 && errno == ESRCH &&
            fstatat(fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
            st.st_mtime < time(NULL) - LEFT_S)
            (void)unlinkat(fd, e->d_name, 0);
    }
    if (dir)
        closedir(dir);
}

/* Opens the folder of a path that was checked. */
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
    clear_left(sink);
    if (!sink->force && !sink->expect && !sink->aside &&
        fstatat(sink->parent_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0)
        r = err_set(err, -EEXIST, "'%s' is there already; --force replaces it", sink->path);
    if (r < 0)
        sink->parent_fd = -1;
    return r;
}

/* A name of our own in the file's folder. */
static void name_beside(struct results_sink *sink)
{
    (void)snprintf(sink->at_name, sizeof(sink->at_name), BESIDE_NAME, (int)getpid());
    sink->at_fd = sink->parent_fd;
    (void)unlinkat(sink->at_fd, sink->at_name, 0);
}

/* Without a name: however we end, nothing of it is left. */
static int open_new(struct results_sink *sink)
{
    sink->fd = sink->named ? -1 : file_open_nameless(sink->parent_fd);
    if (sink->fd >= 0)
        return 0;
    name_beside(sink);
    sink->fd = openat(sink->at_fd, sink->at_name,
                      O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    return sink->fd < 0 ? -errno : 0;
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
    if (r < 0)
        return r;
    r = open_new(sink);
    if (r < 0) {
        forget_name(sink);
        sink->parent_fd = -1;
        return err_set(err, r, "'%s': %s", sink->path, errno_words(-r));
    }
    return 0;
}

/* The file, or the link, gets this name if nothing has it. */
static int place_new(struct results_sink *sink, struct file_name to)
{
    struct file_name from = {sink->at_fd, sink->at_name};
    struct stat st;
    int r;

    if (sink->at_name[0])
        r = file_rename_new(from, to);
    else if (sink->target)
        r = symlinkat(sink->target, to.folder_fd, to.name);
    else
        r = file_give_name(sink->fd, to.folder_fd, to.name);
    if (r < 0 && sink->at_name[0] && errno == EINVAL) {
        if (fstatat(to.folder_fd, to.name, &st, AT_SYMLINK_NOFOLLOW) == 0)
            return -EEXIST;
        r = renameat(from.folder_fd, from.name, to.folder_fd, to.name);
    }
    if (r < 0)
        return -errno;
    forget_name(sink);
    return 0;
}

/* The same, and from there it goes on. */
static int place_for_now(struct results_sink *sink, struct file_name to)
{
    int r = place_new(sink, to);

    if (r == 0) {
        sink->at_fd = to.folder_fd;
        (void)snprintf(sink->at_name, sizeof(sink->at_name), "%s", to.name);
    }
    return r;
}

static void ignore_private(int root_fd)
{
    static const char ignore[] = WS_PRIVATE_DIR "/.gitignore";
    int fd = openat(root_fd, ignore, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);

    if (fd >= 0) {
        (void)disk_write(fd, STR("*\n"));
        close(fd);
    }
}

/* The new file stands where the old one is to be kept, so that they can change places: whenever we are
 * killed, each is in one of the two, and nothing in between. `path` has room for it. */
static int place_kept(struct results_sink *sink, char path[static KEPT_PATH])
{
    struct file_name kept;
    int r = -EEXIST;

    for (int i = 1; r == -EEXIST && i <= ASIDE_MAX; i++) {
        int n = snprintf(path, KEPT_PATH,
                         i > 1 ? RESULTS_REPLACED "/%s/%s.%d" : RESULTS_REPLACED "/%s/%s",
                         sink->aside ? sink->aside + 1 : "any", sink->path, i);

        if (n < 0 || n > WS_PATH_MAX)
            return -ENAMETOOLONG;
        kept.folder_fd =
            disk_parent(&sink->kept_walk, sink->root_fd, str_from(path), 0777, &kept.name, NULL);
        if (kept.folder_fd < 0)
            return kept.folder_fd;
        r = place_for_now(sink, kept);
    }
    return r;
}

/* A volume that cannot exchange: one after the other. The old one is in our folder all the time. */
static int exchange_slowly(struct file_name kept, struct file_name place)
{
    char old[BESIDE_BYTES];

    (void)snprintf(old, sizeof(old), BESIDE_NAME, (int)getpid());
    if (renameat(place.folder_fd, place.name, kept.folder_fd, old) < 0)
        return -errno;
    if (renameat(kept.folder_fd, kept.name, place.folder_fd, place.name) < 0) {
        int why = -errno;

        (void)renameat(kept.folder_fd, old, place.folder_fd, place.name);
        return why;
    }
    return renameat(kept.folder_fd, old, kept.folder_fd, kept.name) < 0 ? -errno : 0;
}

static int exchange(struct results_sink *sink, const char *name)
{
    struct file_name kept = {sink->at_fd, sink->at_name};
    struct file_name place = {sink->parent_fd, name};

    if (file_exchange(kept, place) == 0)
        return 0;
    return errno == EINVAL ? exchange_slowly(kept, place) : -errno;
}

/* What came from the same job need not be kept, nor the folders that were made for it. */
static void drop_kept(struct results_sink *sink, const char *path)
{
    char folder[KEPT_PATH];

    (void)unlinkat(sink->at_fd, sink->at_name, 0);
    for (struct str above = manifest_parent(str_from(path)); above.len;
         above = manifest_parent(above)) {
        (void)snprintf(folder, sizeof(folder), STR_FMT, STR_ARG(above));
        if (unlinkat(sink->root_fd, folder, AT_REMOVEDIR) < 0)
            break;
        disk_walk_done(&sink->kept_walk);
    }
}

/* A name of our own beside its place. */
static int place_beside(struct results_sink *sink)
{
    char beside[BESIDE_BYTES];

    (void)snprintf(beside, sizeof(beside), BESIDE_NAME, (int)getpid());
    (void)unlinkat(sink->parent_fd, beside, 0);
    return place_for_now(sink, (struct file_name){sink->parent_fd, beside});
}

/* The new file and the old one change places: so whatever is there at that moment is in our hands. If it is not
 * what was looked at, it goes back. -ESTALE: it did, or it could not be kept. */
static int place_over(struct results_sink *sink, const char *name)
{
    char path[KEPT_PATH];
    struct stat st;
    struct results_id out = {0};

    int r = place_kept(sink, path);
    if (r == -EXDEV && sink->drop) /* a volume inside the folder; it need not be kept */
        r = place_beside(sink);
    if (r == 0)
        r = exchange(sink, name);
    if (r < 0)
        return r == -EEXIST || r == -EXDEV || r == -ENOENT || r == -ELOOP || r == -ENAMETOOLONG
                   ? -ESTALE
                   : r;
    if (fstatat(sink->at_fd, sink->at_name, &st, AT_SYMLINK_NOFOLLOW) == 0)
        out = results_id(&st);
    out.changed_ns = sink->old.changed_ns; /* the exchange itself has changed it */
    if (!results_id_eq(&out, &sink->old)) {
        (void)exchange(sink, name);
        return -ESTALE;
    }
    if (sink->drop)
        drop_kept(sink, path);
    else
        ignore_private(sink->root_fd);
    forget_name(sink);
    return 0;
}

/* Whatever is there. */
static int place_force(struct results_sink *sink, const char *name)
{
    int r = place_new(sink, (struct file_name){sink->parent_fd, name});

    if (r == -EEXIST && !sink->at_name[0]) {
        r = place_beside(sink);
        r = r == 0 ? -EEXIST : r;
    }
    if (r == -EEXIST) {
        r = renameat(sink->at_fd, sink->at_name, sink->parent_fd, name) < 0 ? -errno : 0;
        if (r == 0)
            forget_name(sink);
    }
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
        r = place_new(sink, (struct file_name){sink->parent_fd, other});
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
        return place_force(sink, name);
    if (!sink->old.inode)
        r = place_new(sink, (struct file_name){sink->parent_fd, name});
    else
        r = is_as_expected(sink, name) ? place_over(sink, name) : -ESTALE;
    return (r == -EEXIST || r == -ESTALE) && sink->aside ? place_aside(sink, name) : r;
}

/* Has the file that is there the very bytes that have come? */
static bool is_same(const struct results_sink *sink, const char *name)
{
    struct stat new;
    struct stat st;
    bool same = fstat(sink->fd, &new) == 0;
    int fd = same ? file_open_regular(sink->parent_fd, name, new.st_dev, &st) : -1;

    same = fd >= 0 && st.st_size == new.st_size;
    for (off_t at = 0; same && at < st.st_size;) {
        char ours[SAME_BYTES];
        char theirs[SAME_BYTES];
        ssize_t got = pread(fd, ours, sizeof(ours), at);

        same = got > 0 && pread(sink->fd, theirs, (size_t)got, at) == got &&
               memcmp(ours, theirs, (size_t)got) == 0;
        at += got;
    }
    disk_closep(&fd);
    return same;
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
    if (sink->twin && is_same(sink, sink->twin)) {
        sink->same(sink->placed_user);
        drop(sink);
        sink->cut_count--;
        return 0;
    }
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

static int put_piece(struct results_sink *sink, const struct frame_blob *blob, struct err *err)
{
    int r = 0;

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
    r = disk_write_sparse(sink->fd, blob->bytes);
    if (r < 0) {
        drop(sink);
        return err_set(err, r, "'%s': %s", sink->path, errno_words(-r));
    }
    sink->have += blob->bytes.len;
    return sink->have == sink->size ? finish(sink, err) : 0;
}

static int put_link(struct results_sink *sink, const struct ws_entry *entry, struct err *err)
{
    char target[WS_PATH_MAX + 1];
    int r = manifest_check_entry(entry, err);

    if (r == 0 && (entry->type != WS_LINK || sink->file_count >= RESULTS_FILES_MAX))
        r = err_set(err, -EPROTO, "'" STR_FMT "' is no link, or one too many",
                    STR_ARG(entry->path));
    if (r == 0)
        r = begin_at(sink, entry->path, err);
    if (r < 0)
        return r;
    (void)snprintf(target, sizeof(target), STR_FMT, STR_ARG(entry->target));
    sink->target = target;
    r = place(sink);
    sink->target = NULL;
    if (r == 0)
        tell_placed(sink, -1);
    drop(sink);
    return r < 0 ? err_set(err, r, "'%s': %s", sink->path, errno_words(-r)) : 0;
}

/* One file cannot have its place, or none can. */
static bool ends_all(int r)
{
    return r == -EPROTO || r == -ENOSPC || r == -EDQUOT || r == -EROFS || r == -EIO ||
           r == -EFBIG || r == -ENOMEM || r == -EMFILE || r == -ENFILE;
}

/* `cut` files before it had not ended. */
static int put_done(struct results_sink *sink,
                    size_t cut,
                    int r,
                    const struct err *why,
                    struct err *err)
{
    if (r < 0 && sink->failed && !ends_all(r)) {
        sink->cut_count = cut;
        sink->skipping = true;
        sink->failed(sink->placed_user, why);
        return 0;
    }
    if (r < 0 && err)
        *err = *why;
    return r;
}

int results_put(struct results_sink *sink, const struct frame_blob *blob, struct err *err)
{
    struct err why = {0};

    if (sink->skipping && blob->offset)
        return 0;
    sink->skipping = false;
    if (sink->fd >= 0 && !str_is(blob->path, sink->path))
        drop(sink); /* its end did not come */
    size_t cut = sink->cut_count;
    return put_done(sink, cut, put_piece(sink, blob, &why), &why, err);
}

int results_put_link(struct results_sink *sink, const struct ws_entry *entry, struct err *err)
{
    struct err why = {0};

    drop(sink); /* the end of the file before it did not come */
    size_t cut = sink->cut_count;
    return put_done(sink, cut, put_link(sink, entry, &why), &why, err);
}
