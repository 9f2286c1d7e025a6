#include "api/refusal_test.h"

#include "api/admit.h"
#include "api/kind.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/json.h"
#include "base/str.h"
#include "test.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

static struct json *object_of(struct arena *arena, const char *text, bool whole)
{
    if (whole)
        return test_json(arena, text);
    return test_json(
        arena, str_printf(arena, "{'metadata':{'name':'q','namespace':'n'},'spec':%s}", text).p);
}

static void rows_play(const struct refusal *rows, size_t count, bool whole)
{
    for (size_t i = 0; i < count; i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct admit admit = {.arena = &arena, .kind = rows[i].kind};

        test_case(rows[i].why);
        admit.object = object_of(&arena, rows[i].spec, whole);
        if (rows[i].before)
            admit.old = object_of(&arena, rows[i].before, whole);
        admit_validate(&admit);
        struct str field = admit.causes.count ? admit.causes.items[0].field : STR("");
        EXPECT(str_is(field, rows[i].field));
        if (!str_is(field, rows[i].field))
            (void)fprintf(stderr, "it is \"" STR_FMT "\"\n", STR_ARG(field));
    }
}

void refusals_play(const struct refusal *rows, size_t count)
{
    rows_play(rows, count, false);
}

void refusals_play_whole(const struct refusal *rows, size_t count)
{
    rows_play(rows, count, true);
}

#define TERM(scope, op, more)                                                                      \
    "{'scopeSelector':{'matchExpressions':[{'scopeName':'" scope "','operator':'" op "'" more "}]" \
    "}}"
#define TERMS "spec.scopeSelector.matchExpressions"

TEST(a_quota_says_what_can_be_counted)
{
    static const struct refusal rows[] = {
        {"amounts", &kind_resourcequota, NULL, "{'hard':{'pods':'3','requests.cpu':'1500m'}}", ""},
        {"no amount", &kind_resourcequota, NULL, "{'hard':{'pods':'many'}}", "spec.hard[pods]"},
        {"less than nothing", &kind_resourcequota, NULL, "{'hard':{'pods':'-1'}}",
         "spec.hard[pods]"},
        {"no name", &kind_resourcequota, NULL, "{'hard':{'a b':'1'}}", "spec.hard[a b]"},
        {"a resource that there is not", &kind_resourcequota, NULL, "{'hard':{'pds':'1'}}",
         "spec.hard[pds]"},
        {"a GPU of nobody", &kind_resourcequota, NULL, "{'hard':{'requests.gpu':'1'}}",
         "spec.hard[requests.gpu]"},
        {"all that is counted", &kind_resourcequota, NULL,
         "{'hard':{'cpu':'1','limits.memory':'1','requests.storage':'1','hugepages-2Mi':'1',"
         "'requests.nvidia.com/gpu':'1','count/jobs.batch':'1','services.nodeports':'1',"
         "'gold.storageclass.storage.k8s.io/requests.storage':'1'}}",
         ""},
        {"every scope", &kind_resourcequota, NULL,
         "{'scopes':['Terminating','NotTerminating','BestEffort','NotBestEffort','PriorityClass',"
         "'CrossNamespacePodAffinity']}",
         ""},
        {"a scope that is none", &kind_resourcequota, NULL, "{'scopes':['Large']}", "spec.scopes"},
        {"a term", &kind_resourcequota, NULL, TERM("PriorityClass", "In", ",'values':['high']"),
         ""},
        {"one that only has to be", &kind_resourcequota, NULL, TERM("PriorityClass", "Exists", ""),
         ""},
        {"or not to be", &kind_resourcequota, NULL, TERM("PriorityClass", "DoesNotExist", ""), ""},
        {"a term of no scope", &kind_resourcequota, NULL, TERM("Large", "Exists", ""),
         TERMS ".scopeName"},
        {"a term without a word", &kind_resourcequota, NULL, TERM("PriorityClass", "Like", ""),
         TERMS ".operator"},
        {"not to be what a pod is or is not", &kind_resourcequota, NULL,
         TERM("BestEffort", "DoesNotExist", ""), TERMS ".operator"},
        {"in nothing", &kind_resourcequota, NULL, TERM("PriorityClass", "NotIn", ""),
         TERMS ".values"},
        {"other amounts later", &kind_resourcequota,
         "{'hard':{'pods':'1'},'scopes':['BestEffort']}",
         "{'hard':{'pods':'2'},'scopes':['BestEffort']}", ""},
        {"other scopes later", &kind_resourcequota, "{'scopes':['BestEffort']}", "{}",
         "spec.scopes"},
        {"another selector later", &kind_resourcequota, TERM("PriorityClass", "Exists", ""),
         TERM("PriorityClass", "DoesNotExist", ""), ""},
    };

    refusals_play(rows, COUNT_OF(rows));
}

