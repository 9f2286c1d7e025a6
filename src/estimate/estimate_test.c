#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/count.h"
#include "base/json.h"
#include "base/rng.h"
#include "base/str.h"
#include "base/vec.h"
#include "estimate/band.h"
#include "estimate/forecast.h"
#include "estimate/runtimes.h"
#include "estimate/state.h"
#include "sched/sched.h"
#include "sched/spec.h"
#include "test.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define MINUTE INT64_C(60000)
#define HOUR   (60 * MINUTE)
#define NOW    INT64_C(1800000000000)

/* ---- run times ---- */
static struct runtimes_like of_queue(const char *queue, int64_t gpus)
{
    return (struct runtimes_like){.queue = str_from(queue), .gpus = gpus};
}

TEST(run_times_are_those_of_jobs_alike_and_else_of_the_queue)
{
    struct runtimes runtimes = {0};
    struct runtimes_like one = of_queue("q", 1);
    struct runtimes_like seven = of_queue("q", 7);
    struct runtimes_like eight = of_queue("q", 8);

    EXPECT(runtimes_percentile(&runtimes, &one, 50) == 0);
    for (int64_t i = 1; i <= 200; i++)
        runtimes_add(&runtimes, &one, i);
    EXPECT(runtimes_percentile(&runtimes, &one, 0) == 200 - RUNTIMES_RUNS + 1);
    EXPECT(runtimes_percentile(&runtimes, &one, 100) == 200);
    runtimes_add(&runtimes, &eight, 5000);
    EXPECT(runtimes_percentile(&runtimes, &eight, 50) < 5000);
    for (int i = 0; i < RUNTIMES_LEAST; i++)
        runtimes_add(&runtimes, &eight, 5000);
    EXPECT(runtimes_percentile(&runtimes, &seven, 50) == 5000);
    runtimes_done(&runtimes);
}

TEST(a_name_but_for_its_number_says_more_than_user_and_queue)
{
    struct runtimes runtimes = {0};
    struct runtimes_like like = {
        .name = STR("ns/train-1"), .user = STR("ann"), .queue = STR("q"), .gpus = 4};

    for (int i = 0; i < RUNTIMES_LEAST; i++) {
        like.name = STR("ns/train-12");
        runtimes_add(&runtimes, &like, 10 * HOUR);
        like.name = STR("ns/check-3");
        for (int more = 0; more < 5; more++)
            runtimes_add(&runtimes, &like, MINUTE);
    }
    like.name = STR("ns/train-13");
    EXPECT(runtimes_percentile(&runtimes, &like, 50) == 10 * HOUR);
    like.name = STR("ns/other");
    EXPECT(runtimes_percentile(&runtimes, &like, 50) == MINUTE);
    like.user = STR("bob");
    EXPECT(runtimes_percentile(&runtimes, &like, 50) == MINUTE);
    runtimes_done(&runtimes);
}

TEST(of_too_many_kinds_the_one_that_ran_longest_ago_is_forgotten)
{
    struct runtimes runtimes = {0};
    struct runtimes_like like = {.queue = STR("q"), .gpus = 1};
    char name[32];

    for (int i = 0; i < RUNTIMES_KINDS + 100; i++) { /* names that come once */
        (void)snprintf(name, sizeof(name), "ns/once-%d-x", i);
        like.name = str_from(name);
        runtimes_add(&runtimes, &like, 100 * HOUR);
    }
    like.name = STR("ns/daily-1");
    for (int i = 0; i < RUNTIMES_LEAST; i++)
        runtimes_add(&runtimes, &like, MINUTE);
    EXPECT(runtimes.kinds.count == RUNTIMES_KINDS);
    EXPECT(runtimes_percentile(&runtimes, &like, 80) == MINUTE);
    like.name = STR("ns/never-seen");
    EXPECT(runtimes_percentile(&runtimes, &like, 50) == 100 * HOUR); /* of its queue */
    runtimes_done(&runtimes);
}

TEST(a_drawn_run_time_is_longer_than_what_the_job_ran_already)
{
    static const int64_t sorted[] = {10, 20, 30, 40};
    struct runtimes_known known = {sorted, COUNT_OF(sorted)};
    static const struct {
        const char *why;
        int64_t age;
        uint32_t drawn;
        int64_t least, most;
    } rows[] = {
        {"the shortest for the smallest number", 0, 0, 10, 10},
        {"those that it has outlived do not count", 25, 0, 30, 30},
        {"as likely as any of them: longer than all", 0, UINT32_MAX, 41, 120},
        {"older than all: up to three times its age", 100, UINT32_MAX / 2, 199, 201},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        int64_t run = runtimes_draw(known, rows[i].age, rows[i].drawn);

        test_case(rows[i].why);
        EXPECT(run >= rows[i].least && run <= rows[i].most);
    }
    EXPECT(runtimes_draw((struct runtimes_known){0}, 0, 7) == 0);
}

