#include "base/arena.h"
#include "base/buf.h"
#include "base/count.h"
#include "base/err.h"
#include "base/str.h"
#include "cel/cel.h"
#include "cel/expression_test.h"
#include "cel/value.h"
#include "test.h"

#include <errno.h>
#include <stddef.h>

#define OBJECT "{\"n\": 3, \"a-b\": 7, \"list\": [1, 2], \"in\": 5, \"x__y\": 6, \"a.b/c\": 8}"

TEST(literals_are_written_in_every_form_of_the_language)
{
    static const char *const texts[] = {
        "'\\x41\\X41\\u0041\\U00000041\\101' == 'AAAAA' && '\\u4e16\\U0001F600'.size() == 2",
        "b'\\x41\\101\\377' == b'AA\\xff' && '\\?\\`\\'\\\"\\\\' == r'''?`'\"\\'''",
        "R'\\n' == r'\\n' && rb'\\n' == b'\\\\n' && bR\"\"\"a\"\"\" == B'a' && br'a' == Rb'a'",
        "'''a\nb''' == 'a\\nb' && \"\"\"a\"b\"\"\" == 'a\"b' && '''a''b''' == \"a''b\"",
        "'\\a\\b\\f\\n\\r\\t\\v'.size() == 7 && '' == \"\" && '\u00e9' == '\\u00E9'",
        "1e3 == 1000.0 && 1.5e+3 == 1500.0 && 15e-1 == 1.5 && 1E3 == 1000.0 && .5 == 0.5",
        "0XfF == 255 && 0xFFu == 255u && -0x10 == -16 && 1U == 1u && 0xaBcDeF == 11259375",
        "-1.5 == 0.0 - 1.5 && -.5 == -0.5 && -0 == 0 && -1 == 0 - 1",
        "\t\r\n\f1 == 1 // the end",
        "1 // one\n == 1",
        "4 / 2 == 2",
        "self.`a-b` == 7 && self.a__dash__b == 7 && self.x__underscores__y == 6",
        "self.__in__ == 5 && has(self.__in__) && self.a__dot__b__slash__c == 8",
        "has(self.a__dash__b) && !has(self.a__dash__c) && self.?a__dash__b.hasValue()",
        ".self.n == 3 && self . n == 3 && (self).n == 3",
        "[1, 2,] == [1, 2] && {'a': 1,} == {'a': 1} && [[], {}] == [[], {}]",
        "true ? (false ? 1 == 2 : true) : false",
        "false ? 1 == 2 : false ? 1 == 2 : true",
        ".sets.contains([1], [1]) && .size([1]) == 1",
        "{'a': 1}.a == 1 && [1, 2, 3][1] == 2 && 'abc'.size() == 3 && {?'a': optional.none()} == "
        "{}",
        "1 + 2 * 3 - 4 / 2 % 3 == 5 && !(1 > 2) && 1 < 2 == true",
    };
    static const char *const known[] = {
        "null == null && true != false",
        "self.list.map(self, self * 2) == [2, 4] && self.n == 3",
        "self.list.all(int, int > 0) && int('3') == 3",
        "cel.bind(cel, 2, cel + 1) == 3 && [1].map(x, cel.bind(y, x + 1, x * y)) == [2]",
        "optional.of(self).optMap(o, o.n) == optional.of(3)",
    };

    expression_all_true(texts, COUNT_OF(texts), OBJECT);
    expression_all_true(known, COUNT_OF(known), OBJECT);
}

