#include "api/kind.h"
#include "api/object.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "base/str.h"
#include "cache/cache.h"
#include "control/core/action.h"
#include "control/core/controllers.h"
#include "control/core/scene.h"
#include "test.h"

#include <stddef.h>
#include <stdint.h>

/* StatefulSets, DaemonSets, ReplicationControllers and CronJobs: what they make of what is there.
 */

#define TEMPLATE(image)                                                    \
    "'template':{'metadata':{'labels':{'app':'a'}},'spec':{'containers':[" \
    "{'name':'c','image':'" image "'}]}}"
#define SET(extra)                                                                           \
    "{'metadata':{'name':'s'},'spec':{'serviceName':'svc','selector':{'matchLabels':{'app':" \
    "'a'}}," extra "," TEMPLATE("i1") "}}"
#define READY                                                                     \
    "{'status':{'phase':'Running','conditions':[{'type':'Ready','status':'True'," \
    "'lastTransitionTime':'1970-01-01T00:00:01Z'}]}}"
#define UNREADY "{'status':{'conditions':[{'type':'Ready','status':'False'}]}}"

static size_t count(struct scene *scene, const struct kind *kind)
{
    return cache_count(scene->whole, kind);
}

static struct str at(struct scene *scene,
                     const struct kind *kind,
                     const char *name,
                     const char *path)
{
    return json_str_at(scene_get(scene, kind, name), path);
}

static int64_t number(struct scene *scene,
                      const struct kind *kind,
                      const char *name,
                      const char *at)
{
    return json_i64_or(json_at(scene_get(scene, kind, name), at), 0);
}

static struct str image(struct scene *scene, const char *pod)
{
    return at(scene, &kind_pod, pod, "spec.containers.0.image");
}

static void run_set(struct scene *scene)
{
    scene_run(scene, &statefulset_controller, "s");
}

static void serve(struct scene *scene, const char *pod)
{
    scene_patch(scene, &kind_pod, pod, READY);
    run_set(scene);
}

TEST(a_statefulset_makes_one_pod_after_another)
{
    _cleanup_(scene_close) struct scene scene;

    scene_open(&scene);
    scene_put(&scene, &kind_statefulset,
              SET("'replicas':3,'volumeClaimTemplates':[{'metadata':{'name':'data'},'spec':{"
                  "'accessModes':['ReadWriteOnce']}}]"));
    run_set(&scene);
    EXPECT(str_is(scene_names(&scene, &kind_pod), "s-0"));
    EXPECT(str_is(scene_names(&scene, &kind_pvc), "data-s-0"));
    EXPECT(str_is(at(&scene, &kind_pod, "s-0", "spec.hostname"), "s-0"));
    EXPECT(str_is(at(&scene, &kind_pod, "s-0", "spec.subdomain"), "svc"));
    EXPECT(str_is(at(&scene, &kind_pod, "s-0", "spec.volumes.0.persistentVolumeClaim.claimName"),
                  "data-s-0"));
    serve(&scene, "s-0");
    EXPECT(str_is(scene_names(&scene, &kind_pod), "s-0 s-1"));
    serve(&scene, "s-1");
    serve(&scene, "s-2");
    EXPECT(number(&scene, &kind_statefulset, "s", "status.readyReplicas") == 3);
    EXPECT(str_eq(at(&scene, &kind_statefulset, "s", "status.currentRevision"),
                  at(&scene, &kind_statefulset, "s", "status.updateRevision")));

    /* Fewer: from the highest number down; the claims stay. */
    scene_patch(&scene, &kind_statefulset, "s", "{'spec':{'replicas':1}}");
    run_set(&scene);
    EXPECT(str_is(scene_names(&scene, &kind_pod), "s-0"));
    EXPECT(count(&scene, &kind_pvc) == 3);
}

