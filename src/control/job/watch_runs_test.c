#include "api/pace.h"
#include "api/ranks.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/rng.h"
#include "base/str.h"
#include "control/job/watch.h"
#include "test.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Gangs in virtual time, from samples to verdicts (api/pace.h, watch.h). */

#define S      1000LL
#define NOW    (1000000 * S)
#define CODE   RANK_PHASE_CODE
#define BACK   RANK_PHASE_BACKWARD
#define LOADER RANK_PHASE_LOADER
#define SAVE   RANK_PHASE_SAVE
#define RANKS  4

/* What a gang does for a while; none of it is a hang. */
enum deed {
    TRAIN,
    EVALUATE,     /* all of them */
    EVALUATE_ONE, /* rank 0, the others wait for it */
    SAVE_DISK,    /* rank 0, the others wait */
    SAVE_NETWORK, /* the same, and it waits for an answer now and then */
    COMPILE,
    STALL, /* one waits for data, as long as ten steps */
    DEEDS
};

#define OWN_WINDOW 20 /* steps, as hook.py has it */
#define OWN_EVERY  2
#define OWN_PART   1000000

struct run {
    struct rng rng;
    int64_t now_ms;
    int64_t step_ms; /* as it is meant to be; each differs by up to ten times */
    uint64_t steps;
    int64_t last_ms;
    int64_t next_ms; /* the next step */
    struct pace paces[RANKS];
    struct watch_rank ranks[RANKS];
    int64_t cpu_ms[RANKS];
    int stopped; /* -1: none */
    int64_t stopped_ms;
    /* As hook.py counts it: */
    struct rng own_rng;
    int slow;        /* -1: none; else a fifth slower than the others */
    bool all_differ; /* every step of every rank, up to ten times */
    int64_t owns[RANKS][OWN_WINDOW];
    int64_t parts[RANKS][OWN_WINDOW];
    int64_t own_us[RANKS];
    int64_t own_part[RANKS];
    int64_t own_spread[RANKS];
};

/* A second of it; `acts` says who works. */
static void run_second(struct run *run,
                       const bool works[RANKS],
                       const enum rank_phase phases[RANKS])
{
    run->now_ms += S;
    for (int i = 0; i < RANKS; i++) {
        bool stopped = run->stopped == i;
        struct pace_sample sample = {.now_ms = run->now_ms,
                                     .steps = run->steps,
                                     .last_ms = run->last_ms,
                                     .started_ms = NOW,
                                     .phase = phases[i],
                                     .own_us = run->own_us[i],
                                     .own_part = run->own_part[i],
                                     .own_spread = run->own_spread[i],
                                     .there = true,
                                     .state = stopped ? 'T' : 'S',
                                     .locked =
                                         !works[i] && phases[i] != LOADER && phases[i] != SAVE};

        run->cpu_ms[i] += works[i] && !stopped ? 100 + rng_between(&run->rng, 0, 900) : 0;
        sample.cpu_ms = run->cpu_ms[i];
        sample.looked = pace_is_silent(&run->paces[i], &sample);
        (void)pace_take(&run->paces[i], &sample);
    }
}

static int64_t draw_step(struct run *run)
{
    int64_t tenths =
        rng_below(&run->rng, 10) ? rng_between(&run->rng, 8, 13) : rng_between(&run->rng, 1, 100);

    return run->step_ms * tenths / 10;
}

static int time_compare(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a;
    int64_t y = *(const int64_t *)b;

    return x < y ? -1 : x > y;
}

static int64_t window_median(const int64_t values[static OWN_WINDOW])
{
    int64_t sorted[OWN_WINDOW];

    memcpy(sorted, values, sizeof(sorted));
    qsort(sorted, OWN_WINDOW, sizeof(sorted[0]), time_compare);
    return sorted[OWN_WINDOW / 2];
}

