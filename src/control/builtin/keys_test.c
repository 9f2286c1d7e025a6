#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/str.h"
#include "cache/cache.h"
#include "control/core/control.h"
#include "control/core/controllers.h"
#include "test.h"

#include <stddef.h>

/* Something changes -> what the controllers of a controller-manager look at because of it. */

#define NAMED(name)       "'name':'" name "','namespace':'n','uid':'u-" name "'"
#define PLAIN(name)       "{'metadata':{" NAMED(name) "}}"
#define CLUSTER(name)     "{'metadata':{'name':'" name "'}}"
#define LABELED(name, is) "{'metadata':{" NAMED(name) ",'labels':{'app':'" is "'}}}"
#define GOING(name)                                        \
    "{'metadata':{" NAMED(name) ",'labels':{'app':'a'},'d" \
                                "eletionTimestamp':'2026-01-01T00:00:00Z'}}"
#define OWNED(name, kind, owner)                                                                 \
    "{'metadata':{" NAMED(name) ",'labels':{'app':'a'},'ownerReferences':[{'apiVersion':'v1','k" \
                                "ind':'" kind "','name':'" owner "','uid':'u-" owner             \
                                "','controller':true}]}}"
#define CHOOSER(name) \
    "{'metadata':{" NAMED(name) "},'spec':{'selector':{'matchLabels':{'app':'a'}}}}"
#define POD(name, spec) "{'metadata':{" NAMED(name) "},'spec':{" spec "}}"
#define TAINTED         "{'metadata':{'name':'m'},'spec':{'taints':[{'key':'k','effect':'NoExecute'}]}}"

struct thing {
    const struct kind *kind;
    const char *text;
};

struct row {
    const char *why;
    const struct controller *controller;
    struct thing there[3];
    struct thing changes;
    const char *keys;
};

static struct object *make(struct arena *arena, const struct thing *thing)
{
    char *text = str_c(arena, str_from(thing->text));
    struct object *object = NULL;

    for (char *c = text; *c; c++)
        if (*c == '\'')
            *c = '"';
    EXPECT(object_new(thing->kind, str_from(text), &object, NULL) == 0);
    return object;
}

static void check(const struct row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct control_keys keys = {.arena = &arena};
        struct cache *cache = cache_new(1);
        struct str text = STR("");

        test_case(rows[i].why);
        for (size_t j = 0; j < COUNT_OF(rows[i].there) && rows[i].there[j].kind; j++) {
            struct object *object = make(&arena, &rows[i].there[j]);

            cache_put(cache, object);
            object_unref(object);
        }
        struct object *changed = make(&arena, &rows[i].changes);
        rows[i].controller->keys(cache, changed, &keys);
        for (size_t j = 0; j < keys.list.count; j++)
            text = str_printf(&arena, STR_FMT "%s" STR_FMT ":" STR_FMT, STR_ARG(text),
                              text.len ? " " : "", STR_ARG(keys.list.items[j].ns),
                              STR_ARG(keys.list.items[j].name));
        EXPECT(str_is(text, rows[i].keys));
        object_unref(changed);
        cache_free(cache);
    }
}

