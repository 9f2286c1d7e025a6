#pragma once

#include "base/str.h"

#include <stdint.h>

struct arena;
struct pod;

/* status: what the API is told of a pod, as a patch. Pure. */
struct str status_patch(struct arena *arena, struct pod *pod, int64_t now_ms);
