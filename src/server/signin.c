#include "server/signin.h"

#include "base/arena.h"
#include "base/base64.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "server/issuer.h"

#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>

#define HASH_BYTES 32 /* of SHA-256: 43 characters, which is what a verifier has at least */

/* The blanks keep it apart from all else that the key signs: tokens have none. */
static struct str made(struct arena *arena, const struct signin *signin, const char *word)
{
    char mac[HASH_BYTES] = {0};
    struct str text = str_printf(arena, "sign-in %s " STR_FMT, word, STR_ARG(signin->secret));

    (void)gnutls_hmac_fast(GNUTLS_MAC_SHA256, signin->key.p, signin->key.len, text.p, text.len,
                           mac);
    return base64url_encode(arena, (struct str){mac, sizeof(mac)});
}

struct str signin_state(struct arena *arena, const struct signin *signin)
{
    return made(arena, signin, "state");
}

struct str signin_nonce(struct arena *arena, const struct signin *signin)
{
    return made(arena, signin, "nonce");
}

struct str signin_challenge(struct arena *arena, struct str verifier)
{
    char hash[HASH_BYTES] = {0};

    (void)gnutls_hash_fast(GNUTLS_DIG_SHA256, verifier.p, verifier.len, hash);
    return base64url_encode(arena, (struct str){hash, sizeof(hash)});
}

struct str signin_address(struct arena *arena,
                          const struct signin *signin,
                          const struct signin_place *place)
{
    _cleanup_(buf_done) struct buf buf = {0};

    buf_add(&buf, place->authorization);
    if (!str_contains(place->authorization, STR("?")))
        buf_addc(&buf, '?');
    issuer_form_add(&buf, "response_type", STR("code"));
    issuer_form_add(&buf, "client_id", place->client_id);
    issuer_form_add(&buf, "redirect_uri", signin->back);
    issuer_form_add(&buf, "scope", place->scopes);
    issuer_form_add(&buf, "state", signin_state(arena, signin));
    issuer_form_add(&buf, "nonce", signin_nonce(arena, signin));
    issuer_form_add(&buf, "code_challenge",
                    signin_challenge(arena, made(arena, signin, "verifier")));
    issuer_form_add(&buf, "code_challenge_method", STR("S256"));
    return str_dup(arena, buf_str(&buf));
}

struct str signin_form(struct arena *arena, const struct signin *signin, struct str code)
{
    _cleanup_(buf_done) struct buf buf = {0};

    issuer_form_add(&buf, "grant_type", STR("authorization_code"));
    issuer_form_add(&buf, "code", code);
    issuer_form_add(&buf, "redirect_uri", signin->back);
    issuer_form_add(&buf, "code_verifier", made(arena, signin, "verifier"));
    return str_dup(arena, buf_str(&buf));
}
