#include "api/service_find.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/count.h"
#include "base/err.h"
#include "base/str.h"
#include "http/server.h"
#include "http/tls_client.h"
#include "http1/parse.h"
#include "http1/response.h"
#include "server/aggregate.h"
#include "server/extension.h"
#include "server/relay.h"
#include "server/remote_user.h"
#include "server/request.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A request to a group version that another API server serves goes there as it came, in the name of
 * whoever asked, once he may. That server believes what we say of him because of our certificate. */

#define ANSWER_MS_MAX 60000 /* as Kubernetes' --request-timeout */

struct extension_proxy {
    struct relay relay; /* first */
    struct extension_spec spec;
};

static void unavailable(struct request *request, const char *why)
{
    http_header(request->x, "X-Content-Type-Options", STR("nosniff"));
    http_reply(request->x, 503, "text/plain; charset=utf-8",
               str_printf(request_arena(request), "%s\n", why));
}

static void proxy_fail(struct relay *relay, const char *why)
{
    const struct extension_spec *spec = &((struct extension_proxy *)relay)->spec;

    unavailable(
        relay->request,
        str_printf(request_arena(relay->request), "error trying to reach service: %s", why).p);
    aggregate_doubt(relay->request->server->aggregate, spec->group, spec->version);
}

static void proxy_answer(struct relay *relay, const struct http_response *response)
{
    relay_start(relay, response, relay_copy_headers(relay, response, STR("")));
}

static const struct relay_ops ops = {.begin = proxy_answer, .fail = proxy_fail};

static void on_place(void *user, const struct service_place *place)
{
    struct extension_proxy *proxy = user;
    struct relay *relay = &proxy->relay;
    struct request *request = relay->request;
    struct tls_client_options tls;
    struct err err = {0};

    if (!relay->closing && http_is_open(relay->x) && request->server->aggregate) {
        int fd = -1;

        if (!place->lack)
            fd = aggregate_dial(request->server, proxy->spec.ns, place, &err);
        if (fd >= 0) {
            aggregate_tls(request->server->aggregate, request_arena(request), &proxy->spec, &tls);
            relay_connect(relay, fd, &tls);
        } else {
            relay_close(relay);
            if (place->lack)
                unavailable(request, "service unavailable");
            else
                proxy_fail(relay, err.text);
        }
    }
    http_unref(request->x);
}

static bool keeps_back(struct str name)
{
    return remote_user_is_said_by(name) || http_equal_nocase(name, STR("Host"));
}

/* What lasts as long as both sides like. */
static bool is_long(const struct request *request)
{
    static const char *const streams[] = {"attach", "exec", "log", "portforward", "proxy"};
    const struct http_head *head = &request->x->head;

    for (size_t i = 0; i < COUNT_OF(streams); i++)
        if (str_is(request->route.subresource, streams[i]))
            return true;
    return head->upgrade || http_query_bool(head->query, "watch");
}

/* Of its own: the APIService may be gone before the answer. */
static void copy_spec(struct arena *arena,
                      const struct extension_spec *from,
                      struct extension_spec *to)
{
    *to = *from;
    to->group = str_dup(arena, from->group);
    to->version = str_dup(arena, from->version);
    to->ns = str_dup(arena, from->ns);
    to->service = str_dup(arena, from->service);
    to->ca = str_dup(arena, from->ca);
}

void extension_begin(struct request *request, const struct extension *extension)
{
    struct arena *arena = request_arena(request);
    struct extension_proxy *proxy = ARENA_NEW(arena, struct extension_proxy);
    struct relay *relay = &proxy->relay;

    if (!extension_is_available(extension)) {
        unavailable(request, "service unavailable");
        return;
    }
    *relay = (struct relay){.request = request, .x = request->x, .ops = &ops};
    copy_spec(arena, extension_spec(extension), &proxy->spec);
    relay_write_head(relay, request->x->head.path, keeps_back);
    buf_addf(&relay->early, "Host: " STR_FMT "." STR_FMT ".svc\r\n", STR_ARG(proxy->spec.service),
             STR_ARG(proxy->spec.ns));
    if (!remote_user_write(&relay->early, &request->user)) {
        buf_done(&relay->early);
        request_fail(request, 403, "Forbidden",
                     "a name of the user, or of a group of his, has characters that another API "
                     "server cannot be told");
        return;
    }
    relay_end_head(relay);
    relay_begin(relay);
    relay_limit(relay, ANSWER_MS_MAX, !is_long(request));
    (void)http_ref(request->x);
    service_find(
        request->server->api,
        &(struct service_wish){.ns = proxy->spec.ns,
                               .name = proxy->spec.service,
                               .port = str_printf(arena, "%lld", (long long)proxy->spec.port),
                               .turn = (size_t)request->received_ms},
        on_place, proxy);
}
