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
#include <stdio.h>

#define S       1000LL
#define NOW     (1000000 * S)
#define CODE    RANK_PHASE_CODE
#define BACK    RANK_PHASE_BACKWARD
#define LOADER  RANK_PHASE_LOADER
#define SAVE    RANK_PHASE_SAVE
#define MEET    RANK_PHASE_MEET
#define RANKS   4
#define STEP_MS 200

/* ---- verdicts, one look each ---- */

struct told {
    enum rank_act act;
    enum rank_phase phase;
    int ago_s;   /* since when */
    int quiet_s; /* learned */
};

static const struct row {
    const char *why;
    struct told ranks[RANKS];
    enum watch_word word;
    int culprit; /* -1: none */
    const char *says;
    bool missing; /* a pod of it tells of no rank */
} rows[] = {
    {"all make steps",
     {{RANK_STEPPING, CODE, 1, 0},
      {RANK_STEPPING, CODE, 1, 0},
      {RANK_STEPPING, BACK, 1, 0},
      {RANK_STEPPING, BACK, 1, 0}},
     WATCH_PROGRESSING,
     -1,
     "",
     false},
    {"one has made none",
     {{RANK_STARTING, CODE, 900, 0},
      {RANK_LOCKED, BACK, 900, 0},
      {RANK_LOCKED, BACK, 900, 0},
      {RANK_LOCKED, BACK, 900, 0}},
     WATCH_STARTING,
     -1,
     "",
     false},
    {"stopped, and the others wait",
     {{RANK_LOCKED, BACK, 3, 0},
      {RANK_STOPPED, CODE, 31, 0},
      {RANK_LOCKED, BACK, 3, 0},
      {RANK_LOCKED, BACK, 3, 0}},
     WATCH_HUNG,
     1,
     "rank 1 (pod p1, node n1) is stopped by a signal",
     false},
    {"stopped by hand, to look at it for twenty seconds",
     {{RANK_LOCKED, BACK, 20, 0},
      {RANK_STOPPED, CODE, 20, 0},
      {RANK_LOCKED, BACK, 20, 0},
      {RANK_LOCKED, BACK, 20, 0}},
     WATCH_SUSPECTED,
     1,
     "rank 1 (pod p1, node n1) is stopped by a signal",
     false},
    {"stopped, and the others wait with all their CPU time, as NCCL does",
     {{RANK_BUSY, BACK, 3, 0},
      {RANK_STOPPED, CODE, 31, 0},
      {RANK_BUSY, BACK, 3, 0},
      {RANK_BUSY, BACK, 3, 0}},
     WATCH_HUNG,
     1,
     "3 ranks wait for it",
     false},
    {"all are stopped: somebody has them rest",
     {{RANK_STOPPED, BACK, 600, 0},
      {RANK_STOPPED, CODE, 601, 0},
      {RANK_STOPPED, BACK, 600, 0},
      {RANK_STOPPED, BACK, 600, 0}},
     WATCH_SUSPECTED,
     1,
     "rank 1 (pod p1, node n1) is stopped by a signal",
     false},
    {"all but those that have ended",
     {{RANK_GONE, CODE, 600, 0},
      {RANK_STOPPED, CODE, 601, 0},
      {RANK_STOPPED, BACK, 600, 0},
      {RANK_GONE, CODE, 600, 0}},
     WATCH_SUSPECTED,
     1,
     "rank 1 (pod p1, node n1) is stopped by a signal",
     false},
    {"stopped a moment ago",
     {{RANK_LOCKED, BACK, 3, 0},
      {RANK_STOPPED, CODE, 1, 0},
      {RANK_LOCKED, BACK, 3, 0},
      {RANK_LOCKED, BACK, 3, 0}},
     WATCH_WAITING,
     -1,
     "",
     false},
    {"stopped, and nobody minds",
     {{RANK_STEPPING, BACK, 3, 0},
      {RANK_STOPPED, CODE, 600, 0},
      {RANK_STEPPING, BACK, 3, 0},
      {RANK_STEPPING, BACK, 3, 0}},
     WATCH_PROGRESSING,
     -1,
     "",
     false},
    {"in the hands of a debugger",
     {{RANK_LOCKED, BACK, 600, 0},
      {RANK_TRACED, CODE, 600, 0},
      {RANK_LOCKED, BACK, 600, 0},
      {RANK_LOCKED, BACK, 600, 0}},
     WATCH_WAITING,
     -1,
     "",
     false},
    {"dead and not buried",
     {{RANK_IDLE, BACK, 9, 0},
      {RANK_IDLE, BACK, 9, 0},
      {RANK_ZOMBIE, CODE, 36, 0},
      {RANK_IDLE, BACK, 9, 0}},
     WATCH_HUNG,
     2,
     "has failed, and its parent has not noticed",
     false},
    {"the same, and others are at work: it may be without it",
     {{RANK_BUSY, CODE, 90, 0},
      {RANK_IDLE, CODE, 90, 0},
      {RANK_ZOMBIE, CODE, 90, 0},
      {RANK_IDLE, CODE, 90, 0}},
     WATCH_SUSPECTED,
     2,
     "; 2 ranks wait for it",
     false},
    {"the same, and another waits for something of its own, as for a server that takes the results",
     {{RANK_IDLE, CODE, 90, 0},
      {RANK_LOCKED, BACK, 90, 0},
      {RANK_ZOMBIE, CODE, 90, 0},
      {RANK_LOCKED, BACK, 90, 0}},
     WATCH_SUSPECTED,
     2,
     "has failed, and its parent has not noticed",
     false},
    {"one is done, and its launcher waits for them in order: an evaluation goes on",
     {{RANK_BUSY, CODE, 600, 0},
      {RANK_GONE, CODE, 600, 0},
      {RANK_BUSY, CODE, 600, 0},
      {RANK_BUSY, CODE, 600, 0}},
     WATCH_WAITING,
     -1,
     "",
     false},
    {"done before the others, and its torchrun has not looked for it yet",
     {{RANK_IDLE, CODE, 9, 0},
      {RANK_IDLE, CODE, 9, 0},
      {RANK_ZOMBIE, CODE, 9, 0},
      {RANK_IDLE, CODE, 9, 0}},
     WATCH_WAITING,
     -1,
     "",
     false},
    {"stopped, beside one that ended before",
     {{RANK_LOCKED, BACK, 3, 0},
      {RANK_STOPPED, CODE, 31, 0},
      {RANK_ZOMBIE, CODE, 34, 0},
      {RANK_LOCKED, BACK, 3, 0}},
     WATCH_HUNG,
     1,
     "is stopped by a signal",
     false},
    {"a lock that nobody opens",
     {{RANK_LOCKED, BACK, 31, 0},
      {RANK_LOCKED, BACK, 31, 0},
      {RANK_LOCKED, CODE, 32, 0},
      {RANK_LOCKED, BACK, 31, 0}},
     WATCH_HUNG,
     2,
     "waits for a lock in its own code",
     false},
    {"the same, not for long",
     {{RANK_LOCKED, BACK, 11, 0},
      {RANK_LOCKED, BACK, 11, 0},
      {RANK_LOCKED, CODE, 12, 0},
      {RANK_LOCKED, BACK, 11, 0}},
     WATCH_SUSPECTED,
     2,
     "waits for a lock in its own code",
     false},
    {"the same, but a thread of it waits for the network or a timer: fsspec, grpc.aio",
     {{RANK_LOCKED, BACK, 90, 0},
      {RANK_LOCKED, BACK, 90, 0},
      {RANK_IDLE, CODE, 90, 0},
      {RANK_LOCKED, BACK, 90, 0}},
     WATCH_SUSPECTED,
     2,
     "waits in its own code",
     false},
    {"the same, but one of its peers waits for something else, in its backward pass",
     {{RANK_LOCKED, BACK, 90, 0},
      {RANK_IDLE, BACK, 90, 0},
      {RANK_LOCKED, CODE, 90, 0},
      {RANK_LOCKED, BACK, 90, 0}},
     WATCH_SUSPECTED,
     2,
     "waits for a lock in its own code",
     false},
    {"a collective that its gang is not in",
     {{RANK_LOCKED, BACK, 31, 0},
      {RANK_LOCKED, BACK, 31, 0},
      {RANK_LOCKED, MEET, 32, 0},
      {RANK_LOCKED, BACK, 31, 0}},
     WATCH_HUNG,
     2,
     "waits for a lock in a collective in its own code",
     false},
    {"a lock, and the others are in a collective of the program: reported, with its name",
     {{RANK_LOCKED, MEET, 90, 0},
      {RANK_LOCKED, MEET, 90, 0},
      {RANK_LOCKED, CODE, 90, 0},
      {RANK_LOCKED, MEET, 90, 0}},
     WATCH_SUSPECTED,
     2,
     "waits for a lock in its own code",
     false},
    {"all are in collectives: each is told",
     {{RANK_LOCKED, MEET, 70, 0},
      {RANK_LOCKED, MEET, 70, 0},
      {RANK_LOCKED, MEET, 70, 0},
      {RANK_LOCKED, MEET, 70, 0}},
     WATCH_SUSPECTED,
     -1,
     "; rank 0 is in a collective in its own code; rank 1 is in a collective",
     false},
    {"a lock in the data loader: somebody else may be fetching",
     {{RANK_LOCKED, BACK, 99, 0},
      {RANK_LOCKED, BACK, 99, 0},
      {RANK_LOCKED, LOADER, 99, 0},
      {RANK_LOCKED, BACK, 99, 0}},
     WATCH_SUSPECTED,
     2,
     "waits for a lock in the data loader",
     false},
    {"the same a moment ago",
     {{RANK_LOCKED, BACK, 5, 0},
      {RANK_LOCKED, BACK, 5, 0},
      {RANK_LOCKED, CODE, 5, 0},
      {RANK_LOCKED, BACK, 5, 0}},
     WATCH_WAITING,
     -1,
     "",
     false},
    {"a lock, but it has been as quiet before and went on",
     {{RANK_LOCKED, BACK, 40, 0},
      {RANK_LOCKED, BACK, 40, 30},
      {RANK_LOCKED, CODE, 40, 0},
      {RANK_LOCKED, BACK, 40, 0}},
     WATCH_WAITING,
     -1,
     "",
     false},
    {"a lock, but one pod tells of no rank",
     {{RANK_LOCKED, BACK, 99, 0},
      {RANK_LOCKED, BACK, 99, 0},
      {RANK_LOCKED, CODE, 99, 0},
      {RANK_LOCKED, BACK, 99, 0}},
     WATCH_WAITING,
     -1,
     "",
     true},
    {"data that does not come: it may come",
     {{RANK_LOCKED, BACK, 20, 0},
      {RANK_LOCKED, BACK, 20, 0},
      {RANK_LOCKED, BACK, 20, 0},
      {RANK_IDLE, LOADER, 20, 0}},
     WATCH_SUSPECTED,
     3,
     "waits in the data loader",
     false},
    {"six seconds are enough where the others meet and one waits for data",
     {{RANK_LOCKED, BACK, 7, 0},
      {RANK_LOCKED, BACK, 7, 0},
      {RANK_LOCKED, BACK, 7, 0},
      {RANK_IDLE, LOADER, 7, 0}},
     WATCH_SUSPECTED,
     3,
     "waits in the data loader",
     false},
    {"but not five",
     {{RANK_LOCKED, BACK, 5, 0},
      {RANK_LOCKED, BACK, 5, 0},
      {RANK_LOCKED, BACK, 5, 0},
      {RANK_IDLE, LOADER, 5, 0}},
     WATCH_WAITING,
     -1,
     "",
     false},
    {"nor seven, where a rank was idle for four before and then went on",
     {{RANK_LOCKED, BACK, 7, 0},
      {RANK_LOCKED, BACK, 7, 0},
      {RANK_LOCKED, BACK, 7, 0},
      {RANK_IDLE, LOADER, 7, 4}},
     WATCH_WAITING,
     -1,
     "",
     false},
    {"the same where the others wait in the forward pass",
     {{RANK_LOCKED, CODE, 20, 0},
      {RANK_LOCKED, CODE, 20, 0},
      {RANK_IDLE, LOADER, 20, 0},
      {RANK_LOCKED, CODE, 20, 0}},
     WATCH_SUSPECTED,
     2,
     "waits in the data loader",
     false},
    {"the same where the others wait with all their CPU time, as NCCL does",
     {{RANK_BUSY, CODE, 70, 0},
      {RANK_BUSY, CODE, 70, 0},
      {RANK_IDLE, LOADER, 70, 0},
      {RANK_BUSY, CODE, 70, 0}},
     WATCH_SUSPECTED,
     2,
     "waits in the data loader",
     false},
    {"one is done with its part of an evaluation",
     {{RANK_BUSY, CODE, 600, 0},
      {RANK_BUSY, CODE, 600, 0},
      {RANK_LOCKED, CODE, 600, 0},
      {RANK_BUSY, CODE, 600, 0}},
     WATCH_WAITING,
     -1,
     "",
     false},
    {"all wait for each other",
     {{RANK_LOCKED, BACK, 70, 0},
      {RANK_LOCKED, BACK, 70, 0},
      {RANK_LOCKED, BACK, 70, 0},
      {RANK_LOCKED, BACK, 70, 0}},
     WATCH_SUSPECTED,
     -1,
     "all ranks wait",
     false},
    {"all of them in the backward pass: six seconds are enough",
     {{RANK_LOCKED, BACK, 7, 0},
      {RANK_LOCKED, BACK, 7, 0},
      {RANK_LOCKED, BACK, 7, 0},
      {RANK_LOCKED, BACK, 7, 0}},
     WATCH_SUSPECTED,
     -1,
     "all ranks wait",
     false},
    {"all of them in the backward pass, for five seconds",
     {{RANK_LOCKED, BACK, 5, 0},
      {RANK_LOCKED, BACK, 5, 0},
      {RANK_LOCKED, BACK, 5, 0},
      {RANK_LOCKED, BACK, 5, 0}},
     WATCH_WAITING,
     -1,
     "",
     false},
    {"all wait, and nobody knows for what",
     {{RANK_LOCKED, CODE, 50, 0},
      {RANK_LOCKED, CODE, 50, 0},
      {RANK_LOCKED, CODE, 50, 0},
      {RANK_LOCKED, CODE, 50, 0}},
     WATCH_WAITING,
     -1,
     "",
     false},
    {"evaluation, for minutes",
     {{RANK_BUSY, CODE, 600, 0},
      {RANK_BUSY, CODE, 600, 0},
      {RANK_BUSY, CODE, 600, 0},
      {RANK_BUSY, CODE, 600, 0}},
     WATCH_WAITING,
     -1,
     "",
     false},
    {"one evaluates, for minutes, and the others wait",
     {{RANK_BUSY, CODE, 600, 0},
      {RANK_LOCKED, CODE, 600, 0},
      {RANK_LOCKED, CODE, 600, 0},
      {RANK_LOCKED, CODE, 600, 0}},
     WATCH_SLOW,
     0,
     "is at work in its own code",
     false},
    {"one saves, for minutes, and the others wait",
     {{RANK_BUSY, SAVE, 600, 0},
      {RANK_LOCKED, CODE, 600, 0},
      {RANK_LOCKED, CODE, 600, 0},
      {RANK_LOCKED, CODE, 600, 0}},
     WATCH_SLOW,
     0,
     "is at work in torch.save",
     false},
    {"no step for half an hour, whatever they do",
     {{RANK_BUSY, BACK, 1900, 0},
      {RANK_BUSY, BACK, 1900, 0},
      {RANK_BUSY, BACK, 1900, 0},
      {RANK_BUSY, BACK, 1900, 0}},
     WATCH_SUSPECTED,
     -1,
     "no rank has made a step",
     false},
    {"one works for half an hour, and the others wait for it: an endless loop, or not",
     {{RANK_LOCKED, BACK, 1900, 0},
      {RANK_LOCKED, BACK, 1900, 0},
      {RANK_LOCKED, BACK, 1900, 0},
      {RANK_BUSY, CODE, 1900, 0}},
     WATCH_SUSPECTED,
     3,
     "is at work in its own code",
     false},
    {"a lock when others have ended, as in atexit",
     {{RANK_LOCKED, CODE, 400, 0},
      {RANK_GONE, CODE, 900, 0},
      {RANK_GONE, CODE, 900, 0},
      {RANK_GONE, CODE, 900, 0}},
     WATCH_SUSPECTED,
     0,
     "waits for a lock in its own code and uses no CPU time since 1970-01-12T13:40:00Z, after 100 "
     "steps; 3 of 4 ranks have ended",
     false},
    {"no step for half an hour since others have ended",
     {{RANK_BUSY, CODE, 1900, 0},
      {RANK_GONE, CODE, 1900, 0},
      {RANK_GONE, CODE, 1900, 0},
      {RANK_GONE, CODE, 1900, 0}},
     WATCH_SUSPECTED,
     0,
     "is at work in its own code since 1970-01-12T13:15:00Z, after 100 steps; 3 of 4 ranks have "
     "ended",
     false},
    {"a gang that ends: the last one takes its time",
     {{RANK_IDLE, SAVE, 900, 0},
      {RANK_GONE, CODE, 900, 0},
      {RANK_GONE, CODE, 900, 0},
      {RANK_GONE, CODE, 900, 0}},
     WATCH_WAITING,
     -1,
     "",
     false},
};

