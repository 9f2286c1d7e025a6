#pragma once

#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>

struct arena;
struct buf;
struct json;
struct object;

/* rbac: may this user do that, by the Roles and bindings that are stored. Pure.
 *
 * Only ServiceAccounts (and impersonated users) are limited; the owner of the data folder may do
 * everything and never gets here. Nothing is denied explicitly: what no rule allows is refused. */
struct rbac_user {
    struct str name; /* system:serviceaccount:NS:NAME */
    const struct str *groups;
    size_t group_count;
};

struct rbac_request {
    struct str verb; /* get, list, watch, create, update, patch, delete, deletecollection */
    struct str group;
    struct str resource; /* "pods", "pods/log" */
    struct str ns;       /* empty: all, or a cluster-scoped resource */
    struct str name;
    /* Of a request that is not about a resource; then only verb and path count. STR_NONE: it is
     * about one. */
    struct str path;
};

/* The stored objects: Roles, ClusterRoles, RoleBindings, ClusterRoleBindings, in any order. */
struct rbac {
    const struct object *const *objects;
    size_t count;
};

bool rbac_allows(const struct rbac *rbac,
                 struct arena *arena,
                 const struct rbac_user *user,
                 const struct rbac_request *request);
/* The rules that hold for the user in a namespace, as the members of a SubjectRulesReviewStatus:
 * "resourceRules":[...],"nonResourceRules":[...]. */
void rbac_write_rules(const struct rbac *rbac,
                      struct arena *arena,
                      const struct rbac_user *user,
                      struct str ns,
                      struct buf *buf);

/* Each rule that holds for the user in a namespace, until `fn` says true. `cluster`: it comes from
 * a ClusterRoleBinding. */
typedef bool rbac_rule_fn(void *user, const struct json *rule, bool cluster);
bool rbac_each_rule(const struct rbac *rbac,
                    struct arena *arena,
                    const struct rbac_user *user,
                    struct str ns,
                    rbac_rule_fn *fn,
                    void *fn_user);
bool rbac_rule_allows(const struct json *rule, const struct rbac_request *request);
/* The role that a binding of namespace `ns` refers to, or NULL. */
const struct object *rbac_role(const struct rbac *rbac, const struct json *binding, struct str ns);

/* ---- rbac_grant.c: nobody grants what he has not ---- */
/* The empty text when the user holds in `ns` all that `rules` grant; otherwise Kubernetes' sentence
 * about what is missing. */
struct str rbac_missing(const struct rbac *rbac,
                        struct arena *arena,
                        const struct rbac_user *user,
                        struct str ns,
                        const struct json *rules);
/* The rules of an aggregated ClusterRole: those of the ClusterRoles that its selectors choose, by
 * name, each once. NULL: the role aggregates nothing. */
struct json *rbac_aggregate(const struct rbac *rbac,
                            struct arena *arena,
                            const struct object *role);
/* Whether one of an aggregation's clusterRoleSelectors chooses the role. */
bool rbac_gathers(struct arena *arena, const struct json *selectors, const struct object *role);
