#include "api/kind.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/json.h"
#include "base/str.h"
#include "control/core/controllers.h"
#include "control/core/scene.h"
#include "test.h"

#include <stddef.h>
#include <stdio.h>

/* What the pods of Kubeflow's kinds are told, and what is made beside them. */

#define POD(container)                                                                \
    "'template':{'metadata':{'labels':{'mine':'yes'},'annotations':{'muster.dev/"     \
    "restart-in-place':'0 go','mine':'1'}},'spec':{'containers':[{'name':'" container \
    "','image':'i','env':[{'name':'A','value':'b'}]}]}}"
#define JOB(spec)              "{'metadata':{'name':'j','uid':'12345678-9'},'spec':{" spec "}}"
#define ROLE(name, count, pod) "'" name "':{'replicas':" count "," pod "}"
#define PYTORCH_1_2                                                                       \
    "'pytorchReplicaSpecs':{" ROLE("Master", "1", POD("pytorch")) "," ROLE("Worker", "2", \
                                                                           POD("pytorch")) "}"
#define PYTORCH_2 "'pytorchReplicaSpecs':{" ROLE("Worker", "2", POD("pytorch")) "}"
#define TF_ALL                                                        \
    "'tfReplicaSpecs':{" ROLE("PS", "1", POD("tensorflow")) "," ROLE( \
        "Worker", "2", POD("tensorflow")) "," ROLE("Evaluator", "1", POD("tensorflow")) "}"
#define MPI_1_2 \
    "'mpiReplicaSpecs':{" ROLE("Launcher", "1", POD("m")) "," ROLE("Worker", "2", POD("m")) "}"

