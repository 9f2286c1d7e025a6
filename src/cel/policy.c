#include "cel/policy.h"

#include "api/admit.h"
#include "api/kind.h"
#include "api/names.h"
#include "api/schema.h"
#include "api/selector.h"
#include "base/arena.h"
#include "base/count.h"
#include "base/err.h"
#include "base/json.h"
#include "base/json_make.h"
#include "base/str.h"
#include "base/vec.h"
#include "cel/cel.h"
#include "cel/typed.h"
#include "cel/value.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* ---- matching ---- */

static bool list_names(const struct json *list, struct str text)
{
    JSON_FOREACH(list, item)
        if (str_eq(json_str(item), text))
            return true;
    return false;
}

static bool list_has(const struct json *list, struct str text)
{
    return list_names(list, STR("*")) || list_names(list, text);
}

/* "pods", "pods/status", "pods/ *", "* /status" or "*", without the blanks. */
static bool names_resource(struct str rule, const struct policy_request *request)
{
    size_t slash = str_find(rule, '/');
    struct str resource = str_sub(rule, 0, slash);
    struct str subresource = str_sub(rule, slash + 1, rule.len);
    bool has_part = slash < rule.len;

    if (!str_is(resource, "*") && !str_is(resource, request->kind->plural))
        return false;
    if (!has_part)
        return !request->subresource.len;
    return str_is(subresource, "*") || str_eq(subresource, request->subresource);
}

static bool rule_matches(const struct policy_request *request, const struct json *rule, bool exact)
{
    struct str scope = json_str(json_get(rule, "scope"));
    const struct json *names = json_get(rule, "resourceNames");
    bool resource = false;

    JSON_FOREACH(json_get(rule, "resources"), item)
        resource |= names_resource(json_str(item), request);
    if (!resource || !list_has(json_get(rule, "operations"), str_from(request->operation)) ||
        !list_has(json_get(rule, "apiGroups"), str_from(request->kind->group)))
        return false;
    /* Versions of one kind differ in nothing but their name here. */
    if (exact && !list_has(json_get(rule, "apiVersions"), str_from(request->kind->version)))
        return false;
    if (json_count(names) && !list_names(names, request->name))
        return false;
    return !scope.len || str_is(scope, "*") ||
           str_is(scope, "Namespaced") == request->kind->namespaced;
}

static bool any_rule(const struct policy_request *request, const struct json *rules, bool exact)
{
    JSON_FOREACH(rules, rule)
        if (rule_matches(request, rule, exact))
            return true;
    return false;
}

static bool selects(struct arena *arena, const struct json *selector, const struct json *object)
{
    struct selector parsed = {0};

    return selector_from_json(arena, selector, &parsed, NULL) == 0 &&
           selector_matches_json(&parsed, json_at(object, "metadata.labels"));
}

bool policy_matches(const struct policy_request *request, const struct json *match)
{
    const struct json *rules = json_get(match, "resourceRules");
    const struct json *spaces = json_get(match, "namespaceSelector");
    const struct json *objects = json_get(match, "objectSelector");
    bool exact = str_is(json_str(json_get(match, "matchPolicy")), "Exact");

    if (any_rule(request, json_get(match, "excludeResourceRules"), exact))
        return false;
    if (json_count(rules) && !any_rule(request, rules, exact))
        return false;
    /* A namespace is selected by its own labels, what is in none always. */
    const struct json *space = request->kind == &kind_namespace
                                   ? (request->object ? request->object : request->old)
                                   : request->ns_object;
    if (json_count(spaces) && space && !selects(request->arena, spaces, space))
        return false;
    return !json_count(objects) ||
           (request->object && selects(request->arena, objects, request->object)) ||
           (request->old && selects(request->arena, objects, request->old));
}

/* ---- expressions ---- */

enum {
    OBJECT,
    OLD_OBJECT,
    REQUEST,
    PARAMS,
    NAMESPACE_OBJECT,
    VARIABLES,
    COUNT,
};

