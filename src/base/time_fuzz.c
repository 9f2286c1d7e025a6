#include "base/str.h"
#include "base/time.h"
#include "fuzz/fuzz.h"

#include <stdint.h>

/* A moment that was read is read again from what is written for it. */
FUZZ(time)
{
    char text[TIME_TEXT_BYTES];
    int64_t ms = 0;
    int64_t again = 0;
    int64_t duration = 0;

    if (time_parse(input, &ms)) {
        FUZZ_HOLDS(time_parse(time_format_micro(ms, text), &again));
        FUZZ_HOLDS(again == ms);
        FUZZ_HOLDS(time_parse(time_format(ms, text), &again));
        FUZZ_HOLDS(again <= ms && ms - again < 1000);
    }
    (void)time_parse_duration(input, &duration);
}
