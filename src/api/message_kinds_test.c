#include "api/kind.h"
#include "api/refusal_test.h"
#include "base/count.h"
#include "test.h"

#include <stddef.h>

/* What is refused here, and at which field, is what a kube-apiserver 1.33.13 answers to the same. */

#define META "'metadata':{'name':'q','namespace':'n'}"
#define FLOW(rule) \
    "{" META ",'spec':{'priorityLevelConfiguration':{'name':'l'},'rules':[{" rule "}]}}"
#define USER         "'subjects':[{'kind':'User','user':{'name':'u'}}]"
#define PODS(more)   "'resourceRules':[{'apiGroups':[''],'resources':['pods']," more "}]"
#define GET          "'verbs':['get']"
#define PATHS(paths) USER ",'nonResourceRules':[{" GET ",'nonResourceURLs':[" paths "]}]"

TEST(a_flow_schema_says_whose_requests_it_is_about)
{
    static const struct refusal rows[] = {
        {"pods", &kind_flowschema, NULL, FLOW(USER "," PODS(GET ",'namespaces':['*']")), ""},
        {"of no namespace", &kind_flowschema, NULL, FLOW(USER "," PODS(GET)),
         "spec.rules[0].resourceRules[0].namespaces"},
        {"of the cluster", &kind_flowschema, NULL, FLOW(USER "," PODS(GET ",'clusterScope':true")),
         ""},
        {"of all and one", &kind_flowschema, NULL,
         FLOW(USER "," PODS(GET ",'namespaces':['*','a']")),
         "spec.rules[0].resourceRules[0].namespaces"},
        {"by a verb that is none", &kind_flowschema, NULL,
         FLOW(USER "," PODS("'verbs':['look'],'namespaces':['*']")),
         "spec.rules[0].resourceRules[0].verbs"},
        {"about nothing", &kind_flowschema, NULL, FLOW(USER), "spec.rules[0]"},
        {"a path below", &kind_flowschema, NULL, FLOW(PATHS("'/x/*'")), ""},
        {"a path inside", &kind_flowschema, NULL, FLOW(PATHS("'/*/x'")),
         "spec.rules[0].nonResourceRules[0].nonResourceURLs[0]"},
        {"of a user that is a group", &kind_flowschema, NULL,
         FLOW("'subjects':[{'kind':'User','group':{'name':'u'}}]," PODS(GET ",'namespaces':['*']")),
         "spec.rules[0].subjects[0].user"},
        {"before all others", &kind_flowschema, NULL,
         "{" META ",'spec':{'priorityLevelConfiguration':{'name':'l'},'matchingPrecedence':1}}",
         "spec.matchingPrecedence"},
    };

    refusals_play_whole(rows, COUNT_OF(rows));
}

#define CLASS(terms) "{" META ",'provisioner':'a.b/c','allowedTopologies':[" terms "]}"
#define ZONE(values) "{'key':'zone','values':[" values "]}"
#define TERM(labels) "{'matchLabelExpressions':[" labels "]}"

TEST(a_class_is_reached_from_nodes_that_are_named_once)
{
    static const struct refusal rows[] = {
        {"a zone", &kind_storageclass, NULL, CLASS(TERM(ZONE("'a','b'"))), ""},
        {"no value", &kind_storageclass, NULL, CLASS(TERM(ZONE(""))),
         "allowedTopologies[0].matchLabelExpressions[0].values"},
        {"a value twice", &kind_storageclass, NULL, CLASS(TERM(ZONE("'a','a'"))),
         "allowedTopologies[0].matchLabelExpressions[0].values[1]"},
        {"a key twice", &kind_storageclass, NULL, CLASS(TERM(ZONE("'a'") "," ZONE("'b'"))),
         "allowedTopologies[0].matchLabelExpressions[1].key"},
        {"the same twice", &kind_storageclass, NULL, CLASS(TERM(ZONE("'a'")) "," TERM(ZONE("'a'"))),
         "allowedTopologies[1].matchLabelExpressions"},
        {"nothing", &kind_storageclass, NULL, CLASS(TERM("")),
         "allowedTopologies[0].matchLabelExpressions"},
    };

    refusals_play_whole(rows, COUNT_OF(rows));
}

#define POLICY(rule, more) \
    "{" META ",'spec':{'matchConstraints':{'resourceRules':[{" rule "}]}," more "}}"