TEST(a_change_is_looked_at_by_the_workload_that_it_belongs_to)
{
    static const struct row rows[] = {
        {"a Deployment", &deployment_controller, {{0}}, {&kind_deployment, PLAIN("d")}, "n:d"},
        {"its ReplicaSet",
         &deployment_controller,
         {{0}},
         {&kind_replicaset, OWNED("r", "Deployment", "d")},
         "n:d"},
        {"a ReplicaSet that it would adopt",
         &deployment_controller,
         {{&kind_deployment, CHOOSER("d")}},
         {&kind_replicaset, LABELED("r", "a")},
         "n:d"},
        {"one that it would not",
         &deployment_controller,
         {{&kind_deployment, CHOOSER("d")}},
         {&kind_replicaset, LABELED("r", "b")},
         ""},
        {"one that goes is adopted by nobody",
         &deployment_controller,
         {{&kind_deployment, CHOOSER("d")}},
         {&kind_replicaset, GOING("r")},
         ""},
        {"a Deployment without a selector adopts nothing",
         &deployment_controller,
         {{&kind_deployment, PLAIN("d")}},
         {&kind_replicaset, LABELED("r", "a")},
         ""},
        {"one with a selector that says nonsense neither",
         &deployment_controller,
         {{&kind_deployment,
           "{'metadata':{" NAMED("d") "},'spec':{'selector':{'matchExpressions':[{'key':'app',"
                                      "'operator':'Sometimes'}]}}}"}},
         {&kind_replicaset, LABELED("r", "a")},
         ""},
        {"a pod of its ReplicaSet",
         &deployment_controller,
         {{&kind_replicaset, OWNED("r", "Deployment", "d")}},
         {&kind_pod, OWNED("p", "ReplicaSet", "r")},
         "n:d"},
        {"a pod whose ReplicaSet is gone",
         &deployment_controller,
         {{0}},
         {&kind_pod, OWNED("p", "ReplicaSet", "r")},
         ""},
        {"a pod of somebody else",
         &deployment_controller,
         {{0}},
         {&kind_pod, OWNED("p", "StatefulSet", "s")},
         ""},
        {"a pod of nobody", &deployment_controller, {{0}}, {&kind_pod, PLAIN("p")}, ""},
        {"a ReplicaSet", &replicaset_controller, {{0}}, {&kind_replicaset, PLAIN("r")}, "n:r"},
        {"a pod of it",
         &replicaset_controller,
         {{0}},
         {&kind_pod, OWNED("p", "ReplicaSet", "r")},
         "n:r"},
        {"a ReplicationController",
         &replicationcontroller_controller,
         {{0}},
         {&kind_replicationcontroller, PLAIN("r")},
         "n:r"},
        {"a pod that its plain labels choose",
         &replicationcontroller_controller,
         {{&kind_replicationcontroller,
           "{'metadata':{" NAMED("r") "},'spec':{'selector':{'app':'a'}}}"}},
         {&kind_pod, LABELED("p", "a")},
         "n:r"},
        {"a StatefulSet", &statefulset_controller, {{0}}, {&kind_statefulset, PLAIN("s")}, "n:s"},
        {"a revision of it",
         &statefulset_controller,
         {{0}},
         {&kind_controllerrevision, OWNED("s-1", "StatefulSet", "s")},
         "n:s"},
        {"a claim that it owns and does not control",
         &statefulset_controller,
         {{0}},
         {&kind_pvc, "{'metadata':{" NAMED("c") ",'ownerReferences':[{'kind':'Pod','name':'s-0'},"
                                                "{'kind':'StatefulSet','name':'s'}]}}"},
         "n:s"},
        {"a DaemonSet", &daemonset_controller, {{0}}, {&kind_daemonset, PLAIN("s")}, "n:s"},
        {"a node is a matter of all DaemonSets",
         &daemonset_controller,
         {{&kind_daemonset, PLAIN("s")}, {&kind_daemonset, PLAIN("t")}},
         {&kind_node, CLUSTER("m")},
         "n:s n:t"},
        {"a pod of one",
         &daemonset_controller,
         {{0}},
         {&kind_pod, OWNED("p", "DaemonSet", "s")},
         "n:s"},
        {"a CronJob", &cronjob_controller, {{0}}, {&kind_cronjob, PLAIN("c")}, "n:c"},
        {"its Job", &cronjob_controller, {{0}}, {&kind_job, OWNED("j", "CronJob", "c")}, "n:c"},
        {"the Job of a JobSet",
         &cronjob_controller,
         {{0}},
         {&kind_job, OWNED("j", "JobSet", "c")},
         ""},
        {"the Job of nobody", &cronjob_controller, {{0}}, {&kind_job, PLAIN("j")}, ""},
        {"the PodGroup of a Job",
         &batch_job_controller,
         {{0}},
         {&kind_podgroup_k8s, OWNED("g", "Job", "j")},
         "n:j"},
        {"that of somebody else",
         &batch_job_controller,
         {{0}},
         {&kind_workload, OWNED("g", "Thing", "t")},
         ""},
        {"that of nobody", &batch_job_controller, {{0}}, {&kind_podgroup_k8s, PLAIN("g")}, ""},
        {"a pod that a Job would adopt",
         &batch_job_controller,
         {{&kind_job, CHOOSER("j")}},
         {&kind_pod, LABELED("p", "a")},
         "n:own/p"},
        {"one that it would not",
         &batch_job_controller,
         {{&kind_job, CHOOSER("j")}},
         {&kind_pod, LABELED("p", "b")},
         ""},
        {"a pod of another kind that is called Job",
         &batch_job_controller,
         {{&kind_job, CHOOSER("j")}},
         {&kind_pod, OWNED("p", "Job", "j")},
         ""},
    };

    check(rows, COUNT_OF(rows));
}

