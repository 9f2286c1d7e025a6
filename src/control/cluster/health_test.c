#include "api/kind.h"
#include "api/launch.h"
#include "api/object.h"
#include "api/suspect.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/json.h"
#include "base/str.h"
#include "base/time.h"
#include "control/cluster/health.h"
#include "control/core/action.h"
#include "control/core/control.h"
#include "control/core/controllers.h"
#include "control/core/scene.h"
#include "test.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Nodes that jobs fail on: the rule, and what is done by it. */

#define NOW INT64_C(1000000000)

static const struct {
    const char *why;
    struct health health;
    enum health_step step;
    bool again;
} rows[] = {
    {"nothing is said", {.may = true}, HEALTH_LEAVE, false},
    {"two jobs", {.jobs = 2, .may = true}, HEALTH_LEAVE, false},
    {"three jobs", {.jobs = 3, .may = true}, HEALTH_SUSPECT, true},
    {"too many others are suspected", {.jobs = 3}, HEALTH_LEAVE, true},
    {"one that was tested before its start",
     {.jobs = 1, .preflight = true, .may = true},
     HEALTH_SUSPECT,
     true},
    {"it has just passed",
     {.jobs = 9, .may = true, .passed_ms = NOW - HEALTH_COOL_MS + 1},
     HEALTH_LEAVE,
     true},
    {"it passed an hour ago",
     {.jobs = 3, .may = true, .passed_ms = NOW - HEALTH_COOL_MS},
     HEALTH_SUSPECT,
     true},
    {"the driver reported an error", {.faulty = true}, HEALTH_SUSPECT, true},
    {"the driver reported an error, and it has just passed",
     {.faulty = true, .passed_ms = NOW - 1000},
     HEALTH_LEAVE,
     true},
    {"somebody wants it tested", {.tainted = true}, HEALTH_ADOPT, false},
    {"somebody took the taint away", {.told = true, .jobs = 3, .may = true}, HEALTH_FORGET, false},
    {"suspected", {.tainted = true, .told = true, .ready = true}, HEALTH_TEST, true},
    {"all of its GPUs are in use",
     {.tainted = true, .told = true, .ready = true, .busy = true},
     HEALTH_LEAVE,
     true},
    {"it does not answer", {.tainted = true, .told = true}, HEALTH_LEAVE, true},
    {"three jobs, and there is no image for a test",
     {.jobs = 3, .may = true, .untestable = true},
     HEALTH_SUSPECT,
     true},
    {"suspected, and there is no image for a test",
     {.tainted = true, .told = true, .ready = true, .untestable = true},
     HEALTH_LEAVE,
     false},
    {"the driver's own taint is enough where nothing can be tested",
     {.faulty = true, .untestable = true},
     HEALTH_LEAVE,
     false},
    {"the taint is taken away, and there is no image for a test",
     {.told = true, .jobs = 3, .may = true, .untestable = true},
     HEALTH_FORGET,
     false},
    {"the test runs",
     {.tainted = true, .told = true, .ready = true, .test = HEALTH_TEST_RUNS},
     HEALTH_LEAVE,
     false},
    {"it passes",
     {.tainted = true, .told = true, .ready = true, .test = HEALTH_TEST_PASSED},
     HEALTH_CLEAR,
     false},
    {"it fails",
     {.tainted = true, .told = true, .ready = true, .test = HEALTH_TEST_FAILED},
     HEALTH_KEEP_OUT,
     false},
    {"it has failed",
     {.tainted = true, .told = true, .ready = true, .failed = true, .test = HEALTH_TEST_FAILED},
     HEALTH_LEAVE,
     false},
    {"no answer, just now",
     {.tainted = true, .told = true, .test = HEALTH_TEST_LOST, .test_ms = NOW - 1000},
     HEALTH_LEAVE,
     true},
    {"no answer",
     {.tainted = true, .told = true, .test = HEALTH_TEST_LOST, .test_ms = NOW - HEALTH_LOST_MS},
     HEALTH_AGAIN,
     true},
};

TEST(jobs_make_a_node_suspect_and_a_test_decides)
{
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        bool again = false;

        test_case(rows[i].why);
        EXPECT(health_judge(&rows[i].health, NOW, &again) == rows[i].step);
        EXPECT(again == rows[i].again);
    }
}

