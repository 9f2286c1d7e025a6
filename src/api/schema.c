#include "api/schema.h"

#include "api/quantity.h"
#include "api/regex.h"
#include "api/types.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/err.h"
#include "base/json.h"
#include "base/json_names.h"
#include "base/str.h"
#include "base/vec.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Compiling, pruning and defaulting. schema_validate.c holds the rules about values. Recursion is
 * bounded by SCHEMA_DEPTH_MAX here, and by what json_parse() takes when objects are walked. */

struct compile {
    struct arena *arena;
    unsigned depth;
    size_t rules;    /* schemas with rules so far */
    bool types_only; /* schema_compile_types() */
    struct type_schemas types;
    struct err *err;
};

/* What is known about a place from outside of its schema. */
struct outside {
    bool structural;
    struct type_place type; /* of Kubernetes' types, where a title names one */
};

static int compile(struct compile *c,
                   const struct json *source,
                   struct str path,
                   struct outside outside,
                   const struct schema **ret);

static int wrong(const struct compile *c, struct str path, const char *why)
{
    return err_set(c->err, -EINVAL, "openAPIV3Schema" STR_FMT ": %s", STR_ARG(path), why);
}

static bool flag(const struct json *source, const char *name)
{
    return json_bool_or(json_get(source, name), false);
}

static int compile_type(const struct compile *c,
                        const struct json *source,
                        struct str path,
                        bool structural,
                        struct schema *schema)
{
    static const char *const names[] = {
        [SCHEMA_ANY] = "",           [SCHEMA_OBJECT] = "object",   [SCHEMA_ARRAY] = "array",
        [SCHEMA_STRING] = "string",  [SCHEMA_INTEGER] = "integer", [SCHEMA_NUMBER] = "number",
        [SCHEMA_BOOLEAN] = "boolean"};
    struct str type = json_str(json_get(source, "type"));

    for (size_t i = 0; i < COUNT_OF(names); i++)
        if (type.len && str_is(type, names[i]))
            schema->type = (enum schema_type)i;
    if (type.len && schema->type == SCHEMA_ANY)
        return wrong(c, path, "type must be object, array, string, integer, number or boolean");
    if (structural && schema->type == SCHEMA_ANY && !schema->int_or_string &&
        !schema->preserve_unknown)
        return wrong(c, path, "type is required (the schema must be structural)");
    return 0;
}

static int compile_list(struct compile *c,
                        const struct json *source,
                        struct str path,
                        struct schema *schema)
{
    struct str type = json_str(json_get(source, "x-kubernetes-list-type"));

    schema->list_keys = json_get(source, "x-kubernetes-list-map-keys");
    if (str_is(type, "set"))
        schema->list = SCHEMA_LIST_SET;
    else if (str_is(type, "map"))
        schema->list = SCHEMA_LIST_MAP;
    else if (type.len && !str_is(type, "atomic"))
        return wrong(c, path, "x-kubernetes-list-type must be atomic, set or map");
    if (schema->list == SCHEMA_LIST_MAP && !json_count(schema->list_keys))
        return wrong(c, path, "x-kubernetes-list-map-keys is required for a list of type map");
    schema->atomic_map = str_is(json_str(json_get(source, "x-kubernetes-map-type")), "atomic");
    return 0;
}

static void compile_bounds(const struct json *source, struct schema *schema)
{
    const char *least = schema->type == SCHEMA_ARRAY    ? "minItems"
                        : schema->type == SCHEMA_OBJECT ? "minProperties"
                                                        : "minLength";
    const char *most = schema->type == SCHEMA_ARRAY    ? "maxItems"
                       : schema->type == SCHEMA_OBJECT ? "maxProperties"
                                                       : "maxLength";

    schema->min_length = json_i64_or(json_get(source, least), -1);
    schema->max_length = json_i64_or(json_get(source, most), -1);
    schema->minimum = json_get(source, "minimum");
    schema->maximum = json_get(source, "maximum");
    schema->multiple_of = json_get(source, "multipleOf");
    schema->exclusive_min = flag(source, "exclusiveMinimum");
    schema->exclusive_max = flag(source, "exclusiveMaximum");
    schema->unique_items = flag(source, "uniqueItems");
    schema->allowed = json_get(source, "enum");
    schema->required = json_get(source, "required");
    schema->initial = json_get(source, "default");
    schema->format = json_str(json_get(source, "format"));
}

