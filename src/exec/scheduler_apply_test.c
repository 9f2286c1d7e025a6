#include "api/api.h"
#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "cache/cache.h"
#include "exec/scheduler_apply.h"
#include "sched/sched.h"
#include "test.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* The applier on an API that answers an eviction when the test says so, and counts binds. */
struct stage {
    struct api api;
    struct cache *cache;
    struct applier *applier;
    bool may_bind;
    api_done_fn *evicted;
    void *evicted_user;
    int asked;     /* may_bind was */
    int binds;     /* sent */
    int outcome;   /* of the bind that came back last */
    int outcomes;  /* how many did */
    int evict_bad; /* evictions that came back and did not happen */
    int refused;   /* of these by a budget */
    int ready;
    int deletes;    /* of pods */
    int events;     /* written */
    char first[32]; /* reason of the first one */
};

static void stage_call(struct api *api,
                       const struct api_request *request,
                       api_done_fn *done,
                       void *user)
{
    struct stage *stage = (struct stage *)api;

    if (request->verb == API_DELETE && request->kind == &kind_pod)
        stage->deletes++;
    if (request->verb == API_CREATE && request->kind == &kind_event) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct json *event = NULL;

        stage->events++;
        EXPECT(json_parse(&arena, request->body, &event, NULL) == 0);
        if (stage->events == 1)
            (void)snprintf(stage->first, sizeof(stage->first), STR_FMT,
                           STR_ARG(json_str(json_get(event, "reason"))));
    }
    if (!str_is(request->subresource, "eviction")) {
        done(user, &(struct api_result){0});
        return;
    }
    stage->evicted = done;
    stage->evicted_user = user;
}

static void stage_bind(struct api *api,
                       const struct api_binding *bindings,
                       size_t count,
                       api_done_fn *done,
                       void *user)
{
    (void)bindings;
    EXPECT(count == 1);
    ((struct stage *)api)->binds++;
    done(user, &(struct api_result){0});
}

static void stage_done(void *user, const struct applier_outcome *outcome)
{
    struct stage *stage = user;

    if (outcome->evict) {
        stage->evict_bad += outcome->code != 0;
        stage->refused += outcome->refused;
        return;
    }
    stage->outcome = outcome->code;
    stage->outcomes++;
}

static bool stage_may_bind(void *user, struct str ns, struct str group)
{
    struct stage *stage = user;

    EXPECT(str_is(ns, "ns") && str_is(group, "g"));
    stage->asked++;
    return stage->may_bind;
}

static bool stage_promised(void *user, struct str ns, struct str pod, struct str *ret_node)
{
    (void)user;
    (void)ns;
    (void)pod;
    (void)ret_node;
    return false;
}

static void stage_ready(void *user)
{
    ((struct stage *)user)->ready++;
}

static bool stage_keeps_starts(void *user)
{
    (void)user;
    return false;
}

/* A plan that evicts one pod and binds another, which counts on what the first gives up. */
static void stage_open_as(struct stage *stage, bool may_bind, bool delete)
{
    static const struct api_ops ops = {.call = stage_call, .bind = stage_bind};
    static const struct sched_bind bind = {
        .pod = {.ns = STR("ns"), .name = STR("new"), .uid = STR("1")},
        .group = STR("g"),
        .node = STR("n")};
    const struct sched_evict evict = {.delete = delete,
                                      .pod = {.ns = STR("ns"), .name = STR("old"), .uid = STR("2")},
                                      .group = STR("h"),
                                      .for_ns = STR("ns"),
                                      .for_group = STR("g"),
                                      .message = STR("makes room")};

    *stage = (struct stage){.api = {.ops = &ops}, .may_bind = may_bind, .cache = cache_new(1)};
    stage->applier = applier_new(&(struct applier_options){.api = &stage->api,
                                                           .cache = stage->cache,
                                                           .done = stage_done,
                                                           .may_bind = stage_may_bind,
                                                           .is_promised = stage_promised,
                                                           .ready = stage_ready,
                                                           .keeps_starts = stage_keeps_starts,
                                                           .user = stage});
    applier_apply(
        stage->applier,
        &(struct sched_plan){.binds = &bind, .bind_count = 1, .evicts = &evict, .evict_count = 1},
        1000);
}

static void stage_open(struct stage *stage, bool may_bind)
{
    stage_open_as(stage, may_bind, false);
}

static void stage_answer_with(struct stage *stage, int code, int status, const char *text)
{
    struct err err = {.http_status = status};

    (void)snprintf(err.text, sizeof(err.text), "%s", text);

    EXPECT(stage->evicted);
    if (stage->evicted)
        stage->evicted(stage->evicted_user,
                       &(struct api_result){.code = code, .err = code ? &err : NULL});
}

static void stage_answer(struct stage *stage, int code, int status)
{
    stage_answer_with(stage, code, status, "");
}

static void stage_close(struct stage *stage)
{
    applier_free(stage->applier);
    cache_free(stage->cache);
}

