#include "control/kinds/torchrun_pods_test.h"

#include "api/kind.h"
#include "api/launch.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/json.h"
#include "base/str.h"
#include "control/core/controllers.h"
#include "control/core/scene.h"
#include "control/kinds/torchrun.h"
#include "test.h"

#include <stdbool.h>
#include <stddef.h>

#define TEMPLATE(spec)     "'podTemplate':{'spec':{" spec "}}"
#define TRAINER(container) TEMPLATE("'containers':[{'name':'trainer'" container "}]")
#define GPUS(count)        "'nodeResources':{'gpus':" count "}"
/* ---- where they may run ---- */

static const struct row scheduling[] = {
    {"by our scheduler", "", "", {{"pod spec.schedulerName", "'kai-scheduler'"}}},
    {"or by the one that is named",
     "'scheduling':{'scheduler':'mine'}",
     "",
     {{"pod spec.schedulerName", "'mine'"}}},
    {"a priority class",
     "",
     "'scheduling':{'priorityClassName':'high'}",
     {{"pod spec.priorityClassName", "'high'"}}},
    {"a priority class of the template",
     TEMPLATE("'priorityClassName':'high'"),
     "",
     {{"pod spec.priorityClassName", "'high'"}}},
    {"no pod could be made with a class that does not exist: it is left out, and said",
     "",
     "'scheduling':{'priorityClassName':'nope'}",
     {{"pod spec.priorityClassName", ""},
      {"events", "PriorityClass nope does not exist: the job runs with the default priority"}}},
    {"an affinity replaces the template's",
     TEMPLATE("'affinity':{'podAffinity':{}}"),
     "'scheduling':{'affinity':{'nodeAffinity':{}}}",
     {{"pod spec.affinity", "{'nodeAffinity':{}}"}}},
    {"node selectors add up, and the job wins",
     TEMPLATE(
         "'nodeSelector':{'t':'1','a':'1'}") ",'scheduling':{'nodeSelector':{'a':'2','b':'2'}}",
     "'scheduling':{'nodeSelector':{'b':'3'}}",
     {{"pod spec.nodeSelector", "{'t':'1','a':'2','b':'3'}"}}},
    {"tolerations add up",
     TEMPLATE("'tolerations':[{'key':'t'}]") ",'scheduling':{'tolerations':[{'key':'q'}]}",
     "'scheduling':{'tolerations':[{'key':'j'}]}",
     {{"pod spec.tolerations", "[{'key':'t'},{'key':'q'},{'key':'j'}]"}}},
};

#define PRODUCT(name) "'nvidia.com/gpu.product':'" name "'"
#define TYPE(name)    "'numGPUs':1,'nodeResources':{'gpus':1,'gpuType':'" name "'}"
#define REQUIRED      "pod spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"
#define IS_H100                                        \
    "{'key':'nvidia.com/gpu.product','operator':'In'," \
    "'values':['NVIDIA-H100-80GB-HBM3']}"
#define H100_TERM "{'matchExpressions':[" IS_H100 "]}"
#define WANTS(terms)                                                                               \
    TEMPLATE("'affinity':{'nodeAffinity':{'requiredDuringSchedulingIgnoredDuringExecution':" terms \
             "}}")

