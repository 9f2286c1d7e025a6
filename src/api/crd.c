#include "api/crd.h"

#include "api/admit.h"
#include "api/condition.h"
#include "api/crd_builtin.h"
#include "api/kind.h"
#include "api/names.h"
#include "api/schema.h"
#include "base/arena.h"
#include "base/count.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static struct str lower(struct arena *arena, struct str text)
{
    char *copy = str_c(arena, text);

    for (size_t i = 0; i < text.len; i++)
        if (copy[i] >= 'A' && copy[i] <= 'Z')
            copy[i] = (char)(copy[i] - 'A' + 'a');
    return (struct str){copy, text.len};
}

void crd_default(struct admit *admit)
{
    struct arena *arena = admit->arena;
    struct json *names = json_make_path(arena, admit->object, "spec.names");
    struct str kind = json_str(json_get(names, "kind"));

    if (!json_str(json_get(names, "singular")).len && kind.len)
        json_add_str(arena, names, "singular", lower(arena, kind));
    if (!json_str(json_get(names, "listKind")).len && kind.len)
        json_add_str(arena, names, "listKind", str_printf(arena, STR_FMT "List", STR_ARG(kind)));
}

/* Its objects go before it does. */
void crd_add(struct admit *admit)
{
    struct arena *arena = admit->arena;
    struct json *meta = json_make_path(arena, admit->object, "metadata");

    if (admit->old)
        return;
    if (!json_is(json_get(meta, "finalizers"), JSON_ARRAY))
        json_add_array(arena, meta, "finalizers");
    json_push(json_get(meta, "finalizers"), json_new_str(arena, STR(CRD_FINALIZER)));
}

static void check_names(struct admit *admit)
{
    static const char *const required[] = {"spec.group", "spec.names.plural", "spec.names.kind",
                                           "spec.scope"};
    struct str scope = json_str_at(admit->object, "spec.scope");
    struct str wanted = str_printf(admit->arena, STR_FMT "." STR_FMT,
                                   STR_ARG(json_str_at(admit->object, "spec.names.plural")),
                                   STR_ARG(json_str_at(admit->object, "spec.group")));

    for (size_t i = 0; i < COUNT_OF(required); i++)
        if (!json_str_at(admit->object, required[i]).len)
            admit_required(admit, str_from(required[i]), "");
    for (size_t i = 0; admit->old && i < 3; i++) /* its name follows from them, and its objects */
        if (!json_equal(json_at(admit->object, required[i]), json_at(admit->old, required[i])))
            admit_invalid(admit, str_from(required[i]), json_at(admit->object, required[i]),
                          "field is immutable");
    if (!admit->old && !str_eq(json_str_at(admit->object, "metadata.name"), wanted))
        admit_invalid(admit, STR("metadata.name"), json_at(admit->object, "metadata.name"),
                      "must be spec.names.plural+\".\"+spec.group");
    if (scope.len && !str_is(scope, "Namespaced") && !str_is(scope, "Cluster"))
        admit_unsupported(admit, STR("spec.scope"), json_at(admit->object, "spec.scope"),
                          "\"Cluster\", \"Namespaced\"");
    if (json_bool_or(json_at(admit->object, "spec.preserveUnknownFields"), false))
        admit_invalid(admit, STR("spec.preserveUnknownFields"),
                      json_at(admit->object, "spec.preserveUnknownFields"),
                      "must be false: use x-kubernetes-preserve-unknown-fields in the schema");
}

static struct str below(struct admit *admit, struct str path, const char *field)
{
    return str_printf(admit->arena, STR_FMT ".%s", STR_ARG(path), field);
}

