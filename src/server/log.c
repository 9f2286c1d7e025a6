#include "api/object.h"
#include "api/podio.h"
#include "base/arena.h"
#include "base/base64.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "base/time.h"
#include "http/server.h"
#include "http/websocket.h"
#include "http1/parse.h"
#include "server/authz.h"
#include "server/request.h"
#include "server/upgrade.h"
#include "tool/clock.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* pods/log: the agent's log stream as a chunked text, or as messages of a WebSocket; pods/results: what a job wrote into its
 * folder, and pods/stacks: what its processes are doing, the same way. The head goes out with the first bytes, so that a failure before them is a
 * proper error. */

#define PENDING_BYTES_MAX ((size_t)1 << 20)

struct log_stream {
    struct request *request;
    struct podio_stream *podio;
    const char *type;
    struct podio_log_request wanted; /* of pods/log */
    bool websocket;                  /* what is said goes out in messages */
    bool base64;                     /* as text */
    bool begun;
    bool paused;
    bool over;
};

static void begin(struct log_stream *log)
{
    if (log->begun)
        return;
    log->begun = true;
    if (!log->websocket)
        http_begin(log->request->x, 200, log->type);
}

static void send_message(struct log_stream *log, struct str bytes)
{
    _cleanup_(buf_done) struct buf frame = {0};
    _cleanup_(arena_done) struct arena arena = {0};

    if (log->base64)
        websocket_write(&frame, WEBSOCKET_TEXT, -1, base64_encode(&arena, bytes));
    else
        websocket_write(&frame, WEBSOCKET_BINARY, -1, bytes);
    http_write(log->request->x, buf_str(&frame));
}

/* 1000: all was said; 1011: it broke off. */
static void send_close(struct log_stream *log, uint16_t code)
{
    _cleanup_(buf_done) struct buf frame = {0};

    websocket_write_close(&frame, code);
    http_write(log->request->x, buf_str(&frame));
    http_end(log->request->x);
}

static void on_data(void *user, int channel, struct str bytes)
{
    struct log_stream *log = user;
    struct podio *podio = log->request->server->podio;

    (void)channel;
    begin(log);
    if (log->websocket)
        send_message(log, bytes);
    else
        http_write(log->request->x, bytes);
    if (!log->paused && log->podio && http_pending(log->request->x) > PENDING_BYTES_MAX) {
        log->paused = true;
        podio->ops->pause(log->podio, true);
    }
}

static void finish(struct log_stream *log)
{
    if (log->over)
        return;
    log->over = true;
    if (log->podio)
        log->request->server->podio->ops->close(log->podio);
}

static void on_end(void *user, int exit_code, const struct err *err)
{
    struct log_stream *log = user;
    struct request *request = log->request;

    (void)exit_code;
    finish(log);
    if (log->websocket) {
        send_close(log, err ? 1011 : 1000);
        return;
    }
    if (err && !log->begun) {
        int code = err->http_status ? err->http_status : 400;
        request_fail(request, code, status_reason(code), "%s", err->text);
        return;
    }
    begin(log);
    if (err)
        http_abort(request->x);
    else
        http_end(request->x);
}

static void on_drain(struct http_exchange *x)
{
    struct log_stream *log = ((struct request *)x->user)->stream;

    if (log->paused && !log->over) {
        log->paused = false;
        log->request->server->podio->ops->pause(log->podio, false);
    }
}

static void on_close(struct http_exchange *x)
{
    finish(((struct request *)x->user)->stream);
}

static int64_t number_or(struct request *request, const char *key, int64_t otherwise)
{
    int64_t value = otherwise;

    (void)str_to_i64(http_query(request_arena(request), request->x->head.query, key), &value);
    return value;
}

static struct log_stream *stream_new(struct request *request, const char *type)
{
    struct log_stream *log = ARENA_NEW(request_arena(request), struct log_stream);

    log->request = request;
    log->type = type;
    request->stream = log;
    request->x->on_drain = on_drain;
    request->x->on_close = on_close;
    return log;
}

static void log_start(struct log_stream *log)
{
    struct podio *podio = log->request->server->podio;

    log->podio = podio->ops->logs(
        podio, &log->wanted, &(struct podio_reader){.data = on_data, .end = on_end, .user = log});
}

