#include "api/api.h"
#include "api/kind.h"
#include "api/object.h"
#include "api/podio.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "base/str.h"
#include "base/time.h"
#include "base/vec.h"
#include "control/core/group_name.h"
#include "http/server.h"
#include "http1/parse.h"
#include "server/request.h"
#include "server/virtual.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* metrics.k8s.io: what nodes and pods use, for kubectl top and whatever else asks a
 * metrics-server. Which nodes and pods there are, and their labels, the store says; what they use
 * now, the agent. */

#define GROUP "metrics.k8s.io"

/* The agent's answer, kept for one request. */
struct usages {
    struct arena *arena;
    struct str ns;   /* of pods; empty: any */
    struct str name; /* of the pod or node; empty: any */
    VEC(struct podio_usage) items;
};

static void usages_take(void *user, const struct podio_usage *usage)
{
    struct usages *usages = user;

    if ((usages->ns.len && !str_eq(usage->ns, usages->ns)) ||
        (usages->name.len && !str_eq(usage->pod.len ? usage->pod : usage->node, usages->name)))
        return;
    VEC_PUSH(usages->arena, &usages->items, *usage);
}

/* "250m" would lose what is below a thousandth: metrics-server says nanocores. */
static void add_amounts(struct arena *arena, struct json *parent, const struct podio_usage *usage)
{
    struct json *amounts = json_add_object(arena, parent, "usage");

    json_add_str(arena, amounts, "cpu", str_printf(arena, "%lldn", (long long)usage->cpu_nano));
    json_add_str(arena, amounts, "memory",
                 str_printf(arena, "%lldKi", (long long)(usage->memory_bytes / 1024)));
}

static struct json *item_new(struct arena *arena, const struct object *object, const char *kind)
{
    struct json *item = json_new_object(arena);

    json_add_c(arena, item, "kind", kind);
    json_add_c(arena, item, "apiVersion", GROUP "/v1beta1");
    struct json *meta = json_add_object(arena, item, "metadata");
    json_add_str(arena, meta, "name", object->name);
    if (object->ns.len)
        json_add_str(arena, meta, "namespace", object->ns);
    const struct json *labels = json_at(object_json(object, arena), "metadata.labels");
    if (json_count(labels))
        json_set(meta, STR("labels"), json_clone(arena, labels));
    return item;
}

static void add_time(struct arena *arena, struct json *item, const struct podio_usage *usage)
{
    struct str at = time_text(arena, usage->at_ms);

    json_add_str(arena, json_get(item, "metadata"), "creationTimestamp", at);
    json_add_str(arena, item, "timestamp", at);
    json_add_str(arena, item, "window",
                 str_printf(arena, "%lld.%03llds", (long long)(usage->window_ms / 1000),
                            (long long)(usage->window_ms % 1000)));
}

static struct json *node_item(const struct usages *usages, const struct object *node)
{
    struct arena *arena = usages->arena;

    for (size_t i = 0; i < usages->items.count; i++) {
        const struct podio_usage *usage = &usages->items.items[i];

        if (usage->pod.len || !str_eq(usage->node, node->name))
            continue;
        struct json *item = item_new(arena, node, "NodeMetrics");
        add_time(arena, item, usage);
        add_amounts(arena, item, usage);
        return item;
    }
    return NULL;
}

/* NULL: none of its containers runs. */
static struct json *pod_item(const struct usages *usages, const struct object *pod)
{
    struct arena *arena = usages->arena;
    struct json *item = NULL;
    struct json *containers = NULL;

    for (size_t i = 0; i < usages->items.count; i++) {
        const struct podio_usage *usage = &usages->items.items[i];

        if (!str_eq(usage->pod, pod->name) || !str_eq(usage->ns, pod->ns))
            continue;
        if (!item) {
            item = item_new(arena, pod, "PodMetrics");
            add_time(arena, item, usage);
            containers = json_add_array(arena, item, "containers");
        }
        struct json *container = json_push(containers, json_new_object(arena));
        json_add_str(arena, container, "name", usage->container);
        add_amounts(arena, container, usage);
    }
    return item;
}

