#include "api/condition.h"
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

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Every group version that the API server serves itself has an APIService that says so, as Kubernetes
 * has it: for what is built in, and for each version of a CustomResourceDefinition while that is
 * there. Edits of them are undone. The key is the name, VERSION.GROUP. */

#define AUTOMANAGED "kube-aggregator.kubernetes.io/automanaged"
#define CRD_GROUP   1000 /* priorities of what CRDs bring, as in Kubernetes */
#define CRD_VERSION 100

struct priorities {
    const char *name;
    int64_t group;
    int64_t version;
};

/* In Kubernetes' numbers, by which clients choose among groups that have a resource of one name. */
static const struct priorities built_in[] = {
    {"v1.", 18000, 1},
    {"v1.apps", 17800, 15},
    {"v1.events.k8s.io", 17750, 15},
    {"v1.authentication.k8s.io", 17700, 15},
    {"v1.authorization.k8s.io", 17600, 15},
    {"v1.autoscaling", 17500, 15},
    {"v2.autoscaling", 17500, 30},
    {"v1.batch", 17400, 15},
    {"v1.certificates.k8s.io", 17300, 15},
    {"v1.networking.k8s.io", 17200, 15},
    {"v1.policy", 17100, 15},
    {"v1.rbac.authorization.k8s.io", 17000, 15},
    {"v1.storage.k8s.io", 16800, 15},
    {"v1.apiextensions.k8s.io", 16700, 15},
    {"v1.admissionregistration.k8s.io", 16700, 15},
    {"v1.scheduling.k8s.io", 16600, 15},
    {"v1beta1.scheduling.k8s.io", 16600, 12},
    {"v1.coordination.k8s.io", 16500, 15},
    {"v1.node.k8s.io", 16300, 15},
    {"v1.discovery.k8s.io", 16200, 15},
    {"v1.flowcontrol.apiserver.k8s.io", 16100, 21},
    {"v1.resource.k8s.io", 15900, 15},
    {"v1beta1.metrics.k8s.io", 100, 100},
};

static bool is_served(const struct kinds *kinds, struct str version, struct str group)
{
    for (size_t i = 0; kinds && i < kinds_count(kinds); i++) {
        const struct kind *kind = kinds_at(kinds, i);

        if (kind->custom && str_is(group, kind->group) && str_is(version, kind->version))
            return true;
    }
    return false;
}

/* False: the API server does not serve it itself. */
static bool local_find(const struct kinds *kinds, struct str name, struct priorities *ret)
{
    struct str group = name;
    struct str version = STR("");

    for (size_t i = 0; i < COUNT_OF(built_in); i++)
        if (str_is(name, built_in[i].name)) {
            *ret = built_in[i];
            return true;
        }
    (void)str_cut(&group, '.', &version);
    *ret = (struct priorities){NULL, CRD_GROUP, CRD_VERSION};
    return is_served(kinds, version, group);
}

static struct json *make(struct arena *arena, struct str name, const struct priorities *local)
{
    struct str group = name;
    struct str version = STR("");

    (void)str_cut(&group, '.', &version);
    return json_make(arena,
                     "{apiVersion: 'apiregistration.k8s.io/v1', kind: 'APIService', metadata: "
                     "{name: $, labels: {" AUTOMANAGED ": $}}, spec: {group: $?, version: $, "
                     "groupPriorityMinimum: $, versionPriority: $}}",
                     name, local->name ? "onstart" : "true", group, version, local->group,
                     local->version);
}

/* Whoever changed ours finds it as it was. */
static void keep(const struct object *old,
                 const struct json *root,
                 const struct priorities *local,
                 struct actions *actions)
{
    struct arena *arena = actions->arena;
    const struct json *wanted = make(arena, old->name, local);
    struct json *spec = json_new_object(arena);
    struct json *patch = json_new_object(arena);
    struct str label = json_str(json_get(json_at(wanted, "metadata.labels"), AUTOMANAGED));

