#include "api/kind.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/json.h"
#include "base/str.h"
#include "control/core/controllers.h"
#include "control/core/scene.h"
#include "test.h"

#include <stdbool.h>
#include <stddef.h>

/* What a TrainJob says of its pods, and what it goes by: its copy of the runtime, its own JobSet. */

#define STEP(name) \
    "'metadata':{'labels':{'trainer.kubeflow.org/trainjob-ancestor-step':'" name "'}},"
#define PART(name, step, container)                                                            \
    "{'name':'" name "','template':{" STEP(step) "'spec':{'template':{'spec':{'containers':[{" \
                                                 "'name':'" container "','image':'i'}]}}}}}"
#define NODE PART("node", "trainer", "node")
#define DATA PART("dataset-initializer", "dataset-initializer", "dataset-initializer")
#define RUNTIME(parts) \
    "{'metadata':{'name':'rt'},'spec':{'template':{'spec':{'replicatedJobs':[" parts "]}}}}"
#define JOB(spec)                                                                                  \
    "{'metadata':{'name':'tj','creationTimestamp':'1970-01-01T00:16:40Z'},'spec':{'runtimeRef':{'" \
    "name':'rt'}" spec "}}"
#define OWNED_BY(kind, version, name)                                                           \
    "'ownerReferences':[{'kind':'" kind "','apiVersion':'" version "','name':'" name "','uid':" \
    "'u-" name "','controller':true}]"
#define SET_JOB \
    "{'metadata':{'name':'tj-node-0'," OWNED_BY("JobSet", "jobset.x-k8s.io/v1alpha2", "tj") "}}"
#define POD_OF(name, rest) \
    "{'metadata':{'name':'" name "'," OWNED_BY("Job", "batch/v1", "tj-node-0") "}," rest "}"

static void begin(struct scene *scene, const char *runtime, const char *job)
{
    scene_open(scene);
    scene_put(scene, &kind_clustertrainingruntime, runtime);
    scene_put(scene, &kind_trainjob, job);
    scene_run(scene, &trainjob_controller, "tj");
}

static struct str said(struct scene *scene, const char *field)
{
    return json_str(json_get(json_get(scene_get(scene, &kind_trainjob, "tj"), "status"), field));
}

/* ---- pods ---- */

#define PENDING(more) "'status':{'phase':'Pending'," more "}"
#define UNSCHEDULED   "'conditions':[{'type':'PodScheduled','status':'False','message':'no room'}]"
#define WAITS(list, why) \
    "'" list "':[{'state':{'running':{}}},{'state':{'waiting':{'message':'" why "'}}}]"

static const struct {
    const char *why;
    const char *runtime;
    const char *pod; /* what follows its metadata */
    const char *reason;
    const char *message;
} waits[] = {
    {"it has no place", RUNTIME(NODE), "'spec':{}," PENDING(UNSCHEDULED), "Unschedulable",
     "pod p: no room"},
    {"its image cannot be had", RUNTIME(NODE),
     "'spec':{'nodeName':'n'}," PENDING(WAITS("containerStatuses", "no image")), "PodsNotReady",
     "pod p: no image"},
    {"what comes before cannot start", RUNTIME(NODE),
     "'spec':{'nodeName':'n'}," PENDING(WAITS("initContainerStatuses", "no file")), "PodsNotReady",
     "pod p: no file"},
    {"it says nothing", RUNTIME(NODE), "'spec':{'nodeName':'n'}," PENDING("'x':1"), "PodsNotReady",
     "pods are being created"},
    {"it runs, whatever it says", RUNTIME(NODE),
     "'spec':{'nodeName':'n'},'status':{'phase':'Running'," WAITS("containerStatuses", "again") "}",
     "PodsNotReady", "pods are being created"},
    {"an initializer that has no place says more than that it is not done", RUNTIME(DATA "," NODE),
     "'spec':{}," PENDING(UNSCHEDULED), "Unschedulable", "pod p: no room"},
};

