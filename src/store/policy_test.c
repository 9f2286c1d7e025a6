#include "api/api.h"
#include "api/kind.h"
#include "base/arena.h"
#include "base/json.h"
#include "base/str.h"
#include "base/yaml.h"
#include "store/harness.h"
#include "test.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* A text in YAML, created; returns what harness_create() does. */
static int create(struct harness *h, const struct kind *kind, const char *ns, const char *text)
{
    struct arena arena = {0};
    struct json *root = NULL;

    test_case(text);
    EXPECT(yaml_parse(&arena, str_from(text), &root, NULL) == 0);
    struct str body = json_text(&arena, root);
    int r = harness_create(h, kind, ns, str_c(&arena, body));
    arena_done(&arena);
    return r;
}

#define POLICY(name, rest)                                                                         \
    "metadata: {name: " name "}\n"                                                                 \
    "spec:\n"                                                                                      \
    "  matchConstraints:\n"                                                                        \
    "    resourceRules:\n"                                                                         \
    "    - {apiGroups: [''], apiVersions: [v1], operations: [CREATE, UPDATE, DELETE], resources: " \
    "[configmaps]}\n" rest

#define BINDING(name, actions, rest) \
    "metadata: {name: " name "}\n"   \
    "spec:\n"                        \
    "  policyName: " name "\n"       \
    "  validationActions: [" actions "]\n" rest

#define MAP(name, data) "metadata: {name: " name "}\ndata: {" data "}\n"

TEST(a_policy_refuses_what_its_validations_do_not_hold_for)
{
    struct harness h;

    harness_open(&h, NULL);
    EXPECT(
        create(&h, &kind_admissionpolicy, "",
               POLICY("small",
                      "  variables: [{name: count, expression: 'object.data.size()'}]\n"
                      "  matchConditions: [{name: x, expression: 'request.operation != "
                      "\"DELETE\"'}]\n"
                      "  validations:\n"
                      "  - {expression: 'variables.count < 2', messageExpression: '\"it has \" + "
                      "string(variables.count)'}\n"
                      "  - {expression: 'oldObject == null || has(object.data.a)', reason: "
                      "Forbidden}\n")) == 0);
    /* Without a binding it does nothing. */
    EXPECT(create(&h, &kind_configmap, "default", MAP("before", "a: '1', b: '2'")) == 0);
    EXPECT(create(&h, &kind_admissionbinding, "", BINDING("small", "Deny", "")) == 0);
    EXPECT(create(&h, &kind_configmap, "default", MAP("m", "a: '1', b: '2'")) < 0);
    EXPECT(h.status == 422 && strcmp(h.reason, "Invalid") == 0);
    EXPECT(strcmp(h.text, "configmaps \"m\" is forbidden: ValidatingAdmissionPolicy 'small' with "
                          "binding 'small' denied request: it has 2") == 0);
    EXPECT(create(&h, &kind_configmap, "default", MAP("m", "a: '1'")) == 0);
    EXPECT(harness_patch(&h, &kind_configmap, "default", "m",
                         "{\"data\":{\"a\":null,\"b\":\"1\"}}") < 0);
    EXPECT(h.status == 403);
    EXPECT(strstr(h.text, "failed expression: oldObject == null || has(object.data.a)"));
    /* What cannot be evaluated is refused, too: failurePolicy is Fail. */
    EXPECT(create(&h, &kind_configmap, "default", "metadata: {name: empty}") < 0);
    EXPECT(strstr(h.text, "resulted in error: no such key: data"));
    EXPECT(harness_delete(&h, &kind_configmap, "default", "before", NULL) == 0);
    EXPECT(create(&h, &kind_secret, "default", "metadata: {name: s}") == 0);
    harness_close(&h);
}

TEST(a_policy_warns_where_its_binding_says_so)
{
    struct harness h;

    harness_open(&h, NULL);
    EXPECT(create(&h, &kind_admissionpolicy, "",
                  POLICY("none",
                         "  validations: [{expression: 'false', message: think again}]\n")) == 0);
    EXPECT(create(&h, &kind_admissionbinding, "", BINDING("none", "Warn, Audit", "")) == 0);
    EXPECT(strstr(h.warnings, "Audit has no effect"));
    EXPECT(create(&h, &kind_configmap, "default", MAP("m", "a: '1'")) == 0);
    EXPECT(strcmp(h.warnings, "Validation failed for ValidatingAdmissionPolicy 'none' with binding "
                              "'none': think again") == 0);
    harness_close(&h);
}