/* ---- forecasts ---- */
/* One node of 8 GPUs and one queue; jobs have one pod each. */
struct scene {
    struct arena arena;
    struct forecast_state state;
    struct runtimes runtimes;
    struct forecast forecast;
};

static void scene_open(struct scene *scene)
{
    struct sched_queue queue = {.name = STR("q"),
                                .priority = 100,
                                .preempt_min_runtime_ms = -1,
                                .reclaim_min_runtime_ms = -1};

    *scene = (struct scene){.state = {.now_ms = NOW}};
    sched_config_default(&scene->state.config);
    for (int r = 0; r < SCHED_RESOURCES; r++)
        queue.quota[r] = (struct sched_quota){SCHED_UNLIMITED, SCHED_UNLIMITED, 1};
    VEC_PUSH(&scene->arena, &scene->state.queues, queue);
    VEC_PUSH(&scene->arena, &scene->state.nodes,
             (struct sched_node){.name = STR("n"),
                                 .cpu_milli = 64000,
                                 .memory_bytes = INT64_C(1) << 40,
                                 .gpus = 8,
                                 .pods = 100});
}

struct scene_job {
    const char *name;
    int64_t gpus;
    int64_t ran_ms; /* below 0: it waits since then */
    int64_t max_run_ms;
    int64_t priority; /* 0: 50 */
};

static void scene_job(struct scene *scene, const struct scene_job *job)
{
    struct sched_pod *pod = ARENA_NEW(&scene->arena, struct sched_pod);
    int64_t age = job->ran_ms < 0 ? -job->ran_ms : job->ran_ms;

    *pod = (struct sched_pod){.ns = STR("ns"),
                              .name = str_from(job->name),
                              .uid = str_from(job->name),
                              .group = str_from(job->name),
                              .created_ms = NOW - age,
                              .cpu_milli = 1000,
                              .memory_bytes = INT64_C(1) << 30,
                              .gpus = job->gpus};
    if (job->ran_ms >= 0) {
        pod->phase = SCHED_RUNNING;
        pod->node = STR("n");
        pod->started_ms = NOW - age;
    }
    VEC_PUSH(&scene->arena, &scene->state.groups,
             (struct forecast_group){.spec = {.ns = STR("ns"),
                                              .name = str_from(job->name),
                                              .queue = STR("q"),
                                              .created_ms = NOW - age,
                                              .min_member = 1,
                                              .has_priority = true,
                                              .priority = job->priority ? job->priority : 50,
                                              .last_start_ms = pod->started_ms,
                                              .max_run_ms = job->max_run_ms},
                                     .pods = pod,
                                     .pod_count = 1,
                                     .started_ms = pod->started_ms,
                                     .like = {.queue = STR("q"), .gpus = job->gpus}});
}

static void scene_ask(struct scene *scene, const char *only)
{
    forecast_make(&scene->arena, &scene->state, &scene->runtimes,
                  &(struct forecast_options){.seed = 1, .only = str_from(only)}, &scene->forecast);
}

static void scene_close(struct scene *scene)
{
    runtimes_done(&scene->runtimes);
    arena_done(&scene->arena);
}

static bool is_near(int64_t after_ms, int64_t wanted_ms)
{
    int64_t off = after_ms > wanted_ms ? after_ms - wanted_ms : wanted_ms - after_ms;

    return after_ms != FORECAST_NEVER && off <= wanted_ms / 32 + 2000;
}

TEST(who_waits_starts_when_those_before_it_have_run_their_time)
{
    struct scene scene;

    scene_open(&scene);
    scene_job(&scene, &(struct scene_job){"a", 8, 20 * MINUTE, .max_run_ms = HOUR});
    scene_job(&scene, &(struct scene_job){"b", 8, -10 * MINUTE, .max_run_ms = 2 * HOUR});
    scene_job(&scene, &(struct scene_job){"c", 8, -5 * MINUTE, .max_run_ms = HOUR});
    scene_ask(&scene, "");
    EXPECT(scene.forecast.draws == FORECAST_DRAWS && scene.forecast.unknown == 0);
    EXPECT(scene.forecast.after_ms[0] == NULL);
    EXPECT(is_near(scene.forecast.after_ms[1][0], 40 * MINUTE));
    EXPECT(is_near(scene.forecast.after_ms[2][0], 160 * MINUTE));
    scene_close(&scene);
}

