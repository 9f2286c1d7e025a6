#include "fuzz/oracle.h"

#include "base/buf.h"
#include "base/str.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* In a file of its own: jansson's names are also ours. Strings are written byte by byte in
 * hexadecimal, so that no escaping rule can hide a difference. */
static void write_text(struct buf *buf, const char *text, size_t len)
{
    buf_addc(buf, '"');
    for (size_t i = 0; i < len; i++)
        buf_addf(buf, "%02x", (unsigned)(unsigned char)text[i]);
    buf_addc(buf, '"');
}

void oracle_real(struct buf *buf, double value)
{
    buf_addf(buf, "%.17g", value);
}

// NOLINTNEXTLINE(misc-no-recursion)
static void write_tree(struct buf *buf, json_t *value)
{
    const char *key = NULL;
    size_t key_len = 0;
    size_t index = 0;
    json_t *child = NULL;

    switch (json_typeof(value)) {
    case JSON_NULL: buf_add(buf, STR("null")); break;
    case JSON_TRUE: buf_add(buf, STR("true")); break;
    case JSON_FALSE: buf_add(buf, STR("false")); break;
    case JSON_INTEGER: buf_addf(buf, "%lld", (long long)json_integer_value(value)); break;
    case JSON_REAL: oracle_real(buf, json_real_value(value)); break;
    case JSON_STRING: write_text(buf, json_string_value(value), json_string_length(value)); break;
    case JSON_ARRAY:
        buf_addc(buf, '[');
        json_array_foreach(value, index, child)
        {
            write_tree(buf, child);
            buf_addc(buf, ',');
        }
        buf_addc(buf, ']');
        break;
    case JSON_OBJECT:
        buf_addc(buf, '{');
        for (void *at = json_object_iter(value); at; at = json_object_iter_next(value, at)) {
            key = json_object_iter_key(at);
            key_len = json_object_iter_key_len(at);
            write_text(buf, key, key_len);
            buf_addc(buf, ':');
            write_tree(buf, json_object_iter_value(at));
            buf_addc(buf, ',');
        }
        buf_addc(buf, '}');
        break;
    }
}

enum oracle oracle_json(struct str text, struct buf *ret_canonical)
{
    json_error_t error = {0};

    /* It passes over a NUL behind a number. */
    if (str_find(text, '\0') < text.len)
        return ORACLE_LIMITED;
    json_t *tree =
        json_loadb(text.p ? text.p : "", text.len, JSON_DECODE_ANY | JSON_ALLOW_NUL, &error);

    if (!tree) {
        enum json_error_code code = json_error_code(&error);

        /* It reports these limits as errors of syntax. */
        bool limited = code == json_error_numeric_overflow || code == json_error_null_byte_in_key ||
                       code == json_error_stack_overflow || strstr(error.text, "Unicode");
        return limited ? ORACLE_LIMITED : ORACLE_REFUSED;
    }
    write_tree(ret_canonical, tree);
    json_decref(tree);
    return ORACLE_READ;
}
