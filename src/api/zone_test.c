#include "api/zone.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/str.h"
#include "test.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* Files of time zones. The offsets are those that date(1) says of the same rules. */

#define FIFTEEN                     "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"
#define HEAD(version, times, types) "TZif" version FIFTEEN FIFTEEN times "\0\0\0" types "\0\0\0\4"
#define EMPTY                       HEAD("2", "\0", "\1") "\0\0\0\0\0\0LMT"
#define LOCAL                       "\0\0\0\0\0\0LMT"

/* Two halves, a line feed and the rule. */
static struct str file_of(struct arena *arena, struct str table, const char *rule)
{
    static const char first[] = EMPTY;
    size_t len = sizeof(first) + table.len + strlen(rule) + 2;
    char *out = arena_raw(arena, len, 1);

    memcpy(out, first, sizeof(first));
    memcpy(out + sizeof(first), table.p, table.len);
    out[sizeof(first) + table.len] = '\n';
    memcpy(out + sizeof(first) + table.len + 1, rule, strlen(rule));
    out[len - 1] = '\n';
    return (struct str){out, len};
}

static const char no_table[] = EMPTY;
#define NO_TABLE ((struct str){no_table, sizeof(no_table)})

TEST(the_rule_of_a_zone_says_when_clocks_change)
{
#define NEW_YORK "EST5EDT,M3.2.0,M11.1.0"
#define SYDNEY   "AEST-10AEDT,M10.1.0,M4.1.0/3"
#define NUUK     "<-02>2<-01>,M3.5.0/-1,M10.5.0/0"
#define BY_DAYS  "AAA3BBB2:30,J60,300"
#define A_DAY    "AAA3BBB,59,J60/1:30"
    static const struct {
        const char *rule;
        int64_t utc_s;
        int64_t minutes;
    } rows[] = {
        {NEW_YORK, 1710053999, -300},
        {NEW_YORK, 1710054000, -240},
        {NEW_YORK, 1725000000, -240},
        {NEW_YORK, 1735000000, -300},
        {SYDNEY, 1704067200, 660},
        {SYDNEY, 1712419199, 660},
        {SYDNEY, 1712419200, 600},
        {SYDNEY, 1728143999, 600},
        {SYDNEY, 1728144000, 660},
        {NUUK, 1711846799, -120},
        {NUUK, 1711846800, -60},
        {NUUK, 1730000000, -120},
        {BY_DAYS, 1709269199, -180}, /* in a leap year */
        {BY_DAYS, 1709269200, -150},
        {BY_DAYS, 1677646799, -180},
        {BY_DAYS, 1677646800, -150},
        {BY_DAYS, 1730000000, -150},
        {A_DAY, 1709182799, -180},
        {A_DAY, 1709182800, -120},
        {A_DAY, 1709263799, -120},
        {A_DAY, 1709263800, -180},
        {A_DAY, 1709267399, -180},
        {"NZST-12NZDT-13:00:00,M9.5.0,M4.1.0/3", 1719000000, 720},
        {"NZST-12NZDT-13:00:00,M9.5.0,M4.1.0/3", 1709000000, 780},
        {"IST-5:30", 1719000000, 330},
        {"AAA3BBB,M2.5.4/+3,M3.1.1", 1709183000, -180},
        {"AAA3BBB,M2.5.4/+3,M3.1.1", 1709192000, -120},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct zone zone = {0};
        char why[96];

        (void)snprintf(why, sizeof(why), "%s at %lld", rows[i].rule, (long long)rows[i].utc_s);
        test_case(why);
        EXPECT(zone_read(file_of(&arena, NO_TABLE, rows[i].rule), &zone));
        EXPECT(zone_offset_ms(&zone, rows[i].utc_s * 1000) == rows[i].minutes * 60000);
    }
}

TEST(a_rule_that_says_no_time_is_refused)
{
    static const struct {
        const char *rule;
        bool fine;
    } rows[] = {
        {"", true}, /* no rule behind the table */
        {"UTC0", true},
        {"AA0", false},
        {"<+0530-5:30", false},
        {"AAA", false},
        {"AAA5:", false},
        {"AAA5:30:", false},
        {"AAA5:30:15", true},
        {"AAA12345", false},
        {"AAA5{", false},
        {"AAA5BB,M3.2.0,M11.1.0", false},
        {"AAA5BBB", false},
        {"AAA5BBBx,M3.2.0,M11.1.0", true},
        {"AAA5BBB+,M3.2.0,M11.1.0", false},
        {"AAA5BBB4,M3.2.0,M11.1.0", true},
        {"AAA5BBB,M3.2.0", false},
        {"AAA5BBB,M3.2.0,M11.1.0x", false},
        {"AAA5BBB,M0.2.0,M11.1.0", false},
        {"AAA5BBB,M13.2.0,M11.1.0", false},
        {"AAA5BBB,M3.0.0,M11.1.0", false},
        {"AAA5BBB,M3.6.0,M11.1.0", false},
        {"AAA5BBB,M3.2.7,M11.1.0", false},
        {"AAA5BBB,M.2.0,M11.1.0", false},
        {"AAA5BBB,M3,M11.1.0", false},
        {"AAA5BBB,M3.x,M11.1.0", false},
        {"AAA5BBB,M3.2,M11.1.0", false},
        {"AAA5BBB,M3.2.x,M11.1.0", false},
        {"AAA5BBB,M3.2.0/,M11.1.0", false},
        {"AAA5BBB,J1,J365", true},
        {"AAA5BBB,J0,J365", false},
        {"AAA5BBB,J1,J366", false},
        {"AAA5BBB,0,365", true},
        {"AAA5BBB,0,366", false},
        {"AAA5BBB,x,365", false},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct zone zone = {0};

        test_case(rows[i].rule);
        EXPECT(zone_read(file_of(&arena, NO_TABLE, rows[i].rule), &zone) == rows[i].fine);
    }
}

