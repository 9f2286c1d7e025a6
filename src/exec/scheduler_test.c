#include "api/api.h"
#include "api/kind.h"
#include "api/scheduler_name.h"
#include "base/arena.h"
#include "base/count.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "control/cluster/sharing.h"
#include "exec/scheduler.h"
#include "exec/scheduler_report.h"
#include "sched/sched.h"
#include "sched/shadow.h"
#include "store/harness.h"
#include "test.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* The scheduler on a store in memory, on a clock that is moved by hand. */
struct bench {
    struct api api; /* what it writes to: the store, but for binds that are to fail */
    struct harness h;
    const char *bad; /* pod that cannot be bound; NULL: none */
    int tried;       /* how often */
    size_t bad_at;   /* its place among those that were to be bound with it */
    bool late;       /* that it cannot is told by tell_bad() */
    bool lose;       /* pods are not created, and nobody says so */
    bool hold;       /* writes of the queue's status: their answers, and what they write */
    int held;        /* how many are */
    api_done_fn *done;
    void *user;
    struct scheduler *scheduler;
    int64_t now_ms;
};

static void call(struct api *api, const struct api_request *request, api_done_fn *done, void *user)
{
    struct bench *bench = (struct bench *)api;

    if (bench->lose && request->kind == &kind_pod && request->verb == API_CREATE) {
        done(user, &(struct api_result){.code = -ETIMEDOUT, .err = &(struct err){0}});
        return;
    }
    if (bench->hold && request->kind == &kind_queue && request->verb == API_PATCH) {
        bench->held++;
        bench->done = done;
        bench->user = user;
        return;
    }
    api_call(bench->h.api, request, done, user);
}

static void bind_unless_bad(struct api *api,
                            const struct api_binding *bindings,
                            size_t count,
                            api_done_fn *done,
                            void *user)
{
    struct bench *bench = (struct bench *)api;
    bool bad = false;

    for (size_t i = 0; i < count; i++)
        if (bench->bad && str_is(bindings[i].pod, bench->bad)) {
            bad = true;
            bench->bad_at = i;
        }
    if (!bad) {
        api_bind(bench->h.api, bindings, count, done, user);
        return;
    }
    bench->tried++;
    bench->done = done;
    bench->user = user;
    if (!bench->late)
        done(user, &(struct api_result){.code = -EIO});
}

static void tell_bad(struct bench *bench)
{
    bench->done(bench->user, &(struct api_result){.code = -EIO});
}

static void tell_good(struct bench *bench)
{
    bench->done(bench->user, &(struct api_result){0});
}

static struct api_watch *watch(struct api *api,
                               const struct api_watch_request *request,
                               api_watch_fn *fn,
                               void *user)
{
    return api_watch(((struct bench *)api)->h.api, request, fn, user);
}

static void watch_stop(struct api *api, struct api_watch *watch)
{
    api_watch_stop(((struct bench *)api)->h.api, watch);
}

static int64_t now(void *user)
{
    return ((struct bench *)user)->now_ms;
}

static void settle(struct bench *bench)
{
    for (int i = 0; i < 6; i++) {
        harness_settle(&bench->h);
        (void)scheduler_turn(bench->scheduler);
    }
    harness_settle(&bench->h);
}

static void later(struct bench *bench, int64_t ms)
{
    bench->now_ms += ms;
    settle(bench);
}

static void add_node(struct bench *bench, const char *name)
{
    char body[512];

    (void)snprintf(body, sizeof(body),
                   "{\"metadata\":{\"name\":\"%s\"},\"status\":{\"allocatable\":{\"cpu\":\"8\","
                   "\"memory\":\"64Gi\",\"pods\":\"110\",\"nvidia.com/"
                   "gpu\":\"1\"},\"conditions\":[{\"type\":\"Ready\","
                   "\"status\":\"True\"}]}}",
                   name);
    EXPECT(harness_create(&bench->h, &kind_node, "", body) == 0);
}