TEST(what_is_no_token_is_refused_at_its_place)
{
    static const struct expression_error rows[] = {
        {"0x", "ERROR: <input>:1:3: Syntax error: invalid int literal"},
        {"0x1ffffffffffffffff", "ERROR: <input>:1:3: Syntax error: invalid int literal '1'"},
        {"18446744073709551616u", "ERROR: <input>:1:1: Syntax error: invalid uint literal '1'"},
        {"99999999999999999999", "ERROR: <input>:1:1: Syntax error: invalid int literal '9'"},
        {"-1u", "ERROR: <input>:1:1: Syntax error: a uint has no sign '-'"},
        {"-9223372036854775809", "ERROR: <input>:1:2: Syntax error: invalid int literal '9'"},
        {"1e999", "ERROR: <input>:1:1: Syntax error: invalid double literal '1'"},
        {"-1e999", "ERROR: <input>:1:2: Syntax error: invalid double literal '1'"},
        {"1 + '\\q'", "ERROR: <input>:1:7: Syntax error: unknown escape 'q'"},
        {"'\\x4'", "ERROR: <input>:1:4: Syntax error: an escape has too few digits '4'"},
        {"'\\xg0'", "ERROR: <input>:1:4: Syntax error: an escape has too few digits 'g'"},
        {"'\\4'", "ERROR: <input>:1:3: Syntax error: unknown escape '4'"},
        {"'\\18'", "ERROR: <input>:1:3: Syntax error: an escape has too few digits '1'"},
        {"'\\ud800'", "ERROR: <input>:1:7: Syntax error: an escape is no character '0'"},
        {"'\\udfff'", "ERROR: <input>:1:7: Syntax error: an escape is no character 'f'"},
        {"'\\U00110000'", "ERROR: <input>:1:11: Syntax error: an escape is no character '0'"},
        {"b'\\u0041'", "ERROR: <input>:1:8: Syntax error: bytes have no \\u '1'"},
        {"'a\nb'", "ERROR: <input>:1:1: Syntax error: this text has no end '''"},
        {"\"a\rb\"", "ERROR: <input>:1:1: Syntax error: this text has no end '\"'"},
        {"'''abc''", "ERROR: <input>:1:1: Syntax error: this text has no end '''"},
        {"'abc\\", "ERROR: <input>:1:6: Syntax error: unknown escape"},
        {"`abc", "ERROR: <input>:1:1: Syntax error: this name has no end '`'"},
        {"``", "ERROR: <input>:1:1: Syntax error: this name has no end '`'"},
        {"1 == 1 & true", "ERROR: <input>:1:8: Syntax error: token recognition error at '&'"},
        {"a @ b", "ERROR: <input>:1:3: Syntax error: token recognition error at '@'"},
        {"rr'a'", "ERROR: <input>:1:3: Syntax error: mismatched input ''a''"},
        {"bb'a'", "ERROR: <input>:1:3: Syntax error: mismatched input ''a''"},
        {"brb'a'", "ERROR: <input>:1:4: Syntax error: mismatched input ''a''"},
        {"1e", "ERROR: <input>:1:2: Syntax error: mismatched input 'e'"},
        {"1e+", "ERROR: <input>:1:2: Syntax error: mismatched input 'e'"},
        {"1.", "ERROR: <input>:1:3: Syntax error: mismatched input '<EOF>'"},
    };

    expression_all_fail(rows, COUNT_OF(rows), OBJECT);
}

