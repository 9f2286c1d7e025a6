#include "cel/value.h"

#include "api/schema.h"
#include "base/arena.h"
#include "base/base64.h"
#include "base/json.h"
#include "base/str.h"
#include "cel/field.h"
#include "cel/moment.h"
#include "cel/number.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Views of JSON, and what lists, maps and values have in common. */

struct str cel_type_name(enum cel_type type)
{
    switch (type) {
    case CEL_DYN: return STR("dyn");
    case CEL_ERROR: return STR("error");
    case CEL_NULL: return STR("null_type");
    case CEL_BOOL: return STR("bool");
    case CEL_INT: return STR("int");
    case CEL_UINT: return STR("uint");
    case CEL_DOUBLE: return STR("double");
    case CEL_STRING: return STR("string");
    case CEL_BYTES: return STR("bytes");
    case CEL_LIST: return STR("list");
    case CEL_MAP: return STR("map");
    case CEL_TIMESTAMP: return STR("google.protobuf.Timestamp");
    case CEL_DURATION: return STR("google.protobuf.Duration");
    case CEL_TYPE: return STR("type");
    case CEL_OPTIONAL: return STR("optional_type");
    case CEL_URL: return STR("kubernetes.URL");
    case CEL_IP: return STR("net.IP");
    case CEL_CIDR: return STR("net.CIDR");
    case CEL_QUANTITY: return STR("kubernetes.Quantity");
    case CEL_SEMVER: return STR("kubernetes.Semver");
    case CEL_FORMAT: return STR("kubernetes.NamedFormat");
    }
    return STR("");
}

/* ---- from JSON ---- */

static struct cel_value from_number(const struct json *value, const struct schema *schema)
{
    int64_t whole = 0;
    double real = 0;
    struct str text = json_number_text(value);
    bool plain = true;

    for (size_t i = 0; i < text.len; i++)
        plain &= text.p[i] == '-' || (text.p[i] >= '0' && text.p[i] <= '9');
    bool is_whole = schema && schema->type == SCHEMA_INTEGER ? true : plain;
    if (schema && schema->type == SCHEMA_NUMBER)
        is_whole = false;
    if (is_whole && json_i64(value, &whole))
        return cel_int(whole);
    return number_parse(text, &real) ? cel_double(real) : cel_error(STR("a number is too large"));
}

static struct cel_value from_bytes(struct arena *arena, struct str text)
{
    struct str out = STR_NONE;

    if (!base64_decode(arena, text, &out))
        return cel_error(STR("a field of format byte is not base64"));
    return (struct cel_value){.type = CEL_BYTES, .s = out};
}

static struct cel_value from_text(struct arena *arena, struct str text, struct str format)
{
    struct cel_value moment = {0};

    if (str_is(format, "byte"))
        return from_bytes(arena, text);
    if (str_is(format, "duration"))
        return moment_parse_duration(text, &moment)
                   ? moment
                   : cel_error(STR("a field of format duration does not have one as its value"));
    if (str_is(format, "date-time") || str_is(format, "date"))
        return moment_parse(text, &moment)
                   ? moment
                   : cel_error(STR("a field of format date-time does not have one as its value"));
    return cel_string(text);
}

static struct cel_value from_json(struct arena *arena,
                                  const struct json *value,
                                  const struct schema *schema,
                                  bool resource)
{
    if (json_is_null(value))
        return cel_null();
    switch (value->type) {
    case JSON_NULL: break;
    case JSON_BOOL: return cel_bool(json_bool_or(value, false));
    case JSON_NUMBER: return from_number(value, schema);
    case JSON_STRING:
        return from_text(arena, json_str(value),
                         schema && !schema->int_or_string ? schema->format : STR(""));
    case JSON_ARRAY: {
        struct cel_list *list = ARENA_NEW(arena, struct cel_list);

        *list = (struct cel_list){.count = json_count(value), .json = value, .schema = schema};
        return (struct cel_value){.type = CEL_LIST, .list = list};
    }
    case JSON_OBJECT: {
        struct cel_map *map = ARENA_NEW(arena, struct cel_map);

        *map = (struct cel_map){.count = json_count(value),
                                .json = value,
                                .schema = schema,
                                .resource = resource || (schema && schema->embedded)};
        return (struct cel_value){.type = CEL_MAP, .map = map};
    }
    }
    return cel_null();
}

