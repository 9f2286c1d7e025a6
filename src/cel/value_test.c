#include "api/schema.h"
#include "base/arena.h"
#include "base/count.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "base/yaml.h"
#include "cel/cel.h"
#include "cel/expression_test.h"
#include "cel/value.h"
#include "test.h"

#include <stddef.h>
#include <stdio.h>

/* Objects of a schema: what their fields are, and what is refused before it is evaluated. */

static const char schema_text[] =
    "type: object\n"
    "properties:\n"
    "  bytes: {type: string, format: byte}\n"
    "  span: {type: string, format: duration}\n"
    "  at: {type: string, format: date-time}\n"
    "  day: {type: string, format: date}\n"
    "  text: {type: string}\n"
    "  whole: {type: integer}\n"
    "  real: {type: number}\n"
    "  ok: {type: boolean}\n"
    "  port: {x-kubernetes-int-or-string: true}\n"
    "  maybe: {type: integer, nullable: true}\n"
    "  set: {type: array, x-kubernetes-list-type: set, items: {type: string}}\n"
    "  plain: {type: array, items: {type: integer}}\n"
    "  ports:\n"
    "    type: array\n"
    "    x-kubernetes-list-type: map\n"
    "    x-kubernetes-list-map-keys: [name, protocol]\n"
    "    items:\n"
    "      type: object\n"
    "      properties: {name: {type: string}, protocol: {type: string}, port: {type: integer}}\n"
    "  labels: {type: object, additionalProperties: {type: string}}\n"
    "  inner:\n"
    "    type: object\n"
    "    x-kubernetes-embedded-resource: true\n"
    "    properties: {spec: {type: object, properties: {num: {type: integer}}}}\n"
    "  a-b: {type: integer}\n"
    "  for: {type: integer}\n"
    "  x__y: {type: integer}\n"
    "  a.b/c: {type: integer}\n";

static const char object_text[] =
    "{bytes: aGk=, span: 1h30m, at: '2024-05-01T12:00:00Z', day: '2024-05-01', text: abc,"
    " whole: 2, real: 3, ok: true, port: http, maybe: null, set: [a, b], plain: [1, 2],"
    " ports: [{name: x, protocol: TCP, port: 1}, {name: x, protocol: UDP, port: 2}],"
    " labels: {l: v}, inner: {apiVersion: v1, kind: K, metadata: {name: m}, spec: {num: 1}},"
    " a-b: 1, for: 2, x__y: 3, a.b/c: 4}";

static struct json *parsed(struct arena *arena, const char *text)
{
    struct json *root = NULL;

    EXPECT(yaml_parse(arena, str_from(text), &root, NULL) == 0);
    return root;
}

/* What it gives for an object; what does not compile is an error with those words. */
static struct cel_value given(struct arena *arena, const char *text, const char *object)
{
    const struct schema *schema = NULL;
    struct cel_program *program = NULL;
    struct err err = {0};

    EXPECT(schema_compile(arena, parsed(arena, schema_text), &schema, NULL) == 0);
    struct cel_variable variable = {.name = "self", .schema = schema, .resource = true};
    struct cel_compile compile = {
        .arena = arena, .text = str_from(text), .variables = &variable, .variable_count = 1};
    if (cel_compile(&compile, &program, &err) < 0)
        return cel_error(str_dup(arena, str_from(err.text)));
    struct cel_value self = cel_from_resource(arena, parsed(arena, object), schema);
    return cel_evaluate(program, arena, &self, CEL_COST_MAX).value;
}

