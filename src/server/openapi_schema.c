#include "api/api.h"
#include "api/kind.h"
#include "api/shape.h"
#include "base/arena.h"
#include "base/json.h"
#include "base/str.h"
#include "server/openapi.h"

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

/* The name under which a kind's schema stands in the documents. */
static struct str openapi_name(struct arena *arena, const struct kind *kind)
{
    return str_printf(arena, "%s.%s.%s", kind->group[0] ? kind->group : "core", kind->version,
                      kind->name);
}

/* ---- shapes ---- */
static struct json *reference(struct arena *arena, struct str name)
{
    struct json *schema = json_new_object(arena);
    struct json *all = json_add_array(arena, schema, "allOf");
    struct json *item = json_push(all, json_new_object(arena));

    json_add_str(arena, item, "$ref", str_printf(arena, REF_PREFIX STR_FMT, STR_ARG(name)));
    return schema;
}

static struct json *primitive(struct arena *arena, char type)
{
    struct json *schema = json_new_object(arena);
    const char *name = type == 'i' ? "integer" : type == 'b' ? "boolean" : "string";

    json_add_c(arena, schema, "type", type == 'o' ? "object" : name);
    if (type == 't')
        json_add_c(arena, schema, "format", "date-time");
    else if (type == 'x')
        json_add_c(arena, schema, "format", "int-or-string");
    else if (type == 'i')
        json_add_c(arena, schema, "format", "int64");
    else if (type == 'y')
        json_add_c(arena, schema, "format", "byte");
    return schema;
}

static void add_type(struct arena *arena, struct json *schemas, struct str type);

static struct json *field_schema(struct arena *arena,
                                 struct json *schemas,
                                 const struct shape_field *field)
{
    bool named = field->type.p[0] >= 'A' && field->type.p[0] <= 'Z';
    struct json *value = named ? reference(arena, field->type) : primitive(arena, field->type.p[0]);

    if (named)
        add_type(arena, schemas, field->type);
    if (!field->list && !field->map)
        return value;
    struct json *outer = json_new_object(arena);
    json_add_c(arena, outer, "type", field->list ? "array" : "object");
    json_set(outer, field->list ? STR("items") : STR("additionalProperties"), value);
    return outer;
}

static void add_fields(struct arena *arena,
                       struct json *schemas,
                       struct json *schema,
                       struct str lines)
{
    struct json *properties = json_get(schema, "properties");
    struct json *required = NULL;
    struct shape_field field;

    while (shape_next(&lines, &field)) {
        struct json *value = field_schema(arena, schemas, &field);

        json_add_str(arena, value, "description", field.about);
        json_set(properties, field.name, value);
        if (!field.required)
            continue;
        if (!required)
            required = json_add_array(arena, schema, "required");
        json_push(required, json_new_str(arena, field.name));
    }
}

/* A type and what it refers to, once. */
static void add_type(struct arena *arena, struct json *schemas, struct str type)
{
    struct shape shape;

    if (json_get_str(schemas, type) || !shape_find(type, &shape))
        return;
    struct json *schema = json_set(schemas, type, json_new_object(arena));
    json_add_str(arena, schema, "description", shape.about);
    json_add_c(arena, schema, "type", "object");
    (void)json_add_object(arena, schema, "properties");
    add_fields(arena, schemas, schema, shape.lines);
}

/* ---- kinds ---- */
static void add_identity(struct arena *arena, struct json *schemas, struct json *schema)
{
    struct json *properties = json_get(schema, "properties");

    if (!json_is(properties, JSON_OBJECT))
        properties = json_add_object(arena, schema, "properties");
    struct json *version = primitive(arena, 's');
    struct json *kind = primitive(arena, 's');
    struct json *meta = reference(arena, STR("ObjectMeta"));

    json_add_c(arena, version, "description", "group and version of this form of the object");
    json_add_c(arena, kind, "description", "what kind of object this is");
    json_add_c(arena, meta, "description", "name, labels and the like");
    json_set(properties, STR("apiVersion"), version);
    json_set(properties, STR("kind"), kind);
    json_set(properties, STR("metadata"), meta);
    add_type(arena, schemas, STR("ObjectMeta"));
}

static void add_gvk(struct arena *arena, struct json *schema, const struct kind *kind)
{
    struct json *list = json_add_array(arena, schema, "x-kubernetes-group-version-kind");
    struct json *gvk = json_push(list, json_new_object(arena));

    json_add_c(arena, gvk, "group", kind->group);
    json_add_c(arena, gvk, "kind", kind->name);
    json_add_c(arena, gvk, "version", kind->version);
}

static void add_kind(const struct api *api,
                     struct arena *arena,
                     struct json *schemas,
                     const struct kind *kind,
                     bool known_only)
{
    const struct kind_crd *crd = kinds_crd(api->kinds, kind);
    struct json *schema = crd && crd->openapi ? json_clone(arena, crd->openapi) : NULL;
    struct shape shape = {0};

    if (!json_is(schema, JSON_OBJECT)) {
        bool known = !kind->custom && shape_find(str_from(kind->name), &shape);

        if (!known && known_only)
            return;
        schema = json_new_object(arena);
        json_add_str(arena, schema, "description", shape.about);
        json_add_c(arena, schema, "type", "object");
        (void)json_add_object(arena, schema, "properties");
    }
    json_set(schemas, openapi_name(arena, kind), schema);
    add_identity(arena, schemas, schema);
    add_fields(arena, schemas, schema, shape.lines);
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
    return schemas;
}
