#include "api/schema.h"
#include "api/shape.h"
#include "base/arena.h"
#include "base/str.h"
#include "base/vec.h"

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>

/* Types refer to each other, some of them several times, so each is made once. None contains
 * itself. */

struct made {
    struct str name;
    const struct schema *schema;
};

struct making {
    struct arena *arena;
    VEC(struct made) types;
};

static const struct schema *make_type(struct making *making, struct str name);

static struct schema *plain(struct making *making, enum schema_type type)
{
    struct schema *schema = ARENA_NEW(making->arena, struct schema);

    schema->type = type;
    schema->min_length = schema->max_length = -1;
    return schema;
}

// NOLINTNEXTLINE(misc-no-recursion)
static const struct schema *make_value(struct making *making, struct str type)
{
    struct schema *schema = NULL;

    switch (type.p[0]) {
    case 's':
    case 'y': return plain(making, SCHEMA_STRING);
    case 'i': return plain(making, SCHEMA_INTEGER);
    case 'b': return plain(making, SCHEMA_BOOLEAN);
    case 'q': return plain(making, SCHEMA_ANY); /* quantities may be fractions without quotes */
    case 'x':
        schema = plain(making, SCHEMA_ANY);
        schema->int_or_string = true;
        return schema;
    case 't':
        schema = plain(making, SCHEMA_STRING);
        schema->format = STR("date-time");
        return schema;
    case 'o':
        schema = plain(making, SCHEMA_OBJECT);
        schema->preserve_unknown = true;
        return schema;
    default: return make_type(making, type);
    }
}

// NOLINTNEXTLINE(misc-no-recursion)
static const struct schema *make_field(struct making *making, const struct shape_field *field)
{
    const struct schema *value = make_value(making, field->type);

    if (!field->list && !field->map)
        return value;
    struct schema *many = plain(making, field->list ? SCHEMA_ARRAY : SCHEMA_OBJECT);
    if (field->list)
        many->items = value;
    else
        many->additional = value;
    return many;
}

// NOLINTNEXTLINE(misc-no-recursion)
static const struct schema *make_type(struct making *making, struct str name)
{
    struct shape shape;
    struct shape_field field;
    VEC(struct schema_property) properties = {0};

    for (size_t i = 0; i < making->types.count; i++)
        if (str_eq(making->types.items[i].name, name))
            return making->types.items[i].schema;
    if (!shape_find(name, &shape))
        return NULL;
    while (shape_next(&shape.lines, &field)) {
        struct schema_property property = {.name = field.name,
                                           .schema = make_field(making, &field)};

        assert(property.schema);
        VEC_PUSH(making->arena, &properties, property);
    }
    struct schema *schema = plain(making, SCHEMA_OBJECT);
    schema->properties = properties.items;
    schema->property_count = properties.count;
    VEC_PUSH(making->arena, &making->types, (struct made){name, schema});
    return schema;
}

const struct schema *shape_schema(struct arena *arena, struct str type)
{
    struct making making = {.arena = arena};

    return make_type(&making, type);
}
