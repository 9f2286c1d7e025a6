#include "api/admit.h"
#include "api/crd_builtin.h"
#include "api/kind.h"
#include "api/schema.h"
#include "base/arena.h"
#include "base/count.h"
#include "base/json.h"
#include "base/str.h"
#include "base/yaml.h"
#include "cel/rules.h"
#include "test.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

static struct json *parsed(struct arena *arena, const char *text)
{
    struct json *root = NULL;

    EXPECT(yaml_parse(arena, str_from(text), &root, NULL) == 0);
    return root;
}

/* What is said about them, a line each. */
static struct str causes(struct arena *arena, const struct admit *admit)
{
    struct str text = STR("");

    for (size_t i = 0; i < admit->causes.count; i++)
        text = str_printf(arena, STR_FMT STR_FMT ": " STR_FMT "\n", STR_ARG(text),
                          STR_ARG(admit->causes.items[i].field),
                          STR_ARG(admit->causes.items[i].message));
    return text;
}

static void expect_text(struct str text, const char *wanted)
{
    EXPECT(str_is(text, wanted));
    if (!str_is(text, wanted))
        (void)fprintf(stderr, "got:    " STR_FMT "wanted: %s", STR_ARG(text), wanted);
}

static const char schema_text[] =
    "type: object\n"
    "x-kubernetes-validations:\n"
    "- {rule: 'self.metadata.name.size() < 10', message: the name is too long}\n"
    "properties:\n"
    "  spec:\n"
    "    type: object\n"
    "    x-kubernetes-validations:\n"
    "    - {rule: 'self.min <= self.max'}\n"
    "    - rule: '!has(self.mode) || self.mode != \"off\" || self.max == 0'\n"
    "      messageExpression: '\"mode \" + self.mode + \" needs max 0, not \" + string(self.max)'\n"
    "      fieldPath: .mode\n"
    "      reason: FieldValueForbidden\n"
    "    properties:\n"
    "      min: {type: integer}\n"
    "      max:\n"
    "        type: integer\n"
    "        x-kubernetes-validations:\n"
    "        - {rule: 'self >= oldSelf', message: max cannot shrink}\n"
    "      mode: {type: string}\n"
    "      fresh:\n"
    "        type: string\n"
    "        x-kubernetes-validations:\n"
    "        - {rule: 'oldSelf.hasValue() || self == \"new\"', optionalOldSelf: true, message: "
    "begin new}\n"
    "      ports:\n"
    "        type: array\n"
    "        x-kubernetes-list-type: map\n"
    "        x-kubernetes-list-map-keys: [name]\n"
    "        items:\n"
    "          type: object\n"
    "          properties:\n"
    "            name: {type: string}\n"
    "            port:\n"
    "              type: integer\n"
    "              x-kubernetes-validations: [{rule: 'self == oldSelf', message: a port is "
    "fixed}]\n"
    "      tags:\n"
    "        type: object\n"
    "        additionalProperties:\n"
    "          type: string\n"
    "          x-kubernetes-validations: [{rule: self.startsWith('t')}]\n"
    "      many:\n"
    "        type: array\n"
    "        items: {type: integer}\n"
    "        x-kubernetes-validations:\n"
    "        - rule: 'self.all(a, self.all(b, self.all(c, self.all(d, a + b + c + d > 0))))'\n"
    "        - rule: 'self[0] / 0 == 1'\n";

static void expect_causes(const char *object,
                          const char *old,
                          const char *wanted,
                          const char *warned)
{
    struct arena arena = {0};
    const struct schema *schema = NULL;
    struct str warnings = STR("");
    struct admit admit = {
        .arena = &arena, .object = parsed(&arena, object), .old = old ? parsed(&arena, old) : NULL};
    struct admit compiling = {.arena = &arena};

    test_case(object);
    EXPECT(schema_compile(&arena, parsed(&arena, schema_text), &schema, NULL) == 0);
    const struct rules *rules = rules_compile(&arena, schema, &compiling, STR("schema"));
    EXPECT(compiling.causes.count == 0);
    expect_text(causes(&arena, &compiling), "");
    rules_validate(&admit, rules, schema, &warnings);
    expect_text(causes(&arena, &admit), wanted);
    EXPECT(str_is(warnings, warned));
    arena_done(&arena);
}

TEST(rules_refuse_what_they_do_not_hold_for)
{
    expect_causes("{metadata: {name: a}, spec: {min: 1, max: 2}}", NULL, "", "");
    expect_causes("{metadata: {name: a}, spec: {min: 3, max: 2}}", NULL,
                  "spec: Invalid value: \"object\": failed rule: self.min <= self.max\n", "");
    expect_causes("{metadata: {name: a-very-long-name}, spec: {min: 1, max: 2}}", NULL,
                  "<nil>: Invalid value: \"object\": the name is too long\n", "");
    expect_causes("{metadata: {name: a}, spec: {min: 1, max: 2, mode: 'off'}}", NULL,
                  "spec.mode: Forbidden: mode off needs max 0, not 2\n", "");
    expect_causes("{metadata: {name: a}, spec: {min: 1}}", NULL,
                  "spec: Invalid value: \"object\": no such key: max evaluating rule: self.min <= "
                  "self.max\n",
                  "");
    expect_causes("{metadata: {name: a}, spec: {min: 1, max: 2, tags: {a: tx, b: x}}}", NULL,
                  "spec.tags[b]: Invalid value: \"string\": failed rule: self.startsWith('t')\n",
                  "");
}