static void add_group(struct bench *bench, const char *name, int min)
{
    char body[256];

    (void)snprintf(body, sizeof(body),
                   "{\"metadata\":{\"name\":\"%s\"},\"spec\":{\"minMember\":%d,\"queue\":\"q\"}}",
                   name, min);
    EXPECT(harness_create(&bench->h, &kind_podgroup, "default", body) == 0);
}

static void add_pod_as(struct bench *bench,
                       const char *name,
                       const char *group,
                       const char *annotations,
                       const char *resources)
{
    char body[512];

    (void)snprintf(
        body, sizeof(body),
        "{\"metadata\":{\"name\":\"%s\",\"annotations\":{\"pod-group-name\":\"%s\"%s}},"
        "\"spec\":{\"containers\":[{\"name\":\"c\",\"image\":\"x\",\"resources\":{%s}}]}}",
        name, group, annotations, resources);
    EXPECT(harness_create(&bench->h, &kind_pod, "default", body) == 0);
}

static void add_pod(struct bench *bench, const char *name, const char *group)
{
    add_pod_as(bench, name, group, "", "\"requests\":{\"cpu\":\"1\"}");
}

static void add_half(struct bench *bench, const char *name, const char *group)
{
    add_pod_as(bench, name, group, ",\"gpu-fraction\":\"0.5\",\"runai/shared-gpu-configmap\":\"c\"",
               "");
}

static void add_whole(struct bench *bench, const char *name, const char *group)
{
    add_pod_as(bench, name, group, "", "\"limits\":{\"nvidia.com/gpu\":1}");
}

static void open_bench_as(struct bench *bench, const struct scheduler_options *options)
{
    static const struct api_ops ops = {
        .call = call, .bind = bind_unless_bad, .watch = watch, .watch_stop = watch_stop};

    memset(bench, 0, sizeof(*bench));
    bench->now_ms = 1000000;
    harness_open(&bench->h, NULL);
    bench->api = (struct api){.ops = &ops, .kinds = bench->h.api->kinds};
    EXPECT(harness_create(&bench->h, &kind_queue, "",
                          "{\"metadata\":{\"name\":\"q\"},\"spec\":{}}") == 0);
    add_node(bench, "n");
    EXPECT(scheduler_start(NULL, &bench->api, options, &bench->scheduler, NULL) == 0);
    settle(bench);
}

static void open_bench(struct bench *bench)
{
    open_bench_as(bench, &(struct scheduler_options){.now = now, .now_user = bench, .seed = 1});
}

static void close_bench(struct bench *bench)
{
    scheduler_stop(bench->scheduler);
    harness_close(&bench->h);
}

static bool is_told(struct bench *bench, const char *pod)
{
    EXPECT(harness_get(&bench->h, &kind_pod, "default", pod) == 0);
    return strcmp(harness_text(&bench->h, "status.conditions.0.status"), "False") == 0;
}

static bool is_bound(struct bench *bench, const char *pod)
{
    EXPECT(harness_get(&bench->h, &kind_pod, "default", pod) == 0);
    return strcmp(harness_text(&bench->h, "spec.nodeName"), "n") == 0;
}

/* Pods of a gang are not told that others are missing while others still come. */
TEST(scheduler_tells_a_gang_that_it_waits_once_no_more_pods_arrive)
{
    struct bench bench;

    open_bench(&bench);
    add_group(&bench, "g", 3);
    add_pod(&bench, "a", "g");
    later(&bench, 1);
    later(&bench, REPORTER_SHORT_MS - 1);
    add_pod(&bench, "b", "g");
    later(&bench, 1);
    later(&bench, REPORTER_SHORT_MS - 1);
    EXPECT(!is_told(&bench, "a") && !is_told(&bench, "b"));
    later(&bench, 1);
    EXPECT(is_told(&bench, "a") && is_told(&bench, "b"));
    EXPECT(harness_get(&bench.h, &kind_podgroup, "default", "g") == 0);
    EXPECT(harness_text(&bench.h, "status.message")[0]);
    add_pod(&bench, "c", "g");
    settle(&bench);
    EXPECT(is_bound(&bench, "a") && is_bound(&bench, "b") && is_bound(&bench, "c"));
    EXPECT(!is_told(&bench, "a"));
    EXPECT(harness_get(&bench.h, &kind_podgroup, "default", "g") == 0);
    EXPECT(!harness_text(&bench.h, "status.message")[0]);
    close_bench(&bench);
}

