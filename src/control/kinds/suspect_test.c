#include "api/kind.h"
#include "api/launch.h"
#include "api/suspect.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/json.h"
#include "base/str.h"
#include "control/core/controllers.h"
#include "control/core/scene.h"
#include "control/job/job.h"
#include "control/job/job_engine.h"
#include "test.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* What a job says of its nodes, and what it does when one is not well. */

static const struct {
    const char *why;
    struct job_failure failure;
    const char *word;
} rows[] = {
    {"a hang", {.reason = STR("Hung"), .exit_code = 137}, "Hung"},
    {"an exception",
     {.exit_code = 1, .evidence = JOB_EVIDENCE_OWN, .message = STR("ValueError")},
     NULL},
    {"too little memory",
     {.exit_code = 137, .reason = STR("OOMKilled"), .evidence = JOB_EVIDENCE_CERTAIN},
     NULL},
    {"killed", {.exit_code = 139, .evidence = JOB_EVIDENCE_OWN}, "Killed"},
    {"told to end", {.exit_code = 143, .evidence = JOB_EVIDENCE_TOLD}, NULL},
    {"it lost a peer, and aborted",
     {.exit_code = 134, .evidence = JOB_EVIDENCE_PEER, .message = STR("Connection reset by peer")},
     NULL},
    {"its card",
     {.exit_code = 1,
      .evidence = JOB_EVIDENCE_OWN,
      .message = STR("RuntimeError: CUDA error: uncorrectable ECC error encountered")},
     "Device"},
    {"too little memory of its card",
     {.exit_code = 1,
      .evidence = JOB_EVIDENCE_OWN,
      .message = STR("torch.OutOfMemoryError: CUDA out of memory")},
     NULL},
    {"an assertion of its own on the card",
     {.exit_code = 1,
      .evidence = JOB_EVIDENCE_OWN,
      .message = STR("RuntimeError: CUDA error: device-side assert triggered")},
     NULL},
    {"the test before the start",
     {.exit_code = 75, .evidence = JOB_EVIDENCE_OWN, .message = STR(LAUNCH_PREFLIGHT "GPU 1: x")},
     "Preflight"},
};

TEST(only_failures_that_may_be_the_nodes_are_counted_against_it)
{
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const char *word = job_blame_word(&rows[i].failure);

        test_case(rows[i].why);
        EXPECT(str_eq(str_from(word), str_from(rows[i].word)));
    }
}

#define NODE(name, taints)                                                                      \
    "{'metadata':{'name':'" name "'},'spec':{'taints':[" taints                                 \
    "]},'status':{'conditions':[{'type':'Ready','status':'True'}],'nodeInfo':{'containerRuntim" \
    "eVersion':'muster-shim://1'}}}"
#define TAINT(key, value) "{'key':'muster.dev/" key "','value':'" value "','effect':'NoSchedule'}"

static void begin(struct scene *scene, const char *more)
{
    scene_open(scene);
    scene_put(scene, &kind_node, NODE("a", ""));
    scene_put(scene, &kind_node, NODE("b", ""));
    scene_put(scene, &kind_node, NODE("c", ""));
    scene_put(scene, &kind_torchrunqueue,
              "{'metadata':{'name':'q'},'spec':{'nodeResources':{'gpus':2}}}");
    scene_put(scene, &kind_torchrunjob,
              str_c(&scene->arena,
                    str_printf(&scene->arena,
                               "{'metadata':{'name':'j'},'spec':{'jobQueue':'q','command':'x',"
                               "'numGPUs':4,'numNodes':2,'reliability':{%s}}}",
                               more)));
    scene_run(scene, &torchrun_job_controller, "j");
    for (int i = 0; i < 2; i++)
        scene_patch(scene, &kind_pod,
                    str_c(&scene->arena, str_printf(&scene->arena, "j-worker-%d", i)),
                    str_c(&scene->arena,
                          str_printf(&scene->arena,
                                     "{'spec':{'nodeName':'%c'},'status':{'phase':'Running',"
                                     "'containerStatuses':[{'name':'trainer','state':{'running':{}}"
                                     "}]}}",
                                     'a' + i)));
    scene_run(scene, &torchrun_job_controller, "j");
}