TEST(a_trainjob_says_what_its_pods_wait_for)
{
    for (size_t i = 0; i < COUNT_OF(waits); i++) {
        _cleanup_(scene_close) struct scene scene;

        test_case(waits[i].why);
        begin(&scene, waits[i].runtime, JOB(""));
        scene_put(&scene, &kind_job, SET_JOB);
        scene_put(&scene, &kind_pod, str_printf(&scene.arena, POD_OF("p", "%s"), waits[i].pod).p);
        scene_run(&scene, &trainjob_controller, "tj");
        EXPECT(str_is(said(&scene, "reason"), waits[i].reason));
        EXPECT(str_is(said(&scene, "message"), waits[i].message));
    }
}

TEST(each_restart_of_a_trainjob_is_told_and_counted)
{
    _cleanup_(scene_close) struct scene scene;

    begin(&scene, RUNTIME(NODE), JOB(""));
    scene_patch(&scene, &kind_jobset, "tj", "{'status':{'restarts':1}}");
    scene_run(&scene, &trainjob_controller, "tj");
    EXPECT(str_is(said(&scene, "message"), "restart 1: pods are being created again"));
    scene_patch(&scene, &kind_jobset, "tj",
                "{'status':{'restarts':1,'previousInPlaceRestartAttempt':0}}");
    scene_run(&scene, &trainjob_controller, "tj");
    EXPECT(str_is(said(&scene, "message"), "restart 2: pods are being created again"));
    EXPECT(str_contains(scene.events, STR("Restarting Restarting")));
    scene_patch(&scene, &kind_jobset, "tj",
                "{'status':{'replicatedJobsStatus':[{'name':'node','ready':1,'succeeded':0}]}}");
    scene_run(&scene, &trainjob_controller, "tj");
    EXPECT(str_is(said(&scene, "phase"), "Running"));
    EXPECT(str_is(said(&scene, "message"), "all pods run; restarts so far: 2"));
}

#define ENDED(code, reason, at, message)                                       \
    "{'name':'c','state':{'terminated':{'exitCode':" code ",'reason':'" reason \
    "','finishedAt':'1970-01-01T00:17:" at "Z','message':'" message "'}}}"
#define FAILED(list) "'status':{'phase':'Failed','containerStatuses':[" list "]}"

static const struct {
    const char *why;
    const char *pods[3];
    const char *message;
} failures[] = {
    {"of two that tell as much, the first to end",
     {POD_OF("a", FAILED(ENDED("1", "Error", "05", ""))),
      POD_OF("b", FAILED(ENDED("2", "Error", "03", ""))),
      POD_OF("c", FAILED(ENDED("3", "Error", "04", "")))},
     "m: pod b ended with exit status 2"},
    {"a reason that says more than Error is said",
     {POD_OF("a", FAILED(ENDED("137", "OOMKilled", "05", "")))},
     "m: pod a ended with exit status 137, OOMKilled"},
    {"a container that ended well is not the one",
     {POD_OF("a", FAILED(ENDED("0", "Completed", "01", "") "," ENDED("4", "", "05", "")))},
     "m: pod a ended with exit status 4"},
    {"a pod that did not fail is not the one",
     {POD_OF("a", "'status':{'phase':'Running'}"),
      POD_OF("b", FAILED(ENDED("5", "Error", "05", "")))},
     "m: pod b ended with exit status 5"},
    {"nobody knows how they ended", {POD_OF("a", FAILED(ENDED("0", "", "05", "")))}, "m"},
    {"none is left", {NULL}, "m"},
};

TEST(a_trainjob_that_failed_names_a_pod_where_one_is_to_blame)
{
    for (size_t i = 0; i < COUNT_OF(failures); i++) {
        _cleanup_(scene_close) struct scene scene;

        test_case(failures[i].why);
        begin(&scene, RUNTIME(NODE), JOB(""));
        scene_put(&scene, &kind_job, SET_JOB);
        for (size_t j = 0; j < 3 && failures[i].pods[j]; j++)
            scene_put(&scene, &kind_pod, failures[i].pods[j]);
        scene_patch(&scene, &kind_jobset, "tj",
                    "{'status':{'conditions':[{'type':'Failed','status':'True','reason':'r',"
                    "'message':'m'}]}}");
        scene_run(&scene, &trainjob_controller, "tj");
        EXPECT(str_is(said(&scene, "message"), failures[i].message));
    }
}

