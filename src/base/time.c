#include "base/time.h"

#include "base/arena.h"
#include "base/count.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define DAY_MS   ((int64_t)86400000)
#define MS_FIRST ((int64_t)-62135596800000) /* 0001-01-01T00:00:00Z */
#define MS_LAST  ((int64_t)253402300799999) /* 9999-12-31T23:59:59.999Z */

struct date {
    int year;
    int month;
    int day;
};

/* Days since 1970-01-01 of a date of the proleptic Gregorian calendar, and back. Years are counted
 * from March, so that the leap day is the last day of a year; 719468 days lie between 0000-03-01
 * and the epoch. */
static int64_t days_of(struct date date)
{
    int64_t year = date.month <= 2 ? date.year - 1 : date.year;
    int64_t era = (year >= 0 ? year : year - 399) / 400;
    int64_t year_of_era = year - era * 400;
    int64_t month_from_march = (date.month + 9) % 12;
    int64_t day_of_year = (153 * month_from_march + 2) / 5 + date.day - 1;
    int64_t day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;

    return era * 146097 + day_of_era - 719468;
}

static struct date date_of(int64_t days)
{
    int64_t shifted = days + 719468;
    int64_t era = (shifted >= 0 ? shifted : shifted - 146096) / 146097;
    int64_t day_of_era = shifted - era * 146097;
    int64_t year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
    int64_t day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    int64_t month_from_march = (5 * day_of_year + 2) / 153;
    int64_t month = month_from_march < 10 ? month_from_march + 3 : month_from_march - 9;

    return (struct date){
        .year = (int)(year_of_era + era * 400 + (month <= 2 ? 1 : 0)),
        .month = (int)month,
        .day = (int)(day_of_year - (153 * month_from_march + 2) / 5 + 1),
    };
}

static struct str format(int64_t ms, bool micro, char *out)
{
    if (ms < MS_FIRST)
        ms = MS_FIRST;
    if (ms > MS_LAST)
        ms = MS_LAST;

    int64_t days = (ms >= 0 ? ms : ms - (DAY_MS - 1)) / DAY_MS;
    int in_day = (int)(ms - days * DAY_MS);
    struct date date = date_of(days);
    int len = snprintf(out, TIME_TEXT_BYTES, "%04d-%02d-%02dT%02d:%02d:%02d", date.year, date.month,
                       date.day, in_day / 3600000, in_day / 60000 % 60, in_day / 1000 % 60);
    len += snprintf(out + len, TIME_TEXT_BYTES - (size_t)len, micro ? ".%03d000Z" : "Z",
                    in_day % 1000);
    return (struct str){out, (size_t)len};
}

struct str time_format(int64_t ms, char out[static TIME_TEXT_BYTES])
{
    return format(ms, false, out);
}

struct str time_format_micro(int64_t ms, char out[static TIME_TEXT_BYTES])
{
    return format(ms, true, out);
}

struct str time_text(struct arena *arena, int64_t ms)
{
    char text[TIME_TEXT_BYTES];

    return str_dup(arena, time_format(ms, text));
}

/* Exactly `digits` decimal digits at the front of *rest. */
static bool take_digits(struct str *rest, size_t digits, int *ret)
{
    uint64_t value = 0;

    if (rest->len < digits || !str_to_u64(str_sub(*rest, 0, digits), &value))
        return false;
    *rest = str_sub(*rest, digits, rest->len);
    *ret = (int)value;
    return true;
}

static bool take_char(struct str *rest, const char *set, char *ret)
{
    if (!rest->len || str_find(str_from(set), rest->p[0]) == str_from(set).len)
        return false;
    *ret = rest->p[0];
    *rest = str_sub(*rest, 1, rest->len);
    return true;
}

static int days_in_month(int year, int month)
{
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;

    return month == 2 && leap ? 29 : days[month - 1];
}

/* ".123456" to milliseconds; digits past the third are dropped. */
static bool take_fraction(struct str *rest, int *ret_ms)
{
    int ms = 0;
    size_t digits = 0;
    char c = 0;

    if (!take_char(rest, ".", &c))
        return true;
    for (; take_char(rest, "0123456789", &c); digits++)
        if (digits < 3)
            ms = ms * 10 + (c - '0');
    if (!digits)
        return false;
    for (; digits < 3; digits++)
        ms *= 10;
    *ret_ms = ms;
    return true;
}

