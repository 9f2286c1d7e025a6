#pragma once

#include "base/arena.h"

#include <stddef.h>

/* vec: a growing array, on an arena or, with a NULL arena, on the heap.
 *
 *     VEC(struct pod *) pods = {0};
 *     VEC_PUSH(arena, &pods, pod);
 *     for (size_t i = 0; i < pods.count; i++) use(pods.items[i]);
 *
 * One vec keeps to one allocator all its life. A heap vec is released with VEC_DONE(). To pass a
 * vec between functions give its type a name: struct pod_vec VEC_FIELDS(struct pod *);  */
#define VEC_FIELDS(type) \
    {                    \
        type *items;     \
        size_t count;    \
        size_t capacity; \
    }
#define VEC(type) struct VEC_FIELDS(type)

#define VEC_PUSH(arena, vec, ...)                                                                \
    do {                                                                                         \
        if ((vec)->count == (vec)->capacity)                                                     \
            (vec)->items = vec_grow(arena, (vec)->items, &(vec)->capacity, (vec)->count + 1,     \
                                    sizeof(*(vec)->items), _Alignof(__typeof__(*(vec)->items))); \
        (vec)->items[(vec)->count++] = (__VA_ARGS__);                                            \
    } while (0)

/* Room for `total` items in all, so that so many come without the array growing: on an arena every
 * growth leaves the old block behind. */
#define VEC_RESERVE(arena, vec, total)                                                           \
    do {                                                                                         \
        size_t vec_total = (total);                                                              \
        if (vec_total > (vec)->capacity)                                                         \
            (vec)->items = vec_grow(arena, (vec)->items, &(vec)->capacity, vec_total,            \
                                    sizeof(*(vec)->items), _Alignof(__typeof__(*(vec)->items))); \
    } while (0)

/* Take item `index` out by moving the last one into its place. */
#define VEC_REMOVE_SWAP(vec, index)                           \
    do {                                                      \
        (vec)->items[index] = (vec)->items[(vec)->count - 1]; \
        (vec)->count--;                                       \
    } while (0)

#define VEC_DONE(vec)           \
    do {                        \
        vec_free((vec)->items); \
        (vec)->items = NULL;    \
        (vec)->count = 0;       \
        (vec)->capacity = 0;    \
    } while (0)

/* A block of at least `needed` items with the old ones in it; *capacity is updated. */
void *vec_grow(struct arena *arena,
               void *items,
               size_t *capacity,
               size_t needed,
               size_t size,
               size_t align);
void vec_free(void *items);
