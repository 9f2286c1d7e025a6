#include "api/hold.h"
#include "api/kind.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/json.h"
#include "base/str.h"
#include "control/core/controllers.h"
#include "control/core/scene.h"
#include "test.h"

#include <stddef.h>

/* What happens to a TrainJob -> its phase and reason, and its conditions, which are the original's
 * and no others: Kubeflow's clients take a job with a condition for one that does not run. */

#define STEP(name) \
    "'metadata':{'labels':{'trainer.kubeflow.org/trainjob-ancestor-step':'" name "'}},"
#define POD(container) "{'spec':{'containers':[{'name':'" container "','image':'i'}]}}"
#define PART(name, step, container) \
    "{'name':'" name "','template':{" STEP(step) "'spec':{'template':" POD(container) "}}}"
#define RUNTIME(policy, parts)                              \
    "{'metadata':{'name':'rt'},'spec':{'mlPolicy':{" policy \
    "},'template':{'spec':{'replicatedJobs':[" parts "]}}}}"
#define NODE PART("node", "trainer", "node")
#define DATA PART("dataset-initializer", "dataset-initializer", "dataset-initializer")
#define JOB(spec)                                                                                  \
    "{'metadata':{'name':'tj','creationTimestamp':'1970-01-01T00:16:40Z'},'spec':{'runtimeRef':{'" \
    "name':'rt','kind':'ClusterTrainingRuntime'}" spec "}}"
#define PARTS_STATUS(name, ready, succeeded)                      \
    "{'name':'" name "','ready':" ready ",'succeeded':" succeeded \
    ",'failed':0,'active':1,'suspended':0}"
#define STATUS(parts) "{'status':{'replicatedJobsStatus':[" parts "]}}"
#define SET_END(type, reason)                                                       \
    "{'status':{'conditions':[{'type':'" type "','status':'True','reason':'" reason \
    "','message':'m'}]}}"

struct step {
    const struct kind *kind;
    const char *name;
    const char *patch;
};
#define SET(patch)                \
    {                             \
        &kind_jobset, "tj", patch \
    }
#define SELF(patch)                 \
    {                               \
        &kind_trainjob, "tj", patch \
    }

