#include "server/progress_elsewhere.h"

#include "api/api.h"
#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/str.h"
#include "control/cluster/progress.h"
#include "http/server.h"
#include "server/request.h"
#include "server/route.h"
#include "tool/log.h"

#include <stddef.h>

/* Flow: begin marks the exchange; handle asks the API server whose the token is; progress.c then
 * reads the body and writes the status. */

/* A question, never stored, so no part of the registry. */
static const struct kind kind_tokenreview = {
    .group = "authentication.k8s.io",
    .version = "v1",
    .name = "TokenReview",
    .plural = "tokenreviews",
    .singular = "tokenreview",
    .short_names = "",
    .categories = "",
};

struct check {
    struct progress_elsewhere *elsewhere;
    struct request *request;
};

void token_review(struct api *api,
                  struct arena *arena,
                  struct str token,
                  struct str audience,
                  api_done_fn *done,
                  void *user)
{
    api_call(api,
             &(struct api_request){.verb = API_CREATE,
                                   .kind = &kind_tokenreview,
                                   .of_any_replica = true,
                                   .body = progress_review(arena, token, audience)},
             done, user);
}

void progress_elsewhere_begin(struct http_exchange *x)
{
    struct request *request = ARENA_NEW(&x->arena, struct request);

    request->x = x;
    request->kind = &kind_trainjob;
    if (route_parse(&x->arena, x->head.path, &request->route, NULL) < 0 || !progress_is(request))
        return;
    x->body_max = PROGRESS_BYTES_MAX;
    x->user = request;
}

static void answer(const struct check *check, const struct api_result *result)
{
    struct request *request = check->request;

    if (result->code < 0) {
        log_warn(check->elsewhere->log, "progress.token", LOG_ERR(result->err));
        request_fail(request, 503, "ServiceUnavailable", "the token cannot be checked now");
    } else if (!result->object ||
               !progress_allows(object_json(result->object, request_arena(request)),
                                request->route.ns, progress_audience(request))) {
        request_fail(request, 403, "Forbidden", "the token is not for this TrainJob");
    } else {
        progress_handle(request, check->elsewhere->api);
    }
}

static void on_reviewed(void *user, const struct api_result *result)
{
    const struct check *check = user;
    struct http_exchange *x = check->request->x;

    check->elsewhere->unknown--;
    if (http_is_open(x))
        answer(check, result);
    http_unref(x);
}

void progress_elsewhere_handle(struct progress_elsewhere *elsewhere, struct http_exchange *x)
{
    struct request *request = x->user;
    struct str token = identify_bearer(request);

    if (!token.len) {
        request_fail(request, 401, "Unauthorized", "Unauthorized");
        return;
    }
    if (elsewhere->unknown >= PROGRESS_UNKNOWN_MAX) {
        status_reply(
            request,
            &(struct status){.code = 429,
                             .reason = "TooManyRequests",
                             .message = STR("too many progress reports at once; try again later"),
                             .retry_after_s = 1});
        return;
    }
    struct check *check = ARENA_NEW(&x->arena, struct check);
    *check = (struct check){elsewhere, request};
    elsewhere->unknown++;
    (void)http_ref(x);
    token_review(elsewhere->api, &x->arena, token, progress_audience(request), on_reviewed, check);
}