TEST(rules_about_a_change_see_what_was)
{
    const char *old = "{metadata: {name: a}, spec: {min: 1, max: 5, ports: [{name: a, port: 1}]}}";

    expect_causes("{metadata: {name: a}, spec: {min: 1, max: 4}}", old,
                  "spec.max: Invalid value: \"integer\": max cannot shrink\n", "");
    expect_causes("{metadata: {name: a}, spec: {min: 1, max: 6}}", old, "", "");
    expect_causes("{metadata: {name: a}, spec: {min: 1, max: 5, ports: [{name: b, port: 2}, {name: "
                  "a, port: 3}]}}",
                  old, "spec.ports[1].port: Invalid value: \"integer\": a port is fixed\n", "");
    expect_causes("{metadata: {name: a}, spec: {min: 1, max: 5, fresh: x}}", old,
                  "spec.fresh: Invalid value: \"string\": begin new\n", "");
    expect_causes("{metadata: {name: a}, spec: {min: 1, max: 5, fresh: new}}", NULL, "", "");
}

TEST(what_did_not_change_is_warned_about)
{
    const char *old = "{metadata: {name: a}, spec: {min: 9, max: 5}}";

    expect_causes("{metadata: {name: a, labels: {x: y}}, spec: {min: 9, max: 5}}", old, "",
                  "spec: Invalid value: \"object\": failed rule: self.min <= self.max");
    expect_causes("{metadata: {name: a}, spec: {min: 10, max: 5}}", old,
                  "spec: Invalid value: \"object\": failed rule: self.min <= self.max\n", "");
}

TEST(rules_that_cost_too_much_end_the_validation)
{
    char object[2000];
    size_t len = (size_t)snprintf(object, sizeof(object),
                                  "{metadata: {name: a}, spec: {min: 1, max: 2, many: [");

    for (size_t i = 0; i < 100; i++)
        len += (size_t)snprintf(object + len, sizeof(object) - len, "1, ");
    (void)snprintf(object + len, sizeof(object) - len, "1]}}");
    expect_causes(object, NULL,
                  "spec.many: Invalid value: \"array\": 'operation cancelled: actual cost limit "
                  "exceeded': no further validation rules will be run due to call cost exceeds "
                  "limit for rule: self.all(a, self.all(b, self.all(c, self.all(d, a + b + c + d > "
                  "0))))\n",
                  "");
}

TEST(a_crd_with_a_wrong_rule_is_refused)
{
    static const struct {
        const char *rule;
        const char *wanted;
    } rows[] = {
        {"{rule: 'self.x >'}",
         "s.properties[spec].x-kubernetes-validations[0].rule: Invalid value: {\"rule\":\"self.x "
         ">\"}: compilation failed: ERROR: <input>:1:9: Syntax error: mismatched input '<EOF>'\n"},
        {"{rule: 'self.z > 1'}",
         "s.properties[spec].x-kubernetes-validations[0].rule: Invalid value: {\"rule\":\"self.z > "
         "1\"}: compilation failed: ERROR: <input>:1:5: undefined field 'z'\n"},
        {"{rule: 'self.x + 1'}",
         "s.properties[spec].x-kubernetes-validations[0].rule: Invalid value: {\"rule\":\"self.x + "
         "1\"}: cel expression must evaluate to a bool\n"},
        {"{rule: ' '}",
         "s.properties[spec].x-kubernetes-validations[0].rule: Required value: rule is not "
         "specified\n"},
        {"{rule: 'true', messageExpression: 'self.x'}",
         "s.properties[spec].x-kubernetes-validations[0].messageExpression: Invalid value: "
         "{\"rule\":\"true\",\"messageExpression\":\"self.x\"}: messageExpression must evaluate to "
         "a string\n"},
        {"{rule: 'true', reason: Because}",
         "s.properties[spec].x-kubernetes-validations[0].reason: Unsupported value: \"Because\": "
         "supported values: \"FieldValueDuplicate\", \"FieldValueForbidden\", "
         "\"FieldValueInvalid\", \"FieldValueRequired\"\n"},
        {"{rule: 'true', fieldPath: .nope}",
         "s.properties[spec].x-kubernetes-validations[0].fieldPath: Invalid value: \".nope\": "
         "fieldPath must be a valid path\n"},
        {"{rule: 'true', optionalOldSelf: true}",
         "s.properties[spec].x-kubernetes-validations[0].optionalOldSelf: Invalid value: true: may "
         "not be set if oldSelf is not used in rule\n"},
        {"{rule: 'true', message: ' '}",
         "s.properties[spec].x-kubernetes-validations[0].message: Invalid value: \" \": message "
         "must be non-empty if specified\n"},
        {"{rule: 'true', message: \"a\\nb\"}",
         "s.properties[spec].x-kubernetes-validations[0].message: Invalid value: \"a\\nb\": "
         "message must not contain line breaks\n"},
        {"{rule: 'true', message: \"a\\rb\"}", ""},
        {"{rule: \"true ||\\n false\"}",
         "s.properties[spec].x-kubernetes-validations[0].message: Required value: message must be "
         "specified if rule contains line breaks\n"},
        {"{rule: \"true ||\\n false\", message: m}", ""},
        {"{rule: 'true', messageExpression: 'x'}",
         "s.properties[spec].x-kubernetes-validations[0].messageExpression: Invalid value: "
         "{\"rule\":\"true\",\"messageExpression\":\"x\"}: messageExpression compilation failed: "
         "ERROR: <input>:1:1: undeclared reference to 'x' (in container '')\n"},
        {"{rule: 'true', fieldPath: .x}", ""},
        {"{rule: 'true', fieldPath: x}", "s.properties[spec].x-kubernetes-validations[0].fieldPath:"
                                         " Invalid value: \"x\": fieldPath must be a valid path\n"},
        {"{rule: 'true', fieldPath: .}", "s.properties[spec].x-kubernetes-validations[0].fieldPath:"
                                         " Invalid value: \".\": fieldPath must be a valid path\n"},
        {"{rule: 'true', fieldPath: .x.y}",
         "s.properties[spec].x-kubernetes-validations[0].fieldPath: Invalid value: \".x.y\": "
         "fieldPath must be a valid path\n"},
        {"{rule: 'true', fieldPath: '[''a.b'']'}", ""},
        {"{rule: 'true', fieldPath: '.m[''any'']'}", ""},
        {"{rule: 'true', fieldPath: .m.any}", ""},
        {"{rule: 'true', fieldPath: '[''a.b'}",
         "s.properties[spec].x-kubernetes-validations[0].fieldPath: Invalid value: \"['a.b\": "
         "fieldPath must be a valid path\n"},
        {"{rule: 'true', fieldPath: '[x]'}",
         "s.properties[spec].x-kubernetes-validations[0].fieldPath: Invalid value: \"[x]\": "
         "fieldPath must be a valid path\n"},
        {"{rule: 'self.x == oldSelf.x'}", ""},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct arena arena = {0};
        const struct schema *schema = NULL;
        struct admit admit = {.arena = &arena};
        struct str text = str_printf(&arena,
                                     "{type: object, properties: {spec: {type: object, properties: "
                                     "{x: {type: integer}, a.b: {type: integer}, m: {type: object, "
                                     "additionalProperties: {type: string}}}, "
                                     "x-kubernetes-validations: [%s]}}}",
                                     rows[i].rule);

        test_case(rows[i].rule);
        EXPECT(schema_compile(&arena, parsed(&arena, text.p), &schema, NULL) == 0);
        (void)rules_compile(&arena, schema, &admit, STR("s"));
        expect_text(causes(&arena, &admit), rows[i].wanted);
        arena_done(&arena);
    }
}

