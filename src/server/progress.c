#include "api/api.h"
#include "api/kind.h"
#include "base/arena.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "base/time.h"
#include "http/server.h"
#include "server/request.h"
#include "tool/clock.h"

#include <stdbool.h>
#include <stddef.h>

/* What a training tells of itself: POST {"trainerStatus": {...}} to the status of its TrainJob.
 *
 * The caller is a pod of that job, with a token that is good for this path and nothing else
 * (control/trainjob_progress.c puts it there); rules of access are not asked. Kubeflow's SDK and
 * Hugging Face's trainer report so when they find the variables KUBEFLOW_TRAINER_SERVER_*. */

#define PROGRESS_BYTES_MAX ((size_t)64 << 10)

bool progress_is(const struct request *request)
{
    const struct route *route = &request->route;

    return route->type == ROUTE_RESOURCE && str_is(request->x->head.method, "POST") &&
           str_is(route->group, kind_trainjob.group) &&
           str_is(route->plural, kind_trainjob.plural) && str_is(route->subresource, "status");
}

struct str progress_audience(const struct request *request)
{
    const struct route *route = &request->route;

    return str_printf(request_arena(request),
                      STR_FMT "/" STR_FMT "/namespaces/" STR_FMT "/trainjobs/" STR_FMT "/status",
                      STR_ARG(route->group), STR_ARG(route->version), STR_ARG(route->ns),
                      STR_ARG(route->name));
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

void progress_handle(struct request *request)
{
    struct arena *arena = request_arena(request);
    struct json *root = NULL;
    struct err err = {0};

    if (request->x->body.len > PROGRESS_BYTES_MAX) {
        request_fail(request, 413, "RequestEntityTooLarge", "the limit is %zu bytes",
                     PROGRESS_BYTES_MAX);
        return;
    }
    if (json_parse(arena, request->x->body, &root, &err) < 0) {
        request_fail(request, 400, "BadRequest", "the body is not JSON: %s", err.text);
        return;
    }
    const struct json *told = json_get(root, "trainerStatus");
    if (!json_is(told, JSON_OBJECT)) {
        request_invalid(request, "trainerStatus", "Required value: what the training tells");
        return;
    }
    struct json *patch = json_new_object(arena);
    struct json *status = json_clone(arena, told);
    if (!json_get(status, "lastUpdatedTime"))
        json_add_str(arena, status, "lastUpdatedTime", time_text(arena, clock_now_ms()));
    json_set(json_add_object(arena, patch, "status"), STR("trainerStatus"), status);
    (void)http_ref(request->x);
    api_call(request->server->api,
             &(struct api_request){.verb = API_PATCH,
                                   .patch = API_PATCH_MERGE,
                                   .kind = &kind_trainjob,
                                   .ns = request->route.ns,
                                   .name = request->route.name,
                                   .subresource = STR("status"),
                                   .body = json_text(arena, patch)},
             on_written, request);
}