/* In millionths of the median. */
static int64_t window_spread(const int64_t values[static OWN_WINDOW])
{
    int64_t median = window_median(values);
    int64_t apart[OWN_WINDOW];

    for (int i = 0; i < OWN_WINDOW; i++)
        apart[i] = values[i] > median ? values[i] - median : median - values[i];
    return window_median(apart) * OWN_PART / median;
}

static void own_tell(struct run *run, int rank)
{
    int64_t by_time = window_spread(run->owns[rank]);
    int64_t by_part = window_spread(run->parts[rank]);

    run->own_us[rank] = window_median(run->owns[rank]);
    run->own_part[rank] = window_median(run->parts[rank]);
    run->own_spread[rank] = by_time < by_part ? by_time : by_part;
}

/* What each rank takes of a step for itself: two fifths, a twentieth more or less, and now and then up
 * to ten times as much; then all wait for it. */
static void own_step(struct run *run, int64_t step_ms)
{
    size_t at = run->steps % OWN_WINDOW;
    int64_t most = 0;

    for (int i = 0; i < RANKS; i++) {
        int64_t own = run->all_differ                ? rng_between(&run->own_rng, 100, 1000)
                      : rng_below(&run->own_rng, 10) ? rng_between(&run->own_rng, 380, 420)
                                                     : rng_between(&run->own_rng, 380, 4000);

        run->owns[i][at] = own * step_ms * (i == run->slow ? 6 : 5) / 5;
        most = run->owns[i][at] > most ? run->owns[i][at] : most;
    }
    for (int i = 0; i < RANKS; i++) {
        run->parts[i][at] = run->owns[i][at] * OWN_PART / (most + step_ms * 600);
        if (run->steps >= OWN_WINDOW && run->steps % OWN_EVERY == 0)
            own_tell(run, i);
    }
}

static void train_second(struct run *run)
{
    static const bool all[RANKS] = {true, true, true, true};
    static const enum rank_phase phases[RANKS] = {CODE, BACK, CODE, BACK};

    while (run->stopped < 0 && run->next_ms <= run->now_ms + S) {
        run->steps++;
        run->last_ms = run->next_ms;
        int64_t step_ms = draw_step(run) + 1;
        own_step(run, step_ms);
        run->next_ms += step_ms;
    }
    run_second(run, all, phases);
}

static struct watch_verdict run_judge(struct run *run, struct arena *arena)
{
    for (int i = 0; i < RANKS; i++) {
        run->ranks[i] = (struct watch_rank){run->paces[i].report, STR("p"), STR("n")};
        run->ranks[i].report.world = RANKS;
        run->ranks[i].report.passes = run->ranks[i].report.phase == BACK;
    }
    return watch_judge(run->ranks, RANKS, true, run->now_ms, arena);
}

static void deed_second(struct run *run, enum deed deed, int64_t second)
{
    static const bool all[RANKS] = {true, true, true, true};
    static const bool first[RANKS] = {true, false, false, false};
    static const bool none[RANKS] = {false, false, false, false};
    static const enum rank_phase code[RANKS] = {CODE, CODE, CODE, CODE};
    static const enum rank_phase save[RANKS] = {SAVE, CODE, CODE, CODE};
    static const enum rank_phase load[RANKS] = {LOADER, BACK, BACK, BACK};

    switch (deed) {
    case TRAIN: train_second(run); return;
    case EVALUATE:
    case COMPILE: run_second(run, all, code); break;
    case EVALUATE_ONE: run_second(run, first, code); break;
    case SAVE_DISK: run_second(run, first, save); break;
    case SAVE_NETWORK: run_second(run, second % 8 ? none : first, save); break;
    case STALL: run_second(run, none, load); break;
    case DEEDS: break;
    }
    run->next_ms = run->now_ms + draw_step(run);
}

