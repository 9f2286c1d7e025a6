#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "http/jwt.h"
#include "http/jwt_public.h"
#include "test.h"

#include <stddef.h>

#define NOW_MS ((int64_t)1800000000000)

TEST(token_holds_until_it_expires_and_only_unchanged)
{
    _cleanup_(arena_done) struct arena arena = {0};
    _cleanup_(buf_done) struct buf token = {0};
    struct jwt jwt = {.ns = STR("a"),
                      .account = STR("bot"),
                      .account_uid = STR("u-1"),
                      .pod = STR("p"),
                      .pod_uid = STR("u-2"),
                      .issued_ms = NOW_MS,
                      .expires_ms = NOW_MS + 60000};
    struct jwt read = {0};

    jwt.audience = STR("somebody");
    jwt_sign(&token, STR("secret"), &jwt);
    EXPECT(jwt_verify(&arena, STR("secret"), buf_str(&token), NOW_MS, &read));
    EXPECT(str_is(read.audience, "somebody"));
    struct str first = read.id; /* each has one of its own */
    EXPECT(first.len == 36);
    token.len = 0;
    jwt.audience = STR_NONE;
    jwt_sign(&token, STR("secret"), &jwt);
    EXPECT(jwt_verify(&arena, STR("secret"), buf_str(&token), NOW_MS, &read));
    EXPECT(!read.audience.len);
    EXPECT(read.id.len == 36 && !str_eq(read.id, first));
    EXPECT(jwt_verify(&arena, STR("secret"), buf_str(&token), NOW_MS, &read));
    EXPECT(str_is(read.ns, "a") && str_is(read.account, "bot") && str_is(read.pod_uid, "u-2"));
    EXPECT(!jwt_verify(&arena, STR("secret"), buf_str(&token), NOW_MS + 60000, &read));
    EXPECT(!jwt_verify(&arena, STR("other"), buf_str(&token), NOW_MS, &read));
    EXPECT(!jwt_verify(&arena, STR(""), buf_str(&token), NOW_MS, &read));
    /* Every character but the last counts whole; the last one carries unused bits. */
    for (size_t i = 0; i + 1 < token.len; i++) {
        char old = token.p[i];

        token.p[i] = old == 'A' ? 'B' : 'A';
        EXPECT(!jwt_verify(&arena, STR("secret"), buf_str(&token), NOW_MS, &read));
        token.p[i] = old;
        EXPECT(!jwt_verify(&arena, STR("secret"), str_sub(buf_str(&token), 0, i), NOW_MS, &read));
    }
}

TEST(a_token_for_somebody_else_is_checked_with_the_public_key)
{
    _cleanup_(arena_done) struct arena arena = {0};
    _cleanup_(buf_done) struct buf key = {0};
    _cleanup_(buf_done) struct buf other = {0};
    _cleanup_(buf_done) struct buf keys = {0};
    _cleanup_(buf_done) struct buf token = {0};
    _cleanup_(buf_done) struct buf own = {0};
    struct jwt read = {0};
    struct jwt jwt = {.ns = STR("a"),
                      .account = STR("bot"),
                      .audience = STR("somebody"),
                      .issued_ms = NOW_MS,
                      .expires_ms = NOW_MS + 60000};

    buf_add(&key, STR("secret\n"));
    buf_add(&other, STR("secret\n"));
    EXPECT(jwt_public_make(&key, NULL) == 0 && jwt_public_make(&other, NULL) == 0);
    for (int i = 0; i < 8; i++) { /* numbers with zeros at their head are rare */
        token.len = 0;
        jwt_sign(&token, buf_str(&key), &jwt);
        EXPECT(jwt_verify(&arena, buf_str(&key), buf_str(&token), NOW_MS, &read));
    }
    EXPECT(str_is(read.audience, "somebody") && str_is(read.account, "bot"));
    EXPECT(!jwt_verify(&arena, buf_str(&other), buf_str(&token), NOW_MS, &read));
    EXPECT(!jwt_verify(&arena, STR("secret"), buf_str(&token), NOW_MS, &read));
    EXPECT(!jwt_verify(&arena, buf_str(&key), buf_str(&token), NOW_MS + 60000, &read));
    token.p[str_find(buf_str(&token), '.') + 3] ^= 1;
    EXPECT(!jwt_verify(&arena, buf_str(&key), buf_str(&token), NOW_MS, &read));
    jwt_keys(&keys, buf_str(&key));
    EXPECT(str_contains(buf_str(&keys), STR("\"kty\":\"EC\"")));
    EXPECT(str_contains(buf_str(&keys), STR("\"alg\":\"ES256\"")));
    keys.len = 0;
    jwt_keys(&keys, STR("secret"));
    EXPECT(str_is(buf_str(&keys), "{\"keys\":[]}"));
    /* Ours to check, and those of an older program. */
    jwt_sign(&own, STR("secret"), &jwt);
    EXPECT(jwt_verify(&arena, buf_str(&key), buf_str(&own), NOW_MS, &read));
    own.len = 0;
    jwt.audience = STR_NONE;
    jwt_sign(&own, buf_str(&key), &jwt);
    EXPECT(jwt_verify(&arena, STR("secret"), buf_str(&own), NOW_MS, &read));
}
