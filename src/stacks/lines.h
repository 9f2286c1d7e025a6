#pragma once

#include "base/str.h"

#include <stdint.h>

/* lines: which line of the source an instruction belongs to, from the table that CPython keeps with
 * a code object. Three forms; the table may hold anything: what is wrong in it ends the search.
 *
 *   LINES_PAIRS    3.9: pairs of bytes, so many bytes of code further, so many lines (signed).
 *   LINES_RANGES   3.10: the same pairs, but each is a range: its lines count from its beginning;
 *                  -128 has no line.
 *   LINES_ENTRIES  3.11 and later: entries that begin with a byte 1xxxxyyy: y + 1 units of two bytes
 *                  of code, in the form x: 15 has no line, 14 a signed variable-length line and three
 *                  numbers behind it, 13 the line alone, 12 to 10 two, one or no line further and two
 *                  bytes, all others no line further and one byte. */
enum lines_form {
    LINES_PAIRS,
    LINES_RANGES,
    LINES_ENTRIES,
};

/* `at` is in bytes of code. -1: it has no line. */
int64_t lines_find(enum lines_form form, struct str table, int64_t first_line, int64_t at);
