#include "cel/number.h"

#include "base/arena.h"
#include "base/str.h"

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* Reading is exact: digits times a power of ten is a fraction of two large whole numbers, of which
 * 64 bits and whether anything is left are divided out and rounded once. */

/* What is just between two doubles has at most 767 digits: behind these only whether there is
 * anything decides. A number of 800 digits is below 10^310 and not below 10^-330, so its last digit
 * is that of 10^-1130 at least, which has 3,754 bits; the other side is shifted to 64 bits more. */
#define DIGITS_MAX 800
#define TOP_MAX    310
#define TOP_MIN    (-330)
#define BIG_WORDS  128

struct big {
    uint32_t words[BIG_WORDS]; /* lowest first */
    size_t count;
};

static void big_multiply(struct big *big, uint32_t factor, uint32_t add)
{
    uint64_t carry = add;

    for (size_t i = 0; i < big->count; i++) {
        carry += (uint64_t)big->words[i] * factor;
        big->words[i] = (uint32_t)carry;
        carry >>= 32;
    }
    if (carry) {
        assert(big->count < BIG_WORDS);
        big->words[big->count++] = (uint32_t)carry;
    }
}

/* Not of zero. */
static size_t big_bits(const struct big *big)
{
    return big->count * 32 - (size_t)__builtin_clz(big->words[big->count - 1]);
}

static void big_shift(struct big *big, size_t bits)
{
    size_t words = bits / 32;

    for (size_t i = 0; i < bits % 32; i++)
        big_multiply(big, 2, 0);
    assert(big->count + words <= BIG_WORDS);
    memmove(big->words + words, big->words, big->count * sizeof(big->words[0]));
    memset(big->words, 0, words * sizeof(big->words[0]));
    big->count += words;
}

static int big_compare(const struct big *a, const struct big *b)
{
    if (a->count != b->count)
        return a->count < b->count ? -1 : 1;
    for (size_t i = a->count; i-- > 0;)
        if (a->words[i] != b->words[i])
            return a->words[i] < b->words[i] ? -1 : 1;
    return 0;
}

/* a >= b */
static void big_subtract(struct big *a, const struct big *b)
{
    int64_t borrow = 0;

    for (size_t i = 0; i < a->count; i++) {
        int64_t word = (int64_t)a->words[i] - (i < b->count ? b->words[i] : 0) + borrow;

        a->words[i] = (uint32_t)word;
        borrow = word < 0 ? -1 : 0;
    }
    while (a->count && !a->words[a->count - 1])
        a->count--;
}

static double double_of_bits(uint64_t bits)
{
    double value = 0;

    memcpy(&value, &bits, sizeof(value));
    return value;
}

/* mantissa * 2^exponent, whose highest bit is set; `rest`: there is more below it. */
static bool double_make(uint64_t mantissa, int exponent, bool rest, double *ret)
{
    int top = exponent + 63; /* the value is 1.x * 2^top */
    int drop = top < -1022 ? 11 + (-1022 - top) : 11;

    if (drop > 64) {
        *ret = 0;
        return true;
    }
    uint64_t kept = drop == 64 ? 0 : mantissa >> drop;
    uint64_t half = (uint64_t)1 << (drop - 1);
    uint64_t below = mantissa & (half - 1);
    if ((mantissa & half) && (below || rest || (kept & 1)))
        kept++;
    if (top < -1022) { /* without a leading one; rounding up to the smallest with one is right */
        *ret = double_of_bits(kept);
        return true;
    }
    if (kept >> 53) {
        kept >>= 1;
        top++;
    }
    if (top > 1023)
        return false;
    *ret = double_of_bits((uint64_t)(top + 1023) << 52 | (kept & (((uint64_t)1 << 52) - 1)));
    return true;
}

static bool double_divide(struct big *above, struct big *below, double *ret)
{
    int exponent = (int)big_bits(above) - (int)big_bits(below) - 64;
    uint64_t mantissa = 0;

    /* Then above/below is in [2^63, 2^65). */
    if (exponent < 0)
        big_shift(above, (size_t)-exponent);
    else
        big_shift(below, (size_t)exponent);
    big_shift(below, 64);
    int bits = 0;
    for (; bits < 65 && !(mantissa >> 63); bits++) {
        mantissa <<= 1;
        if (big_compare(above, below) >= 0) {
            big_subtract(above, below);
            mantissa |= 1;
        }
        big_multiply(above, 2, 0);
    }
    /* The first bit divided out is that of 2^64. */
    return double_make(mantissa, exponent + 65 - bits, above->count > 0, ret);
}

/* Whatever the case of its letters. */
static bool is_word(struct str text, const char *word)
{
    size_t same = 0;

    while (same < text.len && (text.p[same] | 0x20) == word[same])
        same++;
    return same == text.len && !word[same];
}

static bool is_special(struct str text, bool sign, double *ret)
{
    static const uint64_t infinite = (uint64_t)0x7ff << 52;

    if (!sign && is_word(text, "nan"))
        *ret = double_of_bits(infinite | 1);
    else if (is_word(text, "inf") || is_word(text, "infinity"))
        *ret = double_of_bits(infinite);
    else
        return false;
    return true;
}

