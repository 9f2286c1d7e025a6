#include "cel/moment.h"

#include "base/arena.h"
#include "base/count.h"
#include "base/str.h"
#include "cel/value.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define NANOS      1000000000
#define DAY        86400
#define FIRST_YEAR (-62135596800) /* 0001-01-01T00:00:00Z */
#define LAST_YEAR  253402300799   /* 9999-12-31T23:59:59Z */

struct cel_value moment_checked(int64_t seconds, uint32_t nanos)
{
    if (seconds < FIRST_YEAR || seconds > LAST_YEAR)
        return cel_error(STR("timestamp overflow"));
    return (struct cel_value){.type = CEL_TIMESTAMP, .i = seconds, .nanos = nanos};
}

bool moment_is_first(struct cel_value timestamp)
{
    return timestamp.i == FIRST_YEAR && timestamp.nanos == 0;
}

struct cel_value moment_add(struct cel_value timestamp, int64_t nanoseconds)
{
    int64_t seconds = nanoseconds / NANOS;
    int64_t nanos = (int64_t)timestamp.nanos + nanoseconds % NANOS;

    seconds += timestamp.i + (nanos >= NANOS) - (nanos < 0);
    nanos += nanos < 0 ? NANOS : nanos >= NANOS ? -NANOS : 0;
    return moment_checked(seconds, (uint32_t)nanos);
}

struct cel_value moment_between(struct cel_value a, struct cel_value b)
{
    int64_t nanoseconds = 0;

    if (__builtin_mul_overflow(a.i - b.i, (int64_t)NANOS, &nanoseconds) ||
        __builtin_add_overflow(nanoseconds, (int64_t)a.nanos - (int64_t)b.nanos, &nanoseconds))
        return cel_error(STR("integer overflow"));
    return cel_duration(nanoseconds);
}

/* ---- days ---- */

/* Days from 1970-01-01 to a date; the year of the count begins in March, so that the day that leap
 * years have is its last. */
static int64_t days_of(int64_t year, int64_t month, int64_t day)
{
    year -= month <= 2;
    int64_t era = year / 400; /* no year is before the first */
    int64_t of_era = year - era * 400;
    int64_t of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;

    return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

static bool is_leap(int64_t year)
{
    return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
}

static int64_t days_in(int64_t year, int64_t month)
{
    static const int64_t days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};

    return days[month - 1] + (month == 2 && is_leap(year) ? 1 : 0);
}

static void date_of(int64_t days, struct moment_parts *ret)
{
    int64_t shifted = days + 719468;
    int64_t era = shifted / 146097;
    int64_t of_era = shifted - era * 146097;
    int64_t year = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    int64_t of_year = of_era - (365 * year + year / 4 - year / 100);
    int64_t month = (5 * of_year + 2) / 153;

    ret->day = of_year - (153 * month + 2) / 5;
    ret->month = month < 10 ? month + 2 : month - 10;
    ret->year = year + era * 400 + (ret->month < 2 ? 1 : 0);
    ret->year_day = days - days_of(ret->year, 1, 1);
    ret->week_day = ((days % 7) + 11) % 7; /* 1970-01-01 was a Thursday; Sunday is 0 */
}

/* ---- reading ---- */

static bool take_number(struct str *rest, size_t digits, int64_t *ret)
{
    int64_t value = 0;

    if (rest->len < digits)
        return false;
    for (size_t i = 0; i < digits; i++) {
        if (rest->p[i] < '0' || rest->p[i] > '9')
            return false;
        value = value * 10 + (rest->p[i] - '0');
    }
    *rest = str_sub(*rest, digits, rest->len);
    *ret = value;
    return true;
}

static bool take_char(struct str *rest, const char *any)
{
    if (!rest->len || !rest->p[0] || !strchr(any, rest->p[0]))
        return false;
    *rest = str_sub(*rest, 1, rest->len);
    return true;
}

/* +02:00 as seconds; of a zone, 02:00 is east too. */
static bool parse_offset(struct str text, int64_t *ret)
{
    int64_t hours = 0;
    int64_t minutes = 0;
    bool west = str_starts(text, STR("-"));

    (void)take_char(&text, "+-");
    if (!take_number(&text, 2, &hours) || !take_char(&text, ":") ||
        !take_number(&text, 2, &minutes) || text.len || hours > 23 || minutes > 59)
        return false;
    *ret = (hours * 60 + minutes) * (west ? -60 : 60);
    return true;
}

static bool parse_fraction(struct str *rest, uint32_t *ret)
{
    int64_t scale = NANOS / 10;
    int64_t nanos = 0;
    size_t digits = 0;

    if (!take_char(rest, "."))
        return true;
    for (; rest->len && rest->p[0] >= '0' && rest->p[0] <= '9'; digits++, scale /= 10) {
        nanos += (rest->p[0] - '0') * scale;
        *rest = str_sub(*rest, 1, rest->len);
    }
    *ret = (uint32_t)nanos;
    return digits > 0;
}

static bool parse_date(struct str *rest, int64_t *ret_days)
{
    int64_t year = 0;
    int64_t month = 0;
    int64_t day = 0;

    if (!take_number(rest, 4, &year) || !take_char(rest, "-") || !take_number(rest, 2, &month) ||
        !take_char(rest, "-") || !take_number(rest, 2, &day) || year < 1 || month < 1 ||
        month > 12 || day < 1 || day > days_in(year, month))
        return false;
    *ret_days = days_of(year, month, day);
    return true;
}

