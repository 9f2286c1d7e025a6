#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/json.h"
#include "base/str.h"
#include "cache/cache.h"
#include "control/core/action.h"
#include "control/core/control.h"
#include "control/core/controllers.h"
#include "control/core/scene.h"
#include "test.h"

#include <stdbool.h>
#include <stddef.h>

/* Quotas, budgets and finalizers: what is told of a namespace's objects, and what holds them. */

/* ---- quotas ---- */

#define QUOTA(spec) "{'metadata':{'name':'q'},'spec':{" spec "}}"

static void put_world(struct scene *scene)
{
    static const struct {
        const struct kind *kind;
        const char *text;
    } things[] = {
        {&kind_pod, "{'metadata':{'name':'p'},'spec':{'containers':[{'resources':{'requests':{"
                    "'cpu':'500m'},'limits':{'memory':'1Gi'}}}]},'status':{'phase':'Running'}}"},
        {&kind_pod, "{'metadata':{'name':'high'},'spec':{'priorityClassName':'high','containers':[{"
                    "'resources':{'requests':{'cpu':'1'}}}]}}"},
        {&kind_pod, "{'metadata':{'name':'over'},'spec':{'containers':[{'resources':{'requests':{"
                    "'cpu':'8'}}}]},'status':{'phase':'Succeeded'}}"},
        {&kind_service, "{'metadata':{'name':'a'},'spec':{'type':'ClusterIP'}}"},
        {&kind_service, "{'metadata':{'name':'b'},'spec':{'type':'LoadBalancer'}}"},
        {&kind_pvc, "{'metadata':{'name':'c'},'spec':{'storageClassName':'gold','resources':{"
                    "'requests':{'storage':'2Gi'}}}}"},
        {&kind_configmap, "{'metadata':{'name':'m'}}"},
        {&kind_deployment, "{'metadata':{'name':'d'}}"},
        {&kind_deployment, "{'metadata':{'name':'e'}}"},
    };

    for (size_t i = 0; i < COUNT_OF(things); i++)
        scene_put(scene, things[i].kind, things[i].text);
}

static bool is_watched(const void *deployments, const struct kind *kind)
{
    return kind != &kind_deployment || *(const bool *)deployments;
}

/* What the controller does about n/q, where Deployments are watched, or not (yet). */
static void look(struct scene *scene, struct kinds *kinds, const bool *deployments)
{
    struct control_input input = {.cache = scene->cache,
                                  .now_ms = scene->now_ms,
                                  .kinds = kinds,
                                  .is_watched = deployments ? is_watched : NULL,
                                  .user = deployments};
    struct control_key key = {STR("n"), STR("q")};

    scene->actions = (struct actions){.arena = &scene->arena};
    quota_controller.reconcile(&input, &key, &scene->actions);
}

