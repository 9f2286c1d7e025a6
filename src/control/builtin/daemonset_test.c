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

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* DaemonSets: pods that are where they should not be, that end, and that are replaced. */

#define TEMPLATE(image)                                                    \
    "'template':{'metadata':{'labels':{'app':'a'}},'spec':{'containers':[" \
    "{'name':'c','image':'" image "'}]}}"
#define SET(extra)                                                                  \
    "{'metadata':{'name':'s'},'spec':{'selector':{'matchLabels':{'app':'a'}}" extra \
    "," TEMPLATE("i1") "}}"
#define ROLLING(words) ",'updateStrategy':{'type':'RollingUpdate','rollingUpdate':{" words "}}"
#define READY                                                                     \
    "{'status':{'phase':'Running','conditions':[{'type':'Ready','status':'True'," \
    "'lastTransitionTime':'1970-01-01T00:00:01Z'}]}}"
#define GOING "{'metadata':{'deletionTimestamp':'2026-01-01T00:00:00Z'}}"

static void run(struct scene *scene)
{
    scene_run(scene, &daemonset_controller, "s");
}

static void put_nodes(struct scene *scene, int count)
{
    for (int i = 1; i <= count; i++)
        scene_put(scene, &kind_node, str_printf(&scene->arena, "{'metadata':{'name':'n%d'}}", i).p);
}

static struct str node_of(const struct json *pod)
{
    return json_str_at(pod, "spec.affinity.nodeAffinity."
                            "requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms.0."
                            "matchFields.0.values.0");
}

/* The pod for a node; of the image, unless that is NULL. */
static const char *pod_on(struct scene *scene, const char *node, const char *image)
{
    const struct object *pod = NULL;
    size_t cursor = 0;

    while ((pod = cache_next(scene->whole, &kind_pod, STR(""), &cursor))) {
        const char *name = str_c(&scene->arena, pod->name);
        const struct json *tree = scene_get(scene, &kind_pod, name);

        if (str_is(node_of(tree), node) &&
            (!image || str_is(json_str_at(tree, "spec.containers.0.image"), image)))
            return name;
    }
    return NULL;
}

static size_t pods(struct scene *scene)
{
    return cache_count(scene->whole, &kind_pod);
}

static int64_t number(struct scene *scene, const char *member)
{
    return json_i64_or(json_get(json_get(scene_get(scene, &kind_daemonset, "s"), "status"), member),
                       0);
}

TEST(pods_of_a_daemonset_that_have_no_business_go)
{
    _cleanup_(scene_close) struct scene scene;

    scene_open(&scene);
    put_nodes(&scene, 2);
    scene_put(&scene, &kind_daemonset, SET(""));
    run(&scene);
    EXPECT(pods(&scene) == 2);
    /* One that has failed is replaced. */
    const char *failed = pod_on(&scene, "n1", NULL);
    scene_patch(&scene, &kind_pod, failed, "{'status':{'phase':'Failed'}}");
    scene.now_ms += 1000;
    run(&scene);
    EXPECT(pods(&scene) == 2 && !scene_get(&scene, &kind_pod, failed));
    EXPECT(pod_on(&scene, "n1", NULL) != NULL);
    /* A second one on a node goes, the first one stays; so does one of a node that is gone. */
    const char *first = pod_on(&scene, "n1", NULL);
    const struct json *copy = scene_get(&scene, &kind_pod, first);
    scene_put(&scene, &kind_pod,
              str_printf(&scene.arena,
                         "{'metadata':{'name':'twin','labels':{'app':'a','controller-revision-hash'"
                         ":'" STR_FMT "'},'ownerReferences':[{'apiVersion':'apps/v1','kind':"
                         "'DaemonSet','name':'s','uid':'u-s','controller':true}]},'spec':{"
                         "'nodeName':'n1'}}",
                         STR_ARG(json_str(json_get(json_at(copy, "metadata.labels"),
                                                   "controller-revision-hash"))))
                  .p);
    run(&scene);
    EXPECT(!scene_get(&scene, &kind_pod, "twin") && scene_get(&scene, &kind_pod, first));
    scene_drop(&scene, &kind_node, "n2");
    run(&scene);
    EXPECT(pods(&scene) == 1 && number(&scene, "desiredNumberScheduled") == 1);
}

TEST(a_pod_of_a_daemonset_waits_until_the_one_before_it_has_ended)
{
    _cleanup_(scene_close) struct scene scene;

    scene_open(&scene);
    put_nodes(&scene, 1);
    scene_put(&scene, &kind_daemonset, SET(""));
    run(&scene);
    const char *old = pod_on(&scene, "n1", NULL);
    scene_patch(&scene, &kind_pod, old, GOING);
    scene.now_ms += 1000;
    run(&scene);
    EXPECT(pods(&scene) == 1);
    scene_drop(&scene, &kind_pod, old);
    run(&scene);
    EXPECT(pods(&scene) == 1 && !scene_get(&scene, &kind_pod, old));
    /* One that ends on a node that is gone holds nobody. */
    scene_patch(&scene, &kind_pod, pod_on(&scene, "n1", NULL), GOING);
    scene_drop(&scene, &kind_node, "n1");
    run(&scene);
    EXPECT(number(&scene, "desiredNumberScheduled") == 0);
}

