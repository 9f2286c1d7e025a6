#include "workspace/stage.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"
#include "workspace/scan.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LAID        "laid"
#define NEW         ".new" /* content that is being written; one thread does */
#define PART_SUFFIX ".part"
#define NAME_BYTES  72 /* a hash, a number, the suffix */

static char *text_dup(struct str text)
{
    char *copy = mem_alloc(text.len + 1);

    memcpy(copy, text.p, text.len);
    return copy;
}

static struct staged *add(struct stage *stage, struct hash hash, uint64_t size)
{
    struct staged *staged = MEM_NEW(struct staged);

    staged->hash = hash;
    staged->size = size;
    (void)hash_hex(hash, staged->hex);
    map_set(&stage->contents, hash_key(&staged->hash), staged);
    stage->bytes += size;
    return staged;
}

static void drop(struct stage *stage, struct staged *staged)
{
    stage->bytes -= staged->size;
    map_remove(&stage->contents, hash_key(&staged->hash));
    mem_free(staged->place);
    mem_free(staged);
}

struct staged *stage_find(const struct stage *stage, struct hash hash)
{
    return map_get(&stage->contents, hash_key(&hash));
}

static const char *part_name(const struct staged *staged, char out[static NAME_BYTES])
{
    (void)snprintf(out, NAME_BYTES, "%s.%llu" PART_SUFFIX, staged->hex,
                   (unsigned long long)staged->size);
    return out;
}

/* ---- opening ---- */

/* "HASH" is whole, "HASH.SIZE.part" is not; anything else is none of ours. */
static bool parse_name(struct str name, struct hash *ret_hash, bool *ret_part, uint64_t *ret_size)
{
    struct str rest;

    *ret_part = name.len > HASH_HEX_BYTES - 1;
    if (!hash_parse(str_sub(name, 0, HASH_HEX_BYTES - 1), ret_hash))
        return false;
    if (!*ret_part)
        return true;
    rest = str_sub(name, HASH_HEX_BYTES, name.len);
    if (name.p[HASH_HEX_BYTES - 1] != '.' || !str_ends(rest, STR(PART_SUFFIX)))
        return false;
    return str_to_u64(str_sub(rest, 0, rest.len - strlen(PART_SUFFIX)), ret_size);
}

