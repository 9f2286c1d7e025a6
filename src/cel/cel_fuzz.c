#include "api/schema.h"
#include "base/arena.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "cel/cel.h"
#include "cel/estimate.h"
#include "cel/shape.h"
#include "cel/value.h"
#include "fuzz/fuzz.h"

#include <stdbool.h>
#include <stddef.h>

#define COST_MAX 20000

/* What it may cost at worst, of an object with a schema, is said without evaluating it: the same
 * twice. */
static void estimate(struct arena *arena, struct str input)
{
    static const char text[] =
        "{\"type\":\"object\",\"required\":[\"s\"],\"properties\":{\"n\":{\"type\":\"integer\"},"
        "\"f\":{\"type\":\"number\"},\"s\":{\"type\":\"string\",\"maxLength\":9},"
        "\"list\":{\"type\":\"array\",\"items\":{\"type\":\"integer\"},\"maxItems\":9},"
        "\"names\":{\"type\":\"array\",\"items\":{\"type\":\"string\"}},"
        "\"map\":{\"type\":\"object\",\"additionalProperties\":{\"type\":\"object\",\"properties\":"
        "{\"y\":{\"type\":\"string\",\"format\":\"byte\"}}}},\"b\":{\"type\":\"boolean\"}}}";
    struct cel_program *program = NULL;
    struct json *json = NULL;
    const struct schema *schema = NULL;

    FUZZ_HOLDS(json_parse(arena, str_from(text), &json, NULL) == 0);
    FUZZ_HOLDS(schema_compile(arena, json, &schema, NULL) == 0);
    struct cel_variable self = {.name = "self", .schema = schema, .resource = true};
    struct cel_compile compile = {
        .arena = arena, .text = input, .variables = &self, .variable_count = 1};
    if (cel_compile(&compile, &program, NULL) < 0)
        return;
    const struct shape *shape = shape_of(arena, schema, true);
    FUZZ_HOLDS(cel_estimate(arena, program, shape) == cel_estimate(arena, program, shape));
}

/* An expression is refused with words, or it is evaluated within its bounds: to the same twice. */
FUZZ(cel)
{
    static const struct cel_variable variables[] = {{.name = "self"}};
    static const char object[] =
        "{\"n\": 3, \"f\": 1.5, \"s\": \"h\\u00e9llo\", \"list\": [3, 1, 2], \"b\": true,"
        " \"names\": [\"a\", \"b\"], \"map\": {\"x\": {\"y\": null}, \"z\": 2}}";
    struct arena arena = {0};
    struct cel_program *program = NULL;
    struct json *json = NULL;
    struct err err = {0};
    struct cel_compile compile = {
        .arena = &arena, .text = input, .variables = variables, .variable_count = 1};

    estimate(&arena, input);
    if (cel_compile(&compile, &program, &err) < 0) {
        FUZZ_HOLDS(err.text[0] != '\0');
        arena_done(&arena);
        return;
    }
    FUZZ_HOLDS(json_parse(&arena, str_from(object), &json, NULL) == 0);
    struct cel_value self = cel_from_json(&arena, json, NULL);
    size_t before = arena.bytes_used;
    struct cel_result one = cel_evaluate(program, &arena, &self, COST_MAX);
    FUZZ_HOLDS(arena.bytes_used - before < 2 * CEL_MEMORY_MAX);
    struct cel_result two = cel_evaluate(program, &arena, &self, COST_MAX);
    FUZZ_HOLDS(one.cost == two.cost && one.out_of_cost == two.out_of_cost);
    FUZZ_HOLDS(one.value.type == two.value.type && one.value.type != CEL_DYN);
    FUZZ_HOLDS(one.value.type != CEL_ERROR || one.value.s.len > 0);
    FUZZ_HOLDS(!one.out_of_cost || one.value.type == CEL_ERROR);
    arena_done(&arena);
}
