#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/json.h"
#include "base/str.h"
#include "control/grouping/grouping.h"
#include "control/grouping/grouping_case_test.h"
#include "test.h"

#include <stddef.h>

/* Kinds whose pods are mostly on their own, and those that have a map of roles. */

#define META                       "'metadata':{'name':'o','uid':'u','namespace':'d'}"
#define OWNER(version, kind, more) "{'apiVersion':'" version "','kind':'" kind "'," META more "}"
#define GROUP(name, more) \
    "{'kind':'PodGroup','metadata':{'name':'" name "','namespace':'d'" more "}}"
#define CLASS(name) "{'kind':'PriorityClass','metadata':{'name':'" name "'}}"

/* ---- pods on their own ---- */

#define JOB     OWNER("batch/v1", "Job", "")
#define CRONJOB OWNER("batch/v1", "CronJob", "")
#define BELONGS(kind, name) \
    "'ownerReferences':[{'apiVersion':'batch/v1','kind':'" kind "','name':'" name "','uid':'ju'}]"
#define AML(count)                           \
    OWNER("amlarc.azureml.com/v1", "AmlJob", \
          ",'spec':{'job':{'options':{'envs':{'AZUREML_NODE_COUNT':" count "}}}}")

TEST(the_pods_of_jobs_and_of_what_makes_jobs)
{
    static const struct grouping_case rows[] = {
        {"a pod whose own group an older version made keeps it",
         {JOB},
         .around = GROUP("pg-p-u", ""),
         .want = "pg-p-u 1"},
        {"another pod of that Job does not",
         {JOB},
         .name = "q",
         .around = GROUP("pg-p-u", ""),
         .want = "pg-o-u 1"},
        {"a group a Job of a CronJob",
         {CRONJOB},
         BELONGS("Job", "j"),
         .around = "{'kind':'Job','metadata':{'name':'j','namespace':'d'}}",
         .want = "pg-j-ju 1 by Job/j"},
        {"its Job is gone",
         {CRONJOB},
         BELONGS("Job", "j"),
         .want = "refused: Job j of the CronJob does not exist"},
        {"something else between them",
         {CRONJOB},
         BELONGS("Workflow", "j"),
         .want = "refused: the pod of CronJob o belongs to no Job"},
        {"pods of a RunaiJob that are named alike",
         {OWNER("run.ai/v1", "RunaiJob", "")},
         .name = "a-b-0",
         .want = "pg-a-b-u 1"},
        {"a pod that is named by nobody",
         {OWNER("run.ai/v1", "RunaiJob", "")},
         .name = "a",
         .want = "pg-a-u 1"},
        {"a name that begins with the dash",
         {OWNER("run.ai/v1", "RunaiJob", "")},
         .name = "-a",
         .want = "pg--a-u 1"},
        {"a RunaiJob that has a group",
         {OWNER("run.ai/v1", "RunaiJob", "")},
         .name = "a-0",
         .around = GROUP("pg-o-u", ""),
         .want = "pg-o-u 1"},
        {"nodes of an AmlJob", {AML("4")}, .want = "pg-o-u 4"},
        {"in words", {AML("'5'")}, .want = "pg-o-u 5"},
        {"in other words", {AML("'some'")}, .want = "pg-o-u 1"},
        {"none", {AML("0")}, .want = "pg-o-u 1"},
        {"a SPOTRequest serves",
         {OWNER("egx.nvidia.io/v1", "SPOTRequest", "")},
         .want = "pg-o-u 1 priority inference"},
        {"a kind of the same name in another group is another kind",
         {OWNER("example.com/v1", "Job", "")},
         .name = "a-0",
         .want = "pg-o-u 1"},
        {"a kind of the core group", {OWNER("v1", "Job", "")}, .want = "pg-o-u 1"},
    };

    grouping_case_check(rows, COUNT_OF(rows), &(struct grouping_input){.legacy_jobs = true});
}

