#include "api/admit.h"
#include "api/message_look.h"
#include "api/names.h"
#include "api/quantity.h"
#include "api/schema.h"
#include "api/types.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/json.h"
#include "base/map.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What fields of kinds for priority, volumes, events and addresses have to be because of others. */

/* ---- lists ---- */

static bool has(const struct json *list, struct str text)
{
    JSON_FOREACH(list, item)
        if (str_eq(json_str(item), text))
            return true;
    return false;
}

/* An item, or its member `key`, that is as the one of an item before. */
static void check_twice(const struct look *look, const char *list, const char *key)
{
    _cleanup_(map_done) struct map seen = {.seed = (uintptr_t)look->object};
    struct arena *arena = look->admit->arena;
    size_t index = 0;

    JSON_FOREACH(json_get(look->object, list), item) {
        struct json *value = key ? json_get(item, key) : item;
        struct str at = look_at_item(look, list, index++);

        if (map_set(&seen, json_str(value), item))
            admit_duplicate(look->admit,
                            key ? str_printf(arena, STR_FMT ".%s", STR_ARG(at), key) : at, value);
    }
}

/* Nothing else stands beside a "*". False: there is none. */
static bool check_all(const struct look *look, const char *field, const char *why)
{
    const struct json *list = json_get(look->object, field);

    if (!has(list, STR("*")))
        return false;
    if (json_count(list) > 1)
        look_wrong(look, field, why);
    return true;
}

/* ---- flowcontrol.apiserver.k8s.io ---- */

static void check_flow(const struct look *look)
{
    if (json_i64_or(json_get(look->object, "matchingPrecedence"), 0) == 1 &&
        !str_is(json_str_at(look->admit->object, "metadata.name"), "exempt"))
        look_wrong(look, "matchingPrecedence",
                   "only the schema named 'exempt' may have matchingPrecedence 1");
}

static void check_flow_rules(const struct look *look)
{
    if (!json_count(json_get(look->object, "resourceRules")) &&
        !json_count(json_get(look->object, "nonResourceRules")))
        admit_required(look->admit, look_here(look),
                       "at least one of resourceRules and nonResourceRules has to be non-empty");
}

static void check_flow_subject(const struct look *look)
{
    static const struct {
        const char *kind;
        const char *field;
    } rows[] = {{"ServiceAccount", "serviceAccount"}, {"User", "user"}, {"Group", "group"}};
    struct str kind = look_text(look, "kind");
    bool known = false;

    for (size_t i = 0; i < COUNT_OF(rows); i++)
        known |= str_is(kind, rows[i].kind);
    for (size_t i = 0; known && i < COUNT_OF(rows); i++) {
        bool there = !json_is_null(json_get(look->object, rows[i].field));

        if (str_is(kind, rows[i].kind) && !there)
            admit_required(look->admit, look_at(look, rows[i].field),
                           "is what a subject of this kind is");
        else if (!str_is(kind, rows[i].kind) && there)
            admit_forbidden(look->admit, look_at(look, rows[i].field),
                            "is of another kind of subject");
    }
}

static void check_flow_account(const struct look *look)
{
    struct str name = look_text(look, "name");

    if (name.len && !str_is(name, "*") && names_dns_subdomain(name))
        look_wrong(look, "name", names_dns_subdomain(name));
}

static void check_flow_verbs(const struct look *look)
{
    static const char *const verbs[] = {
        "get", "list", "create", "update", "delete", "watch", "deletecollection", "patch", "proxy"};
    const struct json *list = json_get(look->object, "verbs");

    if (check_all(look, "verbs", "if '*' is present, must not specify other verbs"))
        return;
    JSON_FOREACH(list, verb) {
        bool known = false;

        for (size_t i = 0; i < COUNT_OF(verbs); i++)
            known |= str_is(json_str(verb), verbs[i]);
        if (!known) {
            admit_unsupported(look->admit, look_at(look, "verbs"), list,
                              "\"create\", \"delete\", \"deletecollection\", \"get\", \"list\", "
                              "\"patch\", \"proxy\", \"update\", \"watch\"");
            return;
        }
    }
}

