#include "api/zone.h"
#include "base/arena.h"
#include "base/str.h"
#include "cel/moment.h"
#include "cel/number.h"
#include "cel/object.h"
#include "cel/run.h"
#include "cel/value.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* int(), string() and the like; parts of timestamps and durations. */

static struct cel_value fn_int(struct cel_run *run, const struct cel_value *args, size_t count)
{
    struct cel_value value = args[0];
    int64_t whole = 0;

    (void)run;
    (void)count;
    if (value.type == CEL_INT)
        return value;
    if (value.type == CEL_UINT)
        return value.u <= INT64_MAX ? cel_int((int64_t)value.u)
                                    : cel_error(STR("integer overflow"));
    if (value.type == CEL_DOUBLE)
        return number_to_i64(value.d, &whole) ? cel_int(whole) : cel_error(STR("integer overflow"));
    if (value.type == CEL_STRING)
        return str_to_i64(value.s, &whole)
                   ? cel_int(whole)
                   : cel_error(STR("type conversion error from string to int"));
    return value.type == CEL_TIMESTAMP || value.type == CEL_DURATION ? cel_int(value.i)
                                                                     : run_no_overload();
}

static struct cel_value fn_uint(struct cel_run *run, const struct cel_value *args, size_t count)
{
    struct cel_value value = args[0];
    uint64_t whole = 0;

    (void)run;
    (void)count;
    if (value.type == CEL_UINT)
        return value;
    if (value.type == CEL_INT)
        return value.i >= 0 ? cel_uint((uint64_t)value.i)
                            : cel_error(STR("unsigned integer overflow"));
    if (value.type == CEL_DOUBLE)
        return number_to_u64(value.d, &whole) ? cel_uint(whole)
                                              : cel_error(STR("unsigned integer overflow"));
    if (value.type != CEL_STRING)
        return run_no_overload();
    return str_to_u64(value.s, &whole)
               ? cel_uint(whole)
               : cel_error(STR("type conversion error from string to uint"));
}

static struct cel_value fn_double(struct cel_run *run, const struct cel_value *args, size_t count)
{
    struct cel_value value = args[0];
    double real = 0;

    (void)run;
    (void)count;
    if (value.type == CEL_DOUBLE)
        return value;
    if (value.type == CEL_INT)
        return cel_double((double)value.i);
    if (value.type == CEL_UINT)
        return cel_double((double)value.u);
    if (value.type != CEL_STRING)
        return run_no_overload();
    return number_parse(value.s, &real)
               ? cel_double(real)
               : cel_error(STR("type conversion error from string to double"));
}

static bool is_utf8(struct str text)
{
    while (text.len) {
        size_t len = str_utf8_len(text);

        if (!len)
            return false;
        text = str_sub(text, len, text.len);
    }
    return true;
}

static struct cel_value fn_string(struct cel_run *run, const struct cel_value *args, size_t count)
{
    struct cel_value value = args[0];

    (void)count;
    switch (value.type) {
    case CEL_STRING: return value;
    case CEL_BYTES:
        if (!run_charge_text(run, value.s.len))
            return run->stopped;
        return is_utf8(value.s)
                   ? cel_string(value.s)
                   : cel_error(STR("invalid UTF-8 in bytes, cannot convert to string"));
    case CEL_BOOL:
    case CEL_INT:
    case CEL_UINT:
    case CEL_DOUBLE:
    case CEL_TIMESTAMP:
    case CEL_DURATION:
    case CEL_IP:
    case CEL_CIDR: return cel_string(object_text(run->arena, value));
    case CEL_DYN:
    case CEL_ERROR:
    case CEL_NULL:
    case CEL_LIST:
    case CEL_MAP:
    case CEL_TYPE:
    case CEL_OPTIONAL:
    case CEL_URL:
    case CEL_QUANTITY:
    case CEL_SEMVER:
    case CEL_FORMAT: break;
    }
    return run_no_overload();
}

static struct cel_value fn_bytes(struct cel_run *run, const struct cel_value *args, size_t count)
{
    struct cel_value value = args[0];

    (void)run;
    (void)count;
    if (value.type != CEL_STRING && value.type != CEL_BYTES)
        return run_no_overload();
    value.type = CEL_BYTES;
    return value;
}

