#pragma once

#include "base/cleanup.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct arena;

/* str: a piece of text that somebody else owns: a pointer and a length, no NUL needed.
 *
 * Everything that comes from outside is handled as a str; NUL-terminated strings appear only where
 * libc wants them (str_c() makes one). The zero value is the empty, absent string: str_is_set()
 * tells "absent" from "empty". A str is passed by value and never freed. */
struct str {
    const char *p;
    size_t len;
};

/* STR("literal"), STR_FMT in a format with STR_ARG(s) as its argument. */
#define STR(literal) ((struct str){"" literal, sizeof(literal) - 1})
#define STR_NONE     ((struct str){NULL, 0})
#define STR_FMT      "%.*s"
#define STR_ARG(s)   (int)(s).len, str_chars(s)

/* What "%.*s" may be given: a function, so that the choice is one branch in the whole program and not one in each caller. */
static inline const char *str_chars(struct str s)
{
    return s.p ? s.p : "";
}

static inline struct str str_from(const char *c)
{
    return (struct str){c, c ? strlen(c) : 0};
}

static inline bool str_is_set(struct str s)
{
    return s.p != NULL;
}

static inline bool str_eq(struct str a, struct str b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.p, b.p, a.len) == 0);
}

static inline bool str_is(struct str s, const char *c)
{
    return str_eq(s, str_from(c));
}

bool str_starts(struct str s, struct str prefix);
bool str_ends(struct str s, struct str suffix);
/* -1, 0, 1 by bytes; a prefix sorts first. */
int str_cmp(struct str a, struct str b);
/* Index of the first `c`, or s.len. */
size_t str_find(struct str s, char c);
bool str_contains(struct str s, struct str needle);
/* `count` bytes from `start`, both clamped to what is there. */
struct str str_sub(struct str s, size_t start, size_t count);
struct str str_trim(struct str s);
/* Take the part before the first `sep` off *rest. Returns false when *rest is used up; "a,,b" gives
 * "a", "", "b". Start with a copy of the whole text. */
bool str_cut(struct str *rest, char sep, struct str *ret_part);

/* Copies in the arena; both are NUL-terminated behind their length. */
struct str str_dup(struct arena *arena, struct str s);
char *str_c(struct arena *arena, struct str s);
struct str str_printf(struct arena *arena, const char *fmt, ...) _printf_(2, 3);

/* Length of the UTF-8 sequence that `s` begins with; 0 when it begins with none (overlong forms and
 * surrogates are not valid) or is empty. */
size_t str_utf8_len(struct str s);
/* `s` where it is valid UTF-8; else a copy with U+FFFD for every byte that is not, as Go writes it.
 */
struct str str_utf8(struct arena *arena, struct str s);

/* Whole text must be a decimal number in range; *ret is untouched otherwise. */
bool str_to_i64(struct str s, int64_t *ret);
bool str_to_u64(struct str s, uint64_t *ret);

uint64_t str_hash(struct str s, uint64_t seed);
