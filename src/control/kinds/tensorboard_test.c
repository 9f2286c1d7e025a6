#include "api/kind.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/json.h"
#include "base/str.h"
#include "control/core/controllers.h"
#include "control/core/scene.h"
#include "test.h"

#include <stddef.h>

/* A TensorBoard: where its logs are -> what its pod mounts and runs; what becomes of the pod -> what
 * its status says. */

static void board(struct scene *scene, const char *spec)
{
    scene_put(scene, &kind_tensorboard,
              str_printf(&scene->arena, "{'metadata':{'name':'b'},'spec':{%s}}", spec).p);
    scene_run(scene, &tensorboard_controller, "b");
}

static struct str said(struct scene *scene, const char *field)
{
    return json_str(json_get(json_get(scene_get(scene, &kind_tensorboard, "b"), "status"), field));
}

static const struct {
    const char *why;
    const char *spec;
    const char *logs;    /* the word of the command that says where they are; "": no pod is made */
    const char *volumes; /* a part of the pod's */
    const char *note;    /* of status, where no pod is made */
} places[] = {
    {"a claim, all of it", "'logDir':{'pvc':[{'name':'c'}]}", "--logdir=/tensorboard/c",
     "[{'name':'logs-0','persistentVolumeClaim':{'claimName':'c'}}]", ""},
    {"a folder of a claim", "'logDir':{'pvc':[{'name':'c','subPath':['a/b']}]}",
     "--logdir=/tensorboard/c/a/b", "'claimName':'c'", ""},
    {"two folders of one claim are two logs, and it is mounted once",
     "'logDir':{'pvc':[{'name':'c','subPath':['a','b']}]}",
     "--logdir_spec=log1:/tensorboard/c/a,log2:/tensorboard/c/b",
     "[{'name':'logs-0','persistentVolumeClaim':{'claimName':'c'}}]", ""},
    {"two claims are two volumes", "'logDir':{'pvc':[{'name':'c'},{'name':'d'}]}",
     "--logdir_spec=log1:/tensorboard/c,log2:/tensorboard/d",
     "{'name':'logs-1','persistentVolumeClaim':{'claimName':'d'}}", ""},
    {"buckets", "'logDir':{'s3':{'uri':['s3://x/y','s3://z'],'secretRef':{'name':'k'}}}",
     "--logdir_spec=log1:s3://x/y,log2:s3://z", "[]", ""},
    {"a bucket of everybody needs no secret", "'logDir':{'s3':{'uri':['s3://x']}}",
     "--logdir=s3://x", "[]", ""},
    {"the older way to say a claim", "'trainingLogFilesets':['t9k://pvc/c/a/b']",
     "--logdir=/tensorboard/c/a/b", "'claimName':'c'", ""},
    {"and all of a claim", "'trainingLogFilesets':['t9k://pvc/c']", "--logdir=/tensorboard/c",
     "'claimName':'c'", ""},
    {"and a bucket", "'trainingLogFilesets':['t9k://minio/k/x/y']", "--logdir=s3://x/y", "[]", ""},
    {"what is neither is named", "'trainingLogFilesets':['ftp://x']", "", "",
     "spec.trainingLogFilesets: \"ftp://x\" is neither"},
    {"web pages cannot be shown", "'logDir':{'http':{'url':['http://x']}}", "", "",
     "spec.logDir.http: TensorBoard reads files"},
    {"nothing is said", "", "", "", "spec.logDir: set pvc or s3"},
};

TEST(a_tensorboard_shows_the_logs_of_claims_and_buckets)
{
    for (size_t i = 0; i < COUNT_OF(places); i++) {
        _cleanup_(scene_close) struct scene scene;

        test_case(places[i].why);
        scene_open(&scene);
        board(&scene, places[i].spec);
        const struct json *pod = scene_get(&scene, &kind_pod, "b");
        struct str volumes = json_text(&scene.arena, json_at(pod, "spec.volumes"));
        EXPECT(str_is(json_str_at(pod, "spec.containers.0.command.1"), places[i].logs));
        EXPECT(str_contains(volumes, scene_text(&scene, places[i].volumes)) || !pod);
        EXPECT(str_starts(said(&scene, "note"), str_from(places[i].note)));
        EXPECT(str_is(said(&scene, "type"), pod ? "Normal" : "Warning"));
        EXPECT(str_is(said(&scene, "reason"), "DependentNotReady"));
    }
}

