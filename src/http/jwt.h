#pragma once

#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

struct arena;
struct buf;

/* jwt: tokens of ServiceAccounts: JSON Web Tokens signed with HMAC-SHA-256 by a key that never
 * leaves the data folder. The server that checks them is the one that signs them, so nobody else
 * needs a key. One that has an audience is for somebody else to check, who finds the public key
 * that we publish (http/jwt_public.h): it is signed with ES256.
 *
 * A key is a secret and, behind a line end, the PEM of the private key for those; without it they
 * are signed with the secret as well, which is how all of them were once: both are taken. */
struct jwt {
    struct str ns;
    struct str account;     /* name of the ServiceAccount */
    struct str account_uid; /* a new account of that name is another one */
    struct str audience;    /* what it is good for; empty: the API */
    struct str pod;         /* bound to it, or empty */
    struct str pod_uid;
    struct str id; /* of the token (jti); drawn when it is signed. Old ones have none */
    int64_t issued_ms;
    int64_t expires_ms;
};

#define JWT_ISSUER "https://kubernetes.default.svc.cluster.local"

/* {"keys": [...]}: what those are checked with. */
void jwt_keys(struct buf *out, struct str key);
/* The token, appended to `out`. */
void jwt_sign(struct buf *out, struct str key, const struct jwt *jwt);
/* False for anything that this key did not sign, or that is over. Strings live in the arena. */
bool jwt_verify(struct arena *arena,
                struct str key,
                struct str token,
                int64_t now_ms,
                struct jwt *ret);
