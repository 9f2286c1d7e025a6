#include "workspace/results.h"

#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/map.h"
#include "base/mem.h"
#include "system/errors.h"
#include "system/files.h"
#include "workspace/disk.h"
#include "workspace/hash.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MANIFEST_NAME "manifest"
#define CACHE_NAME    "__pycache__"
#define PIECE_BYTES   ((size_t)256 << 10)

struct results {
    struct arena arena;
    struct map shipped; /* path -> struct ws_entry; gone ones have no type */
    bool list;
    bool strip;
    bool begun;
    struct str wanted; /* NUL-terminated */
    int root_fd;
    dev_t device;
    /* the folders between the root and where we are */
    struct {
        DIR *folder;
        size_t path_len; /* of `path` before it */
    } levels[RESULTS_DEPTH_MAX];
    size_t depth;
    char path[WS_PATH_MAX + 1];
    size_t path_len;
    /* the file that is being looked at */
    int file_fd;
    uint64_t file_size;
    uint64_t file_at;
    uint32_t file_mode;
    struct hash shipped_hash;
    struct hasher *hasher; /* set: first see whether it is as shipped */
    struct results_id id;  /* as it was then */
    struct hasher *given;  /* of the pieces that went out */
    /* Set: it has changed meanwhile, and its last piece waits until what went out is found in it again. */
    struct hasher *again;
    char *last;
    size_t last_len;
    /* limits */
    size_t file_count;
    size_t look_count;
    size_t words_count;
    size_t turn_looks;
    uint64_t turn_hashed;
};

struct results *results_new(int root_fd, const struct results_request *request)
{
    struct results *results = MEM_NEW(struct results);

    results->root_fd = root_fd;
    results->list = request->list;
    results->strip = request->strip;
    results->file_fd = -1;
    results->wanted = str_dup(&results->arena, request->path);
    return results;
}

static void file_close(struct results *results)
{
    if (results->file_fd >= 0)
        close(results->file_fd);
    results->file_fd = -1;
    hasher_end(results->hasher, NULL);
    hasher_end(results->given, NULL);
    hasher_end(results->again, NULL);
    results->hasher = results->given = results->again = NULL;
    mem_free(results->last);
    results->last = NULL;
}

void results_free(struct results *results)
{
    if (!results)
        return;
    file_close(results);
    while (results->depth)
        closedir(results->levels[--results->depth].folder);
    map_done(&results->shipped);
    arena_done(&results->arena);
    disk_closep(&results->root_fd);
    mem_free(results);
}

static struct str path_of(const struct results *results)
{
    return (struct str){results->path, results->path_len};
}

/* ---- words ---- */

static void words_add(struct results *results, struct buf *out, const char *why)
{
    _cleanup_(buf_done) struct buf text = {0};

    if (results->words_count > RESULTS_WORDS_MAX)
        return;
    if (results->words_count++ == RESULTS_WORDS_MAX)
        buf_add(&text, STR("and more, which are not listed"));
    else
        buf_addf(&text, STR_FMT " %s", STR_ARG(path_of(results)), why);
    frame_add_gone(out, buf_str(&text));
}

static int fail(struct buf *out, const struct err *err, int r)
{
    frame_add_gone(out, str_from(err->text));
    return r;
}

/* ---- what was shipped ---- */

static int take_shipped(void *user, const struct frame *frame, struct err *err)
{
    struct results *results = user;
    struct ws_entry *entry;

    (void)err;
    if (frame->type != FRAME_ENTRY && frame->type != FRAME_GONE)
        return 0;
    entry = ARENA_NEW(&results->arena, struct ws_entry);
    if (frame->type == FRAME_ENTRY)
        *entry = frame->entry;
    entry->path =
        str_dup(&results->arena, frame->type == FRAME_ENTRY ? frame->entry.path : frame->path);
    entry->target = str_dup(&results->arena, entry->target);
    (void)map_set(&results->shipped, entry->path, entry);
    return 0;
}

/* The log that workspace/tree.c keeps. What is damaged or cut at its end counts as far as it can be
 * read: the rest of the files then look as if the job had written them. */
