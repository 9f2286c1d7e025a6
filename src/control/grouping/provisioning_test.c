#include "api/kind.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/json.h"
#include "base/str.h"
#include "control/core/controllers.h"
#include "control/core/scene.h"
#include "test.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a gang that waits asks Cluster Autoscaler for, in the form of that one's own types: podSets of
 * {podTemplateRef, count}, and two annotations on the pods. */

#define ASKED   "best-effort-atomic-scale-up.autoscaling.x-k8s.io"
#define LACKS   "'conditions':[{'type':'PodScheduled','status':'False','reason':'Unschedulable'}]"
#define LIMITED "'conditions':[{'type':'PodScheduled','status':'False','reason':'OverLimit'}]"
#define GPU     "'containers':[{'name':'c','image':'i','resources':{'limits':{'nvidia.com/gpu':'8'}}}]"
#define SMALL   "'containers':[{'name':'c','image':'i'}]"
#define POD(name, spec, status)                                                                \
    "{'metadata':{'name':'" name "','labels':{'app':'x'},'annotations':{'pod-group-name':'g'}" \
    "},'spec':{" spec "},'status':{'phase':'Pending'," status "}}"
#define GROUP(min) "{'metadata':{'name':'g'},'spec':{'queue':'q','minMember':" min "}}"
#define REQUEST(owner, condition)                                                            \
    "{'metadata':{'name':'g','ownerReferences':[{'apiVersion':'scheduling.run.ai/v2alpha2'," \
    "'kind':'PodGroup','name':'g','uid':'" owner                                             \
    "'}]},'spec':{},'status':{'conditions':[" condition "]}}"
#define CONDITION(type) \
    "{'type':'" type "','status':'True','lastTransitionTime':'1970-01-01T00:16:40Z'}"

static const struct kind kind_request = {.group = "autoscaling.x-k8s.io",
                                         .version = "v1",
                                         .name = "ProvisioningRequest",
                                         .plural = "provisioningrequests",
                                         .namespaced = true};

struct stage {
    struct scene scene;
    struct kinds *kinds;
};

static void stage_open(struct stage *stage)
{
    scene_open(&stage->scene);
    stage->kinds = kinds_new_cluster();
    kinds_add(stage->kinds, &kind_request);
    stage->scene.kinds = stage->kinds;
    stage->scene.config.provisioning_class = STR(ASKED);
    stage->scene.now_ms = 1000000;
}

static void stage_close(struct stage *stage)
{
    scene_close(&stage->scene);
    kinds_free(stage->kinds);
}

static bool has_request(struct stage *stage)
{
    return scene_get(&stage->scene, &kind_request, "g") != NULL;
}

static struct str consumes(struct stage *stage, const char *pod)
{
    return json_str(
        json_get(json_at(scene_get(&stage->scene, &kind_pod, pod), "metadata.annotations"),
                 "autoscaling.x-k8s.io/consume-provisioning-request"));
}

TEST(a_gang_asks_for_nodes_while_all_of_its_pods_lack_them)
{
    static const struct {
        const char *why;
        const char *group;
        const char *pods[3];
        bool asks;
    } rows[] = {
        {"all lack nodes", GROUP("2"), {POD("a", GPU, LACKS), POD("b", GPU, LACKS)}, true},
        {"more than it needs",
         GROUP("2"),
         {POD("a", GPU, LACKS), POD("b", GPU, LACKS), POD("c", GPU, LACKS)},
         true},
        {"its queue is at its limit",
         GROUP("2"),
         {POD("a", GPU, LIMITED), POD("b", GPU, LIMITED)},
         false},
        {"one has not been told yet",
         GROUP("2"),
         {POD("a", GPU, LACKS), POD("b", GPU, "'message':''")},
         false},
        {"one has a node",
         GROUP("2"),
         {POD("a", GPU, LACKS), POD("b", GPU ",'nodeName':'n'", "'message':''")},
         false},
        {"room is being made for one",
         GROUP("2"),
         {POD("a", GPU, LACKS), POD("b", GPU, "'nominatedNodeName':'n'," LACKS)},
         false},
        {"one is not made yet", GROUP("2"), {POD("a", GPU, LACKS)}, false},
        {"a pod that is alone asks for itself", GROUP("1"), {POD("a", GPU, LACKS)}, false},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct stage stage;

        test_case(rows[i].why);
        stage_open(&stage);
        scene_put(&stage.scene, &kind_podgroup, rows[i].group);
        for (size_t k = 0; k < COUNT_OF(rows[i].pods) && rows[i].pods[k]; k++)
            scene_put(&stage.scene, &kind_pod, rows[i].pods[k]);
        scene_run(&stage.scene, &provisioning_controller, "g");
        EXPECT(has_request(&stage) == rows[i].asks);
        EXPECT(str_is(consumes(&stage, "a"), rows[i].asks ? "g" : ""));
        stage_close(&stage);
    }
}

