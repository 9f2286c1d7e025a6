#include "api/api.h"
#include "api/field.h"
#include "api/kind.h"
#include "api/object.h"
#include "api/protobuf.h"
#include "api/selector.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "http/server.h"
#include "http/websocket.h"
#include "http1/parse.h"
#include "server/accept.h"
#include "server/queue.h"
#include "server/request.h"
#include "server/upgrade.h"
#include "tool/timer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Watch streams, chunked or as messages of a WebSocket. One that falls EVENTS_MAX behind is told 410 and
 * has to list again. */

#define EVENTS_MAX 8192
#define INPUT_MAX \
    4096 /* of a WebSocket: nobody has anything to say but that he is there, or goes */
#define TIMEOUT_S_MAX ((uint64_t)24 * 3600)

struct stream {
    struct request *request;
    struct http_exchange *x;
    struct api_watch *watch;
    struct queue queue; /* an item's number: the revision */
    struct err closed;
    struct timer *timer;
    struct websocket ws;
    struct buf in; /* of the client, by WebSocket */
    bool websocket;
    bool bookmarks;
    bool send_initial; /* tell where the initial state ends */
    bool skip_initial; /* the client wants changes only, from now */
    bool synced;
    bool first;
    bool over;
};

static void stream_free(struct stream *stream)
{
    if (stream->over)
        return;
    stream->over = true;
    api_watch_stop(stream->request->server->api, stream->watch);
    queue_done(&stream->queue);
    timer_free(stream->timer);
    websocket_done(&stream->ws);
    buf_done(&stream->in);
}

static void stream_end(struct stream *stream)
{
    _cleanup_(buf_done) struct buf frame = {0};

    stream_free(stream);
    if (stream->websocket) {
        websocket_write_close(&frame, 1000);
        http_write(stream->x, buf_str(&frame));
    }
    http_end(stream->x);
}

static const char *event_name(enum api_event event)
{
    switch (event) {
    case API_ADDED: return "ADDED";
    case API_MODIFIED: return "MODIFIED";
    case API_DELETED: return "DELETED";
    case API_SYNCED:
    case API_BOOKMARK: return "BOOKMARK";
    case API_CLOSED: break;
    }
    return "ERROR";
}

static void write_bookmark(struct stream *stream, struct buf *buf, const struct queue_item *item)
{
    const struct kind *kind = stream->request->kind;
    char version[KIND_API_VERSION_BYTES];

    buf_addf(buf,
             "{\"kind\":\"%s\",\"apiVersion\":\"" STR_FMT
             "\",\"metadata\":{\"resourceVersion\":\"%llu\",\"creationTimestamp\":null",
             kind->name, STR_ARG(kind_api_version(kind, version)),
             (unsigned long long)item->number);
    if (item->event == API_SYNCED)
        buf_add(buf, STR(",\"annotations\":{\"k8s.io/initial-events-end\":\"true\"}"));
    buf_add(buf, STR("}}"));
}

/* The object of an event in JSON. */
static void write_object(struct stream *stream, struct buf *buf, const struct queue_item *item)
{
    if (item->object) {
        view_write(stream->request, buf, item->object, stream->first);
        stream->first = false;
    } else if (item->event == API_CLOSED) {
        int code = stream->closed.http_status ? stream->closed.http_status : 410;
        status_write(buf, &(struct status){.code = code,
                                           .reason = status_reason(code),
                                           .message = str_from(stream->closed.text)});
    } else {
        write_bookmark(stream, buf, item);
    }
}

/* A frame in protobuf. False: the object has none. */
static bool write_frame(struct stream *stream,
                        struct buf *buf,
                        struct queue_item *item,
                        struct err *err)
{
    _cleanup_(arena_done) struct arena arena = {0};
    _cleanup_(buf_done) struct buf text = {0};
    struct json *root = NULL;

    write_object(stream, &text, item);
    return json_parse(&arena, buf_str(&text), &root, err) == 0 &&
           protobuf_event_write(buf, event_name(item->event), root, err) == 0;
}

