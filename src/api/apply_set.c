#include "api/apply_set.h"

#include "api/schema.h"
#include "api/types.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/json.h"
#include "base/json_names.h"
#include "base/map.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Recursion follows the documents, whose depth json_parse() bounds. */

#define KEYS_MAX 4

struct keys {
    struct str names[KEYS_MAX];
    size_t count;
    const struct type *type;     /* of the items; NULL: not known */
    const struct schema *schema; /* of the items of a custom kind; NULL: not known */
};

enum list_type {
    LIST_ATOMIC,
    LIST_SET,
    LIST_KEYED,
};

static enum list_type schema_list_type(const struct schema *schema, struct keys *keys)
{
    if (!schema || schema->list == SCHEMA_LIST_ATOMIC)
        return LIST_ATOMIC;
    if (schema->list == SCHEMA_LIST_SET)
        return LIST_SET;
    keys->schema = schema->items;
    JSON_FOREACH(schema->list_keys, key)
        if (keys->count < KEYS_MAX)
            keys->names[keys->count++] = json_str(key);
    return LIST_KEYED;
}

static enum list_type list_type(const struct fields_at *at, struct keys *keys)
{
    const struct type_field *field = at->place.field;

    *keys = (struct keys){.type = at->place.type};
    if (!field)
        return schema_list_type(at->schema, keys);
    if (!(field->flags & TYPE_APPLY))
        return LIST_ATOMIC;
    while (keys->count < KEYS_MAX && type_field_key(field, keys->count).len) {
        keys->names[keys->count] = type_field_key(field, keys->count);
        keys->count++;
    }
    return keys->count ? LIST_KEYED : LIST_SET;
}

static bool is_atomic(const struct fields_at *at)
{
    const struct type_field *field = at->place.field;

    if (field && (field->flags & (TYPE_ATOMIC | TYPE_GRANULAR)))
        return field->flags & TYPE_ATOMIC;
    if (at->place.type && at->place.type->atomic)
        return !field || !(field->flags & (TYPE_LIST | TYPE_MAP));
    return at->schema && at->schema->atomic_map;
}

/* Null in the place of what several managers write into says nothing, as if it were not there. */
static bool says_nothing(const struct json *value, const struct fields_at *at)
{
    const struct type_field *field = at->place.field;
    struct keys keys = {0};

    if (!json_is(value, JSON_NULL) || !field)
        return false;
    if (field->flags & TYPE_LIST)
        return list_type(at, &keys) != LIST_ATOMIC;
    return ((field->flags & TYPE_MAP) || field->form == TYPE_MESSAGE) && !is_atomic(at);
}

/* What a client cannot own. */
static bool left_out(const struct fields_at *at, struct str name)
{
    static const char *const meta[] = {"name",
                                       "namespace",
                                       "uid",
                                       "resourceVersion",
                                       "generation",
                                       "creationTimestamp",
                                       "deletionTimestamp",
                                       "deletionGracePeriodSeconds",
                                       "selfLink",
                                       "managedFields"};

    if (at->root)
        return str_is(name, "apiVersion") || str_is(name, "kind");
    if (!at->meta)
        return false;
    for (size_t i = 0; i < COUNT_OF(meta); i++)
        if (str_is(name, meta[i]))
            return true;
    return false;
}

static struct fields_at below(const struct fields_at *at, struct str name)
{
    return (struct fields_at){
        .place = type_place_below(at->place, name),
        .schema = schema_property(at->schema, name),
        .meta = at->root && str_is(name, "metadata"),
    };
}

/* What a client sends decides how much memory sets take; every loop here asks. */
static bool given_up(struct fields *f)
{
    f->too_large |= f->arena->bytes_used > f->bytes_end;
    return f->too_large;
}

static struct fields_at item_at(const struct fields_at *at)
{
    return (struct fields_at){.place = {.type = at->place.type},
                              .schema = at->schema ? at->schema->items : NULL};
}

static struct str field_key(struct fields *f, struct str name)
{
    return str_printf(f->arena, "f:" STR_FMT, STR_ARG(name));
}

static struct str value_key(struct fields *f, const struct json *value)
{
    return str_printf(f->arena, "v:" STR_FMT, STR_ARG(json_text(f->arena, value)));
}

/* What is left out of an item is its default: ports without a protocol are TCP. */
static void add_default_key(struct fields *f,
                            struct json *values,
                            const struct keys *keys,
                            struct str name)
{
    const struct type_field *field = keys->type ? type_field_named(keys->type, name) : NULL;
    const struct schema *schema = schema_property(keys->schema, name);
    struct json *initial = NULL;

