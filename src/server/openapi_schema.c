#include "api/api.h"
#include "api/kind.h"
#include "api/types.h"
#include "base/arena.h"
#include "base/json.h"
#include "base/json_make.h"
#include "base/str.h"
#include "server/openapi.h"
#include "server/virtual.h"

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define REF_PREFIX "#/components/schemas/"

uint64_t openapi_version(const struct api *api)
{
    uint64_t hash = str_hash(STR(MUSTER_VERSION), 0);

    for (size_t i = 0; i < kinds_count(api->kinds); i++) {
        const struct kind *kind = kinds_at(api->kinds, i);
        const struct kind_crd *crd = kinds_crd(api->kinds, kind);
        uintptr_t schema = (uintptr_t)(crd ? crd->openapi : NULL);

        hash = str_hash(str_from(kind->name), hash);
        /* A definition that is replaced gets a new tree: its address tells them apart. */
        hash = str_hash((struct str){(const char *)&schema, sizeof(schema)}, hash);
    }
    return hash;
}

/* The name under which a schema stands in the documents. */
static struct str openapi_name(struct arena *arena, struct str version, const char *name)
{
    size_t slash = str_find(version, '/');
    struct str group = slash < version.len ? str_sub(version, 0, slash) : STR("core");

    if (slash < version.len)
        version = str_sub(version, slash + 1, version.len);
    return str_printf(arena, STR_FMT "." STR_FMT ".%s", STR_ARG(group), STR_ARG(version), name);
}

/* "test.example.com" as "com.example.test". */
static struct str reversed(struct arena *arena, struct str group)
{
    struct str out = STR("");
    struct str part;

    while (group.len && str_cut(&group, '.', &part))
        out = str_printf(arena, STR_FMT "%s" STR_FMT, STR_ARG(part), out.len ? "." : "",
                         STR_ARG(out));
    return out;
}

/* Definitions of CRDs are looked for under Kubernetes' name for them. */
static struct str openapi_kind_name(struct arena *arena, const struct kind *kind)
{
    char version[KIND_API_VERSION_BYTES];

    if (kind->custom)
        return str_printf(arena, STR_FMT ".%s.%s", STR_ARG(reversed(arena, str_from(kind->group))),
                          kind->version, kind->name);
    return openapi_name(arena, kind_api_version(kind, version), kind->name);
}

static struct str openapi_type_name(struct arena *arena, const struct type *type)
{
    return openapi_name(arena, str_from(type->version), type->name);
}

/* ---- types ---- */
static struct json *reference(struct arena *arena, struct str name)
{
    return json_make(arena, "{allOf: [{'$ref': $}]}",
                     str_printf(arena, REF_PREFIX STR_FMT, STR_ARG(name)));
}

static struct json *primitive(struct arena *arena, enum type_form form)
{
    static const struct {
        const char *type;
        const char *format;
    } names[] = {
        [TYPE_STRING] = {"string", NULL},
        [TYPE_BYTES] = {"string", "byte"},
        [TYPE_INT32] = {"integer", "int32"},
        [TYPE_INT64] = {"integer", "int64"},
        [TYPE_BOOL] = {"boolean", NULL},
        [TYPE_DOUBLE] = {"number", "double"},
        [TYPE_TIME] = {"string", "date-time"},
        [TYPE_MICROTIME] = {"string", "date-time"},
        [TYPE_QUANTITY] = {"string", "quantity"},
        [TYPE_INT_OR_STRING] = {"string", "int-or-string"},
        [TYPE_JSON] = {NULL, NULL},
        [TYPE_MESSAGE] = {NULL, NULL},
    };
    struct json *schema = json_new_object(arena);

    if (names[form].type)
        json_add_c(arena, schema, "type", names[form].type);
    if (names[form].format)
        json_add_c(arena, schema, "format", names[form].format);
    return schema;
}

static void add_type(struct arena *arena, struct json *schemas, const struct type *type);

/* What merges and applies do with a list or map. */
static void add_extensions(struct arena *arena, struct json *schema, const struct type_field *field)
{
    struct str key = type_field_key(field, 0);
    bool applies = field->flags & TYPE_APPLY;

    if (field->flags & TYPE_ATOMIC)
        json_add_c(arena, schema, "x-kubernetes-map-type", "atomic");
    if (field->flags & TYPE_GRANULAR)
        json_add_c(arena, schema, "x-kubernetes-map-type", "granular");
    if (field->flags & TYPE_LIST)
        json_add_c(arena, schema, "x-kubernetes-list-type",
                   !applies  ? "atomic"
                   : key.len ? "map"
                             : "set");
    if (applies && key.len) {
        struct json *keys = json_add_array(arena, schema, "x-kubernetes-list-map-keys");

        for (size_t i = 0; (key = type_field_key(field, i)).len; i++)
            json_push(keys, json_new_str(arena, key));
        key = type_field_key(field, 0);
    }
    if (field->flags & TYPE_MERGE) {
        json_add_c(arena, schema, "x-kubernetes-patch-strategy", "merge");
        if (key.len)
            json_add_str(arena, schema, "x-kubernetes-patch-merge-key", key);
    }
}

