#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/json.h"
#include "base/str.h"
#include "cel/cel.h"
#include "cel/expression_test.h"
#include "cel/value.h"
#include "test.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Cost and memory: an evaluation that reaches a bound is stopped, wherever it is. */

#define OBJECT                                                                    \
    "{\"s\": \"hello, hello\", \"list\": [[3], [1], [2]], \"n\": 3, \"t\": true," \
    " \"map\": {\"x\": 1, \"y\": 2}, \"texts\": [\"aa\", \"bb\"]}"

/* What it costs is what it needs: with a unit less it is stopped, and nothing passes over that. */
static void expect_stopped_below_its_cost(const char *text)
{
    struct arena arena = {0};
    struct cel_result whole = expression_value(&arena, text, OBJECT, CEL_COST_MAX);

    test_case(text);
    EXPECT(cel_is_true(whole.value) && !whole.out_of_cost);
    EXPECT(whole.cost > 0 && whole.cost < 10000);
    for (uint64_t most = 0; most <= whole.cost && whole.cost < 10000; most++) {
        struct arena scratch = {0};
        struct cel_result result = expression_value(&scratch, text, OBJECT, most);

        EXPECT(result.out_of_cost == (most < whole.cost));
        EXPECT(most == whole.cost
                   ? cel_is_true(result.value)
                   : result.value.type == CEL_ERROR &&
                         str_is(result.value.s, "operation cancelled: actual cost limit exceeded"));
        arena_done(&scratch);
    }
    arena_done(&arena);
}

TEST(an_evaluation_is_stopped_wherever_its_cost_is_reached)
{
    static const char *const texts[] = {
        "self.n == 3 && self['n'] == 3 && self.?n.orValue(1) == 3 && has(self.n)",
        "size(self.s) == 12 && self.s.contains('lo,') && self.s.startsWith('he')",
        "self.s.endsWith('lo') && self.s.matches('^h.*o$')",
        "self.s.find('l+') == 'll' && self.s.findAll('l+') == ['ll', 'll']",
        "string(b'hello, hello') == self.s && !false && -self.n == -3",
        "'a,b'.split(',') == ['a', 'b'] && ['a', 'b'].join(',') == 'a,b' && 'b'.charAt(0) == 'b'",
        "self.s.indexOf('lo') == 3 && self.s.lastIndexOf('lo') == 10",
        "self.s.substring(0, 5) == 'hello' && self.s.upperAscii() == 'HELLO, HELLO'",
        "' a '.trim() == 'a' && 'ab'.reverse() == 'ba' && strings.quote('a') == '\"a\"'",
        "self.s.replace('hello', 'a') == 'a, a' && self.s + 'b' > self.s",
        "[1, 2].isSorted() && [1, 2].sum() == 3 && [1, 2].min() == 1 && [1, 2].max() == 2",
        "[1, 2].indexOf(2) == 1 && [1, 2].lastIndexOf(2) == 1 && self.list.indexOf([2]) == 2",
        "sets.contains([1, 2], [2]) && sets.equivalent([1], [1]) && sets.intersects([1], [1])",
        "ip('127.0.0.1').isLoopback() && isIP('127.0.0.1') && ip.isCanonical('127.0.0.1')",
        "cidr('10.0.0.0/8').containsIP('10.0.0.1') && isCIDR('10.0.0.0/8')",
        "cidr('10.0.0.0/8').containsCIDR('10.0.0.0/9') && isURL('/a')",
        "url('/a?b=c&d=e&b=f').getQuery() == {'b': ['c', 'f'], 'd': ['e']}",
        "quantity('1k') == quantity('1000') && isQuantity('1') && quantity('1').asInteger() == 1",
        "semver('1.2.3').major() == 1 && isSemver('1.2.3')",
        "format.named('uuid').hasValue() && format.dns1123Label().validate('A').hasValue()",
        "'%s %d %s'.format(['a', 1, [1, {'k': 2}]]) == 'a 1 [1, {\"k\":2}]'",
        "self.list.all(x, x[0] > 0) && self.list.exists(x, x == [1])",
        "self.list.exists_one(x, x == [1]) && self.list.filter(x, x == [1]) == [[1]]",
        "self.map.map(k, k) == ['x', 'y'] && [1].transformMap(i, v, v) == {0: 1}",
        "{'a': 1, 'b': 2}.transformMapEntry(k, v, {v: k}) == {1: 'a', 2: 'b'}",
        "cel.bind(x, self.n, x * x == 9) && optional.of(1).optMap(x, x + 1).value() == 2",
        "(self.t ? self.n : 0) == 3 && [1, ?optional.of(2)] == [1, 2] && 'x' in self.map",
        "[[1], [2]] + [[3]] == [[1], [2], [3]] && {'a': [1]} == {'a': [1]} && [2] in self.list",
        "self.list[1] == [1] && self.list[?9].hasValue() == false && self.map.?z == "
        "optional.none()",
        "timestamp('2024-01-01T00:00:00Z') + duration('1h') > timestamp(0)",
    };

    for (size_t i = 0; i < COUNT_OF(texts); i++)
        expect_stopped_below_its_cost(texts[i]);
}

