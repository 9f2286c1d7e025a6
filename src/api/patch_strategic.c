#include "api/patch.h"
#include "api/types.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/json.h"
#include "base/json_names.h"
#include "base/map.h"
#include "base/str.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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

/* What tells an item from others, as text: its key, or itself where there is none. Numbers that are
 * equal have the same. */
static struct str identity(struct arena *arena, struct str key, const struct json *item)
{
    const struct json *value = key.p ? json_get_str(item, key) : item;
    int64_t number = 0;

    if (json_is(value, JSON_NUMBER) && json_i64(value, &number))
        return str_printf(arena, "%lld", (long long)number);
    return value ? json_text(arena, value) : STR("");
}

/* The items of a list by their identity, of two that have one the first: a list may have as many as fit
 * into a request, and so may the patch of it. */
static void index_list(struct arena *arena,
                       struct map *index,
                       struct str key,
                       const struct json *list)
{
    /* Where the list lies is nothing a peer can know: it cannot choose keys that collide. */
    index->seed = (uintptr_t)list;
    JSON_FOREACH(list, item) {
        struct str text = identity(arena, key, item);

        if ((!key.p || json_is(item, JSON_OBJECT)) && !map_get(index, text))
            (void)map_set(index, text, item);
    }
}

static void list_clear(struct json *list)
{
    list->last = NULL;
    list->len = 0;
}

/* Items have no names: one that has is to go. In one pass, since one by its index is found by walking
 * to it. */
static void list_drop_named(struct json *list)
{
    struct json *item = json_first(list);
    struct json left = {.type = JSON_ARRAY};

    while (item) {
        struct json *next = json_next(item);

        if (!item->key)
            json_push(&left, item);
        item = next;
    }
    list->last = left.last;
    list->len = left.len;
}

/* A list that is merged item by item. */
struct keyed {
    struct json *list;
    struct str key;
    struct map index;
    size_t added;
};

// NOLINTNEXTLINE(misc-no-recursion)
static int merge_item(struct walk *walk,
                      struct keyed *keyed,
                      const struct json *item,
                      const struct spot *spot)
{
    struct json *added = NULL;

    if (!json_is(item, JSON_OBJECT) || json_is_null(json_get_str(item, keyed->key)))
        return err_set(walk->err, -EINVAL,
                       "strategic merge patch: an item of " STR_FMT
                       " does not have its key \"" STR_FMT "\"",
                       STR_ARG(spot_text(walk->arena, spot)), STR_ARG(keyed->key));
    struct str text = identity(walk->arena, keyed->key, item);
    struct json *found = map_get(&keyed->index, text);
    if (str_is(directive(item), "delete")) {
        if (found)
            ((struct json *)map_remove(&keyed->index, text))->key = "";
        return 0;
    }
    if (found)
        return merge_map(walk, found, item, spot);
    int r = settle(walk, item, spot, &added);
    if (r < 0)
        return r;
    json_push(keyed->list, added);
    (void)map_set(&keyed->index, text, added);
    keyed->added++;
    return 0;
}

// NOLINTNEXTLINE(misc-no-recursion)
static int merge_keyed(struct walk *walk,
                       struct keyed *keyed,
                       const struct json *patch,
                       const struct spot *spot)
{
    int r = 0;

    index_list(walk->arena, &keyed->index, keyed->key, keyed->list);
    JSON_FOREACH(patch, item) {
        if (json_count(item) == 1 && str_is(directive(item), "replace")) {
            list_clear(keyed->list);
            map_clear(&keyed->index);
            keyed->added = 0;
            continue;
        }
        r = merge_item(walk, keyed, item, spot);
        if (r < 0)
            break;
    }
    map_done(&keyed->index);
    list_drop_named(keyed->list);
    return r;
}