TEST(a_job_that_has_one_group_keeps_it_where_groups_are_those_of_before)
{
    static const struct grouping_case rows[] = {
        {"it has none", {JOB}, .want = "pg-p-u 1"},
        {"it has one", {JOB}, .around = GROUP("pg-o-u", ""), .want = "pg-o-u 1"},
    };

    grouping_case_check(rows, COUNT_OF(rows),
                        &(struct grouping_input){.legacy_jobs = true, .old_groups = true});
}

TEST(groups_of_an_older_version_do_not_count_where_that_is_not_asked_for)
{
    static const struct grouping_case rows[] = {
        {"of a Job", {JOB}, .around = GROUP("pg-p-u", ""), .want = "pg-o-u 1"},
        {"of a RunaiJob",
         {OWNER("run.ai/v1", "RunaiJob", "")},
         .name = "a-0",
         .around = GROUP("pg-o-u", ""),
         .want = "pg-a-u 1"},
    };

    grouping_case_check(rows, COUNT_OF(rows), &(struct grouping_input){0});
}

/* ---- above and below ---- */

TEST(an_owner_that_only_orders_gives_what_the_one_below_does_not_say)
{
    static const struct grouping_case rows[] = {
        {"what it is called and how near its pods are",
         {"{'apiVersion':'trainer.kubeflow.org/v1alpha1','kind':'TrainJob','metadata':{'name':'t',"
          "'uid':'tu','labels':{'priorityClassName':'high'},'annotations':{"
          "'kai.scheduler/topology':'t','kai.scheduler/topology-required-placement':'zone'}}}",
          OWNER("x/v1", "Thing", "")},
         .around = CLASS("high"),
         .want = "pg-o-u 1@t:zone: priority high"},
        {"what the one below says is its own",
         {"{'apiVersion':'argoproj.io/"
          "v1alpha1','kind':'Workflow','metadata':{'name':'t','uid':'tu',"
          "'annotations':{'kai.scheduler/topology':'t',"
          "'kai.scheduler/topology-required-placement':'zone'}}}",
          "{'apiVersion':'x/v1','kind':'Thing','metadata':{'name':'o','uid':'u','annotations':{"
          "'kai.scheduler/topology-required-placement':'rack'}}}"},
         .want = "pg-o-u 1@t:rack:"},
        {"one that orders another that orders",
         {OWNER("nvidia.com/v1alpha1", "DynamoGraphDeployment", ""),
          "{'apiVersion':'run.ai/"
          "v1','kind':'TrainingWorkload','metadata':{'name':'w','uid':'wu'}}"},
         .want = "pg-p-pu 1 by Pod/p"},
        {"a driver of Spark says both that it is one and of what",
         {NULL},
         "'labels':{'spark-app-selector':'s'}",
         .want = "pg-p-pu 1 by Pod/p"},
    };

    grouping_case_check(rows, COUNT_OF(rows), &(struct grouping_input){0});
}

/* ---- Knative ---- */

#define SERVICE   OWNER("serving.knative.dev/v1", "Service", "")
#define OF        "'labels':{'serving.knative.dev/revision':'r'}"
#define ALONE     "pg-p-pu 1 by Pod/p priority inference"
#define INFERENCE " by Revision/r priority inference"
#define REVISION(meta)                                                                       \
    "{'apiVersion':'serving.knative.dev/v1','kind':'Revision','metadata':{'name':'r','uid':" \
    "'ru','namespace':'d'" meta "}}"
#define SCALE(min) REVISION(",'annotations':{'autoscaling.knative.dev/min-scale':'" min "'}")
#define GROUPED(revision, group)                                                \
    "{'kind':'Pod','metadata':{'name':'before','namespace':'d','annotations':{" \
    "'pod-group-name':'" group "'},'labels':{'serving.knative.dev/revision':'" revision "'}}}"
#define BY_POD ",'ownerReferences':[{'kind':'Pod'}]"

