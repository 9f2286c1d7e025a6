#pragma once

#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>

struct arena;
struct buf;
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
    struct str path; /* of a request that is not about a resource; then verb and path count */
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
