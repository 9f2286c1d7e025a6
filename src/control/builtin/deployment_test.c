#include "api/kind.h"
#include "api/object.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "base/str.h"
#include "cache/cache.h"
#include "control/core/controllers.h"
#include "control/core/scene.h"
#include "test.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Pods that come and go -> what ReplicaSets and Deployments do about them. */

#define TEMPLATE(image)                                                   \
    "'template':{'metadata':{'labels':{'app':'a'}},'spec':{'containers':" \
    "[{'name':'c','image':'" image "'}]}}"
#define SET(replicas)                                       \
    "{'metadata':{'name':'s'},'spec':{'replicas':" replicas \
    ",'selector':{'matchLabels':{'app':'a'}}," TEMPLATE("i1") "}}"
#define DEPLOYMENT(replicas, extra)                                                \
    "{'metadata':{'name':'d'},'spec':{'replicas':" replicas                        \
    ",'progressDeadlineSeconds':600,'selector':{'matchLabels':{'app':'a'}}," extra \
    "," TEMPLATE("i1") "}}"
#define ROLLING \
    "'strategy':{'type':'RollingUpdate','rollingUpdate':{'maxSurge':1,'maxUnavailable':0}}"
#define READY                                                                                      \
    "{'spec':{'nodeName':'m'},'status':{'phase':'Running','conditions':[{'type':'Ready','status':" \
    "'True','lastTransitionTime':'1970-01-01T00:00:01Z'}]}}"

static struct str nth(struct scene *scene, const struct kind *kind, int number)
{
    struct str rest = scene_names(scene, kind);
    struct str name = STR("");

    for (int i = 0; i <= number; i++)
        if (!str_cut(&rest, ' ', &name))
            return STR("");
    return str_dup(&scene->arena, name);
}

static size_t count(struct scene *scene, const struct kind *kind)
{
    return cache_count(scene->whole, kind);
}

static void all_ready(struct scene *scene)
{
    for (int i = 0; (size_t)i < count(scene, &kind_pod); i++) {
        const char *name = nth(scene, &kind_pod, i).p;

        if (!str_is(json_str_at(scene_get(scene, &kind_pod, name), "status.phase"), "Running"))
            scene_patch(scene, &kind_pod, name, READY);
    }
}

/* One look of each controller; new pods become ready when `ready`. */
static void turn(struct scene *scene, bool ready)
{
    scene_run(scene, &deployment_controller, "d");
    for (int i = 0; (size_t)i < count(scene, &kind_replicaset); i++)
        scene_run(scene, &replicaset_controller, nth(scene, &kind_replicaset, i).p);
    if (ready)
        all_ready(scene);
    for (int i = 0; (size_t)i < count(scene, &kind_replicaset); i++)
        scene_run(scene, &replicaset_controller, nth(scene, &kind_replicaset, i).p);
    scene_run(scene, &deployment_controller, "d");
}

static void turns(struct scene *scene)
{
    uint64_t before;

    do {
        before = scene->revision;
        turn(scene, true);
    } while (scene->revision != before);
}

static int64_t number(struct scene *scene, const struct kind *kind, struct str name, const char *at)
{
    return json_i64_or(json_at(scene_get(scene, kind, name.p), at), 0);
}

static struct str revision_of(struct scene *scene, struct str set)
{
    return json_str(
        json_get(json_at(scene_get(scene, &kind_replicaset, set.p), "metadata.annotations"),
                 "deployment.kubernetes.io/revision"));
}

