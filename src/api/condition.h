#pragma once

#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

struct arena;
struct json;

/* condition: the conditions in the status of an object, which keep their moment of change. */
struct condition {
    const char *type;
    const char *status; /* True, False, Unknown */
    const char *reason; /* CamelCase; for condition_set() also NULL: without reason and message */
    struct str message; /* a sentence; borrowed */
};

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
