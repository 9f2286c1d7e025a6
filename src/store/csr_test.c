#include "api/api.h"
#include "api/kind.h"
#include "base/count.h"
#include "base/str.h"
#include "store/harness.h"
#include "test.h"

#include <stddef.h>
#include <string.h>

/* "-----BEGIN CERTIFICATE REQUEST-----" */
#define PEM       "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0="
#define GOOD      "\"request\":\"" PEM "\",\"usages\":[\"client auth\"],"
#define CSR(spec) "{\"metadata\":{\"name\":\"a\"},\"spec\":{" spec "}}"

static int update(struct harness *h, const char *part, const char *status)
{
    struct api_request request = {.verb = API_PATCH,
                                  .kind = &kind_csr,
                                  .name = STR("a"),
                                  .subresource = str_from(part),
                                  .patch = API_PATCH_MERGE,
                                  .body = str_from(status)};

    return harness_call(h, &request);
}

#define CONDITION(type) "{\"status\":{\"conditions\":[{\"type\":\"" type "\"}]}}"

TEST(a_request_for_a_certificate_says_who_asked)
{
    static const struct str groups[] = {STR("g")};
    struct api_user user = {.name = STR("jo"), .groups = groups, .group_count = 1};
    struct harness h;

    harness_open(&h, NULL);
    EXPECT(harness_call(&h, &(struct api_request){
                                .verb = API_CREATE,
                                .kind = &kind_csr,
                                .user = &user,
                                .body = STR(CSR(GOOD "\"signerName\":\"a.io/b\",\"username\":"
                                                     "\"eve\""))}) == 0);
    EXPECT(strcmp(harness_text(&h, "spec.username"), "jo") == 0);
    EXPECT(strcmp(harness_text(&h, "spec.groups.0"), "g") == 0);
    /* What was asked for stays. */
    EXPECT(harness_patch(
               &h, &kind_csr, "", "a",
               "{\"metadata\":{\"labels\":{\"x\":\"y\"}},\"spec\":{\"username\":\"eve\"}}") == 0);
    EXPECT(strcmp(harness_text(&h, "spec.username"), "jo") == 0);
    EXPECT(strcmp(harness_text(&h, "metadata.labels.x"), "y") == 0);
    harness_close(&h);
}

TEST(a_certificate_is_approved_where_approvals_are_made)
{
    struct harness h;

    harness_open(&h, NULL);
    EXPECT(harness_create(&h, &kind_csr, "", CSR(GOOD "\"signerName\":\"a.io/b\"")) == 0);
    EXPECT(update(&h, "status", CONDITION("Approved")) < 0 && h.status == 422);
    EXPECT(strstr(h.causes, "use the subresource approval"));
    EXPECT(update(&h, "approval", CONDITION("Approved")) == 0);
    EXPECT(strcmp(harness_text(&h, "status.conditions.0.status"), "True") == 0);
    EXPECT(harness_text(&h, "status.conditions.0.lastUpdateTime")[0]);
    EXPECT(update(&h, "approval", CONDITION("Denied")) < 0 && h.status == 422);
    EXPECT(strstr(h.causes, "may not remove"));
    EXPECT(update(&h, "status", "{\"status\":{\"certificate\":\"" PEM "\"}}") == 0);
    EXPECT(update(&h, "status", "{\"status\":{\"certificate\":\"AAAA\"}}") < 0);
    harness_close(&h);
}

TEST(who_approves_a_certificate_may_annotate_the_request)
{
    static const char *const parts[] = {"approval", "status"};

    for (size_t i = 0; i < COUNT_OF(parts); i++) {
        struct harness h;

        test_case(parts[i]);
        harness_open(&h, NULL);
        EXPECT(harness_create(&h, &kind_csr, "", CSR(GOOD "\"signerName\":\"a.io/b\"")) == 0);
        EXPECT(update(&h, parts[i],
                      "{\"metadata\":{\"annotations\":{\"by\":\"jo\"}},\"spec\":{\"signerName\":"
                      "\"a.io/c\"},\"status\":{\"conditions\":[{\"type\":\"Noted\"}]}}") == 0);
        EXPECT(strcmp(harness_text(&h, "metadata.annotations.by"), "jo") == 0);
        EXPECT(strcmp(harness_text(&h, "spec.signerName"), "a.io/b") == 0);
        EXPECT(strcmp(harness_text(&h, "status.conditions.0.type"), "Noted") == 0);
        harness_close(&h);
    }
}

TEST(a_request_for_a_certificate_is_refused_in_words)
{
    static const struct {
        const char *body;
        const char *words;
    } rows[] = {
        {CSR("\"usages\":[\"client auth\"],\"signerName\":\"a.io/b\""), "spec.request: Invalid"},
        {CSR("\"request\":\"AAAA\",\"usages\":[\"client auth\"],\"signerName\":\"a.io/b\""),
         "CERTIFICATE REQUEST"},
        {CSR(GOOD "\"expirationSeconds\":3600"), "spec.signerName: Required"},
        {CSR(GOOD "\"signerName\":\"nodomain\""), "example.com/signer-name"},
        {CSR(GOOD "\"signerName\":\"a.io/b\",\"expirationSeconds\":599"), "600 seconds"},
        {CSR("\"request\":\"" PEM "\",\"signerName\":\"a.io/b\""), "spec.usages: Required"},
        {CSR("\"request\":\"" PEM "\",\"signerName\":\"a.io/b\",\"usages\":[\"fun\"]"),
         "spec.usages[0]: Unsupported"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct harness h;

        test_case(rows[i].body);
        harness_open(&h, NULL);
        EXPECT(harness_create(&h, &kind_csr, "", rows[i].body) < 0 && h.status == 422);
        EXPECT(strstr(h.causes, rows[i].words));
        harness_close(&h);
    }
}
