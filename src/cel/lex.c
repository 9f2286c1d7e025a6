#include "cel/lex.h"

#include "base/arena.h"
#include "base/buf.h"
#include "base/str.h"
#include "cel/ast.h"
#include "cel/number.h"
#include "cel/text.h"
#include "cel/value.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static int lex_wrong(const struct cel_lex *lex, size_t at, const char *words)
{
    return cel_wrong(lex->err, lex->text, (uint32_t)at, words,
                     str_sub(lex->text, at, str_utf8_len(str_sub(lex->text, at, 4))));
}

static char lex_peek(const struct cel_lex *lex, size_t ahead)
{
    return lex->at + ahead < lex->text.len ? lex->text.p[lex->at + ahead] : '\0';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_name(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || is_digit(c);
}

/* Blanks and comments. */
static void lex_skip(struct cel_lex *lex)
{
    for (; lex->at < lex->text.len; lex->at++) {
        char c = lex->text.p[lex->at];

        if (c == '/' && lex_peek(lex, 1) == '/')
            lex->at += str_find(str_sub(lex->text, lex->at, lex->text.len), '\n');
        else if (c != ' ' && c != '\t' && c != '\n' && c != '\r' && c != '\f')
            return;
    }
    lex->at = lex->text.len;
}

/* ---- numbers ---- */

static struct str lex_number_text(const struct cel_lex *lex, bool *ret_real)
{
    size_t end = lex->at;
    const char *p = lex->text.p;
    size_t len = lex->text.len;

    *ret_real = false;
    while (end < len && is_digit(p[end]))
        end++;
    if (end + 1 < len && p[end] == '.' && is_digit(p[end + 1])) {
        *ret_real = true;
        for (end++; end < len && is_digit(p[end]);)
            end++;
    }
    if (end < len && (p[end] == 'e' || p[end] == 'E')) {
        size_t digits = end + 1;

        if (digits < len && (p[digits] == '+' || p[digits] == '-'))
            digits++;
        if (digits < len && is_digit(p[digits])) {
            *ret_real = true;
            for (end = digits; end < len && is_digit(p[end]);)
                end++;
        }
    }
    return str_sub(lex->text, lex->at, end - lex->at);
}

static bool hex_to_u64(struct str text, uint64_t *ret)
{
    uint64_t value = 0;

    if (!text.len || text.len > 16)
        return false;
    for (size_t i = 0; i < text.len; i++)
        value = value << 4 | (uint64_t)text_hex(text.p[i]);
    *ret = value;
    return true;
}

static int lex_whole(struct cel_lex *lex, struct str digits, bool hex, struct cel_value *ret)
{
    uint64_t value = 0;
    bool fits = hex ? hex_to_u64(digits, &value) : str_to_u64(digits, &value);
    size_t start = lex->at;

    lex->at += digits.len;
    if (lex_peek(lex, 0) == 'u' || lex_peek(lex, 0) == 'U') {
        lex->at++;
        *ret = cel_uint(value);
        return fits ? 0 : lex_wrong(lex, start, "Syntax error: invalid uint literal");
    }
    *ret = cel_int((int64_t)value);
    return fits && value <= INT64_MAX ? 0
                                      : lex_wrong(lex, start, "Syntax error: invalid int literal");
}

static int lex_number(struct cel_lex *lex, struct cel_token *ret)
{
    bool real = false;
    struct str text = lex_number_text(lex, &real);

    ret->kind = CEL_TOKEN_VALUE;
    if (lex_peek(lex, 0) == '0' && (lex_peek(lex, 1) == 'x' || lex_peek(lex, 1) == 'X')) {
        size_t end = lex->at + 2;

        while (end < lex->text.len && text_hex(lex->text.p[end]) >= 0)
            end++;
        lex->at += 2;
        return lex_whole(lex, str_sub(lex->text, lex->at, end - lex->at), true, &ret->value);
    }
    if (!real)
        return lex_whole(lex, text, false, &ret->value);
    double value = 0;
    lex->at += text.len;
    if (!number_parse(text, &value))
        return lex_wrong(lex, lex->at - text.len, "Syntax error: invalid double literal");
    ret->value = cel_double(value);
    return 0;
}

int cel_lex_negative(struct cel_lex *lex, struct cel_token *token)
{
    bool hex = lex_peek(lex, 0) == '0' && (lex_peek(lex, 1) == 'x' || lex_peek(lex, 1) == 'X');
    bool real = false;
    struct str text = lex_number_text(lex, &real);
    uint64_t value = 0;

    if (!hex && !real && str_to_u64(text, &value) && value == (uint64_t)INT64_MAX + 1) {
        lex->at += text.len;
        token->kind = CEL_TOKEN_VALUE;
        token->value = cel_int(INT64_MIN);
        return 0;
    }
    int r = lex_number(lex, token);
    if (r < 0)
        return r;
    if (token->value.type == CEL_INT)
        token->value.i = -token->value.i;
    else if (token->value.type == CEL_DOUBLE)
        token->value.d = -token->value.d;
    else
        return lex_wrong(lex, token->at, "Syntax error: a uint has no sign");
    return 0;
}

/* ---- text ---- */

struct literal {
    bool raw;
    bool bytes;
    char quote;
    bool triple;
    struct buf out;
};

/* `count` digits of base 16 or 8. */
static int lex_digits(struct cel_lex *lex, size_t count, uint32_t base, uint32_t *ret)
{
    uint32_t value = 0;

    for (size_t i = 0; i < count; i++) {
        int digit = text_hex(lex_peek(lex, i));

        if (digit < 0 || (uint32_t)digit >= base)
            return lex_wrong(lex, lex->at, "Syntax error: an escape has too few digits");
        value = value * base + (uint32_t)digit;
    }
    lex->at += count;
    *ret = value;
    return 0;
}

/* \x41 \u0041 \U00000041 \101, behind the backslash. */
static int lex_code(struct cel_lex *lex, struct literal *literal, char c)
{
    uint32_t code = 0;
    bool octal = c >= '0' && c <= '3';
    bool wide = c == 'u' || c == 'U';
    size_t count = octal ? 3 : c == 'u' ? 4 : c == 'U' ? 8 : 2;

    lex->at += octal ? 0 : 1;
    int r = lex_digits(lex, count, octal ? 8 : 16, &code);
    if (r < 0)
        return r;
    if (literal->bytes && wide)
        return lex_wrong(lex, lex->at - 1, "Syntax error: bytes have no \\u");
    if (literal->bytes)
        buf_addc(&literal->out, (char)(unsigned char)code);
    else if (!text_add_code(&literal->out, code))
        return lex_wrong(lex, lex->at - 1, "Syntax error: an escape is no character");
    return 0;
}

static int lex_escape(struct cel_lex *lex, struct literal *literal)
{
    static const char from[] = "abfnrtv\\'\"`?";
    static const char to[] = "\a\b\f\n\r\t\v\\'\"`?";
    char c = lex_peek(lex, 0);

    if ((c >= '0' && c <= '3') || c == 'x' || c == 'X' || c == 'u' || c == 'U')
        return lex_code(lex, literal, c);
    for (size_t i = 0; i < sizeof(from) - 1; i++)
        if (c == from[i]) {
            buf_addc(&literal->out, to[i]);
            lex->at++;
            return 0;
        }
    return lex_wrong(lex, lex->at, "Syntax error: unknown escape");
}

static bool lex_closes(const struct cel_lex *lex, const struct literal *literal)
{
    if (lex_peek(lex, 0) != literal->quote)
        return false;
    return !literal->triple ||
           (lex_peek(lex, 1) == literal->quote && lex_peek(lex, 2) == literal->quote);
}

static int lex_literal_body(struct cel_lex *lex, struct literal *literal, size_t start)
{
    while (!lex_closes(lex, literal)) {
        char c = lex_peek(lex, 0);

        if (lex->at >= lex->text.len || (!literal->triple && (c == '\n' || c == '\r')))
            return lex_wrong(lex, start, "Syntax error: this text has no end");
        if (c != '\\' || literal->raw) {
            buf_addc(&literal->out, c);
            lex->at++;
            continue;
        }
        lex->at++;
        int r = lex_escape(lex, literal);
        if (r < 0)
            return r;
    }
    lex->at += literal->triple ? 3 : 1;
    return 0;
}

/* How many letters before a quote say what kind of text it is; -1: no text begins here. */
static int lex_prefix(const struct cel_lex *lex, struct literal *literal)
{
    for (size_t i = 0; i < 3; i++) {
        char c = lex_peek(lex, i);

        if (c == '\'' || c == '"')
            return (int)i;
        if ((c == 'r' || c == 'R') && !literal->raw)
            literal->raw = true;
        else if ((c == 'b' || c == 'B') && !literal->bytes)
            literal->bytes = true;
        else
            return -1;
    }
    return -1;
}

static int lex_literal(struct cel_lex *lex, struct literal *literal, struct cel_token *ret)
{
    size_t start = lex->at;

    literal->quote = lex_peek(lex, 0);
    literal->triple = lex_peek(lex, 1) == literal->quote && lex_peek(lex, 2) == literal->quote;
    lex->at += literal->triple ? 3 : 1;
    literal->out.bytes_max = lex->text.len + 1;
    int r = lex_literal_body(lex, literal, start);
    struct str text = str_dup(lex->arena, buf_str(&literal->out));
    buf_done(&literal->out);
    ret->kind = CEL_TOKEN_VALUE;
    ret->value = cel_string(text);
    if (literal->bytes)
        ret->value.type = CEL_BYTES;
    return r;
}

/* ---- the rest ---- */

static int lex_sign(struct cel_lex *lex, struct cel_token *ret)
{
    static const char *const signs[] = {"&&", "||", "==", "!=", "<=", ">=", "<", ">",
                                        "+",  "-",  "*",  "/",  "%",  "!",  "?", ":",
                                        ".",  ",",  "(",  ")",  "[",  "]",  "{", "}"};
    struct str rest = str_sub(lex->text, lex->at, 2);

    for (size_t i = 0; i < sizeof(signs) / sizeof(signs[0]); i++)
        if (str_starts(rest, str_from(signs[i]))) {
            ret->kind = CEL_TOKEN_SIGN;
            ret->text = str_from(signs[i]);
            lex->at += ret->text.len;
            return 0;
        }
    return lex_wrong(lex, lex->at, "Syntax error: token recognition error at");
}

int cel_lex(struct cel_lex *lex, struct cel_token *ret)
{
    struct literal literal = {0};

    lex_skip(lex);
    *ret = (struct cel_token){.kind = CEL_TOKEN_END, .at = (uint32_t)lex->at};
    if (lex->at >= lex->text.len)
        return 0;
    char c = lex_peek(lex, 0);
    int prefix = lex_prefix(lex, &literal);
    if (prefix >= 0) {
        lex->at += (size_t)prefix;
        return lex_literal(lex, &literal, ret);
    }
    if (is_digit(c) || (c == '.' && is_digit(lex_peek(lex, 1))))
        return lex_number(lex, ret);
    if (is_name(c)) {
        size_t start = lex->at;

        while (lex->at < lex->text.len && is_name(lex->text.p[lex->at]))
            lex->at++;
        ret->kind = CEL_TOKEN_NAME;
        ret->text = str_sub(lex->text, start, lex->at - start);
        return 0;
    }
    if (c == '`') {
        size_t len = str_find(str_sub(lex->text, lex->at + 1, lex->text.len), '`');

        if (!len || lex->at + 1 + len >= lex->text.len)
            return lex_wrong(lex, lex->at, "Syntax error: this name has no end");
        ret->kind = CEL_TOKEN_QUOTED;
        ret->text = str_sub(lex->text, lex->at + 1, len);
        lex->at += len + 2;
        return 0;
    }
    return lex_sign(lex, ret);
}