/* Two changes, at 1000 and 2000 seconds, between three types. */
#define TYPES_OF(last)                                                             \
    HEAD("2", "\2", "\3")                                                          \
    "\0\0\0\0\0\0\3\xe8\0\0\0\0\0\0\7\xd0\1" last "\0\0\0\x3c\0\0\0\0\x0e\x10\1\0" \
    "\xff\xff\xf1\xf0\0\0LMT"

TEST(what_was_is_in_the_table_of_a_zone_and_what_comes_in_its_rule)
{
    static const char table[] = TYPES_OF("\2");
    static const struct {
        const char *why;
        const char *rule;
        int64_t utc_ms;
        int64_t seconds;
    } rows[] = {
        {"before all changes", "", 0, 60},
        {"just before the first", "", 999999, 60},
        {"from the first on", "", 1000000, 3600},
        {"before the second", "", 1999999, 3600},
        {"from the second on", "", 2000000, -3600},
        {"by the rule", "AAA5", 2000000, -5 * 3600},
        {"not yet by the rule", "AAA5", 1999000, 3600},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct zone zone = {0};

        test_case(rows[i].why);
        EXPECT(zone_read(file_of(&arena, (struct str){table, sizeof(table)}, rows[i].rule), &zone));
        EXPECT(zone_offset_ms(&zone, rows[i].utc_ms) == rows[i].seconds * 1000);
    }
}

TEST(a_table_that_does_not_fit_is_refused)
{
    static const char other[] = TYPES_OF("\3"); /* there is no fourth type */
    static const char old[] = HEAD("1", "\0", "\1") LOCAL;
    static const char far[] = "TZif2" FIFTEEN "\x7f" FIFTEEN "\0\0\0\1\0\0\0\4" LOCAL;
    static const char below[] = "TZif2" FIFTEEN "\xff" FIFTEEN "\0\0\0\1\0\0\0\4" LOCAL;
    static const char nobody[] = HEAD("2", "\0", "\0") "LMT";
    _cleanup_(arena_done) struct arena arena = {0};
    struct zone zone = {0};
    struct str whole = file_of(&arena, NO_TABLE, "UTC0");

    EXPECT(zone_read(whole, &zone));
    EXPECT(!zone_read(file_of(&arena, (struct str){other, sizeof(other)}, "UTC0"), &zone));
    EXPECT(!zone_read((struct str){old, sizeof(old)}, &zone));
    EXPECT(!zone_read((struct str){far, sizeof(far)}, &zone));
    EXPECT(!zone_read((struct str){below, sizeof(below)}, &zone));
    /* The line behind the second half is not there, or nothing follows it. */
    EXPECT(!zone_read(str_sub(whole, 0, 2 * sizeof(no_table)), &zone));
    EXPECT(!zone_read(str_sub(whole, 0, 2 * sizeof(no_table) + 1), &zone));
    EXPECT(!zone_read((struct str){whole.p, ZONE_BYTES_MAX + 1}, &zone));
    /* No type and no rule: there is no offset. */
    EXPECT(zone_read(file_of(&arena, (struct str){nobody, sizeof(nobody)}, ""), &zone));
    EXPECT(zone_offset_ms(&zone, 0) == 0);
}

TEST(the_name_of_a_zone_leads_nowhere_else)
{
    static const struct {
        const char *name;
        bool fine;
    } rows[] = {
        {"UTC", true},
        {"America/Port-au-Prince", true},
        {"Etc/GMT+5", true},
        {"America/New_York", true},
        {"", false},
        {"Local", false},
        {"/etc/passwd", false},
        {".hidden", false},
        {"a/../b", false},
        {"a b", false},
        {"a:b", false},
        {"a@b", false},
        {"a[b", false},
        {"a`b", false},
        {"a{b", false},
        {"1234567890123456789012345678901234567890123456789012345678901234", true},
        {"12345678901234567890123456789012345678901234567890123456789012345", false},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        test_case(rows[i].name);
        EXPECT(zone_is_name(str_from(rows[i].name)) == rows[i].fine);
    }
}
