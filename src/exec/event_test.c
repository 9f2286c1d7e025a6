#include "exec/event.h"
#include "test.h"

TEST(a_budget_gives_a_burst_and_then_so_many_a_second)
{
    struct event_budget budget = {0};
    int64_t now_ms = 1000000;
    int given = 0;

    for (int i = 0; i < 2 * EVENT_BURST; i++)
        given += event_budget_take(&budget, now_ms);
    EXPECT(given == EVENT_BURST);
    given = 0;
    for (int ms = 0; ms < 1000; ms++)
        given += event_budget_take(&budget, now_ms + 1 + ms);
    EXPECT(given == EVENT_PER_SECOND);
}

TEST(a_budget_is_full_again_after_a_long_pause)
{
    struct event_budget budget = {0};
    int given = 0;

    for (int i = 0; i < EVENT_BURST; i++)
        (void)event_budget_take(&budget, 1000);
    for (int i = 0; i < 2 * EVENT_BURST; i++)
        given += event_budget_take(&budget, 3600 * 1000);
    EXPECT(given == EVENT_BURST);
}
