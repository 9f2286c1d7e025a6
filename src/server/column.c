#include "server/column.h"

#include "api/kind.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/json.h"
#include "base/str.h"
#include "base/time.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STEPS_MAX 64

/* Up to the next '.' or '[' that is not escaped; \. becomes a dot. */
static struct str take_name(struct arena *arena, struct str *rest)
{
    char *name = str_c(arena, *rest);
    size_t len = 0;
    size_t at = 0;

    for (; at < rest->len && rest->p[at] != '.' && rest->p[at] != '['; at++) {
        if (rest->p[at] == '\\' && at + 1 < rest->len)
            at++;
        name[len++] = rest->p[at];
    }
    *rest = str_sub(*rest, at, rest->len);
    return (struct str){name, len};
}

static struct str unquote(struct str text)
{
    text = str_trim(text);
    if (text.len >= 2 && (text.p[0] == '\'' || text.p[0] == '"') &&
        text.p[text.len - 1] == text.p[0])
        return str_sub(text, 1, text.len - 2);
    return text;
}

/* ?(@.type=="Ready"): the first element whose member equals the value. */
static const struct json *filter(struct arena *arena, const struct json *array, struct str test)
{
    size_t equal = str_find(test, '=');
    struct str left = str_trim(str_sub(test, 0, equal));
    struct str value = str_sub(test, equal + 1, test.len);

    if (value.len && value.p[0] == '=')
        value = str_sub(value, 1, value.len);
    value = unquote(value);
    if (!str_starts(left, STR("@.")))
        return NULL;
    const char *path = str_c(arena, str_sub(left, 1, left.len));
    JSON_FOREACH(array, item) {
        const struct json *found = column_find(arena, item, path);
        struct str text = json_is(found, JSON_NUMBER) ? json_number_text(found) : json_str(found);
        if (found && str_eq(text, value))
            return item;
    }
    return NULL;
}

/* The closing bracket of the one at 0, quotes and nesting respected; rest.len when missing. */
static size_t bracket_end(struct str rest)
{
    char quote = 0;

    for (size_t i = 1; i < rest.len; i++) {
        char c = rest.p[i];

        if (quote)
            quote = c == quote ? 0 : quote;
        else if (c == '\'' || c == '"')
            quote = c;
        else if (c == ']')
            return i;
    }
    return rest.len;
}

static const struct json *bracket(struct arena *arena, const struct json *at, struct str inside)
{
    size_t colon = str_find(inside, ':');
    int64_t index = 0;

    /* Of a slice, the first element counts: [-1:] is the last of the list. */
    inside = str_trim(str_sub(inside, 0,
                              colon < inside.len && inside.p[0] != '?' && inside.p[0] != '\'' &&
                                      inside.p[0] != '"'
                                  ? colon
                                  : inside.len));
    if (!inside.len)
        return json_first(at);
    if (str_is(inside, "*"))
        return json_first(at);
    if (str_starts(inside, STR("?(")) && str_ends(inside, STR(")")))
        return filter(arena, at, str_sub(inside, 2, inside.len - 3));
    if (str_to_i64(inside, &index)) {
        if (index < 0)
            index += (int64_t)json_count(at);
        return index < 0 ? NULL : json_index(at, (size_t)index);
    }
    return json_get_str(at, unquote(inside));
}

const struct json *column_find(struct arena *arena, const struct json *root, const char *path)
{
    struct str rest = str_from(path);
    const struct json *at = root;

    for (int step = 0; rest.len && at && step < STEPS_MAX; step++) {
        if (rest.p[0] == '[') {
            size_t end = bracket_end(rest);

            if (end == rest.len)
                return NULL;
            at = bracket(arena, at, str_sub(rest, 1, end - 1));
            rest = str_sub(rest, end + 1, rest.len);
            continue;
        }
        if (rest.p[0] == '.')
            rest = str_sub(rest, 1, rest.len);
        if (!rest.len || rest.p[0] == '[')
            continue;
        at = json_get_str(at, take_name(arena, &rest));
    }
    return at;
}

void column_cell(struct arena *arena,
                 struct buf *buf,
                 const struct kind_column *column,
                 const struct json *root,
                 int64_t now_ms)
{
    const struct json *found = column_find(arena, root, column->path);
    int64_t then = 0;

    if (json_is_null(found)) {
        buf_add(buf, STR("null"));
    } else if (str_is(str_from(column->type), "date")) {
        if (time_parse(json_str(found), &then))
            json_write_string(buf, time_age(arena, now_ms > then ? now_ms - then : 0));
        else
            buf_add(buf, STR("\"<invalid>\""));
    } else if (json_is(found, JSON_STRING) || !str_is(str_from(column->type), "string")) {
        json_write(buf, found);
    } else { /* whatever it is, a string column shows its text */
        json_write_string(buf, json_text(arena, found));
    }
}
