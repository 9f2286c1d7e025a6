#include "api/admit.h"
#include "api/kind.h"
#include "api/message_look.h"
#include "api/refusal_test.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/json.h"
#include "base/str.h"
#include "test.h"

#include <stddef.h>
#include <string.h>

/* What is refused here, and at which field, is what a kube-apiserver 1.33.13 answered to make differ. */

#define POD(more)       "{'containers':[{'name':'c','image':'i'}]," more "}"
#define VARIABLE(value) "{'containers':[{'name':'c','image':'i','env':[{'name':'A'," value "}]}]}"
#define NODES(list, term)                                                                \
    POD("'affinity':{'nodeAffinity':{'requiredDuringSchedulingIgnoredDuringExecution':{" \
        "'nodeSelectorTerms':[{'" list "':[{" term "}]}]}}}")
#define NODES_AT(list)                                                           \
    "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution." \
    "nodeSelectorTerms[0]." list "[0]"
#define SPREAD(selector)                                                                   \
    POD("'topologySpreadConstraints':[{'maxSkew':1,'topologyKey':'z','whenUnsatisfiable':" \
        "'DoNotSchedule','labelSelector':{" selector "}}]")
#define SPREAD_AT "spec.topologySpreadConstraints[0].labelSelector."

TEST(what_chooses_nodes_and_pods_is_a_choice)
{
    static const struct refusal rows[] = {
        {"labels", &kind_pod, NULL, SPREAD("'matchLabels':{'a.b/c':'d'}"), ""},
        {"no key", &kind_pod, NULL, SPREAD("'matchLabels':{'-a':'d'}"), SPREAD_AT "matchLabels"},
        {"no value", &kind_pod, NULL, SPREAD("'matchLabels':{'a':'a b'}"), SPREAD_AT "matchLabels"},
        {"one of none", &kind_pod, NULL, SPREAD("'matchExpressions':[{'key':'a','operator':'In'}]"),
         SPREAD_AT "matchExpressions[0].values"},
        {"there, with a value", &kind_pod, NULL,
         SPREAD("'matchExpressions':[{'key':'a','operator':'Exists','values':['b']}]"),
         SPREAD_AT "matchExpressions[0].values"},
        {"an operator of nodes", &kind_pod, NULL,
         SPREAD("'matchExpressions':[{'key':'a','operator':'Gt','values':['1']}]"),
         SPREAD_AT "matchExpressions[0].operator"},
        {"nodes", &kind_pod, NULL,
         NODES("matchExpressions", "'key':'a','operator':'Gt','values':['1']"), ""},
        {"above two", &kind_pod, NULL,
         NODES("matchExpressions", "'key':'a','operator':'Gt','values':['1','2']"),
         NODES_AT("matchExpressions") ".values"},
        {"a node", &kind_pod, NULL,
         NODES("matchFields", "'key':'metadata.name','operator':'In','values':['n']"), ""},
        {"two nodes", &kind_pod, NULL,
         NODES("matchFields", "'key':'metadata.name','operator':'In','values':['n','m']"),
         NODES_AT("matchFields") ".values"},
        {"another field", &kind_pod, NULL,
         NODES("matchFields", "'key':'spec.x','operator':'In','values':['n']"),
         NODES_AT("matchFields") ".key"},
        {"a label of nodes", &kind_pod, NULL, POD("'nodeSelector':{'a/b/c':'d'}"),
         "spec.nodeSelector"},
        {"every taint", &kind_pod, NULL, POD("'tolerations':[{'operator':'Exists'}]"), ""},
        {"no taint", &kind_pod, NULL, POD("'tolerations':[{'value':'b'}]"),
         "spec.tolerations[0].operator"},
        {"a time for what drives nobody out", &kind_pod, NULL,
         POD("'tolerations':[{'key':'a','effect':'NoSchedule','tolerationSeconds':5}]"),
         "spec.tolerations[0].effect"},
    };

    refusals_play(rows, COUNT_OF(rows));
}

#define SPREADS(more) POD("'topologySpreadConstraints':[{'maxSkew':1,'topologyKey':'z'," more "}]")
#define NEAR(more)                                                                       \
    POD("'affinity':{'podAffinity':{'requiredDuringSchedulingIgnoredDuringExecution':[{" \
        "'topologyKey':'z'," more "}]}}")
