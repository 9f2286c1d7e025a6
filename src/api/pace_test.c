#include "api/pace.h"
#include "api/ranks.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/str.h"
#include "test.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define S 1000LL

/* A rank that makes a step of `step_ms` after the other, seen every second from `from_ms` on. */
static int64_t run_steps(struct pace *pace, int64_t from_ms, int64_t seconds, int64_t step_ms)
{
    uint64_t before = pace->steps;
    int64_t now = from_ms;

    for (int64_t i = 1; i <= seconds; i++) {
        now = from_ms + i * S;
        uint64_t steps = before + (uint64_t)(i * S / step_ms);
        struct pace_sample sample = {
            .now_ms = now,
            .steps = steps,
            .started_ms = from_ms,
            .last_ms = steps == before ? pace->last_ms : from_ms + i * S / step_ms * step_ms};

        (void)pace_take(pace, &sample);
    }
    return now;
}

TEST(a_rank_that_makes_steps_is_told_of_once)
{
    struct pace pace = {.report = {.rank = 1}};
    int changes = 0;

    for (int i = 1; i <= 600; i++)
        changes += pace_take(
            &pace,
            &(struct pace_sample){.now_ms = i * S, .steps = (uint64_t)i * 7, .last_ms = i * S - 3});
    EXPECT(changes == 1);
    EXPECT(pace.report.act == RANK_STEPPING);
    EXPECT(pace.report.step_ms == 1000 / 7);
}

TEST(the_first_looks_at_the_first_rank_are_kept)
{
    struct pace pace = {0};
    struct pace other = {.report = {.rank = 1}};

    for (int i = 0; i <= 600; i++) {
        /* Steps of three seconds: of three looks one sees another. */
        struct pace_sample sample = {
            .now_ms = i * S, .steps = (uint64_t)i / 3, .started_ms = 1, .last_ms = i / 3 * 3 * S};

        EXPECT(pace_take(&pace, &sample) == pace_take(&other, &sample));
    }
    EXPECT(pace.report.early_count == RANKS_EARLY_MAX && !other.report.early_count);
    for (int i = 0; i < RANKS_EARLY_MAX; i++)
        EXPECT(pace.report.early[i].steps == i + 1 && pace.report.early[i].ms == (i + 1) * 3 * S);
}

TEST(what_a_silent_rank_does_is_seen_at_its_process)
{
    static const struct {
        const char *why;
        struct pace_sample process;
        int64_t cpu_ms_each;
        enum rank_act act;
    } rows[] = {
        {"stopped by a signal", {.there = true, .state = 'T'}, 0, RANK_STOPPED},
        {"a debugger holds it", {.there = true, .state = 't'}, 0, RANK_TRACED},
        {"failed, not reaped", {.there = true, .state = 'Z', .failed = true}, 0, RANK_ZOMBIE},
        {"did all of its work, not reaped", {.there = true, .state = 'Z'}, 0, RANK_GONE},
        {"ended", {.there = false}, 0, RANK_GONE},
        {"evaluation: it computes", {.there = true, .state = 'S'}, 900, RANK_BUSY},
        {"starved of CPU time", {.there = true, .state = 'R', .working = true}, 0, RANK_BUSY},
        {"checkpoint: it waits for a disk",
         {.there = true, .state = 'D', .working = true},
         0,
         RANK_BUSY},
        {"a timer that wakes now and then", {.there = true, .state = 'S'}, 10, RANK_IDLE},
        {"waits for input", {.there = true, .state = 'S'}, 0, RANK_IDLE},
        {"waits for itself", {.there = true, .state = 'S', .locked = true}, 0, RANK_LOCKED},
        {"in a collective",
         {.there = true, .state = 'S', .locked = true, .meets = true},
         0,
         RANK_LOCKED},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct pace pace = {0};
        int64_t end = run_steps(&pace, 100 * S, 20, 100);

        for (int64_t second = 1; second <= 12; second++) {
            struct pace_sample sample = rows[i].process;

            sample.now_ms = end + second * S;
            sample.steps = pace.steps;
            sample.last_ms = end;
            sample.cpu_ms = second * rows[i].cpu_ms_each;
            sample.looked = pace_is_silent(&pace, &sample);
            (void)pace_take(&pace, &sample);
        }
        if (pace.report.act != rows[i].act)
            printf("%s: %s\n", rows[i].why, rank_act_word(pace.report.act));
        EXPECT(pace.report.act == rows[i].act);
        EXPECT(pace.report.last_ms == end);
        EXPECT(pace.report.phase == (rows[i].process.meets ? RANK_PHASE_MEET : RANK_PHASE_CODE));
    }
}