static int compile_pattern(struct compile *c,
                           const struct json *source,
                           struct str path,
                           struct schema *schema)
{
    struct regex *regex = NULL;

    schema->quantity = str_is(json_str(json_get(source, "title")), SCHEMA_TITLE_QUANTITY);
    schema->pattern_text = json_str(json_get(source, "pattern"));
    if (!schema->pattern_text.len || schema->quantity)
        return 0;
    int r = regex_compile(c->arena, schema->pattern_text, &regex, c->err);
    schema->pattern = regex;
    return r < 0 ? err_wrap(c->err, r, "openAPIV3Schema" STR_FMT, STR_ARG(path)) : 0;
}

/* What they say is compiled by cel/rules.h, which sees the type of what they are about. */
static int compile_rules(struct compile *c,
                         const struct json *source,
                         struct str path,
                         bool structural,
                         struct schema *schema)
{
    schema->rules = json_get(source, "x-kubernetes-validations");
    if (!json_count(schema->rules)) {
        schema->rules = NULL;
        return 0;
    }
    schema->rules_at = ++c->rules;
    return structural ? 0
                      : wrong(c, path,
                              "x-kubernetes-validations inside of allOf, anyOf, oneOf and not "
                              "are not evaluated here: write them beside it");
}

// NOLINTNEXTLINE(misc-no-recursion)
static int compile_group(struct compile *c,
                         const struct json *list,
                         struct str path,
                         struct schema_group *ret)
{
    const struct schema **items = ARENA_ARRAY(c->arena, const struct schema *, json_count(list));
    size_t count = 0;

    JSON_FOREACH(list, item) {
        int r = compile(c, item, path, (struct outside){0}, &items[count++]);

        if (r < 0)
            return r;
    }
    *ret = (struct schema_group){.items = items, .count = count};
    return 0;
}

static struct outside outside_below(struct outside outside, struct str name)
{
    outside.type = type_place_below(outside.type, name);
    return outside;
}

static struct outside outside_item(struct outside outside)
{
    outside.type.field = NULL;
    return outside;
}

// NOLINTNEXTLINE(misc-no-recursion)
static int compile_members(struct compile *c,
                           const struct json *source,
                           struct str path,
                           struct outside outside,
                           struct schema *schema)
{
    const struct json *properties = json_get(source, "properties");
    const struct json *additional = json_get(source, "additionalProperties");
    struct schema_property *list =
        ARENA_ARRAY(c->arena, struct schema_property, json_count(properties));
    size_t count = 0;
    int r = 0;

    JSON_FOREACH(properties, property) {
        struct str name = json_key(property);
        struct str below = str_printf(c->arena, STR_FMT "." STR_FMT, STR_ARG(path), STR_ARG(name));

        list[count].name = name;
        r = compile(c, property, below, outside_below(outside, name), &list[count].schema);
        if (r < 0)
            return r;
        count++;
    }
    schema->properties = list;
    schema->property_count = count;
    if (json_is(additional, JSON_OBJECT))
        r = compile(c, additional, str_printf(c->arena, STR_FMT ".*", STR_ARG(path)),
                    outside_below(outside, STR_NONE), &schema->additional);
    else if (json_bool_or(additional, false))
        schema->preserve_unknown = true;
    if (r == 0 && json_is(json_get(source, "items"), JSON_OBJECT))
        r = compile(c, json_get(source, "items"), str_printf(c->arena, STR_FMT "[]", STR_ARG(path)),
                    outside_item(outside), &schema->items);
    else if (r == 0 && outside.structural && schema->type == SCHEMA_ARRAY)
        r = wrong(c, path, "items is required for an array");
    return r;
}

/* What OpenAPI has and Kubernetes takes out of it; to store it would be to promise a check. */
static int refuse_foreign(const struct compile *c, const struct json *source, struct str path)
{
    static const char *const names[] = {"$ref", "definitions", "dependencies", "patternProperties",
                                        "additionalItems"};

    for (size_t i = 0; i < COUNT_OF(names); i++)
        if (!json_is_null(json_get(source, names[i])))
            return err_set(c->err, -EINVAL,
                           "openAPIV3Schema" STR_FMT
                           ".%s: is not supported in the schema of a CustomResourceDefinition",
                           STR_ARG(path), names[i]);
    return 0;
}

