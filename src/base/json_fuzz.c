#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "fuzz/fuzz.h"
#include "fuzz/oracle.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Any text: read or refused with a place; what was read is what jansson reads, and survives being
 * written and read again. */

static void write_text(struct buf *buf, struct str text)
{
    buf_addc(buf, '"');
    for (size_t i = 0; i < text.len; i++)
        buf_addf(buf, "%02x", (unsigned)(unsigned char)text.p[i]);
    buf_addc(buf, '"');
}

static bool is_whole(struct str number)
{
    return str_find(number, '.') == number.len && str_find(number, 'e') == number.len &&
           str_find(number, 'E') == number.len;
}

static void write_number(struct arena *arena, struct buf *buf, struct str number)
{
    int64_t whole = 0;

    if (is_whole(number) && str_to_i64(number, &whole))
        buf_addf(buf, "%lld", (long long)whole);
    else
        oracle_real(buf, strtod(str_c(arena, number), NULL)); // NOLINT(bugprone-unsafe-functions)
}

/* The form of oracle_json(). */
// NOLINTNEXTLINE(misc-no-recursion)
static void write_tree(struct arena *arena, struct buf *buf, const struct json *value)
{
    switch (value->type) {
    case JSON_NULL:
    case JSON_BOOL: json_write(buf, value); break;
    case JSON_NUMBER: write_number(arena, buf, json_number_text(value)); break;
    case JSON_STRING: write_text(buf, json_str(value)); break;
    case JSON_ARRAY:
    case JSON_OBJECT:
        buf_addc(buf, value->type == JSON_OBJECT ? '{' : '[');
        JSON_FOREACH(value, child) {
            if (value->type == JSON_OBJECT) {
                write_text(buf, json_key(child));
                buf_addc(buf, ':');
            }
            write_tree(arena, buf, child);
            buf_addc(buf, ',');
        }
        buf_addc(buf, value->type == JSON_OBJECT ? '}' : ']');
        break;
    }
}

static void compare(struct arena *arena,
                    struct str input,
                    const struct json *value,
                    const struct err *err)
{
    _cleanup_(buf_done) struct buf theirs = {0};
    _cleanup_(buf_done) struct buf ours = {0};
    enum oracle oracle = oracle_json(input, &theirs);

    if (oracle == ORACLE_ABSENT || oracle == ORACLE_LIMITED)
        return;
    if (!value) {
        /* Our own limits are lower; everything else both refuse. */
        FUZZ_HOLDS(oracle == ORACLE_REFUSED || strstr(err->text, "nested too deeply") ||
                   strstr(err->text, "too many members"));
        return;
    }
    FUZZ_HOLDS(oracle == ORACLE_READ);
    write_tree(arena, &ours, value);
    FUZZ_HOLDS(str_eq(buf_str(&ours), buf_str(&theirs)));
}

FUZZ(json)
{
    struct arena arena = {0};
    struct json *value = NULL;
    struct json *again = NULL;
    struct err err = {0};

    int r = json_parse(&arena, input, &value, &err);
    FUZZ_HOLDS((r == 0) == (value != NULL));
    FUZZ_HOLDS(r == 0 || strncmp(err.text, "line ", 5) == 0);
    compare(&arena, input, value, &err);
    if (r == 0) {
        struct str text = json_text(&arena, value);

        FUZZ_HOLDS(json_parse_strict(&arena, text, &again, NULL) == 0);
        FUZZ_HOLDS(json_equal(value, again) && json_equal(value, json_clone(&arena, value)));
        FUZZ_HOLDS(str_eq(text, json_text(&arena, again)));
    } else {
        FUZZ_HOLDS(json_parse_strict(&arena, input, &again, NULL) < 0);
    }
    arena_done(&arena);
}
