#include "api/kind.h"
#include "api/quota.h"
#include "api/ranges.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/json.h"
#include "base/str.h"
#include "test.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define REQUEST(cpu) "'resources':{'requests':{'cpu':'" cpu "','nvidia.com/gpu':'1'}}"
#define LIMIT(cpu)   "'resources':{'limits':{'cpu':'" cpu "'}}"
#define PORTS        "'ports':[{'port':1},{'port':2}]"
#define GOLD         "gold.storageclass.storage.k8s.io/"
#define OLDER        "'metadata':{'annotations':{'volume.beta.kubernetes.io/storage-class':'gold'}}"
#define STORAGE      "'resources':{'requests':{'storage':'3'}}"

TEST(what_an_object_takes_of_a_quota_is_counted_as_kubernetes_counts_it)
{
    static const struct {
        const char *why;
        const char *resource;
        const struct kind *kind;
        const char *object;
        int64_t milli;
    } rows[] = {
        {"a pod", "pods", &kind_pod, "{}", 1000},
        {"one that has ended", "pods", &kind_pod, "{'status':{'phase':'Succeeded'}}", 0},
        {"as an object it is there", "count/pods", &kind_pod, "{'status':{'phase':'Failed'}}",
         1000},
        {"a kind of a group", "count/deployments.apps", &kind_deployment, "{}", 1000},
        {"of another group", "count/deployments.batch", &kind_deployment, "{}", 0},
        {"another kind", "configmaps", &kind_secret, "{}", 0},
        {"an older name", "secrets", &kind_secret, "{}", 1000},
        {"no older name", "deployments", &kind_deployment, "{}", 0},
        {"containers together", "cpu", &kind_pod,
         "{'spec':{'containers':[{" REQUEST("1") "},{" REQUEST("500m") "}]}}", 1500},
        {"the larger one before them", "requests.cpu", &kind_pod,
         "{'spec':{'initContainers':[{" REQUEST("4") "},{" REQUEST(
             "2") "}],'containers':[{" REQUEST("1") "}]}}",
         4000},
        {"beside those that stay", "requests.cpu", &kind_pod,
         "{'spec':{'initContainers':[{'restartPolicy':'Always'," REQUEST("1") "},{" REQUEST(
             "2") "}],'containers':[{" REQUEST("1") "}]}}",
         3000},
        {"which stay to the end", "requests.cpu", &kind_pod,
         "{'spec':{'initContainers':[{" REQUEST("1") "},{'restartPolicy':'Always'," REQUEST(
             "2") "}],'containers':[{" REQUEST("1") "}]}}",
         3000},
        {"and what it costs to have a pod", "requests.cpu", &kind_pod,
         "{'spec':{'overhead':{'cpu':'250m'},'containers':[{" REQUEST("1") "}]}}", 1250},
        {"limits", "limits.cpu", &kind_pod, "{'spec':{'containers':[{" LIMIT("2") "}]}}", 2000},
        {"which are no requests", "requests.cpu", &kind_pod,
         "{'spec':{'containers':[{" LIMIT("2") "}]}}", 0},
        {"devices", "requests.nvidia.com/gpu", &kind_pod,
         "{'spec':{'containers':[{" REQUEST("1") "}]}}", 1000},
        {"only by what is asked for", "nvidia.com/gpu", &kind_pod,
         "{'spec':{'containers':[{" REQUEST("1") "}]}}", 0},
        {"a claim", "persistentvolumeclaims", &kind_pvc, "{}", 1000},
        {"its bytes", "requests.storage", &kind_pvc, "{'spec':{" STORAGE "}}", 3000},
        {"of a class", GOLD "requests.storage", &kind_pvc,
         "{'spec':{'storageClassName':'gold'," STORAGE "}}", 3000},
        {"as older ones say it", GOLD "requests.storage", &kind_pvc,
         "{" OLDER ",'spec':{" STORAGE "}}", 3000},
        {"of another class", GOLD "requests.storage", &kind_pvc,
         "{'spec':{'storageClassName':'tin'," STORAGE "}}", 0},
        {"claims of a class", GOLD "persistentvolumeclaims", &kind_pvc,
         "{'spec':{'storageClassName':'gold'}}", 1000},
        {"are no pods", GOLD "requests.storage", &kind_pod, "{}", 0},
        {"a service", "services", &kind_service, "{}", 1000},
        {"that is balanced", "services.loadbalancers", &kind_service,
         "{'spec':{'type':'LoadBalancer'," PORTS "}}", 1000},
        {"or not", "services.loadbalancers", &kind_service, "{'spec':{'type':'NodePort'}}", 0},
        {"ports of nodes", "services.nodeports", &kind_service,
         "{'spec':{'type':'NodePort'," PORTS "}}", 2000},
        {"which balanced ones have too", "services.nodeports", &kind_service,
         "{'spec':{'type':'LoadBalancer'," PORTS "}}", 2000},
        {"and plain ones have not", "services.nodeports", &kind_service,
         "{'spec':{'type':'ClusterIP'," PORTS "}}", 0},
        {"what no service has", "services.cpu", &kind_service, "{}", 0},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        __int128 took = quota_taken(str_from(rows[i].resource), rows[i].kind,
                                    test_json(&arena, rows[i].object));

        test_case(rows[i].why);
        EXPECT(took == (__int128)rows[i].milli * 1000000);
    }
}