bool moment_parse(struct str text, struct cel_value *ret)
{
    int64_t days = 0;
    int64_t hour = 0;
    int64_t minute = 0;
    int64_t second = 0;
    int64_t offset = 0;
    uint32_t nanos = 0;

    if (!parse_date(&text, &days))
        return false;
    if (text.len) {
        if (!take_char(&text, "Tt") || !take_number(&text, 2, &hour) || !take_char(&text, ":") ||
            !take_number(&text, 2, &minute) || !take_char(&text, ":") ||
            !take_number(&text, 2, &second) || hour > 23 || minute > 59 || second > 59 ||
            !parse_fraction(&text, &nanos))
            return false;
        bool sign = str_starts(text, STR("+")) || str_starts(text, STR("-"));
        if (take_char(&text, "Zz") ? text.len > 0 : !sign || !parse_offset(text, &offset))
            return false;
    }
    struct cel_value value =
        moment_checked(days * DAY + hour * 3600 + minute * 60 + second - offset, nanos);
    if (value.type == CEL_ERROR)
        return false;
    *ret = value;
    return true;
}

/* One number and its unit; the sum is in nanoseconds. */
static bool parse_span(struct str *rest, __int128 *sum)
{
    static const struct {
        const char *name;
        int64_t nanos;
    } units[] = {{"ns", 1},       {"us", 1000}, {"\xc2\xb5s", 1000}, {"\xce\xbcs", 1000},
                 {"ms", 1000000}, {"s", NANOS}, {"m", 60LL * NANOS}, {"h", 3600LL * NANOS}};
    __int128 whole = 0;
    __int128 part = 0;
    __int128 scale = 1;
    size_t at = 0;
    size_t digits = 0;

    for (; at < rest->len && rest->p[at] >= '0' && rest->p[at] <= '9'; at++, digits++)
        if ((whole = whole * 10 + (rest->p[at] - '0')) > (__int128)INT64_MAX + 1)
            return false;
    if (at < rest->len && rest->p[at] == '.')
        for (at++; at < rest->len && rest->p[at] >= '0' && rest->p[at] <= '9'; at++, digits++)
            if (scale < NANOS * (__int128)3600000) {
                part = part * 10 + (rest->p[at] - '0');
                scale *= 10;
            }
    *rest = str_sub(*rest, at, rest->len);
    for (size_t i = 0; digits && i < COUNT_OF(units); i++)
        if (str_starts(*rest, str_from(units[i].name))) {
            *sum += whole * units[i].nanos + part * units[i].nanos / scale;
            *rest = str_sub(*rest, strlen(units[i].name), rest->len);
            return true;
        }
    return false;
}

bool moment_parse_duration(struct str text, struct cel_value *ret)
{
    bool negative = str_starts(text, STR("-"));
    __int128 sum = 0;

    (void)take_char(&text, "+-");
    if (str_is(text, "0")) {
        *ret = cel_duration(0);
        return true;
    }
    if (!text.len)
        return false;
    while (text.len)
        if (!parse_span(&text, &sum) || sum > (__int128)INT64_MAX + (negative ? 1 : 0))
            return false;
    *ret = cel_duration((int64_t)(negative ? -sum : sum));
    return true;
}

/* ---- writing ---- */

/* ".5", or nothing. */
static struct str fraction_text(struct arena *arena, int64_t nanos)
{
    if (!nanos)
        return STR("");
    struct str text = str_printf(arena, ".%09lld", (long long)nanos);
    while (text.p[text.len - 1] == '0')
        text.len--;
    return text;
}

struct str moment_text(struct arena *arena, struct cel_value timestamp)
{
    struct moment_parts parts = moment_split(timestamp, 0);
    struct str fraction = fraction_text(arena, timestamp.nanos);
    return str_printf(arena, "%04lld-%02lld-%02lldT%02lld:%02lld:%02lld" STR_FMT "Z",
                      (long long)parts.year, (long long)parts.month + 1, (long long)parts.day + 1,
                      (long long)parts.hour, (long long)parts.minute, (long long)parts.second,
                      STR_ARG(fraction));
}

struct str moment_duration_text(struct arena *arena, struct cel_value duration)
{
    int64_t nanos = duration.i % NANOS;
    struct str fraction = fraction_text(arena, nanos < 0 ? -nanos : nanos);
    int64_t seconds = duration.i / NANOS;

    return str_printf(arena, "%s%lld" STR_FMT "s", duration.i < 0 && !seconds ? "-" : "",
                      (long long)seconds, STR_ARG(fraction));
}

/* ---- parts ---- */

bool moment_offset(struct str zone, int64_t *ret_s)
{
    *ret_s = 0;
    return str_is(zone, "UTC") || str_is(zone, "GMT") || parse_offset(zone, ret_s);
}

struct moment_parts moment_split(struct cel_value timestamp, int64_t offset_s)
{
    struct moment_parts parts = {0};
    int64_t seconds = timestamp.i + offset_s;
    int64_t days = seconds / DAY - (seconds % DAY < 0);
    int64_t rest = seconds - days * DAY;

    date_of(days, &parts);
    parts.hour = rest / 3600;
    parts.minute = rest / 60 % 60;
    parts.second = rest % 60;
    return parts;
}
