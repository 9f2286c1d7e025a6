#include "api/api.h"
#include "api/kind.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/json.h"
#include "base/str.h"
#include "server/openapi.h"
#include "test.h"

#include <stdbool.h>
#include <stddef.h>

static const struct kind kind_foo = {.group = "example.com",
                                     .version = "v1",
                                     .name = "Foo",
                                     .plural = "foos",
                                     .singular = "foo",
                                     .namespaced = true,
                                     .custom = true};

/* The definition of a custom kind in the version 2 document, by the schema of its CRD. */
static const struct json *definition_of(struct arena *arena, const char *schema)
{
    struct json *parsed = NULL;
    struct kind_crd crd = {0};
    struct api api = {.kinds = kinds_new()};

    EXPECT(json_parse(arena, str_from(schema), &parsed, NULL) == 0);
    crd.openapi = parsed;
    kinds_add(api.kinds, &kind_foo);
    kinds_set_crd(api.kinds, &kind_foo, &crd);
    struct json *schemas = openapi_schemas(&api, arena, STR_NONE, STR_NONE, false);
    const struct json *document = openapi_json_v2(arena, &api, schemas);
    kinds_free(api.kinds);
    return json_get(json_get(document, "definitions"), "com.example.v1.Foo");
}

TEST(openapi_v2_tells_of_a_kind_with_any_field_that_it_is_an_object)
{
    _cleanup_(arena_done) struct arena arena = {0};
    const struct json *any =
        definition_of(&arena, "{\"type\":\"object\",\"x-kubernetes-preserve-unknown-fields\":true,"
                              "\"properties\":{\"spec\":{\"type\":\"object\"}}}");

    EXPECT(str_is(json_str(json_get(any, "type")), "object"));
    EXPECT(json_get(any, "x-kubernetes-group-version-kind"));
    EXPECT(!json_get(any, "properties"));
    EXPECT(!json_get(any, "x-kubernetes-preserve-unknown-fields"));
}

TEST(openapi_v2_keeps_the_fields_of_a_kind_whose_spec_takes_any)
{
    _cleanup_(arena_done) struct arena arena = {0};
    const struct json *some =
        definition_of(&arena, "{\"type\":\"object\",\"properties\":{\"spec\":{\"type\":\"object\","
                              "\"x-kubernetes-preserve-unknown-fields\":true}}}");

    EXPECT(json_at(some, "properties.spec.x-kubernetes-preserve-unknown-fields"));
    EXPECT(str_starts(json_str(json_at(some, "properties.apiVersion.description")),
                      STR("APIVersion defines ")));
}

TEST(openapi_v2_has_no_words_that_only_version_3_has)
{
    static const struct {
        const char *place;
        const char *why;
    } rows[] = {
        {"properties.spec.properties.plain.nullable", "of a field"},
        {"properties.spec.properties.list.items.oneOf", "of what is in a list"},
        {"properties.spec.properties.map.additionalProperties.anyOf", "of what is in a map"},
        {"properties.spec.not", "of a part"},
    };
    _cleanup_(arena_done) struct arena arena = {0};
    const struct json *kind = definition_of(
        &arena,
        "{\"type\":\"object\",\"properties\":{\"spec\":{\"type\":\"object\",\"not\":{},"
        "\"properties\":{\"plain\":{\"type\":\"string\",\"nullable\":true},"
        "\"list\":{\"type\":\"array\",\"items\":{\"type\":\"object\",\"oneOf\":[{}]}},"
        "\"map\":{\"type\":\"object\",\"additionalProperties\":{\"type\":\"object\",\"anyOf\":[{}]"
        "}}}}}}");

    EXPECT(str_is(json_str(json_at(kind, "properties.spec.properties.plain.type")), "string"));
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        test_case(rows[i].why);
        EXPECT(!json_at(kind, rows[i].place));
    }
    test_case("what is told of every object is told by its name");
    EXPECT(str_starts(json_str(json_get(json_at(kind, "properties.metadata"), "$ref")),
                      STR("#/definitions/")));
}
