#include "api/admit.h"
#include "api/crd.h"
#include "api/karta.h"
#include "api/kind.h"
#include "api/names.h"
#include "api/pod_security.h"
#include "api/quantity.h"
#include "api/schema.h"
#include "api/selector.h"
#include "api/share.h"
#include "api/suspend.h"
#include "api/types.h"
#include "base/arena.h"
#include "base/base64.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/err.h"
#include "base/json.h"
#include "base/json_names.h"
#include "base/map.h"
#include "base/str.h"
#include "base/time.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Which rules there are for which kind: the table at the end. Rules of a few lines are here; the
 * others have files of their own. */

static void default_namespace(struct admit *admit)
{
    struct json *labels = json_make_path(admit->arena, admit->object, "metadata.labels");

    json_add_str(admit->arena, labels, "kubernetes.io/metadata.name",
                 json_str_at(admit->object, "metadata.name"));
}

static void add_namespace(struct admit *admit)
{
    const struct json *before = json_at(admit->old, "spec.finalizers");
    struct json *spec = json_make_path(admit->arena, admit->object, "spec");
    struct json *status = json_make_path(admit->arena, admit->object, "status");

    if (!admit->old && !json_get(spec, "finalizers"))
        json_push(json_add_array(admit->arena, spec, "finalizers"),
                  json_new_str(admit->arena, STR("kubernetes")));
    /* What holds a namespace until it is empty is not for an update to leave out. */
    if (before && !json_get(spec, "finalizers") &&
        json_is_null(json_at(admit->old, "metadata.deletionTimestamp")))
        json_set(spec, STR("finalizers"), json_clone(admit->arena, before));
    admit_fill_c(admit, status, "phase", "Active");
}

/* A level that is misspelled would protect nothing. */
static void check_namespace(struct admit *admit)
{
    static const char *const modes[] = {"enforce", "audit", "warn"};
    const struct json *labels = json_at(admit->object, "metadata.labels");

    for (size_t i = 0; i < COUNT_OF(modes); i++) {
        struct str key = str_printf(admit->arena, POD_SECURITY_PREFIX "%s", modes[i]);
        struct str version_key = str_printf(admit->arena, STR_FMT "-version", STR_ARG(key));
        const struct json *level = json_get_str(labels, key);
        const struct json *version = json_get_str(labels, version_key);
        struct pod_security policy;

        if (level &&
            (!json_str(level).len || !pod_security_parse(json_str(level), STR(""), &policy)))
            admit_invalid(admit,
                          str_printf(admit->arena, "metadata.labels[" STR_FMT "]", STR_ARG(key)),
                          level, "must be one of privileged, baseline, restricted");
        if (version &&
            (!json_str(version).len || !pod_security_parse(STR(""), json_str(version), &policy)))
            admit_invalid(
                admit,
                str_printf(admit->arena, "metadata.labels[" STR_FMT "]", STR_ARG(version_key)),
                version, "must be \"latest\" or \"v1.x\"");
    }
}

/* Since when a taint drives pods away: how long one tolerates it is counted from there. */
static void add_node(struct admit *admit)
{
    _cleanup_(map_done) struct map driving = {.seed = (uintptr_t)admit->object};

    JSON_FOREACH(json_at(admit->old, "spec.taints"), taint)
        if (str_is(json_str(json_get(taint, "effect")), "NoExecute"))
            (void)map_set(&driving, json_str(json_get(taint, "key")), taint);
    JSON_FOREACH(json_at(admit->object, "spec.taints"), taint) {
        const struct json *before = map_get(&driving, json_str(json_get(taint, "key")));
        struct str known = json_str(json_get(before, "timeAdded"));

        if (!str_is(json_str(json_get(taint, "effect")), "NoExecute") ||
            !json_is_null(json_get(taint, "timeAdded")) || (!known.len && !admit->now_ms))
            continue;
        json_add_str(admit->arena, taint, "timeAdded",
                     known.len ? str_dup(admit->arena, known)
                               : time_text(admit->arena, admit->now_ms));
    }
}

