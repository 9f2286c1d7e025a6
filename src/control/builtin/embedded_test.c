#include "control/builtin/embedded_test.h"

#include "api/kind.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/json.h"
#include "base/str.h"
#include "control/core/action.h"
#include "control/core/controllers.h"
#include "test.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

TEST(every_namespace_gets_a_default_account)
{
    _cleanup_(stage_close) struct stage stage;

    stage_open(&stage);
    put(&stage, &kind_namespace, "{\"metadata\":{\"name\":\"a\"}}");
    put(&stage, &kind_namespace,
        "{\"metadata\":{\"name\":\"b\",\"deletionTimestamp\":\"2026-01-01T00:00:00Z\"}}");
    put(&stage, &kind_namespace, "{\"metadata\":{\"name\":\"c\"}}");
    put(&stage, &kind_serviceaccount, "{\"metadata\":{\"name\":\"default\",\"namespace\":\"c\"}}");
    EXPECT(str_starts(react(&stage, &serviceaccounts_controller, "", "a"),
                      STR("create serviceaccount/default")));
    EXPECT(react(&stage, &serviceaccounts_controller, "", "b").len == 0);
    EXPECT(react(&stage, &serviceaccounts_controller, "", "c").len == 0);
    EXPECT(react(&stage, &serviceaccounts_controller, "", "gone").len == 0);
}

