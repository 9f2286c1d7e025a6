#include "api/kind.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/json.h"
#include "base/str.h"
#include "control/core/controllers.h"
#include "control/core/scene.h"
#include "test.h"

#include <stddef.h>

/* What people write in Kubeflow's kinds beside the usual -> what stands in pods, services, status. */

#define CONTAINER(name, more) "{'name':'" name "','image':'i'" more "}"
#define POD(containers, more) "'template':{'spec':{'containers':[" containers "]" more "}}"
#define ROLE(name, more, pod) "'" name "':{" more pod "}"
#define PYTORCH(roles)        "'pytorchReplicaSpecs':{" roles "}"
#define TORCH(more)           POD(CONTAINER("pytorch", more), "")
#define MASTER(more)          ROLE("Master", "'replicas':1,", TORCH(more))
#define WORKERS(count)        ROLE("Worker", "'replicas':" count ",", TORCH(""))
#define MPI(launcher, worker)                               \
    "'mpiReplicaSpecs':{" ROLE("Launcher", "'replicas':1,", \
                               launcher) "," ROLE("Worker", "'replicas':1,", worker) "}"
#define RANK(more) POD(CONTAINER("m", more), "")

struct row {
    const char *why;
    const struct kind *kind;
    const struct controller *controller;
    const char *spec;
    struct {
        const struct kind *kind;
        const char *name;
        const char *path; /* VARIABLE of the first container behind "env " */
        const char *is;
    } facts[3];
};
#define JOB(kind, controller) &kind, &controller
#define TORCH_JOB             JOB(kind_pytorchjob, pytorch_job_controller)
#define TF_JOB                JOB(kind_tfjob, tf_job_controller)
#define XGB_JOB               JOB(kind_xgboostjob, xgboost_job_controller)
#define PADDLE_JOB            JOB(kind_paddlejob, paddle_job_controller)
#define MPI_JOB               JOB(kind_mpijob, mpi_job_controller)
#define IN_POD(name, path, is)    \
    {                             \
        &kind_pod, name, path, is \
    }
#define MESSAGE(kind, is)                        \
    {                                            \
        &kind, "j", "status.message", "'" is "'" \
    }

