#include "api/hold.h"
#include "api/kind.h"
#include "api/place.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/json.h"
#include "base/str.h"
#include "control/core/controllers.h"
#include "control/core/scene.h"
#include "test.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* A gang of two pods, one of which fails: when it restarts in the pods that it has, and when these
 * are made again. */

#define S 1000LL
#define JOB(meta, more)            \
    "{'metadata':{'name':'j'" meta \
    "},'spec':{'jobQueue':'q','command':'x','numGPUs':4,'numNodes':2" more "}}"
#define IN_PLACE   ",'reliability':{'restartMode':'InPlace'}"
#define WARM(word) ",'reliability':{'restartMode':'InPlace','warmProcesses':" word "}"
#define RUNS(count)                                                                         \
    "{'spec':{'nodeName':'node'},'status':{'phase':'Running','containerStatuses':[{'name':" \
    "'trainer','restartCount':" count ",'state':{'running':{},'terminated':null}}]}}"
#define ENDED(count)                                                                     \
    "{'status':{'containerStatuses':[{'name':'trainer','restartCount':" count            \
    ",'state':{'running':null,'terminated':{'exitCode':1,'reason':'Error','finishedAt':" \
    "'1970-01-01T00:16:40Z'}}}]}}"

static void look(struct scene *scene)
{
    scene_run(scene, &torchrun_job_controller, "j");
}

static void open_with_node(struct scene *scene)
{
    scene_open(scene);
    scene_put(scene, &kind_node,
              "{'metadata':{'name':'node'},'status':{'conditions':[{'type':'Ready','status':"
              "'True'}]}}");
}

static void begin(struct scene *scene, const char *job)
{
    open_with_node(scene);
    scene_put(scene, &kind_torchrunqueue,
              "{'metadata':{'name':'q'},'spec':{'nodeResources':{'gpus':2}}}");
    scene_put(scene, &kind_torchrunjob, job);
    look(scene);
    scene_patch(scene, &kind_pod, "j-worker-0", RUNS("0"));
    scene_patch(scene, &kind_pod, "j-worker-1", RUNS("0"));
    look(scene);
}

static struct str order_of(struct scene *scene, const char *pod)
{
    JSON_FOREACH(json_at(scene_get(scene, &kind_pod, pod), "metadata.annotations"), annotation)
        if (str_is(json_key(annotation), PLACE_ANNOTATION))
            return json_str(annotation);
    return STR_NONE;
}

static int64_t status_number(struct scene *scene, const char *field)
{
    return json_i64_or(
        json_get(json_get(scene_get(scene, &kind_torchrunjob, "j"), "status"), field), 0);
}

static struct str status_word(struct scene *scene, const char *field)
{
    return json_str(json_get(json_get(scene_get(scene, &kind_torchrunjob, "j"), "status"), field));
}

TEST(a_failed_rank_restarts_its_gang_in_the_pods_that_it_has)
{
    _cleanup_(scene_close) struct scene scene;

    begin(&scene, JOB("", IN_PLACE));
    EXPECT(str_is(order_of(&scene, "j-worker-0"), "0 go"));
    scene_patch(&scene, &kind_pod, "j-worker-1", ENDED("0"));
    look(&scene);
    EXPECT(str_is(status_word(&scene, "phase"), "Restarting"));
    EXPECT(str_ends(status_word(&scene, "message"), STR("restart 1 of 3, in place")));
    EXPECT(str_is(order_of(&scene, "j-worker-0"), "1 stop"));
    EXPECT(str_is(order_of(&scene, "j-worker-1"), "1 stop"));
    look(&scene); /* nobody goes before all have stopped, and nothing is counted twice */
    EXPECT(str_is(order_of(&scene, "j-worker-1"), "1 stop"));
    EXPECT(status_number(&scene, "restarts") == 1);
    scene_patch(&scene, &kind_pod, "j-worker-0", ENDED("0"));
    look(&scene);
    EXPECT(str_is(order_of(&scene, "j-worker-0"), "1 go"));
    EXPECT(str_is(order_of(&scene, "j-worker-1"), "1 go"));
    look(&scene); /* an old end is no failure of the new round */
    EXPECT(str_is(status_word(&scene, "phase"), "Restarting"));
    scene_patch(&scene, &kind_pod, "j-worker-0", RUNS("1"));
    scene_patch(&scene, &kind_pod, "j-worker-1", RUNS("1"));
    look(&scene);
    EXPECT(str_is(status_word(&scene, "phase"), "Running"));
    EXPECT(status_number(&scene, "restarts") == 1);
    EXPECT(status_number(&scene, "restartsInPlace") == 1);
    EXPECT(status_number(&scene, "generation") == 0);
}