TEST(a_forecast_of_one_group_says_the_same_as_one_of_all)
{
    struct scene scene;
    int64_t first = 0;
    int64_t last = 0;

    scene_open(&scene);
    for (int64_t i = 1; i <= 40; i++)
        runtimes_add(&scene.runtimes, &(struct runtimes_like){.queue = STR("q"), .gpus = 8},
                     i * MINUTE);
    scene_job(&scene, &(struct scene_job){"a", 8, 5 * MINUTE, .max_run_ms = 0});
    scene_job(&scene, &(struct scene_job){"b", 8, -5 * MINUTE, .max_run_ms = 0});
    scene_job(&scene, &(struct scene_job){"c", 8, -4 * MINUTE, .max_run_ms = 0});
    scene_ask(&scene, "");
    first = scene.forecast.after_ms[2][1];
    last = scene.forecast.after_ms[2][FORECAST_DRAWS - 2];
    EXPECT(scene.forecast.similar == 40);
    EXPECT(first > 2 * MINUTE && first < last && last < 120 * MINUTE);
    scene_ask(&scene, "ns/c");
    EXPECT(scene.forecast.after_ms[1] == NULL);
    EXPECT(scene.forecast.after_ms[2][1] == first);
    EXPECT(scene.forecast.after_ms[2][FORECAST_DRAWS - 2] == last);
    scene_close(&scene);
}

TEST(what_waits_for_a_job_that_never_ends_never_starts)
{
    struct scene scene;

    scene_open(&scene);
    scene_job(&scene, &(struct scene_job){"a", 8, 5 * MINUTE, .max_run_ms = 0});
    scene_job(&scene, &(struct scene_job){"b", 8, -5 * MINUTE, .max_run_ms = HOUR});
    scene_job(&scene, &(struct scene_job){"large", 16, -5 * MINUTE, .max_run_ms = HOUR});
    scene_ask(&scene, "");
    EXPECT(scene.forecast.unknown == 1);
    EXPECT(scene.forecast.after_ms[1][0] == FORECAST_NEVER);
    EXPECT(scene.forecast.after_ms[2][0] == FORECAST_NEVER);
    scene_close(&scene);
}

TEST(who_may_preempt_starts_at_once_and_its_victim_later)
{
    struct scene scene;

    scene_open(&scene);
    scene_job(&scene, &(struct scene_job){"a", 8, 5 * MINUTE, .max_run_ms = HOUR});
    scene_job(&scene, &(struct scene_job){"b", 8, -1 * MINUTE, .max_run_ms = HOUR, .priority = 90});
    scene_job(&scene, &(struct scene_job){"c", 8, -1 * MINUTE, .max_run_ms = HOUR});
    scene_ask(&scene, "");
    EXPECT(scene.forecast.after_ms[1][0] <= 10000);
    EXPECT(is_near(scene.forecast.after_ms[2][0], 2 * HOUR));
    scene_close(&scene);
}

TEST(jobs_end_in_the_order_of_their_times_whatever_order_they_came_in)
{
    /* In minutes from now on, by the order in which they came. */
    static const int64_t ends[][8] = {
        {70, 30, 50, 10, 60, 20, 40, 80},
        {80, 70, 60, 50, 40, 30, 20, 10},
        {10, 80, 20, 70, 30, 60, 40, 50},
        {20, 10, 20, 10, 20, 10, 20, 10},
    };
    static const char *const running[] = {"r0", "r1", "r2", "r3", "r4", "r5", "r6", "r7"};
    static const char *const waiting[] = {"w0", "w1", "w2", "w3", "w4", "w5", "w6", "w7"};

    for (size_t row = 0; row < COUNT_OF(ends); row++) {
        struct scene scene;
        size_t index = 8;

        scene_open(&scene);
        /* Not their maxRunTime, at which the core would end them. */
        for (size_t i = 0; i < 8; i++) {
            scene_job(&scene, &(struct scene_job){running[i], 1, HOUR, .max_run_ms = 0});
            scene.state.groups.items[i].spec.expected_ms = HOUR + ends[row][i] * MINUTE;
        }
        for (int64_t i = 0; i < 8; i++)
            scene_job(&scene, &(struct scene_job){waiting[i], 1, (i - 9) * MINUTE,
                                                  .max_run_ms = 99 * HOUR});
        scene_ask(&scene, "");
        /* Whoever came first starts when the first has ended, and so on. */
        for (int64_t at = 10; at <= 80; at += 10)
            for (size_t end = 0; end < 8; end++)
                if (ends[row][end] == at)
                    EXPECT(is_near(scene.forecast.after_ms[index++][0], at * MINUTE));
        EXPECT(index == 16);
        scene_close(&scene);
    }
}

