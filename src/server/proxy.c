#include "api/api.h"
#include "api/kind.h"
#include "api/object.h"
#include "api/podio.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "http/server.h"
#include "http/tls_client.h"
#include "http1/parse.h"
#include "http1/response.h"
#include "server/attributes.h"
#include "server/request.h"
#include "server/rewrite.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <unistd.h>
#include <uv.h>

/* pods/NAME:PORT/proxy/... and services/NAME:PORT/proxy/...: the request goes to the pod's port as
 * it came, less what concerns our connection, and the answer comes back the same way, but for links
 * (server/rewrite.h). https:NAME:PORT is asked by TLS, whoever answers. Both directions are streams
 * with a bound on what waits. One connection to the pod a request. */

#define WAITING_BYTES_MAX ((size_t)1 << 20)
#define READ_BYTES        ((size_t)64 << 10)
#define HTTP_PORT         80
#define HTTPS_PORT        443
#define ADDRESS_TEXT      (INET6_ADDRSTRLEN + 8) /* "[...]:65535" */

struct proxy {
    struct request *request;
    struct http_exchange *x; /* held until the socket is closed */
    uv_poll_t poll;
    int fd;
    int events;
    bool secure;            /* https: */
    struct tls_client *tls; /* NULL: plain */
    bool shaking;           /* hands, before anything is sent */
    struct buf out;         /* towards the pod */
    size_t out_sent;
    bool body_over;
    bool reading_paused; /* our client reads too slowly */
    bool closing;
    struct http_response response;
    struct buf in;
    bool page; /* its links are rewritten */
    struct rewrite rewrite;
    char pod_address[ADDRESS_TEXT];
};

static void drop_bytes(struct proxy *proxy)
{
    buf_done(&proxy->out);
    buf_done(&proxy->in);
    rewrite_done(&proxy->rewrite);
    tls_client_free(proxy->tls);
    proxy->tls = NULL;
}

static void on_closed(uv_handle_t *handle)
{
    struct proxy *proxy = handle->data;
    struct http_exchange *x = proxy->x;

    drop_bytes(proxy);
    (void)close(proxy->fd);
    http_unref(x);
}

static void proxy_close(struct proxy *proxy)
{
    if (proxy->closing)
        return;
    proxy->closing = true;
    if (proxy->fd < 0) {
        drop_bytes(proxy);
        return;
    }
    (void)uv_poll_stop(&proxy->poll);
    uv_close((uv_handle_t *)&proxy->poll, on_closed);
}

static void fail(struct proxy *proxy, const char *what)
{
    bool begun = proxy->response.head_done;

    proxy_close(proxy);
    if (begun)
        http_abort(proxy->x);
    else
        request_fail(proxy->request, 502, "ServiceUnavailable",
                     "error trying to reach pod " STR_FMT "/" STR_FMT ": %s",
                     STR_ARG(proxy->request->route.ns), STR_ARG(proxy->request->route.name), what);
}

static void on_poll(uv_poll_t *handle, int status, int events);

static void poll_update(struct proxy *proxy)
{
    int events = 0;

    if (proxy->closing || proxy->fd < 0)
        return;
    if (proxy->shaking) {
        events = tls_client_writes(proxy->tls) ? UV_WRITABLE : UV_READABLE;
    } else {
        if (!proxy->reading_paused)
            events |= UV_READABLE;
        /* What TLS has read already makes no socket readable. */
        if (proxy->out_sent < proxy->out.len ||
            (proxy->tls && !proxy->reading_paused && tls_client_pending(proxy->tls)))
            events |= UV_WRITABLE;
    }
    if (events == proxy->events)
        return;
    proxy->events = events;
    if (events)
        (void)uv_poll_start(&proxy->poll, events, on_poll);
    else
        (void)uv_poll_stop(&proxy->poll);
}

