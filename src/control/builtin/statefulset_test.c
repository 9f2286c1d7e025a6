#include "api/kind.h"
#include "api/object.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/json.h"
#include "base/str.h"
#include "cache/cache.h"
#include "control/builtin/workload.h"
#include "control/core/controllers.h"
#include "control/core/scene.h"
#include "test.h"

#include <stddef.h>
#include <stdint.h>

/* StatefulSets: pods that end, that are too many, and what claims they have. */

#define TEMPLATE(image)                                                    \
    "'template':{'metadata':{'labels':{'app':'a'}},'spec':{'containers':[" \
    "{'name':'c','image':'" image "'}]}}"
#define SET(extra)                                                                   \
    "{'metadata':{'name':'s'},'spec':{'selector':{'matchLabels':{'app':'a'}}," extra \
    "," TEMPLATE("i1") "}}"
#define PARALLEL "'podManagementPolicy':'Parallel'"
#define CLAIMS(more) \
    ",'volumeClaimTemplates':[{'metadata':{'name':'d'" more "},'spec':{'accessModes':['x']}}]"
#define READY                                                                     \
    "{'status':{'phase':'Running','conditions':[{'type':'Ready','status':'True'," \
    "'lastTransitionTime':'1970-01-01T00:00:01Z'}]}}"
#define GOING "{'metadata':{'deletionTimestamp':'2026-01-01T00:00:00Z'}}"

static void run(struct scene *scene)
{
    scene_run(scene, &statefulset_controller, "s");
}

static void serve(struct scene *scene)
{
    struct str rest = scene_names(scene, &kind_pod);
    struct str name = STR("");

    while (rest.len && str_cut(&rest, ' ', &name))
        if (!json_at(scene_get(scene, &kind_pod, str_c(&scene->arena, name)),
                     "metadata.deletionTimestamp"))
            scene_patch(scene, &kind_pod, str_c(&scene->arena, name), READY);
    run(scene);
}

static int64_t number(struct scene *scene, const char *member)
{
    return json_i64_or(
        json_get(json_get(scene_get(scene, &kind_statefulset, "s"), "status"), member), 0);
}

static struct str names(struct scene *scene)
{
    return scene_names(scene, &kind_pod);
}

TEST(a_pod_of_a_statefulset_that_has_ended_is_followed_by_one_of_its_name)
{
    static const char *const phases[] = {"Failed", "Succeeded"};

    for (size_t i = 0; i < COUNT_OF(phases); i++) {
        _cleanup_(scene_close) struct scene scene;

        test_case(phases[i]);
        scene_open(&scene);
        scene_put(&scene, &kind_statefulset, SET("'replicas':2," PARALLEL));
        run(&scene);
        serve(&scene);
        scene_patch(&scene, &kind_pod, "s-0",
                    str_printf(&scene.arena, "{'status':{'phase':'%s'}}", phases[i]).p);
        (void)scene_turn(&scene, &statefulset_controller, "s");
        EXPECT(str_is(names(&scene), "s-1"));
        EXPECT(number(&scene, "readyReplicas") == 1 && number(&scene, "currentReplicas") == 1);
        run(&scene);
        EXPECT(str_is(names(&scene), "s-1 s-0"));
    }
}