/* What is said of an object of a schema, whose rules may be wrong. */
static void expect_said(const char *schema_yaml,
                        const char *object,
                        const char *old,
                        const char *wanted,
                        const char *warned)
{
    struct arena arena = {0};
    const struct schema *schema = NULL;
    struct str warnings = STR("");
    struct admit admit = {
        .arena = &arena, .object = parsed(&arena, object), .old = old ? parsed(&arena, old) : NULL};

    test_case(schema_yaml);
    EXPECT(schema_compile(&arena, parsed(&arena, schema_yaml), &schema, NULL) == 0);
    rules_validate(&admit, rules_compile(&arena, schema, NULL, STR("s")), schema, &warnings);
    expect_text(causes(&arena, &admit), wanted);
    EXPECT(str_is(warnings, warned));
    arena_done(&arena);
}

#define SPEC(rules)                                                                     \
    "{type: object, properties: {spec: {type: object, properties: {x: {type: integer}," \
    " t: {type: string, format: date-time}}}}, x-kubernetes-validations: [" rules "]}"

TEST(a_rule_that_fails_is_told_as_it_asks)
{
    static const struct {
        const char *schema;
        const char *wanted;
    } rows[] = {
        {SPEC("{rule: 'self.spec.x > 1', fieldPath: .spec.x, reason: FieldValueRequired, message: "
              "give more}"),
         "spec.x: Required value: give more\n"},
        {SPEC("{rule: 'self.spec.x > 1', fieldPath: .spec.x, reason: FieldValueDuplicate}"),
         "spec.x: Duplicate value: \"object\"\n"},
        {SPEC(
             "{rule: 'self.spec.x > 1', reason: FieldValueInvalid, messageExpression: '\"x is \" + "
             "string(self.spec.x)'}"),
         "<nil>: Invalid value: \"object\": x is 1\n"},
        {SPEC("{rule: 'self.spec.x > 1', messageExpression: '\"  \"', message: m}"),
         "<nil>: Invalid value: \"object\": m\n"},
        {SPEC("{rule: 'self.spec.x > 1', messageExpression: '\"a\\nb\"', message: m}"),
         "<nil>: Invalid value: \"object\": m\n"},
        {SPEC("{rule: 'self.spec.x > 1', messageExpression: 'string(1 / 0)', message: m}"),
         "<nil>: Invalid value: \"object\": m\n"},
        {SPEC("{rule: 'dyn(self.spec.x)'}"),
         "<nil>: Invalid value: \"object\": 'no such overload': call arguments did not match a "
         "supported operator, function or macro signature for rule: dyn(self.spec.x)\n"},
        {SPEC("{rule: 'dyn(self.spec.x) + \"a\" == \"\"', message: m}"),
         "<nil>: Invalid value: \"object\": 'no such overload': call arguments did not match a "
         "supported operator, function or macro signature for rule: m\n"},
        {SPEC("{rule: 'self.nope'}"), "<nil>: Invalid value: \"object\": rule compile error: "
                                      "ERROR: <input>:1:5: undefined field "
                                      "'nope'\n"},
        {SPEC("{rule: 'self.spec.x'}, {rule: ''}, {rule: 'true', optionalOldSelf: true}"),
         "<nil>: Invalid value: \"object\": rule compile error: cel expression must evaluate to a "
         "bool\n"
         "<nil>: Invalid value: \"object\": rule compile error: the rule is not complete\n"},
        {SPEC("{rule: 'oldSelf.hasValue() || self.spec.x > 1', optionalOldSelf: true}"),
         "<nil>: Invalid value: \"object\": failed rule: oldSelf.hasValue() || self.spec.x > 1\n"},
        {SPEC("{rule: 'self.spec.x == oldSelf.spec.x'}"), ""},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++)
        expect_said(rows[i].schema, "{spec: {x: 1}}", NULL, rows[i].wanted, "");
    expect_said(SPEC("{rule: 'self.spec.x > 1'}, {rule: 'self.spec.x > 2', message: m}"),
                "{spec: {x: 1}}", "{spec: {x: 1}}", "",
                "<nil>: Invalid value: \"object\": failed rule: self.spec.x > 1\n"
                "<nil>: Invalid value: \"object\": m");
    expect_said("{type: object}", "{}", NULL, "", "");
}

