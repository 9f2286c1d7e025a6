#include "control/core/status.h"

#include "base/cleanup.h"
#include "base/json.h"
#include "base/json_items.h"
#include "base/json_names.h"
#include "base/str.h"

#include <stddef.h>
#include <stdint.h>

void refusal_write(struct arena *arena, struct json *status, struct str refusal, int64_t now_ms)
{
    struct json *list = json_get(status, "conditions");

    if (refusal.len) {
        condition_set(
            arena, status,
            &(struct condition){"ReplicaFailure", "True", "FailedCreate", str_dup(arena, refusal)},
            now_ms);
        return;
    }
    json_drop_items(list, "type", STR("ReplicaFailure"));
    if (list && !json_count(list))
        json_remove(status, STR("conditions"));
}

struct json *merge_diff(struct arena *arena, const struct json *before, const struct json *after)
{
    _cleanup_(json_names_done) struct json_names there = {.object = before};
    _cleanup_(json_names_done) struct json_names wanted = {.object = after};
    struct json *patch = NULL;

    JSON_FOREACH(before, old) {
        if (json_is_null(old) || json_names_get(&wanted, json_key(old)))
            continue;
        patch = patch ? patch : json_new_object(arena);
        json_append(patch, json_key(old), json_new_null(arena));
    }
    JSON_FOREACH(after, new) {
        const struct json *old = json_names_get(&there, json_key(new));
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
        json_append(patch, json_key(new), change);
    }
    return patch;
}
