#pragma once

#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* zone: how far the clocks of a place are ahead of UTC, from the file that the system has about it
 * (TZif, RFC 8536: a table of changes, and a rule for the time behind it). */
#define ZONE_BYTES_MAX 65536 /* the largest file has some 4 KiB */

/* A day of the year on which clocks change, and when. */
struct zone_rule {
    enum {
        ZONE_MONTH,  /* the week'th weekday of a month; week 5: the last one */
        ZONE_JULIAN, /* 1..365, February 29 is not counted */
        ZONE_DAY,    /* 0..365 */
    } form;
    int64_t month;
    int64_t week;
    int64_t day;
    int64_t seconds; /* after midnight, of the clocks before the change */
};

/* Borrows the bytes it was made of. */
struct zone {
    const unsigned char *times; /* 8 bytes each */
    const unsigned char *which; /* a type each */
    const unsigned char *types; /* 6 bytes each */
    size_t time_count;
    size_t type_count;
    /* Behind the table; without a rule the last entry holds for ever. */
    bool has_rule;
    int64_t standard_s;
    int64_t summer_s;
    bool has_summer;
    struct zone_rule from; /* summer begins */
    struct zone_rule to;
};

/* The zone that never changes. */
struct zone zone_fixed(int64_t offset_s);
/* False: it is no such file. */
bool zone_read(struct str bytes, struct zone *ret);
/* "UTC", "Europe/Berlin": what may name a zone; false: it leads somewhere else. */
bool zone_is_name(struct str name);
int64_t zone_offset_ms(const struct zone *zone, int64_t utc_ms);