static void read_shipped(struct results *results, struct buf *out)
{
    _cleanup_(disk_closep) int folder = results_folder(results->root_fd, STR(WS_PRIVATE_DIR));
    _cleanup_(buf_done) struct buf text = {0};
    struct stat st;
    _cleanup_(disk_closep) int fd =
        folder < 0 ? -1 : file_open_regular(folder, MANIFEST_NAME, results->device, &st);

    if (fd < 0)
        return;
    if ((uint64_t)st.st_size > RESULTS_MANIFEST_MAX) {
        frame_add_gone(out, STR("too many files were shipped to tell them from what the job wrote: "
                                "all of them are listed"));
        return;
    }
    for (size_t want = (size_t)st.st_size; text.len < want;) {
        ssize_t got = read(fd, buf_room(&text, want - text.len), want - text.len);

        if (got <= 0)
            break;
        text.len += (size_t)got;
    }
    (void)frame_read(&text, take_shipped, results, NULL);
}

/* ---- files ---- */

static void tell_kind(struct results *results, struct buf *out, const struct stat *st)
{
    words_add(results, out,
              S_ISFIFO(st->st_mode)   ? "is a pipe"
              : S_ISSOCK(st->st_mode) ? "is a socket"
              : S_ISREG(st->st_mode)  ? "is on another volume"
                                      : "is a device");
}

/* A link that the job made, or led elsewhere. Where it leads is not looked at, but it stays inside. */
static int take_link(struct results *results, int parent, const char *name, struct buf *out)
{
    char target[WS_PATH_MAX + 1];
    ssize_t len = readlinkat(parent, name, target, sizeof(target));
    const struct ws_entry *shipped = map_get(&results->shipped, path_of(results));
    struct ws_entry link = {.type = WS_LINK, .path = path_of(results)};

    if (len < 0) /* gone meanwhile */
        return 0;
    link.target = (struct str){target, (size_t)len};
    if (shipped && shipped->type == WS_LINK && str_eq(shipped->target, link.target))
        return 0;
    if (manifest_check_link(link.path, link.target, NULL) < 0) {
        words_add(results, out, "is a link that leads out of the folder");
        return 0;
    }
    results->file_count++;
    frame_add_entry(out, &link);
    return 0;
}

static int take_file(struct results *results, int parent, const char *name, struct buf *out)
{
    struct stat st = {0};
    int fd = file_open_regular(parent, name, results->device, &st);
    const struct ws_entry *entry = map_get(&results->shipped, path_of(results));

    if (fd == -FILE_OTHER_KIND && S_ISLNK(st.st_mode))
        return take_link(results, parent, name, out);
    if (fd == -FILE_OTHER_KIND) {
        tell_kind(results, out, &st);
        return 0;
    }
    if (fd < 0) {
        if (fd != -ENOENT) /* gone meanwhile */
            words_add(results, out, "cannot be read");
        return 0;
    }
    results->file_fd = fd;
    results->file_at = 0;
    results->file_size = (uint64_t)st.st_size;
    results->file_mode = st.st_mode & 0777;
    results->id = results_id(&st);
    results->shipped_hash = entry && entry->type == WS_FILE ? entry->hash : (struct hash){0};
    if (results->file_size > WS_BYTES_MAX) {
        words_add(results, out, "reports an impossible size");
        file_close(results);
    } else if (entry && entry->type == WS_FILE && entry->size == results->file_size) {
        results->hasher = hasher_new();
    }
    return 0;
}

static int hash_some(struct results *results)
{
    char block[65536];
    struct hash hash;
    ssize_t got = pread(results->file_fd, block, sizeof(block), (off_t)results->file_at);

    if (got > 0) {
        hasher_add(results->hasher, (struct str){block, (size_t)got});
        results->file_at += (uint64_t)got;
        results->turn_hashed += (uint64_t)got;
        if (results->file_at <= results->file_size)
            return 0;
    }
    /* Its end; or it has grown, and is another one whatever comes. */
    hasher_end(results->hasher, &hash);
    results->hasher = NULL;
    if (got == 0 && hash_eq(hash, results->shipped_hash) &&
        results->file_at == results->file_size) {
        const char *name = results->path + manifest_parent(path_of(results)).len;

        file_close(results);
        if (results->strip && results->depth)
            (void)unlinkat(dirfd(results->levels[results->depth - 1].folder),
                           *name == '/' ? name + 1 : name, 0);
    }
    results->file_at = 0;
    return 0;
}

static int count_file(struct results *results, struct err *err)
{
    if (results->file_at > 0 || results->file_count++ < RESULTS_FILES_MAX)
        return 0;
    return err_set(err, -E2BIG,
                   "the job wrote more than %zu files; name a PATH in its folder with fewer",
                   RESULTS_FILES_MAX);
}

static void give_entry(struct results *results, struct buf *out)
{
    frame_add_entry(out, &(struct ws_entry){.type = WS_FILE,
                                            .path = path_of(results),
                                            .size = results->file_size,
                                            .hash = results->shipped_hash,
                                            .mode = results->file_mode});
    file_close(results);
}