TEST(a_limit_range_goes_from_the_least_to_the_most)
{
    static const struct refusal rows[] = {
        {"in order", &kind_limitrange, NULL,
         "{'limits':[{'type':'Container','min':{'cpu':'1'},'defaultRequest':{'cpu':'2'},"
         "'default':{'cpu':'3'},'max':{'cpu':'4'}},{'type':'Pod','max':{'cpu':'9'}}]}",
         ""},
        {"of claims", &kind_limitrange, NULL,
         "{'limits':[{'type':'PersistentVolumeClaim','max':{'storage':'1Gi'}}]}", ""},
        {"of what there is not", &kind_limitrange, NULL, "{'limits':[{'type':'Job'}]}",
         "spec.limits[0].type"},
        {"the least above the most", &kind_limitrange, NULL,
         "{'limits':[{'type':'Pod','min':{'cpu':'2'},'max':{'cpu':'1'}}]}",
         "spec.limits[0].min[cpu]"},
        {"the usual above the most", &kind_limitrange, NULL,
         "{'limits':[{'type':'Container','default':{'cpu':'2'},'max':{'cpu':'1'}}]}",
         "spec.limits[0].default[cpu]"},
        {"asked for above the limit", &kind_limitrange, NULL,
         "{'limits':[{'type':'Container','defaultRequest':{'cpu':'2'},'default':{'cpu':'1'}}]}",
         "spec.limits[0].defaultRequest[cpu]"},
        {"no amount", &kind_limitrange, NULL,
         "{'limits':[{'type':'Container','maxLimitRequestRatio':{'cpu':'x'}}]}",
         "spec.limits[0].maxLimitRequestRatio[cpu]"},
        {"the usual of a pod", &kind_limitrange, NULL,
         "{'limits':[{'type':'Pod','default':{'cpu':'2'}}]}", "spec.limits[0].default"},
        {"what a pod asks for usually", &kind_limitrange, NULL,
         "{'limits':[{'type':'Pod','defaultRequest':{'cpu':'2'}}]}",
         "spec.limits[0].defaultRequest"},
    };

    refusals_play(rows, COUNT_OF(rows));
}

#define BACKEND     "'path':'/','backend':{'service':{'name':'s','port':{'number':80}}}"
#define PATHS(path) "{'rules':[{'host':'h','http':{'paths':[" path "]}}]}"
#define FIRST       "spec.rules[0].http.paths[0]"

TEST(an_ingress_leads_somewhere)
{
    static const struct refusal rows[] = {
        {"nowhere", &kind_ingress, NULL, "{}", "spec"},
        {"everywhere", &kind_ingress, NULL,
         "{'defaultBackend':{'service':{'name':'s','port':{'number':80}}}}", ""},
        {"to no port", &kind_ingress, NULL, "{'defaultBackend':{'service':{'name':'s'}}}",
         "spec.defaultBackend"},
        {"to a thing", &kind_ingress, NULL,
         "{'defaultBackend':{'resource':{'kind':'K','name':'n'}}}", ""},
        {"to both", &kind_ingress, NULL,
         "{'defaultBackend':{'service':{'name':'s'},'resource':{'kind':'K'}}}",
         "spec.defaultBackend"},
        {"to neither", &kind_ingress, NULL, "{'defaultBackend':{}}", "spec.defaultBackend"},
        {"to one without a name", &kind_ingress, NULL, "{'defaultBackend':{'service':{}}}",
         "spec.defaultBackend.service.name"},
        {"all kinds of paths", &kind_ingress, NULL,
         PATHS("{'pathType':'Exact'," BACKEND "},{'pathType':'Prefix'," BACKEND
               "},{'pathType':'ImplementationSpecific'," BACKEND "}"),
         ""},
        {"no kind", &kind_ingress, NULL, PATHS("{" BACKEND "}"), FIRST ".pathType"},
        {"another kind", &kind_ingress, NULL, PATHS("{'pathType':'Like'," BACKEND "}"),
         FIRST ".pathType"},
        {"a path to nothing", &kind_ingress, NULL, PATHS("{'pathType':'Exact','path':'/'}"),
         FIRST ".backend"},
        {"a path that begins nowhere", &kind_ingress, NULL,
         PATHS("{'pathType':'Exact','path':'a','backend':{'service':{'name':'s','port':{'number':"
               "80}}}}"),
         FIRST ".path"},
    };

    refusals_play(rows, COUNT_OF(rows));
}

