#include "control/core/status.h"

#include "base/json.h"
#include "base/str.h"

#include <stddef.h>

struct json *merge_diff(struct arena *arena, const struct json *before, const struct json *after)
{
    struct json *patch = NULL;

    JSON_FOREACH(before, old) {
        if (json_is_null(old) || json_get_str(after, json_key(old)))
            continue;
        patch = patch ? patch : json_new_object(arena);
        json_set(patch, json_key(old), json_new_null(arena));
    }
    JSON_FOREACH(after, new) {
        const struct json *old = json_get_str(before, json_key(new));
        struct json *change;

        if (json_equal(old, new))
            continue;
        if (json_is(old, JSON_OBJECT) && json_is(new, JSON_OBJECT))
            change = merge_diff(arena, old, new);
        else
            change = json_clone(arena, new);
        if (!change)
            continue;
        patch = patch ? patch : json_new_object(arena);
        json_set(patch, json_key(new), change);
    }
    return patch;
}