TEST(a_tensorboard_is_a_pod_and_a_service_of_its_own)
{
    _cleanup_(scene_close) struct scene scene;

    scene_open(&scene);
    board(&scene, "'trainingLogFilesets':['t9k://minio/k/x']");
    const struct json *pod = scene_get(&scene, &kind_pod, "b");
    const struct json *container = json_at(pod, "spec.containers.0");
    const struct json *service = scene_get(&scene, &kind_service, "b");
    EXPECT(str_is(json_str_at(pod, "metadata.ownerReferences.0.uid"), "u-b"));
    EXPECT(str_is(json_str(json_get(container, "image")), "tensorflow/tensorflow"));
    EXPECT(str_is(json_str_at(container, "envFrom.0.secretRef.name"), "k"));
    EXPECT(!json_get(container, "resources"));
    EXPECT(json_i64_or(json_at(service, "spec.ports.0.targetPort"), 0) ==
           json_i64_or(json_at(container, "ports.0.containerPort"), -1));
    EXPECT(json_equal(json_at(service, "spec.selector"), json_at(pod, "metadata.labels")));
    scene_drop(&scene, &kind_pod, "b");
    scene_patch(&scene, &kind_tensorboard, "b",
                "{'spec':{'image':'mine','logDir':{'pvc':[{'name':'c'}]},'trainingLogFilesets':null"
                ",'resources':{'limits':{'cpu':'1'}}}}");
    scene_run(&scene, &tensorboard_controller, "b");
    container = json_at(scene_get(&scene, &kind_pod, "b"), "spec.containers.0");
    EXPECT(str_is(json_str(json_get(container, "image")), "mine"));
    EXPECT(!json_get(container, "envFrom"));
    EXPECT(str_is(json_str_at(container, "resources.limits.cpu"), "1"));
    EXPECT(json_bool_or(json_at(container, "volumeMounts.0.readOnly"), false));
}

#define ENDED(which, code) \
    "{'status':{'containerStatuses':[{'" which "':{'terminated':{'exitCode':" code "}}}]}}"
#define READY "{'status':{'conditions':[{'type':'Ready','status':'True'}]}}"

static const struct {
    const char *why;
    const char *spec; /* a patch of it, after the pod was made */
    const char *pod;  /* a patch */
    const char *reason;
    const char *note;
    const char *type;
} ends[] = {
    {"it has not started", "{}", "{}", "DependentNotReady", "", "Normal"},
    {"what its container waits for is said", "{}",
     "{'status':{'containerStatuses':[{'state':{'waiting':{'message':'no such image'}}}]}}",
     "DependentNotReady", "no such image", "Normal"},
    {"it answers: its address is said", "{}", READY, "DependentReady", "http://b.n", "Normal"},
    {"its image cannot run it", "{}", ENDED("state", "126"), "TensorBoardNotInstalled",
     "the program tensorboard is missing", "Warning"},
    {"its image does not have it", "{}", ENDED("state", "127"), "TensorBoardNotInstalled",
     "the program tensorboard is missing", "Warning"},
    {"nor the runtime", "{}", ENDED("lastState", "128"), "TensorBoardNotInstalled",
     "the program tensorboard is missing", "Warning"},
    {"it ended for another reason: it comes back", "{}", ENDED("lastState", "1"),
     "DependentNotReady", "", "Normal"},
    {"one that answers shows old logs while the new place is wrong",
     "{'spec':{'logDir':null,'trainingLogFilesets':['ftp://x']}}", READY, "DependentReady",
     "spec.trainingLogFilesets: \"ftp://x\"", "Warning"},
};

TEST(a_tensorboard_says_what_became_of_its_pod)
{
    for (size_t i = 0; i < COUNT_OF(ends); i++) {
        _cleanup_(scene_close) struct scene scene;

        test_case(ends[i].why);
        scene_open(&scene);
        board(&scene, "'logDir':{'pvc':[{'name':'c'}]}");
        scene_patch(&scene, &kind_tensorboard, "b", ends[i].spec);
        scene_patch(&scene, &kind_pod, "b", ends[i].pod);
        scene_run(&scene, &tensorboard_controller, "b");
        EXPECT(str_is(said(&scene, "reason"), ends[i].reason));
        EXPECT(str_starts(said(&scene, "note"), str_from(ends[i].note)));
        EXPECT(said(&scene, "note").len > 0 || !ends[i].note[0]);
        EXPECT(str_is(said(&scene, "type"), ends[i].type));
    }
}

