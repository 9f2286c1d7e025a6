#include "api/kind.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/json.h"
#include "base/str.h"
#include "control/core/action.h"
#include "control/core/controllers.h"
#include "control/core/scene.h"
#include "test.h"

#include <stddef.h>
#include <stdio.h>

/* PersistentVolumeClaims and ResourceClaims: who gets what, and when it is given back. */

#define GOING       ",'deletionTimestamp':'2026-01-01T00:00:00Z'"
#define CLASS(more) "{'metadata':{'name':'standard'},'provisioner':'muster.local/folder'" more "}"
#define CLAIM(more)                                                                    \
    "{'metadata':{'name':'c','namespace':'n'},'spec':{'accessModes':['ReadWriteOnce']" \
    ",'resources':{'requests':{'storage':'2Gi'}}" more "}}"
#define VOLUME(name, meta, more)                                                      \
    "{'metadata':{'name':'" name "'" meta "},'spec':{'accessModes':['ReadWriteOnce'," \
    "'ReadOnlyMany'],'storageClassName':'standard','capacity':{'storage':'3Gi'}" more "}}"
#define STANDARD  ",'storageClassName':'standard'"
#define FOR(name) ",'claimRef':{'namespace':'n','name':'" name "'}"

/* ---- PersistentVolumeClaims ---- */

/* As the binder of Kubernetes does: a volume has to satisfy all of the claim. */
static const struct {
    const char *why;
    const char *claim;
    const char *volume;
    const char *bound; /* to which; "": none */
} matches[] = {
    {"class, modes and size", CLAIM(STANDARD), VOLUME("v", "", ""), "v"},
    {"another class", CLAIM(",'storageClassName':'other'"), VOLUME("v", "", ""), ""},
    {"a mode that the volume has not", CLAIM(STANDARD ",'accessModes':['ReadWriteMany']"),
     VOLUME("v", "", ""), ""},
    {"one of two modes", CLAIM(STANDARD ",'accessModes':['ReadWriteOnce','ReadWriteMany']"),
     VOLUME("v", "", ""), ""},
    {"larger than the volume", CLAIM(STANDARD ",'resources':{'requests':{'storage':'4Gi'}}"),
     VOLUME("v", "", ""), ""},
    {"a block device where a folder is wanted", CLAIM(STANDARD),
     VOLUME("v", "", ",'volumeMode':'Block'"), ""},
    {"a block device that is wanted", CLAIM(STANDARD ",'volumeMode':'Block'"),
     VOLUME("v", "", ",'volumeMode':'Block'"), "v"},
    {"labels that are asked for", CLAIM(STANDARD ",'selector':{'matchLabels':{'disk':'ssd'}}"),
     VOLUME("v", ",'labels':{'disk':'ssd'}", ""), "v"},
    {"other labels", CLAIM(STANDARD ",'selector':{'matchLabels':{'disk':'ssd'}}"),
     VOLUME("v", ",'labels':{'disk':'hdd'}", ""), ""},
    {"a selector that says nonsense",
     CLAIM(STANDARD ",'selector':{'matchExpressions':[{'key':'disk','operator':'Near'}]}"),
     VOLUME("v", ",'labels':{'disk':'ssd'}", ""), ""},
    {"the volume goes", CLAIM(STANDARD), VOLUME("v", GOING, ""), ""},
    {"the volume is somebody else's", CLAIM(STANDARD), VOLUME("v", "", FOR("d")), ""},
    {"it was kept for the claim, whatever its class", CLAIM(",'storageClassName':'other'"),
     VOLUME("v", "", FOR("c")), "v"},
    {"kept for the claim, and too small",
     CLAIM(STANDARD ",'resources':{'requests':{'storage':'4Gi'}}"), VOLUME("v", "", FOR("c")), ""},
    {"kept for an earlier claim of that name", CLAIM(STANDARD),
     VOLUME("v", "", ",'claimRef':{'namespace':'n','name':'c','uid':'old'}"), ""},
    {"the claim names it", CLAIM(STANDARD ",'volumeName':'v'"), VOLUME("v", "", ""), "v"},
    {"the claim names it, whatever its labels",
     CLAIM(STANDARD ",'volumeName':'v','selector':{'matchLabels':{'disk':'ssd'}}"),
     VOLUME("v", "", ""), "v"},
    {"the claim names another one", CLAIM(STANDARD ",'volumeName':'w'"), VOLUME("v", "", ""), ""},
    {"the claim names one that is too small",
     CLAIM(STANDARD ",'volumeName':'v','resources':{'requests':{'storage':'4Gi'}}"),
     VOLUME("v", "", ""), ""},
    {"the claim names one of another class", CLAIM(",'volumeName':'v'"), VOLUME("v", "", ""), ""},
    {"the claim names one that is another's", CLAIM(STANDARD ",'volumeName':'v'"),
     VOLUME("v", "", FOR("d")), ""},
    {"both name each other", CLAIM(",'volumeName':'v'"), VOLUME("v", "", FOR("c")), "v"},
};

