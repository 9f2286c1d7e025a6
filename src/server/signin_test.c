#include "base/arena.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "http1/parse.h"
#include "server/signin.h"
#include "test.h"

#include <stdbool.h>
#include <stddef.h>

static struct str at(struct arena *arena, struct str address, const char *name)
{
    size_t mark = str_find(address, '?');

    return http_query(arena, str_sub(address, mark + 1, address.len), name);
}

TEST(a_challenge_is_the_one_of_rfc_7636)
{
    _cleanup_(arena_done) struct arena arena = {0};

    EXPECT(str_is(signin_challenge(&arena, STR("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk")),
                  "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"));
}

TEST(what_a_browser_is_sent_with_fits_what_its_code_is_exchanged_with)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct signin mine = {STR("key"), STR("mine"), STR("https://gpu:7443/ui/callback")};
    struct signin other = {STR("key"), STR("other"), STR("https://gpu:7443/ui/callback")};
    struct signin elsewhere = {STR("key2"), STR("mine"), STR("https://gpu:7443/ui/callback")};
    struct signin_place place = {STR("https://login.lab/authorize?tenant=a"), STR("mu ster"),
                                 STR("openid email")};
    struct str address = signin_address(&arena, &mine, &place);
    struct str form = signin_form(&arena, &mine, STR("a&b"));
    struct str verifier = http_query(&arena, form, "code_verifier");

    EXPECT(str_starts(address, STR("https://login.lab/authorize?tenant=a&response_type=code&")));
    EXPECT(str_is(at(&arena, address, "client_id"), "mu ster"));
    EXPECT(str_eq(at(&arena, address, "redirect_uri"), mine.back));
    EXPECT(str_is(at(&arena, address, "scope"), "openid email"));
    EXPECT(str_is(at(&arena, address, "code_challenge_method"), "S256"));
    EXPECT(str_eq(at(&arena, address, "state"), signin_state(&arena, &mine)));
    EXPECT(str_eq(at(&arena, address, "nonce"), signin_nonce(&arena, &mine)));
    EXPECT(str_is(http_query(&arena, form, "code"), "a&b"));
    EXPECT(str_eq(http_query(&arena, form, "redirect_uri"), mine.back));
    EXPECT(str_eq(at(&arena, address, "code_challenge"), signin_challenge(&arena, verifier)));
    EXPECT(verifier.len == 43 && !str_contains(address, verifier));

    /* Another browser, or another server, has another of each. */
    EXPECT(!str_eq(signin_state(&arena, &mine), signin_state(&arena, &other)));
    EXPECT(!str_eq(signin_nonce(&arena, &mine), signin_nonce(&arena, &other)));
    EXPECT(!str_eq(signin_state(&arena, &mine), signin_state(&arena, &elsewhere)));
    EXPECT(!str_eq(signin_state(&arena, &mine), signin_nonce(&arena, &mine)));
    EXPECT(!str_eq(signin_form(&arena, &mine, STR("c")), signin_form(&arena, &other, STR("c"))));
}
