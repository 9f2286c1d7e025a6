#pragma once

#include "base/str.h"
#include "base/vec.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arena;
struct object;
struct shelf;
struct store;

/* past: the objects of a kind as they were at an earlier revision, so that the pages of a list are
 * of one moment. What changed since is put back; the others are on the shelf. */
struct past_item {
    struct str ns;
    struct str name;
    const struct object *object; /* NULL: it was not there */
    size_t index;                /* in the history */
};

struct past {
    const struct shelf *shelf;
    VEC(struct past_item) changed; /* by namespace and name */
    size_t at;                     /* of the shelf: what comes next */
    size_t changed_at;
};

/* False: what was there then is no longer known. The history must not change as long as it is gone
 * through. */
bool past_open(struct past *past,
               const struct store *store,
               const struct shelf *shelf,
               struct arena *arena,
               uint64_t revision);
/* What comes behind ns/name is next; with `behind` false, that itself too. */
void past_seek(struct past *past, struct str ns, struct str name, bool behind);
/* The next name and what was there: NULL: nothing. False: there are no more. */
bool past_next(struct past *past, struct str *ret_ns, const struct object **ret);
