#include "api/kind.h"
#include "api/object.h"
#include "base/json.h"
#include "base/json_make.h"
#include "base/str.h"
#include "cache/cache.h"
#include "control/core/action.h"
#include "control/core/control.h"
#include "control/core/controllers.h"

#include <stddef.h>

/* The ConfigMap in which API servers behind this one read how to know it, and its users: who signs
 * users' certificates, and which headers of whom say who asks. Edits are undone. The key is ("", ""). */

#define NAME      "extension-apiserver-authentication"
#define NAMESPACE "kube-system"

static struct json *make_data(struct arena *arena, const struct control_config *config)
{
    return json_make(arena,
                     "{client-ca-file: $, requestheader-allowed-names: $, "
                     "requestheader-client-ca-file: $, requestheader-extra-headers-prefix: $, "
                     "requestheader-group-headers: $, requestheader-uid-headers: $, "
                     "requestheader-username-headers: $}",
                     config->root_ca, "[\"front-proxy-client\"]", config->front_proxy_ca,
                     "[\"X-Remote-Extra-\"]", "[\"X-Remote-Group\"]", "[\"X-Remote-Uid\"]",
                     "[\"X-Remote-User\"]");
}

static void reconcile(const struct control_input *input,
                      const struct control_key *key,
                      struct actions *actions)
{
    struct arena *arena = actions->arena;
    const struct object *ns = cache_get(input->cache, &kind_namespace, STR(""), STR(NAMESPACE));
    const struct object *old = cache_get(input->cache, &kind_configmap, STR(NAMESPACE), STR(NAME));

    (void)key;
    if (!input->config || !input->config->front_proxy_ca.len || !ns || ns->deleted_ms ||
        (old && old->deleted_ms))
        return;
    struct json *data = make_data(arena, input->config);
    if (!old) {
        action_create(actions, &kind_configmap,
                      json_make(arena,
                                "{apiVersion: 'v1', kind: 'ConfigMap', metadata: {name: $, "
                                "namespace: $}, data: $}",
                                NAME, NAMESPACE, data));
        return;
    }
    const struct json *before = json_get(object_json(old, arena), "data");
    struct json *changes = json_new_object(arena);
    JSON_FOREACH(before, member)
        if (!json_get_str(data, json_key(member)))
            json_set(changes, json_key(member), json_new_null(arena));
    JSON_FOREACH(data, member)
        if (!json_equal(json_get_str(before, json_key(member)), member))
            json_set(changes, json_key(member), json_clone(arena, member));
    if (json_count(changes))
        action_patch(actions, old, json_make(arena, "{data: $}", changes));
}

static void keys(const struct cache *cache, const struct object *object, struct control_keys *ret)
{
    (void)cache;
    if (object->kind == &kind_namespace
            ? str_is(object->name, NAMESPACE)
            : str_is(object->name, NAME) && str_is(object->ns, NAMESPACE))
        control_keys_add(ret, STR(""), STR(""));
}

static const struct kind *const watches[] = {&kind_namespace, &kind_configmap, NULL};

const struct controller extension_auth_controller = {.name = "extension-auth",
                                                     .embedded = true,
                                                     .watches = watches,
                                                     .keys = keys,
                                                     .reconcile = reconcile};
