#include "api/api.h"
#include "api/kind.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/json.h"
#include "base/str.h"
#include "server/openapi.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* The OpenAPI 2 document in the protobuf form of gnostic, which is the only one old kubectls read.
 * Messages are written innermost first into buffers of their own, since each is preceded by its
 * length. */

enum {
    DOCUMENT_SWAGGER = 1,
    DOCUMENT_INFO = 2,
    DOCUMENT_PATHS = 8,
    DOCUMENT_DEFINITIONS = 9,
    INFO_TITLE = 1,
    INFO_VERSION = 2,
    PATHS_PATH = 2,
    NAMED_NAME = 1,
    NAMED_VALUE = 2,
    PATH_PATCH = 8,
    OPERATION_PARAMETERS = 8,
    OPERATION_EXTENSION = 13,
    SCHEMA_REF = 1,
    SCHEMA_FORMAT = 2,
    SCHEMA_DESCRIPTION = 4,
    SCHEMA_REQUIRED = 19,
    SCHEMA_ADDITIONAL = 21,
    SCHEMA_TYPE = 22,
    SCHEMA_ITEMS = 23,
    SCHEMA_PROPERTIES = 25,
    SCHEMA_EXTENSION = 31,
    ANY_YAML = 2,
};

static void varint(struct buf *buf, uint64_t value)
{
    for (; value >= 0x80; value >>= 7)
        buf_addc(buf, (char)(value | 0x80));
    buf_addc(buf, (char)value);
}

static void field(struct buf *buf, unsigned number, struct str bytes)
{
    varint(buf, number << 3 | 2);
    varint(buf, bytes.len);
    buf_add(buf, bytes);
}

/* A message as a field; the inner buffer is released. */
static void message(struct buf *buf, unsigned number, struct buf *inner)
{
    field(buf, number, buf_str(inner));
    buf_done(inner);
}

/* {1 name, 2 value{2 yaml}} */
static void extension(struct buf *buf, unsigned number, struct str name, struct str yaml)
{
    struct buf any = {0};
    struct buf named = {0};

    field(&any, ANY_YAML, yaml);
    field(&named, NAMED_NAME, name);
    message(&named, NAMED_VALUE, &any);
    message(buf, number, &named);
}

/* ---- paths ---- */

/* Parameter{1 nonBody{2 subSchema... {3 query{2 in, 4 name, 6 type}}}} */
static void parameter(struct buf *operation, const char *name)
{
    struct buf query = {0};
    struct buf sub = {0};
    struct buf non_body = {0};
    struct buf parameters = {0};

    field(&query, 2, STR("query"));
    field(&query, 4, str_from(name));
    field(&query, 6, STR("string"));
    message(&sub, 3, &query);
    message(&non_body, 2, &sub);
    message(&parameters, 1, &non_body);
    message(operation, OPERATION_PARAMETERS, &parameters);
}

static void path(struct buf *paths, struct arena *arena, const struct kind *kind)
{
    struct buf operation = {0};
    struct buf item = {0};
    struct buf named = {0};
    struct str root = kind->group[0] ? str_printf(arena, "/apis/%s/%s", kind->group, kind->version)
                                     : str_printf(arena, "/api/%s", kind->version);
    struct str name = str_printf(arena, STR_FMT "%s/%s/{name}", STR_ARG(root),
                                 kind->namespaced ? "/namespaces/{namespace}" : "", kind->plural);

    parameter(&operation, "dryRun");
    parameter(&operation, "fieldManager");
    parameter(&operation, "fieldValidation");
    extension(&operation, OPERATION_EXTENSION, STR("x-kubernetes-group-version-kind"),
              str_printf(arena, "group: \"%s\"\nkind: %s\nversion: %s\n", kind->group, kind->name,
                         kind->version));
    message(&item, PATH_PATCH, &operation);
    field(&named, NAMED_NAME, name);
    message(&named, NAMED_VALUE, &item);
    message(paths, PATHS_PATH, &named);
}

/* ---- schemas ---- */
static void write_schema(struct buf *buf, struct arena *arena, const struct json *schema);

static void write_properties(struct buf *buf, struct arena *arena, const struct json *properties)
{
    struct buf list = {0};

    JSON_FOREACH(properties, property) {
        struct buf schema = {0};
        struct buf named = {0};

        write_schema(&schema, arena, property);
        field(&named, NAMED_NAME, json_key(property));
        message(&named, NAMED_VALUE, &schema);
        message(&list, 1, &named);
    }
    message(buf, SCHEMA_PROPERTIES, &list);
}

