#pragma once

#include "base/str.h"
#include "base/vec.h"

#include <stdbool.h>
#include <stdint.h>

struct arena;

/* session: who is signed in at the page, and the links that sign in once. Pure: secrets are drawn
 * by the caller, and `now` is given.
 *
 * A session keeps the token that it was made with, and every request is made in that token's name:
 * what the token may do, the session may, and no longer than the token is good. A browser shows two
 * secrets: the id in a cookie, which scripts cannot read, and the key in a header, which no other
 * site (nor another port of this host, where cookies go too) knows. */
#define SESSION_SECRET_BYTES 64                          /* hexadecimal digits: 256 bits */
#define SESSION_MS_MAX       (INT64_C(24) * 3600 * 1000) /* then the viewer signs in again */
#define SESSION_LINK_MS_MAX  (INT64_C(10) * 60 * 1000)   /* of a link that nobody used */
#define SESSION_MAX          4096                        /* the oldest goes; some 1 KiB each */
#define SESSION_PER_USER_MAX 64                          /* browsers of one person */
#define SESSION_LINK_MAX     256
#define SESSION_LINKS_A_USER 16

struct session {
    char id[SESSION_SECRET_BYTES + 1];
    char key[SESSION_SECRET_BYTES + 1];
    char *token;
    char *who;
    int64_t ends_ms;
};

struct sessions {
    VEC(struct session) open;  /* the oldest first */
    VEC(struct session) links; /* id: the code; the oldest first */
};

/* A link whose code is `code`, in the name of `token`. `who` is who made it: a user, or all
 * ServiceAccounts of a namespace, whose tokens one person can make in any number. One who makes
 * links or sessions without end loses the own ones, not those of others. */
void sessions_add_link(struct sessions *sessions,
                       struct str code,
                       struct str token,
                       struct str who,
                       int64_t now_ms);
/* The token of a link, which is used up with it. False: there is none, or no longer. */
bool sessions_use_link(struct sessions *sessions,
                       struct arena *arena,
                       struct str code,
                       int64_t now_ms,
                       struct str *ret_token);
void sessions_open(struct sessions *sessions,
                   struct str id,
                   struct str key,
                   struct str token,
                   struct str who,
                   int64_t now_ms);
/* The token of a session; STR_NONE: nobody is signed in with these. Lives until the next change. */
struct str sessions_find(const struct sessions *sessions,
                         struct str id,
                         struct str key,
                         int64_t now_ms);
/* Who opened it, as sessions_open() was told. */
struct str sessions_who(const struct sessions *sessions,
                        struct str id,
                        struct str key,
                        int64_t now_ms);
void sessions_close(struct sessions *sessions, struct str id);
void sessions_done(struct sessions *sessions);