static void write_event(struct stream *stream, struct buf *buf, struct queue_item *item)
{
    struct err err = {0};

    if (stream->request->accept.media != MEDIA_PROTOBUF) {
        buf_addf(buf, "{\"type\":\"%s\",\"object\":", event_name(item->event));
        write_object(stream, buf, item);
        buf_add(buf, STR("}\n"));
        return;
    }
    if (write_frame(stream, buf, item, &err))
        return;
    /* The client learns why the watch ends: another form shows it all. */
    (void)err_set(&stream->closed, -1, "%s: it has no protobuf form; ask for application/json",
                  err.text);
    stream->closed.http_status = 500;
    object_unref(item->object);
    *item = (struct queue_item){.event = API_CLOSED};
    (void)write_frame(stream, buf, item, &err);
}

static void write_item(void *user, struct buf *buf, struct queue_item *item)
{
    _cleanup_(buf_done) struct buf event = {0};
    struct stream *stream = user;

    write_event(stream, stream->websocket ? &event : buf, item);
    if (stream->websocket)
        websocket_write(buf,
                        stream->request->accept.media == MEDIA_PROTOBUF ? WEBSOCKET_BINARY
                                                                        : WEBSOCKET_TEXT,
                        -1, buf_str(&event));
}

static void fall_behind(struct stream *stream);

static void pump(struct stream *stream)
{
    if (!request_has_room(stream->request) && stream->watch && queue_count(&stream->queue))
        fall_behind(stream);
    bool over = queue_pump(&stream->queue, stream->x, write_item, stream);
    (void)request_has_room(stream->request);
    if (over)
        stream_end(stream);
}

/* Everything queued is dropped for one ERROR event: the client lists again. */
static void fall_behind(struct stream *stream)
{
    queue_clear(&stream->queue);
    (void)err_set(&stream->closed, -1, "too old resource version: this watcher reads too slowly");
    stream->closed.http_status = 410;
    api_watch_stop(stream->request->server->api, stream->watch);
    stream->watch = NULL;
    queue_push(&stream->queue, (struct queue_item){.event = API_CLOSED});
}

static void on_change(void *user, const struct api_change *change)
{
    struct stream *stream = user;
    struct queue_item item = {change->event, change->revision, change->object};

    switch (change->event) {
    case API_SYNCED:
        stream->synced = true;
        queue_mark_initial(&stream->queue);
        if (!stream->send_initial)
            return;
        break;
    case API_BOOKMARK:
        if (!stream->bookmarks)
            return;
        break;
    case API_CLOSED:
        if (change->err)
            stream->closed = *change->err;
        api_watch_stop(stream->request->server->api, stream->watch);
        stream->watch = NULL;
        break;
    case API_ADDED:
    case API_MODIFIED:
    case API_DELETED:
        if (stream->skip_initial && !stream->synced)
            return;
        break;
    }
    queue_push(&stream->queue, item);
    if (stream->synced && queue_is_behind(&stream->queue, EVENTS_MAX))
        fall_behind(stream);
    pump(stream);
}

static void on_drain(struct http_exchange *x)
{
    struct stream *stream = ((struct request *)x->user)->stream;

    if (stream && !stream->over)
        pump(stream);
}

static void on_close(struct http_exchange *x)
{
    struct stream *stream = ((struct request *)x->user)->stream;

    if (stream)
        stream_free(stream);
}

static void on_timeout(void *user)
{
    stream_end(user);
}

/* Of a WebSocket. A client that asks and does not read gets no answers. */
static void on_input(struct http_exchange *x, struct str bytes)
{
    struct stream *stream = ((struct request *)x->user)->stream;
    struct websocket_message message;
    int r = 0;

    if (!stream || stream->over)
        return;
    buf_add(&stream->in, bytes);
    while ((r = websocket_next(&stream->ws, &stream->in, &message)) > 0) {
        _cleanup_(buf_done) struct buf out = {0};

        if (message.opcode == WEBSOCKET_CLOSE) {
            stream_end(stream);
            return;
        }
        if (message.opcode == WEBSOCKET_PING && http_pending(x) < QUEUE_PENDING_BYTES_MAX) {
            websocket_write(&out, WEBSOCKET_PONG, -1, message.data);
            http_write(x, buf_str(&out));
        }
    }
    if (r < 0 || stream->in.len + stream->ws.message.len > INPUT_MAX) {
        stream_free(stream);
        http_abort(x);
    }
}

static void start_timer(struct stream *stream, uint64_t seconds)
{
    if (seconds > TIMEOUT_S_MAX)
        seconds = TIMEOUT_S_MAX;
    stream->timer = timer_new(stream->request->server->loop, stream);
    timer_in(stream->timer, (int64_t)seconds * 1000, on_timeout);
}

