#include "api/api.h"
#include "api/kind.h"
#include "api/podio.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "http/server.h"
#include "http/spdy.h"
#include "http/websocket.h"
#include "http1/parse.h"
#include "server/fair.h"
#include "server/request.h"
#include "server/upgrade.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <unistd.h>
#include <uv.h>

/* pods/portforward: a SPDY connection (raw, or cut into WebSocket messages) that carries any number
 * of TCP connections to ports of a pod. Each is a pair of streams with one request id: "error",
 * which stays empty unless something fails, and "data".
 *
 * Or plain WebSocket messages, as the Python client has them: the query names the ports, the first
 * one has channels 0 (data) and 1 (error), the next 2 and 3; each begins with the port's number in
 * two bytes, the lower first. There is one connection a port, made at once, and when the last of
 * them has ended so has all. */

#define PAIRS_MAX         256
#define WAITING_BYTES_MAX ((size_t)1 << 20)
#define READ_BYTES        ((size_t)64 << 10)
#define PORTS_MAX         64 /* of the query: twice as many channels, each named by a byte */
#define TUNNEL            "SPDY/3.1+portforward.k8s.io"

/* What a connection counts with among those of its user: it takes a descriptor as any stream. */
static const struct fair_load one_stream = {.streams = 1};

struct forward;

struct pair {
    struct forward *forward; /* NULL once it is gone */
    struct pair *next;
    uint32_t error_stream;
    uint32_t data_stream;
    uint64_t request_id;
    uint16_t port;
    int fd; /* -1: not connected */
    int events;
    uv_poll_t poll;
    struct buf out; /* towards the pod */
    bool counted;   /* as one of the user's streams */
    bool connected;
    bool client_done;
    bool pod_done;
};

struct forward {
    struct request *request;
    struct http_exchange *x;
    struct spdy *spdy;
    bool websocket;
    bool channels; /* no SPDY in its messages: streams are channels */
    bool base64;   /* of channels */
    uint16_t ports[PORTS_MAX];
    size_t port_count;
    struct websocket ws;
    struct buf raw; /* WebSocket frames */
    struct buf in;  /* SPDY frames */
    struct pair *pairs;
    size_t pair_count;
    bool paused;       /* the client reads too slowly: pods are not read */
    bool flooded;      /* so it does, and what it asks for is not answered */
    bool input_paused; /* a pod reads too slowly, or it is flooded: the client is not read */
    bool begun;
    bool over;
};

static void send_frames(struct forward *forward, const struct buf *frames)
{
    _cleanup_(buf_done) struct buf out = {0};

    if (!forward->websocket) {
        http_write(forward->x, buf_str(frames));
        return;
    }
    websocket_write(&out, WEBSOCKET_BINARY, -1, buf_str(frames));
    http_write(forward->x, buf_str(&out));
}

static void send_data(struct forward *forward, uint32_t stream, bool fin, struct str bytes)
{
    _cleanup_(buf_done) struct buf frames = {0};

    if (forward->channels) {
        if (bytes.len)
            websocket_write_channel(&frames, forward->base64, stream, bytes);
        http_write(forward->x, buf_str(&frames));
        return;
    }
    spdy_write_data(&frames, stream, fin, bytes);
    send_frames(forward, &frames);
}

/* The client waits while its connections have much that pods have not taken, or its user has in all
 * of them, or while it does not take our answers itself. */
static void update_input(struct forward *forward)
{
    size_t most = forward->input_paused ? WAITING_BYTES_MAX / 2 : WAITING_BYTES_MAX;
    size_t waiting = 0;

    for (const struct pair *pair = forward->pairs; pair; pair = pair->next)
        waiting += pair->out.len;
    forward->request->held = waiting;
    bool room = request_has_room(forward->request);
    forward->input_paused = forward->flooded || waiting > most || (waiting && !room);
    http_pause(forward->x, forward->input_paused);
}

/* After an answer to something that a client may ask as often as it likes. */
static void check_flood(struct forward *forward)
{
    forward->flooded |= http_pending(forward->x) > WAITING_BYTES_MAX;
    update_input(forward);
}

/* ---- one TCP connection ---- */
static void on_pair_closed(uv_handle_t *handle)
{
    struct pair *pair = handle->data;

    (void)close(pair->fd);
    buf_done(&pair->out);
    mem_free(pair);
}

static void release(struct forward *forward);