/* A process that is there and has made no step since `end`, so many seconds ago; the rest is told. */
static void look_at(struct pace *pace, int64_t end, int64_t second, struct pace_sample sample)
{
    sample.now_ms = end + second * S;
    sample.steps = pace->steps;
    sample.last_ms = end;
    sample.there = true;
    sample.looked = pace_is_silent(pace, &sample);
    (void)pace_take(pace, &sample);
}

TEST(a_rank_that_wakes_for_a_moment_is_idle_all_the_same)
{
    struct pace pace = {0};
    int64_t end = run_steps(&pace, 100 * S, 20, 100);

    for (int64_t second = 1; second <= 30; second++) {
        look_at(&pace, end, second,
                (struct pace_sample){
                    .state = second % 5 ? 'S' : 'R', .working = second % 5 == 0, .cpu_ms = second});
        if (second > 7)
            EXPECT(pace.report.act == RANK_IDLE);
    }
}

/* Threads of it wait for each other for a moment, and then one fetches the next piece. */
TEST(a_rank_is_locked_from_when_it_is_seen_to_be_in_every_look)
{
    struct pace pace = {0};
    int64_t end = run_steps(&pace, 100 * S, 20, 100);

    for (int64_t second = 1; second <= 60; second++) {
        bool locked = second % 5 == 0;

        look_at(&pace, end, second,
                (struct pace_sample){
                    .state = 'S', .locked = locked, .unsure = second >= 40 && !locked});
        if (second > 7 && second < 39 && !locked)
            EXPECT(pace.report.act == RANK_IDLE && pace.report.since_ms < end + 5 * S);
        if (second > 41)
            EXPECT(pace.report.act == RANK_LOCKED && pace.report.since_ms >= end + 40 * S);
    }
}

/* A machine that stood still, or whose clock was set: what was seen before and after says nothing of the
 * time between. */
TEST(a_rank_is_not_locked_for_as_long_as_nobody_looked)
{
    static const int64_t after[] = {80, 3600, -600};

    for (size_t i = 0; i < sizeof(after) / sizeof(after[0]); i++) {
        struct pace pace = {0};
        int64_t end = run_steps(&pace, 1000 * S, 20, 100);

        for (int64_t second = 1; second <= 10; second++)
            look_at(&pace, end, second, (struct pace_sample){.state = 'S', .locked = true});
        EXPECT(pace.report.act == RANK_LOCKED && pace.report.since_ms < end + 10 * S);
        for (int64_t second = after[i]; second <= after[i] + 10; second++)
            look_at(&pace, end, second, (struct pace_sample){.state = 'S', .locked = true});
        EXPECT(pace.report.since_ms >= end + after[i] * S);
    }
}

/* It sleeps between pieces, and needs next to no CPU time. */
TEST(a_rank_that_writes_to_a_slow_disk_is_at_work)
{
    static const int64_t pieces[] = {PACE_IO_BYTES, 4096};

    for (size_t i = 0; i < COUNT_OF(pieces); i++) {
        struct pace pace = {0};
        int64_t end = run_steps(&pace, 100 * S, 20, 100);

        for (int64_t second = 1; second <= 30; second++) {
            look_at(&pace, end, second,
                    (struct pace_sample){.state = 'S', .io_bytes = second * pieces[i]});
            if (second > 7)
                EXPECT(pace.report.act == (i ? RANK_IDLE : RANK_BUSY));
        }
    }
}

TEST(slow_steps_are_not_silence)
{
    struct pace pace = {0};
    int64_t end = run_steps(&pace, 100 * S, 200, 10 * S);

    EXPECT(pace.report.step_ms == 10 * S);
    EXPECT(!pace_is_silent(
        &pace, &(struct pace_sample){.now_ms = end + 29 * S, .steps = 20, .last_ms = end}));
    EXPECT(pace_is_silent(
        &pace, &(struct pace_sample){.now_ms = end + 30 * S, .steps = 20, .last_ms = end}));
}

