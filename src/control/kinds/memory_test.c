#include "api/kind.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/json.h"
#include "base/str.h"
#include "base/time.h"
#include "control/core/controllers.h"
#include "control/core/scene.h"
#include "test.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Jobs whose CRD was replaced by somebody else's: its schema drops the fields of the status that
 * muster counts with. Limits hold all the same. */

#define MEMORY "muster.dev/memory"
#define LIMIT  2
#define LATER  (3600 * 1000) /* longer than any back-off */

/* What Kubeflow's schema has of a status. */
static const char *const kubeflow_members[] = {"conditions",     "replicaStatuses",   "startTime",
                                               "completionTime", "lastReconcileTime", NULL};
static const char *const conditions_only[] = {"conditions", NULL};
static const char *const nothing[] = {NULL};
static const char *const older_members[] = {"conditions", "restarts", "replicatedJobsStatus", NULL};

#define TEMPLATE(container) \
    "'template':{'spec':{'containers':[{'name':'" container "','image':'i'}]}}"
#define ROLE(type, container) \
    "'" type "':{'replicas':1,'restartPolicy':'OnFailure'," TEMPLATE(container) "}"
#define JOB(spec)       "{'metadata':{'name':'j'},'spec':{" spec "}}"
#define KUBEFLOW(roles) JOB("'runPolicy':{'backoffLimit':2}," roles)
#define PYTORCH         KUBEFLOW("'pytorchReplicaSpecs':{" ROLE("Master", "pytorch") "}")

static const struct subject {
    const char *why;
    const struct kind *kind;
    const struct controller *controller;
    const char *const *members;
    const char *job;
    const char *pod;
} subjects[] = {
    {"PyTorchJob", &kind_pytorchjob, &pytorch_job_controller, kubeflow_members, PYTORCH,
     "j-master-0"},
    {"PyTorchJob, pods alone", &kind_pytorchjob, &pytorch_job_controller, kubeflow_members,
     "{'metadata':{'name':'j','annotations':{'torchrun.ai/restart-scope':'pod'}},'spec':{"
     "'runPolicy':{'backoffLimit':2},'pytorchReplicaSpecs':{" ROLE("Master", "pytorch") "}}}",
     "j-master-0"},
    {"PyTorchJob without any status", &kind_pytorchjob, &pytorch_job_controller, nothing, PYTORCH,
     "j-master-0"},
    {"TFJob", &kind_tfjob, &tf_job_controller, kubeflow_members,
     KUBEFLOW("'tfReplicaSpecs':{" ROLE("Worker", "tensorflow") "}"), "j-worker-0"},
    {"MPIJob", &kind_mpijob, &mpi_job_controller, kubeflow_members,
     KUBEFLOW("'mpiReplicaSpecs':{" ROLE("Launcher", "mpi") "}"), "j-launcher"},
    {"XGBoostJob", &kind_xgboostjob, &xgboost_job_controller, kubeflow_members,
     KUBEFLOW("'xgbReplicaSpecs':{" ROLE("Master", "xgboost") "}"), "j-master-0"},
    {"JAXJob", &kind_jaxjob, &jax_job_controller, kubeflow_members,
     KUBEFLOW("'jaxReplicaSpecs':{" ROLE("Worker", "jax") "}"), "j-worker-0"},
    {"PaddleJob", &kind_paddlejob, &paddle_job_controller, kubeflow_members,
     KUBEFLOW("'paddleReplicaSpecs':{" ROLE("Worker", "paddle") "}"), "j-worker-0"},
    {"TorchrunJob", &kind_torchrunjob, &torchrun_job_controller, conditions_only,
     JOB("'jobQueue':'q','command':'x','numGPUs':1,'workspace':{'source':'none'},'reliability':{'"
         "maxRestarts':2}"),
     "j-worker-0"},
    {"PyTorchTrainingJob", &kind_pytorchtrainingjob, &tensorstack_job_controller, conditions_only,
     JOB("'runPolicy':{'backoffLimit':2},'replicaSpecs':[{'type':'worker','replicas':1,"
         "'restartPolicy':'OnFailure'," TEMPLATE("c") "}]"),
     "j-worker-0"},
};
#define SUBJECTS COUNT_OF(subjects)

static void begin(struct scene *scene, const struct subject *s)
{
    scene_open(scene);
    scene_put(scene, &kind_node,
              "{'metadata':{'name':'node'},'status':{'conditions':[{'type':'Ready','status':"
              "'True'}]}}");
    scene_put(scene, &kind_torchrunqueue,
              "{'metadata':{'name':'q'},'spec':{'nodeResources':{'gpus':2}}}");
    scene_put(scene, s->kind, s->job);
    scene_run(scene, s->controller, "j");
}