static const struct {
    const char *why;
    const struct kind *kind;
    const struct controller *controller;
    const char *job;
    const char *pod;
    const char *name;  /* of a variable */
    const char *value; /* NULL: it is not set */
} env_rows[] = {
#define P &kind_pytorchjob, &pytorch_job_controller
    {"the user's own is kept", P, JOB(PYTORCH_1_2), "j-worker-0", "A", "b"},
    {"", P, JOB(PYTORCH_1_2), "j-worker-1", "PYTHONUNBUFFERED", "1"},
    {"", P, JOB(PYTORCH_1_2), "j-worker-1", "MASTER_ADDR", "j-master-0"},
    {"", P, JOB(PYTORCH_1_2), "j-worker-1", "MASTER_PORT", "23456"},
    {"", P, JOB(PYTORCH_1_2), "j-worker-1", "PET_MASTER_ADDR", "j-master-0"},
    {"", P, JOB(PYTORCH_1_2), "j-worker-1", "PET_MASTER_PORT", "23456"},
    {"", P, JOB(PYTORCH_1_2), "j-worker-1", "WORLD_SIZE", "3"},
    {"ranks of a pod count where they are a number", P, JOB("'nprocPerNode':'2'," PYTORCH_1_2),
     "j-worker-1", "WORLD_SIZE", "6"},
    {"", P, JOB(PYTORCH_1_2), "j-master-0", "RANK", "0"},
    {"", P, JOB(PYTORCH_1_2), "j-worker-1", "RANK", "2"},
    {"", P, JOB(PYTORCH_1_2), "j-worker-1", "PET_NODE_RANK", "2"},
    {"", P, JOB(PYTORCH_1_2), "j-worker-1", "PET_NPROC_PER_NODE", "auto"},
    {"", P, JOB(PYTORCH_1_2), "j-worker-1", "PET_NNODES", "3"},
    {"no master, no address", P, JOB(PYTORCH_2), "j-worker-1", "MASTER_ADDR", NULL},
    {"no master", P, JOB(PYTORCH_2), "j-worker-1", "PET_NNODES", "2"},
    {"elastic", P, JOB("'elasticPolicy':{'minReplicas':1,'maxReplicas':4}," PYTORCH_2),
     "j-worker-0", "PET_NNODES", "1:4"},
    {"elastic", P, JOB("'elasticPolicy':{'minReplicas':1}," PYTORCH_2), "j-worker-0",
     "PET_RDZV_BACKEND", "c10d"},
    {"elastic", P, JOB("'elasticPolicy':{'minReplicas':1}," PYTORCH_2), "j-worker-1",
     "PET_RDZV_ENDPOINT", "j-worker-0:23456"},
    {"elastic: an id that nobody else has", P, JOB("'elasticPolicy':{'minReplicas':1}," PYTORCH_2),
     "j-worker-1", "PET_RDZV_ID", "j-12345678-0"},
    {"elastic: the user's own", P, JOB("'elasticPolicy':{'rdzvId':'x'}," PYTORCH_2), "j-worker-1",
     "PET_RDZV_ID", "x"},
    {"elastic: settings", P,
     JOB("'elasticPolicy':{'rdzvConf':[{'key':'a','value':'1'},{'key':'b','value':'2'}]}"
         "," PYTORCH_2),
     "j-worker-1", "PET_RDZV_CONF", "a=1,b=2"},
    {"elastic", P, JOB("'elasticPolicy':{'maxRestarts':7}," PYTORCH_2), "j-worker-1",
     "PET_MAX_RESTARTS", "7"},
    {"standalone is a number that torchrun reads", P,
     JOB("'elasticPolicy':{'standalone':true}," PYTORCH_2), "j-worker-1", "PET_STANDALONE", "1"},
    {"the older spelling", P, JOB("'elasticPolicy':{'nProcPerNode':3}," PYTORCH_2), "j-worker-1",
     "PET_NPROC_PER_NODE", "3"},
    {"a store of one's own", P,
     JOB("'elasticPolicy':{'rdzvBackend':'etcd-v2','rdzvHost':'e','rdzvPort':2379}," PYTORCH_2),
     "j-worker-1", "PET_RDZV_ENDPOINT", "e:2379"},
#undef P
#define T &kind_tfjob, &tf_job_controller
    {"servers and workers, not the evaluator", T, JOB(TF_ALL), "j-worker-1", "TF_CONFIG",
     "{\"cluster\":{\"ps\":[\"j-ps-0.n.svc:2222\"],\"worker\":[\"j-worker-0.n.svc:2222\",\"j-"
     "worker-"
     "1.n.svc:2222\"]},\"task\":{\"type\":\"worker\",\"index\":1},\"environment\":\"cloud\"}"},
    {"dynamic workers know themselves and the servers", T,
     JOB("'enableDynamicWorker':true," TF_ALL), "j-worker-1", "TF_CONFIG",
     "{\"sparseCluster\":{\"worker\":{\"1\":\"j-worker-1.n.svc:2222\"},\"ps\":[\"j-ps-0.n.svc:"
     "2222\""
     "]},\"task\":{\"type\":\"worker\",\"index\":1}}"},
    {"one pod needs no cluster", T,
     JOB("'tfReplicaSpecs':{" ROLE("Worker", "1", POD("tensorflow")) "}"), "j-worker-0",
     "TF_CONFIG", NULL},
#undef T
#define X &kind_xgboostjob, &xgboost_job_controller
#define XGB_1_2                                                                       \
    "'xgbReplicaSpecs':{" ROLE("Master", "1", POD("xgboost")) "," ROLE("Worker", "2", \
                                                                       POD("xgboost")) "}"
    {"", X, JOB(XGB_1_2), "j-worker-1", "RANK", "2"},
    {"", X, JOB(XGB_1_2), "j-worker-1", "WORLD_SIZE", "3"},
    {"", X, JOB(XGB_1_2), "j-worker-1", "MASTER_ADDR", "j-master-0"},
    {"", X, JOB(XGB_1_2), "j-worker-1", "MASTER_PORT", "9999"},
    {"", X, JOB(XGB_1_2), "j-master-0", "WORKER_ADDRS", "j-worker-0,j-worker-1"},
    {"", X, JOB(XGB_1_2), "j-master-0", "WORKER_PORT", "9999"},
#undef X
#define J     &kind_jaxjob, &jax_job_controller
#define JAX_2 "'jaxReplicaSpecs':{" ROLE("Worker", "2", POD("jax")) "}"
    {"", J, JOB(JAX_2), "j-worker-1", "COORDINATOR_ADDRESS", "j-worker-0"},
    {"", J, JOB(JAX_2), "j-worker-1", "COORDINATOR_PORT", "6666"},
    {"", J, JOB(JAX_2), "j-worker-1", "NUM_PROCESSES", "2"},
    {"", J, JOB(JAX_2), "j-worker-1", "PROCESS_ID", "1"},
#undef J
#define D        &kind_paddlejob, &paddle_job_controller
#define PADDLE_2 "'paddleReplicaSpecs':{" ROLE("Worker", "2", POD("paddle")) "}"
#define PADDLE_1_1                                                                      \
    "'paddleReplicaSpecs':{" ROLE("Master", "1", POD("paddle")) "," ROLE("Worker", "1", \
                                                                         POD("paddle")) "}"
    {"", D, JOB(PADDLE_2), "j-worker-1", "PADDLE_JOB_ID", "j"},
    {"", D, JOB(PADDLE_2), "j-worker-1", "PADDLE_NNODES", "2"},
    {"", D, JOB(PADDLE_2), "j-worker-1", "PADDLE_MASTER", "j-worker-0:36543"},
    {"rank 0 says where it is", D, JOB(PADDLE_2), "j-worker-0", "PADDLE_MASTER",
     "$(POD_IP_DUMMY):36543"},
    {"", D, JOB(PADDLE_1_1), "j-master-0", "PADDLE_SERVER_NUM", "1"},
    {"", D, JOB(PADDLE_1_1), "j-worker-0", "PADDLE_TRAINER_NUM", "1"},
    {"", D, JOB(PADDLE_1_1), "j-worker-0", "PADDLE_MASTER", "j-master-0:36543"},
#undef D
#define M &kind_mpijob, &mpi_job_controller
    {"", M, JOB(MPI_1_2), "j-launcher", "OMPI_MCA_plm_rsh_agent", "/etc/mpi/kubexec.sh"},
    {"", M, JOB(MPI_1_2), "j-launcher", "OMPI_MCA_orte_default_hostfile", "/etc/mpi/hostfile"},
    {"", M, JOB(MPI_1_2), "j-launcher", "I_MPI_HYDRA_BOOTSTRAP", "rsh"},
    {"a launcher without a GPU sees none", M, JOB(MPI_1_2), "j-launcher", "NVIDIA_VISIBLE_DEVICES",
     ""},
    {"workers have no business with it", M, JOB(MPI_1_2), "j-worker-0", "OMPI_MCA_plm_rsh_agent",
     NULL},
#undef M
};

