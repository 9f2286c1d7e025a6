#include "api/kind.h"
#include "api/object.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "base/time.h"
#include "plugin/plugin.h"
#include "tool/clock.h"

#include <poll.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

/* top: nodes, queues, jobs and their GPUs, on the whole screen, until q. Not a terminal, or --once:
 * printed one time. */
#define REFRESH_MS 1000
#define BAR_WIDTH  24

struct top_values {
    struct common_values common;
    bool once;
};

static const struct option top_options[] = {
    COMMON_OPTIONS,
    {"once", 0, OPTION_BOOL, offsetof(struct top_values, once), .help = "print once and exit",
     .flag_only = true},
    {0},
};

static int64_t gpus_of(const struct json *resources)
{
    struct str text = json_str(json_get(resources, "nvidia.com/gpu"));
    int64_t gpus = json_i64_or(json_get(resources, "nvidia.com/gpu"), 0);

    (void)str_to_i64(text, &gpus);
    return gpus;
}

/* GPUs that pods on this node hold. */
static int64_t used_on(struct session *session,
                       const struct object **pods,
                       size_t count,
                       struct str node)
{
    int64_t used = 0;

    for (size_t i = 0; i < count; i++) {
        struct json *tree = object_json(pods[i], &session->arena);
        struct str phase = json_str_at(tree, "status.phase");

        if (!str_eq(json_str_at(tree, "spec.nodeName"), node) || str_is(phase, "Succeeded") ||
            str_is(phase, "Failed"))
            continue;
        JSON_FOREACH(json_at(tree, "spec.containers"), container) {
            int64_t gpus = gpus_of(json_at(container, "resources.requests"));

            used += gpus ? gpus : gpus_of(json_at(container, "resources.limits"));
        }
    }
    return used;
}

static void add_bar(struct buf *text, int64_t used, int64_t total)
{
    int64_t filled = total > 0 ? used * BAR_WIDTH / total : 0;

    buf_addc(text, '[');
    for (int64_t i = 0; i < BAR_WIDTH; i++)
        buf_addc(text, i < filled ? '#' : '.');
    buf_addf(text, "] %lld of %lld GPUs\n", (long long)used, (long long)total);
}

static int draw(struct session *session, struct buf *text, struct err *err)
{
    static const char *const headers[] = {"JOB",     "QUEUE", "GPUS",      "PHASE",
                                          "WORKERS", "AGE",   "WAITS FOR", NULL};
    struct arena *arena = &session->arena;
    const struct object **nodes = NULL;
    const struct object **pods = NULL;
    const struct object **jobs = NULL;
    size_t node_count = 0;
    size_t pod_count = 0;
    size_t job_count = 0;
    struct table table;
    char stamp[TIME_TEXT_BYTES];
    int r = session_list(session, &kind_node, "*", NULL, &nodes, &node_count, err);

    if (r == 0)
        r = session_list(session, &kind_pod, "*", NULL, &pods, &pod_count, err);
    if (r == 0)
        r = session_list(session, &kind_torchrunjob, "*", NULL, &jobs, &job_count, err);
    if (r < 0)
        return r;
    buf_addf(text, "muster  " STR_FMT "  %zu nodes, %zu pods, %zu jobs\n\n",
             STR_ARG(time_format(clock_now_ms(), stamp)), node_count, pod_count, job_count);
    for (size_t i = 0; i < node_count; i++) {
        struct json *tree = object_json(nodes[i], arena);

        buf_addf(text, "%-20.*s ", (int)nodes[i]->name.len, nodes[i]->name.p);
        add_bar(text, used_on(session, pods, pod_count, nodes[i]->name),
                gpus_of(json_at(tree, "status.allocatable")));
    }
    buf_addc(text, '\n');
    table_init(&table, arena, headers);
    for (size_t i = 0; i < job_count; i++) {
        struct json *tree = object_json(jobs[i], arena);
        struct str phase = json_str_at(tree, "status.phase");
        struct str queue = json_str_at(tree, "spec.jobQueue");
        bool runs = str_is(phase, "Running") || str_is(phase, "Succeeded");

        table_add(&table, jobs[i]->name);
        table_add(&table, queue.len ? queue : json_str_at(tree, "spec.queue"));
        table_add(&table, str_printf(arena, "%lld",
                                     (long long)json_i64_or(json_at(tree, "status.numGPUs"), 0)));
        table_add(&table, phase.len ? phase : STR("Pending"));
        table_add(&table, json_str_at(tree, "status.workersStatus"));
        table_add(&table, time_age(arena, clock_now_ms() - jobs[i]->created_ms));
        table_add(&table, runs ? STR("") : json_str_at(tree, "status.message"));
    }
    table_write(text, &table, true);
    return 0;
}

/* Only as much as fits: lines are cut at the right, the rest at the bottom. */
static void show(const struct session *session, struct str text)
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
static bool wait_key(struct session *session, int64_t limit_ms)
{
    struct pollfd wait = {.fd = STDIN_FILENO, .events = POLLIN};
    char key;

    (void)session;
    return poll(&wait, 1, (int)limit_ms) == 1 &&
           (read(STDIN_FILENO, &key, 1) <= 0 || key == 'q' || key == 3 || key == 27);
}

static int live_top(struct session *session, struct err *err)
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

        r = draw(session, &text, err);
        if (r == 0) {
            show(session, buf_str(&text));
            arena_reset(&session->arena);
            leave = wait_key(session, REFRESH_MS);
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
        r = live_top(&session, &err);
    } else if (r == 0) {
        r = draw(&session, &text, &err);
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
