#include "api/api.h"
#include "api/kind.h"
#include "base/count.h"
#include "base/str.h"
#include "cache/cache.h"
#include "control/cluster/suspension.h"
#include "exec/suspender.h"
#include "sched/sched.h"
#include "store/harness.h"
#include "test.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* Suspended pods on a cluster: a store in memory, and commands that the test answers. */
struct bench {
    struct harness h;
    struct cache *cache;
    struct suspender *suspender;
    struct suspender_inside inside;
    struct api_watch *watch;
    int64_t now_ms;
    int runs;
    bool deaf;   /* what changes is not heard of */
    char way[8]; /* of the command under way; "": none is */
    suspender_ended_fn *ended;
    void *user;
};

static void start_command(void *user,
                          const struct suspender_command *command,
                          suspender_ended_fn *ended,
                          void *ended_user)
{
    struct bench *bench = user;

    EXPECT(str_is(command->ns, "default") && str_is(command->pod, "p") &&
           str_is(command->container, "c") && command->count == 3);
    EXPECT(strcmp(command->words[0], "/.muster-gpu/muster-launch") == 0);
    bench->runs++;
    (void)snprintf(bench->way, sizeof(bench->way), "%s", command->words[2]);
    bench->ended = ended;
    bench->user = ended_user;
}

static void on_change(void *user, const struct api_change *change)
{
    struct bench *bench = user;

    if (bench->deaf)
        return;
    if (change->event == API_DELETED)
        cache_drop(bench->cache, change->object);
    else if (change->event == API_ADDED || change->event == API_MODIFIED)
        cache_put(bench->cache, change->object);
    if (change->object)
        suspender_observe(bench->suspender, change->event == API_DELETED ? SCHED_DROP : SCHED_PUT,
                          change->object);
}

static int64_t now(void *user)
{
    return ((struct bench *)user)->now_ms;
}

static void again(void *user)
{
    (void)user; /* the test turns it */
}

static void settle(struct bench *bench)
{
    for (int i = 0; i < 6; i++) {
        harness_settle(&bench->h);
        (void)suspender_turn(bench->suspender, bench->now_ms);
    }
    harness_settle(&bench->h);
}

static void lead(struct bench *bench)
{
    bench->inside = (struct suspender_inside){.run = start_command, .user = bench};
    bench->cache = cache_new(1);
    bench->suspender = suspender_new(&(struct suspender_options){.api = bench->h.api,
                                                                 .cache = bench->cache,
                                                                 .inside = &bench->inside,
                                                                 .now = now,
                                                                 .again = again,
                                                                 .user = bench});
    bench->watch =
        api_watch(bench->h.api, &(struct api_watch_request){.kind = &kind_pod}, on_change, bench);
    settle(bench);
}

/* The connections of an operator that is gone end as well. */
static void stop(struct bench *bench)
{
    api_watch_stop(bench->h.api, bench->watch);
    suspender_free(bench->suspender);
    if (bench->way[0])
        bench->ended(bench->user, -EPIPE, 0, STR_NONE, STR("lost"));
    bench->way[0] = '\0';
    cache_free(bench->cache);
}

static void patch(struct bench *bench, const char *annotation)
{
    char body[256];

    (void)snprintf(body, sizeof(body),
                   "{\"metadata\":{\"annotations\":{\"muster.dev/suspend\":%s}}}", annotation);
    EXPECT(harness_patch(&bench->h, &kind_pod, "default", "p", body) == 0);
    settle(bench);
}

