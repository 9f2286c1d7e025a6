#include "api/schema.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/json.h"
#include "base/str.h"
#include "base/yaml.h"
#include "cel/cel.h"
#include "cel/estimate.h"
#include "cel/shape.h"
#include "test.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

static const struct schema *schema_from(struct arena *arena, const char *text)
{
    const struct schema *schema = NULL;
    struct json *json = NULL;
    struct str whole = str_printf(arena, "{type: object, properties: {x: %s}}", text);

    EXPECT(yaml_parse(arena, whole, &json, NULL) == 0);
    EXPECT(schema_compile(arena, json, &schema, NULL) == 0);
    return schema_property(schema, STR("x"));
}

static uint64_t estimated(struct arena *arena, const char *schema_text, const char *rule)
{
    const struct schema *schema = schema_from(arena, schema_text);
    struct cel_variable variables[] = {{.name = "self", .schema = schema},
                                       {.name = "oldSelf", .schema = schema}};
    struct cel_program *program = NULL;
    struct cel_compile compile = {.arena = arena,
                                  .text = str_from(rule),
                                  .variables = variables,
                                  .variable_count = COUNT_OF(variables)};

    EXPECT(cel_compile(&compile, &program, NULL) == 0);
    return program ? cel_estimate(arena, program, shape_of(arena, schema, false)) : 0;
}

/* The costs are those that Kubernetes 1.33.13 says of the same rules. */
TEST(a_rule_is_estimated_as_kubernetes_does)
{
    static const char schema[] =
        "{type: object, required: [s], properties: {s: {type: string, maxLength: 10},"
        " u: {type: string}, 'n': {type: integer}, e: {type: string, enum: [a, abcdefghijklmno]},"
        " l: {type: array, maxItems: 20, items: {type: string, maxLength: 10}},"
        " ul: {type: array, items: {type: string}},"
        " li: {type: array, maxItems: 20, items: {type: integer}},"
        " m: {type: object, maxProperties: 30, additionalProperties: {type: string, maxLength: "
        "10}}, t: {type: string, format: date-time}, d: {type: string, format: duration},"
        " 'y': {type: string, format: byte, maxLength: 50}, i: {x-kubernetes-int-or-string: true},"
        " lo: {type: array, maxItems: 5, items: {type: object, required: [a], properties: {a: "
        "{type: string, maxLength: 10}, b: {type: array, maxItems: 7, items: {type: string, "
        "maxLength: 3}}}}}}}";
    static const struct {
        const char *rule;
        uint64_t cost;
        const char *why; /* where it is not plain */
    } rows[] = {
        {"true", 0, "nothing"},
        {"self.n > 5", 3, "a name, a field, a step"},
        {"has(self.s)", 1, "has() is free"},
        {"self.s == 'abc'", 3, "by the shorter one"},
        {"self.s == self.u", 8, "a tenth of a byte"},
        {"self.u == self.u", 314577, "as long as a request"},
        {"self.u < self.s", 8, NULL},
        {"self.s != 'a' && self.n == 3 || self.n < 2", 8, "all of it counts"},
        {"self.n == 3 ? self.s == 'a' : self.u == self.u", 314579, "the dearer way"},
        {"self.e == self.u", 6, "as long as the longest of an enum"},
        {"self.t == self.t", 8, "a moment's text"},
        {"self.d < duration('1h')", 4, NULL},
        {"self.y == b'abc'", 3, NULL},
        {"self.i == 3", 3, NULL},
        {"self.i < 'a'", 3, "of either type: text"},
        {"self.i < 3", 3, NULL},
        {"type(self.i) == string", 4, NULL},
        {"self.s.contains('abc')", 6, NULL},
        {"self.u.contains(self.u)", UINT64_C(98956172333), NULL},
        {"self.s.startsWith(self.u)", 314577, NULL},
        {"self.u.matches('^[a-z]*$')", 629148, NULL},
        {"matches(self.u, '^[a-z]*$')", 3, "the function costs a step"},
        {"self.u.find('a') == self.s", 314581, NULL},
        {"self.s.findAll('a').size() == 1", 9, NULL},
        {"self.s.split(',').all(x, x == self.u)", 251, NULL},
        {"self.u.split(',', 3).all(x, x == 'abc')", 629161, NULL},
        {"self.s.lowerAscii() == self.u", 12, NULL},
        {"self.s.replace('ab', 'cde') == self.u", 18, NULL},
        {"self.s.replace('', self.u) == self.u", 314587, NULL},
        {"self.l.join(', ') == self.u", 172, NULL},
        {"self.ul.join() == self.u", UINT64_C(329853278622), NULL},
        {"self.s + self.u == self.u", 629156, NULL},
        {"(self.l + self.l).all(x, x == 'a')", 166, NULL},
        {"'%s'.format([self.u]) == self.s", 19, NULL},
        {"strings.quote(self.s) == self.u", 17, NULL},
        {"bytes(self.s) == self.y", 13, NULL},
        {"string(self.y) == self.u", 14, NULL},
        {"string(self.n) == self.s", 9, NULL},
        {"self.l.all(x, x == self.u)", 203, NULL},
        {"self.l.exists(x, x == 'a')", 123, NULL},
        {"self.l.exists_one(x, x == 'a')", 84, NULL},
        {"self.ul.all(x, x == 'a')", 5242878, "as many as fit into a request"},
        {"self.l.filter(x, x != 'a').size() > 1", 315, NULL},
        {"self.l.map(x, x.size()).sum() > 1", 314, NULL},
        {"self.l.map(x, x == 'a', x + 'b').all(y, y == self.u)", 534, NULL},
        {"self.m.all(k, self.m[k] == k)", 243, "keys are not bounded, and count nothing"},
        {"self.m.all(k, v, v == self.u)", 303, NULL},
        {"self.l.all(i, v, i < 3)", 103, NULL},
        {"self.m.transformMap(k, v, v.size()).size() == 1", 185, NULL},
        {"self.l.transformList(i, v, i).size() == 1", 275, NULL},
        {"self.l.transformMapEntry(i, v, {v: i}).size() == 1", 715, NULL},
        {"self.s in self.l", 24, NULL},
        {"self.s in self.m", 5, NULL},
        {"self.l[0] == self.u", 9, NULL},
        {"self.l.isSorted()", 102, NULL},
        {"self.li.isSorted()", 22, NULL},
        {"self.l.indexOf('a') == 1", 103, NULL},
        {"self.s.indexOf('a') == 1", 7, NULL},
        {"['a', self.s].all(x, x == self.u)", 25, NULL},
        {"{'a': self.s}.a == self.u", 35, NULL},
        {"self.lo.all(x, x.a == self.u)", 58, NULL},
        {"self.lo.all(x, x.b.all(y, y == x.a))", 1633, "what stands at the path then"},
        {"self.lo.map(x, x.a).exists(y, y == 'a')", 109, NULL},
        {"sets.contains(self.l, self.l)", 405, NULL},
        {"sets.equivalent(self.l, ['a'])", 53, NULL},
        {"quantity(self.s) == quantity(self.u)", 314582, NULL},
        {"quantity(self.s) != quantity(self.u)", UINT64_C(1844674407371269845),
         "no function for it: unbounded"},
        {"isIP(self.u)", 314575, NULL},
        {"ip.isCanonical(self.s)", 10, NULL},
        {"cidr(self.s).containsIP(self.s)", 16, NULL},
        {"cidr(self.s).containsIP(ip(self.s))", 16, NULL},
        {"cidr(self.s).containsCIDR(self.s)", 19, NULL},
        {"cidr(self.s).ip() == ip(self.s)", 14, NULL},
        {"self.?s.orValue('') == self.u", 314578, NULL},
        {"self.?s.optMap(x, x.size()).orValue(0) == 1", 21, NULL},
        {"self.l[?0].orValue('') == self.u", 314579, NULL},
        {"optional.of(self.n).optFlatMap(x, optional.of(x)).hasValue()", 21, NULL},
        {"dyn(self.u) == 'a'", 4, NULL},
        {"!(self.n > 3) || -self.n < 2", 8, NULL},
        {"self == oldSelf", 2, NULL},
        {"oldSelf.l.all(x, x in self.l)", 523, NULL},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};

        test_case(rows[i].rule);
        uint64_t cost = estimated(&arena, schema, rows[i].rule);
        EXPECT(cost == rows[i].cost);
        if (cost != rows[i].cost)
            (void)fprintf(stderr, "got %" PRIu64 ", wanted %" PRIu64 "\n", cost, rows[i].cost);
    }
}