/* As send(), with -errno. */
static ssize_t send_bytes(struct proxy *proxy, const char *bytes, size_t size)
{
    if (proxy->tls)
        return tls_client_send(proxy->tls, bytes, size);
    ssize_t sent = send(proxy->fd, bytes, size, MSG_NOSIGNAL);
    return sent < 0 ? -errno : sent;
}

static ssize_t receive_bytes(struct proxy *proxy, char *bytes, size_t size)
{
    if (proxy->tls)
        return tls_client_recv(proxy->tls, bytes, size);
    ssize_t count = recv(proxy->fd, bytes, size, 0);
    return count < 0 ? -errno : count;
}

static void send_some(struct proxy *proxy)
{
    while (!proxy->closing && !proxy->shaking && proxy->out_sent < proxy->out.len) {
        ssize_t sent =
            send_bytes(proxy, proxy->out.p + proxy->out_sent, proxy->out.len - proxy->out_sent);
        if (sent == -EAGAIN || sent == -EINTR)
            break;
        if (sent == -ECONNREFUSED || sent == -EHOSTUNREACH || sent == -ETIMEDOUT) {
            fail(proxy, uv_strerror((int)sent)); /* dialled, and never connected */
            return;
        }
        if (sent < 0) {
            /* The pod may have answered and closed before reading everything. */
            buf_clear(&proxy->out);
            proxy->out_sent = 0;
            break;
        }
        proxy->out_sent += (size_t)sent;
    }
    if (proxy->out_sent == proxy->out.len) {
        buf_clear(&proxy->out);
        proxy->out_sent = 0;
    }
    if (proxy->out.len - proxy->out_sent < WAITING_BYTES_MAX / 2)
        http_pause(proxy->x, false);
}

static void send_head(struct proxy *proxy)
{
    const struct http_head *head = &proxy->x->head;
    const struct route *route = &proxy->request->route;

    buf_addf(&proxy->out, STR_FMT " " STR_FMT "%s" STR_FMT " HTTP/1.1\r\n", STR_ARG(head->method),
             STR_ARG(route->rest.len ? route->rest : STR("/")), head->query.len ? "?" : "",
             STR_ARG(head->query));
    for (size_t i = 0; i < head->header_count; i++) {
        struct str name = head->headers[i].name;

        /* Our own connection, a token the pod must not see, and what would hide links from us. */
        if (http_token_in(STR("Connection,Keep-Alive,Authorization,TE,Trailer,Upgrade,"
                              "Proxy-Authorization,Proxy-Connection,Expect,Accept-Encoding,"
                              "X-Forwarded-Uri"),
                          str_c(request_arena(proxy->request), name)))
            continue;
        buf_addf(&proxy->out, STR_FMT ": " STR_FMT "\r\n", STR_ARG(name),
                 STR_ARG(head->headers[i].value));
    }
    buf_addf(&proxy->out, "X-Forwarded-Uri: " STR_FMT "\r\n", STR_ARG(head->path));
    buf_add(&proxy->out, STR("Connection: close\r\n\r\n"));
}

static void on_body(struct http_exchange *x, struct str bytes, bool last)
{
    struct proxy *proxy = ((struct request *)x->user)->stream;

    if (proxy->closing)
        return;
    if (x->head.chunked) {
        if (bytes.len) {
            buf_addf(&proxy->out, "%zx\r\n", bytes.len);
            buf_add(&proxy->out, bytes);
            buf_add(&proxy->out, STR("\r\n"));
        }
        if (last)
            buf_add(&proxy->out, STR("0\r\n\r\n"));
    } else {
        buf_add(&proxy->out, bytes);
    }
    proxy->body_over = last;
    if (proxy->fd >= 0)
        send_some(proxy);
    if (proxy->closing)
        return;
    if (proxy->out.len - proxy->out_sent > WAITING_BYTES_MAX)
        http_pause(x, true);
    poll_update(proxy);
}

