#include "store/shelf.h"

#include "api/api.h"
#include "api/kind.h"
#include "api/object.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/vec.h"
#include "store/batch.h"
#include "store/state.h"

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* Shelves keep their entries sorted by namespace and name: a lookup is a binary search, and a list
 * or a continued list is a walk from a place. Two further indexes over all shelves: by uid, and by
 * the uid of owners. */

/* Served or not. */
static struct shelf *shelf_any(const struct store *store, const struct kind *kind)
{
    /* Two groups, one set of events. */
    if (kind == &kind_event_k8s)
        kind = &kind_event;
    for (size_t i = 0; i < store->shelves.count; i++) {
        struct shelf *shelf = store->shelves.items[i];

        if (shelf->kind == kind || (strcmp(shelf->kind->plural, kind->plural) == 0 &&
                                    strcmp(shelf->kind->group, kind->group) == 0))
            return shelf;
    }
    return NULL;
}

struct shelf *shelf_of(const struct store *store, const struct kind *kind)
{
    struct shelf *shelf = shelf_any(store, kind);

    return shelf && !shelf->dropped ? shelf : NULL;
}

struct shelf *shelf_add(struct store *store, const struct kind *kind)
{
    struct shelf *shelf = shelf_any(store, kind);

    if (!shelf) {
        shelf = MEM_NEW(struct shelf);
        shelf->kind = kind;
        VEC_PUSH(NULL, &store->shelves, shelf);
    }
    shelf->dropped = false;
    return shelf;
}

static int entry_order(const struct entry *entry, struct str ns, struct str name)
{
    int by_ns = str_cmp(entry->ns, ns);

    return by_ns ? by_ns : str_cmp(entry->name, name);
}

size_t shelf_lower(const struct shelf *shelf, struct str ns, struct str name)
{
    size_t low = 0;
    size_t high = shelf->entries.count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (entry_order(shelf->entries.items[middle], ns, name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct entry *shelf_find(const struct shelf *shelf, struct str ns, struct str name)
{
    size_t at = shelf_lower(shelf, ns, name);

    if (at == shelf->entries.count || entry_order(shelf->entries.items[at], ns, name) != 0)
        return NULL;
    return shelf->entries.items[at];
}

struct entry *shelf_make(struct shelf *shelf, struct str ns, struct str name)
{
    size_t at = shelf_lower(shelf, ns, name);

    if (at < shelf->entries.count && entry_order(shelf->entries.items[at], ns, name) == 0)
        return shelf->entries.items[at];

    struct entry *entry = mem_alloc(sizeof(*entry) + ns.len + name.len + 1);
    char *text = (char *)(entry + 1);
    if (ns.len)
        memcpy(text, ns.p, ns.len);
    memcpy(text + ns.len, name.p, name.len);
    entry->shelf = shelf;
    entry->ns = (struct str){text, ns.len};
    entry->name = (struct str){text + ns.len, name.len};

    VEC_PUSH(NULL, &shelf->entries, entry);
    memmove(&shelf->entries.items[at + 1], &shelf->entries.items[at],
            (shelf->entries.count - 1 - at) * sizeof(struct entry *));
    shelf->entries.items[at] = entry;
    return entry;
}

void shelf_tidy(struct entry *entry)
{
    struct shelf *shelf = entry->shelf;

    if (entry->committed || entry->staged_revision)
        return;
    size_t at = shelf_lower(shelf, entry->ns, entry->name);
    assert(shelf->entries.items[at] == entry);
    shelf->entries.count--;
    memmove(&shelf->entries.items[at], &shelf->entries.items[at + 1],
            (shelf->entries.count - at) * sizeof(struct entry *));
    mem_free(entry);
}

static void owned_add(struct store *store, struct entry *entry, const struct object *object)
{
    for (size_t i = 0; i < object->owner_count; i++) {
        struct str uid = object->owners[i].uid;
        struct owned *owned = map_get(&store->owned, uid);

        if (!uid.len)
            continue;
        if (!owned) {
            owned = mem_alloc(sizeof(*owned) + uid.len + 1);
            memcpy(owned->text, uid.p, uid.len);
            owned->uid = (struct str){owned->text, uid.len};
            map_set(&store->owned, owned->uid, owned);
        }
        VEC_PUSH(NULL, &owned->entries, entry);
    }
}

static void owned_free(struct owned *owned)
{
    VEC_DONE(&owned->entries);
    mem_free(owned);
}

static void owned_remove(struct store *store,
                         const struct entry *entry,
                         const struct object *object)
{
    for (size_t i = 0; i < object->owner_count; i++) {
        struct owned *owned = map_get(&store->owned, object->owners[i].uid);

        for (size_t j = 0; owned && j < owned->entries.count; j++) {
            if (owned->entries.items[j] != entry)
                continue;
            VEC_REMOVE_SWAP(&owned->entries, j);
            break;
        }
        if (owned && !owned->entries.count) {
            map_remove(&store->owned, owned->uid);
            owned_free(owned);
        }
    }
}

const struct object *shelf_commit(struct store *store, const struct change *change)
{
    struct entry *entry = change->entry;
    struct shelf *shelf = entry->shelf;
    const struct object *previous = entry->committed;

    if (previous) {
        owned_remove(store, entry, previous);
        if (change->event == API_DELETED)
            map_remove(&store->by_uid, previous->uid);
        shelf->committed_count--;
    }
    entry->committed = change->event == API_DELETED ? NULL : object_ref(change->object);
    if (entry->committed) {
        owned_add(store, entry, entry->committed);
        if (entry->committed->uid.len)
            map_set(&store->by_uid, entry->committed->uid, entry);
        shelf->committed_count++;
    }
    if (entry->staged_revision == change->revision) {
        object_unref(entry->staged);
        entry->staged = NULL;
        entry->staged_revision = 0;
    }
    return previous;
}

void shelves_free(struct store *store)
{
    for (size_t i = 0; i < store->shelves.count; i++) {
        struct shelf *shelf = store->shelves.items[i];

        for (size_t j = 0; j < shelf->entries.count; j++) {
            object_unref(shelf->entries.items[j]->committed);
            object_unref(shelf->entries.items[j]->staged);
            mem_free(shelf->entries.items[j]);
        }
        VEC_DONE(&shelf->entries);
        mem_free(shelf);
    }
    VEC_DONE(&store->shelves);
    MAP_FOREACH(&store->owned, at)
        owned_free(at->value);
    map_done(&store->owned);
    map_done(&store->by_uid);
}

const struct schema *store_shape(const struct store *store, const struct kind *kind)
{
    for (size_t i = 0; i < store->kind_shapes.count; i++)
        if (store->kind_shapes.items[i].kind == kind)
            return store->kind_shapes.items[i].schema;
    return NULL;
}