TEST(a_revision_of_a_knative_service_is_a_gang)
{
    static const struct grouping_case rows[] = {
        {"with its least scale",
         {SERVICE},
         OF,
         .around = SCALE("3"),
         .want = "pg-r-ru 3" INFERENCE},
        {"one", {SERVICE}, OF, .around = REVISION(""), .want = "pg-r-ru 1" INFERENCE},
        {"also where it may have none",
         {SERVICE},
         OF,
         .around = SCALE("0"),
         .want = "pg-r-ru 1" INFERENCE},
        {"or some", {SERVICE}, OF, .around = SCALE("some"), .want = "pg-r-ru 1" INFERENCE},
        {"its priority",
         {SERVICE},
         OF,
         .around = CLASS("high") "," REVISION(",'labels':{'priorityClassName':'high'}"),
         .want = "pg-r-ru 1 by Revision/r priority high"},
        {"which has to be there",
         {SERVICE},
         OF,
         .around = REVISION(",'labels':{'priorityClassName':'high'}"),
         .want = "pg-r-ru 1" INFERENCE},
        {"the pod's own comes first",
         {SERVICE},
         "'labels':{'serving.knative.dev/revision':'r','priorityClassName':'low'}",
         .around =
             CLASS("high") "," CLASS("low") "," REVISION(",'labels':{'priorityClassName':'high'}"),
         .want = "pg-r-ru 1 by Revision/r priority low"},
        {"it was pod by pod, and stays so",
         {SERVICE},
         OF,
         .around = REVISION("") "," GROUPED("r", "pg") "," GROUP("pg", BY_POD),
         .want = ALONE},
        {"another revision was",
         {SERVICE},
         OF,
         .around = REVISION("") "," GROUPED("s", "pg") "," GROUP("pg", BY_POD),
         .want = "pg-r-ru 1" INFERENCE},
        {"its pods are in a gang, or in none yet",
         {SERVICE},
         OF,
         .around = REVISION("") "," GROUPED("r", "pg") "," GROUPED("r", "") "," GROUP("pg", ""),
         .want = "pg-r-ru 1" INFERENCE},
        {"it is not there",
         {SERVICE},
         OF,
         .want = "refused: Revision \"r\" of the pod does not exist"},
        {"it is not named",
         {SERVICE},
         .around = REVISION(""),
         .want = "refused: Revision \"\" of the pod does not exist"},
    };
    static const struct grouping_case alone[] = {
        {"pod by pod", {SERVICE}, OF, .around = SCALE("3"), .want = ALONE},
    };

    grouping_case_check(rows, COUNT_OF(rows), &(struct grouping_input){.knative_gang = true});
    grouping_case_check(alone, COUNT_OF(alone), &(struct grouping_input){0});
}

/* ---- roles ---- */

#define KUBEFLOW(kind, spec) OWNER("kubeflow.org/v1", kind, ",'spec':{" spec "}")
#define MPI                                                              \
    KUBEFLOW("MPIJob", "'launcherCreationPolicy':'WaitForWorkersReady'," \
                       "'mpiReplicaSpecs':{'Launcher':{},'Worker':{'replicas':2}}")
#define LAUNCHER(job, role, more)                                                                  \
    "{'kind':'Pod','metadata':{'name':'l','namespace':'d','labels':{"                              \
    "'training.kubeflow.org/job-name':'" job "','training.kubeflow.org/job-role':'" role "'}" more \
    "}"

TEST(a_launcher_that_waits_for_the_workers_is_counted_once_it_is_there)
{
    static const struct grouping_case rows[] = {
        {"not there", {MPI}, .want = "pg-o-u 2"},
        {"there", {MPI}, .around = LAUNCHER("o", "launcher", "}"), .want = "pg-o-u 3"},
        {"failed",
         {MPI},
         .around = LAUNCHER("o", "launcher", "},'status':{'phase':'Failed'}"),
         .want = "pg-o-u 2"},
        {"going",
         {MPI},
         .around = LAUNCHER("o", "launcher", ",'deletionTimestamp':'2026-01-01T00:00:00Z'}"),
         .want = "pg-o-u 2"},
        {"another job's", {MPI}, .around = LAUNCHER("x", "launcher", "}"), .want = "pg-o-u 2"},
        {"a worker", {MPI}, .around = LAUNCHER("o", "worker", "}"), .want = "pg-o-u 2"},
    };

    grouping_case_check(rows, COUNT_OF(rows), &(struct grouping_input){0});
}