TEST(each_picture_of_a_gang_has_its_verdict)
{
    static const char *const pods[RANKS] = {"p0", "p1", "p2", "p3"};
    static const char *const nodes[RANKS] = {"n0", "n1", "n2", "n3"};

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct watch_rank ranks[RANKS];

        test_case(rows[i].why);
        for (int j = 0; j < RANKS; j++) {
            const struct told *told = &rows[i].ranks[j];

            ranks[j] = (struct watch_rank){
                {.rank = j,
                 .act = told->act,
                 .phase = told->phase,
                 .since_ms = NOW - told->ago_s * S,
                 .last_ms = NOW - told->ago_s * S,
                 .seen_ms = NOW,
                 .steps = 100,
                 .step_ms = STEP_MS,
                 .world = RANKS,
                 .passes = told->phase == BACK ? 101 : 100,
                 .quiet_ms = told->quiet_s * S},
                str_from(pods[j]),
                str_from(nodes[j]),
            };
        }
        struct watch_verdict verdict = watch_judge(ranks, RANKS, !rows[i].missing, NOW, &arena);
        if (verdict.word != rows[i].word)
            printf("%s: %s: " STR_FMT "\n", rows[i].why, watch_word(verdict.word),
                   STR_ARG(verdict.message));
        EXPECT(verdict.word == rows[i].word);
        EXPECT(rows[i].culprit < 0 ? !verdict.culprit : verdict.culprit == &ranks[rows[i].culprit]);
        EXPECT(str_contains(verdict.message, str_from(rows[i].says)));
    }
    _cleanup_(arena_done) struct arena arena = {0};
    EXPECT(watch_judge(NULL, 0, false, NOW, &arena).word == WATCH_UNKNOWN);
}

