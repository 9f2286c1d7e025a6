#include "api/query.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "test.h"

#include <stddef.h>
#include <string.h>

#define DOCUMENT                                                                                   \
    "{\"spec\":{\"size\":4,\"none\":null,\"services\":{\"b\":{\"replicas\":2},\"a\":{\"nodes\":3}" \
    "},"                                                                                           \
    "\"groups\":[{\"name\":\"x\",\"replicas\":1},{\"name\":\"y\"}]},"                              \
    "\"labels\":{\"a.b/role\":\"worker\",\"index\":\"7\"},\"float\":1.5,"                          \
    "\"least\":-9223372036854775808}"

/* What the query gives of the document: a list in one text, or the words of the refusal. */
static struct str said(struct arena *arena, const char *text)
{
    const struct query *query = NULL;
    struct json *document = NULL;
    struct json *list = json_new_array(arena);
    query_values values = {0};
    struct err err = {0};

    EXPECT(json_parse(arena, STR(DOCUMENT), &document, NULL) == 0);
    if (query_read(arena, str_from(text), &query, &err) < 0)
        return str_printf(arena, "unread: %s", err.text);
    if (query_run(arena, query, document, &values, &err) < 0)
        return str_printf(arena, "failed: %s", err.text);
    for (size_t i = 0; i < values.count; i++)
        json_push(list, json_clone(arena, values.items[i]));
    return json_text(arena, list);
}

TEST(a_query_gives_what_jq_gives)
{
    static const struct {
        const char *query;
        const char *gives;
    } rows[] = {
        {".spec.size", "[4]"},
        {".spec.nothing.below", "[null]"},
        {".labels[\"a.b/role\"]", "[\"worker\"]"},
        {".labels.\"a.b/role\" == \"worker\"", "[true]"},
        {".spec.groups[].name", "[\"x\",\"y\"]"},
        {".spec.groups[].replicas // 1", "[1]"},
        {".spec.groups[] | .replicas // 1", "[1,1]"},
        {".spec.groups[1].name, .spec.groups[-2].name", "[\"y\",\"x\"]"},
        {".spec.services | .[] | .nodes", "[null,3]"},
        {".spec.services[] | (.replicas // 1) * (.nodes // 1)", "[2,3]"},
        {".spec.services | to_entries[] | .key", "[\"b\",\"a\"]"},
        {".spec.services | keys", "[[\"a\",\"b\"]]"},
        {"(.spec.replicas // 1) * ((.spec.size // 1) - 1)", "[3]"},
        {"1", "[1]"},
        {"[.spec.groups[].replicas // 5] | add", "[1]"},
        {"[.spec.groups[] | .replicas // 5] | add", "[6]"},
        {".labels.index | tonumber + 1", "[8]"},
        {".spec.size > 3 and (.spec.none | not)", "[true]"},
        {"if .spec.size >= 5 then \"big\" elif .spec.size == 4 then \"four\" else 0 end",
         "[\"four\"]"},
        {".spec.groups | map(select(has(\"replicas\"))) | length", "[1]"},
        {".labels[\"a.b/role\"] | startswith(\"wor\"), endswith(\"x\")", "[true,false]"},
        {".spec.size[]?", "[]"},
        {".spec.size.deeper? // \"none\"", "[\"none\"]"},
        {"-.spec.size + 10 % 4", "[-2]"},
        {"(1, 2) + (10, 20)", "[11,12,21,22]"},
        {".spec | type", "[\"object\"]"},
        {"(.spec.groups[0], .spec.groups[1])[\"name\", \"replicas\"]", "[\"x\",\"y\",1,null]"},
        {"true < false, false < true, null < false, null < null, true <= true",
         "[false,true,true,false,true]"},
        {"\"a\" < 1, \"b\" > \"a\", \"a\" >= \"b\", 3 <= 3, 2 < 1, 1 > 2",
         "[false,true,false,true,false,false]"},
        {"(1, 2) < (2, 1)", "[true,false,false,false]"},
        {"1 == 1, 1 != 1, null == .nothing, 1 == null, \"a\" == 1, .float == .float, 1 == 2",
         "[true,false,true,false,false,true,false]"},
        {"null + 1, 1 + null, \"a\" + \"b\", null + null", "[1,1,\"ab\",null]"},
        {"6 / 2, 7 % 3, -7 % 3, 2 * 3", "[3,1,-1,6]"},
        {"(true, false) or (true, null)", "[true,true,false]"},
        {"(true, false) and (1, null)", "[true,false,false]"},
        {"(null, 1, false, 2) // 3", "[1,2]"},
        {"empty // 4", "[4]"},
        {".spec.groups | keys", "[[0,1]]"},
        {".labels | to_entries | map(.value)", "[[\"worker\",\"7\"]]"},
        {"[] | add, any, all, length", "[null,false,true,0]"},
        {"[\"a\", \"b\"] | add", "[\"ab\"]"},
        {"[true, false] | any, all", "[true,false]"},
        {"([true, 1] | all), ([null, false] | any), (.labels | any)", "[true,false,true]"},
        {"-4 | length", "[4]"},
        {"\"h\\u00e4\\u00df\", null, .labels, [1, 2, 3] | length", "[3,0,2,3]"},
        {"\"12\", 4 | tonumber", "[12,4]"},
        {"4, \"a\", null, [1, \"a\"] | tostring", "[\"4\",\"a\",\"null\",\"[1,\\\"a\\\"]\"]"},
        {".spec.groups | has(0), has(1), has(2), has(-1)", "[true,true,false,false]"},
        {".labels | has(\"index\"), has(\"nothing\")", "[true,false]"},
        {"[1, null, 2] | map(select(.)), map(values)", "[[1,2],[1,2]]"},
        {"[], [[]]", "[[],[[]]]"},
        {"if .spec.size == 4 then 1 end, if .spec.none then 1 end | type",
         "[\"number\",\"object\"]"},
        {"if empty then 1 else 2 end", "[]"},
        {"if (true, false) then 1 else 2 end", "[1,2]"},
        {"1, \"\", null, true, [] | type",
         "[\"number\",\"string\",\"null\",\"boolean\",\"array\"]"},
        {"-(1, 2), (.spec.size | not)", "[-1,-2,false]"},
        {".\"labels\".index, .labels.[\"index\"], .labels[\"index\"]", "[\"7\",\"7\",\"7\"]"},
        {".spec.groups[5], .spec.groups[-9], .none.none[\"a\"], .a_1", "[null,null,null,null]"},
        {"[1, 2, 3] | .[-1], .[-3]", "[3,1]"},
        {".spec.size[0]?, .spec.size[\"a\"]?, .labels[0]?, .spec.groups[]?.name", "[\"x\",\"y\"]"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};

        test_case(rows[i].query);
        EXPECT(str_is(said(&arena, rows[i].query), rows[i].gives));
    }
}

