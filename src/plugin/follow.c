#include "api/api.h"
#include "api/kind.h"
#include "api/object.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "base/map.h"
#include "base/mem.h"
#include "kube/client.h"
#include "launch/record.h"
#include "plugin/home.h"
#include "plugin/job.h"
#include "plugin/line.h"
#include "plugin/plugin.h"
#include "plugin/view.h"
#include "tool/clock.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Following a job: a watch on the job, a watch on its pods, one log stream a pod.
 *
 * Streams ask for timestamps: when one is cut (the network, a restarted server) it is opened again
 * from the last moment seen, and lines that were already shown are dropped. Before the first log
 * line a live view shows how the gang forms; afterwards only lines. */
#define LINE_BYTES_MAX     ((size_t)256 << 10)
#define REOPEN_MS          500
#define LOGS_END_LIMIT_MS  5000 /* after the job's end, for the last lines to arrive */
#define LAST_LINES         64   /* a traceback among them need not be shown a second time */
#define LAST_LINES_FOLLOW  "; its last lines:"
#define BARS_MAX           32
#define STATUS_INTERRUPTED (128 + SIGINT)
#define QUESTION                                                                                \
    "[d]etach, [c]ancel the job (what it wrote comes home first), or Enter to go on? (Ctrl-C: " \
    "cancel)\n"
#define WORKER_LABEL "torchrun-job-name"

struct follow;

/* The log of one pod (one generation of it: names repeat, uids do not). */
struct podlog {
    struct follow *follow;
    char name[256];
    char uid[64];
    struct client_call *call;
    struct buf line;
    struct line_stamp stamp;
    bool started; /* the container has run: there is a log */
    bool ended;   /* the container has ended: a finished stream is complete */
    bool gone;    /* the pod is deleted: its name may mean another one now */
    bool complete;
    int64_t due_ms;
};

/* A progress bar of a rank, as it stands below the lines. */
struct bar {
    int64_t rank;
    struct buf line;
};

struct follow {
    struct session *session;
    const struct follow_options *options;
    struct object *job;
    bool job_synced;
    bool job_gone;
    bool pods_synced;
    struct map pods; /* name -> struct object */
    struct map logs; /* uid -> struct podlog */
    struct live live;
    bool shown_any;
    bool interrupted;
    bool asked;  /* there was an interrupt before */
    bool asking; /* the question is on the screen, and not answered */
    bool detached;
    bool cancelled;
    bool refused; /* a log that was asked for is not there */
    struct bar bars[BARS_MAX];
    size_t bar_count;
    uint64_t last[LAST_LINES]; /* of the lines that were shown */
    size_t last_count;
    int64_t ended_ms;
};

/* ---- lines ---- */

bool follow_show_line(struct session *session, int64_t only, struct str pod, struct str line)
{
    _cleanup_(buf_done) struct buf text = {0};
    int64_t rank = line_take_rank(&line);

    if (only >= 0 && rank != only)
        return false;
    line_format(&text, &session->out, pod, rank, line);
    term_write(&session->out, buf_str(&text));
    return true;
}

static void follow_draw(struct follow *follow);

static struct bar *bar_of(struct follow *follow, int64_t rank, bool make)
{
    for (size_t i = 0; i < follow->bar_count; i++)
        if (follow->bars[i].rank == rank)
            return &follow->bars[i];
    if (!make || follow->bar_count == BARS_MAX)
        return NULL;
    follow->bars[follow->bar_count] = (struct bar){.rank = rank};
    return &follow->bars[follow->bar_count++];
}

/* Without what moves the cursor, or colours. */
static void bar_put(struct follow *follow, int64_t rank, struct str line)
{
    struct bar *bar = bar_of(follow, rank, true);

    if (!bar)
        return;
    buf_clear(&bar->line);
    for (size_t i = 0; i < line.len; i++) {
        if (line.p[i] == '\033')
            while (i + 1 < line.len && !((line.p[i] | 0x20) >= 'a' && (line.p[i] | 0x20) <= 'z'))
                i++;
        else if (line.p[i] != '\r')
            buf_addc(&bar->line, line.p[i]);
    }
}

