#include "base/arena.h"
#include "base/cleanup.h"
#include "exec/usage.h"
#include "test.h"

#define HOUR_MS 3600000

static const double all[SCHED_RESOURCES] =
    {[SCHED_CPU] = 4000, [SCHED_MEMORY] = 1e9, [SCHED_GPU] = 8};
static const double half[SCHED_RESOURCES] =
    {[SCHED_CPU] = 2000, [SCHED_MEMORY] = 5e8, [SCHED_GPU] = 4};
static const double none[SCHED_RESOURCES] = {0};

static bool near(double a, double b)
{
    return a - b < 0.001 && b - a < 0.001;
}

TEST(usage_is_what_was_held_of_what_there_was)
{
    struct usage_params params = {.window_ms = 48 * HOUR_MS};
    struct usage usage = {0};
    double shares[SCHED_RESOURCES];

    usage_add(&usage, &params, 100 * (int64_t)HOUR_MS, 3600, all, all);
    usage_add(&usage, &params, 101 * (int64_t)HOUR_MS, 3600, none, all);
    usage_add(&usage, &params, 102 * (int64_t)HOUR_MS, 3600, half, all);
    usage_shares(&usage, &params, 102 * (int64_t)HOUR_MS, shares);
    EXPECT(near(shares[SCHED_GPU], 0.5));
    EXPECT(near(shares[SCHED_CPU], 0.5));
}

TEST(usage_older_than_the_window_is_forgotten)
{
    struct usage_params params = {.window_ms = 48 * HOUR_MS};
    struct usage usage = {0};
    double shares[SCHED_RESOURCES];

    usage_add(&usage, &params, 100 * (int64_t)HOUR_MS, 3600, all, all);
    usage_add(&usage, &params, 150 * (int64_t)HOUR_MS, 3600, none, all);
    usage_shares(&usage, &params, 150 * (int64_t)HOUR_MS, shares);
    EXPECT(near(shares[SCHED_GPU], 0));
}

TEST(usage_counts_half_after_a_half_life)
{
    struct usage_params params = {.window_ms = 48 * HOUR_MS, .half_life_ms = HOUR_MS};
    struct usage usage = {0};
    double shares[SCHED_RESOURCES];

    usage_add(&usage, &params, 100 * (int64_t)HOUR_MS, 3600, all, all);
    usage_add(&usage, &params, 101 * (int64_t)HOUR_MS, 3600, none, all);
    usage_shares(&usage, &params, 101 * (int64_t)HOUR_MS, shares);
    EXPECT(near(shares[SCHED_GPU], 0.5 / 1.5));
}

TEST(usage_survives_being_written_and_read)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct usage_params params = {.window_ms = 48 * HOUR_MS};
    struct usage_params other = {.window_ms = 24 * HOUR_MS};
    struct usage usage = {0};
    struct usage again;
    double shares[SCHED_RESOURCES];

    usage_add(&usage, &params, 100 * (int64_t)HOUR_MS, 3600, half, all);
    usage_add(&usage, &params, 103 * (int64_t)HOUR_MS, 60, all, all);
    struct str text = usage_write(&usage, &params, &arena);
    usage_read(text, &params, &again);
    EXPECT(str_eq(usage_write(&again, &params, &arena), text));
    usage_read(text, &other, &again);
    usage_shares(&again, &other, 103 * (int64_t)HOUR_MS, shares);
    EXPECT(near(shares[SCHED_GPU], 0));
    usage_read(STR("v1 x 7:1,2/3"), &params, &again);
}
