#pragma once

#include "api/types.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>

struct arena;
struct json;
struct kind;
struct schema;

/* apply_set: sets of fields, kept as JSON in the form of FieldsV1, and what can be done with them.
 * A member without members below is the field itself; "." beside others says so too. NULL is the
 * empty set. For api/apply.c only. */
struct fields {
    struct arena *arena;
    size_t bytes_end; /* of the arena: beyond it everything here gives up */
    bool too_large;   /* something did: what was returned is not whole */
    bool whole;       /* fields_changed(): what is new is a field itself, not only what is in it */
};

/* Where a walk is: what the types say there, or the schema of a custom kind (NULL: none). */
struct fields_at {
    struct type_place place;
    const struct schema *schema;
    bool root;
    bool meta; /* the object's metadata itself */
};

/* The fields of `value`; the root leaves out what only the server sets. */
struct json *fields_of(struct fields *f, const struct json *value, struct fields_at at);
/* The fields of `value` that are not the same in `other`. */
struct json *fields_changed(struct fields *f,
                            const struct json *value,
                            const struct json *other,
                            struct fields_at at);
/* `value` put over `into`, list items by their keys. Returns what to keep in its place. */
struct json *fields_merge(struct fields *f,
                          struct json *into,
                          const struct json *value,
                          struct fields_at at);
/* Take the fields of `set` out of `value`. */
void fields_remove(struct fields *f,
                   struct json *value,
                   const struct json *set,
                   struct fields_at at);

struct json *fields_union(struct fields *f, const struct json *a, const struct json *b);
struct json *fields_minus(struct fields *f, const struct json *a, const struct json *b);
struct json *fields_both(struct fields *f, const struct json *a, const struct json *b);

/* Each single field, as ".spec.x", cut off where that is longer than FIELDS_TEXT_BYTES_MAX; until
 * `each` returns false. */
#define FIELDS_TEXT_BYTES_MAX 1024
bool fields_each(struct arena *arena,
                 const struct json *set,
                 struct str path,
                 bool (*each)(void *user, struct str field),
                 void *user);