TEST(a_statefulset_in_trouble_keeps_its_pods_until_the_lower_ones_serve)
{
    _cleanup_(scene_close) struct scene scene;

    scene_open(&scene);
    scene_put(&scene, &kind_statefulset, SET("'replicas':3"));
    run_set(&scene);
    serve(&scene, "s-0");
    serve(&scene, "s-1");
    serve(&scene, "s-2");
    scene_patch(&scene, &kind_pod, "s-0", UNREADY);
    scene_patch(&scene, &kind_pod, "s-2", UNREADY);
    scene_patch(&scene, &kind_statefulset, "s", "{'spec':{'replicas':0}}");
    run_set(&scene);
    EXPECT(str_is(scene_names(&scene, &kind_pod), "s-0 s-1 s-2"));
    scene_patch(&scene, &kind_pod, "s-2", READY);
    run_set(&scene);
    /* The two that serve go, and then the one that is the only one in trouble. */
    EXPECT(count(&scene, &kind_pod) == 0);
}

TEST(a_parallel_statefulset_waits_for_nobody)
{
    _cleanup_(scene_close) struct scene scene;

    scene_open(&scene);
    scene_put(&scene, &kind_statefulset,
              SET("'replicas':3,'podManagementPolicy':'Parallel','ordinals':{'start':5}"));
    run_set(&scene);
    EXPECT(str_is(scene_names(&scene, &kind_pod), "s-5 s-6 s-7"));
}

TEST(a_statefulset_replaces_pods_from_the_highest_number_down)
{
    _cleanup_(scene_close) struct scene scene;

    scene_open(&scene);
    scene_put(&scene, &kind_statefulset,
              SET("'replicas':3,'updateStrategy':{'type':'RollingUpdate','rollingUpdate':{"
                  "'partition':1}}"));
    run_set(&scene);
    serve(&scene, "s-0");
    serve(&scene, "s-1");
    serve(&scene, "s-2");
    scene_patch(&scene, &kind_statefulset, "s", "{'spec':{" TEMPLATE("i2") "}}");
    run_set(&scene);
    EXPECT(count(&scene, &kind_controllerrevision) == 2);
    EXPECT(str_is(image(&scene, "s-2"), "i2") && str_is(image(&scene, "s-1"), "i1"));
    serve(&scene, "s-2");
    EXPECT(str_is(image(&scene, "s-1"), "i2"));
    serve(&scene, "s-1");
    EXPECT(str_is(image(&scene, "s-0"), "i1")); /* below the partition */
    EXPECT(number(&scene, &kind_statefulset, "s", "status.updatedReplicas") == 2);
    EXPECT(!str_eq(at(&scene, &kind_statefulset, "s", "status.currentRevision"),
                   at(&scene, &kind_statefulset, "s", "status.updateRevision")));
    /* One below the partition comes back as it was. */
    scene_drop(&scene, &kind_pod, "s-0");
    run_set(&scene);
    EXPECT(str_is(image(&scene, "s-0"), "i1"));
    serve(&scene, "s-0");
    scene_patch(&scene, &kind_statefulset, "s",
                "{'spec':{'updateStrategy':{'rollingUpdate':{'partition':0}}}}");
    run_set(&scene);
    serve(&scene, "s-0");
    EXPECT(str_is(image(&scene, "s-0"), "i2"));
    EXPECT(str_eq(at(&scene, &kind_statefulset, "s", "status.currentRevision"),
                  at(&scene, &kind_statefulset, "s", "status.updateRevision")));
}

TEST(a_statefulset_that_waits_for_deletes_replaces_nothing_itself)
{
    _cleanup_(scene_close) struct scene scene;

    scene_open(&scene);
    scene_put(&scene, &kind_statefulset, SET("'replicas':1,'updateStrategy':{'type':'OnDelete'}"));
    run_set(&scene);
    serve(&scene, "s-0");
    scene_patch(&scene, &kind_statefulset, "s", "{'spec':{" TEMPLATE("i2") "}}");
    run_set(&scene);
    EXPECT(str_is(image(&scene, "s-0"), "i1"));
    scene_drop(&scene, &kind_pod, "s-0");
    run_set(&scene);
    EXPECT(str_is(image(&scene, "s-0"), "i2"));
}

