#include "api/api.h"
#include "api/kind.h"
#include "api/object.h"
#include "api/podio.h"
#include "api/service_find.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "http/server.h"
#include "http/tls_client.h"
#include "http1/parse.h"
#include "http1/response.h"
#include "server/attributes.h"
#include "server/peer.h"
#include "server/relay.h"
#include "server/request.h"
#include "server/rewrite.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/socket.h>

/* pods/NAME:PORT/proxy/... and services/NAME:PORT/proxy/...: the request goes to the pod's port as
 * it came, less what concerns our connection, and the answer comes back the same way, but for links
 * (server/rewrite.h). https:NAME:PORT is asked by TLS, whoever answers. */

#define HTTP_PORT    80
#define HTTPS_PORT   443
#define ADDRESS_TEXT (INET6_ADDRSTRLEN + 8) /* "[...]:65535" */

struct proxy {
    struct relay relay; /* first */
    bool secure;        /* https: */
    struct str port;    /* as it was asked for */
    bool page;          /* its links are rewritten */
    struct rewrite rewrite;
    char pod_address[ADDRESS_TEXT];
};

static void proxy_done(struct relay *relay)
{
    rewrite_done(&((struct proxy *)relay)->rewrite);
}

static void proxy_fail(struct relay *relay, const char *why)
{
    const struct route *route = &relay->request->route;

    request_fail(relay->request, 502, "ServiceUnavailable",
                 "error trying to reach pod " STR_FMT "/" STR_FMT ": %s", STR_ARG(route->ns),
                 STR_ARG(route->name), why);
}

/* A token the pod must not see, what would hide links from us, and what we say ourselves. */
static bool keeps_back(struct str name)
{
    return http_equal_nocase(name, STR("Authorization")) ||
           http_equal_nocase(name, STR("Accept-Encoding")) ||
           http_equal_nocase(name, STR("X-Forwarded-Uri"));
}

static void send_head(struct proxy *proxy)
{
    const struct request *request = proxy->relay.request;

    relay_write_head(&proxy->relay, request->route.rest.len ? request->route.rest : STR("/"),
                     keeps_back);
    buf_addf(&proxy->relay.early, "X-Forwarded-Uri: " STR_FMT "\r\n",
             STR_ARG(request->x->head.path));
    relay_end_head(&proxy->relay);
}

/* Where the pod listens, as a program there would write it: "10.1.0.2:80". */
static void find_pod_address(struct proxy *proxy)
{
    struct sockaddr_in at = {0};
    socklen_t size = sizeof(at);
    char text[INET_ADDRSTRLEN];

    if (getpeername(peer_fd(proxy->relay.peer), (struct sockaddr *)&at, &size) == 0 &&
        at.sin_family == AF_INET && inet_ntop(AF_INET, &at.sin_addr, text, sizeof(text)))
        (void)snprintf(proxy->pod_address, sizeof(proxy->pod_address), "%s:%u", text,
                       (unsigned)ntohs(at.sin_port));
}

static void prepare_rewrite(struct proxy *proxy)
{
    const struct http_head *head = &proxy->relay.x->head;
    size_t rest = proxy->relay.request->route.rest.len;

    find_pod_address(proxy);
    proxy->rewrite.at = (struct rewrite_at){
        .prefix = str_sub(head->path, 0, head->path.len - (rest < head->path.len ? rest : 0)),
        .host = http_head_get(head, "Host"),
        .pod = str_from(proxy->pod_address)};
}

/* A page whose links can be read: whole, and not compressed. */
static bool is_page(const struct proxy *proxy, const struct http_response *response)
{
    bool html = false;

    for (size_t i = 0; i < response->header_count; i++) {
        struct str name = response->headers[i].name;
        struct str kind = response->headers[i].value;

        if (http_equal_nocase(name, STR("Content-Encoding")) && kind.len &&
            !http_equal_nocase(kind, STR("identity")))
            return false;
        if (http_equal_nocase(name, STR("Content-Type")))
            html = http_equal_nocase(str_trim(str_sub(kind, 0, str_find(kind, ';'))),
                                     STR("text/html"));
    }
    return html && response->status != 206 && rewrite_prefix_is_plain(proxy->rewrite.at.prefix);
}

static void proxy_answer(struct relay *relay, const struct http_response *response)
{
    struct proxy *proxy = (struct proxy *)relay;

    prepare_rewrite(proxy);
    proxy->page = is_page(proxy, response);
    for (size_t i = 0; i < response->header_count; i++)
        if (http_equal_nocase(response->headers[i].name, STR("Location")))
            http_header(relay->x, "Location",
                        rewrite_url(request_arena(relay->request), &proxy->rewrite.at,
                                    response->headers[i].value));
    relay_start(relay, response, relay_copy_headers(relay, response, STR("Location")));
}

static void proxy_body(struct relay *relay, struct str bytes, bool last)
{
    struct proxy *proxy = (struct proxy *)relay;
    _cleanup_(buf_done) struct buf page = {0};

    if (proxy->page)
        rewrite_html(&proxy->rewrite, bytes, last, &page);
    http_write(relay->x, proxy->page ? buf_str(&page) : bytes);
}

static const struct relay_ops proxy_ops = {.begin = proxy_answer,
                                           .body = proxy_body,
                                           .fail = proxy_fail,
                                           .done = proxy_done};

