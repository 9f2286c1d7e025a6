#include "http/jwks.h"

#include "base/arena.h"
#include "base/base64.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"

#include <errno.h>
#include <gnutls/abstract.h>
#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#define RSA_BITS_MIN    2048
#define P256_BYTES      32
#define SIGNATURE_BYTES (2 * P256_BYTES)
#define KID_BYTES_MAX   256

struct jwks_key {
    char kid[KID_BYTES_MAX + 1]; /* empty: it has none */
    bool rsa;
    gnutls_pubkey_t key;
};

struct jwks {
    struct jwks_key keys[JWKS_KEYS_MAX];
    size_t count;
};

static gnutls_datum_t datum_of(struct str text)
{
    return (gnutls_datum_t){(unsigned char *)(size_t)text.p, (unsigned)text.len};
}

static void datum_donep(gnutls_datum_t *datum)
{
    gnutls_free(datum->data);
}

static bool number_of(struct arena *arena,
                      const struct json *key,
                      const char *name,
                      gnutls_datum_t *ret)
{
    struct str bytes = STR_NONE;

    if (!base64url_decode(arena, json_str(json_get(key, name)), &bytes) || !bytes.len)
        return false;
    *ret = datum_of(bytes);
    return true;
}

static bool rsa_read(struct arena *arena, const struct json *json, gnutls_pubkey_t key)
{
    gnutls_datum_t n, e;
    unsigned bits = 0;

    return number_of(arena, json, "n", &n) && number_of(arena, json, "e", &e) &&
           gnutls_pubkey_import_rsa_raw(key, &n, &e) >= 0 &&
           gnutls_pubkey_get_pk_algorithm(key, &bits) == GNUTLS_PK_RSA && bits >= RSA_BITS_MIN;
}

static bool ec_read(struct arena *arena, const struct json *json, gnutls_pubkey_t key)
{
    gnutls_datum_t x, y;

    return str_is(json_str(json_get(json, "crv")), "P-256") && number_of(arena, json, "x", &x) &&
           number_of(arena, json, "y", &y) &&
           gnutls_pubkey_import_ecc_raw(key, GNUTLS_ECC_CURVE_SECP256R1, &x, &y) >= 0;
}

static void key_add(struct jwks *jwks, struct arena *arena, const struct json *json)
{
    struct str kid = json_str(json_get(json, "kid"));
    struct str use = json_str(json_get(json, "use"));
    struct str type = json_str(json_get(json, "kty"));
    struct jwks_key *key = &jwks->keys[jwks->count];

    if (jwks->count == JWKS_KEYS_MAX || kid.len > KID_BYTES_MAX ||
        (use.len && !str_is(use, "sig")) || gnutls_pubkey_init(&key->key) < 0)
        return;
    key->rsa = str_is(type, "RSA");
    if (key->rsa ? rsa_read(arena, json, key->key)
                 : str_is(type, "EC") && ec_read(arena, json, key->key)) {
        if (kid.len)
            memcpy(key->kid, kid.p, kid.len);
        key->kid[kid.len] = '\0';
        jwks->count++;
        return;
    }
    gnutls_pubkey_deinit(key->key);
}

int jwks_read(struct str text, struct jwks **ret, struct err *err)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct json *root = NULL;
    int r = json_parse(&arena, text, &root, err);

    if (r < 0)
        return r;
    struct jwks *jwks = MEM_NEW(struct jwks);
    JSON_FOREACH(json_get(root, "keys"), key)
        key_add(jwks, &arena, key);
    if (!jwks->count) {
        jwks_free(jwks);
        return err_set(err, -EINVAL,
                       "no key there that could be used: RSA from %d bits, or EC P-256",
                       RSA_BITS_MIN);
    }
    *ret = jwks;
    return 0;
}

void jwks_free(struct jwks *jwks)
{
    for (size_t i = 0; jwks && i < jwks->count; i++)
        gnutls_pubkey_deinit(jwks->keys[i].key);
    mem_free(jwks);
}

size_t jwks_count(const struct jwks *jwks)
{
    return jwks ? jwks->count : 0;
}

/* ---- tokens ---- */

struct parts {
    struct json *head;
    struct json *claims;
    struct str text; /* what is signed */
    struct str signature;
};

static bool part_read(struct arena *arena, struct str part, struct json **ret)
{
    struct str text = STR_NONE;

    return base64url_decode(arena, part, &text) && json_parse(arena, text, ret, NULL) >= 0;
}

static bool token_read(struct arena *arena, struct str token, struct parts *ret)
{
    size_t first = str_find(token, '.');

    if (token.len > JWKS_TOKEN_BYTES_MAX || first >= token.len)
        return false;
    size_t second = first + 1 + str_find(str_sub(token, first + 1, token.len), '.');
    if (second >= token.len)
        return false;
    ret->text = str_sub(token, 0, second);
    return part_read(arena, str_sub(token, 0, first), &ret->head) &&
           part_read(arena, str_sub(token, first + 1, second - first - 1), &ret->claims) &&
           base64url_decode(arena, str_sub(token, second + 1, token.len), &ret->signature);
}

const struct json *jwks_claims(struct arena *arena, struct str token)
{
    struct parts parts = {0};

    return token_read(arena, token, &parts) ? parts.claims : NULL;
}

static bool holds(const struct jwks_key *key, const struct parts *parts)
{
    _cleanup_(datum_donep) gnutls_datum_t coded = {0};
    gnutls_datum_t data = datum_of(parts->text), signature = datum_of(parts->signature);

    if (key->rsa)
        return gnutls_pubkey_verify_data2(key->key, GNUTLS_SIGN_RSA_SHA256, 0, &data, &signature) >=
               0;
    if (parts->signature.len != SIGNATURE_BYTES)
        return false;
    gnutls_datum_t first = datum_of(str_sub(parts->signature, 0, P256_BYTES));
    gnutls_datum_t second = datum_of(str_sub(parts->signature, P256_BYTES, P256_BYTES));
    return gnutls_encode_rs_value(&coded, &first, &second) == 0 &&
           gnutls_pubkey_verify_data2(key->key, GNUTLS_SIGN_ECDSA_SHA256, 0, &data, &coded) >= 0;
}

static bool is_allowed(struct str algorithms, struct str name)
{
    struct str word;

    while (algorithms.len && str_cut(&algorithms, ',', &word))
        if (name.len && str_eq(word, name))
            return true;
    return false;
}

enum jwks_verdict jwks_verify(const struct jwks *jwks,
                              struct arena *arena,
                              struct str token,
                              struct str algorithms)
{
    struct parts parts = {0};
    bool tried = false;

    if (!token_read(arena, token, &parts))
        return JWKS_NO;
    struct str algorithm = json_str(json_get(parts.head, "alg"));
    struct str kid = json_str(json_get(parts.head, "kid"));
    bool rsa = str_is(algorithm, "RS256");
    /* "crit" names what whoever does not know it must refuse. */
    if ((!rsa && !str_is(algorithm, "ES256")) || !is_allowed(algorithms, algorithm) ||
        json_get(parts.head, "crit"))
        return JWKS_NO;
    for (size_t i = 0; i < jwks_count(jwks); i++) {
        const struct jwks_key *key = &jwks->keys[i];

        if (key->rsa != rsa || (kid.len && !str_is(kid, key->kid)))
            continue;
        tried = true;
        if (holds(key, &parts))
            return JWKS_HOLDS;
    }
    return tried && kid.len ? JWKS_NO : JWKS_UNKNOWN_KEY;
}