/* ---- the controller ---- */

#define NODE(name)                                                                            \
    "{'metadata':{'name':'" name                                                              \
    "','annotations':{}},'spec':{'taints':[{'key':'other','value':'x','effect':'NoSchedule'}" \
    "]},'status':{'allocatable':{'nvidia.com/gpu':'4'},'conditions':[{'type':'Ready','status" \
    "':'True'}]}}"

static void begin(struct scene *scene)
{
    scene_open(scene);
    scene_put(scene, &kind_node, NODE("a"));
    scene_put(scene, &kind_node, NODE("b"));
}

static void blame(struct scene *scene, const char *node, const char *uid, const char *word)
{
    char at[TIME_TEXT_BYTES];
    struct str moment = time_format(scene->now_ms, at);

    scene_patch(scene, &kind_node, node,
                str_c(&scene->arena, str_printf(&scene->arena,
                                                "{'metadata':{'annotations':{'" SUSPECT_BLAME
                                                "%s':'" STR_FMT " %s n/%s: words'}}}",
                                                uid, STR_ARG(moment), word, uid)));
}

static void run(struct scene *scene)
{
    scene_run(scene, &node_health_controller, "a");
}

static struct str taints(struct scene *scene)
{
    struct str text = STR("");

    JSON_FOREACH(json_at(scene_get(scene, &kind_node, "a"), "spec.taints"), taint)
        text = str_printf(&scene->arena, STR_FMT "%s" STR_FMT "=" STR_FMT, STR_ARG(text),
                          text.len ? " " : "", STR_ARG(json_str(json_get(taint, "key"))),
                          STR_ARG(json_str(json_get(taint, "value"))));
    return text;
}

static struct str note(struct scene *scene, const char *key)
{
    return json_str(
        json_get(json_at(scene_get(scene, &kind_node, "a"), "metadata.annotations"), key));
}

/* The pod that tests ends. */
static void end_test(struct scene *scene, const char *phase, int code)
{
    scene_patch(scene, &kind_pod, "self-test-a",
                str_c(&scene->arena,
                      str_printf(&scene->arena,
                                 "{'status':{'phase':'%s','containerStatuses':[{'name':'self-test',"
                                 "'state':{'terminated':{'exitCode':%d,'message':'the words'}}}]}}",
                                 phase, code)));
    run(scene);
}

static void suspect(struct scene *scene)
{
    begin(scene);
    blame(scene, "a", "one", "Hung");
    blame(scene, "a", "two", "Killed");
    run(scene);
    EXPECT(str_is(taints(scene), "other=x"));
    blame(scene, "a", "three", "Device");
    run(scene);
}

TEST(three_jobs_taint_a_node_and_a_pod_tests_what_is_free)
{
    _cleanup_(scene_close) struct scene scene;

    begin(&scene);
    scene_put(&scene, &kind_pod,
              "{'metadata':{'name':'busy','annotations':{'torchrun.ai/gpu-devices':'1,2'}},'spec':{"
              "'nodeName':'a','containers':[{'name':'c','resources':{'limits':{'nvidia.com/gpu':'2'"
              "}}}]},'status':{'phase':'Running'}}");
    blame(&scene, "a", "one", "Hung");
    blame(&scene, "a", "two", "Hung");
    blame(&scene, "a", "three", "Hung");
    run(&scene);
    EXPECT(str_is(taints(&scene), "other=x muster.dev/suspect=Blamed"));
    EXPECT(
        str_contains(note(&scene, SUSPECT_WORDS), STR("jobs fail on this node and on no other")));
    EXPECT(str_contains(note(&scene, SUSPECT_WORDS), STR("n/three (Hung)")));
    EXPECT(str_contains(scene.events, STR("NodeSuspect")));
    const struct json *pod = scene_get(&scene, &kind_pod, "self-test-a");
    EXPECT(str_is(json_str_at(pod, "spec.nodeName"), "a"));
    EXPECT(
        str_is(json_str(json_get(json_at(pod, "metadata.annotations"), "torchrun.ai/gpu-devices")),
               "0,3"));
    EXPECT(
        str_contains(json_text(&scene.arena, pod), STR("\"limits\":{\"nvidia.com/gpu\":\"2\"}")));
}