/* ---- deadlines ---- */

TEST(a_deadline_counts_from_when_the_trainjob_was_resumed)
{
    _cleanup_(scene_close) struct scene scene;

    begin(&scene, RUNTIME(NODE), JOB(",'activeDeadlineSeconds':10,'suspend':true"));
    scene.now_ms += 60000;
    scene_patch(&scene, &kind_trainjob, "tj", "{'spec':{'suspend':false}}");
    scene_run(&scene, &trainjob_controller, "tj");
    scene.now_ms += 9000;
    scene_run(&scene, &trainjob_controller, "tj");
    EXPECT(str_is(said(&scene, "phase"), "Pending"));
    scene.now_ms += 1000;
    scene_run(&scene, &trainjob_controller, "tj");
    EXPECT(str_is(said(&scene, "reason"), "DeadlineExceeded"));
    EXPECT(!scene_get(&scene, &kind_jobset, "tj"));
}

TEST(a_deadline_passes_for_a_trainjob_without_a_jobset_too)
{
    static const char *const sets[] = {
        NULL, "{'metadata':{'name':'tj','deletionTimestamp':'1970-01-01T00:16:41Z',"
              "" OWNED_BY("TrainJob", "trainer.kubeflow.org/v1alpha1", "tj") "},'spec':{}}"};

    for (size_t i = 0; i < COUNT_OF(sets); i++) {
        _cleanup_(scene_close) struct scene scene;

        scene_open(&scene);
        scene_put(&scene, &kind_trainjob, JOB(",'activeDeadlineSeconds':10"));
        if (sets[i])
            scene_put(&scene, &kind_jobset, sets[i]);
        scene.now_ms += 10000;
        scene_run(&scene, &trainjob_controller, "tj");
        EXPECT(str_is(said(&scene, "reason"), "DeadlineExceeded"));
        EXPECT(!sets[i] || scene_get(&scene, &kind_jobset, "tj")); /* it goes already */
    }
}

/* Muster was down while the pods ended: its JobSet is the last to know. */
TEST(what_has_succeeded_is_not_limited_by_the_deadline_of_a_trainjob)
{
    static const struct {
        const char *why;
        const char *job;
        const char *pod;
        bool exceeded;
    } rows[] = {
        {"its pods have succeeded", SET_JOB, POD_OF("a", "'status':{'phase':'Succeeded'}"), false},
        {"one runs", SET_JOB, POD_OF("a", "'status':{'phase':'Running'}"), true},
        {"nothing has begun", NULL, NULL, true},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(scene_close) struct scene scene;

        test_case(rows[i].why);
        begin(&scene, RUNTIME(NODE), JOB(",'activeDeadlineSeconds':10"));
        if (rows[i].job)
            scene_put(&scene, &kind_job, rows[i].job);
        if (rows[i].pod)
            scene_put(&scene, &kind_pod, rows[i].pod);
        scene.now_ms += 60000;
        scene_run(&scene, &trainjob_controller, "tj");
        EXPECT(str_is(said(&scene, "reason"), "DeadlineExceeded") == rows[i].exceeded);
        EXPECT((scene_get(&scene, &kind_jobset, "tj") == NULL) == rows[i].exceeded);
    }
}

/* ---- the copy of the runtime ---- */

static const char *image(struct scene *scene)
{
    const struct json *set = scene_get(scene, &kind_jobset, "tj");

    return str_c(&scene->arena,
                 json_str_at(set, "spec.replicatedJobs.0.template.spec.template.spec.containers.0."
                                  "image"));
}

#define SNAPSHOT(owner, data) \
    "{'metadata':{'name':'tj-runtime-snapshot'" owner "},'data':{" data "}}"
#define OTHER                                                                                    \
    "spec: {template: {spec: {replicatedJobs: [{name: node, template: {spec: {template: {spec: " \
    "{containers: [{name: node, image: other}]}}}}}]}}}"

