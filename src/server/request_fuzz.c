#include "api/protobuf.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "fuzz/fuzz.h"
#include "http/spdy.h"
#include "http/websocket.h"
#include "http1/parse.h"
#include "http1/response.h"
#include "server/route.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* The path of a request: head, route, query, body. Whatever the bytes are, they are understood or
 * refused with a status, and read in pieces they mean the same. */

static void check_route(struct arena *arena, const struct http_head *head)
{
    struct route route = {0};
    struct err err = {0};

    if (route_parse(arena, head->path, &route, &err) < 0) {
        FUZZ_HOLDS(err.text[0] != '\0');
        return;
    }
    /* Nothing that climbs or hides becomes the name of an object. */
    FUZZ_HOLDS(!str_is(route.ns, "..") && !str_is(route.name, "..") && !str_is(route.name, "."));
    FUZZ_HOLDS(str_find(route.name, '\0') == route.name.len);
    (void)http_query(arena, head->query, "labelSelector");
    (void)http_query_bool(head->query, "watch");
}

static void check_chunked(struct str body)
{
    _cleanup_(buf_done) struct buf whole = {.bytes_max = 1 << 20};
    _cleanup_(buf_done) struct buf pieces = {.bytes_max = 1 << 20};
    struct http_chunked a = {0};
    struct http_chunked b = {0};
    bool done = false;
    bool pieces_done = false;
    ssize_t used = http_chunked_read(&a, body, &whole, &done);
    size_t at = 0;
    ssize_t step = 0;

    while (at < body.len && !pieces_done && step >= 0) {
        step = http_chunked_read(&b, str_sub(body, at, 1), &pieces, &pieces_done);
        at += step > 0 ? (size_t)step : 0;
    }
    FUZZ_HOLDS((used < 0) == (step < 0));
    FUZZ_HOLDS(used < 0 || (done == pieces_done && (size_t)used == at &&
                            str_eq(buf_str(&whole), buf_str(&pieces))));
}

FUZZ(request)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct http_head head;
    struct err err = {0};
    ssize_t size = http_head_parse(input, &head, &err);

    FUZZ_HOLDS(size >= 0 || (err.http_status >= 400 && err.http_status < 600));
    if (size <= 0)
        return;
    FUZZ_HOLDS((size_t)size <= input.len && head.path.len > 0 && head.path.p[0] == '/');
    FUZZ_HOLDS(!(head.chunked && head.content_length >= 0));
    check_route(&arena, &head);
    if (head.chunked)
        check_chunked(str_sub(input, (size_t)size, input.len));
}

FUZZ(protobuf)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct protobuf_unknown unknown = {0};
    _cleanup_(buf_done) struct buf written = {0};
    struct json *root = NULL;
    struct json *again = NULL;
    struct err err = {0};

    if (protobuf_to_json(&arena, input, &unknown, &root, &err) < 0) {
        FUZZ_HOLDS(err.text[0] != '\0');
        return;
    }
    FUZZ_HOLDS(json_is(root, JSON_OBJECT) && unknown.count <= PROTOBUF_UNKNOWN_MAX);
    /* What was read can be written, and is read as the same. */
    if (protobuf_from_json(root, false, &written, &err) < 0)
        return;
    FUZZ_HOLDS(protobuf_to_json(&arena, buf_str(&written), NULL, &again, &err) == 0);
    FUZZ_HOLDS(json_equal(root, again));
}

FUZZ(websocket)
{
    _cleanup_(websocket_done) struct websocket ws = {0};
    _cleanup_(buf_done) struct buf in = {0};
    struct websocket_message message;

    buf_add(&in, input);
    while (websocket_next(&ws, &in, &message) > 0)
        FUZZ_HOLDS(message.data.len <= WEBSOCKET_MESSAGE_BYTES_MAX);
}

FUZZ(spdy)
{
    struct spdy *spdy = spdy_new();
    _cleanup_(buf_done) struct buf in = {0};
    struct spdy_frame frame;

    buf_add(&in, input);
    while (spdy_next(spdy, &in, &frame) > 0)
        FUZZ_HOLDS(frame.header_count <= SPDY_HEADERS_MAX);
    spdy_free(spdy);
}

FUZZ(response)
{
    _cleanup_(arena_done) struct arena arena = {0};
    _cleanup_(buf_done) struct buf in = {0};
    _cleanup_(buf_done) struct buf body = {0};
    struct http_response response = {.eof = true};

    buf_add(&in, input);
    if (http_response_read(&response, &arena, &in, &body, NULL) == 0)
        FUZZ_HOLDS(response.done && response.status >= 200);
}
