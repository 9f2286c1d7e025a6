#include "api/admit.h"
#include "api/kind.h"
#include "api/quantity.h"
#include "api/regex.h"
#include "api/schema.h"
#include "base/arena.h"
#include "base/base64.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "base/map.h"
#include "base/str.h"
#include "base/time.h"
#include "base/vec.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* The rules about values, in the words Kubernetes' users know. */

#define ALLOWED_BYTES_MAX 2000 /* of the values of an enum that a message names */

struct check {
    struct admit *admit;
};

static void validate(struct check *check,
                     const struct schema *schema,
                     const struct json *value,
                     const struct schema_path *path);

/* "path in body should be ..." */
static void invalid(struct check *check,
                    const struct schema_path *path,
                    const struct json *value,
                    const char *what,
                    struct str detail)
{
    struct arena *arena = check->admit->arena;

    if (admit_is_full(check->admit))
        return;
    struct str field = schema_path_text(arena, path);
    struct str text =
        str_printf(arena, STR_FMT " in body %s" STR_FMT, STR_ARG(field), what, STR_ARG(detail));

    admit_invalid(check->admit, field, value, text.p);
}

static const char *type_name(const struct json *value)
{
    int64_t whole = 0;

    switch (value->type) {
    case JSON_NULL: return "null";
    case JSON_BOOL: return "boolean";
    case JSON_NUMBER: return json_i64(value, &whole) ? "integer" : "number";
    case JSON_STRING: return "string";
    case JSON_ARRAY: return "array";
    case JSON_OBJECT: return "object";
    }
    return "";
}

static bool has_type(const struct schema *schema, const struct json *value)
{
    int64_t whole = 0;

    if (json_is(value, JSON_NULL))
        return schema->nullable;
    if (schema->int_or_string)
        return json_is(value, JSON_STRING) || json_i64(value, &whole);
    switch (schema->type) {
    case SCHEMA_ANY: return true;
    case SCHEMA_OBJECT: return json_is(value, JSON_OBJECT);
    case SCHEMA_ARRAY: return json_is(value, JSON_ARRAY);
    case SCHEMA_STRING: return json_is(value, JSON_STRING);
    case SCHEMA_INTEGER: return json_i64(value, &whole);
    case SCHEMA_NUMBER: return json_is(value, JSON_NUMBER);
    case SCHEMA_BOOLEAN: return json_is(value, JSON_BOOL);
    }
    return false;
}

static bool check_type(struct check *check,
                       const struct schema *schema,
                       const struct json *value,
                       const struct schema_path *path)
{
    static const char *const names[] = {
        [SCHEMA_ANY] = "integer or string", [SCHEMA_OBJECT] = "object",
        [SCHEMA_ARRAY] = "array",           [SCHEMA_STRING] = "string",
        [SCHEMA_INTEGER] = "integer",       [SCHEMA_NUMBER] = "number",
        [SCHEMA_BOOLEAN] = "boolean"};

    if (has_type(schema, value))
        return true;
    invalid(check, path, json_new_str(check->admit->arena, str_from(type_name(value))),
            "must be of type ",
            str_printf(check->admit->arena, "%s: \"%s\"", names[schema->type], type_name(value)));
    return false;
}

static void check_enum(struct check *check,
                       const struct schema *schema,
                       const struct json *value,
                       const struct schema_path *path)
{
    struct str allowed = STR("");

    if (!schema->allowed)
        return;
    JSON_FOREACH(schema->allowed, item)
        if (json_equal(item, value))
            return;
    if (admit_is_full(check->admit))
        return;
    JSON_FOREACH(schema->allowed, item) {
        struct str text = json_text(check->admit->arena, item);

        if (allowed.len + text.len > ALLOWED_BYTES_MAX) {
            allowed = str_printf(check->admit->arena, STR_FMT ", ...", STR_ARG(allowed));
            break;
        }
        allowed = str_printf(check->admit->arena, STR_FMT "%s" STR_FMT, STR_ARG(allowed),
                             allowed.len ? ", " : "", STR_ARG(text));
    }
    admit_unsupported(check->admit, schema_path_text(check->admit->arena, path), value,
                      str_c(check->admit->arena, allowed));
}

