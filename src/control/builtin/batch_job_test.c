#include "api/kind.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/json.h"
#include "base/str.h"
#include "control/builtin/workload.h"
#include "control/core/controllers.h"
#include "control/core/scene.h"
#include "test.h"

#include <stddef.h>

/* What happens to the pods of a Job -> its conditions and counters. */

#define JOB_THAT(policy, spec)                                                              \
    "{'metadata':{'name':'j'},'spec':{" spec "'template':{'spec':{'restartPolicy':'" policy \
    "','containers':"                                                                       \
    "[{'name':'c','image':'i'}]}}}}"
#define JOB(spec) JOB_THAT("Never", spec)
#define RESTARTED(times) \
    "{'status':{'phase':'Running','containerStatuses':[{'name':'c','restartCount':" times "}]}}"
#define TOLD(word) "{'metadata':{'annotations':{'muster.dev/restart-in-place':'" word "'}}}"
#define INDEXED    "'completionMode':'Indexed','completions':3,'parallelism':3,"

/* The pods are numbered in the order in which they were made. */
#define DONE "{'status':{'phase':'Succeeded'}}"
#define BAD(code)                                                                           \
    "{'status':{'phase':'Failed','containerStatuses':[{'name':'c','state':{'terminated':{'" \
    "exitCode"                                                                              \
    "':" code ",'finishedAt':'1970-01-01T00:16:40Z'}}}]}}"
#define READY "{'status':{'phase':'Running','conditions':[{'type':'Ready','status':'True'}]}}"

#define INDEX(number) \
    "{'metadata':{'annotations':{'batch.kubernetes.io/job-completion-index':'" number "'}}}"
#define LEAVES                                                                                  \
    "{'metadata':{'deletionTimestamp':'2026-01-01T00:00:00Z','deletionGracePeriodSeconds':30}," \
    "'spec':{'nodeName':'m'},'status':{'phase':'Running'}}"

struct step {
    int pod; /* -1: the job */
    const char *patch;
};
#define POD(number, patch)  \
    {                       \
        (number) + 1, patch \
    }
#define SELF(patch) \
    {               \
        -1, patch   \
    }

