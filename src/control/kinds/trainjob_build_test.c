#include "api/kind.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/json.h"
#include "base/str.h"
#include "control/core/controllers.h"
#include "control/core/scene.h"
#include "test.h"

#include <stddef.h>

/* A runtime and a TrainJob -> what stands in the JobSet. */

#define STEP(name) \
    "'metadata':{'labels':{'trainer.kubeflow.org/trainjob-ancestor-step':'" name "'}},"
#define POD(spec)              "'template':{'spec':{" spec "}}"
#define PART(name, step, spec) "{'name':'" name "','template':{" step "'spec':{" POD(spec) "}}}"
#define CONTAINER(name, more)  "{'name':'" name "','image':'i'" more "}"
#define CONTAINERS(list)       "'containers':[" list "]"
#define NODE(more)             CONTAINERS(CONTAINER("node", more))
#define TRAINER(more)          PART("node", STEP("trainer"), NODE(more))
#define RUNTIME(policy, set)   "'mlPolicy':{" policy "},'template':{'spec':{" set "}}"
#define PARTS(policy, parts)   RUNTIME(policy, "'replicatedJobs':[" parts "]")
#define DATA(more)                                           \
    PART("dataset-initializer", STEP("dataset-initializer"), \
         CONTAINERS(CONTAINER("dataset-initializer", more)))
#define MODEL(more)                                      \
    PART("model-initializer", STEP("model-initializer"), \
         CONTAINERS(CONTAINER("model-initializer", more)))
#define FETCH(what, more) "'initializer':{'" what "':{'storageUri':'hf://a'" more "}}"
#define ENV(name, value)  "{'name':'" name "','value':'" value "'}"

struct row {
    const char *why;
    const char *runtime; /* members of spec */
    const char *job;     /* members of spec besides runtimeRef */
    struct {
        const char *what; /* PATH in the JobSet, part NAME PATH, pod NAME PATH, main NAME PATH, env
                             NAME VARIABLE, map NAME, message */
        const char *is;
    } facts[4];
};

static struct str single_quoted(struct scene *scene, const struct json *value)
{
    char *text = str_c(&scene->arena, json_text(&scene->arena, value));

    for (char *c = text; *c; c++)
        *c = *c == '"' ? '\'' : *c;
    return str_from(text);
}

static const struct json *part_named(struct scene *scene, struct str name)
{
    JSON_FOREACH(json_at(scene_get(scene, &kind_jobset, "tj"), "spec.replicatedJobs"), part)
        if (str_eq(json_str(json_get(part, "name")), name))
            return part;
    return NULL;
}

static struct str env_of(const struct json *container, struct str name)
{
    struct str value = STR("(none)");

    JSON_FOREACH(json_get(container, "env"), entry)
        if (str_eq(json_str(json_get(entry, "name")), name))
            value =
                json_get(entry, "valueFrom") ? STR("(from)") : json_str(json_get(entry, "value"));
    return value;
}

static struct str look_up(struct scene *scene, const char *what)
{
    struct str path = str_from(what);
    struct str which = STR_NONE;
    struct str name = STR_NONE;
    const struct json *root = scene_get(scene, &kind_jobset, "tj");

    (void)str_cut(&path, ' ', &which);
    if (str_is(which, "message"))
        return json_str_at(scene_get(scene, &kind_trainjob, "tj"), "status.message");
    (void)str_cut(&path, ' ', &name);
    if (str_is(which, "map"))
        return json_str_at(scene_get(scene, &kind_configmap, str_c(&scene->arena, name)),
                           str_c(&scene->arena, path));
    if (str_is(which, "set"))
        path = name;
    else
        root = part_named(scene, name);
    if (str_is(which, "pod"))
        root = json_at(root, "template.spec.template.spec");
    if (str_is(which, "main") || str_is(which, "env"))
        root = json_at(root, "template.spec.template.spec.containers.0");
    if (str_is(which, "env"))
        return env_of(root, path);
    root = json_at(root, str_c(&scene->arena, path));
    return root ? single_quoted(scene, root) : STR("");
}

