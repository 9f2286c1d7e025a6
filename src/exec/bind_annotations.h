#pragma once

#include "base/str.h"

#include <stdbool.h>

struct arena;
struct object;
struct sched_bind;

/* bind_annotations: what a pod learns with its bind, besides its node: the devices and the NUMA zones
 * that the plan chose for it, its pod group where nobody has told it yet, and that autoscalers leave it
 * where it is. */

/* A JSON object of annotations; empty: none. `pod`: as it is; NULL: not known. `stays`: it is not moved
 * so that a node can go, unless somebody has said of the pod whether it may be. */
struct str bind_annotations(const struct sched_bind *bind,
                            const struct object *pod,
                            bool stays,
                            struct arena *arena);
