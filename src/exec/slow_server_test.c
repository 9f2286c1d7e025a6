#include "api/api.h"
#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/err.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/vec.h"
#include "exec/runner.h"
#include "exec/scheduler.h"
#include "store/harness.h"
#include "test.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* Controllers and scheduler together, as the operator has them, on a server that is slow: it does at once what it
 * is asked for, and tells of it SLOW_MS later, in answers and in watches alike. The clock is the test's. */
#define SLOW_MS 10000
#define STEP_MS 1000
#define WELL_MS 5000 /* so soon is bound what was made when the server was well again */

struct slow_watch {
    api_watch_fn *fn;
    void *user;
    struct api_watch *below;
    struct bench *bench;
    bool stopped;
};

/* An answer or an event on its way. */
struct parcel {
    int64_t due_ms;
    struct arena arena;
    struct slow_watch *watch; /* NULL: an answer */
    struct api_change change;
    struct bench *bench;
    api_done_fn *done;
    void *user;
    struct api_result result;
    struct err err;
};

struct bench {
    struct api api;
    struct harness h;
    struct runner *runner;
    struct scheduler *scheduler;
    VEC(struct parcel *) parcels; /* in the order in which they arrive */
    VEC(struct slow_watch *) watches;
    int64_t slow_ms;
    struct arena uids;
    struct map binds; /* uid of a pod -> it was bound */
    int twice;        /* binds of a pod that had been bound before */
    int ended;        /* pods that were deleted or evicted */
};

static int64_t now(void *user)
{
    return ((struct bench *)user)->h.now_ms;
}

static struct parcel *parcel_new(struct bench *bench)
{
    struct parcel *parcel = MEM_NEW(struct parcel);

    *parcel = (struct parcel){.bench = bench};
    return parcel;
}

static const struct object *keep(struct parcel *parcel, const struct object *object)
{
    if (object)
        arena_defer(&parcel->arena, object_release, object_ref(object));
    return object;
}

static void dispatch(struct parcel *parcel)
{
    parcel->due_ms = parcel->bench->h.now_ms + parcel->bench->slow_ms;
    VEC_PUSH(NULL, &parcel->bench->parcels, parcel);
}

static void on_answer(void *user, const struct api_result *result)
{
    struct parcel *parcel = user;

    EXPECT(!result->item_count);
    parcel->result = (struct api_result){.code = result->code,
                                         .created = result->created,
                                         .gone = result->gone,
                                         .reason = str_dup(&parcel->arena, result->reason),
                                         .message = str_dup(&parcel->arena, result->message),
                                         .object = keep(parcel, result->object),
                                         .revision = result->revision};
    if (result->err) {
        parcel->err = *result->err;
        parcel->result.err = &parcel->err;
    }
    dispatch(parcel);
}

static struct parcel *ask(struct bench *bench, api_done_fn *done, void *user)
{
    struct parcel *parcel = parcel_new(bench);

    parcel->done = done;
    parcel->user = user;
    return parcel;
}

static void call(struct api *api, const struct api_request *request, api_done_fn *done, void *user)
{
    struct bench *bench = (struct bench *)api;

    if (request->kind == &kind_pod &&
        (request->verb == API_DELETE || str_is(request->subresource, "eviction")))
        bench->ended++;
    api_call(bench->h.api, request, on_answer, ask(bench, done, user));
}

static void bind_slowly(struct api *api,
                        const struct api_binding *bindings,
                        size_t count,
                        api_done_fn *done,
                        void *user)
{
    struct bench *bench = (struct bench *)api;

    for (size_t i = 0; i < count; i++) {
        bench->twice += map_get(&bench->binds, bindings[i].uid) != NULL;
        map_set(&bench->binds, str_dup(&bench->uids, bindings[i].uid), bench);
    }
    api_bind(bench->h.api, bindings, count, on_answer, ask(bench, done, user));
}

