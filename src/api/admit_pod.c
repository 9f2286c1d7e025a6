#include "api/admit.h"
#include "api/kind.h"
#include "api/names.h"
#include "api/pod.h"
#include "api/quantity.h"
#include "api/schema.h"
#include "api/types.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/err.h"
#include "base/json.h"
#include "base/json_make.h"
#include "base/json_names.h"
#include "base/map.h"
#include "base/str.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* A container that has its defaults takes 150 bytes at least, and an object 1.5 MiB at most: more
 * can never be stored. They are refused before each of them is filled in. */
#define POD_ITEMS_MAX   10000
#define IMAGE_BYTES_MAX 255 /* of an image's name */

/* ---- defaults: those that depend on something; the types say the others ---- */

/* "repo/image:1.2" has a tag, "host:5000/image" has none; what is latest, or has neither a tag nor
 * a digest, is pulled always. What can be no image has no tag either. */
static const char *pull_policy(struct str image)
{
    struct str name = str_sub(image, 0, str_find(image, '@'));
    struct str rest = name;
    struct str last = STR("");

    if (name.len > IMAGE_BYTES_MAX || !image.len)
        return "IfNotPresent";
    while (str_cut(&rest, '/', &last))
        ;
    for (size_t i = 0; i < str_find(last, ':'); i++)
        if (last.p[i] == ' ' || (last.p[i] >= 'A' && last.p[i] <= 'Z'))
            return "IfNotPresent";
    struct str tag = str_sub(last, str_find(last, ':') + 1, last.len);
    return str_is(tag, "latest") || (!tag.len && name.len == image.len) ? "Always" : "IfNotPresent";
}

/* Of pods only: a template stays as it was written. */
static void default_requests(struct admit *admit, struct json *container)
{
    const struct json *limits = json_at(container, "resources.limits");
    _cleanup_(json_names_done) struct json_names requests = {0};

    if (!json_count(limits))
        return;
    /* What is limited and not requested is requested. */
    requests.object = json_make_path(admit->arena, container, "resources.requests");
    JSON_FOREACH(limits, limit)
        if (!json_names_get(&requests, json_key(limit)))
            (void)json_names_put(&requests, json_key(limit), json_clone(admit->arena, limit));
}

static void default_container(struct admit *admit, struct json *container)
{
    if (!json_is(container, JSON_OBJECT))
        return;
    admit_fill_c(admit, container, "imagePullPolicy",
                 pull_policy(json_str(json_get(container, "image"))));
}

/* A pod is not thrown off a node that is gone for a moment. */
static void default_tolerations(struct admit *admit, struct json *spec)
{
    static const char *const keys[] = {"node.kubernetes.io/not-ready",
                                       "node.kubernetes.io/unreachable"};
    struct json *list = json_get(spec, "tolerations");

    if (!json_is(list, JSON_ARRAY))
        list = json_add_array(admit->arena, spec, "tolerations");
    for (size_t i = 0; i < COUNT_OF(keys); i++) {
        bool there = false;

        JSON_FOREACH(list, item) {
            struct str key = json_str(json_get(item, "key"));
            struct str effect = json_str(json_get(item, "effect"));

            there |=
                (str_is(key, keys[i]) || !key.len) && (!effect.len || str_is(effect, "NoExecute"));
        }
        if (there)
            continue;
        json_push(list, json_make(admit->arena,
                                  "{key: $, operator: 'Exists', effect: 'NoExecute', "
                                  "tolerationSeconds: 300}",
                                  keys[i]));
    }
}

int admit_pod_bound(const struct json *spec, struct err *err)
{
    static const char *const lists[] = {"containers", "initContainers", "ephemeralContainers",
                                        "volumes"};

    for (size_t i = 0; i < COUNT_OF(lists); i++)
        if (json_count(json_get(spec, lists[i])) > POD_ITEMS_MAX)
            return err_set(err, -E2BIG, "spec.%s has %zu items, at most %d can be stored", lists[i],
                           json_count(json_get(spec, lists[i])), POD_ITEMS_MAX);
    return 0;
}

