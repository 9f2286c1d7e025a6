#include "api/admit.h"
#include "api/names.h"
#include "api/quantity.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/err.h"
#include "base/json.h"
#include "base/json_names.h"
#include "base/map.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>

/* ResourceQuota and LimitRange themselves: what they may say. What they do to others: quota.h,
 * ranges.h. */

/* Of what is counted in objects. */
static bool is_count(struct str name)
{
    static const char *const counted[] = {"pods",
                                          "services",
                                          "replicationcontrollers",
                                          "resourcequotas",
                                          "secrets",
                                          "configmaps",
                                          "persistentvolumeclaims",
                                          "services.nodeports",
                                          "services.loadbalancers"};
    bool whole = str_starts(name, STR("count/"));

    for (size_t i = 0; i < COUNT_OF(counted); i++)
        whole = whole || str_is(name, counted[i]);
    return whole;
}

/* A quota may say of which sum a resource is. */
static const char *resource_problem(struct str name, bool range)
{
    size_t dot = range || (!str_starts(name, STR("requests.")) && !str_starts(name, STR("limits.")))
                     ? 0
                     : str_find(name, '.') + 1;
    struct str resource = str_sub(name, dot, name.len);

    if (names_qualified(name))
        return names_qualified(name);
    if (admit_resource_known(resource) || (str_is(resource, "storage") && (range || dot)) ||
        (!range && is_count(name)))
        return NULL;
    return range ? ADMIT_RESOURCE_UNKNOWN
                 : "must be a standard resource for quotas, such as pods, requests.cpu, "
                   "requests.nvidia.com/gpu or count/jobs.batch";
}

static void check_amount(struct admit *admit,
                         const struct json *amount,
                         struct str path,
                         bool range)
{
    struct quantity quantity = {0};
    struct err err = {0};
    struct str field =
        str_printf(admit->arena, STR_FMT "[" STR_FMT "]", STR_ARG(path), STR_ARG(json_key(amount)));
    const char *problem = resource_problem(json_key(amount), range);

    if (quantity_parse_json(amount, &quantity, &err) < 0)
        admit_invalid(admit, field, amount, err.text);
    else if (quantity.nano < 0 && !range)
        admit_invalid(admit, field, amount, "must be greater than or equal to 0");
    if (problem)
        admit_invalid(admit, field, json_new_str(admit->arena, json_key(amount)), problem);
}

/* ---- ResourceQuota ---- */

#define QUOTA_NAMES_MAX 256 /* each is counted anew for every object that comes or goes */

/* Pods are of it or not; the value of another one is chosen. */
static bool is_plain_scope(struct str name)
{
    return !str_is(name, "PriorityClass");
}

static bool is_scope(struct str name)
{
    static const char *const scopes[] = {"Terminating",   "NotTerminating",
                                         "BestEffort",    "NotBestEffort",
                                         "PriorityClass", "CrossNamespacePodAffinity"};

    for (size_t i = 0; i < COUNT_OF(scopes); i++)
        if (str_is(name, scopes[i]))
            return true;
    return false;
}

static void check_term(struct admit *admit, const struct json *term)
{
    struct str scope = json_str(json_get(term, "scopeName"));
    struct str op = json_str(json_get(term, "operator"));
    bool in = str_is(op, "In") || str_is(op, "NotIn");
    bool none = str_is(op, "Exists") || str_is(op, "DoesNotExist");
    bool known = is_scope(scope);

    if (!known)
        admit_invalid(admit, STR("spec.scopeSelector.matchExpressions.scopeName"),
                      json_get(term, "scopeName"), "unsupported scope");
    if ((!in && !none) || (known && is_plain_scope(scope) && !str_is(op, "Exists")))
        admit_invalid(admit, STR("spec.scopeSelector.matchExpressions.operator"),
                      json_get(term, "operator"),
                      in || none ? "must be 'Exists' for any scope but PriorityClass"
                                 : "not a valid selector operator");
    if (in && !json_count(json_get(term, "values")))
        admit_required(admit, STR("spec.scopeSelector.matchExpressions.values"),
                       "must be set for In and NotIn");
    if (none && json_count(json_get(term, "values")))
        admit_invalid(admit, STR("spec.scopeSelector.matchExpressions.values"),
                      json_get(term, "values"), "must be no value for Exists and DoesNotExist");
}

/* Of objects there are whole ones. */
static void check_count(struct admit *admit, const struct json *amount)
{
    struct quantity quantity = {0};

    if (is_count(json_key(amount)) && quantity_parse_json(amount, &quantity, NULL) == 0 &&
        quantity.nano % QUANTITY_NANO)
        admit_invalid(admit,
                      str_printf(admit->arena, "spec.hard[" STR_FMT "]", STR_ARG(json_key(amount))),
                      amount, "must be an integer");
}

void admit_resourcequota_validate(struct admit *admit)
{
    const struct json *spec = json_get(admit->object, "spec");

    if (json_count(json_get(spec, "hard")) > QUOTA_NAMES_MAX)
        admit_forbidden(admit, STR("spec.hard"),
                        str_printf(admit->arena, "%zu resources; a quota has at most %d",
                                   json_count(json_get(spec, "hard")), QUOTA_NAMES_MAX)
                            .p);
    JSON_FOREACH(json_get(spec, "hard"), amount) {
        check_amount(admit, amount, STR("spec.hard"), false);
        check_count(admit, amount);
    }
    JSON_FOREACH(json_get(spec, "scopes"), scope)
        if (!is_scope(json_str(scope)))
            admit_invalid(admit, STR("spec.scopes"), scope, "unsupported scope");
    JSON_FOREACH(json_at(spec, "scopeSelector.matchExpressions"), term)
        check_term(admit, term);
    if (admit->old &&
        (json_count(json_get(spec, "scopes")) || json_count(json_at(admit->old, "spec.scopes"))) &&
        !json_equal(json_get(spec, "scopes"), json_at(admit->old, "spec.scopes")))
        admit_invalid(admit, STR("spec.scopes"), json_get(spec, "scopes"), "field is immutable");
}