/* What is known of a request here. */
static const char request_schema[] =
    "{\"type\":\"object\",\"properties\":{"
    "\"kind\":{\"type\":\"object\",\"properties\":{\"group\":{\"type\":\"string\"},"
    "\"version\":{\"type\":\"string\"},\"kind\":{\"type\":\"string\"}}},"
    "\"resource\":{\"type\":\"object\",\"properties\":{\"group\":{\"type\":\"string\"},"
    "\"version\":{\"type\":\"string\"},\"resource\":{\"type\":\"string\"}}},"
    "\"subResource\":{\"type\":\"string\"},\"name\":{\"type\":\"string\"},"
    "\"namespace\":{\"type\":\"string\"},\"operation\":{\"type\":\"string\"},"
    "\"dryRun\":{\"type\":\"boolean\"},"
    "\"userInfo\":{\"type\":\"object\",\"properties\":{\"username\":{\"type\":\"string\"},"
    "\"uid\":{\"type\":\"string\"},\"groups\":{\"type\":\"array\",\"items\":{\"type\":"
    "\"string\"}}}}}}";

struct scope {
    struct arena *arena;
    struct cel_variable variables[COUNT];
    struct cel_value values[COUNT];
    struct typed_field *fields; /* of `variables`: those that were compiled */
    bool loose; /* what is compiled was taken before, maybe when less was known of types */
};

static void scope_declare(struct scope *scope, struct arena *arena, bool has_params)
{
    struct json *source = NULL;
    const struct schema *schema = NULL;

    (void)json_parse(arena, str_from(request_schema), &source, NULL);
    (void)schema_compile(arena, source, &schema, NULL);
    *scope = (struct scope){
        .arena = arena,
        .variables = {[OBJECT] = {.name = "object"},
                      [OLD_OBJECT] = {.name = "oldObject"},
                      [REQUEST] = {.name = "request", .schema = schema},
                      /* Without a paramKind there are none, and nothing may name them. */
                      [PARAMS] = {.name = has_params ? "params" : "(no params)"},
                      [NAMESPACE_OBJECT] = {.name = "namespaceObject"},
                      [VARIABLES] = {.name = "variables", .type = CEL_MAP}}};
    for (size_t i = 0; i < COUNT; i++)
        scope->values[i] = cel_null();
}

/* variables.NAME of the first `count` of what was compiled; others are not there. */
static void scope_name(struct scope *scope, size_t count)
{
    struct typed *typed = ARENA_NEW(scope->arena, struct typed);

    *typed = (struct typed){
        .type = CEL_MAP, .object = true, .fields = scope->fields, .field_count = count};
    scope->variables[VARIABLES].typed = typed;
}

static int scope_compile(const struct scope *scope,
                         struct str text,
                         struct cel_program **ret,
                         struct err *err)
{
    return cel_compile(&(struct cel_compile){.arena = scope->arena,
                                             .text = text,
                                             .variables = scope->variables,
                                             .variable_count = COUNT,
                                             .loose = scope->loose},
                       ret, err);
}

/* An error where it does not compile, too. */
static struct cel_value scope_evaluate(const struct scope *scope, struct str text, int64_t *budget)
{
    struct cel_program *program = NULL;
    struct err err = {0};

    if (scope_compile(scope, text, &program, &err) < 0)
        return cel_error(str_dup(scope->arena, str_from(err.text)));
    if (*budget <= 0)
        return cel_error(STR("validation failed due to running out of cost budget, no further "
                             "validation rules will be run"));
    struct cel_result result = cel_evaluate(program, scope->arena, scope->values, CEL_COST_MAX);
    *budget -= (int64_t)result.cost;
    return result.value;
}

struct json *policy_user(struct arena *arena, const struct api_user *user)
{
    static const struct str own_groups[] = {STR("system:masters"), STR("system:authenticated")};
    static const struct api_user own = {
        .name = STR("system:muster"), .groups = own_groups, .group_count = COUNT_OF(own_groups)};
    struct json *root = json_new_object(arena);

    if (!user)
        user = &own;
    json_add_str(arena, root, "username", user->name);
    if (user->uid.len)
        json_add_str(arena, root, "uid", user->uid);
    struct json *groups = json_add_array(arena, root, "groups");
    for (size_t i = 0; i < user->group_count; i++)
        (void)json_push(groups, json_new_str(arena, user->groups[i]));
    return root;
}