TEST(a_quota_tells_what_is_used_of_it)
{
    static const struct {
        const char *why;
        const char *spec;
        const char *used;
    } rows[] = {
        {"pods that have ended take nothing", "'hard':{'pods':'9'}", "{'pods':'2'}"},
        {"but their number counts", "'hard':{'count/pods':'9'}", "{'count/pods':'3'}"},
        {"requests, by both names", "'hard':{'cpu':'4','requests.cpu':'4'}",
         "{'cpu':'1500m','requests.cpu':'1500m'}"},
        {"limits, as the quota writes them", "'hard':{'limits.memory':'4Gi'}",
         "{'limits.memory':'1Gi'}"},
        {"Services, and those of a type", "'hard':{'services':'5','services.loadbalancers':'1'}",
         "{'services':'2','services.loadbalancers':'1'}"},
        {"claims, their size, and that of a class",
         "'hard':{'persistentvolumeclaims':'1','requests.storage':'1Ti',"
         "'gold.storageclass.storage.k8s.io/requests.storage':'1Ti',"
         "'tin.storageclass.storage.k8s.io/requests.storage':'1Ti'}",
         "{'persistentvolumeclaims':'1','requests.storage':'2Gi',"
         "'gold.storageclass.storage.k8s.io/requests.storage':'2Gi',"
         "'tin.storageclass.storage.k8s.io/requests.storage':'0'}"},
        {"objects by their kind", "'hard':{'configmaps':'3','secrets':'3','resourcequotas':'1'}",
         "{'configmaps':'1','secrets':'0','resourcequotas':'1'}"},
        {"of a kind without a name of its own", "'hard':{'count/deployments.apps':'3'}",
         "{'count/deployments.apps':'2'}"},
        {"of a kind that nobody knows", "'hard':{'count/widgets.acme.io':'3'}",
         "{'count/widgets.acme.io':'0'}"},
        {"of a kind that is in no namespace", "'hard':{'count/nodes':'3'}", "{'count/nodes':'0'}"},
        {"only what its scopes cover",
         "'hard':{'pods':'9'},'scopeSelector':{'matchExpressions':[{'scopeName':'PriorityClass',"
         "'operator':'In','values':['high']}]}",
         "{'pods':'1'}"},
        {"an amount that says nothing", "'hard':{'pods':'many'}", "{}"},
        {"no limits at all", "'scopes':[]", "{}"},
    };
    struct kinds *kinds = kinds_new();

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(scene_close) struct scene scene;

        test_case(rows[i].why);
        scene_open(&scene);
        put_world(&scene);
        scene_put(&scene, &kind_resourcequota,
                  str_printf(&scene.arena, QUOTA("%s"), rows[i].spec).p);
        look(&scene, kinds, NULL);
        EXPECT(scene.actions.list.count == 1);
        const struct json *body = scene.actions.list.items[0].body;
        EXPECT(str_eq(json_text(&scene.arena, json_at(body, "status.used")),
                      scene_text(&scene, rows[i].used)));
        EXPECT(json_equal(json_at(body, "status.hard"),
                          json_at(scene_get(&scene, &kind_resourcequota, "q"), "spec.hard")));
        scene_change(&scene, &kind_resourcequota, "q", body);
        look(&scene, kinds, NULL);
        EXPECT(scene.actions.list.count == 0); /* it was said */
    }
    kinds_free(kinds);
}

TEST(a_quota_of_a_kind_that_is_not_watched_yet_is_counted_later)
{
    _cleanup_(scene_close) struct scene scene;
    struct kinds *kinds = kinds_new();
    bool watched = false;

    scene_open(&scene);
    put_world(&scene);
    scene_put(&scene, &kind_resourcequota, QUOTA("'hard':{'count/deployments.apps':'3'}"));
    look(&scene, kinds, &watched);
    EXPECT(scene.actions.list.count == 2);
    EXPECT(scene.actions.list.items[0].type == ACTION_WATCH);
    EXPECT(scene.actions.list.items[0].kind == &kind_deployment);
    watched = true;
    look(&scene, kinds, &watched);
    EXPECT(scene.actions.list.count == 1);
    EXPECT(str_is(json_str(json_get(json_at(scene.actions.list.items[0].body, "status.used"),
                                    "count/deployments.apps")),
                  "2"));
    /* Where there is no list of kinds, nobody knows which one is meant. */
    look(&scene, NULL, &watched);
    EXPECT(str_is(json_str(json_get(json_at(scene.actions.list.items[0].body, "status.used"),
                                    "count/deployments.apps")),
                  "0"));
    kinds_free(kinds);
}

TEST(a_quota_that_goes_or_is_gone_is_not_told_of)
{
    _cleanup_(scene_close) struct scene scene;

    scene_open(&scene);
    look(&scene, NULL, NULL);
    EXPECT(scene.actions.list.count == 0);
    scene_put(&scene, &kind_resourcequota,
              "{'metadata':{'name':'q','deletionTimestamp':'2026-01-01T00:00:00Z'}}");
    look(&scene, NULL, NULL);
    EXPECT(scene.actions.list.count == 0);
}

