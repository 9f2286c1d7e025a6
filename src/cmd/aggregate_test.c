#include "api/api.h"
#include "api/kind.h"
#include "base/arena.h"
#include "base/base64.h"
#include "base/buf.h"
#include "base/count.h"
#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "http/certificate.h"
#include "http/server.h"
#include "http/tls.h"
#include "server/server.h"
#include "store/harness.h"
#include "test.h"
#include "tool/clock.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

/* Another API server behind ours, in one loop with it: what it is asked, and by whom. */

#define OWNER_TOKEN "0123456789abcdef0123456789abcdef"
#define LONG_MS     30000
#define HOUR_MS     INT64_C(3600000)
#define THINGS      "/apis/a.b/v1/namespaces/default/things"

struct world {
    struct harness harness;
    struct arena arena;
    struct buf ca, ca_key, crt, key;                    /* of the other server */
    struct buf proxy_ca, proxy_crt, proxy_key, foreign; /* of ours; somebody else's authority */
    struct tls_identity *identity;
    struct http_server *other;
    struct server *server;
    char heard[4096]; /* the last request: "GET /path?query\nHeader: value\n...\n\nbody" */
    char peer[64];    /* by whose certificate */
};

static void on_data(struct http_exchange *x, struct str bytes)
{
    http_write(x, bytes);
    if (str_contains(bytes, STR("bye")))
        http_end(x);
}

/* Serves a.b/v1: a list of resources, what it heard, an endless stream, an echo, and much. */
static void other_handle(void *user, struct http_exchange *x)
{
    struct world *world = user;
    int at = snprintf(world->heard, sizeof(world->heard), STR_FMT " " STR_FMT "?" STR_FMT "\n",
                      STR_ARG(x->head.method), STR_ARG(x->head.path), STR_ARG(x->head.query));

    for (size_t i = 0; i < x->head.header_count; i++)
        at += snprintf(world->heard + at, sizeof(world->heard) - (size_t)at,
                       STR_FMT ": " STR_FMT "\n", STR_ARG(x->head.headers[i].name),
                       STR_ARG(x->head.headers[i].value));
    (void)snprintf(world->heard + at, sizeof(world->heard) - (size_t)at, "\n" STR_FMT,
                   STR_ARG(str_sub(x->body, 0, 64)));
    (void)snprintf(world->peer, sizeof(world->peer), STR_FMT, STR_ARG(http_peer_identity(x)));
    if (str_is(x->head.path, "/apis/a.b/v1")) {
        http_reply(x, 200, "application/json",
                   STR("{\"kind\":\"APIResourceList\",\"resources\":[{\"name\":\"things\","
                       "\"namespaced\":true,\"kind\":\"Thing\",\"verbs\":[\"get\"]}]}"));
    } else if (str_is(x->head.path, "/openapi/v3")) {
        http_reply(x, 200, "application/json",
                   STR("{\"paths\":{\"apis/a.b/v1\":{\"serverRelativeURL\":"
                       "\"/openapi/v3/apis/a.b/v1?hash=7\"}}}"));
    } else if (str_contains(x->head.query, STR("watch="))) {
        http_begin(x, 200, "application/json");
        http_write(x, STR("{\"type\":\"ADDED\"}\n"));
    } else if (x->head.upgrade) {
        x->on_data = on_data;
        http_header(x, "X-Echo", STR("yes"));
        http_upgrade(x, "echo");
    } else if (str_is(x->head.method, "DELETE")) {
        http_reply(x, 204, NULL, STR(""));
    } else if (str_is(x->head.method, "POST")) {
        http_reply(x, 201, "text/plain", str_printf(&x->arena, "%zu bytes", x->body.len));
    } else {
        http_header(x, "X-Other", STR("1"));
        http_reply(x, 200, "text/plain", STR("other"));
    }
}

static void other_begin(void *user, struct http_exchange *x)
{
    (void)user;
    x->body_max = (size_t)8 << 20;
}

