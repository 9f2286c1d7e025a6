#include "base/arena.h"
#include "base/count.h"
#include "base/str.h"
#include "cel/expression_test.h"
#include "cel/moment.h"
#include "cel/value.h"
#include "test.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

TEST(a_timestamp_is_rfc_3339_between_the_years_1_and_9999)
{
    static const struct {
        const char *text;
        const char *as; /* NULL: it is none */
    } rows[] = {
        {"2024-02-29T12:30:45.5Z", "2024-02-29T12:30:45.5Z"},
        {"2000-02-29T00:00:00Z", "2000-02-29T00:00:00Z"},
        {"0001-01-01T00:00:00Z", "0001-01-01T00:00:00Z"},
        {"9999-12-31T23:59:59.999999999Z", "9999-12-31T23:59:59.999999999Z"},
        {"1969-12-31T23:59:59.000000001Z", "1969-12-31T23:59:59.000000001Z"},
        {"2024-01-01T01:30:00+01:30", "2024-01-01T00:00:00Z"},
        {"2023-12-31T22:30:00-01:30", "2024-01-01T00:00:00Z"},
        {"2024-01-01T00:00:00.120Z", "2024-01-01T00:00:00.12Z"},
        {"", NULL},
        {"2024", NULL},
        {"20a4-01-01T00:00:00Z", NULL},
        {"2024-1-01T00:00:00Z", NULL},
        {"2024/01-01T00:00:00Z", NULL},
        {"2024-01/01T00:00:00Z", NULL},
        {"2024-01-", NULL},
        {"0000-01-01T00:00:00Z", NULL},
        {"2024-00-01T00:00:00Z", NULL},
        {"2024-13-01T00:00:00Z", NULL},
        {"2024-01-00T00:00:00Z", NULL},
        {"2024-04-31T00:00:00Z", NULL},
        {"2023-02-29T00:00:00Z", NULL},
        {"1900-02-29T00:00:00Z", NULL},
        {"2024-01-01 00:00:00Z", NULL},
        {"2024-01-01T0:00:00Z", NULL},
        {"2024-01-01T00-00:00Z", NULL},
        {"2024-01-01T00:0:00Z", NULL},
        {"2024-01-01T00:00-00Z", NULL},
        {"2024-01-01T00:00:0Z", NULL},
        {"2024-01-01T24:00:00Z", NULL},
        {"2024-01-01T00:60:00Z", NULL},
        {"2024-01-01T00:00:60Z", NULL},
        {"2024-01-01T00:00:00", NULL},
        {"2024-01-01T00:00:00.Z", NULL},
        {"2024-01-01T00:00:00.5", NULL},
        {"2024-01-01T00:00:00Zx", NULL},
        {"2024-01-01T00:00:00Z+01:00", NULL},
        {"2024-01-01T00:00:0001:00", NULL},
        {"2024-01-01T00:00:00+1:00", NULL},
        {"2024-01-01T00:00:00+01", NULL},
        {"2024-01-01T00:00:00+01:0", NULL},
        {"2024-01-01T00:00:00+25:00", NULL},
        {"2024-01-01T00:00:00+01:61", NULL},
        {"2024-01-01T00:00:00+01:00x", NULL},
        {"0001-01-01T00:00:00+00:01", NULL},
        {"9999-12-31T23:59:59-00:01", NULL},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct arena arena = {0};
        struct cel_value moment = {0};

        test_case(rows[i].text);
        EXPECT(moment_parse(str_from(rows[i].text), &moment) == (rows[i].as != NULL));
        if (rows[i].as)
            EXPECT(str_is(moment_text(&arena, moment), rows[i].as));
        arena_done(&arena);
    }
}

