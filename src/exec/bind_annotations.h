#pragma once

#include "base/str.h"

struct arena;
struct sched_bind;

/* bind_annotations: what a pod learns with its bind, besides its node: the devices and the NUMA zones
 * that the plan chose for it. */

/* A JSON object of annotations; empty: none. */
struct str bind_annotations(const struct sched_bind *bind, struct arena *arena);