static void check_flow_resources(const struct look *look)
{
    const struct json *namespaces = json_get(look->object, "namespaces");
    size_t index = 0;

    check_flow_verbs(look);
    (void)check_all(look, "apiGroups", "if '*' is present, must not specify other api groups");
    (void)check_all(look, "resources", "if '*' is present, must not specify other resources");
    if (!json_count(namespaces) && !json_bool_or(json_get(look->object, "clusterScope"), false))
        admit_required(look->admit, look_at(look, "namespaces"),
                       "resource rules that are not cluster scoped must supply at least one "
                       "namespace");
    if (check_all(look, "namespaces", "if '*' is present, must not specify other namespaces"))
        return;
    JSON_FOREACH(namespaces, ns) {
        if (names_dns_label(json_str(ns)))
            admit_invalid(look->admit, look_at_item(look, "namespaces", index), ns,
                          "each member of this list must be '*' or a DNS-1123 label");
        index++;
    }
}

/* "/healthz", "/healthz/" and a star behind it. */
static const char *path_rule(struct str path)
{
    size_t star = str_find(path, '*');

    return !path.len                        ? "must not be empty"
           : path.p[0] != '/'               ? "must start with slash"
           : str_find(path, ' ') < path.len ? "must not contain white-space"
           : str_contains(path, STR("//"))  ? "must not contain double slash"
           : star < path.len && (star + 1 != path.len || path.p[star - 1] != '/')
               ? "wildcard can only do suffix matching"
               : NULL;
}

static void check_flow_paths(const struct look *look)
{
    size_t index = 0;

    check_flow_verbs(look);
    if (check_all(look, "nonResourceURLs",
                  "if '*' is present, must not specify other non-resource URLs"))
        return;
    JSON_FOREACH(json_get(look->object, "nonResourceURLs"), path) {
        if (path_rule(json_str(path)))
            admit_invalid(look->admit, look_at_item(look, "nonResourceURLs", index), path,
                          path_rule(json_str(path)));
        index++;
    }
}

static void check_level(const struct look *look)
{
    struct str type = look_text(look, "type");
    bool exempt = str_is(type, "Exempt");
    bool limited = !json_is_null(json_get(look->object, "limited"));

    if (exempt != str_is(json_str_at(look->admit->object, "metadata.name"), "exempt"))
        look_wrong(look, "type", "type must be 'Exempt' if and only if name is 'exempt'");
    if (exempt && limited)
        admit_forbidden(look->admit, look_at(look, "limited"),
                        "must be nil if the type is not Limited");
    if (!str_is(type, "Limited"))
        return;
    if (!json_is_null(json_get(look->object, "exempt")))
        admit_forbidden(look->admit, look_at(look, "exempt"), "must be nil if the type is Limited");
    if (!limited)
        admit_required(look->admit, look_at(look, "limited"),
                       "must not be empty when type is Limited");
}

static void check_limit(const struct look *look)
{
    struct str type = look_text(look, "type");
    bool queues = !json_is_null(json_get(look->object, "queuing"));

    if (str_is(type, "Reject") && queues)
        admit_forbidden(look->admit, look_at(look, "queuing"), "is of the type Queue only");
    else if (str_is(type, "Queue") && !queues)
        admit_required(look->admit, look_at(look, "queuing"), "is what the type Queue needs");
}

static void check_queues(const struct look *look)
{
    if (json_i64_or(json_get(look->object, "handSize"), 0) >
        json_i64_or(json_get(look->object, "queues"), 0))
        look_wrong(look, "handSize", "should not be greater than queues");
}

/* ---- storage.k8s.io ---- */

static void check_drivers(const struct look *look)
{
    check_twice(look, "drivers", "name");
}

#define NODE_ID_BYTES_MAX 192

