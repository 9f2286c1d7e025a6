#pragma once

#include <stdbool.h>
#include <stdint.h>

struct timer;
struct uv_loop_s;

/* timer: a timer of the loop. libuv keeps a handle until it has closed it in a later turn of the
 * loop, so the memory is the timer's own and goes then; its owner may be freed at once.
 *
 * All of it runs in the thread of the loop. `user` is what every callback gets. */
typedef void timer_fn(void *user);

struct timer *timer_new(struct uv_loop_s *loop, void *user);

/* Call `due` once, after delay_ms (negative: as 0, in the next turn of the loop). A timer that was
 * already set is set anew: only the last call counts. */
void timer_in(struct timer *timer, int64_t delay_ms, timer_fn *due);
/* The same, and then again every every_ms. */
void timer_every(struct timer *timer, int64_t delay_ms, int64_t every_ms, timer_fn *due);
void timer_cancel(struct timer *timer);
/* It will be called if nobody cancels it. */
bool timer_is_set(const struct timer *timer);
/* Milliseconds until then; INT64_MAX: it is not set. */
int64_t timer_due_in_ms(const struct timer *timer);

/* The loop may end although the timer is set. */
void timer_unref(struct timer *timer);

/* It is not called any more. From its own callback too. NULL is fine. */
void timer_free(struct timer *timer);
/* timer_free() for an owner that must outlive the handle: `closed` is called when the loop has let
 * it go, never from inside this call. */
void timer_close(struct timer *timer, timer_fn *closed);