#define ANY           "'apiGroups':[''],'apiVersions':['v1']"
#define CREATES       ANY ",'operations':['CREATE'],'resources':['pods']"
#define HOLDS         "'validations':[{'expression':'true'}]"
#define RULE          "spec.matchConstraints.resourceRules[0]"
#define BINDING(more) "{" META ",'spec':{'policyName':'p'," more "}}"

TEST(a_policy_says_which_requests_it_is_about)
{
    static const struct refusal rows[] = {
        {"creates", &kind_admissionpolicy, NULL, POLICY(CREATES, HOLDS), ""},
        {"ways to a pod", &kind_admissionpolicy, NULL,
         POLICY(ANY ",'operations':['CONNECT'],'resources':['pods/*']", HOLDS), ""},
        {"all and one", &kind_admissionpolicy, NULL,
         POLICY(ANY ",'operations':['*','CREATE'],'resources':['pods']", HOLDS),
         RULE ".operations"},
        {"looking", &kind_admissionpolicy, NULL,
         POLICY(ANY ",'operations':['LOOK'],'resources':['pods']", HOLDS), RULE ".operations[0]"},
        {"nothing", &kind_admissionpolicy, NULL, POLICY("", HOLDS), RULE ".operations"},
        {"of no version", &kind_admissionpolicy, NULL,
         POLICY("'apiGroups':[''],'apiVersions':[''],'operations':['*'],'resources':['pods']",
                HOLDS),
         RULE ".apiVersions[0]"},
        {"a part twice", &kind_admissionpolicy, NULL,
         POLICY(ANY ",'operations':['*'],'resources':['pods/*','pods/log']", HOLDS),
         RULE ".resources[1]"},
        {"a name twice", &kind_admissionpolicy, NULL,
         POLICY(CREATES ",'resourceNames':['a','a']", HOLDS), RULE ".resourceNames[1]"},
        {"somewhere", &kind_admissionpolicy, NULL, POLICY(CREATES ",'scope':'Some'", HOLDS),
         RULE ".scope"},
        {"perhaps", &kind_admissionpolicy, NULL, POLICY(CREATES, HOLDS ",'failurePolicy':'Maybe'"),
         "spec.failurePolicy"},
        {"for a reason", &kind_admissionpolicy, NULL,
         POLICY(CREATES, "'validations':[{'expression':'true','reason':'Maybe'}]"),
         "spec.validations[0].reason"},
        {"a condition without a name", &kind_admissionpolicy, NULL,
         POLICY(CREATES, HOLDS ",'matchConditions':[{'expression':'true'}]"),
         "spec.matchConditions[0].name"},
        {"one twice", &kind_admissionpolicy, NULL,
         POLICY(CREATES, HOLDS ",'matchConditions':[{'name':'a','expression':'true'},{'name':'a',"
                               "'expression':'true'}]"),
         "spec.matchConditions[1].name"},
        {"put into force", &kind_admissionbinding, NULL, BINDING("'validationActions':['Deny']"),
         ""},
        {"without an action", &kind_admissionbinding, NULL, BINDING("'paramRef':null"),
         "spec.validationActions"},
        {"with another one", &kind_admissionbinding, NULL,
         BINDING("'validationActions':['Refuse']"), "spec.validationActions[0]"},
        {"twice", &kind_admissionbinding, NULL, BINDING("'validationActions':['Deny','Deny']"),
         "spec.validationActions[1]"},
        {"without parameters, perhaps", &kind_admissionbinding, NULL,
         BINDING("'validationActions':['Deny'],'paramRef':{'name':'a','parameterNotFoundAction':"
                 "'Maybe'}"),
         "spec.paramRef.parameterNotFoundAction"},
        {"chosen nearly", &kind_admissionbinding, NULL,
         BINDING("'validationActions':['Deny'],'matchResources':{'objectSelector':{"
                 "'matchExpressions':[{'key':'a','operator':'Near'}]}}"),
         "spec.matchResources.objectSelector.matchExpressions[0].operator"},
    };

    refusals_play_whole(rows, COUNT_OF(rows));
}

#define SERVICE(more) "{'metadata':{'name':'s','namespace':'n'},'spec':{" more "}}"
#define ONE_PORT      "'ports':[{'port':80}]"
#define SIZE(more)                                                                               \
    "{" META ",'spec':{'accessModes':['ReadWriteOnce'],'resources':{'requests':{'storage':'1Gi'" \
    "}}" more "}}"
