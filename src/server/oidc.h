#pragma once

#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

struct arena;
struct err;
struct json;
struct log;
struct signin;
struct user;

/* oidc: people whom an OpenID Connect issuer signs in, by the ID tokens that they send as bearer tokens, or
 * that the page gets for the code that the issuer gave their browser (server/page_signin.h); the options are
 * kube-apiserver's. The issuer is asked in a thread (server/issuer.h): for its keys at the start, from time to
 * time, and when a token names a key that is not known, at most every OIDC_AGAIN_MS. Nobody waits for that:
 * such a token is refused until then. */
#define OIDC_REFRESH_MS   ((int64_t)10 * 60 * 1000)
#define OIDC_AGAIN_MS     10000
#define OIDC_REQUIRED_MAX 16
#define OIDC_GROUPS_MAX   30 /* what a user can have beside our own */
#define OIDC_SIGNINS_MAX \
    2 /* codes that are exchanged at a time: the threads have other work, too */

struct oidc_options {
    struct str issuer;          /* https://...; empty: no OIDC */
    struct str client_id;       /* the audience */
    struct str client_secret;   /* for the page, where the issuer wants one */
    struct str username_claim;  /* empty: sub */
    struct str username_prefix; /* empty: ISSUER#, but for email; "-": none */
    struct str groups_claim;    /* empty: no groups */
    struct str groups_prefix;
    struct str ca_file;                     /* PEM; empty: the machine's authorities */
    struct str algorithms;                  /* "RS256,ES256"; empty: RS256 */
    struct str required[OIDC_REQUIRED_MAX]; /* "claim=value" */
    size_t required_count;
};

struct oidc;

/* -EINVAL with words that begin with the option that is wrong. */
int oidc_check(const struct oidc_options *options, struct err *err);
/* Whom claims that are known to be the issuer's speak of. Pure; false: nobody, or not for us; err says why,
 * of an "it" that is the token. */
bool oidc_user(const struct oidc_options *options,
               struct arena *arena,
               const struct json *claims,
               int64_t now_ms,
               struct user *ret,
               struct err *err);

/* Options are copied; they have passed oidc_check(). */
struct oidc *oidc_start(uv_loop_t *loop, const struct log *log, const struct oidc_options *options);
void oidc_stop(struct oidc *oidc); /* NULL is fine */
/* Whether the issuer's token says who asks. */
bool oidc_identify(struct oidc *oidc, struct arena *arena, struct str token, struct user *ret);

/* As it calls itself; empty: there is none. */
struct str oidc_issuer(const struct oidc *oidc);
/* Where a browser is sent to sign in; STR_NONE: the issuer has not answered yet, or takes no browsers. */
struct str oidc_signin_address(const struct oidc *oidc,
                               struct arena *arena,
                               const struct signin *signin);
/* `who` NULL: nobody, and `why` says so. */
typedef void oidc_signin_fn(void *user, const struct user *who, struct str token, const char *why);
/* Exchanges the code for an ID token. False: too many are signing in. `done` is called once, later. */
bool oidc_signin(struct oidc *oidc,
                 struct arena *arena,
                 const struct signin *signin,
                 struct str code,
                 oidc_signin_fn *done,
                 void *user);
