#include "api/api.h"
#include "api/kind.h"
#include "base/str.h"
#include "store/harness.h"
#include "test.h"

#include <stddef.h>
#include <string.h>

#define POD(meta)                        \
    "{\"metadata\":{\"name\":\"p\"" meta \
    "},\"spec\":{\"containers\":[{\"name\":\"c\",\"image\":\"i\"}]}}"
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
