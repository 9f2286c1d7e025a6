#include "workspace/scan.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "system/errors.h"
#include "workspace/disk.h"
#include "workspace/rules.h"
#include "workspace/statcache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SCAN_DEPTH_MAX 256
#define NOT_LOOKED_AT  UINT64_MAX /* as a file's size */
#define NOT_READABLE   (UINT64_MAX - 1)
#define THREADS_MAX    8
/* Starting a thread costs about as much as looking at so many files. */
#define THREAD_ENTRIES_MIN 1000
#define BLOCK_ENTRIES      256

struct scan {
    const struct scan_options *options;
    const char *root;
    struct manifest *manifest;
    struct rules rules; /* where there are options */
    struct err *err;
    char path[WS_PATH_MAX + 1];
    size_t path_len;
};

static struct str path_of(const struct scan *scan)
{
    return (struct str){scan->path, scan->path_len};
}

static void note(const struct scan *scan, const char *what)
{
    char text[WS_PATH_MAX + 128];

    if (!scan->options || !scan->options->rules.note)
        return;
    (void)snprintf(text, sizeof(text), "%s: %s", scan->path, what);
    scan->options->rules.note(scan->options->rules.user, text);
}

/* A link that climbs out of the folder by ".." would lead elsewhere in another place: it gets the
 * whole path of what it means here. */
static bool whole_target(const struct scan *scan, struct str target, char out[static PATH_MAX])
{
    struct str folder = manifest_parent(path_of(scan));
    char link[PATH_MAX];
    char parent[PATH_MAX];

    if (snprintf(link, sizeof(link), "%s/" STR_FMT "/" STR_FMT, scan->root, STR_ARG(folder),
                 STR_ARG(target)) >= PATH_MAX)
        return false;
    if (realpath(link, out))
        return true;
    /* What it means does not exist; the folder that it is in may. */
    char *last = strrchr(link, '/');
    *last = '\0';
    return realpath(link, parent) && strcmp(last + 1, "..") != 0 &&
           snprintf(out, PATH_MAX, "%s/%s", parent, last + 1) < PATH_MAX;
}

static int add_link(struct scan *scan, int dir, const char *name)
{
    struct ws_entry entry = {.type = WS_LINK, .path = path_of(scan)};
    char target[WS_PATH_MAX + 1];
    char whole[PATH_MAX];
    ssize_t len = readlinkat(dir, name, target, sizeof(target));
    bool out = scan->options && scan->options->links_out;

    if (len < 0)
        return errno == ENOENT
                   ? 0
                   : err_set(scan->err, -errno, "%s: %s", scan->path, errno_words(errno));
    entry.target = (struct str){target, (size_t)len};
    if (out && manifest_check_link(entry.path, entry.target, NULL) < 0 && target[0] != '/' &&
        whole_target(scan, entry.target, whole))
        entry.target = str_from(whole);
    if (out ? manifest_check_entry(&entry, NULL) < 0
            : manifest_check_link(entry.path, entry.target, NULL) < 0)
        note(scan, "a link that points outside the folder is not sent");
    else
        manifest_add(scan->manifest, &entry);
    return 0;
}

/* Its size, mode and hash are looked up later, by several threads: see look_at_files(). */
static int add_file(struct scan *scan)
{
    manifest_add(scan->manifest,
                 &(struct ws_entry){.type = WS_FILE, .path = path_of(scan), .size = NOT_LOOKED_AT});
    return 0;
}

static int walk(struct scan *scan, int fd, int depth);

