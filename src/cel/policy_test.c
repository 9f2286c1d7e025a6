#include "api/admit.h"
#include "api/kind.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/json.h"
#include "base/str.h"
#include "base/yaml.h"
#include "cel/policy.h"
#include "test.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

static struct json *parsed(struct arena *arena, const char *text)
{
    struct json *root = NULL;

    EXPECT(yaml_parse(arena, str_from(text), &root, NULL) == 0);
    return root;
}

/* ---- which requests ---- */

/* A ConfigMap of a namespace with labels, which is created. */
static struct policy_request creation(struct arena *arena)
{
    return (struct policy_request){
        .arena = arena,
        .kind = &kind_configmap,
        .ns = STR("team"),
        .name = STR("m"),
        .operation = "CREATE",
        .object = parsed(arena, "{metadata: {name: m, labels: {app: web}}, data: {a: '1'}}"),
        .ns_object = parsed(arena, "{metadata: {name: team, labels: {env: prod}}}"),
    };
}

#define RULE(rest) \
    "{resourceRules: [{apiGroups: [''], apiVersions: [v1], operations: ['*'], " rest "}]}"
#define MAPS RULE("resources: [configmaps]")

TEST(a_policy_is_about_the_requests_that_its_rules_name)
{
    static const struct {
        const char *match;
        bool matches;
    } rows[] = {
        {"{}", true},
        {MAPS, true},
        {RULE("resources: ['*']"), true},
        {RULE("resources: [pods, configmaps]"), true},
        {RULE("resources: [pods]"), false},
        {RULE("resources: [configmaps/status]"), false},
        {RULE("resources: ['configmaps/*']"), true},
        {RULE("resources: ['*/*']"), true},
        {RULE("resources: ['*/scale']"), false},
        {RULE("resources: [configmaps], scope: '*'"), true},
        {RULE("resources: [configmaps], scope: Namespaced"), true},
        {RULE("resources: [configmaps], scope: Cluster"), false},
        {RULE("resources: [configmaps], resourceNames: [m, other]"), true},
        {RULE("resources: [configmaps], resourceNames: [other]"), false},
        {RULE("resources: [configmaps], resourceNames: ['*']"), false},
        {"{resourceRules: [{apiGroups: [apps], apiVersions: [v1], operations: [CREATE], resources: "
         "['*']}]}",
         false},
        {"{resourceRules: [{apiGroups: ['*'], apiVersions: [v1], operations: [UPDATE, DELETE], "
         "resources: ['*']}]}",
         false},
        {"{resourceRules: [{apiGroups: ['*'], apiVersions: [v2], operations: [CREATE], resources: "
         "['*']}]}",
         true},
        {"{matchPolicy: Exact, resourceRules: [{apiGroups: ['*'], apiVersions: [v2], operations: "
         "[CREATE], resources: ['*']}]}",
         false},
        {"{matchPolicy: Exact, resourceRules: [{apiGroups: ['*'], apiVersions: ['*'], operations: "
         "[CREATE], resources: ['*']}]}",
         true},
        {"{excludeResourceRules: [{apiGroups: [''], apiVersions: [v1], operations: [CREATE], "
         "resources: [configmaps]}]}",
         false},
        {"{namespaceSelector: {matchLabels: {env: prod}}}", true},
        {"{namespaceSelector: {matchLabels: {env: test}}}", false},
        {"{namespaceSelector: {}}", true},
        {"{objectSelector: {matchLabels: {app: web}}}", true},
        {"{objectSelector: {matchLabels: {app: db}}}", false},
        {"{objectSelector: {matchExpressions: [{key: app, operator: NotIn, values: [web]}]}}",
         false},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct arena arena = {0};
        struct policy_request request = creation(&arena);

        test_case(rows[i].match);
        EXPECT(policy_matches(&request, parsed(&arena, rows[i].match)) == rows[i].matches);
        arena_done(&arena);
    }
}