TEST(a_trainjob_goes_by_the_copy_of_the_runtime_that_is_its_own)
{
    static const struct {
        const char *why;
        const char *map;
        const char *image;
    } rows[] = {
        {"its own copy",
         SNAPSHOT("," OWNED_BY("TrainJob", "trainer.kubeflow.org/v1alpha1", "tj"),
                  "'runtime':'" OTHER "'"),
         "other"},
        {"one of another",
         SNAPSHOT("," OWNED_BY("TrainJob", "trainer.kubeflow.org/v1alpha1", "x"),
                  "'runtime':'" OTHER "'"),
         "i"},
        {"one of nobody", SNAPSHOT("", "'runtime':'" OTHER "'"), "i"},
        {"an empty one",
         SNAPSHOT("," OWNED_BY("TrainJob", "trainer.kubeflow.org/v1alpha1", "tj"), ""), "i"},
        {"one that cannot be read",
         SNAPSHOT("," OWNED_BY("TrainJob", "trainer.kubeflow.org/v1alpha1", "tj"), "'runtime':'{'"),
         "i"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(scene_close) struct scene scene;

        test_case(rows[i].why);
        scene_open(&scene);
        scene_put(&scene, &kind_configmap, rows[i].map);
        scene_put(&scene, &kind_clustertrainingruntime, RUNTIME(NODE));
        scene_put(&scene, &kind_trainjob, JOB(""));
        (void)scene_turn(&scene, &trainjob_controller, "tj");
        EXPECT(str_is(str_from(image(&scene)), rows[i].image));
    }
}

TEST(a_runtime_of_the_namespace_is_another_one)
{
    _cleanup_(scene_close) struct scene scene;

    scene_open(&scene);
    scene_put(&scene, &kind_clustertrainingruntime, RUNTIME(NODE));
    scene_put(&scene, &kind_trainjob,
              "{'metadata':{'name':'tj'},'spec':{'runtimeRef':{'name':'rt','kind':"
              "'TrainingRuntime'}}}");
    scene_run(&scene, &trainjob_controller, "tj");
    EXPECT(str_is(said(&scene, "message"), "spec.runtimeRef: there is no TrainingRuntime rt"));
    scene_put(&scene, &kind_trainingruntime, RUNTIME(NODE));
    scene_run(&scene, &trainjob_controller, "tj");
    EXPECT(scene_get(&scene, &kind_jobset, "tj"));
}

/* ---- the JobSet ---- */

TEST(a_suspended_trainjob_changes_the_pods_to_come)
{
    static const struct {
        const char *why;
        const char *patch; /* of the spec */
        bool suspended;    /* after it */
        const char *selector;
    } rows[] = {
        {"nothing of the pods", "{'spec':{'labels':{}}}", true, ""},
        {"while it stays suspended",
         "{'spec':{'podSpecOverrides':[{'targetJobs':[{'name':'node'}],'nodeSelector':{'a':'1'}}]}"
         "}",
         true, "1"},
        {"and is resumed by the same word",
         "{'spec':{'suspend':false,'podSpecOverrides':[{'targetJobs':[{'name':'node'}],"
         "'nodeSelector':{'a':'1'}}]}}",
         false, "1"},
        {"it is only resumed", "{'spec':{'suspend':false}}", false, ""},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(scene_close) struct scene scene;

        test_case(rows[i].why);
        begin(&scene, RUNTIME(NODE), JOB(",'suspend':true"));
        scene_patch(&scene, &kind_trainjob, "tj", rows[i].patch);
        scene_run(&scene, &trainjob_controller, "tj");
        const struct json *spec = json_get(scene_get(&scene, &kind_jobset, "tj"), "spec");
        EXPECT(json_bool_or(json_get(spec, "suspend"), false) == rows[i].suspended);
        EXPECT(str_is(json_str_at(spec, "replicatedJobs.0.template.spec.template.spec."
                                        "nodeSelector.a"),
                      rows[i].selector));
    }
}

TEST(the_pods_of_a_trainjob_that_runs_are_not_changed)
{
    _cleanup_(scene_close) struct scene scene;

    begin(&scene, RUNTIME(NODE), JOB(""));
    scene_patch(&scene, &kind_trainjob, "tj",
                "{'spec':{'podSpecOverrides':[{'targetJobs':[{'name':'node'}],'nodeSelector':{'a':"
                "'1'}}]}}");
    scene_run(&scene, &trainjob_controller, "tj");
    EXPECT(!json_at(scene_get(&scene, &kind_jobset, "tj"),
                    "spec.replicatedJobs.0.template.spec.template.spec.nodeSelector"));
}

TEST(parts_that_a_changed_runtime_does_not_have_stay_as_they_are)
{
    _cleanup_(scene_close) struct scene scene;

    begin(&scene, RUNTIME(NODE), JOB(",'suspend':true"));
    scene_drop(&scene, &kind_configmap, "tj-runtime-snapshot");
    scene_put(&scene, &kind_clustertrainingruntime, RUNTIME(PART("x", "trainer", "node")));
    scene_patch(&scene, &kind_trainjob, "tj", "{'spec':{'labels':{'l':'1'},'suspend':false}}");
    scene_run(&scene, &trainjob_controller, "tj");
    const struct json *spec = json_get(scene_get(&scene, &kind_jobset, "tj"), "spec");
    EXPECT(!json_bool_or(json_get(spec, "suspend"), true));
    EXPECT(str_is(json_str_at(spec, "replicatedJobs.0.name"), "node"));
    EXPECT(!json_at(spec, "replicatedJobs.0.template.spec.template.metadata.labels.l"));
}

TEST(a_jobset_of_somebody_else_is_left_alone_and_said)
{
    static const char *const owners[] = {
        "", "," OWNED_BY("TrainJob", "trainer.kubeflow.org/v1alpha1", "x")};

    for (size_t i = 0; i < COUNT_OF(owners); i++) {
        _cleanup_(scene_close) struct scene scene;

        scene_open(&scene);
        scene_put(&scene, &kind_jobset,
                  str_printf(&scene.arena, "{'metadata':{'name':'tj'%s},'spec':{'suspend':true}}",
                             owners[i])
                      .p);
        scene_put(&scene, &kind_clustertrainingruntime, RUNTIME(NODE));
        scene_put(&scene, &kind_trainjob, JOB(""));
        scene_run(&scene, &trainjob_controller, "tj");
        EXPECT(str_is(said(&scene, "reason"), "TrainJobResourcesCreationFailed"));
        EXPECT(str_is(said(&scene, "message"),
                      "a JobSet tj already exists and does not belong to this TrainJob; delete or "
                      "rename one of them"));
        EXPECT(!json_at(scene_get(&scene, &kind_jobset, "tj"), "spec.replicatedJobs"));
        scene_drop(&scene, &kind_jobset, "tj");
        scene_run(&scene, &trainjob_controller, "tj");
        EXPECT(json_at(scene_get(&scene, &kind_jobset, "tj"), "spec.replicatedJobs"));
    }
}

static struct str authority(struct scene *scene)
{
    const struct json *map = scene_get(scene, &kind_configmap, "tj-tls-config");

    return json_str(json_get(json_get(map, "data"), "ca.crt"));
}

TEST(pods_that_report_progress_know_the_next_authority_in_time)
{
    static const char *const owners[] = {"u-tj",
                                         "somebody"}; /* of the map, and whether it follows */
    _cleanup_(scene_close) struct scene scene;

    scene_open(&scene);
    scene.config.trainer_url = STR("https://h:1");
    scene.config.trainer_ca = STR("one");
    scene_put(&scene, &kind_clustertrainingruntime, RUNTIME(NODE));
    scene_put(&scene, &kind_trainjob, JOB(""));
    scene_run(&scene, &trainjob_controller, "tj");
    EXPECT(str_is(authority(&scene), "one"));
    for (size_t i = 0; i < COUNT_OF(owners); i++) {
        scene_put(
            &scene, &kind_configmap,
            str_printf(&scene.arena,
                       "{'metadata':{'name':'tj-tls-config','ownerReferences':[{'kind':'TrainJob',"
                       "'apiVersion':'trainer.kubeflow.org/v1alpha1','name':'tj','uid':'%s',"
                       "'controller':true}]},'data':{'ca.crt':'one'}}",
                       owners[i])
                .p);
        scene.config.trainer_ca = STR("two");
        scene_run(&scene, &trainjob_controller, "tj");
        EXPECT(str_is(authority(&scene), i == 0 ? "two" : "one"));
    }
    scene_put(&scene, &kind_configmap, "{'metadata':{'name':'tj-tls-config'}}");
    scene_run(&scene, &trainjob_controller, "tj");
    EXPECT(str_is(authority(&scene), ""));
}

/* ---- who is looked at ---- */

TEST(a_trainjob_that_goes_or_is_gone_makes_nothing)
{
    _cleanup_(scene_close) struct scene scene;

    scene_open(&scene);
    scene_run(&scene, &trainjob_controller, "tj");
    scene_put(&scene, &kind_clustertrainingruntime, RUNTIME(NODE));
    scene_put(&scene, &kind_trainjob,
              "{'metadata':{'name':'tj','deletionTimestamp':'1970-01-01T00:16:41Z'},'spec':{"
              "'runtimeRef':{'name':'rt'}}}");
    scene_run(&scene, &trainjob_controller, "tj");
    EXPECT(str_is(scene_names(&scene, &kind_jobset), ""));
}

TEST(a_trainjob_hears_of_its_runtime_its_jobset_and_its_pods)
{
    _cleanup_(scene_close) struct scene scene;
    const struct controller *controller = &trainjob_controller;

    begin(&scene, RUNTIME(NODE), JOB(""));
    scene_put(&scene, &kind_trainjob,
              "{'metadata':{'name':'x'},'spec':{'runtimeRef':{'name':'y'}}}");
    scene_put(&scene, &kind_trainingruntime, RUNTIME(NODE));
    scene_put(&scene, &kind_jobset, "{'metadata':{'name':'alone'},'spec':{}}");
    scene_put(&scene, &kind_jobset, "{'metadata':{'name':'x'},'spec':{}}");
    scene_put(
        &scene, &kind_jobset,
        "{'metadata':{'name':'odd'," OWNED_BY("TrainJob", "example.com/v1", "tj") "},'spec':{}}");
    scene_put(&scene, &kind_jobset,
              "{'metadata':{'name':'of'," OWNED_BY("Other", "trainer.kubeflow.org/v1alpha1",
                                                   "tj") "},'spec':{}}");
    scene_put(&scene, &kind_pod,
              "{'metadata':{'name':'p','labels':{'jobset.sigs.k8s.io/jobset-name':'tj'}}}");
    scene_put(&scene, &kind_pod,
              "{'metadata':{'name':'late','labels':{'jobset.sigs.k8s.io/jobset-name':'gone'}}}");
    scene_put(&scene, &kind_pod, "{'metadata':{'name':'other'}}");
    EXPECT(str_is(scene_keys(&scene, controller, &kind_trainjob, "tj"), "tj"));
    EXPECT(str_is(scene_keys(&scene, controller, &kind_clustertrainingruntime, "rt"), "tj"));
    EXPECT(str_is(scene_keys(&scene, controller, &kind_trainingruntime, "rt"), "tj"));
    EXPECT(str_is(scene_keys(&scene, controller, &kind_jobset, "tj"), "tj"));
    EXPECT(str_is(scene_keys(&scene, controller, &kind_jobset, "alone"), ""));
    EXPECT(str_is(scene_keys(&scene, controller, &kind_jobset, "x"), "x")); /* in its way */
    EXPECT(str_is(scene_keys(&scene, controller, &kind_configmap, "tj-runtime-snapshot"), "tj"));
    EXPECT(str_is(scene_keys(&scene, controller, &kind_jobset, "odd"), ""));
    EXPECT(str_is(scene_keys(&scene, controller, &kind_jobset, "of"), ""));
    EXPECT(str_is(scene_keys(&scene, controller, &kind_pod, "p"), "tj"));
    EXPECT(str_is(scene_keys(&scene, controller, &kind_pod, "late"), ""));
    EXPECT(str_is(scene_keys(&scene, controller, &kind_pod, "other"), ""));
}
