#include "api/api.h"
#include "api/kind.h"
#include "base/arena.h"
#include "base/base64.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "cel/policy.h"
#include "hook/review.h"
#include "test.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#define CONFIGURATION                                                                             \
    "{\"metadata\":{\"name\":\"c\"},\"webhooks\":[{\"name\":\"none.a.io\"},{\"name\":\"w.a.io\"," \
    "\"rules\":[{\"operations\":[\"CREATE\"],\"apiGroups\":[\"\"],\"apiVersions\":[\"v1\"],"      \
    "\"resources\":[\"pods\"]}],\"failurePolicy\":\"Ignore\",\"timeoutSeconds\":3,"               \
    "\"objectSelector\":{\"matchLabels\":{\"a\":\"b\"}}}]}"

TEST(a_webhook_is_about_what_its_rules_and_selectors_say)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct json *root = NULL, *pod = NULL;
    struct hook hooks[4];

    EXPECT(json_parse(&arena, STR(CONFIGURATION), &root, NULL) == 0);
    EXPECT(json_parse(&arena, STR("{\"metadata\":{\"labels\":{\"a\":\"b\"}}}"), &pod, NULL) == 0);
    EXPECT(review_hooks(&arena, root, true, hooks, COUNT_OF(hooks)) == 1);
    EXPECT(str_is(hooks[0].name, "w.a.io") && hooks[0].ignore && hooks[0].timeout_seconds == 3);
    struct policy_request request = {.arena = &arena, .kind = &kind_pod, .operation = "CREATE"};
    EXPECT(policy_matches(&request, hooks[0].rules));
    EXPECT(!policy_matches(&request, hooks[0].match));
    request.object = pod;
    EXPECT(policy_matches(&request, hooks[0].match));
    request.operation = "DELETE";
    EXPECT(!policy_matches(&request, hooks[0].rules));
    request.operation = "CREATE";
    request.subresource = STR("status");
    EXPECT(!policy_matches(&request, hooks[0].rules));
    EXPECT(review_hooks(&arena, root, true, hooks, 0) == 0);
}

TEST(a_review_says_who_does_what_to_which_object)
{
    _cleanup_(arena_done) struct arena arena = {0};
    static const struct str groups[] = {STR("g")};
    struct api_user user = {.name = STR("jo"), .groups = groups, .group_count = 1};
    struct json *object = NULL, *root = NULL;

    EXPECT(json_parse(&arena, STR("{\"metadata\":{\"name\":\"a\"}}"), &object, NULL) == 0);
    struct policy_request request = {.arena = &arena,
                                     .kind = &kind_job,
                                     .ns = STR("n"),
                                     .name = STR("a"),
                                     .operation = "CREATE",
                                     .dry_run = true,
                                     .user = &user,
                                     .object = object};
    EXPECT(json_parse(&arena, review_write(&request, STR("u1")), &root, NULL) == 0);
    EXPECT(str_is(json_str_at(root, "request.uid"), "u1"));
    EXPECT(str_is(json_str_at(root, "request.kind.kind"), "Job"));
    EXPECT(str_is(json_str_at(root, "request.resource.resource"), "jobs"));
    EXPECT(str_is(json_str_at(root, "request.userInfo.username"), "jo"));
    EXPECT(str_is(json_str_at(root, "request.options.kind"), "CreateOptions"));
    EXPECT(json_is_null(json_at(root, "request.oldObject")));
    EXPECT(json_bool_or(json_at(root, "request.dryRun"), false));
    request.user = NULL;
    EXPECT(json_parse(&arena, review_write(&request, STR("u1")), &root, NULL) == 0);
    EXPECT(str_is(json_str_at(root, "request.userInfo.username"), "system:muster"));
}

#define HEAD   "{\"kind\":\"AdmissionReview\",\"apiVersion\":\"admission.k8s.io/v1\",\"response\":{"
#define ANSWER HEAD "\"uid\":\"u\","

TEST(an_answer_is_taken_or_refused_in_words)
{
    static const struct {
        const char *body;
        const char *words; /* of the failure, or of the refusal; NULL: allowed */
        bool failure;
        bool mutating;
    } rows[] = {
        {ANSWER "\"allowed\":true}}", NULL, false, true},
        {ANSWER "\"allowed\":false}}", "\"w\" denied the request without explanation", false, true},
        {ANSWER "\"allowed\":false,\"status\":{\"code\":418,\"message\":\"tea\"}}}",
         "\"w\" denied the request: tea", false, true},
        {"x", "not JSON", true, true},
        {"{}", "Kind=AdmissionReview", true, true},
        {HEAD "\"uid\":\"v\",\"allowed\":true}}", "response.uid", true, true},
        {ANSWER "\"allowed\":true,\"patchType\":\"Merge\",\"patch\":\"e30=\"}}", "patchType", true,
         true},
        {ANSWER "\"allowed\":true,\"patchType\":\"JSONPatch\",\"patch\":\"e30=\"}}", "JSON patch",
         true, true},
        {ANSWER "\"allowed\":true,\"patchType\":\"JSONPatch\",\"patch\":\"W10=\"}}",
         "validating webhook", true, false},
        {ANSWER "\"allowed\":true,\"patchType\":\"JSONPatch\",\"patch\":\"W10=\"}}", NULL, false,
         true},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct hook hook = {.name = STR("w"), .mutating = rows[i].mutating};
        struct review_answer answer = {0};
        struct err err = {0};

        test_case(rows[i].body);
        int r = review_read(&arena, &hook, STR("u"), str_from(rows[i].body), &answer, &err);
        EXPECT((r < 0) == rows[i].failure);
        if (r < 0)
            EXPECT(strstr(err.text, rows[i].words));
        else if (rows[i].words)
            EXPECT(!answer.allowed && answer.code >= 400 &&
                   str_contains(answer.message, str_from(rows[i].words)));
        else
            EXPECT(answer.allowed && !answer.patch);
    }
}