static void check_rows(const struct row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        _cleanup_(scene_close) struct scene scene;

        test_case(rows[i].why);
        scene_open(&scene);
        scene_put(
            &scene, &kind_clustertrainingruntime,
            str_printf(&scene.arena, "{'metadata':{'name':'rt'},'spec':{%s}}", rows[i].runtime).p);
        scene_put(&scene, &kind_trainjob,
                  str_printf(&scene.arena,
                             "{'metadata':{'name':'tj'},'spec':{'runtimeRef':{'name':'rt'}%s%s}}",
                             rows[i].job[0] ? "," : "", rows[i].job)
                      .p);
        scene_run(&scene, &trainjob_controller, "tj");
        for (size_t j = 0; j < COUNT_OF(rows[i].facts) && rows[i].facts[j].what; j++) {
            struct str got = look_up(&scene, rows[i].facts[j].what);

            if (!str_is(got, rows[i].facts[j].is))
                test_fail(__FILE__, __LINE__,
                          str_printf(&scene.arena, "%s is " STR_FMT ", not %s",
                                     rows[i].facts[j].what, STR_ARG(got), rows[i].facts[j].is)
                              .p);
        }
    }
}

/* ---- the trainer ---- */

#define COUNT_FACT(part)                               \
    {                                                  \
        "part " part " template.spec.parallelism", "3" \
    }
static const struct row trainers[] = {
    {"by its label",
     PARTS("", PART("x", STEP("trainer"), NODE(""))),
     "'trainer':{'numNodes':3}",
     {COUNT_FACT("x"), {"part x replicas", "1"}, {"part x template.spec.completions", "3"}}},
    {"by its name",
     PARTS("", PART("y", "", NODE("")) "," PART("node", "", NODE(""))),
     "'trainer':{'numNodes':3}",
     {COUNT_FACT("node"), {"part y template.spec.parallelism", ""}}},
    {"by its older name",
     PARTS("", PART("y", "", NODE("")) "," PART("trainer-node", "", NODE(""))),
     "'trainer':{'numNodes':3}",
     {COUNT_FACT("trainer-node")}},
    {"or because there is no other",
     PARTS("", PART("y", "", NODE(""))),
     "'trainer':{'numNodes':3}",
     {COUNT_FACT("y")}},
    {"none of two",
     PARTS("", PART("y", "", NODE("")) "," PART("z", "", NODE(""))),
     "",
     {{"message",
       "spec.runtimeRef: the runtime has no replicatedJob with the label "
       "trainer.kubeflow.org/trainjob-ancestor-step: trainer and a container named node"}}},
    {"without the container",
     PARTS("", PART("node", "", CONTAINERS(CONTAINER("x", "")))),
     "",
     {{"message",
       "spec.runtimeRef: the runtime has no replicatedJob with the label "
       "trainer.kubeflow.org/trainjob-ancestor-step: trainer and a container named node"}}},
    {"a runtime of nothing",
     "'mlPolicy':{}",
     "",
     {{"message", "spec.runtimeRef: the runtime's template has no replicatedJobs"}}},
    {"not the first container",
     PARTS("", PART("node", "", CONTAINERS(CONTAINER("side", "") "," CONTAINER("node", "")))),
     "'trainer':{'image':'mine','command':['a'],'args':['b']}",
     {{"pod node containers.0.image", "'i'"},
      {"pod node containers.1", "{'name':'node','image':'mine','command':['a'],'args':['b']}"}}},
    {"a pod in the place of a set: what is not said",
     RUNTIME("", CONTAINERS(CONTAINER("x", ""))),
     "",
     {{"pod node restartPolicy", "'Never'"},
      {"part node template.spec.backoffLimit", "0"},
      {"pod node containers.0.name", "'node'"}}},
    {"a pod in the place of a set: what is said stays",
     RUNTIME(
         "",
         CONTAINERS(CONTAINER("x", "") "," CONTAINER("node", "")) ",'restartPolicy':'OnFailure'"),
     "",
     {{"pod node restartPolicy", "'OnFailure'"}, {"pod node containers.0.name", "'x'"}}},
    {"variables of the job win over the runtime's, whatever they came from",
     PARTS("", TRAINER(",'env':[" ENV("A", "rt") ",{'name':'B','valueFrom':{'fieldRef':{}}}]")),
     "'trainer':{'env':[" ENV("B", "tj") "," ENV("C", "tj") "]}",
     {{"env node A", "rt"}, {"env node B", "tj"}, {"env node C", "tj"}}},
    {"ours win over the runtime's",
     PARTS("'torch':{}", TRAINER(",'env':[{'name':'PET_NNODES','valueFrom':{'fieldRef':{}}}]")),
     "'trainer':{'numNodes':2}",
     {{"env node PET_NNODES", "2"}}},
    {"resources key by key",
     PARTS("", TRAINER(",'resources':{'limits':{'cpu':'1','memory':'1Gi'}}")),
     "'trainer':{'resourcesPerNode':{'limits':{'cpu':'2'},'requests':{'cpu':'2'},'claims':[{'name':"
     "'c'}]}}",
     {{"main node resources.limits", "{'cpu':'2','memory':'1Gi'}"},
      {"main node resources.requests", "{'cpu':'2'}"},
      {"main node resources.claims", "[{'name':'c'}]"}}},
    {"more nodes than a JobSet may have",
     PARTS("", TRAINER("")),
     "'trainer':{'numNodes':20000}",
     {{"part node template.spec.parallelism", "10000"}}},
};