TEST(a_replicaset_keeps_its_number_of_pods)
{
    _cleanup_(scene_close) struct scene scene;

    scene_open(&scene);
    scene_put(&scene, &kind_replicaset, SET("3"));
    scene_run(&scene, &replicaset_controller, "s");
    EXPECT(count(&scene, &kind_pod) == 3);
    struct str gone = nth(&scene, &kind_pod, 1);
    scene_drop(&scene, &kind_pod, gone.p);
    scene.now_ms += 1000;
    scene_run(&scene, &replicaset_controller, "s");
    EXPECT(count(&scene, &kind_pod) == 3);
    EXPECT(!scene_get(&scene, &kind_pod, gone.p)); /* the new one has a name of its own */
    scene_patch(&scene, &kind_pod, nth(&scene, &kind_pod, 0).p, "{'status':{'phase':'Failed'}}");
    scene_run(&scene, &replicaset_controller, "s");
    EXPECT(count(&scene, &kind_pod) == 4);
    EXPECT(number(&scene, &kind_replicaset, STR("s"), "status.replicas") == 3);
    scene_patch(&scene, &kind_pod, nth(&scene, &kind_pod, 1).p, READY);
    struct str ready = nth(&scene, &kind_pod, 1);
    scene_patch(&scene, &kind_replicaset, "s", "{'spec':{'replicas':1}}");
    scene_run(&scene, &replicaset_controller, "s");
    EXPECT(count(&scene, &kind_pod) == 2);
    EXPECT(scene_get(&scene, &kind_pod, ready.p) != NULL); /* who serves stays longest */
    EXPECT(number(&scene, &kind_replicaset, STR("s"), "status.readyReplicas") == 1);
}

TEST(a_replicaset_adopts_and_lets_go)
{
    _cleanup_(scene_close) struct scene scene;

    scene_open(&scene);
    scene_put(&scene, &kind_pod, "{'metadata':{'name':'free','labels':{'app':'a'}}}");
    scene_put(&scene, &kind_replicaset, SET("1"));
    scene_run(&scene, &replicaset_controller, "s");
    EXPECT(count(&scene, &kind_pod) == 1);
    EXPECT(str_is(
        json_str_at(scene_get(&scene, &kind_pod, "free"), "metadata.ownerReferences.0.name"), "s"));
    scene_patch(&scene, &kind_pod, "free", "{'metadata':{'labels':{'app':'b'}}}");
    scene_run(&scene, &replicaset_controller, "s");
    EXPECT(count(&scene, &kind_pod) == 2);
    EXPECT(json_count(json_at(scene_get(&scene, &kind_pod, "free"), "metadata.ownerReferences")) ==
           0);
}

TEST(a_replicaset_tells_what_the_server_refused)
{
    _cleanup_(scene_close) struct scene scene;

    scene_open(&scene);
    scene_put(&scene, &kind_replicaset, SET("1"));
    scene.refusal = STR("exceeded quota");
    scene_run(&scene, &replicaset_controller, "s");
    EXPECT(str_is(scene_conditions(&scene, &kind_replicaset, "s"), "ReplicaFailure=True"));
    scene.refusal = STR("");
    scene_run(&scene, &replicaset_controller, "s");
    EXPECT(str_is(scene_conditions(&scene, &kind_replicaset, "s"), ""));
}

TEST(a_deployment_rolls_without_losing_a_pod)
{
    _cleanup_(scene_close) struct scene scene;

    scene_open(&scene);
    scene_put(&scene, &kind_deployment, DEPLOYMENT("4", ROLLING));
    turns(&scene);
    EXPECT(count(&scene, &kind_pod) == 4 && count(&scene, &kind_replicaset) == 1);
    EXPECT(
        str_is(scene_conditions(&scene, &kind_deployment, "d"), "Available=True Progressing=True"));
    scene_patch(&scene, &kind_deployment, "d", "{'spec':{" TEMPLATE("i2") "}}");
    for (int i = 0; i < 20; i++) {
        turn(&scene, i % 2);
        EXPECT(count(&scene, &kind_pod) <= 5);
        EXPECT(number(&scene, &kind_deployment, STR("d"), "status.availableReplicas") >= 4);
    }
    struct str old = nth(&scene, &kind_replicaset, 0);
    struct str new = nth(&scene, &kind_replicaset, 1);
    EXPECT(number(&scene, &kind_replicaset, old, "spec.replicas") == 0);
    EXPECT(number(&scene, &kind_replicaset, new, "spec.replicas") == 4);
    EXPECT(number(&scene, &kind_deployment, STR("d"), "status.updatedReplicas") == 4);
    EXPECT(str_is(revision_of(&scene, old), "1") && str_is(revision_of(&scene, new), "2"));
    EXPECT(
        str_is(json_str_at(scene_get(&scene, &kind_deployment, "d"), "status.conditions.1.reason"),
               "NewReplicaSetAvailable"));

    /* Back: the first one is the newest again, and no third is made. */
    scene_patch(&scene, &kind_deployment, "d", "{'spec':{" TEMPLATE("i1") "}}");
    turns(&scene);
    EXPECT(count(&scene, &kind_replicaset) == 2);
    EXPECT(number(&scene, &kind_replicaset, old, "spec.replicas") == 4);
    EXPECT(str_is(revision_of(&scene, old), "3"));
}