static void check_conversion(struct admit *admit)
{
    const struct json *strategy = json_at(admit->object, "spec.conversion.strategy");
    const struct json *webhook = json_at(admit->object, "spec.conversion.webhook");
    bool known = false;

    if (!str_is(json_str(strategy), "Webhook")) {
        if (strategy && !str_is(json_str(strategy), "None"))
            admit_unsupported(admit, STR("spec.conversion.strategy"), strategy,
                              "\"None\", \"Webhook\"");
        if (!json_is_null(webhook))
            admit_forbidden(admit, STR("spec.conversion.webhook"),
                            "should not be set when strategy is not set to Webhook");
        return;
    }
    if (kind_is_known(json_str_at(admit->object, "spec.group"),
                      json_str_at(admit->object, "spec.names.plural")))
        admit_invalid(admit, STR("spec.conversion.strategy"), strategy,
                      "this kind is read by the server itself, which asks no webhook: use None");
    JSON_FOREACH(json_get(webhook, "conversionReviewVersions"), version)
        known |= str_is(json_str(version), "v1");
    if (!json_count(json_get(webhook, "conversionReviewVersions")))
        admit_required(admit, STR("spec.conversion.webhook.conversionReviewVersions"), "");
    else if (!known)
        admit_invalid(admit, STR("spec.conversion.webhook.conversionReviewVersions"),
                      json_get(webhook, "conversionReviewVersions"),
                      "must include v1: this server asks in that version");
    admit_webhook_client(admit, json_get(webhook, "clientConfig"),
                         STR("spec.conversion.webhook.clientConfig"));
}

static bool is_word(struct str text, const char *words)
{
    struct str rest = str_from(words);
    struct str word;

    while (str_cut(&rest, '|', &word))
        if (str_eq(word, text))
            return true;
    return false;
}

static void check_columns(struct admit *admit, const struct json *version, struct str path)
{
    static const char types[] = "integer|number|string|boolean|date";
    static const char formats[] = "int32|int64|float|double|byte|date|date-time|password";
    size_t index = 0;

    JSON_FOREACH(json_get(version, "additionalPrinterColumns"), column) {
        static const char *const needed[] = {"name", "type", "jsonPath"};
        struct str where = str_printf(admit->arena, STR_FMT ".additionalPrinterColumns[%zu]",
                                      STR_ARG(path), index++);
        struct str type = json_str(json_get(column, "type"));
        struct str format = json_str(json_get(column, "format"));
        struct str at = json_str(json_get(column, "jsonPath"));

        for (size_t i = 0; i < COUNT_OF(needed); i++)
            if (!json_str(json_get(column, needed[i])).len)
                admit_required(admit, below(admit, where, needed[i]), "a text");
        if (type.len && !is_word(type, types))
            admit_invalid(admit, below(admit, where, "type"), json_get(column, "type"),
                          "must be one of boolean,date,integer,number,string");
        if (format.len && !is_word(format, formats))
            admit_invalid(admit, below(admit, where, "format"), json_get(column, "format"),
                          "must be one of byte,date,date-time,double,float,int32,int64,password");
        if (at.len && at.p[0] != '.')
            admit_invalid(admit, below(admit, where, "jsonPath"), json_get(column, "jsonPath"),
                          "must be a simple json path starting with .");
    }
}

/* Where replicas are wanted, told and selected. */
static void check_scale(struct admit *admit, const struct json *version, struct str path)
{
    static const struct {
        const char *field;
        const char *in[2];
        bool needed;
    } rows[] = {{"specReplicasPath", {".spec.", ".spec."}, true},
                {"statusReplicasPath", {".status.", ".status."}, true},
                {"labelSelectorPath", {".spec.", ".status."}, false}};
    const struct json *scale = json_at(version, "subresources.scale");

    for (size_t i = 0; !json_is_null(scale) && i < COUNT_OF(rows); i++) {
        const struct json *said = json_get(scale, rows[i].field);
        struct str where = below(admit, below(admit, path, "subresources.scale"), rows[i].field);

        if (!json_str(said).len && rows[i].needed)
            admit_required(admit, where, "");
        else if (json_str(said).len && !str_starts(json_str(said), str_from(rows[i].in[0])) &&
                 !str_starts(json_str(said), str_from(rows[i].in[1])))
            admit_invalid(admit, where, said,
                          i == 0   ? "should be a json path under .spec"
                          : i == 1 ? "should be a json path under .status"
                                   : "should be a json path under either .spec or .status");
    }
}

