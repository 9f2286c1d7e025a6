#include "api/api.h"
#include "api/kind.h"
#include "api/object.h"
#include "base/mem.h"
#include "base/str.h"
#include "cache/cache.h"
#include "exec/runner.h"
#include "exec/scheduler.h"
#include "store/faulty.h"
#include "store/harness.h"
#include "store/store.h"
#include "test.h"

#include <malloc.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

/* The path of a pod as a budget (docs/internals/budget.md): all requests that a pod, or a gang, causes
 * until the cluster is at rest again, what they become in the store, and what the file is asked for.
 * The store is on a disk, the controllers and the scheduler are those of `muster up`, and their clock
 * is moved by hand, so every number is exact. Who adds a write changes a number here, and the page. */

#define STEP_MS     50
#define REST_MS     3000 /* the last status is written behind the last bind */
#define TEXT_BYTES  2048
#define KINDS_MAX   16
#define ROUNDS_MAX  100000
#define LOOP_ROUNDS 10 /* what was committed is told */
#define WATCHES     64
#define QUIET_TURNS 3 /* turns of both without a request: at rest until the clock moves */

struct tally {
    const char *verb;
    const char *plural;
    const char *subresource;
    unsigned count;
};

struct bench {
    struct api api; /* what controllers and the scheduler write to: the store, counted */
    struct harness h;
    struct runner *runner;
    struct scheduler *scheduler;
    int64_t now_ms;
    size_t open;     /* requests under way */
    size_t requests; /* so far */
    struct tally tallies[KINDS_MAX];
    size_t tally_count;
    char folder[32];
};

struct open_call {
    struct bench *bench;
    api_done_fn *done;
    void *user;
};

static void bench_count(struct bench *bench,
                        const char *verb,
                        const struct kind *kind,
                        const char *subresource,
                        unsigned count)
{
    size_t i = 0;

    for (; i < bench->tally_count; i++)
        if (strcmp(bench->tallies[i].verb, verb) == 0 &&
            strcmp(bench->tallies[i].plural, kind->plural) == 0 &&
            strcmp(bench->tallies[i].subresource, subresource) == 0)
            break;
    if (i == bench->tally_count) {
        EXPECT(i < KINDS_MAX);
        bench->tallies[bench->tally_count++] = (struct tally){verb, kind->plural, subresource, 0};
    }
    bench->tallies[i].count += count;
}

static void on_answer(void *user, const struct api_result *result)
{
    struct open_call *call = user;

    call->bench->open--;
    call->done(call->user, result);
    mem_free(call);
}

static struct open_call *open_call(struct bench *bench, api_done_fn *done, void *user)
{
    struct open_call *call = MEM_NEW(struct open_call);

    *call = (struct open_call){bench, done, user};
    bench->open++;
    bench->requests++;
    return call;
}

static void counted_call(struct api *api,
                         const struct api_request *request,
                         api_done_fn *done,
                         void *user)
{
    static const char *const verbs[] = {[API_GET] = "get",
                                        [API_LIST] = "list",
                                        [API_CREATE] = "create",
                                        [API_UPDATE] = "update",
                                        [API_PATCH] = "patch",
                                        [API_DELETE] = "delete",
                                        [API_DELETE_COLLECTION] = "deletecollection"};
    struct bench *bench = (struct bench *)api;

    bench_count(bench, verbs[request->verb], request->kind,
                str_is(request->subresource, "status") ? "/status" : "", 1);
    api_call(bench->h.api, request, on_answer, open_call(bench, done, user));
}

static void counted_bind(struct api *api,
                         const struct api_binding *bindings,
                         size_t count,
                         api_done_fn *done,
                         void *user)
{
    struct bench *bench = (struct bench *)api;

    bench_count(bench, "bind", &kind_pod, "", (unsigned)count);
    api_bind(bench->h.api, bindings, count, on_answer, open_call(bench, done, user));
}

