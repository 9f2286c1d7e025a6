#include "server/server.h"

#include "api/api.h"
#include "api/kind.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "control/cluster/progress.h"
#include "http/jwt.h"
#include "http/server.h"
#include "http1/parse.h"
#include "server/aggregate.h"
#include "server/audit.h"
#include "server/authz.h"
#include "server/fair.h"
#include "server/kubelet.h"
#include "server/oidc.h"
#include "server/request.h"
#include "server/route.h"
#include "server/virtual.h"
#include "tool/clock.h"
#include "tool/timer.h"
#include "tool/turn.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

/* Objects are 1.5 MiB at most, and so are patches of them in most cases; Kubernetes takes 3 MiB. */
#define BODY_BYTES_MAX ((size_t)3 << 20)

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

/* Its body is not kept. */
static bool is_passed_on(const struct request *request)
{
    return request->handed_on || is_proxy(request);
}

/* The API server that answers it, if that is another one. All that is below its group version is
 * about its resources, also what no path of ours looks like. */
static const struct extension *extension_of(struct request *request)
{
    struct route *route = &request->route;
    bool below = route->group.len && route->version.len &&
                 (route->type == ROUTE_RESOURCE || route->type == ROUTE_GROUP_VERSION ||
                  (route->type == ROUTE_UNKNOWN && route->plural.len));
    bool document = route->type == ROUTE_OPENAPI_DOC && route->group.len;
    const struct extension *extension =
        below || document ? aggregate_find(request->server->aggregate, route->group, route->version)
                          : NULL;

    if (document && extension && !extension_openapi(extension).len)
        return NULL;
    if (extension && route->type == ROUTE_UNKNOWN)
        route->type = ROUTE_RESOURCE;
    return extension;
}

static void server_unref(struct server *server)
{
    if (--server->refs)
        return;
    fair_done(&server->fair);
    audit_close(server->audit);
    page_free(server->page);
    buf_done(&server->token);
    buf_done(&server->token_key);
    mem_free(server);
}

/* ---- a request's way ---- */

static const char *const methods[SERVER_METHODS] = {"GET",   "POST",   "PUT",
                                                    "PATCH", "DELETE", "other"};

static void count_answer(struct server *server, const struct http_exchange *x)
{
    size_t method = 0;

    while (method < SERVER_METHODS - 1 && !str_is(x->head.method, methods[method]))
        method++;
    if (x->status >= 100 && x->status < 100 * (SERVER_CLASSES + 1))
        server->answered[method][x->status / 100 - 1]++;
}

size_t server_counts(const struct server *server, struct server_count ret[static SERVER_COUNTS_MAX])
{
    size_t count = 0;

    for (size_t m = 0; m < SERVER_METHODS; m++)
        for (unsigned c = 0; c < SERVER_CLASSES; c++)
            if (server->answered[m][c])
                ret[count++] = (struct server_count){methods[m], c + 1, server->answered[m][c]};
    return count;
}

/* The exchange is released: whatever became of it, it is over. */
static void request_end(void *user)
{
    struct request *request = user;
    struct server *server = request->server;

    count_answer(server, request->x);
    if (request->load_user.len)
        (void)fair_pending(&server->fair, request->load_user, &request->pending, 0);
    if (request->load_user.len)
        fair_leave(&server->fair, request->load_user, &request->load);
    if (request->audited)
        audit_end(server->audit, request, clock_now_ms());
    if (request->at)
        *request->at = request->next;
    if (request->at && request->next)
        request->next->at = request->at;
    server_unref(server);
}

/* How many streams it is: what lasts as long as both sides like. A tab of the page has several
 * watches on its one connection. */
static size_t streams_of(const struct request *request)
{
    struct str sub = request->route.subresource;
    struct str query = request->x->head.query;
    size_t watches = page_stream_watches(request);

    if (watches)
        return watches;
    return route_leads_into_pods(&request->route) || http_query_bool(query, "watch") ||
           (request->handed_on && request->x->head.upgrade) ||
           (str_is(sub, "log") && http_query_bool(query, "follow"));
}

/* Whose credentials a request came with. */
static const struct user *bearer_of(const struct request *request)
{
    return request->impersonator.name.len ? &request->impersonator : &request->user;
}