TEST(a_deployment_that_recreates_has_never_both)
{
    _cleanup_(scene_close) struct scene scene;

    scene_open(&scene);
    scene_put(&scene, &kind_deployment, DEPLOYMENT("2", "'strategy':{'type':'Recreate'}"));
    turns(&scene);
    EXPECT(count(&scene, &kind_pod) == 2);
    struct str pod = nth(&scene, &kind_pod, 0);
    /* It takes its time to end. */
    scene_patch(&scene, &kind_pod, pod.p,
                "{'metadata':{'deletionTimestamp':'2026-01-01T00:00:00Z'}}");
    scene_patch(&scene, &kind_deployment, "d", "{'spec':{" TEMPLATE("i2") "}}");
    turn(&scene, true);
    turn(&scene, true);
    EXPECT(count(&scene, &kind_pod) == 1 && scene_get(&scene, &kind_pod, pod.p));
    scene_drop(&scene, &kind_pod, pod.p);
    turns(&scene);
    EXPECT(count(&scene, &kind_pod) == 2);
    EXPECT(number(&scene, &kind_deployment, STR("d"), "status.updatedReplicas") == 2);
}

TEST(a_paused_deployment_waits_but_can_be_scaled)
{
    _cleanup_(scene_close) struct scene scene;

    scene_open(&scene);
    scene_put(&scene, &kind_deployment, DEPLOYMENT("1", ROLLING));
    turns(&scene);
    scene_patch(&scene, &kind_deployment, "d",
                "{'spec':{'paused':true,'replicas':3," TEMPLATE("i2") "}}");
    turns(&scene);
    EXPECT(count(&scene, &kind_replicaset) == 1 && count(&scene, &kind_pod) == 3);
    EXPECT(str_is(scene_conditions(&scene, &kind_deployment, "d"),
                  "Available=True Progressing=Unknown"));
    scene_patch(&scene, &kind_deployment, "d", "{'spec':{'paused':false}}");
    turns(&scene);
    EXPECT(count(&scene, &kind_replicaset) == 2);
    EXPECT(number(&scene, &kind_deployment, STR("d"), "status.updatedReplicas") == 3);
    EXPECT(
        str_is(scene_conditions(&scene, &kind_deployment, "d"), "Available=True Progressing=True"));
}

TEST(a_deployment_that_makes_no_progress_says_so)
{
    _cleanup_(scene_close) struct scene scene;

    scene_open(&scene);
    scene_put(&scene, &kind_deployment, DEPLOYMENT("1", ROLLING));
    turn(&scene, false);
    EXPECT(str_is(scene_conditions(&scene, &kind_deployment, "d"),
                  "Available=False Progressing=True"));
    scene.now_ms += 601000;
    turn(&scene, false);
    EXPECT(str_is(scene_conditions(&scene, &kind_deployment, "d"),
                  "Available=False Progressing=False"));
    turns(&scene);
    EXPECT(
        str_is(scene_conditions(&scene, &kind_deployment, "d"), "Available=True Progressing=True"));
}

