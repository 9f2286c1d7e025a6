#include "api/kind.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/json.h"
#include "base/str.h"
#include "control/core/controllers.h"
#include "control/core/scene.h"
#include "test.h"

#include <stddef.h>
#include <stdint.h>

/* What a pod group says of its pods. */

#define GROUP(spec) "{'metadata':{'name':'g'},'spec':{'queue':'q'," spec "}}"
#define POD(name, meta, spec, phase)                                                            \
    "{'metadata':{'name':'" name "','annotations':{'pod-group-name':'g'" meta "},'spec':{" spec \
    "},'status':{'phase':'" phase "'}}"
#define REQUEST(list) "'containers':[{'name':'c','resources':{'requests':{" list "}}}]"

static struct str said(struct scene *scene, const char *path)
{
    return json_text(&scene->arena, json_at(scene_get(scene, &kind_podgroup, "g"), path));
}

TEST(the_phase_of_a_group_follows_from_its_pods)
{
    static const struct {
        const char *why;
        const char *pods[3];
        const char *phase;
    } rows[] = {
        {"none", {NULL}, "\"Pending\""},
        {"one waits", {POD("a", "}", "", "Pending"), POD("b", "}", "", "Running")}, "\"Pending\""},
        {"all have a place",
         {POD("a", "}", "'nodeName':'n'", "Pending"), POD("b", "}", "'nodeName':'n'", "Running")},
         "\"Scheduled\""},
        {"all run", {POD("a", "}", "", "Running"), POD("b", "}", "", "Running")}, "\"Running\""},
        {"all are done",
         {POD("a", "}", "", "Succeeded"), POD("b", "}", "", "Succeeded")},
         "\"Succeeded\""},
        {"one failed", {POD("a", "}", "", "Succeeded"), POD("b", "}", "", "Failed")}, "\"Failed\""},
        {"one failed and one runs",
         {POD("a", "}", "", "Running"), POD("b", "}", "", "Failed")},
         "\"Pending\""},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(scene_close) struct scene scene;

        scene_open(&scene);
        test_case(rows[i].why);
        scene_put(&scene, &kind_podgroup, GROUP("'minMember':2"));
        for (size_t j = 0; rows[i].pods[j]; j++)
            scene_put(&scene, &kind_pod, rows[i].pods[j]);
        scene_run(&scene, &group_status_controller, "g");
        EXPECT(str_is(said(&scene, "status.phase"), rows[i].phase));
        EXPECT(str_is(said(&scene, "status.minMember"), "2"));
    }
}

TEST(the_minimum_of_a_group_is_that_of_its_subgroups_together)
{
    _cleanup_(scene_close) struct scene scene;

    scene_open(&scene);
    scene_put(&scene, &kind_podgroup,
              GROUP("'subGroups':[{'name':'a','minMember':2},{'name':'b','minMember':3}]"));
    scene_run(&scene, &group_status_controller, "g");
    EXPECT(str_is(said(&scene, "status.minMember"), "5"));
}

TEST(a_group_says_what_its_pods_ask_for_and_what_they_hold)
{
    _cleanup_(scene_close) struct scene scene;

    scene_open(&scene);
    scene_put(&scene, &kind_podgroup, GROUP("'minMember':1,'preemptibility':'non-preemptible'"));
    scene_put(&scene, &kind_pod,
              POD("a", "}", "'nodeName':'n'," REQUEST("'cpu':'500m','odd':'many'"), "Running"));
    scene_put(&scene, &kind_pod, POD("b", "}", REQUEST("'cpu':'1'"), "Pending"));
    scene_put(&scene, &kind_pod,
              POD("c", ",'gpu-fraction':'0.5','gpu-fraction-num-devices':'2'}", "", "Pending"));
    scene_put(&scene, &kind_pod, POD("d", ",'gpu-memory':'1000'}", "", "Pending"));
    scene_put(&scene, &kind_pod, POD("e", "}", REQUEST("'cpu':'9'"), "Succeeded"));
    scene_run(&scene, &group_status_controller, "g");
    EXPECT(str_is(said(&scene, "status.resourcesStatus.requested"),
                  "{\"cpu\":\"1500m\",\"nvidia.com/gpu\":\"1\",\"run.ai/gpu.memory\":\"1k\"}"));
    EXPECT(str_is(said(&scene, "status.resourcesStatus.allocated"), "{\"cpu\":\"500m\"}"));
    EXPECT(str_is(said(&scene, "status.resourcesStatus.allocatedNonPreemptible"),
                  "{\"cpu\":\"500m\"}"));
    EXPECT(str_is(said(&scene, "status.pending"), "3") &&
           str_is(said(&scene, "status.running"), "1"));
}

