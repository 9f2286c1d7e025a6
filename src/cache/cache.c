#include "cache/cache.h"

#include "api/kind.h"
#include "api/object.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/vec.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* One table a kind. An entry is in the table's own map, in one map an owner and, once somebody has
 * asked for a namespace of that kind, in the map of its namespace: of most kinds nobody does, and a
 * map costs what all of its keys cost. All three walk in the order entries first appeared, because
 * a map does. A bucket that has become empty is freed, so uids of long-gone owners cost nothing. */
struct entry {
    const struct object *object;
    size_t key_len;
    char key[]; /* "namespace/name" */
};

struct bucket {
    struct map members; /* entry->key -> entry */
    size_t name_len;
    char name[];
};

struct table {
    const struct kind *kind;
    struct map all;    /* entry->key -> entry */
    struct map spaces; /* namespace -> bucket, if `spaced` */
    bool spaced;
    struct map owners; /* uid -> bucket */
    struct map groups; /* name of the pod group -> bucket, in whatever namespace */
};

struct cache {
    uint64_t seed;
    VEC(struct table *) tables;
};

/* 63 for a namespace, 253 for a name, and room for kinds with looser rules. */
#define KEY_BYTES_MAX 1024

struct cache *cache_new(uint64_t seed)
{
    struct cache *cache = MEM_NEW(struct cache);

    cache->seed = seed;
    return cache;
}

static void buckets_free(struct map *buckets)
{
    MAP_FOREACH(buckets, at) {
        struct bucket *bucket = at->value;

        map_done(&bucket->members);
        mem_free(bucket);
    }
    map_done(buckets);
}

void cache_free(struct cache *cache)
{
    if (!cache)
        return;
    for (size_t i = 0; i < cache->tables.count; i++) {
        struct table *table = cache->tables.items[i];

        buckets_free(&table->spaces);
        buckets_free(&table->owners);
        buckets_free(&table->groups);
        MAP_FOREACH(&table->all, at) {
            struct entry *entry = at->value;

            object_unref(entry->object);
            mem_free(entry);
        }
        map_done(&table->all);
        mem_free(table);
    }
    VEC_DONE(&cache->tables);
    mem_free(cache);
}

/* A CRD may be told again as a new struct kind: what names the same resource is the same kind. */
static bool same_kind(const struct kind *a, const struct kind *b)
{
    return a == b || (strcmp(a->plural, b->plural) == 0 && strcmp(a->group, b->group) == 0 &&
                      strcmp(a->version, b->version) == 0);
}

static struct table *table_find(const struct cache *cache, const struct kind *kind)
{
    for (size_t i = 0; i < cache->tables.count; i++)
        if (cache->tables.items[i]->kind == kind)
            return cache->tables.items[i];
    for (size_t i = 0; i < cache->tables.count; i++)
        if (same_kind(cache->tables.items[i]->kind, kind))
            return cache->tables.items[i];
    return NULL;
}

static struct table *table_make(struct cache *cache, const struct kind *kind)
{
    struct table *table = table_find(cache, kind);

    if (table)
        return table;
    table = MEM_NEW(struct table);
    *table = (struct table){.kind = kind,
                            .all = {.seed = cache->seed},
                            .spaces = {.seed = cache->seed},
                            .owners = {.seed = cache->seed},
                            .groups = {.seed = cache->seed}};
    VEC_PUSH(NULL, &cache->tables, table);
    return table;
}

static bool key_make(struct str ns, struct str name, char out[static KEY_BYTES_MAX], size_t *ret)
{
    if (ns.len + name.len + 1 > KEY_BYTES_MAX)
        return false;
    if (ns.len)
        memcpy(out, ns.p, ns.len);
    out[ns.len] = '/';
    if (name.len)
        memcpy(out + ns.len + 1, name.p, name.len);
    *ret = ns.len + 1 + name.len;
    return true;
}

static struct entry *entry_find(const struct table *table, struct str ns, struct str name)
{
    char key[KEY_BYTES_MAX];
    size_t len;

    if (!table || !key_make(ns, name, key, &len))
        return NULL;
    return map_get(&table->all, (struct str){key, len});
}

static struct str entry_key(const struct entry *entry)
{
    return (struct str){entry->key, entry->key_len};
}

static void bucket_add(struct map *buckets, struct str name, struct entry *entry)
{
    struct bucket *bucket = map_get(buckets, name);

    if (!bucket) {
        bucket = mem_alloc(sizeof(*bucket) + name.len);
        bucket->members.seed = buckets->seed;
        bucket->name_len = name.len;
        if (name.len)
            memcpy(bucket->name, name.p, name.len);
        map_set(buckets, (struct str){bucket->name, bucket->name_len}, bucket);
    }
    map_set(&bucket->members, entry_key(entry), entry);
}

static void bucket_drop(struct map *buckets, struct str name, struct entry *entry)
{
    struct bucket *bucket = map_get(buckets, name);

    if (!bucket)
        return;
    map_remove(&bucket->members, entry_key(entry));
    if (bucket->members.count)
        return;
    map_remove(buckets, name);
    map_done(&bucket->members);
    mem_free(bucket);
}