TEST(a_policy_has_parameters_and_selects_its_objects)
{
    struct harness h;

    harness_open(&h, NULL);
    EXPECT(create(&h, &kind_admissionpolicy, "",
                  POLICY("most", "  paramKind: {apiVersion: v1, kind: Secret}\n"
                                 "  validations: [{expression: 'object.data.size() <= "
                                 "params.metadata.labels.size()'}]\n")) == 0);
    EXPECT(create(&h, &kind_admissionbinding, "",
                  BINDING("most", "Deny",
                          "  paramRef: {name: limit, parameterNotFoundAction: Deny}\n"
                          "  matchResources: {objectSelector: {matchLabels: {held: 'yes'}}}\n")) ==
           0);
    EXPECT(create(&h, &kind_configmap, "default",
                  "metadata: {name: m, labels: {held: 'yes'}}\ndata: {a: '1', b: '2'}") < 0);
    EXPECT(strstr(h.text, "no params found for policy binding"));
    EXPECT(create(&h, &kind_secret, "default", "metadata: {name: limit, labels: {a: b}}") == 0);
    EXPECT(create(&h, &kind_configmap, "default",
                  "metadata: {name: m, labels: {held: 'yes'}}\ndata: {a: '1', b: '2'}") < 0);
    EXPECT(strstr(h.text, "failed expression: object.data.size()"));
    EXPECT(create(&h, &kind_configmap, "default", MAP("m", "a: '1', b: '2'")) == 0);
    harness_close(&h);
}

TEST(a_policy_that_cannot_work_is_refused)
{
    struct harness h;

    harness_open(&h, NULL);
    EXPECT(create(&h, &kind_admissionpolicy, "",
                  POLICY("p", "  validations: [{expression: 'x >'}]\n")) < 0);
    EXPECT(h.status == 422 && strstr(h.causes, "spec.validations[0].expression"));
    EXPECT(create(&h, &kind_admissionpolicy, "",
                  POLICY("p", "  validations: [{expression: 'request.nothing == \"a\"'}]\n")) < 0);
    EXPECT(strstr(h.causes, "undefined field 'nothing'"));
    EXPECT(create(&h, &kind_admissionpolicy, "",
                  POLICY("p", "  validations: [{expression: 'params.x == 1'}]\n")) < 0);
    EXPECT(strstr(h.causes, "undeclared reference to 'params'"));
    EXPECT(create(&h, &kind_admissionpolicy, "", "metadata: {name: p}\nspec: {}") < 0);
    EXPECT(strstr(h.causes, "spec.matchConstraints.resourceRules: Required value"));
    EXPECT(create(&h, &kind_admissionbinding, "", BINDING("p", "Deny, Warn", "")) < 0);
    EXPECT(strstr(h.causes, "must not contain both Deny and Warn"));
    harness_close(&h);
}

TEST(a_collection_of_which_a_part_must_stay_says_so)
{
    struct harness h;

    harness_open(&h, NULL);
    EXPECT(create(&h, &kind_configmap, "default", MAP("a", "")) == 0);
    EXPECT(create(&h, &kind_configmap, "default", MAP("b", "")) == 0);
    EXPECT(create(&h, &kind_admissionpolicy, "",
                  POLICY("stay",
                         "  matchConditions: [{name: x, expression: 'request.operation == "
                         "\"DELETE\"'}]\n"
                         "  validations: [{expression: 'oldObject.metadata.name != \"a\"'}]\n")) ==
           0);
    EXPECT(create(&h, &kind_admissionbinding, "", BINDING("stay", "Deny", "")) == 0);
    EXPECT(harness_call(&h, &(struct api_request){.verb = API_DELETE_COLLECTION,
                                                  .kind = &kind_configmap,
                                                  .ns = STR("default")}) < 0);
    EXPECT(h.status == 422 && strstr(h.text, "\"a\" is forbidden"));
    EXPECT(harness_get(&h, &kind_configmap, "default", "a") == 0);
    EXPECT(harness_get(&h, &kind_configmap, "default", "b") < 0);
    harness_close(&h);
}

