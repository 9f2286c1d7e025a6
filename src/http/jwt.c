#include "http/jwt.h"

#include "base/account.h"
#include "base/arena.h"
#include "base/base64.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "base/str.h"
#include "http/jwt_public.h"

#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MAC_BYTES       32
#define TOKEN_BYTES_MAX 4096

static bool mac_of(struct str key, struct str text, unsigned char mac[static MAC_BYTES])
{
    return gnutls_hmac_fast(GNUTLS_MAC_SHA256, key.p, key.len, text.p, text.len, mac) == 0;
}

/* A random UUID: which token was used is told in reviews. */
static void write_id(struct buf *buf)
{
    unsigned char bytes[16] = {0};

    (void)gnutls_rnd(GNUTLS_RND_NONCE, bytes, sizeof(bytes));
    bytes[6] = (unsigned char)((bytes[6] & 0x0f) | 0x40);
    bytes[8] = (unsigned char)((bytes[8] & 0x3f) | 0x80);
    for (size_t i = 0; i < sizeof(bytes); i++)
        buf_addf(buf, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", bytes[i]);
}

static void write_claims(struct buf *buf, const struct jwt *jwt)
{
    buf_add(buf, STR("{\"iss\":\"" JWT_ISSUER "\",\"aud\":["));
    json_write_string(buf, jwt->audience.len ? jwt->audience : STR(JWT_ISSUER));
    buf_addf(buf, "],\"iat\":%lld,\"nbf\":%lld,\"exp\":%lld,\"jti\":\"",
             (long long)(jwt->issued_ms / 1000), (long long)(jwt->issued_ms / 1000),
             (long long)(jwt->expires_ms / 1000));
    write_id(buf);
    buf_add(buf, STR("\",\"sub\":"));
    _cleanup_(arena_done) struct arena arena = {0};
    json_write_string(buf, account_user(&arena, jwt->ns, jwt->account));
    buf_add(buf, STR(",\"kubernetes.io\":{\"namespace\":"));
    json_write_string(buf, jwt->ns);
    buf_add(buf, STR(",\"serviceaccount\":{\"name\":"));
    json_write_string(buf, jwt->account);
    buf_add(buf, STR(",\"uid\":"));
    json_write_string(buf, jwt->account_uid);
    buf_addc(buf, '}');
    if (jwt->pod.len) {
        buf_add(buf, STR(",\"pod\":{\"name\":"));
        json_write_string(buf, jwt->pod);
        buf_add(buf, STR(",\"uid\":"));
        json_write_string(buf, jwt->pod_uid);
        buf_addc(buf, '}');
    }
    buf_add(buf, STR("}}"));
}

static struct str key_secret(struct str key)
{
    return str_sub(key, 0, str_find(key, '\n'));
}

/* Empty: there is none. */
static struct str key_pem(struct str key)
{
    size_t end = str_find(key, '\n');

    return end < key.len ? str_sub(key, end + 1, key.len) : STR_NONE;
}

void jwt_keys(struct buf *out, struct str key)
{
    jwt_public_keys(out, key_pem(key));
}

void jwt_sign(struct buf *out, struct str key, const struct jwt *jwt)
{
    _cleanup_(arena_done) struct arena arena = {0};
    _cleanup_(buf_done) struct buf claims = {0};
    unsigned char mac[MAC_BYTES] = {0};
    struct str id = jwt->audience.len ? jwt_public_id(&arena, key_pem(key)) : STR_NONE;
    struct str head =
        id.len ? str_printf(&arena, "{\"alg\":\"ES256\",\"kid\":\"" STR_FMT "\",\"typ\":\"JWT\"}",
                            STR_ARG(id))
               : STR("{\"alg\":\"HS256\",\"typ\":\"JWT\"}");

    write_claims(&claims, jwt);
    head = base64url_encode(&arena, head);
    struct str body = base64url_encode(&arena, buf_str(&claims));
    struct str text = str_printf(&arena, STR_FMT "." STR_FMT, STR_ARG(head), STR_ARG(body));
    struct str signature = {(const char *)mac, sizeof(mac)};
    if (id.len)
        signature = jwt_public_sign(&arena, key_pem(key), text);
    else
        (void)mac_of(key_secret(key), text, mac);
    buf_add(out, text);
    buf_addc(out, '.');
    buf_add(out, base64url_encode(&arena, signature));
}

/* The signature covers everything before the last dot. The algorithm is one of our two, each with
 * its own key and a length that the other has not, whatever the header claims. */
static bool signature_holds(struct arena *arena,
                            struct str key,
                            struct str token,
                            size_t signed_len)
{
    struct str given = STR_NONE;
    struct str text = str_sub(token, 0, signed_len);
    unsigned char mac[MAC_BYTES] = {0};

    if (!base64url_decode(arena, str_sub(token, signed_len + 1, token.len), &given))
        return false;
    if (given.len != sizeof(mac))
        return jwt_public_holds(key_pem(key), text, given);
    return mac_of(key_secret(key), text, mac) && gnutls_memcmp(given.p, mac, sizeof(mac)) == 0;
}

/* 0: not said, or so far away that it does not fit. */
static int64_t claim_ms(const struct json *root, const char *name)
{
    int64_t seconds = json_i64_or(json_get(root, name), 0);

    return seconds < 0 || seconds > INT64_MAX / 1000 ? 0 : seconds * 1000;
}

bool jwt_verify(struct arena *arena,
                struct str key,
                struct str token,
                int64_t now_ms,
                struct jwt *ret)
{
    struct str claims = STR_NONE;
    size_t first = str_find(token, '.');
    struct json *root = NULL;

    if (!key.len || token.len > TOKEN_BYTES_MAX || first == token.len)
        return false;
    size_t second = first + 1 + str_find(str_sub(token, first + 1, token.len), '.');
    if (second >= token.len || !signature_holds(arena, key, token, second) ||
        !base64url_decode(arena, str_sub(token, first + 1, second - first - 1), &claims) ||
        json_parse(arena, claims, &root, NULL) < 0)
        return false;
    const struct json *own = json_get(root, "kubernetes.io");
    struct jwt jwt = {
        .ns = json_str(json_get(own, "namespace")),
        .account = json_str(json_at(own, "serviceaccount.name")),
        .account_uid = json_str(json_at(own, "serviceaccount.uid")),
        .audience = json_str(json_first(json_get(root, "aud"))),
        .pod = json_str(json_at(own, "pod.name")),
        .pod_uid = json_str(json_at(own, "pod.uid")),
        .id = json_str(json_get(root, "jti")),
        .issued_ms = claim_ms(root, "iat"),
        .expires_ms = claim_ms(root, "exp"),
    };
    if (str_is(jwt.audience, JWT_ISSUER))
        jwt.audience = STR_NONE;
    if (!jwt.ns.len || !jwt.account.len || jwt.expires_ms <= now_ms)
        return false;
    *ret = jwt;
    return true;
}
