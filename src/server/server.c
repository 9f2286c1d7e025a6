#include "server/server.h"

#include "api/api.h"
#include "api/kind.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "control/cluster/progress.h"
#include "http/server.h"
#include "server/authz.h"
#include "server/kubelet.h"
#include "server/request.h"
#include "server/route.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

/* Requests enter here: who asks, what for; then the file of the matter takes over. */

/* Everyone may ask these: probes carry no token. */
static bool is_public(enum route_type type)
{
    return type == ROUTE_HEALTH || type == ROUTE_VERSION;
}

static bool is_proxy(const struct request *request)
{
    return request->route.type == ROUTE_RESOURCE && str_is(request->route.subresource, "proxy");
}

static void begin(void *user, struct http_exchange *x)
{
    struct request *request = ARENA_NEW(&x->arena, struct request);
    struct err err = {0};

    request->server = user;
    request->x = x;
    x->user = request;
    if (request->server->kubelet && !kubelet_path(&x->arena, &x->head.path, &x->head.query)) {
        request_fail(request, 404, "NotFound", "a node serves logs, exec, attach and ports only");
        return;
    }
    if (route_parse(&x->arena, x->head.path, &request->route, &err) < 0) {
        request_fail(request, 400, "BadRequest", "%s", err.text);
        return;
    }
    bool known = identify(request);
    if (progress_is(request)) { /* its token says all: nobody else's is good here */
        x->body_max = PROGRESS_BYTES_MAX;
        if (!known)
            request_fail(request, 403, "Forbidden", "the token is not for this TrainJob");
        return;
    }
    if (!known && !is_public(request->route.type)) {
        request_fail(request, 401, "Unauthorized", "Unauthorized");
        return;
    }
    if (known && !identify_as(request))
        return;
    if (request->route.type == ROUTE_RESOURCE)
        request->kind = kinds_by_plural(request->server->api->kinds, request->route.group,
                                        request->route.version, request->route.plural);
    if (!is_public(request->route.type) && !authz_check(request))
        return;
    if (is_proxy(request))
        proxy_begin(request);
}

static void health(struct request *request)
{
    http_reply(request->x, 200, "text/plain; charset=utf-8", STR("ok"));
}

static void metrics(struct request *request)
{
    const struct server *server = request->server;
    _cleanup_(buf_done) struct buf text = {0};

    if (!server->metrics) {
        request_not_found(request);
        return;
    }
    server->metrics(server->metrics_user, &text);
    http_reply(request->x, 200, "text/plain; version=0.0.4", buf_str(&text));
}

static void root(struct request *request)
{
    http_reply(
        request->x, 200, "application/json",
        STR("{\"paths\":[\"/api\",\"/apis\",\"/healthz\",\"/livez\",\"/metrics\",\"/openapi/v2\","
            "\"/openapi/v3\",\"/readyz\",\"/version\"]}\n"));
}

static void handle(void *user, struct http_exchange *x)
{
    struct request *request = x->user;
    bool reads = str_is(x->head.method, "GET") || str_is(x->head.method, "HEAD");

    (void)user;
    if (request->route.type != ROUTE_RESOURCE && !reads) {
        request_fail(request, 405, "MethodNotAllowed",
                     "the server does not allow this method on the requested resource");
        return;
    }
    switch (request->route.type) {
    case ROUTE_RESOURCE:
        if (progress_is(request))
            progress_handle(request, request->server->api);
        else
            resource_handle(request);
        break;
    case ROUTE_ROOT: root(request); break;
    case ROUTE_HEALTH: health(request); break;
    case ROUTE_METRICS: metrics(request); break;
    case ROUTE_VERSION: version_get(request); break;
    case ROUTE_API: discovery_api(request); break;
    case ROUTE_APIS: discovery_apis(request); break;
    case ROUTE_GROUP: discovery_group(request); break;
    case ROUTE_GROUP_VERSION: discovery_group_version(request); break;
    case ROUTE_OPENAPI_V2: openapi_v2(request); break;
    case ROUTE_OPENAPI_V3: openapi_v3(request); break;
    case ROUTE_OPENAPI_DOC: openapi_document(request); break;
    case ROUTE_UNKNOWN: request_not_found(request); break;
    }
}

static void server_free(struct server *server)
{
    buf_done(&server->token);
    buf_done(&server->token_key);
    mem_free(server);
}

int server_start(uv_loop_t *loop,
                 struct api *api,
                 const struct server_options *options,
                 struct server **ret,
                 struct err *err)
{
    struct server *server = MEM_NEW(struct server);

    server->loop = loop;
    server->api = api;
    server->log = options->log;
    server->kubelet = options->kubelet;
    buf_add(&server->token, options->token);
    buf_add(&server->token_key, options->token_key);
    int r = http_server_start(&(struct http_server_options){.loop = loop,
                                                            .address = options->address,
                                                            .port = options->port,
                                                            .tls = options->tls,
                                                            .begin = begin,
                                                            .handle = handle,
                                                            .user = server},
                              &server->http, err);
    if (r < 0) {
        server_free(server);
        return r;
    }
    server->authz = authz_new(api, !options->kubelet);
    *ret = server;
    return 0;
}

void server_set_metrics(struct server *server,
                        void (*write)(void *user, struct buf *text),
                        void *user)
{
    server->metrics = write;
    server->metrics_user = user;
}

uint16_t server_port(const struct server *server)
{
    return http_server_port(server->http);
}

void server_set_podio(struct server *server, struct podio *podio)
{
    server->podio = podio;
}

void server_stop(struct server *server)
{
    if (!server)
        return;
    /* on_close handlers still look at the server. */
    http_server_stop(server->http);
    authz_free(server->authz);
    server_free(server);
}