#define CLAIM(modes, size) "{'accessModes':[" modes "],'resources':{'requests':{" size "}}}"

TEST(a_claim_asks_for_some_bytes_in_some_way)
{
    static const struct refusal rows[] = {
        {"every way that goes with others", &kind_pvc, NULL,
         CLAIM("'ReadWriteOnce','ReadOnlyMany','ReadWriteMany'", "'storage':'1Gi'"), ""},
        {"for one pod and for many", &kind_pvc, NULL,
         CLAIM("'ReadWriteMany','ReadWriteOncePod'", "'storage':'1Gi'"), "spec.accessModes"},
        {"another way", &kind_pvc, NULL, CLAIM("'WriteOnly'", "'storage':'1Gi'"),
         "spec.accessModes"},
        {"no way", &kind_pvc, NULL, CLAIM("", "'storage':'1Gi'"), "spec.accessModes"},
        {"no size", &kind_pvc, NULL, CLAIM("'ReadWriteOnce'", ""), "spec.resources[storage]"},
        {"a size in words", &kind_pvc, NULL, CLAIM("'ReadWriteOnce'", "'storage':'much'"),
         "spec.resources[storage]"},
        {"nothing", &kind_pvc, NULL, CLAIM("'ReadWriteOnce'", "'storage':'0'"),
         "spec.resources[storage]"},
        {"less than nothing", &kind_pvc, NULL, CLAIM("'ReadWriteOnce'", "'storage':'-1Gi'"),
         "spec.resources[storage]"},
    };

    refusals_play(rows, COUNT_OF(rows));
}

#define VOLUME(more) "{'accessModes':['ReadWriteOnce']" more "}"
#define GIGABYTE     ",'capacity':{'storage':'1Gi'}"

TEST(a_volume_has_one_source_and_one_size)
{
    static const struct refusal rows[] = {
        {"as it should be", &kind_pv, NULL, VOLUME(GIGABYTE ",'nfs':{'server':'s','path':'/p'}"),
         ""},
        {"no source", &kind_pv, NULL, VOLUME(GIGABYTE), "spec"},
        {"two", &kind_pv, NULL, VOLUME(GIGABYTE ",'nfs':{'server':'s','path':'/p'},'fc':{}"),
         "spec.fc"},
        {"no size", &kind_pv, NULL, VOLUME(",'nfs':{'server':'s','path':'/p'}"), "spec.capacity"},
        {"two sizes", &kind_pv, NULL,
         VOLUME(",'capacity':{'storage':'1Gi','cpu':'1'},'nfs':{'server':'s','path':'/p'}"),
         "spec.capacity"},
        {"two ranges", &kind_servicecidr, NULL, "{'cidrs':['10.0.0.0/24','fd00::/64']}", ""},
        {"of one family", &kind_servicecidr, NULL, "{'cidrs':['10.0.0.0/24','10.1.0.0/24']}",
         "spec.cidrs"},
        {"that are none", &kind_servicecidr, NULL, "{'cidrs':['x']}", "spec.cidrs[0]"},
        {"another one later", &kind_servicecidr, "{'cidrs':['10.0.0.0/24']}",
         "{'cidrs':['10.1.0.0/24']}", "spec.cidrs[0]"},
        {"a second one later", &kind_servicecidr, "{'cidrs':['10.0.0.0/24']}",
         "{'cidrs':['10.0.0.0/24','fd00::/64']}", ""},
    };

    refusals_play(rows, COUNT_OF(rows));
}

#define JOB                                                                                  \
    "'template':{'spec':{'template':{'spec':{'restartPolicy':'Never','dnsPolicy':'Default'," \
    "'terminationGracePeriodSeconds':1,'containers':[{'name':'c','image':'i'}]}}}}"
#define SET(more) "{'replicatedJobs':[{'name':'a'," JOB "},{'name':'b'," JOB more "}]"