static const struct json *status_of(struct scene *scene)
{
    return json_get(scene_get(scene, &kind_torchrunjob, "j"), "status");
}

static void fail(struct scene *scene, const char *message, int code)
{
    scene_patch(scene, &kind_pod, "j-worker-1",
                str_c(&scene->arena,
                      str_printf(&scene->arena,
                                 "{'status':{'phase':'Failed','containerStatuses':[{'name':"
                                 "'trainer','state':{'terminated':{'exitCode':%d,'message':'%s',"
                                 "'finishedAt':'1970-01-01T00:16:40Z'}}}]}}",
                                 code, message)));
    scene_run(scene, &torchrun_job_controller, "j");
}

static struct str blame_of(struct scene *scene, const char *node)
{
    return json_str(json_get(json_at(scene_get(scene, &kind_node, node), "metadata.annotations"),
                             SUSPECT_BLAME "u-j"));
}

TEST(a_job_says_on_the_node_itself_what_failed_there)
{
    _cleanup_(scene_close) struct scene scene;

    begin(&scene, "");
    fail(&scene, "rank 2 was killed by SIGSEGV at 1970-01-01T00:16:30Z", 139);
    EXPECT(str_contains(blame_of(&scene, "b"), STR(" Killed n/j: rank 2 was killed by SIGSEGV")));
    EXPECT(!blame_of(&scene, "a").len);
    EXPECT(json_i64_or(json_get(status_of(&scene), "restarts"), 0) == 1);
}

TEST(an_exception_is_not_held_against_the_node)
{
    _cleanup_(scene_close) struct scene scene;

    begin(&scene, "");
    fail(&scene, "rank 2 ended with exit code 1 at 1970-01-01T00:16:30Z", 1);
    EXPECT(!blame_of(&scene, "b").len);
}

TEST(a_gang_leaves_a_node_that_is_proven_bad_and_no_other)
{
    static const struct {
        const char *why;
        const char *taint;
        bool leaves;
    } cases[] = {
        {"jobs blame it", NODE("b", TAINT("suspect", "Blamed")), false},
        {"the test failed", NODE("b", TAINT("suspect", "SelfTestFailed")), true},
        {"a card is off the bus", NODE("b", TAINT("gpu-unhealthy", "XID")), true},
        {"an error was contained", NODE("b", TAINT("gpu-unhealthy", "XIDContained")), false},
        {"a card is hot", NODE("b", TAINT("gpu-unhealthy", "Throttled")), false},
    };

    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        _cleanup_(scene_close) struct scene scene;

        test_case(cases[i].why);
        begin(&scene, "'maxRestarts':0");
        scene_put(&scene, &kind_node, cases[i].taint);
        scene_run(&scene, &torchrun_job_controller, "j");
        const struct json *status = status_of(&scene);
        EXPECT(json_i64_or(json_get(status, "preemptions"), 0) == cases[i].leaves);
        EXPECT(json_i64_or(json_get(status, "generation"), 0) == cases[i].leaves);
        EXPECT(json_i64_or(json_get(status, "restarts"), 0) == 0);
        EXPECT(str_contains(scene.event_words, STR("pod j-worker-1 leaves: node b is not well")) ==
               cases[i].leaves);
    }
}

TEST(where_there_is_no_other_node_a_gang_stays)
{
    _cleanup_(scene_close) struct scene scene;

    begin(&scene, "");
    scene_put(&scene, &kind_node, NODE("a", TAINT("suspect", "Blamed")));
    scene_put(&scene, &kind_node, NODE("c", TAINT("suspect", "Blamed")));
    scene_put(&scene, &kind_node, NODE("b", TAINT("gpu-unhealthy", "XID")));
    scene_run(&scene, &torchrun_job_controller, "j");
    EXPECT(str_is(json_str(json_get(status_of(&scene), "phase")), "Running"));
}

