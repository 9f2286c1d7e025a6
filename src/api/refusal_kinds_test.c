#include "api/admit.h"
#include "api/kind.h"
#include "api/refusal_test.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/json.h"
#include "base/str.h"
#include "test.h"

#include <stddef.h>

/* Devices, webhooks, services, and the kinds of training that others have made. */

#define DEVICES(requests, constraints) \
    "{'devices':{'requests':[" requests "],'constraints':[" constraints "]}}"
#define WISH(more)  "{'name':'g','exactly':{'deviceClassName':'gpu'" more "}}"
#define CHOICES     "{'name':'g','firstAvailable':[{'name':'l','deviceClassName':'gpu'}]}"
#define G           "spec.devices.requests[0]"
#define K           "spec.devices.constraints[0]"
#define ONLY(wish)  DEVICES(wish, "")
#define ALIKE(more) DEVICES(CHOICES, "{" more "}")
#define NINE(x)     x "," x "," x "," x "," x "," x "," x "," x "," x

TEST(a_claim_says_which_devices_it_wants)
{
    static const struct refusal rows[] = {
        {"one", &kind_resourceclaim, NULL, ONLY(WISH("")), ""},
        {"two", &kind_resourceclaim, NULL,
         ONLY(WISH(",'allocationMode':'ExactCount','count':2,'selectors':[{'cel':{'expression':"
                   "'true'}}]")),
         ""},
        {"all", &kind_resourceclaim, NULL, ONLY(WISH(",'allocationMode':'All'")), ""},
        {"all two", &kind_resourceclaim, NULL, ONLY(WISH(",'allocationMode':'All','count':2")),
         G ".exactly.count"},
        {"none", &kind_resourceclaim, NULL, ONLY(WISH(",'count':0")), G ".exactly.count"},
        {"some", &kind_resourceclaim, NULL, ONLY(WISH(",'allocationMode':'Some'")),
         G ".exactly.allocationMode"},
        {"those of others", &kind_resourceclaim, NULL, ONLY(WISH(",'adminAccess':true")),
         G ".exactly.adminAccess"},
        {"parts", &kind_resourceclaim, NULL, ONLY(WISH(",'capacity':{'requests':{'memory':'1'}}")),
         G ".exactly.capacity"},
        {"of no class", &kind_resourceclaim, NULL, ONLY("{'name':'g','exactly':{}}"),
         G ".exactly.deviceClassName"},
        {"of no name of one", &kind_resourceclaim, NULL,
         ONLY("{'name':'g','exactly':{'deviceClassName':'A'}}"), G ".exactly.deviceClassName"},
        {"no expression", &kind_resourceclaim, NULL, ONLY(WISH(",'selectors':[{'cel':{}}]")),
         G ".exactly.selectors[0].cel.expression"},
        {"nothing", &kind_resourceclaim, NULL, ONLY("{'name':'g'}"), G},
        {"both", &kind_resourceclaim, NULL,
         ONLY("{'name':'g','exactly':{'deviceClassName':'a'},'firstAvailable':[{'name':'l',"
              "'deviceClassName':'a'}]}"),
         G},
        {"twice", &kind_resourceclaim, NULL, ONLY(WISH("") "," WISH("")),
         "spec.devices.requests[1].name"},
        {"a choice twice", &kind_resourceclaim, NULL,
         ONLY("{'name':'g','firstAvailable':[{'name':'l','deviceClassName':'a'},{'name':'l',"
              "'deviceClassName':'b'}]}"),
         G ".firstAvailable[1].name"},
        {"too much choice", &kind_resourceclaim, NULL,
         ONLY("{'name':'g','firstAvailable':[" NINE("{'name':'l','deviceClassName':'a'}") "]}"),
         G ".firstAvailable"},
        {"alike", &kind_resourceclaim, NULL, ALIKE("'requests':['g'],'matchAttribute':'x.org/a'"),
         ""},
        {"a choice like others", &kind_resourceclaim, NULL,
         ALIKE("'requests':['g/l'],'distinctAttribute':'x.org/a'"), ""},
        {"another choice", &kind_resourceclaim, NULL,
         ALIKE("'requests':['g/x'],'matchAttribute':'x.org/a'"), K ".requests[0]"},
        {"of another", &kind_resourceclaim, NULL,
         ALIKE("'requests':['h/l'],'matchAttribute':'x.org/a'"), K ".requests[0]"},
        {"by another sign", &kind_resourceclaim, NULL,
         ALIKE("'requests':['g-l'],'matchAttribute':'x.org/a'"), K ".requests[0]"},
        {"in no way", &kind_resourceclaim, NULL, ALIKE("'requests':['g']"), K},
        {"in a way of nobody", &kind_resourceclaim, NULL, ALIKE("'matchAttribute':'a'"),
         K ".matchAttribute"},
        {"in no name of one", &kind_resourceclaim, NULL, ALIKE("'matchAttribute':'A/b'"),
         K ".matchAttribute"},
        {"the same later", &kind_resourceclaim, ONLY(WISH("")), ONLY(WISH("")), ""},
        {"more later", &kind_resourceclaim, ONLY(WISH("")), ONLY(WISH(",'count':2")), "spec"},
        {"of a template", &kind_claimtemplate, NULL, "{'spec':" ONLY("{'name':'g'}") "}",
         "spec.spec.devices.requests[0]"},
        {"the same template", &kind_claimtemplate, "{'spec':" ONLY(WISH("")) "}",
         "{'spec':" ONLY(WISH("")) "}", ""},
        {"another template later", &kind_claimtemplate, "{'spec':" ONLY(WISH("")) "}",
         "{'spec':{}}", "spec"},
        {"a class for a resource", &kind_deviceclass, NULL, "{'extendedResourceName':'x.org/gpu'}",
         ""},
        {"for one of nobody", &kind_deviceclass, NULL, "{'extendedResourceName':'gpu'}",
         "spec.extendedResourceName"},
        {"for none", &kind_deviceclass, NULL, "{'extendedResourceName':'X/gpu'}",
         "spec.extendedResourceName"},
    };

    refusals_play(rows, COUNT_OF(rows));
}