static void end_stream(struct request *request)
{
    if ((request->stream || streams_of(request)) && http_is_open(request->x))
        http_abort(request->x);
}

/* When the clock is set, that is noticed so much later at most. */
#define EXPIRY_MS_MAX 60000

static void on_expiry(void *user);

static void expiry_until(struct server *server, int64_t expires_ms)
{
    int64_t left_ms = expires_ms - clock_now_ms();

    if (!server->expiry)
        timer_unref(server->expiry = timer_new(server->loop, server));
    if (left_ms > EXPIRY_MS_MAX)
        left_ms = EXPIRY_MS_MAX;
    if (left_ms < timer_due_in_ms(server->expiry))
        timer_in(server->expiry, left_ms, on_expiry);
}

/* What was opened with a token lasts no longer than the token. */
static void on_expiry(void *user)
{
    struct server *server = user;
    struct request *next;

    for (struct request *request = server->bearers; request; request = next) {
        int64_t expires_ms = bearer_of(request)->expires_ms;

        next = request->next;
        if (expires_ms && expires_ms <= clock_now_ms())
            end_stream(request);
        else if (expires_ms)
            expiry_until(server, expires_ms);
    }
}

static void bearers_add(struct request *request)
{
    struct server *server = request->server;

    if (request->at || bearer_of(request)->owner || !bearer_of(request)->uid.len)
        return;
    request->at = &server->bearers;
    request->next = server->bearers;
    if (request->next)
        request->next->at = &request->next;
    server->bearers = request;
    if (bearer_of(request)->expires_ms && streams_of(request))
        expiry_until(server, bearer_of(request)->expires_ms);
}

/* An account or a pod has ended, and tokens with it. A request that is answered at once was right to be
 * asked; what lasts as long as both sides like ends now. */
static void on_gone(void *user, struct str uid)
{
    struct server *server = user;
    struct request *next;

    for (struct request *request = server->bearers; request; request = next) {
        const struct user *bearer = bearer_of(request);

        next = request->next;
        if (str_eq(bearer->uid, uid) || str_eq(bearer->pod_uid, uid))
            end_stream(request);
    }
}

/* What changes something, and streams into pods; questions that are asked by POST are none. */
static void audit_if_write(struct request *request)
{
    struct server *server = request->server;
    struct str method = request->x->head.method;
    bool reads = str_is(method, "GET") || str_is(method, "HEAD");
    bool stream = route_leads_into_pods(&request->route);

    if (!server->audit || request->route.type != ROUTE_RESOURCE || (reads && !stream) ||
        virtual_group(request->route.group))
        return;
    request->audited = true;
    request->from = http_peer_address(request->x);
    request->number = ++server->audited;
}

/* False when answered: the user has enough under way. */
static bool take_part(struct request *request)
{
    struct http_exchange *x = request->x;
    struct str name = bearer_of(request)->name;
    struct fair_load load = {.streams = streams_of(request)};
    size_t announced = x->head.content_length > 0 ? (size_t)x->head.content_length : 0;

    bearers_add(request);
    if (request->user.owner || request->impersonator.owner)
        return true;
    if (!is_passed_on(request))
        load.body_bytes = x->head.chunked || announced > x->body_max ? x->body_max : announced;
    const char *full = fair_enter(&request->server->fair, name, &load);
    if (!full) {
        request->load = load;
        request->load_user = name;
        return true;
    }
    status_reply(request,
                 &(struct status){.code = 429,
                                  .reason = "TooManyRequests",
                                  .message = str_printf(request_arena(request),
                                                        "User \"" STR_FMT
                                                        "\" has %s, which is as much as one user "
                                                        "may have; try again in a second",
                                                        STR_ARG(name), full),
                                  .retry_after_s = 1});
    return false;
}

/* Who asks is known. True: the request goes on. */
static bool enter(struct request *request)
{
    if (request->route.type == ROUTE_RESOURCE)
        request->x->body_max = BODY_BYTES_MAX;
    bool as = identify_as(request);
    audit_if_write(request);
    if (as && !is_passed_on(request) && request->x->head.content_length > (int64_t)BODY_BYTES_MAX) {
        request_fail(request, 413, "RequestEntityTooLarge",
                     "Request entity too large: limit is %zu", BODY_BYTES_MAX);
        return false;
    }
    return as && take_part(request);
}