static struct api_watch *plain_watch(struct api *api,
                                     const struct api_watch_request *request,
                                     api_watch_fn *fn,
                                     void *user)
{
    return api_watch(((struct bench *)api)->h.api, request, fn, user);
}

static void plain_watch_stop(struct api *api, struct api_watch *watch)
{
    api_watch_stop(((struct bench *)api)->h.api, watch);
}

static int64_t now(void *user)
{
    return ((struct bench *)user)->now_ms;
}

/* Until nobody has anything to do before the clock moves. */
static void settle(struct bench *bench)
{
    for (int quiet = 0, round = 0; quiet < QUIET_TURNS && round < ROUNDS_MAX; round++) {
        size_t before = bench->requests;

        while (bench->open)
            (void)uv_run(&bench->h.loop, UV_RUN_ONCE);
        for (int i = 0; i < LOOP_ROUNDS; i++)
            (void)uv_run(&bench->h.loop, UV_RUN_NOWAIT);
        (void)runner_turn(bench->runner);
        (void)scheduler_turn(bench->scheduler);
        quiet = bench->requests == before && !bench->open ? quiet + 1 : 0;
    }
    EXPECT(!bench->open);
}

static void rest(struct bench *bench)
{
    for (int64_t ms = 0; ms < REST_MS; ms += STEP_MS) {
        settle(bench);
        bench->now_ms += STEP_MS;
    }
    settle(bench);
}

static uint64_t revision(struct bench *bench)
{
    EXPECT(harness_list(&bench->h, &kind_namespace, "") == 0);
    return bench->h.revision;
}

static void open_bench(struct bench *bench)
{
    static const struct api_ops ops = {.call = counted_call,
                                       .bind = counted_bind,
                                       .watch = plain_watch,
                                       .watch_stop = plain_watch_stop};
    char path[64];

    memset(bench, 0, sizeof(*bench));
    bench->now_ms = 1000000;
    (void)snprintf(bench->folder, sizeof(bench->folder), "/tmp/muster-budget-XXXXXX");
    EXPECT(mkdtemp(bench->folder) != NULL);
    (void)snprintf(path, sizeof(path), "%s/db", bench->folder);
    faulty_install();
    harness_open(&bench->h, path);
    bench->api = (struct api){.ops = &ops, .kinds = bench->h.api->kinds};
    EXPECT(harness_create(&bench->h, &kind_node, "",
                          "{\"metadata\":{\"name\":\"n\"},\"status\":{\"allocatable\":{\"cpu\":"
                          "\"64\",\"memory\":\"512Gi\",\"pods\":\"110\",\"nvidia.com/gpu\":\"16\"},"
                          "\"conditions\":[{\"type\":\"Ready\",\"status\":\"True\"}]}}") == 0);
    EXPECT(runner_start(
               NULL, &bench->api,
               &(struct runner_options){.now = now, .now_user = bench, .seed = 1, .embedded = true},
               &bench->runner, NULL) == 0);
    EXPECT(scheduler_start(NULL, &bench->api,
                           &(struct scheduler_options){.now = now, .now_user = bench, .seed = 1},
                           &bench->scheduler, NULL) == 0);
    store_set_admit_pod(bench->h.store, runner_admit_pod, bench->runner);
    store_set_made_pod(bench->h.store, runner_made_pod, bench->runner);
    rest(bench);
}

static void close_bench(struct bench *bench)
{
    char command[64];

    store_set_admit_pod(bench->h.store, NULL, NULL);
    store_set_made_pod(bench->h.store, NULL, NULL);
    scheduler_stop(bench->scheduler);
    runner_stop(bench->runner);
    harness_close(&bench->h);
    (void)snprintf(command, sizeof(command), "rm -r %s", bench->folder);
    EXPECT(system(command) == 0);
}

/* As clients of the API server do: beside what the controllers are counted for. */
static void client_creates(struct bench *bench, const struct kind *kind, const char *body)
{
    EXPECT(harness_create(&bench->h, kind, "default", body) == 0);
}