TEST(fields_are_what_their_schema_says)
{
    static const char *const texts[] = {
        "self.bytes == b'hi' && self.span == duration('90m') && self.span.getMinutes() == 90",
        "self.at == timestamp('2024-05-01T12:00:00Z') && self.at.getHours() == 12",
        "self.day == timestamp('2024-05-01T00:00:00Z') && self.at - self.day == duration('12h')",
        "self.real == 3.0 && type(self.real) == double && type(self.whole) == int",
        "self.ok && self.port == 'http' && type(self.port) == string && !has(self.maybe)",
        "self.a__dash__b == 1 && self.__for__ == 2 && self.x__underscores__y == 3",
        "self.a__dot__b__slash__c == 4 && has(self.__for__) && self.`a-b` == 1",
        "self.labels.l == 'v' && self.labels['l'] == 'v' && self.labels.all(k, v, k < v)",
        "self.inner.kind == 'K' && self.inner.metadata.name == 'm' && self.inner.spec.num == 1",
        "self.plain.all(x, x > 0) && self.plain.map(x, x * 2) == [2, 4] && self.plain[1] == 2",
        "self.ports.all(p, p.port < 3) && self.ports[1].port == 2",
        "self.?text.orValue('') == 'abc' && self.?ports[0].port == optional.of(1)",
        "self.?labels.l == optional.of('v') && self.?labels.nope == optional.none()",
        "self.labels.map(k, k) == ['l'] && cel.bind(x, self.inner, x.spec.num == 1)",
        "optional.of(self.inner).optMap(x, x.spec.num) == optional.of(1)",
        "(self.ok ? self.inner : self.inner).spec.num == 1",
        "(self.ok ? self.whole : self.port) == 2 && (self.ok ? self.whole : 3) == 2",
    };

    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        struct arena arena = {0};
        struct cel_value value = given(&arena, texts[i], object_text);

        test_case(texts[i]);
        if (value.type == CEL_ERROR)
            (void)fprintf(stderr, "%s: " STR_FMT "\n", texts[i], STR_ARG(value.s));
        EXPECT(cel_is_true(value));
        arena_done(&arena);
    }
}

TEST(sets_and_lists_by_key_are_compared_without_order_and_joined_by_what_they_are)
{
    static const char *const texts[] = {
        "self.set == ['b', 'a'] && self.set != ['a', 'c'] && self.set != ['a']",
        "self.plain != [2, 1] && self.plain + [1] == [1, 2, 1]",
        "(self.set + ['c', 'a', 'd']).map(x, x) == ['a', 'b', 'c', 'd']",
        "self.set + ['c'] == ['c', 'b', 'a'] && (self.set + []).size() == 2",
        "self.ports == [self.ports[1], self.ports[0]]",
        "(self.ports + dyn([{'name': dyn('x'), 'protocol': dyn('TCP'), 'port': dyn(9)}]))"
        ".map(p, p.port) == [9, 2]",
        "(self.ports + dyn([{'name': dyn('y'), 'protocol': dyn('TCP'), 'port': dyn(9)}]))"
        ".map(p, p.port) == [1, 2, 9]",
        "(self.ports + dyn([{'name': dyn('y')}, {'name': dyn('y'), 'port': dyn(3)}])).size() == 3",
    };

    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        struct arena arena = {0};
        struct cel_value value = given(&arena, texts[i], object_text);

        test_case(texts[i]);
        if (value.type == CEL_ERROR)
            (void)fprintf(stderr, "%s: " STR_FMT "\n", texts[i], STR_ARG(value.s));
        EXPECT(cel_is_true(value));
        arena_done(&arena);
    }
}