static int64_t deed_seconds(struct run *run, enum deed deed)
{
    switch (deed) {
    case TRAIN: return 20 + 10 * run->step_ms / S;
    case STALL: return 10 * run->step_ms / S;
    case EVALUATE:
    case EVALUATE_ONE:
    case SAVE_DISK:
    case SAVE_NETWORK:
    case COMPILE:
    case DEEDS: break;
    }
    return rng_between(&run->rng, 5, 600);
}

static void run_begin(struct run *run, uint64_t seed)
{
    *run = (struct run){
        .rng = {seed}, .own_rng = {seed + 1000}, .now_ms = NOW, .stopped = -1, .slow = -1};
    for (int i = 0; i < RANKS; i++)
        run->paces[i].report.rank = i;
    run->step_ms = rng_between(&run->rng, 1, 100) * (rng_below(&run->rng, 3) ? 10 : 100);
    run->next_ms = NOW + rng_between(&run->rng, 10, 900) * S; /* start, and the first compilation */
}

TEST(in_a_hundred_runs_no_pause_is_taken_for_a_hang_and_every_stop_is)
{
    const uint64_t first_seed = 26;
    int64_t steady = 0;
    int64_t slowed = 0;

    for (uint64_t seed = first_seed; seed < first_seed + 100; seed++) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct run run;
        struct watch_verdict verdict = {0};

        run_begin(&run, seed);
        for (int part = 0; part < 30; part++) {
            uint64_t drawn = part % 2 ? rng_below(&run.rng, DEEDS) : TRAIN;
            enum deed deed = (enum deed)drawn;
            int64_t seconds = deed_seconds(&run, deed);

            for (int64_t i = 0; i < seconds; i++) {
                deed_second(&run, deed, i);
                verdict = run_judge(&run, &arena);
                if (verdict.word >= WATCH_SUSPECTED)
                    printf("seed %llu, part %d, deed %d, second %lld: %s " STR_FMT "\n",
                           (unsigned long long)seed, part, (int)deed, (long long)i,
                           watch_word(verdict.word), STR_ARG(verdict.message));
                EXPECT(verdict.word < WATCH_SUSPECTED);
                steady += verdict.word == WATCH_PROGRESSING;
                slowed +=
                    verdict.word == WATCH_SLOW && verdict.culprit->report.act == RANK_STEPPING;
            }
        }
        while (!run.steps || run.now_ms - run.last_ms > S)
            train_second(&run);
        run.stopped = (int)rng_below(&run.rng, RANKS);
        run.stopped_ms = run.now_ms;
        int64_t limit_ms = 3 * run.paces[0].report.step_ms + WATCH_HELD_MS + 2 * S;
        limit_ms = limit_ms > WATCH_HELD_MS + 8 * S ? limit_ms : WATCH_HELD_MS + 8 * S;
        while (verdict.word != WATCH_HUNG && run.now_ms < run.stopped_ms + limit_ms) {
            train_second(&run);
            verdict = run_judge(&run, &arena);
        }
        if (verdict.word != WATCH_HUNG)
            printf("seed %llu: %s\n", (unsigned long long)seed, watch_word(verdict.word));
        EXPECT(verdict.word == WATCH_HUNG && verdict.culprit &&
               verdict.culprit->report.rank == run.stopped);
    }
    if (slowed * 500 > steady)
        printf("a rank was called slow in %lld of %lld seconds\n", (long long)slowed,
               (long long)(steady + slowed));
    EXPECT(slowed * 500 <= steady);
}

/* One rank waits for a lock in code of its own, and the others for it in the backward pass: seconds of
 * virtual time from its last step until it is named, and until it is proven to hang. */
