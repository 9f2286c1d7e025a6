#pragma once

#include "base/map.h"
#include "base/str.h"

#include <stdbool.h>

struct arena;
struct json;

/* json_names: the members of one object by name, for loops that look up many.
 *
 * json_get_str() looks through the members one by one, so a loop over one object that asks another
 * for each name takes quadratic time, and a client chooses how many there are. This asks a map once
 * the object has more than JSON_NAMES_SCAN_MAX members, and is json_get_str() below that.
 *
 *     _cleanup_(json_names_done) struct json_names names = {.object = target};
 *     struct json *old = json_names_get(&names, key);
 *
 * While it lives, members come and go through it alone. What was dropped leaves the object in
 * json_names_done(), all at once; before that it is only not found any more. */
#define JSON_NAMES_SCAN_MAX 64

struct json_names {
    const struct json *object; /* NULL, or no object: it has no members */
    struct map map;            /* without slots until it is needed */
    bool dropped;
};

struct json *json_names_get(struct json_names *names, struct str key);
/* Adds a member, or puts the value in the place of the one that has its name. `key` is borrowed.
 * Returns the member, which need not be `value`. */
struct json *json_names_put(struct json_names *names, struct str key, struct json *value);
void json_names_drop(struct json_names *names, struct str key);
void json_names_done(struct json_names *names);
/* Copies the members of `from` into `to`, in the place of those that have their names. */
void json_names_copy(struct arena *arena, struct json *to, const struct json *from);