    if (schema && schema->initial)
        initial = json_clone(f->arena, schema->initial);
    else if (field && field->initial)
        (void)json_parse(f->arena, str_from(field->initial), &initial, NULL);
    if (initial)
        json_set(values, name, initial);
}

/* k:{"name":"a"} */
static struct str item_key(struct fields *f, const struct json *item, const struct keys *keys)
{
    struct json *values = json_new_object(f->arena);

    for (size_t i = 0; i < keys->count; i++) {
        const struct json *value = json_get_str(item, keys->names[i]);

        if (value)
            json_set(values, keys->names[i], json_clone(f->arena, value));
        else
            add_default_key(f, values, keys, keys->names[i]);
    }
    return str_printf(f->arena, "k:" STR_FMT, STR_ARG(json_text(f->arena, values)));
}

/* The items of a list by their keys, so that no key is written twice. Of items with the same key
 * the first counts. */
static void index_items(struct fields *f,
                        const struct json *list,
                        const struct keys *keys,
                        struct map *ret)
{
    ret->seed = (uint64_t)(uintptr_t)f->arena; /* not known to whoever chose the keys */
    JSON_FOREACH(list, item) {
        if (given_up(f))
            return;
        struct str key = keys->count ? item_key(f, item, keys) : value_key(f, item);
        if (!map_get(ret, key))
            (void)map_set(ret, key, item);
    }
}

/* ---- from values ---- */

// NOLINTNEXTLINE(misc-no-recursion)
static struct json *changed_object(struct fields *f,
                                   const struct json *value,
                                   const struct json *other,
                                   const struct fields_at *at)
{
    _cleanup_(json_names_done) struct json_names others = {.object = other};
    struct json *set = NULL;

    JSON_FOREACH(value, member) {
        struct str name = json_key(member);

        if (given_up(f))
            return NULL;
        if (left_out(at, name))
            continue;
        /* Most writes change little: what is as it was needs no paths and no keys. */
        const struct json *was = json_names_get(&others, name);
        if (was && json_equal(member, was))
            continue;
        struct json *inner = fields_changed(f, member, was, below(at, name));
        if (!inner)
            continue;
        if (!set)
            set = json_new_object(f->arena);
        json_append(set, field_key(f, name), inner);
    }
    if (f->whole && set && !other && !at->root && !at->meta)
        json_add_object(f->arena, set, ".");
    return set;
}

// NOLINTNEXTLINE(misc-no-recursion)
static struct json *changed_list(struct fields *f,
                                 const struct json *value,
                                 const struct json *other,
                                 const struct fields_at *at,
                                 const struct keys *keys)
{
    _cleanup_(map_done) struct map index = {0};
    _cleanup_(json_names_done) struct json_names names = {0};
    struct json *set = NULL;

    /* A set of them could not be read again. */
    f->too_large |= json_count(value) > JSON_MEMBERS_MAX || json_count(other) > JSON_MEMBERS_MAX;
    index_items(f, other, keys, &index);
    JSON_FOREACH(value, item) {
        struct json *inner = NULL;

        if (given_up(f))
            return NULL;
        struct str key = keys->count ? item_key(f, item, keys) : value_key(f, item);

        if (!keys->count) {
            inner = map_get(&index, key) ? NULL : json_new_object(f->arena);
        } else {
            const struct json *same = map_get(&index, key);

            inner = fields_changed(f, item, same, item_at(at));
            if (json_count(inner) && !same && !json_get(inner, "."))
                json_add_object(f->arena, inner, ".");
        }
        if (!inner)
            continue;
        if (!set)
            names.object = set = json_new_object(f->arena);
        (void)json_names_put(&names, key, inner);
    }
    if (f->whole && set && !other)
        json_add_object(f->arena, set, ".");
    return set;
}

// NOLINTNEXTLINE(misc-no-recursion)
struct json *fields_changed(struct fields *f,
                            const struct json *value,
                            const struct json *other,
                            struct fields_at at)
{
    struct keys keys = {0};