void admit_template_default(struct admit *admit, struct json *spec)
{
    static const char *const lists[] = {"containers", "initContainers", "ephemeralContainers"};

    if (json_i64_or(json_get(spec, "terminationGracePeriodSeconds"), 0) < 0)
        json_add_i64(admit->arena, spec, "terminationGracePeriodSeconds", 1);
    for (size_t i = 0; i < COUNT_OF(lists); i++)
        JSON_FOREACH(json_get(spec, lists[i]), container)
            default_container(admit, container);
    JSON_FOREACH(json_get(spec, "volumes"), volume)
        if (json_count(volume) == 1 && json_get(volume, "name"))
            json_add_object(admit->arena, volume, "emptyDir");
}

static void pod_default(struct admit *admit, struct json *spec)
{
    JSON_FOREACH(json_get(spec, "containers"), container)
        default_requests(admit, container);
    JSON_FOREACH(json_get(spec, "initContainers"), container)
        default_requests(admit, container);
    admit_template_default(admit, spec);
}

void admit_pod_default(struct admit *admit)
{
    static const char *const lists[] = {"containers", "initContainers"};
    struct json *spec = json_make_path(admit->arena, admit->object, "spec");

    pod_default(admit, spec);
    /* Who is in the node's network listens there. */
    for (size_t i = 0; json_bool_or(json_get(spec, "hostNetwork"), false) && i < 2; i++)
        JSON_FOREACH(json_get(spec, lists[i]), container)
            JSON_FOREACH(json_get(container, "ports"), port)
                if (json_i64_or(json_get(port, "hostPort"), 0) == 0 &&
                    json_get(port, "containerPort"))
                    json_set(port, STR("hostPort"),
                             json_clone(admit->arena, json_get(port, "containerPort")));
}

const char *pod_qos(const struct json *spec)
{
    static const char *const lists[] = {"containers", "initContainers"};
    static const char *const kinds[] = {"cpu", "memory"};
    bool any = false;
    bool all = true;

    for (size_t l = 0; l < COUNT_OF(lists); l++)
        JSON_FOREACH(json_get(spec, lists[l]), container)
            for (size_t k = 0; k < COUNT_OF(kinds); k++) {
                const struct json *asked =
                    json_get(json_at(container, "resources.requests"), kinds[k]);
                struct quantity limit = {0};
                struct quantity request = {0};

                (void)quantity_parse_json(
                    json_get(json_at(container, "resources.limits"), kinds[k]), &limit, NULL);
                (void)quantity_parse_json(asked, &request, NULL);
                any = any || limit.nano > 0 || request.nano > 0;
                all = all && limit.nano > 0 && (!asked || quantity_cmp(limit, request) == 0);
            }
    return !any ? "BestEffort" : all ? "Guaranteed" : "Burstable";
}

/* The old name of the field says what the new one does. */
void admit_pod_account(struct admit *admit, struct json *spec)
{
    struct str name = json_str(json_get(spec, "serviceAccountName"));

    if (!name.len)
        name = json_str(json_get(spec, "serviceAccount"));
    if (!json_is(spec, JSON_OBJECT) || !name.len)
        return;
    json_add_str(admit->arena, spec, "serviceAccountName", name);
    json_add_str(admit->arena, spec, "serviceAccount", name);
}

void admit_pod_add(struct admit *admit)
{
    struct json *spec = json_get(admit->object, "spec");

    if (json_is(spec, JSON_OBJECT) && !admit->subresource.len)
        default_tolerations(admit, spec);
    if (admit->old)
        return;
    admit_fill_c(admit, spec, "serviceAccountName", "default");
    admit_pod_account(admit, spec);
    struct json *status = json_make_path(admit->arena, admit->object, "status");
    admit_fill_c(admit, status, "phase", "Pending");
    admit_fill_c(admit, status, "qosClass", pod_qos(spec));
}

/* ---- rules ---- */

static struct str at(struct admit *admit, struct str path, const char *rest)
{
    return str_printf(admit->arena, STR_FMT ".%s", STR_ARG(path), rest);
}

static void check_enum(struct admit *admit,
                       const struct json *value,
                       struct str path,
                       const char *allowed)
{
    struct str rest = str_from(allowed);
    struct str word;

    if (json_is_null(value))
        return;
    while (str_cut(&rest, ',', &word))
        if (str_eq(str_trim(word), json_str(value)))
            return;
    admit_unsupported(admit, path, value, allowed);
}