#define DISK(path)                                                                                \
    "{" META ",'spec':{'accessModes':['ReadWriteOnce'],'capacity':{'storage':'1Gi'},'hostPath':{" \
    "'path':'" path "'}}}"

TEST(what_make_differ_found_is_refused)
{
    static const struct refusal rows[] = {
        {"from outside, though it is inside", &kind_service, NULL,
         SERVICE(ONE_PORT ",'type':'ClusterIP','externalTrafficPolicy':'Local'"),
         "spec.externalTrafficPolicy"},
        {"from some, though nothing balances", &kind_service, NULL,
         SERVICE(ONE_PORT ",'type':'ClusterIP','loadBalancerSourceRanges':['10.0.0.0/8']"),
         "spec.LoadBalancerSourceRanges"},
        {"a name elsewhere with an address", &kind_service, NULL,
         SERVICE("'type':'ExternalName','externalName':'a.b','clusterIP':'10.0.0.1'"),
         "spec.clusterIPs"},
        {"two first addresses", &kind_service, NULL,
         SERVICE(ONE_PORT ",'type':'ClusterIP','clusterIP':'None','clusterIPs':['10.0.0.1']"),
         "spec.clusterIPs"},
        {"a name that only ExternalName reads", &kind_service, NULL,
         SERVICE(ONE_PORT ",'type':'ClusterIP','externalName':'No Name'"), ""},
        {"a key in both", &kind_configmap, NULL,
         "{" META ",'data':{'a':'b'},'binaryData':{'a':'Yg=='}}", "data[a]"},
        {"a prefix that is none", &kind_configmap, NULL,
         "{'metadata':{'name':'q','namespace':'n','generateName':'No Such'}}",
         "metadata.generateName"},
        {"one with a dash", &kind_configmap, NULL,
         "{'metadata':{'name':'q','namespace':'n','generateName':'a-'}}", ""},
        {"a finalizer of nobody", &kind_configmap, NULL,
         "{'metadata':{'name':'q','namespace':'n','finalizers':['x']}}", "metadata.finalizers[0]"},
        {"addresses of nothing", &kind_endpoints, NULL, "{" META ",'subsets':[{}]}", "subsets[0]"},
        {"more than all", &kind_pdb, NULL, "{" META ",'spec':{'maxUnavailable':'110%'}}",
         "spec.maxUnavailable"},
        {"a port twice", &kind_ingress, NULL,
         "{" META
         ",'spec':{'defaultBackend':{'service':{'name':'s','port':{'name':'a','number':1}}}}"
         "}",
         "spec.defaultBackend"},
        {"a class without a name", &kind_ingress, NULL,
         "{" META ",'spec':{'ingressClassName':'','defaultBackend':{'service':{'name':'s','port':{"
         "'number':1}}}}}",
         "spec.ingressClassName"},
        {"nodes of no label", &kind_runtimeclass, NULL,
         "{" META ",'handler':'h','scheduling':{'nodeSelector':{'':'x'}}}",
         "scheduling.nodeSelector"},
        {"an account of no name", &kind_rolebinding, NULL,
         "{" META ",'roleRef':{'kind':'Role','name':'r','apiGroup':'rbac.authorization.k8s.io'},"
         "'subjects':[{'kind':'ServiceAccount','name':'No Name','namespace':'n'}]}",
         "subjects[0].name"},
        {"another class of a claim", &kind_pvc, SIZE(",'storageClassName':'a'"),
         SIZE(",'storageClassName':'b'"), "spec"},
        {"a class that was not said", &kind_pvc, SIZE(""), SIZE(",'storageClassName':'b'"), ""},
        {"a volume somewhere else", &kind_pv, DISK("/a"), DISK("/b"),
         "spec.persistentvolumesource"},
        {"a volume where it was", &kind_pv, DISK("/a"), DISK("/a"), ""},
    };

    refusals_play_whole(rows, COUNT_OF(rows));
}

#define PRIORITY(name, more) "{'metadata':{'name':'" name "'}," more "}"

TEST(the_highest_priorities_are_those_of_the_system)
{
    static const struct refusal rows[] = {
        {"the highest of a user", &kind_priorityclass, NULL, PRIORITY("p", "'value':1000000000"),
         ""},
        {"a higher one", &kind_priorityclass, NULL, PRIORITY("p", "'value':1000000001"), "value"},
        {"the cluster's", &kind_priorityclass, NULL,
         PRIORITY("system-cluster-critical", "'value':2000000000"), ""},
        {"for all", &kind_priorityclass, NULL,
         PRIORITY("system-cluster-critical", "'value':2000000000,'globalDefault':true"),
         "metadata.name"},
        {"of another value", &kind_priorityclass, NULL,
         PRIORITY("system-node-critical", "'value':5"), "metadata.name"},
        {"one more", &kind_priorityclass, NULL, PRIORITY("system-x", "'value':5"), "metadata.name"},
    };

    refusals_play_whole(rows, COUNT_OF(rows));
}

