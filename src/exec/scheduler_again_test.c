#include "api/api.h"
#include "api/kind.h"
#include "api/object.h"
#include "base/count.h"
#include "base/err.h"
#include "base/str.h"
#include "cache/cache.h"
#include "exec/scheduler_report.h"
#include "sched/sched.h"
#include "test.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define CALLS_MAX 64
#define PODS      3
#define ALL       (PODS + 1) /* writes that tell a gang: its pods and its group */

/* The reporter on an API that answers when the test says so. */
struct desk {
    struct api api;
    struct cache *cache;
    struct sched *core;
    struct reporter *reporter;
    api_done_fn *done[CALLS_MAX];
    void *user[CALLS_MAX];
    size_t sent;
    size_t answered;
};

static void desk_call(struct api *api,
                      const struct api_request *request,
                      api_done_fn *done,
                      void *user)
{
    struct desk *desk = (struct desk *)api;

    if (request->kind == &kind_event) {
        done(user, &(struct api_result){0});
        return;
    }
    EXPECT(desk->sent < CALLS_MAX);
    desk->done[desk->sent] = done;
    desk->user[desk->sent++] = user;
}

static void again(void *user)
{
    (void)user; /* the test hands in the next plan */
}

static void desk_put(struct desk *desk, const struct kind *kind, const char *text)
{
    struct object *object = NULL;

    EXPECT(object_new(kind, str_from(text), &object, NULL) == 0);
    cache_put(desk->cache, object);
    reporter_observe(desk->reporter, SCHED_PUT, object);
    object_unref(object);
}

static void desk_open(struct desk *desk)
{
    static const struct api_ops ops = {.call = desk_call};
    struct sched_config config;

    *desk = (struct desk){.api = {.ops = &ops}};
    sched_config_default(&config);
    desk->core = sched_new(&config);
    desk->cache = cache_new(1);
    desk->reporter = reporter_new(&(struct reporter_options){.api = &desk->api,
                                                             .cache = desk->cache,
                                                             .core = desk->core,
                                                             .component = "t",
                                                             .again = again});
    desk_put(desk, &kind_podgroup,
             "{\"metadata\":{\"name\":\"g\",\"namespace\":\"default\",\"uid\":\"g\"},\"spec\":{}}");
    for (int i = 0; i < PODS; i++) {
        char text[256];

        (void)snprintf(text, sizeof(text),
                       "{\"metadata\":{\"name\":\"p%d\",\"namespace\":\"default\",\"uid\":\"%d\","
                       "\"annotations\":{\"pod-group-name\":\"g\"}},\"spec\":{}}",
                       i, i);
        desk_put(desk, &kind_pod, text);
    }
}

static void desk_close(struct desk *desk)
{
    reporter_free(desk->reporter);
    cache_free(desk->cache);
    sched_free(desk->core);
}

/* The gang waits, in the plan of this moment. */
static void plan(struct desk *desk, int64_t now_ms)
{
    const struct sched_waiting waiting = {.ns = STR("default"),
                                          .group = STR("g"),
                                          .reason = SCHED_REASON_OVER_LIMIT,
                                          .message = STR("no room")};

    reporter_apply(desk->reporter, &(struct sched_plan){.waiting = &waiting, .waiting_count = 1},
                   now_ms);
}

static void answer(struct desk *desk, bool fine)
{
    struct err err = {.http_status = 409};
    size_t at = desk->answered++;

    EXPECT(at < desk->sent);
    desk->done[at](desk->user[at], &(struct api_result){.code = fine ? 0 : -EEXIST, .err = &err});
}

/* Or each of its writes that fails has all of them written again, and these fail, too. */
TEST(reporter_tells_a_gang_again_once_all_it_was_told_is_answered)
{
    const int64_t now_ms = 1000000;
    struct desk desk;

    desk_open(&desk);
    plan(&desk, now_ms);
    EXPECT(desk.sent == ALL);
    for (size_t i = 0; i < ALL; i++) {
        answer(&desk, i == 0 || i == ALL - 1);
        plan(&desk, now_ms + 10 + (int64_t)i); /* others come and go meanwhile */
        EXPECT(desk.sent == ALL);
    }
    EXPECT(reporter_due_ms(desk.reporter) == now_ms + REPORTER_AGAIN_MS);
    plan(&desk, now_ms + REPORTER_AGAIN_MS);
    EXPECT(desk.sent == 2 * ALL);
    while (desk.answered < desk.sent)
        answer(&desk, true);
    plan(&desk, now_ms + 2 * REPORTER_AGAIN_MS);
    EXPECT(desk.sent == 2 * ALL);
    desk_close(&desk);
}

TEST(reporter_with_slow_answers_tells_no_gang_twice_at_once)
{
    const int64_t now_ms = 1000000;
    struct desk desk;

    desk_open(&desk);
    plan(&desk, now_ms);
    answer(&desk, false);
    for (int64_t i = 1; i < 10; i++) {
        plan(&desk, now_ms + i * REPORTER_AGAIN_MS);
        EXPECT(desk.sent == ALL);
    }
    while (desk.answered < ALL)
        answer(&desk, true);
    plan(&desk, now_ms + 10 * REPORTER_AGAIN_MS);
    EXPECT(desk.sent == 2 * ALL);
    while (desk.answered < desk.sent)
        answer(&desk, true);
    desk_close(&desk);
}