/* The last entry of a name wins, as in a container. */
static const struct json *variable(const struct json *pod, const char *name)
{
    const struct json *found = NULL;

    JSON_FOREACH(json_at(pod, "spec.containers.0.env"), entry)
        if (str_is(json_str(json_get(entry, "name")), name))
            found = json_get(entry, "value");
    return found;
}

TEST(kubeflow_pods_are_told_where_they_stand)
{
    for (size_t i = 0; i < COUNT_OF(env_rows); i++) {
        _cleanup_(scene_close) struct scene scene;

        test_case(env_rows[i].name);
        scene_open(&scene);
        scene_put(&scene, env_rows[i].kind, env_rows[i].job);
        scene_run(&scene, env_rows[i].controller, "j");
        const struct json *pod = scene_get(&scene, &kind_pod, env_rows[i].pod);
        const struct json *value = variable(pod, env_rows[i].name);
        EXPECT(pod != NULL);
        if (!env_rows[i].value) {
            EXPECT(value == NULL);
            continue;
        }
        if (!str_is(json_str(value), env_rows[i].value))
            printf("%s is " STR_FMT "\n", env_rows[i].name, STR_ARG(json_str(value)));
        EXPECT(value && str_is(json_str(value), env_rows[i].value));
    }
}

TEST(a_kubeflow_pod_has_the_labels_and_the_service_people_look_for)
{
    static const struct {
        const char *key;
        const char *value;
    } labels[] = {
        {"training.kubeflow.org/job-name", "j"},
        {"training.kubeflow.org/operator-name", "pytorchjob-controller"},
        {"training.kubeflow.org/replica-type", "master"},
        {"training.kubeflow.org/replica-index", "0"},
        {"training.kubeflow.org/job-role", "master"},
        {"mine", "yes"},
        {"kai.scheduler/queue", "q"},
    };
    _cleanup_(scene_close) struct scene scene;

    scene_open(&scene);
    scene_put(&scene, &kind_pytorchjob,
              JOB("'runPolicy':{'schedulingPolicy':{'queue':'q','priorityClass':'build'}}," //
                  PYTORCH_1_2));
    scene_run(&scene, &pytorch_job_controller, "j");
    const struct json *pod = scene_get(&scene, &kind_pod, "j-master-0");
    for (size_t i = 0; i < COUNT_OF(labels); i++) {
        test_case(labels[i].key);
        EXPECT(str_is(json_str(json_get(json_at(pod, "metadata.labels"), labels[i].key)),
                      labels[i].value));
    }
    const struct json *notes = json_at(pod, "metadata.annotations");
    EXPECT(str_is(json_str(json_get(notes, "mine")), "1"));
    EXPECT(!json_get(notes, "muster.dev/restart-in-place")); /* the engine's own word */
    EXPECT(str_is(json_str_at(pod, "spec.priorityClassName"), "build"));
    EXPECT(str_is(json_str_at(pod, "metadata.ownerReferences.0.kind"), "PyTorchJob"));
    EXPECT(json_i64_or(json_at(pod, "spec.containers.0.ports.0.containerPort"), 0) == 23456);
    EXPECT(str_is(scene_names(&scene, &kind_service), "j-master-0 j-worker-0 j-worker-1"));
    const struct json *service = scene_get(&scene, &kind_service, "j-worker-1");
    EXPECT(str_is(json_str_at(service, "spec.clusterIP"), "None"));
    EXPECT(json_i64_or(json_at(service, "spec.ports.0.port"), 0) == 23456);
    scene_patch(&scene, &kind_pytorchjob, "j", "{'spec':{'runPolicy':{'suspend':true}}}");
    scene_run(&scene, &pytorch_job_controller, "j");
    EXPECT(str_is(scene_names(&scene, &kind_service), ""));
}