static void check_driver(const struct look *look)
{
    const struct json *keys = json_get(look->object, "topologyKeys");
    _cleanup_(map_done) struct map seen = {.seed = (uintptr_t)look->object};
    struct str where = look_here(look);

    if (look_text(look, "nodeID").len > NODE_ID_BYTES_MAX)
        look_wrong(look, "nodeID", "must be 192 characters or less");
    JSON_FOREACH(keys, key) {
        if (!json_str(key).len)
            admit_required(look->admit, where, "");
        if (map_set(&seen, json_str(key), key))
            admit_duplicate(look->admit, where, key);
        if (names_qualified(json_str(key)))
            admit_invalid(look->admit, where, key, names_qualified(json_str(key)));
    }
}

static void check_csidriver(const struct look *look)
{
    check_twice(look, "tokenRequests", "audience");
}

static void check_topology(const struct look *look)
{
    check_twice(look, "matchLabelExpressions", "key");
    if (!json_count(json_get(look->object, "matchLabelExpressions")))
        admit_duplicate(look->admit, look_at(look, "matchLabelExpressions"), NULL);
}

static void check_topology_label(const struct look *look)
{
    check_twice(look, "values", NULL);
}

static void check_class(const struct look *look)
{
    const struct json *terms = json_get(look->object, "allowedTopologies");
    struct schema_path list = {.up = look->path, .name = STR("allowedTopologies")};
    struct schema_path item = {.up = &list};
    struct look term = {.admit = look->admit, .path = &item};
    struct str lower = str_dup(look->admit->arena, look_text(look, "provisioner"));
    _cleanup_(map_done) struct map seen = {.seed = (uintptr_t)look->object};

    for (size_t i = 0; i < lower.len; i++)
        if (lower.p[i] >= 'A' && lower.p[i] <= 'Z')
            ((char *)(uintptr_t)lower.p)[i] |= 0x20;
    if (lower.len && names_qualified(lower))
        look_wrong(look, "provisioner", names_qualified(lower));
    if (json_get_str(json_get(look->object, "parameters"), STR("")))
        look_wrong(look, "parameters", "field can not be empty.");
    JSON_FOREACH(terms, each) {
        struct str text = json_text(look->admit->arena, each);

        term.object = each;
        if (map_set(&seen, text, each))
            admit_duplicate(look->admit, look_at(&term, "matchLabelExpressions"), NULL);
        item.index++;
    }
}

/* ---- autoscaling ---- */

static void check_target(const struct look *look)
{
    static const char *const amounts[] = {"value", "averageValue"};
    struct str type = look_text(look, "type");

    if (!str_is(type, "Utilization") && !str_is(type, "Value") && !str_is(type, "AverageValue"))
        look_wrong(look, "type", "must be either Utilization, Value, or AverageValue");
    for (size_t i = 0; i < COUNT_OF(amounts); i++) {
        struct quantity amount = {0};
        const struct json *said = json_get(look->object, amounts[i]);

        if (!json_is_null(said) && quantity_parse_json(said, &amount, NULL) == 0 &&
            amount.nano <= 0)
            look_wrong(look, amounts[i], "must be positive");
    }
}

/* What each sort of a metric is measured against: one of two, or both where `both`. */
static void check_measure(const struct look *look, const char *one, const char *other, bool both)
{
    const struct json *target = json_get(look->object, "target");
    struct schema_path at = {.up = look->path, .name = STR("target")};
    struct look below = {.admit = look->admit, .object = target, .path = &at};
    bool has_one = !json_is_null(json_get(target, one));
    bool has_other = other && !json_is_null(json_get(target, other));

    if (!has_one && !has_other)
        admit_required(look->admit, look_at(&below, one), "must say what is wanted");
    if (has_one && has_other && !both)
        admit_forbidden(look->admit, look_at(&below, other), "may not set both");
}

static void check_resource_metric(const struct look *look)
{
    check_measure(look, "averageUtilization", "averageValue", false);
}

static void check_object_metric(const struct look *look)
{
    check_measure(look, "averageValue", "value", true);
}

static void check_external_metric(const struct look *look)
{
    check_measure(look, "averageValue", "value", false);
}

static void check_pods_metric(const struct look *look)
{
    check_measure(look, "averageValue", NULL, true);
}

