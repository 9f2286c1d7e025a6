#include "api/scheduler_name.h"
#include "base/count.h"
#include "base/str.h"
#include "test.h"

#include <stdbool.h>
#include <stddef.h>

TEST(pods_of_other_schedulers_are_left_to_them)
{
    static const struct {
        const char *list;
        const char *name;
        bool ours;
        const char *why;
    } rows[] = {
        {"", "none", true, "no list: every pod"},
        {"kai-scheduler", "kai-scheduler", true, "its own name"},
        {"kai-scheduler", "", false, "the cluster's own scheduler places what names none"},
        {"kai-scheduler", "kai", false, "a part of a name is another one"},
        {SCHEDULER_EMBEDDED, "", true, "no name"},
        {SCHEDULER_EMBEDDED, "default-scheduler", true, "what Kubernetes fills in"},
        {SCHEDULER_EMBEDDED, "kai-scheduler", true, "KAI's"},
        {SCHEDULER_EMBEDDED, "muster", true, "ours"},
        {SCHEDULER_EMBEDDED, "none", false, "nobody's"},
        {SCHEDULER_EMBEDDED, "muster,none", false, "a list is no name"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        test_case(rows[i].why);
        EXPECT(scheduler_places(str_from(rows[i].list), str_from(rows[i].name)) == rows[i].ours);
    }
}
