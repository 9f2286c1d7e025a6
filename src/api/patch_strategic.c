#include "api/patch.h"
#include "api/types.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/json.h"
#include "base/json_names.h"
#include "base/str.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>

/* Strategic merge. The types say how the lists of built-in kinds are merged; the walk carries along
 * where it is in them. Recursion follows the documents, whose depth json_parse() bounds. */

#define PATH_BYTES_MAX 200 /* in a message; what is longer ends with ... */

/* Where the walk is: from there outwards. Items of a list are where the list is. */
struct spot {
    const struct spot *up;
    struct str name;
    struct type_place place;
};

struct walk {
    struct arena *arena;
    size_t pairs; /* of items that were, or may be, compared */
    struct err *err;
};

static int merge_map(struct walk *walk,
                     struct json *target,
                     const struct json *patch,
                     const struct spot *spot);

/* "spec.containers" */
// NOLINTNEXTLINE(misc-no-recursion)
static struct str spot_text(struct arena *arena, const struct spot *spot)
{
    struct str up = spot->up ? spot_text(arena, spot->up) : STR("");

    if (up.len + spot->name.len > PATH_BYTES_MAX)
        return str_ends(up, STR("...")) ? up : str_printf(arena, STR_FMT "...", STR_ARG(up));
    return up.len ? str_printf(arena, STR_FMT "." STR_FMT, STR_ARG(up), STR_ARG(spot->name))
                  : spot->name;
}

static struct spot spot_below(const struct spot *spot, struct str name)
{
    return (struct spot){.up = spot, .name = name, .place = type_place_below(spot->place, name)};
}

static bool spot_merges(const struct spot *spot)
{
    return spot->place.field && (spot->place.field->flags & TYPE_MERGE);
}

/* What tells the items of a list apart in a merge; STR_NONE: nothing but themselves. */
static struct str spot_key(const struct spot *spot)
{
    bool keyed = spot_merges(spot) && spot->place.field->keys;

    return keyed ? type_field_key(spot->place.field, 0) : STR_NONE;
}

/* Before each item of `a` is compared with those of `b`. */
static int check_pairs(struct walk *walk, const struct spot *spot, size_t a, size_t b)
{
    if (b && a > (PATCH_PAIRS_MAX - walk->pairs) / b)
        return err_set(walk->err, -E2BIG,
                       "strategic merge patch: " STR_FMT
                       ": too many items to compare, %zu with %zu; use a JSON patch",
                       STR_ARG(spot_text(walk->arena, spot)), a, b);
    walk->pairs += a * b;
    return 0;
}

static struct str directive(const struct json *patch)
{
    return json_str(json_get(patch, "$patch"));
}

/* The patch's value, not a list, where the target has nothing: directives and nulls do not survive. */
// NOLINTNEXTLINE(misc-no-recursion)
static int settle(struct walk *walk,
                  const struct json *patch,
                  const struct spot *spot,
                  struct json **ret)
{
    if (json_is(patch, JSON_OBJECT)) {
        *ret = json_new_object(walk->arena);
        return merge_map(walk, *ret, patch, spot);
    }
    *ret = json_clone(walk->arena, patch);
    return 0;
}

/* Index of the item whose `key` equals that of `like`, or the count. */
static size_t find_item(const struct json *list, struct str key, const struct json *like)
{
    size_t index = 0;
    const struct json *wanted = json_get_str(like, key);

    JSON_FOREACH(list, item) {
        if (json_is(item, JSON_OBJECT) && json_equal(json_get_str(item, key), wanted))
            break;
        index++;
    }
    return index;
}

// NOLINTNEXTLINE(misc-no-recursion)
static int merge_item(struct walk *walk,
                      struct json *list,
                      const struct json *item,
                      struct str key,
                      const struct spot *spot,
                      size_t *added_count)
{
    struct json *added = NULL;

    if (!json_is(item, JSON_OBJECT) || json_is_null(json_get_str(item, key)))
        return err_set(walk->err, -EINVAL,
                       "strategic merge patch: an item of " STR_FMT
                       " does not have its key \"" STR_FMT "\"",
                       STR_ARG(spot_text(walk->arena, spot)), STR_ARG(key));
    size_t at = find_item(list, key, item);
    bool found = at < json_count(list);
    if (str_is(directive(item), "delete")) {
        if (found)
            json_remove_index(list, at);
        return 0;
    }
    if (found)
        return merge_map(walk, json_index(list, at), item, spot);
    int r = settle(walk, item, spot, &added);
    if (r < 0)
        return r;
    json_push(list, added);
    (*added_count)++;
    return 0;
}

