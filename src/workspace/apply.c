#include "workspace/apply.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "workspace/disk.h"
#include "workspace/hash.h"
#include "workspace/stage.h"
#include "workspace/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

static const struct ws_entry *entry_of(const struct change *change)
{
    return change->after ? change->after : change->before;
}

/* ---- whose is what is there ---- */

static bool link_is(int parent, const char *name, struct str target)
{
    char text[WS_PATH_MAX + 1];
    ssize_t len = readlinkat(parent, name, text, sizeof(text));

    return len >= 0 && str_eq((struct str){text, (size_t)len}, target);
}

/* Does parent/name, which `st` is about, hold what the entry says? */
static bool is_as(int parent, const char *name, const struct stat *st, const struct ws_entry *entry)
{
    struct hash hash;

    if (entry->type == WS_DIR)
        return S_ISDIR(st->st_mode);
    if (entry->type == WS_LINK)
        return S_ISLNK(st->st_mode) && link_is(parent, name, entry->target);
    if (!S_ISREG(st->st_mode) || (uint64_t)st->st_size != entry->size)
        return false;
    _cleanup_(disk_closep) int fd = openat(parent, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    return fd >= 0 && hash_fd(fd, &hash) >= 0 && hash_eq(hash, entry->hash);
}

bool apply_is_there(struct tree *tree, const struct ws_entry *entry)
{
    const char *name;
    int parent = disk_parent(&tree->walk, tree->root_fd, entry->path, 0, &name, NULL);
    struct stat st;

    return parent >= 0 && fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
           is_as(parent, name, &st, entry);
}

/* Where our own entries make way for a folder, what comes below is not blocked by them. */
struct cleared VEC_FIELDS(struct str);

static bool is_cleared(const struct cleared *cleared, struct str path)
{
    for (size_t i = 0; i < cleared->count; i++)
        if (str_starts(path, cleared->items[i]) && path.len > cleared->items[i].len &&
            path.p[cleared->items[i].len] == '/')
            return true;
    return false;
}

/* Nothing is there, or something that is not ours in the way of a folder that the path needs. */
static enum apply_verdict judge_absent(const struct change *change,
                                       int why,
                                       const struct cleared *cleared)
{
    if (!change->after)
        return APPLY_NONE;
    if (why != -ENOENT && !is_cleared(cleared, change->after->path))
        return APPLY_KEEP;
    /* The job removed it, and all that changed is its mode: it has no content to come from. */
    return change->before && change->before->type == WS_FILE && change->after->type == WS_FILE &&
                   hash_eq(change->before->hash, change->after->hash)
               ? APPLY_NONE
               : APPLY_DO;
}

static enum apply_verdict judge(struct tree *tree, struct change *change, struct cleared *cleared)
{
    const struct ws_entry *before = change->before;
    const struct ws_entry *after = change->after;
    const char *name;
    int parent = disk_parent(&tree->walk, tree->root_fd, entry_of(change)->path, 0, &name, NULL);
    bool ours;

    if (parent < 0 || fstatat(parent, name, &change->seen, AT_SYMLINK_NOFOLLOW) < 0)
        return judge_absent(change, parent < 0 ? parent : -errno, cleared);
    change->there = true;
    ours = before && is_as(parent, name, &change->seen, before);
    if (!after) /* a folder goes when it is empty, and else stays without a word */
        return ours && !tree_is_own(tree, before->path)                  ? APPLY_DO
               : before->type == WS_DIR || S_ISDIR(change->seen.st_mode) ? APPLY_NONE
                                                                         : APPLY_KEEP;
    if (after->type == WS_DIR && S_ISDIR(change->seen.st_mode))
        return APPLY_DO; /* its mode */
    if (!ours && is_as(parent, name, &change->seen, after)) {
        if (after->type != WS_DIR)
            tree_set_own(tree, after->path, true); /* the job wrote the same */
        return APPLY_NONE;
    }
    if (!ours)
        return APPLY_KEEP;
    if (after->type == WS_DIR)
        VEC_PUSH(NULL, cleared, after->path);
    return APPLY_DO;
}

static void judge_all(struct tree *tree, struct changes *changes)
{
    struct cleared cleared = {0};

    for (size_t i = 0; i < changes->count; i++)
        changes->items[i].verdict = judge(tree, &changes->items[i], &cleared);
    VEC_DONE(&cleared);
    disk_walk_done(&tree->walk);
}

/* The last look: is it still what we looked at? */
static bool is_unchanged(int parent, const char *name, const struct change *change)
{
    const struct stat *seen = &change->seen;
    struct stat st;

    if (fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT; /* gone: nothing can be lost */
    return change->there && st.st_ino == seen->st_ino && st.st_size == seen->st_size &&
           st.st_mtim.tv_sec == seen->st_mtim.tv_sec && st.st_mtim.tv_nsec == seen->st_mtim.tv_nsec;
}

/* ---- the passes ---- */

/* Copy a file of the current revision into the stage: it moved, or is there twice. */
static int stage_from_tree(struct tree *tree, const struct ws_entry *from, struct err *err)
{
    _cleanup_(disk_closep) int in = tree_open_file(tree, from, err);
    int r = in < 0 ? in : stage_copy(&tree->stage, in, from->hash, from->size);

    if (r < 0)
        tree_forget(tree, from->hash); /* it is not there any more: whoever asks is told so */
    return r;
}

static bool needs_content(const struct change *change)
{
    const struct ws_entry *before = change->before;
    const struct ws_entry *after = change->after;

    if (change->verdict != APPLY_DO || !after || after->type != WS_FILE)
        return false;
    /* else only the mode changed */
    return !(before && before->type == WS_FILE && before->size == after->size &&
             hash_eq(before->hash, after->hash));
}

/* First pass: everything that will be written is in the stage, and counted. */
static int want(struct tree *tree, const struct change *change, struct err *err)
{
    const struct ws_entry *after = change->after;

    if (!needs_content(change))
        return 0;
    struct staged *staged = stage_find(&tree->stage, after->hash);
    if (!staged || staged->have < staged->size || staged->size != after->size) {
        const struct ws_entry *from = tree_locate(tree, after->hash, after->size);

        if (!from || stage_from_tree(tree, from, err) < 0)
            return err_set(err, -ENOENT, "the content of '" STR_FMT "' has not been sent",
                           STR_ARG(after->path));
        staged = stage_find(&tree->stage, after->hash);
    }
    if (staged)
        staged->needs++;
    return 0;
}

/* Second pass, last path first so that folders are empty when their turn comes: what goes, and what
 * is in the way of something of another type. A folder that the job has put files into stays. */
static int remove_old(struct tree *tree, struct change *change)
{
    const struct ws_entry *before = change->before;
    bool in_the_way = change->after != NULL;
    const char *name;
    int parent = disk_parent(&tree->walk, tree->root_fd, before->path, 0, &name, NULL);

    if (parent < 0)
        return 0; /* it is gone already, with its folder */
    if (tree->guarded && before->type != WS_DIR && !is_unchanged(parent, name, change)) {
        change->verdict = APPLY_KEEP;
        return 0;
    }
    if (before->type != WS_DIR)
        return unlinkat(parent, name, 0) < 0 && errno != ENOENT ? -errno : 0;
    if (unlinkat(parent, name, AT_REMOVEDIR) == 0 || errno == ENOENT || !in_the_way)
        return 0;
    if (!tree->guarded)
        return disk_remove(parent, name);
    change->verdict = APPLY_KEEP; /* with what the job has in it */
    return 0;
}

/* One entry into its place. */
static int put_entry(struct tree *tree, const struct change *change, int parent, const char *name)
{
    const struct ws_entry *after = change->after;
    struct stat st;

    if (after->type == WS_LINK)
        return stage_put_link(&tree->stage, parent, name, after->target);
    if (needs_content(change))
        return stage_put(&tree->stage, tree->root_fd, parent, name, after);
    if (after->type == WS_DIR && mkdirat(parent, name, 0700) < 0 && errno != EEXIST)
        return -errno;
    /* Never through a link that the job has put there. */
    if (fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || S_ISLNK(st.st_mode))
        return 0;
    return fchmodat(parent, name, after->mode | (after->type == WS_DIR ? 0700 : 0), 0) < 0 ? -errno
                                                                                           : 0;
}

/* Third pass, in path order: folders before what is in them. */
static int put_new(struct tree *tree, struct change *change, struct err *err)
{
    const struct ws_entry *after = change->after;
    const char *name;
    int parent;
    int r;

    if (!after || change->verdict != APPLY_DO)
        return 0;
    parent =
        disk_parent(&tree->walk, tree->root_fd, after->path, tree->guarded ? 0755 : 0, &name, err);
    if (parent < 0 && tree->guarded) {
        change->verdict = APPLY_KEEP; /* in the way of its folder */
        return 0;
    }
    if (parent < 0)
        return parent;
    if (tree->guarded && after->type != WS_DIR && !is_unchanged(parent, name, change)) {
        change->verdict = APPLY_KEEP;
        return 0;
    }
    r = put_entry(tree, change, parent, name);
    if (r == -ENOTDIR || r == -EISDIR || r == -EEXIST || r == -ENOTEMPTY)
        r = tree->guarded ? (change->verdict = APPLY_KEEP, 0) : r;
    if (r < 0)
        return err_set(err, r, "'" STR_FMT "': %s", STR_ARG(after->path), strerrordesc_np(-r));
    if (change->verdict == APPLY_DO)
        tree_set_own(tree, after->path, false);
    return 0;
}

static int remove_all(struct tree *tree, struct changes *changes, struct err *err)
{
    for (size_t i = changes->count; i-- > 0;) {
        struct change *change = &changes->items[i];
        int r;

        if (change->verdict != APPLY_DO || !change->before ||
            (change->after && change->after->type == change->before->type))
            continue;
        r = remove_old(tree, change);
        if (r < 0)
            return err_set(err, r, "removing '" STR_FMT "': %s", STR_ARG(change->before->path),
                           strerrordesc_np(-r));
    }
    disk_walk_done(&tree->walk);
    return 0;
}

int apply_changes(struct tree *tree,
                  struct changes *changes,
                  const struct manifest *target,
                  struct err *err)
{
    mode_t mask;
    int r = 0;

    /* Before the first revision no job has run here. */
    tree->guarded = tree->shared && !hash_is_zero(tree->current->revision);
    if (tree->guarded)
        judge_all(tree, changes);
    MAP_FOREACH(&tree->stage.contents, item)
        ((struct staged *)item->value)->needs = 0;
    for (size_t i = 0; r == 0 && i < changes->count; i++)
        r = want(tree, &changes->items[i], err);
    if (r < 0)
        return r;
    r = tree_begin(tree, changes, err);
    if (r == 0)
        r = remove_all(tree, changes, err);
    if (r == 0 && target)
        r = stage_settle(&tree->stage, tree->root_fd, target, err);
    mask = umask(0);
    for (size_t i = 0; r == 0 && i < changes->count; i++)
        r = put_new(tree, &changes->items[i], err);
    (void)umask(mask);
    disk_walk_done(&tree->walk);
    for (size_t i = 0; r == 0 && i < changes->count; i++) {
        const struct change *change = &changes->items[i];

        if (change->after && change->after->type == WS_FILE)
            stage_drop_unused(&tree->stage, change->after->hash);
        if (change->verdict == APPLY_KEEP)
            tree_note_kept(tree, entry_of(change)->path);
    }
    return r;
}