static void on_event(void *user, const struct api_change *change)
{
    struct slow_watch *watch = user;
    struct parcel *parcel = parcel_new(watch->bench);

    parcel->watch = watch;
    parcel->change = *change;
    (void)keep(parcel, change->object);
    (void)keep(parcel, change->previous);
    EXPECT(!change->err);
    dispatch(parcel);
}

static struct api_watch *watch(struct api *api,
                               const struct api_watch_request *request,
                               api_watch_fn *fn,
                               void *user)
{
    struct bench *bench = (struct bench *)api;
    struct slow_watch *watch = MEM_NEW(struct slow_watch);

    *watch = (struct slow_watch){.fn = fn, .user = user, .bench = bench};
    VEC_PUSH(NULL, &bench->watches, watch);
    watch->below = api_watch(bench->h.api, request, on_event, watch);
    return (struct api_watch *)watch;
}

static void watch_stop(struct api *api, struct api_watch *stopped)
{
    struct slow_watch *watch = (struct slow_watch *)stopped;

    api_watch_stop(((struct bench *)api)->h.api, watch->below);
    watch->stopped = true;
}

static void deliver(struct parcel *parcel)
{
    if (!parcel->watch)
        parcel->done(parcel->user, &parcel->result);
    else if (!parcel->watch->stopped)
        parcel->watch->fn(parcel->watch->user, &parcel->change);
    arena_done(&parcel->arena);
    mem_free(parcel);
}

/* What has arrived by now, in its order. */
static void carry(struct bench *bench)
{
    size_t count = 0;

    while (count < bench->parcels.count && bench->parcels.items[count]->due_ms <= bench->h.now_ms)
        deliver(bench->parcels.items[count++]);
    memmove(bench->parcels.items, bench->parcels.items + count,
            (bench->parcels.count - count) * sizeof(*bench->parcels.items));
    bench->parcels.count -= count;
}

/* The kubelets: a pod with a node runs. Their server is as quick as ever, so that what is seen late is seen
 * as late as can be. */
static void run_pods(struct bench *bench)
{
    char names[sizeof(bench->h.names)];
    char *next = names;

    EXPECT(harness_list(&bench->h, &kind_pod, "default") == 0);
    memcpy(names, bench->h.names, sizeof(names));
    for (char *name; (name = strsep(&next, " "));) {
        if (!*name || harness_get(&bench->h, &kind_pod, "default", name) < 0 ||
            !harness_text(&bench->h, "spec.nodeName")[0] ||
            strcmp(harness_text(&bench->h, "status.phase"), "Running") == 0)
            continue;
        EXPECT(harness_call(&bench->h,
                            &(struct api_request){
                                .verb = API_PATCH,
                                .kind = &kind_pod,
                                .ns = STR("default"),
                                .name = str_from(name),
                                .subresource = STR("status"),
                                .patch = API_PATCH_MERGE,
                                .body = STR("{\"status\":{\"phase\":\"Running\",\"conditions\":"
                                            "[{\"type\":\"Ready\",\"status\":\"True\"}]}}")}) == 0);
    }
}

static void pass(struct bench *bench, int64_t ms)
{
    for (int64_t end_ms = bench->h.now_ms + ms; bench->h.now_ms < end_ms;
         bench->h.now_ms += STEP_MS) {
        for (int i = 0; i < 3; i++) {
            harness_settle(&bench->h);
            carry(bench);
            (void)runner_turn(bench->runner);
            (void)scheduler_turn(bench->scheduler);
        }
        run_pods(bench);
    }
}