TEST(the_trainer_is_found_in_the_runtime_and_filled_in)
{
    check_rows(trainers, COUNT_OF(trainers));
}

/* ---- overrides ---- */

static const struct row overrides[] = {
    {"a patch of a part",
     PARTS("", TRAINER("")),
     "'runtimePatches':[{'manager':'a/b','time':'1970-01-01T00:00:01Z','trainingRuntimeSpec':{"
     "'template':{'metadata':{'labels':{'l':'1'},'annotations':{'a':'1'}},'spec':{'replicatedJobs':"
     "["
     "{'name':'node','template':{'spec':{'template':{'spec':{'nodeSelector':{'n':'1'}}}}}}]}}}}]",
     {{"pod node nodeSelector", "{'n':'1'}"},
      {"set metadata.labels", "{'l':'1'}"},
      {"set metadata.annotations", "{'a':'1'}"}}},
    {"a patch of a part that is not there",
     PARTS("", TRAINER("")),
     "'runtimePatches':[{'manager':'a/b','trainingRuntimeSpec':{}},{'manager':'a/c',"
     "'trainingRuntimeSpec':{'template':{'spec':{'replicatedJobs':[{'name':'x'}]}}}}]",
     {{"message", "spec.runtimePatches[1]: the runtime has no replicatedJob \"x\""}}},
    {"a template of pods",
     PARTS("", TRAINER("")),
     "'podTemplateOverrides':[{'targetJobs':[{'name':'node'}],'metadata':{'labels':{'l':'1'}},'"
     "spec'"
     ":{'nodeSelector':{'n':'1'}}}]",
     {{"pod node nodeSelector", "{'n':'1'}"},
      {"part node template.spec.template.metadata.labels", "{'l':'1'}"}}},
    {"a spec of pods, in the older form: containers by their name",
     PARTS("", TRAINER("") "," DATA("")),
     "'podSpecOverrides':[{'targetJobs':[{'name':'node'},{'name':'dataset-initializer'}],"
     "'nodeSelector':{'n':'1'}},{'targetJobs':[{'name':'node'}],'nodeSelector':{'m':'1'}}]",
     {{"pod node nodeSelector", "{'n':'1','m':'1'}"},
      {"pod dataset-initializer nodeSelector", "{'n':'1'}"},
      {"pod dataset-initializer targetJobs", ""}}},
    {"of a part that is not there",
     PARTS("", TRAINER("")),
     "'podSpecOverrides':[{'targetJobs':[{'name':'x'}]}]",
     {{"message", "spec.podSpecOverrides[0]: the runtime has no replicatedJob \"x\""}}},
    {"labels and annotations reach the set and its pods",
     PARTS("", TRAINER("") "," DATA("")),
     "'labels':{'l':'1'},'annotations':{'a':'1'}",
     {{"set metadata.labels", "{'l':'1'}"},
      {"part node template.spec.template.metadata", "{'labels':{'l':'1'},'annotations':{'a':'1'}}"},
      {"part dataset-initializer template.spec.template.metadata.annotations", "{'a':'1'}"}}},
};