static const struct {
    const char *nodes[3]; /* labels */
    struct row row;
} types[] = {
    {{"'torchrun.ai/gpu-type':'h100'", PRODUCT("NVIDIA-H100-80GB-HBM3")},
     {"a node has the type as a label",
      "",
      TYPE("h100"),
      {{"pod spec.nodeSelector", "{'torchrun.ai/gpu-type':'h100'}"}, {"pod spec.affinity", ""}}}},
    {{PRODUCT("NVIDIA-H100-80GB-HBM3"), PRODUCT("NVIDIA-A100-SXM4-40GB"),
      PRODUCT("NVIDIA-H100-80GB-HBM3")},
     {"the words of the type stand in a product's name: each product is named once",
      "",
      TYPE("h100-80gb"),
      {{REQUIRED, "{'nodeSelectorTerms':[" H100_TERM "]}"}}}},
    {{PRODUCT("Tesla_V100 SXM2")},
     {"written in any way",
      "",
      TYPE("TESLA-V100-SXM2"),
      {{REQUIRED,
        "{'nodeSelectorTerms':[{'matchExpressions':[{'key':'nvidia.com/gpu.product','operator':'In'"
        ",'values':['Tesla_V100 SXM2']}]}]}"}}}},
    {{PRODUCT("NVIDIA-H100-80GB-HBM3")},
     {"what the template demands of a node stays: each of its alternatives gets it too",
      WANTS("{'nodeSelectorTerms':[{'matchExpressions':[{'key':'a'}]},{'matchFields':[]}]}"),
      TYPE("H100"),
      {{REQUIRED, "{'nodeSelectorTerms':[{'matchExpressions':[{'key':'a'}," IS_H100
                  "]},{'matchFields':[],'matchExpressions':[" IS_H100 "]}]}"}}}},
    {{PRODUCT("NVIDIA-H100-80GB-HBM3")},
     {"no alternatives are one",
      WANTS("{'nodeSelectorTerms':[]}"),
      TYPE("H100"),
      {{REQUIRED, "{'nodeSelectorTerms':[" H100_TERM "]}"}}}},
    {{PRODUCT("NVIDIA-A100-SXM4-40GB"), "'a':'b'"},
     {"no node has it: it is said, and nothing waits for ever",
      "",
      TYPE("b200"),
      {{"pod", ""},
       {"status message", "'no node has GPUs of type \\'b200\\' (label torchrun.ai/gpu-type or "
                          "nvidia.com/gpu.product)'"}}}},
    {{"'torchrun.ai/gpu-type':'a100'"},
     {"a longer name is none of a shorter",
      "",
      TYPE("a100-80gb"),
      {{"pod", ""}, {"status phase", "'Pending'"}}}},
    {{"'a':'b'"},
     {"nodes that say nothing of their GPUs cannot be told apart",
      "",
      TYPE("h100"),
      {{"pod spec.affinity", ""}, {"pod spec.nodeSelector", ""}}}},
    {{PRODUCT("NVIDIA-A100-SXM4-40GB")},
     {"a job without GPUs may run anywhere",
      "",
      "'numGPUs':0,'nodeResources':{'gpuType':'h100'}",
      {{"pod spec.affinity", ""}, {"trainer name", "'trainer'"}}}},
};

/* ---- the trainer ---- */