TEST(a_job_ends_by_the_least_of_what_bounds_it)
{
    static const struct {
        const char *why;
        int64_t deadline_ms; /* of its pod */
        int64_t max_run_ms;
        int64_t expected_ms;
        int64_t known_ms; /* of jobs alike */
        int64_t runs_ms;  /* 0: for ever */
    } rows[] = {
        {"nothing bounds it", 0, 0, 0, 0, 0},
        {"its pods' deadline", 30 * MINUTE, 0, 0, 0, 30 * MINUTE},
        {"its maxRunTime", 0, 40 * MINUTE, 0, 0, 40 * MINUTE},
        {"the deadline is before the maxRunTime", 30 * MINUTE, 40 * MINUTE, 0, 0, 30 * MINUTE},
        {"the maxRunTime is before the deadline", 50 * MINUTE, 40 * MINUTE, 0, 0, 40 * MINUTE},
        {"what it is expected to run", 0, 0, 20 * MINUTE, 0, 20 * MINUTE},
        {"it is expected to run longer than it may", 0, 40 * MINUTE, HOUR, 0, 40 * MINUTE},
        {"jobs alike ran that long", 0, 2 * HOUR, HOUR, 25 * MINUTE, 25 * MINUTE},
        {"jobs alike ran longer than it may", 0, 30 * MINUTE, 0, 9 * HOUR, 30 * MINUTE},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct scene scene;

        test_case(rows[i].why);
        scene_open(&scene);
        for (int run = 0; rows[i].known_ms && run < RUNTIMES_RUNS; run++)
            runtimes_add(&scene.runtimes, &(struct runtimes_like){.queue = STR("q"), .gpus = 8},
                         rows[i].known_ms);
        scene_job(&scene, &(struct scene_job){"a", 8, 0, .max_run_ms = rows[i].max_run_ms});
        scene_job(&scene, &(struct scene_job){"b", 8, -MINUTE, .max_run_ms = HOUR});
        scene.state.groups.items[0].pods[0].deadline_ms = rows[i].deadline_ms;
        scene.state.groups.items[0].spec.expected_ms = rows[i].expected_ms;
        scene_ask(&scene, "");
        int64_t after = scene.forecast.after_ms[1][0];
        EXPECT(rows[i].runs_ms ? is_near(after, rows[i].runs_ms) : after == FORECAST_NEVER);
        EXPECT(scene.forecast.unknown == (rows[i].runs_ms ? 0 : 1));
        scene_close(&scene);
    }
}

TEST(what_should_have_ended_ends_soon)
{
    struct scene scene;

    scene_open(&scene);
    scene_job(&scene, &(struct scene_job){"a", 8, 2 * HOUR, .max_run_ms = HOUR});
    scene_job(&scene, &(struct scene_job){"b", 8, -MINUTE, .max_run_ms = HOUR});
    scene_ask(&scene, "");
    EXPECT(scene.forecast.after_ms[1][0] <= 10000);
    scene_close(&scene);
}

/* It asks for a number of cycles and then for no more. */
static bool go_on_a_while(void *user)
{
    int *left = user;

    return --*left > 0;
}

TEST(a_forecast_that_is_cut_short_has_the_draws_that_were_done)
{
    struct scene scene;
    char names[100][8];
    int left = 1;

    scene_open(&scene);
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        (void)snprintf(names[i], sizeof(names[i]), "j%zu", i);
        scene_job(&scene, &(struct scene_job){names[i], 8, i ? -(int64_t)i * MINUTE : 0,
                                              .max_run_ms = HOUR});
    }
    struct forecast_options options = {
        .seed = 1, .draws = 4, .go_on = go_on_a_while, .user = &left};
    forecast_make(&scene.arena, &scene.state, &scene.runtimes, &options, &scene.forecast);
    EXPECT(scene.forecast.draws == 0);
    left = 10; /* a hundred jobs, one after the other, are some six questions */
    forecast_make(&scene.arena, &scene.state, &scene.runtimes, &options, &scene.forecast);
    EXPECT(scene.forecast.draws == 1);
    EXPECT(is_near(scene.forecast.after_ms[99][0], HOUR));
    left = 1000;
    forecast_make(&scene.arena, &scene.state, &scene.runtimes, &options, &scene.forecast);
    EXPECT(scene.forecast.draws == 4);
    scene_close(&scene);
}