TEST(a_trainjob_changes_what_its_runtime_says)
{
    check_rows(overrides, COUNT_OF(overrides));
}

TEST(a_patch_that_does_not_fit_is_refused_with_its_place)
{
    static const char *const jobs[][2] = {
        {"'runtimePatches':[{'manager':'a/b','trainingRuntimeSpec':{'template':{'spec':{"
         "'replicatedJobs':[{'name':'node','template':{'spec':{'template':{'spec':{'containers':[{"
         "'image':'x'}]}}}}}]}}}}]",
         "spec.runtimePatches[0]: "},
        {"'podSpecOverrides':[{'targetJobs':[{'name':'node'}],'containers':[{'image':'x'}]}]",
         "spec.podSpecOverrides[0]: "},
    };

    for (size_t i = 0; i < COUNT_OF(jobs); i++) {
        _cleanup_(scene_close) struct scene scene;

        scene_open(&scene);
        scene_put(&scene, &kind_clustertrainingruntime,
                  "{'metadata':{'name':'rt'},'spec':{" PARTS("", TRAINER("")) "}}");
        scene_put(&scene, &kind_trainjob,
                  str_printf(&scene.arena,
                             "{'metadata':{'name':'tj'},'spec':{'runtimeRef':{'name':'rt'},%s}}",
                             jobs[i][0])
                      .p);
        scene_run(&scene, &trainjob_controller, "tj");
        EXPECT(!scene_get(&scene, &kind_jobset, "tj"));
        EXPECT(str_starts(look_up(&scene, "message"), str_from(jobs[i][1])));
    }
}

/* ---- initializers ---- */

#define SHARED "{'name':'initializer','mountPath':'/workspace'}"
static const struct row initializers[] = {
    {"what is fetched, and who may",
     PARTS("", DATA("") "," TRAINER("")),
     FETCH("dataset", ",'secretRef':{'name':'s'},'env':[" ENV("A", "1") "]"),
     {{"env dataset-initializer STORAGE_URI", "hf://a"},
      {"env dataset-initializer A", "1"},
      {"main dataset-initializer envFrom", "[{'secretRef':{'name':'s'}}]"},
      {"main node volumeMounts", "[" SHARED "]"}}},
    {"a secret beside the runtime's, and nothing to fetch",
     PARTS("", MODEL(",'envFrom':[{'configMapRef':{'name':'m'}}]") "," TRAINER("")),
     "'initializer':{'model':{'secretRef':{'name':'s'}}}",
     {{"env model-initializer STORAGE_URI", "(none)"},
      {"main model-initializer envFrom",
       "[{'configMapRef':{'name':'m'}},{'secretRef':{'name':'s'}}]"}}},
    {"by its name where it has no label",
     PARTS("",
           PART("model-initializer",
                "",
                CONTAINERS(CONTAINER("model-initializer", ""))) "," TRAINER("")),
     FETCH("model", ""),
     {{"env model-initializer STORAGE_URI", "hf://a"}}},
    {"a part without the container",
     PARTS("", PART("model-initializer", STEP("model-initializer"), NODE("")) "," TRAINER("")),
     FETCH("model", ""),
     {{"message", "spec.initializer.model: the runtime has no replicatedJob and container "
                  "model-initializer"}}},
    {"nobody has the volume: it is made",
     PARTS("", DATA("") "," TRAINER("")),
     FETCH("dataset", ""),
     {{"set spec.volumeClaimPolicies",
       "[{'templates':[{'metadata':{'name':'initializer'},'spec':{'accessModes':['ReadWriteOnce'],"
       "'resources':{'requests':{'storage':'20Gi'}}}}]}]"},
      {"main dataset-initializer volumeMounts", "[" SHARED "]"}}},
    {"both mount it as they like: nothing is added",
     PARTS(
         "",
         DATA(",'volumeMounts':[{'name':'x'},{'name':'initializer','mountPath':'/d'}]") "," TRAINER(
             ",'volumeMounts':[{'name':'initializer','mountPath':'/t'}]")),
     FETCH("dataset", ""),
     {{"set spec.volumeClaimPolicies", ""},
      {"main node volumeMounts", "[{'name':'initializer','mountPath':'/t'}]"}}},
    {"a volume of the pods is one",
     PARTS("",
           DATA(",'volumeMounts':[{'name':'initializer','mountPath':'/d'}]") "," PART(
               "node",
               STEP("trainer"),
               NODE("") ",'volumes':[{'name':'x'},{'name':"
                        "'initializer','emptyDir':{}}]")),
     FETCH("dataset", ""),
     {{"set spec.volumeClaimPolicies", ""}, {"main node volumeMounts", ""}}},
    {"the runtime has the claim, and nobody mounts it",
     RUNTIME("",
             "'volumeClaimPolicies':[{'templates':[{'metadata':{'name':'x'}},{'metadata':{'name'"
             ":'initializer'}}]}],'replicatedJobs':[" DATA("") "," TRAINER("") "]"),
     FETCH("dataset", ""),
     {{"set spec.volumeClaimPolicies",
       "[{'templates':[{'metadata':{'name':'x'}},{'metadata':{'name':'initializer'}}]}]"},
      {"main node volumeMounts", "[" SHARED "]"}}},
    {"the runtime has other claims: one more",
     RUNTIME("",
             "'volumeClaimPolicies':[{'templates':[{'metadata':{'name':'x'}}]}],"
             "'replicatedJobs':[" DATA("") "," TRAINER("") "]"),
     FETCH("dataset", ""),
     {{"set spec.volumeClaimPolicies.1.templates.0.metadata.name", "'initializer'"}}},
    {"nothing is fetched: nothing is shared",
     PARTS("", DATA("") "," TRAINER("")),
     "",
     {{"set spec.volumeClaimPolicies", ""}, {"main node volumeMounts", ""}}},
};

