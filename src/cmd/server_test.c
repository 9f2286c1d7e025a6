#include "api/api.h"
#include "api/kind.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "server/server.h"
#include "store/harness.h"
#include "test.h"
#include "tool/file.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

/* Requests as they come over a socket, to a server on a store in memory. */

#define OWNER_TOKEN   "0123456789abcdef0123456789abcdef"
#define ANSWER_MS_MAX 30000
#define ANSWER_BYTES  ((size_t)1 << 20)
#define CONFIGMAPS    "/api/v1/namespaces/default/configmaps"
#define NAMED(name)   "{\"metadata\":{\"name\":\"" name "\"}}"

struct world {
    struct harness harness;
    struct server *server;
    struct arena arena;
};

static void world_open(struct world *world, const char *audit_log)
{
    struct err err = {0};

    *world = (struct world){0};
    harness_open(&world->harness, NULL);
    EXPECT(server_start(&world->harness.loop, world->harness.api,
                        &(struct server_options){.address = "127.0.0.1",
                                                 .token = STR(OWNER_TOKEN),
                                                 .token_key = STR("a key that signs tokens, 32 b"),
                                                 .audit_log = audit_log},
                        &world->server, &err) == 0);
    harness_settle(&world->harness);
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

/* Turns the loop until the whole answer is there. */
static struct str received(struct world *world, int fd)
{
    struct buf text = {.bytes_max = ANSWER_BYTES};
    ssize_t got = -1;

    for (int ms = 0; ms < ANSWER_MS_MAX && got != 0; ms++) {
        (void)uv_run(&world->harness.loop, UV_RUN_NOWAIT);
        (void)poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, 1);
        char piece[4096];
        got = recv(fd, piece, sizeof(piece), MSG_DONTWAIT);
        if (got > 0)
            buf_add(&text, (struct str){piece, (size_t)got});
    }
    struct str result = str_dup(&world->arena, buf_str(&text));
    buf_done(&text);
    return result;
}

/* As the owner; `more` are further headers. */
static struct answer ask(struct world *world,
                         const char *method,
                         const char *path,
                         const char *more,
                         const char *body)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons(server_port(world->server)),
                             .sin_addr = {htonl(INADDR_LOOPBACK)}};
    struct str text = str_printf(&world->arena,
                                 "%s %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                                 "Authorization: Bearer " OWNER_TOKEN "\r\n%s"
                                 "Content-Length: %zu\r\n\r\n%s",
                                 method, path, more, str_from(body).len, body);
    struct answer answer = {0};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    EXPECT(fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof(to)) == 0);
    EXPECT(send(fd, text.p, text.len, MSG_NOSIGNAL) == (ssize_t)text.len);
    text = received(world, fd);
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
        world_close(&world);
        (void)unlink(path);
    }
    (void)rmdir(folder);
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
               .status == 400);
    world_close(&world);
}
