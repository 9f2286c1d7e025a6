#include "server/roles.h"

#include "api/api.h"
#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/json.h"
#include "base/json_make.h"
#include "base/str.h"
#include "server/rbac.h"

#include <stdbool.h>
#include <stddef.h>

#define AUTOUPDATE "rbac.authorization.kubernetes.io/autoupdate"
#define RBAC_GROUP "rbac.authorization.k8s.io"
#define TO         "rbac.authorization.k8s.io/aggregate-to-"

#define READ  "get,list,watch"
#define WRITE "create,delete,deletecollection,patch,update"
#define ALL   "create,delete,deletecollection,get,list,patch,update,watch"

static const struct {
    const char *name;
    const char *adds_to; /* the role that gathers its rules; NULL: none */
    bool gathers;
} roles[] = {
    {"cluster-admin", NULL, false},
    {"admin", NULL, true},
    {"edit", "admin", true},
    {"view", "edit", true},
    {"system:aggregate-to-admin", "admin", false},
    {"system:aggregate-to-edit", "edit", false},
    {"system:aggregate-to-view", "view", false},
    {"muster:aggregate-to-edit", "edit", false},
    {"muster:aggregate-to-view", "view", false},
    {"muster:nodes-view", NULL, false},
    {"muster:person", NULL, false},
    {"system:discovery", NULL, false},
    {"system:basic-user", NULL, false},
    {"system:public-info-viewer", NULL, false},
    {"system:monitoring", NULL, false},
    {"system:auth-delegator", NULL, false},
    {"system:service-account-issuer-discovery", NULL, false},
};