static void make_certificates(struct world *world)
{
    static const char *const names[] = {"s.default.svc", NULL};
    struct err err = {0};
    struct buf unused = {0};
    int64_t now_ms = clock_now_ms();

    EXPECT(!certificate_authority(now_ms, HOUR_MS,
                                  &(struct certificate_pair){&world->ca, &world->ca_key}, &err));
    EXPECT(!certificate_authority(now_ms, HOUR_MS,
                                  &(struct certificate_pair){&world->foreign, &unused}, &err));
    EXPECT(!certificate_sign(&(struct certificate_wish){.ca = buf_str(&world->ca),
                                                        .ca_key = buf_str(&world->ca_key),
                                                        .names = names,
                                                        .now_ms = now_ms,
                                                        .lifetime_ms = HOUR_MS},
                             &(struct certificate_pair){&world->crt, &world->key}, &err));
    EXPECT(!tls_make_client(
        "front-proxy-client", now_ms,
        &(struct tls_made){&world->proxy_ca, NULL, &world->proxy_crt, &world->proxy_key}, &err));
    buf_done(&unused);
}

/* A pod's: what leads to the machine's own loopback is refused of a slice. */
#define OTHER_ADDRESS "127.64.0.9"

static void start_other(struct world *world, uint16_t port)
{
    struct err err = {0};

    EXPECT(http_server_start(&(struct http_server_options){.loop = &world->harness.loop,
                                                           .address = OTHER_ADDRESS,
                                                           .port = port,
                                                           .tls = world->identity,
                                                           .begin = other_begin,
                                                           .handle = other_handle,
                                                           .user = world},
                             &world->other, &err) == 0);
}

static void world_open(struct world *world)
{
    struct err err = {0};

    *world = (struct world){0};
    make_certificates(world);
    harness_open(&world->harness, NULL);
    EXPECT(tls_identity_new(buf_str(&world->crt), buf_str(&world->key), buf_str(&world->proxy_ca),
                            &world->identity, &err) == 0);
    start_other(world, 0);
    EXPECT(server_start(&world->harness.loop, world->harness.api,
                        &(struct server_options){.address = "127.0.0.1",
                                                 .token = STR(OWNER_TOKEN),
                                                 .token_key = STR("a key that signs tokens, 32 b"),
                                                 .proxy_certificate = buf_str(&world->proxy_crt),
                                                 .proxy_key = buf_str(&world->proxy_key)},
                        &world->server, &err) == 0);
    harness_settle(&world->harness);
}

static void world_close(struct world *world)
{
    struct buf *bufs[] = {&world->ca,       &world->ca_key,    &world->crt,       &world->key,
                          &world->proxy_ca, &world->proxy_crt, &world->proxy_key, &world->foreign};

    server_stop(world->server);
    http_server_stop(world->other);
    harness_settle(&world->harness);
    tls_identity_free(world->identity);
    harness_close(&world->harness);
    arena_done(&world->arena);
    for (size_t i = 0; i < COUNT_OF(bufs); i++)
        buf_done(bufs[i]);
}

/* ---- asking ---- */

static int dial(struct world *world, struct str text)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons(server_port(world->server)),
                             .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    EXPECT(fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof(to)) == 0);
    while (text.len) {
        ssize_t sent = send(fd, text.p, text.len, MSG_NOSIGNAL | MSG_DONTWAIT);

        (void)uv_run(&world->harness.loop, UV_RUN_NOWAIT);
        text = str_sub(text, sent > 0 ? (size_t)sent : 0, text.len);
    }
    return fd;
}

/* What comes until `until`, or until the end. */
static struct str received(struct world *world, int fd, const char *until)
{
    return harness_received(&world->harness, &world->arena, fd, until, 0);
}

static struct str request_text(struct world *world,
                               const char *line,
                               const char *headers,
                               struct str body)
{
    return str_printf(&world->arena,
                      "%s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " OWNER_TOKEN
                      "\r\n%sContent-Length: %zu\r\n\r\n" STR_FMT,
                      line, headers, body.len, STR_ARG(body));
}

