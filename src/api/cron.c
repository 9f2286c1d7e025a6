#include "api/cron.h"

#include "api/zone.h"
#include "base/count.h"
#include "base/err.h"
#include "base/str.h"
#include "base/time.h"

#include <errno.h>
#include <stddef.h>

#define MINUTE_MS   60000
#define HOUR_MIN    60
#define DAY_MIN     1440
#define YEARS_MAX   5
#define CHANGES_MAX (4 * YEARS_MAX) /* of clocks: two a year, and some to spare */

/* ---- reading ---- */

struct cron_field {
    const char *name;
    int64_t first;
    int64_t last;
    const char *words; /* names of the values, from the first on, three letters each; or NULL */
};

static const struct cron_field fields[] = {
    {"minute", 0, 59, NULL},
    {"hour", 0, 23, NULL},
    {"day of the month", 1, 31, NULL},
    {"month", 1, 12, "janfebmaraprmayjunjulaugsepoctnovdec"},
    {"day of the week", 0, 6, "sunmontuewedthufrisat"},
};

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c + ('a' - 'A')) : c;
}

static bool read_value(const struct cron_field *field, struct str text, int64_t *ret)
{
    if (str_to_i64(text, ret))
        return *ret >= field->first && *ret <= field->last;
    for (size_t i = 0; field->words && text.len == 3 && field->words[i]; i += 3)
        if (lower(text.p[0]) == field->words[i] && lower(text.p[1]) == field->words[i + 1] &&
            lower(text.p[2]) == field->words[i + 2]) {
            *ret = field->first + (int64_t)(i / 3);
            return true;
        }
    return false;
}

/* "*", "5", "1-5", each with "/2" behind it. */
static bool read_part(const struct cron_field *field, struct str part, uint64_t *bits, bool *any)
{
    size_t slash = str_find(part, '/');
    struct str range = str_sub(part, 0, slash);
    size_t dash = str_find(range, '-');
    int64_t step = 1;
    int64_t first = field->first;
    int64_t last = field->last;
    bool star = str_is(range, "*") || str_is(range, "?");

    if (slash < part.len &&
        (!str_to_i64(str_sub(part, slash + 1, part.len), &step) || step < 1 || step > 100))
        return false;
    if (star && step == 1)
        *any = true;
    if (!star) {
        if (!read_value(field, str_sub(range, 0, dash), &first))
            return false;
        if (dash < range.len && !read_value(field, str_sub(range, dash + 1, range.len), &last))
            return false;
        if (dash == range.len && slash == part.len)
            last = first;
    }
    if (last < first)
        return false;
    for (int64_t i = first; i <= last; i += step)
        *bits |= 1ULL << i;
    return true;
}

static int read_field(const struct cron_field *field,
                      struct str text,
                      uint64_t *bits,
                      bool *any,
                      struct err *err)
{
    struct str rest = text;
    struct str part;

    while (str_cut(&rest, ',', &part))
        if (!read_part(field, part, bits, any))
            return err_set(err, -EINVAL,
                           "\"" STR_FMT "\" is not a %s: write a number from %lld to %lld, a range "
                           "\"1-5\", a list \"1,3\", \"*\" or a step \"*/2\"",
                           STR_ARG(str_sub(part, 0, 40)), field->name, (long long)field->first,
                           (long long)field->last);
    return 0;
}

static int read_word(struct str text, struct cron *ret, struct err *err)
{
    static const struct {
        const char *word;
        const char *fields;
    } words[] = {
        {"@hourly", "0 * * * *"},   {"@daily", "0 0 * * *"},   {"@midnight", "0 0 * * *"},
        {"@weekly", "0 0 * * 0"},   {"@monthly", "0 0 1 * *"}, {"@yearly", "0 0 1 1 *"},
        {"@annually", "0 0 1 1 *"},
    };
    struct cron cron = {0};

    for (size_t i = 0; i < COUNT_OF(words); i++)
        if (str_is(text, words[i].word))
            return cron_parse(str_from(words[i].fields), ret, err);
    if (!str_starts(text, STR("@every ")) ||
        !time_parse_duration(str_trim(str_sub(text, sizeof("@every ") - 1, text.len)),
                             &cron.every_ms) ||
        cron.every_ms < 1000)
        return err_set(err, -EINVAL,
                       "\"" STR_FMT "\": use @hourly, @daily, @weekly, @monthly, @yearly or "
                       "\"@every 1h30m\", of a second or more",
                       STR_ARG(str_sub(text, 0, 40)));
    cron.every_ms -= cron.every_ms % 1000;
    *ret = cron;
    return 0;
}

