#include "control/core/status.h"

#include "base/json.h"
#include "base/str.h"
#include "base/time.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

const struct json *condition_find(const struct json *status, const char *type)
{
    JSON_FOREACH(json_get(status, "conditions"), condition)
        if (str_is(json_str(json_get(condition, "type")), type))
            return condition;
    return NULL;
}

bool condition_is_true(const struct json *status, const char *type)
{
    return str_is(json_str(json_get(condition_find(status, type), "status")), "True");
}

/* What changes of `entry`, a condition of that type or an empty object. */
static void write_condition(struct arena *arena,
                            struct json *entry,
                            const struct condition *condition,
                            bool moved,
                            int64_t now_ms)
{
    json_add_c(arena, entry, "type", condition->type);
    json_add_c(arena, entry, "status", condition->status);
    if (moved)
        json_add_str(arena, entry, "lastTransitionTime", time_text(arena, now_ms));
    json_add_c(arena, entry, "reason", condition->reason);
    json_add_str(arena, entry, "message", str_dup(arena, condition->message));
}

struct json *condition_patch(struct arena *arena,
                             const struct json *status,
                             const struct condition *condition,
                             int64_t now_ms)
{
    const struct json *old = condition_find(status, condition->type);
    bool moved = !str_is(json_str(json_get(old, "status")), condition->status);
    struct json *patch = json_new_object(arena);

    if (!moved && str_is(json_str(json_get(old, "reason")), condition->reason) &&
        str_eq(json_str(json_get(old, "message")), condition->message))
        return NULL;
    write_condition(arena,
                    json_push(json_add_array(arena, patch, "conditions"), json_new_object(arena)),
                    condition, moved, now_ms);
    return patch;
}

void condition_set(struct arena *arena,
                   struct json *status,
                   const struct condition *condition,
                   int64_t now_ms)
{
    struct json *list = json_get(status, "conditions");
    struct json *entry = NULL;

    if (!json_is(list, JSON_ARRAY))
        list = json_add_array(arena, status, "conditions");
    JSON_FOREACH(list, each)
        if (str_is(json_str(json_get(each, "type")), condition->type))
            entry = each;
    if (!entry)
        entry = json_push(list, json_new_object(arena));
    bool moved = !str_is(json_str(json_get(entry, "status")), condition->status);
    write_condition(arena, entry, condition, moved, now_ms);
}

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
