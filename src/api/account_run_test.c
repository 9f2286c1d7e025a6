#include "api/account.h"
#include "api/account_run.h"
#include "api/ranks.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/json.h"
#include "base/str.h"
#include "test.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define S 1000LL

struct job {
    struct account account;
    struct account_run run;
};

static void status(struct job *job, int64_t at_ms, const char *phase)
{
    struct account_seen seen = {.phase = str_from(phase), .bound = true};

    (void)account_take(&job->account, &job->run, &seen, 4, at_ms);
}

/* Its first line, as if it had been created then; it runs from 10 s on. */
static struct job job_running(void)
{
    struct job job = {0};

    (void)account_note(&job.account, (struct account_event){0, 4, ACCOUNT_QUEUED, 0});
    status(&job, 10 * S, "Running");
    return job;
}

static void hear(struct job *job, int64_t at_ms, struct rank_report report)
{
    (void)account_hear(&job->run, &report, 1, 0);
    if (job->run.running)
        status(job, at_ms, "Running");
}

static struct account_sums sums_at(const struct job *job, int64_t at_ms)
{
    struct account_sums sums = {0};

    account_add(&job->account, 0, at_ms, &sums);
    EXPECT(account_total(sums.wall_ms) == at_ms);
    EXPECT(account_total(sums.gpu_ms) == 4 * at_ms);
    return sums;
}

TEST(a_run_is_starting_until_its_first_step)
{
    struct job job = job_running();

    test_case("of ranks that nobody tells of all is training");
    EXPECT(sums_at(&job, 20 * S).wall_ms[ACCOUNT_TRAINING] == 10 * S);
    test_case("a process is there");
    hear(&job, 20 * S, (struct rank_report){.pid = 7, .began_ms = 15 * S});
    EXPECT(sums_at(&job, 20 * S).wall_ms[ACCOUNT_STARTING] == 10 * S);
    test_case("it has made steps");
    hear(&job, 60 * S,
         (struct rank_report){
             .pid = 7, .began_ms = 15 * S, .first_ms = 22 * S, .last_ms = 60 * S, .steps = 39});
    EXPECT(sums_at(&job, 60 * S).wall_ms[ACCOUNT_STARTING] == 12 * S);
    EXPECT(sums_at(&job, 60 * S).wall_ms[ACCOUNT_TRAINING] == 38 * S);
}

/* A step a second from 20 s on; after 30 steps it fails, and the next run makes its first at 100 s. */
TEST(steps_that_were_lost_with_a_restart_are_recomputed)
{
    static const struct {
        const char *why;
        int64_t mark, resumed, loaded_ms, lost;
    } rows[] = {
        {"no checkpoint: from the beginning", 0, 0, 0, 30},
        {"a checkpoint that nobody loaded", 21, 0, 0, 30},
        {"what was loaded is older than the job: no checkpoint of it", 21, 0, -1, 30},
        {"a checkpoint after 20 steps was loaded", 21, 0, 40 * S, 10},
        {"the optimizer knows better: that one was spoilt, and an older one used", 21, 11, 41 * S,
         20},
        {"a checkpoint after every step", 31, 31, 41 * S, 0},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct job job = job_running();
        struct rank_report second = {.pid = 7, .began_ms = 90 * S, .first_ms = 100 * S};

        test_case(rows[i].why);
        hear(&job, 50 * S,
             (struct rank_report){.pid = 7,
                                  .began_ms = 15 * S,
                                  .first_ms = 20 * S,
                                  .last_ms = 49 * S,
                                  .steps = 30,
                                  .mark = rows[i].mark});
        status(&job, 50 * S, "Restarting");
        status(&job, 80 * S, "Running");
        second.resumed = rows[i].resumed;
        second.loaded_ms = rows[i].loaded_ms;
        second.steps = 5;
        second.last_ms = 104 * S;
        (void)account_hear(&job.run, &second, 1, 1);
        status(&job, 105 * S, "Running");
        struct account_sums early = sums_at(&job, 105 * S);
        EXPECT(early.wall_ms[ACCOUNT_RECOMPUTING] == (rows[i].lost ? 5 * S : 0));
        EXPECT(early.wall_ms[ACCOUNT_STARTING] == 10 * S + 30 * S + 20 * S);
        second.steps = 61;
        second.last_ms = 160 * S;
        (void)account_hear(&job.run, &second, 1, 1);
        status(&job, 161 * S, "Running");
        /* The first of them ends where the counting begins. */
        int64_t redone = rows[i].lost ? (rows[i].lost - 1) * S : 0;
        EXPECT(sums_at(&job, 161 * S).wall_ms[ACCOUNT_RECOMPUTING] == redone);
        EXPECT(sums_at(&job, 161 * S).wall_ms[ACCOUNT_TRAINING] == 30 * S + 61 * S - redone);
    }
}

