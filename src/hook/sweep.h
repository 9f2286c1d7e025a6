#pragma once

#include "api/api.h"

/* sweep: a collection that is deleted one by one, because each of it is asked about, or because
 * the store cannot tell which objects are meant. What the list of the same request gives goes,
 * each by a request of its own; the first refusal is the answer, and the others go all the same. */

/* Deletes the object that the request names. */
typedef void sweep_delete_fn(void *deleter,
                             const struct api_request *request,
                             api_done_fn *done,
                             void *user);

struct sweep {
    struct api *list; /* who is asked for the list */
    sweep_delete_fn *delete;
    void *deleter;
};

/* `sweep` is copied; `done` may be NULL. */
void sweep(const struct sweep *sweep,
           const struct api_request *request,
           api_done_fn *done,
           void *user);