static void owners_add(struct table *table, struct entry *entry)
{
    for (size_t i = 0; i < entry->object->owner_count; i++)
        bucket_add(&table->owners, entry->object->owners[i].uid, entry);
    struct str group = entry->object->group;
    if (group.len)
        bucket_add(&table->groups, group, entry);
}

static void owners_drop(struct table *table, struct entry *entry)
{
    for (size_t i = 0; i < entry->object->owner_count; i++)
        bucket_drop(&table->owners, entry->object->owners[i].uid, entry);
    struct str group = entry->object->group;
    if (group.len)
        bucket_drop(&table->groups, group, entry);
}

static bool same_owners(const struct object *a, const struct object *b)
{
    if (a->owner_count != b->owner_count)
        return false;
    for (size_t i = 0; i < a->owner_count; i++)
        if (!str_eq(a->owners[i].uid, b->owners[i].uid))
            return false;
    return true;
}

static void entry_replace(struct table *table, struct entry *entry, const struct object *object)
{
    const struct object *old = entry->object;
    bool moved = !same_owners(old, object) || !str_eq(old->group, object->group);

    if (moved)
        owners_drop(table, entry);
    entry->object = object_ref(object);
    if (moved)
        owners_add(table, entry);
    object_unref(old);
}

void cache_put(struct cache *cache, const struct object *object)
{
    struct table *table = table_make(cache, object->kind);
    struct entry *entry = entry_find(table, object->ns, object->name);
    char key[KEY_BYTES_MAX];
    size_t len;

    if (entry) {
        if (object->revision >= entry->object->revision)
            entry_replace(table, entry, object);
        return;
    }
    if (!key_make(object->ns, object->name, key, &len))
        return;
    entry = mem_alloc(sizeof(*entry) + len);
    entry->object = object_ref(object);
    entry->key_len = len;
    memcpy(entry->key, key, len);
    map_set(&table->all, entry_key(entry), entry);
    if (table->spaced)
        bucket_add(&table->spaces, object->ns, entry);
    owners_add(table, entry);
}

void cache_drop(struct cache *cache, const struct object *object)
{
    struct table *table = table_find(cache, object->kind);
    struct entry *entry = entry_find(table, object->ns, object->name);

    if (!entry || entry->object->revision > object->revision)
        return;
    owners_drop(table, entry);
    if (table->spaced)
        bucket_drop(&table->spaces, object->ns, entry);
    map_remove(&table->all, entry_key(entry));
    object_unref(entry->object);
    mem_free(entry);
}

const struct object *cache_get(const struct cache *cache,
                               const struct kind *kind,
                               struct str ns,
                               struct str name)
{
    const struct entry *entry = entry_find(table_find(cache, kind), ns, name);

    return entry ? entry->object : NULL;
}

size_t cache_count(const struct cache *cache, const struct kind *kind)
{
    const struct table *table = table_find(cache, kind);

    return table ? table->all.count : 0;
}

/* The cursor is the index of the next map entry to look at. */
static const struct object *objects_next(const struct map *map, size_t *cursor)
{
    if (*cursor >= map->entry_count)
        return NULL;
    const struct map_entry *at = map_live(map, map->entries + *cursor);
    if (!at) {
        *cursor = map->entry_count;
        return NULL;
    }
    *cursor = (size_t)(at - map->entries) + 1;
    return ((const struct entry *)at->value)->object;
}

/* By namespace, from now on. */
static void table_space(struct table *table)
{
    if (table->spaced)
        return;
    table->spaced = true;
    MAP_FOREACH(&table->all, at) {
        struct entry *entry = at->value;

        bucket_add(&table->spaces, entry->object->ns, entry);
    }
}

const struct object *cache_next(const struct cache *cache,
                                const struct kind *kind,
                                struct str ns,
                                size_t *cursor)
{
    struct table *table = table_find(cache, kind);

    if (!table)
        return NULL;
    if (!ns.len)
        return objects_next(&table->all, cursor);
    table_space(table);
    const struct bucket *bucket = map_get(&table->spaces, ns);
    return bucket ? objects_next(&bucket->members, cursor) : NULL;
}

const struct object *cache_next_grouped(const struct cache *cache,
                                        const struct kind *kind,
                                        struct str group,
                                        size_t *cursor)
{
    const struct table *table = table_find(cache, kind);
    const struct bucket *bucket = table ? map_get(&table->groups, group) : NULL;

    return bucket ? objects_next(&bucket->members, cursor) : NULL;
}

size_t cache_count_grouped(const struct cache *cache, const struct kind *kind, struct str group)
{
    const struct table *table = table_find(cache, kind);
    const struct bucket *bucket = table ? map_get(&table->groups, group) : NULL;

    return bucket ? bucket->members.count : 0;
}

const struct object *cache_next_owned(const struct cache *cache,
                                      const struct kind *kind,
                                      struct str uid,
                                      size_t *cursor)
{
    const struct table *table = table_find(cache, kind);
    const struct bucket *bucket = table ? map_get(&table->owners, uid) : NULL;

    return bucket ? objects_next(&bucket->members, cursor) : NULL;
}