static void check_metric(const struct look *look)
{
    static const struct {
        const char *type;
        const char *field;
    } rows[] = {{"Object", "object"},
                {"External", "external"},
                {"Pods", "pods"},
                {"Resource", "resource"},
                {"ContainerResource", "containerResource"}};
    struct str type = look_text(look, "type");
    size_t count = 0;

    for (size_t i = 0; i < COUNT_OF(rows); i++)
        count += json_is_null(json_get(look->object, rows[i].field)) ? 0 : 1;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        bool there = !json_is_null(json_get(look->object, rows[i].field));

        if (str_is(type, rows[i].type) && !there)
            admit_required(look->admit, look_at(look, rows[i].field),
                           "must populate information for the given metric source");
        else if (!str_is(type, rows[i].type) && there && count > 1)
            admit_forbidden(look->admit, look_at(look, rows[i].field),
                            "must populate the given metric source only");
    }
}

static void check_autoscaler(const struct look *look)
{
    const struct json *least = json_get(look->object, "minReplicas");

    if (json_i64_or(json_get(look->object, "maxReplicas"), 0) < json_i64_or(least, 1) &&
        json_i64_or(json_get(look->object, "maxReplicas"), 0) > 0)
        look_wrong(look, "maxReplicas", "must be greater than or equal to `minReplicas`");
}

/* ---- core ---- */

static void check_subset(const struct look *look)
{
    if (!json_count(json_get(look->object, "addresses")) &&
        !json_count(json_get(look->object, "notReadyAddresses")))
        admit_required(look->admit, look_here(look),
                       "must specify `addresses` or `notReadyAddresses`");
}

static void check_backend(const struct look *look)
{
    const struct json *port = json_at(look->object, "service.port");

    if (json_str(json_get(port, "name")).len && json_i64_or(json_get(port, "number"), 0))
        admit_invalid(look->admit, look_here(look), look->object,
                      "cannot set both port name & port number");
}

static void check_overhead(const struct look *look)
{
    admit_amounts(look->admit, json_get(look->object, "podFixed"), STR("overhead.limits"));
}

static void check_source(const struct look *look)
{
    const struct json *name = json_get(look->object, "persistentVolumeName");
    bool inline_spec = !json_is_null(json_get(look->object, "inlineVolumeSpec"));

    if (json_is_null(name) && !inline_spec)
        admit_required(look->admit, look_here(look),
                       "must specify exactly one of inlineVolumeSpec and persistentVolumeName");
    else if (!json_is_null(name) && inline_spec)
        admit_forbidden(look->admit, look_here(look),
                        "must specify exactly one of inlineVolumeSpec and persistentVolumeName");
    else if (!json_is_null(name) && names_dns_subdomain(json_str(name)))
        look_wrong(look, "persistentVolumeName", names_dns_subdomain(json_str(name)));
}

static void check_nodes(const struct look *look)
{
    _cleanup_(map_done) struct map seen = {.seed = (uintptr_t)look->object};
    size_t index = 0;

    JSON_FOREACH(json_get(look->object, "tolerations"), item) {
        if (map_set(&seen, json_text(look->admit->arena, item), item))
            admit_duplicate(look->admit, look_at_item(look, "tolerations", index), item);
        index++;
    }
    look_labels(look, "nodeSelector");
}

/* ---- admissionregistration.k8s.io ---- */

