#include "api/message_rules.h"

#include "api/admit.h"
#include "api/kind.h"
#include "api/message_look.h"
#include "api/names.h"
#include "api/quantity.h"
#include "api/schema.h"
#include "api/types.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/err.h"
#include "base/json.h"
#include "base/map.h"
#include "base/str.h"
#include "base/vec.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct str look_here(const struct look *look)
{
    return schema_path_text(look->admit->arena, look->path);
}

struct str look_at(const struct look *look, const char *field)
{
    struct schema_path below = {.up = look->path, .name = str_from(field)};

    return schema_path_text(look->admit->arena, &below);
}

struct str look_at_item(const struct look *look, const char *list, size_t index)
{
    struct schema_path below = {.up = look->path, .name = str_from(list)};
    struct schema_path item = {.up = &below, .index = index};

    return schema_path_text(look->admit->arena, &item);
}

struct str look_text(const struct look *look, const char *field)
{
    return json_str(json_get(look->object, field));
}

void look_wrong(const struct look *look, const char *field, const char *why)
{
    admit_invalid(look->admit, look_at(look, field), json_get(look->object, field), why);
}

/* A field above the message, or below the object, is of that name. */
static bool is_below(const struct look *look, const char *name)
{
    for (const struct schema_path *path = look->path; path; path = path->up)
        if (str_is(path->name, name))
            return true;
    return false;
}

/* ---- labels ---- */

/* What is wrong with a key or a value, where the map is. */
void look_labels(const struct look *look, const char *field)
{
    struct admit *admit = look->admit;

    JSON_FOREACH(json_get(look->object, field), label) {
        const char *why = names_qualified(json_key(label));

        if (why)
            admit_invalid(admit, look_at(look, field), json_new_str(admit->arena, json_key(label)),
                          why);
        if (json_is(label, JSON_STRING) && names_label_value(json_str(label)))
            admit_invalid(admit, look_at(look, field), label, names_label_value(json_str(label)));
    }
}

static void check_values(const struct look *look, const char *(*rule)(struct str text))
{
    struct schema_path list = {.up = look->path, .name = STR("values")};
    struct schema_path item = {.up = &list};

    JSON_FOREACH(json_get(look->object, "values"), value) {
        if (json_is(value, JSON_STRING) && rule(json_str(value)))
            admit_invalid(look->admit, schema_path_text(look->admit->arena, &item), value,
                          rule(json_str(value)));
        item.index++;
    }
}

/* How many values an operator has. */
static void check_operator(const struct look *look, bool numbers)
{
    struct str operator= look_text(look, "operator");
    size_t count = json_count(json_get(look->object, "values"));
    struct str values = look_at(look, "values");

    if (str_is(operator, "In") || str_is(operator, "NotIn")) {
        if (!count)
            admit_required(look->admit, values,
                           "must be specified when `operator` is 'In' or 'NotIn'");
    } else if (str_is(operator, "Exists") || str_is(operator, "DoesNotExist")) {
        if (count)
            admit_forbidden(look->admit, values,
                            "may not be specified when `operator` is 'Exists' or 'DoesNotExist'");
    } else if (numbers && (str_is(operator, "Lt") || str_is(operator, "Gt"))) {
        if (count != 1)
            admit_required(look->admit, values,
                           "must be specified single value when `operator` is 'Lt' or 'Gt'");
    } else {
        look_wrong(look, "operator", "not a valid selector operator");
    }
}

static void check_key(const struct look *look)
{
    if (names_qualified(look_text(look, "key")))
        look_wrong(look, "key", names_qualified(look_text(look, "key")));
}

static void check_selector(const struct look *look)
{
    look_labels(look, "matchLabels");
}

static void check_term(const struct look *look)
{
    check_operator(look, false);
    check_key(look);
    check_values(look, names_label_value);
}