TEST(what_a_schema_rules_out_is_refused_and_what_an_object_has_wrong_is_an_error)
{
    static const struct {
        const char *text;
        const char *object;
        const char *words;
    } rows[] = {
        {"self.bytes == b''", "{bytes: '%'}", "a field of format byte is not base64"},
        {"self.span > duration('0s')", "{span: x}",
         "a field of format duration does not have one as its value"},
        {"self.at > timestamp(0)", "{at: x}",
         "a field of format date-time does not have one as its value"},
        {"self.whole.x == 1", "{}",
         "ERROR: <input>:1:11: type 'int' does not support field selection"},
        {"-self.text == 'a'", "{}",
         "ERROR: <input>:1:1: found no matching overload for '-_' applied to '(string)'"},
        {"-self.ok", "{}",
         "ERROR: <input>:1:1: found no matching overload for '-_' applied to '(bool)'"},
        {"self.whole.all(x, true)", "{}",
         "ERROR: <input>:1:5: expression of type 'int' cannot be range of a comprehension (must be "
         "list, map, or dynamic)"},
        {"self.labels.all(k, v, v + 1 == k)", "{}",
         "ERROR: <input>:1:25: found no matching overload for '_+_' applied to '(string, int)'"},
        {"self.labels.l + 1 == 2", "{}",
         "ERROR: <input>:1:15: found no matching overload for '_+_' applied to '(string, int)'"},
        {"self.labels['l'] + 1 == 2", "{}",
         "ERROR: <input>:1:18: found no matching overload for '_+_' applied to '(string, int)'"},
        {"self.labels.exists(k, k > 1)", "{}",
         "ERROR: <input>:1:25: found no matching overload for '_>_' applied to '(string, int)'"},
        {"self.plain.all(i, v, i == 'a')", "{}",
         "ERROR: <input>:1:24: found no matching overload for '_==_' applied to '(int, string)'"},
        {"self.at + self.at == self.at", "{}",
         "ERROR: <input>:1:9: found no matching overload for '_+_' applied to "
         "'(timestamp, timestamp)'"},
        {"1 in self.whole", "{}",
         "ERROR: <input>:1:3: found no matching overload for '@in' applied to '(int, int)'"},
        {"self.ports.filter(p, p.port > 1)[0].nope == 1", "{}",
         "ERROR: <input>:1:36: undefined field 'nope'"},
        {"(self.ok ? self.inner : self.inner).nope == 1", "{}",
         "ERROR: <input>:1:36: undefined field 'nope'"},
        {"self.?inner.nope == 1", "{}", "ERROR: <input>:1:12: undefined field 'nope'"},
        {"has(self.nope)", "{}", "ERROR: <input>:1:4: undefined field 'nope'"},
        {"self.`nope` == 1", "{}", "ERROR: <input>:1:5: undefined field 'nope'"},
        {"self.inner.metadata.labels == {}", "{}", "ERROR: <input>:1:20: undefined field 'labels'"},
        {"self.ports.map(p, p.nope, 1) == []", "{}", "ERROR: <input>:1:20: undefined field 'nope'"},
        {"self.ports.map(p, p.port, 1) == []", "{}",
         "ERROR: <input>:1:15: found no matching overload for '_?_:_' applied to '(int, list(int), "
         "list(int))'"},
        {"self.whole && true", "{}", "ERROR: <input>:1:5: expected type 'bool' but found 'int'"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct arena arena = {0};
        struct cel_value value = given(&arena, rows[i].text, rows[i].object);

        test_case(rows[i].text);
        EXPECT(value.type == CEL_ERROR && str_is(value.s, rows[i].words));
        if (value.type == CEL_ERROR && !str_is(value.s, rows[i].words))
            (void)fprintf(stderr, "%s: " STR_FMT "\n", rows[i].text, STR_ARG(value.s));
        arena_done(&arena);
    }
}

TEST(numbers_without_a_schema_are_whole_where_they_are_written_so)
{
    static const char *const texts[] = {
        "type(self.a) == int && type(self.b) == double && type(self.c) == double",
        "type(self.d) == double && self.d > 1e19 && type(self.e) == int && self.e == -5",
        "self.c == 1000.0 && type(self.f) == null_type && type(self.g) == bool && self.h == ''",
        "!(1 in self) && self['a'] == 1",
    };

    static const struct expression_error rows[] = {{"self.big > 1", "a number is too large"}};

    expression_all_fail(rows, COUNT_OF(rows), "{\"big\": 1e999}");
    expression_all_true(texts, COUNT_OF(texts),
                        "{\"a\": 1, \"b\": 1.0, \"c\": 1e3, \"d\": 12345678901234567890, "
                        "\"e\": -5, \"f\": null, \"g\": false, \"h\": \"\"}");
}
