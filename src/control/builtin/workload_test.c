#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/json.h"
#include "base/str.h"
#include "cache/cache.h"
#include "control/builtin/workload.h"
#include "control/core/controllers.h"
#include "control/core/scene.h"
#include "test.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Whose pods are whose, which of them go first, and how many. */

#define TEMPLATE \
    "'template':{'metadata':{'labels':{'app':'a','tier':'t'}},'spec':{'containers':[]}}"
#define SET(name, replicas, meta)                                          \
    "{'metadata':{'name':'" name "'" meta "},'spec':{'replicas':" replicas \
    ",'selector':{'matchLabels':{'app':'a'}}," TEMPLATE "}}"
#define OWNER(kind, name)                                                                  \
    "'ownerReferences':[{'apiVersion':'apps/v1','kind':'" kind "','name':'" name "','uid'" \
    ":'u-" name "','controller':true}]"

static size_t count(struct scene *scene, const struct kind *kind)
{
    return cache_count(scene->whole, kind);
}

static int64_t number(struct scene *scene,
                      const struct kind *kind,
                      const char *name,
                      const char *at)
{
    return json_i64_or(json_at(scene_get(scene, kind, name), at), 0);
}

/* ---- who goes first ---- */

#define READY(since)                                                                           \
    "'phase':'Running','conditions':[{'type':'Ready','status':'True','lastTransitionTime':'19" \
    "70-01-01T00:" since "Z'}]"
#define ON(node) "'nodeName':'" node "'"

static void put_pod(struct scene *scene,
                    const char *name,
                    const char *set,
                    const char *meta,
                    const char *rest)
{
    struct str owner = str_printf(&scene->arena,
                                  "'ownerReferences':[{'apiVersion':'apps/v1','kind':'ReplicaSet',"
                                  "'name':'%s','uid':'u-%s','controller':true}]",
                                  set, set);

    scene_put(scene, &kind_pod,
              str_printf(&scene->arena,
                         "{'metadata':{'name':'%s','labels':{'app':'a'}," STR_FMT "%s},%s}", name,
                         STR_ARG(owner), meta, rest)
                  .p);
}

struct order_pod {
    const char *meta;
    const char *rest;
};

/* In the order of Kubernetes' documentation of the ReplicaSet, "Scaling a ReplicaSet". */
static const struct {
    const char *why;
    struct order_pod goes;
    struct order_pod stays;
} orders[] = {
    {"without a node", {"", "'spec':{}"}, {"", "'spec':{" ON("m") "}"}},
    {"pending before running",
     {"", "'spec':{" ON("m") "},'status':{'phase':'Pending'}"},
     {"", "'spec':{" ON("m") "},'status':{'phase':'Running'}"}},
    {"unknown before running",
     {"", "'spec':{" ON("m") "},'status':{'phase':'Unknown'}"},
     {"", "'spec':{" ON("m") "},'status':{'phase':'Running'}"}},
    {"pending before unknown",
     {"", "'spec':{" ON("m") "},'status':{'phase':'Pending'}"},
     {"", "'spec':{" ON("m") "},'status':{'phase':'Unknown'}"}},
    {"not ready before ready",
     {"", "'spec':{" ON("m") "},'status':{'phase':'Running'}"},
     {"", "'spec':{" ON("m") "},'status':{" READY("00:01") "}"}},
    {"what is cheap to delete",
     {",'annotations':{'controller.kubernetes.io/pod-deletion-cost':'-5'}",
      "'spec':{" ON("m") "},'status':{" READY("00:01") "}"},
     {"", "'spec':{" ON("m") "},'status':{" READY("00:09") "}"}},
    {"a cost that is no number is none",
     {"", "'spec':{" ON("m") "},'status':{" READY("00:01") "}"},
     {",'annotations':{'controller.kubernetes.io/pod-deletion-cost':'1'}",
      "'spec':{" ON("m") "},'status':{" READY("00:09") "}"}},
    {"ready for a short time",
     {"", "'spec':{" ON("m") "},'status':{" READY("09:00") "}"},
     {"", "'spec':{" ON("m") "},'status':{" READY("00:09") "}"}},
    {"often restarted",
     {"", "'spec':{" ON("m") "},'status':{'phase':'Running','containerStatuses':[{'restartCount':1"
                             "},{'restartCount':3},{'restartCount':0}]}"},
     {"", "'spec':{" ON("m") "},'status':{'phase':'Running','containerStatuses':[{'restartCount':2"
                             "}]}"}},
    {"young",
     {",'creationTimestamp':'2026-01-01T00:00:02Z'", "'spec':{" ON("m") "}"},
     {",'creationTimestamp':'2026-01-01T00:00:01Z'", "'spec':{" ON("m") "}"}},
};

