#pragma once

#include "base/str.h"

struct arena;
struct sched_bind;

/* bind_annotations: what a pod learns with its bind, besides its node: the devices and the NUMA zones
 * that the plan chose for it, and its pod group where nobody has told it yet. */

/* A JSON object of annotations; empty: none. `group` empty: the pod knows its own. */
struct str bind_annotations(const struct sched_bind *bind, struct str group, struct arena *arena);
