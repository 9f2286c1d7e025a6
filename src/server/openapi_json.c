#include "api/api.h"
#include "api/kind.h"
#include "base/arena.h"
#include "base/count.h"
#include "base/json.h"
#include "base/json_make.h"
#include "base/str.h"
#include "server/openapi.h"

#include <stddef.h>
#include <string.h>

/* The OpenAPI 2 document as JSON: the same schemas, in the words that version 2 has. */

#define PREFIX "#/components/schemas/"

/* Version 3 has words that version 2 has not; what they would say is left out. */
// NOLINTNEXTLINE(misc-no-recursion)
static void to_v2(struct arena *arena, struct json *schema)
{
    static const char *const unknown[] = {"nullable", "anyOf", "oneOf", "allOf", "not"};
    struct str reference = json_str(json_at(schema, "allOf.0.$ref"));

    if (json_is(schema, JSON_OBJECT) && reference.len) {
        json_remove(schema, STR("allOf"));
        json_add_str(arena, schema, "$ref",
                     str_printf(arena, "#/definitions/" STR_FMT,
                                STR_ARG(str_sub(reference, strlen(PREFIX), reference.len))));
    }
    for (size_t i = 0; json_get(schema, "type") && i < COUNT_OF(unknown); i++)
        json_remove(schema, str_from(unknown[i]));
    JSON_FOREACH(json_get(schema, "properties"), property)
        to_v2(arena, property);
    if (json_is(json_get(schema, "items"), JSON_OBJECT))
        to_v2(arena, json_get(schema, "items"));
    if (json_is(json_get(schema, "additionalProperties"), JSON_OBJECT))
        to_v2(arena, json_get(schema, "additionalProperties"));
}

/* Of a kind that takes any field at its root only the type is told: who validates by version 2
 * would refuse what is not among the fields. */
static void kind_to_v2(struct arena *arena, struct json *schema)
{
    static const char *const told[] = {"description", "properties", "required",
                                       "additionalProperties",
                                       "x-kubernetes-preserve-unknown-fields"};

    if (json_get(schema, "x-kubernetes-group-version-kind") &&
        json_bool_or(json_get(schema, "x-kubernetes-preserve-unknown-fields"), false))
        for (size_t i = 0; i < COUNT_OF(told); i++)
            json_remove(schema, str_from(told[i]));
    to_v2(arena, schema);
}

static void add_path(struct arena *arena, struct json *paths, const struct kind *kind)
{
    static const char *const parameters[] = {"dryRun", "fieldManager", "fieldValidation"};
    struct str root = kind->group[0] ? str_printf(arena, "/apis/%s/%s", kind->group, kind->version)
                                     : str_printf(arena, "/api/%s", kind->version);
    struct str name = str_printf(arena, STR_FMT "%s/%s/{name}", STR_ARG(root),
                                 kind->namespaced ? "/namespaces/{namespace}" : "", kind->plural);
    struct json *item = json_set(paths, name, json_new_object(arena));
    struct json *operation = json_add_object(arena, item, "patch");
    struct json *list = json_add_array(arena, operation, "parameters");

    for (size_t i = 0; i < COUNT_OF(parameters); i++) {
        json_push(list, json_make(arena, "{name: $, in: 'query', type: 'string'}", parameters[i]));
    }
    json_fill(arena, operation,
              "{responses: {}, x-kubernetes-group-version-kind: {group: $, kind: $, "
              "version: $}}",
              kind->group, kind->name, kind->version);
}

struct json *openapi_json_v2(struct arena *arena, const struct api *api, struct json *schemas)
{
    struct json *root =
        json_make(arena, "{swagger: '2.0', info: {title: 'Muster', version: $}}", MUSTER_VERSION);
    struct json *paths = json_add_object(arena, root, "paths");
    for (size_t i = 0; i < kinds_count(api->kinds); i++)
        add_path(arena, paths, kinds_at(api->kinds, i));
    JSON_FOREACH(schemas, schema)
        kind_to_v2(arena, schema);
    json_set(root, STR("definitions"), schemas);
    return root;
}