static void give_piece(struct results *results, uint64_t offset, struct str bytes, struct buf *out)
{
    frame_add_blob(out, &(struct frame_blob){.hash = results->shipped_hash,
                                             .size = results->file_size,
                                             .offset = offset,
                                             .mode = results->file_mode,
                                             .path = path_of(results),
                                             .bytes = bytes});
}

/* Written to since we began with it. */
static bool file_is_touched(const struct results *results)
{
    struct stat st;
    struct results_id now;

    if (fstat(results->file_fd, &st) < 0)
        return true;
    now = results_id(&st);
    return !results_id_eq(&now, &results->id);
}

/* A piece. The last one of a file that is being written to is kept back: give_last(). */
static int give_some(struct results *results, struct buf *out, struct err *err)
{
    uint64_t at = results->file_at;
    uint64_t left = results->file_size - at;
    char *piece;
    ssize_t got = 0;
    int r = count_file(results, err);

    if (r < 0)
        return r;
    if (results->list) {
        give_entry(results, out);
        return 0;
    }
    piece = mem_alloc(PIECE_BYTES);
    if (left)
        got = pread(results->file_fd, piece, left < PIECE_BYTES ? (size_t)left : PIECE_BYTES,
                    (off_t)at);
    if (left && got <= 0) {
        words_add(results, out, got < 0 ? "cannot be read" : "became shorter " RESULTS_MEANWHILE);
        mem_free(piece);
        file_close(results);
        return 0;
    }
    struct str bytes = {piece, (size_t)got};
    if (!results->given)
        results->given = hasher_new();
    hasher_add(results->given, bytes);
    results->file_at += bytes.len;
    if (results->file_at == results->file_size && left && file_is_touched(results)) {
        results->again = hasher_new();
        results->last = piece;
        results->last_len = bytes.len;
        results->file_at = 0;
        return 0;
    }
    give_piece(results, at, bytes, out);
    mem_free(piece);
    if (results->file_at == results->file_size)
        file_close(results);
    return 0;
}

/* It has changed while it was read. If it has only grown, as a log does, what went out is what it was; else that may
 * be half of an old file and half of a new one. */
static int give_last(struct results *results, struct buf *out)
{
    uint64_t left = results->file_size - results->file_at;
    char block[65536];
    struct hash given;
    struct hash again;
    ssize_t got =
        pread(results->file_fd, block, left < sizeof(block) ? (size_t)left : sizeof(block),
              (off_t)results->file_at);

    if (got > 0) {
        hasher_add(results->again, (struct str){block, (size_t)got});
        results->file_at += (uint64_t)got;
        results->turn_hashed += (uint64_t)got;
        if (results->file_at < results->file_size)
            return 0;
    }
    hasher_end(results->again, &again);
    hasher_end(results->given, &given);
    results->again = results->given = NULL;
    if (got > 0 && hash_eq(again, given))
        give_piece(results, results->file_size - results->last_len,
                   (struct str){results->last, results->last_len}, out);
    else
        words_add(results, out, "changed " RESULTS_MEANWHILE);
    file_close(results);
    return 0;
}

/* ---- folders ---- */

