#include "base/count.h"
#include "base/rng.h"
#include "base/str.h"
#include "stacks/lines.h"
#include "test.h"

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Tables that CPython wrote for two functions: one with a call over several lines, a loop and a
 * finally, and one with 300 empty lines in it. */
#define PAIRS_F  "0002020106fe0404080102010a020e02020106ff"
#define PAIRS_H  "0001047f007f002f0401"
#define RANGES_F "0202060104fe080402010a010c020202060104ff"
#define RANGES_H "0401007f007f042f0401"
#define ENTRIES_F                                                                                  \
    "8000e00809d8080988418905f0050309068041f308000e0f8801f002030912dc0c0d88618c44e010118a41f10900" \
    "0e0ff00c000d0edc0e0f90018b64f103010d13f000010514f8f0050011128941fa"
#define ENTRIES_H "8000d808098041f05a0900090a8041d80b0c8048"

static struct str unhex(const char *hex, char *out)
{
    size_t len = strlen(hex) / 2;

    for (size_t i = 0; i < len; i++) {
        char pair[3] = {hex[2 * i], hex[2 * i + 1], '\0'};
        out[i] = (char)strtoul(pair, NULL, 16);
    }
    return (struct str){out, len};
}

TEST(lines_of_every_form_of_table)
{
    static const struct {
        const char *why;
        enum lines_form form;
        const char *table;
        int64_t first, at, line;
    } rows[] = {
        {"3.9: the first instruction", LINES_PAIRS, PAIRS_F, 2, 0, 4},
        {"3.9: between two entries", LINES_PAIRS, PAIRS_F, 2, 6, 5},
        {"3.9: back to an earlier line", LINES_PAIRS, PAIRS_F, 2, 10, 3},
        {"3.9: the last entry lasts", LINES_PAIRS, PAIRS_F, 2, 56, 13},
        {"3.9: more than 127 lines are several entries", LINES_PAIRS, PAIRS_H, 1, 4, 303},
        {"3.9: and go on from there", LINES_PAIRS, PAIRS_H, 1, 8, 304},
        {"3.10: the first instruction", LINES_RANGES, RANGES_F, 2, 0, 4},
        {"3.10: back to an earlier line", LINES_RANGES, RANGES_F, 2, 10, 3},
        {"3.10: a loop's body", LINES_RANGES, RANGES_F, 2, 22, 9},
        {"3.10: the last range", LINES_RANGES, RANGES_F, 2, 54, 13},
        {"3.10: behind the last range is no line", LINES_RANGES, RANGES_F, 2, 56, -1},
        {"3.10: many lines in one step", LINES_RANGES, RANGES_H, 1, 4, 303},
        {"3.10: a range without a line", LINES_RANGES, "0480", 1, 2, -1},
        {"3.11+: the first instruction is that of def", LINES_ENTRIES, ENTRIES_F, 2, 0, 2},
        {"3.11+: a short form", LINES_ENTRIES, ENTRIES_F, 2, 4, 5},
        {"3.11+: the long form, back", LINES_ENTRIES, ENTRIES_F, 2, 12, 3},
        {"3.11+: the body of try", LINES_ENTRIES, ENTRIES_F, 2, 30, 9},
        {"3.11+: the second line of an expression", LINES_ENTRIES, ENTRIES_F, 2, 70, 14},
        {"3.11+: an instruction without a line", LINES_ENTRIES, ENTRIES_F, 2, 90, -1},
        {"3.11+: the exception's way", LINES_ENTRIES, ENTRIES_F, 2, 92, 11},
        {"3.11+: many lines in one step", LINES_ENTRIES, ENTRIES_H, 1, 6, 303},
        {"3.11+: and back to short forms", LINES_ENTRIES, ENTRIES_H, 1, 12, 304},
        {"3.11+: behind the end", LINES_ENTRIES, ENTRIES_H, 1, 400, -1},
        {"a cut table", LINES_ENTRIES, "f05a", 1, 0, -1},
        {"a number without end", LINES_ENTRIES, "f07f7f7f7f7f7f7f7f7f", 1, 0, -1},
        {"no table at all", LINES_ENTRIES, "", 1, 0, -1},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char bytes[256];

        test_case(rows[i].why);
        EXPECT(lines_find(rows[i].form, unhex(rows[i].table, bytes), rows[i].first, rows[i].at) ==
               rows[i].line);
    }
}

TEST(lines_of_any_bytes_are_a_line_or_none)
{
    struct rng rng = {.state = 7};
    char bytes[64];

    for (int i = 0; i < 3000; i++) {
        for (size_t j = 0; j < sizeof(bytes); j++)
            bytes[j] = (char)rng_next(&rng);
        for (int form = LINES_PAIRS; form <= LINES_ENTRIES; form++) {
            int64_t line = lines_find((enum lines_form)form,
                                      (struct str){bytes, (size_t)i % sizeof(bytes)}, 5, i % 200);
            EXPECT(line == -1 || line > 0);
        }
    }
}