/* Of a node: by a label, or by its name, which is the one field that there is. */
static void check_node_term(const struct look *look)
{
    struct str operator= look_text(look, "operator");

    if (!is_below(look, "matchFields")) {
        check_operator(look, true);
        check_key(look);
        if (!is_below(look, "preference"))
            check_values(look, names_label_value);
        return;
    }
    if (!str_is(operator, "In") && !str_is(operator, "NotIn"))
        look_wrong(look, "operator", "not a valid selector operator");
    else if (json_count(json_get(look->object, "values")) != 1)
        admit_required(look->admit, look_at(look, "values"),
                       "must be only one value when `operator` is 'In' or 'NotIn' for node field "
                       "selector");
    if (!str_is(look_text(look, "key"), "metadata.name"))
        look_wrong(look, "key", "not a valid field selector key");
    else
        check_values(look, names_dns_subdomain);
}

/* ---- pods ---- */

static void check_toleration(const struct look *look)
{
    struct str operator= look_text(look, "operator");
    bool exists = str_is(operator, "Exists");

    if (!look_text(look, "key").len && !exists)
        look_wrong(
            look, "operator",
            "operator must be Exists when `key` is empty, which means \"match all values and all "
            "keys\"");
    if (!json_is_null(json_get(look->object, "tolerationSeconds")) &&
        !str_is(look_text(look, "effect"), "NoExecute"))
        look_wrong(look, "effect", "effect must be 'NoExecute' when `tolerationSeconds` is set");
    if (exists && look_text(look, "value").len)
        look_wrong(look, "operator", "value must be empty when `operator` is 'Exists'");
    else if (!exists && names_label_value(look_text(look, "value")))
        look_wrong(look, "operator", names_label_value(look_text(look, "value")));
}

static void check_variable(const struct look *look)
{
    if (look_text(look, "value").len && !json_is_null(json_get(look->object, "valueFrom")))
        look_wrong(look, "valueFrom", "may not be specified when `value` is not empty");
}

/* What a pod can be told about itself: as a variable, in a file, or neither. */
static void check_pod_field(const struct look *look)
{
    static const struct {
        const char *path;
        bool variable;
        bool file;
        bool subscript;
    } rows[] = {
        {"metadata.annotations", false, true, true},
        {"metadata.labels", false, true, true},
        {"metadata.name", true, true, false},
        {"metadata.namespace", true, true, false},
        {"metadata.uid", true, true, false},
        {"spec.nodeName", true, false, false},
        {"spec.restartPolicy", false, false, false},
        {"spec.serviceAccountName", true, false, false},
        {"spec.schedulerName", false, false, false},
        {"status.phase", false, false, false},
        {"status.hostIP", true, false, false},
        {"status.hostIPs", true, false, false},
        {"status.podIP", true, false, false},
        {"status.podIPs", true, false, false},
    };
    struct str path = look_text(look, "fieldPath");
    size_t key = str_find(path, '[');
    bool variable = is_below(look, "valueFrom");

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        if (!str_is(str_sub(path, 0, key), rows[i].path) || (key < path.len && !rows[i].subscript))
            continue;
        if (key == path.len && !(variable ? rows[i].variable : rows[i].file))
            admit_unsupported(look->admit, look_at(look, "fieldPath"),
                              json_get(look->object, "fieldPath"),
                              variable ? "\"metadata.name\", \"metadata.namespace\", "
                                         "\"metadata.uid\", \"spec.nodeName\", "
                                         "\"spec.serviceAccountName\", \"status.hostIP\", "
                                         "\"status.hostIPs\", \"status.podIP\", \"status.podIPs\""
                                       : "\"metadata.annotations\", \"metadata.labels\", "
                                         "\"metadata.name\", \"metadata.namespace\", "
                                         "\"metadata.uid\"");
        return;
    }
    look_wrong(look, "fieldPath", "error converting fieldPath: field label not supported");
}

static void check_field_path(const struct look *look)
{
    struct str version = look_text(look, "apiVersion");

    if (version.len && !str_is(version, "v1"))
        look_wrong(look, "fieldPath", "error converting fieldPath: unsupported pod version");
    else if (look_text(look, "fieldPath").len)
        check_pod_field(look);
}

/* 1 is what nobody has said. */
static bool is_divisor(const struct look *look, const char *const words[], size_t count)
{
    struct quantity asked = {0};

    if (quantity_parse_json(json_get(look->object, "divisor"), &asked, NULL) < 0 || !asked.nano)
        return true; /* what it is not is told elsewhere */
    for (size_t i = 0; i < count; i++) {
        struct quantity allowed = {0};

        (void)quantity_parse(str_from(words[i]), &allowed, NULL);
        if (quantity_cmp(asked, allowed) == 0)
            return true;
    }
    return false;
}