/* Of what is no part of a machine by itself, like a GPU, there are whole ones, and nobody can ask
 * for fewer than the limit. */
static bool is_extended(struct str resource)
{
    return str_find(resource, '/') < resource.len && !str_contains(resource, STR("kubernetes.io/"));
}

bool admit_resource_known(struct str resource)
{
    return str_find(resource, '/') < resource.len || str_is(resource, "cpu") ||
           str_is(resource, "memory") || str_is(resource, "ephemeral-storage") ||
           str_starts(resource, STR("hugepages-"));
}

void admit_amounts(struct admit *admit, const struct json *amounts, struct str path)
{
    JSON_FOREACH(amounts, amount) {
        struct quantity quantity = {0};
        struct err err = {0};
        struct str field = str_printf(admit->arena, STR_FMT "[" STR_FMT "]", STR_ARG(path),
                                      STR_ARG(json_key(amount)));

        if (names_qualified(json_key(amount)))
            admit_invalid(admit, field, json_new_str(admit->arena, json_key(amount)),
                          names_qualified(json_key(amount)));
        else if (!admit_resource_known(json_key(amount)))
            admit_invalid(admit, field, json_new_str(admit->arena, json_key(amount)),
                          ADMIT_RESOURCE_UNKNOWN);
        if (quantity_parse_json(amount, &quantity, &err) < 0)
            admit_invalid(admit, field, amount, err.text);
        else if (quantity.nano < 0)
            admit_invalid(admit, field, amount, "must be greater than or equal to 0");
        else if (is_extended(json_key(amount)) && quantity.nano % QUANTITY_NANO)
            admit_invalid(admit, field, amount, "must be an integer");
    }
}

void admit_resources(struct admit *admit, const struct json *resources, struct str path)
{
    const struct json *limits = json_get(resources, "limits");
    _cleanup_(json_names_done) struct json_names limited = {.object = limits};

    admit_amounts(admit, limits, at(admit, path, "limits"));
    admit_amounts(admit, json_get(resources, "requests"), at(admit, path, "requests"));
    JSON_FOREACH(json_get(resources, "requests"), request) {
        const struct json *limit = json_names_get(&limited, json_key(request));
        struct quantity a = {0};
        struct quantity b = {0};
        bool same =
            is_extended(json_key(request)) || str_starts(json_key(request), STR("hugepages-"));
        struct str field = str_printf(admit->arena, STR_FMT ".requests", STR_ARG(path));

        if (quantity_parse_json(request, &a, NULL) < 0 || quantity_parse_json(limit, &b, NULL) < 0)
            continue;
        int order = limit ? quantity_cmp(a, b) : 0;
        if (same && order)
            admit_invalid(admit, field, request,
                          str_printf(admit->arena, "must be equal to " STR_FMT " limit",
                                     STR_ARG(json_key(request)))
                              .p);
        else if (order > 0)
            admit_invalid(admit, field, request,
                          str_printf(admit->arena,
                                     "must be less than or equal to " STR_FMT " limit",
                                     STR_ARG(json_key(request)))
                              .p);
        if (same && !limit)
            admit_required(admit, at(admit, path, "limits"),
                           "Limit must be set for non overcommitable resources");
    }
}

static bool is_variable(struct str name)
{
    for (size_t i = 0; i < name.len; i++)
        if (name.p[i] < ' ' || name.p[i] > '~' || name.p[i] == '=')
            return false;
    return true;
}

static void check_env(struct admit *admit, const struct json *container, struct str path)
{
    size_t index = 0;

    JSON_FOREACH(json_get(container, "env"), variable) {
        struct str field =
            str_printf(admit->arena, STR_FMT ".env[%zu].name", STR_ARG(path), index++);
        const struct json *name = json_get(variable, "name");

        if (!json_str(name).len)
            admit_required(admit, field, "");
        else if (!is_variable(json_str(name)))
            admit_invalid(admit, field, name,
                          "a valid environment variable name must consist only of printable ASCII "
                          "characters other than '='");
    }
}

static void check_sub_path(struct admit *admit, const struct json *value, struct str path)
{
    struct str rest = json_str(value);
    struct str part;

    if (str_starts(rest, STR("/")))
        admit_invalid(admit, path, value, "must be a relative path");
    while (str_cut(&rest, '/', &part))
        if (str_is(part, ".."))
            admit_invalid(admit, path, value, "must not contain '..'");
}