static const char typed_schema_text[] =
    "type: object\n"
    "properties:\n"
    "  num: {type: integer}\n"
    "  double__x: {type: integer}\n"
    "  real: {type: number}\n"
    "  ok: {type: boolean}\n"
    "  text: {type: string}\n"
    "  maybe: {type: string, nullable: true}\n"
    "  when: {type: string, format: date-time}\n"
    "  port: {x-kubernetes-int-or-string: true}\n"
    "  tags: {type: array, maxItems: 9, items: {type: string, maxLength: 9}}\n"
    "  nums: {type: array, maxItems: 9, items: {type: integer}}\n"
    "  labels: {type: object, maxProperties: 9, additionalProperties: {type: string, maxLength: "
    "9}}\n"
    "  inner: {type: object, properties: {x: {type: integer}}}\n"
    "  other: {type: object, properties: {x: {type: integer}}}\n"
    "  loose: {type: object, x-kubernetes-preserve-unknown-fields: true}\n"
    "  anything: {x-kubernetes-preserve-unknown-fields: true}\n"
    "  items: {type: array, maxItems: 9, items: {type: object, properties: {x: {type: "
    "integer}}}}\n";

/* A CRD's schema with one rule: `words` are in what is said about it; NULL: it is taken. */
static void expect_typed(const char *member, const char *text, const char *words)
{
    struct arena arena = {0};
    const struct schema *schema = NULL;
    struct admit admit = {.arena = &arena};
    struct json *source = parsed(&arena, typed_schema_text);
    struct json *rule = json_new_object(&arena);

    test_case(text);
    (void)json_set(rule, STR("rule"), json_new_str(&arena, STR("true")));
    (void)json_set(rule, str_from(member), json_new_str(&arena, str_from(text)));
    (void)json_push(json_add_array(&arena, source, "x-kubernetes-validations"), rule);
    EXPECT(schema_compile(&arena, source, &schema, NULL) == 0);
    (void)rules_compile(&arena, schema, &admit, STR("s"));
    struct str said = causes(&arena, &admit);
    EXPECT(words ? str_contains(said, str_from(words)) : !said.len);
    if (words ? !str_contains(said, str_from(words)) : said.len > 0)
        (void)fprintf(stderr, "%s: " STR_FMT "\n", text, STR_ARG(said));
    arena_done(&arena);
}

static void expect_rule(const char *rule, const char *words)
{
    expect_typed("rule", rule, words);
}

static void expect_words(const char *expression, const char *words)
{
    expect_typed("messageExpression", expression, words);
}

