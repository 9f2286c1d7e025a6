#include "api/kind.h"
#include "api/refusal_test.h"
#include "base/count.h"
#include "test.h"

#include <stddef.h>

/* What the tables of types say of values. That of each field is held against Kubernetes by `make
 * differ`; here is one of each sort, and what a mistake in it would do. */

#define POD(container, more)                                                                     \
    "{'metadata':{'name':'q'},'spec':{'containers':[{'name':'c','image':'i'" container "}]" more \
    "}}"
#define PROBE(more)  POD(",'livenessProbe':{" more "}", "")
#define BUDGET(spec) "{'metadata':{'name':'q'},'spec':{'selector':{}," spec "}}"
#define HOST(ip)     POD("", ",'hostAliases':[{'ip':'" ip "'}]")
#define C            "spec.containers[0]"

TEST(values_are_those_that_the_types_have)
{
    static const struct refusal rows[] = {
        {"a budget of a word would protect nothing", &kind_pdb, NULL,
         BUDGET("'minAvailable':'al1'"), "spec.minAvailable"},
        {"of less than none", &kind_pdb, NULL, BUDGET("'maxUnavailable':-1"),
         "spec.maxUnavailable"},
        {"of some", &kind_pdb, NULL, BUDGET("'maxUnavailable':'30%'"), ""},
        {"a probe without a way to ask", &kind_pod, NULL, PROBE("'periodSeconds':5"),
         C ".livenessProbe"},
        {"with two", &kind_pod, NULL, PROBE("'exec':{'command':['a']},'tcpSocket':{'port':1}"),
         C ".livenessProbe.tcpSocket"},
        {"to no port", &kind_pod, NULL, PROBE("'tcpSocket':{'port':70000}"),
         C ".livenessProbe.tcpSocket.port"},
        {"that never fails", &kind_pod, NULL,
         PROBE("'exec':{'command':['a']},'failureThreshold':-1"),
         C ".livenessProbe.failureThreshold"},
        {"a toleration of an effect that there is not", &kind_pod, NULL,
         POD("", ",'tolerations':[{'key':'a','effect':'NoExe'}]"), "spec.tolerations[0].effect"},
        {"an operator of affinity", &kind_pod, NULL,
         POD("", ",'affinity':{'nodeAffinity':{'requiredDuringSchedulingIgnoredDuringExecution':{"
                 "'nodeSelectorTerms':[{'matchExpressions':[{'key':'a','operator':'Is'}]}]}}}"),
         "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution."
         "nodeSelectorTerms[0].matchExpressions[0].operator"},
        {"what is done when pods cannot be spread", &kind_pod, NULL,
         POD("", ",'topologySpreadConstraints':[{'maxSkew':1,'topologyKey':'z','whenUnsatisfiable':"
                 "'Wait'}]"),
         "spec.topologySpreadConstraints[0].whenUnsatisfiable"},
        {"a variable from two places", &kind_pod, NULL,
         POD(",'env':[{'name':'A','valueFrom':{'fieldRef':{'apiVersion':'v1','fieldPath':'metadata."
             "name'},"
             "'secretKeyRef':{'name':'s','key':'k'}}}]",
             ""),
         C ".env[0].valueFrom"},
        {"what only the machine may reach, behind a Service", &kind_endpoints, NULL,
         "{'metadata':{'name':'q'},'subsets':[{'addresses':[{'ip':'127.0.0.1'}],'ports':[{'port':1}"
         "]"
         "}]}",
         "subsets[0].addresses[0].ip"},
        {"an address of the link", &kind_endpoints, NULL,
         "{'metadata':{'name':'q'},'subsets':[{'notReadyAddresses':[{'ip':'169.254.169.254'}],"
         "'ports':[{'port':1}]}]}",
         "subsets[0].notReadyAddresses[0].ip"},
        {"a pod of the machine's own network", &kind_endpoints, NULL,
         "{'metadata':{'name':'q'},'subsets':[{'addresses':[{'ip':'127.64.0.9'}],'ports':[{'port':"
         "1}"
         "]}]}",
         ""},
        {"the same in a slice", &kind_endpointslice, NULL,
         "{'metadata':{'name':'q'},'addressType':'IPv4','endpoints':[{'addresses':['127.0.0.1']}]}",
         "endpoints[0].addresses[0]"},
        {"the server itself, which listens on the machine alone", &kind_endpoints, NULL,
         "{'metadata':{'name':'kubernetes','namespace':'default'},'subsets':[{'addresses':[{'ip':"
         "'127.0.0.1'}],'ports':[{'port':1}]}]}",
         ""},
        {"and its slice", &kind_endpointslice, NULL,
         "{'metadata':{'name':'kubernetes','namespace':'default'},'addressType':'IPv4','endpoints':"
         "[{'addresses':['127.0.0.1']}]}",
         ""},
        {"somebody else's of that name", &kind_endpoints, NULL,
         "{'metadata':{'name':'kubernetes','namespace':'theirs'},'subsets':[{'addresses':[{'ip':"
         "'127.0.0.1'}],'ports':[{'port':1}]}]}",
         "subsets[0].addresses[0].ip"},
        {"a rule of nothing", &kind_role, NULL,
         "{'metadata':{'name':'q'},'rules':[{'apiGroups':[''],'resources':['pods']}]}",
         "rules[0].verbs"},
        {"a role that is none", &kind_rolebinding, NULL,
         "{'metadata':{'name':'q'},'roleRef':{'apiGroup':'rbac.authorization.k8s.io','kind':'Rolle'"
         ","
         "'name':'r'}}",
         "roleRef.kind"},
        {"an address", &kind_pod, NULL, HOST("10.0.0.1"), ""},
        {"another", &kind_pod, NULL, HOST("2001:db8::1"), ""},
        {"the least", &kind_pod, NULL, HOST("::"), ""},
        {"all of it", &kind_pod, NULL, HOST("1:2:3:4:5:6:7:8"), ""},
        {"of both sorts", &kind_pod, NULL, HOST("::ffff:10.0.0.1"), ""},
        {"too long", &kind_pod, NULL, HOST("1:2:3:4:5:6:7:8:9"), "spec.hostAliases[0].ip"},
        {"with two gaps", &kind_pod, NULL, HOST("1::2::3"), "spec.hostAliases[0].ip"},
        {"that ends too early", &kind_pod, NULL, HOST("1:2:3:4:5:6:7:"), "spec.hostAliases[0].ip"},
        {"a name", &kind_pod, NULL, HOST("here"), "spec.hostAliases[0].ip"},
        /* What was there before stays. */
        {"an old mistake", &kind_pdb, BUDGET("'minAvailable':'al1'"),
         BUDGET("'minAvailable':'al1','unhealthyPodEvictionPolicy':'AlwaysAllow'"), ""},
        {"beside a new one", &kind_pdb, BUDGET("'minAvailable':'al1'"),
         BUDGET("'minAvailable':'al1','unhealthyPodEvictionPolicy':'x'"),
         "spec.unhealthyPodEvictionPolicy"},
    };

    refusals_play_whole(rows, COUNT_OF(rows));
}
