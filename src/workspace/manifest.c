#include "workspace/manifest.h"

#include "base/buf.h"
#include "base/err.h"
#include "base/mem.h"
#include "workspace/frame.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

/* What an empty folder has; any constant but zero. */
static const struct hash empty_revision = {.low = 1};

struct manifest *manifest_new(void)
{
    struct manifest *manifest = MEM_NEW(struct manifest);

    manifest->refs = 1;
    return manifest;
}

struct manifest *manifest_ref(struct manifest *manifest)
{
    assert(manifest->refs > 0);
    manifest->refs++;
    return manifest;
}

void manifest_unref(struct manifest *manifest)
{
    if (!manifest || --manifest->refs > 0)
        return;
    VEC_DONE(&manifest->entries);
    arena_done(&manifest->arena);
    mem_free(manifest);
}

void manifest_unrefp(struct manifest **manifest)
{
    manifest_unref(*manifest);
}

static struct ws_entry copy_of(struct manifest *manifest, const struct ws_entry *entry)
{
    struct ws_entry copy = *entry;

    copy.path = str_dup(&manifest->arena, entry->path);
    if (entry->target.len)
        copy.target = str_dup(&manifest->arena, entry->target);
    return copy;
}

void manifest_add(struct manifest *manifest, const struct ws_entry *entry)
{
    VEC_PUSH(NULL, &manifest->entries, copy_of(manifest, entry));
}

int manifest_check_path(struct str path, struct err *err)
{
    struct str rest = path;
    struct str part;
    bool first = true;

    if (path.len == 0 || path.len > WS_PATH_MAX)
        return err_set(err, -EINVAL, "a path of %zu bytes (1 to %d are allowed)", path.len,
                       WS_PATH_MAX);
    if (memchr(path.p, '\0', path.len))
        return err_set(err, -EINVAL, "path '" STR_FMT "' contains a NUL byte", STR_ARG(path));
    if (path.p[0] == '/')
        return err_set(err, -EINVAL, "path '" STR_FMT "' is absolute", STR_ARG(path));
    while (str_cut(&rest, '/', &part)) {
        if (part.len == 0 || str_is(part, ".") || str_is(part, ".."))
            return err_set(err, -EINVAL, "path '" STR_FMT "' has an empty, '.' or '..' part",
                           STR_ARG(path));
        if (part.len > WS_NAME_MAX)
            return err_set(err, -EINVAL, "path '" STR_FMT "' has a part longer than %d bytes",
                           STR_ARG(path), WS_NAME_MAX);
        if (first && str_is(part, WS_PRIVATE_DIR))
            return err_set(err, -EINVAL, "path '" STR_FMT "' is inside our own folder %s",
                           STR_ARG(path), WS_PRIVATE_DIR);
        first = false;
    }
    if (path.p[path.len - 1] == '/')
        return err_set(err, -EINVAL, "path '" STR_FMT "' ends in '/'", STR_ARG(path));
    return 0;
}

static int check_target(struct str path, struct str target, struct err *err)
{
    if (target.len == 0 || target.len > WS_PATH_MAX || memchr(target.p, '\0', target.len))
        return err_set(err, -EINVAL, "link '" STR_FMT "' has a bad target", STR_ARG(path));
    return 0;
}

int manifest_check_link(struct str path, struct str target, struct err *err)
{
    int64_t depth = 0; /* folders between the workspace's top and where we stand */
    struct str rest = target;
    struct str part;
    int r = check_target(path, target, err);

    if (r < 0)
        return r;
    if (target.p[0] == '/')
        return err_set(err, -EINVAL, "link '" STR_FMT "' points outside: '" STR_FMT "' is absolute",
                       STR_ARG(path), STR_ARG(target));
    for (size_t i = 0; i < path.len; i++)
        depth += path.p[i] == '/';
    while (str_cut(&rest, '/', &part)) {
        if (part.len == 0 || str_is(part, "."))
            continue;
        depth += str_is(part, "..") ? -1 : 1;
        if (depth < 0)
            return err_set(err, -EINVAL, "link '" STR_FMT "' points outside: '" STR_FMT "'",
                           STR_ARG(path), STR_ARG(target));
    }
    return 0;
}

static int by_path(const void *a, const void *b)
{
    const struct ws_entry *x = a;
    const struct ws_entry *y = b;

    return str_cmp(x->path, y->path);
}

int manifest_check_entry(const struct ws_entry *entry, struct err *err)
{
    int r = manifest_check_path(entry->path, err);

    if (r < 0)
        return r;
    if (entry->type == WS_LINK)
        return entry->target.len && entry->target.p[0] == '/'
                   ? check_target(entry->path, entry->target, err)
                   : manifest_check_link(entry->path, entry->target, err);
    if (entry->mode & ~(uint32_t)0777)
        return err_set(err, -EINVAL, "path '" STR_FMT "': mode %o has more than permission bits",
                       STR_ARG(entry->path), entry->mode);
    if (entry->type == WS_FILE && entry->size > WS_BYTES_MAX)
        return err_set(err, -EINVAL, "path '" STR_FMT "' is larger than a workspace may be",
                       STR_ARG(entry->path));
    return 0;
}

struct str manifest_parent(struct str path)
{
    size_t cut = path.len;

    while (cut > 0 && path.p[cut - 1] != '/')
        cut--;
    return str_sub(path, 0, cut ? cut - 1 : 0);
}

/* Nothing may live below a file or a link: writing there would follow it. The parent of a path
 * sorts before it, but not next to it ("a", "a-b", "a/c"), hence the lookup. */
static int check_parent(const struct manifest *manifest,
                        const struct ws_entry *entry,
                        const struct ws_entry **last_parent,
                        struct err *err)
{
    struct str parent = manifest_parent(entry->path);

