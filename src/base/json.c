#include "base/json.h"

#include "base/arena.h"
#include "base/cleanup.h"
#include "base/map.h"
#include "base/str.h"

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* The tree: reading, building, comparing. json_parse.c turns text into it, json_write.c it into
 * text. */

struct json *json_get_str(const struct json *object, struct str key)
{
    if (!json_is(object, JSON_OBJECT))
        return NULL;
    JSON_FOREACH(object, member)
        if (member->key_len == key.len && memcmp(member->key, key.p, key.len) == 0)
            return member;
    return NULL;
}

struct json *json_get(const struct json *object, const char *key)
{
    return json_get_str(object, str_from(key));
}

struct json *json_index(const struct json *array, size_t index)
{
    if (!json_is(array, JSON_ARRAY))
        return NULL;
    struct json *item = json_first(array);
    for (; item && index; index--)
        item = json_next(item);
    return item;
}

struct json *json_at(const struct json *value, const char *path)
{
    struct str rest = str_from(path);
    struct str name;
    struct json *found = NULL;

    while (str_cut(&rest, '.', &name)) {
        uint64_t index = 0;

        found = json_is(value, JSON_ARRAY) && str_to_u64(name, &index)
                    ? json_index(value, (size_t)index)
                    : json_get_str(value, name);
        if (!found)
            return NULL;
        value = found;
    }
    return found;
}

struct str json_str(const struct json *value)
{
    return json_is(value, JSON_STRING) ? (struct str){value->text, value->len} : STR_NONE;
}

struct str json_str_at(const struct json *value, const char *path)
{
    return json_str(json_at(value, path));
}

struct str json_number_text(const struct json *value)
{
    return json_is(value, JSON_NUMBER) ? (struct str){value->text, value->len} : STR_NONE;
}

/* value * 10^exponent, if that is a whole number near the range of 64 bits. */
static bool scale_ten(__int128 *value, int64_t exponent)
{
    for (; exponent > 0; exponent--) {
        *value *= 10;
        if (*value > (__int128)INT64_MAX + 1)
            return false;
    }
    for (; exponent < 0; exponent++) {
        if (*value % 10)
            return false;
        *value /= 10;
    }
    return true;
}

/* Decimal text with fraction and exponent to a whole number, exactly. */
static bool number_to_i64(struct str text, int64_t *ret)
{
    bool negative = false;
    __int128 value = 0;
    int64_t exponent = 0;
    size_t i = 0;

    if (i < text.len && text.p[i] == '-') {
        negative = true;
        i++;
    }
    bool fraction = false;
    for (; i < text.len && text.p[i] != 'e' && text.p[i] != 'E'; i++) {
        if (text.p[i] == '.') {
            fraction = true;
            continue;
        }
        if (value > (__int128)INT64_MAX * 1000)
            return false;
        value = value * 10 + (text.p[i] - '0');
        exponent -= fraction ? 1 : 0;
    }
    int64_t written = 0;
    if (i < text.len && !str_to_i64(str_sub(text, i + 1, text.len), &written))
        return false;
    if (value == 0) {
        *ret = 0;
        return true;
    }
    if (written > 1000 || written < -1000 || !scale_ten(&value, exponent + written))
        return false;
    if (negative)
        value = -value;
    if (value > INT64_MAX || value < INT64_MIN)
        return false;
    *ret = (int64_t)value;
    return true;
}

bool json_i64(const struct json *value, int64_t *ret)
{
    return json_is(value, JSON_NUMBER) && number_to_i64(json_number_text(value), ret);
}

int64_t json_i64_or(const struct json *value, int64_t otherwise)
{
    int64_t number = otherwise;

    (void)json_i64(value, &number);
    return number;
}

bool json_bool_or(const struct json *value, bool otherwise)
{
    return json_is(value, JSON_BOOL) ? value->truth : otherwise;
}

/* Both usually have the same order, so the search starts where the last one ended. For large
 * objects in another order the rest goes through a map: comparing must not take quadratic time. What
 * was found equal before is not compared again: where objects nest, each level would double the
 * work. */
#define SCAN_MEMBERS_MAX 64