TEST(saving_is_a_part_of_training_and_the_longest_of_all_ranks)
{
    struct job job = job_running();
    struct rank_report ranks[] = {
        {.rank = 0,
         .began_ms = 12 * S,
         .first_ms = 20 * S,
         .last_ms = 90 * S,
         .steps = 9,
         .saving_ms = 8 * S},
        {.rank = 1,
         .began_ms = 12 * S,
         .first_ms = 20 * S,
         .last_ms = 90 * S,
         .steps = 9,
         .saving_ms = 20 * S},
    };
    struct account_sums part = {0};

    EXPECT(account_hear(&job.run, ranks, COUNT_OF(ranks), 0));
    test_case("nothing new");
    EXPECT(!account_hear(&job.run, ranks, COUNT_OF(ranks), 0));
    status(&job, 100 * S, "Running");
    EXPECT(sums_at(&job, 100 * S).wall_ms[ACCOUNT_SAVING] == 20 * S);
    EXPECT(sums_at(&job, 100 * S).wall_ms[ACCOUNT_TRAINING] == 60 * S);
    EXPECT(sums_at(&job, 100 * S).gpu_ms[ACCOUNT_SAVING] == 80 * S);
    test_case("half of the time has half of it");
    account_add(&job.account, 60 * S, 100 * S, &part);
    EXPECT(part.wall_ms[ACCOUNT_SAVING] == 10 * S && part.wall_ms[ACCOUNT_TRAINING] == 30 * S);
    test_case("the next run counts from the beginning");
    status(&job, 100 * S, "Restarting");
    status(&job, 110 * S, "Running");
    hear(&job, 130 * S,
         (struct rank_report){.began_ms = 112 * S,
                              .first_ms = 115 * S,
                              .last_ms = 130 * S,
                              .steps = 3,
                              .saving_ms = 5 * S,
                              .resumed = 10});
    EXPECT(sums_at(&job, 130 * S).wall_ms[ACCOUNT_SAVING] == 25 * S);
    test_case("what a rank of the earlier run says late is not of this one");
    EXPECT(!account_hear(&job.run, &ranks[1], 1, 0));
    EXPECT(sums_at(&job, 130 * S).wall_ms[ACCOUNT_SAVING] == 25 * S);
}

TEST(a_hang_is_counted_since_the_last_step)
{
    struct account_seen hung = {.phase = STR("Running"), .bound = true, .hung = true};
    struct rank_report report = {
        .began_ms = 12 * S, .first_ms = 20 * S, .last_ms = 40 * S, .steps = 21};
    struct job job = job_running();

    hear(&job, 45 * S, report);
    (void)account_take(&job.account, &job.run, &hung, 4, 60 * S);
    EXPECT(sums_at(&job, 60 * S).wall_ms[ACCOUNT_HUNG] == 20 * S);
    test_case("a suspicion that turns out to be none was waiting all the same");
    report.steps++;
    report.last_ms = 70 * S;
    (void)account_hear(&job.run, &report, 1, 0);
    status(&job, 70 * S, "Running");
    EXPECT(sums_at(&job, 80 * S).wall_ms[ACCOUNT_HUNG] == 30 * S);
    EXPECT(sums_at(&job, 80 * S).wall_ms[ACCOUNT_TRAINING] == 30 * S);
    test_case("one that is proven restarts the gang at once");
    struct account_seen failed = {
        .phase = STR("Restarting"), .bound = true, .failed_hung_ms = 90 * S};
    (void)account_take(&job.account, &job.run, &failed, 4, 90 * S + 500);
    EXPECT(sums_at(&job, 91 * S).wall_ms[ACCOUNT_HUNG] == 30 * S + 20 * S + 500);
    EXPECT(sums_at(&job, 91 * S).wall_ms[ACCOUNT_TRAINING] == 20 * S);
}

