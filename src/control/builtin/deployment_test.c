#include "api/kind.h"
#include "api/object.h"
#include "base/cleanup.h"
#include "base/count.h"
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

/* ---- ReplicaSets as somebody left them ---- */

/* A ReplicaSet of the Deployment d. */
struct given {
    const char *name;
    const char *image;
    int revision;
    int replicas;
    int available;
    int most; /* that it was made for, as its annotation says */
};

static void put_set(struct scene *scene, struct given given)
{
    scene_put(
        scene, &kind_replicaset,
        str_printf(
            &scene->arena,
            "{'metadata':{'name':'%s','labels':{'app':'a'},'creationTimestamp':"
            "'2026-01-01T00:00:0%dZ','annotations':{'deployment.kubernetes.io/revision':'%d',"
            "'deployment.kubernetes.io/desired-replicas':'10',"
            "'deployment.kubernetes.io/max-replicas':'%d'},'ownerReferences':[{'apiVersion':"
            "'apps/v1','kind':'Deployment','name':'d','uid':'u-d','controller':true}]},'spec':{"
            "'replicas':%d,'template':{'metadata':{'labels':{'app':'a','pod-template-hash':'%s'}},"
            "'spec':{'containers':[{'name':'c','image':'%s'}]}}},'status':{'replicas':%d,"
            "'availableReplicas':%d}}",
            given.name, given.revision, given.revision, given.most, given.replicas, given.name,
            given.image, given.replicas, given.available)
            .p);
}

#define FAST "'strategy':{'type':'RollingUpdate','rollingUpdate':{'maxSurge':3,'maxUnavailable':2}}"

TEST(a_change_of_the_number_keeps_the_parts_of_a_rollout)
{
    static const struct {
        const char *why;
        const char *deployment;
        int old;
        int new;
        int available; /* of the new ones */
        int most;      /* that the ReplicaSets were made for; 0: they do not say */
        int64_t old_after;
        int64_t new_after;
    } rows[] = {
        /* The example of Kubernetes' documentation: 10 become 15, 3 more old ones and 2 new. */
        {"more", DEPLOYMENT("15", FAST), 8, 5, 0, 13, 11, 7},
        {"fewer", DEPLOYMENT("5", FAST), 8, 5, 0, 13, 5, 3},
        {"nothing at all", DEPLOYMENT("0", FAST), 8, 5, 0, 13, 0, 0},
        {"a part is of what it was made for; the largest takes the rest", DEPLOYMENT("15", FAST), 8,
         2, 0, 13, 15, 3},
        {"of equals the newer one grows first", DEPLOYMENT("12", FAST), 5, 5, 0, 13, 6, 9},
        {"and the older one shrinks first", DEPLOYMENT("4", FAST), 5, 5, 0, 11, 3, 4},
        {"as many as there may be: nothing changes", DEPLOYMENT("9", FAST), 8, 4, 0, 13, 8, 4},
        {"a whole that is not known is what there is", DEPLOYMENT("15", FAST), 8, 5, 0, 0, 11, 7},
        {"the new ones are complete: the old ones go", DEPLOYMENT("10", FAST), 2, 10, 10, 13, 0,
         10},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(scene_close) struct scene scene;

        test_case(rows[i].why);
        scene_open(&scene);
        scene_put(&scene, &kind_deployment, rows[i].deployment);
        scene_patch(&scene, &kind_deployment, "d", "{'status':{'replicas':13}}");
        put_set(&scene, (struct given){"old", "i0", 1, rows[i].old, rows[i].old, rows[i].most});
        put_set(&scene,
                (struct given){"new", "i1", 2, rows[i].new, rows[i].available, rows[i].most});
        if (rows[i].available) /* it was adopted: made for another number */
            scene_patch(&scene, &kind_replicaset, "old",
                        "{'metadata':{'annotations':{'deployment.kubernetes.io/desired-replicas':"
                        "'2'}}}");
        (void)scene_turn(&scene, &deployment_controller, "d");
        EXPECT(number(&scene, &kind_replicaset, STR("old"), "spec.replicas") == rows[i].old_after);
        EXPECT(number(&scene, &kind_replicaset, STR("new"), "spec.replicas") == rows[i].new_after);
    }
}

