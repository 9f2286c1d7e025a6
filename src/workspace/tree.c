#include "workspace/tree.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"
#include "workspace/scan.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define STAGE_DIR     WS_PRIVATE_DIR "/stage"
#define MANIFEST_FILE WS_PRIVATE_DIR "/manifest"
/* A manifest of WS_ENTRIES_MAX entries with paths of a usual length; longer ones are refused. */
#define MANIFEST_BYTES_MAX ((size_t)512 << 20)
#define PART_SUFFIX        ".part"
#define STAGE_NAME_BYTES   48

/* Content that has arrived, or is arriving. */
struct staged {
    char hex[HASH_HEX_BYTES];
    struct hash hash;
    uint64_t size;
    uint64_t have;
    uint32_t mode;  /* of the file in the stage */
    uint32_t needs; /* while applying: entries that still want it */
};

static void fd_closep(int *fd)
{
    if (*fd >= 0)
        close(*fd);
}

static const char *c_path(struct str path, char out[static WS_PATH_MAX + 1])
{
    assert(path.len <= WS_PATH_MAX);
    memcpy(out, path.p, path.len);
    out[path.len] = '\0';
    return out;
}

static int write_all(int fd, struct str bytes)
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

/* ---- the stage ---- */

static struct staged *staged_find(struct tree *tree, struct hash hash)
{
    return map_get(&tree->staged, hash_key(&hash));
}

static struct staged *staged_add(struct tree *tree, struct hash hash, uint64_t size)
{
    struct staged *staged = MEM_NEW(struct staged);

    staged->hash = hash;
    staged->size = size;
    (void)hash_hex(hash, staged->hex);
    map_set(&tree->staged, hash_key(&staged->hash), staged);
    tree->staged_bytes += size;
    return staged;
}

static void staged_drop(struct tree *tree, struct staged *staged)
{
    tree->staged_bytes -= staged->size;
    map_remove(&tree->staged, hash_key(&staged->hash));
    mem_free(staged);
}

static const char *stage_name(const struct staged *staged, char out[static STAGE_NAME_BYTES])
{
    bool part = staged->have < staged->size;

    (void)snprintf(out, STAGE_NAME_BYTES, "%s%s", staged->hex, part ? PART_SUFFIX : "");
    return out;
}

/* What an earlier process left. A part has no record of its full size: it is kept with the size
 * unknown (0 = as much as is there) and completed by the piece that continues it. */