static void check_mounts(struct admit *admit,
                         const struct admit_names *volumes,
                         const struct json *container,
                         struct str path)
{
    struct admit_names places =
        admit_names(admit->arena, json_get(container, "volumeMounts"), "mountPath");
    size_t index = 0;

    JSON_FOREACH(json_get(container, "volumeMounts"), mount) {
        struct str field =
            str_printf(admit->arena, STR_FMT ".volumeMounts[%zu]", STR_ARG(path), index);
        const struct json *name = json_get(mount, "name");
        const struct json *where = json_get(mount, "mountPath");

        if (!json_str(name).len)
            admit_required(admit, at(admit, field, "name"), "");
        else if (!admit_names_have(volumes, json_str(name)))
            admit_not_found(admit, at(admit, field, "name"), name,
                            "there is no volume of that name in spec.volumes");
        if (!json_str(where).len)
            admit_required(admit, at(admit, field, "mountPath"), "");
        else if (places.again[index])
            admit_invalid(admit, at(admit, field, "mountPath"), where, "must be unique");
        check_sub_path(admit, json_get(mount, "subPath"), at(admit, field, "subPath"));
        check_sub_path(admit, json_get(mount, "subPathExpr"), at(admit, field, "subPathExpr"));
        index++;
    }
}

static void check_ports(struct admit *admit, const struct json *container, struct str path)
{
    size_t index = 0;

    struct admit_names names = admit_names(admit->arena, json_get(container, "ports"), "name");

    JSON_FOREACH(json_get(container, "ports"), port) {
        struct str field = str_printf(admit->arena, STR_FMT ".ports[%zu]", STR_ARG(path), index);
        int64_t number = json_i64_or(json_get(port, "containerPort"), 0);
        const struct json *name = json_get(port, "name");

        if (names.again[index++])
            admit_duplicate(admit, at(admit, field, "name"), name);
        if (!number)
            admit_required(admit, at(admit, field, "containerPort"), "");
        else if (number < 1 || number > 65535)
            admit_invalid(admit, at(admit, field, "containerPort"), json_get(port, "containerPort"),
                          "must be between 1 and 65535, inclusive");
        if (json_str(name).len && names_port(json_str(name)))
            admit_invalid(admit, at(admit, field, "name"), name, names_port(json_str(name)));
        check_enum(admit, json_get(port, "protocol"), at(admit, field, "protocol"),
                   "TCP, UDP, SCTP");
    }
}

static void check_container(struct admit *admit,
                            const struct admit_names *volumes,
                            const struct json *container,
                            struct str path)
{
    const struct json *name = json_get(container, "name");

    if (!json_str(name).len)
        admit_required(admit, at(admit, path, "name"), "");
    else if (names_dns_label(json_str(name)))
        admit_invalid(admit, at(admit, path, "name"), name, names_dns_label(json_str(name)));
    if (!json_str(json_get(container, "image")).len && admit->kind->strategic)
        admit_required(admit, at(admit, path, "image"), "");
    check_enum(admit, json_get(container, "imagePullPolicy"), at(admit, path, "imagePullPolicy"),
               "Always, IfNotPresent, Never");
    check_enum(admit, json_get(container, "terminationMessagePolicy"),
               at(admit, path, "terminationMessagePolicy"), "File, FallbackToLogsOnError");
    admit_resources(admit, json_get(container, "resources"), at(admit, path, "resources"));
    check_env(admit, container, path);
    check_mounts(admit, volumes, container, path);
    check_ports(admit, container, path);
}

static void check_containers(struct admit *admit,
                             const struct json *spec,
                             const struct admit_names *volumes,
                             const char *list,
                             struct str path)
{
    struct admit_names names = admit_names(admit->arena, json_get(spec, list), "name");
    size_t index = 0;

    JSON_FOREACH(json_get(spec, list), container) {
        struct str field = str_printf(admit->arena, STR_FMT ".%s[%zu]", STR_ARG(path), list, index);

        check_container(admit, volumes, container, field);
        if (names.again[index])
            admit_duplicate(admit, at(admit, field, "name"), json_get(container, "name"));
        index++;
    }
}

