#include "base/arena.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Text to tree, by recursive descent with an explicit depth. The cursor never passes `end`; an
 * error records where it stood, and line and column are worked out only then. */
struct parser {
    struct arena *arena;
    const char *start;
    const char *at;
    const char *end;
    const char *problem; /* what is wrong at `at`, NULL while all is well */
    unsigned depth;
};

static bool fail(struct parser *parser, const char *problem)
{
    if (!parser->problem)
        parser->problem = problem;
    return false;
}

static void skip_space(struct parser *parser)
{
    while (parser->at < parser->end && (*parser->at == ' ' || *parser->at == '\n' ||
                                        *parser->at == '\t' || *parser->at == '\r'))
        parser->at++;
}

static bool take(struct parser *parser, char c)
{
    if (parser->at >= parser->end || *parser->at != c)
        return false;
    parser->at++;
    return true;
}

/* Length of the valid UTF-8 sequence at p, 0 if there is none (overlong forms and surrogates are
 * not valid). */
static size_t utf8_len(const unsigned char *p, size_t left)
{
    unsigned char c = p[0];

    if (c < 0x80)
        return 1;
    if (c >= 0xC2 && c <= 0xDF)
        return left >= 2 && (p[1] & 0xC0) == 0x80 ? 2 : 0;
    if (c >= 0xE0 && c <= 0xEF) {
        if (left < 3 || (p[1] & 0xC0) != 0x80 || (p[2] & 0xC0) != 0x80)
            return 0;
        if ((c == 0xE0 && p[1] < 0xA0) || (c == 0xED && p[1] > 0x9F))
            return 0;
        return 3;
    }
    if (c >= 0xF0 && c <= 0xF4) {
        if (left < 4 || (p[1] & 0xC0) != 0x80 || (p[2] & 0xC0) != 0x80 || (p[3] & 0xC0) != 0x80)
            return 0;
        if ((c == 0xF0 && p[1] < 0x90) || (c == 0xF4 && p[1] > 0x8F))
            return 0;
        return 4;
    }
    return 0;
}

static bool hex4(struct parser *parser, uint32_t *ret)
{
    uint32_t value = 0;

    if (parser->end - parser->at < 4)
        return fail(parser, "\\u needs four hexadecimal digits");
    for (int i = 0; i < 4; i++) {
        char c = parser->at[i];
        uint32_t digit = c >= '0' && c <= '9'   ? (uint32_t)(c - '0')
                         : c >= 'a' && c <= 'f' ? (uint32_t)(c - 'a') + 10
                         : c >= 'A' && c <= 'F' ? (uint32_t)(c - 'A') + 10
                                                : 16;
        if (digit == 16)
            return fail(parser, "\\u needs four hexadecimal digits");
        value = value * 16 + digit;
    }
    parser->at += 4;
    *ret = value;
    return true;
}

static size_t utf8_put(uint32_t code, char *out)
{
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    if (code < 0x800) {
        out[0] = (char)(0xC0 | (code >> 6));
        out[1] = (char)(0x80 | (code & 0x3F));
        return 2;
    }
    if (code < 0x10000) {
        out[0] = (char)(0xE0 | (code >> 12));
        out[1] = (char)(0x80 | ((code >> 6) & 0x3F));
        out[2] = (char)(0x80 | (code & 0x3F));
        return 3;
    }
    out[0] = (char)(0xF0 | (code >> 18));
    out[1] = (char)(0x80 | ((code >> 12) & 0x3F));
    out[2] = (char)(0x80 | ((code >> 6) & 0x3F));
    out[3] = (char)(0x80 | (code & 0x3F));
    return 4;
}

/* Behind a backslash: append what the escape stands for. A lone surrogate becomes U+FFFD, as Go's
 * decoder does. */
