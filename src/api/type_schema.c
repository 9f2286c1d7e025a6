#include "api/schema.h"
#include "api/types.h"
#include "base/arena.h"
#include "base/json.h"
#include "base/str.h"
#include "base/vec.h"

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Types refer to each other, some of them several times and some to themselves, so each is made
 * once and known before its fields are. */

struct properties VEC_FIELDS(struct schema_property);

static const struct schema *make_type(struct type_schemas *making,
                                      const struct type *type,
                                      bool own);

static struct schema *plain(struct type_schemas *making, enum schema_type type)
{
    struct schema *schema = ARENA_NEW(making->arena, struct schema);

    schema->type = type;
    schema->min_length = schema->max_length = -1;
    return schema;
}

static struct schema *with_format(struct schema *schema, struct str format)
{
    schema->format = format;
    return schema;
}

/* Anything at all, with whatever is in it. */
static struct schema *anything(struct type_schemas *making)
{
    struct schema *schema = plain(making, SCHEMA_ANY);

    schema->preserve_unknown = schema->nullable = true;
    return schema;
}

static struct schema *make_scalar(struct type_schemas *making, enum type_form form)
{
    struct schema *schema = NULL;

    switch (form) {
    case TYPE_STRING: return plain(making, SCHEMA_STRING);
    case TYPE_BYTES: return with_format(plain(making, SCHEMA_STRING), STR("byte"));
    case TYPE_INT32: return with_format(plain(making, SCHEMA_INTEGER), STR("int32"));
    case TYPE_INT64: return plain(making, SCHEMA_INTEGER);
    case TYPE_BOOL: return plain(making, SCHEMA_BOOLEAN);
    case TYPE_DOUBLE: return plain(making, SCHEMA_NUMBER);
    case TYPE_TIME:
    case TYPE_MICROTIME: return with_format(plain(making, SCHEMA_STRING), STR("date-time"));
    case TYPE_QUANTITY: /* they may be fractions without quotes */
        schema = plain(making, SCHEMA_ANY);
        schema->quantity = true;
        schema->amount = !making->as_written;
        return schema;
    case TYPE_INT_OR_STRING:
        schema = plain(making, SCHEMA_ANY);
        schema->int_or_string = true;
        return schema;
    case TYPE_JSON:
    case TYPE_MESSAGE: break;
    }
    return anything(making);
}

/* The texts that there are; an empty one is none. */
static const struct json *allowed_of(struct arena *arena, const char *words)
{
    struct json *allowed = json_new_array(arena);
    struct str rest = str_from(words);
    struct str word;

    while (str_cut(&rest, '|', &word))
        json_push(allowed, json_new_str(arena, word));
    json_push(allowed, json_new_str(arena, STR("")));
    return allowed;
}

/* What is written in another kind is held to what the table says of values here: it becomes an object of
 * its type later, and would be refused then. */
static const struct schema *with_bounds(struct type_schemas *making,
                                        const struct type_field *field,
                                        const struct schema *value)
{
    bool least = field->min != INT64_MIN;
    bool most = field->max != INT64_MAX;

    if (!making->as_written || field->form == TYPE_MESSAGE || !(least || most || field->words))
        return value;
    struct schema *own = ARENA_NEW(making->arena, struct schema);

    *own = *value;
    own->allowed = field->words ? allowed_of(making->arena, field->words) : NULL;
    own->minimum = least ? json_new_i64(making->arena, field->min) : NULL;
    own->maximum = most ? json_new_i64(making->arena, field->max) : NULL;
    return own;
}

/* What a message is whose fields are being made. */
struct inside {
    bool whole;  /* with its metadata */
    bool root;   /* the object */
    bool object; /* or what stands in it directly */
};

/* A schema of its own where the field says more than the type does. */
// NOLINTNEXTLINE(misc-no-recursion)
static const struct schema *make_field(struct type_schemas *making,
                                       const struct type_field *field,
                                       struct inside inside)
{
    const struct schema *value =
        field->form == TYPE_MESSAGE
            ? make_type(making, field->type, inside.root)
            : with_bounds(making, field, make_scalar(making, (enum type_form)field->form));
    bool filled =
        field->initial && !making->as_written && (inside.object || !(field->flags & TYPE_OWN));
    struct schema *own = NULL;
    struct json *initial = NULL;