/* What a volume is made of; a second one is wrong where it stands. */
static void check_sources(struct admit *admit, const struct json *volume, struct str path)
{
    size_t count = 0;

    JSON_FOREACH(volume, source)
        if (!str_is(json_key(source), "name") && !json_is_null(source) && ++count > 1)
            admit_forbidden(admit, at(admit, path, str_c(admit->arena, json_key(source))),
                            "may not specify more than 1 volume type");
}

static void check_volumes(struct admit *admit,
                          const struct json *spec,
                          const struct admit_names *names,
                          struct str path)
{
    size_t index = 0;

    JSON_FOREACH(json_get(spec, "volumes"), volume) {
        const struct json *name = json_get(volume, "name");
        struct str field = str_printf(admit->arena, STR_FMT ".volumes[%zu]", STR_ARG(path), index);

        if (!json_str(name).len)
            admit_required(admit, at(admit, field, "name"), "");
        else if (names_dns_label(json_str(name)))
            admit_invalid(admit, at(admit, field, "name"), name, names_dns_label(json_str(name)));
        check_sources(admit, volume, field);
        if (names->again[index])
            admit_duplicate(admit, at(admit, field, "name"), name);
        index++;
    }
}

/* What a pod names for nodes to have is looked for among all of it, again and again. */
#define POD_RESOURCES_MAX 256 /* kinds of resources: a node has some dozen */
#define POD_CLAIMS_MAX    256 /* each becomes an object */

static void check_counts(struct admit *admit, const struct json *spec, struct str path)
{
    static const char *const lists[] = {"containers", "initContainers", "ephemeralContainers"};
    static const char *const kinds[] = {"limits", "requests"};
    _cleanup_(map_done) struct map names = {.seed = (uintptr_t)spec};

    if (admit->kind == &kind_pod && admit->old) /* it cannot change any more */
        return;
    for (size_t i = 0; i < COUNT_OF(lists) * COUNT_OF(kinds); i++)
        JSON_FOREACH(json_get(spec, lists[i / COUNT_OF(kinds)]), container)
            JSON_FOREACH(json_get(json_get(container, "resources"), kinds[i % COUNT_OF(kinds)]),
                         amount)
                (void)map_set(&names, json_key(amount), amount);
    JSON_FOREACH(json_get(spec, "overhead"), amount)
        (void)map_set(&names, json_key(amount), amount);
    if (names.count > POD_RESOURCES_MAX)
        admit_forbidden(admit, at(admit, path, "containers"),
                        str_printf(admit->arena, "%zu resources are named; a pod has at most %d",
                                   names.count, POD_RESOURCES_MAX)
                            .p);
    if (json_count(json_get(spec, "resourceClaims")) > POD_CLAIMS_MAX)
        admit_forbidden(admit, at(admit, path, "resourceClaims"),
                        str_printf(admit->arena, "%zu claims; a pod has at most %d",
                                   json_count(json_get(spec, "resourceClaims")), POD_CLAIMS_MAX)
                            .p);
}

void admit_pod_validate(struct admit *admit, const struct json *spec, struct str path)
{
    struct admit_names volumes = admit_names(admit->arena, json_get(spec, "volumes"), "name");

    if (!json_count(json_get(spec, "containers")))
        admit_required(admit, at(admit, path, "containers"), "");
    check_counts(admit, spec, path);
    check_containers(admit, spec, &volumes, "containers", path);
    check_containers(admit, spec, &volumes, "initContainers", path);
    check_containers(admit, spec, &volumes, "ephemeralContainers", path);
    if (!str_is(path, "spec") && json_count(json_get(spec, "ephemeralContainers")))
        admit_forbidden(admit, at(admit, path, "ephemeralContainers"),
                        "ephemeral containers not allowed in pod template; add them to a pod when "
                        "it is there, with kubectl debug");
    check_volumes(admit, spec, &volumes, path);
    /* It counts against quotas: less than nothing would make room in them. */
    admit_amounts(admit, json_get(spec, "overhead"), at(admit, path, "overhead.limits"));
    admit_resources(admit, json_get(spec, "resources"), at(admit, path, "resources"));
    admit_pod_names(admit, spec, path);
    admit_pod_group(admit, spec, path);
    check_enum(admit, json_get(spec, "restartPolicy"), at(admit, path, "restartPolicy"),
               "Always, OnFailure, Never");
    check_enum(admit, json_get(spec, "dnsPolicy"), at(admit, path, "dnsPolicy"),
               "ClusterFirst, ClusterFirstWithHostNet, Default, None");
}