static void create_pod(struct bench *bench, int number, const char *group)
{
    char body[512];

    (void)snprintf(body, sizeof(body),
                   "{\"metadata\":{\"name\":\"p-%d\",\"labels\":{\"kai.scheduler/queue\":"
                   "\"default-queue\"},\"annotations\":{%s}},\"spec\":{\"schedulerName\":"
                   "\"kai-scheduler\",\"containers\":[{\"name\":\"main\",\"image\":\"x\","
                   "\"resources\":{\"limits\":{\"cpu\":\"1\",\"nvidia.com/gpu\":\"1\"}}}]}}",
                   number, group);
    client_creates(bench, &kind_pod, body);
}

struct spent {
    uint64_t writes; /* revisions */
    unsigned syncs;
    char requests[TEXT_BYTES];
};

static void begin(struct bench *bench, struct spent *spent)
{
    bench->tally_count = 0;
    *spent = (struct spent){.writes = revision(bench), .syncs = faulty_syncs()};
}

static void end(struct bench *bench, struct spent *spent)
{
    size_t len = 0;

    spent->writes = revision(bench) - spent->writes;
    spent->syncs = faulty_syncs() - spent->syncs;
    for (size_t i = 0; i < bench->tally_count; i++)
        len +=
            (size_t)snprintf(spent->requests + len, sizeof(spent->requests) - len, "%s%s %s%s %u",
                             len ? ", " : "", bench->tallies[i].verb, bench->tallies[i].plural,
                             bench->tallies[i].subresource, bench->tallies[i].count);
}

static bool spent_is(const struct spent *spent,
                     uint64_t writes,
                     unsigned syncs,
                     const char *requests)
{
    bool same =
        spent->writes == writes && spent->syncs == syncs && strcmp(spent->requests, requests) == 0;

    if (!same)
        printf("%llu writes in %u commits: %s; the budget is %llu in %u: %s\n",
               (unsigned long long)spent->writes, spent->syncs, spent->requests,
               (unsigned long long)writes, syncs, requests);
    return same;
}

TEST(a_pod_alone_costs_the_writes_of_its_budget)
{
    struct bench bench;
    struct spent spent;

    open_bench(&bench);
    begin(&bench, &spent);
    create_pod(&bench, 0, "");
    rest(&bench);
    end(&bench, &spent);
    EXPECT(spent_is(&spent, 7, 4,
                    "create podgroups 1, bind pods 1, patch queues/status 2, create events 1, "
                    "patch podgroups/status 1"));
    close_bench(&bench);
}

TEST(a_gang_of_eight_costs_the_writes_of_its_budget)
{
    struct bench bench;
    struct spent spent;

    open_bench(&bench);
    begin(&bench, &spent);
    client_creates(&bench, &kind_podgroup,
                   "{\"metadata\":{\"name\":\"g\"},\"spec\":{\"minMember\":8,\"queue\":"
                   "\"default-queue\"}}");
    for (int i = 0; i < 8; i++)
        create_pod(&bench, i, "\"pod-group-name\":\"g\"");
    rest(&bench);
    end(&bench, &spent);
    EXPECT(
        spent_is(&spent, 28, 12,
                 "bind pods 8, patch queues/status 2, create events 8, patch podgroups/status 1"));
    close_bench(&bench);
}

/* A page of 4 KiB is written by two calls, its head and its body; a write of the API that nobody else
 * shares changes five, one of them for its checksum, and the log has it after one fsync. */
TEST(a_write_alone_costs_the_file_one_fsync)
{
    struct bench bench;
    unsigned writes = 0;
    unsigned syncs = 0;

    open_bench(&bench);
    writes = faulty_writes();
    syncs = faulty_syncs();
    client_creates(&bench, &kind_configmap, "{\"metadata\":{\"name\":\"c\"}}");
    writes = faulty_writes() - writes;
    syncs = faulty_syncs() - syncs;
    if (writes > 10 || syncs != 1)
        printf("%u writes and %u fsyncs of the file\n", writes, syncs);
    EXPECT(syncs == 1 && writes <= 10);
    close_bench(&bench);
}

