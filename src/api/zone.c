#include "api/zone.h"

#include "base/str.h"

#include <string.h>

#define HEAD_BYTES 44
#define DAY_S      86400
#define TYPES_MAX  256

/* ---- bytes ---- */

static int64_t big_endian(const unsigned char *p, size_t count)
{
    uint64_t value = p[0] & 0x80 ? UINT64_MAX : 0;

    for (size_t i = 0; i < count; i++)
        value = value << 8 | p[i];
    return (int64_t)value;
}

struct zone_counts {
    size_t utc, standard, leaps, times, types, letters;
};

static bool read_head(struct str bytes, struct zone_counts *ret)
{
    size_t *const counts[] = {&ret->utc,   &ret->standard, &ret->leaps,
                              &ret->times, &ret->types,    &ret->letters};

    if (bytes.len < HEAD_BYTES || memcmp(bytes.p, "TZif", 4) != 0)
        return false;
    for (size_t i = 0; i < 6; i++) {
        int64_t value = big_endian((const unsigned char *)bytes.p + 20 + 4 * i, 4);

        if (value < 0 || value > ZONE_BYTES_MAX)
            return false;
        *counts[i] = (size_t)value;
    }
    return true;
}

/* Of times of `width` bytes. */
static size_t block_bytes(const struct zone_counts *c, size_t width)
{
    return c->times * (width + 1) + c->types * 6 + c->letters + c->leaps * (width + 4) +
           c->standard + c->utc;
}

/* ---- the rule behind the table: "CET-1CEST,M3.5.0,M10.5.0/3" ---- */

struct zone_text {
    const char *p;
    const char *end;
};

static bool take(struct zone_text *text, char c)
{
    if (text->p == text->end || *text->p != c)
        return false;
    text->p++;
    return true;
}

static bool take_number(struct zone_text *text, int64_t *ret)
{
    int64_t value = 0;
    int digits = 0;

    for (; text->p < text->end && *text->p >= '0' && *text->p <= '9' && digits < 4; digits++)
        value = value * 10 + (*text->p++ - '0');
    *ret = value;
    return digits > 0;
}

static bool take_name(struct zone_text *text)
{
    const char *from = text->p;

    if (take(text, '<')) {
        while (text->p < text->end && *text->p != '>')
            text->p++;
        return take(text, '>');
    }
    while (text->p < text->end && ((*text->p | 32) >= 'a' && (*text->p | 32) <= 'z'))
        text->p++;
    return text->p - from >= 3;
}

/* [+-]hh[:mm[:ss]] */
static bool take_time(struct zone_text *text, int64_t *ret)
{
    bool minus = take(text, '-');
    int64_t hours = 0;
    int64_t minutes = 0;
    int64_t seconds = 0;

    if (!minus)
        (void)take(text, '+');
    if (!take_number(text, &hours) || (take(text, ':') && !take_number(text, &minutes)) ||
        (take(text, ':') && !take_number(text, &seconds)))
        return false;
    *ret = (hours * 60 + minutes) * 60 + seconds;
    if (minus)
        *ret = -*ret;
    return true;
}

static bool take_rule(struct zone_text *text, struct zone_rule *ret)
{
    *ret = (struct zone_rule){.seconds = 2 * 3600};
    if (!take(text, ','))
        return false;
    if (take(text, 'M')) {
        ret->form = ZONE_MONTH;
        if (!take_number(text, &ret->month) || !take(text, '.') || !take_number(text, &ret->week) ||
            !take(text, '.') || !take_number(text, &ret->day) || ret->month < 1 ||
            ret->month > 12 || ret->week < 1 || ret->week > 5 || ret->day > 6)
            return false;
    } else {
        ret->form = take(text, 'J') ? ZONE_JULIAN : ZONE_DAY;
        /* J1 to J365, without 29 February; 0 to 365, with it. */
        if (!take_number(text, &ret->day) || ret->day > 365 ||
            (ret->form == ZONE_JULIAN && ret->day < 1))
            return false;
    }
    return !take(text, '/') || take_time(text, &ret->seconds);
}

static bool read_rule(struct str line, struct zone *zone)
{
    struct zone_text text = {line.p, line.p + line.len};
    int64_t offset = 0;

    if (!take_name(&text) || !take_time(&text, &offset))
        return false;
    zone->has_rule = true;
    zone->standard_s = -offset;
    if (text.p == text.end)
        return true;
    if (!take_name(&text))
        return false;
    zone->summer_s = zone->standard_s + 3600;
    if (text.p < text.end && *text.p != ',') {
        if (!take_time(&text, &offset))
            return false;
        zone->summer_s = -offset;
    }
    zone->has_summer = true;
    return take_rule(&text, &zone->from) && take_rule(&text, &zone->to) && text.p == text.end;
}

