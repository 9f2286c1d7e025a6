#include "api/api.h"
#include "api/kind.h"
#include "base/err.h"
#include "base/str.h"
#include "http/server.h"
#include "kube/kube.h"
#include "kube/kubeconfig.h"
#include "test.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <uv.h>

/* Kinds of others are found by name at a server of the test's own. */
#define LIMIT_MS 30000

struct bench {
    uv_loop_t loop;
    uv_timer_t limit;
    struct http_server *server;
    struct kube *kube;
    int code;
    char words[256];
    bool told;
    bool late;
};

static void on_request(void *user, struct http_exchange *x)
{
    (void)user;
    if (str_is(x->head.path, "/apis/example.com/v1"))
        http_reply(x, 200, "application/json",
                   STR("{\"kind\":\"APIResourceList\",\"groupVersion\":\"example.com/v1\","
                       "\"resources\":[{\"name\":\"flows/status\",\"singularName\":\"\","
                       "\"namespaced\":true,\"kind\":\"Flow\",\"verbs\":[\"get\"]},"
                       "{\"name\":\"flows\",\"singularName\":\"flow\",\"namespaced\":true,"
                       "\"kind\":\"Flow\",\"verbs\":[\"get\",\"list\",\"watch\"]}]}"));
    else
        http_reply(x, 404, "text/plain", STR("404 page not found\n"));
}

static void on_learned(void *user, const struct api_result *result)
{
    struct bench *bench = user;

    bench->code = result->code;
    if (result->err)
        (void)snprintf(bench->words, sizeof(bench->words), "%s", result->err->text);
    bench->told = true;
}

static void on_late(uv_timer_t *timer)
{
    struct bench *bench = timer->data;

    bench->late = true;
}

static void bench_open(struct bench *bench)
{
    struct err err = {0};
    char server[64];

    EXPECT(uv_loop_init(&bench->loop) == 0);
    uv_timer_init(&bench->loop, &bench->limit);
    bench->limit.data = bench;
    EXPECT(http_server_start(&(struct http_server_options){.loop = &bench->loop,
                                                           .address = "127.0.0.1",
                                                           .handle = on_request,
                                                           .user = bench},
                             &bench->server, &err) == 0);
    (void)snprintf(server, sizeof(server), "http://127.0.0.1:%u",
                   (unsigned)http_server_port(bench->server));
    const struct kube_config config = {.source = "test", .server = server};
    EXPECT(kube_open(&bench->loop, &(struct kube_options){.config = &config}, &bench->kube, &err) ==
           0);
}

static int learn(struct bench *bench, const char *api_version, const char *kind)
{
    bench->told = false;
    EXPECT(
        api_learn(kube_api(bench->kube), str_from(api_version), str_from(kind), on_learned, bench));
    uv_timer_start(&bench->limit, on_late, LIMIT_MS, 0);
    while (!bench->told && !bench->late)
        uv_run(&bench->loop, UV_RUN_ONCE);
    uv_timer_stop(&bench->limit);
    EXPECT(!bench->late);
    return bench->code;
}

static void bench_close(struct bench *bench)
{
    kube_close(bench->kube);
    http_server_stop(bench->server);
    uv_close((uv_handle_t *)&bench->limit, NULL);
    uv_run(&bench->loop, UV_RUN_DEFAULT);
    EXPECT(uv_loop_close(&bench->loop) == 0);
}

TEST(a_kind_of_others_is_found_by_name)
{
    struct bench bench = {0};

    bench_open(&bench);
    const struct kinds *kinds = kube_api(bench.kube)->kinds;
    EXPECT(!kinds_by_name(kinds, STR("example.com/v1"), STR("Flow")));
    EXPECT(learn(&bench, "example.com/v1", "Flow") == 0);
    const struct kind *kind = kinds_by_name(kinds, STR("example.com/v1"), STR("Flow"));
    EXPECT(kind && strcmp(kind->plural, "flows") == 0 && kind->namespaced && kind->custom);
    bench_close(&bench);
}

TEST(a_kind_that_the_server_does_not_have_is_not_found)
{
    struct bench bench = {0};

    bench_open(&bench);
    EXPECT(learn(&bench, "example.com/v1", "Flows") == -ENOENT);
    EXPECT(strstr(bench.words, "serves no Flows of example.com/v1") != NULL);
    EXPECT(learn(&bench, "example.com/v2", "Flow") == -ENOENT);
    bench_close(&bench);
}

TEST(who_asked_for_a_kind_is_told_when_the_connection_is_closed)
{
    struct bench bench = {0};

    bench_open(&bench);
    EXPECT(api_learn(kube_api(bench.kube), STR("example.com/v1"), STR("Flow"), on_learned, &bench));
    EXPECT(!bench.told);
    bench_close(&bench);
    EXPECT(bench.told && bench.code == -ECANCELED);
}
