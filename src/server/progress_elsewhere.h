#pragma once

#include "api/api.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>

struct arena;
struct http_exchange;
struct log;

/* progress elsewhere: progress reports of a training (control/cluster/progress.h), on a server
 * beside a Kubernetes API server: that one checks the token and gets the report.
 *
 * 200: reported. 401: no token. 403: the token is not for this TrainJob, or of another namespace.
 * 413, 400, 422: what is wrong with the body. 404: no such TrainJob. 429: too many at once. 503:
 * the token could not be checked. */

/* Requests whose tokens are being checked. Anybody can send one, and each waits its turn among what
 * the controllers write: so many, and no more, can be in front of those. */
#define PROGRESS_UNKNOWN_MAX 32

struct progress_elsewhere {
    struct api *api;       /* outlives its calls: they come back even if the HTTP server is gone */
    const struct log *log; /* may be NULL */
    size_t unknown;        /* requests whose tokens are being checked */
};

/* As begin of an HTTP server: marks the exchange (x->user) if it is about a training's progress. */
void progress_elsewhere_begin(struct http_exchange *x);
/* As its handle, for exchanges that are marked. */
void progress_elsewhere_handle(struct progress_elsewhere *elsewhere, struct http_exchange *x);

/* Asks the API server whose token that is, and whether it is for this audience. */
void token_review(struct api *api,
                  struct arena *arena,
                  struct str token,
                  struct str audience,
                  api_done_fn *done,
                  void *user);
