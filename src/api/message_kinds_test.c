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
