#include "api/shape.h"

#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>

static const char *const shape_texts[] = {shape_core_text, shape_pod_text,    shape_volume_text,
                                          shape_apps_text, shape_stored_text, NULL};

/* A type begins with a line that is not indented and ends before the next such line. */
static bool next_type(struct str *text, struct str *ret_name, struct shape *ret)
{
    struct str line;

    if (!text->len || !str_cut(text, '\n', &line) || !line.len)
        return false;
    size_t colon = str_find(line, ':');
    *ret_name = str_sub(line, 0, colon);
    ret->about = str_trim(str_sub(line, colon + 1, line.len));
    ret->lines = (struct str){text->p, 0};
    while (text->len && text->p[0] == ' ') {
        (void)str_cut(text, '\n', &line);
        ret->lines.len += line.len + 1;
    }
    return true;
}

bool shape_find(struct str type, struct shape *ret)
{
    for (size_t i = 0; shape_texts[i]; i++) {
        struct str text = str_from(shape_texts[i]);
        struct str name;
        struct shape shape;

        while (next_type(&text, &name, &shape))
            if (str_eq(name, type)) {
                *ret = shape;
                return true;
            }
    }
    return false;
}

bool shape_at(size_t index, struct str *ret_type)
{
    for (size_t i = 0; shape_texts[i]; i++) {
        struct str text = str_from(shape_texts[i]);
        struct shape shape;

        while (next_type(&text, ret_type, &shape))
            if (index-- == 0)
                return true;
    }
    return false;
}

bool shape_next(struct str *lines, struct shape_field *ret)
{
    struct str line;
    struct str type;
    struct shape_field field = {0};

    if (!lines->len || !str_cut(lines, '\n', &line))
        return false;
    line = str_trim(line);
    (void)str_cut(&line, ' ', &field.name);
    if (!str_cut(&line, ' ', &type))
        return false;
    field.about = line.p ? line : STR("");
    field.list = str_starts(type, STR("[]"));
    field.map = str_starts(type, STR("{}"));
    if (field.list || field.map)
        type = str_sub(type, 2, type.len);
    field.required = str_ends(type, STR("!"));
    if (field.required)
        type.len--;
    field.type = type;
    *ret = field;
    return true;
}
