#include "base/yaml_scalar.h"

#include "base/arena.h"
#include "base/count.h"
#include "base/json.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* The rules are those of the YAML that kubectl reads: a word from a small table, then a whole
 * number in Go's notation, then a decimal fraction; everything else is a string. Underscores in
 * numbers are dropped before looking. */

enum word {
    WORD_NONE,
    WORD_NULL,
    WORD_TRUE,
    WORD_FALSE,
    WORD_UNWRITABLE,
};

static const struct {
    const char *text;
    enum word word;
} words[] = {
    {"", WORD_NULL},
    {"~", WORD_NULL},
    {"null", WORD_NULL},
    {"Null", WORD_NULL},
    {"NULL", WORD_NULL},
    {"y", WORD_TRUE},
    {"Y", WORD_TRUE},
    {"yes", WORD_TRUE},
    {"Yes", WORD_TRUE},
    {"YES", WORD_TRUE},
    {"true", WORD_TRUE},
    {"True", WORD_TRUE},
    {"TRUE", WORD_TRUE},
    {"on", WORD_TRUE},
    {"On", WORD_TRUE},
    {"ON", WORD_TRUE},
    {"n", WORD_FALSE},
    {"N", WORD_FALSE},
    {"no", WORD_FALSE},
    {"No", WORD_FALSE},
    {"NO", WORD_FALSE},
    {"false", WORD_FALSE},
    {"False", WORD_FALSE},
    {"FALSE", WORD_FALSE},
    {"off", WORD_FALSE},
    {"Off", WORD_FALSE},
    {"OFF", WORD_FALSE},
    {".nan", WORD_UNWRITABLE},
    {".NaN", WORD_UNWRITABLE},
    {".NAN", WORD_UNWRITABLE},
    {".inf", WORD_UNWRITABLE},
    {".Inf", WORD_UNWRITABLE},
    {".INF", WORD_UNWRITABLE},
    {"+.inf", WORD_UNWRITABLE},
    {"+.Inf", WORD_UNWRITABLE},
    {"+.INF", WORD_UNWRITABLE},
    {"-.inf", WORD_UNWRITABLE},
    {"-.Inf", WORD_UNWRITABLE},
    {"-.INF", WORD_UNWRITABLE},
};

static enum word word_of(struct str text)
{
    for (size_t i = 0; i < COUNT_OF(words); i++)
        if (str_is(text, words[i].text))
            return words[i].word;
    return WORD_NONE;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* 15, 0xf, 0o17, 017, 0b1111, each with a sign; what fits 64 bits, signed or not. */
static bool whole_number(struct str text, bool *ret_negative, uint64_t *ret)
{
    uint64_t value = 0;
    unsigned base = 10;

    *ret_negative = text.len && text.p[0] == '-';
    if (text.len && (text.p[0] == '-' || text.p[0] == '+'))
        text = str_sub(text, 1, text.len);
    if (text.len > 1 && text.p[0] == '0') {
        char kind = (char)(text.p[1] | 0x20);

        base = kind == 'x' ? 16 : kind == 'b' ? 2 : 8;
        text = str_sub(text, kind == 'x' || kind == 'b' || kind == 'o' ? 2 : 1, text.len);
    }
    if (text.len == 0)
        return false;
    for (size_t i = 0; i < text.len; i++) {
        char c = text.p[i];
        char lower = (char)(c | 0x20);
        unsigned digit = is_digit(c)                    ? (unsigned)(c - '0')
                         : lower >= 'a' && lower <= 'f' ? (unsigned)(lower - 'a') + 10
                                                        : 16;

        if (digit >= base || __builtin_mul_overflow(value, base, &value) ||
            __builtin_add_overflow(value, digit, &value))
            return false;
    }
    if (*ret_negative && value > (uint64_t)INT64_MAX + 1)
        return false;
    *ret = value;
    return true;
}

/* The parts of [-+]? (digits [. digits?] | . digits) ([eE] [-+]? digits)? */
struct decimal {
    bool negative;
    struct str whole;
    struct str fraction;
    struct str exponent; /* with its sign */
};

static struct str take_digits(struct str *text)
{
    size_t len = 0;

