#include "api/api.h"
#include "api/kind.h"
#include "api/object.h"
#include "api/pod.h"
#include "api/podio.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "http/server.h"
#include "http/spdy.h"
#include "http/websocket.h"
#include "http1/parse.h"
#include "server/request.h"
#include "server/upgrade.h"
#include "tool/timer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* pods/exec and pods/attach: five channels between a client and a process in a pod, over WebSocket
 * (one message a piece, first byte the channel) or SPDY (one stream a channel). The command starts
 * when the client has opened all its channels; its end is a Status on the error channel.
 *
 * A WebSocket has no channels to open, but kubectl has: until 1.34 it throws away what comes for one
 * that it has not made yet, without an error. It makes them when it begins to read, so we ping it
 * first, and the command starts with the first message from the client, its answer or any other.
 *
 * Text messages are as good as binary ones, as in Kubernetes: the Python client sends stdin so. In
 * the base64 protocols a message is the channel's digit and base64. Whatever a client makes us
 * answer waits in its connection; while that is much, we do not read on. */

#define COMMAND_WORDS_MAX 1024
#define PENDING_BYTES_MAX ((size_t)1 << 20)
#define SILENCE_MS        2000 /* a client that answers no ping has its command after that */

enum channel {
    CHANNEL_STDIN,
    CHANNEL_STDOUT,
    CHANNEL_STDERR,
    CHANNEL_ERROR,
    CHANNEL_RESIZE,
    CHANNELS,
};

static const char *const channel_names[CHANNELS] = {"stdin", "stdout", "stderr", "error", "resize"};

struct exec {
    struct request *request;
    struct http_exchange *x;
    struct podio_exec_request wanted;
    struct podio_stream *podio;
    struct websocket ws;
    struct spdy *spdy;     /* NULL: WebSocket */
    struct timer *silence; /* WebSocket: nothing has come from the client; NULL: something has */
    struct buf in;
    bool uses[CHANNELS]; /* asked for by the client */
    uint32_t streams[CHANNELS];
    bool base64;         /* WebSocket messages are text */
    bool json_status;    /* version 4 and later */
    bool close_messages; /* version 5 */
    bool started;
    bool paused;   /* the client reads too slowly: the pod is not read */
    bool flooded;  /* so it is, and what it asks for is not answered */
    bool pod_full; /* the pod reads too slowly */
    bool over;
};

static void release(struct exec *exec)
{
    if (exec->over)
        return;
    exec->over = true;
    if (exec->podio)
        exec->request->server->podio->ops->close(exec->podio);
    timer_free(exec->silence);
    exec->silence = NULL;
    spdy_free(exec->spdy);
    exec->spdy = NULL;
    websocket_done(&exec->ws);
    buf_done(&exec->in);
}

static void send_channel(struct exec *exec, enum channel channel, struct str bytes, bool fin)
{
    _cleanup_(buf_done) struct buf out = {0};

    if (exec->spdy) {
        if (exec->streams[channel])
            spdy_write_data(&out, exec->streams[channel], fin, bytes);
    } else if (bytes.len) {
        websocket_write_channel(&out, exec->base64, (unsigned)channel, bytes);
    }
    http_write(exec->x, buf_str(&out));
}

/* The client's input stays in the connection, so that the client waits. */
static void update_input(struct exec *exec)
{
    http_pause(exec->x, exec->pod_full || exec->flooded);
}

/* What a client asked for at once, such as the answer to a ping. */
static void answer(struct exec *exec, const struct buf *out)
{
    http_write(exec->x, buf_str(out));
    if (!exec->flooded && http_pending(exec->x) > PENDING_BYTES_MAX) {
        exec->flooded = true;
        update_input(exec);
    }
}