/* Known when the CRD is made, in the words of cel-go; an object has the type of its schema. */
TEST(a_rule_whose_types_do_not_fit_is_refused_with_the_crd)
{
    static const struct {
        const char *rule;
        const char *words;
    } rows[] = {
        {"self.num > 'a'",
         "<input>:1:10: found no matching overload for '_>_' applied to '(int, string)'"},
        {"self.num == 'a'",
         "<input>:1:10: found no matching overload for '_==_' applied to '(int, string)'"},
        {"self.num != self.text",
         "<input>:1:10: found no matching overload for '_!=_' applied to '(int, string)'"},
        {"self.num == 1.0",
         "<input>:1:10: found no matching overload for '_==_' applied to '(int, double)'"},
        {"self.num == null",
         "<input>:1:10: found no matching overload for '_==_' applied to '(int, null)'"},
        {"self.maybe == null",
         "<input>:1:12: found no matching overload for '_==_' applied to '(string, null)'"},
        {"self.num + self.real > 1.0",
         "<input>:1:10: found no matching overload for '_+_' applied to '(int, double)'"},
        {"self.text - 'a' == ''",
         "<input>:1:11: found no matching overload for '_-_' applied to '(string, string)'"},
        {"self.real % 2.0 == 0.0",
         "<input>:1:11: found no matching overload for '_%_' applied to '(double, double)'"},
        {"!self.num", "<input>:1:1: found no matching overload for '!_' applied to '(int)'"},
        {"-self.text == ''",
         "<input>:1:1: found no matching overload for '-_' applied to '(string)'"},
        {"self.num in self.tags",
         "<input>:1:10: found no matching overload for '@in' applied to '(int, list(string))'"},
        {"'a' in self.num",
         "<input>:1:5: found no matching overload for '@in' applied to '(string, int)'"},
        {"self.tags[0] == 1",
         "<input>:1:14: found no matching overload for '_==_' applied to '(string, int)'"},
        {"self.tags['a'] == ''",
         "<input>:1:10: found no matching overload for '_[_]' applied to '(list(string), string)'"},
        {"self.labels[0] == ''", "<input>:1:12: found no matching overload for '_[_]' applied to "
                                 "'(map(string, string), int)'"},
        {"self.labels == self.tags", "<input>:1:13: found no matching overload for '_==_' applied "
                                     "to '(map(string, string), list(string))'"},
        {"self.tags + self.nums == []", "<input>:1:11: found no matching overload for '_+_' "
                                        "applied to '(list(string), list(int))'"},
        {"self.num ? true : false",
         "<input>:1:10: found no matching overload for '_?_:_' applied to '(int, bool, bool)'"},
        {"self.ok ? true : 'no'",
         "<input>:1:9: found no matching overload for '_?_:_' applied to '(bool, bool, string)'"},
        {"self.num.startsWith('a')",
         "<input>:1:20: found no matching overload for 'startsWith' applied to 'int.(string)'"},
        {"self.text.startsWith(1)",
         "<input>:1:21: found no matching overload for 'startsWith' applied to 'string.(int)'"},
        {"self.text.matches(self.nums)",
         "<input>:1:18: found no matching overload for 'matches' applied to 'string.(list(int))'"},
        {"size(self.num) > 1",
         "<input>:1:5: found no matching overload for 'size' applied to '(int)'"},
        {"self.text.size(1) > 1",
         "<input>:1:15: found no matching overload for 'size' applied to 'string.(int)'"},
        {"self.tags.sum() > 1",
         "<input>:1:14: found no matching overload for 'sum' applied to 'list(string).()'"},
        {"self.nums.join(',') == ''",
         "<input>:1:15: found no matching overload for 'join' applied to 'list(int).(string)'"},
        {"quantity(self.num).sign() > 0",
         "<input>:1:9: found no matching overload for 'quantity' applied to '(int)'"},
        {"self.text.isGreaterThan(quantity('1'))",
         "<input>:1:24: found no matching overload for 'isGreaterThan' applied to "
         "'string.(kubernetes.Quantity)'"},
        {"self.when + 1 > self.when",
         "<input>:1:11: found no matching overload for '_+_' applied to '(timestamp, int)'"},
        {"self.when.getHours(1) == 1",
         "<input>:1:19: found no matching overload for 'getHours' applied to 'timestamp.(int)'"},
        {"self.?text.orValue(1) == 'a'", "<input>:1:19: found no matching overload for 'orValue' "
                                         "applied to 'optional_type(string).(int)'"},
        {"self.nums.filter(x, x).size() > 0", "<input>:1:17: found no matching overload for "
                                              "'_?_:_' applied to '(int, list(int), list(int))'"},
        {"self.nums.exists_one(x, x)",
         "<input>:1:21: found no matching overload for '_?_:_' applied to '(int, int, int)'"},
        {"self.inner == self.other",
         "<input>:1:12: found no matching overload for '_==_' applied to '(object, object)'"},
        {"self.inner.x == self.tags",
         "<input>:1:14: found no matching overload for '_==_' applied to '(int, list(string))'"},
        {"self.tags.first() == 'a'", "<input>:1:19: found no matching overload for '_==_' applied "
                                     "to '(optional_type(string), string)'"},
        {"self.nope == 1", "<input>:1:5: undefined field 'nope'"},
        {"self.inner.nope", "<input>:1:11: undefined field 'nope'"},
        {"self.tags.all(t, t.nope)",
         "<input>:1:19: type 'string' does not support field selection"},
        {"self.items.all(i, i.nope > 1)", "<input>:1:20: undefined field 'nope'"},
        {"self.items.map(i, i.x)[0].nope > 1",
         "<input>:1:26: type 'int' does not support field selection"},
        {"self.?inner.nope.hasValue()", "<input>:1:12: undefined field 'nope'"},
        {"self.loose.x == 1", "<input>:1:11: undefined field 'x'"},
        {"self.anything == 1", "<input>:1:5: undefined field 'anything'"},
        {"self.num.all(x, true)", "<input>:1:5: expression of type 'int' cannot be range of a "
                                  "comprehension (must be list, map, or dynamic)"},
        {"self.inner.all(x, true)", "<input>:1:5: expression of type 'object' cannot be range of a "
                                    "comprehension (must be list, map, or dynamic)"},
        {"self.num && true", "<input>:1:5: expected type 'bool' but found 'int'"},
        {"self.ok || self.text", "<input>:1:16: expected type 'bool' but found 'string'"},
        {"self.tags.all(t, t)", "<input>:1:18: expected type 'bool' but found 'string'"},
        {"[1, 'a'] == self.nums", "<input>:1:5: expected type 'int' but found 'string'"},
        {"{'a': 1, 'b': 'c'} == {}", "<input>:1:15: expected type 'int' but found 'string'"},
        {"self.text in ['a', dyn('b')]", "<input>:1:23: expected type 'string' but found 'dyn'"},
        {"self.num in [1, 2.0]", "<input>:1:17: expected type 'int' but found 'double'"},
        {"self.text.matches('(')", "<input>:1:19: invalid matches argument"},
        {"duration('1x') > duration('1s')", "<input>:1:10: invalid duration argument"},
        {"timestamp('today') == self.when", "<input>:1:11: invalid timestamp argument"},
        {"int('x') == 1", "<input>:1:4: type conversion error from string to int"},
        {"uint(-1) == 1u", "<input>:1:5: "},
        {"string(b'\\xff') == self.text", "<input>:1:7: invalid UTF-8 in bytes"},
        {"'%s %s'.format([self.text]) == ''", "<input>:1:15: index 1 out of range"},
        {"'%y'.format([self.num]) == ''", "<input>:1:12: could not parse formatting clause"},
        {"'%d%%'.format(['a']) == ''", "<input>:1:14: decimal clause can only be used on integers"},
        {"self.double__x == 1", "<input>:1:5: undefined field 'double__x'"},
        {"oldself == 1", "<input>:1:1: undeclared reference to 'oldself' (in container '')"},
        {"self.text.startswith('a')",
         "<input>:1:21: undeclared reference to 'startswith' (in container '')"},
        {"self.num", "cel expression must evaluate to a bool"},
        {"dyn(self.num)", "cel expression must evaluate to a bool"},
        {"self.port", "cel expression must evaluate to a bool"},
        {"self.text", "cel expression must evaluate to a bool"},
        {"self.tags", "cel expression must evaluate to a bool"},
        {"optional.of(true)", "cel expression must evaluate to a bool"},
        {"self.ok ? dyn(true) : false", "cel expression must evaluate to a bool"},
    };
    static const char *const taken[] = {
        "self.port == 1 || self.port == 'a'",
        "self.num < 1.0 && self.num >= 1u && self.real > 1",
        "self.inner == oldSelf.inner && self.inner != null && self.when != null",
        "self.tags + [] == self.tags && self.nums.all(n, n in self.nums)",
        "self.labels.all(k, self.labels[k].startsWith(k)) && 'a' in self.labels",
        "self.items.map(i, i.x).sum() > 0 && self.items.filter(i, i.x > 1).size() == 0",
        "self.items.exists(i, i.x == 1) && self.items[0].x + 1 == 2",
        "[] == [] && {} == {} && [[]] == [[1]] && size([]) == 0 && [].all(x, x)",
        "(self.ok ? [] : self.tags).size() == 0 && (self.ok ? self.tags : []).size() == 0",
        "'%s %d'.format([self.text, self.num]) == '' || '%s %d'.format(['a', dyn(1)]) == ''",
        "self.?inner.x.orValue(0) == 0 && self.?inner.?x.optMap(x, x + 1).orValue(1) == 1",
        "self.nums.first().orValue(1) == 1 && optional.none().orValue('a') == 'a'",
        "cel.bind(x, [], x + self.tags == self.tags) && type(self.num) == int",
        "dyn(self.num) == 'a' || dyn(self.text) > 1 || self.nums.min() == self.nums.max()",
        "self.labels.transformMap(k, v, v.size()).all(k, n, n > 0) && oldSelf.num == self.num",
        "[1, ?optional.of(2)] == self.nums && {?'a': self.?text} != {'b': 'c'}",
        "has(self.inner.x) && has(self.labels.a) && !has(self.maybe) && self.maybe == ''",
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++)
        expect_rule(rows[i].rule, rows[i].words);
    for (size_t i = 0; i < COUNT_OF(taken); i++)
        expect_rule(taken[i], NULL);
}

