#include "api/account_volume.h"

#include "base/arena.h"
#include "base/count.h"
#include "base/json.h"
#include "base/json_make.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>

bool account_volume_wanted(const struct json *spec, const struct json *account)
{
    const struct json *own = json_get(spec, "automountServiceAccountToken");

    if (json_is_null(own))
        own = json_get(account, "automountServiceAccountToken");
    return json_bool_or(own, true);
}

static bool mounts_something_there(const struct json *container)
{
    JSON_FOREACH(json_get(container, "volumeMounts"), mount)
        if (str_is(json_str(json_get(mount, "mountPath")), ACCOUNT_MOUNT_PATH))
            return true;
    return false;
}

static struct json *list_of(struct arena *arena, struct json *object, const char *name)
{
    struct json *list = json_get(object, name);

    return json_is(list, JSON_ARRAY) ? list : json_add_array(arena, object, name);
}

/* Everything that defaults would fill in is there: they have been filled in before. */
static struct json *new_volume(struct arena *arena, struct str name)
{
    return json_make(
        arena,
        "{name: $, projected: {sources: [{serviceAccountToken: {expirationSeconds: $, path: "
        "'token'}}, {configMap: {name: 'kube-root-ca.crt', items: [{key: 'ca.crt', path: "
        "'ca.crt'}]}}, {downwardAPI: {items: [{path: 'namespace', fieldRef: {apiVersion: 'v1', "
        "fieldPath: 'metadata.namespace'}}]}}], defaultMode: 420}}",
        name, ACCOUNT_TOKEN_SECONDS);
}

void account_volume_add(struct arena *arena, struct json *spec, struct str name)
{
    static const char *const lists[] = {"initContainers", "containers"};
    bool there = false;
    bool needed = false;

    JSON_FOREACH(json_get(spec, "volumes"), volume)
        if (!there && str_starts(json_str(json_get(volume, "name")), STR(ACCOUNT_VOLUME_PREFIX))) {
            name = json_str(json_get(volume, "name"));
            there = true;
        }
    for (size_t i = 0; i < COUNT_OF(lists); i++)
        JSON_FOREACH(json_get(spec, lists[i]), container) {
            if (!json_is(container, JSON_OBJECT) || mounts_something_there(container))
                continue;
            json_push(list_of(arena, container, "volumeMounts"),
                      json_make(arena, "{name: $, readOnly: true, mountPath: $}", name,
                                ACCOUNT_MOUNT_PATH));
            needed = true;
        }
    if (needed && !there)
        json_push(list_of(arena, spec, "volumes"), new_volume(arena, name));
}