static const struct {
    const char *why;
    const char *runtime;
    const char *job;
    struct step steps[3];
    const char *phase;
    const char *conditions;
    const char *reason;
    int later_s; /* pass before the last look */
} rows[] = {
    {"no runtime: it waits and says for what",
     NULL,
     JOB(""),
     {{0}},
     "Pending",
     "",
     "RuntimeNotFound",
     0},
    {"made: pods are to come", RUNTIME("", NODE), JOB(""), {{0}}, "Pending", "", "PodsNotReady", 0},
    {"pods not ready yet",
     RUNTIME("", NODE),
     JOB(""),
     {SET(STATUS(PARTS_STATUS("node", "0", "0")))},
     "Pending",
     "",
     "PodsNotReady",
     0},
    {"all ready: it runs",
     RUNTIME("", NODE),
     JOB(""),
     {SET(STATUS(PARTS_STATUS("node", "1", "0")))},
     "Running",
     "",
     "PodsReady",
     0},
    {"ran, then not ready: it waits again",
     RUNTIME("", NODE),
     JOB(""),
     {SET(STATUS(PARTS_STATUS("node", "1", "0"))), SET(STATUS(PARTS_STATUS("node", "0", "0")))},
     "Pending",
     "",
     "PodsNotReady",
     0},
    {"restarted: the reason says so",
     RUNTIME("", NODE),
     JOB(""),
     {SET("{'status':{'restarts':1,'replicatedJobsStatus':[]}}")},
     "Pending",
     "",
     "Restarting",
     0},
    {"complete",
     RUNTIME("", NODE),
     JOB(""),
     {SET(SET_END("Completed", "AllJobsCompleted"))},
     "Complete",
     "Complete=True",
     "AllJobsCompleted",
     0},
    {"complete after running",
     RUNTIME("", NODE),
     JOB(""),
     {SET(STATUS(PARTS_STATUS("node", "1", "0"))), SET(SET_END("Completed", "AllJobsCompleted"))},
     "Complete",
     "Complete=True",
     "AllJobsCompleted",
     0},
    {"failed",
     RUNTIME("", NODE),
     JOB(""),
     {SET(SET_END("Failed", "ReachedMaxRestarts"))},
     "Failed",
     "Failed=True",
     "ReachedMaxRestarts",
     0},
    {"what is over stays over",
     RUNTIME("", NODE),
     JOB(""),
     {SET(SET_END("Failed", "FailedJobs")), SET(SET_END("Completed", "AllJobsCompleted"))},
     "Failed",
     "Failed=True",
     "FailedJobs",
     0},
    {"suspended from the start",
     RUNTIME("", NODE),
     JOB(",'suspend':true"),
     {{0}},
     "Suspended",
     "Suspended=True",
     "Suspended",
     0},
    {"resumed",
     RUNTIME("", NODE),
     JOB(",'suspend':true"),
     {SELF("{'spec':{'suspend':false}}")},
     "Pending",
     "Suspended=False",
     "PodsNotReady",
     0},
    {"suspended while running",
     RUNTIME("", NODE),
     JOB(""),
     {SET(STATUS(PARTS_STATUS("node", "1", "0"))), SELF("{'spec':{'suspend':true}}")},
     "Suspended",
     "Suspended=True",
     "Suspended",
     0},
    {"the deadline passes",
     RUNTIME("", NODE),
     JOB(",'activeDeadlineSeconds':5"),
     {{0}},
     "Failed",
     "Failed=True",
     "DeadlineExceeded",
     6},
    {"the deadline does not count while suspended",
     RUNTIME("", NODE),
     JOB(",'activeDeadlineSeconds':5,'suspend':true"),
     {{0}},
     "Suspended",
     "Suspended=True",
     "Suspended",
     6},
    {"an initializer comes first",
     RUNTIME("", DATA "," NODE),
     JOB(",'initializer':{'dataset':{'storageUri':'hf://a'}}"),
     {SET(STATUS(PARTS_STATUS("dataset-initializer", "1", "0")))},
     "Pending",
     "",
     "Initializing",
     0},
    {"the initializer is done, the trainer runs",
     RUNTIME("", DATA "," NODE),
     JOB(""),
     {SET(
         STATUS(PARTS_STATUS("dataset-initializer", "0", "1") "," PARTS_STATUS("node", "1", "0")))},
     "Running",
     "",
     "PodsReady",
     0},
    {"an initializer that the runtime does not have",
     RUNTIME("", NODE),
     JOB(",'initializer':{'model':{}}"),
     {{0}},
     "Pending",
     "",
     "TrainJobResourcesCreationFailed",
     0},
    {"an override of a part that is not there",
     RUNTIME("", NODE),
     JOB(",'podTemplateOverrides':[{'targetJobs':[{'name':'x'}]}]"),
     {{0}},
     "Pending",
     "",
     "TrainJobResourcesCreationFailed",
     0},
    {"Flux, which nobody would set up, is refused in words",
     RUNTIME("'flux':{'numProcPerNode':1}", NODE),
     JOB(""),
     {{0}},
     "Pending",
     "",
     "TrainJobResourcesCreationFailed",
     0},
    {"somebody else's",
     RUNTIME("", NODE),
     JOB(",'managedBy':'kueue.x-k8s.io/multikueue'"),
     {{0}},
     "",
     "",
     "",
     0},
};

TEST(a_trainjob_follows_its_jobset)
{
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(scene_close) struct scene scene;

        test_case(rows[i].why);
        scene_open(&scene);
        if (rows[i].runtime)
            scene_put(&scene, &kind_clustertrainingruntime, rows[i].runtime);
        scene_put(&scene, &kind_trainjob, rows[i].job);
        scene_run(&scene, &trainjob_controller, "tj");
        for (size_t j = 0; j < 3 && rows[i].steps[j].kind; j++) {
            const struct step *step = &rows[i].steps[j];

            scene_patch(&scene, step->kind, step->name, step->patch);
            scene_run(&scene, &trainjob_controller, "tj");
        }
        scene.now_ms += rows[i].later_s * 1000;
        scene_run(&scene, &trainjob_controller, "tj");
        const struct json *status = json_get(scene_get(&scene, &kind_trainjob, "tj"), "status");
        EXPECT(str_is(scene_conditions(&scene, &kind_trainjob, "tj"), rows[i].conditions));
        EXPECT(str_is(json_str(json_get(status, "phase")), rows[i].phase));
        EXPECT(str_is(json_str(json_get(status, "reason")), rows[i].reason));
        EXPECT(!rows[i].reason[0] || str_contains(scene.events, str_from(rows[i].reason)));
    }
}

