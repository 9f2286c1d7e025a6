#include "api/api.h"
#include "api/kind.h"
#include "base/count.h"
#include "base/str.h"
#include "store/harness.h"
#include "test.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define POD(meta)                        \
    "{\"metadata\":{\"name\":\"p\"" meta \
    "},\"spec\":{\"containers\":[{\"name\":\"c\",\"image\":\"i\"}]}}"
#define OWNED                                       \
    ",\"ownerReferences\":[{\"apiVersion\":\"apps/" \
    "v1\",\"kind\":\"ReplicaSet\",\"name\":\"r\",\"uid\":\"u\"}]"
#define WISH(value) "{\"metadata\":{\"annotations\":{\"muster.dev/suspend\":" value "}}}"

static int patch_as(struct harness *h,
                    const struct api_user *user,
                    const char *part,
                    const char *body)
{
    return harness_call(h, &(struct api_request){.verb = API_PATCH,
                                                 .kind = &kind_pod,
                                                 .ns = STR("default"),
                                                 .name = STR("p"),
                                                 .subresource = str_from(part),
                                                 .patch = API_PATCH_MERGE,
                                                 .body = str_from(body),
                                                 .user = user});
}

TEST(who_copies_gpu_memory_is_one_of_two)
{
    static const struct {
        const char *word;
        bool good;
    } rows[] = {{"library", true}, {"driver", true}, {"libary", false}, {"", false}};

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct harness h;
        char body[256];

        harness_open(&h, NULL);
        (void)snprintf(body, sizeof(body), POD(",\"annotations\":{\"muster.dev/gpu-copy\":\"%s\"}"),
                       rows[i].word);
        EXPECT((harness_create(&h, &kind_pod, "default", body) == 0) == rows[i].good);
        EXPECT(rows[i].good || (h.status == 422 && strstr(h.text, "must be library or driver")));
        harness_close(&h);
    }
}

/* Whoever may write pods has not thereby a right to GPUs. */
TEST(suspensions_are_the_schedulers_and_the_owners)
{
    static const struct str masters[] = {STR("system:masters")};
    const struct api_user eve = {.name = STR("eve")};
    const struct api_user owner = {.name = STR("admin"), .groups = masters, .group_count = 1};
    struct harness h;

    harness_open(&h, NULL);
    EXPECT(harness_create(&h, &kind_pod, "default",
                          POD(",\"annotations\":{\"muster.dev/suspend\":\"hold\"}")) < 0);
    EXPECT(h.status == 403 && strstr(h.text, "muster.dev/suspend"));
    EXPECT(harness_create(&h, &kind_pod, "default", POD("")) == 0);
    EXPECT(patch_as(&h, &eve, "", WISH("\"hold\"")) < 0 && h.status == 403);
    EXPECT(patch_as(&h, &eve, "", "{\"metadata\":{\"labels\":{\"a\":\"b\"}}}") == 0);
    EXPECT(patch_as(&h, &owner, "", WISH("\"hold\"")) == 0);
    EXPECT(patch_as(&h, &owner, "", WISH("null")) == 0);
    EXPECT(patch_as(&h, NULL, "", WISH("\"hold\"")) == 0);
    EXPECT(patch_as(&h, &eve, "", WISH("null")) < 0 && h.status == 403);
    EXPECT(
        patch_as(&h, NULL, "status",
                 "{\"status\":{\"conditions\":[{\"type\":\"Suspended\",\"status\":\"True\"}]}}") ==
        0);
    EXPECT(patch_as(&h, &owner, "", WISH("null")) < 0 && strstr(h.text, "yield"));
    EXPECT(patch_as(&h, &owner, "", WISH("\"yield\"")) == 0);
    EXPECT(patch_as(&h, NULL, "", WISH("null")) == 0);
    /* Its node has not said yet that it goes on: asked again, it would look as if it stood still. */
    EXPECT(patch_as(&h, &owner, "", WISH("\"hold\"")) < 0 && h.status == 409);
    EXPECT(patch_as(&h, NULL, "", WISH("\"yield\"")) < 0 && strstr(h.text, "about to go on"));
    EXPECT(
        patch_as(&h, NULL, "status",
                 "{\"status\":{\"conditions\":[{\"type\":\"Suspended\",\"status\":\"False\"}]}}") ==
        0);
    EXPECT(patch_as(&h, NULL, "", WISH("\"yield\"")) == 0);
    harness_close(&h);
}