TEST(a_forecast_knows_classes_policies_usage_and_pods_of_no_group)
{
    struct scene scene;
    struct sched_pod other = {.ns = STR("ns"),
                              .name = STR("other"),
                              .uid = STR("other"),
                              .node = STR("n"),
                              .phase = SCHED_RUNNING,
                              .created_ms = NOW - HOUR,
                              .started_ms = NOW - HOUR,
                              .gpus = 4};

    scene_open(&scene);
    scene_job(&scene, &(struct scene_job){"a", 4, 0, .max_run_ms = HOUR});
    scene_job(&scene, &(struct scene_job){"low", 4, -9 * MINUTE, .max_run_ms = HOUR});
    scene_job(&scene, &(struct scene_job){"high", 4, -MINUTE, .max_run_ms = HOUR});
    scene_job(&scene, &(struct scene_job){"whole", 8, -MINUTE, .max_run_ms = HOUR});
    for (size_t i = 1; i < 3; i++)
        scene.state.groups.items[i].spec.has_priority = false;
    scene.state.groups.items[0].spec.priority = 200; /* nobody takes its place */
    scene.state.groups.items[1].spec.priority_class = STR("low");
    scene.state.groups.items[2].spec.priority_class = STR("high");
    VEC_PUSH(&scene.arena, &scene.state.classes,
             (struct sched_priority_class){.name = STR("low"), .value = 60});
    VEC_PUSH(&scene.arena, &scene.state.classes,
             (struct sched_priority_class){.name = STR("high"), .value = 70});
    VEC_PUSH(&scene.arena, &scene.state.policies,
             (struct forecast_policy){.pool = STR(""), .policy = scene.state.config.policy});
    VEC_PUSH(&scene.arena, &scene.state.usages, (struct forecast_usage){.queue = STR("q")});
    VEC_PUSH(&scene.arena, &scene.state.topologies, (struct sched_topology){.name = STR("t")});
    VEC_PUSH(&scene.arena, &scene.state.others, other);
    scene_ask(&scene, "");
    EXPECT(is_near(scene.forecast.after_ms[2][0], HOUR));
    EXPECT(is_near(scene.forecast.after_ms[1][0], 2 * HOUR));
    EXPECT(scene.forecast.after_ms[3][0] == FORECAST_NEVER);
    scene_close(&scene);
}

TEST(a_group_that_loses_a_part_of_its_pods_runs_on)
{
    struct scene scene;

    scene_open(&scene);
    scene_job(&scene, &(struct scene_job){"e", 4, 20 * MINUTE, .max_run_ms = HOUR});
    struct forecast_group *group = &scene.state.groups.items[0];
    struct sched_pod *pods = ARENA_ARRAY(&scene.arena, struct sched_pod, 2);
    pods[0] = pods[1] = group->pods[0];
    pods[0].name = pods[0].uid = STR("e-0");
    pods[1].name = pods[1].uid = STR("e-1");
    group->pods = pods;
    group->pod_count = 2;
    scene_job(&scene,
              &(struct scene_job){"p", 4, -MINUTE, .max_run_ms = 20 * MINUTE, .priority = 90});
    scene_job(&scene, &(struct scene_job){"w", 8, -MINUTE, .max_run_ms = HOUR, .priority = 40});
    scene_ask(&scene, "");
    EXPECT(scene.forecast.after_ms[1][0] <= 10000);
    EXPECT(is_near(scene.forecast.after_ms[2][0], 40 * MINUTE));
    scene_close(&scene);
}

/* ---- bands ---- */
TEST(an_estimate_is_told_in_words)
{
    static const struct {
        const char *why;
        struct band band;
        const char *words;
        const char *brief;
    } rows[] = {
        {"both ends in one unit",
         {BAND_BETWEEN, NOW + 20 * MINUTE, NOW + 45 * MINUTE, 37, 0},
         "starts in about 20-45 min (80 %), from 37 similar jobs",
         "20-45 min"},
        {"ends of two units",
         {BAND_BETWEEN, NOW + 40 * MINUTE, NOW + 3 * HOUR, 1, 0},
         "starts in about 40 min to 3 h (80 %), from 1 similar job",
         "40 min to 3 h"},
        {"from now on, and from maxRunTime",
         {BAND_BETWEEN, NOW, NOW + 90 * HOUR, 0, 0},
         "starts in about 0-4 days (80 %), from maxRunTime alone",
         "0-4 days"},
        {"one moment",
         {BAND_BETWEEN, NOW + 2 * MINUTE, NOW + 2 * MINUTE, 5, 0},
         "starts in about 2 min (80 %), from 5 similar jobs",
         "2 min"},
        {"what was said has passed",
         {BAND_BETWEEN, NOW - 2 * MINUTE, NOW - MINUTE, 5, 0},
         "was expected to start by now; a new estimate follows",
         "0 min"},
        {"no upper end",
         {BAND_OPEN, NOW + 20 * MINUTE, 0, 5, 0},
         "starts in 20 min at the earliest; how long some jobs before it run is not known",
         ">20 min"},
        {"nothing known",
         {BAND_UNKNOWN, 0, 0, 0, 0},
         "no estimate: no job like those before it has ended yet; set maxRunTime",
         "-"},
        {"hours and days",
         {BAND_BETWEEN, NOW + 30 * HOUR, NOW + 90 * HOUR, 2, 0},
         "starts in about 30 h to 4 days (80 %), from 2 similar jobs",
         "30 h to 4 days"},
        {"soon, or in hours",
         {BAND_BETWEEN, NOW + 20 * MINUTE, NOW + 5 * HOUR, 2, 0},
         "starts in about 0-5 h (80 %), from 2 similar jobs",
         "0-5 h"},
        {"too much to look at",
         {BAND_LARGE, 0, 0, 0, 0},
         "no estimate: the cluster is too large to look ahead",
         "-"},
        {"never",
         {BAND_STUCK, 0, 0, 9, 0},
         "no estimate: it does not start even when everything that runs now has ended",
         "-"},
    };
    struct arena arena = {0};

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct json *json = band_json(&arena, &rows[i].band);

        test_case(rows[i].why);
        EXPECT(str_is(band_words(&arena, json, NOW), rows[i].words));
        EXPECT(str_is(band_short(&arena, json, NOW), rows[i].brief));
    }
    EXPECT(!band_words(&arena, NULL, NOW).len);
    arena_done(&arena);
}

