#include "api/kind.h"
#include "api/suspect.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/json.h"
#include "base/str.h"
#include "base/time.h"
#include "control/core/controllers.h"
#include "control/core/scene.h"
#include "test.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A batch Job, alone or of a JobSet, whose pods fail on nodes a and b. */

#define S 1000LL
#define OWNER(kind, name, uid)                                                              \
    ",'ownerReferences':[{'apiVersion':'v','kind':'" kind "','name':'" name "','uid':'" uid \
    "','controller':true}]"

/* `meta` and `status` of a pod behind what all have; %s is the moment of its end. */
static void put_pod(struct scene *scene,
                    const char *name,
                    const char *node,
                    const char *job,
                    const char *meta,
                    const char *status)
{
    struct arena *arena = &scene->arena;
    struct str ended = time_text(arena, scene->now_ms);
    struct str text =
        str_printf(arena,
                   "{'metadata':{'name':'%s','ownerReferences':[{'apiVersion':'batch/"
                   "v1','kind':'Job','name':'%s',"
                   "'uid':'u-%s','controller':true}]%s},'spec':{'nodeName':'%s'},'status':{%s,"
                   "'finishedAt':'" STR_FMT "'}}}]}}",
                   name, job, job, meta, node, status, STR_ARG(ended));

    scene_put(scene, &kind_pod, str_c(arena, text));
}

/* The end of its status: what follows is the moment. */
#define ENDED(phase, code, more)                                                  \
    "'phase':'" phase                                                             \
    "','containerStatuses':[{'name':'c','restartCount':0,'state':{'terminated':{" \
    "'exitCode':" code more
#define KILLED ENDED("Failed", "137", ",'reason':'Error'")

static void begin(struct scene *scene)
{
    static const char *const nodes[] = {"a", "b"};

    scene_open(scene);
    scene->config.node_health = true;
    for (size_t i = 0; i < COUNT_OF(nodes); i++)
        scene_put(scene, &kind_node,
                  str_c(&scene->arena,
                        str_printf(&scene->arena,
                                   "{'metadata':{'name':'%s'},'status':{'conditions':[{'type':"
                                   "'Ready','status':'True'}]}}",
                                   nodes[i])));
    scene_put(scene, &kind_job, "{'metadata':{'name':'j'}}");
}

/* What the job of that uid says of a node; empty: nothing. */
static struct str said(struct scene *scene, const char *node, const char *uid)
{
    struct str key = suspect_blame_key(&scene->arena, str_from(uid));

    return json_str(json_get(json_at(scene_get(scene, &kind_node, node), "metadata.annotations"),
                             str_c(&scene->arena, key)));
}

TEST(a_pod_of_a_batch_job_that_was_killed_is_counted_against_its_node)
{
    static const struct {
        const char *why;
        const char *meta;
        const char *status;
        const char *word; /* NULL: nothing is said */
    } rows[] = {
        {"killed", "", KILLED, "Killed"},
        {"a word of its card", "", ENDED("Failed", "1", ",'message':'CUDA error: unknown error'"),
         "Device"},
        {"an exception", "", ENDED("Failed", "1", ""), NULL},
        {"too little memory", "", ENDED("Failed", "137", ",'reason':'OOMKilled'"), NULL},
        {"it was told to go before it was killed", ",'deletionTimestamp':'2026-01-01T00:00:00Z'",
         KILLED, NULL},
        {"evicted", "", "'reason':'Evicted'," KILLED, NULL},
        {"it runs, and its containers start again by themselves", "", ENDED("Running", "137", ""),
         NULL},
        {"its node keeps it for a restart in place",
         ",'annotations':{'muster.dev/restart-in-place':'0 go'}", ENDED("Running", "137", ""),
         "Killed"},
        {"it succeeded", "", ENDED("Succeeded", "0", ""), NULL},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(scene_close) struct scene scene;

        test_case(rows[i].why);
        begin(&scene);
        put_pod(&scene, "j-0", "a", "j", rows[i].meta, rows[i].status);
        scene_run(&scene, &blame_controller, "j");
        EXPECT(str_contains(said(&scene, "a", "u-j"), str_from(rows[i].word ? rows[i].word : "")));
        EXPECT((said(&scene, "a", "u-j").len > 0) == (rows[i].word != NULL));
        EXPECT(said(&scene, "b", "u-j").len == 0);
    }
}