TEST(cards_that_are_shared_by_time_are_tested_once)
{
    _cleanup_(scene_close) struct scene scene;

    begin(&scene);
    scene_patch(&scene, &kind_node, "a",
                "{'metadata':{'labels':{'nvidia.com/gpu.replicas':'2'}},'spec':{'taints':[{'key':"
                "'muster.dev/suspect','effect':'NoSchedule'}]}}");
    scene_put(&scene, &kind_pod,
              "{'metadata':{'name':'busy','annotations':{'torchrun.ai/gpu-devices':'2'}},'spec':{"
              "'nodeName':'a'},'status':{'phase':'Running'}}");
    run(&scene);
    const struct json *pod = scene_get(&scene, &kind_pod, "self-test-a");
    EXPECT(str_is(
        json_str(json_get(json_at(pod, "metadata.annotations"), "torchrun.ai/gpu-devices")), "1"));
}

TEST(a_test_that_passes_ends_the_taint_and_what_was_said)
{
    _cleanup_(scene_close) struct scene scene;

    suspect(&scene);
    EXPECT(str_is(taints(&scene), "other=x muster.dev/suspect=Blamed"));
    end_test(&scene, "Succeeded", 0);
    EXPECT(str_is(taints(&scene), "other=x"));
    EXPECT(!note(&scene, SUSPECT_WORDS).len && !note(&scene, SUSPECT_BLAME "one").len);
    EXPECT(str_starts(note(&scene, SUSPECT_TESTED), STR("passed ")));
    EXPECT(!scene_get(&scene, &kind_pod, "self-test-a"));
    /* It is left alone for an hour. */
    blame(&scene, "a", "one", "Hung");
    blame(&scene, "a", "two", "Hung");
    blame(&scene, "a", "three", "Hung");
    run(&scene);
    EXPECT(str_is(taints(&scene), "other=x"));
    scene.now_ms += HEALTH_COOL_MS + 1000;
    run(&scene);
    EXPECT(str_is(taints(&scene), "other=x muster.dev/suspect=Blamed"));
}

TEST(a_test_that_fails_keeps_the_node_out_until_somebody_has_it_tested_again)
{
    _cleanup_(scene_close) struct scene scene;

    suspect(&scene);
    end_test(&scene, "Failed", LAUNCH_TEST_FAILED);
    EXPECT(str_is(taints(&scene), "other=x muster.dev/suspect=SelfTestFailed"));
    EXPECT(str_contains(note(&scene, SUSPECT_WORDS), STR("the self-test failed: the words")));
    EXPECT(str_contains(scene.events, STR("SelfTestFailed")));
    EXPECT(scene_get(&scene, &kind_pod, "self-test-a"));
    scene_drop(&scene, &kind_pod, "self-test-a");
    run(&scene);
    EXPECT(scene_get(&scene, &kind_pod, "self-test-a"));
    end_test(&scene, "Succeeded", 0);
    EXPECT(str_is(taints(&scene), "other=x"));
}

TEST(a_test_without_an_answer_is_repeated)
{
    _cleanup_(scene_close) struct scene scene;

    suspect(&scene);
    end_test(&scene, "Failed", 137);
    EXPECT(str_is(taints(&scene), "other=x muster.dev/suspect=Blamed"));
    EXPECT(json_is_null(json_at(scene_get(&scene, &kind_pod, "self-test-a"), "status.phase")));
}

TEST(what_fails_on_every_node_is_the_fault_of_none)
{
    _cleanup_(scene_close) struct scene scene;

    begin(&scene);
    blame(&scene, "a", "one", "Hung");
    blame(&scene, "a", "two", "Hung");
    blame(&scene, "a", "three", "Hung");
    blame(&scene, "b", "three", "Hung");
    run(&scene);
    EXPECT(str_is(taints(&scene), "other=x"));
}

TEST(what_was_said_a_day_ago_is_forgotten)
{
    _cleanup_(scene_close) struct scene scene;

    begin(&scene);
    blame(&scene, "a", "one", "Hung");
    scene.now_ms += SUSPECT_WINDOW_MS;
    blame(&scene, "a", "two", "Hung");
    blame(&scene, "a", "three", "Hung");
    run(&scene);
    EXPECT(str_is(taints(&scene), "other=x"));
    EXPECT(!note(&scene, SUSPECT_BLAME "one").len && note(&scene, SUSPECT_BLAME "two").len);
}