static void check_resource_field(const struct look *look)
{
    static const char *const cpus[] = {"1m", "1"};
    static const char *const bytes[] = {"1",   "1k",  "1M",  "1G",  "1T",  "1P", "1E",
                                        "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"};
    static const char *const known[] = {
        "limits.cpu",   "limits.memory",   "limits.ephemeral-storage",
        "requests.cpu", "requests.memory", "requests.ephemeral-storage"};
    struct str resource = look_text(look, "resource");
    bool there = !resource.len || str_starts(resource, STR("limits.hugepages-")) ||
                 str_starts(resource, STR("requests.hugepages-"));

    for (size_t i = 0; i < COUNT_OF(known); i++)
        there |= str_is(resource, known[i]);
    if (!there)
        admit_unsupported(look->admit, look_at(look, "resource"),
                          json_get(look->object, "resource"),
                          "\"limits.cpu\", \"limits.ephemeral-storage\", \"limits.memory\", "
                          "\"requests.cpu\", \"requests.ephemeral-storage\", "
                          "\"requests.memory\", and hugepages of either");
    if (is_below(look, "volumes") && !look_text(look, "containerName").len)
        admit_required(look->admit, look_at(look, "containerName"), "");
    if (str_contains(resource, STR(".cpu")) && !is_divisor(look, cpus, COUNT_OF(cpus)))
        look_wrong(look, "divisor",
                   "only divisor's values 1m and 1 are supported with the cpu resource");
    else if ((str_contains(resource, STR(".memory")) ||
              str_contains(resource, STR(".ephemeral-storage"))) &&
             !is_divisor(look, bytes, COUNT_OF(bytes)))
        look_wrong(
            look, "divisor",
            "only divisor's values 1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei are "
            "supported with this resource");
}

static void check_seccomp(const struct look *look)
{
    bool local = str_is(look_text(look, "type"), "Localhost");

    if (local && json_is_null(json_get(look->object, "localhostProfile")))
        admit_required(look->admit, look_at(look, "localhostProfile"),
                       "must be set when seccomp type is Localhost");
    else if (!local && json_get(look->object, "localhostProfile"))
        look_wrong(look, "localhostProfile", "can only be set when seccomp type is Localhost");
}

static void check_mount(const struct look *look)
{
    if (look_text(look, "subPath").len && look_text(look, "subPathExpr").len)
        look_wrong(look, "subPathExpr", "subPathExpr and subPath are mutually exclusive");
}

/* An item that has the same `key` as one before. */
static void check_again(const struct look *look, const char *list, const char *key)
{
    struct admit_names names = admit_names(look->admit->arena, json_get(look->object, list), key);
    size_t index = 0;

    JSON_FOREACH(json_get(look->object, list), item) {
        if (names.again[index])
            admit_duplicate(look->admit, look_at_item(look, list, index), json_get(item, key));
        index++;
    }
}

/* Of init containers alone: a sidecar, which has what only it needs. */
static void check_container(const struct look *look)
{
    static const char *const lasting[] = {"lifecycle", "livenessProbe", "readinessProbe",
                                          "startupProbe"};
    bool first = is_below(look, "initContainers");

    for (size_t i = 0; first && i < COUNT_OF(lasting); i++)
        if (!str_is(look_text(look, "restartPolicy"), "Always") &&
            !json_is_null(json_get(look->object, lasting[i])))
            admit_forbidden(look->admit, look_at(look, lasting[i]),
                            "may not be set for init containers without restartPolicy=Always");
    if (first && json_count(json_get(look->object, "resizePolicy")))
        look_wrong(look, "resizePolicy", "must not be set for init containers");
    check_again(look, "resizePolicy", "resourceName");
    if (is_below(look, "containers") && !json_is_null(json_get(look->object, "restartPolicy")))
        admit_forbidden(look->admit, look_at(look, "restartPolicy"),
                        "may not be set for non-init containers");
}

static void check_driver(const struct look *look)
{
    const struct json *secret = json_get(look->object, "nodePublishSecretRef");

    if (!json_is_null(secret) && !json_str(json_get(secret, "name")).len)
        admit_required(look->admit, look_at(look, "nodePublishSecretRef.name"), "");
}