/* "a", "a/b", "a/all", and the like, none of which is in another one. */
static void check_rule_resources(const struct look *look)
{
    const struct json *list = json_get(look->object, "resources");
    _cleanup_(map_done) struct map below = {.seed = (uintptr_t)look->object};
    bool bare = false;
    size_t index = 0;

    JSON_FOREACH(list, item) {
        struct str text = json_str(item);
        size_t slash = str_find(text, '/');
        struct str at = look_at_item(look, "resources", index++);
        struct str all =
            str_printf(look->admit->arena, STR_FMT "/*", STR_ARG(str_sub(text, 0, slash)));
        struct str any =
            str_printf(look->admit->arena, "*" STR_FMT, STR_ARG(str_sub(text, slash, text.len)));

        bare |= slash == text.len && !str_is(text, "*") && text.len;
        if (slash == text.len)
            continue;
        if (map_get(&below, all) || map_get(&below, any))
            admit_invalid(look->admit, at, item, "is in another item that has a '*'");
        if (str_eq(text, all) || str_eq(text, any))
            map_set(&below, str_dup(look->admit->arena, text), item);
    }
    if (has(list, STR("*/*")) && json_count(list) > 1)
        look_wrong(look, "resources", "if '*/*' is present, must not specify other resources");
    if (has(list, STR("*")) && bare)
        look_wrong(look, "resources",
                   "if '*' is present, must not specify other resources without subresources");
}

/* Which requests a webhook or a policy is about. */
static void check_operations(const struct look *look)
{
    static const char *const named[] = {"apiVersions", "resources"};

    (void)check_all(look, "operations", "if '*' is present, must not specify other operations");
    (void)check_all(look, "apiGroups", "if '*' is present, must not specify other API groups");
    (void)check_all(look, "apiVersions", "if '*' is present, must not specify other API versions");
    for (size_t i = 0; i < COUNT_OF(named); i++) {
        size_t index = 0;

        JSON_FOREACH(json_get(look->object, named[i]), item) {
            if (!json_str(item).len)
                admit_required(look->admit, look_at_item(look, named[i], index), "");
            index++;
        }
    }
    check_rule_resources(look);
    check_twice(look, "resourceNames", NULL);
}

static void check_conditions(const struct look *look)
{
    check_twice(look, "matchConditions", "name");
}

static void check_policy_lists(const struct look *look)
{
    check_conditions(look);
    check_twice(look, "auditAnnotations", "key");
}

static void check_actions(const struct look *look)
{
    check_twice(look, "validationActions", NULL);
}

/* ---- scheduling.k8s.io ---- */

#define USER_PRIORITY_MAX 1000000000

/* Names that begin with system- are those of Kubernetes' own classes, and so are the highest values.
 */
static void check_priority_class(const struct look *look)
{
    struct str name = json_str_at(look->admit->object, "metadata.name");
    int64_t value = json_i64_or(json_get(look->object, "value"), 0);
    bool known = (str_is(name, "system-cluster-critical") && value == 2000000000) ||
                 (str_is(name, "system-node-critical") && value == 2000001000);

    if (str_starts(name, STR("system-")) &&
        (!known || json_bool_or(json_get(look->object, "globalDefault"), false)))
        admit_forbidden(look->admit, STR("metadata.name"),
                        "priority class names with 'system-' prefix are reserved for system use "
                        "only");
    else if (!known && value > USER_PRIORITY_MAX)
        admit_forbidden(look->admit, look_at(look, "value"),
                        "maximum allowed value of a user defined priority is 1000000000");
}

/* ---- discovery.k8s.io ---- */

static const char *address_rule(struct str type, struct str address)
{
    bool six = str_find(address, ':') < address.len;

    if (str_is(type, "IPv4") && six && !type_form_wrong("ip", address))
        return "must be an IPv4 address";
    if (str_is(type, "IPv6") && !six && !type_form_wrong("ip", address))
        return "must be an IPv6 address";
    if (str_is(type, "FQDN"))
        return names_dns_subdomain(address) ? names_dns_subdomain(address)
               : str_find(address, '.') >= address.len
                   ? "should be a domain with at least two segments separated by dots"
                   : NULL;
    return str_is(type, "IPv4") || str_is(type, "IPv6") ? type_form_wrong("ip", address) : NULL;
}

static void check_endpoint(const struct look *look)
{
    struct str type = json_str_at(look->admit->object, "addressType");
    size_t index = 0;

    JSON_FOREACH(json_get(look->object, "addresses"), address) {
        struct str text = json_str(address);
        const char *why = address_rule(type, text);

        if (why) /* an address of the other sort is told of the list */
            admit_invalid(look->admit,
                          !str_is(type, "FQDN") && !type_form_wrong("ip", text)
                              ? look_at(look, "addresses")
                              : look_at_item(look, "addresses", index),
                          address, why);
        index++;
    }
}

