#pragma once

#include <stdbool.h>
#include <stdint.h>

/* scheduler_rest: how long the scheduler leaves the loop to others after a cycle; pure.
 *
 * Behind one that did something as long as it took: a burst of events becomes a few cycles, and
 * others get half of the loop. Behind one that did nothing, because all there is waits,
 * SCHEDULER_REST_IDLE times as long: a cycle looks at every group that waits, so with thousands of
 * them each pod that joins the line would cost as much as all who stand in it. Never longer than
 * SCHEDULER_REST_MAX_MS, and not at all behind a cycle that cost next to nothing. */
#define SCHEDULER_REST_MAX_MS  100
#define SCHEDULER_REST_IDLE    8
#define SCHEDULER_REST_FROM_US 500 /* some hundreds of groups that wait */

/* `took_us`: the cycle; where it did nothing, with telling who waits. */
int64_t scheduler_rest_ms(int64_t took_us, bool did_something);
