#pragma once

#include "base/str.h"

struct arena;
struct json;

/* launcher: puts muster-launch into a pod on a cluster.
 *
 * Embedded, the node agent binds the binary into every pod. On a cluster an init container from our
 * image copies it to a volume that all containers whose command is LAUNCH_PATH mount. `image`
 * empty: nothing is done. */
void launcher_add(struct json *pod, struct str image, struct arena *arena);
