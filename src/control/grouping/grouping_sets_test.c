#include "base/count.h"
#include "control/grouping/grouping.h"
#include "control/grouping/grouping_case_test.h"
#include "test.h"

#include <stddef.h>

/* JobSet, LeaderWorkerSet, Ray and Grove: owners that hold sets of pods. */

#define META         "'metadata':{'name':'o','uid':'u','namespace':'d'}"
#define NOTED(notes) "'metadata':{'name':'o','uid':'u','namespace':'d','annotations':{" notes "}}"

/* ---- JobSet ---- */

#define JOBSET(meta, spec) \
    "{'apiVersion':'jobset.x-k8s.io/v1alpha2','kind':'JobSet'," meta ",'spec':{" spec "}}"
#define SETS(a, b) "'replicatedJobs':[{'name':'a'" a "},{'name':'b'" b "}]"
#define OF(set, index)                                        \
    "'labels':{'jobset.sigs.k8s.io/replicatedjob-name':'" set \
    "','jobset.sigs.k8s.io/job-index':'" index "'}"
#define PARALLEL(notes, spec) \
    ",'template':{'metadata':{'annotations':{" notes "}},'spec':{" spec "}}"
#define ORDER(order) ",'startupPolicy':{'startupPolicyOrder':'" order "'}"
#define OLD(name, spec) \
    "{'kind':'PodGroup','metadata':{'name':'" name "','namespace':'d'},'spec':{" spec "}}"

#define A1_B1 " a=*1 a-replica-0=1<a b=*1 b-replica-0=1<b -> a-replica-0"

TEST(the_sets_of_a_jobset_and_their_jobs_are_subgroups)
{
    static const struct grouping_case rows[] = {
        {"no order is any order",
         {JOBSET(META, SETS("", ""))},
         OF("a", "0"),
         .want = "pg-o-u *2" A1_B1},
        {"any order",
         {JOBSET(META, SETS("", "") ORDER("AnyOrder"))},
         OF("a", "0"),
         .want = "pg-o-u *2" A1_B1},
        {"one after the other: the first is enough",
         {JOBSET(META, SETS("", "") ORDER("InOrder"))},
         OF("a", "0"),
         .want = "pg-o-u *1" A1_B1},
        {"so it is where one depends on another",
         {JOBSET(META, SETS("", ",'dependsOn':[{'name':'a'}]"))},
         OF("a", "0"),
         .want = "pg-o-u *1" A1_B1},
        {"the first may depend on the second",
         {JOBSET(META, SETS(",'dependsOn':[{'name':'b'}]", ""))},
         OF("a", "0"),
         .want = "pg-o-u *1" A1_B1},
        {"a set of no Jobs is kept",
         {JOBSET(META, SETS("", ",'replicas':0"))},
         OF("a", "0"),
         .want = "pg-o-u *2 a=*1 a-replica-0=1<a b=*0 -> a-replica-0"},
        {"a Job says how many of its pods begin",
         {JOBSET(META, SETS(PARALLEL("'kai.scheduler/batch-min-member':'2'", "'parallelism':4"),
                            PARALLEL("'torchrun.ai/min-pods':'3'", "'parallelism':4")))},
         OF("b", "0"),
         .want = "pg-o-u *2 a=*1 a-replica-0=2<a b=*1 b-replica-0=3<b -> b-replica-0"},
        {"not more than it has, nor less than one",
         {JOBSET(META, SETS(PARALLEL("'torchrun.ai/min-pods':'9'", "'parallelism':4"),
                            PARALLEL("'torchrun.ai/min-pods':'0'", "'parallelism':3")))},
         OF("b", "0"),
         .want = "pg-o-u *2 a=*1 a-replica-0=4<a b=*1 b-replica-0=3<b -> b-replica-0"},
        {"a Job makes no more pods than it needs; one that stands still will make one",
         {JOBSET(META, SETS(PARALLEL("", "'parallelism':4,'completions':2"),
                            PARALLEL("", "'parallelism':0,'completions':5")))},
         OF("a", "0"),
         .want = "pg-o-u *2 a=*1 a-replica-0=2<a b=*1 b-replica-0=1<b -> a-replica-0"},
        {"the pods of a Job may have to be near each other",
         {JOBSET(META, SETS(PARALLEL("'kai.scheduler/topology':'t',"
                                     "'kai.scheduler/topology-required-placement':'rack',"
                                     "'kai.scheduler/topology-preferred-placement':'host'",
                                     ""),
                            PARALLEL("'kai.scheduler/topology':'t'", "")))},
         OF("a", "0"),
         .want = "pg-o-u *2 a=*1 a-replica-0=1<a@t:rack:host b=*1 b-replica-0=1<b -> a-replica-0"},
    };

    grouping_case_check(rows, COUNT_OF(rows), &(struct grouping_input){0});
}

