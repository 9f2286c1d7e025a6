#include "api/quota.h"

#include "api/kind.h"
#include "api/pod.h"
#include "base/count.h"
#include "base/json.h"
#include "base/str.h"

#include <stddef.h>
#include <string.h>

#define NANO        ((__int128)1000000000)
#define COUNT       "count/"
#define CLASS_OF    ".storageclass.storage.k8s.io/"
#define CLASS_OLDER "volume.beta.kubernetes.io/storage-class"

/* ---- what a resource means ---- */

bool quota_counted(struct str resource, struct str *ret_plural, struct str *ret_group)
{
    if (!str_starts(resource, STR(COUNT)))
        return false;
    struct str rest = str_sub(resource, sizeof(COUNT) - 1, resource.len);
    size_t dot = str_find(rest, '.');
    *ret_plural = str_sub(rest, 0, dot);
    *ret_group = str_sub(rest, dot + 1, rest.len);
    return true;
}

/* Older names for the number of objects of a kind. */
static bool counts_kind(struct str resource, const struct kind *kind)
{
    static const struct kind *const named[] = {&kind_pod,
                                               &kind_service,
                                               &kind_pvc,
                                               &kind_configmap,
                                               &kind_secret,
                                               &kind_resourcequota,
                                               &kind_replicationcontroller};
    struct str plural = STR_NONE;
    struct str group = STR_NONE;

    if (quota_counted(resource, &plural, &group))
        return str_is(plural, kind->plural) && str_is(group, kind->group);
    for (size_t i = 0; i < COUNT_OF(named); i++)
        if (named[i] == kind && str_is(resource, kind->plural))
            return true;
    return false;
}

struct quota_compute {
    const char *list; /* requests, limits */
    struct str name;  /* cpu */
};

/* "cpu" is "requests.cpu"; devices have requests only. */
static bool read_compute(struct str resource, struct quota_compute *ret)
{
    static const char *const plain[] = {"cpu", "memory", "ephemeral-storage"};
    bool request = str_starts(resource, STR("requests."));
    bool limit = str_starts(resource, STR("limits."));
    struct str name = request ? str_sub(resource, sizeof("requests.") - 1, resource.len)
                      : limit ? str_sub(resource, sizeof("limits.") - 1, resource.len)
                              : resource;

    *ret = (struct quota_compute){limit ? "limits" : "requests", name};
    for (size_t i = 0; i < COUNT_OF(plain); i++)
        if (str_is(name, plain[i]))
            return true;
    return (request || limit) &&
           (str_find(name, '/') < name.len || str_starts(name, STR("hugepages-")));
}

bool quota_concerns(struct str resource, const struct kind *kind)
{
    struct quota_compute compute;

    if (counts_kind(resource, kind))
        return true;
    if (kind == &kind_pod)
        return read_compute(resource, &compute) && !str_contains(resource, STR(CLASS_OF));
    if (kind == &kind_pvc)
        return str_is(resource, "requests.storage") || str_contains(resource, STR(CLASS_OF));
    return kind == &kind_service &&
           (str_is(resource, "services.loadbalancers") || str_is(resource, "services.nodeports"));
}

/* ---- amounts ---- */

static __int128 nano_of(const struct json *value)
{
    struct quantity quantity = {0};

    return quantity_parse_json(value, &quantity, NULL) < 0 ? 0 : quantity.nano;
}

static __int128 amount(const struct json *container, const struct quota_compute *compute)
{
    return nano_of(
        json_get_str(json_get(json_get(container, "resources"), compute->list), compute->name));
}

/* What runs together is added; of what runs before it the most counts. */
static __int128 pod_takes(const struct quota_compute *compute, const struct json *spec)
{
    __int128 together = 0;
    __int128 before = 0;
    __int128 beside = 0; /* of those that are started first and stay */

    JSON_FOREACH(json_get(spec, "initContainers"), container) {
        __int128 one = amount(container, compute);

        if (str_is(json_str(json_get(container, "restartPolicy")), "Always"))
            beside += one;
        else if (one + beside > before)
            before = one + beside;
    }
    JSON_FOREACH(json_get(spec, "containers"), container)
        together += amount(container, compute);
    together += beside;
    return (together > before ? together : before) +
           nano_of(json_get_str(json_get(spec, "overhead"), compute->name));
}

static __int128 claim_takes(struct str resource, const struct json *claim)
{
    struct str class = json_str_at(claim, "spec.storageClassName");
    size_t at = 0;

    if (!class.len)
        class = json_str(json_get(json_at(claim, "metadata.annotations"), CLASS_OLDER));
    while (at < resource.len && !str_starts(str_sub(resource, at, resource.len), STR(CLASS_OF)))
        at++;
    bool of_class = at < resource.len;
    struct str what =
        of_class ? str_sub(resource, at + sizeof(CLASS_OF) - 1, resource.len) : resource;
    if (of_class && !str_eq(class, str_sub(resource, 0, at)))
        return 0;
    if (str_is(what, "persistentvolumeclaims"))
        return NANO;
    return nano_of(json_at(claim, "spec.resources.requests.storage"));
}