TEST(the_only_node_and_all_at_once_are_not_suspected)
{
    _cleanup_(scene_close) struct scene scene;

    begin(&scene);
    scene_drop(&scene, &kind_node, "b");
    blame(&scene, "a", "one", "Preflight");
    run(&scene);
    EXPECT(str_is(taints(&scene), "other=x"));
    scene_put(&scene, &kind_node, NODE("b"));
    scene_patch(&scene, &kind_node, "b",
                "{'spec':{'taints':[{'key':'muster.dev/suspect','value':'Blamed','effect':"
                "'NoSchedule'}]}}");
    scene_put(&scene, &kind_node, NODE("c"));
    run(&scene);
    EXPECT(str_is(taints(&scene), "other=x"));
    scene_put(&scene, &kind_node, NODE("b"));
    run(&scene);
    EXPECT(str_is(taints(&scene), "other=x muster.dev/suspect=Preflight"));
}

TEST(a_person_asks_for_a_test_by_the_taint_and_ends_it_without_it)
{
    _cleanup_(scene_close) struct scene scene;

    begin(&scene);
    scene_patch(&scene, &kind_node, "a",
                "{'spec':{'taints':[{'key':'muster.dev/suspect','effect':'NoSchedule'}]}}");
    run(&scene);
    EXPECT(str_contains(note(&scene, SUSPECT_WORDS), STR("somebody gave it the taint")));
    EXPECT(scene_get(&scene, &kind_pod, "self-test-a"));
    scene_patch(&scene, &kind_node, "a", "{'spec':{'taints':[]}}");
    run(&scene);
    EXPECT(!note(&scene, SUSPECT_WORDS).len);
    EXPECT(!scene_get(&scene, &kind_pod, "self-test-a"));
}

TEST(a_node_with_an_error_of_a_card_is_tested_when_all_of_its_cards_are_free)
{
    _cleanup_(scene_close) struct scene scene;

    begin(&scene);
    scene_patch(&scene, &kind_node, "a",
                "{'spec':{'taints':[{'key':'muster.dev/gpu-unhealthy','value':'XID','effect':"
                "'NoSchedule'}]}}");
    scene_put(&scene, &kind_pod,
              "{'metadata':{'name':'busy','annotations':{'torchrun.ai/gpu-devices':'1'}},'spec':{"
              "'nodeName':'a'},'status':{'phase':'Running'}}");
    run(&scene);
    EXPECT(str_is(taints(&scene), "muster.dev/gpu-unhealthy=XID muster.dev/suspect=XID"));
    EXPECT(!scene_get(&scene, &kind_pod, "self-test-a"));
    scene_drop(&scene, &kind_pod, "busy");
    run(&scene);
    EXPECT(scene_get(&scene, &kind_pod, "self-test-a"));
    end_test(&scene, "Succeeded", 0);
    EXPECT(str_is(taints(&scene), "muster.dev/gpu-unhealthy=XID")); /* which is the agent's */
}

TEST(a_self_test_takes_the_cards_that_nobody_has)
{
#define ON(node, meta, more)                                                            \
    "{'metadata':{'name':'busy'" meta "},'spec':{'nodeName':'" node "','containers':[{" \
    "'name':'c'" more "}]},'status':{'phase':'Running'}}"
#define HAS(devices) ",'annotations':{'torchrun.ai/gpu-devices':'" devices "'}"
#define WANTS        ",'resources':{'limits':{'nvidia.com/gpu':'2'}}"
    static const struct {
        const char *why;
        const char *pod;
        const char *cards; /* NULL: there is no test yet */
    } cases[] = {
        {"some are in use", ON("a", HAS("0,2"), WANTS), "1,3"},
        {"those of another node", ON("b", HAS("0,2"), WANTS), "0,1,2,3"},
        {"those of a pod that has ended",
         "{'metadata':{'name':'busy'" HAS("0") "},'spec':{'nodeName':'a'},'status':{'phase':"
                                               "'Succeeded'}}",
         "0,1,2,3"},
        {"nobody knows which", ON("a", "", WANTS), NULL},
        {"it only speaks of them", ON("a", ",'annotations':{'x':'nvidia.com/gpu'}", ""), "0,1,2,3"},
        {"numbers that are none", ON("a", HAS("x,-1,3"), ""), "0,1,2"},
    };

    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        _cleanup_(scene_close) struct scene scene;

        test_case(cases[i].why);
        begin(&scene);
        scene_patch(&scene, &kind_node, "a",
                    "{'spec':{'taints':[{'key':'muster.dev/suspect','effect':'NoSchedule'}]}}");
        scene_put(&scene, &kind_pod, cases[i].pod);
        run(&scene);
        const struct json *test = scene_get(&scene, &kind_pod, "self-test-a");
        EXPECT((test != NULL) == (cases[i].cards != NULL));
        EXPECT(str_eq(
            json_str(json_get(json_at(test, "metadata.annotations"), "torchrun.ai/gpu-devices")),
            str_from(cases[i].cards)));
    }
}

