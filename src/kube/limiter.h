#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* limiter: how many requests may start now, and of which importance.
 *
 * A token bucket of `burst` tokens refilled at `per_second`, and a bound on requests under way. The
 * more important a request, the deeper it may drain both: the last LIMITER_RESERVE_PERCENT of the
 * bucket and of the slots are kept for the classes above NORMAL, so that a flood of events cannot
 * delay a bind. URGENT (leases) is never held back: a leader that cannot renew is worse than one
 * request too many. When the server says 429 everything but URGENT pauses until the moment it
 * named.
 *
 * Pure: the caller hands in the time. */
enum limiter_class {
    LIMITER_URGENT, /* leases, probes */
    LIMITER_READ, /* lists and watches: few, and writes that nobody sees are repeated without end */
    LIMITER_BIND, /* binds and what undoes them */
    LIMITER_NORMAL, /* controllers' writes, gets */
    LIMITER_EVENT,  /* events: the first to wait */
    LIMITER_CLASSES,
};

#define LIMITER_RESERVE_PERCENT 20

struct limiter {
    int64_t per_second;
    int64_t burst;
    size_t under_way_max;
    size_t under_way;
    int64_t milli_tokens;
    int64_t filled_ms;
    int64_t paused_until_ms;
};

void limiter_init(struct limiter *limiter,
                  int64_t per_second,
                  int64_t burst,
                  size_t under_way_max,
                  int64_t now_ms);
/* Take a token and a slot; false: not now. */
bool limiter_take(struct limiter *limiter, enum limiter_class class, int64_t now_ms);
/* A request that was taken has ended; or never holds a slot (a watch). */
void limiter_give(struct limiter *limiter);
/* The server asked for a pause. */
void limiter_pause(struct limiter *limiter, int64_t until_ms);
/* Milliseconds until limiter_take() can succeed, at least 1; -1 when a request has to end first. */
int64_t limiter_wait_ms(const struct limiter *limiter, enum limiter_class class, int64_t now_ms);
