#include "api/api.h"
#include "api/kind.h"
#include "api/object.h"
#include "base/count.h"
#include "base/json.h"
#include "base/str.h"
#include "store/harness.h"
#include "test.h"

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* In which form objects are stored: as a struct of Go, which Kubernetes reads them into, is written. */

#define POD_WITH(cpu)                                                                              \
    "{\"metadata\":{\"name\":\"p\"},\"spec\":{\"nodeSelector\":{},\"hostNetwork\":false,"          \
    "\"restartPolicy\":\"\",\"containers\":[{\"name\":\"c\",\"image\":\"i\",\"command\":[null],"   \
    "\"livenessProbe\":{\"tcpSocket\":{\"port\":80},\"timeoutSeconds\":0,\"failureThreshold\":0}," \
    "\"resources\":{\"limits\":{\"cpu\":" cpu ",\"memory\":\"1024Mi\"}}}]}}"
#define SECRET_TYPED(type) "{\"metadata\":{\"name\":\"s\"},\"type\":\"" type "\"}"

TEST(an_amount_has_one_form_and_what_is_empty_is_not_there)
{
    static const struct {
        const char *path;
        const char *text;
    } rows[] = {
        {"spec.containers.0.resources.limits.cpu", "1"},
        {"spec.containers.0.resources.requests.cpu", "1"},
        {"spec.containers.0.resources.limits.memory", "1Gi"},
        {"spec.nodeSelector", ""},
        {"spec.hostNetwork", ""},
        {"spec.restartPolicy", "Always"},
        {"spec.containers.0.command", "[\"\"]"},
        {"spec.containers.0.livenessProbe.timeoutSeconds", "1"},
        {"spec.containers.0.livenessProbe.failureThreshold", "3"},
    };
    struct harness h;

    harness_open(&h, NULL);
    EXPECT(harness_create(&h, &kind_pod, "default", POD_WITH("\"1000m\"")) == 0);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        test_case(rows[i].path);
        EXPECT(strcmp(harness_text(&h, rows[i].path), rows[i].text) == 0);
    }
    EXPECT(harness_create(&h, &kind_secret, "default", SECRET_TYPED("")) == 0);
    EXPECT(strcmp(harness_text(&h, "type"), "Opaque") == 0);
    harness_close(&h);
}

static int apply_cpu(struct harness *h, const char *manager, const char *body)
{
    return harness_call(h, &(struct api_request){.verb = API_PATCH,
                                                 .kind = &kind_resourcequota,
                                                 .ns = STR("default"),
                                                 .name = STR("q"),
                                                 .patch = API_PATCH_APPLY,
                                                 .field_manager = str_from(manager),
                                                 .body = str_from(body)});
}

#define QUOTA(cpu)                                                                               \
    "{\"apiVersion\":\"v1\",\"kind\":\"ResourceQuota\",\"metadata\":{\"name\":\"q\"},\"spec\":{" \
    "\"hard\":{\"cpu\":" cpu "}}}"

TEST(an_amount_written_otherwise_is_the_same_amount)
{
    struct harness h;

    harness_open(&h, NULL);
    EXPECT(apply_cpu(&h, "one", QUOTA("\"1000m\"")) == 0);
    uint64_t revision = h.object->revision;
    EXPECT(apply_cpu(&h, "one", QUOTA("1")) == 0 && h.object->revision == revision);
    EXPECT(apply_cpu(&h, "two", QUOTA("\"1.0\"")) == 0);
    EXPECT(apply_cpu(&h, "two", QUOTA("\"2\"")) == -EAGAIN);
    harness_close(&h);
}

/* Selectors and queues go by labels: who may write a status may not move an object. */
TEST(a_status_brings_annotations_along_and_no_labels)
{
    struct harness h;

    harness_open(&h, NULL);
    EXPECT(harness_create(&h, &kind_pod, "default", POD_WITH("1")) == 0);
    EXPECT(harness_call(&h, &(struct api_request){.verb = API_PATCH,
                                                  .kind = &kind_pod,
                                                  .ns = STR("default"),
                                                  .name = STR("p"),
                                                  .subresource = STR("status"),
                                                  .patch = API_PATCH_MERGE,
                                                  .body = STR("{\"metadata\":{\"labels\":{\"a\":"
                                                              "\"b\"},\"annotations\":{\"x\":\"y\"}"
                                                              "},\"status\":{\"phase\":\"Running\"}"
                                                              "}")}) == 0);
    EXPECT(strcmp(harness_text(&h, "metadata.labels"), "") == 0);
    EXPECT(strcmp(harness_text(&h, "metadata.annotations.x"), "y") == 0);
    EXPECT(strcmp(harness_text(&h, "status.phase"), "Running") == 0);
    harness_close(&h);
}