TEST(of_too_many_pods_those_go_first_that_are_missed_least)
{
    for (size_t i = 0; i < 2 * COUNT_OF(orders); i++) {
        _cleanup_(scene_close) struct scene scene;
        bool swapped = i % 2; /* whatever the order in which they appeared */
        const struct order_pod *first = swapped ? &orders[i / 2].stays : &orders[i / 2].goes;
        const struct order_pod *second = swapped ? &orders[i / 2].goes : &orders[i / 2].stays;

        test_case(orders[i / 2].why);
        scene_open(&scene);
        scene_put(&scene, &kind_replicaset, SET("r", "1", ""));
        put_pod(&scene, swapped ? "stays" : "goes", "r", first->meta, first->rest);
        put_pod(&scene, swapped ? "goes" : "stays", "r", second->meta, second->rest);
        scene_run(&scene, &replicaset_controller, "r");
        EXPECT(str_is(scene_names(&scene, &kind_pod), "stays"));
    }
}

TEST(of_too_many_pods_those_go_first_that_share_a_node_with_others_of_their_deployment)
{
    static const struct {
        const char *why;
        const char *owner;  /* of both ReplicaSets */
        const char *oldest; /* who would stay longest without the others */
        const char *goes;
    } rows[] = {
        {"of this ReplicaSet the two on m1 are a crowd", "", "pair", "pair2"},
        {"together with the old pods, those on m2 are", "," OWNER("Deployment", "d"), "alone",
         "alone"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(scene_close) struct scene scene;

        test_case(rows[i].why);
        scene_open(&scene);
        scene_put(&scene, &kind_replicaset,
                  str_printf(&scene.arena, SET("new", "2", "%s"), rows[i].owner).p);
        scene_put(&scene, &kind_replicaset,
                  str_printf(&scene.arena, SET("old", "2", "%s"), rows[i].owner).p);
        if (str_is(str_from(rows[i].oldest), "alone"))
            put_pod(&scene, "alone", "new", "", "'spec':{" ON("m2") "}");
        put_pod(&scene, "pair1", "new", "", "'spec':{" ON("m1") "}");
        put_pod(&scene, "pair2", "new", "", "'spec':{" ON("m1") "}");
        if (!str_is(str_from(rows[i].oldest), "alone"))
            put_pod(&scene, "alone", "new", "", "'spec':{" ON("m2") "}");
        put_pod(&scene, "other1", "old", "", "'spec':{" ON("m2") "}");
        put_pod(&scene, "other2", "old", "", "'spec':{" ON("m2") "}");
        /* Pods that have ended or are about to are no crowd. */
        put_pod(&scene, "over1", "old", "", "'spec':{" ON("m1") "},'status':{'phase':'Failed'}");
        put_pod(&scene, "over2", "old", "", "'spec':{" ON("m1") "},'status':{'phase':'Failed'}");
        put_pod(&scene, "going", "old", ",'deletionTimestamp':'2026-01-01T00:00:00Z'",
                "'spec':{" ON("m1") "}");
        scene_run(&scene, &replicaset_controller, "new");
        EXPECT(count(&scene, &kind_pod) == 7);
        EXPECT(scene_get(&scene, &kind_pod, rows[i].goes) == NULL);
    }
}

TEST(a_replicaset_makes_and_removes_its_pods_in_bursts)
{
    _cleanup_(scene_close) struct scene scene;

    scene_open(&scene);
    scene_put(&scene, &kind_replicaset, SET("r", "600", ""));
    (void)scene_turn(&scene, &replicaset_controller, "r");
    EXPECT(count(&scene, &kind_pod) == 500);
    scene_run(&scene, &replicaset_controller, "r");
    EXPECT(count(&scene, &kind_pod) == 600);
    scene_patch(&scene, &kind_replicaset, "r", "{'spec':{'replicas':0}}");
    (void)scene_turn(&scene, &replicaset_controller, "r");
    EXPECT(count(&scene, &kind_pod) == 100);
    scene_run(&scene, &replicaset_controller, "r");
    EXPECT(count(&scene, &kind_pod) == 0);
}

/* ---- whose is whose ---- */

TEST(a_pod_is_adopted_when_it_is_chosen_and_free)
{
    static const struct {
        const char *why;
        const char *pod;
        bool adopted;
    } rows[] = {
        {"free", "{'metadata':{'name':'s-0','labels':{'app':'a'}}}", true},
        {"owned by somebody who does not control it",
         "{'metadata':{'name':'s-0','labels':{'app':'a'},'ownerReferences':[{'kind':'Thing','name':"
         "'t','uid':'u-t'}]}}",
         true},
        {"somebody else controls it",
         "{'metadata':{'name':'s-0','labels':{'app':'a'}," OWNER("ReplicaSet", "r") "}}", false},
        {"other labels", "{'metadata':{'name':'s-0','labels':{'app':'b'}}}", false},
        {"on its way out",
         "{'metadata':{'name':'s-0','labels':{'app':'a'},'deletionTimestamp':"
         "'2026-01-01T00:00:00Z'}}",
         false},
        {"another set's name", "{'metadata':{'name':'t-0','labels':{'app':'a'}}}", false},
        {"the name of a set whose name is longer",
         "{'metadata':{'name':'s-x-0','labels':{'app':'a'}}}", false},
        {"no number", "{'metadata':{'name':'s-x','labels':{'app':'a'}}}", false},
        {"below zero", "{'metadata':{'name':'s--1','labels':{'app':'a'}}}", false},
        {"nothing behind the name", "{'metadata':{'name':'s-','labels':{'app':'a'}}}", false},
        {"no dash", "{'metadata':{'name':'s00','labels':{'app':'a'}}}", false},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(scene_close) struct scene scene;

        test_case(rows[i].why);
        scene_open(&scene);
        scene_put(&scene, &kind_pod, rows[i].pod);
        const char *name = scene_names(&scene, &kind_pod).p;
        scene_put(&scene, &kind_statefulset, SET("s", "1", ""));
        (void)scene_turn(&scene, &statefulset_controller, "s");
        const struct json *owners =
            json_at(scene_get(&scene, &kind_pod, name), "metadata.ownerReferences");
        bool found = false;
        JSON_FOREACH(owners, owner)
            found |= str_is(json_str(json_get(owner, "uid")), "u-s");
        EXPECT(found == rows[i].adopted);
    }
}

TEST(a_pod_that_is_let_go_keeps_its_other_owners)
{
    _cleanup_(scene_close) struct scene scene;

    scene_open(&scene);
    scene_put(&scene, &kind_replicaset, SET("r", "0", ""));
    scene_put(&scene, &kind_pod,
              "{'metadata':{'name':'p','labels':{'app':'b'},'ownerReferences':[{'kind':'ReplicaSet'"
              ",'name':'r','uid':'u-r','controller':true},{'kind':'Thing','name':'t','uid':'u-t'}]"
              "}}");
    scene_put(&scene, &kind_pod,
              "{'metadata':{'name':'going','labels':{'app':'b'},'deletionTimestamp':"
              "'2026-01-01T00:00:00Z'," OWNER("ReplicaSet", "r") "}}");
    /* It names the ReplicaSet, and another one controls it. */
    scene_put(&scene, &kind_pod,
              "{'metadata':{'name':'q','labels':{'app':'a'},'ownerReferences':[{'kind':'ReplicaSet'"
              ",'name':'r','uid':'u-r'},{'kind':'Thing','name':'t','uid':'u-t','controller':true}]"
              "}}");
    scene_run(&scene, &replicaset_controller, "r");
    const struct json *pod = scene_get(&scene, &kind_pod, "p");
    EXPECT(json_count(json_at(pod, "metadata.ownerReferences")) == 1);
    EXPECT(str_is(json_str_at(pod, "metadata.ownerReferences.0.uid"), "u-t"));
    pod = scene_get(&scene, &kind_pod, "going"); /* goes anyway */
    EXPECT(json_count(json_at(pod, "metadata.ownerReferences")) == 1);
    EXPECT(scene_get(&scene, &kind_pod, "q") != NULL);
}

TEST(a_pod_without_all_labels_of_the_template_is_not_fully_labeled)
{
    _cleanup_(scene_close) struct scene scene;

    scene_open(&scene);
    scene_put(&scene, &kind_replicaset, SET("r", "2", ""));
    put_pod(&scene, "p", "r", "", "'spec':{}");
    put_pod(&scene, "over", "r", "", "'status':{'phase':'Succeeded'}");
    scene_run(&scene, &replicaset_controller, "r");
    EXPECT(number(&scene, &kind_replicaset, "r", "status.replicas") == 2);
    EXPECT(number(&scene, &kind_replicaset, "r", "status.fullyLabeledReplicas") == 1);
}

TEST(a_replicaset_that_goes_or_is_gone_does_nothing)
{
    _cleanup_(scene_close) struct scene scene;

    scene_open(&scene);
    scene_put(&scene, &kind_replicaset,
              SET("r", "1", ",'deletionTimestamp':'2026-01-01T00:00:00Z'"));
    scene_run(&scene, &replicaset_controller, "r");
    scene_run(&scene, &replicaset_controller, "gone");
    EXPECT(count(&scene, &kind_pod) == 0);
}

TEST(a_pod_is_available_when_it_was_ready_for_long_enough)
{
    _cleanup_(scene_close) struct scene scene;

    scene_open(&scene);
    scene.now_ms = 60000;
    scene_put(&scene, &kind_replicaset, SET("r", "1", ""));
    scene_patch(&scene, &kind_replicaset, "r", "{'spec':{'minReadySeconds':30}}");
    put_pod(&scene, "p", "r", "", "'spec':{" ON("m") "},'status':{" READY("00:40") "}");
    scene_run(&scene, &replicaset_controller, "r");
    EXPECT(number(&scene, &kind_replicaset, "r", "status.readyReplicas") == 1);
    EXPECT(number(&scene, &kind_replicaset, "r", "status.availableReplicas") == 0);
    /* It looks again by itself. */
    (void)scene_turn(&scene, &replicaset_controller, "r");
    EXPECT(scene.actions.list.count == 1 && scene.actions.list.items[0].at_ms == 70000);
    scene.now_ms = 70000;
    scene_run(&scene, &replicaset_controller, "r");
    EXPECT(number(&scene, &kind_replicaset, "r", "status.availableReplicas") == 1);
}

/* It became ready ten minutes from now, by a clock that was set back since. */
TEST(a_pod_that_need_not_wait_is_available_whatever_the_clock_says)
{
    _cleanup_(scene_close) struct scene scene;

    scene_open(&scene);
    scene.now_ms = 60000;
    scene_put(&scene, &kind_replicaset, SET("r", "1", ""));
    put_pod(&scene, "p", "r", "", "'spec':{" ON("m") "},'status':{" READY("11:00") "}");
    scene_run(&scene, &replicaset_controller, "r");
    EXPECT(number(&scene, &kind_replicaset, "r", "status.availableReplicas") == 1);
}

TEST(a_condition_of_others_stays_when_a_refusal_is_over)
{
    _cleanup_(scene_close) struct scene scene;

    scene_open(&scene);
    scene_put(&scene, &kind_replicaset, SET("r", "0", ""));
    scene_patch(&scene, &kind_replicaset, "r",
                "{'status':{'conditions':[{'type':'ReplicaFailure','status':'True'},{'type':'Mine',"
                "'status':'True'}]}}");
    scene_run(&scene, &replicaset_controller, "r");
    EXPECT(str_is(scene_conditions(&scene, &kind_replicaset, "r"), "Mine=True"));
}

TEST(a_share_is_a_number_or_per_cent_of_the_whole)
{
    static const struct {
        const char *value;
        int64_t whole;
        bool up;
        int64_t share;
    } rows[] = {
        {"3", 10, false, 3},        {"\"25%\"", 10, true, 3},  {"\"25%\"", 10, false, 2},
        {"\"0%\"", 10, true, 0},    {"\"100%\"", 7, false, 7}, {"null", 10, true, 9},
        {"\"x%\"", 10, true, 9},    {"\"%\"", 10, true, 9},    {"\"25\"", 10, true, 9},
        {"\"130%\"", 10, true, 13},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct json *value = NULL;

        test_case(rows[i].value);
        EXPECT(json_parse(&arena, str_from(rows[i].value), &value, NULL) == 0);
        EXPECT(workload_share(value, 9, rows[i].whole, rows[i].up) == rows[i].share);
    }
}