TEST(claims_of_a_statefulset_go_when_it_says_so)
{
    _cleanup_(scene_close) struct scene scene;

    scene_open(&scene);
    scene_put(&scene, &kind_statefulset,
              SET("'replicas':2,'podManagementPolicy':'Parallel',"
                  "'persistentVolumeClaimRetentionPolicy':{'whenDeleted':'Delete','whenScaled':"
                  "'Delete'},'volumeClaimTemplates':[{'metadata':{'name':'d'},'spec':{}}]"));
    run_set(&scene);
    EXPECT(
        str_is(at(&scene, &kind_pvc, "d-s-1", "metadata.ownerReferences.0.kind"), "StatefulSet"));
    serve(&scene, "s-0");
    serve(&scene, "s-1");
    scene_patch(&scene, &kind_statefulset, "s", "{'spec':{'replicas':1}}");
    run_set(&scene);
    EXPECT(str_is(at(&scene, &kind_pvc, "d-s-1", "metadata.ownerReferences.0.kind"), "Pod"));
    EXPECT(
        str_is(at(&scene, &kind_pvc, "d-s-0", "metadata.ownerReferences.0.kind"), "StatefulSet"));
}

/* ---- DaemonSets ---- */

static struct str pods_by_node(struct scene *scene)
{
    const struct object *pod = NULL;
    size_t cursor = 0;
    struct str text = STR("");

    while ((pod = cache_next(scene->whole, &kind_pod, STR(""), &cursor))) {
        const struct json *tree = scene_get(scene, &kind_pod, str_c(&scene->arena, pod->name));

        text = str_printf(
            &scene->arena, STR_FMT "%s" STR_FMT ":" STR_FMT, STR_ARG(text), text.len ? " " : "",
            STR_ARG(json_str_at(tree,
                                "spec.affinity.nodeAffinity."
                                "requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms."
                                "0.matchFields.0.values.0")),
            STR_ARG(json_str_at(tree, "spec.containers.0.image")));
    }
    return text;
}

static void all_serve(struct scene *scene)
{
    struct str rest = scene_names(scene, &kind_pod);
    struct str name = STR("");

    while (rest.len && str_cut(&rest, ' ', &name))
        scene_patch(scene, &kind_pod, str_c(&scene->arena, name), READY);
    scene_run(scene, &daemonset_controller, "s");
}

TEST(a_daemonset_has_a_pod_on_every_node_that_it_may_use)
{
    _cleanup_(scene_close) struct scene scene;

    scene_open(&scene);
    scene_put(&scene, &kind_node, "{'metadata':{'name':'n1'}}");
    scene_put(&scene, &kind_node,
              "{'metadata':{'name':'n2'},'spec':{'taints':[{'key':'k','effect':'NoSchedule'}]}}");
    scene_put(&scene, &kind_node,
              "{'metadata':{'name':'n3'},'spec':{'unschedulable':true,'taints':[{'key':"
              "'node.kubernetes.io/unschedulable','effect':'NoSchedule'}]}}");
    scene_put(&scene, &kind_daemonset, SET("'minReadySeconds':0"));
    scene_run(&scene, &daemonset_controller, "s");
    EXPECT(str_is(pods_by_node(&scene), "n1:i1 n3:i1"));
    EXPECT(number(&scene, &kind_daemonset, "s", "status.desiredNumberScheduled") == 2);
    all_serve(&scene);
    EXPECT(number(&scene, &kind_daemonset, "s", "status.numberAvailable") == 2);
    EXPECT(number(&scene, &kind_daemonset, "s", "status.numberReady") == 2);
    scene_put(&scene, &kind_node, "{'metadata':{'name':'n4'}}");
    scene_run(&scene, &daemonset_controller, "s");
    EXPECT(str_is(pods_by_node(&scene), "n1:i1 n3:i1 n4:i1"));
    /* A label that is missing, and a taint that drives out. */
    scene_patch(&scene, &kind_node, "n1", "{'spec':{'taints':[{'key':'k','effect':'NoExecute'}]}}");
    scene_run(&scene, &daemonset_controller, "s");
    EXPECT(str_is(pods_by_node(&scene), "n3:i1 n4:i1"));
    scene_patch(&scene, &kind_daemonset, "s",
                "{'spec':{'template':{'spec':{'nodeSelector':{'disk':'ssd'}}}}}");
    scene_run(&scene, &daemonset_controller, "s");
    EXPECT(count(&scene, &kind_pod) == 0);
}