/* Lists are separated by commas; "." is the core group. */
static const struct {
    const char *role, *verbs, *groups, *resources, *paths;
} rules[] = {
    {"cluster-admin", "*", "*", "*", NULL},
    {"cluster-admin", "*", NULL, NULL, "*"},

    {"system:aggregate-to-admin", "create", "authorization.k8s.io", "localsubjectaccessreviews",
     NULL},
    {"system:aggregate-to-admin", ALL, RBAC_GROUP, "rolebindings,roles", NULL},

    {"system:aggregate-to-edit", READ, ".",
     "pods/attach,pods/exec,pods/portforward,pods/proxy,secrets,services/proxy", NULL},
    {"system:aggregate-to-edit", "impersonate", ".", "serviceaccounts", NULL},
    {"system:aggregate-to-edit", WRITE, ".",
     "pods,pods/attach,pods/exec,pods/portforward,pods/proxy", NULL},
    {"system:aggregate-to-edit", "create", ".", "pods/eviction,serviceaccounts/token", NULL},
    {"system:aggregate-to-edit", WRITE, ".",
     "configmaps,events,persistentvolumeclaims,secrets,serviceaccounts,services,services/proxy",
     NULL},
    {"system:aggregate-to-edit", WRITE, "autoscaling", "horizontalpodautoscalers", NULL},
    {"system:aggregate-to-edit", WRITE, ".", "replicationcontrollers,replicationcontrollers/scale",
     NULL},
    {"system:aggregate-to-edit", WRITE, "apps",
     "daemonsets,deployments,deployments/scale,replicasets,replicasets/scale,statefulsets,"
     "statefulsets/scale",
     NULL},
    {"system:aggregate-to-edit", WRITE, "networking.k8s.io", "ingresses,networkpolicies", NULL},
    {"system:aggregate-to-edit", WRITE, "batch", "cronjobs,jobs", NULL},
    {"system:aggregate-to-edit", WRITE, "policy", "poddisruptionbudgets", NULL},
    {"system:aggregate-to-edit", ALL, "coordination.k8s.io", "leases", NULL},

    {"system:aggregate-to-view", READ, ".",
     "bindings,configmaps,endpoints,events,namespaces,namespaces/status,persistentvolumeclaims,"
     "persistentvolumeclaims/status,pods,pods/log,pods/status,serviceaccounts,services,"
     "services/status",
     NULL},
    {"system:aggregate-to-view", READ, "autoscaling",
     "horizontalpodautoscalers,horizontalpodautoscalers/status", NULL},
    {"system:aggregate-to-view", READ, ".",
     "limitranges,replicationcontrollers,replicationcontrollers/scale,"
     "replicationcontrollers/status,resourcequotas,resourcequotas/status",
     NULL},
    {"system:aggregate-to-view", READ, "apps",
     "controllerrevisions,daemonsets,daemonsets/status,deployments,deployments/scale,"
     "deployments/status,replicasets,replicasets/scale,replicasets/status,statefulsets,"
     "statefulsets/scale,statefulsets/status",
     NULL},
    {"system:aggregate-to-view", READ, "networking.k8s.io",
     "ingresses,ingresses/status,networkpolicies", NULL},
    {"system:aggregate-to-view", READ, "batch", "cronjobs,cronjobs/status,jobs,jobs/status", NULL},
    {"system:aggregate-to-view", READ, "metrics.k8s.io", "nodes,pods", NULL},
    {"system:aggregate-to-view", READ, "discovery.k8s.io", "endpointslices", NULL},
    {"system:aggregate-to-view", READ, "policy", "poddisruptionbudgets,poddisruptionbudgets/status",
     NULL},

    {"muster:aggregate-to-edit", WRITE, "torchrun.ai", "torchrunjobs,torchrunjobs/scale", NULL},
    {"muster:aggregate-to-edit", WRITE, "jobset.x-k8s.io", "jobsets", NULL},
    {"muster:aggregate-to-edit", WRITE, "trainer.kubeflow.org", "trainjobs,trainingruntimes", NULL},
    {"muster:aggregate-to-edit", WRITE, "kubeflow.org",
     "jaxjobs,jaxjobs/scale,mpijobs,mpijobs/scale,paddlejobs,paddlejobs/scale,pytorchjobs,"
     "pytorchjobs/scale,tfjobs,tfjobs/scale,xgboostjobs,xgboostjobs/scale",
     NULL},
    {"muster:aggregate-to-edit", WRITE, "batch.tensorstack.dev", "pytorchtrainingjobs", NULL},
    {"muster:aggregate-to-edit", WRITE, "tensorstack.dev", "tensorboards", NULL},
    {"muster:aggregate-to-edit", WRITE, "scheduling.run.ai", "podgroups", NULL},
    {"muster:aggregate-to-edit", WRITE, "scheduling.k8s.io", "podgroups,workloads", NULL},
    {"system:aggregate-to-edit", WRITE, "resource.k8s.io", "resourceclaims,resourceclaimtemplates",
     NULL},

    {"muster:aggregate-to-view", READ,
     "torchrun.ai,jobset.x-k8s.io,trainer.kubeflow.org,kubeflow.org,batch.tensorstack.dev,"
     "tensorstack.dev,scheduling.run.ai",
     "*", NULL},
    {"muster:aggregate-to-view", READ, "scheduling.k8s.io", "podgroups,podgroups/status,workloads",
     NULL},
    {"system:aggregate-to-view", READ, "resource.k8s.io",
     "resourceclaims,resourceclaims/status,resourceclaimtemplates", NULL},

    {"muster:nodes-view", READ, ".", "nodes", NULL},
    /* Whoever shares this machine may see how full it is, and who waits: names and sizes, never what a
     * pod or a job carries. */
    {"muster:person", READ, ".", "nodes", NULL},
    {"muster:person", READ, "scheduling.run.ai", "queues,podgroups", NULL},

    {"system:discovery", "get", NULL, NULL,
     "/api,/api/*,/apis,/apis/*,/healthz,/livez,/openapi,/openapi/*,/readyz,/version,/version/"},
    {"system:basic-user", "create", "authorization.k8s.io",
     "selfsubjectaccessreviews,selfsubjectrulesreviews", NULL},
    {"system:basic-user", "create", "authentication.k8s.io", "selfsubjectreviews", NULL},
    {"system:public-info-viewer", "get", NULL, NULL, "/healthz,/livez,/readyz,/version,/version/"},
    {"system:monitoring", "get", NULL, NULL,
     "/healthz,/healthz/*,/livez,/livez/*,/metrics,/metrics/slis,/readyz,/readyz/*"},
    {"system:service-account-issuer-discovery", "get", NULL, NULL,
     "/.well-known/openid-configuration,/.well-known/openid-configuration/,/openid/v1/jwks,"
     "/openid/v1/jwks/"},
    {"system:auth-delegator", "create", "authentication.k8s.io", "tokenreviews", NULL},
    {"system:auth-delegator", "create", "authorization.k8s.io", "subjectaccessreviews", NULL},
};

