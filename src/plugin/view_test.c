#include "api/kind.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/json.h"
#include "plugin/view.h"
#include "plugin/view_scene.h"
#include "test.h"

#include <stddef.h>
#include <stdlib.h>
#include <time.h>

static const char *const waiting_groups[] = {
    "{\"metadata\":{\"name\":\"pg-b-u-b\",\"namespace\":\"n\"," CREATED "},\"status\":{"
    "\"message\":\"needs 4 "
    "GPUs\",\"explanation\":{\"estimate\":{\"earliest\":\"2026-11-15T03:20:00Z\","
    "\"latest\":\"2026-11-15T03:45:00Z\",\"percent\":80,\"similarJobs\":37}}}}",
    NULL};

TEST(list_shows_a_line_a_job_and_a_dash_for_what_is_not_known)
{
    _cleanup_(arena_done) struct arena arena = {0};
    _cleanup_(buf_done) struct buf out = {0};

    view_jobs(&out, &arena, view_scene_objects(&arena, &kind_torchrunjob, view_scene_jobs),
              &(struct view_jobs_options){.now_ms = view_scene_now_ms()});
    EXPECT(str_is(buf_str(&out),
                  "NAME   QUEUE   GPUS   PODS   PHASE       WORKERS   AGE   COMMAND\n"
                  "a      q       8      2      Running     2/2       60m   \n"
                  "b      q       -      -      Queued                60m   \n"
                  "c      q       8      -      Suspended             60m   \n"
                  "d      r       8      -      Succeeded             60m   \n"));
}

TEST(list_wide_shows_restarts_and_messages_and_all_namespaces_the_namespace)
{
    _cleanup_(arena_done) struct arena arena = {0};
    _cleanup_(buf_done) struct buf out = {0};
    struct view_objects jobs = view_scene_objects(&arena, &kind_torchrunjob, view_scene_jobs);

    jobs.count = 2;
    view_jobs(&out, &arena, jobs,
              &(struct view_jobs_options){
                  .wide = true,
                  .with_namespace = true,
                  .groups = view_scene_objects(&arena, &kind_podgroup, waiting_groups),
                  .now_ms = view_scene_now_ms()});
    EXPECT(str_contains(buf_str(&out), STR("   RESTARTS   STARTS IN   MESSAGE\n")));
    EXPECT(str_contains(buf_str(&out), STR("n/a ")));
    EXPECT(str_contains(buf_str(&out), STR("   0          -           all run\n")));
    EXPECT(str_contains(buf_str(&out), STR("   3          20-45 min   waits for 4 GPUs\n")));
}

TEST(list_wide_on_a_narrow_terminal_has_its_words_below_each_job)
{
    _cleanup_(arena_done) struct arena arena = {0};
    _cleanup_(buf_done) struct buf out = {0};
    struct view_objects jobs = view_scene_objects(&arena, &kind_torchrunjob, view_scene_jobs);

    jobs.count = 2;
    view_jobs(&out, &arena, jobs,
              &(struct view_jobs_options){
                  .wide = true,
                  .groups = view_scene_objects(&arena, &kind_podgroup, waiting_groups),
                  .wraps_at = 60,
                  .now_ms = view_scene_now_ms()});
    EXPECT(str_is(buf_str(&out), "NAME   QUEUE   GPUS   PODS   PHASE     WORKERS   AGE\n"
                                 "a      q       8      2      Running   2/2       60m\n"
                                 "    all run\n"
                                 "b      q       -      -      Queued              60m\n"
                                 "    3 restarts; starts in 20-45 min; waits for 4 GPUs\n"));
}

TEST(a_job_that_waits_says_when_it_starts_and_others_say_nothing)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct view_objects jobs = view_scene_objects(&arena, &kind_torchrunjob, view_scene_jobs);
    struct view_objects groups = view_scene_objects(&arena, &kind_podgroup, waiting_groups);

    EXPECT(str_is(view_starts(&arena, jobs.items[1], groups, view_scene_now_ms()),
                  "starts in about 20-45 min (80 %), from 37 similar jobs"));
    EXPECT(!view_starts(&arena, jobs.items[0], groups, view_scene_now_ms()).len);
}

