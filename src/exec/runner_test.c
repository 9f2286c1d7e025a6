#include "api/api.h"
#include "api/kind.h"
#include "api/object.h"
#include "base/count.h"
#include "base/err.h"
#include "base/str.h"
#include "base/vec.h"
#include "exec/runner.h"
#include "store/harness.h"
#include "store/store.h"
#include "test.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* Controllers on the real store, in memory and on a clock of the test's own. The test plays the
 * scheduler and the kubelets by writing what they would write. */
struct bench {
    struct harness h;
    struct runner *runner;
    int64_t now_ms;
};

static int64_t now(void *user)
{
    return ((struct bench *)user)->now_ms;
}

static void settle(struct bench *bench)
{
    /* A turn answers what the last one caused; jobs settle within a few. */
    for (int i = 0; i < 12; i++) {
        harness_settle(&bench->h);
        runner_turn(bench->runner);
    }
    harness_settle(&bench->h);
}

static void open_bench(struct bench *bench)
{
    memset(bench, 0, sizeof(*bench));
    bench->now_ms = 1000000;
    harness_open(&bench->h, NULL);
    EXPECT(runner_start(
               NULL, bench->h.api,
               &(struct runner_options){.now = now, .now_user = bench, .seed = 1, .embedded = true},
               &bench->runner, NULL) == 0);
    settle(bench);
}

static void close_bench(struct bench *bench)
{
    runner_stop(bench->runner);
    harness_close(&bench->h);
}

static void queue(struct bench *bench)
{
    EXPECT(harness_create(&bench->h, &kind_torchrunqueue, "default",
                          "{\"metadata\":{\"name\":\"demo\"},\"spec\":{\"nodeResources\":{\"gpus\":"
                          "2,\"cpus\":2,\"memory\":\"4Gi\"}}}") == 0);
}

static void job(struct bench *bench, const char *spec)
{
    char body[1024];

    (void)snprintf(body, sizeof(body), "{\"metadata\":{\"name\":\"j\"},\"spec\":{%s}}", spec);
    EXPECT(harness_create(&bench->h, &kind_torchrunjob, "default", body) == 0);
    settle(bench);
}

static void pod_phase(struct bench *bench, const char *name, const char *phase, int code)
{
    char body[512];

    if (strcmp(phase, "Running") == 0)
        (void)snprintf(body, sizeof(body),
                       "{\"status\":{\"phase\":\"Running\",\"conditions\":[{\"type\":\"Ready\","
                       "\"status\":\"True\"}]}}");
    else
        (void)snprintf(body, sizeof(body),
                       "{\"status\":{\"phase\":\"%s\",\"containerStatuses\":[{\"name\":\"trainer\","
                       "\"state\":{\"terminated\":{\"exitCode\":%d,\"reason\":\"Error\","
                       "\"finishedAt\":\"2026-01-01T00:00:00Z\",\"message\":\"boom\"}}}]}}",
                       phase, code);
    EXPECT(harness_call(&bench->h, &(struct api_request){.verb = API_PATCH,
                                                         .kind = &kind_pod,
                                                         .ns = STR("default"),
                                                         .name = str_from(name),
                                                         .subresource = STR("status"),
                                                         .patch = API_PATCH_MERGE,
                                                         .body = str_from(body)}) == 0);
}

static bool job_is(struct bench *bench, const char *path, const char *value)
{
    EXPECT(harness_get(&bench->h, &kind_torchrunjob, "default", "j") == 0);
    bool same = strcmp(harness_text(&bench->h, path), value) == 0;
    if (!same)
        printf("%s is \"%s\", expected \"%s\"\n", path, harness_text(&bench->h, path), value);
    return same;
}