TEST(a_jobset_names_only_what_it_has)
{
    static const struct refusal rows[] = {
        {"two parts", &kind_jobset, NULL, SET(",'dependsOn':[{'name':'a'}]") "}", ""},
        {"one that comes later", &kind_jobset, NULL, SET(",'dependsOn':[{'name':'b'}]") "}",
         "spec.replicatedJobs[1].dependsOn"},
        {"in order, and by name", &kind_jobset, NULL,
         SET(",'dependsOn':[{'name':'a'}]") ",'startupPolicy':{'startupPolicyOrder':'InOrder'}}",
         "spec.replicatedJobs[1].dependsOn"},
        {"who decides", &kind_jobset, NULL,
         SET("") ",'successPolicy':{'targetReplicatedJobs':['c']}}",
         "spec.successPolicy.targetReplicatedJobs"},
        {"rules", &kind_jobset, NULL,
         SET("") ",'failurePolicy':{'rules':[{'name':'x','targetReplicatedJobs':['a'],"
                 "'onJobFailureMessagePatterns':['^OOM']},{'name':'y'},{}]}}",
         ""},
        {"a rule twice", &kind_jobset, NULL,
         SET("") ",'failurePolicy':{'rules':[{'name':'x'},{'name':'x'}]}}",
         "spec.failurePolicy.rules[1].name"},
        {"a rule for nobody", &kind_jobset, NULL,
         SET("") ",'failurePolicy':{'rules':[{'name':'x','targetReplicatedJobs':['c']}]}}",
         "spec.failurePolicy.rules[0].targetReplicatedJobs"},
        {"what is no pattern", &kind_jobset, NULL,
         SET("") ",'failurePolicy':{'rules':[{'onJobFailureMessagePatterns':['(']}]}}",
         "spec.failurePolicy.rules[0].onJobFailureMessagePatterns"},
        {"a coordinator", &kind_jobset, NULL,
         SET("") ",'coordinator':{'replicatedJob':'b','jobIndex':0,'podIndex':0}}", ""},
        {"one of another set", &kind_jobset, NULL, SET("") ",'coordinator':{'replicatedJob':'c'}}",
         "spec.coordinator.replicatedJob"},
        {"a job that there is not", &kind_jobset, NULL,
         SET("") ",'coordinator':{'replicatedJob':'a','jobIndex':1}}", "spec.coordinator.jobIndex"},
        {"a pod that there is not", &kind_jobset, NULL,
         SET("") ",'coordinator':{'replicatedJob':'a','podIndex':1}}", "spec.coordinator.podIndex"},
        {"a manager", &kind_jobset, NULL, SET("") ",'managedBy':'acme.io/foo'}", ""},
        {"one without a domain", &kind_jobset, NULL, SET("") ",'managedBy':'foo'}",
         "spec.managedBy"},
        {"it stays what it is", &kind_jobset, SET("") "}", SET("") ",'suspend':false}", ""},
        {"and has no more parts", &kind_jobset, SET("") "}", "{'replicatedJobs':[]}",
         "spec.replicatedJobs"},
        {"nor another end", &kind_jobset, SET("") "}",
         SET("") ",'successPolicy':{'operator':'Any'}}", "spec.successPolicy"},
    };

    refusals_play(rows, COUNT_OF(rows));
}

#define PATCH(manager, container)                                                             \
    "{'runtimeRef':{'name':'r'},'runtimePatches':[{'manager':'" manager                       \
    "','trainingRuntimeSpec':{'template':{'spec':{'replicatedJobs':[{'name':'n','template':{" \
    "'spec':{'template':{'spec':{'containers':[" container "]}}}}}]}}}}]}"
#define PART(step, more)                                                                    \
    "{'template':{'spec':{'replicatedJobs':[{'name':'p','template':{'metadata':{'labels':{" \
    "'trainer.kubeflow.org/trainjob-ancestor-step':'" step                                  \
    "'}},'spec':{'template':{'spec':{'containers':[{'name':'node'}]}}}}" more "}]}}}"