static void run_locked(int64_t step_ms,
                       int64_t *ret_median_ms,
                       int64_t *ret_named_ms,
                       int64_t *ret_proven_ms)
{
    static const bool none[RANKS] = {false, false, false, false};
    static const enum rank_phase phases[RANKS] = {BACK, BACK, CODE, BACK};
    _cleanup_(arena_done) struct arena arena = {0};
    struct run run;

    run_begin(&run, 26);
    run.step_ms = step_ms;
    run.next_ms = NOW + step_ms;
    while (run.steps < 60)
        train_second(&run);
    *ret_median_ms = run.paces[2].report.step_ms;
    *ret_named_ms = *ret_proven_ms = -1;
    while (*ret_proven_ms < 0 && run.now_ms < run.last_ms + 3600 * S) {
        run_second(&run, none, phases);
        struct watch_verdict verdict = run_judge(&run, &arena);
        bool named = verdict.culprit && verdict.culprit->report.rank == 2;

        if (named && *ret_named_ms < 0)
            *ret_named_ms = run.now_ms - run.last_ms;
        if (named && verdict.word == WATCH_HUNG)
            *ret_proven_ms = run.now_ms - run.last_ms;
    }
}

TEST(a_rank_that_waits_for_a_lock_is_named_in_ten_seconds_or_a_few_steps)
{
    static const int64_t steps_ms[] = {20, 100, 500, 1000, 3000, 10000, 60000};

    for (size_t i = 0; i < COUNT_OF(steps_ms); i++) {
        int64_t median_ms;
        int64_t named_ms;
        int64_t proven_ms;

        run_locked(steps_ms[i], &median_ms, &named_ms, &proven_ms);
        /* Silence and the limit, each seen at the next look. */
        int64_t silent_ms = 3 * median_ms > PACE_SILENT_MS ? 3 * median_ms : PACE_SILENT_MS;
        int64_t limit_ms = silent_ms + (median_ms > 6 * S ? median_ms : 6 * S) + 2 * S;
        if (named_ms < 0 || named_ms > limit_ms)
            printf("steps of %lld ms: named after %lld ms, proven after %lld ms\n",
                   (long long)steps_ms[i], (long long)named_ms, (long long)proven_ms);
        EXPECT(named_ms > 0 && named_ms <= limit_ms);
        EXPECT(median_ms > S || named_ms <= 10 * S);
        EXPECT(proven_ms >= WATCH_LOCKED_MS && proven_ms > named_ms);
    }
}

/* Steps from when a rank becomes a fifth slower until it is named; the agent looks once a second. With
 * tenfold jitter of every rank, a few take longer. */
TEST(in_a_hundred_runs_the_rank_that_is_a_fifth_slower_is_named_within_twenty_steps)
{
    int late = 0;

    for (uint64_t seed = 1; seed <= 100; seed++) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct run run;
        struct watch_verdict verdict = {0};

        run_begin(&run, seed);
        while (run.steps < 100)
            train_second(&run);
        run.slow = (int)rng_below(&run.rng, RANKS);
        uint64_t begun = run.steps;
        uint64_t before = begun; /* at the last look */
        while ((!verdict.culprit || verdict.culprit->report.rank != run.slow) &&
               run.steps < begun + 1000) {
            before = run.steps;
            train_second(&run);
            verdict = run_judge(&run, &arena);
        }
        if (before - begun >= 20)
            printf("seed %llu: %s after %llu steps\n", (unsigned long long)seed,
                   watch_word(verdict.word), (unsigned long long)(before - begun));
        EXPECT(verdict.word == WATCH_SLOW && before - begun < 50);
        late += before - begun >= 20;
    }
    EXPECT(late <= 5);
}

TEST(where_all_steps_differ_tenfold_hardly_anybody_is_called_slow)
{
    int looks = 0;
    int named = 0;

    for (uint64_t seed = 1; seed <= 100; seed++) {
        struct run run;

        run_begin(&run, seed);
        run.all_differ = true;
        while (run.steps < 200) {
            _cleanup_(arena_done) struct arena arena = {0};

            train_second(&run);
            named += run_judge(&run, &arena).word == WATCH_SLOW;
            looks++;
        }
    }
    if (named)
        printf("%d of %d looks\n", named, looks);
    EXPECT(named * 1000 < looks);
}