TEST(a_pod_that_a_new_taint_would_keep_away_stays_and_is_not_replaced)
{
    _cleanup_(scene_close) struct scene scene;

    scene_open(&scene);
    put_nodes(&scene, 2);
    scene_put(&scene, &kind_daemonset, SET(ROLLING("'maxSurge':1,'maxUnavailable':0")));
    run(&scene);
    scene_patch(&scene, &kind_node, "n1",
                "{'spec':{'taints':[{'key':'k','effect':'NoSchedule'}]}}");
    scene_patch(&scene, &kind_pod, pod_on(&scene, "n1", NULL), READY);
    scene_patch(&scene, &kind_pod, pod_on(&scene, "n2", NULL), READY);
    run(&scene);
    EXPECT(pods(&scene) == 2 && number(&scene, "desiredNumberScheduled") == 2);
    scene_patch(&scene, &kind_daemonset, "s", "{'spec':{" TEMPLATE("i2") "}}");
    run(&scene);
    EXPECT(pod_on(&scene, "n2", "i2") && !pod_on(&scene, "n1", "i2"));
    EXPECT(number(&scene, "numberReady") == 2 && number(&scene, "numberAvailable") == 2);
    scene_drop(&scene, &kind_pod, pod_on(&scene, "n1", "i1"));
    run(&scene);
    EXPECT(!pod_on(&scene, "n1", NULL)); /* nor does a new one come */
    EXPECT(number(&scene, "desiredNumberScheduled") == 1);
}

TEST(a_daemonset_replaces_what_does_not_serve_first)
{
    static const struct {
        const char *why;
        const char *rolling;
        const char *serve; /* nodes whose old pods do */
        const char *fresh; /* nodes that have a pod of the new template after one look */
    } rows[] = {
        {"one at a time", ROLLING("'maxUnavailable':1"), "n1 n2 n3", "n1"},
        {"two at a time", ROLLING("'maxUnavailable':'50%'"), "n1 n2 n3", "n1 n2"},
        {"one is missing anyway", ROLLING("'maxUnavailable':1"), "n1 n2", "n3"},
        {"nothing serves", ROLLING("'maxUnavailable':1"), "", "n1 n2 n3"},
        {"nothing said: one", "", "n1 n2 n3", "n1"},
        {"none, which nobody could follow", ROLLING("'maxUnavailable':0"), "n1 n2 n3", "n1"},
        {"beside the old ones, two", ROLLING("'maxSurge':2,'maxUnavailable':0"), "n1 n2 n3",
         "n1 n2"},
        {"what does not serve takes no room of the surge",
         ROLLING("'maxSurge':1,'maxUnavailable':0"), "n1 n2", "n1 n3"},
        {"by hand", ",'updateStrategy':{'type':'OnDelete'}", "n1 n2 n3", ""},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(scene_close) struct scene scene;
        struct str rest = str_from(rows[i].serve);
        struct str node = STR("");
        struct str fresh = STR("");

        test_case(rows[i].why);
        scene_open(&scene);
        put_nodes(&scene, 3);
        scene_put(&scene, &kind_daemonset, str_printf(&scene.arena, SET("%s"), rows[i].rolling).p);
        run(&scene);
        while (rest.len && str_cut(&rest, ' ', &node))
            scene_patch(&scene, &kind_pod, pod_on(&scene, str_c(&scene.arena, node), NULL), READY);
        scene_patch(&scene, &kind_daemonset, "s", "{'spec':{" TEMPLATE("i2") "}}");
        scene.now_ms += 1000;
        run(&scene);
        for (int j = 1; j <= 3; j++) {
            char name[8];

            (void)snprintf(name, sizeof(name), "n%d", j);
            if (pod_on(&scene, name, "i2"))
                fresh = str_printf(&scene.arena, STR_FMT "%s%s", STR_ARG(fresh),
                                   fresh.len ? " " : "", name);
        }
        EXPECT(str_is(fresh, rows[i].fresh));
    }
}

TEST(a_daemonset_makes_its_pods_in_bursts)
{
    _cleanup_(scene_close) struct scene scene;

    scene_open(&scene);
    put_nodes(&scene, 300);
    scene_put(&scene, &kind_daemonset, SET(""));
    (void)scene_turn(&scene, &daemonset_controller, "s");
    EXPECT(pods(&scene) == 250);
    run(&scene);
    EXPECT(pods(&scene) == 300);
}

