#include "workspace/scan.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "system/errors.h"
#include "workspace/disk.h"
#include "workspace/ignore.h"
#include "workspace/statcache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SCAN_DEPTH_MAX   256
#define IGNORE_BYTES_MAX ((size_t)1 << 20)
#define NOT_LOOKED_AT    UINT64_MAX /* as a file's size */
#define THREADS_MAX      8
/* Starting a thread costs about as much as looking at so many files. */
#define THREAD_ENTRIES_MIN 1000
#define BLOCK_ENTRIES      256

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
                   : err_set(scan->err, -errno, "%s: %s", scan->path, errno_words(errno));
    entry.target = (struct str){target, (size_t)len};
    if (manifest_check_link(entry.path, entry.target, &why) < 0)
        note(scan, "a link that points outside the folder is not sent");
    else
        manifest_add(scan->manifest, &entry);
    return 0;
}

/* Its size, mode and hash are looked up later, by several threads: see look_at_files(). */
static int add_file(struct scan *scan)
{
    manifest_add(scan->manifest, &(struct ws_entry){.type = WS_FILE,
                                                    .path = {scan->path, scan->path_len},
                                                    .size = NOT_LOOKED_AT});
    return 0;
}

static int walk(struct scan *scan, int fd, int depth);

static int add_folder(struct scan *scan, int dir, const char *name, int depth)
{
    struct ws_entry entry = {.type = WS_DIR, .path = {scan->path, scan->path_len}};
    int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct stat st;

    if (fd < 0 || fstat(fd, &st) < 0) {
        int r = errno == ENOENT
                    ? 0
                    : err_set(scan->err, -errno, "%s: %s", scan->path, errno_words(errno));

        disk_closep(&fd);
        return r;
    }
    entry.mode = st.st_mode & 0777;
    manifest_add(scan->manifest, &entry);
    return walk(scan, fd, depth + 1);
}

/* File systems that do not tell the type with the name have to be asked. */
static unsigned char type_of(int dir, const char *name)
{
    struct stat st;

    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return DT_UNKNOWN; /* it went while we looked */
    return (unsigned char)IFTODT(st.st_mode);
}

static int visit(struct scan *scan, int dir, const char *name, unsigned char type, int depth)
{
    if (depth == 0 && strcmp(name, WS_PRIVATE_DIR) == 0)
        return 0;
    if (type == DT_UNKNOWN)
        type = type_of(dir, name);
    if (type == DT_UNKNOWN)
        return 0;
    if (scan->options &&
        ((type == DT_DIR && strcmp(name, ".git") == 0) ||
         ignore_matches(&scan->ignore, (struct str){scan->path, scan->path_len}, type == DT_DIR)))
        return 0;
    if (type == DT_REG)
        return add_file(scan);
    if (type == DT_LNK)
        return add_link(scan, dir, name);
    if (type == DT_DIR)
        return add_folder(scan, dir, name, depth);
    note(scan, "not a file, a folder or a link; it is not sent");
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
                    dir ? "folders are nested too deep" : errno_words(errno));
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
        r = visit(scan, fd, item->d_name, item->d_type, depth);
    }
    closedir(dir);
    scan->path_len = base_len;
    scan->path[base_len] = '\0';
    ignore_cut(&scan->ignore, rules);
    return r;
}

/* ---- looking at the files ---- */

/* Most of a scan is the kernel looking up one file after the other, which several threads can do
 * beside each other: each takes the next block of entries, until none is left. */
struct look {
    const struct scan_options *options;
    struct manifest *manifest;
    int root_fd;
    atomic_size_t next;
    atomic_int failed; /* an errno */
    atomic_size_t failed_at;
};

static int look_at(const struct look *look, int parent, const char *name, struct ws_entry *entry)
{
    bool hash = !look->options || look->options->hash;
    _cleanup_(disk_closep) int fd =
        hash ? openat(parent, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC) : -1;
    struct stat st;

    if (hash && fd < 0)
        return errno == ELOOP ? -ENOENT : -errno;
    if ((hash ? fstat(fd, &st) : fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW)) < 0)
        return -errno;
    if (!S_ISREG(st.st_mode))
        return -ENOENT; /* something else is there by now */
    entry->mode = st.st_mode & 0777;
    entry->size = (uint64_t)st.st_size;
    if (look->options && look->options->cache)
        statcache_note(look->options->cache, entry->tag, &st);
    if (hash) {
        int64_t size = hash_fd(fd, &entry->hash);

        entry->size = (uint64_t)size;
        return size < 0 ? (int)size : 0;
    }
    return 0;
}

