#include "store/history.h"

#include "api/object.h"
#include "base/mem.h"
#include "store/host.h"
#include "store/state.h"

#include <stddef.h>
#include <stdint.h>

static size_t item_bytes(const struct history_item *item)
{
    return sizeof(struct object) + item->object->raw.len;
}

static void drop_first(struct history *history)
{
    struct history_item *item = &history->items[history->first];

    history->bytes -= item_bytes(item);
    history->dropped += item_bytes(item);
    history->compacted = item->revision;
    object_unref(item->object);
    object_unref(item->previous);
    history->first = (history->first + 1) % HISTORY_ITEMS_MAX;
    history->count--;
}

void history_add(struct store *store, const struct history_item *item)
{
    struct history *history = &store->history;

    if (!history->items)
        history->items = mem_alloc(HISTORY_ITEMS_MAX * sizeof(*history->items));
    if (history->count == HISTORY_ITEMS_MAX)
        drop_first(history);
    struct history_item *slot =
        &history->items[(history->first + history->count) % HISTORY_ITEMS_MAX];
    *slot = *item;
    (void)object_ref(item->object);
    (void)object_ref(item->previous);
    history->bytes += item_bytes(slot);
    history->count++;
}

void history_compact(struct store *store)
{
    struct history *history = &store->history;
    int64_t oldest_ms = store_now(store) - HISTORY_AGE_MS;

    while (history->count &&
           (history->bytes > HISTORY_BYTES_MAX || history_at(history, 0)->at_ms < oldest_ms))
        drop_first(history);
}

size_t history_after(const struct history *history, uint64_t revision)
{
    size_t low = 0;
    size_t high = history->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (history_at(history, middle)->revision <= revision)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

void history_done(struct history *history)
{
    while (history->count)
        drop_first(history);
    mem_free(history->items);
    *history = (struct history){0};
}
