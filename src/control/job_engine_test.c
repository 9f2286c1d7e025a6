#include "api/kind.h"
#include "api/launch.h"
#include "api/place.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/json.h"
#include "base/str.h"
#include "control/core/controllers.h"
#include "control/core/scene.h"
#include "control/job/job.h"
#include "test.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* The job engine at its edges, through TorchrunJobs of two pods: j-worker-0 on node a, j-worker-1 on
 * node b. */

#define JOB(more)                                                                                 \
    "{'metadata':{'name':'j'},'spec':{'jobQueue':'q','command':'x','numGPUs':4,'numNodes':2" more \
    "}}"
#define SPARES(count) ",'reliability':{'restartMode':'InPlace','spares':" count "}"
#define IN_PLACE      ",'reliability':{'restartMode':'InPlace'}"
#define NODE(name)                                                                     \
    "{'metadata':{'name':'" name "'},'status':{'nodeInfo':{'containerRuntimeVersion':" \
    "'muster-shim://1'},'conditions':[{'type':'Ready','status':'True'}]}}"
#define RUNS(node, count)                                                                \
    "{'spec':{'nodeName':'" node "'},'status':{'phase':'Running','containerStatuses':[{" \
    "'name':'trainer','restartCount':" count ",'state':{'running':{},'terminated':null}}]}}"
#define STOPPED(count, code)                                                          \
    "{'status':{'containerStatuses':[{'name':'trainer','restartCount':" count         \
    ",'state':{'running':null,'terminated':{'exitCode':" code ",'reason':'Error','fi" \
    "nishedAt':'1970-01-01T00:16:40Z'}}}]}}"
#define GOING "{'metadata':{'deletionTimestamp':'1970-01-01T00:16:40Z'}}"

static void look(struct scene *scene)
{
    scene_run(scene, &torchrun_job_controller, "j");
}