/* What a driver said of a node stays while it is there. */
static void check_csinode(struct admit *admit)
{
    _cleanup_(map_done) struct map before = {.seed = (uintptr_t)admit->object};

    JSON_FOREACH(json_at(admit->old, "spec.drivers"), driver)
        (void)map_set(&before, json_str(json_get(driver, "name")), driver);
    JSON_FOREACH(json_at(admit->object, "spec.drivers"), driver) {
        const struct json *old = map_get(&before, json_str(json_get(driver, "name")));

        if (old && !json_equal(driver, old)) {
            admit_invalid(admit, STR("spec.drivers"), driver, "field is immutable");
            return;
        }
    }
}

/* What others know it by. */
static void check_node(struct admit *admit)
{
    const struct json *before = json_at(admit->old, "spec.podCIDRs");

    if (json_count(before) && !json_equal(before, json_at(admit->object, "spec.podCIDRs")))
        admit_forbidden(admit, STR("spec.podCIDRs"),
                        "node updates may not change podCIDR except from \"\" to valid");
    if (admit->old && !str_eq(json_str_at(admit->old, "spec.externalID"),
                              json_str_at(admit->object, "spec.externalID")))
        admit_forbidden(admit, STR("spec.externalID"), "may not be updated");
}

/* A second range, of the other family, may come. */
static void check_ranges(struct admit *admit)
{
    const struct json *ranges = json_at(admit->object, "spec.cidrs");
    const struct json *before = json_at(admit->old, "spec.cidrs");
    const struct json *now = json_first(ranges);
    size_t count = json_count(ranges);
    size_t index = 0;

    if (count > 2 || (count == 2 &&
                      (str_find(json_str(now), ':') < json_str(now).len) ==
                          (str_find(json_str(json_next(now)), ':') < json_str(json_next(now)).len)))
        admit_invalid(admit, STR("spec.cidrs"), ranges, "must be one for each IP family at most");
    if (admit->old && count < json_count(before))
        admit_invalid(admit, STR("spec.cidrs"), ranges, "field is immutable");
    else
        JSON_FOREACH(before, old) {
            if (!json_equal(old, now))
                admit_invalid(admit, str_printf(admit->arena, "spec.cidrs[%zu]", index), now,
                              "field is immutable");
            now = json_next(now);
            index++;
        }
}

/* Of clients of a version that is gone: nothing reads it. */
static void default_slice(struct admit *admit)
{
    JSON_FOREACH(json_get(admit->object, "endpoints"), endpoint)
        json_remove(endpoint, STR("deprecatedTopology"));
}

/* Two ways to say the same. */
static void default_node(struct admit *admit)
{
    struct json *spec = json_get(admit->object, "spec");
    struct str one = json_str(json_get(spec, "podCIDR"));
    const struct json *first = json_first(json_get(spec, "podCIDRs"));

    if (one.len && (!first || !str_eq(json_str(first), one)))
        json_push(json_add_array(admit->arena, spec, "podCIDRs"), json_new_str(admit->arena, one));
    else if (json_str(first).len)
        json_add_str(admit->arena, spec, "podCIDR", json_str(first));
}

static void add_pvc(struct admit *admit)
{
    struct json *spec = json_get(admit->object, "spec");
    const struct json *source = json_get(spec, "dataSource");
    struct str group = json_str(json_get(source, "apiGroup"));
    struct str from = json_str(json_get(source, "kind"));

    /* What a claim cannot be filled from is as if it was not said, as ever. */
    if (json_is_null(json_at(admit->old, "spec.dataSourceRef")) &&
        !(str_is(from, "PersistentVolumeClaim") && !group.len) &&
        !(str_is(from, "VolumeSnapshot") && str_is(group, "snapshot.storage.k8s.io"))) {
        json_remove(spec, STR("dataSource"));
        source = NULL;
    }
    const struct json *any = json_get(spec, "dataSourceRef");

    if (!json_is_null(source) && json_is_null(any))
        json_set(spec, STR("dataSourceRef"), json_clone(admit->arena, source));
    else if (json_is_null(source) && !json_is_null(any) &&
             !json_str(json_get(any, "namespace")).len)
        json_set(spec, STR("dataSource"), json_clone(admit->arena, any));

    admit_fill_c(admit, json_make_path(admit->arena, admit->object, "status"), "phase", "Pending");
}