TEST(a_pod_on_its_way_out_is_waited_for_where_order_matters)
{
    static const struct {
        const char *why;
        const char *spec;
        const char *left; /* after a change from three to two, while s-0 ends */
    } rows[] = {
        {"one after another", "'replicas':3", "s-0 s-1 s-2"},
        {"all at once", "'replicas':3," PARALLEL, "s-0 s-1"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(scene_close) struct scene scene;

        test_case(rows[i].why);
        scene_open(&scene);
        scene_put(&scene, &kind_statefulset, str_printf(&scene.arena, SET("%s"), rows[i].spec).p);
        run(&scene);
        serve(&scene);
        serve(&scene);
        serve(&scene);
        EXPECT(str_is(names(&scene), "s-0 s-1 s-2"));
        scene_patch(&scene, &kind_pod, "s-0", GOING);
        scene_patch(&scene, &kind_statefulset, "s", "{'spec':{'replicas':2}}");
        run(&scene);
        EXPECT(str_is(names(&scene), rows[i].left));
    }
}

TEST(pods_of_a_statefulset_that_are_too_many_go_from_the_highest_number_down)
{
    _cleanup_(scene_close) struct scene scene;

    scene_open(&scene);
    scene_put(&scene, &kind_statefulset, SET("'replicas':4"));
    for (int i = 0; i < 4; i++) {
        run(&scene);
        serve(&scene);
    }
    scene_patch(&scene, &kind_statefulset, "s", "{'spec':{'replicas':1}}");
    (void)scene_turn(&scene, &statefulset_controller, "s");
    EXPECT(str_is(names(&scene), "s-0 s-1 s-2"));
    /* The next one waits until this one is gone. */
    scene_patch(&scene, &kind_pod, "s-2", GOING);
    run(&scene);
    EXPECT(str_is(names(&scene), "s-0 s-1 s-2"));
    scene_drop(&scene, &kind_pod, "s-2");
    run(&scene);
    EXPECT(str_is(names(&scene), "s-0"));
}

TEST(a_statefulset_that_begins_elsewhere_drops_the_numbers_before_and_behind)
{
    _cleanup_(scene_close) struct scene scene;

    scene_open(&scene);
    scene_put(&scene, &kind_statefulset, SET("'replicas':3," PARALLEL));
    run(&scene);
    serve(&scene);
    scene_patch(&scene, &kind_statefulset, "s", "{'spec':{'replicas':1,'ordinals':{'start':1}}}");
    run(&scene);
    EXPECT(str_is(names(&scene), "s-1"));
    EXPECT(number(&scene, "replicas") == 1);
}

TEST(a_parallel_statefulset_makes_its_pods_in_bursts)
{
    _cleanup_(scene_close) struct scene scene;

    scene_open(&scene);
    scene_put(&scene, &kind_statefulset, SET("'replicas':600," PARALLEL));
    (void)scene_turn(&scene, &statefulset_controller, "s");
    EXPECT(cache_count(scene.whole, &kind_pod) == 500);
    run(&scene);
    EXPECT(cache_count(scene.whole, &kind_pod) == 600);
    /* One far behind is one of them, also while others are missing. */
    scene_patch(&scene, &kind_statefulset, "s", "{'spec':{'replicas':2000}}");
    scene_put(&scene, &kind_pod, "{'metadata':{'name':'s-1999','labels':{'app':'a'}}}");
    (void)scene_turn(&scene, &statefulset_controller, "s");
    EXPECT(scene_get(&scene, &kind_pod, "s-1999") != NULL);
    EXPECT(cache_count(scene.whole, &kind_pod) == 1101);
}

TEST(a_set_of_billions_has_only_so_many_pods_that_wait_for_a_node)
{
    static const struct {
        const struct kind *kind;
        const struct controller *controller;
        const char *why;
    } rows[] = {{&kind_statefulset, &statefulset_controller, "a StatefulSet"},
                {&kind_replicaset, &replicaset_controller, "a ReplicaSet"}};

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(scene_close) struct scene scene;

        test_case(rows[i].why);
        scene_open(&scene);
        scene_put(&scene, rows[i].kind, SET("'replicas':2000000000," PARALLEL));
        for (int turns = 0; turns < 12; turns++)
            (void)scene_turn(&scene, rows[i].controller, "s");
        EXPECT(cache_count(scene.whole, &kind_pod) == WORKLOAD_WAITING_MAX);
        /* One that has a node makes room for the next. */
        struct str rest = names(&scene), name = STR("");
        EXPECT(str_cut(&rest, ' ', &name));
        scene_patch(&scene, &kind_pod, str_c(&scene.arena, name), "{'spec':{'nodeName':'n'}}");
        (void)scene_turn(&scene, rows[i].controller, "s");
        EXPECT(cache_count(scene.whole, &kind_pod) == WORKLOAD_WAITING_MAX + 1);
    }
}