TEST(how_long_a_rank_was_idle_and_went_on_is_learned)
{
    struct pace pace = {0};
    int64_t end = run_steps(&pace, 100 * S, 20, 100);

    for (int64_t second = 1; second <= 40; second++)
        look_at(&pace, end, second, (struct pace_sample){.state = 'S'});
    EXPECT(pace.report.act == RANK_IDLE && pace.report.quiet_ms == 0);
    (void)run_steps(&pace, end + 40 * S, 5, 100);
    EXPECT(pace.report.act == RANK_STEPPING);
    EXPECT(pace.report.quiet_ms >= 35 * S && pace.report.quiet_ms <= 40 * S);
    EXPECT(pace.report.step_ms == 100);
}

TEST(the_time_that_a_rank_takes_for_itself_is_told_when_it_means_something_else)
{
    static const struct {
        int64_t sample;
        int64_t part;
        int64_t report;
        int64_t report_part;
        bool told;
    } rows[] = {
        {0, 0, 0, 0, true},                                   /* the first sample of all */
        {400, 80, 400, 80, true},  {409, 80, 400, 80, false}, /* noise */
        {430, 80, 430, 80, false},                            /* with the next annotation */
        {480, 80, 480, 80, true},  {470, 80, 480, 80, false},
        {480, 70, 480, 70, true}, /* another rank has become slow */
        {400, 70, 400, 70, true},  {0, 0, 0, 0, true},
    };
    struct pace pace = {.report = {.rank = 1}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        int64_t now = (int64_t)(i + 1) * S;
        bool told = pace_take(&pace, &(struct pace_sample){.now_ms = now,
                                                           .steps = i + 1,
                                                           .last_ms = now,
                                                           .own_us = rows[i].sample,
                                                           .own_part = rows[i].part,
                                                           .own_spread = rows[i].part});

        EXPECT(told == rows[i].told);
        EXPECT(pace.report.own_us == rows[i].report);
        EXPECT(pace.report.own_part == rows[i].report_part);
        EXPECT(pace.report.own_spread == rows[i].report_part);
    }
}

TEST(reports_come_back_as_they_were_told)
{
    _cleanup_(arena_done) struct arena arena = {0};
    const struct rank_report told[] = {
        {.rank = 3,
         .pid = 71,
         .act = RANK_LOCKED,
         .since_ms = 5,
         .phase = RANK_PHASE_LOADER,
         .wait = STR("futex_do_wait"),
         .steps = 9,
         .last_ms = 4,
         .step_ms = 2,
         .quiet_ms = 1,
         .own_us = 480,
         .own_part = 900000,
         .own_spread = 20000,
         .world = 4,
         .passes = 10,
         .gpu = 8},
        {.rank = 0, .act = RANK_GONE, .early = {{3, 100}, {7, 220}}, .early_count = 2},
    };
    struct rank_report heard[RANKS_MAX] = {0};

    EXPECT(ranks_parse(&arena, ranks_text(&arena, told, 2), heard) == 2);
    EXPECT(heard[0].rank == 3 && heard[0].pid == 71 && heard[0].act == RANK_LOCKED);
    EXPECT(heard[0].since_ms == 5 && heard[0].phase == RANK_PHASE_LOADER && heard[0].steps == 9);
    EXPECT(heard[0].last_ms == 4 && heard[0].step_ms == 2 && heard[0].quiet_ms == 1);
    EXPECT(heard[0].own_us == 480 && heard[0].own_part == 900000 && heard[0].own_spread == 20000);
    EXPECT(heard[0].world == 4 && heard[0].passes == 10);
    EXPECT(heard[0].gpu == 8 && heard[1].gpu == 0);
    EXPECT(str_is(heard[0].wait, "futex_do_wait"));
    EXPECT(heard[1].act == RANK_GONE && !heard[1].wait.len);
    EXPECT(!heard[0].early_count && heard[1].early_count == 2);
    EXPECT(heard[1].early[1].steps == 7 && heard[1].early[1].ms == 220);
    EXPECT(ranks_parse(&arena,
                       STR("[{\"rank\":0,\"act\":\"idle\",\"early\":[2,50,2,60,9,70]},"
                           "{\"rank\":0,\"act\":\"idle\",\"early\":[2,50,4,40,\"x\"]},"
                           "{\"rank\":0,\"act\":\"idle\",\"early\":[5]}]"),
                       heard) == 3);
    EXPECT(heard[0].early_count == 1 && heard[1].early_count == 1 && !heard[2].early_count);
    EXPECT(ranks_parse(&arena,
                       STR("[{\"rank\":1,\"act\":\"dances\"},{\"rank\":-1,\"act\":\"idle\"},7]"),
                       heard) == 0);
    EXPECT(ranks_parse(&arena, STR("{"), heard) == 0);
    EXPECT(ranks_parse(&arena,
                       STR("[{\"rank\":1,\"act\":\"idle\",\"since\":9223372036854775807,"
                           "\"last\":-9223372036854775808,\"step\":9223372036854775807}]"),
                       heard) == 1);
    EXPECT(heard[0].since_ms == 253402300800000 && heard[0].last_ms == 0);
    EXPECT(heard[0].step_ms == 253402300800000);
}

