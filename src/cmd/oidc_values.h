#pragma once

#include "tool/option.h"

#include <stddef.h>

struct arena;
struct err;
struct oidc_options;

/* oidc_values: the flags of kube-apiserver for an OpenID Connect issuer. */
struct oidc_values {
    const char *issuer;
    const char *client_id;
    const char *username_claim;
    const char *username_prefix;
    const char *groups_claim;
    const char *groups_prefix;
    const char *ca_file;
    const char *client_secret_file;
    const char *algorithms;
    struct option_list required;
};

#define OIDC_STR(type, member, field, flag, word, text)                                \
    {                                                                                  \
        flag, 0, OPTION_STR, offsetof(type, member.field), .value = word, .help = text \
    }

#define OIDC_OPTIONS(type, member)                                                              \
    OIDC_STR(                                                                                   \
        type, member, issuer, "oidc-issuer-url", "URL",                                         \
        "OpenID Connect issuer whose ID tokens sign people in, as it calls itself: https only " \
        "(default: none)"),                                                                     \
        OIDC_STR(type, member, client_id, "oidc-client-id", "ID",                               \
                 "client for which the tokens must be (aud)"),                                  \
        OIDC_STR(type, member, username_claim, "oidc-username-claim", "CLAIM",                  \
                 "claim that is the user's name (default: sub)"),                               \
        OIDC_STR(type, member, username_prefix, "oidc-username-prefix", "TEXT",                 \
                 "what stands before that name; - for nothing (default: the issuer and #, but " \
                 "nothing before an email)"),                                                   \
        OIDC_STR(type, member, groups_claim, "oidc-groups-claim", "CLAIM",                      \
                 "claim that has the user's groups, a text or a list (default: no groups)"),    \
        OIDC_STR(type, member, groups_prefix, "oidc-groups-prefix", "TEXT",                     \
                 "what stands before each group"),                                              \
        OIDC_STR(type, member, ca_file, "oidc-ca-file", "FILE",                                 \
                 "authorities that the issuer's certificate is checked with (default: the "     \
                 "machine's)"),                                                                 \
        OIDC_STR(type, member, client_secret_file, "oidc-client-secret-file", "FILE",           \
                 "the client's secret, for signing in on the page where the issuer wants one "  \
                 "(default: none)"),                                                            \
        OIDC_STR(type, member, algorithms, "oidc-signing-algs", "ALG,...",                      \
                 "how tokens may be signed: RS256, ES256 (default: RS256)"),                    \
    {                                                                                           \
        "oidc-required-claim", 0, OPTION_LIST, offsetof(type, member.required),                 \
            .value = "CLAIM=VALUE",                                                             \
            .help = "a claim that a token must have; can be given several times"                \
    }

/* Points into the values and the arena. */
int oidc_values_read(const struct oidc_values *values,
                     struct arena *arena,
                     struct oidc_options *ret,
                     struct err *err);
