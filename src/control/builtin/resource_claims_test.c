#include "api/kind.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/str.h"
#include "control/builtin/embedded_test.h"
#include "control/core/controllers.h"
#include "test.h"

#include <stddef.h>

/* Claims of devices: who gets one, who has it, and when it is free again. */

#define CLAIM_USER(name, uid) "{\"resource\":\"pods\",\"name\":\"" name "\",\"uid\":\"" uid "\"}"

static void put_claim_pod(struct stage *stage, const char *name, const char *status)
{
    put(stage, &kind_pod,
        str_printf(&stage->arena,
                   "{\"metadata\":{\"name\":\"%s\",\"namespace\":\"n\",\"uid\":\"u-%s\"},\"spec\":{"
                   "\"resourceClaims\":[{\"name\":\"gpu\",\"resourceClaimTemplateName\":\"t\"}]},"
                   "\"status\":{%s}}",
                   name, name, status)
            .p);
}

TEST(a_pod_that_names_a_template_gets_a_claim_of_its_own)
{
    _cleanup_(stage_close) struct stage stage;

    stage_open(&stage);
    put_claim_pod(&stage, "p", "");
    EXPECT(react(&stage, &resource_claims_controller, "n", "pod/p").len == 0);
    EXPECT(stage.actions.list.count == 1 && stage.actions.list.items[0].warning);
    put(&stage, &kind_claimtemplate,
        "{\"metadata\":{\"name\":\"t\",\"namespace\":\"n\"},\"spec\":{\"metadata\":{\"labels\":{"
        "\"a\":"
        "\"b\"}},\"spec\":{\"devices\":{\"requests\":[{\"name\":\"r\"}]}}}}");
    struct str text = react(&stage, &resource_claims_controller, "n", "pod/p");
    EXPECT(str_starts(text, STR("create resourceclaim/p-gpu-")));
    EXPECT(str_contains(text, STR("\"labels\":{\"a\":\"b\"}")));
    EXPECT(str_contains(text, STR("\"kind\":\"Pod\"")));
    EXPECT(str_contains(text, STR("\"spec\":{\"devices\":{\"requests\":[{\"name\":\"r\"}]}}")));
    EXPECT(str_contains(text, STR("status pod/p {\"status\":{\"resourceClaimStatuses\":[{\"name\":"
                                  "\"gpu\",\"resourceClaimName\":\"p-gpu-")));
    put_claim_pod(&stage, "over", "\"phase\":\"Succeeded\"");
    EXPECT(react(&stage, &resource_claims_controller, "n", "pod/over").len == 0);
}

TEST(pods_of_a_group_that_names_the_same_template_share_a_claim)
{
    _cleanup_(stage_close) struct stage stage;
    static const char member[] =
        "{\"metadata\":{\"name\":\"%s\",\"namespace\":\"n\",\"uid\":\"u-%s\"},\"spec\":{"
        "\"schedulingGroup\":{\"podGroupName\":\"g\"},\"resourceClaims\":[{\"name\":\"gpu\","
        "\"resourceClaimTemplateName\":\"t\"},{\"name\":\"own\",\"resourceClaimTemplateName\":"
        "\"t\"}]}}";
    const char *const names[] = {"p", "q"};
    struct str shared = STR_NONE;

    stage_open(&stage);
    put(&stage, &kind_claimtemplate,
        "{\"metadata\":{\"name\":\"t\",\"namespace\":\"n\"},\"spec\":{\"spec\":{}}}");
    for (size_t i = 0; i < 2; i++)
        put(&stage, &kind_pod, str_printf(&stage.arena, member, names[i], names[i]).p);
    /* Whose claim it is, is known when the group is there. */
    EXPECT(react(&stage, &resource_claims_controller, "n", "pod/p").len == 0);
    put(&stage, &kind_podgroup_k8s,
        "{\"metadata\":{\"name\":\"g\",\"namespace\":\"n\",\"uid\":\"u-g\"},\"spec\":{"
        "\"resourceClaims\":[{\"name\":\"gpu\",\"resourceClaimTemplateName\":\"t\"}]}}");
    for (size_t i = 0; i < 2; i++) {
        struct str text = react(&stage, &resource_claims_controller, "n", i ? "pod/q" : "pod/p");
        size_t at = 0;

        EXPECT(str_contains(text, STR("status podgroup/g {\"status\":{\"resourceClaimStatuses\":[{"
                                      "\"name\":\"gpu\",\"resourceClaimName\":\"g-gpu-")));
        EXPECT(str_contains(text, STR("create resourceclaim/g-gpu-")));
        EXPECT(str_contains(text, STR("\"kind\":\"PodGroup\"")));
        EXPECT(str_contains(text, i ? STR("create resourceclaim/q-own-")
                                    : STR("create resourceclaim/p-own-")));
        while (!str_starts(str_sub(text, at, text.len), STR("create resourceclaim/g-gpu-")))
            at++;
        struct str made = str_sub(text, at, sizeof("create resourceclaim/g-gpu-12345") - 1);
        EXPECT(!i || str_eq(made, shared)); /* the same for both */
        shared = str_dup(&stage.arena, made);
    }
}

