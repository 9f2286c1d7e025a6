#include "workspace/scan.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "workspace/disk.h"
#include "workspace/ignore.h"
#include "workspace/statcache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SCAN_DEPTH_MAX   256
#define IGNORE_BYTES_MAX ((size_t)1 << 20)

struct scan {
    const struct scan_options *options;
    struct manifest *manifest;
    struct arena arena;
    struct ignore ignore;
    struct err *err;
    char path[WS_PATH_MAX + 1];
    size_t path_len;
};

static void note(const struct scan *scan, const char *what)
{
    char text[WS_PATH_MAX + 128];

    if (!scan->options || !scan->options->note)
        return;
    (void)snprintf(text, sizeof(text), "%s: %s", scan->path, what);
    scan->options->note(scan->options->user, text);
}

static void read_ignore(struct scan *scan, int dir, const char *name)
{
    _cleanup_(buf_done) struct buf text = {0};
    _cleanup_(disk_closep) int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    struct stat st;
    char *room;
    ssize_t got;

    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        return;
    room = buf_room(&text, IGNORE_BYTES_MAX);
    got = read(fd, room, IGNORE_BYTES_MAX);
    if (got > 0)
        ignore_add(&scan->ignore, &scan->arena, (struct str){scan->path, scan->path_len},
                   (struct str){room, (size_t)got});
}

static int add_link(struct scan *scan, int dir, const char *name)
{
    struct ws_entry entry = {.type = WS_LINK, .path = {scan->path, scan->path_len}};
    char target[WS_PATH_MAX + 1];
    ssize_t len = readlinkat(dir, name, target, sizeof(target));
    struct err why = {0};

    if (len < 0)
        return errno == ENOENT
                   ? 0
                   : err_set(scan->err, -errno, "%s: %s", scan->path, strerrordesc_np(errno));
    entry.target = (struct str){target, (size_t)len};
    if (manifest_check_link(entry.path, entry.target, &why) < 0)
        note(scan, "a link that points outside the folder is not sent");
    else
        manifest_add(scan->manifest, &entry);
    return 0;
}

static int add_file(struct scan *scan, int dir, const char *name, const struct stat *st)
{
    struct ws_entry entry = {.type = WS_FILE,
                             .path = {scan->path, scan->path_len},
                             .mode = st->st_mode & 0777,
                             .size = (uint64_t)st->st_size};

    if (scan->options && scan->options->cache)
        entry.tag = statcache_note(scan->options->cache, st);
    if (!scan->options || scan->options->hash) {
        _cleanup_(disk_closep) int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
        int64_t size = fd < 0 ? -errno : hash_fd(fd, &entry.hash);

        if (size == -ENOENT)
            return 0; /* it went while we looked */
        if (size < 0)
            return err_set(scan->err, (int)size, "%s: %s", scan->path, strerrordesc_np((int)-size));
        entry.size = (uint64_t)size;
    }
    manifest_add(scan->manifest, &entry);
    return 0;
}

static int walk(struct scan *scan, int fd, int depth);

static int add_folder(struct scan *scan,
                      int dir,
                      const char *name,
                      const struct stat *st,
                      int depth)
{
    struct ws_entry entry = {
        .type = WS_DIR, .path = {scan->path, scan->path_len}, .mode = st->st_mode & 0777};
    int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (fd < 0)
        return errno == ENOENT
                   ? 0
                   : err_set(scan->err, -errno, "%s: %s", scan->path, strerrordesc_np(errno));
    manifest_add(scan->manifest, &entry);
    return walk(scan, fd, depth + 1);
}

static int visit(struct scan *scan, int dir, const char *name, int depth)
{
    struct stat st;

    if (depth == 0 && strcmp(name, WS_PRIVATE_DIR) == 0)
        return 0;
    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT
                   ? 0
                   : err_set(scan->err, -errno, "%s: %s", scan->path, strerrordesc_np(errno));
    if (scan->options && ((S_ISDIR(st.st_mode) && strcmp(name, ".git") == 0) ||
                          ignore_matches(&scan->ignore, (struct str){scan->path, scan->path_len},
                                         S_ISDIR(st.st_mode))))
        return 0;
    if (S_ISREG(st.st_mode))
        return add_file(scan, dir, name, &st);
    if (S_ISLNK(st.st_mode))
        return add_link(scan, dir, name);
    if (S_ISDIR(st.st_mode))
        return add_folder(scan, dir, name, &st, depth);
    note(scan, "neither a file, a folder nor a link; not sent");
    return 0;
}

