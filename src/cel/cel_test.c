#include "api/schema.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/count.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "cel/cel.h"
#include "cel/expression_test.h"
#include "cel/value.h"
#include "test.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define OBJECT                                                                               \
    "{\"n\": 3, \"s\": \"abc\", \"f\": 1.5, \"list\": [3, 1, 2], \"names\": [\"a\", \"b\"]," \
    " \"map\": {\"x\": 1, \"y\": 2}, \"b\": true, \"nil\": null, \"a-b\": 7}"

static void expect_true(const char *const *texts, size_t count)
{
    expression_all_true(texts, count, OBJECT);
}

TEST(expressions_give_what_cel_says)
{
    static const char *const texts[] = {
        "true",
        "1 + 2 * 3 == 7",
        "(1 + 2) * 3 == 9",
        "-7 / 2 == -3 && -7 % 2 == -1",
        "7u / 2u == 3u",
        "1.5 + 1.5 == 3.0",
        "'a' + 'b' == 'ab'",
        "b'a' + b'\\x62' == b'ab'",
        "[1] + [2] == [1, 2]",
        "1 < 2 && 'a' < 'b' && 1.5 >= 1.5 && false < true",
        "dyn(1) == 1.0 && dyn(1u) == 1",
        "2u > 1",
        "1 in [1, 2] && !(3 in [1, 2]) && 'x' in self.map",
        "true ? true : 1 / 0 == 1",
        "false && 1 / 0 == 1 || true",
        "!(1 / 0 == 1 && false)",
        "1 / 0 == 1 || true",
        "self.n == 3 && self['n'] == 3 && self.list[0] == 3",
        "has(self.n) && !has(self.missing) && has(self.nil)",
        "self.nil == null",
        "self.f == 1.5",
        "self.list.all(x, x > 0) && self.list.exists(x, x == 2) && self.list.exists_one(x, x > 2)",
        "self.list.map(x, x * 2) == [6, 2, 4] && self.list.filter(x, x > 1) == [3, 2]",
        "self.list.map(x, x > 1, x * 2) == [6, 4]",
        "self.map.all(k, k in ['x', 'y']) && self.map.map(k, self.map[k]).sum() == 3",
        "self.list.all(i, v, i < 3 && v > 0)",
        "self.map.exists(k, v, k == 'y' && v == 2)",
        "self.list.transformList(i, v, i + v) == [3, 2, 4]",
        "self.map.transformMap(k, v, v > 1, v * 10) == {'y': 20}",
        "[1, 2].transformMapEntry(i, v, {string(v): i}) == {'1': 0, '2': 1}",
        "[[1, 2], [3]].exists(x, x.exists(y, y == 3))",
        "cel.bind(x, self.n * 2, x + x == 12)",
        "type(1) == int && type('a') == string && type(int) == type",
        "type(timestamp('2024-01-01T00:00:00Z')) == google.protobuf.Timestamp",
        "size('h\u00e9') == 2 && 'abc'.size() == 3 && size([1]) == 1 && size({'a': 1}) == 1",
        "'\\u00e9' == '\u00e9' && r'\\n' == '\\\\n' && '''a'b''' == \"a'b\"",
        "0x10 == 16 && -9223372036854775808 < 0 && 18446744073709551615u > 1u",
        "self.a__dash__b == 7",
        "int('42') == 42 && string(42) == '42' && double('1.5') == 1.5 && uint(3) == 3u",
        "int(3.9) == 3 && bool('true') && bytes('a') == b'a' && string(b'a') == 'a'",
        "{'a': 1, 'b': 2} == {'b': 2, 'a': 1}",
        "// a comment\n1 == 1",
    };

    expect_true(texts, COUNT_OF(texts));
}