static void pair_close(struct pair *pair)
{
    struct forward *forward = pair->forward;

    if (!forward)
        return;
    for (struct pair **at = &forward->pairs; *at; at = &(*at)->next)
        if (*at == pair) {
            *at = pair->next;
            break;
        }
    forward->pair_count--;
    pair->forward = NULL;
    if (pair->counted)
        fair_leave(&forward->request->server->fair, forward->request->load_user, &one_stream);
    update_input(forward); /* it may have been the one that was waited for */
    if (pair->fd >= 0) {
        (void)uv_poll_stop(&pair->poll);
        uv_close((uv_handle_t *)&pair->poll, on_pair_closed);
    } else {
        buf_done(&pair->out);
        mem_free(pair);
    }
}

/* With channels nothing new can begin. */
static void end_when_done(struct forward *forward)
{
    _cleanup_(buf_done) struct buf out = {0};

    if (forward->pairs || forward->over)
        return;
    websocket_write_close(&out, 1000);
    http_write(forward->x, buf_str(&out));
    release(forward);
    http_pause(forward->x, false);
    http_end(forward->x);
}

/* The pod's side has ended: FIN data, then FIN error (with words, if it failed). */
static void pair_finish(struct pair *pair, const char *why)
{
    struct forward *forward = pair->forward;

    if (!pair->pod_done)
        send_data(forward, pair->data_stream, true, STR(""));
    send_data(forward, pair->error_stream, true, str_from(why ? why : ""));
    pair_close(pair);
    if (forward->channels && forward->begun)
        end_when_done(forward);
}

static void on_poll(uv_poll_t *handle, int status, int events);

static void poll_update(struct pair *pair)
{
    int events = 0;

    if (!pair->forward || pair->fd < 0)
        return;
    if (!pair->forward->paused && !pair->pod_done)
        events |= UV_READABLE;
    if (pair->out.len || !pair->connected)
        events |= UV_WRITABLE;
    if (events == pair->events)
        return;
    pair->events = events;
    if (events)
        (void)uv_poll_start(&pair->poll, events, on_poll);
    else
        (void)uv_poll_stop(&pair->poll);
}

static void pair_send(struct pair *pair)
{
    while (pair->out.len) {
        ssize_t sent = send(pair->fd, pair->out.p, pair->out.len, MSG_NOSIGNAL);

        if (sent < 0 && (errno == EAGAIN || errno == EINTR))
            break;
        if (sent < 0) {
            pair_finish(pair, uv_strerror(-errno));
            return;
        }
        buf_consume(&pair->out, (size_t)sent);
    }
    if (!pair->out.len && pair->client_done && pair->connected)
        (void)shutdown(pair->fd, SHUT_WR);
    update_input(pair->forward);
    poll_update(pair);
}