static const struct {
    const char *why;
    const char *job;
    struct step steps[4];
    const char *conditions;
    const char *status; /* part of it */
    size_t pods;        /* there are now */
    int later_s;        /* pass before the last look */
} rows[] = {
    {"one pod",
     JOB("'completions':1,'parallelism':1,"),
     {{0}},
     "",
     "'active':1,'ready':0,'succeeded':0,'failed':0",
     1,
     0},
    {"ready pods are counted",
     JOB("'completions':1,'parallelism':1,"),
     {POD(0, READY)},
     "",
     "'active':1,'ready':1",
     1,
     0},
    {"done",
     JOB("'completions':1,'parallelism':1,"),
     {POD(0, DONE)},
     "SuccessCriteriaMet=True Complete=True",
     "'succeeded':1",
     1,
     0},
    {"two at a time of three",
     JOB("'completions':3,'parallelism':2,"),
     {POD(0, DONE)},
     "",
     "'active':2,'ready':0,'succeeded':1",
     3,
     0},
    {"no more than are missing",
     JOB("'completions':2,'parallelism':2,"),
     {POD(0, DONE)},
     "",
     "'active':1",
     2,
     0},
    {"a failure waits before the next try",
     JOB("'completions':1,'parallelism':1,"),
     {POD(0, BAD("1"))},
     "",
     "'active':0,'ready':0,'succeeded':0,'failed':1",
     1,
     0},
    {"and is tried again",
     JOB("'completions':1,'parallelism':1,"),
     {POD(0, BAD("1"))},
     "",
     "'active':1",
     2,
     11},
    {"backoffLimit 0",
     JOB("'completions':1,'parallelism':1,'backoffLimit':0,"),
     {POD(0, BAD("1"))},
     "FailureTarget=True Failed=True",
     "'reason':'BackoffLimitExceeded'",
     1,
     0},
    {"OnFailure: restarts in place below backoffLimit",
     JOB_THAT("OnFailure", "'completions':1,'parallelism':1,'backoffLimit':2,"),
     {POD(0, RESTARTED("1"))},
     "",
     "'active':1",
     1,
     0},
    {"OnFailure: restarts in place use up backoffLimit",
     JOB_THAT("OnFailure", "'completions':1,'parallelism':1,'backoffLimit':2,"),
     {POD(0, RESTARTED("2"))},
     "FailureTarget=True Failed=True",
     "'reason':'BackoffLimitExceeded'",
     0,
     0},
    {"OnFailure: with backoffLimit 0 the first restart is one too many",
     JOB_THAT("OnFailure", "'completions':1,'parallelism':1,'backoffLimit':0,"),
     {POD(0, RESTARTED("1"))},
     "FailureTarget=True Failed=True",
     "'reason':'BackoffLimitExceeded'",
     0,
     0},
    {"OnFailure: restarts that a JobSet told the pod to do not count",
     JOB_THAT("OnFailure", "'completions':1,'parallelism':1,'backoffLimit':2,"),
     {POD(0, TOLD("3 go")), POD(0, RESTARTED("4"))},
     "",
     "'active':1",
     1,
     0},
    {"OnFailure: those beyond do",
     JOB_THAT("OnFailure", "'completions':1,'parallelism':1,'backoffLimit':2,"),
     {POD(0, TOLD("3 go")), POD(0, RESTARTED("5"))},
     "FailureTarget=True Failed=True",
     "'reason':'BackoffLimitExceeded'",
     0,
     0},
    {"no number of completions: one success, and the rest may end",
     JOB("'parallelism':2,"),
     {POD(0, DONE), POD(1, DONE)},
     "SuccessCriteriaMet=True Complete=True",
     "'succeeded':2",
     2,
     0},
    {"indexed", JOB(INDEXED), {POD(0, DONE), POD(2, DONE)}, "", "'completedIndexes':'0,2'", 3, 0},
    {"all indexes",
     JOB(INDEXED),
     {POD(0, DONE), POD(1, DONE), POD(2, DONE)},
     "SuccessCriteriaMet=True Complete=True",
     "'completedIndexes':'0-2'",
     3,
     0},
    {"an index is given up, the others go on",
     JOB(INDEXED "'backoffLimitPerIndex':0,'backoffLimit':99,"),
     {POD(1, BAD("1"))},
     "",
     "'failedIndexes':'1'",
     3,
     0},
    {"all indexes have ended",
     JOB(INDEXED "'backoffLimitPerIndex':0,'backoffLimit':99,"),
     {POD(0, DONE), POD(1, BAD("1")), POD(2, DONE)},
     "FailureTarget=True Failed=True",
     "'reason':'FailedIndexes'",
     3,
     0},
    {"an index has tries left",
     JOB(INDEXED "'backoffLimitPerIndex':1,'backoffLimit':99,"),
     {POD(1, BAD("1"))},
     "",
     "'failedIndexes':''",
     4,
     11},
    {"too many indexes",
     JOB(INDEXED "'backoffLimitPerIndex':0,'maxFailedIndexes':0,'backoffLimit':99,"),
     {POD(1, BAD("1"))},
     "FailureTarget=True Failed=True",
     "'reason':'MaxFailedIndexesExceeded'",
     1,
     0},
    {"successPolicy",
     JOB(INDEXED "'successPolicy':{'rules':[{'succeededIndexes':'0'}]},"),
     {POD(0, DONE)},
     "SuccessCriteriaMet=True Complete=True",
     "'reason':'SuccessPolicy'",
     1,
     0},
    {"podFailurePolicy: final",
     JOB("'completions':1,'parallelism':1,'podFailurePolicy':{'rules':[{'action':'FailJob','"
         "onExitCodes':{'operator':'In','values':[42]}}]},"),
     {POD(0, BAD("42"))},
     "FailureTarget=True Failed=True",
     "'reason':'PodFailurePolicy'",
     1,
     0},
    {"podFailurePolicy: does not count",
     JOB("'completions':1,'parallelism':1,'backoffLimit':0,'podFailurePolicy':{'rules':[{'action':'"
         "Ignore','onExitCodes':{'operator':'In','values':[42]}}]},"),
     {POD(0, BAD("42"))},
     "",
     "'failed':0",
     2,
     11},
    {"podFailurePolicy: gives the index up at once",
     JOB(INDEXED
         "'backoffLimitPerIndex':9,'backoffLimit':99,'podFailurePolicy':{'rules':[{'action':"
         "'FailIndex','onExitCodes':{'operator':'In','values':[42]}}]},"),
     {POD(1, BAD("42"))},
     "",
     "'failedIndexes':'1'",
     3,
     0},
    {"suspended from the start",
     JOB("'completions':1,'parallelism':1,'suspend':true,"),
     {{0}},
     "Suspended=True",
     "'active':0",
     0,
     0},
    {"suspended while running",
     JOB("'completions':2,'parallelism':2,"),
     {SELF("{'spec':{'suspend':true}}")},
     "Suspended=True",
     "'active':0",
     0,
     0},
    {"resumed",
     JOB("'completions':1,'parallelism':1,'suspend':true,"),
     {SELF("{'spec':{'suspend':false}}")},
     "Suspended=False",
     "'active':1",
     1,
     0},
    {"the deadline passes",
     JOB("'completions':1,'parallelism':1,'activeDeadlineSeconds':5,"),
     {POD(0, READY)},
     "FailureTarget=True Failed=True",
     "'reason':'DeadlineExceeded'",
     0,
     6},
    {"it succeeded in time, and that is heard of after its deadline",
     JOB("'completions':1,'parallelism':1,'activeDeadlineSeconds':5,"),
     {POD(0, DONE)},
     "SuccessCriteriaMet=True Complete=True",
     "'succeeded':1",
     1,
     6},
    {"fewer at a time",
     JOB("'completions':4,'parallelism':3,"),
     {SELF("{'spec':{'parallelism':1}}")},
     "",
     "'active':1",
     1,
     0},
    {"somebody else's", JOB("'managedBy':'acme.io/jobs',"), {{0}}, "", "", 0, 0},
    {"our own", JOB("'managedBy':'kubernetes.io/job-controller',"), {{0}}, "", "'active':1", 1, 0},
    {"the deadline does not pass while it is suspended",
     JOB("'completions':1,'activeDeadlineSeconds':5,'suspend':true,"),
     {{0}},
     "Suspended=True",
     "'active':0",
     0,
     6},
    {"a pod of an index that there is not counts for none",
     JOB(INDEXED),
     {POD(1, INDEX("7")), POD(1, DONE)},
     "",
     "'succeeded':0",
     4,
     0},
    {"nor one whose index is not told",
     JOB(INDEXED),
     {POD(1, INDEX("")), POD(1, DONE)},
     "",
     "'succeeded':0",
     4,
     0},
    {"an index succeeds once",
     JOB(INDEXED),
     {POD(1, INDEX("0")), POD(0, DONE), POD(1, DONE)},
     "",
     "'succeeded':1",
     4,
     0},
    {"failures of an index that there is not are nobody's",
     JOB(INDEXED "'backoffLimitPerIndex':0,'backoffLimit':99,"),
     {POD(1, INDEX("7")), POD(1, BAD("1"))},
     "",
     "'failedIndexes':''",
     4,
     11},
    {"all other indexes have ended, and one still runs",
     JOB(INDEXED "'backoffLimitPerIndex':0,'backoffLimit':99,"),
     {POD(0, DONE), POD(1, BAD("1"))},
     "",
     "'active':1",
     3,
     0},
    {"a pod that is on its way out is replaced at once",
     JOB("'completions':1,'parallelism':1,"),
     {POD(0, LEAVES)},
     "",
     "'active':1,'ready':0,'succeeded':0,'failed':0,'terminating':1",
     2,
     0},
    {"or when it has ended",
     JOB("'completions':1,'parallelism':1,'podReplacementPolicy':'Failed',"),
     {POD(0, LEAVES)},
     "",
     "'active':0,'ready':0,'succeeded':0,'failed':0,'terminating':1",
     1,
     0},
    {"the same of an index",
     JOB(INDEXED "'podReplacementPolicy':'Failed',"),
     {POD(1, LEAVES)},
     "",
     "'active':2,'ready':0,'succeeded':0,'failed':0,'terminating':1",
     3,
     0},
    {"one that never had a node is not waited for",
     JOB("'completions':1,'parallelism':1,'podReplacementPolicy':'Failed',"),
     {POD(0, "{'metadata':{'deletionTimestamp':'2026-01-01T00:00:00Z'}}")},
     "",
     "'terminating':0",
     2,
     0},
};