TEST(texts_have_the_functions_of_the_extension)
{
    static const char *const texts[] = {
        "self.s.contains('b') && self.s.startsWith('ab') && self.s.endsWith('bc')",
        "self.s.matches('^[a-c]+$') && matches('x1', '\\\\d')",
        "'abc'.charAt(1) == 'b' && 'abc'.charAt(3) == ''",
        "'hello'.indexOf('l') == 2 && 'hello'.lastIndexOf('l') == 3 && 'hello'.indexOf('l', 3) == "
        "3",
        "'h\u00e9llo'.indexOf('l') == 2",
        "['a', 'b'].join('-') == 'a-b' && ['a', 'b'].join() == 'ab'",
        "'TacoCat'.lowerAscii() == 'tacocat' && 'abc'.upperAscii() == 'ABC'",
        "'hello hello'.replace('he', 'we') == 'wello wello'",
        "'hello hello'.replace('he', 'we', 1) == 'wello hello' && 'ab'.replace('', '-') == '-a-b-'",
        "'a,b,c'.split(',') == ['a', 'b', 'c'] && 'a,b,c'.split(',', 2) == ['a', 'b,c']",
        "'ab'.split('') == ['a', 'b'] && 'a'.split(',', 0) == []",
        "'tacocat'.substring(4) == 'cat' && 'tacocat'.substring(0, 4) == 'taco'",
        "'  a '.trim() == 'a' && 'abc'.reverse() == 'cba' && strings.quote('a\"b') == "
        "'\"a\\\\\"b\"'",
        "'%s has %d, %.2f, %x'.format(['a', 3, 1.5, 255]) == 'a has 3, 1.50, ff'",
        "'%s %s'.format([[1, 'a'], {'k': true, 'b': 1.5}]) == '[1, \"a\"] {\"b\":1.500000, "
        "\"k\":true}'",
        "'abc 123'.find('[0-9]+') == '123' && 'abc'.find('[0-9]+') == ''",
        "'1 22 333'.findAll('[0-9]+') == ['1', '22', '333'] && '1 2'.findAll('[0-9]', 1) == ['1']",
        "'aXbX'.find('a.*X') == 'aXbX' && 'aXbX'.find('a.*?X') == 'aX'",
    };

    expect_true(texts, COUNT_OF(texts));
}

TEST(moments_are_counted_and_taken_apart)
{
    static const char *const texts[] = {
        "timestamp('2024-02-29T12:30:45.5Z').getDate() == 29",
        "timestamp('2024-02-29T12:30:45.5Z').getMonth() == 1",
        "timestamp('2024-02-29T12:30:45.5Z').getDayOfWeek() == 4",
        "timestamp('2024-02-29T12:30:45.5Z').getDayOfYear() == 59",
        "timestamp('2024-02-29T12:30:45.5Z').getHours('+02:00') == 14",
        "timestamp('2024-02-29T12:30:45.5Z').getMilliseconds() == 500",
        "timestamp('2024-01-01T00:00:00Z') + duration('24h') == timestamp('2024-01-02T00:00:00Z')",
        "timestamp('2024-01-02T00:00:00Z') - timestamp('2024-01-01T00:00:00Z') == duration('24h')",
        "duration('1h30m').getMinutes() == 90 && duration('-1.5s') < duration('0')",
        "string(duration('1h')) == '3600s' && string(timestamp(0)) == '1970-01-01T00:00:00Z'",
        "timestamp('2024-01-01T00:00:00+01:00') == timestamp('2023-12-31T23:00:00Z')",
        "int(timestamp('2009-02-13T23:31:30Z')) == 1234567890",
    };

    expect_true(texts, COUNT_OF(texts));
}

