#pragma once

#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>

struct arena;
struct err;
struct json;

/* jwks: the public keys of somebody else, as RFC 7517 writes them, and whether a token is signed by one
 * of them: RS256 (RSA from 2048 bits) or ES256 (P-256). Keys of another kind, or for another use, are
 * passed over. */
#define JWKS_KEYS_MAX        64
#define JWKS_TOKEN_BYTES_MAX 16384

enum jwks_verdict {
    JWKS_HOLDS,
    JWKS_UNKNOWN_KEY, /* it names a key that is not among these: there may be newer ones */
    JWKS_NO,          /* no token, an algorithm that is not allowed, or a signature that is none */
};

struct jwks;

/* -EINVAL with words: there is no key that could be used. */
int jwks_read(struct str text, struct jwks **ret, struct err *err);
void jwks_free(struct jwks *jwks); /* NULL is fine */
size_t jwks_count(const struct jwks *jwks);

/* What an unsigned part says; NULL: it is no token. Nothing of it is known to be true. */
const struct json *jwks_claims(struct arena *arena, struct str token);
/* `algorithms`: "RS256,ES256", those that are allowed. NULL keys know none. */
enum jwks_verdict jwks_verify(const struct jwks *jwks,
                              struct arena *arena,
                              struct str token,
                              struct str algorithms);