TEST(what_a_query_cannot_do_is_refused_in_words)
{
    static const struct {
        const char *query;
        const char *words;
    } rows[] = {
        {".spec.size = 3", "unread: this is not understood at \"= 3\""},
        {".a |= 1", "unread: this is not understood at \"|= 1\""},
        {"..", "unread: what goes through everything"},
        {"recurse", "unread: this function is not understood"},
        {"{a: 1}", "unread: this is not understood"},
        {"$x", "unread: this is not understood"},
        {".a[", "unread: something is missing"},
        {"(.a", "unread: \")\" is missing"},
        {"\"\\(.a)\"", "unread: a string with an expression inside"},
        {"1.5", "unread: only whole numbers"},
        {"", "unread: something is missing"},
        {"((((((((((((((((((((((((((((((((((1))))))))))))))))))))))))))))))))))",
         "unread: it is nested too deeply"},
        {".spec.", "unread: behind a dot a name is missing at \"\""},
        {".spec.?", "unread: behind a dot a name is missing at \"?\""},
        {".spec. | 1", "unread: behind a dot a name is missing"},
        {"true and", "unread: something is missing"},
        {"[1, 2", "unread: \"]\" is missing"},
        {".[1", "unread: \"]\" is missing"},
        {"map", "unread: an argument is missing"},
        {"not(1)", "unread: an argument too many"},
        {"map(.", "unread: \")\" is missing"},
        {"map(,)", "unread: this is not understood"},
        {"if 1 then 2", "unread: \"end\" is missing"},
        {"if 1 2", "unread: \"then\" is missing"},
        {"if ) then 2", "unread: this is not understood"},
        {"\"abc", "unread: a string is not closed"},
        {"\"abc\\", "unread: a string is not closed"},
        {"\"a\\qb\"", "unread: a string is not closed or not well formed"},
        {"9223372036854775808", "unread: only whole numbers"},
        {"1x", "unread: only whole numbers"},
        {"truex", "unread: this function is not understood"},
        {"A", "unread: this function is not understood"},
        {"- - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - 1",
         "unread: it is nested too deeply"},
        {"1//1//1//1//1//1//1//1//1//1//1//1//1//1//1//1//1//1//1//1//1//1//1//1//1//1//1//1//1//1/"
         "/"
         "1//1//1//1//1",
         "unread: it is nested too deeply"},
        {".spec.groups[\"a\"]", "failed: a value of type array has no member of type string"},
        {".labels[0]", "failed: a value of type object has no member of type number"},
        {"\"a\" + 1", "failed: values of type string and number"},
        {"1 + \"a\"", "failed: values of type number and string"},
        {"\"a\" - \"b\"", "failed: values of type string and string"},
        {"-\"a\"", "failed: values of type number and string"},
        {"1 / 0", "failed: a division is not even"},
        {"1 % 0", "failed: a division is not even"},
        {".least / -1", "failed: a division is not even"},
        {"9223372036854775807 * 2", "failed: a number is too large"},
        {".least - 1", "failed: a number is too large"},
        {".least | length", "failed: a number is too large"},
        {".float | length", "failed: values of type number and number cannot be reckoned with"},
        {"true | length", "failed: a value of type boolean has no length"},
        {"[\"a\", 1] | add", "failed: values of type string and number"},
        {"4 | add", "failed: a value of type number has no members"},
        {"null | all", "failed: a value of type null has no members"},
        {"4 | any", "failed: a value of type number has no members"},
        {"4 | map(.)", "failed: a value of type number has no members"},
        {"4 | keys", "failed: a value of type number has no keys"},
        {"[1] < [2]", "failed: only strings and whole numbers have an order"},
        {".float < 2", "failed: only strings and whole numbers have an order"},
        {"2 < .float", "failed: only strings and whole numbers have an order"},
        {"\"x\" | tonumber", "failed: tonumber needs a whole number"},
        {"4 | startswith(\"a\")", "failed: startswith and endswith need strings"},
        {"\"a\" | startswith(4)", "failed: startswith and endswith need strings"},
        {".spec.groups | has(\"a\")", "failed: a value of type array has no member of type string"},
        {".labels | has(0)", "failed: a value of type object has no member of type number"},
        {".spec.none[]", "failed: a value of type null has no members"},
        {".spec.size.deeper", "failed: a value of type number has no member of type string"},
        {"7 / 2", "failed: a division is not even"},
        {"9223372036854775807 + 1", "failed: a number is too large"},
        {"[.,.]|[.,.]|[.,.]|[.,.]|[.,.]|[.,.]|[.,.]|[.,.]|[.,.]|[.,.]|[.,.]|[.,.]|[.,.]|[.,.]|[.,.]"
         "|"
         "[.,.]|[.,.]|[.,.]|[.,.]|[.,.]|[.,.]|[.,.]|[.,.]|[.,.]|[.,.]",
         "failed: it takes too long"},
        {"\"0123456789abcdef\"|.+.|.+.|.+.|.+.|.+.|.+.|.+.|.+.|.+.|.+.|.+.|.+.|.+.|.+.|.+.|.+.|.+.|"
         ".+.|.+.|.+.|.+.|.+.|.+.",
         "failed: it takes too long"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct str got = said(&arena, rows[i].query);

        test_case(rows[i].query);
        EXPECT(str_starts(got, str_from(rows[i].words)));
    }
}

#define EIGHT(x) x "," x "," x "," x "," x "," x "," x "," x

TEST(a_limit_of_queries_is_no_error_that_a_query_can_hide)
{
    static const char *const ways[] = {"%s",           "(%s)?",
                                       "(%s) // 1",    "[%s] | map(.) | length",
                                       "(%s)[\"a\"]?", "if (%s) then 1 else 2 end"};

    for (size_t i = 0; i < COUNT_OF(ways); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        /* 8 * 8 * 8 * 8 values, each of a document that is not small. */
        struct str many =
            STR("(" EIGHT(".") ") | (" EIGHT(".") ") | (" EIGHT(".") ") | (" EIGHT(".") ")");
        struct str at = str_from(strstr(ways[i], "%s"));
        struct str query =
            str_printf(&arena, STR_FMT STR_FMT STR_FMT,
                       STR_ARG(str_sub(str_from(ways[i]), 0, strlen(ways[i]) - at.len)),
                       STR_ARG(many), STR_ARG(str_sub(at, 2, at.len)));

        test_case(ways[i]);
        EXPECT(str_is(said(&arena, query.p), "failed: it gives more than 1024 values"));
    }
}

TEST(a_query_is_short)
{
    _cleanup_(arena_done) struct arena arena = {0};
    char text[QUERY_BYTES_MAX + 2] = {0};

    memset(text, ' ', QUERY_BYTES_MAX);
    text[0] = '7';
    EXPECT(str_is(said(&arena, text), "[7]"));
    text[QUERY_BYTES_MAX] = ' ';
    EXPECT(
        str_is(said(&arena, text), "unread: an expression may have 1024 bytes, and this has 1025"));
}