static void check_capacity(const struct look *look)
{
    const struct json *size = json_at(look->object, "capacity.storage");
    size_t sizes = json_count(json_get(look->object, "capacity"));
    int64_t bytes = 0;

    if (!sizes)
        admit_required(look->admit, look_at(look, "capacity"), "");
    if (!size || sizes > 1)
        admit_unsupported(look->admit, look_at(look, "capacity"), NULL, "\"storage\"");
    if (quantity_whole_json(size, &bytes, NULL) == 0 && bytes <= 0)
        admit_invalid(look->admit, look_at(look, "capacity[storage]"), size,
                      "must be greater than zero");
}

static void check_probe(const struct look *look)
{
    const struct json *times = json_get(look->object, "successThreshold");

    if (!is_below(look, "readinessProbe") && json_i64_or(times, 0) > 1)
        look_wrong(look, "successThreshold", "must be 1");
    if (is_below(look, "readinessProbe") &&
        !json_is_null(json_get(look->object, "terminationGracePeriodSeconds")))
        look_wrong(look, "terminationGracePeriodSeconds", "must not be set for readinessProbes");
}

/* Labels and annotations of the pods that are made. */
static void check_template(const struct look *look)
{
    struct look meta = *look;

    meta.object = json_get(look->object, "metadata");
    look_labels(&meta, "labels");
    admit_annotations(look->admit, json_get(meta.object, "annotations"),
                      look_at(&meta, "annotations"));
}

/* One source each, and no file twice. */
static void check_projected(const struct look *look)
{
    static const char *const of_items[] = {"secret", "configMap", "downwardAPI"};
    static const char *const single[] = {"serviceAccountToken", "clusterTrustBundle"};
    _cleanup_(map_done) struct map paths = {.seed = (uintptr_t)look->object};
    size_t index = 0;

    JSON_FOREACH(json_get(look->object, "sources"), source) {
        size_t count = 0;

        for (size_t i = 0; i < COUNT_OF(single); i++)
            count += json_is_null(json_get(source, single[i])) ? 0 : 1;
        for (size_t i = 0; i < COUNT_OF(of_items); i++) {
            count += json_is_null(json_get(source, of_items[i])) ? 0 : 1;
            JSON_FOREACH(json_at(json_get(source, of_items[i]), "items"), item)
                if (json_str(json_get(item, "path")).len &&
                    map_set(&paths, json_str(json_get(item, "path")), source))
                    admit_invalid(look->admit, look_here(look), json_get(item, "path"),
                                  "conflicting duplicate paths");
        }
        if (count > 1)
            admit_forbidden(look->admit, look_at_item(look, "sources", index),
                            "may not specify more than 1 volume type per source");
        index++;
    }
}

static void check_empty_folder(const struct look *look)
{
    if (str_starts(json_str(json_get(look->object, "sizeLimit")), STR("-")))
        admit_forbidden(look->admit, look_at(look, "sizeLimit"),
                        "SizeLimit field must be a valid resource quantity");
}

static void check_iscsi(const struct look *look)
{
    if ((json_bool_or(json_get(look->object, "chapAuthDiscovery"), false) ||
         json_bool_or(json_get(look->object, "chapAuthSession"), false)) &&
        json_is_null(json_get(look->object, "secretRef")))
        admit_required(look->admit, look_at(look, "secretRef"), "");
}

#define SPREADS_MAX 64 /* so many are held against the others */

/* Two rules for the same topology. */
static void check_spread_again(const struct look *look, const struct json *list)
{
    size_t index = 0;

    JSON_FOREACH(list, item) {
        for (const struct json *next = json_next(item); next; next = json_next(next))
            if (json_equal(json_get(item, "topologyKey"), json_get(next, "topologyKey")) &&
                json_equal(json_get(item, "whenUnsatisfiable"),
                           json_get(next, "whenUnsatisfiable"))) {
                struct str field = str_printf(look->admit->arena,
                                              "topologySpreadConstraints[%zu]."
                                              "{topologyKey, whenUnsatisfiable}",
                                              index);

                admit_duplicate(look->admit, look_at(look, field.p), NULL);
                break;
            }
        if (++index >= SPREADS_MAX)
            return;
    }
}