struct cel_value cel_from_json(struct arena *arena,
                               const struct json *value,
                               const struct schema *schema)
{
    return from_json(arena, value, schema, false);
}

struct cel_value cel_from_resource(struct arena *arena,
                                   const struct json *value,
                                   const struct schema *schema)
{
    return from_json(arena, value, schema, true);
}

static struct cel_value member_value(struct arena *arena,
                                     const struct cel_map *map,
                                     const struct json *member)
{
    const struct schema *schema = NULL;

    if (map->schema)
        (void)field_schema(map->schema, map->resource, json_key(member), &schema);
    return from_json(arena, member, schema, false);
}

static const struct schema *item_schema(const struct cel_list *list)
{
    return list->schema ? list->schema->items : NULL;
}

/* ---- made here ---- */

struct cel_value cel_new_list(struct arena *arena, const struct cel_value *items, size_t count)
{
    struct cel_list *list = ARENA_NEW(arena, struct cel_list);

    *list = (struct cel_list){.items = items, .count = count};
    return (struct cel_value){.type = CEL_LIST, .list = list};
}

struct cel_value cel_new_map(struct arena *arena, const struct cel_entry *entries, size_t count)
{
    struct cel_map *map = ARENA_NEW(arena, struct cel_map);

    *map = (struct cel_map){.entries = entries, .count = count};
    return (struct cel_value){.type = CEL_MAP, .map = map};
}

struct cel_value cel_new_optional(struct arena *arena, struct cel_value value)
{
    struct cel_value *held = ARENA_NEW(arena, struct cel_value);

    *held = value;
    return (struct cel_value){.type = CEL_OPTIONAL, .held = held};
}

/* ---- walking ---- */

size_t cel_count(struct cel_value value)
{
    return value.type == CEL_LIST  ? value.list->count
           : value.type == CEL_MAP ? value.map->count
                                   : 0;
}

struct cel_walk cel_walk(struct arena *arena, struct cel_value of)
{
    const struct json *json = of.type == CEL_LIST  ? of.list->json
                              : of.type == CEL_MAP ? of.map->json
                                                   : NULL;

    return (struct cel_walk){.arena = arena, .of = of, .at = json_first(json)};
}

static bool next_of_json(struct cel_walk *walk)
{
    const struct json *at = walk->at;

    if (!at)
        return false;
    if (walk->of.type == CEL_LIST) {
        walk->key = cel_int((int64_t)walk->index);
        walk->value = from_json(walk->arena, at, item_schema(walk->of.list), false);
    } else {
        walk->key = cel_string(json_key(at));
        walk->value = member_value(walk->arena, walk->of.map, at);
    }
    walk->index++;
    walk->at = json_next(at);
    return true;
}

bool cel_next(struct cel_walk *walk)
{
    bool list = walk->of.type == CEL_LIST;

    if (!list && walk->of.type != CEL_MAP)
        return false;
    if (list ? walk->of.list->json != NULL : walk->of.map->json != NULL)
        return next_of_json(walk);
    if (walk->index >= cel_count(walk->of))
        return false;
    if (list) {
        walk->key = cel_int((int64_t)walk->index);
        walk->value = walk->of.list->items[walk->index];
    } else {
        walk->key = walk->of.map->entries[walk->index].key;
        walk->value = walk->of.map->entries[walk->index].value;
    }
    walk->index++;
    return true;
}

bool cel_list_at(struct arena *arena, struct cel_value list, size_t index, struct cel_value *ret)
{
    if (list.type != CEL_LIST || index >= list.list->count)
        return false;
    *ret = list.list->json
               ? from_json(arena, json_index(list.list->json, index), item_schema(list.list), false)
               : list.list->items[index];
    return true;
}

bool cel_map_at(struct arena *arena,
                struct cel_value map,
                struct cel_value key,
                struct cel_value *ret)
{
    if (map.type != CEL_MAP)
        return false;
    if (map.map->json) {
        const struct json *member =
            key.type == CEL_STRING ? json_get_str(map.map->json, key.s) : NULL;

        /* A field that is null is as if it were not there; a key of a map is. */
        if (!member ||
            (json_is_null(member) && map.map->schema && field_is_object(map.map->schema)))
            return false;
        *ret = member_value(arena, map.map, member);
        return true;
    }
    for (size_t i = 0; i < map.map->count; i++)
        if (cel_equal(map.map->entries[i].key, key)) {
            *ret = map.map->entries[i].value;
            return true;
        }
    return false;
}
