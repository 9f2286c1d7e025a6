#include "api/api.h"
#include "api/kind.h"
#include "api/podio.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "http/jwt.h"
#include "server/server.h"
#include "store/harness.h"
#include "test.h"
#include "tool/clock.h"
#include "tool/file.h"
#include "tool/log.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

/* Requests as they come over a socket, to a server on a store in memory. */

#define OWNER_TOKEN   "0123456789abcdef0123456789abcdef"
#define ANSWER_MS_MAX 30000
#define ANSWER_BYTES  ((size_t)64 << 20)
#define CONFIGMAPS    "/api/v1/namespaces/default/configmaps"
#define TOKEN_KEY     "a key that signs tokens, 32 b"
#define ENDED_TURNS   300 /* of the loop, in which nothing happens */
#define UPGRADE                                                                  \
    "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n" \
    "Sec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\n"
#define NAMED(name) "{\"metadata\":{\"name\":\"" name "\"}}"

struct world {
    struct harness harness;
    struct server *server;
    struct arena arena;
};

static void world_open_with(struct world *world, const char *audit_log, const struct log *log)
{
    struct err err = {0};

    *world = (struct world){0};
    harness_open(&world->harness, NULL);
    EXPECT(server_start(&world->harness.loop, world->harness.api,
                        &(struct server_options){.address = "127.0.0.1",
                                                 .token = STR(OWNER_TOKEN),
                                                 .token_key = STR(TOKEN_KEY),
                                                 .audit_log = audit_log,
                                                 .log = log},
                        &world->server, &err) == 0);
    harness_settle(&world->harness);
}

static void world_open(struct world *world, const char *audit_log)
{
    world_open_with(world, audit_log, NULL);
}

static void world_close(struct world *world)
{
    server_stop(world->server);
    harness_settle(&world->harness);
    harness_close(&world->harness);
    arena_done(&world->arena);
}

struct answer {
    int status;
    struct json *body;
};

/* Turns the loop until the connection ends, or `until` is in what came. */
static struct str received(struct world *world, int fd, const char *until)
{
    return harness_received(&world->harness, &world->arena, fd, until, ANSWER_BYTES);
}

static int dial(struct world *world, struct str text)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons(server_port(world->server)),
                             .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    EXPECT(fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof(to)) == 0);
    EXPECT(send(fd, text.p, text.len, MSG_NOSIGNAL) == (ssize_t)text.len);
    return fd;
}

/* As the owner; `more` are further headers. */
static struct answer ask(struct world *world,
                         const char *method,
                         const char *path,
                         const char *more,
                         const char *body)
{
    struct str text = str_printf(&world->arena,
                                 "%s %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                                 "Authorization: Bearer " OWNER_TOKEN "\r\n%s"
                                 "Content-Length: %zu\r\n\r\n%s",
                                 method, path, more, str_from(body).len, body);
    struct answer answer = {0};
    int fd = dial(world, text);

    text = received(world, fd, NULL);
    (void)close(fd);
    harness_settle(&world->harness);
    for (size_t i = 0; i + 4 <= text.len; i++)
        if (str_starts(str_sub(text, i, text.len), STR("\r\n\r\n"))) {
            (void)sscanf(str_c(&world->arena, text), "HTTP/1.1 %d", &answer.status);
            (void)json_parse(&world->arena, str_sub(text, i + 4, text.len), &answer.body, NULL);
            break;
        }
    return answer;
}

static struct answer post(struct world *world, const char *path, const char *body)
{
    return ask(world, "POST", path, "Content-Type: application/json\r\n", body);
}

static size_t items(struct world *world, const char *path)
{
    struct answer answer = ask(world, "GET", path, "", "");

    EXPECT(answer.status == 200);
    return json_count(json_get(answer.body, "items"));
}