TEST(words_of_a_rule_that_are_no_text_are_refused_with_the_crd)
{
    expect_words("'a' + self.text", NULL);
    expect_words("self.num", "messageExpression must evaluate to a string");
    expect_words("dyn('a')", "messageExpression must evaluate to a string");
    expect_words("'a' + self.num",
                 "messageExpression compilation failed: ERROR: <input>:1:5: found "
                 "no matching overload for '_+_' applied to '(string, int)'");
}

/* What was taken when less was known of types still is, and shows itself when it is evaluated. */
TEST(a_rule_that_was_stored_is_not_refused_for_its_types)
{
    static const char schema[] =
        "{type: object, properties: {p: {type: integer, nullable: true}}, "
        "x-kubernetes-validations: [{rule: 'self.p == null || dyn(self.p)'}]}";

    expect_said(
        schema, "{p: 1}", NULL,
        "<nil>: Invalid value: \"object\": 'no such overload': call arguments did not match "
        "a supported operator, function or macro signature for rule: self.p == null || "
        "dyn(self.p)\n",
        "");
}

#define ALL_OF_MANY "self.many.all(a, self.many.all(b, self.many.all(c, a + b + c > 0)))"

TEST(words_that_cost_too_much_end_the_validation)
{
    struct arena arena = {0};
    struct str many = STR("1");

    for (size_t i = 0; i < 60; i++)
        many = str_printf(&arena, STR_FMT ", 1", STR_ARG(many));
    struct str object = str_printf(&arena, "{many: [" STR_FMT "]}", STR_ARG(many));
    expect_said("{type: object, properties: {many: {type: array, items: {type: integer}}}, "
                "x-kubernetes-validations: [{rule: 'false', messageExpression: "
                "'self.many.all(d, " ALL_OF_MANY
                ") ? \"a\" : \"b\"', message: m}, {rule: 'false'}]}",
                object.p, NULL,
                "<nil>: Invalid value: \"object\": no further validation rules will be run due to "
                "call cost exceeds limit for messageExpression: \"self.many.all(d, " ALL_OF_MANY
                ") ? \"a\" : \"b\"\"\n",
                "");
    arena_done(&arena);
}

