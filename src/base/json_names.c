#include "base/json_names.h"

#include "base/cleanup.h"
#include "base/json.h"
#include "base/map.h"
#include "base/str.h"

#include <stddef.h>
#include <stdint.h>

/* Dropped members are told from others by their name: NULL, which no member has. */
static void names_index(struct json_names *names)
{
    if (names->map.slots || json_count(names->object) <= JSON_NAMES_SCAN_MAX)
        return;
    /* Where the object lies is nothing a peer can know: it cannot choose names that collide. */
    names->map.seed = (uintptr_t)names->object;
    JSON_FOREACH(names->object, member)
        if (member->key)
            (void)map_set(&names->map, json_key(member), member);
}

struct json *json_names_get(struct json_names *names, struct str key)
{
    if (!json_is(names->object, JSON_OBJECT))
        return NULL;
    names_index(names);
    if (names->map.slots)
        return map_get(&names->map, key);
    JSON_FOREACH(names->object, member)
        if (member->key && str_eq(json_key(member), key))
            return member;
    return NULL;
}

struct json *json_names_put(struct json_names *names, struct str key, struct json *value)
{
    struct json *object = (struct json *)(uintptr_t)names->object; /* whoever puts may write it */
    struct json *old = json_names_get(names, key);

    if (old == value)
        return value;
    if (old) {
        struct json place = *old;

        *old = *value;
        old->next = place.next;
        old->key = place.key;
        old->key_len = place.key_len;
        return old;
    }
    struct json *added = json_append(object, key, value);
    if (names->map.slots)
        (void)map_set(&names->map, json_key(added), added);
    return added;
}

void json_names_drop(struct json_names *names, struct str key)
{
    struct json *old = json_names_get(names, key);

    if (!old)
        return;
    if (names->map.slots)
        (void)map_remove(&names->map, key);
    old->key = NULL;
    old->key_len = 0;
    names->dropped = true;
}

void json_names_copy(struct arena *arena, struct json *to, const struct json *from)
{
    _cleanup_(json_names_done) struct json_names names = {.object = to};

    JSON_FOREACH(from, member)
        (void)json_names_put(&names, str_dup(arena, json_key(member)), json_clone(arena, member));
}

void json_names_done(struct json_names *names)
{
    map_done(&names->map);
    struct json *object = (struct json *)(uintptr_t)names->object;
    if (!names->dropped || !object)
        return;
    struct json *member = json_first(object);
    object->last = NULL;
    object->len = 0;
    while (member) {
        struct json *next = json_next(member);

        if (member->key)
            json_push(object, member);
        member = next;
    }
}