TEST(runner_makes_default_queues_and_the_queue_of_a_torchrunqueue)
{
    struct bench bench;

    open_bench(&bench);
    EXPECT(harness_get(&bench.h, &kind_queue, "", "default-queue") == 0);
    EXPECT(harness_get(&bench.h, &kind_priorityclass, "", "train") == 0);
    queue(&bench);
    settle(&bench);
    EXPECT(harness_get(&bench.h, &kind_queue, "", "demo") == 0);
    EXPECT(strcmp(harness_text(&bench.h, "spec.parentQueue"), "default") == 0);
    EXPECT(harness_get(&bench.h, &kind_torchrunqueue, "default", "demo") == 0);
    EXPECT(strcmp(harness_text(&bench.h, "status.phase"), "Active") == 0);
    EXPECT(harness_delete(&bench.h, &kind_torchrunqueue, "default", "demo", "") == 0);
    settle(&bench);
    EXPECT(harness_get(&bench.h, &kind_queue, "", "demo") < 0);
    close_bench(&bench);
}

TEST(runner_carries_a_job_from_pods_to_success)
{
    struct bench bench;

    open_bench(&bench);
    queue(&bench);
    job(&bench, "\"jobQueue\":\"demo\",\"numGPUs\":4,\"command\":\"true\"");
    EXPECT(job_is(&bench, "status.phase", "Queued"));
    EXPECT(job_is(&bench, "status.distribution", "2x2"));
    EXPECT(harness_list(&bench.h, &kind_pod, "default") == 0 && bench.h.item_count == 2);
    EXPECT(harness_list(&bench.h, &kind_podgroup, "default") == 0 && bench.h.item_count == 1);
    EXPECT(harness_get(&bench.h, &kind_service, "default", "j") == 0);
    pod_phase(&bench, "j-worker-0", "Running", 0);
    settle(&bench);
    EXPECT(job_is(&bench, "status.phase", "Queued"));
    pod_phase(&bench, "j-worker-1", "Running", 0);
    settle(&bench);
    EXPECT(job_is(&bench, "status.phase", "Running"));
    EXPECT(job_is(&bench, "status.workersStatus", "2/2 ready"));
    pod_phase(&bench, "j-worker-0", "Succeeded", 0);
    pod_phase(&bench, "j-worker-1", "Succeeded", 0);
    settle(&bench);
    EXPECT(job_is(&bench, "status.phase", "Succeeded"));
    EXPECT(job_is(&bench, "status.exitCode", "0"));
    close_bench(&bench);
}

TEST(runner_restarts_the_whole_gang_and_then_gives_up)
{
    struct bench bench;

    open_bench(&bench);
    queue(&bench);
    job(&bench, "\"jobQueue\":\"demo\",\"numGPUs\":4,\"command\":\"true\","
                "\"reliability\":{\"maxRestarts\":1}");
    for (int generation = 0; generation < 2; generation++) {
        pod_phase(&bench, "j-worker-0", "Running", 0);
        pod_phase(&bench, "j-worker-1", "Running", 0);
        settle(&bench);
        EXPECT(job_is(&bench, "status.phase", "Running"));
        EXPECT(job_is(&bench, "status.generation", generation ? "1" : "0"));
        pod_phase(&bench, "j-worker-1", "Failed", 7);
        settle(&bench);
    }
    EXPECT(job_is(&bench, "status.phase", "Failed"));
    EXPECT(job_is(&bench, "status.exitCode", "7"));
    EXPECT(job_is(&bench, "status.failure.pod", "j-worker-1"));
    EXPECT(job_is(&bench, "status.failure.message", "boom"));
    close_bench(&bench);
}

TEST(runner_tells_a_wrong_queue_at_once_and_goes_on_when_it_appears)
{
    struct bench bench;

    open_bench(&bench);
    job(&bench, "\"jobQueue\":\"demo\",\"numGPUs\":1,\"command\":\"true\"");
    EXPECT(job_is(&bench, "status.phase", "Pending"));
    EXPECT(strstr(harness_text(&bench.h, "status.message"),
                  "TorchrunQueue \"demo\" does not exist") != NULL);
    queue(&bench);
    settle(&bench);
    EXPECT(job_is(&bench, "status.phase", "Queued"));
    close_bench(&bench);
}

