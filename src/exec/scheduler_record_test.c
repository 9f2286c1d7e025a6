#include "api/api.h"
#include "api/kind.h"
#include "base/arena.h"
#include "base/str.h"
#include "exec/scheduler.h"
#include "sched/sched.h"
#include "store/harness.h"
#include "test.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* A scheduler that is recorded, on a store in memory whose binds may be held up. */
struct stage {
    struct api api;
    struct harness h;
    struct scheduler *scheduler;
    bool hold;         /* the next bind is not answered */
    api_done_fn *done; /* of it */
    void *user;
    int64_t now_ms;
};

static void stage_call(struct api *api,
                       const struct api_request *request,
                       api_done_fn *done,
                       void *user)
{
    api_call(((struct stage *)api)->h.api, request, done, user);
}

static void stage_bind(struct api *api,
                       const struct api_binding *bindings,
                       size_t count,
                       api_done_fn *done,
                       void *user)
{
    struct stage *stage = (struct stage *)api;

    if (!stage->hold) {
        api_bind(stage->h.api, bindings, count, done, user);
        return;
    }
    stage->hold = false;
    stage->done = done;
    stage->user = user;
}

static struct api_watch *stage_watch(struct api *api,
                                     const struct api_watch_request *request,
                                     api_watch_fn *fn,
                                     void *user)
{
    return api_watch(((struct stage *)api)->h.api, request, fn, user);
}

static void stage_watch_stop(struct api *api, struct api_watch *watch)
{
    api_watch_stop(((struct stage *)api)->h.api, watch);
}

static int64_t stage_now(void *user)
{
    return ((struct stage *)user)->now_ms;
}

static void stage_later(struct stage *stage)
{
    stage->now_ms += 1000;
    for (int i = 0; i < 6; i++) {
        harness_settle(&stage->h);
        (void)scheduler_turn(stage->scheduler);
    }
    harness_settle(&stage->h);
}

/* A group of one pod, which takes the only GPU. */
static void stage_add(struct stage *stage, const char *name, const char *resources)
{
    char body[512];

    (void)snprintf(body, sizeof(body),
                   "{\"metadata\":{\"name\":\"%s\"},\"spec\":{\"minMember\":1,\"queue\":\"q\"}}",
                   name);
    EXPECT(harness_create(&stage->h, &kind_podgroup, "default", body) == 0);
    (void)snprintf(
        body, sizeof(body),
        "{\"metadata\":{\"name\":\"%s\",\"annotations\":{\"pod-group-name\":\"%s\"}},"
        "\"spec\":{\"containers\":[{\"name\":\"c\",\"image\":\"x\",\"resources\":{%s}}]}}",
        name, name, resources);
    EXPECT(harness_create(&stage->h, &kind_pod, "default", body) == 0);
    stage_later(stage);
}

static bool stage_bound(struct stage *stage, const char *pod)
{
    EXPECT(harness_get(&stage->h, &kind_pod, "default", pod) == 0);
    return strcmp(harness_text(&stage->h, "spec.nodeName"), "n") == 0;
}

static void stage_open(struct stage *stage, const struct scheduler_recorder *recorder)
{
    static const struct api_ops ops = {.call = stage_call,
                                       .bind = stage_bind,
                                       .watch = stage_watch,
                                       .watch_stop = stage_watch_stop};
    struct sched_config config;

    *stage = (struct stage){.now_ms = 1000000};
    harness_open(&stage->h, NULL);
    stage->api = (struct api){.ops = &ops, .kinds = stage->h.api->kinds};
    EXPECT(harness_create(&stage->h, &kind_queue, "",
                          "{\"metadata\":{\"name\":\"q\"},\"spec\":{}}") == 0);
    EXPECT(harness_create(&stage->h, &kind_node, "",
                          "{\"metadata\":{\"name\":\"n\"},\"status\":{\"allocatable\":{\"cpu\":"
                          "\"8\",\"memory\":\"64Gi\",\"pods\":\"110\",\"nvidia.com/gpu\":\"1\"},"
                          "\"conditions\":[{\"type\":\"Ready\",\"status\":\"True\"}]}}") == 0);
    sched_config_default(&config);
    config.devices = SCHED_DEVICES_WHOLE; /* nobody writes numbers on pods here */
    EXPECT(scheduler_start(NULL, &stage->api,
                           &(struct scheduler_options){.config = &config,
                                                       .now = stage_now,
                                                       .now_user = stage,
                                                       .seed = 1,
                                                       .recorder = recorder},
                           &stage->scheduler, NULL) == 0);
    stage_later(stage);
}

