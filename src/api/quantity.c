#include "api/quantity.h"

#include "base/count.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define NANO               QUANTITY_NANO
#define NANO_MAX           ((__int128)INT64_MAX * NANO)
#define QUANTITY_BYTES_MAX 100 /* far more digits than any amount has */

struct suffix {
    char text[3];
    enum quantity_format format;
    int exponent; /* of 10, or of 1024 */
};

static const struct suffix suffixes[] = {
    {"n", QUANTITY_DECIMAL, -9}, {"u", QUANTITY_DECIMAL, -6}, {"m", QUANTITY_DECIMAL, -3},
    {"", QUANTITY_DECIMAL, 0},   {"k", QUANTITY_DECIMAL, 3},  {"M", QUANTITY_DECIMAL, 6},
    {"G", QUANTITY_DECIMAL, 9},  {"T", QUANTITY_DECIMAL, 12}, {"P", QUANTITY_DECIMAL, 15},
    {"E", QUANTITY_DECIMAL, 18}, {"Ki", QUANTITY_BINARY, 1},  {"Mi", QUANTITY_BINARY, 2},
    {"Gi", QUANTITY_BINARY, 3},  {"Ti", QUANTITY_BINARY, 4},  {"Pi", QUANTITY_BINARY, 5},
    {"Ei", QUANTITY_BINARY, 6},
};

static int malformed(struct str text, struct err *err)
{
    return err_set(err, -EINVAL,
                   "\"" STR_FMT "\" is not a quantity: write a number with a suffix of "
                   "n u m k M G T P E Ki Mi Gi Ti Pi Ei, such as 500m or 4Gi",
                   STR_ARG(str_sub(text, 0, 40)));
}

static bool digit(struct str text, size_t at)
{
    return at < text.len && text.p[at] >= '0' && text.p[at] <= '9';
}

/* The suffix from `at` on; false when it is none. */
static bool suffix_find(struct str text, size_t at, struct suffix *ret)
{
    struct str rest = str_sub(text, at, text.len);
    int64_t exponent = 0;

    if (rest.len > 1 && (rest.p[0] == 'e' || rest.p[0] == 'E') && rest.p[1] != 'i') {
        size_t digits = rest.p[1] == '+' ? 2 : 1;

        if (!str_to_i64(str_sub(rest, digits, rest.len), &exponent) || exponent > 100 ||
            exponent < -100)
            return false;
        *ret = (struct suffix){.format = QUANTITY_EXPONENT, .exponent = (int)exponent};
        return true;
    }
    for (size_t i = 0; i < COUNT_OF(suffixes); i++) {
        if (str_is(rest, suffixes[i].text)) {
            *ret = suffixes[i];
            return true;
        }
    }
    return false;
}

/* value * base^exponent, rounded away from zero; false past the range. */
static bool scale(__int128 *value, __int128 base, int exponent)
{
    bool rest = false;

    for (; exponent > 0 && *value; exponent--)
        if (__builtin_mul_overflow(*value, base, value))
            return false;
    for (; exponent < 0 && *value; exponent++) {
        rest |= *value % base != 0;
        *value /= base;
    }
    if (rest)
        (*value)++;
    return true;
}

int quantity_parse(struct str text, struct quantity *ret, struct err *err)
{
    size_t at = 0;
    __int128 value = 0;
    int fraction = 0;
    size_t digits = 0;
    bool too_large = false;
    bool negative = text.len && text.p[0] == '-';

    if (text.len > QUANTITY_BYTES_MAX)
        return malformed(text, err);
    if (text.len && (text.p[0] == '-' || text.p[0] == '+'))
        at++;
    for (; digit(text, at); at++, digits++)
        too_large |= __builtin_mul_overflow(value, (__int128)10, &value) ||
                     __builtin_add_overflow(value, (__int128)(text.p[at] - '0'), &value);
    bool finer = false;
    if (at < text.len && text.p[at] == '.') {
        for (at++; digit(text, at); at++, digits++) {
            /* Digits behind the 18th matter only by being there: they round up. */
            if (fraction == 18) {
                finer |= text.p[at] != '0';
                continue;
            }
            fraction++;
            too_large |= __builtin_mul_overflow(value, (__int128)10, &value) ||
                         __builtin_add_overflow(value, (__int128)(text.p[at] - '0'), &value);
        }
    }
    struct suffix suffix;
    if (!digits || !suffix_find(text, at, &suffix))
        return malformed(text, err);
    if (finer)
        value++;
    if (suffix.format == QUANTITY_BINARY)
        too_large |= !scale(&value, 1024, suffix.exponent) || !scale(&value, 10, 9 - fraction);
    else
        too_large |= !scale(&value, 10, suffix.exponent + 9 - fraction);
    if (too_large || value > NANO_MAX)
        return err_set(err, -ERANGE, "quantity \"" STR_FMT "\" is too large", STR_ARG(text));
    *ret = (struct quantity){.nano = negative ? -value : value, .format = suffix.format};
    return 0;
}