/* Texts that are a set: what is not there is added. Returns how many. */
static size_t merge_set(struct arena *arena, struct json *list, const struct json *patch)
{
    _cleanup_(map_done) struct map index = {0};
    size_t added = 0;

    index_list(arena, &index, STR_NONE, list);
    JSON_FOREACH(patch, item) {
        struct str text = identity(arena, STR_NONE, item);

        if (map_get(&index, text))
            continue;
        (void)map_set(&index, text, json_push(list, json_clone(arena, item)));
        added++;
    }
    return added;
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
    _cleanup_(map_done) struct map index = {.seed = (uintptr_t)list};
    size_t named_count = 0;
    size_t at = 0;

    JSON_FOREACH(list, item) {
        struct str text = identity(arena, key, item);

        items[at] = item;
        if (!map_get(&index, text))
            (void)map_set(&index, text, &items[at]);
        at++;
    }
    JSON_FOREACH(order, item) {
        struct json **found = map_get(&index, identity(arena, key, item));
        size_t place = found ? (size_t)(found - items) : count;

        if (place == count || is_named[place])
            continue;
        is_named[place] = true;
        named[named_count++] = place;
    }
    list_clear(list);
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

/* Of a list that was not there: items are what they are, whatever they have in common. */
// NOLINTNEXTLINE(misc-no-recursion)
static int first_items(struct walk *walk,
                       struct json *list,
                       const struct json *patch,
                       const struct spot *spot)
{
    JSON_FOREACH(patch, item) {
        struct json *added = NULL;
        int r = directive(item).len ? 0 : settle(walk, item, spot, &added);

        if (r < 0)
            return r;
        if (added)
            json_push(list, added);
    }
    return 0;
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
    if (!json_is(list, JSON_ARRAY)) {
        list = json_names_put(target, str_dup(walk->arena, name), json_new_array(walk->arena));
        if (key.p)
            return first_items(walk, list, patch, spot);
    }
    struct keyed keyed = {.list = list, .key = key};
    int r = key.p ? merge_keyed(walk, &keyed, patch, spot) : 0;
    size_t added = key.p ? keyed.added : merge_set(walk->arena, list, patch);
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

static void list_drop(struct arena *arena, struct json *list, const struct json *unwanted)
{
    _cleanup_(map_done) struct map index = {0};

    index_list(arena, &index, STR_NONE, unwanted);
    JSON_FOREACH(list, item)
        if (map_get(&index, identity(arena, STR_NONE, item)))
            item->key = "";
    list_drop_named(list);
}

/* Directives that name a list beside them. `order` ones act after the lists were merged, on those
 * that the patch does not have: the others are in order already. */
static void apply_list_directive(struct walk *walk,
                                 struct json_names *target,
                                 const struct json *member,
                                 const struct spot *spot,
                                 bool order)
{
    struct str name = json_key(member);
    bool is_order = str_starts(name, STR(SET_ORDER));

    if (is_order != order || (!is_order && !str_starts(name, STR(DELETE_FROM))))
        return;
    name = str_sub(name, is_order ? sizeof(SET_ORDER) - 1 : sizeof(DELETE_FROM) - 1, name.len);
    struct json *list = json_names_get(target, name);
    if (!json_is(list, JSON_ARRAY))
        return;
    struct spot below = spot_below(spot, name);
    if (is_order)
        interleave(walk->arena, list, member, spot_key(&below), 0);
    else
        list_drop(walk->arena, list, member);
}

/* The directive orders a list that the patch merges as well. */
static bool merges_list_of(struct json_names *patch, const struct json *member)
{
    struct str name = json_key(member);

    return str_starts(name, STR(SET_ORDER)) &&
           json_is(json_names_get(patch, str_sub(name, sizeof(SET_ORDER) - 1, name.len)),
                   JSON_ARRAY);
}

static void retain_keys(struct arena *arena, struct json *target, const struct json *keys)
{
    _cleanup_(json_names_done) struct json_names names = {.object = target};
    _cleanup_(map_done) struct map index = {0};

    index_list(arena, &index, STR_NONE, keys);
    JSON_FOREACH(target, member)
        if (!map_get(&index, json_text(arena, json_new_str(arena, json_key(member)))))
            json_names_drop(&names, json_key(member));
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
    bool replaced = below.place.field && (below.place.field->flags & TYPE_REPLACED);
    if (json_is(member, JSON_OBJECT) && json_is(old, JSON_OBJECT) && !replaced)
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
        list_clear(target);
    if (str_is(what, "delete"))
        return 0;
    const struct json *kept = json_get(patch, "$retainKeys");
    if (json_is(kept, JSON_ARRAY))
        retain_keys(walk->arena, target, kept);
    _cleanup_(json_names_done) struct json_names names = {.object = target};
    _cleanup_(json_names_done) struct json_names wanted = {.object = patch};
    JSON_FOREACH(patch, member)
        apply_list_directive(walk, &names, member, spot, false);
    JSON_FOREACH(patch, member)
        if (r == 0 && !str_starts(json_key(member), STR("$")))
            r = merge_member(walk, &names, &wanted, member, spot);
    JSON_FOREACH(patch, member)
        if (r == 0 && !merges_list_of(&wanted, member))
            apply_list_directive(walk, &names, member, spot, true);
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