static struct json *request_json(const struct policy_request *request)
{
    struct arena *arena = request->arena;
    struct json *root = json_new_object(arena);
    struct json *kind = json_add_object(arena, root, "kind");
    struct json *resource = json_add_object(arena, root, "resource");

    json_fill(arena, kind, "{group: $, version: $, kind: $}", request->kind->group,
              request->kind->version, request->kind->name);
    json_fill(arena, resource, "{group: $, version: $, resource: $}", request->kind->group,
              request->kind->version, request->kind->plural);
    json_fill(arena, root,
              "{subResource: $, name: $, namespace: $, operation: $, dryRun: $, userInfo: $}",
              request->subresource.p ? request->subresource : STR(""),
              request->name.p ? request->name : STR(""), request->ns.p ? request->ns : STR(""),
              request->operation, request->dry_run, policy_user(arena, request->user));
    return root;
}

/* variables.NAME: an error is one where it is used. Each sees those before it. */
static void scope_variables(struct scope *scope, const struct json *list, int64_t *budget)
{
    struct cel_entry *entries = ARENA_ARRAY(scope->arena, struct cel_entry, json_count(list));
    size_t count = 0;

    scope->values[VARIABLES] = cel_new_map(scope->arena, entries, 0);
    JSON_FOREACH(list, variable) {
        struct cel_value value =
            scope_evaluate(scope, json_str(json_get(variable, "expression")), budget);

        entries[count++] =
            (struct cel_entry){cel_string(json_str(json_get(variable, "name"))), value};
        scope->values[VARIABLES] = cel_new_map(scope->arena, entries, count);
    }
}

static void add_finding(struct arena *arena,
                        struct policy_findings *findings,
                        struct str reason,
                        struct str message)
{
    VEC_PUSH(arena, findings,
             (struct policy_finding){.message = message,
                                     .reason = reason.len ? reason : STR("Invalid")});
}

static struct str error_words(struct arena *arena, struct str expression, struct cel_value value)
{
    struct str why = value.type == CEL_ERROR ? value.s : STR("it gives no bool");

    return str_printf(arena, "expression '" STR_FMT "' resulted in error: " STR_FMT,
                      STR_ARG(str_trim(expression)), STR_ARG(why));
}

/* What a validation that failed says. */
static struct str failed_words(const struct scope *scope,
                               const struct json *validation,
                               int64_t *budget)
{
    struct str expression = json_str(json_get(validation, "messageExpression"));
    struct str message = str_trim(json_str(json_get(validation, "message")));

    if (expression.len) {
        struct cel_value words = scope_evaluate(scope, expression, budget);
        struct str text = words.type == CEL_STRING ? str_trim(words.s) : STR("");

        if (text.len && text.len <= 5120 && str_find(text, '\n') == text.len)
            return str_utf8(scope->arena, text);
    }
    return message.len
               ? message
               : str_printf(scope->arena, "failed expression: " STR_FMT,
                            STR_ARG(str_trim(json_str(json_get(validation, "expression")))));
}

/* 1: all hold; 0: one does not; -1: one could not be evaluated, and *ret_words says why. */
static int conditions_hold(const struct scope *scope,
                           const struct json *list,
                           struct str *ret_words)
{
    int64_t budget = CEL_COST_CONDITIONS;
    int result = 1;

    JSON_FOREACH(list, condition) {
        struct str text = json_str(json_get(condition, "expression"));
        struct cel_value value = scope_evaluate(scope, text, &budget);

        if (value.type == CEL_BOOL && !value.truth)
            return 0;
        if (value.type != CEL_BOOL) {
            result = -1;
            *ret_words = error_words(scope->arena, text, value);
        }
    }
    return result;
}

static void scope_take(struct scope *scope, const struct policy_request *request)
{
    struct arena *arena = request->arena;

    scope->loose = true;
    scope->values[OBJECT] = cel_from_json(arena, request->object, NULL);
    scope->values[OLD_OBJECT] = cel_from_json(arena, request->old, NULL);
    scope->values[REQUEST] = cel_from_json(arena, request_json(request), NULL);
    scope->values[NAMESPACE_OBJECT] = cel_from_json(arena, request->ns_object, NULL);
}

