#pragma once

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

struct jwks;

/* issuer: one look at an OpenID Connect issuer, in a thread of the loop's pool and over HTTPS alone: its
 * discovery document; with `form`, the ID token for a code that it gave a browser; its keys, which are so
 * at least as new as that token. What is asked for is set before issuer_look_begin() and lives in `arena`,
 * where what was found is, too. */
#define ISSUER_PATH       "/.well-known/openid-configuration"
#define ISSUER_URL_BYTES  2048
#define ISSUER_BYTES_MAX  ((size_t)1 << 20) /* of an answer */
#define ISSUER_TIMEOUT_MS 10000             /* of each */

struct issuer_look {
    struct str issuer;
    struct str ca_file; /* empty: the machine's authorities */
    struct str form;    /* what the token endpoint is sent; empty: no code is exchanged */
    struct str client_id;
    struct str client_secret; /* empty: the client has none */
    void (*done)(struct issuer_look *look);
    void *user; /* NULL: whoever wanted it is gone */

    struct jwks *keys;        /* NULL: `err` says why; whoever takes them sets NULL */
    struct str authorization; /* where browsers are sent to; empty: the issuer has no such place */
    struct str scopes;        /* what is asked for there */
    struct str id_token;
    struct err err;

    struct arena arena;
    struct buf body;
    uv_work_t work;
};

/* `done` is called from the loop, once, and frees it; false: nothing was begun. */
bool issuer_look_begin(struct issuer_look *look, uv_loop_t *loop);
void issuer_look_free(struct issuer_look *look);

/* NAME=VALUE with percent signs, behind a '&' unless the text is empty or ends with '?'. */
void issuer_form_add(struct buf *buf, const char *name, struct str value);