bool time_parse(struct str text, int64_t *ret_ms)
{
    struct date date = {0};
    int hour = 0;
    int minute = 0;
    int second = 0;
    int ms = 0;
    int offset_minutes = 0;
    char c = 0;

    if (!take_digits(&text, 4, &date.year) || !take_char(&text, "-", &c) ||
        !take_digits(&text, 2, &date.month) || !take_char(&text, "-", &c) ||
        !take_digits(&text, 2, &date.day) || !take_char(&text, "Tt ", &c) ||
        !take_digits(&text, 2, &hour) || !take_char(&text, ":", &c) ||
        !take_digits(&text, 2, &minute) || !take_char(&text, ":", &c) ||
        !take_digits(&text, 2, &second) || !take_fraction(&text, &ms) ||
        !take_char(&text, "Zz+-", &c))
        return false;
    if (c == '+' || c == '-') {
        int offset_hours = 0;
        char colon = 0;

        if (!take_digits(&text, 2, &offset_hours) || !take_char(&text, ":", &colon) ||
            !take_digits(&text, 2, &offset_minutes) || offset_hours > 23 || offset_minutes > 59)
            return false;
        offset_minutes = (offset_hours * 60 + offset_minutes) * (c == '-' ? -1 : 1);
    }
    if (text.len || date.year < 1 || date.month < 1 || date.month > 12 || date.day < 1 ||
        date.day > days_in_month(date.year, date.month) || hour > 23 || minute > 59 || second > 60)
        return false;

    int64_t minutes = (int64_t)hour * 60 + minute - offset_minutes;
    int64_t moment = days_of(date) * DAY_MS + minutes * 60000 + (int64_t)second * 1000 + ms;
    if (moment < MS_FIRST || moment > MS_LAST)
        return false;
    *ret_ms = moment;
    return true;
}

struct str time_age(struct arena *arena, int64_t duration_ms)
{
    int64_t s = duration_ms < 0 ? 0 : duration_ms / 1000;
    int64_t m = s / 60;
    int64_t h = m / 60;
    int64_t d = h / 24;

    /* kubectl's own steps: the finer unit is dropped as the age grows. */
    if (s < 120)
        return str_printf(arena, "%llds", (long long)s);
    if (m < 10)
        return s % 60 ? str_printf(arena, "%lldm%llds", (long long)m, (long long)(s % 60))
                      : str_printf(arena, "%lldm", (long long)m);
    if (m < 180)
        return str_printf(arena, "%lldm", (long long)m);
    if (h < 8)
        return m % 60 ? str_printf(arena, "%lldh%lldm", (long long)h, (long long)(m % 60))
                      : str_printf(arena, "%lldh", (long long)h);
    if (h < 48)
        return str_printf(arena, "%lldh", (long long)h);
    if (d < 8)
        return h % 24 ? str_printf(arena, "%lldd%lldh", (long long)d, (long long)(h % 24))
                      : str_printf(arena, "%lldd", (long long)d);
    if (d < 730)
        return str_printf(arena, "%lldd", (long long)d);
    if (d < 8 * 365)
        return d % 365 ? str_printf(arena, "%lldy%lldd", (long long)(d / 365), (long long)(d % 365))
                       : str_printf(arena, "%lldy", (long long)(d / 365));
    return str_printf(arena, "%lldy", (long long)(d / 365));
}

struct unit {
    const char *name;
    int64_t ns;
};

static const struct unit units[] = {
    {"ns", 1},         {"us", 1000},       {"ms", 1000000},
    {"s", 1000000000}, {"m", 60000000000}, {"h", 3600000000000},
};

static const struct unit *take_unit(struct str *rest)
{
    size_t len = 0;

    while (len < rest->len && rest->p[len] >= 'a' && rest->p[len] <= 'z')
        len++;
    for (size_t i = 0; i < COUNT_OF(units); i++) {
        if (str_is(str_sub(*rest, 0, len), units[i].name)) {
            *rest = str_sub(*rest, len, rest->len);
            return &units[i];
        }
    }
    return NULL;
}

bool time_parse_duration(struct str text, int64_t *ret_ms)
{
    char c = 0;
    bool negative = take_char(&text, "-", &c);
    __int128 total_ns = 0;

    if (str_is(text, "0")) {
        *ret_ms = 0;
        return true;
    }
    if (!text.len)
        return false;
    while (text.len) {
        __int128 value = 0;
        __int128 scale = 1;
        bool any = false;
        bool fraction = false;

        for (; take_char(&text, "0123456789.", &c);) {
            if (c == '.') {
                if (fraction)
                    return false;
                fraction = true;
                continue;
            }
            any = true;
            if (scale > 1000000000 || value > INT64_MAX)
                return false;
            value = value * 10 + (c - '0');
            if (fraction)
                scale *= 10;
        }
        const struct unit *unit = any ? take_unit(&text) : NULL;
        if (!unit)
            return false;
        total_ns += value * unit->ns / scale;
        if (total_ns > (__int128)INT64_MAX * 1000000)
            return false;
    }
    *ret_ms = (int64_t)(total_ns / 1000000) * (negative ? -1 : 1);
    return true;
}
