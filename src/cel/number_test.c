#include "base/arena.h"
#include "base/count.h"
#include "base/rng.h"
#include "base/str.h"
#include "cel/number.h"
#include "test.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* libc reads them as we do, where there is no locale. */
static void expect_as_libc(const char *text)
{
    double ours = 0;
    double theirs = strtod(text, NULL);

    test_case(text);
    EXPECT(number_parse(str_from(text), &ours));
    EXPECT(memcmp(&ours, &theirs, sizeof(ours)) == 0);
}

TEST(doubles_are_read_to_the_nearest)
{
    static const char *const texts[] = {
        "0",
        "-0",
        "1",
        "0.1",
        "-2.5",
        "1e22",
        "1e23",
        "123456789012345678901234567890",
        "9007199254740993",
        "9007199254740993.0000000000000000001",
        "1.7976931348623157e308",
        "2.2250738585072014e-308",
        "2.2250738585072011e-308",
        "4.9406564584124654e-324",
        "2.4703282292062327e-324",
        "2.4703282292062328e-324",
        "1e-400",
        "0.30000000000000004",
    };
    struct rng rng = {7};
    char text[64];

    for (size_t i = 0; i < COUNT_OF(texts); i++)
        expect_as_libc(texts[i]);
    for (size_t i = 0; i < 3000; i++) {
        (void)snprintf(text, sizeof(text), "%llue%d", (unsigned long long)rng_next(&rng),
                       (int)(rng_next(&rng) % 600) - 330);
        double theirs = strtod(text, NULL);
        if (!number_is_infinite(theirs))
            expect_as_libc(text);
    }
}

TEST(what_is_between_two_doubles_is_rounded_by_its_last_digit)
{
    struct rng rng = {11};
    char text[1000];

    for (size_t i = 0; i < 500; i++) {
        uint64_t bits = rng_next(&rng) >> 1;
        double below = 0;
        double above = 0;

        /* A quarter of them are too small for a leading one. */
        bits = i % 4 ? bits % ((uint64_t)0x7fe << 52) : bits >> 12;
        memcpy(&below, &bits, sizeof(below));
        bits++;
        memcpy(&above, &bits, sizeof(above));
        long double middle = ((long double)below + (long double)above) / 2;
        int len = snprintf(text, sizeof(text), "%.900Le", middle);
        EXPECT(len > 900 && (size_t)len < sizeof(text));
        expect_as_libc(text);
        char *last = strchr(text, 'e') - 1;
        *last = '1'; /* a little more than the middle */
        expect_as_libc(text);
    }
    expect_as_libc("1.00000000000000033306690738754696212708950042724609375");
}

TEST(what_is_no_double_is_refused)
{
    static const char *const texts[] = {
        "",      "-",     ".",  "1e",   "1e+",  "1x",           "0x1",
        "1e400", "1e310", "1 ", "1e5x", "1e5/", "1e9999999999", "1.8e308"};
    double value = 0;

    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        test_case(texts[i]);
        EXPECT(!number_parse(str_from(texts[i]), &value));
    }
}

TEST(doubles_are_written_short_and_as_go_does)
{
    static const struct {
        double value;
        const char *text;
    } rows[] = {{0, "0"},
                {1, "1"},
                {-2.5, "-2.5"},
                {0.1, "0.1"},
                {123456, "123456"},
                {1234567, "1.234567e+06"},
                {1e6, "1e+06"},
                {0.0001, "0.0001"},
                {0.00001, "1e-05"},
                {6.02214e23, "6.02214e+23"},
                {1.0 / 3, "0.3333333333333333"}};
    struct arena arena = {0};

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        test_case(rows[i].text);
        EXPECT(str_is(number_text(&arena, rows[i].value), rows[i].text));
    }
    arena_done(&arena);
}