TEST(kubernetes_adds_its_own_functions)
{
    static const char *const texts[] = {
        "[1, 2, 2].isSorted() && !['b', 'a'].isSorted() && [1, 2].sum() == 3",
        "self.list.min() == 1 && self.list.max() == 3 && self.list.indexOf(1) == 1",
        "[1, 2, 1].lastIndexOf(1) == 2 && [].sum() == 0",
        "sets.contains([1, 2], [2]) && sets.equivalent([1, 2, 2], [2, 1])",
        "sets.intersects([1], [1, 2]) && !sets.intersects([1], [2])",
        "url('https://example.com:80/a/b?x=1&x=2&y').getHost() == 'example.com:80'",
        "url('https://example.com:80/a').getHostname() == 'example.com' && !isURL('x y')",
        "url('https://[::1]:80/a?x=1').getPort() == '80' && url('/path').getEscapedPath() == "
        "'/path'",
        "url('https://h/?x=1&x=2').getQuery() == {'x': ['1', '2']}",
        "ip('127.0.0.1').isLoopback() && ip('::1').family() == 6 && !isIP('1.2.3')",
        "string(ip('2001:db8::0:1')) == '2001:db8::1' && ip.isCanonical('127.0.0.1')",
        "cidr('192.168.0.0/16').containsIP('192.168.1.1') && "
        "!cidr('10.0.0.0/8').containsIP('11.0.0.1')",
        "cidr('192.168.1.5/24').masked() == cidr('192.168.1.0/24') && "
        "cidr('::1/128').prefixLength() == 128",
        "cidr('10.0.0.0/8').containsCIDR(cidr('10.1.0.0/16')) && string(cidr('::1/64').ip()) == "
        "'::1'",
        "quantity('1Gi').isGreaterThan(quantity('1000M')) && isQuantity('5m') && !isQuantity('x')",
        "quantity('50k').add(quantity('20k')) == quantity('70k') && quantity('3').asInteger() == 3",
        "quantity('50k').sub(20000).compareTo(quantity('30k')) == 0 && sign(quantity('-1')) == -1",
        "semver('1.2.3').isLessThan(semver('1.10.0')) && !isSemver('v1.0') && isSemver('v1.0', "
        "true)",
        "semver('1.0.0-rc.1').isLessThan(semver('1.0.0')) && semver('1.2.3').minor() == 2",
        "!format.dns1123Label().validate('my-name').hasValue()",
        "format.dns1123Label().validate('A_b').hasValue() && format.named('nope') == "
        "optional.none()",
        "format.named('uuid').value().validate('6ba7b810-9dad-11d1-80b4-00c04fd430c8') == "
        "optional.none()",
    };

    expect_true(texts, COUNT_OF(texts));
}

TEST(addresses_are_told_apart_by_what_they_are_for)
{
    static const char *const texts[] = {
        "ip('0.0.0.0').isUnspecified() && ip('::').isUnspecified()",
        "!ip('0.0.0.1').isUnspecified() && !ip('::1').isUnspecified()",
        "ip('127.255.0.9').isLoopback() && ip('::1').isLoopback()",
        "!ip('128.0.0.1').isLoopback() && !ip('::2').isLoopback() && !ip('1::1').isLoopback()",
        "ip('224.0.0.251').isLinkLocalMulticast() && ip('ff02::1').isLinkLocalMulticast()",
        "!ip('224.0.1.1').isLinkLocalMulticast() && !ip('224.1.0.1').isLinkLocalMulticast() && "
        "!ip('225.0.0.1').isLinkLocalMulticast()",
        "!ip('ff05::1').isLinkLocalMulticast() && !ip('fe02::1').isLinkLocalMulticast()",
        "ip('169.254.1.1').isLinkLocalUnicast() && ip('fe80::1').isLinkLocalUnicast() && "
        "ip('febf::1').isLinkLocalUnicast()",
        "!ip('169.253.1.1').isLinkLocalUnicast() && !ip('168.254.1.1').isLinkLocalUnicast() && "
        "!ip('fec0::1').isLinkLocalUnicast() && !ip('ff80::1').isLinkLocalUnicast()",
        "ip('8.8.8.8').isGlobalUnicast() && ip('10.0.0.1').isGlobalUnicast() && "
        "ip('2001:db8::1').isGlobalUnicast()",
        "!['0.0.0.0', '127.0.0.1', '169.254.1.1', '224.0.0.1', '239.1.1.1', '255.255.255.255', "
        "'::', '::1', 'fe80::1', 'ff02::1', 'ff0e::1'].exists(a, ip(a).isGlobalUnicast())",
    };

    expect_true(texts, COUNT_OF(texts));
}

TEST(lists_have_a_first_and_a_last_where_they_have_any)
{
    static const char *const texts[] = {
        "[1, 2, 3].first() == optional.of(1) && [1, 2, 3].last().value() == 3",
        "[1].first() == [1].last() && ![].first().hasValue() && [].last() == optional.none()",
        "self.first().orValue(9) == 4 && self.last().orValue(9) == 5",
        "[4, 5].first().optMap(x, x + 1).orValue(0) == 5",
        "optional.unwrap([optional.of(42), optional.none(), optional.of(1)]) == [42, 1]",
        "[optional.of(42), optional.none()].unwrapOpt() == [42] && [].unwrapOpt() == []",
    };
    static const struct expression_error errors[] = {
        {"dyn('ab').first()", "no such overload"},
        {"dyn({'a': 1}).last()", "no such overload"},
        {"dyn([1]).unwrapOpt()", "no such overload"},
        {"optional.unwrap(dyn('a'))", "no such overload"},
    };

    expression_all_true(texts, COUNT_OF(texts), "[4, 5]");
    expression_all_fail(errors, COUNT_OF(errors), "[4, 5]");
}