static bool rest_equal_by_map(const struct json *rest, const struct json *b)
{
    _cleanup_(map_done) struct map members = {.seed = (uintptr_t)b};

    JSON_FOREACH(b, member)
        (void)map_set(&members, json_key(member), member);
    for (const struct json *member = rest; member; member = json_next(member))
        if (!json_equal(member, map_get(&members, json_key(member))))
            return false;
    return true;
}

static bool members_equal(const struct json *a, const struct json *b)
{
    const struct json *other = json_first(b);

    JSON_FOREACH(a, member) {
        if (!other || !str_eq(json_key(other), json_key(member))) {
            if (a->len > SCAN_MEMBERS_MAX)
                return rest_equal_by_map(member, b);
            other = json_get_str(b, json_key(member));
        }
        if (!json_equal(member, other))
            return false;
        other = json_next(other);
    }
    return true;
}

static bool items_equal(const struct json *a, const struct json *b)
{
    const struct json *other = json_first(b);

    JSON_FOREACH(a, item) {
        if (!json_equal(item, other))
            return false;
        other = json_next(other);
    }
    return true;
}

bool json_equal(const struct json *a, const struct json *b)
{
    if (!a || !b)
        return a == b;
    if (a->type != b->type)
        return false;
    switch (a->type) {
    case JSON_NULL: return true;
    case JSON_BOOL: return a->truth == b->truth;
    case JSON_NUMBER: {
        int64_t x = 0;
        int64_t y = 0;

        if (json_i64(a, &x) && json_i64(b, &y))
            return x == y;
        return str_eq(json_number_text(a), json_number_text(b));
    }
    case JSON_STRING: return str_eq(json_str(a), json_str(b));
    case JSON_ARRAY: return a->len == b->len && items_equal(a, b);
    case JSON_OBJECT: return a->len == b->len && members_equal(a, b);
    }
    return false;
}

static struct json *node_new(struct arena *arena, enum json_type type)
{
    struct json *value = ARENA_NEW(arena, struct json);

    value->type = type;
    return value;
}

struct json *json_new_null(struct arena *arena)
{
    return node_new(arena, JSON_NULL);
}

struct json *json_new_bool(struct arena *arena, bool truth)
{
    struct json *value = node_new(arena, JSON_BOOL);

    value->truth = truth;
    return value;
}

static struct json *text_new(struct arena *arena, enum json_type type, struct str text)
{
    struct json *value = node_new(arena, type);

    assert(text.len <= UINT32_MAX);
    value->text = text.p ? text.p : "";
    value->len = (uint32_t)text.len;
    return value;
}

struct json *json_new_i64(struct arena *arena, int64_t number)
{
    return text_new(arena, JSON_NUMBER, str_printf(arena, "%lld", (long long)number));
}

struct json *json_new_number(struct arena *arena, struct str text)
{
    return text_new(arena, JSON_NUMBER, text);
}

struct json *json_new_str(struct arena *arena, struct str text)
{
    return text_new(arena, JSON_STRING, text);
}

struct json *json_new_array(struct arena *arena)
{
    return node_new(arena, JSON_ARRAY);
}

struct json *json_new_object(struct arena *arena)
{
    return node_new(arena, JSON_OBJECT);
}

/* Names longer than any text are no names. */
static void set_key(struct json *value, struct str key)
{
    assert(key.len <= JSON_BYTES_MAX);
    value->key = key.p ? key.p : "";
    value->key_len = (unsigned)key.len & ((1U << 29) - 1);
}

static struct json *clone_leaf(struct arena *arena, const struct json *value)
{
    struct json *copy = node_new(arena, value->type);

    if (value->type == JSON_STRING || value->type == JSON_NUMBER) {
        copy->text = str_c(arena, (struct str){value->text, value->len});
        copy->len = value->len;
    } else if (value->type == JSON_BOOL) {
        copy->truth = value->truth;
    }
    return copy;
}

/* Depth is bounded by what json_parse() lets in plus what our own code nests. */
// NOLINTNEXTLINE(misc-no-recursion)
struct json *json_clone(struct arena *arena, const struct json *value)
{
    if (!value)
        return NULL;
    struct json *copy = clone_leaf(arena, value);
    if (value->type == JSON_ARRAY)
        JSON_FOREACH(value, item)
            json_push(copy, json_clone(arena, item));
    if (value->type == JSON_OBJECT)
        JSON_FOREACH(value, member) {
            struct json *child = json_clone(arena, member);

            set_key(child, str_dup(arena, json_key(member)));
            json_push(copy, child);
        }
    return copy;
}