TEST(pods_of_a_daemonset_tolerate_nodes_in_trouble)
{
    static const struct {
        const char *why;
        const char *spec;
        size_t tolerations;
    } rows[] = {
        {"six kinds of trouble", "'containers':[]", 6},
        {"and what the template says", "'tolerations':[{'key':'mine','operator':'Exists'}]", 7},
        {"who uses the node's network needs no other one", "'hostNetwork':true", 7},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(scene_close) struct scene scene;

        test_case(rows[i].why);
        scene_open(&scene);
        put_nodes(&scene, 1);
        scene_put(&scene, &kind_node,
                  "{'metadata':{'name':'n2'},'spec':{'taints':[{'key':"
                  "'node.kubernetes.io/network-unavailable','effect':'NoSchedule'}]}}");
        scene_put(&scene, &kind_daemonset,
                  str_printf(&scene.arena,
                             "{'metadata':{'name':'s'},'spec':{'selector':{'matchLabels':{'app':"
                             "'a'}},'template':{'metadata':{'labels':{'app':'a'}},'spec':{%s}}}}",
                             rows[i].spec)
                      .p);
        run(&scene);
        EXPECT(json_count(json_at(scene_get(&scene, &kind_pod, pod_on(&scene, "n1", NULL)),
                                  "spec.tolerations")) == rows[i].tolerations);
        EXPECT(!pod_on(&scene, "n2", NULL) == (i != 2));
    }
}

/* ---- revisions ---- */

TEST(a_daemonset_keeps_so_many_old_revisions)
{
    static const char *const images[] = {"i2", "i3", "i4"};
    _cleanup_(scene_close) struct scene scene;

    scene_open(&scene);
    scene_put(&scene, &kind_daemonset,
              SET(",'revisionHistoryLimit':1,'updateStrategy':{'type':'OnDelete'}"));
    scene_patch(&scene, &kind_daemonset, "s",
                "{'metadata':{'annotations':{'kubernetes.io/change-cause':'a new image'}}}");
    run(&scene);
    for (size_t i = 0; i < COUNT_OF(images); i++) {
        scene_patch(&scene, &kind_daemonset, "s",
                    str_printf(&scene.arena, "{'spec':{" TEMPLATE("%s") "}}", images[i]).p);
        run(&scene);
    }
    EXPECT(cache_count(scene.whole, &kind_controllerrevision) == 2);
    struct str rest = scene_names(&scene, &kind_controllerrevision);
    struct str name = STR("");
    for (int64_t i = 3; rest.len && str_cut(&rest, ' ', &name); i++) {
        const struct json *revision =
            scene_get(&scene, &kind_controllerrevision, str_c(&scene.arena, name));

        EXPECT(json_i64_or(json_get(revision, "revision"), 0) == i);
        EXPECT(str_is(json_str(json_get(json_at(revision, "metadata.annotations"),
                                        "kubernetes.io/change-cause")),
                      "a new image"));
    }
    /* Back to the one before: the same revision, with the highest number. */
    scene_patch(&scene, &kind_daemonset, "s", "{'spec':{" TEMPLATE("i3") "}}");
    run(&scene);
    EXPECT(cache_count(scene.whole, &kind_controllerrevision) == 2);
    rest = scene_names(&scene, &kind_controllerrevision);
    int64_t most = 0;
    while (rest.len && str_cut(&rest, ' ', &name)) {
        const struct json *revision =
            scene_get(&scene, &kind_controllerrevision, str_c(&scene.arena, name));
        int64_t number_of = json_i64_or(json_get(revision, "revision"), 0);

        if (number_of > most && str_is(json_str_at(revision, "data.spec.template.spec.containers.0."
                                                             "image"),
                                       "i3"))
            most = number_of;
    }
    EXPECT(most == 5);
}

TEST(a_revision_with_a_name_that_somebody_has_gets_another_one)
{
    _cleanup_(scene_close) struct scene scene;

    scene_open(&scene);
    scene_put(&scene, &kind_daemonset, SET(""));
    run(&scene);
    const char *name = scene_names(&scene, &kind_controllerrevision).p;
    scene_drop(&scene, &kind_controllerrevision, name);
    scene_put(&scene, &kind_controllerrevision,
              str_printf(&scene.arena, "{'metadata':{'name':'%s'},'revision':7}", name).p);
    run(&scene);
    EXPECT(cache_count(scene.whole, &kind_controllerrevision) == 2);
    EXPECT(json_i64_or(json_get(scene_get(&scene, &kind_controllerrevision, name), "revision"),
                       0) == 7);
}

TEST(a_daemonset_that_goes_or_is_gone_does_nothing)
{
    _cleanup_(scene_close) struct scene scene;

    scene_open(&scene);
    put_nodes(&scene, 1);
    scene_put(&scene, &kind_daemonset, SET(""));
    scene_patch(&scene, &kind_daemonset, "s", GOING);
    run(&scene);
    scene_run(&scene, &daemonset_controller, "gone");
    EXPECT(pods(&scene) == 0);
}
