#include "base/arena.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "base/json_make.h"
#include "base/str.h"
#include "test.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EXPECT_JSON(value, text) EXPECT(str_is(json_text(&arena, value), text))

TEST(json_make_writes_what_the_template_says)
{
    _cleanup_(arena_done) struct arena arena = {0};

    EXPECT_JSON(json_make(&arena, "{}"), "{}");
    EXPECT_JSON(json_make(&arena, "[]"), "[]");
    EXPECT_JSON(json_make(&arena, "[ 1, -2.50, true, false, null, 'a b', {} ]"),
                "[1,-2.50,true,false,null,\"a b\",{}]");
    EXPECT_JSON(json_make(&arena, "{app.kubernetes.io/name: 'x', 'a:b': {c: [[]]}}"),
                "{\"app.kubernetes.io/name\":\"x\",\"a:b\":{\"c\":[[]]}}");
}

TEST(json_make_takes_arguments_by_their_type)
{
    _cleanup_(arena_done) struct arena arena = {0};
    const char *c = "c";
    char array[] = "array";
    uint16_t small = 65535;
    size_t large = 5000000000;
    bool truth = true;

    EXPECT_JSON(json_make(&arena, "[$, $, $, $]", STR("str"), c, array, "literal"),
                "[\"str\",\"c\",\"array\",\"literal\"]");
    EXPECT_JSON(json_make(&arena, "[$, $, $, $]", -1, small, large, INT64_MIN),
                "[-1,65535,5000000000,-9223372036854775808]");
    EXPECT_JSON(json_make(&arena, "{a: $, b: $}", truth, (bool)(small == 0)),
                "{\"a\":true,\"b\":false}");
    EXPECT_JSON(json_make(&arena, "{a: $}", json_make(&arena, "[$]", 1)), "{\"a\":[1]}");
    EXPECT_JSON(json_make(&arena, "[$,$,$,$,$,$,$,$,$,$,$,$,$,$,$,$]", 1, 2, 3, 4, 5, 6, 7, 8, 9,
                          10, 11, 12, 13, 14, 15, 16),
                "[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16]");
}

TEST(json_make_never_reads_an_argument_as_json)
{
    _cleanup_(arena_done) struct arena arena = {0};

    EXPECT_JSON(json_make(&arena, "{a: $, b: $}", "', x: '$", STR("\"}")),
                "{\"a\":\"', x: '$\",\"b\":\"\\\"}\"}");
}

TEST(json_make_leaves_out_what_is_absent)
{
    _cleanup_(arena_done) struct arena arena = {0};
    const char *none = NULL;
    struct json *tree = NULL;

    EXPECT_JSON(json_make(&arena, "{a: $?, b: $?, c: $?, d: $?, e: $}", STR_NONE, STR(""), none,
                          tree, STR("")),
                "{\"e\":\"\"}");
    EXPECT_JSON(json_make(&arena, "[$?, $?, $?]", STR("x"), tree, 0), "[\"x\",0]");
}

TEST(json_fill_sets_members_in_their_place)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct json *object = json_make(&arena, "{a: 1, b: 2}");

    json_fill(&arena, object, "{a: $, c: {d: $}}", STR("new"), 3);
    EXPECT_JSON(object, "{\"a\":\"new\",\"b\":2,\"c\":{\"d\":3}}");
}