/* A gang that trickles in is told after a while nevertheless. */
TEST(scheduler_does_not_wait_for_ever_with_what_it_tells)
{
    struct bench bench;
    int64_t waited_ms = 0;

    open_bench(&bench);
    add_group(&bench, "g", 100);
    add_pod(&bench, "first", "g");
    settle(&bench);
    for (int i = 0; i < 100 && !is_told(&bench, "first"); i++) {
        char name[16];

        (void)snprintf(name, sizeof(name), "p-%d", i);
        add_pod(&bench, name, "g");
        later(&bench, REPORTER_SHORT_MS / 2);
        waited_ms += REPORTER_SHORT_MS / 2;
    }
    EXPECT(waited_ms == REPORTER_ARRIVING_MS);
    close_bench(&bench);
}

/* Of a long line nobody's words are written again with every pod that starts. */
TEST(scheduler_tells_other_words_for_the_same_reason_once_a_second)
{
    struct bench bench;
    char first[512], reason[64];

    open_bench(&bench);
    add_group(&bench, "g", 1);
    add_pod_as(&bench, "p", "g", "", "\"limits\":{\"nvidia.com/gpu\":2}");
    settle(&bench);
    EXPECT(harness_get(&bench.h, &kind_podgroup, "default", "g") == 0);
    (void)snprintf(first, sizeof(first), "%s", harness_text(&bench.h, "status.message"));
    (void)snprintf(reason, sizeof(reason), "%s",
                   harness_text(&bench.h, "status.schedulingConditions.0.reason"));
    EXPECT(first[0]);
    add_node(&bench, "n2");
    settle(&bench);
    later(&bench, REPORTER_AGAIN_MS - 1);
    EXPECT(harness_get(&bench.h, &kind_podgroup, "default", "g") == 0);
    EXPECT(strcmp(harness_text(&bench.h, "status.message"), first) == 0);
    later(&bench, 1);
    EXPECT(harness_get(&bench.h, &kind_podgroup, "default", "g") == 0);
    EXPECT(strcmp(harness_text(&bench.h, "status.message"), first) != 0);
    EXPECT(strcmp(harness_text(&bench.h, "status.schedulingConditions.0.reason"), reason) == 0);
    close_bench(&bench);
}

/* The first attempt that fails holds up nobody but its own gang, which waits longer each time. */
TEST(scheduler_goes_on_with_others_when_a_bind_fails)
{
    struct bench bench;

    open_bench(&bench);
    bench.bad = "bad";
    add_group(&bench, "sick", 1);
    add_pod(&bench, "bad", "sick");
    settle(&bench);
    EXPECT(bench.tried == 1 && !is_bound(&bench, "bad"));
    add_group(&bench, "well", 1);
    add_pod(&bench, "good", "well");
    settle(&bench);
    EXPECT(is_bound(&bench, "good"));
    EXPECT(bench.tried == 1);
    later(&bench, SCHED_RETRY_MIN_MS - 1);
    EXPECT(bench.tried == 1);
    later(&bench, 1);
    EXPECT(bench.tried == 2);
    later(&bench, 2 * SCHED_RETRY_MIN_MS - 1);
    EXPECT(bench.tried == 2);
    later(&bench, 1);
    EXPECT(bench.tried == 3);
    later(&bench, REPORTER_SHORT_MS);
    EXPECT(harness_get(&bench.h, &kind_podgroup, "default", "sick") == 0);
    EXPECT(strstr(harness_text(&bench.h, "status.message"), "tried again"));
    bench.bad = NULL;
    later(&bench, SCHED_RETRY_MAX_MS);
    EXPECT(is_bound(&bench, "bad"));
    EXPECT(harness_get(&bench.h, &kind_podgroup, "default", "sick") == 0);
    EXPECT(!harness_text(&bench.h, "status.message")[0]);
    close_bench(&bench);
}

