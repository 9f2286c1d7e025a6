#pragma once

#include "base/str.h"
#include "base/vec.h"

#include <stdbool.h>

struct admit;
struct api_user;
struct arena;
struct json;
struct kind;

/* policy: ValidatingAdmissionPolicies. Which requests one is about, and what it says about them; who
 * has the policies, their bindings and parameters, asks for each. */

struct policy_request {
    struct arena *arena;
    const struct kind *kind;
    struct str ns; /* "" for what is in no namespace */
    struct str name;
    struct str subresource;
    const char *operation; /* CREATE, UPDATE, DELETE */
    bool dry_run;
    struct str field_manager;
    struct str options;           /* of a delete, as JSON; empty: none */
    const struct api_user *user;  /* NULL: a part of this program */
    const struct json *object;    /* NULL when it is deleted */
    const struct json *old;       /* NULL when it is created */
    const struct json *ns_object; /* NULL: in no namespace */
};

/* As userInfo of a review has it. */
struct json *policy_user(struct arena *arena, const struct api_user *user);

/* A validation that failed, or could not be evaluated where failurePolicy is Fail. */
struct policy_finding {
    struct str message;
    struct str reason; /* "Invalid", "Forbidden", ... */
};
struct policy_findings VEC_FIELDS(struct policy_finding);

/* matchConstraints of a policy, or matchResources of a binding, where NULL is everything. */
bool policy_matches(const struct policy_request *request, const struct json *match);

/* matchConditions alone: 1 when all hold, 0 when one does not, -1 when one could not be evaluated;
 * then *ret_words says why. */
int policy_conditions(const struct policy_request *request,
                      const struct json *conditions,
                      struct str *ret_words);

/* Findings are added. `params` is NULL where the policy has no paramKind. */
void policy_evaluate(const struct policy_request *request,
                     const struct json *policy,
                     const struct json *params,
                     struct policy_findings *findings);

/* What is wrong with a policy or a binding becomes causes; what is taken and has no effect here
 * becomes lines of *warnings. */
void policy_check(struct admit *admit, struct str *warnings);
void policy_check_binding(struct admit *admit, struct str *warnings);
/* The same of webhook configurations: their matchConditions, and rules that have no effect. */
void policy_check_webhooks(struct admit *admit, struct str *warnings);