/* ---- what the trainer is given ---- */

static const struct {
    const char *why;
    const char *policy;
    const char *trainer;
    const char *name;
    const char *value; /* NULL: not set */
} env_rows[] = {
    {"the number of nodes", "'torch':{}", "'numNodes':3", "PET_NNODES", "3"},
    {"the runtime's number of nodes", "'numNodes':2,'torch':{}", "", "PET_NNODES", "2"},
    {"the shorthand's number of nodes", "'torch':{'numNodes':4}", "", "PET_NNODES", "4"},
    {"the first node is the master", "'torch':{}", "", "PET_MASTER_ADDR", "tj-node-0-0.tj"},
    {"one process unless told", "'torch':{}", "", "PET_NPROC_PER_NODE", "1"},
    {"as many as GPUs", "'torch':{}", "'resourcesPerNode':{'limits':{'nvidia.com/gpu':8}}",
     "PET_NPROC_PER_NODE", "8"},
    {"as many as processors", "'torch':{}", "'resourcesPerNode':{'requests':{'cpu':'2500m'}}",
     "PET_NPROC_PER_NODE", "3"},
    {"as many as said", "'torch':{}",
     "'numProcPerNode':2,'resourcesPerNode':{'limits':{'nvidia.com/gpu':8}}", "PET_NPROC_PER_NODE",
     "2"},
    {"as the runtime says", "'torch':{'numProcPerNode':5}", "", "PET_NPROC_PER_NODE", "5"},
    {"elastic: from the fewest to the most",
     "'torch':{'elasticPolicy':{'minNodes':2,'maxNodes':4}}", "", "PET_NNODES", "2:4"},
    {"elastic: a store at the first node", "'torch':{'elasticPolicy':{'minNodes':2}}", "",
     "PET_RDZV_ENDPOINT", "tj-node-0-0.tj:29500"},
    {"elastic: no fixed rank", "'torch':{'elasticPolicy':{'minNodes':2}}", "", "PET_NODE_RANK",
     NULL},
    {"jax: the coordinator", "'jax':{}", "", "JAX_COORDINATOR_ADDRESS", "tj-node-0-0.tj:29500"},
    {"jax: how many", "'jax':{}", "'numNodes':3", "JAX_NUM_PROCESSES", "3"},
    {"xgboost: one worker a GPU", "'xgboost':{}",
     "'numNodes':3,'resourcesPerNode':{'limits':{'nvidia.com/gpu':2}}", "DMLC_NUM_WORKER", "6"},
    {"plain: nothing", "", "", "PET_NNODES", NULL},
    {"the user's own", "'torch':{}", "'env':[{'name':'A','value':'b'}]", "A", "b"},
};

TEST(each_framework_gets_the_environment_it_needs)
{
    for (size_t i = 0; i < COUNT_OF(env_rows); i++) {
        _cleanup_(scene_close) struct scene scene;
        struct str value = STR_NONE;

        test_case(env_rows[i].why);
        scene_open(&scene);
        scene_put(&scene, &kind_clustertrainingruntime,
                  str_printf(&scene.arena, RUNTIME("%s", NODE), env_rows[i].policy).p);
        scene_put(&scene, &kind_trainjob,
                  str_printf(&scene.arena, JOB(",'trainer':{%s}"), env_rows[i].trainer).p);
        scene_run(&scene, &trainjob_controller, "tj");
        JSON_FOREACH(json_at(scene_get(&scene, &kind_jobset, "tj"),
                             "spec.replicatedJobs.0.template.spec.template.spec.containers.0.env"),
                     entry)
            if (str_is(json_str(json_get(entry, "name")), env_rows[i].name))
                value = json_str(json_get(entry, "value"));
        EXPECT(env_rows[i].value ? str_is(value, env_rows[i].value) : !value.len);
    }
}

