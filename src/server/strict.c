#include "server/strict.h"

#include "api/kind.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "base/str.h"
#include "server/shape.h"

#include <stdbool.h>
#include <stddef.h>

#define UNKNOWN_MAX 20 /* fields that one answer names */
#define DEPTH_MAX   32

struct check {
    struct buf *out;
    size_t count;
    int depth;
};

static void note(struct check *check, struct str path, struct str key)
{
    if (check->count++ >= UNKNOWN_MAX)
        return;
    if (check->out->len)
        buf_add(check->out, STR(", "));
    buf_addf(check->out, "unknown field \"" STR_FMT "%s" STR_FMT "\"", STR_ARG(path),
             path.len ? "." : "", STR_ARG(key));
}

static void check_object(struct check *check,
                         struct arena *arena,
                         const struct json *object,
                         struct str lines,
                         struct str path);

static void check_value(struct check *check,
                        struct arena *arena,
                        const struct json *value,
                        const struct shape_field *field,
                        struct str path)
{
    struct shape shape;
    size_t index = 0;

    if (field->type.p[0] < 'A' || field->type.p[0] > 'Z' || !shape_find(field->type, &shape))
        return;
    if (!field->list && !field->map) {
        check_object(check, arena, value, shape.lines, path);
        return;
    }
    JSON_FOREACH(value, item) {
        struct str at = field->list ? str_printf(arena, STR_FMT "[%zu]", STR_ARG(path), index++)
                                    : str_printf(arena, STR_FMT "." STR_FMT, STR_ARG(path),
                                                 STR_ARG(json_key(item)));
        check_object(check, arena, item, shape.lines, at);
    }
}

static bool find_field(struct str lines, struct str name, struct shape_field *ret)
{
    while (shape_next(&lines, ret))
        if (str_eq(ret->name, name))
            return true;
    return false;
}

static void check_object(struct check *check,
                         struct arena *arena,
                         const struct json *object,
                         struct str lines,
                         struct str path)
{
    struct shape_field field;

    if (!json_is(object, JSON_OBJECT) || ++check->depth > DEPTH_MAX)
        return;
    JSON_FOREACH(object, member) {
        struct str key = json_key(member);

        if (key.len && key.p[0] == '$') /* directives of a strategic merge patch */
            continue;
        if (!find_field(lines, key, &field)) {
            note(check, path, key);
            continue;
        }
        struct str at =
            path.len ? str_printf(arena, STR_FMT "." STR_FMT, STR_ARG(path), STR_ARG(key)) : key;
        check_value(check, arena, member, &field, at);
    }
    check->depth--;
}

void strict_check(struct arena *arena,
                  const struct kind *kind,
                  const struct json *root,
                  struct buf *out)
{
    struct check check = {.out = out};
    struct shape shape;
    struct shape meta;

    if (kind->custom || !shape_find(str_from(kind->name), &shape) ||
        !shape_find(STR("ObjectMeta"), &meta))
        return;
    struct str lines =
        str_printf(arena, STR_FMT " apiVersion s -\n kind s -\n metadata ObjectMeta -\n",
                   STR_ARG(shape.lines));
    check_object(&check, arena, root, lines, STR(""));
}