static void on_drain(struct http_exchange *x)
{
    struct proxy *proxy = ((struct request *)x->user)->stream;

    proxy->reading_paused = false;
    poll_update(proxy);
}

static void on_close(struct http_exchange *x)
{
    proxy_close(((struct request *)x->user)->stream);
}

/* Where the pod listens, as a program there would write it: "10.1.0.2:80". */
static void find_pod_address(struct proxy *proxy)
{
    struct sockaddr_in at = {0};
    socklen_t size = sizeof(at);
    char text[INET_ADDRSTRLEN];

    if (getpeername(proxy->fd, (struct sockaddr *)&at, &size) == 0 && at.sin_family == AF_INET &&
        inet_ntop(AF_INET, &at.sin_addr, text, sizeof(text)))
        (void)snprintf(proxy->pod_address, sizeof(proxy->pod_address), "%s:%u", text,
                       (unsigned)ntohs(at.sin_port));
}

static void prepare_rewrite(struct proxy *proxy)
{
    const struct http_head *head = &proxy->x->head;
    size_t rest = proxy->request->route.rest.len;

    find_pod_address(proxy);
    proxy->rewrite.at = (struct rewrite_at){
        .prefix = str_sub(head->path, 0, head->path.len - (rest < head->path.len ? rest : 0)),
        .host = http_head_get(head, "Host"),
        .pod = str_from(proxy->pod_address)};
}

/* A page whose links can be read: whole, and not compressed. */
static bool is_page(const struct proxy *proxy)
{
    const struct http_response *response = &proxy->response;
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

static void start_answer(struct proxy *proxy)
{
    const struct http_response *response = &proxy->response;
    struct arena *arena = request_arena(proxy->request);
    const char *type = NULL;

    prepare_rewrite(proxy);
    proxy->page = is_page(proxy);
    for (size_t i = 0; i < response->header_count; i++) {
        const char *name = str_c(arena, response->headers[i].name);

        if (http_equal_nocase(response->headers[i].name, STR("Content-Type")))
            type = str_c(arena, response->headers[i].value);
        else if (http_equal_nocase(response->headers[i].name, STR("Location")))
            http_header(proxy->x, name,
                        rewrite_url(arena, &proxy->rewrite.at, response->headers[i].value));
        else if (!http_token_in(STR("Connection,Keep-Alive,Transfer-Encoding,Content-Length,"
                                    "Trailer,Upgrade"),
                                name))
            http_header(proxy->x, name, response->headers[i].value);
    }
    http_begin(proxy->x, response->status, type);
}

/* What the pod sent so far, handed on. False when the answer is over. */
static bool take_answer(struct proxy *proxy, bool eof)
{
    _cleanup_(buf_done) struct buf body = {0};
    bool had_head = proxy->response.head_done;
    struct err err = {0};

    proxy->response.eof = eof;
    proxy->response.no_body = str_is(proxy->x->head.method, "HEAD");
    int r = http_response_read(&proxy->response, request_arena(proxy->request), &proxy->in, &body,
                               &err);
    if (r < 0) {
        fail(proxy, err.text);
        return false;
    }
    if (!had_head && proxy->response.head_done)
        start_answer(proxy);
    if (proxy->page) {
        _cleanup_(buf_done) struct buf page = {0};

        rewrite_html(&proxy->rewrite, buf_str(&body), proxy->response.done, &page);
        http_write(proxy->x, buf_str(&page));
    } else {
        http_write(proxy->x, buf_str(&body));
    }
    if (!proxy->response.done)
        return true;
    proxy_close(proxy);
    http_end(proxy->x);
    return false;
}

static void receive(struct proxy *proxy)
{
    char bytes[READ_BYTES];
    ssize_t count = receive_bytes(proxy, bytes, sizeof(bytes));

    if (count == -EAGAIN || count == -EINTR)
        return;
    if (count < 0) {
        fail(proxy, uv_strerror((int)count));
        return;
    }
    buf_add(&proxy->in, (struct str){bytes, (size_t)count});
    if (take_answer(proxy, count == 0) && http_pending(proxy->x) > WAITING_BYTES_MAX)
        proxy->reading_paused = true;
}

const char *pod_socket_trouble(int fd, int status)
{
    int code = 0;
    socklen_t size = sizeof(code);

    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &code, &size) == 0 && code)
        status = -code;
    return uv_strerror(status);
}