/* Stages of a pipeline: what one does in its backward pass the other waits for in recv(). DDP of half of
 * them means nothing for the rest. */
TEST(ranks_that_do_not_all_meet_in_the_backward_pass_are_no_proof)
{
    static const int64_t worlds[] = {0, 2, RANKS};

    for (size_t i = 0; i < COUNT_OF(worlds); i++) {
        for (int phase = CODE; phase <= MEET; phase++) {
            _cleanup_(arena_done) struct arena arena = {0};
            struct watch_rank ranks[RANKS];

            for (int j = 0; j < RANKS; j++)
                ranks[j] =
                    (struct watch_rank){{.rank = j,
                                         .act = RANK_LOCKED,
                                         .phase = j ? BACK : (enum rank_phase)phase,
                                         .since_ms = NOW - 600 * S,
                                         .last_ms = NOW - 600 * S,
                                         .seen_ms = NOW,
                                         .steps = 100,
                                         .step_ms = STEP_MS,
                                         .world = worlds[i],
                                         /* who has been through it already waits for the rest */
                                         .passes = worlds[i] == RANKS && !j ? 101 : 100},
                                        STR("p"),
                                        STR("n")};
            EXPECT(watch_judge(ranks, RANKS, true, NOW, &arena).word == WATCH_SUSPECTED);
        }
    }
}

