#include "server/upgrade.h"

#include "api/api.h"
#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/count.h"
#include "base/json.h"
#include "base/json_make.h"
#include "base/str.h"
#include "http/server.h"
#include "http/websocket.h"
#include "http1/parse.h"
#include "server/request.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CONNECT_WORDS_MAX 1024 /* as exec.c takes */

static bool wants(const struct request *request, const char *what)
{
    const struct http_head *head = &request->x->head;

    return head->upgrade && http_token_in(http_head_get(head, "Upgrade"), what);
}

/* Clients repeat the header or list several in one. */
static const char *choose(const struct request *request,
                          const char *header,
                          const char *const *protocols)
{
    const struct http_head *head = &request->x->head;

    for (; *protocols; protocols++)
        for (size_t i = 0; i < head->header_count; i++)
            if (http_equal_nocase(head->headers[i].name, str_from(header)) &&
                http_token_in(head->headers[i].value, *protocols))
                return *protocols;
    return NULL;
}

bool upgrade_is_websocket(const struct request *request)
{
    return wants(request, "websocket");
}

bool upgrade_to_websocket(struct request *request, const char *protocol)
{
    const struct http_head *head = &request->x->head;
    struct str key = http_head_get(head, "Sec-WebSocket-Key");
    char accept[WEBSOCKET_ACCEPT_BYTES];

    if (!key.len || !str_is(http_head_get(head, "Sec-WebSocket-Version"), "13"))
        return false;
    websocket_accept_key(key, accept);
    http_header(request->x, "Sec-WebSocket-Accept", str_from(accept));
    if (protocol)
        http_header(request->x, "Sec-WebSocket-Protocol", str_from(protocol));
    http_upgrade(request->x, "websocket");
    return true;
}

/* The protocol that was agreed on; NULL: none, and the request has been answered. */
static const char *agree_websocket(struct request *request, const struct upgrade *upgrade)
{
    const char *const *protocols = upgrade->websocket_protocols;
    const char *protocol = choose(request, "Sec-WebSocket-Protocol", protocols);
    bool named = http_head_get(&request->x->head, "Sec-WebSocket-Protocol").len > 0;

    if (!named)
        protocol = upgrade->websocket_default;
    if (!protocol || !upgrade_to_websocket(request, named ? protocol : NULL)) {
        request_fail(request, 400, "BadRequest",
                     "WebSocket: version 13 and one of our subprotocols (such as %s) are needed",
                     protocols[0]);
        return NULL;
    }
    return protocol;
}

static const char *agree_spdy(struct request *request, const char *const *protocols)
{
    const char *protocol = choose(request, "X-Stream-Protocol-Version", protocols);

    if (!protocol) {
        request_fail(request, 403, "Forbidden",
                     "SPDY: none of the offered stream protocols is supported here; use %s",
                     protocols[0]);
        return NULL;
    }
    http_header(request->x, "X-Stream-Protocol-Version", str_from(protocol));
    http_upgrade(request->x, "SPDY/3.1");
    return protocol;
}

/* The answer about the pod is awaited. */
struct waiting {
    struct request *request;
    const struct upgrade *upgrade;
};

static void begin(const struct waiting *waiting, const struct json *pod)
{
    struct request *request = waiting->request;
    const struct upgrade *upgrade = waiting->upgrade;

    if (!json_str_at(pod, "spec.nodeName").len) {
        request_fail(request, 400, "BadRequest", "pod " STR_FMT " does not have a host assigned",
                     STR_ARG(request->route.name));
        return;
    }
    if (upgrade->check && !upgrade->check(request, pod))
        return;
    const char *protocol = upgrade_is_websocket(request)
                               ? agree_websocket(request, upgrade)
                               : agree_spdy(request, upgrade->spdy_protocols);
    if (!protocol)
        return;
    request->x->on_data = upgrade->on_data;
    request->x->on_drain = upgrade->on_drain;
    request->x->on_close = upgrade->on_close;
    upgrade->begin(request, protocol);
}

static void on_pod(void *user, const struct api_result *result)
{
    const struct waiting *waiting = user;
    struct request *request = waiting->request;

    if (http_is_open(request->x)) {
        if (result->code < 0)
            request_fail_result(request, result);
        else
            begin(waiting, object_json(result->object, request_arena(request)));
    }
    http_unref(request->x);
}

/* What Kubernetes calls what is asked for; NULL: nobody has a say in it. */
static const char *connect_kind(struct str subresource)
{
    static const char *const kinds[][2] = {{"exec", "PodExecOptions"},
                                           {"attach", "PodAttachOptions"},
                                           {"portforward", "PodPortForwardOptions"}};

    for (size_t i = 0; i < COUNT_OF(kinds); i++)
        if (str_is(subresource, kinds[i][0]))
            return kinds[i][1];
    return NULL;
}

/* What a client asks for in the query, as the object that Kubernetes makes of it. */
static struct str connect_options(struct request *request, const char *kind)
{
    static const char *const flags[] = {"stdin", "stdout", "stderr", "tty"};
    struct arena *arena = request_arena(request);
    struct str query = request->x->head.query;
    struct json *options = json_make(arena, "{kind: $, apiVersion: 'v1'}", kind);
    struct str *words = ARENA_ARRAY(arena, struct str, CONNECT_WORDS_MAX);
    struct str container = http_query(arena, query, "container");

    for (size_t i = 0; i < COUNT_OF(flags); i++)
        if (http_query_bool(query, flags[i]))
            json_add_bool(arena, options, flags[i], true);
    if (container.len)
        json_add_str(arena, options, "container", container);
    size_t count = http_query_all(arena, query, "command", words, CONNECT_WORDS_MAX);
    struct json *command = count ? json_add_array(arena, options, "command") : NULL;
    for (size_t i = 0; i < count && i < CONNECT_WORDS_MAX; i++)
        json_push(command, json_new_str(arena, words[i]));
    struct str list = http_query(arena, query, "ports"), port;
    struct json *ports = list.len ? json_add_array(arena, options, "ports") : NULL;
    while (list.len) {
        int64_t number = 0;

        if (!str_cut(&list, ',', &port)) {
            port = list;
            list = STR("");
        }
        if (str_to_i64(port, &number))
            json_push(ports, json_new_i64(arena, number));
    }
    return json_text(arena, options);
}

void upgrade_pod(struct request *request, const struct upgrade *upgrade)
{
    struct waiting *waiting = ARENA_NEW(request_arena(request), struct waiting);

    if (!request->server->podio) {
        request_fail(request, 503, "ServiceUnavailable", "no node agent runs here");
        return;
    }
    if (!wants(request, "websocket") && !wants(request, "SPDY/3.1")) {
        request_fail(request, 400, "BadRequest", "Upgrade request required: websocket or SPDY/3.1");
        return;
    }
    *waiting = (struct waiting){request, upgrade};
    (void)http_ref(request->x);
    struct api_request call = {
        .verb = API_GET, .kind = &kind_pod, .ns = request->route.ns, .name = request->route.name};
    const char *options = connect_kind(request->route.subresource);
    if (options) { /* admission is asked */
        request->writer = (struct api_user){.name = request->user.name,
                                            .uid = request->user.uid,
                                            .groups = request->user.groups,
                                            .group_count = request->user.group_count};
        call.connect = true;
        call.subresource = request->route.subresource;
        call.body = connect_options(request, options);
        call.user = &request->writer;
    }
    api_call(request->server->api, &call, on_pod, waiting);
}