TEST(a_claim_is_bound_to_a_volume_that_satisfies_it)
{
    for (size_t i = 0; i < COUNT_OF(matches); i++) {
        _cleanup_(scene_close) struct scene scene;

        test_case(matches[i].why);
        scene_open(&scene);
        scene_put(&scene, &kind_pvc, matches[i].claim);
        scene_put(&scene, &kind_pv, matches[i].volume);
        scene_run(&scene, &claims_controller, "c");
        const struct json *claim = scene_get(&scene, &kind_pvc, "c");
        const struct json *volume = scene_get(&scene, &kind_pv, "v");
        if (*matches[i].bound) {
            EXPECT(str_is(json_str_at(claim, "spec.volumeName"), matches[i].bound));
            EXPECT(str_is(json_str_at(claim, "status.phase"), "Bound"));
            EXPECT(str_is(json_str_at(claim, "status.capacity.storage"), "3Gi"));
            EXPECT(str_is(json_str_at(volume, "status.phase"), "Bound"));
            EXPECT(str_is(json_str_at(volume, "spec.claimRef.uid"), "u-c"));
        } else {
            EXPECT(!json_at(claim, "status.phase"));
            EXPECT(!str_is(json_str_at(volume, "status.phase"), "Bound"));
        }
    }
}

TEST(a_volume_that_is_bound_already_is_not_told_so_again)
{
    _cleanup_(scene_close) struct scene scene;

    scene_open(&scene);
    scene_put(&scene, &kind_pvc, CLAIM(STANDARD ",'volumeName':'v'"));
    scene_put(&scene, &kind_pv,
              VOLUME("v", "", ",'claimRef':{'namespace':'n','name':'c','uid':'u-c'}"));
    scene_patch(&scene, &kind_pv, "v", "{'status':{'phase':'Bound'}}");
    (void)scene_turn(&scene, &claims_controller, "c");
    EXPECT(scene.actions.list.count == 1); /* the claim's status */
    EXPECT(str_is(json_str_at(scene_get(&scene, &kind_pvc, "c"), "status.phase"), "Bound"));
}

