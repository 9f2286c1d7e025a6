#pragma once

#include "base/str.h"

#include <stdbool.h>

struct arena;
struct schema;

/* fieldpath: the fieldPath of a rule, ".spec.x" or ".labels['a.b']": names that the schema has.
 * *ret is what is appended to the path of the value; false: it names something else. */
bool fieldpath_text(struct arena *arena,
                    const struct schema *schema,
                    struct str path,
                    struct str *ret);