static struct str nth_pod(struct scene *scene, int number)
{
    struct str rest = scene_names(scene, &kind_pod);
    struct str name = STR_NONE;

    for (int i = 0; i <= number; i++)
        (void)str_cut(&rest, ' ', &name);
    return str_dup(&scene->arena, name);
}

static size_t count_pods(struct scene *scene)
{
    struct str rest = scene_names(scene, &kind_pod);
    struct str name = STR_NONE;
    size_t count = 0;

    while (rest.len && str_cut(&rest, ' ', &name))
        count++;
    return count;
}

TEST(a_job_counts_its_pods)
{
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(scene_close) struct scene scene;

        test_case(rows[i].why);
        scene_open(&scene);
        scene_put(&scene, &kind_job, rows[i].job);
        scene_run(&scene, &batch_job_controller, "j");
        for (size_t j = 0; j < 4 && rows[i].steps[j].pod; j++) {
            const struct step *step = &rows[i].steps[j];

            if (step->pod < 0)
                scene_patch(&scene, &kind_job, "j", step->patch);
            else
                scene_patch(&scene, &kind_pod, nth_pod(&scene, step->pod - 1).p, step->patch);
            scene_run(&scene, &batch_job_controller, "j");
        }
        scene.now_ms += rows[i].later_s * 1000;
        scene_run(&scene, &batch_job_controller, "j");
        struct str status =
            json_text(&scene.arena, json_get(scene_get(&scene, &kind_job, "j"), "status"));
        EXPECT(str_is(scene_conditions(&scene, &kind_job, "j"), rows[i].conditions));
        EXPECT(str_contains(status, scene_text(&scene, rows[i].status)));
        EXPECT(count_pods(&scene) == rows[i].pods);
    }
}

