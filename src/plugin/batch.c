#include "plugin/batch.h"

#include "base/arena.h"

bool batch_is_below(struct str path, struct str folder)
{
    return str_eq(path, folder) ||
           (str_starts(path, folder) && path.len > folder.len && path.p[folder.len] == '/');
}

static bool batch_has_path(const struct str *paths, size_t count, struct str path)
{
    size_t low = 0;

    while (low < count) {
        size_t middle = low + (count - low) / 2;
        int order = str_cmp(paths[middle], path);

        if (order == 0)
            return true;
        if (order < 0)
            low = middle + 1;
        else
            count = middle;
    }
    return false;
}

bool batch_is_covered(const struct str *paths, size_t count, size_t at)
{
    struct str path = paths[at];

    for (size_t i = 1; i < path.len; i++)
        if (path.p[i] == '/' && batch_has_path(paths, count, str_sub(path, 0, i)))
            return true;
    return false;
}

static void batch_add_gone(struct arena *arena,
                           const struct manifest *have,
                           const struct manifest *now,
                           struct str path,
                           struct batch *batch)
{
    for (size_t i = manifest_lower_bound(have, path); i < have->entries.count; i++) {
        const struct ws_entry *old = &have->entries.items[i];

        if (!str_starts(old->path, path))
            break;
        if (!batch_is_below(old->path, path) || manifest_find(now, old->path))
            continue;
        VEC_PUSH(arena, &batch->gone, str_dup(arena, old->path));
        batch->revision = hash_minus(batch->revision, ws_entry_hash(old));
    }
}

void batch_compare(struct arena *arena,
                   const struct manifest *have,
                   const struct manifest *now,
                   const struct str *paths,
                   size_t count,
                   struct batch *ret)
{
    *ret = (struct batch){.revision = have->revision};
    for (size_t i = 0; i < count; i++)
        if (!batch_is_covered(paths, count, i))
            batch_add_gone(arena, have, now, paths[i], ret);
    for (size_t i = 0; i < now->entries.count; i++) {
        const struct ws_entry *entry = &now->entries.items[i];
        const struct ws_entry *old = manifest_find(have, entry->path);

        if (old && ws_entry_eq(old, entry))
            continue;
        VEC_PUSH(arena, &ret->set, *entry);
        if (old)
            ret->revision = hash_minus(ret->revision, ws_entry_hash(old));
        ret->revision = hash_plus(ret->revision, ws_entry_hash(entry));
    }
}