/* A schema without a type stands under a name: kubectl asks every other one for its type. */
static struct json *any_schema(struct arena *arena, struct json *schemas)
{
    struct str name = openapi_name(arena, STR("apiextensions.k8s.io/v1"), "JSON");

    if (!json_get_str(schemas, name)) {
        struct json *schema = json_set(schemas, name, json_new_object(arena));

        json_add_c(arena, schema, "description", "any value of JSON");
    }
    return reference(arena, name);
}

/* What there is to choose from, and how far numbers go. */
static struct json *with_bounds(struct arena *arena,
                                struct json *schema,
                                const struct type_field *field)
{
    struct str rest = field->words ? str_from(field->words) : STR("");
    struct str word;
    struct json *allowed = field->words ? json_add_array(arena, schema, "enum") : NULL;

    while (allowed && str_cut(&rest, '|', &word))
        json_push(allowed, json_new_str(arena, word));
    if (field->min != INT64_MIN)
        json_add_i64(arena, schema, "minimum", field->min);
    if (field->max != INT64_MAX)
        json_add_i64(arena, schema, "maximum", field->max);
    return schema;
}

static struct json *value_schema(struct arena *arena,
                                 struct json *schemas,
                                 const struct type_field *field)
{
    if (field->form == TYPE_JSON || (field->type && field->type->bare))
        return any_schema(arena, schemas);
    if (field->form != TYPE_MESSAGE)
        return with_bounds(arena, primitive(arena, (enum type_form)field->form), field);
    assert(field->type);
    add_type(arena, schemas, field->type);
    return reference(arena, openapi_type_name(arena, field->type));
}

static struct json *field_schema(struct arena *arena,
                                 struct json *schemas,
                                 const struct type_field *field)
{
    struct json *value = value_schema(arena, schemas, field);
    struct json *outer = value;
    struct json *initial = NULL;

    if (field->flags & (TYPE_LIST | TYPE_MAP)) {
        bool list = field->flags & TYPE_LIST;

        outer = json_new_object(arena);
        json_add_c(arena, outer, "type", list ? "array" : "object");
        json_set(outer, list ? STR("items") : STR("additionalProperties"), value);
    }
    if (field->about[0])
        json_add_c(arena, outer, "description", field->about);
    if (field->initial && !field->when && !(field->flags & TYPE_OWN) &&
        json_parse(arena, str_from(field->initial), &initial, NULL) == 0)
        json_set(outer, STR("default"), initial);
    add_extensions(arena, outer, field);
    return outer;
}

static void add_fields(struct arena *arena,
                       struct json *schemas,
                       struct json *schema,
                       const struct type *type)
{
    struct json *properties = json_get(schema, "properties");

    for (size_t i = 0; i < type->field_count; i++) {
        const struct type_field *field = &type->fields[i];

        if (field->flags & TYPE_INLINE) {
            add_fields(arena, schemas, schema, field->type);
            continue;
        }
        json_set(properties, str_from(field->name), field_schema(arena, schemas, field));
        if (!(field->flags & TYPE_REQUIRED))
            continue;
        struct json *required = json_get(schema, "required");
        if (!required)
            required = json_add_array(arena, schema, "required");
        json_push(required, json_new_str(arena, str_from(field->name)));
    }
}

static struct json *new_schema(struct arena *arena, const struct type *type)
{
    struct json *schema = json_new_object(arena);

    if (type && type->about[0])
        json_add_c(arena, schema, "description", type->about);
    json_add_c(arena, schema, "type", "object");
    if (type && type->atomic)
        json_add_c(arena, schema, "x-kubernetes-map-type", "atomic");
    (void)json_add_object(arena, schema, "properties");
    return schema;
}

/* apiVersion and kind, which objects have and types do not name. */
static void add_names(struct arena *arena, struct json *properties)
{
    struct json *version = json_set(properties, STR("apiVersion"), primitive(arena, TYPE_STRING));
    struct json *kind = json_set(properties, STR("kind"), primitive(arena, TYPE_STRING));

    json_add_c(arena, version, "description",
               "APIVersion defines the group and version of this form of the object");
    json_add_c(arena, kind, "description", "Kind says what kind of object this is");
}

/* A type and what it refers to, once. A kind within another object says what it is, as any does. */
static void add_type(struct arena *arena, struct json *schemas, const struct type *type)
{
    struct str name = openapi_type_name(arena, type);

    if (json_get_str(schemas, name))
        return;
    struct json *schema = json_set(schemas, name, new_schema(arena, type));
    if (type->kind)
        add_names(arena, json_get(schema, "properties"));
    add_fields(arena, schemas, schema, type);
}

