#pragma once

#include "base/str.h"
#include "base/vec.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct change;
struct kind;
struct object;
struct schema;
struct store;

/* shelf: the objects of one kind.
 *
 * An entry is one name in one shelf. `staged` is what the newest write made of it; `committed` is
 * what the file and everybody outside knows. */
struct entry {
    struct shelf *shelf;
    const struct object *committed; /* NULL: not there */
    const struct object *staged;    /* NULL: deleted; meaningful while staged_revision != 0 */
    uint64_t staged_revision;       /* of the newest write that is not committed yet */
    struct str ns;
    struct str name;
};

struct shelf {
    const struct kind *kind;     /* as what is written is stored; older objects may have another
                                    version */
    VEC(struct entry *) entries; /* by namespace and name */
    size_t committed_count;
    bool dropped; /* its CRD is gone */
    bool webhook; /* versions are converted by others: objects are given as they are stored */
};

/* Objects that name an owner, by the owner's uid. */
struct owned {
    struct str uid;
    VEC(struct entry *) entries;
    char text[];
};

/* The shelf that keeps objects of `kind`, NULL when there is none. */
struct shelf *shelf_of(const struct store *store, const struct kind *kind);
/* What the types say about a built-in kind; NULL: it is custom, and its CRD says it. */
const struct schema *store_shape(const struct store *store, const struct kind *kind);
struct shelf *shelf_add(struct store *store, const struct kind *kind);
struct entry *shelf_find(const struct shelf *shelf, struct str ns, struct str name);
/* Index of the first entry not before ns/name. */
size_t shelf_lower(const struct shelf *shelf, struct str ns, struct str name);
struct entry *shelf_make(struct shelf *shelf, struct str ns, struct str name);
/* Free the entry if neither committed nor staged. */
void shelf_tidy(struct entry *entry);
void shelves_free(struct store *store);
/* What the newest write made of it; NULL: nothing there. */
static inline const struct object *entry_latest(const struct entry *entry)
{
    if (!entry)
        return NULL;
    return entry->staged_revision ? entry->staged : entry->committed;
}
/* Make a change part of the committed state: entry, indexes. Returns the object that was there
 * before with a reference, or NULL. */
const struct object *shelf_commit(struct store *store, const struct change *change);
