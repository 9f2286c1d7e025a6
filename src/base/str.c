#include "base/str.h"

#include "base/arena.h"
#include "base/count.h"

#define XXH_INLINE_ALL
#include <assert.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

#define SMALL_BYTES 256 /* of a text that is formatted on the stack first */

bool str_starts(struct str s, struct str prefix)
{
    return s.len >= prefix.len && str_eq(str_sub(s, 0, prefix.len), prefix);
}

bool str_ends(struct str s, struct str suffix)
{
    return s.len >= suffix.len && str_eq(str_sub(s, s.len - suffix.len, suffix.len), suffix);
}

int str_cmp(struct str a, struct str b)
{
    size_t len = a.len < b.len ? a.len : b.len;
    int order = len ? memcmp(a.p, b.p, len) : 0;

    if (order)
        return order < 0 ? -1 : 1;
    return a.len == b.len ? 0 : a.len < b.len ? -1 : 1;
}

size_t str_find(struct str s, char c)
{
    const char *hit = s.len ? memchr(s.p, c, s.len) : NULL;

    return hit ? (size_t)(hit - s.p) : s.len;
}

bool str_contains(struct str s, struct str needle)
{
    return needle.len == 0 || (s.len && memmem(s.p, s.len, needle.p, needle.len));
}

struct str str_sub(struct str s, size_t start, size_t count)
{
    if (start > s.len)
        start = s.len;
    if (count > s.len - start)
        count = s.len - start;
    return (struct str){s.p ? s.p + start : NULL, count};
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

struct str str_trim(struct str s)
{
    while (s.len && is_space(s.p[0]))
        s = str_sub(s, 1, s.len);
    while (s.len && is_space(s.p[s.len - 1]))
        s.len--;
    return s;
}

bool str_cut(struct str *rest, char sep, struct str *ret_part)
{
    if (!rest->p)
        return false;

    size_t at = str_find(*rest, sep);
    *ret_part = str_sub(*rest, 0, at);
    *rest = at == rest->len ? STR_NONE : str_sub(*rest, at + 1, rest->len);
    return true;
}

struct str str_dup(struct arena *arena, struct str s)
{
    return (struct str){str_c(arena, s), s.len};
}

char *str_c(struct arena *arena, struct str s)
{
    char *copy = arena_raw(arena, s.len + 1, 1);

    if (s.len)
        memcpy(copy, s.p, s.len);
    copy[s.len] = '\0';
    return copy;
}

struct str str_printf(struct arena *arena, const char *fmt, ...)
{
    va_list args;
    va_list again;

    va_start(args, fmt);
    va_copy(again, args);
    char small[SMALL_BYTES]; /* nearly all are: so they are formatted once, not twice */
    int len = vsnprintf(small, sizeof(small), fmt, args);
    va_end(args);
    assert(len >= 0);

    char *text = arena_raw(arena, (size_t)len + 1, 1);
    if ((size_t)len < sizeof(small))
        memcpy(text, small, (size_t)len + 1);
    else
        (void)vsnprintf(text, (size_t)len + 1, fmt, again);
    va_end(again);
    return (struct str){text, (size_t)len};
}

bool str_to_u64(struct str s, uint64_t *ret)
{
    uint64_t value = 0;

    if (s.len == 0)
        return false;
    for (size_t i = 0; i < s.len; i++) {
        if (s.p[i] < '0' || s.p[i] > '9')
            return false;
        if (__builtin_mul_overflow(value, 10U, &value) ||
            __builtin_add_overflow(value, (uint64_t)(s.p[i] - '0'), &value))
            return false;
    }
    *ret = value;
    return true;
}

bool str_to_i64(struct str s, int64_t *ret)
{
    bool negative = s.len && s.p[0] == '-';
    uint64_t magnitude = 0;

    if (s.len && (s.p[0] == '-' || s.p[0] == '+'))
        s = str_sub(s, 1, s.len);
    if (!str_to_u64(s, &magnitude) || magnitude > (uint64_t)INT64_MAX + (negative ? 1 : 0))
        return false;
    *ret = negative ? (int64_t)(0 - magnitude) : (int64_t)magnitude;
    return true;
}

uint64_t str_hash(struct str s, uint64_t seed)
{
    return XXH3_64bits_withSeed(s.p ? s.p : "", s.len, seed);
}

size_t str_utf8_len(struct str s)
{
    /* Of each first byte: how long, and what the second byte may be. */
    static const struct {
        unsigned char first, last, len, low, high;
    } rows[] = {
        {0x00, 0x7F, 1, 0, 0},       {0xC2, 0xDF, 2, 0x80, 0xBF}, {0xE0, 0xE0, 3, 0xA0, 0xBF},
        {0xE1, 0xEC, 3, 0x80, 0xBF}, {0xED, 0xED, 3, 0x80, 0x9F}, {0xEE, 0xEF, 3, 0x80, 0xBF},
        {0xF0, 0xF0, 4, 0x90, 0xBF}, {0xF1, 0xF3, 4, 0x80, 0xBF}, {0xF4, 0xF4, 4, 0x80, 0x8F},
    };
    const unsigned char *p = (const unsigned char *)s.p;

    for (size_t i = 0; s.len && i < COUNT_OF(rows); i++) {
        if (p[0] < rows[i].first || p[0] > rows[i].last)
            continue;
        size_t len = rows[i].len;
        if (len > s.len || (len > 1 && (p[1] < rows[i].low || p[1] > rows[i].high)))
            return 0;
        for (size_t k = 2; k < len; k++)
            if ((p[k] & 0xC0) != 0x80)
                return 0;
        return len;
    }
    return 0;
}

struct str str_utf8(struct arena *arena, struct str s)
{
    static const char instead[] = {(char)0xEF, (char)0xBF, (char)0xBD};
    size_t wrong = 0;
    size_t at = 0;

    for (size_t len; at < s.len; at += len ? len : 1) {
        len = (unsigned char)s.p[at] < 0x80 ? 1 : str_utf8_len(str_sub(s, at, s.len));
        wrong += !len;
    }
    if (!wrong)
        return s;
    char *copy = arena_raw(arena, s.len + wrong * (sizeof(instead) - 1) + 1, 1);
    size_t end = 0;
    for (size_t i = 0; i < s.len;) {
        size_t len = str_utf8_len(str_sub(s, i, s.len));

        memcpy(copy + end, len ? s.p + i : instead, len ? len : sizeof(instead));
        end += len ? len : sizeof(instead);
        i += len ? len : 1;
    }
    copy[end] = '\0';
    return (struct str){copy, end};
}