TEST(a_policy_looks_at_what_was_there_and_at_the_labels_of_a_namespace_itself)
{
    struct arena arena = {0};
    struct policy_request request = creation(&arena);
    const struct json *web = parsed(&arena, "{objectSelector: {matchLabels: {app: web}}}");
    const struct json *prod = parsed(&arena, "{namespaceSelector: {matchLabels: {env: prod}}}");
    const struct json *other = parsed(&arena, "{metadata: {labels: {app: db, env: test}}}");

    request.old = request.object;
    request.object = other;
    request.operation = "UPDATE";
    EXPECT(policy_matches(&request, web)); /* it was selected before */
    request.old = NULL;
    EXPECT(!policy_matches(&request, web));
    request.old = other;
    request.object = NULL;
    request.operation = "DELETE";
    EXPECT(!policy_matches(&request, web));
    request.subresource = STR("status");
    EXPECT(!policy_matches(&request, parsed(&arena, MAPS)));
    EXPECT(policy_matches(&request, parsed(&arena, RULE("resources: [configmaps/status]"))));

    request.kind = &kind_node; /* in no namespace: never left out for one's labels */
    request.ns_object = NULL;
    EXPECT(policy_matches(&request, prod));
    request.kind = &kind_namespace;
    EXPECT(!policy_matches(&request, prod));
    request.object = parsed(&arena, "{metadata: {labels: {env: prod}}}");
    EXPECT(policy_matches(&request, prod));
    arena_done(&arena);
}

/* ---- what it says ---- */

static void expect_findings(const char *policy, const char *wanted)
{
    struct arena arena = {0};
    struct policy_request request = creation(&arena);
    struct policy_findings findings = {0};
    struct str text = STR("");

    test_case(policy);
    policy_evaluate(&request, parsed(&arena, policy), NULL, &findings);
    for (size_t i = 0; i < findings.count; i++)
        text = str_printf(&arena, STR_FMT STR_FMT ": " STR_FMT "\n", STR_ARG(text),
                          STR_ARG(findings.items[i].reason), STR_ARG(findings.items[i].message));
    EXPECT(str_is(text, wanted));
    if (!str_is(text, wanted))
        (void)fprintf(stderr, "got:    " STR_FMT "wanted: %s", STR_ARG(text), wanted);
    arena_done(&arena);
}

TEST(a_validation_that_fails_says_its_words)
{
    static const struct {
        const char *policy;
        const char *wanted;
    } rows[] = {
        {"spec: {validations: [{expression: 'object.data.a == \"1\"'}]}", ""},
        {"spec: {validations: [{expression: ' false '}]}", "Invalid: failed expression: false\n"},
        {"spec: {validations: [{expression: 'false', message: ' no ', reason: Forbidden}]}",
         "Forbidden: no\n"},
        {"spec: {validations: [{expression: 'false', message: m, messageExpression: '\"b\" + "
         "object.data.a'}]}",
         "Invalid: b1\n"},
        {"spec: {validations: [{expression: 'false', message: m, messageExpression: '\" \"'}]}",
         "Invalid: m\n"},
        {"spec: {validations: [{expression: 'false', message: m, messageExpression: "
         "'\"a\\nb\"'}]}",
         "Invalid: m\n"},
        {"spec: {validations: [{expression: 'false', message: m, messageExpression: "
         "'object.nope'}]}",
         "Invalid: m\n"},
        {"spec: {validations: [{expression: 'false', messageExpression: 'dyn(1)'}]}",
         "Invalid: failed expression: false\n"},
        {"spec: {validations: [{expression: 'object.nope'}]}",
         "Invalid: expression 'object.nope' resulted in error: no such key: nope\n"},
        {"spec: {validations: [{expression: 'dyn(1)'}]}",
         "Invalid: expression 'dyn(1)' resulted in error: it gives no bool\n"},
        {"spec: {failurePolicy: Ignore, validations: [{expression: 'object.nope'}, {expression: "
         "'false'}]}",
         "Invalid: failed expression: false\n"},
        {"spec: {matchConditions: [{name: c, expression: 'false'}], validations: [{expression: "
         "'false'}]}",
         ""},
        {"spec: {matchConditions: [{name: a, expression: 'object.nope'}, {name: b, expression: "
         "'false'}], validations: [{expression: 'false'}]}",
         ""},
        {"spec: {matchConditions: [{name: a, expression: 'object.nope'}], validations: "
         "[{expression: 'false'}]}",
         "Invalid: expression 'object.nope' resulted in error: no such key: nope\n"},
        {"spec: {failurePolicy: Ignore, matchConditions: [{name: a, expression: 'object.nope'}], "
         "validations: [{expression: 'false'}]}",
         ""},
        {"spec: {variables: [{name: a, expression: 'object.data.a'}, {name: b, expression: "
         "'variables.a + \"2\"'}], validations: [{expression: 'variables.b == \"12\"'}]}",
         ""},
        {"spec: {variables: [{name: a, expression: 'object.nope'}], validations: [{expression: "
         "'true'}, {expression: 'variables.a == 1'}]}",
         "Invalid: expression 'variables.a == 1' resulted in error: no such key: nope\n"},
        {"spec: {validations: [{expression: 'request.kind.kind == \"ConfigMap\" && "
         "request.resource.resource == \"configmaps\" && request.namespace == \"team\" && "
         "request.name == \"m\" && request.operation == \"CREATE\" && !request.dryRun && "
         "request.userInfo.username == \"system:muster\" && oldObject == null && "
         "namespaceObject.metadata.labels.env == \"prod\"'}]}",
         ""},
        {"spec: {paramKind: {apiVersion: v1, kind: ConfigMap}, validations: [{expression: 'params "
         "== null'}]}",
         ""},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++)
        expect_findings(rows[i].policy, rows[i].wanted);
}