// NOLINTNEXTLINE(misc-no-recursion)
static int merge_keyed(struct walk *walk,
                       struct json *list,
                       const struct json *patch,
                       struct str key,
                       const struct spot *spot,
                       size_t *added_count)
{
    JSON_FOREACH(patch, item) {
        if (json_count(item) == 1 && str_is(directive(item), "replace")) {
            while (json_count(list))
                json_remove_index(list, 0);
            *added_count = 0;
            continue;
        }
        int r = merge_item(walk, list, item, key, spot, added_count);
        if (r < 0)
            return r;
    }
    return 0;
}

static bool contains(const struct json *list, const struct json *value)
{
    JSON_FOREACH(list, item)
        if (json_equal(item, value))
            return true;
    return false;
}

/* Where `like` is among the items, or the count. */
static size_t place_of(struct json *const *items,
                       size_t count,
                       struct str key,
                       const struct json *like)
{
    size_t i = 0;

    for (; i < count; i++)
        if (key.p ? json_equal(json_get_str(items[i], key), json_get_str(like, key))
                  : json_equal(items[i], like))
            break;
    return i;
}

/* Items that `order` names take its order. Each of the others stays before the first of them that
 * was behind it; what was not there before, the last `added` ones, goes before the others. */
static void interleave(struct arena *arena,
                       struct json *list,
                       const struct json *order,
                       struct str key,
                       size_t added)
{
    size_t count = json_count(list);
    struct json **items = ARENA_ARRAY(arena, struct json *, count);
    size_t *named = ARENA_ARRAY(arena, size_t, count); /* places, in the order wanted */
    bool *is_named = ARENA_ARRAY(arena, bool, count);
    size_t named_count = 0;
    size_t at = 0;

    JSON_FOREACH(list, item)
        items[at++] = item;
    JSON_FOREACH(order, item) {
        size_t place = place_of(items, count, key, item);

        if (place == count || is_named[place])
            continue;
        is_named[place] = true;
        named[named_count++] = place;
    }
    while (json_count(list))
        json_remove_index(list, 0);
    at = 0;
    for (size_t i = 0; i < count; i++) {
        if (is_named[i])
            continue;
        while (at < named_count &&
               (i >= count - added || named[at] >= count - added || named[at] < i))
            json_push(list, items[named[at++]]);
        json_push(list, items[i]);
    }
    while (at < named_count)
        json_push(list, items[named[at++]]);
}

// NOLINTNEXTLINE(misc-no-recursion)
static int merge_list(struct walk *walk,
                      struct json_names *target,
                      const struct json *patch,
                      const struct json *order,
                      const struct spot *spot)
{
    struct str name = json_key(patch);
    struct json *list = json_names_get(target, name);
    struct str key = spot_key(spot);

    if (!spot_merges(spot)) { /* as a whole */
        (void)json_names_put(target, str_dup(walk->arena, name), json_clone(walk->arena, patch));
        return 0;
    }
    if (!json_is(list, JSON_ARRAY))
        list = json_names_put(target, str_dup(walk->arena, name), json_new_array(walk->arena));
    size_t count = json_count(patch);
    int r = check_pairs(walk, spot, count, json_count(list) + count);
    if (r < 0)
        return r;
    size_t added = 0;
    if (key.p)
        r = merge_keyed(walk, list, patch, key, spot, &added);
    else
        JSON_FOREACH(patch, item)
            if (!contains(list, item)) {
                json_push(list, json_clone(walk->arena, item));
                added++;
            }
    if (r == 0 && order)
        r = check_pairs(walk, spot, json_count(list), json_count(order));
    if (r == 0)
        interleave(walk->arena, list, order ? order : patch, key, added);
    return r;
}

#define DELETE_FROM "$deleteFromPrimitiveList/"
#define SET_ORDER   "$setElementOrder/"

/* The order that the patch wants for a list of its own; NULL: none. */
static const struct json *order_of(struct arena *arena, struct json_names *patch, struct str name)
{
    const struct json *order =
        json_names_get(patch, str_printf(arena, SET_ORDER STR_FMT, STR_ARG(name)));

    return json_is(order, JSON_ARRAY) ? order : NULL;
}

/* In one pass: an item by its index is found by walking to it, and the list may be long. */
static void list_drop(struct json *list, const struct json *unwanted)
{
    struct json *item = json_first(list);
    struct json left = {.type = JSON_ARRAY};

    while (item) {
        struct json *next = json_next(item);

        if (!contains(unwanted, item))
            json_push(&left, item);
        item = next;
    }
    list->last = left.last;
    list->len = left.len;
}

/* Directives that name a list beside them. `order` ones act after the lists were merged, on those
 * that the patch does not have: the others are in order already. */
