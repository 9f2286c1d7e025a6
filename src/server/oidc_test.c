#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "server/oidc.h"
#include "server/request.h"
#include "test.h"

#include <stddef.h>
#include <string.h>

#define NOW_MS 1000000000000 /* 1000000000 in tokens */
#define ISSUER "https://i"
#define COMMON "\"iss\":\"" ISSUER "\",\"aud\":\"muster\",\"exp\":1000000001,\"sub\":\"7\""

TEST(whom_claims_speak_of_and_whom_they_do_not)
{
    static const struct oidc_options plain = {.issuer = STR(ISSUER), .client_id = STR("muster")};
    static const struct oidc_options full = {.issuer = STR(ISSUER),
                                             .client_id = STR("muster"),
                                             .username_claim = STR("email"),
                                             .username_prefix = STR("o:"),
                                             .groups_claim = STR("groups"),
                                             .groups_prefix = STR("g:"),
                                             .required = {STR("hd=lab")},
                                             .required_count = 1};
    static const struct oidc_options bare = {.issuer = STR(ISSUER),
                                             .client_id = STR("muster"),
                                             .username_claim = STR("name"),
                                             .username_prefix = STR("-"),
                                             .groups_claim = STR("groups")};
    static const struct {
        const char *why;
        const struct oidc_options *options;
        const char *claims;
        const char *name;  /* NULL: nobody */
        const char *group; /* the first */
    } rows[] = {
        {"the subject, behind the issuer", &plain, "{" COMMON "}", ISSUER "#7",
         "system:authenticated"},
        {"of several audiences one", &plain,
         "{\"iss\":\"" ISSUER "\",\"aud\":[\"x\",\"muster\"],\"azp\":\"muster\",\"exp\":1000000001,"
         "\"sub\":\"7\"}",
         ISSUER "#7", NULL},
        {"for another party", &plain,
         "{\"iss\":\"" ISSUER "\",\"aud\":[\"x\",\"muster\"],\"azp\":\"x\",\"exp\":1000000001,"
         "\"sub\":\"7\"}",
         NULL, NULL},
        {"for somebody else", &plain,
         "{\"iss\":\"" ISSUER "\",\"aud\":\"x\",\"exp\":1000000001,\"sub\":\"7\"}", NULL, NULL},
        {"for nobody", &plain, "{\"iss\":\"" ISSUER "\",\"exp\":1000000001,\"sub\":\"7\"}", NULL,
         NULL},
        {"of another issuer", &plain,
         "{\"iss\":\"" ISSUER "/\",\"aud\":\"muster\",\"exp\":1000000001,\"sub\":\"7\"}", NULL,
         NULL},
        {"over", &plain,
         "{\"iss\":\"" ISSUER "\",\"aud\":\"muster\",\"exp\":1000000000,\"sub\":\"7\"}", NULL,
         NULL},
        {"without an end", &plain, "{\"iss\":\"" ISSUER "\",\"aud\":\"muster\",\"sub\":\"7\"}",
         NULL, NULL},
        {"an end that is a text", &plain,
         "{\"iss\":\"" ISSUER "\",\"aud\":\"muster\",\"sub\":\"7\",\"exp\":\"1000000001\"}", NULL,
         NULL},
        {"not yet", &plain, "{" COMMON ",\"nbf\":1000000001}", NULL, NULL},
        {"by now", &plain, "{" COMMON ",\"nbf\":999999999.5}", ISSUER "#7", NULL},
        {"an email, groups and what is required", &full,
         "{" COMMON ",\"email\":\"a@lab\",\"groups\":[\"vision\",7,\"x\"],\"hd\":\"lab\"}",
         "o:a@lab", "g:vision"},
        {"one group", &full,
         "{" COMMON ",\"email\":\"a@lab\",\"groups\":\"vision\",\"hd\":\"lab\"}", "o:a@lab",
         "g:vision"},
        {"an email that nobody looked at", &full,
         "{" COMMON ",\"email\":\"a@lab\",\"email_verified\":false,\"hd\":\"lab\"}", NULL, NULL},
        {"an email of which an issuer says so in a text", &full,
         "{" COMMON ",\"email\":\"a@lab\",\"email_verified\":\"false\",\"hd\":\"lab\"}", NULL,
         NULL},
        {"what is required is not there", &full, "{" COMMON ",\"email\":\"a@lab\"}", NULL, NULL},
        {"no name", &full, "{" COMMON ",\"hd\":\"lab\"}", NULL, NULL},
        {"a name of this server's own", &bare, "{" COMMON ",\"name\":\"system:admin\"}", NULL,
         NULL},
        {"a group of this server's own", &bare,
         "{" COMMON ",\"name\":\"a\",\"groups\":[\"system:masters\",\"vision\"]}", "a", "vision"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct json *claims = NULL;
        struct user user = {0};
        struct err err = {0};

        test_case(rows[i].why);
        EXPECT(json_parse(&arena, str_from(rows[i].claims), &claims, NULL) == 0);
        EXPECT(oidc_user(rows[i].options, &arena, claims, NOW_MS, &user, &err) ==
               (rows[i].name != NULL));
        EXPECT((rows[i].name != NULL) == !err.text[0]);
        if (!rows[i].name)
            continue;
        EXPECT(str_is(user.name, rows[i].name) && !user.owner);
        EXPECT(user.expires_ms == NOW_MS + 1000);
        EXPECT(!rows[i].group || str_is(user.groups[0], rows[i].group));
        EXPECT(str_is(user.groups[user.group_count - 1], "system:authenticated"));
    }
}

TEST(options_of_an_issuer_that_mean_nothing_are_refused)
{
    static const struct {
        struct oidc_options options;
        const char *words; /* NULL: fine */
    } rows[] = {
        {{.issuer = STR("")}, NULL},
        {{.client_id = STR("m")}, "--oidc-issuer-url is missing"},
        {{.issuer = STR("http://i"), .client_id = STR("m")}, "must be an address of https"},
        {{.issuer = STR("https://i?x"), .client_id = STR("m")}, "--oidc-issuer-url"},
        {{.issuer = STR("https://i")}, "--oidc-client-id is missing"},
        {{.issuer = STR("https://i"), .client_id = STR("m"), .algorithms = STR("HS256")},
         "--oidc-signing-algs"},
        {{.issuer = STR("https://i"), .client_id = STR("m"), .algorithms = STR("RS256,ES256")},
         NULL},
        {{.issuer = STR("https://i"),
          .client_id = STR("m"),
          .required = {STR("hd")},
          .required_count = 1},
         "is not CLAIM=VALUE"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct err err = {0};

        EXPECT((oidc_check(&rows[i].options, &err) < 0) == (rows[i].words != NULL));
        EXPECT(!rows[i].words || strstr(err.text, rows[i].words));
    }
}