TEST(a_node_without_cards_is_tested_without_them)
{
    _cleanup_(scene_close) struct scene scene;

    begin(&scene);
    scene_patch(&scene, &kind_node, "a",
                "{'spec':{'taints':[{'key':'muster.dev/suspect','effect':'NoSchedule'}]},'status':{"
                "'allocatable':{'nvidia.com/gpu':null}}}");
    run(&scene);
    const struct json *test = scene_get(&scene, &kind_pod, "self-test-a");
    EXPECT(test && !json_at(test, "spec.containers.0.resources"));
}

TEST(a_test_that_does_not_end_in_time_has_failed)
{
    _cleanup_(scene_close) struct scene scene;

    suspect(&scene);
    scene_patch(&scene, &kind_pod, "self-test-a",
                "{'metadata':{'deletionTimestamp':'2026-01-01T00:00:00Z'},'status':{'phase':"
                "'Failed','reason':'DeadlineExceeded','containerStatuses':[{'name':'self-test','"
                "state':{'terminated':{'exitCode':137,'startedAt':'2026-01-01T00:00:00Z'}}}]}}");
    run(&scene);
    EXPECT(str_is(taints(&scene), "other=x muster.dev/suspect=Blamed")); /* whoever deletes it */
    scene_patch(&scene, &kind_pod, "self-test-a", "{'metadata':{'deletionTimestamp':null}}");
    run(&scene);
    EXPECT(str_is(taints(&scene), "other=x muster.dev/suspect=SelfTestFailed"));
    EXPECT(str_contains(note(&scene, SUSPECT_WORDS), STR("failed: it did not end in time;")));
}

TEST(a_test_that_never_began_is_no_answer)
{
    static const char *const ends[] = {
        "'reason':'DeadlineExceeded','containerStatuses':[{'name':'self-test','state':{'waiting':"
        "{'reason':'ImagePullBackOff'}}}]",
        "'reason':'DeadlineExceeded','containerStatuses':[{'name':'self-test','state':{"
        "'terminated':{'exitCode':137,'reason':'ContainerStatusUnknown','startedAt':null}}}]",
        "'reason':'OutOfnvidia.com/gpu'",
    };

    for (size_t i = 0; i < COUNT_OF(ends); i++) {
        _cleanup_(scene_close) struct scene scene;

        suspect(&scene);
        scene_patch(&scene, &kind_pod, "self-test-a",
                    str_c(&scene.arena,
                          str_printf(&scene.arena, "{'status':{'phase':'Failed',%s}}", ends[i])));
        run(&scene);
        EXPECT(str_is(taints(&scene), "other=x muster.dev/suspect=Blamed"));
        scene.now_ms += HEALTH_LOST_MS;
        run(&scene);
        EXPECT(!str_is(json_str_at(scene_get(&scene, &kind_pod, "self-test-a"), "status.phase"),
                       "Failed"));
    }
}

/* ---- where kubelets run the pods ---- */

static void begin_kubelets(struct scene *scene, const char *image)
{
    begin(scene);
    scene->config.kubelets = true;
    scene->config.test_space = STR("n");
    scene->config.test_image = str_from(image);
    scene->config.test_class = STR("nvidia");
    scene->config.launcher_image = STR("ours:1");
}

static void blame_three_times(struct scene *scene)
{
    blame(scene, "a", "one", "Hung");
    blame(scene, "a", "two", "Killed");
    blame(scene, "a", "three", "Device");
    run(scene);
}

