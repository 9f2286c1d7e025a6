#include "api/api.h"
#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/count.h"
#include "base/err.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/vec.h"
#include "exec/lease.h"
#include "exec/runner.h"
#include "exec/scheduler.h"
#include "store/harness.h"
#include "test.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* Controllers, scheduler and lease together, as replicas of the operator have them, on a server that is slow: it does
 * at once what it is asked for, and answers and tells its watches of it later. The clock is the test's. */
#define SLOW_MS   10000
#define OUTAGE_MS 120000
#define STEP_MS   1000
#define WELL_MS   5000 /* so soon is bound what was made when the server was well again */
#define LATE_MS   4000 /* so late are watches whose own writes are waited for (RUNNER_OWN_WRITE_MS) */

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
    int64_t timeout_ms; /* of the request; 0: none */
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
    struct replica *replicas[2]; /* NULL: there is none */
    VEC(struct parcel *) parcels;
    VEC(struct slow_watch *) watches;
    int64_t answer_ms; /* so long are answers on their way, */
    int64_t tell_ms;   /* and what watches tell */
    struct arena uids;
    struct map binds; /* uid of a pod -> it was bound */
    int twice;        /* binds of a pod that had been bound before */
    int ended;        /* pods that were deleted or evicted */
    int told;         /* writes of a job's status */
};

