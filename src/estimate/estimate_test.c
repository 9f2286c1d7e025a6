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