static void open_bench(struct bench *bench)
{
    memset(bench, 0, sizeof(*bench));
    bench->now_ms = 1000000;
    harness_open(&bench->h, NULL);
    EXPECT(harness_create(&bench->h, &kind_node, "", "{\"metadata\":{\"name\":\"a\"}}") == 0);
    EXPECT(harness_create(&bench->h, &kind_pod, "default",
                          "{\"metadata\":{\"name\":\"p\",\"annotations\":{\"gpu-fraction\":\"0.5\","
                          "\"muster.dev/may-be-suspended\":\"true\"}},\"spec\":{\"nodeName\":\"a\","
                          "\"containers\":[{\"name\":\"c\",\"image\":\"x\"}]}}") == 0);
    EXPECT(
        harness_call(&bench->h,
                     &(struct api_request){
                         .verb = API_PATCH,
                         .kind = &kind_pod,
                         .ns = STR("default"),
                         .name = STR("p"),
                         .subresource = STR("status"),
                         .patch = API_PATCH_MERGE,
                         .body = STR("{\"status\":{\"phase\":\"Running\",\"containerStatuses\":[{"
                                     "\"name\":\"c\",\"state\":{\"running\":{\"startedAt\":"
                                     "\"2026-01-01T10:00:00Z\"}}}]}}")}) == 0);
    lead(bench);
}

static void close_bench(struct bench *bench)
{
    stop(bench);
    harness_close(&bench->h);
}

static void answer(struct bench *bench,
                   int code,
                   int status,
                   const char *output,
                   const char *errors)
{
    EXPECT(bench->way[0]);
    bench->way[0] = '\0';
    bench->ended(bench->user, code, status, str_from(output), str_from(errors));
    settle(bench);
}

static bool says(struct bench *bench, const char *status, const char *reason)
{
    EXPECT(harness_get(&bench->h, &kind_pod, "default", "p") == 0);
    for (int i = 0; i < 8; i++) {
        char path[64];

        (void)snprintf(path, sizeof(path), "status.conditions.%d.type", i);
        if (strcmp(harness_text(&bench->h, path), "Suspended") != 0)
            continue;
        (void)snprintf(path, sizeof(path), "status.conditions.%d.status", i);
        bool same = strcmp(harness_text(&bench->h, path), status) == 0;
        (void)snprintf(path, sizeof(path), "status.conditions.%d.reason", i);
        return same && strcmp(harness_text(&bench->h, path), reason) == 0;
    }
    return false;
}

static bool is_gone(struct bench *bench)
{
    return harness_get(&bench->h, &kind_pod, "default", "p") != 0 ||
           harness_text(&bench->h, "metadata.deletionTimestamp")[0];
}

TEST(suspender_moves_a_pod_out_and_in_and_says_each_step_before_it_begins)
{
    struct bench bench;

    open_bench(&bench);
    EXPECT(bench.runs == 0);
    patch(&bench, "\"yield\"");
    EXPECT(strcmp(bench.way, "out") == 0 && says(&bench, "False", "Suspending"));
    answer(&bench, 0, 0, "ok out 1 40\n", "");
    EXPECT(says(&bench, "True", "Checkpointed") && bench.runs == 1);
    settle(&bench);
    EXPECT(bench.runs == 1);
    patch(&bench, "null");
    EXPECT(strcmp(bench.way, "in") == 0 && says(&bench, "True", "Resuming"));
    answer(&bench, 0, 0, "ok in 1 0\n", "");
    EXPECT(says(&bench, "False", "Resumed") && bench.runs == 2 && !is_gone(&bench));
    patch(&bench, "\"hold\""); /* and again */
    EXPECT(strcmp(bench.way, "out") == 0);
    answer(&bench, 0, 0, "ok out 1 40\n", "");
    EXPECT(says(&bench, "True", "Checkpointed"));
    close_bench(&bench);
}

/* Or a pod whose share others have by now would be said to be on its way out of it again. */
TEST(suspender_decides_nothing_before_it_has_seen_what_it_wrote)
{
    struct bench bench;

    open_bench(&bench);
    patch(&bench, "\"hold\"");
    bench.deaf = true;
    answer(&bench, 0, 0, "ok out 1 40\n", "");
    EXPECT(says(&bench, "True", "Checkpointed") && bench.runs == 1);
    bench.deaf = false;
    patch(&bench, "\"yield\"");
    EXPECT(says(&bench, "True", "Checkpointed") && bench.runs == 1);
    patch(&bench, "null");
    EXPECT(strcmp(bench.way, "in") == 0 && says(&bench, "True", "Resuming"));
    answer(&bench, 0, 0, "ok in 1 0\n", "");
    EXPECT(says(&bench, "False", "Resumed"));
    close_bench(&bench);
}

