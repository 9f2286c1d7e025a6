#pragma once

#include "control/cluster/ranks_told.h"

#include <stdbool.h>
#include <stddef.h>

struct api;
struct http_exchange;
struct log;

/* ranks elsewhere: what pods tell of their ranks (control/cluster/ranks_told.h), on a server beside a
 * Kubernetes API server: that one checks the token and gets the annotation.
 *
 * 200: written. 401: no token. 403: the token is not for this pod. 413, 400, 422: what is wrong with
 * the body. 404, 409: the pod is gone, or another has its name. 429: too often, or too many at once.
 * 503: the token could not be checked. */

/* Requests whose tokens are being checked, as PROGRESS_UNKNOWN_MAX and beside these. */
#define RANKS_UNKNOWN_MAX 32

struct ranks_elsewhere {
    struct api *api;       /* outlives its calls: they come back even if the HTTP server is gone */
    const struct log *log; /* may be NULL */
    size_t unknown;        /* requests whose tokens are being checked */
    struct ranks_told told;
};

/* As begin of an HTTP server: marks the exchange (x->user) if it tells of a pod's ranks. */
void ranks_elsewhere_begin(struct http_exchange *x);
/* Whether one that is marked is so by this. */
bool ranks_elsewhere_is(const struct http_exchange *x);
void ranks_elsewhere_handle(struct ranks_elsewhere *elsewhere, struct http_exchange *x);
/* When the server has stopped. */
void ranks_elsewhere_done(struct ranks_elsewhere *elsewhere);
