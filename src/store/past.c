#include "store/past.h"

#include "api/object.h"
#include "base/arena.h"
#include "base/str.h"
#include "base/vec.h"
#include "store/history.h"
#include "store/shelf.h"
#include "store/state.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

static int compare_names(struct str a_ns, struct str a_name, struct str b_ns, struct str b_name)
{
    int r = str_cmp(a_ns, b_ns);

    return r ? r : str_cmp(a_name, b_name);
}

static int compare_items(const void *a, const void *b)
{
    const struct past_item *x = a;
    const struct past_item *y = b;
    int r = compare_names(x->ns, x->name, y->ns, y->name);

    return r ? r : (x->index > y->index) - (x->index < y->index);
}

/* Of several changes the first says what was there before all. */
static void keep_first(struct past *past)
{
    size_t kept = 0;

    if (past->changed.count)
        qsort(past->changed.items, past->changed.count, sizeof(*past->changed.items),
              compare_items);
    for (size_t i = 0; i < past->changed.count; i++) {
        const struct past_item *item = &past->changed.items[i];
        const struct past_item *last = kept ? &past->changed.items[kept - 1] : NULL;

        if (!last || compare_names(last->ns, last->name, item->ns, item->name))
            past->changed.items[kept++] = *item;
    }
    past->changed.count = kept;
}

bool past_open(struct past *past,
               const struct store *store,
               const struct shelf *shelf,
               struct arena *arena,
               uint64_t revision)
{
    const struct history *history = &store->history;

    *past = (struct past){.shelf = shelf};
    if (revision < history->compacted)
        return false;
    for (size_t i = history_after(history, revision); i < history->count; i++) {
        const struct history_item *item = history_at(history, i);

        if (item->shelf != shelf)
            continue;
        if (item->event != API_ADDED && !item->previous)
            return false;
        VEC_PUSH(arena, &past->changed,
                 (struct past_item){.ns = item->object->ns,
                                    .name = item->object->name,
                                    .object = item->event == API_ADDED ? NULL : item->previous,
                                    .index = i});
    }
    keep_first(past);
    return true;
}

void past_seek(struct past *past, struct str ns, struct str name, bool behind)
{
    const struct shelf *shelf = past->shelf;

    past->at = shelf_lower(shelf, ns, name);
    if (behind && past->at < shelf->entries.count &&
        !compare_names(shelf->entries.items[past->at]->ns, shelf->entries.items[past->at]->name, ns,
                       name))
        past->at++;
    for (past->changed_at = 0; past->changed_at < past->changed.count; past->changed_at++) {
        const struct past_item *item = &past->changed.items[past->changed_at];
        int r = compare_names(item->ns, item->name, ns, name);

        if (r > 0 || (r == 0 && !behind))
            break;
    }
}

bool past_next(struct past *past, struct str *ret_ns, const struct object **ret)
{
    const struct entry *entry =
        past->at < past->shelf->entries.count ? past->shelf->entries.items[past->at] : NULL;
    const struct past_item *item =
        past->changed_at < past->changed.count ? &past->changed.items[past->changed_at] : NULL;

    if (!entry && !item)
        return false;
    int r = !entry ? 1 : !item ? -1 : compare_names(entry->ns, entry->name, item->ns, item->name);
    if (r <= 0)
        past->at++;
    if (r >= 0)
        past->changed_at++;
    *ret_ns = r < 0 ? entry->ns : item->ns;
    *ret = r < 0 ? entry->committed : item->object;
    return true;
}
