#include "api/kind.h"
#include "api/place.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "base/str.h"
#include "control/core/controllers.h"
#include "control/core/scene.h"
#include "test.h"

#include <stdint.h>

/* An elastic gang of one to three pods that is to restart in place: when it does, and when a pod is
 * replaced alone, as without that. */

#define JOB(max)                                                                                \
    "{'metadata':{'name':'j'},'spec':{'jobQueue':'q','command':'x','numGPUs':2,'reliability':{" \
    "'restartMode':'InPlace'},'elastic':{'minNodes':1,'maxNodes':" max "}}}"
#define RUNS(count)                                                                         \
    "{'spec':{'nodeName':'node'},'status':{'phase':'Running','containerStatuses':[{'name':" \
    "'trainer','restartCount':" count ",'state':{'running':{},'terminated':null}}]}}"
#define ENDED(count)                                                                     \
    "{'status':{'containerStatuses':[{'name':'trainer','restartCount':" count            \
    ",'state':{'running':null,'terminated':{'exitCode':1,'reason':'Error','finishedAt':" \
    "'1970-01-01T00:16:40Z'}}}]}}"

static void look(struct scene *scene)
{
    scene_run(scene, &torchrun_job_controller, "j");
}

static void begin(struct scene *scene)
{
    scene_open(scene);
    scene_put(scene, &kind_node,
              "{'metadata':{'name':'node'},'status':{'conditions':[{'type':'Ready','status':"
              "'True'}]}}");
    scene_put(scene, &kind_torchrunqueue,
              "{'metadata':{'name':'q'},'spec':{'nodeResources':{'gpus':2}}}");
    scene_put(scene, &kind_torchrunjob, JOB("2"));
    look(scene);
    scene_patch(scene, &kind_pod, "j-sync-0",
                "{'spec':{'nodeName':'node'},'status':{'phase':'Running','conditions':[{'type':"
                "'Ready','status':'True'}]}}");
    look(scene);
    scene_patch(scene, &kind_pod, "j-worker-0", RUNS("0"));
    scene_patch(scene, &kind_pod, "j-worker-1", RUNS("0"));
    look(scene);
}

static struct str order_of(struct scene *scene, const char *pod)
{
    return json_str(json_get(json_at(scene_get(scene, &kind_pod, pod), "metadata.annotations"),
                             PLACE_ANNOTATION));
}

static const struct json *status_of(struct scene *scene)
{
    return json_get(scene_get(scene, &kind_torchrunjob, "j"), "status");
}

static int64_t number(struct scene *scene, const char *field)
{
    return json_i64_or(json_get(status_of(scene), field), 0);
}

static struct str uid_of(struct scene *scene, const char *pod)
{
    return json_str_at(scene_get(scene, &kind_pod, pod), "metadata.uid");
}

static void restart_once(struct scene *scene)
{
    scene_patch(scene, &kind_pod, "j-worker-1", ENDED("0"));
    look(scene);
    EXPECT(str_is(order_of(scene, "j-worker-0"), "1 stop"));
    EXPECT(str_is(order_of(scene, "j-worker-1"), "1 stop"));
    EXPECT(str_is(json_str(json_get(status_of(scene), "phase")), "Restarting"));
    scene_patch(scene, &kind_pod, "j-worker-0", ENDED("0"));
    look(scene);
    EXPECT(str_is(order_of(scene, "j-worker-0"), "1 go"));
    EXPECT(str_is(order_of(scene, "j-worker-1"), "1 go"));
    scene_patch(scene, &kind_pod, "j-worker-0", RUNS("1"));
    scene_patch(scene, &kind_pod, "j-worker-1", RUNS("1"));
    look(scene);
}

TEST(a_failed_rank_restarts_an_elastic_gang_in_place_when_all_pods_are_there)
{
    _cleanup_(scene_close) struct scene scene;

    begin(&scene);
    EXPECT(str_is(order_of(&scene, "j-worker-0"), "0 go"));
    restart_once(&scene);
    EXPECT(str_is(json_str(json_get(status_of(&scene), "phase")), "Running"));
    EXPECT(number(&scene, "restarts") == 1 && number(&scene, "restartsInPlace") == 1);
    EXPECT(number(&scene, "generation") == 0);
    EXPECT(str_is(uid_of(&scene, "j-worker-0"), "u-j-worker-0"));
}

TEST(a_pod_that_comes_later_meets_an_elastic_gang_in_its_round)
{
    _cleanup_(scene_close) struct scene scene;

    begin(&scene);
    restart_once(&scene);
    scene_drop(&scene, &kind_pod, "j-worker-1"); /* evicted, for instance */
    look(&scene);
    EXPECT(str_is(order_of(&scene, "j-worker-1"), "1 go"));
    EXPECT(str_is(order_of(&scene, "j-worker-0"), "1 go"));
    scene_patch(&scene, &kind_pod, "j-worker-1", RUNS("1"));
    look(&scene);
    EXPECT(str_is(order_of(&scene, "j-worker-0"), "1 go")); /* nobody stops for it */
    EXPECT(str_is(json_str(json_get(status_of(&scene), "phase")), "Running"));
    EXPECT(number(&scene, "restarts") == 1 && number(&scene, "generation") == 0);
    /* It grows, in the same way. */
    scene_patch(&scene, &kind_torchrunjob, "j", "{'spec':{'elastic':{'maxNodes':3}}}");
    look(&scene);
    EXPECT(str_is(order_of(&scene, "j-worker-2"), "1 go"));
    EXPECT(str_is(order_of(&scene, "j-worker-0"), "1 go"));
}

TEST(a_failed_rank_of_an_elastic_gang_that_is_not_complete_is_replaced_alone)
{
    _cleanup_(scene_close) struct scene scene;

    begin(&scene);
    /* It changes its size at the same time. */
    scene_patch(&scene, &kind_torchrunjob, "j", "{'spec':{'elastic':{'maxNodes':3}}}");
    scene_patch(&scene, &kind_pod, "j-worker-1", ENDED("0"));
    look(&scene);
    EXPECT(str_is(order_of(&scene, "j-worker-0"), "0 go"));
    EXPECT(str_is(order_of(&scene, "j-worker-2"), "0 go"));
    EXPECT(number(&scene, "restarts") == 1 && number(&scene, "restartsInPlace") == 0);
    EXPECT(str_is(json_str(json_get(status_of(&scene), "phase")), "Running"));
    EXPECT(number(&scene, "generation") == 0);
    look(&scene);
    EXPECT(number(&scene, "restarts") == 1);
}

TEST(an_elastic_job_of_another_kind_hears_that_its_pods_are_made_again)
{
    _cleanup_(scene_close) struct scene scene;

    scene_open(&scene);
    scene_put(
        &scene, &kind_pytorchjob,
        "{'metadata':{'name':'p','annotations':{'muster.dev/restart-mode':'InPlace'}},'spec':{"
        "'elasticPolicy':{'minReplicas':1,'maxReplicas':2},'pytorchReplicaSpecs':{'Worker':{"
        "'replicas':2,'template':{'spec':{'containers':[{'name':'pytorch','image':'i'}]}}}}}}");
    scene_run(&scene, &pytorch_job_controller, "p");
    EXPECT(str_contains(scene.events, STR("Ignored")));
    EXPECT(str_contains(scene.event_words, STR("an elastic TorchrunJob; pods are made again")));
}
