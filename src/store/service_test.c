#include "api/kind.h"
#include "api/object.h"
#include "api/service.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "store/harness.h"
#include "store/store.h"
#include "test.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* Services and their addresses; kinds that are one in two versions. */

#define PORTS "\"ports\":[{\"port\":80}]"

TEST(a_service_has_an_address_from_its_creation_on)
{
    struct harness h;
    char first[64];

    harness_open(&h, NULL);
    EXPECT(harness_create(&h, &kind_service, "default",
                          "{\"metadata\":{\"name\":\"a\"},\"spec\":{" PORTS "}}") == 0);
    (void)snprintf(first, sizeof(first), "%s", harness_text(&h, "spec.clusterIP"));
    EXPECT(strncmp(first, "127.", 4) == 0);
    EXPECT(strcmp(harness_text(&h, "spec.clusterIPs.0"), first) == 0);
    EXPECT(strcmp(harness_text(&h, "spec.ipFamilies.0"), "IPv4") == 0);
    /* An update that does not speak of it keeps it. */
    EXPECT(harness_patch(&h, &kind_service, "default", "a", "{\"spec\":{\"clusterIP\":\"\"}}") ==
           0);
    EXPECT(strcmp(harness_text(&h, "spec.clusterIP"), first) == 0);
    EXPECT(harness_patch(&h, &kind_service, "default", "a",
                         "{\"spec\":{\"clusterIP\":\"127.33.0.9\"}}") == -EINVAL);
    EXPECT(strstr(h.causes, "spec.clusterIPs") && strstr(h.causes, "may not change once set"));
    /* As an ExternalName it gives it back. */
    EXPECT(harness_patch(&h, &kind_service, "default", "a",
                         "{\"spec\":{\"type\":\"ExternalName\",\"externalName\":\"x.example\"}}") ==
           0);
    EXPECT(strcmp(harness_text(&h, "spec.clusterIP"), "") == 0);
    EXPECT(harness_patch(&h, &kind_service, "default", "a",
                         "{\"spec\":{\"type\":\"ClusterIP\",\"externalName\":null}}") == 0);
    EXPECT(strncmp(harness_text(&h, "spec.clusterIP"), "127.", 4) == 0);
    harness_close(&h);
}

TEST(a_service_of_a_node_has_a_port_of_it)
{
    struct harness h;
    char body[256];
    char first[16];

    harness_open(&h, NULL);
    EXPECT(harness_create(&h, &kind_service, "default",
                          "{\"metadata\":{\"name\":\"a\"},\"spec\":{\"type\":\"NodePort\"," PORTS
                          "}}") == 0);
    (void)snprintf(first, sizeof(first), "%s", harness_text(&h, "spec.ports.0.nodePort"));
    EXPECT(strlen(first) == 5 && strcmp(first, "30000") >= 0 && strcmp(first, "32767") <= 0);
    /* Another one cannot have it, nor one that is no port of nodes. */
    (void)snprintf(body, sizeof(body),
                   "{\"metadata\":{\"name\":\"b\"},\"spec\":{\"type\":\"NodePort\",\"ports\":[{"
                   "\"port\":80,\"nodePort\":%s}]}}",
                   first);
    EXPECT(harness_create(&h, &kind_service, "default", body) < 0);
    EXPECT(strstr(h.causes, "spec.ports[0].nodePort") && strstr(h.causes, "already allocated"));
    EXPECT(harness_create(&h, &kind_service, "default",
                          "{\"metadata\":{\"name\":\"b\"},\"spec\":{\"type\":\"NodePort\","
                          "\"ports\":[{\"port\":80,\"nodePort\":80}]}}") < 0);
    EXPECT(strstr(h.causes, "30000-32767") != NULL);
    /* An update keeps it; another type gives it back. */
    EXPECT(harness_patch(&h, &kind_service, "default", "a",
                         "{\"spec\":{\"ports\":[{\"port\":80}]}}") == 0);
    EXPECT(strcmp(harness_text(&h, "spec.ports.0.nodePort"), first) == 0);
    EXPECT(harness_patch(&h, &kind_service, "default", "a",
                         "{\"spec\":{\"type\":\"ClusterIP\"}}") == 0);
    EXPECT(strcmp(harness_text(&h, "spec.ports.0.nodePort"), "") == 0);
    harness_close(&h);
}

