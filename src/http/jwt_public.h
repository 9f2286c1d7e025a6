#pragma once

#include "base/str.h"

#include <stdbool.h>

struct arena;
struct buf;
struct err;

/* jwt_public: signatures that others can check: ECDSA on P-256 with SHA-256 (ES256). `pem` is the
 * private key. */

/* A new key, as PEM. */
int jwt_public_make(struct buf *out, struct err *err);
/* 64 bytes on the arena; empty: the key cannot be used. */
struct str jwt_public_sign(struct arena *arena, struct str pem, struct str text);
bool jwt_public_holds(struct str pem, struct str text, struct str signature);
/* {"keys": [...]}: the public half, as RFC 7517 writes it; no key: an empty list. */
void jwt_public_keys(struct buf *out, struct str pem);
/* What tokens call the key by; empty: there is none. */
struct str jwt_public_id(struct arena *arena, struct str pem);
