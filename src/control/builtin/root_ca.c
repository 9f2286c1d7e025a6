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

/* Every namespace has the ConfigMap kube-root-ca.crt with the certificate that the API server can
 * be checked with: the usual volume of a token has it beside the token. Whoever edits or removes it
 * gets it back. The key is the namespace. */

#define NAME      "kube-root-ca.crt"
#define FILE_NAME "ca.crt"

static struct json *new_map(struct arena *arena, struct str ns, struct str ca)
{
    return json_make(
        arena,
        "{apiVersion: 'v1', kind: 'ConfigMap', metadata: {name: $, namespace: $, annotations: "
        "{kubernetes.io/description: $}}, data: {" FILE_NAME ": $}}",
        NAME, ns,
        "The certificate of the authority that signed the API server's. Edits are undone.", ca);
}

static void reconcile(const struct control_input *input,
                      const struct control_key *key,
                      struct actions *actions)
{
    struct arena *arena = actions->arena;
    struct str ca = input->config ? input->config->root_ca : STR_NONE;
    const struct object *ns = cache_get(input->cache, &kind_namespace, STR(""), key->name);
    const struct object *old = cache_get(input->cache, &kind_configmap, key->name, STR(NAME));

    if (!ca.len || !ns || ns->deleted_ms || (old && old->deleted_ms))
        return;
    if (!old) {
        action_create(actions, &kind_configmap, new_map(arena, key->name, ca));
        return;
    }
    const struct json *data = json_get(object_json(old, arena), "data");
    if (json_count(data) == 1 && str_eq(json_str(json_get(data, FILE_NAME)), ca))
        return;
    struct json *patch = json_new_object(arena);
    struct json *wanted = json_add_object(arena, patch, "data");
    JSON_FOREACH(data, member)
        json_set(wanted, json_key(member), json_new_null(arena));
    json_add_str(arena, wanted, FILE_NAME, ca);
    action_patch(actions, old, patch);
}

static void keys(const struct cache *cache, const struct object *object, struct control_keys *ret)
{
    (void)cache;
    if (object->kind == &kind_namespace)
        control_keys_add(ret, STR(""), object->name);
    else if (str_is(object->name, NAME))
        control_keys_add(ret, STR(""), object->ns);
}

static const struct kind *const watches[] = {&kind_namespace, &kind_configmap, NULL};

const struct controller root_ca_controller = {.name = "root-ca",
                                              .embedded = true,
                                              .watches = watches,
                                              .keys = keys,
                                              .reconcile = reconcile};