#define POOL        "'pool':{'name':'p','generation':1,'resourceSliceCount':1}"
#define SLICE(more) "{'driver':'d.org','nodeName':'n'," POOL ",'devices':[" more "]}"

TEST(a_slice_says_whose_devices_it_has)
{
    static const struct refusal rows[] = {
        {"one device", &kind_resourceslice, NULL, SLICE("{'name':'a'}"), ""},
        {"what it is", &kind_resourceslice, NULL,
         SLICE("{'name':'a','attributes':{'x':{'int':1},'y':{'string':'s'}}}"), ""},
        {"what it is twice", &kind_resourceslice, NULL,
         SLICE("{'name':'a','attributes':{'x':{'int':1,'bool':true}}}"),
         "spec.devices[0].attributes[x]"},
        {"two of a name", &kind_resourceslice, NULL, SLICE("{'name':'a'},{'name':'a'}"),
         "spec.devices[1].name"},
        {"what nobody is given", &kind_resourceslice, NULL,
         SLICE("{'name':'a','consumesCounters':[{}]},{'name':'b','bindingConditions':['x']},"
               "{'name':'c','allowMultipleAllocations':true}"),
         ""},
        {"of no pool", &kind_resourceslice, NULL,
         "{'driver':'d.org','nodeName':'n','pool':{'resourceSliceCount':1}}", "spec.pool.name"},
        {"before the first", &kind_resourceslice, NULL,
         "{'driver':'d.org','nodeName':'n','pool':{'name':'p','generation':-1,"
         "'resourceSliceCount':1}}",
         "spec.pool.generation"},
        {"of none", &kind_resourceslice, NULL,
         "{'driver':'d.org','nodeName':'n','pool':{'name':'p','resourceSliceCount':0}}",
         "spec.pool.resourceSliceCount"},
        {"nowhere", &kind_resourceslice, NULL, "{'driver':'d.org'," POOL "}", "spec"},
        {"in two places", &kind_resourceslice, NULL,
         "{'driver':'d.org','nodeName':'n','allNodes':true," POOL "}", "spec"},
        {"other devices later", &kind_resourceslice, SLICE("{'name':'a'}"), SLICE("{'name':'b'}"),
         ""},
        {"of another driver later", &kind_resourceslice,
         "{'driver':'e.org','nodeName':'n'," POOL "}", SLICE(""), "spec"},
        {"elsewhere later", &kind_resourceslice, "{'driver':'d.org','nodeName':'m'," POOL "}",
         SLICE(""), "spec"},
        {"in another pool later", &kind_resourceslice,
         "{'driver':'d.org','nodeName':'n','pool':{'name':'q'}}", SLICE(""), "spec"},
    };

    refusals_play(rows, COUNT_OF(rows));
}