/* What was told of a rank once may be over: its node is cut off, or there was nobody to take more. */
TEST(what_was_told_of_a_rank_once_is_no_proof)
{
    static const struct {
        const char *why;
        enum rank_act act;
        int seen_ago_s[2];
        enum watch_word word;
    } told[] = {
        {"both are seen to be so still", RANK_LOCKED, {1, 9}, WATCH_HUNG},
        {"nothing is known of the culprit since", RANK_LOCKED, {1, 600}, WATCH_SUSPECTED},
        {"nor of its peer", RANK_LOCKED, {600, 1}, WATCH_SUSPECTED},
        {"both were seen together long enough before", RANK_LOCKED, {570, 575}, WATCH_HUNG},
        {"but not so", RANK_LOCKED, {570, 590}, WATCH_SUSPECTED},
        {"a stop that is seen still", RANK_STOPPED, {600, 1}, WATCH_HUNG},
        {"a stop that may be over", RANK_STOPPED, {1, 599}, WATCH_SUSPECTED},
    };

    for (size_t i = 0; i < COUNT_OF(told); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct watch_rank ranks[2];

        test_case(told[i].why);
        for (int j = 0; j < 2; j++)
            ranks[j] = (struct watch_rank){{.rank = j,
                                            .act = j ? told[i].act : RANK_LOCKED,
                                            .phase = j ? CODE : BACK,
                                            .since_ms = NOW - 600 * S,
                                            .last_ms = NOW - 600 * S,
                                            .seen_ms = NOW - told[i].seen_ago_s[j] * S,
                                            .steps = 100,
                                            .step_ms = STEP_MS,
                                            .world = 2,
                                            .passes = j ? 100 : 101},
                                           STR("p"),
                                           STR("n")};
        struct watch_verdict verdict = watch_judge(ranks, 2, true, NOW, &arena);
        EXPECT(verdict.word == told[i].word && verdict.culprit == &ranks[1]);
    }
}