TEST(what_is_no_expression_is_refused_at_its_place)
{
    static const struct expression_error rows[] = {
        {"", "ERROR: <input>:1:1: Syntax error: mismatched input '<EOF>'"},
        {"[1, 2", "ERROR: <input>:1:6: Syntax error: mismatched input '<EOF>'"},
        {"[1,", "ERROR: <input>:1:4: Syntax error: mismatched input '<EOF>'"},
        {"[,]", "ERROR: <input>:1:2: Syntax error: mismatched input ','"},
        {"[?", "ERROR: <input>:1:3: Syntax error: mismatched input '<EOF>'"},
        {"[1 '", "ERROR: <input>:1:4: Syntax error: this text has no end '''"},
        {"{1: 2", "ERROR: <input>:1:6: Syntax error: mismatched input '<EOF>'"},
        {"{1: 2, ", "ERROR: <input>:1:8: Syntax error: mismatched input '<EOF>'"},
        {"{1 2}", "ERROR: <input>:1:4: Syntax error: mismatched input '2'"},
        {"{?1}", "ERROR: <input>:1:4: Syntax error: mismatched input '}'"},
        {"{1: }", "ERROR: <input>:1:5: Syntax error: mismatched input '}'"},
        {"{1: 2 '", "ERROR: <input>:1:7: Syntax error: this text has no end '''"},
        {"{?'", "ERROR: <input>:1:3: Syntax error: this text has no end '''"},
        {"size(1", "ERROR: <input>:1:7: Syntax error: mismatched input '<EOF>'"},
        {"size(1,)", "ERROR: <input>:1:8: Syntax error: mismatched input ')'"},
        {"size('", "ERROR: <input>:1:6: Syntax error: this text has no end '''"},
        {"(1", "ERROR: <input>:1:3: Syntax error: mismatched input '<EOF>'"},
        {"('", "ERROR: <input>:1:2: Syntax error: this text has no end '''"},
        {"self.", "ERROR: <input>:1:6: Syntax error: mismatched input '<EOF>'"},
        {"self.1", "ERROR: <input>:1:5: Syntax error: mismatched input '.1'"},
        {"self.true", "ERROR: <input>:1:6: Syntax error: mismatched input 'true'"},
        {"self.in", "ERROR: <input>:1:6: Syntax error: mismatched input 'in'"},
        {"self.?", "ERROR: <input>:1:7: Syntax error: mismatched input '<EOF>'"},
        {"self.'", "ERROR: <input>:1:6: Syntax error: this text has no end '''"},
        {"self.n '", "ERROR: <input>:1:8: Syntax error: this text has no end '''"},
        {"self.n('", "ERROR: <input>:1:8: Syntax error: this text has no end '''"},
        {"self.?'", "ERROR: <input>:1:7: Syntax error: this text has no end '''"},
        {"self[1", "ERROR: <input>:1:7: Syntax error: mismatched input '<EOF>'"},
        {"self[", "ERROR: <input>:1:6: Syntax error: mismatched input '<EOF>'"},
        {"self['", "ERROR: <input>:1:6: Syntax error: this text has no end '''"},
        {"self[?'", "ERROR: <input>:1:7: Syntax error: this text has no end '''"},
        {"[1]'", "ERROR: <input>:1:4: Syntax error: this text has no end '''"},
        {"1 ?", "ERROR: <input>:1:4: Syntax error: mismatched input '<EOF>'"},
        {"1 ? 2", "ERROR: <input>:1:6: Syntax error: mismatched input '<EOF>'"},
        {"1 ? 2 :", "ERROR: <input>:1:8: Syntax error: mismatched input '<EOF>'"},
        {"1 ? '", "ERROR: <input>:1:5: Syntax error: this text has no end '''"},
        {"1 + ", "ERROR: <input>:1:5: Syntax error: mismatched input '<EOF>'"},
        {"1 + '", "ERROR: <input>:1:5: Syntax error: this text has no end '''"},
        {"-", "ERROR: <input>:1:2: Syntax error: mismatched input '<EOF>'"},
        {"-'", "ERROR: <input>:1:2: Syntax error: this text has no end '''"},
        {"!", "ERROR: <input>:1:2: Syntax error: mismatched input '<EOF>'"},
        {"&& true", "ERROR: <input>:1:1: Syntax error: mismatched input '&&'"},
        {"true &&", "ERROR: <input>:1:8: Syntax error: mismatched input '<EOF>'"},
        {"true || ", "ERROR: <input>:1:9: Syntax error: mismatched input '<EOF>'"},
        {"true && '", "ERROR: <input>:1:9: Syntax error: this text has no end '''"},
        {".", "ERROR: <input>:1:2: Syntax error: mismatched input '<EOF>'"},
        {".'", "ERROR: <input>:1:2: Syntax error: this text has no end '''"},
        {".(1)", "ERROR: <input>:1:2: Syntax error: mismatched input '('"},
        {".while", "ERROR: <input>:1:2: Syntax error: reserved identifier: 'while'"},
        {"true 2", "ERROR: <input>:1:6: Syntax error: mismatched input '2'"},
        {"true(1)", "ERROR: <input>:1:5: Syntax error: mismatched input '('"},
        {"self{}", "ERROR: <input>:1:5: messages cannot be made here: there is no type 'self'"},
        {"self.n{a: 1}", "ERROR: <input>:1:7: messages cannot be made here: there is no type 'n'"},
        {"[]{}", "ERROR: <input>:1:3: Syntax error: mismatched input '{'"},
        {"has(1)", "ERROR: <input>:1:5: invalid argument to has() macro"},
        {"has(self.?n)", "ERROR: <input>:1:9: invalid argument to has() macro"},
        {"has(1, 2)", "ERROR: <input>:1:4: undeclared reference to 'has' (in container '')"},
        {"[1].all(x)", "ERROR: <input>:1:9: undeclared reference to 'x' (in container '')"},
        {"[1].all(1, true)", "ERROR: <input>:1:9: argument must be a simple name"},
        {"[1].all(.x, true)", "ERROR: <input>:1:10: argument must be a simple name"},
        {"[1].all(x, 1, true)", "ERROR: <input>:1:12: argument must be a simple name"},
        {"[1].all(x, x, true)", "ERROR: <input>:1:8: the two variables have one name: 'x'"},
        {"[1].filter(x, y, true)",
         "ERROR: <input>:1:12: undeclared reference to 'x' (in container '')"},
        {"cel.bind(1, 2, 3)", "ERROR: <input>:1:10: argument must be a simple name"},
        {"cel.bind(x, 2)", "ERROR: <input>:1:1: undeclared reference to 'cel' (in container '')"},
        {"self.bind(x, 1, x)",
         "ERROR: <input>:1:11: undeclared reference to 'x' (in container '')"},
        {"[1].optMap(1, 2)", "ERROR: <input>:1:12: argument must be a simple name"},
        {"optional.of(1).optFlatMap(.x, 2)", "ERROR: <input>:1:28: argument must be a simple name"},
        {"authorizer('x')", "ERROR: <input>:1:11: authorizer is not there for this expression"},
        {"authorizer.group('').resource('pods').check('get').allowed()",
         "ERROR: <input>:1:1: authorizer is not there for this expression"},
        {"authorizer == null", "ERROR: <input>:1:1: authorizer is not there for this expression"},
        {"[1].all(x, y)", "ERROR: <input>:1:12: undeclared reference to 'y' (in container '')"},
        {"cel.bind(x, y, 1)", "ERROR: <input>:1:13: undeclared reference to 'y' (in container '')"},
        {"cel.bind(x, 1, y)", "ERROR: <input>:1:16: undeclared reference to 'y' (in container '')"},
        {"y ? 1 : 2", "ERROR: <input>:1:1: undeclared reference to 'y' (in container '')"},
        {"true ? y : 2", "ERROR: <input>:1:8: undeclared reference to 'y' (in container '')"},
        {"true ? 1 : y", "ERROR: <input>:1:12: undeclared reference to 'y' (in container '')"},
        {"y[0]", "ERROR: <input>:1:1: undeclared reference to 'y' (in container '')"},
        {"[1][y]", "ERROR: <input>:1:5: undeclared reference to 'y' (in container '')"},
        {"y + 1", "ERROR: <input>:1:1: undeclared reference to 'y' (in container '')"},
        {"-y", "ERROR: <input>:1:2: undeclared reference to 'y' (in container '')"},
        {"!y", "ERROR: <input>:1:2: undeclared reference to 'y' (in container '')"},
        {"y.size()", "ERROR: <input>:1:1: undeclared reference to 'y' (in container '')"},
        {"[y]", "ERROR: <input>:1:2: undeclared reference to 'y' (in container '')"},
        {"y.a", "ERROR: <input>:1:1: undeclared reference to 'y' (in container '')"},
        {"y.all(x, true)", "ERROR: <input>:1:1: undeclared reference to 'y' (in container '')"},
        {"[1].map(x, y, x)", "ERROR: <input>:1:12: undeclared reference to 'y' (in container '')"},
        {"self.n.foo()", "ERROR: <input>:1:11: undeclared reference to 'foo' (in container '')"},
        {"string(1, 2)", "ERROR: <input>:1:7: found no matching overload for 'string'"},
        {"sets.contains([1])",
         "ERROR: <input>:1:14: found no matching overload for 'sets.contains'"},
        {"sets.nope([1])", "ERROR: <input>:1:1: undeclared reference to 'sets' (in container '')"},
        {"true ? false ? 1 : 2 : 3", "ERROR: <input>:1:14: Syntax error: mismatched input '?'"},
    };

    expression_all_fail(rows, COUNT_OF(rows), OBJECT);
}