/* The pods that a failed job removes have ended it as those that failed by themselves. */
TEST(what_ran_when_a_job_failed_has_failed)
{
    static const struct {
        const char *why;
        const char *end;
        const char *status;
    } ends[] = {
        {"it failed", "Failed",
         "'failed':2,'terminating':0,'completedIndexes':'',"
         "'failedIndexes':'0,1'"},
        {"it is complete", "Complete",
         "'failed':0,'terminating':0,'completedIndexes':'',"
         "'failedIndexes':''"},
    };

    for (size_t i = 0; i < COUNT_OF(ends); i++) {
        _cleanup_(scene_close) struct scene scene;

        test_case(ends[i].why);
        scene_open(&scene);
        scene_put(&scene, &kind_job,
                  JOB("'completionMode':'Indexed','completions':2,'parallelism':2,"
                      "'backoffLimitPerIndex':0,"));
        scene_run(&scene, &batch_job_controller, "j");
        scene_patch(&scene, &kind_job, "j",
                    str_printf(&scene.arena,
                               "{'status':{'conditions':[{'type':'%s','status':'True'}]}}",
                               ends[i].end)
                        .p);
        for (int pod = 0; pod < 2; pod++)
            scene_patch(&scene, &kind_pod, nth_pod(&scene, pod).p,
                        "{'metadata':{'deletionTimestamp':'2026-01-01T00:00:00Z'}}");
        scene_run(&scene, &batch_job_controller, "j");
        struct str status =
            json_text(&scene.arena, json_get(scene_get(&scene, &kind_job, "j"), "status"));
        EXPECT(str_contains(status, scene_text(&scene, ends[i].status)));
    }
}

TEST(a_job_makes_its_pods_in_bursts)
{
    static const char *const jobs[] = {JOB("'completions':1200,'parallelism':1200,"),
                                       JOB("'completionMode':'Indexed','completions':1200,"
                                           "'parallelism':1200,")};

    for (size_t i = 0; i < COUNT_OF(jobs); i++) {
        _cleanup_(scene_close) struct scene scene;

        scene_open(&scene);
        scene_put(&scene, &kind_job, jobs[i]);
        (void)scene_turn(&scene, &batch_job_controller, "j");
        EXPECT(count_pods(&scene) == 500);
        scene_run(&scene, &batch_job_controller, "j");
        EXPECT(count_pods(&scene) == 1200);
    }
}

