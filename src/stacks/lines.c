#include "stacks/lines.h"

#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LINE_MAX_EVER   10000000 /* a source of ten million lines is none */
#define VARINT_BITS_MAX 30

/* 3.9: the last entry that does not begin behind the instruction counts. */
static int64_t pairs_find(struct str table, int64_t line, int64_t at)
{
    int64_t address = 0;

    for (size_t i = 0; i + 1 < table.len; i += 2) {
        address += (unsigned char)table.p[i];
        if (address > at)
            break;
        line += (signed char)table.p[i + 1];
    }
    return line;
}

static int64_t ranges_find(struct str table, int64_t line, int64_t at)
{
    int64_t end = 0;

    for (size_t i = 0; i + 1 < table.len; i += 2) {
        int delta = (signed char)table.p[i + 1];

        end += (unsigned char)table.p[i];
        if (delta != -128)
            line += delta;
        if (at < end)
            return delta == -128 ? -1 : line;
    }
    return -1;
}

/* ---- 3.11 and later ---- */

struct cursor {
    struct str table;
    size_t at;
};

static bool cursor_byte(struct cursor *cursor, unsigned *ret)
{
    if (cursor->at >= cursor->table.len)
        return false;
    *ret = (unsigned char)cursor->table.p[cursor->at++];
    return true;
}

/* Six bits a byte, the lowest first; bit 6: there is another. */
static bool cursor_varint(struct cursor *cursor, uint64_t *ret)
{
    uint64_t number = 0;
    unsigned byte = 0x40;

    for (unsigned shift = 0; byte & 0x40; shift += 6) {
        if (shift > VARINT_BITS_MAX || !cursor_byte(cursor, &byte))
            return false;
        number |= (uint64_t)(byte & 0x3f) << shift;
    }
    *ret = number;
    return true;
}

/* The sign is in the lowest bit. */
static bool cursor_signed(struct cursor *cursor, int64_t *ret)
{
    uint64_t number = 0;

    if (!cursor_varint(cursor, &number))
        return false;
    *ret = number & 1 ? -(int64_t)(number >> 1) : (int64_t)(number >> 1);
    return true;
}

/* How many lines an entry of this form is further; false: it is cut. */
static bool cursor_entry(struct cursor *cursor, unsigned form, int64_t *ret_delta)
{
    size_t skip = form >= 10 && form <= 12 ? 2 : 1;
    uint64_t number;

    *ret_delta = 0;
    switch (form) {
    case 15: return true;
    case 14:
        if (!cursor_signed(cursor, ret_delta))
            return false;
        for (int i = 0; i < 3; i++)
            if (!cursor_varint(cursor, &number))
                return false;
        return true;
    case 13: return cursor_signed(cursor, ret_delta);
    default:
        if (skip == 2)
            *ret_delta = (int64_t)form - 10;
        if (cursor->table.len - cursor->at < skip)
            return false;
        cursor->at += skip;
        return true;
    }
}

static int64_t entries_find(struct str table, int64_t line, int64_t at)
{
    struct cursor cursor = {.table = table};
    int64_t end = 0;
    unsigned head = 0;

    while (cursor_byte(&cursor, &head) && head & 0x80) {
        unsigned form = (head >> 3) & 15;
        int64_t delta = 0;

        if (!cursor_entry(&cursor, form, &delta))
            return -1;
        line += delta;
        end += 2 * ((int64_t)(head & 7) + 1);
        if (at < end)
            return form == 15 ? -1 : line;
    }
    return -1;
}

int64_t lines_find(enum lines_form form, struct str table, int64_t first_line, int64_t at)
{
    int64_t line = -1;

    switch (form) {
    case LINES_PAIRS: line = pairs_find(table, first_line, at); break;
    case LINES_RANGES: line = ranges_find(table, first_line, at); break;
    case LINES_ENTRIES: line = entries_find(table, first_line, at); break;
    }
    return line > 0 && line <= LINE_MAX_EVER ? line : -1;
}