static const struct {
    const char *why;
    const char *runtime;
    const char *trainer;
    const char *command;
} tune_rows[] = {
    {"one device", "torchtune-llama3.2-1b", "'numProcPerNode':1",
     "tune run full_finetune_single_device --config llama3_2/1B_full_single_device.yaml "
     "output_dir=/out"},
    {"several devices meet at the first node", "torchtune-llama3.2-1b", "'numProcPerNode':2",
     "tune run --rdzv_endpoint=tj-node-0-0.tj:29500 full_finetune_distributed --config "
     "llama3_2/1B_full.yaml output_dir=/out"},
    {"several nodes", "torchtune-llama3.3-70b", "'numNodes':2,'numProcPerNode':1",
     "tune run --rdzv_endpoint=tj-node-0-0.tj:29500 full_finetune_distributed --config "
     "llama3_3/70B_full_multinode.yaml output_dir=/out"},
    {"low rank", "torchtune-qwen2.5-1.5b",
     "'numProcPerNode':1,'args':['model.lora_attn_modules=[q_proj]']",
     "tune run lora_finetune_single_device --config qwen2_5/1.5B_lora_single_device.yaml "
     "output_dir=/out"},
    {"low rank on several devices", "torchtune-qwen2.5-1.5b",
     "'numProcPerNode':2,'args':['model.lora_attn_modules=[q_proj]']",
     "tune run --rdzv_endpoint=tj-node-0-0.tj:29500 lora_finetune_distributed --config "
     "qwen2_5/1.5B_lora.yaml output_dir=/out"},
    {"quantized", "torchtune-llama3.2-1b",
     "'numProcPerNode':1,'args':['model.quantize_base=True','model.use_dora=False']",
     "tune run lora_finetune_single_device --config llama3_2/1B_qlora_single_device.yaml "
     "output_dir=/out"},
    {"quantized, said not to be", "torchtune-llama3.2-1b",
     "'numProcPerNode':1,'args':['model.quantize_base=False']",
     "tune run full_finetune_single_device --config llama3_2/1B_full_single_device.yaml "
     "output_dir=/out"},
    {"a name that says nothing", "tune", "'numProcPerNode':1", NULL},
    {"a name that says too much", "torchtune-llama3.2-1b-more", "'numProcPerNode':1", NULL},
};

TEST(tune_run_is_completed_by_the_name_of_the_runtime)
{
    for (size_t i = 0; i < COUNT_OF(tune_rows); i++) {
        _cleanup_(scene_close) struct scene scene;

        test_case(tune_rows[i].why);
        scene_open(&scene);
        scene_put(&scene, &kind_clustertrainingruntime,
                  str_printf(&scene.arena,
                             "{'metadata':{'name':'%s'},'spec':{'mlPolicy':{'torch':{}},'template':"
                             "{'spec':{'replicatedJobs':[{'name':'node','template':{" STEP(
                                 "trainer") "'spec':{'template':{'spec':{'containers':[{'name':"
                                            "'node','image':'i','command':['tune','run','epochs=9',"
                                            "'output_dir=/out']}]}}}}}]}}}}",
                             tune_rows[i].runtime)
                      .p);
        scene_put(&scene, &kind_trainjob,
                  str_printf(&scene.arena,
                             "{'metadata':{'name':'tj'},'spec':{'runtimeRef':{'name':'%s'},"
                             "'trainer':{'command':['tune','run'],%s}}}",
                             tune_rows[i].runtime, tune_rows[i].trainer)
                      .p);
        scene_run(&scene, &trainjob_controller, "tj");
        const struct json *command =
            json_at(scene_get(&scene, &kind_jobset, "tj"),
                    "spec.replicatedJobs.0.template.spec.template.spec.containers.0.command");
        if (tune_rows[i].command)
            EXPECT(str_is(scene_words(&scene, command), tune_rows[i].command));
        else
            EXPECT(
                command == NULL &&
                str_contains(json_str_at(scene_get(&scene, &kind_trainjob, "tj"), "status.message"),
                             STR("spec.runtimeRef.name")));
    }
}

TEST(what_initializers_fetch_reaches_the_trainer_whatever_the_runtime_says_of_volumes)
{
    _cleanup_(scene_close) struct scene scene;

    scene_open(&scene);
    scene_put(&scene, &kind_clustertrainingruntime, RUNTIME("", DATA "," NODE));
    scene_put(&scene, &kind_trainjob, JOB(",'initializer':{'dataset':{'storageUri':'hf://a'}}"));
    scene_run(&scene, &trainjob_controller, "tj");
    const struct json *spec = json_get(scene_get(&scene, &kind_jobset, "tj"), "spec");
    EXPECT(str_is(json_str_at(spec, "volumeClaimPolicies.0.templates.0.metadata.name"),
                  "initializer"));
    for (size_t i = 0; i < 2; i++)
        EXPECT(str_is(json_str_at(json_index(json_get(spec, "replicatedJobs"), i),
                                  "template.spec.template.spec.containers.0.volumeMounts.0."
                                  "mountPath"),
                      "/workspace"));
}

