#include "kube/limiter.h"
#include "test.h"

static size_t take_all(struct limiter *limiter, enum limiter_class class, int64_t now_ms)
{
    size_t taken = 0;

    while (limiter_take(limiter, class, now_ms))
        taken++;
    return taken;
}

TEST(limiter_keeps_a_reserve_for_binds)
{
    struct limiter limiter;

    limiter_init(&limiter, 10, 100, 1000, 0);
    EXPECT(take_all(&limiter, LIMITER_EVENT, 0) == 80);
    EXPECT(take_all(&limiter, LIMITER_NORMAL, 0) == 0);
    EXPECT(take_all(&limiter, LIMITER_BIND, 0) == 20);
}

TEST(limiter_never_holds_back_a_lease)
{
    struct limiter limiter;

    limiter_init(&limiter, 1, 1, 1, 0);
    EXPECT(limiter_take(&limiter, LIMITER_BIND, 0));
    EXPECT(!limiter_take(&limiter, LIMITER_BIND, 0));
    limiter_pause(&limiter, 60000);
    EXPECT(limiter_take(&limiter, LIMITER_URGENT, 0));
}

TEST(limiter_refills_at_its_rate_and_no_further_than_its_burst)
{
    struct limiter limiter;

    limiter_init(&limiter, 10, 100, 100000, 0);
    EXPECT(take_all(&limiter, LIMITER_BIND, 0) == 100);
    EXPECT(limiter_wait_ms(&limiter, LIMITER_BIND, 0) == 100);
    EXPECT(take_all(&limiter, LIMITER_BIND, 99) == 0);
    EXPECT(take_all(&limiter, LIMITER_BIND, 500) == 5);
    EXPECT(take_all(&limiter, LIMITER_BIND, INT64_MAX / 4) == 100);
}

TEST(limiter_bounds_what_is_under_way)
{
    struct limiter limiter;

    limiter_init(&limiter, 1000, 1000, 10, 0);
    EXPECT(take_all(&limiter, LIMITER_NORMAL, 0) == 8);
    EXPECT(limiter_wait_ms(&limiter, LIMITER_NORMAL, 0) == -1);
    EXPECT(take_all(&limiter, LIMITER_BIND, 0) == 2);
    limiter_give(&limiter);
    EXPECT(take_all(&limiter, LIMITER_BIND, 0) == 1);
}

TEST(limiter_waits_as_long_as_the_server_asked)
{
    struct limiter limiter;

    limiter_init(&limiter, 1000, 1000, 10, 0);
    limiter_pause(&limiter, 2000);
    EXPECT(!limiter_take(&limiter, LIMITER_BIND, 1999));
    EXPECT(limiter_wait_ms(&limiter, LIMITER_BIND, 500) == 1500);
    EXPECT(limiter_take(&limiter, LIMITER_BIND, 2000));
}
