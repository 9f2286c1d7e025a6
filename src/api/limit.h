#pragma once

#include "base/str.h"

#include <stdbool.h>

struct arena;
struct json;

/* limit: limits a container to the memory of its share (api/share.h).
 *
 * libmuster-gpu.so (preload/) is loaded into every program of the container that has the share, and
 * refuses what would pass the limit. Its whole contract is the container's environment:
 *
 *     LD_PRELOAD             LIMIT_LIBRARY, behind whatever is preloaded already
 *     MUSTER_GPU_MEMORY_MIB  the limit, of each device (SHARE_MEMORY)
 *     MUSTER_GPU_REGION      a file that the container's processes share, to count in
 *
 * Embedded the node agent binds both files into the container (agent/limit.c); on a cluster
 * admission adds an init container that copies the library out of our image (limit_mutate). A pod
 * whose annotation LIMIT_ANNOTATION is "false" is left alone. */
#define LIMIT_LIBRARY_DIR "/.muster-gpu"
#define LIMIT_LIBRARY     LIMIT_LIBRARY_DIR "/" LIMIT_LIBRARY_NAME
#define LIMIT_HELPER      LIMIT_LIBRARY_DIR "/muster-launch" /* on a cluster: has it move memory */
#define LIMIT_CONTAINER \
    "muster-gpu" /* on a cluster: the init container that puts both there, and its volume */
#define LIMIT_REGION_DIR "/.muster-gpu-region"
#define LIMIT_REGION     LIMIT_REGION_DIR "/region"

#define LIMIT_LIBRARY_NAME "libmuster-gpu.so"
#define LIMIT_ENV_REGION   "MUSTER_GPU_REGION"
#define LIMIT_ENV_PRELOAD  "LD_PRELOAD"
#define LIMIT_ANNOTATION   "torchrun.ai/gpu-memory-enforced"

/* What LD_PRELOAD has to be: the library behind what is there, once. */
struct str limit_preload(struct arena *arena, struct str before, struct str library);

/* On a cluster, for a pod that share_check() found good: before share_mutate(), since it changes
 * the index of init containers. `image` has the library. Doing it twice changes nothing. */
void limit_mutate(struct arena *arena, struct json *pod, struct str image);
