#pragma once

#include "base/str.h"

#include <stdint.h>

struct api;
struct object;

/* applied: the condition Applied of an object that sets something of the scheduler: what of it took
 * effect. Written only where it says something new; nothing waits for it. */
struct applied {
    const char *reason; /* NULL: all of it took effect */
    struct str message; /* what did not and why; with all of it, what else is to be said */
};

void applied_tell(struct api *api,
                  const struct object *object,
                  const struct applied *applied,
                  int64_t now_ms);
