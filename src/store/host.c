#include "store/host.h"

#include "store/state.h"

#include <stdint.h>
#include <time.h>
#include <uv.h>

/* The world around the store: the clock, chance, and the loop that turns it. */

int64_t store_now(const struct store *store)
{
    struct timespec now;

    if (store->now_ms)
        return store->now_ms(store->now_user);
    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* splitmix64 */
uint64_t store_random(struct store *store)
{
    uint64_t z = store->random += 0x9e3779b97f4a7c15U;

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31);
}

static void on_idle(uv_idle_t *handle)
{
    (void)handle;
}

void store_wake(struct store *store)
{
    if (!store->closing)
        (void)uv_idle_start(&store->idle, on_idle);
}