TEST(what_initializers_fetch_lies_on_a_volume_of_all)
{
    check_rows(initializers, COUNT_OF(initializers));
}

/* ---- torch ---- */

#define INJECT(part, names) \
    "'torch':{'envInjection':{'targets':[{'jobName':'" part "','containerNames':[" names "]}]}}"
static const struct row torches[] = {
    {"a port that is declared is not declared again",
     PARTS("'torch':{}", TRAINER(",'ports':[{'containerPort':80},{'containerPort':29500}]")),
     "",
     {{"main node ports", "[{'containerPort':80},{'containerPort':29500}]"}}},
    {"one that is not is",
     PARTS("'torch':{}", TRAINER(",'ports':[{'containerPort':80}]")),
     "",
     {{"main node ports", "[{'containerPort':80},{'containerPort':29500}]"}}},
    {"the name of the set's service",
     RUNTIME("'torch':{}", "'network':{'subdomain':'sub'},'replicatedJobs':[" TRAINER("") "]"),
     "",
     {{"env node PET_MASTER_ADDR", "tj-node-0-0.sub"}, {"env node PET_NODE_RANK", "(from)"}}},
    {"as many processes as a word says: processors",
     PARTS("'torch':{'numProcPerNode':'cpu'}",
           TRAINER(",'resources':{'limits':{'nvidia.com/gpu':2,'cpu':'3'}}")),
     "",
     {{"env node PET_NPROC_PER_NODE", "3"}}},
    {"as many as a word says: GPUs that nobody counts here",
     PARTS("'torch':{'numProcPerNode':'gpu'}", TRAINER("")),
     "",
     {{"env node PET_NPROC_PER_NODE", "gpu"}}},
    {"as many as the GPUs it requests",
     PARTS("'torch':{'numProcPerNode':'auto'}",
           TRAINER(",'resources':{'limits':{'cpu':'9'},'requests':{'amd.com/gpu':'2'}}")),
     "",
     {{"env node PET_NPROC_PER_NODE", "2"}}},
    {"a part of a GPU: torchrun counts",
     PARTS("'torch':{}", TRAINER(",'resources':{'limits':{'x/gpu':'500m'}}")),
     "",
     {{"env node PET_NPROC_PER_NODE", "auto"}}},
    {"a number written as a text",
     PARTS("'torch':{}", TRAINER("")),
     "'trainer':{'numProcPerNode':'4'}",
     {{"env node PET_NPROC_PER_NODE", "4"}}},
    {"elastic: at most",
     PARTS("'numNodes':3,'torch':{'elasticPolicy':{'maxNodes':4,'maxRestarts':7}}", TRAINER("")),
     "",
     {{"env node PET_NNODES", "3:4"},
      {"env node PET_MAX_RESTARTS", "7"},
      {"env node PET_RDZV_BACKEND", "c10d"}}},
    {"elastic: at least, and not more than there are",
     PARTS("'numNodes':3,'torch':{'elasticPolicy':{'minNodes':3}}", TRAINER("")),
     "",
     {{"env node PET_NNODES", "3:3"},
      {"env node PET_MAX_RESTARTS", "(none)"},
      {"part node template.metadata.annotations", ""}}},
    {"containers that are named get the variables, too",
     PARTS(INJECT("dataset-initializer", "'x','dataset-initializer'"), TRAINER("") "," DATA("")),
     "",
     {{"env dataset-initializer PET_MASTER_ADDR", "tj-node-0-0.tj"}}},
    {"others do not",
     PARTS(INJECT("dataset-initializer", "'x'"), TRAINER("") "," DATA("")),
     "",
     {{"env dataset-initializer PET_MASTER_ADDR", "(none)"}}},
    {"init containers are containers",
     PARTS(
         INJECT("node", "'first'"),
         PART("node", STEP("trainer"), NODE("") ",'initContainers':[" CONTAINER("first", "") "]")),
     "",
     {{"pod node initContainers.0.env.0.name", "'PET_NPROC_PER_NODE'"}}},
};