/* stringData is written only: it ends up in data. */
static void default_secret(struct admit *admit)
{
    const struct json *texts = json_get(admit->object, "stringData");
    _cleanup_(json_names_done) struct json_names data = {0};

    if (json_count(texts))
        data.object = json_make_path(admit->arena, admit->object, "data");
    JSON_FOREACH(texts, item)
        (void)json_names_put(
            &data, json_key(item),
            json_new_str(admit->arena, base64_encode(admit->arena, json_str(item))));
    json_remove(admit->object, STR("stringData"));
}

static void check_keys(struct admit *admit, const char *member)
{
    JSON_FOREACH(json_get(admit->object, member), item) {
        const char *rule = names_config_key(json_key(item));

        if (rule)
            admit_invalid(
                admit, str_printf(admit->arena, "%s[" STR_FMT "]", member, STR_ARG(json_key(item))),
                json_new_str(admit->arena, json_key(item)), rule);
    }
    if (admit->old && json_bool_or(json_get(admit->old, "immutable"), false) &&
        !json_equal(json_get(admit->object, member), json_get(admit->old, member)))
        admit_forbidden(admit, str_from(member), "field is immutable when `immutable` is set");
}

/* Who mounts it counts on it: what was promised is not taken back. */
static void check_promise(struct admit *admit)
{
    if (admit->old && json_bool_or(json_get(admit->old, "immutable"), false) &&
        !json_bool_or(json_get(admit->object, "immutable"), false))
        admit_forbidden(admit, STR("immutable"), "field is immutable when `immutable` is set");
}

/* A key is in one of the two. */
static void check_keys_apart(struct admit *admit, const struct json *binary)
{
    _cleanup_(map_done) struct map seen = {.seed = (uintptr_t)binary};

    JSON_FOREACH(binary, item)
        map_set(&seen, json_key(item), item);
    JSON_FOREACH(seen.count ? json_get(admit->object, "data") : NULL, item)
        if (map_get(&seen, json_key(item)))
            admit_invalid(admit,
                          str_printf(admit->arena, "data[" STR_FMT "]", STR_ARG(json_key(item))),
                          json_new_str(admit->arena, json_key(item)),
                          "duplicate of key present in binaryData");
}

static void check_configmap(struct admit *admit)
{
    const struct json *binary = json_get(admit->object, "binaryData");

    check_promise(admit);
    check_keys(admit, "data");
    check_keys(admit, "binaryData");
    check_keys_apart(admit, binary);
}

/* Of what is named there only the name counts. */
static void add_serviceaccount(struct admit *admit)
{
    JSON_FOREACH(json_get(admit->object, "secrets"), secret) {
        struct str name = str_dup(admit->arena, json_str(json_get(secret, "name")));

        while (json_first(secret))
            json_remove(secret, json_key(json_first(secret)));
        if (name.len)
            json_add_str(admit->arena, secret, "name", name);
    }
}

#define ACCOUNT_NAME "kubernetes.io/service-account.name"

static bool is_object(struct arena *arena, struct str base64)
{
    struct str text;
    struct json *value = NULL;

    return base64_decode(arena, base64, &text) && json_parse(arena, text, &value, NULL) == 0 &&
           json_is(value, JSON_OBJECT);
}

/* What a Secret of a type has: the keys, either of which is enough where there are two. */
static void check_secret_type(struct admit *admit)
{
    static const struct {
        const char *type;
        const char *keys[2];
        bool both;
        bool json;
    } rows[] = {
        {"kubernetes.io/tls", {"tls.crt", "tls.key"}, true, false},
        {"kubernetes.io/basic-auth", {"username", "password"}, false, false},
        {"kubernetes.io/ssh-auth", {"ssh-privatekey"}, true, false},
        {"kubernetes.io/dockercfg", {".dockercfg"}, true, true},
        {"kubernetes.io/dockerconfigjson", {".dockerconfigjson"}, true, true},
    };
    const struct json *data = json_get(admit->object, "data");
    struct str type = json_str(json_get(admit->object, "type"));

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const char *const *keys = rows[i].keys;

        if (!str_is(type, rows[i].type) ||
            (!rows[i].both && (json_get(data, keys[0]) || json_get(data, keys[1]))))
            continue;
        for (size_t k = 0; k < COUNT_OF(rows[i].keys) && keys[k]; k++) {
            const struct json *value = json_get(data, keys[k]);
            struct str where = str_printf(admit->arena, "data[%s]", keys[k]);

            if (!value)
                admit_required(admit, where, "");
            else if (rows[i].json && !is_object(admit->arena, json_str(value)))
                admit_invalid(admit, where, NULL, "must be base64 of a JSON object");
        }
    }
    if (str_is(type, "kubernetes.io/service-account-token") &&
        !json_str(json_get(json_at(admit->object, "metadata.annotations"), ACCOUNT_NAME)).len)
        admit_required(admit, STR("metadata.annotations[" ACCOUNT_NAME "]"), "");
}

