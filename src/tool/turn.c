#include "tool/turn.h"

#include "base/buf.h"
#include "base/mem.h"
#include "base/str.h"
#include "tool/log.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <uv.h>

#define NS_PER_MS   1000000u
#define TOLD_NS_MIN (10u * NS_PER_MS) /* a shorter piece explains no slow turn; it costs no text */
#define TEXT_BYTES  256

struct turns {
    uv_prepare_t prepare; /* runs just before the loop waits */
    const struct log *log;
    uint64_t began_ns; /* the turn */
    uint64_t idle_ns;  /* how long the loop had waited in all, then */
    uint64_t longest_ns;
    uint64_t slow;
    const struct turn_piece *piece; /* under way */
    uint64_t piece_ns;              /* since then */
    struct {
        uint64_t ns;
        char who[TEXT_BYTES];
        char verb[32];
        char what[TEXT_BYTES];
    } told; /* the longest piece of this turn */
};

static void on_prepare(uv_prepare_t *prepare)
{
    struct turns *turns = prepare->data;
    uint64_t now_ns = uv_hrtime();
    uint64_t idle_ns = uv_metrics_idle_time(prepare->loop);
    uint64_t took_ns = now_ns - turns->began_ns;
    uint64_t waited_ns = idle_ns - turns->idle_ns;

    took_ns -= waited_ns < took_ns ? waited_ns : took_ns;
    turns->began_ns = now_ns;
    turns->idle_ns = idle_ns;
    if (took_ns > turns->longest_ns)
        turns->longest_ns = took_ns;
    if (took_ns > (uint64_t)TURN_SLOW_MS * NS_PER_MS) {
        turns->slow++;
        log_warn(turns->log, "loop.slow_turn", LOG_I64("ms", (int64_t)(took_ns / NS_PER_MS)),
                 LOG_C("who", turns->told.who), LOG_C("verb", turns->told.verb),
                 LOG_C("what", turns->told.what),
                 LOG_I64("of_it_ms", (int64_t)(turns->told.ns / NS_PER_MS)));
    }
    turns->told.ns = 0;
    turns->told.who[0] = turns->told.verb[0] = turns->told.what[0] = '\0';
}

struct turns *turns_start(struct uv_loop_s *loop, const struct log *log)
{
    struct turns *turns = MEM_NEW(struct turns);

    (void)uv_loop_configure(loop, UV_METRICS_IDLE_TIME);
    (void)uv_prepare_init(loop, &turns->prepare);
    turns->prepare.data = turns;
    turns->log = log;
    turns->began_ns = uv_hrtime();
    turns->idle_ns = uv_metrics_idle_time(loop);
    loop->data = turns;
    (void)uv_prepare_start(&turns->prepare, on_prepare);
    uv_unref((uv_handle_t *)&turns->prepare);
    return turns;
}

static void on_closed(uv_handle_t *handle)
{
    mem_free(handle->data);
}

void turns_stop(struct turns *turns)
{
    if (!turns)
        return;
    turns->prepare.loop->data = NULL;
    uv_close((uv_handle_t *)&turns->prepare, on_closed);
}

void turns_write_metrics(const struct turns *turns, struct buf *text)
{
    if (!turns)
        return;
    buf_addf(
        text,
        "# HELP muster_loop_longest_turn_seconds The longest turn of the loop since the start\n"
        "# TYPE muster_loop_longest_turn_seconds gauge\n"
        "muster_loop_longest_turn_seconds %.6f\n"
        "# HELP muster_loop_slow_turns_total Turns of the loop of more than %d ms\n"
        "# TYPE muster_loop_slow_turns_total counter\n"
        "muster_loop_slow_turns_total %llu\n",
        (double)turns->longest_ns / 1e9, TURN_SLOW_MS, (unsigned long long)turns->slow);
}

void turn_enter(struct uv_loop_s *loop, const struct turn_piece *piece)
{
    struct turns *turns = loop ? loop->data : NULL;

    if (!turns || turns->piece)
        return;
    turns->piece = piece;
    turns->piece_ns = uv_hrtime();
}

void turn_leave(struct uv_loop_s *loop, const struct turn_piece *piece)
{
    struct turns *turns = loop ? loop->data : NULL;

    if (!turns || turns->piece != piece)
        return;
    uint64_t took_ns = uv_hrtime() - turns->piece_ns;
    turns->piece = NULL;
    if (took_ns < TOLD_NS_MIN || took_ns <= turns->told.ns)
        return;
    turns->told.ns = took_ns;
    (void)snprintf(turns->told.who, TEXT_BYTES, STR_FMT, STR_ARG(piece->who));
    (void)snprintf(turns->told.verb, sizeof(turns->told.verb), STR_FMT, STR_ARG(piece->verb));
    (void)snprintf(turns->told.what, TEXT_BYTES, STR_FMT, STR_ARG(piece->what));
}

const struct turn_piece *turn_now(const struct uv_loop_s *loop)
{
    const struct turns *turns = loop->data;

    return turns ? turns->piece : NULL;
}