TEST(torch_is_told_where_its_ranks_meet_and_how_many_they_are)
{
    check_rows(torches, COUNT_OF(torches));
}

/* ---- MPI ---- */

#define LAUNCHER(more) PART("launcher", STEP("trainer"), NODE("") more)
#define WORKER(more)   PART("node", "", NODE(more))
#define MPI(more)      "'numNodes':3,'mpi':{" more "}"
#define GPUS(count)    "'trainer':{'resourcesPerNode':{'limits':{'nvidia.com/gpu':" count "}}}"
static const struct row messages[] = {
    {"the hosts, and where they are read",
     PARTS(MPI("'numProcPerNode':2"), LAUNCHER("") "," WORKER("")),
     "",
     {{"map tj-mpi-hostfile data.hostfile",
       "tj-node-0-0.tj slots=2\ntj-node-0-1.tj slots=2\ntj-node-0-2.tj slots=2\n"},
      {"env launcher OMPI_MCA_orte_default_hostfile", "/etc/mpi/hostfile"},
      {"env launcher OMPI_MCA_orte_set_default_slots", "2"},
      {"part launcher template.spec.parallelism", "1"}}},
    {"the launcher is one of them",
     PARTS(MPI("'runLauncherAsNode':true"), LAUNCHER("") "," WORKER("")),
     "",
     {{"map tj-mpi-hostfile data.hostfile",
       "tj-launcher-0-0.tj slots=1\ntj-node-0-0.tj slots=1\ntj-node-0-1.tj slots=1\n"},
      {"part node template.spec.parallelism", "2"},
      {"part node template.spec.completions", "2"}}},
    {"then all of them have what a node has, and a slot for each GPU",
     PARTS(MPI("'runLauncherAsNode':true"), LAUNCHER("") "," WORKER("")),
     GPUS("4"),
     {{"main launcher resources.limits", "{'nvidia.com/gpu':4}"},
      {"main node resources.limits", "{'nvidia.com/gpu':4}"},
      {"env launcher OMPI_MCA_orte_set_default_slots", "4"}}},
    {"one node is the least",
     PARTS("'mpi':{'runLauncherAsNode':true}", LAUNCHER("") "," WORKER("")),
     "",
     {{"part node template.spec.parallelism", "1"}}},
    {"also of none",
     PARTS("'numNodes':0,'mpi':{}", LAUNCHER("") "," WORKER("")),
     "",
     {{"part node template.spec.parallelism", "1"}}},
    {"a number of slots that is said is not raised",
     PARTS(MPI(""), LAUNCHER("") "," WORKER(",'resources':{'limits':{'nvidia.com/gpu':4}}")),
     "'trainer':{'numProcPerNode':3}",
     {{"env launcher OMPI_MCA_orte_set_default_slots", "3"}}},
    {"one is",
     PARTS(MPI(""), LAUNCHER("") "," WORKER(",'resources':{'limits':{'nvidia.com/gpu':4}}")),
     "",
     {{"env launcher OMPI_MCA_orte_set_default_slots", "4"}}},
    {"Intel's has another form",
     PARTS(MPI("'mpiImplementation':'Intel'"), LAUNCHER("") "," WORKER("")),
     "",
     {{"map tj-mpi-hostfile data.hostfile",
       "tj-node-0-0.tj:1\ntj-node-0-1.tj:1\ntj-node-0-2.tj:1\n"},
      {"env launcher I_MPI_HYDRA_HOST_FILE", "/etc/mpi/hostfile"},
      {"env launcher OMPI_MCA_orte_default_hostfile", "(none)"}}},
    {"and MPICH's another name",
     PARTS(MPI("'mpiImplementation':'MPICH'"), LAUNCHER("") "," WORKER("")),
     "",
     {{"env launcher HYDRA_HOST_FILE", "/etc/mpi/hostfile"}}},
    {"keys of root's are root's alone",
     PARTS(MPI(""), LAUNCHER("") "," WORKER("")),
     "",
     {{"pod node volumes.0",
       "{'name':'mpi-ssh-auth','secret':{'secretName':'tj-mpi-ssh-auth','defaultMode':384,'items':["
       "{"
       "'key':'ssh-privatekey','path':'id_rsa'},{'key':'ssh-publickey','path':'id_rsa.pub'},{'key':"
       "'ssh-publickey','path':'authorized_keys'}]}}"},
      {"main node volumeMounts", "[{'name':'mpi-ssh-auth','mountPath':'/root/.ssh'}]"},
      {"main launcher volumeMounts",
       "[{'name':'mpi-ssh-auth','mountPath':'/root/.ssh'},{'name':'mpi-hostfile','mountPath':"
       "'/etc/mpi'}]"}}},
    {"somebody else reads them, too",
     PARTS(MPI("'sshAuthMountPath':'/home/m/.ssh'"),
           LAUNCHER(",'securityContext':{'runAsUser':7}") "," WORKER(
               ",'securityContext':{'runAsUser':7},'volumeMounts':[{'name':'x'}]")),
     "",
     {{"pod launcher volumes.0.secret.defaultMode", "420"},
      {"pod node volumes.0.secret.defaultMode", "420"},
      {"main node volumeMounts.1.mountPath", "'/home/m/.ssh'"}}},
    {"a runtime without nodes",
     PARTS(MPI(""), LAUNCHER("")),
     "",
     {{"message",
       "spec.runtimeRef: an MPI runtime needs the replicatedJobs launcher and node, each "
       "with a container named node"}}},
    {"or without a launcher",
     PARTS(MPI(""), TRAINER("")),
     "",
     {{"message",
       "spec.runtimeRef: an MPI runtime needs the replicatedJobs launcher and node, each "
       "with a container named node"}}},
    {"a launcher whose container has another name",
     PARTS(MPI(""), TRAINER("") "," PART("launcher", "", CONTAINERS(CONTAINER("x", "")))),
     "",
     {{"env launcher OMPI_MCA_orte_default_hostfile", "/etc/mpi/hostfile"}}},
};