TEST(a_policy_knows_who_asks)
{
    static const struct str groups[] = {STR("team")};
    struct api_user user = {.name = STR("jo"), .groups = groups, .group_count = 1};
    struct api_request request = {.verb = API_CREATE,
                                  .kind = &kind_configmap,
                                  .ns = STR("default"),
                                  .body = STR("{\"metadata\":{\"name\":\"a\"}}"),
                                  .user = &user};
    struct harness h;

    harness_open(&h, NULL);
    EXPECT(create(&h, &kind_admissionpolicy, "",
                  POLICY("who", "  validations: [{expression: '\"team\" in "
                                "request.userInfo.groups'}]\n")) == 0);
    EXPECT(create(&h, &kind_admissionbinding, "", BINDING("who", "Deny", "")) == 0);
    EXPECT(harness_call(&h, &request) == 0);
    user.group_count = 0;
    request.body = STR("{\"metadata\":{\"name\":\"b\"}}");
    EXPECT(harness_call(&h, &request) < 0 && h.status == 422);
    harness_close(&h);
}

TEST(what_a_policy_kept_from_being_collected_goes_when_the_policy_does)
{
    struct harness h;
    struct arena arena = {0};

    harness_open(&h, NULL);
    EXPECT(create(&h, &kind_admissionpolicy, "",
                  POLICY("keep",
                         "  validations: [{expression: 'request.operation != \"DELETE\"'}]\n")) ==
           0);
    EXPECT(create(&h, &kind_admissionbinding, "", BINDING("keep", "Deny", "")) == 0);
    EXPECT(create(&h, &kind_secret, "default", "metadata: {name: owner}\n") == 0);
    struct str text =
        str_printf(&arena,
                   "metadata: {name: kept, ownerReferences: [{apiVersion: v1, kind: Secret, name: "
                   "owner, uid: %s}]}\n",
                   harness_text(&h, "metadata.uid"));
    EXPECT(create(&h, &kind_configmap, "default", text.p) == 0);
    EXPECT(harness_delete(&h, &kind_secret, "default", "owner", "") == 0);
    harness_settle(&h);
    EXPECT(harness_get(&h, &kind_configmap, "default", "kept") == 0);
    EXPECT(harness_delete(&h, &kind_admissionbinding, "", "keep", "") == 0);
    harness_settle(&h);
    EXPECT(harness_get(&h, &kind_configmap, "default", "kept") < 0);
    harness_close(&h);
    arena_done(&arena);
}

TEST(a_policy_with_many_parameters_costs_a_write_only_so_much)
{
    struct harness h;

    harness_open(&h, NULL);
    for (int i = 0; i < 150; i++) {
        char text[64];

        (void)snprintf(text, sizeof(text), "metadata: {name: p%d, labels: {part: many}}\n", i);
        EXPECT(create(&h, &kind_secret, "default", text) == 0);
    }
    EXPECT(create(&h, &kind_admissionpolicy, "",
                  POLICY("many", "  paramKind: {apiVersion: v1, kind: Secret}\n"
                                 "  validations: [{expression: 'true'}]\n")) == 0);
    EXPECT(create(&h, &kind_admissionbinding, "",
                  BINDING("many", "Deny",
                          "  paramRef: {selector: {matchLabels: {part: many}}, "
                          "parameterNotFoundAction: Deny}\n")) == 0);
    EXPECT(create(&h, &kind_configmap, "default", MAP("m", "a: '1'")) < 0);
    EXPECT(strstr(h.text, "more than 100 parameters"));
    for (int i = 100; i < 150; i++) {
        char name[16];

        (void)snprintf(name, sizeof(name), "p%d", i);
        EXPECT(harness_delete(&h, &kind_secret, "default", name, "") == 0);
    }
    EXPECT(create(&h, &kind_configmap, "default", MAP("m", "a: '1'")) == 0);
    harness_close(&h);
}