static void check_pod_spec(const struct look *look)
{
    const struct json *dns = json_get(look->object, "dnsConfig");

    look_labels(look, "nodeSelector");
    check_again(look, "schedulingGates", "name");
    check_spread_again(look, json_get(look->object, "topologySpreadConstraints"));
    if (look->admit->kind == &kind_pod && json_count(json_get(look->object, "schedulingGates")) &&
        look_text(look, "nodeName").len)
        admit_forbidden(look->admit, look_at(look, "nodeName"),
                        "cannot be set until all schedulingGates have been cleared");
    if (!str_is(look_text(look, "dnsPolicy"), "None"))
        return;
    if (json_is_null(dns))
        admit_required(look->admit, look_at(look, "dnsConfig"),
                       "must provide `dnsConfig` when `dnsPolicy` is None");
    else if (!json_count(json_get(dns, "nameservers")))
        admit_required(look->admit, look_at(look, "dnsConfig.nameservers"),
                       "must provide at least one DNS nameserver when `dnsPolicy` is None");
}

/* Labels whose values are those of the pod: each is one, and the selector does not name it. */
static void check_pod_labels(const struct look *look, const char *field, bool by_both)
{
    const struct json *selector = json_get(look->object, "labelSelector");
    const struct json *labels = json_get(selector, "matchLabels");
    const struct json *keys = json_get(look->object, field);
    _cleanup_(map_done) struct map named = {.seed = (uintptr_t)look->object};
    size_t index = 0;

    if (json_count(keys) && json_is_null(selector))
        admit_forbidden(look->admit, look_at(look, field),
                        "must not be specified when labelSelector is not set");
    JSON_FOREACH(labels, label)
        map_set(&named, json_key(label), label);
    JSON_FOREACH(json_get(selector, "matchExpressions"), term)
        if (by_both || json_get_str(labels, json_str(json_get(term, "key"))))
            map_set(&named, json_str(json_get(term, "key")), term);
    JSON_FOREACH(keys, key) {
        struct str where = look_at_item(look, field, index++);

        if (names_qualified(json_str(key)) && (by_both || !json_is_null(selector)))
            admit_invalid(look->admit, where, key, names_qualified(json_str(key)));
        if (by_both && map_get(&named, json_str(key)))
            admit_invalid(look->admit, where, key,
                          "exists in both matchLabelKeys and labelSelector");
    }
}

static void check_spread(const struct look *look)
{
    if (!json_is_null(json_get(look->object, "minDomains")) &&
        !str_is(look_text(look, "whenUnsatisfiable"), "DoNotSchedule"))
        look_wrong(look, "minDomains",
                   "can only use minDomains if whenUnsatisfiable=DoNotSchedule");
    check_pod_labels(look, "matchLabelKeys", true);
}

static void check_near(const struct look *look)
{
    check_pod_labels(look, "matchLabelKeys", false);
    check_pod_labels(look, "mismatchLabelKeys", false);
}

/* ---- claims ---- */

static void check_size(const struct look *look)
{
    const struct json *storage = json_at(look->object, "resources.requests.storage");
    struct str where = look_at(look, "resources[storage]");
    struct err err = {0};
    int64_t bytes = 0;

    if (json_is_null(storage))
        admit_required(look->admit, where, "");
    else if (quantity_whole_json(storage, &bytes, &err) < 0)
        admit_invalid(look->admit, where, storage, err.text);
    else if (bytes <= 0)
        admit_invalid(look->admit, where, storage, "must be greater than zero");
}

/* Of a claim, and of one that is made for a pod; a StatefulSet's are looked at when they are made. */
static void check_claim(const struct look *look)
{
    struct str modes;
    struct str class = look_text(look, "storageClassName");
    size_t single = 0;

    if (!is_below(look, "ephemeral") && look->admit->kind != &kind_pvc)
        return;
    modes = look_at(look, "accessModes");
    JSON_FOREACH(json_get(look->object, "accessModes"), mode) {
        single += str_is(json_str(mode), "ReadWriteOncePod") ? 1 : 0;
        if (!str_is(json_str(mode), "ReadWriteOnce") && !str_is(json_str(mode), "ReadOnlyMany") &&
            !str_is(json_str(mode), "ReadWriteMany") && !str_is(json_str(mode), "ReadWriteOncePod"))
            admit_unsupported(look->admit, modes, mode,
                              "\"ReadOnlyMany\", \"ReadWriteMany\", \"ReadWriteOnce\", "
                              "\"ReadWriteOncePod\"");
    }
    if (single && single < json_count(json_get(look->object, "accessModes")))
        admit_forbidden(look->admit, modes, "may not use ReadWriteOncePod with other access modes");
    if (!json_count(json_get(look->object, "accessModes")))
        admit_required(look->admit, modes, "at least 1 access mode is required");
    check_size(look);
    if (class.len && names_dns_subdomain(class))
        look_wrong(look, "storageClassName", names_dns_subdomain(class));
}