static bool pod_is_warm(struct scene *scene)
{
    JSON_FOREACH(json_at(scene_get(scene, &kind_pod, "j-worker-0"), "metadata.annotations"), word)
        if (str_is(json_key(word), WARM_ANNOTATION))
            return str_is(json_str(word), "true");
    return false;
}

TEST(pods_keep_processes_warm_where_it_is_asked_for_and_can_be_done)
{
    static const struct {
        const char *why;
        const char *queue;
        const char *job;
        bool warm;
    } rows[] = {
        {"nobody asks", "", JOB("", IN_PLACE), false},
        {"the job does", "", JOB("", WARM("true")), true},
        {"the queue does", WARM("true"), JOB("", ""), true},
        {"the job does not want what its queue does", WARM("true"),
         JOB("", ",'reliability':{'warmProcesses':false}"), false},
        {"by annotation", "", JOB(",'annotations':{'muster.dev/warm-processes':'true'}", IN_PLACE),
         true},
        {"the annotation has the last word", "",
         JOB(",'annotations':{'muster.dev/warm-processes':'false'}", WARM("true")), false},
        {"a word that is none", "",
         JOB(",'annotations':{'muster.dev/warm-processes':'yes'}", WARM("true")), false},
        {"its pods are made again", "", JOB("", ",'reliability':{'warmProcesses':true}"), false},
        {"something is set up first", "", JOB("", ",'setupCommand':'y'" WARM("true")), false},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(scene_close) struct scene scene;
        char queue[256];

        test_case(rows[i].why);
        open_with_node(&scene);
        (void)snprintf(queue, sizeof(queue),
                       "{'metadata':{'name':'q'},'spec':{'nodeResources':{'gpus':2}%s}}",
                       rows[i].queue);
        scene_put(&scene, &kind_torchrunqueue, queue);
        scene_put(&scene, &kind_torchrunjob, rows[i].job);
        look(&scene);
        EXPECT(pod_is_warm(&scene) == rows[i].warm);
    }
}

TEST(a_gang_that_is_not_well_or_is_told_to_gets_new_pods)
{
    static const char *const jobs[] = {
        JOB("", ""),
        JOB(",'annotations':{'muster.dev/restart-mode':'Pods'}", IN_PLACE),
        JOB(",'annotations':{'muster.dev/restart-mode':'nowhere'}", IN_PLACE),
        JOB(",'annotations':{'muster.dev/restart-mode':'InPlace'}", ""),
    };

    for (size_t i = 0; i < 4; i++) {
        _cleanup_(scene_close) struct scene scene;

        begin(&scene, jobs[i]);
        EXPECT((order_of(&scene, "j-worker-0").len > 0) == (i == 3));
        if (i == 3) { /* one pod could not be kept: its node lets it fail */
            scene_patch(&scene, &kind_pod, "j-worker-0", "{'status':{'phase':'Failed'}}");
        }
        scene_patch(&scene, &kind_pod, "j-worker-1", "{'status':{'phase':'Failed'}}");
        look(&scene);
        EXPECT(status_number(&scene, "restarts") == 1);
        EXPECT(status_number(&scene, "restartsInPlace") == 0);
        EXPECT(status_number(&scene, "generation") == 1);
    }
}

