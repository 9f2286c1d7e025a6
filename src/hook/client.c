#include "hook/client.h"

#include "api/api.h"
#include "api/service_find.h"
#include "base/arena.h"
#include "base/base64.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/vec.h"
#include "hook/review.h"
#include "kube/transport.h"
#include "tool/timer.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

/* A question goes: wait for a place - (a Service: its address) - a connection - the answer. */

/* One server that is asked, with its certificate authority. */
struct server {
    struct arena arena;
    struct str key; /* url, name, authority */
    struct transport *transport;
    int ca_fd; /* the authority in memory, which libcurl reads as a file; -1: the system's */
    unsigned calls;
    uint64_t used;
};

struct question {
    struct question *next;
    struct hook_client *client;
    struct arena arena;
    const struct hook *hook;
    struct str body;
    struct str url;  /* https://host:port */
    struct str path; /* /path?timeout=10s */
    struct str name; /* in the certificate; empty: the host of the url */
    int64_t port;    /* of the Service */
    struct server *server;
    struct transport_exchange *exchange;
    struct buf received;
    struct timer *later;
    struct err err;
    bool api_open; /* a call below has not come back */
    bool gone;     /* nobody waits any more */
    hook_answer_fn *answer;
    void *user;
};

struct hook_client {
    struct uv_loop_s *loop;
    struct api *api;
    VEC(struct server *) servers;
    VEC(struct question *) open;
    struct question *first_waiting;
    struct question **last_waiting;
    size_t waiting;
    uint64_t clock;
    bool closing;
};

static void question_begin(struct question *question);

/* ---- servers ---- */

static void server_free(struct server *server)
{
    transport_free(server->transport);
    if (server->ca_fd >= 0)
        close(server->ca_fd);
    arena_done(&server->arena);
    mem_free(server);
}

static int ca_open(struct str text, struct err *err)
{
    int fd = memfd_create("webhook-ca", MFD_CLOEXEC);

    if (fd < 0 || write(fd, text.p, text.len) != (ssize_t)text.len) {
        if (fd >= 0)
            close(fd);
        return err_set(err, -EIO, "cannot keep its caBundle");
    }
    return fd;
}

static struct server *server_make(struct hook_client *client,
                                  const struct question *question,
                                  struct str key,
                                  struct err *err)
{
    struct server *server = MEM_NEW(struct server);
    struct str ca = STR("");
    char path[64];

    server->ca_fd = -1;
    server->key = str_dup(&server->arena, key);
    struct str bundle = json_str_at(question->hook->spec, "clientConfig.caBundle");
    if (bundle.len && base64_decode(&server->arena, bundle, &ca) && ca.len)
        server->ca_fd = ca_open(ca, err);
    int r = bundle.len && server->ca_fd < 0
                ? err_set(err, -EINVAL, "its clientConfig.caBundle cannot be read")
                : transport_new(
                      &(struct transport_options){
                          .loop = client->loop,
                          .server = str_c(&server->arena, question->url),
                          .proxy = question->name.len ? "" : NULL, /* pods are near */
                          .user_agent = "muster-admission"},
                      &server->transport, err);
    if (r < 0) {
        if (server->ca_fd >= 0)
            close(server->ca_fd);
        arena_done(&server->arena);
        mem_free(server);
        return NULL;
    }
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", server->ca_fd);
    transport_set_tls(
        server->transport,
        &(struct transport_tls){
            .ca_file = server->ca_fd >= 0 ? path : NULL,
            .server_name = question->name.len ? str_c(&server->arena, question->name) : NULL});
    VEC_PUSH(NULL, &client->servers, server);
    return server;
}

/* Room for one more: the one that was used longest ago and has nothing under way. */
static void servers_trim(struct hook_client *client)
{
    size_t oldest = client->servers.count;

    for (size_t i = 0; client->servers.count >= HOOK_SERVERS_MAX && i < client->servers.count; i++)
        if (!client->servers.items[i]->calls &&
            (oldest == client->servers.count ||
             client->servers.items[i]->used < client->servers.items[oldest]->used))
            oldest = i;
    if (oldest == client->servers.count)
        return;
    server_free(client->servers.items[oldest]);
    VEC_REMOVE_SWAP(&client->servers, oldest);
}

static struct server *server_of(struct question *question, struct err *err)
{
    struct hook_client *client = question->client;
    struct str key =
        str_printf(&question->arena, STR_FMT "\n" STR_FMT "\n" STR_FMT, STR_ARG(question->url),
                   STR_ARG(question->name),
                   STR_ARG(json_str_at(question->hook->spec, "clientConfig.caBundle")));
    struct server *server = NULL;

