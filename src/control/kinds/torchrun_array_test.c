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

/* spec.array: a job of jobs. */

static void array_open(struct scene *scene, const char *spec)
{
    scene_open(scene);
    scene_put(scene, &kind_torchrunqueue,
              "{'metadata':{'name':'q'},'spec':{'nodeResources':{'gpus':1}}}");
    scene_put(scene, &kind_torchrunjob,
              str_printf(&scene->arena,
                         "{'metadata':{'name':'a','labels':{'team':'x'},'annotations':{"
                         "'muster.dev/on-hang':'Restart','muster.dev/"
                         "restart-mode':'InPlace','mine':'1'}},'spec':{'jobQueue':'q',"
                         "'numGPUs':1,'command':'true','env':[{'name':'E','value':'1'}],"
                         "'reliability':{'ttlSecondsAfterFinished':60},%s}}",
                         spec)
                  .p);
    scene_run(scene, &torchrun_job_controller, "a");
}

static void array_end(struct scene *scene, const char *job, const char *phase)
{
    scene_patch(scene, &kind_torchrunjob, job,
                str_printf(&scene->arena,
                           "{'status':{'phase':'%s','exitCode':%d,'startTime':"
                           "'2001-09-09T01:00:00Z'}}",
                           phase, str_is(str_from(phase), "Failed") ? 7 : 0)
                    .p);
    scene_run(scene, &torchrun_job_controller, "a");
}

static bool array_says(struct scene *scene, const char *path, const char *want)
{
    struct str text = json_str_at(scene_get(scene, &kind_torchrunjob, "a"), path);

    if (!str_is(text, want))
        test_fail(__FILE__, __LINE__, str_c(&scene->arena, text));
    return str_is(text, want);
}

TEST(an_array_makes_its_jobs_and_no_more_at_a_time_than_it_may)
{
    struct scene scene;

    array_open(&scene, "'array':{'indexes':'0-4','limit':2}");
    EXPECT(str_is(scene_names(&scene, &kind_torchrunjob), "a a-0 a-1"));
    EXPECT(str_is(scene_names(&scene, &kind_pod), ""));
    array_end(&scene, "a-0", "Running");
    EXPECT(array_says(&scene, "status.phase", "Running"));
    EXPECT(
        array_says(&scene, "status.message", "1 of 5 jobs of the array run, 4 wait, 0 have ended"));
    array_end(&scene, "a-1", "Failed");
    EXPECT(str_is(scene_names(&scene, &kind_torchrunjob), "a a-0 a-1 a-2"));
    array_end(&scene, "a-0", "Succeeded");
    array_end(&scene, "a-2", "Succeeded");
    EXPECT(str_is(scene_names(&scene, &kind_torchrunjob), "a a-0 a-1 a-2 a-3 a-4"));
    EXPECT(array_says(&scene, "status.workersStatus", "2/5 done"));
    array_end(&scene, "a-3", "Succeeded");
    array_end(&scene, "a-4", "Succeeded");
    EXPECT(array_says(&scene, "status.phase", "Failed"));
    EXPECT(
        array_says(&scene, "status.message", "1 of 5 jobs of the array failed or were deleted: 1"));
    EXPECT(array_says(&scene, "status.array.succeeded", "0,2-4"));
    const struct json *status = json_get(scene_get(&scene, &kind_torchrunjob, "a"), "status");
    EXPECT(json_i64_or(json_get(status, "exitCode"), 0) == 7);
    EXPECT(json_i64_or(json_get(status, "numGPUs"), -1) == 0);
    scene_close(&scene);
}