/* What the rank prints next stands in its place. */
static void bar_drop(struct follow *follow, int64_t rank)
{
    struct bar *bar = bar_of(follow, rank, false);

    if (bar)
        buf_clear(&bar->line);
}

static void podlog_show(struct podlog *log, struct str line)
{
    struct follow *follow = log->follow;
    const char *name = strstr(log->name, "-worker-");
    struct str copy = line;
    int64_t rank = line_take_rank(&copy);
    int64_t only = follow->options->rank;

    if (only >= 0 && rank != only)
        return;
    if (line.len && line.p[line.len - 1] == '\r' && rank >= 0) {
        /* Where lines cannot be written over each other the bar's last state, which ends as a line, says it. */
        if (!follow->live.term->live)
            return;
        if (!follow->shown_any)
            live_done(&follow->live);
        follow->shown_any = true;
        bar_put(follow, rank, line);
        follow_draw(follow);
        return;
    }
    bar_drop(follow, rank);
    follow->last[follow->last_count++ % LAST_LINES] = str_hash(str_trim(copy), 0);
    if (follow->asking || follow->bar_count)
        live_show(&follow->live, STR("")); /* the question and the bars stay below the lines */
    else if (!follow->shown_any)
        live_done(&follow->live);
    follow->shown_any = true;
    (void)follow_show_line(follow->session, only, str_from(name ? name + 1 : log->name), line);
    follow_draw(follow);
}

static void podlog_take(struct podlog *log, struct str line)
{
    if (line_take_stamp(&log->stamp, &line))
        podlog_show(log, line);
}

static void on_log_data(void *user, struct str bytes)
{
    struct podlog *log = user;

    while (bytes.len) {
        size_t end = str_find(bytes, '\n');

        if (log->line.len + end <= LINE_BYTES_MAX)
            buf_add(&log->line, str_sub(bytes, 0, end));
        if (end == bytes.len)
            return;
        podlog_take(log, buf_str(&log->line));
        buf_clear(&log->line);
        bytes = str_sub(bytes, end + 1, bytes.len);
    }
}

static void on_log_done(void *user, const struct transport_reply *reply)
{
    struct podlog *log = user;

    log->call = NULL;
    if (reply->code == 0 && reply->status >= 400 && reply->status < 500 &&
        !log->follow->options->watch) {
        struct session *session = log->follow->session;

        session_say(session, "%s: " STR_FMT, log->name,
                    STR_ARG(session_error_text(session, reply->body)));
        log->follow->refused = log->complete = true;
        return;
    }
    if (reply->code == 0 && reply->status == 200 && (log->ended || !log->follow->options->watch)) {
        if (log->line.len)
            podlog_take(log, buf_str(&log->line));
        buf_clear(&log->line);
        log->complete = true;
        return;
    }
    if (log->gone || (reply->code == 0 && reply->status == 404 && log->ended))
        log->complete = true; /* the pod is gone, and its log with it */
    buf_clear(&log->line);
    log->due_ms = clock_monotonic_ms() + REOPEN_MS;
}

static void podlog_open(struct podlog *log)
{
    const struct follow_options *options = log->follow->options;
    struct session *session = log->follow->session;
    _cleanup_(buf_done) struct buf path = {0};

    buf_addf(&path, "/api/v1/namespaces/%s/pods/%s/log?timestamps=true", session->config.ns,
             log->name);
    if (options->watch)
        buf_add(&path, STR("&follow=true"));
    if (options->previous)
        buf_add(&path, STR("&previous=true"));
    if (log->stamp.text[0]) {
        buf_addf(&path, "&sinceTime=%.19sZ", log->stamp.text);
        log->stamp.skipping = true;
    } else if (options->tail >= 0) {
        buf_addf(&path, "&tailLines=%lld", (long long)options->tail);
    }
    log->call = client_send(session->client, &(struct client_request){.class = LIMITER_READ,
                                                                      .method = "GET",
                                                                      .path = buf_str(&path),
                                                                      .accept = "*/*",
                                                                      .data = on_log_data,
                                                                      .done = on_log_done,
                                                                      .user = log});
}

/* ---- pods ---- */