TEST(a_deployment_keeps_so_many_old_replicasets)
{
    _cleanup_(scene_close) struct scene scene;

    scene_open(&scene);
    scene_put(&scene, &kind_deployment, DEPLOYMENT("1", ROLLING ",'revisionHistoryLimit':1"));
    turns(&scene);
    scene_patch(&scene, &kind_deployment, "d", "{'spec':{" TEMPLATE("i2") "}}");
    turns(&scene);
    scene_patch(&scene, &kind_deployment, "d", "{'spec':{" TEMPLATE("i3") "}}");
    turns(&scene);
    EXPECT(count(&scene, &kind_replicaset) == 2);
    EXPECT(str_is(revision_of(&scene, nth(&scene, &kind_replicaset, 0)), "2"));
    EXPECT(str_is(revision_of(&scene, nth(&scene, &kind_replicaset, 1)), "3"));
}

TEST(old_replicasets_stay_until_the_new_one_serves)
{
    _cleanup_(scene_close) struct scene scene;

    scene_open(&scene);
    scene_put(&scene, &kind_deployment, DEPLOYMENT("2", ROLLING ",'revisionHistoryLimit':0"));
    turns(&scene);
    scene_patch(&scene, &kind_deployment, "d", "{'spec':{" TEMPLATE("i2") "}}");
    turn(&scene, false);
    EXPECT(count(&scene, &kind_replicaset) == 2);
    turns(&scene);
    EXPECT(count(&scene, &kind_replicaset) == 1);
    EXPECT(str_is(revision_of(&scene, nth(&scene, &kind_replicaset, 0)), "2"));
}

TEST(a_deployment_in_the_middle_of_a_rollout_is_scaled_in_proportion)
{
    _cleanup_(scene_close) struct scene scene;

    scene_open(&scene);
    scene_put(&scene, &kind_deployment,
              DEPLOYMENT("4", "'strategy':{'type':'RollingUpdate','rollingUpdate':{'maxSurge':0,"
                              "'maxUnavailable':2}}"));
    turns(&scene);
    scene_patch(&scene, &kind_deployment, "d", "{'spec':{" TEMPLATE("i2") "}}");
    turn(&scene, false);
    turn(&scene, false);
    struct str old = nth(&scene, &kind_replicaset, 0);
    struct str new = nth(&scene, &kind_replicaset, 1);
    EXPECT(number(&scene, &kind_replicaset, old, "spec.replicas") == 2);
    EXPECT(number(&scene, &kind_replicaset, new, "spec.replicas") == 2);
    scene_patch(&scene, &kind_deployment, "d", "{'spec':{'replicas':8}}");
    scene_run(&scene, &deployment_controller, "d");
    EXPECT(number(&scene, &kind_replicaset, old, "spec.replicas") == 4);
    EXPECT(number(&scene, &kind_replicaset, new, "spec.replicas") == 4);
    turns(&scene);
    EXPECT(number(&scene, &kind_deployment, STR("d"), "status.updatedReplicas") == 8);
    EXPECT(count(&scene, &kind_pod) == 8);
}

TEST(parts_of_a_rollout_are_rounded_to_the_nearest)
{
    _cleanup_(scene_close) struct scene scene;

    scene_open(&scene);
    scene_put(&scene, &kind_deployment,
              DEPLOYMENT("10", "'strategy':{'type':'RollingUpdate','rollingUpdate':{'maxSurge':3,"
                               "'maxUnavailable':2}}"));
    turns(&scene);
    scene_patch(&scene, &kind_deployment, "d", "{'spec':{" TEMPLATE("i2") "}}");
    for (int i = 0; i < 4; i++)
        turn(&scene, false);
    struct str old = nth(&scene, &kind_replicaset, 0);
    struct str new = nth(&scene, &kind_replicaset, 1);
    EXPECT(number(&scene, &kind_replicaset, old, "spec.replicas") == 8);
    EXPECT(number(&scene, &kind_replicaset, new, "spec.replicas") == 5);
    scene_patch(&scene, &kind_deployment, "d", "{'spec':{'replicas':30}}");
    scene_run(&scene, &deployment_controller, "d");
    EXPECT(number(&scene, &kind_replicaset, old, "spec.replicas") == 20);
    EXPECT(number(&scene, &kind_replicaset, new, "spec.replicas") == 13);
}
