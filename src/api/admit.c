#include "api/admit.h"

#include "api/crd.h"
#include "api/kind.h"
#include "api/names.h"
#include "api/quantity.h"
#include "api/schema.h"
#include "api/share.h"
#include "base/arena.h"
#include "base/base64.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "base/vec.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static void add(struct admit *admit, struct str field, const char *reason, struct str message)
{
    if (admit_is_full(admit))
        return;
    VEC_PUSH(admit->arena, &admit->causes,
             (struct api_cause){.field = str_dup(admit->arena, field),
                                .reason = str_from(reason),
                                .message = message});
}

void admit_required(struct admit *admit, struct str field, const char *detail)
{
    add(admit, field, "FieldValueRequired",
        detail && detail[0] ? str_printf(admit->arena, "Required value: %s", detail)
                            : STR("Required value"));
}

void admit_invalid(struct admit *admit,
                   struct str field,
                   const struct json *value,
                   const char *detail)
{
    if (admit_is_full(admit))
        return;
    struct str text = value ? str_sub(json_text(admit->arena, value), 0, 200) : STR("null");

    add(admit, field, "FieldValueInvalid",
        str_printf(admit->arena, "Invalid value: " STR_FMT ": %s", STR_ARG(text), detail));
}

void admit_forbidden(struct admit *admit, struct str field, const char *detail)
{
    add(admit, field, "FieldValueForbidden", str_printf(admit->arena, "Forbidden: %s", detail));
}

void admit_unsupported(struct admit *admit,
                       struct str field,
                       const struct json *value,
                       const char *allowed)
{
    if (admit_is_full(admit))
        return;
    struct str text = str_sub(json_text(admit->arena, value), 0, 200);

    add(admit, field, "FieldValueNotSupported",
        str_printf(admit->arena, "Unsupported value: " STR_FMT ": supported values: %s",
                   STR_ARG(text), allowed));
}

void admit_duplicate(struct admit *admit, struct str field, const struct json *value)
{
    if (admit_is_full(admit))
        return;
    struct str text = str_sub(json_text(admit->arena, value), 0, 200);

    add(admit, field, "FieldValueDuplicate",
        str_printf(admit->arena, "Duplicate value: " STR_FMT, STR_ARG(text)));
}

static void set_default(struct admit *admit, struct json *object, const char *key, const char *text)
{
    if (json_is_null(json_get(object, key)))
        json_add_c(admit->arena, object, key, text);
}

static void default_namespace(struct admit *admit)
{
    struct json *spec = json_make_path(admit->arena, admit->object, "spec");
    struct json *status = json_make_path(admit->arena, admit->object, "status");
    struct json *labels = json_make_path(admit->arena, admit->object, "metadata.labels");

    if (!admit->old && !json_get(spec, "finalizers"))
        json_push(json_add_array(admit->arena, spec, "finalizers"),
                  json_new_str(admit->arena, STR("kubernetes")));
    set_default(admit, status, "phase", "Active");
    json_add_str(admit->arena, labels, "kubernetes.io/metadata.name",
                 json_str_at(admit->object, "metadata.name"));
}

static void default_pvc(struct admit *admit)
{
    struct json *spec = json_make_path(admit->arena, admit->object, "spec");
    struct json *status = json_make_path(admit->arena, admit->object, "status");

    set_default(admit, spec, "volumeMode", "Filesystem");
    set_default(admit, status, "phase", "Pending");
}

static void default_hpa(struct admit *admit)
{
    struct json *spec = json_make_path(admit->arena, admit->object, "spec");

    if (json_is_null(json_get(spec, "minReplicas")))
        json_add_i64(admit->arena, spec, "minReplicas", 1);
}

/* stringData is written only: it ends up in data. */
static void default_secret(struct admit *admit)
{
    const struct json *texts = json_get(admit->object, "stringData");

    JSON_FOREACH(texts, item)
        json_set(json_make_path(admit->arena, admit->object, "data"), json_key(item),
                 json_new_str(admit->arena, base64_encode(admit->arena, json_str(item))));
    json_remove(admit->object, STR("stringData"));
    set_default(admit, admit->object, "type", "Opaque");
}

int admit_default(struct admit *admit, struct err *err)
{
    struct json *object = admit->object;
    int r = admit->schema ? schema_default(admit->arena, admit->schema, object, err) : 0;

    if (r < 0)
        return r;
    if (admit->kind == &kind_pod)
        admit_pod_default(admit, json_make_path(admit->arena, object, "spec"));
    else if (admit->kind == &kind_crd)
        crd_default(admit);
    else if (admit->kind == &kind_service)
        admit_service_default(admit);
    else if (admit->kind == &kind_namespace)
        default_namespace(admit);
    else if (admit->kind == &kind_pvc)
        default_pvc(admit);
    else if (admit->kind == &kind_hpa || admit->kind == &kind_hpa_v1)
        default_hpa(admit);
    else if (admit->kind == &kind_secret)
        default_secret(admit);
    else if (admit->kind == &kind_job)
        admit_job_default(admit);
    if (admit->kind == &kind_pod && !admit->old)
        set_default(admit, json_make_path(admit->arena, object, "status"), "phase", "Pending");
    return 0;
}