static void begin(struct scene *scene, const char *job)
{
    static const char *const nodes[] = {NODE("a"), NODE("b"), NODE("c"), NODE("d")};

    scene_open(scene);
    for (size_t i = 0; i < COUNT_OF(nodes); i++)
        scene_put(scene, &kind_node, nodes[i]);
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

static const struct json *status(struct scene *scene)
{
    return json_get(scene_get(scene, &kind_torchrunjob, "j"), "status");
}

static int64_t number(struct scene *scene, const char *field)
{
    return json_i64_or(json_get(status(scene), field), 0);
}

static struct str word(struct scene *scene, const char *field)
{
    return json_str(json_get(status(scene), field));
}

static struct str order_of(struct scene *scene, const char *pod)
{
    return json_str(json_get(json_at(scene_get(scene, &kind_pod, pod), "metadata.annotations"),
                             PLACE_ANNOTATION));
}

static struct str label_of(struct scene *scene, const char *pod, const char *key)
{
    return json_str(json_get(json_at(scene_get(scene, &kind_pod, pod), "metadata.labels"), key));
}

/* ---- spares ---- */

static void begin_spares(struct scene *scene)
{
    begin(scene, JOB(SPARES("2")));
    scene_patch(scene, &kind_pod, "j-spare-0", RUNS("c", "0"));
    scene_patch(scene, &kind_pod, "j-spare-1", RUNS("d", "0"));
    look(scene);
}

TEST(a_spare_that_is_lost_on_its_way_is_followed_by_the_next_in_the_same_round)
{
    _cleanup_(scene_close) struct scene scene;

    begin_spares(&scene);
    scene_drop(&scene, &kind_node, "b");
    look(&scene);
    EXPECT(str_is(label_of(&scene, "j-spare-0", "torchrun.ai/index"), "1"));
    EXPECT(str_is(order_of(&scene, "j-worker-0"), "1 stop"));
    /* Nobody was told to go yet: who comes now is in time. */
    scene_drop(&scene, &kind_node, "c");
    look(&scene);
    EXPECT(scene_get(&scene, &kind_pod, "j-spare-0") == NULL);
    EXPECT(str_is(label_of(&scene, "j-spare-1", "torchrun.ai/index"), "1"));
    EXPECT(str_is(order_of(&scene, "j-spare-1"), "1 stop"));
    EXPECT(number(&scene, "restartsInPlace") == 1 && number(&scene, "preemptions") == 1);
    scene_patch(&scene, &kind_pod, "j-worker-0", STOPPED("0", "143"));
    scene_patch(&scene, &kind_pod, "j-spare-1", STOPPED("0", "143"));
    look(&scene);
    EXPECT(str_is(order_of(&scene, "j-worker-0"), "1 go"));
    EXPECT(number(&scene, "generation") == 0);
}

TEST(spares_take_the_places_of_all_that_are_lost)
{
    _cleanup_(scene_close) struct scene scene;

    begin_spares(&scene);
    scene_drop(&scene, &kind_node, "a");
    scene_drop(&scene, &kind_node, "b");
    look(&scene);
    EXPECT(str_is(word(&scene, "message"),
                  "the node of pod j-worker-0 is lost; 2 spare pods take the places that are free; "
                  "all ranks start again, in place"));
    EXPECT(str_is(label_of(&scene, "j-spare-0", "torchrun.ai/index"), "0"));
    EXPECT(str_is(label_of(&scene, "j-spare-1", "torchrun.ai/index"), "1"));
}

TEST(a_spare_takes_the_place_of_a_pod_that_somebody_removed)
{
    _cleanup_(scene_close) struct scene scene;

    begin_spares(&scene);
    scene_drop(&scene, &kind_pod, "j-worker-1"); /* nothing is known of it any more */
    look(&scene);
    EXPECT(str_contains(word(&scene, "message"),
                        STR("pod (removed) was removed; 1 spare pod takes its place")));
    EXPECT(str_is(label_of(&scene, "j-spare-0", "torchrun.ai/index"), "1"));
    EXPECT(str_is(word(&scene, "phase"), "Restarting"));
}

TEST(spares_that_are_not_well_take_no_place_and_are_replaced)
{
    static const struct {
        const char *why;
        const char *patch; /* of the first spare */
        bool next;         /* the second one takes the place */
        bool gone;         /* and the first one goes */
    } rows[] = {
        {"it was evicted",
         "{'status':{'phase':'Failed','reason':'Evicted','containerStatuses':[]}}", true, true},
        {"it is on its way out", GOING, true, false},
        {"it is suspended", "{'metadata':{'annotations':{'muster.dev/suspend':'yield'}}}", true,
         false},
        {"it has no GPUs", "{'status':{'conditions':[{'type':'Suspended','status':'True'}]}}", true,
         false},
        {"nobody tells it when to go",
         "{'metadata':{'annotations':{'muster.dev/restart-in-place':null}}}", true, false},
        {"its node is gone", "{'spec':{'nodeName':'nowhere'}}", true, true},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(scene_close) struct scene scene;

        test_case(rows[i].why);
        begin_spares(&scene);
        scene_patch(&scene, &kind_pod, "j-spare-0", rows[i].patch);
        scene_drop(&scene, &kind_node, "b");
        look(&scene);
        EXPECT(str_is(label_of(&scene, "j-spare-1", "torchrun.ai/index"), "1") == rows[i].next);
        EXPECT(!str_is(label_of(&scene, "j-spare-0", "torchrun.ai/role"), "worker"));
        if (rows[i].gone)
            EXPECT(scene_get(&scene, &kind_pod, "j-spare-0") == NULL);
    }
}

TEST(fewer_spares_are_wanted_or_none_has_gpus)
{
    _cleanup_(scene_close) struct scene scene;

    begin_spares(&scene);
    scene_patch(&scene, &kind_torchrunjob, "j", "{'spec':{'reliability':{'spares':1}}}");
    look(&scene);
    EXPECT(scene_get(&scene, &kind_pod, "j-spare-0") && !scene_get(&scene, &kind_pod, "j-spare-1"));
    scene_close(&scene);
    begin(&scene, "{'metadata':{'name':'j'},'spec':{'jobQueue':'q','command':'x','numGPUs':0,"
                  "'numNodes':2" SPARES("1") "}}");
    EXPECT(scene_get(&scene, &kind_pod, "j-spare-0") != NULL);
}

/* ---- rounds in place ---- */

TEST(a_gang_restarts_in_place_only_when_all_its_pods_are_there_and_well)
{
    static const struct {
        const char *why;
        const char *patch; /* of the pod that did not fail */
        bool in_place;
    } rows[] = {
        {"all are", "{}", true},
        {"one is on its way out", GOING, false},
        {"one was evicted",
         "{'status':{'phase':'Failed','reason':'Evicted','containerStatuses':[]}}", false},
        {"one is suspended", "{'metadata':{'annotations':{'muster.dev/suspend':'yield'}}}", false},
        {"one has no GPUs", "{'status':{'conditions':[{'type':'Suspended','status':'True'}]}}",
         false},
        {"one has not started", "{'status':{'phase':'Pending','containerStatuses':[]}}", false},
        {"one was not told how",
         "{'metadata':{'annotations':{'muster.dev/restart-in-place':null}}}", false},
        {"one is of no role", "{'metadata':{'labels':{'torchrun.ai/role':'helper'}}}", false},
        {"one has a number that is not its gang's",
         "{'metadata':{'labels':{'torchrun.ai/index':'7'}}}", false},
        {"a number below zero is the first", "{'metadata':{'labels':{'torchrun.ai/index':'-1'}}}",
         true},
        {"one's node is about to be lost", "{'spec':{'nodeName':'nowhere'}}", false},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(scene_close) struct scene scene;

        test_case(rows[i].why);
        begin(&scene, JOB(IN_PLACE));
        scene_patch(&scene, &kind_pod, "j-worker-0", rows[i].patch);
        scene_patch(&scene, &kind_pod, "j-worker-1", STOPPED("0", "1"));
        (void)scene_turn(&scene, &torchrun_job_controller, "j");
        EXPECT((number(&scene, "restartsInPlace") == 1) == rows[i].in_place);
        EXPECT(str_is(order_of(&scene, "j-worker-0"), "1 stop") == rows[i].in_place);
    }
}

TEST(words_about_restarts_that_nobody_knows_are_said)
{
    static const struct {
        const char *why;
        const char *annotations;
        const char *spec;
        const char *says;
    } rows[] = {
        {"how to restart", "'muster.dev/restart-mode':'Somehow'", "",
         "it must be InPlace or Pods; pods are made again"},
        {"what to keep warm", "'muster.dev/warm-processes':'lukewarm'", IN_PLACE,
         "it must be true or false; nothing is kept warm"},
        {"warm, and made again", "'muster.dev/warm-processes':'true'", "",
         "warm processes need a TorchrunJob with restartMode InPlace"},
        {"only the first is said",
         "'muster.dev/restart-mode':'Somehow','muster.dev/warm-processes':'true'", SPARES("1"),
         "it must be InPlace or Pods; pods are made again"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(scene_close) struct scene scene;
        char job[512];

        test_case(rows[i].why);
        (void)snprintf(job, sizeof(job),
                       "{'metadata':{'name':'j','annotations':{%s}},'spec':{'jobQueue':'q',"
                       "'command':'x','numGPUs':4,'numNodes':2%s}}",
                       rows[i].annotations, rows[i].spec);
        begin(&scene, job);
        EXPECT(str_contains(scene.event_words, str_from(rows[i].says)));
    }
}

/* ---- how a pod failed ---- */

static struct str failure_message(struct scene *scene)
{
    return json_str_at(status(scene), "failure.message");
}

TEST(long_last_words_are_cut_in_the_middle)
{
    static const struct {
        const char *why;
        size_t first; /* letters of the first line; 0: there is none */
        bool kept;
    } rows[] = {
        {"who and when stays", 60, true},
        {"unless that is most of it", JOB_FAILURE_MAX, false},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(scene_close) struct scene scene;
        static char text[3 * JOB_FAILURE_MAX];

        test_case(rows[i].why);
        begin(&scene, JOB(",'reliability':{'maxRestarts':0}"));
        memset(text, 'x', sizeof(text) - 1);
        memcpy(text, "rank 3 ended", 12);
        memcpy(text + rows[i].first, "\\n", 2);
        memcpy(text + sizeof(text) - 6, "TheEnd", 5);
        text[sizeof(text) - 1] = '\0';
        scene_patch(&scene, &kind_pod, "j-worker-1",
                    str_printf(&scene.arena,
                               "{'status':{'phase':'Failed','containerStatuses':[{'name':'trainer'"
                               ",'state':{'running':null,'terminated':{'exitCode':1,'reason':"
                               "'Error','message':'%s','finishedAt':'1970-01-01T00:16:40Z'}}}]}}",
                               text)
                        .p);
        look(&scene);
        struct str message = failure_message(&scene);
        EXPECT(message.len <= JOB_FAILURE_MAX && message.len > JOB_FAILURE_MAX / 2);
        EXPECT(str_starts(message, STR("rank 3 ended")) == rows[i].kept);
        EXPECT(str_contains(message, STR("[...]")) && str_ends(message, STR("TheEn")));
    }
}

TEST(a_pod_that_does_not_start_says_why)
{
    static const struct {
        const char *why;
        const char *status;
        const char *says; /* "": nothing of it */
    } rows[] = {
        {"a container that waits",
         "'containerStatuses':[{'name':'trainer','state':{'waiting':{'reason':'ErrImagePull',"
         "'message':'no such image'}}}]",
         "ErrImagePull: no such image"},
        {"without more words",
         "'containerStatuses':[{'name':'trainer','state':{'waiting':{'reason':"
         "'CreateContainerError'}}}]",
         "CreateContainerError"},
        {"what is on its way is no news",
         "'containerStatuses':[{'name':'a','state':{'waiting':{'reason':'ContainerCreating'}}},{"
         "'name':'trainer','state':{'waiting':{'reason':'PodInitializing'}}}]",
         ""},
        {"no node",
         "'conditions':[{'type':'PodScheduled','status':'False','reason':"
         "'Unschedulable','message':'no room anywhere'}]",
         "no room anywhere"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(scene_close) struct scene scene;

        test_case(rows[i].why);
        begin(&scene, JOB(""));
        scene_patch(&scene, &kind_torchrunjob, "j", "{'status':{'phase':'Starting'}}");
        scene_patch(&scene, &kind_pod, "j-worker-0",
                    str_printf(&scene.arena,
                               "{'status':{'phase':'Pending','containerStatuses':null,%s}}",
                               rows[i].status)
                        .p);
        scene_patch(&scene, &kind_pod, "j-worker-1",
                    "{'status':{'phase':'Pending','containerStatuses':null}}");
        look(&scene);
        EXPECT(str_contains(word(&scene, "message"), str_from(rows[i].says)));
        if (!*rows[i].says)
            EXPECT(!str_contains(word(&scene, "message"), STR("PodInitializing")));
    }
}

/* ---- what must be there first ---- */

#define CLASS(name, more) "{'metadata':{'name':'" name "'" more "}}"
#define DEFAULT           ",'annotations':{'storageclass.kubernetes.io/is-default-class':'true'}"

static void upload(struct scene *scene, const char *class, const char *storage)
{
    scene_open(scene);
    if (class)
        scene_put(scene, &kind_storageclass, class);
    scene_put(scene, &kind_torchrunqueue,
              str_printf(&scene->arena,
                         "{'metadata':{'name':'q'},'spec':{'nodeResources':{'gpus':2}%s}}", storage)
                  .p);
    scene_put(scene, &kind_torchrunjob,
              "{'metadata':{'name':'j','annotations':{'torchrun.ai/workspace':'upload'}},'spec':{"
              "'jobQueue':'q','numGPUs':1,'command':'true'}}");
    look(scene);
}

TEST(a_workspace_needs_a_class_that_there_is)
{
    static const struct {
        const char *why;
        const char *class;
        const char *storage;
        const char *says;
    } rows[] = {
        {"the default one", CLASS("local", DEFAULT), "", "starting the sync pod"},
        {"there is none", NULL, "", "names no StorageClass and the cluster has no default one"},
        {"there is one, and it is not the default", CLASS("local", ""), "",
         "names no StorageClass and the cluster has no default one"},
        {"the one that the queue names", CLASS("local", ""),
         ",'storage':{'workspace':{'storageClass':'local'}}", "starting the sync pod"},
        {"the queue names another one", CLASS("local", DEFAULT),
         ",'storage':{'workspace':{'storageClass':'fast'}}",
         "StorageClass fast of claim j-workspace (workspace) does not exist"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(scene_close) struct scene scene;

        test_case(rows[i].why);
        upload(&scene, rows[i].class, rows[i].storage);
        EXPECT(str_contains(word(&scene, "message"), str_from(rows[i].says)));
        EXPECT(str_is(word(&scene, "phase"), "Provisioning"));
    }
}

TEST(the_sync_pod_says_why_it_does_not_run_and_is_replaced_when_it_has_ended)
{
    static const struct {
        const char *why;
        const char *patch;
        const char *says;
    } rows[] = {
        {"no node",
         "{'status':{'conditions':[{'type':'PodScheduled','status':'False','message':'no room'}]}}",
         "starting the sync pod: no room"},
        {"a container that waits",
         "{'status':{'conditions':[{'type':'PodScheduled','status':'True'}],'containerStatuses':[{"
         "'name':'sync','state':{'waiting':{'message':'no such image'}}}]}}",
         "starting the sync pod: no such image"},
        {"the pod's own words", "{'status':{'message':'admission failed'}}",
         "starting the sync pod: admission failed"},
        {"it has ended", "{'status':{'phase':'Failed'}}", "starting the sync pod"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(scene_close) struct scene scene;

        test_case(rows[i].why);
        upload(&scene, CLASS("local", DEFAULT), "");
        scene_patch(&scene, &kind_pod, "j-sync-0", rows[i].patch);
        look(&scene);
        EXPECT(str_is(word(&scene, "message"), rows[i].says));
        EXPECT(!str_is(json_str_at(scene_get(&scene, &kind_pod, "j-sync-0"), "status.phase"),
                       "Failed"));
    }
}

/* ---- pods that stay without GPUs ---- */

#define KEPT ",'keepWhileSuspended':true"

TEST(a_gang_is_suspended_with_its_memory_where_that_can_be_done)
{
    static const struct {
        const char *why;
        const char *node; /* patch of node b; NULL: it is gone */
        const char *pod;  /* patch of the pod there */
        const char *says;
    } rows[] = {
        {"its nodes can", "{}", "{}", "suspending: 0 of 2 pods"},
        {"a node cannot", "{'metadata':{'labels':{'muster.dev/suspend':null}}}", "{}",
         "runs on: pod j-worker-1 cannot be suspended with its memory: node b cannot suspend pods"},
        {"a node cannot, and the pod can", "{'metadata':{'labels':{'muster.dev/suspend':null}}}",
         "{'metadata':{'labels':{'runai-gpu-group':'g'},'annotations':{"
         "'muster.dev/may-be-suspended':'true'}}}",
         "suspending: 0 of 2 pods"},
        {"it shares a GPU, and was not prepared",
         "{'metadata':{'labels':{'muster.dev/suspend':null}}}",
         "{'metadata':{'labels':{'runai-gpu-group':'g'}}}", "runs on: pod j-worker-1"},
        {"a pod said that it could not", "{}",
         "{'status':{'conditions':[{'type':'Suspended','status':'False','reason':'SuspendFailed',"
         "'message':'no room'}]}}",
         "runs on: pod j-worker-1 cannot be suspended with its memory: no room"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(scene_close) struct scene scene;

        test_case(rows[i].why);
        begin(&scene, JOB(KEPT));
        scene_patch(&scene, &kind_node, "a",
                    "{'metadata':{'labels':{'muster.dev/suspend':'freeze'}}}");
        scene_patch(&scene, &kind_node, "b",
                    "{'metadata':{'labels':{'muster.dev/suspend':'freeze'}}}");
        scene_patch(&scene, &kind_node, "b", rows[i].node);
        scene_patch(&scene, &kind_pod, "j-worker-1", rows[i].pod);
        scene_patch(&scene, &kind_torchrunjob, "j", "{'spec':{'suspend':true}}");
        look(&scene);
        EXPECT(str_contains(word(&scene, "message"), str_from(rows[i].says)));
    }
}

TEST(a_gang_goes_on_when_it_is_asked_for_again)
{
    static const struct {
        const char *why;
        const char *resumed; /* the annotation of the job */
        const char *wish;    /* of the pods, before */
        const char *after;
    } rows[] = {
        {"its GPUs were unused, and nobody asks", "", "unused", "unused"},
        {"somebody asks", "1970-01-01T00:20:00Z", "unused", "yield"},
        {"somebody asked before it gave way", "1970-01-01T00:10:00Z", "unused", "unused"},
        {"words that are no time", "soon", "unused", "unused"},
        {"it was held by hand", "", "hold", "yield"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(scene_close) struct scene scene;

        test_case(rows[i].why);
        begin(&scene, JOB(KEPT));
        scene.now_ms = 1300000;
        for (int j = 0; j < 2; j++)
            scene_patch(&scene, &kind_pod, j ? "j-worker-1" : "j-worker-0",
                        str_printf(&scene.arena,
                                   "{'metadata':{'annotations':{'muster.dev/suspend':'%s'}},"
                                   "'status':{'conditions':[{'type':'Suspended','status':'True',"
                                   "'lastTransitionTime':'1970-01-01T00:16:40Z'}]}}",
                                   rows[i].wish)
                            .p);
        scene_patch(&scene, &kind_torchrunjob, "j",
                    str_printf(&scene.arena,
                               "{'metadata':{'annotations':{'muster.dev/resumed-at':'%s'}}}",
                               rows[i].resumed)
                        .p);
        look(&scene);
        EXPECT(str_is(json_str(json_get(json_at(scene_get(&scene, &kind_pod, "j-worker-0"),
                                                "metadata.annotations"),
                                        "muster.dev/suspend")),
                      rows[i].after));
        EXPECT(str_is(word(&scene, "phase"), "Suspended"));
    }
}

/* ---- how a pod ended ---- */

TEST(a_job_says_how_its_pod_ended)
{
#define ENDED(code, more)                                                                     \
    "{'status':{'phase':'Failed','containerStatuses':[{'name':'trainer','state':{'running':n" \
    "ull,'terminated':{'exitCode':" code ",'finishedAt':'1970-01-01T00:16:40Z'" more "}}}]}}"
    static const struct {
        const char *why;
        const char *patch;
        const char *says;
    } rows[] = {
        {"a code", ENDED("3", ",'reason':'Error'"), "pod j-worker-1 ended with exit status 3"},
        {"a code and a reason", ENDED("3", ",'reason':'DeadlineExceeded'"),
         "pod j-worker-1 ended with exit status 3, DeadlineExceeded"},
        {"a signal", ENDED("137", ",'reason':'Error'"), "pod j-worker-1 was ended by signal 9"},
        {"a signal and a reason", ENDED("137", ",'reason':'OOMKilled'"),
         "pod j-worker-1 was ended by signal 9, OOMKilled"},
        {"a code that is no signal", ENDED("200", ""), "pod j-worker-1 ended with exit status 200"},
        {"no such command", ENDED("127", ""),
         "pod j-worker-1: command not found (exit status 127)"},
        {"a command that cannot be run, and why",
         ENDED("126", ",'message':'permission denied\\nmore'"),
         "pod j-worker-1 could not start: permission denied"},
        {"a command that cannot be run", ENDED("126", ""),
         "pod j-worker-1 ended with exit status 126"},
        {"a rank whose code means something else", ENDED("126", ",'message':'rank 0 ended badly'"),
         "pod j-worker-1 ended with exit status 126"},
        {"of several containers the first that failed",
         "{'status':{'phase':'Failed','containerStatuses':[{'name':'a','state':{'terminated':{"
         "'exitCode':5}}},{'name':'b','state':{'terminated':{'exitCode':6}}},{'name':'trainer',"
         "'state':{'running':null,'terminated':{'exitCode':0}}}]}}",
         "pod j-worker-1 ended with exit status 5"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(scene_close) struct scene scene;

        test_case(rows[i].why);
        begin(&scene, JOB(",'reliability':{'maxRestarts':0}"));
        scene_patch(&scene, &kind_pod, "j-worker-1", rows[i].patch);
        look(&scene);
        EXPECT(str_is(word(&scene, "phase"), "Failed"));
        EXPECT(str_is(word(&scene, "message"), rows[i].says));
    }
}

/* j-worker-1 fails, and again in the next generation. */
static void fail_twice(struct scene *scene, const char *const words[2], const char *const codes[2])
{
    for (int i = 0; i < 2; i++) {
        scene->now_ms += 10000;
        scene_patch(scene, &kind_pod, "j-worker-0", RUNS("a", "0"));
        scene_patch(scene, &kind_pod, "j-worker-1", RUNS("b", "0"));
        look(scene);
        scene_patch(scene, &kind_pod, "j-worker-1",
                    str_printf(&scene->arena,
                               "{'status':{'phase':'Failed','containerStatuses':[{'name':'trainer'"
                               ",'state':{'running':null,'terminated':{'exitCode':%s,'reason':"
                               "'Error','message':'%s','finishedAt':'1970-01-01T00:16:4%dZ'}}}]}}",
                               codes[i], words[i], i)
                        .p);
        scene->now_ms += 100000; /* nobody else's word is waited for any more */
        look(scene);
    }
}

TEST(a_mistake_in_the_program_is_tried_once_more_and_not_again)
{
#define RANK(how) "rank 2 ended with exit code 1" how " at 1970-01-01T00:16:39Z; its last lines:\\n"
#define EARLY     RANK(LAUNCH_NO_STEP)
#define TRACE     "Traceback (most recent call last):\\n  File x\\n"
    static const struct {
        const char *why;
        const char *reliability;
        const char *words[2];
        const char *codes[2];
        bool final;
    } rows[] = {
        {"the same error before the first step",
         "",
         {EARLY TRACE "ValueError: 3 is not 4", EARLY TRACE "ValueError: 5 is not 4"},
         {"1", "1"},
         true},
        {"nothing but an exit code", "", {EARLY "", EARLY ""}, {"9", "9"}, true},
        {"another error",
         "",
         {EARLY TRACE "ValueError: 3", EARLY TRACE "KeyError: 3"},
         {"1", "1"},
         false},
        {"another code", "", {EARLY "bye", EARLY "bye"}, {"1", "2"}, false},
        {"after its first step",
         "",
         {RANK("") TRACE "ValueError: 3", EARLY TRACE "ValueError: 3"},
         {"1", "1"},
         false},
        {"it was killed",
         "",
         {"rank 2 was killed by SIGKILL at x", "rank 2 was killed by SIGKILL at x"},
         {"137", "137"},
         false},
        {"it lost a peer",
         "",
         {EARLY "RuntimeError: Connection reset by peer",
          EARLY "RuntimeError: Connection reset by peer"},
         {"1", "1"},
         false},
        {"its card, perhaps",
         "",
         {EARLY "RuntimeError: CUDA error: uncorrectable ECC error encountered",
          EARLY "RuntimeError: CUDA error: uncorrectable ECC error encountered"},
         {"1", "1"},
         false},
        {"somebody wants it tried so often",
         ",'reliability':{'maxRestarts':3}",
         {EARLY TRACE "ValueError: 3", EARLY TRACE "ValueError: 3"},
         {"1", "1"},
         false},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(scene_close) struct scene scene;
        char job[512];

        test_case(rows[i].why);
        (void)snprintf(job, sizeof(job), JOB("%s"), rows[i].reliability);
        begin(&scene, job);
        fail_twice(&scene, rows[i].words, rows[i].codes);
        EXPECT(number(&scene, "restarts") == (rows[i].final ? 1 : 2));
        EXPECT(str_is(word(&scene, "phase"), rows[i].final ? "Failed" : "Restarting") ||
               !rows[i].final);
        EXPECT(str_contains(word(&scene, "message"), STR("it ended twice in the same way")) ==
               rows[i].final);
    }
}

TEST(a_pod_that_ends_well_because_it_was_told_to_is_not_done)
{
    static const struct {
        const char *why;
        const char *patch;
        bool done;
    } rows[] = {
        {"it ended by itself", "{'status':{'phase':'Succeeded'}}", true},
        {"it was told to, and did",
         "{'metadata':{'deletionTimestamp':'1970-01-01T00:16:40Z','deletionGracePeriodSeconds':30},"
         "'status':{'phase':'Succeeded','containerStatuses':[{'name':'trainer','state':{"
         "'running':null,'terminated':{'exitCode':0,'finishedAt':'1970-01-01T00:16:20Z'}}}]}}",
         false},
        {"it had ended before",
         "{'metadata':{'deletionTimestamp':'1970-01-01T00:16:40Z','deletionGracePeriodSeconds':30},"
         "'status':{'phase':'Succeeded','containerStatuses':[{'name':'trainer','state':{"
         "'running':null,'terminated':{'exitCode':0,'finishedAt':'1970-01-01T00:16:00Z'}}}]}}",
         true},
        {"nothing is known of its containers",
         "{'metadata':{'deletionTimestamp':'1970-01-01T00:16:40Z'},'status':{'phase':'Succeeded',"
         "'containerStatuses':[]}}",
         true},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(scene_close) struct scene scene;

        test_case(rows[i].why);
        begin(&scene, JOB(""));
        scene_patch(&scene, &kind_pod, "j-worker-0", "{'status':{'phase':'Succeeded'}}");
        scene_patch(&scene, &kind_pod, "j-worker-1", rows[i].patch);
        look(&scene);
        EXPECT(str_is(word(&scene, "phase"), "Succeeded") == rows[i].done);
        EXPECT((number(&scene, "preemptions") == 0) == rows[i].done);
    }
}

TEST(pods_of_a_job_that_is_over_go_or_stay_as_it_says)
{
    static const struct {
        const char *policy;
        const char *pods; /* afterwards */
    } rows[] = {
        {"None", "j-worker-0 j-worker-1"},
        {"Running", "j-worker-1"},
        {"All", ""},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(scene_close) struct scene scene;
        char job[512];

        test_case(rows[i].policy);
        (void)snprintf(job, sizeof(job),
                       JOB(",'reliability':{'maxRestarts':0,'cleanPodPolicy':'%s'}"),
                       rows[i].policy);
        begin(&scene, job);
        scene_patch(&scene, &kind_pod, "j-worker-1", ENDED("1", ""));
        look(&scene);
        scene.now_ms += 60000;
        look(&scene);
        EXPECT(str_is(word(&scene, "phase"), "Failed"));
        EXPECT(str_is(scene_names(&scene, &kind_pod), rows[i].pods));
    }
}

TEST(a_spare_takes_the_place_of_a_pod_on_a_node_that_is_proven_bad)
{
    _cleanup_(scene_close) struct scene scene;

    begin_spares(&scene);
    scene_patch(&scene, &kind_node, "b",
                "{'spec':{'taints':[{'key':'muster.dev/suspect','value':'SelfTestFailed','effect':"
                "'NoSchedule'}]}}");
    look(&scene);
    EXPECT(str_contains(word(&scene, "message"), STR("pod j-worker-1 leaves: node b is not well")));
    EXPECT(str_is(label_of(&scene, "j-spare-0", "torchrun.ai/index"), "1"));
    EXPECT(number(&scene, "generation") == 0);
}
