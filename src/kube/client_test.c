#include "base/err.h"
#include "base/str.h"
#include "http/server.h"
#include "kube/client.h"
#include "kube/kubeconfig.h"
#include "test.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <uv.h>

/* Whose request goes first, at a server of the test's own. */
#define WRITERS    16
#define UNDER_WAY  4
#define WRITES_MAX 2000

struct crowd {
    uv_loop_t loop;
    struct http_server *server;
    struct client *client;
    struct http_exchange *stream; /* that of "/stream" */
    int stream_code;              /* its end; 1: it has not ended */
    size_t under_way;
    size_t written;
    bool was_read;
};

static void on_request(void *user, struct http_exchange *x)
{
    struct crowd *crowd = user;

    if (str_is(x->head.path, "/stream"))
        crowd->stream = x;
    else if (!str_is(x->head.path, "/late"))
        http_reply(x, 200, "application/json", STR("{}"));
}

static void on_read_data(void *user, struct str bytes)
{
    (void)user;
    (void)bytes;
}

static void on_read(void *user, const struct transport_reply *reply)
{
    struct crowd *crowd = user;

    EXPECT(reply->status == 200);
    crowd->under_way--;
    crowd->was_read = true;
}

static void crowd_read(struct crowd *crowd)
{
    crowd->under_way++;
    (void)client_send(crowd->client, &(struct client_request){.class = LIMITER_READ,
                                                              .method = "GET",
                                                              .path = STR("/api/v1/pods?watch=1"),
                                                              .data = on_read_data,
                                                              .done = on_read,
                                                              .user = crowd});
}

static void on_written(void *user, const struct transport_reply *reply);

static void crowd_write(struct crowd *crowd, enum limiter_class class)
{
    crowd->under_way++;
    (void)client_send(crowd->client, &(struct client_request){.class = class,
                                                              .method = "PATCH",
                                                              .path = STR("/api/v1/pods/a"),
                                                              .content_type = "application/json",
                                                              .body = STR("{}"),
                                                              .done = on_written,
                                                              .user = crowd});
}

static enum limiter_class writers_class;

/* A controller that does not see what its writes did writes again. */
static void on_written(void *user, const struct transport_reply *reply)
{
    struct crowd *crowd = user;

    EXPECT(reply->status == 200);
    crowd->under_way--;
    if (!crowd->was_read && ++crowd->written < WRITES_MAX)
        crowd_write(crowd, writers_class);
}

static void crowd_open(struct crowd *crowd)
{
    struct err err = {0};
    char server[64];

    EXPECT(uv_loop_init(&crowd->loop) == 0);
    EXPECT(http_server_start(&(struct http_server_options){.loop = &crowd->loop,
                                                           .address = "127.0.0.1",
                                                           .handle = on_request,
                                                           .user = crowd},
                             &crowd->server, &err) == 0);
    (void)snprintf(server, sizeof(server), "http://127.0.0.1:%u",
                   (unsigned)http_server_port(crowd->server));
    const struct kube_config config = {.source = "test", .server = server};
    EXPECT(client_new(&(struct client_options){.loop = &crowd->loop,
                                               .config = &config,
                                               .user_agent = "test",
                                               .per_second = 100000,
                                               .burst = 100000,
                                               .under_way_max = UNDER_WAY},
                      &crowd->client, &err) == 0);
}

static void crowd_close(struct crowd *crowd)
{
    client_free(crowd->client);
    http_server_stop(crowd->server);
    uv_run(&crowd->loop, UV_RUN_DEFAULT);
    EXPECT(uv_loop_close(&crowd->loop) == 0);
}

TEST(writes_without_end_hold_back_no_watch)
{
    static const enum limiter_class classes[] = {LIMITER_NORMAL, LIMITER_BIND};

    for (size_t i = 0; i < 2; i++) {
        struct crowd crowd = {0};

        test_case(classes[i] == LIMITER_BIND ? "binds" : "writes");
        writers_class = classes[i];
        crowd_open(&crowd);
        for (size_t k = 0; k < WRITERS; k++)
            crowd_write(&crowd, classes[i]);
        crowd_read(&crowd);
        while (crowd.under_way > 0)
            uv_run(&crowd.loop, UV_RUN_ONCE);
        EXPECT(crowd.was_read);
        EXPECT(crowd.written < WRITES_MAX);
        crowd_close(&crowd);
    }
}