TEST(a_duration_is_numbers_with_units_and_fits_into_64_bits)
{
    static const struct {
        const char *text;
        const char *as; /* NULL: it is none */
    } rows[] = {
        {"1h30m", "5400s"},
        {"1h1m1s", "3661s"},
        {"1.5s", "1.5s"},
        {"-1.5s", "-1.5s"},
        {"-0.5s", "-0.5s"},
        {"+2s", "2s"},
        {"0", "0s"},
        {"-0", "0s"},
        {"100ms", "0.1s"},
        {"1us", "0.000001s"},
        {"1\u00b5s", "0.000001s"},
        {"1\u03bcs", "0.000001s"},
        {"1ns", "0.000000001s"},
        {".5m", "30s"},
        {"1.s", "1s"},
        {"0.00000000000000000000001s", "0s"},
        {"9223372036s", "9223372036s"},
        {"", NULL},
        {"-", NULL},
        {"1", NULL},
        {"s", NULL},
        {".s", NULL},
        {"1x", NULL},
        {"1 s", NULL},
        {"1h-2m", NULL},
        {"1.5/s", NULL},
        {"9223372037s", NULL},
        {"9223372036854775808ns", NULL},
        {"99999999999999999999ns", NULL},
    };
    struct cel_value least = {0};

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct arena arena = {0};
        struct cel_value duration = {0};

        test_case(rows[i].text);
        EXPECT(moment_parse_duration(str_from(rows[i].text), &duration) == (rows[i].as != NULL));
        if (rows[i].as)
            EXPECT(str_is(moment_duration_text(&arena, duration), rows[i].as));
        arena_done(&arena);
    }
    EXPECT(moment_parse_duration(STR("-9223372036854775808ns"), &least));
    EXPECT(least.i == INT64_MIN);
}

#define LEAP "timestamp('2024-03-01T00:30:15.250Z')"

TEST(parts_of_moments_begin_at_zero_but_the_date_does_not)
{
    static const char *const texts[] = {
        LEAP ".getFullYear() == 2024 && " LEAP ".getMonth() == 2",
        LEAP ".getDayOfMonth() == 0 && " LEAP ".getDate() == 1 && " LEAP ".getDayOfYear() == 60",
        LEAP ".getDayOfWeek() == 5 && " LEAP ".getHours() == 0 && " LEAP ".getMinutes() == 30",
        LEAP ".getSeconds() == 15 && " LEAP ".getMilliseconds() == 250",
        LEAP ".getMonth('-01:00') == 1 && " LEAP ".getDate('-01:00') == 29",
        LEAP ".getHours('UTC') == 0 && " LEAP ".getHours('GMT') == 0",
        LEAP ".getHours('') == 0 && " LEAP ".getMinutes('+05:30') == 0",
        "timestamp('1969-12-31T23:59:59Z').getDayOfWeek() == 3",
        "timestamp('2024-12-31T23:00:00Z').getFullYear('+02:00') == 2025",
        "timestamp('1900-03-01T00:00:00Z').getDayOfYear() == 59",
        "duration('-3h30m').getHours() == -3 && duration('90s').getSeconds() == 90",
        "duration('90s').getMinutes() == 1 && duration('1.75s').getMilliseconds() == 1750",
        "string(timestamp('1999-12-31T23:59:59.000001Z')) == '1999-12-31T23:59:59.000001Z'",
        "string(duration('1ms')) == '0.001s' && string(duration('-1ms')) == '-0.001s'",
        "int(timestamp(-1)) == -1 && timestamp(timestamp(5)) == timestamp(5)",
        "duration(duration('5s')) == duration(5000000000)",
        "timestamp('2024-01-01T00:00:00.5Z') > timestamp('2024-01-01T00:00:00.25Z')",
    };

    expression_all_true(texts, COUNT_OF(texts), "{}");
}

