#include "api/types.h"

#include "api/kind.h"
#include "base/arena.h"
#include "base/json.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

const struct type *type_of_kind(struct str api_version, struct str kind)
{
    for (size_t i = 0; i < type_count; i++)
        if (types[i].kind && str_is(kind, types[i].name) &&
            (types[i].anywhere || str_is(api_version, types[i].version)))
            return &types[i];
    return NULL;
}

const struct type *type_named(struct str version, struct str name)
{
    /* Asked with every pod: most names differ in their first letter. */
    for (size_t i = 0; i < type_count; i++)
        if (name.len && types[i].name[0] == name.p[0] && str_is(name, types[i].name) &&
            str_is(version, types[i].version))
            return &types[i];
    return NULL;
}

const struct type *type_titled(struct str title)
{
    size_t dot = title.len;

    while (dot && title.p[dot - 1] != '.')
        dot--;
    return dot ? type_named(str_sub(title, 0, dot - 1), str_sub(title, dot, title.len)) : NULL;
}

struct str type_field_key(const struct type_field *field, size_t n)
{
    struct str rest = field->keys ? str_from(field->keys) : STR("");
    struct str key;

    while (str_cut(&rest, ',', &key))
        if (n-- == 0)
            return key;
    return STR("");
}

const struct type_field *type_field_numbered(const struct type *type, uint32_t number)
{
    size_t low = 0;
    size_t high = type->field_count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (type->fields[middle].number == number)
            return &type->fields[middle];
        if (type->fields[middle].number < number)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

const struct type_field *type_field_named(const struct type *type, struct str name)
{
    for (size_t i = 0; i < type->field_count; i++) {
        const struct type_field *field = &type->fields[i];

        if (field->flags & TYPE_INLINE)
            field = type_field_named(field->type, name);
        else if (!str_is(name, field->name))
            field = NULL;
        if (field)
            return field;
    }
    return NULL;
}

struct type_place type_place_root(const struct kind *kind)
{
    char version[KIND_API_VERSION_BYTES];

    if (kind->custom)
        return (struct type_place){
            .type = type_named(STR("meta.k8s.io/v1"), STR("PartialObjectMetadata"))};
    return (struct type_place){
        .type = type_of_kind(kind_api_version(kind, version), str_from(kind->name))};
}

struct type_place type_place_below(struct type_place place, struct str name)
{
    const struct type_field *field = NULL;

    if (place.field && (place.field->flags & TYPE_MAP))
        return (struct type_place){.type = place.type};
    if (place.type)
        field = type_field_named(place.type, name);
    return (struct type_place){.type = field ? field->type : NULL, .field = field};
}

/* NULL: it is left out. */
static struct json *empty_field(struct arena *arena, const struct type_field *field)
{
    bool many = field->flags & (TYPE_LIST | TYPE_MAP);

    if (field->flags & TYPE_ALWAYS)
        return type_empty(arena, field->type);
    if (!(field->flags & TYPE_REQUIRED))
        return NULL;
    switch (many ? TYPE_MESSAGE : (enum type_form)field->form) {
    case TYPE_STRING:
    case TYPE_BYTES: return json_new_str(arena, STR(""));
    case TYPE_INT32:
    case TYPE_INT64:
    case TYPE_DOUBLE:
    case TYPE_INT_OR_STRING: return json_new_i64(arena, 0);
    case TYPE_BOOL: return json_new_bool(arena, false);
    case TYPE_QUANTITY: return json_new_str(arena, STR("0"));
    case TYPE_TIME:
    case TYPE_MICROTIME:
    case TYPE_JSON:
    case TYPE_MESSAGE: break;
    }
    return many || (field->flags & TYPE_KEEP) ? json_new_null(arena) : NULL;
}

static void add_empty(struct arena *arena, const struct type *type, struct json *object)
{
    for (size_t i = 0; i < type->field_count; i++) {
        const struct type_field *field = &type->fields[i];

        if (field->flags & TYPE_INLINE) {
            add_empty(arena, field->type, object);
            continue;
        }
        struct json *value = empty_field(arena, field);
        if (value)
            json_set(object, str_from(field->name), value);
    }
}

struct json *type_empty(struct arena *arena, const struct type *type)
{
    struct json *object = json_new_object(arena);

    add_empty(arena, type, object);
    return object;
}
