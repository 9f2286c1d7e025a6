#include "api/api.h"
#include "api/kind.h"
#include "api/people.h"
#include "base/count.h"
#include "base/str.h"
#include "store/harness.h"
#include "test.h"

#include <stddef.h>
#include <string.h>

static int patch_part(struct harness *h, const char *part, const char *body)
{
    return harness_call(h, &(struct api_request){.verb = API_PATCH,
                                                 .kind = &kind_pod,
                                                 .ns = STR("default"),
                                                 .name = STR("a"),
                                                 .subresource = str_from(part),
                                                 .patch = API_PATCH_STRATEGIC,
                                                 .body = str_from(body)});
}

static void add_pod(struct harness *h)
{
    EXPECT(harness_create(h, &kind_pod, "default",
                          "{\"metadata\":{\"name\":\"a\"},\"spec\":{\"containers\":[{\"name\":"
                          "\"main\",\"image\":\"i\"}]}}") == 0);
}

#define ADD(fields) "{\"spec\":{\"ephemeralContainers\":[{" fields "}]}}"

TEST(an_ephemeral_container_comes_through_its_own_address_and_stays)
{
    struct harness h;

    harness_open(&h, NULL);
    add_pod(&h);
    EXPECT(patch_part(&h, "", ADD("\"name\":\"d\",\"image\":\"b\"")) < 0 && h.status == 422);
    /* Of the rest of the pod nothing is changed there. */
    EXPECT(patch_part(&h, "ephemeralcontainers",
                      "{\"metadata\":{\"labels\":{\"x\":\"y\"}},\"spec\":{\"ephemeralContainers\":"
                      "[{\"name\":\"d\",\"image\":\"b\",\"targetContainerName\":\"main\"}]}}") ==
           0);
    EXPECT(strcmp(harness_text(&h, "spec.ephemeralContainers.0.name"), "d") == 0);
    EXPECT(strcmp(harness_text(&h, "spec.ephemeralContainers.0.terminationMessagePolicy"),
                  "File") == 0);
    EXPECT(strcmp(harness_text(&h, "metadata.labels"), "") == 0);
    EXPECT(patch_part(&h, "ephemeralcontainers", ADD("\"name\":\"e\",\"image\":\"b\"")) == 0);
    EXPECT(strcmp(harness_text(&h, "spec.ephemeralContainers.1.name"), "d") == 0 ||
           strcmp(harness_text(&h, "spec.ephemeralContainers.0.name"), "d") == 0);
    harness_close(&h);
}

/* kubectl debug is no way around the rules for a person's pods. */
TEST(an_ephemeral_container_of_a_person_is_hers)
{
    struct harness h;

    harness_open(&h, NULL);
    add_pod(&h);
    EXPECT(harness_patch(&h, &kind_namespace, "", "default",
                         "{\"metadata\":{\"annotations\":{\"" PERSON_NAME "\":\"ann\",\"" PERSON_UID
                         "\":\"1001\",\"" PERSON_GID "\":\"1001\",\"" PERSON_HOME
                         "\":\"/home/ann\"}}}") == 0);
    EXPECT(patch_part(&h, "ephemeralcontainers",
                      ADD("\"name\":\"d\",\"image\":\"b\",\"securityContext\":{\"runAsUser\":0}")) <
               0 &&
           h.status == 403);
    EXPECT(strstr(h.text, "runAsUser 0"));
    EXPECT(patch_part(&h, "ephemeralcontainers", ADD("\"name\":\"d\",\"image\":\"b\"")) == 0);
    harness_close(&h);
}

TEST(an_ephemeral_container_is_refused_in_words)
{
    static const struct {
        const char *body;
        const char *words;
        const char *why;
    } rows[] = {
        {ADD("\"name\":\"main\",\"image\":\"b\""), "Duplicate value: \"main\"",
         "a main one's name"},
        {ADD("\"name\":\"d\",\"image\":\"b\",\"targetContainerName\":\"no\""),
         "targetContainerName", "no such target"},
        {ADD("\"name\":\"d\",\"image\":\"b\",\"ports\":[{\"containerPort\":80}]"),
         "cannot be set for an Ephemeral Container", "it has no ports"},
        {ADD("\"name\":\"d\",\"image\":\"b\",\"resources\":{\"limits\":{\"cpu\":\"1\"}}"),
         "cannot be set for an Ephemeral Container", "nothing is planned for it"},
        {ADD("\"name\":\"old\",\"image\":\"other\""), "may not be changed", "it is fixed"},
        {ADD("\"name\":\"old\",\"$patch\":\"delete\""), "may not be removed", "it stays"},
        {ADD("\"name\":\"d\""), "image: Required value", "an image is needed"},
    };
    struct harness h;

    harness_open(&h, NULL);
    add_pod(&h);
    EXPECT(patch_part(&h, "ephemeralcontainers", ADD("\"name\":\"old\",\"image\":\"b\"")) == 0);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        test_case(rows[i].why);
        EXPECT(patch_part(&h, "ephemeralcontainers", rows[i].body) < 0 && h.status == 422);
        EXPECT(strstr(h.causes, rows[i].words));
    }
    test_case("a pod is not made with them");
    EXPECT(harness_create(&h, &kind_pod, "default",
                          "{\"metadata\":{\"name\":\"b\"},\"spec\":{\"containers\":[{\"name\":"
                          "\"main\",\"image\":\"i\"}],\"ephemeralContainers\":[{\"name\":\"d\","
                          "\"image\":\"b\"}]}}") < 0);
    EXPECT(strstr(h.causes, "cannot be set on create"));
    test_case("nor a template");
    EXPECT(harness_create(&h, &kind_podtemplate, "default",
                          "{\"metadata\":{\"name\":\"t\"},\"template\":{\"spec\":{\"containers\":[{"
                          "\"name\":\"main\",\"image\":\"i\"}],\"ephemeralContainers\":[{\"name\":"
                          "\"d\",\"image\":\"b\"}]}}}") < 0);
    EXPECT(strstr(h.causes, "template.spec.ephemeralContainers"));
    EXPECT(harness_create(
               &h, &kind_job, "default",
               "{\"metadata\":{\"name\":\"j\"},\"spec\":{\"template\":{\"spec\":{\"restartPolicy\":"
               "\"Never\",\"containers\":[{\"name\":\"main\",\"image\":\"i\"}],"
               "\"ephemeralContainers\":[{\"name\":\"d\",\"image\":\"b\"}]}}}}") < 0);
    EXPECT(strstr(h.causes, "spec.template.spec.ephemeralContainers"));
    test_case("no other kind has that part");
    EXPECT(harness_call(&h, &(struct api_request){.verb = API_GET,
                                                  .kind = &kind_node,
                                                  .name = STR("n"),
                                                  .subresource = STR("ephemeralcontainers")}) < 0);
    EXPECT(h.status == 404);
    harness_close(&h);
}

TEST(pod_security_looks_at_ephemeral_containers)
{
    struct harness h;

    harness_open(&h, NULL);
    add_pod(&h);
    EXPECT(harness_patch(&h, &kind_namespace, "", "default",
                         "{\"metadata\":{\"labels\":{\"pod-security.kubernetes.io/enforce\":"
                         "\"baseline\"}}}") == 0);
    EXPECT(patch_part(&h, "ephemeralcontainers",
                      ADD("\"name\":\"d\",\"image\":\"b\",\"securityContext\":{\"privileged\":"
                          "true}")) < 0 &&
           h.status == 403);
    EXPECT(strstr(h.text, "violates PodSecurity"));
    harness_close(&h);
}