static const struct row rows[] = {
    {"ports without a name get one: a service must tell its ports apart",
     TORCH_JOB,
     PYTORCH(MASTER(",'ports':[{'containerPort':80}]")),
     {{&kind_service, "j-master-0", "spec.ports",
       "[{'name':'port-80','port':80,'targetPort':80},{'name':'pytorchjob-port','port':23456,"
       "'targetPort':23456}]"}}},
    {"a port of the training that is declared is the one",
     TORCH_JOB,
     PYTORCH(MASTER(",'ports':[{'name':'x','containerPort':80},{'name':'pytorchjob-port',"
                    "'containerPort':99}]")),
     {IN_POD("j-master-0", "env MASTER_PORT", "99"),
      {&kind_service, "j-master-0", "spec.ports",
       "[{'name':'x','port':80,'targetPort':80},{'name':'pytorchjob-port','port':99,'targetPort':"
       "99}"
       "]"}}},
    {"a container beside the training's is told, too",
     TORCH_JOB,
     PYTORCH(ROLE("Master",
                  "'replicas':1,",
                  POD(CONTAINER("side", "") "," CONTAINER("pytorch", ""), ""))),
     {IN_POD("j-master-0", "env RANK", "0"),
      IN_POD("j-master-0", "spec.containers.1.ports.0.name", "'pytorchjob-port'"),
      IN_POD("j-master-0", "spec.containers.0.ports", "")}},
    {"but not of TensorFlow's cluster",
     TF_JOB,
     "'tfReplicaSpecs':{" ROLE("Worker",
                               "'replicas':2,",
                               POD(CONTAINER("side", "") "," CONTAINER("tensorflow", ""), "")) "}",
     {IN_POD("j-worker-0", "env TF_CONFIG", "(none)"),
      IN_POD("j-worker-0", "spec.containers.1.env.0.name", "'TF_CONFIG'")}},
    {"the policy of a replica, not that of its pods, says what is restarted: said once",
     TORCH_JOB,
     PYTORCH(ROLE("Master",
                  "'replicas':1,'restartPolicy':'Never',",
                  POD(CONTAINER("pytorch", ""), ",'restartPolicy':'Always'"))),
     {IN_POD("j-master-0", "spec.restartPolicy", "'Never'")}},
    {"a priority class of the job",
     TORCH_JOB,
     "'runPolicy':{'schedulingPolicy':{'priorityClass':'high'}}," PYTORCH(MASTER("")),
     {IN_POD("j-master-0", "spec.priorityClassName", "'high'")}},
    {"the template's own stays",
     TORCH_JOB,
     "'runPolicy':{'schedulingPolicy':{'priorityClass':'high'}}," PYTORCH(
         ROLE("Master",
              "'replicas':1,",
              POD(CONTAINER("pytorch", ""), ",'priorityClassName':'low'"))),
     {IN_POD("j-master-0", "spec.priorityClassName", "'low'")}},
    {"a number of replicas that is not said is one",
     TORCH_JOB,
     PYTORCH(ROLE("Worker", "", TORCH(""))),
     {IN_POD("j-worker-0", "spec.containers.0.name", "'pytorch'"),
      IN_POD("j-worker-1", "spec", "")}},
    {"ours",
     TORCH_JOB,
     "'runPolicy':{'managedBy':'kubeflow.org/training-operator'}," PYTORCH(MASTER("")),
     {IN_POD("j-master-0", "spec.restartPolicy", "'Never'")}},
    {"somebody else's",
     TORCH_JOB,
     "'runPolicy':{'managedBy':'kueue.x-k8s.io/multikueue'}," PYTORCH(MASTER("")),
     {IN_POD("j-master-0", "spec", ""), {&kind_pytorchjob, "j", "status", ""}}},
    {"more pods than a job may have",
     TORCH_JOB,
     PYTORCH(WORKERS("5000")),
     {MESSAGE(kind_pytorchjob,
              "spec.pytorchReplicaSpecs.Worker.replicas: 5000 is not within 0..4096")}},
    {"no pods at all",
     TORCH_JOB,
     "'pytorchReplicaSpecs':{}",
     {MESSAGE(kind_pytorchjob, "spec.pytorchReplicaSpecs has no replica type of this kind")}},
    {"a template without containers",
     TORCH_JOB,
     PYTORCH("'Worker':{'replicas':1,'template':{'spec':{}}}"),
     {MESSAGE(kind_pytorchjob, "spec.pytorchReplicaSpecs.Worker.template: has no containers")}},
    {"elastic workers, at most: they do not wait for more than there are",
     TORCH_JOB,
     "'elasticPolicy':{'maxReplicas':4}," PYTORCH(WORKERS("2")),
     {IN_POD("j-worker-0", "env PET_NNODES", "2:4")}},
    {"elastic without workers",
     TORCH_JOB,
     "'elasticPolicy':{'maxReplicas':4}," PYTORCH(MASTER("")),
     {MESSAGE(kind_pytorchjob, "spec.elasticPolicy needs spec.pytorchReplicaSpecs.Worker")}},
    {"elastic with a master, whose end is the job's",
     TORCH_JOB,
     "'elasticPolicy':{'minReplicas':1}," PYTORCH(MASTER("") "," WORKERS("2")),
     {IN_POD("j-worker-0", "env PET_RDZV_BACKEND", "c10d")}},
    {"a store of an etcd rendezvous is where its scheduler puts it",
     TORCH_JOB,
     "'elasticPolicy':{'rdzvBackend':'etcd-v2'}," PYTORCH(
         ROLE("Worker", "'replicas':2,", POD(CONTAINER("pytorch", ""), ",'schedulerName':'s'"))),
     {IN_POD("j-sync-0", "spec.schedulerName", "'s'")}},
    {"elastic Paddle, at least",
     PADDLE_JOB,
     "'elasticPolicy':{'minReplicas':1,'metrics':[{'type':'x'}]},'paddleReplicaSpecs':{" ROLE(
         "Worker",
         "'replicas':2,",
         POD(CONTAINER("paddle", ""), "")) "}",
     {{&kind_hpa, "j", "spec.minReplicas", "1"}, {&kind_hpa, "j", "spec.maxReplicas", "1"}}},
    {"elastic Paddle, at most",
     PADDLE_JOB,
     "'elasticPolicy':{'maxReplicas':5,'metrics':[{'type':'x'}]},'paddleReplicaSpecs':{" ROLE(
         "Worker",
         "'replicas':2,",
         POD(CONTAINER("paddle", ""), "")) "}",
     {{&kind_hpa, "j", "spec.minReplicas", "5"}, {&kind_hpa, "j", "spec.maxReplicas", "5"}}},
    {"elastic Paddle, as many as there are",
     PADDLE_JOB,
     "'elasticPolicy':{'metrics':[{'type':'x'}]},'paddleReplicaSpecs':{" ROLE(
         "Worker",
         "'replicas':2,",
         POD(CONTAINER("paddle", ""), "")) "}",
     {{&kind_hpa, "j", "spec.minReplicas", "2"}, {&kind_hpa, "j", "spec.maxReplicas", "2"}}},
    {"elastic Paddle without workers is not",
     PADDLE_JOB,
     "'elasticPolicy':{'metrics':[{'type':'x'}]},'paddleReplicaSpecs':{" ROLE(
         "Master",
         "'replicas':1,",
         POD(CONTAINER("paddle", ""), "")) "}",
     {{&kind_hpa, "j", "spec", ""}, IN_POD("j-master-0", "env PADDLE_SERVER_NUM", "1")}},
    {"TensorFlow without workers",
     TF_JOB,
     "'tfReplicaSpecs':{" ROLE("Chief", "'replicas':1,", POD(CONTAINER("tensorflow", ""), "")) "}",
     {IN_POD("j-chief-0", "spec.containers.0.name", "'tensorflow'")}},
    {"dynamic workers without servers",
     TF_JOB,
     "'enableDynamicWorker':true,'tfReplicaSpecs':{" ROLE("Worker",
                                                          "'replicas':2,",
                                                          POD(CONTAINER("tensorflow", ""), "")) "}",
     {IN_POD(
         "j-worker-1",
         "env TF_CONFIG",
         "{\"sparseCluster\":{\"worker\":{\"1\":\"j-worker-1.n.svc:2222\"},\"ps\":[]},\"task\":{"
         "\"type\":\"worker\",\"index\":1}}")}},
    {"XGBoost without workers",
     XGB_JOB,
     "'xgbReplicaSpecs':{" ROLE("Master", "'replicas':1,", POD(CONTAINER("xgboost", ""), "")) "}",
     {IN_POD("j-master-0", "env WORKER_ADDRS", "(none)"), IN_POD("j-master-0", "env RANK", "0")}},
    {"XGBoost with none",
     XGB_JOB,
     "'xgbReplicaSpecs':{" ROLE(
         "Master",
         "'replicas':1,",
         POD(CONTAINER("xgboost", ""),
             "")) "," ROLE("Worker", "'replicas':0,", POD(CONTAINER("xgboost", ""), "")) "}",
     {IN_POD("j-master-0", "env WORKER_ADDRS", "(none)")}},
    {"XGBoost without a master",
     XGB_JOB,
     "'xgbReplicaSpecs':{" ROLE("Worker", "'replicas':2,", POD(CONTAINER("xgboost", ""), "")) "}",
     {IN_POD("j-worker-1", "env MASTER_ADDR", "(none)"),
      IN_POD("j-worker-1", "env WORKER_ADDRS", "j-worker-0,j-worker-1")}},
    {"hosts in Intel's form, the launcher among them",
     MPI_JOB,
     "'slotsPerWorker':2,'mpiImplementation':'Intel','runLauncherAsWorker':true," MPI(RANK(""),
                                                                                      RANK("")),
     {{&kind_configmap, "j-config", "data.hostfile", "'j-launcher:2\\nj-worker-0:2\\n'"}}},
    {"a launcher in whose name it asks",
     MPI_JOB,
     MPI(POD(CONTAINER("m", ""), ",'serviceAccountName':'mine'"), RANK("")),
     {IN_POD("j-launcher", "spec.serviceAccountName", "'mine'")}},
    {"a worker with a command of its own",
     MPI_JOB,
     MPI(RANK(""), RANK(",'command':['sshd']")),
     {IN_POD("j-worker-0", "spec.containers.0.command", "['sshd']")}},
    {"or with arguments",
     MPI_JOB,
     MPI(RANK(""), RANK(",'args':['-D']")),
     {IN_POD("j-worker-0", "spec.containers.0.command", ""),
      IN_POD("j-worker-0", "spec.containers.0.args", "['-D']")}},
    {"a launcher with a GPU sees it, and which container is meant",
     MPI_JOB,
     "'mainContainer':'m'," MPI(RANK(",'resources':{'limits':{'nvidia.com/gpu':1}}"), RANK("")),
     {IN_POD("j-launcher", "env NVIDIA_VISIBLE_DEVICES", "(none)"),
      IN_POD("j-launcher", "env MPI_MAIN_CONTAINER", "-c m")}},
    {"no launcher",
     MPI_JOB,
     "'mpiReplicaSpecs':{" ROLE("Worker", "'replicas':1,", RANK("")) "}",
     {MESSAGE(kind_mpijob, "spec.mpiReplicaSpecs.Launcher is missing")}},
    {"ours under the other name",
     MPI_JOB,
     "'runPolicy':{'managedBy':'kubeflow.org/mpi-operator'}," MPI(RANK(""), RANK("")),
     {IN_POD("j-worker-0", "spec.containers.0.name", "'m'")}},
};