TEST(what_a_group_holds_for_good_follows_from_its_word_then_from_its_priority)
{
    static const struct {
        const char *why;
        const char *spec;
        const char *held;
    } rows[] = {
        {"preemptible", "'preemptibility':'preemptible','priorityClassName':'high'", "{}"},
        {"semi-preemptible", "'preemptibility':'semi-preemptible','priorityClassName':'high'",
         "{}"},
        {"not", "'preemptibility':'non-preemptible','priorityClassName':'low'", "{\"cpu\":\"1\"}"},
        {"by a high priority", "'priorityClassName':'high'", "{\"cpu\":\"1\"}"},
        {"by a low one", "'priorityClassName':'low'", "{}"},
        {"by one that is not there", "'priorityClassName':'none'", "{}"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(scene_close) struct scene scene;

        scene_open(&scene);
        test_case(rows[i].why);
        scene_put(&scene, &kind_priorityclass, "{'metadata':{'name':'high'},'value':100}");
        scene_put(&scene, &kind_priorityclass, "{'metadata':{'name':'low'},'value':99}");
        scene_put(&scene, &kind_podgroup,
                  str_c(&scene.arena, str_printf(&scene.arena, GROUP("%s"), rows[i].spec)));
        scene_put(&scene, &kind_pod,
                  POD("a", "}", "'nodeName':'n'," REQUEST("'cpu':'1'"), "Running"));
        scene_run(&scene, &group_status_controller, "g");
        EXPECT(
            str_is(said(&scene, "status.resourcesStatus.allocatedNonPreemptible"), rows[i].held));
    }
}

#define IN(sub) "},'labels':{'kai.scheduler/subgroup-name':'" sub "'}"
#define TREE \
    "'subGroups':[{'name':'top'},{'name':'a','parent':'top','minMember':1},{'name':'default'}]"

TEST(a_pod_that_names_no_leaf_of_its_group_learns_why_it_waits)
{
    static const struct {
        const char *why;
        const char *pod;
        bool outside;
        bool told;
    } rows[] = {
        {"a leaf", POD("p", IN("a"), "", "Pending"), false, false},
        {"the default", POD("p", "}", "", "Pending"), false, false},
        {"one that has others below it", POD("p", IN("top"), "", "Pending"), true, true},
        {"one that there is not", POD("p", IN("b"), "", "Pending"), true, true},
        {"but it has a place", POD("p", IN("b"), "'nodeName':'n'", "Running"), true, false},
        {"but it is held back by somebody",
         POD("p", IN("b"), "'schedulingGates':[{'name':'x'}]", "Pending"), true, false},
        {"but it is going",
         POD("p", IN("b") ",'deletionTimestamp':'2026-01-01T00:00:00Z'", "", "Pending"), true,
         false},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(scene_close) struct scene scene;

        scene_open(&scene);
        test_case(rows[i].why);
        scene_put(&scene, &kind_podgroup, GROUP(TREE));
        scene_put(&scene, &kind_pod, rows[i].pod);
        scene_run(&scene, &group_status_controller, "g");
        EXPECT(str_is(scene_conditions(&scene, &kind_podgroup, "g"),
                      rows[i].outside ? "PodsOutsideSubGroups=True" : ""));
        EXPECT(str_is(scene_conditions(&scene, &kind_pod, "p"),
                      rows[i].told ? "PodScheduled=False" : ""));
        EXPECT(str_is(scene.events, rows[i].told ? "Unschedulable" : ""));
        /* It is said once, and no longer when it is not so. */
        scene_run(&scene, &group_status_controller, "g");
        EXPECT(str_is(scene.events, rows[i].told ? "Unschedulable" : ""));
        scene_patch(&scene, &kind_podgroup, "g",
                    "{'status':{'conditions':[{'type':'Other','status':'True'},{'type':"
                    "'PodsOutsideSubGroups','status':'True'}]}}");
        scene_patch(&scene, &kind_pod, "p",
                    "{'metadata':{'labels':{'kai.scheduler/subgroup-name':'a'}}}");
        scene_run(&scene, &group_status_controller, "g");
        EXPECT(str_is(scene_conditions(&scene, &kind_podgroup, "g"), "Other=True"));
    }
}

TEST(a_group_that_is_going_and_pods_of_other_namespaces_say_nothing)
{
    _cleanup_(scene_close) struct scene scene;

    scene_open(&scene);
    scene_put(&scene, &kind_podgroup, GROUP("'minMember':1"));
    scene_put(&scene, &kind_pod,
              "{'metadata':{'name':'a','namespace':'kube-system','annotations':{'pod-group-name':"
              "'g'}},'status':{'phase':'Running'}}");
    scene_run(&scene, &group_status_controller, "g");
    EXPECT(str_is(said(&scene, "status.running"), "0"));
    scene_put(&scene, &kind_podgroup,
              "{'metadata':{'name':'g','deletionTimestamp':'2026-01-01T00:00:00Z'},'spec':{}}");
    EXPECT(!scene_turn(&scene, &group_status_controller, "g"));
    EXPECT(!scene_turn(&scene, &group_status_controller, "none"));
}