/* It hangs after its step at 40 s; then five more are heard of at once. */
static struct job job_woken(int64_t late_ms, int64_t last_ms)
{
    struct account_seen hung = {.phase = STR("Running"), .bound = true, .hung = true};
    struct rank_report report = {
        .began_ms = 12 * S, .first_ms = 20 * S, .last_ms = 40 * S, .steps = 21, .step_ms = 100};
    struct job job = job_running();

    hear(&job, 45 * S, report);
    (void)account_take(&job.account, &job.run, &hung, 4, 60 * S);
    report.act = RANK_STEPPING;
    report.steps += 5;
    report.late_ms = late_ms;
    report.last_ms = last_ms;
    (void)account_hear(&job.run, &report, 1, 0);
    (void)account_take(&job.account, &job.run, &hung, 4, 72 * S);
    status(&job, 74 * S, "Running");
    return job;
}

TEST(a_hang_is_over_with_the_next_step_whenever_that_is_heard_of)
{
    struct job job = job_woken(0, 70 * S + 400); /* the first of the five was at 70 s */

    EXPECT(sums_at(&job, 80 * S).wall_ms[ACCOUNT_HUNG] == 30 * S);
    EXPECT(sums_at(&job, 80 * S).wall_ms[ACCOUNT_TRAINING] == 30 * S);
}

TEST(a_hang_is_over_when_the_hook_says_that_the_late_step_was)
{
    struct job job = job_woken(70 * S, 71 * S + 500); /* those that followed were slow, too */

    EXPECT(sums_at(&job, 80 * S).wall_ms[ACCOUNT_HUNG] == 30 * S);
}

TEST(ranks_that_their_own_launcher_starts_again_are_a_run_of_their_own)
{
    struct job job = job_running();

    hear(&job, 40 * S,
         (struct rank_report){.pid = 7,
                              .began_ms = 12 * S,
                              .first_ms = 20 * S,
                              .last_ms = 39 * S,
                              .steps = 20,
                              .mark = 11});
    hear(&job, 50 * S, (struct rank_report){.pid = 9, .began_ms = 44 * S});
    EXPECT(sums_at(&job, 50 * S).wall_ms[ACCOUNT_STARTING] == 10 * S + 6 * S);
    hear(&job, 70 * S,
         (struct rank_report){.pid = 9,
                              .began_ms = 44 * S,
                              .first_ms = 50 * S,
                              .last_ms = 69 * S,
                              .steps = 20,
                              .loaded_ms = 30 * S});
    EXPECT(sums_at(&job, 70 * S).wall_ms[ACCOUNT_RECOMPUTING] == 9 * S);
    EXPECT(job.run.base == 10 && job.run.top == 20);
}

TEST(what_was_lost_is_made_up_for_by_the_first_looks_and_not_evenly)
{
    struct job job = job_running();

    hear(&job, 40 * S,
         (struct rank_report){.pid = 7,
                              .began_ms = 12 * S,
                              .first_ms = 20 * S,
                              .last_ms = 39 * S,
                              .steps = 20,
                              .mark = 11});
    hear(&job, 50 * S, (struct rank_report){.pid = 9, .began_ms = 44 * S});
    /* Ten steps were lost. The first of them are slow: the tenth is made at 57 s. */
    hear(&job, 90 * S,
         (struct rank_report){.pid = 9,
                              .began_ms = 44 * S,
                              .first_ms = 50 * S,
                              .last_ms = 89 * S,
                              .steps = 100,
                              .early = {{2, 52 * S}, {8, 56 * S}, {12, 58 * S}, {30, 60 * S}},
                              .early_count = 4,
                              .loaded_ms = 30 * S});
    EXPECT(sums_at(&job, 90 * S).wall_ms[ACCOUNT_RECOMPUTING] == 7 * S);
}