TEST(moments_and_durations_are_added_and_stay_in_their_range)
{
    static const char *const texts[] = {
        "timestamp('2024-01-01T00:00:00.5Z') - duration('0.6s') == "
        "timestamp('2023-12-31T23:59:59.9Z')",
        "timestamp('2024-01-01T00:00:00.5Z') + duration('0.6s') == "
        "timestamp('2024-01-01T00:00:01.1Z')",
        "duration('1h') + timestamp(0) == timestamp(3600)",
        "duration('1h') - duration('90m') == duration('-30m')",
        "duration('1h') + duration('30m') == duration('90m')",
        "timestamp('2024-01-01T00:00:00.25Z') - timestamp('2024-01-01T00:00:01.5Z') == "
        "duration('-1.25s')",
    };
    static const struct expression_error rows[] = {
        {"timestamp('0001-01-01T00:00:00Z') - duration('1s')", "timestamp overflow"},
        {"duration('1s') + timestamp('9999-12-31T23:59:59Z')", "timestamp overflow"},
        {"timestamp(-62135596801)", "timestamp overflow"},
        {"timestamp(253402300800)", "timestamp overflow"},
        {"timestamp(0) - duration(-9223372036854775808)", "integer overflow"},
        {"duration('2562047h') + duration('2562047h')", "integer overflow"},
        {"timestamp('9999-12-31T00:00:00Z') - timestamp('0001-01-01T00:00:00Z')",
         "integer overflow"},
        {"timestamp('2262-04-11T23:47:16.9Z') - timestamp(0)", "integer overflow"},
        {"timestamp('2024-01-01')", "type conversion error from string to timestamp: use RFC 3339"},
        {"timestamp('2024-01-01T00:00')",
         "type conversion error from string to timestamp: use RFC 3339"},
        {"duration('1')", "type conversion error from string to duration: use 1h30m or 90s"},
        {"timestamp(0).getHours('Z')", "unknown time zone Z"},
        {"timestamp(0).getHours('+1:00')", "unknown time zone +1:00"},
    };

    expression_all_true(texts, COUNT_OF(texts), "{}");
    expression_all_fail(rows, COUNT_OF(rows), "{}");
}

/* The places of this test: one ahead by an hour, and by two in summer. */
static size_t zones_read;

static bool read_zone(struct arena *arena, struct str name, struct str *ret_bytes)
{
#define FIFTEEN "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"
#define HALF    "TZif2" FIFTEEN FIFTEEN "\0\0\0\0\1\0\0\0\4\0\0\0\0\0\0LMT\0"
    static const char file[] = HALF HALF "\nCET-1CEST,M3.5.0,M10.5.0/3\n";

    zones_read++;
    *ret_bytes = str_dup(arena, (struct str){file, sizeof(file) - 1});
    return str_starts(name, STR("Europe/"));
}

TEST(moments_have_the_clocks_of_a_place)
{
    static const char *const texts[] = {
        "timestamp('2026-01-15T23:30:00Z').getHours('Europe/Berlin') == 0",
        "timestamp('2026-07-15T23:30:00Z').getHours('Europe/Berlin') == 1",
        "timestamp('2026-07-15T23:30:00Z').getDate('Europe/Berlin') == 16",
        "timestamp('2026-12-31T23:30:00Z').getFullYear('Europe/Berlin') == 2027",
        "timestamp('2026-07-15T23:30:00Z').getHours('') == 23",
    };
    static const char *const many[] = {
        "[1, 2, 3, 4, 5, 6, 7, 8].all(x, timestamp(x).getHours('Europe/Berlin') == 1)"};
    static const struct expression_error errors[] = {
        {"timestamp(0).getHours('Mars/Olympus')", "unknown time zone Mars/Olympus"},
        {"timestamp(0).getHours('../Berlin')", "unknown time zone ../Berlin"},
    };

    cel_set_zones(read_zone);
    expression_all_true(texts, COUNT_OF(texts), "{}");
    expression_all_fail(errors, COUNT_OF(errors), "{}");
    zones_read = 0;
    expression_all_true(many, COUNT_OF(many), "{}");
    EXPECT(zones_read == 1);
    cel_set_zones(NULL);
}