static int add_folder(struct scan *scan, int dir, const char *name, int depth)
{
    struct ws_entry entry = {.type = WS_DIR, .path = path_of(scan)};
    int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct stat st;

    if (fd < 0 && scan->options && (errno == EACCES || errno == EPERM)) {
        note(scan, "the folder cannot be read, and is not sent");
        return 0;
    }
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

static enum rules_thing thing_of(const struct scan *scan,
                                 int dir,
                                 const char *name,
                                 unsigned char type)
{
    char target[WS_PATH_MAX + 1];
    ssize_t len;

    if (type != DT_LNK || !scan->options->links_out)
        return type == DT_DIR ? RULES_FOLDER : RULES_FILE;
    len = readlinkat(dir, name, target, sizeof(target));
    return len > 0 &&
                   manifest_check_link(path_of(scan), (struct str){target, (size_t)len}, NULL) < 0
               ? RULES_LINK_OUT
               : RULES_FILE;
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
        rules_leave_out(&scan->rules, dir, path_of(scan), thing_of(scan, dir, name, type)))
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
    size_t rules = rules_count(&scan->rules);
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
    if (scan->options)
        rules_read(&scan->rules, fd, path_of(scan));
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
    rules_cut(&scan->rules, rules);
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

/* Most files can be read by everybody: the kernel is asked about the others. */
static bool is_readable(int parent, const char *name, const struct stat *st)
{
    return (st->st_mode & 0444) == 0444 || faccessat(parent, name, R_OK, AT_EACCESS) == 0;
}

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
    if (look->options && !is_readable(parent, name, &st))
        return -EACCES;
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
            else if (r == -EACCES && look->options)
                entry->size = NOT_READABLE;
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
    for (size_t i = first; i < entries->count; i++) {
        const struct ws_entry *entry = &entries->items[i];
        bool unreadable = entry->type == WS_FILE && entry->size == NOT_READABLE;

        if (unreadable)
            (void)snprintf(scan->path, sizeof(scan->path), STR_FMT, STR_ARG(entry->path));
        if (unreadable)
            note(scan, "the file cannot be read, and is not sent");
        else if (entry->type != WS_FILE || entry->size != NOT_LOOKED_AT)
            entries->items[kept++] = *entry;
    }
    entries->count = kept;
    return 0;
}

static void open_rules(struct scan *scan)
{
    if (scan->options)
        rules_open(&scan->rules, scan->root, &scan->options->rules);
}

int scan_folder(const char *root,
                const struct scan_options *options,
                struct manifest *manifest,
                struct err *err)
{
    struct scan scan = {.options = options, .root = root, .manifest = manifest, .err = err};
    _cleanup_(disk_closep) int root_fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int fd = root_fd < 0 ? -1 : fcntl(root_fd, F_DUPFD_CLOEXEC, 3);
    int r;

    if (fd < 0)
        return err_set(err, -errno, "folder %s: %s", root, errno_words(errno));
    open_rules(&scan);
    r = walk(&scan, fd, 0);
    rules_done(&scan.rules);
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
    struct scan scan = {.options = options, .root = root, .manifest = manifest, .err = err};
    _cleanup_(disk_closep) int root_fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int fd = root_fd < 0 ? -1 : fcntl(root_fd, F_DUPFD_CLOEXEC, 3);
    size_t first = manifest->entries.count;
    struct str rest = path;
    struct str part;
    int depth = 0;
    int r = manifest_check_path(path, err);

    open_rules(&scan);
    while (r == 0 && fd >= 0 && str_cut(&rest, '/', &part)) {
        char name[WS_NAME_MAX + 1];
        int next;

        memcpy(name, part.p, part.len);
        name[part.len] = '\0';
        rules_read(&scan.rules, fd, path_of(&scan));
        if (scan.path_len)
            scan.path[scan.path_len++] = '/';
        memcpy(scan.path + scan.path_len, name, part.len + 1);
        scan.path_len += part.len;
        if (!str_is_set(rest)) {
            r = visit(&scan, fd, name, DT_UNKNOWN, depth);
            break;
        }
        if (rules_leave_out(&scan.rules, fd, path_of(&scan), RULES_FOLDER))
            break;
        next = openat(fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        close(fd);
        fd = next;
        depth++;
    }
    disk_closep(&fd);
    rules_done(&scan.rules);
    return r == 0 && root_fd >= 0 ? look_at_files(&scan, root_fd, first) : r;
}