static bool follow_is_worker(const struct follow *follow, const struct object *pod)
{
    struct str prefix = str_from(follow->options->job);
    struct str rest = str_sub(pod->name, prefix.len, pod->name.len);

    return str_starts(pod->name, prefix) &&
           (str_starts(rest, STR("-worker-")) ||
            (str_starts(rest, STR("-spare-")) &&
             str_is(object_label(pod, "torchrun.ai/role"), "worker"))); /* it took a place */
}

static void pod_changed(struct follow *follow, const struct object *pod)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct json *tree = object_json(pod, &arena);
    struct str phase = json_str_at(tree, "status.phase");
    struct json *state = json_at(tree, "status.containerStatuses.0.state");
    struct podlog *log = map_get(&follow->logs, pod->uid);

    int64_t generation = -1;

    (void)str_to_i64(object_label(pod, "torchrun.ai/generation"), &generation);
    if (!follow_is_worker(follow, pod) ||
        (follow->options->generation >= 0 && generation != follow->options->generation))
        return;
    if (!log) {
        log = MEM_NEW(struct podlog);
        log->follow = follow;
        (void)snprintf(log->name, sizeof(log->name), STR_FMT, STR_ARG(pod->name));
        (void)snprintf(log->uid, sizeof(log->uid), STR_FMT, STR_ARG(pod->uid));
        (void)map_set(&follow->logs, str_from(log->uid), log);
    }
    if (json_get(state, "running") || json_get(state, "terminated") || str_is(phase, "Running"))
        log->started = true;
    if (str_is(phase, "Succeeded") || str_is(phase, "Failed"))
        log->started = log->ended = true;
}

static void on_pod(void *user, const struct api_change *change)
{
    struct follow *follow = user;
    struct object *old;

    if (change->event == API_SYNCED)
        follow->pods_synced = true;
    if (!change->object || !job_owns(follow->options->job, change->object))
        return;
    if (change->event == API_DELETED) {
        struct podlog *log = map_get(&follow->logs, change->object->uid);

        if (log) {
            log->ended = log->gone = true;
            log->complete |= !log->call;
        }
        object_unref(map_remove(&follow->pods, change->object->name));
        return;
    }
    old = map_set(&follow->pods, change->object->name, object_ref(change->object));
    object_unref(old);
    pod_changed(follow, change->object);
}

static void on_job(void *user, const struct api_change *change)
{
    struct follow *follow = user;

    if (change->event == API_SYNCED)
        follow->job_synced = true;
    if (change->event == API_DELETED)
        follow->job_gone = true;
    if (!change->object || change->event == API_DELETED)
        return;
    object_unref(follow->job);
    follow->job = object_ref(change->object);
}

static bool follow_logs_step(struct follow *follow)
{
    int64_t now = clock_monotonic_ms();
    bool busy = false;

    MAP_FOREACH(&follow->logs, item) {
        struct podlog *log = item->value;

        if (!log->complete && !log->call && log->started && now >= log->due_ms)
            podlog_open(log);
        busy |= log->call != NULL || (log->started && !log->complete);
    }
    return busy;
}

/* ---- words ---- */

static bool phase_is_final(struct str phase)
{
    return job_is_over(phase) || str_is(phase, "Deleted");
}

static void follow_count(const struct follow *follow, size_t *ret_placed, size_t *ret_running)
{
    *ret_placed = 0;
    *ret_running = 0;
    MAP_FOREACH(&follow->pods, item) {
        _cleanup_(arena_done) struct arena arena = {0};
        const struct object *pod = item->value;
        struct json *tree = object_json(pod, &arena);

        if (!follow_is_worker(follow, pod) || pod->deleted_ms)
            continue;
        *ret_placed += json_str_at(tree, "spec.nodeName").len > 0;
        *ret_running += str_is(json_str_at(tree, "status.phase"), "Running");
    }
}

