#pragma once

#include "base/str.h"

#include <stdbool.h>

struct request;
struct sessions;

/* page_signin: the page's door by the OpenID Connect issuer.
 *
 *     GET  /ui/login/issuer   {"issuer"}: empty where none signs people in
 *     GET  /ui/login          sends the browser to the issuer, with a secret in a cookie
 *     GET  /ui/callback       the issuer sends it back here, with a code (server/signin.h)
 *
 * The code is exchanged for an ID token, which is then the session's token like any that is pasted: the
 * browser is sent to /ui/enter with the code of a link, good once. What went wrong is a small document. */
struct page_door {
    struct sessions *sessions;
    const char *cookie; /* of the page; ours has more behind that name */
    bool secure;
};

bool page_signin_is(struct str path);
/* Answers a GET, perhaps later. `door` lives as long as the server. */
void page_signin_handle(struct request *request, const struct page_door *door);