TEST(a_kubelet_is_given_a_test_with_the_image_that_was_named)
{
    _cleanup_(scene_close) struct scene scene;

    begin_kubelets(&scene, "torch:2");
    scene_put(&scene, &kind_pod,
              "{'metadata':{'name':'busy'},'spec':{'nodeName':'a','containers':[{'name':'c',"
              "'resources':{'limits':{'nvidia.com/gpu':'3'}}},{'name':'d'}]},'status':{'phase':"
              "'Running'}}");
    blame_three_times(&scene);
    EXPECT(str_is(taints(&scene), "other=x muster.dev/suspect=Blamed"));
    const struct json *pod = scene_get(&scene, &kind_pod, "self-test-a");
    const struct json *test = json_at(pod, "spec.containers.0");
    EXPECT(str_is(json_str_at(pod, "metadata.namespace"), "n"));
    EXPECT(str_is(json_str_at(pod, "spec.nodeName"), "a"));
    EXPECT(str_is(json_str_at(pod, "spec.runtimeClassName"), "nvidia"));
    EXPECT(!json_get(json_at(pod, "metadata.annotations"), "torchrun.ai/gpu-devices"));
    EXPECT(str_is(json_str_at(test, "image"), "torch:2"));
    EXPECT(str_is(json_str_at(test, "command.0"), LAUNCH_PATH));
    EXPECT(
        str_contains(json_text(&scene.arena, test), STR("\"limits\":{\"nvidia.com/gpu\":\"1\"}")));
    EXPECT(str_is(json_str_at(pod, "spec.initContainers.0.image"), "ours:1"));
    EXPECT(json_bool_or(json_at(pod, "spec.securityContext.runAsNonRoot"), false));
    EXPECT(str_is(json_str_at(pod, "spec.securityContext.seccompProfile.type"), "RuntimeDefault"));
    EXPECT(!json_bool_or(json_at(test, "securityContext.allowPrivilegeEscalation"), true));
    EXPECT(str_is(json_str_at(test, "securityContext.capabilities.drop.0"), "ALL"));
    EXPECT(str_is(json_str_at(test, "volumeMounts.0.mountPath"), "/dev/shm"));
    EXPECT(str_is(json_str_at(test, "volumeMounts.1.mountPath"), LAUNCH_DIR));
    EXPECT(str_is(json_str_at(pod, "spec.volumes.0.emptyDir.medium"), "Memory"));
    end_test(&scene, "Succeeded", 0);
    EXPECT(str_is(taints(&scene), "other=x"));
    EXPECT(!scene_get(&scene, &kind_pod, "self-test-a"));
}

TEST(a_pod_of_that_name_in_a_namespace_of_others_is_no_answer)
{
    _cleanup_(scene_close) struct scene scene;

    begin_kubelets(&scene, "torch:2");
    scene.config.test_space = STR("");   /* kube-system */
    scene_patch(&scene, &kind_node, "a", /* so it has to wait for a test of its own */
                "{'status':{'conditions':[{'type':'Ready','status':'False'}]}}");
    scene_put(&scene, &kind_pod,
              "{'metadata':{'name':'self-test-a','labels':{'" SUSPECT_TEST_LABEL
              "':'true'}},'spec':{'nodeName':'a'},'status':{'phase':'Failed','containerStatuses':[{"
              "'state':{'terminated':{'exitCode':70}}}]}}");
    blame_three_times(&scene);
    EXPECT(str_is(taints(&scene), "other=x muster.dev/suspect=Blamed"));
}