/* ---- people ---- */

static void check_rule(const struct look *look)
{
    bool namespaced = look->admit->kind->namespaced;

    if (json_count(json_get(look->object, "nonResourceURLs"))) {
        if (namespaced)
            look_wrong(look, "nonResourceURLs",
                       "namespaced rules cannot apply to non-resource URLs");
        if (json_count(json_get(look->object, "apiGroups")) ||
            json_count(json_get(look->object, "resources")) ||
            json_count(json_get(look->object, "resourceNames")))
            look_wrong(look, "nonResourceURLs",
                       "rules cannot apply to both regular resources and non-resource URLs");
        return;
    }
    if (!json_count(json_get(look->object, "apiGroups")))
        admit_required(look->admit, look_at(look, "apiGroups"),
                       "resource rules must supply at least one api group");
    if (!json_count(json_get(look->object, "resources")))
        admit_required(look->admit, look_at(look, "resources"),
                       "resource rules must supply at least one resource");
}

static void check_subject(const struct look *look)
{
    struct str kind = look_text(look, "kind");
    const char *group = str_is(kind, "ServiceAccount") ? ""
                        : str_is(kind, "User") || str_is(kind, "Group")
                            ? "rbac.authorization.k8s.io"
                            : NULL;

    if (group && !str_is(look_text(look, "apiGroup"), group))
        admit_unsupported(look->admit, look_at(look, "apiGroup"),
                          json_get(look->object, "apiGroup"),
                          group[0] ? "\"rbac.authorization.k8s.io\"" : "\"\"");
    if (str_is(kind, "ServiceAccount") && look_text(look, "name").len &&
        names_dns_subdomain(look_text(look, "name")))
        look_wrong(look, "name", names_dns_subdomain(look_text(look, "name")));
}

/* ---- networks ---- */

static void check_policy_port(const struct look *look)
{
    const struct json *port = json_get(look->object, "port");
    const struct json *end = json_get(look->object, "endPort");
    int64_t first = json_i64_or(port, 0);
    int64_t last = json_i64_or(end, 0);

    if (json_is_null(end))
        return;
    if (json_is_null(port))
        look_wrong(look, "endPort", "may not be specified when `port` is not specified");
    else if (!json_is(port, JSON_NUMBER))
        look_wrong(look, "endPort", "may not be specified when `port` is non-numeric");
    else if (last < first)
        look_wrong(look, "endPort", "must be greater than or equal to `port`");
    else if (last > UINT16_MAX)
        look_wrong(look, "endPort", "must be between 1 and 65535, inclusive");
}

static void check_policy_peer(const struct look *look)
{
    if (json_is_null(json_get(look->object, "podSelector")) &&
        json_is_null(json_get(look->object, "namespaceSelector")) &&
        json_is_null(json_get(look->object, "ipBlock")))
        admit_required(look->admit, look_here(look), "must specify a peer");
    if (!json_is_null(json_get(look->object, "ipBlock")) &&
        (!json_is_null(json_get(look->object, "podSelector")) ||
         !json_is_null(json_get(look->object, "namespaceSelector"))))
        admit_forbidden(look->admit, look_here(look),
                        "may not specify both ipBlock and another peer");
}

static void check_ingress_path(const struct look *look)
{
    struct str type = look_text(look, "pathType");

    bool any = str_is(type, "ImplementationSpecific") && !look_text(look, "path").len;

    if (!any && !str_starts(look_text(look, "path"), STR("/")))
        look_wrong(look, "path", "must be an absolute path");
}

