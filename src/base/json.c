#include "base/json.h"

#include "base/arena.h"
#include "base/buf.h"
#include "base/str.h"

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* The tree: reading, building, comparing, writing. json_parse.c turns text into it. */

struct json *json_get_str(const struct json *object, struct str key)
{
    if (!json_is(object, JSON_OBJECT))
        return NULL;
    for (struct json *member = object->first; member; member = member->next)
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
    struct json *item = array->first;
    for (; item && index; index--)
        item = item->next;
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
    if (written > 1000 || written < -1000)
        return value == 0 ? (*ret = 0, true) : false;
    for (exponent += written; exponent > 0 && value; exponent--) {
        value *= 10;
        if (value > (__int128)INT64_MAX + 1)
            return false;
    }
    for (; exponent < 0 && value; exponent++) {
        if (value % 10)
            return false;
        value /= 10;
    }
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

static bool members_equal(const struct json *a, const struct json *b)
{
    JSON_FOREACH(a, member) {
        const struct json *other = json_get_str(b, json_key(member));

        if (!other || !json_equal(member, other))
            return false;
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

            child->key = str_c(arena, json_key(member));
            child->key_len = member->key_len;
            json_push(copy, child);
        }
    return copy;
}

/* Link `value` behind `before` (NULL: first). */
static void link_behind(struct json *parent, struct json *before, struct json *value)
{
    struct json **link = before ? &before->next : &parent->first;

    value->next = *link;
    *link = value;
    if (!value->next)
        parent->last = value;
    parent->len++;
}

static void unlink_behind(struct json *parent, struct json *before)
{
    struct json **link = before ? &before->next : &parent->first;
    struct json *gone = *link;

    *link = gone->next;
    if (parent->last == gone)
        parent->last = before;
    gone->next = NULL;
    parent->len--;
}

struct json *json_push(struct json *array, struct json *value)
{
    assert(array->type >= JSON_ARRAY && value);
    link_behind(array, array->last, value);
    return value;
}

struct json *json_set(struct json *object, struct str key, struct json *value)
{
    assert(json_is(object, JSON_OBJECT) && value && key.len <= UINT32_MAX);
    value->key = key.p;
    value->key_len = (uint32_t)key.len;

    struct json *before = NULL;
    for (struct json *member = object->first; member; before = member, member = member->next) {
        if (!str_eq(json_key(member), key))
            continue;
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

    for (struct json *member = json_first(object); member; before = member, member = member->next) {
        if (str_eq(json_key(member), key)) {
            unlink_behind(object, before);
            return true;
        }
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

void json_write_string(struct buf *buf, struct str text)
{
    static const char hex[] = "0123456789abcdef";
    size_t from = 0;

    buf_addc(buf, '"');
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.p[i];
        char escape[6] = {'\\', 0, '0', '0', 0, 0};
        size_t escape_len = 2;

        if (c >= 0x20 && c != '"' && c != '\\')
            continue;
        buf_add(buf, str_sub(text, from, i - from));
        from = i + 1;
        switch (c) {
        case '\n': escape[1] = 'n'; break;
        case '\t': escape[1] = 't'; break;
        case '\r': escape[1] = 'r'; break;
        case '"':
        case '\\': escape[1] = (char)c; break;
        default:
            escape[1] = 'u';
            escape[4] = hex[c >> 4];
            escape[5] = hex[c & 15];
            escape_len = 6;
        }
        buf_add(buf, (struct str){escape, escape_len});
    }
    buf_add(buf, str_sub(text, from, text.len - from));
    buf_addc(buf, '"');
}

/* `depth` < 0 writes without line breaks. */
static void write_break(struct buf *buf, int depth)
{
    if (depth < 0)
        return;
    buf_addc(buf, '\n');
    for (int i = 0; i < depth; i++)
        buf_add(buf, STR("    "));
}

// NOLINTNEXTLINE(misc-no-recursion)
static void write_value(struct buf *buf, const struct json *value, int depth)
{
    if (json_is_null(value)) {
        buf_add(buf, STR("null"));
        return;
    }
    if (value->type == JSON_BOOL) {
        buf_add(buf, value->truth ? STR("true") : STR("false"));
        return;
    }
    if (value->type == JSON_NUMBER) {
        buf_add(buf, json_number_text(value));
        return;
    }
    if (value->type == JSON_STRING) {
        json_write_string(buf, json_str(value));
        return;
    }

    int inner = depth < 0 ? depth : depth + 1;
    bool object = value->type == JSON_OBJECT;
    buf_addc(buf, object ? '{' : '[');
    JSON_FOREACH(value, child) {
        if (child != value->first)
            buf_addc(buf, ',');
        write_break(buf, inner);
        if (object) {
            json_write_string(buf, json_key(child));
            buf_add(buf, depth < 0 ? STR(":") : STR(": "));
        }
        write_value(buf, child, inner);
    }
    if (value->len)
        write_break(buf, depth);
    buf_addc(buf, object ? '}' : ']');
}

void json_write(struct buf *buf, const struct json *value)
{
    write_value(buf, value, -1);
}

void json_write_pretty(struct buf *buf, const struct json *value)
{
    write_value(buf, value, 0);
    buf_addc(buf, '\n');
}

struct str json_text(struct arena *arena, const struct json *value)
{
    _cleanup_(buf_done) struct buf buf = {0};

    json_write(&buf, value);
    return str_dup(arena, buf_str(&buf));
}
