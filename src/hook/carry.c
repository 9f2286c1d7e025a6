#include "hook/carry.h"

#include "api/api.h"
#include "base/arena.h"
#include "base/count.h"
#include "base/json.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>

/* A member that is not in `from`; false: there is none. */
static bool remove_one(struct json *to, const struct json *from)
{
    JSON_FOREACH(to, member)
        if (!json_get_str(from, json_key(member))) {
            json_remove(to, json_key(member));
            return true;
        }
    return false;
}

void carry_object(struct arena *arena, struct json *to, const struct json *from)
{
    static const char *const own[] = {"name",
                                      "namespace",
                                      "uid",
                                      "generation",
                                      "creationTimestamp",
                                      "resourceVersion",
                                      "deletionTimestamp"};
    struct json *meta = json_clone(arena, json_get(to, "metadata"));

    while (remove_one(to, from))
        ;
    JSON_FOREACH(from, member)
        json_set(to, str_dup(arena, json_key(member)), json_clone(arena, member));
    for (size_t i = 0; i < COUNT_OF(own); i++) {
        const struct json *value = json_get(meta, own[i]);

        if (value)
            json_set(json_get(to, "metadata"), str_from(own[i]), json_clone(arena, value));
        else
            json_remove(json_get(to, "metadata"), str_from(own[i]));
    }
}

void carry_request(struct arena *arena,
                   const struct api_request *from,
                   struct api_request *to,
                   struct api_user *user)
{
    *to = *from;
    to->ns = str_dup(arena, from->ns);
    to->name = str_dup(arena, from->name);
    to->subresource = str_dup(arena, from->subresource);
    to->body = str_dup(arena, from->body);
    to->field_manager = str_dup(arena, from->field_manager);
    to->label_selector = str_dup(arena, from->label_selector);
    to->field_selector = str_dup(arena, from->field_selector);
    to->uid = str_dup(arena, from->uid);
    if (!from->user)
        return;
    struct str *groups = ARENA_ARRAY(arena, struct str, from->user->group_count);
    for (size_t i = 0; i < from->user->group_count; i++)
        groups[i] = str_dup(arena, from->user->groups[i]);
    *user = (struct api_user){.name = str_dup(arena, from->user->name),
                              .uid = str_dup(arena, from->user->uid),
                              .groups = groups,
                              .group_count = from->user->group_count};
    to->user = user;
}