/* ---- LimitRange ---- */

static void copy_missing(struct admit *admit, struct json *item, const char *to, const char *from)
{
    if (!json_count(json_get(item, from)))
        return;
    _cleanup_(json_names_done) struct json_names names = {
        .object = json_make_path(admit->arena, item, to)};
    JSON_FOREACH(json_get(item, from), amount)
        if (!json_names_get(&names, json_key(amount)))
            (void)json_names_put(&names, json_key(amount), json_clone(admit->arena, amount));
}

/* The most is what is given to who says nothing; who has a limit is asked for as much. */
void admit_limitrange_default(struct admit *admit)
{
    JSON_FOREACH(json_at(admit->object, "spec.limits"), item) {
        if (!str_is(json_str(json_get(item, "type")), "Container"))
            continue;
        copy_missing(admit, item, "default", "max");
        copy_missing(admit, item, "defaultRequest", "default");
        copy_missing(admit, item, "defaultRequest", "min");
    }
}

/* `low` of a resource is not above `high` of it; `told` of it is wrong then. */
static void check_order(struct admit *admit,
                        const struct json *item,
                        const char *const names[3],
                        struct str path)
{
    _cleanup_(json_names_done) struct json_names high = {.object = json_get(item, names[1])};

    JSON_FOREACH(json_get(item, names[0]), amount) {
        const struct json *other = json_names_get(&high, json_key(amount));
        struct quantity a = {0};
        struct quantity b = {0};

        if (json_is_null(other) || quantity_parse_json(amount, &a, NULL) < 0 ||
            quantity_parse_json(other, &b, NULL) < 0 || quantity_cmp(a, b) <= 0)
            continue;
        admit_invalid(
            admit,
            str_printf(admit->arena, STR_FMT ".%s[" STR_FMT "]", STR_ARG(path), names[2],
                       STR_ARG(json_key(amount))),
            amount,
            str_printf(admit->arena, "%s value is greater than %s value", names[0], names[1]).p);
    }
}

/* A limit is as large as its request at least. */
static void check_ratios(struct admit *admit, const struct json *item, struct str path)
{
    JSON_FOREACH(json_get(item, "maxLimitRequestRatio"), ratio) {
        struct quantity times = {0};

        if (quantity_parse_json(ratio, &times, NULL) == 0 && times.nano < QUANTITY_NANO)
            admit_invalid(admit,
                          str_printf(admit->arena, STR_FMT ".maxLimitRequestRatio[" STR_FMT "]",
                                     STR_ARG(path), STR_ARG(json_key(ratio))),
                          ratio, "must be 1 or more");
    }
}

void admit_limitrange_validate(struct admit *admit)
{
    static const char *const lists[] = {"min", "max", "default", "defaultRequest",
                                        "maxLimitRequestRatio"};
    static const char *const orders[][3] = {
        {"min", "max", "min"},
        {"min", "default", "default"},
        {"default", "max", "default"},
        {"min", "defaultRequest", "defaultRequest"},
        {"defaultRequest", "max", "defaultRequest"},
        {"defaultRequest", "default", "defaultRequest"},
    };
    _cleanup_(map_done) struct map types = {.seed = (uintptr_t)admit->object};
    size_t index = 0;

    JSON_FOREACH(json_at(admit->object, "spec.limits"), item) {
        struct str path = str_printf(admit->arena, "spec.limits[%zu]", index++);
        struct str where = str_printf(admit->arena, STR_FMT ".type", STR_ARG(path));
        struct str name = json_str(json_get(item, "type"));
        bool pod = str_is(name, "Pod");
        bool claim = str_is(name, "PersistentVolumeClaim");
        bool known = pod || claim || str_is(name, "Container");

        if (names_qualified(name) || (!known && str_find(name, '/') == name.len))
            admit_invalid(
                admit, where, json_get(item, "type"),
                "must be Container, Pod or PersistentVolumeClaim, or a name with a domain");
        if (map_set(&types, name, item))
            admit_duplicate(admit, where, json_get(item, "type"));
        for (size_t i = 0; i < COUNT_OF(lists); i++)
            JSON_FOREACH(json_get(item, lists[i]), amount)
                check_amount(admit, amount,
                             str_printf(admit->arena, STR_FMT ".%s", STR_ARG(path), lists[i]),
                             true);
        for (size_t i = 2; pod && i < 4; i++)
            if (json_count(json_get(item, lists[i])))
                admit_forbidden(admit,
                                str_printf(admit->arena, STR_FMT ".%s", STR_ARG(path), lists[i]),
                                "may not be specified when `type` is 'Pod'");
        if (claim && !json_at(item, "min.storage") && !json_at(item, "max.storage"))
            admit_required(admit, str_printf(admit->arena, STR_FMT ".limits", STR_ARG(path)),
                           "either minimum or maximum storage value is required, but neither was "
                           "provided");
        for (size_t i = 0; i < COUNT_OF(orders); i++)
            check_order(admit, item, orders[i], path);
        check_ratios(admit, item, path);
    }
}