static struct str ask_with(struct world *world,
                           const char *line,
                           const char *headers,
                           struct str body)
{
    const char *more = str_printf(&world->arena, "Connection: close\r\n%s", headers).p;
    int fd = dial(world, request_text(world, line, more, body));
    struct str text = received(world, fd, NULL);

    (void)close(fd);
    return text;
}

static struct str ask(struct world *world, const char *line)
{
    return ask_with(world, line, "", STR(""));
}

/* ---- what is stored ---- */

static void put_service(struct world *world)
{
    char slice[512];

    EXPECT(harness_create(
               &world->harness, &kind_service, "default",
               "{\"metadata\":{\"name\":\"s\"},\"spec\":{\"ports\":[{\"port\":443}]}}") == 0);
    (void)snprintf(slice, sizeof(slice),
                   "{\"metadata\":{\"name\":\"s\",\"labels\":{\"kubernetes.io/service-name\":"
                   "\"s\"}},\"addressType\":\"IPv4\",\"endpoints\":[{\"addresses\":"
                   "[\"" OTHER_ADDRESS "\"]}],\"ports\":[{\"port\":%u}]}",
                   (unsigned)http_server_port(world->other));
    EXPECT(harness_create(&world->harness, &kind_endpointslice, "default", slice) == 0);
}

static void put_apiservice(struct world *world, struct str ca)
{
    struct str text = str_printf(
        &world->arena,
        "{\"metadata\":{\"name\":\"v1.a.b\"},\"spec\":{\"group\":\"a.b\",\"version\":\"v1\","
        "\"groupPriorityMinimum\":1000,\"versionPriority\":10,\"caBundle\":\"" STR_FMT
        "\",\"service\":{\"namespace\":\"default\",\"name\":\"s\"}}}",
        STR_ARG(base64_encode(&world->arena, ca)));

    EXPECT(harness_create(&world->harness, &kind_apiservice, "", text.p) == 0);
}

/* Turns the loop until the condition Available has that reason; what it says. */
static const char *wait_reason(struct world *world, const char *reason)
{
    for (int ms = 0; ms < LONG_MS; ms++) {
        (void)uv_run(&world->harness.loop, UV_RUN_NOWAIT);
        EXPECT(harness_get(&world->harness, &kind_apiservice, "", "v1.a.b") == 0);
        if (strcmp(harness_text(&world->harness, "status.conditions.0.reason"), reason) == 0)
            return str_c(&world->arena,
                         str_from(harness_text(&world->harness, "status.conditions.0.message")));
        (void)poll(NULL, 0, 1);
    }
    return "";
}

static bool says(struct str text, const char *words)
{
    return str_contains(text, str_from(words));
}

/* How many versions of the group the discovery has. */
static size_t versions_of(struct world *world, struct str text, const char *group)
{
    size_t at = 0;
    struct json *root = NULL;

    while (at < text.len && !str_starts(str_sub(text, at, text.len), STR("\r\n\r\n")))
        at++;
    EXPECT(json_parse(&world->arena, str_trim(str_sub(text, at, text.len)), &root, NULL) == 0);
    JSON_FOREACH(json_get(root, "items"), item)
        if (str_is(json_str_at(item, "metadata.name"), group))
            return json_count(json_get(item, "versions"));
    return 0;
}