TEST(a_claim_that_nobody_has_any_more_gives_its_devices_back)
{
    static const struct {
        const char *why;
        const char *users;
        const char *does;
    } rows[] = {
        {"its pod runs", CLAIM_USER("p", "u-p"), ""},
        {"one of two has ended", CLAIM_USER("p", "u-p") "," CLAIM_USER("over", "u-over"),
         "status resourceclaim/c {\"status\":{\"reservedFor\":[" CLAIM_USER("p", "u-p") "]}}\n"},
        {"another pod of that name", CLAIM_USER("p", "u-old"),
         "status resourceclaim/c {\"status\":{\"reservedFor\":[],\"allocation\":null}}\n"
         "patch resourceclaim/c {\"metadata\":{\"finalizers\":[\"mine\"]}}\n"},
        {"the pod is gone", CLAIM_USER("gone", "u"),
         "status resourceclaim/c {\"status\":{\"reservedFor\":[],\"allocation\":null}}\n"
         "patch resourceclaim/c {\"metadata\":{\"finalizers\":[\"mine\"]}}\n"},
        {"somebody else has it",
         "{\"apiGroup\":\"x.y\",\"resource\":\"things\",\"name\":\"t\",\"uid\":\"u\"}", ""},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(stage_close) struct stage stage;

        test_case(rows[i].why);
        stage_open(&stage);
        put_claim_pod(&stage, "p", "\"phase\":\"Running\"");
        put_claim_pod(&stage, "over", "\"phase\":\"Failed\"");
        put(&stage, &kind_resourceclaim,
            str_printf(
                &stage.arena,
                "{\"metadata\":{\"name\":\"c\",\"namespace\":\"n\",\"finalizers\":[\"mine\","
                "\"resource.kubernetes.io/delete-protection\"]},\"status\":{\"allocation\":{},"
                "\"reservedFor\":[%s]}}",
                rows[i].users)
                .p);
        EXPECT(str_is(react(&stage, &resource_claims_controller, "n", "claim/c"), rows[i].does));
    }
}

TEST(a_claim_that_is_about_to_be_given_devices_stays_protected)
{
    static const struct {
        const char *why;
        const char *more;
        const char *does;
    } rows[] = {
        {"nothing is given yet", "", ""},
        {"it is deleted instead", ",\"deletionTimestamp\":\"2026-01-01T00:00:00Z\"",
         "patch resourceclaim/c {\"metadata\":{\"finalizers\":[]}}\n"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(stage_close) struct stage stage;

        test_case(rows[i].why);
        stage_open(&stage);
        put(&stage, &kind_resourceclaim,
            str_printf(&stage.arena,
                       "{\"metadata\":{\"name\":\"c\",\"namespace\":\"n\",\"finalizers\":["
                       "\"resource.kubernetes.io/delete-protection\"]%s}}",
                       rows[i].more)
                .p);
        EXPECT(str_is(react(&stage, &resource_claims_controller, "n", "claim/c"), rows[i].does));
    }
}
