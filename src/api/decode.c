#include "api/decode.h"

#include "api/object.h"
#include "api/quantity.h"
#include "api/schema.h"
#include "base/arena.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "base/time.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* One recursive walk over table and object; depth is that of the tables, which are constants. */

struct walk {
    struct arena *arena;
    bool over; /* absent or wrong leaves the member alone */
    struct err *err;
};

static int walk_table(struct walk *walk,
                      const struct decode_table *table,
                      const struct json *object,
                      const struct schema_path *up,
                      char *out);

#define SHOWN_BYTES_MAX 60 /* of a wrong value, so that an error has room for what is right */

static struct str shown(struct arena *arena, const struct json *value)
{
    if (json_is(value, JSON_OBJECT))
        return STR("an object");
    if (json_is(value, JSON_ARRAY))
        return STR("a list");
    struct str text = json_text(arena, value);
    if (text.len <= SHOWN_BYTES_MAX)
        return text;
    text.len = SHOWN_BYTES_MAX;
    while (text.len && ((unsigned char)text.p[text.len] & 0xc0) == 0x80)
        text.len--; /* never half a character */
    return str_printf(arena, STR_FMT "...", STR_ARG(text));
}

/* `spec.roles[1].replicas: "two" is not a whole number`: where, what is there, what it is not. */
static int wrong(const struct walk *walk,
                 const struct schema_path *path,
                 const struct json *value,
                 const char *expected)
{
    struct str field = schema_path_text(walk->arena, path);
    struct str text = shown(walk->arena, value);

    return err_set(walk->err, -EINVAL, STR_FMT ": " STR_FMT " is not %s", STR_ARG(field),
                   STR_ARG(text), expected);
}

static const char *expected_range(const struct walk *walk, const struct decode_field *field)
{
    if (field->max == INT64_MAX)
        return str_printf(walk->arena, "at least %" PRId64, field->min).p;
    return str_printf(walk->arena, "within %" PRId64 "..%" PRId64, field->min, field->max).p;
}

static const char *expected_words(const struct walk *walk, const struct decode_field *field)
{
    struct str text = STR("one of");

    const char *separator = "";

    for (size_t i = 0; field->words[i]; i++) {
        if (!*field->words[i])
            continue;
        text = str_printf(walk->arena, STR_FMT "%s %s", STR_ARG(text), separator, field->words[i]);
        separator = ",";
    }
    return text.p;
}

/* Parse a scalar; NULL, or what it should have been. */
static const char *read_scalar(const struct walk *walk,
                               const struct decode_field *field,
                               const struct json *value,
                               char *out)
{
    struct quantity quantity = {0};
    struct str text = json_str(value);
    int64_t number = 0;

    switch (field->type) {
    case DECODE_STR:
        if (!json_is(value, JSON_STRING))
            return "a string";
        *(struct str *)(void *)out = text;
        return NULL;
    case DECODE_BOOL:
        if (!json_is(value, JSON_BOOL))
            return "true or false";
        *(bool *)(void *)out = value->truth;
        return NULL;
    case DECODE_NUMBER:
    case DECODE_QUANTITY:
        if (quantity_parse_json(value, &quantity, NULL))
            return "a quantity such as 2, 500m or 16Gi";
        if (field->type == DECODE_QUANTITY)
            *(struct quantity *)(void *)out = quantity;
        else
            *(double *)(void *)out = (double)(int64_t)(quantity.nano / 1000000000) +
                                     (double)(int64_t)(quantity.nano % 1000000000) / 1e9;
        return NULL;
    case DECODE_ENUM:
        for (int i = 0; field->words[i]; i++)
            if (str_is(text, field->words[i])) {
                *(int *)(void *)out = i;
                return NULL;
            }
        return expected_words(walk, field);
    case DECODE_I64:
        if (!json_i64(value, &number))
            return "a whole number";
        break;
    case DECODE_MILLI:
        if (quantity_milli_json(value, &number, NULL))
            return "a quantity such as 2 or 500m";
        break;
    case DECODE_WHOLE:
        if (quantity_whole_json(value, &number, NULL))
            return "a quantity such as 2 or 16Gi";
        break;
    case DECODE_DURATION:
        if (!time_parse_duration(text, &number))
            return "a duration such as 1h30m";
        break;
    case DECODE_TIME:
        if (!time_parse(text, &number))
            return "a time such as 2026-01-31T12:00:00Z";
        break;
    case DECODE_JSON: *(const struct json **)(void *)out = value; return NULL;
    case DECODE_OBJECT:
    case DECODE_STRS:
    case DECODE_MAP:
    case DECODE_LIST: return NULL;
    }
    if ((field->min || field->max) && (number < field->min || number > field->max))
        return expected_range(walk, field);
    *(int64_t *)(void *)out = number;
    return NULL;
}

/* The value that .absent stands for, as the JSON it would have been. */
static const struct json *absent_value(struct arena *arena, const struct decode_field *field)
{
    struct str text = str_from(field->absent);

    if (field->type == DECODE_BOOL)
        return json_new_bool(arena, str_is(text, "true"));
    if (field->type == DECODE_I64 || field->type == DECODE_NUMBER)
        return json_new_number(arena, text);
    return json_new_str(arena, text);
}

static int read_strs(struct walk *walk,
                     const struct json *list,
                     const struct schema_path *path,
                     char *out)
{
    struct str *items = ARENA_ARRAY(walk->arena, struct str, json_count(list));
    struct schema_path at = {.up = path};

    JSON_FOREACH(list, item) {
        if (!json_is(item, JSON_STRING))
            return wrong(walk, &at, item, "a string");
        items[at.index++] = json_str(item);
    }
    *(const struct str **)(void *)out = items;
    return 0;
}