TEST(every_namespace_has_the_certificate_of_the_api_server)
{
    static const struct {
        const char *why;
        const char *map; /* members of the ConfigMap; NULL: there is none */
        const char *action;
    } rows[] = {
        {"none is made", NULL, "create configmap/kube-root-ca.crt {"},
        {"a right one stays", "\"data\":{\"ca.crt\":\"PEM\"}", ""},
        {"an edit is undone", "\"data\":{\"ca.crt\":\"other\"}",
         "patch configmap/kube-root-ca.crt {\"data\":{\"ca.crt\":\"PEM\"}}"},
        {"so is an addition", "\"data\":{\"x\":\"y\",\"ca.crt\":\"PEM\"}",
         "patch configmap/kube-root-ca.crt {\"data\":{\"x\":null,\"ca.crt\":\"PEM\"}}"},
        {"and a removal", "\"immutable\":false",
         "patch configmap/kube-root-ca.crt {\"data\":{\"ca.crt\":\"PEM\"}}"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(stage_close) struct stage stage;

        test_case(rows[i].why);
        stage_open(&stage);
        put(&stage, &kind_namespace, "{\"metadata\":{\"name\":\"a\"}}");
        put(&stage, &kind_namespace,
            "{\"metadata\":{\"name\":\"b\",\"deletionTimestamp\":\"2026-01-01T00:00:00Z\"}}");
        if (rows[i].map)
            put(&stage, &kind_configmap,
                str_printf(&stage.arena,
                           "{\"metadata\":{\"name\":\"kube-root-ca.crt\",\"namespace\":\"a\"},%s}",
                           rows[i].map)
                    .p);
        struct str text = react(&stage, &root_ca_controller, "", "a");
        EXPECT(str_starts(text, str_from(rows[i].action)) && (text.len > 0) == !!*rows[i].action);
        EXPECT(react(&stage, &root_ca_controller, "", "b").len == 0);
        EXPECT(react(&stage, &root_ca_controller, "", "gone").len == 0);
    }
}

TEST(the_api_server_is_a_service_of_the_default_namespace)
{
    _cleanup_(stage_close) struct stage stage;

    stage_open(&stage);
    EXPECT(react(&stage, &apiserver_controller, "", "").len == 0);
    put(&stage, &kind_namespace, "{\"metadata\":{\"name\":\"default\"}}");
    struct str text = react(&stage, &apiserver_controller, "", "");
    EXPECT(str_contains(text, STR("create service/kubernetes {")));
    EXPECT(str_contains(text, STR("create endpoints/kubernetes {")));
    EXPECT(str_contains(text, STR("create endpointslice/kubernetes {")));
    EXPECT(str_contains(text, STR("\"ip\":\"127.0.0.1\"")));
    EXPECT(str_contains(text, STR("\"port\":6443")));
    EXPECT(str_contains(text, STR("create servicecidr/kubernetes {")));
    EXPECT(str_contains(text, STR("\"cidrs\":[\"10.1.128.0/17\"]")));
    put(&stage, &kind_servicecidr,
        "{\"metadata\":{\"name\":\"kubernetes\"},\"spec\":{\"cidrs\":[\"10.1.128.0/17\"]}}");
    put(&stage, &kind_service,
        "{\"metadata\":{\"name\":\"kubernetes\",\"namespace\":\"default\"}}");
    put(&stage, &kind_endpointslice,
        "{\"metadata\":{\"name\":\"kubernetes\",\"namespace\":\"default\"},\"endpoints\":[{"
        "\"addresses\":[\"127.0.0.1\"],\"conditions\":{\"ready\":true}}],\"ports\":[{\"name\":"
        "\"https\",\"port\":6443,\"protocol\":\"TCP\"}]}");
    put(&stage, &kind_endpoints,
        "{\"metadata\":{\"name\":\"kubernetes\",\"namespace\":\"default\"},\"subsets\":[]}");
    text = react(&stage, &apiserver_controller, "", "");
    EXPECT(str_starts(text, STR("patch endpoints/kubernetes {\"subsets\":[{")));
    put(&stage, &kind_servicecidr,
        "{\"metadata\":{\"name\":\"kubernetes\"},\"spec\":{\"cidrs\":[\"10.9.128.0/17\"]}}");
    text = react(&stage, &apiserver_controller, "", "");
    EXPECT(str_starts(text, STR("delete servicecidr/kubernetes")));
}

#define CLAIM(extra, phase)                                                                      \
    "{\"metadata\":{\"name\":\"d\",\"namespace\":\"n\",\"uid\":\"u1\",\"finalizers\":["          \
    "\"kubernetes.io/pvc-protection\"]" extra "},\"spec\":{\"accessModes\":[\"ReadWriteOnce\"]," \
    "\"storageClassName\":\"standard\",\"resources\":{\"requests\":{\"storage\":\"2Gi\"}}},"     \
    "\"status\":{\"phase\":\"" phase "\"}}"
#define CLASS(provisioner) \
    "{\"metadata\":{\"name\":\"standard\"},\"provisioner\":\"" provisioner "\"}"
#define VOLUME(name, size, extra)                                                            \
    "{\"metadata\":{\"name\":\"" name "\",\"uid\":\"" name "\"},\"spec\":{\"accessModes\":[" \
    "\"ReadWriteOnce\"],\"storageClassName\":\"standard\",\"capacity\":{\"storage\":\"" size \
    "\"}" extra "}}"

TEST(a_claim_gets_a_volume_of_its_own_or_the_smallest_that_fits)
{
    _cleanup_(stage_close) struct stage stage;

    stage_open(&stage);
    EXPECT(
        str_starts(react(&stage, &claims_controller, "", ""), STR("create storageclass/standard")));
    put(&stage, &kind_pvc, CLAIM("", "Pending"));
    EXPECT(react(&stage, &claims_controller, "n", "d").len == 0);
    put(&stage, &kind_storageclass, CLASS("somebody.else/disk"));
    EXPECT(react(&stage, &claims_controller, "n", "d").len == 0);
    put(&stage, &kind_storageclass, CLASS("muster.local/folder"));
    struct str made = react(&stage, &claims_controller, "n", "d");
    EXPECT(str_starts(made, STR("create persistentvolume/pvc-u1")));
    EXPECT(str_contains(made, STR("\"uid\":\"u1\"")) && str_contains(made, STR("\"2Gi\"")));

    put(&stage, &kind_pv, VOLUME("small", "1Gi", ""));
    put(&stage, &kind_pv, VOLUME("huge", "9Gi", ""));
    put(&stage, &kind_pv, VOLUME("right", "3Gi", ""));
    put(&stage, &kind_pv,
        VOLUME("taken", "2Gi", ",\"claimRef\":{\"namespace\":\"n\",\"name\":\"x\"}"));
    struct str bound = react(&stage, &claims_controller, "n", "d");
    EXPECT(str_starts(bound, STR("patch persistentvolume/right")));
    EXPECT(str_contains(bound,
                        STR("status persistentvolumeclaim/d {\"status\":{\"phase\":\"Bound\"")));
    EXPECT(str_contains(bound, STR("\"volumeName\":\"right\"")));
    put(&stage, &kind_pvc, CLAIM("", "Bound"));
    EXPECT(react(&stage, &claims_controller, "n", "d").len == 0);
    EXPECT(str_is(react(&stage, &claims_controller, "", "huge"),
                  "status persistentvolume/huge {\"status\":{\"phase\":\"Available\"}}\n"));
    EXPECT(str_is(react(&stage, &claims_controller, "", "taken"),
                  "status persistentvolume/taken {\"status\":{\"phase\":\"Available\"}}\n"));
    put(&stage, &kind_pv,
        VOLUME("mine", "2Gi", ",\"claimRef\":{\"namespace\":\"n\",\"name\":\"d\",\"uid\":\"u1\"}"));
    EXPECT(react(&stage, &claims_controller, "", "mine").len == 0); /* the claim says when */
}

TEST(a_claim_that_is_deleted_waits_for_its_pods_and_takes_its_volume)
{
    _cleanup_(stage_close) struct stage stage;

    stage_open(&stage);
    put(&stage, &kind_pvc, CLAIM(",\"deletionTimestamp\":\"2026-01-01T00:00:00Z\"", "Bound"));
    put(&stage, &kind_pod,
        "{\"metadata\":{\"name\":\"p\",\"namespace\":\"n\",\"resourceVersion\":\"1\"},\"spec\":{"
        "\"volumes\":[{\"persistentVolumeClaim\":{\"claimName\":\"d\"}}]}}");
    EXPECT(react(&stage, &claims_controller, "n", "d").len == 0);
    put(&stage, &kind_pod,
        "{\"metadata\":{\"name\":\"p\",\"namespace\":\"n\",\"resourceVersion\":\"2\"},\"spec\":{"
        "\"volumes\":[{\"persistentVolumeClaim\":{\"claimName\":\"d\"}}]},\"status\":{\"phase\":"
        "\"Succeeded\"}}");
    EXPECT(str_is(react(&stage, &claims_controller, "n", "d"),
                  "patch persistentvolumeclaim/d {\"metadata\":{\"finalizers\":[]}}\n"));

    put(&stage, &kind_pv,
        VOLUME("mine", "2Gi",
               ",\"persistentVolumeReclaimPolicy\":\"Delete\",\"claimRef\":{\"namespace\":\"n\","
               "\"name\":\"e\",\"uid\":\"u2\"}"));
    EXPECT(str_is(react(&stage, &claims_controller, "n", "e"), "delete persistentvolume/mine\n"));
}

/* As generic ephemeral volumes want it: the claim is the pod's, and goes with it. */
TEST(a_pod_gets_the_claims_of_its_ephemeral_volumes)
{
    static const char pod[] =
        "{\"metadata\":{\"name\":\"p\",\"namespace\":\"n\",\"uid\":\"u7\",\"resourceVersion\":\"%"
        "d\"},"
        "\"spec\":{\"volumes\":[{\"name\":\"scratch\",\"ephemeral\":{\"volumeClaimTemplate\":{"
        "\"metadata\":{\"labels\":{\"a\":\"b\"}},\"spec\":{\"accessModes\":[\"ReadWriteOnce\"]}}}}]"
        "},"
        "\"status\":{\"phase\":\"%s\"}}";
    _cleanup_(stage_close) struct stage stage;
    char text[512];

    stage_open(&stage);
    (void)snprintf(text, sizeof(text), pod, 1, "Pending");
    put(&stage, &kind_pod, text);
    struct str made = react(&stage, &claims_controller, "n", "p-scratch");
    EXPECT(str_starts(made, STR("create persistentvolumeclaim/p-scratch")));
    EXPECT(str_contains(made, STR("\"uid\":\"u7\"")) && str_contains(made, STR("ReadWriteOnce")));
    EXPECT(str_contains(made, STR("\"a\":\"b\"")));
    EXPECT(react(&stage, &claims_controller, "n", "p-other").len == 0);

    /* While the pod uses it, it stays. */
    put(&stage, &kind_pvc,
        "{\"metadata\":{\"name\":\"p-scratch\",\"namespace\":\"n\",\"uid\":\"u1\",\"finalizers\":["
        "\"kubernetes.io/"
        "pvc-protection\"],\"deletionTimestamp\":\"2026-01-01T00:00:00Z\"},\"spec\":{}}");
    EXPECT(react(&stage, &claims_controller, "n", "p-scratch").len == 0);
    (void)snprintf(text, sizeof(text), pod, 2, "Succeeded");
    put(&stage, &kind_pod, text);
    EXPECT(str_is(react(&stage, &claims_controller, "n", "p-scratch"),
                  "patch persistentvolumeclaim/p-scratch {\"metadata\":{\"finalizers\":[]}}\n"));
}

#define READY "\"conditions\":[{\"type\":\"Ready\",\"status\":\"True\"}]"

/* As Kubernetes has it: slices say what ends, Endpoints do not; a name counts in its own Service. */
TEST(endpoints_leave_out_what_ends_and_names_of_other_services)
{
    _cleanup_(stage_close) struct stage stage;

    stage_open(&stage);
    put(&stage, &kind_service,
        "{\"metadata\":{\"name\":\"s\",\"namespace\":\"n\",\"uid\":\"u\"},\"spec\":{\"selector\":{"
        "\"a\":\"b\"},\"ports\":[{\"port\":80}]}}");
    put(&stage, &kind_pod,
        "{\"metadata\":{\"name\":\"ends\",\"namespace\":\"n\",\"labels\":{\"a\":\"b\"},"
        "\"deletionTimestamp\":\"2026-01-01T00:00:00Z\"},\"spec\":{},\"status\":{\"podIP\":"
        "\"10.0.0.1\"," READY "}}");
    put(&stage, &kind_pod,
        "{\"metadata\":{\"name\":\"mine\",\"namespace\":\"n\",\"labels\":{\"a\":\"b\"}},\"spec\":{"
        "\"hostname\":\"called\",\"subdomain\":\"s\"},\"status\":{\"podIP\":\"10.0.0.2\"," READY
        "}}");
    put(&stage, &kind_pod,
        "{\"metadata\":{\"name\":\"far\",\"namespace\":\"n\",\"labels\":{\"a\":\"b\"}},\"spec\":{"
        "\"hostname\":\"strange\",\"subdomain\":\"t\"},\"status\":{\"podIP\":\"10.0.0.3\"," READY
        "}}");
    struct str made = react(&stage, &endpoints_controller, "n", "s");
    size_t line = str_find(made, '\n'); /* of the Endpoints */
    EXPECT(str_starts(made, STR("create endpoints/")) && line < made.len);
    EXPECT(!str_contains(str_sub(made, 0, line), STR("10.0.0.1")));
    EXPECT(str_contains(str_sub(made, line, made.len), STR("10.0.0.1")));
    EXPECT(str_contains(made, STR("\"hostname\":\"called\"")));
    EXPECT(!str_contains(made, STR("strange")));
}

TEST(a_service_has_the_addresses_of_its_pods)
{
    _cleanup_(stage_close) struct stage stage;

    stage_open(&stage);
    put(&stage, &kind_service,
        "{\"metadata\":{\"name\":\"s\",\"namespace\":\"n\",\"uid\":\"u\"},\"spec\":{\"selector\":{"
        "\"a\":\"b\"},\"ports\":[{\"port\":80,\"targetPort\":\"web\"}]}}");
    put(&stage, &kind_pod,
        "{\"metadata\":{\"name\":\"up\",\"namespace\":\"n\",\"labels\":{\"a\":\"b\"}},\"spec\":{"
        "\"containers\":[{\"ports\":[{\"name\":\"web\",\"containerPort\":8080}]}]},\"status\":{"
        "\"podIP\":\"10.0.0.1\"," READY "}}");
    put(&stage, &kind_pod,
        "{\"metadata\":{\"name\":\"down\",\"namespace\":\"n\",\"labels\":{\"a\":\"b\"}},\"spec\":{"
        "\"containers\":[{\"ports\":[{\"name\":\"web\",\"containerPort\":8080}]}]},\"status\":"
        "{\"podIP\":\"10.0.0.2\"}}");
    put(&stage, &kind_pod,
        "{\"metadata\":{\"name\":\"over\",\"namespace\":\"n\",\"labels\":{\"a\":\"b\"}},\"status\":"
        "{\"podIP\":\"10.0.0.3\",\"phase\":\"Succeeded\"}}");
    put(&stage, &kind_pod,
        "{\"metadata\":{\"name\":\"other\",\"namespace\":\"n\"},\"status\":{\"podIP\":\"10.0.0."
        "4\"," READY "}}");
    struct str made = react(&stage, &endpoints_controller, "n", "s");
    EXPECT(str_starts(made, STR("create endpoints/s ")));
    EXPECT(str_contains(made, STR("create endpointslice/s-v4 ")));
    EXPECT(str_contains(made, STR("\"addresses\":[{\"ip\":\"10.0.0.1\"")));
    EXPECT(str_contains(made, STR("\"notReadyAddresses\":[{\"ip\":\"10.0.0.2\"")));
    EXPECT(str_contains(made, STR("\"port\":8080")));
    EXPECT(!str_contains(made, STR("10.0.0.3")) && !str_contains(made, STR("10.0.0.4")));
    /* What it made is what it wants: nothing more to do. */
    for (size_t i = 0; i < 2; i++) {
        const struct action action = stage.actions.list.items[i];

        put(&stage, action.kind, json_text(&stage.arena, action.body).p);
    }
    EXPECT(react(&stage, &endpoints_controller, "n", "s").len == 0);
}

#define PORT_POD(name, ip, number)                                                               \
    "{\"metadata\":{\"name\":\"" name                                                            \
    "\",\"namespace\":\"n\",\"labels\":{\"a\":\"b\"}},\"spec\":{\"containers\":[{\"ports\":[{"   \
    "\"name\":\"web\",\"containerPort\":" number "}]}]},\"status\":{\"podIP\":\"" ip "\"," READY \
    "}}"

TEST(a_named_port_may_be_another_number_in_each_pod)
{
    _cleanup_(stage_close) struct stage stage;

    stage_open(&stage);
    put(&stage, &kind_service,
        "{\"metadata\":{\"name\":\"s\",\"namespace\":\"n\",\"uid\":\"u\"},\"spec\":{\"selector\":{"
        "\"a\":\"b\"},\"ports\":[{\"port\":80,\"targetPort\":\"web\"}]}}");
    put(&stage, &kind_pod, PORT_POD("one", "10.0.0.1", "3000"));
    put(&stage, &kind_pod, PORT_POD("two", "10.0.0.2", "3001"));
    struct str made = react(&stage, &endpoints_controller, "n", "s");
    EXPECT(str_contains(made, STR("create endpointslice/s-v4 ")));
    EXPECT(str_contains(made, STR("create endpointslice/s-v4-1 ")));
    EXPECT(str_contains(made, STR("\"port\":3000")) && str_contains(made, STR("\"port\":3001")));
    for (size_t i = 0; i < 3; i++) {
        const struct action action = stage.actions.list.items[i];

        put(&stage, action.kind, json_text(&stage.arena, action.body).p);
    }
    EXPECT(react(&stage, &endpoints_controller, "n", "s").len == 0);
    put(&stage, &kind_pod, PORT_POD("two", "10.0.0.2", "3000"));
    made = react(&stage, &endpoints_controller, "n", "s");
    EXPECT(str_contains(made, STR("delete endpointslice/s-v4-1")));
}

TEST(endpoints_that_somebody_wrote_are_shown_in_slices)
{
    _cleanup_(stage_close) struct stage stage;

    stage_open(&stage);
    put(&stage, &kind_service,
        "{\"metadata\":{\"name\":\"s\",\"namespace\":\"n\"},\"spec\":{\"ports\":[{\"port\":80}]}}");
    EXPECT(react(&stage, &endpoints_controller, "n", "s").len == 0);
    put(&stage, &kind_endpoints,
        "{\"metadata\":{\"name\":\"s\",\"namespace\":\"n\",\"uid\":\"e\"},\"subsets\":[{"
        "\"addresses\":[{\"ip\":\"10.1.2.3\"},{\"ip\":\"fd00::1\"}],\"ports\":[{\"port\":80}]}]}");
    struct str made = react(&stage, &endpoints_controller, "n", "s");
    EXPECT(str_contains(made, STR("create endpointslice/s-mirror-0 ")));
    EXPECT(str_contains(made, STR("create endpointslice/s-mirror-0-v6 ")));
    EXPECT(str_contains(made, STR("\"kubernetes.io/service-name\":\"s\"")));
    for (size_t i = 0; i < 2; i++) {
        const struct action action = stage.actions.list.items[i];

        put(&stage, action.kind, json_text(&stage.arena, action.body).p);
    }
    EXPECT(react(&stage, &endpoints_controller, "n", "s").len == 0);
    put(&stage, &kind_endpoints,
        "{\"metadata\":{\"name\":\"s\",\"namespace\":\"n\",\"uid\":\"e\"},\"subsets\":[{"
        "\"addresses\":[{\"ip\":\"10.2.3.4\"}],\"ports\":[{\"port\":80}]}]}");
    made = react(&stage, &endpoints_controller, "n", "s");
    EXPECT(str_contains(made, STR("patch endpointslice/s-mirror-0 ")));
    EXPECT(str_contains(made, STR("10.2.3.4")));
    EXPECT(str_contains(made, STR("delete endpointslice/s-mirror-0-v6")));
}

TEST(a_budget_says_how_many_pods_may_go)
{
    static const struct {
        const char *spec;
        const char *allowed;
    } rows[] = {
        {"\"minAvailable\":1", "\"disruptionsAllowed\":2"},
        /* Of pods that nobody controls it is not known how many there should be. */
        {"\"minAvailable\":\"50%\"", "\"disruptionsAllowed\":0"},
        {"\"maxUnavailable\":1", "\"disruptionsAllowed\":0"},
        {"\"minAvailable\":9", "\"disruptionsAllowed\":0"},
        /* One was evicted, but does not show it yet; long ago it would count again. */
        {"\"minAvailable\":1},\"status\":{\"disruptedPods\":{\"p0\":\"1970-01-01T00:00:00Z\"}",
         "\"disruptionsAllowed\":1"},
        {"\"minAvailable\":1},\"status\":{\"disruptedPods\":{\"p0\":\"1969-12-31T23:00:00Z\"}",
         "\"disruptionsAllowed\":2"},
        {"\"minAvailable\":1},\"status\":{\"disruptedPods\":{\"gone\":\"1970-01-01T00:00:00Z\"}",
         "\"disruptionsAllowed\":2"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(stage_close) struct stage stage;

        test_case(rows[i].spec);
        stage_open(&stage);
        put(&stage, &kind_pdb,
            str_printf(&stage.arena,
                       "{\"metadata\":{\"name\":\"b\",\"namespace\":\"n\"},\"spec\":{\"selector\":{"
                       "\"matchLabels\":{\"a\":\"b\"}},%s}}",
                       rows[i].spec)
                .p);
        /* Three that are ready, one that is not: four are expected. */
        for (int j = 0; j < 4; j++)
            put(&stage, &kind_pod,
                str_printf(&stage.arena,
                           "{\"metadata\":{\"name\":\"p%d\",\"namespace\":\"n\",\"labels\":{\"a\":"
                           "\"b\"}},\"status\":{%s}}",
                           j, j < 3 ? READY : "")
                    .p);
        struct str text = react(&stage, &disruption_controller, "n", "b");
        EXPECT(str_starts(text, STR("status poddisruptionbudget/b")));
        EXPECT(str_contains(text, str_from(rows[i].allowed)));
    }
}

/* ---- ports and mirrors ---- */

#define BOUND_POD(spec)                                                                           \
    "{\"metadata\":{\"name\":\"p\",\"namespace\":\"n\",\"labels\":{\"a\":\"b\"}},\"spec\":{" spec \
    "},\"status\":{\"podIP\":\"10.0.0.1\"," READY "}}"
#define NAMED_PORT(protocol)                                                                   \
    "\"ports\":[{\"name\":\"admin\",\"containerPort\":1},{\"name\":\"web\",\"containerPort\":" \
    "8080" protocol "}]"

TEST(a_port_of_a_service_is_found_in_its_pods)
{
    static const struct {
        const char *why;
        const char *port; /* of the Service */
        const char *spec; /* of the pod */
        const char *slice;
    } rows[] = {
        {"its own number, where nothing else is said", "\"port\":80", "",
         "[{\"port\":80,\"protocol\":\"TCP\"}]"},
        {"another number", "\"name\":\"x\",\"port\":80,\"targetPort\":8000,\"protocol\":\"UDP\"",
         "", "[{\"name\":\"x\",\"port\":8000,\"protocol\":\"UDP\"}]"},
        {"a name", "\"port\":80,\"targetPort\":\"web\"",
         "\"containers\":[{}, {" NAMED_PORT("") "}]", "[{\"port\":8080,\"protocol\":\"TCP\"}]"},
        {"a name of another protocol is another port",
         "\"port\":80,\"targetPort\":\"web\",\"protocol\":\"UDP\"",
         "\"containers\":[{" NAMED_PORT("") "}]", "[]"},
        {"a name of that protocol", "\"port\":80,\"targetPort\":\"web\",\"protocol\":\"UDP\"",
         "\"containers\":[{" NAMED_PORT(",\"protocol\":\"UDP\"") "}]",
         "[{\"port\":8080,\"protocol\":\"UDP\"}]"},
        {"a name of a sidecar", "\"port\":80,\"targetPort\":\"web\"",
         "\"containers\":[{}],\"initContainers\":[{\"restartPolicy\":\"Always\"," NAMED_PORT(
             "") "}]",
         "[{\"port\":8080,\"protocol\":\"TCP\"}]"},
        {"a container that ends before the others start has none",
         "\"port\":80,\"targetPort\":\"web\"",
         "\"containers\":[{}],\"initContainers\":[{" NAMED_PORT("") "}]", "[]"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(stage_close) struct stage stage;

        test_case(rows[i].why);
        stage_open(&stage);
        put(&stage, &kind_service,
            str_printf(&stage.arena,
                       "{\"metadata\":{\"name\":\"s\",\"namespace\":\"n\",\"uid\":\"u\"},\"spec\":{"
                       "\"selector\":{\"a\":\"b\"},\"ports\":[{%s}]}}",
                       rows[i].port)
                .p);
        put(&stage, &kind_pod, str_printf(&stage.arena, BOUND_POD("%s"), rows[i].spec).p);
        (void)react(&stage, &endpoints_controller, "n", "s");
        EXPECT(stage.actions.list.count == 2);
        EXPECT(str_is(json_text(&stage.arena, json_get(stage.actions.list.items[1].body, "ports")),
                      rows[i].slice));
    }
}

TEST(a_service_that_goes_or_is_gone_gets_no_addresses)
{
    static const char *const rows[] = {
        "{\"metadata\":{\"name\":\"s\",\"namespace\":\"n\",\"deletionTimestamp\":"
        "\"2026-01-01T00:00:00Z\"},\"spec\":{\"selector\":{\"a\":\"b\"}}}",
        "{\"metadata\":{\"name\":\"other\",\"namespace\":\"n\"},\"spec\":{\"selector\":{\"a\":"
        "\"b\"}}}",
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(stage_close) struct stage stage;

        test_case(rows[i]);
        stage_open(&stage);
        put(&stage, &kind_service, rows[i]);
        put(&stage, &kind_pod, BOUND_POD(""));
        EXPECT(react(&stage, &endpoints_controller, "n", "s").len == 0);
    }
}

TEST(pods_that_are_not_ready_are_told_apart)
{
    static const char pods[] =
        "{\"metadata\":{\"name\":\"p%d\",\"namespace\":\"n\",\"labels\":{\"a\":\"b\"}%s},\"spec\":{"
        "\"hostname\":\"h\"},\"status\":{\"podIP\":\"10.0.0.%d\",\"conditions\":[{\"type\":"
        "\"Ready\",\"status\":\"%s\"}]}}";
    _cleanup_(stage_close) struct stage stage;

    stage_open(&stage);
    put(&stage, &kind_service,
        "{\"metadata\":{\"name\":\"s\",\"namespace\":\"n\",\"uid\":\"u\"},\"spec\":{\"selector\":{"
        "\"a\":\"b\"}}}");
    put(&stage, &kind_pod, str_printf(&stage.arena, pods, 1, "", 1, "False").p);
    put(&stage, &kind_pod,
        str_printf(&stage.arena, pods, 2, ",\"deletionTimestamp\":\"2026-01-01T00:00:00Z\"", 2,
                   "True")
            .p);
    struct str text = react(&stage, &endpoints_controller, "n", "s");
    EXPECT(str_contains(text, STR("\"subsets\":[{\"notReadyAddresses\":[{\"ip\":\"10.0.0.1\"")));
    EXPECT(str_contains(text, STR("\"conditions\":{\"ready\":false,\"serving\":false,"
                                  "\"terminating\":false}")));
    EXPECT(str_contains(text, STR("\"conditions\":{\"ready\":false,\"serving\":true,"
                                  "\"terminating\":true}")));
    /* Some want to know all of them. */
    put(&stage, &kind_service,
        "{\"metadata\":{\"name\":\"s\",\"namespace\":\"n\",\"uid\":\"u\",\"resourceVersion\":\"2\"}"
        ",\"spec\":{\"publishNotReadyAddresses\":true,\"selector\":{\"a\":\"b\"}}}");
    text = react(&stage, &endpoints_controller, "n", "s");
    EXPECT(!str_contains(text, STR("notReadyAddresses")));
    EXPECT(!str_contains(text, STR("\"ready\":false")));
}

TEST(a_slice_that_goes_already_is_not_deleted_again)
{
    _cleanup_(stage_close) struct stage stage;

    stage_open(&stage);
    put(&stage, &kind_service,
        "{\"metadata\":{\"name\":\"s\",\"namespace\":\"n\",\"uid\":\"u\"},\"spec\":{\"selector\":{"
        "\"a\":\"b\"}}}");
    put(&stage, &kind_endpointslice,
        "{\"metadata\":{\"name\":\"s-v4-1\",\"namespace\":\"n\",\"deletionTimestamp\":"
        "\"2026-01-01T00:00:00Z\"}}");
    put(&stage, &kind_endpointslice, "{\"metadata\":{\"name\":\"s-v4-2\",\"namespace\":\"n\"}}");
    struct str text = react(&stage, &endpoints_controller, "n", "s");
    EXPECT(!str_contains(text, STR("delete endpointslice/s-v4-1")));
    EXPECT(str_contains(text, STR("delete endpointslice/s-v4-2")));
}

TEST(endpoints_are_mirrored_when_they_are_somebody_s_own)
{
    static const struct {
        const char *why;
        const char *ns;
        const char *name;
        const char *meta;
        const char *subset;
        const char *slice; /* part of it; "": none is made */
    } rows[] = {
        {"with all that is said of an address", "n", "s", "",
         "\"addresses\":[{\"ip\":\"10.1.2.3\",\"hostname\":\"h\",\"nodeName\":\"m\"}]",
         "\"hostname\":\"h\",\"nodeName\":\"m\"}],\"ports\":[]"},
        {"those that are not ready", "n", "s", "",
         "\"notReadyAddresses\":[{\"ip\":\"10.1.2.3\"}],\"ports\":[{\"port\":80}]",
         "\"conditions\":{\"ready\":false}"},
        {"not wanted", "n", "s",
         ",\"labels\":{\"endpointslice.kubernetes.io/skip-mirror\":\"true\"}",
         "\"addresses\":[{\"ip\":\"10.1.2.3\"}]", ""},
        {"made by a controller", "n", "s",
         ",\"ownerReferences\":[{\"kind\":\"Thing\",\"name\":\"t\",\"uid\":\"t\",\"controller\":"
         "true}]",
         "\"addresses\":[{\"ip\":\"10.1.2.3\"}]", ""},
        {"on their way out", "n", "s", ",\"deletionTimestamp\":\"2026-01-01T00:00:00Z\"",
         "\"addresses\":[{\"ip\":\"10.1.2.3\"}]", ""},
        {"the API server's", "default", "kubernetes", "", "\"addresses\":[{\"ip\":\"10.1.2.3\"}]",
         ""},
        {"another Service of that name", "n", "kubernetes", "",
         "\"addresses\":[{\"ip\":\"10.1.2.3\"}]", "10.1.2.3"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(stage_close) struct stage stage;

        test_case(rows[i].why);
        stage_open(&stage);
        put(&stage, &kind_service,
            str_printf(&stage.arena,
                       "{\"metadata\":{\"name\":\"%s\",\"namespace\":\"%s\"},\"spec\":{}}",
                       rows[i].name, rows[i].ns)
                .p);
        put(&stage, &kind_endpoints,
            str_printf(&stage.arena,
                       "{\"metadata\":{\"name\":\"%s\",\"namespace\":\"%s\",\"uid\":\"e\"%s},"
                       "\"subsets\":[{%s}]}",
                       rows[i].name, rows[i].ns, rows[i].meta, rows[i].subset)
                .p);
        put(&stage, &kind_endpointslice, /* of the same owner, and somebody else's work */
            "{\"metadata\":{\"name\":\"other\",\"namespace\":\"n\",\"ownerReferences\":[{\"kind\":"
            "\"Endpoints\",\"name\":\"s\",\"uid\":\"e\"}]}}");
        struct str text = react(&stage, &endpoints_controller, rows[i].ns, rows[i].name);
        EXPECT(str_contains(text, str_from(rows[i].slice)));
        EXPECT((text.len > 0) == !!*rows[i].slice);
        EXPECT(!str_contains(text, STR("delete")));
    }
}

#define NODE(spec, ready)                                                                       \
    "{\"metadata\":{\"name\":\"m\"},\"spec\":{" spec "},\"status\":{\"conditions\":[{\"type\":" \
    "\"Ready\",\"status\":\"" ready "\"}]}}"
#define LEASE(seconds)                                                            \
    "{\"metadata\":{\"name\":\"m\",\"namespace\":\"kube-node-lease\"},\"spec\":{" \
    "\"renewTime\":\"1970-01-01T00:00:00.500000Z\",\"leaseDurationSeconds\":" seconds "}}"
#define TAINT(key, effect) "{\"key\":\"" key "\",\"effect\":\"" effect "\"}"
#define NOT_READY                                       \
    TAINT("node.kubernetes.io/not-ready", "NoSchedule") \
    "," TAINT("node.kubernetes.io/not-ready", "NoExecute")

TEST(a_node_that_nobody_speaks_for_is_not_ready_and_has_taints)
{
    static const struct {
        const char *why;
        const char *node;
        const char *lease; /* NULL: none */
        const char *action;
    } rows[] = {
        {"its lease is fresh", NODE("", "True"), LEASE("40"), ""},
        {"one that somebody made by hand has none", NODE("", "True"), NULL, ""},
        {"it is not renewed any more", NODE("", "True"), LEASE("0"), "status node/m {"},
        {"it says itself that it is not ready", NODE("", "False"), LEASE("40"),
         "patch node/m {\"spec\":{\"taints\":[" NOT_READY "]}}"},
        {"what others put there stays", NODE("\"taints\":[" TAINT("k", "NoSchedule") "]", "False"),
         NULL, "patch node/m {\"spec\":{\"taints\":[" TAINT("k", "NoSchedule") "," NOT_READY "]}}"},
        {"it is back", NODE("\"taints\":[" NOT_READY "," TAINT("k", "NoSchedule") "]", "True"),
         LEASE("40"), "patch node/m {\"spec\":{\"taints\":[" TAINT("k", "NoSchedule") "]}}"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(stage_close) struct stage stage;

        test_case(rows[i].why);
        stage_open(&stage);
        put(&stage, &kind_node, rows[i].node);
        if (rows[i].lease)
            put(&stage, &kind_lease, rows[i].lease);
        struct str seen = react(&stage, &nodes_controller, "", "m");
        EXPECT(rows[i].action[0] ? str_starts(seen, str_from(rows[i].action)) : !seen.len);
        EXPECT(i != 2 || str_contains(seen, STR("node.kubernetes.io/unreachable")));
    }
}

#define LOST_POD(phase, more)                                                                  \
    "{\"metadata\":{\"name\":\"p\",\"namespace\":\"n\",\"uid\":\"u\"},\"spec\":{\"nodeName\":" \
    "\"m\"},\"status\":{\"phase\":\"" phase "\"" more "}}"
#define MARKED(status, at)                                                                  \
    ",\"conditions\":[{\"type\":\"DisruptionTarget\",\"status\":\"" status "\",\"reason\":" \
    "\"DeletionByPodGC\",\"lastTransitionTime\":\"" at "\"}]"

TEST(pods_of_a_node_that_does_not_exist_are_collected_after_a_while)
{
    static const struct {
        const char *why;
        const char *pod;
        bool node;
        const char *actions[2];
    } rows[] = {
        {"its node went: that is noted",
         LOST_POD("Running", ""),
         false,
         {"status pod/p {", "\"DisruptionTarget\",\"status\":\"True\""}},
        {"long ago",
         LOST_POD("Running", MARKED("True", "1969-12-31T23:00:00Z")),
         false,
         {"status pod/p {\"status\":{\"phase\":\"Failed\"", "delete pod/p"}},
        {"it is back meanwhile",
         LOST_POD("Running", MARKED("True", "1970-01-01T00:00:00Z")),
         true,
         {"status pod/p {", "\"DisruptionTarget\",\"status\":\"False\""}},
        {"what has ended stays", LOST_POD("Succeeded", ""), false, {""}},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(stage_close) struct stage stage;

        test_case(rows[i].why);
        stage_open(&stage);
        put(&stage, &kind_pod, rows[i].pod);
        if (rows[i].node)
            put(&stage, &kind_node, NODE("", "True"));
        struct str seen = react(&stage, &nodes_controller, "n", "p");
        EXPECT(rows[i].actions[0][0] ? str_starts(seen, str_from(rows[i].actions[0])) : !seen.len);
        EXPECT(!rows[i].actions[1] || str_contains(seen, str_from(rows[i].actions[1])));
    }
}
