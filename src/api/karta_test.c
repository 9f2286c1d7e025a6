#include "api/karta.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "test.h"

#include <stddef.h>

#define ROOT                                                                                   \
    "\"rootComponent\":{\"name\":\"r\",\"kind\":{\"group\":\"g\",\"version\":\"v1\",\"kind\":" \
    "\"K\"}}"
#define GANG(text) "},\"optimizationInstructions\":{\"gangScheduling\":{" text "}"

TEST(a_karta_that_makes_no_sense_is_refused_with_its_field)
{
    static const struct {
        const char *why;
        const char *structure; /* and what follows it in spec */
        const char *words;     /* NULL: fine */
    } rows[] = {
        {"the least", ROOT, NULL},
        {"no kind", "\"rootComponent\":{\"name\":\"r\"}", "rootComponent.kind"},
        {"no name",
         "\"rootComponent\":{\"kind\":{\"group\":\"g\",\"version\":\"v\",\"kind\":\"K\"}}",
         "has no name"},
        {"no owner", ROOT ",\"childComponents\":[{\"name\":\"a\"}]", "ownerRef of \"a\""},
        {"twice", ROOT ",\"childComponents\":[{\"name\":\"r\",\"ownerRef\":\"r\"}]",
         "two components are called \"r\""},
        {"a circle",
         ROOT ",\"childComponents\":[{\"name\":\"a\",\"ownerRef\":\"b\"},{\"name\":\"b\","
              "\"ownerRef\":\"a\"}]",
         "go round in a circle"},
        {"two templates",
         ROOT ",\"childComponents\":[{\"name\":\"a\",\"ownerRef\":\"r\",\"specDefinition\":{"
              "\"podSpecPath\":\".a\",\"podTemplateSpecPath\":\".b\"}}]",
         "more than once"},
        {"an expression",
         ROOT ",\"childComponents\":[{\"name\":\"a\",\"ownerRef\":\"r\",\"scaleDefinition\":{"
              "\"replicasPath\":\"walk(.)\"}}]",
         "component \"a\": scaleDefinition.replicasPath: this function is not understood"},
        {"instances alone",
         ROOT
         ",\"childComponents\":[{\"name\":\"a\",\"ownerRef\":\"r\",\"instanceIdPath\":\".x\"}]",
         "needs both instanceIdPath and"},
        {"a gang",
         ROOT GANG("\"podGroup\":{\"name\":\"x\",\"subGroups\":[{\"componentName\":\"r\"}]}"),
         NULL},
        {"a gang of nobody",
         ROOT GANG("\"podGroup\":{\"name\":\"x\",\"subGroups\":[{\"componentName\":\"q\"}]}"),
         "there is no component \"q\""},
        {"a topology without levels",
         ROOT GANG("\"podGroup\":{\"name\":\"x\",\"topology\":{\"topologyName\":\"t\"}}"),
         "say preferredTopologyLevel or"},
        {"a filter",
         ROOT GANG(
             "\"podGroups\":[{\"name\":\"x\",\"members\":[{\"componentName\":\"r\",\"filters\":["
             "\".a = 1\"]}]}]"),
         "filters: this is not understood"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct str text = str_printf(
            &arena, "{\"metadata\":{\"name\":\"k\"},\"spec\":{\"structureDefinition\":{%s}}}",
            rows[i].structure);
        struct json *object = NULL;
        struct karta karta;
        struct err err = {0};

        test_case(rows[i].why);
        EXPECT(json_parse(&arena, text, &object, &err) == 0);
        int r = karta_read(&arena, object, &karta, &err);
        EXPECT((r == 0) == !rows[i].words);
        EXPECT(!rows[i].words || str_contains(str_from(err.text), str_from(rows[i].words)));
    }
}