/* What an API server keeps unseen, in the room that CRDs have, is looked at here. */
static void compile_type_fields(struct compile *c, struct type_place place, struct schema *schema)
{
    bool many = place.field && (place.field->flags & (TYPE_LIST | TYPE_MAP));

    if (c->types_only)
        *schema = (struct schema){.preserve_unknown = true,
                                  .properties = schema->properties,
                                  .property_count = schema->property_count,
                                  .additional = schema->additional,
                                  .items = schema->items,
                                  .any_kind = schema->any_kind,
                                  .min_length = -1,
                                  .max_length = -1};
    if (place.type && !place.type->bare && !many && schema->preserve_unknown)
        type_schema_complete(&c->types, place.type, schema);
}

// NOLINTNEXTLINE(misc-no-recursion)
static int compile(struct compile *c,
                   const struct json *source,
                   struct str path,
                   struct outside outside,
                   const struct schema **ret)
{
    struct schema *schema = ARENA_NEW(c->arena, struct schema);
    const struct type *titled = type_titled(json_str(json_get(source, "title")));

    if (!json_is(source, JSON_OBJECT))
        return wrong(c, path, "must be an object");
    if (refuse_foreign(c, source, path) < 0)
        return -EINVAL;
    if (++c->depth > SCHEMA_DEPTH_MAX)
        return wrong(c, path, "is nested too deep");
    schema->nullable = flag(source, "nullable");
    schema->preserve_unknown = flag(source, "x-kubernetes-preserve-unknown-fields");
    schema->int_or_string = flag(source, "x-kubernetes-int-or-string");
    schema->embedded = flag(source, "x-kubernetes-embedded-resource");
    schema->idle = str_is(json_str(json_get(source, "title")), SCHEMA_TITLE_IDLE);
    schema->any_kind = str_is(json_str(json_get(source, "title")), SCHEMA_TITLE_KIND);
    if (titled && outside.structural)
        outside.type = (struct type_place){.type = titled};
    size_t rules_before = c->rules;
    int r = compile_rules(c, source, path, outside.structural, schema);
    if (r == 0)
        r = compile_type(c, source, path, outside.structural, schema);
    if (r == 0)
        r = compile_list(c, source, path, schema);
    compile_bounds(source, schema);
    if (r == 0)
        r = compile_pattern(c, source, path, schema);
    if (r == 0)
        r = compile_members(c, source, path, outside, schema);
    compile_type_fields(c, outside.type, schema);
    if (r == 0)
        r = compile_group(c, json_get(source, "allOf"), path, &schema->all_of);
    if (r == 0)
        r = compile_group(c, json_get(source, "anyOf"), path, &schema->any_of);
    if (r == 0)
        r = compile_group(c, json_get(source, "oneOf"), path, &schema->one_of);
    if (r == 0 && json_is(json_get(source, "not"), JSON_OBJECT))
        r = compile(c, json_get(source, "not"), path, (struct outside){0}, &schema->not );
    c->depth--;
    schema->rules_inside = c->rules > rules_before;
    *ret = schema;
    return r;
}

int schema_compile(struct arena *arena,
                   const struct json *source,
                   const struct schema **ret,
                   struct err *err)
{
    struct compile c = {.arena = arena, .types = {.arena = arena, .as_written = true}, .err = err};
    const struct schema *schema = NULL;
    int r = compile(&c, source, STR(""), (struct outside){.structural = true}, &schema);

    if (r < 0)
        return r;
    assert(schema);
    if (schema->type != SCHEMA_OBJECT)
        return err_set(err, -EINVAL, "openAPIV3Schema: type must be object at the root");
    *ret = schema;
    return 0;
}

int schema_compile_types(struct arena *arena,
                         const struct json *source,
                         const struct schema **ret,
                         struct err *err)
{
    struct compile c = {.arena = arena,
                        .types_only = true,
                        .types = {.arena = arena, .as_written = true},
                        .err = err};