static const struct {
    const char *role; /* and the binding's name */
    const char *groups;
} bindings[] = {
    {"cluster-admin", "system:masters"},
    {"system:discovery", "system:authenticated"},
    {"system:basic-user", "system:authenticated"},
    {"system:public-info-viewer", "system:authenticated,system:unauthenticated"},
    {"system:monitoring", "system:monitoring"},
    {"system:service-account-issuer-discovery", "system:serviceaccounts"},
};

/* ---- as objects ---- */

static void words_add(struct arena *arena, struct json *rule, const char *key, const char *list)
{
    struct str rest = str_from(list);
    struct str word;

    if (!list)
        return;
    struct json *array = json_add_array(arena, rule, key);
    while (str_cut(&rest, ',', &word))
        json_push(array, json_new_str(arena, str_is(word, ".") ? STR("") : word));
}

static struct json *rules_of_role(struct arena *arena, const char *role)
{
    struct json *array = json_new_array(arena);

    for (size_t i = 0; i < COUNT_OF(rules); i++) {
        if (!str_is(str_from(role), rules[i].role))
            continue;
        struct json *rule = json_push(array, json_new_object(arena));
        words_add(arena, rule, "verbs", rules[i].verbs);
        words_add(arena, rule, "apiGroups", rules[i].groups);
        words_add(arena, rule, "resources", rules[i].resources);
        words_add(arena, rule, "nonResourceURLs", rules[i].paths);
    }
    return array;
}

static struct json *object_start(struct arena *arena, const char *name)
{
    return json_make(arena,
                     "{metadata: {name: $, annotations: {" AUTOUPDATE
                     ": 'true'}, labels: {kubernetes.io/bootstrapping: 'rbac-defaults'}}}",
                     name);
}

static struct json *role_object(struct arena *arena, size_t index)
{
    struct json *root = object_start(arena, roles[index].name);

    if (roles[index].adds_to)
        json_set(json_at(root, "metadata.labels"), str_printf(arena, TO "%s", roles[index].adds_to),
                 json_new_str(arena, STR("true")));
    json_set(root, STR("rules"), rules_of_role(arena, roles[index].name));
    if (roles[index].gathers) {
        struct json *selectors = json_add_array(
            arena, json_add_object(arena, root, "aggregationRule"), "clusterRoleSelectors");
        struct json *labels =
            json_add_object(arena, json_push(selectors, json_new_object(arena)), "matchLabels");

        json_set(labels, str_printf(arena, TO "%s", roles[index].name),
                 json_new_str(arena, STR("true")));
    }
    return root;
}

static struct json *binding_object(struct arena *arena, size_t index)
{
    struct json *root = object_start(arena, bindings[index].role);
    struct json *subjects = json_add_array(arena, root, "subjects");
    struct json *ref = json_add_object(arena, root, "roleRef");
    struct str rest = str_from(bindings[index].groups);
    struct str group;

    while (str_cut(&rest, ',', &group)) {
        json_push(subjects,
                  json_make(arena, "{kind: 'Group', apiGroup: $, name: $}", RBAC_GROUP, group));
    }
    json_fill(arena, ref, "{apiGroup: $, kind: 'ClusterRole', name: $}", RBAC_GROUP,
              bindings[index].role);
    return root;
}

/* ---- other API servers ---- */

#define READER "extension-apiserver-authentication-reader"

/* Who may read how this server is known to others (control/builtin/extension_auth.c). */
static struct json *reader_object(struct arena *arena)
{
    struct json *root = object_start(arena, READER);

    json_fill(arena, root,
              "{rules: [{apiGroups: [''], resources: ['configmaps'], resourceNames: "
              "['extension-apiserver-authentication'], verbs: ['get', 'list', 'watch']}]}");
    json_add_c(arena, json_get(root, "metadata"), "namespace", "kube-system");
    return root;
}

