#pragma once

#include "api/api.h"

#include <stdint.h>

struct cache;
struct sched_pod_ref;

/* resumer: lets suspended pods go on. Such a pod is bound already: the annotation that suspends it
 * is taken off, and it has its GPUs again.
 *
 * A write that got no answer may have happened, and then nobody else may be given these GPUs. So it
 * is sent until it is answered, and `done` comes when it is certain whether it happened. */
#define RESUMER_RETRY_MS 1000

struct resumer;

struct resumer_options {
    struct api *api;
    const struct cache *cache; /* pods */
    void (*again)(void *user); /* wants a turn soon */
    void *user;
};

struct resumer *resumer_new(const struct resumer_options *options);
/* Who waits is told -ECANCELED, or when its answer comes. NULL is fine. */
void resumer_free(struct resumer *resumer);
/* Only the pod that the cache has now: one that is being deleted by then has left its GPUs for good,
 * and they may be another's. */
void resumer_send(struct resumer *resumer,
                  const struct sched_pod_ref *pod,
                  api_done_fn *done,
                  void *user);
/* Sends what is due again. When to come back; INT64_MAX: nothing waits. */
int64_t resumer_turn(struct resumer *resumer, int64_t now_ms);