#define NOTE(key, value) "{\"metadata\":{\"annotations\":{\"" key "\":" value "}}}"

/* Numbers of GPUs, limits and times that the scheduler wrote down, and reads again. */
TEST(marks_of_the_scheduler_are_not_for_who_may_write_pods)
{
    static const char *const marks[] = {
        NOTE("torchrun.ai/gpu-devices", "\"0,1\""),
        NOTE("torchrun.ai/gpu-memory-limit", "\"80000\""),
        NOTE("torchrun.ai/gpu-portion", "\"1\""),
        NOTE("received-resource-type", "\"Regular\""),
        "{\"metadata\":{\"labels\":{\"muster.dev/stand-in\":\"true\"}}}",
    };
    static const struct str masters[] = {STR("system:masters")};
    const struct api_user eve = {.name = STR("eve")};
    const struct api_user owner = {.name = STR("admin"), .groups = masters, .group_count = 1};
    struct harness h;

    harness_open(&h, NULL);
    EXPECT(harness_create(&h, &kind_pod, "default",
                          POD(OWNED ",\"annotations\":{\"torchrun.ai/gpu-devices\":\"0\"}")) < 0);
    EXPECT(h.status == 403 && strstr(h.text, "gpu-devices")); /* from a template */
    EXPECT(harness_create(&h, &kind_pod, "default", POD("")) == 0);
    for (size_t i = 0; i < COUNT_OF(marks); i++) {
        test_case(marks[i]);
        EXPECT(patch_as(&h, &eve, "", marks[i]) < 0 && h.status == 403);
        EXPECT(patch_as(&h, &owner, "", marks[i]) == 0);
        EXPECT(patch_as(&h, &eve, "", "{\"metadata\":{\"labels\":{\"a\":\"b\"}}}") == 0);
    }
    EXPECT(patch_as(&h, &eve, "", NOTE("torchrun.ai/gpu-devices", "null")) < 0);
    harness_close(&h);
}

TEST(what_a_pod_asked_for_is_fixed_once_it_has_a_node)
{
    static const char *const wishes[] = {NOTE("gpu-fraction", "\"0.5\""),
                                         NOTE("pod-group-name", "\"nobody\"")};
    const struct api_user eve = {.name = STR("eve")};
    struct harness h;

    harness_open(&h, NULL);
    EXPECT(harness_create(&h, &kind_pod, "default", POD("")) == 0);
    EXPECT(patch_as(&h, &eve, "", NOTE("pod-group-name", "\"g\"")) == 0);
    EXPECT(harness_call(&h, &(struct api_request){.verb = API_CREATE,
                                                  .kind = &kind_pod,
                                                  .ns = STR("default"),
                                                  .name = STR("p"),
                                                  .subresource = STR("binding"),
                                                  .body = STR("{\"target\":{\"name\":\"n\"}}")}) ==
           0);
    for (size_t i = 0; i < COUNT_OF(wishes); i++) {
        test_case(wishes[i]);
        EXPECT(patch_as(&h, &eve, "", wishes[i]) < 0 && h.status == 403);
        EXPECT(strstr(h.text, "make another one"));
    }
    harness_close(&h);
}

TEST(times_of_a_pod_group_are_the_schedulers)
{
    const struct api_user eve = {.name = STR("eve")};
    struct harness h;
    struct api_request patch = {
        .verb = API_PATCH,
        .kind = &kind_podgroup,
        .ns = STR("default"),
        .name = STR("g"),
        .patch = API_PATCH_MERGE,
        .body = STR(NOTE("kai.scheduler/last-start-timestamp", "\"2099-01-01T00:00:00Z\"")),
        .user = &eve};

    harness_open(&h, NULL);
    EXPECT(harness_create(&h, &kind_podgroup, "default",
                          "{\"metadata\":{\"name\":\"g\"},\"spec\":{\"minMember\":1}}") == 0);
    EXPECT(harness_call(&h, &patch) < 0 && h.status == 403);
    patch.user = NULL;
    EXPECT(harness_call(&h, &patch) == 0);
    harness_close(&h);
}