TEST(a_request_counts_the_pods_of_each_form)
{
    struct stage stage;

    stage_open(&stage);
    scene_put(&stage.scene, &kind_podgroup, GROUP("3"));
    scene_put(&stage.scene, &kind_pod, POD("a", GPU ",'nodeSelector':{'z':'1'}", LACKS));
    scene_put(&stage.scene, &kind_pod, POD("b", SMALL, LACKS));
    scene_put(&stage.scene, &kind_pod, POD("c", GPU ",'nodeSelector':{'z':'1'}", LACKS));
    scene_run(&stage.scene, &provisioning_controller, "g");
    const struct json *spec = json_get(scene_get(&stage.scene, &kind_request, "g"), "spec");
    EXPECT(str_is(json_str(json_get(spec, "provisioningClassName")), ASKED));
    EXPECT(json_count(json_get(spec, "podSets")) == 2);
    EXPECT(json_i64_or(json_at(spec, "podSets.0.count"), 0) == 2);
    EXPECT(json_i64_or(json_at(spec, "podSets.1.count"), 0) == 1);
    struct str name = json_str_at(spec, "podSets.0.podTemplateRef.name");
    const struct json *template = json_get(
        scene_get(&stage.scene, &kind_podtemplate, str_c(&stage.scene.arena, name)), "template");
    EXPECT(str_is(json_text(&stage.scene.arena, json_get(template, "spec")),
                  "{\"containers\":[{\"name\":\"c\",\"image\":\"i\",\"resources\":{\"limits\":"
                  "{\"nvidia.com/gpu\":\"8\"}}}],\"nodeSelector\":{\"z\":\"1\"}}"));
    EXPECT(str_is(json_str_at(template, "metadata.labels.app"), "x"));
    stage_close(&stage);
}

TEST(a_request_goes_when_its_gang_waits_for_nodes_no_longer)
{
    static const struct {
        const char *why;
        const char *pod;
        const char *consumes;
    } rows[] = {
        {"it has its nodes", POD("a", GPU ",'nodeName':'n'", "'message':''"), ""},
        {"it may not have them now", POD("a", GPU, LIMITED), ""},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct stage stage;

        test_case(rows[i].why);
        stage_open(&stage);
        scene_put(&stage.scene, &kind_podgroup, GROUP("2"));
        scene_put(&stage.scene, &kind_pod, POD("a", GPU, LACKS));
        scene_put(&stage.scene, &kind_pod, POD("b", GPU, LACKS));
        scene_run(&stage.scene, &provisioning_controller, "g");
        EXPECT(has_request(&stage) && str_is(consumes(&stage, "b"), "g"));
        scene_put(&stage.scene, &kind_pod, rows[i].pod);
        scene_run(&stage.scene, &provisioning_controller, "g");
        EXPECT(!has_request(&stage));
        EXPECT(str_is(consumes(&stage, "b"), rows[i].consumes));
        stage_close(&stage);
    }
}

TEST(what_could_not_be_had_is_asked_for_again_after_ten_minutes)
{
    static const struct {
        const char *why;
        const char *request;
        int64_t minutes;
        bool stays;
    } rows[] = {
        {"it was granted", REQUEST("u-g", CONDITION("Provisioned")), 60, true},
        {"it failed", REQUEST("u-g", CONDITION("Failed")), 9, true},
        {"long ago", REQUEST("u-g", CONDITION("Failed")), 10, false},
        {"nobody came for the nodes", REQUEST("u-g", CONDITION("BookingExpired")), 10, false},
        {"they were taken away", REQUEST("u-g", CONDITION("CapacityRevoked")), 10, false},
        {"it is somebody else's", REQUEST("u-x", CONDITION("Failed")), 60, true},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct stage stage;

        test_case(rows[i].why);
        stage_open(&stage);
        scene_put(&stage.scene, &kind_podgroup, GROUP("2"));
        scene_put(&stage.scene, &kind_pod, POD("a", GPU, LACKS));
        scene_put(&stage.scene, &kind_pod, POD("b", GPU, LACKS));
        scene_put(&stage.scene, &kind_request, rows[i].request);
        stage.scene.now_ms += rows[i].minutes * 60000;
        (void)scene_turn(&stage.scene, &provisioning_controller, "g");
        EXPECT(has_request(&stage) == rows[i].stays);
        scene_run(&stage.scene, &provisioning_controller, "g");
        EXPECT(has_request(&stage));
        stage_close(&stage);
    }
}

TEST(nobody_asks_for_gangs_where_no_class_is_said)
{
    struct control_config config = {.provisioning_class = STR("")};

    EXPECT(!provisioning_controller.is_wanted(&config));
    config.provisioning_class = STR(ASKED);
    EXPECT(provisioning_controller.is_wanted(&config));
}