TEST(only_what_is_written_over_http_has_a_line_in_the_audit_log)
{
    char folder[] = "/tmp/muster-server-XXXXXX";

    EXPECT(mkdtemp(folder));
    for (int audited = 0; audited < 2; audited++) {
        struct world world;
        char path[sizeof(folder) + 8];
        struct str text = STR("");

        (void)snprintf(path, sizeof(path), "%s/log", folder);
        world_open(&world, audited ? path : NULL);
        EXPECT(post(&world, CONFIGMAPS, NAMED("a")).status == 201);
        EXPECT(ask(&world, "GET", CONFIGMAPS "/a", "", "").status == 200);
        EXPECT(post(&world, "/healthz", "{}").status == 405);
        EXPECT(post(&world, "/apis/authentication.k8s.io/v1/selfsubjectreviews", "{}").status ==
               201);
        EXPECT((file_read(&world.arena, path, &text, NULL) == 0) == audited);
        EXPECT(str_find(text, '\n') == (audited ? text.len - 1 : 0));
        EXPECT(!audited || str_contains(text, STR("\"resource\":\"configmaps\"")));
        EXPECT(!audited || str_contains(text, STR("\"sourceIPs\":[\"127.0.0.1\"]")));
        world_close(&world);
        (void)unlink(path);
    }
    (void)rmdir(folder);
}

TEST(a_line_that_the_audit_log_loses_is_told_in_the_servers_own)
{
    struct world world;
    char text[512] = "";
    int ends[2];

    EXPECT(pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0);
    world_open_with(&world, "/dev/full", &(struct log){.fd = ends[1], .level = LEVEL_ERROR});
    EXPECT(post(&world, CONFIGMAPS, NAMED("a")).status == 201);
    EXPECT(read(ends[0], text, sizeof(text) - 1) > 0 && strstr(text, "audit.lost"));
    world_close(&world);
    (void)close(ends[0]);
    (void)close(ends[1]);
}

TEST(a_token_of_an_account_tells_its_name_and_groups)
{
    static const char *const groups[] = {"system:serviceaccounts", "system:serviceaccounts:default",
                                         "system:authenticated"};
    struct world world;

    world_open(&world, NULL);
    EXPECT(post(&world, "/api/v1/namespaces/default/serviceaccounts", NAMED("a")).status == 201);
    struct answer made =
        post(&world, "/api/v1/namespaces/default/serviceaccounts/a/token", "{\"spec\":{}}");
    EXPECT(made.status == 201);
    struct str token = json_str(json_at(made.body, "status.token"));
    EXPECT(token.len);
    struct answer review =
        post(&world, "/apis/authentication.k8s.io/v1/tokenreviews",
             str_printf(&world.arena, "{\"spec\":{\"token\":\"" STR_FMT "\"}}", STR_ARG(token)).p);
    const struct json *user = json_at(review.body, "status.user");
    EXPECT(review.status == 201);
    EXPECT(str_is(json_str(json_get(user, "username")), "system:serviceaccount:default:a"));
    EXPECT(json_count(json_get(user, "groups")) == COUNT_OF(groups));
    for (size_t i = 0; i < COUNT_OF(groups); i++)
        EXPECT(str_is(json_str(json_index(json_get(user, "groups"), i)), groups[i]));
    world_close(&world);
}

static const struct api_ops *ops_below;
static size_t made_count;

static void counted_call(struct api *api,
                         const struct api_request *request,
                         api_done_fn *done,
                         void *user)
{
    made_count += request->verb == API_CREATE && request->kind == &kind_serviceaccount;
    ops_below->call(api, request, done, user);
}

TEST(a_token_is_asked_for_and_nothing_is_made)
{
    struct world world;

    world_open(&world, NULL);
    EXPECT(post(&world, "/api/v1/namespaces/default/serviceaccounts", NAMED("a")).status == 201);
    ops_below = world.harness.api->ops;
    struct api_ops counted = *ops_below;
    counted.call = counted_call;
    made_count = 0;
    world.harness.api->ops = &counted;
    EXPECT(post(&world, "/api/v1/namespaces/default/serviceaccounts/a/token", "{\"spec\":{}}")
               .status == 201);
    EXPECT(made_count == 0);
    /* An account that is made is counted. */
    EXPECT(post(&world, "/api/v1/namespaces/default/serviceaccounts", NAMED("b")).status == 201);
    EXPECT(made_count == 1);
    world.harness.api->ops = ops_below;
    world_close(&world);
}