#define POD(more)   "{'spec':{'containers':[{'name':'c'" more "}]}}"
#define CLASS(name) "{'spec':{'priorityClassName':'" name "'}}"
#define AFFINE(which, more)                                                                      \
    "{'spec':{'affinity':{'" which "':{'requiredDuringSchedulingIgnoredDuringExecution':[{" more \
    "}]}}}}"
#define SCOPE(name) "{'scopes':['" name "']}"
#define OF_CLASS(op, more)                                                                        \
    "{'scopeSelector':{'matchExpressions':[{'scopeName':'PriorityClass','operator':'" op "'" more \
    "}]}}"

TEST(a_quota_covers_what_its_scopes_say)
{
    static const struct {
        const char *why;
        const char *spec;
        const struct kind *kind;
        const char *object;
        bool covers;
    } rows[] = {
        {"all without a scope", "{}", &kind_configmap, "{}", true},
        {"with one, pods alone", SCOPE("BestEffort"), &kind_configmap, "{}", false},
        {"who has an end", SCOPE("Terminating"), &kind_pod, "{'spec':{'activeDeadlineSeconds':9}}",
         true},
        {"who has none", SCOPE("Terminating"), &kind_pod, POD(""), false},
        {"of those that have none", SCOPE("NotTerminating"), &kind_pod, POD(""), true},
        {"one that has", SCOPE("NotTerminating"), &kind_pod, "{'spec':{'activeDeadlineSeconds':9}}",
         false},
        {"who asks for nothing", SCOPE("BestEffort"), &kind_pod, POD(""), true},
        {"devices are nothing there", SCOPE("BestEffort"), &kind_pod,
         POD(",'resources':{'limits':{'nvidia.com/gpu':'1'}}"), true},
        {"who is limited", SCOPE("BestEffort"), &kind_pod, POD("," LIMIT("1")), false},
        {"who asks for something", SCOPE("NotBestEffort"), &kind_pod, POD("," REQUEST("1")), true},
        {"or before it starts", SCOPE("NotBestEffort"), &kind_pod,
         "{'spec':{'initContainers':[{" REQUEST("1") "}],'containers':[{}]}}", true},
        {"who does not", SCOPE("NotBestEffort"), &kind_pod, POD(""), false},
        {"near pods of others", SCOPE("CrossNamespacePodAffinity"), &kind_pod,
         AFFINE("podAffinity", "'namespaces':['x']"), true},
        {"away from them", SCOPE("CrossNamespacePodAffinity"), &kind_pod,
         AFFINE("podAntiAffinity", "'namespaceSelector':{}"), true},
        {"near its own", SCOPE("CrossNamespacePodAffinity"), &kind_pod, AFFINE("podAffinity", ""),
         false},
        {"any class", SCOPE("PriorityClass"), &kind_pod, CLASS("high"), true},
        {"no class", SCOPE("PriorityClass"), &kind_pod, POD(""), false},
        {"this class", OF_CLASS("In", ",'values':['low','high']"), &kind_pod, CLASS("high"), true},
        {"another class", OF_CLASS("In", ",'values':['low']"), &kind_pod, CLASS("high"), false},
        {"not this class", OF_CLASS("NotIn", ",'values':['low']"), &kind_pod, CLASS("high"), true},
        {"but it is", OF_CLASS("NotIn", ",'values':['high']"), &kind_pod, CLASS("high"), false},
        {"none at all", OF_CLASS("DoesNotExist", ""), &kind_pod, POD(""), true},
        {"and there is one", OF_CLASS("DoesNotExist", ""), &kind_pod, CLASS("high"), false},
        {"one of two does not hold", "{'scopes':['BestEffort','Terminating']}", &kind_pod, POD(""),
         false},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};

        test_case(rows[i].why);
        EXPECT(quota_covers(test_json(&arena, rows[i].spec), rows[i].kind,
                            test_json(&arena, rows[i].object)) == rows[i].covers);
    }
}

