#include "api/api.h"
#include "api/kind.h"
#include "api/marks.h"
#include "base/arena.h"
#include "base/base64.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/err.h"
#include "base/json.h"
#include "base/json_make.h"
#include "base/str.h"
#include "base/yaml.h"
#include "cel/policy.h"
#include "hook/review.h"
#include "test.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
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
                                     .operation = "CREATE",
                                     .dry_run = true,
                                     .field_manager = STR("me"),
                                     .user = &user,
                                     .object = object};
    EXPECT(json_parse(&arena, review_write(&request, STR("u1")), &root, NULL) == 0);
    EXPECT(str_is(json_str_at(root, "request.uid"), "u1"));
    EXPECT(str_is(json_str_at(root, "request.kind.kind"), "Job"));
    EXPECT(str_is(json_str_at(root, "request.resource.resource"), "jobs"));
    EXPECT(str_is(json_str_at(root, "request.userInfo.username"), "jo"));
    EXPECT(str_is(json_str_at(root, "request.name"), "a"));
    EXPECT(str_is(json_str_at(root, "request.options.kind"), "CreateOptions"));
    EXPECT(str_is(json_str_at(root, "request.options.fieldManager"), "me"));
    EXPECT(str_is(json_str_at(root, "request.options.dryRun.0"), "All"));
    EXPECT(json_is_null(json_at(root, "request.oldObject")));
    EXPECT(json_bool_or(json_at(root, "request.dryRun"), false));
    request.user = NULL;
    EXPECT(json_parse(&arena, review_write(&request, STR("u1")), &root, NULL) == 0);
    EXPECT(str_is(json_str_at(root, "request.userInfo.username"), "system:muster"));
    request.operation = "DELETE";
    request.options = STR("{\"gracePeriodSeconds\":5}");
    EXPECT(json_parse(&arena, review_write(&request, STR("u1")), &root, NULL) == 0);
    EXPECT(str_is(json_str_at(root, "request.options.kind"), "DeleteOptions"));
    EXPECT(json_i64_or(json_at(root, "request.options.gracePeriodSeconds"), 0) == 5);
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

#define FILE_BYTES_MAX ((size_t)1 << 20)

/* The conditions under which the operator's webhook for marks is asked. */
static const struct json *marks_conditions(struct arena *arena)
{
    char *text = ARENA_ARRAY(arena, char, FILE_BYTES_MAX);
    const struct json *found = NULL;
    struct json_vec documents = {0};
    FILE *stream = fopen(DEPLOY_FOLDER "/webhooks.yaml", "re");

    EXPECT(stream != NULL);
    if (!stream)
        return NULL;
    size_t len = fread(text, 1, FILE_BYTES_MAX, stream);
    (void)fclose(stream);
    EXPECT(yaml_parse_all(arena, (struct str){text, len}, &documents, NULL) == 0);
    for (size_t i = 0; i < documents.count; i++)
        JSON_FOREACH(json_get(documents.items[i], "webhooks"), hook)
            if (str_is(json_str(json_get(hook, "name")), "marks.muster.dev"))
                found = json_get(hook, "matchConditions");
    return found;
}

static struct json *pod_with(struct arena *arena, const char *key)
{
    struct json *pod =
        json_make(arena, "{metadata: {name: 'p'}, spec: {schedulerName: 'kai-scheduler', "
                         "nodeName: 'n'}}");

    if (key) {
        json_add_c(arena, json_make_path(arena, pod, "metadata.annotations"), key, "1");
        json_add_c(arena, json_make_path(arena, pod, "metadata.labels"), key, "1");
    }
    return pod;
}

TEST(a_cluster_asks_about_every_mark_that_somebody_else_changes_and_nothing_more)
{
    _cleanup_(arena_done) struct arena arena = {0};
    const struct json *conditions = marks_conditions(&arena);
    const struct api_user eve = {.name = STR("eve")};
    const struct api_user ours = {.name =
                                      STR("system:serviceaccount:muster-system:muster-operator")};
    static const struct str masters[] = {STR("people"), STR("system:masters")};
    const struct api_user admin = {.name = STR("admin"), .groups = masters, .group_count = 2};
    struct str words = STR_NONE;

    EXPECT(json_count(conditions) == 3);
    for (size_t i = 0; marks_key(i); i++) {
        struct json *bare = pod_with(&arena, NULL);
        struct json *marked = pod_with(&arena, marks_key(i));
        struct policy_request write = {.arena = &arena,
                                       .kind = &kind_pod,
                                       .name = STR("p"),
                                       .operation = "UPDATE",
                                       .user = &eve,
                                       .object = marked,
                                       .old = bare};

        test_case(marks_key(i));
        EXPECT(policy_conditions(&write, conditions, &words) == 1); /* put there */
        write.user = &ours;
        EXPECT(policy_conditions(&write, conditions, &words) == 0);
        write.user = &admin;
        EXPECT(policy_conditions(&write, conditions, &words) == 0);
        write.user = &eve;
        write.object = bare;
        write.old = marked;
        EXPECT(policy_conditions(&write, conditions, &words) == 1); /* taken off */
        write.object = marked;
        EXPECT(policy_conditions(&write, conditions, &words) == 0); /* left */
    }
    struct policy_request made = {
        .arena = &arena, .kind = &kind_pod, .operation = "CREATE", .user = &eve};
    made.object = pod_with(&arena, NULL);
    EXPECT(policy_conditions(&made, conditions, &words) == 0);
    made.object = pod_with(&arena, "gpu-fraction"); /* a wish */
    EXPECT(policy_conditions(&made, conditions, &words) == 0);
    made.object = pod_with(&arena, "torchrun.ai/gpu-devices");
    EXPECT(policy_conditions(&made, conditions, &words) == 1);
    json_add_c(&arena, json_get(made.object, "spec"), "schedulerName", "another");
    EXPECT(policy_conditions(&made, conditions, &words) == 0);
    made.user = &ours;
    made.object = pod_with(&arena, "torchrun.ai/gpu-devices");
    EXPECT(policy_conditions(&made, conditions, &words) == 0);
    (void)json_push(json_add_array(&arena, json_get(made.object, "metadata"), "ownerReferences"),
                    json_make(&arena, "{kind: 'Job', name: 'j'}"));
    EXPECT(policy_conditions(&made, conditions, &words) == 1); /* of a template */
}