static const struct row trainers[] = {
    {"an image of its own", "'image':'q'", "'image':'j'", {{"trainer image", "'j'"}}},
    {"the template's image", TRAINER(",'image':'t'"), "", {{"trainer image", "'t'"}}},
    {"somebody must say one", "", "", {{"trainer image", "'" TORCHRUN_IMAGE "'"}}},
    {"a container beside it stays",
     TEMPLATE("'containers':[{'name':'trainer'},{'name':'side','image':'s'}]"),
     "",
     {{"pod spec.containers.1.image", "'s'"}, {"pod spec.containers.1.env", ""}}},
    {"a template without containers is what is around them",
     TEMPLATE("'hostPID':true"),
     "",
     {{"trainer name", "'trainer'"}, {"pod spec.hostPID", "true"}}},
    {"the launcher runs in place of the template's command",
     TRAINER(",'command':['x'],'args':['y']"),
     "",
     {{"trainer command", "['/.muster/muster-launch','worker']"}, {"trainer args", ""}}},
    {"the queue's say",
     "'imagePullPolicy':'Always','imagePullSecrets':[{'name':'s'}],'serviceAccountName':'a',"
     "'networking':{'hostNetwork':true}",
     "",
     {{"trainer imagePullPolicy", "'Always'"},
      {"pod spec.imagePullSecrets", "[{'name':'s'}]"},
      {"pod spec.serviceAccountName", "'a'"},
      {"pod spec.hostNetwork", "true"}}},
    {"security of the container and of the pod are two things",
     "'securityContext':{'privileged':true},'podSecurityContext':{'runAsUser':7}",
     "",
     {{"trainer securityContext", "{'privileged':true}"},
      {"pod spec.securityContext", "{'runAsUser':7}"}}},
    {"what the shell reads is the shell's",
     "",
     "'command':'echo $$ $(date) $x','setupCommand':'echo $$(A)'",
     {{"env MUSTER_COMMAND", "echo $$$ $$(date) $x"}, {"env MUSTER_SETUP", "echo $$$$(A)"}}},
    {"references of the job's own variables stay references",
     "",
     "'env':[{'name':'A','value':'$(B)'}]",
     {{"env A", "$(B)"}}},
    {"the folder of the command", "'workingDir':'/w'", "", {{"env MUSTER_APP_DIR", "/w"}}},
    {"else the workspace's",
     "'workspaceStorage':{'mountPath':'/m'}",
     "",
     {{"env MUSTER_APP_DIR", "/m"}}},
    {"one interface is for all", /* NCCL and Gloo */
     "'networking':{'interface':'eth0'},'distributed':{'backend':'nccl'}",
     "",
     {{"env NCCL_SOCKET_IFNAME", "eth0"},
      {"env GLOO_SOCKET_IFNAME", "eth0"},
      {"env OMPI_MCA_btl_tcp_if_include", "(none)"},
      {"env TORCH_DISTRIBUTED_BACKEND", "nccl"}}},
    {"or each has its own",
     "'networking':{'interface':'eth0','ncclInterface':'ib0','glooInterface':'eth1'},"
     "'distributed':{'backend':'mpi'}",
     "",
     {{"env NCCL_SOCKET_IFNAME", "ib0"},
      {"env GLOO_SOCKET_IFNAME", "eth1"},
      {"env OMPI_MCA_btl_tcp_if_include", "eth0"}}},
    {"nothing is said of interfaces",
     "'distributed':{'backend':'mpi'}",
     "",
     {{"env OMPI_MCA_btl_tcp_if_include", "(none)"}, {"env NCCL_SOCKET_IFNAME", "(none)"}}},
    {"variables of the queue, of the template and of the job: the last one wins",
     "'env':[{'name':'A','value':'q'},{'name':'B','value':'q'}]," TRAINER(
         ",'env':[{'name':'B','value':'t'},{'name':'C','value':'t'}]"),
     "'env':[{'name':'C','value':'j'}]",
     {{"env A", "q"}, {"env B", "t"}, {"env C", "j"}}},
    {"a claim of the queue's by the name in its template",
     "'resources':[{'name':'x','template':{'kind':'Secret','metadata':{'name':'no'}}},{'name':'"
     "data'"
     ",'nameMode':'prefix','template':{'metadata':{'name':'alias'}}}]," TEMPLATE(
         "'volumes':[{'name':'a','persistentVolumeClaim':{'claimName':'alias'}},{'name':'b',"
         "'emptyDir':{}},{'name':'c','persistentVolumeClaim':{'claimName':'own'}}]"),
     "",
     {{"pod spec.volumes.0.persistentVolumeClaim.claimName", "'q-data'"},
      {"pod spec.volumes.1", "{'name':'b','emptyDir':{}}"},
      {"pod spec.volumes.2.persistentVolumeClaim.claimName", "'own'"}}},
    {"volumes and mounts of the job's own",
     "",
     "'volumes':{'additionalVolumes':[{'name':'v','emptyDir':{}}],'additionalMounts':[{'name':'v',"
     "'mountPath':'/v'}]}",
     {{"pod spec.volumes.0.name", "'v'"}, {"trainer volumeMounts.0.mountPath", "'/v'"}}},
    {"labels and annotations of the template and of the job, if they are texts",
     "'podTemplate':{'metadata':{'labels':{'a':'t','b':'t','n':1},'annotations':{'x':'t'}}}",
     "'labels':{'b':'j'},'annotations':{'y':'j'},'jobName':'friendly','jobID':'77'",
     {{"label a", "t"}, {"label b", "j"}, {"label n", "(none)"}, {"annotation y", "j"}}},
    {"what the job is called stands in labels",
     "",
     "'jobName':'friendly','jobID':'77'",
     {{"label torchrun.ai/job-name", "friendly"},
      {"label torchrun.ai/job-id", "77"},
      {"label kai.scheduler/queue", "q"},
      {"env TORCHRUN_JOB_ID", "77"}}},
    {"a name that is longer than a label may be is none",
     "",
     "'jobName':'a123456789b123456789c123456789d123456789e123456789f123456789g123'",
     {{"label torchrun.ai/job-name", "(none)"}, {"label torchrun.ai/job-id", "u-j"}}},
};

/* ---- where ranks meet ---- */

