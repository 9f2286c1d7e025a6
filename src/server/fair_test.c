#include "base/str.h"
#include "server/fair.h"
#include "test.h"

#include <stddef.h>
#include <stdio.h>

TEST(fair_one_user_does_not_take_what_others_need)
{
    struct fair fair = {0};
    struct fair_load request = {.body_bytes = 100};
    struct fair_load watch = {.streams = 1};

    for (int i = 0; i < FAIR_REQUESTS_MAX; i++)
        EXPECT(!fair_enter(&fair, STR("eve"), &request));
    EXPECT(str_is(str_from(fair_enter(&fair, STR("eve"), &request)), "200 requests under way"));
    EXPECT(!fair_enter(&fair, STR("joe"), &request));
    EXPECT(!fair_enter(&fair, STR("eve"), &watch));
    fair_leave(&fair, STR("eve"), &request);
    EXPECT(!fair_enter(&fair, STR("eve"), &request));
    for (int i = 1; i < FAIR_STREAMS_MAX; i++)
        EXPECT(!fair_enter(&fair, STR("eve"), &watch));
    EXPECT(fair_enter(&fair, STR("eve"), &watch));
    fair_done(&fair);
}

TEST(fair_bytes_under_way_are_bounded_and_one_request_is_always_possible)
{
    struct fair fair = {0};
    struct fair_load large = {.body_bytes = FAIR_BODY_BYTES_MAX};
    struct fair_load small = {.body_bytes = 1};
    struct fair_load none = {0};

    EXPECT(!fair_enter(&fair, STR("eve"), &large));
    EXPECT(fair_enter(&fair, STR("eve"), &small));
    EXPECT(!fair_enter(&fair, STR("eve"), &none));
    EXPECT(!fair_enter(&fair, STR("joe"), &large));
    fair_leave(&fair, STR("eve"), &large);
    EXPECT(!fair_enter(&fair, STR("eve"), &small));
    fair_done(&fair);
}

TEST(fair_forgets_users_that_have_nothing_under_way)
{
    struct fair fair = {0};
    struct fair_load load = {.body_bytes = 5};

    EXPECT(!fair_enter(&fair, STR("eve"), &load));
    EXPECT(fair.users.count == 1);
    fair_leave(&fair, STR("eve"), &load);
    EXPECT(fair.users.count == 0);
    fair_done(&fair);
}

TEST(fair_serviceaccounts_of_a_namespace_share_what_one_user_has)
{
    struct fair fair = {0};
    struct fair_load watch = {.streams = 1};

    for (int i = 0; i < FAIR_STREAMS_MAX; i++) {
        char name[64];
        (void)snprintf(name, sizeof(name), "system:serviceaccount:eve:a%d", i);
        EXPECT(!fair_enter(&fair, str_from(name), &watch));
    }
    EXPECT(fair_enter(&fair, STR("system:serviceaccount:eve:b"), &watch));
    EXPECT(!fair_enter(&fair, STR("system:serviceaccount:joe:b"), &watch));
    fair_leave(&fair, STR("system:serviceaccount:eve:c"), &watch);
    EXPECT(!fair_enter(&fair, STR("system:serviceaccount:eve:d"), &watch));
    fair_done(&fair);
}

TEST(fair_streams_that_nobody_reads_are_bounded_together)
{
    struct fair fair = {0};
    struct fair_load watch = {.streams = 1};
    size_t first = 0, second = 0, other = 0;

    EXPECT(!fair_enter(&fair, STR("eve"), &watch) && !fair_enter(&fair, STR("eve"), &watch));
    EXPECT(!fair_enter(&fair, STR("joe"), &watch));
    EXPECT(fair_pending(&fair, STR("eve"), &first, FAIR_PENDING_BYTES_MAX - 10));
    EXPECT(fair_pending(&fair, STR("eve"), &second, 9));
    EXPECT(!fair_pending(&fair, STR("eve"), &second, 10));
    EXPECT(fair_pending(&fair, STR("joe"), &other, FAIR_PENDING_BYTES_MAX - 1));
    EXPECT(fair_pending(&fair, STR("eve"), &first, 0)); /* it was read, or is closed */
    EXPECT(fair_pending(&fair, STR("eve"), &second, 0));
    fair_leave(&fair, STR("eve"), &watch);
    fair_leave(&fair, STR("eve"), &watch);
    fair_done(&fair);
}

TEST(fair_a_stream_of_several_watches_counts_as_several)
{
    struct fair fair = {0};
    struct fair_load tab = {.streams = 24};
    struct fair_load watch = {.streams = 1};

    for (int i = 0; i < FAIR_STREAMS_MAX / 24; i++)
        EXPECT(!fair_enter(&fair, STR("eve"), &tab));
    EXPECT(fair_enter(&fair, STR("eve"), &tab));
    for (int i = 0; i < FAIR_STREAMS_MAX % 24; i++)
        EXPECT(!fair_enter(&fair, STR("eve"), &watch));
    EXPECT(fair_enter(&fair, STR("eve"), &watch));
    fair_leave(&fair, STR("eve"), &tab);
    EXPECT(!fair_enter(&fair, STR("eve"), &tab));
    fair_done(&fair);
}

TEST(fair_limits_are_those_that_were_given)
{
    static const struct fair_limits limits = {.requests_max = 2,
                                              .streams_max = 3,
                                              .requests_full = "2 requests under way",
                                              .streams_full = "3 tabs open"};
    struct fair fair = {.limits = &limits};
    struct fair_load request = {0};
    struct fair_load tab = {.streams = 1};

    for (int i = 0; i < 2; i++)
        EXPECT(!fair_enter(&fair, STR("eve"), &request));
    EXPECT(str_is(str_from(fair_enter(&fair, STR("eve"), &request)), "2 requests under way"));
    for (int i = 0; i < 3; i++)
        EXPECT(!fair_enter(&fair, STR("eve"), &tab));
    EXPECT(str_is(str_from(fair_enter(&fair, STR("eve"), &tab)), "3 tabs open"));
    EXPECT(!fair_enter(&fair, STR("joe"), &tab) && !fair_enter(&fair, STR("joe"), &request));
    fair_done(&fair);
}