static void write_nested(struct buf *buf,
                         struct arena *arena,
                         unsigned number,
                         const struct json *schema)
{
    struct buf inner = {0};
    struct buf item = {0};

    write_schema(&inner, arena, schema);
    message(&item, 1, &inner);
    message(buf, number, &item);
}

static void write_type(struct buf *buf, struct arena *arena, const struct json *schema)
{
    struct buf type = {0};
    const struct json *properties = json_get(schema, "properties");
    const struct json *additional = json_get(schema, "additionalProperties");
    struct str name = json_str(json_get(schema, "type"));

    /* Anything goes: say nothing about what is inside. */
    if (json_bool_or(json_get(schema, "x-kubernetes-int-or-string"), false) ||
        json_bool_or(json_get(schema, "nullable"), false) || !name.len)
        return;
    field(&type, 1, name);
    message(buf, SCHEMA_TYPE, &type);
    if (json_bool_or(json_get(schema, "x-kubernetes-preserve-unknown-fields"), false))
        return;
    if (json_count(properties))
        write_properties(buf, arena, properties);
    else if (json_is(additional, JSON_OBJECT))
        write_nested(buf, arena, SCHEMA_ADDITIONAL, additional);
    if (json_is(json_get(schema, "items"), JSON_OBJECT))
        write_nested(buf, arena, SCHEMA_ITEMS, json_get(schema, "items"));
}

static void write_schema(struct buf *buf, struct arena *arena, const struct json *schema)
{
    struct str reference = json_str(json_at(schema, "allOf.0.$ref"));
    struct str about = json_str(json_get(schema, "description"));
    struct str format = json_str(json_get(schema, "format"));
    const struct json *gvk = json_index(json_get(schema, "x-kubernetes-group-version-kind"), 0);

    if (reference.len) {
        size_t prefix = strlen("#/components/schemas/");
        field(buf, SCHEMA_REF,
              str_printf(arena, "#/definitions/" STR_FMT,
                         STR_ARG(str_sub(reference, prefix, reference.len))));
    }
    if (format.len)
        field(buf, SCHEMA_FORMAT, format);
    if (about.len)
        field(buf, SCHEMA_DESCRIPTION, about);
    JSON_FOREACH(json_get(schema, "required"), name)
        field(buf, SCHEMA_REQUIRED, json_str(name));
    if (!reference.len)
        write_type(buf, arena, schema);
    static const char *const patches[] = {"x-kubernetes-patch-strategy",
                                          "x-kubernetes-patch-merge-key"};
    for (size_t i = 0; i < COUNT_OF(patches); i++) {
        struct str value = json_str(json_get(schema, patches[i]));

        if (value.len)
            extension(buf, SCHEMA_EXTENSION, str_from(patches[i]),
                      str_printf(arena, STR_FMT "\n", STR_ARG(value)));
    }
    if (gvk)
        extension(
            buf, SCHEMA_EXTENSION, STR("x-kubernetes-group-version-kind"),
            str_printf(
                arena, "- group: \"" STR_FMT "\"\n  kind: " STR_FMT "\n  version: " STR_FMT "\n",
                STR_ARG(json_str(json_get(gvk, "group"))), STR_ARG(json_str(json_get(gvk, "kind"))),
                STR_ARG(json_str(json_get(gvk, "version")))));
}

void openapi_write_v2(struct buf *buf,
                      struct arena *arena,
                      const struct api *api,
                      const struct json *schemas)
{
    struct buf info = {0};
    struct buf paths = {0};
    struct buf definitions = {0};

    field(buf, DOCUMENT_SWAGGER, STR("2.0"));
    field(&info, INFO_TITLE, STR("Muster"));
    field(&info, INFO_VERSION, STR(MUSTER_VERSION));
    message(buf, DOCUMENT_INFO, &info);
    for (size_t i = 0; i < kinds_count(api->kinds); i++)
        path(&paths, arena, kinds_at(api->kinds, i));
    message(buf, DOCUMENT_PATHS, &paths);
    JSON_FOREACH(schemas, schema) {
        struct buf inner = {0};
        struct buf named = {0};

        write_schema(&inner, arena, schema);
        field(&named, NAMED_NAME, json_key(schema));
        message(&named, NAMED_VALUE, &inner);
        message(&definitions, 1, &named);
    }
    message(buf, DOCUMENT_DEFINITIONS, &definitions);
}
