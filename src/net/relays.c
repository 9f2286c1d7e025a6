#include "net/relays.h"

#include "base/cleanup.h"
#include "base/map.h"
#include "base/str.h"

#include <stddef.h>
#include <stdint.h>

static size_t space_count(const struct map *counts, const char *ns)
{
    const void *known = map_get(counts, str_from(ns));
    return (size_t)(uintptr_t)known;
}

size_t relays_loser(const char *const *spaces, size_t count, const char *ns)
{
    _cleanup_(map_done) struct map counts = {.seed = (uintptr_t)spaces};
    const char *most = NULL;
    for (size_t i = 0; i < count; i++) {
        size_t now = space_count(&counts, spaces[i]) + 1;
        (void)map_set(&counts, str_from(spaces[i]), (void *)(uintptr_t)now);
        if (!most || now > space_count(&counts, most))
            most = spaces[i];
    }
    if (!most || space_count(&counts, most) <= space_count(&counts, ns) + 1)
        return count;
    size_t oldest = 0;
    while (!str_eq(str_from(spaces[oldest]), str_from(most)))
        oldest++;
    return oldest;
}
