#include "base/arena.h"
#include "base/buf.h"
#include "base/count.h"
#include "base/err.h"
#include "base/str.h"
#include "cel/cel.h"
#include "cel/expression_test.h"
#include "cel/value.h"
#include "test.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* Which types functions and operators take: every one is tried with every type. */

/* A value of each type. Two of them are equal only where they are numbers of one amount. */
static const struct {
    char type;
    const char *text;
} samples[] = {
    {'n', "null"},
    {'b', "true"},
    {'i', "1"},
    {'u', "1u"},
    {'d', "1.5"},
    {'s', "'a'"},
    {'y', "b'a'"},
    {'l', "[1]"},
    {'m', "{'a': 1}"},
    {'t', "timestamp(0)"},
    {'D', "duration('1s')"},
    {'T', "int"},
    {'o', "optional.of(1)"},
    {'U', "url('/a')"},
    {'I', "ip('1.2.3.4')"},
    {'C', "cidr('1.2.3.0/24')"},
    {'Q', "quantity('1')"},
    {'V', "semver('1.2.3')"},
    {'F', "format.uuid()"},
};

static const char *sample_of(char type)
{
    for (size_t i = 0; i < COUNT_OF(samples); i++)
        if (samples[i].type == type)
            return samples[i].text;
    EXPECT(false);
    return "";
}

/* The template with these in the places of its $; as values that nothing is known of: dyn. */
static const char *filled(struct arena *arena,
                          const char *template,
                          const char *const *texts,
                          bool unknown)
{
    struct buf out = {0};
    size_t place = 0;

    for (; *template; template ++) {
        if (*template != '$') {
            buf_addc(&out, *template);
            continue;
        }
        buf_add(&out, unknown ? STR("dyn(") : STR("("));
        buf_add(&out, str_from(texts[place++]));
        buf_addc(&out, ')');
    }
    const char *text = str_c(arena, buf_str(&out));
    buf_done(&out);
    return text;
}

static bool refused(struct arena *arena, const char *text)
{
    struct cel_result result = expression_value(arena, text, "{}", CEL_COST_MAX);

    return result.value.type == CEL_ERROR && (str_starts(result.value.s, STR("no such overload")) ||
                                              str_contains(result.value.s, STR("no matching")) ||
                                              str_contains(result.value.s, STR("expected type")));
}

/* The same before it is evaluated. */
static bool refused_by_type(struct arena *arena, const char *text)
{
    struct cel_program *program = NULL;
    struct cel_compile compile = {.arena = arena, .text = str_from(text)};
    struct err err = {0};

    return cel_compile(&compile, &program, &err) < 0 && !strstr(err.text, "invalid");
}

#define PLACES 4

struct row {
    const char *template;
    const char *types[PLACES]; /* that may stand there */
};

static void expect_places(const struct row *row)
{
    const char *texts[PLACES] = {0};

    for (size_t i = 0; i < PLACES && row->types[i]; i++)
        texts[i] = sample_of(row->types[i][0]);
    for (size_t place = 0; place < PLACES && row->types[place]; place++) {
        const char *right = texts[place];

        for (size_t i = 0; i < COUNT_OF(samples); i++) {
            struct arena arena = {0};
            bool takes = strchr(row->types[place], samples[i].type) != NULL;

            texts[place] = samples[i].text;
            const char *text = filled(&arena, row->template, texts, true);
            test_case(text);
            EXPECT(refused(&arena, text) == !takes);
            /* What no value could be is known before it is evaluated; null could be many. */
            text = filled(&arena, row->template, texts, false);
            test_case(text);
            EXPECT(takes || samples[i].type == 'n' || refused_by_type(&arena, text));
            EXPECT(texts[place] != right || !refused_by_type(&arena, text));
            arena_done(&arena);
        }
        texts[place] = right;
    }
}

static void expect_rows(const struct row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++)
        expect_places(&rows[i]);
}

#define ANY "ibnudsylmtDToUICQVF"

TEST(functions_of_every_cel_take_their_types_and_no_others)
{
    static const struct row rows[] = {
        {"size($)", {"sylm"}},
        {"$.size()", {"sylm"}},
        {"$.contains($)", {"s", "s"}},
        {"$.startsWith($)", {"s", "s"}},
        {"$.endsWith($)", {"s", "s"}},
        {"$.matches($)", {"s", "s"}},
        {"matches($, $)", {"s", "s"}},
        {"type($)", {ANY}},
        {"$.hasValue()", {"o"}},
        {"$.value()", {"o"}},
        {"$.or(optional.none())", {"o"}},
        {"optional.none().or($)", {"o"}},
        {"$.orValue(1)", {"o"}},
        {"optional.none().orValue($)", {ANY}},
        {"int($)", {"iudstD"}},
        {"uint($)", {"iuds"}},
        {"double($)", {"iuds"}},
        {"string($)", {"sybiudtDIC"}},
        {"bytes($)", {"sy"}},
        {"bool($)", {"bs"}},
        {"timestamp($)", {"tis"}},
        {"duration($)", {"Dis"}},
        {"$.getFullYear()", {"t"}},
        {"$.getMonth()", {"t"}},
        {"$.getDayOfMonth()", {"t"}},
        {"$.getDate()", {"t"}},
        {"$.getDayOfWeek()", {"t"}},
        {"$.getDayOfYear()", {"t"}},
        {"$.getHours()", {"tD"}},
        {"$.getMinutes()", {"tD"}},
        {"$.getSeconds()", {"tD"}},
        {"$.getMilliseconds()", {"tD"}},
        {"$.getHours($)", {"t", "s"}},
    };

    expect_rows(rows, COUNT_OF(rows));
}