TEST(a_round_that_takes_too_long_ends_in_new_pods)
{
    _cleanup_(scene_close) struct scene scene;

    begin(&scene, JOB("", IN_PLACE));
    scene_patch(&scene, &kind_pod, "j-worker-1", ENDED("0"));
    look(&scene);
    EXPECT(status_number(&scene, "generation") == 0);
    scene.now_ms += 10 * 60 * S;
    look(&scene);
    EXPECT(status_number(&scene, "generation") == 1);
    EXPECT(status_number(&scene, "restarts") == 1);
}

/* What the scheduler is told of their room when the pods are made again after all. */
static struct str held_until(struct scene *scene)
{
    struct json *groups = scene_get(scene, &kind_podgroup, "pg-j-u-j");

    JSON_FOREACH(json_at(groups, "metadata.annotations"), annotation)
        if (str_is(json_key(annotation), HOLD_UNTIL_ANNOTATION))
            return json_str(annotation);
    return STR_NONE;
}

TEST(room_is_held_when_a_round_ends_in_new_pods)
{
    _cleanup_(scene_close) struct scene scene;

    begin(&scene, JOB("", IN_PLACE));
    scene_put(&scene, &kind_podgroup, "{'metadata':{'name':'pg-j-u-j'}}");
    scene_patch(&scene, &kind_pod, "j-worker-1", ENDED("0"));
    look(&scene);
    EXPECT(!held_until(&scene).len);
    scene.now_ms += 10 * 60 * S;
    look(&scene);
    EXPECT(status_number(&scene, "generation") == 1);
    EXPECT(held_until(&scene).len);
}

TEST(a_failure_that_is_heard_of_late_ends_in_new_pods)
{
    _cleanup_(scene_close) struct scene scene;

    begin(&scene, JOB("", IN_PLACE));
    scene.now_ms += 55 * S;
    scene_patch(&scene, &kind_pod, "j-worker-1", ENDED("0"));
    look(&scene);
    EXPECT(status_number(&scene, "restarts") == 1);
    EXPECT(status_number(&scene, "restartsInPlace") == 0);
    EXPECT(status_number(&scene, "generation") == 1);
}

TEST(pods_that_give_up_their_gpus_are_not_restarted_in_place)
{
    _cleanup_(scene_close) struct scene scene;

    begin(&scene, JOB("", IN_PLACE));
    scene_patch(&scene, &kind_pod, "j-worker-1", ENDED("0"));
    scene_patch(&scene, &kind_pod, "j-worker-1",
                "{'metadata':{'annotations':{'muster.dev/suspend':'yield'}}}");
    look(&scene);
    EXPECT(status_number(&scene, "restartsInPlace") == 0);
}

/* Of the kinds whose restarts wait. */
#define WAITS                                                                                      \
    "{'metadata':{'name':'j','annotations':{'muster.dev/restart-mode':'InPlace'}},'spec':{"        \
    "'runPolicy':{'backoffLimit':20},'pytorchReplicaSpecs':{'Worker':{'replicas':2,"               \
    "'restartPolicy':'ExitCode','template':{'spec':{'containers':[{'name':'pytorch','image':'i'}]" \
    "}}}}}}"
#define KILLED                                                                            \
    "{'status':{'containerStatuses':[{'name':'pytorch','restartCount':0,'state':{"        \
    "'running':null,'terminated':{'exitCode':137,'reason':'Error','finishedAt':'1970-01-" \
    "01T00:16:40Z'}}}]}}"

TEST(a_long_back_off_is_not_waited_for_in_place)
{
    for (int late = 0; late < 2; late++) {
        _cleanup_(scene_close) struct scene scene;

        open_with_node(&scene);
        scene_put(&scene, &kind_pytorchjob, WAITS);
        scene_run(&scene, &pytorch_job_controller, "j");
        EXPECT(order_of(&scene, "j-worker-0").len > 0);
        scene_patch(&scene, &kind_pod, "j-worker-0", RUNS("0"));
        scene_patch(&scene, &kind_pod, "j-worker-1", RUNS("0"));
        scene_run(&scene, &pytorch_job_controller, "j");
        if (late)
            scene_patch(&scene, &kind_pytorchjob, "j", "{'status':{'restarts':10}}");
        scene_patch(&scene, &kind_pod, "j-worker-1", KILLED);
        scene_run(&scene, &pytorch_job_controller, "j");
        EXPECT(str_is(order_of(&scene, "j-worker-0"), late ? "" : "1 stop"));
        /* While the back-off lasts nobody else could use the GPUs of a pod that its node keeps. */
        EXPECT(!scene_get(&scene, &kind_pod, "j-worker-1") == (late == 1));
    }
}