TEST(a_job_of_an_array_is_like_the_array_but_for_its_index)
{
    struct scene scene;

    array_open(&scene, "'array':{'indexes':'3,8'}");
    const struct json *job = scene_get(&scene, &kind_torchrunjob, "a-8");
    const struct json *env = json_at(job, "spec.env");
    EXPECT(str_is(json_str_at(env, "0.name"), "E"));
    EXPECT(str_is(json_str_at(env, "1.name"), "MUSTER_ARRAY_INDEX"));
    EXPECT(str_is(json_str_at(env, "1.value"), "8"));
    EXPECT(str_is(json_str_at(env, "4.name"), "SLURM_ARRAY_TASK_ID"));
    EXPECT(json_is_null(json_at(job, "spec.array")));
    EXPECT(json_is_null(json_at(job, "spec.reliability.ttlSecondsAfterFinished")));
    const struct json *labels = json_at(job, "metadata.labels");
    EXPECT(str_is(json_str(json_get(labels, "team")), "x"));
    EXPECT(str_is(json_str(json_get(labels, "torchrun.ai/array")), "a"));
    EXPECT(str_is(json_str(json_get(labels, "torchrun.ai/array-index")), "8"));
    EXPECT(str_is(json_str_at(job, "metadata.ownerReferences.0.name"), "a"));
    scene_run(&scene, &torchrun_job_controller, "a-8");
    EXPECT(scene_get(&scene, &kind_pod, "a-8-worker-0") != NULL);
    scene_close(&scene);
}

TEST(a_job_of_an_array_that_was_deleted_is_not_made_again)
{
    struct scene scene;

    array_open(&scene, "'array':{'indexes':'0-2','limit':2}");
    array_end(&scene, "a-0", "Succeeded");
    scene_drop(&scene, &kind_torchrunjob, "a-0");
    scene_drop(&scene, &kind_torchrunjob, "a-1");
    scene_run(&scene, &torchrun_job_controller, "a");
    EXPECT(str_is(scene_names(&scene, &kind_torchrunjob), "a a-2"));
    EXPECT(array_says(&scene, "status.array.succeeded", "0"));
    EXPECT(array_says(&scene, "status.array.failed", "1"));
    scene_close(&scene);
}

TEST(the_jobs_of_an_array_are_suspended_with_it)
{
    struct scene scene;

    array_open(&scene, "'array':{'indexes':'0-2','limit':1}");
    scene_patch(&scene, &kind_torchrunjob, "a", "{'spec':{'suspend':true}}");
    scene_run(&scene, &torchrun_job_controller, "a");
    EXPECT(array_says(&scene, "status.phase", "Suspended"));
    EXPECT(
        json_bool_or(json_at(scene_get(&scene, &kind_torchrunjob, "a-0"), "spec.suspend"), false));
    array_end(&scene, "a-0", "Succeeded");
    EXPECT(str_is(scene_names(&scene, &kind_torchrunjob), "a a-0"));
    scene_patch(&scene, &kind_torchrunjob, "a", "{'spec':{'suspend':false}}");
    scene_run(&scene, &torchrun_job_controller, "a");
    EXPECT(str_is(scene_names(&scene, &kind_torchrunjob), "a a-0 a-1"));
    scene_close(&scene);
}

TEST(a_job_of_an_array_that_was_suspended_by_hand_stays_so)
{
    struct scene scene;

    array_open(&scene, "'array':{'indexes':'0-1'}");
    scene_patch(&scene, &kind_torchrunjob, "a-1", "{'spec':{'suspend':true}}");
    for (int i = 0; i < 2; i++) {
        scene_run(&scene, &torchrun_job_controller, "a");
        const struct json *one = scene_get(&scene, &kind_torchrunjob, "a-0");
        const struct json *other = scene_get(&scene, &kind_torchrunjob, "a-1");

        EXPECT(!json_bool_or(json_at(one, "spec.suspend"), false));
        EXPECT(json_bool_or(json_at(other, "spec.suspend"), false));
        scene_patch(&scene, &kind_torchrunjob, "a", "{'spec':{'suspend':true}}");
        scene_run(&scene, &torchrun_job_controller, "a");
        one = scene_get(&scene, &kind_torchrunjob, "a-0");
        EXPECT(json_bool_or(json_at(one, "spec.suspend"), false));
        scene_patch(&scene, &kind_torchrunjob, "a", "{'spec':{'suspend':false}}");
    }
    scene_close(&scene);
}