TEST(an_expression_is_bounded_in_length_variables_and_scopes)
{
    struct arena arena = {0};
    struct buf text = {0};
    struct cel_variable variables[CEL_VARIABLES_MAX + 1] = {0};
    struct cel_compile compile = {
        .arena = &arena, .text = STR("1"), .variables = variables, .variable_count = 65};
    struct cel_program *program = NULL;
    struct err err = {0};

    for (size_t i = 0; i < COUNT_OF(variables); i++)
        variables[i].name = "v";
    EXPECT(cel_compile(&compile, &program, &err) == -E2BIG);
    EXPECT(str_is(str_from(err.text), "an expression has at most 64 variables"));
    compile.variable_count = CEL_VARIABLES_MAX;
    EXPECT(cel_compile(&compile, &program, &err) == 0);
    while (text.len <= CEL_TEXT_BYTES_MAX)
        buf_addc(&text, ' ');
    compile.text = buf_str(&text);
    EXPECT(cel_compile(&compile, &program, &err) == -E2BIG);
    EXPECT(str_is(str_from(err.text), "the expression has 100001 bytes, at most 100000"));
    buf_clear(&text);
    for (size_t i = 0; i < 33; i++)
        buf_add(&text, STR("[1].all(i, v, "));
    buf_add(&text, STR("true"));
    for (size_t i = 0; i < 33; i++)
        buf_addc(&text, ')');
    compile.text = buf_str(&text);
    EXPECT(cel_compile(&compile, &program, &err) == -EINVAL);
    EXPECT(
        str_contains(str_from(err.text), STR("more than 32 comprehensions are inside each other")));
    buf_done(&text);
    arena_done(&arena);
}

TEST(a_loose_expression_shows_its_types_only_when_it_is_evaluated)
{
    static const struct {
        const char *text;
        enum cel_type type; /* of what it gives */
    } rows[] = {
        {"1 == 'a'", CEL_BOOL},          {"1 + 'a'", CEL_ERROR},   {"-'a'", CEL_ERROR},
        {"'a'.all(x, true)", CEL_ERROR}, {"1 && false", CEL_BOOL}, {"1 && true", CEL_ERROR},
        {"'a' ? 1 : 2", CEL_ERROR},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct arena arena = {0};
        struct cel_program *program = NULL;
        struct cel_compile compile = {.arena = &arena, .text = str_from(rows[i].text)};

        test_case(rows[i].text);
        EXPECT(cel_compile(&compile, &program, NULL) == -EINVAL);
        compile.loose = true;
        EXPECT(cel_compile(&compile, &program, NULL) == 0);
        EXPECT(cel_evaluate(program, &arena, NULL, CEL_COST_MAX).value.type == rows[i].type);
        arena_done(&arena);
    }
}