/* As on a cluster, where a gang is bound pod by pod: the answer that its bind was undone overtakes
 * the events of the pod that was bound and is on its way out. */
TEST(scheduler_gives_nobody_the_room_of_a_pod_whose_bind_was_undone_before_it_is_gone)
{
    struct bench bench;

    open_bench(&bench);
    bench.bad = "bad";
    bench.late = true;
    add_group(&bench, "g", 2);
    add_whole(&bench, "a", "g");
    add_pod(&bench, "bad", "g");
    settle(&bench);
    EXPECT(bench.tried == 1);
    add_group(&bench, "h", 1);
    add_whole(&bench, "next", "h");
    settle(&bench);
    api_bind(bench.h.api,
             &(struct api_binding){.ns = STR("default"), .pod = STR("a"), .node = STR("n")}, 1,
             api_ignore, NULL);
    api_call(bench.h.api,
             &(struct api_request){.verb = API_DELETE,
                                   .kind = &kind_pod,
                                   .ns = STR("default"),
                                   .name = STR("a"),
                                   .body = STR("{\"gracePeriodSeconds\":30}")},
             api_ignore, NULL);
    bench.done(bench.user,
               &(struct api_result){.code = -EIO,
                                    .undone = (bool[]){bench.bad_at != 0, bench.bad_at == 0}});
    (void)scheduler_turn(bench.scheduler);
    settle(&bench);
    EXPECT(is_bound(&bench, "a") && !is_bound(&bench, "next"));
    EXPECT(harness_delete(&bench.h, &kind_pod, "default", "a", "{\"gracePeriodSeconds\":0}") == 0);
    settle(&bench);
    EXPECT(is_bound(&bench, "next"));
    close_bench(&bench);
}

static void stand_in(struct bench *bench, const char *pod)
{
    EXPECT(harness_call(
               &bench->h,
               &(struct api_request){
                   .verb = API_PATCH,
                   .kind = &kind_pod,
                   .ns = STR("default"),
                   .name = str_from(pod),
                   .patch = API_PATCH_MERGE,
                   .body = STR("{\"metadata\":{\"labels\":{\"muster.dev/stand-in\":\"1\"}}}")}) ==
           0);
    settle(bench);
}

/* Whoever may write labels of pods hides none that takes room, and leaves none behind. */
TEST(scheduler_counts_a_pod_that_has_a_node_whatever_its_label_says)
{
    struct bench bench;

    open_bench(&bench);
    add_group(&bench, "g", 1);
    add_group(&bench, "h", 1);
    add_whole(&bench, "a", "g");
    settle(&bench);
    EXPECT(is_bound(&bench, "a"));
    stand_in(&bench, "a");
    add_whole(&bench, "b", "h");
    settle(&bench);
    EXPECT(!is_bound(&bench, "b"));
    EXPECT(harness_delete(&bench.h, &kind_pod, "default", "a", "{\"gracePeriodSeconds\":0}") == 0);
    settle(&bench);
    EXPECT(is_bound(&bench, "b"));
    close_bench(&bench);
}

TEST(scheduler_leaves_pods_of_other_schedulers_to_them)
{
    static const char *const names[] = {"none", "default-scheduler", "kai-scheduler", "muster"};
    struct bench bench;
    struct sched_config config;

    sched_config_default(&config);
    config.scheduler_name = STR(SCHEDULER_EMBEDDED);
    open_bench_as(&bench, &(struct scheduler_options){
                              .config = &config, .now = now, .now_user = &bench, .seed = 1});
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        char body[512];

        (void)snprintf(
            body, sizeof(body),
            "{\"metadata\":{\"name\":\"p%zu\",\"annotations\":{\"pod-group-name\":\"g%zu\"}},"
            "\"spec\":{\"schedulerName\":\"%s\",\"containers\":[{\"name\":\"c\",\"image\":"
            "\"x\"}]}}",
            i, i, names[i]);
        EXPECT(harness_create(&bench.h, &kind_pod, "default", body) == 0);
        EXPECT((strstr(bench.h.warnings, "spec.schedulerName") != NULL) == (i == 0));
        (void)snprintf(body, sizeof(body), "g%zu", i);
        add_group(&bench, body, 1);
    }
    settle(&bench);
    EXPECT(!is_bound(&bench, "p0"));
    EXPECT(is_bound(&bench, "p1") && is_bound(&bench, "p2") && is_bound(&bench, "p3"));
    close_bench(&bench);
}