TEST(runner_keeps_the_further_objects_of_a_queue)
{
    struct bench bench;

    open_bench(&bench);
    EXPECT(harness_create(&bench.h, &kind_torchrunqueue, "default",
                          "{\"metadata\":{\"name\":\"demo\"},\"spec\":{\"resources\":[{\"name\":"
                          "\"settings\",\"nameMode\":\"prefix\",\"template\":{\"apiVersion\":"
                          "\"v1\",\"kind\":\"ConfigMap\",\"data\":{\"a\":\"1\"}}},{\"name\":"
                          "\"odd\",\"template\":{\"apiVersion\":\"x/v1\",\"kind\":\"Odd\"}}]}}") ==
           0);
    settle(&bench);
    EXPECT(harness_get(&bench.h, &kind_configmap, "default", "demo-settings") == 0);
    EXPECT(strcmp(harness_text(&bench.h, "data.a"), "1") == 0);
    EXPECT(harness_get(&bench.h, &kind_torchrunqueue, "default", "demo") == 0);
    EXPECT(strcmp(harness_text(&bench.h, "status.phase"), "Updating") == 0);
    EXPECT(strcmp(harness_text(&bench.h, "status.resourceStatuses.0.ready"), "true") == 0);
    EXPECT(strstr(harness_text(&bench.h, "status.resourceStatuses.1.message"), "no kind Odd"));
    EXPECT(harness_patch(&bench.h, &kind_configmap, "default", "demo-settings",
                         "{\"data\":{\"a\":\"2\"}}") == 0);
    settle(&bench);
    EXPECT(harness_get(&bench.h, &kind_configmap, "default", "demo-settings") == 0);
    EXPECT(strcmp(harness_text(&bench.h, "data.a"), "1") == 0);
    close_bench(&bench);
}

