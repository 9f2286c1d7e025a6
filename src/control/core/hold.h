#pragma once

#include "base/str.h"

#include <stdint.h>

struct actions;
struct arena;
struct json;
struct object;

/* hold: what controllers tell the scheduler of the room of a gang that restarts (api/hold.h). */

/* How long the room of a job is held while it restarts, as its annotation says; 0: it is not. What
 * is to be said of an annotation that is not kept to goes to `ret_note`, which may be NULL. */
int64_t hold_ms(const struct object *job, struct arena *arena, struct str *ret_note);
/* Pods that are made of it hold their room so long when they fail. */
void hold_mark(struct arena *arena, struct json *pod, int64_t ms);
/* Until when the pod group was told to hold it; 0: it was not. */
int64_t hold_told_ms(const struct object *group);
/* 0: the annotation goes. */
void hold_write(struct actions *actions, const struct object *group, int64_t until_ms);