static const struct row meetings[] = {
    {"alone", "", "'numNodes':1", {{"env MUSTER_RDZV_BACKEND", "standalone"}}},
    {"at the port that is said",
     "'distributed':{'port':4000}",
     TWO_PODS,
     {{"env MUSTER_RDZV_BACKEND", "c10d"},
      {"env MUSTER_RDZV_ENDPOINT", "j-worker-0.j:4000"},
      {"env MUSTER_RDZV_HOSTED", "(none)"}}},
    {"at a place of others",
     "'distributed':{'rdzvBackend':'c10d','rdzvEndpoint':'store:99'}",
     TWO_PODS,
     {{"env MUSTER_RDZV_ENDPOINT", "store:99"}, {"env MUSTER_RDZV_GIVEN", "1"}}},
    {"an etcd is no place for c10d: such an endpoint is the default of queues",
     "'distributed':{'rdzvBackend':'static','port':4000,'rdzvEndpoint':"
     "'etcd.etcd-system.svc.cluster.local:2379'}",
     TWO_PODS,
     {{"env MUSTER_RDZV_BACKEND", "static"},
      {"env MUSTER_RDZV_ENDPOINT", "j-worker-0.j:4000"},
      {"env MUSTER_RDZV_GIVEN", "(none)"}}},
    {"an etcd of others",
     "'distributed':{'rdzvBackend':'etcd-v2','rdzvEndpoint':'e:2379'}",
     TWO_PODS,
     {{"env MUSTER_RDZV_ENDPOINT", "e:2379"},
      {"env MUSTER_RDZV_GIVEN", "1"},
      {"sync metadata.name", ""}}},
    {"an etcd of the job's own is in the sync pod",
     "'distributed':{'rdzvBackend':'etcd-v2'}",
     TWO_PODS,
     {{"env MUSTER_RDZV_ENDPOINT", "j-sync-0.j:7077"}, {"sync metadata.name", "'j-sync-0'"}}},
    {"spares need a store that is nobody's of them",
     "",
     TWO_PODS ",'reliability':{'spares':1}",
     {{"env MUSTER_RDZV_ENDPOINT", "j-sync-0.j:7078"}, {"env MUSTER_RDZV_HOSTED", "1"}}},
    {"a workspace is served by the sync pod, so that it has the store, too",
     "'workspaceStorage':{'source':'git','url':'http://x','image':'i','imagePullPolicy':'Never'}",
     TWO_PODS,
     {{"env MUSTER_SYNC_URL", "http://j-sync-0.j:7077"},
      {"env MUSTER_RDZV_ENDPOINT", "j-sync-0.j:7078"},
      {"syncenv MUSTER_SOURCE", "git"},
      {"syncenv MUSTER_SOURCE_URL", "http://x"}}},
    {"its image",
     "'workspaceStorage':{'url':'http://x','image':'i','imagePullPolicy':'Never'}",
     "",
     {{"sync spec.containers.0.image", "'i'"},
      {"sync spec.containers.0.imagePullPolicy", "'Never'"}}},
    {"else it has the trainer's",
     "'image':'t','workspaceStorage':{'source':'existing'},'scheduling':{'tolerations':[{'key':'a'}"
     "]"
     "}",
     "",
     {{"sync spec.containers.0.image", "'t'"},
      {"sync spec.containers.0.imagePullPolicy", ""},
      {"sync spec.tolerations", "[{'key':'a'}]"},
      {"syncenv MUSTER_SOURCE_URL", "(none)"}}},
};

/* ---- how large they are ---- */

static const struct row sizes[] = {
    {"a share of the node for a share of its GPUs",
     "'nodeResources':{'gpus':8,'cpus':'64','memory':'512Gi'}",
     "'numGPUs':2",
     {{"trainer resources.requests", "{'nvidia.com/gpu':'2','cpu':'16','memory':'128Gi'}"},
      {"trainer resources.limits", "{'nvidia.com/gpu':'2','memory':'128Gi'}"},
      {"env MUSTER_NPROC", "2"}}},
    {"a limit that the template has is its own",
     "'nodeResources':{'gpus':1,'memory':'4Gi'}," TRAINER(
         ",'resources':{'limits':{'memory':'9Gi'}}"),
     "'numGPUs':1",
     {{"trainer resources.limits.memory", "'9Gi'"},
      {"trainer resources.requests.memory", "'4Gi'"}}},
    {"a queue without GPUs: all of a node",
     "'nodeResources':{'gpus':0,'cpus':4,'memory':'8Gi'}",
     TWO_PODS,
     {{"trainer resources.requests", "{'cpu':'4','memory':'8Gi'}"},
      {"env MUSTER_NPROC", "1"},
      {"status distribution", "'2x0'"}}},
    {"ranks of a pod", GPUS("4"), "'numGPUs':4,'nprocPerNode':3", {{"env MUSTER_NPROC", "3"}}},
    {"the trainer of the template says what a node is",
     TRAINER(",'resources':{'limits':{'nvidia.com/gpu':4,'cpu':'1'}}"),
     "'numGPUs':8",
     {{"status distribution", "'2x4'"},
      {"trainer resources", "{'limits':{'nvidia.com/gpu':4,'cpu':'1'}}"}}},
    {"or what it requests",
     TRAINER(",'resources':{'requests':{'nvidia.com/gpu':'2'}}"),
     "'numNodes':3",
     {{"status distribution", "'3x2'"}, {"status numGPUs", "6"}}},
    {"a trainer without GPUs says nothing of nodes",
     TRAINER(",'resources':{'requests':{'cpu':'2'}}"),
     "'numGPUs':8",
     {{"status distribution", "'2x4'"}, {"trainer resources.requests.cpu", "'2'"}}},
    {"nobody says: a node is the largest there is", "", "'numGPUs':6", {{"status numNodes", "2"}}},
    {"as even as possible", GPUS("6"), "'numGPUs':16", {{"status distribution", "'6+2x5'"}}},
    {"GPUs over so many pods",
     GPUS("8"),
     "'numGPUs':5,'numNodes':2",
     {{"status distribution", "'3+2'"}}},
    {"neither GPUs nor nodes: one pod without", GPUS("8"), "", {{"status distribution", "'0'"}}},
    {"more pods than a job may have",
     GPUS("1"),
     "'numNodes':5000",
     {{"status message", "'the job would have 5000 pods; the limit is 4096'"}, {"pod", ""}}},
    {"and by its GPUs",
     GPUS("1"),
     "'numGPUs':5000",
     {{"status message", "'the job would have 5000 pods; the limit is 4096'"}, {"pod", ""}}},
    {"shared memory for each GPU",
     GPUS("2") ",'storage':{'shmSizePerGPU':'1Gi'}",
     "'numGPUs':2",
     {{"pod spec.volumes.1", "{'name':'dshm','emptyDir':{'medium':'Memory','sizeLimit':'2Gi'}}"},
      {"trainer volumeMounts.1", "{'name':'dshm','mountPath':'/dev/shm'}"}}},
    {"or once, without GPUs",
     "'storage':{'shmSizePerGPU':'1Gi'}",
     "",
     {{"pod spec.volumes.1.emptyDir.sizeLimit", "'1Gi'"}}},
    {"elastic: whole nodes",
     GPUS("4"),
     "'elastic':{'minNodes':1,'maxNodes':3}",
     {{"env MUSTER_NNODES", "1:3"}, {"status distribution", "'3x4'"}}},
    {"elastic: at least, and as many as there are nodes",
     GPUS("4"),
     "'minNodes':2,'numNodes':3",
     {{"env MUSTER_NNODES", "2:3"}}},
    {"elastic: at least, and no more", GPUS("4"), "'minNodes':2", {{"env MUSTER_NNODES", "2:2"}}},
    {"elastic: at most", GPUS("4"), "'maxNodes':2", {{"env MUSTER_NNODES", "1:2"}}},
    {"elastic: less than at least",
     GPUS("4"),
     "'minNodes':3,'maxNodes':2",
     {{"status message", "'elastic: maxNodes (2) must be at least minNodes (3) and at most 4096'"},
      {"pod", ""}}},
    {"elastic: too many",
     GPUS("4"),
     "'maxNodes':5000",
     {{"status message",
       "'elastic: maxNodes (5000) must be at least minNodes (1) and at most 4096'"}}},
};