static __int128 service_takes(struct str resource, const struct json *service)
{
    struct str type = json_str_at(service, "spec.type");
    bool balanced = str_is(type, "LoadBalancer");

    if (str_is(resource, "services.loadbalancers"))
        return balanced ? NANO : 0;
    return balanced || str_is(type, "NodePort")
               ? NANO * (__int128)json_count(json_at(service, "spec.ports"))
               : 0;
}

__int128 quota_taken(struct str resource, const struct kind *kind, const struct json *object)
{
    struct quota_compute compute;

    if (kind == &kind_pod && pod_is_over(object) && !str_starts(resource, STR(COUNT)))
        return 0;
    if (counts_kind(resource, kind))
        return NANO;
    if (!quota_concerns(resource, kind))
        return 0;
    if (kind == &kind_pod)
        return read_compute(resource, &compute) ? pod_takes(&compute, json_get(object, "spec")) : 0;
    if (kind == &kind_pvc)
        return claim_takes(resource, object);
    return service_takes(resource, object);
}

struct str quota_silent(struct str resource, const struct json *pod)
{
    static const char *const lists[] = {"initContainers", "containers"};
    struct quota_compute compute;

    /* Only of what every pod needs; devices are asked for by who wants them. */
    if (!read_compute(resource, &compute) ||
        (!str_is(compute.name, "cpu") && !str_is(compute.name, "memory")))
        return STR_NONE;
    for (size_t i = 0; i < COUNT_OF(lists); i++)
        JSON_FOREACH(json_get(json_get(pod, "spec"), lists[i]), container)
            if (json_is_null(json_get_str(json_get(json_get(container, "resources"), compute.list),
                                          compute.name)))
                return json_str(json_get(container, "name"));
    return STR_NONE;
}

/* ---- scopes ---- */

static bool is_best_effort(const struct json *pod)
{
    static const char *const lists[] = {"initContainers", "containers"};
    static const char *const names[] = {"cpu", "memory"};

    for (size_t i = 0; i < COUNT_OF(lists); i++)
        JSON_FOREACH(json_get(json_get(pod, "spec"), lists[i]), container)
            for (size_t j = 0; j < COUNT_OF(names); j++)
                if (amount(container, &(struct quota_compute){"requests", str_from(names[j])}) ||
                    amount(container, &(struct quota_compute){"limits", str_from(names[j])}))
                    return false;
    return true;
}

static bool has_affinity(const struct json *pod)
{
    static const char *const paths[] = {"podAffinity", "podAntiAffinity"};

    for (size_t i = 0; i < COUNT_OF(paths); i++)
        JSON_FOREACH(json_at(json_get(json_at(pod, "spec.affinity"), paths[i]),
                             "requiredDuringSchedulingIgnoredDuringExecution"),
                     term)
            if (json_count(json_get(term, "namespaces")) || json_get(term, "namespaceSelector"))
                return true;
    return false;
}

static bool scope_holds(struct str scope,
                        struct str op,
                        const struct json *values,
                        const struct json *pod)
{
    bool deadline = !json_is_null(json_at(pod, "spec.activeDeadlineSeconds"));
    struct str class = json_str_at(pod, "spec.priorityClassName");
    bool listed = false;

    if (str_is(scope, "Terminating"))
        return deadline;
    if (str_is(scope, "NotTerminating"))
        return !deadline;
    if (str_is(scope, "BestEffort"))
        return is_best_effort(pod);
    if (str_is(scope, "NotBestEffort"))
        return !is_best_effort(pod);
    if (str_is(scope, "CrossNamespacePodAffinity"))
        return has_affinity(pod);
    JSON_FOREACH(values, value)
        listed |= str_eq(json_str(value), class);
    return str_is(op, "In")             ? listed
           : str_is(op, "NotIn")        ? !listed
           : str_is(op, "DoesNotExist") ? !class.len
                                        : class.len > 0;
}

bool quota_covers(const struct json *spec, const struct kind *kind, const struct json *object)
{
    const struct json *scopes = json_get(spec, "scopes");
    const struct json *terms = json_at(spec, "scopeSelector.matchExpressions");

    if (!json_count(scopes) && !json_count(terms))
        return true;
    if (kind != &kind_pod)
        return false;
    JSON_FOREACH(scopes, scope)
        if (!scope_holds(json_str(scope), STR("Exists"), NULL, object))
            return false;
    JSON_FOREACH(terms, term)
        if (!scope_holds(json_str(json_get(term, "scopeName")),
                         json_str(json_get(term, "operator")), json_get(term, "values"), object))
            return false;
    return true;
}