TEST(a_suspended_tensorboard_has_no_pod)
{
    _cleanup_(scene_close) struct scene scene;

    scene_open(&scene);
    board(&scene, "'suspend':true,'logDir':{'pvc':[{'name':'c'}]}");
    EXPECT(!scene_get(&scene, &kind_pod, "b"));
    EXPECT(str_is(said(&scene, "reason"), "Suspended"));
    scene_patch(&scene, &kind_tensorboard, "b", "{'spec':{'suspend':false}}");
    scene_run(&scene, &tensorboard_controller, "b");
    EXPECT(scene_get(&scene, &kind_pod, "b"));
    scene_patch(&scene, &kind_pod, "b", READY);
    scene_patch(&scene, &kind_tensorboard, "b", "{'spec':{'suspend':true}}");
    scene_patch(&scene, &kind_pod, "b",
                "{'metadata':{'deletionTimestamp':'2026-01-01T00:00:00Z'}}");
    scene_run(&scene, &tensorboard_controller, "b");
    EXPECT(scene_get(&scene, &kind_pod, "b")); /* it is ending: once is enough */
    EXPECT(str_is(said(&scene, "note"), "spec.suspend is set"));
    EXPECT(!json_bool_or(json_at(scene_get(&scene, &kind_tensorboard, "b"), "status.ready"), true));
    scene_patch(&scene, &kind_pod, "b", "{'metadata':{'deletionTimestamp':null}}");
    scene_run(&scene, &tensorboard_controller, "b");
    EXPECT(!scene_get(&scene, &kind_pod, "b"));
}

TEST(a_tensorboard_leaves_a_pod_of_its_name_that_is_not_its_own)
{
    static const char *const owners[] = {
        "", ",'ownerReferences':[{'apiVersion':'v1','kind':'X','name':'b','uid':'other',"
            "'controller':true}]"};

    for (size_t i = 0; i < COUNT_OF(owners); i++) {
        _cleanup_(scene_close) struct scene scene;

        scene_open(&scene);
        scene_put(&scene, &kind_pod,
                  str_printf(&scene.arena, "{'metadata':{'name':'b'%s}}", owners[i]).p);
        scene_patch(&scene, &kind_pod, "b", READY);
        board(&scene, "'logDir':{'pvc':[{'name':'c'}]}");
        EXPECT(str_is(said(&scene, "reason"), "DependentNotReady"));
        EXPECT(str_is(said(&scene, "type"), "Warning"));
        EXPECT(str_starts(said(&scene, "note"), STR("a pod b already exists")));
        scene_patch(&scene, &kind_tensorboard, "b", "{'spec':{'suspend':true}}");
        scene_run(&scene, &tensorboard_controller, "b");
        EXPECT(scene_get(&scene, &kind_pod, "b"));
    }
}

TEST(a_tensorboard_that_goes_or_is_gone_is_left_alone)
{
    _cleanup_(scene_close) struct scene scene;

    scene_open(&scene);
    scene_run(&scene, &tensorboard_controller, "b");
    scene_put(&scene, &kind_tensorboard,
              "{'metadata':{'name':'b','deletionTimestamp':'2026-01-01T00:00:00Z'},"
              "'spec':{'logDir':{'pvc':[{'name':'c'}]}}}");
    scene_run(&scene, &tensorboard_controller, "b");
    EXPECT(str_is(scene_names(&scene, &kind_pod), ""));
    EXPECT(str_is(scene_names(&scene, &kind_service), ""));
}

TEST(a_tensorboard_hears_of_itself_and_of_what_it_owns)
{
    static const struct {
        const char *owner;
        const char *keys;
    } rows[] = {
        {"'apiVersion':'tensorstack.dev/v1beta1','kind':'TensorBoard'", "b"},
        {"'apiVersion':'example.com/v1','kind':'TensorBoard'", ""},
        {"'apiVersion':'apps/v1','kind':'ReplicaSet'", ""},
    };
    _cleanup_(scene_close) struct scene scene;

    scene_open(&scene);
    board(&scene, "'logDir':{'pvc':[{'name':'c'}]}");
    EXPECT(str_is(scene_keys(&scene, &tensorboard_controller, &kind_tensorboard, "b"), "b"));
    EXPECT(str_is(scene_keys(&scene, &tensorboard_controller, &kind_service, "b"), "b"));
    scene_put(&scene, &kind_pod, "{'metadata':{'name':'b'}}"); /* in its way */
    EXPECT(str_is(scene_keys(&scene, &tensorboard_controller, &kind_pod, "b"), "b"));
    scene_put(&scene, &kind_pod, "{'metadata':{'name':'alone'}}");
    EXPECT(str_is(scene_keys(&scene, &tensorboard_controller, &kind_pod, "alone"), ""));
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        scene_put(&scene, &kind_pod,
                  str_printf(&scene.arena,
                             "{'metadata':{'name':'p','ownerReferences':[{%s,'name':'b','uid':'u',"
                             "'controller':true}]}}",
                             rows[i].owner)
                      .p);
        EXPECT(str_is(scene_keys(&scene, &tensorboard_controller, &kind_pod, "p"), rows[i].keys));
    }
}