static void open_bench(struct bench *bench, int64_t slow_ms)
{
    static const struct api_ops ops = {
        .call = call, .bind = bind_slowly, .watch = watch, .watch_stop = watch_stop};

    memset(bench, 0, sizeof(*bench));
    harness_open_at(&bench->h, 1000000);
    bench->slow_ms = slow_ms;
    bench->api = (struct api){.ops = &ops, .kinds = bench->h.api->kinds};
    for (int i = 0; i < 6; i++) {
        char body[512];

        (void)snprintf(
            body, sizeof(body),
            "{\"metadata\":{\"name\":\"n%d\"},\"status\":{\"allocatable\":{\"cpu\":\"8\","
            "\"memory\":\"64Gi\",\"pods\":\"110\",\"nvidia.com/gpu\":\"2\"},"
            "\"conditions\":[{\"type\":\"Ready\",\"status\":\"True\"}]}}",
            i);
        EXPECT(harness_create(&bench->h, &kind_node, "", body) == 0);
    }
    EXPECT(
        harness_create(&bench->h, &kind_torchrunqueue, "default",
                       "{\"metadata\":{\"name\":\"demo\"},\"spec\":{\"nodeResources\":{\"gpus\":2,"
                       "\"cpus\":2,\"memory\":\"4Gi\"}}}") == 0);
    EXPECT(runner_start(NULL, &bench->api,
                        &(struct runner_options){.now = now, .now_user = bench, .seed = 1},
                        &bench->runner, NULL) == 0);
    EXPECT(scheduler_start(NULL, &bench->api,
                           &(struct scheduler_options){.now = now, .now_user = bench, .seed = 1},
                           &bench->scheduler, NULL) == 0);
}

static void close_bench(struct bench *bench)
{
    runner_stop(bench->runner);
    scheduler_stop(bench->scheduler);
    for (size_t i = 0; i < bench->parcels.count; i++)
        deliver(bench->parcels.items[i]);
    for (size_t i = 0; i < bench->watches.count; i++)
        mem_free(bench->watches.items[i]);
    VEC_DONE(&bench->parcels);
    VEC_DONE(&bench->watches);
    map_done(&bench->binds);
    arena_done(&bench->uids);
    harness_close(&bench->h);
}

static void add_job(struct bench *bench, const char *name)
{
    char body[256];

    (void)snprintf(body, sizeof(body),
                   "{\"metadata\":{\"name\":\"%s\"},\"spec\":{\"jobQueue\":\"demo\",\"numGPUs\":4,"
                   "\"command\":\"true\"}}",
                   name);
    EXPECT(harness_create(&bench->h, &kind_torchrunjob, "default", body) == 0);
}

static bool runs(struct bench *bench, const char *name)
{
    EXPECT(harness_get(&bench->h, &kind_torchrunjob, "default", name) == 0);
    EXPECT(!*harness_text(&bench->h, "status.restarts") ||
           strcmp(harness_text(&bench->h, "status.restarts"), "0") == 0);
    EXPECT(!*harness_text(&bench->h, "status.generation") ||
           strcmp(harness_text(&bench->h, "status.generation"), "0") == 0);
    return strcmp(harness_text(&bench->h, "status.phase"), "Running") == 0;
}

TEST(a_server_that_answers_after_ten_seconds_ends_nobody_and_binds_no_pod_twice)
{
    struct bench bench;

    open_bench(&bench, SLOW_MS);
    add_job(&bench, "before");
    pass(&bench, 9 * SLOW_MS);
    EXPECT(runs(&bench, "before"));
    /* The same while one of them is made: the cache knows half of it. */
    add_job(&bench, "while");
    pass(&bench, 9 * SLOW_MS);
    EXPECT(runs(&bench, "before") && runs(&bench, "while"));
    /* It is well again: what is made now is not held up. */
    bench.slow_ms = 0;
    pass(&bench, SLOW_MS);
    add_job(&bench, "after");
    pass(&bench, WELL_MS);
    EXPECT(runs(&bench, "before") && runs(&bench, "while") && runs(&bench, "after"));
    EXPECT(bench.binds.count == 6);
    EXPECT(bench.twice == 0);
    EXPECT(bench.ended == 0);
    close_bench(&bench);
}