int policy_conditions(const struct policy_request *request,
                      const struct json *conditions,
                      struct str *ret_words)
{
    if (!json_count(conditions))
        return 1;
    struct scope *scope = ARENA_NEW(request->arena, struct scope);
    scope_declare(scope, request->arena, false);
    scope_take(scope, request);
    return conditions_hold(scope, conditions, ret_words);
}

void policy_evaluate(const struct policy_request *request,
                     const struct json *policy,
                     const struct json *params,
                     struct policy_findings *findings)
{
    struct arena *arena = request->arena;
    const struct json *spec = json_get(policy, "spec");
    bool ignore = str_is(json_str(json_get(spec, "failurePolicy")), "Ignore");
    struct scope *scope = ARENA_NEW(arena, struct scope);
    int64_t budget = CEL_COST_BUDGET;
    struct str words = STR_NONE;

    scope_declare(scope, arena, json_get(spec, "paramKind") != NULL);
    scope_take(scope, request);
    scope->values[PARAMS] = cel_from_json(arena, params, NULL);
    int hold = conditions_hold(scope, json_get(spec, "matchConditions"), &words);
    if (hold < 0 && !ignore)
        add_finding(arena, findings, STR(""), words);
    if (hold <= 0)
        return;
    scope_variables(scope, json_get(spec, "variables"), &budget);
    JSON_FOREACH(json_get(spec, "validations"), validation) {
        struct str text = json_str(json_get(validation, "expression"));
        struct cel_value value = scope_evaluate(scope, text, &budget);

        if (value.type != CEL_BOOL && !ignore)
            add_finding(arena, findings, STR(""), error_words(arena, text, value));
        else if (value.type == CEL_BOOL && !value.truth)
            add_finding(arena, findings, json_str(json_get(validation, "reason")),
                        failed_words(scope, validation, &budget));
    }
}

/* ---- what may be written ---- */

static void warn(struct arena *arena, struct str *warnings, const char *words)
{
    *warnings =
        str_printf(arena, STR_FMT "%s%s", STR_ARG(*warnings), warnings->len ? "\n" : "", words);
}

/* What it gives: dyn, where it is wrong. */
static const struct typed *check_expression(struct admit *admit,
                                            const struct scope *scope,
                                            const struct json *value,
                                            struct str path,
                                            enum cel_type wanted)
{
    struct cel_program *program = NULL;
    struct err err = {0};

    if (!str_trim(json_str(value)).len) {
        admit_required(admit, path, "expression is not specified");
        return typed_simple(CEL_DYN);
    }
    if (scope_compile(scope, json_str(value), &program, &err) < 0)
        admit_invalid(admit, path, value,
                      str_printf(admit->arena, "compilation failed: %s", err.text).p);
    else if (wanted != CEL_DYN && program->result != wanted &&
             !(scope->loose && program->result == CEL_DYN))
        admit_invalid(admit, path, value,
                      str_printf(admit->arena, "must evaluate to " STR_FMT " but got " STR_FMT,
                                 STR_ARG(cel_type_name(wanted)),
                                 STR_ARG(typed_text(admit->arena, program->typed)))
                          .p);
    return program ? program->typed : typed_simple(CEL_DYN);
}

static void check_list(struct admit *admit,
                       const struct scope *scope,
                       const char *list,
                       const char *member,
                       enum cel_type wanted)
{
    size_t index = 0;

    JSON_FOREACH(json_get(json_get(admit->object, "spec"), list), item) {
        struct str path = str_printf(admit->arena, "spec.%s[%zu].%s", list, index++, member);
        const struct json *value = json_get(item, member);

        /* No messageExpression is none. */
        if (json_str(value).len || wanted != CEL_STRING)
            (void)check_expression(admit, scope, value, path, wanted);
    }
}

