#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "cache/cache.h"
#include "estimate/band.h"
#include "exec/scheduler_estimate.h"
#include "sched/sched.h"
#include "test.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

/* Groups that wait for a cluster of one GPU, and whoever writes what they are told. */
struct stage {
    struct arena arena;
    uv_loop_t loop;
    struct cache *cache;
    struct sched *core;
    struct estimator *estimator;
    bool refuses;
    size_t told;
    struct band band; /* the last one */
    int64_t now_ms;
};

static bool stage_tell(void *user, struct str ns, struct str group, const struct band *band)
{
    struct stage *stage = user;

    EXPECT(str_is(ns, "d"));
    if (!str_starts(group, STR("waits")))
        return false;
    stage->told++;
    stage->band = *band;
    return !stage->refuses;
}

static bool stage_known(void *user, const struct object *pod)
{
    (void)user;
    (void)pod;
    return true;
}

static void stage_again(void *user)
{
    (void)user;
}

static void put(struct stage *stage, const struct kind *kind, struct str text)
{
    struct object *object = NULL;

    EXPECT(object_new(kind, text, &object, NULL) == 0);
    if (object)
        cache_put(stage->cache, object);
    object_unref(object);
}

/* A group of one pod that wants the GPU. */
static void put_group(struct stage *stage, const char *name, const char *spec, const char *status)
{
    put(stage, &kind_podgroup,
        str_printf(&stage->arena,
                   "{\"metadata\":{\"name\":\"%s\",\"namespace\":\"d\",\"uid\":\"g-%s\"},\"spec\":{"
                   "\"minMember\":1,\"queue\":\"q\"}}",
                   name, name));
    put(stage, &kind_pod,
        str_printf(&stage->arena,
                   "{\"metadata\":{\"name\":\"%s-0\",\"namespace\":\"d\",\"uid\":\"p-%s\","
                   "\"annotations\":{\"pod-group-name\":\"%s\"}},\"spec\":{%s\"containers\":[{"
                   "\"name\":\"c\",\"resources\":{\"limits\":{\"nvidia.com/gpu\":1}}}]},\"status\":"
                   "{%s}}",
                   name, name, name, spec, status));
}

static void stage_open(struct stage *stage)
{
    struct sched_config config;

    *stage = (struct stage){.cache = cache_new(1), .now_ms = 1000000};
    sched_config_default(&config);
    config.scheduler_name = STR_NONE;
    stage->core = sched_new(&config);
    EXPECT(uv_loop_init(&stage->loop) == 0);
    stage->estimator = estimator_new(&(struct estimator_options){.loop = &stage->loop,
                                                                 .cache = stage->cache,
                                                                 .core = stage->core,
                                                                 .seed = 1,
                                                                 .is_known = stage_known,
                                                                 .tell = stage_tell,
                                                                 .again = stage_again,
                                                                 .user = stage});
    put(stage, &kind_queue, STR("{\"metadata\":{\"name\":\"q\",\"uid\":\"q\"},\"spec\":{}}"));
    put(stage, &kind_node,
        STR("{\"metadata\":{\"name\":\"n\",\"uid\":\"n\"},\"status\":{\"allocatable\":{\"cpu\":"
            "\"8\",\"memory\":\"64Gi\",\"pods\":\"110\",\"nvidia.com/gpu\":\"1\"},\"conditions\":[{"
            "\"type\":\"Ready\",\"status\":\"True\"}]}}"));
    put_group(stage, "runs", "\"nodeName\":\"n\",",
              "\"phase\":\"Running\",\"startTime\":\"1970-01-01T00:16:00Z\"");
}

static void stage_close(struct stage *stage)
{
    estimator_free(stage->estimator);
    EXPECT(uv_loop_close(&stage->loop) == 0);
    sched_free(stage->core);
    cache_free(stage->cache);
    arena_done(&stage->arena);
}

/* Looks ahead once, and again where the machine was so slow that the time for it was over. */
static void look(struct stage *stage, size_t waiting)
{
    for (int i = 0; i < 20 && (!i || stage->band.kind == BAND_LARGE); i++) {
        stage->told = 0;
        EXPECT(estimator_turn(stage->estimator, waiting, stage->now_ms) == INT64_MAX);
        EXPECT(uv_run(&stage->loop, UV_RUN_DEFAULT) == 0);
        stage->now_ms += ESTIMATOR_EVERY_MS;
    }
}

TEST(a_group_that_waits_is_told_when_it_starts_from_runs_that_ended_before_we_came)
{
    struct stage stage;

    stage_open(&stage);
    put_group(&stage, "ended", "\"nodeName\":\"n\",",
              "\"phase\":\"Succeeded\",\"startTime\":\"1970-01-01T00:01:00Z\",\"containerStatuses\""
              ":[{\"name\":\"c\",\"state\":{\"terminated\":{\"exitCode\":0,\"finishedAt\":"
              "\"1970-01-01T00:11:00Z\"}}}]");
    put_group(&stage, "waits", "", "\"phase\":\"Pending\"");
    look(&stage, 1);
    EXPECT(stage.told == 1);
    EXPECT(stage.band.kind == BAND_BETWEEN && stage.band.similar == 1);
    stage_close(&stage);
}

/* The limit is of writes: those that were not told that they wait cost none. */
TEST(groups_that_cannot_be_told_yet_take_no_turn_of_those_behind_them)
{
    struct stage stage;

    stage_open(&stage);
    stage.refuses = true;
    for (int i = 0; i <= ESTIMATOR_WRITES; i++)
        put_group(&stage, str_printf(&stage.arena, "waits-%d", i).p, "", "\"phase\":\"Pending\"");
    EXPECT(estimator_turn(stage.estimator, ESTIMATOR_WRITES + 1, stage.now_ms) == INT64_MAX);
    EXPECT(uv_run(&stage.loop, UV_RUN_DEFAULT) == 0);
    EXPECT(stage.told == ESTIMATOR_WRITES + 1);
    stage_close(&stage);
}

/* Thousands of pods whose group nobody makes took a worker a second each minute, to tell nobody. */
TEST(pods_of_a_group_that_does_not_exist_ask_for_no_estimate)
{
    static const struct sched_waiting waiting[] = {
        {.group = STR("a"), .reason = SCHED_REASON_NO_GROUP},
        {.group = STR("b"), .reason = SCHED_REASON_NO_ROOM},
        {.group = STR("c"), .reason = SCHED_REASON_NO_GROUP}};

    EXPECT(estimator_waiting(&(struct sched_plan){.waiting = waiting, .waiting_count = 3}) == 1);
    EXPECT(estimator_waiting(&(struct sched_plan){.waiting = waiting, .waiting_count = 1}) == 0);
}
