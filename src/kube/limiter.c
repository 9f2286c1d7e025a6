#include "kube/limiter.h"

#include <assert.h>

#define MILLI ((int64_t)1000)

void limiter_init(struct limiter *limiter,
                  int64_t per_second,
                  int64_t burst,
                  size_t under_way_max,
                  int64_t now_ms)
{
    assert(per_second > 0 && burst > 0 && under_way_max > 0);
    *limiter = (struct limiter){
        .per_second = per_second,
        .burst = burst,
        .under_way_max = under_way_max,
        .milli_tokens = burst * MILLI,
        .filled_ms = now_ms,
    };
}

static void fill(struct limiter *limiter, int64_t now_ms)
{
    int64_t passed = now_ms - limiter->filled_ms;
    int64_t full = limiter->burst * MILLI;

    if (passed <= 0)
        return;
    /* A pause longer than it takes to fill the bucket fills it; the product cannot overflow. */
    if (passed > full / limiter->per_second + 1)
        limiter->milli_tokens = full;
    else
        limiter->milli_tokens += passed * limiter->per_second;
    if (limiter->milli_tokens > full)
        limiter->milli_tokens = full;
    limiter->filled_ms = now_ms;
}

/* Tokens that must be left after a request of this class. */
static int64_t reserve(const struct limiter *limiter, enum limiter_class class)
{
    return class <= LIMITER_BIND ? 0 : limiter->burst * LIMITER_RESERVE_PERCENT / 100 * MILLI;
}

static size_t slots(const struct limiter *limiter, enum limiter_class class)
{
    size_t kept =
        class <= LIMITER_BIND ? 0 : limiter->under_way_max * LIMITER_RESERVE_PERCENT / 100;

    return limiter->under_way_max - kept;
}

bool limiter_take(struct limiter *limiter, enum limiter_class class, int64_t now_ms)
{
    fill(limiter, now_ms);
    if (class != LIMITER_URGENT) {
        if (now_ms < limiter->paused_until_ms)
            return false;
        if (limiter->under_way >= slots(limiter, class))
            return false;
        if (limiter->milli_tokens < reserve(limiter, class) + MILLI)
            return false;
    }
    limiter->milli_tokens -= MILLI;
    limiter->under_way++;
    return true;
}

void limiter_give(struct limiter *limiter)
{
    assert(limiter->under_way > 0);
    limiter->under_way--;
}

void limiter_pause(struct limiter *limiter, int64_t until_ms)
{
    if (until_ms > limiter->paused_until_ms)
        limiter->paused_until_ms = until_ms;
}

int64_t limiter_wait_ms(const struct limiter *limiter, enum limiter_class class, int64_t now_ms)
{
    int64_t missing = reserve(limiter, class) + MILLI - limiter->milli_tokens;
    int64_t wait = missing > 0 ? (missing + limiter->per_second - 1) / limiter->per_second : 1;

    if (limiter->under_way >= slots(limiter, class))
        return -1;
    if (limiter->paused_until_ms - now_ms > wait)
        wait = limiter->paused_until_ms - now_ms;
    return wait > 0 ? wait : 1;
}