TEST(a_request_goes_to_the_api_server_of_its_group_in_the_name_of_who_asks)
{
    struct world world;

    world_open(&world);
    put_service(&world);
    EXPECT(str_starts(ask(&world, "GET " THINGS), STR("HTTP/1.1 404")));
    put_apiservice(&world, buf_str(&world.ca));
    EXPECT(strcmp(wait_reason(&world, "Passed"), "all checks passed") == 0);
    EXPECT(says(str_from(world.heard), "X-Remote-User: system:kube-aggregator\n"));
    struct str text =
        ask_with(&world, "GET " THINGS "/x%2Fy?a=1",
                 "X-Remote-User: eve\r\nImpersonate-Nobody: x\r\nX-Own: 7\r\n", STR(""));
    EXPECT(str_starts(text, STR("HTTP/1.1 400"))); /* who may be imitated is looked at first */
    text = ask_with(&world, "GET " THINGS "/x%2Fy?a=1",
                    "X-Remote-User: eve\r\nx-remote-extra-k: v\r\nX-Own: 7\r\n", STR(""));
    EXPECT(str_starts(text, STR("HTTP/1.1 200")) && says(text, "X-Other: 1") &&
           says(text, "other"));
    struct str heard = str_from(world.heard);
    EXPECT(str_starts(heard, STR("GET " THINGS "/x%2Fy?a=1\n")));
    EXPECT(says(heard, "X-Remote-User: muster:owner\n") && says(heard, "X-Own: 7\n"));
    EXPECT(says(heard, "X-Remote-Group: system:masters\n") && says(heard, "Host: s.default.svc\n"));
    EXPECT(!says(heard, "eve") && !says(heard, "xtra-k") && !says(heard, OWNER_TOKEN));
    EXPECT(strcmp(world.peer, "front-proxy-client") == 0);
    /* All that is below its version is its. */
    EXPECT(says(ask(&world, "GET " THINGS "/x/y/z/a/b"), "other"));
    EXPECT(says(ask(&world, "GET /apis/a.b/v1"), "\"name\":\"things\""));
    EXPECT(says(ask(&world, "GET /openapi/v3"), "/openapi/v3/apis/a.b/v1?hash=7"));
    EXPECT(says(ask(&world, "GET /openapi/v3/apis/a.b/v1?hash=7"), "other"));
    EXPECT(str_starts(ask(&world, "GET /apis/a.b/v2"), STR("HTTP/1.1 404")));
    world_close(&world);
}

TEST(what_another_api_server_answers_is_a_stream)
{
    struct world world;
    struct buf body = {0};

    world_open(&world);
    put_service(&world);
    put_apiservice(&world, buf_str(&world.ca));
    (void)wait_reason(&world, "Passed");
    for (size_t i = 0; i < 5 << 20; i += 16)
        buf_add(&body, STR("0123456789abcdef"));
    EXPECT(says(ask_with(&world, "POST " THINGS, "", buf_str(&body)), "5242880 bytes"));
    int fd = dial(&world, request_text(&world, "DELETE " THINGS "/x", "", STR("")));
    struct str none = received(&world, fd, "\r\n\r\n");
    EXPECT(str_starts(none, STR("HTTP/1.1 204")) && !says(none, "chunked"));
    (void)close(fd);
    fd = dial(&world, request_text(&world, "GET " THINGS "?watch=true", "", STR("")));
    EXPECT(says(received(&world, fd, "ADDED"), "{\"type\":\"ADDED\"}\n"));
    (void)close(fd);
    fd = dial(&world,
              str_printf(&world.arena,
                         "GET " THINGS " HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " OWNER_TOKEN
                         "\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n"));
    struct str text = received(&world, fd, "X-Echo: yes");
    EXPECT(str_starts(text, STR("HTTP/1.1 101")) && says(text, "Upgrade: echo\r\n"));
    EXPECT(send(fd, "hello", 5, MSG_NOSIGNAL) == 5);
    EXPECT(says(received(&world, fd, "hello"), "hello"));
    EXPECT(send(fd, "bye", 3, MSG_NOSIGNAL) == 3);
    EXPECT(says(received(&world, fd, NULL), "bye"));
    (void)close(fd);
    buf_done(&body);
    world_close(&world);
}