static void add_named(struct bench *bench, const char *name, const char *scheduler)
{
    char body[512];

    (void)snprintf(body, sizeof(body),
                   "{\"metadata\":{\"name\":\"%s\"},\"spec\":{\"schedulerName\":\"%s\","
                   "\"schedulingGroup\":{\"podGroupName\":\"g\"},\"containers\":[{\"name\":\"c\","
                   "\"image\":\"x\"}]}}",
                   name, scheduler);
    EXPECT(harness_create(&bench->h, &kind_pod, "default", body) == 0);
}

TEST(scheduler_tells_a_pod_the_group_that_stands_for_what_it_names_with_its_node)
{
    static const char path[] = "metadata.annotations.pod-group-name";
    struct bench bench;
    struct sched_config config;

    sched_config_default(&config);
    config.scheduler_name = STR("muster");
    open_bench_as(&bench, &(struct scheduler_options){
                              .config = &config, .now = now, .now_user = &bench, .seed = 1});
    add_group(&bench, "podgroup-g", 2);
    EXPECT(harness_patch(&bench.h, &kind_podgroup, "default", "podgroup-g",
                         "{\"metadata\":{\"annotations\":{\"muster.dev/refused\":\"no\"}}}") == 0);
    add_named(&bench, "x", "somebody-else");
    add_named(&bench, "a", "muster");
    add_named(&bench, "b", "muster");
    settle(&bench);
    EXPECT(!is_told(&bench, "x") && !is_bound(&bench, "a") && is_told(&bench, "a"));
    EXPECT(strcmp(harness_text(&bench.h, "status.conditions.0.message"), "no") == 0);
    EXPECT(!harness_text(&bench.h, path)[0]);
    EXPECT(harness_patch(&bench.h, &kind_podgroup, "default", "podgroup-g",
                         "{\"metadata\":{\"annotations\":{\"muster.dev/refused\":null}}}") == 0);
    settle(&bench);
    EXPECT(!is_bound(&bench, "x") && is_bound(&bench, "a") && is_bound(&bench, "b"));
    EXPECT(strcmp(harness_text(&bench.h, path), "podgroup-g") == 0);
    close_bench(&bench);
}

/* Bound by itself it would be a part of a gang. */
TEST(scheduler_binds_nothing_beyond_the_minimum_of_a_gang_that_could_not_be_bound)
{
    struct bench bench;

    open_bench(&bench);
    bench.bad = "a";
    bench.late = true;
    add_group(&bench, "g", 2);
    add_pod(&bench, "a", "g");
    add_pod(&bench, "b", "g");
    settle(&bench);
    EXPECT(bench.tried == 1);
    add_pod(&bench, "c", "g");
    settle(&bench);
    EXPECT(!is_bound(&bench, "c"));
    tell_bad(&bench);
    settle(&bench);
    EXPECT(!is_bound(&bench, "a") && !is_bound(&bench, "b") && !is_bound(&bench, "c"));
    bench.bad = NULL;
    later(&bench, SCHED_RETRY_MAX_MS);
    EXPECT(is_bound(&bench, "a") && is_bound(&bench, "b") && is_bound(&bench, "c"));
    close_bench(&bench);
}

static size_t reservations_in(struct bench *bench)
{
    EXPECT(harness_list(&bench->h, &kind_pod, "reserved") == 0);
    return bench->h.item_count;
}