TEST(status_shows_pods_with_their_words)
{
    static const char *const some_pods[] = {
        "{\"metadata\":{\"name\":\"a-worker-0\",\"namespace\":\"n\",\"labels\":"
        "{\"torchrun.ai/generation\":\"1\"}},\"spec\":{\"nodeName\":\"m\"},"
        "\"status\":{\"phase\":\"Running\"}}",
        "{\"metadata\":{\"name\":\"a-worker-1\",\"namespace\":\"n\","
        "\"deletionTimestamp\":\"2026-11-15T02:00:00Z\"},\"status\":{\"phase\":\"Running\"}}",
        NULL};
    _cleanup_(arena_done) struct arena arena = {0};
    _cleanup_(buf_done) struct buf out = {0};

    view_pods(&out, &arena, (struct view_objects){0}, 0);
    EXPECT(out.len == 0);
    view_pods(&out, &arena, view_scene_objects(&arena, &kind_pod, some_pods), 0);
    EXPECT(str_contains(buf_str(&out), STR("\na-worker-0   Running       m        1")));
    EXPECT(str_contains(buf_str(&out), STR("\na-worker-1   Terminating   <none>")));
}

TEST(a_pods_words_are_why_it_waits_or_how_it_ended_in_one_line)
{
    static const struct {
        const char *why;
        const char *pod;
        const char *words;
    } rows[] = {
        {"nothing to say", "{}", ""},
        {"it waits",
         "{\"status\":{\"containerStatuses\":[{\"state\":{\"waiting\":{\"message\":\"pulls\"}}}]}}",
         "pulls"},
        {"it ended; its last lines are not shown",
         "{\"status\":{\"containerStatuses\":[{\"state\":{\"terminated\":{\"message\":"
         "\"exit code 1; its last lines:\\nTraceback\"}}}]}}",
         "exit code 1"},
        {"when it ended, by the clock of the person",
         "{\"status\":{\"containerStatuses\":[{\"state\":{\"terminated\":{\"message\":"
         "\"exit code 1 at 2026-11-15T23:03:04Z\"}}}]}}",
         "exit code 1 at 2026-11-16T00:03:04+01:00"},
        {"no place for it",
         "{\"status\":{\"conditions\":[{\"type\":\"PodScheduled\",\"status\":\"False\","
         "\"message\":\"no GPUs\"}]}}",
         "no GPUs"},
        {"it was placed",
         "{\"status\":{\"conditions\":[{\"type\":\"PodScheduled\",\"status\":\"True\","
         "\"message\":\"old\"}]}}",
         ""},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct json *pod = NULL;

        test_case(rows[i].why);
        EXPECT(json_parse(&arena, str_from(rows[i].pod), &pod, NULL) == 0);
        EXPECT(setenv("TZ", "CET-1", 1) == 0);
        tzset();
        EXPECT(str_is(view_pod_words(&arena, pod), rows[i].words));
    }
    EXPECT(unsetenv("TZ") == 0);
    tzset();
}

TEST(top_counts_gpus_of_pods_that_have_not_ended)
{
    static const char *const some_nodes[] = {
        "{\"metadata\":{\"name\":\"m\"},\"status\":{\"allocatable\":{\"nvidia.com/gpu\":\"8\"}}}",
        "{\"metadata\":{\"name\":\"cpu\"}}", NULL};
    static const char *const some_pods[] = {
        "{\"metadata\":{\"name\":\"p\",\"namespace\":\"n\"},\"spec\":{\"nodeName\":\"m\","
        "\"containers\":[{\"resources\":{\"limits\":{\"nvidia.com/gpu\":\"4\"}}}]},"
        "\"status\":{\"phase\":\"Running\"}}",
        "{\"metadata\":{\"name\":\"q\",\"namespace\":\"n\"},\"spec\":{\"nodeName\":\"m\","
        "\"containers\":[{\"resources\":{\"requests\":{\"nvidia.com/gpu\":\"4\"}}}]},"
        "\"status\":{\"phase\":\"Succeeded\"}}",
        NULL};
    _cleanup_(arena_done) struct arena arena = {0};
    _cleanup_(buf_done) struct buf out = {0};
    struct view_top view = {.nodes = view_scene_objects(&arena, &kind_node, some_nodes),
                            .pods = view_scene_objects(&arena, &kind_pod, some_pods),
                            .jobs = view_scene_objects(&arena, &kind_torchrunjob, view_scene_jobs),
                            .now_ms = view_scene_now_ms()};

    view_top(&out, &arena, &view);
    EXPECT(str_starts(buf_str(&out),
                      STR("muster  2026-11-15T03:00:00Z  2 nodes, 2 pods, 4 jobs\n\n")));
    EXPECT(str_contains(buf_str(&out),
                        STR("m                    [############............] 4 of 8 GPUs\n")));
    EXPECT(str_contains(buf_str(&out),
                        STR("cpu                  [........................] 0 of 0 GPUs\n")));
    EXPECT(str_contains(buf_str(&out), STR("waits for 4 GPUs\n")));
    EXPECT(!str_contains(buf_str(&out), STR("all run")));
}