static struct str single_quoted(struct scene *scene, const struct json *value)
{
    char *text = str_c(&scene->arena, json_text(&scene->arena, value));

    for (char *c = text; *c; c++)
        *c = *c == '"' ? '\'' : *c;
    return str_from(text);
}

static struct str look_up(struct scene *scene, const struct json *object, const char *path)
{
    struct str rest = str_from(path);
    struct str value = STR("(none)");

    if (!str_starts(rest, STR("env "))) {
        const struct json *found = json_at(object, path);

        return found ? single_quoted(scene, found) : STR("");
    }
    JSON_FOREACH(json_at(object, "spec.containers.0.env"), entry)
        if (str_eq(json_str(json_get(entry, "name")), str_sub(rest, 4, rest.len)))
            value = json_str(json_get(entry, "value"));
    return value;
}

static void open_job(struct scene *scene,
                     const struct kind *kind,
                     const struct controller *controller,
                     const char *spec)
{
    scene_put(scene, kind,
              str_printf(&scene->arena, "{'metadata':{'name':'j'},'spec':{%s}}", spec).p);
    scene_run(scene, controller, "j");
}

TEST(what_is_unusual_in_a_kubeflow_job_is_taken_at_its_word)
{
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(scene_close) struct scene scene;

        test_case(rows[i].why);
        scene_open(&scene);
        open_job(&scene, rows[i].kind, rows[i].controller, rows[i].spec);
        for (size_t j = 0; j < COUNT_OF(rows[i].facts) && rows[i].facts[j].kind; j++) {
            const struct json *object =
                scene_get(&scene, rows[i].facts[j].kind, rows[i].facts[j].name);
            struct str got = look_up(&scene, object, rows[i].facts[j].path);

            if (!str_is(got, rows[i].facts[j].is))
                test_fail(__FILE__, __LINE__,
                          str_printf(&scene.arena, "%s is " STR_FMT ", not %s",
                                     rows[i].facts[j].path, STR_ARG(got), rows[i].facts[j].is)
                              .p);
        }
    }
}