/* Numbers of JSON are quantities without suffix, but for those that are larger than any, and those
 * that are next to nothing. */
static struct quantity amount_of(const struct json *value)
{
    struct str text = json_number_text(value);
    struct quantity amount = {0};

    if (quantity_parse_json(value, &amount, NULL) < 0 && !str_contains(text, STR("e-")) &&
        !str_contains(text, STR("E-"))) {
        amount.nano = (__int128)INT64_MAX * QUANTITY_NANO * 2;
        if (str_starts(text, STR("-")))
            amount.nano = -amount.nano;
    }
    return amount;
}

/* a - b as -1, 0, 1. */
static int compare(const struct json *a, const struct json *b)
{
    return quantity_cmp(amount_of(a), amount_of(b));
}

static void check_number(struct check *check,
                         const struct schema *schema,
                         const struct json *value,
                         const struct schema_path *path)
{
    struct arena *arena = check->admit->arena;
    __int128 step = schema->multiple_of ? amount_of(schema->multiple_of).nano : 0;

    if (schema->minimum && compare(value, schema->minimum) < (schema->exclusive_min ? 1 : 0))
        invalid(check, path, value,
                schema->exclusive_min ? "should be greater than "
                                      : "should be greater than or equal to ",
                json_text(arena, schema->minimum));
    if (schema->maximum && compare(value, schema->maximum) > (schema->exclusive_max ? -1 : 0))
        invalid(check, path, value,
                schema->exclusive_max ? "should be less than " : "should be less than or equal to ",
                json_text(arena, schema->maximum));
    if (step && amount_of(value).nano % step)
        invalid(check, path, value, "should be a multiple of ",
                json_text(arena, schema->multiple_of));
    int64_t whole = 0;
    if (str_is(schema->format, "int32") && json_i64(value, &whole) &&
        (whole > INT32_MAX || whole < INT32_MIN))
        invalid(check, path, value, "should be a 32-bit integer", STR(""));
}

static int64_t code_points(struct str text)
{
    int64_t count = 0;

    for (size_t i = 0; i < text.len; i++)
        count += ((unsigned char)text.p[i] & 0xc0) != 0x80 ? 1 : 0;
    return count;
}

static void check_length(struct check *check,
                         const struct schema *schema,
                         const struct json *value,
                         const struct schema_path *path)
{
    struct arena *arena = check->admit->arena;
    bool text = json_is(value, JSON_STRING);
    int64_t length = text ? code_points(json_str(value)) : (int64_t)json_count(value);
    const char *unit = text ? " chars long" : json_is(value, JSON_ARRAY) ? " items" : " properties";

    if (schema->min_length >= 0 && length < schema->min_length)
        invalid(check, path, value, text ? "should be at least " : "should have at least ",
                str_printf(arena, "%lld%s", (long long)schema->min_length, unit));
    if (schema->max_length >= 0 && length > schema->max_length)
        invalid(check, path, value, text ? "should be at most " : "should have at most ",
                str_printf(arena, "%lld%s", (long long)schema->max_length, unit));
}

static void check_string(struct check *check,
                         const struct schema *schema,
                         const struct json *value,
                         const struct schema_path *path)
{
    int64_t moment = 0;
    struct str bytes;

    check_length(check, schema, value, path);
    if (schema->pattern && !regex_matches(schema->pattern, json_str(value)))
        invalid(check, path, value, "should match ",
                str_printf(check->admit->arena, "'" STR_FMT "'", STR_ARG(schema->pattern_text)));
    if (str_is(schema->format, "date-time") && !time_parse(json_str(value), &moment))
        invalid(check, path, value, "must be of type date-time", STR(""));
    if (str_is(schema->format, "duration") && !time_parse_duration(json_str(value), &moment))
        invalid(check, path, value, "must be of type duration", STR(""));
    if (str_is(schema->format, "byte") &&
        !base64_decode(check->admit->arena, json_str(value), &bytes))
        invalid(check, path, value,
                check->admit->kind == &kind_secret ? "must be base64; use stringData for plain text"
                                                   : "must be base64",
                STR(""));
}