    if (field->flags & (TYPE_LIST | TYPE_MAP)) {
        own = plain(making, field->flags & TYPE_LIST ? SCHEMA_ARRAY : SCHEMA_OBJECT);
        own->items = field->flags & TYPE_LIST ? value : NULL;
        own->additional = field->flags & TYPE_MAP ? value : NULL;
    } else if (filled) {
        own = ARENA_NEW(making->arena, struct schema);
        *own = *value;
    }
    if (filled) {
        int r = json_parse(making->arena, str_from(field->initial), &initial, NULL);
        assert(r == 0);
        own->initial = initial;
        own->initial_when = field->when;
    }
    return own ? own : value;
}

static bool has_property(const struct properties *properties, const char *name)
{
    for (size_t i = 0; i < properties->count; i++)
        if (str_is(properties->items[i].name, name))
            return true;
    return false;
}

/* A field of Go's that is no pointer, and left out of JSON where it is empty. */
static bool is_weak(const struct type_field *field)
{
    return !(field->flags & TYPE_KEEP) || ((field->flags & TYPE_REQUIRED) && field->initial);
}

// NOLINTNEXTLINE(misc-no-recursion)
static void add_fields(struct type_schemas *making,
                       const struct type *type,
                       struct inside inside,
                       struct properties *properties)
{
    for (size_t i = 0; i < type->field_count; i++) {
        const struct type_field *field = &type->fields[i];

        if (field->flags & TYPE_INLINE) {
            add_fields(making, field->type, (struct inside){.whole = true}, properties);
        } else if ((inside.whole || !str_is(str_from(field->name), "metadata")) &&
                   !has_property(properties, field->name)) {
            struct schema_property property = {.name = str_from(field->name),
                                               .schema = make_field(making, field, inside),
                                               .weak = !making->as_written && is_weak(field)};

            VEC_PUSH(making->arena, properties, property);
        }
    }
}

/* Of a kind within another object, its name is part of it. */
static void add_identity(struct type_schemas *making, struct properties *properties)
{
    static const char *const names[] = {"apiVersion", "kind"};

    for (size_t i = 0; i < 2; i++) {
        struct schema_property property = {.name = str_from(names[i]),
                                           .schema = plain(making, SCHEMA_STRING)};

        if (!has_property(properties, names[i]))
            VEC_PUSH(making->arena, properties, property);
    }
}

// NOLINTNEXTLINE(misc-no-recursion)
static const struct schema *make_type(struct type_schemas *making,
                                      const struct type *type,
                                      bool own)
{
    struct properties properties = {0};

    for (size_t i = 0; i < making->types.count; i++)
        if (making->types.items[i].type == type && making->types.items[i].own == own)
            return making->types.items[i].schema;
    struct schema *schema = type->bare ? anything(making) : plain(making, SCHEMA_OBJECT);
    VEC_PUSH(making->arena, &making->types, (struct type_made){type, own, schema});
    if (type->bare)
        return schema;
    if (type->kind)
        add_identity(making, &properties);
    add_fields(making, type, (struct inside){.whole = true, .object = own}, &properties);
    schema->properties = properties.items;
    schema->property_count = properties.count;
    return schema;
}

const struct schema *type_schema(struct arena *arena, const struct type *type)
{
    struct type_schemas making = {.arena = arena};
    struct properties properties = {0};
    struct schema *schema = plain(&making, SCHEMA_OBJECT);

    add_fields(&making, type,
               (struct inside){.whole = !type->kind, .root = type->kind, .object = true},
               &properties);
    schema->properties = properties.items;
    schema->property_count = properties.count;
    return schema;
}

void type_schema_complete(struct type_schemas *schemas,
                          const struct type *type,
                          struct schema *schema)
{
    struct properties properties = {0};

    for (size_t i = 0; i < schema->property_count; i++)
        VEC_PUSH(schemas->arena, &properties, schema->properties[i]);
    if (type->kind)
        add_identity(schemas, &properties);
    add_fields(schemas, type, (struct inside){.whole = true}, &properties);
    schema->properties = properties.items;
    schema->property_count = properties.count;
    schema->preserve_unknown = false;
}