#define STAYS "'annotations':{'muster.dev/restart-mode':'InPlace'}"
#define ALONE                                                                          \
    "'annotations':{'muster.dev/restart-mode':'InPlace','torchrun.ai/restart-scope':'" \
    "pod'}"
#define PYTORCH(annotations, policy)                                                               \
    "{'metadata':{'name':'j'," annotations "},'spec':{'pytorchReplicaSpecs':{'Worker':{'replicas'" \
    ":2,'restartPolicy':'" policy                                                                  \
    "','template':{'spec':{'containers':[{'name':'pytorch','image':'i'}]}}}}}}"
#define TENSORSTACK(annotations, policy)                                                          \
    "{'metadata':{'name':'j'," annotations "},'spec':{'replicaSpecs':[{'type':'worker','replicas" \
    "':2,'restartPolicy':'" policy                                                                \
    "','template':{'spec':{'containers':[{'name':'c','image':'i'}]}}}]}}"

#define GANG                                                                           \
    "'annotations':{'muster.dev/restart-mode':'InPlace','torchrun.ai/restart-scope':'" \
    "gang'}"
#define REPLICAS(type, count, container)                                                 \
    "'" type "':{'replicas':" count                                                      \
    ",'restartPolicy':'OnFailure','template':{'spec':{'containers':[{'name':'" container \
    "','image':'i'}]}}}"
#define KUBEFLOW(annotations, specs, replicas) \
    "{'metadata':{'name':'j'," annotations "},'spec':{'" specs "':{" replicas "}}}"

/* Every pod that there is. */
static void pods_are(struct scene *scene, const char *patch)
{
    struct str rest = str_dup(&scene->arena, scene_names(scene, &kind_pod));
    struct str name;

    while (rest.len) {
        (void)str_cut(&rest, ' ', &name);
        scene_patch(scene, &kind_pod, str_c(&scene->arena, name), patch);
    }
}

TEST(kinds_of_others_restart_in_place_where_their_pods_restart_together)
{
    static const struct {
        const char *why;
        const struct kind *kind;
        const struct controller *controller;
        const char *job;
        bool stays;
    } rows[] = {
        {"a PyTorchJob, whatever its program ends with", &kind_pytorchjob, &pytorch_job_controller,
         PYTORCH(STAYS, "OnFailure"), true},
        {"by its exit status", &kind_pytorchjob, &pytorch_job_controller,
         PYTORCH(STAYS, "ExitCode"), true},
        {"it is never restarted", &kind_pytorchjob, &pytorch_job_controller,
         PYTORCH(STAYS, "Never"), false},
        {"its pods restart alone", &kind_pytorchjob, &pytorch_job_controller,
         PYTORCH(ALONE, "OnFailure"), false},
        {"a PyTorchTrainingJob", &kind_pytorchtrainingjob, &tensorstack_job_controller,
         TENSORSTACK(STAYS, "OnFailure"), true},
        {"by its exit status", &kind_pytorchtrainingjob, &tensorstack_job_controller,
         TENSORSTACK(STAYS, "ExitCode"), true},
        {"it is never restarted", &kind_pytorchtrainingjob, &tensorstack_job_controller,
         TENSORSTACK(STAYS, "Never"), false},
        {"a TFJob whose pods restart together", &kind_tfjob, &tf_job_controller,
         KUBEFLOW(GANG, "tfReplicaSpecs", REPLICAS("Worker", "2", "tensorflow")), true},
        {"a TFJob, whose pods restart alone", &kind_tfjob, &tf_job_controller,
         KUBEFLOW(STAYS, "tfReplicaSpecs", REPLICAS("Worker", "2", "tensorflow")), false},
        {"an XGBoostJob", &kind_xgboostjob, &xgboost_job_controller,
         KUBEFLOW(STAYS, "xgbReplicaSpecs",
                  REPLICAS("Master", "1", "xgboost") "," REPLICAS("Worker", "2", "xgboost")),
         true},
        {"a PaddleJob", &kind_paddlejob, &paddle_job_controller,
         KUBEFLOW(STAYS, "paddleReplicaSpecs", REPLICAS("Worker", "2", "paddle")), true},
        {"a JAXJob", &kind_jaxjob, &jax_job_controller,
         KUBEFLOW(STAYS, "jaxReplicaSpecs", REPLICAS("Worker", "2", "jax")), true},
        {"an MPIJob whose pods restart together", &kind_mpijob, &mpi_job_controller,
         KUBEFLOW(GANG, "mpiReplicaSpecs",
                  REPLICAS("Launcher", "1", "mpi") "," REPLICAS("Worker", "2", "mpi")),
         true},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(scene_close) struct scene scene;

        test_case(rows[i].why);
        open_with_node(&scene);
        scene_put(&scene, rows[i].kind, rows[i].job);
        scene_run(&scene, rows[i].controller, "j");
        EXPECT(scene_get(&scene, &kind_pod, "j-worker-1") != NULL);
        EXPECT(str_is(order_of(&scene, "j-worker-1"), rows[i].stays ? "0 go" : ""));
        if (!rows[i].stays)
            continue;
        pods_are(&scene, RUNS("0"));
        scene_run(&scene, rows[i].controller, "j");
        scene_patch(&scene, &kind_pod, "j-worker-1", KILLED);
        scene_run(&scene, rows[i].controller, "j");
        EXPECT(str_is(order_of(&scene, "j-worker-0"), "1 stop"));
    }
}