/* ---- what they write to ---- */

static const struct row volumes[] = {
    {"data of the queue outlives the job, and is not written to",
     GPUS("2") ",'storage':{'datasets':{'enabled':true,'size':'5Gi'}}",
     "'numGPUs':2",
     {{"claim q-datasets spec",
       "{'accessModes':['ReadWriteMany'],'resources':{'requests':{'storage':'5Gi'}}}"},
      {"claim q-datasets metadata.ownerReferences", ""},
      {"env DATASET_DIR", "/datasets"},
      {"trainer volumeMounts.1", "{'name':'datasets','mountPath':'/datasets','readOnly':true}"}}},
    {"checkpoints grow with the job, and go with it if they are to",
     GPUS("2") ",'storage':{'checkpoints':{'enabled':true,'sizePerGPU':'5Gi','persist':false,"
               "'mountPath':'/c','storageClass':'fast','accessModes':['ReadWriteOnce']}}",
     "'numGPUs':4",
     {{"claim j-checkpoints spec",
       "{'accessModes':['ReadWriteOnce'],'storageClassName':'fast','resources':{'requests':{"
       "'storage':'20Gi'}}}"},
      {"claim j-checkpoints metadata.ownerReferences.0.name", "'j'"},
      {"env CHECKPOINT_DIR", "/c"},
      {"env MUSTER_FENCE", "/c/.muster-u-j"},
      {"trainer volumeMounts.1", "{'name':'checkpoints','mountPath':'/c'}"}}},
    {"without GPUs once",
     "'storage':{'checkpoints':{'enabled':true,'sizePerGPU':'5Gi'}}",
     "",
     {{"claim q-checkpoints spec.resources.requests.storage", "'5Gi'"}}},
    {"what the jobs of a queue share is the queue's, and no job's",
     "'storage':{'checkpoints':{'enabled':true}}",
     "",
     {{"claim q-checkpoints metadata.labels",
       "{'torchrun.ai/jobqueue':'q','torchrun.ai/type':'checkpoints'}"}}},
    {"a claim that is there is mounted as it is",
     "'storage':{'datasets':{'existingClaim':'mine'}}",
     "",
     {{"pod spec.volumes.1.persistentVolumeClaim.claimName", "'mine'"},
      {"claim q-datasets metadata", ""}}},
    {"unless it is switched off",
     "'storage':{'datasets':{'existingClaim':'mine','enabled':false}}",
     "",
     {{"pod spec.volumes.1", ""}, {"env DATASET_DIR", "(none)"}}},
    {"the workspace, as large and of the class that is said",
     "'workspaceStorage':{'size':'3Gi','storageClass':'fast','source':'existing'}",
     "",
     {{"claim j-workspace spec",
       "{'accessModes':['ReadWriteOnce'],'storageClassName':'fast','resources':{'requests':{"
       "'storage':'3Gi'}}}"},
      {"sync spec.volumes.0.persistentVolumeClaim.claimName", "'j-workspace'"},
      {"pod spec.volumes.0", "{'name':'workspace','emptyDir':{}}"}}},
    {"nothing is said of its size",
     "'storage':{'workspace':{'enabled':true}}",
     "",
     {{"claim j-workspace spec.resources.requests.storage", "'1Gi'"}}},
    {"a workspace in a claim that is there",
     "'storage':{'workspace':{'existingClaim':'mine'}},'workspaceStorage':{'source':'existing'}",
     "",
     {{"sync spec.volumes.0.persistentVolumeClaim.claimName", "'mine'"},
      {"claim j-workspace metadata", ""}}},
    {"a store of the rendezvous alone needs no claim",
     "'distributed':{'rdzvBackend':'etcd-v2'}",
     TWO_PODS,
     {{"sync spec.volumes.0", "{'name':'workspace','emptyDir':{}}"},
      {"claim j-workspace metadata", ""}}},
};