static void request_begin(struct request *request)
{
    struct http_exchange *x = request->x;
    struct err err = {0};

    if (request->server->kubelet && !kubelet_path(&x->arena, &x->head.path, &x->head.query)) {
        request_fail(request, 404, "NotFound", "a node serves logs, exec, attach and ports only");
        return;
    }
    if (page_begin(request))
        return;
    if (request->page == PAGE_OWN) {
        if (request->user.name.len)
            (void)take_part(request);
        return;
    }
    if (route_parse(&x->arena, x->head.path, &request->route, &err) < 0) {
        request_fail(request, 400, "BadRequest", "%s", err.text);
        return;
    }
    const struct extension *extension = extension_of(request);
    request->handed_on = extension != NULL;
    if (request->page == PAGE_API && (extension || route_leads_into_pods(&request->route))) {
        /* What others answer would be of the page's own origin, and could act as the viewer. */
        request_fail(request, 403, "Forbidden", "the page does not lead into %s; use kubectl",
                     extension ? "other API servers" : "pods");
        return;
    }
    bool known = request->page == PAGE_API || identify(request);
    if (progress_is(request)) { /* its token says all: nobody else's is good here */
        x->body_max = PROGRESS_BYTES_MAX;
        if (!known || !progress_is_from(request))
            request_fail(request, 403, "Forbidden", "the token is not for this TrainJob");
        return;
    }
    if (!known && !is_public(request->route.type)) {
        request_fail(request, 401, "Unauthorized", "Unauthorized");
        return;
    }
    if (known && !enter(request))
        return;
    if (request->route.type == ROUTE_RESOURCE)
        request->kind = kinds_by_plural(request->server->api->kinds, request->route.group,
                                        request->route.version, request->route.plural);
    if (!is_public(request->route.type) && !authz_check(request))
        return;
    if (request->audited && route_leads_into_pods(&request->route))
        audit_begin(request->server->audit, request);
    if (extension)
        extension_begin(request, extension);
    else if (is_proxy(request))
        proxy_begin(request);
}

/* What is done for a request at once is a piece of the loop's turn. The exchange lives as long. */
static void in_turn(struct request *request, void (*work)(struct request *request))
{
    struct http_exchange *x = http_ref(request->x);
    struct turn_piece piece = {request->user.name, x->head.method, x->head.path};

    turn_enter(request->server->loop, &piece);
    work(request);
    piece.who = request->user.name;
    turn_leave(request->server->loop, &piece);
    http_unref(x);
}

static void begin(void *user, struct http_exchange *x)
{
    struct request *request = ARENA_NEW(&x->arena, struct request);

    request->server = user;
    request->x = x;
    request->received_ms = clock_now_ms();
    x->user = request;
    request->server->refs++;
    arena_defer(&x->arena, request_end, request);
    in_turn(request, request_begin);
}