/* How things stand before the first line: the phase, how much of the gang is placed, the reason. */
static void follow_add_state(const struct follow *follow, struct buf *text)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct json *tree = object_json(follow->job, &arena);
    struct str phase = json_str_at(tree, "status.phase");
    struct str message = json_str_at(tree, "status.message");
    int64_t nodes = json_i64_or(json_at(tree, "status.numNodes"), 0);
    size_t placed;
    size_t running;

    follow_count(follow, &placed, &running);
    buf_addf(text, "%s: " STR_FMT, follow->options->job, STR_ARG(view_phase(phase)));
    if (nodes > 0)
        buf_addf(text, ", %zu of %lld pods placed, %zu running", placed, (long long)nodes, running);
    if (message.len)
        buf_addf(text, ": " STR_FMT, STR_ARG(term_moments(&arena, str_sub(message, 0, 300))));
    buf_addc(text, '\n');
}

/* What stands below the lines: how things are, before the first of them, and the question. */
static void follow_draw(struct follow *follow)
{
    _cleanup_(buf_done) struct buf text = {0};

    if (follow->job && !follow->options->quiet && !follow->shown_any)
        follow_add_state(follow, &text);
    for (size_t i = 0; i < follow->bar_count; i++)
        if (follow->bars[i].line.len)
            buf_addf(&text, STR_FMT "\n", STR_ARG(buf_str(&follow->bars[i].line)));
    if (follow->asking)
        buf_add(&text, STR(QUESTION));
    if (!str_eq(buf_str(&text), buf_str(&follow->live.shown)))
        live_show(&follow->live, buf_str(&text));
}

/* The last line of a text is among the last that were shown. */
static bool follow_has_shown(const struct follow *follow, struct str text)
{
    size_t at = text.len;

    while (at > 0 && text.p[at - 1] != '\n')
        at--;
    uint64_t hash = str_hash(str_trim(str_sub(text, at, text.len)), 0);
    for (size_t i = 0; at > 0 && i < follow->last_count && i < LAST_LINES; i++)
        if (follow->last[i] == hash)
            return true;
    return false;
}

/* Of a traceback that stands right above only its last line is said once more: the cause, at the end. */
static struct str follow_in_short(struct arena *arena, struct str failure)
{
    struct str first = str_sub(failure, 0, str_find(failure, '\n'));
    size_t at = failure.len;

    while (at > first.len && failure.p[at - 1] != '\n')
        at--;
    if (at == first.len || !str_ends(first, STR(LAST_LINES_FOLLOW)))
        return first;
    first.len -= sizeof(LAST_LINES_FOLLOW) - 1;
    return str_printf(arena, STR_FMT ": " STR_FMT, STR_ARG(first),
                      STR_ARG(str_trim(str_sub(failure, at, failure.len))));
}

/* After the end: what failed, in words, and the status for the shell. */
static int follow_report_end(struct follow *follow)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct session *session = follow->session;
    struct json *tree = object_json(follow->job, &arena);
    struct json *failure = json_at(tree, "status.failure");
    struct str phase = json_str_at(tree, "status.phase");
    struct str message = json_str_at(tree, "status.message");
    struct str last = str_trim(json_str(json_get(failure, "message")));
    int64_t code = json_i64_or(json_at(tree, "status.exitCode"), -1);
    const char *job = follow->options->job;

    if (str_is(phase, "Succeeded")) {
        if (!follow->options->quiet)
            session_say(session, "%sjob %s succeeded%s", term_colour(&session->err, COLOUR_GREEN),
                        job, term_colour(&session->err, COLOUR_NONE));
        return 0;
    }
    if (code <= 0 || code > 255)
        code = json_i64_or(json_get(failure, "exitCode"), 1);
    session_say(session, "%sjob %s: " STR_FMT "%s%s" STR_FMT,
                term_colour(&session->err, COLOUR_RED), job, STR_ARG(phase),
                term_colour(&session->err, COLOUR_NONE), message.len ? ": " : "",
                STR_ARG(term_moments(&arena, str_sub(message, 0, 600))));
    if (follow_has_shown(follow, last))
        last = follow_in_short(&arena, last);
    if (last.len && !str_contains(message, last))
        session_say(session, STR_FMT, STR_ARG(term_moments(&arena, last)));
    return code > 0 && code < 256 ? (int)code : 1;
}

static int follow_end(struct follow *follow)
{
    if (follow->options->ret_ended)
        *follow->options->ret_ended = true;
    return follow_report_end(follow);
}