#define WARNING_BYTES_MAX 256

static void check_rest(struct admit *admit, const struct json *version, struct str path)
{
    const struct json *warning = json_get(version, "deprecationWarning");
    const struct json *fields = json_get(version, "selectableFields");
    struct admit_names names = admit_names(admit->arena, fields, "jsonPath");
    const char *why = json_is_null(warning) ? NULL
                      : !json_bool_or(json_get(version, "deprecated"), false)
                          ? "can only be set for "
                            "deprecated versions"
                      : !json_str(warning).len                    ? "must not be an empty string"
                      : json_str(warning).len > WARNING_BYTES_MAX ? "must be <= 256 characters long"
                                                                  : NULL;
    size_t index = 0;

    if (why)
        admit_invalid(admit, below(admit, path, "deprecationWarning"), warning, why);
    JSON_FOREACH(fields, field) {
        struct str where = str_printf(admit->arena, STR_FMT ".selectableFields[%zu].jsonPath",
                                      STR_ARG(path), index);

        if (names.again[index++])
            admit_duplicate(admit, where, json_get(field, "jsonPath"));
        if (!json_str(json_get(field, "jsonPath")).len)
            admit_required(admit, where, "");
        else if (!str_starts(json_str(json_get(field, "jsonPath")), STR(".")))
            admit_invalid(admit, where, json_get(field, "jsonPath"),
                          "must be a simple path that begins with a dot: .spec.color");
    }
}

static void check_version(struct admit *admit, const struct json *version, size_t index)
{
    struct str path = str_printf(admit->arena, "spec.versions[%zu]", index);
    const struct json *name = json_get(version, "name");
    const struct json *schema = json_at(version, "schema.openAPIV3Schema");
    const struct schema *compiled = NULL;
    struct err err = {0};

    if (names_dns_1035_label(json_str(name)))
        admit_invalid(admit, str_printf(admit->arena, STR_FMT ".name", STR_ARG(path)), name,
                      names_dns_1035_label(json_str(name)));
    check_columns(admit, version, path);
    check_scale(admit, version, path);
    check_rest(admit, version, path);
    struct str where = str_printf(admit->arena, STR_FMT ".schema.openAPIV3Schema", STR_ARG(path));
    if (!schema)
        admit_required(admit, where, "schemas are required");
    else if (schema_compile(admit->arena, schema, &compiled, &err) < 0)
        admit_invalid(admit, where, json_new_str(admit->arena, STR("schema")),
                      str_c(admit->arena, str_from(err.text)));
}

static bool has_version(const struct json *versions, const struct json *name)
{
    JSON_FOREACH(versions, version)
        if (json_equal(json_get(version, "name"), name))
            return true;
    return false;
}

/* A version in which objects were stored stays, until who has stored them anew in another one takes
 * it off the status: only then is nobody left who could not be read. The words are Kubernetes'. */
static void check_stored(struct admit *admit)
{
    const struct json *versions = json_at(admit->object, "spec.versions");
    size_t index = 0;

    if (!admit->old || str_is(admit->subresource, "status"))
        return;
    JSON_FOREACH(json_at(admit->old, "status.storedVersions"), stored) {
        struct str name = json_str(stored);
        struct str field = str_printf(admit->arena, "status.storedVersions[%zu]", index++);

        if (has_version(versions, stored))
            continue;
        admit_invalid(
            admit, field, stored,
            str_c(
                admit->arena,
                str_printf(admit->arena,
                           "missing from spec.versions; " STR_FMT
                           " was previously a storage version, and must remain in spec.versions "
                           "until a storage migration ensures no data remains persisted in " STR_FMT
                           " and removes " STR_FMT " from status.storedVersions",
                           STR_ARG(name), STR_ARG(name), STR_ARG(name))));
    }
}