static void open_sharing(struct bench *bench)
{
    static const struct sharing_settings sharing = {.ns = STR("reserved"), .image = STR("i")};
    struct sched_config config;

    sched_config_default(&config);
    config.devices = SCHED_DEVICES_RESERVED;
    config.scheduler_name = STR_NONE;
    open_bench_as(
        bench,
        &(struct scheduler_options){
            .config = &config, .sharing = &sharing, .now = now, .now_user = bench, .seed = 1});
    EXPECT(harness_create(&bench->h, &kind_namespace, "",
                          "{\"metadata\":{\"name\":\"reserved\"}}") == 0);
}

/* Its room is somebody else's then. */
TEST(scheduler_reserves_nothing_for_a_pod_that_went_while_its_gang_was_bound)
{
    struct bench bench;

    for (int goes = 0; goes < 2; goes++) {
        open_sharing(&bench);
        bench.bad = "a";
        bench.late = true;
        add_group(&bench, "g", 2);
        add_pod(&bench, "a", "g");
        add_pod(&bench, "b", "g");
        settle(&bench);
        add_half(&bench, "c", "g");
        settle(&bench);
        EXPECT(bench.tried == 1 && !reservations_in(&bench));
        if (goes)
            EXPECT(harness_delete(&bench.h, &kind_pod, "default", "c",
                                  "{\"gracePeriodSeconds\":0}") == 0);
        settle(&bench);
        tell_good(&bench);
        settle(&bench);
        EXPECT(reservations_in(&bench) == (goes ? 0 : 1));
        close_bench(&bench);
    }
}

/* Whoever joined it meanwhile has waited for less than that. */
TEST(scheduler_gives_up_a_reservation_that_does_not_tell_its_device_in_time)
{
    struct bench bench;

    open_sharing(&bench);
    add_group(&bench, "g", 1);
    add_half(&bench, "first", "g");
    settle(&bench);
    EXPECT(reservations_in(&bench) == 1);
    later(&bench, SHARING_TIMEOUT_MS / 2);
    add_group(&bench, "h", 1);
    add_half(&bench, "second", "h");
    later(&bench, SHARING_TIMEOUT_MS / 2 - 1);
    EXPECT(reservations_in(&bench) == 1);
    later(&bench, 1);
    EXPECT(reservations_in(&bench) == 0);
    later(&bench, SCHED_SHUT_MIN_MS); /* then the node is tried again */
    EXPECT(reservations_in(&bench) == 1);
    close_bench(&bench);
}

static bool queue_holds(struct bench *bench, const char *cpus)
{
    EXPECT(harness_get(&bench->h, &kind_queue, "", "q") == 0);
    return strcmp(harness_text(&bench->h, "status.allocated.cpu"), cpus) == 0;
}

/* Of two writes under way the older could arrive last; one that failed says nothing. */
TEST(scheduler_writes_the_status_of_a_queue_one_at_a_time_until_it_is_told)
{
    struct bench bench;

    open_bench(&bench);
    later(&bench, 1000);
    bench.hold = true;
    add_group(&bench, "g", 1);
    add_pod(&bench, "a", "g");
    later(&bench, 1000);
    EXPECT(bench.held == 1 && is_bound(&bench, "a"));
    add_group(&bench, "h", 1);
    add_pod(&bench, "b", "h");
    later(&bench, 1000);
    EXPECT(bench.held == 1 && is_bound(&bench, "b"));
    tell_good(&bench);
    later(&bench, 1000);
    EXPECT(bench.held == 2);
    bench.hold = false;
    tell_bad(&bench);
    settle(&bench);
    EXPECT(!queue_holds(&bench, "2"));
    later(&bench, 2000);
    EXPECT(queue_holds(&bench, "2"));
    close_bench(&bench);
}

/* It may come yet, and take the device. */
TEST(scheduler_counts_a_reservation_that_may_have_been_made_until_it_knows)
{
    struct bench bench;

    open_sharing(&bench);
    bench.lose = true;
    add_group(&bench, "g", 1);
    add_half(&bench, "half", "g");
    settle(&bench);
    EXPECT(harness_delete(&bench.h, &kind_pod, "default", "half", "{\"gracePeriodSeconds\":0}") ==
           0);
    add_group(&bench, "h", 1);
    add_whole(&bench, "whole", "h");
    settle(&bench);
    EXPECT(!is_bound(&bench, "whole") && reservations_in(&bench) == 0);
    bench.lose = false;
    later(&bench, 1000); /* made, seen and released */
    EXPECT(is_bound(&bench, "whole") && reservations_in(&bench) == 0);
    close_bench(&bench);
}