/* ---- Ctrl-C ---- */

static void on_interrupt(uv_signal_t *handle, int number)
{
    struct follow *follow = handle->data;

    (void)number;
    follow->interrupted = true;
}

static bool follow_detach(struct follow *follow)
{
    session_say(follow->session,
                "detached from %s, which keeps running; to follow it again: %s logs -f %s",
                follow->options->job, follow->session->program, follow->options->job);
    follow->detached = true;
    return true;
}

/* What it wrote so far comes home first, where it has one; what cannot is not deleted. */
static bool follow_cancel(struct follow *follow)
{
    struct session *session = follow->session;
    const char *job = follow->options->job;
    struct err err = {0};
    int r = home_bring(session, job, &err);

    follow->detached = true;
    if (r < 0 && r != -ENOENT && r != -ESRCH) { /* it came from nowhere, or has not started */
        session_say(session,
                    "job %s is not cancelled, for what it wrote did not come home: %s; `%s delete "
                    "%s` deletes it with that",
                    job, err.text, session->program, job);
        return true;
    }
    if (session_call(session,
                     &(struct api_request){.verb = API_DELETE,
                                           .kind = &kind_torchrunjob,
                                           .ns = str_from(session->config.ns),
                                           .name = str_from(job),
                                           .body = STR("{\"propagationPolicy\":\"Background\"}")},
                     NULL, &err) < 0)
        (void)session_fail(session, &err);
    else
        session_say(session, "job %s is cancelled", job);
    follow->cancelled = true;
    return true;
}

static void follow_hide_question(struct follow *follow)
{
    if (follow->asking && follow->live.shown_lines)
        live_show(&follow->live, STR(""));
    follow->asking = false;
}

/* Ctrl-C. Whoever only looks on leaves; others are asked, and the second one cancels. Where nobody can
 * be asked, a job that was submitted goes on alone. Returns false to go on. */
static bool follow_interrupt(struct follow *follow)
{
    struct session *session = follow->session;
    bool again = follow->asked;
    bool asked = follow->asking;

    follow->interrupted = false;
    follow->asked = true;
    follow_hide_question(follow);
    if (follow->options->view)
        return follow_detach(follow);
    if (asked)
        return follow_cancel(follow);
    if (session->err.live && isatty(STDIN_FILENO)) {
        follow->asking = true;
        follow_draw(follow);
        return false;
    }
    if (!follow->options->run)
        return follow_detach(follow);
    if (again)
        return follow_cancel(follow);
    session_say(session, "interrupted: once more cancels job %s", follow->options->job);
    return false;
}

/* Is there an answer at the terminal? Its end means 'd'. Returns false to go on. */
static bool follow_answer(struct follow *follow)
{
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    char answer[16] = "d";

    if (poll(&input, 1, 0) <= 0)
        return false;
    if (read(STDIN_FILENO, answer, sizeof(answer) - 1) < 0)
        answer[0] = 'd';
    follow_hide_question(follow);
    switch (answer[0]) {
    case 'd':
    case 'D': return follow_detach(follow);
    case 'c':
    case 'C': return follow_cancel(follow);
    default: return false;
    }
}

/* ---- the loop ---- */

static void follow_free(struct follow *follow)
{
    MAP_FOREACH(&follow->logs, item) {
        struct podlog *log = item->value;

        client_cancel(log->call);
        buf_done(&log->line);
        mem_free(log);
    }
    MAP_FOREACH(&follow->pods, item)
        object_unref(item->value);
    for (size_t i = 0; i < follow->bar_count; i++)
        buf_done(&follow->bars[i].line);
    map_done(&follow->logs);
    map_done(&follow->pods);
    object_unref(follow->job);
    live_done(&follow->live);
    buf_done(&follow->live.shown);
}