TEST(a_jobset_that_makes_no_sense_is_refused_with_words)
{
    static const struct grouping_case rows[] = {
        {"no uid",
         {JOBSET("'metadata':{'name':'o'}", SETS("", ""))},
         OF("a", "0"),
         .want = "refused: the JobSet has no name or no uid"},
        {"no name",
         {JOBSET("'metadata':{'uid':'u'}", SETS("", ""))},
         OF("a", "0"),
         .want = "refused: the JobSet has no name or no uid"},
        {"no sets",
         {JOBSET(META, "'replicatedJobs':[]")},
         OF("a", "0"),
         .want = "refused: the JobSet has no replicatedJobs"},
        {"a set without a name",
         {JOBSET(META, "'replicatedJobs':[{'replicas':1}]")},
         OF("a", "0"),
         .want = "refused: a replicatedJob of the JobSet has no name"},
        {"none of the sets is too few",
         {JOBSET(NOTED("'kai.scheduler/batch-min-member':'0'"), SETS("", ""))},
         OF("a", "0"),
         .want = "refused: annotation kai.scheduler/batch-min-member: \"0\" is not a number of at "
                 "least 1"},
        {"some of the pods is no number",
         {JOBSET(META, SETS("", PARALLEL("'kai.scheduler/batch-min-member':'some'", "")))},
         OF("a", "0"),
         .want = "refused: annotation kai.scheduler/batch-min-member: \"some\" is not"},
        {"more than a number can be",
         {JOBSET(META, SETS("", PARALLEL("'kai.scheduler/batch-min-member':'2147483648'", "")))},
         OF("a", "0"),
         .want = "refused: annotation kai.scheduler/batch-min-member: \"2147483648\" is not"},
        {"a pod that is of no set",
         {JOBSET(META, SETS("", ""))},
         .want = "refused: the pod of a JobSet has no label jobset.sigs.k8s.io/replicatedjob-name"},
        {"a pod that is of no Job",
         {JOBSET(META, SETS("", ""))},
         "'labels':{'jobset.sigs.k8s.io/replicatedjob-name':'a'}",
         .want = "refused: the pod of a JobSet has no label jobset.sigs.k8s.io/job-index"},
        {"a pod of a Job that there is not",
         {JOBSET(META, SETS("", ""))},
         OF("a", "1"),
         .want = "refused: the JobSet has no Job 1 of replicatedJob a"},
    };

    grouping_case_check(rows, COUNT_OF(rows), &(struct grouping_input){0});
}

TEST(a_jobset_whose_group_an_older_version_made_keeps_it)
{
    static const struct grouping_case rows[] = {
        {"one group for all, with its minimum",
         {JOBSET(META, SETS("", ""))},
         OF("a", "0"),
         .around = OLD("pg-o-u", "'minMember':5"),
         .want = "pg-o-u 5"},
        {"a group a set",
         {JOBSET(META, SETS("", ""))},
         OF("a", "0"),
         .around = OLD("pg-o-u-b", "'minMember':5"),
         .want = "pg-o-u-a 5"},
        {"also for a pod that does not say its set",
         {JOBSET(META, SETS("", ""))},
         .around = OLD("pg-o-u-b", "'minMember':5"),
         .want = "pg-o-u 5"},
        {"the annotation counts there as well",
         {JOBSET(NOTED("'kai.scheduler/batch-min-member':'3'"), SETS("", ""))},
         OF("a", "0"),
         .around = OLD("pg-o-u", "'minMember':5"),
         .want = "pg-o-u 3"},
        {"groups of others, and one that has subgroups, are none of an older version",
         {JOBSET(META, SETS("", ""))},
         OF("a", "0"),
         .around = OLD("pg-o", "") "," OLD("pg-o-u2", "") "," OLD(
             "pg-o-u", "'minSubGroup':2,'subGroups':[{'name':'a'}]"),
         .want = "pg-o-u *2" A1_B1},
    };

    grouping_case_check(rows, COUNT_OF(rows), &(struct grouping_input){0});
}

