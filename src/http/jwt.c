#include "http/jwt.h"

#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "base/str.h"

#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MAC_BYTES       32
#define TOKEN_BYTES_MAX 4096

/* Base64 in the URL alphabet, without padding. */
static void add_base64url(struct buf *out, struct str bytes)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

    for (size_t i = 0; i < bytes.len; i += 3) {
        size_t have = bytes.len - i < 3 ? bytes.len - i : 3;
        uint32_t group = 0;

        for (size_t j = 0; j < 3; j++)
            group = group << 8 | (j < have ? (unsigned char)bytes.p[i + j] : 0);
        for (size_t j = 0; j <= have; j++)
            buf_addc(out, digits[group >> (18 - 6 * j) & 63]);
    }
}

static int digit_value(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '-' ? 62 : c == '_' ? 63 : -1;
}

static bool from_base64url(struct buf *out, struct str text)
{
    uint32_t group = 0;
    unsigned bits = 0;

    for (size_t i = 0; i < text.len; i++) {
        int digit = digit_value(text.p[i]);

        if (digit < 0)
            return false;
        group = group << 6 | (uint32_t)digit;
        bits += 6;
        if (bits >= 8) {
            bits -= 8;
            buf_addc(out, (char)(group >> bits & 0xff));
        }
    }
    return true;
}

static bool mac_of(struct str key, struct str text, unsigned char mac[static MAC_BYTES])
{
    return gnutls_hmac_fast(GNUTLS_MAC_SHA256, key.p, key.len, text.p, text.len, mac) == 0;
}

static void write_claims(struct buf *buf, const struct jwt *jwt)
{
    buf_addf(buf,
             "{\"iss\":\"" JWT_ISSUER "\",\"aud\":[\"" JWT_ISSUER "\"],\"iat\":%lld,\"nbf\":%lld,"
             "\"exp\":%lld,\"sub\":",
             (long long)(jwt->issued_ms / 1000), (long long)(jwt->issued_ms / 1000),
             (long long)(jwt->expires_ms / 1000));
    struct buf subject = {0};
    buf_addf(&subject, "system:serviceaccount:" STR_FMT ":" STR_FMT, STR_ARG(jwt->ns),
             STR_ARG(jwt->account));
    json_write_string(buf, buf_str(&subject));
    buf_done(&subject);
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

void jwt_sign(struct buf *out, struct str key, const struct jwt *jwt)
{
    _cleanup_(buf_done) struct buf claims = {0};
    _cleanup_(buf_done) struct buf text = {0};
    unsigned char mac[MAC_BYTES] = {0};

    write_claims(&claims, jwt);
    add_base64url(&text, STR("{\"alg\":\"HS256\",\"typ\":\"JWT\"}"));
    buf_addc(&text, '.');
    add_base64url(&text, buf_str(&claims));
    (void)mac_of(key, buf_str(&text), mac);
    buf_add(out, buf_str(&text));
    buf_addc(out, '.');
    add_base64url(out, (struct str){(const char *)mac, sizeof(mac)});
}

/* The signature covers everything before the last dot. The algorithm is always ours, whatever the
 * header claims. */
static bool signature_holds(struct str key, struct str token, size_t signed_len)
{
    _cleanup_(buf_done) struct buf given = {0};
    unsigned char mac[MAC_BYTES] = {0};

    return from_base64url(&given, str_sub(token, signed_len + 1, token.len)) &&
           given.len == sizeof(mac) && mac_of(key, str_sub(token, 0, signed_len), mac) &&
           gnutls_memcmp(given.p, mac, sizeof(mac)) == 0;
}

bool jwt_verify(struct arena *arena,
                struct str key,
                struct str token,
                int64_t now_ms,
                struct jwt *ret)
{
    _cleanup_(buf_done) struct buf claims = {0};
    size_t first = str_find(token, '.');
    struct json *root = NULL;

    if (!key.len || token.len > TOKEN_BYTES_MAX || first == token.len)
        return false;
    size_t second = first + 1 + str_find(str_sub(token, first + 1, token.len), '.');
    if (second >= token.len || !signature_holds(key, token, second) ||
        !from_base64url(&claims, str_sub(token, first + 1, second - first - 1)) ||
        json_parse(arena, str_dup(arena, buf_str(&claims)), &root, NULL) < 0)
        return false;
    const struct json *own = json_get(root, "kubernetes.io");
    struct jwt jwt = {
        .ns = json_str(json_get(own, "namespace")),
        .account = json_str(json_at(own, "serviceaccount.name")),
        .account_uid = json_str(json_at(own, "serviceaccount.uid")),
        .pod = json_str(json_at(own, "pod.name")),
        .pod_uid = json_str(json_at(own, "pod.uid")),
        .issued_ms = json_i64_or(json_get(root, "iat"), 0) * 1000,
        .expires_ms = json_i64_or(json_get(root, "exp"), 0) * 1000,
    };
    if (!jwt.ns.len || !jwt.account.len || jwt.expires_ms <= now_ms)
        return false;
    *ret = jwt;
    return true;
}