static void check_ingress_backend(const struct look *look)
{
    const struct json *service = json_get(look->object, "service");
    const struct json *port = json_get(service, "port");

    if (!json_is_null(service) && !json_str(json_get(port, "name")).len &&
        !json_i64_or(json_get(port, "number"), 0))
        admit_required(look->admit, look_here(look), "port name or number is required");
}

static void check_class_reference(const struct look *look)
{
    struct str scope = look_text(look, "scope");
    struct str ns = look_text(look, "namespace");

    if (str_is(scope, "Namespace") && !ns.len)
        admit_required(look->admit, look_at(look, "namespace"),
                       "`parameters.scope` is set to 'Namespace'");
    else if (str_is(scope, "Cluster") && !json_is_null(json_get(look->object, "namespace")))
        admit_forbidden(look->admit, look_at(look, "namespace"),
                        "`parameters.scope` is set to 'Cluster'");
}

/* ---- which ---- */

const struct message_rule message_common[] = {
    {"v1", "CSIVolumeSource", check_driver},
    {"v1", "Container", check_container},
    {"v1", "EmptyDirVolumeSource", check_empty_folder},
    {"v1", "EnvVar", check_variable},
    {"networking.k8s.io/v1", "HTTPIngressPath", check_ingress_path},
    {"v1", "ISCSIPersistentVolumeSource", check_iscsi},
    {"v1", "ISCSIVolumeSource", check_iscsi},
    {"networking.k8s.io/v1", "IngressBackend", check_ingress_backend},
    {"networking.k8s.io/v1", "IngressClassParametersReference", check_class_reference},
    {"meta.k8s.io/v1", "LabelSelector", check_selector},
    {"meta.k8s.io/v1", "LabelSelectorRequirement", check_term},
    {"networking.k8s.io/v1", "NetworkPolicyPeer", check_policy_peer},
    {"networking.k8s.io/v1", "NetworkPolicyPort", check_policy_port},
    {"v1", "NodeSelectorRequirement", check_node_term},
    {"v1", "ObjectFieldSelector", check_field_path},
    {"v1", "PersistentVolumeClaimSpec", check_claim},
    {"v1", "PersistentVolumeSpec", check_capacity},
    {"v1", "PodAffinityTerm", check_near},
    {"v1", "PodSpec", check_pod_spec},
    {"v1", "PodTemplateSpec", check_template},
    {"rbac.authorization.k8s.io/v1", "PolicyRule", check_rule},
    {"v1", "Probe", check_probe},
    {"v1", "ProjectedVolumeSource", check_projected},
    {"v1", "ResourceFieldSelector", check_resource_field},
    {"v1", "SeccompProfile", check_seccomp},
    {"rbac.authorization.k8s.io/v1", "Subject", check_subject},
    {"v1", "Toleration", check_toleration},
    {"v1", "TopologySpreadConstraint", check_spread},
    {"v1", "VolumeMount", check_mount},
};
const size_t message_common_count = COUNT_OF(message_common);

static void apply(const struct message_rule *table,
                  size_t count,
                  const struct type *type,
                  const struct look *look)
{
    size_t low = 0;
    size_t high = count;

    while (low < high) {
        size_t middle = (low + high) / 2;

        if (strcmp(table[middle].name, type->name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < count && strcmp(table[low].name, type->name) == 0; low++)
        if (strcmp(table[low].version, type->version) == 0)
            table[low].check(look);
}

/* Code that knows more has spoken already. */
static void drop_told(struct admit *admit, size_t before)
{
    size_t kept = before;

    for (size_t i = before; i < admit->causes.count; i++) {
        bool told = false;

        for (size_t j = 0; j < before && !told; j++)
            told = str_eq(admit->causes.items[j].field, admit->causes.items[i].field);
        if (!told)
            admit->causes.items[kept++] = admit->causes.items[i];
    }
    admit->causes.count = kept;
}

void message_rules(struct admit *admit,
                   const struct type *type,
                   const struct json *object,
                   const struct schema_path *path)
{
    size_t before = admit->causes.count;
    struct look look = {.admit = admit, .object = object, .path = path};

    if (admit_is_full(admit))
        return;
    apply(message_common, message_common_count, type, &look);
    apply(message_kinds, message_kind_count, type, &look);
    drop_told(admit, before);
}