/* ---- memory ---- */

/* With `self` of a value that is larger than an evaluation may take. */
static void expect_no_room(const char *const *texts, size_t count, struct cel_value self)
{
    static const struct cel_variable variables[] = {{.name = "self"}};

    for (size_t i = 0; i < count; i++) {
        struct arena arena = {0};
        struct cel_program *program = NULL;
        struct cel_compile compile = {.arena = &arena,
                                      .text = str_from(texts[i]),
                                      .variables = variables,
                                      .variable_count = 1,
                                      .loose = true};

        test_case(texts[i]);
        EXPECT(cel_compile(&compile, &program, NULL) == 0);
        struct cel_result result = cel_evaluate(program, &arena, &self, UINT64_MAX / 2);
        EXPECT(result.out_of_cost && result.value.type == CEL_ERROR);
        EXPECT(str_is(result.value.s, "operation cancelled: the expression takes too much memory"));
        EXPECT(arena.bytes_used < 2 * CEL_MEMORY_MAX);
        arena_done(&arena);
    }
}

/* A mebibyte at a time, and then one by one. */
static void fill(struct buf *text, struct str piece, size_t len)
{
    struct buf many = {0};

    while (many.len < (size_t)1 << 20)
        buf_add(&many, piece);
    while (text->len + many.len < len)
        buf_add(text, buf_str(&many));
    while (text->len < len)
        buf_add(text, piece);
    buf_done(&many);
}

TEST(an_evaluation_that_would_copy_too_much_text_is_stopped)
{
    static const char *const copies[] = {
        "self + self",
        "self.upperAscii()",
        "self.reverse()",
        "strings.quote(self)",
        "self.replace('b', 'c')",
        "self.split('')",
        "[self].join()",
        "'%s'.format([self])",
        "'%s'.format([[self]])",
        "'%s%s'.format([[[self], 1], 1])",
        "self.findAll('b')",
        "url(self)",
        "[1].map(x, self + 'a')",
        "self.lowerAscii() == '' || true",
    };
    static const char *const queries[] = {"url(self).getQuery()"};
    struct buf text = {0};

    buf_add(&text, STR("/?"));
    fill(&text, STR("a"), CEL_MEMORY_MAX / 100 + 10);
    expect_no_room(queries, COUNT_OF(queries), cel_string(buf_str(&text)));
    fill(&text, STR("a"), CEL_MEMORY_MAX + 1);
    expect_no_room(copies, COUNT_OF(copies), cel_string(buf_str(&text)));
    buf_done(&text);
}

TEST(an_evaluation_that_would_look_at_too_many_lists_is_stopped)
{
    /* Each item becomes a value when it is looked at. */
    static const char *const texts[] = {
        "1 in self",           "self.indexOf(1)",          "self.all(x, true)",    "self + self",
        "self.map(x, [x, x])", "sets.contains(self, [1])", "self.filter(x, true)",
    };
    struct buf text = {0};
    struct arena arena = {0};
    struct json *json = NULL;

    buf_add(&text, STR("[[]"));
    fill(&text, STR(",[]"), CEL_MEMORY_MAX / 10);
    buf_addc(&text, ']');
    EXPECT(json_parse(&arena, buf_str(&text), &json, NULL) == 0);
    expect_no_room(texts, COUNT_OF(texts), cel_from_json(&arena, json, NULL));
    arena_done(&arena);
    buf_done(&text);
}

/* What is repeated may be a set of many ranges, each of which is compared. */
TEST(a_pattern_of_large_sets_costs_what_it_takes)
{
    _cleanup_(arena_done) struct arena arena = {0};
    _cleanup_(buf_done) struct buf text = {0};

    buf_add(&text, STR("'"));
    for (size_t i = 0; i < 200; i++)
        buf_addc(&text, 'a');
    buf_add(&text, STR("'.matches('(?:["));
    for (size_t i = 0; i < 1300; i++)
        buf_add(&text, STR("b-c"));
    buf_add(&text, STR("]?){1000}x')"));
    struct cel_result result =
        expression_value(&arena, str_c(&arena, buf_str(&text)), OBJECT, CEL_COST_MAX);
    EXPECT(result.out_of_cost);
    test_case("a small set is worth its steps");
    result = expression_value(&arena, "'aaaa'.matches('^[a-c]*$')", OBJECT, CEL_COST_MAX);
    EXPECT(cel_is_true(result.value) && result.cost < 20);
}
