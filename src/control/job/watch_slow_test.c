#include "api/ranks.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/str.h"
#include "control/job/watch.h"
#include "test.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NOW         INT64_C(1000000000)
#define RANKS       4
#define OWN_STEP_MS 1000

TEST(a_rank_that_needs_more_time_before_the_collective_is_named)
{
    static const struct {
        const char *why;
        int64_t own_ms[RANKS];
        int slow; /* -1: none */
        bool missing;
        int64_t parts[RANKS]; /* in hundredths; 0: as they are in one step of OWN_STEP_MS */
        int64_t spread;       /* in hundredths, of all but the slow one */
    } slow_rows[] = {
        {"all alike", {400, 410, 390, 420}, -1, false, {0}, 0},
        {"a fifth more than the others", {400, 410, 480, 390}, 2, false, {0}, 0},
        {"the same, as told with a small difference", {400, 400, 466, 400}, 2, false, {0}, 0},
        {"a tenth more", {400, 410, 440, 390}, -1, false, {0}, 0},
        {"twice as much, which is nothing of a step", {20, 20, 40, 20}, -1, false, {0}, 0},
        {"of one it is not known", {400, 0, 800, 400}, -1, false, {0}, 0},
        {"of a pod it is not known", {400, 400, 800, 400}, -1, true, {0}, 0},
        {"two of them: the first", {800, 400, 800, 400}, 0, false, {0}, 0},
        {"its steps were longer for all", {400, 410, 480, 390}, -1, false, {80, 82, 80, 79}, 0},
        {"another one was slow at times", {400, 410, 400, 390}, -1, false, {60, 62, 80, 61}, 0},
        {"as much as steps differ anyway", {400, 410, 480, 390}, -1, false, {0}, 12},
        {"more than they differ", {400, 410, 480, 390}, 2, false, {0}, 7},
    };

    for (size_t i = 0; i < COUNT_OF(slow_rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct watch_rank ranks[RANKS];

        test_case(slow_rows[i].why);
        for (int j = 0; j < RANKS; j++)
            ranks[j] = (struct watch_rank){
                {.rank = j,
                 .act = j ? RANK_STEPPING : RANK_BUSY,
                 .since_ms = NOW - 1000,
                 .last_ms = NOW,
                 .steps = 100,
                 .step_ms = OWN_STEP_MS,
                 .own_us = 1000 * slow_rows[i].own_ms[j],
                 .own_part = slow_rows[i].parts[j] ? 10000 * slow_rows[i].parts[j]
                                                   : 1000000 * slow_rows[i].own_ms[j] / OWN_STEP_MS,
                 .own_spread = j == 2 ? 0 : 10000 * slow_rows[i].spread,
                 .gpu = j + 1},
                STR("p"),
                STR("n")};
        struct watch_verdict verdict =
            watch_judge(ranks, RANKS, !slow_rows[i].missing, NOW, &arena);
        int slow = slow_rows[i].slow;
        EXPECT(verdict.word == (slow < 0 ? WATCH_PROGRESSING : WATCH_SLOW));
        EXPECT(slow < 0 ? !verdict.culprit : verdict.culprit == &ranks[slow]);
        if (i == 1)
            EXPECT(str_is(verdict.message,
                          "rank 2 (pod p, node n) takes 480 ms of each step before its peers can "
                          "go on, which take 400 ms (the median) and wait for it; it is on GPU 2 "
                          "of that node"));
    }
}