static int name_compare(const void *a, const void *b)
{
    return str_cmp(json_key(*(const struct json *const *)a),
                   json_key(*(const struct json *const *)b));
}

/* Equal values have equal texts: members by their names, numbers in one form. */
// NOLINTNEXTLINE(misc-no-recursion): as deep as the document, which json_parse() bounds
static void add_identity(struct arena *arena, struct buf *text, const struct json *value)
{
    const struct json **members = ARENA_ARRAY(arena, const struct json *, json_count(value) + 1);
    int64_t number = 0;
    size_t count = 0;

    if (json_is(value, JSON_NUMBER) && json_i64(value, &number)) {
        buf_addf(text, "%lld", (long long)number);
    } else if (json_is(value, JSON_ARRAY)) {
        JSON_FOREACH(value, item) {
            buf_addc(text, count++ ? ',' : '[');
            add_identity(arena, text, item);
        }
        buf_addc(text, ']');
    } else if (json_is(value, JSON_OBJECT)) {
        JSON_FOREACH(value, member)
            members[count++] = member;
        qsort(members, count, sizeof(const struct json *), name_compare);
        buf_addc(text, '{');
        for (size_t i = 0; i < count; i++) {
            json_write_string(text, json_key(members[i]));
            add_identity(arena, text, members[i]);
        }
        buf_addc(text, '}');
    } else if (value) {
        json_write(text, value);
    }
}

/* Two items of a map list are the same when all their keys are; an absent key equals its default,
 * which was filled in before. */
static struct str identity(struct arena *arena,
                           const struct schema *schema,
                           const struct json *item)
{
    _cleanup_(buf_done) struct buf text = {0};

    if (schema->list != SCHEMA_LIST_MAP)
        add_identity(arena, &text, item);
    else
        JSON_FOREACH(schema->list_keys, key) {
            add_identity(arena, &text, json_get_str(item, json_str(key)));
            buf_addc(&text, '\n');
        }
    return str_dup(arena, buf_str(&text));
}

// NOLINTNEXTLINE(misc-no-recursion)
static void check_array(struct check *check,
                        const struct schema *schema,
                        const struct json *value,
                        const struct schema_path *path)
{
    bool unique = schema->unique_items || schema->list != SCHEMA_LIST_ATOMIC;
    struct arena *arena = check->admit->arena;
    struct schema_path where = {.up = path};
    /* Where the list lies is nothing a peer can know: it cannot choose items that collide. */
    _cleanup_(map_done) struct map seen = {.seed = (uintptr_t)value};

    check_length(check, schema, value, path);
    JSON_FOREACH(value, item) {
        if (schema->items)
            validate(check, schema->items, item, &where);
        if (unique && map_set(&seen, identity(arena, schema, item), item) &&
            !admit_is_full(check->admit))
            admit_duplicate(check->admit, schema_path_text(arena, &where), item);
        where.index++;
    }
}

static void require(struct check *check,
                    const struct schema_path *path,
                    struct str name,
                    const char *detail)
{
    struct schema_path where = {.up = path, .name = name};

    if (!admit_is_full(check->admit))
        admit_required(check->admit, schema_path_text(check->admit->arena, &where), detail);
}