static void finish(struct exec *exec, struct str status)
{
    _cleanup_(buf_done) struct buf out = {0};

    if (exec->over)
        return;
    if (exec->uses[CHANNEL_STDOUT])
        send_channel(exec, CHANNEL_STDOUT, STR(""), true);
    if (exec->uses[CHANNEL_STDERR])
        send_channel(exec, CHANNEL_STDERR, STR(""), true);
    send_channel(exec, CHANNEL_ERROR, status, true);
    if (!exec->spdy) {
        websocket_write_close(&out, 1000);
        http_write(exec->x, buf_str(&out));
    }
    release(exec);
    http_pause(exec->x, false); /* what nobody will read is not in the way of the end */
    http_end(exec->x);
}

/* ---- from the pod ---- */
static void on_data(void *user, int channel, struct str bytes)
{
    struct exec *exec = user;

    send_channel(exec, channel == 2 ? CHANNEL_STDERR : CHANNEL_STDOUT, bytes, false);
    if (!exec->paused && exec->podio && http_pending(exec->x) > PENDING_BYTES_MAX) {
        exec->paused = true;
        exec->request->server->podio->ops->pause(exec->podio, true);
    }
}

static void on_full(void *user, bool full)
{
    struct exec *exec = user;

    exec->pod_full = full;
    exec->request->held = full ? PENDING_BYTES_MAX : 0;
    update_input(exec);
}

static void on_end(void *user, int exit_code, const struct err *err)
{
    struct exec *exec = user;
    _cleanup_(buf_done) struct buf status = {0};

    if (err) {
        if (exec->json_status) {
            buf_add(&status, STR("{\"metadata\":{},\"status\":\"Failure\",\"message\":"));
            json_write_string(&status, str_from(err->text));
            buf_add(&status, STR(",\"reason\":\"InternalError\",\"code\":500}"));
        } else {
            buf_add(&status, str_from(err->text));
        }
    } else if (exit_code == 0) {
        if (exec->json_status)
            buf_add(&status, STR("{\"metadata\":{},\"status\":\"Success\"}"));
    } else if (exec->json_status) {
        buf_addf(&status,
                 "{\"metadata\":{},\"status\":\"Failure\",\"message\":\"command terminated with "
                 "non-zero exit code: exit status %d\",\"reason\":\"NonZeroExitCode\",\"details\":{"
                 "\"causes\":[{\"reason\":\"ExitCode\",\"message\":\"%d\"}]}}",
                 exit_code, exit_code);
    } else {
        buf_addf(&status, "command terminated with exit code %d", exit_code);
    }
    finish(exec, buf_str(&status));
}

static void start(struct exec *exec)
{
    struct podio *podio = exec->request->server->podio;

    exec->started = true;
    exec->podio = podio->ops->exec(
        podio, &exec->wanted,
        &(struct podio_reader){.data = on_data, .full = on_full, .end = on_end, .user = exec});
}

/* ---- WebSocket: the client shows that it reads ---- */
static void on_ready(void *user)
{
    struct exec *exec = user;

    timer_free(exec->silence);
    exec->silence = NULL;
    if (!exec->started)
        start(exec);
}

static void ask_ready(struct exec *exec)
{
    _cleanup_(buf_done) struct buf out = {0};

    websocket_write(&out, WEBSOCKET_PING, -1, STR("ready"));
    http_write(exec->x, buf_str(&out));
    exec->silence = timer_new(exec->request->server->loop, exec);
    timer_in(exec->silence, SILENCE_MS, on_ready);
}

/* ---- from the client ---- */
static void resize(struct exec *exec, struct str text)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct json *root = NULL;

    if (!exec->podio || json_parse(&arena, str_trim(text), &root, NULL) < 0)
        return;
    int64_t width = json_i64_or(json_get(root, "Width"), 0);
    int64_t height = json_i64_or(json_get(root, "Height"), 0);
    if (width > 0 && width <= UINT16_MAX && height > 0 && height <= UINT16_MAX)
        exec->request->server->podio->ops->resize(exec->podio, (uint16_t)width, (uint16_t)height);
}

static void receive(struct exec *exec, enum channel channel, struct str bytes, bool fin)
{
    struct podio *podio = exec->request->server->podio;

    if (!exec->podio || exec->over)
        return;
    if (channel == CHANNEL_STDIN && exec->uses[CHANNEL_STDIN]) {
        if (bytes.len)
            podio->ops->write(exec->podio, bytes);
        if (fin)
            podio->ops->write(exec->podio, STR(""));
    } else if (channel == CHANNEL_RESIZE) {
        resize(exec, bytes);
    }
}

