#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* heap: the first of many, and any of them taken out or moved in O(log n).
 *
 * An item embeds a struct heap_link, which knows its place; so an item can be moved when its order
 * changes, or removed, without a search. Equal items come out in no particular order: let `before`
 * break ties (by name, by uid) where the order must not depend on history.
 *
 *     struct timer { struct heap_link link; int64_t due_ms; };
 *     static bool due_before(const struct heap_link *a, const struct heap_link *b) { ... }
 *     struct heap timers = {.before = due_before};
 *     heap_push(&timers, &timer->link);
 *     struct timer *next = HEAP_ITEM(heap_top(&timers), struct timer, link);
 *
 * Zero a link before its first use. The heap owns its array, not the items. */
struct heap_link {
    size_t place; /* index + 1 in the heap; 0: in none */
};

struct heap {
    bool (*before)(const struct heap_link *a, const struct heap_link *b);
    struct heap_link **items;
    size_t count;
    size_t capacity;
};

#define HEAP_ITEM(pointer, type, member)                                            \
    ({                                                                              \
        struct heap_link *link_ = (pointer);                                        \
        link_ ? (type *)((uintptr_t)link_ - offsetof(type, member)) : (type *)NULL; \
    })

static inline bool heap_has(const struct heap_link *link)
{
    return link->place != 0;
}
/* The first, or NULL. */
static inline struct heap_link *heap_top(const struct heap *heap)
{
    return heap->count ? heap->items[0] : NULL;
}
void heap_push(struct heap *heap, struct heap_link *link);
/* Take the first out, or NULL. */
struct heap_link *heap_pop(struct heap *heap);
void heap_remove(struct heap *heap, struct heap_link *link);
/* The order of `link` has changed. */
void heap_moved(struct heap *heap, struct heap_link *link);
void heap_done(struct heap *heap);