TEST(a_band_says_what_its_draws_leave_open)
{
    static const int64_t never[] = {FORECAST_NEVER, FORECAST_NEVER};
    static const int64_t half[] = {MINUTE, 2 * MINUTE, FORECAST_NEVER, FORECAST_NEVER};
    static const int64_t good[] = {10 * MINUTE, 20 * MINUTE, 30 * MINUTE};
    static const struct {
        const char *why;
        struct band_draws draws;
        enum band_kind kind;
    } rows[] = {
        {"no draw was done in time", {NULL, 0, 0, false}, BAND_LARGE},
        {"it starts in none, though every run time is known", {never, 2, 9, false}, BAND_STUCK},
        {"it starts in none, as something never ends", {never, 2, 9, true}, BAND_UNKNOWN},
        {"in some of them", {half, 4, 9, true}, BAND_OPEN},
        {"in all", {good, 3, 9, false}, BAND_BETWEEN},
    };
    struct band_memory memory = {0};
    struct band band;

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        test_case(rows[i].why);
        band_make(&memory, &rows[i].draws, NOW, &band);
        EXPECT(band.kind == rows[i].kind);
    }
    EXPECT(band.earliest_ms == NOW + 5 * MINUTE && band.latest_ms == NOW + 60 * MINUTE);
}

/* Starts are two to six times as far as the draws say, which know nothing of it. */
TEST(bands_learn_from_starts_until_four_of_five_are_inside)
{
    static const int64_t draws[] = {50 * MINUTE, 55 * MINUTE, 58 * MINUTE, 59 * MINUTE};
    struct band_memory memory = {0};
    struct rng rng = {7};
    int inside = 0;

    for (int i = 0; i < 2000; i++) {
        struct band band;
        enum band_outcome outcome = BAND_LATE;
        int64_t start = NOW + rng_between(&rng, 2 * HOUR, 6 * HOUR);

        band_make(&memory, &(struct band_draws){draws, COUNT_OF(draws), 9, false}, NOW, &band);
        EXPECT(!band_judge(&band, 0, band.latest_ms, &outcome));
        EXPECT(band_judge(&band, start, start, &outcome));
        band_learn(&memory, band.reach, outcome);
        inside += i >= 500 && outcome == BAND_INSIDE;
    }
    EXPECT(inside > 1500 * 76 / 100 && inside < 1500 * 84 / 100);
}

TEST(a_band_is_judged_when_there_is_something_to_judge)
{
    static const struct {
        const char *why;
        struct band band;
        int64_t start_ms;
        int64_t now_ms;
        bool judged;
        enum band_outcome outcome;
    } rows[] = {
        {"no upper end", {BAND_OPEN, NOW, 0, 0, 0}, NOW + MINUTE, NOW + MINUTE, false, BAND_LATE},
        {"it waits, and may",
         {BAND_BETWEEN, NOW, NOW + HOUR, 0, 0},
         0,
         NOW + HOUR,
         false,
         BAND_LATE},
        {"it waits too long",
         {BAND_BETWEEN, NOW, NOW + HOUR, 0, 0},
         0,
         NOW + HOUR + 1,
         true,
         BAND_LATE},
        {"it started too soon",
         {BAND_BETWEEN, NOW + MINUTE, NOW + HOUR, 0, 0},
         NOW,
         NOW,
         true,
         BAND_EARLY},
        {"as it was said",
         {BAND_BETWEEN, NOW, NOW + HOUR, 0, 0},
         NOW + HOUR,
         NOW + HOUR,
         true,
         BAND_INSIDE},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        enum band_outcome outcome = rows[i].outcome;

        test_case(rows[i].why);
        EXPECT(band_judge(&rows[i].band, rows[i].start_ms, rows[i].now_ms, &outcome) ==
               rows[i].judged);
        EXPECT(outcome == rows[i].outcome);
    }
}

