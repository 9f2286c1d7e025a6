#pragma once

struct api;
struct object;
struct rbac;

/* roles: the ClusterRoles and bindings that are there from the beginning, as in Kubernetes:
 * cluster-admin, admin, edit, view and those that let everyone see what is served and ask what he
 * may do; and the rules of aggregated roles, kept current.
 *
 * What is missing is made at the start. A role that has lost one of its rules, or is of an older
 * version, gets it back, unless its annotation rbac.authorization.kubernetes.io/autoupdate says
 * "false"; rules that somebody added stay. */
void roles_install(struct api *api, const struct rbac *rbac);
/* A ClusterRole is there, is different or is gone (`old`, `now`; either may be NULL): write the
 * rules of those that gather its rules. */
void roles_aggregate(struct api *api,
                     const struct rbac *rbac,
                     const struct object *old,
                     const struct object *now);