/* ---- a row is played ---- */

static struct str single_quoted(struct scene *scene, const struct json *value)
{
    char *text = str_c(&scene->arena, json_text(&scene->arena, value));

    for (char *c = text; *c; c++)
        *c = *c == '"' ? '\'' : *c;
    return str_from(text);
}

static struct str env_of(const struct json *container, struct str name)
{
    struct str value = STR("(none)");

    JSON_FOREACH(json_get(container, "env"), entry)
        if (str_eq(json_str(json_get(entry, "name")), name))
            value = json_str(json_get(entry, "value"));
    return value;
}

static struct str note_of(const struct json *notes, struct str name)
{
    const struct json *value = json_get_str(notes, name);

    return value ? json_str(value) : STR("(none)");
}

struct str row_look_up(struct scene *scene, const char *what)
{
    const struct json *pod = scene_get(scene, &kind_pod, "j-worker-0");
    const struct json *sync = scene_get(scene, &kind_pod, "j-sync-0");
    const struct json *trainer = json_at(pod, "spec.containers.0");
    struct str path = str_from(what);
    struct str which = STR_NONE;
    const struct json *root = NULL;

    (void)str_cut(&path, ' ', &which);
    if (str_is(which, "env"))
        return env_of(trainer, path);
    if (str_is(which, "syncenv"))
        return env_of(json_at(sync, "spec.containers.0"), path);
    if (str_is(which, "label"))
        return note_of(json_at(pod, "metadata.labels"), path);
    if (str_is(which, "annotation"))
        return note_of(json_at(pod, "metadata.annotations"), path);
    if (str_is(which, "claim")) {
        struct str name = STR_NONE;

        (void)str_cut(&path, ' ', &name);
        root = scene_get(scene, &kind_pvc, str_c(&scene->arena, name));
    } else {
        root = str_is(which, "trainer") ? trainer
               : str_is(which, "sync")  ? sync
               : str_is(which, "status")
                   ? json_get(scene_get(scene, &kind_torchrunjob, "j"), "status")
                   : pod;
    }
    const struct json *value = path.len ? json_at(root, str_c(&scene->arena, path)) : root;
    return value ? single_quoted(scene, value) : STR("");
}

static void open_row(struct scene *scene, const struct row *row)
{
    scene_put(scene, &kind_storageclass,
              "{'metadata':{'name':'local','annotations':{'storageclass.kubernetes.io/"
              "is-default-class':'true'}}}");
    scene_put(scene, &kind_storageclass, "{'metadata':{'name':'fast'}}");
    scene_put(scene, &kind_priorityclass, "{'metadata':{'name':'high'},'value':5}");
    scene_put(scene, &kind_pvc, "{'metadata':{'name':'mine'},'status':{'phase':'Bound'}}");
    scene_put(scene, &kind_torchrunqueue,
              str_printf(&scene->arena, "{'metadata':{'name':'q'},'spec':{%s}}", row->queue).p);
    scene_put(scene, &kind_torchrunjob,
              str_printf(&scene->arena,
                         "{'metadata':{'name':'j'},'spec':{'jobQueue':'q','command':'x'%s%s}}",
                         row->job[0] ? "," : "", row->job)
                  .p);
    scene_run(scene, &torchrun_job_controller, "j");
    if (!scene_get(scene, &kind_pod, "j-sync-0"))
        return;
    scene_patch(scene, &kind_pod, "j-sync-0", "{'status':{'phase':'Running'}}");
    scene_run(scene, &torchrun_job_controller, "j");
}