static void check_secret(struct admit *admit)
{
    check_promise(admit);
    check_keys(admit, "data");
    check_secret_type(admit);
    if (admit->old && !json_equal(json_get(admit->old, "type"), json_get(admit->object, "type")))
        admit_invalid(admit, STR("type"), json_get(admit->object, "type"), "field is immutable");
}

/* What may not change once it is there. */
static void check_fixed(struct admit *admit)
{
    static const struct {
        const struct kind *kind;
        const char *path;
        bool forbidden; /* is told as forbidden, not as invalid */
    } rows[] = {
        {&kind_priorityclass, "value", true},
        {&kind_priorityclass, "preemptionPolicy", false},
        {&kind_storageclass, "provisioner", true},
        {&kind_storageclass, "parameters", true},
        {&kind_storageclass, "reclaimPolicy", true},
        {&kind_storageclass, "volumeBindingMode", false},
        {&kind_job, "spec.selector", false},
        {&kind_job, "spec.completionMode", false},
        {&kind_rolebinding, "roleRef", false},
        {&kind_clusterrolebinding, "roleRef", false},
        {&kind_runtimeclass, "handler", false},
        {&kind_controllerrevision, "data", false},
        {&kind_volumeattachment, "spec", false},
        {&kind_csidriver, "spec.attachRequired", false},
        {&kind_csidriver, "spec.volumeLifecycleModes", false},
        {&kind_ipaddress, "spec.parentRef", false},
        {&kind_csistoragecapacity, "nodeTopology", false},
        {&kind_csistoragecapacity, "storageClassName", false},
    };

    for (size_t i = 0; admit->old && i < COUNT_OF(rows); i++) {
        const struct json *before = json_at(admit->old, rows[i].path);
        const struct json *now = json_at(admit->object, rows[i].path);

        if (admit->kind != rows[i].kind || (!before && !now) || json_equal(before, now))
            continue;
        if (rows[i].forbidden)
            admit_forbidden(admit, str_from(rows[i].path), "field is immutable");
        else
            admit_invalid(admit, str_from(rows[i].path), now, "field is immutable");
    }
}

/* But for what may change, an object's spec is as it was. */
static bool is_as_it_was(struct admit *admit, const char *const *free, size_t count)
{
    struct json *now = json_clone(admit->arena, json_get(admit->object, "spec"));
    struct json *before = json_clone(admit->arena, json_get(admit->old, "spec"));

    for (size_t i = 0; i < count; i++) {
        json_remove(now, str_from(free[i]));
        json_remove(before, str_from(free[i]));
    }
    return json_equal(now, before);
}

/* Of a claim its size may grow, once it has a volume; which volume that is becomes known, and so do
 * a class and a source that were not said. */
static void check_pvc(struct admit *admit)
{
    static const char *const free[] = {"volumeName", "resources", "volumeAttributesClassName"};
    static const char *const later[] = {"volumeName", "storageClassName", "dataSourceRef"};
    const struct json *old = json_get(admit->old, "spec");
    struct json *spec = json_get(admit->object, "spec");
    const char *names[COUNT_OF(free) + COUNT_OF(later)];
    bool bound = str_is(json_str_at(admit->old, "status.phase"), "Bound");
    struct str volume = json_str(json_get(old, "volumeName"));
    bool same = !volume.len || str_eq(volume, json_str(json_get(spec, "volumeName")));
    size_t count = 0;

    if (!admit->old)
        return;
    for (size_t i = 0; i < COUNT_OF(free); i++)
        names[count++] = free[i];
    for (size_t i = 0; i < COUNT_OF(later); i++)
        if (json_is_null(json_get(old, later[i])))
            names[count++] = later[i];
    if (!is_as_it_was(admit, names, count) || !same ||
        (!bound && !json_equal(json_get(old, "resources"), json_get(spec, "resources"))))
        admit_forbidden(admit, STR("spec"),
                        "spec is immutable after creation except resources.requests and "
                        "volumeAttributesClassName for bound claims");
}