TEST(a_daemonset_replaces_one_pod_at_a_time)
{
    _cleanup_(scene_close) struct scene scene;

    scene_open(&scene);
    scene_put(&scene, &kind_node, "{'metadata':{'name':'n1'}}");
    scene_put(&scene, &kind_node, "{'metadata':{'name':'n2'}}");
    scene_put(
        &scene, &kind_daemonset,
        SET("'updateStrategy':{'type':'RollingUpdate','rollingUpdate':{'maxUnavailable':1}}"));
    scene_run(&scene, &daemonset_controller, "s");
    all_serve(&scene);
    scene_patch(&scene, &kind_daemonset, "s", "{'spec':{" TEMPLATE("i2") "}}");
    scene_run(&scene, &daemonset_controller, "s");
    EXPECT(str_is(pods_by_node(&scene), "n2:i1 n1:i2"));
    EXPECT(number(&scene, &kind_daemonset, "s", "status.updatedNumberScheduled") == 1);
    all_serve(&scene);
    EXPECT(str_is(pods_by_node(&scene), "n1:i2 n2:i2"));
    EXPECT(count(&scene, &kind_controllerrevision) == 2);
}

/* As Kubernetes' own controller writes it: its tools compare the bytes. */
TEST(a_revision_has_the_bytes_of_the_template)
{
    _cleanup_(scene_close) struct scene scene;

    scene_open(&scene);
    scene_put(&scene, &kind_daemonset,
              "{'metadata':{'name':'d'},'spec':{'selector':{'matchLabels':{'app':'a'}},'template':{"
              "'spec':{'containers':[{'name':'c','image':'i1'}]},'metadata':{'labels':{'app':'a'},"
              "'annotations':{'x':'y'}}}}}");
    scene_run(&scene, &daemonset_controller, "d");
    struct str name = scene_names(&scene, &kind_controllerrevision);
    EXPECT(str_eq(
        json_text(&scene.arena,
                  json_get(scene_get(&scene, &kind_controllerrevision, name.p), "data")),
        scene_text(&scene, "{'spec':{'template':{'$patch':'replace','metadata':{'annotations':{'x':"
                           "'y'},'creationTimestamp':null,'labels':{'app':'a'}},'spec':{'containers"
                           "':[{'image':'i1','name':'c','resources':{}}]}}}}")));

    /* Somebody who writes the template back in another order has changed nothing. */
    scene_patch(&scene, &kind_daemonset, "d",
                "{'spec':{'template':{'metadata':{'creationTimestamp':null},'spec':{'containers':["
                "{'image':'i1','name':'c','resources':{}}]}}}}");
    scene_run(&scene, &daemonset_controller, "d");
    EXPECT(count(&scene, &kind_controllerrevision) == 1);
}

TEST(a_daemonset_that_surges_has_both_for_a_while)
{
    _cleanup_(scene_close) struct scene scene;

    scene_open(&scene);
    scene_put(&scene, &kind_node, "{'metadata':{'name':'n1'}}");
    scene_put(&scene, &kind_daemonset,
              SET("'updateStrategy':{'type':'RollingUpdate','rollingUpdate':{'maxSurge':1,"
                  "'maxUnavailable':0}}"));
    scene_run(&scene, &daemonset_controller, "s");
    all_serve(&scene);
    scene_patch(&scene, &kind_daemonset, "s", "{'spec':{" TEMPLATE("i2") "}}");
    scene_run(&scene, &daemonset_controller, "s");
    EXPECT(str_is(pods_by_node(&scene), "n1:i1 n1:i2"));
    all_serve(&scene);
    EXPECT(str_is(pods_by_node(&scene), "n1:i2"));
}

static void put_tainted(struct scene *scene, const char *name, const char *tolerations)
{
    scene_put(scene, &kind_pod,
              str_printf(&scene->arena,
                         "{'metadata':{'name':'%s'},'spec':{'nodeName':'n1','tolerations':[%s]}}",
                         name, tolerations)
                  .p);
    scene_run(scene, &taints_controller, name);
}