// NOLINTNEXTLINE(misc-no-recursion)
static void check_elsewhere(struct admit *admit,
                            const struct type *type,
                            const struct json *value,
                            const struct schema_path *path)
{
    struct schema_path item = {.up = path};

    JSON_FOREACH(json_is(value, JSON_ARRAY) ? value : NULL, entry) {
        check_elsewhere(admit, type, entry, &item);
        item.index++;
    }
    JSON_FOREACH(json_is(value, JSON_OBJECT) ? value : NULL, member) {
        const struct type_field *field = type_field_named(type, json_key(member));
        struct schema_path where = {.up = path, .name = json_key(member)};

        if (!field || json_is_null(member))
            continue;
        if ((field->flags & TYPE_ELSEWHERE) && !admit_is_full(admit))
            admit_forbidden(admit, schema_path_text(admit->arena, &where),
                            "no node of this server acts on this field; leave it out");
        else if (field->form == TYPE_MESSAGE && !(field->flags & TYPE_MAP))
            check_elsewhere(admit, field->type, member, &where);
    }
}

void admit_pod_elsewhere(struct admit *admit)
{
    struct schema_path path = {.name = STR("spec")};

    check_elsewhere(admit, type_named(STR("v1"), STR("PodSpec")), json_get(admit->object, "spec"),
                    &path);
}

/* All of a toleration but for how long it lasts, which may change. */
static struct str toleration_text(struct arena *arena, const struct json *toleration)
{
    static const char *const names[] = {"key", "operator", "value", "effect"};
    struct str text = STR("");

    for (size_t i = 0; i < COUNT_OF(names); i++)
        text = str_printf(arena, STR_FMT STR_FMT "\n", STR_ARG(text),
                          STR_ARG(json_str(json_get(toleration, names[i]))));
    return text;
}

/* They are only added to. */
static void check_tolerations(struct admit *admit, const struct json *before)
{
    /* Where the pod lies is nothing a peer can know. */
    _cleanup_(map_done) struct map kept = {.seed = (uintptr_t)before};

    JSON_FOREACH(json_at(admit->object, "spec.tolerations"), each)
        map_set(&kept, toleration_text(admit->arena, each), each);
    JSON_FOREACH(json_get(before, "tolerations"), old)
        if (!map_get(&kept, toleration_text(admit->arena, old))) {
            admit_forbidden(admit, STR("spec.tolerations"),
                            "existing toleration can not be modified except its tolerationSeconds");
            return;
        }
}

/* It comes, and then only nearer. */
static void check_deadline(struct admit *admit, const struct json *now, const struct json *before)
{
    const struct json *new = json_get(now, "activeDeadlineSeconds");
    const struct json *old = json_get(before, "activeDeadlineSeconds");

    if (json_is_null(new) && !json_is_null(old))
        admit_invalid(admit, STR("spec.activeDeadlineSeconds"), new,
                      "must not update from a positive integer to nil value");
    else if (!json_is_null(old) && json_i64_or(new, 0) > json_i64_or(old, 0))
        admit_invalid(admit, STR("spec.activeDeadlineSeconds"), new,
                      "must be less than or equal to previous value");
}

/* The items of `before` are the first ones of `now`. */
static bool begins_with(const struct json *now, const struct json *before)
{
    const struct json *each = json_first(now);

    JSON_FOREACH(before, item) {
        if (!each || !json_equal(each, item))
            return false;
        each = json_next(each);
    }
    return true;
}

#define NODE_TERMS "requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"

