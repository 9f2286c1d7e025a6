#pragma once

#include "base/str.h"

struct arena;

/* signin: what a browser is sent to an OpenID Connect issuer with, and what its answer is held against: the
 * authorization code flow with PKCE (RFC 7636), a state and a nonce. Pure.
 *
 * Nothing is kept here between the two halves: the browser keeps one random secret in a cookie, and state,
 * nonce and verifier are made from it with our key. So nobody can fill a table of sign-ins under way, a
 * restart loses none, and a code that was got with another browser's secret is worth nothing in this one. */
struct signin {
    struct str key;    /* ours, secret */
    struct str secret; /* the browser's */
    struct str back;   /* the address that the issuer sends the browser back to */
};

struct str signin_state(struct arena *arena, const struct signin *signin);
struct str signin_nonce(struct arena *arena, const struct signin *signin);
/* code_challenge of a code_verifier, by S256. */
struct str signin_challenge(struct arena *arena, struct str verifier);

/* Where the issuer takes browsers, as which client, and what is asked for. */
struct signin_place {
    struct str authorization;
    struct str client_id;
    struct str scopes;
};
struct str signin_address(struct arena *arena,
                          const struct signin *signin,
                          const struct signin_place *place);
/* What the token endpoint is sent for the code that the issuer gave the browser. */
struct str signin_form(struct arena *arena, const struct signin *signin, struct str code);
