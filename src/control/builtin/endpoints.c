#include "control/builtin/endpoints.h"

#include "api/kind.h"
#include "api/object.h"
#include "api/pod.h"
#include "api/selector.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/json.h"
#include "base/json_make.h"
#include "base/str.h"
#include "base/vec.h"
#include "cache/cache.h"
#include "control/core/action.h"
#include "control/core/control.h"
#include "control/core/controllers.h"
#include "control/core/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The addresses behind a Service: Endpoints for older readers, one EndpointSlice for newer ones.
 * Services without a selector are somebody else's to fill, with Endpoints that we mirror. */

#define SLICE_SUFFIX    "-v4"
#define ADDRESSES_MAX   1000 /* what one slice may hold */
#define MANAGED_BY      "endpointslice.kubernetes.io/managed-by"
#define MANAGED_BY_NAME "endpointslice-controller.k8s.io" /* as clients look for it */

struct run {
    struct arena *arena;
    const struct object *service;
    const struct json *spec;
    bool not_ready_too; /* publishNotReadyAddresses */
};

static struct json *reference(struct arena *arena, const struct object *pod)
{
    return json_make(arena, "{kind: 'Pod', namespace: $, name: $, uid: $}", pod->ns, pod->name,
                     pod->uid);
}

static struct str protocol_of(const struct json *port)
{
    struct str protocol = json_str(json_get(port, "protocol"));

    return protocol.len ? protocol : STR("TCP");
}

static int64_t port_named(const struct json *container, struct str name, struct str protocol)
{
    JSON_FOREACH(json_get(container, "ports"), port)
        if (str_eq(json_str(json_get(port, "name")), name) && str_eq(protocol_of(port), protocol))
            return json_i64_or(json_get(port, "containerPort"), 0);
    return 0;
}

/* The number a Service's targetPort means for a pod: a number, or the name of a port of that
 * protocol, of a container or of a sidecar. 0: this pod has none. */
static int64_t target_port(const struct json *port, const struct json *pod)
{
    static const char *const lists[] = {"spec.containers", "spec.initContainers"};
    const struct json *target = json_get(port, "targetPort");
    int64_t found = 0;

    if (json_is_null(target))
        return json_i64_or(json_get(port, "port"), 0);
    if (!json_is(target, JSON_STRING))
        return json_i64_or(target, 0);
    for (size_t i = 0; i < COUNT_OF(lists); i++)
        JSON_FOREACH(json_at(pod, lists[i]), container)
            if (!found &&
                (i == 0 || str_is(json_str(json_get(container, "restartPolicy")), "Always")))
                found = port_named(container, json_str(target), protocol_of(port));
    return found;
}

/* What the ports of the Service are in this pod. */
static struct json *ports_of(const struct run *run, const struct json *pod)
{
    struct json *list = json_new_array(run->arena);

    JSON_FOREACH(json_get(run->spec, "ports"), port) {
        int64_t number = target_port(port, pod);

        if (!number)
            continue;
        struct json *item = json_push(list, json_new_object(run->arena));
        if (json_str(json_get(port, "name")).len)
            json_add_str(run->arena, item, "name", json_str(json_get(port, "name")));
        json_add_i64(run->arena, item, "port", number);
        json_add_str(run->arena, item, "protocol", protocol_of(port));
    }
    return list;
}

/* The pods whose ports are the same numbers: a subset of the Endpoints, and a slice. A port that the
 * Service names may be another number in each pod. */
struct found {
    struct json *ready; /* Endpoints addresses */
    struct json *not_ready;
    struct json *endpoints; /* of the slice */
    struct json *ports;
};
struct founds VEC_FIELDS(struct found);

static struct found *found_of(const struct run *run, struct founds *founds, struct json *ports)
{
    for (size_t i = 0; i < founds->count; i++)
        if (json_equal(founds->items[i].ports, ports))
            return &founds->items[i];
    struct found found = {.ready = json_new_array(run->arena),
                          .not_ready = json_new_array(run->arena),
                          .endpoints = json_new_array(run->arena),
                          .ports = ports};
    VEC_PUSH(run->arena, founds, found);
    return &founds->items[founds->count - 1];
}

/* A pod has a name of its own in the Service that it says it belongs to, and in no other. */
static struct str hostname_of(const struct run *run, const struct json *root)
{
    return str_eq(json_str_at(root, "spec.subdomain"), run->service->name)
               ? json_str_at(root, "spec.hostname")
               : STR("");
}