TEST(a_job_of_billions_has_only_so_many_pods_that_wait_for_a_node)
{
    _cleanup_(scene_close) struct scene scene;

    scene_open(&scene);
    scene_put(&scene, &kind_job, JOB("'completions':2000000000,'parallelism':2000000000,"));
    for (int turns = 0; turns < 10; turns++)
        (void)scene_turn(&scene, &batch_job_controller, "j");
    EXPECT(count_pods(&scene) == WORKLOAD_WAITING_MAX);
    scene_patch(&scene, &kind_pod, nth_pod(&scene, 0).p, "{'spec':{'nodeName':'n'}}");
    (void)scene_turn(&scene, &batch_job_controller, "j");
    EXPECT(count_pods(&scene) == WORKLOAD_WAITING_MAX + 1);
}

TEST(a_finished_job_goes_after_its_time)
{
    _cleanup_(scene_close) struct scene scene;

    scene_open(&scene);
    scene_put(&scene, &kind_job, JOB("'completions':1,'ttlSecondsAfterFinished':5,"));
    scene_run(&scene, &batch_job_controller, "j");
    scene_patch(&scene, &kind_pod, nth_pod(&scene, 0).p, DONE);
    scene_run(&scene, &batch_job_controller, "j");
    EXPECT(scene_get(&scene, &kind_job, "j") != NULL);
    scene.now_ms += 5000;
    scene_run(&scene, &batch_job_controller, "j");
    EXPECT(scene_get(&scene, &kind_job, "j") == NULL);
}

/* A status that was written is not counted again, whenever we die. */
TEST(a_pod_that_was_counted_is_let_go_and_forgotten)
{
    static const struct {
        const char *list;
        const char *patch;
    } ends[] = {{"succeeded", DONE}, {"failed", BAD("1")}};

    for (size_t i = 0; i < COUNT_OF(ends); i++) {
        _cleanup_(scene_close) struct scene scene;

        test_case(ends[i].list);
        scene_open(&scene);
        scene_put(&scene, &kind_job, JOB("'completions':5,'parallelism':1,"));
        scene_run(&scene, &batch_job_controller, "j");
        const char *pod = nth_pod(&scene, 0).p;
        scene_patch(&scene, &kind_pod, pod, ends[i].patch);
        scene_patch(&scene, &kind_pod, pod,
                    "{'metadata':{'finalizers':['mine','batch.kubernetes.io/job-tracking']}}");
        scene_patch(&scene, &kind_job, "j",
                    str_printf(&scene.arena,
                               "{'status':{'%s':1,'uncountedTerminatedPods':{'%s':['u-%s']}}}",
                               ends[i].list, ends[i].list, pod)
                        .p);
        scene_run(&scene, &batch_job_controller, "j");
        const struct json *status = json_get(scene_get(&scene, &kind_job, "j"), "status");
        EXPECT(json_i64_or(json_get(status, ends[i].list), 0) == 1);
        EXPECT(json_count(json_get(status, "uncountedTerminatedPods")) == 0);
        EXPECT(str_is(
            scene_words(&scene, json_at(scene_get(&scene, &kind_pod, pod), "metadata.finalizers")),
            "mine"));
    }
}

TEST(a_job_that_failed_goes_after_its_time_as_well)
{
    _cleanup_(scene_close) struct scene scene;

    scene_open(&scene);
    scene_put(&scene, &kind_job,
              JOB("'completions':1,'backoffLimit':0,'ttlSecondsAfterFinished':5,"));
    scene_run(&scene, &batch_job_controller, "j");
    scene_patch(&scene, &kind_pod, nth_pod(&scene, 0).p, BAD("1"));
    scene_run(&scene, &batch_job_controller, "j");
    EXPECT(scene_get(&scene, &kind_job, "j") != NULL);
    scene.now_ms += 5000;
    scene_run(&scene, &batch_job_controller, "j");
    EXPECT(scene_get(&scene, &kind_job, "j") == NULL);
}

TEST(a_failure_is_waited_for_longer_each_time_and_six_minutes_at_most)
{
    static const struct {
        int failed; /* before this one */
        int waits_s;
    } waits[] = {{0, 10}, {1, 20}, {2, 40}, {5, 320}, {6, 360}, {40, 360}};

    for (size_t i = 0; i < COUNT_OF(waits); i++) {
        _cleanup_(scene_close) struct scene scene;

        scene_open(&scene);
        scene_put(&scene, &kind_job, JOB("'completions':1,'backoffLimit':99,"));
        scene_run(&scene, &batch_job_controller, "j");
        scene_patch(&scene, &kind_job, "j",
                    str_printf(&scene.arena, "{'status':{'failed':%d}}", waits[i].failed).p);
        scene_patch(&scene, &kind_pod, nth_pod(&scene, 0).p, BAD("1"));
        scene_run(&scene, &batch_job_controller, "j");
        scene.now_ms = 1000000 + waits[i].waits_s * 1000 - 1;
        scene_run(&scene, &batch_job_controller, "j");
        EXPECT(count_pods(&scene) == 1);
        scene.now_ms++;
        scene_run(&scene, &batch_job_controller, "j");
        EXPECT(count_pods(&scene) == 2);
    }
}