TEST(a_model_that_is_fetched_reaches_the_trainer_too)
{
    _cleanup_(scene_close) struct scene scene;

    scene_open(&scene);
    scene_put(
        &scene, &kind_clustertrainingruntime,
        RUNTIME("", PART("model-initializer", "model-initializer", "model-initializer") "," NODE));
    scene_put(&scene, &kind_trainjob, JOB(",'initializer':{'model':{'storageUri':'hf://a'}}"));
    scene_run(&scene, &trainjob_controller, "tj");
    const struct json *parts =
        json_at(scene_get(&scene, &kind_jobset, "tj"), "spec.replicatedJobs");
    EXPECT(json_count(parts) == 2);
    JSON_FOREACH(parts, part)
        EXPECT(str_is(json_str_at(part, "template.spec.template.spec.containers.0.volumeMounts.0."
                                        "mountPath"),
                      "/workspace"));
}

TEST(an_elastic_trainjob_begins_with_its_fewest_nodes)
{
    _cleanup_(scene_close) struct scene scene;

    scene_open(&scene);
    scene_put(&scene, &kind_clustertrainingruntime,
              RUNTIME("'torch':{'elasticPolicy':{'minNodes':2,'maxNodes':4}}", NODE));
    scene_put(&scene, &kind_trainjob, JOB(",'trainer':{'numNodes':4}"));
    scene_run(&scene, &trainjob_controller, "tj");
    const struct json *part =
        json_at(scene_get(&scene, &kind_jobset, "tj"), "spec.replicatedJobs.0.template");
    EXPECT(str_is(json_str(json_get(json_at(part, "metadata.annotations"), "torchrun.ai/min-pods")),
                  "2"));
    EXPECT(json_i64_or(json_at(part, "spec.parallelism"), 0) == 4);
}

TEST(what_the_server_says_to_a_jobset_is_the_trainjobs_to_tell)
{
    _cleanup_(scene_close) struct scene scene;

    scene_open(&scene);
    scene_put(&scene, &kind_clustertrainingruntime, RUNTIME("", NODE));
    scene_put(&scene, &kind_trainjob, JOB(""));
    scene.refusal = STR("jobsets \"tj\" is forbidden: exceeded quota");
    scene_run(&scene, &trainjob_controller, "tj");
    const struct json *status = json_get(scene_get(&scene, &kind_trainjob, "tj"), "status");
    EXPECT(str_is(json_str(json_get(status, "reason")), "TrainJobResourcesCreationFailed"));
    EXPECT(str_contains(json_str(json_get(status, "message")), STR("exceeded quota")));
}

TEST(a_trainjob_whose_jobset_is_gone_after_the_end_does_not_run_again)
{
    _cleanup_(scene_close) struct scene scene;

    scene_open(&scene);
    scene_put(&scene, &kind_clustertrainingruntime, RUNTIME("", NODE));
    scene_put(&scene, &kind_trainjob, JOB(""));
    scene_run(&scene, &trainjob_controller, "tj");
    scene_patch(&scene, &kind_jobset, "tj", SET_END("Completed", "AllJobsCompleted"));
    scene_run(&scene, &trainjob_controller, "tj");
    scene_drop(&scene, &kind_jobset, "tj");
    scene_run(&scene, &trainjob_controller, "tj");
    EXPECT(scene_get(&scene, &kind_jobset, "tj") == NULL);
    EXPECT(str_is(scene_conditions(&scene, &kind_trainjob, "tj"), "Complete=True"));
}