    if (says_nothing(value, &at))
        return NULL;
    /* Metadata as such is nobody's: every object has it. */
    if (at.meta || (json_is(value, JSON_OBJECT) && json_count(value) && !is_atomic(&at)))
        return changed_object(f, value, other, &at);
    if (json_is(value, JSON_ARRAY)) {
        enum list_type type = list_type(&at, &keys);

        if (type == LIST_SET)
            keys.count = 0;
        if (type != LIST_ATOMIC && json_count(value))
            return changed_list(f, value, other, &at, &keys);
    }
    /* An empty map says nothing about what others put into it. */
    if (json_is(value, JSON_OBJECT) && json_is(other, JSON_OBJECT) && !is_atomic(&at))
        return NULL;
    return other && json_equal(value, other) ? NULL : json_new_object(f->arena);
}

struct json *fields_of(struct fields *f, const struct json *value, struct fields_at at)
{
    return fields_changed(f, value, NULL, at);
}

/* ---- to values ---- */

// NOLINTNEXTLINE(misc-no-recursion)
static struct json *merge_list(struct fields *f,
                               struct json *into,
                               const struct json *value,
                               const struct fields_at *at)
{
    _cleanup_(map_done) struct map index = {0};
    struct keys keys = {0};
    enum list_type type = list_type(at, &keys);

    if (type == LIST_ATOMIC || !json_is(into, JSON_ARRAY))
        return json_clone(f->arena, value);
    index_items(f, into, &keys, &index);
    JSON_FOREACH(value, item) {
        if (given_up(f))
            break;
        struct str key = keys.count ? item_key(f, item, &keys) : value_key(f, item);
        struct json *same = map_get(&index, key);

        if (!same)
            (void)map_set(&index, key, json_push(into, json_clone(f->arena, item)));
        else if (keys.count)
            (void)fields_merge(f, same, item, item_at(at));
    }
    return into;
}

// NOLINTNEXTLINE(misc-no-recursion)
struct json *fields_merge(struct fields *f,
                          struct json *into,
                          const struct json *value,
                          struct fields_at at)
{
    if (says_nothing(value, &at))
        return into;
    if (json_is(value, JSON_ARRAY))
        return merge_list(f, into, value, &at);
    if (!json_is(value, JSON_OBJECT) || !json_is(into, JSON_OBJECT) || is_atomic(&at))
        return json_clone(f->arena, value);
    _cleanup_(json_names_done) struct json_names names = {.object = into};
    JSON_FOREACH(value, member) {
        struct str name = json_key(member);
        struct json *old = json_names_get(&names, name);

        if (given_up(f))
            break;
        if (left_out(&at, name))
            continue;
        struct json *merged = fields_merge(f, old, member, below(&at, name));
        if (merged != old)
            (void)json_names_put(&names, str_dup(f->arena, name), merged);
    }
    return into;
}

/* True for the field itself, not only for something below it. */
static bool owns_itself(const struct json *set)
{
    return !json_count(set) || json_get(set, ".");
}

// NOLINTNEXTLINE(misc-no-recursion)
static void remove_items(struct fields *f,
                         struct json *list,
                         const struct json *set,
                         const struct fields_at *at)
{
    _cleanup_(json_names_done) struct json_names names = {.object = set};
    struct keys keys = {0};
    enum list_type type = list_type(at, &keys);
    struct json *item = json_first(list);
    struct json left = {.type = JSON_ARRAY};

    while (item) {
        struct json *next = json_next(item);
        struct str key = type == LIST_KEYED ? item_key(f, item, &keys) : value_key(f, item);
        const struct json *inner = json_names_get(&names, key);

        if (inner && !owns_itself(inner))
            fields_remove(f, item, inner, item_at(at));
        if (!inner || !owns_itself(inner))
            json_push(&left, item);
        item = next;
    }
    list->last = left.last;
    list->len = left.len;
}

// NOLINTNEXTLINE(misc-no-recursion)
void fields_remove(struct fields *f,
                   struct json *value,
                   const struct json *set,
                   struct fields_at at)
{
    if (json_is(value, JSON_ARRAY)) {
        remove_items(f, value, set, &at);
        return;
    }
    _cleanup_(json_names_done) struct json_names sets = {.object = set};
    _cleanup_(json_names_done) struct json_names names = {.object = value};
    JSON_FOREACH(value, member) {
        struct str name = json_key(member);
        const struct json *inner = json_names_get(&sets, field_key(f, name));

        struct fields_at there = below(&at, name);

        if (inner && !json_count(inner)) {
            /* A map that others have put something into stays. */
            if (!json_is(member, JSON_OBJECT) || !json_count(member) || is_atomic(&there))
                json_names_drop(&names, name);
        } else if (inner) {
            fields_remove(f, member, inner, there);
            if (!json_count(member))
                json_names_drop(&names, name);
        }
    }
}