#define USER(uid) "{'resource':'pods','name':'a','uid':'" uid "'}"

TEST(what_was_given_for_a_claim_stays_while_somebody_has_it)
{
    static const struct {
        const char *why;
        const char *before;
        const char *status;
        const char *field;
    } rows[] = {
        {"given", "{}", "{'allocation':{'a':1},'reservedFor':[" USER("u") "," USER("v") "]}", ""},
        {"as before", "{'allocation':{'a':1}}", "{'allocation':{'a':1}}", ""},
        {"given back", "{'allocation':{'a':1}}", "{}", ""},
        {"others", "{'allocation':{'a':1}}", "{'allocation':{'a':2}}", "status.allocation"},
        {"used, and not given", "{}", "{'reservedFor':[" USER("u") "]}", "status.reservedFor"},
        {"used by nobody", "{}", "{'allocation':{},'reservedFor':[{'resource':'pods','name':'a'}]}",
         "status.reservedFor[0].uid"},
        {"used twice", "{}", "{'allocation':{},'reservedFor':[" USER("u") "," USER("u") "]}",
         "status.reservedFor[1].uid"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        const char *const texts[] = {rows[i].before, rows[i].status};
        struct json *trees[2] = {0};

        test_case(rows[i].why);
        for (size_t j = 0; j < 2; j++)
            trees[j] = test_json(
                &arena, str_printf(&arena, "{'metadata':{'name':'q','namespace':'n'},'status':%s}",
                                   texts[j])
                            .p);
        struct admit admit = {.arena = &arena,
                              .kind = &kind_resourceclaim,
                              .subresource = STR("status"),
                              .old = trees[0],
                              .object = trees[1]};
        admit_validate(&admit);
        EXPECT(str_is(admit.causes.count ? admit.causes.items[0].field : STR(""), rows[i].field));
    }
}

#define HOOK(more) \
    "{'metadata':{'name':'w'},'webhooks':[{'name':'a.b.c','sideEffects':'None'," more "}]}"
#define V1       "'admissionReviewVersions':['v1']"
#define URL(url) V1 ",'clientConfig':{'url':'" url "'}"
#define AT(more) V1 ",'clientConfig':{'service':{" more "}}"
#define SERVED   AT("'name':'s','namespace':'n','path':'/p'")
#define RULE(operations, groups, resources, more)                                            \
    "'rules':[{'operations':[" operations "],'apiGroups':[" groups "],'apiVersions':['v1']," \
    "'resources':[" resources "]" more "}]," SERVED
#define H "webhooks[0]"

TEST(a_webhook_can_be_asked)
{
    static const struct refusal rows[] = {
        {"a service", &kind_mutatingwebhooks, NULL, HOOK(SERVED), ""},
        {"an address", &kind_mutatingwebhooks, NULL, HOOK(URL("https://h:8443/p")), ""},
        {"in the open", &kind_mutatingwebhooks, NULL, HOOK(URL("http://h/p")),
         H ".clientConfig.url"},
        {"nowhere", &kind_mutatingwebhooks, NULL, HOOK(URL("https:///p")), H ".clientConfig.url"},
        {"as somebody", &kind_mutatingwebhooks, NULL, HOOK(URL("https://u@h/p")),
         H ".clientConfig.url"},
        {"a place in it", &kind_mutatingwebhooks, NULL, HOOK(URL("https://h/p#f")),
         H ".clientConfig.url"},
        {"a question", &kind_mutatingwebhooks, NULL, HOOK(URL("https://h/p?q")),
         H ".clientConfig.url"},
        {"no service", &kind_mutatingwebhooks, NULL, HOOK(AT("'namespace':'n'")),
         H ".clientConfig.service.name"},
        {"of no namespace", &kind_mutatingwebhooks, NULL, HOOK(AT("'name':'n'")),
         H ".clientConfig.service.namespace"},
        {"not from the root", &kind_mutatingwebhooks, NULL,
         HOOK(AT("'name':'s','namespace':'n','path':'p'")), H ".clientConfig.service.path"},
        {"at no port", &kind_mutatingwebhooks, NULL,
         HOOK(AT("'name':'s','namespace':'n','port':0")), H ".clientConfig.service.port"},
        {"in no version", &kind_mutatingwebhooks, NULL, HOOK("'admissionReviewVersions':[]"),
         H ".admissionReviewVersions"},
        {"in an older one", &kind_mutatingwebhooks, NULL,
         HOOK("'admissionReviewVersions':['v1beta1']"), H ".admissionReviewVersions"},
        {"about all", &kind_mutatingwebhooks, NULL,
         HOOK(RULE("'*'", "'*'", "'*','*/status'", ",'scope':'*'")), ""},
        {"about some", &kind_mutatingwebhooks, NULL,
         HOOK(RULE("'CREATE','UPDATE'", "''", "'pods'", ",'scope':'Namespaced'")), ""},
        {"about all, and more", &kind_mutatingwebhooks, NULL,
         HOOK(RULE("'*','CREATE'", "'*'", "'*'", "")), H ".rules[0].operations"},
        {"about nothing", &kind_mutatingwebhooks, NULL, HOOK(RULE("'CREATE'", "''", "", "")),
         H ".rules[0].resources"},
        {"about what has no name", &kind_mutatingwebhooks, NULL,
         HOOK(RULE("'CREATE'", "''", "''", "")), H ".rules[0].resources[0]"},
        {"about looking", &kind_mutatingwebhooks, NULL, HOOK(RULE("'GET'", "''", "'pods'", "")),
         H ".rules[0].operations[0]"},
        {"about a part", &kind_mutatingwebhooks, NULL,
         HOOK(RULE("'CREATE'", "''", "'pods'", ",'scope':'Some'")), H ".rules[0].scope"},
        {"it may fail", &kind_validatingwebhooks, NULL, HOOK("'failurePolicy':'Ignore'," SERVED),
         ""},
        {"it may do something else", &kind_validatingwebhooks, NULL,
         HOOK("'failurePolicy':'Try'," SERVED), H ".failurePolicy"},
        {"quickly", &kind_validatingwebhooks, NULL, HOOK("'timeoutSeconds':1," SERVED), ""},
        {"in no time", &kind_validatingwebhooks, NULL, HOOK("'timeoutSeconds':0," SERVED),
         H ".timeoutSeconds"},
        {"in an hour", &kind_validatingwebhooks, NULL, HOOK("'timeoutSeconds':31," SERVED),
         H ".timeoutSeconds"},
        {"without a name", &kind_validatingwebhooks, NULL,
         "{'metadata':{'name':'w'},'webhooks':[{}]}", H ".name"},
        {"of two words", &kind_validatingwebhooks, NULL,
         "{'metadata':{'name':'w'},'webhooks':[{'name':'a.b'}]}", H ".name"},
        {"in capitals", &kind_validatingwebhooks, NULL,
         "{'metadata':{'name':'w'},'webhooks':[{'name':'A.b.c'}]}", H ".name"},
        {"twice", &kind_validatingwebhooks, NULL,
         "{'metadata':{'name':'w'},'webhooks':[{'name':'a.b.c','sideEffects':'None'," SERVED
         "},{'name':'a.b.c','sideEffects':'None'," SERVED "}]}",
         "webhooks[1].name"},
    };

    refusals_play_whole(rows, COUNT_OF(rows));
}

#define PORT(more) "{'port':80" more "}"

TEST(a_service_has_ports_and_a_type)
{
    static const struct refusal rows[] = {
        {"one port", &kind_service, NULL, "{'type':'ClusterIP','ports':[" PORT("") "]}", ""},
        {"two", &kind_service, NULL,
         "{'type':'NodePort','ports':[" PORT(",'name':'a'") ",{'port':81,'name':'b'}]}", ""},
        {"one of each protocol", &kind_service, NULL,
         "{'type':'NodePort','ports':[" PORT(",'name':'a'") "," PORT(
             ",'name':'b','protocol':'UDP'") "]}",
         ""},
        {"a port twice", &kind_service, NULL,
         "{'type':'NodePort','ports':[" PORT(",'name':'a'") "," PORT(",'name':'b'") "]}",
         "spec.ports[1]"},
        {"a name twice", &kind_service, NULL,
         "{'type':'NodePort','ports':[" PORT(",'name':'a'") ",{'port':81,'name':'a'}]}",
         "spec.ports[1].name"},
        {"two without a name", &kind_service, NULL,
         "{'type':'NodePort','ports':[" PORT(",'name':'a'") ",{'port':81}]}", "spec.ports[1].name"},
        {"port 0", &kind_service, NULL, "{'type':'ClusterIP','ports':[{'port':0}]}",
         "spec.ports[0].port"},
        {"too high", &kind_service, NULL, "{'type':'ClusterIP','ports':[{'port':65536}]}",
         "spec.ports[0].port"},
        {"none", &kind_service, NULL, "{'type':'LoadBalancer'}", "spec.ports"},
        {"none, and no address", &kind_service, NULL, "{'type':'ClusterIP','clusterIP':'None'}",
         ""},
        {"of another type", &kind_service, NULL, "{'type':'Mesh','ports':[" PORT("") "]}",
         "spec.type"},
        {"a name elsewhere", &kind_service, NULL, "{'type':'ExternalName','externalName':'a.b'}",
         ""},
        {"a name of nothing", &kind_service, NULL, "{'type':'ExternalName'}", "spec.externalName"},
    };

    refusals_play(rows, COUNT_OF(rows));
}

#define RUNS(name)           "'template':{'spec':{'containers':[{'name':'" name "','image':'i'}]}}"
#define TORCH(roles)         "{'pytorchReplicaSpecs':{" roles "}"
#define MASTER               "'Master':{'replicas':1," RUNS("pytorch") "}"
#define WORKER               "'Worker':{" RUNS("pytorch") "}"
#define ELASTIC(roles, more) TORCH(roles) ",'elasticPolicy':{" more "}}"
#define TF(roles)            "{'tfReplicaSpecs':{" roles "}}"
#define MANAGED(who)         TORCH(MASTER) ",'runPolicy':{'managedBy':'" who "'}}"
#define QUEUED(queue)        TORCH(MASTER) ",'runPolicy':{'schedulingPolicy':{'queue':'" queue "'}}}"

TEST(a_job_of_kubeflow_has_the_roles_of_its_kind)
{
    static const struct refusal rows[] = {
        {"both", &kind_pytorchjob, NULL, TORCH(MASTER "," WORKER) "}", ""},
        {"none", &kind_pytorchjob, NULL, "{}", "spec.pytorchReplicaSpecs"},
        {"a chief", &kind_pytorchjob, NULL, TORCH("'Chief':{}") "}",
         "spec.pytorchReplicaSpecs.Chief"},
        {"a master of no count", &kind_pytorchjob, NULL,
         TORCH("'Master':{" RUNS("pytorch") "}") "}", "spec.pytorchReplicaSpecs.Master.replicas"},
        {"two masters", &kind_pytorchjob, NULL,
         TORCH("'Master':{'replicas':2," RUNS("pytorch") "}") "}",
         "spec.pytorchReplicaSpecs.Master.replicas"},
        {"no image", &kind_pytorchjob, NULL,
         TORCH("'Worker':{'template':{'spec':{'containers':[{'name':'pytorch'}]}}}") "}",
         "spec.pytorchReplicaSpecs.Worker.template.spec.containers[0].image"},
        {"more than the limit", &kind_pytorchjob, NULL,
         TORCH("'Worker':{'template':{'spec':{'containers':[{'name':'pytorch','image':'i',"
               "'resources':{'limits':{'cpu':1},'requests':{'cpu':2}}}]}}}") "}",
         "spec.pytorchReplicaSpecs.Worker.template.spec.containers[0].resources.requests"},
        {"two that say the same", &kind_tfjob, NULL,
         TF("'Chief':{" RUNS("tensorflow") "},'Master':{" RUNS("tensorflow") "}"),
         "spec.tfReplicaSpecs.Master"},
        {"one of them", &kind_tfjob, NULL, TF("'Chief':{" RUNS("tensorflow") "}"), ""},
        {"two of it", &kind_tfjob, NULL, TF("'Chief':{'replicas':2," RUNS("tensorflow") "}"),
         "spec.tfReplicaSpecs.Chief.replicas"},
        {"no master where there must be one", &kind_xgboostjob, NULL,
         "{'xgbReplicaSpecs':{'Worker':{" RUNS("xgboost") "}}}", "spec.xgbReplicaSpecs.Master"},
        {"nobody who launches", &kind_mpijob, NULL,
         "{'mpiReplicaSpecs':{'Worker':{" RUNS("any") "}}}", "spec.mpiReplicaSpecs.Launcher"},
        {"elastic", &kind_pytorchjob, NULL, ELASTIC(WORKER, "'minReplicas':1,'maxReplicas':2"), ""},
        {"from some on", &kind_pytorchjob, NULL, ELASTIC(WORKER, "'minReplicas':1"), ""},
        {"up to some", &kind_pytorchjob, NULL, ELASTIC(WORKER, "'maxReplicas':1"), ""},
        {"elastic without workers", &kind_pytorchjob, NULL, ELASTIC(MASTER, ""),
         "spec.elasticPolicy"},
        {"fewer than at least", &kind_pytorchjob, NULL,
         ELASTIC(WORKER, "'minReplicas':3,'maxReplicas':2"), "spec.elasticPolicy.maxReplicas"},
        {"processes", &kind_pytorchjob, NULL, ELASTIC(WORKER, "'nProcPerNode':2"), ""},
        {"processes twice", &kind_pytorchjob, NULL,
         TORCH(WORKER) ",'nprocPerNode':'2','elasticPolicy':{'nProcPerNode':2}}",
         "spec.elasticPolicy.nProcPerNode"},
        {"the same manager", &kind_pytorchjob, MANAGED("x.org/a"), MANAGED("x.org/a"), ""},
        {"another manager", &kind_pytorchjob, MANAGED("x.org/a"), MANAGED("x.org/b"),
         "spec.runPolicy.managedBy"},
        {"another queue", &kind_pytorchjob, QUEUED("a"), QUEUED("b"),
         "spec.runPolicy.schedulingPolicy.queue"},
        {"a queue from now on", &kind_pytorchjob, TORCH(MASTER) "}", QUEUED("b"),
         "spec.runPolicy.schedulingPolicy.queue"},
    };

    refusals_play(rows, COUNT_OF(rows));
}

#define GROUP(type, more) \
    "{'type':'" type "','template':{'spec':{'containers':[{'name':'c'}]}}" more "}"
#define TEAM(more)  "{'replicaSpecs':[" GROUP("worker", "") "]" more "}"
#define GROWS(more) TEAM(",'torchrunConfig':{'enabled':true},'elastic':{'enable':true," more "}")
#define FORTY       "1234567890123456789012345678901234567890"

TEST(a_pytorch_training_job_speaks_of_what_it_has)
{
    static const struct refusal rows[] = {
        {"workers", &kind_pytorchtrainingjob, NULL, TEAM(""), ""},
        {"a role of others", &kind_pytorchtrainingjob, NULL,
         "{'replicaSpecs':[" GROUP("chief", "") "]}", "spec.replicaSpecs[0].type"},
        {"two masters", &kind_pytorchtrainingjob, NULL,
         "{'replicaSpecs':[" GROUP("master", ",'replicas':2") "]}",
         "spec.replicaSpecs[0].replicas"},
        {"one master", &kind_pytorchtrainingjob, NULL,
         "{'replicaSpecs':[" GROUP("master", ",'replicas':1") "]}", ""},
        {"grows", &kind_pytorchtrainingjob, NULL,
         GROWS("'minReplicas':1,'maxReplicas':2,'expectedReplicas':2"), ""},
        {"grows by itself", &kind_pytorchtrainingjob, NULL,
         TEAM(",'elastic':{'enabled':true,'minReplicas':1,'maxReplicas':2}"),
         "spec.torchrunConfig"},
        {"from where", &kind_pytorchtrainingjob, NULL, GROWS("'maxReplicas':2"),
         "spec.elastic.minReplicas"},
        {"to where", &kind_pytorchtrainingjob, NULL, GROWS("'minReplicas':2"),
         "spec.elastic.maxReplicas"},
        {"backwards", &kind_pytorchtrainingjob, NULL, GROWS("'minReplicas':2,'maxReplicas':1"),
         "spec.elastic.maxReplicas"},
        {"beyond", &kind_pytorchtrainingjob, NULL,
         GROWS("'minReplicas':1,'maxReplicas':2,'expectedReplicas':3"),
         "spec.elastic.expectedReplicas"},
        {"below", &kind_pytorchtrainingjob, NULL,
         GROWS("'minReplicas':2,'maxReplicas':2,'expectedReplicas':1"),
         "spec.elastic.expectedReplicas"},
        {"looked into", &kind_pytorchtrainingjob, NULL,
         TEAM(",'runMode':{'debug':{'enable':true,'replicaSpecs':[{'type':'worker'}]}}"), ""},
        {"looked into where nobody is", &kind_pytorchtrainingjob, NULL,
         TEAM(",'runMode':{'debug':{'replicaSpecs':[{'type':'master'}]}}"),
         "spec.runMode.debug.replicaSpecs[0].type"},
        {"on again where nobody is", &kind_pytorchtrainingjob, NULL,
         TEAM(",'runMode':{'pause':{'resumeSpecs':[{'type':'worker'},{'type':'ps'}]}}"),
         "spec.runMode.pause.resumeSpecs[1].type"},
        {"looked into and stopped", &kind_pytorchtrainingjob, NULL,
         TEAM(",'runMode':{'debug':{'enable':true},'pause':{'enabled':true}}"),
         "spec.runMode.pause"},
        {"stopped", &kind_pytorchtrainingjob, NULL, TEAM(",'runMode':{'pause':{'enabled':true}}"),
         ""},
        {"in a queue", &kind_pytorchtrainingjob, NULL,
         TEAM(",'scheduler':{'t9kScheduler':{'queue':'q'}}"), ""},
        {"as older documents write it", &kind_pytorchtrainingjob, NULL,
         TEAM(",'scheduler':{'t9kScheduler':{'Queue':'q'}}"), ""},
        {"in none", &kind_pytorchtrainingjob, NULL, TEAM(",'scheduler':{'t9kScheduler':{}}"),
         "spec.scheduler.t9kScheduler.queue"},
        {"a process a GPU", &kind_pytorchtrainingjob, NULL,
         TEAM(",'torchrunConfig':{'procPerNode':'gpu'}"), ""},
        {"a process a CPU", &kind_pytorchtrainingjob, NULL,
         TEAM(",'torchrunConfig':{'procPerNode':'cpu'}"), ""},
        {"as it likes", &kind_pytorchtrainingjob, NULL,
         TEAM(",'torchrunConfig':{'procPerNode':'auto'}"), ""},
        {"two", &kind_pytorchtrainingjob, NULL, TEAM(",'torchrunConfig':{'procPerNode':'2'}"), ""},
        {"no process", &kind_pytorchtrainingjob, NULL,
         TEAM(",'torchrunConfig':{'procPerNode':'0'}"), "spec.torchrunConfig.procPerNode"},
        {"some", &kind_pytorchtrainingjob, NULL, TEAM(",'torchrunConfig':{'procPerNode':'some'}"),
         "spec.torchrunConfig.procPerNode"},
        {"another queue later", &kind_pytorchtrainingjob,
         TEAM(",'scheduler':{'t9kScheduler':{'queue':'p'}}"),
         TEAM(",'scheduler':{'t9kScheduler':{'queue':'q'}}"), "spec.scheduler"},
        {"more later", &kind_pytorchtrainingjob, TEAM(""),
         "{'replicaSpecs':[" GROUP("worker", ",'replicas':2") "]}", ""},
        {"as it was, whatever the rules are now", &kind_pytorchtrainingjob,
         "{'replicaSpecs':[" GROUP("chief", "") "]}", "{'replicaSpecs':[" GROUP("chief", "") "]}",
         ""},
    };
    static const struct refusal named[] = {
        {"a number first", &kind_pytorchtrainingjob, NULL,
         "{'metadata':{'name':'1a','namespace':'n'},'spec':" TEAM("") "}", "metadata.name"},
        {"names that are too long", &kind_pytorchtrainingjob, NULL,
         "{'metadata':{'name':'a" FORTY "12345678901234','namespace':'n'},'spec':" TEAM("") "}",
         "spec.replicaSpecs[0].type"},
    };

    refusals_play(rows, COUNT_OF(rows));
    refusals_play_whole(named, COUNT_OF(named));
}
