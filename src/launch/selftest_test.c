#include "api/launch.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "launch/selftest.h"
#include "test.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define SQUARE ((size_t)SELFTEST_SIDE * SELFTEST_SIDE)

TEST(a_bit_that_flips_is_found_where_it_is)
{
    uint64_t words[1000];

    selftest_fill(words, 1000, 5);
    EXPECT(selftest_differs(words, 1000, 5) == 1000);
    EXPECT(selftest_differs(words, 1000, 6) == 0);
    words[731] ^= UINT64_C(1) << 40;
    EXPECT(selftest_differs(words, 1000, 5) == 731);
}

TEST(a_product_with_one_wrong_entry_is_none)
{
    double *room = calloc(3 * SQUARE, sizeof(double));
    double *c = room + 2 * SQUARE;

    for (size_t i = 0; i < 2 * SQUARE; i++)
        room[i] = (double)((i * 7919) % 1000);
    selftest_multiply(room, room + SQUARE, c);
    EXPECT(selftest_is_product(room, room + SQUARE, c));
    c[SQUARE / 3] += 1;
    EXPECT(!selftest_is_product(room, room + SQUARE, c));
    free(room);
}

extern const char selftest_py[];

TEST(the_node_agent_knows_the_words_of_gpus_that_are_right)
{
    EXPECT(str_contains(str_from(selftest_py), STR(LAUNCH_TEST_GPUS_RIGHT)));
}

TEST(a_machine_that_is_well_passes_and_what_the_administrator_adds_decides)
{
    static const struct {
        const char *why;
        const char *command;
        bool well;
        const char *says;
    } rows[] = {
        {"nothing is added", "", true, "memory, products of matrices and sums are right"},
        {"it agrees", "echo fine", true, "memory, products of matrices and sums are right"},
        {"it does not", "echo first; echo the fan is off; exit 4", false,
         "the administrator's test ended with exit status 4: the fan is off"},
        {"it closes its output and stays", "exec >&-; sleep 60", false,
         "the administrator's test did not end in time"},
        {"it stays", "sleep 60", false, "the administrator's test did not end in time"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        bool stays = strstr(rows[i].command, "sleep") != NULL;
        const struct selftest test = {.memory_bytes = 1 << 20, .limit_s = stays ? 1 : 60};
        _cleanup_(buf_done) struct buf words = {0};

        test_case(rows[i].why);
        (void)setenv(LAUNCH_ENV_TEST_COMMAND, rows[i].command, 1);
        EXPECT(selftest_run(&test, &words) == rows[i].well);
        EXPECT(str_is(buf_str(&words), rows[i].says));
    }
    (void)unsetenv(LAUNCH_ENV_TEST_COMMAND);
}