static void check_pvc(struct admit *admit)
{
    struct err err = {0};
    int64_t bytes = 0;
    const struct json *storage = json_at(admit->object, "spec.resources.requests.storage");

    JSON_FOREACH(json_at(admit->object, "spec.accessModes"), mode)
        if (!str_is(json_str(mode), "ReadWriteOnce") && !str_is(json_str(mode), "ReadOnlyMany") &&
            !str_is(json_str(mode), "ReadWriteMany") && !str_is(json_str(mode), "ReadWriteOncePod"))
            admit_unsupported(admit, STR("spec.accessModes"), mode,
                              "\"ReadOnlyMany\", \"ReadWriteMany\", \"ReadWriteOnce\", "
                              "\"ReadWriteOncePod\"");
    if (!json_count(json_at(admit->object, "spec.accessModes")))
        admit_required(admit, STR("spec.accessModes"), "at least 1 access mode is required");
    if (json_is_null(storage))
        admit_required(admit, STR("spec.resources[storage]"), "");
    else if (quantity_whole_json(storage, &bytes, &err) < 0)
        admit_invalid(admit, STR("spec.resources[storage]"), storage, err.text);
    else if (bytes <= 0)
        admit_invalid(admit, STR("spec.resources[storage]"), storage, "must be greater than zero");
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

static void check_secret(struct admit *admit)
{
    JSON_FOREACH(json_get(admit->object, "data"), item) {
        struct str bytes;

        if (!base64_decode(admit->arena, json_str(item), &bytes))
            admit_invalid(admit,
                          str_printf(admit->arena, "data[" STR_FMT "]", STR_ARG(json_key(item))),
                          item, "must be base64; use stringData for plain text");
    }
    if (admit->old && !json_equal(json_get(admit->old, "type"), json_get(admit->object, "type")))
        admit_invalid(admit, STR("type"), json_get(admit->object, "type"), "field is immutable");
}

/* What may not change once it is there. */
static void check_fixed(struct admit *admit)
{
    static const struct {
        const struct kind *kind;
        const char *path;
    } rows[] = {
        {&kind_priorityclass, "value"},        {&kind_priorityclass, "preemptionPolicy"},
        {&kind_storageclass, "provisioner"},   {&kind_storageclass, "parameters"},
        {&kind_storageclass, "reclaimPolicy"}, {&kind_storageclass, "volumeBindingMode"},
        {&kind_pvc, "spec.accessModes"},       {&kind_pvc, "spec.volumeMode"},
        {&kind_pvc, "spec.selector"},          {&kind_job, "spec.selector"},
        {&kind_job, "spec.completionMode"},    {&kind_rolebinding, "roleRef"},
        {&kind_clusterrolebinding, "roleRef"}, {&kind_runtimeclass, "handler"},
    };

    for (size_t i = 0; admit->old && i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct json *before = json_at(admit->old, rows[i].path);
        const struct json *now = json_at(admit->object, rows[i].path);

        if (admit->kind == rows[i].kind && (before || now) && !json_equal(before, now))
            admit_invalid(admit, str_from(rows[i].path), now, "field is immutable");
    }
}

/* What must be said. */
static void check_required(struct admit *admit)
{
    static const struct {
        const struct kind *kind;
        const char *path;
    } rows[] = {
        {&kind_priorityclass, "value"},
        {&kind_storageclass, "provisioner"},
        {&kind_runtimeclass, "handler"},
        {&kind_rolebinding, "roleRef.name"},
        {&kind_clusterrolebinding, "roleRef.name"},
        {&kind_job, "spec.template"},
        {&kind_pv, "spec.capacity.storage"},
        {&kind_pv, "spec.accessModes"},
        {&kind_event, "involvedObject"},
        {&kind_endpointslice, "addressType"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (admit->kind == rows[i].kind && json_is_null(json_at(admit->object, rows[i].path)))
            admit_required(admit, str_from(rows[i].path), "");
    if (admit->kind == &kind_pdb && !json_is_null(json_at(admit->object, "spec.minAvailable")) &&
        !json_is_null(json_at(admit->object, "spec.maxUnavailable")))
        admit_invalid(admit, STR("spec"), json_get(admit->object, "spec"),
                      "minAvailable and maxUnavailable cannot be both set");
}

void admit_validate(struct admit *admit)
{
    admit_metadata(admit);
    if (admit->schema)
        schema_validate(admit, admit->schema, admit->object);
    if (str_is(admit->subresource, "status"))
        return;
    check_required(admit);
    check_fixed(admit);
    if (admit->kind == &kind_pod) {
        admit_pod_validate(admit, json_get(admit->object, "spec"), STR("spec"));
        if (admit->old)
            admit_pod_update(admit);
        share_check(admit);
    } else if (admit->kind == &kind_crd) {
        crd_validate(admit);
    } else if (admit->kind == &kind_service) {
        admit_service_validate(admit);
    } else if (admit->kind == &kind_pvc) {
        check_pvc(admit);
    } else if (admit->kind == &kind_configmap) {
        check_keys(admit, "data");
        check_keys(admit, "binaryData");
    } else if (admit->kind == &kind_secret) {
        check_keys(admit, "data");
        check_secret(admit);
    } else if (admit->kind == &kind_job) {
        admit_job_validate(admit);
    } else if (admit->kind == &kind_jobset) {
        admit_jobset_validate(admit);
    } else if (admit->kind == &kind_pytorchtrainingjob) {
        admit_tensorstack_validate(admit);
    } else if (admit->kind == &kind_trainjob) {
        admit_trainjob_validate(admit);
    } else if (admit->kind == &kind_trainingruntime ||
               admit->kind == &kind_clustertrainingruntime) {
        admit_runtime_validate(admit);
    } else if (admit->kind == &kind_torchrunjob || admit->kind == &kind_torchrunqueue) {
        admit_torchrun_validate(admit);
    } else if (admit->kind == &kind_queue) {
        admit_queue_validate(admit);
    } else if (admit->kind == &kind_podgroup) {
        admit_podgroup_validate(admit);
    } else if (admit->kind == &kind_topology) {
        admit_topology_validate(admit);
    } else if (strcmp(admit->kind->group, "kubeflow.org") == 0) {
        admit_kubeflow(admit);
    }
}