    for (size_t i = 0; i < client->servers.count && !server; i++)
        if (str_eq(client->servers.items[i]->key, key))
            server = client->servers.items[i];
    if (!server) {
        servers_trim(client);
        server = server_make(client, question, key, err);
    }
    if (server)
        server->used = ++client->clock;
    return server;
}

/* ---- questions ---- */

static void question_free(struct question *question)
{
    timer_free(question->later);
    buf_done(&question->received);
    arena_done(&question->arena);
    mem_free(question);
}

static void client_next(struct hook_client *client)
{
    struct question *question = client->first_waiting;

    if (!question || client->closing || client->open.count >= HOOK_CALLS_MAX)
        return;
    client->first_waiting = question->next;
    if (!client->first_waiting)
        client->last_waiting = &client->first_waiting;
    client->waiting--;
    VEC_PUSH(NULL, &client->open, question);
    question_begin(question);
}

static void question_end(struct question *question, struct str body, const struct err *err)
{
    struct hook_client *client = question->client;
    hook_answer_fn *answer = question->answer;
    void *user = question->user;

    for (size_t i = 0; i < client->open.count; i++)
        if (client->open.items[i] == question) {
            VEC_REMOVE_SWAP(&client->open, i);
            break;
        }
    if (question->server)
        question->server->calls--;
    question->server = NULL;
    question->exchange = NULL;
    answer(user, body, err);
    question_free(question);
    client_next(client);
}

static void on_failed(void *user)
{
    struct question *question = user;

    question_end(question, STR(""), &question->err);
}

/* Never from inside hook_client_ask(). */
static void question_fail(struct question *question)
{
    timer_in(question->later, 0, on_failed);
}

static void on_data(void *user, struct str bytes)
{
    struct question *question = user;

    buf_add(&question->received, bytes);
    if (!question->received.overflow)
        return;
    transport_cancel(question->exchange);
    (void)err_set(&question->err, -EFBIG, "its answer has more than %zu bytes", REVIEW_BYTES_MAX);
    question_end(question, STR(""), &question->err);
}

static void on_reply(void *user, const struct transport_reply *reply)
{
    struct question *question = user;
    struct err *err = &question->err;

    if (reply->code == -ETIMEDOUT)
        (void)err_set(
            err, reply->code, "Post \"" STR_FMT STR_FMT "\": no answer before the deadline of %d s",
            STR_ARG(question->url), STR_ARG(question->path), question->hook->timeout_seconds);
    else if (reply->code < 0)
        (void)err_set(err, reply->code, "Post \"" STR_FMT STR_FMT "\": %s", STR_ARG(question->url),
                      STR_ARG(question->path), reply->err ? reply->err->text : "no answer");
    else if (reply->status < 200 || reply->status > 299)
        (void)err_set(err, -EPROTO, "the server answered with status %d: " STR_FMT, reply->status,
                      STR_ARG(str_sub(str_trim(reply->body), 0, 100)));
    question_end(question, buf_str(&question->received), err->code ? err : NULL);
}

static void question_send(struct question *question)
{
    question->server = server_of(question, &question->err);
    if (!question->server) {
        question_fail(question);
        return;
    }
    question->server->calls++;
    question->exchange = transport_send(
        question->server->transport,
        &(struct transport_request){.method = "POST",
                                    .path = question->path,
                                    .content_type = "application/json",
                                    .accept = "application/json",
                                    .body = question->body,
                                    .timeout_ms = 1000LL * question->hook->timeout_seconds,
                                    .once = true,
                                    .data = on_data,
                                    .done = on_reply,
                                    .user = question});
}

/* ---- Services ---- */

/* What came back while nobody waited any more. */
static bool api_returned(struct question *question)
{
    question->api_open = false;
    if (!question->gone)
        return true;
    question_free(question);
    return false;
}

static void place_missing(struct question *question, const struct service_place *place)
{
    const struct json *service = json_at(question->hook->spec, "clientConfig.service");
    const struct err *why = place->result ? place->result->err : NULL;

    if (place->lack == SERVICE_LACKS_ITSELF || place->lack == SERVICE_LACKS_ANSWER)
        (void)err_set(&question->err, -ENOENT, "%s", why ? why->text : "");
    else if (place->lack == SERVICE_LACKS_PORT)
        (void)err_set(&question->err, -ENOENT, "the service has no port %lld",
                      (long long)question->port);
    else
        (void)err_set(&question->err, -EHOSTUNREACH,
                      "no endpoints available for service \"" STR_FMT "\" in namespace " STR_FMT
                      ": none of its pods is ready",
                      STR_ARG(json_str(json_get(service, "name"))),
                      STR_ARG(json_str(json_get(service, "namespace"))));
}

