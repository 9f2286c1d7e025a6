#include "workspace/tree.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "system/boot.h"
#include "workspace/apply.h"
#include "workspace/scan.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MANIFEST_FILE WS_PRIVATE_DIR "/manifest"
#define BOOT_FILE     WS_PRIVATE_DIR "/boot"
#define COMMIT_FILE   WS_PRIVATE_DIR "/commit" /* while one is applied: what it sets and removes */
#define OWN_FILE      WS_PRIVATE_DIR "/own"
/* A manifest of WS_ENTRIES_MAX entries with paths of a usual length; longer ones are refused. */
#define MANIFEST_BYTES_MAX ((size_t)512 << 20)

/* ---- contents ---- */

/* Which file of the current revision has this content? Costs a pass over all entries after every
 * commit, so it is asked only when the stage does not have it. */
const struct ws_entry *tree_locate(struct tree *tree, struct hash hash, uint64_t size)
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

void tree_forget(struct tree *tree, struct hash hash)
{
    if (tree->located_valid)
        (void)map_remove(&tree->located, hash_key(&hash));
}

bool tree_has(struct tree *tree, struct hash hash, uint64_t size, uint64_t *ret_offset)
{
    struct staged *staged = stage_find(&tree->stage, hash);

    *ret_offset = 0;
    if (staged && staged->size == size) {
        *ret_offset = staged->have;
        return staged->have == size;
    }
    return tree_locate(tree, hash, size) != NULL;
}

int tree_blob(struct tree *tree, const struct frame_blob *blob, struct err *err)
{
    return stage_blob(&tree->stage, blob, hash_is_zero(tree->current->revision), err);
}