static void protocol_error(struct exec *exec)
{
    release(exec);
    http_abort(exec->x);
}

static void take_message(struct exec *exec, struct str data)
{
    _cleanup_(arena_done) struct arena arena = {0};
    unsigned channel = 0;

    if (!websocket_take_channel(&arena, exec->base64, data, &channel, &data))
        return;
    if (channel == WEBSOCKET_CHANNEL_CLOSE && exec->close_messages && data.len == 1)
        receive(exec, (enum channel)(unsigned char)data.p[0], STR(""), true);
    else if (channel < CHANNELS)
        receive(exec, (enum channel)channel, data, false);
}

static void websocket_input(struct exec *exec)
{
    struct websocket_message message;
    int r = 0;

    while (!exec->over && (r = websocket_next(&exec->ws, &exec->in, &message)) > 0) {
        _cleanup_(buf_done) struct buf out = {0};

        if (message.opcode != WEBSOCKET_CLOSE)
            on_ready(exec);
        if (message.opcode == WEBSOCKET_PING) {
            websocket_write(&out, WEBSOCKET_PONG, -1, message.data);
            answer(exec, &out);
        } else if (message.opcode == WEBSOCKET_CLOSE) {
            websocket_write_close(&out, 1000);
            http_write(exec->x, buf_str(&out));
            release(exec);
            http_end(exec->x);
        } else if (message.opcode != WEBSOCKET_PONG) {
            take_message(exec, message.data);
        }
    }
    if (r < 0)
        protocol_error(exec);
}

static bool all_open(const struct exec *exec)
{
    for (int i = 0; i < CHANNELS; i++)
        if (exec->uses[i] && !exec->streams[i])
            return false;
    return true;
}

static void open_stream(struct exec *exec, const struct spdy_frame *frame)
{
    _cleanup_(buf_done) struct buf out = {0};
    struct str type = spdy_header(frame, "streamtype");

    for (int i = 0; i < CHANNELS; i++)
        if (str_is(type, channel_names[i]))
            exec->streams[i] = frame->stream;
    spdy_write_reply(exec->spdy, &out, frame->stream);
    answer(exec, &out);
    if (!exec->started && all_open(exec))
        start(exec);
}

static void spdy_input(struct exec *exec)
{
    struct spdy_frame frame;
    int r = 0;

    while (!exec->over && (r = spdy_next(exec->spdy, &exec->in, &frame)) > 0) {
        if (frame.type == SPDY_SYN_STREAM) {
            open_stream(exec, &frame);
        } else if (frame.type == SPDY_PING) {
            _cleanup_(buf_done) struct buf out = {0};
            spdy_write_ping(&out, frame.ping);
            answer(exec, &out);
        } else if (frame.type == SPDY_DATA) {
            for (int i = 0; i < CHANNELS; i++)
                if (exec->streams[i] == frame.stream)
                    receive(exec, (enum channel)i, frame.data, frame.fin);
        } else if (frame.type == SPDY_GOAWAY) {
            release(exec);
            http_end(exec->x);
        }
    }
    if (r < 0)
        protocol_error(exec);
}

static void on_input(struct http_exchange *x, struct str bytes)
{
    struct exec *exec = ((struct request *)x->user)->stream;

    if (exec->over)
        return;
    buf_add(&exec->in, bytes);
    if (exec->spdy)
        spdy_input(exec);
    else
        websocket_input(exec);
    if (!exec->over && (!request_may_keep(exec->request, exec->in.len + exec->ws.message.len) ||
                        (exec->pod_full && !request_has_room(exec->request))))
        protocol_error(exec);
}

static void on_drain(struct http_exchange *x)
{
    struct exec *exec = ((struct request *)x->user)->stream;

    if (exec->over)
        return;
    if (exec->paused) {
        exec->paused = false;
        exec->request->server->podio->ops->pause(exec->podio, false);
    }
    if (exec->flooded) {
        exec->flooded = false;
        update_input(exec);
    }
}