TEST(a_statefulset_waits_for_a_new_pod_before_it_replaces_the_next)
{
    _cleanup_(scene_close) struct scene scene;

    scene_open(&scene);
    scene_put(&scene, &kind_statefulset, SET("'replicas':3," PARALLEL));
    run(&scene);
    serve(&scene);
    scene_patch(&scene, &kind_statefulset, "s", "{'spec':{" TEMPLATE("i2") "}}");
    run(&scene);
    /* s-2 is new and does not serve yet. */
    EXPECT(str_is(names(&scene), "s-0 s-1 s-2"));
    EXPECT(number(&scene, "updatedReplicas") == 1 && number(&scene, "currentReplicas") == 2);
    /* One that ends meanwhile is neither. */
    scene_patch(&scene, &kind_pod, "s-2", GOING);
    run(&scene);
    EXPECT(number(&scene, "updatedReplicas") == 0 && number(&scene, "currentReplicas") == 2);
    scene_drop(&scene, &kind_pod, "s-2");
    run(&scene);
    serve(&scene);
    serve(&scene);
    serve(&scene);
    EXPECT(number(&scene, "updatedReplicas") == 3 && number(&scene, "currentReplicas") == 3);
}

/* ---- claims ---- */

TEST(the_claims_of_a_statefulset_are_labeled_and_mounted)
{
    _cleanup_(scene_close) struct scene scene;

    scene_open(&scene);
    scene_put(&scene, &kind_pvc, "{'metadata':{'name':'d-s-1','labels':{'mine':'yes'}}}");
    scene_put(&scene, &kind_statefulset,
              "{'metadata':{'name':'s'},'spec':{'replicas':2," PARALLEL
              ",'selector':{'matchLabels':{'app':'a'}}" CLAIMS(
                  ",'labels':{'tier':'db'},'annotations':{'x':'y'}") ",'template':{'metadata':{"
                                                                     "'labels':{'app':'a'}},'spec':"
                                                                     "{'volumes':[{'name':'d','"
                                                                     "emptyDir':{}},{'name':'e',"
                                                                     "'emptyDir':{}}],'containers':"
                                                                     "[]}}}}");
    run(&scene);
    const struct json *claim = scene_get(&scene, &kind_pvc, "d-s-0");
    EXPECT(str_is(json_str_at(claim, "metadata.labels.app"), "a"));
    EXPECT(str_is(json_str_at(claim, "metadata.labels.tier"), "db"));
    EXPECT(str_is(json_str_at(claim, "metadata.annotations.x"), "y"));
    EXPECT(json_count(json_at(claim, "metadata.ownerReferences")) == 0);
    /* A claim that is there is used as it is. */
    EXPECT(
        str_is(json_str_at(scene_get(&scene, &kind_pvc, "d-s-1"), "metadata.labels.mine"), "yes"));
    /* The claim takes the place of the template's volume of that name. */
    const struct json *volumes = json_at(scene_get(&scene, &kind_pod, "s-0"), "spec.volumes");
    EXPECT(json_count(volumes) == 2);
    EXPECT(str_is(json_str_at(json_index(volumes, 0), "name"), "e"));
    EXPECT(str_is(json_str_at(json_index(volumes, 1), "persistentVolumeClaim.claimName"), "d-s-0"));
    EXPECT(!json_at(scene_get(&scene, &kind_pod, "s-0"), "spec.subdomain")); /* no serviceName */
}

static size_t owners_of(struct scene *scene, const char *claim)
{
    return json_count(json_at(scene_get(scene, &kind_pvc, claim), "metadata.ownerReferences"));
}