TEST(a_timeout_of_a_request_is_a_duration)
{
    static const struct {
        const char *query;
        int status;
    } rows[] = {{"", 200},
                {"?timeout=", 200},
                {"?timeout=0", 200},
                {"?timeout=30s", 200},
                {"?timeout=1m30s", 200},
                {"?timeout=soon", 400}};
    struct world world;

    world_open(&world, NULL);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        test_case(rows[i].query);
        EXPECT(
            ask(&world, "GET", str_printf(&world.arena, CONFIGMAPS "%s", rows[i].query).p, "", "")
                .status == rows[i].status);
    }
    world_close(&world);
}

TEST(pods_that_are_objects_only_are_for_who_asks_for_them)
{
    static const char meta[] =
        "{\"metadata\":{\"name\":\"a\",\"labels\":{\"muster.dev/stand-in\":\"x\"}},"
        "\"spec\":{\"containers\":[{\"name\":\"c\",\"image\":\"i\"}]}}";
    struct world world;

    world_open(&world, NULL);
    EXPECT(harness_create(&world.harness, &kind_pod, "default", meta) == 0);
    EXPECT(post(&world, CONFIGMAPS,
                "{\"metadata\":{\"name\":\"a\",\"labels\":{\"muster.dev/stand-in\":\"x\"}}}")
               .status == 201);
    EXPECT(items(&world, "/api/v1/pods") == 0);
    EXPECT(items(&world, "/api/v1/pods?labelSelector=muster.dev/stand-in") == 1);
    EXPECT(items(&world, "/api/v1/namespaces/default/pods") == 1);
    EXPECT(items(&world, "/api/v1/configmaps?labelSelector=muster.dev/stand-in") == 1);
    EXPECT(items(&world, "/api/v1/configmaps") ==
           items(&world, "/api/v1/configmaps?labelSelector=!muster.dev/stand-in") + 1);
    world_close(&world);
}

TEST(who_writes_without_a_name_is_known_by_the_program)
{
    struct world world;

    world_open(&world, NULL);
    struct answer made =
        ask(&world, "POST", CONFIGMAPS,
            "Content-Type: application/json\r\nUser-Agent: kubectl/v1.33.0 (linux/amd64)\r\n",
            "{\"metadata\":{\"name\":\"a\"},\"data\":{\"k\":\"v\"}}");
    EXPECT(made.status == 201);
    EXPECT(str_is(json_str(json_at(made.body, "metadata.managedFields.0.manager")), "kubectl"));
    /* What is applied has an owner by name. */
    EXPECT(ask(&world, "PATCH", CONFIGMAPS "/b",
               "Content-Type: application/apply-patch+yaml\r\nUser-Agent: kubectl/v1.33.0\r\n",
               "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"b\"}}")
               .status == 422);
    world_close(&world);
}

TEST(every_path_leads_where_it_says)
{
    static const struct {
        const char *path;
        int status;
        const char *why;
    } rows[] = {
        {"/openapi/v2", 200, "all types in one document"},
        {"/openapi/v3", 200, "or one of each group"},
        {"/openapi/v3/api/v1", 200, "the first"},
        {"/openapi/v9", 404, "a form of it that there is not"},
        {"/apis/metrics.k8s.io/v1beta1/pods", 503, "what pods use, where nobody measures"},
        {"/apis/metrics.k8s.io/v1beta1/nodes", 503, "and nodes"},
        {"/apis/metrics.k8s.io/v1beta1/namespaces/default/pods", 503, "those of a namespace"},
        {"/apis/metrics.k8s.io/v1beta1/pods/p", 404, "one pod, of no namespace"},
        {"/apis/metrics.k8s.io/v1beta1/namespaces/default/nodes", 404, "nodes of a namespace"},
        {"/apis/metrics.k8s.io/v1beta1/nodes/n/status", 404, "a part of a node's"},
        {"/ui/", 200, "the page"},
        {"/ui/a/nothing.js", 404, "what it has not"},
    };
    struct world world;

    world_open(&world, NULL);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        test_case(rows[i].why);
        EXPECT(ask(&world, "GET", rows[i].path, "Accept: application/json\r\n", "").status ==
               rows[i].status);
    }
    test_case("a session of the page");
    EXPECT(post(&world, "/ui/session", "{\"token\":\"" OWNER_TOKEN "\"}").status == 201);
    EXPECT(post(&world, "/ui/session", "{\"token\":\"another\"}").status == 401);
    world_close(&world);
}