TEST(a_port_of_the_node_is_given_once_for_each_protocol)
{
    static const struct {
        const char *name;
        const char *protocol;
        bool given;
    } rows[] = {{"a", "TCP", true}, {"b", "UDP", true}, {"c", "UDP", false}, {"d", "TCP", false}};
    struct harness h;

    harness_open(&h, NULL);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char body[256];

        test_case(rows[i].name);
        (void)snprintf(body, sizeof(body),
                       "{\"metadata\":{\"name\":\"%s\"},\"spec\":{\"type\":\"NodePort\","
                       "\"ports\":[{\"port\":80,\"protocol\":\"%s\",\"nodePort\":30100}]}}",
                       rows[i].name, rows[i].protocol);
        EXPECT((harness_create(&h, &kind_service, "default", body) == 0) == rows[i].given);
    }
    harness_close(&h);
}

TEST(an_address_that_was_asked_for_is_given_once_and_only_from_the_network)
{
    static const struct {
        const char *name;
        const char *ip;
        const char *refused; /* NULL: taken */
    } rows[] = {
        {"a", "127.33.0.9", NULL},
        {"b", "127.33.0.9", "another Service has it"},
        {"c", "10.96.0.1", "not of the network"},
        {"d", "127.0.0.1", "not of the network"},
        {"e", "127.33.0.09", "not of the network"},
        {"f", "127.33.0.9.1", "not of the network"},
        {"g", "None", NULL},
    };
    struct harness h;

    harness_open(&h, NULL);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char body[160];

        test_case(rows[i].ip);
        (void)snprintf(body, sizeof(body),
                       "{\"metadata\":{\"name\":\"%s\"},\"spec\":{\"clusterIP\":\"%s\"," PORTS "}}",
                       rows[i].name, rows[i].ip);
        int r = harness_create(&h, &kind_service, "default", body);
        EXPECT((r == 0) == (rows[i].refused == NULL));
        if (rows[i].refused)
            EXPECT(h.status == 422 && strstr(h.causes, rows[i].refused));
        else
            EXPECT(strcmp(harness_text(&h, "spec.clusterIP"), rows[i].ip) == 0);
    }
    harness_close(&h);
}

TEST(an_address_of_another_network_is_replaced_with_the_next_write)
{
    struct harness h;

    harness_open(&h, NULL);
    EXPECT(harness_create(&h, &kind_service, "default",
                          "{\"metadata\":{\"name\":\"a\"},\"spec\":{" PORTS "}}") == 0);
    store_set_services(h.store, (struct service_network){0x0a010001u, 100});
    EXPECT(harness_patch(&h, &kind_service, "default", "a", "{}") == 0);
    EXPECT(strncmp(harness_text(&h, "spec.clusterIP"), "10.1.0.", 7) == 0);
    EXPECT(strncmp(harness_text(&h, "spec.clusterIPs.0"), "10.1.0.", 7) == 0);
    harness_close(&h);
}

TEST(a_port_of_the_pods_that_nobody_named_is_that_of_the_service)
{
    static const char *const rows[] = {"", ",\"targetPort\":0", ",\"targetPort\":\"\"",
                                       ",\"targetPort\":null"};

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct harness h;
        char body[200];

        test_case(rows[i]);
        harness_open(&h, NULL);
        (void)snprintf(body, sizeof(body),
                       "{\"metadata\":{\"name\":\"a\"},\"spec\":{\"ports\":[{\"port\":80%s}]}}",
                       rows[i]);
        EXPECT(harness_create(&h, &kind_service, "default", body) == 0);
        EXPECT(strcmp(harness_text(&h, "spec.ports.0.targetPort"), "80") == 0);
        harness_close(&h);
    }
}

