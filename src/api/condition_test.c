#include "api/condition.h"
#include "base/arena.h"
#include "base/count.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "test.h"

#include <stddef.h>
#include <stdint.h>

#define NOW_MS INT64_C(1700000000000) /* 2023-11-14T22:13:20Z */

static const char waits[] =
    "{\"conditions\":[{\"type\":\"Ready\",\"status\":\"False\"},"
    "{\"type\":\"PodScheduled\",\"status\":\"False\",\"reason\":\"Unschedulable\","
    "\"message\":\"no room\",\"lastTransitionTime\":\"2020-01-01T00:00:00Z\"}]}";

TEST(condition_patch_holds_our_condition_alone_and_only_what_changes)
{
    static const struct {
        const char *status;
        const char *state;
        const char *message;
        const char *patch; /* NULL: nothing to write */
        const char *why;
    } rows[] = {
        {"{}", "False", "no room",
         "{\"conditions\":[{\"type\":\"PodScheduled\",\"status\":\"False\","
         "\"lastTransitionTime\":\"2023-11-14T22:13:20Z\",\"reason\":\"Unschedulable\","
         "\"message\":\"no room\"}]}",
         "there was none"},
        {waits, "False", "no room", NULL, "it says so already"},
        {waits, "False", "later",
         "{\"conditions\":[{\"type\":\"PodScheduled\",\"status\":\"False\","
         "\"reason\":\"Unschedulable\",\"message\":\"later\"}]}",
         "other words: the moment of change stays, and no other condition is named"},
        {waits, "True", "no room",
         "{\"conditions\":[{\"type\":\"PodScheduled\",\"status\":\"True\","
         "\"lastTransitionTime\":\"2023-11-14T22:13:20Z\",\"reason\":\"Unschedulable\","
         "\"message\":\"no room\"}]}",
         "another status: the moment moves"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct arena arena = {0};
        struct json *status = NULL;
        struct err err = {0};

        test_case(rows[i].why);
        EXPECT(json_parse(&arena, str_from(rows[i].status), &status, &err) == 0);
        struct json *patch =
            condition_patch(&arena, status,
                            &(struct condition){"PodScheduled", rows[i].state, "Unschedulable",
                                                str_from(rows[i].message)},
                            NOW_MS);
        EXPECT(!patch == !rows[i].patch);
        EXPECT(!patch || str_is(json_text(&arena, patch), rows[i].patch));
        arena_done(&arena);
    }
}

TEST(condition_set_without_a_reason_takes_reason_and_message_away)
{
    static const struct condition scheduled = {.type = "PodScheduled", .status = "True"};
    struct arena arena = {0};
    struct json *status = NULL;
    struct err err = {0};

    EXPECT(json_parse(&arena, str_from(waits), &status, &err) == 0);
    condition_set(&arena, status, &scheduled, NOW_MS);
    EXPECT(str_is(json_text(&arena, condition_find(status, "PodScheduled")),
                  "{\"type\":\"PodScheduled\",\"status\":\"True\","
                  "\"lastTransitionTime\":\"2023-11-14T22:13:20Z\"}"));
    EXPECT(condition_is_true(status, "PodScheduled") && !condition_is_true(status, "Ready"));
    arena_done(&arena);
}