TEST(optionals_hold_what_is_there)
{
    static const char *const texts[] = {
        "self.?n.orValue(0) == 3 && self.?missing.orValue(5) == 5",
        "self.?map.?x.hasValue() && !self.?map.?z.hasValue() && self.?map.x.value() == 1",
        "self.list[?7].orValue(9) == 9 && self.map[?'x'].value() == 1",
        "optional.of(1).optMap(x, x + 1).value() == 2 && !optional.none().optMap(x, x + "
        "1).hasValue()",
        "optional.of(1).optFlatMap(x, optional.of(x + 1)).value() == 2",
        "[?self.?missing, 1] == [1] && {?'a': self.?n, ?'b': self.?missing} == {'a': 3}",
        "optional.ofNonZeroValue('') == optional.none() && "
        "optional.of(1).or(optional.of(2)).value() == 1",
        "optional.none().or(optional.of(2)) == optional.of(2)",
        "optional.of(1).orValue(1 / 0) == 1",
        "!has(self.?missing.x) || true",
    };

    expect_true(texts, COUNT_OF(texts));
}

TEST(what_cannot_be_evaluated_says_why)
{
    static const struct expression_error rows[] = {
        {"self.missing == 1", "no such key: missing"},
        {"self.list[5] == 1", "index out of bounds: 5"},
        {"1 / 0 == 1", "division by zero"},
        {"self.n % 0 == 1", "modulus by zero"},
        {"9223372036854775807 + self.n > 0", "integer overflow"},
        {"0u - 1u == 0u", "unsigned integer overflow"},
        {"self.s + self.n == 'x'", "no such overload"},
        {"self.s && true", "no such overload"},
        {"self.s.size() + self.s.charAt(9).size() == 1", "index out of range: 9"},
        {"timestamp('9999-12-31T23:59:59Z') + duration('1s') == timestamp(0)",
         "timestamp overflow"},
        {"self.s.matches('(')", "pattern \"(\": ')' is missing at character 2"},
        {"optional.none().value() == 1", "optional.none() dereference"},
        {"int('x') == 1", "type conversion error from string to int"},
        {"{'a': 1, 'a': 2} == {}", "Failed with repeated key"},
        {"self.list.exists_one(x, x / 0 == 1)", "division by zero"},
        {"timestamp(0).getHours('Europe/Berlin') == 1", "unknown time zone Europe/Berlin"},
    };

    expression_all_fail(rows, COUNT_OF(rows), OBJECT);
}

TEST(an_expression_stops_when_it_costs_too_much)
{
    static const char *const texts[] = {
        "[1, 2, 3, 4, 5, 6, 7, 8, 9, 10].map(a, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10].map(b, [1, 2, 3, "
        "4, "
        "5, 6, 7, 8, 9, 10].map(c, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10].map(d, [1, 2, 3, 4, 5, 6, 7, 8, "
        "9, 10].map(e, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10].map(f, a + b)))))).size() == 10",
        "false && [1, 2, 3, 4, 5, 6, 7, 8, 9, 10].all(x, true) || "
        "cel.bind(a, 'aaaaaaaaaa'.replace('a', 'aaaaaaaaaaaaaaaaaaaa'), "
        "cel.bind(b, a.replace('a', a), cel.bind(c, b.replace('a', b), "
        "c.replace('a', c).size() > 0)))",
        "cel.bind(a, [0, 0, 0, 0, 0, 0, 0, 0], cel.bind(b, a + a + a + a + a + a + a + a, "
        "cel.bind(c, b + b + b + b + b + b + b + b, cel.bind(d, c + c + c + c + c + c + c + c, "
        "cel.bind(e, d + d + d + d + d + d + d + d, cel.bind(f, e + e + e + e + e + e + e + e, "
        "f + f + f + f + f + f + f + f == [] || true))))))",
    };

    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        struct arena arena = {0};
        struct cel_result result = expression_value(&arena, texts[i], OBJECT, CEL_COST_MAX);

        test_case(texts[i]);
        EXPECT(result.out_of_cost && result.value.type == CEL_ERROR);
        EXPECT(str_starts(result.value.s, STR("operation cancelled: ")));
        EXPECT(arena.bytes_used < 2 * CEL_MEMORY_MAX);
        arena_done(&arena);
    }
}