TEST(a_run_survives_being_written)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct job job = job_running();
    struct account_run back = {0};

    hear(&job, 40 * S,
         (struct rank_report){.pid = 7,
                              .began_ms = 12 * S,
                              .first_ms = 20 * S,
                              .last_ms = 39 * S,
                              .steps = 20,
                              .mark = 11,
                              .saving_ms = 3});
    account_run_read(account_run_json(&arena, &job.run), &back);
    EXPECT(memcmp(&back, &job.run, sizeof(back)) == 0);
    struct account account = {0};
    EXPECT(account_read(account_json(&arena, &job.account), &account));
    EXPECT(account.count == job.account.count && account.saving_ms[account.count - 1] == 3);
    test_case("no line of it");
    account_run_read(NULL, &back);
    EXPECT(!back.running && !back.began_ms);
}

TEST(what_is_known_of_a_run_is_written_and_read_again)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct account_run none = {0};
    struct account_run all = {0};
    struct account_run read = {0};
    int64_t next = 1;

#define RUN_SET(member, what) all.member = next++;
    ACCOUNT_RUN_MEMBERS(RUN_SET)
#undef RUN_SET
    EXPECT(str_is(json_text(&arena, account_run_json(&arena, &none)), "{}"));
    account_run_read(account_run_json(&arena, &all), &read);
    EXPECT(memcmp(&read, &all, sizeof(all)) == 0);
    test_case("somebody wrote into it");
    account_run_read(test_json(&arena, "{'steps':-1,'pid':'x'}"), &read);
    EXPECT(memcmp(&read, &none, sizeof(none)) == 0);
}

TEST(only_the_first_rank_of_the_last_process_tells_of_a_run)
{
    static const struct {
        const char *why;
        struct rank_report report;
        bool heard;
    } rows[] = {
        {"further",
         {.pid = 8, .began_ms = 100 * S, .first_ms = 110 * S, .last_ms = 130 * S, .steps = 21},
         true},
        {"of another rank",
         {.rank = 1,
          .pid = 9,
          .began_ms = 200 * S,
          .first_ms = 210 * S,
          .last_ms = 220 * S,
          .steps = 9},
         false},
        {"of nobody", {.pid = 9}, false},
        {"of a process that is gone",
         {.pid = 7, .began_ms = 50 * S, .first_ms = 60 * S, .last_ms = 140 * S, .steps = 90},
         false},
        {"late, of the same process",
         {.pid = 8, .began_ms = 100 * S, .first_ms = 110 * S, .last_ms = 115 * S, .steps = 5},
         false},
        {"of its successor, which has fewer steps", {.pid = 8, .began_ms = 150 * S}, true},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct job job = job_running();

        test_case(rows[i].why);
        hear(&job, 120 * S,
             (struct rank_report){.pid = 8,
                                  .began_ms = 100 * S,
                                  .first_ms = 110 * S,
                                  .last_ms = 120 * S,
                                  .steps = 11});
        EXPECT(account_hear(&job.run, &rows[i].report, 1, 0) == rows[i].heard);
    }
}

TEST(another_number_of_gpus_is_another_stay)
{
    struct job job = job_running();
    struct account_seen seen = {.phase = STR("Running"), .bound = true};
    struct account_sums sums = {0};

    EXPECT(account_take(&job.account, &job.run, &seen, 8, 30 * S));
    EXPECT(!account_take(&job.account, &job.run, &seen, 8, 40 * S));
    account_add(&job.account, 0, 40 * S, &sums);
    EXPECT(sums.gpu_ms[ACCOUNT_TRAINING] == 4 * 20 * S + 8 * 10 * S);
}
