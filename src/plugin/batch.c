#include "plugin/batch.h"

#include "base/arena.h"

bool batch_is_below(struct str path, struct str folder)
{
    return str_eq(path, folder) ||
           (str_starts(path, folder) && path.len > folder.len && path.p[folder.len] == '/');
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
        if (i == 0 || !batch_is_below(paths[i], paths[i - 1]))
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