static void shake(struct proxy *proxy)
{
    struct err err = {0};
    int r = tls_client_shake(proxy->tls, &err);

    if (r == 0)
        proxy->shaking = false;
    else if (r != -EAGAIN)
        fail(proxy, err.text);
}

static void on_poll(uv_poll_t *handle, int status, int events)
{
    struct proxy *proxy = handle->data;

    if (proxy->closing)
        return;
    if (status < 0) {
        fail(proxy, pod_socket_trouble(proxy->fd, status));
        return;
    }
    if (proxy->shaking) {
        shake(proxy);
        events |= UV_WRITABLE;
    }
    if ((events & UV_WRITABLE) && !proxy->closing)
        send_some(proxy);
    bool readable = (events & UV_READABLE) || (proxy->tls && tls_client_pending(proxy->tls));
    if (readable && !proxy->reading_paused && !proxy->closing && !proxy->shaking)
        receive(proxy);
    poll_update(proxy);
}

static void dial(struct proxy *proxy, struct str pod, uint16_t port)
{
    struct request *request = proxy->request;
    struct podio *podio = request->server->podio;
    struct err err = {0};
    int fd = podio->ops->dial(podio, request->route.ns, pod, port, &err);

    if (fd < 0) {
        int code = err.http_status ? err.http_status : 503;
        proxy_close(proxy);
        request_fail(request, code, status_reason(code), "pod " STR_FMT "/" STR_FMT ":%u: %s",
                     STR_ARG(request->route.ns), STR_ARG(pod), (unsigned)port, err.text);
        return;
    }
    proxy->fd = fd;
    proxy->poll.data = proxy;
    (void)uv_poll_init_socket(request->server->loop, &proxy->poll, fd);
    (void)http_ref(proxy->x);
    if (proxy->secure && tls_client_new(fd, &proxy->tls, &err) < 0) {
        fail(proxy, err.text);
        return;
    }
    proxy->shaking = proxy->secure;
    if (proxy->shaking)
        shake(proxy);
    if (!proxy->closing)
        send_some(proxy);
    poll_update(proxy);
}

/* ---- services: the first ready endpoint ---- */
struct service_lookup {
    struct proxy *proxy;
    struct str port; /* as it was asked for; then the name of it */
    bool named;      /* only that one, also when it has no name */
};

static bool find_endpoint(const struct json *root,
                          const struct service_lookup *lookup,
                          struct str *ret_pod,
                          uint16_t *ret_port)
{
    JSON_FOREACH(json_get(root, "subsets"), subset) {
        const struct json *address = json_index(json_get(subset, "addresses"), 0);
        struct str pod = json_str(json_at(address, "targetRef.name"));

        if (!pod.len)
            continue;
        JSON_FOREACH(json_get(subset, "ports"), item) {
            int64_t number = json_i64_or(json_get(item, "port"), 0);

            bool fits = !lookup->named || str_eq(lookup->port, json_str(json_get(item, "name")));

            if (!fits || number <= 0 || number > UINT16_MAX)
                continue;
            *ret_pod = pod;
            *ret_port = (uint16_t)number;
            return true;
        }
    }
    return false;
}