#define SLICE(type, endpoint, ports) \
    "{" META ",'addressType':'" type "','endpoints':[{" endpoint "}],'ports':[" ports "]}"

TEST(an_endpoint_slice_has_addresses_of_its_type)
{
    static const struct refusal rows[] = {
        {"an address", &kind_endpointslice, NULL, SLICE("IPv4", "'addresses':['10.0.0.1']", ""),
         ""},
        {"another sort", &kind_endpointslice, NULL, SLICE("IPv6", "'addresses':['10.0.0.1']", ""),
         "endpoints[0].addresses"},
        {"a name", &kind_endpointslice, NULL, SLICE("IPv4", "'addresses':['a.b']", ""),
         "endpoints[0].addresses[0]"},
        {"a name of names", &kind_endpointslice, NULL, SLICE("FQDN", "'addresses':['a.b']", ""),
         ""},
        {"a port twice", &kind_endpointslice, NULL,
         SLICE("IPv4", "'addresses':['10.0.0.1']",
               "{'name':'a','protocol':'TCP'},{'name':'a','protocol':'TCP'}"),
         "ports[1].name"},
        {"a zone twice", &kind_endpointslice, NULL,
         SLICE("IPv4", "'addresses':['10.0.0.1'],'hints':{'forZones':[{'name':'z'},{'name':'z'}]}",
               ""),
         "endpoints[0].hints.forZones[1].name"},
        {"on no node", &kind_endpointslice, NULL,
         SLICE("IPv4", "'addresses':['10.0.0.1'],'nodeName':''", ""), "endpoints[0].nodeName"},
    };

    refusals_play_whole(rows, COUNT_OF(rows));
}

#define JOB(more)                                                                     \
    "{'completionMode':'Indexed','completions':3,'template':{'spec':{'restartPolicy'" \
    ":'Never','containers':[{'name':'c','image':'i'}]}}," more "}"
#define SUCCESS(rule)   JOB("'successPolicy':{'rules':[{" rule "}]}")
#define FAILURE(action) JOB("'podFailurePolicy':{'rules':[{" action "}]}")
#define EXITS(more)     FAILURE("'action':'FailJob','onExitCodes':{" more "}")

TEST(policies_of_a_job_fit_its_indexes_and_containers)
{
    static const struct refusal rows[] = {
        {"two of three", &kind_job, NULL, SUCCESS("'succeededIndexes':'0,2'"), ""},
        {"one that is not there", &kind_job, NULL, SUCCESS("'succeededIndexes':'0-3'"),
         "spec.successPolicy.rules[0].succeededIndexes"},
        {"back and forth", &kind_job, NULL, SUCCESS("'succeededIndexes':'2,1'"),
         "spec.successPolicy.rules[0].succeededIndexes"},
        {"more than there are", &kind_job, NULL,
         SUCCESS("'succeededIndexes':'0-1','succeededCount':3"),
         "spec.successPolicy.rules[0].succeededCount"},
        {"no rule", &kind_job, NULL, SUCCESS(""), "spec.successPolicy.rules[0]"},
        {"an exit code", &kind_job, NULL, EXITS("'operator':'In','values':[1,2]"), ""},
        {"of a container that is not there", &kind_job, NULL,
         EXITS("'containerName':'d','operator':'In','values':[1]"),
         "spec.podFailurePolicy.rules[0].onExitCodes.containerName"},
        {"success", &kind_job, NULL, EXITS("'operator':'In','values':[0,1]"),
         "spec.podFailurePolicy.rules[0].onExitCodes.values[0]"},
        {"not in order", &kind_job, NULL, EXITS("'operator':'In','values':[2,1]"),
         "spec.podFailurePolicy.rules[0].onExitCodes.values"},
        {"fails an index that has no limit", &kind_job, NULL,
         FAILURE("'action':'FailIndex','onPodConditions':[{'type':'a','status':'True'}]"),
         "spec.podFailurePolicy.rules[0].action"},
    };

    refusals_play(rows, COUNT_OF(rows));
}