TEST(a_pod_whose_status_changes_is_none_to_a_quota_until_it_ends)
{
    static const struct {
        const char *why;
        const char *after;
        bool passes;
    } rows[] = {
        {"it says more",
         "{'metadata':{'name':'p','generation':1},'status':{'phase':'Running','message':'m'}}",
         true},
        {"it ended", "{'metadata':{'name':'p','generation':1},'status':{'phase':'Succeeded'}}",
         false},
        {"it asks for something else",
         "{'metadata':{'name':'p','generation':2},'status':{'phase':'Running'}}", false},
    };
    _cleanup_(scene_close) struct scene scene;

    scene_open(&scene);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const char *texts[] = {
            "{'metadata':{'name':'p','generation':1},'status':{'phase':'Running'}}", rows[i].after};
        struct object *pods[2] = {NULL, NULL};

        test_case(rows[i].why);
        for (size_t k = 0; k < 2; k++)
            EXPECT(object_new(&kind_pod, scene_text(&scene, texts[k]), &pods[k], NULL) == 0);
        EXPECT(quota_controller.passes_by(pods[0], pods[1]) == rows[i].passes);
        object_unref(pods[0]);
        object_unref(pods[1]);
    }
}

/* ---- PodGroups ---- */

TEST(a_pod_group_stays_until_its_last_pod_has_ended)
{
    static const struct {
        const char *why;
        const char *meta; /* of the group */
        const char *pod;
        const char *finalizers;
    } rows[] = {
        {"nobody deletes it", "", "'spec':{}", "scheduling.k8s.io/podgroup-protection mine"},
        {"a pod of it runs", ",'deletionTimestamp':'2026-01-01T00:00:00Z'",
         "'spec':{'schedulingGroup':{'podGroupName':'g'}},'status':{'phase':'Running'}",
         "scheduling.k8s.io/podgroup-protection mine"},
        {"its pod has ended", ",'deletionTimestamp':'2026-01-01T00:00:00Z'",
         "'spec':{'schedulingGroup':{'podGroupName':'g'}},'status':{'phase':'Failed'}", "mine"},
        {"a pod of another group", ",'deletionTimestamp':'2026-01-01T00:00:00Z'",
         "'spec':{'schedulingGroup':{'podGroupName':'h'}}", "mine"},
        {"a pod of none", ",'deletionTimestamp':'2026-01-01T00:00:00Z'", "'spec':{}", "mine"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(scene_close) struct scene scene;

        test_case(rows[i].why);
        scene_open(&scene);
        scene_put(&scene, &kind_podgroup_k8s,
                  str_printf(&scene.arena,
                             "{'metadata':{'name':'g','finalizers':["
                             "'scheduling.k8s.io/podgroup-protection','mine']%s}}",
                             rows[i].meta)
                      .p);
        scene_put(&scene, &kind_pod,
                  str_printf(&scene.arena, "{'metadata':{'name':'p'},%s}", rows[i].pod).p);
        scene_run(&scene, &group_protection_controller, "g");
        EXPECT(str_is(scene_words(&scene, json_at(scene_get(&scene, &kind_podgroup_k8s, "g"),
                                                  "metadata.finalizers")),
                      rows[i].finalizers));
        scene_run(&scene, &group_protection_controller, "gone");
    }
}

/* ---- budgets ---- */

#define OWNER(kind, name)                                                                   \
    ",'ownerReferences':[{'apiVersion':'apps/v1','kind':'" kind "','name':'" name "','uid'" \
    ":'u-" name "','controller':true}]"
#define LABELS ",'labels':{'a':'b'}"

static void put_pods(struct scene *scene, int count, const char *prefix, const char *owner)
{
    for (int i = 0; i < count; i++)
        scene_put(scene, &kind_pod,
                  str_printf(&scene->arena,
                             "{'metadata':{'name':'%s%d'" LABELS
                             "%s},'status':{'conditions':[{'type':'Ready','status':'True'}]}}",
                             prefix, i, owner)
                      .p);
}

TEST(a_budget_counts_the_pods_that_there_should_be)
{
    static const struct {
        const char *why;
        const char *spec;
        int deployed;   /* pods of two ReplicaSets of a Deployment of 10 */
        int stateful;   /* of a StatefulSet of 4 */
        int replicated; /* of a ReplicationController that says no number: 1 */
        int single;     /* pods that nobody scales */
        const char *status;
    } rows[] = {
        {"a Deployment that lacks pods can spare none", "'maxUnavailable':2", 3, 0, 0, 0,
         "'expectedPods':10,'currentHealthy':3,'desiredHealthy':8,'disruptionsAllowed':0"},
        {"one that has them all can", "'maxUnavailable':2", 10, 0, 0, 0,
         "'expectedPods':10,'currentHealthy':10,'desiredHealthy':8,'disruptionsAllowed':2"},
        {"per cent are of what there should be, rounded up", "'minAvailable':'35%'", 6, 0, 0, 0,
         "'expectedPods':10,'currentHealthy':6,'desiredHealthy':4,'disruptionsAllowed':2"},
        {"a number that must stay is about those that are there", "'minAvailable':2", 3, 0, 0, 0,
         "'expectedPods':3,'currentHealthy':3,'desiredHealthy':2,'disruptionsAllowed':1"},
        {"several owners add up; pods that nobody controls are not among them",
         "'maxUnavailable':'50%'", 10, 4, 1, 1,
         "'expectedPods':15,'currentHealthy':16,'desiredHealthy':7,'disruptionsAllowed':9"},
        {"alone, they stay", "'maxUnavailable':1", 0, 0, 0, 2,
         "'expectedPods':0,'currentHealthy':2,'desiredHealthy':0,'disruptionsAllowed':0"},
        {"unless a number must stay", "'minAvailable':1", 0, 0, 0, 2,
         "'expectedPods':2,'currentHealthy':2,'desiredHealthy':1,'disruptionsAllowed':1"},
        {"more may be away than there are", "'maxUnavailable':20", 3, 0, 0, 0,
         "'expectedPods':10,'currentHealthy':3,'desiredHealthy':0,'disruptionsAllowed':3"},
        {"no pods", "'maxUnavailable':1", 0, 0, 0, 0,
         "'expectedPods':0,'currentHealthy':0,'desiredHealthy':0,'disruptionsAllowed':0"},
        {"neither is said", "'unhealthyPodEvictionPolicy':'AlwaysAllow'", 0, 0, 0, 2,
         "'expectedPods':0,'currentHealthy':2,'desiredHealthy':0,'disruptionsAllowed':0"},
        {"per cent of nonsense", "'minAvailable':'most'", 0, 0, 0, 2,
         "'expectedPods':0,'currentHealthy':2,'desiredHealthy':0,'disruptionsAllowed':0"},
        {"nor that", "'minAvailable':'x%'", 0, 0, 0, 2,
         "'expectedPods':0,'currentHealthy':2,'desiredHealthy':0,'disruptionsAllowed':0"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(scene_close) struct scene scene;
        int older = rows[i].deployed / 2;

        test_case(rows[i].why);
        scene_open(&scene);
        scene_put(&scene, &kind_deployment, "{'metadata':{'name':'d'},'spec':{'replicas':10}}");
        scene_put(&scene, &kind_replicaset,
                  "{'metadata':{'name':'r'" OWNER("Deployment", "d") "},'spec':{'replicas':1}}");
        scene_put(&scene, &kind_replicaset,
                  "{'metadata':{'name':'t'" OWNER("Deployment", "d") "},'spec':{'replicas':9}}");
        scene_put(&scene, &kind_statefulset, "{'metadata':{'name':'s'},'spec':{'replicas':4}}");
        scene_put(&scene, &kind_replicationcontroller, "{'metadata':{'name':'c'}}");
        put_pods(&scene, older, "old", OWNER("ReplicaSet", "r"));
        put_pods(&scene, rows[i].deployed - older, "new", OWNER("ReplicaSet", "t"));
        put_pods(&scene, rows[i].stateful, "s", OWNER("StatefulSet", "s"));
        put_pods(&scene, rows[i].replicated, "c", OWNER("ReplicationController", "c"));
        put_pods(&scene, rows[i].single, "single", "");
        scene_put(&scene, &kind_pdb,
                  str_printf(&scene.arena,
                             "{'metadata':{'name':'b'},'spec':{'selector':{'matchLabels':{'a':'b'}"
                             "},%s}}",
                             rows[i].spec)
                      .p);
        scene_run(&scene, &disruption_controller, "b");
        EXPECT(str_contains(
            json_text(&scene.arena, json_get(scene_get(&scene, &kind_pdb, "b"), "status")),
            scene_text(&scene, rows[i].status)));
    }
}

TEST(of_pods_whose_controller_has_no_number_none_may_go)
{
    static const struct {
        const char *why;
        const char *owner;
        const char *spec;
        const char *reason;
        const char *message;
    } rows[] = {
        {"a ReplicaSet that is another one now", OWNER("ReplicaSet", "r"), "'maxUnavailable':2",
         "SyncFailed", "found no controllers for pod"},
        {"one whose Deployment is gone", OWNER("ReplicaSet", "t"), "'maxUnavailable':2",
         "SyncFailed", "found no controllers for pod"},
        {"a Job", OWNER("Job", "j"), "'minAvailable':'10%'", "SyncFailed",
         "jobs.apps does not implement the scale subresource"},
        {"a Job, and a number that must stay", OWNER("Job", "j"), "'minAvailable':1",
         "SufficientPods", ""},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(scene_close) struct scene scene;

        test_case(rows[i].why);
        scene_open(&scene);
        scene_put(&scene, &kind_replicaset,
                  "{'metadata':{'name':'r','uid':'another'},'spec':{'replicas':5}}");
        scene_put(&scene, &kind_replicaset,
                  "{'metadata':{'name':'t'" OWNER("Deployment", "gone") "},'spec':{'replicas':5}}");
        put_pods(&scene, 2, "p", rows[i].owner);
        scene_put(&scene, &kind_pod,
                  "{'metadata':{'name':'going'" LABELS ",'deletionTimestamp':'2026-01-01T00:00:00Z'"
                  "},'status':{'conditions':[{'type':'Ready','status':'True'}]}}");
        scene_put(&scene, &kind_pdb,
                  str_printf(&scene.arena,
                             "{'metadata':{'name':'b'},'spec':{'selector':{'matchLabels':{'a':'b'}"
                             "},%s}}",
                             rows[i].spec)
                      .p);
        scene_run(&scene, &disruption_controller, "b");
        const struct json *status = json_get(scene_get(&scene, &kind_pdb, "b"), "status");
        bool failed = str_is(json_str_at(status, "conditions.0.reason"), "SyncFailed");
        EXPECT(str_is(json_str_at(status, "conditions.0.reason"), rows[i].reason));
        EXPECT(
            str_contains(json_str_at(status, "conditions.0.message"), str_from(rows[i].message)));
        EXPECT(json_i64_or(json_get(status, "disruptionsAllowed"), -1) == (failed ? 0 : 1));
    }
}

TEST(a_budget_that_chooses_nothing_says_nothing)
{
    static const char *const rows[] = {
        "{'metadata':{'name':'b','deletionTimestamp':'2026-01-01T00:00:00Z'},'spec':{'selector':{}}"
        "}",
        "{'metadata':{'name':'other'},'spec':{'selector':{}}}",
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(scene_close) struct scene scene;

        test_case(rows[i]);
        scene_open(&scene);
        scene_put(&scene, &kind_pdb, rows[i]);
        scene_run(&scene, &disruption_controller, "b");
        EXPECT(scene.actions.list.count == 0);
    }
}