    return compile(&c, source, STR(""), (struct outside){.structural = true}, ret);
}

const struct schema *schema_property(const struct schema *schema, struct str name)
{
    for (size_t i = 0; schema && i < schema->property_count; i++)
        if (str_eq(schema->properties[i].name, name))
            return schema->properties[i].schema;
    return schema ? schema->additional : NULL;
}

const struct schema *schema_of_value(struct arena *arena,
                                     const struct schema *schema,
                                     const struct json *value)
{
    const struct type *type = schema->any_kind
                                  ? type_of_kind(json_str(json_get(value, "apiVersion")),
                                                 json_str(json_get(value, "kind")))
                                  : NULL;
    struct type_schemas made_types = {.arena = arena, .as_written = true};

    if (!type)
        return schema;
    struct schema *made = ARENA_NEW(arena, struct schema);
    *made = *schema;
    type_schema_complete(&made_types, type, made);
    return made;
}

static bool is_meta(struct str name)
{
    return str_is(name, "apiVersion") || str_is(name, "kind") || str_is(name, "metadata");
}

/* ---- pruning ---- */

struct prune {
    struct arena *arena;
    struct schema_unknown *unknown;
    const struct schema **meta; /* of metadata; made when it is needed */
};

/* What stands in an object has metadata as the object itself has: others are unknown there too. */
static const struct schema *prune_meta(const struct prune *p)
{
    if (!*p->meta)
        *p->meta = type_schema(p->arena, type_named(STR("meta.k8s.io/v1"), STR("ObjectMeta")));
    return *p->meta;
}

// NOLINTNEXTLINE(misc-no-recursion)
struct str schema_path_text(struct arena *arena, const struct schema_path *path)
{
    if (!path)
        return STR("");
    struct str up = schema_path_text(arena, path->up);
    /* Names come from outside: what is long already is not made longer, level by level. */
    if (up.len + path->name.len > SCHEMA_PATH_BYTES_MAX)
        return str_ends(up, STR("...")) ? up : str_printf(arena, STR_FMT "...", STR_ARG(up));
    if (!path->name.p)
        return str_printf(arena, STR_FMT "[%zu]", STR_ARG(up), path->index);
    if (path->key)
        return str_printf(arena, STR_FMT "[" STR_FMT "]", STR_ARG(up), STR_ARG(path->name));
    return up.len ? str_printf(arena, STR_FMT "." STR_FMT, STR_ARG(up), STR_ARG(path->name))
                  : path->name;
}

static void prune(const struct prune *p,
                  const struct schema *schema,
                  struct json *value,
                  const struct schema_path *path,
                  bool resource);

// NOLINTNEXTLINE(misc-no-recursion)
static void prune_object(const struct prune *p,
                         const struct schema *schema,
                         struct json *value,
                         const struct schema_path *path,
                         bool resource)
{
    struct json *member = json_first(value);

    while (member) {
        struct json *next = json_next(member);
        struct str name = json_key(member);
        const struct schema *below = schema_property(schema, name);
        struct schema_path where = {.up = path, .name = name};

        if (resource && is_meta(name)) {
            if (path && str_is(name, "metadata"))
                prune(p, prune_meta(p), member, &where, false);
            member = next;
            continue;
        }
        if (below) {
            prune(p, below, member, &where, below->embedded);
        } else if (!schema->preserve_unknown) {
            if (p->unknown->count < SCHEMA_UNKNOWN_MAX)
                VEC_PUSH(p->arena, p->unknown, schema_path_text(p->arena, &where));
            json_remove(value, name);
        }
        member = next;
    }
}

// NOLINTNEXTLINE(misc-no-recursion)
static void prune(const struct prune *p,
                  const struct schema *schema,
                  struct json *value,
                  const struct schema_path *path,
                  bool resource)
{
    struct schema_path item_path = {.up = path};

    if (json_is(value, JSON_OBJECT)) {
        prune_object(p, schema_of_value(p->arena, schema, value), value, path, resource);
    } else if (json_is(value, JSON_ARRAY) && schema->items) {
        JSON_FOREACH(value, item) {
            prune(p, schema->items, item, &item_path, schema->items->embedded);
            item_path.index++;
        }
    }
}