/* Nobody has looked for a node yet: where a pod may go is made narrower until it is ready. */
static void check_gated(struct admit *admit, struct json *now, struct json *before)
{
    static const char *const parts[] = {"matchExpressions", "matchFields"};
    const struct json *selector = json_get(now, "nodeSelector");
    struct json *old = json_at(before, "affinity.nodeAffinity");
    struct json *new = json_at(now, "affinity.nodeAffinity");
    const struct json *term = json_first(json_at(new, NODE_TERMS));
    size_t index = 0;

    JSON_FOREACH(json_get(before, "nodeSelector"), label)
        if (!json_equal(label, json_get_str(selector, json_key(label)))) {
            admit_invalid(admit, STR("spec.nodeSelector"), selector,
                          "only additions to spec.nodeSelector are allowed (no mutations or "
                          "deletions)");
            break;
        }
    if (json_count(json_at(old, NODE_TERMS)) &&
        json_count(json_at(old, NODE_TERMS)) != json_count(json_at(new, NODE_TERMS)))
        admit_invalid(admit, STR("spec.affinity.nodeAffinity." NODE_TERMS), NULL,
                      "no additions/deletions to non-empty NodeSelectorTerms list are allowed");
    else
        JSON_FOREACH(json_at(old, NODE_TERMS), each) {
            bool none =
                !json_count(json_get(each, parts[0])) && !json_count(json_get(each, parts[1]));
            bool some =
                json_count(json_get(term, parts[0])) || json_count(json_get(term, parts[1]));

            if ((none && some) ||
                !begins_with(json_get(term, parts[0]), json_get(each, parts[0])) ||
                !begins_with(json_get(term, parts[1]), json_get(each, parts[1])))
                admit_invalid(admit,
                              str_printf(admit->arena,
                                         "spec.affinity.nodeAffinity." NODE_TERMS "[%zu]", index),
                              term, "only additions are allowed (no mutations or deletions)");
            term = json_next(term);
            index++;
        }
    json_remove(now, STR("nodeSelector"));
    json_remove(before, STR("nodeSelector"));
    json_remove(json_get(now, "affinity"), STR("nodeAffinity"));
    json_remove(json_get(before, "affinity"), STR("nodeAffinity"));
    if (!json_count(json_get(now, "affinity")) && !json_count(json_get(before, "affinity"))) {
        json_remove(now, STR("affinity"));
        json_remove(before, STR("affinity"));
    }
}

/* What may change in the spec of a pod that exists. */
void admit_pod_update(struct admit *admit)
{
    static const char *const free_fields[] = {"activeDeadlineSeconds", "tolerations",
                                              "schedulingGates"};
    struct json *now = json_clone(admit->arena, json_get(admit->object, "spec"));
    struct json *before = json_clone(admit->arena, json_get(admit->old, "spec"));
    static const char *const lists[] = {"containers", "initContainers"};

    if (!json_is(now, JSON_OBJECT) || !json_is(before, JSON_OBJECT))
        return;
    /* It may have been stored when fewer fields were filled in. */
    const struct schema *shape = schema_property(admit->shape, STR("spec"));
    if (shape)
        (void)schema_default(admit->arena, shape, before, NULL);
    pod_default(admit, before);
    for (size_t i = 0; i < COUNT_OF(lists); i++)
        if (json_count(json_get(now, lists[i])) != json_count(json_get(before, lists[i]))) {
            admit_forbidden(admit, str_printf(admit->arena, "spec.%s", lists[i]),
                            "pod updates may not add or remove containers");
            return;
        }
    check_tolerations(admit, before);
    check_deadline(admit, now, before);
    if (json_is_null(json_get(now, "priority")))
        json_remove(before, STR("priority"));
    if (json_count(json_get(before, "schedulingGates")))
        check_gated(admit, now, before);
    for (size_t i = 0; i < COUNT_OF(free_fields); i++) {
        json_remove(now, str_from(free_fields[i]));
        json_remove(before, str_from(free_fields[i]));
    }
    for (size_t i = 0; i < COUNT_OF(lists); i++) {
        JSON_FOREACH(json_get(now, lists[i]), container)
            json_remove(container, STR("image"));
        JSON_FOREACH(json_get(before, lists[i]), container)
            json_remove(container, STR("image"));
    }
    if (!json_equal(now, before))
        admit_forbidden(admit, STR("spec"),
                        "pod updates may not change fields other than `spec.containers[*].image`, "
                        "`spec.initContainers[*].image`, `spec.activeDeadlineSeconds`, "
                        "`spec.tolerations` (only "
                        "additions to existing tolerations), `spec.terminationGracePeriodSeconds`");
}