TEST(large_values_cost_by_what_is_looked_at)
{
    static const char *const texts[] = {
        "self.list.all(x, self.list == self.list)",
        "self.list.all(i, x, self.list[i] == x)",
        "self.list.all(x, [self] == [self])",
        "self.list.all(x, !(-1 in self.list))",
        "self.list.all(x, !self.text.matches('(a?){900}b'))",
        "self.list.all(x, self.text.replace(self.text.substring(1) + 'b', '') == self.text)",
    };
    struct buf object = {0};

    buf_add(&object, STR("{\"list\":[0"));
    for (size_t i = 0; i < 20000; i++)
        buf_add(&object, STR(",1"));
    buf_add(&object, STR("],\"text\":\""));
    for (size_t i = 0; i < 20000; i++)
        buf_addc(&object, 'a');
    buf_add(&object, STR("\"}"));
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        struct arena arena = {0};
        struct cel_result result = expression_value(&arena, texts[i], object.p, CEL_COST_MAX);

        test_case(texts[i]);
        EXPECT(result.out_of_cost);
        EXPECT(arena.bytes_used < 2 * CEL_MEMORY_MAX);
        arena_done(&arena);
    }
    buf_done(&object);
}

/* ---- what is refused before it runs ---- */

#define SCHEMA                                                                                   \
    "{\"type\": \"object\", \"properties\": {\"spec\": {\"type\": \"object\", \"properties\": {" \
    "\"replicas\": {\"type\": \"integer\"}, \"name\": {\"type\": \"string\"},"                   \
    "\"port\": {\"x-kubernetes-int-or-string\": true},"                                          \
    "\"labels\": {\"type\": \"object\", \"additionalProperties\": {\"type\": \"string\"}},"      \
    "\"since\": {\"type\": \"string\", \"format\": \"date-time\"},"                              \
    "\"items\": {\"type\": \"array\", \"items\": {\"type\": \"object\", \"properties\": {"       \
    "\"x\": {\"type\": \"number\"}}}}}}}}"

static int compiled(struct arena *arena,
                    const char *text,
                    struct cel_program **ret,
                    struct err *err)
{
    struct json *source = NULL;
    const struct schema *schema = NULL;

    EXPECT(json_parse(arena, STR(SCHEMA), &source, NULL) == 0);
    EXPECT(schema_compile(arena, source, &schema, NULL) == 0);
    struct cel_variable *variable = ARENA_NEW(arena, struct cel_variable);
    *variable = (struct cel_variable){.name = "self", .schema = schema, .resource = true};
    return cel_compile(
        &(struct cel_compile){
            .arena = arena, .text = str_from(text), .variables = variable, .variable_count = 1},
        ret, err);
}