TEST(pods_of_a_job_that_goes_wait_for_nothing)
{
    _cleanup_(scene_close) struct scene scene;

    scene_open(&scene);
    scene_put(&scene, &kind_job, JOB("'completions':1,"));
    scene_run(&scene, &batch_job_controller, "j");
    const char *pod = nth_pod(&scene, 0).p;
    EXPECT(json_count(json_at(scene_get(&scene, &kind_pod, pod), "metadata.finalizers")) == 1);
    scene_patch(&scene, &kind_job, "j",
                "{'metadata':{'deletionTimestamp':'2026-01-01T00:00:00Z'}}");
    scene_run(&scene, &batch_job_controller, "j");
    EXPECT(json_count(json_at(scene_get(&scene, &kind_pod, pod), "metadata.finalizers")) == 0);
}

TEST(a_job_adopts_and_lets_go)
{
    _cleanup_(scene_close) struct scene scene;

    scene_open(&scene);
    scene_put(&scene, &kind_job,
              "{'metadata':{'name':'j'},'spec':{'completions':1,'selector':{'matchLabels':{'a':'b'}"
              "},'template':{'metadata':{'labels':{'a':'b'}},'spec':{'containers':[{'name':'c'}]}}}"
              "}");
    scene_run(&scene, &batch_job_controller, "j");
    const char *pod = nth_pod(&scene, 0).p;
    scene_patch(&scene, &kind_pod, pod, "{'metadata':{'ownerReferences':null,'finalizers':null}}");
    scene_run(&scene, &batch_job_controller, str_printf(&scene.arena, "own/%s", pod).p);
    EXPECT(str_is(json_str_at(scene_get(&scene, &kind_pod, pod), "metadata.ownerReferences.0.uid"),
                  "u-j"));
    EXPECT(json_count(json_at(scene_get(&scene, &kind_pod, pod), "metadata.finalizers")) == 1);

    /* One that it no longer chooses is replaced, and waits for nothing of the job's. */
    scene_patch(&scene, &kind_pod, pod, "{'metadata':{'labels':null}}");
    scene_run(&scene, &batch_job_controller, "j");
    EXPECT(count_pods(&scene) == 2);
    EXPECT(json_count(json_at(scene_get(&scene, &kind_pod, pod), "metadata.ownerReferences")) == 0);
    EXPECT(json_count(json_at(scene_get(&scene, &kind_pod, pod), "metadata.finalizers")) == 0);
    scene_run(&scene, &batch_job_controller, str_printf(&scene.arena, "own/%s", pod).p);
    EXPECT(json_count(json_at(scene_get(&scene, &kind_pod, pod), "metadata.ownerReferences")) == 0);
}

TEST(a_job_makes_the_group_that_its_pods_name)
{
    _cleanup_(scene_close) struct scene scene;

    scene_open(&scene);
    scene_put(&scene, &kind_job,
              JOB("'completions':3,'parallelism':3,'scheduling':{'schedulingPolicy':{'gang':{}},"
                  "'disruptionMode':{'all':{}}},"));
    scene_run(&scene, &batch_job_controller, "j");
    const char *name = scene_names(&scene, &kind_podgroup_k8s).p;
    const struct json *group = scene_get(&scene, &kind_podgroup_k8s, name);
    EXPECT(json_i64_or(json_at(group, "spec.schedulingPolicy.gang.minCount"), 0) == 3);
    EXPECT(!json_is_null(json_at(group, "spec.disruptionMode.all")));
    EXPECT(str_is(json_str_at(group, "spec.workloadRef.templateName"), "pods"));
    EXPECT(str_eq(json_str_at(group, "spec.workloadRef.workloadName"),
                  scene_names(&scene, &kind_workload)));
    EXPECT(str_is(json_str_at(scene_get(&scene, &kind_pod, nth_pod(&scene, 0).p),
                              "spec.schedulingGroup.podGroupName"),
                  name));
    scene_patch(&scene, &kind_job, "j",
                "{'spec':{'scheduling':{'schedulingPolicy':{'gang':{'minCount':2}}}}}");
    scene_run(&scene, &batch_job_controller, "j");
    group = scene_get(&scene, &kind_podgroup_k8s, name);
    EXPECT(json_i64_or(json_at(group, "spec.schedulingPolicy.gang.minCount"), 0) == 2);
    const struct json *workload =
        scene_get(&scene, &kind_workload, scene_names(&scene, &kind_workload).p);
    EXPECT(json_i64_or(json_at(workload, "spec.podGroupTemplates.0.schedulingPolicy.gang.minCount"),
                       0) == 2);
}

