#include "base/heap.h"

#include "base/vec.h"

#include <assert.h>
#include <stddef.h>

static void put(struct heap *heap, size_t index, struct heap_link *link)
{
    heap->items[index] = link;
    link->place = index + 1;
}

static void sift_up(struct heap *heap, size_t index)
{
    struct heap_link *link = heap->items[index];

    while (index) {
        size_t parent = (index - 1) / 2;

        if (!heap->before(link, heap->items[parent]))
            break;
        put(heap, index, heap->items[parent]);
        index = parent;
    }
    put(heap, index, link);
}

static void sift_down(struct heap *heap, size_t index)
{
    struct heap_link *link = heap->items[index];

    for (;;) {
        size_t child = index * 2 + 1;

        if (child >= heap->count)
            break;
        if (child + 1 < heap->count && heap->before(heap->items[child + 1], heap->items[child]))
            child++;
        if (!heap->before(heap->items[child], link))
            break;
        put(heap, index, heap->items[child]);
        index = child;
    }
    put(heap, index, link);
}

void heap_push(struct heap *heap, struct heap_link *link)
{
    assert(!heap_has(link));
    VEC_PUSH(NULL, heap, link);
    sift_up(heap, heap->count - 1);
}

void heap_moved(struct heap *heap, struct heap_link *link)
{
    assert(heap_has(link) && heap->items[link->place - 1] == link);
    sift_up(heap, link->place - 1);
    sift_down(heap, link->place - 1);
}

void heap_remove(struct heap *heap, struct heap_link *link)
{
    assert(heap_has(link) && heap->items[link->place - 1] == link);
    size_t index = link->place - 1;
    struct heap_link *last = heap->items[--heap->count];

    link->place = 0;
    if (last == link)
        return;
    put(heap, index, last);
    heap_moved(heap, last);
}

struct heap_link *heap_pop(struct heap *heap)
{
    struct heap_link *top = heap_top(heap);

    if (top)
        heap_remove(heap, top);
    return top;
}

void heap_done(struct heap *heap)
{
    for (size_t i = 0; i < heap->count; i++)
        heap->items[i]->place = 0;
    VEC_DONE(heap);
}
