#include "cel/fieldpath.h"

#include "api/schema.h"
#include "base/arena.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>

/* One name off the front: ".name" or "['name']". */
static bool take_name(struct str *rest, struct str *ret)
{
    if (rest->p[0] == '[') {
        struct str inside = str_sub(*rest, 2, rest->len);
        size_t len = str_find(inside, '\'');

        if (!str_starts(*rest, STR("['")) || !str_starts(str_sub(inside, len, 2), STR("']")))
            return false;
        *ret = str_sub(inside, 0, len);
        *rest = str_sub(inside, len + 2, inside.len);
        return true;
    }
    if (rest->p[0] != '.')
        return false;
    struct str name = str_sub(*rest, 1, rest->len);
    size_t dot = str_find(name, '.');
    size_t bracket = str_find(name, '[');
    *ret = str_sub(name, 0, dot < bracket ? dot : bracket);
    *rest = str_sub(name, ret->len, name.len);
    return ret->len > 0;
}

bool fieldpath_text(struct arena *arena,
                    const struct schema *schema,
                    struct str path,
                    struct str *ret)
{
    struct str text = STR("");

    while (path.len) {
        struct str name = STR_NONE;
        bool named = schema->property_count > 0;

        if (!take_name(&path, &name))
            return false;
        schema = schema_property(schema, name);
        if (!schema)
            return false;
        text = str_printf(arena, named ? STR_FMT "." STR_FMT : STR_FMT "[" STR_FMT "]",
                          STR_ARG(text), STR_ARG(name));
    }
    *ret = text;
    return text.len > 0;
}
