#include "base/arena.h"
#include "base/base64.h"
#include "base/buf.h"
#include "base/str.h"
#include "fuzz/fuzz.h"
#include "http/jwt.h"

#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>
#include <stdint.h>

#define NOW_MS ((int64_t)1800000000000)

/* Any bytes as a token are refused: nobody guesses a key. As claims that were signed with the key
 * they are read or refused, and what is read is a token that is not over yet. */
FUZZ(jwt)
{
    struct arena arena = {0};
    unsigned char mac[32] = {0};
    struct jwt jwt = {0};

    FUZZ_HOLDS(!jwt_verify(&arena, STR("secret"), input, NOW_MS, &jwt));
    struct str head = base64url_encode(&arena, STR("{\"alg\":\"HS256\"}"));
    struct str body = base64url_encode(&arena, input);
    struct str text = str_printf(&arena, STR_FMT "." STR_FMT, STR_ARG(head), STR_ARG(body));
    FUZZ_HOLDS(gnutls_hmac_fast(GNUTLS_MAC_SHA256, "secret", 6, text.p, text.len, mac) == 0);
    struct str signature = base64url_encode(&arena, (struct str){(const char *)mac, sizeof(mac)});
    struct str token = str_printf(&arena, STR_FMT "." STR_FMT, STR_ARG(text), STR_ARG(signature));
    if (jwt_verify(&arena, STR("secret"), token, NOW_MS, &jwt)) {
        FUZZ_HOLDS(jwt.ns.len && jwt.account.len && jwt.expires_ms > NOW_MS);
        FUZZ_HOLDS(!jwt_verify(&arena, STR("other"), token, NOW_MS, &jwt));
    }
    arena_done(&arena);
}