TEST(a_jobset_has_no_subgroups_where_groups_are_those_of_before)
{
    static const struct grouping_case rows[] = {
        {"all together",
         {JOBSET(META,
                 SETS(",'replicas':2" PARALLEL("", "'parallelism':3"), "") ORDER("AnyOrder"))},
         OF("a", "0"),
         .want = "pg-o-u 7"},
        {"nothing to wait for is one",
         {JOBSET(META, SETS(",'replicas':0", ",'replicas':0") ORDER("AnyOrder"))},
         OF("a", "0"),
         .want = "pg-o-u 1"},
        {"set after set",
         {JOBSET(META, SETS(",'replicas':2" PARALLEL("", "'parallelism':3"), "") ORDER("InOrder"))},
         OF("a", "0"),
         .want = "pg-o-u-a 6"},
        {"and so it was where no order is said",
         {JOBSET(META, SETS("", ""))},
         OF("b", "0"),
         .want = "pg-o-u-b 1"},
        {"one that depends on another is not there at once",
         {JOBSET(META, SETS("", ",'dependsOn':[{'name':'a'}]") ORDER("AnyOrder"))},
         OF("b", "0"),
         .want = "pg-o-u-b 1"},
        {"a pod that does not say its set", {JOBSET(META, SETS("", ""))}, .want = "pg-o-u 1"},
    };

    grouping_case_check(rows, COUNT_OF(rows), &(struct grouping_input){.old_groups = true});
}

/* ---- LeaderWorkerSet ---- */

#define LWS(meta, more, template)                                                                 \
    "{'apiVersion':'leaderworkerset.x-k8s.io/v1','kind':'LeaderWorkerSet'," meta ",'spec':{" more \
    "'leaderWorkerTemplate':{" template "}}}"
#define WORKER(index) "'labels':{'leaderworkerset.sigs.k8s.io/worker-index':'" index "'}"
#define SEGMENTS(size, type) \
    ",'subGroupPolicy':{'subGroupSize':" size ",'subGroupPolicyType':'" type "'}"
#define NOTES(notes) ",'workerTemplate':{'metadata':{'annotations':{" notes "}}}"

TEST(a_replica_of_a_leader_worker_set_is_a_leader_and_its_workers)
{
    static const struct grouping_case rows[] = {
        {"a worker",
         {LWS(META, "", "'size':3")},
         WORKER("2"),
         .want = "pg-o-u 3 leader=1 workers=2 -> workers"},
        {"a leader alone", {LWS(META, "", "")}, WORKER("0"), .want = "pg-o-u 1 leader=1 -> leader"},
        {"workers come when the leader is ready: until it has a node it is alone",
         {LWS(META, "'startupPolicy':'LeaderReady',", "'size':3")},
         WORKER("0"),
         .want = "pg-o-u 1 leader=1 -> leader"},
        {"then all are expected",
         {LWS(META, "'startupPolicy':'LeaderReady',", "'size':3")},
         WORKER("0"),
         "'nodeName':'n'",
         .want = "pg-o-u 3 leader=1 workers=2 -> leader"},
        {"a worker is there only then",
         {LWS(META, "'startupPolicy':'LeaderReady',", "'size':3")},
         WORKER("1"),
         .want = "pg-o-u 3 leader=1 workers=2 -> workers"},
        {"at once",
         {LWS(META, "'startupPolicy':'LeaderCreated',", "'size':3")},
         WORKER("0"),
         .want = "pg-o-u 3 leader=1 workers=2 -> leader"},
        {"a leader that is alone is not divided",
         {LWS(META, "'startupPolicy':'LeaderReady',", "'size':4" SEGMENTS("2", "LeaderWorker"))},
         WORKER("0"),
         .want = "pg-o-u 1 leader=1 -> leader"},
    };

    grouping_case_check(rows, COUNT_OF(rows), &(struct grouping_input){0});
}

