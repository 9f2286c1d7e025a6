#include "api/account_volume.h"
#include "api/kind.h"
#include "base/count.h"
#include "store/harness.h"
#include "store/store.h"
#include "test.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* The volume of a ServiceAccount's token: which pods the store gives one. */

#define POD(name, spec)                                                          \
    "{\"metadata\":{\"name\":\"" name "\"},\"spec\":{\"containers\":[{\"name\":" \
    "\"c\",\"image\":\"i:1\"}]" spec "}}"

static bool has_volume(struct harness *h)
{
    const char *name = harness_text(h, "spec.volumes.0.name");
    const char *mounted = harness_text(h, "spec.containers.0.volumeMounts.0.name");

    return strncmp(name, ACCOUNT_VOLUME_PREFIX, strlen(ACCOUNT_VOLUME_PREFIX)) == 0 &&
           strlen(name) == strlen(ACCOUNT_VOLUME_PREFIX) + 5 && strcmp(name, mounted) == 0;
}

TEST(pods_get_the_volume_of_their_token_where_a_node_can_fill_it)
{
    static const struct {
        const char *pod;
        bool volume;
        const char *why;
    } rows[] = {
        {POD("a", ""), true, "its account comes, as every namespace gets one"},
        {POD("b", ",\"serviceAccountName\":\"shy\""), false, "the account does not want it"},
        {POD("c", ",\"serviceAccountName\":\"shy\",\"automountServiceAccountToken\":true"), true,
         "the pod does"},
        {POD("d", ",\"automountServiceAccountToken\":false"), false, "the pod does not"},
    };
    struct harness h;

    harness_open(&h, NULL);
    EXPECT(harness_create(&h, &kind_serviceaccount, "default",
                          "{\"metadata\":{\"name\":\"shy\"},\"automountServiceAccountToken\":"
                          "false}") == 0);
    EXPECT(harness_create(&h, &kind_pod, "default", POD("before", "")) == 0);
    EXPECT(!has_volume(&h));
    store_set_pod_tokens(h.store);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        test_case(rows[i].why);
        EXPECT(harness_create(&h, &kind_pod, "default", rows[i].pod) == 0);
        EXPECT(has_volume(&h) == rows[i].volume);
    }
    test_case("a template stays as it was written");
    EXPECT(harness_create(&h, &kind_deployment, "default",
                          "{\"metadata\":{\"name\":\"d\"},\"spec\":{\"selector\":{\"matchLabels\":"
                          "{\"app\":\"a\"}},\"template\":{\"metadata\":{\"labels\":{\"app\":\"a\"}}"
                          ",\"spec\":{\"containers\":[{\"name\":\"c\",\"image\":\"i:1\"}]}}}}") ==
           0);
    EXPECT(strcmp(harness_text(&h, "spec.template.spec.volumes"), "") == 0);
    test_case("one that exists is not touched");
    EXPECT(harness_patch(&h, &kind_pod, "default", "before",
                         "{\"metadata\":{\"labels\":{\"x\":\"y\"}}}") == 0);
    EXPECT(!has_volume(&h));
    harness_close(&h);
}
