#include "base/str.h"
#include "server/refused.h"
#include "test.h"

#include <stdint.h>

TEST(refused_requests_do_not_fill_the_audit_log)
{
    struct refused refused = {0};
    uint64_t left_out = 0;
    unsigned written = 0;

    for (int i = 0; i < 10000; i++)
        written += refused_takes(&refused, STR("mallory"), 1000 + i, &left_out);
    EXPECT(written == REFUSED_LINES_MAX && left_out == 0);
    EXPECT(refused_takes(&refused, STR("alice"), 12000, &left_out) && left_out == 0);
    EXPECT(!refused_takes(&refused, STR("mallory"), 12001, &left_out) && left_out == 0);
    /* The minute is over: what was left out is told, once. */
    EXPECT(refused_takes(&refused, STR("mallory"), 1000 + REFUSED_WINDOW_MS, &left_out));
    EXPECT(left_out == 10001 - REFUSED_LINES_MAX);
    EXPECT(refused_takes(&refused, STR("mallory"), 1001 + REFUSED_WINDOW_MS, &left_out));
    EXPECT(left_out == 0);
    refused_done(&refused);
}

TEST(refused_requests_of_many_names_are_bounded_too)
{
    struct refused refused = {0};
    uint64_t left_out = 0;
    unsigned written = 0;

    for (uint32_t i = 0; i < 3 * REFUSED_USERS_MAX; i++) {
        char name[8] = {'u', (char)('a' + i % 26), (char)('a' + i / 26 % 26),
                        (char)('a' + i / 676 % 26)};

        written += refused_takes(&refused, str_from(name), 1000, &left_out);
    }
    EXPECT(refused.users.count <= REFUSED_USERS_MAX + 1);
    EXPECT(written <= REFUSED_USERS_MAX + REFUSED_LINES_MAX);
    refused_done(&refused);
}
