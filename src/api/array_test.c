#include "api/array.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/err.h"
#include "test.h"

#include <errno.h>

TEST(the_indexes_of_an_array_are_read_as_sbatch_writes_them)
{
    static const struct {
        const char *text;
        const char *want; /* NULL: refused */
        size_t count;
    } rows[] = {
        {"0-9", "0-9", 10},        {"3", "3", 1},
        {"1,3,5-7", "1,3,5-7", 5}, {"0-10:5", "0,5,10", 3},
        {"4,2,3,2", "2-4", 3},     {"0-999", "0-999", 1000},
        {"9999", "9999", 1},       {"0-1000", NULL, 0},
        {"10000", NULL, 0},        {"", NULL, 0},
        {"3-1", NULL, 0},          {"a", NULL, 0},
        {"1-", NULL, 0},           {"-1", NULL, 0},
        {"1,,2", NULL, 0},         {"0-9:0", NULL, 0},
        {"0-9%2", NULL, 0},        {"5:2", NULL, 0},
        {"+1", NULL, 0},           {"99999999999", NULL, 0},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct array_indexes indexes = {0};
        struct err err = {0};

        test_case(rows[i].text);
        int r = array_parse(&arena, str_from(rows[i].text), &indexes, &err);
        EXPECT(r == (rows[i].want ? 0 : -EINVAL));
        EXPECT(r == 0 || err.text[0]);
        EXPECT(indexes.count == rows[i].count);
        EXPECT(r < 0 || str_is(array_text(&arena, &indexes), rows[i].want));
    }
}