static struct cel_value fn_bool(struct cel_run *run, const struct cel_value *args, size_t count)
{
    static const char *const yes[] = {"true", "TRUE", "True", "t", "T", "1"};
    static const char *const no[] = {"false", "FALSE", "False", "f", "F", "0"};

    (void)run;
    (void)count;
    if (args[0].type == CEL_BOOL)
        return args[0];
    if (args[0].type != CEL_STRING)
        return run_no_overload();
    for (size_t i = 0; i < sizeof(yes) / sizeof(yes[0]); i++) {
        if (str_is(args[0].s, yes[i]))
            return cel_bool(true);
        if (str_is(args[0].s, no[i]))
            return cel_bool(false);
    }
    return cel_error(STR("type conversion error from string to bool"));
}

static struct cel_value fn_timestamp(struct cel_run *run,
                                     const struct cel_value *args,
                                     size_t count)
{
    struct cel_value moment = {0};

    (void)run;
    (void)count;
    if (args[0].type == CEL_TIMESTAMP)
        return args[0];
    if (args[0].type == CEL_INT)
        return moment_checked(args[0].i, 0);
    if (args[0].type != CEL_STRING)
        return run_no_overload();
    /* A date alone is one in a field of that format only. */
    return args[0].s.len > 10 && moment_parse(args[0].s, &moment)
               ? moment
               : cel_error(STR("type conversion error from string to timestamp: use RFC 3339"));
}

static struct cel_value fn_duration(struct cel_run *run, const struct cel_value *args, size_t count)
{
    struct cel_value duration = {0};

    (void)run;
    (void)count;
    if (args[0].type == CEL_DURATION)
        return args[0];
    if (args[0].type == CEL_INT)
        return cel_duration(args[0].i);
    if (args[0].type != CEL_STRING)
        return run_no_overload();
    return moment_parse_duration(args[0].s, &duration)
               ? duration
               : cel_error(STR("type conversion error from string to duration: use 1h30m or 90s"));
}

const struct cel_function cel_functions_convert[] = {
    {"int", false, 1, 1, CEL_INT, fn_int, "i>i d>i D>i s>i t>i u>i"},
    {"uint", false, 1, 1, CEL_UINT, fn_uint, "u>u d>u i>u s>u"},
    {"double", false, 1, 1, CEL_DOUBLE, fn_double, "d>d i>d s>d u>d"},
    {"string", false, 1, 1, CEL_STRING, fn_string, "s>s b>s y>s d>s D>s i>s t>s u>s I>s C>s"},
    {"bytes", false, 1, 1, CEL_BYTES, fn_bytes, "y>y s>y"},
    {"bool", false, 1, 1, CEL_BOOL, fn_bool, "b>b s>b"},
    {"timestamp", false, 1, 1, CEL_TIMESTAMP, fn_timestamp, "t>t i>t s>t"},
    {"duration", false, 1, 1, CEL_DURATION, fn_duration, "D>D i>D s>D"},
    {0},
};

/* ---- parts of moments ---- */

#define SECOND 1000000000LL

enum part {
    PART_YEAR,
    PART_MONTH,
    PART_DAY,
    PART_DATE,
    PART_WEEK_DAY,
    PART_YEAR_DAY,
    PART_HOURS,
    PART_MINUTES,
    PART_SECONDS,
    PART_MILLISECONDS,
};

static struct cel_value duration_part(struct cel_value duration, enum part part)
{
    if (part == PART_HOURS)
        return cel_int(duration.i / SECOND / 3600);
    if (part == PART_MINUTES)
        return cel_int(duration.i / SECOND / 60);
    if (part == PART_SECONDS)
        return cel_int(duration.i / SECOND);
    return part == PART_MILLISECONDS ? cel_int(duration.i / 1000000) : run_no_overload();
}

/* Reading a file, as a thousand steps do. */
#define ZONE_COST 1000

