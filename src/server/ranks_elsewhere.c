#include "server/ranks_elsewhere.h"

#include "api/api.h"
#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"
#include "control/cluster/ranks_told.h"
#include "http/server.h"
#include "server/progress_elsewhere.h"
#include "server/request.h"
#include "server/route.h"
#include "tool/clock.h"
#include "tool/log.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Flow: begin marks the exchange; handle asks the API server whose the token is, unless that is known;
 * then the annotation of the pod with the token's uid is written. */

#define RETRY_S 2

struct telling {
    struct ranks_elsewhere *elsewhere;
    struct request *request;
    struct str token;
    struct str audience;
};

void ranks_elsewhere_begin(struct http_exchange *x)
{
    struct request *request = ARENA_NEW(&x->arena, struct request);
    const struct route *route = &request->route;

    request->x = x;
    request->kind = &kind_pod;
    if (route_parse(&x->arena, x->head.path, &request->route, NULL) < 0 ||
        route->type != ROUTE_RESOURCE || !str_is(x->head.method, "POST") || route->group.len ||
        !str_is(route->version, kind_pod.version) || !str_is(route->plural, kind_pod.plural) ||
        !str_is(route->subresource, "ranks"))
        return;
    x->body_max = RANKS_TOLD_BYTES_MAX;
    x->user = request;
}

bool ranks_elsewhere_is(const struct http_exchange *x)
{
    const struct request *request = x->user;

    return request && request->kind == &kind_pod;
}

static void on_written(void *user, const struct api_result *result)
{
    struct request *request = user;

    if (http_is_open(request->x)) {
        if (result->code < 0)
            request_fail_result(request, result);
        else
            http_reply(request->x, 200, "application/json", STR("{}\n"));
    }
    http_unref(request->x);
}

static void refuse_for_now(struct request *request, const char *words)
{
    status_reply(request, &(struct status){.code = 429,
                                           .reason = "TooManyRequests",
                                           .message = str_from(words),
                                           .retry_after_s = RETRY_S});
}

static void write_ranks(const struct telling *telling, struct str uid)
{
    struct request *request = telling->request;
    struct str patch = STR_NONE;
    struct err err = {0};

    if (!ranks_told_may(&telling->elsewhere->told, telling->audience, clock_now_ms())) {
        refuse_for_now(request, "this pod tells of its ranks too often; try again later");
        return;
    }
    int r = ranks_told_patch(request_arena(request), request->x->body, &patch, &err);
    if (r < 0) {
        request_fail_result(request, &(struct api_result){.code = r, .err = &err});
        return;
    }
    (void)http_ref(request->x);
    api_call(telling->elsewhere->api,
             &(struct api_request){.verb = API_PATCH,
                                   .patch = API_PATCH_MERGE,
                                   .kind = &kind_pod,
                                   .ns = request->route.ns,
                                   .of_any_replica = true,
                                   .name = request->route.name,
                                   .uid = str_dup(request_arena(request), uid),
                                   .body = patch},
             on_written, request);
}

static void answer(const struct telling *telling, const struct api_result *result)
{
    struct request *request = telling->request;
    const struct route *route = &request->route;
    struct str uid = STR_NONE;

    if (result->code < 0) {
        log_warn(telling->elsewhere->log, "ranks.token", LOG_ERR(result->err));
        request_fail(request, 503, "ServiceUnavailable", "the token cannot be checked now");
    } else if (!result->object ||
               !ranks_told_allows(object_json(result->object, request_arena(request)), route->ns,
                                  route->name, telling->audience, &uid)) {
        request_fail(request, 403, "Forbidden", "the token is not of this pod");
    } else {
        ranks_told_learn(&telling->elsewhere->told, telling->audience, telling->token, uid,
                         clock_now_ms());
        write_ranks(telling, uid);
    }
}

static void on_reviewed(void *user, const struct api_result *result)
{
    const struct telling *telling = user;
    struct http_exchange *x = telling->request->x;

    telling->elsewhere->unknown--;
    if (http_is_open(x))
        answer(telling, result);
    http_unref(x);
}

void ranks_elsewhere_handle(struct ranks_elsewhere *elsewhere, struct http_exchange *x)
{
    struct request *request = x->user;
    struct telling *telling = ARENA_NEW(&x->arena, struct telling);

    *telling = (struct telling){
        .elsewhere = elsewhere,
        .request = request,
        .token = identify_bearer(request),
        .audience = ranks_told_path(&x->arena, request->route.ns, request->route.name)};
    if (!telling->token.len) {
        request_fail(request, 401, "Unauthorized", "Unauthorized");
        return;
    }
    struct str uid =
        ranks_told_known(&elsewhere->told, telling->audience, telling->token, clock_now_ms());
    if (uid.len) {
        write_ranks(telling, uid);
        return;
    }
    if (elsewhere->unknown >= RANKS_UNKNOWN_MAX) {
        refuse_for_now(request, "too many pods tell of their ranks at once; try again later");
        return;
    }
    elsewhere->unknown++;
    (void)http_ref(x);
    token_review(elsewhere->api, &x->arena, telling->token, telling->audience, on_reviewed,
                 telling);
}

void ranks_elsewhere_done(struct ranks_elsewhere *elsewhere)
{
    ranks_told_done(&elsewhere->told);
}