static void add_pod(const struct run *run, const struct object *pod, struct founds *founds)
{
    struct arena *arena = run->arena;
    const struct json *root = object_json(pod, arena);
    const struct json *status = json_get(root, "status");
    struct str ip = json_str(json_get(status, "podIP"));
    bool ready = condition_is_true(status, "Ready") && !pod->deleted_ms;

    if (!ip.len || pod_is_over(root))
        return;
    struct found *found = found_of(run, founds, ports_of(run, root));
    if (json_count(found->endpoints) == ADDRESSES_MAX)
        return;
    struct json *address = json_new_object(arena);
    struct str hostname = hostname_of(run, root);
    json_add_str(arena, address, "ip", ip);
    if (hostname.len)
        json_add_str(arena, address, "hostname", hostname);
    json_add_str(arena, address, "nodeName", json_str_at(root, "spec.nodeName"));
    json_set(address, STR("targetRef"), reference(arena, pod));
    /* Slices say what ends; Endpoints have no word for it. */
    if (!pod->deleted_ms || run->not_ready_too)
        json_push(ready || run->not_ready_too ? found->ready : found->not_ready, address);

    struct json *endpoint = json_push(
        found->endpoints,
        json_make(arena, "{addresses: [$], conditions: {ready: $, serving: $, terminating: $}}", ip,
                  (bool)(ready || run->not_ready_too), condition_is_true(status, "Ready"),
                  (bool)(pod->deleted_ms != 0)));
    if (hostname.len)
        json_add_str(arena, endpoint, "hostname", hostname);
    json_add_str(arena, endpoint, "nodeName", json_str_at(root, "spec.nodeName"));
    json_set(endpoint, STR("targetRef"), reference(arena, pod));
}

static struct json *subsets(const struct run *run, const struct founds *founds)
{
    struct arena *arena = run->arena;
    struct json *list = json_new_array(arena);

    for (size_t i = 0; i < founds->count; i++) {
        const struct found *found = &founds->items[i];
        if (!json_count(found->ready) && !json_count(found->not_ready))
            continue;
        struct json *subset = json_push(list, json_new_object(arena));

        if (json_count(found->ready))
            json_set(subset, STR("addresses"), found->ready);
        if (json_count(found->not_ready))
            json_set(subset, STR("notReadyAddresses"), found->not_ready);
        if (json_count(found->ports))
            json_set(subset, STR("ports"), json_clone(arena, found->ports));
    }
    return list;
}

static struct json *head(const struct run *run, const struct kind *kind, struct str name)
{
    struct arena *arena = run->arena;
    struct json *body = json_new_object(arena);
    struct json *meta = NULL;
    char version[KIND_API_VERSION_BYTES];

    json_add_str(arena, body, "apiVersion", str_dup(arena, kind_api_version(kind, version)));
    json_add_c(arena, body, "kind", kind->name);
    meta = json_add_object(arena, body, "metadata");
    json_fill(arena, meta,
              "{name: $, namespace: $, ownerReferences: [{apiVersion: 'v1', "
              "kind: 'Service', name: $, uid: $, controller: true, "
              "blockOwnerDeletion: true}]}",
              name, run->service->ns, run->service->name, run->service->uid);
    return body;
}

/* Create, or patch the members that differ. */
static void apply(const struct run *run,
                  const struct object *old,
                  const struct kind *kind,
                  struct json *body,
                  struct actions *actions)
{
    static const char *const members[] = {"subsets", "endpoints", "ports"};

    if (!old) {
        action_create(actions, kind, body);
        return;
    }
    const struct json *before = object_json(old, run->arena);
    struct json *patch = json_new_object(run->arena);
    for (size_t i = 0; i < COUNT_OF(members); i++) {
        struct json *wanted = json_get(body, members[i]);

        if (wanted && !json_equal(wanted, json_get(before, members[i])))
            json_set(patch, str_from(members[i]), json_clone(run->arena, wanted));
    }
    if (json_count(patch))
        action_patch(actions, old, patch);
}

static struct str slice_name(const struct run *run, size_t index)
{
    return index ? str_printf(run->arena, STR_FMT SLICE_SUFFIX "-%zu", STR_ARG(run->service->name),
                              index)
                 : str_printf(run->arena, STR_FMT SLICE_SUFFIX, STR_ARG(run->service->name));
}