/* What its pod group says of its start. */
static void read_start(struct bench *bench, const char *group, char start[static 64])
{
    const char *text;

    EXPECT(harness_get(&bench->h, &kind_podgroup, "default", group) == 0);
    text = strstr(harness_text(&bench->h, "metadata.annotations"), "last-start-timestamp\":");
    (void)snprintf(start, 64, "%.45s", text ? text : "");
}

TEST(scheduler_counts_the_run_of_a_gang_anew_when_it_goes_on)
{
    struct bench bench;
    char before[64], after[64];

    open_bench(&bench);
    EXPECT(
        harness_create(&bench.h, &kind_podgroup, "default",
                       "{\"metadata\":{\"name\":\"g\"},\"spec\":{\"minMember\":1,\"queue\":\"q\","
                       "\"maxRunTime\":\"10h\"}}") == 0);
    add_whole(&bench, "a", "g");
    settle(&bench);
    later(&bench, 10000);
    EXPECT(is_bound(&bench, "a"));
    read_start(&bench, "g", before);
    EXPECT(before[0]);
    EXPECT(
        harness_patch(&bench.h, &kind_pod, "default", "a",
                      "{\"metadata\":{\"annotations\":{\"muster.dev/suspend\":\"hold\"}},"
                      "\"status\":{\"phase\":\"Running\",\"conditions\":[{\"type\":\"Suspended\","
                      "\"status\":\"True\",\"reason\":\"Frozen\"}]}}") == 0);
    later(&bench, 3600000);
    EXPECT(harness_patch(&bench.h, &kind_pod, "default", "a",
                         "{\"metadata\":{\"annotations\":{\"muster.dev/suspend\":\"hold\"}}}") ==
           0);
    EXPECT(harness_call(
               &bench.h,
               &(struct api_request){
                   .verb = API_PATCH,
                   .kind = &kind_pod,
                   .ns = STR("default"),
                   .name = STR("a"),
                   .subresource = STR("status"),
                   .body = STR("{\"status\":{\"phase\":\"Running\",\"conditions\":[{\"type\":"
                               "\"Suspended\",\"status\":\"True\",\"reason\":\"Frozen\"}]}}")}) ==
           0);
    later(&bench, 3600000);
    EXPECT(harness_patch(&bench.h, &kind_pod, "default", "a",
                         "{\"metadata\":{\"annotations\":{\"muster.dev/suspend\":\"yield\"}}}") ==
           0);
    settle(&bench);
    later(&bench, 10000);
    EXPECT(harness_get(&bench.h, &kind_pod, "default", "a") == 0);
    EXPECT(!strstr(harness_text(&bench.h, "metadata.annotations"), "muster.dev/suspend"));
    read_start(&bench, "g", after);
    EXPECT(after[0] && strcmp(before, after) != 0);
    close_bench(&bench);
}

static bool verdict_is(const struct bench *bench, const char *verdict)
{
    struct arena arena = {0};
    const struct json *json = shadow_json(scheduler_shadow(bench->scheduler), &arena);
    bool is = str_is(json_str_at(json, "gangs.0.verdict"), verdict);

    arena_done(&arena);
    return is;
}

TEST(a_shadow_decides_writes_nothing_and_sees_what_the_other_scheduler_does)
{
    struct bench bench;

    open_bench_as(&bench, &(struct scheduler_options){
                              .now = now, .now_user = &bench, .seed = 1, .shadow = true});
    bench.bad = "p";
    add_group(&bench, "g", 1);
    add_pod(&bench, "p", "g");
    settle(&bench);
    EXPECT(verdict_is(&bench, "onlyOurs"));
    later(&bench, 60000);
    EXPECT(bench.tried == 0); /* no bind was asked for */
    EXPECT(harness_get(&bench.h, &kind_pod, "default", "p") == 0);
    EXPECT(!*harness_text(&bench.h, "spec.nodeName"));
    api_bind(bench.h.api,
             &(struct api_binding){.ns = STR("default"), .pod = STR("p"), .node = STR("n")}, 1,
             api_ignore, NULL);
    settle(&bench);
    EXPECT(verdict_is(&bench, "same"));
    close_bench(&bench);
}

