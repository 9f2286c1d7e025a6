#pragma once

#include "base/str.h"
#include "cel/value.h"

#include <stdbool.h>

struct arena;
struct schema;

/* field: what a schema says of the fields that an expression names. */

/* The schema of a member of an object or a map. False: there is no such field, or expressions
 * cannot see it because its type is not said. `resource`: the object has apiVersion, kind and
 * metadata, of which the name alone can be seen. */
bool field_schema(const struct schema *schema,
                  bool resource,
                  struct str name,
                  const struct schema **ret);

/* The type of what a schema describes, if it is not null; CEL_DYN: more than one is possible. */
enum cel_type field_type(const struct schema *schema);

/* A map of the schema has any keys, an object those that are named. */
bool field_is_object(const struct schema *schema);

/* The name of a field in an expression is escaped where it is no identifier: "__dot__" is ".".
 * Returns the field's own name. */
struct str field_unescape(struct arena *arena, struct str name);