TEST(a_policy_that_costs_too_much_ends)
{
    static const char dear[] =
        "spec: {validations: ["
        "{expression: '[1,2,3,4,5,6,7,8,9].all(a, [1,2,3,4,5,6,7,8,9].all(b, "
        "[1,2,3,4,5,6,7,8,9].all(c, [1,2,3,4,5,6,7,8,9].all(d, [1,2,3,4,5,6,7,8,9].all(e, "
        "[1,2,3,4,5,6,7,8,9].all(f, a + b + c + d + e + f > 0))))))'}]}";

    expect_findings(dear,
                    "Invalid: expression '[1,2,3,4,5,6,7,8,9].all(a, [1,2,3,4,5,6,7,8,9].all(b, "
                    "[1,2,3,4,5,6,7,8,9].all(c, [1,2,3,4,5,6,7,8,9].all(d, "
                    "[1,2,3,4,5,6,7,8,9].all(e, [1,2,3,4,5,6,7,8,9].all(f, a + b + c + d + e + f > "
                    "0))))))' resulted in error: operation cancelled: actual cost limit "
                    "exceeded\n");
}

/* ---- what may be written ---- */

struct written {
    const char *object;
    const char *causes; /* a line each */
    const char *warned;
};

static void expect_written(const struct written *row,
                           void (*check)(struct admit *admit, struct str *warnings))
{
    struct arena arena = {0};
    struct admit admit = {.arena = &arena, .object = parsed(&arena, row->object)};
    struct str warnings = STR("");
    struct str text = STR("");

    test_case(row->object);
    check(&admit, &warnings);
    for (size_t i = 0; i < admit.causes.count; i++)
        text = str_printf(&arena, STR_FMT STR_FMT ": " STR_FMT "\n", STR_ARG(text),
                          STR_ARG(admit.causes.items[i].field),
                          STR_ARG(admit.causes.items[i].message));
    EXPECT(str_is(text, row->causes));
    if (!str_is(text, row->causes))
        (void)fprintf(stderr, "got:    " STR_FMT "wanted: %s\n", STR_ARG(text), row->causes);
    EXPECT(str_is(warnings, row->warned ? row->warned : ""));
    arena_done(&arena);
}

#define POLICY(rest) "spec: {matchConstraints: " MAPS ", " rest "}"
#define GOOD         "validations: [{expression: 'true'}]"