TEST(what_is_replaced_whole_has_no_counterparts_in_it)
{
    struct arena arena = {0};
    const struct schema *schema = NULL;
    struct admit admit = {.arena = &arena};
    static const char text[] =
        "{type: object, properties: {whole: {type: object, x-kubernetes-map-type: atomic, "
        "properties: {x: {type: integer, x-kubernetes-validations: [{rule: 'self >= oldSelf'}, "
        "{rule: self > 0}]}}}}}";

    EXPECT(schema_compile(&arena, parsed(&arena, text), &schema, NULL) == 0);
    (void)rules_compile(&arena, schema, &admit, STR("s"));
    expect_text(causes(&arena, &admit),
                "s.properties[whole].properties[x].x-kubernetes-validations[0].rule: Invalid "
                "value: \"self >= oldSelf\": oldSelf cannot be used on the uncorrelatable portion "
                "of the schema within s.properties[whole]\n");
    arena_done(&arena);
    /* One that was taken before is not evaluated. */
    expect_said(text, "{whole: {x: 1}}", "{whole: {x: 2}}", "", "");
    expect_said(text, "{whole: {x: 0}}", "{whole: {x: 2}}",
                "whole.x: Invalid value: \"integer\": failed rule: self > 0\n", "");
}

TEST(rules_below_lists_and_maps_see_each_member)
{
    static const char lists[] =
        "{type: object, properties: {"
        "ports: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [name], "
        "items: {type: object, properties: {name: {type: string}, tags: {type: array, items: "
        "{type: string, x-kubernetes-validations: [{rule: self != 'bad'}]}}}, "
        "x-kubernetes-validations: [{rule: self.tags.size() >= oldSelf.tags.size()}]}}, "
        "plain: {type: array, items: {type: integer}}, "
        "map: {type: object, additionalProperties: {type: integer, nullable: true, "
        "x-kubernetes-validations: [{rule: self > 0}]}}}}";

    expect_said(lists,
                "{ports: [{name: a, tags: [good, bad]}, {name: b, tags: []}], plain: [1], map: {k: "
                "-1, l: 1, e: null}, other: 1}",
                "{ports: [{name: b, tags: [x]}, {name: a, tags: [x]}], map: {k: 0}}",
                "ports[0].tags[1]: Invalid value: \"string\": failed rule: self != 'bad'\n"
                "ports[1]: Invalid value: \"object\": failed rule: self.tags.size() >= "
                "oldSelf.tags.size()\n"
                "map[k]: Invalid value: \"integer\": failed rule: self > 0\n",
                "");
}

/* As in Kubernetes: a null of a field that may be null is as if nothing were said. */
TEST(a_field_that_is_null_is_not_there_and_a_key_is)
{
    static const char schema[] =
        "{type: object, properties: {p: {type: integer, nullable: true}, o: {type: object, "
        "nullable: true, properties: {x: {type: integer}}}, m: {type: object, "
        "additionalProperties: {type: integer, nullable: true}}}, x-kubernetes-validations: ["
        "{rule: '!has(self.p) || self.p > 0', message: p}, {rule: '!has(self.o)', message: o}, "
        "{rule: '!has(self.m) || has(self.m.a)', message: m}]}";

    expect_said(schema, "{p: null, o: null, m: {a: null}}", NULL, "", "");
    expect_said(schema, "{p: 0, o: {}, m: {}}", NULL,
                "<nil>: Invalid value: \"object\": p\n<nil>: Invalid value: \"object\": o\n"
                "<nil>: Invalid value: \"object\": m\n",
                "");
}

TEST(old_values_need_a_counterpart)
{
    struct arena arena = {0};
    const struct schema *schema = NULL;
    struct admit admit = {.arena = &arena};

    EXPECT(schema_compile(&arena,
                          parsed(&arena, "{type: object, properties: {list: {type: array, items: "
                                         "{type: integer, x-kubernetes-validations: [{rule: 'self "
                                         ">= oldSelf'}]}}}}"),
                          &schema, NULL) == 0);
    (void)rules_compile(&arena, schema, &admit, STR("s"));
    expect_text(causes(&arena, &admit),
                "s.properties[list].items.x-kubernetes-validations[0].rule: Invalid value: \"self "
                ">= oldSelf\": oldSelf cannot be used on the uncorrelatable portion of the schema "
                "within s.properties[list]\n");
    arena_done(&arena);
}