TEST(what_has_no_answer_is_counted_but_for_reads_leases_and_events)
{
    struct crowd crowd = {.was_read = true};

    crowd_open(&crowd);
    for (size_t i = 0; i < 2 * UNDER_WAY; i++)
        crowd_write(&crowd, i % 2 ? LIMITER_NORMAL : LIMITER_BIND);
    crowd_write(&crowd, LIMITER_URGENT);
    crowd_write(&crowd, LIMITER_EVENT);
    crowd_read(&crowd);
    EXPECT(client_writes(crowd.client) == 2 * (size_t)UNDER_WAY);
    while (crowd.under_way > 2 * UNDER_WAY) /* some are on their way, some wait */
        uv_run(&crowd.loop, UV_RUN_ONCE);
    EXPECT(client_writes(crowd.client) > 0);
    while (crowd.under_way > 0)
        uv_run(&crowd.loop, UV_RUN_ONCE);
    EXPECT(client_writes(crowd.client) == 0);
    crowd_close(&crowd);
}

static void on_stream_end(void *user, const struct transport_reply *reply)
{
    ((struct crowd *)user)->stream_code = reply->code;
}

static void on_urgent(void *user, const struct transport_reply *reply)
{
    (void)reply;
    ((struct crowd *)user)->under_way--;
}

static void ask_urgently(struct crowd *crowd, const char *path, int64_t timeout_ms)
{
    crowd->under_way = 1;
    (void)client_send(crowd->client, &(struct client_request){.class = LIMITER_URGENT,
                                                              .method = "GET",
                                                              .path = str_from(path),
                                                              .timeout_ms = timeout_ms,
                                                              .done = on_urgent,
                                                              .user = crowd});
    while (crowd->under_way)
        uv_run(&crowd->loop, UV_RUN_ONCE);
}

TEST(what_is_under_way_is_given_up_where_another_connection_is_answered_and_not_where_it_is_late)
{
    static const struct {
        const char *why;
        bool speaks;
        const char *then; /* is asked behind the one whose time was over */
        int code;
        uint64_t resets;
    } rows[] = {
        {"a server that answers nobody in time", false, "/late", 1, 0},
        {"a way that leads nowhere", false, "/", -ECONNRESET, 1},
        {"one that was slow and is well", true, "/", 1, 0},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct crowd crowd = {.stream_code = 1};
        struct client_stats stats;

        test_case(rows[i].why);
        crowd_open(&crowd);
        ask_urgently(&crowd, "/", 20000); /* curl waits to hear which HTTP the server speaks */
        (void)client_send(crowd.client, &(struct client_request){.class = LIMITER_READ,
                                                                 .method = "GET",
                                                                 .path = STR("/stream"),
                                                                 .data = on_read_data,
                                                                 .done = on_stream_end,
                                                                 .user = &crowd});
        while (!crowd.stream)
            uv_run(&crowd.loop, UV_RUN_ONCE);
        uv_sleep(2); /* nothing was heard since */
        ask_urgently(&crowd, "/late", 50);
        if (rows[i].speaks)
            http_begin(crowd.stream, 200, "application/json");
        for (int n = 0; n < 10; n++)
            uv_run(&crowd.loop, UV_RUN_NOWAIT);
        ask_urgently(&crowd, rows[i].then, 50);
        for (int n = 0; n < 10; n++)
            uv_run(&crowd.loop, UV_RUN_NOWAIT);
        client_stats(crowd.client, &stats);
        EXPECT(stats.resets == rows[i].resets);
        EXPECT(crowd.stream_code == rows[i].code);
        crowd_close(&crowd);
    }
}