static void *look_at_blocks(void *user)
{
    struct look *look = user;
    struct ws_entry_vec *entries = &look->manifest->entries;
    struct disk_walk walk = DISK_WALK_NONE;
    size_t block;

    while ((block = atomic_fetch_add(&look->next, BLOCK_ENTRIES)) < entries->count) {
        for (size_t i = block; i < block + BLOCK_ENTRIES && i < entries->count; i++) {
            struct ws_entry *entry = &entries->items[i];
            const char *name;
            int parent;
            int r;

            if (entry->type != WS_FILE)
                continue;
            parent = disk_parent(&walk, look->root_fd, entry->path, 0, &name, NULL);
            r = parent < 0 ? parent : look_at(look, parent, name, entry);
            if (r == -ENOENT || r == -ENOTDIR)
                entry->size = NOT_LOOKED_AT; /* it went: left out below */
            else if (r < 0 && atomic_exchange(&look->failed, -r) == 0)
                atomic_store(&look->failed_at, i);
        }
    }
    disk_walk_done(&walk);
    return NULL;
}

/* Files from `first` on learn their size, mode and, where asked, hash. */
static int look_at_files(struct scan *scan, int root_fd, size_t first)
{
    struct ws_entry_vec *entries = &scan->manifest->entries;
    struct look look = {
        .options = scan->options, .manifest = scan->manifest, .root_fd = root_fd, .next = first};
    size_t wanted = (entries->count - first) / THREAD_ENTRIES_MIN;
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    pthread_t threads[THREADS_MAX];
    size_t count = 0;
    size_t kept = first;

    wanted = wanted < THREADS_MAX ? wanted : THREADS_MAX;
    wanted = cores > 0 && (size_t)cores < wanted ? (size_t)cores : wanted;
    if (scan->options && scan->options->cache)
        statcache_reserve(scan->options->cache, entries->count);
    for (size_t i = first; i < entries->count; i++)
        entries->items[i].tag = (uint32_t)i + 1;
    while (count + 1 < wanted && pthread_create(&threads[count], NULL, look_at_blocks, &look) == 0)
        count++;
    (void)look_at_blocks(&look);
    while (count > 0)
        (void)pthread_join(threads[--count], NULL);
    if (look.failed)
        return err_set(scan->err, -look.failed, STR_FMT ": %s",
                       STR_ARG(entries->items[look.failed_at].path), errno_words(look.failed));
    for (size_t i = first; i < entries->count; i++)
        if (entries->items[i].type != WS_FILE || entries->items[i].size != NOT_LOOKED_AT)
            entries->items[kept++] = entries->items[i];
    entries->count = kept;
    return 0;
}

int scan_folder(const char *root,
                const struct scan_options *options,
                struct manifest *manifest,
                struct err *err)
{
    struct scan scan = {.options = options, .manifest = manifest, .err = err};
    _cleanup_(disk_closep) int root_fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int fd = root_fd < 0 ? -1 : fcntl(root_fd, F_DUPFD_CLOEXEC, 3);
    int r;

    if (fd < 0)
        return err_set(err, -errno, "folder %s: %s", root, errno_words(errno));
    r = walk(&scan, fd, 0);
    ignore_cut(&scan.ignore, 0);
    arena_done(&scan.arena);
    if (r == 0)
        r = look_at_files(&scan, root_fd, 0);
    if (r < 0)
        return err_wrap(err, r, "folder %s", root);
    manifest_sort(manifest);
    if (options && options->cache)
        statcache_apply(options->cache, manifest);
    return manifest_finish(manifest, err);
}

/* Goes down to `path`, collecting the ignore files on the way, and looks at its last part. */
int scan_path(const char *root,
              struct str path,
              const struct scan_options *options,
              struct manifest *manifest,
              struct err *err)
{
    struct scan scan = {.options = options, .manifest = manifest, .err = err};
    _cleanup_(disk_closep) int root_fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int fd = root_fd < 0 ? -1 : fcntl(root_fd, F_DUPFD_CLOEXEC, 3);
    size_t first = manifest->entries.count;
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
            r = visit(&scan, fd, name, DT_UNKNOWN, depth);
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
    disk_closep(&fd);
    ignore_cut(&scan.ignore, 0);
    arena_done(&scan.arena);
    return r == 0 && root_fd >= 0 ? look_at_files(&scan, root_fd, first) : r;
}