struct decimal {
    struct big digits;
    size_t count; /* digits kept */
    int64_t exponent;
    bool any;
};

static size_t take_digits(struct str text, size_t at, bool fraction, struct decimal *decimal)
{
    for (; at < text.len && text.p[at] >= '0' && text.p[at] <= '9'; at++) {
        uint32_t digit = (uint32_t)(text.p[at] - '0');

        decimal->any = true;
        if (decimal->count == DIGITS_MAX) {
            if (digit)
                decimal->digits.words[0] |= 1;
            decimal->exponent += fraction ? 0 : 1;
            continue;
        }
        if (digit || decimal->digits.count) {
            if (!decimal->digits.count)
                decimal->digits = (struct big){.words = {digit}, .count = 1};
            else
                big_multiply(&decimal->digits, 10, digit);
            decimal->count++;
        }
        decimal->exponent -= fraction ? 1 : 0;
    }
    return at;
}

static bool take_exponent(struct str text, size_t at, int64_t *exponent)
{
    struct str digits = str_sub(text, at, text.len);
    bool negative = digits.len && digits.p[0] == '-';
    uint64_t value = 0;

    if (digits.len && (digits.p[0] == '-' || digits.p[0] == '+'))
        digits = str_sub(digits, 1, digits.len);
    if (!digits.len)
        return false;
    for (size_t i = 0; i < digits.len; i++) {
        if (digits.p[i] < '0' || digits.p[i] > '9')
            return false;
        if (value < 1000000)
            value = value * 10 + (uint64_t)(digits.p[i] - '0');
    }
    *exponent += negative ? -(int64_t)value : (int64_t)value;
    return true;
}

static bool parse_positive(struct str text, bool sign, double *ret)
{
    struct decimal decimal = {0};
    struct big below = {.words = {1}, .count = 1};

    if (is_special(text, sign, ret))
        return true;
    size_t at = take_digits(text, 0, false, &decimal);
    if (at < text.len && text.p[at] == '.')
        at = take_digits(text, at + 1, true, &decimal);
    if (!decimal.any)
        return false;
    if (at < text.len && (text.p[at] == 'e' || text.p[at] == 'E')) {
        if (!take_exponent(text, at + 1, &decimal.exponent))
            return false;
        at = text.len;
    }
    if (at < text.len)
        return false;
    *ret = 0;
    int64_t top = (int64_t)decimal.count + decimal.exponent; /* it is below 10^top */
    if (!decimal.digits.count || top < TOP_MIN)
        return true;
    if (top > TOP_MAX)
        return false;
    for (int64_t i = 0; i < decimal.exponent; i++)
        big_multiply(&decimal.digits, 10, 0);
    for (int64_t i = decimal.exponent; i < 0; i++)
        big_multiply(&below, 10, 0);
    return double_divide(&decimal.digits, &below, ret);
}

bool number_parse(struct str text, double *ret)
{
    double value = 0;
    bool negative = str_starts(text, STR("-"));
    bool sign = negative || str_starts(text, STR("+"));

    if (sign)
        text = str_sub(text, 1, text.len);
    if (!parse_positive(text, sign, &value))
        return false;
    *ret = negative ? -value : value;
    return true;
}

bool number_is_nan(double value)
{
    return __builtin_isnan(value);
}

bool number_is_infinite(double value)
{
    return __builtin_isinf(value);
}

/* Go's %g, which writes the exponent from the seventh digit on however many digits there are. */
struct str number_text(struct arena *arena, double value)
{
    char out[64];
    double again = 0;
    uint64_t bits = 0;

    memcpy(&bits, &value, sizeof(bits));
    if (number_is_nan(value))
        return STR("NaN");
    if (number_is_infinite(value))
        return value > 0 ? STR("+Inf") : STR("-Inf");
    for (int digits = 1; digits <= 17; digits++) {
        uint64_t read = 0;

        (void)snprintf(out, sizeof(out), "%.*e", digits - 1, value);
        if (!number_parse(str_from(out), &again))
            continue;
        memcpy(&read, &again, sizeof(read));
        if (read != bits)
            continue;
        const char *mark = strchr(out, 'e');
        int64_t exponent = 0;
        (void)take_exponent(str_from(mark), 1, &exponent);
        if (exponent >= -4 && exponent < 6) {
            int64_t behind = digits - 1 - exponent;

            (void)snprintf(out, sizeof(out), "%.*f", (int)(behind > 0 ? behind : 0), value);
        }
        break;
    }
    return str_dup(arena, str_from(out));
}

bool number_to_i64(double value, int64_t *ret)
{
    if (!(value > -9223372036854775808.0 && value < 9223372036854775808.0))
        return false;
    *ret = (int64_t)value;
    return true;
}

bool number_to_u64(double value, uint64_t *ret)
{
    if (!(value >= 0 && value < 18446744073709551616.0))
        return false;
    *ret = (uint64_t)value;
    return true;
}