/* A watch on one name is a watch with a field selector. */
static struct str field_selector(struct request *request)
{
    struct str given = request->call.field_selector;
    struct str name = request->route.name;

    if (!name.len)
        return given;
    return str_printf(request_arena(request), "metadata.name=" STR_FMT "%s" STR_FMT, STR_ARG(name),
                      given.len ? "," : "", STR_ARG(given));
}

static bool check_selectors(struct request *request)
{
    struct arena *arena = request_arena(request);
    struct selector selector = {0};
    struct err err = {0};

    if (selector_parse_labels(arena, request->call.label_selector, &selector, &err) == 0 &&
        field_selector_parse(arena, request->kind,
                             kinds_crd(request->server->api->kinds, request->kind),
                             request->call.field_selector, &selector, &err) == 0)
        return true;
    request_fail(request, 400, "BadRequest", "%s", err.text);
    return false;
}

/* What a watch is told that would mean something else, or nothing. */
static bool check_options(struct request *request)
{
    struct arena *arena = request_arena(request);
    struct str query = request->x->head.query;
    struct str match = http_query(arena, query, "resourceVersionMatch");
    bool initial = http_query_all(arena, query, "sendInitialEvents", NULL, 0) > 0;
    int64_t number = 0;

    if (!request_number(request, "timeoutSeconds", &number) ||
        !request_number(request, "limit", &number))
        return false;
    if (match.len && !str_is(match, "NotOlderThan")) {
        request_invalid(request, "resourceVersionMatch",
                        "Unsupported value: \"" STR_FMT "\": supported values: \"NotOlderThan\"",
                        STR_ARG(str_sub(match, 0, 64)));
        return false;
    }
    if (match.len && !initial) {
        request_invalid(request, "resourceVersionMatch",
                        "Forbidden: resourceVersionMatch is forbidden for watch unless "
                        "sendInitialEvents is provided");
        return false;
    }
    if (initial && !match.len) {
        request_invalid(request, "resourceVersionMatch",
                        "Forbidden: sendInitialEvents requires setting resourceVersionMatch to "
                        "NotOlderThan");
        return false;
    }
    return true;
}

void watch_begin(struct request *request)
{
    struct arena *arena = request_arena(request);
    struct str query = request->x->head.query;
    struct str version = http_query(arena, query, "resourceVersion");
    struct str initial = http_query(arena, query, "sendInitialEvents");
    struct str timeout = http_query(arena, query, "timeoutSeconds");
    uint64_t from = 0;
    uint64_t seconds = 0;

    if (version.len && !str_to_u64(version, &from)) {
        request_fail(request, 400, "BadRequest",
                     "resourceVersion: \"" STR_FMT "\" is not a version this server gave out",
                     STR_ARG(str_sub(version, 0, 64)));
        return;
    }
    if (!check_selectors(request) || !check_options(request))
        return;
    bool websocket = upgrade_is_websocket(request);
    if (websocket && !upgrade_to_websocket(request, NULL)) {
        request_fail(request, 400, "BadRequest", "WebSocket: version 13 and a key are needed");
        return;
    }
    struct stream *stream = ARENA_NEW(arena, struct stream);
    stream->websocket = websocket;
    stream->request = request;
    stream->x = request->x;
    stream->first = true;
    stream->bookmarks = http_query_bool(query, "allowWatchBookmarks");
    stream->send_initial = http_query_bool(query, "sendInitialEvents");
    stream->skip_initial = initial.len && !stream->send_initial && !from;
    if (stream->send_initial)
        from = 0;
    stream->synced = from != 0;
    request->stream = stream;
    request->x->on_drain = on_drain;
    request->x->on_close = on_close;
    request->x->on_data = on_input;
    if (!websocket)
        http_begin(request->x, 200,
                   request->accept.media == MEDIA_PROTOBUF
                       ? "application/vnd.kubernetes.protobuf;stream=watch"
                       : "application/json");
    if (str_to_u64(timeout, &seconds) && seconds)
        start_timer(stream, seconds);
    stream->watch = api_watch(request->server->api,
                              &(struct api_watch_request){
                                  .kind = request->kind,
                                  .ns = request->route.ns,
                                  .label_selector = request->call.label_selector,
                                  .field_selector = field_selector(request),
                                  .from_revision = from,
                                  .bookmarks = stream->bookmarks,
                              },
                              on_change, stream);
}