TEST(a_kubelets_cards_are_counted_and_all_must_be_free_where_one_is_faulty)
{
    static const struct {
        const char *why;
        const char *node;
        const char *used;
        const char *gpus; /* that are tested; NULL: it has to wait */
    } cases[] = {
        {"all are free", "{}", "0", "4"},
        {"one is", "{}", "3", "1"},
        {"none is", "{}", "4", NULL},
        {"one is faulty and some are used",
         "{'spec':{'taints':[{'key':'muster.dev/gpu-unhealthy','value':'XID'}]}}", "1", NULL},
        {"one is faulty", "{'spec':{'taints':[{'key':'muster.dev/gpu-unhealthy','value':'XID'}]}}",
         "0", "4"},
        {"slices of time may be of one card",
         "{'metadata':{'labels':{'nvidia.com/gpu.replicas':'2'}}}", "1", "1"},
        {"all slices are used", "{'metadata':{'labels':{'nvidia.com/gpu.replicas':'2'}}}", "4",
         NULL},
    };

    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        _cleanup_(scene_close) struct scene scene;

        test_case(cases[i].why);
        begin_kubelets(&scene, "torch:2");
        scene_patch(&scene, &kind_node, "a", cases[i].node);
        scene_put(&scene, &kind_pod,
                  str_c(&scene.arena,
                        str_printf(&scene.arena,
                                   "{'metadata':{'name':'p'},'spec':{'nodeName':'a','containers':[{"
                                   "'name':'c','resources':{'limits':{'nvidia.com/gpu':'%s'}}}]},"
                                   "'status':{'phase':'Running'}}",
                                   cases[i].used)));
        blame_three_times(&scene);
        const struct json *pod = scene_get(&scene, &kind_pod, "self-test-a");
        EXPECT(str_eq(json_str(json_get(json_at(pod, "spec.containers.0.resources.limits"),
                                        "nvidia.com/gpu")),
                      str_from(cases[i].gpus)));
    }
}

TEST(without_an_image_a_node_stays_suspect_until_the_taint_is_taken_away)
{
    _cleanup_(scene_close) struct scene scene;

    begin_kubelets(&scene, "");
    blame_three_times(&scene);
    EXPECT(str_is(taints(&scene), "other=x muster.dev/suspect=Blamed"));
    EXPECT(!scene_get(&scene, &kind_pod, "self-test-a"));
    EXPECT(str_contains(scene.events, STR("NodeSuspect")));
    EXPECT(str_contains(scene.event_words,
                        STR("there is no self-test without --self-test-image; take the taint "
                            "muster.dev/suspect away when the node is well")));
    scene_patch(&scene, &kind_node, "a", "{'spec':{'taints':null}}");
    run(&scene);
    EXPECT(str_is(taints(&scene), "") && !note(&scene, SUSPECT_WORDS).len);
    EXPECT(!note(&scene, SUSPECT_BLAME "one").len);
}

TEST(a_node_is_missed_only_where_another_can_take_its_work)
{
    static const struct {
        const char *why;
        const char *other;
        bool suspected;
    } cases[] = {
        {"it can", "{}", true},
        {"it is not ready", "{'status':{'conditions':[{'type':'Ready','status':'False'}]}}", false},
        {"it takes none", "{'spec':{'unschedulable':true}}", false},
    };

    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        _cleanup_(scene_close) struct scene scene;

        test_case(cases[i].why);
        begin(&scene);
        scene_patch(&scene, &kind_node, "b", cases[i].other);
        blame(&scene, "a", "one", "Preflight");
        run(&scene);
        EXPECT((note(&scene, SUSPECT_WORDS).len > 0) == cases[i].suspected);
    }
}

TEST(one_in_ten_nodes_may_be_suspected_at_once)
{
    _cleanup_(scene_close) struct scene scene;

    begin(&scene);
    scene_patch(&scene, &kind_node, "b", "{'spec':{'taints':[{'key':'muster.dev/suspect'}]}}");
    for (int i = 0; i < 17; i++)
        scene_put(&scene, &kind_node,
                  str_c(&scene.arena, str_printf(&scene.arena,
                                                 "{'metadata':{'name':'c%d'},'status':{'conditions'"
                                                 ":[{'type':'Ready','status':'True'}]}}",
                                                 i)));
    blame(&scene, "a", "one", "Preflight");
    run(&scene);
    EXPECT(str_is(taints(&scene), "other=x")); /* 19 nodes: one */
    scene_put(&scene, &kind_node, NODE("d"));
    run(&scene);
    EXPECT(str_is(taints(&scene), "other=x muster.dev/suspect=Preflight"));
}

