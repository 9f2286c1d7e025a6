#include "base/arena.h"
#include "base/buf.h"
#include "base/json.h"
#include "base/str.h"
#include "base/yaml.h"
#include "base/yaml_scalar.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* The tree as block YAML: two blanks a level, list items not indented below their name, texts of
 * several lines as | blocks, and quotes only where a reader would otherwise see something else. */

static void indent(struct buf *buf, size_t depth)
{
    for (size_t i = 0; i < depth; i++)
        buf_add(buf, STR("  "));
}

static bool is_control(char c)
{
    return (unsigned char)c < 0x20 || c == 0x7f;
}

/* A text that is read back as the same string without quotes. */
static bool is_plain(struct str text)
{
    struct arena arena = {0};

    if (text.len == 0 || strchr("-?:,[]{}#&*!|>'\"%@`=<~ ", text.p[0]) ||
        text.p[text.len - 1] == ' ' || text.p[text.len - 1] == ':' || text.len > 4096)
        return false;
    for (size_t i = 0; i < text.len; i++) {
        char c = text.p[i];

        if (is_control(c) || (c == ':' && text.p[i + 1] == ' ') ||
            (c == '#' && text.p[i - 1] == ' '))
            return false;
        /* C1 controls, line separators and the BOM are special to some readers. */
        if ((unsigned char)c >= 0x80)
            return false;
    }
    bool string = json_is(yaml_scalar(&arena, text), JSON_STRING);
    arena_done(&arena);
    return string;
}

/* A text of several lines that a | block keeps exactly: no control characters but the line feed,
 * and a first line that shows where the block is indented. */
static bool is_block(struct str text)
{
    if (text.len < 2 || text.p[0] == ' ' || text.p[0] == '\n' || str_find(text, '\n') == text.len)
        return false;
    for (size_t i = 0; i < text.len; i++)
        if (text.p[i] != '\n' && (is_control(text.p[i]) || (unsigned char)text.p[i] >= 0x80))
            return false;
    return true;
}

/* The code point at p and how many bytes it has; the tree holds valid UTF-8 only. */
static unsigned code_point(const char *p, size_t *ret_len)
{
    unsigned char c = (unsigned char)p[0];
    size_t len = c < 0x80 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
    unsigned code = len == 1 ? c : c & (0x7fU >> len);

    for (size_t i = 1; i < len; i++)
        code = code << 6 | ((unsigned char)p[i] & 0x3f);
    *ret_len = len;
    return code;
}

/* What may stand in quotes as it is: printable, and no kind of line break. */
static bool is_printable(unsigned code)
{
    if (code < 0xa0)
        return code >= 0x20 && code < 0x7f && code != '"' && code != '\\';
    return code != 0x2028 && code != 0x2029 && code != 0xfeff && code != 0xfffe && code != 0xffff;
}

static void write_quoted(struct buf *buf, struct str text)
{
    size_t len = 0;

    buf_addc(buf, '"');
    for (size_t i = 0; i < text.len; i += len) {
        unsigned code = code_point(text.p + i, &len);

        if (is_printable(code))
            buf_add(buf, str_sub(text, i, len));
        else if (code == '\n')
            buf_add(buf, STR("\\n"));
        else if (code == '"' || code == '\\')
            buf_addf(buf, "\\%c", (int)code);
        else
            buf_addf(buf, "\\u%04x", code);
    }
    buf_addc(buf, '"');
}

static void write_block(struct buf *buf, struct str text, size_t depth)
{
    bool newline = text.p[text.len - 1] == '\n';
    bool several = newline && text.p[text.len - 2] == '\n';
    struct str line;

    buf_add(buf, several ? STR("|+") : newline ? STR("|") : STR("|-"));
    buf_addc(buf, '\n');
    if (newline)
        text.len--;
    while (str_cut(&text, '\n', &line)) {
        if (line.len)
            indent(buf, depth ? depth : 1); /* a block at the top is indented too */
        buf_add(buf, line);
        buf_addc(buf, '\n');
    }
}

static void write_text(struct buf *buf, struct str text, size_t depth)
{
    if (is_block(text)) {
        write_block(buf, text, depth);
        return;
    }
    if (is_plain(text))
        buf_add(buf, text);
    else
        write_quoted(buf, text);
    buf_addc(buf, '\n');
}

static void write_key(struct buf *buf, struct str key)
{
    if (is_plain(key))
        buf_add(buf, key);
    else
        write_quoted(buf, key);
    buf_addc(buf, ':');
}

static void write_value(struct buf *buf, const struct json *value, size_t depth, bool in_line);

/* `in_line`: the cursor stands behind "- ", so the first member needs no indentation. */
// NOLINTNEXTLINE(misc-no-recursion)
static void write_members(struct buf *buf, const struct json *object, size_t depth, bool in_line)
{
    JSON_FOREACH(object, member) {
        bool list = json_is(member, JSON_ARRAY);

        if (!in_line)
            indent(buf, depth);
        in_line = false;
        write_key(buf, json_key(member));
        buf_addc(buf, json_count(member) ? '\n' : ' ');
        write_value(buf, member, list ? depth : depth + 1, false);
    }
}

// NOLINTNEXTLINE(misc-no-recursion)
static void write_items(struct buf *buf, const struct json *array, size_t depth, bool in_line)
{
    JSON_FOREACH(array, item) {
        if (!in_line)
            indent(buf, depth);
        in_line = false;
        buf_add(buf, STR("- "));
        write_value(buf, item, depth + 1, true);
    }
}

// NOLINTNEXTLINE(misc-no-recursion)
static void write_value(struct buf *buf, const struct json *value, size_t depth, bool in_line)
{
    if (json_is(value, JSON_STRING)) {
        write_text(buf, json_str(value), depth);
    } else if (json_count(value) == 0) {
        json_write(buf, value); /* null, true, a number, [] and {} are the same in JSON */
        buf_addc(buf, '\n');
    } else if (json_is(value, JSON_OBJECT)) {
        write_members(buf, value, depth, in_line);
    } else {
        write_items(buf, value, depth, in_line);
    }
}

void yaml_write(struct buf *buf, const struct json *value)
{
    write_value(buf, value, 0, false);
}