TEST(a_pod_leaves_a_node_whose_taint_it_does_not_tolerate)
{
    _cleanup_(scene_close) struct scene scene;

    scene_open(&scene);
    scene.now_ms = 100000;
    scene_put(&scene, &kind_node,
              "{'metadata':{'name':'n1','namespace':''},'spec':{'taints':[{'key':'k','value':'v',"
              "'effect':'NoExecute','timeAdded':'1970-01-01T00:01:40Z'}]}}");
    put_tainted(&scene, "none", "");
    put_tainted(&scene, "other", "{'key':'j','operator':'Exists'}");
    put_tainted(&scene, "schedule", "{'key':'k','operator':'Exists','effect':'NoSchedule'}");
    put_tainted(&scene, "ever", "{'key':'k','value':'v','effect':'NoExecute'}");
    put_tainted(&scene, "all", "{'operator':'Exists'}");
    put_tainted(&scene, "some", "{'key':'k','operator':'Exists','tolerationSeconds':10}");
    EXPECT(str_is(scene_names(&scene, &kind_pod), "ever all some"));
    scene.now_ms += 9999;
    scene_run(&scene, &taints_controller, "some");
    EXPECT(str_is(scene_names(&scene, &kind_pod), "ever all some"));
    scene.now_ms += 1;
    scene_run(&scene, &taints_controller, "some");
    scene_run(&scene, &taints_controller, "ever");
    EXPECT(str_is(scene_names(&scene, &kind_pod), "ever all"));

    /* A taint that is gone drives nobody away. */
    put_tainted(&scene, "late", "{'key':'k','operator':'Exists','tolerationSeconds':100}");
    scene_patch(&scene, &kind_node, "n1", "{'spec':{'taints':null}}");
    scene.now_ms += 1000000;
    scene_run(&scene, &taints_controller, "late");
    EXPECT(str_is(scene_names(&scene, &kind_pod), "ever all late"));
}

TEST(a_taint_that_was_added_before_1970_has_been_there_for_long)
{
    _cleanup_(scene_close) struct scene scene;

    scene_open(&scene);
    scene.now_ms = 100000;
    scene_put(&scene, &kind_node,
              "{'metadata':{'name':'n1','namespace':''},'spec':{'taints':[{'key':'k',"
              "'effect':'NoExecute','timeAdded':'0001-01-01T00:00:00Z'}]}}");
    put_tainted(&scene, "some", "{'key':'k','operator':'Exists','tolerationSeconds':10}");
    put_tainted(&scene, "ever", "{'key':'k','operator':'Exists'}");
    EXPECT(str_is(scene_names(&scene, &kind_pod), "ever"));
}

TEST(a_replicationcontroller_keeps_its_number_of_pods)
{
    _cleanup_(scene_close) struct scene scene;

    scene_open(&scene);
    scene_put(&scene, &kind_replicationcontroller,
              "{'metadata':{'name':'s'},'spec':{'replicas':2,'selector':{'app':'a'}," TEMPLATE(
                  "i1") "}}");
    scene_put(&scene, &kind_pod, "{'metadata':{'name':'free','labels':{'app':'a'}}}");
    scene_run(&scene, &replicationcontroller_controller, "s");
    EXPECT(count(&scene, &kind_pod) == 2);
    EXPECT(number(&scene, &kind_replicationcontroller, "s", "status.replicas") == 2);
}

/* ---- CronJobs ---- */

#define CRON(extra)                                                                             \
    "{'metadata':{'name':'s','creationTimestamp':'2026-11-16T10:00:30Z'},'spec':{'schedule':"   \
    "'* * * * *'," extra "'jobTemplate':{'metadata':{'labels':{'l':'v'}},'spec':{'template':{}" \
    "}}}}"
#define TEN_OCLOCK INT64_C(1794823200000) /* 2026-11-16T10:00:00Z */
#define DONE       "{'status':{'conditions':[{'type':'Complete','status':'True'}]}}"

static void tick(struct scene *scene, int minutes)
{
    scene->now_ms = TEN_OCLOCK + (int64_t)minutes * 60000;
    scene_run(scene, &cronjob_controller, "s");
}

