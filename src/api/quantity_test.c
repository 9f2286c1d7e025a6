#include "api/quantity.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/err.h"
#include "base/str.h"
#include "test.h"

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

TEST(quantity_reads_every_suffix_exactly)
{
    static const struct {
        const char *why;
        const char *text;
        int64_t milli;
        int64_t whole;
    } rows[] = {
        {"plain", "2", 2000, 2},
        {"milli", "500m", 500, 1},
        {"fraction", "1.5", 1500, 2},
        {"leading point", ".5", 500, 1},
        {"trailing point", "5.", 5000, 5},
        {"nano rounds up", "1n", 1, 1},
        {"micro", "1500u", 2, 1},
        {"kilo", "3k", 3000000, 3000},
        {"kibi", "3Ki", 3072000, 3072},
        {"gibi fraction", "1.5Gi", 1610612736000, 1610612736},
        {"exa", "0.001E", 1000000000000000000, 1000000000000000},
        {"exponent", "2e3", 2000000, 2000},
        {"capital exponent", "2E3", 2000000, 2000},
        {"negative exponent", "25e-1", 2500, 3},
        {"negative", "-1.5", -1500, -2},
        {"plus", "+1", 1000, 1},
        {"finer than nano", "0.0000000001", 1, 1},
        {"finer than anything", "1.0000000000000000001", 1001, 2},
        {"as fine, and nothing", "1.00000000000000000000", 1000, 1},
        {"plus before an exponent", "2e+3", 2000000, 2000},
        {"nothing of the largest", "0e100", 0, 0},
        {"next to nothing", "1e-100", 1, 1},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        int64_t milli = 0;
        int64_t whole = 0;

        test_case(rows[i].why);
        EXPECT(quantity_milli(str_from(rows[i].text), &milli, NULL) == 0);
        EXPECT(quantity_whole(str_from(rows[i].text), &whole, NULL) == 0);
        EXPECT(milli == rows[i].milli);
        EXPECT(whole == rows[i].whole);
    }
}

TEST(quantity_has_every_suffix_of_kubernetes)
{
    static const struct {
        const char *suffix;
        int64_t base;
        int power;
    } rows[] = {
        {"", 1000, 0},   {"k", 1000, 1},  {"M", 1000, 2},  {"G", 1000, 3},
        {"T", 1000, 4},  {"P", 1000, 5},  {"E", 1000, 6},  {"Ki", 1024, 1},
        {"Mi", 1024, 2}, {"Gi", 1024, 3}, {"Ti", 1024, 4}, {"Pi", 1024, 5},
        {"Ei", 1024, 6}, {"m", 1000, -1}, {"u", 1000, -2}, {"n", 1000, -3},
    };
    struct arena arena = {0};

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct str text = str_printf(&arena, "5%s", rows[i].suffix);
        struct quantity quantity = {0};
        __int128 nano = 5 * (__int128)1000000000;

        test_case(text.p);
        for (int j = 0; j < rows[i].power; j++)
            nano *= rows[i].base;
        for (int j = 0; j > rows[i].power; j--)
            nano /= rows[i].base;
        EXPECT(quantity_parse(text, &quantity, NULL) == 0 && quantity.nano == nano);
        EXPECT(str_eq(quantity_text(&arena, quantity), text));
    }
    arena_done(&arena);
}

TEST(quantity_refuses_what_is_none_and_what_overflows)
{
    static const struct {
        const char *text;
        int code;
    } rows[] = {{"", -EINVAL},
                {"Gi", -EINVAL},
                {"1 Gi", -EINVAL},
                {"1gi", -EINVAL},
                {"1..2", -EINVAL},
                {"0x10", -EINVAL},
                {"1e", -EINVAL},
                {"--1", -EINVAL},
                {"1e1000", -EINVAL},
                {"9Ei", -ERANGE},
                {"1e40", -ERANGE},
                {"NaN", -EINVAL},
                {"10000000Pi", -ERANGE},
                {"1e-101", -EINVAL},
                {"100000000000000000000000000000000000000000", -ERANGE},
                {"1700000000000000000000.9999999999999999999", -ERANGE},
                {"99999999999999999999.999999999999999999", -ERANGE},
                {"10000000000000000000Ei", -ERANGE},
                {"1000000000000000000000Ki", -ERANGE},
                {"-9Ei", -ERANGE}};

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        int64_t whole = 7;
        struct err err = {0};

        test_case(rows[i].text);
        EXPECT(quantity_whole(str_from(rows[i].text), &whole, &err) == rows[i].code);
        EXPECT(whole == 7 && err.text[0]);
    }
    int64_t milli = 7;
    EXPECT(quantity_milli(STR("7Ei"), &milli, NULL) == -ERANGE && milli == 7);
}

TEST(quantity_text_is_canonical)
{
    static const struct {
        const char *in;
        const char *out;
    } rows[] = {{"1000m", "1"},      {"0.5", "500m"},  {"1024Mi", "1Gi"},  {"1536Mi", "1536Mi"},
                {"1000", "1k"},      {"0", "0"},       {"1e3", "1e3"},     {"0.5Gi", "512Mi"},
                {"-2000m", "-2"},    {"100k", "100k"}, {"512Ki", "512Ki"}, {"1Ki", "1Ki"},
                {"0.1Ki", "102400m"}};

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct quantity quantity = {0};

        test_case(rows[i].in);
        EXPECT(quantity_parse(str_from(rows[i].in), &quantity, NULL) == 0);
        EXPECT(str_is(quantity_text(&arena, quantity), rows[i].out));
    }
}