TEST(a_field_of_a_kubeflow_job_that_makes_no_sense_is_named)
{
    static const struct {
        const struct kind *kind;
        const struct controller *controller;
        const char *spec;
        const char *message;
    } wrong[] = {
        {TORCH_JOB, "'runPolicy':{'backoffLimit':'x'}," PYTORCH(MASTER("")),
         "spec.runPolicy.backoffLimit: "},
        {TORCH_JOB, PYTORCH(ROLE("Master", "'replicas':'x',", TORCH(""))),
         "spec.pytorchReplicaSpecs.Master.replicas: "},
        {TORCH_JOB, "'nprocPerNode':[]," PYTORCH(MASTER("")), "spec.nprocPerNode: "},
        {TORCH_JOB, "'elasticPolicy':{'minReplicas':'x'}," PYTORCH(WORKERS("1")),
         "spec.elasticPolicy.minReplicas: "},
        {TF_JOB,
         "'enableDynamicWorker':'x','tfReplicaSpecs':{" ROLE(
             "Worker", "'replicas':1,", POD(CONTAINER("tensorflow", ""), "")) "}",
         "spec.enableDynamicWorker: "},
        {PADDLE_JOB,
         "'elasticPolicy':{'minReplicas':'x'},'paddleReplicaSpecs':{" ROLE(
             "Worker", "'replicas':1,", POD(CONTAINER("paddle", ""), "")) "}",
         "spec.elasticPolicy.minReplicas: "},
        {MPI_JOB, "'slotsPerWorker':'x'," MPI(RANK(""), RANK("")), "spec.slotsPerWorker: "},
    };

    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        _cleanup_(scene_close) struct scene scene;

        test_case(wrong[i].message);
        scene_open(&scene);
        open_job(&scene, wrong[i].kind, wrong[i].controller, wrong[i].spec);
        struct str message = json_str_at(scene_get(&scene, wrong[i].kind, "j"), "status.message");
        if (!str_starts(message, str_from(wrong[i].message)))
            test_fail(__FILE__, __LINE__, str_c(&scene.arena, message));
        EXPECT(str_is(scene_names(&scene, &kind_pod), ""));
    }
}