/* More than may wait for a slow reader: the rest comes when there is room. */
TEST(a_watcher_gets_all_of_a_large_state_as_it_reads)
{
    enum {
        OBJECTS = 160,
        BYTES = 60000
    };
    struct world world;
    struct str value;

    world_open(&world, NULL);
    char *bytes = arena_alloc(&world.arena, BYTES + 1, 1, 1);
    memset(bytes, 'x', BYTES);
    bytes[BYTES] = '\0';
    value = (struct str){bytes, BYTES};
    for (int i = 0; i < OBJECTS; i++)
        EXPECT(harness_create(
                   &world.harness, &kind_configmap, "default",
                   str_printf(&world.arena,
                              "{\"metadata\":{\"name\":\"c-%d\"},\"data\":{\"k\":\"" STR_FMT "\"}}",
                              i, STR_ARG(value))
                       .p) == 0);
    int fd = dial(&world, STR("GET " CONFIGMAPS "?watch=true HTTP/1.1\r\nHost: localhost\r\n"
                              "Authorization: Bearer " OWNER_TOKEN "\r\n\r\n"));
    for (int i = 0; i < 200; i++) /* it has filled all there is to fill */
        (void)uv_run(&world.harness.loop, UV_RUN_NOWAIT);
    struct str text = received(&world, fd, "\"name\":\"c-159\"");
    EXPECT(str_contains(text, STR("\"name\":\"c-0\"")));
    EXPECT(str_contains(text, STR("\"name\":\"c-159\"")));
    (void)close(fd);
    world_close(&world);
}

/* ---- into pods ---- */

struct podio_stream {
    struct podio podio; /* there is one stream */
    struct podio_reader reader;
    char written[64];
    uint16_t columns;
    uint16_t rows;
    bool closed;
    int inside; /* the pod's end of a port */
};

static struct podio_stream *stream_exec(struct podio *podio,
                                        const struct podio_exec_request *request,
                                        const struct podio_reader *reader)
{
    struct podio_stream *stream = (struct podio_stream *)podio;

    EXPECT(request->tty && request->command_count == 1 && str_is(request->command[0], "sh"));
    stream->reader = *reader;
    reader->data(reader->user, 1, STR("hello"));
    return stream;
}

static void stream_write(struct podio_stream *stream, struct str bytes)
{
    (void)snprintf(stream->written, sizeof(stream->written), STR_FMT, STR_ARG(bytes));
}

static void stream_resize(struct podio_stream *stream, uint16_t columns, uint16_t rows)
{
    stream->columns = columns;
    stream->rows = rows;
}

static void stream_pause(struct podio_stream *stream, bool paused)
{
    (void)stream;
    (void)paused;
}

static void stream_close(struct podio_stream *stream)
{
    stream->closed = true;
}

/* A message of a client on a channel; its mask changes nothing. */
static void message_send(int fd, char channel, const char *text)
{
    char frame[128] = {(char)0x82, (char)(0x80 | (strlen(text) + 1)), 0, 0, 0, 0, channel};
    size_t len = strlen(text);

    memcpy(frame + 7, text, len);
    EXPECT(send(fd, frame, 7 + len, MSG_NOSIGNAL) == (ssize_t)(7 + len));
}