/* They are in its scheduling queue, not in it. */
TEST(a_queue_says_how_jobs_of_every_kind_restart)
{
    static const struct {
        const char *why;
        const char *says; /* the queue */
        const char *notes;
        bool stays;
    } rows[] = {
        {"the queue says nothing", "", "'labels':{'kai.scheduler/queue':'n-q'}", false},
        {"it does", IN_PLACE, "'labels':{'kai.scheduler/queue':'n-q'}", true},
        {"the job is not in it", IN_PLACE, "'labels':{'kai.scheduler/queue':'other'}", false},
        {"the annotation has the last word", IN_PLACE,
         "'labels':{'kai.scheduler/queue':'n-q'},'annotations':{'muster.dev/restart-mode':'Pods'}",
         false},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(scene_close) struct scene scene;
        char text[512];

        test_case(rows[i].why);
        open_with_node(&scene);
        (void)snprintf(text, sizeof(text),
                       "{'metadata':{'name':'q'},'spec':{'nodeResources':{'gpus':2}%s}}",
                       rows[i].says);
        scene_put(&scene, &kind_torchrunqueue, text);
        scene_put(&scene, &kind_queue,
                  "{'metadata':{'name':'n-q','labels':{'torchrun.ai/jobqueue':'q','torchrun.ai/"
                  "jobqueue-namespace':'n'}}}");
        (void)snprintf(text, sizeof(text),
                       "{'metadata':{'name':'j',%s},'spec':{'pytorchReplicaSpecs':{%s}}}",
                       rows[i].notes, REPLICAS("Worker", "2", "pytorch"));
        scene_put(&scene, &kind_pytorchjob, text);
        scene_run(&scene, &pytorch_job_controller, "j");
        EXPECT(str_is(order_of(&scene, "j-worker-1"), rows[i].stays ? "0 go" : ""));
    }
}

