#include "api/admit.h"
#include "api/kind.h"
#include "api/names.h"
#include "api/types.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/json.h"
#include "base/map.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define ANNOTATION_BYTES_MAX ((size_t)256 * 1024)

/* An address is its object's name: as it is written, so that nobody has two. */
static const char *address_rule(struct str name)
{
    if (type_form_wrong("ip", name))
        return type_form_wrong("ip", name);
    for (size_t i = 0; i < name.len; i++) {
        char c = name.p[i];

        if (!(c >= '0' && c <= '9') && !(c >= 'a' && c <= 'f') && c != ':' && c != '.')
            return "must be an IP address in canonical form: 10.9.8.7 or 2001:db8::ffff";
    }
    return NULL;
}

static const char *name_rule(const struct kind *kind, struct str name)
{
    if (kind == &kind_ipaddress)
        return address_rule(name);
    if (kind == &kind_namespace || kind == &kind_endpoints)
        return kind == &kind_namespace ? names_dns_label(name) : names_dns_subdomain(name);
    if (kind == &kind_service)
        return names_dns_1035_label(name);
    if (strcmp(kind->group, "rbac.authorization.k8s.io") == 0 || kind == &kind_apiservice ||
        kind == &kind_event || kind == &kind_csr || kind == &kind_pdb)
        return names_path_segment(name);
    return names_dns_subdomain(name);
}

/* They are compared with every selector that somebody watches with: as many as a selector has. */
#define LABELS_MAX 1000

static void check_labels(struct admit *admit, const struct json *labels)
{
    if (json_count(labels) > LABELS_MAX &&
        !json_equal(labels, json_at(admit->old, "metadata.labels")))
        admit_forbidden(admit, STR("metadata.labels"),
                        str_printf(admit->arena, "%zu labels; an object has at most %d",
                                   json_count(labels), LABELS_MAX)
                            .p);
    if (labels && !json_is(labels, JSON_OBJECT) && !json_is_null(labels))
        admit_invalid(admit, STR("metadata.labels"), labels, "must be an object of strings");
    JSON_FOREACH(labels, label) {
        const char *rule = names_qualified(json_key(label));

        if (rule)
            admit_invalid(admit, STR("metadata.labels"),
                          json_new_str(admit->arena, json_key(label)), rule);
        rule = json_is(label, JSON_STRING) ? names_label_value(json_str(label))
                                           : "must be a string; quote it";
        if (rule)
            admit_invalid(admit, STR("metadata.labels"), label, rule);
    }
}

void admit_annotations(struct admit *admit, const struct json *annotations, struct str path)
{
    size_t bytes = 0;

    JSON_FOREACH(annotations, item) {
        char *key = str_c(admit->arena, json_key(item));

        /* Annotation keys may be upper case in their prefix; only the shape matters. */
        for (char *p = key; *p; p++)
            *p = *p >= 'A' && *p <= 'Z' ? (char)(*p + ('a' - 'A')) : *p;
        const char *rule = names_qualified(str_from(key));
        bytes += json_key(item).len + json_str(item).len;
        if (rule)
            admit_invalid(admit, path, json_new_str(admit->arena, json_key(item)), rule);
        if (!json_is_null(item) && !json_is(item, JSON_STRING))
            admit_invalid(admit, path, item, "must be a string; quote it");
    }
    if (bytes > ANNOTATION_BYTES_MAX)
        admit_too_long(admit, path, ANNOTATION_BYTES_MAX);
}

void admit_owners(struct admit *admit)
{
    struct json *owners = json_at(admit->object, "metadata.ownerReferences");
    _cleanup_(map_done) struct map seen = {.seed = (uintptr_t)admit->object};
    struct json *kept = json_new_array(admit->arena);

    if (json_count(owners) < 2)
        return;
    JSON_FOREACH(owners, owner)
        if (!map_set(&seen, json_text(admit->arena, owner), owner))
            json_push(kept, json_clone(admit->arena, owner));
    if (json_count(kept) < json_count(owners))
        json_set(json_get(admit->object, "metadata"), STR("ownerReferences"), kept);
}

