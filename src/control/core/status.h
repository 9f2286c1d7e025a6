#pragma once

#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

struct arena;
struct json;

/* status: small helpers for writing the status of an object: conditions that keep their moment of
 * change, and the patch that turns the status there is into the status there should be. */
struct condition {
    const char *type;
    const char *status; /* True, False, Unknown */
    const char *reason; /* CamelCase */
    struct str message; /* a sentence; borrowed */
};

/* Of a pod that the scheduler has evicted: for whom, in words. */
#define CONDITION_EVICTED "muster.dev/Evicted"

/* Put `condition` into status.conditions (made when missing). lastTransitionTime moves only when
 * the condition's status does; reason and message always follow. */
void condition_set(struct arena *arena,
                   struct json *status,
                   const struct condition *condition,
                   int64_t now_ms);
/* For a list that others write to as well (a pod's): {"conditions": [...]} with this condition
 * alone, as a strategic merge patch of `status`; NULL when `status` says it already. */
struct json *condition_patch(struct arena *arena,
                             const struct json *status,
                             const struct condition *condition,
                             int64_t now_ms);
/* The condition of that type in an object's tree, or NULL. */
const struct json *condition_find(const struct json *status, const char *type);
bool condition_is_true(const struct json *status, const char *type);

/* A JSON merge patch that makes `before` equal to `after`, members that are gone included; NULL
 * when they are equal. */
struct json *merge_diff(struct arena *arena, const struct json *before, const struct json *after);
