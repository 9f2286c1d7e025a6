#pragma once

#include "base/str.h"
#include "cel/value.h"

#include <stdbool.h>
#include <stdint.h>

struct arena;

/* moment: timestamps and durations to the nanosecond; base/time.h has milliseconds. */

/* RFC 3339, the years 1 to 9999; also a date alone, which is its midnight. */
bool moment_parse(struct str text, struct cel_value *ret);
/* Go's durations: "1h30m", "-1.5s", "100us". */
bool moment_parse_duration(struct str text, struct cel_value *ret);
struct str moment_text(struct arena *arena, struct cel_value timestamp);
/* "90s", "1.5s": seconds, as CEL writes them. */
struct str moment_duration_text(struct arena *arena, struct cel_value duration);
/* Outside of the years 1 to 9999: an error. */
struct cel_value moment_checked(int64_t seconds, uint32_t nanos);
/* The first moment that there is, which stands for none. */
bool moment_is_first(struct cel_value timestamp);
/* timestamp + nanoseconds, which may be negative. */
struct cel_value moment_add(struct cel_value timestamp, int64_t nanoseconds);
/* a - b as a duration; an error when it is longer than 290 years. */
struct cel_value moment_between(struct cel_value a, struct cel_value b);

struct moment_parts {
    int64_t year;
    int64_t month; /* 0 to 11 */
    int64_t day;   /* 0 to 30 */
    int64_t week_day;
    int64_t year_day;
    int64_t hour;
    int64_t minute;
    int64_t second;
};
/* At a place whose clocks are so far ahead of UTC. */
struct moment_parts moment_split(struct cel_value timestamp, int64_t offset_s);
/* "UTC" or "+02:00". False: it is another one, which has a file. */
bool moment_offset(struct str zone, int64_t *ret_s);
