#pragma once

#include "api/api.h"

#include <stddef.h>
#include <stdint.h>

struct object;
struct shelf;
struct store;

/* history: what happened, for watches that resume and selectors that compare. */
struct history_item {
    uint64_t revision;
    int64_t at_ms;
    enum api_event event;
    struct shelf *shelf;
    const struct object *object;
    const struct object *previous; /* NULL: none, or not known */
};

#define HISTORY_ITEMS_MAX 65536
#define HISTORY_BYTES_MAX ((size_t)32 << 20)
#define HISTORY_AGE_MS    ((int64_t)10 * 60 * 1000)

struct history {
    struct history_item *items; /* a ring of HISTORY_ITEMS_MAX */
    size_t first;
    size_t count;
    size_t bytes;
    uint64_t compacted; /* changes up to here are forgotten */
    size_t dropped;     /* bytes forgotten since the file was told to forget */
};

void history_add(struct store *store, const struct history_item *item);
void history_done(struct history *history);
/* Index of the first item behind `revision`. */
size_t history_after(const struct history *history, uint64_t revision);
static inline const struct history_item *history_at(const struct history *history, size_t index)
{
    return &history->items[(history->first + index) % HISTORY_ITEMS_MAX];
}
void history_compact(struct store *store);