#define NEAR_AT "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0]."
#define ALL     "'labelSelector':{'matchLabels':{'a':'b'}}"
#define HARD    "'whenUnsatisfiable':'DoNotSchedule'"

TEST(labels_that_the_pod_has_are_added_to_a_selector)
{
    static const struct refusal rows[] = {
        {"one more", &kind_pod, NULL, SPREADS(HARD "," ALL ",'matchLabelKeys':['k']"), ""},
        {"one of it", &kind_pod, NULL, SPREADS(HARD "," ALL ",'matchLabelKeys':['k','a']"),
         "spec.topologySpreadConstraints[0].matchLabelKeys[1]"},
        {"to none", &kind_pod, NULL, SPREADS(HARD ",'matchLabelKeys':['k']"),
         "spec.topologySpreadConstraints[0].matchLabelKeys"},
        {"domains of a wish", &kind_pod, NULL,
         SPREADS("'whenUnsatisfiable':'ScheduleAnyway','minDomains':2," ALL),
         "spec.topologySpreadConstraints[0].minDomains"},
        {"near", &kind_pod, NULL, NEAR(ALL ",'mismatchLabelKeys':['k']"), ""},
        {"near what has no label", &kind_pod, NULL, NEAR(ALL ",'matchLabelKeys':['a b']"),
         NEAR_AT "matchLabelKeys[0]"},
        {"near all", &kind_pod, NULL, NEAR("'mismatchLabelKeys':['k']"),
         NEAR_AT "mismatchLabelKeys"},
    };

    refusals_play(rows, COUNT_OF(rows));
}

#define VOLUME(spec)                                                         \
    POD("'volumes':[{'name':'v','ephemeral':{'volumeClaimTemplate':{'spec':" \
        "{" spec "}}}}]")
#define TEMPLATE_AT "spec.volumes[0].ephemeral.volumeClaimTemplate.spec."
#define ROOM        "'resources':{'requests':{'storage':'1Gi'}}"

TEST(a_claim_of_a_pod_is_checked_as_any_claim)
{
    static const struct refusal rows[] = {
        {"a claim", &kind_pod, NULL, VOLUME("'accessModes':['ReadWriteOnce']," ROOM), ""},
        {"no mode", &kind_pod, NULL, VOLUME(ROOM), TEMPLATE_AT "accessModes"},
        {"two modes", &kind_pod, NULL,
         VOLUME("'accessModes':['ReadWriteOnce','ReadWriteOncePod']," ROOM),
         TEMPLATE_AT "accessModes"},
        {"no room", &kind_pod, NULL, VOLUME("'accessModes':['ReadWriteOnce']"),
         TEMPLATE_AT "resources[storage]"},
        {"of no class", &kind_pvc, NULL,
         "{'accessModes':['ReadWriteOnce'],'storageClassName':'A b'," ROOM "}",
         "spec.storageClassName"},
    };

    refusals_play(rows, COUNT_OF(rows));
}

#define SECRET(type, data) \
    "{'metadata':{'name':'q','namespace':'n'},'type':'" type "','data':{" data "}}"

TEST(a_secret_has_what_its_type_says)
{
    static const struct refusal rows[] = {
        {"a certificate", &kind_secret, NULL,
         SECRET("kubernetes.io/tls", "'tls.crt':'','tls.key':''"), ""},
        {"without its key", &kind_secret, NULL, SECRET("kubernetes.io/tls", "'tls.crt':''"),
         "data[tls.key]"},
        {"a password", &kind_secret, NULL, SECRET("kubernetes.io/basic-auth", "'password':''"), ""},
        {"neither", &kind_secret, NULL, SECRET("kubernetes.io/basic-auth", ""), "data[username]"},
        {"a registry", &kind_secret, NULL,
         SECRET("kubernetes.io/dockerconfigjson", "'.dockerconfigjson':'e30='"), ""},
        {"no JSON", &kind_secret, NULL,
         SECRET("kubernetes.io/dockerconfigjson", "'.dockerconfigjson':'YQ=='"),
         "data[.dockerconfigjson]"},
        {"of nobody", &kind_secret, NULL, SECRET("kubernetes.io/service-account-token", ""),
         "metadata.annotations[kubernetes.io/service-account.name]"},
    };

    refusals_play_whole(rows, COUNT_OF(rows));
}