void crd_validate(struct admit *admit)
{
    const struct json *versions = json_at(admit->object, "spec.versions");
    size_t index = 0;
    size_t storage = 0;

    check_names(admit);
    check_conversion(admit);
    if (!json_count(versions) || json_count(versions) > CRD_VERSIONS_MAX)
        admit_invalid(admit, STR("spec.versions"), NULL, "must have 1 to 20 versions");
    JSON_FOREACH(versions, version) {
        check_version(admit, version, index++);
        storage += json_bool_or(json_get(version, "storage"), false) ? 1 : 0;
    }
    if (storage != 1)
        admit_invalid(admit, STR("spec.versions"), NULL,
                      "must have exactly one version marked as storage version");
    check_stored(admit);
}

/* ---- status ---- */

void crd_set_status(struct arena *arena, struct json *root, int64_t now_ms)
{
    struct json *status = json_make_path(arena, root, "status");
    struct json *stored = json_get(status, "storedVersions");

    condition_set(
        arena, status,
        &(struct condition){"NamesAccepted", "True", "NoConflicts", STR("no conflicts found")},
        now_ms);
    condition_set(arena, status,
                  &(struct condition){"Established", "True", "InitialNamesAccepted",
                                      STR("the initial names have been accepted")},
                  now_ms);
    json_set(status, STR("acceptedNames"), json_clone(arena, json_at(root, "spec.names")));
    if (!json_is(stored, JSON_ARRAY))
        stored = json_add_array(arena, status, "storedVersions");
    JSON_FOREACH(json_at(root, "spec.versions"), version) {
        bool there = false;

        JSON_FOREACH(stored, item)
            there |= json_equal(item, json_get(version, "name"));
        if (json_bool_or(json_get(version, "storage"), false) && !there)
            json_push(stored, json_clone(arena, json_get(version, "name")));
    }
}

/* ---- kinds ---- */

static const char *c_at(struct arena *arena, const struct json *value, const char *path)
{
    return str_c(arena, json_str_at(value, path));
}

/* ["a","b"] as "a,b". */
static const char *joined(struct arena *arena, const struct json *list)
{
    struct str text = STR("");

    JSON_FOREACH(list, item)
        text = str_printf(arena, STR_FMT "%s" STR_FMT, STR_ARG(text), text.len ? "," : "",
                          STR_ARG(json_str(item)));
    return str_c(arena, text);
}

static void parse_columns(struct arena *arena, const struct json *version, struct kind *kind)
{
    static const struct kind_column age = {
        .name = "Age", .type = "date", .path = ".metadata.creationTimestamp"};
    const struct json *list = json_get(version, "additionalPrinterColumns");
    struct kind_column *columns = ARENA_ARRAY(arena, struct kind_column, json_count(list) + 1);
    size_t count = 0;

    JSON_FOREACH(list, item) {
        columns[count++] = (struct kind_column){
            .name = c_at(arena, item, "name"),
            .type = c_at(arena, item, "type"),
            .path = c_at(arena, item, "jsonPath"),
            .description = json_get(item, "description") ? c_at(arena, item, "description") : NULL,
            .priority = (int)json_i64_or(json_get(item, "priority"), 0)};
    }
    if (!count)
        columns[count++] = age;
    kind->columns = columns;
    kind->column_count = count;
}

static int parse_version(struct arena *arena,
                         const struct json *root,
                         const struct json *version,
                         struct crd_version *ret,
                         struct err *err)
{
    const struct json *names = json_at(root, "spec.names");
    const struct json *scale = json_at(version, "subresources.scale");