    while (len < text->len && is_digit(text->p[len]))
        len++;
    struct str digits = str_sub(*text, 0, len);
    *text = str_sub(*text, len, text->len);
    return digits;
}

static bool decimal_number(struct str text, struct decimal *ret)
{
    *ret = (struct decimal){.negative = text.len && text.p[0] == '-'};
    if (text.len && (text.p[0] == '-' || text.p[0] == '+'))
        text = str_sub(text, 1, text.len);
    ret->whole = take_digits(&text);
    if (text.len && text.p[0] == '.') {
        text = str_sub(text, 1, text.len);
        ret->fraction = take_digits(&text);
    }
    if (ret->whole.len == 0 && ret->fraction.len == 0)
        return false;
    if (text.len && (text.p[0] == 'e' || text.p[0] == 'E')) {
        struct str exponent = str_sub(text, 1, text.len);
        size_t sign = exponent.len && (exponent.p[0] == '-' || exponent.p[0] == '+');

        text = str_sub(exponent, sign, exponent.len);
        ret->exponent = str_sub(exponent, 0, sign + take_digits(&text).len);
        if (ret->exponent.len == sign)
            return false;
    }
    return text.len == 0;
}

/* What a double cannot hold is a string to kubectl. 308 is the exponent of the largest double. */
static bool fits_double(const struct decimal *number)
{
    struct str whole = number->whole;
    int64_t exponent = 0;

    while (whole.len && whole.p[0] == '0')
        whole = str_sub(whole, 1, whole.len);
    if (number->exponent.len && !str_to_i64(number->exponent, &exponent))
        return number->exponent.p[0] == '-';
    return exponent < 400 && exponent + (int64_t)whole.len <= 309;
}

/* JSON wants a digit on both sides of the point, no plus and no leading zeros. */
static struct json *decimal_json(struct arena *arena, const struct decimal *number)
{
    struct str whole = number->whole;

    while (whole.len > 1 && whole.p[0] == '0')
        whole = str_sub(whole, 1, whole.len);
    if (whole.len == 0)
        whole = STR("0");
    return json_new_number(arena,
                           str_printf(arena, "%s" STR_FMT "%s" STR_FMT "%s" STR_FMT,
                                      number->negative ? "-" : "", STR_ARG(whole),
                                      number->fraction.len ? "." : "", STR_ARG(number->fraction),
                                      number->exponent.len ? "e" : "", STR_ARG(number->exponent)));
}

static struct json *number_json(struct arena *arena, struct str text)
{
    char *plain = ARENA_ARRAY(arena, char, text.len + 1);
    size_t len = 0;
    bool negative = false;
    uint64_t whole = 0;
    struct decimal decimal;

    for (size_t i = 0; i < text.len; i++)
        if (text.p[i] != '_')
            plain[len++] = text.p[i];
    struct str digits = {plain, len};
    if (whole_number(digits, &negative, &whole))
        return json_new_number(arena, str_printf(arena, "%s%llu", negative && whole ? "-" : "",
                                                 (unsigned long long)whole));
    if (decimal_number(digits, &decimal) && fits_double(&decimal))
        return decimal_json(arena, &decimal);
    return NULL;
}

struct json *yaml_scalar(struct arena *arena, struct str text)
{
    struct json *number = NULL;

    switch (word_of(text)) {
    case WORD_NULL: return json_new_null(arena);
    case WORD_TRUE: return json_new_bool(arena, true);
    case WORD_FALSE: return json_new_bool(arena, false);
    case WORD_UNWRITABLE: return NULL;
    case WORD_NONE: break;
    }
    /* Only what starts like a number is tried as one; the bound keeps the copy small. */
    if (text.len <= 1024 && (is_digit(text.p[0]) || strchr("+-.", text.p[0])))
        number = number_json(arena, text);
    return number ? number : json_new_str(arena, str_dup(arena, text));
}