/* nano / unit, rounded away from zero. */
static int to_unit(struct quantity quantity, __int128 unit, int64_t *ret, struct err *err)
{
    __int128 value = quantity.nano / unit;

    if (quantity.nano % unit)
        value += quantity.nano < 0 ? -1 : 1;
    if (value > INT64_MAX || value < INT64_MIN)
        return err_set(err, -ERANGE, "quantity is too large");
    *ret = (int64_t)value;
    return 0;
}

int quantity_milli(struct str text, int64_t *ret, struct err *err)
{
    struct quantity quantity = {0};
    int r = quantity_parse(text, &quantity, err);

    return r < 0 ? r : to_unit(quantity, NANO / 1000, ret, err);
}

int quantity_whole(struct str text, int64_t *ret, struct err *err)
{
    struct quantity quantity = {0};
    int r = quantity_parse(text, &quantity, err);

    return r < 0 ? r : to_unit(quantity, NANO, ret, err);
}

int quantity_parse_json(const struct json *value, struct quantity *ret, struct err *err)
{
    if (json_is_null(value)) {
        *ret = (struct quantity){0};
        return 0;
    }
    if (json_is(value, JSON_NUMBER))
        return quantity_parse(json_number_text(value), ret, err);
    if (json_is(value, JSON_STRING))
        return quantity_parse(json_str(value), ret, err);
    return err_set(err, -EINVAL, "a quantity is a string or a number");
}

int quantity_milli_json(const struct json *value, int64_t *ret, struct err *err)
{
    struct quantity quantity = {0};
    int r = quantity_parse_json(value, &quantity, err);

    return r < 0 ? r : to_unit(quantity, NANO / 1000, ret, err);
}

int quantity_whole_json(const struct json *value, int64_t *ret, struct err *err)
{
    struct quantity quantity = {0};
    int r = quantity_parse_json(value, &quantity, err);

    return r < 0 ? r : to_unit(quantity, NANO, ret, err);
}

int quantity_cmp(struct quantity a, struct quantity b)
{
    return a.nano < b.nano ? -1 : a.nano > b.nano;
}

/* printf has no conversion for 128 bits: the last 18 digits apart. */
static struct str digits_text(struct arena *arena, __int128 value)
{
    const __int128 split = (__int128)NANO * NANO;
    long long high = (long long)(value / split);
    long long low = (long long)(value % split);

    return high ? str_printf(arena, "%lld%018lld", high, low) : str_printf(arena, "%lld", low);
}

struct str quantity_text(struct arena *arena, struct quantity quantity)
{
    __int128 left = quantity.nano < 0 ? -quantity.nano : quantity.nano;
    const char *sign = quantity.nano < 0 ? "-" : "";
    size_t best = 0;

    /* A binary amount that is no whole number cannot be written with a binary suffix. */
    bool binary = quantity.format == QUANTITY_BINARY && left % NANO == 0 && left >= NANO * 1024;
    if (!left)
        return STR("0");
    for (size_t i = 0; i < COUNT_OF(suffixes); i++) {
        __int128 unit = NANO;

        if (binary != (suffixes[i].format == QUANTITY_BINARY) && suffixes[i].text[0])
            continue;
        if (binary)
            (void)scale(&unit, 1024, suffixes[i].exponent);
        else
            (void)scale(&unit, 10, suffixes[i].exponent);
        if (left % unit == 0)
            best = i;
    }
    if (binary)
        left /= NANO;
    (void)scale(&left, binary ? 1024 : 10,
                binary ? -suffixes[best].exponent : -(suffixes[best].exponent + 9));
    struct str digits = digits_text(arena, left);
    return quantity.format == QUANTITY_EXPONENT && suffixes[best].exponent
               ? str_printf(arena, "%s" STR_FMT "e%d", sign, STR_ARG(digits),
                            suffixes[best].exponent)
               : str_printf(arena, "%s" STR_FMT "%s", sign, STR_ARG(digits), suffixes[best].text);
}