TEST(mpi_is_given_hosts_and_keys)
{
    check_rows(messages, COUNT_OF(messages));
}

TEST(an_mpi_trainjob_has_a_secret_of_its_own)
{
    _cleanup_(scene_close) struct scene scene;

    scene_open(&scene);
    scene_put(
        &scene, &kind_clustertrainingruntime,
        "{'metadata':{'name':'rt'},'spec':{" PARTS(MPI(""), LAUNCHER("") "," WORKER("")) "}}");
    scene_put(&scene, &kind_trainjob,
              "{'metadata':{'name':'tj'},'spec':{'runtimeRef':{'name':'rt'}}}");
    scene_run(&scene, &trainjob_controller, "tj");
    const struct json *secret = scene_get(&scene, &kind_secret, "tj-mpi-ssh-auth");
    EXPECT(str_is(json_str(json_get(secret, "type")), "kubernetes.io/ssh-auth"));
    EXPECT(str_is(json_str_at(secret, "metadata.ownerReferences.0.uid"), "u-tj"));
    EXPECT(json_bool_or(json_get(secret, "immutable"), false));
}

/* ---- torchtune ---- */

static const struct {
    const char *why;
    const char *runtime; /* its name */
    const char *trainer;
    const char *command; /* a part of it; "": refused */
} tunes[] = {
    {"quantized on several devices", "torchtune-llama3.2-1b",
     "'numProcPerNode':2,'args':['model.quantize_base=True']",
     "lora_finetune_distributed --config "
     "llama3_2/1B_qlora.yaml"},
    {"quantized, with weights that are split: as low rank", "torchtune-llama3.2-1b",
     "'numProcPerNode':1,'args':['model.quantize_base=True','model.use_dora=True',"
     "'model.lora_attn_modules=[q_proj]']",
     "lora_finetune_single_device --config llama3_2/1B_lora_single_device.yaml"},
    {"a size in other letters", "torchtune-llama3.2-1B", "'numProcPerNode':1",
     "--config llama3_2/1B_full_single_device.yaml"},
    {"no family", "torchtune--1b", "'numProcPerNode':1", ""},
    {"no size", "torchtune-llama3.2-", "'numProcPerNode':1", ""},
    {"only a family", "torchtune-llama3.2", "'numProcPerNode':1", ""},
    {"of somebody else", "mine-llama3.2-1b", "'numProcPerNode':1", ""},
};

