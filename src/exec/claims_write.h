#pragma once

#include "base/str.h"

#include <stddef.h>
#include <stdint.h>

struct api;
struct arena;
struct cache;
struct err;
struct sched_bind;

/* claims_write: what is written about ResourceClaims before their pods are bound: what each was
 * given, once, and that the pods have it. In the order of Kubernetes' own scheduler: a finalizer
 * first, so that devices are not forgotten, then the status in one write. */
struct claims_write;

/* What the binds (of one gang) need written; NULL: nothing. Lives on the arena. */
struct claims_write *claims_write_new(struct arena *arena,
                                      const struct sched_bind *binds,
                                      size_t count,
                                      int64_t now_ms);
/* Writes all of it; `done` hears of the end, with the first failure. What was written is taken back
 * then. The arena must live until. */
void claims_write_send(struct claims_write *write,
                       struct api *api,
                       const struct cache *cache,
                       void (*done)(void *user, int code, const struct err *err),
                       void *user);
/* The pods were not bound after all. */
void claims_write_undo(struct claims_write *write);
/* Neither the API nor the cache may be used any more: nothing is sent after what is under way, and
 * `done` hears -ECANCELED at its end. */
void claims_write_stop(struct claims_write *write);
