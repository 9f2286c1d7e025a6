#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "http/jwt.h"
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
