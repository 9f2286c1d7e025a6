#include "api/admit.h"
#include "api/kind.h"
#include "api/selector.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/err.h"
#include "base/json.h"
#include "base/json_names.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Kinds that keep pods of a template running (apps/v1): what Kubernetes fills in, and what it
 * refuses. */

/* ---- defaults ---- */

/* What depends on something else: the types say the rest. */
static void default_template(struct admit *admit)
{
    struct json *pods = json_at(admit->object, "spec.template.spec");

    if (json_is(pods, JSON_OBJECT))
        admit_template_default(admit, pods);
}

void admit_apps_default(struct admit *admit)
{
    default_template(admit);
}

/* Older than selectors: who is chosen follows from the template. */
void admit_replicationcontroller_default(struct admit *admit)
{
    struct json *spec = json_get(admit->object, "spec");
    const struct json *labels = json_at(spec, "template.metadata.labels");

    default_template(admit);
    if (!json_is(spec, JSON_OBJECT) || !json_count(labels))
        return;
    if (!json_count(json_get(spec, "selector")))
        json_set(spec, STR("selector"), json_clone(admit->arena, labels));
    if (!json_count(json_at(admit->object, "metadata.labels")))
        json_set(json_get(admit->object, "metadata"), STR("labels"),
                 json_clone(admit->arena, labels));
}

/* A claim within another object says what it is. */
void admit_statefulset_default(struct admit *admit)
{
    default_template(admit);
    JSON_FOREACH(json_at(admit->object, "spec.volumeClaimTemplates"), template) {
        admit_fill_c(admit, template, "apiVersion", "v1");
        admit_fill_c(admit, template, "kind", "PersistentVolumeClaim");
        admit_fill_c(admit, json_make_path(admit->arena, template, "status"), "phase", "Pending");
    }
}

/* ---- checks ---- */

static void check_enum(struct admit *admit,
                       const struct json *spec,
                       const char *path,
                       const char *const words[2])
{
    const struct json *value = json_at(spec, path);

    if (!json_is_null(value) && !str_is(json_str(value), words[0]) &&
        !str_is(json_str(value), words[1]))
        admit_unsupported(admit, str_printf(admit->arena, "spec.%s", path), value,
                          str_printf(admit->arena, "\"%s\", \"%s\"", words[0], words[1]).p);
}

static void check_numbers(struct admit *admit, const struct json *spec)
{
    static const char *const names[] = {"replicas", "minReadySeconds", "revisionHistoryLimit",
                                        "progressDeadlineSeconds"};

    for (size_t i = 0; i < COUNT_OF(names); i++) {
        const struct json *value = json_get(spec, names[i]);

        if (!json_is_null(value) && json_i64_or(value, -1) < 0)
            admit_invalid(admit, str_printf(admit->arena, "spec.%s", names[i]), value,
                          "must be greater than or equal to 0");
    }
}

static void check_selector(struct admit *admit, const struct json *spec)
{
    const struct json *wanted = json_get(spec, "selector");
    const struct json *labels = json_at(spec, "template.metadata.labels");
    struct selector selector = {0};
    struct err err = {0};

    if (json_is_null(wanted)) {
        admit_required(admit, STR("spec.selector"), "");
        return;
    }
    if (!json_count(json_get(wanted, "matchLabels")) &&
        !json_count(json_get(wanted, "matchExpressions")))
        admit_invalid(admit, STR("spec.selector"), wanted,
                      "empty selector is invalid: it would choose every pod");
    else if (selector_from_json(admit->arena, wanted, &selector, &err) < 0)
        admit_invalid(admit, STR("spec.selector"), wanted, err.text);
    else if (!selector_matches_json(&selector, labels))
        admit_invalid(admit, STR("spec.template.metadata.labels"), labels,
                      "`selector` does not match template `labels`");
    if (admit->old && !json_equal(wanted, json_at(admit->old, "spec.selector")))
        admit_invalid(admit, STR("spec.selector"), wanted, "field is immutable");
}