/* ---- elastic jobs ---- */

#define ELASTIC(more)                                                                     \
    JOB("'elasticPolicy':{'minReplicas':1,'maxReplicas':3" more "},"                      \
        "'pytorchReplicaSpecs':{'Worker':{'replicas':2,'restartPolicy':'OnFailure'," POD( \
            "pytorch") "}}")
#define RUNS "{'status':{'phase':'Running'}}"

static void start_elastic(struct scene *scene, const char *job)
{
    scene_open(scene);
    scene_put(scene, &kind_pytorchjob, job);
    scene_run(scene, &pytorch_job_controller, "j");
    scene_patch(scene, &kind_pod, "j-worker-0", RUNS);
    scene_patch(scene, &kind_pod, "j-worker-1", RUNS);
    scene_run(scene, &pytorch_job_controller, "j");
}

static void step(struct scene *scene, const char *pod, const char *patch)
{
    scene_patch(scene, &kind_pod, pod, patch);
    scene_run(scene, &pytorch_job_controller, "j");
}

TEST(elastic_workers_come_and_go_one_by_one)
{
    _cleanup_(scene_close) struct scene scene;

    start_elastic(&scene, ELASTIC(""));
    EXPECT(str_is(scene_conditions(&scene, &kind_pytorchjob, "j"), "Created=True Running=True"));
    scene_patch(&scene, &kind_pytorchjob, "j",
                "{'spec':{'pytorchReplicaSpecs':{'Worker':{'replicas':3}}}}");
    scene_run(&scene, &pytorch_job_controller, "j");
    EXPECT(str_is(scene_names(&scene, &kind_pod), "j-worker-0 j-worker-1 j-worker-2"));
    scene_patch(&scene, &kind_pytorchjob, "j",
                "{'spec':{'pytorchReplicaSpecs':{'Worker':{'replicas':1}}}}");
    scene_run(&scene, &pytorch_job_controller, "j");
    EXPECT(str_is(scene_names(&scene, &kind_pod), "j-worker-0"));
    const struct json *status = json_get(scene_get(&scene, &kind_pytorchjob, "j"), "status");
    EXPECT(json_i64_or(json_get(status, "generation"), -1) == 0);
    EXPECT(json_i64_or(json_get(status, "restarts"), -1) == 0);
}