// NOLINTNEXTLINE(misc-no-recursion): once, from a word to its fields
int cron_parse(struct str text, struct cron *ret, struct err *err)
{
    struct cron cron = {0};
    uint64_t *const bits[] = {&cron.minutes, &cron.hours, &cron.days, &cron.months, &cron.weekdays};
    bool any[COUNT_OF(bits)] = {0};
    struct str rest = str_trim(text);
    struct str word;
    size_t count = 0;

    if (str_starts(rest, STR("@")))
        return read_word(rest, ret, err);
    while (rest.len && str_cut(&rest, ' ', &word)) {
        if (!word.len)
            continue;
        if (count == COUNT_OF(bits))
            return err_set(err, -EINVAL, "there are more than five fields");
        int r = read_field(&fields[count], word, bits[count], &any[count], err);
        if (r < 0)
            return r;
        count++;
    }
    if (count != COUNT_OF(bits))
        return err_set(
            err, -EINVAL,
            "the schedule has %zu fields and needs five: minute, hour, day of the month, month, "
            "day of the week",
            count);
    cron.any_day = any[2];
    cron.any_weekday = any[4];
    *ret = cron;
    return 0;
}

/* ---- counting ---- */

struct cron_date {
    int64_t year;
    int64_t month;
    int64_t day;
};

static bool is_leap(int64_t year)
{
    return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
}

static int64_t month_days(int64_t year, int64_t month)
{
    static const int8_t days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};

    return days[month - 1] + (month == 2 && is_leap(year));
}

/* Of days since 1970, which is not before the year 1. */
static struct cron_date date_of(int64_t days)
{
    struct cron_date date = {.year = 1970, .month = 1};

    while (days >= 365 + is_leap(date.year))
        days -= 365 + is_leap(date.year++);
    while (days >= month_days(date.year, date.month))
        days -= month_days(date.year, date.month++);
    date.day = days + 1;
    return date;
}

static bool has(uint64_t bits, int64_t value)
{
    return bits >> value & 1;
}

static bool day_matches(const struct cron *cron, const struct cron_date *date, int64_t days)
{
    bool day = has(cron->days, date->day);
    bool weekday = has(cron->weekdays, (days + 4) % 7); /* 1970 began on a Thursday */

    return cron->any_day || cron->any_weekday ? day && weekday : day || weekday;
}

/* The first minute from `at` on, of somebody's clocks, that matches; 0: none. */
static int64_t minute_from(const struct cron *cron, int64_t at)
{
    int64_t end = at + (int64_t)YEARS_MAX * 366 * DAY_MIN;

    while (at < end) {
        int64_t days = at / DAY_MIN;
        struct cron_date date = date_of(days);
        int64_t minute = at % DAY_MIN;

        if (!has(cron->months, date.month))
            at = (days + month_days(date.year, date.month) - date.day + 1) * DAY_MIN;
        else if (!day_matches(cron, &date, days))
            at = (days + 1) * DAY_MIN;
        else if (!has(cron->hours, minute / HOUR_MIN))
            at += HOUR_MIN - minute % HOUR_MIN;
        else if (!has(cron->minutes, minute % HOUR_MIN))
            at++;
        else
            return at;
    }
    return 0;
}

/* When the clocks change between two moments of different offsets. */
static int64_t change_between(const struct zone *zone, int64_t low, int64_t high)
{
    int64_t before = zone_offset_ms(zone, low);

    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2;

        if (zone_offset_ms(zone, middle) == before)
            low = middle;
        else
            high = middle;
    }
    return high;
}

int64_t cron_next(const struct cron *cron, int64_t after_ms, const struct zone *zone)
{
    int64_t offset = zone_offset_ms(zone, after_ms);
    int64_t first = (after_ms + offset) / MINUTE_MS + 1;
    int64_t from = after_ms;

    if (cron->every_ms)
        return after_ms - after_ms % 1000 + cron->every_ms;
    for (int changes = 0; changes <= CHANGES_MAX; changes++) {
        int64_t minute = minute_from(cron, first);
        int64_t at = minute * MINUTE_MS - offset;

        if (!minute || zone_offset_ms(zone, at) == offset)
            return minute ? at : 0;
        /* The clocks are set anew before that: look again from there on. */
        from = change_between(zone, from, at);
        offset = zone_offset_ms(zone, from);
        first = (from + offset + MINUTE_MS - 1) / MINUTE_MS;
    }
    return 0;
}