static void replace_crd(struct scene *scene, const struct subject *s)
{
    scene->foreign = s->kind;
    scene->foreign_status = s->members;
    scene_patch(scene, s->kind, "j", "{}");
}

static bool has_pod(struct scene *scene, const char *name)
{
    return scene_get(scene, &kind_pod, name) != NULL;
}

static void run_later(struct scene *scene, const struct subject *s)
{
    scene->now_ms += LATER;
    scene_run(scene, s->controller, "j");
}

/* The pod runs and fails, and what follows happens. */
static void fail_once(struct scene *scene, const struct subject *s)
{
    scene_patch(scene, &kind_pod, s->pod,
                "{'spec':{'nodeName':'node'},'status':{'phase':'Running'}}");
    run_later(scene, s);
    scene->now_ms += LATER;
    scene_patch(scene, &kind_pod, s->pod,
                str_c(&scene->arena,
                      str_printf(&scene->arena,
                                 "{'status':{'phase':'Failed','containerStatuses':[{'state':{"
                                 "'terminated':{'exitCode':1,'finishedAt':'" STR_FMT "'}}}]}}",
                                 STR_ARG(time_text(&scene->arena, scene->now_ms)))));
    scene_run(scene, s->controller, "j");
    run_later(scene, s);
}

/* How often the pod can fail until the job gives up; 9: it never does. */
static int failures_until_the_end(struct scene *scene, const struct subject *s)
{
    int failures = 0;

    while (failures < 9 && has_pod(scene, s->pod) &&
           !str_contains(scene_conditions(scene, s->kind, "j"), STR("Failed=True"))) {
        fail_once(scene, s);
        failures++;
    }
    return failures;
}

static size_t times(struct str text, const char *word)
{
    struct str each;
    size_t count = 0;

    while (str_cut(&text, ' ', &each))
        count += str_is(each, word);
    return count;
}

static bool is_over(struct scene *scene, const struct subject *s)
{
    struct str memory =
        json_str(json_get(json_at(scene_get(scene, s->kind, "j"), "metadata.annotations"), MEMORY));

    return str_contains(memory, STR("\"phase\":\"Failed\""));
}

TEST(restart_limits_hold_where_the_crd_is_foreign)
{
    for (size_t i = 0; i < SUBJECTS; i++) {
        _cleanup_(scene_close) struct scene scene;
        const struct subject *s = &subjects[i];

        test_case(s->why);
        begin(&scene, s);
        replace_crd(&scene, s);
        int failures = 0;
        while (failures < 9 && !is_over(&scene, s) && has_pod(&scene, s->pod)) {
            fail_once(&scene, s);
            failures++;
        }
        if (failures != LIMIT + 1)
            printf("%s: %d failures; " STR_FMT "\n", s->why, failures,
                   STR_ARG(json_text(&scene.arena, scene_get(&scene, s->kind, "j"))));
        EXPECT(failures == LIMIT + 1);
        EXPECT(is_over(&scene, s));
        EXPECT(times(scene.events, "ForeignCRD") == 1);
        /* Finished for good, whatever becomes of its pods. */
        scene_drop(&scene, &kind_pod, s->pod);
        run_later(&scene, s);
        EXPECT(!has_pod(&scene, s->pod));
    }
}

TEST(a_job_under_way_keeps_its_count_where_the_crd_is_foreign_from_now_on)
{
    for (size_t i = 0; i < SUBJECTS; i++) {
        _cleanup_(scene_close) struct scene scene;
        const struct subject *s = &subjects[i];

        test_case(s->why);
        begin(&scene, s);
        fail_once(&scene, s);
        EXPECT(!str_contains(scene.events, STR("ForeignCRD")));
        replace_crd(&scene, s);
        fail_once(&scene, s);
        EXPECT(has_pod(&scene, s->pod) && !is_over(&scene, s));
        fail_once(&scene, s);
        EXPECT(is_over(&scene, s));
    }
}

TEST(nothing_is_written_while_nothing_changes_where_the_crd_is_foreign)
{
    for (size_t i = 0; i < SUBJECTS; i++) {
        _cleanup_(scene_close) struct scene scene;
        const struct subject *s = &subjects[i];

        test_case(s->why);
        begin(&scene, s);
        if (s->members == nothing) /* patches that the server answers without a change */
            continue;
        replace_crd(&scene, s);
        fail_once(&scene, s);
        scene_patch(&scene, &kind_pod, s->pod,
                    "{'spec':{'nodeName':'node'},'status':{'phase':'Running'}}");
        run_later(&scene, s);
        size_t before = scene.patches;
        struct str events = scene.events;
        for (int n = 0; n < 5; n++)
            run_later(&scene, s);
        EXPECT(scene.patches == before);
        EXPECT(str_eq(scene.events, events));
    }
}