void schema_prune(struct arena *arena,
                  const struct schema *schema,
                  struct json *object,
                  struct schema_unknown *unknown)
{
    const struct schema *meta = NULL;
    struct prune p = {.arena = arena, .unknown = unknown, .meta = &meta};

    prune(&p, schema, object, NULL, true);
}

/* ---- defaulting ---- */

struct filling {
    struct arena *arena;
    size_t bytes_end; /* of the arena */
    bool defaults;
    bool amounts; /* quantities come into one form */
    bool zeros;   /* what is empty goes where the type says that it means nothing */
};

/* Whether the default of a field holds, by what another field of the object says. */
static bool default_holds(const char *when, const struct json *object)
{
    bool unless = when && when[0] == '!';
    struct str words = when ? str_from(when + unless) : STR("");
    struct str name;
    struct str word;

    if (!when)
        return true;
    (void)str_cut(&words, ':', &name);
    struct str text = json_str(json_get_str(object, name));
    while (str_cut(&words, '|', &word))
        if (str_eq(word, text))
            return !unless;
    return unless;
}

/* Empty, as a struct of Go has it where nothing was said; of another type it is a mistake. */
static bool is_empty(const struct schema *schema, const struct json *value)
{
    int64_t number = 0;

    switch (schema->type) {
    case SCHEMA_STRING:
        return json_is(value, JSON_STRING) && !json_str(value).len &&
               !str_is(schema->format, "date-time");
    case SCHEMA_INTEGER:
    case SCHEMA_NUMBER: return json_i64(value, &number) && !number;
    case SCHEMA_BOOLEAN: return json_is(value, JSON_BOOL) && !json_bool_or(value, true);
    case SCHEMA_ARRAY: return json_is(value, JSON_ARRAY) && !json_count(value);
    case SCHEMA_OBJECT:
        return json_is(value, JSON_OBJECT) && !json_count(value) && schema->additional;
    case SCHEMA_ANY: break;
    }
    return false;
}

/* An amount is stored in one form, so that nobody takes 1000m for another than 1; where it is the
 * same as before, in the form that it had. NULL: as it is. */
static struct json *one_form(struct arena *arena, const struct json *value, const struct json *old)
{
    struct quantity amount = {0};
    struct quantity before = {0};

    if (json_is_null(value) || quantity_parse_json(value, &amount, NULL) < 0)
        return NULL;
    struct str text = json_is(old, JSON_STRING) && quantity_parse_json(old, &before, NULL) == 0 &&
                              quantity_cmp(amount, before) == 0
                          ? json_str(old)
                          : quantity_text(arena, amount);
    return json_is(value, JSON_STRING) && str_eq(text, json_str(value))
               ? NULL
               : json_new_str(arena, str_dup(arena, text));
}

/* Null is nothing in Go, where an item is something. */
static struct json *empty_item(struct arena *arena, const struct schema *schema)
{
    return schema->nullable                 ? NULL
           : schema->type == SCHEMA_STRING  ? json_new_str(arena, STR(""))
           : schema->type == SCHEMA_INTEGER ? json_new_i64(arena, 0)
           : schema->type == SCHEMA_OBJECT  ? json_new_object(arena)
                                            : NULL;
}

static bool fill(const struct filling *filling,
                 const struct schema *schema,
                 struct json *object,
                 const struct json *old);

// NOLINTNEXTLINE(misc-no-recursion)
static bool fill_items(const struct filling *filling,
                       const struct schema *schema,
                       struct json *list,
                       const struct json *old)
{
    const struct json *before = json_is(old, JSON_ARRAY) ? json_first(old) : NULL;
    size_t index = 0;

    for (struct json *item = json_first(list), *next; item; item = next) {
        struct json *other =
            filling->zeros && json_is_null(item) ? empty_item(filling->arena, schema->items) : NULL;

        next = json_next(item);
        if (filling->amounts && schema->items->amount)
            other = one_form(filling->arena, item, before);
        if (!fill(filling, schema->items, other ? other : item, before))
            return false;
        if (other) {
            json_insert(list, index, other);
            json_remove_index(list, index + 1);
        }
        before = before ? json_next(before) : NULL;
        index++;
    }
    return true;
}

