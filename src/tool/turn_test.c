#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "test.h"
#include "tool/file.h"
#include "tool/log.h"
#include "tool/timer.h"
#include "tool/turn.h"

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>
#include <uv.h>

/* Work of so long, told as somebody's. */
static void work_for(uv_loop_t *loop, uint64_t ms, const char *who)
{
    struct turn_piece piece = {str_from(who), STR("POST"), STR("/api/v1/pods")};
    uint64_t until_ns = uv_hrtime() + ms * 1000000;

    turn_enter(loop, &piece);
    turn_enter(loop, &(struct turn_piece){.who = STR("inner")});
    while (uv_hrtime() < until_ns)
        ;
    turn_leave(loop, &piece);
}

static void on_work(void *user)
{
    uv_loop_t *loop = user;

    work_for(loop, 15, "bob");
    work_for(loop, TURN_SLOW_MS + 20, "alice");
    work_for(loop, 20, "carol");
}

static void on_wait(void *user)
{
    (void)user; /* the loop slept for long, and nobody waited for it */
}

TEST(a_slow_turn_is_told_with_who_made_it_slow)
{
    _cleanup_(arena_done) struct arena arena = {0};
    _cleanup_(buf_done) struct buf text = {0};
    char path[] = "/tmp/turn_test.XXXXXX";
    struct log log = {.fd = mkstemp(path), .level = LEVEL_INFO};
    struct str told = STR_NONE;
    uv_loop_t loop;

    EXPECT(log.fd >= 0 && uv_loop_init(&loop) == 0);
    work_for(&loop, 0, "nobody watches");
    struct turns *turns = turns_start(&loop, &log);
    struct timer *timer = timer_new(&loop, &loop);
    timer_in(timer, TURN_SLOW_MS * 2, on_wait);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    turns_write_metrics(turns, &text);
    EXPECT(str_contains(buf_str(&text), STR("muster_loop_slow_turns_total 0\n")));
    timer_in(timer, 0, on_work);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    (void)uv_run(&loop, UV_RUN_NOWAIT);
    buf_clear(&text);
    turns_write_metrics(turns, &text);
    EXPECT(str_contains(buf_str(&text), STR("muster_loop_slow_turns_total 1\n")));
    EXPECT(str_contains(buf_str(&text), STR("muster_loop_longest_turn_seconds 0.")));
    EXPECT(file_read(&arena, path, &told, NULL) == 0);
    EXPECT(str_contains(told, STR("event=loop.slow_turn")));
    EXPECT(str_contains(told, STR("who=alice verb=POST what=/api/v1/pods")));
    timer_free(timer);
    turns_stop(turns);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    EXPECT(uv_loop_close(&loop) == 0);
    (void)close(log.fd);
    (void)unlink(path);
}