TEST(a_training_job_that_makes_no_sense_is_refused_with_words)
{
    static const struct grouping_case rows[] = {
        {"no roles", {KUBEFLOW("JAXJob", "")}, .want = "refused: spec.jaxReplicaSpecs is missing"},
        {"a role that it needs",
         {KUBEFLOW("JAXJob", "'jaxReplicaSpecs':{'Master':{}}")},
         .want = "refused: spec.jaxReplicaSpecs has no Worker"},
        {"a PyTorchJob of nothing",
         {KUBEFLOW("PyTorchJob", "'pytorchReplicaSpecs':{'Worker':{'replicas':0}}")},
         .want = "refused: spec.pytorchReplicaSpecs asks for no pod at all"},
        {"a training job of nothing",
         {OWNER("batch.tensorstack.dev/v1beta1", "PyTorchTrainingJob", "")},
         .want = "refused: spec.replicaSpecs asks for no pod at all"},
    };

    grouping_case_check(rows, COUNT_OF(rows), &(struct grouping_input){0});
}

#define MIN(count)          "'runPolicy':{'schedulingPolicy':{'minAvailable':" count "}},"
#define PYTORCH(more, spec) KUBEFLOW("PyTorchJob", more "'pytorchReplicaSpecs':{" spec "}")
#define BY_TWO(count)                                                        \
    "'Worker':{'replicas':" count ",'template':{'metadata':{'annotations':{" \
    "'kai.scheduler/segment-size':'2',"                                      \
    "'kai.scheduler/topology':'t','kai.scheduler/segment-topology-preferred-placement':'rack'}}}}"
#define RANK(type, index)                                   \
    "'labels':{'training.kubeflow.org/replica-type':'" type \
    "','training.kubeflow.org/replica-index':'" index "'}"
#define SIZE(size) "'annotations':{'kai.scheduler/segment-size':'" size "'}"