static void nobody(void *user, const struct api_change *change)
{
    (void)user;
    (void)change;
}

/* The controllers alone have some eighty; a page in a browser has one a kind. Where a sanitizer has the
 * heap nothing is counted. */
TEST(a_watch_costs_the_store_less_than_a_kilobyte)
{
    struct harness h;
    struct api_watch *watches[WATCHES];

    harness_open(&h, NULL);
    size_t before = mallinfo2().uordblks;
    for (size_t i = 0; i < WATCHES; i++)
        watches[i] = api_watch(
            h.api, &(struct api_watch_request){.kind = &kind_configmap, .ns = STR("default")},
            nobody, NULL);
    size_t bytes = (mallinfo2().uordblks - before) / WATCHES;
    if (bytes >= 1024)
        printf("%zu bytes a watch\n", bytes);
    EXPECT(bytes < 1024);
    for (size_t i = 0; i < WATCHES; i++)
        api_watch_stop(h.api, watches[i]);
    harness_settle(&h);
    harness_close(&h);
}

/* Thousands of writes may wait for one commit, as when that many pods are told why they wait. A pod's
 * text is here twice, as it was and as it will be; the trees it was made from are gone. */
TEST(a_write_that_waits_for_the_disk_costs_two_texts_of_its_object)
{
    struct harness h;
    char body[64];

    harness_open(&h, NULL);
    for (int i = 0; i < WATCHES; i++) {
        (void)snprintf(body, sizeof(body), "{\"metadata\":{\"name\":\"c-%d\"}}", i);
        EXPECT(harness_create(&h, &kind_configmap, "default", body) == 0);
    }
    harness_settle(&h);
    size_t before = mallinfo2().uordblks;
    for (int i = 0; i < WATCHES; i++) {
        (void)snprintf(body, sizeof(body), "c-%d", i);
        api_call(h.api,
                 &(struct api_request){.verb = API_PATCH,
                                       .kind = &kind_configmap,
                                       .ns = STR("default"),
                                       .name = str_from(body),
                                       .patch = API_PATCH_MERGE,
                                       .body = STR("{\"data\":{\"a\":\"b\"}}")},
                 NULL, NULL);
    }
    size_t bytes = (mallinfo2().uordblks - before) / WATCHES;
    if (bytes >= 2048)
        printf("%zu bytes a write\n", bytes);
    EXPECT(bytes < 2048);
    harness_settle(&h);
    harness_close(&h);
}

#define CACHED 4096

/* The operator has two caches: a map more, of namespaces that nobody asks for, would be 43 bytes a pod in
 * each. */
TEST(a_pod_costs_a_cache_one_entry_in_one_map)
{
    struct cache *cache = cache_new(1);
    struct object *pods[CACHED];
    char body[64];

    for (size_t i = 0; i < CACHED; i++) {
        (void)snprintf(body, sizeof(body),
                       "{\"metadata\":{\"name\":\"p-%zu\",\"namespace\":\"d\"}}", i);
        EXPECT(object_new(&kind_pod, str_from(body), &pods[i], NULL) == 0);
    }
    size_t before = mallinfo2().uordblks + mallinfo2().hblkhd;
    for (size_t i = 0; i < CACHED; i++)
        cache_put(cache, pods[i]);
    size_t bytes = (mallinfo2().uordblks + mallinfo2().hblkhd - before) / CACHED;
    if (bytes >= 100)
        printf("%zu bytes a pod\n", bytes);
    EXPECT(bytes < 100);
    cache_free(cache);
    for (size_t i = 0; i < CACHED; i++)
        object_unref(pods[i]);
}