static void pair_receive(struct pair *pair)
{
    struct forward *forward = pair->forward;
    char bytes[READ_BYTES];
    ssize_t count = recv(pair->fd, bytes, sizeof(bytes), 0);

    if (count < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (count < 0) {
        pair_finish(pair, uv_strerror(-errno));
        return;
    }
    if (count == 0) {
        pair_finish(pair, NULL);
        return;
    }
    send_data(forward, pair->data_stream, false, (struct str){bytes, (size_t)count});
    if (http_pending(forward->x) > WAITING_BYTES_MAX) {
        forward->paused = true;
        for (struct pair *other = forward->pairs; other; other = other->next)
            poll_update(other);
    }
}

static void on_poll(uv_poll_t *handle, int status, int events)
{
    struct pair *pair = handle->data;

    if (!pair->forward)
        return;
    if (status < 0) {
        pair_finish(pair, pod_socket_trouble(pair->fd, status));
        return;
    }
    if (events & UV_WRITABLE) {
        pair->connected = true;
        pair_send(pair);
    }
    if (pair->forward && (events & UV_READABLE))
        pair_receive(pair);
}

static void pair_connect(struct pair *pair)
{
    struct request *request = pair->forward->request;
    struct podio *podio = request->server->podio;
    struct fair *fair = &request->server->fair;
    struct err err = {0};
    const char *full =
        request->load_user.len ? fair_enter(fair, request->load_user, &one_stream) : NULL;

    if (full) {
        (void)err_set(&err, -EMFILE, "the user has %s, which is as much as one user may have",
                      full);
        pair_finish(pair, err.text);
        return;
    }
    pair->counted = request->load_user.len > 0;
    int fd = podio->ops->dial(podio, request->route.ns, request->route.name, pair->port, &err);

    if (fd < 0) {
        pair_finish(pair, err.text);
        return;
    }
    pair->fd = fd;
    pair->poll.data = pair;
    (void)uv_poll_init_socket(request->server->loop, &pair->poll, fd);
    pair_send(pair);
}

/* ---- the SPDY connection ---- */
static struct pair *find_pair(struct forward *forward, uint64_t request_id)
{
    for (struct pair *pair = forward->pairs; pair; pair = pair->next)
        if (pair->request_id == request_id)
            return pair;
    return NULL;
}

static struct pair *find_stream(struct forward *forward, uint32_t stream)
{
    for (struct pair *pair = forward->pairs; pair; pair = pair->next)
        if (pair->data_stream == stream)
            return pair;
    return NULL;
}

static struct pair *new_pair(struct forward *forward, uint64_t id, uint16_t port)
{
    struct pair *pair = MEM_NEW(struct pair);

    pair->forward = forward;
    pair->fd = -1;
    pair->request_id = id;
    pair->port = port;
    pair->next = forward->pairs;
    forward->pairs = pair;
    forward->pair_count++;
    return pair;
}

static void open_stream(struct forward *forward, const struct spdy_frame *frame)
{
    _cleanup_(buf_done) struct buf out = {0};
    struct str type = spdy_header(frame, "streamtype");
    uint64_t port = 0;
    uint64_t id = 0;
    bool valid = str_to_u64(spdy_header(frame, "port"), &port) && port > 0 && port <= UINT16_MAX;

    (void)str_to_u64(spdy_header(frame, "requestid"), &id);
    struct pair *pair = find_pair(forward, id);
    if (!valid || (!pair && forward->pair_count == PAIRS_MAX)) {
        spdy_write_reset(&out, frame->stream, 3); /* refused */
        send_frames(forward, &out);
        check_flood(forward);
        return;
    }
    spdy_write_reply(forward->spdy, &out, frame->stream);
    send_frames(forward, &out);
    check_flood(forward);
    if (!pair)
        pair = new_pair(forward, id, (uint16_t)port);
    if (str_is(type, "error"))
        pair->error_stream = frame->stream;
    else if (str_is(type, "data"))
        pair->data_stream = frame->stream;
    if (pair->error_stream && pair->data_stream && pair->fd < 0)
        pair_connect(pair);
}

static void take_data(struct forward *forward, uint32_t stream, struct str data, bool fin)
{
    struct pair *pair = find_stream(forward, stream);

    if (!pair || pair->fd < 0)
        return;
    buf_add(&pair->out, data);
    pair->client_done |= fin;
    pair_send(pair);
}

static void release(struct forward *forward)
{
    if (forward->over)
        return;
    forward->over = true;
    while (forward->pairs)
        pair_close(forward->pairs);
    spdy_free(forward->spdy);
    forward->spdy = NULL;
    websocket_done(&forward->ws);
    buf_done(&forward->raw);
    buf_done(&forward->in);
}

static void take_frames(struct forward *forward)
{
    struct spdy_frame frame;
    int r = 0;

    while (!forward->over && (r = spdy_next(forward->spdy, &forward->in, &frame)) > 0) {
        if (frame.type == SPDY_SYN_STREAM) {
            open_stream(forward, &frame);
        } else if (frame.type == SPDY_DATA) {
            take_data(forward, frame.stream, frame.data, frame.fin);
        } else if (frame.type == SPDY_RST_STREAM) {
            struct pair *pair = find_stream(forward, frame.stream);
            if (pair)
                pair_close(pair);
        } else if (frame.type == SPDY_PING) {
            _cleanup_(buf_done) struct buf out = {0};
            spdy_write_ping(&out, frame.ping);
            send_frames(forward, &out);
            check_flood(forward);
        } else if (frame.type == SPDY_GOAWAY) {
            release(forward);
            http_end(forward->x);
        }
    }
    if (r < 0) {
        release(forward);
        http_abort(forward->x);
    }
}

static void take_message(struct forward *forward, struct str data)
{
    _cleanup_(arena_done) struct arena arena = {0};
    unsigned channel = 0;

    if (!forward->channels) {
        buf_add(&forward->in, data);
        take_frames(forward);
    } else if (websocket_take_channel(&arena, forward->base64, data, &channel, &data)) {
        take_data(forward, channel, data, false);
    }
}

/* WebSocket messages carry the SPDY bytes, cut anywhere, or the bytes of a channel. Text is as good
 * as binary, as in Kubernetes. */
static void take_messages(struct forward *forward)
{
    struct websocket_message message;
    int r = 0;

    while (!forward->over && (r = websocket_next(&forward->ws, &forward->raw, &message)) > 0) {
        _cleanup_(buf_done) struct buf out = {0};

        if (message.opcode == WEBSOCKET_PING) {
            websocket_write(&out, WEBSOCKET_PONG, -1, message.data);
            http_write(forward->x, buf_str(&out));
            check_flood(forward);
        } else if (message.opcode == WEBSOCKET_CLOSE) {
            websocket_write_close(&out, 1000);
            http_write(forward->x, buf_str(&out));
            release(forward);
            http_end(forward->x);
        } else if (message.opcode != WEBSOCKET_PONG) {
            take_message(forward, message.data);
        }
    }
    if (r < 0) {
        release(forward);
        http_abort(forward->x);
    }
}

static void on_input(struct http_exchange *x, struct str bytes)
{
    struct forward *forward = ((struct request *)x->user)->stream;

    if (forward->over)
        return;
    buf_add(forward->websocket ? &forward->raw : &forward->in, bytes);
    if (forward->websocket)
        take_messages(forward);
    else
        take_frames(forward);
    if (forward->over || request_may_keep(forward->request, forward->raw.len + forward->in.len +
                                                                forward->ws.message.len))
        return;
    release(forward);
    http_abort(forward->x);
}

static void on_drain(struct http_exchange *x)
{
    struct forward *forward = ((struct request *)x->user)->stream;

    if (forward->over)
        return;
    forward->flooded = false;
    update_input(forward);
    if (!forward->paused)
        return;
    forward->paused = false;
    for (struct pair *pair = forward->pairs; pair; pair = pair->next)
        poll_update(pair);
}

static void on_close(struct http_exchange *x)
{
    release(((struct request *)x->user)->stream);
}

static void begin_channels(struct forward *forward)
{
    for (size_t i = 0; i < forward->port_count; i++) {
        uint16_t port = forward->ports[i];
        char bytes[2] = {(char)(port & 0xff), (char)(port >> 8)};
        struct str number = {bytes, sizeof(bytes)};
        struct pair *pair = new_pair(forward, i, port);

        pair->data_stream = (uint32_t)(2 * i);
        pair->error_stream = (uint32_t)(2 * i + 1);
        send_data(forward, pair->data_stream, false, number);
        send_data(forward, pair->error_stream, false, number);
        pair_connect(pair);
    }
    forward->begun = true;
    end_when_done(forward);
}

static void begin(struct request *request, const char *protocol)
{
    struct forward *forward = request->stream;

    forward->websocket = upgrade_is_websocket(request);
    forward->channels = forward->websocket && !str_is(str_from(protocol), TUNNEL);
    forward->base64 = forward->channels && str_contains(str_from(protocol), STR("base64."));
    forward->spdy = spdy_new();
    if (forward->channels)
        begin_channels(forward);
}

/* "ports=80,81&ports=90" */
static bool take_ports(struct forward *forward)
{
    struct arena *arena = request_arena(forward->request);
    struct str *values = ARENA_ARRAY(arena, struct str, PORTS_MAX);
    size_t count = http_query_all(arena, forward->x->head.query, "ports", values, PORTS_MAX);
    struct str word;

    if (count > PORTS_MAX)
        return false;
    for (size_t i = 0; i < count; i++)
        for (struct str rest = values[i]; str_cut(&rest, ',', &word);) {
            uint64_t port = 0;

            if (forward->port_count == PORTS_MAX || !str_to_u64(word, &port) || !port ||
                port > UINT16_MAX)
                return false;
            forward->ports[forward->port_count++] = (uint16_t)port;
        }
    return true;
}

static bool check_ports(struct request *request, const struct json *pod)
{
    struct forward *forward = request->stream;
    const struct http_head *head = &request->x->head;
    bool tunnel = !upgrade_is_websocket(request) ||
                  http_token_in(http_head_get(head, "Sec-WebSocket-Protocol"), TUNNEL);

    (void)pod;
    if (take_ports(forward) && (tunnel || forward->port_count))
        return true;
    request_fail(request, 400, "BadRequest",
                 "ports: name 1 to %d ports of the pod, like ports=80,443", PORTS_MAX);
    return false;
}

void forward_handle(struct request *request)
{
    static const char *const websocket_protocols[] = {TUNNEL, "v4.channel.k8s.io",
                                                      "v4.base64.channel.k8s.io", NULL};
    static const char *const spdy_protocols[] = {"portforward.k8s.io", NULL};
    static const struct upgrade upgrade = {.websocket_protocols = websocket_protocols,
                                           .spdy_protocols = spdy_protocols,
                                           .websocket_default = "v4.channel.k8s.io",
                                           .check = check_ports,
                                           .begin = begin,
                                           .on_data = on_input,
                                           .on_drain = on_drain,
                                           .on_close = on_close};
    struct forward *forward = ARENA_NEW(request_arena(request), struct forward);

    forward->request = request;
    forward->x = request->x;
    request->stream = forward;
    upgrade_pod(request, &upgrade);
}