TEST(a_terminal_in_a_pod_is_as_large_as_the_clients)
{
    static const struct podio_ops ops = {.exec = stream_exec,
                                         .write = stream_write,
                                         .resize = stream_resize,
                                         .pause = stream_pause,
                                         .close = stream_close};
    struct podio_stream stream = {.podio = {&ops}};
    struct world world;

    world_open(&world, NULL);
    server_set_podio(world.server, &stream.podio);
    EXPECT(harness_create(
               &world.harness, &kind_pod, "default",
               "{\"metadata\":{\"name\":\"p\"},\"spec\":{\"nodeName\":\"n\",\"containers\":["
               "{\"name\":\"c\",\"image\":\"i\"}]}}") == 0);
    int fd = dial(&world, STR("GET /api/v1/namespaces/default/pods/p/exec?command=sh&tty=true"
                              "&stdin=true&stdout=true HTTP/1.1\r\nHost: localhost\r\n"
                              "Authorization: Bearer " OWNER_TOKEN "\r\nConnection: Upgrade\r\n"
                              "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
                              "Sec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\n"
                              "Sec-WebSocket-Protocol: v4.channel.k8s.io\r\n\r\n"));
    EXPECT(str_contains(received(&world, fd, "ready"), STR("101 Switching Protocols")));
    message_send(fd, 0, "ls"); /* stdin; the first message begins it */
    EXPECT(str_contains(received(&world, fd, "hello"), STR("hello")));
    message_send(fd, 4, "{\"Width\":0,\"Height\":24}");
    message_send(fd, 4, "{\"Width\":80,\"Height\":24}");
    message_send(fd, 0, "pwd");
    for (int ms = 0; ms < ANSWER_MS_MAX && strcmp(stream.written, "pwd") != 0; ms++) {
        (void)uv_run(&world.harness.loop, UV_RUN_NOWAIT);
        (void)poll(NULL, 0, 1);
    }
    EXPECT(strcmp(stream.written, "pwd") == 0);
    EXPECT(stream.columns == 80 && stream.rows == 24);
    (void)close(fd);
    for (int ms = 0; ms < ANSWER_MS_MAX && !stream.closed; ms++) {
        (void)uv_run(&world.harness.loop, UV_RUN_NOWAIT);
        (void)poll(NULL, 0, 1);
    }
    EXPECT(stream.closed);
    server_set_podio(world.server, NULL);
    world_close(&world);
}

struct pod_port {
    struct podio podio;
    int inside; /* the pod's end; -1: nobody came */
};

static int port_dial(struct podio *podio,
                     struct str ns,
                     struct str pod,
                     uint16_t port,
                     struct err *err)
{
    int ends[2];

    (void)err;
    EXPECT(str_is(ns, "default") && str_is(pod, "p") && port == 8080);
    EXPECT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0);
    ((struct pod_port *)podio)->inside = ends[1];
    return ends[0];
}

TEST(a_request_through_the_proxy_is_answered_by_the_pod)
{
    static const struct podio_ops ops = {.dial = port_dial};
    static const struct str reply = STR("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\npong");
    struct pod_port port = {.podio = {&ops}, .inside = -1};
    struct world world;

    world_open(&world, NULL);
    server_set_podio(world.server, &port.podio);
    int fd = dial(&world, STR("GET /api/v1/namespaces/default/pods/p:8080/proxy/a/b?x=1 HTTP/1.1"
                              "\r\nHost: localhost\r\nAuthorization: Bearer " OWNER_TOKEN
                              "\r\nConnection: close\r\n\r\n"));
    for (int ms = 0; ms < ANSWER_MS_MAX && port.inside < 0; ms++) {
        struct pollfd answered = {.fd = fd, .events = POLLIN};

        (void)uv_run(&world.harness.loop, UV_RUN_NOWAIT);
        if (poll(&answered, 1, 1) > 0)
            break; /* without the pod */
    }
    EXPECT(port.inside >= 0);
    if (port.inside >= 0) {
        struct str heard = received(&world, port.inside, "\r\n\r\n");

        EXPECT(str_starts(heard, STR("GET /a/b?x=1 HTTP/1.1\r\n")));
        EXPECT(!str_contains(heard, STR(OWNER_TOKEN)));
        EXPECT(send(port.inside, reply.p, reply.len, MSG_NOSIGNAL) == (ssize_t)reply.len);
        EXPECT(str_contains(received(&world, fd, "pong"), STR("pong")));
        (void)close(port.inside);
    }
    (void)close(fd);
    harness_settle(&world.harness);
    server_set_podio(world.server, NULL);
    world_close(&world);
}