TEST(of_a_gang_the_pod_that_is_to_blame_blames_its_node_and_in_the_name_of_the_topmost)
{
    _cleanup_(scene_close) struct scene scene;

    begin(&scene);
    scene_put(&scene, &kind_trainjob, "{'metadata':{'name':'t'}}");
    scene_put(&scene, &kind_jobset,
              "{'metadata':{'name':'t'" OWNER("TrainJob", "t", "u-t") ",'uid':'u-set'}}");
    scene_put(&scene, &kind_job, "{'metadata':{'name':'j'" OWNER("JobSet", "t", "u-set") "}}");
    scene_put(&scene, &kind_job, "{'metadata':{'name':'k'" OWNER("JobSet", "t", "u-set") "}}");
    put_pod(&scene, "j-0", "a", "j", "",
            ENDED("Failed", "134", ",'message':'Connection reset by peer'"));
    scene_run(&scene, &blame_controller, "j");
    EXPECT(said(&scene, "a", "u-t").len == 0);
    scene.now_ms += S;
    put_pod(&scene, "k-0", "b", "k", "", KILLED);
    scene_run(&scene, &blame_controller, "k");
    scene_run(&scene, &blame_controller, "j");
    EXPECT(str_contains(said(&scene, "b", "u-t"), STR(" Killed n/t: ")));
    EXPECT(said(&scene, "a", "u-t").len == 0);
    EXPECT(said(&scene, "b", "u-j").len == 0 && said(&scene, "b", "u-k").len == 0);
}

TEST(jobs_of_one_cronjob_blame_a_node_once)
{
    _cleanup_(scene_close) struct scene scene;

    begin(&scene);
    scene_put(&scene, &kind_job, "{'metadata':{'name':'j'" OWNER("CronJob", "c", "u-c") "}}");
    put_pod(&scene, "j-0", "a", "j", "", KILLED);
    scene_run(&scene, &blame_controller, "j");
    EXPECT(str_contains(said(&scene, "a", "u-c"), STR(" Killed n/c: ")));
}

TEST(what_was_said_of_a_failure_is_not_said_again_when_it_is_forgotten)
{
    _cleanup_(scene_close) struct scene scene;

    begin(&scene);
    put_pod(&scene, "j-0", "a", "j", "", KILLED);
    EXPECT(scene_turn(&scene, &blame_controller, "j"));
    scene.now_ms += S;
    EXPECT(!scene_turn(&scene, &blame_controller, "j")); /* it is there already */
    /* A test has cleared the node. */
    scene_put(
        &scene, &kind_node,
        str_c(&scene.arena, str_printf(&scene.arena,
                                       "{'metadata':{'name':'a','annotations':{'" SUSPECT_TESTED
                                       "':'passed " STR_FMT ": all is well'}}}",
                                       STR_ARG(time_text(&scene.arena, scene.now_ms)))));
    EXPECT(!scene_turn(&scene, &blame_controller, "j"));
    /* What fails after it counts. */
    scene.now_ms += 2 * S;
    put_pod(&scene, "j-1", "a", "j", "", KILLED);
    scene_drop(&scene, &kind_pod, "j-0");
    EXPECT(scene_turn(&scene, &blame_controller, "j"));
    /* Nobody speaks of it a day later. */
    scene_put(&scene, &kind_node, "{'metadata':{'name':'a'}}");
    scene.now_ms += SUSPECT_WINDOW_MS;
    EXPECT(!scene_turn(&scene, &blame_controller, "j"));
}

TEST(no_batch_job_blames_a_node_where_nodes_are_not_looked_after)
{
    _cleanup_(scene_close) struct scene scene;

    begin(&scene);
    scene.config.node_health = false;
    put_pod(&scene, "j-0", "a", "j", "", KILLED);
    EXPECT(!scene_turn(&scene, &blame_controller, "j"));
    EXPECT(str_is(scene_keys(&scene, &blame_controller, &kind_pod, "j-0"), "j"));
}
