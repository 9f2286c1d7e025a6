#include "api/kind.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/json.h"
#include "base/str.h"
#include "control/core/controllers.h"
#include "control/core/scene.h"
#include "control/kinds/torchrun_pods_test.h"
#include "test.h"

#include <stdbool.h>
#include <stddef.h>

/* The sync pod of a TorchrunJob, who it is and how long it stays, and what is beside its ranks. */

/* A drain evicts the sync pod of a job that is over: what the job wrote is in its claim. */
TEST(the_sync_pod_of_a_job_that_is_over_comes_back_while_results_are_kept)
{
    static const struct row row = {"",
                                   "'workspaceStorage':{'source':'existing'}",
                                   TWO_PODS,
                                   {{"env MUSTER_KEEP_RESULTS", "1"}}};
    static const char *const workers[] = {"j-worker-0", "j-worker-1"};
    _cleanup_(scene_close) struct scene scene;

    scene_open(&scene);
    scene.config.results_ms = 60000;
    row_check(&scene, &row);
    for (size_t i = 0; i < COUNT_OF(workers); i++)
        scene_patch(&scene, &kind_pod, workers[i], "{'status':{'phase':'Succeeded'}}");
    scene_run(&scene, &torchrun_job_controller, "j");
    EXPECT(str_is(row_look_up(&scene, "status phase"), "'Succeeded'"));
    EXPECT(scene_get(&scene, &kind_pod, "j-sync-0") != NULL);
    scene_drop(&scene, &kind_pod, "j-sync-0"); /* evicted */
    scene_run(&scene, &torchrun_job_controller, "j");
    EXPECT(scene_get(&scene, &kind_pod, "j-sync-0") != NULL);
    scene_patch(&scene, &kind_pod, "j-sync-0", "{'status':{'phase':'Failed','reason':'Evicted'}}");
    scene_run(&scene, &torchrun_job_controller, "j");
    EXPECT(!str_is(row_look_up(&scene, "sync status.phase"), "'Failed'"));
    scene_drop(&scene, &kind_pvc, "j-workspace"); /* with nothing in it, it would know nothing */
    scene_drop(&scene, &kind_pod, "j-sync-0");
    scene_run(&scene, &torchrun_job_controller, "j");
    EXPECT(!scene_get(&scene, &kind_pod, "j-sync-0"));
    scene.now_ms += 61000;
    scene_run(&scene, &torchrun_job_controller, "j");
    EXPECT(!scene_get(&scene, &kind_pod, "j-sync-0"));
}

TEST(the_sync_pod_of_a_job_that_was_restarted_ends_as_that_of_any_other)
{
    static const char *const workers[] = {"j-worker-0", "j-worker-1"};
    static const struct {
        const char *why;
        const char *clean; /* of the job */
        int64_t results_ms;
        bool kubelets;
        bool stays; /* at the end */
        bool ends;  /* its node is told to end it */
        bool later; /* it stays when results are not kept any more */
    } rows[] = {
        {"a node of muster up ends it, and its log stays", "", 0, false, true, true, true},
        {"which nobody wants to keep", ",'reliability':{'cleanPodPolicy':'All'}", 0, false, false,
         false, false},
        {"a kubelet cannot end it", "", 0, true, false, false, false},
        {"on a cluster it has results and older logs, while they are kept", "", 60000, true, true,
         false, false},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct row row = {rows[i].why, "'workspaceStorage':{'source':'existing'}", "", {{0}}};
        _cleanup_(scene_close) struct scene scene;

        scene_open(&scene);
        scene.config.results_ms = rows[i].results_ms;
        scene.config.kubelets = rows[i].kubelets;
        row.job = str_printf(&scene.arena, TWO_PODS "%s", rows[i].clean).p;
        row_check(&scene, &row);
        for (size_t j = 0; j < COUNT_OF(workers); j++)
            scene_patch(&scene, &kind_pod, workers[j],
                        "{'spec':{'nodeName':'a'},'status':{'phase':'Running'}}");
        scene_run(&scene, &torchrun_job_controller, "j");
        scene_drop(&scene, &kind_pod, "j-worker-1"); /* evicted */
        scene_run(&scene, &torchrun_job_controller, "j");
        scene.now_ms += 60000;
        scene_run(&scene, &torchrun_job_controller, "j");
        EXPECT(str_is(row_look_up(&scene, "status generation"), "1"));
        for (size_t j = 0; j < COUNT_OF(workers); j++)
            scene_patch(&scene, &kind_pod, workers[j], "{'status':{'phase':'Succeeded'}}");
        scene_run(&scene, &torchrun_job_controller, "j");
        EXPECT(str_is(row_look_up(&scene, "status phase"), "'Succeeded'"));
        EXPECT((scene_get(&scene, &kind_pod, "j-sync-0") != NULL) == rows[i].stays);
        EXPECT((row_look_up(&scene, "sync metadata.annotations").len > 0) == rows[i].ends);
        scene.now_ms += 61000;
        scene_run(&scene, &torchrun_job_controller, "j");
        EXPECT((scene_get(&scene, &kind_pod, "j-sync-0") != NULL) == rows[i].later);
    }
}