TEST(of_two_stages_the_one_that_its_peer_waits_for_is_named)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct watch_rank ranks[2];

    for (int j = 0; j < 2; j++)
        ranks[j] = (struct watch_rank){{.rank = j,
                                        .act = j ? RANK_IDLE : RANK_LOCKED,
                                        .phase = j ? BACK : MEET,
                                        .since_ms = NOW - 45 * S,
                                        .last_ms = NOW - 45 * S,
                                        .steps = 100,
                                        .step_ms = STEP_MS},
                                       STR("p"),
                                       STR("n")};
    struct watch_verdict verdict = watch_judge(ranks, 2, true, NOW, &arena);
    EXPECT(verdict.word == WATCH_SUSPECTED && verdict.culprit == &ranks[1]);
}

/* Where sums overflow, a sanitizer tells. */
TEST(reports_of_impossible_times_are_no_hang)
{
    static const enum rank_act acts[] = {RANK_LOCKED, RANK_IDLE, RANK_BUSY, RANK_STOPPED,
                                         RANK_STEPPING};

    for (size_t i = 0; i < COUNT_OF(acts); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct watch_rank ranks[2];

        for (int j = 0; j < 2; j++)
            ranks[j] = (struct watch_rank){{.rank = j,
                                            .act = acts[i],
                                            .phase = j ? BACK : CODE,
                                            .since_ms = INT64_MAX,
                                            .last_ms = INT64_MAX,
                                            .seen_ms = INT64_MAX,
                                            .steps = INT64_MAX,
                                            .step_ms = INT64_MAX,
                                            .quiet_ms = INT64_MAX,
                                            .own_us = INT64_MAX},
                                           STR("p"),
                                           STR("n")};
        EXPECT(watch_judge(ranks, 2, true, NOW, &arena).word ==
               (acts[i] == RANK_STEPPING ? WATCH_PROGRESSING : WATCH_WAITING));
    }
}