TEST(a_change_costs_two_patches_at_most_where_the_crd_is_foreign)
{
    _cleanup_(scene_close) struct scene scene;
    const struct subject *s = &subjects[0];

    begin(&scene, s);
    replace_crd(&scene, s);
    fail_once(&scene, s);
    size_t before = scene.patches;
    scene_patch(&scene, &kind_pod, s->pod,
                "{'spec':{'nodeName':'node'},'status':{'phase':'Running'}}");
    run_later(&scene, s);
    EXPECT(scene.patches == before + 2); /* the memory, and the status */
}

TEST(what_a_condition_says_names_the_crd_where_the_crd_is_foreign)
{
    _cleanup_(scene_close) struct scene scene;
    const struct subject *s = &subjects[0];

    begin(&scene, s);
    replace_crd(&scene, s);
    EXPECT(failures_until_the_end(&scene, s) == LIMIT + 1);
    struct str status =
        json_text(&scene.arena, json_get(scene_get(&scene, s->kind, "j"), "status"));
    EXPECT(str_contains(status, STR("all 2 restarts are used up; the CustomResourceDefinition "
                                    "pytorchjobs.kubeflow.org is not muster's")));
}

TEST(a_healthy_job_has_a_memory_and_no_complaint)
{
    _cleanup_(scene_close) struct scene scene;
    const struct subject *s = &subjects[0];

    begin(&scene, s);
    EXPECT(failures_until_the_end(&scene, s) == LIMIT + 1);
    EXPECT(is_over(&scene, s));
    EXPECT(!str_contains(scene.events, STR("ForeignCRD")));
    EXPECT(json_i64_or(json_at(scene_get(&scene, s->kind, "j"), "status.restarts"), 0) == LIMIT);
}

static struct str memory_of(struct scene *scene, const struct subject *s)
{
    return json_str(
        json_get(json_at(scene_get(scene, s->kind, "j"), "metadata.annotations"), MEMORY));
}

TEST(the_memory_is_written_when_a_count_changes_and_not_with_every_phase)
{
    for (size_t i = 0; i < SUBJECTS; i++) {
        _cleanup_(scene_close) struct scene scene;
        const struct subject *s = &subjects[i];

        test_case(s->why);
        begin(&scene, s);
        scene_patch(&scene, &kind_pod, s->pod,
                    "{'spec':{'nodeName':'node'},'status':{'phase':'Running'}}");
        run_later(&scene, s);
        EXPECT(!memory_of(&scene, s).len);
        fail_once(&scene, s);
        struct str counted = memory_of(&scene, s);
        EXPECT(str_contains(counted, STR("\"restarts\":1")));
        scene_patch(&scene, &kind_pod, s->pod,
                    "{'spec':{'nodeName':'node'},'status':{'phase':'Running'}}");
        run_later(&scene, s);
        EXPECT(str_eq(memory_of(&scene, s), counted));
    }
}

/* A crash between the two writes leaves one of them behind. */
TEST(of_status_and_memory_the_one_that_is_further_along_is_taken)
{
    static const struct {
        const char *why;
        const char *status;
        const char *memory;
        int failures; /* that are left */
    } rows[] = {
        {"the memory", "'phase':'Queued','generation':0,'restarts':0",
         "{\\\"phase\\\":\\\"Restarting\\\",\\\"generation\\\":2,\\\"restarts\\\":2}", 1},
        {"the status", "'phase':'Restarting','generation':2,'restarts':2",
         "{\\\"phase\\\":\\\"Queued\\\",\\\"generation\\\":1,\\\"restarts\\\":1}", 1},
        {"a memory that makes no sense counts nothing",
         "'phase':'Queued','generation':1,'restarts':1", "[7", 2},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(scene_close) struct scene scene;
        const struct subject *s = &subjects[0];

        test_case(rows[i].why);
        begin(&scene, s);
        scene_drop(&scene, &kind_pod, s->pod);
        scene_patch(&scene, s->kind, "j",
                    str_c(&scene.arena, str_printf(&scene.arena,
                                                   "{'metadata':{'annotations':{'" MEMORY
                                                   "':\"%s\"}},'status':{%s}}",
                                                   rows[i].memory, rows[i].status)));
        run_later(&scene, s);
        EXPECT(failures_until_the_end(&scene, s) == rows[i].failures);
    }
}