TEST(an_elastic_worker_that_fails_is_replaced_while_another_runs)
{
    _cleanup_(scene_close) struct scene scene;

    start_elastic(&scene, ELASTIC(""));
    step(&scene, "j-worker-1",
         "{'status':{'phase':'Failed','containerStatuses':[{'state':{'terminated':{'exitCode':1,"
         "'finishedAt':'2026-01-01T00:00:01Z'}}}]}}");
    EXPECT(str_is(scene_names(&scene, &kind_pod), "j-worker-0 j-worker-1"));
    const struct json *status = json_get(scene_get(&scene, &kind_pytorchjob, "j"), "status");
    EXPECT(json_i64_or(json_get(status, "restarts"), -1) == 1);
    EXPECT(json_i64_or(json_get(status, "generation"), -1) == 0);
    EXPECT(str_is(json_str(json_get(status, "phase")), "Running"));
}

TEST(one_elastic_worker_that_is_done_means_that_the_job_is)
{
    _cleanup_(scene_close) struct scene scene;

    start_elastic(&scene, ELASTIC(""));
    step(&scene, "j-worker-1", "{'status':{'phase':'Succeeded'}}");
    EXPECT(str_is(scene_conditions(&scene, &kind_pytorchjob, "j"),
                  "Running=False Created=True Succeeded=True"));
}

/* It was not taken from us: nobody wants it any more. */
TEST(a_failed_pod_that_is_one_too_many_goes_and_counts_for_nothing)
{
    _cleanup_(scene_close) struct scene scene;

    scene_open(&scene);
    scene_put(&scene, &kind_tfjob,
              JOB("'tfReplicaSpecs':{" ROLE("Worker", "2", POD("tensorflow")) "}"));
    scene_run(&scene, &tf_job_controller, "j");
    scene_patch(&scene, &kind_pod, "j-worker-0", RUNS);
    scene_patch(&scene, &kind_pod, "j-worker-1", RUNS);
    scene_run(&scene, &tf_job_controller, "j");
    scene_patch(&scene, &kind_pod, "j-worker-1", "{'status':{'phase':'Failed'}}");
    scene_patch(&scene, &kind_tfjob, "j", "{'spec':{'tfReplicaSpecs':{'Worker':{'replicas':1}}}}");
    scene_run(&scene, &tf_job_controller, "j");
    EXPECT(str_is(scene_names(&scene, &kind_pod), "j-worker-0"));
    const struct json *status = json_get(scene_get(&scene, &kind_tfjob, "j"), "status");
    EXPECT(json_i64_or(json_get(status, "preemptions"), -1) == 0);
    EXPECT(json_i64_or(json_get(status, "restarts"), -1) == 0);
}

TEST(metrics_make_an_autoscaler_that_goes_with_the_job)
{
    _cleanup_(scene_close) struct scene scene;

    start_elastic(&scene, ELASTIC(",'metrics':[{'type':'Resource'}]"));
    const struct json *spec = json_get(scene_get(&scene, &kind_hpa, "j"), "spec");
    EXPECT(json_i64_or(json_get(spec, "minReplicas"), 0) == 1);
    EXPECT(json_i64_or(json_get(spec, "maxReplicas"), 0) == 3);
    EXPECT(str_is(json_str_at(spec, "scaleTargetRef.kind"), "PyTorchJob"));
    scene_patch(&scene, &kind_pytorchjob, "j", "{'spec':{'elasticPolicy':{'maxReplicas':5}}}");
    scene_run(&scene, &pytorch_job_controller, "j");
    spec = json_get(scene_get(&scene, &kind_hpa, "j"), "spec");
    EXPECT(json_i64_or(json_get(spec, "maxReplicas"), 0) == 5);
    scene_patch(&scene, &kind_pytorchjob, "j",
                "{'spec':{'elasticPolicy':{'metrics':[{'type':'Pods'}]}}}");
    scene_run(&scene, &pytorch_job_controller, "j");
    spec = json_get(scene_get(&scene, &kind_hpa, "j"), "spec");
    EXPECT(str_is(json_str_at(spec, "metrics.0.type"), "Pods"));
    scene_patch(&scene, &kind_pytorchjob, "j", "{'spec':{'runPolicy':{'suspend':true}}}");
    scene_run(&scene, &pytorch_job_controller, "j");
    EXPECT(scene_get(&scene, &kind_hpa, "j") == NULL);
}