/* The pods with the claims that they will have: mounts may name them. */
static const struct json *with_claims(struct admit *admit, const struct json *spec)
{
    const struct json *pods = json_at(spec, "template.spec");
    const struct json *claims = json_get(spec, "volumeClaimTemplates");

    if (!json_count(claims) || !json_is(pods, JSON_OBJECT))
        return pods;
    struct json *copy = json_clone(admit->arena, pods);
    if (!json_is(json_get(copy, "volumes"), JSON_ARRAY))
        json_add_array(admit->arena, copy, "volumes");
    JSON_FOREACH(claims, claim) {
        struct json *volume = json_new_object(admit->arena);
        struct str name = json_str_at(claim, "metadata.name");
        bool there = false;

        JSON_FOREACH(json_get(copy, "volumes"), other)
            there |= str_eq(json_str(json_get(other, "name")), name);
        json_add_str(admit->arena, volume, "name", name);
        if (!there)
            json_push(json_get(copy, "volumes"), volume);
    }
    return copy;
}

static void check_template(struct admit *admit, const struct json *spec)
{
    const struct json *template = json_get(spec, "template");
    const struct json *restart = json_at(template, "spec.restartPolicy");

    if (json_is_null(template)) {
        admit_required(admit, STR("spec.template"), "");
        return;
    }
    if (!json_is_null(restart) && !str_is(json_str(restart), "Always"))
        admit_unsupported(admit, STR("spec.template.spec.restartPolicy"), restart, "\"Always\"");
    if (!json_is_null(json_at(template, "spec.activeDeadlineSeconds")))
        admit_forbidden(admit, STR("spec.template.spec.activeDeadlineSeconds"),
                        "pods that are kept running have no deadline");
    admit_pod_validate(admit, with_claims(admit, spec), STR("spec.template.spec"));
}

/* A number that is not negative, or per cent. False: it is neither, and that was said. */
static bool check_share(struct admit *admit,
                        const struct json *value,
                        const char *field,
                        bool beyond_all)
{
    struct str text = json_str(value);
    int64_t number = 0;

    if (json_is_null(value))
        return true;
    bool share = text.len > 1 && str_ends(text, STR("%")) &&
                 str_to_i64(str_sub(text, 0, text.len - 1), &number);
    bool fine = share || json_i64(value, &number);
    if (fine && number >= 0 && (!share || beyond_all || number <= 100))
        return true;
    admit_invalid(admit, str_from(field), value,
                  "must be a number that is not negative, or a percentage like \"25%\"");
    return false;
}

static bool is_nothing(const struct json *value)
{
    return str_is(json_str(value), "0%") || json_i64_or(value, -1) == 0;
}

static void check_strategy(struct admit *admit, const struct json *spec)
{
    const struct json *type = json_at(spec, "strategy.type");
    const struct json *rolling = json_at(spec, "strategy.rollingUpdate");
    const struct json *surge = json_get(rolling, "maxSurge");
    const struct json *gone = json_get(rolling, "maxUnavailable");

    if (str_is(json_str(type), "Recreate")) {
        if (!json_is_null(rolling))
            admit_forbidden(admit, STR("spec.strategy.rollingUpdate"),
                            "may not be specified when strategy `type` is 'Recreate'");
        return;
    }
    if (!str_is(json_str(type), "RollingUpdate")) {
        admit_unsupported(admit, STR("spec.strategy.type"), type,
                          "\"Recreate\", \"RollingUpdate\"");
        return;
    }
    if (check_share(admit, surge, "spec.strategy.rollingUpdate.maxSurge", true) &&
        check_share(admit, gone, "spec.strategy.rollingUpdate.maxUnavailable", false) &&
        is_nothing(surge) && is_nothing(gone))
        admit_invalid(admit, STR("spec.strategy.rollingUpdate.maxUnavailable"), gone,
                      "may not be 0 when `maxSurge` is 0");
}

void admit_deployment_validate(struct admit *admit)
{
    const struct json *spec = json_get(admit->object, "spec");
    const struct json *deadline = json_get(spec, "progressDeadlineSeconds");

    check_numbers(admit, spec);
    check_selector(admit, spec);
    check_template(admit, spec);
    check_strategy(admit, spec);
    if (!json_is_null(deadline) &&
        json_i64_or(deadline, 0) <= json_i64_or(json_get(spec, "minReadySeconds"), 0))
        admit_invalid(admit, STR("spec.progressDeadlineSeconds"), deadline,
                      "must be greater than minReadySeconds");
}

void admit_replicaset_validate(struct admit *admit)
{
    const struct json *spec = json_get(admit->object, "spec");

    check_numbers(admit, spec);
    check_selector(admit, spec);
    check_template(admit, spec);
}