/* True when there is nothing more to wait for. */
static bool follow_step(struct follow *follow)
{
    _cleanup_(arena_done) struct arena arena = {0};
    bool busy = follow_logs_step(follow);
    struct str phase;
    int64_t now = clock_monotonic_ms();

    if (follow->interrupted && follow_interrupt(follow))
        return true;
    if (follow->asking && follow_answer(follow))
        return true;
    if (!follow->job_synced || !follow->pods_synced)
        return false;
    if (!follow->options->watch)
        return !busy;
    if (follow->job_gone || !follow->job)
        return true;
    phase = json_str_at(object_json(follow->job, &arena), "status.phase");
    if (!phase_is_final(phase)) {
        follow_draw(follow);
        return false;
    }
    if (follow->ended_ms == 0) {
        follow->ended_ms = now;
        MAP_FOREACH(&follow->logs, item)
            ((struct podlog *)item->value)->ended = true;
    }
    return !busy || now - follow->ended_ms > LOGS_END_LIMIT_MS;
}

/* A rank that was asked for has not printed a line, or there is none of that number. */
static int follow_say_nothing(const struct follow *follow, struct err *err)
{
    _cleanup_(arena_done) struct arena arena = {0};
    const struct json *tree = object_json(follow->job, &arena);
    int64_t nodes = json_i64_or(json_at(tree, "status.numNodes"), 0);
    int64_t each = json_i64_or(json_at(tree, "spec.nprocPerNode"), 0);
    int64_t ranks = each ? each * nodes : json_i64_or(json_at(tree, "status.numGPUs"), 0);
    long long rank = (long long)follow->options->rank;

    if (ranks < nodes) /* a pod without GPUs has one */
        ranks = nodes;
    if (ranks > 0 && rank >= ranks)
        return err_set(err, -EINVAL, "job %s has %lld ranks, 0 to %lld, and no rank %lld",
                       follow->options->job, (long long)ranks, (long long)ranks - 1, rank);
    session_say(follow->session, "rank %lld of job %s has printed nothing", rank,
                follow->options->job);
    return 0;
}

int follow_job(struct session *session, const struct follow_options *options, struct err *err)
{
    struct follow follow = {.session = session, .options = options};
    struct str selector = str_printf(&session->arena, WORKER_LABEL "=%s", options->job);
    struct api_watch *jobs;
    struct api_watch *pods;
    uv_signal_t interrupt;
    struct err why = {0};
    int status = 0;

    /* A watch that is refused is tried again for ever. */
    if (session_get(session, &kind_torchrunjob, options->job, &follow.job, &why) < 0 &&
        (why.http_status == 401 || why.http_status == 403))
        return err_set(err, -EACCES, "%s", why.text);
    follow.live.term = &session->err;
    jobs = api_watch(
        session->api,
        &(struct api_watch_request){
            .kind = &kind_torchrunjob,
            .ns = str_from(session->config.ns),
            .field_selector = str_printf(&session->arena, "metadata.name=%s", options->job)},
        on_job, &follow);
    pods = api_watch(session->api,
                     &(struct api_watch_request){.kind = &kind_pod,
                                                 .ns = str_from(session->config.ns),
                                                 .label_selector = selector},
                     on_pod, &follow);
    (void)uv_signal_init(&session->loop, &interrupt);
    interrupt.data = &follow;
    (void)uv_signal_start(&interrupt, on_interrupt, SIGINT);
    while (!follow_step(&follow))
        session_turn(session, 100);
    follow_hide_question(&follow);
    (void)uv_signal_stop(&interrupt);
    uv_close((uv_handle_t *)&interrupt, NULL);
    session_turn(session, 0);
    api_watch_stop(session->api, jobs);
    api_watch_stop(session->api, pods);
    if (follow.cancelled) /* by ourselves: that the job is gone is no news */
        status = options->run ? STATUS_INTERRUPTED : 0;
    else if (!follow.job && !follow.detached)
        status = err_set(err, -ENOENT, "job %s does not exist in namespace %s", options->job,
                         session->config.ns);
    else if (follow.job_gone)
        status = err_set(err, -ENOENT, "job %s was deleted", options->job);
    else if (options->watch && !follow.detached)
        status = follow_end(&follow);
    else if (follow.refused)
        status = 1;
    else if (options->rank >= 0 && !follow.shown_any && !follow.detached)
        status = follow_say_nothing(&follow, err);
    follow_free(&follow);
    return status;
}