/* Of the operator. */
struct replica {
    struct bench *bench;
    struct lease *lease;   /* NULL: it needs none to lead */
    struct runner *runner; /* NULL: it has not led */
    struct scheduler *scheduler;
    bool doubts;
    int doubted;
    int lost;
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

static void dispatch(struct parcel *parcel, int64_t way_ms)
{
    parcel->due_ms = parcel->bench->h.now_ms + way_ms;
    VEC_PUSH(NULL, &parcel->bench->parcels, parcel);
}

static void on_answer(void *user, const struct api_result *result)
{
    struct parcel *parcel = user;
    struct bench *bench = parcel->bench;

    EXPECT(!result->item_count);
    if (parcel->timeout_ms && bench->answer_ms > parcel->timeout_ms) {
        parcel->result = (struct api_result){
            .code = err_set(&parcel->err, -ETIMEDOUT, "there is no answer"), .err = &parcel->err};
        dispatch(parcel, parcel->timeout_ms);
        return;
    }
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
    dispatch(parcel, bench->answer_ms);
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
    struct parcel *parcel = ask(bench, done, user);

    if (request->kind == &kind_pod &&
        (request->verb == API_DELETE || str_is(request->subresource, "eviction")))
        bench->ended++;
    bench->told += request->kind == &kind_torchrunjob;
    parcel->timeout_ms = request->timeout_ms;
    api_call(bench->h.api, request, on_answer, parcel);
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
    dispatch(parcel, parcel->bench->tell_ms);
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

/* What has arrived by now. Events come in their order, and answers beside them. */
static void carry(struct bench *bench)
{
    size_t kept = 0;
    bool waits = false; /* an event that is not here yet */

    for (size_t i = 0; i < bench->parcels.count; i++) {
        struct parcel *parcel = bench->parcels.items[i];
        bool is_here = parcel->due_ms <= bench->h.now_ms && !(parcel->watch && waits);

        waits = waits || (parcel->watch && !is_here);
        if (is_here)
            deliver(parcel);
        else
            bench->parcels.items[kept++] = parcel;
    }
    bench->parcels.count = kept;
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

/* ---- the replicas, as cmd/operator.c makes them of the same parts ---- */

static void start_parts(struct replica *replica)
{
    struct bench *bench = replica->bench;

    EXPECT(runner_start(NULL, &bench->api,
                        &(struct runner_options){.now = now, .now_user = bench, .seed = 1},
                        &replica->runner, NULL) == 0);
    EXPECT(scheduler_start(NULL, &bench->api,
                           &(struct scheduler_options){.now = now, .now_user = bench, .seed = 1},
                           &replica->scheduler, NULL) == 0);
}

static void stop_parts(struct replica *replica)
{
    runner_stop(replica->runner);
    scheduler_stop(replica->scheduler);
    replica->runner = NULL;
    replica->scheduler = NULL;
    replica->doubts = false;
}

static void set_doubt(struct replica *replica, bool doubts)
{
    runner_hold(replica->runner, doubts);
    scheduler_hold(replica->scheduler, doubts);
    replica->doubts = doubts;
}

static void on_won(void *user)
{
    struct replica *replica = user;

    if (replica->doubts)
        set_doubt(replica, false);
    else
        start_parts(replica);
}

static void on_doubt(void *user)
{
    struct replica *replica = user;

    replica->doubted++;
    set_doubt(replica, true);
}

static void on_lost(void *user)
{
    struct replica *replica = user;

    replica->lost++;
    stop_parts(replica);
}

static int64_t lease_now(void *user)
{
    return now(((struct replica *)user)->bench);
}

static void compete(struct bench *bench, struct replica *replica, const char *identity)
{
    *replica = (struct replica){.bench = bench};
    replica->lease = lease_start(&(struct lease_options){.api = &bench->api,
                                                         .ns = "default",
                                                         .name = "l",
                                                         .identity = identity,
                                                         .won = on_won,
                                                         .doubt = on_doubt,
                                                         .lost = on_lost,
                                                         .now = lease_now,
                                                         .user = replica});
    bench->replicas[bench->replicas[0] ? 1 : 0] = replica;
}

static void lead_alone(struct bench *bench, struct replica *replica)
{
    *replica = (struct replica){.bench = bench};
    bench->replicas[0] = replica;
    start_parts(replica);
}

static bool leads(const struct replica *replica)
{
    return replica->runner && !replica->doubts;
}

static void turn(struct replica *replica)
{
    if (replica && replica->lease)
        (void)lease_turn(replica->lease);
    if (!replica || !replica->runner)
        return;
    (void)runner_turn(replica->runner);
    (void)scheduler_turn(replica->scheduler);
}

static void pass(struct bench *bench, int64_t ms)
{
    for (int64_t end_ms = bench->h.now_ms + ms; bench->h.now_ms < end_ms;
         bench->h.now_ms += STEP_MS) {
        for (int i = 0; i < 3; i++) {
            harness_settle(&bench->h);
            carry(bench);
            turn(bench->replicas[0]);
            turn(bench->replicas[1]);
        }
        run_pods(bench);
    }
}

static void set_slow(struct bench *bench, int64_t answer_ms, int64_t tell_ms)
{
    bench->answer_ms = answer_ms;
    bench->tell_ms = tell_ms;
}

/* What was on its way is there. */
static void get_well(struct bench *bench)
{
    set_slow(bench, 0, 0);
    for (size_t i = 0; i < bench->parcels.count; i++)
        bench->parcels.items[i]->due_ms = bench->h.now_ms;
}

static void open_bench(struct bench *bench)
{
    static const struct api_ops ops = {
        .call = call, .bind = bind_slowly, .watch = watch, .watch_stop = watch_stop};

    memset(bench, 0, sizeof(*bench));
    harness_open_at(&bench->h, 1000000);
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
}

static void close_bench(struct bench *bench)
{
    for (size_t i = 0; i < COUNT_OF(bench->replicas); i++) {
        if (!bench->replicas[i])
            continue;
        stop_parts(bench->replicas[i]);
        lease_free(bench->replicas[i]->lease);
    }
    harness_settle(&bench->h);
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

static void add_job(struct bench *bench, const char *name, int gpus)
{
    char body[256];

    (void)snprintf(body, sizeof(body),
                   "{\"metadata\":{\"name\":\"%s\"},\"spec\":{\"jobQueue\":\"demo\",\"numGPUs\":%d,"
                   "\"command\":\"true\"}}",
                   name, gpus);
    EXPECT(harness_create(&bench->h, &kind_torchrunjob, "default", body) == 0);
}

/* For which nothing but a bind is missing. */
static void add_pod(struct bench *bench)
{
    EXPECT(harness_create(
               &bench->h, &kind_podgroup, "default",
               "{\"metadata\":{\"name\":\"g\"},\"spec\":{\"minMember\":1,\"queue\":\"demo\"}}") ==
           0);
    EXPECT(harness_create(
               &bench->h, &kind_pod, "default",
               "{\"metadata\":{\"name\":\"p\",\"annotations\":{\"pod-group-name\":\"g\"}},"
               "\"spec\":{\"schedulerName\":\"kai-scheduler\",\"containers\":[{\"name\":\"c\","
               "\"image\":\"x\"}]}}") == 0);
}

static size_t pods_of(struct bench *bench)
{
    EXPECT(harness_list(&bench->h, &kind_pod, "default") == 0);
    return bench->h.item_count;
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
    struct replica alone;

    open_bench(&bench);
    set_slow(&bench, SLOW_MS, SLOW_MS);
    lead_alone(&bench, &alone);
    add_job(&bench, "before", 4);
    pass(&bench, 9 * SLOW_MS);
    EXPECT(runs(&bench, "before"));
    /* The same while one of them is made: the cache knows half of it. */
    add_job(&bench, "while", 4);
    pass(&bench, 9 * SLOW_MS);
    EXPECT(runs(&bench, "before") && runs(&bench, "while"));
    /* It is well again: what is made now is not held up. */
    get_well(&bench);
    pass(&bench, STEP_MS);
    add_job(&bench, "after", 4);
    pass(&bench, WELL_MS);
    EXPECT(runs(&bench, "before") && runs(&bench, "while") && runs(&bench, "after"));
    EXPECT(bench.binds.count == 6);
    EXPECT(bench.twice == 0);
    EXPECT(bench.ended == 0);
    close_bench(&bench);
}

TEST(who_led_before_a_slow_server_leads_after_it_and_nobody_decides_meanwhile)
{
    struct bench bench;
    struct replica first, second;

    open_bench(&bench);
    compete(&bench, &first, "first");
    pass(&bench, WELL_MS);
    compete(&bench, &second, "second");
    add_job(&bench, "before", 4);
    pass(&bench, WELL_MS);
    EXPECT(leads(&first) && !leads(&second) && runs(&bench, "before"));
    set_slow(&bench, SLOW_MS, SLOW_MS);
    pass(&bench, LEASE_RENEW_MS + STEP_MS);
    EXPECT(!leads(&first) && !leads(&second));
    add_job(&bench, "while", 4);
    add_pod(&bench);
    pass(&bench, OUTAGE_MS);
    EXPECT(!leads(&first) && !leads(&second));
    EXPECT(bench.binds.count == 2 && pods_of(&bench) == 3);
    get_well(&bench);
    pass(&bench, WELL_MS);
    EXPECT(leads(&first) && first.doubted == 1);
    EXPECT(runs(&bench, "before") && runs(&bench, "while"));
    EXPECT(first.lost == 0 && !second.runner);
    EXPECT(bench.binds.count == 5);
    EXPECT(bench.twice == 0 && bench.ended == 0);
    close_bench(&bench);
}

static int writes_of_two_jobs(int64_t tell_ms)
{
    struct bench bench;
    struct replica alone;

    open_bench(&bench);
    set_slow(&bench, 0, tell_ms);
    lead_alone(&bench, &alone);
    pass(&bench, 2 * LATE_MS);
    add_job(&bench, "a", 2);
    add_job(&bench, "b", 2);
    pass(&bench, 9 * LATE_MS);
    EXPECT(runs(&bench, "a") && runs(&bench, "b"));
    EXPECT(bench.twice == 0 && bench.ended == 0);
    close_bench(&bench);
    return bench.told;
}

/* Who does not wait for what he wrote himself says by half of it what is not true. */
TEST(nothing_is_said_of_a_job_by_half_of_what_was_written)
{
    EXPECT(writes_of_two_jobs(LATE_MS) == writes_of_two_jobs(0));
}
