#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "base/yaml.h"
#include "test.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

TEST(yaml_plain_scalars_mean_what_they_mean_to_kubectl)
{
    static const struct {
        const char *yaml;
        const char *json;
        const char *why;
    } rows[] = {
        {"a: yes", "{\"a\":true}", "YAML 1.1 words"},
        {"a: y", "{\"a\":true}", "one letter"},
        {"a: Off", "{\"a\":false}", "capital"},
        {"a: yEs", "{\"a\":\"yEs\"}", "mixed case is text"},
        {"on: 1", "{\"true\":1}", "member names are resolved too"},
        {"8080: x", "{\"8080\":\"x\"}", "number as name"},
        {"a:", "{\"a\":null}", "nothing is null"},
        {"a: ~", "{\"a\":null}", "tilde"},
        {"a: 0x1F", "{\"a\":31}", "hexadecimal"},
        {"a: 017", "{\"a\":15}", "old octal"},
        {"a: 0o17", "{\"a\":15}", "new octal"},
        {"a: 0b101", "{\"a\":5}", "binary"},
        {"a: -0x10", "{\"a\":-16}", "sign before a base"},
        {"a: 08", "{\"a\":8}", "not octal, so decimal"},
        {"a: 1_000", "{\"a\":1000}", "underscores"},
        {"a: +5", "{\"a\":5}", "plus"},
        {"a: .5", "{\"a\":0.5}", "JSON wants the zero"},
        {"a: 1.", "{\"a\":1}", "JSON wants no bare point"},
        {"a: 1e3", "{\"a\":1e3}", "exponent keeps its text"},
        {"a: 1.50", "{\"a\":1.50}", "fraction keeps its text"},
        {"a: 1e999", "{\"a\":\"1e999\"}", "no double holds it"},
        {"a: 18446744073709551615", "{\"a\":18446744073709551615}", "largest unsigned"},
        {"a: 100m", "{\"a\":\"100m\"}", "a quantity is text"},
        {"a: 4Gi", "{\"a\":\"4Gi\"}", "a quantity is text"},
        {"a: 1.2.3", "{\"a\":\"1.2.3\"}", "a version is text"},
        {"a: 2026-11-15", "{\"a\":\"2026-11-15\"}", "a date is text"},
        {"a: 2026-11-15T02:03:04Z", "{\"a\":\"2026-11-15T02:03:04Z\"}", "a moment is text"},
        {"a: 12:30:45", "{\"a\":\"12:30:45\"}", "no base 60"},
        {"a: 'yes'", "{\"a\":\"yes\"}", "single quotes"},
        {"a: \"1\"", "{\"a\":\"1\"}", "double quotes"},
        {"a: !!str 1", "{\"a\":\"1\"}", "tag wins"},
        {"a: .", "{\"a\":\".\"}", "a lone point"},
        {"a: 0x", "{\"a\":\"0x\"}", "no digit behind the base"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct arena arena = {0};
        struct json *value = NULL;

        test_case(rows[i].why);
        EXPECT(yaml_parse(&arena, str_from(rows[i].yaml), &value, NULL) == 0);
        EXPECT(str_is(json_text(&arena, value), rows[i].json));
        arena_done(&arena);
    }
}

TEST(yaml_documents_anchors_merges_and_blocks_become_one_tree)
{
    static const struct {
        const char *yaml;
        const char *json; /* of all documents as one list */
        const char *why;
    } rows[] = {
        {"", "[]", "empty text"},
        {"# only a comment\n", "[]", "comment"},
        {"---\n---\na: 1\n---\n# nothing\n", "[{\"a\":1}]", "empty documents are skipped"},
        {"a: 1\n---\nb: 2\n...\n---\nc: 3\n", "[{\"a\":1},{\"b\":2},{\"c\":3}]", "three documents"},
        {"a: &x {b: 1}\nc: *x\n", "[{\"a\":{\"b\":1},\"c\":{\"b\":1}}]", "alias is a copy"},
        {"a: &x {b: 1, c: 2}\nd:\n  <<: *x\n  b: 9\n",
         "[{\"a\":{\"b\":1,\"c\":2},\"d\":{\"b\":9,\"c\":2}}]", "own member beats the merged one"},
        {"a: |\n  x\n   y\nb: >-\n  p\n  q\n", "[{\"a\":\"x\\n y\\n\",\"b\":\"p q\"}]", "blocks"},
        {"- [1, 'a']\n- {}\n- []\n", "[[[1,\"a\"],{},[]]]", "flow inside block"},
        {"{\"a\": \"\\ud83d\\ude00\"}", "[{\"a\":\"\xf0\x9f\x98\x80\"}]", "JSON is YAML"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct arena arena = {0};
        struct json_vec documents = {0};

        test_case(rows[i].why);
        EXPECT(yaml_parse_all(&arena, str_from(rows[i].yaml), &documents, NULL) == 0);
        struct json *all = json_new_array(&arena);
        for (size_t d = 0; d < documents.count; d++)
            json_push(all, documents.items[d]);
        EXPECT(str_is(json_text(&arena, all), rows[i].json));
        arena_done(&arena);
    }
}

TEST(yaml_errors_name_line_and_column)
{
    static const struct {
        const char *yaml;
        const char *where;
        const char *why;
    } rows[] = {
        {"a: 1\na: 2\n", "line 2: key \"a\" already set in map", "duplicate"},
        {"a: [1, 2\n", "line 2, column 1", "truncated"},
        {"a: 1\n\tb: 2\n", "line 2, column 1", "tab"},
        {"a: *x\n", "line 1, column 4: an alias to an anchor that does not exist", "no anchor"},
        {"a: &x [*x]\n", "line 1, column 8: an alias stands inside", "cycle"},
        {"a: .inf\n", "line 1, column 4: infinity", "no JSON for it"},
        {"a: \"\xff\"\n", "line 1, column", "not UTF-8"},
        {"? [a]\n: 1\n", "line 1, column 3: a member name", "a list as name"},
        {"a: !!int x\n", "line 1, column 4: not a number", "tag and text disagree"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct arena arena = {0};
        struct json *value = NULL;
        struct err err = {0};

        test_case(rows[i].why);
        EXPECT(yaml_parse(&arena, str_from(rows[i].yaml), &value, &err) == -EINVAL);
        EXPECT(str_starts(str_from(err.text), str_from(rows[i].where)));
        EXPECT(!value);
        arena_done(&arena);
    }
}

TEST(yaml_a_small_text_cannot_become_a_large_tree)
{
    static const char bomb[] = "a: &a [x,x,x,x,x,x,x,x,x]\n"
                               "b: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\n"
                               "c: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\n"
                               "d: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\n"
                               "e: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\n"
                               "f: &f [*e,*e,*e,*e,*e,*e,*e,*e,*e]\n"
                               "g: &g [*f,*f,*f,*f,*f,*f,*f,*f,*f]\n";
    static const char merges[] = "a: &a {k: v}\nb: &b {x: *a, y: *a}\nc: &c {x: *b, y: *b}\n";
    struct arena arena = {.bytes_max = (size_t)64 << 20};
    _cleanup_(buf_done) struct buf text = {0};
    struct json *value = NULL;
    struct err err = {0};

    EXPECT(yaml_parse(&arena, str_from(bomb), &value, &err) == -EINVAL);
    EXPECT(str_starts(str_from(err.text), STR("line 6, column ")));
    EXPECT(strstr(err.text, "aliases expand to too much"));
    arena_done(&arena);

    /* The same by doubling, many times over. */
    buf_add(&text, str_from(merges));
    for (int c = 'd'; c <= 'z'; c++)
        buf_addf(&text, "%c: &%c {x: *%c, y: *%c}\n", c, c, c - 1, c - 1);
    EXPECT(yaml_parse(&arena, buf_str(&text), &value, &err) == -EINVAL);
    EXPECT(str_starts(str_from(err.text), STR("line ")));
    EXPECT(strstr(err.text, "aliases expand to too much"));
    arena_done(&arena);

    _cleanup_(buf_done) struct buf deep = {0};
    while (deep.len < (size_t)10 << 20)
        buf_addc(&deep, '[');
    EXPECT(yaml_parse(&arena, buf_str(&deep), &value, &err) == -EINVAL);
    EXPECT(str_starts(str_from(err.text), STR("line 1, column 129: ")));
    EXPECT(strstr(err.text, "nested too deeply"));
    arena_done(&arena);
}

TEST(yaml_what_is_written_is_read_back_the_same)
{
    static const char *const texts[] = {
        "{\"a\":{\"b\":[1,{\"c\":null,\"d\":[]},[2,[3]],{}],\"e\":\"x\"}}",
        "{\"yes\":\"no\",\"8080\":\"8080\",\"\":\"\",\"a: b\":\"c #d\",\"-\":\"- x\"}",
        "{\"block\":\"a\\n  b\\n\\nc\\n\",\"open\":\"a\\nb\",\"kept\":\"a\\n\\n\",\"lead\":\" "
        "a\\nb\"}",
        "{\"tab\":\"a\\tb\",\"bell\":\"\\u0007\",\"uni\":\"\xc3\xa9\",\"quote\":\"\\\"'\",\"nul\":"
        "\"~\"}",
        "[\"a\",[\"b\\nc\\n\"],\"*x\",\"&x\",\"!x\",\"%x\",\"@x\",\"{\",\"1e3\",\"0x1\",\".5\",\"a:"
        "\"]",
        "\"only text\"",
        "12",
    };

    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        struct arena arena = {0};
        _cleanup_(buf_done) struct buf buf = {0};
        struct json *before = NULL;
        struct json *after = NULL;

        test_case(texts[i]);
        EXPECT(json_parse(&arena, str_from(texts[i]), &before, NULL) == 0);
        yaml_write(&buf, before);
        EXPECT(yaml_parse(&arena, buf_str(&buf), &after, NULL) == 0);
        EXPECT(json_equal(before, after));
        arena_done(&arena);
    }
}

TEST(yaml_is_laid_out_as_kubectl_does)
{
    struct arena arena = {0};
    _cleanup_(buf_done) struct buf buf = {0};
    struct json *value = NULL;

    EXPECT(json_parse(
               &arena,
               STR("{\"kind\":\"Pod\",\"spec\":{\"containers\":[{\"name\":\"a\",\"args\":[\"x\"],"
                   "\"env\":[]}],\"on\":\"true\"}}"),
               &value, NULL) == 0);
    yaml_write(&buf, value);
    EXPECT(str_is(buf_str(&buf), "kind: Pod\n"
                                 "spec:\n"
                                 "  containers:\n"
                                 "  - name: a\n"
                                 "    args:\n"
                                 "    - x\n"
                                 "    env: []\n"
                                 "  \"on\": \"true\"\n"));
    arena_done(&arena);
}

/* A client chooses how many members a mapping has and how many names its aliases have: what is read
 * takes time that grows with its size only. */
TEST(yaml_of_very_many_members_is_refused_and_many_are_read_in_no_time)
{
    _cleanup_(buf_done) struct buf many = {0};
    struct arena arena = {0};
    struct json *value = NULL;
    struct json_vec all = {0};
    struct err err;

    for (int i = 0; i <= JSON_MEMBERS_MAX; i++)
        buf_addf(&many, "k%d: 1\n", i);
    EXPECT(yaml_parse(&arena, buf_str(&many), &value, &err) == -EINVAL);
    EXPECT(strstr(err.text, "line 20001, column 1: a mapping has too many members"));

    buf_clear(&many);
    for (int i = 0; i < 20; i++) {
        buf_addf(&many, "m%d:\n", i);
        for (int j = 0; j < JSON_MEMBERS_MAX / 2; j++)
            buf_addf(&many, "  k%d: &a%d x\n", j, j);
    }
    for (int j = 0; j < JSON_MEMBERS_MAX / 2; j++)
        buf_addf(&many, "c%d: *a%d\n", j, j);
    EXPECT(yaml_parse_all(&arena, buf_str(&many), &all, &err) == 0 && all.count == 1);
    value = all.count ? all.items[0] : NULL;
    EXPECT(json_count(json_get(value, "m19")) == JSON_MEMBERS_MAX / 2);
    EXPECT(str_is(json_str(json_get(value, "c9999")), "x"));

    buf_clear(&many);
    buf_add(&many, STR("a: &a\n"));
    for (int j = 0; j < JSON_MEMBERS_MAX; j++)
        buf_addf(&many, "  k%d: x\n", j);
    buf_add(&many, STR("b:\n  more: 1\n  <<: *a\n"));
    EXPECT(yaml_parse(&arena, buf_str(&many), &value, &err) == -EINVAL);
    EXPECT(strstr(err.text, "a mapping has too many members"));
    arena_done(&arena);
}

/* Three megabytes of them held the loop for seconds, before anybody looked at what they are. */
TEST(yaml_of_one_document_has_so_many_values_whatever_they_are)
{
    static const struct {
        const char *head, *each, *tail;
    } rows[] = {{"x: [", "a,", "a]"},
                {"x:\n", "- a\n", ""},
                {"", "---\n", "a: 1\n"},
                {"x: [", "{},", "{}]"}};

    for (size_t row = 0; row < COUNT_OF(rows); row++)
        for (int many = 0; many < 2; many++) {
            _cleanup_(buf_done) struct buf text = {0};
            struct arena arena = {0};
            struct json *value = NULL;
            struct err err = {0};

            test_case(rows[row].each);
            buf_add(&text, str_from(rows[row].head));
            for (int i = 0; i < YAML_VALUES_MAX - 4 + 4 * many; i++)
                buf_add(&text, str_from(rows[row].each));
            buf_add(&text, str_from(rows[row].tail));
            EXPECT(yaml_parse(&arena, buf_str(&text), &value, &err) == (many ? -EINVAL : 0));
            EXPECT(!many || strstr(err.text, "too many values in one text"));
            arena_done(&arena);
        }
}