TEST(a_change_is_looked_at_by_the_service_or_volume_that_it_concerns)
{
    static const struct row rows[] = {
        {"a Service", &endpoints_controller, {{0}}, {&kind_service, PLAIN("s")}, "n:s"},
        {"a pod behind it",
         &endpoints_controller,
         {{&kind_service, "{'metadata':{" NAMED("s") "},'spec':{'selector':{'app':'a'}}}"},
          {&kind_service, "{'metadata':{" NAMED("t") "},'spec':{'selector':{'app':'b'}}}"},
          {&kind_service, PLAIN("u")}},
         {&kind_pod, LABELED("p", "a")},
         "n:s"},
        {"its slice",
         &endpoints_controller,
         {{0}},
         {&kind_endpointslice, OWNED("s-v4", "Service", "s")},
         "n:s"},
        {"the mirror of Endpoints",
         &endpoints_controller,
         {{0}},
         {&kind_endpointslice, OWNED("s-mirror-0", "Endpoints", "s")},
         "n:s"},
        {"the slice of somebody else",
         &endpoints_controller,
         {{0}},
         {&kind_endpointslice, OWNED("s", "Gateway", "s")},
         ""},
        {"Endpoints that somebody wrote",
         &endpoints_controller,
         {{0}},
         {&kind_endpoints, PLAIN("s")},
         "n:s"},
        {"a slice that somebody wrote",
         &endpoints_controller,
         {{0}},
         {&kind_endpointslice, PLAIN("s")},
         ""},
        {"a claim", &claims_controller, {{0}}, {&kind_pvc, PLAIN("c")}, "n:c"},
        {"a pod that uses claims",
         &claims_controller,
         {{0}},
         {&kind_pod, POD("p", "'volumes':[{'name':'a','persistentVolumeClaim':{'claimName':'c'}},"
                              "{'name':'b','emptyDir':{}}]")},
         "n:c"},
        {"a pod for which one is made",
         &claims_controller,
         {{0}},
         {&kind_pod, POD("p", "'volumes':[{'name':'a','ephemeral':{}}]")},
         "n:p-a"},
        {"a pod that uses none", &claims_controller, {{0}}, {&kind_pod, PLAIN("p")}, ""},
        {"a class may be what every claim waits for",
         &claims_controller,
         {{&kind_pvc, PLAIN("c")}, {&kind_pvc, PLAIN("d")}},
         {&kind_storageclass, CLUSTER("standard")},
         "n:c n:d"},
        {"a volume that is a claim's",
         &claims_controller,
         {{&kind_pvc, PLAIN("c")}, {&kind_pvc, PLAIN("d")}},
         {&kind_pv, "{'metadata':{'name':'v'},'spec':{'claimRef':{'namespace':'n','name':'d'}}}"},
         ":v n:d"},
        {"a volume that is free",
         &claims_controller,
         {{&kind_pvc, PLAIN("c")}, {&kind_pvc, PLAIN("d")}},
         {&kind_pv, CLUSTER("v")},
         ":v n:c n:d"},
        {"a pod with ResourceClaims",
         &resource_claims_controller,
         {{0}},
         {&kind_pod,
          "{'metadata':{" NAMED("p") "},'spec':{'resourceClaims':[{'name':'a','resourceClaimName':"
                                     "'mine'},{'name':'b','resourceClaimTemplateName':'t'},{"
                                     "'name':'c','resourceClaimTemplateName':'t'}]},'status':{"
                                     "'resourceClaimStatuses':[{'name':'b','resourceClaimName':"
                                     "'made'},{'name':'c'}]}}"},
         "n:claim/mine n:claim/made n:pod/p"},
        {"a pod whose devices were asked for as a plain resource",
         &resource_claims_controller,
         {{0}},
         {&kind_pod, "{'metadata':{" NAMED("p") "},'status':{'extendedResourceClaimStatus':{"
                                                "'resourceClaimName':'whole'}}}"},
         "n:claim/whole n:pod/p"},
        {"a pod without", &resource_claims_controller, {{0}}, {&kind_pod, PLAIN("p")}, ""},
        {"a ResourceClaim",
         &resource_claims_controller,
         {{0}},
         {&kind_resourceclaim, PLAIN("c")},
         "n:claim/c"},
        {"one that was made for a pod",
         &resource_claims_controller,
         {{0}},
         {&kind_resourceclaim, OWNED("c", "Pod", "p")},
         "n:claim/c n:pod/p"},
        {"one that was made for a group",
         &resource_claims_controller,
         {{0}},
         {&kind_resourceclaim, OWNED("c", "PodGroup", "g")},
         "n:claim/c"},
        {"a template is what its pods wait for",
         &resource_claims_controller,
         {{&kind_pod, POD("p", "'resourceClaims':[{'name':'a','resourceClaimTemplateName':'t'}]")},
          {&kind_pod, PLAIN("q")}},
         {&kind_claimtemplate, PLAIN("t")},
         "n:pod/p"},
    };

    check(rows, COUNT_OF(rows));
}