/* ---- credentials that end ---- */

/* The token of an account that may do everything. */
static struct str token_of(struct world *world, const char *name)
{
    struct arena *arena = &world->arena;

    EXPECT(post(world, "/api/v1/namespaces/default/serviceaccounts",
                str_printf(arena, "{\"metadata\":{\"name\":\"%s\"}}", name).p)
               .status == 201);
    EXPECT(post(world, "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
                str_printf(arena,
                           "{\"metadata\":{\"name\":\"%s\"},\"roleRef\":{\"apiGroup\":"
                           "\"rbac.authorization.k8s.io\",\"kind\":\"ClusterRole\",\"name\":"
                           "\"cluster-admin\"},\"subjects\":[{\"kind\":\"ServiceAccount\","
                           "\"namespace\":\"default\",\"name\":\"%s\"}]}",
                           name, name)
                    .p)
               .status == 201);
    struct answer made = post(
        world, str_printf(arena, "/api/v1/namespaces/default/serviceaccounts/%s/token", name).p,
        "{\"spec\":{}}");
    EXPECT(made.status == 201);
    return json_str(json_at(made.body, "status.token"));
}

static int dial_as(struct world *world, struct str token, const char *path, const char *headers)
{
    return dial(world,
                str_printf(&world->arena,
                           "GET %s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " STR_FMT
                           "\r\n%s\r\n",
                           path, STR_ARG(token), headers));
}

static int silent_dial(struct podio *podio,
                       struct str ns,
                       struct str pod,
                       uint16_t port,
                       struct err *err)
{
    struct pod_port inside = {0};
    int fd = port_dial(&inside.podio, ns, pod, port, err);

    ((struct podio_stream *)podio)->inside = inside.inside;
    return fd;
}

static struct podio_stream *stream_silent(struct podio *podio,
                                          const struct podio_log_request *request,
                                          const struct podio_reader *reader)
{
    (void)request;
    (void)reader;
    return (struct podio_stream *)podio;
}

/* Whether the server ends it; what came before is read. */
static bool is_ended(struct world *world, int fd)
{
    char bytes[4096];
    ssize_t n = -1;

    for (int i = 0; i < ENDED_TURNS && n != 0; i++) {
        (void)uv_run(&world->harness.loop, UV_RUN_NOWAIT);
        n = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT);
        if (n < 0 && errno == ECONNRESET)
            n = 0;
    }
    return n == 0;
}

TEST(streams_end_when_the_account_does_whose_token_opened_them)
{
    static const struct podio_ops ops = {.exec = stream_exec,
                                         .logs = stream_silent,
                                         .write = stream_write,
                                         .pause = stream_pause,
                                         .close = stream_close,
                                         .dial = silent_dial};
    static const struct {
        const char *path;
        const char *headers;
        const char *until;
    } rows[] = {
        {CONFIGMAPS "?watch=true", "", "HTTP/1.1 200"},
        {"/api/v1/namespaces/default/pods/p/log?follow=true", "", NULL}, /* nothing is said in it */
        {"/api/v1/namespaces/default/pods/p/exec?command=sh&tty=true&stdin=true&stdout=true",
         UPGRADE "Sec-WebSocket-Protocol: v4.channel.k8s.io\r\n", "ready"},
        {"/api/v1/namespaces/default/pods/p/portforward?ports=8080",
         UPGRADE "Sec-WebSocket-Protocol: v4.channel.k8s.io\r\n", "101 Switching"},
    };
    struct podio_stream stream = {.podio = {&ops}};
    struct world world;
    int fds[COUNT_OF(rows)];

    world_open(&world, NULL);
    server_set_podio(world.server, &stream.podio);
    struct str alice = token_of(&world, "alice"), bob = token_of(&world, "bob");
    EXPECT(harness_create(
               &world.harness, &kind_pod, "default",
               "{\"metadata\":{\"name\":\"p\"},\"spec\":{\"nodeName\":\"n\",\"containers\":["
               "{\"name\":\"c\",\"image\":\"i\"}]}}") == 0);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        fds[i] = dial_as(&world, alice, rows[i].path, rows[i].headers);
        if (rows[i].until)
            EXPECT(str_contains(received(&world, fds[i], rows[i].until), str_from(rows[i].until)));
    }
    int other = dial_as(&world, bob, rows[0].path, "");
    EXPECT(str_contains(received(&world, other, "200"), STR("200")));
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        EXPECT(!is_ended(&world, fds[i]));
    EXPECT(
        ask(&world, "DELETE", "/api/v1/namespaces/default/serviceaccounts/alice", "", "").status ==
        200);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        test_case(rows[i].path);
        EXPECT(is_ended(&world, fds[i]));
        (void)close(fds[i]);
    }
    EXPECT(stream.closed);
    EXPECT(!is_ended(&world, other));
    (void)close(other);
    (void)close(stream.inside);
    harness_settle(&world.harness);
    server_set_podio(world.server, NULL);
    world_close(&world);
}