static void check_hints(const struct look *look)
{
    check_twice(look, "forZones", "name");
}

static void check_slice(const struct look *look)
{
    check_twice(look, "ports", "name");
}

/* ---- events ---- */

#define EVENT_TEXT_MAX 128
#define EVENT_NOTE_MAX 1024

static void check_event_text(const struct look *look, const char *field, const char *told)
{
    struct str text = look_text(look, field);

    if (!text.len)
        admit_required(look->admit, str_from(told), "");
    else if (text.len > EVENT_TEXT_MAX)
        admit_invalid(look->admit, str_from(told), NULL, "can have at most 128 characters");
}

/* What says when it happened says who saw what, too. Of both versions; what it is about is named as
 * in v1. */
static void check_event(const struct look *look, const char *controller, const char *told)
{
    const struct json *about = json_get(look->object, "involvedObject");
    struct str ns = json_str_at(look->admit->object, "metadata.namespace");
    struct str note = look_text(look, "message");
    struct str name = look_text(look, controller);

    if (!json_str(json_get(look->object, "eventTime")).len)
        return;
    if (!about)
        about = json_get(look->object, "regarding");
    if (!note.len)
        note = look_text(look, "note");
    if (!json_str(json_get(about, "namespace")).len && !str_is(ns, "default") &&
        !str_is(ns, "kube-system"))
        admit_invalid(look->admit, STR("involvedObject.namespace"), NULL,
                      "does not match event.namespace");
    if (!name.len)
        admit_required(look->admit, str_from(told), "");
    if (names_qualified(name))
        admit_invalid(look->admit, str_from(told), json_get(look->object, controller),
                      names_qualified(name));
    check_event_text(look, "reportingInstance", "reportingInstance");
    check_event_text(look, "action", "action");
    check_event_text(look, "reason", "reason");
    if (note.len > EVENT_NOTE_MAX)
        admit_invalid(look->admit, STR("message"), NULL, "can have at most 1024 characters");
}

static void check_old_event(const struct look *look)
{
    check_event(look, "reportingComponent", "reportingComponent");
}

static void check_series(const struct look *look)
{
    const struct json *series = json_get(look->object, "series");

    if (json_is_null(series) || json_equal(series, json_get(look->admit->old, "series")))
        return;
    if (json_i64_or(json_get(series, "count"), 0) < 2)
        admit_invalid(look->admit, STR("series.count"), NULL, "should be at least 2");
    if (!json_str(json_get(series, "lastObservedTime")).len)
        admit_required(look->admit, STR("series.lastObservedTime"), "");
}

/* What differs between the versions is named as in v1. */
static void check_new_event(const struct look *look)
{
    static const struct {
        const char *field;
        const char *told;
    } rows[] = {
        {"deprecatedSource", "source"},
        {"deprecatedFirstTimestamp", "firstTimestamp"},
        {"deprecatedLastTimestamp", "lastTimestamp"},
        {"deprecatedCount", "count"},
        {"regarding", "involvedObject"},
        {"reason", "reason"},
        {"note", "message"},
        {"type", "type"},
        {"eventTime", "eventTime"},
        {"action", "action"},
        {"related", "related"},
        {"reportingController", "reportingController"},
        {"reportingInstance", "reportingInstance"},
    };
    const struct json *old = look->admit->old;
    struct str type = look_text(look, "type");

    check_event(look, "reportingController", "reportingController");
    check_series(look);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const struct json *now = json_get(look->object, rows[i].field);
        const struct json *before = json_get(old, rows[i].field);
        bool nothing = i == 0 && json_is(now, JSON_OBJECT) && !json_count(now) && !before;

        if (old && !nothing && !json_equal(now, before))
            admit_invalid(look->admit, str_from(rows[i].told), now, "field is immutable");
        else if (!old && i < 4 && !json_is_null(now) && json_i64_or(now, 1) &&
                 !(json_is(now, JSON_OBJECT) && !json_count(now)))
            admit_invalid(look->admit, str_from(rows[i].told), NULL, "needs to be unset");
    }
    if (!old && !json_str(json_get(look->object, "eventTime")).len)
        admit_required(look->admit, STR("eventTime"), "");
    if (!old && !str_is(type, "Normal") && !str_is(type, "Warning"))
        look_wrong(look, "type", "has invalid value: it is Normal or Warning");
}

