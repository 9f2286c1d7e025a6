#include "api/kind.h"
#include "store/harness.h"
#include "test.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* Owners and namespaces: what somebody with the rights of one namespace can say of another. */

TEST(a_dependent_in_another_namespace_neither_blocks_nor_follows_an_owner)
{
    struct harness h;
    char body[512];

    harness_open(&h, NULL);
    EXPECT(harness_create(&h, &kind_namespace, "", "{\"metadata\":{\"name\":\"eve\"}}") == 0);
    EXPECT(harness_create(&h, &kind_configmap, "default", "{\"metadata\":{\"name\":\"a\"}}") == 0);
    (void)snprintf(
        body, sizeof(body),
        "{\"metadata\":{\"name\":\"b\",\"finalizers\":[\"x.io/y\"],\"ownerReferences\":[{"
        "\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"name\":\"a\",\"uid\":\"%s\","
        "\"blockOwnerDeletion\":true}]}}",
        harness_text(&h, "metadata.uid"));
    EXPECT(harness_create(&h, &kind_configmap, "eve", body) == 0);
    harness_settle(&h);
    /* Its owner is not in its namespace: it goes, as in Kubernetes, when its finalizers let it. */
    EXPECT(harness_get(&h, &kind_configmap, "eve", "b") == 0);
    EXPECT(strlen(harness_text(&h, "metadata.deletionTimestamp")) > 0);
    EXPECT(harness_delete(&h, &kind_configmap, "default", "a",
                          "{\"propagationPolicy\":\"Foreground\"}") == 0);
    harness_settle(&h);
    EXPECT(harness_get(&h, &kind_configmap, "default", "a") == -ENOENT);
    harness_close(&h);
}

#define EVENT(ns)                                                                              \
    "{\"metadata\":{\"name\":\"e\"},\"reason\":\"r\",\"involvedObject\":{\"kind\":\"Pod\"," ns \
    "\"name\":\"p\"}}"

TEST(an_event_is_told_in_the_namespace_that_it_is_about)
{
    struct harness h;

    harness_open(&h, NULL);
    EXPECT(harness_create(&h, &kind_event, "default", EVENT("\"namespace\":\"eve\",")) < 0);
    EXPECT(h.status == 422 && strstr(h.causes, "does not match event.namespace"));
    EXPECT(harness_create(&h, &kind_event, "default", EVENT("\"namespace\":\"default\",")) == 0);
    EXPECT(
        harness_create(&h, &kind_event_k8s, "default",
                       "{\"metadata\":{\"name\":\"f\"},\"eventTime\":\"2026-01-01T00:00:00.000000Z"
                       "\",\"reason\":\"r\",\"action\":\"a\",\"type\":\"Normal\","
                       "\"reportingController\":\"c\",\"reportingInstance\":\"i\",\"regarding\":{"
                       "\"kind\":\"Pod\",\"namespace\":\"eve\",\"name\":\"p\"}}") < 0);
    EXPECT(strstr(h.causes, "involvedObject.namespace"));
    harness_close(&h);
}