TEST(the_shorthand_of_a_runtime_is_one_part_named_node)
{
    _cleanup_(scene_close) struct scene scene;

    scene_open(&scene);
    scene_put(&scene, &kind_clustertrainingruntime,
              "{'metadata':{'name':'rt'},'spec':{'mlPolicy':{'torch':{'numNodes':1}},'template':{"
              "'spec':{'schedulerName':'kai-scheduler','containers':[{'name':'train','image':'i'}]}"
              "}}}");
    scene_put(&scene, &kind_trainjob,
              "{'metadata':{'name':'tj','labels':{'kai.scheduler/queue':'prod'}},'spec':{"
              "'runtimeRef':{'name':'rt'},'trainer':{'numNodes':4,'resourcesPerNode':{'limits':{"
              "'nvidia.com/gpu':1}}}}}");
    scene_run(&scene, &trainjob_controller, "tj");
    const struct json *set = scene_get(&scene, &kind_jobset, "tj");
    const struct json *job = json_at(set, "spec.replicatedJobs.0.template.spec");
    EXPECT(str_is(json_str_at(set, "spec.replicatedJobs.0.name"), "node"));
    EXPECT(json_i64_or(json_get(job, "parallelism"), 0) == 4);
    EXPECT(str_is(json_str_at(job, "template.spec.schedulerName"), "kai-scheduler"));
    EXPECT(str_is(json_str_at(job, "template.spec.containers.0.name"), "node"));
    EXPECT(
        str_is(json_str(json_get(json_at(set, "metadata.labels"), "kai.scheduler/queue")), "prod"));
    EXPECT(
        str_is(json_str(json_get(json_at(job, "template.metadata.labels"), "kai.scheduler/queue")),
               "prod"));
}

TEST(how_long_its_room_is_held_is_the_jobsets_to_tell_its_pods)
{
    _cleanup_(scene_close) struct scene scene;

    scene_open(&scene);
    scene_put(&scene, &kind_clustertrainingruntime, RUNTIME("", NODE));
    scene_put(&scene, &kind_trainjob,
              "{'metadata':{'name':'tj','annotations':{'muster.dev/restart-hold':'3m'}},'spec':{"
              "'runtimeRef':{'name':'rt'}}}");
    scene_run(&scene, &trainjob_controller, "tj");
    const struct json *set = scene_get(&scene, &kind_jobset, "tj");
    const struct json *job = json_at(set, "spec.replicatedJobs.0.template.spec");
    EXPECT(str_is(json_str(json_get(json_at(set, "metadata.annotations"), HOLD_ANNOTATION)), "3m"));
    EXPECT(!json_get(json_at(job, "template.metadata.annotations"), HOLD_ANNOTATION));
}

TEST(whether_it_restarts_in_place_is_the_jobsets_to_know)
{
    _cleanup_(scene_close) struct scene scene;

    scene_open(&scene);
    scene_put(&scene, &kind_clustertrainingruntime, RUNTIME("", NODE));
    scene_put(
        &scene, &kind_trainjob,
        "{'metadata':{'name':'tj','annotations':{'muster.dev/restart-mode':'InPlace'}},'spec':"
        "{'runtimeRef':{'name':'rt'}}}");
    scene_run(&scene, &trainjob_controller, "tj");
    const struct json *set = scene_get(&scene, &kind_jobset, "tj");
    EXPECT(
        str_is(json_str(json_get(json_at(set, "metadata.annotations"), "muster.dev/restart-mode")),
               "InPlace"));
    scene_patch(&scene, &kind_jobset, "tj",
                "{'status':{'restarts':1,'previousInPlaceRestartAttempt':0,'conditions':[{'type':"
                "'RestartingJobSet','status':'True'}]}}");
    scene_run(&scene, &trainjob_controller, "tj");
    const struct json *status = json_get(scene_get(&scene, &kind_trainjob, "tj"), "status");
    EXPECT(str_is(json_str(json_get(status, "reason")), "Restarting"));
    EXPECT(str_is(json_str(json_get(status, "message")),
                  "restart 2: all ranks start again, in place"));
}

TEST(conditions_of_an_earlier_version_go)
{
    _cleanup_(scene_close) struct scene scene;

    scene_open(&scene);
    scene_put(&scene, &kind_clustertrainingruntime, RUNTIME("", NODE));
    scene_put(&scene, &kind_trainjob, JOB(""));
    scene_patch(&scene, &kind_trainjob, "tj",
                "{'status':{'conditions':[{'type':'Pending','status':'False'},{'type':'Running',"
                "'status':'True'}]}}");
    scene_run(&scene, &trainjob_controller, "tj");
    EXPECT(str_is(scene_conditions(&scene, &kind_trainjob, "tj"), ""));
}

static size_t count_words(struct str text, const char *word)
{
    struct str each;
    size_t count = 0;

    while (str_cut(&text, ' ', &each))
        count += str_is(each, word);
    return count;
}

