#pragma once

#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* map: text to pointer, open addressing, iterated in the order of insertion.
 *
 * Keys are borrowed: they must live as long as their entry, usually inside the value. The seed
 * keeps a peer from choosing keys that collide; it changes nothing that can be observed, because
 * the order of iteration is the order of insertion (removal keeps the order of the rest).
 *
 *     struct map pods = {.seed = seed};
 *     map_set(&pods, pod->key, pod);
 *     MAP_FOREACH(&pods, entry) use(entry->value);
 *     map_done(&pods);
 *
 * Heap memory; at most 2^31 entries. Removing entries while iterating is allowed, adding is not. */
struct map_entry {
    struct str key;
    void *value; /* never NULL in a live entry */
    uint64_t hash;
};

struct map {
    uint64_t seed;
    struct map_entry *entries; /* insertion order, holes (value NULL) until the next growth */
    uint32_t *slots;           /* 0 empty, else index + 1 into entries; holes keep their slot */
    size_t entry_count;        /* holes included */
    size_t count;
    size_t slot_count; /* a power of two */
};

/* NULL when absent. */
void *map_get(const struct map *map, struct str key);
/* Returns the value that was there before, or NULL. The new key replaces the old one, so that the
 * old value can be freed. */
void *map_set(struct map *map, struct str key, void *value);
/* Returns what was removed, or NULL. */
void *map_remove(struct map *map, struct str key);
void map_clear(struct map *map);
void map_done(struct map *map);

/* The first live entry at or behind `entry`, or NULL. */
struct map_entry *map_live(const struct map *map, struct map_entry *entry);

#define MAP_FOREACH(map, entry)                                          \
    for (struct map_entry *entry = map_live(map, (map)->entries); entry; \
         entry = map_live(map, entry + 1))