TEST(the_claims_of_a_statefulset_follow_a_change_of_the_policy)
{
    _cleanup_(scene_close) struct scene scene;

    scene_open(&scene);
    scene_put(&scene, &kind_statefulset, SET("'replicas':2," PARALLEL CLAIMS("")));
    run(&scene);
    serve(&scene);
    EXPECT(owners_of(&scene, "d-s-0") == 0);
    scene_patch(&scene, &kind_statefulset, "s",
                "{'spec':{'persistentVolumeClaimRetentionPolicy':{'whenDeleted':'Delete'}}}");
    run(&scene);
    EXPECT(
        str_is(json_str_at(scene_get(&scene, &kind_pvc, "d-s-0"), "metadata.ownerReferences.0.uid"),
               "u-s"));
    scene_patch(&scene, &kind_statefulset, "s",
                "{'spec':{'persistentVolumeClaimRetentionPolicy':{'whenDeleted':'Retain'}}}");
    run(&scene);
    EXPECT(owners_of(&scene, "d-s-0") == 0);
    /* A claim that somebody took away is not a reason to stop. */
    scene_drop(&scene, &kind_pvc, "d-s-0");
    scene_drop(&scene, &kind_pvc, "d-s-1");
    scene_patch(&scene, &kind_statefulset, "s",
                "{'spec':{'replicas':1,'persistentVolumeClaimRetentionPolicy':{'whenScaled':"
                "'Delete'}}}");
    run(&scene);
    EXPECT(str_is(names(&scene), "s-0"));
}

TEST(a_claim_of_a_pod_that_is_one_too_many_goes_with_it)
{
    _cleanup_(scene_close) struct scene scene;

    scene_open(&scene);
    scene_put(&scene, &kind_statefulset,
              SET("'replicas':2," PARALLEL
                  ",'persistentVolumeClaimRetentionPolicy':{'whenScaled':'Delete'}" CLAIMS("")));
    run(&scene);
    serve(&scene);
    scene_patch(&scene, &kind_statefulset, "s", "{'spec':{'replicas':1}}");
    scene_patch(&scene, &kind_pvc, "d-s-1",
                "{'metadata':{'ownerReferences':[{'kind':'Pod','name':'s-1','uid':'u-s-1'}]}}");
    run(&scene);
    EXPECT(str_is(names(&scene), "s-0"));
    EXPECT(owners_of(&scene, "d-s-1") == 1 && owners_of(&scene, "d-s-0") == 0);
}

TEST(a_statefulset_that_goes_or_is_gone_does_nothing)
{
    _cleanup_(scene_close) struct scene scene;

    scene_open(&scene);
    scene_put(&scene, &kind_statefulset, SET("'replicas':1"));
    scene_patch(&scene, &kind_statefulset, "s", GOING);
    run(&scene);
    scene_run(&scene, &statefulset_controller, "gone");
    EXPECT(names(&scene).len == 0);
}

/* ---- revisions ---- */

TEST(a_statefulset_keeps_the_revisions_that_its_pods_have)
{
    static const char *const images[] = {"i2", "i3", "i4", "i5"};
    _cleanup_(scene_close) struct scene scene;

    scene_open(&scene);
    scene_put(&scene, &kind_statefulset,
              SET("'replicas':1,'revisionHistoryLimit':1,'updateStrategy':{'type':'OnDelete'}"));
    run(&scene);
    serve(&scene);
    for (size_t i = 0; i < COUNT_OF(images); i++) {
        scene_patch(&scene, &kind_statefulset, "s",
                    str_printf(&scene.arena, "{'spec':{" TEMPLATE("%s") "}}", images[i]).p);
        run(&scene);
    }
    /* The pod's, the present one, and one more. */
    EXPECT(cache_count(scene.whole, &kind_controllerrevision) == 3);
    struct str label =
        json_str(json_get(json_at(scene_get(&scene, &kind_pod, "s-0"), "metadata.labels"),
                          "controller-revision-hash"));
    EXPECT(scene_get(&scene, &kind_controllerrevision, str_c(&scene.arena, label)) != NULL);
}