TEST(a_gang_does_not_restart_in_place_on_a_node_that_is_suspected)
{
    static const char *const nodes[] = {NODE("a", ""), NODE("a", TAINT("suspect", "Blamed"))};

    for (size_t i = 0; i < COUNT_OF(nodes); i++) {
        _cleanup_(scene_close) struct scene scene;

        begin(&scene, "'restartMode':'InPlace'");
        scene_put(&scene, &kind_node, nodes[i]);
        scene_patch(&scene, &kind_pod, "j-worker-1",
                    "{'status':{'containerStatuses':[{'name':'trainer','restartCount':0,'state':{"
                    "'running':null,'terminated':{'exitCode':1,'reason':'Error','finishedAt':"
                    "'1970-01-01T00:16:40Z'}}}]}}");
        scene_run(&scene, &torchrun_job_controller, "j");
        EXPECT(json_i64_or(json_get(status_of(&scene), "generation"), 0) == (int64_t)i);
    }
}

TEST(a_large_gang_is_tested_before_its_ranks_start)
{
    static const struct {
        const char *why;
        const char *more;
        const char *gpus; /* NULL: it is not tested */
    } cases[] = {
        {"left out", "", NULL},
        {"never", "'preflightFrom':0", NULL},
        {"it is smaller", "'preflightFrom':3", NULL},
        {"it is large enough", "'preflightFrom':2", "2"},
    };

    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        _cleanup_(scene_close) struct scene scene;

        test_case(cases[i].why);
        begin(&scene, cases[i].more);
        struct str text = json_text(&scene.arena, scene_get(&scene, &kind_pod, "j-worker-0"));
        EXPECT(str_contains(text, STR("\"MUSTER_TEST_GPUS\",\"value\":\"2\"")) ==
               (cases[i].gpus != NULL));
    }
}

/* After a restore from an older store, each gang that it knows less of would be refused once more. */
TEST(a_gang_that_its_volume_refuses_goes_on_behind_the_one_that_is_named)
{
    static const struct {
        const char *why;
        const char *more;
        const char *said;
        int64_t generation;
        int64_t restarts;
    } cases[] = {
        {"it was at 0", "", "7; this pod was given up", 8, 1},
        {"elastic", "'elastic':{'enabled':true,'minNodes':1}", "7; this pod", 8, 1},
        {"restarts in the pods", "'restartMode':'InPlace'", "7; this pod", 8, 1},
        {"the same generation, of a later round", "", "0; this pod was given up", 1, 1},
        {"no restart is left", "'maxRestarts':0", "7; this pod was given up", 0, 0},
        {"more than there can be", "", "9223372036854775807; this pod was given up", 1, 1},
        {"no number", "", "x; this pod was given up", 1, 1},
    };

    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        _cleanup_(scene_close) struct scene scene;
        char message[128];

        test_case(cases[i].why);
        begin(&scene, cases[i].more);
        (void)snprintf(message, sizeof(message), LAUNCH_FENCED "%s", cases[i].said);
        fail(&scene, message, 75);
        EXPECT(json_i64_or(json_get(status_of(&scene), "generation"), 0) == cases[i].generation);
        EXPECT(json_i64_or(json_get(status_of(&scene), "restarts"), 0) == cases[i].restarts);
    }
}

TEST(a_gang_whose_test_fails_starts_again_in_other_pods_and_blames_the_node)
{
    _cleanup_(scene_close) struct scene scene;

    begin(&scene, "'restartMode':'InPlace','preflightFrom':1");
    fail(&scene, LAUNCH_PREFLIGHT "GPU 1: memory did not keep what was written to it", 75);
    EXPECT(str_contains(blame_of(&scene, "b"), STR(" Preflight n/j: the self-test before")));
    EXPECT(json_i64_or(json_get(status_of(&scene), "generation"), 0) == 1);
    EXPECT(str_contains(scene.event_words, STR("pod j-worker-1 could not start: the self-test")));
}