static uintptr_t link_to(const struct json *value, bool is_last)
{
    return (uintptr_t)value | (is_last ? 1 : 0);
}

/* Link `value` behind `before` (NULL: first). */
static void link_behind(struct json *parent, struct json *before, struct json *value)
{
    struct json *last = parent->last;

    assert(parent->len < UINT32_MAX);
    parent->len++;
    if (!last) {
        value->next = link_to(value, true);
        parent->last = value;
    } else if (before == last) {
        value->next = last->next;
        last->next = link_to(value, false);
        parent->last = value;
    } else if (before) {
        value->next = before->next;
        before->next = link_to(value, false);
    } else {
        value->next = link_to(json_first(parent), false);
        last->next = link_to(value, true);
    }
}

static void unlink_behind(struct json *parent, struct json *before)
{
    struct json *first = json_first(parent);
    struct json *gone = before ? json_next(before) : first;

    assert(gone);
    parent->len--;
    if (gone == parent->last) {
        parent->last = before;
        if (before)
            before->next = link_to(first, true);
    } else if (before) {
        before->next = gone->next;
    } else {
        parent->last->next = link_to(json_next(gone), true);
    }
    gone->next = 0;
}

struct json *json_push(struct json *array, struct json *value)
{
    assert(array->type >= JSON_ARRAY && value);
    link_behind(array, array->last, value);
    return value;
}

struct json *json_append(struct json *object, struct str key, struct json *value)
{
    assert(json_is(object, JSON_OBJECT) && value);
    set_key(value, key);
    return json_push(object, value);
}

struct json *json_set(struct json *object, struct str key, struct json *value)
{
    struct json *before = NULL;

    assert(json_is(object, JSON_OBJECT) && value);
    set_key(value, key);
    JSON_FOREACH(object, member) {
        if (!str_eq(json_key(member), key)) {
            before = member;
            continue;
        }
        if (member != value) {
            unlink_behind(object, before);
            link_behind(object, before, value);
        }
        return value;
    }
    return json_push(object, value);
}

void json_insert(struct json *array, size_t index, struct json *value)
{
    struct json *before = index ? json_index(array, index - 1) : NULL;

    assert(json_is(array, JSON_ARRAY) && index <= array->len);
    link_behind(array, before, value);
}

bool json_remove(struct json *object, struct str key)
{
    struct json *before = NULL;

    JSON_FOREACH(object, member) {
        if (str_eq(json_key(member), key)) {
            unlink_behind(object, before);
            return true;
        }
        before = member;
    }
    return false;
}

void json_remove_index(struct json *array, size_t index)
{
    assert(json_is(array, JSON_ARRAY) && index < array->len);
    unlink_behind(array, index ? json_index(array, index - 1) : NULL);
}

struct json *json_add_object(struct arena *arena, struct json *object, const char *key)
{
    return json_set(object, str_from(key), json_new_object(arena));
}

struct json *json_add_array(struct arena *arena, struct json *object, const char *key)
{
    return json_set(object, str_from(key), json_new_array(arena));
}

void json_add_str(struct arena *arena, struct json *object, const char *key, struct str text)
{
    json_set(object, str_from(key), json_new_str(arena, text));
}

void json_add_c(struct arena *arena, struct json *object, const char *key, const char *text)
{
    json_add_str(arena, object, key, str_from(text));
}

void json_add_i64(struct arena *arena, struct json *object, const char *key, int64_t number)
{
    json_set(object, str_from(key), json_new_i64(arena, number));
}

void json_add_bool(struct arena *arena, struct json *object, const char *key, bool truth)
{
    json_set(object, str_from(key), json_new_bool(arena, truth));
}

struct json *json_make_path(struct arena *arena, struct json *object, const char *path)
{
    struct str rest = str_from(path);
    struct str name;

    while (str_cut(&rest, '.', &name)) {
        struct json *child = json_get_str(object, name);

        if (!json_is(child, JSON_OBJECT))
            child = json_set(object, str_dup(arena, name), json_new_object(arena));
        object = child;
    }
    return object;
}
