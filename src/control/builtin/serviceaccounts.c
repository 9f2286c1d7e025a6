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

/* Every namespace has the ServiceAccount "default", which pods run as that name no other. The key
 * is the namespace. */

static void reconcile(const struct control_input *input,
                      const struct control_key *key,
                      struct actions *actions)
{
    const struct object *ns = cache_get(input->cache, &kind_namespace, STR(""), key->name);

    if (!ns || ns->deleted_ms ||
        cache_get(input->cache, &kind_serviceaccount, key->name, STR("default")))
        return;
    struct json *body =
        json_make(actions->arena,
                  "{apiVersion: 'v1', kind: 'ServiceAccount', metadata: {name: 'default', "
                  "namespace: $}}",
                  key->name);
    action_create(actions, &kind_serviceaccount, body);
}

static void keys(const struct cache *cache, const struct object *object, struct control_keys *ret)
{
    (void)cache;
    if (object->kind == &kind_namespace)
        control_keys_add(ret, STR(""), object->name);
    else if (str_is(object->name, "default"))
        control_keys_add(ret, STR(""), object->ns);
}

static const struct kind *const watches[] = {&kind_namespace, &kind_serviceaccount, NULL};

const struct controller serviceaccounts_controller = {.name = "serviceaccounts",
                                                      .embedded = true,
                                                      .watches = watches,
                                                      .keys = keys,
                                                      .reconcile = reconcile};
