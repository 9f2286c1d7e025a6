#include "api/ranks.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/str.h"
#include "control/job/watch.h"
#include "test.h"

#include <stddef.h>
#include <stdint.h>

/* Gangs of one to three ranks: who is named, and what is said of it. */

#define S       1000LL
#define NOW     (1000000 * S)
#define CODE    RANK_PHASE_CODE
#define BACK    RANK_PHASE_BACKWARD
#define LOADER  RANK_PHASE_LOADER
#define STEP_MS 200

struct told {
    enum rank_act act;
    enum rank_phase phase;
    int ago_s; /* since when */
};

TEST(small_gangs_are_judged_by_the_same_rules)
{
    static const struct {
        const char *why;
        size_t count;
        struct told ranks[3];
        enum watch_word word;
        int culprit; /* -1: none */
        const char *says;
    } small_rows[] = {
        {"one rank, stopped: nobody waits for it, so it is no proof",
         1,
         {{RANK_STOPPED, CODE, 60}},
         WATCH_SUSPECTED,
         0,
         "is stopped by a signal since 1970-01-12T13:45:40Z, after 7 steps"},
        {"one waits for one",
         2,
         {{RANK_STOPPED, CODE, 60}, {RANK_LOCKED, BACK, 60}},
         WATCH_HUNG,
         0,
         "; 1 rank waits for it"},
        {"of two that are stopped the first",
         3,
         {{RANK_STOPPED, CODE, 50}, {RANK_STOPPED, CODE, 70}, {RANK_IDLE, CODE, 60}},
         WATCH_HUNG,
         1,
         "is stopped by a signal"},
        {"stopped says more than ended",
         2,
         {{RANK_ZOMBIE, CODE, 90}, {RANK_STOPPED, CODE, 60}},
         WATCH_HUNG,
         1,
         ""},
        {"ended, and not noticed",
         2,
         {{RANK_ZOMBIE, CODE, 60}, {RANK_LOCKED, BACK, 60}},
         WATCH_HUNG,
         0,
         "has failed, and its parent has not noticed"},
        {"one rank that waits",
         1,
         {{RANK_IDLE, BACK, 120}},
         WATCH_SUSPECTED,
         -1,
         "its only rank waits, and uses no CPU time"},
        {"one rank that waits, and not for long",
         1,
         {{RANK_IDLE, BACK, 30}},
         WATCH_WAITING,
         -1,
         ""},
        {"of two that load the one that has waited longest",
         3,
         {{RANK_IDLE, BACK, 100}, {RANK_IDLE, BACK, 100}, {RANK_IDLE, LOADER, 90}},
         WATCH_SUSPECTED,
         2,
         "waits in"},
        {"more are outside than not: nobody is named",
         3,
         {{RANK_IDLE, CODE, 100}, {RANK_IDLE, CODE, 100}, {RANK_IDLE, BACK, 100}},
         WATCH_SUSPECTED,
         -1,
         "all ranks wait"},
        {"one rank at work", 1, {{RANK_BUSY, CODE, 100}}, WATCH_WAITING, -1, ""},
        {"one rank makes steps", 1, {{RANK_STEPPING, CODE, 1}}, WATCH_PROGRESSING, -1, ""},
        {"one makes steps and one waits",
         2,
         {{RANK_STEPPING, CODE, 1}, {RANK_IDLE, BACK, 100}},
         WATCH_PROGRESSING,
         -1,
         ""},
        {"few load, and the others work: NCCL's peers wait so",
         3,
         {{RANK_BUSY, BACK, 100}, {RANK_BUSY, BACK, 100}, {RANK_IDLE, LOADER, 90}},
         WATCH_SUSPECTED,
         2,
         "waits in"},
    };

    for (size_t i = 0; i < COUNT_OF(small_rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct watch_rank ranks[3];

        test_case(small_rows[i].why);
        for (size_t j = 0; j < small_rows[i].count; j++)
            ranks[j] = (struct watch_rank){{.rank = (int64_t)j,
                                            .act = small_rows[i].ranks[j].act,
                                            .phase = small_rows[i].ranks[j].phase,
                                            .since_ms = NOW - small_rows[i].ranks[j].ago_s * S,
                                            .last_ms = NOW - 120 * S,
                                            .seen_ms = NOW,
                                            .steps = 7,
                                            .world = (int64_t)small_rows[i].count,
                                            .step_ms = STEP_MS},
                                           STR("p"),
                                           STR("n")};
        struct watch_verdict verdict = watch_judge(ranks, small_rows[i].count, true, NOW, &arena);
        EXPECT(verdict.word == small_rows[i].word);
        EXPECT(small_rows[i].culprit < 0 ? !verdict.culprit
                                         : verdict.culprit == &ranks[small_rows[i].culprit]);
        EXPECT(str_contains(verdict.message, str_from(small_rows[i].says)));
    }
}

/* An endless loop in C: it works, its peers wait in the backward pass, and its line stays the same. */
TEST(who_works_in_one_line_for_long_is_suspected_with_that_line)
{
    static const struct {
        const char *why;
        enum rank_act acts[2];
        const char *lines[2];
        int64_t ago_s;
        enum watch_word word;
        const char *says;
    } rows[] = {
        {"one, and the other waits for it",
         {RANK_LOCKED, RANK_BUSY},
         {"", "train.py:9 in f"},
         181,
         WATCH_SUSPECTED,
         "rank 1 (pod p, node n) is at work in its own code at train.py:9 in f since "},
        {"not so long yet", {RANK_LOCKED, RANK_BUSY}, {"", "train.py:9 in f"}, 100, WATCH_SLOW, ""},
        {"it moves on: an evaluation", {RANK_LOCKED, RANK_BUSY}, {"", ""}, 181, WATCH_SLOW, ""},
        {"both, each in its own: NCCL's, or a loop",
         {RANK_BUSY, RANK_BUSY},
         {"a.py:1 in f", "b.py:2 in g"},
         181,
         WATCH_SUSPECTED,
         "2 of 2 use CPU time; rank 0 is in its own code at a.py:1 in f; rank 1 is in its own code "
         "at b.py:2 in g"},
        {"one of both moves on",
         {RANK_BUSY, RANK_BUSY},
         {"a.py:1 in f", ""},
         181,
         WATCH_WAITING,
         ""},
        {"the last one, and its peer has ended: a lock at exit, beside a thread that asks for the "
         "peer",
         {RANK_GONE, RANK_BUSY},
         {"", "train.py:9 in f"},
         181,
         WATCH_SUSPECTED,
         "rank 1 (pod p, node n) is at work in its own code at train.py:9 in f since "
         "1970-01-12T13:43:20Z, after 30 steps; 1 of 2 ranks have ended"},
        {"not so long yet",
         {RANK_GONE, RANK_BUSY},
         {"", "train.py:9 in f"},
         100,
         WATCH_WAITING,
         ""},
        {"the last one writes what it has learned",
         {RANK_GONE, RANK_BUSY},
         {"", ""},
         181,
         WATCH_WAITING,
         ""},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct watch_rank ranks[2];

        test_case(rows[i].why);
        for (int64_t j = 0; j < 2; j++)
            ranks[j] = (struct watch_rank){{.rank = j,
                                            .act = rows[i].acts[j],
                                            .since_ms = NOW - rows[i].ago_s * S,
                                            .last_ms = NOW - 200 * S,
                                            .steps = 30,
                                            .step_ms = 100,
                                            .line = str_from(rows[i].lines[j]),
                                            .line_ms = NOW - rows[i].ago_s * S},
                                           STR("p"),
                                           STR("n")};
        struct watch_verdict verdict = watch_judge(ranks, 2, true, NOW, &arena);
        EXPECT(verdict.word == rows[i].word);
        EXPECT(str_contains(verdict.message, str_from(rows[i].says)));
    }
}