/* Where and which is the scheduler's to say: it knows what else the pod needs. */
TEST(a_claim_whose_class_waits_for_a_consumer_waits_until_the_scheduler_has_chosen)
{
    static const struct {
        const char *why;
        const char *claim;  /* patch */
        const char *volume; /* its claimRef */
        const char *bound;  /* to which volume; "": none */
    } rows[] = {
        {"nobody has chosen", NULL, "", ""},
        {"a node was chosen",
         "{'metadata':{'annotations':{'volume.kubernetes.io/selected-node':'a'}}}", "", "pvc-u-c"},
        {"a volume was", NULL, FOR("c"), "v"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(scene_close) struct scene scene;
        char volume[512];

        test_case(rows[i].why);
        scene_open(&scene);
        scene_put(&scene, &kind_storageclass, CLASS(",'volumeBindingMode':'WaitForFirstConsumer'"));
        scene_put(&scene, &kind_pvc, CLAIM(STANDARD));
        (void)snprintf(volume, sizeof(volume), VOLUME("v", "", "%s"), rows[i].volume);
        scene_put(&scene, &kind_pv, volume);
        if (rows[i].claim)
            scene_patch(&scene, &kind_pvc, "c", rows[i].claim);
        scene_run(&scene, &claims_controller, "c");
        EXPECT(str_is(json_str_at(scene_get(&scene, &kind_pvc, "c"), "spec.volumeName"),
                      rows[i].bound));
    }
}

TEST(a_folder_is_made_for_a_claim_that_can_have_one)
{
    static const struct {
        const char *why;
        const char *class;
        const char *claim;
        const char *policy; /* of the volume; "": there is none */
        const char *event;
    } rows[] = {
        {"as the class says", CLASS(",'reclaimPolicy':'Retain'"), CLAIM(STANDARD), "Retain", ""},
        {"Delete, where it says nothing", CLASS(""), CLAIM(STANDARD), "Delete", ""},
        {"the claim waits for a volume that it names", CLASS(""),
         CLAIM(STANDARD ",'volumeName':'v'"), "", ""},
        {"a folder is no block device", CLASS(""), CLAIM(STANDARD ",'volumeMode':'Block'"), "",
         "ProvisioningFailed"},
        {"a folder has no labels", CLASS(""),
         CLAIM(STANDARD ",'selector':{'matchLabels':{'disk':'ssd'}}"), "", "ProvisioningFailed"},
        {"the class is not there", CLASS(""), CLAIM(",'storageClassName':'other'"), "", ""},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(scene_close) struct scene scene;

        test_case(rows[i].why);
        scene_open(&scene);
        scene_put(&scene, &kind_storageclass, rows[i].class);
        scene_put(&scene, &kind_pvc, rows[i].claim);
        (void)scene_turn(&scene, &claims_controller, "c");
        const struct json *volume = scene_get(&scene, &kind_pv, "pvc-u-c");
        EXPECT(str_is(json_str_at(volume, "spec.persistentVolumeReclaimPolicy"), rows[i].policy));
        for (size_t j = 0; j < scene.actions.list.count; j++)
            if (scene.actions.list.items[j].type == ACTION_EVENT)
                scene.events = scene.actions.list.items[j].reason;
        EXPECT(str_is(scene.events, rows[i].event));
        if (!volume)
            continue;
        scene_run(&scene, &claims_controller, "c");
        EXPECT(
            str_is(json_str_at(scene_get(&scene, &kind_pvc, "c"), "spec.volumeName"), "pvc-u-c"));
    }
}

TEST(a_volume_whose_claim_is_gone_goes_or_is_kept)
{
    static const struct {
        const char *why;
        const char *volume;
        const char *phase; /* afterwards; NULL: it is gone */
    } rows[] = {
        {"Delete",
         VOLUME("v", "",
                ",'persistentVolumeReclaimPolicy':'Delete','claimRef':{'namespace':'n','name':'c',"
                "'uid':'old'}"),
         NULL},
        {"Retain",
         VOLUME("v", "",
                ",'persistentVolumeReclaimPolicy':'Retain','claimRef':{'namespace':'n','name':'c',"
                "'uid':'old'}"),
         "Released"},
        {"it goes already",
         VOLUME("v", GOING,
                ",'persistentVolumeReclaimPolicy':'Delete','claimRef':{'namespace':'n','name':'c',"
                "'uid':'old'}"),
         ""},
        {"its claim is there",
         VOLUME("v", "",
                ",'persistentVolumeReclaimPolicy':'Delete','claimRef':{'namespace':'n','name':'c',"
                "'uid':'u-c'}"),
         ""},
        {"the claim of another namespace",
         VOLUME("v", "",
                ",'persistentVolumeReclaimPolicy':'Delete','claimRef':{'namespace':'m','name':'c',"
                "'uid':'old'}"),
         ""},
        {"another claim",
         VOLUME("v", "",
                ",'persistentVolumeReclaimPolicy':'Delete','claimRef':{'namespace':'n','name':'d',"
                "'uid':'old'}"),
         ""},
        {"it was kept for a claim that never came",
         VOLUME("v", "", ",'persistentVolumeReclaimPolicy':'Delete'" FOR("c")), ""},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(scene_close) struct scene scene;

        test_case(rows[i].why);
        scene_open(&scene);
        scene_put(&scene, &kind_pvc,
                  "{'metadata':{'name':'c'},'status':{'phase':'Bound'},'spec':{}}");
        scene_put(&scene, &kind_pv, rows[i].volume);
        scene_run(&scene, &claims_controller, "c");
        const struct json *volume = scene_get(&scene, &kind_pv, "v");
        EXPECT(!volume == !rows[i].phase);
        if (rows[i].phase)
            EXPECT(str_is(json_str_at(volume, "status.phase"), rows[i].phase));
    }
}

TEST(a_claim_that_is_deleted_keeps_the_finalizers_of_others)
{
    static const struct {
        const char *why;
        const char *finalizers;
        const char *pod;
        const char *left;
    } rows[] = {
        {"a pod with other volumes", "'kubernetes.io/pvc-protection','mine'",
         "'volumes':[{'emptyDir':{}},{'persistentVolumeClaim':{'claimName':'d'}}]", "mine"},
        {"a pod that uses it", "'kubernetes.io/pvc-protection','mine'",
         "'volumes':[{'emptyDir':{}},{'persistentVolumeClaim':{'claimName':'c'}}]",
         "kubernetes.io/pvc-protection mine"},
        {"it was let go before", "'mine'", "'volumes':[]", "mine"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(scene_close) struct scene scene;

        test_case(rows[i].why);
        scene_open(&scene);
        scene_put(&scene, &kind_pvc,
                  str_printf(&scene.arena,
                             "{'metadata':{'name':'c','finalizers':[%s]" GOING "},'spec':{}}",
                             rows[i].finalizers)
                      .p);
        scene_put(&scene, &kind_pod,
                  str_printf(&scene.arena, "{'metadata':{'name':'p'},'spec':{%s}}", rows[i].pod).p);
        scene_run(&scene, &claims_controller, "c");
        EXPECT(str_is(
            scene_words(&scene, json_at(scene_get(&scene, &kind_pvc, "c"), "metadata.finalizers")),
            rows[i].left));
    }
}

TEST(a_class_that_is_there_is_the_only_one)
{
    _cleanup_(scene_close) struct scene scene;

    scene_open(&scene);
    scene_run(&scene, &claims_controller, "");
    EXPECT(str_is(scene_names(&scene, &kind_storageclass), "standard"));
    EXPECT(str_is(json_str(json_get(json_at(scene_get(&scene, &kind_storageclass, "standard"),
                                            "metadata.annotations"),
                                    "storageclass.kubernetes.io/is-default-class")),
                  "true"));
    scene_drop(&scene, &kind_storageclass, "standard");
    scene_put(&scene, &kind_storageclass, "{'metadata':{'name':'mine'},'provisioner':'x.y/z'}");
    scene_run(&scene, &claims_controller, "");
    EXPECT(str_is(scene_names(&scene, &kind_storageclass), "mine"));
}

/* ---- ResourceClaims ---- */

#define USES(list) \
    "{'metadata':{'name':'p'},'spec':{'resourceClaims':[" list "]},'status':{'phase':'Running'}}"
#define TEMPLATE_USE(name) "{'name':'" name "','resourceClaimTemplateName':'t'}"

static struct str made_for(struct scene *scene, const char *use)
{
    JSON_FOREACH(json_at(scene_get(scene, &kind_pod, "p"), "status.resourceClaimStatuses"), status)
        if (str_is(json_str(json_get(status, "name")), use))
            return json_str(json_get(status, "resourceClaimName"));
    return STR("");
}

TEST(a_pod_keeps_the_claims_that_it_has)
{
    _cleanup_(scene_close) struct scene scene;

    scene_open(&scene);
    scene_put(&scene, &kind_claimtemplate,
              "{'metadata':{'name':'t'},'spec':{'metadata':{'annotations':{'x':'y'}},'spec':{}}}");
    scene_put(&scene, &kind_pod,
              USES(TEMPLATE_USE("a") ",{'name':'b','resourceClaimName':'mine'}"));
    scene_run(&scene, &resource_claims_controller, "pod/p");
    struct str first = made_for(&scene, "a");
    EXPECT(str_eq(scene_names(&scene, &kind_resourceclaim), first)); /* none for "b" */
    const struct json *annotations = json_at(
        scene_get(&scene, &kind_resourceclaim, str_c(&scene.arena, first)), "metadata.annotations");
    EXPECT(str_is(json_str(json_get(annotations, "x")), "y"));
    EXPECT(str_is(json_str(json_get(annotations, "resource.kubernetes.io/pod-claim-name")), "a"));

    /* Another use appears: the first one stays as it is. */
    scene_patch(&scene, &kind_pod, "p",
                "{'spec':{'resourceClaims':[" TEMPLATE_USE("a") "," TEMPLATE_USE("c") "]}}");
    scene_run(&scene, &resource_claims_controller, "pod/p");
    EXPECT(str_eq(made_for(&scene, "a"), first) && made_for(&scene, "c").len);
    /* A status that was lost is told again, without another claim. */
    scene_patch(&scene, &kind_pod, "p", "{'status':{'resourceClaimStatuses':null}}");
    scene_run(&scene, &resource_claims_controller, "pod/p");
    EXPECT(str_eq(made_for(&scene, "a"), first));
    EXPECT(!(scene_turn(&scene, &resource_claims_controller, "pod/p")));
    scene_run(&scene, &resource_claims_controller, "pod/gone");
    scene_run(&scene, &resource_claims_controller, "claim/gone");

    scene_put(&scene, &kind_pod,
              "{'metadata':{'name':'q'" GOING
              "},'spec':{'resourceClaims':[" TEMPLATE_USE("a") "]}}");
    scene_run(&scene, &resource_claims_controller, "pod/q");
    EXPECT(!json_at(scene_get(&scene, &kind_pod, "q"), "status.resourceClaimStatuses"));
}

TEST(the_status_of_a_group_names_each_of_its_claims_once)
{
    _cleanup_(scene_close) struct scene scene;

    scene_open(&scene);
    scene_put(&scene, &kind_claimtemplate, "{'metadata':{'name':'t'},'spec':{'spec':{}}}");
    scene_put(
        &scene, &kind_podgroup_k8s,
        "{'metadata':{'name':'g'},'spec':{'resourceClaims':[" TEMPLATE_USE("a") "," TEMPLATE_USE(
            "b") "]},'status':{'resourceClaimStatuses':[{'name':'b',"
                 "'resourceClaimName':'earlier'},{'name':'z','resourceClaimName':'other'}]}}");
    scene_put(&scene, &kind_pod,
              "{'metadata':{'name':'p'},'spec':{'schedulingGroup':{'podGroupName':'g'},"
              "'resourceClaims':[" TEMPLATE_USE("b") "]}}");
    scene_run(&scene, &resource_claims_controller, "pod/p");
    const struct json *list =
        json_at(scene_get(&scene, &kind_podgroup_k8s, "g"), "status.resourceClaimStatuses");
    EXPECT(json_count(list) == 2);
    EXPECT(str_is(json_str(json_get(json_index(list, 0), "resourceClaimName")), "other"));
    EXPECT(str_eq(json_str(json_get(json_index(list, 1), "resourceClaimName")),
                  made_for(&scene, "b")));
}

TEST(a_claim_goes_with_what_it_was_made_for)
{
#define MADE(more) \
    "{'metadata':{'name':'c','annotations':{'resource.kubernetes.io/pod-claim-name':'a'}," more "}}"
#define BY(kind, uid) "'ownerReferences':[{'kind':'" kind "','name':'p','uid':'" uid "'}]"
    static const struct {
        const char *why;
        const char *claim;
        const char *pod; /* its phase */
        const char *left;
    } rows[] = {
        {"its pod runs", MADE(BY("Pod", "u-p")), "Running", "c"},
        {"its pod has ended", MADE(BY("Pod", "u-p")), "Succeeded", ""},
        {"its pod is another one now: the owner is gone, and so will it be", MADE(BY("Pod", "old")),
         "Succeeded", "c"},
        {"a group's", MADE(BY("PodGroup", "u-p")), "Succeeded", "c"},
        {"owned by nobody", MADE("'labels':{}"), "Succeeded", "c"},
        {"not made for a pod", "{'metadata':{'name':'c'," BY("Pod", "u-p") "}}", "Succeeded", "c"},
        {"it goes already", MADE(BY("Pod", "u-p") GOING), "Succeeded", "c"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(scene_close) struct scene scene;

        test_case(rows[i].why);
        scene_open(&scene);
        scene_put(&scene, &kind_resourceclaim, rows[i].claim);
        scene_put(&scene, &kind_pod,
                  str_printf(&scene.arena, "{'metadata':{'name':'p'},'status':{'phase':'%s'}}",
                             rows[i].pod)
                      .p);
        scene_run(&scene, &resource_claims_controller, "claim/c");
        EXPECT(str_is(scene_names(&scene, &kind_resourceclaim), rows[i].left));
        scene_drop(&scene, &kind_pod, "p");
        scene_run(&scene, &resource_claims_controller, "claim/c"); /* with it the owner is gone */
        EXPECT(str_is(scene_names(&scene, &kind_resourceclaim), rows[i].left));
    }
}

TEST(a_claim_that_is_deleted_gives_its_devices_back_when_nobody_uses_it)
{
    static const struct {
        const char *why;
        const char *meta;
        const char *users;
        const char *allocated;
        const char *finalizers;
    } rows[] = {
        {"used", GOING, "{'resource':'pods','name':'p','uid':'u-p'}", "{}",
         "resource.kubernetes.io/delete-protection"},
        {"used by somebody else's kind", GOING,
         "{'apiGroup':'x.y','resource':'pods','name':'gone','uid':'u'}", "{}",
         "resource.kubernetes.io/delete-protection"},
        {"unused", GOING, "", "null", ""},
        {"unused, and nobody deletes it", "", "", "{}", "resource.kubernetes.io/delete-protection"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(scene_close) struct scene scene;

        test_case(rows[i].why);
        scene_open(&scene);
        scene_put(&scene, &kind_pod, "{'metadata':{'name':'p'},'status':{'phase':'Running'}}");
        scene_put(&scene, &kind_resourceclaim,
                  str_printf(&scene.arena,
                             "{'metadata':{'name':'c','finalizers':["
                             "'resource.kubernetes.io/delete-protection']%s},'status':{"
                             "'allocation':{},'reservedFor':[%s]}}",
                             rows[i].meta, rows[i].users)
                      .p);
        scene_run(&scene, &resource_claims_controller, "claim/c");
        const struct json *claim = scene_get(&scene, &kind_resourceclaim, "c");
        EXPECT(
            str_is(json_text(&scene.arena, json_at(claim, "status.allocation")),
                   rows[i].allocated) ||
            (!json_at(claim, "status.allocation") && str_is(str_from(rows[i].allocated), "null")));
        EXPECT(
            str_is(scene_words(&scene, json_at(claim, "metadata.finalizers")), rows[i].finalizers));
    }
}
