#pragma once

#include "base/str.h"

#include <stdbool.h>

struct api;
struct arena;
struct authz;
struct buf;
struct rbac_request;
struct request;
struct object;
struct user;

/* authz: what a user may do. The owner everything; a ServiceAccount what RBAC objects say, which
 * are watched so that a decision needs no I/O. */
struct authz *authz_new(struct api *api);
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
/* A token is good only as long as its account is there, and the pod it was made for. */
bool authz_account_exists(const struct authz *authz, struct str uid);
bool authz_pod_exists(const struct authz *authz, struct str uid);
/* NULL: there is none of that name. */
const struct object *authz_pod(const struct authz *authz, struct str ns, struct str name);