    if (parent.len == 0 || (*last_parent && str_eq((*last_parent)->path, parent)))
        return 0;
    *last_parent = manifest_find(manifest, parent);
    if (!*last_parent || (*last_parent)->type != WS_DIR) {
        *last_parent = NULL;
        return err_set(err, -EINVAL, "path '" STR_FMT "' is inside something that is not a folder",
                       STR_ARG(entry->path));
    }
    return 0;
}

struct hash ws_entry_hash(const struct ws_entry *entry)
{
    /* The largest entry: two paths and a fixed head. */
    char bytes[2 * WS_PATH_MAX + 64];
    struct buf text = {.p = bytes, .capacity = sizeof(bytes), .bytes_max = sizeof(bytes) - 1};

    frame_add_entry(&text, entry);
    return hash_of(buf_str(&text));
}

void manifest_sort(struct manifest *manifest)
{
    struct ws_entry_vec *entries = &manifest->entries;

    for (size_t i = 1; i < entries->count; i++) {
        if (str_cmp(entries->items[i - 1].path, entries->items[i].path) <= 0)
            continue;
        qsort(entries->items, entries->count, sizeof(*entries->items), by_path);
        break;
    }
}

int manifest_finish(struct manifest *manifest, struct err *err)
{
    struct ws_entry_vec *entries = &manifest->entries;
    struct hash revision = empty_revision;
    const struct ws_entry *last_parent = NULL;

    if (entries->count > WS_ENTRIES_MAX)
        return err_set(err, -EINVAL, "%zu entries; a workspace has at most %zu", entries->count,
                       WS_ENTRIES_MAX);
    manifest_sort(manifest);
    manifest->bytes = 0;
    for (size_t i = 0; i < entries->count; i++) {
        const struct ws_entry *entry = &entries->items[i];
        int r = manifest_check_entry(entry, err);

        if (r == 0)
            r = check_parent(manifest, entry, &last_parent, err);
        if (r < 0)
            return r;
        if (i > 0 && str_eq(entries->items[i - 1].path, entry->path))
            return err_set(err, -EINVAL, "path '" STR_FMT "' appears twice", STR_ARG(entry->path));
        if (entry->type == WS_FILE)
            manifest->bytes += entry->size;
        if (manifest->bytes > WS_BYTES_MAX)
            return err_set(err, -EINVAL, "more than %llu bytes in one workspace",
                           (unsigned long long)WS_BYTES_MAX);
        revision = hash_plus(revision, ws_entry_hash(entry));
    }
    manifest->revision = revision;
    return 0;
}

size_t manifest_lower_bound(const struct manifest *manifest, struct str path)
{
    size_t low = 0;
    size_t high = manifest->entries.count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (str_cmp(manifest->entries.items[middle].path, path) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void account(struct manifest *manifest, const struct ws_entry *entry, bool added)
{
    struct hash hash = ws_entry_hash(entry);

    manifest->revision =
        added ? hash_plus(manifest->revision, hash) : hash_minus(manifest->revision, hash);
    if (entry->type == WS_FILE)
        manifest->bytes += added ? entry->size : -entry->size;
}

void manifest_set(struct manifest *manifest, const struct ws_entry *entry)
{
    size_t at = manifest_lower_bound(manifest, entry->path);
    struct ws_entry_vec *entries = &manifest->entries;
    struct ws_entry copy = copy_of(manifest, entry);

    if (at < entries->count && str_eq(entries->items[at].path, copy.path)) {
        account(manifest, &entries->items[at], false);
    } else {
        VEC_PUSH(NULL, entries, copy);
        memmove(&entries->items[at + 1], &entries->items[at],
                (entries->count - 1 - at) * sizeof(copy));
    }
    entries->items[at] = copy;
    account(manifest, &copy, true);
}

void manifest_remove(struct manifest *manifest, struct str path)
{
    size_t at = manifest_lower_bound(manifest, path);
    struct ws_entry_vec *entries = &manifest->entries;

    if (at == entries->count || !str_eq(entries->items[at].path, path))
        return;
    account(manifest, &entries->items[at], false);
    entries->count--;
    memmove(&entries->items[at], &entries->items[at + 1],
            (entries->count - at) * sizeof(entries->items[0]));
}

const struct ws_entry *manifest_find(const struct manifest *manifest, struct str path)
{
    struct ws_entry key = {.path = path};

    if (manifest->entries.count == 0)
        return NULL;
    return bsearch(&key, manifest->entries.items, manifest->entries.count, sizeof(key), by_path);
}

bool ws_entry_eq(const struct ws_entry *a, const struct ws_entry *b)
{
    return a->type == b->type && a->mode == b->mode && a->size == b->size &&
           hash_eq(a->hash, b->hash) && str_eq(a->target, b->target) && str_eq(a->path, b->path);
}

int manifest_diff(const struct manifest *before,
                  const struct manifest *after,
                  manifest_diff_fn *fn,
                  void *user)
{
    size_t b = 0;
    size_t a = 0;

    while (b < before->entries.count || a < after->entries.count) {
        const struct ws_entry *old = b < before->entries.count ? &before->entries.items[b] : NULL;
        const struct ws_entry *new = a < after->entries.count ? &after->entries.items[a] : NULL;
        int order = !old ? 1 : !new ? -1 : str_cmp(old->path, new->path);
        int r = 0;

        b += order <= 0;
        a += order >= 0;
        if (order < 0)
            r = fn(user, old, NULL);
        else if (order > 0)
            r = fn(user, NULL, new);
        else if (!ws_entry_eq(old, new))
            r = fn(user, old, new);
        if (r != 0)
            return r;
    }
    return 0;
}
