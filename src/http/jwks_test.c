#include "base/arena.h"
#include "base/base64.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/err.h"
#include "base/str.h"
#include "http/jwks.h"
#include "http/jwt_public.h"
#include "test.h"

#include <gnutls/abstract.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* One RSA key, and one on P-256; `bits` of the former. */
struct issuer {
    struct arena arena;
    gnutls_x509_privkey_t rsa;
    struct buf ec;
    struct str keys; /* RFC 7517 */
};

static struct str number(struct arena *arena, const gnutls_datum_t *datum)
{
    size_t skip = datum->size && datum->data[0] == 0 ? 1 : 0;

    return base64url_encode(arena,
                            (struct str){(const char *)datum->data + skip, datum->size - skip});
}

static void issuer_open(struct issuer *issuer, unsigned bits)
{
    gnutls_datum_t n = {0}, e = {0};
    struct buf ec = {0};

    *issuer = (struct issuer){0};
    EXPECT(gnutls_x509_privkey_init(&issuer->rsa) == 0);
    EXPECT(gnutls_x509_privkey_generate(issuer->rsa, GNUTLS_PK_RSA, bits, 0) == 0);
    EXPECT(gnutls_x509_privkey_export_rsa_raw(issuer->rsa, &n, &e, NULL, NULL, NULL, NULL) == 0);
    EXPECT(jwt_public_make(&issuer->ec, NULL) == 0);
    jwt_public_keys(&ec, buf_str(&issuer->ec));
    size_t len = sizeof("{\"keys\":[") - 1;
    issuer->keys =
        str_printf(&issuer->arena,
                   "{\"keys\":[{\"kty\":\"RSA\",\"use\":\"sig\",\"kid\":\"r\",\"n\":\"" STR_FMT
                   "\",\"e\":\"" STR_FMT "\"}," STR_FMT,
                   STR_ARG(number(&issuer->arena, &n)), STR_ARG(number(&issuer->arena, &e)),
                   STR_ARG(str_sub(buf_str(&ec), len, ec.len)));
    gnutls_free(n.data);
    gnutls_free(e.data);
    buf_done(&ec);
}

static void issuer_close(struct issuer *issuer)
{
    gnutls_x509_privkey_deinit(issuer->rsa);
    buf_done(&issuer->ec);
    arena_done(&issuer->arena);
}

/* A head with `alg` and `kid`; signed by the RSA key or by the other. */
static struct str token(struct issuer *issuer, const char *head, bool rsa)
{
    struct arena *arena = &issuer->arena;
    struct str text =
        str_printf(arena, STR_FMT "." STR_FMT, STR_ARG(base64url_encode(arena, str_from(head))),
                   STR_ARG(base64url_encode(arena, STR("{\"iss\":\"i\"}"))));
    gnutls_datum_t data = {(unsigned char *)(size_t)text.p, (unsigned)text.len}, made = {0};
    gnutls_privkey_t key = NULL;
    struct str signature;

    if (!rsa)
        return str_printf(
            arena, STR_FMT "." STR_FMT, STR_ARG(text),
            STR_ARG(base64url_encode(arena, jwt_public_sign(arena, buf_str(&issuer->ec), text))));
    EXPECT(gnutls_privkey_init(&key) == 0 && gnutls_privkey_import_x509(key, issuer->rsa, 0) == 0);
    EXPECT(gnutls_privkey_sign_data2(key, GNUTLS_SIGN_RSA_SHA256, 0, &data, &made) == 0);
    signature = base64url_encode(arena, (struct str){(const char *)made.data, made.size});
    gnutls_free(made.data);
    gnutls_privkey_deinit(key);
    return str_printf(arena, STR_FMT "." STR_FMT, STR_ARG(text), STR_ARG(signature));
}

TEST(a_token_holds_for_the_key_and_the_algorithm_that_it_names)
{
    static const struct {
        const char *why;
        const char *head;
        bool rsa;
        const char *algorithms;
        enum jwks_verdict verdict;
    } rows[] = {
        {"by RSA", "{\"alg\":\"RS256\",\"kid\":\"r\"}", true, "RS256", JWKS_HOLDS},
        {"without a name of the key", "{\"alg\":\"RS256\"}", true, "RS256", JWKS_HOLDS},
        {"by P-256", "{\"alg\":\"ES256\"}", false, "RS256,ES256", JWKS_HOLDS},
        {"an algorithm that is not allowed", "{\"alg\":\"ES256\"}", false, "RS256", JWKS_NO},
        {"no algorithm", "{\"alg\":\"none\",\"kid\":\"r\"}", true, "RS256,none", JWKS_NO},
        {"a secret that is the public key", "{\"alg\":\"HS256\",\"kid\":\"r\"}", true,
         "RS256,HS256", JWKS_NO},
        {"another key's algorithm", "{\"alg\":\"ES256\",\"kid\":\"r\"}", true, "RS256,ES256",
         JWKS_UNKNOWN_KEY},
        {"signed by another key", "{\"alg\":\"RS256\",\"kid\":\"r\"}", false, "RS256", JWKS_NO},
        {"a key that is not there yet", "{\"alg\":\"RS256\",\"kid\":\"s\"}", true, "RS256",
         JWKS_UNKNOWN_KEY},
        {"what must be understood", "{\"alg\":\"RS256\",\"crit\":[\"x\"]}", true, "RS256", JWKS_NO},
    };
    struct issuer issuer;
    struct jwks *jwks = NULL;

    issuer_open(&issuer, 2048);
    EXPECT(jwks_read(issuer.keys, &jwks, NULL) == 0 && jwks_count(jwks) == 2);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct str whole = token(&issuer, rows[i].head, rows[i].rsa);

        test_case(rows[i].why);
        EXPECT(jwks_verify(jwks, &issuer.arena, whole, str_from(rows[i].algorithms)) ==
               rows[i].verdict);
    }
    /* Any other byte, and any other length. */
    struct str whole = token(&issuer, "{\"alg\":\"RS256\",\"kid\":\"r\"}", true);
    for (size_t i = 0; i < whole.len; i++) {
        char *other = str_c(&issuer.arena, whole);

        other[i] = other[i] == 'A' ? 'B' : 'A';
        /* The last letter of a part may have bits that say nothing. */
        if (i + 1 < whole.len && other[i + 1] != '.' && whole.p[i] != '.')
            EXPECT(jwks_verify(jwks, &issuer.arena, str_from(other), STR("RS256")) != JWKS_HOLDS);
        EXPECT(jwks_verify(jwks, &issuer.arena, str_sub(whole, 0, i), STR("RS256")) != JWKS_HOLDS);
    }
    EXPECT(jwks_verify(NULL, &issuer.arena, whole, STR("RS256")) == JWKS_UNKNOWN_KEY);
    jwks_free(jwks);
    issuer_close(&issuer);
}

TEST(keys_that_are_too_small_or_not_for_signing_are_passed_over)
{
    struct issuer issuer;
    struct jwks *jwks = NULL;
    struct err err = {0};

    issuer_open(&issuer, 1024);
    EXPECT(jwks_read(issuer.keys, &jwks, NULL) == 0 && jwks_count(jwks) == 1);
    jwks_free(jwks);
    EXPECT(jwks_read(STR("{\"keys\":[{\"kty\":\"RSA\",\"use\":\"enc\"},{\"kty\":\"oct\"}]}"), &jwks,
                     &err) < 0 &&
           strstr(err.text, "no key there that could be used"));
    EXPECT(jwks_read(STR("{"), &jwks, NULL) < 0);
    issuer_close(&issuer);
}
