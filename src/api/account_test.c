#include "api/account.h"
#include "api/account_run.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/json.h"
#include "base/rng.h"
#include "base/str.h"
#include "test.h"

#include <stddef.h>
#include <stdint.h>

TEST(account_of_a_job_that_was_restarted_and_suspended)
{
    static const struct account_event events[] = {
        {1000, 8, ACCOUNT_QUEUED, 0},     {61000, 8, ACCOUNT_STARTING, 0},
        {71000, 8, ACCOUNT_TRAINING, 0},  {171000, 8, ACCOUNT_STARTING, 0},
        {176000, 8, ACCOUNT_TRAINING, 0}, {276000, 8, ACCOUNT_IDLE, 0},
        {376000, 4, ACCOUNT_TRAINING, 0},
    };
    struct account account = {0};
    struct account_sums sums = {0};

    for (size_t i = 0; i < COUNT_OF(events); i++)
        EXPECT(account_note(&account, events[i]));
    test_case("what is known is no event");
    EXPECT(!account_note(&account, (struct account_event){380000, 4, ACCOUNT_TRAINING, 0}));
    account_add(&account, 0, 386000, &sums);
    EXPECT(sums.wall_ms[ACCOUNT_QUEUED] == 60000 && sums.wall_ms[ACCOUNT_STARTING] == 15000);
    EXPECT(sums.wall_ms[ACCOUNT_TRAINING] == 210000 && sums.wall_ms[ACCOUNT_IDLE] == 100000);
    EXPECT(account_total(sums.wall_ms) == 385000);
    EXPECT(sums.gpu_ms[ACCOUNT_TRAINING] == 200000 * 8 + 10000 * 4);
    EXPECT(account_total(sums.gpu_ms) == 375000 * 8 + 10000 * 4);
    EXPECT(account_ettr(&sums) == 1640000 * 1000LL / 3040000);
    test_case("after its end nothing is counted");
    account.end_ms = 386000;
    struct account_sums later = {0};
    account_add(&account, 0, 999000, &later);
    EXPECT(account_total(later.wall_ms) == 385000);
    test_case("a window");
    struct account_sums part = {0};
    account_add(&account, 66000, 81000, &part);
    EXPECT(part.wall_ms[ACCOUNT_STARTING] == 5000 && part.wall_ms[ACCOUNT_TRAINING] == 10000);
    EXPECT(account_total(part.wall_ms) == 15000);
}

TEST(account_sums_are_the_wall_time_whatever_happened)
{
    struct rng rng = {.state = 3};

    for (int round = 0; round < 500; round++) {
        struct account account = {0};
        struct account_sums sums = {0};
        int64_t at = 1000;
        int64_t gpus = (int64_t)rng_below(&rng, 9);

        for (uint64_t n = rng_below(&rng, 200); n; n--) {
            uint64_t state = rng_below(&rng, ACCOUNT_STATES);

            (void)account_note(&account,
                               (struct account_event){
                                   .at_ms = at, .gpus = gpus, .state = (enum account_state)state});
            at += rng_between(&rng, -50, 1000); /* a clock may go back */
        }
        if (!account.count)
            continue;
        int64_t last = account.events[account.count - 1].at_ms;
        int64_t end = last + rng_between(&rng, 0, 500);
        int64_t middle = rng_between(&rng, 1000, end);
        account_add(&account, 0, middle, &sums);
        account_add(&account, middle, end, &sums);
        EXPECT(account_total(sums.wall_ms) == end - 1000);
        EXPECT(account_total(sums.gpu_ms) == (end - 1000) * gpus);
        EXPECT(account.count <= ACCOUNT_EVENTS_MAX);
    }
}

TEST(account_states_follow_the_status)
{
    static const struct {
        const char *phase;
        bool bound, hung;
        enum account_state state;
    } rows[] = {
        {"", false, false, ACCOUNT_QUEUED},          {"Pending", false, false, ACCOUNT_QUEUED},
        {"Syncing", false, false, ACCOUNT_QUEUED},   {"Queued", false, false, ACCOUNT_QUEUED},
        {"Queued", true, false, ACCOUNT_STARTING},   {"Running", true, false, ACCOUNT_TRAINING},
        {"Running", true, true, ACCOUNT_HUNG},       {"Restarting", false, true, ACCOUNT_STARTING},
        {"Preempted", false, false, ACCOUNT_QUEUED}, {"Suspended", false, false, ACCOUNT_IDLE},
        {"Suspended", true, true, ACCOUNT_IDLE},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct account_seen seen = {
            .phase = str_from(rows[i].phase), .bound = rows[i].bound, .hung = rows[i].hung};

        test_case(rows[i].phase);
        EXPECT(account_state_of(&seen) == rows[i].state);
    }
}