TEST(the_workers_of_a_pytorch_job_are_a_subgroup_or_segments_of_one)
{
    static const struct grouping_case rows[] = {
        {"a master and workers",
         {PYTORCH("", "'Master':{},'Worker':{'replicas':3}")},
         RANK("master", "0"),
         .want = "pg-o-u 4 master=1 worker=3 -> master"},
        {"a master alone",
         {PYTORCH("", "'Master':{}")},
         RANK("master", "0"),
         .want = "pg-o-u 1 master=1 -> master"},
        {"as few as are enough",
         {PYTORCH(MIN("2") "'elasticPolicy':{'minReplicas':3},", "'Master':{},'Worker':{'replicas':"
                                                                 "3}")},
         RANK("worker", "0"),
         .want = "pg-o-u 2 master=1 worker=1 -> worker"},
        {"fewer than there are masters",
         {PYTORCH(MIN("1"), "'Master':{'replicas':2},'Worker':{}")},
         RANK("worker", "0"),
         .want = "pg-o-u 1 master=2 worker=0 -> worker"},
        {"by two, the last one smaller",
         {PYTORCH("", "'Master':{}," BY_TWO("3"))},
         RANK("worker", "2"),
         .want = "pg-o-u 4 master=1 worker=*2 worker-0=2<worker@t::rack worker-1=1<worker@t::rack"
                 " -> worker-1"},
        {"those that need not start have no minimum",
         {PYTORCH("'elasticPolicy':{'minReplicas':2},", BY_TWO("5"))},
         RANK("worker", "1"),
         .want = "pg-o-u 2 worker=*3 worker-0=2<worker@t::rack worker-1=0<worker@t::rack "
                 "worker-2=0<worker@t::rack -> worker-0"},
        {"one that does not say which it is",
         {PYTORCH("", BY_TWO("2"))},
         .want = "pg-o-u 2 worker=*1 worker-0=2<worker@t::rack"},
        {"nothing to divide",
         {PYTORCH("", "'Master':{}," BY_TWO("0"))},
         RANK("worker", "0"),
         .want = "pg-o-u 1 master=1 worker=0 -> worker"},
        {"the pod says the size",
         {PYTORCH("", "'Worker':{'replicas':2}")},
         SIZE("1") "," RANK("worker", "1"),
         .want = "pg-o-u 2 worker=*2 worker-0=1<worker worker-1=1<worker -> worker-1"},
        {"which is a number",
         {PYTORCH("", "'Worker':{'replicas':2}")},
         SIZE("one"),
         .want = "refused: annotation kai.scheduler/segment-size: \"one\" is not a positive"},
        {"of at least one",
         {PYTORCH("", "'Worker':{'replicas':2}")},
         SIZE("0"),
         .want = "refused: annotation kai.scheduler/segment-size: \"0\" is not a positive"},
        {"a rank below all",
         {PYTORCH("", BY_TWO("2"))},
         RANK("worker", "-1"),
         .want = "refused: label training.kubeflow.org/replica-index: -1 is not"},
        {"too many of them",
         {PYTORCH("", BY_TWO("20001"))},
         RANK("worker", "0"),
         .want = "refused: 10001 segments of 2 pods are greater than"},
    };
    static const struct grouping_case before[] = {
        {"all segments had their size",
         {PYTORCH("'elasticPolicy':{'minReplicas':2},", BY_TWO("3"))},
         RANK("worker", "1"),
         .want = "pg-o-u 2 worker=*2 worker-0=2<worker@t::rack worker-1=1<worker@t::rack -> "
                 "worker-0"},
        {"a minimum did not make up for roles",
         {PYTORCH(MIN("2"), "'Worker':{'replicas':0}")},
         .want = "refused: spec.pytorchReplicaSpecs asks for no pod at all"},
        {"and was taken with them",
         {PYTORCH(MIN("2"), "'Worker':{'replicas':3}")},
         .want = "pg-o-u 2 worker=2"},
    };

    grouping_case_check(rows, COUNT_OF(rows), &(struct grouping_input){0});
    grouping_case_check(before, COUNT_OF(before), &(struct grouping_input){.old_groups = true});
}

#define TENSOR(more)                                             \
    OWNER("batch.tensorstack.dev/v1beta1", "PyTorchTrainingJob", \
          ",'spec':{'replicaSpecs':[{'type':'worker','replicas':4}]" more "}")
#define QUEUED ",'scheduler':{'t9kScheduler':{'queue':'lab','priority':7}}"

TEST(a_training_job_that_can_start_with_fewer_does)
{
    static const struct grouping_case rows[] = {
        {"elastic",
         {TENSOR(",'elastic':{'enabled':true,'minReplicas':2,'maxReplicas':4}")},
         .want = "pg-o-u 2"},
        {"by torchrun",
         {TENSOR(",'torchrunConfig':{'enabled':true,'minNodes':3}")},
         .want = "pg-o-u 3"},
        {"that says no least", {TENSOR(",'torchrunConfig':{'enabled':true}")}, .want = "pg-o-u 4"},
        {"its class",
         {TENSOR(QUEUED)},
         .around = CLASS("tensorstack-7"),
         .want = "pg-o-u 4 priority tensorstack-7 is preemptible"},
        {"which is not there yet", {TENSOR(QUEUED)}, .want = "pg-o-u 4 is preemptible"},
    };

    grouping_case_check(rows, COUNT_OF(rows), &(struct grouping_input){0});
}
