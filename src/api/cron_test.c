#include "api/cron.h"
#include "api/zone.h"
#include "base/count.h"
#include "base/err.h"
#include "base/str.h"
#include "base/time.h"
#include "test.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

TEST(a_schedule_says_when_it_is_next)
{
    static const struct {
        const char *why;
        const char *schedule;
        const char *after;
        const char *next; /* NULL: never */
        int64_t ahead_h;  /* of UTC */
    } rows[] = {
        {"every minute", "* * * * *", "2026-11-16T10:00:30Z", "2026-11-16T10:01:00Z", 0},
        {"not the same moment", "0 * * * *", "2026-11-16T10:00:00Z", "2026-11-16T11:00:00Z", 0},
        {"steps", "*/15 * * * *", "2026-11-16T10:31:00Z", "2026-11-16T10:45:00Z", 0},
        {"a start with a step", "10/20 * * * *", "2026-11-16T10:31:00Z", "2026-11-16T10:50:00Z", 0},
        {"lists and ranges", "5,10 9-17 * * 1-5", "2026-11-14T00:00:00Z", "2026-11-16T09:05:00Z",
         0},
        {"names", "0 0 * jan SUN", "2026-11-16T00:00:00Z", "2027-01-03T00:00:00Z", 0},
        {"Sunday is 0", "0 0 * * 0", "2026-11-16T00:00:00Z", "2026-11-22T00:00:00Z", 0},
        {"a weekday with a step ends on Saturday", "0 0 * * 1/2", "2026-11-20T00:00:00Z",
         "2026-11-23T00:00:00Z", 0},
        {"both days are said: one is enough", "0 0 13 * 5", "2026-11-08T00:00:00Z",
         "2026-11-13T00:00:00Z", 0},
        {"the other one", "0 0 20 * 1", "2026-11-14T00:00:00Z", "2026-11-16T00:00:00Z", 0},
        {"every day is no day that is said", "0 0 */1 * 1", "2026-11-17T00:00:00Z",
         "2026-11-23T00:00:00Z", 0},
        {"nor is a question mark", "0 0 ? * 1", "2026-11-17T00:00:00Z", "2026-11-23T00:00:00Z", 0},
        {"every other day is one", "0 0 */2 * 1", "2026-11-17T00:00:00Z", "2026-11-19T00:00:00Z",
         0},
        {"spaces", "  0  0 * * MON ", "2026-11-17T00:00:00Z", "2026-11-23T00:00:00Z", 0},
        {"a month's end", "0 0 31 * *", "2026-11-16T00:00:00Z", "2026-12-31T00:00:00Z", 0},
        {"a leap day", "0 0 29 2 *", "2026-11-16T00:00:00Z", "2028-02-29T00:00:00Z", 0},
        {"never", "0 0 30 2 *", "2026-11-16T00:00:00Z", NULL, 0},
        {"a word", "@daily", "2026-11-16T10:00:00Z", "2026-11-17T00:00:00Z", 0},
        {"at distances", "@every 90m", "2026-11-16T10:00:00Z", "2026-11-16T11:30:00Z", 0},
        {"another place's clocks", "0 8 * * *", "2026-11-16T10:00:00Z", "2026-11-16T13:00:00Z", -5},
        {"ahead of UTC", "0 0 * * *", "2026-11-16T10:00:00Z", "2026-11-16T15:00:00Z", 9},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct cron cron = {0};
        int64_t after = 0;
        int64_t next = 0;
        struct zone zone = zone_fixed(rows[i].ahead_h * 3600);

        test_case(rows[i].why);
        EXPECT(cron_parse(str_from(rows[i].schedule), &cron, NULL) == 0);
        EXPECT(time_parse(str_from(rows[i].after), &after));
        EXPECT(!rows[i].next || time_parse(str_from(rows[i].next), &next));
        EXPECT(cron_next(&cron, after, &zone) == next);
    }
}

