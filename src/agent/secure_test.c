#include "agent/core.h"
#include "agent/secure.h"
#include "base/str.h"
#include "test.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

#define WORKERS 4 /* that everybody shares, if nothing else is said */

struct bench {
    uv_loop_t loop;
    struct agent agent;
    int listener; /* takes connections in, and says nothing */
    uint16_t port;
    size_t done;
    bool worked;
};

static void open_bench(struct bench *bench)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(at);

    *bench = (struct bench){.listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    EXPECT(uv_loop_init(&bench->loop) == 0);
    bench->agent.loop = &bench->loop;
    EXPECT(bind(bench->listener, (const struct sockaddr *)&at, sizeof(at)) == 0);
    EXPECT(listen(bench->listener, 64) == 0);
    EXPECT(getsockname(bench->listener, (struct sockaddr *)&at, &size) == 0);
    bench->port = ntohs(at.sin_port);
}

static void on_done(void *user, bool ok, struct str words)
{
    struct bench *bench = user;

    (void)words;
    EXPECT(!ok);
    bench->done++;
}

static struct secure *ask(struct bench *bench, struct str ns)
{
    return secure_start(&(struct secure_request){.agent = &bench->agent,
                                                 .ns = ns,
                                                 .host = "127.0.0.1",
                                                 .port = bench->port,
                                                 .timeout_ms = 600000,
                                                 .text = STR("GET / HTTP/1.1\r\n\r\n"),
                                                 .done = on_done,
                                                 .user = bench});
}

static void work(uv_work_t *request)
{
    (void)request;
}

static void work_done(uv_work_t *request, int status)
{
    (void)status;
    ((struct bench *)request->data)->worked = true;
}

/* Pods are prepared, buried and read in the worker threads. */
TEST(checks_that_wait_for_ever_take_no_worker_thread_from_others)
{
    struct bench bench;
    uv_work_t other = {.data = &bench};

    open_bench(&bench);
    for (size_t i = 0; i < WORKERS + 1; i++)
        EXPECT(ask(&bench, STR("a")));
    EXPECT(uv_queue_work(&bench.loop, &other, work, work_done) == 0);
    while (!bench.worked)
        (void)uv_run(&bench.loop, UV_RUN_ONCE);
    EXPECT(bench.done == 0);
    close(bench.listener); /* resets the connections */
    EXPECT(uv_run(&bench.loop, UV_RUN_DEFAULT) == 0);
    EXPECT(bench.done == WORKERS + 1 && !bench.agent.secures && !bench.agent.streams_open);
    EXPECT(uv_loop_close(&bench.loop) == 0);
}

/* A pod that says a byte now and then would keep them for as long as it likes. */
TEST(checks_that_nobody_waits_for_end_whatever_the_pod_says)
{
    struct bench bench;
    int taken[WORKERS / 2]; /* and nothing is said there */

    open_bench(&bench);
    for (size_t i = 0; i < WORKERS; i++) {
        struct secure_request request = {.agent = &bench.agent,
                                         .ns = STR("a"),
                                         .host = "127.0.0.1",
                                         .port = bench.port,
                                         .timeout_ms = 600000,
                                         .grpc = true,
                                         .done = on_done,
                                         .user = &bench};
        struct secure *secure = secure_start(&request);

        EXPECT(secure);
        if (i % 2) { /* some have connected by then, and some have not */
            taken[i / 2] = accept4(bench.listener, NULL, NULL, SOCK_CLOEXEC);
            EXPECT(taken[i / 2] >= 0);
        }
        secure_cancel(secure);
    }
    EXPECT(uv_run(&bench.loop, UV_RUN_DEFAULT) == 0);
    EXPECT(bench.done == 0 && !bench.agent.secures && !bench.agent.streams_open);
    for (size_t i = 0; i < WORKERS / 2; i++)
        close(taken[i]);
    close(bench.listener);
    EXPECT(uv_loop_close(&bench.loop) == 0);
}

TEST(a_namespace_has_only_so_many_slow_checks_and_others_have_theirs)
{
    struct bench bench;

    open_bench(&bench);
    for (size_t i = 0; i < SECURE_A_NAMESPACE; i++)
        EXPECT(ask(&bench, STR("a")));
    EXPECT(!ask(&bench, STR("a")));
    EXPECT(ask(&bench, STR("b")));
    close(bench.listener);
    EXPECT(uv_run(&bench.loop, UV_RUN_DEFAULT) == 0);
    EXPECT(bench.done == SECURE_A_NAMESPACE + 1);
    EXPECT(uv_loop_close(&bench.loop) == 0);
}
