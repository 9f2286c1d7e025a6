#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/count.h"
#include "base/json.h"
#include "base/json_make.h"
#include "base/str.h"
#include "cache/cache.h"
#include "control/core/action.h"
#include "control/core/control.h"
#include "control/core/controllers.h"

#include <stddef.h>

/* The Service `kubernetes` in `default`, by which clients know where the API server is. It is
 * headless: the node agent leads its name to the server itself, by whatever way its pods have. And
 * the ServiceCIDR of that name, by which they know what addresses Services have. */

#define NAME      "kubernetes"
#define NAMESPACE "default"
#define PORT      443

static struct json *head(struct arena *arena, const struct kind *kind)
{
    struct json *body = json_new_object(arena);
    char version[KIND_API_VERSION_BYTES];

    json_fill(arena, body, "{apiVersion: $, kind: $, metadata: {name: $, namespace: $}}",
              str_dup(arena, kind_api_version(kind, version)), kind->name, NAME, NAMESPACE);
    return body;
}

static struct json *port(struct arena *arena, int64_t number)
{
    return json_make(arena, "{name: 'https', port: $, protocol: 'TCP'}", number);
}

static struct json *make_service(struct arena *arena, const struct control_config *config)
{
    struct json *body = head(arena, &kind_service);
    struct json *labels = json_make_path(arena, body, "metadata.labels");
    struct json *spec = json_add_object(arena, body, "spec");
    struct json *item = port(arena, PORT);

    json_add_c(arena, labels, "component", "apiserver");
    json_add_c(arena, labels, "provider", "kubernetes");
    json_add_c(arena, spec, "clusterIP", "None");
    json_add_i64(arena, item, "targetPort", config->api_port);
    json_push(json_add_array(arena, spec, "ports"), item);
    return body;
}

static struct json *make_endpoints(struct arena *arena, const struct control_config *config)
{
    struct json *body = head(arena, &kind_endpoints);

    json_fill(arena, body, "{subsets: [{addresses: [{ip: $}], ports: [$]}]}", config->api_address,
              port(arena, config->api_port));
    return body;
}

static struct json *make_slice(struct arena *arena, const struct control_config *config)
{
    struct json *body = head(arena, &kind_endpointslice);
    struct json *labels = json_make_path(arena, body, "metadata.labels");

    json_add_c(arena, labels, "kubernetes.io/service-name", NAME);
    json_fill(arena, body,
              "{addressType: 'IPv4', endpoints: [{addresses: [$], "
              "conditions: {ready: true}}], ports: [$]}",
              config->api_address, port(arena, config->api_port));
    return body;
}

static const struct {
    const struct kind *kind;
    const char *member; /* which says where the server is: it may have moved */
    struct json *(*make)(struct arena *arena, const struct control_config *config);
} parts[] = {
    {&kind_service, "spec", make_service},
    {&kind_endpoints, "subsets", make_endpoints},
    {&kind_endpointslice, "endpoints", make_slice},
    {&kind_endpointslice, "ports", make_slice},
};

/* Its block is for ever: where the node has another one now, the object is another one as well. */
static void reconcile_cidr(const struct control_input *input, struct actions *actions)
{
    struct arena *arena = actions->arena;
    const struct object *old = cache_get(input->cache, &kind_servicecidr, STR(""), STR(NAME));
    struct str cidr = input->config->service_cidr;

    if (!cidr.len || (old && old->deleted_ms))
        return;
    if (!old)
        action_create(actions, &kind_servicecidr,
                      json_make(arena,
                                "{apiVersion: 'networking.k8s.io/v1', kind: 'ServiceCIDR', "
                                "metadata: {name: $}, spec: {cidrs: [$]}}",
                                NAME, cidr));
    else if (!str_eq(json_str_at(object_json(old, arena), "spec.cidrs.0"), cidr))
        action_delete(actions, old);
}

static void reconcile(const struct control_input *input,
                      const struct control_key *key,
                      struct actions *actions)
{
    struct arena *arena = actions->arena;
    const struct object *place = cache_get(input->cache, &kind_namespace, STR(""), STR(NAMESPACE));

    (void)key;
    if (!input->config || !input->config->api_port || !place)
        return;
    reconcile_cidr(input, actions);
    for (size_t i = 0; i < COUNT_OF(parts); i++) {
        const struct object *old =
            cache_get(input->cache, parts[i].kind, STR(NAMESPACE), STR(NAME));
        struct json *body = parts[i].make(arena, input->config);
        struct str member = str_from(parts[i].member);

        if (!old) {
            action_create(actions, parts[i].kind, body);
            continue;
        }
        const struct json *before = json_get_str(object_json(old, arena), member);
        if (old->deleted_ms || parts[i].kind == &kind_service ||
            json_equal(before, json_get_str(body, member)))
            continue;
        struct json *patch = json_new_object(arena);
        json_set(patch, member, json_clone(arena, json_get_str(body, member)));
        action_patch(actions, old, patch);
    }
}

static void keys(const struct cache *cache, const struct object *object, struct control_keys *ret)
{
    (void)cache;
    if (str_is(object->name, NAME) &&
        (str_is(object->ns, NAMESPACE) || object->kind == &kind_servicecidr))
        control_keys_add(ret, STR(""), STR(""));
    else if (object->kind == &kind_namespace && str_is(object->name, NAMESPACE))
        control_keys_add(ret, STR(""), STR(""));
}

static const struct kind *const watches[] = {
    &kind_namespace, &kind_service, &kind_endpoints, &kind_endpointslice, &kind_servicecidr, NULL};

const struct controller apiserver_controller = {.name = "apiserver",
                                                .at_start = true,
                                                .embedded = true,
                                                .watches = watches,
                                                .keys = keys,
                                                .reconcile = reconcile};