    JSON_FOREACH(json_get(root, "spec"), member)
        if (!json_get_str(json_get(wanted, "spec"), json_key(member)) &&
            !str_is(json_key(member), "group"))
            json_set(spec, json_key(member), json_new_null(arena));
    JSON_FOREACH(json_get(wanted, "spec"), member)
        if (!json_equal(json_get_str(json_get(root, "spec"), json_key(member)), member))
            json_set(spec, json_key(member), json_clone(arena, member));
    if (json_count(spec))
        json_set(patch, STR("spec"), spec);
    if (!str_eq(object_label(old, AUTOMANAGED), label))
        json_set(patch, STR("metadata"), json_make(arena, "{labels: {" AUTOMANAGED ": $}}", label));
    if (json_count(patch))
        action_patch(actions, old, patch);
}

static void tell(const struct object *old,
                 const struct json *root,
                 int64_t now_ms,
                 struct actions *actions)
{
    static const struct condition available = {"Available", "True", "Local",
                                               STR("Local APIServices are always available")};
    const struct json *before = condition_find(json_get(root, "status"), "Available");
    struct arena *arena = actions->arena;

    if (str_is(json_str(json_get(before, "status")), available.status) &&
        str_is(json_str(json_get(before, "reason")), available.reason))
        return;
    const struct json *status = json_get(root, "status");
    struct json *next =
        json_is(status, JSON_OBJECT) ? json_clone(arena, status) : json_new_object(arena);
    condition_set(arena, next, &available, now_ms);
    action_patch_status(actions, old, json_make(arena, "{status: $}", next));
}

static void reconcile_name(const struct control_input *input,
                           struct str name,
                           struct actions *actions)
{
    struct arena *arena = actions->arena;
    const struct object *old = cache_get(input->cache, &kind_apiservice, STR(""), name);
    struct priorities local;
    bool is_local = local_find(input->kinds, name, &local);

    if (!old) {
        if (is_local)
            action_create(actions, &kind_apiservice, make(arena, name, &local));
        return;
    }
    if (old->deleted_ms)
        return;
    struct str label = object_label(old, AUTOMANAGED);
    const struct json *root = object_json(old, arena);
    bool elsewhere = json_is(json_at(root, "spec.service"), JSON_OBJECT);
    if (!is_local && str_is(label, "true"))
        action_delete(actions, old);
    else if (is_local && (local.name || label.len))
        keep(old, root, &local, actions);
    if (!elsewhere && (is_local || !label.len))
        tell(old, root, input->now_ms, actions);
}

static void reconcile(const struct control_input *input,
                      const struct control_key *key,
                      struct actions *actions)
{
    if (!input->config || !input->config->api_port)
        return;
    if (key->name.len) {
        reconcile_name(input, key->name, actions);
        return;
    }
    for (size_t i = 0; i < COUNT_OF(built_in); i++)
        if (!cache_get(input->cache, &kind_apiservice, STR(""), str_from(built_in[i].name)))
            reconcile_name(input, str_from(built_in[i].name), actions);
    for (size_t i = 1; i < actions->list.count; i++)
        actions->list.items[i].beside = true;
}

static void keys(const struct cache *cache, const struct object *object, struct control_keys *ret)
{
    (void)cache;
    if (object->kind == &kind_apiservice) {
        control_keys_add(ret, STR(""), object->name);
        return;
    }
    const struct json *spec = json_get(object_json(object, ret->arena), "spec");
    struct str group = json_str(json_get(spec, "group"));
    JSON_FOREACH(json_get(spec, "versions"), version)
        control_keys_add(ret, STR(""),
                         str_printf(ret->arena, STR_FMT "." STR_FMT,
                                    STR_ARG(json_str(json_get(version, "name"))), STR_ARG(group)));
}

static const struct kind *const watches[] = {&kind_apiservice, &kind_crd, NULL};

const struct controller apiservices_controller = {.name = "apiservices",
                                                  .at_start = true,
                                                  .embedded = true,
                                                  .watches = watches,
                                                  .keys = keys,
                                                  .reconcile = reconcile};