static bool unescape(struct parser *parser, char *out, size_t *out_len)
{
    static const char from[] = "\"\\/bfnrt";
    static const char to[] = "\"\\/\b\f\n\r\t";
    uint32_t code = 0;
    uint32_t low = 0;

    if (parser->at >= parser->end)
        return fail(parser, "the text ends inside a string");
    char c = *parser->at;
    const char *simple = c ? strchr(from, c) : NULL;
    if (simple) {
        parser->at++;
        out[(*out_len)++] = to[simple - from];
        return true;
    }
    if (c != 'u')
        return fail(parser, "unknown escape in a string");
    parser->at++;
    if (!hex4(parser, &code))
        return false;
    if (code >= 0xD800 && code < 0xDC00 && parser->end - parser->at >= 6 && parser->at[0] == '\\' &&
        parser->at[1] == 'u') {
        const char *rewind = parser->at;

        parser->at += 2;
        if (!hex4(parser, &low))
            return false;
        if (low >= 0xDC00 && low < 0xE000)
            code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
        else
            parser->at = rewind;
    }
    if (code >= 0xD800 && code < 0xE000)
        code = 0xFFFD;
    *out_len += utf8_put(code, out + *out_len);
    return true;
}

/* The plain run from the cursor to the next quote, backslash or problem. */
static bool skip_plain(struct parser *parser)
{
    while (parser->at < parser->end) {
        unsigned char c = (unsigned char)*parser->at;

        if (c == '"' || c == '\\')
            return true;
        if (c < 0x20)
            return fail(parser, "control character in a string");
        if (c < 0x80) {
            parser->at++;
            continue;
        }
        size_t len =
            utf8_len((const unsigned char *)parser->at, (size_t)(parser->end - parser->at));
        if (!len)
            return fail(parser, "invalid UTF-8 in a string");
        parser->at += len;
    }
    return fail(parser, "the text ends inside a string");
}

/* Behind the opening quote. */
static bool parse_string(struct parser *parser, struct str *ret)
{
    const char *start = parser->at;

    if (!skip_plain(parser))
        return false;
    if (*parser->at == '"') {
        *ret = (struct str){start, (size_t)(parser->at - start)};
        parser->at++;
        return true;
    }

    /* With escapes the value is never longer than its text; find the end to size the copy. */
    const char *end = parser->at;
    while (end < parser->end && *end != '"')
        end += *end == '\\' ? 2 : 1;
    if (end >= parser->end)
        return fail(parser, "the text ends inside a string");
    char *out = ARENA_ARRAY(parser->arena, char, (size_t)(end - start) + 1);
    size_t len = 0;
    for (parser->at = start;;) {
        const char *run = parser->at;

        if (!skip_plain(parser))
            return false;
        memcpy(out + len, run, (size_t)(parser->at - run));
        len += (size_t)(parser->at - run);
        if (*parser->at++ == '"')
            break;
        if (!unescape(parser, out, &len))
            return false;
    }
    *ret = (struct str){out, len};
    return true;
}

static bool digits(struct parser *parser)
{
    const char *start = parser->at;

    while (parser->at < parser->end && *parser->at >= '0' && *parser->at <= '9')
        parser->at++;
    return parser->at > start || fail(parser, "a digit is missing in a number");
}

static bool parse_number(struct parser *parser, struct str *ret)
{
    const char *start = parser->at;

    (void)take(parser, '-');
    if (!take(parser, '0') && !digits(parser))
        return false;
    if (take(parser, '.') && !digits(parser))
        return false;
    if (take(parser, 'e') || take(parser, 'E')) {
        if (!take(parser, '+'))
            (void)take(parser, '-');
        if (!digits(parser))
            return false;
    }
    *ret = (struct str){start, (size_t)(parser->at - start)};
    return true;
}

static bool parse_word(struct parser *parser, const char *word)
{
    size_t len = strlen(word);

    if ((size_t)(parser->end - parser->at) < len || memcmp(parser->at, word, len) != 0)
        return fail(parser, "expected a value");
    parser->at += len;
    return true;
}

static bool parse_value(struct parser *parser, struct json *value);