TEST(what_is_said_of_an_array_beside_its_spec_holds_for_its_jobs)
{
    struct scene scene;

    array_open(&scene, "'array':{'indexes':'0'}");
    const struct json *notes =
        json_at(scene_get(&scene, &kind_torchrunjob, "a-0"), "metadata.annotations");
    EXPECT(str_is(json_str(json_get(notes, "muster.dev/on-hang")), "Restart"));
    EXPECT(str_is(json_str(json_get(notes, "muster.dev/restart-mode")), "InPlace"));
    EXPECT(!json_get(notes, "mine"));
    scene_close(&scene);
}

TEST(the_folder_of_an_array_is_sent_once)
{
    struct scene scene;

    array_open(&scene, "'array':{'indexes':'0'}");
    scene_put(&scene, &kind_storageclass,
              "{'metadata':{'name':'local','annotations':{'storageclass.kubernetes.io/"
              "is-default-class':'true'}}}");
    scene_put(&scene, &kind_torchrunjob,
              "{'metadata':{'name':'b','annotations':{'torchrun.ai/workspace':'upload'}},'spec':{"
              "'jobQueue':'q','numGPUs':1,'command':'true','array':{'indexes':'0-1'}}}");
    scene_run(&scene, &torchrun_job_controller, "b");
    EXPECT(scene_get(&scene, &kind_torchrunjob, "b-0") == NULL); /* not before it is there */
    scene_patch(&scene, &kind_pod, "b-sync-0", "{'status':{'phase':'Running'}}");
    scene_patch(&scene, &kind_torchrunjob, "b",
                "{'metadata':{'annotations':{'torchrun.ai/workspace-revision':'r'}}}");
    scene_run(&scene, &torchrun_job_controller, "b");
    scene_run(&scene, &torchrun_job_controller, "b-0");
    const struct json *pod = scene_get(&scene, &kind_pod, "b-0-worker-0");
    bool found = false;
    JSON_FOREACH(json_at(pod, "spec.containers.0.env"), entry)
        found = found || str_is(json_str(json_get(entry, "value")), "http://b-sync-0.b:7077");
    EXPECT(found);
    EXPECT(scene_get(&scene, &kind_pod, "b-0-sync-0") == NULL);
    EXPECT(scene_get(&scene, &kind_pvc, "b-0-workspace") == NULL);
    scene_close(&scene);
}

static void array_ended_as(struct scene *scene, const char *job, int code, const char *start)
{
    scene_patch(
        scene, &kind_torchrunjob, job,
        str_printf(&scene->arena,
                   "{'status':{'phase':'%s','exitCode':%d,'startTime':'2001-09-09T%s:00Z'}}",
                   code ? "Failed" : "Succeeded", code, start)
            .p);
}

TEST(an_array_ends_as_the_first_of_its_jobs_that_failed)
{
    struct scene scene;

    array_open(&scene, "'array':{'indexes':'0-3'}");
    array_ended_as(&scene, "a-0", 0, "02:00");
    array_ended_as(&scene, "a-1", 5, "01:00");
    array_ended_as(&scene, "a-2", 7, "03:00");
    scene_patch(&scene, &kind_torchrunjob, "a-3", "{'status':{'phase':'Failed','exitCode':0}}");
    scene_run(&scene, &torchrun_job_controller, "a");
    const struct json *status = json_get(scene_get(&scene, &kind_torchrunjob, "a"), "status");
    EXPECT(json_i64_or(json_get(status, "exitCode"), 0) == 5);
    EXPECT(array_says(&scene, "status.startTime", "2001-09-09T01:00:00Z"));
    scene_close(&scene);
}

TEST(an_array_whose_jobs_were_deleted_has_failed)
{
    struct scene scene;

    array_open(&scene, "'array':{'indexes':'0-1'}");
    scene_drop(&scene, &kind_torchrunjob, "a-0");
    scene_drop(&scene, &kind_torchrunjob, "a-1");
    scene_run(&scene, &torchrun_job_controller, "a");
    const struct json *status = json_get(scene_get(&scene, &kind_torchrunjob, "a"), "status");
    EXPECT(array_says(&scene, "status.phase", "Failed"));
    EXPECT(json_i64_or(json_get(status, "exitCode"), 0) == 1);
    scene_close(&scene);
}

