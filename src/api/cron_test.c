#include "api/cron.h"
#include "base/count.h"
#include "base/err.h"
#include "base/str.h"
#include "base/time.h"
#include "test.h"

#include <stddef.h>
#include <stdint.h>

TEST(a_schedule_says_when_it_is_next)
{
    static const struct {
        const char *why;
        const char *schedule;
        const char *after;
        const char *next; /* NULL: never */
        const char *zone;
    } rows[] = {
        {"every minute", "* * * * *", "2026-11-16T10:00:30Z", "2026-11-16T10:01:00Z", "UTC"},
        {"not the same moment", "0 * * * *", "2026-11-16T10:00:00Z", "2026-11-16T11:00:00Z", "UTC"},
        {"steps", "*/15 * * * *", "2026-11-16T10:31:00Z", "2026-11-16T10:45:00Z", "UTC"},
        {"a start with a step", "10/20 * * * *", "2026-11-16T10:31:00Z", "2026-11-16T10:50:00Z",
         "UTC"},
        {"lists and ranges", "5,10 9-17 * * 1-5", "2026-11-14T00:00:00Z", "2026-11-16T09:05:00Z",
         "UTC"},
        {"names", "0 0 * jan SUN", "2026-11-16T00:00:00Z", "2027-01-03T00:00:00Z", "UTC"},
        {"Sunday is 0 and 7", "0 0 * * 7", "2026-11-16T00:00:00Z", "2026-11-22T00:00:00Z", "UTC"},
        {"both days are said: one is enough", "0 0 13 * 5", "2026-11-08T00:00:00Z",
         "2026-11-13T00:00:00Z", "UTC"},
        {"the other one", "0 0 20 * 1", "2026-11-14T00:00:00Z", "2026-11-16T00:00:00Z", "UTC"},
        {"a month's end", "0 0 31 * *", "2026-11-16T00:00:00Z", "2026-12-31T00:00:00Z", "UTC"},
        {"a leap day", "0 0 29 2 *", "2026-11-16T00:00:00Z", "2028-02-29T00:00:00Z", "UTC"},
        {"never", "0 0 30 2 *", "2026-11-16T00:00:00Z", NULL, "UTC"},
        {"a word", "@daily", "2026-11-16T10:00:00Z", "2026-11-17T00:00:00Z", "UTC"},
        {"at distances", "@every 90m", "2026-11-16T10:00:00Z", "2026-11-16T11:30:00Z", "UTC"},
        {"another place's clocks", "0 8 * * *", "2026-11-16T10:00:00Z", "2026-11-16T13:00:00Z",
         "Etc/GMT+5"},
        {"ahead of UTC", "0 0 * * *", "2026-11-16T10:00:00Z", "2026-11-16T15:00:00Z", "Etc/GMT-9"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct cron cron = {0};
        int64_t after = 0;
        int64_t next = 0;
        int64_t offset = 0;

        test_case(rows[i].why);
        EXPECT(cron_parse(str_from(rows[i].schedule), &cron, NULL) == 0);
        EXPECT(time_parse(str_from(rows[i].after), &after));
        EXPECT(!rows[i].next || time_parse(str_from(rows[i].next), &next));
        EXPECT(cron_zone(str_from(rows[i].zone), &offset));
        EXPECT(cron_next(&cron, after, offset) == next);
    }
}

TEST(a_schedule_that_makes_no_sense_is_refused_in_words)
{
    static const struct {
        const char *why;
        const char *schedule;
        const char *words; /* part of them */
    } rows[] = {
        {"too few", "* * * *", "there are 4 fields and not five"},
        {"too many", "* * * * * *", "more than five"},
        {"out of range", "60 * * * *", "\"60\" is not a minute"},
        {"backwards", "5-1 * * * *", "is not a minute"},
        {"a step of nothing", "*/0 * * * *", "is not a minute"},
        {"an unknown name", "* * * foo *", "\"foo\" is not a month"},
        {"an unknown word", "@often", "use @hourly"},
        {"too often", "@every 10ms", "of a second or more"},
        {"nothing", "", "there are 0 fields"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct cron cron = {0};
        struct err err = {0};

        test_case(rows[i].why);
        EXPECT(cron_parse(str_from(rows[i].schedule), &cron, &err) < 0);
        EXPECT(str_contains(str_from(err.text), str_from(rows[i].words)));
    }
    int64_t offset = 0;
    EXPECT(!cron_zone(STR("Europe/Berlin"), &offset) && !cron_zone(STR("Etc/GMT+13"), &offset));
}
