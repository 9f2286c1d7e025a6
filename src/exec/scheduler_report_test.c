#include "api/api.h"
#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/str.h"
#include "cache/cache.h"
#include "exec/event.h"
#include "exec/scheduler_report.h"
#include "sched/sched.h"
#include "test.h"

#include <stddef.h>
#include <stdint.h>

#define PODS (2 * REPORTER_UNDER_WAY_MAX + 100)

/* The reporter on an API that answers when the test says so. */
struct stage {
    struct api api;
    struct cache *cache;
    struct reporter *reporter;
    struct arena arena;
    struct sched_waiting waiting[PODS];
    api_done_fn *done[PODS];
    void *users[PODS];
    size_t asked; /* requests so far */
    size_t under_way;
    size_t most; /* at once */
    size_t again;
    size_t events; /* of pods that wait */
};

static void stage_call(struct api *api,
                       const struct api_request *request,
                       api_done_fn *done,
                       void *user)
{
    struct stage *stage = (struct stage *)api;

    if (request->kind == &kind_event) {
        stage->events += str_contains(request->body, STR("\"reason\":\"FailedScheduling\""));
        done(user, &(struct api_result){0});
        return;
    }
    EXPECT(request->verb == API_PATCH && request->kind == &kind_pod);
    EXPECT(stage->asked < PODS);
    if (stage->asked >= PODS)
        return;
    stage->done[stage->asked] = done;
    stage->users[stage->asked++] = user;
    stage->under_way++;
    stage->most = stage->under_way > stage->most ? stage->under_way : stage->most;
}

static void stage_again(void *user)
{
    ((struct stage *)user)->again++;
}

/* Pods of groups that do not exist, so each is told with one write. */
static void stage_open(struct stage *stage)
{
    static const struct api_ops ops = {.call = stage_call};

    stage->api.ops = &ops;
    stage->cache = cache_new(1);
    stage->reporter = reporter_new(&(struct reporter_options){.api = &stage->api,
                                                              .cache = stage->cache,
                                                              .component = "c",
                                                              .seed = 1,
                                                              .again = stage_again,
                                                              .user = stage});
    for (size_t i = 0; i < PODS; i++) {
        struct object *pod = NULL;

        EXPECT(object_new(&kind_pod,
                          str_printf(&stage->arena,
                                     "{\"metadata\":{\"name\":\"p-%zu\",\"namespace\":\"ns\","
                                     "\"resourceVersion\":\"%zu\",\"annotations\":{"
                                     "\"pod-group-name\":\"g-%zu\"}}}",
                                     i, i + 1, i),
                          &pod, NULL) == 0);
        cache_put(stage->cache, pod);
        reporter_observe(stage->reporter, SCHED_PUT, pod);
        object_unref(pod);
        stage->waiting[i] = (struct sched_waiting){.ns = STR("ns"),
                                                   .group = str_printf(&stage->arena, "g-%zu", i),
                                                   .reason = SCHED_REASON_NO_NODE,
                                                   .message = STR("no node is large enough")};
    }
}

static void stage_close(struct stage *stage)
{
    reporter_free(stage->reporter);
    cache_free(stage->cache);
    arena_done(&stage->arena);
}

TEST(thousands_that_begin_to_wait_at_once_are_told_a_part_at_a_time)
{
    static struct stage stage;
    size_t answered = 0;
    int64_t now_ms = 1000;

    stage = (struct stage){0};
    stage_open(&stage);
    for (int round = 0; round < 10 && answered < PODS; round++) {
        reporter_apply(stage.reporter,
                       &(struct sched_plan){.waiting = stage.waiting, .waiting_count = PODS},
                       now_ms);
        EXPECT(stage.under_way <= REPORTER_UNDER_WAY_MAX);
        stage.again = 0;
        while (answered < stage.asked) {
            stage.under_way--;
            stage.done[answered](stage.users[answered], &(struct api_result){0});
            answered++;
        }
        /* It asks for another plan while something is left, and no longer. */
        EXPECT(stage.again == (answered < PODS));
        EXPECT((reporter_due_ms(stage.reporter) <= now_ms) == (answered < PODS));
        now_ms++;
    }
    EXPECT(stage.asked == PODS && answered == PODS);
    EXPECT(stage.most == REPORTER_UNDER_WAY_MAX);
    /* Some of them hear it as an event, too; in a crowd that would double the writes. */
    EXPECT(stage.events == EVENT_BURST);
    stage_close(&stage);
}