/* Where it is in its program is read every ten seconds. */
TEST(a_line_is_told_of_who_waits_and_of_who_works_in_it_for_long)
{
    static const struct {
        const char *why;
        bool works;
        bool moves; /* its stack is another one in every look */
        int64_t told_s;
    } rows[] = {
        {"it waits: at once", false, false, 10},
        {"it waits, and is elsewhere each time: where it is now", false, true, 10},
        {"it works there: after a minute", true, false, 70},
        {"it works, and moves on: never", true, true, 0},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct pace pace = {0};
        int64_t end = run_steps(&pace, 100 * S, 20, 100), told_s = 0;

        test_case(rows[i].why);
        for (int64_t second = 1; second <= 100; second++) {
            struct pace_sample sample = {.now_ms = end + second * S,
                                         .steps = pace.steps,
                                         .last_ms = end,
                                         .there = true,
                                         .state = 'S',
                                         .cpu_ms = rows[i].works ? second * 900 : 0};

            sample.looked = pace_is_silent(&pace, &sample);
            if (second % 10 == 0)
                pace_line(&pace, rows[i].moves ? (uint64_t)second : 7, "train.py:3 in f",
                          sample.now_ms);
            bool changed = pace_take(&pace, &sample);
            if (!told_s && pace.report.line.len) {
                told_s = second;
                EXPECT(changed);
            }
        }
        EXPECT(told_s == rows[i].told_s);
        EXPECT(!told_s || pace.report.line_ms == end + (rows[i].moves ? 100 : 10) * S);
        (void)pace_take(&pace, &(struct pace_sample){.now_ms = end + 101 * S,
                                                     .steps = pace.steps,
                                                     .last_ms = end,
                                                     .looked = true,
                                                     .there = true,
                                                     .state = 'S',
                                                     .phase = RANK_PHASE_BACKWARD,
                                                     .cpu_ms = pace.cpu_ms});
        EXPECT(!pace.report.line.len); /* it has gone on since that was read */
        (void)run_steps(&pace, end + 100 * S, 2, 100);
        EXPECT(!pace.report.line.len && !pace.report.line_ms);
    }
}

/* As cpulimit does it: of ten looks nine find it stopped, and it works between them. */
TEST(who_is_stopped_in_turns_is_not_stopped)
{
    static const struct {
        const char *why;
        int64_t cpu_ms_each;
        bool stopped;
    } rows[] = {{"it runs a tenth of the time", 100, false}, {"it does not run", 0, true}};

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct pace pace = {0};
        int64_t end = run_steps(&pace, 100 * S, 20, 100);

        test_case(rows[i].why);
        for (int64_t second = 1; second <= 60; second++) {
            struct pace_sample sample = {.now_ms = end + second * S,
                                         .steps = pace.steps,
                                         .last_ms = end,
                                         .there = true,
                                         .state = 'T',
                                         .cpu_ms = second * rows[i].cpu_ms_each};

            sample.looked = pace_is_silent(&pace, &sample);
            (void)pace_take(&pace, &sample);
            EXPECT(second < 5 || (pace.report.act == RANK_STOPPED) == rows[i].stopped);
        }
    }
}
