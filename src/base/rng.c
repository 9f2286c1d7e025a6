#include "base/rng.h"

#include <assert.h>
#include <stdint.h>

/* SplitMix64: a counter that steps by the golden ratio, and a mix of its bits (Steele, Lea, Flood:
 * "Fast splittable pseudorandom number generators", 2014). Every seed has the full period of 2^64.
 */
uint64_t rng_next(struct rng *rng)
{
    uint64_t mixed = rng->state += 0x9E3779B97F4A7C15U;

    mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9U;
    mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EBU;
    return mixed ^ (mixed >> 31);
}

uint64_t rng_below(struct rng *rng, uint64_t limit)
{
    if (limit == 0)
        return 0;
    /* The first 2^64 mod limit values would make small results a little more likely. */
    uint64_t uneven = (0 - limit) % limit;
    uint64_t value;
    do {
        value = rng_next(rng);
    } while (value < uneven);
    return value % limit;
}

int64_t rng_between(struct rng *rng, int64_t low, int64_t high)
{
    assert(low <= high);
    uint64_t span = (uint64_t)high - (uint64_t)low;
    return (int64_t)((uint64_t)low +
                     (span == UINT64_MAX ? rng_next(rng) : rng_below(rng, span + 1)));
}