TEST(a_band_is_told_anew_when_people_would_notice)
{
    static const struct band said = {BAND_BETWEEN, NOW + HOUR, NOW + 8 * HOUR, 9, 0};
    static const struct {
        const char *why;
        struct band band;
        bool differs;
    } rows[] = {
        {"the same", {BAND_BETWEEN, NOW + HOUR, NOW + 8 * HOUR, 9, 0}, false},
        {"from other jobs", {BAND_BETWEEN, NOW + HOUR, NOW + 8 * HOUR, 10, 0}, false},
        {"a minute sooner", {BAND_BETWEEN, NOW + HOUR - MINUTE, NOW + 8 * HOUR, 9, 0}, false},
        {"sooner", {BAND_BETWEEN, NOW + HOUR - 10 * MINUTE, NOW + 8 * HOUR, 9, 0}, true},
        {"half an hour of eight",
         {BAND_BETWEEN, NOW + HOUR, NOW + 8 * HOUR - 30 * MINUTE, 9, 0},
         false},
        {"two hours of eight", {BAND_BETWEEN, NOW + HOUR, NOW + 6 * HOUR, 9, 0}, true},
        {"two hours more", {BAND_BETWEEN, NOW + HOUR, NOW + 10 * HOUR, 9, 0}, true},
        {"without an end", {BAND_OPEN, NOW + HOUR, 0, 9, 0}, true},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        test_case(rows[i].why);
        EXPECT(band_differs(&said, &rows[i].band, NOW) == rows[i].differs);
        EXPECT(band_differs(&rows[i].band, &said, NOW) == rows[i].differs);
    }
}

TEST(bands_are_corrected_only_so_far_and_apart_by_how_far_they_are)
{
    static const int64_t far[] = {30 * 24 * HOUR, 30 * 24 * HOUR};
    struct band_memory memory = {0};
    struct band band;

    for (int i = 0; i < 1000; i++)
        band_learn(&memory, 0, BAND_LATE);
    EXPECT(memory.reach[0].high <= 1000 && memory.reach[0].high > 999);
    EXPECT(!(memory.reach[1].high > 0));
    for (int i = 0; i < 2000; i++)
        band_learn(&memory, 0, BAND_EARLY);
    EXPECT(memory.reach[0].low >= 0.001 && memory.reach[0].low < 0.0011);
    band_make(&memory, &(struct band_draws){far, 2, 9, false}, NOW, &band);
    EXPECT(band.reach == BAND_REACHES - 1 && band.latest_ms == NOW + 60 * 24 * HOUR);
    memory.reach[BAND_REACHES - 1].high = 1000;
    memory.reach[BAND_REACHES - 1].low = 1000;
    band_make(&memory, &(struct band_draws){far, 2, 9, false}, NOW, &band);
    EXPECT(band.latest_ms == NOW + 1000 * 24 * HOUR); /* nobody plans further than three years */
    EXPECT(band.earliest_ms == band.latest_ms);
}

/* ---- a cluster as its objects say it ---- */

static void add_object(struct state *state,
                       struct arena *arena,
                       const struct kind *kind,
                       const char *text)
{
    char *copy = str_c(arena, str_from(text));
    struct object *object = NULL;

    for (char *p = copy; *p; p++)
        *p = *p == '\'' ? '"' : *p;
    EXPECT(object_new(kind, str_from(copy), &object, NULL) == 0);
    arena_defer(arena, object_release, object);
    state_add(state, object);
}

#define STATE_POD(name, group, node, more)                                                     \
    "{'metadata':{'name':'" name "','namespace':'n','uid':'" name "','annotations':{" group    \
    "}},'spec':{" node "'schedulerName':'s','containers':[{'name':'c','resources':{'limits':{" \
    "'nvidia.com/gpu':'2'}}}]}" more "}"
#define IN_GROUP "'pod-group-name':'g'"