TEST(a_quota_asks_every_container_for_what_it_limits)
{
    static const struct {
        const char *why;
        const char *resource;
        const char *pod;
        const char *container; /* "": all say it, or need not */
    } rows[] = {
        {"it says so", "limits.cpu", POD("," LIMIT("1")), ""},
        {"it says something else", "limits.memory", POD("," LIMIT("1")), "c"},
        {"a request is no limit", "limits.cpu", POD("," REQUEST("1")), "c"},
        {"one that comes first", "cpu",
         "{'spec':{'initContainers':[{'name':'i'}],'containers':[{'name':'c'," REQUEST("1") "}]}}",
         "i"},
        {"devices are asked for by who wants them", "requests.nvidia.com/gpu", POD(""), ""},
        {"space too", "requests.ephemeral-storage", POD(""), ""},
        {"a number of pods is no amount of one", "pods", POD(""), ""},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};

        test_case(rows[i].why);
        EXPECT(str_is(quota_silent(str_from(rows[i].resource), test_json(&arena, rows[i].pod)),
                      rows[i].container));
    }
}

#define LIMITS(type, more) "{'limits':[{'type':'" type "'," more "}]}"
#define ASKS(requests, limits) \
    "{'spec':{'containers':[{'resources':{'requests':{" requests "},'limits':{" limits "}}}]}}"

TEST(what_a_limit_range_forbids_is_said_as_kubernetes_says_it)
{
    static const struct {
        const char *why;
        const char *limits;
        const struct kind *kind;
        const char *object;
        const char *says;
    } rows[] = {
        {"within", LIMITS("Container", "'min':{'cpu':'1'},'max':{'cpu':2}"), &kind_pod,
         ASKS("'cpu':'1'", "'cpu':'2'"), ""},
        {"too little", LIMITS("Container", "'min':{'cpu':'1'}"), &kind_pod,
         ASKS("'cpu':'500m'", ""), "minimum cpu usage per Container is 1, but request is 500m"},
        {"too much, a number", LIMITS("Container", "'max':{'cpu':2}"), &kind_pod,
         ASKS("", "'cpu':'3'"), "maximum cpu usage per Container is 2, but limit is 3"},
        {"nothing said of either", LIMITS("Container", "'min':{'cpu':'1'},'max':{'cpu':'2'}"),
         &kind_pod, ASKS("", ""),
         "minimum cpu usage per Container is 1. No request is specified, maximum cpu usage per "
         "Container is 2. No limit is specified"},
        {"the ratio", LIMITS("Container", "'maxLimitRequestRatio':{'cpu':'2'}"), &kind_pod,
         ASKS("'cpu':'1'", "'cpu':'2'"), ""},
        {"the ratio of no request", LIMITS("Container", "'maxLimitRequestRatio':{'cpu':'2'}"),
         &kind_pod, ASKS("", "'cpu':'2'"),
         "cpu max limit to request ratio per Container is 2, but no request is specified or "
         "request is 0"},
        {"the ratio of no limit", LIMITS("Container", "'maxLimitRequestRatio':{'cpu':'2'}"),
         &kind_pod, ASKS("'cpu':'2'", "'cpu':'0'"),
         "cpu max limit to request ratio per Container is 2, but no limit is specified or limit is "
         "0"},
        {"a pod as a whole", LIMITS("Pod", "'max':{'cpu':'2'}"), &kind_pod,
         "{'spec':{'containers':[{'resources':{'limits':{'cpu':'1'}}},{'resources':{'limits':{"
         "'cpu':'2'}}}]}}",
         "maximum cpu usage per Pod is 2, but limit is 3"},
        {"a claim", LIMITS("PersistentVolumeClaim", "'max':{'storage':'1Gi'}"), &kind_pvc,
         "{'spec':{'resources':{'requests':{'storage':'2Gi'}}}}",
         "maximum storage usage per PersistentVolumeClaim is 1Gi, but limit is 2Gi"},
        {"a claim within", LIMITS("PersistentVolumeClaim", "'min':{'storage':'1Gi'}"), &kind_pvc,
         "{'spec':{'resources':{'requests':{'storage':'2Gi'}}}}", ""},
        {"of claims, not of pods", LIMITS("PersistentVolumeClaim", "'max':{'cpu':'1'}"), &kind_pod,
         ASKS("", "'cpu':'3'"), ""},
        {"of pods, not of claims", LIMITS("Pod", "'max':{'storage':'1'}"), &kind_pvc,
         "{'spec':{'resources':{'requests':{'storage':'2Gi'}}}}", ""},
        {"what is no amount is refused elsewhere",
         LIMITS("Container", "'min':{'cpu':'x'},'maxLimitRequestRatio':{'cpu':'x'}"), &kind_pod,
         ASKS("'cpu':'y'", ""), ""},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        _cleanup_(buf_done) struct buf problems = {0};

        test_case(rows[i].why);
        ranges_check(&arena, test_json(&arena, rows[i].limits), rows[i].kind,
                     test_json(&arena, rows[i].object), &problems);
        EXPECT(str_is(buf_str(&problems), rows[i].says));
        if (!str_is(buf_str(&problems), rows[i].says))
            (void)fprintf(stderr, "it says \"" STR_FMT "\"\n", STR_ARG(buf_str(&problems)));
    }
}
