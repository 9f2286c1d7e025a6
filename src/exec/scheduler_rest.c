#include "exec/scheduler_rest.h"

#include <stdbool.h>
#include <stdint.h>

int64_t scheduler_rest_ms(int64_t took_us, bool did_something)
{
    int64_t rest_ms = (did_something ? took_us : took_us * SCHEDULER_REST_IDLE) / 1000;

    if (took_us < SCHEDULER_REST_FROM_US)
        return 0;
    return rest_ms < SCHEDULER_REST_MAX_MS ? rest_ms : SCHEDULER_REST_MAX_MS;
}