/* NULL: it is not known, which *ret_error says. */
static const struct zone *zone_of(struct cel_run *run, struct str name, struct cel_value *ret_error)
{
    struct str bytes = STR_NONE;
    size_t place = run->zone_next % RUN_ZONES;

    for (size_t i = 0; i < RUN_ZONES; i++)
        if (run->zones[i].name.p && str_eq(run->zones[i].name, name))
            return &run->zones[i].zone;
    *ret_error = run->stopped;
    if (!run_charge(run, ZONE_COST) || !run_room(run, ZONE_BYTES_MAX)) {
        *ret_error = run->stopped;
        return NULL;
    }
    if (!zone_is_name(name) || !run->read_zone || !run->read_zone(run->arena, name, &bytes) ||
        !zone_read(bytes, &run->zones[place].zone)) {
        *ret_error = cel_error(
            str_printf(run->arena, "unknown time zone " STR_FMT, STR_ARG(str_sub(name, 0, 80))));
        return NULL;
    }
    run->zones[place].name = name;
    run->zone_next++;
    return &run->zones[place].zone;
}

static struct cel_value moment_part(struct cel_run *run,
                                    const struct cel_value *args,
                                    size_t count,
                                    enum part part)
{
    struct cel_value error = {0};
    int64_t offset_s = 0;

    if (args[0].type == CEL_DURATION && count == 1)
        return duration_part(args[0], part);
    if (args[0].type != CEL_TIMESTAMP || (count == 2 && args[1].type != CEL_STRING))
        return run_no_overload();
    if (count == 2 && args[1].s.len && !moment_offset(args[1].s, &offset_s)) {
        const struct zone *zone = zone_of(run, args[1].s, &error);

        if (!zone)
            return error;
        offset_s = zone_offset_ms(zone, args[0].i * 1000) / 1000;
    }
    struct moment_parts parts = moment_split(args[0], offset_s);
    switch (part) {
    case PART_YEAR: return cel_int(parts.year);
    case PART_MONTH: return cel_int(parts.month);
    case PART_DAY: return cel_int(parts.day);
    case PART_DATE: return cel_int(parts.day + 1);
    case PART_WEEK_DAY: return cel_int(parts.week_day);
    case PART_YEAR_DAY: return cel_int(parts.year_day);
    case PART_HOURS: return cel_int(parts.hour);
    case PART_MINUTES: return cel_int(parts.minute);
    case PART_SECONDS: return cel_int(parts.second);
    case PART_MILLISECONDS: break;
    }
    return cel_int(args[0].nanos / 1000000);
}

#define PART_FUNCTION(id, part)                                                                 \
    static struct cel_value id(struct cel_run *run, const struct cel_value *args, size_t count) \
    {                                                                                           \
        return moment_part(run, args, count, part);                                             \
    }
PART_FUNCTION(fn_year, PART_YEAR)
PART_FUNCTION(fn_month, PART_MONTH)
PART_FUNCTION(fn_day, PART_DAY)
PART_FUNCTION(fn_date, PART_DATE)
PART_FUNCTION(fn_week_day, PART_WEEK_DAY)
PART_FUNCTION(fn_year_day, PART_YEAR_DAY)
PART_FUNCTION(fn_hours, PART_HOURS)
PART_FUNCTION(fn_minutes, PART_MINUTES)
PART_FUNCTION(fn_seconds, PART_SECONDS)
PART_FUNCTION(fn_milliseconds, PART_MILLISECONDS)

const struct cel_function cel_functions_moment[] = {
    {"getFullYear", true, 1, 2, CEL_INT, fn_year, "t>i ts>i"},
    {"getMonth", true, 1, 2, CEL_INT, fn_month, "t>i ts>i"},
    {"getDayOfMonth", true, 1, 2, CEL_INT, fn_day, "t>i ts>i"},
    {"getDate", true, 1, 2, CEL_INT, fn_date, "t>i ts>i"},
    {"getDayOfWeek", true, 1, 2, CEL_INT, fn_week_day, "t>i ts>i"},
    {"getDayOfYear", true, 1, 2, CEL_INT, fn_year_day, "t>i ts>i"},
    {"getHours", true, 1, 2, CEL_INT, fn_hours, "t>i ts>i D>i"},
    {"getMinutes", true, 1, 2, CEL_INT, fn_minutes, "t>i ts>i D>i"},
    {"getSeconds", true, 1, 2, CEL_INT, fn_seconds, "t>i ts>i D>i"},
    {"getMilliseconds", true, 1, 2, CEL_INT, fn_milliseconds, "t>i ts>i D>i"},
    {0},
};