/* Closes `fd`. */
static int walk(struct scan *scan, int fd, int depth)
{
    size_t rules = scan->ignore.rules.count;
    size_t base_len = scan->path_len;
    DIR *dir = fdopendir(fd);
    struct dirent *item;
    int r = 0;

    if (!dir || depth > SCAN_DEPTH_MAX) {
        r = err_set(scan->err, dir ? -ELOOP : -errno, "%s: %s", scan->path,
                    dir ? "folders are nested too deep" : strerrordesc_np(errno));
        if (dir)
            closedir(dir);
        else
            close(fd);
        return r;
    }
    if (scan->options) {
        read_ignore(scan, fd, ".gitignore");
        read_ignore(scan, fd, ".torchrunignore");
    }
    while (r == 0 && (item = readdir(dir)) != NULL) {
        size_t len = strlen(item->d_name);

        if (strcmp(item->d_name, ".") == 0 || strcmp(item->d_name, "..") == 0)
            continue;
        if (base_len + 1 + len > WS_PATH_MAX) {
            r = err_set(scan->err, -ENAMETOOLONG, "%.100s...: the path is too long", scan->path);
            break;
        }
        scan->path_len = base_len;
        if (base_len)
            scan->path[scan->path_len++] = '/';
        memcpy(scan->path + scan->path_len, item->d_name, len + 1);
        scan->path_len += len;
        r = visit(scan, fd, item->d_name, depth);
    }
    closedir(dir);
    scan->path_len = base_len;
    scan->path[base_len] = '\0';
    ignore_cut(&scan->ignore, rules);
    return r;
}

int scan_folder(const char *root,
                const struct scan_options *options,
                struct manifest *manifest,
                struct err *err)
{
    struct scan scan = {.options = options, .manifest = manifest, .err = err};
    int fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int r;

    if (fd < 0)
        return err_set(err, -errno, "folder %s: %s", root, strerrordesc_np(errno));
    r = walk(&scan, fd, 0);
    ignore_cut(&scan.ignore, 0);
    arena_done(&scan.arena);
    if (r < 0)
        return err_wrap(err, r, "folder %s", root);
    r = manifest_finish(manifest, err);
    if (r == 0 && options && options->cache)
        statcache_apply(options->cache, manifest);
    return r;
}

/* Goes down to `path`, collecting the ignore files on the way, and looks at its last part. */
int scan_path(const char *root,
              struct str path,
              const struct scan_options *options,
              struct manifest *manifest,
              struct err *err)
{
    struct scan scan = {.options = options, .manifest = manifest, .err = err};
    int fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct str rest = path;
    struct str part;
    int depth = 0;
    int r = manifest_check_path(path, err);

    while (r == 0 && fd >= 0 && str_cut(&rest, '/', &part)) {
        char name[WS_NAME_MAX + 1];
        int next;

        memcpy(name, part.p, part.len);
        name[part.len] = '\0';
        read_ignore(&scan, fd, ".gitignore");
        read_ignore(&scan, fd, ".torchrunignore");
        if (scan.path_len)
            scan.path[scan.path_len++] = '/';
        memcpy(scan.path + scan.path_len, name, part.len + 1);
        scan.path_len += part.len;
        if (!str_is_set(rest)) {
            r = visit(&scan, fd, name, depth);
            break;
        }
        if (strcmp(name, ".git") == 0 ||
            ignore_matches(&scan.ignore, (struct str){scan.path, scan.path_len}, true))
            break;
        next = openat(fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        close(fd);
        fd = next;
        depth++;
    }
    if (fd >= 0)
        close(fd);
    ignore_cut(&scan.ignore, 0);
    arena_done(&scan.arena);
    return r;
}
