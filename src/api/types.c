#include "api/types.h"

#include "base/str.h"

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