/* A token of the account that is good for so long. */
static struct str token_for(struct world *world, const char *account, int64_t ms)
{
    struct buf token = {0};
    struct answer found =
        ask(world, "GET",
            str_printf(&world->arena, "/api/v1/namespaces/default/serviceaccounts/%s", account).p,
            "", "");

    jwt_sign(&token, STR(TOKEN_KEY),
             &(struct jwt){.ns = STR("default"),
                           .account = str_from(account),
                           .account_uid = json_str(json_at(found.body, "metadata.uid")),
                           .issued_ms = clock_now_ms(),
                           .expires_ms = clock_now_ms() + ms});
    struct str ret = str_dup(&world->arena, buf_str(&token));
    buf_done(&token);
    return ret;
}

TEST(streams_end_when_the_token_does_that_opened_them)
{
    struct world world;
    struct str said = STR("");
    int fd = -1;

    world_open(&world, NULL);
    int other = dial_as(&world, token_of(&world, "alice"), CONFIGMAPS "?watch=true", "");
    EXPECT(str_contains(received(&world, other, "200"), STR("200")));
    /* On a slow machine it may be over before it is read. */
    for (int64_t ms = 200; ms < ANSWER_MS_MAX && !str_contains(said, STR("200")); ms *= 4) {
        (void)close(fd);
        fd = dial_as(&world, token_for(&world, "alice", ms), CONFIGMAPS "?watch=true", "");
        said = received(&world, fd, "HTTP/1.1 ");
    }
    EXPECT(str_contains(said, STR("200")));
    int64_t until_ms = clock_now_ms() + ANSWER_MS_MAX;
    bool ended = false;
    while (!ended && clock_now_ms() < until_ms)
        ended = is_ended(&world, fd);
    EXPECT(ended);
    EXPECT(!is_ended(&world, other));
    (void)close(fd);
    (void)close(other);
    world_close(&world);
}

TEST(discovery_says_in_which_version_objects_are_kept)
{
    static const struct {
        const char *path;
        const char *resource;
        const char *hash; /* the first 8 bytes of the SHA-256 of GROUP/VERSION/KIND, in base64 */
        const char *why;
    } rows[] = {
        {"/api/v1", "pods", "xPOwRZ+Yhw8=", "as kube-apiserver says it"},
        {"/apis/apps/v1", "deployments", "8aSe+NMegvE=", "of a group"},
        {"/api/v1", "events", "r2yiGXH7wu8=", "the one that is kept"},
        {"/apis/events.k8s.io/v1", "events", "r2yiGXH7wu8=", "another way to see it"},
        {"/api/v1", "pods/status", "", "a part of it is not kept by itself"},
    };
    struct world world;

    world_open(&world, NULL);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct answer answer = ask(&world, "GET", rows[i].path, "", "");
        struct str found = STR("none");

        test_case(rows[i].why);
        JSON_FOREACH(json_get(answer.body, "resources"), resource)
            if (str_is(json_str(json_get(resource, "name")), rows[i].resource))
                found = json_str(json_get(resource, "storageVersionHash"));
        EXPECT(str_is(found, rows[i].hash));
    }
    world_close(&world);
}