/* ---- reading ---- */

struct zone zone_fixed(int64_t offset_s)
{
    return (struct zone){.has_rule = true, .standard_s = offset_s};
}

static bool types_fit(const struct zone *zone)
{
    for (size_t i = 0; i < zone->time_count; i++)
        if (zone->which[i] >= zone->type_count)
            return false;
    return true;
}

bool zone_read(struct str bytes, struct zone *ret)
{
    struct zone_counts counts = {0};
    struct zone zone = {0};

    if (bytes.len > ZONE_BYTES_MAX || !read_head(bytes, &counts) || bytes.p[4] < '2')
        return false;
    size_t skip = HEAD_BYTES + block_bytes(&counts, 4);
    if (skip > bytes.len)
        return false;
    bytes = str_sub(bytes, skip, bytes.len);
    if (!read_head(bytes, &counts) || counts.types > TYPES_MAX ||
        HEAD_BYTES + block_bytes(&counts, 8) > bytes.len)
        return false;
    zone.times = (const unsigned char *)bytes.p + HEAD_BYTES;
    zone.which = zone.times + 8 * counts.times;
    zone.types = zone.which + counts.times;
    zone.time_count = counts.times;
    zone.type_count = counts.types;
    struct str tail = str_sub(bytes, HEAD_BYTES + block_bytes(&counts, 8), bytes.len);
    struct str line = STR("");
    if (!str_starts(tail, STR("\n")) || !types_fit(&zone))
        return false;
    tail = str_sub(tail, 1, tail.len);
    if (str_find(tail, '\n') == tail.len)
        return false; /* cut off */
    (void)str_cut(&tail, '\n', &line);
    if (line.len && !read_rule(line, &zone))
        return false;
    *ret = zone;
    return true;
}

bool zone_is_name(struct str name)
{
    if (!name.len || name.len > 64 || name.p[0] == '/' || name.p[0] == '.' ||
        str_contains(name, STR("..")) || str_is(name, "Local"))
        return false;
    for (size_t i = 0; i < name.len; i++) {
        char c = name.p[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');

        if (!letter && c != '_' && c != '-' && c != '+' && c != '/')
            return false;
    }
    return true;
}

/* ---- asking ---- */

static bool is_leap(int64_t year)
{
    return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
}

static int64_t days_before(int64_t year)
{
    int64_t y = year - 1;

    return 365 * (year - 1970) + (y / 4 - y / 100 + y / 400) - (1969 / 4 - 1969 / 100 + 1969 / 400);
}

/* The day of the year, from 0, on which a rule holds. */
static int64_t rule_day(const struct zone_rule *rule, int64_t year)
{
    static const int16_t before[] = {0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334, 365};
    bool leap = is_leap(year);

    if (rule->form == ZONE_DAY)
        return rule->day;
    if (rule->form == ZONE_JULIAN)
        return rule->day - 1 + (leap && rule->day > 59);
    int64_t first = before[rule->month - 1] + (leap && rule->month > 2);
    int64_t next = before[rule->month] + (leap && rule->month > 1);
    int64_t weekday = (days_before(year) + first + 4) % 7; /* 1970 began on a Thursday */
    int64_t day = first + (rule->day - weekday + 7) % 7 + 7 * (rule->week - 1);
    return day >= next ? day - 7 : day;
}

static int64_t by_rule(const struct zone *zone, int64_t utc_s)
{
    int64_t year = 1970;

    if (!zone->has_summer)
        return zone->standard_s;
    int64_t days = (utc_s + zone->standard_s) / DAY_S;
    year += days / 366;
    while (days_before(year + 1) <= days)
        year++;
    int64_t start = days_before(year) * DAY_S;
    int64_t from =
        start + rule_day(&zone->from, year) * DAY_S + zone->from.seconds - zone->standard_s;
    int64_t to = start + rule_day(&zone->to, year) * DAY_S + zone->to.seconds - zone->summer_s;
    bool summer = from < to ? utc_s >= from && utc_s < to : utc_s >= from || utc_s < to;
    return summer ? zone->summer_s : zone->standard_s;
}

int64_t zone_offset_ms(const struct zone *zone, int64_t utc_ms)
{
    int64_t utc_s = utc_ms / 1000;
    size_t low = 0;
    size_t high = zone->time_count;

    while (low < high) {
        size_t middle = (low + high) / 2;

        if (big_endian(zone->times + 8 * middle, 8) <= utc_s)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == zone->time_count && zone->has_rule) /* also where there is no table */
        return by_rule(zone, utc_s) * 1000;
    if (!zone->type_count)
        return 0;
    size_t type = low ? zone->which[low - 1] : 0;
    return big_endian(zone->types + 6 * type, 4) * 1000;
}