/* ---- algebra ---- */

/* {} and {".":{}} are the field itself. */
static struct json *with_self(struct arena *arena, struct json *set, bool self)
{
    if (!self)
        return set;
    if (!set)
        return json_new_object(arena);
    json_add_object(arena, set, ".");
    return set;
}

static void put(struct fields *f, struct json **set, struct str key, struct json *inner)
{
    if (!inner)
        return;
    if (!*set)
        *set = json_new_object(f->arena);
    json_append(*set, str_dup(f->arena, key), inner);
}

// NOLINTNEXTLINE(misc-no-recursion)
struct json *fields_union(struct fields *f, const struct json *a, const struct json *b)
{
    _cleanup_(json_names_done) struct json_names in_a = {.object = a};
    _cleanup_(json_names_done) struct json_names in_b = {.object = b};
    struct json *set = NULL;

    if (!a || !b)
        return json_clone(f->arena, a ? a : b);
    JSON_FOREACH(a, member)
        if (!given_up(f) && !str_is(json_key(member), "."))
            put(f, &set, json_key(member),
                fields_union(f, member, json_names_get(&in_b, json_key(member))));
    JSON_FOREACH(b, member)
        if (!given_up(f) && !str_is(json_key(member), ".") &&
            !json_names_get(&in_a, json_key(member)))
            put(f, &set, json_key(member), json_clone(f->arena, member));
    return with_self(f->arena, set, owns_itself(a) || owns_itself(b));
}

// NOLINTNEXTLINE(misc-no-recursion)
struct json *fields_minus(struct fields *f, const struct json *a, const struct json *b)
{
    _cleanup_(json_names_done) struct json_names in_b = {.object = b};
    struct json *set = NULL;

    if (!a || !b)
        return json_clone(f->arena, a);
    JSON_FOREACH(a, member)
        if (!given_up(f) && !str_is(json_key(member), "."))
            put(f, &set, json_key(member),
                fields_minus(f, member, json_names_get(&in_b, json_key(member))));
    return with_self(f->arena, set, owns_itself(a) && !owns_itself(b));
}

// NOLINTNEXTLINE(misc-no-recursion)
struct json *fields_both(struct fields *f, const struct json *a, const struct json *b)
{
    _cleanup_(json_names_done) struct json_names in_b = {.object = b};
    struct json *set = NULL;

    if (!a || !b)
        return NULL;
    JSON_FOREACH(a, member)
        if (!given_up(f) && !str_is(json_key(member), "."))
            put(f, &set, json_key(member),
                fields_both(f, member, json_names_get(&in_b, json_key(member))));
    return with_self(f->arena, set, owns_itself(a) && owns_itself(b));
}

/* f:name is ".name", k:{"name":"a"} is [name="a"], v:"x" is ["x"]. What is long already is not made
 * longer. */
static struct str readable(struct arena *arena, struct str path, struct str key)
{
    struct str rest = str_sub(key, 2, key.len);
    struct json *keys = NULL;
    struct str text = STR("");

    if (path.len + rest.len > FIELDS_TEXT_BYTES_MAX)
        return str_ends(path, STR("...")) ? path : str_printf(arena, STR_FMT "...", STR_ARG(path));
    if (str_starts(key, STR("f:")))
        return str_printf(arena, STR_FMT "." STR_FMT, STR_ARG(path), STR_ARG(rest));
    if (str_starts(key, STR("k:")) && json_parse(arena, rest, &keys, NULL) == 0) {
        JSON_FOREACH(keys, item) {
            struct str value = json_text(arena, item);

            text = str_printf(arena, STR_FMT "%s" STR_FMT "=" STR_FMT, STR_ARG(text),
                              text.len ? "," : "", STR_ARG(json_key(item)), STR_ARG(value));
        }
        rest = text;
    }
    return str_printf(arena, STR_FMT "[" STR_FMT "]", STR_ARG(path), STR_ARG(rest));
}

// NOLINTNEXTLINE(misc-no-recursion)
bool fields_each(struct arena *arena,
                 const struct json *set,
                 struct str path,
                 bool (*each)(void *user, struct str field),
                 void *user)
{
    bool more = true;

    if (!json_count(set))
        return each(user, path);
    JSON_FOREACH(set, member)
        if (more)
            more = str_is(json_key(member), ".")
                       ? each(user, path)
                       : fields_each(arena, member, readable(arena, path, json_key(member)), each,
                                     user);
    return more;
}