/* ---- which ---- */

const struct message_rule message_kinds[] = {
    {"storage.k8s.io/v1", "CSIDriverSpec", check_csidriver},
    {"storage.k8s.io/v1", "CSINodeDriver", check_driver},
    {"storage.k8s.io/v1", "CSINodeSpec", check_drivers},
    {"autoscaling/v2", "ContainerResourceMetricSource", check_resource_metric},
    {"discovery.k8s.io/v1", "Endpoint", check_endpoint},
    {"discovery.k8s.io/v1", "EndpointHints", check_hints},
    {"discovery.k8s.io/v1", "EndpointSlice", check_slice},
    {"v1", "EndpointSubset", check_subset},
    {"events.k8s.io/v1", "Event", check_new_event},
    {"v1", "Event", check_old_event},
    {"autoscaling/v2", "ExternalMetricSource", check_external_metric},
    {"flowcontrol.apiserver.k8s.io/v1", "FlowSchemaSpec", check_flow},
    {"autoscaling/v1", "HorizontalPodAutoscalerSpec", check_autoscaler},
    {"autoscaling/v2", "HorizontalPodAutoscalerSpec", check_autoscaler},
    {"networking.k8s.io/v1", "IngressBackend", check_backend},
    {"flowcontrol.apiserver.k8s.io/v1", "LimitResponse", check_limit},
    {"autoscaling/v2", "MetricSpec", check_metric},
    {"autoscaling/v2", "MetricTarget", check_target},
    {"admissionregistration.k8s.io/v1", "MutatingWebhook", check_conditions},
    {"admissionregistration.k8s.io/v1", "NamedRuleWithOperations", check_operations},
    {"flowcontrol.apiserver.k8s.io/v1", "NonResourcePolicyRule", check_flow_paths},
    {"autoscaling/v2", "ObjectMetricSource", check_object_metric},
    {"node.k8s.io/v1", "Overhead", check_overhead},
    {"autoscaling/v2", "PodsMetricSource", check_pods_metric},
    {"flowcontrol.apiserver.k8s.io/v1", "PolicyRulesWithSubjects", check_flow_rules},
    {"scheduling.k8s.io/v1", "PriorityClass", check_priority_class},
    {"flowcontrol.apiserver.k8s.io/v1", "PriorityLevelConfigurationSpec", check_level},
    {"flowcontrol.apiserver.k8s.io/v1", "QueuingConfiguration", check_queues},
    {"autoscaling/v2", "ResourceMetricSource", check_resource_metric},
    {"flowcontrol.apiserver.k8s.io/v1", "ResourcePolicyRule", check_flow_resources},
    {"admissionregistration.k8s.io/v1", "RuleWithOperations", check_operations},
    {"node.k8s.io/v1", "Scheduling", check_nodes},
    {"flowcontrol.apiserver.k8s.io/v1", "ServiceAccountSubject", check_flow_account},
    {"storage.k8s.io/v1", "StorageClass", check_class},
    {"flowcontrol.apiserver.k8s.io/v1", "Subject", check_flow_subject},
    {"v1", "TopologySelectorLabelRequirement", check_topology_label},
    {"v1", "TopologySelectorTerm", check_topology},
    {"admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicyBindingSpec", check_actions},
    {"admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicySpec", check_policy_lists},
    {"admissionregistration.k8s.io/v1", "ValidatingWebhook", check_conditions},
    {"storage.k8s.io/v1", "VolumeAttachmentSource", check_source},
};
const size_t message_kind_count = COUNT_OF(message_kinds);