int results_folder(int root_fd, struct str path)
{
    int fd = openat(root_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int why = errno;
    struct str part;

    while (fd >= 0 && path.len && str_cut(&path, '/', &part)) {
        char name[WS_NAME_MAX + 1];
        int next = -1;

        why = ENOENT;
        if (part.len && part.len < sizeof(name) && !str_is(part, ".") && !str_is(part, "..")) {
            memcpy(name, part.p, part.len);
            name[part.len] = '\0';
            next = openat(fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
            why = errno;
        }
        close(fd);
        fd = next;
    }
    return fd < 0 ? -why : fd;
}

/* Takes the descriptor. `path_len`: of the path before the folder's own name. */
static void push(struct results *results, int fd, size_t path_len, struct buf *out)
{
    struct stat st;
    DIR *folder = NULL;

    if (results->depth == RESULTS_DEPTH_MAX)
        words_add(results, out, "is too deep");
    else if (fstat(fd, &st) == 0 && st.st_dev != results->device)
        words_add(results, out, "is another volume");
    else
        folder = fdopendir(fd);
    if (!folder) {
        close(fd);
        return;
    }
    results->levels[results->depth].folder = folder;
    results->levels[results->depth++].path_len = path_len;
}

static bool is_ours(const struct results *results, const char *name)
{
    return (results->path_len == 0 && strcmp(name, WS_PRIVATE_DIR) == 0) ||
           strcmp(name, CACHE_NAME) == 0;
}

static int take_entry(struct results *results, const struct dirent *item, struct buf *out)
{
    DIR *folder = results->levels[results->depth - 1].folder;
    const char *name = item->d_name;
    size_t before = results->path_len;
    int n = snprintf(results->path + before, sizeof(results->path) - before, "%s%s",
                     before ? "/" : "", name);
    int fd;

    if (n < 0 || (size_t)n >= sizeof(results->path) - before) {
        results->path[before] = '\0';
        words_add(results, out, "has a file whose path is too long");
        return 0;
    }
    results->path_len = before + (size_t)n;
    fd = openat(dirfd(folder), name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0) {
        size_t depth = results->depth;

        push(results, fd, before, out);
        if (results->depth > depth)
            return 0;
    } else if (errno == EACCES || errno == EPERM) {
        words_add(results, out, "cannot be read");
    } else {
        (void)take_file(results, dirfd(folder), name, out);
        if (results->file_fd >= 0)
            return 0; /* the path is its own until it is closed */
    }
    results->path_len = before;
    return 0;
}

static int next_entry(struct results *results, struct buf *out, struct err *err)
{
    DIR *folder = results->levels[results->depth - 1].folder;
    struct dirent *item;

    item = readdir(folder);
    if (!item) {
        results->path_len = results->levels[--results->depth].path_len;
        closedir(folder);
        return 0;
    }
    if (strcmp(item->d_name, ".") == 0 || strcmp(item->d_name, "..") == 0 ||
        is_ours(results, item->d_name))
        return 0;
    results->turn_looks++;
    if (++results->look_count > RESULTS_LOOKS_MAX)
        return err_set(err, -E2BIG,
                       "the job's folder has more than %zu files and folders; name a PATH in it",
                       RESULTS_LOOKS_MAX);
    return take_entry(results, item, out);
}

/* ---- turns ---- */

/* A path is one file, or a folder. */
static int begin(struct results *results, struct buf *out, struct err *err)
{
    struct str wanted = results->wanted;
    struct str parent = manifest_parent(wanted);
    struct stat st = {0};
    int fd;
    int r = wanted.len ? manifest_check_path(wanted, err) : 0;

    if (r == 0 && fstat(results->root_fd, &st) < 0)
        r = err_set(err, -errno, "the job's folder: %s", errno_words(errno));
    if (r < 0)
        return r;
    results->device = st.st_dev;
    read_shipped(results, out);
    memcpy(results->path, wanted.p ? wanted.p : "", wanted.len);
    results->path_len = wanted.len;
    fd = results_folder(results->root_fd, wanted);
    if (fd >= 0) {
        push(results, fd, 0, out);
        return 0;
    }
    r = fd;
    fd = r == -ENOTDIR ? results_folder(results->root_fd, parent) : -1;
    if (fd < 0)
        return err_set(err, r,
                       "there is nothing at '" STR_FMT
                       "' in the job's folder, or a link leads there: %s",
                       STR_ARG(wanted), errno_words(-r));
    (void)take_file(results, fd, wanted.p + parent.len + (parent.len ? 1 : 0), out);
    close(fd);
    return 0;
}

static int step(struct results *results, struct buf *out, struct err *err)
{
    int r = 0;

    if (results->hasher)
        r = hash_some(results);
    else if (results->again)
        r = give_last(results, out);
    else if (results->file_fd >= 0)
        r = give_some(results, out, err);
    else
        return next_entry(results, out, err);
    if (results->file_fd < 0)
        results->path_len = manifest_parent(path_of(results)).len;
    return r;
}

int results_turn(struct results *results, struct buf *out, struct err *err)
{
    struct err own = {0};
    int r = 0;

    results->turn_looks = 0;
    results->turn_hashed = 0;
    if (!results->begun) {
        results->begun = true;
        r = begin(results, out, &own);
    }
    while (r == 0 && (results->depth || results->file_fd >= 0)) {
        if (out->len >= RESULTS_TURN_BYTES || results->turn_looks >= RESULTS_TURN_LOOKS ||
            results->turn_hashed >= RESULTS_TURN_HASHED)
            return 1;
        r = step(results, out, &own);
    }
    if (r < 0) {
        if (err)
            *err = own;
        return fail(out, &own, r);
    }
    frame_add_empty(out, FRAME_COMMIT);
    return 0;
}
