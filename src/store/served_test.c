#include "api/api.h"
#include "api/kind.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/json.h"
#include "base/str.h"
#include "store/harness.h"
#include "test.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* Kinds of Kubernetes that charts contain: what the store makes of them. */

#define DEPLOYMENT                                                                             \
    "{\"metadata\":{\"name\":\"d\"},\"spec\":{\"selector\":{\"matchLabels\":{\"app\":\"a\"}}," \
    "\"template\":{\"metadata\":{\"labels\":{\"app\":\"a\"}},\"spec\":{\"containers\":[{"      \
    "\"name\":\"c\",\"image\":\"i:1\"},{\"name\":\"e\",\"image\":\"j:1\"}]}}}}"

static int call(struct harness *h,
                enum api_verb verb,
                const struct kind *kind,
                const char *sub,
                const char *body)
{
    return harness_call(h, &(struct api_request){.verb = verb,
                                                 .kind = kind,
                                                 .ns = STR("default"),
                                                 .name = STR("d"),
                                                 .subresource = str_from(sub),
                                                 .patch = API_PATCH_STRATEGIC,
                                                 .body = str_from(body)});
}

TEST(a_deployment_is_filled_in_scaled_and_patched_as_kubernetes_does)
{
    struct harness h;

    harness_open(&h, NULL);
    EXPECT(harness_create(&h, &kind_deployment, "default", DEPLOYMENT) == 0);
    EXPECT(strcmp(harness_text(&h, "spec.strategy.rollingUpdate"),
                  "{\"maxUnavailable\":\"25%\",\"maxSurge\":\"25%\"}") == 0);
    EXPECT(strcmp(harness_text(&h, "spec.template.spec.restartPolicy"), "Always") == 0);
    EXPECT(strcmp(harness_text(&h, "metadata.generation"), "1") == 0);

    EXPECT(call(&h, API_GET, &kind_deployment, "scale", "") == 0);
    EXPECT(strcmp(harness_text(&h, "status.selector"), "app=a") == 0);
    EXPECT(call(&h, API_PATCH, &kind_deployment, "scale", "{\"spec\":{\"replicas\":3}}") == 0);
    EXPECT(harness_get(&h, &kind_deployment, "default", "d") == 0);
    EXPECT(strcmp(harness_text(&h, "spec.replicas"), "3") == 0);

    EXPECT(call(&h, API_PATCH, &kind_deployment, "",
                "{\"spec\":{\"template\":{\"spec\":{\"containers\":[{\"name\":\"e\",\"image\":"
                "\"j:2\"}]}}}}") == 0);
    EXPECT(strcmp(harness_text(&h, "spec.template.spec.containers.0.image"), "i:1") == 0);
    EXPECT(strcmp(harness_text(&h, "spec.template.spec.containers.1.image"), "j:2") == 0);
    harness_close(&h);
}