TEST(a_job_without_a_policy_has_a_group_of_no_minimum)
{
    _cleanup_(scene_close) struct scene scene;

    scene_open(&scene);
    scene_put(&scene, &kind_job,
              "{'metadata':{'name':'j'},'spec':{'completions':2,'parallelism':2,'scheduling':{},"
              "'template':{'spec':{'priorityClassName':'high','hostname':'h','containers':[]}}}}");
    scene_run(&scene, &batch_job_controller, "j");
    const struct json *group =
        scene_get(&scene, &kind_podgroup_k8s, scene_names(&scene, &kind_podgroup_k8s).p);
    EXPECT(json_is(json_at(group, "spec.schedulingPolicy.basic"), JSON_OBJECT));
    EXPECT(str_is(json_str_at(group, "spec.priorityClassName"), "high"));
    /* Somebody took the Workload away: the group follows all the same. */
    scene_drop(&scene, &kind_workload, scene_names(&scene, &kind_workload).p);
    scene_patch(&scene, &kind_job, "j",
                "{'spec':{'scheduling':{'schedulingPolicy':{'gang':{'minCount':2}}}}}");
    scene_run(&scene, &batch_job_controller, "j");
    group = scene_get(&scene, &kind_podgroup_k8s, scene_names(&scene, &kind_podgroup_k8s).p);
    EXPECT(json_i64_or(json_at(group, "spec.schedulingPolicy.gang.minCount"), 0) == 2);
}

TEST(a_free_pod_is_adopted_by_a_job_that_is_not_over)
{
    static const struct {
        const char *why;
        const char *job; /* what is there besides its selector */
        bool adopted;
    } rows_of[] = {
        {"it runs", "'status':{'conditions':[{'type':'Suspended','status':'False'}]}", true},
        {"it is complete", "'status':{'conditions':[{'type':'Complete','status':'True'}]}", false},
        {"it has failed", "'status':{'conditions':[{'type':'Failed','status':'True'}]}", false},
        {"it has not failed", "'status':{'conditions':[{'type':'Failed','status':'False'}]}", true},
    };

    for (size_t i = 0; i < COUNT_OF(rows_of); i++) {
        _cleanup_(scene_close) struct scene scene;

        test_case(rows_of[i].why);
        scene_open(&scene);
        scene_put(&scene, &kind_job,
                  str_printf(&scene.arena,
                             "{'metadata':{'name':'j'},'spec':{'selector':{'matchLabels':{'a':'b'}"
                             "}},%s}",
                             rows_of[i].job)
                      .p);
        scene_put(&scene, &kind_job,
                  "{'metadata':{'name':'old','deletionTimestamp':'2026-01-01T00:00:00Z'},'spec':{"
                  "'selector':{'matchLabels':{'a':'b'}}}}");
        scene_put(&scene, &kind_pod,
                  "{'metadata':{'name':'p','labels':{'a':'b'},'finalizers':['mine'],"
                  "'ownerReferences':[{'kind':'Thing','name':'t','uid':'u-t'}]}}");
        scene_run(&scene, &batch_job_controller, "own/p");
        scene_run(&scene, &batch_job_controller, "own/gone");
        const struct json *pod = scene_get(&scene, &kind_pod, "p");
        EXPECT(json_count(json_at(pod, "metadata.ownerReferences")) ==
               (rows_of[i].adopted ? 2 : 1));
        EXPECT(str_is(scene_words(&scene, json_at(pod, "metadata.finalizers")),
                      rows_of[i].adopted ? "mine batch.kubernetes.io/job-tracking" : "mine"));
    }
}
