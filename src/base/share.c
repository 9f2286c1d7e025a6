#include "base/share.h"

#include "base/cleanup.h"
#include "base/map.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static size_t space_count(const struct map *counts, const char *ns)
{
    const void *known = map_get(counts, str_from(ns));

    return (size_t)(uintptr_t)known;
}

/* The one of `ns` (NULL: of all) that waits for longest, else its oldest. */
static size_t longest(const struct share_item *items, size_t count, const char *ns)
{
    size_t found = count;

    for (size_t i = 0; i < count; i++) {
        int64_t since_ms = items[i].stalled_ms;

        if (ns && !str_is(str_from(items[i].ns), ns))
            continue;
        if (found == count ||
            (since_ms && (!items[found].stalled_ms || since_ms < items[found].stalled_ms)))
            found = i;
    }
    return found;
}

size_t share_loser(const struct share_item *items, size_t count, const char *ns, int64_t now_ms)
{
    _cleanup_(map_done) struct map counts = {.seed = (uintptr_t)items};
    const char *most = NULL;

    for (size_t i = 0; i < count; i++) {
        size_t now = space_count(&counts, items[i].ns) + 1;

        (void)map_set(&counts, str_from(items[i].ns), (void *)(uintptr_t)now);
        if (!most || now > space_count(&counts, most))
            most = items[i].ns;
    }
    if (most && space_count(&counts, most) > space_count(&counts, ns) + 1)
        return longest(items, count, most);
    size_t stalled = longest(items, count, NULL);
    return stalled < count && items[stalled].stalled_ms &&
                   now_ms - items[stalled].stalled_ms >= SHARE_STALLED_MS
               ? stalled
               : count;
}

size_t share_next(const struct share_turn *items, size_t count)
{
    _cleanup_(map_done) struct map working = {.seed = (uintptr_t)items};
    size_t next = count;

    for (size_t i = 0; i < count; i++)
        if (items[i].state == SHARE_WORKS)
            (void)map_set(&working, str_from(items[i].ns),
                          (void *)(uintptr_t)(space_count(&working, items[i].ns) + 1));
    for (size_t i = 0; i < count; i++)
        if (items[i].state == SHARE_WAITS &&
            (next == count ||
             space_count(&working, items[i].ns) < space_count(&working, items[next].ns)))
            next = i;
    return next;
}
