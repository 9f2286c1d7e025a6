#include "api/condition.h"

#include "base/json.h"
#include "base/str.h"
#include "base/time.h"

#include <stdbool.h>
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
    if (!condition->reason) {
        json_remove(entry, STR("reason"));
        json_remove(entry, STR("message"));
        return;
    }
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
