#pragma once

#include <stdint.h>
#include <string.h>

/* json_scan: find the bytes of a string that JSON treats specially, eight at a time. Private to the
 * parser and the writer.
 *
 * Of each eight bytes the high bit is set where a byte is a quote, a backslash or a control
 * character. A borrow can set bits above a hit, never below the lowest one, and only that one is
 * used. */
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the lowest byte comes first");
#define SCAN_EACH(byte) (0x0101010101010101U * (uint64_t)(byte))

static inline uint64_t scan_special(uint64_t word)
{
    uint64_t quote = (word ^ SCAN_EACH('"')) - SCAN_EACH(1);
    uint64_t slash = (word ^ SCAN_EACH('\\')) - SCAN_EACH(1);
    uint64_t control = word - SCAN_EACH(0x20);

    return quote | slash | control;
}

/* The first byte at or behind p that is special or not ASCII, or end. */
static inline const char *scan_ascii(const char *p, const char *end)
{
    for (; end - p >= 8; p += 8) {
        uint64_t word;

        memcpy(&word, p, 8);
        uint64_t hits = (scan_special(word) | word) & SCAN_EACH(0x80);
        if (hits)
            return p + (__builtin_ctzll(hits) >> 3);
    }
    while (p < end && (unsigned char)*p >= 0x20 && (unsigned char)*p < 0x80 && *p != '"' &&
           *p != '\\')
        p++;
    return p;
}

/* The first byte at or behind p that must be escaped, or end. */
static inline const char *scan_plain(const char *p, const char *end)
{
    for (; end - p >= 8; p += 8) {
        uint64_t word;

        memcpy(&word, p, 8);
        uint64_t hits = scan_special(word) & ~word & SCAN_EACH(0x80);
        if (hits)
            return p + (__builtin_ctzll(hits) >> 3);
    }
    while (p < end && (unsigned char)*p >= 0x20 && *p != '"' && *p != '\\')
        p++;
    return p;
}
