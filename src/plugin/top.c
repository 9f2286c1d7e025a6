#include "api/kind.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "plugin/plugin.h"
#include "plugin/view.h"
#include "tool/clock.h"

#include <poll.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

/* top: nodes, queues, jobs and their GPUs, on the whole screen, until q. Not a terminal, or --once:
 * printed one time. */
#define REFRESH_MS 1000

struct top_values {
    struct common_values common;
    bool once;
    const char *selector;
};

static const struct option top_options[] = {
    COMMON_OPTIONS,
    {"once", 0, OPTION_BOOL, offsetof(struct top_values, once), .help = "print once and exit",
     .flag_only = true},
    {"selector", 'l', OPTION_STR, offsetof(struct top_values, selector), .value = "LABELS",
     .help = "jobs with these labels, such as team=vision", .flag_only = true},
    {0},
};

static int top_draw(struct session *session,
                    const struct top_values *v,
                    struct buf *text,
                    struct err *err)
{
    struct view_top view = {.wraps_at = session->out.wraps_at, .now_ms = clock_now_ms()};
    int r = session_list(session, &kind_node, "*", NULL, &view.nodes.items, &view.nodes.count, err);

    if (r == 0)
        r = session_list(session, &kind_pod, "*", NULL, &view.pods.items, &view.pods.count, err);
    if (r == 0)
        r = session_list(session, &kind_torchrunjob, "*", v->selector, &view.jobs.items,
                         &view.jobs.count, err);
    if (r == 0)
        view_top(text, &session->arena, &view);
    return r;
}

/* Only as much as fits: lines are cut at the right, the rest at the bottom. */
static void top_show(const struct session *session, struct str text)
{
    _cleanup_(buf_done) struct buf screen = {0};
    struct winsize size = {.ws_row = 24, .ws_col = 80};
    struct str line;

    (void)ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
    buf_add(&screen, STR("\033[H"));
    for (unsigned row = 0; row + 1 < size.ws_row && str_cut(&text, '\n', &line); row++) {
        buf_add(&screen, str_sub(line, 0, size.ws_col));
        buf_add(&screen, STR("\033[K\r\n"));
    }
    buf_add(&screen, STR("\033[J\033[7m q quits \033[m"));
    term_write(&session->out, buf_str(&screen));
}

/* True when the person wants to leave. */
static bool top_wait_key(struct session *session, int64_t limit_ms)
{
    struct pollfd wait = {.fd = STDIN_FILENO, .events = POLLIN};
    char key;

    (void)session;
    return poll(&wait, 1, (int)limit_ms) == 1 &&
           (read(STDIN_FILENO, &key, 1) <= 0 || key == 'q' || key == 3 || key == 27);
}

static int top_live(struct session *session, const struct top_values *v, struct err *err)
{
    struct termios before;
    struct termios raw;
    bool leave = false;
    int r = 0;

    if (tcgetattr(STDIN_FILENO, &before) == 0) {
        raw = before;
        cfmakeraw(&raw);
        (void)tcsetattr(STDIN_FILENO, TCSANOW, &raw);
    }
    term_write(&session->out, STR("\033[?1049h\033[?25l"));
    while (r == 0 && !leave) {
        _cleanup_(buf_done) struct buf text = {0};

        r = top_draw(session, v, &text, err);
        if (r == 0) {
            top_show(session, buf_str(&text));
            arena_reset(&session->arena);
            leave = top_wait_key(session, REFRESH_MS);
        }
    }
    term_write(&session->out, STR("\033[?25h\033[?1049l"));
    (void)tcsetattr(STDIN_FILENO, TCSANOW, &before);
    return r;
}

static int top_run(struct invocation *invocation)
{
    const struct top_values *v = invocation->values;
    _cleanup_(buf_done) struct buf text = {0};
    struct session session;
    struct err err = {0};
    int r = session_open(&session, invocation, &err);

    if (r == 0 && session.out.live && isatty(STDIN_FILENO) && !v->once) {
        r = top_live(&session, v, &err);
    } else if (r == 0) {
        r = top_draw(&session, v, &text, &err);
        term_write(&session.out, buf_str(&text));
    }
    if (r < 0)
        r = session_fail(&session, &err);
    session_close(&session);
    return r;
}

const struct command command_top = {
    .name = "top",
    .summary = "nodes, queues and jobs on the whole screen, live",
    .options = top_options,
    .values_size = sizeof(struct top_values),
    .run = top_run,
};