TEST(an_array_whose_jobs_have_all_succeeded_has_succeeded)
{
    struct scene scene;

    array_open(&scene, "'array':{'indexes':'0-1'}");
    array_ended_as(&scene, "a-0", 0, "02:00");
    array_ended_as(&scene, "a-1", 0, "01:00");
    scene_run(&scene, &torchrun_job_controller, "a");
    EXPECT(array_says(&scene, "status.phase", "Succeeded"));
    EXPECT(array_says(&scene, "status.message", "all 2 jobs of the array have succeeded"));
    scene_close(&scene);
}

TEST(an_array_makes_all_of_its_jobs_however_many)
{
    struct scene scene;

    array_open(&scene, "'array':{'indexes':'0-119'}");
    EXPECT(scene_get(&scene, &kind_torchrunjob, "a-119") != NULL);
    scene_close(&scene);
}

TEST(an_array_leaves_a_job_of_somebody_else_alone)
{
    static const char *const owners[] = {
        "", ",'ownerReferences':[{'apiVersion':'torchrun.ai/v1alpha1','kind':'TorchrunJob','name':"
            "'a','uid':'older','controller':true}]"};

    for (size_t i = 0; i < COUNT_OF(owners); i++) {
        struct scene scene;

        scene_open(&scene);
        scene_put(&scene, &kind_torchrunqueue,
                  "{'metadata':{'name':'q'},'spec':{'nodeResources':{'gpus':1}}}");
        scene_put(&scene, &kind_torchrunjob,
                  str_printf(&scene.arena, "{'metadata':{'name':'a-0'%s},'spec':{'command':'own'}}",
                             owners[i])
                      .p);
        scene_put(&scene, &kind_torchrunjob,
                  "{'metadata':{'name':'a'},'spec':{'jobQueue':'q','command':'true','array':{"
                  "'indexes':'0-1'}}}");
        scene_run(&scene, &torchrun_job_controller, "a");
        EXPECT(array_says(&scene, "status.array.failed", "0"));
        EXPECT(str_is(json_str_at(scene_get(&scene, &kind_torchrunjob, "a-0"), "spec.command"),
                      "own"));
        EXPECT(scene_get(&scene, &kind_torchrunjob, "a-1") != NULL);
        scene_close(&scene);
    }
}

TEST(indexes_that_are_none_make_no_jobs)
{
    static const char *const specs[][2] = {{"'command':'true'", "spec.array.indexes: "},
                                           {"'suspend':false", "spec.command is missing"}};

    for (size_t i = 0; i < COUNT_OF(specs); i++) {
        struct scene scene;

        scene_open(&scene);
        scene_put(&scene, &kind_torchrunqueue,
                  "{'metadata':{'name':'q'},'spec':{'nodeResources':{'gpus':1}}}");
        scene_put(&scene, &kind_torchrunjob,
                  str_printf(&scene.arena,
                             "{'metadata':{'name':'a'},'spec':{'jobQueue':'q','array':{'indexes':"
                             "'x'},%s}}",
                             specs[i][0])
                      .p);
        scene_run(&scene, &torchrun_job_controller, "a");
        EXPECT(str_is(scene_names(&scene, &kind_torchrunjob), "a"));
        EXPECT(str_starts(json_str_at(scene_get(&scene, &kind_torchrunjob, "a"), "status.message"),
                          str_from(specs[i][1])));
        scene_close(&scene);
    }
}