TEST(three_of_those_who_blame_a_node_are_named_and_what_cannot_be_read_is_none)
{
    _cleanup_(scene_close) struct scene scene;

    begin(&scene);
    scene_patch(&scene, &kind_node, "a",
                "{'metadata':{'annotations':{'" SUSPECT_BLAME "zero':'words'}}}");
    run(&scene);
    EXPECT(!note(&scene, SUSPECT_BLAME "zero").len);
    blame(&scene, "a", "one", "Hung");
    blame(&scene, "a", "two", "Hung");
    scene_patch(&scene, &kind_node, "b", "{'spec':{'unschedulable':true}}");
    blame(&scene, "a", "three", "Hung");
    blame(&scene, "a", "four", "Hung");
    scene_patch(&scene, &kind_node, "a",
                "{'metadata':{'annotations':{'" SUSPECT_BLAME "five':'words'}}}");
    scene_patch(&scene, &kind_node, "b", "{'spec':{'unschedulable':null}}");
    run(&scene);
    EXPECT(
        str_contains(note(&scene, SUSPECT_WORDS),
                     STR("on no other: n/four (Hung), n/three (Hung), n/two (Hung); a self-test")));
    EXPECT(!note(&scene, SUSPECT_BLAME "five").len);
}

TEST(a_taint_that_is_taken_away_before_the_test_leaves_nothing_behind)
{
    _cleanup_(scene_close) struct scene scene;

    begin(&scene);
    scene_patch(&scene, &kind_node, "a",
                "{'metadata':{'annotations':{'" SUSPECT_WORDS "':'x','" SUSPECT_TESTED
                "':'passed'}}}");
    run(&scene);
    EXPECT(!note(&scene, SUSPECT_WORDS).len && !scene_get(&scene, &kind_pod, "self-test-a"));
    /* That it passed says no time: it is not left alone for that. */
    blame(&scene, "a", "one", "Preflight");
    run(&scene);
    EXPECT(str_is(taints(&scene), "other=x muster.dev/suspect=Preflight"));
    scene_patch(&scene, &kind_node, "a",
                "{'metadata':{'deletionTimestamp':'2026-01-01T00:00:00Z'}}");
    scene_drop(&scene, &kind_pod, "self-test-a");
    run(&scene);
    EXPECT(!scene_get(&scene, &kind_pod, "self-test-a")); /* a node that is going needs none */
    scene_drop(&scene, &kind_node, "a");
    run(&scene);
    EXPECT(!scene_get(&scene, &kind_pod, "self-test-a"));
}

TEST(nodes_that_somebody_speaks_of_and_the_pods_that_test_them_are_looked_at)
{
    static const struct {
        const char *why;
        const struct kind *kind;
        const char *text;
        const char *key; /* "": none */
    } cases[] = {
        {"a node like others", &kind_node, "{'metadata':{'name':'a'}}", ""},
        {"one that is blamed", &kind_node,
         "{'metadata':{'name':'a','annotations':{'" SUSPECT_BLAME "x':'y'}}}", "a"},
        {"one that is tainted", &kind_node,
         "{'metadata':{'name':'a'},'spec':{'taints':[{'key':'muster.dev/suspect'}]}}", "a"},
        {"a pod that tests one", &kind_pod,
         "{'metadata':{'name':'p','namespace':'" SUSPECT_TEST_SPACE
         "','labels':{'" SUSPECT_TEST_LABEL "':'true'}},'spec':{'nodeName':'a'}}",
         "a"},
        {"one that does so elsewhere: the node is looked at, not the pod", &kind_pod,
         "{'metadata':{'name':'p','namespace':'mine','labels':{'" SUSPECT_TEST_LABEL
         "':'true'}},'spec':{'nodeName':'a'}}",
         "a"},
        {"another pod there", &kind_pod,
         "{'metadata':{'name':'p','namespace':'" SUSPECT_TEST_SPACE "'},'spec':{'nodeName':'a'}}",
         ""},
    };

    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        _cleanup_(scene_close) struct scene scene;
        struct control_keys keys = {.arena = &scene.arena};
        struct object *object = NULL;

        scene_open(&scene);
        test_case(cases[i].why);
        EXPECT(object_new(cases[i].kind, scene_text(&scene, cases[i].text), &object, NULL) == 0);
        node_health_controller.keys(scene.cache, object, &keys);
        EXPECT(keys.list.count == (cases[i].key[0] != '\0'));
        EXPECT(!keys.list.count || str_is(keys.list.items[0].name, cases[i].key));
        object_unref(object);
    }
}