/* mpirun starts its ranks in the other pods: it would not find a container there. */
TEST(a_launcher_goes_when_its_workers_run)
{
    static const char ready[] = "{'status':{'conditions':[{'type':'Ready','status':'True'}]}}";
    static const char unready[] = "{'status':{'conditions':[{'type':'Ready','status':'False'}]}}";
    _cleanup_(scene_close) struct scene scene;

    open_with_node(&scene);
    scene_put(
        &scene, &kind_mpijob,
        "{'metadata':{'name':'j'," GANG
        "},'spec':{'launcherCreationPolicy':'WaitForWorkersReady','mpiReplicaSpecs':{" REPLICAS(
            "Launcher", "1", "mpi") ",'Worker':{'replicas':2,'template':{'spec':{'containers'"
                                    ":[{'name':'mpi','image':'i'}]}}}}}}");
    scene_run(&scene, &mpi_job_controller, "j");
    pods_are(&scene, RUNS("0"));
    pods_are(&scene, ready);
    scene_run(&scene, &mpi_job_controller, "j");
    scene_patch(&scene, &kind_pod, "j-launcher", RUNS("0"));
    scene_run(&scene, &mpi_job_controller, "j");
    scene_patch(&scene, &kind_pod, "j-launcher", ENDED("0"));
    scene_run(&scene, &mpi_job_controller, "j");
    EXPECT(str_is(order_of(&scene, "j-worker-0"), "1 stop"));
    pods_are(&scene, ENDED("0"));
    pods_are(&scene, unready);
    scene_run(&scene, &mpi_job_controller, "j");
    EXPECT(str_is(order_of(&scene, "j-worker-0"), "1 go"));
    EXPECT(str_is(order_of(&scene, "j-launcher"), "1 stop"));
    scene_patch(&scene, &kind_pod, "j-worker-0", RUNS("1"));
    scene_patch(&scene, &kind_pod, "j-worker-1", RUNS("1"));
    scene_patch(&scene, &kind_pod, "j-worker-0", ready);
    scene_run(&scene, &mpi_job_controller, "j");
    EXPECT(str_is(order_of(&scene, "j-launcher"), "1 stop"));
    scene_patch(&scene, &kind_pod, "j-worker-1", ready);
    scene_run(&scene, &mpi_job_controller, "j");
    EXPECT(str_is(order_of(&scene, "j-launcher"), "1 go"));
}

TEST(failures_by_code_are_not_retried_in_place_for_ever_by_a_job)
{
    static const char *const runs[] = {RUNS("0"), RUNS("1"), RUNS("2"), RUNS("3")};
    static const char *const ends[] = {ENDED("0"), ENDED("1"), ENDED("2"), ENDED("3")};
    _cleanup_(scene_close) struct scene scene;

    begin(&scene, JOB("", IN_PLACE));
    for (int i = 0; i < 3; i++) {
        scene_patch(&scene, &kind_pod, "j-worker-1", ends[i]);
        look(&scene);
        pods_are(&scene, ends[i]);
        look(&scene);
        pods_are(&scene, runs[i + 1]);
        look(&scene);
    }
    EXPECT(status_number(&scene, "restartsInPlace") == 3);
    scene_patch(&scene, &kind_pod, "j-worker-1", ends[3]);
    look(&scene);
    EXPECT(str_is(status_word(&scene, "phase"), "Failed"));
    EXPECT(str_contains(status_word(&scene, "message"), STR("all 3 restarts are used up")));
    EXPECT(str_is(order_of(&scene, "j-worker-1"), "over"));
    EXPECT(status_number(&scene, "generation") == 0);
}

TEST(a_gang_whose_restart_was_counted_and_not_told_is_told_later)
{
    _cleanup_(scene_close) struct scene scene;

    begin(&scene, JOB("", ""));
    scene_put(&scene, &kind_podgroup, "{'metadata':{'name':'pg-j-u-j'}}");
    scene_patch(&scene, &kind_pod, "j-worker-1", ENDED("0"));
    scene_patch(&scene, &kind_pod, "j-worker-1", "{'status':{'phase':'Failed'}}");
    while (!held_until(&scene).len && scene_turn(&scene, &torchrun_job_controller, "j"))
        ;
    EXPECT(held_until(&scene).len);
    /* The write of it is lost. */
    scene_patch(&scene, &kind_podgroup, "pg-j-u-j",
                "{'metadata':{'annotations':{'muster.dev/held-until':null}}}");
    EXPECT(!held_until(&scene).len);
    EXPECT(scene_turn(&scene, &torchrun_job_controller, "j"));
    EXPECT(held_until(&scene).len);
}