static bool content_is(int folder_fd, const char *name, struct hash hash)
{
    _cleanup_(disk_closep) int fd = openat(folder_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    struct hash found;

    return fd >= 0 && hash_fd(fd, &found) >= 0 && hash_eq(found, hash);
}

static void load_one(struct stage *stage, const char *name, bool doubt)
{
    struct staged *staged;
    uint64_t size = 0;
    struct hash hash;
    struct stat st;
    bool part;

    if (!parse_name(str_from(name), &hash, &part, &size) || stage_find(stage, hash) ||
        fstatat(stage->fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode) ||
        (part && (uint64_t)st.st_size >= size) ||
        (doubt && (part || !content_is(stage->fd, name, hash)))) {
        (void)disk_remove(stage->fd, name);
        return;
    }
    staged = add(stage, hash, part ? size : (uint64_t)st.st_size);
    staged->have = (uint64_t)st.st_size;
    staged->mode = st.st_mode & 0777;
}

/* Files in stage/laid carry their path as name, so their hash has to be found out again. */
static int load_laid(struct stage *stage, const char *root, struct err *err)
{
    _cleanup_(manifest_unrefp) struct manifest *found = manifest_new();
    char folder[PATH_MAX];
    int r;

    stage->laid_fd = openat(stage->fd, LAID, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (stage->laid_fd < 0)
        return 0;
    if (snprintf(folder, sizeof(folder), "%s/" STAGE_DIR "/" LAID, root) >= PATH_MAX)
        return err_set(err, -ENAMETOOLONG, "folder %s: its path is too long", root);
    r = scan_folder(folder, NULL, found, err);
    for (size_t i = 0; r == 0 && i < found->entries.count; i++) {
        const struct ws_entry *entry = &found->entries.items[i];

        if (entry->type == WS_DIR)
            continue;
        if (entry->type != WS_FILE || stage_find(stage, entry->hash)) {
            (void)unlinkat(stage->laid_fd, entry->path.p, 0);
            continue;
        }
        struct staged *staged = add(stage, entry->hash, entry->size);
        staged->have = entry->size;
        staged->mode = entry->mode;
        staged->place = text_dup(entry->path);
    }
    return r;
}

int stage_open(struct stage *stage, const char *root, int root_fd, bool doubt, struct err *err)
{
    struct dirent *item;
    DIR *dir;
    int fd;

    *stage = (struct stage){.fd = -1, .laid_fd = -1, .walk = DISK_WALK_NONE};
    stage->mask = umask(0);
    (void)umask(stage->mask);
    if ((mkdirat(root_fd, WS_PRIVATE_DIR, 0700) < 0 && errno != EEXIST) ||
        (mkdirat(root_fd, STAGE_DIR, 0700) < 0 && errno != EEXIST) ||
        (stage->fd = openat(root_fd, STAGE_DIR, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)) <
            0)
        return err_set(err, -errno, "folder %s/%s: %s", root, STAGE_DIR, strerrordesc_np(errno));
    fd = fcntl(stage->fd, F_DUPFD_CLOEXEC, 3);
    dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir)
        return err_set(err, -errno, "%s: %s", STAGE_DIR, strerrordesc_np(errno));
    while ((item = readdir(dir)) != NULL)
        if (item->d_name[0] != '.' && strcmp(item->d_name, LAID) != 0)
            load_one(stage, item->d_name, doubt);
    closedir(dir);
    return load_laid(stage, root, err);
}

void stage_done(struct stage *stage)
{
    disk_closep(&stage->fd);
    disk_closep(&stage->laid_fd);
    disk_walk_done(&stage->walk);
    MAP_FOREACH(&stage->contents, item) {
        mem_free(((struct staged *)item->value)->place);
        mem_free(item->value);
    }
    map_done(&stage->contents);
    *stage = (struct stage){.fd = -1, .laid_fd = -1, .walk = DISK_WALK_NONE};
}

/* ---- arriving ---- */

static int check(const struct stage *stage, const struct frame_blob *blob, struct err *err)
{
    if (blob->size > WS_BYTES_MAX || stage->bytes > WS_BYTES_MAX - blob->size)
        return err_set(err, -EFBIG, "more content than a workspace may have (%llu bytes)",
                       (unsigned long long)WS_BYTES_MAX);
    if (blob->offset > blob->size || blob->bytes.len > blob->size - blob->offset)
        return err_set(err, -EPROTO, "a piece of content that lies beyond its end");
    if (stage->contents.count >= WS_ENTRIES_MAX)
        return err_set(err, -EFBIG, "more than %zu pieces of content", WS_ENTRIES_MAX);
    return blob->path.len ? manifest_check_path(blob->path, err) : 0;
}

/* Where the content will be at the end, below stage/laid; -1 when that place is taken or cannot be:
 * then it goes under its hash like any other. */
static int lay_out(struct stage *stage, struct staged *staged, struct str path)
{
    char *place = text_dup(path);
    const char *name;
    int parent = -1;
    int fd = -1;

    if (stage->laid_fd < 0 && (mkdirat(stage->fd, LAID, 0700) == 0 || errno == EEXIST))
        stage->laid_fd = openat(stage->fd, LAID, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (stage->laid_fd >= 0)
        parent = disk_parent(&stage->walk, stage->laid_fd, (struct str){place, path.len}, 0700,
                             &name, NULL);
    if (parent >= 0)
        fd = openat(parent, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                    staged->mode);
    if (fd < 0) {
        mem_free(place);
        return -1;
    }
    staged->place = place;
    return fd;
}

static void unlink_content(struct stage *stage, const struct staged *staged)
{
    (void)unlinkat(staged->place ? stage->laid_fd : stage->fd, staged->place ? staged->place : NEW,
                   0);
}

/* What stands under its hash is whole, whenever we are killed: it has that name last of all. */
static int open_new(const struct stage *stage, mode_t mode)
{
    (void)unlinkat(stage->fd, NEW, 0); /* of one that was killed, with its mode */
    int fd = openat(stage->fd, NEW, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);

    return fd < 0 ? -errno : fd;
}

static int name_new(const struct stage *stage, const struct staged *staged)
{
    return renameat(stage->fd, NEW, stage->fd, staged->hex) < 0 ? -errno : 0;
}

/* The common case: a small file in one piece. Checked before a byte is written. */
static int take_whole(struct stage *stage,
                      const struct frame_blob *blob,
                      bool laid,
                      struct err *err)
{
    _cleanup_(disk_closep) int fd = -1;
    struct staged *staged;
    int r;

    if (!hash_eq(hash_of(blob->bytes), blob->hash))
        return err_set(err, -EILSEQ, "content does not have the hash it was sent with");
    staged = add(stage, blob->hash, blob->size);
    staged->mode = blob->mode & 0777 & ~stage->mask;
    if (laid && blob->path.len)
        fd = lay_out(stage, staged, blob->path);
    if (fd < 0)
        fd = open_new(stage, staged->mode);
    r = fd < 0 ? fd : disk_write_sparse(fd, blob->bytes);
    if (r == 0 && !staged->place)
        r = name_new(stage, staged);
    if (r < 0) {
        unlink_content(stage, staged);
        err_set(err, r, "content %s: %s", staged->hex, strerrordesc_np(-r));
        drop(stage, staged);
        return r;
    }
    staged->have = blob->size;
    return 0;
}

/* The last piece is there: give the content its name, or throw it away when it is not what was
 * said. */
static int complete(struct stage *stage, struct staged *staged, int fd, struct err *err)
{
    char part[NAME_BYTES];
    struct hash hash;
    int64_t size = hash_fd(fd, &hash);

    (void)part_name(staged, part);
    if (size < 0)
        return err_set(err, (int)size, "content %s: %s", staged->hex, strerrordesc_np((int)-size));
    if ((uint64_t)size != staged->size || !hash_eq(hash, staged->hash)) {
        (void)unlinkat(stage->fd, part, 0);
        err_set(err, -EILSEQ, "content %s does not have the hash it was sent with", staged->hex);
        drop(stage, staged);
        return -EILSEQ;
    }
    if (renameat(stage->fd, part, stage->fd, staged->hex) < 0)
        return err_set(err, -errno, "content %s: %s", staged->hex, strerrordesc_np(errno));
    return 0;
}

int stage_blob(struct stage *stage, const struct frame_blob *blob, bool laid, struct err *err)
{
    _cleanup_(disk_closep) int fd = -1;
    char name[NAME_BYTES];
    struct staged *staged = stage_find(stage, blob->hash);
    int r;

    if (staged && staged->size == blob->size && staged->have == staged->size)
        return 0;
    r = check(stage, blob, err);
    if (r < 0)
        return r;
    if (!staged && blob->offset == 0 && blob->bytes.len == blob->size)
        return take_whole(stage, blob, laid, err);
    if (staged && staged->size != blob->size)
        return err_set(err, -EPROTO, "content %s: of %llu bytes before, of %llu now", staged->hex,
                       (unsigned long long)staged->size, (unsigned long long)blob->size);
    if (!staged)
        staged = add(stage, blob->hash, blob->size);
    if (blob->offset + blob->bytes.len <= staged->have)
        return 0;
    if (blob->offset != staged->have)
        return err_set(err, -EPROTO, "content %s: a piece at %llu, but %llu is next", staged->hex,
                       (unsigned long long)blob->offset, (unsigned long long)staged->have);
    fd = openat(stage->fd, part_name(staged, name),
                O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | (staged->have ? 0 : O_TRUNC), 0600);
    if (fd < 0 || lseek(fd, (off_t)staged->have, SEEK_SET) < 0)
        return err_set(err, -errno, "content %s: %s", staged->hex, strerrordesc_np(errno));
    staged->mode = 0600;
    r = disk_write_sparse(fd, blob->bytes);
    if (r < 0)
        return err_set(err, r, "content %s: %s", staged->hex, strerrordesc_np(-r));
    staged->have += blob->bytes.len;
    return staged->have == staged->size ? complete(stage, staged, fd, err) : 0;
}

int stage_copy(struct stage *stage, int fd, struct hash hash, uint64_t size)
{
    struct staged *staged = add(stage, hash, size);
    _cleanup_(disk_closep) int out = open_new(stage, 0600);
    struct hash found;
    int r = out < 0 ? out : disk_copy(fd, out);

    if (r == 0 && (hash_fd(out, &found) < 0 || !hash_eq(found, hash)))
        r = -EILSEQ;
    if (r == 0)
        r = name_new(stage, staged);
    if (r < 0) {
        (void)unlinkat(stage->fd, NEW, 0);
        drop(stage, staged);
        return r;
    }
    staged->mode = 0600;
    staged->have = size;
    return 0;
}

/* ---- committing ---- */

/* Back under its hash; folders that are empty now go, or they would come along. */
static int unlay(struct stage *stage, struct staged *staged)
{
    struct str folder = manifest_parent(str_from(staged->place));

    if (renameat(stage->laid_fd, staged->place, stage->fd, staged->hex) < 0)
        return -errno;
    disk_walk_done(&stage->walk);
    for (; folder.len; folder = manifest_parent(folder)) {
        staged->place[folder.len] = '\0';
        if (unlinkat(stage->laid_fd, staged->place, AT_REMOVEDIR) < 0)
            break;
    }
    mem_free(TAKE_PTR(staged->place));
    return 0;
}

/* Calls for every name in stage/laid; stops at the first non-zero. */
static int each_laid(const struct stage *stage, int root_fd, int (*fn)(int, int, const char *))
{
    int fd = openat(stage->fd, LAID, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *item;
    int r = 0;

    if (!dir)
        return -errno;
    while (r == 0 && (item = readdir(dir)) != NULL)
        if (strcmp(item->d_name, ".") != 0 && strcmp(item->d_name, "..") != 0)
            r = fn(fd, root_fd, item->d_name);
    closedir(dir);
    return r;
}

static int is_there(int laid_fd, int root_fd, const char *name)
{
    (void)laid_fd;
    return faccessat(root_fd, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static int move_over(int laid_fd, int root_fd, const char *name)
{
    return renameat(laid_fd, name, root_fd, name) < 0 ? -errno : 0;
}

int stage_settle(struct stage *stage, int root_fd, const struct manifest *target, struct err *err)
{
    int taken; /* something of the job's own lies where we would move a folder to */
    int r = 0;

    if (stage->laid_fd < 0)
        return 0;
    disk_walk_done(&stage->walk);
    taken = each_laid(stage, root_fd, is_there);
    MAP_FOREACH(&stage->contents, item) {
        struct staged *staged = item->value;
        const struct ws_entry *entry;

        if (!staged->place || r < 0)
            continue;
        entry = manifest_find(target, str_from(staged->place));
        if (taken != 0 || !entry || entry->type != WS_FILE || !hash_eq(entry->hash, staged->hash))
            r = unlay(stage, staged);
    }
    if (r == 0)
        r = each_laid(stage, root_fd, move_over);
    if (r < 0)
        return err_set(err, r, "%s: %s", STAGE_DIR "/" LAID, strerrordesc_np(-r));
    MAP_FOREACH(&stage->contents, item) {
        struct staged *staged = item->value;

        staged->settled = staged->place != NULL;
    }
    close(TAKE_FD(stage->laid_fd));
    (void)unlinkat(stage->fd, LAID, AT_REMOVEDIR);
    return 0;
}

/* Another file with the same content. */
static int put_copy(struct stage *stage, int root_fd, const struct staged *staged, uint32_t mode)
{
    struct disk_walk walk = DISK_WALK_NONE;
    const char *name = staged->hex;
    int parent = staged->settled
                     ? disk_parent(&walk, root_fd, str_from(staged->place), 0, &name, NULL)
                     : stage->fd;
    _cleanup_(disk_closep) int in =
        parent < 0 ? parent : openat(parent, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    _cleanup_(disk_closep) int out =
        openat(stage->fd, ".copy", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    int r = in < 0 || out < 0 ? -errno : disk_copy(in, out);

    disk_walk_done(&walk);
    return r == 0 && fchmod(out, mode) < 0 ? -errno : r;
}

int stage_put(struct stage *stage,
              int root_fd,
              int parent,
              const char *name,
              const struct ws_entry *entry)
{
    struct staged *staged = stage_find(stage, entry->hash);
    bool here = staged->settled && str_is(entry->path, staged->place);
    bool last = staged->needs == 1;
    int r = 0;

    assert(staged->needs > 0);
    staged->needs--;
    if (here) {
        if (staged->mode != entry->mode && fchmodat(parent, name, entry->mode, 0) < 0)
            r = -errno;
    } else if (!last || staged->settled) {
        r = put_copy(stage, root_fd, staged, entry->mode);
        if (r == 0 && renameat(stage->fd, ".copy", parent, name) < 0)
            r = -errno;
    } else {
        if (staged->mode != entry->mode && fchmodat(stage->fd, staged->hex, entry->mode, 0) < 0)
            r = -errno;
        if (r == 0 && renameat(stage->fd, staged->hex, parent, name) < 0)
            r = -errno;
    }
    if (r == 0 && last)
        drop(stage, staged);
    return r;
}

int stage_put_link(struct stage *stage, int parent, const char *name, struct str target)
{
    char text[WS_PATH_MAX + 1];

    assert(target.len <= WS_PATH_MAX);
    memcpy(text, target.p, target.len);
    text[target.len] = '\0';
    (void)unlinkat(stage->fd, ".link", 0);
    if (symlinkat(text, stage->fd, ".link") < 0)
        return -errno;
    return renameat(stage->fd, ".link", parent, name) < 0 ? -errno : 0;
}

void stage_drop_unused(struct stage *stage, struct hash hash)
{
    struct staged *staged = stage_find(stage, hash);

    if (!staged || staged->needs || staged->place || staged->have < staged->size)
        return;
    (void)unlinkat(stage->fd, staged->hex, 0);
    drop(stage, staged);
}