TEST(a_shape_is_as_large_as_its_schema_allows)
{
    static const struct {
        const char *schema;
        uint64_t max;
        uint64_t bytes_min;
        const char *why;
    } rows[] = {
        {"{type: string}", 3145726, 2, "a request, and quotes"},
        {"{type: string, maxLength: 10}", 40, 2, "a character has four bytes"},
        {"{type: string, enum: [a, bcd]}", 3, 2, "the longest of them"},
        {"{type: string, format: byte, maxLength: 10}", 10, 2, "bytes"},
        {"{type: string, format: date-time}", 32, 21, "a moment"},
        {"{type: string, format: date}", 12, 12, "a day"},
        {"{type: string, format: duration}", 32, 3, "a span"},
        {"{x-kubernetes-int-or-string: true}", 3145726, 1, "a text, or a digit"},
        {"{type: integer}", 0, 1, "a digit"},
        {"{type: boolean}", 0, 4, "true"},
        {"{type: array, items: {type: string}}", 1048575, 2, "\"\", in brackets"},
        {"{type: array, maxItems: 7, items: {type: string}}", 7, 2, "as it says"},
        {"{type: object, additionalProperties: {type: boolean}}", 314572, 2, "\"xx\":true,"},
        {"{type: object, required: [a, bc], properties: {a: {type: string}, bc: {type: integer}}}",
         0, 16, "{\"a\":\"\",\"bc\":0}, and a comma"},
        {"{type: object, required: [a], properties: {a: {type: string, default: x}}}", 0, 2,
         "a default is filled in"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};

        test_case(rows[i].why);
        const struct shape *shape = shape_of(&arena, schema_from(&arena, rows[i].schema), false);
        EXPECT(shape && shape->max == rows[i].max && shape->bytes_min == rows[i].bytes_min);
    }
}

TEST(what_has_no_type_has_no_shape)
{
    _cleanup_(arena_done) struct arena arena = {0};
    const struct schema *list =
        schema_from(&arena, "{type: array, items: {x-kubernetes-preserve-unknown-fields: true}}");
    const struct schema *object =
        schema_from(&arena, "{type: object, properties: {x: {x-kubernetes-preserve-unknown-fields: "
                            "true}, number: {type: integer}}}");

    EXPECT(shape_of(&arena, list, false) == NULL);
    const struct shape *shape = shape_of(&arena, object, true);
    EXPECT(!shape_field(shape, STR("x")) && shape_field(shape, STR("number")));
    EXPECT(shape_field(shape_field(shape, STR("metadata")), STR("name")));
    EXPECT(!shape_field(shape_field(shape, STR("metadata")), STR("labels")));
}
