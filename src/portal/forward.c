#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"
#include "http/server.h"
#include "http1/parse.h"
#include "kube/client.h"
#include "portal/portal_internal.h"
#include "server/request.h"
#include "server/route.h"
#include "tool/log.h"

#include <stdbool.h>
#include <stddef.h>

/* A request of the page for the API: sent on in the viewer's name, and its answer handed back as it
 * comes. A reader that is slower than the API server holds the server, not our memory. */
#define PENDING_BYTES_MAX ((size_t)1 << 20)

struct forward {
    struct visit *visit;
    struct http_exchange *x;
    struct client_call *call; /* NULL: over */
    const char *type;
    bool begun;
    bool paused;
};

static void forward_over(struct forward *forward)
{
    forward->call = NULL;
    forward->visit->portal->forwards--;
}

static void on_data(void *user, struct str bytes)
{
    struct forward *forward = user;

    if (!forward->begun)
        http_begin(forward->x, 200, forward->type);
    forward->begun = true;
    http_write(forward->x, bytes);
    if (!forward->paused && http_pending(forward->x) > PENDING_BYTES_MAX) {
        forward->paused = true;
        client_pause(forward->call, true);
    }
}

static void on_done(void *user, const struct transport_reply *reply)
{
    struct forward *forward = user;
    struct visit *visit = forward->visit;

    forward_over(forward);
    if (reply->code && forward->begun) {
        http_abort(forward->x);
    } else if (reply->code) {
        log_warn(visit->portal->log, "page.forward", LOG_ERR(reply->err));
        request_fail(&visit->request, 502, "BadGateway", "the API server does not answer");
    } else if (forward->begun) {
        http_end(forward->x);
    } else {
        if (reply->status == 401)
            visit_sign_out(visit);
        http_reply(forward->x, reply->status,
                   reply->status < 300 ? forward->type : "application/json", reply->body);
    }
}

static void on_drain(struct http_exchange *x)
{
    struct forward *forward = ((struct visit *)x->user)->request.stream;

    if (!forward->call || !forward->paused)
        return;
    forward->paused = false;
    client_pause(forward->call, false);
}

static void on_close(struct http_exchange *x)
{
    struct forward *forward = ((struct visit *)x->user)->request.stream;

    if (!forward->call)
        return;
    client_cancel(forward->call);
    forward_over(forward);
}

/* What it is called when it comes back: never what the answer says of itself, which may be that of
 * an aggregated API server. */
static const char *type_of(const struct visit *visit)
{
    if (str_is(visit->request.route.subresource, "log"))
        return "text/plain; charset=utf-8";
    return http_token_in(http_head_get(&visit->request.x->head, "Accept"), "application/yaml")
               ? "application/yaml"
               : "application/json";
}

void forward_begin(struct visit *visit)
{
    struct http_exchange *x = visit->request.x;
    struct arena *arena = &x->arena;
    bool read = str_is(x->head.method, "GET");
    struct forward *forward = ARENA_NEW(arena, struct forward);
    struct str content = http_head_get(&x->head, "Content-Type");

    if (visit->portal->forwards >= PORTAL_FORWARDS_MAX) {
        request_fail(&visit->request, 429, "TooManyRequests",
                     "others are asking too; try again in a few seconds");
        return;
    }
    *forward = (struct forward){.visit = visit, .x = x, .type = type_of(visit)};
    visit->request.stream = forward;
    x->on_close = on_close;
    x->on_drain = on_drain;
    visit->portal->forwards++;
    forward->call = upstream_send(
        visit,
        &(struct upstream_request){
            .method = str_c(arena, x->head.method),
            .path = x->head.query.len ? str_printf(arena, STR_FMT "?" STR_FMT,
                                                   STR_ARG(x->head.path), STR_ARG(x->head.query))
                                      : x->head.path,
            .content_type =
                x->body.len ? str_c(arena, content.len ? content : STR("application/json")) : NULL,
            .accept = str_is(visit->request.route.subresource, "log") ? "*/*" : forward->type,
            .body = x->body,
            .data = read ? on_data : NULL,
            .done = on_done,
            .user = forward,
        });
}