// NOLINTNEXTLINE(misc-no-recursion)
static bool parse_array(struct parser *parser, struct json *array)
{
    array->type = JSON_ARRAY;
    skip_space(parser);
    if (take(parser, ']'))
        return true;
    do {
        struct json *item = ARENA_NEW(parser->arena, struct json);

        if (!parse_value(parser, item))
            return false;
        json_push(array, item);
        skip_space(parser);
    } while (take(parser, ','));
    return take(parser, ']') || fail(parser, "expected ',' or ']' in an array");
}

/* Objects of this many members or more are checked for duplicates by a scan of the names, which is
 * quadratic; the bound below keeps that work in check for hostile text. */
#define OBJECT_MEMBERS_MAX 20000

// NOLINTNEXTLINE(misc-no-recursion)
static bool parse_object(struct parser *parser, struct json *object)
{
    object->type = JSON_OBJECT;
    skip_space(parser);
    if (take(parser, '}'))
        return true;
    do {
        struct json *member = ARENA_NEW(parser->arena, struct json);
        struct str key;

        skip_space(parser);
        if (!take(parser, '"'))
            return fail(parser, "expected a member name in quotes");
        if (!parse_string(parser, &key))
            return false;
        skip_space(parser);
        if (!take(parser, ':'))
            return fail(parser, "expected ':' behind a member name");
        if (!parse_value(parser, member))
            return false;
        if (object->len >= OBJECT_MEMBERS_MAX)
            return fail(parser, "an object has too many members");
        json_set(object, key, member);
        skip_space(parser);
    } while (take(parser, ','));
    return take(parser, '}') || fail(parser, "expected ',' or '}' in an object");
}

// NOLINTNEXTLINE(misc-no-recursion)
static bool parse_value(struct parser *parser, struct json *value)
{
    struct str text = STR_NONE;

    skip_space(parser);
    if (parser->at >= parser->end)
        return fail(parser, "the text ends where a value is expected");
    switch (*parser->at) {
    case '{':
    case '[': {
        bool object = *parser->at++ == '{';

        if (++parser->depth > JSON_DEPTH_MAX)
            return fail(parser, "nested too deeply");
        if (object ? !parse_object(parser, value) : !parse_array(parser, value))
            return false;
        parser->depth--;
        return true;
    }
    case '"':
        parser->at++;
        value->type = JSON_STRING;
        if (!parse_string(parser, &text))
            return false;
        break;
    case 't':
    case 'f':
        value->type = JSON_BOOL;
        value->truth = *parser->at == 't';
        return parse_word(parser, value->truth ? "true" : "false");
    case 'n': value->type = JSON_NULL; return parse_word(parser, "null");
    default:
        if (*parser->at != '-' && (*parser->at < '0' || *parser->at > '9'))
            return fail(parser, "expected a value");
        value->type = JSON_NUMBER;
        if (!parse_number(parser, &text))
            return false;
    }
    value->text = text.p;
    value->len = (uint32_t)text.len;
    return true;
}

int json_parse(struct arena *arena, struct str text, struct json **ret, struct err *err)
{
    struct parser parser = {
        .arena = arena, .start = text.p ? text.p : "", .at = text.p ? text.p : ""};

    if (text.len > JSON_BYTES_MAX)
        return err_set(err, -EINVAL, "JSON of %zu bytes is over the limit of %zu", text.len,
                       JSON_BYTES_MAX);
    parser.end = parser.start + text.len;
    struct json *root = ARENA_NEW(arena, struct json);
    if (parse_value(&parser, root)) {
        skip_space(&parser);
        if (parser.at == parser.end) {
            *ret = root;
            return 0;
        }
        (void)fail(&parser, "unexpected text behind the value");
    }

    size_t line = 1;
    const char *line_start = parser.start;
    for (const char *p = parser.start; p < parser.at; p++) {
        if (*p == '\n') {
            line++;
            line_start = p + 1;
        }
    }
    return err_set(err, -EINVAL, "line %zu, column %zu: %s", line,
                   (size_t)(parser.at - line_start) + 1, parser.problem);
}