/* ---- JobSet ---- */

#define SET(policy)                                                                       \
    "{'metadata':{'name':'j'},'spec':{'failurePolicy':{'maxRestarts':2" policy "},"       \
    "'replicatedJobs':[{'name':'w','replicas':1,'template':{'spec':{'template':{'spec':{" \
    "'containers':[{'name':'c','image':'i'}]}}}}}]}}"

TEST(the_restarts_of_a_jobset_are_limited_where_the_crd_is_foreign)
{
    static const struct {
        const char *why;
        const char *const *members;
        const char *set;
    } rows[] = {
        {"conditions only", conditions_only, SET("")},
        {"an older JobSet: no count towards the maximum", older_members, SET("")},
        {"Jobs that restart alone", conditions_only,
         SET(",'rules':[{'name':'r','action':'RestartJob'}]")},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(scene_close) struct scene scene;
        int failures = 0;

        test_case(rows[i].why);
        scene_open(&scene);
        scene_put(&scene, &kind_jobset, rows[i].set);
        scene.foreign = &kind_jobset;
        scene.foreign_status = rows[i].members;
        scene_run(&scene, &jobset_controller, "j");
        while (failures < 9 &&
               !str_contains(scene_conditions(&scene, &kind_jobset, "j"), STR("Failed=True"))) {
            scene_patch(&scene, &kind_job, "j-w-0",
                        "{'status':{'conditions':[{'type':'Failed','status':'True','reason':"
                        "'BackoffLimitExceeded','lastTransitionTime':'2026-01-01T00:00:00Z'}]}}");
            scene.now_ms += LATER;
            scene_run(&scene, &jobset_controller, "j");
            failures++;
        }
        if (failures != LIMIT + 1)
            printf("%s: %d failures; " STR_FMT "; " STR_FMT "\n", rows[i].why, failures,
                   STR_ARG(scene.events),
                   STR_ARG(json_text(&scene.arena, scene_get(&scene, &kind_jobset, "j"))));
        EXPECT(failures == LIMIT + 1);
        EXPECT(times(scene.events, "ForeignCRD") == 1);
    }
}

TEST(a_trainjob_counts_nothing_itself_and_ends_where_the_crd_is_foreign)
{
    _cleanup_(scene_close) struct scene scene;

    scene_open(&scene);
    scene_put(
        &scene, &kind_trainjob,
        "{'metadata':{'name':'j'},'spec':{'managedBy':'trainer.kubeflow.org/trainjob-controller',"
        "'runtimeRef':{'name':'r'}},'status':{'conditions':[{'type':'Failed','status':'True'}]}}");
    scene.foreign = &kind_trainjob;
    scene.foreign_status = conditions_only;
    scene_patch(&scene, &kind_trainjob, "j", "{}");
    scene_run(&scene, &trainjob_controller, "j");
    EXPECT(str_is(scene_conditions(&scene, &kind_trainjob, "j"), "Failed=True"));
    EXPECT(str_is(scene_names(&scene, &kind_jobset), ""));
}

TEST(a_trainjob_runs_where_the_crd_is_foreign_and_takes_no_empty_status)
{
    _cleanup_(scene_close) struct scene scene;

    scene_open(&scene);
    scene_put(&scene, &kind_clustertrainingruntime,
              "{'metadata':{'name':'r'},'spec':{'mlPolicy':{'numNodes':1},'template':{'spec':{"
              "'replicatedJobs':[{'name':'node','template':{'metadata':{'labels':{"
              "'trainer.kubeflow.org/trainjob-ancestor-step':'trainer'}},'spec':{'template':{"
              "'spec':{'containers':[{'name':'node'}]}}}}}]}}}}");
    scene_put(
        &scene, &kind_trainjob,
        "{'metadata':{'name':'j'},'spec':{'managedBy':'trainer.kubeflow.org/trainjob-controller',"
        "'runtimeRef':{'apiGroup':'trainer.kubeflow.org','kind':'ClusterTrainingRuntime',"
        "'name':'r'}}}");
    scene.foreign = &kind_trainjob;
    scene.foreign_status = conditions_only;
    scene_run(&scene, &trainjob_controller, "j");
    EXPECT(str_is(scene_names(&scene, &kind_jobset), "j"));
    EXPECT(json_count(json_get(scene_get(&scene, &kind_trainjob, "j"), "status")) > 0);
}