/* ---- into the store ---- */

static const struct object *stored_find(const struct rbac *rbac,
                                        const struct kind *kind,
                                        const struct json *wanted)
{
    struct str ns = json_str_at(wanted, "metadata.namespace");
    struct str name = json_str_at(wanted, "metadata.name");

    for (size_t i = 0; i < rbac->count; i++)
        if (rbac->objects[i]->kind == kind && str_eq(rbac->objects[i]->name, name) &&
            str_eq(rbac->objects[i]->ns, ns))
            return rbac->objects[i];
    return NULL;
}

static void list_patch(struct api *api,
                       struct arena *arena,
                       const struct object *object,
                       const char *key,
                       struct json *list)
{
    struct json *patch = json_new_object(arena);

    json_set(patch, str_from(key), list);
    api_call(api,
             &(struct api_request){.verb = API_PATCH,
                                   .patch = API_PATCH_MERGE,
                                   .kind = object->kind,
                                   .ns = object->ns,
                                   .name = object->name,
                                   .uid = object->uid,
                                   .field_manager = STR("clusterrole-aggregation-controller"),
                                   .body = json_text(arena, patch)},
             api_ignore, NULL);
}

static bool list_has(const struct json *list, const struct json *wanted)
{
    JSON_FOREACH(list, item)
        if (json_equal(item, wanted))
            return true;
    return false;
}

/* What is missing of a list is put behind what is there. */
static void object_install(struct api *api,
                           const struct rbac *rbac,
                           struct arena *arena,
                           const struct kind *kind,
                           struct json *wanted)
{
    const struct object *object = stored_find(rbac, kind, wanted);
    const char *key = json_get(wanted, "rules") ? "rules" : "subjects";

    if (!object) {
        api_call(api,
                 &(struct api_request){.verb = API_CREATE,
                                       .kind = kind,
                                       .ns = json_str_at(wanted, "metadata.namespace"),
                                       .field_manager = STR("muster"),
                                       .body = json_text(arena, wanted)},
                 api_ignore, NULL);
        return;
    }
    if (str_is(object_annotation(object, AUTOUPDATE), "false"))
        return;
    struct json *list = json_get(object_json(object, arena), key);
    bool more = false;

    if (!json_is(list, JSON_ARRAY))
        list = json_new_array(arena);
    JSON_FOREACH(json_get(wanted, key), item)
        if (!list_has(list, item)) {
            more = true;
            json_push(list, json_clone(arena, item));
        }
    if (more)
        list_patch(api, arena, object, key, list);
}

void roles_install(struct api *api, const struct rbac *rbac)
{
    _cleanup_(arena_done) struct arena arena = {0};

    for (size_t i = 0; i < COUNT_OF(roles); i++)
        object_install(api, rbac, &arena, &kind_clusterrole, role_object(&arena, i));
    for (size_t i = 0; i < COUNT_OF(bindings); i++)
        object_install(api, rbac, &arena, &kind_clusterrolebinding, binding_object(&arena, i));
    object_install(api, rbac, &arena, &kind_role, reader_object(&arena));
}

/* ---- aggregation ---- */

void roles_aggregate(struct api *api,
                     const struct rbac *rbac,
                     const struct object *old,
                     const struct object *now)
{
    for (size_t i = 0; i < rbac->count; i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        const struct object *role = rbac->objects[i];

        if (role->kind != &kind_clusterrole || role->deleted_ms ||
            !str_contains(role->raw, STR("\"clusterRoleSelectors\"")))
            continue;
        const struct json *root = object_json(role, &arena);
        const struct json *selectors = json_at(root, "aggregationRule.clusterRoleSelectors");
        bool concerned = role == now || (old && rbac_gathers(&arena, selectors, old)) ||
                         (now && rbac_gathers(&arena, selectors, now));
        struct json *gathered = concerned ? rbac_aggregate(rbac, &arena, role) : NULL;
        const struct json *has = json_get(root, "rules");

        if (gathered && !json_equal(gathered, has) && (json_count(gathered) || json_count(has)))
            list_patch(api, &arena, role, "rules", gathered);
    }
}