static void check_facts(struct scene *scene, const struct row *row)
{
    for (size_t i = 0; i < COUNT_OF(row->facts) && row->facts[i].what; i++) {
        const char *is = row->facts[i].is;

        if (str_is(str_from(row->facts[i].what), "events"))
            EXPECT(str_contains(scene->event_words, str_from(is)));
        else if (!str_is(row_look_up(scene, row->facts[i].what), is))
            test_fail(__FILE__, __LINE__,
                      str_printf(&scene->arena, "%s is " STR_FMT ", not %s", row->facts[i].what,
                                 STR_ARG(row_look_up(scene, row->facts[i].what)), is)
                          .p);
    }
}

void row_check(struct scene *scene, const struct row *row)
{
    test_case(row->why);
    open_row(scene, row);
    check_facts(scene, row);
}

static void check_rows(const struct row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        _cleanup_(scene_close) struct scene scene;

        scene_open(&scene);
        scene_put(&scene, &kind_node,
                  "{'metadata':{'name':'small'},'status':{'allocatable':{'nvidia.com/gpu':'2'}}}");
        scene_put(&scene, &kind_node,
                  "{'metadata':{'name':'large'},'status':{'allocatable':{'nvidia.com/gpu':'4'}}}");
        scene_put(&scene, &kind_node, "{'metadata':{'name':'none'}}");
        row_check(&scene, &rows[i]);
    }
}

TEST(a_worker_runs_where_its_queue_and_its_job_allow_it)
{
    check_rows(scheduling, COUNT_OF(scheduling));
}

TEST(a_type_of_gpu_is_found_by_what_nodes_say_of_theirs)
{
    for (size_t i = 0; i < COUNT_OF(types); i++) {
        _cleanup_(scene_close) struct scene scene;

        scene_open(&scene);
        for (size_t n = 0; n < COUNT_OF(types[i].nodes) && types[i].nodes[n]; n++)
            scene_put(&scene, &kind_node,
                      str_printf(&scene.arena, "{'metadata':{'name':'n%zu','labels':{%s}}}", n,
                                 types[i].nodes[n])
                          .p);
        row_check(&scene, &types[i].row);
    }
}

TEST(a_trainer_is_what_template_queue_and_job_make_of_it)
{
    check_rows(trainers, COUNT_OF(trainers));
}

TEST(ranks_meet_where_the_job_or_its_queue_says)
{
    check_rows(meetings, COUNT_OF(meetings));
}

TEST(a_job_is_as_large_as_its_gpus_or_its_nodes)
{
    check_rows(sizes, COUNT_OF(sizes));
}

TEST(a_job_has_the_volumes_that_its_queue_describes)
{
    check_rows(volumes, COUNT_OF(volumes));
}

TEST(the_first_pod_of_a_job_keeps_its_results_where_they_are_kept)
{
    static const struct row row = {"",
                                   "'workspaceStorage':{'source':'existing'}",
                                   TWO_PODS,
                                   {{"env MUSTER_KEEP_RESULTS", "1"}}};
    _cleanup_(scene_close) struct scene scene;

    scene_open(&scene);
    scene.config.results_ms = 60000;
    row_check(&scene, &row);
    const struct json *second = scene_get(&scene, &kind_pod, "j-worker-1");
    EXPECT(
        str_is(env_of(json_at(second, "spec.containers.0"), STR("MUSTER_KEEP_RESULTS")), "(none)"));
    EXPECT(str_is(env_of(json_at(second, "spec.containers.0"), STR("MUSTER_NODE_RANK")), "1"));
}

#define RANKS_PATH "/api/v1/namespaces/n/pods/j-worker-0/ranks"

TEST(pods_of_a_cluster_can_tell_of_their_ranks_unless_they_are_left_alone)
{
    static const struct {
        struct row row;
        const char *url;
        bool told;
    } rows[] = {
        {{"an address and a token that is for it alone",
          "",
          TWO_PODS,
          {{"env MUSTER_RANKS_URL", "https://here" RANKS_PATH},
           {"env MUSTER_RANKS_CA", "pem"},
           {"pod spec.volumes.1",
            "{'name':'muster-ranks-token','projected':{'sources':[{'serviceAccountToken':"
            "{'audience':'v1/namespaces/n/pods/j-worker-0/ranks','expirationSeconds':3600,"
            "'path':'token'}}]}}"},
           {"pod spec.containers.0.volumeMounts.1",
            "{'name':'muster-ranks-token','mountPath':'/var/run/secrets/muster.dev/ranks',"
            "'readOnly':true}"}}},
         "https://here",
         true},
        {{"a node agent looks at them",
          "",
          TWO_PODS,
          {{"env MUSTER_RANKS_URL", "(none)"}, {"pod spec.volumes.1", ""}}},
         "https://here",
         false},
        {{"nobody listens",
          "",
          TWO_PODS,
          {{"env MUSTER_RANKS_URL", "(none)"}, {"pod spec.volumes.1", ""}}},
         "",
         true},
        {{"its processes are to be left alone",
          "'podTemplate':{'metadata':{'annotations':{'muster.dev/observe':'off'}},"
          "'spec':{'containers':[{'name':'trainer'}]}}",
          TWO_PODS,
          {{"env MUSTER_RANKS_URL", "(none)"}, {"pod spec.volumes.1", ""}}},
         "https://here",
         true},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(scene_close) struct scene scene;

        scene_open(&scene);
        scene.config.trainer_url = str_from(rows[i].url);
        scene.config.trainer_ca = STR("pem");
        scene.config.ranks_told = rows[i].told;
        row_check(&scene, &rows[i].row);
    }
}