    *ret = (struct crd_version){
        .kind = {.group = c_at(arena, root, "spec.group"),
                 .version = c_at(arena, version, "name"),
                 .name = c_at(arena, names, "kind"),
                 .plural = c_at(arena, names, "plural"),
                 .singular = c_at(arena, names, "singular"),
                 .short_names = joined(arena, json_get(names, "shortNames")),
                 .categories = joined(arena, json_get(names, "categories")),
                 .namespaced = str_is(json_str_at(root, "spec.scope"), "Namespaced"),
                 .status = json_at(version, "subresources.status") != NULL,
                 .custom = true},
        .crd = {.openapi = json_at(version, "schema.openAPIV3Schema"),
                .selectable = json_get(version, "selectableFields")},
        .served = json_bool_or(json_get(version, "served"), false),
        .storage = json_bool_or(json_get(version, "storage"), false)};
    (void)str_to_u64(json_str_at(root, "metadata.resourceVersion"), &ret->crd.revision);
    if (json_bool_or(json_get(version, "deprecated"), false))
        ret->crd.deprecation =
            json_str(json_get(version, "deprecationWarning")).len
                ? c_at(arena, version, "deprecationWarning")
                : str_c(arena, str_printf(arena, "%s/%s %s is deprecated", ret->kind.group,
                                          ret->kind.version, ret->kind.name));
    if (scale) {
        ret->crd.scale_spec = c_at(arena, scale, "specReplicasPath");
        ret->crd.scale_status = c_at(arena, scale, "statusReplicasPath");
        ret->crd.scale_selector =
            json_get(scale, "labelSelectorPath") ? c_at(arena, scale, "labelSelectorPath") : NULL;
    }
    parse_columns(arena, version, &ret->kind);
    return schema_compile(arena, ret->crd.openapi, &ret->crd.schema, err);
}

int crd_parse(struct arena *arena, const struct json *root, struct crd **ret, struct err *err)
{
    const struct json *versions = json_at(root, "spec.versions");
    struct crd_version *list = ARENA_ARRAY(arena, struct crd_version, json_count(versions));
    size_t count = 0;

    JSON_FOREACH(versions, version) {
        int r = parse_version(arena, root, version, &list[count++], err);

        if (r < 0)
            return err_wrap(err, r, STR_FMT, STR_ARG(json_str_at(root, "metadata.name")));
    }
    struct crd *crd = ARENA_NEW(arena, struct crd);
    *crd = (struct crd){.versions = list, .version_count = count};
    if (str_is(json_str_at(root, "spec.conversion.strategy"), "Webhook"))
        crd->webhook = json_at(root, "spec.conversion.webhook");
    *ret = crd;
    return 0;
}

/* ---- templates ---- */

/* NULL: not of deploy/crds. */
static const struct json *openapi_of(struct arena *arena, const struct kind *kind)
{
    struct str name = str_printf(arena, "%s.%s", kind->plural, kind->group);
    struct json *crd = NULL;

    for (size_t i = 0; !crd && i < crd_builtin_count; i++)
        if (str_is(name, crd_builtins[i].name))
            (void)json_parse(arena, (struct str){crd_builtins[i].text, crd_builtins[i].text_len},
                             &crd, NULL);
    JSON_FOREACH(json_at(crd, "spec.versions"), version)
        if (str_is(json_str(json_get(version, "name")), kind->version))
            return json_at(version, "schema.openAPIV3Schema");
    return NULL;
}

void crd_check_templates(struct admit *admit, struct schema_unknown *unknown)
{
    const struct json *openapi = openapi_of(admit->arena, admit->kind);
    const struct schema *schema = NULL;

    if (!openapi || schema_compile_types(admit->arena, openapi, &schema, NULL) < 0)
        return;
    schema_prune(admit->arena, schema, admit->object, unknown);
    (void)schema_default(admit->arena, schema, admit->object, NULL); /* takes nulls out */
    schema_validate(admit, schema, admit->object);
}
