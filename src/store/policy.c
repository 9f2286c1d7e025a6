#include "store/policy.h"

#include "api/admit.h"
#include "api/kind.h"
#include "api/object.h"
#include "api/selector.h"
#include "base/arena.h"
#include "base/count.h"
#include "base/json.h"
#include "base/str.h"
#include "base/vec.h"
#include "cel/policy.h"
#include "store/reply.h"
#include "store/shelf.h"
#include "store/state.h"
#include "store/write.h"

#include <stdbool.h>
#include <stddef.h>

/* ValidatingAdmissionPolicies at work: a write is held against every binding. They are compiled
 * anew for each write, which costs microseconds an expression; where there is no binding, nothing.
 */

#define FINDINGS_WARNED_MAX 20
/* Parameters that one write is held against, of all bindings: whoever may write parameters must not
 * make everybody's writes slow. A few microseconds each, so a millisecond in all. */
#define PARAMS_MAX 100

/* One policy that is bound, about one write. */
struct bound {
    struct write *write;
    struct policy_refusal *refusal;
    const struct policy_request *request;
    struct str policy_name;
    struct str binding_name;
    const struct json *policy;
    const struct json *binding;
    size_t *params_judged; /* of the write */
};

static int status_of(struct str reason)
{
    static const struct {
        const char *reason;
        int status;
    } rows[] = {{"Unauthorized", 401}, {"Forbidden", 403}, {"RequestEntityTooLarge", 413}};

    for (size_t i = 0; i < COUNT_OF(rows); i++)
        if (str_is(reason, rows[i].reason))
            return rows[i].status;
    return 422;
}

static bool has_action(const struct bound *bound, const char *action)
{
    JSON_FOREACH(json_at(bound->binding, "spec.validationActions"), item)
        if (str_is(json_str(item), action))
            return true;
    return false;
}

/* Refuses by the first finding, or warns of each. */
static bool act(const struct bound *bound, const struct policy_findings *findings)
{
    struct write *write = bound->write;
    struct str *warnings = &write->reply->result.warnings;

    for (size_t i = 0; has_action(bound, "Warn") && i < findings->count && i < FINDINGS_WARNED_MAX;
         i++)
        *warnings =
            str_printf(write->arena,
                       STR_FMT "%sValidation failed for ValidatingAdmissionPolicy '" STR_FMT
                               "' with binding '" STR_FMT "': " STR_FMT,
                       STR_ARG(*warnings), warnings->len ? "\n" : "", STR_ARG(bound->policy_name),
                       STR_ARG(bound->binding_name), STR_ARG(findings->items[i].message));
    if (!findings->count || !has_action(bound, "Deny"))
        return true;
    const struct policy_finding *first = &findings->items[0];
    *bound->refusal = (struct policy_refusal){
        .status = status_of(first->reason),
        .reason = str_c(write->arena, first->reason),
        .words = str_printf(write->arena,
                            "ValidatingAdmissionPolicy '" STR_FMT "' with binding '" STR_FMT
                            "' denied request: " STR_FMT,
                            STR_ARG(bound->policy_name), STR_ARG(bound->binding_name),
                            STR_ARG(first->message))};
    return false;
}

static bool judge(const struct bound *bound, const struct json *params)
{
    struct policy_findings findings = {0};

    policy_evaluate(bound->request, bound->policy, params, &findings);
    return act(bound, &findings);
}

/* ---- parameters ---- */

static bool is_wanted(const struct bound *bound,
                      const struct json *ref,
                      const struct object *object)
{
    struct selector selector = {0};
    struct str name = json_str(json_get(ref, "name"));
    const struct json *labels = json_get(ref, "selector");

    if (name.len)
        return str_eq(name, object->name);
    return labels && selector_from_json(bound->write->arena, labels, &selector, NULL) == 0 &&
           selector_matches(&selector, object->labels, object->label_count);
}

static bool no_params(const struct bound *bound, const struct json *ref)
{
    struct policy_findings findings = {0};

    if (str_is(json_str(json_get(ref, "parameterNotFoundAction")), "Allow") ||
        str_is(json_str_at(bound->policy, "spec.failurePolicy"), "Ignore"))
        return true;
    VEC_PUSH(
        bound->write->arena, &findings,
        (struct policy_finding){.message = STR("no params found for policy binding with `Deny` "
                                               "parameterNotFoundAction"),
                                .reason = STR("Invalid")});
    return act(bound, &findings);
}

