#pragma once

#include "base/str.h"

#include <stdint.h>

struct arena;
struct err;
struct json;
struct kind;
struct look;

/* credential: tokens of ServiceAccounts. Each is good for its time, and as long as the account is there: to delete the account
 * is to take all of them back. */

#define CREDENTIAL_VALID_MAX_MS \
    ((int64_t)365 * 24 * 3600 * 1000) /* what the API server signs at most */

struct credential {
    struct str ns; /* of the account */
    struct str account;
    int64_t valid_ms;
};

struct json *credential_object(struct arena *arena, struct str ns, struct str name);
/* Made, or changed to be so. */
int credential_put(struct look *look,
                   const struct kind *kind,
                   struct str ns,
                   struct json *object,
                   struct err *err);
/* What is not there is gone already. */
int credential_delete(struct look *look,
                      const struct kind *kind,
                      struct str ns,
                      struct str name,
                      struct err *err);
/* A new token, and until when it is good. */
int credential_token(struct look *look,
                     const struct credential *wanted,
                     struct str *ret,
                     struct str *ret_until,
                     struct err *err);