static void check_owners(struct admit *admit, const struct json *owners)
{
    static const char *const required[] = {"apiVersion", "kind", "name", "uid"};
    size_t controllers = 0;

    JSON_FOREACH(owners, owner) {
        struct str version = json_str(json_get(owner, "apiVersion"));
        size_t slash = str_find(version, '/');

        for (size_t i = 0; i < COUNT_OF(required); i++)
            if (!json_str(json_get(owner, required[i])).len)
                admit_invalid(admit,
                              str_printf(admit->arena, "metadata.ownerReferences.%s", required[i]),
                              json_get(owner, required[i]), "must not be empty");
        if (slash < version.len &&
            str_find(str_sub(version, slash + 1, version.len), '/') < version.len - slash - 1)
            admit_invalid(admit, STR("metadata.ownerReferences.apiVersion"),
                          json_get(owner, "apiVersion"), "must be a version, or group/version");
        if (str_is(version, "v1") && str_is(json_str(json_get(owner, "kind")), "Event"))
            admit_invalid(admit, STR("metadata.ownerReferences"), owner,
                          "an Event is disallowed from being an owner");
        controllers += json_bool_or(json_get(owner, "controller"), false) ? 1 : 0;
    }
    if (controllers > 1)
        admit_invalid(admit, STR("metadata.ownerReferences"), owners,
                      "Only one reference can have Controller set to true");
}

static bool listed(const struct json *list, const struct json *value)
{
    JSON_FOREACH(list, item)
        if (json_equal(item, value))
            return true;
    return false;
}

/* Those of Kubernetes itself have no domain. */
static bool is_finalizer(struct str name)
{
    return str_find(name, '/') < name.len || str_is(name, "kubernetes") || str_is(name, "orphan") ||
           str_is(name, "foregroundDeletion");
}

/* These take any qualified name in Kubernetes, as custom kinds do. */
static bool has_strict_finalizers(const struct kind *kind)
{
    static const char *const groups[] = {
        "apiextensions.k8s.io", "apiregistration.k8s.io", "admissionregistration.k8s.io", "policy",
        "coordination.k8s.io",

        "node.k8s.io"};

    for (size_t i = 0; i < COUNT_OF(groups); i++)
        if (strcmp(kind->group, groups[i]) == 0)
            return false;
    return kind->strategic && kind != &kind_event;
}

static void check_finalizers(struct admit *admit, const struct json *meta)
{
    const struct json *before = json_at(admit->old, "metadata.finalizers");
    bool deleting = !json_is_null(json_at(admit->old, "metadata.deletionTimestamp"));

    bool orphans = false;
    bool waits = false;
    size_t index = 0;

    JSON_FOREACH(json_get(meta, "finalizers"), item) {
        const char *rule = names_qualified(json_str(item));

        orphans |= str_is(json_str(item), "orphan");
        waits |= str_is(json_str(item), "foregroundDeletion");
        if (rule)
            admit_invalid(admit, STR("metadata.finalizers"), item, rule);
        if (has_strict_finalizers(admit->kind) && !is_finalizer(json_str(item)) &&
            !(admit->old && listed(before, item)))
            admit_invalid(admit, str_printf(admit->arena, "metadata.finalizers[%zu]", index), item,
                          "name is neither a standard finalizer name nor is it fully qualified");
        index++;
        if (deleting && !listed(before, item))
            admit_forbidden(admit, STR("metadata.finalizers"),
                            "no new finalizers can be added if the object is being deleted");
    }
    if (orphans && waits)
        admit_invalid(admit, STR("metadata.finalizers"), json_get(meta, "finalizers"),
                      "finalizer orphan and foregroundDeletion cannot be both set");
}

/* What a name is to begin with; a dash at its end stands before what is made up. */
static void check_prefix(struct admit *admit, const struct json *prefix)
{
    struct str text = str_dup(admit->arena, json_str(prefix));

    if (!text.len)
        return;
    if (text.len > 1 && text.p[text.len - 1] == '-') {
        text.len--;
        ((char *)(uintptr_t)text.p)[text.len - 1] = 'a';
    }
    if (name_rule(admit->kind, text))
        admit_invalid(admit, STR("metadata.generateName"), prefix, name_rule(admit->kind, text));
}

void admit_metadata(struct admit *admit)
{
    const struct json *meta = json_get(admit->object, "metadata");
    const struct json *name = json_get(meta, "name");
    const char *rule = name_rule(admit->kind, json_str(name));

    if (json_is_null(name) || !json_str(name).len)
        admit_required(admit, STR("metadata.name"), "name or generateName is required");
    else if (rule)
        admit_invalid(admit, STR("metadata.name"), name, rule);
    check_prefix(admit, json_get(meta, "generateName"));
    check_labels(admit, json_get(meta, "labels"));
    admit_annotations(admit, json_get(meta, "annotations"), STR("metadata.annotations"));
    check_owners(admit, json_get(meta, "ownerReferences"));
    check_finalizers(admit, meta);
}
