#include "base/map.h"

#include "base/mem.h"
#include "base/str.h"

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define SLOTS_MIN ((size_t)16)

/* Slots stay at most half full, holes included, so a probe ends soon. */

static void *zeroed(size_t count, size_t size)
{
    void *block = calloc(count, size);

    if (!block)
        mem_exhausted();
    return block;
}

/* The slot that holds `key`, or the empty slot where it would go. */
static size_t probe(const struct map *map, struct str key, uint64_t hash)
{
    size_t mask = map->slot_count - 1;

    for (size_t i = (size_t)hash & mask;; i = (i + 1) & mask) {
        if (!map->slots[i])
            return i;
        const struct map_entry *entry = &map->entries[map->slots[i] - 1];
        if (entry->value && entry->hash == hash && str_eq(entry->key, key))
            return i;
    }
}

static void rebuild(struct map *map, size_t slot_count)
{
    struct map_entry *entries = zeroed(slot_count / 2, sizeof(*entries));
    uint32_t *slots = zeroed(slot_count, sizeof(*slots));
    size_t live = 0;

    for (size_t i = 0; i < map->entry_count; i++) {
        if (!map->entries[i].value)
            continue;
        entries[live] = map->entries[i];
        size_t at = (size_t)entries[live].hash & (slot_count - 1);
        while (slots[at])
            at = (at + 1) & (slot_count - 1);
        slots[at] = (uint32_t)(++live);
    }
    free(map->entries);
    free(map->slots);
    map->entries = entries;
    map->slots = slots;
    map->slot_count = slot_count;
    map->entry_count = live;
}

void *map_get(const struct map *map, struct str key)
{
    if (!map->count)
        return NULL;
    size_t at = probe(map, key, str_hash(key, map->seed));
    return map->slots[at] ? map->entries[map->slots[at] - 1].value : NULL;
}

void *map_set(struct map *map, struct str key, void *value)
{
    uint64_t hash = str_hash(key, map->seed);

    assert(value);
    if (map->entry_count >= map->slot_count / 2) {
        size_t slot_count = map->slot_count ? map->slot_count : SLOTS_MIN;

        while (map->count > slot_count / 4)
            slot_count *= 2;
        assert(slot_count <= UINT32_MAX);
        rebuild(map, slot_count);
    }

    size_t at = probe(map, key, hash);
    if (map->slots[at]) {
        struct map_entry *entry = &map->entries[map->slots[at] - 1];
        void *old = entry->value;

        *entry = (struct map_entry){.key = key, .value = value, .hash = hash};
        return old;
    }
    map->entries[map->entry_count] = (struct map_entry){.key = key, .value = value, .hash = hash};
    map->slots[at] = (uint32_t)(++map->entry_count);
    map->count++;
    return NULL;
}

void *map_remove(struct map *map, struct str key)
{
    if (!map->count)
        return NULL;

    size_t at = probe(map, key, str_hash(key, map->seed));
    if (!map->slots[at])
        return NULL;

    struct map_entry *entry = &map->entries[map->slots[at] - 1];
    void *old = entry->value;
    *entry = (struct map_entry){0};
    map->count--;
    return old;
}

void map_clear(struct map *map)
{
    if (map->slots)
        memset(map->slots, 0, map->slot_count * sizeof(*map->slots));
    map->entry_count = 0;
    map->count = 0;
}

void map_done(struct map *map)
{
    free(map->entries);
    free(map->slots);
    *map = (struct map){.seed = map->seed};
}

struct map_entry *map_live(const struct map *map, struct map_entry *entry)
{
    if (!entry)
        return NULL;
    for (; entry < map->entries + map->entry_count; entry++)
        if (entry->value)
            return entry;
    return NULL;
}