TEST(a_forecast_begins_with_what_objects_say)
{
    struct arena arena = {0};
    struct sched_config config;
    struct state state;

    sched_config_default(&config);
    struct sched *core = sched_new(&config);
    sched_set_policy(core, STR("pool"), &config.policy);
    sched_put_queue(core, &(struct sched_queue){.name = STR("q")});
    sched_set_usage(core, STR("q"), (double[SCHED_RESOURCES]){1, 2, 3});
    state_open(&state, &arena, core, NOW);
    add_object(&state, &arena, &kind_pod, STATE_POD("early", IN_GROUP, "", ""));
    add_object(&state, &arena, &kind_podgroup,
               "{'metadata':{'name':'g','namespace':'n','uid':'g','ownerReferences':[{'uid':'u',"
               "'kind':'Job','name':'train-7'}]},'spec':{'minMember':1,'queue':'q'}}");
    add_object(&state, &arena, &kind_podgroup,
               "{'metadata':{'name':'own','namespace':'n','uid':'o'},'spec':{'queue':'q'}}");
    add_object(&state, &arena, &kind_pod,
               STATE_POD("runs", IN_GROUP, "'nodeName':'m',", ",'status':{'phase':'Running'}"));
    add_object(&state, &arena, &kind_pod, STATE_POD("stray", "'pod-group-name':'unknown'", "", ""));
    add_object(&state, &arena, &kind_pod, STATE_POD("alone", "", "", ""));
    add_object(&state, &arena, &kind_node, "{'metadata':{'name':'m','uid':'m'}}");
    add_object(&state, &arena, &kind_queue, "{'metadata':{'name':'q','uid':'q'}}");
    add_object(&state, &arena, &kind_topology,
               "{'metadata':{'name':'t','uid':'t'},'spec':{'levels':[]}}");
    add_object(&state, &arena, &kind_priorityclass,
               "{'metadata':{'name':'high','uid':'h'},'value':9,'globalDefault':true}");
    add_object(&state, &arena, &kind_configmap,
               "{'metadata':{'name':'c','namespace':'n','uid':'c'}}");
    state_close(&state);
    const struct forecast_state *all = &state.forecast;
    EXPECT(all->now_ms == NOW && all->policies.count == 1);
    EXPECT(all->usages.count == 1 && str_is(all->usages.items[0].queue, "q"));
    EXPECT(all->usages.items[0].usage[SCHED_GPU] > 2.5);
    EXPECT(all->nodes.count == 1 && all->queues.count == 1 && all->topologies.count == 1);
    EXPECT(all->classes.count == 1 && all->classes.items[0].value == 9 &&
           all->classes.items[0].global_default);
    EXPECT(all->others.count == 2); /* of no group, or of one that nobody knows */
    EXPECT(all->groups.count == 2);
    const struct forecast_group *group = &all->groups.items[0];
    EXPECT(group->pod_count == 2 && group->like.gpus == 4 && str_is(group->like.name, "n/train-7"));
    EXPECT(group->started_ms == NOW); /* one of its pods has a node, and does not say since when */
    EXPECT(str_is(all->groups.items[1].like.name, "n/own") && !all->groups.items[1].started_ms);
    sched_free(core);
    arena_done(&arena);
}

TEST(a_group_holds_its_nodes_since_the_first_of_its_pods_does)
{
    struct arena arena = {0};
    struct sched_config config;
    struct state state;

    sched_config_default(&config);
    struct sched *core = sched_new(&config);
    state_open(&state, &arena, core, NOW);
    add_object(&state, &arena, &kind_podgroup,
               "{'metadata':{'name':'g','namespace':'n','uid':'g'},'spec':{'queue':'q'}}");
    add_object(&state, &arena, &kind_pod,
               STATE_POD("late", IN_GROUP, "'nodeName':'m',",
                         ",'status':{'phase':'Running','startTime':'2027-01-15T07:00:00Z'}"));
    add_object(&state, &arena, &kind_pod,
               STATE_POD("first", IN_GROUP, "'nodeName':'m',",
                         ",'status':{'phase':'Running','startTime':'2027-01-15T06:00:00Z'}"));
    add_object(&state, &arena, &kind_pod, STATE_POD("bound", IN_GROUP, "'nodeName':'m',", ""));
    add_object(&state, &arena, &kind_pod, STATE_POD("waits", IN_GROUP, "", ""));
    add_object(&state, &arena, &kind_pod,
               "{'metadata':{'name':'part','namespace':'n','uid':'part','annotations':{" IN_GROUP
               ",'gpu-fraction':'0.5','gpu-fraction-num-devices':'3'}},'spec':{'schedulerName':'s',"
               "'containers':[{'name':'c'}]}}");
    state_close(&state);
    const struct forecast_group *group = &state.forecast.groups.items[0];
    EXPECT(group->pod_count == 5);
    EXPECT(group->started_ms == NOW - 2 * HOUR); /* NOW is 2027-01-15T08:00:00Z */
    EXPECT(group->like.gpus == 10);              /* four of two, and three halves */
    sched_free(core);
    arena_done(&arena);
}