TEST(the_network_of_services_is_told_as_one_block)
{
    static const struct {
        struct service_network network;
        const char *text;
    } rows[] = {
        {{0x7f200002u, 0x001ffff0u}, "127.32.0.0/11"},
        {{0x0a078002u, 0x7ff0u}, "10.7.128.0/17"},
        {{0x0a078002u, 1}, "10.7.128.2/32"},
        {{2, 0xfffffff0u}, "0.0.0.0/0"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};

        test_case(rows[i].text);
        EXPECT(str_is(service_network_text(&arena, &rows[i].network), rows[i].text));
    }
}

TEST(an_autoscaler_is_one_object_in_two_versions)
{
    struct harness h;

    harness_open(&h, NULL);
    EXPECT(harness_create(
               &h, &kind_hpa_v1, "default",
               "{\"metadata\":{\"name\":\"a\"},\"spec\":{\"scaleTargetRef\":{\"kind\":\"Job\","
               "\"name\":\"j\"},\"maxReplicas\":5,"
               "\"targetCPUUtilizationPercentage\":70}}") == 0);
    EXPECT(strcmp(harness_text(&h, "apiVersion"), "autoscaling/v1") == 0);
    EXPECT(harness_get(&h, &kind_hpa, "default", "a") == 0);
    EXPECT(strcmp(harness_text(&h, "spec.metrics.0.resource.name"), "cpu") == 0);
    EXPECT(harness_patch(
               &h, &kind_hpa, "default", "a",
               "{\"spec\":{\"metrics\":[{\"type\":\"Resource\",\"resource\":{\"name\":\"memory\","
               "\"target\":{\"type\":\"Utilization\",\"averageUtilization\":50}}}]}}") == 0);
    EXPECT(harness_get(&h, &kind_hpa_v1, "default", "a") == 0);
    EXPECT(str_contains(h.object->raw, STR("autoscaling.alpha.kubernetes.io/metrics")));
    EXPECT(!str_contains(h.object->raw, STR("\"metrics\":")));
    /* A client of the old version changes something else and loses nothing of the new one. */
    EXPECT(harness_patch(&h, &kind_hpa_v1, "default", "a", "{\"spec\":{\"maxReplicas\":6}}") == 0);
    EXPECT(harness_get(&h, &kind_hpa, "default", "a") == 0);
    EXPECT(strcmp(harness_text(&h, "spec.metrics.0.resource.name"), "memory") == 0);
    EXPECT(!str_contains(h.object->raw, STR("autoscaling.alpha.kubernetes.io")));
    harness_close(&h);
}

TEST(an_autoscaler_without_metrics_looks_at_the_use_of_cpu)
{
    static const struct kind *const kinds[] = {&kind_hpa, &kind_hpa_v1};

    for (size_t i = 0; i < COUNT_OF(kinds); i++) {
        struct harness h;

        test_case(kinds[i]->version);
        harness_open(&h, NULL);
        EXPECT(harness_create(
                   &h, kinds[i], "default",
                   "{\"metadata\":{\"name\":\"a\"},\"spec\":{\"scaleTargetRef\":{\"kind\":\"Job\","
                   "\"name\":\"j\"},\"maxReplicas\":5}}") == 0);
        EXPECT(harness_get(&h, &kind_hpa, "default", "a") == 0);
        EXPECT(strcmp(harness_text(&h, "spec.metrics.0.resource.name"), "cpu") == 0);
        EXPECT(str_contains(h.object->raw, STR("\"averageUtilization\":80")));
        EXPECT(harness_get(&h, &kind_hpa_v1, "default", "a") == 0);
        EXPECT(str_contains(h.object->raw, STR("\"targetCPUUtilizationPercentage\":80")));
        harness_close(&h);
    }
}