static void dial(struct proxy *proxy, struct str pod, uint16_t port)
{
    struct request *request = proxy->relay.request;
    struct podio *podio = request->server->podio;
    struct err err = {0};
    int fd = podio->ops->dial(podio, request->route.ns, pod, port, &err);

    if (fd < 0) {
        int code = err.http_status ? err.http_status : 503;
        relay_close(&proxy->relay);
        request_fail(request, code, status_reason(code), "pod " STR_FMT "/" STR_FMT ":%u: %s",
                     STR_ARG(request->route.ns), STR_ARG(pod), (unsigned)port, err.text);
        return;
    }
    relay_connect(&proxy->relay, fd, proxy->secure ? &(struct tls_client_options){0} : NULL);
}

static bool is_waited_for(const struct proxy *proxy)
{
    return !proxy->relay.closing && http_is_open(proxy->relay.x);
}

/* ---- services: the first ready endpoint ---- */

static void on_place(void *user, const struct service_place *place)
{
    struct proxy *proxy = user;
    struct request *request = proxy->relay.request;

    if (is_waited_for(proxy)) {
        if (place->lack)
            relay_close(&proxy->relay);
        if (place->lack == SERVICE_LACKS_ITSELF || place->lack == SERVICE_LACKS_ANSWER)
            request_fail_result(request, place->result);
        else if (place->lack == SERVICE_LACKS_PORT)
            request_fail(request, 503, "ServiceUnavailable",
                         "no service port " STR_FMT " found for service \"" STR_FMT "\"",
                         STR_ARG(proxy->port), STR_ARG(request->route.name));
        else if (place->lack == SERVICE_LACKS_ADDRESSES)
            request_fail(request, 503, "ServiceUnavailable",
                         "no endpoints available for service \"" STR_FMT "\"",
                         STR_ARG(request->route.name));
        else
            dial(proxy, str_dup(request_arena(request), place->pod), place->port);
    }
    http_unref(request->x);
}

static void begin_service(struct proxy *proxy)
{
    struct request *request = proxy->relay.request;

    (void)http_ref(request->x);
    service_find(request->server->api,
                 &(struct service_wish){.ns = request->route.ns,
                                        .name = request->route.name,
                                        .port = proxy->port,
                                        .pods_only = true},
                 on_place, proxy);
}

/* ---- pods ---- */

/* The first port that a container of the pod names; without one the usual. */
static uint16_t first_port(const struct json *pod, bool secure)
{
    JSON_FOREACH(json_at(pod, "spec.containers"), container) {
        int64_t port = json_i64_or(json_at(container, "ports.0.containerPort"), 0);

        if (port > 0 && port <= UINT16_MAX)
            return (uint16_t)port;
    }
    return secure ? HTTPS_PORT : HTTP_PORT;
}

static void on_pod(void *user, const struct api_result *result)
{
    struct proxy *proxy = user;
    struct request *request = proxy->relay.request;

    if (is_waited_for(proxy)) {
        if (result->code < 0) {
            relay_close(&proxy->relay);
            request_fail_result(request, result);
        } else {
            dial(proxy, request->route.name,
                 first_port(object_json(result->object, request_arena(request)), proxy->secure));
        }
    }
    http_unref(request->x);
}

static void begin_pod(struct proxy *proxy)
{
    struct request *request = proxy->relay.request;

    (void)http_ref(request->x);
    api_call(request->server->api,
             &(struct api_request){.verb = API_GET,
                                   .kind = &kind_pod,
                                   .ns = request->route.ns,
                                   .name = request->route.name},
             on_pod, proxy);
}

/* Links of a page are relative to its folder: who asks for the thing itself is sent there. True: it
 * is answered. */
static bool proxy_redirect(struct request *request)
{
    const struct http_head *head = &request->x->head;

    if (request->route.rest.len || request->page != PAGE_NOT ||
        (!str_is(head->method, "GET") && !str_is(head->method, "HEAD")))
        return false;
    http_header(request->x, "Location",
                str_printf(request_arena(request), STR_FMT "/%s" STR_FMT, STR_ARG(head->path),
                           head->query.len ? "?" : "", STR_ARG(head->query)));
    http_reply(request->x, 301, "text/plain", STR(""));
    return true;
}

/* False: it is answered. */
static bool target_is_good(struct request *request,
                           const struct attributes_target *target,
                           uint64_t *ret_port)
{
    bool service = request->kind == &kind_service;

    if (target->scheme.len && !str_is(target->scheme, "http") && !str_is(target->scheme, "https")) {
        request_fail(request, 400, "BadRequest", "invalid %s request \"" STR_FMT "\"",
                     service ? "service" : "pod", STR_ARG(request->route.name));
        return false;
    }
    if (!service && target->port.len &&
        (!str_to_u64(target->port, ret_port) || *ret_port == 0 || *ret_port > UINT16_MAX)) {
        request_fail(request, 400, "BadRequest", "port: \"" STR_FMT "\" is not a port number",
                     STR_ARG(target->port));
        return false;
    }
    return true;
}

void proxy_begin(struct request *request)
{
    bool service = request->kind == &kind_service;
    uint64_t port = 0;

    if (request->kind != &kind_pod && !service) {
        request_not_found(request);
        return;
    }
    if (!request->server->podio) {
        request_fail(request, 503, "ServiceUnavailable", "no node agent runs here");
        return;
    }
    if (proxy_redirect(request))
        return;
    struct attributes_target target = attributes_split_name(request->route.name);
    if (!target_is_good(request, &target, &port))
        return;
    request->route.name = target.name;
    struct proxy *proxy = ARENA_NEW(request_arena(request), struct proxy);
    proxy->relay = (struct relay){.request = request, .x = request->x, .ops = &proxy_ops};
    proxy->secure = str_is(target.scheme, "https");
    proxy->port = target.port;
    relay_begin(&proxy->relay);
    send_head(proxy);
    if (service)
        begin_service(proxy);
    else if (port)
        dial(proxy, request->route.name, (uint16_t)port);
    else
        begin_pod(proxy);
}