static void health(struct request *request)
{
    const struct server *server = request->server;
    const char *why = str_starts(request->x->head.path, STR("/readyz")) && server->not_ready
                          ? server->not_ready(server->not_ready_user)
                          : NULL;

    if (why) {
        http_reply(request->x, 503, "text/plain; charset=utf-8", str_from(why));
        return;
    }
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

/* Lines of JSON about jobs; with ?namespace=, of that one, which is what authz_check() has looked at. */
static void reply_lines(struct request *request, struct str lines)
{
    struct arena *arena = request_arena(request);
    struct str ns = http_query(arena, request->x->head.query, "namespace");
    _cleanup_(buf_done) struct buf some = {0};
    struct str line;

    for (struct str rest = lines; ns.len && str_cut(&rest, '\n', &line);) {
        struct json *job = NULL;

        if (json_parse(arena, line, &job, NULL) < 0 ||
            !str_eq(json_str(json_get(job, "namespace")), ns))
            continue;
        buf_add(&some, line);
        buf_addc(&some, '\n');
    }
    http_reply(request->x, 200, "application/x-ndjson", ns.len ? buf_str(&some) : lines);
}

static void accounts(struct request *request)
{
    const struct server *server = request->server;
    struct str uid = http_query(request_arena(request), request->x->head.query, "uid");
    _cleanup_(buf_done) struct buf text = {0};

    if (!server->accounts) {
        request_not_found(request);
        return;
    }
    server->accounts(server->accounts_user, uid, &text);
    reply_lines(request, buf_str(&text));
}

static void history_get(struct request *request)
{
    const struct server *server = request->server;
    _cleanup_(buf_done) struct buf text = {0};

    if (!server->history) {
        request_not_found(request);
        return;
    }
    server->history(server->accounts_user, &text);
    reply_lines(request, buf_str(&text));
}

static void root(struct request *request)
{
    http_reply(
        request->x, 200, "application/json",
        STR("{\"paths\":[\"/accounts\",\"/api\",\"/apis\",\"/healthz\",\"/history\",\"/livez\",\"/"
            "metrics\",\"/openapi/v2\","
            "\"/openapi/v3\",\"/openid/v1/jwks\",\"/readyz\",\"/ui\",\"/version\"]}\n"));
}

/* Where others find what they check tokens with that are for them (http/jwt.h). */
static void issuer(struct request *request)
{
    http_reply(request->x, 200, "application/json",
               STR("{\"issuer\":\"" JWT_ISSUER "\",\"jwks_uri\":\"" JWT_ISSUER
                   "/openid/v1/jwks\",\"response_types_supported\":[\"id_token\"],"
                   "\"subject_types_supported\":[\"public\"],"
                   "\"id_token_signing_alg_values_supported\":[\"ES256\"]}"));
}

static void issuer_keys(struct request *request)
{
    _cleanup_(buf_done) struct buf keys = {0};

    jwt_keys(&keys, buf_str(&request->server->token_key));
    http_reply(request->x, 200, "application/jwk-set+json", buf_str(&keys));
}

static void request_handle(struct request *request)
{
    const struct http_head *head = &request->x->head;
    bool reads = str_is(head->method, "GET") || str_is(head->method, "HEAD");

    if (request->page == PAGE_OWN) {
        page_handle(request);
        return;
    }
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
    case ROUTE_ACCOUNTS: accounts(request); break;
    case ROUTE_HISTORY: history_get(request); break;
    case ROUTE_VERSION: version_get(request); break;
    case ROUTE_ISSUER: issuer(request); break;
    case ROUTE_ISSUER_KEYS: issuer_keys(request); break;
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

static void handle(void *user, struct http_exchange *x)
{
    (void)user;
    in_turn(x->user, request_handle);
}

int server_start(uv_loop_t *loop,
                 struct api *api,
                 const struct server_options *options,
                 struct server **ret,
                 struct err *err)
{
    struct server *server = MEM_NEW(struct server);
    int r = 0;

    server->refs = 1;
    server->loop = loop;
    server->api = api;
    server->log = options->log;
    server->kubelet = options->kubelet;
    buf_add(&server->token, options->token);
    buf_add(&server->token_key, options->token_key);
    if (options->audit_log)
        r = audit_open(options->audit_log, 0, server->log, &server->audit, err);
    if (r == 0)
        r = http_server_start(&(struct http_server_options){.loop = loop,
                                                            .address = options->address,
                                                            .port = options->port,
                                                            .tls = options->tls,
                                                            .begin = begin,
                                                            .handle = handle,
                                                            .user = server},
                              &server->http, err);
    if (r < 0) {
        server_unref(server);
        return r;
    }
    server->authz = authz_new(api, !options->kubelet);
    authz_set_gone(server->authz, on_gone, server);
    if (!options->kubelet) {
        server->page = page_new(server, options);
        server->aggregate = aggregate_new(server, options);
        if (options->oidc && options->oidc->issuer.len)
            server->oidc = oidc_start(loop, server->log, options->oidc);
    }
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

void server_set_accounts(struct server *server,
                         void (*write)(void *user, struct str uid, struct buf *out),
                         void (*history)(void *user, struct buf *out),
                         void *user)
{
    server->accounts = write;
    server->history = history;
    server->accounts_user = user;
}

void server_set_ready(struct server *server, const char *(*why)(void *user), void *user)
{
    server->not_ready = why;
    server->not_ready_user = user;
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
    aggregate_free(server->aggregate);
    server->aggregate = NULL;
    authz_free(server->authz);
    timer_free(server->expiry);
    server->expiry = NULL;
    oidc_stop(server->oidc);
    server->oidc = NULL;
    server_unref(server);
}
