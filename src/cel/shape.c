#include "cel/shape.h"

#include "api/schema.h"
#include "base/arena.h"
#include "base/count.h"
#include "base/json.h"
#include "base/str.h"
#include "cel/field.h"
#include "cel/value.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/* The shortest JSON of a value: "", 0, true, [], {}, and of texts of a format with their quotes. */
#define TEXT_BYTES_MIN     2
#define NUMBER_BYTES_MIN   1
#define BOOL_BYTES_MIN     4
#define BRACKETS_BYTES     2
#define DURATION_BYTES_MIN 3
#define DURATION_BYTES_MAX 32
#define DATE_BYTES         12
#define MOMENT_BYTES_MIN   21
#define MOMENT_BYTES_MAX   32
/* "":, around a name and behind its value. */
#define MEMBER_BYTES 4
/* A character of UTF-8: a schema counts characters, costs are counted in bytes. */
#define CHARACTER_BYTES_MAX 4
/* The longest text of a request that is nothing else. */
#define REQUEST_TEXT_MAX (SHAPE_REQUEST_BYTES - BRACKETS_BYTES)

#define SIMPLE(t) [t] = {.type = (t)}
static const struct shape simple_shapes[] = {
    SIMPLE(CEL_DYN),      SIMPLE(CEL_ERROR), SIMPLE(CEL_NULL),     SIMPLE(CEL_BOOL),
    SIMPLE(CEL_INT),      SIMPLE(CEL_UINT),  SIMPLE(CEL_DOUBLE),   SIMPLE(CEL_STRING),
    SIMPLE(CEL_BYTES),    SIMPLE(CEL_LIST),  SIMPLE(CEL_MAP),      SIMPLE(CEL_TIMESTAMP),
    SIMPLE(CEL_DURATION), SIMPLE(CEL_TYPE),  SIMPLE(CEL_OPTIONAL), SIMPLE(CEL_URL),
    SIMPLE(CEL_IP),       SIMPLE(CEL_CIDR),  SIMPLE(CEL_QUANTITY), SIMPLE(CEL_SEMVER),
    SIMPLE(CEL_FORMAT),
};

const struct shape *shape_simple(enum cel_type type)
{
    return &simple_shapes[type];
}

const struct shape *shape_holding(struct arena *arena, enum cel_type type, const struct shape *item)
{
    struct shape *shape = ARENA_NEW(arena, struct shape);

    *shape = (struct shape){.type = type, .key = shape_simple(CEL_DYN), .item = item};
    return shape;
}

static int fields_compare(const void *a, const void *b)
{
    return str_cmp(((const struct shape_field *)a)->name, ((const struct shape_field *)b)->name);
}

const struct shape *shape_field(const struct shape *shape, struct str name)
{
    struct shape_field wanted = {.name = name};

    if (shape && shape->named)
        return shape->item;
    if (!shape || !shape->field_count)
        return NULL;
    const struct shape_field *found =
        bsearch(&wanted, shape->fields, shape->field_count, sizeof(wanted), fields_compare);
    return found ? found->shape : NULL;
}

/* ---- of a schema ---- */

static uint64_t enum_bytes_max(const struct schema *schema)
{
    uint64_t most = 0;

    JSON_FOREACH(schema->allowed, value) {
        if (json_is(value, JSON_STRING) && json_str(value).len > most)
            most = json_str(value).len;
    }
    return most;
}

static void shape_text(const struct schema *schema, struct shape *shape)
{
    bool said = schema->max_length >= 0;
    uint64_t length = said ? (uint64_t)schema->max_length : 0;

    shape->bytes_min = TEXT_BYTES_MIN;
    shape->max = REQUEST_TEXT_MAX;
    if (shape->type == CEL_DURATION) {
        shape->bytes_min = DURATION_BYTES_MIN;
        shape->max = DURATION_BYTES_MAX;
    } else if (str_is(schema->format, "date")) {
        shape->bytes_min = DATE_BYTES;
        shape->max = DATE_BYTES;
    } else if (shape->type == CEL_TIMESTAMP) {
        shape->bytes_min = MOMENT_BYTES_MIN;
        shape->max = MOMENT_BYTES_MAX;
    } else if (shape->type == CEL_BYTES) {
        shape->max = said ? length : shape->max;
    } else if (said) {
        shape->max =
            length < UINT64_MAX / CHARACTER_BYTES_MAX ? length * CHARACTER_BYTES_MAX : UINT64_MAX;
    } else if (json_count(schema->allowed)) {
        shape->max = enum_bytes_max(schema);
    }
}

/* The fields that must be there, sorted: there may be as many as fit into a request. */
struct required {
    struct str *names;
    size_t count;
};

static int names_compare(const void *a, const void *b)
{
    return str_cmp(*(const struct str *)a, *(const struct str *)b);
}

static struct required required_of(struct arena *arena, const struct schema *schema)
{
    struct required required = {
        .names = ARENA_ARRAY(arena, struct str, json_count(schema->required) + 1)};

