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
/* Text that waits in sockets which are not read. A stream holds 256 KiB and one object of up to 1.5
 * MiB, so that a thousand of them would take 1.7 GiB. */
#define FAIR_PENDING_BYTES_MAX ((size_t)64 << 20)

/* What one user may have, and the words for one who has it. */
struct fair_limits {
    size_t requests_max;
    size_t streams_max;
    const char *requests_full;
    const char *streams_full;
};

struct fair {
    struct map users;                 /* name -> struct fair_user, those with something under way */
    const struct fair_limits *limits; /* NULL: those above */
};

struct fair_load {
    size_t streams;    /* how many it counts as; 0: it is a request */
    size_t body_bytes; /* at most */
};

/* NULL: go on, and fair_leave() with the same load later. Otherwise what there is too much of, as a
 * sentence's end: "200 requests under way". */
const char *fair_enter(struct fair *fair, struct str user, const struct fair_load *load);
void fair_leave(struct fair *fair, struct str user, const struct fair_load *load);
/* What waits in one of the user's streams was `*counted` bytes and is `now`. False: in all of them
 * together there is too much. The user has a load that is not left yet. */
bool fair_pending(struct fair *fair, struct str user, size_t *counted, size_t now);
void fair_done(struct fair *fair);