void admit_replicationcontroller_validate(struct admit *admit)
{
    const struct json *spec = json_get(admit->object, "spec");
    const struct json *labels = json_at(spec, "template.metadata.labels");
    _cleanup_(json_names_done) struct json_names names = {.object = labels};

    check_numbers(admit, spec);
    check_template(admit, spec);
    if (!json_count(json_get(spec, "selector")))
        admit_required(admit, STR("spec.selector"), "");
    JSON_FOREACH(json_get(spec, "selector"), label)
        if (!str_eq(json_str(json_names_get(&names, json_key(label))), json_str(label))) {
            admit_invalid(admit, STR("spec.template.metadata.labels"), labels,
                          "`selector` does not match template `labels`");
            return;
        }
}

/* What a StatefulSet was made with stays: its names and claims follow from it. */
static void check_set_update(struct admit *admit, const struct json *spec)
{
    static const char *const open_fields[] = {"replicas",
                                              "ordinals",
                                              "template",
                                              "updateStrategy",
                                              "revisionHistoryLimit",
                                              "persistentVolumeClaimRetentionPolicy",
                                              "minReadySeconds"};
    struct json *now = json_clone(admit->arena, spec);
    struct json *before = json_clone(admit->arena, json_get(admit->old, "spec"));

    for (size_t i = 0; i < COUNT_OF(open_fields); i++) {
        json_remove(now, str_from(open_fields[i]));
        json_remove(before, str_from(open_fields[i]));
    }
    if (!json_equal(now, before))
        admit_forbidden(admit, STR("spec"),
                        "updates to statefulset spec for fields other than 'replicas', 'ordinals', "
                        "'template', 'updateStrategy', 'revisionHistoryLimit', "
                        "'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are "
                        "forbidden");
}

void admit_statefulset_validate(struct admit *admit)
{
    static const char *const orders[] = {"OrderedReady", "Parallel"};
    static const char *const strategies[] = {"OnDelete", "RollingUpdate"};
    static const char *const policies[] = {"Delete", "Retain"};
    static const char *const not_negative[] = {"updateStrategy.rollingUpdate.partition",
                                               "ordinals.start"};
    const struct json *spec = json_get(admit->object, "spec");

    check_numbers(admit, spec);
    check_selector(admit, spec);
    check_template(admit, spec);
    check_enum(admit, spec, "podManagementPolicy", orders);
    check_enum(admit, spec, "updateStrategy.type", strategies);
    check_enum(admit, spec, "persistentVolumeClaimRetentionPolicy.whenDeleted", policies);
    check_enum(admit, spec, "persistentVolumeClaimRetentionPolicy.whenScaled", policies);
    for (size_t i = 0; i < COUNT_OF(not_negative); i++)
        if (json_i64_or(json_at(spec, not_negative[i]), 0) < 0)
            admit_invalid(admit, str_printf(admit->arena, "spec.%s", not_negative[i]),
                          json_at(spec, not_negative[i]), "must be greater than or equal to 0");
    if (admit->old)
        check_set_update(admit, spec);
}

void admit_daemonset_validate(struct admit *admit)
{
    static const char *const strategies[] = {"OnDelete", "RollingUpdate"};
    const struct json *spec = json_get(admit->object, "spec");
    const struct json *surge = json_at(spec, "updateStrategy.rollingUpdate.maxSurge");
    const struct json *gone = json_at(spec, "updateStrategy.rollingUpdate.maxUnavailable");

    check_numbers(admit, spec);
    check_selector(admit, spec);
    check_template(admit, spec);
    check_enum(admit, spec, "updateStrategy.type", strategies);
    if (!check_share(admit, surge, "spec.updateStrategy.rollingUpdate.maxSurge", false) ||
        !check_share(admit, gone, "spec.updateStrategy.rollingUpdate.maxUnavailable", false) ||
        !json_at(spec, "updateStrategy.rollingUpdate"))
        return;
    if (is_nothing(surge) && is_nothing(gone))
        admit_invalid(admit, STR("spec.updateStrategy.rollingUpdate.maxUnavailable"), gone,
                      "may not be 0 when `maxSurge` is 0");
    if (!json_is_null(surge) && !is_nothing(surge) && !is_nothing(gone))
        admit_invalid(admit, STR("spec.updateStrategy.rollingUpdate.maxSurge"), surge,
                      "may not be set when maxUnavailable is non-zero");
}