/* A CRD with these rules for a spec, of which the last field is bounded or not. */
static struct json *crd_of(struct arena *arena, const char *rules, const char *bound)
{
    return parsed(
        arena,
        str_printf(arena,
                   "{spec: {versions: [{name: v1, schema: {openAPIV3Schema: {type: object, "
                   "properties: {spec: {type: object, x-kubernetes-validations: [%s], properties: "
                   "{names: {type: array, items: {type: string, maxLength: 10000}, maxItems: "
                   "5000}, name: {type: string%s}}}}}}}]}}",
                   rules, bound)
            .p);
}

#define COST_PATH   "spec.versions[0].schema.openAPIV3Schema"
#define COST_RULE   COST_PATH ".properties[spec].x-kubernetes-validations"
#define COST_BUDGET "exceeds budget by factor of "
#define COST_HINT                                                                                 \
    " (try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, " \
    "maps, and strings are declared)\n"
#define COST_PART                                                                          \
    "Forbidden: contributed to estimated rule cost total exceeding cost limit for entire " \
    "OpenAPIv3 schema\n"
#define COST_TOTAL                                                                          \
    COST_PATH ": Forbidden: x-kubernetes-validations estimated rule cost total for entire " \
              "OpenAPIv3 schema " COST_BUDGET

TEST(rules_that_may_cost_too_much_are_refused)
{
    static const char twice[] = "{rule: 'self.names.all(x, x == self.name)'}";
    static const struct {
        const char *rules;
        const char *bound;
        const char *wanted;
        const char *unchanged; /* when the schema was there before */
        const char *why;
    } rows[] = {
        {twice, "",
         COST_RULE "[0].rule: Forbidden: estimated rule cost " COST_BUDGET "2.0x" COST_HINT, "",
         "a rule over its bound"},
        {twice, ", maxLength: 100", "", "", "what bounds a field bounds the rule"},
        {"{rule: 'true', messageExpression: \"self.names.map(x, x == self.name ? 'a' : 'b')[0]\"}",
         "",
         COST_RULE "[0].messageExpression: Forbidden: estimated messageExpression cost " COST_BUDGET
                   "2.0x" COST_HINT,
         "", "its words count, too"},
        {"{rule: 'self.name.contains(self.name)'}", "",
         COST_RULE "[0].rule: Forbidden: estimated rule cost " COST_BUDGET
                   "more than 100x" COST_HINT COST_RULE "[0].rule: " COST_PART COST_TOTAL
                   "more than 100x" COST_HINT,
         COST_RULE "[0].rule: " COST_PART COST_TOTAL "more than 100x" COST_HINT,
         "all together are over theirs, whether they were there before or not"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct arena arena = {0};
        struct json *crd = crd_of(&arena, rows[i].rules, rows[i].bound);
        struct json *other = crd_of(&arena, rows[i].rules, ", maxLength: 7");
        struct admit creation = {.arena = &arena, .object = crd};
        struct admit update = {.arena = &arena, .object = crd, .old = crd};
        struct admit change = {.arena = &arena, .object = crd, .old = other};

        test_case(rows[i].why);
        rules_check_crd(&creation);
        expect_text(causes(&arena, &creation), rows[i].wanted);
        rules_check_crd(&update);
        expect_text(causes(&arena, &update), rows[i].unchanged);
        rules_check_crd(&change);
        expect_text(causes(&arena, &change), rows[i].wanted);
        arena_done(&arena);
    }
}

TEST(a_rule_below_a_list_counts_for_every_item)
{
    static const struct {
        const char *list;
        bool refused;
        const char *why;
    } rows[] = {
        {"type: array, maxItems: 100, items: ", false, "a hundred times"},
        {"type: array, maxItems: 100000, items: ", true, "a hundred thousand times"},
        {"type: array, items: ", true, "as often as it fits into a request"},
        {"type: object, maxProperties: 100, additionalProperties: ", false, "maps as lists"},
        {"type: object, additionalProperties: ", true, "maps without a bound as well"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct arena arena = {0};
        struct admit admit = {.arena = &arena};

        test_case(rows[i].why);
        admit.object = parsed(
            &arena,
            str_printf(&arena,
                       "{spec: {versions: [{name: v1, schema: {openAPIV3Schema: {type: object, "
                       "properties: {spec: {%s{type: string, maxLength: 1000, "
                       "x-kubernetes-validations: [{rule: 'self == oldSelf || self < \"a\"'}, "
                       "{rule: 'self + self != self'}]}}}}}}]}}",
                       rows[i].list)
                .p);
        rules_check_crd(&admit);
        size_t forbidden = 0;
        for (size_t at = 0; at < admit.causes.count; at++)
            forbidden += str_starts(admit.causes.items[at].message, STR("Forbidden: estimated"));
        EXPECT((forbidden > 0) == rows[i].refused);
        arena_done(&arena);
    }
}

TEST(the_rules_of_our_own_crds_compile)
{
    for (size_t i = 0; i < crd_builtin_count; i++) {
        const struct crd_builtin *builtin = &crd_builtins[i];
        struct arena arena = {0};
        struct admit admit = {.arena = &arena, .kind = &kind_crd};

        test_case(builtin->name);
        EXPECT(json_parse(&arena, (struct str){builtin->text, builtin->text_len}, &admit.object,
                          NULL) == 0);
        rules_check_crd(&admit);
        expect_text(causes(&arena, &admit), "");
        arena_done(&arena);
    }
    EXPECT(crd_builtin_count > 10);
}