TEST(a_leader_worker_set_is_divided_into_segments)
{
    static const struct grouping_case rows[] = {
        {"the leader is in the first",
         {LWS(META, "", "'size':4" SEGMENTS("2", "LeaderWorker"))},
         WORKER("0"),
         .want = "pg-o-u 4 segment-0=*2 leader=1<segment-0 workers=1<segment-0 segment-1=2 -> "
                 "leader"},
        {"so is the first worker",
         {LWS(META, "", "'size':4" SEGMENTS("2", "LeaderWorker"))},
         WORKER("1"),
         .want = "pg-o-u 4 segment-0=*2 leader=1<segment-0 workers=1<segment-0 segment-1=2 -> "
                 "workers"},
        {"the last is smaller",
         {LWS(META, "", "'size':6" SEGMENTS("4", "LeaderWorker"))},
         WORKER("5"),
         .want = "pg-o-u 6 segment-0=*2 leader=1<segment-0 workers=3<segment-0 segment-1=2 -> "
                 "segment-1"},
        {"segments of one",
         {LWS(META, "", "'size':2" SEGMENTS("1", "LeaderWorker"))},
         WORKER("1"),
         .want = "pg-o-u 2 segment-0=*1 leader=1<segment-0 segment-1=1 -> segment-1"},
        {"where only the workers can be divided the leader is one more in the first",
         {LWS(META, "", "'size':5" SEGMENTS("2", "LeaderWorker"))},
         WORKER("2"),
         .want = "pg-o-u 5 segment-0=*2 leader=1<segment-0 workers=2<segment-0 segment-1=2 -> "
                 "workers"},
        {"and the next are in the second",
         {LWS(META, "", "'size':5" SEGMENTS("2", "LeaderWorker"))},
         WORKER("3"),
         .want = "pg-o-u 5 segment-0=*2 leader=1<segment-0 workers=2<segment-0 segment-1=2 -> "
                 "segment-1"},
        {"without the leader",
         {LWS(META, "", "'size':5" SEGMENTS("2", "LeaderExcluded"))},
         WORKER("0"),
         .want = "pg-o-u 5 leader=1 segment-0=2 segment-1=2 -> leader"},
        {"its workers are counted from the first worker on",
         {LWS(META, "", "'size':5" SEGMENTS("2", "LeaderExcluded"))},
         WORKER("2"),
         .want = "pg-o-u 5 leader=1 segment-0=2 segment-1=2 -> segment-0"},
        {"one that does not say which it is",
         {LWS(META, "", "'size':4" SEGMENTS("2", "LeaderWorker"))},
         .want = "pg-o-u 4 segment-0=*2 leader=1<segment-0 workers=1<segment-0 segment-1=2"},
        {"the annotation says the size, and how near its pods are",
         {LWS(NOTED("'kai.scheduler/topology':'t'"), "",
              "'size':4" SEGMENTS("4", "LeaderWorker")
                  NOTES("'kai.scheduler/segment-size':'2',"
                        "'kai.scheduler/segment-topology-required-placement':'rack'"))},
         WORKER("3"),
         .want = "pg-o-u 4 segment-0=*2@t:rack: leader=1<segment-0 workers=1<segment-0 "
                 "segment-1=2@t:rack: -> segment-1"},
    };

    grouping_case_check(rows, COUNT_OF(rows), &(struct grouping_input){0});
}

TEST(the_leader_was_in_a_segment_like_any_other_before)
{
    static const struct grouping_case rows[] = {
        {"five by two",
         {LWS(META, "", "'size':5" SEGMENTS("2", "LeaderWorker"))},
         WORKER("2"),
         .want = "pg-o-u 5 segment-0=*2 leader=1<segment-0 workers=1<segment-0 segment-1=2 "
                 "segment-2=1 -> segment-1"},
    };

    grouping_case_check(rows, COUNT_OF(rows), &(struct grouping_input){.old_groups = true});
}