    JSON_FOREACH(schema->required, item)
        required.names[required.count++] = json_str(item);
    qsort(required.names, required.count, sizeof(*required.names), names_compare);
    return required;
}

static bool is_required(const struct required *required, struct str name)
{
    return bsearch(&name, required->names, required->count, sizeof(name), names_compare) != NULL;
}

/* Has a resource's schema said of all that every resource has what it is? Then that counts. */
static bool says_metadata(const struct schema *schema)
{
    const struct schema *kind = schema_property(schema, STR("kind"));
    const struct schema *version = schema_property(schema, STR("apiVersion"));
    const struct schema *metadata = schema_property(schema, STR("metadata"));
    const struct schema *name = metadata ? schema_property(metadata, STR("name")) : NULL;
    const struct schema *prefix = metadata ? schema_property(metadata, STR("generateName")) : NULL;

    return kind && kind->type == SCHEMA_STRING && version && version->type == SCHEMA_STRING &&
           name && name->type == SCHEMA_STRING && prefix && prefix->type == SCHEMA_STRING &&
           metadata->type == SCHEMA_OBJECT;
}

static bool is_of_resources(struct str name)
{
    return str_is(name, "apiVersion") || str_is(name, "kind") || str_is(name, "metadata");
}

/* A field counts as there where it must be: what has a default is filled in here. */
static void add_field(const struct required *required,
                      struct str name,
                      const struct schema *of,
                      const struct shape *field,
                      struct shape *shape,
                      struct shape_field *fields)
{
    if (!field)
        return;
    fields[shape->field_count++] = (struct shape_field){name, field};
    if (!of->initial && is_required(required, name))
        shape->bytes_min += name.len + field->bytes_min + MEMBER_BYTES;
}

// NOLINTNEXTLINE(misc-no-recursion)
static void shape_object(struct arena *arena,
                         const struct schema *schema,
                         bool resource,
                         struct shape *shape)
{
    static const struct str always[] = {STR("apiVersion"), STR("kind"), STR("metadata")};
    bool added = resource && !says_metadata(schema);
    struct required required = required_of(arena, schema);
    struct shape_field *fields =
        ARENA_ARRAY(arena, struct shape_field, schema->property_count + COUNT_OF(always));

    shape->object = true;
    shape->bytes_min = BRACKETS_BYTES;
    shape->fields = fields;
    for (size_t i = 0; i < schema->property_count; i++) {
        const struct schema_property *property = &schema->properties[i];

        if (!added || !is_of_resources(property->name))
            add_field(&required, property->name, property->schema,
                      shape_of(arena, property->schema, property->schema->embedded), shape, fields);
    }
    for (size_t i = 0; added && i < COUNT_OF(always); i++) {
        const struct schema *of = NULL;

        if (field_schema(schema, true, always[i], &of))
            add_field(&required, always[i], of, shape_of(arena, of, false), shape, fields);
    }
    qsort(fields, shape->field_count, sizeof(*fields), fields_compare);
}

/* A list or a map of what `of` describes. */
// NOLINTNEXTLINE(misc-no-recursion)
static bool shape_members(struct arena *arena,
                          const struct schema *schema,
                          const struct schema *of,
                          struct shape *shape)
{
    /* A comma behind an item; quotes, a name of two bytes, a colon and a comma around a value. */
    uint64_t around = shape->type == CEL_LIST ? 1 : 6;

    shape->bytes_min = BRACKETS_BYTES;
    shape->key = shape_simple(CEL_STRING);
    shape->item = of ? shape_of(arena, of, of->embedded) : NULL;
    if (!shape->item)
        return false;
    shape->max = schema->max_length >= 0
                     ? (uint64_t)schema->max_length
                     : (SHAPE_REQUEST_BYTES - BRACKETS_BYTES) / (shape->item->bytes_min + around);
    return true;
}

// NOLINTNEXTLINE(misc-no-recursion)
const struct shape *shape_of(struct arena *arena, const struct schema *schema, bool resource)
{
    struct shape *shape = ARENA_NEW(arena, struct shape);

    *shape = (struct shape){.type = field_type(schema), .bytes_min = NUMBER_BYTES_MIN};
    if (schema->int_or_string) {
        shape->max = REQUEST_TEXT_MAX;
        return shape;
    }
    switch (schema->type) {
    case SCHEMA_ANY: return NULL;
    case SCHEMA_ARRAY: return shape_members(arena, schema, schema->items, shape) ? shape : NULL;
    case SCHEMA_OBJECT:
        if (!schema->additional)
            shape_object(arena, schema, resource, shape);
        else if (!shape_members(arena, schema, schema->additional, shape))
            return NULL;
        break;
    case SCHEMA_STRING: shape_text(schema, shape); break;
    case SCHEMA_BOOLEAN: shape->bytes_min = BOOL_BYTES_MIN; break;
    case SCHEMA_INTEGER:
    case SCHEMA_NUMBER: break;
    }
    return shape;
}
