#include "api/kind.h"
#include "store/harness.h"
#include "test.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Events go when their time is over, and nothing else does. */

#define START_MS INT64_C(1800000000000) /* 2027-01-15T08:00:00Z */
#define TTL_MS   INT64_C(3600000)

static void tell(struct harness *h, const char *name, const char *more)
{
    char body[512];

    (void)snprintf(
        body, sizeof(body),
        "{\"metadata\":{\"name\":\"%s\"},\"reason\":\"r\",%s\"involvedObject\":{\"kind\":"
        "\"Pod\",\"namespace\":\"default\",\"name\":\"p\"}}",
        name, more);
    EXPECT(harness_create(h, &kind_event, "default", body) == 0);
}

/* Time passes, and somebody writes something. */
static void later(struct harness *h, int64_t ms)
{
    h->now_ms += ms;
    EXPECT(harness_create(h, &kind_configmap, "default",
                          "{\"metadata\":{\"generateName\":\"any-\"}}") == 0);
    harness_settle(h);
}

static bool is_there(struct harness *h, const char *name)
{
    return harness_get(h, &kind_event, "default", name) == 0;
}

TEST(an_event_goes_when_nobody_told_of_it_for_its_time)
{
    struct harness h;

    harness_open_expiring(&h, START_MS, TTL_MS);
    tell(&h, "old", "");
    tell(&h, "again", "\"count\":1,\"lastTimestamp\":\"2027-01-15T08:00:00Z\",");
    tell(&h, "series", "");
    EXPECT(harness_create(&h, &kind_configmap, "default", "{\"metadata\":{\"name\":\"keep\"}}") ==
           0);
    later(&h, TTL_MS / 2);
    tell(&h, "new", "");
    EXPECT(harness_patch(&h, &kind_event, "default", "again",
                         "{\"count\":2,\"lastTimestamp\":\"2027-01-15T08:30:00Z\"}") == 0);
    EXPECT(harness_patch(
               &h, &kind_event, "default", "series",
               "{\"series\":{\"count\":2,\"lastObservedTime\":\"2027-01-15T08:30:00.000000Z\"}}") ==
           0);
    later(&h, TTL_MS / 2);
    EXPECT(is_there(&h, "old")); /* its last moment */
    later(&h, TTL_MS / 10);
    EXPECT(!is_there(&h, "old"));
    EXPECT(is_there(&h, "again") && is_there(&h, "series") && is_there(&h, "new"));
    later(&h, TTL_MS / 2);
    EXPECT(!is_there(&h, "again") && !is_there(&h, "series") && !is_there(&h, "new"));
    EXPECT(harness_get(&h, &kind_configmap, "default", "keep") == 0);
    harness_close(&h);
}

TEST(many_events_go_in_parts_and_a_calendar_that_is_set_back_puts_nothing_off)
{
    struct harness h;
    char name[24];
    size_t left = 0;

    harness_open_expiring(&h, START_MS, TTL_MS);
    for (int i = 0; i < 600; i++) {
        (void)snprintf(name, sizeof(name), "e%d", i);
        tell(&h, name, "");
    }
    h.now_ms += 10 * TTL_MS; /* the next look is put off by that ... */
    later(&h, 0);
    h.now_ms -= 10 * TTL_MS; /* ... unless it is seen to be wrong */
    for (int i = 0; i < 600; i++) {
        (void)snprintf(name, sizeof(name), "e%d", i);
        left += is_there(&h, name);
    }
    EXPECT(left == 0);
    tell(&h, "new", "");
    later(&h, TTL_MS + TTL_MS / 10);
    EXPECT(!is_there(&h, "new"));
    harness_close(&h);
}

/* Whoever writes a thousand times a second does not have all events looked at as often. */
TEST(events_are_looked_at_once_a_minute)
{
    struct harness h;

    harness_open_expiring(&h, START_MS, TTL_MS);
    tell(&h, "old", "");
    later(&h, TTL_MS - 10000);
    later(&h, 20000);
    EXPECT(is_there(&h, "old"));
    later(&h, 60000);
    EXPECT(!is_there(&h, "old"));
    harness_close(&h);
}

TEST(without_a_time_events_stay)
{
    struct harness h;

    harness_open_expiring(&h, START_MS, 0);
    tell(&h, "old", "");
    later(&h, 100 * TTL_MS);
    EXPECT(is_there(&h, "old"));
    harness_close(&h);
}
