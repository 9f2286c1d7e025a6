#pragma once

#include "base/map.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>

/* fair: what one user may have under way at a time, so that the others are served too. Pure.
 *
 * A request is turned away before its body is read, with 429 and a second to wait, as Kubernetes'
 * priority and fairness does. The owner is exempt, as system:masters is there. */

/* A request takes some milliseconds; kubectl and client-go have fewer than 100 at once. */
#define FAIR_REQUESTS_MAX 200
/* Watches, followed logs, exec, attach, ports, proxies. An operator has a watch a kind, some 50;
 * connections are 16384 in all. */
#define FAIR_STREAMS_MAX 1000
/* Bodies that are being read or worked on: ten of the largest. A tree takes ten times its text. */
#define FAIR_BODY_BYTES_MAX ((size_t)32 << 20)

struct fair {
    struct map users; /* name -> struct fair_user, those with something under way */
};

struct fair_load {
    bool stream;
    size_t body_bytes; /* at most */
};

/* NULL: go on, and fair_leave() with the same load later. Otherwise what there is too much of, as a
 * sentence's end: "200 requests under way". */
const char *fair_enter(struct fair *fair, struct str user, const struct fair_load *load);
void fair_leave(struct fair *fair, struct str user, const struct fair_load *load);
void fair_done(struct fair *fair);