int tree_open_file(struct tree *tree, const struct ws_entry *entry, struct err *err)
{
    const char *name;
    int parent = disk_parent(&tree->walk, tree->root_fd, entry->path, 0, &name, err);
    int fd;

    if (parent < 0)
        return parent;
    fd = openat(parent, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return err_set(err, -errno, "'" STR_FMT "': %s", STR_ARG(entry->path),
                       strerrordesc_np(errno));
    return fd;
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
                         : disk_write(tree->log_fd, buf_str(&text));
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
    r = text.overflow ? -EFBIG : disk_write(tree->log_fd, buf_str(&text));
    tree->log_entries += delta->gone.count + delta->set.count;
    return r < 0 ? err_set(err, r, "%s: %s", MANIFEST_FILE, strerrordesc_np(-r)) : 0;
}

/* ---- what is the job's ---- */

bool tree_is_own(const struct tree *tree, struct str path)
{
    return map_get(&tree->own, path) != NULL;
}

void tree_set_own(struct tree *tree, struct str path, bool own)
{
    if (own == tree_is_own(tree, path))
        return;
    tree->own_changed = true;
    if (own)
        (void)map_set(&tree->own, str_dup(&tree->own_arena, path), tree);
    else
        (void)map_remove(&tree->own, path);
}

void tree_note_kept(struct tree *tree, struct str path)
{
    if (tree->kept_count++ < TREE_KEPT_NAMED)
        buf_addf(&tree->kept, STR_FMT "\n", STR_ARG(path));
}

static int replace_file(const struct tree *tree, const char *name, struct str text, struct err *err)
{
    _cleanup_(disk_closep) int fd =
        openat(tree->root_fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    int r = fd < 0 ? -errno : disk_write(fd, text);

    return r < 0 ? err_set(err, r, "%s: %s", name, strerrordesc_np(-r)) : 0;
}

static int save_own(struct tree *tree, struct err *err)
{
    _cleanup_(buf_done) struct buf text = {.bytes_max = MANIFEST_BYTES_MAX};

    if (!tree->own_changed)
        return 0;
    MAP_FOREACH(&tree->own, item)
        frame_add_gone(&text, item->key);
    tree->own_changed = false;
    return replace_file(tree, OWN_FILE, buf_str(&text), err);
}

int tree_begin(struct tree *tree, const struct changes *changes, struct err *err)
{
    _cleanup_(buf_done) struct buf text = {.bytes_max = MANIFEST_BYTES_MAX};

    if (hash_is_zero(tree->current->revision))
        return 0;
    for (size_t i = 0; i < changes->count; i++)
        if (changes->items[i].after)
            frame_add_entry(&text, changes->items[i].after);
        else
            frame_add_gone(&text, changes->items[i].before->path);
    return replace_file(tree, COMMIT_FILE, buf_str(&text), err);
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
        return err_set(err, -EPROTO,
                       "a change came before the commit began, or there are too many");
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

bool delta_is_light(const struct delta *delta)
{
    uint64_t bytes = 0;

    if (delta->begin.full || delta->set.count + delta->gone.count > TREE_SMALL_DELTA_MAX)
        return false;
    for (size_t i = 0; i < delta->set.count; i++)
        bytes += delta->set.items[i].size;
    return bytes <= TREE_LIGHT_BYTES_MAX;
}

bool delta_sets(const struct delta *delta, struct str path)
{
    for (size_t i = 0; i < delta->set.count; i++)
        if (str_eq(delta->set.items[i].path, path))
            return true;
    return false;
}

static int collect(void *user, const struct ws_entry *before, const struct ws_entry *after)
{
    struct changes *changes = user;

    VEC_PUSH(NULL, changes, ((struct change){.before = before, .after = after}));
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
        r = apply_changes(tree, &changes, target, err);
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
            VEC_PUSH(NULL, &changes, ((struct change){.before = before}));
    }
    for (size_t i = 0; i < delta->set.count; i++)
        VEC_PUSH(NULL, &changes,
                 ((struct change){.before = manifest_find(tree->current, delta->set.items[i].path),
                                  .after = &delta->set.items[i]}));
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
        r = apply_changes(tree, &changes, NULL, err);
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

static int tree_mend(struct tree *tree, struct err *err);

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
    tree->kept_count = 0;
    buf_clear(&tree->kept);
    int r = small ? commit_small(tree, delta, err) : commit_whole(tree, delta, err);
    if (r == 0)
        r = save_own(tree, err);
    if (r < 0)
        (void)tree_mend(tree, NULL);
    (void)unlinkat(tree->root_fd, COMMIT_FILE, 0);
    return r;
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
        return err_set(err, -EPROTO, "%s holds something that is not an entry", MANIFEST_FILE);
    if (frame->type == FRAME_ENTRY)
        *(struct ws_entry *)map_get(&load->last, frame->entry.path) = frame->entry;
    return 0;
}

/* All of a private file; -ENOENT when there is none. */
static int read_private(const struct tree *tree,
                        const char *name,
                        struct buf *text,
                        struct err *err)
{
    _cleanup_(disk_closep) int fd = openat(tree->root_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    struct stat st;

    if (fd < 0 || fstat(fd, &st) < 0)
        return err_set(err, -errno, "%s: %s", name, strerrordesc_np(errno));
    text->bytes_max = MANIFEST_BYTES_MAX;
    char *room = buf_room(text, (size_t)st.st_size + 1);
    if (!room || read(fd, room, (size_t)st.st_size) != st.st_size)
        return err_set(err, -EIO, "%s: cannot be read whole", name);
    text->len = (size_t)st.st_size;
    return 0;
}

/* -ENOENT when there is none. One that breaks off, or whose entries go against the rules, is
 * *ret_damaged: a power cut may do that, and what is lost of it is sent again. */
static int load_manifest(struct tree *tree, bool *ret_damaged, struct err *err)
{
    _cleanup_(buf_done) struct buf text = {0};
    struct load load = {0};
    int r = read_private(tree, MANIFEST_FILE, &text, err);

    if (r < 0)
        return r;
    *ret_damaged = frame_read_all(buf_str(&text), load_entry, &load, NULL) < 0;
    MAP_FOREACH(&load.last, item)
        manifest_add(tree->current, item->value);
    map_done(&load.last);
    arena_done(&load.arena);
    if (manifest_finish(tree->current, NULL) < 0) {
        *ret_damaged = true;
        manifest_unref(tree->current);
        tree->current = manifest_new();
        return manifest_finish(tree->current, err);
    }
    return 0;
}

static int load_own(void *user, const struct frame *frame, struct err *err)
{
    (void)err;
    if (frame->type == FRAME_GONE)
        tree_set_own(user, frame->path, true);
    return 0;
}

/* ---- a commit that was cut ---- */

struct mend {
    struct tree *tree;
    struct arena arena;
    struct map now; /* path -> entry */
};

/* What the commit said, as far as it has happened. */
static int mend_entry(void *user, const struct frame *frame, struct err *err)
{
    struct mend *mend = user;
    struct ws_entry *entry;
    struct ws_entry gone = {.type = WS_DIR};

    (void)err;
    if (frame->type == FRAME_GONE) {
        entry = map_get(&mend->now, frame->path);
        gone = entry ? *entry : gone;
        if (entry && gone.type != WS_DIR && !apply_is_there(mend->tree, &gone))
            (void)map_remove(&mend->now, frame->path);
        return 0;
    }
    if (frame->type != FRAME_ENTRY)
        return 0;
    entry = ARENA_NEW(&mend->arena, struct ws_entry);
    *entry = frame->entry;
    entry->path = str_dup(&mend->arena, entry->path); /* NUL-terminated, as those of the disk are */
    if (entry->target.len)
        entry->target = str_dup(&mend->arena, entry->target);
    if (apply_is_there(mend->tree, entry))
        (void)map_set(&mend->now, entry->path, entry);
    return 0;
}

/* Files of a commit that did not end are ours, and in the manifest from now on: else they would look
 * as if the job had written them, and never be replaced again. */
static int tree_mend(struct tree *tree, struct err *err)
{
    _cleanup_(buf_done) struct buf text = {0};
    struct mend mend = {.tree = tree};
    struct manifest *found;

    if (read_private(tree, COMMIT_FILE, &text, NULL) < 0)
        return 0;
    for (size_t i = 0; i < tree->current->entries.count; i++)
        (void)map_set(&mend.now, tree->current->entries.items[i].path,
                      &tree->current->entries.items[i]);
    (void)frame_read(&text, mend_entry, &mend, NULL);
    disk_walk_done(&tree->walk);
    found = manifest_new();
    MAP_FOREACH(&mend.now, item)
        manifest_add(found, item->value);
    map_done(&mend.now);
    arena_done(&mend.arena);
    int r = manifest_finish(found, err);
    manifest_unref(r < 0 ? found : tree->current);
    if (r < 0)
        return r;
    tree->current = found;
    tree->located_valid = false;
    r = log_rewrite(tree, err);
    if (r == 0)
        (void)unlinkat(tree->root_fd, COMMIT_FILE, 0);
    return r;
}

/* ---- after a power cut ---- */

static bool is_of_this_boot(const struct tree *tree)
{
    _cleanup_(disk_closep) int fd =
        openat(tree->root_fd, BOOT_FILE, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    char noted[BOOT_ID_BYTES] = "";
    char now[BOOT_ID_BYTES];

    if (!boot_id(now))
        return true; /* where that cannot be known, as before */
    return fd >= 0 && read(fd, noted, sizeof(noted) - 1) > 0 && strcmp(noted, now) == 0;
}

/* Last of all: while this is not written, the next one that opens the folder looks again. */
static void note_boot(const struct tree *tree)
{
    _cleanup_(disk_closep) int fd = openat(
        tree->root_fd, BOOT_FILE, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    char now[BOOT_ID_BYTES];

    if (fd >= 0 && boot_id(now))
        (void)disk_write(fd, str_from(now));
}

/* What is at an entry's place; false: nothing of its type. */
static bool look_at(struct tree *tree, struct ws_entry *entry)
{
    const char *name;
    int parent = disk_parent(&tree->walk, tree->root_fd, entry->path, 0, &name, NULL);
    struct stat st;

    if (parent < 0 || fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return false;
    if (entry->type != WS_FILE)
        return entry->type == WS_DIR ? S_ISDIR(st.st_mode) : S_ISLNK(st.st_mode);
    if (!S_ISREG(st.st_mode))
        return false;
    _cleanup_(disk_closep) int fd = openat(parent, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    int64_t size = fd < 0 ? -1 : hash_fd(fd, &entry->hash);
    entry->size = size < 0 ? 0 : (uint64_t)size;
    return size >= 0;
}

/* The manifest says what is there, whatever it said before. */
static int tree_look_again(struct tree *tree, struct err *err)
{
    struct manifest *found = manifest_new();

    for (size_t i = 0; i < tree->current->entries.count; i++) {
        struct ws_entry entry = tree->current->entries.items[i];

        if (look_at(tree, &entry))
            manifest_add(found, &entry);
    }
    disk_walk_done(&tree->walk);
    int r = manifest_finish(found, err);
    manifest_unref(r < 0 ? found : tree->current);
    if (r < 0)
        return r;
    tree->current = found;
    tree->located_valid = false;
    return log_rewrite(tree, err);
}

int tree_open(struct tree *tree, const char *root, bool adopt, struct err *err)
{
    _cleanup_(buf_done) struct buf own = {0};
    int r;

    *tree = (struct tree){.walk = DISK_WALK_NONE, .log_fd = -1, .current = manifest_new()};
    tree->stage = (struct stage){.fd = -1, .laid_fd = -1, .walk = DISK_WALK_NONE};
    tree->root_fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (tree->root_fd < 0)
        return err_set(err, -errno, "folder %s: %s", root, strerrordesc_np(errno));
    bool doubt = !is_of_this_boot(tree);
    bool damaged = false;
    r = stage_open(&tree->stage, root, tree->root_fd, doubt, err);
    if (r < 0)
        return r;
    r = load_manifest(tree, &damaged, err);
    if (r == 0)
        r = tree_mend(tree, err);
    if (r == 0 && (doubt || damaged))
        r = tree_look_again(tree, err);
    if (r == 0 && read_private(tree, OWN_FILE, &own, NULL) == 0)
        (void)frame_read(&own, load_own, tree, NULL);
    tree->own_changed = false;
    if (r == -ENOENT)
        r = adopt ? scan_folder(root, NULL, tree->current, err) : 0;
    if (r == 0 && doubt)
        note_boot(tree);
    return r;
}

void tree_done(struct tree *tree)
{
    disk_closep(&tree->root_fd);
    disk_closep(&tree->log_fd);
    disk_walk_done(&tree->walk);
    stage_done(&tree->stage);
    map_done(&tree->located);
    map_done(&tree->own);
    arena_done(&tree->own_arena);
    buf_done(&tree->kept);
    manifest_unref(tree->current);
    *tree = (struct tree){.root_fd = -1, .log_fd = -1, .walk = DISK_WALK_NONE};
    tree->stage = (struct stage){.fd = -1, .laid_fd = -1, .walk = DISK_WALK_NONE};
}
