#pragma once

#include "base/str.h"

#include <stdbool.h>

struct api;
struct arena;
struct authz;
struct buf;
struct json;
struct rbac_request;
struct request;
struct object;
struct user;

/* authz: what a user may do. The owner everything; a ServiceAccount what RBAC objects say, which
 * are watched so that a decision needs no I/O. */
/* `keeps_roles`: nobody else does, so make the roles that are there from the beginning and keep
 * aggregated ones current (server/roles.h). */
struct authz *authz_new(struct api *api, bool keeps_roles);
void authz_free(struct authz *authz);

/* Whether this request may go on; answers it with 403 otherwise. */
bool authz_check(struct request *request);
bool authz_allows(const struct authz *authz,
                  struct arena *arena,
                  const struct user *user,
                  const struct rbac_request *request);
void authz_write_rules(const struct authz *authz,
                       struct arena *arena,
                       const struct user *user,
                       struct str ns,
                       struct buf *buf);
/* rbac_missing() and rbac_role() of what is stored. */
struct str authz_missing(const struct authz *authz,
                         struct arena *arena,
                         const struct user *user,
                         struct str ns,
                         const struct json *rules);
const struct object *authz_role(const struct authz *authz,
                                const struct json *binding,
                                struct str ns);
/* The sentence of a 403, in Kubernetes' words. */
struct str authz_sentence(struct arena *arena,
                          const struct user *user,
                          const struct rbac_request *request);
/* A token is good only as long as its account is there, and the pod it was made for; `gone` is told
 * the uid of every account and every pod that ends. */
void authz_set_gone(struct authz *authz, void (*gone)(void *user, struct str uid), void *user);
bool authz_account_exists(const struct authz *authz, struct str uid);
bool authz_pod_exists(const struct authz *authz, struct str uid);
/* NULL: there is none of that name. */
const struct object *authz_pod(const struct authz *authz, struct str ns, struct str name);
/* The node that the pod of a token is on; NULL: none. */
const struct object *authz_node_of(const struct authz *authz, struct str pod_uid);
