#include "tool/timer.h"

#include "base/mem.h"

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

struct timer {
    uv_timer_t handle;
    void *user;
    timer_fn *due;
    timer_fn *closed;
    bool calling;
};

static void on_due(uv_timer_t *handle)
{
    struct timer *timer = handle->data;
    timer->calling = true;
    timer->due(timer->user);
    timer->calling = false; /* on_closed comes later, in any case */
}

static void on_closed(uv_handle_t *handle)
{
    struct timer *timer = handle->data;
    if (timer->closed)
        timer->closed(timer->user);
    mem_free(timer);
}

struct timer *timer_new(struct uv_loop_s *loop, void *user)
{
    struct timer *timer = MEM_NEW(struct timer);
    int r = uv_timer_init(loop, &timer->handle);
    assert(r == 0); /* it allocates nothing */
    (void)r;
    timer->handle.data = timer;
    timer->user = user;
    return timer;
}

void timer_in(struct timer *timer, int64_t delay_ms, timer_fn *due)
{
    timer_every(timer, delay_ms, 0, due);
}

void timer_every(struct timer *timer, int64_t delay_ms, int64_t every_ms, timer_fn *due)
{
    /* libuv before 1.45 calls what sets itself for now again in this turn, for ever, and hears
     * nobody else. */
    int64_t least_ms = timer->calling ? 1 : 0;
    timer->due = due;
    (void)uv_timer_start(&timer->handle, on_due,
                         (uint64_t)(delay_ms > least_ms ? delay_ms : least_ms), (uint64_t)every_ms);
}

void timer_cancel(struct timer *timer)
{
    (void)uv_timer_stop(&timer->handle);
}

bool timer_is_set(const struct timer *timer)
{
    return uv_is_active((const uv_handle_t *)&timer->handle);
}

int64_t timer_due_in_ms(const struct timer *timer)
{
    return timer_is_set(timer) ? (int64_t)uv_timer_get_due_in(&timer->handle) : INT64_MAX;
}

void timer_unref(struct timer *timer)
{
    uv_unref((uv_handle_t *)&timer->handle);
}

void timer_free(struct timer *timer)
{
    if (timer)
        timer_close(timer, NULL);
}

void timer_close(struct timer *timer, timer_fn *closed)
{
    timer->closed = closed;
    uv_close((uv_handle_t *)&timer->handle, on_closed);
}