TEST(what_an_expression_cannot_mean_is_refused_with_its_place)
{
    static const struct {
        const char *text;
        const char *words;
    } rows[] = {
        {"self.spec.replicas >", "ERROR: <input>:1:21: Syntax error: mismatched input '<EOF>'"},
        {"1 +\n  ) 2", "ERROR: <input>:2:3: Syntax error: mismatched input ')'"},
        {"'abc", "ERROR: <input>:1:1: Syntax error: this text has no end '''"},
        {"#", "ERROR: <input>:1:1: Syntax error: token recognition error at '#'"},
        {"self.spec.z > 1", "ERROR: <input>:1:10: undefined field 'z'"},
        {"self.status == 1", "ERROR: <input>:1:5: undefined field 'status'"},
        {"self.metadata.labels == {}", "ERROR: <input>:1:14: undefined field 'labels'"},
        {"self.spec.items.all(i, i.y > 1.0)", "ERROR: <input>:1:25: undefined field 'y'"},
        {"other == 1", "ERROR: <input>:1:1: undeclared reference to 'other' (in container '')"},
        {"nope(1)", "ERROR: <input>:1:5: undeclared reference to 'nope' (in container '')"},
        {"size()", "ERROR: <input>:1:5: found no matching overload for 'size' applied to '()'"},
        {"self.spec.replicas == 'a'",
         "ERROR: <input>:1:20: found no matching overload for '_==_' applied to '(int, string)'"},
        {"self.spec.replicas + self.spec.name == 1",
         "ERROR: <input>:1:20: found no matching overload for '_+_' applied to '(int, string)'"},
        {"self.spec.name && true", "ERROR: <input>:1:10: expected type 'bool' but found 'string'"},
        {"has(self)", "ERROR: <input>:1:5: invalid argument to has() macro"},
        {"[1].all(x.y, true)", "ERROR: <input>:1:10: argument must be a simple name"},
        {"Foo{a: 1}", "ERROR: <input>:1:4: messages cannot be made here: there is no type 'Foo'"},
        {"package == 1", "ERROR: <input>:1:1: Syntax error: reserved identifier: 'package'"},
        {"9223372036854775808 == 1", "ERROR: <input>:1:1: Syntax error: invalid int literal '9'"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct arena arena = {0};
        struct cel_program *program = NULL;
        struct err err = {0};

        test_case(rows[i].text);
        EXPECT(compiled(&arena, rows[i].text, &program, &err) < 0);
        EXPECT(strcmp(err.text, rows[i].words) == 0);
        if (strcmp(err.text, rows[i].words) != 0)
            (void)fprintf(stderr, "%s: %s\n", rows[i].text, err.text);
        arena_done(&arena);
    }
}

TEST(a_schema_says_what_the_fields_are)
{
    static const char *const texts[] = {
        "self.spec.replicas == 2 && self.metadata.name == 'a' && self.kind == 'K'",
        "self.spec.items.all(i, i.x > 1.0) && self.spec.items[0].x == 2.0",
        "self.spec.since < timestamp('2025-01-01T00:00:00Z')",
        "self.spec.labels.all(k, self.spec.labels[k] == 'v') && 'l' in self.spec.labels",
        "self.spec.port == 80 && type(self.spec.port) == int",
        "!has(self.spec.name) && self.spec.?name.orValue('none') == 'none'",
    };
    static const char object[] = "{\"kind\": \"K\", \"metadata\": {\"name\": \"a\"}, \"spec\": "
                                 "{\"replicas\": 2, \"port\": 80,"
                                 "\"since\": \"2024-05-01T00:00:00Z\", \"labels\": {\"l\": \"v\"}, "
                                 "\"items\": [{\"x\": 2}]}}";

    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        struct arena arena = {0};
        struct cel_program *program = NULL;
        struct json *json = NULL;
        struct err err = {0};

        test_case(texts[i]);
        EXPECT(compiled(&arena, texts[i], &program, &err) == 0);
        EXPECT(json_parse(&arena, str_from(object), &json, NULL) == 0);
        if (program) {
            struct cel_value self = cel_from_resource(&arena, json, program->variables[0].schema);

            EXPECT(cel_is_true(cel_evaluate(program, &arena, &self, CEL_COST_MAX).value));
            EXPECT(cel_uses(program, "self") && !cel_uses(program, "other"));
        }
        arena_done(&arena);
    }
}

TEST(an_expression_is_bounded_in_depth_and_size)
{
    struct arena arena = {0};
    char deep[1200];
    struct cel_program *program = NULL;
    struct err err = {0};

    for (size_t i = 0; i < 400; i++)
        deep[i] = '(';
    (void)snprintf(deep + 400, sizeof(deep) - 400, "1");
    EXPECT(compiled(&arena, deep, &program, &err) < 0);
    EXPECT(strstr(err.text, "nested deeper than 100 levels"));
    for (size_t i = 0; i < 299; i++)
        memcpy(deep + 2 * i, "1+", 2);
    (void)snprintf(deep + 598, sizeof(deep) - 598, "1 > 0");
    EXPECT(compiled(&arena, deep, &program, &err) < 0);
    EXPECT(strstr(err.text, "nested deeper than 250 levels"));
    arena_done(&arena);
}
