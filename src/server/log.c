#include "api/object.h"
#include "api/podio.h"
#include "base/arena.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "base/time.h"
#include "http/server.h"
#include "http1/parse.h"
#include "server/authz.h"
#include "server/request.h"
#include "tool/clock.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* pods/log: the agent's log stream as a chunked text; pods/results: what a job wrote into its
 * folder, and pods/stacks: what its processes are doing, the same way. The head goes out with the first bytes, so that a failure before them is a
 * proper error. */

#define PENDING_BYTES_MAX ((size_t)1 << 20)

struct log_stream {
    struct request *request;
    struct podio_stream *podio;
    const char *type;
    bool begun;
    bool paused;
    bool over;
};

static void begin(struct log_stream *log)
{
    if (log->begun)
        return;
    log->begun = true;
    http_begin(log->request->x, 200, log->type);
}

static void on_data(void *user, int channel, struct str bytes)
{
    struct log_stream *log = user;
    struct podio *podio = log->request->server->podio;

    (void)channel;
    begin(log);
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

void pod_log(struct request *request)
{
    struct arena *arena = request_arena(request);
    struct str query = request->x->head.query;
    struct podio *podio = request->server->podio;
    struct podio_log_request log_request = {
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

    if (!podio) {
        request_fail(request, 503, "ServiceUnavailable", "no node agent runs here");
        return;
    }
    const struct object *pod =
        authz_pod(request->server->authz, request->route.ns, request->route.name);
    bool other = pod && log_request.generation.len &&
                 !str_eq(object_label(pod, "torchrun.ai/generation"), log_request.generation);
    /* One that waits for a node has said nothing yet. */
    if (pod && !other && !json_str_at(object_json(pod, arena), "spec.nodeName").len) {
        http_reply(request->x, 200, "text/plain", STR(""));
        return;
    }
    if (seconds >= 0)
        log_request.since_ms = clock_now_ms() - seconds * 1000;
    else
        (void)time_parse(http_query(arena, query, "sinceTime"), &log_request.since_ms);
    struct log_stream *log = stream_new(request, "text/plain");
    log->podio = podio->ops->logs(
        podio, &log_request, &(struct podio_reader){.data = on_data, .end = on_end, .user = log});
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
        .list = http_query_bool(query, "list"),
    };

    if (!podio) {
        request_fail(request, 503, "ServiceUnavailable", "no node agent runs here");
        return;
    }
    struct log_stream *log = stream_new(request, "application/octet-stream");
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