/* What is said of a validation that failed. */
static void check_told(struct admit *admit)
{
    size_t index = 0;

    JSON_FOREACH(json_at(admit->object, "spec.validations"), validation) {
        struct str path = str_printf(admit->arena, "spec.validations[%zu].message", index++);
        const struct json *message = json_get(validation, "message");
        struct str words = str_trim(json_str(message));

        if (json_str(message).len && !words.len)
            admit_invalid(admit, path, message, "message must be non-empty if specified");
        else if (str_find(words, '\n') < words.len)
            admit_invalid(admit, path, message, "message must not contain line breaks");
    }
}

/* Each sees those before it. */
static void check_variables(struct admit *admit, struct scope *scope)
{
    const struct json *list = json_at(admit->object, "spec.variables");
    size_t index = 0;

    scope->fields = ARENA_ARRAY(admit->arena, struct typed_field, json_count(list));
    JSON_FOREACH(list, variable) {
        struct str path = str_printf(admit->arena, "spec.variables[%zu].name", index);
        const struct json *name = json_get(variable, "name");

        scope_name(scope, index);
        scope->fields[index] = (struct typed_field){
            json_str(name),
            check_expression(admit, scope, json_get(variable, "expression"),
                             str_printf(admit->arena, "spec.variables[%zu].expression", index),
                             CEL_DYN)};
        index++;

        if (!json_str(name).len)
            admit_required(admit, path, "name is not specified");
        else if (!cel_is_name(json_str(name)))
            admit_invalid(admit, path, name, "name is not a valid CEL identifier");
    }
}

#define CONDITIONS_MAX 64 /* as Kubernetes has it: each is evaluated with every write */

static void check_condition_count(struct admit *admit, const struct json *list, struct str path)
{
    if (json_count(list) > CONDITIONS_MAX)
        admit_forbidden(admit, path,
                        str_printf(admit->arena, "%zu conditions; must have at most %d items",
                                   json_count(list), CONDITIONS_MAX)
                            .p);
}

/* Annotations that a policy would have the audit log keep: their names begin with the policy's. */
static void check_annotations(struct admit *admit, const struct scope *scope)
{
    struct str policy = json_str_at(admit->object, "metadata.name");
    size_t index = 0;

    JSON_FOREACH(json_at(admit->object, "spec.auditAnnotations"), annotation) {
        struct str path = str_printf(admit->arena, "spec.auditAnnotations[%zu]", index++);
        const struct json *key = json_get(annotation, "key");
        const struct json *value = json_get(annotation, "valueExpression");
        const char *wrong = names_qualified(
            str_printf(admit->arena, STR_FMT "/" STR_FMT, STR_ARG(policy), STR_ARG(json_str(key))));

        if (wrong)
            admit_invalid(admit, str_printf(admit->arena, STR_FMT ".key", STR_ARG(path)), key,
                          wrong);
        path = str_printf(admit->arena, STR_FMT ".valueExpression", STR_ARG(path));
        if (json_str(value).len)
            (void)check_expression(admit, scope, value, path, CEL_STRING);
    }
}

static void check_param_kind(struct admit *admit, const struct json *kind)
{
    if (json_is_null(kind))
        return;
    if (!json_str(json_get(kind, "apiVersion")).len)
        admit_required(admit, STR("spec.paramKind.apiVersion"), "");
    if (!json_str(json_get(kind, "kind")).len)
        admit_required(admit, STR("spec.paramKind.kind"), "");
}