TEST(an_api_server_that_another_authority_signed_for_is_not_asked)
{
    struct world world;

    world_open(&world);
    put_service(&world);
    put_apiservice(&world, buf_str(&world.foreign));
    EXPECT(says(str_from(wait_reason(&world, "FailedDiscoveryCheck")), "NOT trusted"));
    EXPECT(!world.heard[0]);
    struct str text = ask(&world, "GET " THINGS);
    EXPECT(str_starts(text, STR("HTTP/1.1 503")) && says(text, "\r\n\r\nservice unavailable\n"));
    EXPECT(!world.heard[0]);
    EXPECT(harness_patch(&world.harness, &kind_apiservice, "", "v1.a.b",
                         "{\"spec\":{\"caBundle\":null,\"insecureSkipTLSVerify\":true}}") == 0);
    (void)wait_reason(&world, "Passed");
    EXPECT(says(ask(&world, "GET " THINGS), "other"));
    world_close(&world);
}

TEST(an_api_server_that_went_away_is_said_to_have)
{
    struct world world;

    world_open(&world);
    put_apiservice(&world, buf_str(&world.ca));
    EXPECT(says(str_from(wait_reason(&world, "ServiceNotFound")), "is not present"));
    put_service(&world);
    (void)wait_reason(&world, "Passed");
    struct str text = ask_with(&world, "GET /apis",
                               "Accept: application/json;g=apidiscovery.k8s.io;v=v2;as="
                               "APIGroupDiscoveryList\r\n",
                               STR(""));
    EXPECT(versions_of(&world, text, "a.b") == 1 && versions_of(&world, text, "apps") == 1);
    EXPECT(says(text,
                "{\"metadata\":{\"name\":\"a.b\"},\"versions\":[{\"version\":\"v1\",\"freshness\":"
                "\"Current\",\"resources\":[{\"resource\":\"things\""));
    uint16_t port = http_server_port(world.other);
    http_server_stop(world.other);
    harness_settle(&world.harness);
    text = ask(&world, "GET " THINGS);
    EXPECT(str_starts(text, STR("HTTP/1.1 503")) && says(text, "error trying to reach service"));
    (void)wait_reason(&world, "FailedDiscoveryCheck");
    EXPECT(says(ask(&world, "GET " THINGS), "\r\n\r\nservice unavailable\n"));
    EXPECT(says(ask(&world, "GET /apis/a.b"), "\"groupVersion\":\"a.b/v1\""));
    start_other(&world, port);
    (void)wait_reason(&world, "Passed");
    EXPECT(harness_delete(&world.harness, &kind_apiservice, "", "v1.a.b", "") == 0);
    harness_settle(&world.harness);
    EXPECT(str_starts(ask(&world, "GET " THINGS), STR("HTTP/1.1 404")));
    EXPECT(!says(ask(&world, "GET /apis"), "a.b"));
    world_close(&world);
}

TEST(what_this_server_serves_itself_is_not_handed_on)
{
    struct world world;

    world_open(&world);
    put_service(&world);
    EXPECT(harness_create(&world.harness, &kind_apiservice, "",
                          "{\"metadata\":{\"name\":\"v1.apps\"},\"spec\":{\"group\":\"apps\","
                          "\"version\":\"v1\",\"groupPriorityMinimum\":1,\"versionPriority\":1,"
                          "\"insecureSkipTLSVerify\":true,\"service\":{\"namespace\":\"default\","
                          "\"name\":\"s\"}}}") == 0);
    for (int ms = 0; ms < LONG_MS; ms++) {
        (void)uv_run(&world.harness.loop, UV_RUN_NOWAIT);
        EXPECT(harness_get(&world.harness, &kind_apiservice, "", "v1.apps") == 0);
        if (*harness_text(&world.harness, "status.conditions.0.reason"))
            break;
    }
    EXPECT(strcmp(harness_text(&world.harness, "status.conditions.0.reason"), "ServedLocally") ==
           0);
    EXPECT(says(ask(&world, "GET /apis/apps/v1/deployments"), "DeploymentList"));
    EXPECT(!world.heard[0]);
    world_close(&world);
}