/* Nobody owns what is not there, and what is applied is the object of the address. */
TEST(an_apply_names_the_object_that_it_is_about)
{
    static const struct {
        const char *why;
        const char *body;
        int status;
    } rows[] = {
        {"without a kind", "{\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"q\"}}", 400},
        {"without an apiVersion", "{\"kind\":\"ResourceQuota\",\"metadata\":{\"name\":\"q\"}}",
         400},
        {"of another name",
         "{\"apiVersion\":\"v1\",\"kind\":\"ResourceQuota\",\"metadata\":{\"name\":\"r\"}}", 400},
        {"with a field that there is not",
         "{\"apiVersion\":\"v1\",\"kind\":\"ResourceQuota\",\"metadata\":{\"name\":\"q\"},\"spec\":"
         "{\"no\":1}}",
         400},
        {"with managers of its own",
         "{\"apiVersion\":\"v1\",\"kind\":\"ResourceQuota\",\"metadata\":{\"name\":\"q\","
         "\"managedFields\":[]}}",
         400},
        {"as it should be", QUOTA("1"), 0},
    };
    struct harness h;

    harness_open(&h, NULL);
    EXPECT(apply_cpu(&h, "one", QUOTA("1")) == 0);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        test_case(rows[i].why);
        (void)apply_cpu(&h, "one", rows[i].body);
        EXPECT(h.status == rows[i].status);
    }
    EXPECT(apply_cpu(&h, "", QUOTA("1")) == -EINVAL && h.status == 422);
    EXPECT(strstr(h.causes, "fieldManager"));
    harness_close(&h);
}

static int patch_as(struct harness *h, enum api_patch patch, const char *body)
{
    return harness_call(h, &(struct api_request){.verb = API_PATCH,
                                                 .kind = &kind_configmap,
                                                 .ns = STR("default"),
                                                 .name = STR("a"),
                                                 .patch = patch,
                                                 .body = str_from(body)});
}

/* As Kubernetes' own library of patches does. */
TEST(a_patch_changes_an_object_and_does_not_make_another)
{
    struct harness h;

    harness_open(&h, NULL);
    EXPECT(harness_create(&h, &kind_configmap, "default",
                          "{\"metadata\":{\"name\":\"a\",\"labels\":{\"l\":\"1\"}}}") == 0);
    EXPECT(patch_as(&h, API_PATCH_JSON,
                    "[{\"op\":\"replace\",\"path\":\"/metadata/labels/m\",\"value\":\"2\"}]") == 0);
    EXPECT(strcmp(harness_text(&h, "metadata.labels.m"), "2") == 0);
    EXPECT(patch_as(&h, API_PATCH_JSON, "[{\"op\":\"add\",\"path\":\"\",\"value\":{}}]") < 0 &&
           h.status == 422);
    EXPECT(patch_as(&h, API_PATCH_JSON, "[{\"op\":\"no\"}]") < 0 && h.status == 422);
    EXPECT(patch_as(&h, API_PATCH_STRATEGIC, "{\"kind\":\"Other\"}") == 0);
    EXPECT(patch_as(&h, API_PATCH_STRATEGIC, "null") == 0);
    EXPECT(patch_as(&h, API_PATCH_MERGE, "{\"metadata\":{\"name\":null}}") < 0 && h.status == 400);
    EXPECT(patch_as(&h, API_PATCH_MERGE, "{\"metadata\":{\"uid\":\"other\"}}") < 0 &&
           h.status == 422 && strstr(h.causes, "metadata.uid: "));
    EXPECT(patch_as(&h, API_PATCH_MERGE, "{\"data\":{\"k\":7}}") < 0 && h.status == 422 &&
           strstr(h.causes, "patch: "));
    harness_close(&h);
}
