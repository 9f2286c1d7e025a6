#include "api/query.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "test.h"

#include <stddef.h>

#define DOCUMENT                                                                                   \
    "{\"spec\":{\"size\":4,\"none\":null,\"services\":{\"b\":{\"replicas\":2},\"a\":{\"nodes\":3}" \
    "},"                                                                                           \
    "\"groups\":[{\"name\":\"x\",\"replicas\":1},{\"name\":\"y\"}]},"                              \
    "\"labels\":{\"a.b/role\":\"worker\",\"index\":\"7\"}}"

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