static void log_begin_websocket(struct request *request, const char *protocol)
{
    struct log_stream *log = request->stream;

    log->websocket = true;
    log->base64 = str_starts(str_from(protocol), STR("base64."));
    log_start(log);
}

/* A reader has nothing to say; that it closes shows when its connection ends. */
static void on_input(struct http_exchange *x, struct str bytes)
{
    (void)x;
    (void)bytes;
}

static void log_upgrade(struct request *request)
{
    static const char *const protocols[] = {"binary.k8s.io", "base64.binary.k8s.io", NULL};
    static const struct upgrade upgrade = {.websocket_protocols = protocols,
                                           .spdy_protocols = protocols,
                                           .websocket_default = "binary.k8s.io",
                                           .begin = log_begin_websocket,
                                           .on_data = on_input,
                                           .on_drain = on_drain,
                                           .on_close = on_close};

    upgrade_pod(request, &upgrade);
}

static struct podio_log_request log_wanted(struct request *request)
{
    struct arena *arena = request_arena(request);
    struct str query = request->x->head.query;
    struct podio_log_request wanted = {
        .ns = request->route.ns,
        .pod = request->route.name,
        .container = http_query(arena, query, "container"),
        .generation = http_query(arena, query, "generation"),
        .follow = http_query_bool(query, "follow"),
        .previous = http_query_bool(query, "previous"),
        .timestamps = http_query_bool(query, "timestamps"),
        .tail_lines = number_or(request, "tailLines", -1),
        .limit_bytes = number_or(request, "limitBytes", -1),
    };
    int64_t seconds = number_or(request, "sinceSeconds", -1);

    if (seconds >= 0)
        wanted.since_ms = clock_now_ms() - seconds * 1000;
    else
        (void)time_parse(http_query(arena, query, "sinceTime"), &wanted.since_ms);
    return wanted;
}

void pod_log(struct request *request)
{
    struct podio_log_request wanted = log_wanted(request);

    if (!request->server->podio) {
        request_fail(request, 503, "ServiceUnavailable", "no node agent runs here");
        return;
    }
    const struct object *pod =
        authz_pod(request->server->authz, request->route.ns, request->route.name);
    bool other = pod && wanted.generation.len &&
                 !str_eq(object_label(pod, "torchrun.ai/generation"), wanted.generation);
    /* One that waits for a node has said nothing yet. */
    if (pod && !other &&
        !json_str_at(object_json(pod, request_arena(request)), "spec.nodeName").len) {
        http_reply(request->x, 200, "text/plain", STR(""));
        return;
    }
    struct log_stream *log = stream_new(request, "text/plain");
    log->wanted = wanted;
    if (upgrade_is_websocket(request))
        log_upgrade(request);
    else
        log_start(log);
}

void pod_results(struct request *request)
{
    struct arena *arena = request_arena(request);
    struct str query = request->x->head.query;
    struct podio *podio = request->server->podio;
    struct podio_results_request results = {
        .ns = request->route.ns,
        .pod = request->route.name,
        .container = http_query(arena, query, "container"),
        .folder = http_query(arena, query, "folder"),
        .path = http_query(arena, query, "path"),
        .generation = http_query(arena, query, "generation"),
        .job_uid = http_query(arena, query, "job"),
        .list = http_query_bool(query, "list"),
        .curves = http_query_bool(query, "curves"),
    };

    if (!podio) {
        request_fail(request, 503, "ServiceUnavailable", "no node agent runs here");
        return;
    }
    struct log_stream *log =
        stream_new(request, results.curves ? "application/json" : "application/octet-stream");
    log->podio = podio->ops->results(
        podio, &results, &(struct podio_reader){.data = on_data, .end = on_end, .user = log});
}

void pod_stack_traces(struct request *request)
{
    struct podio *podio = request->server->podio;
    struct podio_stacks_request stacks = {
        .ns = request->route.ns,
        .pod = request->route.name,
        .container = http_query(request_arena(request), request->x->head.query, "container"),
    };

    if (!podio || !podio->ops->stacks) {
        request_fail(request, 503, "ServiceUnavailable", "no node agent runs here");
        return;
    }
    struct log_stream *log = stream_new(request, "application/json");
    log->podio = podio->ops->stacks(
        podio, &stacks, &(struct podio_reader){.data = on_data, .end = on_end, .user = log});
}