static void on_close(struct http_exchange *x)
{
    release(((struct request *)x->user)->stream);
}

/* ---- the beginning ---- */
static const char *const websocket_protocols[] = {"v5.channel.k8s.io",        "v4.channel.k8s.io",
                                                  "v4.base64.channel.k8s.io", "channel.k8s.io",
                                                  "base64.channel.k8s.io",    NULL};
static const char *const spdy_protocols[] = {"v4.channel.k8s.io", "v3.channel.k8s.io",
                                             "v2.channel.k8s.io", "channel.k8s.io", NULL};

static bool check_pod(struct request *request, const struct json *pod)
{
    const struct exec *exec = request->stream;
    struct str phase = json_str_at(pod, "status.phase");
    size_t containers = json_count(json_at(pod, "spec.containers"));

    if (pod_is_over(pod)) {
        request_fail(request, 400, "BadRequest",
                     "cannot exec into a container in a completed pod; current phase is " STR_FMT,
                     STR_ARG(phase));
        return false;
    }
    if (!exec->wanted.container.len && containers > 1) {
        request_fail(request, 400, "BadRequest",
                     "a container name must be specified for pod " STR_FMT
                     ", which has %zu of them",
                     STR_ARG(request->route.name), containers);
        return false;
    }
    return true;
}

static void begin(struct request *request, const char *protocol)
{
    struct exec *exec = request->stream;
    bool websocket = upgrade_is_websocket(request);

    exec->json_status =
        str_starts(str_from(protocol), STR("v4.")) || str_starts(str_from(protocol), STR("v5."));
    exec->close_messages = str_starts(str_from(protocol), STR("v5."));
    exec->base64 = websocket && str_contains(str_from(protocol), STR("base64."));
    if (websocket)
        ask_ready(exec);
    else
        exec->spdy = spdy_new();
}

static bool take_query(struct exec *exec)
{
    struct request *request = exec->request;
    struct arena *arena = request_arena(request);
    struct str query = request->x->head.query;
    struct str *words = ARENA_ARRAY(arena, struct str, COMMAND_WORDS_MAX);
    bool attach = str_is(request->route.subresource, "attach");
    size_t count = http_query_all(arena, query, "command", words, COMMAND_WORDS_MAX);

    exec->wanted = (struct podio_exec_request){
        .ns = request->route.ns,
        .pod = request->route.name,
        .container = http_query(arena, query, "container"),
        .command = words,
        .command_count = attach ? 0 : count,
        .attach = attach,
        .tty = http_query_bool(query, "tty"),
        .stdin_open = http_query_bool(query, "stdin"),
    };
    exec->uses[CHANNEL_ERROR] = true;
    exec->uses[CHANNEL_STDIN] = exec->wanted.stdin_open;
    exec->uses[CHANNEL_STDOUT] = http_query_bool(query, "stdout");
    exec->uses[CHANNEL_STDERR] = http_query_bool(query, "stderr") && !exec->wanted.tty;
    exec->uses[CHANNEL_RESIZE] = exec->wanted.tty;
    if (!attach && (!count || count > COMMAND_WORDS_MAX)) {
        request_fail(request, 400, "BadRequest",
                     "command: you must specify one, of at most %d words", COMMAND_WORDS_MAX);
        return false;
    }
    return true;
}

void exec_handle(struct request *request)
{
    static const struct upgrade upgrade = {.websocket_protocols = websocket_protocols,
                                           .spdy_protocols = spdy_protocols,
                                           .websocket_default = "channel.k8s.io",
                                           .check = check_pod,
                                           .begin = begin,
                                           .on_data = on_input,
                                           .on_drain = on_drain,
                                           .on_close = on_close};
    struct exec *exec = ARENA_NEW(request_arena(request), struct exec);

    exec->request = request;
    exec->x = request->x;
    request->stream = exec;
    if (take_query(exec))
        upgrade_pod(request, &upgrade);
}