TEST(a_shadow_is_asked_before_it_learns_what_the_other_scheduler_did)
{
    struct bench bench;

    open_bench_as(&bench, &(struct scheduler_options){
                              .now = now, .now_user = &bench, .seed = 1, .shadow = true});
    add_group(&bench, "g", 1);
    add_pod(&bench, "p", "g");
    api_bind(bench.h.api,
             &(struct api_binding){.ns = STR("default"), .pod = STR("p"), .node = STR("n")}, 1,
             api_ignore, NULL);
    settle(&bench); /* both events come in one turn */
    EXPECT(verdict_is(&bench, "same"));
    close_bench(&bench);
}

TEST(a_shadow_tells_no_pod_that_it_waits)
{
    struct bench bench;

    open_bench_as(&bench, &(struct scheduler_options){
                              .now = now, .now_user = &bench, .seed = 1, .shadow = true});
    add_group(&bench, "g", 1);
    add_pod_as(&bench, "p", "g", "", "\"limits\":{\"nvidia.com/gpu\":2}");
    settle(&bench);
    EXPECT(verdict_is(&bench, "bothWait"));
    EXPECT(!is_told(&bench, "p"));
    close_bench(&bench);
}

/* Where the operator has made none yet; whoever named them may forget the names. */
TEST(a_shadow_takes_the_default_queues_to_be_there)
{
    char leaf[] = "leaf", top[] = "top";
    struct sched_queue_view view;
    struct bench bench;

    open_bench_as(&bench, &(struct scheduler_options){.now = now,
                                                      .now_user = &bench,
                                                      .seed = 1,
                                                      .shadow = true,
                                                      .default_queue = str_from(leaf),
                                                      .default_parent = str_from(top)});
    memset(leaf, 'x', sizeof(leaf) - 1);
    memset(top, 'x', sizeof(top) - 1);
    EXPECT(
        harness_create(&bench.h, &kind_pod, "default",
                       "{\"metadata\":{\"name\":\"p\"},\"spec\":{\"containers\":[{\"name\":\"c\","
                       "\"image\":\"x\"}]}}") == 0);
    settle(&bench);
    EXPECT(verdict_is(&bench, "onlyOurs"));
    EXPECT(sched_queue_view(scheduler_core(bench.scheduler), STR("leaf"), &view));
    EXPECT(sched_queue_view(scheduler_core(bench.scheduler), STR("top"), &view));
    EXPECT(!sched_queue_view(scheduler_core(bench.scheduler), STR("xxxx"), &view));
    EXPECT(!sched_queue_view(scheduler_core(bench.scheduler), STR("xxx"), &view));
    close_bench(&bench);
}

/* The other scheduler knows nothing of it. */
TEST(a_shadow_promises_no_room_that_is_still_in_use)
{
    struct bench bench;
    struct str node;

    open_bench_as(&bench, &(struct scheduler_options){
                              .now = now, .now_user = &bench, .seed = 1, .shadow = true});
    add_group(&bench, "g", 1);
    add_whole(&bench, "a", "g");
    api_bind(bench.h.api,
             &(struct api_binding){.ns = STR("default"), .pod = STR("a"), .node = STR("n")}, 1,
             api_ignore, NULL);
    settle(&bench);
    EXPECT(harness_delete(&bench.h, &kind_pod, "default", "a", "{\"gracePeriodSeconds\":30}") == 0);
    add_group(&bench, "h", 1);
    add_whole(&bench, "b", "h");
    settle(&bench);
    EXPECT(!sched_promised(scheduler_core(bench.scheduler), STR("default"), STR("b"), &node));
    close_bench(&bench);
}
