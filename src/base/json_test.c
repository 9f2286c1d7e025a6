#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/err.h"
#include "base/json.h"
#include "base/json_names.h"
#include "base/rng.h"
#include "base/str.h"
#include "test.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static struct json *parsed(struct arena *arena, const char *text)
{
    struct json *value = NULL;

    EXPECT(json_parse(arena, str_from(text), &value, NULL) == 0);
    return value;
}

TEST(json_text_read_and_written_is_the_same)
{
    static const char *const texts[] = {
        "null",
        "true",
        "[]",
        "{}",
        "[1,[2,[3,{}]],{\"a\":[]}]",
        "{\"b\":1,\"a\":2}",
        "[0,-0,1.50,1e400,-2E+3,123456789012345678901234567890]",
        "\"\\\"\\\\\\n\\r\\t\\u0001\"",
        "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"",
        "{\"\":{\"\":\"\"}}",
    };

    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        struct arena arena = {0};

        test_case(texts[i]);
        EXPECT(str_is(json_text(&arena, parsed(&arena, texts[i])), texts[i]));
        arena_done(&arena);
    }
}

TEST(json_escapes_stand_for_their_characters)
{
    static const struct {
        const char *json;
        const char *text;
        const char *why;
    } rows[] = {
        {"\"\\u0041\\/\\b\\f\"", "A/\b\f", "short escapes"},
        {"\"\\u00e9\"", "\xc3\xa9", "two bytes"},
        {"\"\\u20AC\"", "\xe2\x82\xac", "three bytes, capital digits"},
        {"\"\\ud83d\\ude00\"", "\xf0\x9f\x98\x80", "a pair of surrogates"},
        {"\"\\ud83dx\"", "\xef\xbf\xbdx", "a lone high surrogate"},
        {"\"\\ude00\"", "\xef\xbf\xbd", "a lone low surrogate"},
        {"\"\\ud83d\\u0041\"",
         "\xef\xbf\xbd"
         "A",
         "a high surrogate and something else"},
        {"\"a long text before the escape \\n and a long one behind it\"",
         "a long text before the escape \n and a long one behind it", "in the middle"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct arena arena = {0};

        test_case(rows[i].why);
        EXPECT(str_is(json_str(parsed(&arena, rows[i].json)), rows[i].text));
        arena_done(&arena);
    }
}

TEST(json_errors_name_line_column_and_path)
{
    static const struct {
        const char *json;
        const char *text;
    } rows[] = {
        {"", "line 1, column 1: the text ends where a value is expected"},
        {" \n ", "line 2, column 2: the text ends where a value is expected"},
        {"{", "line 1, column 2: expected a member name in quotes"},
        {"{\"a\"", "line 1, column 5: expected ':' after a member name"},
        {"{\"a\":1", "line 1, column 7, at a: expected ',' or '}' in an object"},
        {"{\"a\":1,}", "line 1, column 8, at a: expected a member name in quotes"},
        {"[1,]", "line 1, column 4, at [1]: expected a value"},
        {"[1 2]", "line 1, column 4, at [1]: expected ',' or ']' in an array"},
        {"{\"spec\":{\"containers\":[{},\n {\"name\":tru}]}}",
         "line 2, column 10, at spec.containers[1].name: expected a value"},
        {"[01]", "line 1, column 3, at [1]: expected ',' or ']' in an array"},
        {"[1.]", "line 1, column 4, at [0]: a digit is missing in a number"},
        {"[1e]", "line 1, column 4, at [0]: a digit is missing in a number"},
        {"[-]", "line 1, column 3, at [0]: a digit is missing in a number"},
        {"[+1]", "line 1, column 2, at [0]: expected a value"},
        {"[.5]", "line 1, column 2, at [0]: expected a value"},
        {"[NaN]", "line 1, column 2, at [0]: expected a value"},
        {"nul", "line 1, column 1: expected a value"},
        {"1 2", "line 1, column 3: unexpected text after the value"},
        {"'a'", "line 1, column 1: expected a value"},
        {"\"a", "line 1, column 3: the text ends inside a string"},
        {"\"a\\", "line 1, column 4: the text ends inside a string"},
        {"\"\\x\"", "line 1, column 3: unknown escape in a string"},
        {"\"\\u12g4\"", "line 1, column 4: \\u needs four hexadecimal digits"},
        {"\"\\u12", "line 1, column 6: the text ends inside a string"},
        {"\"a\nb\"", "line 1, column 3: control character in a string"},
        {"{\"a\":\"\xff\"}", "line 1, column 7, at a: invalid UTF-8 in a string"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct arena arena = {0};
        struct json *value = NULL;
        struct err err = {0};

        test_case(rows[i].text);
        EXPECT(json_parse(&arena, str_from(rows[i].json), &value, &err) == -EINVAL && !value);
        EXPECT(strcmp(err.text, rows[i].text) == 0);
        arena_done(&arena);
    }
}

TEST(json_invalid_utf8_is_refused_wherever_it_stands)
{
    static const char *const bad[] = {
        "\x80",             /* a continuation without a start */
        "\xc0\xaf",         /* overlong */
        "\xc1\xbf",         /* overlong */
        "\xe0\x80\x80",     /* overlong */
        "\xed\xa0\x80",     /* a surrogate */
        "\xf0\x80\x80\x80", /* overlong */
        "\xf4\x90\x80\x80", /* beyond U+10FFFF */
        "\xf5\x80\x80\x80", /* no such start */
        "\xe2\x82",         /* cut */
        "\xf0\x9f\x98",     /* cut */
        "\xc3",             /* cut */
    };

    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        for (size_t offset = 0; offset < 20; offset++) {
            struct arena arena = {0};
            _cleanup_(buf_done) struct buf text = {0};
            struct json *value = NULL;

            buf_addf(&text, "\"%.*s%s%s\"", (int)offset, "abcdefghijklmnopqrst", bad[i],
                     offset % 2 ? "" : " tail longer than a word");
            EXPECT(json_parse(&arena, buf_str(&text), &value, NULL) == -EINVAL);
            arena_done(&arena);
        }
    }
}

TEST(json_of_duplicate_members_the_last_counts_in_the_place_of_the_first)
{
    struct arena arena = {0};
    struct json *value = parsed(&arena, "{\"a\":1,\"b\":2,\"a\":[3]}");
    struct err err = {0};

    EXPECT(str_is(json_text(&arena, value), "{\"a\":[3],\"b\":2}") && json_count(value) == 2);
    EXPECT(json_parse_strict(&arena, STR("{\"x\":{\"a\":1,\n\"a\":2}}"), &value, &err) == -EINVAL);
    EXPECT(strcmp(err.text, "line 2, column 1, at x.a: this member appears twice") == 0);
    EXPECT(json_parse_strict(&arena, STR("{\"x\":{\"a\":1},\"a\":2}"), &value, NULL) == 0);
    arena_done(&arena);
}

TEST(json_tells_the_paths_of_duplicate_members)
{
    struct arena arena = {0};
    struct json *value = NULL;
    struct json_doubles doubles;
    struct buf many = {0};

    EXPECT(json_parse_telling(&arena,
                              STR("{\"a\":[{\"b\":1},{\"b\":1,\"c\":0,\"b\":2}],\"d\":1,\"d\":2}"),
                              &doubles, &value, NULL) == 0);
    EXPECT(doubles.count == 2);
    EXPECT(str_is(doubles.paths[0], "a[1].b") && str_is(doubles.paths[1], "d"));
    EXPECT(json_i64_or(json_get(value, "d"), 0) == 2);
    EXPECT(json_parse_telling(&arena, STR("{\"a\":{\"b\":1},\"b\":{}}"), &doubles, &value, NULL) ==
           0);
    EXPECT(doubles.count == 0);
    for (int i = 0; i < 2 * JSON_DOUBLES_MAX; i++)
        buf_addf(&many, "%s\"a\":0", i ? "," : "{");
    buf_addc(&many, '}');
    EXPECT(json_parse_telling(&arena, buf_str(&many), &doubles, &value, NULL) == 0);
    EXPECT(doubles.count == JSON_DOUBLES_MAX);
    buf_done(&many);
    arena_done(&arena);
}

/* Object sizes on both sides of where the parser changes how it finds names. */
TEST(json_duplicates_are_found_in_objects_of_any_size)
{
    for (unsigned size = 1; size < 200; size += 7) {
        for (unsigned same = 0; same < size; same += 13) {
            struct arena arena = {0};
            _cleanup_(buf_done) struct buf text = {0};
            struct json *value = NULL;

            for (unsigned i = 0; i < size; i++)
                buf_addf(&text, "%c\"n%u\":%u", i ? ',' : '{', i, i);
            buf_addf(&text, ",\"n%u\":777}", same);
            EXPECT(json_parse_strict(&arena, buf_str(&text), &value, NULL) == -EINVAL);
            EXPECT(json_parse(&arena, buf_str(&text), &value, NULL) == 0);
            EXPECT(json_count(value) == size);
            EXPECT(json_i64_or(json_index(value, 0), 0) == 0); /* an object has no index */
            const struct json *member = json_first(value);
            for (unsigned i = 0; i < same; i++)
                member = json_next(member);
            EXPECT(json_i64_or(member, 0) == 777);
            arena_done(&arena);
        }
    }
}

TEST(json_hostile_texts_end_in_bounded_time_and_memory)
{
    static const struct {
        const char *piece;
        const char *why;
        const char *where;
        const char *text;
    } rows[] = {
        {"[", "10 MB of nested arrays", "line 1, column 257, at [0][0]", "nested too deeply"},
        {"{\"a\":", "10 MB of nested objects", "line 1, column 1281, at a.a.a",
         "nested too deeply"},
        {"9", "a number of 10 MB without an end is fine", "", NULL},
        {"\"", "10 MB of quotes", "line 1, column 3: ", "unexpected text after the value"},
        {"\\", "10 MB of backslashes", "line 1, column 1: ", "expected a value"},
        {" ", "10 MB of blanks", "line 1, column 10485761: ", "ends where a value is expected"},
        {"\xf0", "10 MB of cut sequences", "line 1, column 1: ", "expected a value"},
        {"{\"a\":1,", "10 MB that open objects",
         "line 1, column 8, at a: ", "a member name in quotes"},
        {"\n", "10 MB of lines", "line 10485761, column 1: ", "ends where a value is expected"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct arena arena = {.bytes_max = (size_t)1 << 20};
        _cleanup_(buf_done) struct buf text = {0};
        struct json *value = NULL;
        struct err err = {0};

        test_case(rows[i].why);
        while (text.len < (size_t)10 << 20)
            buf_add(&text, str_from(rows[i].piece));
        int r = json_parse(&arena, buf_str(&text), &value, &err);
        EXPECT(rows[i].text ? r == -EINVAL && strstr(err.text, rows[i].text) : r == 0);
        EXPECT(str_starts(str_from(err.text), str_from(rows[i].where)));
        arena_done(&arena);
    }
}

TEST(json_a_text_cut_anywhere_is_refused_with_the_place_of_the_cut)
{
    static const char text[] =
        "{\"spec\":{\"on\":true,\n\"list\":[1,-2.5e3,\"a\\u00e9\\n\",null],\n"
        "\"deep\":{\"x\":[{},[]],\"y\":\"\xc3\xa9\"}}}";

    for (size_t len = 0; len < sizeof(text) - 1; len++) {
        struct arena arena = {.bytes_max = (size_t)64 << 10};
        struct json *value = NULL;
        struct err err = {0};
        unsigned line = 1;

        for (size_t i = 0; i < len; i++)
            line += text[i] == '\n';
        struct str place = str_printf(&arena, "line %u, column ", line);
        test_case(str_printf(&arena, "cut behind %zu bytes", len).p);
        EXPECT(json_parse(&arena, (struct str){text, len}, &value, &err) == -EINVAL && !value);
        EXPECT(str_starts(str_from(err.text), place));
        arena_done(&arena);
    }
}

TEST(json_limits_are_errors_that_say_so)
{
    struct arena arena = {0};
    _cleanup_(buf_done) struct buf text = {0};
    struct json *value = NULL;
    struct err err = {0};

    for (int i = 0; i <= JSON_MEMBERS_MAX; i++)
        buf_addf(&text, "%c\"n%d\":0", i ? ',' : '{', i);
    buf_addc(&text, '}');
    EXPECT(json_parse(&arena, buf_str(&text), &value, &err) == -EINVAL);
    EXPECT(strstr(err.text, "an object has too many members"));
    struct str large = {"", JSON_BYTES_MAX + 1};
    EXPECT(json_parse(&arena, large, &value, &err) == -EINVAL);
    EXPECT(strstr(err.text, "over the limit"));

    buf_clear(&text);
    for (int i = 0; i < JSON_DEPTH_MAX; i++)
        buf_addc(&text, '[');
    for (int i = 0; i < JSON_DEPTH_MAX; i++)
        buf_addc(&text, ']');
    EXPECT(json_parse(&arena, buf_str(&text), &value, NULL) == 0);
    arena_done(&arena);
}

TEST(json_whole_numbers_are_exact_or_refused)
{
    static const struct {
        const char *text;
        int64_t value;
        bool ok;
    } rows[] = {
        {"0", 0, true},
        {"-0", 0, true},
        {"1e3", 1000, true},
        {"2.0", 2, true},
        {"2.50e1", 25, true},
        {"9223372036854775807", INT64_MAX, true},
        {"-9223372036854775808", INT64_MIN, true},
        {"922337203685477580.7e1", INT64_MAX, true},
        {"100e-2", 1, true},
        {"0e99999999999", 0, true},
        {"9223372036854775808", 0, false},
        {"2.5", 0, false},
        {"1e-1", 0, false},
        {"1e19", 0, false},
        {"1e400", 0, false},
        {"1e99999999999999999999", 0, false},
        {"\"1\"", 0, false},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct arena arena = {0};
        int64_t value = -77;

        test_case(rows[i].text);
        EXPECT(json_i64(parsed(&arena, rows[i].text), &value) == rows[i].ok);
        EXPECT(value == (rows[i].ok ? rows[i].value : -77));
        arena_done(&arena);
    }
}

TEST(json_paths_lead_through_objects_and_arrays_and_end_in_nothing)
{
    struct arena arena = {0};
    const struct json *pod = parsed(
        &arena, "{\"spec\":{\"containers\":[{\"name\":\"a\"},{\"name\":\"b\"}]},\"n\":null}");

    EXPECT(str_is(json_str_at(pod, "spec.containers.1.name"), "b"));
    EXPECT(!json_at(pod, "spec.containers.2.name") && !json_at(pod, "spec.nothing.at.all"));
    EXPECT(!json_at(pod, "spec.containers.x") && !json_at(NULL, "spec"));
    EXPECT(json_is_null(json_get(pod, "n")) && json_is_null(json_get(pod, "absent")));
    EXPECT(!str_is_set(json_str(json_get(pod, "spec"))) && json_count(NULL) == 0);
    EXPECT(json_bool_or(json_get(pod, "n"), true) && json_i64_or(NULL, 5) == 5);
    arena_done(&arena);
}

TEST(json_equality_ignores_member_order_and_number_spelling)
{
    static const struct {
        const char *a;
        const char *b;
        bool equal;
    } rows[] = {
        {"{\"a\":1,\"b\":[1,2]}", "{\"b\":[1,2],\"a\":1}", true},
        {"{\"a\":1}", "{\"a\":1.0}", true},
        {"[1,2]", "[2,1]", false},
        {"{\"a\":1}", "{\"b\":1}", false},
        {"{\"a\":1}", "{\"a\":1,\"b\":null}", false},
        {"null", "false", false},
        {"\"1\"", "1", false},
        {"1.5", "1.50", false}, /* fractions are compared as written */
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct arena arena = {0};

        test_case(rows[i].b);
        EXPECT(json_equal(parsed(&arena, rows[i].a), parsed(&arena, rows[i].b)) == rows[i].equal);
        arena_done(&arena);
    }
    EXPECT(json_equal(NULL, NULL));
}

TEST(json_large_objects_compare_in_any_order)
{
    struct arena arena = {0};
    struct json *a = json_new_object(&arena);
    struct json *b = json_new_object(&arena);

    for (int i = 0; i < 500; i++) {
        json_set(a, str_printf(&arena, "n%d", i), json_new_i64(&arena, i));
        json_set(b, str_printf(&arena, "n%d", 499 - i), json_new_i64(&arena, 499 - i));
    }
    EXPECT(json_equal(a, b));
    json_set(b, STR("n250"), json_new_i64(&arena, 0));
    EXPECT(!json_equal(a, b));
    arena_done(&arena);
}

/* {"deep": {...}, "n0": 0, ...}, so many levels, with one pair of members in the order asked for. */
static struct json *nested(struct arena *arena, int levels, bool swapped)
{
    struct json *inner = json_new_object(arena);

    for (int level = 0; level < levels; level++) {
        struct json *outer = json_new_object(arena);

        json_append(outer, STR("deep"), inner);
        for (int i = 0; i < 80; i++) {
            int number = swapped ? i ^ 1 : i;

            json_append(outer, str_printf(arena, "n%d", number), json_new_i64(arena, number));
        }
        inner = outer;
    }
    return inner;
}

/* Two to the power of its depth comparisons would never end. */
TEST(json_large_objects_in_large_objects_are_compared_once)
{
    struct arena arena = {0};
    struct json *a = nested(&arena, 200, false);
    struct json *b = nested(&arena, 200, true);

    EXPECT(json_equal(a, b));
    EXPECT(json_equal(b, a));
    json_set(b, STR("n79"), json_new_i64(&arena, 0));
    EXPECT(!json_equal(a, b));
    arena_done(&arena);
}

/* The links between siblings are the delicate part: every place, every operation, against an array.
 */
TEST(json_arrays_agree_with_a_model_under_any_changes)
{
    for (uint64_t seed = 0; seed < 30; seed++) {
        struct rng rng = {seed};
        struct arena arena = {0};
        struct json *array = json_new_array(&arena);
        int64_t model[64];
        size_t count = 0;

        for (int64_t i = 0; i < 400; i++) {
            size_t at = rng_below(&rng, count + 1);

            if (count < 64 && (count == 0 || rng_below(&rng, 2))) {
                memmove(&model[at + 1 > 64 ? 64 : at + 1], &model[at],
                        (count - at) * sizeof(model[0]));
                model[at] = i;
                count++;
                if (at == count - 1)
                    json_push(array, json_new_i64(&arena, i));
                else
                    json_insert(array, at, json_new_i64(&arena, i));
            } else {
                at = at == count ? count - 1 : at;
                memmove(&model[at], &model[at + 1], (count - at - 1) * sizeof(model[0]));
                count--;
                json_remove_index(array, at);
            }
        }
        size_t index = 0;
        JSON_FOREACH(array, item) {
            EXPECT(index < count && json_i64_or(item, -1) == model[index]);
            index++;
        }
        EXPECT(index == count && json_count(array) == count && !json_index(array, count));
        arena_done(&arena);
    }
}

TEST(json_members_are_set_in_place_and_removed)
{
    struct arena arena = {0};
    struct json *object = parsed(&arena, "{\"a\":1,\"b\":2,\"c\":3}");

    json_add_c(&arena, object, "b", "x");
    json_add_bool(&arena, object, "d", true);
    EXPECT(str_is(json_text(&arena, object), "{\"a\":1,\"b\":\"x\",\"c\":3,\"d\":true}"));
    json_add_i64(&arena, object, "a", 9);
    json_add_str(&arena, object, "d", STR("end"));
    EXPECT(str_is(json_text(&arena, object), "{\"a\":9,\"b\":\"x\",\"c\":3,\"d\":\"end\"}"));
    EXPECT(json_remove(object, STR("d")) && json_remove(object, STR("a")));
    EXPECT(!json_remove(object, STR("a")));
    EXPECT(str_is(json_text(&arena, object), "{\"b\":\"x\",\"c\":3}"));
    EXPECT(json_remove(object, STR("b")) && json_remove(object, STR("c")) && !json_first(object));
    json_add_array(&arena, object, "e");
    json_add_object(&arena, json_make_path(&arena, object, "f.g"), "h");
    EXPECT(str_is(json_text(&arena, object), "{\"e\":[],\"f\":{\"g\":{\"h\":{}}}}"));
    arena_done(&arena);
}

TEST(json_a_clone_shares_nothing)
{
    struct arena first = {0};
    struct arena second = {0};
    char text[] = "{\"a\":[\"b\",1,true,null],\"c\":{}}";
    struct json *original = NULL;

    EXPECT(json_parse(&first, str_from(text), &original, NULL) == 0);
    struct json *copy = json_clone(&second, original);
    arena_done(&first);
    memset(text, 'x', sizeof(text) - 1);
    EXPECT(str_is(json_text(&second, copy), "{\"a\":[\"b\",1,true,null],\"c\":{}}"));
    EXPECT(!json_clone(&second, NULL));
    arena_done(&second);
}

TEST(json_pretty_text_is_kubectls)
{
    struct arena arena = {0};
    _cleanup_(buf_done) struct buf buf = {0};

    json_write_pretty(&buf, parsed(&arena, "{\"a\":[1,{}],\"b\":[]}"));
    EXPECT(str_is(buf_str(&buf),
                  "{\n    \"a\": [\n        1,\n        {}\n    ],\n    \"b\": []\n}\n"));
    arena_done(&arena);
}

TEST(json_names_are_put_dropped_and_found_in_objects_of_any_size)
{
    static const int sizes[] = {0, 1, 3, JSON_NAMES_SCAN_MAX, JSON_NAMES_SCAN_MAX + 1, 500};

    for (size_t s = 0; s < COUNT_OF(sizes); s++) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct json *object = json_new_object(&arena);
        int n = sizes[s];

        for (int i = 0; i < n; i++)
            json_append(object, str_printf(&arena, "k%d", i), json_new_i64(&arena, i));
        {
            _cleanup_(json_names_done) struct json_names names = {.object = object};

            EXPECT(!json_names_get(&names, STR("none")));
            for (int i = n - 1; i >= 0; i--) {
                struct str key = str_printf(&arena, "k%d", i);

                if (i % 2)
                    json_names_drop(&names, key);
                else
                    (void)json_names_put(&names, key, json_new_i64(&arena, i + 1000));
                EXPECT(!json_names_get(&names, key) == (i % 2 == 1));
            }
            (void)json_names_put(&names, STR("new"), json_new_bool(&arena, true));
            (void)json_names_put(&names, STR("k1"), json_new_bool(&arena, true));
            json_names_drop(&names, STR("none"));
        }
        EXPECT(json_count(object) == (size_t)(n + 1) / 2 + 2);
        int at = 0;
        JSON_FOREACH(object, member) {
            if (at < n)
                EXPECT(json_i64_or(member, 0) == at + 1000);
            at += 2;
        }
        EXPECT(json_bool_or(json_get(object, "new"), false));
        EXPECT(json_bool_or(json_get(object, "k1"), false));
    }
    struct json_names none = {0};
    EXPECT(!json_names_get(&none, STR("a")));
    json_names_done(&none);
}
