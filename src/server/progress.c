#include "control/cluster/progress.h"

#include "api/api.h"
#include "api/kind.h"
#include "api/object.h"
#include "base/account.h"
#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"
#include "http/server.h"
#include "server/request.h"
#include "tool/clock.h"

#include <stdbool.h>
#include <stddef.h>

/* What a training tells of itself (control/cluster/progress.h), once it is known that it may: rules
 * of access are not asked, the token says all. */

struct telling {
    struct request *request;
    struct api *api;
    struct str patch;
};

bool progress_is(const struct request *request)
{
    const struct route *route = &request->route;

    return route->type == ROUTE_RESOURCE && str_is(request->x->head.method, "POST") &&
           str_is(route->group, kind_trainjob.group) &&
           str_is(route->version, kind_trainjob.version) &&
           str_is(route->plural, kind_trainjob.plural) && str_is(route->subresource, "status");
}

bool progress_is_from(const struct request *request)
{
    struct str ns, name;

    return identify_bearer(request).len && account_split(request->user.name, &ns, &name) &&
           str_eq(ns, request->route.ns);
}

struct str progress_audience(const struct request *request)
{
    return progress_path(request_arena(request), request->route.ns, request->route.name);
}

static void on_written(void *user, const struct api_result *result)
{
    struct request *request = user;

    if (http_is_open(request->x)) {
        if (result->code < 0)
            request_fail_result(request, result);
        else
            http_reply(request->x, 200, "application/json", request->x->body);
    }
    http_unref(request->x);
}

static void on_found(void *user, const struct api_result *result)
{
    const struct telling *telling = user;
    struct request *request = telling->request;

    if (result->code < 0 || !http_is_open(request->x)) {
        on_written(request, result);
        return;
    }
    api_call(telling->api,
             &(struct api_request){.verb = API_PATCH,
                                   .patch = API_PATCH_MERGE,
                                   .kind = &kind_trainjob,
                                   .ns = request->route.ns,
                                   .name = request->route.name,
                                   .uid = result->object->uid,
                                   .subresource = STR("status"),
                                   .of_any_replica = true,
                                   .body = telling->patch},
             on_written, request);
}

/* The TrainJob is looked up first: a later one of its name is not to hear of this one's training.
 */
void progress_handle(struct request *request, struct api *api)
{
    struct arena *arena = request_arena(request);
    struct telling *telling = ARENA_NEW(arena, struct telling);
    struct err err = {0};

    *telling = (struct telling){.request = request, .api = api};
    int r = progress_patch(arena, request->x->body, clock_now_ms(), &telling->patch, &err);
    if (r < 0) {
        request_fail_result(request, &(struct api_result){.code = r, .err = &err});
        return;
    }
    (void)http_ref(request->x);
    api_call(api,
             &(struct api_request){.verb = API_GET,
                                   .kind = &kind_trainjob,
                                   .ns = request->route.ns,
                                   .name = request->route.name},
             on_found, telling);
}