/* Where its bytes are. */
static void check_pv(struct admit *admit)
{
    static const char *const free[] = {"capacity",
                                       "accessModes",
                                       "claimRef",
                                       "persistentVolumeReclaimPolicy",
                                       "storageClassName",
                                       "mountOptions",
                                       "volumeMode",
                                       "nodeAffinity",
                                       "volumeAttributesClassName"};
    const struct json *before = json_at(admit->old, "spec.nodeAffinity");

    if (!admit->old)
        return;
    if (!is_as_it_was(admit, free, COUNT_OF(free)))
        admit_forbidden(admit, STR("spec.persistentvolumesource"),
                        "spec.persistentvolumesource is immutable after creation");
    if (!json_is_null(before) && !json_equal(before, json_at(admit->object, "spec.nodeAffinity")))
        admit_invalid(admit, STR("nodeAffinity"), json_at(admit->object, "spec.nodeAffinity"),
                      "field is immutable, except for updating from beta label to GA");
}

/* What must be said. */
static void check_required(struct admit *admit)
{
    static const struct {
        const struct kind *kind;
        const char *path;
    } rows[] = {
        {&kind_storageclass, "provisioner"},
        {&kind_rolebinding, "roleRef.name"},
        {&kind_clusterrolebinding, "roleRef.name"},
        {&kind_job, "spec.template"},
        {&kind_pv, "spec.accessModes"},
        {&kind_controllerrevision, "data"},
        {&kind_endpointslice, "addressType"},
        {&kind_flowschema, "spec.priorityLevelConfiguration.name"},
        {&kind_volumeattachment, "spec.attacher"},
        {&kind_servicecidr, "spec.cidrs"},
        {&kind_ipaddress, "spec.parentRef"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++)
        if (admit->kind == rows[i].kind && json_is_null(json_at(admit->object, rows[i].path)))
            admit_required(admit, str_from(rows[i].path), "");
    if (admit->kind == &kind_pdb && !json_is_null(json_at(admit->object, "spec.minAvailable")) &&
        !json_is_null(json_at(admit->object, "spec.maxUnavailable")))
        admit_invalid(admit, STR("spec"), json_get(admit->object, "spec"),
                      "minAvailable and maxUnavailable cannot be both set");
}

/* Somebody with rights in one namespace tells nothing about what is in another. */
static void check_event(struct admit *admit)
{
    const char *path =
        admit->kind == &kind_event ? "involvedObject.namespace" : "regarding.namespace";
    const struct json *about = json_at(admit->object, path);
    struct str ns = json_str_at(admit->object, "metadata.namespace");

    bool new = json_str_at(admit->object, "eventTime").len > 0; /* its message has rules */

    if (json_str(about).len ? !str_eq(json_str(about), ns) : !new && !str_is(ns, "default"))
        admit_invalid(admit, STR("involvedObject.namespace"), about,
                      "does not match event.namespace");
}

/* Who copies GPU memory: a word that nobody knows would be taken for the driver, which is slow. */
static void check_copy(struct admit *admit)
{
    const struct json *copy =
        json_get(json_at(admit->object, "metadata.annotations"), SUSPEND_COPY);

    if (copy && !str_is(json_str(copy), SUSPEND_COPY_LIBRARY) &&
        !str_is(json_str(copy), SUSPEND_COPY_DRIVER))
        admit_invalid(admit, STR("metadata.annotations[" SUSPEND_COPY "]"), copy,
                      "must be library or driver");
}

static void check_pod(struct admit *admit)
{
    admit_pod_validate(admit, json_get(admit->object, "spec"), STR("spec"));
    admit_pod_elsewhere(admit);
    admit_ephemeral_validate(admit);
    if (str_is(admit->subresource, "ephemeralcontainers"))
        admit_ephemeral_update(admit);
    else if (admit->old)
        admit_pod_update(admit);
    share_check(admit);
    check_copy(admit);
}

/* ---- the rules ---- */

/* One line a kind: what is filled in where its writer says nothing, what the server adds of its own,
 * and what is checked beyond its schema; NULL: nothing. */
static const struct {
    const struct kind *kind;
    void (*fill)(struct admit *admit);
    void (*add)(struct admit *admit);
    void (*check)(struct admit *admit);
} rules[] = {
    {&kind_pod, admit_pod_default, admit_pod_add, check_pod},
    {&kind_crd, crd_default, crd_add, crd_validate},
    {&kind_service, admit_service_default, admit_service_add, admit_service_validate},
    {&kind_namespace, default_namespace, add_namespace, check_namespace},
    {&kind_pvc, NULL, add_pvc, check_pvc},
    {&kind_pv, NULL, NULL, check_pv},
    {&kind_configmap, NULL, NULL, check_configmap},
    {&kind_serviceaccount, NULL, add_serviceaccount, NULL},
    {&kind_event, NULL, NULL, check_event},
    {&kind_event_k8s, NULL, NULL, check_event},
    {&kind_secret, default_secret, NULL, check_secret},
    {&kind_csinode, NULL, NULL, check_csinode},
    {&kind_node, default_node, add_node, check_node},
    {&kind_endpointslice, default_slice, NULL, NULL},
    {&kind_servicecidr, NULL, NULL, check_ranges},
    {&kind_job, admit_job_default, admit_job_add, admit_job_validate},
    {&kind_deployment, admit_apps_default, NULL, admit_deployment_validate},
    {&kind_replicaset, admit_apps_default, NULL, admit_replicaset_validate},
    {&kind_statefulset, admit_statefulset_default, NULL, admit_statefulset_validate},
    {&kind_daemonset, admit_apps_default, NULL, admit_daemonset_validate},
    {&kind_replicationcontroller, admit_replicationcontroller_default, NULL,
     admit_replicationcontroller_validate},
    {&kind_cronjob, admit_cronjob_default, NULL, admit_cronjob_validate},
    {&kind_resourcequota, NULL, NULL, admit_resourcequota_validate},
    {&kind_limitrange, admit_limitrange_default, NULL, admit_limitrange_validate},
    {&kind_podtemplate, admit_podtemplate_default, NULL, admit_podtemplate_validate},
    {&kind_hpa, admit_hpa_default, NULL, NULL},
    {&kind_hpa_v1, admit_hpa_v1_default, NULL, NULL},
    {&kind_networkpolicy, admit_networkpolicy_default, NULL, admit_networkpolicy_validate},
    {&kind_ingress, NULL, NULL, admit_ingress_validate},
    {&kind_apiservice, NULL, NULL, admit_apiservice_validate},
    {&kind_csistoragecapacity, NULL, NULL, admit_storagecapacity_validate},
    {&kind_mutatingwebhooks, admit_webhook_default, NULL, admit_webhook_validate},
    {&kind_validatingwebhooks, admit_webhook_default, NULL, admit_webhook_validate},
    {&kind_csr, NULL, admit_csr_add, admit_csr_validate},
    {&kind_jobset, NULL, NULL, admit_jobset_validate},
    {&kind_pytorchtrainingjob, NULL, NULL, admit_tensorstack_validate},
    {&kind_trainjob, admit_trainjob_default, NULL, admit_trainjob_validate},
    {&kind_trainingruntime, NULL, NULL, admit_runtime_validate},
    {&kind_clustertrainingruntime, NULL, NULL, admit_runtime_validate},
    {&kind_torchrunjob, NULL, NULL, admit_torchrun_validate},
    {&kind_torchrunqueue, NULL, NULL, admit_torchrun_validate},
    {&kind_queue, NULL, NULL, admit_queue_validate},
    {&kind_podgroup, NULL, NULL, admit_podgroup_validate},
    {&kind_topology, NULL, NULL, admit_topology_validate},
    {&kind_podgroup_k8s, NULL, NULL, admit_group_validate},
    {&kind_workload, NULL, NULL, admit_workload_validate},
    {&kind_resourceclaim, NULL, NULL, admit_claim_validate},
    {&kind_claimtemplate, NULL, NULL, admit_claimtemplate_validate},
    {&kind_deviceclass, NULL, NULL, admit_deviceclass_validate},
    {&kind_resourceslice, NULL, NULL, admit_slice_validate},
};
#define RULES COUNT_OF(rules)

/* What is filled in goes into objects and lists that are some: built-in kinds were looked at before,
 * of custom ones nothing is filled in that is refused anyway. */
static bool has_shape(const struct admit *admit)
{
    struct admit trial = {.arena = admit->arena, .kind = admit->kind, .object = admit->object};

    if (admit->schema)
        schema_validate(&trial, admit->schema, admit->object);
    return !trial.causes.count;
}

/* Of a pod, and of templates of pods. A template that was stored before this was filled in stays as
 * it is: another one means other pods. */
static void fill_accounts(struct admit *admit)
{
    static const char *const paths[] = {"spec.template.spec", "template.spec",
                                        "spec.jobTemplate.spec.template.spec"};

    if (admit->kind == &kind_pod)
        admit_pod_account(admit, json_get(admit->object, "spec"));
    for (size_t i = 0; i < COUNT_OF(paths); i++) {
        struct json *spec = json_at(admit->object, paths[i]);
        const struct json *before = json_at(admit->old, paths[i]);

        if (json_is_null(json_get(before, "serviceAccountName")) ||
            !json_is_null(json_get(before, "serviceAccount")) ||
            !json_equal(json_get(before, "serviceAccountName"),
                        json_get(spec, "serviceAccountName")))
            admit_pod_account(admit, spec);
    }
}

int admit_default(struct admit *admit, struct err *err)
{
    int r = admit->schema ? schema_default(admit->arena, admit->schema, admit->object, err) : 0;

    if (r == 0 && admit->kind == &kind_pod)
        r = admit_pod_bound(json_get(admit->object, "spec"), err);
    if (r < 0)
        return r;
    admit_owners(admit);
    for (size_t i = 0; i < RULES; i++)
        if (rules[i].kind == admit->kind && rules[i].fill && has_shape(admit))
            rules[i].fill(admit);
    if (!admit->kind->custom)
        fill_accounts(admit);
    return 0;
}

void admit_add(struct admit *admit)
{
    for (size_t i = 0; i < RULES; i++)
        if (rules[i].kind == admit->kind && rules[i].add)
            rules[i].add(admit);
}

/* Every pod that changes is held against the selectors of its namespace: they are bounded. One that
 * was there before this was stays. */
static void check_selector_size(struct admit *admit)
{
    const struct json *selector = json_at(admit->object, "spec.selector");
    const struct json *labels = json_get(selector, "matchLabels");
    const struct json *expressions = json_get(selector, "matchExpressions");
    size_t count = 0;

    if (!json_is(selector, JSON_OBJECT) ||
        json_equal(selector, json_at(admit->old, "spec.selector")))
        return;
    if (json_is(labels, JSON_OBJECT) || json_is(expressions, JSON_ARRAY))
        count = json_count(labels) + json_count(expressions);
    else
        count = json_count(selector);
    JSON_FOREACH(expressions, item)
        count += json_count(json_get(item, "values"));
    if (count > SELECTOR_TERMS_MAX)
        admit_forbidden(admit, STR("spec.selector"),
                        str_printf(admit->arena,
                                   "%zu labels, expressions and values; a selector has at most %d",
                                   count, SELECTOR_TERMS_MAX)
                            .p);
}

void admit_validate(struct admit *admit)
{
    admit_metadata(admit);
    if (admit->schema)
        schema_validate(admit, admit->schema, admit->object);
    if (str_is(admit->subresource, "status")) {
        if (admit->kind == &kind_csr) /* most of it is its status */
            admit_csr_validate(admit);
        else if (admit->kind == &kind_resourceclaim) /* who has the devices */
            admit_claim_validate(admit);
        return;
    }
    check_required(admit);
    check_fixed(admit);
    check_selector_size(admit);
    for (size_t i = 0; i < RULES; i++)
        if (rules[i].kind == admit->kind && rules[i].check)
            rules[i].check(admit);
    if (!admit->kind->custom && type_place_root(admit->kind).type)
        type_check(admit, type_place_root(admit->kind).type, admit->object, admit->old);
    if (strcmp(admit->kind->group, "kubeflow.org") == 0)
        admit_kubeflow(admit);
    if (strcmp(admit->kind->group, "run.ai") == 0 && strcmp(admit->kind->name, KARTA_KIND) == 0)
        admit_karta(admit);
}
