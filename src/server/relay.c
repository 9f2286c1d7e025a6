#include "server/relay.h"

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "http/server.h"
#include "http1/parse.h"
#include "http1/response.h"
#include "server/peer.h"
#include "server/request.h"
#include "tool/timer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WAITING_BYTES_MAX ((size_t)1 << 20)

/* Of one connection, RFC 9110 7.6.1. */
#define OF_CONNECTION \
    "Connection,Keep-Alive,TE,Trailer,Upgrade,Proxy-Authorization,Proxy-Connection"

static bool upgrades(const struct relay *relay)
{
    const struct http_head *head = &relay->x->head;

    return head->upgrade && http_head_get(head, "Upgrade").len && !head->chunked &&
           head->content_length <= 0;
}

void relay_close(struct relay *relay)
{
    if (relay->closing)
        return;
    relay->closing = true;
    timer_free(relay->timer);
    relay->timer = NULL;
    buf_done(&relay->early);
    peer_close(relay->peer);
    if (relay->ops->done)
        relay->ops->done(relay);
}

static void relay_fail(struct relay *relay, const char *why)
{
    relay_close(relay);
    if (relay->begun)
        http_abort(relay->x);
    else
        relay->ops->fail(relay, why);
}

/* ---- towards the one who answers ---- */

static void hold_input(struct relay *relay)
{
    size_t waiting = relay->peer ? peer_waiting(relay->peer) : relay->early.len;

    if (waiting > WAITING_BYTES_MAX)
        http_pause(relay->x, true);
    else if (waiting < WAITING_BYTES_MAX / 2)
        http_pause(relay->x, false);
}

static void relay_send(struct relay *relay, struct str bytes)
{
    if (relay->peer)
        peer_send(relay->peer, bytes);
    else
        buf_add(&relay->early, bytes);
}

static void on_body(struct http_exchange *x, struct str bytes, bool last)
{
    struct relay *relay = ((struct request *)x->user)->stream;
    struct buf piece = {0};

    if (relay->closing)
        return;
    if (x->head.chunked && bytes.len)
        buf_addf(&piece, "%zx\r\n", bytes.len);
    buf_add(&piece, bytes);
    if (x->head.chunked && bytes.len)
        buf_add(&piece, STR("\r\n"));
    if (x->head.chunked && last)
        buf_add(&piece, STR("0\r\n\r\n"));
    relay_send(relay, buf_str(&piece));
    buf_done(&piece);
    if (!relay->closing)
        hold_input(relay);
}

static void on_data(struct http_exchange *x, struct str bytes)
{
    struct relay *relay = ((struct request *)x->user)->stream;

    if (relay->closing)
        return;
    relay_send(relay, bytes);
    if (!relay->closing)
        hold_input(relay);
}

static void on_drain(struct http_exchange *x)
{
    struct relay *relay = ((struct request *)x->user)->stream;

    if (relay->peer && !relay->closing)
        peer_pause(relay->peer, false);
}

static void on_close(struct http_exchange *x)
{
    relay_close(((struct request *)x->user)->stream);
}

void relay_begin(struct relay *relay)
{
    relay->request->stream = relay;
    relay->x->on_body = on_body;
    relay->x->on_data = on_data;
    relay->x->on_drain = on_drain;
    relay->x->on_close = on_close;
}

void relay_write_head(struct relay *relay, struct str target, bool (*keeps_back)(struct str name))
{
    const struct http_head *head = &relay->x->head;

    buf_addf(&relay->early, STR_FMT " " STR_FMT "%s" STR_FMT " HTTP/1.1\r\n", STR_ARG(head->method),
             STR_ARG(target), head->query.len ? "?" : "", STR_ARG(head->query));
    for (size_t i = 0; i < head->header_count; i++) {
        const char *name = str_c(request_arena(relay->request), head->headers[i].name);

        if (!http_token_in(STR(OF_CONNECTION ",Expect"), name) &&
            !keeps_back(head->headers[i].name))
            buf_addf(&relay->early, "%s: " STR_FMT "\r\n", name, STR_ARG(head->headers[i].value));
    }
}

