#pragma once

#include "api/condition.h"
#include "base/str.h"

#include <stdint.h>

struct arena;
struct json;

/* status: writing the status of an object: its conditions (api/condition.h), and the patch that
 * turns the status there is into the status there should be. */

/* Of a pod that the scheduler has evicted: for whom, in words. */
#define CONDITION_EVICTED "muster.dev/Evicted"

/* Condition ReplicaFailure: what is asked for cannot be made, in these words; without them it goes. */
void refusal_write(struct arena *arena, struct json *status, struct str refusal, int64_t now_ms);

/* A JSON merge patch that makes `before` equal to `after`, members that are gone included; NULL
 * when they are equal. */
struct json *merge_diff(struct arena *arena, const struct json *before, const struct json *after);
