#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/count.h"
#include "base/json.h"
#include "base/json_make.h"
#include "base/str.h"
#include "base/vec.h"
#include "cache/cache.h"
#include "control/builtin/endpoints.h"
#include "control/core/action.h"
#include "control/core/control.h"
#include "control/core/owner.h"

#include <stdbool.h>
#include <stddef.h>

/* Endpoints that somebody wrote for a Service without a selector, as EndpointSlices: one for each
 * subset and family of addresses. They are owned by the Endpoints, and go with them. */

#define SKIP         "endpointslice.kubernetes.io/skip-mirror"
#define MANAGED_BY   "endpointslice.kubernetes.io/managed-by"
#define MIRRORS_NAME "endpointslicemirroring-controller.k8s.io"

struct mirror {
    const struct control_input *input;
    struct arena *arena;
    struct actions *actions;
    const struct object *endpoints;
    VEC(struct str) names; /* of the slices that there should be */
};

static bool is_v6(const struct json *address)
{
    return str_find(json_str(json_get(address, "ip")), ':') < json_str(json_get(address, "ip")).len;
}

/* The addresses of one family that are ready, or not, as endpoints of a slice. */
static void add_addresses(struct mirror *m,
                          struct json *list,
                          const struct json *addresses,
                          bool v6,
                          bool ready)
{
    static const char *const kept[] = {"hostname", "nodeName", "targetRef"};

    JSON_FOREACH(addresses, address) {
        if (is_v6(address) != v6)
            continue;
        struct json *endpoint =
            json_push(list, json_make(m->arena, "{addresses: [$], conditions: {ready: $}}",
                                      json_str(json_get(address, "ip")), ready));
        for (size_t i = 0; i < COUNT_OF(kept); i++)
            if (!json_is_null(json_get(address, kept[i])))
                json_set(endpoint, str_from(kept[i]),
                         json_clone(m->arena, json_get(address, kept[i])));
    }
}

static void keep_slice(struct mirror *m, struct str name, struct json *body)
{
    static const char *const members[] = {"endpoints", "ports"};
    const struct object *old =
        cache_get(m->input->cache, &kind_endpointslice, m->endpoints->ns, name);
    struct json *patch = json_new_object(m->arena);

    VEC_PUSH(m->arena, &m->names, name);
    if (!old) {
        action_create(m->actions, &kind_endpointslice, body);
        return;
    }
    const struct json *before = object_json(old, m->arena);
    for (size_t i = 0; i < COUNT_OF(members); i++)
        if (!json_equal(json_get(body, members[i]), json_get(before, members[i])))
            json_set(patch, str_from(members[i]), json_clone(m->arena, json_get(body, members[i])));
    if (json_count(patch))
        action_patch(m->actions, old, patch);
}

static void mirror_subset(struct mirror *m, const struct json *subset, size_t index, bool v6)
{
    struct json *list = json_new_array(m->arena);
    struct str name = str_printf(m->arena, STR_FMT "-mirror-%zu%s", STR_ARG(m->endpoints->name),
                                 index, v6 ? "-v6" : "");

    add_addresses(m, list, json_get(subset, "addresses"), v6, true);
    add_addresses(m, list, json_get(subset, "notReadyAddresses"), v6, false);
    if (!json_count(list))
        return;
    struct json *body = owner_make(m->arena, m->endpoints, &kind_endpointslice, name);
    struct json *labels = json_make_path(m->arena, body, "metadata.labels");
    owner_merge_map(m->arena, labels,
                    json_at(object_json(m->endpoints, m->arena), "metadata.labels"));
    json_fill(m->arena, labels, "{kubernetes.io/service-name: $, " MANAGED_BY ": $}",
              m->endpoints->name, MIRRORS_NAME);
    const struct json *ports = json_get(subset, "ports");
    json_fill(m->arena, body, "{addressType: $, endpoints: $, ports: $}", v6 ? "IPv6" : "IPv4",
              list, ports ? json_clone(m->arena, ports) : json_new_array(m->arena));
    keep_slice(m, name, body);
}

static bool is_kept(const struct mirror *m, struct str name)
{
    for (size_t i = 0; i < m->names.count; i++)
        if (str_eq(m->names.items[i], name))
            return true;
    return false;
}

/* The API server's own have a slice from the one who writes them (apiserver.c). */
static bool is_of_server(const struct object *endpoints)
{
    return str_is(endpoints->name, "kubernetes") && str_is(endpoints->ns, "default");
}

void endpoints_mirror(const struct control_input *input,
                      const struct object *endpoints,
                      struct actions *actions)
{
    struct mirror m = {
        .input = input, .arena = actions->arena, .actions = actions, .endpoints = endpoints};
    const struct object *slice = NULL;
    size_t cursor = 0;
    size_t index = 0;

    if (!endpoints || endpoints->deleted_ms || object_controller(endpoints))
        return;
    if (!str_is(object_label(endpoints, SKIP), "true") && !is_of_server(endpoints))
        JSON_FOREACH(json_get(object_json(endpoints, m.arena), "subsets"), subset) {
            mirror_subset(&m, subset, index, false);
            mirror_subset(&m, subset, index++, true);
        }
    while ((slice = cache_next_owned(input->cache, &kind_endpointslice, endpoints->uid, &cursor)))
        if (str_is(object_label(slice, MANAGED_BY), MIRRORS_NAME) && !is_kept(&m, slice->name))
            action_delete(actions, slice);
}