TEST(a_trainjob_sets_what_is_its_own)
{
    static const struct refusal rows[] = {
        {"a patch", &kind_trainjob, NULL, PATCH("x.org/y", "{'name':'side','env':[]}"), ""},
        {"of nobody", &kind_trainjob, NULL, PATCH("y", "{'name':'side'}"),
         "spec.runtimePatches[0].manager"},
        {"of the trainer's variables", &kind_trainjob, NULL,
         PATCH("x.org/y", "{'name':'node','env':[]}"), "spec.runtimePatches[0] container node env"},
        {"of the trainer's image", &kind_trainjob, NULL, PATCH("x.org/y", "{'name':'node'}"), ""},
        {"processes", &kind_trainjob, NULL, "{'trainer':{'numProcPerNode':4}}", ""},
        {"a GPU of nobody", &kind_trainjob, NULL,
         "{'trainer':{'resourcesPerNode':{'limits':{'gpu':1}}}}",
         "spec.trainer.resourcesPerNode.limits[gpu]"},
        {"processes as a word", &kind_trainjob, NULL, "{'trainer':{'numProcPerNode':'4'}}", ""},
        {"as many as there are GPUs", &kind_trainjob, NULL, "{'trainer':{'numProcPerNode':'gpu'}}",
         ""},
        {"as many as there are CPUs", &kind_trainjob, NULL, "{'trainer':{'numProcPerNode':'cpu'}}",
         ""},
        {"none", &kind_trainjob, NULL, "{'trainer':{'numProcPerNode':0}}",
         "spec.trainer.numProcPerNode"},
        {"what is no number", &kind_trainjob, NULL, "{'trainer':{'numProcPerNode':'all'}}",
         "spec.trainer.numProcPerNode"},
        {"a variable of the platform", &kind_trainjob, NULL,
         "{'trainer':{'env':[{'name':'A'},{'name':'PET_NODE_RANK'}]}}", "spec.trainer.env[1].name"},
        {"a runtime of others", &kind_trainjob, NULL, "{'runtimeRef':{'apiGroup':'x.org'}}",
         "spec.runtimeRef.apiGroup"},
        {"another trainer later", &kind_trainjob, "{'trainer':{'numNodes':1}}",
         "{'trainer':{'numNodes':2}}", "spec.trainer"},
        {"a patch while it runs", &kind_trainjob, "{'runtimeRef':{'name':'r'}}",
         PATCH("x.org/y", "{'name':'side'}"), "spec.runtimePatches"},
        {"the same patch", &kind_trainjob, PATCH("x.org/y", "{'name':'side'}"),
         PATCH("x.org/y", "{'name':'side'}"), ""},
        {"a step of the trainer", &kind_trainingruntime, NULL, PART("trainer", ""), ""},
        {"of which there are two", &kind_trainingruntime, NULL, PART("trainer", ",'replicas':2"),
         "spec.template.spec.replicatedJobs[0].replicas"},
        {"a step without its container", &kind_trainingruntime, NULL, PART("model-initializer", ""),
         "spec.template.spec.replicatedJobs[0].template.spec.template.spec.containers"},
        {"two policies", &kind_trainingruntime, NULL,
         "{'mlPolicy':{'torch':{},'mpi':{}},'template':{'spec':{'containers':[{'name':'c'}]}}}",
         "spec.mlPolicy"},
        {"fewer than at least", &kind_trainingruntime, NULL,
         "{'mlPolicy':{'torch':{'elasticPolicy':{'minNodes':3,'maxNodes':2}}},'template':{'spec':{"
         "'containers':[{'name':'c'}]}}}",
         "spec.mlPolicy.torch.elasticPolicy.maxNodes"},
        {"nothing to run", &kind_trainingruntime, NULL, "{'template':{'spec':{}}}",
         "spec.template.spec.replicatedJobs"},
    };

    refusals_play(rows, COUNT_OF(rows));
}

#define GROUPS(list) "{'subGroups':[" list "]}"

TEST(a_subgroup_that_older_versions_made_may_stay)
{
    static const struct refusal rows[] = {
        {"no minimum, as before", &kind_podgroup, GROUPS("{'name':'a'}"), GROUPS("{'name':'a'}"),
         ""},
        {"no minimum any more", &kind_podgroup, GROUPS("{'name':'a','minMember':1}"),
         GROUPS("{'name':'a'}"), "spec.subGroups[0].minMember"},
        {"pods above others, as before", &kind_podgroup,
         GROUPS("{'name':'a','minMember':1},{'name':'b','parent':'a','minMember':1}"),
         GROUPS("{'name':'a','minMember':1},{'name':'b','parent':'a','minMember':1}"), ""},
        {"more subgroups than there are", &kind_podgroup, NULL,
         GROUPS("{'name':'a','minSubGroup':2},{'name':'b','parent':'a','minMember':1}"), ""},
        {"both", &kind_podgroup, NULL, GROUPS("{'name':'a','minMember':1,'minSubGroup':1}"),
         "spec.subGroups[0].minSubGroup"},
        {"a run of no time", &kind_podgroup, NULL, "{'maxRunTime':'-1s'}", "spec.maxRunTime"},
    };

    refusals_play(rows, COUNT_OF(rows));
}