/* ---- kinds ---- */
static void add_identity(struct arena *arena, struct json *schemas, struct json *schema)
{
    const struct type *meta_type = type_named(STR("meta.k8s.io/v1"), STR("ObjectMeta"));
    struct json *properties = json_get(schema, "properties");

    if (!json_is(properties, JSON_OBJECT))
        properties = json_add_object(arena, schema, "properties");
    add_names(arena, properties);
    struct json *meta = reference(arena, openapi_type_name(arena, meta_type));

    json_add_c(arena, meta, "description", "Standard object's metadata: name, labels and the like");
    json_set(properties, STR("metadata"), meta);
    add_type(arena, schemas, meta_type);
}

static void add_gvk(struct arena *arena, struct json *schema, const struct kind *kind)
{
    json_fill(arena, schema, "{x-kubernetes-group-version-kind: [{group: $, kind: $, version: $}]}",
              kind->group, kind->name, kind->version);
}

/* The fields of a type besides those that the schema has, which are its own; which must be said is
 * up to the schema. */
static void add_rest(struct arena *arena,
                     struct json *schemas,
                     struct json *schema,
                     const struct type *type)
{
    struct json *made = new_schema(arena, type);
    struct json *properties = json_get(schema, "properties");

    if (!json_is(properties, JSON_OBJECT))
        properties = json_add_object(arena, schema, "properties");
    add_fields(arena, schemas, made, type);
    JSON_FOREACH(json_get(made, "properties"), property)
        if (!json_get_str(properties, json_key(property)))
            json_set(properties, json_key(property), json_clone(arena, property));
    json_remove(schema, STR("x-kubernetes-preserve-unknown-fields"));
}

/* Where a title names a type, as of a pod template, its fields are known (api/schema.h). */
// NOLINTNEXTLINE(misc-no-recursion)
static void add_titled(struct arena *arena,
                       struct json *schemas,
                       struct json *schema,
                       struct type_place place)
{
    const struct type *titled = type_titled(json_str(json_get(schema, "title")));
    struct json *items = json_get(schema, "items");
    struct json *values = json_get(schema, "additionalProperties");

    if (titled)
        place = (struct type_place){.type = titled};
    bool many = place.field && (place.field->flags & (TYPE_LIST | TYPE_MAP));
    bool open = json_bool_or(json_get(schema, "x-kubernetes-preserve-unknown-fields"), false);
    if (place.field && !json_get(schema, "description") && place.field->about[0])
        json_add_c(arena, schema, "description", place.field->about);
    JSON_FOREACH(json_get(schema, "properties"), property)
        add_titled(arena, schemas, property, type_place_below(place, json_key(property)));
    if (json_is(items, JSON_OBJECT))
        add_titled(arena, schemas, items, (struct type_place){.type = place.type});
    if (json_is(values, JSON_OBJECT))
        add_titled(arena, schemas, values, type_place_below(place, STR_NONE));
    if (place.type && !place.type->bare && !many && open)
        add_rest(arena, schemas, schema, place.type);
    if (titled)
        json_remove(schema, STR("title"));
}

static void add_kind(const struct api *api,
                     struct arena *arena,
                     struct json *schemas,
                     const struct kind *kind,
                     bool known_only)
{
    char version[KIND_API_VERSION_BYTES];
    const struct kind_crd *crd = kinds_crd(api->kinds, kind);
    const struct type *type =
        kind->custom ? NULL : type_of_kind(kind_api_version(kind, version), str_from(kind->name));
    struct json *schema = crd && crd->openapi ? json_clone(arena, crd->openapi) : NULL;

    if (!json_is(schema, JSON_OBJECT)) {
        if (!type && known_only)
            return;
        schema = new_schema(arena, type);
    }
    json_set(schemas, openapi_kind_name(arena, kind), schema);
    add_titled(arena, schemas, schema, (struct type_place){0});
    add_identity(arena, schemas, schema);
    if (type)
        add_fields(arena, schemas, schema, type);
    add_gvk(arena, schema, kind);
}

struct json *openapi_schemas(const struct api *api,
                             struct arena *arena,
                             struct str group,
                             struct str version,
                             bool known_only)
{
    const struct kinds *kinds = api->kinds;
    struct json *schemas = json_new_object(arena);

    for (size_t i = 0; i < kinds_count(kinds); i++) {
        const struct kind *kind = kinds_at(kinds, i);

        if (!group.p || (str_is(group, kind->group) && str_is(version, kind->version)))
            add_kind(api, arena, schemas, kind, known_only);
    }
    for (size_t i = 0; i < virtual_kind_count; i++) {
        const struct virtual_kind *question = &virtual_kinds[i];
        const struct kind kind = {
            .group = question->group, .version = question->version, .name = question->kind};

        if (!group.p || (str_is(group, kind.group) && str_is(version, kind.version)))
            add_kind(api, arena, schemas, &kind, true);
    }
    return schemas;
}