TEST(a_cronjob_makes_a_job_at_its_moments)
{
    _cleanup_(scene_close) struct scene scene;

    scene_open(&scene);
    scene_put(&scene, &kind_cronjob, CRON(""));
    tick(&scene, 0);
    EXPECT(count(&scene, &kind_job) == 0);
    tick(&scene, 1);
    EXPECT(str_is(scene_names(&scene, &kind_job), "s-29913721"));
    EXPECT(str_is(at(&scene, &kind_job, "s-29913721", "metadata.labels.l"), "v"));
    EXPECT(
        str_is(at(&scene, &kind_cronjob, "s", "status.lastScheduleTime"), "2026-11-16T10:01:00Z"));
    tick(&scene, 1);
    EXPECT(count(&scene, &kind_job) == 1);
    /* Of the moments that were missed, the last one. */
    tick(&scene, 60 * 24 * 30);
    EXPECT(str_is(scene_names(&scene, &kind_job), "s-29913721 s-29956920"));
    EXPECT(str_contains(scene.events, STR("TooManyMissedTimes")));
    EXPECT(json_count(json_at(scene_get(&scene, &kind_cronjob, "s"), "status.active")) == 2);
}

static const struct action *last_action(const struct scene *scene)
{
    return &scene->actions.list.items[scene->actions.list.count - 1];
}

TEST(a_cronjob_whose_moment_never_comes_says_so)
{
    _cleanup_(scene_close) struct scene scene;

    scene_open(&scene);
    scene_put(&scene, &kind_cronjob, CRON(""));
    tick(&scene, 0);
    EXPECT(last_action(&scene)->type == ACTION_LOOK_AGAIN);
    scene_patch(&scene, &kind_cronjob, "s", "{'spec':{'schedule':'59 23 31 2 *'}}");
    tick(&scene, 0);
    EXPECT(last_action(&scene)->type == ACTION_EVENT && last_action(&scene)->warning);
    EXPECT(str_is(last_action(&scene)->reason, "InvalidSchedule"));
    EXPECT(str_contains(last_action(&scene)->message, STR("59 23 31 2 *")));
}

TEST(a_cronjob_heeds_what_still_runs)
{
    static const struct {
        const char *policy;
        size_t jobs;
        const char *event;
    } rows[] = {
        {"Allow", 2, "SuccessfulCreate SuccessfulCreate"},
        {"Forbid", 1, "SuccessfulCreate"},
        {"Replace", 1, "SuccessfulCreate SuccessfulDelete SuccessfulCreate"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        _cleanup_(scene_close) struct scene scene;

        test_case(rows[i].policy);
        scene_open(&scene);
        scene_put(&scene, &kind_cronjob,
                  str_c(&scene.arena, str_printf(&scene.arena, CRON("'concurrencyPolicy':'%s',"),
                                                 rows[i].policy)));
        tick(&scene, 1);
        tick(&scene, 2);
        EXPECT(count(&scene, &kind_job) == rows[i].jobs);
        EXPECT(str_starts(scene.events, str_from(rows[i].event)));
    }
}

TEST(a_suspended_cronjob_makes_none_and_a_late_one_none_too_late)
{
    _cleanup_(scene_close) struct scene scene;

    scene_open(&scene);
    scene_put(&scene, &kind_cronjob, CRON("'suspend':true,'startingDeadlineSeconds':10,"));
    tick(&scene, 5);
    EXPECT(count(&scene, &kind_job) == 0);
    scene_patch(&scene, &kind_cronjob, "s", "{'spec':{'suspend':false}}");
    scene.now_ms = TEN_OCLOCK + 10 * 60000 + 30000;
    scene_run(&scene, &cronjob_controller, "s");
    EXPECT(count(&scene, &kind_job) == 0); /* 30 seconds late, and ten are allowed */
    tick(&scene, 11);
    EXPECT(count(&scene, &kind_job) == 1);
}

TEST(a_cronjob_keeps_so_many_finished_jobs)
{
    _cleanup_(scene_close) struct scene scene;

    scene_open(&scene);
    scene_put(&scene, &kind_cronjob, CRON("'successfulJobsHistoryLimit':2,"));
    for (int i = 1; i <= 4; i++) {
        struct str rest;
        struct str name = STR("");

        tick(&scene, i);
        rest = scene_names(&scene, &kind_job);
        while (rest.len && str_cut(&rest, ' ', &name))
            ;
        scene_patch(&scene, &kind_job, str_c(&scene.arena, name), DONE);
        tick(&scene, i);
    }
    EXPECT(str_is(scene_names(&scene, &kind_job), "s-29913723 s-29913724"));
}