TEST(functions_of_texts_and_lists_take_their_types_and_no_others)
{
    static const struct row rows[] = {
        {"$.charAt($)", {"s", "i"}},
        {"$.indexOf('a')", {"sl"}},
        {"'a'.indexOf($)", {"s"}},
        {"[1].indexOf($)", {ANY}},
        {"$.indexOf($, $)", {"s", "s", "i"}},
        {"$.lastIndexOf('a')", {"sl"}},
        {"[1].lastIndexOf($)", {ANY}},
        {"$.lastIndexOf($, $)", {"s", "s", "i"}},
        {"$.substring($)", {"s", "i"}},
        {"$.substring($, $)", {"s", "i", "i"}},
        {"$.lowerAscii()", {"s"}},
        {"$.upperAscii()", {"s"}},
        {"$.trim()", {"s"}},
        {"$.reverse()", {"s"}},
        {"strings.quote($)", {"s"}},
        {"$.replace($, $)", {"s", "s", "s"}},
        {"$.replace($, $, $)", {"s", "s", "s", "i"}},
        {"$.split($)", {"s", "s"}},
        {"$.split($, $)", {"s", "s", "i"}},
        {"['a'].join($)", {"s"}},
        {"[$].join()", {"s"}},
        {"$.find($)", {"s", "s"}},
        {"$.findAll($)", {"s", "s"}},
        {"$.findAll($, $)", {"s", "s", "i"}},
        {"$.format($)", {"s", "l"}},
        {"$.isSorted()", {"l"}},
        {"[$, $].isSorted()", {"iud", "iud"}},
        {"$.sum()", {"l"}},
        {"[$].sum()", {"iudD"}},
        {"$.min()", {"l"}},
        {"[$, $].min()", {"iud", "iud"}},
        {"[$, $].max()", {"s", "s"}},
        {"$.max()", {"l"}},
        {"sets.contains($, $)", {"l", "l"}},
        {"sets.intersects($, $)", {"l", "l"}},
        {"sets.equivalent($, $)", {"l", "l"}},
    };

    expect_rows(rows, COUNT_OF(rows));
}

TEST(functions_of_kubernetes_take_their_types_and_no_others)
{
    static const struct row rows[] = {
        {"$.family()", {"I"}},
        {"isIP($)", {"s"}},
        {"$.isUnspecified()", {"I"}},
        {"$.isLoopback()", {"I"}},
        {"$.isLinkLocalMulticast()", {"I"}},
        {"$.isLinkLocalUnicast()", {"I"}},
        {"$.isGlobalUnicast()", {"I"}},
        {"isCIDR($)", {"s"}},
        {"$.containsIP('1.2.3.4')", {"C"}},
        {"cidr('1.2.3.0/24').containsIP($)", {"sI"}},
        {"$.containsCIDR('1.2.3.0/24')", {"C"}},
        {"cidr('1.2.3.0/24').containsCIDR($)", {"sC"}},
        {"$.ip()", {"C"}},
        {"$.masked()", {"C"}},
        {"$.prefixLength()", {"C"}},
        {"ip($)", {"s"}},
        {"ip.isCanonical($)", {"s"}},
        {"cidr($)", {"s"}},
        {"url($)", {"s"}},
        {"isURL($)", {"s"}},
        {"$.getScheme()", {"U"}},
        {"$.getHost()", {"U"}},
        {"$.getHostname()", {"U"}},
        {"$.getPort()", {"U"}},
        {"$.getEscapedPath()", {"U"}},
        {"$.getQuery()", {"U"}},
        {"quantity($)", {"s"}},
        {"isQuantity($)", {"s"}},
        {"$.sign()", {"Q"}},
        {"$.isInteger()", {"Q"}},
        {"$.asInteger()", {"Q"}},
        {"$.asApproximateFloat()", {"Q"}},
        {"$.add($)", {"Q", "Qi"}},
        {"$.sub($)", {"Q", "Qi"}},
        {"semver($)", {"s"}},
        {"semver($, $)", {"s", "b"}},
        {"isSemver($)", {"s"}},
        {"isSemver($, $)", {"s", "b"}},
        {"$.major()", {"V"}},
        {"$.minor()", {"V"}},
        {"$.patch()", {"V"}},
        {"$.compareTo($)", {"Q", "Q"}},
        {"$.isGreaterThan($)", {"V", "V"}},
        {"$.isLessThan($)", {"Q", "Q"}},
        {"format.named($)", {"s"}},
        {"$.validate($)", {"F", "s"}},
    };
    static const struct expression_error others[] = {
        {"'a'.compareTo('a')", "no such overload"},
        {"1.isLessThan(1)", "no such overload"},
        {"[1].indexOf(1, 0)", "no such overload"},
        {"[1].lastIndexOf(1, 0)", "no such overload"},
    };

    expect_rows(rows, COUNT_OF(rows));
    expression_all_fail(others, COUNT_OF(others), "{}");
}