TEST(a_policy_has_as_many_conditions_as_kubernetes_takes)
{
    for (size_t count = 64; count <= 65; count++) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct admit admit = {.arena = &arena, .object = parsed(&arena, POLICY(GOOD))};
        struct admit hooks = {.arena = &arena, .object = parsed(&arena, "webhooks: [{name: w}]")};
        struct str warnings = STR("");

        for (size_t i = 0; i < count; i++) {
            struct json *one = parsed(&arena, "{name: c, expression: 'true'}");
            struct json *spec = json_get(admit.object, "spec");
            struct json *hook = json_at(hooks.object, "webhooks.0");

            if (!i) {
                json_add_array(&arena, spec, "matchConditions");
                json_add_array(&arena, hook, "matchConditions");
            }
            json_push(json_get(spec, "matchConditions"), one);
            json_push(json_get(hook, "matchConditions"), json_clone(&arena, one));
        }
        policy_check(&admit, &warnings);
        policy_check_webhooks(&hooks, &warnings);
        EXPECT(admit.causes.count == count - 64 && hooks.causes.count == count - 64);
        if (count > 64) {
            EXPECT(str_is(admit.causes.items[0].field, "spec.matchConditions"));
            EXPECT(str_is(hooks.causes.items[0].field, "webhooks[0].matchConditions"));
        }
    }
}

TEST(a_policy_that_could_not_do_what_it_says_is_refused)
{
    static const struct written rows[] = {
        {POLICY(GOOD), "", NULL},
        {POLICY("failurePolicy: Ignore, " GOOD), "", NULL},
        {POLICY("validations: [{expression: 'true', messageExpression: '', message: '', reason: "
                "Unauthorized}]"),
         "", NULL},
        {"spec: {" GOOD "}", "spec.matchConstraints.resourceRules: Required value\n", NULL},
        {POLICY("validations: []"),
         "spec.validations: Required value: validations or auditAnnotations must be set\n"
         "spec.auditAnnotations: Required value: validations or auditAnnotations must be set\n",
         NULL},
        {"metadata: {name: p}\n" POLICY("auditAnnotations: [{key: a, valueExpression: '\"b\"'}]"),
         "", "spec.auditAnnotations have no effect: the audit log does not keep them"},
        {POLICY("validations: [{expression: ' '}]"),
         "spec.validations[0].expression: Required value: expression is not specified\n", NULL},
        {POLICY("validations: [{expression: '1'}]"),
         "spec.validations[0].expression: Invalid value: \"1\": must evaluate to bool but got "
         "int\n",
         NULL},
        {POLICY("validations: [{expression: 'true', messageExpression: '1'}]"),
         "spec.validations[0].messageExpression: Invalid value: \"1\": must evaluate to string but "
         "got int\n",
         NULL},
        {POLICY("validations: [{expression: 'true', messageExpression: 'x'}]"),
         "spec.validations[0].messageExpression: Invalid value: \"x\": compilation failed: ERROR: "
         "<input>:1:1: undeclared reference to 'x' (in container '')\n",
         NULL},
        {POLICY("validations: [{expression: 'true', message: ' '}]"),
         "spec.validations[0].message: Invalid value: \" \": message must be non-empty if "
         "specified\n",
         NULL},
        {POLICY("validations: [{expression: 'true', message: \"a\\nb\"}]"),
         "spec.validations[0].message: Invalid value: \"a\\nb\": message must not contain line "
         "breaks\n",
         NULL},
        {POLICY("variables: [{name: '', expression: '1'}, {name: a-b, expression: '1'}, {name: "
                "while, expression: '1'}, {name: 'true', expression: '1'}, {name: good_1, "
                "expression: '1'}, {name: .a, expression: '1'}], " GOOD),
         "spec.variables[0].name: Required value: name is not specified\n"
         "spec.variables[1].name: Invalid value: \"a-b\": name is not a valid CEL identifier\n"
         "spec.variables[2].name: Invalid value: \"while\": name is not a valid CEL identifier\n"
         "spec.variables[3].name: Invalid value: \"true\": name is not a valid CEL identifier\n"
         "spec.variables[5].name: Invalid value: \".a\": name is not a valid CEL identifier\n",
         NULL},
        {POLICY("variables: [{name: a, expression: 'variables.b'}, {name: b, expression: "
                "'variables.a'}, {name: c, expression: 'variables.c'}], validations: [{expression: "
                "'variables.b == 1'}, {expression: 'variables.d == 1'}]"),
         "spec.variables[0].expression: Invalid value: \"variables.b\": compilation failed: ERROR: "
         "<input>:1:10: undefined field 'b'\n"
         "spec.variables[2].expression: Invalid value: \"variables.c\": compilation failed: ERROR: "
         "<input>:1:10: undefined field 'c'\n"
         "spec.validations[1].expression: Invalid value: \"variables.d == 1\": compilation failed: "
         "ERROR: <input>:1:10: undefined field 'd'\n",
         NULL},
        {POLICY(
             "variables: [{name: a, expression: '1'}], matchConditions: [{name: a/b, expression: "
             "'variables.a == 1'}, {name: '', expression: 'true'}], " GOOD),
         "spec.matchConditions[0].expression: Invalid value: \"variables.a == 1\": compilation "
         "failed: ERROR: <input>:1:10: undefined field 'a'\n",
         NULL},
        {POLICY("variables: [{name: a, expression: '[1]'}, {name: b, expression: 'variables.a[0] > "
                "0'}], validations: [{expression: 'variables.b'}, {expression: 'variables.a'}, "
                "{expression: 'variables.a.all(x, x == object.x)'}]"),
         "spec.validations[1].expression: Invalid value: \"variables.a\": must evaluate to bool "
         "but "
         "got list(int)\n",
         NULL},
        {POLICY("validations: [{expression: 'object.spec.ok'}, {expression: 'request.name == 1'}, "
                "{expression: 'bool(object.spec.ok)'}]"),
         "spec.validations[0].expression: Invalid value: \"object.spec.ok\": must evaluate to bool "
         "but got dyn\n"
         "spec.validations[1].expression: Invalid value: \"request.name == 1\": compilation "
         "failed: "
         "ERROR: <input>:1:14: found no matching overload for '_==_' applied to '(string, int)'\n",
         NULL},
        {POLICY("paramKind: {}, " GOOD),
         "spec.paramKind.apiVersion: Required value\nspec.paramKind.kind: Required value\n", NULL},
        {POLICY("paramKind: {apiVersion: v1, kind: ConfigMap}, validations: [{expression: "
                "'params.data.x == \"1\"'}]"),
         "", NULL},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++)
        expect_written(&rows[i], policy_check);
}