/* Repeats what it hears from its beginning on, in a core of its own. */
struct mirror {
    struct sched *core;
    struct arena arena;
    int begun;
    int cycles;  /* since then */
    int strange; /* of these, other plans */
    bool full;
};

static void mirror_begin(void *user, const struct sched *core)
{
    struct mirror *mirror = user;

    sched_free(mirror->core);
    mirror->core = sched_new(sched_config(core));
    mirror->begun++;
    mirror->cycles = 0;
    mirror->full = false;
}

static bool mirror_is_full(void *user)
{
    return ((struct mirror *)user)->full;
}

static void mirror_cycle(struct mirror *mirror, const struct sched_input *input)
{
    const struct sched_plan *theirs = input->plan;
    struct sched_plan plan;

    arena_reset(&mirror->arena);
    sched_cycle(mirror->core, input->now_ms, &mirror->arena, &plan);
    bool same = plan.bind_count == theirs->bind_count && plan.evict_count == theirs->evict_count &&
                plan.waiting_count == theirs->waiting_count &&
                plan.next_wake_ms == theirs->next_wake_ms;
    for (size_t i = 0; same && i < plan.bind_count; i++)
        same = str_eq(plan.binds[i].pod.name, theirs->binds[i].pod.name);
    for (size_t i = 0; same && i < plan.waiting_count; i++)
        same = str_eq(plan.waiting[i].message, theirs->waiting[i].message);
    mirror->cycles++;
    mirror->strange += !same;
}

static void mirror_saw(void *user, const struct sched_input *input)
{
    struct mirror *mirror = user;

    switch (input->kind) {
    case SCHED_INPUT_OBJECT:
        (void)sched_observe(mirror->core, input->change, input->object, NULL);
        break;
    case SCHED_INPUT_WRITTEN:
        sched_written(mirror->core, input->ns, input->name, input->failed, input->now_ms);
        break;
    case SCHED_INPUT_BIND_FAILED:
        sched_bind_failed(mirror->core,
                          &(struct sched_pod_ref){input->ns, input->name, input->uid});
        break;
    case SCHED_INPUT_POLICY: sched_set_policy(mirror->core, input->name, input->policy); break;
    case SCHED_INPUT_CYCLE: mirror_cycle(mirror, input); break;
    case SCHED_INPUT_POD:
    case SCHED_INPUT_POD_GONE:
    case SCHED_INPUT_EVICT_FAILED:
    case SCHED_INPUT_EVICT_REFUSED:
    case SCHED_INPUT_BIND_UNDONE:
    case SCHED_INPUT_SHARE:
    case SCHED_INPUT_NAMES:
    case SCHED_INPUT_USAGE:
    case SCHED_INPUT_FORGET: EXPECT(!"an input that this test has no use for"); break;
    }
}

#define WHOLE "\"limits\":{\"nvidia.com/gpu\":1}"

TEST(a_recorder_that_is_full_begins_anew_once_nothing_is_under_way_and_hears_of_all_there_is)
{
    struct mirror mirror = {0};
    struct scheduler_recorder recorder = {
        .begin = mirror_begin, .saw = mirror_saw, .is_full = mirror_is_full, .user = &mirror};
    struct stage stage;

    stage_open(&stage, &recorder);
    stage_add(&stage, "runs", WHOLE);
    stage_add(&stage, "waits", WHOLE);
    EXPECT(mirror.begun == 1 && stage_bound(&stage, "runs") && !stage_bound(&stage, "waits"));

    test_case("a bind that has not been answered is under way");
    stage.hold = true;
    stage_add(&stage, "slow", "");
    mirror.full = true;
    stage_later(&stage);
    EXPECT(mirror.begun == 1);
    stage.done(stage.user, &(struct api_result){.code = -EIO});
    stage_later(&stage);
    EXPECT(mirror.begun == 2);
    stage_later(&stage);
    EXPECT(stage_bound(&stage, "slow"));

    test_case("nothing was forgotten, and what follows can be repeated");
    EXPECT(!stage_bound(&stage, "waits"));
    EXPECT(harness_delete(&stage.h, &kind_pod, "default", "runs", "{\"gracePeriodSeconds\":0}") ==
           0);
    stage_later(&stage);
    EXPECT(stage_bound(&stage, "waits"));
    EXPECT(mirror.begun == 2 && mirror.cycles > 1 && mirror.strange == 0);
    scheduler_stop(stage.scheduler);
    harness_close(&stage.h);
    sched_free(mirror.core);
    arena_done(&mirror.arena);
}