static bool too_many_params(const struct bound *bound)
{
    struct policy_findings findings = {0};

    if (str_is(json_str_at(bound->policy, "spec.failurePolicy"), "Ignore"))
        return true;
    VEC_PUSH(bound->write->arena, &findings,
             (struct policy_finding){
                 .message = str_printf(bound->write->arena,
                                       "more than %d parameters are bound to one write; select "
                                       "fewer by spec.paramRef",
                                       PARAMS_MAX),
                 .reason = STR("Invalid")});
    return act(bound, &findings);
}

/* Once for each of its parameters. Those of a namespace are of the one that paramRef names, or of
 * the one that the object is in. */
static bool judge_with_params(const struct bound *bound)
{
    struct write *write = bound->write;
    const struct json *ref = json_at(bound->binding, "spec.paramRef");
    const struct kind *kind = kinds_by_name(write->store->api.kinds,
                                            json_str_at(bound->policy, "spec.paramKind.apiVersion"),
                                            json_str_at(bound->policy, "spec.paramKind.kind"));
    const struct shelf *shelf = kind ? shelf_of(write->store, kind) : NULL;
    struct str ns = json_str(json_get(ref, "namespace"));
    size_t found = 0;

    if (!ns.len)
        ns = write->ns;
    for (size_t i = 0; ref && shelf && i < shelf->entries.count; i++) {
        const struct object *object = entry_latest(shelf->entries.items[i]);

        if (!object || (kind->namespaced && !str_eq(object->ns, ns)) ||
            !is_wanted(bound, ref, object))
            continue;
        if ((*bound->params_judged)++ == PARAMS_MAX)
            return too_many_params(bound);
        if (!judge(bound, object_json(object, write->arena)))
            return false;
        found++;
    }
    return found || no_params(bound, ref);
}

/* ---- bindings ---- */

static bool hold_against(struct write *write,
                         const struct policy_request *request,
                         const struct object *binding,
                         size_t *params_judged,
                         struct policy_refusal *refusal)
{
    const struct json *tree = object_json(binding, write->arena);
    struct str name = json_str_at(tree, "spec.policyName");
    const struct object *policy =
        entry_latest(shelf_find(shelf_of(write->store, &kind_admissionpolicy), STR(""), name));

    if (!policy)
        return true;
    struct bound bound = {.write = write,
                          .refusal = refusal,
                          .request = request,
                          .policy_name = name,
                          .params_judged = params_judged,
                          .binding_name = binding->name,
                          .policy = object_json(policy, write->arena),
                          .binding = tree};
    if (!policy_matches(request, json_at(bound.policy, "spec.matchConstraints")) ||
        !policy_matches(request, json_at(tree, "spec.matchResources")))
        return true;
    return json_is_null(json_at(bound.policy, "spec.paramKind")) ? judge(&bound, NULL)
                                                                 : judge_with_params(&bound);
}

bool policy_run(struct write *write,
                const char *operation,
                const struct json *object,
                const struct json *old,
                struct policy_refusal *refusal)
{
    const struct shelf *bindings = shelf_of(write->store, &kind_admissionbinding);
    const struct object *ns =
        entry_latest(shelf_find(shelf_of(write->store, &kind_namespace), STR(""), write->ns));
    bool good = true;
    size_t params_judged = 0;

    /* A policy that refused its own repair would stay for ever. */
    if (!bindings->entries.count || write->kind == &kind_admissionpolicy ||
        write->kind == &kind_admissionbinding)
        return true;
    struct policy_request request = {.arena = write->arena,
                                     .kind = write->kind,
                                     .ns = write->ns,
                                     .name = write->name,
                                     .subresource = write->subresource,
                                     .operation = operation,
                                     .dry_run = write->dry_run,
                                     .user = write->user,
                                     .object = object,
                                     .old = old,
                                     .ns_object = ns ? object_json(ns, write->arena) : NULL};
    for (size_t i = 0; good && i < bindings->entries.count; i++) {
        const struct object *binding = entry_latest(bindings->entries.items[i]);

        if (binding)
            good = hold_against(write, &request, binding, &params_judged, refusal);
    }
    return good;
}