static void on_endpoints(void *user, const struct api_result *result)
{
    struct service_lookup *lookup = user;
    struct proxy *proxy = lookup->proxy;
    struct str pod = STR_NONE;
    uint16_t port = 0;

    if (!proxy->closing && http_is_open(proxy->x)) {
        if (result->code < 0) {
            proxy_close(proxy);
            request_fail_result(proxy->request, result);
        } else if (!find_endpoint(object_json(result->object, request_arena(proxy->request)),
                                  lookup, &pod, &port)) {
            proxy_close(proxy);
            request_fail(proxy->request, 503, "ServiceUnavailable",
                         "no endpoints available for service \"" STR_FMT "\"",
                         STR_ARG(proxy->request->route.name));
        } else {
            dial(proxy, str_dup(request_arena(proxy->request), pod), port);
        }
    }
    http_unref(proxy->x);
}

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

    if (!proxy->closing && http_is_open(proxy->x)) {
        if (result->code < 0) {
            proxy_close(proxy);
            request_fail_result(proxy->request, result);
        } else {
            dial(proxy, proxy->request->route.name,
                 first_port(object_json(result->object, request_arena(proxy->request)),
                            proxy->secure));
        }
    }
    http_unref(proxy->x);
}

static void proxy_look_up(struct proxy *proxy,
                          const struct kind *kind,
                          api_done_fn *done,
                          void *user);

/* The number of a port of the service: of its pods it is the one of that name. */
static void on_service(void *user, const struct api_result *result)
{
    struct service_lookup *lookup = user;
    struct proxy *proxy = lookup->proxy;
    struct arena *arena = request_arena(proxy->request);

    if (!proxy->closing && http_is_open(proxy->x)) {
        const struct json *root = result->code < 0 ? NULL : object_json(result->object, arena);

        JSON_FOREACH(json_at(root, "spec.ports"), item)
            if (!lookup->named && str_eq(json_number_text(json_get(item, "port")), lookup->port)) {
                lookup->port = str_dup(arena, json_str(json_get(item, "name")));
                lookup->named = true;
            }
        if (lookup->named) {
            proxy_look_up(proxy, &kind_endpoints, on_endpoints, lookup);
        } else {
            proxy_close(proxy);
            if (result->code < 0)
                request_fail_result(proxy->request, result);
            else
                request_fail(proxy->request, 503, "ServiceUnavailable",
                             "no service port " STR_FMT " found for service \"" STR_FMT "\"",
                             STR_ARG(lookup->port), STR_ARG(proxy->request->route.name));
        }
    }
    http_unref(proxy->x);
}

/* Asks for the object that says where the request goes. */
static void proxy_look_up(struct proxy *proxy,
                          const struct kind *kind,
                          api_done_fn *done,
                          void *user)
{
    struct request *request = proxy->request;

    (void)http_ref(request->x);
    api_call(
        request->server->api,
        &(struct api_request){
            .verb = API_GET, .kind = kind, .ns = request->route.ns, .name = request->route.name},
        done, user);
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

static void begin_service(struct proxy *proxy, struct str port)
{
    struct service_lookup *lookup = ARENA_NEW(request_arena(proxy->request), struct service_lookup);
    uint64_t number = 0;
    bool numbered = str_to_u64(port, &number);

    *lookup = (struct service_lookup){.proxy = proxy, .port = port, .named = port.len && !numbered};
    proxy_look_up(proxy, numbered ? &kind_service : &kind_endpoints,
                  numbered ? on_service : on_endpoints, lookup);
}

void proxy_begin(struct request *request)
{
    struct arena *arena = request_arena(request);
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
    struct proxy *proxy = ARENA_NEW(arena, struct proxy);
    proxy->request = request;
    proxy->x = request->x;
    proxy->fd = -1;
    proxy->secure = str_is(target.scheme, "https");
    request->stream = proxy;
    request->x->on_body = on_body;
    request->x->on_drain = on_drain;
    request->x->on_close = on_close;
    send_head(proxy);
    if (service)
        begin_service(proxy, target.port);
    else if (port)
        dial(proxy, request->route.name, (uint16_t)port);
    else
        proxy_look_up(proxy, &kind_pod, on_pod, proxy);
}