TEST(applier_holds_binds_until_the_evictions_of_their_plan_are_answered)
{
    struct stage stage;

    stage_open(&stage, true);
    EXPECT(stage.binds == 0 && applier_is_waiting(stage.applier));
    stage_answer(&stage, 0, 0);
    EXPECT(stage.asked == 1 && stage.binds == 1 && stage.ready == 1);
    EXPECT(stage.outcomes == 1 && stage.outcome == 0);
    EXPECT(!applier_is_waiting(stage.applier));
    stage_close(&stage);
}

/* The eviction was refused, so the queue still has the pod that was to go, and its limit holds. */
TEST(applier_gives_binds_back_that_no_longer_fit_when_an_eviction_is_refused)
{
    struct stage stage;

    stage_open(&stage, false);
    stage_answer(&stage, -EAGAIN, 429);
    EXPECT(stage.evict_bad == 1);
    EXPECT(stage.asked == 1 && stage.binds == 0);
    EXPECT(stage.outcomes == 1 && stage.outcome == -EAGAIN && stage.ready == 1);
    stage_close(&stage);
}

/* Who reads "preempted by" of a pod looks for another one that has its room. */
TEST(a_pod_is_said_to_be_evicted_when_it_is)
{
    static const struct {
        const char *why;
        int code;
        int status;
        const char *text;
        const char *event;
        int refused;
    } rows[] = {
        {"it is", 0, 0, "", "Evict", 0},
        {"a budget forbids it", -EAGAIN, 429,
         "Cannot evict pod as it would violate the pod's disruption budget.", "EvictionRefused", 1},
        {"several budgets do", -EIO, 500,
         "This pod has more than one PodDisruptionBudget, which the eviction subresource does not "
         "support.",
         "EvictionRefused", 1},
        {"the server has enough to do", -EAGAIN, 429, "too many requests", "", 0},
        {"it was gone already", -ENOENT, 404, "", "", 0},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct stage stage;

        test_case(rows[i].why);
        stage_open(&stage, false);
        EXPECT(stage.events == 0);
        stage_answer_with(&stage, rows[i].code, rows[i].status, rows[i].text);
        EXPECT(stage.refused == rows[i].refused);
        EXPECT(str_is(str_from(stage.first), rows[i].event));
        stage_close(&stage);
    }
}

TEST(a_pod_that_budgets_would_keep_is_deleted_where_the_plan_says_so)
{
    struct stage stage;

    stage_open_as(&stage, true, true);
    EXPECT(!stage.evicted && stage.deletes == 1 && stage.binds == 1);
    stage_close(&stage);
}

TEST(applier_takes_a_pod_that_is_gone_for_evicted)
{
    struct stage stage;

    stage_open(&stage, true);
    stage_answer(&stage, -ENOENT, 404);
    EXPECT(stage.evict_bad == 0 && stage.binds == 1);
    stage_close(&stage);
}

/* An API that answers its last call when the test says so. */
static void slow_call(struct api *api,
                      const struct api_request *request,
                      api_done_fn *done,
                      void *user)
{
    struct stage *stage = (struct stage *)api;

    (void)request;
    stage->asked++;
    stage->evicted = done;
    stage->evicted_user = user;
}

static void stage_put(struct stage *stage, const struct kind *kind, const char *text)
{
    struct object *object = NULL;

    EXPECT(object_new(kind, str_from(text), &object, NULL) == 0);
    if (object)
        cache_put(stage->cache, object);
    object_unref(object);
}

TEST(applier_that_is_gone_writes_nothing_more_about_claims)
{
    static const struct api_ops ops = {.call = slow_call, .bind = stage_bind};
    static const struct sched_bind_device device = {.request = STR("r"),
                                                    .class = STR("gpu"),
                                                    .driver = STR("d"),
                                                    .pool = STR("p"),
                                                    .device = STR("gpu-0")};
    static const struct sched_bind_claim claim = {
        .name = STR("c"), .devices = &device, .device_count = 1};
    static const struct sched_bind_more more = {.claims = &claim, .claim_count = 1};
    static const struct sched_bind bind = {
        .pod = {.ns = STR("ns"), .name = STR("new"), .uid = STR("1")},
        .group = STR("g"),
        .node = STR("n"),
        .more = &more};
    struct stage stage = {.api = {.ops = &ops}, .cache = cache_new(1)};

    stage_put(&stage, &kind_pod,
              "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"new\",\"uid\":\"1\"}}");
    stage_put(&stage, &kind_resourceclaim,
              "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"c\",\"uid\":\"2\"}}");
    stage.applier = applier_new(&(struct applier_options){.api = &stage.api,
                                                          .cache = stage.cache,
                                                          .done = stage_done,
                                                          .may_bind = stage_may_bind,
                                                          .is_promised = stage_promised,
                                                          .ready = stage_ready,
                                                          .keeps_starts = stage_keeps_starts,
                                                          .user = &stage});
    applier_apply(stage.applier, &(struct sched_plan){.binds = &bind, .bind_count = 1}, 1000);
    EXPECT(stage.asked == 1 && stage.binds == 0); /* its finalizer */
    stage_close(&stage);
    stage_answer(&stage, 0, 0);
    EXPECT(stage.asked == 1 && stage.binds == 0 && stage.outcomes == 0);
}
