#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "base/json_scan.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* Tree to text. */

/* What stands for a character that cannot stand for itself. */
static void write_escape(struct buf *buf, unsigned char c)
{
    static const char hex[] = "0123456789abcdef";
    char escape[6] = {'\\', 0, '0', '0', 0, 0};
    size_t len = 2;

    switch (c) {
    case '\n': escape[1] = 'n'; break;
    case '\t': escape[1] = 't'; break;
    case '\r': escape[1] = 'r'; break;
    case '"':
    case '\\': escape[1] = (char)c; break;
    default:
        escape[1] = 'u';
        escape[4] = hex[c >> 4];
        escape[5] = hex[c & 15];
        len = 6;
    }
    buf_add(buf, (struct str){escape, len});
}

void json_write_string(struct buf *buf, struct str text)
{
    const char *at = text.p ? text.p : "";
    const char *end = at + text.len;

    buf_addc(buf, '"');
    for (;;) {
        const char *stop = scan_plain(at, end);

        buf_add(buf, (struct str){at, (size_t)(stop - at)});
        if (stop == end)
            break;
        write_escape(buf, (unsigned char)*stop);
        at = stop + 1;
    }
    buf_addc(buf, '"');
}

/* `depth` < 0 writes without line breaks. */
static void write_break(struct buf *buf, int depth)
{
    if (depth < 0)
        return;
    buf_addc(buf, '\n');
    for (int i = 0; i < depth; i++)
        buf_add(buf, STR("    "));
}

static void write_value(struct buf *buf, const struct json *value, int depth);

// NOLINTNEXTLINE(misc-no-recursion)
static void write_children(struct buf *buf, const struct json *parent, int depth)
{
    int inner = depth < 0 ? depth : depth + 1;
    bool object = json_is(parent, JSON_OBJECT);
    char before = object ? '{' : '[';

    JSON_FOREACH(parent, child) {
        buf_addc(buf, before);
        before = ',';
        write_break(buf, inner);
        if (object) {
            json_write_string(buf, json_key(child));
            buf_addc(buf, ':');
            if (depth >= 0)
                buf_addc(buf, ' ');
        }
        write_value(buf, child, inner);
    }
    if (json_count(parent) == 0)
        buf_addc(buf, before);
    else
        write_break(buf, depth);
    buf_addc(buf, object ? '}' : ']');
}

// NOLINTNEXTLINE(misc-no-recursion)
static void write_value(struct buf *buf, const struct json *value, int depth)
{
    switch (value ? value->type : JSON_NULL) {
    case JSON_NULL: buf_add(buf, STR("null")); break;
    case JSON_BOOL: buf_add(buf, value->truth ? STR("true") : STR("false")); break;
    case JSON_NUMBER: buf_add(buf, json_number_text(value)); break;
    case JSON_STRING: json_write_string(buf, json_str(value)); break;
    case JSON_ARRAY:
    case JSON_OBJECT: write_children(buf, value, depth); break;
    }
}

void json_write(struct buf *buf, const struct json *value)
{
    write_value(buf, value, -1);
}

void json_write_pretty(struct buf *buf, const struct json *value)
{
    write_value(buf, value, 0);
    buf_addc(buf, '\n');
}

struct str json_text(struct arena *arena, const struct json *value)
{
    _cleanup_(buf_done) struct buf buf = {0};

    json_write(&buf, value);
    return str_dup(arena, buf_str(&buf));
}
