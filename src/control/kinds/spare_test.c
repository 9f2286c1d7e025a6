#include "api/group.h"
#include "api/kind.h"
#include "api/place.h"
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
#include <stdio.h>

/* A gang of two pods on nodes a and b, and a spare on c: when it takes the place of a pod that is
 * lost, and when all pods are made again. */

#define JOB(more)                                                                                 \
    "{'metadata':{'name':'j'},'spec':{'jobQueue':'q','command':'x','numGPUs':4,'numNodes':2" more \
    "}}"
#define SPARES(count) ",'reliability':{'restartMode':'InPlace','spares':" count "}"
#define NODE(name)                                                                     \
    "{'metadata':{'name':'" name "'},'status':{'nodeInfo':{'containerRuntimeVersion':" \
    "'muster-shim://1'},'conditions':[{'type':'Ready','status':'True'}]}}"
#define RUNS(node, count)                                                                \
    "{'spec':{'nodeName':'" node "'},'status':{'phase':'Running','containerStatuses':[{" \
    "'name':'trainer','restartCount':" count ",'state':{'running':{},'terminated':null}}]}}"
#define STOPPED(count)                                                                     \
    "{'status':{'containerStatuses':[{'name':'trainer','restartCount':" count              \
    ",'state':{'running':null,'terminated':{'exitCode':143,'reason':'Error','finishedAt':" \
    "'1970-01-01T00:16:40Z'}}}]}}"

static void look(struct scene *scene)
{
    scene_run(scene, &torchrun_job_controller, "j");
}

static void begin(struct scene *scene, const char *job)
{
    scene_open(scene);
    scene_put(scene, &kind_node, NODE("a"));
    scene_put(scene, &kind_node, NODE("b"));
    scene_put(scene, &kind_node, NODE("c"));
    scene_put(scene, &kind_torchrunqueue,
              "{'metadata':{'name':'q'},'spec':{'nodeResources':{'gpus':2}}}");
    scene_put(scene, &kind_torchrunjob, job);
    look(scene);
    if (scene_get(scene, &kind_pod, "j-sync-0"))
        scene_patch(scene, &kind_pod, "j-sync-0",
                    "{'spec':{'nodeName':'c'},'status':{'phase':'Running','conditions':[{'type':"
                    "'Ready','status':'True'}]}}");
    look(scene);
    scene_patch(scene, &kind_pod, "j-worker-0", RUNS("a", "0"));
    scene_patch(scene, &kind_pod, "j-worker-1", RUNS("b", "0"));
    look(scene);
}

static struct str member_of(struct scene *scene, const char *pod, const char *map, const char *key)
{
    const struct json *meta = json_get(scene_get(scene, &kind_pod, pod), "metadata");

    JSON_FOREACH(json_get(meta, map), member)
        if (str_is(json_key(member), key))
            return json_str(member);
    return STR_NONE;
}

static struct str order_of(struct scene *scene, const char *pod)
{
    return member_of(scene, pod, "annotations", PLACE_ANNOTATION);
}

static int64_t status_number(struct scene *scene, const char *field)
{
    return json_i64_or(
        json_get(json_get(scene_get(scene, &kind_torchrunjob, "j"), "status"), field), 0);
}

static struct str status_word(struct scene *scene, const char *field)
{
    return json_str(json_get(json_get(scene_get(scene, &kind_torchrunjob, "j"), "status"), field));
}

/* The value of a variable of the trainer, or the field that it is taken from. */
static struct str variable(struct scene *scene, const char *pod, const char *name)
{
    JSON_FOREACH(json_at(scene_get(scene, &kind_pod, pod), "spec.containers.0.env"), entry)
        if (str_is(json_str(json_get(entry, "name")), name))
            return json_get(entry, "value") ? json_str(json_get(entry, "value"))
                                            : json_str_at(entry, "valueFrom.fieldRef.fieldPath");
    return STR_NONE;
}

