#pragma once

#include "base/str.h"
#include "sched/sched.h"

#include <stdbool.h>
#include <stdint.h>

struct api;
struct arena;
struct cache;
struct json;
struct object;

/* pod_write: what the scheduler tells single pods. Sent and forgotten. */

/* An event of the scheduler about a pod. */
void pod_tell(struct api *api,
              const struct sched_pod_ref *pod,
              const char *reason,
              struct str message,
              bool warning,
              int64_t now_ms);
/* That it waits for a claim of a volume, which is to be bound for its node: an event and a condition. */
void pod_tell_volume(struct api *api,
                     const struct cache *cache,
                     const struct sched_pod_ref *pod,
                     struct str node,
                     struct str claim,
                     int64_t now_ms);
/* Strategic, because a pod's conditions are everybody's: each is merged by its type. */
void pod_patch_status(struct api *api,
                      const struct object *pod,
                      struct arena *arena,
                      struct json *status);
