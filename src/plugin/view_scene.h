#pragma once

#include "plugin/view.h"

#include <stdint.h>

struct arena;
struct kind;

/* view scene: what tests of the views look at, an hour after it was made. */
#define CREATED "\"creationTimestamp\":\"2026-11-15T02:00:00Z\""

/* Four jobs, of queues q and r: one runs, one waits, one is suspended, one is over. Ends with NULL. */
extern const char *const view_scene_jobs[];

/* Objects of one kind from their texts, the last of which is NULL; object_release()d with the arena. */
struct view_objects view_scene_objects(struct arena *arena,
                                       const struct kind *kind,
                                       const char *const *texts);
int64_t view_scene_now_ms(void);