/* What a watcher hears of the pods of a job: each created, and none written to again. */
TEST(pods_are_grouped_when_they_are_created)
{
    static const struct {
        const struct kind *kind;
        const char *job;
        const char *pod;
        const char *why;
    } rows[] = {
        {&kind_torchrunjob, "\"jobQueue\":\"demo\",\"numGPUs\":4,\"command\":\"true\"",
         "j-worker-0", "a kind that the grouper watches from the start"},
        {&kind_job,
         "\"template\":{\"spec\":{\"restartPolicy\":\"Never\",\"containers\":[{\"name\":"
         "\"c\",\"image\":\"x\"}]}}",
         "j-", "one that its own controller watches"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct harness_watch heard = {0};
        struct bench bench;
        char body[1024];

        open_bench(&bench);
        store_set_admit_pod(bench.h.store, runner_admit_pod, bench.runner);
        queue(&bench);
        harness_watch(&bench.h, &heard, &(struct api_watch_request){.kind = &kind_pod});
        (void)snprintf(body, sizeof(body), "{\"metadata\":{\"name\":\"j\"},\"spec\":{%s}}",
                       rows[i].job);
        EXPECT(harness_create(&bench.h, rows[i].kind, "default", body) == 0);
        settle(&bench);
        const char *plus = strstr(heard.heard, "+j-");
        EXPECT(plus != NULL);
        EXPECT(!strchr(heard.heard, '~'));
        char name[64] = "";
        (void)sscanf(plus ? plus + 1 : "", "%63s", name);
        EXPECT(strncmp(name, rows[i].pod, strlen(rows[i].pod)) == 0);
        EXPECT(harness_get(&bench.h, &kind_pod, "default", name) == 0);
        EXPECT(strncmp(harness_text(&bench.h, "metadata.annotations.pod-group-name"), "pg-j-", 5) ==
               0);
        api_watch_stop(bench.h.api, heard.watch);
        store_set_admit_pod(bench.h.store, NULL, NULL);
        close_bench(&bench);
    }
}

/* A group's status is looked at 200 ms after the group or one of its pods changed, rounded up. */
TEST(runner_waits_for_what_settles_and_then_writes_once)
{
    struct bench bench;
    struct harness_watch heard = {0};

    open_bench(&bench);
    EXPECT(harness_create(&bench.h, &kind_podgroup, "default",
                          "{\"metadata\":{\"name\":\"g\"},\"spec\":{\"minMember\":1}}") == 0);
    settle(&bench);
    EXPECT(harness_get(&bench.h, &kind_podgroup, "default", "g") == 0);
    EXPECT(strcmp(harness_text(&bench.h, "status.phase"), "") == 0);
    harness_watch(&bench.h, &heard, &(struct api_watch_request){.kind = &kind_podgroup});
    bench.now_ms += 199;
    EXPECT(harness_create(&bench.h, &kind_pod, "default",
                          "{\"metadata\":{\"name\":\"p\",\"annotations\":{\"pod-group-name\":"
                          "\"g\"}},\"spec\":{\"containers\":[{\"name\":\"c\",\"image\":"
                          "\"x\"}]}}") == 0);
    settle(&bench);
    EXPECT(!strchr(heard.heard, '~'));
    bench.now_ms += 1;
    settle(&bench);
    EXPECT(harness_get(&bench.h, &kind_podgroup, "default", "g") == 0);
    EXPECT(strcmp(harness_text(&bench.h, "status.phase"), "Pending") == 0);
    EXPECT(strcmp(harness_text(&bench.h, "status.pending"), "1") == 0);
    const char *write = strchr(heard.heard, '~');
    EXPECT(write && !strchr(write + 1, '~'));
    /* What it has just written is nothing to look at again. */
    bench.now_ms += 100; /* others have something to settle by then */
    settle(&bench);
    EXPECT(runner_turn(bench.runner) == INT64_MAX);
    api_watch_stop(bench.h.api, heard.watch);
    close_bench(&bench);
}

/* An API whose news of one kind come late, as those of another watch may. */
struct late {
    struct api api;
    struct api *below;
    const struct kind *kind;
    api_watch_fn *fn;
    void *user;
    bool hold;
    VEC(const struct object *) held;
};

static void late_call(struct api *api,
                      const struct api_request *request,
                      api_done_fn *done,
                      void *user)
{
    api_call(((struct late *)api)->below, request, done, user);
}

static void late_change(void *user, const struct api_change *change)
{
    struct late *late = user;

    if (!late->hold)
        late->fn(late->user, change);
    else if (change->object)
        VEC_PUSH(NULL, &late->held, object_ref(change->object));
}

static struct api_watch *late_watch(struct api *api,
                                    const struct api_watch_request *request,
                                    api_watch_fn *fn,
                                    void *user)
{
    struct late *late = (struct late *)api;

    if (request->kind != late->kind)
        return api_watch(late->below, request, fn, user);
    late->fn = fn;
    late->user = user;
    return api_watch(late->below, request, late_change, late);
}

static void late_watch_stop(struct api *api, struct api_watch *watch)
{
    api_watch_stop(((struct late *)api)->below, watch);
}

static void late_release(struct late *late)
{
    late->hold = false;
    for (size_t i = 0; i < late->held.count; i++) {
        const struct object *object = late->held.items[i];

        late->fn(late->user, &(struct api_change){.event = API_MODIFIED,
                                                  .object = object,
                                                  .revision = object->revision});
        object_unref(object);
    }
    VEC_DONE(&late->held);
}

TEST(runner_looks_at_nothing_before_it_has_seen_its_own_writes)
{
    static const struct api_ops ops = {
        .call = late_call, .watch = late_watch, .watch_stop = late_watch_stop};
    struct bench bench = {.now_ms = 1000000};
    struct late late = {.kind = &kind_job};

    harness_open(&bench.h, NULL);
    late.below = bench.h.api;
    late.api = (struct api){.ops = &ops, .kinds = bench.h.api->kinds};
    EXPECT(runner_start(NULL, &late.api,
                        &(struct runner_options){
                            .now = now, .now_user = &bench, .seed = 1, .embedded = true},
                        &bench.runner, NULL) == 0);
    settle(&bench);
    EXPECT(harness_create(&bench.h, &kind_job, "default",
                          "{\"metadata\":{\"name\":\"j\"},\"spec\":{\"template\":{\"spec\":{"
                          "\"restartPolicy\":\"Never\",\"containers\":[{\"name\":\"c\","
                          "\"image\":\"x\"}]}}}}") == 0);
    settle(&bench);
    EXPECT(harness_list(&bench.h, &kind_pod, "default") == 0 && bench.h.item_count == 1);
    late.hold = true;
    pod_phase(&bench, bench.h.names, "Succeeded", 0);
    settle(&bench);
    /* It is complete, and the pod that was counted changed again; the runner has seen the pod. */
    EXPECT(harness_list(&bench.h, &kind_pod, "default") == 0 && bench.h.item_count == 1);
    late_release(&late);
    settle(&bench);
    EXPECT(harness_list(&bench.h, &kind_pod, "default") == 0 && bench.h.item_count == 1);
    EXPECT(harness_get(&bench.h, &kind_job, "default", "j") == 0);
    EXPECT(strcmp(harness_text(&bench.h, "status.succeeded"), "1") == 0);
    close_bench(&bench);
}

/* A watch that broke lists anew, in pages and in no order of revisions: one that is newer than the
 * write says nothing of the write. */
TEST(runner_takes_no_newer_object_of_a_list_for_its_own_write)
{
    static const struct api_ops ops = {
        .call = late_call, .watch = late_watch, .watch_stop = late_watch_stop};
    static const char job[] = "{\"metadata\":{\"name\":\"%s\"},\"spec\":{\"template\":{\"spec\":{"
                              "\"restartPolicy\":\"Never\",\"containers\":[{\"name\":\"c\","
                              "\"image\":\"x\"}]}}}}";
    struct bench bench = {.now_ms = 1000000};
    struct late late = {.kind = &kind_job};
    char body[256];

    harness_open(&bench.h, NULL);
    late.below = bench.h.api;
    late.api = (struct api){.ops = &ops, .kinds = bench.h.api->kinds};
    EXPECT(runner_start(NULL, &late.api,
                        &(struct runner_options){
                            .now = now, .now_user = &bench, .seed = 1, .embedded = true},
                        &bench.runner, NULL) == 0);
    settle(&bench);
    (void)snprintf(body, sizeof(body), job, "j");
    EXPECT(harness_create(&bench.h, &kind_job, "default", body) == 0);
    settle(&bench);
    EXPECT(harness_list(&bench.h, &kind_pod, "default") == 0 && bench.h.item_count == 1);
    late.hold = true;
    pod_phase(&bench, bench.h.names, "Succeeded", 0);
    settle(&bench);
    (void)snprintf(body, sizeof(body), job, "other");
    EXPECT(harness_create(&bench.h, &kind_job, "default", body) == 0);
    settle(&bench);
    const struct object *newest = late.held.items[late.held.count - 1];
    EXPECT(strncmp(newest->name.p, "other", 5) == 0);
    late.fn(late.user, &(struct api_change){.event = API_ADDED,
                                            .object = newest,
                                            .revision = newest->revision,
                                            .unordered = true});
    settle(&bench);
    /* One of each; a second one of j would be made from what j was before it completed. */
    EXPECT(harness_list(&bench.h, &kind_pod, "default") == 0 && bench.h.item_count == 2);
    late_release(&late);
    settle(&bench);
    EXPECT(harness_list(&bench.h, &kind_pod, "default") == 0 && bench.h.item_count == 2);
    close_bench(&bench);
}

static int64_t busy(void *user)
{
    return ((struct bench *)user)->now_ms++;
}

/* Others wait for the loop meanwhile. */
TEST(runner_leaves_to_the_next_turn_what_one_has_no_time_for)
{
    struct bench bench = {.now_ms = 1000000};
    char body[256];

    harness_open(&bench.h, NULL);
    EXPECT(runner_start(NULL, bench.h.api,
                        &(struct runner_options){
                            .now = busy, .now_user = &bench, .seed = 1, .embedded = true},
                        &bench.runner, NULL) == 0);
    settle(&bench);
    for (int i = 0; i < 100; i++) {
        (void)snprintf(body, sizeof(body),
                       "{\"metadata\":{\"name\":\"j%d\"},\"spec\":{\"template\":{\"spec\":{"
                       "\"restartPolicy\":\"Never\",\"containers\":[{\"name\":\"c\","
                       "\"image\":\"x\"}]}}}}",
                       i);
        EXPECT(harness_create(&bench.h, &kind_job, "default", body) == 0);
    }
    harness_settle(&bench.h);
    EXPECT(runner_turn(bench.runner) != INT64_MAX);
    harness_settle(&bench.h);
    EXPECT(harness_list(&bench.h, &kind_pod, "default") == 0);
    EXPECT(bench.h.item_count > 0 && bench.h.item_count < 50);
    for (int i = 0; i < 20; i++)
        settle(&bench);
    EXPECT(harness_list(&bench.h, &kind_pod, "default") == 0 && bench.h.item_count == 100);
    close_bench(&bench);
}

/* A pod group would make a pod of kube-scheduler's look like one of ours, a reservation pod too. */
TEST(on_a_cluster_pods_of_other_schedulers_are_not_grouped)
{
    static const char *const names[] = {"kai-scheduler", "default-scheduler"};
    struct bench bench = {.now_ms = 1000000};

    harness_open(&bench.h, NULL);
    EXPECT(runner_start(NULL, bench.h.api,
                        &(struct runner_options){.config = {.scheduler_name = STR("kai-scheduler"),
                                                            .other_schedulers = true},
                                                 .now = now,
                                                 .now_user = &bench,
                                                 .seed = 1},
                        &bench.runner, NULL) == 0);
    settle(&bench);
    for (size_t i = 0; i < 2; i++) {
        char body[256];

        (void)snprintf(body, sizeof(body),
                       "{\"metadata\":{\"name\":\"p%zu\"},\"spec\":{\"schedulerName\":\"%s\","
                       "\"containers\":[{\"name\":\"c\",\"image\":\"x\"}]}}",
                       i, names[i]);
        EXPECT(harness_create(&bench.h, &kind_pod, "default", body) == 0);
    }
    settle(&bench);
    EXPECT(harness_list(&bench.h, &kind_podgroup, "default") == 0 && bench.h.item_count == 1);
    EXPECT(strncmp(bench.h.names, "pg-p0-", 6) == 0);
    close_bench(&bench);
}

static void train(struct bench *bench, const char *name)
{
    char body[512];

    (void)snprintf(body, sizeof(body),
                   "{\"metadata\":{\"name\":\"%s\"},\"spec\":{\"runtimeRef\":{\"name\":\"plain\"},"
                   "\"trainer\":{\"command\":[\"true\"]}}}",
                   name);
    EXPECT(harness_create(&bench->h, &kind_trainjob, "default", body) == 0);
    settle(bench);
}

static bool knows(struct bench *bench, const char *name, const char *ca)
{
    return harness_get(&bench->h, &kind_configmap, "default", name) == 0 &&
           strstr(harness_text(&bench->h, "data"), ca) != NULL;
}

TEST(trainings_learn_of_a_new_authority_while_they_run)
{
    struct bench bench;

    open_bench(&bench);
    train(&bench, "before");
    runner_set_trainer(bench.runner, STR("https://here"), STR("one"));
    train(&bench, "told");
    EXPECT(knows(&bench, "told-tls-config", "one"));
    runner_rename(bench.runner, STR("other"), STR(""));
    runner_set_trainer(bench.runner, STR("https://here"), STR("two"));
    settle(&bench);
    EXPECT(knows(&bench, "told-tls-config", "two"));
    EXPECT(harness_get(&bench.h, &kind_configmap, "default", "before-tls-config") < 0);
    runner_rename(bench.runner, STR(""), STR(""));
    train(&bench, "later");
    EXPECT(knows(&bench, "later-tls-config", "two"));
    close_bench(&bench);
}

/* An API that writes no Jobs for a while. */
struct refusal {
    api_done_fn *done;
    void *user;
};

struct refusing {
    struct api api;
    struct api *below;
    bool full;
    int status;
    VEC(struct refusal) due; /* answers come later, as all of them do */
};

static void refusing_call(struct api *api,
                          const struct api_request *request,
                          api_done_fn *done,
                          void *user)
{
    struct refusing *refusing = (struct refusing *)api;

    if (refusing->full && request->kind == &kind_job && request->verb == API_PATCH)
        VEC_PUSH(NULL, &refusing->due, ((struct refusal){done, user}));
    else
        api_call(refusing->below, request, done, user);
}

static void refusing_answer(struct refusing *refusing)
{
    struct err err = {.text = "not now", .http_status = refusing->status};

    for (size_t i = 0; i < refusing->due.count; i++)
        refusing->due.items[i].done(refusing->due.items[i].user,
                                    &(struct api_result){.code = -EBUSY, .err = &err});
    refusing->due.count = 0;
}

static struct api_watch *refusing_watch(struct api *api,
                                        const struct api_watch_request *request,
                                        api_watch_fn *fn,
                                        void *user)
{
    return api_watch(((struct refusing *)api)->below, request, fn, user);
}

static void refusing_watch_stop(struct api *api, struct api_watch *watch)
{
    api_watch_stop(((struct refusing *)api)->below, watch);
}

/* A Job of 20 seconds, whose pod runs, and what is written of it is refused. */
static void refusing_open(struct bench *bench, struct refusing *refusing)
{
    static const struct api_ops ops = {
        .call = refusing_call, .watch = refusing_watch, .watch_stop = refusing_watch_stop};

    harness_open(&bench->h, NULL);
    refusing->below = bench->h.api;
    refusing->api = (struct api){.ops = &ops, .kinds = bench->h.api->kinds};
    EXPECT(runner_start(
               NULL, &refusing->api,
               &(struct runner_options){.now = now, .now_user = bench, .seed = 1, .embedded = true},
               &bench->runner, NULL) == 0);
    settle(bench);
    EXPECT(harness_create(&bench->h, &kind_job, "default",
                          "{\"metadata\":{\"name\":\"j\"},\"spec\":{\"activeDeadlineSeconds\":20,"
                          "\"template\":{\"spec\":{\"restartPolicy\":\"Never\",\"containers\":[{"
                          "\"name\":\"c\",\"image\":\"x\"}]}}}}") == 0);
    settle(bench);
    EXPECT(harness_list(&bench->h, &kind_pod, "default") == 0 && bench->h.item_count == 1);
    refusing->full = true;
    pod_phase(bench, bench->h.names, "Running", 0);
}

/* A quarter of a second. */
static void refusing_step(struct bench *bench, struct refusing *refusing, bool full)
{
    bench->now_ms += 250;
    refusing->full = full;
    settle(bench);
    refusing_answer(refusing);
}

/* Its deadline comes while the runner waits before it tries again, and the pause goes on beyond it. */
TEST(a_moment_to_look_again_within_a_pause_does_not_end_the_pause_for_ever)
{
    struct bench bench = {.now_ms = 1000000};
    struct refusing refusing = {.status = 503};

    refusing_open(&bench, &refusing);
    for (int i = 0; i < 240; i++)
        refusing_step(&bench, &refusing, i < 76); /* for 19 seconds */
    EXPECT(harness_get(&bench.h, &kind_job, "default", "j") == 0);
    EXPECT(strstr(harness_text(&bench.h, "status.conditions.0.reason"), "DeadlineExceeded") ||
           strstr(harness_text(&bench.h, "status.conditions.1.reason"), "DeadlineExceeded"));
    close_bench(&bench);
    VEC_DONE(&refusing.due);
}

/* It said when to ask again, and the client keeps to that: whoever waits longer is late when it is well. */
TEST(what_a_busy_server_refused_is_tried_again_within_two_seconds)
{
    struct bench bench = {.now_ms = 1000000};
    struct refusing refusing = {.status = 429};

    refusing_open(&bench, &refusing);
    for (int i = 0; i < 128; i++)
        refusing_step(&bench, &refusing, i < 120); /* for half a minute */
    EXPECT(harness_get(&bench.h, &kind_job, "default", "j") == 0);
    EXPECT(strstr(harness_text(&bench.h, "status"), "DeadlineExceeded"));
    close_bench(&bench);
    VEC_DONE(&refusing.due);
}