TEST(a_leader_worker_set_that_makes_no_sense_is_refused_with_words)
{
    static const struct grouping_case rows[] = {
        {"which worker is a number",
         {LWS(META, "", "'size':3")},
         WORKER("one"),
         .want = "refused: label leaderworkerset.sigs.k8s.io/worker-index: \"one\""},
        {"of at least 0",
         {LWS(META, "", "'size':3")},
         WORKER("-1"),
         .want = "refused: label leaderworkerset.sigs.k8s.io/worker-index: \"-1\""},
        {"the size of a segment is a number",
         {LWS(META, "", "'size':3" NOTES("'kai.scheduler/segment-size':'two'"))},
         WORKER("0"),
         .want = "refused: annotation kai.scheduler/segment-size: \"two\""},
        {"and not 0",
         {LWS(META, "", "'size':3" NOTES("'kai.scheduler/segment-size':'0'"))},
         WORKER("0"),
         .want = "refused: annotation kai.scheduler/segment-size: \"0\""},
        {"no pods at all",
         {LWS(META, "", "'size':0")},
         WORKER("0"),
         .want = "refused: spec.leaderWorkerTemplate.size must be at least 1"},
        {"workers that are left over",
         {LWS(META, "", "'size':4" SEGMENTS("2", "LeaderExcluded"))},
         WORKER("0"),
         .want = "refused: 3 workers cannot be divided into segments of 2 without the leader"},
        {"too many segments",
         {LWS(META, "", "'size':20002" SEGMENTS("2", "LeaderWorker"))},
         WORKER("0"),
         .want = "refused: 10001 segments of 2 pods are greater than max allowed segmentation"},
    };

    grouping_case_check(rows, COUNT_OF(rows), &(struct grouping_input){0});
}

/* ---- Ray ---- */

#define RAY(kind, more) "{'apiVersion':'ray.io/v1','kind':'" kind "'," META more "}"
#define GROUPS(list)                                                                        \
    ",'spec':{'headGroupSpec':{'template':{'metadata':{'annotations':{"                     \
    "'kai.scheduler/topology':'t','kai.scheduler/topology-preferred-placement':'rack'}}}}," \
    "'workerGroupSpecs':[" list "]}"
#define CLUSTER(name)                                \
    "{'kind':'RayCluster','metadata':{'name':'" name \
    "','namespace':'d'}" GROUPS("{'groupName':'" name "'}") "}"
#define RAY_HEAD " headgroup=1@t::rack"

TEST(a_ray_cluster_is_a_head_and_groups_of_workers)
{
    static const struct grouping_case rows[] = {
        {"as many as are asked for, on as many hosts each as is said",
         {RAY("RayCluster",
              GROUPS("{'groupName':'a','replicas':2,'numOfHosts':4},"
                     "{'groupName':'b','replicas':3,'minReplicas':0,'numOfHosts':0}"))},
         "'labels':{'ray.io/group':'b'}",
         .want = "pg-o-u 12" RAY_HEAD " a=8 b=3 -> b"},
        {"groups that stand still are not waited for",
         {RAY("RayCluster", GROUPS("{'groupName':'a','suspend':true},{'groupName':'b','suspended':"
                                   "true},{'groupName':'c','suspend':false}"))},
         "'labels':{'ray.io/node-type':'head'}",
         .want = "pg-o-u 2" RAY_HEAD " c=1 -> headgroup"},
        {"groups without a name are counted",
         {RAY("RayCluster", GROUPS("{'groupName':'a'},{}"))},
         "'labels':{'ray.io/node-type':'worker','ray.io/group':'a'}",
         .want = "pg-o-u 3" RAY_HEAD " a=1 worker-group-1=1 -> a"},
        {"the priority has a label of its own",
         {"{'apiVersion':'ray.io/v1','kind':'RayCluster','metadata':{'name':'o','uid':'u','labels':"
          "{'ray.io/priority-class-name':'high','priorityClassName':'low'}}}"},
         "'labels':{'ray.io/node-type':'head'}",
         .around = "{'kind':'PriorityClass','metadata':{'name':'low'}}",
         .want = "pg-o-u 1 headgroup=1 -> headgroup priority high"},
        {"one that was made without subgroups has none",
         {RAY("RayCluster", GROUPS("{'groupName':'a'}"))},
         "'labels':{'ray.io/group':'a'}",
         .around = OLD("pg-o-u", "'minMember':2"),
         .want = "pg-o-u 2"},
        {"one that has some keeps them",
         {RAY("RayCluster", GROUPS("{'groupName':'a'}"))},
         "'labels':{'ray.io/group':'a'}",
         .around = OLD("pg-o-u", "'minMember':2,'subGroups':[{'name':'headgroup'}]"),
         .want = "pg-o-u 2" RAY_HEAD " a=1 -> a"},
    };

    grouping_case_check(rows, COUNT_OF(rows), &(struct grouping_input){0});
}