TEST(what_a_trainjob_waits_for_is_told_once_whoever_has_the_crd)
{
    static const char *const kubeflow[] = {"conditions", "jobsStatus", NULL};

    for (int foreign = 0; foreign < 2; foreign++) {
        _cleanup_(scene_close) struct scene scene;

        test_case(foreign ? "Kubeflow's CRD" : "our own");
        scene_open(&scene);
        if (foreign) {
            scene.foreign = &kind_trainjob;
            scene.foreign_status = kubeflow;
        }
        scene_put(&scene, &kind_clustertrainingruntime, RUNTIME("", NODE));
        scene_put(&scene, &kind_trainjob, JOB(""));
        scene_run(&scene, &trainjob_controller, "tj");
        scene_patch(&scene, &kind_jobset, "tj", STATUS(PARTS_STATUS("node", "1", "0")));
        for (int i = 0; i < 3; i++)
            scene_run(&scene, &trainjob_controller, "tj");
        scene_patch(&scene, &kind_jobset, "tj", STATUS(PARTS_STATUS("node", "1", "0")));
        scene_run(&scene, &trainjob_controller, "tj");
        EXPECT(count_words(scene.events, "PodsReady") == 1);
    }
}

TEST(a_patch_of_a_runtime_has_the_moment_it_was_made)
{
    _cleanup_(scene_close) struct scene scene;

    scene_open(&scene);
    scene_put(&scene, &kind_clustertrainingruntime, RUNTIME("", NODE));
    scene_put(&scene, &kind_trainjob,
              JOB(",'runtimePatches':[{'manager':'a.io/b','trainingRuntimeSpec':{}},{'manager':"
                  "'a.io/c','time':'1970-01-01T00:00:01Z','trainingRuntimeSpec':{}}]"));
    scene_run(&scene, &trainjob_controller, "tj");
    const struct json *job = scene_get(&scene, &kind_trainjob, "tj");
    EXPECT(str_is(json_str_at(job, "spec.runtimePatches.0.time"), "1970-01-01T00:16:40Z"));
    EXPECT(str_is(json_str_at(job, "spec.runtimePatches.1.time"), "1970-01-01T00:00:01Z"));
}

#define OWNED_BY(kind, version, name)                                                           \
    "'ownerReferences':[{'kind':'" kind "','apiVersion':'" version "','name':'" name "','uid':" \
    "'u-" name "','controller':true}]"
#define FAILED_POD(name, code, at, message)                                                    \
    "{'metadata':{'name':'" name "'," OWNED_BY(                                                \
        "Job", "batch/v1", "tj-node-0") "},'status':{'phase':'Failed','containerStatuses':[{'" \
                                        "name':'node','state':{'terminated':{"                 \
                                        "'exitCode':" code                                     \
                                        ",'reason':'Error','finishedAt':'1970-01-01T00:17:" at \
                                        "Z','message':'" message "'}}}]}}"

TEST(a_trainjob_that_failed_names_the_pod_that_began)
{
    _cleanup_(scene_close) struct scene scene;

    scene_open(&scene);
    scene_put(&scene, &kind_clustertrainingruntime, RUNTIME("", NODE));
    scene_put(&scene, &kind_trainjob, JOB(""));
    scene_run(&scene, &trainjob_controller, "tj");
    scene_put(&scene, &kind_job,
              "{'metadata':{'name':'tj-node-0'," OWNED_BY("JobSet", "jobset.x-k8s.io/v1alpha2",
                                                          "tj") "}}");
    scene_put(&scene, &kind_pod,
              FAILED_POD("tj-node-0-0-aaaaa", "1", "01", "Connection reset by peer"));
    scene_put(&scene, &kind_pod, FAILED_POD("tj-node-0-1-bbbbb", "3", "09", "ValueError: nan"));
    scene_patch(&scene, &kind_jobset, "tj", SET_END("Failed", "FailedJobs"));
    scene_run(&scene, &trainjob_controller, "tj");
    const struct json *status = json_get(scene_get(&scene, &kind_trainjob, "tj"), "status");
    EXPECT(str_is(json_str(json_get(status, "message")),
                  "m: pod tj-node-0-1-bbbbb ended with exit status 3"));
    EXPECT(str_is(json_str_at(status, "conditions.0.message"), "m"));
    EXPECT(str_contains(scene.event_words, STR("tj-node-0-1-bbbbb")));
}