static void keep_slice(const struct run *run,
                       const struct cache *cache,
                       const struct found *found,
                       size_t index,
                       struct actions *actions)
{
    struct str name = slice_name(run, index);
    struct json *slice = head(run, &kind_endpointslice, name);
    struct json *labels = json_make_path(run->arena, slice, "metadata.labels");

    json_fill(run->arena, labels, "{kubernetes.io/service-name: $, " MANAGED_BY ": $}",
              run->service->name, MANAGED_BY_NAME);
    json_fill(run->arena, slice, "{addressType: 'IPv4', endpoints: $, ports: $}", found->endpoints,
              found->ports);
    apply(run, cache_get(cache, &kind_endpointslice, run->service->ns, name), &kind_endpointslice,
          slice, actions);
}

/* Those that there were more of before. */
static void drop_slices(const struct run *run,
                        const struct cache *cache,
                        size_t count,
                        struct actions *actions)
{
    for (size_t i = count; i; i++) {
        const struct object *more =
            cache_get(cache, &kind_endpointslice, run->service->ns, slice_name(run, i));

        if (!more)
            return;
        if (!more->deleted_ms)
            action_delete(actions, more);
    }
}

static void reconcile(const struct control_input *input,
                      const struct control_key *key,
                      struct actions *actions)
{
    struct arena *arena = actions->arena;
    struct run run = {.arena = arena,
                      .service = cache_get(input->cache, &kind_service, key->ns, key->name)};
    const struct object *pod = NULL;
    size_t cursor = 0;

    if (!run.service || run.service->deleted_ms)
        return;
    run.spec = json_get(object_json(run.service, arena), "spec");
    run.not_ready_too = json_bool_or(json_get(run.spec, "publishNotReadyAddresses"), false);
    const struct selector *selector = object_selector(run.service);
    if (!selector || !json_count(json_get(run.spec, "selector"))) {
        endpoints_mirror(input, cache_get(input->cache, &kind_endpoints, key->ns, key->name),
                         actions);
        return;
    }
    struct founds founds = {0};
    while ((pod = cache_next(input->cache, &kind_pod, key->ns, &cursor)))
        if (selector_matches(selector, pod->labels, pod->label_count))
            add_pod(&run, pod, &founds);

    struct json *endpoints = head(&run, &kind_endpoints, key->name);
    json_fill(arena, json_make_path(arena, endpoints, "metadata.labels"),
              "{endpoints.kubernetes.io/managed-by: 'endpoint-controller'}");
    json_set(endpoints, STR("subsets"), subsets(&run, &founds));
    apply(&run, cache_get(input->cache, &kind_endpoints, key->ns, key->name), &kind_endpoints,
          endpoints, actions);
    if (!founds.count) /* one that is empty says that there is nobody */
        (void)found_of(&run, &founds, json_new_array(arena));
    for (size_t i = 0; i < founds.count; i++)
        keep_slice(&run, input->cache, &founds.items[i], i, actions);
    drop_slices(&run, input->cache, founds.count, actions);
}

static void keys_of_pod(const struct cache *cache,
                        const struct object *pod,
                        struct control_keys *ret)
{
    const struct object *service = NULL;
    size_t cursor = 0;

    while ((service = cache_next(cache, &kind_service, pod->ns, &cursor))) {
        const struct selector *selector = object_selector(service);

        if (selector && selector->term_count &&
            selector_matches(selector, pod->labels, pod->label_count))
            control_keys_add(ret, service->ns, service->name);
    }
}

static void keys(const struct cache *cache, const struct object *object, struct control_keys *ret)
{
    const struct object_owner *owner = object_controller(object);

    if (object->kind == &kind_pod)
        keys_of_pod(cache, object, ret);
    else if (object->kind == &kind_service)
        control_keys_add(ret, object->ns, object->name);
    else if (owner && (str_is(owner->kind, "Service") || str_is(owner->kind, "Endpoints")))
        control_keys_add(ret, object->ns, owner->name);
    else if (object->kind == &kind_endpoints)
        control_keys_add(ret, object->ns, object->name);
}

static const struct kind *const watches[] = {&kind_service, &kind_pod, &kind_endpoints,
                                             &kind_endpointslice, NULL};

const struct controller endpoints_controller = {.name = "endpoints",
                                                .kind = &kind_service,
                                                .refused = "FailedToUpdateEndpointSlices",
                                                .embedded = true,
                                                .watches = watches,
                                                .keys = keys,
                                                .reconcile = reconcile};
