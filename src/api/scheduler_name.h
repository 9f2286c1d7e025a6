#pragma once

#include "base/str.h"

#include <stdbool.h>

/* scheduler_name: whose pods a scheduler places.
 *
 * A list of names with commas between them; empty: all pods are its own. A pod that names none is
 * default-scheduler's. Others hold room where somebody bound them, and are not placed: whoever
 * writes such a name has a scheduler of his own, or wants the pod to wait. */
#define SCHEDULER_DEFAULT "default-scheduler"
/* The one in `muster up`, which stands for KAI's and for a cluster's own. */
#define SCHEDULER_EMBEDDED "kai-scheduler," SCHEDULER_DEFAULT ",muster"

bool scheduler_places(struct str list, struct str name);