static void on_place(void *user, const struct service_place *place)
{
    struct question *question = user;
    const struct json *service = json_at(question->hook->spec, "clientConfig.service");

    if (!api_returned(question))
        return;
    if (place->lack) {
        place_missing(question, place);
        question_fail(question);
        return;
    }
    bool v6 = str_find(place->ip, ':') < place->ip.len;
    question->url =
        str_printf(&question->arena, v6 ? "https://[" STR_FMT "]:%u" : "https://" STR_FMT ":%u",
                   STR_ARG(place->ip), (unsigned)place->port);
    question->name = str_printf(&question->arena, STR_FMT "." STR_FMT ".svc",
                                STR_ARG(json_str(json_get(service, "name"))),
                                STR_ARG(json_str(json_get(service, "namespace"))));
    question_send(question);
}

static void find_place(struct question *question)
{
    const struct json *service = json_at(question->hook->spec, "clientConfig.service");
    struct str port = str_printf(&question->arena, "%lld", (long long)question->port);

    question->api_open = true;
    service_find(question->client->api,
                 &(struct service_wish){.ns = json_str(json_get(service, "namespace")),
                                        .name = json_str(json_get(service, "name")),
                                        .port = port,
                                        .turn = (size_t)question->client->clock},
                 on_place, question);
}

static void question_begin(struct question *question)
{
    const struct json *client = json_get(question->hook->spec, "clientConfig");
    const struct json *service = json_get(client, "service");
    struct str url = json_str(json_get(client, "url"));
    struct str path;

    if (url.len) {
        struct str rest = str_sub(url, 8, url.len);
        size_t slash = str_find(rest, '/');

        question->url = str_sub(url, 0, 8 + slash);
        path = str_sub(rest, slash, rest.len);
    } else {
        path = json_str(json_get(service, "path"));
        question->port = json_i64_or(json_get(service, "port"), 443);
    }
    question->path =
        str_printf(&question->arena, STR_FMT "?timeout=%ds", STR_ARG(path.len ? path : STR("/")),
                   question->hook->timeout_seconds);
    if (url.len)
        question_send(question);
    else
        find_place(question);
}

/* ---- */

struct hook_client *hook_client_new(struct uv_loop_s *loop, struct api *api)
{
    struct hook_client *client = MEM_NEW(struct hook_client);

    client->loop = loop;
    client->api = api;
    client->last_waiting = &client->first_waiting;
    return client;
}

void hook_client_ask(struct hook_client *client,
                     const struct hook *hook,
                     struct str body,
                     hook_answer_fn *answer,
                     void *user)
{
    struct question *question = MEM_NEW(struct question);

    question->client = client;
    question->hook = hook;
    question->body = str_dup(&question->arena, body);
    question->received.bytes_max = REVIEW_BYTES_MAX;
    question->later = timer_new(client->loop, question);
    question->answer = answer;
    question->user = user;
    if (client->waiting >= HOOK_WAITING_MAX) {
        (void)err_set(&question->err, -EBUSY,
                      "%d requests to webhooks wait already; try again in a moment",
                      HOOK_WAITING_MAX);
        VEC_PUSH(NULL, &client->open, question); /* so that the end of the client finds it */
        question_fail(question);
        return;
    }
    question->next = NULL;
    *client->last_waiting = question;
    client->last_waiting = &question->next;
    client->waiting++;
    client_next(client);
}

/* A call below may still come back to it. */
static void question_drop(struct question *question)
{
    question->gone = true;
    transport_cancel(question->exchange);
    timer_cancel(question->later);
    if (!question->api_open)
        question_free(question);
}

void hook_client_free(struct hook_client *client)
{
    if (!client)
        return;
    client->closing = true;
    for (size_t i = 0; i < client->open.count; i++)
        question_drop(client->open.items[i]);
    for (struct question *question = client->first_waiting, *next; question; question = next) {
        next = question->next;
        question_drop(question);
    }
    for (size_t i = 0; i < client->servers.count; i++)
        server_free(client->servers.items[i]);
    VEC_DONE(&client->servers);
    VEC_DONE(&client->open);
    mem_free(client);
}