// NOLINTNEXTLINE(misc-no-recursion)
static void check_object(struct check *check,
                         const struct schema *schema,
                         const struct json *value,
                         const struct schema_path *path)
{
    check_length(check, schema, value, path);
    JSON_FOREACH(schema->required, name)
        if (!json_get_str(value, json_str(name)))
            require(check, path, json_str(name), "");
    JSON_FOREACH(value, member) {
        const struct schema *below = schema_property(schema, json_key(member));

        struct schema_path where = {.up = path, .name = json_key(member)};

        if (below)
            validate(check, below, member, &where);
    }
    if (!schema->embedded && !schema->any_kind)
        return;
    if (!json_str(json_get(value, "apiVersion")).len)
        require(check, path, STR("apiVersion"), "must not be empty");
    if (!json_str(json_get(value, "kind")).len)
        require(check, path, STR("kind"), "must not be empty");
}

/* How many of the group accept the value; their complaints are not reported. */
// NOLINTNEXTLINE(misc-no-recursion)
static size_t accepted(struct check *check,
                       const struct schema_group *group,
                       const struct json *value,
                       const struct schema_path *path)
{
    size_t count = 0;

    for (size_t i = 0; i < group->count; i++) {
        struct admit trial = {.arena = check->admit->arena};
        struct check inner = {.admit = &trial};

        validate(&inner, group->items[i], value, path);
        count += trial.causes.count ? 0 : 1;
    }
    return count;
}

// NOLINTNEXTLINE(misc-no-recursion)
static void check_groups(struct check *check,
                         const struct schema *schema,
                         const struct json *value,
                         const struct schema_path *path)
{
    const struct schema_group one = {.items = &schema->not, .count = 1};

    for (size_t i = 0; i < schema->all_of.count; i++)
        validate(check, schema->all_of.items[i], value, path);
    if (schema->any_of.count && !accepted(check, &schema->any_of, value, path))
        invalid(check, path, value, "must validate at least one schema (anyOf)", STR(""));
    if (schema->one_of.count && accepted(check, &schema->one_of, value, path) != 1)
        invalid(check, path, value, "must validate one and only one schema (oneOf)", STR(""));
    if (schema->not &&accepted(check, &one, value, path))
        invalid(check, path, value, "must not validate the schema (not)", STR(""));
}

static void warn_idle(struct check *check, const struct schema_path *path)
{
    struct arena *arena = check->admit->arena;

    admit_warn(check->admit, str_printf(arena, STR_FMT ": has no effect here; see kubectl explain",
                                        STR_ARG(schema_path_text(arena, path))));
}

/* What only repeats the default was not asked for. */
static void check_idle(struct check *check,
                       const struct schema *schema,
                       const struct json *value,
                       const struct schema_path *path)
{
    if (!schema->preserve_unknown || !schema->property_count) {
        if (!json_equal(value, schema->initial))
            warn_idle(check, path);
        return;
    }
    JSON_FOREACH(value, member) {
        struct schema_path where = {.up = path, .name = json_key(member)};

        if (!schema_property(schema, json_key(member)))
            warn_idle(check, &where);
    }
}

// NOLINTNEXTLINE(misc-no-recursion)
static void validate(struct check *check,
                     const struct schema *schema,
                     const struct json *value,
                     const struct schema_path *path)
{
    struct quantity amount = {0};

    if (!check_type(check, schema, value, path))
        return;
    if (json_is(value, JSON_NULL))
        return;
    check_enum(check, schema, value, path);
    if (schema->idle)
        check_idle(check, schema, value, path);
    if (schema->quantity && quantity_parse_json(value, &amount, NULL) < 0)
        invalid(check, path, value, "must be a quantity, such as 500m or 2Gi", STR(""));
    if (json_is(value, JSON_NUMBER))
        check_number(check, schema, value, path);
    else if (json_is(value, JSON_STRING))
        check_string(check, schema, value, path);
    else if (json_is(value, JSON_ARRAY))
        check_array(check, schema, value, path);
    else if (json_is(value, JSON_OBJECT))
        check_object(check, schema_of_value(check->admit->arena, schema, value), value, path);
    check_groups(check, schema, value, path);
}

void schema_validate(struct admit *admit, const struct schema *schema, const struct json *object)
{
    struct check check = {.admit = admit};

    validate(&check, schema, object, NULL);
}