static int stage_load(struct tree *tree, struct err *err)
{
    int fd = fcntl(tree->stage_fd, F_DUPFD_CLOEXEC, 3);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *item;

    if (!dir)
        return err_set(err, -errno, "%s: %s", STAGE_DIR, strerrordesc_np(errno));
    while ((item = readdir(dir)) != NULL) {
        struct hash hash;
        struct stat st;

        if (item->d_name[0] == '.')
            continue;
        if (hash_parse(str_from(item->d_name), &hash) &&
            fstatat(tree->stage_fd, item->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
            S_ISREG(st.st_mode)) {
            struct staged *staged = staged_add(tree, hash, (uint64_t)st.st_size);

            staged->have = staged->size;
            staged->mode = st.st_mode & 0777;
        } else {
            (void)unlinkat(tree->stage_fd, item->d_name, 0);
        }
    }
    closedir(dir);
    return 0;
}

/* Which file of the current revision has this content? Costs a pass over all entries after every
 * commit, so it is asked only when the stage does not have it. */
static const struct ws_entry *locate(struct tree *tree, struct hash hash, uint64_t size)
{
    const struct ws_entry *found;

    if (!tree->located_valid) {
        map_clear(&tree->located);
        for (size_t i = 0; i < tree->current->entries.count; i++) {
            struct ws_entry *entry = &tree->current->entries.items[i];

            if (entry->type == WS_FILE)
                (void)map_set(&tree->located, hash_key(&entry->hash), entry);
        }
        tree->located_valid = true;
    }
    found = map_get(&tree->located, hash_key(&hash));
    return found && found->size == size ? found : NULL;
}

bool tree_has(struct tree *tree, struct hash hash, uint64_t size, uint64_t *ret_offset)
{
    struct staged *staged = staged_find(tree, hash);

    *ret_offset = 0;
    if (staged && staged->size == size) {
        *ret_offset = staged->have;
        return staged->have == size;
    }
    return locate(tree, hash, size) != NULL;
}

static int blob_check(const struct tree *tree, const struct frame_blob *blob, struct err *err)
{
    if (blob->size > WS_BYTES_MAX || tree->staged_bytes > WS_BYTES_MAX - blob->size)
        return err_set(err, -EFBIG, "more content than a workspace may have (%llu bytes)",
                       (unsigned long long)WS_BYTES_MAX);
    if (blob->offset > blob->size || blob->bytes.len > blob->size - blob->offset)
        return err_set(err, -EPROTO, "a piece of content that lies beyond its end");
    if (tree->staged.count >= WS_ENTRIES_MAX)
        return err_set(err, -EFBIG, "more than %zu pieces of content", WS_ENTRIES_MAX);
    return 0;
}

/* The whole content is there: give it its name, or throw it away when it is not what was said. */
static int blob_complete(struct tree *tree, struct staged *staged, int fd, struct err *err)
{
    char part[STAGE_NAME_BYTES];
    struct hash hash;
    int64_t size = hash_fd(fd, &hash);

    (void)snprintf(part, sizeof(part), "%s" PART_SUFFIX, staged->hex);
    if (size < 0)
        return err_set(err, (int)size, "content %s: %s", staged->hex, strerrordesc_np((int)-size));
    if ((uint64_t)size != staged->size || !hash_eq(hash, staged->hash)) {
        (void)unlinkat(tree->stage_fd, part, 0);
        err_set(err, -EILSEQ, "content %s does not have the hash it was sent with", staged->hex);
        staged_drop(tree, staged);
        return -EILSEQ;
    }
    if (renameat(tree->stage_fd, part, tree->stage_fd, staged->hex) < 0)
        return err_set(err, -errno, "content %s: %s", staged->hex, strerrordesc_np(errno));
    return 0;
}

/* The common case: a small file in one piece. Checked before a byte is written. */
static int blob_whole(struct tree *tree, const struct frame_blob *blob, struct err *err)
{
    _cleanup_(fd_closep) int fd = -1;
    struct staged *staged;
    int r;

    if (!hash_eq(hash_of(blob->bytes), blob->hash))
        return err_set(err, -EILSEQ, "content does not have the hash it was sent with");
    staged = staged_add(tree, blob->hash, blob->size);
    staged->mode = blob->mode & 0777;
    fd = openat(tree->stage_fd, staged->hex, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC,
                staged->mode);
    r = fd < 0 ? -errno : write_all(fd, blob->bytes);
    if (r < 0) {
        (void)unlinkat(tree->stage_fd, staged->hex, 0);
        err_set(err, r, "content %s: %s", staged->hex, strerrordesc_np(-r));
        staged_drop(tree, staged);
        return r;
    }
    staged->have = blob->size;
    return 0;
}

int tree_blob(struct tree *tree, const struct frame_blob *blob, struct err *err)
{
    _cleanup_(fd_closep) int fd = -1;
    char name[STAGE_NAME_BYTES];
    struct staged *staged = staged_find(tree, blob->hash);
    int r;

    if (staged && staged->size == blob->size && staged->have == staged->size)
        return 0;
    r = blob_check(tree, blob, err);
    if (r < 0)
        return r;
    if (!staged && blob->offset == 0 && blob->bytes.len == blob->size)
        return blob_whole(tree, blob, err);
    if (!staged) {
        staged = staged_add(tree, blob->hash, blob->size);
        staged->mode = blob->mode & 0777;
    }
    if (blob->offset + blob->bytes.len <= staged->have)
        return 0;
    if (blob->offset != staged->have)
        return err_set(err, -EPROTO, "content %s: a piece at %llu, but %llu is next", staged->hex,
                       (unsigned long long)blob->offset, (unsigned long long)staged->have);
    (void)stage_name(staged, name);
    fd = openat(tree->stage_fd, name,
                O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | (staged->have ? 0 : O_TRUNC),
                staged->mode | 0600);
    if (fd < 0 || lseek(fd, (off_t)staged->have, SEEK_SET) < 0)
        return err_set(err, -errno, "content %s: %s", staged->hex, strerrordesc_np(errno));
    staged->mode |= 0600;
    r = write_all(fd, blob->bytes);
    if (r < 0)
        return err_set(err, r, "content %s: %s", staged->hex, strerrordesc_np(-r));
    staged->have += blob->bytes.len;
    return staged->have == staged->size ? blob_complete(tree, staged, fd, err) : 0;
}

/* ---- walking ---- */

/* The folder that `path` lies in, opened without following any link. Kept open for the next. */
static int parent_open(struct tree *tree, struct str path, const char **ret_name, struct err *err)
{
    size_t cut = path.len;
    struct str rest;
    struct str part;
    int fd;

    while (cut > 0 && path.p[cut - 1] != '/')
        cut--;
    *ret_name = path.p + cut; /* manifest strings are NUL-terminated */
    rest = str_sub(path, 0, cut ? cut - 1 : 0);
    if (rest.len == 0)
        return tree->root_fd;
    if (tree->parent_fd >= 0 && str_is(rest, tree->parent))
        return tree->parent_fd;
    fd = fcntl(tree->root_fd, F_DUPFD_CLOEXEC, 3);
    for (struct str walk = rest; fd >= 0 && str_cut(&walk, '/', &part);) {
        char name[WS_NAME_MAX + 1];
        int next;

        memcpy(name, part.p, part.len);
        name[part.len] = '\0';
        next = openat(fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        close(fd);
        fd = next;
    }
    if (fd < 0)
        return err_set(err, -errno, "'" STR_FMT "': %s", STR_ARG(rest), strerrordesc_np(errno));
    if (tree->parent_fd >= 0)
        close(tree->parent_fd);
    tree->parent_fd = fd;
    (void)c_path(rest, tree->parent);
    return fd;
}

static void parent_forget(struct tree *tree)
{
    if (tree->parent_fd >= 0)
        close(tree->parent_fd);
    tree->parent_fd = -1;
    tree->parent[0] = '\0';
}

int tree_open_file(struct tree *tree, const struct ws_entry *entry, struct err *err)
{
    const char *name;
    int parent = parent_open(tree, entry->path, &name, err);
    int fd;

    if (parent < 0)
        return parent;
    fd = openat(parent, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return err_set(err, -errno, "'" STR_FMT "': %s", STR_ARG(entry->path),
                       strerrordesc_np(errno));
    return fd;
}

/* ---- applying ---- */

struct change {
    const struct ws_entry *before; /* NULL: new */
    const struct ws_entry *after;  /* NULL: gone */
};

struct changes VEC_FIELDS(struct change);

static int copy_fd(int from, int to)
{
    char block[65536];

    for (;;) {
        ssize_t got = read(from, block, sizeof(block));
        int r;

        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return got < 0 ? -errno : 0;
        r = write_all(to, (struct str){block, (size_t)got});
        if (r < 0)
            return r;
    }
}

/* Copy a file of the current revision into the stage under its hash: it moved, or is there twice.
 */
static int stage_from_tree(struct tree *tree, const struct ws_entry *from, struct err *err)
{
    _cleanup_(fd_closep) int in = tree_open_file(tree, from, err);
    _cleanup_(fd_closep) int out = -1;
    struct staged *staged;
    struct hash hash;
    int r;

    if (in < 0)
        return in;
    staged = staged_add(tree, from->hash, from->size);
    staged->mode = 0600;
    out = openat(tree->stage_fd, staged->hex, O_RDWR | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC,
                 0600);
    r = out < 0 ? -errno : copy_fd(in, out);
    if (r == 0 && (hash_fd(out, &hash) < 0 || !hash_eq(hash, from->hash)))
        r = -EILSEQ;
    if (r < 0) {
        (void)unlinkat(tree->stage_fd, staged->hex, 0);
        staged_drop(tree, staged);
        return err_set(err, r, "'" STR_FMT "': %s", STR_ARG(from->path), strerrordesc_np(-r));
    }
    staged->have = from->size;
    return 0;
}

/* First pass: everything that will be written is in the stage, and counted. */
static int want(struct tree *tree, const struct change *change, struct err *err)
{
    const struct ws_entry *before = change->before;
    const struct ws_entry *after = change->after;
    int r = 0;

    if (!after || after->type != WS_FILE)
        return 0;
    if (before && before->type == WS_FILE && before->size == after->size &&
        hash_eq(before->hash, after->hash))
        return 0; /* only the mode changed */
    struct staged *staged = staged_find(tree, after->hash);
    if (!staged || staged->have < staged->size || staged->size != after->size) {
        const struct ws_entry *from = locate(tree, after->hash, after->size);

        if (!from)
            return err_set(err, -ENOENT, "the content of '" STR_FMT "' has not been sent",
                           STR_ARG(after->path));
        r = stage_from_tree(tree, from, err);
        staged = staged_find(tree, after->hash);
    }
    if (r == 0 && staged)
        staged->needs++;
    return r;
}

static int remove_below(int parent, const char *name)
{
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *item;

    if (!dir)
        return -errno;
    while ((item = readdir(dir)) != NULL) {
        if (strcmp(item->d_name, ".") == 0 || strcmp(item->d_name, "..") == 0)
            continue;
        if (unlinkat(fd, item->d_name, 0) < 0 && (errno == EISDIR || errno == EPERM))
            (void)remove_below(fd, item->d_name);
    }
    closedir(dir);
    return unlinkat(parent, name, AT_REMOVEDIR) < 0 ? -errno : 0;
}

/* Second pass, last path first so that folders are empty when their turn comes: what goes, and what
 * is in the way of something of another type. A folder that the job has put files into stays. */
static int remove_old(struct tree *tree, const struct ws_entry *before, bool in_the_way)
{
    const char *name;
    int parent = parent_open(tree, before->path, &name, NULL);

    if (parent < 0)
        return 0; /* it is gone already, with its folder */
    if (before->type != WS_DIR)
        return unlinkat(parent, name, 0) < 0 && errno != ENOENT ? -errno : 0;
    if (tree->parent_fd >= 0) {
        parent_forget(tree);
        parent = parent_open(tree, before->path, &name, NULL);
    }
    if (parent < 0 || unlinkat(parent, name, AT_REMOVEDIR) == 0 || !in_the_way)
        return 0;
    return remove_below(parent, name);
}

static int put_file(struct tree *tree, int parent, const char *name, const struct ws_entry *entry)
{
    struct staged *staged = staged_find(tree, entry->hash);
    const char *from = staged->hex;

    assert(staged->needs > 0);
    if (--staged->needs > 0) {
        _cleanup_(fd_closep) int in = openat(tree->stage_fd, staged->hex, O_RDONLY | O_CLOEXEC);
        _cleanup_(fd_closep) int out =
            openat(tree->stage_fd, ".copy", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        int r = in < 0 || out < 0 ? -errno : copy_fd(in, out);

        if (r < 0 || fchmod(out, entry->mode) < 0)
            return r < 0 ? r : -errno;
        from = ".copy";
    } else if (staged->mode != entry->mode &&
               fchmodat(tree->stage_fd, staged->hex, entry->mode, 0) < 0) {
        return -errno;
    }
    if (renameat(tree->stage_fd, from, parent, name) < 0)
        return -errno;
    if (staged->needs == 0)
        staged_drop(tree, staged);
    return 0;
}

static int put_link(struct tree *tree, int parent, const char *name, const struct ws_entry *entry)
{
    char target[WS_PATH_MAX + 1];

    (void)unlinkat(tree->stage_fd, ".link", 0);
    if (symlinkat(c_path(entry->target, target), tree->stage_fd, ".link") < 0)
        return -errno;
    return renameat(tree->stage_fd, ".link", parent, name) < 0 ? -errno : 0;
}

/* Third pass, in path order: folders before what is in them. */
static int put_new(struct tree *tree, const struct change *change, struct err *err)
{
    const struct ws_entry *before = change->before;
    const struct ws_entry *after = change->after;
    const char *name;
    int parent;
    int r;

    if (!after)
        return 0;
    parent = parent_open(tree, after->path, &name, err);
    if (parent < 0)
        return parent;
    if (after->type == WS_LINK)
        r = put_link(tree, parent, name, after);
    else if (after->type == WS_DIR && mkdirat(parent, name, 0700) < 0 && errno != EEXIST)
        r = -errno;
    else if (after->type == WS_FILE &&
             !(before && before->type == WS_FILE && hash_eq(before->hash, after->hash)))
        r = put_file(tree, parent, name, after);
    else
        r = fchmodat(parent, name, after->mode | (after->type == WS_DIR ? 0700 : 0), 0) < 0 ? -errno
                                                                                            : 0;
    if (r < 0)
        return err_set(err, r, "'" STR_FMT "': %s", STR_ARG(after->path), strerrordesc_np(-r));
    return 0;
}

static int run_changes(struct tree *tree, const struct changes *changes, struct err *err)
{
    mode_t mask;
    int r = 0;

    MAP_FOREACH(&tree->staged, item)
        ((struct staged *)item->value)->needs = 0;
    for (size_t i = 0; r == 0 && i < changes->count; i++)
        r = want(tree, &changes->items[i], err);
    if (r < 0)
        return r;
    for (size_t i = changes->count; i-- > 0;) {
        const struct change *change = &changes->items[i];

        if (!change->before || (change->after && change->after->type == change->before->type))
            continue;
        r = remove_old(tree, change->before, change->after != NULL);
        if (r < 0)
            return err_set(err, r, "removing '" STR_FMT "': %s", STR_ARG(change->before->path),
                           strerrordesc_np(-r));
    }
    parent_forget(tree);
    mask = umask(0);
    for (size_t i = 0; r == 0 && i < changes->count; i++)
        r = put_new(tree, &changes->items[i], err);
    (void)umask(mask);
    parent_forget(tree);
    return r;
}

/* ---- the manifest on disk: entry and gone frames, the last word on a path counts ---- */

static int log_rewrite(struct tree *tree, struct err *err)
{
    _cleanup_(buf_done) struct buf text = {.bytes_max = MANIFEST_BYTES_MAX};
    const struct manifest *manifest = tree->current;
    int r;

    for (size_t i = 0; i < manifest->entries.count; i++)
        frame_add_entry(&text, &manifest->entries.items[i]);
    if (tree->log_fd >= 0)
        close(tree->log_fd);
    tree->log_fd = openat(tree->root_fd, MANIFEST_FILE ".new",
                          O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
    r = tree->log_fd < 0 ? -errno
        : text.overflow  ? -EFBIG
                         : write_all(tree->log_fd, buf_str(&text));
    if (r == 0 && renameat(tree->root_fd, MANIFEST_FILE ".new", tree->root_fd, MANIFEST_FILE) < 0)
        r = -errno;
    if (r < 0)
        return err_set(err, r, "%s: %s", MANIFEST_FILE, strerrordesc_np(-r));
    tree->log_entries = manifest->entries.count;
    return 0;
}

static int log_append(struct tree *tree, const struct delta *delta, struct err *err)
{
    _cleanup_(buf_done) struct buf text = {.bytes_max = MANIFEST_BYTES_MAX};
    int r;

    if (tree->log_fd < 0 || tree->log_entries > 2 * tree->current->entries.count + 1000)
        return log_rewrite(tree, err);
    for (size_t i = 0; i < delta->gone.count; i++)
        frame_add_gone(&text, delta->gone.items[i]);
    for (size_t i = 0; i < delta->set.count; i++)
        frame_add_entry(&text, &delta->set.items[i]);
    r = text.overflow ? -EFBIG : write_all(tree->log_fd, buf_str(&text));
    tree->log_entries += delta->gone.count + delta->set.count;
    return r < 0 ? err_set(err, r, "%s: %s", MANIFEST_FILE, strerrordesc_np(-r)) : 0;
}

/* ---- committing ---- */

int delta_frame(struct delta *delta, const struct frame *frame, struct err *err)
{
    struct ws_entry entry;

    if (frame->type == FRAME_BEGIN && !delta->begun) {
        delta->begun = true;
        delta->begin = frame->begin;
        return 0;
    }
    if (!delta->begun || delta->set.count + delta->gone.count > 2 * WS_ENTRIES_MAX)
        return err_set(err, -EPROTO, "a change before its beginning, or too many");
    if (frame->type == FRAME_ENTRY) {
        entry = frame->entry;
        entry.path = str_dup(&delta->arena, entry.path);
        if (entry.target.len)
            entry.target = str_dup(&delta->arena, entry.target);
        VEC_PUSH(&delta->arena, &delta->set, entry);
        return 0;
    }
    if (frame->type == FRAME_GONE) {
        VEC_PUSH(&delta->arena, &delta->gone, str_dup(&delta->arena, frame->path));
        return 0;
    }
    return err_set(err, -EPROTO, "a '%c' frame in a commit", (char)frame->type);
}

void delta_done(struct delta *delta)
{
    arena_done(&delta->arena);
    *delta = (struct delta){0};
}

static int collect(void *user, const struct ws_entry *before, const struct ws_entry *after)
{
    struct changes *changes = user;

    VEC_PUSH(NULL, changes, (struct change){before, after});
    return 0;
}

/* The general way: a whole new manifest, checked whole. */
static int commit_whole(struct tree *tree, const struct delta *delta, struct err *err)
{
    _cleanup_(manifest_unrefp) struct manifest *target = manifest_new();
    struct map touched = {0};
    struct changes changes = {0};
    struct manifest *old;
    int r;

    for (size_t i = 0; i < delta->gone.count; i++)
        (void)map_set(&touched, delta->gone.items[i], tree);
    for (size_t i = 0; i < delta->set.count; i++)
        (void)map_set(&touched, delta->set.items[i].path, tree);
    for (size_t i = 0; !delta->begin.full && i < tree->current->entries.count; i++)
        if (!map_get(&touched, tree->current->entries.items[i].path))
            manifest_add(target, &tree->current->entries.items[i]);
    for (size_t i = 0; i < delta->set.count; i++)
        manifest_add(target, &delta->set.items[i]);
    map_done(&touched);
    r = manifest_finish(target, err);
    if (r == 0 && !hash_eq(target->revision, delta->begin.target))
        r = err_set(err, -EILSEQ, "the entries do not add up to the announced revision");
    if (r == 0)
        (void)manifest_diff(tree->current, target, collect, &changes);
    if (r == 0)
        r = run_changes(tree, &changes, err);
    VEC_DONE(&changes);
    if (r < 0)
        return r;
    old = tree->current;
    tree->current = manifest_ref(target);
    tree->located_valid = false;
    manifest_unref(old);
    return log_rewrite(tree, err);
}

/* Can the delta be checked entry by entry? Yes, if no folder goes and nothing changes its type. */
static int delta_is_small(struct tree *tree, const struct delta *delta, struct err *err)
{
    if (delta->begin.full || delta->set.count + delta->gone.count > TREE_SMALL_DELTA_MAX ||
        tree->current->refs > 1 || hash_is_zero(tree->current->revision))
        return 0;
    for (size_t i = 0; i < delta->gone.count; i++) {
        const struct ws_entry *before = manifest_find(tree->current, delta->gone.items[i]);

        if (before && before->type == WS_DIR)
            return 0;
    }
    for (size_t i = 0; i < delta->set.count; i++) {
        const struct ws_entry *entry = &delta->set.items[i];
        const struct ws_entry *before = manifest_find(tree->current, entry->path);
        struct str parent = manifest_parent(entry->path);
        const struct ws_entry *above = parent.len ? manifest_find(tree->current, parent) : NULL;
        int r = manifest_check_entry(entry, err);

        if (r < 0)
            return r;
        if ((before && before->type != entry->type) ||
            (parent.len && !(above && above->type == WS_DIR)))
            return 0;
    }
    return 1;
}

static int by_after_path(const void *a, const void *b)
{
    const struct change *x = a;
    const struct change *y = b;

    return str_cmp((x->after ? x->after : x->before)->path,
                   (y->after ? y->after : y->before)->path);
}

static int commit_small(struct tree *tree, const struct delta *delta, struct err *err)
{
    struct hash revision = tree->current->revision;
    struct changes changes = {0};
    int r = 0;

    for (size_t i = 0; i < delta->gone.count; i++) {
        const struct ws_entry *before = manifest_find(tree->current, delta->gone.items[i]);

        if (before)
            VEC_PUSH(NULL, &changes, (struct change){before, NULL});
    }
    for (size_t i = 0; i < delta->set.count; i++)
        VEC_PUSH(NULL, &changes,
                 (struct change){manifest_find(tree->current, delta->set.items[i].path),
                                 &delta->set.items[i]});
    for (size_t i = 0; i < changes.count; i++) {
        if (changes.items[i].before)
            revision = hash_minus(revision, ws_entry_hash(changes.items[i].before));
        if (changes.items[i].after)
            revision = hash_plus(revision, ws_entry_hash(changes.items[i].after));
    }
    if (!hash_eq(revision, delta->begin.target))
        r = err_set(err, -EILSEQ, "the changes do not add up to the announced revision");
    if (r == 0 && changes.count)
        qsort(changes.items, changes.count, sizeof(changes.items[0]), by_after_path);
    if (r == 0)
        r = run_changes(tree, &changes, err);
    VEC_DONE(&changes);
    if (r < 0)
        return r;
    for (size_t i = 0; i < delta->gone.count; i++)
        manifest_remove(tree->current, delta->gone.items[i]);
    for (size_t i = 0; i < delta->set.count; i++)
        manifest_set(tree->current, &delta->set.items[i]);
    tree->located_valid = false;
    return log_append(tree, delta, err);
}

int tree_commit(struct tree *tree, const struct delta *delta, struct err *err)
{
    int small;

    if (!delta->begun)
        return err_set(err, -EPROTO, "a commit without a beginning");
    if (!delta->begin.full && !hash_eq(delta->begin.base, tree->current->revision))
        return err_set(err, -ESTALE,
                       "the change was made to another revision than the current one");
    small = delta_is_small(tree, delta, err);
    if (small < 0)
        return small;
    return small ? commit_small(tree, delta, err) : commit_whole(tree, delta, err);
}

/* ---- opening ---- */

struct load {
    struct arena arena;
    struct map last; /* path -> entry; strings point into the file's text */
};

static int load_entry(void *user, const struct frame *frame, struct err *err)
{
    struct load *load = user;

    if (frame->type == FRAME_ENTRY)
        (void)map_set(&load->last, frame->entry.path, ARENA_NEW(&load->arena, struct ws_entry));
    else if (frame->type == FRAME_GONE)
        (void)map_remove(&load->last, frame->path);
    else
        return err_set(err, -EPROTO, "%s holds something that is no entry", MANIFEST_FILE);
    if (frame->type == FRAME_ENTRY)
        *(struct ws_entry *)map_get(&load->last, frame->entry.path) = frame->entry;
    return 0;
}

/* -ENOENT when there is none. */
static int load_manifest(struct tree *tree, struct err *err)
{
    _cleanup_(buf_done) struct buf text = {.bytes_max = MANIFEST_BYTES_MAX};
    _cleanup_(fd_closep) int fd =
        openat(tree->root_fd, MANIFEST_FILE, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    struct load load = {0};
    struct stat st;
    int r;

    if (fd < 0 || fstat(fd, &st) < 0)
        return err_set(err, -errno, "%s: %s", MANIFEST_FILE, strerrordesc_np(errno));
    char *room = buf_room(&text, (size_t)st.st_size + 1);
    if (!room || read(fd, room, (size_t)st.st_size) != st.st_size)
        return err_set(err, -EIO, "%s: cannot be read whole", MANIFEST_FILE);
    text.len = (size_t)st.st_size;
    r = frame_read_all(buf_str(&text), load_entry, &load, err);
    MAP_FOREACH(&load.last, item)
        manifest_add(tree->current, item->value);
    map_done(&load.last);
    arena_done(&load.arena);
    return r < 0 ? r : manifest_finish(tree->current, err);
}

int tree_open(struct tree *tree, const char *root, bool adopt, struct err *err)
{
    int r;

    *tree = (struct tree){.stage_fd = -1, .parent_fd = -1, .log_fd = -1, .current = manifest_new()};
    tree->root_fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (tree->root_fd < 0)
        return err_set(err, -errno, "folder %s: %s", root, strerrordesc_np(errno));
    if ((mkdirat(tree->root_fd, WS_PRIVATE_DIR, 0700) < 0 && errno != EEXIST) ||
        (mkdirat(tree->root_fd, STAGE_DIR, 0700) < 0 && errno != EEXIST) ||
        (tree->stage_fd =
             openat(tree->root_fd, STAGE_DIR, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)) < 0)
        return err_set(err, -errno, "folder %s/%s: %s", root, STAGE_DIR, strerrordesc_np(errno));
    r = load_manifest(tree, err);
    if (r == -ENOENT)
        r = adopt ? scan_folder(root, NULL, tree->current, err) : 0;
    if (r == 0)
        r = stage_load(tree, err);
    return r;
}

void tree_done(struct tree *tree)
{
    if (tree->root_fd >= 0)
        close(tree->root_fd);
    if (tree->stage_fd >= 0)
        close(tree->stage_fd);
    if (tree->log_fd >= 0)
        close(tree->log_fd);
    parent_forget(tree);
    MAP_FOREACH(&tree->staged, item)
        mem_free(item->value);
    map_done(&tree->staged);
    map_done(&tree->located);
    manifest_unref(tree->current);
    *tree = (struct tree){.root_fd = -1, .stage_fd = -1, .parent_fd = -1};
}
