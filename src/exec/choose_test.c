#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/err.h"
#include "base/str.h"
#include "exec/runner.h"
#include "test.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

static bool has(const struct runner_names *names, const char *name)
{
    for (size_t i = 0; i < names->count; i++)
        if (strcmp(names->items[i], name) == 0)
            return true;
    return false;
}

TEST(controllers_are_chosen_by_name)
{
    static const struct {
        const char *list;
        bool pytorch; /* stays off */
        bool tf;
        bool torchrun;
    } rows[] = {
        {"", false, false, false},
        {"-pytorchjob", true, false, false},
        {"-pytorchjob,-tfjob", true, true, false},
        {"*,-tfjob", false, true, false},
        {"torchrunjob", true, true, false},
        {"torchrunjob,pytorchjob", false, true, false},
        {"*,torchrunjob", false, false, false},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct runner_names without = {0};

        test_case(rows[i].list);
        EXPECT(runner_choose(&arena, str_from(rows[i].list), &without, NULL) == 0);
        EXPECT(has(&without, "pytorchjob") == rows[i].pytorch);
        EXPECT(has(&without, "tfjob") == rows[i].tf);
        EXPECT(has(&without, "torchrunjob") == rows[i].torchrun);
    }
}

TEST(a_controller_that_does_not_exist_is_refused)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct runner_names without = {0};
    struct err err = {0};

    EXPECT(runner_choose(&arena, STR("-pytorch"), &without, &err) < 0);
    EXPECT(strstr(err.text, "\"pytorch\""));
}