static int apply_list_directive(struct walk *walk,
                                struct json_names *target,
                                const struct json *member,
                                const struct spot *spot,
                                bool order)
{
    struct str name = json_key(member);
    bool is_order = str_starts(name, STR(SET_ORDER));

    if (is_order != order || (!is_order && !str_starts(name, STR(DELETE_FROM))))
        return 0;
    name = str_sub(name, is_order ? sizeof(SET_ORDER) - 1 : sizeof(DELETE_FROM) - 1, name.len);
    struct json *list = json_names_get(target, name);
    if (!json_is(list, JSON_ARRAY))
        return 0;
    struct spot below = spot_below(spot, name);
    int r = check_pairs(walk, &below, json_count(list), json_count(member));
    if (r < 0)
        return r;
    if (is_order) {
        interleave(walk->arena, list, member, spot_key(&below), 0);
        return 0;
    }
    list_drop(list, member);
    return 0;
}

/* The directive orders a list that the patch merges as well. */
static bool merges_list_of(struct json_names *patch, const struct json *member)
{
    struct str name = json_key(member);

    return str_starts(name, STR(SET_ORDER)) &&
           json_is(json_names_get(patch, str_sub(name, sizeof(SET_ORDER) - 1, name.len)),
                   JSON_ARRAY);
}

static void retain_keys(struct json *target, const struct json *keys)
{
    struct json *member = json_first(target);

    while (member) {
        struct json *next = json_next(member);
        bool keep = false;

        JSON_FOREACH(keys, key)
            keep |= str_eq(json_str(key), json_key(member));
        if (!keep)
            json_remove(target, json_key(member));
        member = next;
    }
}

// NOLINTNEXTLINE(misc-no-recursion)
static int merge_member(struct walk *walk,
                        struct json_names *target,
                        struct json_names *patch,
                        const struct json *member,
                        const struct spot *spot)
{
    struct str name = json_key(member);
    struct json *old = json_names_get(target, name);
    struct spot below = spot_below(spot, name);

    if (json_is_null(member) || str_is(directive(member), "delete")) {
        json_names_drop(target, name);
        return 0;
    }
    if (json_is(member, JSON_ARRAY))
        return merge_list(walk, target, member, order_of(walk->arena, patch, name), &below);
    if (json_is(member, JSON_OBJECT) && json_is(old, JSON_OBJECT))
        return merge_map(walk, old, member, &below);
    struct json *fresh = NULL;
    int r = settle(walk, member, &below, &fresh);
    if (r == 0)
        (void)json_names_put(target, str_dup(walk->arena, name), fresh);
    return r;
}

// NOLINTNEXTLINE(misc-no-recursion)
static int merge_map(struct walk *walk,
                     struct json *target,
                     const struct json *patch,
                     const struct spot *spot)
{
    struct str what = directive(patch);
    int r = 0;

    if (what.p && !str_is(what, "replace") && !str_is(what, "merge") && !str_is(what, "delete"))
        return err_set(walk->err, -EINVAL,
                       "strategic merge patch: $patch must be replace, merge or delete");
    if (str_is(what, "replace") || str_is(what, "delete"))
        while (json_first(target))
            json_remove(target, json_key(json_first(target)));
    if (str_is(what, "delete"))
        return 0;
    const struct json *kept = json_get(patch, "$retainKeys");
    if (json_is(kept, JSON_ARRAY)) {
        r = check_pairs(walk, spot, json_count(target), json_count(kept));
        if (r < 0)
            return r;
        retain_keys(target, kept);
    }
    _cleanup_(json_names_done) struct json_names names = {.object = target};
    _cleanup_(json_names_done) struct json_names wanted = {.object = patch};
    JSON_FOREACH(patch, member)
        if (r == 0)
            r = apply_list_directive(walk, &names, member, spot, false);
    JSON_FOREACH(patch, member)
        if (r == 0 && !str_starts(json_key(member), STR("$")))
            r = merge_member(walk, &names, &wanted, member, spot);
    JSON_FOREACH(patch, member)
        if (r == 0 && !merges_list_of(&wanted, member))
            r = apply_list_directive(walk, &names, member, spot, true);
    return r;
}

int patch_strategic(struct arena *arena,
                    const struct kind *kind,
                    struct json *target,
                    const struct json *patch,
                    struct err *err)
{
    struct walk walk = {.arena = arena, .err = err};
    struct spot root = {.name = STR(""), .place = type_place_root(kind)};

    if (!json_is(patch, JSON_OBJECT) || !json_is(target, JSON_OBJECT))
        return err_set(err, -EINVAL, "strategic merge patch: must be an object");
    return merge_map(&walk, target, patch, &root);
}