void policy_check(struct admit *admit, struct str *warnings)
{
    const struct json *spec = json_get(admit->object, "spec");
    struct scope *scope = ARENA_NEW(admit->arena, struct scope);

    scope_declare(scope, admit->arena, json_get(spec, "paramKind") != NULL);
    scope->loose = admit->old && json_equal(json_get(admit->old, "spec"), spec);
    check_param_kind(admit, json_get(spec, "paramKind"));
    if (!json_count(json_at(spec, "matchConstraints.resourceRules")))
        admit_required(admit, STR("spec.matchConstraints.resourceRules"), "");
    if (!json_count(json_get(spec, "validations")) &&
        !json_count(json_get(spec, "auditAnnotations"))) {
        admit_required(admit, STR("spec.validations"),
                       "validations or auditAnnotations must be set");
        admit_required(admit, STR("spec.auditAnnotations"),
                       "validations or auditAnnotations must be set");
    }
    scope_name(scope, 0); /* conditions are before them */
    check_list(admit, scope, "matchConditions", "expression", CEL_BOOL);
    check_condition_count(admit, json_get(spec, "matchConditions"), STR("spec.matchConditions"));
    check_variables(admit, scope);
    scope_name(scope, json_count(json_get(spec, "variables")));
    check_list(admit, scope, "validations", "expression", CEL_BOOL);
    check_list(admit, scope, "validations", "messageExpression", CEL_STRING);
    check_told(admit);
    check_annotations(admit, scope);
    if (json_count(json_get(spec, "auditAnnotations")))
        warn(admit->arena, warnings,
             "spec.auditAnnotations have no effect: the audit log does not keep them");
}

static void check_param_ref(struct admit *admit, const struct json *ref)
{
    bool named = json_str(json_get(ref, "name")).len > 0;
    bool chosen = !json_is_null(json_get(ref, "selector"));

    if (json_is_null(ref))
        return;
    if (named && chosen) {
        admit_forbidden(admit, STR("spec.paramRef.name"),
                        "name and selector are mutually exclusive");
        admit_forbidden(admit, STR("spec.paramRef.selector"),
                        "name and selector are mutually exclusive");
    } else if (!named && !chosen) {
        admit_required(admit, STR("spec.paramRef"), "one of name or selector must be specified");
    }
}

void policy_check_binding(struct admit *admit, struct str *warnings)
{
    const struct json *spec = json_get(admit->object, "spec");
    const struct json *actions = json_get(spec, "validationActions");

    if (list_names(actions, STR("Audit")))
        warn(admit->arena, warnings,
             "spec.validationActions: Audit has no effect: the audit log does not have "
             "annotations");
    if (list_names(actions, STR("Deny")) && list_names(actions, STR("Warn")))
        admit_invalid(admit, STR("spec.validationActions"), actions,
                      "must not contain both Deny and Warn (repeating the same validation failure "
                      "information in the API response and headers serves no purpose)");
    check_param_ref(admit, json_get(spec, "paramRef"));
}

/* A rule that names nothing but what is not asked here would be taken for a promise. */
static void warn_of_rules(struct admit *admit, const struct json *webhook, struct str *warnings)
{
    static const char *const parts[] = {"pods/proxy", "services/proxy", "pods/binding", "bindings",
                                        "pods/eviction"};

    JSON_FOREACH(json_get(webhook, "rules"), rule) {
        JSON_FOREACH(json_get(rule, "resources"), item) {
            bool unasked = str_ends(json_str(item), STR("/scale"));

            for (size_t i = 0; i < COUNT_OF(parts); i++)
                unasked |= str_is(json_str(item), parts[i]);
            if (unasked)
                warn(admit->arena, warnings,
                     str_printf(admit->arena, "webhooks are not asked here about " STR_FMT,
                                STR_ARG(json_str(item)))
                         .p);
        }
    }
}

void policy_check_webhooks(struct admit *admit, struct str *warnings)
{
    struct scope *scope = ARENA_NEW(admit->arena, struct scope);
    size_t index = 0;

    scope_declare(scope, admit->arena, false);
    scope->loose = admit->old && json_equal(json_get(admit->old, "webhooks"),
                                            json_get(admit->object, "webhooks"));
    JSON_FOREACH(json_get(admit->object, "webhooks"), webhook) {
        size_t at = 0;

        check_condition_count(admit, json_get(webhook, "matchConditions"),
                              str_printf(admit->arena, "webhooks[%zu].matchConditions", index));
        JSON_FOREACH(json_get(webhook, "matchConditions"), condition) {
            struct str path =
                str_printf(admit->arena, "webhooks[%zu].matchConditions[%zu]", index, at++);

            (void)check_expression(admit, scope, json_get(condition, "expression"),
                                   str_printf(admit->arena, STR_FMT ".expression", STR_ARG(path)),
                                   CEL_BOOL);
        }
        warn_of_rules(admit, webhook, warnings);
        index++;
    }
}
