#include "base/err.h"
#include "base/str.h"
#include "http/server.h"
#include "kube/transport.h"
#include "test.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <uv.h>

/* A server that answers some requests, and breaks the connection with each that follows. */
struct breaking {
    uv_loop_t loop;
    struct http_server *server;
    struct transport *transport;
    size_t asked;
    size_t answers;
    struct http_exchange *held; /* the first of "/late" */
    size_t done;
    int code; /* of the last */
    int status;
};

static void on_request(void *user, struct http_exchange *x)
{
    struct breaking *b = user;

    if (str_is(x->head.path, "/late")) {
        b->held = b->held ? b->held : x;
        return;
    }
    if (++b->asked <= b->answers)
        http_reply(x, 200, "application/json", STR("{}"));
    else
        http_abort(x);
}

static void on_done(void *user, const struct transport_reply *reply)
{
    struct breaking *b = user;

    b->done++;
    b->code = reply->code;
    b->status = reply->status;
}

static void breaking_open(struct breaking *b, size_t answers)
{
    struct err err = {0};
    char server[64];

    b->answers = answers;
    EXPECT(uv_loop_init(&b->loop) == 0);
    EXPECT(http_server_start(
               &(struct http_server_options){
                   .loop = &b->loop, .address = "127.0.0.1", .handle = on_request, .user = b},
               &b->server, &err) == 0);
    (void)snprintf(server, sizeof(server), "http://127.0.0.1:%u",
                   (unsigned)http_server_port(b->server));
    EXPECT(
        transport_new(
            &(struct transport_options){.loop = &b->loop, .server = server, .user_agent = "test"},
            &b->transport, &err) == 0);
}

static void ask(struct breaking *b, bool once)
{
    size_t before = b->done;

    (void)transport_send(b->transport, &(struct transport_request){.method = "POST",
                                                                   .path = STR("/"),
                                                                   .content_type = "text/plain",
                                                                   .body = STR("a question"),
                                                                   .timeout_ms = 20000,
                                                                   .once = once,
                                                                   .done = on_done,
                                                                   .user = b});
    while (b->done == before)
        (void)uv_run(&b->loop, UV_RUN_ONCE);
}

static void breaking_close(struct breaking *b)
{
    transport_free(b->transport);
    http_server_stop(b->server);
    uv_run(&b->loop, UV_RUN_DEFAULT);
    EXPECT(uv_loop_close(&b->loop) == 0);
}

TEST(what_is_sent_once_is_not_sent_again_where_a_used_connection_breaks)
{
    struct breaking b = {0};

    breaking_open(&b, 1);
    ask(&b, true);
    EXPECT(b.code == 0 && b.status == 200);
    ask(&b, true);
    EXPECT(b.code < 0);
    EXPECT(b.asked == 2);
    breaking_close(&b);
}

TEST(what_may_be_sent_again_is_where_a_used_connection_breaks)
{
    struct breaking b = {0};

    breaking_open(&b, 1);
    ask(&b, false);
    ask(&b, false);
    EXPECT(b.code < 0);
    EXPECT(b.asked == 3);
    breaking_close(&b);
}

/* It may be about to answer them. */
TEST(a_request_whose_time_is_over_ends_no_other)
{
    struct breaking b = {0};
    struct transport_request late = {
        .method = "GET", .path = STR("/late"), .done = on_done, .user = &b};

    breaking_open(&b, 1);
    ask(&b, false); /* curl waits to hear which HTTP the server speaks */
    b.done = 0;
    (void)transport_send(b.transport, &late);
    while (!b.held)
        (void)uv_run(&b.loop, UV_RUN_ONCE);
    late.timeout_ms = 50;
    (void)transport_send(b.transport, &late);
    while (b.done < 1)
        (void)uv_run(&b.loop, UV_RUN_ONCE);
    EXPECT(b.code == -ETIMEDOUT);
    (void)uv_run(&b.loop, UV_RUN_NOWAIT);
    EXPECT(b.done == 1);
    http_reply(b.held, 200, "application/json", STR("{}"));
    while (b.done < 2)
        (void)uv_run(&b.loop, UV_RUN_ONCE);
    EXPECT(b.code == 0 && b.status == 200);
    breaking_close(&b);
}
