#include "agent/usage.h"
#include "test.h"

#include <stdint.h>

#define S 1000LL

TEST(usage_is_the_mean_since_the_sample_before_the_last)
{
    struct usage_samples samples = {0};
    struct usage_counter begin = {100 * S, 0};
    int64_t window_ms = 0;

    /* Nobody has asked before: since it began. Two seconds of cpu in four are half a cpu. */
    EXPECT(usage_rate(&samples, (struct usage_counter){104 * S, 2000000000}, begin, &window_ms) ==
           500000000);
    EXPECT(window_ms == 4 * S);
    /* Too soon for another sample. */
    EXPECT(usage_rate(&samples, (struct usage_counter){108 * S, 2000000000}, begin, &window_ms) ==
           250000000);
    EXPECT(samples.last.at_ms == 104 * S && samples.before.at_ms == 0);
    (void)usage_rate(&samples, (struct usage_counter){114 * S, 2000000000}, begin, &window_ms);
    EXPECT(samples.last.at_ms == 114 * S && samples.before.at_ms == 104 * S);
    EXPECT(usage_rate(&samples, (struct usage_counter){124 * S, 22000000000}, begin, &window_ms) ==
           1000000000);
    EXPECT(window_ms == 20 * S);
    /* A process that ended takes its time along where they are counted one by one. */
    EXPECT(usage_rate(&samples, (struct usage_counter){125 * S, 0}, begin, &window_ms) == 0);
    EXPECT(usage_rate(&samples, (struct usage_counter){90 * S, 5}, begin, &window_ms) >= 0);
    EXPECT(window_ms > 0);
}