TEST(the_store_of_an_etcd_rendezvous_is_a_pod_of_the_job)
{
    _cleanup_(scene_close) struct scene scene;

    scene_open(&scene);
    scene_put(&scene, &kind_pytorchjob, ELASTIC(",'rdzvBackend':'etcd-v2'"));
    scene_run(&scene, &pytorch_job_controller, "j");
    EXPECT(str_is(scene_names(&scene, &kind_pod), "j-sync-0"));
    step(&scene, "j-sync-0", RUNS);
    EXPECT(str_is(scene_names(&scene, &kind_pod), "j-sync-0 j-worker-0 j-worker-1"));
    EXPECT(
        str_is(json_str(variable(scene_get(&scene, &kind_pod, "j-worker-0"), "PET_RDZV_ENDPOINT")),
               "j-sync-0.j:7077"));
}

/* ---- the other kinds ---- */

TEST(a_tfjob_without_a_chief_ends_with_worker_0_or_with_all)
{
    static const struct {
        const char *policy;
        const char *first; /* phase when worker 0 is done */
    } rows[] = {{"", "Succeeded"}, {"'successPolicy':'AllWorkers',", "Running"}};

    for (size_t i = 0; i < 2; i++) {
        _cleanup_(scene_close) struct scene scene;

        scene_open(&scene);
        scene_put(&scene, &kind_tfjob,
                  str_c(&scene.arena, str_printf(&scene.arena, JOB("%s" TF_ALL), rows[i].policy)));
        scene_run(&scene, &tf_job_controller, "j");
        scene_patch(&scene, &kind_pod, "j-worker-0", "{'status':{'phase':'Succeeded'}}");
        scene_patch(&scene, &kind_pod, "j-worker-1", RUNS);
        scene_run(&scene, &tf_job_controller, "j");
        const struct json *job = scene_get(&scene, &kind_tfjob, "j");
        EXPECT(str_is(json_str_at(job, "status.phase"), rows[i].first));
        scene_patch(&scene, &kind_pod, "j-worker-1", "{'status':{'phase':'Succeeded'}}");
        scene_run(&scene, &tf_job_controller, "j");
        job = scene_get(&scene, &kind_tfjob, "j");
        EXPECT(str_is(json_str_at(job, "status.phase"), "Succeeded"));
    }
}

TEST(a_launcher_finds_its_hosts_and_may_start_ranks_on_them_only)
{
    _cleanup_(scene_close) struct scene scene;

    scene_open(&scene);
    scene_put(&scene, &kind_mpijob, JOB("'slotsPerWorker':4," MPI_1_2));
    scene_run(&scene, &mpi_job_controller, "j");
    const struct json *config = scene_get(&scene, &kind_configmap, "j-config");
    EXPECT(
        str_is(json_str_at(config, "data.hostfile"), "j-worker-0 slots=4\nj-worker-1 slots=4\n"));
    EXPECT(
        str_is(json_str(json_get(json_get(config, "data"), "discover_hosts.sh")), "#!/bin/sh\n"));
    const struct json *role = scene_get(&scene, &kind_role, "j-launcher");
    EXPECT(str_is(json_str_at(role, "rules.1.resources.0"), "pods/exec"));
    EXPECT(json_count(json_at(role, "rules.1.resourceNames")) == 3);
    EXPECT(scene_get(&scene, &kind_rolebinding, "j-launcher") != NULL);
    EXPECT(scene_get(&scene, &kind_serviceaccount, "j-launcher") != NULL);
    const struct json *launcher = scene_get(&scene, &kind_pod, "j-launcher");
    EXPECT(str_is(json_str_at(launcher, "spec.serviceAccountName"), "j-launcher"));
    scene_patch(&scene, &kind_pod, "j-worker-1", RUNS);
    scene_run(&scene, &mpi_job_controller, "j");
    config = scene_get(&scene, &kind_configmap, "j-config");
    EXPECT(str_is(json_str(json_get(json_get(config, "data"), "discover_hosts.sh")),
                  "#!/bin/sh\necho j-worker-1:4\n"));
}

TEST(a_launcher_told_to_wait_comes_when_all_workers_are_ready)
{
    _cleanup_(scene_close) struct scene scene;
    const char *ready =
        "{'status':{'phase':'Running','conditions':[{'type':'Ready','status':'True'}]}}";

    scene_open(&scene);
    scene_put(&scene, &kind_mpijob, JOB("'launcherCreationPolicy':'WaitForWorkersReady'," MPI_1_2));
    scene_run(&scene, &mpi_job_controller, "j");
    EXPECT(str_is(scene_names(&scene, &kind_pod), "j-worker-0 j-worker-1"));
    scene_patch(&scene, &kind_pod, "j-worker-0", ready);
    scene_run(&scene, &mpi_job_controller, "j");
    EXPECT(str_is(scene_names(&scene, &kind_pod), "j-worker-0 j-worker-1"));
    scene_patch(&scene, &kind_pod, "j-worker-1", ready);
    scene_run(&scene, &mpi_job_controller, "j");
    EXPECT(str_is(scene_names(&scene, &kind_pod), "j-worker-0 j-worker-1 j-launcher"));
}