TEST(a_whole_that_nobody_knows_is_not_divided)
{
    _cleanup_(scene_close) struct scene scene;

    scene_open(&scene);
    scene_put(&scene, &kind_deployment, DEPLOYMENT("15", FAST));
    put_set(&scene, (struct given){"old", "i0", 1, 8, 8, 0});
    put_set(&scene, (struct given){"new", "i1", 2, 5, 0, 0});
    (void)scene_turn(&scene, &deployment_controller, "d");
    /* The largest takes all. */
    EXPECT(number(&scene, &kind_replicaset, STR("old"), "spec.replicas") == 13);
    EXPECT(number(&scene, &kind_replicaset, STR("new"), "spec.replicas") == 5);
}

TEST(a_deployment_that_recreates_ends_all_old_ones_whatever_its_number)
{
    _cleanup_(scene_close) struct scene scene;

    scene_open(&scene);
    scene_put(&scene, &kind_deployment, DEPLOYMENT("15", "'strategy':{'type':'Recreate'}"));
    put_set(&scene, (struct given){"old", "i0", 1, 8, 8, 10});
    put_set(&scene, (struct given){"new", "i1", 2, 2, 2, 10});
    scene_put(&scene, &kind_pod,
              "{'metadata':{'name':'p','labels':{'app':'a'},'ownerReferences':[{'kind':"
              "'ReplicaSet','name':'old','uid':'u-old','controller':true}]},'status':{'phase':"
              "'Succeeded'}}");
    scene_run(&scene, &deployment_controller, "d");
    EXPECT(number(&scene, &kind_replicaset, STR("old"), "spec.replicas") == 0);
    EXPECT(number(&scene, &kind_replicaset, STR("new"), "spec.replicas") == 15);
}

TEST(old_pods_that_do_not_serve_go_first)
{
    static const struct {
        const char *why;
        int first;  /* of the oldest ReplicaSet */
        int serve;  /* of those */
        int second; /* of the next one, which all serve */
        int new;    /* of the newest one, which all serve */
        int64_t first_after;
        int64_t second_after;
    } rows[] = {
        {"none of the oldest serves", 4, 0, 4, 5, 0, 3},
        {"some do", 4, 2, 6, 3, 0, 5},
        {"those that do not are all that may go", 9, 0, 0, 4, 4, 0},
        {"more new ones than wanted are too many", 0, 0, 0, 12, 0, 0},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(scene_close) struct scene scene;

        test_case(rows[i].why);
        scene_open(&scene);
        scene_put(&scene, &kind_deployment, DEPLOYMENT("10", FAST));
        put_set(&scene, (struct given){"first", "i0", 1, rows[i].first, rows[i].serve, 13});
        put_set(&scene, (struct given){"second", "i2", 2, rows[i].second, rows[i].second, 13});
        put_set(&scene, (struct given){"new", "i1", 3, rows[i].new, rows[i].new, 13});
        (void)scene_turn(&scene, &deployment_controller, "d");
        EXPECT(number(&scene, &kind_replicaset, STR("first"), "spec.replicas") ==
               rows[i].first_after);
        EXPECT(number(&scene, &kind_replicaset, STR("second"), "spec.replicas") ==
               rows[i].second_after);
        EXPECT(number(&scene, &kind_replicaset, STR("new"), "spec.replicas") <= 10);
    }
}

