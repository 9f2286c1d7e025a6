#include "base/json_items.h"

#include "base/json.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>

void json_filter(struct json *array, json_keep_fn *keep, const void *user)
{
    struct json *item = json_is(array, JSON_ARRAY) ? json_first(array) : NULL;

    if (!item)
        return;
    array->last = NULL;
    array->len = 0;
    while (item) {
        struct json *next = json_next(item);

        if (keep(item, user))
            json_push(array, item);
        item = next;
    }
}

struct named {
    const char *member;
    struct str text;
};

static bool is_other(const struct json *item, const void *user)
{
    const struct named *named = user;

    return !str_eq(json_str(named->member ? json_get(item, named->member) : item), named->text);
}

void json_drop_items(struct json *array, const char *member, struct str text)
{
    json_filter(array, is_other, &(struct named){member, text});
}
