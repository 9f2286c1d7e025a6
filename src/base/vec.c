#include "base/vec.h"

#include "base/arena.h"
#include "base/mem.h"

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define CAPACITY_MIN ((size_t)4)

void *vec_grow(struct arena *arena,
               void *items,
               size_t *capacity,
               size_t needed,
               size_t size,
               size_t align)
{
    size_t wanted = *capacity ? *capacity * 2 : CAPACITY_MIN;

    if (wanted < needed)
        wanted = needed;
    if (wanted > SIZE_MAX / 2 / size)
        mem_exhausted();

    void *grown = NULL;
    if (arena) {
        grown = arena_raw(arena, wanted * size, align); /* an item is written when it is pushed */
        if (*capacity)
            memcpy(grown, items, *capacity * size);
    } else {
        grown = realloc(items, wanted * size);
        if (!grown)
            mem_exhausted();
    }
    *capacity = wanted;
    return grown;
}

void vec_free(void *items)
{
    free(items);
}