TEST(a_binding_that_could_not_do_what_it_says_is_refused)
{
    static const struct written rows[] = {
        {"spec: {policyName: p, validationActions: [Deny]}", "", NULL},
        {"spec: {policyName: p, validationActions: [Warn, Audit]}", "",
         "spec.validationActions: Audit has no effect: the audit log does not have annotations"},
        {"spec: {policyName: p, validationActions: [Deny], paramRef: {name: ref, "
         "parameterNotFoundAction: Allow}}",
         "", NULL},
        {"spec: {policyName: p, validationActions: [Deny], paramRef: {selector: {}, "
         "parameterNotFoundAction: Deny}}",
         "", NULL},
        {"spec: {policyName: p, validationActions: [Deny], paramRef: {name: ref, selector: {}, "
         "parameterNotFoundAction: Deny}}",
         "spec.paramRef.name: Forbidden: name and selector are mutually exclusive\n"
         "spec.paramRef.selector: Forbidden: name and selector are mutually exclusive\n",
         NULL},
        {"spec: {policyName: p, validationActions: [Deny], paramRef: {}}",
         "spec.paramRef: Required value: one of name or selector must be specified\n", NULL},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        expect_written(&rows[i], policy_check_binding);
}

TEST(the_conditions_of_webhooks_are_compiled_and_rules_without_effect_are_told)
{
    static const struct written rows[] = {
        {"webhooks: [{matchConditions: [{name: a, expression: 'object != null'}]}, {rules: "
         "[{resources: [pods]}]}]",
         "", NULL},
        {"webhooks: [{}, {matchConditions: [{expression: 'x'}, {name: b, expression: '1'}]}]",
         "webhooks[1].matchConditions[0].expression: Invalid value: \"x\": compilation failed: "
         "ERROR: <input>:1:1: undeclared reference to 'x' (in container '')\n"
         "webhooks[1].matchConditions[1].expression: Invalid value: \"1\": must evaluate to bool "
         "but got int\n",
         NULL},
        {"webhooks: [{rules: [{resources: [pods/proxy, deployments/scale]}]}]", "",
         "webhooks are not asked here about pods/proxy\n"
         "webhooks are not asked here about deployments/scale"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++)
        expect_written(&rows[i], policy_check_webhooks);
}
