#pragma once

#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>

struct arena;
struct schema;

/* shape: the fields of the built-in kinds: what is stored, what is refused, and what OpenAPI and so
 * `kubectl explain` say.
 *
 * Complete for the types it names: old kubectls refuse, before they send anything, every field that
 * a published type does not list. The text is in shape_core.c and shape_pod.c, one line a field:
 *
 *     Container: one of the pod's processes
 *      name s! name, unique in the pod
 *      env []EnvVar environment variables
 *
 * s string, i integer, b boolean, x integer or string, q quantity, t time, y bytes in base64,
 * o any object, A-Z a type; [] in front makes a list, {} a map; ! behind means required. */
struct shape_field {
    struct str name;
    struct str type; /* without [] {} ! */
    bool list;
    bool map;
    bool required;
    struct str about;
};

/* The lines of a type: walk them with shape_next(). Empty when there is none of that name. */
struct shape {
    struct str about;
    struct str lines;
};

bool shape_find(struct str type, struct shape *ret);
bool shape_next(struct str *lines, struct shape_field *ret);
/* Every type in turn, from index 0; false behind the last. */
bool shape_at(size_t index, struct str *ret_type);

/* The same as a schema, which prunes and checks types as that of a custom kind does; NULL when
 * there is no type of that name. */
const struct schema *shape_schema(struct arena *arena, struct str type);

/* The texts. */
extern const char shape_pod_text[];
extern const char shape_volume_text[];
extern const char shape_core_text[];
extern const char shape_apps_text[];
extern const char shape_stored_text[];
