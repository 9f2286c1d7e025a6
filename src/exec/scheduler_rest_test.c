#include "base/count.h"
#include "exec/scheduler_rest.h"
#include "test.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

TEST(the_scheduler_rests_longer_behind_a_cycle_that_did_nothing)
{
    static const struct {
        int64_t took_us;
        bool did_something;
        int64_t rest_ms;
        const char *why;
    } rows[] = {
        {0, true, 0, "a cycle that cost nothing"},
        {499, false, 0, "a pod that starts on an empty cluster waits for no rest"},
        {900, true, 0, "less than a millisecond is no rest"},
        {900, false, 7, "a thousand that wait"},
        {7000, true, 7, "half of the loop"},
        {7000, false, 56, "most of the loop"},
        {60000, false, SCHEDULER_REST_MAX_MS, "who can start now does not wait for ever"},
        {700000, true, SCHEDULER_REST_MAX_MS, "nor behind a long cycle"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        int64_t rest_ms = scheduler_rest_ms(rows[i].took_us, rows[i].did_something);

        if (rest_ms != rows[i].rest_ms)
            printf("%s: %lld ms\n", rows[i].why, (long long)rest_ms);
        EXPECT(rest_ms == rows[i].rest_ms);
    }
}