/* ---- single pods ---- */

#define WAITS                                                                                  \
    "{'status':{'phase':'Pending','containerStatuses':[{'name':'pytorch','state':{'waiting':{" \
    "'reason':'ImagePullBackOff','message':'no such image'}}}]}}"
#define SIDECAR_DIED                                                                              \
    "{'status':{'phase':'Running','containerStatuses':[{'name':'helper','state':{'terminated':{'" \
    "exitCode':3,'reason':'Error'}}}]}}"

static const struct {
    const char *why;
    const char *pod;   /* patch of worker 0 */
    const char *again; /* and of a later look; NULL: none */
    const char *reason;
    size_t told;
} abnormal_rows[] = {
    {"a pod on its way is fine", "{'status':{'phase':'Pending'}}", NULL, "Unschedulable", 0},
    {"an image that is not there", WAITS, NULL, "ImagePullBackOff", 1},
    {"the same again is not told again", WAITS, WAITS, "ImagePullBackOff", 1},
    {"no node, and later none for another reason: told once",
     "{'status':{'phase':'Pending','conditions':[{'type':'PodScheduled','status':'False','reason':"
     "'Unschedulable','message':'a'}]}}",
     "{'status':{'conditions':[{'type':'PodScheduled','status':'False','reason':'Unschedulable',"
     "'message':'b'}]}}",
     "Unschedulable", 1},
    {"a container beside the training ended badly", SIDECAR_DIED, NULL, "Error", 1},
    {"it was well in between", WAITS, "{'status':{'phase':'Running','containerStatuses':[]}}",
     "ImagePullBackOff", 1},
};

static size_t count_word(struct str text, const char *word)
{
    size_t count = 0;
    struct str each;

    while (str_cut(&text, ' ', &each))
        count += str_is(each, word);
    return count;
}

TEST(a_pod_that_is_not_as_it_should_be_is_told_once_about_its_job)
{
    for (size_t i = 0; i < COUNT_OF(abnormal_rows); i++) {
        _cleanup_(scene_close) struct scene scene;

        test_case(abnormal_rows[i].why);
        scene_open(&scene);
        scene_put(&scene, &kind_pytorchjob,
                  "{'metadata':{'name':'j'},'spec':{'pytorchReplicaSpecs':{'Worker':{'replicas':1,"
                  "'template':{'spec':{'containers':[{'name':'pytorch','image':'i'}]}}}}}}");
        scene_run(&scene, &pytorch_job_controller, "j");
        scene_patch(&scene, &kind_pod, "j-worker-0", abnormal_rows[i].pod);
        scene_run(&scene, &pytorch_job_controller, "j");
        if (abnormal_rows[i].again) {
            scene_patch(&scene, &kind_pod, "j-worker-0", abnormal_rows[i].again);
            scene_run(&scene, &pytorch_job_controller, "j");
        }
        EXPECT(count_word(scene.events, abnormal_rows[i].reason) == abnormal_rows[i].told);
    }
}

TEST(what_the_server_says_to_a_pod_is_the_jobs_to_tell)
{
    _cleanup_(scene_close) struct scene scene;

    scene_open(&scene);
    scene.refusal = STR("pods \"j-worker-0\" is forbidden: exceeded quota");
    scene_put(&scene, &kind_pytorchjob,
              "{'metadata':{'name':'j'},'spec':{'pytorchReplicaSpecs':{'Worker':{'replicas':1,"
              "'template':{'spec':{'containers':[{'name':'pytorch','image':'i'}]}}}}}}");
    scene_run(&scene, &pytorch_job_controller, "j");
    EXPECT(str_contains(json_str_at(scene_get(&scene, &kind_pytorchjob, "j"), "status.message"),
                        STR("exceeded quota")));
    EXPECT(count_word(scene.events, "FailedCreatePod") == 1);
}