/* Its array is gone, or is another one of that name. */
TEST(a_job_of_an_array_that_is_gone_stands_alone)
{
    static const char *const arrays[] = {
        NULL, "{'metadata':{'name':'b','uid':'newer','annotations':{'torchrun.ai/workspace':"
              "'upload'}},'spec':{'jobQueue':'q','command':'x','array':{'indexes':'0'}}}"};

    for (size_t i = 0; i < COUNT_OF(arrays); i++) {
        struct scene scene;

        array_open(&scene, "'suspend':true,'array':{'indexes':'0'}");
        if (arrays[i])
            scene_put(&scene, &kind_torchrunjob, arrays[i]);
        scene_put(&scene, &kind_torchrunjob,
                  "{'metadata':{'name':'b-0','labels':{'torchrun.ai/array':'b',"
                  "'torchrun.ai/array-index':'0'},'ownerReferences':[{'apiVersion':"
                  "'torchrun.ai/v1alpha1','kind':'TorchrunJob','name':'b','uid':'u-b','controller':"
                  "true}]},'spec':{'jobQueue':'q','numGPUs':1,'command':'true'}}");
        scene_run(&scene, &torchrun_job_controller, "b-0");
        const struct json *pod = scene_get(&scene, &kind_pod, "b-0-worker-0");
        EXPECT(pod != NULL);
        JSON_FOREACH(json_at(pod, "spec.containers.0.env"), entry)
            EXPECT(!str_is(json_str(json_get(entry, "name")), "MUSTER_SYNC_URL"));
        EXPECT(str_is(scene_keys(&scene, &torchrun_job_controller, &kind_torchrunjob, "b-0"),
                      "b-0 b"));
        scene_close(&scene);
    }
}

#define OWNED_BY_A                                                                                \
    "'ownerReferences':[{'apiVersion':'torchrun.ai/v1alpha1','kind':'TorchrunJob','name':'wait'," \
    "'uid':'u-wait','controller':true}]"
#define READY(word) "'status':{'conditions':[{'type':'Ready','status':'" word "'}]}"

TEST(a_torchrunjob_hears_of_what_it_may_wait_for)
{
    static const char *const phases[][2] = {
        {"wait", "Pending"}, {"run", "Running"}, {"done", "Succeeded"}};
    _cleanup_(scene_close) struct scene scene;
    const struct controller *controller = &torchrun_job_controller;

    scene_open(&scene);
    for (size_t i = 0; i < COUNT_OF(phases); i++)
        scene_put(&scene, &kind_torchrunjob,
                  str_printf(&scene.arena,
                             "{'metadata':{'name':'%s'},'spec':{'jobQueue':'q'},'status':{'phase':"
                             "'%s'}}",
                             phases[i][0], phases[i][1])
                      .p);
    scene_put(&scene, &kind_torchrunqueue, "{'metadata':{'name':'q'},'spec':{}}");
    scene_put(&scene, &kind_torchrunqueue, "{'metadata':{'name':'other'},'spec':{}}");
    scene_put(&scene, &kind_node, "{'metadata':{'name':'good'}," READY("True") "}");
    scene_put(&scene, &kind_node, "{'metadata':{'name':'bad'}," READY("False") "}");
    scene_put(&scene, &kind_storageclass, "{'metadata':{'name':'s'}}");
    scene_put(&scene, &kind_pvc, "{'metadata':{'name':'c'}}");
    scene_put(&scene, &kind_pvc, "{'metadata':{'name':'own'," OWNED_BY_A "}}");
    scene_put(&scene, &kind_pod, "{'metadata':{'name':'alone'}}");
    EXPECT(str_is(scene_keys(&scene, controller, &kind_torchrunqueue, "q"), "wait run"));
    EXPECT(str_is(scene_keys(&scene, controller, &kind_torchrunqueue, "other"), ""));
    EXPECT(str_is(scene_keys(&scene, controller, &kind_node, "good"), "wait"));
    EXPECT(str_is(scene_keys(&scene, controller, &kind_node, "bad"), "wait run"));
    EXPECT(str_is(scene_keys(&scene, controller, &kind_storageclass, "s"), "wait run"));
    EXPECT(str_is(scene_keys(&scene, controller, &kind_pvc, "c"), "wait run"));
    EXPECT(str_is(scene_keys(&scene, controller, &kind_pvc, "own"), "wait"));
    EXPECT(str_is(scene_keys(&scene, controller, &kind_pod, "alone"), ""));
    EXPECT(str_is(scene_keys(&scene, controller, &kind_torchrunjob, "done"), "done"));
}