static void answer_json(struct request *request, const struct json *root)
{
    http_reply(request->x, 200, "application/json", json_text(request_arena(request), root));
}

static void answer_list(struct request *request,
                        const struct usages *usages,
                        const struct api_result *result,
                        bool nodes)
{
    struct arena *arena = request_arena(request);
    struct json *list = json_new_object(arena);

    json_add_c(arena, list, "kind", nodes ? "NodeMetricsList" : "PodMetricsList");
    json_add_c(arena, list, "apiVersion", GROUP "/v1beta1");
    (void)json_add_object(arena, list, "metadata");
    struct json *items = json_add_array(arena, list, "items");
    for (size_t i = 0; i < result->item_count; i++) {
        struct json *item =
            nodes ? node_item(usages, result->items[i]) : pod_item(usages, result->items[i]);
        if (item)
            (void)json_push(items, item);
    }
    answer_json(request, list);
}

static void answer_one(struct request *request,
                       const struct usages *usages,
                       const struct api_result *result,
                       bool nodes)
{
    const struct object *object = result->object;
    struct json *item = nodes ? node_item(usages, object) : pod_item(usages, object);

    if (item)
        answer_json(request, item);
    else
        request_fail(request, 404, "NotFound",
                     "%s.metrics.k8s.io \"" STR_FMT "%s" STR_FMT
                     "\" not found: nothing of it runs on a node of this server",
                     nodes ? "nodemetrics" : "podmetrics", STR_ARG(object->ns),
                     object->ns.len ? "/" : "", STR_ARG(object->name));
}

static void usage_answer(struct request *request, const struct api_result *result)
{
    struct podio *podio = request->server->podio;
    struct usages usages = {
        .arena = request_arena(request), .ns = request->call.ns, .name = request->call.name};
    bool nodes = request->call.kind == &kind_node;

    if (result->code < 0) {
        request_fail_result(request, result);
        return;
    }
    if (!podio || !podio->ops->usage) {
        request_fail(request, 503, "ServiceUnavailable",
                     "the node agent does not run yet; try again in a moment");
        return;
    }
    podio->ops->usage(podio, usages_take, &usages);
    if (request->call.verb == API_GET)
        answer_one(request, &usages, result, nodes);
    else
        answer_list(request, &usages, result, nodes);
}

static void on_done(void *user, const struct api_result *result)
{
    struct request *request = user;

    if (http_is_open(request->x))
        usage_answer(request, result);
    http_unref(request->x);
}

bool usage_handle(struct request *request)
{
    const struct route *route = &request->route;
    struct arena *arena = request_arena(request);
    struct str query = request->x->head.query;
    bool nodes = str_is(route->plural, "nodes");

    if (!str_is(route->group, GROUP) || !str_is(route->version, "v1beta1") ||
        (!nodes && !str_is(route->plural, "pods")))
        return false;
    if (route->subresource.len || (nodes && route->ns.len) ||
        (!nodes && route->name.len && !route->ns.len)) {
        request_not_found(request);
        return true;
    }
    if (!str_is(request->x->head.method, "GET") || http_query_bool(query, "watch")) {
        request_fail(request, 405, "MethodNotAllowed",
                     "what nodes and pods use can be read only, and not watched");
        return true;
    }
    request->call = (struct api_request){
        .verb = route->name.len ? API_GET : API_LIST,
        .kind = nodes ? &kind_node : &kind_pod,
        .ns = route->ns,
        .name = route->name,
        .label_selector = http_query(arena, query, "labelSelector"),
        .field_selector = http_query(arena, query, "fieldSelector"),
    };
    (void)http_ref(request->x);
    api_call(request->server->api, &request->call, on_done, request);
    return true;
}
