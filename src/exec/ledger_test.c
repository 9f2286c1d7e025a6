#include "api/api.h"
#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "cache/cache.h"
#include "exec/ledger.h"
#include "exec/queue_writer.h"
#include "exec/scheduler_metrics.h"
#include "exec/shard.h"
#include "exec/usage_prometheus.h"
#include "sched/sched.h"
#include "test.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <uv.h>

#define NOW_MS INT64_C(1000000000000)

/* The books of a queue that has one of four GPUs, on an API that keeps what was written last. */
struct stage {
    struct api api;
    struct cache *cache;
    struct sched *core;
    struct queue_writer *writer;
    struct ledger *ledger;
    char written[1024];
};

static void stage_call(struct api *api,
                       const struct api_request *request,
                       api_done_fn *done,
                       void *user)
{
    struct stage *stage = (struct stage *)api;

    (void)snprintf(stage->written, sizeof(stage->written), STR_FMT, STR_ARG(request->body));
    done(user, &(struct api_result){0});
}

static void stage_again(void *user, bool failed)
{
    (void)user;
    (void)failed;
}

static void put(struct stage *stage, const struct kind *kind, const char *text)
{
    struct object *object = NULL;

    EXPECT(object_new(kind, str_from(text), &object, NULL) == 0);
    if (object) {
        cache_put(stage->cache, object);
        EXPECT(sched_observe(stage->core, SCHED_PUT, object, NULL) == 0);
    }
    object_unref(object);
}

static void stage_open(struct stage *stage)
{
    static const struct api_ops ops = {.call = stage_call};
    struct sched_config config;

    sched_config_default(&config);
    config.scheduler_name = STR_NONE;
    *stage =
        (struct stage){.api = {.ops = &ops}, .cache = cache_new(1), .core = sched_new(&config)};
    stage->writer = queue_writer_new(
        &(struct queue_writer_options){.api = &stage->api, .again = stage_again, .seed = 1});
    stage->ledger = ledger_new(&(struct ledger_options){
        .writer = stage->writer, .cache = stage->cache, .core = stage->core, .pool = STR("")});
    put(stage, &kind_queue, "{\"metadata\":{\"name\":\"q\",\"uid\":\"q\"},\"spec\":{}}");
    put(stage, &kind_node,
        "{\"metadata\":{\"name\":\"n\",\"uid\":\"n\"},\"status\":{\"allocatable\":{\"cpu\":\"8\","
        "\"memory\":\"64Gi\",\"pods\":\"110\",\"nvidia.com/gpu\":\"4\"},\"conditions\":[{\"type\":"
        "\"Ready\",\"status\":\"True\"}]}}");
    put(stage, &kind_podgroup,
        "{\"metadata\":{\"name\":\"g\",\"namespace\":\"d\",\"uid\":\"g\"},\"spec\":{\"minMember\":"
        "1,\"queue\":\"q\"}}");
    put(stage, &kind_pod,
        "{\"metadata\":{\"name\":\"p\",\"namespace\":\"d\",\"uid\":\"p\",\"annotations\":{"
        "\"pod-group-name\":\"g\"}},\"spec\":{\"nodeName\":\"n\",\"containers\":[{\"name\":\"c\","
        "\"resources\":{\"requests\":{\"cpu\":\"4\"},\"limits\":{\"nvidia.com/gpu\":1}}}]},"
        "\"status\":{\"phase\":\"Running\"}}");
}

static void stage_close(struct stage *stage)
{
    ledger_free(stage->ledger);
    queue_writer_free(stage->writer);
    sched_free(stage->core);
    cache_free(stage->cache);
}

TEST(books_say_what_part_of_the_cluster_a_queue_has_had)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct shard_usage usage = {.on = true, .window_ms = SHARD_USAGE_WINDOW_MS, .every_ms = 60000};
    struct sched_plan plan;
    struct stage stage;

    stage_open(&stage);
    sched_cycle(stage.core, NOW_MS, &arena, &plan);
    ledger_use(stage.ledger, &usage, NOW_MS);
    EXPECT(ledger_turn(stage.ledger, NOW_MS + 59999) == NOW_MS + 60000);
    EXPECT(!stage.written[0]);
    EXPECT(ledger_turn(stage.ledger, NOW_MS + 60000) == NOW_MS + 120000);
    EXPECT(strstr(stage.written, "\"gpu\":0.2500"));
    EXPECT(strstr(stage.written, "\"cpu\":0.5000"));
    stage_close(&stage);
}

/* The shard that named it is read anew with each change, and its text with it. */
TEST(books_have_the_address_of_prometheus_to_themselves)
{
    char text[] = "http://127.0.0.1:1";
    struct shard_usage usage = {.on = true,
                                .prometheus = str_from(text),
                                .window_ms = SHARD_USAGE_WINDOW_MS,
                                .every_ms = 60000};
    struct stage stage;

    stage_open(&stage);
    ledger_use(stage.ledger, &usage, NOW_MS);
    memset(text, 'x', sizeof(text) - 1);
    EXPECT(ledger_is_kept(stage.ledger));
    usage.prometheus = STR_NONE;
    ledger_use(stage.ledger, &usage, NOW_MS);
    EXPECT(ledger_is_kept(stage.ledger));
    stage_close(&stage);
}

/* Nobody listens there: what counts is that it was asked, and once. */
TEST(prometheus_is_asked_one_question_at_a_time)
{
    struct scheduler_stats stats = {0};
    double shares[SCHED_RESOURCES];
    uv_loop_t loop;

    EXPECT(uv_loop_init(&loop) == 0);
    struct prometheus *prometheus = prometheus_new(&(struct prometheus_options){
        .loop = &loop, .url = STR("http://127.0.0.1:1/"), .stats = &stats});
    for (uint64_t i = 1; i <= 2; i++) {
        prometheus_ask(prometheus, 0, SHARD_USAGE_WINDOW_MS, NOW_MS);
        prometheus_ask(prometheus, 0, SHARD_USAGE_WINDOW_MS, NOW_MS);
        EXPECT(uv_run(&loop, UV_RUN_DEFAULT) == 0);
        EXPECT(stats.usage_failures == i);
    }
    EXPECT(!prometheus_usage(prometheus, STR("q"), shares));
    prometheus_free(prometheus);
    EXPECT(uv_loop_close(&loop) == 0);
}