TEST(spares_are_made_when_the_gang_has_its_nodes)
{
    _cleanup_(scene_close) struct scene scene;

    begin(&scene, JOB(SPARES("2")));
    EXPECT(str_is(order_of(&scene, "j-spare-0"), "0 go"));
    EXPECT(scene_get(&scene, &kind_pod, "j-spare-1") != NULL);
    EXPECT(scene_get(&scene, &kind_pod, "j-spare-2") == NULL);
    EXPECT(str_is(member_of(&scene, "j-spare-1", "labels", "torchrun.ai/role"), "spare"));
    EXPECT(str_is(member_of(&scene, "j-spare-1", "labels", "torchrun.ai/index"), "3"));
    /* Scheduled alone, on another node if there is one. */
    EXPECT(!member_of(&scene, "j-spare-0", "annotations", GROUP_ANNOTATION).len);
    EXPECT(json_at(scene_get(&scene, &kind_pod, "j-spare-0"), "spec.affinity.podAntiAffinity"));
    EXPECT(str_is(variable(&scene, "j-spare-0", "MUSTER_NODE_RANK"),
                  "metadata.labels['torchrun.ai/index']"));
    EXPECT(str_is(variable(&scene, "j-worker-0", "MUSTER_NODE_RANK"), "0"));
    EXPECT(str_is(variable(&scene, "j-spare-0", "MUSTER_RDZV_ENDPOINT"), "j-sync-0.j:7078"));
    scene_patch(&scene, &kind_pod, "j-spare-0", RUNS("c", "0"));
    look(&scene);
    EXPECT(str_is(status_word(&scene, "message"), "2 of 2 pods run; 1 of 2 spare pods wait"));
    EXPECT(str_is(status_word(&scene, "phase"), "Running"));
    /* The end of one is nobody's failure. */
    scene_patch(&scene, &kind_pod, "j-spare-0", "{'status':{'phase':'Failed'}}");
    look(&scene);
    EXPECT(status_number(&scene, "restarts") == 0);
    EXPECT(str_is(status_word(&scene, "message"), "2 of 2 pods run; 0 of 2 spare pods wait"));
    /* They go with the job. */
    scene_patch(&scene, &kind_torchrunjob, "j", "{'spec':{'suspend':true}}");
    look(&scene);
    EXPECT(scene_get(&scene, &kind_pod, "j-spare-1") == NULL);
}

TEST(a_spare_takes_the_place_of_a_pod_whose_node_is_lost)
{
    _cleanup_(scene_close) struct scene scene;

    begin(&scene, JOB(SPARES("1")));
    scene_patch(&scene, &kind_pod, "j-spare-0", RUNS("c", "0"));
    look(&scene);
    scene_drop(&scene, &kind_node, "b");
    look(&scene);
    EXPECT(str_is(status_word(&scene, "phase"), "Restarting"));
    EXPECT(
        str_is(status_word(&scene, "message"),
               "the node of pod j-worker-1 is lost; 1 spare pod takes its place; all ranks start "
               "again, in place"));
    EXPECT(scene_get(&scene, &kind_pod, "j-worker-1") == NULL);
    EXPECT(str_is(member_of(&scene, "j-spare-0", "labels", "torchrun.ai/role"), "worker"));
    EXPECT(str_is(member_of(&scene, "j-spare-0", "labels", "torchrun.ai/index"), "1"));
    EXPECT(str_is(member_of(&scene, "j-spare-0", "annotations", GROUP_ANNOTATION), "pg-j-u-j"));
    EXPECT(str_is(order_of(&scene, "j-worker-0"), "1 stop"));
    EXPECT(str_is(order_of(&scene, "j-spare-0"), "1 stop"));
    EXPECT(status_number(&scene, "restarts") == 0);
    EXPECT(status_number(&scene, "preemptions") == 1);
    scene_patch(&scene, &kind_pod, "j-worker-0", STOPPED("0"));
    scene_patch(&scene, &kind_pod, "j-spare-0", STOPPED("0"));
    look(&scene);
    EXPECT(str_is(order_of(&scene, "j-worker-0"), "1 go"));
    EXPECT(str_is(order_of(&scene, "j-spare-0"), "1 go"));
    scene_patch(&scene, &kind_pod, "j-worker-0", RUNS("a", "1"));
    scene_patch(&scene, &kind_pod, "j-spare-0", RUNS("c", "1"));
    look(&scene);
    EXPECT(str_is(status_word(&scene, "phase"), "Running"));
    EXPECT(status_number(&scene, "generation") == 0);
    EXPECT(status_number(&scene, "preemptions") == 1);
    EXPECT(status_number(&scene, "restartsInPlace") == 1);
    EXPECT(str_is(json_str_at(scene_get(&scene, &kind_torchrunjob, "j"), "status.failure.pod"),
                  "j-worker-1"));
    /* The next one has a name of its own, and takes the next place. */
    EXPECT(str_is(member_of(&scene, "j-spare-1", "labels", "torchrun.ai/role"), "spare"));
    EXPECT(scene_get(&scene, &kind_pod, "j-worker-1") == NULL);
    scene_put(&scene, &kind_node, NODE("b"));
    scene_patch(&scene, &kind_pod, "j-spare-1", RUNS("b", "0"));
    scene_drop(&scene, &kind_node, "a");
    look(&scene);
    EXPECT(str_is(member_of(&scene, "j-spare-1", "labels", "torchrun.ai/index"), "0"));
    EXPECT(str_is(order_of(&scene, "j-spare-1"), "2 stop"));
    EXPECT(status_number(&scene, "preemptions") == 2);
}