TEST(suspender_that_is_replaced_at_any_step_is_followed_by_one_that_goes_on)
{
    struct bench bench;

    open_bench(&bench);
    patch(&bench, "\"yield\"");
    stop(&bench); /* in the middle of the copy */
    lead(&bench);
    EXPECT(strcmp(bench.way, "out") == 0 && bench.runs == 2);
    answer(&bench, 0, 0, "ok out 1 40\n", "");
    stop(&bench); /* when it is suspended */
    lead(&bench);
    EXPECT(bench.runs == 2 && says(&bench, "True", "Checkpointed"));
    patch(&bench, "null");
    stop(&bench); /* on the way back */
    lead(&bench);
    EXPECT(strcmp(bench.way, "in") == 0 && bench.runs == 4);
    answer(&bench, 0, 0, "ok in 1 0\n", "");
    EXPECT(says(&bench, "False", "Resumed"));
    close_bench(&bench);
}

TEST(suspender_evicts_what_cannot_be_suspended_where_others_wait_and_lets_it_run_where_not)
{
    struct bench bench;

    open_bench(&bench);
    patch(&bench, "\"hold\"");
    answer(&bench, 0, 1, "", "no room\n");
    EXPECT(says(&bench, "False", "SuspendFailed") && !is_gone(&bench) && bench.runs == 1);
    patch(&bench, "null");
    EXPECT(says(&bench, "False", "Resumed"));
    patch(&bench, "\"yield\"");
    answer(&bench, 0, 1, "", "no room\n");
    EXPECT(is_gone(&bench));
    close_bench(&bench);
}

TEST(suspender_evicts_what_cannot_go_on)
{
    struct bench bench;

    open_bench(&bench);
    patch(&bench, "\"yield\"");
    answer(&bench, 0, 0, "ok out 1 40\n", "");
    patch(&bench, "null");
    answer(&bench, 0, 1, "", "memory of the GPU cannot be had back\n");
    EXPECT(is_gone(&bench));
    close_bench(&bench);
}

TEST(suspender_tries_again_where_the_container_was_not_reached)
{
    struct bench bench;

    open_bench(&bench);
    patch(&bench, "\"yield\"");
    for (int i = 1; i < SUSPENSION_TRIES_OUT; i++) {
        answer(&bench, -EPIPE, 0, "", "the connection was lost");
        EXPECT(bench.runs == i);
        bench.now_ms += SUSPENSION_RETRY_MS;
        settle(&bench);
        EXPECT(bench.runs == i + 1);
    }
    answer(&bench, -EPIPE, 0, "", "the connection was lost");
    EXPECT(is_gone(&bench));
    close_bench(&bench);
}

TEST(suspender_counts_tries_anew_once_a_step_went_well)
{
    struct bench bench;

    open_bench(&bench);
    patch(&bench, "\"yield\"");
    for (int i = 1; i < SUSPENSION_TRIES_OUT; i++) {
        answer(&bench, -EPIPE, 0, "", "the connection was lost");
        bench.now_ms += SUSPENSION_RETRY_MS;
        settle(&bench);
    }
    answer(&bench, 0, 0, "ok out 1 40\n", "");
    patch(&bench, "null");
    answer(&bench, 0, 0, "ok in 1 0\n", "");
    patch(&bench, "\"yield\"");
    answer(&bench, -EPIPE, 0, "", "the connection was lost");
    EXPECT(!is_gone(&bench));
    bench.now_ms += SUSPENSION_RETRY_MS;
    settle(&bench);
    EXPECT(strcmp(bench.way, "out") == 0 && bench.runs == SUSPENSION_TRIES_OUT + 3);
    close_bench(&bench);
}