/* ---- operators ---- */

/* Is one of the pairs, which have blanks between them, these two types? */
static bool has_pair(const char *pairs, char a, char b)
{
    for (; *pairs; pairs += pairs[2] ? 3 : 2)
        if (pairs[0] == a && pairs[1] == b)
            return true;
    return false;
}

#define ORDERED "ii iu id ui uu ud di du dd ss yy bb tt DD"

TEST(operators_take_pairs_of_types_and_no_others)
{
    static const struct {
        const char *template;
        const char *pairs;
    } rows[] = {
        {"$ + $", "ii uu dd ss yy ll tD Dt DD"},
        {"$ - $", "ii uu dd tD tt DD"},
        {"$ * $", "ii uu dd"},
        {"$ / $", "ii uu dd"},
        {"$ % $", "ii uu"},
        {"$ < $", ORDERED},
        {"$ <= $", ORDERED},
        {"$ > $", ORDERED},
        {"$ >= $", ORDERED},
    };

    for (size_t row = 0; row < COUNT_OF(rows); row++)
        for (size_t i = 0; i < COUNT_OF(samples) * COUNT_OF(samples); i++) {
            size_t a = i / COUNT_OF(samples);
            size_t b = i % COUNT_OF(samples);
            bool takes = has_pair(rows[row].pairs, samples[a].type, samples[b].type);
            const char *texts[] = {samples[a].text, samples[b].text};
            struct arena arena = {0};
            const char *text = filled(&arena, rows[row].template, texts, true);

            test_case(text);
            EXPECT(refused(&arena, text) == !takes);
            /* Where the types are known it is refused before it is evaluated; null could be many. */
            text = filled(&arena, rows[row].template, texts, false);
            test_case(text);
            EXPECT(samples[a].type == 'n' || samples[b].type == 'n' ||
                   refused_by_type(&arena, text) == !takes);
            arena_done(&arena);
        }
}

TEST(values_of_different_types_are_not_equal_but_numbers_are_by_amount)
{
    for (size_t i = 0; i < COUNT_OF(samples) * COUNT_OF(samples); i++) {
        size_t a = i / COUNT_OF(samples);
        size_t b = i % COUNT_OF(samples);
        bool same = a == b || has_pair("iu ui", samples[a].type, samples[b].type);
        const char *texts[] = {samples[a].text, samples[b].text};
        struct arena arena = {0};
        const char *text = filled(&arena, same ? "$ == $" : "$ != $", texts, true);

        test_case(text);
        EXPECT(cel_is_true(expression_value(&arena, text, "{}", CEL_COST_MAX).value));
        text = filled(&arena, same ? "$ in [$]" : "!($ in [$])", texts, true);
        test_case(text);
        EXPECT(cel_is_true(expression_value(&arena, text, "{}", CEL_COST_MAX).value));
        arena_done(&arena);
    }
}

TEST(selections_conditions_and_ranges_take_their_types_and_no_others)
{
    static const struct row rows[] = {
        {"!$", {"b"}},
        {"-$", {"id"}},
        {"$ && true", {"b"}},
        {"false || $", {"b"}},
        {"$ ? 1 : 2", {"b"}},
        {"$.a", {"m"}},
        {"has($.a)", {"m"}},
        {"$.?a", {"m"}},
        {"[1, 2][$]", {"iud"}},
        {"{1: 2}[$]", {"ibuds"}},
        {"{'a': 2}[$]", {"sbiud"}},
        {"{'a': 2}[?$]", {"sbiud"}},
        {"$[?0]", {"lm"}},
        {"1 in $", {"lm"}},
        {"$.all(x, true)", {"lm"}},
        {"$.map(x, x)", {"lm"}},
        {"[1].all(x, $)", {"b"}},
        {"[1].exists(x, $)", {"b"}},
        {"[1].exists_one(x, $)", {"b"}},
        {"[1].filter(x, $)", {"b"}},
        {"[1].map(x, $, x)", {"b"}},
        {"[1].transformMapEntry(i, v, $)", {"m"}},
        {"$.optMap(x, x)", {"o"}},
        {"[?$]", {"o"}},
        {"{?'a': $}", {"o"}},
    };

    expect_rows(rows, COUNT_OF(rows));
}