TEST(kinds_that_keep_pods_are_refused_in_words)
{
    static const struct {
        const char *why;
        const struct kind *kind;
        const char *body;
        const char *cause;
    } rows[] = {
        {"who is chosen is not who is made", &kind_deployment,
         "{\"metadata\":{\"name\":\"d\"},\"spec\":{\"selector\":{\"matchLabels\":{\"app\":\"b\"}},"
         "\"template\":{\"metadata\":{\"labels\":{\"app\":\"a\"}},\"spec\":{\"containers\":[{"
         "\"name\":\"c\",\"image\":\"i\"}]}}}}",
         "spec.template.metadata.labels"},
        {"everybody is chosen", &kind_replicaset,
         "{\"metadata\":{\"name\":\"d\"},\"spec\":{\"selector\":{},\"template\":{\"spec\":{"
         "\"containers\":[{\"name\":\"c\",\"image\":\"i\"}]}}}}",
         "empty selector is invalid"},
        {"pods that end", &kind_daemonset,
         "{\"metadata\":{\"name\":\"d\"},\"spec\":{\"selector\":{\"matchLabels\":{\"a\":\"b\"}},"
         "\"template\":{\"metadata\":{\"labels\":{\"a\":\"b\"}},\"spec\":{\"restartPolicy\":"
         "\"Never\",\"containers\":[{\"name\":\"c\",\"image\":\"i\"}]}}}}",
         "spec.template.spec.restartPolicy"},
        {"a mount of nothing", &kind_statefulset,
         "{\"metadata\":{\"name\":\"d\"},\"spec\":{\"selector\":{\"matchLabels\":{\"a\":\"b\"}},"
         "\"template\":{\"metadata\":{\"labels\":{\"a\":\"b\"}},\"spec\":{\"containers\":[{"
         "\"name\":\"c\",\"image\":\"i\",\"volumeMounts\":[{\"name\":\"v\",\"mountPath\":\"/v\"}]}"
         "]}}}}",
         "there is no volume of that name"},
        {"no such moment", &kind_cronjob,
         "{\"metadata\":{\"name\":\"d\"},\"spec\":{\"schedule\":\"* * * *\",\"jobTemplate\":{"
         "\"spec\":{\"template\":{\"spec\":{\"restartPolicy\":\"Never\",\"containers\":[{\"name\":"
         "\"c\",\"image\":\"i\"}]}}}}}}",
         "spec.schedule"},
        {"no such place", &kind_cronjob,
         "{\"metadata\":{\"name\":\"d\"},\"spec\":{\"schedule\":\"@daily\",\"timeZone\":"
         "\"../Mars\",\"jobTemplate\":{\"spec\":{\"template\":{\"spec\":{\"restartPolicy\":"
         "\"Never\",\"containers\":[{\"name\":\"c\",\"image\":\"i\"}]}}}}}}",
         "spec.timeZone"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct harness h;

        test_case(rows[i].why);
        harness_open(&h, NULL);
        EXPECT(harness_create(&h, rows[i].kind, "default", rows[i].body) < 0);
        EXPECT(h.status == 422 && strstr(h.causes, rows[i].cause));
        harness_close(&h);
    }
}

TEST(a_statefulset_keeps_what_its_names_follow_from)
{
    struct harness h;

    harness_open(&h, NULL);
    EXPECT(harness_create(&h, &kind_statefulset, "default",
                          "{\"metadata\":{\"name\":\"d\"},\"spec\":{\"serviceName\":\"s\","
                          "\"selector\":{\"matchLabels\":{\"a\":\"b\"}},\"volumeClaimTemplates\":[{"
                          "\"metadata\":{\"name\":\"v\"},\"spec\":{\"accessModes\":["
                          "\"ReadWriteOnce\"]}}],\"template\":{\"metadata\":{\"labels\":{\"a\":"
                          "\"b\"}},\"spec\":{\"containers\":[{\"name\":\"c\",\"image\":\"i\","
                          "\"volumeMounts\":[{\"name\":\"v\",\"mountPath\":\"/v\"}]}]}}}}") == 0);
    EXPECT(harness_patch(&h, &kind_statefulset, "default", "d", "{\"spec\":{\"replicas\":3}}") ==
           0);
    EXPECT(harness_patch(&h, &kind_statefulset, "default", "d",
                         "{\"spec\":{\"serviceName\":\"t\"}}") < 0);
    EXPECT(h.status == 422 && strstr(h.causes, "updates to statefulset spec"));
    harness_close(&h);
}

TEST(kinds_that_nothing_acts_on_are_stored_with_a_warning)
{
    static const struct {
        const struct kind *kind;
        const char *body;
    } rows[] = {
        {&kind_networkpolicy, "{\"metadata\":{\"name\":\"d\"},\"spec\":{\"podSelector\":{}}}"},
        {&kind_ingress, "{\"metadata\":{\"name\":\"d\"},\"spec\":{\"defaultBackend\":{\"service\":{"
                        "\"name\":\"s\",\"port\":{\"number\":80}}}}}"},
        {&kind_ingressclass, "{\"metadata\":{\"name\":\"d\"},\"spec\":{\"controller\":\"a.b/c\"}}"},
        {&kind_flowschema, "{\"metadata\":{\"name\":\"d\"},\"spec\":{"
                           "\"priorityLevelConfiguration\":{\"name\":\"p\"}}}"},
        {&kind_prioritylevel, "{\"metadata\":{\"name\":\"d\"},\"spec\":{\"type\":\"Limited\","
                              "\"limited\":{\"limitResponse\":{\"type\":\"Reject\"}}}}"},
        {&kind_csidriver, "{\"metadata\":{\"name\":\"d\"},\"spec\":{}}"},
        {&kind_csinode, "{\"metadata\":{\"name\":\"d\"},\"spec\":{\"drivers\":[]}}"},
        {&kind_volumeattachment,
         "{\"metadata\":{\"name\":\"d\"},\"spec\":{\"attacher\":\"a\","
         "\"nodeName\":\"n\",\"source\":{\"persistentVolumeName\":\"v\"}}}"},
        {&kind_csistoragecapacity,
         "{\"metadata\":{\"name\":\"d\"},\"storageClassName\":\"c\",\"capacity\":\"1Gi\","
         "\"nodeTopology\":{\"matchLabels\":{\"a\":\"b\"}}}"},
        {&kind_workload,
         "{\"metadata\":{\"name\":\"d\"},\"spec\":{\"podGroupTemplates\":[{\"name\":\"a\","
         "\"schedulingPolicy\":{\"basic\":{}}}]}}"},
        {&kind_servicecidr,
         "{\"metadata\":{\"name\":\"d\"},\"spec\":{\"cidrs\":[\"10.0.0.0/8\"]}}"},
        {&kind_ipaddress, "{\"metadata\":{\"name\":\"10.0.0.1\"},\"spec\":{\"parentRef\":{"
                          "\"resource\":\"services\",\"name\":\"s\"}}}"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct harness h;

        test_case(rows[i].kind->name);
        harness_open(&h, NULL);
        EXPECT(harness_create(&h, rows[i].kind, rows[i].kind->namespaced ? "default" : "",
                              rows[i].body) == 0);
        EXPECT(strstr(h.warnings, "is stored and has no effect"));
        harness_close(&h);
    }
}

TEST(what_a_storage_capacity_is_about_stays)
{
    struct harness h;

    harness_open(&h, NULL);
    EXPECT(harness_create(&h, &kind_csistoragecapacity, "default",
                          "{\"metadata\":{\"name\":\"d\"}}") < 0);
    EXPECT(strstr(h.causes, "storageClassName") || strstr(h.text, "storageClassName"));
    EXPECT(harness_create(&h, &kind_csistoragecapacity, "default",
                          "{\"metadata\":{\"name\":\"d\"},\"storageClassName\":\"c\"}") == 0);
    EXPECT(harness_patch(&h, &kind_csistoragecapacity, "default", "d",
                         "{\"capacity\":\"2Gi\",\"maximumVolumeSize\":\"1Gi\"}") == 0);
    EXPECT(strcmp(harness_text(&h, "capacity"), "2Gi") == 0);
    EXPECT(harness_patch(&h, &kind_csistoragecapacity, "default", "d",
                         "{\"storageClassName\":\"e\"}") < 0);
    EXPECT(h.status == 422 && strstr(h.causes, "field is immutable"));
    EXPECT(harness_patch(&h, &kind_csistoragecapacity, "default", "d",
                         "{\"nodeTopology\":{\"matchLabels\":{\"a\":\"b\"}}}") < 0);
    EXPECT(harness_patch(&h, &kind_csistoragecapacity, "default", "d", "{\"capacity\":\"-1\"}") <
           0);
    EXPECT(h.status == 422 && strstr(h.causes, "capacity"));
    harness_close(&h);
}

TEST(who_writes_the_status_of_a_built_in_kind_may_annotate)
{
    struct harness h;

    harness_open(&h, NULL);
    struct api_request patch = {.verb = API_PATCH,
                                .kind = &kind_namespace,
                                .name = STR("default"),
                                .subresource = STR("status"),
                                .body = STR("{\"metadata\":{\"annotations\":{\"a\":\"b\"}},"
                                            "\"spec\":{\"finalizers\":[]},\"status\":{"
                                            "\"conditions\":[]}}")};
    EXPECT(harness_call(&h, &patch) == 0);
    EXPECT(strcmp(harness_text(&h, "metadata.annotations.a"), "b") == 0);
    EXPECT(strcmp(harness_text(&h, "spec.finalizers.0"), "kubernetes") == 0);
    harness_close(&h);
}

TEST(events_are_found_by_who_told_them)
{
    struct harness h;
    struct api_request list = {.verb = API_LIST,
                               .kind = &kind_event,
                               .ns = STR("default"),
                               .field_selector = STR("source=me")};

    harness_open(&h, NULL);
    EXPECT(harness_create(&h, &kind_event, "default",
                          "{\"metadata\":{\"name\":\"old\"},\"involvedObject\":{},\"source\":{"
                          "\"component\":\"me\"}}") == 0);
    EXPECT(harness_create(&h, &kind_event, "default",
                          "{\"metadata\":{\"name\":\"new\"},\"involvedObject\":{},"
                          "\"reportingComponent\":\"me\"}") == 0);
    EXPECT(harness_create(&h, &kind_event, "default",
                          "{\"metadata\":{\"name\":\"other\"},\"involvedObject\":{},\"source\":{"
                          "\"component\":\"you\"},\"reportingComponent\":\"me\"}") == 0);
    EXPECT(harness_call(&h, &list) == 0);
    EXPECT(strcmp(h.names, "new old") == 0);
    harness_close(&h);
}

/* Somebody with rights on a part could make what the checks of whole objects refuse, or read an
 * object by a part that it does not have. */
TEST(a_part_of_an_object_is_no_way_to_the_whole)
{
    static const struct {
        const char *why;
        enum api_verb verb;
        enum api_patch patch;
        const char *sub;
        int status;
    } rows[] = {
        {"a status makes no object", API_CREATE, API_PATCH_MERGE, "status", 405},
        {"nor does an apply of one", API_PATCH, API_PATCH_APPLY, "status", 404},
        {"nor a patch", API_PATCH, API_PATCH_MERGE, "status", 404},
        {"a status is not deleted", API_DELETE, API_PATCH_MERGE, "status", 405},
        {"what it does not have is not read", API_GET, API_PATCH_MERGE, "spec", 404},
    };
    struct harness h;

    harness_open(&h, NULL);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        test_case(rows[i].why);
        EXPECT(harness_call(&h,
                            &(struct api_request){
                                .verb = rows[i].verb,
                                .kind = &kind_pod,
                                .ns = STR("default"),
                                .name = STR("p"),
                                .subresource = str_from(rows[i].sub),
                                .patch = rows[i].patch,
                                .field_manager = STR("m"),
                                .body = STR("{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{"
                                            "\"name\":\"p\",\"namespace\":\"default\"},\"spec\":{"
                                            "\"containers\":[{\"name\":\"../../x\"}]}}")}) < 0);
        EXPECT(h.status == rows[i].status);
        EXPECT(harness_get(&h, &kind_pod, "default", "p") < 0);
    }
    EXPECT(harness_create(&h, &kind_secret, "default", "{\"metadata\":{\"name\":\"d\"}}") == 0);
    EXPECT(call(&h, API_GET, &kind_secret, "status", "") < 0 && h.status == 404);
    harness_close(&h);
}

TEST(a_queue_is_not_deleted_before_those_below_it)
{
    struct harness h;

    harness_open(&h, NULL);
    EXPECT(harness_create(&h, &kind_queue, "", "{\"metadata\":{\"name\":\"org\"},\"spec\":{}}") ==
           0);
    EXPECT(harness_create(
               &h, &kind_queue, "",
               "{\"metadata\":{\"name\":\"team\"},\"spec\":{\"parentQueue\":\"org\"}}") == 0);
    EXPECT(harness_delete(&h, &kind_queue, "", "org", "") < 0 && h.status == 403);
    EXPECT(strstr(h.text, "team"));
    EXPECT(harness_delete(&h, &kind_queue, "", "team", "") == 0);
    EXPECT(harness_delete(&h, &kind_queue, "", "org", "") == 0);
    harness_close(&h);
}

TEST(what_is_immutable_stays_so)
{
    struct harness h;

    harness_open(&h, NULL);
    EXPECT(harness_create(&h, &kind_configmap, "default",
                          "{\"metadata\":{\"name\":\"d\"},\"immutable\":true,"
                          "\"data\":{\"a\":\"b\"}}") == 0);
    EXPECT(harness_patch(&h, &kind_configmap, "default", "d", "{\"data\":{\"a\":\"c\"}}") < 0);
    EXPECT(harness_patch(&h, &kind_configmap, "default", "d", "{\"immutable\":false}") < 0);
    EXPECT(h.status == 422 && strstr(h.causes, "immutable: Forbidden"));
    EXPECT(harness_patch(&h, &kind_configmap, "default", "d",
                         "{\"metadata\":{\"labels\":{\"a\":\"b\"}}}") == 0);
    harness_close(&h);
}

#define RUNTIME_POD(extra)                                                                         \
    "{\"metadata\":{\"name\":\"p\"},\"spec\":{" extra "\"containers\":[{\"name\":\"c\",\"image\":" \
    "\"i\"}]}}"

TEST(a_pod_gets_what_its_runtime_class_costs)
{
    struct harness h;

    harness_open(&h, NULL);
    EXPECT(harness_create(&h, &kind_pod, "default", RUNTIME_POD("\"runtimeClassName\":\"gone\",")) <
           0);
    EXPECT(h.status == 403);
    EXPECT(harness_create(&h, &kind_runtimeclass, "",
                          "{\"metadata\":{\"name\":\"vm\"},\"handler\":\"vm\",\"overhead\":{"
                          "\"podFixed\":{\"cpu\":\"10m\"}},\"scheduling\":{\"nodeSelector\":{"
                          "\"vm\":\"yes\"}}}") == 0);
    EXPECT(harness_create(&h, &kind_pod, "default",
                          RUNTIME_POD("\"runtimeClassName\":\"vm\",\"nodeSelector\":{\"vm\":"
                                      "\"no\"},")) < 0);
    EXPECT(h.status == 403);
    EXPECT(harness_create(&h, &kind_pod, "default", RUNTIME_POD("\"runtimeClassName\":\"vm\",")) ==
           0);
    EXPECT(strcmp(harness_text(&h, "spec.overhead.cpu"), "10m") == 0);
    EXPECT(strcmp(harness_text(&h, "spec.nodeSelector.vm"), "yes") == 0);
    harness_close(&h);
}

TEST(a_taint_that_drives_pods_away_says_since_when)
{
    struct harness h;

    harness_open(&h, NULL);
    EXPECT(harness_create(
               &h, &kind_node, "",
               "{\"metadata\":{\"name\":\"n\"},\"spec\":{\"taints\":[{\"key\":\"a\","
               "\"effect\":\"NoSchedule\"},{\"key\":\"b\",\"effect\":\"NoExecute\"}]}}") == 0);
    EXPECT(strcmp(harness_text(&h, "spec.taints.0.timeAdded"), "") == 0);
    EXPECT(strstr(harness_text(&h, "spec.taints.1.timeAdded"), "Z") != NULL);
    /* Who writes the list again without it has not begun anew. */
    EXPECT(harness_patch(&h, &kind_node, "", "n",
                         "{\"spec\":{\"taints\":[{\"key\":\"b\",\"effect\":\"NoExecute\","
                         "\"timeAdded\":\"2020-01-01T00:00:00Z\"}]}}") == 0);
    EXPECT(harness_patch(&h, &kind_node, "", "n",
                         "{\"spec\":{\"taints\":[{\"key\":\"b\",\"effect\":\"NoExecute\"}]}}") ==
           0);
    EXPECT(strcmp(harness_text(&h, "spec.taints.0.timeAdded"), "2020-01-01T00:00:00Z") == 0);
    harness_close(&h);
}

TEST(a_pod_has_its_class_of_service_from_the_beginning)
{
    static const struct {
        const char *resources;
        const char *class;
    } rows[] = {
        {"", "BestEffort"},
        {",\"resources\":{\"requests\":{\"cpu\":\"1\"}}", "Burstable"},
        {",\"resources\":{\"limits\":{\"cpu\":\"1\",\"memory\":\"1Gi\"}}", "Guaranteed"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct harness h;
        char body[256];

        harness_open(&h, NULL);
        (void)snprintf(body, sizeof(body),
                       "{\"metadata\":{\"name\":\"p\"},\"spec\":{\"containers\":[{\"name\":\"c\","
                       "\"image\":\"i\"%s}]}}",
                       rows[i].resources);
        EXPECT(harness_create(&h, &kind_pod, "default", body) == 0);
        EXPECT(strcmp(harness_text(&h, "status.qosClass"), rows[i].class) == 0);
        harness_close(&h);
    }
}

/* FieldsV1 would have more members than can be read again. */
TEST(an_update_whose_owners_cannot_be_told_changes_nothing)
{
    _cleanup_(buf_done) struct buf body = {0};
    struct harness h;
    struct api_request request = {
        .verb = API_CREATE,
        .kind = &kind_configmap,
        .ns = STR("default"),
        .field_manager = STR("m"),
        .body = STR("{\"metadata\":{\"name\":\"a\"},\"data\":{\"x\":\"y\"}}")};

    harness_open(&h, NULL);
    EXPECT(harness_call(&h, &request) == 0);
    buf_addf(&body, "{\"metadata\":{\"name\":\"a\",\"finalizers\":[");
    for (int i = 0; i <= JSON_MEMBERS_MAX; i++)
        buf_addf(&body, "%s\"x.io/%d\"", i ? "," : "", i);
    buf_addf(&body, "]},\"data\":{\"x\":\"z\"}}");
    request.verb = API_UPDATE;
    request.name = STR("a");
    request.body = buf_str(&body);
    EXPECT(harness_call(&h, &request) < 0 && h.status == 413);
    EXPECT(harness_get(&h, &kind_configmap, "default", "a") == 0);
    EXPECT(strcmp(harness_text(&h, "data.x"), "y") == 0);
    harness_close(&h);
}

/* Nobody here acts upon it: whoever writes it hears so. */
TEST(what_another_scheduler_or_queueing_system_would_act_upon_is_told)
{
#define WORKERS(more)                                                       \
    "\"template\":{\"metadata\":{\"labels\":{\"a\":\"b\"}},\"spec\":{" more \
    "\"restartPolicy\":\"Always\",\"containers\":[{\"name\":\"c\",\"image\":\"i\"}]}}"
#define ROLLOUT(meta, more)                                                                  \
    "{\"metadata\":{\"name\":\"d\"" meta "},\"spec\":{\"selector\":{\"matchLabels\":{\"a\":" \
    "\"b\"}}," WORKERS(more) "}}"
    static const struct {
        const char *body;
        const char *told; /* NULL: nothing */
    } rows[] = {
        {ROLLOUT("", ""), NULL},
        {ROLLOUT("", "\"schedulerName\":\"kai-scheduler\","), NULL},
        {ROLLOUT("", "\"schedulerName\":\"volcano\","), "spec.template.spec.schedulerName: "},
        {ROLLOUT(",\"labels\":{\"kueue.x-k8s.io/queue-name\":\"q\"}", ""),
         "metadata.labels[kueue.x-k8s.io/queue-name]: has no effect, as there is no Kueue here"},
        {ROLLOUT(",\"annotations\":{\"scheduling.volcano.sh/queue-name\":\"q\"}", ""),
         "has no effect, as there is no Volcano here; the label kai.scheduler/queue names the "
         "queue"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct harness h;

        test_case(rows[i].body);
        harness_open(&h, NULL);
        EXPECT(harness_create(&h, &kind_deployment, "default", rows[i].body) == 0);
        EXPECT(rows[i].told ? strstr(h.warnings, rows[i].told) != NULL : !h.warnings[0]);
        harness_close(&h);
    }
}