/* A member that is there and has a schema; what becomes of it takes its place. */
// NOLINTNEXTLINE(misc-no-recursion)
static bool fill_member(const struct filling *filling,
                        const struct schema *schema,
                        struct json *object,
                        struct json *member,
                        const struct json *old)
{
    struct str name = json_key(member);
    struct json *other = NULL;

    if (filling->zeros && json_is_null(member))
        other = empty_item(filling->arena, schema);
    else if (filling->amounts && schema->amount)
        other = one_form(filling->arena, member, old);
    if (other)
        member = json_set(object, name, other);
    return fill(filling, schema, member, old);
}

/* A property of an object. False when the defaults have taken more than they may. */
// NOLINTNEXTLINE(misc-no-recursion)
static bool fill_property(const struct filling *filling,
                          const struct schema_property *property,
                          struct json *object,
                          const struct json *old)
{
    const struct schema *schema = property->schema;
    struct json *member = json_get_str(object, property->name);
    const struct json *before = json_get_str(old, property->name);

    if (filling->zeros && member && property->weak && is_empty(schema, member) &&
        !(before && json_equal(before, member))) {
        json_remove(object, property->name);
        member = NULL;
    }
    /* A null where none may be is as if it were not there. */
    if (filling->defaults && json_is_null(member) && schema->initial &&
        !(member && schema->nullable) && default_holds(schema->initial_when, object)) {
        if (filling->arena->bytes_used > filling->bytes_end)
            return false;
        member = json_set(object, property->name, json_clone(filling->arena, schema->initial));
    } else if (filling->defaults && member && json_is_null(member) && !schema->nullable) {
        json_remove(object, property->name);
        return true;
    }
    return !member || fill_member(filling, schema, object, member, before);
}

// NOLINTNEXTLINE(misc-no-recursion)
static bool fill_map(const struct filling *filling,
                     const struct schema *schema,
                     struct json *object,
                     const struct json *old)
{
    _cleanup_(json_names_done) struct json_names before = {.object = old};

    for (struct json *member = json_first(object), *next; member; member = next) {
        next = json_next(member);
        if (schema_property(schema, json_key(member)) == schema->additional &&
            !fill_member(filling, schema->additional, object, member,
                         json_names_get(&before, json_key(member))))
            return false;
    }
    return true;
}

// NOLINTNEXTLINE(misc-no-recursion)
static bool fill(const struct filling *filling,
                 const struct schema *schema,
                 struct json *object,
                 const struct json *old)
{
    if (json_is(object, JSON_ARRAY) && schema->items)
        return fill_items(filling, schema, object, old);
    if (!json_is(object, JSON_OBJECT))
        return true;
    schema = schema_of_value(filling->arena, schema, object);
    for (size_t i = 0; i < schema->property_count; i++)
        if (!fill_property(filling, &schema->properties[i], object, old))
            return false;
    return !schema->additional || fill_map(filling, schema, object, old);
}

static int fill_all(struct filling filling,
                    const struct schema *schema,
                    struct json *object,
                    const struct json *old,
                    struct err *err)
{
    filling.bytes_end = filling.arena->bytes_used + SCHEMA_DEFAULT_BYTES_MAX;
    if (fill(&filling, schema, object, old))
        return 0;
    return err_set(err, -E2BIG,
                   "the defaults of its schema make it larger than %zu bytes in memory; have fewer "
                   "items in its lists, or smaller defaults",
                   SCHEMA_DEFAULT_BYTES_MAX);
}

int schema_default(struct arena *arena,
                   const struct schema *schema,
                   struct json *object,
                   struct err *err)
{
    return fill_all((struct filling){.arena = arena, .defaults = true}, schema, object, NULL, err);
}

int schema_settle(struct arena *arena,
                  const struct schema *schema,
                  struct json *object,
                  const struct json *old,
                  struct err *err)
{
    return fill_all(
        (struct filling){.arena = arena, .defaults = true, .amounts = true, .zeros = true}, schema,
        object, old, err);
}

void schema_amounts(struct arena *arena,
                    const struct schema *schema,
                    struct json *object,
                    const struct json *old)
{
    (void)fill_all((struct filling){.arena = arena, .amounts = true}, schema, object, old, NULL);
}