/* A kubelet gives a container 64 MiB of /dev/shm: data loaders die of SIGBUS. */
TEST(where_a_kubelet_runs_the_pods_shared_memory_has_no_limit_of_its_own)
{
    static const struct row rows[] = {
        {"as much as the pod has memory",
         "",
         "'numGPUs':2",
         {{"pod spec.volumes.1", "{'name':'dshm','emptyDir':{'medium':'Memory'}}"},
          {"trainer volumeMounts.1", "{'name':'dshm','mountPath':'/dev/shm'}"}}},
        {"unless the queue says so",
         "'storage':{'shmSizePerGPU':'1Gi'}",
         "",
         {{"pod spec.volumes.1.emptyDir.sizeLimit", "'1Gi'"}}},
        {"or the template has its own",
         TRAINER(",'volumeMounts':[{'name':'mine','mountPath':'/dev/shm'}]"),
         "",
         {{"trainer volumeMounts.0.name", "'mine'"}, {"pod spec.volumes.1", ""}}},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(scene_close) struct scene scene;

        scene_open(&scene);
        scene.config.kubelets = true;
        row_check(&scene, &rows[i]);
    }
}

TEST(a_template_that_makes_no_pod_is_said_to_be_wrong)
{
    static const struct {
        const char *why;
        const char *queue;
        const char *message;
    } rows[] = {
        {"not a list", TEMPLATE("'containers':'x'"), "must be a list with a container"},
        {"an empty list", TEMPLATE("'containers':[]"), "must be a list with a container"},
        {"two trainers", TEMPLATE("'containers':[{'name':'trainer'},{'name':'trainer'}]"),
         "has more than one container named trainer"},
        {"another one first", TEMPLATE("'containers':[{'name':'x'},{'name':'trainer'}]"),
         "the first container is named \"x\""},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const struct row row = {rows[i].why, rows[i].queue, "", {{"pod", ""}}};
        _cleanup_(scene_close) struct scene scene;

        scene_open(&scene);
        row_check(&scene, &row);
        EXPECT(
            str_contains(json_str_at(scene_get(&scene, &kind_torchrunjob, "j"), "status.message"),
                         str_from(rows[i].message)));
    }
}

TEST(ranks_meet_by_c10d_where_the_image_has_no_python_etcd)
{
    static const struct row row = {"",
                                   "'distributed':{'rdzvBackend':'etcd-v2','port':4000}",
                                   TWO_PODS,
                                   {{"env MUSTER_RDZV_BACKEND", "etcd-v2"}}};
    static const struct row after = {"",
                                     "",
                                     "",
                                     {{"env MUSTER_RDZV_BACKEND", "c10d"},
                                      {"env MUSTER_RDZV_ENDPOINT", "j-sync-0.j:7078"},
                                      {"env MUSTER_RDZV_HOSTED", "1"},
                                      {"status restarts", "0"}}};
    _cleanup_(scene_close) struct scene scene;

    scene_open(&scene);
    row_check(&scene, &row);
    scene_patch(&scene, &kind_pod, "j-worker-1",
                "{'status':{'phase':'Failed','containerStatuses':[{'name':'trainer','state':{"
                "'terminated':{'exitCode':126,'message':'rdzvBackend etcd-v2 " LAUNCH_NO_ETCD
                ", which python does not have'}}}]}}");
    scene_run(&scene, &torchrun_job_controller, "j");
    EXPECT(str_contains(scene.event_words, STR("the ranks meet by c10d instead")));
    check_facts(&scene, &after);
    static const char *const pods[] = {"j-worker-0", "j-worker-1"};
    for (size_t i = 0; i < COUNT_OF(pods); i++)
        scene_patch(&scene, &kind_pod, pods[i], "{'status':{'phase':'Running'}}");
    scene_run(&scene, &torchrun_job_controller, "j");
    EXPECT(str_contains(json_str_at(scene_get(&scene, &kind_torchrunjob, "j"), "status.message"),
                        STR("they meet by c10d")));
}