static int read_map(struct walk *walk,
                    const struct json *object,
                    const struct schema_path *path,
                    char *out)
{
    struct object_label *items = ARENA_ARRAY(walk->arena, struct object_label, json_count(object));
    size_t count = 0;

    JSON_FOREACH(object, item) {
        struct schema_path at = {.up = path, .name = json_key(item)};

        if (!json_is(item, JSON_STRING))
            return wrong(walk, &at, item, "a string");
        items[count++] = (struct object_label){json_key(item), json_str(item)};
    }
    *(const struct object_label **)(void *)out = items;
    return 0;
}

// NOLINTNEXTLINE(misc-no-recursion)
static int read_list(struct walk *walk,
                     const struct decode_table *table,
                     const struct json *list,
                     const struct schema_path *path,
                     char *out)
{
    struct walk each = {.arena = walk->arena, .err = walk->err};
    char *items =
        arena_alloc(walk->arena, json_count(list), table->size, _Alignof(struct quantity));
    struct schema_path at = {.up = path};
    int r = 0;

    JSON_FOREACH(list, item) {
        r = walk_table(&each, table, item, &at, items + at.index * table->size);
        if (r)
            return r;
        at.index++;
    }
    *(char **)(void *)out = items;
    return 0;
}

// NOLINTNEXTLINE(misc-no-recursion)
static int read_items(struct walk *walk,
                      const struct decode_field *field,
                      const struct json *value,
                      const struct schema_path *path,
                      char *out)
{
    bool map = field->type == DECODE_MAP;
    int64_t max = field->max ? field->max : DECODE_ITEMS_MAX;
    char *items = out + field->offset;
    int r = 0;

    if (!json_is(value, map ? JSON_OBJECT : JSON_ARRAY))
        return wrong(walk, path, value, map ? "an object" : "a list");
    if ((int64_t)json_count(value) > max)
        return err_set(walk->err, -EINVAL, STR_FMT ": has %zu items, more than %" PRId64,
                       STR_ARG(schema_path_text(walk->arena, path)), json_count(value), max);
    if (map)
        r = read_map(walk, value, path, items);
    else if (field->type == DECODE_STRS)
        r = read_strs(walk, value, path, items);
    else
        r = read_list(walk, field->table, value, path, items);
    if (!r)
        *(size_t *)(void *)(out + field->count_offset) = json_count(value);
    return r;
}

/* Absent, null and "" are the same. */
static const struct json *find(const struct json *object, const char *path)
{
    const struct json *value = path ? json_at(object, path) : NULL;

    return json_is_null(value) || (json_is(value, JSON_STRING) && value->len == 0) ? NULL : value;
}

// NOLINTNEXTLINE(misc-no-recursion)
static int walk_field(struct walk *walk,
                      const struct decode_field *field,
                      const struct json *object,
                      const struct schema_path *up,
                      char *out)
{
    struct schema_path path = {.up = up, .name = str_from(field->name)};
    const struct json *value = find(object, field->name);
    const char *expected = NULL;

    if (!value && field->alias) {
        value = find(object, field->alias);
        if (value)
            path.name = str_from(field->alias);
    }
    if (field->type == DECODE_OBJECT && (value || !field->required))
        return walk_table(walk, field->table, value, &path, out + field->offset);
    if (!value) {
        if (walk->over)
            return 0;
        if (field->required)
            return err_set(walk->err, -EINVAL, STR_FMT ": is required",
                           STR_ARG(schema_path_text(walk->arena, &path)));
        if (field->absent) {
            struct decode_field any = *field;

            any.min = any.max = 0;
            expected =
                read_scalar(walk, &any, absent_value(walk->arena, field), out + field->offset);
        }
        return expected ? wrong(walk, &path, absent_value(walk->arena, field), expected) : 0;
    }
    if (field->type >= DECODE_STRS)
        return read_items(walk, field, value, &path, out);
    expected = read_scalar(walk, field, value, out + field->offset);
    return expected ? wrong(walk, &path, value, expected) : 0;
}

// NOLINTNEXTLINE(misc-no-recursion)
static int walk_table(struct walk *walk,
                      const struct decode_table *table,
                      const struct json *object,
                      const struct schema_path *up,
                      char *out)
{
    struct schema_path path = {.up = up, .name = str_from(table->at)};
    const struct schema_path *here = table->at ? &path : up;
    int first = 0;

    if (table->at)
        object = json_at(object, table->at);
    if (!json_is_null(object) && !json_is(object, JSON_OBJECT))
        return here ? wrong(walk, here, object, "an object")
                    : err_set(walk->err, -EINVAL, "an object is expected");
    for (size_t i = 0; i < table->count && (!first || walk->over); i++) {
        struct walk quiet = {.arena = walk->arena, .over = true};
        int r = walk_field(first ? &quiet : walk, &table->fields[i], object, here, out);

        first = first ? first : r;
    }
    return first;
}

static int decode(struct walk *walk,
                  const struct decode_table *table,
                  const struct json *object,
                  void *ret)
{
    char *copy = arena_alloc(walk->arena, 1, table->size, _Alignof(struct quantity));
    int r = 0;

    if (walk->over)
        memcpy(copy, ret, table->size);
    r = walk_table(walk, table, object, NULL, copy);
    if (!r || walk->over)
        memcpy(ret, copy, table->size);
    return r;
}

int decode_object(const struct decode_table *table,
                  struct arena *arena,
                  const struct json *object,
                  void *ret,
                  struct err *err)
{
    return decode(&(struct walk){.arena = arena, .err = err}, table, object, ret);
}

int decode_over(const struct decode_table *table,
                struct arena *arena,
                const struct json *object,
                void *ret,
                struct err *err)
{
    return decode(&(struct walk){.arena = arena, .over = true, .err = err}, table, object, ret);
}