TEST(the_queue_of_a_kubeflow_job_is_its_labels_or_in_the_older_words)
{
    static const char *const labels[][2] = {{"", "older"}, {"'kai.scheduler/queue':'newer'", ""}};

    for (size_t i = 0; i < COUNT_OF(labels); i++) {
        _cleanup_(scene_close) struct scene scene;

        scene_open(&scene);
        scene_put(&scene, &kind_pytorchjob,
                  str_printf(&scene.arena,
                             "{'metadata':{'name':'j','labels':{%s}},'spec':{'runPolicy':{"
                             "'schedulingPolicy':{'queue':'older'}}," PYTORCH(MASTER("")) "}}",
                             labels[i][0])
                      .p);
        scene_run(&scene, &pytorch_job_controller, "j");
        const struct json *pod = scene_get(&scene, &kind_pod, "j-master-0");
        EXPECT(str_is(json_str(json_get(json_at(pod, "metadata.labels"), "kai.scheduler/queue")),
                      labels[i][1]));
    }
}

TEST(pods_of_a_kubeflow_job_that_restart_alone_keep_the_policy_of_their_replica)
{
    static const char *const policies[][2] = {{"Always", "Always"},
                                              {"OnFailure", "OnFailure"},
                                              {"Never", "Never"},
                                              {"ExitCode", "Never"}};

    for (size_t i = 0; i < COUNT_OF(policies); i++) {
        _cleanup_(scene_close) struct scene scene;

        test_case(policies[i][0]);
        scene_open(&scene);
        scene_put(&scene, &kind_pytorchjob,
                  str_printf(&scene.arena,
                             "{'metadata':{'name':'j','annotations':{'torchrun.ai/restart-scope':"
                             "'pod'}},'spec':{" PYTORCH(ROLE(
                                 "Master", "'replicas':1,'restartPolicy':'%s',", TORCH(""))) "}}",
                             policies[i][0])
                      .p);
        scene_run(&scene, &pytorch_job_controller, "j");
        EXPECT(str_is(json_str_at(scene_get(&scene, &kind_pod, "j-master-0"), "spec.restartPolicy"),
                      policies[i][1]));
    }
}

TEST(a_policy_that_means_less_in_a_gang_is_said)
{
    _cleanup_(scene_close) struct scene scene;

    scene_open(&scene);
    open_job(&scene, TORCH_JOB,
             PYTORCH(ROLE("Master", "'replicas':1,'restartPolicy':'Always',", TORCH(""))));
    EXPECT(str_contains(scene.event_words, STR("Master: restartPolicy Always is OnFailure")));
}

TEST(a_launcher_on_a_cluster_brings_kubectl_along)
{
    _cleanup_(scene_close) struct scene scene;

    scene_open(&scene);
    scene.config.launcher_image = STR("muster");
    open_job(&scene, MPI_JOB, MPI(RANK(",'volumeMounts':[{'name':'x'}]"), RANK("")));
    const struct json *spec = json_get(scene_get(&scene, &kind_pod, "j-launcher"), "spec");
    EXPECT(str_is(json_str_at(spec, "initContainers.0.name"), "kubectl-delivery") ||
           str_is(json_str_at(spec, "initContainers.1.name"), "kubectl-delivery"));
    EXPECT(!json_at(scene_get(&scene, &kind_pod, "j-worker-0"), "spec.initContainers.1"));
}

TEST(workers_that_run_and_stay_are_hosts_to_an_elastic_launcher)
{
    _cleanup_(scene_close) struct scene scene;

    scene_open(&scene);
    open_job(&scene, MPI_JOB,
             "'mpiReplicaSpecs':{" ROLE("Launcher", "'replicas':1,", RANK("")) "," ROLE(
                 "Worker", "'replicas':3,", RANK("")) "}");
    scene_patch(&scene, &kind_pod, "j-worker-0", "{'status':{'phase':'Running'}}");
    scene_patch(&scene, &kind_pod, "j-worker-2",
                "{'metadata':{'deletionTimestamp':'1970-01-01T00:16:41Z'},'status':{'phase':"
                "'Running'}}");
    scene_run(&scene, &mpi_job_controller, "j");
    EXPECT(
        str_is(json_str(json_get(json_get(scene_get(&scene, &kind_configmap, "j-config"), "data"),
                                 "discover_hosts.sh")),
               "#!/bin/sh\necho j-worker-0:1\n"));
}