TEST(account_survives_being_written_and_bad_lines)
{
    _cleanup_(arena_done) struct arena arena = {0};
    _cleanup_(buf_done) struct buf text = {0};
    struct account account = {0};
    struct account back;
    struct json *json = NULL;

    (void)account_note(&account, (struct account_event){5, 2, ACCOUNT_QUEUED, 0});
    (void)account_note(&account, (struct account_event){9, 2, ACCOUNT_HUNG, 0});
    account.end_ms = 12;
    json_write(&text, account_json(&arena, &account));
    EXPECT(str_is(buf_str(&text), "{\"events\":[[5,\"queued\",2],[9,\"hung\",2]],\"end\":12}"));
    EXPECT(json_parse(&arena, buf_str(&text), &json, NULL) == 0 && account_read(json, &back));
    EXPECT(back.count == 2 && back.end_ms == 12 && back.events[1].state == ACCOUNT_HUNG);
    EXPECT(json_parse(&arena, STR("{\"events\":[[5,\"what\",2],[-1,\"idle\",2],3]}"), &json,
                      NULL) == 0);
    EXPECT(!account_read(json, &back));
}

TEST(gpus_of_spare_pods_are_idle_while_the_job_trains)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct account account = {0};
    struct account read;
    struct account_run run = {0};
    struct account_sums sums = {0};
    struct account_seen seen = {.phase = STR("Running"), .bound = true};

    (void)account_note(&account, (struct account_event){0, 4, ACCOUNT_QUEUED, 0});
    EXPECT(account_take(&account, &run, &seen, 4, 100));
    seen.spare_gpus = 2;
    EXPECT(account_take(&account, &run, &seen, 4, 200));
    EXPECT(!account_take(&account, &run, &seen, 4, 250));
    seen.spare_gpus = 0; /* it took a place */
    EXPECT(account_take(&account, &run, &seen, 4, 300));
    EXPECT(account_read(account_json(&arena, &account), &read));
    account_add(&read, 0, 1000, &sums);
    EXPECT(sums.gpu_ms[ACCOUNT_IDLE] == 100 * 2 && sums.wall_ms[ACCOUNT_IDLE] == 0);
    EXPECT(sums.gpu_ms[ACCOUNT_TRAINING] == 900 * 4 && sums.gpu_ms[ACCOUNT_QUEUED] == 100 * 4);
    EXPECT(account_total(sums.wall_ms) == 1000);
}

/* Seconds: what a status tells -> how long it waited and ran, which is all of its time. */
TEST(what_a_status_tells_adds_up_to_the_whole_time_of_a_job)
{
    static const struct {
        const char *why;
        struct account_told told;
        int64_t waited;
        int64_t ran;
    } rows[] = {
        {"it waits", {.created_ms = 1000}, 99, 0},
        {"it runs",
         {.created_ms = 1000, .start_ms = 41000, .run_start_ms = 41000, .state = ACCOUNT_TRAINING},
         40,
         59},
        {"it was evicted, and waits again",
         {.created_ms = 1000, .start_ms = 11000, .run_ms = 20000},
         79,
         20},
        {"it was evicted, waited, and runs again",
         {.created_ms = 1000,
          .start_ms = 11000,
          .run_ms = 20000,
          .run_start_ms = 91000,
          .state = ACCOUNT_TRAINING},
         70,
         29},
        {"it was evicted, waited, ran again and has ended",
         {.created_ms = 1000, .start_ms = 11000, .run_ms = 30000, .end_ms = 95000},
         64,
         30},
        {"it was deleted while it ran",
         {.created_ms = 1000,
          .start_ms = 11000,
          .run_ms = 20000,
          .run_start_ms = 51000,
          .end_ms = 61000},
         30,
         30},
        {"it was deleted while it waited", {.created_ms = 1000, .end_ms = 31000}, 30, 0},
        {"a kind that tells no runs",
         {.created_ms = 1000, .start_ms = 11000, .run_ms = -1, .end_ms = 31000},
         10,
         20},
        {"whole seconds of a run that is never cut short",
         {.created_ms = 1000, .start_ms = 11000, .run_ms = 19000, .end_ms = 31000},
         10,
         20},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct account account;
        struct account_sums sums = {0};
        int64_t to_ms = rows[i].told.end_ms ? rows[i].told.end_ms : 100000;

        test_case(rows[i].why);
        EXPECT(account_from(&rows[i].told, &account));
        account_add(&account, 0, to_ms, &sums);
        EXPECT(account_waited(sums.wall_ms) == rows[i].waited * 1000);
        EXPECT(account_ran(sums.wall_ms) == rows[i].ran * 1000);
        EXPECT(account_total(sums.wall_ms) == to_ms - 1000);
        EXPECT(sums.held_ms == account_ran(sums.gpu_ms));
    }
}