TEST(the_sync_pod_is_who_the_ranks_are_and_may_no_more_than_it_needs)
{
#define SYNC "'workspaceStorage':{'source':'existing'}"
    static const struct row rows[] = {
        {"on a kubelet it is nobody, where nobody says who",
         SYNC,
         "",
         {{"sync spec.securityContext",
           "{'runAsUser':65532,'runAsGroup':65532,'fsGroup':65532,'runAsNonRoot':true,"
           "'seccompProfile':{'type':'RuntimeDefault'}}"},
          {"sync spec.containers.0.securityContext",
           "{'allowPrivilegeEscalation':false,'capabilities':{'drop':['ALL']}}"},
          {"sync spec.containers.0.resources", "{'requests':{'cpu':'10m','memory':'64Mi'}}"}}},
        {"the queue's contexts say who; what else the ranks may, it may not",
         SYNC ",'podSecurityContext':{'runAsUser':1000,'fsGroup':7,'sysctls':[]},"
              "'securityContext':{'runAsGroup':5,'capabilities':{'add':['IPC_LOCK']}}",
         "",
         {{"sync spec.securityContext",
           "{'runAsUser':1000,'fsGroup':7,'runAsGroup':5,'runAsNonRoot':true,"
           "'seccompProfile':{'type':'RuntimeDefault'}}"},
          {"sync spec.containers.0.securityContext",
           "{'allowPrivilegeEscalation':false,'capabilities':{'drop':['ALL']}}"}}},
        {"who wants root has it",
         SYNC ",'securityContext':{'runAsUser':0}",
         "",
         {{"sync spec.securityContext",
           "{'runAsUser':0,'seccompProfile':{'type':'RuntimeDefault'}}"}}},
        {"what it asks for can be said",
         "'workspaceStorage':{'source':'existing','resources':{'requests':{'cpu':'1'},"
         "'limits':{'memory':'1Gi'}}}",
         "",
         {{"sync spec.containers.0.resources",
           "{'requests':{'cpu':'1'},'limits':{'memory':'1Gi'}}"}}},
    };
#undef SYNC

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(scene_close) struct scene scene;

        scene_open(&scene);
        scene.config.kubelets = true;
        row_check(&scene, &rows[i]);
    }
}

TEST(a_job_ends_with_its_trainers_though_a_container_beside_them_goes_on)
{
    static const struct {
        const char *policy, *ended, *phase;
        bool pod_stays;
    } rows[] = {
        {"Never", "{'exitCode':0,'finishedAt':'2001-09-09T01:46:38Z'}", "Succeeded", false},
        {"Never", "{'exitCode':7,'finishedAt':'2001-09-09T01:46:38Z'}", "Failed", false},
        {"OnFailure", "{'exitCode':7,'finishedAt':'2001-09-09T01:46:38Z'}", "Running", true},
        {"Always", "{'exitCode':0,'finishedAt':'2001-09-09T01:46:38Z'}", "Running", true},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(scene_close) struct scene scene;

        test_case(rows[i].phase);
        scene_open(&scene);
        scene_put(&scene, &kind_torchrunqueue,
                  "{'metadata':{'name':'q'},'spec':{'nodeResources':{'gpus':1}}}");
        scene_put(&scene, &kind_torchrunjob,
                  "{'metadata':{'name':'j'},'spec':{'jobQueue':'q','numGPUs':1,'command':'true',"
                  "'reliability':{'maxRestarts':0}}}");
        scene_run(&scene, &torchrun_job_controller, "j");
        scene_patch(&scene, &kind_pod, "j-worker-0",
                    str_printf(&scene.arena,
                               "{'spec':{'restartPolicy':'%s'},'status':{'phase':'Running',"
                               "'containerStatuses':[{'name':'trainer','state':{'terminated':%s}},"
                               "{'name':'logs','state':{'running':{}}}]}}",
                               rows[i].policy, rows[i].ended)
                        .p);
        scene_run(&scene, &torchrun_job_controller, "j");
        EXPECT(str_is(json_str_at(scene_get(&scene, &kind_torchrunjob, "j"), "status.phase"),
                      rows[i].phase));
        scene_run(&scene, &torchrun_job_controller, "j");
        EXPECT((scene_get(&scene, &kind_pod, "j-worker-0") != NULL) == rows[i].pod_stays);
    }
}