TEST(the_cluster_of_a_ray_job_or_service_is_the_one_that_its_status_names)
{
    static const struct grouping_case rows[] = {
        {"a job's",
         {RAY("RayJob", ",'status':{'rayClusterName':'c'}")},
         .around = CLUSTER("b") "," CLUSTER("c"),
         .want = "pg-o-u 2" RAY_HEAD " c=1"},
        {"a service's",
         {RAY("RayService", ",'status':{'activeServiceStatus':{'rayClusterName':'b'},"
                            "'pendingServiceStatus':{'rayClusterName':'c'}}")},
         .around = CLUSTER("b") "," CLUSTER("c"),
         .want = "pg-o-u 2" RAY_HEAD " b=1"},
        {"a service's that is not ready yet",
         {RAY("RayService", ",'status':{'pendingServiceStatus':{'rayClusterName':'c'}}")},
         .around = CLUSTER("b") "," CLUSTER("c"),
         .want = "pg-o-u 2" RAY_HEAD " c=1"},
        {"none is named",
         {RAY("RayService", "")},
         .around = CLUSTER("b"),
         .want = "refused: the RayService has no RayCluster yet"},
        {"it is not there",
         {RAY("RayJob", ",'status':{'rayClusterName':'c'}")},
         .around = CLUSTER("b"),
         .want = "refused: the RayJob has no RayCluster yet"},
    };

    grouping_case_check(rows, COUNT_OF(rows), &(struct grouping_input){0});
}

/* ---- Grove ---- */

#define CLIQUES "{'apiVersion':'grove.io/v1alpha1','kind':'PodCliqueSet'," META "}"
#define IN_GANG "'labels':{'grove.io/podgang':'g'}"
#define GANG(notes, spec)                                                                  \
    "{'apiVersion':'scheduler.grove.io/v1alpha1','kind':'PodGang','metadata':{'name':'g'," \
    "'uid':'gu','namespace':'d','annotations':{" notes "}},'spec':{" spec "}}"
#define PACK(required, preferred)                                                               \
    "'topologyConstraint':{'packConstraint':{'required':'" required "','preferred':'" preferred \
    "'}}"

TEST(the_gang_that_a_pod_of_grove_names_is_its_group)
{
    static const struct grouping_case rows[] = {
        {"pod groups are subgroups; a pod is in the one that refers to it",
         {CLIQUES},
         IN_GANG,
         .around = GANG("", "'podgroups':[{'name':'a','minReplicas':2,'podReferences':[{'name':'p',"
                            "'namespace':'other'},{'name':'q','namespace':'d'}]},{'name':'b',"
                            "'podReferences':[{'name':'p','namespace':'d'}]}]"),
         .want = "pg-g-gu 3 a=2 b=1 -> b by PodGang/g"},
        {"a set of an older version",
         {"{'apiVersion':'grove.io/v1alpha1','kind':'PodGangSet'," META "}"},
         IN_GANG,
         .around =
             GANG("", "'priorityClassName':'high','podgroups':[{'name':'a','minReplicas':2}]"),
         .want = "pg-g-gu 2 a=2 by PodGang/g priority high"},
        {"some have to be nearer to each other than all are",
         {CLIQUES},
         IN_GANG,
         .around = GANG(
             "'grove.io/topology-name':'t'",
             PACK("zone",
                  "") ",'topologyConstraintGroupConfigs':[{'name':'near','podGroupNames':['b',"
                      "'c']," PACK("rack", "host") "}],'podgroups':[{'name':'a'},{'name':'b'," PACK(
                          "", "host") "},{'name':'c'}]"),
         .want = "pg-g-gu 3@t:zone: near=*2@t:rack:host a=1 b=1<near@t::host c=1<near "
                 "by PodGang/g"},
        {"near in no topology means nothing",
         {CLIQUES},
         IN_GANG,
         .around = GANG("", PACK("zone", "") ",'podgroups':[{'name':'a'," PACK("rack", "") "}]"),
         .want = "pg-g-gu 1 a=1 by PodGang/g"},
        {"it names none",
         {CLIQUES},
         .around = GANG("", "'podgroups':[{'name':'a'}]"),
         .want = "refused: the pod's PodGang \"\" does not exist"},
        {"it is not there",
         {CLIQUES},
         IN_GANG,
         .want = "refused: the pod's PodGang \"g\" does not exist"},
        {"a gang of nothing",
         {CLIQUES},
         IN_GANG,
         .around = GANG("", "'podgroups':[{'name':'a','minReplicas':0}]"),
         .want = "refused: PodGang g asks for no pod at all"},
    };

    grouping_case_check(rows, COUNT_OF(rows), &(struct grouping_input){0});
}