TEST(old_replicasets_that_have_pods_stay_and_younger_ones_with_them)
{
    static const struct {
        const char *why;
        const char *patch; /* of the oldest one */
        const char *left;
    } rows[] = {
        {"the lowest revisions go", "{}", "third new"},
        {"one that has pods stays", "{'spec':{'replicas':1}}", "first third new"},
        {"one whose pods are still there", "{'status':{'replicas':1}}", "first third new"},
        {"one that was not looked at yet", "{'metadata':{'generation':2}}", "first third new"},
        {"one that goes is none", "{'metadata':{'deletionTimestamp':'2026-01-01T00:00:00Z'}}",
         "first third new"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(scene_close) struct scene scene;

        test_case(rows[i].why);
        scene_open(&scene);
        scene_put(&scene, &kind_deployment,
                  DEPLOYMENT("1", ROLLING ",'paused':true,'revisionHistoryLimit':1"));
        put_set(&scene, (struct given){"third", "i4", 3, 0, 0, 10});
        put_set(&scene, (struct given){"second", "i3", 2, 0, 0, 10});
        put_set(&scene, (struct given){"first", "i2", 1, 0, 0, 10});
        put_set(&scene, (struct given){"new", "i1", 4, 1, 1, 10});
        scene_patch(&scene, &kind_replicaset, "first", rows[i].patch);
        scene_run(&scene, &deployment_controller, "d");
        struct str rest = str_from(rows[i].left);
        struct str name = STR("");
        size_t left = 0;
        for (; rest.len && str_cut(&rest, ' ', &name); left++)
            EXPECT(scene_get(&scene, &kind_replicaset, str_c(&scene.arena, name)) != NULL);
        EXPECT(count(&scene, &kind_replicaset) == left);
    }
}

TEST(a_name_that_somebody_else_has_is_passed_over)
{
    _cleanup_(scene_close) struct scene scene;

    scene_open(&scene);
    scene_put(&scene, &kind_deployment, DEPLOYMENT("1", ROLLING));
    turns(&scene);
    struct str taken = nth(&scene, &kind_replicaset, 0);
    scene_drop(&scene, &kind_replicaset, taken.p);
    scene_drop(&scene, &kind_pod, nth(&scene, &kind_pod, 0).p);
    scene_put(&scene, &kind_replicaset,
              str_printf(&scene.arena,
                         "{'metadata':{'name':'%s','ownerReferences':[{'kind':'Thing','name':'t',"
                         "'uid':'u-t','controller':true}]},'spec':{'replicas':0}}",
                         taken.p)
                  .p);
    turns(&scene);
    EXPECT(count(&scene, &kind_replicaset) == 2);
    EXPECT(number(&scene, &kind_deployment, STR("d"), "status.collisionCount") == 1);
    EXPECT(number(&scene, &kind_deployment, STR("d"), "status.availableReplicas") == 1);
}

TEST(what_people_write_on_a_deployment_is_on_its_newest_replicaset)
{
    _cleanup_(scene_close) struct scene scene;

    scene_open(&scene);
    scene_put(&scene, &kind_deployment, DEPLOYMENT("1", ROLLING ",'minReadySeconds':5"));
    scene_patch(&scene, &kind_deployment, "d",
                "{'metadata':{'annotations':{'kubernetes.io/change-cause':'first',"
                "'kubectl.kubernetes.io/last-applied-configuration':'{}'}}}");
    turn(&scene, true);
    struct str set = nth(&scene, &kind_replicaset, 0);
    const struct json *annotations =
        json_at(scene_get(&scene, &kind_replicaset, set.p), "metadata.annotations");
    EXPECT(str_is(json_str(json_get(annotations, "kubernetes.io/change-cause")), "first"));
    EXPECT(!json_get(annotations, "kubectl.kubernetes.io/last-applied-configuration"));
    EXPECT(number(&scene, &kind_replicaset, set, "spec.minReadySeconds") == 5);
    scene_patch(&scene, &kind_deployment, "d",
                "{'metadata':{'annotations':{'kubernetes.io/change-cause':'second'}},'spec':{"
                "'minReadySeconds':0}}");
    turns(&scene);
    annotations = json_at(scene_get(&scene, &kind_replicaset, set.p), "metadata.annotations");
    EXPECT(str_is(json_str(json_get(annotations, "kubernetes.io/change-cause")), "second"));
    EXPECT(number(&scene, &kind_replicaset, set, "spec.minReadySeconds") == 0);

    /* A revision that is wanted again remembers what it was. */
    for (int i = 0; i < 2; i++) {
        scene_patch(&scene, &kind_deployment, "d", "{'spec':{" TEMPLATE("i2") "}}");
        turns(&scene);
        scene_patch(&scene, &kind_deployment, "d", "{'spec':{" TEMPLATE("i1") "}}");
        turns(&scene);
    }
    annotations = json_at(scene_get(&scene, &kind_replicaset, set.p), "metadata.annotations");
    EXPECT(str_is(json_str(json_get(annotations, "deployment.kubernetes.io/revision")), "5"));
    EXPECT(str_is(json_str(json_get(annotations, "deployment.kubernetes.io/revision-history")),
                  "1,3"));
}

TEST(a_deployment_tells_what_its_newest_replicaset_could_not_make)
{
    _cleanup_(scene_close) struct scene scene;

    scene_open(&scene);
    scene_put(&scene, &kind_deployment, DEPLOYMENT("1", ROLLING));
    turn(&scene, false);
    struct str set = nth(&scene, &kind_replicaset, 0);
    scene_patch(&scene, &kind_replicaset, set.p,
                "{'status':{'conditions':[{'type':'ReplicaFailure','status':'True','reason':"
                "'FailedCreate','message':'exceeded quota'}]}}");
    scene_run(&scene, &deployment_controller, "d");
    EXPECT(str_is(scene_conditions(&scene, &kind_deployment, "d"),
                  "Available=False Progressing=True ReplicaFailure=True"));
    scene_patch(&scene, &kind_replicaset, set.p, "{'status':{'conditions':null}}");
    scene_run(&scene, &deployment_controller, "d");
    EXPECT(str_is(scene_conditions(&scene, &kind_deployment, "d"),
                  "Available=False Progressing=True"));
}

TEST(a_deployment_without_a_deadline_says_nothing_of_progress)
{
    _cleanup_(scene_close) struct scene scene;

    scene_open(&scene);
    scene_put(&scene, &kind_deployment, DEPLOYMENT("1", ROLLING));
    scene_patch(&scene, &kind_deployment, "d", "{'spec':{'progressDeadlineSeconds':null}}");
    turns(&scene);
    EXPECT(str_is(scene_conditions(&scene, &kind_deployment, "d"), "Available=True"));
    scene_patch(&scene, &kind_deployment, "d",
                "{'metadata':{'deletionTimestamp':'2026-01-01T00:00:00Z'},'spec':{'replicas':5}}");
    turns(&scene); /* one that goes is left alone */
    EXPECT(count(&scene, &kind_pod) == 1);
}

TEST(numbers_that_leave_no_room_to_roll_let_one_pod_go)
{
    _cleanup_(scene_close) struct scene scene;

    scene_open(&scene);
    scene_put(&scene, &kind_deployment,
              DEPLOYMENT("3", "'strategy':{'type':'RollingUpdate','rollingUpdate':{'maxSurge':'0%',"
                              "'maxUnavailable':'10%'}}"));
    turns(&scene);
    scene_patch(&scene, &kind_deployment, "d", "{'spec':{" TEMPLATE("i2") "}}");
    for (int i = 0; i < 12; i++) {
        turn(&scene, i % 2);
        EXPECT(count(&scene, &kind_pod) <= 3);
        EXPECT(number(&scene, &kind_deployment, STR("d"), "status.availableReplicas") >= 2);
    }
    turns(&scene);
    EXPECT(number(&scene, &kind_deployment, STR("d"), "status.updatedReplicas") == 3);
    /* More than all cannot be away. */
    scene_patch(&scene, &kind_deployment, "d",
                "{'spec':{'strategy':{'rollingUpdate':{'maxUnavailable':9}}," TEMPLATE("i3") "}}");
    turns(&scene);
    EXPECT(number(&scene, &kind_deployment, STR("d"), "status.updatedReplicas") == 3);
}
