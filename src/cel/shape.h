#pragma once

#include "base/str.h"
#include "cel/value.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arena;
struct schema;

/* shape: what a schema says of the size of its values, for the estimate of what a rule costs. Where
 * it says nothing, a value is as large as fits into a request. */
#define SHAPE_REQUEST_BYTES 3145728 /* as Kubernetes counts, whatever this server takes */

struct shape_field;

struct shape {
    enum cel_type type; /* CEL_MAP of an object, too */
    bool object;        /* it has the fields that are named */
    bool named;         /* a map whose members have their size when they are asked for by name */
    bool alone;   /* of a root: what begins elsewhere is not taken for it, as it is in rules */
    uint64_t max; /* members of a list or map, bytes of a text; 0 of everything else */
    uint64_t bytes_min;       /* of its JSON */
    const struct shape *key;  /* of a map */
    const struct shape *item; /* of a list, a map or an optional */
    const struct shape_field *fields;
    size_t field_count;
};

struct shape_field {
    struct str name;
    const struct shape *shape;
};

/* NULL: expressions cannot see it, because the type of it or of its items is not said. `resource`:
 * it has apiVersion, kind and metadata. */
const struct shape *shape_of(struct arena *arena, const struct schema *schema, bool resource);

/* NULL: there is no such field, or it cannot be seen. */
const struct shape *shape_field(const struct shape *shape, struct str name);

/* What has a type and no more. */
const struct shape *shape_simple(enum cel_type type);
/* A list of those, a map to those, or an optional one. */
const struct shape *shape_holding(struct arena *arena,
                                  enum cel_type type,
                                  const struct shape *item);