void relay_end_head(struct relay *relay)
{
    if (upgrades(relay))
        buf_addf(&relay->early, "Connection: Upgrade\r\nUpgrade: " STR_FMT "\r\n\r\n",
                 STR_ARG(http_head_get(&relay->x->head, "Upgrade")));
    else
        buf_add(&relay->early, STR("Connection: close\r\n\r\n"));
}

static void on_late(void *user)
{
    relay_fail(user, "no answer in time");
}

void relay_limit(struct relay *relay, int64_t limit_ms, bool whole)
{
    relay->timer = timer_new(relay->request->server->loop, relay);
    relay->whole = whole;
    timer_in(relay->timer, limit_ms, on_late);
}

/* ---- back ---- */

static void answer_head(void *user, const struct http_response *response)
{
    struct relay *relay = user;

    if (!relay->whole || response->status == 101) {
        timer_free(relay->timer);
        relay->timer = NULL;
    }
    relay->begun = true;
    relay->ops->begin(relay, response);
}

static void answer_body(void *user, struct str bytes)
{
    struct relay *relay = user;

    if (relay->ops->body && !relay->upgraded)
        relay->ops->body(relay, bytes, false);
    else
        http_write(relay->x, bytes);
    if (http_pending(relay->x) > WAITING_BYTES_MAX)
        peer_pause(relay->peer, true);
}

static void answer_end(void *user, const char *why)
{
    struct relay *relay = user;

    if (why && !relay->upgraded) {
        relay_fail(relay, why);
        return;
    }
    if (relay->ops->body && !relay->upgraded)
        relay->ops->body(relay, STR(""), true);
    relay_close(relay);
    http_end(relay->x);
}

static void answer_sent(void *user)
{
    hold_input(user);
}

static void answer_closed(void *user)
{
    http_unref(((struct relay *)user)->x);
}

void relay_connect(struct relay *relay, int fd, const struct tls_client_options *tls)
{
    struct err err = {0};
    struct peer_options options = {.loop = relay->request->server->loop,
                                   .fd = fd,
                                   .tls = tls,
                                   .no_body = str_is(relay->x->head.method, "HEAD"),
                                   .upgrades = upgrades(relay)};
    struct peer_reader reader = {.head = answer_head,
                                 .body = answer_body,
                                 .end = answer_end,
                                 .sent = answer_sent,
                                 .closed = answer_closed,
                                 .user = relay};

    relay->peer = peer_open(&options, &reader, &err);
    if (!relay->peer) {
        relay_fail(relay, err.text);
        return;
    }
    (void)http_ref(relay->x);
    struct buf early = relay->early;
    relay->early = (struct buf){0};
    peer_send(relay->peer, buf_str(&early));
    buf_done(&early);
}

const char *relay_copy_headers(struct relay *relay,
                               const struct http_response *response,
                               struct str without)
{
    struct arena *arena = request_arena(relay->request);
    const char *type = NULL;

    for (size_t i = 0; i < response->header_count; i++) {
        const char *name = str_c(arena, response->headers[i].name);

        if (http_equal_nocase(response->headers[i].name, STR("Content-Type")))
            type = str_c(arena, response->headers[i].value);
        else if (!http_token_in(STR(OF_CONNECTION ",Transfer-Encoding,Content-Length"), name) &&
                 !http_token_in(without, name))
            http_header(relay->x, name, response->headers[i].value);
    }
    return type;
}

void relay_start(struct relay *relay, const struct http_response *response, const char *type)
{
    struct arena *arena = request_arena(relay->request);

    if (response->status == 204 || response->status == 304) {
        http_reply(relay->x, response->status, type, STR("")); /* these have no body, nor an end */
        return;
    }
    if (response->status != 101) {
        http_begin(relay->x, response->status, type);
        return;
    }
    relay->upgraded = true;
    for (size_t i = 0; i < response->header_count; i++)
        if (http_equal_nocase(response->headers[i].name, STR("Upgrade"))) {
            http_upgrade(relay->x, str_c(arena, response->headers[i].value));
            return;
        }
    http_upgrade(relay->x, str_c(arena, http_head_get(&relay->x->head, "Upgrade")));
}
