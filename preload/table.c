#include "table.h"

#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define SIZE_FIRST 64 /* entries; always a power of two, at most half of them used */

struct part {
    pthread_mutex_t mutex;
    struct entry *entries;
    size_t size;
    size_t count;
};

static struct part parts[TABLE_COUNT][TABLE_PARTS] = {
    [0 ... TABLE_COUNT - 1] = {[0 ... TABLE_PARTS - 1] = {.mutex = PTHREAD_MUTEX_INITIALIZER}}};

/* Addresses are multiples of 512 and more: their middle bits differ. */
static uint64_t mix(uint64_t key)
{
    key ^= key >> 33;
    key *= UINT64_C(0x9e3779b97f4a7c15);
    return key ^ (key >> 29);
}

static struct part *lock_part(enum table table, uint64_t key)
{
    struct part *part = &parts[table][(mix(key) >> 32) % TABLE_PARTS];

    pthread_mutex_lock(&part->mutex);
    return part;
}

/* Where the key is, or would be. */
static struct entry *find(const struct part *part, uint64_t key)
{
    size_t at = mix(key) & (part->size - 1);

    while (part->entries[at].key && part->entries[at].key != key)
        at = (at + 1) & (part->size - 1);
    return &part->entries[at];
}

static bool grow(struct part *part)
{
    struct part larger = {.size = part->size ? part->size * 2 : SIZE_FIRST};

    larger.entries = calloc(larger.size, sizeof(*larger.entries));
    if (!larger.entries)
        return false;
    for (size_t i = 0; i < part->size; i++)
        if (part->entries[i].key)
            *find(&larger, part->entries[i].key) = part->entries[i];
    free(part->entries);
    part->entries = larger.entries;
    part->size = larger.size;
    return true;
}

void table_put(enum table table, uint64_t key, struct record record)
{
    struct part *part = lock_part(table, key);

    if (key && (2 * (part->count + 1) <= part->size || grow(part))) {
        struct entry *entry = find(part, key);

        part->count += !entry->key;
        *entry = (struct entry){.key = key, .record = record};
    }
    pthread_mutex_unlock(&part->mutex);
}

/* Entries behind a hole move up, so that a search may stop at the first free one. */
static void remove_at(struct part *part, size_t hole)
{
    size_t mask = part->size - 1;
    size_t at = hole;

    for (;;) {
        at = (at + 1) & mask;
        if (!part->entries[at].key)
            break;
        size_t home = mix(part->entries[at].key) & mask;
        if (((at - home) & mask) >= ((at - hole) & mask)) {
            part->entries[hole] = part->entries[at];
            hole = at;
        }
    }
    part->entries[hole].key = 0;
    part->count--;
}

static bool look_up(enum table table, uint64_t key, struct record *ret, bool take)
{
    struct part *part = lock_part(table, key);
    struct entry *entry = key && part->size ? find(part, key) : NULL;
    bool found = entry && entry->key;

    if (found)
        *ret = entry->record;
    if (found && take)
        remove_at(part, (size_t)(entry - part->entries));
    pthread_mutex_unlock(&part->mutex);
    return found;
}

bool table_get(enum table table, uint64_t key, struct record *ret)
{
    return look_up(table, key, ret, false);
}

bool table_take(enum table table, uint64_t key, struct record *ret)
{
    return look_up(table, key, ret, true);
}

void table_drop(enum table table, const void *owner, void (*gone)(const struct record *record))
{
    for (size_t i = 0; i < TABLE_PARTS; i++) {
        struct part *part = &parts[table][i];

        pthread_mutex_lock(&part->mutex);
        for (size_t k = 0; k < part->size;) {
            struct entry *entry = &part->entries[k];

            if (!entry->key || entry->record.owner != owner) {
                k++;
                continue;
            }
            gone(&entry->record);
            remove_at(part, k); /* another may stand here now */
        }
        pthread_mutex_unlock(&part->mutex);
    }
}

void table_forget_all(void)
{
    static const struct part empty = {.mutex = PTHREAD_MUTEX_INITIALIZER};

    for (size_t i = 0; i < TABLE_COUNT; i++)
        for (size_t k = 0; k < TABLE_PARTS; k++)
            parts[i][k] = empty;
}