TEST(no_spare_takes_the_place_of_a_pod_that_may_still_train)
{
    _cleanup_(scene_close) struct scene scene;

    begin(&scene, JOB(SPARES("1")));
    scene_patch(&scene, &kind_torchrunjob, "j",
                "{'metadata':{'annotations':{'muster.dev/on-node-lost':'Wait'}}}");
    scene_patch(&scene, &kind_pod, "j-spare-0", RUNS("c", "0"));
    look(&scene);
    scene_drop(&scene, &kind_node, "b");
    look(&scene);
    EXPECT(status_number(&scene, "restartsInPlace") == 0);
    EXPECT(status_number(&scene, "generation") == 1);
}

TEST(a_spare_that_is_of_no_use_leaves_the_gang_to_new_pods)
{
    static const struct {
        const char *why;
        const char *pod;   /* changed before node b is lost; NULL: none */
        const char *patch; /* so */
    } rows[] = {
        {"the spare does not run yet", NULL, NULL},
        {"the spare has failed", "j-spare-0", "{'status':{'phase':'Failed'}}"},
        {"another pod has no node, either", "j-worker-0", "{'spec':{'nodeName':'gone'}}"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(scene_close) struct scene scene;

        test_case(rows[i].why);
        begin(&scene, JOB(SPARES("1")));
        if (i == 2)
            scene_patch(&scene, &kind_pod, "j-spare-0", RUNS("c", "0"));
        if (rows[i].pod)
            scene_patch(&scene, &kind_pod, rows[i].pod, rows[i].patch);
        scene_drop(&scene, &kind_node, "b");
        look(&scene);
        EXPECT(status_number(&scene, "generation") == 1);
        EXPECT(status_number(&scene, "restartsInPlace") == 0);
    }
}

TEST(a_round_with_a_spare_waits_until_the_pod_that_was_deleted_has_ended)
{
    _cleanup_(scene_close) struct scene scene;

    begin(&scene, JOB(SPARES("1")));
    scene_patch(&scene, &kind_pod, "j-spare-0", RUNS("c", "0"));
    look(&scene);
    scene_patch(&scene, &kind_pod, "j-worker-1",
                "{'metadata':{'deletionTimestamp':'1970-01-01T00:16:40Z'}}");
    look(&scene);
    EXPECT(str_is(member_of(&scene, "j-spare-0", "labels", "torchrun.ai/index"), "1"));
    scene_patch(&scene, &kind_pod, "j-worker-0", STOPPED("0"));
    scene_patch(&scene, &kind_pod, "j-spare-0", STOPPED("0"));
    look(&scene);
    EXPECT(str_is(order_of(&scene, "j-worker-0"), "1 stop"));
    scene_drop(&scene, &kind_pod, "j-worker-1");
    look(&scene);
    EXPECT(str_is(order_of(&scene, "j-worker-0"), "1 go"));
    EXPECT(status_number(&scene, "preemptions") == 1);
}

TEST(spares_that_cannot_be_are_said_to_be_ignored)
{
    static const struct {
        const char *why;
        const char *job;
        bool made;
    } rows[] = {
        {"as asked", JOB(SPARES("1")), true},
        {"its pods are made again", JOB(",'reliability':{'spares':1}"), false},
        {"it never restarts",
         JOB(",'reliability':{'restartMode':'InPlace','spares':1,'maxRestarts':0}"), false},
        {"its rendezvous is in its first pod", JOB(",'distributed':{'port':29500}" SPARES("1")),
         false},
        {"its pods are not alike",
         "{'metadata':{'name':'j'},'spec':{'jobQueue':'q','command':'x','numGPUs':3,'numNodes':"
         "2" SPARES("1") "}}",
         false},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(scene_close) struct scene scene;

        test_case(rows[i].why);
        begin(&scene, rows[i].job);
        EXPECT((scene_get(&scene, &kind_pod, "j-spare-0") != NULL) == rows[i].made);
        EXPECT(str_contains(scene.event_words, STR("spares need")) != rows[i].made);
    }
}

TEST(no_spare_is_made_where_a_kubelet_runs_the_pods)
{
    _cleanup_(scene_close) struct scene scene;

    begin(&scene, JOB(SPARES("1")));
    scene_drop(&scene, &kind_pod, "j-spare-0");
    scene_patch(&scene, &kind_node, "b",
                "{'status':{'nodeInfo':{'containerRuntimeVersion':'containerd://2'}}}");
    look(&scene);
    EXPECT(scene_get(&scene, &kind_pod, "j-spare-0") == NULL);
}