TEST(tune_run_is_refused_where_the_runtime_does_not_say_what_to_train)
{
    for (size_t i = 0; i < COUNT_OF(tunes); i++) {
        _cleanup_(scene_close) struct scene scene;

        test_case(tunes[i].why);
        scene_open(&scene);
        scene_put(
            &scene, &kind_clustertrainingruntime,
            str_printf(&scene.arena,
                       "{'metadata':{'name':'%s'},'spec':{" PARTS("'torch':{}", TRAINER("")) "}}",
                       tunes[i].runtime)
                .p);
        scene_put(&scene, &kind_trainjob,
                  str_printf(&scene.arena,
                             "{'metadata':{'name':'tj'},'spec':{'runtimeRef':{'name':'%s'},"
                             "'trainer':{'command':['tune','run'],%s}}}",
                             tunes[i].runtime, tunes[i].trainer)
                      .p);
        scene_run(&scene, &trainjob_controller, "tj");
        const struct json *node =
            json_at(part_named(&scene, STR("node")), "template.spec.template.spec.containers.0");
        EXPECT(!node == !tunes[i].command[0]);
        EXPECT(str_contains(scene_words(&scene, json_get(node, "command")),
                            str_from(tunes[i].command)));
        EXPECT(node || str_contains(look_up(&scene, "message"), STR("torchtune-FAMILY-SIZE")));
    }
}

TEST(a_command_that_is_not_exactly_tune_run_is_left_alone)
{
    static const char *const commands[] = {"'tune'", "'tune','cp'", "'x','run'",
                                           "'tune','run','x'"};

    for (size_t i = 0; i < COUNT_OF(commands); i++) {
        _cleanup_(scene_close) struct scene scene;

        scene_open(&scene);
        scene_put(&scene, &kind_clustertrainingruntime,
                  "{'metadata':{'name':'rt'},'spec':{" PARTS("'torch':{}", TRAINER("")) "}}");
        scene_put(&scene, &kind_trainjob,
                  str_printf(&scene.arena,
                             "{'metadata':{'name':'tj'},'spec':{'runtimeRef':{'name':'rt'},"
                             "'trainer':{'command':[%s]}}}",
                             commands[i])
                      .p);
        scene_run(&scene, &trainjob_controller, "tj");
        EXPECT(str_is(look_up(&scene, "main node command"),
                      str_printf(&scene.arena, "[%s]", commands[i]).p));
        EXPECT(str_is(look_up(&scene, "env node PET_MASTER_ADDR"), "tj-node-0-0.tj"));
    }
}