TEST(events_are_selected_by_the_words_of_their_group)
{
    struct harness h;

    harness_open(&h, NULL);
    EXPECT(harness_create(&h, &kind_event, "default",
                          "{\"metadata\":{\"name\":\"e\"},\"involvedObject\":{\"kind\":\"Pod\","
                          "\"name\":\"p\",\"namespace\":\"default\"},\"reason\":\"R\"}") == 0);
    struct api_request list = {.verb = API_LIST,
                               .kind = &kind_event_k8s,
                               .ns = STR("default"),
                               .field_selector = STR("regarding.name=p,reason=R")};
    EXPECT(harness_call(&h, &list) == 0 && h.item_count == 1);
    list.field_selector = STR("regarding.name=q");
    EXPECT(harness_call(&h, &list) == 0 && h.item_count == 0);
    list.field_selector = STR("involvedObject.name=p");
    EXPECT(harness_call(&h, &list) == -EINVAL);
    EXPECT(strstr(h.text, "field label not supported: involvedObject.name"));
    harness_close(&h);
}

TEST(fields_that_are_there_twice_are_told_or_refused)
{
    static const struct str body =
        STR("{\"metadata\":{\"name\":\"c\"},\"data\":{\"a\":\"1\",\"a\":\"2\"},\"x\":1}");
    struct harness h;
    struct api_request create = {.verb = API_CREATE,
                                 .kind = &kind_configmap,
                                 .ns = STR("default"),
                                 .body = body,
                                 .strict_fields = true};

    harness_open(&h, NULL);
    EXPECT(harness_call(&h, &create) == -EINVAL && h.status == 400);
    EXPECT(strstr(h.text, "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: strict "
                          "decoding error: unknown field \"x\", duplicate field \"data.a\""));
    create.strict_fields = false;
    EXPECT(harness_call(&h, &create) == 0);
    EXPECT(strcmp(harness_text(&h, "data.a"), "2") == 0);
    EXPECT(strcmp(h.warnings, "unknown field \"x\"\nduplicate field \"data.a\"") == 0);
    harness_close(&h);
}

TEST(who_deletes_a_queue_hears_of_the_jobs_that_use_it)
{
    static const struct {
        const char *why;
        const char *spec;
        const char *phase;
        bool warned;
    } rows[] = {
        {"it runs", "\"jobQueue\":\"q\"", "Running", true},
        {"in the other dialect", "\"queue\":\"q\"", "Queued", true},
        {"it is over", "\"jobQueue\":\"q\"", "Succeeded", false},
        {"of another queue", "\"jobQueue\":\"p\"", "Running", false},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct harness h;
        char job[256];

        test_case(rows[i].why);
        (void)snprintf(job, sizeof(job),
                       "{\"metadata\":{\"name\":\"j\"},\"spec\":{%s,\"command\":\"x\"},\"status\":{"
                       "\"phase\":\"%s\"}}",
                       rows[i].spec, rows[i].phase);
        harness_open(&h, NULL);
        EXPECT(harness_create(
                   &h, &kind_torchrunqueue, "default",
                   "{\"metadata\":{\"name\":\"q\"},\"spec\":{\"nodeResources\":{\"gpus\":1}}}") ==
               0);
        EXPECT(harness_create(&h, &kind_torchrunjob, "default", job) == 0);
        struct api_request phase = {.verb = API_PATCH,
                                    .kind = &kind_torchrunjob,
                                    .ns = STR("default"),
                                    .name = STR("j"),
                                    .subresource = STR("status"),
                                    .body = str_from(job)};
        EXPECT(harness_call(&h, &phase) == 0);
        EXPECT(harness_delete(&h, &kind_torchrunqueue, "default", "q", "") == 0);
        EXPECT((strstr(h.warnings, "1 TorchrunJobs that have not ended use this queue") != NULL) ==
               rows[i].warned);
        harness_close(&h);
    }
}