#define BUDGET(name, selector) "{'metadata':{" NAMED(name) "},'spec':{'selector':" selector "}}"

TEST(a_change_is_looked_at_by_who_watches_over_a_namespace_or_a_node)
{
    static const struct row rows[] = {
        {"a pod counts for the quotas of its namespace",
         &quota_controller,
         {{&kind_resourcequota, PLAIN("q")},
          {&kind_resourcequota, "{'metadata':{'name':'r','namespace':'other'}}"}},
         {&kind_pod, PLAIN("p")},
         "n:q"},
        {"a PodGroup",
         &group_protection_controller,
         {{0}},
         {&kind_podgroup_k8s, PLAIN("g")},
         "n:g"},
        {"a pod that names it",
         &group_protection_controller,
         {{0}},
         {&kind_pod, POD("p", "'schedulingGroup':{'podGroupName':'g'}")},
         "n:g"},
        {"a pod that names none", &group_protection_controller, {{0}}, {&kind_pod, PLAIN("p")}, ""},
        {"a budget",
         &disruption_controller,
         {{0}},
         {&kind_pdb, BUDGET("b", "{'matchLabels':{'app':'a'}}")},
         "n:b"},
        {"a pod that it covers; one of others, or of nonsense, does not",
         &disruption_controller,
         {{&kind_pdb, BUDGET("b", "{'matchLabels':{'app':'a'}}")},
          {&kind_pdb, BUDGET("c", "{'matchLabels':{'app':'b'}}")},
          {&kind_pdb, BUDGET("d", "{'matchExpressions':[{'key':'app','operator':'Never'}]}")}},
         {&kind_pod, LABELED("p", "a")},
         "n:b"},
        {"a pod on a node that drives pods away",
         &taints_controller,
         {{&kind_node, TAINTED}},
         {&kind_pod, POD("p", "'nodeName':'m'")},
         "n:p"},
        {"a pod on another node",
         &taints_controller,
         {{&kind_node, TAINTED}},
         {&kind_pod, POD("p", "'nodeName':'o'")},
         ""},
        {"a pod without a node",
         &taints_controller,
         {{&kind_node, TAINTED}},
         {&kind_pod, PLAIN("p")},
         ""},
        {"the node itself",
         &taints_controller,
         {{&kind_pod, POD("p", "'nodeName':'m'")}, {&kind_pod, POD("q", "'nodeName':'o'")}},
         {&kind_node, TAINTED},
         "n:p"},
        {"a node that drives nobody away",
         &taints_controller,
         {{&kind_pod, POD("p", "'nodeName':'m'")}},
         {&kind_node, CLUSTER("m")},
         ""},
        {"a namespace gets the certificate",
         &root_ca_controller,
         {{0}},
         {&kind_namespace, CLUSTER("n")},
         ":n"},
        {"and its copy is watched",
         &root_ca_controller,
         {{0}},
         {&kind_configmap, PLAIN("kube-root-ca.crt")},
         ":n"},
        {"others are not", &root_ca_controller, {{0}}, {&kind_configmap, PLAIN("c")}, ""},
        {"the Service of the API server",
         &apiserver_controller,
         {{0}},
         {&kind_service, "{'metadata':{'name':'kubernetes','namespace':'default'}}"},
         ":"},
        {"a Service of that name elsewhere",
         &apiserver_controller,
         {{0}},
         {&kind_service, PLAIN("kubernetes")},
         ""},
        {"its block of addresses",
         &apiserver_controller,
         {{0}},
         {&kind_servicecidr, CLUSTER("kubernetes")},
         ":"},
        {"the namespace that it is in",
         &apiserver_controller,
         {{0}},
         {&kind_namespace, CLUSTER("default")},
         ":"},
        {"another one", &apiserver_controller, {{0}}, {&kind_namespace, CLUSTER("n")}, ""},
        {"a Service called as the namespace",
         &apiserver_controller,
         {{0}},
         {&kind_service, PLAIN("default")},
         ""},
    };

    check(rows, COUNT_OF(rows));
}