TEST(what_containers_are_told_is_said_once)
{
    static const struct refusal rows[] = {
        {"two values", &kind_pod, NULL,
         VARIABLE("'value':'b','valueFrom':{'fieldRef':{'apiVersion':'v1','fieldPath':"
                  "'metadata.name'}}"),
         "spec.containers[0].env[0].valueFrom"},
        {"a field of another version", &kind_pod, NULL,
         VARIABLE("'valueFrom':{'fieldRef':{'apiVersion':'v2','fieldPath':'metadata.name'}}"),
         "spec.containers[0].env[0].valueFrom.fieldRef.fieldPath"},
        {"CPUs by the thousand", &kind_pod, NULL,
         VARIABLE("'valueFrom':{'resourceFieldRef':{'resource':'limits.cpu','divisor':'1k'}}"),
         "spec.containers[0].env[0].valueFrom.resourceFieldRef.divisor"},
        {"a profile that is not read", &kind_pod, NULL,
         POD("'securityContext':{'seccompProfile':{'type':'RuntimeDefault','localhostProfile':"
             "'p'}}"),
         "spec.securityContext.seccompProfile.localhostProfile"},
        {"no name server", &kind_pod, NULL, POD("'dnsPolicy':'None','dnsConfig':{}"),
         "spec.dnsConfig.nameservers"},
    };

    refusals_play(rows, COUNT_OF(rows));
}

#define PORT "'ports':[{'port':80,'protocol':'TCP'}]"

TEST(a_service_has_what_its_type_has)
{
    static const struct refusal rows[] = {
        {"a class of balancers", &kind_service, NULL,
         "{'type':'ClusterIP','loadBalancerClass':'a.b/c'," PORT "}", "spec.loadBalancerClass"},
        {"a check of balancers", &kind_service, NULL,
         "{'type':'ClusterIP','healthCheckNodePort':30000," PORT "}", "spec.healthCheckNodePort"},
        {"a label that is none", &kind_service, NULL,
         "{'type':'ClusterIP','selector':{'a b':'c'}," PORT "}", "spec.selector"},
        {"another way to share", &kind_service, NULL,
         "{'type':'ClusterIP','trafficDistribution':'Near'," PORT "}", "spec.trafficDistribution"},
    };

    refusals_play(rows, COUNT_OF(rows));
}

#define ROLE(rule) "{'metadata':{'name':'q','namespace':'n'},'rules':[{'verbs':['get']," rule "}]}"

TEST(a_rule_is_about_something)
{
    static const struct refusal rows[] = {
        {"pods", &kind_role, NULL, ROLE("'apiGroups':[''],'resources':['pods']"), ""},
        {"of no group", &kind_role, NULL, ROLE("'resources':['pods']"), "rules[0].apiGroups"},
        {"nothing", &kind_role, NULL, ROLE("'apiGroups':['']"), "rules[0].resources"},
        {"a path, in a namespace", &kind_role, NULL, ROLE("'nonResourceURLs':['/x']"),
         "rules[0].nonResourceURLs"},
    };

    refusals_play_whole(rows, COUNT_OF(rows));
}

TEST(both_names_of_a_service_account_say_the_same)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct json *object = test_json(
        &arena, "{'metadata':{},'spec':{'template':{'spec':{'serviceAccountName':'a'}}}}");
    struct json *stored = test_json(
        &arena, "{'metadata':{},'spec':{'template':{'spec':{'serviceAccountName':'a'}}}}");
    struct admit admit = {.arena = &arena, .kind = &kind_deployment, .object = object};

    EXPECT(admit_default(&admit, NULL) == 0);
    EXPECT(str_is(json_str_at(object, "spec.template.spec.serviceAccount"), "a"));
    test_case("a template that is stored without makes no other pods");
    json_remove(json_at(object, "spec.template.spec"), STR("serviceAccount"));
    admit.old = stored;
    EXPECT(admit_default(&admit, NULL) == 0);
    EXPECT(!json_at(object, "spec.template.spec.serviceAccount"));
}

/* One that stands elsewhere is never found. */
static void expect_in_order(const struct message_rule *table, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        test_case(table[i].name);
        EXPECT(strcmp(table[i - 1].name, table[i].name) <= 0);
    }
}

TEST(rules_of_messages_stand_in_the_order_of_their_names)
{
    expect_in_order(message_common, message_common_count);
    expect_in_order(message_kinds, message_kind_count);
}
