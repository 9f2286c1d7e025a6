#include "api/kind.h"
#include "api/object.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/str.h"
#include "plugin/plugin.h"
#include "plugin/top_view.h"
#include "plugin/view.h"
#include "tool/clock.h"

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

/* top: jobs, queues and GPUs on the whole screen, until q (plugin/top_view.h). Not a terminal, or
 * --once: nodes and jobs, printed one time. */
#define REFRESH_MS 1000
#define LOG_LINES  200

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

    const char *ns = "*";

    if (r == 0)
        r = session_list(session, &kind_pod, ns, NULL, &view.pods.items, &view.pods.count, err);
    if (r < 0 && err->http_status == 403 && view.nodes.count) {
        view.own = true;
        ns = session->config.ns;
        r = session_list(session, &kind_pod, ns, NULL, &view.pods.items, &view.pods.count, err);
        session_list_if(session, &kind_podgroup, "*", NULL, &view.groups);
    }
    if (r == 0)
        r = session_list(session, &kind_torchrunjob, ns, v->selector, &view.jobs.items,
                         &view.jobs.count, err);
    if (r == 0)
        view_top(text, &session->arena, &view);
    return r;
}

/* What the viewer may not see is left out: the panes of the rest are there. */
static int top_collect(struct session *session,
                       const struct top_values *v,
                       struct top_objects *objects,
                       struct err *err)
{
    int r = session_list(session, &kind_torchrunjob, "*", v->selector, &objects->jobs.items,
                         &objects->jobs.count, err);

    if (r < 0 && err->http_status == 403)
        r = session_list(session, &kind_torchrunjob, session->config.ns, v->selector,
                         &objects->jobs.items, &objects->jobs.count, err);
    if (r < 0 && err->http_status != 403 && err->http_status != 404)
        return r;
    session_list_if(session, &kind_node, "*", NULL, &objects->nodes);
    session_list_if(session, &kind_pod, "*", NULL, &objects->pods);
    session_list_if(session, &kind_queue, "*", NULL, &objects->queues);
    session_list_if(session, &kind_podgroup, "*", v->selector, &objects->groups);
    objects->now_ms = clock_now_ms();
    return 0;
}

/* The last lines of the first pod that has any. */
static void top_log(struct session *session,
                    const struct top_objects *objects,
                    const struct top_row *row,
                    struct buf *text)
{
    struct view_objects pods = top_pods(&session->arena, objects, row);
    struct err err = {0};

    if (!pods.count)
        buf_add(text, STR("It has no pods, so there is no log.\n"));
    for (size_t i = 0; i < pods.count; i++) {
        struct str body = STR_NONE;
        struct str path = str_printf(
            &session->arena, "/api/v1/namespaces/" STR_FMT "/pods/" STR_FMT "/log?tailLines=%d",
            STR_ARG(pods.items[i]->ns), STR_ARG(pods.items[i]->name), LOG_LINES);
        int status = session_http(session, &(struct session_request){.method = "GET", .path = path},
                                  &body, &err);

        if (status != 200)
            body = status < 0 ? str_from(err.text) : session_error_text(session, body);
        if (status == 200 || i + 1 == pods.count) {
            buf_addf(text, "Log of " STR_FMT ":\n" STR_FMT, STR_ARG(pods.items[i]->name),
                     STR_ARG(body));
            return;
        }
    }
}

/* The last lines that fit. */
static struct str text_end(struct str text, size_t lines)
{
    size_t at = text.len && text.p[text.len - 1] == '\n' ? text.len - 1 : text.len;

    while (at > 0 && lines > 0)
        if (text.p[--at] == '\n' && --lines == 0)
            return str_sub(text, at + 1, text.len);
    return text;
}

static void top_show(struct session *session,
                     const struct top_objects *objects,
                     struct top_state *state,
                     struct top_rows *rows)
{
    _cleanup_(buf_done) struct buf screen = {0};
    _cleanup_(buf_done) struct buf detail = {0};
    struct winsize size = {.ws_row = 24, .ws_col = 80};

    (void)ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
    top_rows(&session->arena, objects, state, rows);
    if (state->chosen >= rows->count)
        state->chosen = rows->count ? rows->count - 1 : 0;
    if (state->open && state->log && rows->count)
        top_log(session, objects, &rows->items[state->chosen], &detail);
    else if (state->open && rows->count)
        top_open(&detail, &session->arena, objects, state, &rows->items[state->chosen]);
    struct str text = buf_str(&detail);
    if (state->log)
        text = text_end(text, size.ws_row > 3 ? size.ws_row - 3u : 1);
    top_screen(&screen, state, rows, text, size.ws_row, size.ws_col);
    term_write(&session->out, buf_str(&screen));
}

/* False when the person wants to leave. *ret_pressed: there was a key. */
static bool top_wait_key(struct top_state *state, size_t rows, int64_t limit_ms, bool *ret_pressed)
{
    struct pollfd wait = {.fd = STDIN_FILENO, .events = POLLIN};
    char bytes[64];

    *ret_pressed = poll(&wait, 1, (int)limit_ms) == 1;
    if (!*ret_pressed)
        return true;
    ssize_t count = read(STDIN_FILENO, bytes, sizeof(bytes));
    bool stays = count > 0;
    struct str left = {bytes, stays ? (size_t)count : 0};
    while (stays && left.len)
        stays = top_key(state, top_key_cut(&left), rows);
    return stays;
}

static int top_live(struct session *session, const struct top_values *v, struct err *err)
{
    struct termios before;
    struct termios raw;
    struct top_state state = {0};
    bool stays = true;
    int r = 0;

    if (tcgetattr(STDIN_FILENO, &before) == 0) {
        raw = before;
        cfmakeraw(&raw);
        (void)tcsetattr(STDIN_FILENO, TCSANOW, &raw);
    }
    term_write(&session->out, STR("\033[?1049h\033[?25l"));
    while (r == 0 && stays) {
        struct top_objects objects = {0};
        int64_t due_ms = clock_monotonic_ms() + REFRESH_MS;
        bool pressed = true;

        r = top_collect(session, v, &objects, err);
        /* Keys are answered at once, from what is there; a moment later it is asked for anew. */
        while (r == 0 && stays && pressed) {
            struct top_rows rows;

            top_show(session, &objects, &state, &rows);
            int64_t left_ms = due_ms - clock_monotonic_ms();
            stays = top_wait_key(&state, rows.count, left_ms > 0 ? left_ms : 0, &pressed);
        }
        arena_reset(&session->arena);
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
    .summary = "jobs, queues and GPUs on the whole screen, live",
    .about =
        "Tab or 1, 2, 3 change the pane, / filters it, the arrows (or j and k) choose a row, Enter "
        "opens it, l shows a job's log, Esc goes back, q quits. GPU use is shown where the node's "
        "agent measures it.",
    .options = top_options,
    .values_size = sizeof(struct top_values),
    .run = top_run,
};