TEST(a_schedule_that_makes_no_sense_is_refused_in_words)
{
    static const struct {
        const char *why;
        const char *schedule;
        const char *words; /* part of them */
    } rows[] = {
        {"too few", "* * * *", "the schedule has 4 fields and needs five"},
        {"too many", "* * * * * *", "more than five"},
        {"out of range", "60 * * * *", "\"60\" is not a minute"},
        {"backwards", "5-1 * * * *", "is not a minute"},
        {"a step of nothing", "*/0 * * * *", "is not a minute"},
        {"an unknown name", "* * * foo *", "\"foo\" is not a month"},
        {"nearly a name", "* * * jax *", "\"jax\" is not a month"},
        {"a name in its place only", "* mon * * *", "\"mon\" is not"},
        {"a longer name", "* * * june *", "\"june\" is not a month"},
        {"a second Sunday", "0 0 * * 7", "\"7\" is not a day of the week"},
        {"below the first", "* * 0 * *", "\"0\" is not a day of the month"},
        {"a range into nowhere", "5-x * * * *", "is not a minute"},
        {"a step that is none", "*/x * * * *", "is not a minute"},
        {"a step that is too long", "*/101 * * * *", "is not a minute"},
        {"at no distance", "@every soon", "of a second or more"},
        {"an unknown word", "@often", "use @hourly"},
        {"too often", "@every 10ms", "of a second or more"},
        {"nothing", "", "the schedule has 0 fields"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct cron cron = {0};
        struct err err = {0};

        test_case(rows[i].why);
        EXPECT(cron_parse(str_from(rows[i].schedule), &cron, &err) < 0);
        EXPECT(str_contains(str_from(err.text), str_from(rows[i].words)));
    }
}

/* A file with a rule and no table: version 2, one type of four letters. */
static struct str file_of(char *out, const char *rule)
{
    static const char head[] = "TZif2\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"
                               "\0\0\0\0\0\0\0\1\0\0\0\4\0\0\0\0\0\0LMT";
    size_t half = sizeof(head); /* with the 0 behind LMT */

    memcpy(out, head, half);
    memcpy(out + half, head, half);
    int len = snprintf(out + 2 * half, 64, "\n%s\n", rule);
    return (struct str){out, 2 * half + (size_t)len};
}

TEST(clocks_that_change_are_followed)
{
    static const struct {
        const char *why;
        const char *rule;
        const char *schedule;
        const char *after;
        const char *next;
    } rows[] = {
        {"in winter", "CET-1CEST,M3.5.0,M10.5.0/3", "0 8 * * *", "2026-01-10T12:00:00Z",
         "2026-01-11T07:00:00Z"},
        {"in summer", "CET-1CEST,M3.5.0,M10.5.0/3", "0 8 * * *", "2026-07-10T12:00:00Z",
         "2026-07-11T06:00:00Z"},
        {"a time that is left out", "CET-1CEST,M3.5.0,M10.5.0/3", "30 2 * * *",
         "2026-03-28T12:00:00Z", "2026-03-30T00:30:00Z"},
        {"a time that comes twice", "CET-1CEST,M3.5.0,M10.5.0/3", "30 2 * * *",
         "2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z"},
        {"and not a third time", "CET-1CEST,M3.5.0,M10.5.0/3", "30 2 * * *", "2026-10-25T01:30:00Z",
         "2026-10-26T01:30:00Z"},
        {"every hour, also the one that comes twice", "CET-1CEST,M3.5.0,M10.5.0/3", "0 * * * *",
         "2026-10-25T00:10:00Z", "2026-10-25T01:00:00Z"},
        {"the south", "AEST-10AEDT,M10.1.0,M4.1.0/3", "0 0 * * *", "2026-01-10T00:00:00Z",
         "2026-01-10T13:00:00Z"},
        {"a name in brackets, half an hour", "<+0530>-5:30", "0 0 * * *", "2026-01-10T00:00:00Z",
         "2026-01-10T18:30:00Z"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char bytes[256];
        struct zone zone;
        struct cron cron = {0};
        int64_t after = 0;
        int64_t next = 0;

        test_case(rows[i].why);
        EXPECT(zone_read(file_of(bytes, rows[i].rule), &zone));
        EXPECT(cron_parse(str_from(rows[i].schedule), &cron, NULL) == 0);
        EXPECT(time_parse(str_from(rows[i].after), &after));
        EXPECT(time_parse(str_from(rows[i].next), &next));
        EXPECT(cron_next(&cron, after, &zone) == next);
    }
}

TEST(a_file_that_is_no_zone_is_refused)
{
    char bytes[256];
    struct zone zone;
    struct str whole = file_of(bytes, "CET-1CEST,M3.5.0,M10.5.0/3");

    for (size_t len = 0; len < whole.len - 1; len++)
        EXPECT(!zone_read(str_sub(whole, 0, len), &zone));
    EXPECT(!zone_read(file_of(bytes, "CET-1CEST,M13.5.0,M10.5.0/3"), &zone));
    EXPECT(!zone_read(file_of(bytes, "no rule"), &zone));
    EXPECT(zone_is_name(STR("Europe/Berlin")) && zone_is_name(STR("Etc/GMT+5")));
    EXPECT(!zone_is_name(STR("../passwd")) && !zone_is_name(STR("/etc/passwd")) &&
           !zone_is_name(STR("Local")) && !zone_is_name(STR("")));
}
